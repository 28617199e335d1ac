/*
 * Plain and TLS transports over a socketpair, against a client of OpenSSL's own: the handshake in
 * pieces, every byte of a stream under back pressure, what is pending, and each way not to come in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/log.h"
#include "daemon/transport_tls.h"

#define STREAM_BYTES (3u << 20)
#define TURNS_MAX 2000000u

struct place {
	char directory[64], cert[96], key[96], ca[96];
	EVP_PKEY *authority, *mine;
	X509 *authority_cert;
};

static unsigned warnings;

static void count_warning(enum log_level level, const char *code, const char *text)
{
	(void)text;
	warnings += level == LOG_LEVEL_WARNING && strncmp(code, "tls-cert-", 9) == 0;
}

static X509 *sign(EVP_PKEY *of, const char *name, EVP_PKEY *by, X509 *issuer, long seconds)
{
	X509 *certificate = X509_new();
	X509_NAME *subject = X509_get_subject_name(certificate);

	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7);
	X509_gmtime_adj(X509_getm_notBefore(certificate), seconds < 0 ? seconds - 60 : -60);
	X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
	X509_set_pubkey(certificate, of);
	if (name)
		X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const uint8_t *)name, -1,
					   -1, 0);
	X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer) : subject);
	if (!issuer) {
		X509_EXTENSION *authority = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints,
								"CA:TRUE");

		X509_add_ext(certificate, authority, -1);
		X509_EXTENSION_free(authority);
	}
	assert_true(X509_sign(certificate, by, EVP_sha256()) > 0);
	return certificate;
}

static void write_cert(const char *path, X509 *certificate)
{
	FILE *file = fopen(path, "w");

	assert_int_equal(PEM_write_X509(file, certificate), 1);
	fclose(file);
}

static void write_key(const char *path, EVP_PKEY *key)
{
	FILE *file = fopen(path, "w");

	assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	assert_int_equal(chmod(path, 0600), 0);
}

static void open_place(struct place *place, long seconds)
{
	X509 *certificate;

	snprintf(place->directory, sizeof(place->directory), "/tmp/ringtail-tls-XXXXXX");
	assert_non_null(mkdtemp(place->directory));
	snprintf(place->cert, sizeof(place->cert), "%s/cert", place->directory);
	snprintf(place->key, sizeof(place->key), "%s/key", place->directory);
	snprintf(place->ca, sizeof(place->ca), "%s/ca", place->directory);
	place->authority = EVP_EC_gen("P-256");
	place->mine = EVP_EC_gen("P-256");
	place->authority_cert = sign(place->authority, "authority", place->authority, NULL, 3600);
	certificate = sign(place->mine, "server", place->authority, place->authority_cert, seconds);
	write_cert(place->cert, certificate);
	write_cert(place->ca, place->authority_cert);
	write_key(place->key, place->mine);
	X509_free(certificate);
}

static void close_place(struct place *place)
{
	unlink(place->cert);
	unlink(place->key);
	unlink(place->ca);
	assert_int_equal(rmdir(place->directory), 0);
	EVP_PKEY_free(place->authority);
	EVP_PKEY_free(place->mine);
	X509_free(place->authority_cert);
}

static struct transport_tls_context *open_context(const struct place *place, bool optional)
{
	struct transport_tls_files files = {place->cert, place->key, place->ca, optional};
	struct transport_tls_context *context;
	struct error error;

	if (transport_tls_context_create(&files, &context, &error) != 0)
		fail_msg("%s", error.what);
	return context;
}

/* A client with a certificate of that name, by that authority; NULL: without one. */
static SSL *open_client(const struct place *place, const char *name, EVP_PKEY *authority, int fd)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl;

	if (name) {
		EVP_PKEY *key = EVP_EC_gen("P-256");
		X509 *certificate = sign(key, *name ? name : NULL, authority,
					 place->authority_cert, 3600);

		assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
		assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
		X509_free(certificate);
		EVP_PKEY_free(key);
	}
	ssl = SSL_new(context);
	SSL_CTX_free(context);
	SSL_set_fd(ssl, fd);
	return ssl;
}

struct pair {
	struct transport *transport;
	SSL *ssl;
	int fds[2];
};

static void open_pair(struct pair *pair, struct transport_tls_context *context,
		      const struct place *place, const char *name, EVP_PKEY *authority)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fds), 0);
	pair->transport = transport_tls_create(context, pair->fds[0]);
	assert_non_null(pair->transport);
	pair->ssl = open_client(place, name, authority, pair->fds[1]);
}

/* 0 once both have shaken hands, or the server's error. */
static int shake(struct pair *pair, struct error *error)
{
	int err = -EAGAIN, theirs = 0;

	for (unsigned turn = 0; turn < 100 && (err == -EAGAIN || theirs != 1); turn++) {
		if (theirs != 1)
			theirs = SSL_connect(pair->ssl);
		if (err == -EAGAIN)
			err = transport_handshake(pair->transport, error);
		if (err && err != -EAGAIN)
			return err;
		assert_true(err == 0 || pair->transport->wanted == EV_READ);
	}
	ERR_clear_error();
	return err;
}

