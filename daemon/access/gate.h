/*
 * gate: decides which clients may connect, and what they may do: TLS, tokens and roles of the configuration.
 *
 * In: a configuration and the files that it names; the identity and token of a client. Out: a context for TLS; the
 * client's role, or a refusal with a hint. A reload replaces all of the gate, or nothing of it. Main thread.
 */
#ifndef RINGTAIL_DAEMON_ACCESS_GATE_H
#define RINGTAIL_DAEMON_ACCESS_GATE_H

#include "daemon/config/config.h"
#include "daemon/host/identity.h"
#include "query/error.h"

/*
 * Roles: who may do what, by the options viewer and operator. What no rule allows is denied. How a
 * rule is written: host/identity.h. Root and the account that started the daemon are always operators.
 * Without any rule, group:ringtail and local are viewers. Names of users and groups are looked up when
 * the rules are made, never when a client connects.
 */
struct roles;

/* 0, or -EINVAL with *error: a text that is not a rule, or the name of no account. */
int roles_create(const struct config_words *viewer, const struct config_words *operator,
		 struct roles **roles, struct error *error);
void roles_destroy(struct roles *roles);

/* The role of that client. */
enum role roles_judge(const struct roles *roles, const struct client_identity *identity);

/* Its name in messages: "user:alice" if a rule names that user, otherwise identity->text. */
const char *roles_name(const struct roles *roles, const struct client_identity *identity);

/*
 * Tokens: clients known by a secret. The file has lines NAME:sha256:HEX, the digest of the token's
 * text; the secret itself is nowhere on this host. A token has 256 random bits, so the digest needs
 * no salt and no slowness.
 */
struct tokens;

/* Reads the file: it has to be ours or root's, and closed to others. 0, or -errno with *error. */
int tokens_load(const char *path, struct tokens **tokens, struct error *error);

/* The same from text, which errors call `name`. */
int tokens_parse(const char *text, size_t bytes, const char *name, struct tokens **tokens,
		 struct error *error);
void tokens_destroy(struct tokens *tokens);

/* Finds the owner of a token: sets *identity and returns 0, or -EACCES. Takes the same time for every token. */
int tokens_find(const struct tokens *tokens, const char *token, struct client_identity *identity);

/* Whether the token that proved this identity is still valid. */
bool tokens_hold(const struct tokens *tokens, const struct client_identity *identity);

struct gate;
struct transport_tls_context;

/* Reads the files; *error says which is missing, open to others, or wrong. */
int gate_create(const struct config *config, struct gate **gate, struct error *error);

/* Moves the contents of `next` into `gate`, and destroys `next`. TLS stays on or off, as it was. */
void gate_replace(struct gate *gate, struct gate *next);

/* NULL is safe. */
void gate_destroy(struct gate *gate);

/* The context for TLS sockets; NULL: there is no certificate. */
struct transport_tls_context *gate_tls(const struct gate *gate);

/*
 * Admits a client. If the token is not empty, *identity becomes the owner of the token. Then decides the role.
 * 0, or -EACCES with *error, which names the client and the rule that it needs.
 */
int gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
	       struct error *error);

/* Decides the role again after a reload: the rule or the token may have been removed. */
void gate_judge(const struct gate *gate, struct client_identity *identity);

/* 0, or -EACCES with *error if the role is lower than `needed`. `what`: "change what is always on". */
int gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
	       const char *what, struct error *error);

/* The name of that client in messages: "user:alice". */
const char *gate_name(const struct gate *gate, const struct client_identity *identity);

#endif
