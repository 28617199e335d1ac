/*
 * conn_tls against a server of OpenSSL's own, over a socketpair: whom it believes and what it says of whom it does not,
 * what it shows of itself, how it is refused, and its bytes both ways. SIGPIPE is as a program finds it.
 */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/address.h"
#include "client/lib/conn_tls.h"
#include "proto/tls.h"
#include "tests/lib/certificate.h"

#define TURNS_MAX 100

static char directory[] = "/tmp/ringtail-conn-tls-XXXXXX";
static struct files {
	char ca[64], other_ca[64], cert[64], key[64];
} files;
static EVP_PKEY *authority, *stranger, *server_key, *client_key;
static X509 *authority_cert, *stranger_cert;

/* ---- Both ends ------------------------------------------------------------------------------------ */

struct pair {
	SSL_CTX *context;
	SSL *ssl;		/* the server's end */
	int fds[2];		/* the client's, the server's */
	struct conn_tls *tls;
	struct address address;
	struct ringtail_error error;
};

/* The server's certificate: for `names`, as subjectAltName has them; else for the common name `server`. */
static void use_certificate(SSL_CTX *context, const char *names, EVP_PKEY *by, X509 *issuer, long from, long until)
{
	X509 *certificate = certificate_sign(server_key, "server", by, issuer, from, until);

	if (names)
		certificate_extend(certificate, by, NID_subject_alt_name, names);
	assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(context, server_key), 1);
	X509_free(certificate);
}

/* Ready to be created and shaken hands with; the client believes in the authority, and asks for `server`. */
static void open_pair(struct pair *pair)
{
	*pair = (struct pair){ .context = SSL_CTX_new(TLS_server_method()) };
	use_certificate(pair->context, NULL, authority, authority_cert, -60, 3600);
	SSL_CTX_set_num_tickets(pair->context, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fds), 0);
	strcpy(pair->address.text, "tcp:server:1234");
	strcpy(pair->address.host, "server");
	pair->address.trust.ca = files.ca;
}

static void create(struct pair *pair)
{
	pair->ssl = SSL_new(pair->context);
	SSL_set_fd(pair->ssl, pair->fds[1]);
	if (conn_tls_create(pair->fds[0], &pair->address, &pair->tls, &pair->error) != 0)
		fail_msg("%s", pair->error.what);
}

/* What the client's end says in the end: 0 once both have shaken hands. */
static int shake(struct pair *pair)
{
	int ours = -EAGAIN, theirs = 0;

	create(pair);
	for (unsigned turn = 0; turn < TURNS_MAX && (ours == -EAGAIN || theirs != 1); turn++) {
		if (ours == -EAGAIN)
			ours = conn_tls_shake(pair->tls, &pair->error);
		if (ours && ours != -EAGAIN)
			return ours;
		assert_true(ours == 0 || conn_tls_wanted(pair->tls) == POLLIN);
		if (theirs != 1)
			theirs = SSL_accept(pair->ssl);
		/* What is left of that in OpenSSL's queue is nobody's business there. */
		if (ours == 0 && theirs != 1)
			break;
	}
	return ours;
}

static void close_server(struct pair *pair)
{
	SSL_free(pair->ssl);
	if (pair->fds[1] >= 0)
		close(pair->fds[1]);
	pair->ssl = NULL;
	pair->fds[1] = -1;
}

static void close_pair(struct pair *pair)
{
	conn_tls_destroy(pair->tls);
	/* The socket is the caller's. */
	assert_true(fcntl(pair->fds[0], F_GETFD) >= 0);
	close(pair->fds[0]);
	close_server(pair);
	SSL_CTX_free(pair->context);
	ERR_clear_error();
}

static void expect_error(const struct pair *pair, const char *code, const char *says, const char *hint)
{
	assert_string_equal(pair->error.code, code);
	if (!strstr(pair->error.what, says) || !strstr(pair->error.hint, hint))
		fail_msg("'%s', '%s'", pair->error.what, pair->error.hint);
}

/* ---- Whom we believe ------------------------------------------------------------------------------ */

