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

/* Of the authority of that name, signed by `by`: it has taken back the certificate of that number. */
static void write_list(const char *name, EVP_PKEY *by, long serial, long until_s, const char *mode)
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

/* 0 if the client is let in; else the server's error. */
static int shake(struct transport_tls_context *context, const char **alert)
{
	struct transport *transport;
	int fds[2], err = -EAGAIN;
	char byte;
	SSL *ssl;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	transport = transport_tls_create(context, fds[0]);
	ssl = place_client(&place, "web-1", place.authority, fds[1]);
	for (unsigned i = 0; i < TURNS_MAX && err == -EAGAIN; i++) {
		SSL_connect(ssl);
		err = transport_handshake(transport, &error);
	}
	ERR_clear_error();
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

	/* Any list of the file counts. */
	write_list("authority", place.authority, SERIAL, 3600, "a");
	context = open_context();
	assert_true(shake(context, NULL) < 0);
	transport_tls_context_destroy(context);
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
	(void)state;
	refuses("No such file");
	write_text("");
	refuses("it has no list");
	write_text("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
	refuses("it is damaged");
	write_list("authority", place.mine, SERIAL, 3600, "w");		/* another's signature */
	refuses("no authority of tls-client-ca has signed");
	write_list("somebody", place.authority, SERIAL, 3600, "w");
	refuses("no authority of tls-client-ca has signed");
	write_text("");
	for (unsigned i = 0; i < REVOCATION_LISTS_MAX; i++)
		write_list("authority", place.authority, SERIAL, 3600, "a");
	transport_tls_context_destroy(open_context());
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
		TEST(an_old_list_counts_and_is_said),
		TEST(a_file_that_is_no_list_is_refused),
		TEST(an_agent_goes_when_a_reload_brings_the_list),
	};
	static const struct log_sink sink = {note_warning, clock_monotonic};

	log_set_sink(&sink);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
