/*
 * trust: what is given comes before the environment, and an empty text is none; a secret that others may read is not
 * opened; which files hold a token, and which token that is.
 */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/trust.h"

static char path[] = "/tmp/ringtail-secret-XXXXXX";

static void put(const void *bytes, size_t n, mode_t mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	fclose(file);
	assert_int_equal(chmod(path, mode), 0);
}

/* ---- Where it comes from ------------------------------------------------------------------------ */

static const char *const names[] = { "RINGTAIL_CA", "RINGTAIL_CERT", "RINGTAIL_KEY", "RINGTAIL_TOKEN_FILE",
				     "RINGTAIL_SERVER_NAME" };

static void expect_texts(const char *const want[5])
{
	struct ringtail_trust trust;
	const char **const got[] = { &trust.ca, &trust.cert, &trust.key, &trust.token_file, &trust.server_name };

	memset(&trust, 0x55, sizeof(trust));
	trust_get(&trust);
	for (unsigned i = 0; i < 5; i++) {
		if (want[i])
			assert_string_equal(*got[i], want[i]);
		else
			assert_null(*got[i]);
	}
}

static void given_comes_before_the_environment(void **state)
{
	const struct ringtail_trust all = { .ca = "a", .cert = "b", .key = "c", .token_file = "d",
					    .server_name = "e", .insecure = true };
	const struct ringtail_trust empty = { .ca = "", .cert = "", .key = "", .token_file = "", .server_name = "" };
	static const char *const none[5];
	struct ringtail_trust trust;

	(void)state;
	expect_texts(none);
	for (unsigned i = 0; i < 5; i++)
		setenv(names[i], names[i], 1);
	expect_texts(names);
	ringtail_set_trust(&all);
	expect_texts((const char *const[]){ "a", "b", "c", "d", "e" });
	trust_get(&trust);
	assert_true(trust.insecure);
	/* An empty one says that there is none, whatever the environment says. */
	ringtail_set_trust(&empty);
	expect_texts(none);
	ringtail_set_trust(NULL);
	expect_texts(names);
	trust_get(&trust);
	assert_false(trust.insecure);
	for (unsigned i = 0; i < 5; i++)
		setenv(names[i], "", 1);
	expect_texts(none);
	for (unsigned i = 0; i < 5; i++)
		unsetenv(names[i]);
}

/* ---- Secrets ------------------------------------------------------------------------------------- */

static void refused(const char *name, const char *code, int err)
{
	struct ringtail_error error = { 0 };
	int lowest = dup(0), fd = -1, after;

	close(lowest);
	assert_int_equal(trust_open_secret(name, "key", &fd, &error), -err);
	assert_string_equal(error.code, code);
	assert_non_null(strstr(error.what, "the key file "));
	assert_non_null(strstr(error.what, name));
	/* Nothing of it stays open. */
	after = dup(0);
	close(after);
	assert_int_equal(after, lowest);
}

static void a_secret_is_its_owners_alone(void **state)
{
	struct ringtail_error error;
	struct stat stat;
	int fd;

	(void)state;
	for (mode_t bit = 1; bit <= S_IRGRP << 1; bit <<= 1) {
		if (!(bit & (S_IRWXG | S_IRWXO)))
			continue;
		put("x", 1, 0600 | bit);
		refused(path, "open-secret", EACCES);
	}
	for (mode_t mode = 0400; mode <= 0700; mode += 0100) {
		put("x", 1, 0600);
		assert_int_equal(chmod(path, mode), 0);
		assert_int_equal(trust_open_secret(path, "key", &fd, &error), 0);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		assert_int_equal(fstat(fd, &stat), 0);
		assert_int_equal(stat.st_size, 1);
		close(fd);
	}
	refused("/nowhere/key", "no-secret", ENOENT);
	refused("/dev/null", "open-secret", EACCES);
}

/* Nobody writes to it: it is refused all the same, and not waited for. */
static void a_pipe_is_no_secret(void **state)
{
	char pipe_path[64];

	(void)state;
	snprintf(pipe_path, sizeof(pipe_path), "%s.pipe", path);
	assert_int_equal(mkfifo(pipe_path, 0600), 0);
	alarm(5);
	refused(pipe_path, "open-secret", EACCES);
	alarm(0);
	unlink(pipe_path);
}