static void believed(struct pair *pair)
{
	if (shake(pair) != 0)
		fail_msg("%s", pair->error.what);
	close_pair(pair);
}

static void untrusted(struct pair *pair, const char *why, const char *hint)
{
	char says[700];

	assert_int_equal(shake(pair), -EPROTO);
	expect_error(pair, "server-untrusted", why, hint);
	snprintf(says, sizeof(says), "at %s does not prove to be %s: ", pair->address.text,
		 pair->address.trust.server_name ? pair->address.trust.server_name : pair->address.host);
	expect_error(pair, "server-untrusted", says, "");
	close_pair(pair);
}

static void the_daemon_proves_its_name(void **state)
{
	static const struct {
		const char *names, *host, *server_name;
		bool good;
	} cases[] = {
		{ NULL, "server", NULL, true },
		{ NULL, "other", "server", true },
		{ NULL, "server", "other", false },
		{ NULL, "other", NULL, false },
		{ "DNS:a.example,DNS:b.example", "b.example", NULL, true },
		{ "DNS:a.example", "server", NULL, false },
		{ "IP:127.0.0.1", "127.0.0.1", NULL, true },
		{ "IP:127.0.0.2", "127.0.0.1", NULL, false },
		{ "DNS:127.0.0.1", "127.0.0.1", NULL, false },
		{ "IP:::1", "::1", NULL, true },
		{ "IP:::2", "::1", NULL, false },
		{ "DNS:server", "::1", "server", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool number = strpbrk(cases[i].host, ":") || cases[i].host[0] == '1';
		struct pair pair;

		open_pair(&pair);
		use_certificate(pair.context, cases[i].names, authority, authority_cert, -60, 3600);
		strcpy(pair.address.host, cases[i].host);
		pair.address.trust.server_name = cases[i].server_name;
		if (cases[i].good)
			believed(&pair);
		else
			untrusted(&pair, number ? "IP address mismatch" : "hostname mismatch", "--server-name NAME");
	}
}

/* The server is told which of its names is meant, where that is one. */
static void a_name_is_told_and_a_number_is_not(void **state)
{
	static const char *const hosts[] = { "server", "127.0.0.1", "::1" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct pair pair;
		const char *told;

		open_pair(&pair);
		use_certificate(pair.context, "DNS:server,IP:127.0.0.1,IP:::1", authority, authority_cert, -60, 3600);
		strcpy(pair.address.host, hosts[i]);
		assert_int_equal(shake(&pair), 0);
		told = SSL_get_servername(pair.ssl, TLSEXT_NAMETYPE_host_name);
		if (i)
			assert_null(told);
		else
			assert_string_equal(told, "server");
		close_pair(&pair);
	}
}

static void the_daemon_is_of_our_authority_and_of_our_time(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	use_certificate(pair.context, NULL, stranger, stranger_cert, -60, 3600);
	untrusted(&pair, "unable to get local issuer", "--ca FILE");
	open_pair(&pair);
	pair.address.trust.ca = files.other_ca;
	untrusted(&pair, "unable to get local issuer", "--ca FILE");
	open_pair(&pair);
	use_certificate(pair.context, NULL, authority, authority_cert, -120, -60);
	untrusted(&pair, "has expired", "check both clocks");
	open_pair(&pair);
	use_certificate(pair.context, NULL, authority, authority_cert, 60, 3600);
	untrusted(&pair, "not yet valid", "check both clocks");
	/* None is named: those that the system believes in, and they alone then. */
	setenv("SSL_CERT_FILE", files.ca, 1);
	open_pair(&pair);
	pair.address.trust.ca = NULL;
	believed(&pair);
	open_pair(&pair);
	pair.address.trust.ca = files.other_ca;
	untrusted(&pair, "unable to get local issuer", "--ca FILE");
	setenv("SSL_CERT_FILE", files.other_ca, 1);
	open_pair(&pair);
	pair.address.trust.ca = NULL;
	untrusted(&pair, "unable to get local issuer", "--ca FILE");
	unsetenv("SSL_CERT_FILE");
}

/* It is known of one that is not believed, too. */
static void how_long_its_certificate_is_good(void **state)
{
	struct tls_span span;
	struct pair pair;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		int64_t now = time(NULL);

		open_pair(&pair);
		use_certificate(pair.context, NULL, authority, authority_cert, -200000, i ? 100000 : -100000);
		assert_int_equal(shake(&pair), i ? 0 : -EPROTO);
		assert_true(conn_tls_peer_span(pair.tls, &span));
		assert_in_range(span.from_s, now - 200000, now - 200000 + 5);
		assert_in_range(span.until_s, now + (i ? 100000 : -100000), now + (i ? 100000 : -100000) + 5);
		close_pair(&pair);
	}
	open_pair(&pair);
	create(&pair);
	assert_false(conn_tls_peer_span(pair.tls, &span));
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -EAGAIN);
	assert_false(conn_tls_peer_span(pair.tls, &span));
	close_pair(&pair);
}

