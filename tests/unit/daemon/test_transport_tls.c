/*
 * The daemon's side of TLS over a socketpair: what a client sees of its certificate, of its authority and of a reload;
 * names in clients' certificates; how bytes become records, and what waits; what is left of one that was refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/net/transport.h"
#include "proto/tls.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/tls_place.h"

#define TURNS_MAX 100

static uint64_t now_s;		/* 0: what the host says */

uint64_t __real_clock_read(clockid_t clock);
uint64_t __wrap_clock_read(clockid_t clock);
uint64_t __wrap_clock_read(clockid_t clock)
{
	return clock == CLOCK_REALTIME && now_s ? now_s * NS_PER_S + NS_PER_S - 1 : __real_clock_read(clock);
}

static char warned[256];

static void note_warning(enum log_level level, const char *code, const char *text)
{
	assert_int_equal(level, LOG_LEVEL_WARNING);
	snprintf(warned, sizeof(warned), "%s %s", code, text);
}

/* No line comes so soon after the one before that it would be left out. */
static uint64_t an_hour_later(void)
{
	static uint64_t ns;

	return ns += 3600 * NS_PER_S;
}

static const struct log_sink sink = { note_warning, an_hour_later };

/* ---- Both ends ------------------------------------------------------------------------------------ */

struct bench {
	struct place place;
	struct transport_tls_context *context;
	struct transport *transport;
	SSL *ssl;		/* the client's */
	int fds[2];		/* ours, the client's */
};

static void open_place(struct bench *bench)
{
	*bench = (struct bench){ .fds = { -1, -1 } };
	place_open(&bench->place, -60, 3600);
	bench->context = place_context(&bench->place, true);
}

static void open_pair(struct bench *bench)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, bench->fds), 0);
	bench->transport = transport_tls_create(bench->context, bench->fds[0]);
	assert_non_null(bench->transport);
	bench->ssl = place_client(&bench->place, NULL, NULL, bench->fds[1]);
}

static void shake(struct bench *bench)
{
	int ours = -EAGAIN, theirs = 0;
	struct error error;

	for (unsigned turn = 0; turn < TURNS_MAX && (ours || theirs != 1); turn++) {
		if (theirs != 1)
			theirs = SSL_connect(bench->ssl);
		if (ours)
			ours = transport_handshake(bench->transport, &error);
	}
	ERR_clear_error();
	assert_int_equal(ours, 0);
	assert_int_equal(theirs, 1);
}

static void open_shaken(struct bench *bench)
{
	open_place(bench);
	open_pair(bench);
	shake(bench);
}

static void close_pair(struct bench *bench)
{
	SSL_free(bench->ssl);
	close(bench->fds[1]);
	transport_destroy(bench->transport);
	assert_int_equal(fcntl(bench->fds[0], F_GETFD), -1);
}

static void close_bench(struct bench *bench)
{
	close_pair(bench);
	transport_tls_context_destroy(bench->context);
	place_close(&bench->place);
}

/* ---- What a client sees --------------------------------------------------------------------------- */

static void a_transport_that_is_new(void **state)
{
	struct bench bench;

	(void)state;
	open_place(&bench);
	open_pair(&bench);
	assert_true(bench.transport->shakes);
	assert_int_equal(bench.transport->wanted, EV_READ);
	assert_int_equal(bench.transport->fd, bench.fds[0]);
	assert_false(transport_unsent(bench.transport));
	close_bench(&bench);
}

/* Each connection proves itself anew: there is nothing behind the handshake to come back with. */
static void no_ticket_is_given(void **state)
{
	struct bench bench;
	char byte;

	(void)state;
	open_shaken(&bench);
	assert_string_equal(SSL_get_version(bench.ssl), "TLSv1.3");
	assert_int_equal(recv(bench.fds[1], &byte, 1, MSG_PEEK), -1);
	assert_int_equal(errno, EAGAIN);
	close_bench(&bench);
}