/* ---- Tokens -------------------------------------------------------------------------------------- */

static int take(char token[TRUST_TOKEN_BYTES_MAX], struct ringtail_error *error)
{
	const struct ringtail_trust trust = { .token_file = path };

	memset(token, 'x', TRUST_TOKEN_BYTES_MAX);
	memset(error, 0, sizeof(*error));
	return trust_read_token(&trust, token, error);
}

static void the_first_line_is_the_token(void **state)
{
	static const char *const texts[] = { "rt_a", "rt_a\n", "rt_a\r\n", "rt_a\nrt_b\n", "rt_a\n\n" };
	char token[TRUST_TOKEN_BYTES_MAX], text[2 * TRUST_TOKEN_BYTES_MAX];
	struct ringtail_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		put(texts[i], strlen(texts[i]), 0600);
		assert_int_equal(take(token, &error), 0);
		assert_string_equal(token, "rt_a");
	}
	/* However long what stands below it. */
	memset(text, '#', sizeof(text));
	memcpy(text, "rt_a\n", 5);
	put(text, sizeof(text), 0600);
	assert_int_equal(take(token, &error), 0);
	assert_string_equal(token, "rt_a");
}

static void no_token(const void *bytes, size_t n, const char *says)
{
	char token[TRUST_TOKEN_BYTES_MAX];
	struct ringtail_error error;

	put(bytes, n, 0600);
	assert_int_equal(take(token, &error), -EINVAL);
	assert_string_equal(error.code, "bad-token-file");
	if (!strstr(error.what, says) || !strstr(error.what, path))
		fail_msg("%s", error.what);
}

static void a_line_that_is_none_is_refused(void **state)
{
	char token[TRUST_TOKEN_BYTES_MAX], text[TRUST_TOKEN_BYTES_MAX + 8], zero[TRUST_TOKEN_BYTES_MAX] = "";
	struct ringtail_error error;

	(void)state;
	no_token("", 0, "holds no token");
	no_token("\nrt_a\n", 6, "holds no token");
	no_token("\r\n", 2, "holds no token");
	memset(text, 't', sizeof(text));
	/* The longest, and what is longer. */
	put(text, TRUST_TOKEN_BYTES_MAX - 2, 0600);
	assert_int_equal(take(token, &error), 0);
	assert_int_equal(strlen(token), TRUST_TOKEN_BYTES_MAX - 2);
	no_token(text, TRUST_TOKEN_BYTES_MAX - 1, "holds no token");
	no_token(text, sizeof(text), "holds no token");
	assert_int_equal(take(token, &error), -EINVAL);
	assert_non_null(strstr(error.hint, "tracectl token"));
	/* A zero would end it early; and what came of it is wiped. */
	no_token("rt_a\0b\n", 7, "has a NUL");
	no_token("\0", 1, "has a NUL");
	put("rt_a\0b\n", 7, 0600);
	assert_int_equal(take(token, &error), -EINVAL);
	assert_memory_equal(token, zero, sizeof(token));
}

static void without_a_file_there_is_no_token(void **state)
{
	const struct ringtail_trust none = { 0 };
	char token[TRUST_TOKEN_BYTES_MAX] = "x";
	struct ringtail_error error;

	(void)state;
	assert_int_equal(trust_read_token(&none, token, &error), 0);
	assert_string_equal(token, "");
	put("rt_a\n", 5, 0644);
	assert_int_equal(take(token, &error), -EACCES);
	assert_string_equal(error.code, "open-secret");
	assert_non_null(strstr(error.what, "the token file "));
	assert_non_null(strstr(error.hint, "chmod 0600"));
	assert_string_equal(token, "");
}

static int setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		unsetenv(names[i]);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(given_comes_before_the_environment),
		cmocka_unit_test(a_secret_is_its_owners_alone),
		cmocka_unit_test(a_pipe_is_no_secret),
		cmocka_unit_test(the_first_line_is_the_token),
		cmocka_unit_test(a_line_that_is_none_is_refused),
		cmocka_unit_test(without_a_file_there_is_no_token),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