static void close_pair(struct pair *pair)
{
	SSL_free(pair->ssl);
	close(pair->fds[1]);
	transport_destroy(pair->transport);
}

static void test_identity(void **state)
{
	struct transport_tls_context *context;
	struct client_identity identity;
	struct error error = {0};
	struct place place;
	struct pair pair;

	(void)state;
	open_place(&place, 3600);
	context = open_context(&place, true);
	open_pair(&pair, context, &place, "alice", place.authority);
	assert_int_equal(shake(&pair, &error), 0);
	assert_string_equal(SSL_get_version(pair.ssl), "TLSv1.3");
	assert_int_equal(transport_tls_identity(pair.transport, &identity, &error), 0);
	assert_string_equal(identity.text, "cert:alice");
	assert_int_equal(identity.proof, IDENTITY_CERT);
	close_pair(&pair);

	open_pair(&pair, context, &place, NULL, NULL);
	assert_int_equal(shake(&pair, &error), 0);
	assert_int_equal(transport_tls_identity(pair.transport, &identity, &error), 0);
	assert_int_equal(identity.proof, IDENTITY_UNPROVED);
	close_pair(&pair);

	open_pair(&pair, context, &place, "a\nb", place.authority);
	assert_int_equal(shake(&pair, &error), 0);
	assert_int_equal(transport_tls_identity(pair.transport, &identity, &error), -EACCES);
	assert_string_equal(error.code, "certificate-name");
	close_pair(&pair);
	transport_tls_context_destroy(context);
	close_place(&place);
}

