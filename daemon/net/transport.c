#include "daemon/net/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/host/secret_file.h"
#include "daemon/net/revocation.h"
#include "proto/tls.h"

/* ---- A socket as it is ----------------------------------------------------------------------- */

static int plain_handshake(struct transport *transport, struct error *error)
{
	(void)transport, (void)error;
	return 0;
}

/* It never has to: hands are shaken from the start. */
static bool plain_turn_away(struct transport *transport)
{
	(void)transport;
	return false;
}

static ssize_t plain_read(struct transport *transport, void *bytes, size_t n)
{
	ssize_t got = recv(transport->fd, bytes, n, MSG_DONTWAIT);

	if (got >= 0)
		return got;
	transport->wanted = EV_READ;
	return errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t plain_write(struct transport *transport, const struct iovec *iov, unsigned n)
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = n};
	ssize_t sent;

	if (!n)
		return 0;
	sent = sendmsg(transport->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	transport->wanted = EV_WRITE;
	return errno == EINTR ? -EAGAIN : -errno;
}

static bool plain_pending(const struct transport *transport)
{
	(void)transport;
	return false;
}

static void plain_shutdown(struct transport *transport)
{
	shutdown(transport->fd, SHUT_WR);
}

static void plain_destroy(struct transport *transport)
{
	close(transport->fd);
	free(transport);
}

struct transport *transport_plain_create(int fd)
{
	static const struct transport_ops ops = {
		.handshake = plain_handshake,
		.turn_away = plain_turn_away,
		.read = plain_read,
		.write = plain_write,
		.pending = plain_pending,
		.unsent = plain_pending,
		.shutdown = plain_shutdown,
		.destroy = plain_destroy,
	};
	struct transport *transport = malloc(sizeof(*transport));

	if (!transport) {
		close(fd);
		return NULL;
	}
	*transport = (struct transport){.ops = &ops, .fd = fd, .wanted = EV_READ};
	return transport;
}

#define KEEPALIVE_S	30
#define KEEPALIVE_TRIES	3

void transport_keep_alive(int fd)
{
	int on = 1, idle_s = KEEPALIVE_S, tries = KEEPALIVE_TRIES;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* ---- TLS: what connections share: certificate, key and authority, read and checked ------------ */

struct transport_tls_context {
	SSL_CTX *ssl;
	int64_t expires_s;	/* our certificate, since 1970 */
};

static int refuse_file(struct error *error, const char *code, const char *what, const char *path,
		       const char *hint)
{
	error_set(error, EINVAL, code, "%s %.200s: %s", what, path, tls_reason());
	error_hint(error, "%s", hint);
	ERR_clear_error();
	return -EINVAL;
}

static int use_key(SSL_CTX *ssl, const char *path, struct error *error)
{
	EVP_PKEY *key;
	int fd, err = secret_file_open(path, "tls-key", &fd, error);

	if (err)
		return err;
	key = tls_read_key(fd);
	if (!key)
		return refuse_file(error, "tls-key", "cannot read the key of tls-key", path,
				   "it is to be a private key in PEM, without a passphrase");
	if (SSL_CTX_use_PrivateKey(ssl, key) != 1)
		err = refuse_file(error, "tls-key-mismatch",
				  "tls-cert has another key than that of tls-key", path,
				  "give the certificate and the key that were made together");
	EVP_PKEY_free(key);
	return err;
}

/* Says when it expires; warns where clients will refuse it, or soon will. */
static int64_t look_at_time(SSL_CTX *ssl, const char *path)
{
	int64_t now_s = (int64_t)(clock_read(CLOCK_REALTIME) / NS_PER_S), days;
	struct tls_span span = {0};

	tls_span_of(SSL_CTX_get0_certificate(ssl), &span);
	days = (span.until_s - now_s) / TLS_DAY_S;
	if (span.until_s < now_s)
		log_warn("tls-cert-expired", "tls-cert %s has expired: clients will refuse it",
			 path);
	else if (span.from_s > now_s)
		log_warn("tls-cert-early", "tls-cert %s is not valid yet: clients will refuse it",
			 path);
	else if (days < TLS_EXPIRES_SOON_DAYS)
		log_warn("tls-cert-expires", "tls-cert %s expires in %lld day%s: put a new one there,"
			 " and systemctl reload ringtaild", path, (long long)days,
			 days == 1 ? "" : "s");
	return span.until_s;
}

static int believe(SSL_CTX *ssl, const struct transport_tls_files *files, struct error *error)
{
	STACK_OF(X509_NAME) *names;

	if (!files->client_ca)
		return 0;
	names = SSL_load_client_CA_file(files->client_ca);
	if (!names || SSL_CTX_load_verify_file(ssl, files->client_ca) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return refuse_file(error, "tls-client-ca",
				   "cannot read the certificates of tls-client-ca",
				   files->client_ca,
				   "it is to be one or more CA certificates in PEM, readable to the"
				   " daemon's user");
	}
	SSL_CTX_set_client_CA_list(ssl, names);
	SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER |
				(files->cert_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT),
			   files->client_crl ? revocation_verify : NULL);
	return files->client_crl ? revocation_load(ssl, files->client_crl, error) : 0;
}

