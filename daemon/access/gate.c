#include "daemon/access/gate.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "daemon/access/token.h"
#include "daemon/net/transport_tls.h"
#include "query/glob.h"
#include "query/quantity.h"

/* ---- Roles ----------------------------------------------------------------------------------- */

#define VIEWERS_GROUP "ringtail"

/* A rule, and whom it means on this host. */
struct entry {
	struct rule rule;
	uint32_t id;				/* of a user or group */
};

struct roles {
	unsigned count;
	struct entry entry[2 * CONFIG_WORDS_MAX + 2];
};

/* The number of the user or group, which may be written as one. */
static int look_up(struct entry *entry, struct error *error)
{
	const struct rule *rule = &entry->rule;
	const char *name = rule_name(rule);
	struct passwd *user;
	struct group *group;
	uint64_t id;

	if (rule->kind != RULE_USER && rule->kind != RULE_GROUP)
		return 0;
	if (quantity_parse(name, QUANTITY_COUNT, &id, NULL) == 0 && id < UINT32_MAX) {
		entry->id = (uint32_t)id;
		return 0;
	}
	if (rule->kind == RULE_USER) {
		user = getpwnam(name);
		entry->id = user ? user->pw_uid : 0;
		if (user)
			return 0;
	} else {
		group = getgrnam(name);
		entry->id = group ? group->gr_gid : 0;
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
	struct entry *entry = &roles->entry[roles->count];
	int err = rule_parse(text, role, &entry->rule, error);

	if (!err)
		err = look_up(entry, error);
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

	strcpy(roles->entry[0].rule.text, "user:root");
	if (err || starter == 0)
		return err;
	snprintf(text, sizeof(text), "user:%u", starter);
	err = add(roles, text, ROLE_OPERATOR, error);
	if (!err && user && identity_is_name(user->pw_name, strlen(user->pw_name)))
		snprintf(roles->entry[1].rule.text, sizeof(text), "user:%s", user->pw_name);
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

static bool matches(const struct entry *entry, const struct client_identity *identity)
{
	const struct rule *rule = &entry->rule;

	switch (rule->kind) {
	case RULE_CERT:
	case RULE_TOKEN:
		return identity->proof == (rule->kind == RULE_CERT ? IDENTITY_CERT : IDENTITY_TOKEN) &&
		       glob_match(rule->text, identity->text, strlen(identity->text));
	case RULE_USER:
		return identity->proof == IDENTITY_USER && identity->uid == entry->id;
	case RULE_GROUP:
		for (unsigned i = 0; identity->proof == IDENTITY_USER && i < identity->groups; i++)
			if (identity->group[i] == entry->id)
				return true;
		return false;
	case RULE_LOCAL:
		return identity->proof == IDENTITY_LOCAL;
	case RULE_KINDS:
		break;
	}
	return false;
}

enum role roles_judge(const struct roles *roles, const struct client_identity *identity)
{
	enum role role = ROLE_NONE;

	for (unsigned i = 0; i < roles->count; i++)
		if (matches(&roles->entry[i], identity) && roles->entry[i].rule.role > role)
			role = roles->entry[i].rule.role;
	return role;
}

const char *roles_name(const struct roles *roles, const struct client_identity *identity)
{
	for (unsigned i = 0; i < roles->count; i++)
		if (roles->entry[i].rule.kind == RULE_USER && matches(&roles->entry[i], identity))
			return roles->entry[i].rule.text;
	return identity->text;
}

/* ---- Gates ----------------------------------------------------------------------------------- */

struct gate {
	struct transport_tls_context *tls;	/* NULL: none */
	struct tokens *tokens;			/* NULL: none */
	struct roles *roles;
};

static int load(struct gate *gate, const struct config *config, struct error *error)
{
	struct transport_tls_files files = {
		.cert = config->tls_cert,
		.key = config->tls_key,
		.client_ca = config->tls_client_ca,
		.cert_optional = config->tokens,
	};
	int err = roles_create(&config->viewer, &config->operator, &gate->roles, error);

	if (!err && config->tokens)
		err = tokens_load(config->tokens, &gate->tokens, error);
	if (!err && config->tls_cert)
		err = transport_tls_context_create(&files, &gate->tls, error);
	return err;
}

static void unload(struct gate *gate)
{
	transport_tls_context_destroy(gate->tls);
	tokens_destroy(gate->tokens);
	roles_destroy(gate->roles);
}

int gate_create(const struct config *config, struct gate **out, struct error *error)
{
	struct gate *gate = calloc(1, sizeof(*gate));
	int err;

	if (!gate)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	err = load(gate, config, error);
	if (err) {
		gate_destroy(gate);
		return err;
	}
	*out = gate;
	return 0;
}

void gate_replace(struct gate *gate, struct gate *next)
{
	struct gate old = *gate;

	gate->tokens = next->tokens;
	gate->roles = next->roles;
	/* Whoever was given the context keeps it: its inside is what changes. */
	if (old.tls && next->tls) {
		transport_tls_context_swap(old.tls, next->tls);
		next->tls = NULL;
	}
	next->tokens = old.tokens;
	next->roles = old.roles;
	gate_destroy(next);
}

void gate_destroy(struct gate *gate)
{
	if (!gate)
		return;
	unload(gate);
	free(gate);
}

struct transport_tls_context *gate_tls(const struct gate *gate)
{
	return gate->tls;
}

static int prove_by_token(const struct gate *gate, struct client_identity *identity,
			  const char *token, struct error *error)
{
	if (identity->proof == IDENTITY_LOCAL) {
		error_set(error, EACCES, "token-in-clear",
			  "a token came over plain tcp, where others may have read it");
		error_hint(error, "make a new one, and send it over TLS or a unix socket only");
		return -EACCES;
	}
	if (gate->tokens && tokens_find(gate->tokens, token, identity) == 0)
		return 0;
	error_set(error, EACCES, "bad-token", "this token is nobody's");
	error_hint(error, "its line, from `tracectl token NAME`, belongs into the daemon's tokens file;"
			  " after an edit, systemctl reload ringtaild");
	return -EACCES;
}

int gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
	       struct error *error)
{
	int err = *token ? prove_by_token(gate, identity, token, error) : 0;

	if (err)
		return err;
	if (identity->proof == IDENTITY_UNPROVED) {
		error_set(error, EACCES, "not-authenticated",
			  "this client showed neither a certificate nor a token");
		error_hint(error, "tracectl --token-file FILE, or --cert FILE --key FILE");
		return -EACCES;
	}
	identity->role = roles_judge(gate->roles, identity);
	return gate_allow(gate, identity, ROLE_VIEWER, "see anything here", error);
}

void gate_judge(const struct gate *gate, struct client_identity *identity)
{
	bool gone = identity->proof == IDENTITY_TOKEN &&
		    !(gate->tokens && tokens_hold(gate->tokens, identity));

	identity->role = gone ? ROLE_NONE : roles_judge(gate->roles, identity);
}

int gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
	       const char *what, struct error *error)
{
	const char *name = roles_name(gate->roles, identity);

	if (identity->role >= needed)
		return 0;
	error_set(error, EACCES, "not-allowed", "you are %s, who may not %s", name, what);
	if (identity->proof == IDENTITY_LOCAL && needed == ROLE_OPERATOR)
		error_hint(error, "ask for `%s = user:NAME` in the daemon's configuration, and connect to"
			   " its unix socket", role_name(needed));
	else
		error_hint(error, "ask for `%s = %s` in the daemon's configuration",
			   role_name(needed), name);
	return -EACCES;
}

const char *gate_name(const struct gate *gate, const struct client_identity *identity)
{
	return roles_name(gate->roles, identity);
}