/* ---- Files ---------------------------------------------------------------------------------------- */

static void refused_files(const struct ringtail_trust *trust, const char *code, const char *says, const char *hint)
{
	struct pair pair;

	open_pair(&pair);
	pair.address.trust = *trust;
	ERR_clear_error();
	assert_true(conn_tls_create(pair.fds[0], &pair.address, &pair.tls, &pair.error) < 0);
	assert_null(pair.tls);
	expect_error(&pair, code, says, hint);
	assert_int_equal(ERR_peek_error(), 0);
	close_pair(&pair);
}

static void write_encrypted_key(const char *path, const char *passphrase)
{
	FILE *file = fopen(path, "w");

	assert_int_equal(PEM_write_PrivateKey(file, client_key, EVP_aes_128_cbc(), NULL, 0, NULL,
					      (void *)(uintptr_t)passphrase), 1);
	fclose(file);
	assert_int_equal(chmod(path, 0600), 0);
}

/* Nobody is there to be asked; and it is not read from whatever the program has as its input. */
static void a_passphrase_is_not_asked_for(void **state)
{
	const struct ringtail_trust trust = { .ca = files.ca, .cert = files.cert, .key = files.key };
	int input = dup(0), from = memfd_create("in", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(write(from, "secret\n", 7), 7);
	lseek(from, 0, SEEK_SET);
	dup2(from, 0);
	write_encrypted_key(files.key, "secret");
	refused_files(&trust, "bad-tls-file", "--key ", "without a passphrase");
	assert_int_equal(lseek(0, 0, SEEK_CUR), 0);
	certificate_write_key(files.key, client_key);
	dup2(input, 0);
	close(input);
	close(from);
}

static void files_that_are_wrong(void **state)
{
	struct ringtail_trust trust = { .ca = files.ca };
	char long_name[300];

	(void)state;
	trust.cert = files.cert;
	refused_files(&trust, "half-certificate", "--cert is given, and --key is not", "together");
	trust.cert = NULL;
	trust.key = files.key;
	refused_files(&trust, "half-certificate", "--key is given, and --cert is not", "together");
	trust.cert = files.cert;
	trust.ca = "/nowhere/ca";
	refused_files(&trust, "bad-tls-file", "--ca /nowhere/ca: No such file", "CA certificates in PEM");
	trust.ca = files.key;
	refused_files(&trust, "bad-tls-file", "--ca ", "CA certificates in PEM");
	trust.ca = files.ca;
	trust.cert = "/nowhere/cert";
	refused_files(&trust, "bad-tls-file", "--cert /nowhere/cert: No such file", "our certificate in PEM");
	trust.cert = files.cert;
	trust.key = "/nowhere/key";
	refused_files(&trust, "no-secret", "the key file /nowhere/key", "");
	trust.key = files.key;
	chmod(files.key, 0640);
	refused_files(&trust, "open-secret", "its group or others may read it", "chmod 0600");
	chmod(files.key, 0600);
	/* Of another certificate. */
	certificate_write_key(files.key, server_key);
	refused_files(&trust, "bad-tls-file", "key values mismatch", "private key in PEM");
	certificate_write_key(files.key, client_key);
	trust = (struct ringtail_trust){ .ca = files.ca, .server_name = long_name };
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	refused_files(&trust, "bad-server-name", "cannot be the name of a server", "");
}

/* ---- Who we are ----------------------------------------------------------------------------------- */

static char showed[64];		/* the client's common name, to the server */

static void ask_for_certificate(struct pair *pair)
{
	assert_int_equal(SSL_CTX_load_verify_file(pair->context, files.ca), 1);
	SSL_CTX_set_verify(pair->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

static void our_certificate_is_shown_with_its_chain(void **state)
{
	EVP_PKEY *middle = EVP_EC_gen("P-256");
	X509 *middle_cert = certificate_sign(middle, "middle", authority, authority_cert, -60, 3600), *leaf, *seen;
	struct pair pair;
	FILE *file;
	char byte;

	(void)state;
	certificate_extend(middle_cert, authority, NID_basic_constraints, "CA:TRUE");
	leaf = certificate_sign(client_key, "alice", middle, middle_cert, -60, 3600);
	file = fopen(files.cert, "w");
	PEM_write_X509(file, leaf);
	PEM_write_X509(file, middle_cert);
	fclose(file);
	open_pair(&pair);
	ask_for_certificate(&pair);
	pair.address.trust.cert = files.cert;
	pair.address.trust.key = files.key;
	assert_int_equal(shake(&pair), 0);
	seen = SSL_get1_peer_certificate(pair.ssl);
	assert_non_null(seen);
	X509_NAME_get_text_by_NID(X509_get_subject_name(seen), NID_commonName, showed, sizeof(showed));
	assert_string_equal(showed, "alice");
	X509_free(seen);
	/* That was no refusal, nor is an empty socket one. */
	assert_int_equal(conn_tls_read(pair.tls, &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(conn_tls_refused(pair.tls, &pair.error));
	close_pair(&pair);
	X509_free(leaf);
	X509_free(middle_cert);
	EVP_PKEY_free(middle);
}

/* In TLS 1.3 it shows with the first byte that is read. */
static void the_daemon_says_why_it_refuses_us(void **state)
{
	EVP_PKEY *by[] = { NULL, stranger };
	static const char *const says[] = { "tcp:server:1234 wants a certificate: ", "does not accept our certificate: " };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		X509 *certificate = certificate_sign(client_key, "alice", stranger, stranger_cert, -60, 3600);
		struct pair pair;
		char byte[64];

		certificate_write(files.cert, certificate);
		X509_free(certificate);
		open_pair(&pair);
		ask_for_certificate(&pair);
		pair.address.trust.cert = by[i] ? files.cert : NULL;
		pair.address.trust.key = by[i] ? files.key : NULL;
		assert_int_equal(shake(&pair), 0);
		assert_true(SSL_accept(pair.ssl) <= 0);
		assert_int_equal(conn_tls_read(pair.tls, byte, sizeof(byte)), -1);
		assert_int_equal(errno, EPROTO);
		assert_true(conn_tls_refused(pair.tls, &pair.error));
		expect_error(&pair, "certificate-refused", says[i], "tls-client-ca");
		/* It has ended: no word is said any more. */
		while (recv(pair.fds[1], byte, sizeof(byte), 0) > 0)
			;
		conn_tls_destroy(pair.tls);
		pair.tls = NULL;
		assert_int_equal(recv(pair.fds[1], byte, sizeof(byte), 0), -1);
		close_pair(&pair);
	}
}

/* Before hands are shaken it can say no more than that. */
static void a_daemon_without_room_is_not_about_us(void **state)
{
	static const uint8_t no_room[] = { 21, 3, 3, 0, 2, 2, SSL_AD_INTERNAL_ERROR };
	static const uint8_t other[] = { 21, 3, 3, 0, 2, 2, SSL_AD_HANDSHAKE_FAILURE };
	struct pair pair;

	(void)state;
	open_pair(&pair);
	assert_int_equal(write(pair.fds[1], no_room, sizeof(no_room)), sizeof(no_room));
	create(&pair);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -EPROTO);
	expect_error(&pair, "no-room", "tcp:server:1234 accepts no more connections now", "pending-max");
	close_pair(&pair);
	open_pair(&pair);
	assert_int_equal(write(pair.fds[1], other, sizeof(other)), sizeof(other));
	create(&pair);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -EPROTO);
	expect_error(&pair, "no-tls", "handshake failure", "is it a ringtaild");
	close_pair(&pair);
}

static int find_no_memory(int good, X509_STORE_CTX *store)
{
	(void)good;
	X509_STORE_CTX_set_error(store, X509_V_ERR_OUT_OF_MEM);
	return 0;
}

/* Our certificate was not looked at then: it is not refused. */
static void a_daemon_without_room_behind_the_handshake(void **state)
{
	X509 *certificate = certificate_sign(client_key, "alice", authority, authority_cert, -60, 3600);
	struct pair pair;
	char byte;

	(void)state;
	certificate_write(files.cert, certificate);
	X509_free(certificate);
	open_pair(&pair);
	ask_for_certificate(&pair);
	SSL_CTX_set_verify(pair.context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, find_no_memory);
	pair.address.trust.cert = files.cert;
	pair.address.trust.key = files.key;
	assert_int_equal(shake(&pair), 0);
	assert_true(SSL_accept(pair.ssl) <= 0);
	assert_int_equal(conn_tls_read(pair.tls, &byte, 1), -1);
	assert_int_equal(errno, EPROTO);
	assert_true(conn_tls_refused(pair.tls, &pair.error));
	expect_error(&pair, "no-room", "tcp:server:1234 accepts no more connections now", "pending-max");
	close_pair(&pair);
}

/* Nothing that speaks TLS 1.3: that is not about certificates, of neither side. */
static void what_speaks_no_tls(void **state)
{
	static const char http[] = "HTTP/1.0 400 Bad Request\r\n\r\n";
	struct pair pair;

	(void)state;
	open_pair(&pair);
	SSL_CTX_set_max_proto_version(pair.context, TLS1_2_VERSION);
	assert_int_equal(shake(&pair), -EPROTO);
	expect_error(&pair, "no-tls", "alert protocol version", "is it a ringtaild, with tls-cert?");
	close_pair(&pair);
	open_pair(&pair);
	assert_int_equal(write(pair.fds[1], http, strlen(http)), strlen(http));
	create(&pair);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -EPROTO);
	expect_error(&pair, "no-tls", "no TLS with tcp:server:1234: ", "is it a ringtaild, with tls-cert?");
	assert_null(strstr(pair.error.what, "it closed the connection"));
	close_pair(&pair);
	open_pair(&pair);
	create(&pair);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -EAGAIN);
	shutdown(pair.fds[1], SHUT_WR);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -ECONNRESET);
	expect_error(&pair, "no-tls", "it closed the connection", "pending-max");
	close_pair(&pair);
}

