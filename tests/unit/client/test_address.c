/* test_address: addresses as text, right and wrong, and the default. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/address.h"

static void right(void **state)
{
	struct ringtail_error error;
	struct address address;

	(void)state;
	assert_int_equal(address_parse("unix:/tmp/a b", &address, &error), 0);
	assert_int_equal(address.kind, ADDRESS_UNIX);
	assert_string_equal(address.path, "/tmp/a b");
	assert_int_equal(address_parse("tcp:localhost:7117", &address, &error), 0);
	assert_int_equal(address.kind, ADDRESS_TCP);
	assert_string_equal(address.host, "localhost");
	assert_string_equal(address.port, "7117");
	assert_string_equal(address.text, "tcp:localhost:7117");
	assert_int_equal(address_parse("tcp:[::1]:7117", &address, &error), 0);
	assert_string_equal(address.host, "::1");
	assert_string_equal(address.text, "tcp:[::1]:7117");
}

static void wrong(void **state)
{
	static const char *const texts[] = {
		"",
		"x",
		"/run/x",
		"unix:",
		"tcp:",
		"tcp:host",
		"tcp:host:",
		"tcp:host:0",
		"tcp:host:65536",
		"tcp:host:1x",
		"tcp:host:-1",
		"tcp:host:+1",
		"tcp::1",
		"tcp:::1:7117",
		"tcp:[::1:7117",
		"tcp:[::1]7117",
		"udp:x:1",
	};
	char longer[400] = "unix:/";
	struct ringtail_error error;
	struct address address;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		assert_int_equal(address_parse(texts[i], &address, &error), -EINVAL);
		assert_string_equal(error.code, "bad-address");
		assert_true(error.hint[0]);
	}
	memset(longer + 6, 'a', 120);
	assert_int_equal(address_parse(longer, &address, &error), -EINVAL);
	memcpy(longer, "tcp:aa", 6);
	memset(longer + 6, 'a', 300);
	strcpy(longer + 306, ":1");
	assert_int_equal(address_parse(longer, &address, &error), -EINVAL);
}

static void by_default(void **state)
{
	struct ringtail_error error;
	struct address address;

	(void)state;
	setenv("XDG_RUNTIME_DIR", "/tmp/run-of-nobody", 1);
	assert_int_equal(address_parse(NULL, &address, &error), 0);
	if (geteuid() == 0 || access("/run/ringtail/ringtail.sock", F_OK) == 0)
		assert_string_equal(address.text, "unix:/run/ringtail/ringtail.sock");
	else
		assert_string_equal(address.text, "unix:/tmp/run-of-nobody/ringtail.sock");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right), cmocka_unit_test(wrong), cmocka_unit_test(by_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
