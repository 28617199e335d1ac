/* socket_text: addresses of events, networks of filters, and which are in which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "query/socket_text.h"

static void test_has(void **state)
{
	static const struct {
		const char *network, *address;
		bool has;
	} want[] = {
		{ "10.0.0.0/8", "10.255.1.2:80", true }, { "10.0.0.0/8", "11.0.0.0:80", false },
		{ "10.1.2.3", "10.1.2.3:65535", true }, { "10.1.2.3", "10.1.2.2:1", false },
		{ "0.0.0.0/0", "255.1.1.1:1", true }, { "0.0.0.0/0", "[::1]:1", false },
		{ "192.168.128.0/17", "192.168.255.1:1", true },
		{ "192.168.128.0/17", "192.168.127.1:1", false },
		{ "::/0", "[fe80::1%2]:443", true }, { "fe80::/10", "[fe80::1%2]:443", true },
		{ "fe80::/10", "[fec0::1]:443", false }, { "::1", "[::1]:1", true },
		{ "::1", "127.0.0.1:1", false }, { "10.0.0.0/8", "[::ffff:10.1.1.1]:1", true },
		{ "::ffff:10.0.0.0/104", "10.1.1.1:1", true }, { "::ffff:10.0.0.0/104", "11.1.1.1:1", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct socket_network network;
		struct socket_host host;
		uint16_t port;

		if (!socket_network_parse(want[i].network, &network) ||
		    !socket_text_parse(want[i].address, strlen(want[i].address), &host, &port) ||
		    socket_network_has(&network, &host) != want[i].has)
			fail_msg("%s and %s", want[i].network, want[i].address);
	}
}

static void test_refused(void **state)
{
	static const char *const networks[] = {
		"", "10", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/-1", "::1/129", "x", "::ffff:10.0.0.0/8",
		"10.0.0.0/8 ", "[::1]", "/run/x", "10.0.0.256",
	};
	static const char *const addresses[] = {
		"", ":", "1:1", "/run/x.sock", "@name", "unix", "inet, cut short", "127.0.0.1", "127.0.0.1:",
		"127.0.0.1:65536", "127.0.0.1:x", "[::1]", "[::1:1", "::1:1", "[127.0.0.1]:1:", "[", "[]:1",
	};
	struct socket_network network;
	struct socket_host host;
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++)
		if (socket_network_parse(networks[i], &network))
			fail_msg("%s is no network", networks[i]);
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		if (socket_text_parse(addresses[i], strlen(addresses[i]), &host, &port))
			fail_msg("%s is no address", addresses[i]);
}

static void test_port(void **state)
{
	struct socket_host host;
	uint16_t port;

	(void)state;
	assert_true(socket_text_parse("127.0.0.1:4431", 13, &host, &port));	/* not terminated */
	assert_int_equal(port, 443);
	assert_true(socket_text_parse("[::1]:0", 7, &host, &port));
	assert_int_equal(port, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_has),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
