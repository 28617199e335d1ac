#include "daemon/config/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config/rule.h"

__attribute__((format(printf, 4, 5)))
static int refuse(struct error *error, const char *code, const char *hint, const char *what, ...);

static int refuse(struct error *error, const char *code, const char *hint, const char *what, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, what);
	vsnprintf(text, sizeof(text), what, arguments);
	va_end(arguments);
	error_set(error, EINVAL, code, "%s", text);
	error_hint(error, "%s", hint);
	return -EINVAL;
}

static int check_files(const struct config *config, struct error *error)
{
	if (config->tls_key && !config->tls_cert)
		return refuse(error, "tls-no-cert", "give tls-cert too: the certificate of that key",
			      "tls-key is given, and tls-cert is not");
	if (config->tls_cert && !config->tls_key)
		return refuse(error, "tls-no-key", "give tls-key too: the key of that certificate",
			      "tls-cert is given, and tls-key is not");
	if (config->tls_client_ca && !config->tls_cert)
		return refuse(error, "tls-no-cert",
			      "clients show their certificates over TLS: give tls-cert and tls-key",
			      "tls-client-ca is given, and tls-cert is not");
	return 0;
}

struct listened {
	unsigned plain, tls, local;
};

static int check_address(const struct config *config, const struct address *address,
			 struct listened *listened, struct error *error)
{
	if (address_is_unix(address)) {
		listened->local++;
	} else if (address->loopback && config->insecure) {
		listened->plain++;
	} else if (config->tls_cert) {
		listened->tls++;
	} else if (address->loopback) {
		return refuse(error, "listen-needs-insecure",
			      "give tls-cert and tls-key; or --insecure if every local user may"
			      " read the trace; or listen on a unix socket",
			      "listen: `%s`: tcp is for TLS, and plain only on loopback with"
			      " --insecure", address->text);
	} else {
		return refuse(error, "listen-needs-tls",
			      "give tls-cert, tls-key and tls-client-ca or tokens; or listen on a"
			      " unix socket, and forward it, for example with ssh -L",
			      "listen: `%s`: off loopback tcp is for TLS alone, and tls-cert is not"
			      " given", address->text);
	}
	return 0;
}

static int check_addresses(const struct config *config, struct listened *listened,
			   struct error *error)
{
	for (unsigned i = 0; i < config->listen.count; i++) {
		int err = check_address(config, &config->listen.address[i], listened, error);

		if (err)
			return err;
	}
	if (config->http.socket_bytes && !config->http.loopback) {
		if (!config->tls_cert || (!config->tls_client_ca && !config->tokens))
			return refuse(error, "http-needs-tls",
				      "give tls-cert, tls-key and tls-client-ca or tokens; or serve"
				      " 127.0.0.1, and forward it, for example with ssh -L",
				      "http: `%s`: off loopback the status page is for TLS with"
				      " authentication alone", config->http.text);
		listened->tls++;
	}
	if (listened->tls && !config->tls_client_ca && !config->tokens)
		return refuse(error, "tls-no-clients",
			      "give tls-client-ca, for clients with certificates, or tokens, or both",
			      "TLS is on, but nothing tells clients apart: neither tls-client-ca nor"
			      " tokens is given");
	if (listened->plain && !listened->tls && (config->tls_client_ca || config->tokens))
		return refuse(error, "plain-authentication",
			      "take --insecure away, so that the address speaks TLS",
			      "%s is given, but tcp is plain here: whoever connects comes in without",
			      config->tokens ? "tokens" : "tls-client-ca");
	if (config->tls_cert && !listened->tls)
		return refuse(error, "tls-unused",
			      "listen on tcp:HOST:PORT too, without --insecure if that is loopback",
			      "tls-cert is given, but no address speaks TLS");
	return 0;
}

static int check_words(const struct config_words *words, enum role role, struct error *error)
{
	for (unsigned i = 0; i < words->count; i++) {
		char what[ERROR_TEXT_BYTES];
		struct rule rule;
		int err = rule_parse(words->word[i], role, &rule, error);

		if (err) {
			snprintf(what, sizeof(what), "%s: %.400s", role_name(role), error->what);
			strcpy(error->what, what);
			return err;
		}
	}
	return 0;
}

/* A way to come in needs somebody who may, and the other way round. */
static int check_way(const struct config *config, enum identity_proof proof, const char *given,
		     const char *option, const char *prefix, struct error *error)
{
	bool any = rule_admits_any(&config->viewer, proof) ||
		   rule_admits_any(&config->operator, proof);

	if (given && !any)
		return refuse(error, "nobody-allowed",
			      "say who may: viewer = cert:NAME or token:NAME, operator likewise",
			      "%s is given, but no viewer and no operator is a `%sNAME`: all would"
			      " be refused", option, prefix);
	if (any && !given)
		return refuse(error, "rule-cannot-hold", "give the file, or take the rule out",
			      "a rule names a `%sNAME`, and %s is not given: nobody can prove it",
			      prefix, option);
	return 0;
}

int config_check(const struct config *config, struct error *error)
{
	struct listened listened = {0};
	int err = check_files(config, error);

	if (!err)
		err = check_addresses(config, &listened, error);
	if (!err)
		err = check_words(&config->viewer, ROLE_VIEWER, error);
	if (!err)
		err = check_words(&config->operator, ROLE_OPERATOR, error);
	if (!err)
		err = check_way(config, IDENTITY_CERT, config->tls_client_ca, "tls-client-ca",
				"cert:", error);
	if (!err)
		err = check_way(config, IDENTITY_TOKEN, config->tokens, "tokens", "token:", error);
	return err;
}
