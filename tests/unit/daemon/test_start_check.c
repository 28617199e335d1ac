/*
 * --check-config: what a start would refuse is refused before it: each way to write an export, a
 * header, a filter or a probe wrong, and each file that could not be read. The error names the
 * option, says what is wrong and what to write, and no secret.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <pwd.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/config/config.h"
#include "daemon/engine.h"
#include "tests/unit/daemon/small_catalog.h"

#define WORDS_MAX 8
#define PEM "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

static char directory[] = "/tmp/ringtail-start-XXXXXX";

static int make_directory(void **state)
{
	(void)state;
	return !mkdtemp(directory) || chmod(directory, 0755) != 0;
}

static int remove_directory(void **state)
{
	(void)state;
	return rmdir(directory);
}

/* Its path, until the next. */
static const char *make_file(const char *text, size_t bytes, mode_t mode)
{
	static char path[sizeof(directory) + 8];
	FILE *file;

	snprintf(path, sizeof(path), "%s/file", directory);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fchmod(fileno(file), mode), 0);
	assert_int_equal(fclose(file), 0);
	return path;
}

/* As on a command line; at most WORDS_MAX options, NULL after the last. */
static int check(const char *const *word, struct error *error)
{
	char *argv[WORDS_MAX + 5] = {(char *)"ringtaild", (char *)"--config=/dev/null",
				     (char *)"--listen=unix:/tmp/x", (char *)"--user=nobody"};
	struct config config;
	int argc = 4, err;

	while (*word && argc < WORDS_MAX + 4)
		argv[argc++] = (char *)*word++;
	*error = (struct error){0};
	if (config_parse_args(argc, argv, &config, error) != 0)
		fail_msg("%s: %s", error->code, error->what);
	err = engine_check(&config, error);
	config_free(&config);
	return err;
}

static int check_one(const char *word, struct error *error)
{
	const char *const words[] = {"--export=otlp-logs:http://a:4318", word, NULL};

	return check(words, error);
}

/* Refused as -EINVAL under that code, with these words in what happened and in what to do. */
static void expect(const char *word, const char *code, const char *what, const char *hint)
{
	struct error error;

	assert_int_equal(check_one(word, &error), -EINVAL);
	assert_string_equal(error.code, code);
	if (!strstr(error.what, what))
		fail_msg("%s: \"%s\" is not in: %s", word, what, error.what);
	if (!strstr(error.hint, hint))
		fail_msg("%s: \"%s\" is not in: %s", word, hint, error.hint);
	assert_null(strstr(error.what, "s3cret"));
	assert_null(strstr(error.hint, "s3cret"));
}

static void test_urls(void **state)
{
	(void)state;
	expect("--export=otlp:http://a", "export-kind", "export: `otlp`", "otlp-logs");
	expect("--export=loki", "export-kind", "export: `loki`", "KIND:URL");
	expect("--export=http://a:4318", "export-kind", "export: `http`", "KIND:URL");
	expect("--export=loki:", "export-url", "export: `loki:`", "write loki:http://HOST:PORT");
	expect("--export=loki:collector:3100", "export-url", "neither http nor https", "http://HOST");
	expect("--export=loki:ftp://a", "export-url", "neither http nor https", "loki:http://");
	expect("--export=loki:grpc://a:4317", "export-url", "neither http nor https", "http");
	expect("--export=loki:http://", "export-url", "`loki:http://`", "HOST:PORT");
	expect("--export=loki:http://:3100", "export-url", "ost", "HOST:PORT");
	expect("--export=loki:http://a b/", "export-url", "`loki:http://a b/`", "HOST:PORT");
	expect("--export=loki:http://a:99999", "export-url", "ort", "HOST:PORT");
	expect("--export=loki:http://a:http", "export-url", "ort", "HOST:PORT");
	expect("--export=loki:http://a:0", "export-url", "no port 0", "HOST:PORT");
	expect("--export=loki:http://[::1", "export-url", "`loki:http://[::1`", "HOST:PORT");
	expect("--export=loki:http://a/b#c", "export-url", "fragment", "path");
	expect("--export=loki:http://me:s3cret@a", "export-url", "holds a user", "@FILE");
	expect("--export=loki:http://s3cret@a", "export-url", "holds a user", "@FILE");
	expect("--export=loki:http://me:s3cret@a:99999", "export-url", "export: `loki:...`", "http");
	expect("--export=otlp-logs:http://a:4318/v1/logs", "export-twice", "twice", "one of them");
}

static void test_good(void **state)
{
	static const char *const good[] = {
		"--export=otlp-logs:https://b.example:4318/own/path?tenant=1",
		"--export=loki:http://127.0.0.1", "--export=remote-write:http://[::1]:9090",
		"--export-header=Authorization: Basic bWU6eA==", "--export-header=loki X-A: 1\t2",
		"--export-header=loki Host: other", "--export-probe=syscall:openat",
		"--export-filter=comm != \"backup\" && dfd == 3 && function =~ \"open*\"",
		"--probe=tracepoint:sched", "--filter=pid in (1, 2) && error",
	};
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (check_one(good[i], &error) != 0)
			fail_msg("%s: %s", good[i], error.what);
}