static void the_chain_is_shown_and_the_authority_named(void **state)
{
	EVP_PKEY *middle = EVP_EC_gen("P-256");
	const STACK_OF(X509_NAME) *named;
	X509 *middle_cert, *leaf;
	struct bench bench;
	FILE *file;

	(void)state;
	open_place(&bench);
	middle_cert = certificate_sign(middle, "middle", bench.place.authority, bench.place.authority_cert, -60, 3600);
	certificate_extend(middle_cert, bench.place.authority, NID_basic_constraints, "CA:TRUE");
	leaf = certificate_sign(bench.place.mine, "server", middle, middle_cert, -60, 3600);
	file = fopen(bench.place.cert, "w");
	PEM_write_X509(file, leaf);
	PEM_write_X509(file, middle_cert);
	fclose(file);
	transport_tls_context_swap(bench.context, place_context(&bench.place, true));
	open_pair(&bench);
	assert_int_equal(SSL_CTX_load_verify_file(SSL_get_SSL_CTX(bench.ssl), bench.place.ca), 1);
	shake(&bench);
	assert_int_equal(SSL_get_verify_result(bench.ssl), X509_V_OK);
	assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(bench.ssl)), 2);
	named = SSL_get0_peer_CA_list(bench.ssl);
	assert_int_equal(sk_X509_NAME_num(named), 1);
	assert_int_equal(X509_NAME_cmp(sk_X509_NAME_value(named, 0), X509_get_subject_name(bench.place.authority_cert)), 0);
	close_bench(&bench);
	X509_free(leaf);
	X509_free(middle_cert);
	EVP_PKEY_free(middle);
}

/* The next connection has the new certificate; one that was there goes on. */
static void a_reload_is_for_connections_from_now_on(void **state)
{
	struct bench old, new;
	struct place other;
	X509 *seen;
	char byte;

	(void)state;
	open_shaken(&old);
	place_open(&other, -60, 7200);
	transport_tls_context_swap(old.context, place_context(&other, true));
	new = old;
	open_pair(&new);
	shake(&new);
	seen = SSL_get1_peer_certificate(new.ssl);
	assert_int_equal(X509_verify(seen, other.authority), 1);
	X509_free(seen);
	seen = SSL_get1_peer_certificate(old.ssl);
	assert_int_equal(X509_verify(seen, old.place.authority), 1);
	X509_free(seen);
	assert_int_equal(SSL_write(old.ssl, "a", 1), 1);
	assert_int_equal(transport_read(old.transport, &byte, 1), 1);
	close_pair(&new);
	place_close(&other);
	close_bench(&old);
}

/* The last moment of a certificate is one at which it is good, and so is its first. */
static void warned_of_the_time(void **state)
{
	enum { FROM, UNTIL };
	static const struct {
		int of;
		int64_t at;
		const char *warned;
	} row[] = {
		{ UNTIL, 1, "tls-cert-expired" },
		{ UNTIL, 0, "expires in 0 days" },
		{ UNTIL, 1 - TLS_DAY_S, "expires in 0 days" },
		{ UNTIL, -TLS_DAY_S, "expires in 1 day:" },
		{ UNTIL, -2 * TLS_DAY_S, "expires in 2 days:" },
		{ UNTIL, 1 - 30 * TLS_DAY_S, "expires in 29 days:" },
		{ UNTIL, -30 * TLS_DAY_S, "" },
		{ FROM, 0, "" },
		{ FROM, -1, "tls-cert-early" },
	};
	struct transport_tls_context *context;
	struct tls_span span;
	struct place place;
	X509 *certificate;
	FILE *file;

	(void)state;
	place_open(&place, -60, 90 * TLS_DAY_S);
	file = fopen(place.cert, "r");
	certificate = PEM_read_X509(file, NULL, NULL, NULL);
	fclose(file);
	assert_true(tls_span_of(certificate, &span));
	X509_free(certificate);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		now_s = (uint64_t)((row[i].of == UNTIL ? span.until_s : span.from_s) + row[i].at);
		warned[0] = '\0';
		context = place_context(&place, true);
		if (*row[i].warned ? !strstr(warned, row[i].warned) : *warned)
			fail_msg("row %zu: %s", i, warned);
		assert_int_equal(transport_tls_context_expires(context), span.until_s);
		transport_tls_context_destroy(context);
	}
	now_s = 0;
	place_close(&place);
}

/* ---- Names ---------------------------------------------------------------------------------------- */

