/*
 * Who may come in: names, rules, tokens and the files they are in, from each side: what is believed, what
 * is refused, and what the refusal says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/access/gate.h"
#include "daemon/host/secret_file.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/tls_place.h"

/* Where not 0: no read brings more at once. The second name is read()'s where its buffer's size is known. */
static size_t read_bytes_max;

ssize_t __wrap_read(int fd, void *bytes, size_t n);
ssize_t __real_read(int fd, void *bytes, size_t n);
ssize_t __wrap___read_chk(int fd, void *bytes, size_t n, size_t room);

ssize_t __wrap_read(int fd, void *bytes, size_t n)
{
	return __real_read(fd, bytes, read_bytes_max && n > read_bytes_max ? read_bytes_max : n);
}

ssize_t __wrap___read_chk(int fd, void *bytes, size_t n, size_t room)
{
	assert_true(n <= room);
	return __wrap_read(fd, bytes, n);
}

/* Where not 0: who started this; and what the list of users has of them, or NULL. */
static unsigned long starter;
static const char *starter_name;

unsigned long __wrap_getauxval(unsigned long kind);
unsigned long __real_getauxval(unsigned long kind);
struct passwd *__wrap_getpwuid(uid_t uid);
struct passwd *__real_getpwuid(uid_t uid);

unsigned long __wrap_getauxval(unsigned long kind)
{
	return starter && kind == AT_EUID ? starter : __real_getauxval(kind);
}

struct passwd *__wrap_getpwuid(uid_t uid)
{
	static struct passwd user;

	if (!starter || uid != starter)
		return __real_getpwuid(uid);
	user = (struct passwd){.pw_uid = uid, .pw_name = (char *)starter_name};
	return starter_name ? &user : NULL;
}

/* ---- Names ------------------------------------------------------------------------------------- */

static void test_names(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} names[] = {
		{"alice", true},
		{"J\xc3\xbcrgen M", true},
		{"a/b=c,d", true},
		{"", false},
		{"a\nb", false},
		{"a\x1b[31m", false},
		{"a\x7f", false},
		{"a\xc2\x9b", false},		/* a control of ISO 8859-1 */
		{"\xff\xfe", false},
		{"123456789012345678901234567890123456789012345678901234567890123", true},
		{"1234567890123456789012345678901234567890123456789012345678901234", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(identity_is_name(names[i].text, strlen(names[i].text)),
				 names[i].good);
	assert_false(identity_is_name("a\0b", 3));
}

static void test_unix_peer(void **state)
{
	struct client_identity identity;
	char text[32];
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(identity_of_unix_peer(fds[0], &identity), 0);
	assert_int_equal(identity.proof, IDENTITY_USER);
	assert_int_equal(identity.uid, geteuid());
	assert_int_equal(identity.group[0], getegid());
	snprintf(text, sizeof(text), "user:%u", geteuid());
	assert_string_equal(identity.text, text);
	close(fds[0]);
	close(fds[1]);
	assert_true(identity_of_unix_peer(fds[0], &identity) < 0);
}

/* ---- Rules ------------------------------------------------------------------------------------- */

static struct config_words words(unsigned n, ...)
{
	struct config_words words = {.count = n};
	va_list list;

	va_start(list, n);
	for (unsigned i = 0; i < n; i++)
		words.word[i] = va_arg(list, char *);
	va_end(list);
	return words;
}

static enum role judge(const struct roles *roles, enum identity_proof proof, const char *name)
{
	struct client_identity identity;

	if (proof == IDENTITY_LOCAL)
		identity_set_local(&identity);
	else if (proof == IDENTITY_UNPROVED)
		identity_set_unproved(&identity);
	else
		identity_set_name(&identity, proof, name);
	return roles_judge(roles, &identity);
}

static enum role judge_user(const struct roles *roles, uid_t uid, gid_t group)
{
	struct client_identity identity = {.proof = IDENTITY_USER, .uid = uid, .groups = 2,
					   .group = {60000, group}, .text = "user:x"};

	return roles_judge(roles, &identity);
}

static void test_default_roles(void **state)
{
	struct config_words none = {0};
	struct roles *roles;

	(void)state;
	assert_int_equal(roles_create(&none, &none, &roles, NULL), 0);
	assert_int_equal(judge_user(roles, 0, 7), ROLE_OPERATOR);
	assert_int_equal(judge_user(roles, geteuid(), 7), ROLE_OPERATOR);
	assert_int_equal(judge_user(roles, 54321, 54321), ROLE_NONE);
	assert_int_equal(judge(roles, IDENTITY_LOCAL, NULL), ROLE_VIEWER);
	assert_int_equal(judge(roles, IDENTITY_CERT, "alice"), ROLE_NONE);
	assert_int_equal(judge(roles, IDENTITY_TOKEN, "alice"), ROLE_NONE);
	assert_int_equal(judge(roles, IDENTITY_UNPROVED, NULL), ROLE_NONE);
	roles_destroy(roles);
	roles_destroy(NULL);
}

/* By their number where the list of users has no name for them, or none that can be shown. */
static void test_who_started_it_is_an_operator(void **state)
{
	static const struct {
		const char *name, *shown;
	} starters[] = {
		{"ada", "user:ada"},
		{NULL, "user:4242"},
		{"a\nb", "user:4242"},
		{"", "user:4242"},
	};
	const struct client_identity identity = {.proof = IDENTITY_USER, .uid = 4242, .text = "user:x"};
	const struct client_identity root = {.proof = IDENTITY_USER, .uid = 0, .text = "user:x"};
	struct config_words none = {0};
	struct roles *roles;

	(void)state;
	starter = 4242;
	for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++) {
		starter_name = starters[i].name;
		assert_int_equal(roles_create(&none, &none, &roles, NULL), 0);
		assert_int_equal(roles_judge(roles, &identity), ROLE_OPERATOR);
		assert_string_equal(roles_name(roles, &identity), starters[i].shown);
		assert_int_equal(roles_judge(roles, &root), ROLE_OPERATOR);
		assert_string_equal(roles_name(roles, &root), "user:root");
		assert_int_equal(judge_user(roles, 54321, 54321), ROLE_NONE);
		roles_destroy(roles);
	}
	starter = 0;
}

