/*
 * roles: who may do what, by the options viewer and operator. What no rule allows is denied.
 *
 * A rule is cert:NAME, token:NAME (with globs), user:NAME, group:NAME (or numbers) or local. Root,
 * and who started the daemon, are operators always. Without any rule, group:ringtail and local are
 * viewers. Names of users and groups are looked up when the rules are made, never when somebody
 * connects.
 */
#ifndef RINGTAIL_DAEMON_ACCESS_ROLES_H
#define RINGTAIL_DAEMON_ACCESS_ROLES_H

#include "daemon/config/config.h"
#include "query/error.h"
#include "daemon/host/identity.h"

struct roles;

/* 0, or -EINVAL with *error: a rule that is none, or names nobody. */
int roles_create(const struct config_words *viewer, const struct config_words *operator,
		 struct roles **roles, struct error *error);
void roles_destroy(struct roles *roles);

/* Whether the rule is written well; -EINVAL with *error. Looks nothing up. */
int roles_check_rule(const char *rule, enum role role, struct error *error);

/* Whether a rule could let somebody in by a certificate, or by a token. */
bool roles_admit_any(const struct config_words *words, enum identity_proof proof);

/* What that client may do. */
enum role roles_judge(const struct roles *roles, const struct client_identity *identity);

/* How people know it: "user:alice" where a rule names that user, else identity->text. */
const char *roles_name(const struct roles *roles, const struct client_identity *identity);

#endif
