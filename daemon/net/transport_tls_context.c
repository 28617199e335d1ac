/* transport_tls_context: certificate, key and authority, read and checked. See transport_tls.h. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/host/secret_file.h"
#include "daemon/net/transport_tls.h"
#include "daemon/net/transport_tls_private.h"

#define DAY_S 86400
#define EXPIRES_SOON_DAYS 30

static int refuse_file(struct error *error, int err, const char *code, const char *what,
		       const char *path, const char *hint)
{
	unsigned long first = ERR_peek_error(), last = ERR_peek_last_error();
	const char *reason = ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) :
						       ERR_reason_error_string(last);

	error_set(error, err, code, "%s %.200s: %s", what, path, reason ? reason : strerror(err));
	error_hint(error, "%s", hint);
	ERR_clear_error();
	return -err;
}

/* Of a key with a passphrase: nobody is there to be asked. */
static int no_passphrase(char *text, int bytes, int writing, void *context)
{
	(void)text, (void)bytes, (void)writing, (void)context;
	return -1;
}

static int use_key(SSL_CTX *ssl, const char *path, struct error *error)
{
	EVP_PKEY *key = NULL;
	FILE *file;
	int fd, err = secret_file_open(path, "tls-key", &fd, error);

	if (err)
		return err;
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	key = PEM_read_PrivateKey(file, NULL, no_passphrase, NULL);
	fclose(file);
	if (!key)
		return refuse_file(error, EINVAL, "tls-key", "cannot read the key of tls-key", path,
				   "it is to be a private key in PEM, without a passphrase");
	if (SSL_CTX_use_PrivateKey(ssl, key) != 1)
		err = refuse_file(error, EINVAL, "tls-key-mismatch",
				  "tls-cert has another key than that of tls-key", path,
				  "give the certificate and the key that were made together");
	EVP_PKEY_free(key);
	return err;
}

static int64_t seconds_of(const ASN1_TIME *time_of)
{
	ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
	int days = 0, rest = 0;

	if (epoch)
		ASN1_TIME_diff(&days, &rest, epoch, time_of);
	ASN1_TIME_free(epoch);
	return (int64_t)days * DAY_S + rest;
}

/* Says when it expires; warns where clients will refuse it, or soon will. */
static int64_t look_at_time(SSL_CTX *ssl, const char *path)
{
	const X509 *certificate = SSL_CTX_get0_certificate(ssl);
	int64_t from_s = seconds_of(X509_get0_notBefore(certificate));
	int64_t until_s = seconds_of(X509_get0_notAfter(certificate));
	int64_t now_s = (int64_t)(clock_read(CLOCK_REALTIME) / NS_PER_S);
	int64_t days = (until_s - now_s) / DAY_S;

	if (until_s < now_s)
		log_warn("tls-cert-expired", "tls-cert %s has expired: clients will refuse it",
			 path);
	else if (from_s > now_s)
		log_warn("tls-cert-early", "tls-cert %s is not valid yet: clients will refuse it",
			 path);
	else if (days < EXPIRES_SOON_DAYS)
		log_warn("tls-cert-expires", "tls-cert %s expires in %lld day%s: put a new one there,"
			 " and systemctl reload ringtaild", path, (long long)days,
			 days == 1 ? "" : "s");
	return until_s;
}

static int believe(SSL_CTX *ssl, const struct transport_tls_files *files, struct error *error)
{
	STACK_OF(X509_NAME) *names;

	if (!files->client_ca)
		return 0;
	names = SSL_load_client_CA_file(files->client_ca);
	if (!names || SSL_CTX_load_verify_file(ssl, files->client_ca) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return refuse_file(error, EINVAL, "tls-client-ca",
				   "cannot read the certificates of tls-client-ca",
				   files->client_ca,
				   "it is to be one or more CA certificates in PEM, readable to the"
				   " daemon's user");
	}
	SSL_CTX_set_client_CA_list(ssl, names);
	SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER |
				(files->cert_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT), NULL);
	return 0;
}

static SSL_CTX *make(const struct transport_tls_files *files, int64_t *expires_s,
		     struct error *error, int *err)
{
	SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());

	if (!ssl || SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_num_tickets(ssl, 0) != 1) {
		*err = error_set(error, ENOMEM, "out-of-memory", "cannot set up TLS");
		goto fail;
	}
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	/* An end without TLS's own is an end: a frame that is cut off shows by itself. */
	SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
				 SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			      SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_use_certificate_chain_file(ssl, files->cert) != 1) {
		*err = refuse_file(error, EINVAL, "tls-cert", "cannot read the certificate of tls-cert",
				   files->cert, "it is to be a certificate in PEM, then its chain,"
				   " readable to the daemon's user");
		goto fail;
	}
	*err = use_key(ssl, files->key, error);
	if (!*err)
		*err = believe(ssl, files, error);
	if (*err)
		goto fail;
	*expires_s = look_at_time(ssl, files->cert);
	return ssl;

fail:
	SSL_CTX_free(ssl);
	ERR_clear_error();
	return NULL;
}

int transport_tls_context_create(const struct transport_tls_files *files,
				 struct transport_tls_context **out, struct error *error)
{
	struct transport_tls_context *context = calloc(1, sizeof(*context));
	int err = 0;

	if (!context)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	context->ssl = make(files, &context->expires_s, error, &err);
	if (!context->ssl) {
		free(context);
		return err;
	}
	*out = context;
	return 0;
}

int64_t transport_tls_context_expires(const struct transport_tls_context *context)
{
	return context->expires_s;
}

void transport_tls_context_swap(struct transport_tls_context *context,
				struct transport_tls_context *next)
{
	SSL_CTX *old = context->ssl;

	/* Each connection holds the one it was made with. */
	context->ssl = next->ssl;
	context->expires_s = next->expires_s;
	next->ssl = old;
	transport_tls_context_destroy(next);
}

void transport_tls_context_destroy(struct transport_tls_context *context)
{
	if (!context)
		return;
	SSL_CTX_free(context->ssl);
	free(context);
}