static void test_rules(void **state)
{
	struct config_words viewer = words(4, "cert:a*", "token:alice", "group:77", "user:1234");
	struct config_words operator = words(2, "cert:admin", "user:1234");
	struct client_identity root = {.proof = IDENTITY_USER, .text = "user:0"};
	struct client_identity other = {.proof = IDENTITY_TOKEN, .text = "token:bob", .uid = 1234,
					.groups = 1, .group = {77}};
	struct roles *roles;

	(void)state;
	assert_int_equal(roles_create(&viewer, &operator, &roles, NULL), 0);
	assert_int_equal(judge(roles, IDENTITY_CERT, "alice"), ROLE_VIEWER);
	assert_int_equal(judge(roles, IDENTITY_CERT, "bob"), ROLE_NONE);
	assert_int_equal(judge(roles, IDENTITY_CERT, "admin"), ROLE_OPERATOR);
	/* A name proved one way is nobody the other way. */
	assert_int_equal(judge(roles, IDENTITY_TOKEN, "admin"), ROLE_NONE);
	assert_int_equal(judge(roles, IDENTITY_TOKEN, "alice"), ROLE_VIEWER);
	assert_int_equal(judge(roles, IDENTITY_TOKEN, "alicex"), ROLE_NONE);
	assert_int_equal(judge(roles, IDENTITY_LOCAL, NULL), ROLE_NONE);
	assert_int_equal(judge(roles, IDENTITY_UNPROVED, NULL), ROLE_NONE);
	assert_int_equal(judge_user(roles, 1234, 1), ROLE_OPERATOR);
	assert_int_equal(judge_user(roles, 1235, 77), ROLE_VIEWER);
	assert_int_equal(judge_user(roles, 1235, 78), ROLE_NONE);
	/* Only the kernel says who is of a group, by a unix socket. */
	assert_int_equal(roles_judge(roles, &other), ROLE_NONE);
	assert_string_equal(roles_name(roles, &root), "user:root");
	roles_destroy(roles);
}

