/* test_conn: whom --insecure reaches, and what goes there. */
#include "tests/unit/client/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "client/lib/conn.h"

static int listener;
static unsigned port;

/* A daemon's port at every address of this host. */
static int setup(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
	socklen_t bytes = sizeof(any);

	(void)state;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&any, bytes), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &bytes), 0);
	port = ntohs(any.sin_port);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ringtail_set_trust(NULL);
	return close(listener);
}

static int open_at(const char *host, struct conn **conn, struct ringtail_error *error)
{
	struct address address;
	char text[64];

	snprintf(text, sizeof(text), "tcp:%s:%u", host, port);
	assert_int_equal(address_parse(text, &address, error), 0);
	return conn_open(&address, -1, conn, error);
}

/* Any address of 127.0.0.0/8 is this host's alone. */
static void insecure_is_for_this_host(void **state)
{
	static const char *const host[] = { "127.0.0.1", "127.9.8.7", "localhost" };
	struct ringtail_error error;
	struct conn *conn;
	int fd;

	(void)state;
	ringtail_set_trust(&(struct ringtail_trust){ .insecure = true });
	for (size_t i = 0; i < sizeof(host) / sizeof(*host); i++) {
		assert_int_equal(open_at(host[i], &conn, &error), 0);
		fd = accept(listener, NULL, NULL);
		assert_true(fd >= 0);
		close(fd);
		conn_close(conn);
	}
	/* It leads to this host, too, and is none of loopback's. */
	assert_int_equal(open_at("0.0.0.0", &conn, &error), -EACCES);
	assert_string_equal(error.code, "insecure-remote");
	assert_int_equal(accept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
}

/* Where others could read it; the file is not even looked for. */
static void a_token_is_not_sent_in_clear(void **state)
{
	struct ringtail_error error;
	struct conn *conn;
	char byte;
	int fd;

	(void)state;
	ringtail_set_trust(&(struct ringtail_trust){ .insecure = true, .token_file = "/nowhere/token" });
	assert_int_equal(open_at("127.0.0.1", &conn, &error), -EACCES);
	assert_string_equal(error.code, "token-in-clear");
	fd = accept(listener, NULL, NULL);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(insecure_is_for_this_host, setup, teardown),
		cmocka_unit_test_setup_teardown(a_token_is_not_sent_in_clear, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
