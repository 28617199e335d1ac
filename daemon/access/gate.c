#include "daemon/access/gate.h"

#include <errno.h>
#include <grp.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/host/secret_file.h"
#include "daemon/net/transport.h"
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

/* ---- Tokens ---------------------------------------------------------------------------------- */

#define SCHEME ":sha256:"
#define FILE_BYTES_MAX (TOKENS_MAX * 192u)

struct token {
	uint8_t digest[IDENTITY_TOKEN_BYTES];
	char name[IDENTITY_NAME_BYTES];
};

struct tokens {
	unsigned count;
	struct token token[TOKENS_MAX];
};

static int refuse_line(struct error *error, const char *file, unsigned line, const char *what)
{
	error_set(error, EINVAL, "tokens-line", "%.200s:%u: %s", file, line, what);
	error_hint(error, "each line is NAME:sha256:HEX, as `tracectl token NAME` prints it");
	return -EINVAL;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_digest(const char *hex, size_t n, uint8_t digest[IDENTITY_TOKEN_BYTES])
{
	if (n != 2 * IDENTITY_TOKEN_BYTES)
		return false;
	for (size_t i = 0; i < IDENTITY_TOKEN_BYTES; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		digest[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* Empty lines and those that begin with # say nothing. */
static int parse_line(struct tokens *tokens, const char *line, size_t n, const char *file,
		      unsigned number, struct error *error)
{
	struct token *token = &tokens->token[tokens->count];
	const char *scheme;

	if (n == 0 || line[0] == '#')
		return 0;
	if (tokens->count == TOKENS_MAX)
		return refuse_line(error, file, number, "there are too many tokens");
	scheme = memmem(line, n, SCHEME, strlen(SCHEME));
	if (!scheme || !identity_is_name(line, (size_t)(scheme - line)))
		return refuse_line(error, file, number, "this is no name and digest");
	if (memchr(line, ':', (size_t)(scheme - line)))
		return refuse_line(error, file, number, "a name has no colon");
	if (!parse_digest(scheme + strlen(SCHEME), n - (size_t)(scheme - line) - strlen(SCHEME),
			  token->digest))
		return refuse_line(error, file, number, "the digest is not 64 hexadecimal digits");
	memcpy(token->name, line, (size_t)(scheme - line));
	token->name[scheme - line] = '\0';
	tokens->count++;
	return 0;
}

int tokens_parse(const char *text, size_t bytes, const char *name, struct tokens **out,
		 struct error *error)
{
	struct tokens *tokens = calloc(1, sizeof(*tokens));
	unsigned number = 0;
	int err = 0;

	if (!tokens)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	for (size_t begin = 0; begin < bytes && !err;) {
		const char *newline = memchr(text + begin, '\n', bytes - begin);
		size_t end = newline ? (size_t)(newline - text) : bytes;

		err = parse_line(tokens, text + begin, end - begin, name, ++number, error);
		begin = end + 1;
	}
	if (!err && !tokens->count) {
		err = error_set(error, EINVAL, "tokens-none", "%.200s holds no token", name);
		error_hint(error, "add the line that `tracectl token NAME` prints");
	}
	if (err) {
		free(tokens);
		return err;
	}
	*out = tokens;
	return 0;
}

int tokens_load(const char *path, struct tokens **tokens, struct error *error)
{
	size_t bytes = 0;
	ssize_t got = 1;
	char *text;
	int fd, err = secret_file_open(path, "tokens", &fd, error);

	if (err)
		return err;
	text = malloc(FILE_BYTES_MAX + 1);
	while (text && got > 0 && bytes <= FILE_BYTES_MAX) {
		got = read(fd, text + bytes, FILE_BYTES_MAX + 1 - bytes);
		bytes += got > 0 ? (size_t)got : 0;
	}
	if (!text)
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
	else if (got < 0)
		err = error_set(error, errno, "secret-file", "tokens: cannot read %.200s: %s", path,
				strerror(errno));
	else if (bytes > FILE_BYTES_MAX)
		err = error_set(error, EFBIG, "tokens-line", "%.200s is larger than %u bytes", path,
				FILE_BYTES_MAX);
	else
		err = tokens_parse(text, bytes, path, tokens, error);
	free(text);
	close(fd);
	return err;
}

void tokens_destroy(struct tokens *tokens)
{
	free(tokens);
}

/* Every entry is compared, whether one before was the right one or not. */
static const struct token *find(const struct tokens *tokens, const uint8_t *digest)
{
	const struct token *found = NULL;

	for (unsigned i = 0; i < tokens->count; i++)
		if (CRYPTO_memcmp(tokens->token[i].digest, digest, IDENTITY_TOKEN_BYTES) == 0)
			found = &tokens->token[i];
	return found;
}

int tokens_find(const struct tokens *tokens, const char *text, struct client_identity *identity)
{
	uint8_t digest[IDENTITY_TOKEN_BYTES];
	const struct token *token;

	SHA256((const unsigned char *)text, strlen(text), digest);
	token = find(tokens, digest);
	if (!token)
		return -EACCES;
	identity_set_name(identity, IDENTITY_TOKEN, token->name);
	memcpy(identity->token, digest, sizeof(digest));
	return 0;
}

bool tokens_hold(const struct tokens *tokens, const struct client_identity *identity)
{
	const struct token *token = find(tokens, identity->token);

	return token && strcmp(token->name, strchr(identity->text, ':') + 1) == 0;
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
		.client_crl = config->tls_crl,
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