/* ---- Bytes ---------------------------------------------------------------------------------------- */

static void open_shaken(struct pair *pair)
{
	open_pair(pair);
	assert_int_equal(shake(pair), 0);
}

static void bytes_that_come(void **state)
{
	struct pair pair;
	char bytes[64];

	(void)state;
	open_shaken(&pair);
	assert_string_equal(SSL_get_version(pair.ssl), "TLSv1.3");
	assert_false(conn_tls_pending(pair.tls));
	assert_int_equal(conn_tls_read(pair.tls, bytes, sizeof(bytes)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(conn_tls_wanted(pair.tls), POLLIN);
	/* One record, read in two: poll() does not know of the second half. */
	assert_int_equal(SSL_write(pair.ssl, "0123456789", 10), 10);
	assert_int_equal(conn_tls_read(pair.tls, bytes, 4), 4);
	assert_memory_equal(bytes, "0123", 4);
	assert_true(conn_tls_pending(pair.tls));
	assert_int_equal(conn_tls_read(pair.tls, bytes, sizeof(bytes)), 6);
	assert_memory_equal(bytes, "456789", 6);
	assert_false(conn_tls_pending(pair.tls));
	/* TLS's own end. */
	SSL_shutdown(pair.ssl);
	assert_int_equal(conn_tls_read(pair.tls, bytes, sizeof(bytes)), 0);
	close_pair(&pair);
	/* An end without it; a frame that is cut off shows by itself. */
	open_shaken(&pair);
	shutdown(pair.fds[1], SHUT_WR);
	assert_int_equal(conn_tls_read(pair.tls, bytes, sizeof(bytes)), 0);
	assert_false(conn_tls_refused(pair.tls, &pair.error));
	close_pair(&pair);
	/* What is no record. */
	open_shaken(&pair);
	assert_int_equal(write(pair.fds[1], "\x17\x03\x03\x00\x11 17 random bytes", 22), 22);
	assert_int_equal(conn_tls_read(pair.tls, bytes, sizeof(bytes)), -1);
	assert_int_equal(errno, EPROTO);
	assert_false(conn_tls_refused(pair.tls, &pair.error));
	close_pair(&pair);
}

/* Errors that somebody else's calls left behind are not this connection's. */
static void what_others_left_in_the_queue(void **state)
{
	struct pair pair;
	char bytes[8];

	(void)state;
	open_pair(&pair);
	create(&pair);
	ERR_raise(ERR_LIB_USER, 7);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -EAGAIN);
	assert_int_equal(SSL_accept(pair.ssl), -1);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), 0);
	assert_int_equal(SSL_accept(pair.ssl), 1);
	ERR_raise(ERR_LIB_USER, 7);
	assert_int_equal(conn_tls_read(pair.tls, bytes, sizeof(bytes)), -1);
	assert_int_equal(errno, EAGAIN);
	for (unsigned i = 0; i < 10000; i++) {
		static const char record[16384];

		ERR_raise(ERR_LIB_USER, 7);
		if (conn_tls_write(pair.tls, record, sizeof(record)) < 0)
			break;
	}
	assert_int_equal(errno, EAGAIN);
	conn_tls_destroy(pair.tls);
	pair.tls = NULL;
	assert_int_equal(ERR_peek_error(), 0);
	close_pair(&pair);
}