/* Whom we dial: it always has to prove who it is. */
static int believe_servers(SSL_CTX *ssl, const struct transport_tls_files *files, struct error *error)
{
	SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_load_verify_file(ssl, files->client_ca) == 1)
		return 0;
	return refuse_file(error, "relay-ca", "cannot read the certificates of relay-ca",
			   files->client_ca, "it is to be one or more CA certificates in PEM, readable"
			   " to the daemon's user");
}

static SSL_CTX *make(const struct transport_tls_files *files, bool dials, int64_t *expires_s,
		     struct error *error, int *err)
{
	SSL_CTX *ssl = SSL_CTX_new(dials ? TLS_client_method() : TLS_server_method());

	if (!ssl || SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_num_tickets(ssl, 0) != 1) {
		*err = error_set(error, ENOMEM, "out-of-memory", "cannot set up TLS");
		goto fail;
	}
	/* An end without TLS's own is an end: a frame that is cut off shows by itself. */
	SSL_CTX_set_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_use_certificate_chain_file(ssl, files->cert) != 1) {
		*err = refuse_file(error, "tls-cert", "cannot read the certificate of tls-cert",
				   files->cert, "it is to be a certificate in PEM, then its chain,"
				   " readable to the daemon's user");
		goto fail;
	}
	*err = use_key(ssl, files->key, error);
	if (!*err)
		*err = dials ? believe_servers(ssl, files, error) : believe(ssl, files, error);
	if (*err)
		goto fail;
	/* Of the same certificate the gate's context has warned. */
	*expires_s = dials ? 0 : look_at_time(ssl, files->cert);
	return ssl;

fail:
	SSL_CTX_free(ssl);
	ERR_clear_error();
	return NULL;
}

static int create_context(const struct transport_tls_files *files, bool dials,
			  struct transport_tls_context **out, struct error *error)
{
	struct transport_tls_context *context = calloc(1, sizeof(*context));
	int err = 0;

	if (!context)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	context->ssl = make(files, dials, &context->expires_s, error, &err);
	if (!context->ssl) {
		free(context);
		return err;
	}
	*out = context;
	return 0;
}

int transport_tls_context_create(const struct transport_tls_files *files,
				 struct transport_tls_context **context, struct error *error)
{
	return create_context(files, false, context, error);
}

