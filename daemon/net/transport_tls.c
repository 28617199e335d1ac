/* transport_tls: one connection inside TLS. See transport_tls.h; transport_tls_context.c has what
 * they share. */
#include "daemon/net/transport_tls.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/net/transport_tls_private.h"

#define RECORD_BYTES_MAX 16384u	/* of TLS; what is smaller is gathered up to this */
#define RECORD_BYTES_MIN 4096u	/* what has so many is worth a record of its own */

struct transport_tls {
	struct transport transport;
	SSL *ssl;
	bool failed;		/* the handshake has; what still comes in is thrown away */
	bool shut;
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
	int err = errno;

	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		tls->transport.wanted = EV_READ;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		tls->transport.wanted = EV_WRITE;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return err ? -err : -ECONNRESET;
	default:
		return -EPROTO;
	}
}

static const char *why(const SSL *ssl)
{
	long verdict = SSL_get_verify_result(ssl);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	if (verdict != X509_V_OK)
		return X509_verify_cert_error_string(verdict);
	return reason ? reason : "the connection broke";
}

static int tls_handshake(struct transport *transport, struct error *error)
{
	struct transport_tls *tls = tls_of(transport);
	int result, err;

	ERR_clear_error();
	errno = 0;
	result = SSL_accept(tls->ssl);
	if (result == 1)
		return 0;
	err = judge(tls, result);
	if (err == -EAGAIN)
		return err;
	tls->failed = true;
	error_set(error, EPROTO, "tls-handshake", "no TLS with this client: %s", why(tls->ssl));
	error_hint(error, "it has to speak TLS 1.3, and show a certificate that tls-client-ca signed"
			  " where that is asked for");
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
	if (send(fd, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		shutdown(fd, SHUT_WR);
}

static bool tls_turn_away(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	if (BIO_number_written(SSL_get_wbio(tls->ssl)))
		return false;
	tls->failed = tls->shut = true;
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
	ERR_clear_error();
	errno = 0;
	result = SSL_read_ex(tls->ssl, bytes, n, &got);
	return result == 1 ? (ssize_t)got : judge(tls, result);
}

/* Offers `n` bytes, one record at most, to OpenSSL. Returns how many it took, or -errno. */
static ssize_t offer(struct transport_tls *tls, const void *bytes, size_t n)
{
	size_t sent;
	int result, err;

	ERR_clear_error();
	errno = 0;
	result = SSL_write_ex(tls->ssl, bytes, n, &sent);
	if (result == 1)
		return (ssize_t)sent;
	err = judge(tls, result);
	return err ? err : -EPIPE;
}

/* What could not be written yet OpenSSL wants to see again, the same: a copy is kept, so that the
 * caller is free to write something else. */
static ssize_t hold(struct transport_tls *tls, const void *bytes, size_t n)
{
	tls->held = malloc(n);
	if (!tls->held)
		return -ENOMEM;
	memcpy(tls->held, bytes, n);
	tls->held_bytes = n;
	return (ssize_t)n;
}

/* 0 once nothing is held. */
static ssize_t write_held(struct transport_tls *tls)
{
	ssize_t sent;

	while (tls->held_bytes) {
		sent = offer(tls, tls->held, tls->held_bytes);
		if (sent < 0)
			return sent;
		tls->held_bytes -= (size_t)sent;
		memmove(tls->held, tls->held + sent, tls->held_bytes);
	}
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
	ssize_t taken = 0, sent;
	unsigned at = 0;
	size_t skip = 0;

	if (tls->failed)
		return n ? -EPIPE : 0;
	sent = write_held(tls);
	if (sent < 0)
		return sent;
	while (at < n) {
		size_t bytes;
		const void *record = next_record(iov, n, &at, &skip, gathered, &bytes);

		if (!bytes)
			continue;
		sent = offer(tls, record, bytes);
		if (sent == -EAGAIN) {
			sent = hold(tls, record, bytes);
			return sent < 0 ? sent : taken + sent;
		}
		if (sent < 0)
			return sent;
		taken += sent;
		if ((size_t)sent < bytes)
			break;
	}
	return taken;
}

static bool tls_pending(const struct transport *transport)
{
	const struct transport_tls *tls = tls_of(transport);

	return !tls->failed && SSL_pending(tls->ssl) > 0;
}

static bool tls_unsent(const struct transport *transport)
{
	return tls_of(transport)->held_bytes > 0;
}

static void tls_shutdown(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	if (tls->shut)
		return;
	tls->shut = true;
	ERR_clear_error();
	if (!tls->failed)
		SSL_shutdown(tls->ssl);
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

struct transport *transport_tls_create(struct transport_tls_context *context, int fd)
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
		transport_tls_turn_away(fd);
		close(fd);
		free(tls);
		return NULL;
	}
	tls->transport = (struct transport){.ops = &ops, .fd = fd, .wanted = EV_READ,
					    .shakes = true};
	return &tls->transport;
}

/* ---- Who that is ------------------------------------------------------------------------------- */

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
		return refuse_name(error, "names nobody");
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

/* ---- For HTTP ---------------------------------------------------------------------------------- */

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
	/* Who hangs up without a word has sent a whole request before, or none that counts. */
	bufferevent_openssl_set_allow_dirty_shutdown(bufferevent, 1);
	return bufferevent;
}

int transport_tls_bufferevent_identity(struct bufferevent *bufferevent,
				       struct client_identity *identity, struct error *error)
{
	return identity_of(bufferevent_openssl_get_ssl(bufferevent), identity, error);
}