/* Of a certificate with those common names. */
static int name_of(const char *const *names, unsigned n, char name[IDENTITY_NAME_BYTES], struct error *error)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = certificate_sign(key, NULL, key, NULL, -60, 3600);
	X509_NAME *subject = X509_get_subject_name(certificate);
	unsigned char *der = NULL;
	int bytes, err;

	/* Another kind of name in between. */
	X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, (const uint8_t *)"house", -1, -1, 0);
	for (unsigned i = 0; i < n; i++)
		X509_NAME_add_entry_by_NID(subject, NID_commonName, V_ASN1_UTF8STRING, (const uint8_t *)names[i],
					   (int)strlen(names[i]), -1, 0);
	X509_sign(certificate, key, EVP_sha256());
	bytes = i2d_X509(certificate, &der);
	err = transport_tls_name_of(der, (size_t)bytes, name, error);
	OPENSSL_free(der);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return err;
}

static void names_of_clients(void **state)
{
	char longest[IDENTITY_NAME_BYTES + 1], name[IDENTITY_NAME_BYTES];
	const char *const two[] = { "alice", "bob" }, *const long_one[] = { longest };
	struct error error = { 0 };

	(void)state;
	assert_int_equal(name_of(two, 1, name, &error), 0);
	assert_string_equal(name, "alice");
	assert_int_equal(name_of(two, 2, name, &error), -EACCES);
	assert_string_equal(error.code, "certificate-name");
	assert_non_null(strstr(error.what, "more than one name"));
	assert_non_null(strstr(error.hint, "63 bytes"));
	assert_int_equal(name_of(NULL, 0, name, &error), -EACCES);
	assert_non_null(strstr(error.what, "has no name"));
	memset(longest, 'n', sizeof(longest));
	longest[IDENTITY_NAME_BYTES] = '\0';
	assert_int_equal(name_of(long_one, 1, name, &error), -EACCES);
	assert_non_null(strstr(error.what, "too long, or no text"));
	longest[IDENTITY_NAME_BYTES - 1] = '\0';
	assert_int_equal(name_of(long_one, 1, name, &error), 0);
	assert_string_equal(name, longest);
	assert_int_equal(transport_tls_name_of((const uint8_t *)"none", 4, name, &error), -EACCES);
	assert_non_null(strstr(error.what, "is not one"));
	assert_int_equal(ERR_peek_error(), 0);
}

static int believe_all(int verdict, X509_STORE_CTX *store)
{
	(void)verdict, (void)store;
	return 1;
}

/* Hands were shaken, by somebody who is content with less: no name is taken from that. */
static void a_name_that_nobody_signed(void **state)
{
	struct event_base *base = event_base_new();
	struct client_identity identity;
	struct error error = { 0 };
	struct bufferevent *peer;
	SSL_CTX *lax = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *stranger = EVP_EC_gen("P-256");
	struct bench bench;
	int theirs = 0, ours = 0;
	SSL *ssl;

	(void)state;
	open_place(&bench);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, bench.fds), 0);
	bench.ssl = place_client(&bench.place, "alice", stranger, bench.fds[1]);
	assert_int_equal(SSL_CTX_use_certificate_chain_file(lax, bench.place.cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(lax, bench.place.mine), 1);
	SSL_CTX_load_verify_file(lax, bench.place.ca);
	SSL_CTX_set_verify(lax, SSL_VERIFY_PEER, believe_all);
	ssl = SSL_new(lax);
	SSL_set_fd(ssl, bench.fds[0]);
	for (unsigned turn = 0; turn < TURNS_MAX && (ours != 1 || theirs != 1); turn++) {
		theirs = SSL_connect(bench.ssl);
		ours = SSL_accept(ssl);
	}
	assert_int_equal(ours, 1);
	peer = bufferevent_openssl_socket_new(base, bench.fds[0], ssl, BUFFEREVENT_SSL_OPEN, BEV_OPT_CLOSE_ON_FREE);
	assert_int_equal(transport_tls_bufferevent_identity(peer, &identity, &error), -EACCES);
	assert_string_equal(error.code, "certificate-name");
	assert_non_null(strstr(error.what, "was not signed by tls-client-ca"));
	assert_int_equal(identity.proof, IDENTITY_UNPROVED);
	bufferevent_free(peer);
	event_base_loop(base, EVLOOP_NONBLOCK);
	event_base_free(base);
	SSL_free(bench.ssl);
	close(bench.fds[1]);
	SSL_CTX_free(lax);
	EVP_PKEY_free(stranger);
	transport_tls_context_destroy(bench.context);
	place_close(&bench.place);
}

/* ---- Handshakes ----------------------------------------------------------------------------------- */

