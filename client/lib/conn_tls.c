#include "client/lib/conn_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/lib/failure.h"
#include "client/lib/trust.h"
#include "proto/tls.h"

struct conn_tls {
	int fd;			/* the caller's */
	BIO_METHOD *socket;
	SSL_CTX *context;
	SSL *ssl;
	const char *name;	/* that the daemon has to prove */
	char address[ADDRESS_HOST_BYTES + ADDRESS_PATH_BYTES];
	short wanted;
	bool has_cert;
	unsigned long alert;	/* the error that ended it, or 0 */
	bool seen;		/* the daemon's certificate; then: */
	struct tls_span span;
};

/* ---- How long a certificate is good ----------------------------------------------------------- */

int conn_tls_span_of_file(const char *path, struct tls_span *span,
			  struct ringtail_error *error)
{
	FILE *file = fopen(path, "re");
	X509 *certificate;
	int err = 0;

	if (!file)
		return failure_set(error, errno, "no-certificate", "cannot open %s: %s", path,
				   strerror(errno));
	certificate = PEM_read_X509(file, NULL, NULL, NULL);
	fclose(file);
	if (!certificate || !tls_span_of(certificate, span))
		err = failure_set(error, EINVAL, "bad-certificate", "%s holds no certificate in PEM",
				  path);
	X509_free(certificate);
	ERR_clear_error();
	return err;
}

/* ---- The socket ------------------------------------------------------------------------------- */

/* As OpenSSL's own, but without SIGPIPE where the daemon is gone: the program that uses this library may die of it. */
static int write_socket(BIO *bio, const char *bytes, int n)
{
	const struct conn_tls *tls = BIO_get_data(bio);
	ssize_t sent = send(tls->fd, bytes, (size_t)n, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)sent;
}

