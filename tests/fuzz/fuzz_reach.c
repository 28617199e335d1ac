/*
 * fuzz_reach: what a relay answers a client that asks it for a host, whatever it is. The client has reached the host,
 * or has an error with a code, and nothing of it is hidden (query/visible.h); what comes behind is left to be read.
 *
 * The first byte is odd: a good hello comes first. The rest is frames: a byte for the type, two for the body's length,
 * little-endian, and the body; they arrive with right headers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/reach.h"
#include "query/visible.h"
#include "tests/unit/client/maker.h"

#define BODY_BYTES_MAX	4096u
#define BYTES_MAX	(64u << 10)	/* that a socket takes before anybody reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void say_hello(struct maker *relay)
{
	Ringtail__V1__Feature feature[] = { RINGTAIL__V1__FEATURE__FEATURE_REACH };
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	uint8_t boot_id[16] = { 1 };

	hello.version = 1;
	hello.software = "ringtaild";
	hello.boot_id = (ProtobufCBinaryData){ sizeof(boot_id), boot_id };
	hello.feature = feature;
	hello.n_feature = 1;
	maker_message(relay, FRAME_SERVER_HELLO, &hello.base);
}

static void say_all(struct maker *relay, const uint8_t *data, size_t size)
{
	while (size >= 3 && relay->size < BYTES_MAX) {
		size_t n = data[1] | (size_t)data[2] << 8;

		n = n < size - 3 ? n : size - 3;
		n = n < BODY_BYTES_MAX ? n : BODY_BYTES_MAX;
		maker_raw(relay, data[0], data + 3, n);
		data += 3 + n;
		size -= 3 + n;
	}
}

static void check(const struct ringtail_error *error, int err)
{
	if (err && (!*error->code || !*error->what || !visible_is_all(error->what) || !visible_is_all(error->hint)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ringtail_error error = { 0 };
	struct maker relay;
	struct conn *conn;
	int fds[2];

	if (!size)
		return 0;
	maker_init(&relay);
	if (data[0] & 1)
		say_hello(&relay);
	say_all(&relay, data + 1, size - 1);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0 ||
	    send(fds[1], relay.bytes, relay.size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)relay.size ||
	    shutdown(fds[1], SHUT_WR) != 0 || conn_open_fd(fds[0], "fuzzer", &conn, &error) != 0)
		abort();
	check(&error, reach_host(conn, "web-1", &error));
	conn_close(conn);
	close(fds[1]);
	maker_fini(&relay);
	return 0;
}