/* The client has begun, and there is no room for what we say. How many bytes lie in the way. */
static size_t open_full(struct bench *bench)
{
	static const char bytes[4096];
	struct error error;
	size_t filled = 0;
	ssize_t some;

	open_place(bench);
	open_pair(bench);
	while ((some = send(bench->fds[0], bytes, sizeof(bytes), 0)) > 0)
		filled += (size_t)some;
	while ((some = send(bench->fds[0], bytes, 1, 0)) > 0)
		filled += (size_t)some;
	assert_int_equal(transport_handshake(bench->transport, &error), -EAGAIN);
	assert_int_equal(bench->transport->wanted, EV_READ);
	/* It does not read meanwhile. */
	SSL_set0_rbio(bench->ssl, BIO_new(BIO_s_mem()));
	assert_int_equal(SSL_connect(bench->ssl), -1);
	SSL_set_rfd(bench->ssl, bench->fds[1]);
	assert_int_equal(transport_handshake(bench->transport, &error), -EAGAIN);
	assert_int_equal(bench->transport->wanted, EV_WRITE);
	return filled;
}

/* It waits to write, and goes on once there is room. */
static void a_handshake_that_waits_to_write(void **state)
{
	struct bench bench;
	char bytes[4096];
	ssize_t some;

	(void)state;
	for (size_t filled = open_full(&bench); filled; filled -= (size_t)some) {
		some = recv(bench.fds[1], bytes, filled < sizeof(bytes) ? filled : sizeof(bytes), 0);
		assert_true(some > 0);
	}
	shake(&bench);
	close_bench(&bench);
}

/* One that is turned away then is read from. */
static void turned_away_while_it_waits_to_write(void **state)
{
	struct bench bench;
	char bytes[4096];

	(void)state;
	open_full(&bench);
	assert_true(transport_turn_away(bench.transport));
	assert_int_equal(transport_read(bench.transport, bytes, sizeof(bytes)), -EAGAIN);
	assert_int_equal(bench.transport->wanted, EV_READ);
	close_bench(&bench);
}

/* What is left of it: raw bytes, until its socket is closed. */
static void expect_failed(struct bench *bench)
{
	ssize_t got;
	char bytes[64];

	while ((got = transport_read(bench->transport, bytes, sizeof(bytes))) > 0)
		;
	assert_int_equal(got, -EAGAIN);
	assert_int_equal(send(bench->fds[1], "noise", 5, 0), 5);
	assert_int_equal(transport_read(bench->transport, bytes, sizeof(bytes)), 5);
	assert_memory_equal(bytes, "noise", 5);
	assert_int_equal(transport_write(bench->transport, NULL, 0), 0);
	assert_int_equal(transport_write(bench->transport, &(struct iovec){ bytes, 1 }, 1), -EPIPE);
	assert_false(transport_pending(bench->transport));
	assert_false(transport_unsent(bench->transport));
	while (recv(bench->fds[1], bytes, sizeof(bytes), 0) > 0)
		;
	transport_shutdown(bench->transport);
	assert_int_equal(recv(bench->fds[1], bytes, sizeof(bytes), 0), 0);
}

static void why_there_is_no_tls(void **state)
{
	EVP_PKEY *stranger = EVP_EC_gen("P-256");
	struct error error = { 0 };
	struct bench bench;
	char bytes[1024];
	int err = -EAGAIN;

	(void)state;
	open_place(&bench);
	open_pair(&bench);
	SSL_free(bench.ssl);
	bench.ssl = place_client(&bench.place, "alice", stranger, bench.fds[1]);
	for (unsigned turn = 0; turn < TURNS_MAX && err == -EAGAIN; turn++) {
		SSL_connect(bench.ssl);
		err = transport_handshake(bench.transport, &error);
	}
	assert_int_equal(err, -EPROTO);
	assert_non_null(strstr(error.what, "certificate signature failure"));
	expect_failed(&bench);
	close_pair(&bench);
	open_pair(&bench);
	assert_int_equal(send(bench.fds[1], "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	assert_int_equal(transport_handshake(bench.transport, &error), -EPROTO);
	assert_non_null(strstr(error.what, "http request"));
	expect_failed(&bench);
	close_pair(&bench);
	open_pair(&bench);
	shutdown(bench.fds[1], SHUT_WR);
	assert_int_equal(transport_handshake(bench.transport, &error), -ECONNRESET);
	assert_non_null(strstr(error.what, "the connection broke"));
	errno = EIO;
	assert_int_equal(transport_read(bench.transport, bytes, sizeof(bytes)), 0);
	close_pair(&bench);
	/* Turned away: nothing of that is read as TLS any more, and its end was said already. */
	open_pair(&bench);
	assert_true(transport_turn_away(bench.transport));
	while (recv(bench.fds[1], bytes, sizeof(bytes), 0) > 0)
		;
	assert_int_equal(recv(bench.fds[1], bytes, sizeof(bytes), 0), 0);
	expect_failed(&bench);
	close_bench(&bench);
	EVP_PKEY_free(stranger);
}

static void a_socket_is_closed_that_finds_no_memory(void **state)
{
	struct bench bench;
	char bytes[64];

	(void)state;
	open_place(&bench);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, bench.fds), 0);
	memory_fails_after(0);
	assert_null(transport_tls_create(bench.context, bench.fds[0]));
	memory_suffices();
	assert_int_equal(fcntl(bench.fds[0], F_GETFD), -1);
	assert_int_equal(recv(bench.fds[1], bytes, sizeof(bytes), 0), 7);
	assert_int_equal(bytes[6], SSL_AD_INTERNAL_ERROR);
	assert_int_equal(recv(bench.fds[1], bytes, sizeof(bytes), 0), 0);
	close(bench.fds[1]);
	transport_tls_context_destroy(bench.context);
	place_close(&bench.place);
}

