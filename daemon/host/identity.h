/*
 * identity: who a client is, how that was proved, and what it may do.
 *
 * A name is one of
 *
 *	cert:NAME	the common name of a certificate that our client CA signed
 *	token:NAME	the name of a token in the tokens file
 *	user:UID	the peer of a unix socket, as the kernel says; with the groups it is in
 *	relay		a relay that this daemon has dialled
 *	relay:NAME	a client of that relay, whose name at the relay is NAME: the relay says so
 *	local		somebody on this host: plain tcp on loopback proves no more
 *
 * A rule is a word of the options viewer and operator, which says whose clients are meant: cert:NAME, token:NAME
 * (with globs), user:NAME, group:NAME (or numbers) or local. Nothing is looked up here: access/gate.h does.
 *
 * Pure, but for identity_of_unix_peer(); any thread.
 */
#ifndef RINGTAIL_DAEMON_HOST_IDENTITY_H
#define RINGTAIL_DAEMON_HOST_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "query/error.h"

#define IDENTITY_NAME_BYTES	64	/* of what follows cert: or token:, with its end */
#define IDENTITY_TEXT_BYTES	80
#define IDENTITY_GROUPS_MAX	64u	/* supplementary ones looked at */
#define IDENTITY_TOKEN_BYTES	32	/* of a token's SHA-256 */

enum role {
	ROLE_NONE,
	ROLE_VIEWER,
	ROLE_OPERATOR,
};

enum identity_proof {
	IDENTITY_UNPROVED,		/* TLS without a certificate, before a token */
	IDENTITY_CERT,
	IDENTITY_TOKEN,
	IDENTITY_USER,
	IDENTITY_LOCAL,
	IDENTITY_RELAY,			/* this daemon has dialled it, and verified its certificate */
	IDENTITY_THROUGH,		/* a client of such a relay: no more than the relay's word */
};

struct client_identity {
	enum identity_proof proof;
	enum role role;				/* roles_judge() */
	char text[IDENTITY_TEXT_BYTES];		/* "cert:alice"; "nobody yet" if unproved */
	uid_t uid;				/* of IDENTITY_USER */
	unsigned groups;
	gid_t group[IDENTITY_GROUPS_MAX];
	uint8_t token[IDENTITY_TOKEN_BYTES];	/* of IDENTITY_TOKEN: SHA-256 of what was shown */
};

const char *role_name(enum role role);	/* "viewer", "operator", "none" */

/*
 * Whether these bytes may be a name: 1 to IDENTITY_NAME_BYTES - 1 of UTF-8 without control
 * characters, so that it can stand in a log, a rule and a line of a file.
 */
bool identity_is_name(const void *bytes, size_t n);

/* For IDENTITY_CERT and IDENTITY_TOKEN; the name is one by identity_is_name(). */
void identity_set_name(struct client_identity *identity, enum identity_proof proof,
		       const char *name);
void identity_set_unproved(struct client_identity *identity);
void identity_set_local(struct client_identity *identity);

/* No rule judges it: it has the role that the option relay-role gives. */
void identity_set_relay(struct client_identity *identity, enum role role);

/* The same, of a client of a relay: "relay:cert:alice". It is a viewer, whoever it is there. */
void identity_set_through(struct client_identity *identity, const char *client);

/* Asks the kernel who is at the other end of a unix socket. 0 or -errno. */
int identity_of_unix_peer(int fd, struct client_identity *identity);

enum rule_kind {
	RULE_CERT,
	RULE_TOKEN,
	RULE_USER,
	RULE_GROUP,
	RULE_LOCAL,
	RULE_KINDS,
};

struct rule {
	enum rule_kind kind;
	enum role role;
	char text[IDENTITY_TEXT_BYTES];		/* as it was written */
};

/* -EINVAL with *error: it is not written as a rule, or means somebody who cannot have that role. */
int rule_parse(const char *text, enum role role, struct rule *rule, struct error *error);

/* What follows the kind: "alice". */
const char *rule_name(const struct rule *rule);

/* Whether a rule could let somebody in by a certificate, or by a token. */
bool rule_admits_any(char *const *word, unsigned words, enum identity_proof proof);

#endif
