/* A host behind a relay: what the relay may answer, what the client says, and to whom. Memory that ends. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <sys/socket.h>

#include "client/lib/reach.h"
#include "proto/limits.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/client/maker.h"

#define PLACES_MAX	64u	/* of allocations */

static struct ringtail_error error;

struct fixture {
	struct maker relay;		/* what it says */
	struct conn *conn;
	int fd;				/* the relay's */
};

static void open_fixture(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	maker_init(&f->relay);
}

static void say_hello(struct fixture *f, bool reaches)
{
	Ringtail__V1__Feature feature[] = { RINGTAIL__V1__FEATURE__FEATURE_HOSTS, RINGTAIL__V1__FEATURE__FEATURE_REACH };
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	uint8_t boot_id[16] = { 1 };

	hello.version = 1;
	hello.software = "ringtaild test";
	hello.hostname = "relay";
	hello.boot_id = (ProtobufCBinaryData){ sizeof(boot_id), boot_id };
	hello.feature = feature;
	hello.n_feature = reaches ? 2 : 1;
	maker_message(&f->relay, FRAME_SERVER_HELLO, &hello.base);
}

static void say_reached(struct fixture *f)
{
	Ringtail__V1__Reached reached = RINGTAIL__V1__REACHED__INIT;

	maker_message(&f->relay, FRAME_REACHED, &reached.base);
}

/* All that the relay says lies in the socket already. It then ends, unless it `stays`. */
static int reach(struct fixture *f, const char *host, bool stays)
{
	int fds[2];

	memset(&error, 0, sizeof(error));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	f->fd = fds[1];
	assert_int_equal(send(f->fd, f->relay.bytes, f->relay.size, MSG_NOSIGNAL), (ssize_t)f->relay.size);
	if (!stays)
		shutdown(f->fd, SHUT_WR);
	assert_int_equal(conn_open_fd(fds[0], "the relay", &f->conn, &error), 0);
	return reach_host(f->conn, host, &error);
}

static void end(struct fixture *f)
{
	conn_close(f->conn);
	close(f->fd);
	f->conn = NULL;
}

static void close_fixture(struct fixture *f)
{
	end(f);
	maker_fini(&f->relay);
}