static void test_bad_rules(void **state)
{
	static const struct {
		const char *rule, *code;
		enum role role;
	} bad[] = {
		{"alice", "rule-unknown", ROLE_VIEWER},
		{"cert:", "rule-unknown", ROLE_VIEWER},
		{"certs:alice", "rule-unknown", ROLE_VIEWER},
		{"locals", "rule-unknown", ROLE_VIEWER},
		{"user:a\nb", "rule-unknown", ROLE_OPERATOR},
		{"local", "rule-local-operator", ROLE_OPERATOR},
	};
	struct config_words none = {0}, nobody = words(1, "user:no-such-user-here");
	struct roles *roles;
	struct rule rule;
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(rule_parse(bad[i].rule, bad[i].role, &rule, &error), -EINVAL);
		assert_string_equal(error.code, bad[i].code);
		assert_true(*error.hint);
	}
	assert_int_equal(roles_create(&nobody, &none, &roles, &error), -EINVAL);
	assert_string_equal(error.code, "rule-nobody");
	assert_true(rule_admits_any(nobody.word, nobody.count, IDENTITY_CERT) == false);
	nobody = words(2, "user:7", "cert:a*");
	assert_true(rule_admits_any(nobody.word, nobody.count, IDENTITY_CERT));
	assert_false(rule_admits_any(nobody.word, nobody.count, IDENTITY_TOKEN));
	nobody = words(1, "token:a");
	assert_true(rule_admits_any(nobody.word, nobody.count, IDENTITY_TOKEN));
	assert_false(rule_admits_any(nobody.word, nobody.count, IDENTITY_CERT));
}

/* ---- Tokens ------------------------------------------------------------------------------------- */

static char *line_of(const char *name, const char *token)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char *line = calloc(1, 256);
	int n = snprintf(line, 256, "%s:sha256:", name);

	SHA256((const uint8_t *)token, strlen(token), digest);
	for (unsigned i = 0; i < sizeof(digest); i++)
		n += snprintf(line + n, 256 - (size_t)n, "%02x", digest[i]);
	return line;
}

static void test_tokens(void **state)
{
	char *alice = line_of("alice", "rt_one"), *bob = line_of("bob", "rt_two");
	struct client_identity identity, old;
	struct tokens *tokens;
	struct error error;
	char text[512];

	(void)state;
	snprintf(text, sizeof(text), "# ours\n\n%s\n%s", alice, bob);
	assert_int_equal(tokens_parse(text, strlen(text), "x", &tokens, &error), 0);
	assert_int_equal(tokens_find(tokens, "rt_two", &identity), 0);
	assert_string_equal(identity.text, "token:bob");
	assert_true(tokens_hold(tokens, &identity));
	assert_int_equal(tokens_find(tokens, "rt_one", &old), 0);
	assert_int_equal(tokens_find(tokens, "rt_tw", &identity), -EACCES);
	assert_int_equal(tokens_find(tokens, "", &identity), -EACCES);
	tokens_destroy(tokens);
	/* Alice's token is now bob's: what it proved before, it proves no more. */
	snprintf(text, sizeof(text), "bob%s\n", strchr(alice, ':'));
	assert_int_equal(tokens_parse(text, strlen(text), "x", &tokens, &error), 0);
	assert_false(tokens_hold(tokens, &old));
	/* Nor does a place hold that nobody has. */
	assert_false(tokens_hold(tokens, &(struct client_identity){.proof = IDENTITY_TOKEN, .text = "token:"}));
	tokens_destroy(tokens);
	tokens_destroy(NULL);
	free(alice);
	free(bob);
}

/* A digest that is right but for one byte, whichever, is another token's. */
static void test_every_byte_of_a_digest_counts(void **state)
{
	char *line = line_of("alice", "rt_one");
	char *digits = strrchr(line, ':') + 1;
	struct client_identity identity;
	struct tokens *tokens;
	struct error error;

	(void)state;
	for (unsigned i = 0; i < 2 * SHA256_DIGEST_LENGTH; i++) {
		char right = digits[i];

		digits[i] = right == '0' ? '1' : '0';
		assert_int_equal(tokens_parse(line, strlen(line), "x", &tokens, &error), 0);
		assert_int_equal(tokens_find(tokens, "rt_one", &identity), -EACCES);
		tokens_destroy(tokens);
		digits[i] = right;
	}
	free(line);
}