static long control_socket(BIO *bio, int command, long number, void *pointer)
{
	(void)bio, (void)number, (void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static bool use_socket(struct conn_tls *tls)
{
	BIO *in = BIO_new_socket(tls->fd, BIO_NOCLOSE), *out = NULL;

	tls->socket = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
	if (tls->socket && BIO_meth_set_write(tls->socket, write_socket) == 1 &&
	    BIO_meth_set_ctrl(tls->socket, control_socket) == 1)
		out = BIO_new(tls->socket);
	if (!in || !out) {
		BIO_free(in);
		BIO_free(out);
		return false;
	}
	BIO_set_data(out, tls);
	BIO_set_init(out, 1);
	SSL_set_bio(tls->ssl, in, out);
	return true;
}

/* ---- Whom we believe, and what we show -------------------------------------------------------- */

static int refuse_file(struct ringtail_error *error, const char *option, const char *path,
		       const char *hint)
{
	failure_set(error, EINVAL, "bad-tls-file", "--%s %s: %s", option, path, tls_reason());
	failure_hint(error, "%s", hint);
	ERR_clear_error();
	return -EINVAL;
}

static int use_key(SSL_CTX *context, const char *path, struct ringtail_error *error)
{
	EVP_PKEY *key;
	int fd, err = trust_open_secret(path, "key", &fd, error);

	if (err)
		return err;
	key = tls_read_key(fd);
	if (!key || SSL_CTX_use_PrivateKey(context, key) != 1)
		err = refuse_file(error, "key", path,
				  "it is to be the certificate's private key in PEM, without a"
				  " passphrase");
	EVP_PKEY_free(key);
	return err;
}

static int use_files(SSL_CTX *context, const struct ringtail_trust *trust,
		     struct ringtail_error *error)
{
	int err;

	if (!trust->cert != !trust->key) {
		err = failure_set(error, EINVAL, "half-certificate", "--%s is given, and --%s is not",
				  trust->cert ? "cert" : "key", trust->cert ? "key" : "cert");
		failure_hint(error, "they come together");
		return err;
	}
	if (trust->ca ? SSL_CTX_load_verify_file(context, trust->ca) != 1 :
			SSL_CTX_set_default_verify_paths(context) != 1)
		return refuse_file(error, "ca", trust->ca ? trust->ca : "(the system's)",
				   "it is to be one or more CA certificates in PEM");
	if (!trust->cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(context, trust->cert) != 1)
		return refuse_file(error, "cert", trust->cert,
				   "it is to be our certificate in PEM, then its chain");
	return use_key(context, trust->key, error);
}

/* The name may be a number; it is proved as one then. */
static bool expect_name(SSL *ssl, const char *name)
{
	unsigned char number[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, name, number) == 1 || inet_pton(AF_INET6, name, number) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* The verdict stays what it is: this only looks. */
static int look(int verdict, X509_STORE_CTX *store)
{
	const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct conn_tls *tls = SSL_get_app_data(ssl);
	const X509 *certificate = X509_STORE_CTX_get0_cert(store);

	tls->seen = certificate && tls_span_of(certificate, &tls->span);
	return verdict;
}

int conn_tls_create(int fd, const struct address *address, struct conn_tls **made,
		    struct ringtail_error *error)
{
	const struct ringtail_trust *trust = &address->trust;
	struct conn_tls *tls = calloc(1, sizeof(*tls));
	int err = -ENOMEM;

	if (!tls)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	tls->fd = fd;
	snprintf(tls->address, sizeof(tls->address), "%s", address->text);
	tls->name = trust->server_name ? trust->server_name : address->host;
	tls->has_cert = trust->cert;
	tls->context = SSL_CTX_new(TLS_client_method());
	if (!tls->context || SSL_CTX_set_min_proto_version(tls->context, TLS1_3_VERSION) != 1) {
		failure_set(error, ENOMEM, "no-memory", "cannot set up TLS");
		goto fail;
	}
	SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, look);
	/* An end without TLS's own is an end: a frame that is cut off shows by itself. */
	SSL_CTX_set_options(tls->context, SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(tls->context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	err = use_files(tls->context, trust, error);
	if (err)
		goto fail;
	tls->ssl = SSL_new(tls->context);
	if (!tls->ssl || !use_socket(tls)) {
		err = failure_set(error, ENOMEM, "no-memory", "cannot set up TLS");
		goto fail;
	}
	if (!expect_name(tls->ssl, tls->name)) {
		err = failure_set(error, EINVAL, "bad-server-name",
				  "`%s` cannot be the name of a server", tls->name);
		goto fail;
	}
	SSL_set_app_data(tls->ssl, tls);
	*made = tls;
	return 0;

fail:
	conn_tls_destroy(tls);
	return err;
}

void conn_tls_destroy(struct conn_tls *tls)
{
	if (!tls)
		return;
	if (tls->ssl && SSL_is_init_finished(tls->ssl) && !tls->alert)
		SSL_shutdown(tls->ssl);
	SSL_free(tls->ssl);
	SSL_CTX_free(tls->context);
	BIO_meth_free(tls->socket);
	ERR_clear_error();
	free(tls);
}

/* -EAGAIN, 0 for the end, or -errno. */
static int judge(struct conn_tls *tls, int result)
{
	bool wants_write = false;
	int err = tls_judge(tls->ssl, result, &wants_write);

	if (err == -EAGAIN)
		tls->wanted = wants_write ? POLLOUT : POLLIN;
	else if (err)
		tls->alert = ERR_peek_last_error();
	return err;
}

static void distrust(const struct conn_tls *tls, long verdict, struct ringtail_error *error)
{
	failure_set(error, EACCES, "server-untrusted",
		    "what answers at %s does not prove to be %s: %s", tls->address, tls->name,
		    X509_verify_cert_error_string(verdict));
	if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
		failure_hint(error, "--server-name NAME, if its certificate is for another name");
	else if (verdict == X509_V_ERR_CERT_HAS_EXPIRED ||
		 verdict == X509_V_ERR_CERT_NOT_YET_VALID)
		failure_hint(error, "give the daemon a new certificate; check both clocks");
	else
		failure_hint(error, "--ca FILE names the authority that signed its certificate");
}

/* The alert with which the other side gave up; negative: there was none. */
static int alert_of(const struct conn_tls *tls)
{
	/* A byte; OpenSSL's errors of memory and the like have larger numbers. */
	int alert = ERR_GET_REASON(tls->alert) - SSL_AD_REASON_OFFSET;

	return alert <= UINT8_MAX ? alert : -1;
}

/* The one alert that is not about us: the daemon can say no more before hands are shaken. */
static void say_no_room(const struct conn_tls *tls, struct ringtail_error *error)
{
	failure_set(error, EBUSY, "no-room", "the daemon at %s accepts no more"
		    " connections now (TLS reports no reason): %s", tls->address,
		    ERR_reason_error_string(tls->alert));
	failure_hint(error, "its log has the reason: no descriptors left (raise LimitNOFILE), or"
			    " pending-max is reached; try again in a moment");
}

int conn_tls_shake(struct conn_tls *tls, struct ringtail_error *error)
{
	int result, err;
	long verdict;

	tls_clear();
	result = SSL_connect(tls->ssl);
	if (result == 1)
		return 0;
	err = judge(tls, result);
	if (err == -EAGAIN)
		return err;
	verdict = SSL_get_verify_result(tls->ssl);
	if (verdict != X509_V_OK) {
		distrust(tls, verdict, error);
	} else if (alert_of(tls) == SSL_AD_INTERNAL_ERROR) {
		say_no_room(tls, error);
	} else {
		failure_set(error, EPROTO, "no-tls", "no TLS with %s: %s", tls->address,
			    tls->alert ? tls_reason() : "it closed the connection");
		failure_hint(error, tls->alert ? "is it a ringtaild, with tls-cert? A plain one on this"
						 " host is for --insecure" :
			     "a ringtaild that is beyond pending-max may: try again in a moment, and see"
			     " its log");
	}
	return err ? err : -ECONNRESET;
}

ssize_t conn_tls_read(void *context, void *bytes, size_t n)
{
	struct conn_tls *tls = context;
	size_t got;
	int result, err;

	tls_clear();
	result = SSL_read_ex(tls->ssl, bytes, n, &got);
	if (result == 1)
		return (ssize_t)got;
	err = judge(tls, result);
	errno = -err;
	return err ? -1 : 0;
}

ssize_t conn_tls_write(struct conn_tls *tls, const void *bytes, size_t n)
{
	size_t sent;
	int result, err;

	tls_clear();
	result = SSL_write_ex(tls->ssl, bytes, n, &sent);
	if (result == 1)
		return (ssize_t)sent;
	err = judge(tls, result);
	errno = err ? -err : EPIPE;
	return -1;
}

short conn_tls_wanted(const struct conn_tls *tls)
{
	return tls->wanted;
}

bool conn_tls_pending(const struct conn_tls *tls)
{
	return SSL_pending(tls->ssl) > 0;
}

bool conn_tls_peer_span(const struct conn_tls *tls, struct tls_span *span)
{
	*span = tls->span;
	return tls->seen;
}

/* After hands are shaken, which is when TLS 1.3 judges our certificate. */
bool conn_tls_refused(const struct conn_tls *tls, struct ringtail_error *error)
{
	int alert = alert_of(tls);

	if (alert == SSL_AD_INTERNAL_ERROR) {
		say_no_room(tls, error);
	} else if (alert >= 0) {
		failure_set(error, EACCES, "certificate-refused", "the daemon at %s %s: %s", tls->address,
			    tls->has_cert ? "does not accept our certificate" : "wants a certificate",
			    ERR_reason_error_string(tls->alert));
		failure_hint(error, "--cert FILE --key FILE: valid now, and signed by the authority that its"
				    " tls-client-ca names");
	}
	return alert >= 0;
}
