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
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/net/transport.h"
#include "tests/unit/daemon/tls_place.h"

#define STREAM_BYTES (3u << 20)
#define TURNS_MAX 2000000u
#define DAY_S 86400

static char warned[64];	/* the code of the last one */

static void note_warning(enum log_level level, const char *code, const char *text)
{
	(void)text;
	if (level == LOG_LEVEL_WARNING)
		snprintf(warned, sizeof(warned), "%s", code);
}

/* So many calls are interrupted before they have done anything. */
static unsigned interrupts;

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t n, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);

static bool is_interrupted(void)
{
	if (!interrupts)
		return false;
	interrupts--;
	errno = EINTR;
	return true;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags)
{
	return is_interrupted() ? -1 : __real_recv(fd, bytes, n, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return is_interrupted() ? -1 : __real_sendmsg(fd, message, flags);
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
	pair->ssl = place_client(place, name, authority, pair->fds[1]);
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
	place_open(&place, -60, 3600);
	context = place_context(&place, true);
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
	place_close(&place);
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
	place_open(&place, -60, 3600);
	context = place_context(&place, false);
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
	place_close(&place);
}

/* Before anything was said an alert says it; later, only a frame could. */
static void test_turned_away(void **state)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 80};
	struct transport_tls_context *context;
	struct error error = {0};
	struct place place;
	struct pair pair;
	uint8_t bytes[16];

	(void)state;
	place_open(&place, -60, 3600);
	context = place_context(&place, true);
	for (unsigned heard = 0; heard < 2; heard++) {
		open_pair(&pair, context, &place, NULL, NULL);
		if (heard)
			assert_int_equal(SSL_connect(pair.ssl), -1);
		assert_true(transport_turn_away(pair.transport));
		transport_destroy(pair.transport);
		if (heard) {
			assert_true(SSL_connect(pair.ssl) <= 0);
			assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()),
					 SSL_AD_REASON_OFFSET + SSL_AD_INTERNAL_ERROR);
			ERR_clear_error();
		} else {
			assert_int_equal(recv(pair.fds[1], bytes, sizeof(bytes), 0), sizeof(alert));
			assert_memory_equal(bytes, alert, sizeof(alert));
		}
		assert_int_equal(recv(pair.fds[1], bytes, sizeof(bytes), 0), 0);
		SSL_free(pair.ssl);
		close(pair.fds[1]);
	}
	open_pair(&pair, context, &place, NULL, NULL);
	assert_int_equal(SSL_connect(pair.ssl), -1);
	assert_int_equal(transport_handshake(pair.transport, &error), -EAGAIN);
	assert_false(transport_turn_away(pair.transport));
	assert_int_equal(shake(&pair, &error), 0);
	close_pair(&pair);
	transport_tls_context_destroy(context);
	place_close(&place);
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
	place_open(&place, -60, 3600);
	context = place_context(&place, true);
	/* There is room for many records at once; then for less than one. */
	open_pair(&pair, context, &place, NULL, NULL);
	assert_int_equal(shake(&pair, &error), 0);
	check_stream(pair.transport, read_tls, pair.ssl, 3);
	close_pair(&pair);
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
	place_close(&place);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	pair.transport = transport_plain_create(fds[0]);
	assert_int_equal(transport_handshake(pair.transport, &error), 0);
	check_stream(pair.transport, read_plain, &fds[1], 2);
	pair.transport->wanted = EV_WRITE;
	assert_int_equal(transport_read(pair.transport, bytes, 64), -EAGAIN);
	assert_int_equal(pair.transport->wanted, EV_READ);
	/* There is no frame here that could say so, nor an alert. */
	assert_false(transport_turn_away(pair.transport));
	transport_shutdown(pair.transport);
	assert_int_equal(recv(fds[1], bytes, 64, 0), 0);
	assert_int_equal(send(fds[1], "a", 1, 0), 1);
	assert_int_equal(transport_read(pair.transport, bytes, 64), 1);
	close(fds[1]);
	assert_int_equal(transport_read(pair.transport, bytes, 64), 0);
	assert_int_equal(transport_write(pair.transport, &(struct iovec){bytes, 1}, 1), -EPIPE);
	transport_destroy(pair.transport);
	transport_destroy(NULL);
}

/* A signal ends no connection: it is tried again. */
static void test_interrupted(void **state)
{
	struct transport *transport;
	char bytes[4];
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	transport = transport_plain_create(fds[0]);
	assert_int_equal(send(fds[1], "ab", 2, 0), 2);
	transport->wanted = EV_WRITE;
	interrupts = 1;
	assert_int_equal(transport_read(transport, bytes, sizeof(bytes)), -EAGAIN);
	assert_int_equal(transport->wanted, EV_READ);
	assert_int_equal(transport_read(transport, bytes, sizeof(bytes)), 2);
	interrupts = 1;
	assert_int_equal(transport_write(transport, &(struct iovec){bytes, 2}, 1), -EAGAIN);
	assert_int_equal(transport->wanted, EV_WRITE);
	assert_int_equal(transport_write(transport, &(struct iovec){bytes, 2}, 1), 2);
	assert_int_equal(interrupts, 0);
	transport_destroy(transport);
	close(fds[1]);
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
	struct transport_tls_files files;
	struct place place, expired;

	(void)state;
	place_open(&place, -60, 3600);
	place_open(&expired, -120, -60);
	files = (struct transport_tls_files){.cert = place.cert, .key = place.key, .client_ca = place.ca};
	files.cert = "/none";
	expect_files(&files, "tls-cert");
	files.cert = place.key;
	expect_files(&files, "tls-cert");
	files = (struct transport_tls_files){.cert = place.cert, .key = expired.key, .client_ca = place.ca};
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
	place_close(&place);
	place_close(&expired);
}

/* It serves on whatever the time is: clients will say what they think of it. */
static void test_expires(void **state)
{
	static const struct log_sink sink = {note_warning, clock_monotonic};
	static const struct {
		long from, until;
		const char *code;
	} row[] = {
		{-120, -60, "tls-cert-expired"},
		{60, 3600, "tls-cert-early"},
		{-60, 60, "tls-cert-expires"},
		{-60, 30 * DAY_S - 60, "tls-cert-expires"},
		{-60, 30 * DAY_S + 60, ""},
	};
	struct transport_tls_context *context = NULL, *next;

	(void)state;
	log_set_sink(&sink);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		int64_t expected = (int64_t)time(NULL) + row[i].until;
		struct place place;

		place_open(&place, row[i].from, row[i].until);
		warned[0] = '\0';
		next = place_context(&place, true);
		assert_string_equal(warned, row[i].code);
		if (context)
			transport_tls_context_swap(context, next);
		else
			context = next;
		assert_in_range(transport_tls_context_expires(context), expected, expected + 2);
		place_close(&place);
	}
	transport_tls_context_destroy(context);
	transport_tls_context_destroy(NULL);
	log_set_sink(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_turned_away),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_expires),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