/* The next frame that the client sent, unpacked. */
static void *hear(int fd, enum frame_type type, const ProtobufCMessageDescriptor *descriptor)
{
	static uint8_t bytes[FRAME_RAW_BYTES_MAX], raw[FRAME_RAW_BYTES_MAX];
	struct frame_codec *codec = frame_codec_create(1);
	struct frame_header header;
	const uint8_t *body;
	void *message;

	assert_int_equal(recv(fd, bytes, FRAME_HEADER_BYTES, MSG_WAITALL), FRAME_HEADER_BYTES);
	assert_int_equal(frame_parse_header(bytes, FRAME_HEADER_BYTES, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(header.type, type);
	assert_true(!header.body_bytes || recv(fd, bytes + FRAME_HEADER_BYTES, header.body_bytes, MSG_WAITALL) > 0);
	assert_int_equal(frame_open(codec, bytes, &header, raw, &body), FRAME_OK);
	message = protobuf_c_message_unpack(descriptor, NULL, header.raw_bytes, body);
	assert_non_null(message);
	frame_codec_destroy(codec);
	return message;
}

static void a_relay_is_asked_for_the_host(void **state)
{
	Ringtail__V1__ClientHello *hello;
	Ringtail__V1__Reach *asked;
	struct fixture f;
	char byte;

	(void)state;
	open_fixture(&f);
	say_hello(&f, true);
	say_reached(&f);
	assert_int_equal(reach(&f, "web-1", true), 0);
	hello = hear(f.fd, FRAME_CLIENT_HELLO, &ringtail__v1__client_hello__descriptor);
	asked = hear(f.fd, FRAME_REACH, &ringtail__v1__reach__descriptor);
	assert_string_equal(asked->host, "web-1");
	assert_int_equal(recv(f.fd, &byte, 1, MSG_DONTWAIT), -1);	/* nothing more, before the host's client speaks */
	assert_string_equal(conn_name(f.conn), "web-1 through the relay");
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	protobuf_c_message_free_unpacked(&asked->base, NULL);
	close_fixture(&f);
}

static void what_it_refuses_is_said(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f);
	say_hello(&f, true);
	maker_error(&f.relay, "host-away", "the host web-1 is not connected to this relay", "see `list hosts`", 0);
	assert_int_equal(reach(&f, "web-1", true), -EPROTO);
	assert_string_equal(error.code, "host-away");
	assert_string_equal(error.hint, "see `list hosts`");
	assert_string_equal(conn_name(f.conn), "the relay");
	close_fixture(&f);
}

/* One of before there was a Reach: it would end the connection, for a frame that it does not know. */
static void a_relay_that_is_too_old_is_not_asked(void **state)
{
	Ringtail__V1__ClientHello *hello;
	struct fixture f;
	char byte;

	(void)state;
	open_fixture(&f);
	say_hello(&f, false);
	assert_int_equal(reach(&f, "web-1", true), -EOPNOTSUPP);
	assert_string_equal(error.code, "relay-too-old");
	assert_non_null(strstr(error.what, "ringtaild test"));
	hello = hear(f.fd, FRAME_CLIENT_HELLO, &ringtail__v1__client_hello__descriptor);
	assert_int_equal(recv(f.fd, &byte, 1, MSG_DONTWAIT), -1);
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	close_fixture(&f);
}

static void say_too_much(struct maker *relay)
{
	static uint8_t raw[REQUEST_RAW_BYTES_MAX + 1];

	maker_raw(relay, FRAME_REACHED, raw, sizeof(raw));
}

static void say_nonsense(struct maker *relay)
{
	static const uint8_t raw[] = { 0xff, 0xff, 0xff };

	maker_raw(relay, FRAME_ERROR, raw, sizeof(raw));
}

static void say_another(struct maker *relay)
{
	maker_raw(relay, FRAME_HOSTS, NULL, 0);
}

static void say_bye(struct maker *relay)
{
	maker_bye(relay, "shutting down");
}

static void say_noise(struct maker *relay)
{
	memcpy(relay->bytes + relay->size, "this is not a frame of any kind", 31);
	relay->size += 31;
}

static void say_nothing(struct maker *relay)
{
	(void)relay;
}

static void answers_that_make_no_sense(void **state)
{
	static const struct {
		void (*say)(struct maker *relay);
		int err;
	} row[] = {
		{ say_too_much, -EBADMSG }, { say_nonsense, -EBADMSG }, { say_another, -EBADMSG },
		{ say_bye, -ECONNRESET }, { say_noise, -EBADMSG }, { say_nothing, -ECONNRESET },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct fixture f;

		open_fixture(&f);
		say_hello(&f, true);
		row[i].say(&f.relay);
		assert_int_equal(reach(&f, "web-1", false), row[i].err);
		assert_true(*error.code);
		assert_true(*error.what);
		close_fixture(&f);
		/* In the hello's place. */
		open_fixture(&f);
		maker_raw(&f.relay, FRAME_SERVER_HELLO, (const uint8_t *)"\377", 1);
		assert_int_equal(reach(&f, "web-1", false), -EBADMSG);
		close_fixture(&f);
	}
}

/* What the relay says behind Reached is of the host: the next to read gets it. */
static void what_comes_behind_is_the_hosts(void **state)
{
	struct frame frame;
	struct fixture f;

	(void)state;
	open_fixture(&f);
	say_hello(&f, true);
	say_reached(&f);
	maker_hello(&f.relay, 1, 7);
	assert_int_equal(reach(&f, "web-1", false), 0);
	assert_int_equal(conn_wait(f.conn, 1000, &frame, &error), CONN_FRAME);
	assert_int_equal(frame.header.type, FRAME_SERVER_HELLO);
	assert_int_equal(conn_wait(f.conn, 1000, &frame, &error), CONN_END);
	close_fixture(&f);
}

static void memory_that_ends_is_said(void **state)
{
	unsigned places = 0;
	int err = -ENOMEM;

	(void)state;
	for (; err && places < PLACES_MAX; places++) {
		struct fixture f;
		int fds[2];

		open_fixture(&f);
		say_hello(&f, true);
		say_reached(&f);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		f.fd = fds[1];
		assert_int_equal(send(f.fd, f.relay.bytes, f.relay.size, 0), (ssize_t)f.relay.size);
		assert_int_equal(conn_open_fd(fds[0], "the relay", &f.conn, &error), 0);
		memory_fails_after(places);
		err = reach_host(f.conn, "web-1", &error);
		memory_suffices();
		assert_true(!err || *error.code);
		close_fixture(&f);
	}
	assert_int_equal(err, 0);
	assert_in_range(places, 3, PLACES_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_relay_is_asked_for_the_host),
		cmocka_unit_test(what_it_refuses_is_said),
		cmocka_unit_test(a_relay_that_is_too_old_is_not_asked),
		cmocka_unit_test(answers_that_make_no_sense),
		cmocka_unit_test(what_comes_behind_is_the_hosts),
		cmocka_unit_test(memory_that_ends_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