/* ---- Bytes ---------------------------------------------------------------------------------------- */

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 2654435761u >> 13);
}

/* Of each record that lies there for the client: what is in it, without what TLS adds. */
static unsigned records(struct bench *bench, size_t *plain, unsigned n)
{
	static uint8_t bytes[1 << 18];
	ssize_t got = recv(bench->fds[1], bytes, sizeof(bytes), MSG_PEEK);
	unsigned found = 0;

	for (ssize_t at = 0; at + 5 <= got && found < n; found++) {
		size_t inside = (size_t)bytes[at + 3] << 8 | bytes[at + 4];

		assert_int_equal(bytes[at], SSL3_RT_APPLICATION_DATA);
		plain[found] = inside - 17;
		at += 5 + (ssize_t)inside;
	}
	return found;
}

/* Small pieces make one record; what is large is not copied. */
static void pieces_become_records(void **state)
{
	static const struct {
		size_t piece[6], record[6];
	} cases[] = {
		{ { 10 }, { 10 } },
		{ { 10, 20, 30 }, { 60 } },
		{ { 10, 0, 30 }, { 40 } },
		{ { 0, 4096, 10 }, { 4106 } },
		{ { 4096, 10 }, { 4096, 10 } },
		{ { 4095, 10 }, { 4105 } },
		{ { 100, 100, 5000, 40000, 10 }, { 16384, 16384, 12432, 10 } },
		{ { 20000, 100, 100 }, { 16384, 3816 } },
		{ { 16384, 1 }, { 16384, 1 } },
		{ { 16385, 4095 }, { 16384, 4096 } },
		{ { 4000, 12384, 7 }, { 16384, 7 } },
		{ { 4000, 12385, 7 }, { 16384, 8 } },
		{ { 40000 }, { 16384, 16384, 7232 } },
		{ { 32768, 5 }, { 16384, 16384, 5 } },
		{ { 5, 4000, 4000, 4000, 4000, 4000 }, { 16384, 3621 } },
	};
	static uint8_t bytes[1 << 17], got[1 << 17];
	struct bench bench;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte_at(i);
	open_shaken(&bench);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct iovec iov[6];
		size_t total = 0, heard = 0, plain[8];
		unsigned pieces = 0, found;
		int some;

		for (unsigned k = 0; k < 6 && (cases[i].piece[k] || k == 0 || (k < 5 && cases[i].piece[k + 1])); k++) {
			iov[pieces++] = (struct iovec){ bytes + total, cases[i].piece[k] };
			total += cases[i].piece[k];
		}
		assert_int_equal(transport_write(bench.transport, iov, pieces), total);
		found = records(&bench, plain, 8);
		for (unsigned k = 0; k < 6; k++)
			if ((k < found ? plain[k] : 0) != cases[i].record[k])
				fail_msg("case %zu: record %u has %zu bytes", i, k, k < found ? plain[k] : 0);
		while ((some = SSL_read(bench.ssl, got + heard, (int)(sizeof(got) - heard))) > 0)
			heard += (size_t)some;
		ERR_clear_error();
		assert_int_equal(heard, total);
		assert_memory_equal(got, bytes, total);
	}
	assert_int_equal(transport_write(bench.transport, NULL, 0), 0);
	close_bench(&bench);
}