int transport_tls_dial_context_create(const struct transport_tls_files *files,
				      struct transport_tls_context **context, struct error *error)
{
	return create_context(files, true, context, error);
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

/* ---- TLS: one connection --------------------------------------------------------------------- */

#define RECORD_BYTES_MAX 16384u	/* what is smaller is gathered up to this */
#define RECORD_BYTES_MIN 4096u	/* what has so many is worth a record of its own */

struct transport_tls {
	struct transport transport;
	SSL *ssl;
	bool failed;		/* the handshake has; what still comes in is thrown away */
	bool shut;
	bool dials;		/* the client's side */
	uint8_t *held;		/* taken by write(), to be offered to OpenSSL again; or NULL */
	size_t held_bytes;
};

static struct transport_tls *tls_of(const struct transport *transport)
{
	return (struct transport_tls *)transport;
}

/* -EAGAIN with `wanted`, 0 for the end of the stream, or -errno. */
static int judge(struct transport_tls *tls, int result)
{
	bool wants_write = false;
	int err = tls_judge(tls->ssl, result, &wants_write);

	if (err == -EAGAIN)
		tls->transport.wanted = wants_write ? EV_WRITE : EV_READ;
	return err;
}

static const char *why(const SSL *ssl)
{
	long verdict = SSL_get_verify_result(ssl);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	if (verdict != X509_V_OK)
		return X509_verify_cert_error_string(verdict);
	return reason ? reason : "the connection broke";
}

static void set_no_tls(const struct transport_tls *tls, struct error *error)
{
	error_set(error, EPROTO, "tls-handshake", "no TLS with this %s: %s",
		  tls->dials ? "server" : "client", why(tls->ssl));
	if (tls->dials)
		error_hint(error, "it has to speak TLS 1.3, and show a certificate for the name that is"
				  " dialled, which relay-ca signed");
	else
		error_hint(error, "it has to speak TLS 1.3, and show a certificate that tls-client-ca"
				  " signed where that is asked for");
}

static int tls_handshake(struct transport *transport, struct error *error)
{
	struct transport_tls *tls = tls_of(transport);
	int result, err;

	tls_clear();
	result = SSL_do_handshake(tls->ssl);
	if (result == 1)
		return 0;
	err = judge(tls, result);
	if (err == -EAGAIN)
		return err;
	tls->failed = true;
	set_no_tls(tls, error);
	return err ? err : -ECONNRESET;
}

/*
 * Before anything was said, TLS's records are in clear, so this is all that an alert takes. Of all alerts
 * this one is for what has nothing to do with the other side, as memory that has run out.
 */
void transport_tls_turn_away(int fd)
{
	static const uint8_t alert[] = {
		SSL3_RT_ALERT, TLS1_2_VERSION_MAJOR, TLS1_2_VERSION_MINOR, 0, 2,
		SSL3_AL_FATAL, SSL_AD_INTERNAL_ERROR,
	};
	uint8_t heard[4096];

	/* To close with bytes unread would reset the connection, and the client might never see
	 * why. */
	recv(fd, heard, sizeof(heard), MSG_DONTWAIT);
	send(fd, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
}

static bool tls_turn_away(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	if (BIO_number_written(SSL_get_wbio(tls->ssl)))
		return false;
	tls->failed = true;
	transport_tls_turn_away(transport->fd);
	return true;
}

static ssize_t tls_read(struct transport *transport, void *bytes, size_t n)
{
	struct transport_tls *tls = tls_of(transport);
	size_t got;
	int result;

	if (tls->failed) {
		ssize_t raw = recv(transport->fd, bytes, n, MSG_DONTWAIT);

		transport->wanted = EV_READ;
		return raw < 0 ? -errno : raw;
	}
	tls_clear();
	result = SSL_read_ex(tls->ssl, bytes, n, &got);
	return result == 1 ? (ssize_t)got : judge(tls, result);
}

/* Offers a record to OpenSSL: 0 if it took it all, or -errno. */
static int offer(struct transport_tls *tls, const void *bytes, size_t n)
{
	size_t sent;
	int result, err;

	tls_clear();
	result = SSL_write_ex(tls->ssl, bytes, n, &sent);
	if (result == 1)
		return 0;
	err = judge(tls, result);
	return err ? err : -EPIPE;
}

/* What could not be written yet OpenSSL wants to see again, the same: a copy is kept, so that the
 * caller is free to write something else. */
static int hold(struct transport_tls *tls, const void *bytes, size_t n)
{
	tls->held = malloc(n);
	if (!tls->held)
		return -ENOMEM;
	memcpy(tls->held, bytes, n);
	tls->held_bytes = n;
	return 0;
}

/* 0 once nothing is held. */
static int write_held(struct transport_tls *tls)
{
	int err = tls->held ? offer(tls, tls->held, tls->held_bytes) : 0;

	if (err)
		return err;
	free(tls->held);
	tls->held = NULL;
	return 0;
}

/* The bytes of iov[] from *at, `skip` into it, that make the next record: where they lie, or
 * gathered. Moves on past them. */
static const void *next_record(const struct iovec *iov, unsigned n, unsigned *at, size_t *skip,
			       uint8_t *gathered, size_t *bytes)
{
	const uint8_t *first = (const uint8_t *)iov[*at].iov_base + *skip;
	size_t left = iov[*at].iov_len - *skip;

	*bytes = 0;
	if (left >= RECORD_BYTES_MIN || *at + 1 == n) {
		*bytes = left < RECORD_BYTES_MAX ? left : RECORD_BYTES_MAX;
		*skip += *bytes;
	} else {
		while (*at < n && *bytes < RECORD_BYTES_MAX) {
			size_t some = iov[*at].iov_len - *skip;

			some = some < RECORD_BYTES_MAX - *bytes ? some : RECORD_BYTES_MAX - *bytes;
			memcpy(gathered + *bytes, (uint8_t *)iov[*at].iov_base + *skip, some);
			*bytes += some;
			*skip += some;
			if (*skip < iov[*at].iov_len)
				break;
			(*at)++;
			*skip = 0;
		}
		return gathered;
	}
	if (*skip == iov[*at].iov_len) {
		(*at)++;
		*skip = 0;
	}
	return first;
}

static ssize_t tls_write(struct transport *transport, const struct iovec *iov, unsigned n)
{
	struct transport_tls *tls = tls_of(transport);
	uint8_t gathered[RECORD_BYTES_MAX];
	ssize_t taken = 0;
	unsigned at = 0;
	size_t skip = 0;
	int err;

	if (tls->failed)
		return n ? -EPIPE : 0;
	err = write_held(tls);
	if (err)
		return err;
	while (at < n && !tls->held) {
		size_t bytes;
		const void *record = next_record(iov, n, &at, &skip, gathered, &bytes);

		if (!bytes)
			continue;
		err = offer(tls, record, bytes);
		if (err == -EAGAIN)
			err = hold(tls, record, bytes);
		if (err)
			return err;
		taken += (ssize_t)bytes;
	}
	return taken;
}

static bool tls_pending(const struct transport *transport)
{
	return SSL_pending(tls_of(transport)->ssl) > 0;
}

static bool tls_unsent(const struct transport *transport)
{
	return tls_of(transport)->held;
}

static void tls_shutdown(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	if (tls->shut)
		return;
	tls->shut = true;
	/* Says nothing where hands were not shaken. */
	SSL_shutdown(tls->ssl);
	ERR_clear_error();
	shutdown(transport->fd, SHUT_WR);
}

static void tls_destroy(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	SSL_free(tls->ssl);
	ERR_clear_error();
	close(transport->fd);
	free(tls->held);
	free(tls);
}

static struct transport_tls *create_tls(struct transport_tls_context *context, int fd, bool dials)
{
	static const struct transport_ops ops = {
		.handshake = tls_handshake,
		.turn_away = tls_turn_away,
		.read = tls_read,
		.write = tls_write,
		.pending = tls_pending,
		.unsent = tls_unsent,
		.shutdown = tls_shutdown,
		.destroy = tls_destroy,
	};
	struct transport_tls *tls = calloc(1, sizeof(*tls));

	if (tls)
		tls->ssl = SSL_new(context->ssl);
	if (!tls || !tls->ssl || SSL_set_fd(tls->ssl, fd) != 1) {
		if (tls)
			SSL_free(tls->ssl);
		ERR_clear_error();
		if (!dials)
			transport_tls_turn_away(fd);
		close(fd);
		free(tls);
		return NULL;
	}
	tls->transport = (struct transport){.ops = &ops, .fd = fd, .wanted = EV_READ,
					    .shakes = !dials};
	tls->dials = dials;
	if (dials)
		SSL_set_connect_state(tls->ssl);
	else
		SSL_set_accept_state(tls->ssl);
	return tls;
}

struct transport *transport_tls_create(struct transport_tls_context *context, int fd)
{
	struct transport_tls *tls = create_tls(context, fd, false);

	return tls ? &tls->transport : NULL;
}

/* A number is proved as one. */
static bool expect_name(SSL *ssl, const char *name)
{
	unsigned char number[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, name, number) == 1 || inet_pton(AF_INET6, name, number) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

int transport_tls_dial(struct transport_tls_context *context, int fd, const char *name,
		       struct transport **transport, struct error *error)
{
	struct transport_tls *tls = create_tls(context, fd, true);

	if (!tls)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (!expect_name(tls->ssl, name)) {
		ERR_clear_error();
		tls_destroy(&tls->transport);
		return error_set(error, EINVAL, "server-name", "`%.80s` cannot be the name of a server",
				 name);
	}
	*transport = &tls->transport;
	return 0;
}

ssize_t transport_tls_peek(struct transport *transport, void *bytes, size_t n, struct error *error)
{
	struct transport_tls *tls = tls_of(transport);
	size_t got;
	int result, err;

	tls_clear();
	result = SSL_peek_ex(tls->ssl, bytes, n, &got);
	if (result == 1)
		return (ssize_t)got;
	err = judge(tls, result);
	if (err == -EAGAIN)
		return err;
	error_set(error, EPROTO, "tls-refused", "the server ended TLS: %s", why(tls->ssl));
	error_hint(error, "it has to trust the authority of tls-cert (its tls-client-ca), which must be"
			  " valid, and for clients");
	return err ? err : -ECONNRESET;
}

/* ---- TLS: who that is ------------------------------------------------------------------------ */

static int refuse_name(struct error *error, const char *what)
{
	error_set(error, EACCES, "certificate-name", "the client's certificate %s", what);
	error_hint(error, "its subject needs one common name (CN) of at most %u bytes of text",
		   IDENTITY_NAME_BYTES - 1);
	return -EACCES;
}

static int name_of(X509 *certificate, char name[IDENTITY_NAME_BYTES], struct error *error)
{
	X509_NAME *subject = X509_get_subject_name(certificate);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	unsigned char *text = NULL;
	int bytes, err = 0;

	if (at < 0)
		return refuse_name(error, "has no name");
	if (X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
		return refuse_name(error, "has more than one name");
	bytes = ASN1_STRING_to_UTF8(&text,
				    X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (bytes < 0 || !identity_is_name(text, (size_t)bytes)) {
		err = refuse_name(error, "has a name that is too long, or no text");
	} else {
		memcpy(name, text, (size_t)bytes);
		name[bytes] = '\0';
	}
	if (bytes >= 0)
		OPENSSL_free(text);
	ERR_clear_error();
	return err;
}

static int identity_of(SSL *ssl, struct client_identity *identity, struct error *error)
{
	X509 *certificate = SSL_get1_peer_certificate(ssl);
	char name[IDENTITY_NAME_BYTES];
	int err;

	identity_set_unproved(identity);
	if (!certificate)
		return 0;
	err = SSL_get_verify_result(ssl) == X509_V_OK ?
		      name_of(certificate, name, error) :
		      refuse_name(error, "was not signed by tls-client-ca");
	X509_free(certificate);
	if (!err)
		identity_set_name(identity, IDENTITY_CERT, name);
	return err;
}

int transport_tls_identity(const struct transport *transport, struct client_identity *identity,
			   struct error *error)
{
	return identity_of(tls_of(transport)->ssl, identity, error);
}

int transport_tls_check_revoked(const struct transport_tls_context *context, const struct transport *transport,
				struct error *error)
{
	if (!context || !revocation_names(context->ssl, tls_of(transport)->ssl))
		return 0;
	error_set(error, EACCES, "certificate-revoked", "your certificate is revoked");
	error_hint(error, "ask for a new one; the lists are in the option tls-crl of the other side");
	return -EACCES;
}

int transport_tls_name_of(const uint8_t *der, size_t bytes, char name[IDENTITY_NAME_BYTES],
			  struct error *error)
{
	X509 *certificate = d2i_X509(NULL, &der, (long)bytes);
	int err;

	ERR_clear_error();
	if (!certificate)
		return refuse_name(error, "is not one");
	err = name_of(certificate, name, error);
	X509_free(certificate);
	return err;
}

/* ---- TLS: for HTTP --------------------------------------------------------------------------- */

struct bufferevent *transport_tls_bufferevent(struct transport *transport,
					      struct event_base *base)
{
	struct transport_tls *tls = tls_of(transport);
	struct bufferevent *bufferevent =
		bufferevent_openssl_socket_new(base, transport->fd, tls->ssl, BUFFEREVENT_SSL_OPEN,
					       BEV_OPT_CLOSE_ON_FREE);

	if (!bufferevent) {
		tls_destroy(transport);
		return NULL;
	}
	free(tls->held);
	free(tls);
	return bufferevent;
}

int transport_tls_bufferevent_identity(struct bufferevent *bufferevent,
				       struct client_identity *identity, struct error *error)
{
	return identity_of(bufferevent_openssl_get_ssl(bufferevent), identity, error);
}
