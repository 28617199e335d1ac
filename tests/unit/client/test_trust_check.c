/* test_trust_check: doctor's checks of tokens, keys and certificates, on files of the test's making. */
#include "tests/unit/client/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/trust_check.h"
#include "proto/tls.h"
#include "tests/lib/certificate.h"

#define DAY_S 86400

static char directory[] = "/tmp/ringtail-trust-XXXXXX";

static const char *put(const char *name, const char *text, mode_t mode)
{
	static char path[4][128];
	static unsigned next;
	char *at = path[next++ % 4];
	FILE *file;

	snprintf(at, sizeof(path[0]), "%s/%s", directory, name);
	file = fopen(at, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(at, mode), 0);
	return at;
}

static struct host_check run(const char *name, const struct trust_view *view)
{
	struct host_check check;
	const char *found;

	for (size_t i = 0; (found = trust_check(view, i, &check)); i++)
		if (!strcmp(found, name))
			return check;
	fail_msg("no check is called %s", name);
	return check;
}

static void expect(const char *name, const struct trust_view *view, enum check_verdict verdict,
		   const char *says, const char *do_this)
{
	struct host_check check = run(name, view);

	if (check.verdict != verdict || !strstr(check.found, says) || !strstr(check.hint, do_this))
		fail_msg("%s: %s, '%s', '%s'", name, host_check_verdict_name(check.verdict),
			 check.found, check.hint);
	assert_int_equal(verdict == CHECK_OK, !check.hint[0]);
}

static void nothing(void **state)
{
	struct trust_view view = { .now_s = time(NULL) };
	struct host_check check;
	size_t n = 0;

	(void)state;
	while (trust_check(&view, n, &check)) {
		assert_int_equal(check.verdict, CHECK_OK);
		assert_false(check.found[0]);
		n++;
	}
	assert_int_equal(n, 4);
}

static void tokens(void **state)
{
	struct trust_view view = { .now_s = time(NULL) };

	(void)state;
	view.trust.token_file = put("token", "rt_secret\n", 0600);
	expect("token file", &view, CHECK_OK, "ours alone", "");
	put("token", "rt_secret\n", 0400);
	expect("token file", &view, CHECK_OK, "ours alone", "");
	put("token", "rt_secret\n", 0640);
	expect("token file", &view, CHECK_FAIL, "its group or others may read it", "chmod 0600");
	put("token", "rt_secret\n", 0604);
	expect("token file", &view, CHECK_FAIL, "others may read it", "make a new one");
	put("token", "", 0600);
	expect("token file", &view, CHECK_FAIL, "holds no token", "tracectl token NAME");
	put("token", "\nrt_secret\n", 0600);
	expect("token file", &view, CHECK_FAIL, "holds no token", "tracectl token NAME");
	view.trust.token_file = directory;
	expect("token file", &view, CHECK_FAIL, "is no file", "chmod");
	view.trust.token_file = "/nowhere/token";
	expect("token file", &view, CHECK_FAIL, "No such file", "tracectl token NAME");
}

/* As somebody who has no rights. */
static void unreadable(void **state)
{
	struct trust_view view = { .now_s = time(NULL) };

	(void)state;
	if (geteuid() != 0)
		skip();
	view.trust.token_file = put("token", "rt_secret\n", 0600);
	view.trust.key = put("key", "", 0600);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(seteuid(65534), 0);
	expect("token file", &view, CHECK_FAIL, "Permission denied", "mode 0600");
	expect("key file", &view, CHECK_FAIL, "Permission denied", "mode 0600");
	assert_int_equal(seteuid(0), 0);
}

static void keys(void **state)
{
	struct trust_view view = { .now_s = time(NULL) };

	(void)state;
	view.trust.key = put("key", "key", 0600);
	expect("key file", &view, CHECK_OK, "ours alone", "");
	put("key", "key", 0660);
	expect("key file", &view, CHECK_FAIL, "its group or others may read it", "chmod 0600");
	put("key", "key", 0620);
	expect("key file", &view, CHECK_FAIL, "its group or others may read it", "chmod 0600");
	put("key", "key", 0644);
	expect("key file", &view, CHECK_FAIL, "others may read it", "chmod 0600");
	view.trust.key = "/nowhere/key";
	expect("key file", &view, CHECK_FAIL, "No such file", "--cert");
}

/* Both ends' certificates are judged alike; what is to be done about them is not the same. */
static void expect_span(long from, long until, enum check_verdict verdict, const char *says)
{
	struct trust_view view = { .now_s = time(NULL) };
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = certificate_sign(key, "vera", key, NULL, from, until);
	struct tls_span span;
	struct ringtail_error error;

	view.trust.cert = put("cert", "", 0644);
	certificate_write(view.trust.cert, certificate);
	expect("certificate", &view, verdict, says, verdict == CHECK_OK ? "" : "tls-client-ca");
	assert_int_equal(conn_tls_span_of_file(view.trust.cert, &span, &error), 0);
	assert_in_range(span.from_s, view.now_s + from, view.now_s + from + 2);
	assert_in_range(span.until_s, view.now_s + until, view.now_s + until + 2);
	view.daemon = &span;
	expect("daemon's cert", &view, verdict, says, verdict == CHECK_OK ? "" : "systemctl reload");
	X509_free(certificate);
	EVP_PKEY_free(key);
}

static void certificates(void **state)
{
	struct trust_view view = { .now_s = time(NULL) };

	(void)state;
	expect_span(-60, 31 * DAY_S, CHECK_OK, "is valid until 20");
	expect_span(-60, 30 * DAY_S - 60, CHECK_WARN, "expires in 29 days, on 20");
	expect_span(-60, 60, CHECK_WARN, "expires in 0 days");
	expect_span(-2 * DAY_S, -DAY_S, CHECK_FAIL, "has expired on 20");
	expect_span(DAY_S, 90 * DAY_S, CHECK_FAIL, "is not valid before 20");
	expect_span(-60, 400000l * DAY_S, CHECK_OK, "is valid until 3");
	view.trust.cert = put("cert", "no certificate\n", 0644);
	expect("certificate", &view, CHECK_FAIL, "no certificate", "PEM");
	view.trust.cert = "/nowhere/cert";
	expect("certificate", &view, CHECK_FAIL, "No such file", "PEM");
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),    cmocka_unit_test(tokens),
		cmocka_unit_test(unreadable), cmocka_unit_test(keys),
		cmocka_unit_test(certificates),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