static void test_bad_tokens(void **state)
{
	static const char digits[] =
		"00000000000000000000000000000000000000000000000000000000000000";
	static const struct {
		const char *format, *code, *what;
	} bad[] = {
		{"", "tokens-none", "holds no token"},
		{"# %s\n", "tokens-none", "holds no token"},
		{"alice:%s00\n", "tokens-line", "x:1: this is no name"},
		{"\n:sha256:%s00\n", "tokens-line", "x:2: this is no name"},
		{"a:b:sha256:%s00\n", "tokens-line", "no colon"},
		{"a:sha256:%s0\n", "tokens-line", "64 hex"},
		{"a:sha256:%s0g\n", "tokens-line", "64 hex"},
		{"a:sha256:%s0G\n", "tokens-line", "64 hex"},
		{"a:sha256:%sg0\n", "tokens-line", "64 hex"},
		{"b\na:sha256:%s00\n", "tokens-line", "x:1: this is no name"},
		{"a:sha256:%s00 \n", "tokens-line", "64 hex"},
	};
	struct tokens *tokens;
	struct error error;
	char text[256], *many;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), bad[i].format, digits);
		assert_int_equal(tokens_parse(text, strlen(text), "x", &tokens, &error), -EINVAL);
		assert_string_equal(error.code, bad[i].code);
		if (!strstr(error.what, bad[i].what))
			fail_msg("`%s`: %s", text, error.what);
		assert_true(*error.hint);
	}
	many = calloc(1025, 80);
	for (unsigned i = 0; i < 1025; i++)
		sprintf(many + strlen(many), "t%u:sha256:%s00\n", i, digits);
	assert_int_equal(tokens_parse(many, strlen(many), "x", &tokens, &error), -EINVAL);
	assert_non_null(strstr(error.what, "too many"));
	*strrchr(many, 't') = '\0';		/* the last one's line */
	assert_int_equal(tokens_parse(many, strlen(many), "x", &tokens, &error), 0);
	tokens_destroy(tokens);
	free(many);
}

/* What stands behind the bytes that were given is no part of the last line. */
static void test_text_without_an_end(void **state)
{
	char *alice = line_of("alice", "rt_one"), text[512];
	struct client_identity identity;
	struct tokens *tokens;
	struct error error;
	size_t bytes;

	(void)state;
	bytes = (size_t)snprintf(text, sizeof(text), "# ours\n%s", alice);
	strcat(text, "00\n\n");
	assert_int_equal(tokens_parse(text, bytes, "x", &tokens, &error), 0);
	assert_int_equal(tokens_find(tokens, "rt_one", &identity), 0);
	tokens_destroy(tokens);
	free(alice);
}

/* ---- Files --------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void test_secret_files(void **state)
{
	static const struct {
		mode_t mode;
		bool good;
	} modes[] = {{0600, true}, {0400, true}, {0640, true}, {0644, false}, {0604, false},
		     {0660, false}, {0602, false}, {0601, false}};
	char path[] = "/tmp/ringtail-secret-XXXXXX";
	struct error error;
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		int err;

		write_file(path, "x", modes[i].mode);
		err = secret_file_open(path, "tokens", &fd, &error);
		assert_int_equal(err, modes[i].good ? 0 : -EACCES);
		if (!err)
			close(fd);
		else
			assert_string_equal(error.code, "secret-file-open");
	}
	unlink(path);
	assert_int_equal(secret_file_open(path, "tokens", &fd, &error), -ENOENT);
	assert_string_equal(error.code, "secret-file");
	assert_int_equal(secret_file_open("/tmp", "tokens", &fd, &error), -EACCES);
	if (geteuid() == 0) {
		write_file(path, "x", 0600);
		assert_int_equal(chown(path, 12, 0), 0);
		assert_int_equal(secret_file_open(path, "tokens", &fd, &error), -EACCES);
		assert_non_null(strstr(error.what, "somebody else"));
		unlink(path);
	}
}

static void test_token_file_too_large(void **state)
{
	char path[] = "/tmp/ringtail-tokens-XXXXXX", *line = line_of("alice", "rt_one");
	size_t bytes = 1 << 20;
	char *text = calloc(1, bytes + 1);
	struct tokens *tokens = NULL;
	struct error error;

	(void)state;
	close(mkstemp(path));
	memset(text, '#', bytes);
	memcpy(text, line, strlen(line));
	text[strlen(line)] = '\n';
	write_file(path, text, 0600);
	assert_int_equal(tokens_load(path, &tokens, &error), -EFBIG);
	assert_non_null(strstr(error.what, "larger than"));
	/* 192 bytes for each of 1024, and not one more, in whatever pieces they come. */
	read_bytes_max = 60000;
	text[1024 * 192 + 1] = '\0';
	write_file(path, text, 0600);
	assert_int_equal(tokens_load(path, &tokens, &error), -EFBIG);
	assert_non_null(strstr(error.what, "larger than 196608 bytes"));
	text[1024 * 192] = '\0';
	write_file(path, text, 0600);
	assert_int_equal(tokens_load(path, &tokens, &error), 0);
	read_bytes_max = 0;
	tokens_destroy(tokens);
	unlink(path);
	free(text);
	free(line);
}