static void test_too_many(void **state)
{
	char text[EXPORTS_MAX + 1][32], *argv[EXPORTS_MAX + 5] = {
		(char *)"ringtaild", (char *)"--config=/dev/null", (char *)"--listen=unix:/tmp/x",
		(char *)"--user=root"};
	struct config config;
	struct error error;

	(void)state;
	for (int i = 0; i <= EXPORTS_MAX; i++) {
		snprintf(text[i], sizeof(text[i]), "--export=loki:http://a:%d", i + 1);
		argv[i + 4] = text[i];
	}
	/* The number of words is the option's own bound: no configuration gets as far as a start. */
	assert_int_equal(config_parse_args(EXPORTS_MAX + 5, argv, &config, &error), -EINVAL);
	assert_string_equal(error.code, "config-too-many");
	assert_int_equal(config_parse_args(EXPORTS_MAX + 4, argv, &config, &error), 0);
	assert_int_equal(engine_check(&config, &error), 0);
	config_free(&config);
}

static void test_headers(void **state)
{
	(void)state;
	expect("--export-header=no colon", "export-header", "does not begin a header", "Name: value");
	expect("--export-header=: s3cret", "export-header", "does not begin a header", "Name: value");
	expect("--export-header=Na me: s3cret", "export-header", "`Na me`", "kind of export");
	expect("--export-header=nothing X: s3cret", "export-header", "`nothing X`", "kind of export");
	expect("--export-header=X-A:", "export-header", "`X-A` has no value", "@FILE");
	expect("--export-header=X-A:  \t", "export-header", "`X-A` has no value", "@FILE");
	expect("--export-header=X-A: s3cret\r\nX-B: 2", "export-header", "`X-A`", "one line");
	expect("--export-header=X-A: s3cret\x7f", "export-header", "0x7f", "one line");
	expect("--export-header=content-type: text/plain", "export-header", "`content-type`",
	       "take it out");
	expect("--export-header=Content-Length: 5", "export-header", "cannot be given", "take it out");
}

/* A header whose value is in that file. */
static int check_secret(const char *path, struct error *error)
{
	char word[128];

	snprintf(word, sizeof(word), "--export-header=Authorization: @%s", path);
	return check_one(word, error);
}

