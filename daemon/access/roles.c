#include "daemon/access/roles.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "query/glob.h"
#include "query/quantity.h"

#define VIEWERS_GROUP "ringtail"

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
	uint32_t id;				/* of a user or group */
	char text[IDENTITY_TEXT_BYTES];		/* as it was written */
};

struct roles {
	unsigned count;
	struct rule rule[2 * CONFIG_WORDS_MAX + 2];
};

static const char *const prefix_of[RULE_KINDS] = {"cert:", "token:", "user:", "group:", "local"};

static const char *name_in(const struct rule *rule)
{
	return rule->text + strlen(prefix_of[rule->kind]);
}

static int parse(const char *text, enum role role, struct rule *rule, struct error *error)
{
	*rule = (struct rule){.kind = RULE_KINDS, .role = role};
	for (unsigned i = 0; i < RULE_KINDS; i++)
		if (i == RULE_LOCAL ? strcmp(text, prefix_of[i]) == 0 :
				      strncmp(text, prefix_of[i], strlen(prefix_of[i])) == 0)
			rule->kind = (enum rule_kind)i;
	if (rule->kind == RULE_KINDS) {
		error_set(error, EINVAL, "rule-unknown", "`%.60s` names nobody", text);
		error_hint(error, "write cert:NAME, token:NAME, user:NAME, group:NAME or local");
		return -EINVAL;
	}
	if (rule->kind == RULE_LOCAL && role == ROLE_OPERATOR) {
		error_set(error, EINVAL, "rule-local-operator",
			  "plain tcp proves nobody's name: `local` may be a viewer only");
		error_hint(error, "operators come by unix socket or TLS");
		return -EINVAL;
	}
	snprintf(rule->text, sizeof(rule->text), "%s", text);
	if (rule->kind != RULE_LOCAL && !identity_is_name(name_in(rule), strlen(name_in(rule)))) {
		error_set(error, EINVAL, "rule-unknown", "`%.60s` holds no name", text);
		error_hint(error, "a name has 1 to %u bytes of text", IDENTITY_NAME_BYTES - 1);
		return -EINVAL;
	}
	return 0;
}

int roles_check_rule(const char *text, enum role role, struct error *error)
{
	struct rule rule;

	return parse(text, role, &rule, error);
}

/* The number of the user or group, which may be written as one. */
static int look_up(struct rule *rule, struct error *error)
{
	const char *name = name_in(rule);
	struct passwd *user;
	struct group *group;
	uint64_t id;

	if (rule->kind != RULE_USER && rule->kind != RULE_GROUP)
		return 0;
	if (quantity_parse(name, QUANTITY_COUNT, &id, NULL) == 0 && id < UINT32_MAX) {
		rule->id = (uint32_t)id;
		return 0;
	}
	if (rule->kind == RULE_USER) {
		user = getpwnam(name);
		rule->id = user ? user->pw_uid : 0;
		if (user)
			return 0;
	} else {
		group = getgrnam(name);
		rule->id = group ? group->gr_gid : 0;
		if (group)
			return 0;
	}
	error_set(error, EINVAL, "rule-nobody", "`%s`: there is no such %s on this host", rule->text,
		  rule->kind == RULE_USER ? "user" : "group");
	error_hint(error, "create it, or take the rule out");
	return -EINVAL;
}

static int add(struct roles *roles, const char *text, enum role role, struct error *error)
{
	struct rule *rule = &roles->rule[roles->count];
	int err = parse(text, role, rule, error);

	if (!err)
		err = look_up(rule, error);
	if (!err)
		roles->count++;
	return err;
}

static int add_all(struct roles *roles, const struct config_words *words, enum role role,
		   struct error *error)
{
	for (unsigned i = 0; i < words->count; i++) {
		int err = add(roles, words->word[i], role, error);

		if (err)
			return err;
	}
	return 0;
}

/* Who started the daemon could as well stop it and start another. */
static int add_owner(struct roles *roles, struct error *error)
{
	uid_t starter = (uid_t)getauxval(AT_EUID);
	struct passwd *user = getpwuid(starter);
	char text[IDENTITY_TEXT_BYTES];
	int err = add(roles, "user:0", ROLE_OPERATOR, error);

	strcpy(roles->rule[0].text, "user:root");
	if (err || starter == 0)
		return err;
	snprintf(text, sizeof(text), "user:%u", starter);
	err = add(roles, text, ROLE_OPERATOR, error);
	if (!err && user && identity_is_name(user->pw_name, strlen(user->pw_name)))
		snprintf(roles->rule[1].text, sizeof(text), "user:%s", user->pw_name);
	return err;
}

static int add_defaults(struct roles *roles, struct error *error)
{
	int err = add(roles, "local", ROLE_VIEWER, error);

	if (!err && getgrnam(VIEWERS_GROUP))
		err = add(roles, "group:" VIEWERS_GROUP, ROLE_VIEWER, error);
	return err;
}

int roles_create(const struct config_words *viewer, const struct config_words *operator,
		 struct roles **out, struct error *error)
{
	struct roles *roles = calloc(1, sizeof(*roles));
	int err;

	if (!roles)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	err = add_owner(roles, error);
	if (!err)
		err = add_all(roles, operator, ROLE_OPERATOR, error);
	if (!err)
		err = add_all(roles, viewer, ROLE_VIEWER, error);
	if (!err && !viewer->count && !operator->count)
		err = add_defaults(roles, error);
	if (err) {
		free(roles);
		return err;
	}
	*out = roles;
	return 0;
}

void roles_destroy(struct roles *roles)
{
	free(roles);
}

static bool matches(const struct rule *rule, const struct client_identity *identity)
{
	switch (rule->kind) {
	case RULE_CERT:
	case RULE_TOKEN:
		return identity->proof == (rule->kind == RULE_CERT ? IDENTITY_CERT : IDENTITY_TOKEN) &&
		       glob_match(rule->text, identity->text, strlen(identity->text));
	case RULE_USER:
		return identity->proof == IDENTITY_USER && identity->uid == rule->id;
	case RULE_GROUP:
		for (unsigned i = 0; identity->proof == IDENTITY_USER && i < identity->groups; i++)
			if (identity->group[i] == rule->id)
				return true;
		return false;
	case RULE_LOCAL:
		return identity->proof == IDENTITY_LOCAL;
	case RULE_KINDS:
		break;
	}
	return false;
}

bool roles_admit_any(const struct config_words *words, enum identity_proof proof)
{
	const char *prefix = prefix_of[proof == IDENTITY_CERT ? RULE_CERT : RULE_TOKEN];

	for (unsigned i = 0; i < words->count; i++)
		if (strncmp(words->word[i], prefix, strlen(prefix)) == 0)
			return true;
	return false;
}

enum role roles_judge(const struct roles *roles, const struct client_identity *identity)
{
	enum role role = ROLE_NONE;

	for (unsigned i = 0; i < roles->count; i++)
		if (matches(&roles->rule[i], identity) && roles->rule[i].role > role)
			role = roles->rule[i].role;
	return role;
}

const char *roles_name(const struct roles *roles, const struct client_identity *identity)
{
	for (unsigned i = 0; i < roles->count; i++)
		if (roles->rule[i].kind == RULE_USER && matches(&roles->rule[i], identity))
			return roles->rule[i].text;
	return identity->text;
}
