#include "daemon/host/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "query/visible.h"

const char *role_name(enum role role)
{
	static const char *const names[] = {"none", "viewer", "operator"};

	return names[role];
}

bool identity_is_name(const void *bytes, size_t n)
{
	char text[IDENTITY_NAME_BYTES] = "";

	if (n == 0 || n >= IDENTITY_NAME_BYTES)
		return false;
	memcpy(text, bytes, n);
	return strlen(text) == n && visible_is_all(text);
}

void identity_set_name(struct client_identity *identity, enum identity_proof proof,
		       const char *name)
{
	*identity = (struct client_identity){.proof = proof};
	snprintf(identity->text, sizeof(identity->text), "%s:%s",
		 proof == IDENTITY_CERT ? "cert" : "token", name);
}

void identity_set_unproved(struct client_identity *identity)
{
	*identity = (struct client_identity){.proof = IDENTITY_UNPROVED, .text = "nobody yet"};
}

void identity_set_local(struct client_identity *identity)
{
	*identity = (struct client_identity){.proof = IDENTITY_LOCAL, .text = "local"};
}

void identity_set_relay(struct client_identity *identity, enum role role)
{
	*identity = (struct client_identity){.proof = IDENTITY_RELAY, .role = role, .text = "relay"};
}

void identity_set_through(struct client_identity *identity, const char *client)
{
	*identity = (struct client_identity){.proof = IDENTITY_THROUGH, .role = ROLE_VIEWER};
	snprintf(identity->text, sizeof(identity->text), "relay:%s", client);
	visible_replace(identity->text);	/* it may be cut inside a character */
}

int identity_of_unix_peer(int fd, struct client_identity *identity)
{
	struct ucred who;
	socklen_t bytes = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0)
		return -errno;
	*identity = (struct client_identity){.proof = IDENTITY_USER, .uid = who.uid};
	snprintf(identity->text, sizeof(identity->text), "user:%u", who.uid);
	/* Somebody in more groups than fit is judged by his first alone: never by too much. */
	identity->group[0] = who.gid;
	identity->groups = 1;
	bytes = (IDENTITY_GROUPS_MAX - 1) * sizeof(gid_t);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, identity->group + 1, &bytes) == 0)
		identity->groups += bytes / sizeof(gid_t);
	return 0;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static const char *const prefix_of[RULE_KINDS] = {"cert:", "token:", "user:", "group:", "local"};

const char *rule_name(const struct rule *rule)
{
	return rule->text + strlen(prefix_of[rule->kind]);
}

int rule_parse(const char *text, enum role role, struct rule *rule, struct error *error)
{
	*rule = (struct rule){.kind = RULE_KINDS, .role = role};
	for (unsigned i = 0; i < RULE_KINDS; i++)
		if (i == RULE_LOCAL ? strcmp(text, prefix_of[i]) == 0 :
				      strncmp(text, prefix_of[i], strlen(prefix_of[i])) == 0)
			rule->kind = (enum rule_kind)i;
	if (rule->kind == RULE_KINDS) {
		error_set(error, EINVAL, "rule-unknown", "`%.60s` is not a rule", text);
		error_hint(error, "write cert:NAME, token:NAME, user:NAME, group:NAME or local");
		return -EINVAL;
	}
	if (rule->kind == RULE_LOCAL && role == ROLE_OPERATOR) {
		error_set(error, EINVAL, "rule-local-operator",
			  "plain tcp does not authenticate: `local` may be a viewer only");
		error_hint(error, "operators connect by unix socket or TLS");
		return -EINVAL;
	}
	snprintf(rule->text, sizeof(rule->text), "%s", text);
	if (rule->kind != RULE_LOCAL && !identity_is_name(rule_name(rule), strlen(rule_name(rule)))) {
		error_set(error, EINVAL, "rule-unknown", "`%.60s` holds no name", text);
		error_hint(error, "a name has 1 to %u bytes of text", IDENTITY_NAME_BYTES - 1);
		return -EINVAL;
	}
	return 0;
}

bool rule_admits_any(char *const *word, unsigned words, enum identity_proof proof)
{
	const char *prefix = prefix_of[proof == IDENTITY_CERT ? RULE_CERT : RULE_TOKEN];

	for (unsigned i = 0; i < words; i++)
		if (strncmp(word[i], prefix, strlen(prefix)) == 0)
			return true;
	return false;
}
