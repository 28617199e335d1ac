/*
 * roles: who may do what, by the options viewer and operator. What no rule allows is denied.
 *
 * How a rule is written: config/rule.h. Root, and who started the daemon, are operators always. Without
 * any rule, group:ringtail and local are viewers. Names of users and groups are looked up when the rules
 * are made, never when somebody connects. In: rules, and who a client is; out: its role. Main thread.
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

/* What that client may do. */
enum role roles_judge(const struct roles *roles, const struct client_identity *identity);

/* How people know it: "user:alice" where a rule names that user, else identity->text. */
const char *roles_name(const struct roles *roles, const struct client_identity *identity);

#endif