/* Whoever does not get through is told so in TLS, and may send what it likes meanwhile. */
static void check_refused(struct transport_tls_context *context, const struct place *place,
			  const char *name, EVP_PKEY *authority)
{
	struct error error = {0};
	struct pair pair;
	char bytes[256];

	open_pair(&pair, context, place, name, authority);
	assert_true(shake(&pair, &error) < 0);
	assert_string_equal(error.code, "tls-handshake");
	assert_true(*error.what && *error.hint);
	assert_true(SSL_read(pair.ssl, bytes, sizeof(bytes)) <= 0);
	assert_true(ERR_GET_REASON(ERR_peek_last_error()) >= SSL_AD_REASON_OFFSET);
	ERR_clear_error();
	assert_int_equal(send(pair.fds[1], "noise", 5, 0), 5);
	while (transport_read(pair.transport, bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(transport_write(pair.transport, &(struct iovec){bytes, 1}, 1), -EPIPE);
	assert_false(transport_pending(pair.transport));
	assert_false(transport_unsent(pair.transport));
	transport_shutdown(pair.transport);
	transport_shutdown(pair.transport);
	close_pair(&pair);
}

static void test_refused(void **state)
{
	struct transport_tls_context *context;
	EVP_PKEY *stranger = EVP_EC_gen("P-256");
	struct error error = {0};
	struct place place;
	struct pair pair;

	(void)state;
	open_place(&place, 3600);
	context = open_context(&place, false);
	check_refused(context, &place, NULL, NULL);
	check_refused(context, &place, "alice", stranger);
	open_pair(&pair, context, &place, NULL, NULL);
	assert_int_equal(send(pair.fds[1], "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	assert_true(transport_handshake(pair.transport, &error) < 0);
	close_pair(&pair);
	open_pair(&pair, context, &place, NULL, NULL);
	shutdown(pair.fds[1], SHUT_WR);
	assert_true(transport_handshake(pair.transport, &error) < 0);
	close_pair(&pair);
	/* Versions before 1.3 are none. */
	open_pair(&pair, context, &place, "alice", place.authority);
	SSL_set_max_proto_version(pair.ssl, TLS1_2_VERSION);
	assert_true(shake(&pair, &error) < 0);
	close_pair(&pair);
	EVP_PKEY_free(stranger);
	transport_tls_context_destroy(context);
	close_place(&place);
}

/* ---- Bytes ---------------------------------------------------------------------------------------- */

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 2654435761u >> 13);
}

/* Writes and reads the whole stream, a random amount at a time, in random pieces. */
static void check_stream(struct transport *transport, ssize_t (*read_some)(void *, uint8_t *, size_t),
			 void *reader, unsigned seed)
{
	static uint8_t bytes[STREAM_BYTES], got[1 << 16];
	size_t written = 0, read = 0;
	bool held = false;

	for (size_t i = 0; i < STREAM_BYTES; i++)
		bytes[i] = byte_at(i);
	for (unsigned turn = 0; turn < TURNS_MAX && read < STREAM_BYTES; turn++) {
		struct iovec iov[8];
		size_t at = written;
		unsigned n = 0;
		ssize_t some;

		for (; n < 8 && at < STREAM_BYTES; n++) {
			size_t piece = (size_t)rand_r(&seed) % (n % 3 ? 40000 : 300);

			piece = piece < STREAM_BYTES - at ? piece : STREAM_BYTES - at;
			iov[n] = (struct iovec){bytes + at, piece};
			at += piece;
		}
		some = transport_write(transport, iov, n);
		assert_true(some >= 0 || some == -EAGAIN);
		written += some > 0 ? (size_t)some : 0;
		held |= transport_unsent(transport);
		if (rand_r(&seed) % 2) {
			some = read_some(reader, got, 1 + (size_t)rand_r(&seed) % sizeof(got));
			for (ssize_t i = 0; i < some; i++)
				if (got[i] != byte_at(read + (size_t)i))
					fail_msg("byte %zu is wrong", read + (size_t)i);
			read += some > 0 ? (size_t)some : 0;
		}
	}
	assert_int_equal(read, STREAM_BYTES);
	assert_int_equal(written, STREAM_BYTES);
	assert_false(transport_unsent(transport));
	print_message("%s\n", held ? "something was held back" : "nothing was held back");
}

static ssize_t read_tls(void *ssl, uint8_t *bytes, size_t n)
{
	int got = SSL_read(ssl, bytes, (int)n);

	ERR_clear_error();
	return got;
}

static ssize_t read_plain(void *fd, uint8_t *bytes, size_t n)
{
	return recv(*(int *)fd, bytes, n, MSG_DONTWAIT);
}

static void test_streams(void **state)
{
	struct transport_tls_context *context;
	struct error error = {0};
	struct place place;
	struct pair pair;
	char bytes[64];
	int small = 1, fds[2];

	(void)state;
	open_place(&place, 3600);
	context = open_context(&place, true);
	open_pair(&pair, context, &place, NULL, NULL);
	setsockopt(pair.fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	assert_int_equal(shake(&pair, &error), 0);
	check_stream(pair.transport, read_tls, pair.ssl, 1);

	/* One record, read in two: no event would tell of the second half. */
	assert_int_equal(SSL_write(pair.ssl, "0123456789", 10), 10);
	assert_int_equal(transport_read(pair.transport, bytes, 4), 4);
	assert_true(transport_pending(pair.transport));
	assert_int_equal(transport_read(pair.transport, bytes, 64), 6);
	assert_false(transport_pending(pair.transport));
	assert_int_equal(transport_read(pair.transport, bytes, 64), -EAGAIN);
	assert_int_equal(pair.transport->wanted, EV_READ);
	transport_shutdown(pair.transport);
	assert_int_equal(SSL_read(pair.ssl, bytes, 64), 0);
	SSL_shutdown(pair.ssl);
	assert_int_equal(transport_read(pair.transport, bytes, 64), 0);
	close_pair(&pair);
	transport_tls_context_destroy(context);
	close_place(&place);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	pair.transport = transport_plain_create(fds[0]);
	assert_int_equal(transport_handshake(pair.transport, &error), 0);
	check_stream(pair.transport, read_plain, &fds[1], 2);
	assert_int_equal(transport_read(pair.transport, bytes, 64), -EAGAIN);
	close(fds[1]);
	assert_int_equal(transport_read(pair.transport, bytes, 64), 0);
	assert_int_equal(transport_write(pair.transport, &(struct iovec){bytes, 1}, 1), -EPIPE);
	transport_destroy(pair.transport);
	transport_destroy(NULL);
}

/* ---- Files ---------------------------------------------------------------------------------------- */

static void expect_files(const struct transport_tls_files *files, const char *code)
{
	struct transport_tls_context *context;
	struct error error;

	assert_true(transport_tls_context_create(files, &context, &error) < 0);
	assert_string_equal(error.code, code);
	assert_true(*error.what && *error.hint);
}

static void test_files(void **state)
{
	static const struct log_sink sink = {count_warning, clock_monotonic};
	struct transport_tls_context *context;
	struct transport_tls_files files;
	struct place place, expired;

	(void)state;
	log_set_sink(&sink);
	open_place(&place, 3600);
	open_place(&expired, -60);
	files = (struct transport_tls_files){place.cert, place.key, place.ca, false};
	files.cert = "/none";
	expect_files(&files, "tls-cert");
	files.cert = place.key;
	expect_files(&files, "tls-cert");
	files = (struct transport_tls_files){place.cert, expired.key, place.ca, false};
	expect_files(&files, "tls-key-mismatch");
	files.key = place.cert;
	chmod(place.cert, 0600);
	expect_files(&files, "tls-key");
	files.key = "/none";
	expect_files(&files, "secret-file");
	files.key = place.key;
	chmod(place.key, 0644);
	expect_files(&files, "secret-file-open");
	chmod(place.key, 0600);
	files.client_ca = place.key;
	expect_files(&files, "tls-client-ca");
	/* An expired one serves on: clients will say what they think of it. */
	warnings = 0;
	context = open_context(&expired, true);
	assert_int_equal(warnings, 1);
	transport_tls_context_swap(context, open_context(&place, true));
	transport_tls_context_destroy(context);
	transport_tls_context_destroy(NULL);
	close_place(&place);
	close_place(&expired);
	log_set_sink(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
