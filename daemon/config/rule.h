/*
 * rule: who is meant by a word of the options viewer and operator: cert:NAME, token:NAME (with globs),
 * user:NAME, group:NAME (or numbers) or local. In: the word; out: its kind and name, or why it is none.
 * Looks nothing up: access/roles.h does. Any thread.
 */
#ifndef RINGTAIL_DAEMON_CONFIG_RULE_H
#define RINGTAIL_DAEMON_CONFIG_RULE_H

#include <stdbool.h>

#include "daemon/config/config.h"
#include "daemon/host/identity.h"
#include "query/error.h"

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
bool rule_admits_any(const struct config_words *words, enum identity_proof proof);

#endif