/* What was taken and found no room is kept, and comes before what is written next. */
static void what_found_no_room_waits(void **state)
{
	static uint8_t bytes[1 << 20], got[1 << 20];
	size_t sent = 0, heard = 0;
	struct bench bench;
	ssize_t some;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte_at(i);
	open_shaken(&bench);
	for (unsigned turn = 0; turn < 1000 && !transport_unsent(bench.transport); turn++) {
		struct iovec one = { bytes + sent, 10000 };

		assert_int_equal(transport_write(bench.transport, &one, 1), 10000);
		sent += 10000;
	}
	assert_true(transport_unsent(bench.transport));
	assert_int_equal(bench.transport->wanted, EV_WRITE);
	/* As long as it waits nothing else is taken. */
	assert_int_equal(transport_write(bench.transport, &(struct iovec){ bytes + sent, 1 }, 1), -EAGAIN);
	assert_int_equal(transport_write(bench.transport, NULL, 0), -EAGAIN);
	while ((some = SSL_read(bench.ssl, got + heard, (int)(sizeof(got) - heard))) > 0)
		heard += (size_t)some;
	ERR_clear_error();
	assert_true(heard < sent);
	assert_int_equal(transport_write(bench.transport, NULL, 0), 0);
	assert_false(transport_unsent(bench.transport));
	assert_int_equal(transport_write(bench.transport, &(struct iovec){ bytes + sent, 1 }, 1), 1);
	sent++;
	while ((some = SSL_read(bench.ssl, got + heard, (int)(sizeof(got) - heard))) > 0)
		heard += (size_t)some;
	ERR_clear_error();
	assert_int_equal(heard, sent);
	assert_memory_equal(got, bytes, sent);
	close_bench(&bench);
}

/* No memory to keep it in: the stream has a hole then, and must end. */
static void what_waits_needs_memory(void **state)
{
	static const uint8_t bytes[20000];
	struct bench bench;
	ssize_t some = 0;

	(void)state;
	open_shaken(&bench);
	/* OpenSSL has its buffers, from the first one on. */
	assert_int_equal(transport_write(bench.transport, &(struct iovec){ (void *)(uintptr_t)bytes, sizeof(bytes) }, 1),
			 sizeof(bytes));
	memory_fails_after(0);
	for (unsigned turn = 0; turn < 1000 && some >= 0; turn++)
		some = transport_write(bench.transport, &(struct iovec){ (void *)(uintptr_t)bytes, sizeof(bytes) }, 1);
	memory_suffices();
	assert_int_equal(some, -ENOMEM);
	assert_false(transport_unsent(bench.transport));
	close_bench(&bench);
}

/* Errors that somebody else's calls left behind are not this connection's. */
static void what_others_left_in_the_queue(void **state)
{
	struct error error;
	struct bench bench;
	uint8_t bytes[64];

	(void)state;
	open_place(&bench);
	open_pair(&bench);
	ERR_raise(ERR_LIB_USER, 7);
	assert_int_equal(transport_handshake(bench.transport, &error), -EAGAIN);
	shake(&bench);
	ERR_raise(ERR_LIB_USER, 7);
	assert_int_equal(transport_read(bench.transport, bytes, sizeof(bytes)), -EAGAIN);
	for (unsigned turn = 0; turn < 1000 && !transport_unsent(bench.transport); turn++) {
		static uint8_t large[16384];

		ERR_raise(ERR_LIB_USER, 7);
		assert_int_equal(transport_write(bench.transport, &(struct iovec){ large, sizeof(large) }, 1), sizeof(large));
	}
	assert_true(transport_unsent(bench.transport));
	close_bench(&bench);
}

static void the_client_is_gone(void **state)
{
	struct bench bench;
	uint8_t bytes[64];

	(void)state;
	open_shaken(&bench);
	SSL_shutdown(bench.ssl);
	close(bench.fds[1]);
	assert_int_equal(transport_read(bench.transport, bytes, sizeof(bytes)), 0);
	assert_int_equal(transport_write(bench.transport, &(struct iovec){ bytes, 1 }, 1), -EPIPE);
	bench.fds[1] = -1;
	close_bench(&bench);
	/* An end without TLS's own is one, too. */
	open_shaken(&bench);
	shutdown(bench.fds[1], SHUT_WR);
	assert_int_equal(transport_read(bench.transport, bytes, sizeof(bytes)), 0);
	close_bench(&bench);
}