static void test_secrets(void **state)
{
	char long_text[EXPORT_SECRET_BYTES_MAX + 1];
	struct error error;
	const char *path;

	(void)state;
	assert_int_equal(check_secret(make_file("Bearer s3cret\nmore\n", 19, 0600), &error), 0);
	assert_int_equal(check_secret(make_file("s3cret", 6, 0644), &error), -EACCES);
	assert_non_null(strstr(error.what, "export-header"));
	assert_non_null(strstr(error.what, "everybody"));
	assert_non_null(strstr(error.hint, "0600"));
	assert_int_equal(check_secret(make_file("s3cret", 6, 0660), &error), -EACCES);
	assert_int_equal(check_secret(make_file("", 0, 0600), &error), -EINVAL);
	assert_non_null(strstr(error.what, "`Authorization` has no value"));
	assert_int_equal(check_secret(make_file("\ns3cret", 7, 0600), &error), -EINVAL);
	assert_int_equal(check_secret(make_file("s3cret\x01", 7, 0600), &error), -EINVAL);
	assert_non_null(strstr(error.what, "0x01"));
	assert_null(strstr(error.what, "s3cret"));
	memset(long_text, 'x', sizeof(long_text));
	assert_int_equal(check_secret(make_file(long_text, sizeof(long_text), 0600), &error),
			 -EINVAL);
	assert_non_null(strstr(error.what, "bytes or more"));
	path = make_file("x", 1, 0600);
	if (geteuid() == 0) {
		/* The daemon's user's own is as good as root's; somebody else's is not. */
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_int_equal(check_secret(path, &error), 0);
		assert_int_equal(chown(path, 1, 65534), 0);
		assert_int_equal(check_secret(path, &error), -EACCES);
		assert_non_null(strstr(error.what, "somebody else"));
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(check_secret(path, &error), -ENOENT);
	assert_non_null(strstr(error.what, "export-header"));
	assert_int_equal(check_secret(directory, &error), -EACCES);
	assert_non_null(strstr(error.what, "is not a file"));
}

static int check_ca(const char *path, struct error *error)
{
	char word[128];

	snprintf(word, sizeof(word), "--export-ca=%s", path);
	return check_one(word, error);
}

static void test_ca(void **state)
{
	struct error error;
	const char *path = make_file("# ours\n" PEM, strlen("# ours\n" PEM), 0644);

	(void)state;
	assert_int_equal(check_ca(path, &error), 0);
	assert_int_equal(check_ca(directory, &error), -EINVAL);
	assert_non_null(strstr(error.what, "export-ca"));
	assert_non_null(strstr(error.what, "is not a file"));
	make_file("no certificate", 14, 0644);
	assert_int_equal(check_ca(path, &error), -EINVAL);
	assert_non_null(strstr(error.what, "holds no certificate"));
	assert_non_null(strstr(error.hint, "PEM"));
	make_file(PEM, strlen(PEM), 0600);
	if (geteuid() == 0) {
		/* The daemon's user reads it, not who starts the daemon. */
		assert_int_equal(check_ca(path, &error), -EINVAL);
		assert_non_null(strstr(error.what, "closed to the daemon's user"));
		assert_int_equal(chown(path, 65534, 0), 0);
		assert_int_equal(check_ca(path, &error), 0);
		assert_int_equal(chmod(path, 0044), 0);
		assert_int_equal(check_ca(path, &error), -EINVAL);
		assert_int_equal(chown(path, 0, 65534), 0);
		assert_int_equal(check_ca(path, &error), 0);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(check_ca(path, &error), -ENOENT);
	assert_string_equal(error.code, "export-ca");
}

static void test_choice(void **state)
{
	char filter[FILTER_BYTES_MAX + 64];
	size_t bytes = (size_t)sprintf(filter, "--export-filter=pid == 1");
	struct error error;

	(void)state;
	expect("--export-filter=pid = 3", "filter-bad-character", "export-filter: ", "");
	expect("--export-filter=pid == \"x\"", "filter-wants-number", "pid is a number", "");
	expect("--export-probe=a:b:c:d", "probe-bad-spec", "export-probe: `a:b:c:d`", "provider:");
	expect("--export-probe=syscall::call", "probe-bad-spec", "empty part", "provider:");
	expect("--filter=(pid == 3", "filter-incomplete", "filter: ", "");
	expect("--probe=:x", "probe-bad-spec", "probe: `:x`", "provider:");
	expect("--metrics-probe=a:b:c:d", "probe-bad-spec", "metrics-probe: ", "provider:");
	/* By itself it is short enough; with what chooses where nobody says what, it is not. */
	memset(filter + bytes, ' ', sizeof(filter) - bytes - 1);
	filter[FILTER_BYTES_MAX - 10] = '\0';
	expect(filter, "export-filter", "longer than", "export-probe");
	assert_int_equal(check((const char *const[]){"--export=loki:http://a", filter,
						     "--export-probe=syscall", NULL}, &error), 0);
}

/* With a catalog, as at a start: the probe and the argument have to be there. */
static void test_catalog(void **state)
{
	const Ringtail__V1__Catalog *catalog = small_catalog_get();
	struct config_words globs = {.word = {(char *)"syscall:openat"}, .count = 1};
	struct error error;

	(void)state;
	assert_int_equal(config_check_choice(&globs, "export-probe", "dfd == 3", "export-filter",
					    catalog, &error), 0);
	assert_int_equal(config_check_choice(&globs, "export-probe", "dfdd == 3", "export-filter",
					    catalog, &error), -EINVAL);
	assert_string_equal(error.code, "filter-unknown-name");
	assert_int_equal(error.column, 1);
	assert_non_null(strstr(error.what, "export-filter: "));
	globs.word[0] = (char *)"syscall:openatt";
	assert_int_equal(config_check_choice(&globs, "export-probe", NULL, NULL, catalog, &error),
			 -ENOENT);
	assert_string_equal(error.code, "unknown-probe");
	assert_non_null(strstr(error.what, "export-probe: "));
}

static void test_user(void **state)
{
	char *argv[] = {(char *)"ringtaild", (char *)"--config=/dev/null",
			(char *)"--listen=unix:/tmp/x", (char *)"--user=no-such-user-here"};
	struct config config;
	struct error error;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(config_parse_args(4, argv, &config, &error), 0);
	assert_int_equal(engine_check(&config, &error), -ENOENT);
	assert_string_equal(error.code, "user-unknown");
	assert_non_null(strstr(error.hint, "useradd --system --user-group no-such-user-here"));
	config_free(&config);
	/* Nor is another user taken who is there, where none is named. */
	assert_int_equal(config_parse_args(3, argv, &config, &error), 0);
	assert_string_equal(config.user, "ringtail");
	if (!getpwnam("ringtail"))
		assert_int_equal(engine_check(&config, &error), -ENOENT);
	config_free(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urls), cmocka_unit_test(test_good),
		cmocka_unit_test(test_too_many), cmocka_unit_test(test_headers),
		cmocka_unit_test(test_secrets), cmocka_unit_test(test_ca),
		cmocka_unit_test(test_choice), cmocka_unit_test(test_catalog),
		cmocka_unit_test(test_user),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
