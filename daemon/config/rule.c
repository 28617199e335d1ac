#include "daemon/config/rule.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

bool rule_admits_any(const struct config_words *words, enum identity_proof proof)
{
	const char *prefix = prefix_of[proof == IDENTITY_CERT ? RULE_CERT : RULE_TOKEN];

	for (unsigned i = 0; i < words->count; i++)
		if (strncmp(words->word[i], prefix, strlen(prefix)) == 0)
			return true;
	return false;
}