/* The client may still speak; and a second end does not take what it says. */
static void after_our_end(void **state)
{
	struct bench bench;
	uint8_t bytes[64];

	(void)state;
	open_shaken(&bench);
	assert_int_equal(SSL_write(bench.ssl, "abc", 3), 3);
	transport_shutdown(bench.transport);
	assert_int_equal(SSL_read(bench.ssl, bytes, sizeof(bytes)), 0);
	assert_int_equal(SSL_get_error(bench.ssl, 0), SSL_ERROR_ZERO_RETURN);
	assert_int_equal(recv(bench.fds[1], bytes, sizeof(bytes), 0), 0);
	transport_shutdown(bench.transport);
	assert_int_equal(transport_read(bench.transport, bytes, sizeof(bytes)), 3);
	assert_memory_equal(bytes, "abc", 3);
	close_bench(&bench);
}

/* ---- Whom we dial --------------------------------------------------------------------------------- */

/* Dials the bench's daemon by that name, with whom `ca` signed; what the handshake says. */
static int dial(struct bench *bench, const char *ca, const char *name, struct error *error)
{
	const struct transport_tls_files files = { .cert = bench->place.cert, .key = bench->place.key, .client_ca = ca };
	struct transport *ours, *dialled;
	struct transport_tls_context *context;
	int fds[2], ours_err = -EAGAIN, err = -EAGAIN;
	struct error ignored;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(transport_tls_dial_context_create(&files, &context, error), 0);
	ours = transport_tls_create(bench->context, fds[0]);
	assert_non_null(ours);
	assert_int_equal(transport_tls_dial(context, fds[1], name, &dialled, error), 0);
	for (unsigned turn = 0; turn < TURNS_MAX && err == -EAGAIN; turn++) {
		err = transport_handshake(dialled, error);
		if (ours_err == -EAGAIN)
			ours_err = transport_handshake(ours, &ignored);
	}
	transport_destroy(dialled);
	transport_destroy(ours);
	transport_tls_context_destroy(context);
	return err;
}

/* A relay gets everything that is recorded: it has to prove its name, by an authority that relay-ca names. */
static void whom_we_dial_proves_who_it_is(void **state)
{
	struct bench bench;
	struct place other;
	struct error error;

	(void)state;
	open_place(&bench);
	place_open(&other, -60, 3600);
	assert_int_equal(dial(&bench, bench.place.ca, "server", &error), 0);
	assert_int_equal(dial(&bench, other.ca, "server", &error), -EPROTO);
	assert_string_equal(error.code, "tls-handshake");
	assert_int_equal(dial(&bench, bench.place.ca, "another", &error), -EPROTO);
	assert_string_equal(error.code, "tls-handshake");
	place_close(&other);
	transport_tls_context_destroy(bench.context);
	place_close(&bench.place);
}

/* The bench's daemon is dialled, and hands are shaken; both ends. */
static void open_dialled(struct bench *bench, struct transport_tls_context *context, struct transport **ours,
			 struct transport **dialled)
{
	int fds[2], ours_err = -EAGAIN, err = -EAGAIN;
	struct error error;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	*ours = transport_tls_create(bench->context, fds[0]);
	assert_non_null(*ours);
	assert_int_equal(transport_tls_dial(context, fds[1], "server", dialled, &error), 0);
	for (unsigned turn = 0; turn < TURNS_MAX && (err == -EAGAIN || ours_err == -EAGAIN); turn++) {
		if (err == -EAGAIN)
			err = transport_handshake(*dialled, &error);
		if (ours_err == -EAGAIN)
			ours_err = transport_handshake(*ours, &error);
	}
	assert_int_equal(err, 0);
	assert_int_equal(ours_err, 0);
}

