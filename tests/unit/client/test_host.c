/* test_host: what a daemon's hello says of its host. */
#include "tests/unit/client/check.h"

#include <errno.h>

#include "client/lib/host.h"
#include "proto/frame.h"

static uint8_t boot_id[16] = { 1, 2, 3 };

static Ringtail__V1__ServerHello make(void)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.version = FRAME_VERSION;
	hello.boot_id.data = boot_id;
	hello.boot_id.len = sizeof(boot_id);
	return hello;
}

/* Each by itself: a daemon that has one has not all that came later, or before. */
static void features(void **state)
{
	static const Ringtail__V1__Feature all[] = {
		RINGTAIL__V1__FEATURE__FEATURE_CONTEXT, RINGTAIL__V1__FEATURE__FEATURE_FDS,
		RINGTAIL__V1__FEATURE__FEATURE_STUCK, RINGTAIL__V1__FEATURE__FEATURE_DUMPS,
		RINGTAIL__V1__FEATURE__FEATURE_HOSTS,
	};
	struct ringtail_host host = { 0 };
	struct ringtail_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		Ringtail__V1__ServerHello hello = make();

		hello.n_feature = 1;
		hello.feature = (Ringtail__V1__Feature *)&all[i];
		assert_int_equal(host_from_hello(&hello, &host, &error), 0);
		assert_int_equal(host.has_context, i == 0);
		assert_int_equal(host.has_fds, i == 1);
		assert_int_equal(host.has_stuck, i == 2);
		assert_int_equal(host.has_dumps, i == 3);
		assert_int_equal(host.has_hosts, i == 4);
	}
}

static void numbers_and_names(void **state)
{
	Ringtail__V1__ServerHello hello = make();
	struct ringtail_host host = { 0 };
	struct ringtail_error error;

	(void)state;
	hello.hostname = (char *)"a\033b";
	hello.machine = (char *)"aarch64";
	hello.epoch = 7;
	hello.monotonic_ns = 8;
	hello.realtime_ns = 9;
	hello.cpus = 3;
	assert_int_equal(host_from_hello(&hello, &host, &error), 0);
	assert_string_equal(host.hostname, "a?b");
	assert_string_equal(host.machine, "aarch64");
	assert_memory_equal(host.boot_id, boot_id, sizeof(boot_id));
	assert_int_equal(host.epoch, 7);
	assert_int_equal(host.monotonic_ns, 8);
	assert_int_equal(host.realtime_ns, 9);
	assert_int_equal(host.cpus, 3);
}

static void refused(void **state)
{
	Ringtail__V1__ServerHello hello = make();
	struct ringtail_host host;
	struct ringtail_error error;

	(void)state;
	hello.version = FRAME_VERSION + 1;
	assert_int_equal(host_from_hello(&hello, &host, &error), -EBADMSG);
	assert_string_equal(error.code, "version-mismatch");
	hello = make();
	hello.boot_id.len = 15;
	assert_int_equal(host_from_hello(&hello, &host, &error), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features), cmocka_unit_test(numbers_and_names), cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