static void test_token_file_that_cannot_be_read(void **state)
{
	char path[] = "/tmp/ringtail-tokens-XXXXXX", *line = line_of("alice", "rt_one");
	struct client_identity identity;
	struct tokens *tokens;
	struct error error;

	(void)state;
	close(mkstemp(path));
	write_file(path, line, 0600);
	read_bytes_max = 10;
	assert_int_equal(tokens_load(path, &tokens, &error), 0);
	read_bytes_max = 0;
	assert_int_equal(tokens_find(tokens, "rt_one", &identity), 0);
	tokens_destroy(tokens);
	/* A file of mode 0600 that is there, and whose first byte cannot be had. */
	assert_int_equal(tokens_load("/proc/self/mem", &tokens, &error), -EIO);
	assert_string_equal(error.code, "secret-file");
	assert_non_null(strstr(error.what, "cannot read"));
	unlink(path);
	assert_int_equal(tokens_load(path, &tokens, &error), -ENOENT);
	assert_non_null(strstr(error.what, path));
	free(line);
}

/* ---- All together --------------------------------------------------------------------------------- */

static void test_gate(void **state)
{
	char path[] = "/tmp/ringtail-tokens-XXXXXX", *line = line_of("alice", "rt_one");
	struct config config = {.tokens = path, .viewer = words(1, "token:alice")};
	struct client_identity identity;
	struct gate *gate, *next;
	struct error error;

	(void)state;
	close(mkstemp(path));
	write_file(path, line, 0600);
	assert_int_equal(gate_create(&config, &gate, &error), 0);
	assert_null(gate_tls(gate));

	identity_set_unproved(&identity);
	assert_int_equal(gate_admit(gate, &identity, "", &error), -EACCES);
	assert_string_equal(error.code, "not-authenticated");
	assert_int_equal(gate_admit(gate, &identity, "rt_two", &error), -EACCES);
	assert_string_equal(error.code, "bad-token");
	assert_int_equal(gate_admit(gate, &identity, "rt_one", &error), 0);
	assert_int_equal(identity.role, ROLE_VIEWER);
	assert_int_equal(gate_allow(gate, &identity, ROLE_VIEWER, "look", &error), 0);
	assert_int_equal(gate_allow(gate, &identity, ROLE_OPERATOR, "change it", &error), -EACCES);
	assert_string_equal(error.code, "not-allowed");
	assert_string_equal(error.what, "you are token:alice, who may not change it");
	assert_non_null(strstr(error.hint, "operator = token:alice"));

	/* A token in clear is a token lost. */
	struct client_identity local;

	identity_set_local(&local);
	assert_int_equal(gate_admit(gate, &local, "rt_one", &error), -EACCES);
	assert_string_equal(error.code, "token-in-clear");

	/* A reload that changes nothing leaves her what she is. */
	assert_int_equal(gate_create(&config, &next, &error), 0);
	gate_replace(gate, next);
	identity.role = ROLE_NONE;
	gate_judge(gate, &identity);
	assert_int_equal(identity.role, ROLE_VIEWER);
	/* With her line gone, and the rules as they were, she is nobody. */
	free(line);
	line = line_of("bob", "rt_two");
	write_file(path, line, 0600);
	assert_int_equal(gate_create(&config, &next, &error), 0);
	gate_replace(gate, next);
	gate_judge(gate, &identity);
	assert_int_equal(identity.role, ROLE_NONE);
	/* And bob, whose token is good, is nobody whom a rule names. */
	identity_set_unproved(&identity);
	assert_int_equal(gate_admit(gate, &identity, "rt_two", &error), -EACCES);
	assert_string_equal(error.code, "not-allowed");
	assert_int_equal(identity.role, ROLE_NONE);
	/* A gate that cannot be made leaves the one there is. */
	write_file(path, "nothing\n", 0600);
	assert_int_equal(gate_create(&config, &next, &error), -EINVAL);
	gate_destroy(gate);
	gate_destroy(NULL);
	unlink(path);
	free(line);
}