/* What is looked at first is read all the same. An end that comes instead of an answer is a refusal. */
static void looked_at_before_it_is_read(void **state)
{
	struct transport *ours, *dialled;
	struct transport_tls_context *context;
	struct bench bench;
	struct error error;
	char bytes[8];

	(void)state;
	open_place(&bench);
	assert_int_equal(transport_tls_dial_context_create(&(struct transport_tls_files){
		.cert = bench.place.cert, .key = bench.place.key, .client_ca = bench.place.ca }, &context, &error), 0);
	open_dialled(&bench, context, &ours, &dialled);
	assert_int_equal(transport_tls_peek(dialled, bytes, sizeof(bytes), &error), -EAGAIN);
	assert_int_equal(transport_write(ours, &(struct iovec){ "abc", 3 }, 1), 3);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(transport_tls_peek(dialled, bytes, sizeof(bytes), &error), 3);
	assert_int_equal(transport_read(dialled, bytes, sizeof(bytes)), 3);
	assert_memory_equal(bytes, "abc", 3);
	transport_shutdown(ours);
	assert_int_equal(transport_tls_peek(dialled, bytes, sizeof(bytes), &error), -ECONNRESET);
	assert_string_equal(error.code, "tls-refused");
	transport_destroy(dialled);
	transport_destroy(ours);
	transport_tls_context_destroy(context);
	transport_tls_context_destroy(bench.context);
	place_close(&bench.place);
}

/* What cannot be dialled with says which option it is about; the certificate's time is the gate's to warn of. */
static void what_one_dials_with(void **state)
{
	char long_name[300];
	struct transport_tls_context *context;
	struct transport *dialled = NULL;
	struct transport_tls_files files;
	struct bench bench;
	struct error error;
	int fds[2];

	(void)state;
	open_place(&bench);
	files = (struct transport_tls_files){ .cert = bench.place.cert, .key = bench.place.key,
					      .client_ca = bench.place.key };
	assert_int_equal(transport_tls_dial_context_create(&files, &context, &error), -EINVAL);
	assert_string_equal(error.code, "relay-ca");
	files.client_ca = bench.place.ca;
	warned[0] = '\0';
	assert_int_equal(transport_tls_dial_context_create(&files, &context, &error), 0);
	assert_string_equal(warned, "");
	assert_int_equal(transport_tls_context_expires(context), 0);
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(transport_tls_dial(context, fds[1], long_name, &dialled, &error), -EINVAL);
	assert_string_equal(error.code, "server-name");
	assert_null(dialled);
	assert_int_equal(fcntl(fds[1], F_GETFD), -1);
	close(fds[0]);
	assert_int_equal(dial(&bench, bench.place.ca, "another", &error), -EPROTO);
	assert_non_null(strstr(error.what, "no TLS with this server"));
	transport_tls_context_destroy(context);
	transport_tls_context_destroy(bench.context);
	place_close(&bench.place);
}

/* A peer that is gone without a word is noticed within two minutes. */
static void silent_peers_are_asked(void **state)
{
	static const struct {
		int level, option, value;
	} row[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 }, { IPPROTO_TCP, TCP_KEEPIDLE, 30 }, { IPPROTO_TCP, TCP_KEEPINTVL, 30 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 }, { IPPROTO_TCP, TCP_NODELAY, 1 },
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_true(fd >= 0);
	transport_keep_alive(fd);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		int value = -1;
		socklen_t n = sizeof(value);

		assert_int_equal(getsockopt(fd, row[i].level, row[i].option, &value, &n), 0);
		assert_int_equal(value, row[i].value);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_transport_that_is_new),
		cmocka_unit_test(no_ticket_is_given),
		cmocka_unit_test(the_chain_is_shown_and_the_authority_named),
		cmocka_unit_test(a_reload_is_for_connections_from_now_on),
		cmocka_unit_test(warned_of_the_time),
		cmocka_unit_test(names_of_clients),
		cmocka_unit_test(a_name_that_nobody_signed),
		cmocka_unit_test(a_handshake_that_waits_to_write),
		cmocka_unit_test(turned_away_while_it_waits_to_write),
		cmocka_unit_test(why_there_is_no_tls),
		cmocka_unit_test(a_socket_is_closed_that_finds_no_memory),
		cmocka_unit_test(pieces_become_records),
		cmocka_unit_test(what_found_no_room_waits),
		cmocka_unit_test(what_waits_needs_memory),
		cmocka_unit_test(what_others_left_in_the_queue),
		cmocka_unit_test(the_client_is_gone),
		cmocka_unit_test(after_our_end),
		cmocka_unit_test(whom_we_dial_proves_who_it_is),
		cmocka_unit_test(looked_at_before_it_is_read),
		cmocka_unit_test(what_one_dials_with),
		cmocka_unit_test(silent_peers_are_asked),
	};

	log_set_sink(&sink);
	signal(SIGPIPE, SIG_IGN);	/* as the daemon has it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