/* What does not fit waits; it may be offered from another place, and goes a record at a time. */
static void bytes_that_go(void **state)
{
	static char bytes[40000], again[40000], got[40000];
	size_t sent = 0, heard = 0;
	struct pair pair;
	ssize_t some;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		again[i] = bytes[i] = (char)(i * 2654435761u >> 13);
	open_shaken(&pair);
	assert_int_equal(conn_tls_write(pair.tls, bytes, sizeof(bytes)), 16384);
	assert_int_equal(SSL_read(pair.ssl, got, sizeof(got)), 16384);
	assert_memory_equal(got, bytes, 16384);
	for (unsigned i = 0; i < 10000 && (some = conn_tls_write(pair.tls, bytes, sizeof(bytes))) > 0; i++)
		sent += (size_t)some;
	assert_int_equal(some, -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(conn_tls_wanted(pair.tls), POLLOUT);
	while ((some = SSL_read(pair.ssl, got, sizeof(got))) > 0)
		heard += (size_t)some;
	ERR_clear_error();
	some = conn_tls_write(pair.tls, again, sizeof(again));
	assert_true(some > 0);
	sent += (size_t)some;
	while ((some = SSL_read(pair.ssl, got, sizeof(got))) > 0)
		heard += (size_t)some;
	assert_int_equal(heard, sent);
	assert_int_equal(conn_tls_read(pair.tls, got, sizeof(got)), -1);
	assert_int_equal(conn_tls_wanted(pair.tls), POLLIN);
	close_pair(&pair);
}

/* Not even a program that knows nothing of it is killed. */
static void a_daemon_that_is_gone_raises_no_sigpipe(void **state)
{
	struct pair pair;
	char bytes[64];

	(void)state;
	open_shaken(&pair);
	SSL_shutdown(pair.ssl);
	close_server(&pair);
	assert_int_equal(conn_tls_read(pair.tls, bytes, sizeof(bytes)), 0);
	assert_int_equal(conn_tls_write(pair.tls, "abc", 3), -1);
	assert_int_equal(errno, EPIPE);
	close_pair(&pair);
	open_shaken(&pair);
	close_server(&pair);
	assert_int_equal(conn_tls_write(pair.tls, "abc", 3), -1);
	assert_int_equal(errno, EPIPE);
	close_pair(&pair);
	open_shaken(&pair);
	close_server(&pair);
	close_pair(&pair);
	open_pair(&pair);
	close_server(&pair);
	assert_int_equal(conn_tls_create(pair.fds[0], &pair.address, &pair.tls, &pair.error), 0);
	assert_int_equal(conn_tls_shake(pair.tls, &pair.error), -EPIPE);
	expect_error(&pair, "no-tls", "no TLS with tcp:server:1234: ", "");
	close_pair(&pair);
}

static void the_end_is_said_where_hands_were_shaken(void **state)
{
	struct pair pair;
	char bytes[64];

	(void)state;
	open_shaken(&pair);
	conn_tls_destroy(pair.tls);
	pair.tls = NULL;
	assert_int_equal(SSL_read(pair.ssl, bytes, sizeof(bytes)), 0);
	assert_int_equal(SSL_get_error(pair.ssl, 0), SSL_ERROR_ZERO_RETURN);
	close_pair(&pair);
	open_pair(&pair);
	create(&pair);
	conn_tls_destroy(pair.tls);
	pair.tls = NULL;
	assert_int_equal(recv(pair.fds[1], bytes, sizeof(bytes), 0), -1);
	close_pair(&pair);
	conn_tls_destroy(NULL);
}

/* ---- Before and after ----------------------------------------------------------------------------- */

static int setup(void **state)
{
	X509 *certificate;

	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(files.ca, sizeof(files.ca), "%s/ca", directory);
	snprintf(files.other_ca, sizeof(files.other_ca), "%s/other-ca", directory);
	snprintf(files.cert, sizeof(files.cert), "%s/cert", directory);
	snprintf(files.key, sizeof(files.key), "%s/key", directory);
	authority = EVP_EC_gen("P-256");
	stranger = EVP_EC_gen("P-256");
	server_key = EVP_EC_gen("P-256");
	client_key = EVP_EC_gen("P-256");
	authority_cert = certificate_sign(authority, "authority", authority, NULL, -60, 3600);
	stranger_cert = certificate_sign(stranger, "stranger", stranger, NULL, -60, 3600);
	certificate = certificate_sign(client_key, "alice", authority, authority_cert, -60, 3600);
	certificate_write(files.ca, authority_cert);
	certificate_write(files.other_ca, stranger_cert);
	certificate_write(files.cert, certificate);
	certificate_write_key(files.key, client_key);
	X509_free(certificate);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(files.ca);
	unlink(files.other_ca);
	unlink(files.cert);
	unlink(files.key);
	EVP_PKEY_free(authority);
	EVP_PKEY_free(stranger);
	EVP_PKEY_free(server_key);
	EVP_PKEY_free(client_key);
	X509_free(authority_cert);
	X509_free(stranger_cert);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_daemon_proves_its_name),
		cmocka_unit_test(a_name_is_told_and_a_number_is_not),
		cmocka_unit_test(the_daemon_is_of_our_authority_and_of_our_time),
		cmocka_unit_test(how_long_its_certificate_is_good),
		cmocka_unit_test(a_passphrase_is_not_asked_for),
		cmocka_unit_test(files_that_are_wrong),
		cmocka_unit_test(our_certificate_is_shown_with_its_chain),
		cmocka_unit_test(the_daemon_says_why_it_refuses_us),
		cmocka_unit_test(a_daemon_without_room_is_not_about_us),
		cmocka_unit_test(a_daemon_without_room_behind_the_handshake),
		cmocka_unit_test(what_speaks_no_tls),
		cmocka_unit_test(bytes_that_come),
		cmocka_unit_test(what_others_left_in_the_queue),
		cmocka_unit_test(bytes_that_go),
		cmocka_unit_test(a_daemon_that_is_gone_raises_no_sigpipe),
		cmocka_unit_test(the_end_is_said_where_hands_were_shaken),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
