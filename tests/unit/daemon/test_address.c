/* address: what may be listened on, and each way to write it wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/net/address.h"

static void test_unix(void **state)
{
	struct address address;
	struct error error;
	char path[200] = "unix:/";

	(void)state;
	assert_int_equal(address_parse("unix:/run/ringtail/ringtail.sock", &address, &error), 0);
	assert_true(address_is_unix(&address));
	assert_false(address.loopback);
	assert_string_equal(address_path(&address), "/run/ringtail/ringtail.sock");
	assert_string_equal(address.text, "unix:/run/ringtail/ringtail.sock");

	assert_int_equal(address_parse("unix:", &address, &error), -EINVAL);
	assert_string_equal(error.code, "address-bad-path");
	memset(path + 6, 'x', 107);	/* 108 with its /: one too many for the terminator */
	assert_int_equal(address_parse(path, &address, &error), -EINVAL);
	assert_string_equal(error.code, "address-bad-path");
	path[112] = '\0';
	assert_int_equal(address_parse(path, &address, &error), 0);
	memset(path + 6, 'x', 190);
	assert_int_equal(address_parse(path, &address, &error), -EINVAL);
	assert_string_equal(error.code, "address-too-long");
}

static void test_tcp(void **state)
{
	const struct sockaddr_in *in;
	const struct sockaddr_in6 *in6;
	struct address address;
	struct error error;

	(void)state;
	assert_int_equal(address_parse("tcp:127.0.0.1:7117", &address, &error), 0);
	in = (const struct sockaddr_in *)&address.socket;
	assert_int_equal(in->sin_family, AF_INET);
	assert_int_equal(ntohs(in->sin_port), 7117);
	assert_int_equal(address.socket_bytes, sizeof(*in));
	assert_true(address.loopback);
	assert_false(address_is_unix(&address));

	assert_int_equal(address_parse("tcp:localhost:0", &address, &error), 0);
	assert_int_equal(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
	assert_true(address.loopback);

	assert_int_equal(address_parse("tcp:127.9.8.7:1", &address, &error), 0);
	assert_true(address.loopback);
	assert_int_equal(address_parse("tcp:0.0.0.0:7117", &address, &error), 0);
	assert_false(address.loopback);

	assert_int_equal(address_parse("tcp:[::1]:7117", &address, &error), 0);
	in6 = (const struct sockaddr_in6 *)&address.socket;
	assert_int_equal(in6->sin6_family, AF_INET6);
	assert_int_equal(ntohs(in6->sin6_port), 7117);
	assert_true(address.loopback);
	assert_int_equal(address_parse("tcp:[::]:7117", &address, &error), 0);
	assert_false(address.loopback);
}

/* What is loopback may speak in clear, and so nothing beside it is taken for it. */
static void test_beside_loopback(void **state)
{
	static const char *const beside[] = {
		"tcp:126.255.255.255:1", "tcp:128.0.0.0:1", "tcp:192.168.0.1:1", "tcp:1.0.0.127:1", "tcp:255.255.255.255:1",
		"tcp:[::2]:1", "tcp:[100::1]:1", "tcp:[::ffff:127.0.0.1]:1", "tcp:[fe80::1]:1",
	};
	struct address address;
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		assert_int_equal(address_parse(beside[i], &address, &error), 0);
		if (address.loopback)
			fail_msg("%s", beside[i]);
	}
	assert_int_equal(address_parse("tcp:127.255.255.255:1", &address, &error), 0);
	assert_true(address.loopback);
}

static void test_bad(void **state)
{
	static const struct {
		const char *text, *code, *what, *hint;
	} bad[] = {
		{ "", "address-bad-family", "`` is not an address",
		  "write unix:PATH or tcp:HOST:PORT" },
		{ "/run/x.sock", "address-bad-family", "`/run/x.sock` is not an address",
		  "write unix:PATH or tcp:HOST:PORT" },
		{ "tcp:7117", "address-no-port", "`tcp:7117` is not tcp:HOST:PORT",
		  "as in tcp:127.0.0.1:7117" },
		{ "tcp::7117", "address-no-port", "`tcp::7117` is not tcp:HOST:PORT", NULL },
		{ "tcp:localhost:70000", "address-bad-port",
		  "`tcp:localhost:70000`: the port `70000` is not a number from 0 to 65535", "" },
		{ "tcp:localhost:http", "address-bad-port",
		  "`tcp:localhost:http`: the port `http` is not a number from 0 to 65535", "" },
		{ "tcp:example.org:7117", "address-bad-host",
		  "`tcp:example.org:7117`: `example.org` is not an address",
		  "write localhost, 127.0.0.1 or [::1]; names are not looked up" },
		{ "tcp:::1:7117", "address-bad-host", "`tcp:::1:7117`: `::1` is not an address",
		  NULL },
		{ "tcp:[]:7117", "address-bad-host", "`tcp:[]:7117`: `[]` is not an address",
		  NULL },
		{ "tcp:[127.0.0.1]:7117", "address-bad-host",
		  "`tcp:[127.0.0.1]:7117`: `[127.0.0.1]` is not an address", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct address address;
		struct error error;

		assert_int_equal(address_parse(bad[i].text, &address, &error), -EINVAL);
		assert_string_equal(error.code, bad[i].code);
		assert_string_equal(error.what, bad[i].what);
		if (bad[i].hint)
			assert_string_equal(error.hint, bad[i].hint);
	}
}

static void whom_to_dial(void **state)
{
	static const struct {
		const char *text, *host, *port;
	} good[] = {
		{"tls:relay.example:7119", "relay.example", "7119"},
		{"tls:10.0.0.7:1", "10.0.0.7", "1"},
		{"tls:[::1]:65535", "::1", "65535"},
	}, bad[] = {
		{"tcp:relay.example:7119", "address-bad-family", NULL},
		{"tls:relay.example", "address-bad-family", NULL},
		{"tls::7119", "address-bad-family", NULL},
		{"tls:[]:7119", "address-bad-host", NULL},
		{"tls:a b:7119", "address-bad-host", NULL},
		{"tls:relay.example:0", "address-bad-port", NULL},
		{"tls:relay.example:65536", "address-bad-port", NULL},
		{"tls:relay.example:", "address-bad-port", NULL},
	};
	struct address_dial dial;
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(address_parse_dial(good[i].text, &dial, &error), 0);
		assert_string_equal(dial.host, good[i].host);
		assert_string_equal(dial.port, good[i].port);
		assert_string_equal(dial.text, good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(address_parse_dial(bad[i].text, &dial, &error), -EINVAL);
		assert_string_equal(error.code, bad[i].host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unix),
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_beside_loopback),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(whom_to_dial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
