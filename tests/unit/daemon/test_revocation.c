/*
 * revocation: whose certificate is on a list is not let in, and goes when a reload brings the list; lists that nobody
 * has signed are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/access/gate.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/relay/relay.h"
#include "proto/message.h"
#include "tests/unit/daemon/tls_place.h"

#define SERIAL		7	/* of each certificate: tests/lib/certificate.h */
#define OTHER_SERIAL	9	/* of one that is no authority's */
#define TURNS_MAX	1000u

static struct place place;
static char crl[96];
static char warned[64];			/* the code of the last warning */
static struct error error;

static void note_warning(enum log_level level, const char *code, const char *text)
{
	(void)text;
	if (level == LOG_LEVEL_WARNING)
		snprintf(warned, sizeof(warned), "%s", code);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Of the authority of that name, signed by `by`: it says so (`reason`; below 0: nothing) of the certificate of that number. */
static void write_list_of(const char *name, EVP_PKEY *by, long serial, int reason, long until_s, const char *mode)
{
	X509_CRL *list = X509_CRL_new();
	X509_REVOKED *entry = X509_REVOKED_new();
	X509_NAME *issuer = X509_NAME_new();
	ASN1_INTEGER *number = ASN1_INTEGER_new();
	ASN1_TIME *now = X509_gmtime_adj(NULL, -60), *until = X509_gmtime_adj(NULL, until_s);
	FILE *file = fopen(crl, mode);

	X509_NAME_add_entry_by_txt(issuer, "CN", MBSTRING_UTF8, (const uint8_t *)name, -1, -1, 0);
	ASN1_INTEGER_set(number, serial);
	X509_REVOKED_set_serialNumber(entry, number);
	X509_REVOKED_set_revocationDate(entry, now);
	if (reason >= 0) {
		ASN1_ENUMERATED *number_of_reason = ASN1_ENUMERATED_new();

		ASN1_ENUMERATED_set(number_of_reason, reason);
		X509_REVOKED_add1_ext_i2d(entry, NID_crl_reason, number_of_reason, 0, 0);
		ASN1_ENUMERATED_free(number_of_reason);
	}
	X509_CRL_set_version(list, 1);
	X509_CRL_set_issuer_name(list, issuer);
	X509_CRL_set1_lastUpdate(list, now);
	X509_CRL_set1_nextUpdate(list, until);
	X509_CRL_add0_revoked(list, entry);
	assert_true(X509_CRL_sign(list, by, EVP_sha256()) > 0);
	assert_non_null(file);
	assert_int_equal(PEM_write_X509_CRL(file, list), 1);
	fclose(file);
	X509_NAME_free(issuer);
	ASN1_INTEGER_free(number);
	ASN1_TIME_free(now);
	ASN1_TIME_free(until);
	X509_CRL_free(list);
}

/* It has taken that certificate back. */
static void write_list(const char *name, EVP_PKEY *by, long serial, long until_s, const char *mode)
{
	write_list_of(name, by, serial, -1, until_s, mode);
}

static void write_text(const char *text)
{
	FILE *file = fopen(crl, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int setup(void **state)
{
	(void)state;
	place_open(&place, -60, 90 * 86400);
	snprintf(crl, sizeof(crl), "%s/crl", place.directory);
	warned[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(crl);
	place_close(&place);
	return 0;
}

static struct transport_tls_context *open_context(void)
{
	const struct transport_tls_files files = {.cert = place.cert, .key = place.key, .client_ca = place.ca,
						  .client_crl = crl};
	struct transport_tls_context *context;

	if (transport_tls_context_create(&files, &context, &error) != 0)
		fail_msg("%s", error.what);
	return context;
}

/* ---- Handshakes ------------------------------------------------------------------------------ */

/* Turns until it is known whether the client is let in: 0, or the server's error. */
static int shake_hands(struct transport *transport, SSL *client)
{
	int err = -EAGAIN;

	for (unsigned i = 0; i < TURNS_MAX && err == -EAGAIN; i++) {
		SSL_connect(client);
		err = transport_handshake(transport, &error);
	}
	ERR_clear_error();
	return err;
}

/* 0 if the client is let in; else the server's error. */
static int shake(struct transport_tls_context *context, const char **alert)
{
	struct transport *transport;
	int fds[2], err;
	char byte;
	SSL *ssl;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	transport = transport_tls_create(context, fds[0]);
	ssl = place_client(&place, "web-1", place.authority, fds[1]);
	err = shake_hands(transport, ssl);
	if (err && SSL_read(ssl, &byte, 1) <= 0 && alert)
		*alert = ERR_reason_error_string(ERR_peek_last_error());
	ERR_clear_error();
	SSL_free(ssl);
	close(fds[1]);
	transport_destroy(transport);
	return err;
}

static void who_is_on_the_list_is_not_let_in(void **state)
{
	struct transport_tls_context *context;
	const char *alert = NULL;

	(void)state;
	write_list("authority", place.authority, SERIAL, 3600, "w");
	context = open_context();
	assert_true(shake(context, &alert) < 0);
	assert_string_equal(error.code, "tls-handshake");
	assert_non_null(strstr(error.what, "certificate revoked"));
	assert_non_null(alert);
	assert_non_null(strstr(alert, "certificate revoked"));
	assert_string_equal(warned, "");
	transport_tls_context_destroy(context);

	write_list("authority", place.authority, SERIAL + 1, 3600, "w");
	context = open_context();
	assert_int_equal(shake(context, NULL), 0);
	transport_tls_context_destroy(context);

	/* Any list of the file counts, whichever stands first. */
	for (unsigned i = 0; i < 2; i++) {
		write_list("authority", place.authority, i ? SERIAL : SERIAL + 1, 3600, "w");
		write_list("authority", place.authority, i ? SERIAL + 1 : SERIAL, 3600, "a");
		context = open_context();
		assert_true(shake(context, NULL) < 0);
		transport_tls_context_destroy(context);
	}
}

/* A list that takes a revocation back (removeFromCRL of RFC 5280) names nobody. */
static void who_was_taken_off_a_list_is_let_in(void **state)
{
	struct transport_tls_context *context;

	(void)state;
	write_list_of("authority", place.authority, SERIAL, CRL_REASON_REMOVE_FROM_CRL, 3600, "w");
	context = open_context();
	assert_int_equal(shake(context, NULL), 0);
	transport_tls_context_destroy(context);
}

/* An authority renews its key under its name: it signs its list with either. */
static void each_key_of_an_authority_s_name_counts(void **state)
{
	EVP_PKEY *key[3] = {place.authority, EVP_EC_gen("P-256"), EVP_EC_gen("P-256")};
	X509 *renewed;

	(void)state;
	for (unsigned i = 1; i < 3; i++) {
		FILE *file = fopen(place.ca, "a");

		renewed = certificate_sign(key[i], "authority", key[i], NULL, -60, 3600);
		assert_non_null(file);
		assert_int_equal(PEM_write_X509(file, renewed), 1);
		fclose(file);
		X509_free(renewed);
	}
	for (unsigned i = 0; i < 3; i++) {
		struct transport_tls_context *context;

		write_list("authority", key[i], SERIAL, 3600, "w");
		context = open_context();
		assert_true(shake(context, NULL) < 0);
		transport_tls_context_destroy(context);
	}
	EVP_PKEY_free(key[1]);
	EVP_PKEY_free(key[2]);
}

/* ---- Chains ---------------------------------------------------------------------------------- */

/* Who is behind it: an authority of the root's, which signs the client. */
static struct chain {
	EVP_PKEY *middle_key, *key;
	X509 *middle, *leaf;		/* no middle: the root has signed it */
} chain;

static void make_chain(bool middle)
{
	chain.key = EVP_EC_gen("P-256");
	chain.middle_key = middle ? EVP_EC_gen("P-256") : NULL;
	chain.middle = NULL;
	if (middle) {
		chain.middle = certificate_sign(chain.middle_key, "middle", place.authority, place.authority_cert, -60,
						3600);
		ASN1_INTEGER_set(X509_get_serialNumber(chain.middle), OTHER_SERIAL);
		certificate_extend(chain.middle, place.authority, NID_basic_constraints, "CA:TRUE");
	}
	chain.leaf = certificate_sign(chain.key, "web-2", middle ? chain.middle_key : place.authority,
				      middle ? chain.middle : place.authority_cert, -60, 3600);
	if (middle)
		return;
	ASN1_INTEGER_set(X509_get_serialNumber(chain.leaf), OTHER_SERIAL);
	assert_true(X509_sign(chain.leaf, place.authority, EVP_sha256()) > 0);
}

static void free_chain(void)
{
	EVP_PKEY_free(chain.key);
	EVP_PKEY_free(chain.middle_key);
	X509_free(chain.leaf);
	X509_free(chain.middle);
}

static SSL *chain_client(int fd)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl;

	assert_int_equal(SSL_CTX_use_certificate(context, chain.leaf), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(context, chain.key), 1);
	if (chain.middle)
		assert_int_equal(SSL_CTX_add1_chain_cert(context, chain.middle), 1);
	ssl = SSL_new(context);
	SSL_CTX_free(context);
	SSL_set_fd(ssl, fd);
	return ssl;
}

/* Lets the client in by `context`, if that does; then judges by `later`. 0, or the first refusal. */
static int let_in(struct transport_tls_context *context, struct transport_tls_context *later)
{
	struct transport *transport;
	int fds[2], err;
	SSL *ssl;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	transport = transport_tls_create(context, fds[0]);
	ssl = chain_client(fds[1]);
	err = shake_hands(transport, ssl);
	if (!err)
		err = transport_tls_check_revoked(later, transport, &error);
	SSL_free(ssl);
	close(fds[1]);
	transport_destroy(transport);
	return err;
}

/* That number alone is named: of an authority in the middle of the chain, or of who stands at its end. */
static void each_of_a_chain_counts(void **state)
{
	(void)state;
	for (unsigned middle = 0; middle < 2; middle++) {
		struct transport_tls_context *other, *named;

		make_chain(middle);
		write_list("authority", place.authority, OTHER_SERIAL + 1, 3600, "w");
		other = open_context();
		assert_int_equal(let_in(other, other), 0);
		write_list("authority", place.authority, OTHER_SERIAL, 3600, "w");
		named = open_context();
		assert_true(let_in(named, named) < 0);
		assert_string_equal(error.code, "tls-handshake");
		assert_int_equal(let_in(other, named), -EACCES);
		assert_string_equal(error.code, "certificate-revoked");
		transport_tls_context_destroy(other);
		transport_tls_context_destroy(named);
		free_chain();
	}
}

/* A fleet must not go dark because its list was not renewed; who was on it stays out. */
static void an_old_list_counts_and_is_said(void **state)
{
	struct transport_tls_context *context;

	(void)state;
	write_list("authority", place.authority, SERIAL + 1, -1, "w");
	context = open_context();
	assert_string_equal(warned, "tls-crl-old");
	assert_int_equal(shake(context, NULL), 0);
	transport_tls_context_destroy(context);
	write_list("authority", place.authority, SERIAL, -1, "w");
	context = open_context();
	assert_true(shake(context, NULL) < 0);
	transport_tls_context_destroy(context);
}

static void refuses(const char *what)
{
	const struct transport_tls_files files = {.cert = place.cert, .key = place.key, .client_ca = place.ca,
						  .client_crl = crl};
	struct transport_tls_context *context;

	assert_int_equal(transport_tls_context_create(&files, &context, &error), -EINVAL);
	assert_string_equal(error.code, "tls-crl");
	if (!strstr(error.what, what))
		fail_msg("%s", error.what);
}

static void a_file_that_is_no_list_is_refused(void **state)
{
	EVP_PKEY *other_kind;

	(void)state;
	refuses("No such file");
	write_text("");
	refuses("it has no list");
	write_text("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
	refuses("it is damaged");
	write_list("authority", place.mine, SERIAL, 3600, "w");		/* another's signature */
	refuses("no authority of tls-client-ca has signed");
	other_kind = EVP_RSA_gen(1024);
	write_list("authority", other_kind, SERIAL, 3600, "w");		/* of another kind of key */
	EVP_PKEY_free(other_kind);
	refuses("no authority of tls-client-ca has signed");
	write_list("somebody", place.authority, SERIAL, 3600, "w");
	refuses("no authority of tls-client-ca has signed");
	write_text("");
	for (unsigned i = 0; i < REVOCATION_LISTS_MAX; i++)
		write_list("authority", place.authority, SERIAL, 3600, "a");
	transport_tls_context_destroy(open_context());
	assert_int_equal(ERR_peek_error(), 0);		/* the next call to OpenSSL would take it for its own */
	write_list("authority", place.authority, SERIAL, 3600, "a");
	refuses("too many lists");
}

/* ---- A relay --------------------------------------------------------------------------------- */

static void on_forward(struct relay_sink *sink, struct relay_item *item)
{
	(void)sink, (void)item;
	fail();
}

static void on_destroy(struct relay_sink *sink)
{
	(void)sink;
}

static struct gate *open_gate(bool lists)
{
	struct config options = {.tls_cert = place.cert, .tls_key = place.key, .tls_client_ca = place.ca,
				 .tls_crl = lists ? crl : NULL};
	struct gate *gate;

	if (gate_create(&options, &gate, &error) != 0)
		fail_msg("%s", error.what);
	return gate;
}

static size_t pack_hello(uint8_t *frame)
{
	Ringtail__V1__AgentHello hello = RINGTAIL__V1__AGENT_HELLO__INIT;
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t raw[128];
	size_t bytes;

	assert_non_null(codec);
	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = hello.hostname = (char *)"test";
	bytes = frame_seal(codec, FRAME_AGENT_HELLO, raw, (uint32_t)ringtail__v1__agent_hello__pack(&hello, raw),
			   frame);
	frame_codec_destroy(codec);
	return bytes;
}

/* The type of the next frame from the relay; 0: the connection has ended. */
static unsigned hear(struct event_base *base, SSL *ssl)
{
	struct frame_header header;
	uint8_t bytes[4096];
	int n = -1;

	for (unsigned i = 0; i < TURNS_MAX && n <= 0; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		n = SSL_read(ssl, bytes, sizeof(bytes));
		if (n <= 0 && SSL_get_error(ssl, n) != SSL_ERROR_WANT_READ)
			return 0;
	}
	assert_true(n > 0);
	assert_int_equal(frame_parse_header(bytes, (size_t)n, sizeof(bytes), &header), FRAME_OK);
	return header.type;
}

static void an_agent_goes_when_a_reload_brings_the_list(void **state)
{
	static const struct relay_sink_ops ops = {.forward = on_forward, .destroy = on_destroy};
	static struct relay_sink sink = {.ops = &ops};
	struct relay_config config = {.sink = &sink, .agents_max = 8, .hello_timeout_ns = 60000000000ull};
	struct gate *gate = open_gate(false);
	struct stat_relay stat;
	struct relay *relay;
	uint8_t frame[512];
	int fds[2], done = 0;
	size_t bytes = pack_hello(frame);
	SSL *ssl;

	(void)state;
	config.gate = gate;
	config.base = event_base_new();
	assert_int_equal(relay_create(&config, &relay, &error), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	relay_accept(relay, fds[0], NULL, "10.0.0.1:1");
	ssl = place_client(&place, "web-1", place.authority, fds[1]);
	for (unsigned i = 0; i < TURNS_MAX && done != 1; i++) {
		done = SSL_connect(ssl);
		event_base_loop(config.base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(SSL_write(ssl, frame, (int)bytes), bytes);
	assert_int_equal(hear(config.base, ssl), FRAME_CLIENT_HELLO);

	/* A list without it changes nothing. */
	write_list("authority", place.authority, SERIAL + 1, 3600, "w");
	gate_replace(gate, open_gate(true));
	relay_judge(relay);
	relay_stat(relay, &stat);
	assert_int_equal(stat.connected, 1);
	write_list("authority", place.authority, SERIAL, 3600, "w");
	gate_replace(gate, open_gate(true));
	relay_judge(relay);
	assert_int_equal(hear(config.base, ssl), FRAME_ERROR);
	assert_int_equal(hear(config.base, ssl), 0);
	close(fds[1]);
	for (unsigned i = 0; i < TURNS_MAX && stat.connected; i++) {
		event_base_loop(config.base, EVLOOP_NONBLOCK);
		relay_stat(relay, &stat);
	}
	assert_int_equal(stat.connected, 0);
	assert_int_equal(stat.hosts, 1);
	SSL_free(ssl);
	relay_destroy(relay);
	gate_destroy(gate);
	event_base_free(config.base);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(who_is_on_the_list_is_not_let_in),
		TEST(who_was_taken_off_a_list_is_let_in),
		TEST(each_key_of_an_authority_s_name_counts),
		TEST(each_of_a_chain_counts),
		TEST(an_old_list_counts_and_is_said),
		TEST(a_file_that_is_no_list_is_refused),
		TEST(an_agent_goes_when_a_reload_brings_the_list),
	};
	static const struct log_sink sink = {note_warning, clock_monotonic};

	log_set_sink(&sink);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
