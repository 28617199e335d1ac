#include "daemon/access/gate.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/access/roles.h"
#include "daemon/access/token.h"
#include "daemon/net/transport_tls.h"

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
		error_hint(error, "ask for `%s = user:NAME` in the daemon's configuration, and come by its"
			   " unix socket", role_name(needed));
	else
		error_hint(error, "ask for `%s = %s` in the daemon's configuration",
			   role_name(needed), name);
	return -EACCES;
}

const char *gate_name(const struct gate *gate, const struct client_identity *identity)
{
	return roles_name(gate->roles, identity);
}