/* Who has no token has to show a certificate before a word of it is heard. */
static void test_a_certificate_is_asked_for_unless_there_are_tokens(void **state)
{
	char path[] = "/tmp/ringtail-tokens-XXXXXX", *line = line_of("alice", "rt_one");
	struct place place;
	struct error error;

	(void)state;
	close(mkstemp(path));
	write_file(path, line, 0600);
	place_open(&place, -60, 3600);
	for (unsigned tokens = 0; tokens < 2; tokens++) {
		struct config config = {.tls_cert = place.cert, .tls_key = place.key, .tls_client_ca = place.ca,
					.tokens = tokens ? path : NULL};
		struct transport *transport;
		int fds[2], err = -EAGAIN;
		struct gate *gate;
		SSL *client;

		assert_int_equal(gate_create(&config, &gate, &error), 0);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
		transport = transport_tls_create(gate_tls(gate), fds[0]);
		assert_non_null(transport);
		client = place_client(&place, NULL, NULL, fds[1]);
		for (unsigned turn = 0; turn < 100 && err == -EAGAIN; turn++) {
			SSL_connect(client);
			err = transport_handshake(transport, &error);
		}
		ERR_clear_error();
		assert_int_equal(err == 0, tokens);
		SSL_free(client);
		close(fds[1]);
		transport_destroy(transport);
		gate_destroy(gate);
	}
	place_close(&place);
	unlink(path);
	free(line);
}

/* A reload that takes the tokens file away takes away what tokens proved, whatever rules still name them. */
static void test_tokens_that_are_taken_away(void **state)
{
	char path[] = "/tmp/ringtail-tokens-XXXXXX", *line = line_of("alice", "rt_one");
	struct config config = {.tokens = path, .viewer = words(2, "token:alice", "local")};
	struct client_identity identity, local;
	struct gate *gate, *next;
	struct error error;

	(void)state;
	close(mkstemp(path));
	write_file(path, line, 0600);
	assert_int_equal(gate_create(&config, &gate, &error), 0);
	identity_set_unproved(&identity);
	identity_set_local(&local);
	assert_int_equal(gate_admit(gate, &identity, "rt_one", &error), 0);
	config.tokens = NULL;
	assert_int_equal(gate_create(&config, &next, &error), 0);
	gate_replace(gate, next);
	gate_judge(gate, &identity);
	assert_int_equal(identity.role, ROLE_NONE);
	gate_judge(gate, &local);
	assert_int_equal(local.role, ROLE_VIEWER);
	identity_set_unproved(&identity);
	assert_int_equal(gate_admit(gate, &identity, "rt_one", &error), -EACCES);
	assert_string_equal(error.code, "bad-token");
	gate_destroy(gate);
	unlink(path);
	free(line);
}

/* Whichever allocation fails: there is no gate then, and the reason is memory. */
static void test_gate_without_memory(void **state)
{
	char path[] = "/tmp/ringtail-tokens-XXXXXX", *line = line_of("alice", "rt_one");
	struct config config = {.tokens = path, .viewer = words(1, "token:alice")};
	struct place place;
	struct gate *gate = NULL;
	struct error error;
	unsigned n;
	int err;

	(void)state;
	place_open(&place, -60, 90 * 86400);
	config.tls_cert = place.cert;
	config.tls_key = place.key;
	config.tls_client_ca = place.ca;
	close(mkstemp(path));
	write_file(path, line, 0600);
	for (n = 0; n < 20; n++) {
		memory_fails_after(n);
		failures_left = 1;
		err = gate_create(&config, &gate, &error);
		memory_suffices();
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_string_equal(error.code, "out-of-memory");
		assert_null(gate);
	}
	assert_int_equal(n, 5);		/* gate, roles, the file, tokens, TLS */
	assert_non_null(gate_tls(gate));
	gate_destroy(gate);
	unlink(path);
	place_close(&place);
	free(line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_unix_peer),
		cmocka_unit_test(test_default_roles),
		cmocka_unit_test(test_who_started_it_is_an_operator),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_bad_rules),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_every_byte_of_a_digest_counts),
		cmocka_unit_test(test_bad_tokens),
		cmocka_unit_test(test_text_without_an_end),
		cmocka_unit_test(test_token_file_too_large),
		cmocka_unit_test(test_token_file_that_cannot_be_read),
		cmocka_unit_test(test_secret_files),
		cmocka_unit_test(test_gate),
		cmocka_unit_test(test_a_certificate_is_asked_for_unless_there_are_tokens),
		cmocka_unit_test(test_tokens_that_are_taken_away),
		cmocka_unit_test(test_gate_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
