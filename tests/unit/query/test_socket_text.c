/*
 * socket_text: the text of a struct sockaddr, of each family, cut short at each length, and of bytes that are none;
 * networks of filters, and which addresses are in which.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "query/socket_text.h"

/* From a copy of just that many bytes, so that a sanitizer sees who reads more. */
static void expect_bytes(const void *address, size_t bytes, const char *wanted, size_t wanted_bytes)
{
	char text[SOCKET_TEXT_BYTES];
	void *copy = malloc(bytes ? bytes : 1);

	assert_non_null(copy);
	memcpy(copy, address, bytes);
	memset(text, 'Z', sizeof(text));
	assert_int_equal(socket_text_of(text, copy, bytes), wanted_bytes);
	assert_memory_equal(text, wanted, wanted_bytes + 1);
	free(copy);
}

static void expect(const void *address, size_t bytes, const char *wanted)
{
	expect_bytes(address, bytes, wanted, strlen(wanted));
}

static void ipv4_is_address_and_port(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5432),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void)state;
	expect(&address, sizeof(address), "127.0.0.1:5432");
	expect(&address, 8, "127.0.0.1:5432");
	for (size_t bytes = 2; bytes < 8; bytes++)
		expect(&address, bytes, "inet, cut short");
	memset(&address.sin_port, 0xff, sizeof(address) - 2);
	expect(&address, sizeof(address), "255.255.255.255:65535");
}

static void ipv6_is_in_brackets_with_its_scope(void **state)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(443),
				       .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	(void)state;
	expect(&address, sizeof(address), "[::1]:443");
	for (size_t bytes = 2; bytes < 24; bytes++)
		expect(&address, bytes, "inet6, cut short");
	address.sin6_addr.s6_addr[0] = 0xfe;
	address.sin6_addr.s6_addr[1] = 0x80;
	address.sin6_scope_id = 2;
	expect(&address, sizeof(address), "[fe80::1%2]:443");
	expect(&address, 24, "[fe80::1]:443");
	memset(&address.sin6_port, 0xff, sizeof(address) - 2);
	expect(&address, sizeof(address),
	       "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535");
}

static void unix_is_a_path_or_an_abstract_name(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/x.sock"};

	(void)state;
	expect(&address, sizeof(address), "/run/x.sock");
	expect(&address, 2 + 4, "/run");	/* the length ends it, too */
	expect(&address, 2, "unix");
	strcpy(address.sun_path, "127.0.0.1:80");
	expect(&address, sizeof(address), "./127.0.0.1:80");
	strcpy(address.sun_path, "@file");
	expect(&address, sizeof(address), "./@file");
	memcpy(address.sun_path, "\0name", 5);
	expect(&address, 2 + 5, "@name");
	memcpy(address.sun_path, "\0a\0b\0", 5);
	expect(&address, 2 + 5, "@a@b@");	/* an abstract name has its length, zeros and all */
}

static void the_longest_names_fit_and_do_not_look_cut(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char wanted[2 + sizeof(address.sun_path) + 1] = "./";

	(void)state;
	memset(address.sun_path, 'x', sizeof(address.sun_path));
	memset(wanted + 2, 'x', sizeof(address.sun_path));
	expect(&address, sizeof(address), wanted);
	address.sun_path[0] = '\0';
	wanted[2] = '@';
	expect(&address, sizeof(address), wanted + 2);
}

static void others_are_their_family(void **state)
{
	uint16_t address[64] = {AF_NETLINK};

	(void)state;
	expect(address, 12, "netlink");
	expect(address, 2, "netlink");
	address[0] = AF_UNSPEC;
	expect(address, 16, "unspec");
	address[0] = 0xffff;
	expect(address, sizeof(address), "family 65535");
	expect(address, 1, "cut short");
	expect(address, 0, "cut short");
}

/* What acts on a terminal goes on as it is: readers hide it, as in every name. No zero is in between. */
static void hostile_bytes_stay_inside_their_text(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/\x1b[2J\n\xff\xe2\x80\xae"};
	uint8_t bytes[256];

	(void)state;
	expect(&address, sizeof(address), "/\x1b[2J\n\xff\xe2\x80\xae");
	srand(7);
	for (unsigned round = 0; round < 20000; round++) {
		char text[SOCKET_TEXT_BYTES];
		size_t n = (size_t)rand() % sizeof(bytes), used;

		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)rand();
		if (n > 1) {
			bytes[0] = (uint8_t)(rand() % 20);
			bytes[1] = 0;
		}
		used = socket_text_of(text, bytes, n);
		assert_in_range(used, 1, sizeof(text) - 1);
		assert_int_equal(strlen(text), used);
	}
}

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
		{ "::ffff:0.0.0.0/96", "255.1.1.1:1", true }, { "::ffff:0.0.0.0/96", "[::ffff:1.2.3.4]:1", true },
		{ "::ffff:0.0.0.0/96", "[::1]:1", false },
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
		"::ffff:0.0.0.0/95",
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
		cmocka_unit_test(ipv4_is_address_and_port),
		cmocka_unit_test(ipv6_is_in_brackets_with_its_scope),
		cmocka_unit_test(unix_is_a_path_or_an_abstract_name),
		cmocka_unit_test(the_longest_names_fit_and_do_not_look_cut),
		cmocka_unit_test(others_are_their_family),
		cmocka_unit_test(hostile_bytes_stay_inside_their_text),
		cmocka_unit_test(test_has),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
