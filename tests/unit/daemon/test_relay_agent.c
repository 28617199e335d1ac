/* What an agent sends, over a socket: what is refused, what begins anew, and a frame that comes in small pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/relay/agent.h"
#include "daemon/relay/host.h"
#include "proto/cursor.h"

#define TURNS		20u
#define PIECE_BYTES	4096u

static struct frame_codec *codec;
static uint8_t raw[FRAME_RAW_BYTES_MAX];

struct fixture {
	struct event_base *base;
	struct relay_desk desk;
	struct relay_agent_host host;
	struct relay_agent *agent;	/* NULL: it is closed */
	struct relay_host *of;
	int fd;				/* the agent's end */
	unsigned forwarded, openings;
	uint64_t rest_bytes;
	unsigned asked;			/* for room */
	bool has_way;
	struct relay_opening *last;
};

static bool on_forward(void *context, struct relay_agent *agent, struct relay_opening *opening,
		       struct frame_ref *frame, struct cursor *upto)
{
	struct fixture *fixture = context;

	(void)agent;
	fixture->forwarded++;
	fixture->openings += opening != fixture->last;
	relay_opening_get(opening);
	relay_opening_put(fixture->last);
	fixture->last = opening;
	frame_ref_put(frame);
	free(upto);
	return true;
}

static bool on_is_full(void *context, const struct relay_agent *agent)
{
	(void)context, (void)agent;
	return false;
}

static bool on_make_way(void *context, struct relay_agent *agent)
{
	struct fixture *fixture = context;

	assert_ptr_equal(agent, fixture->agent);
	fixture->asked++;
	return fixture->has_way;
}

static void on_closed(void *context, struct relay_agent *agent)
{
	struct fixture *fixture = context;

	(void)agent;
	fixture->agent = NULL;
}

/* Its host is known, and it was sent Subscribe. */
static void open_fixture(struct fixture *fixture)
{
	struct relay_agent_config config = {.host = &fixture->host, .desk = &fixture->desk,
					    .hello_timeout_ns = 60000000000ull};
	int fds[2];

	memset(fixture, 0, sizeof(*fixture));
	fixture->host = (struct relay_agent_host){.context = fixture, .forward = on_forward,
						  .is_full = on_is_full, .make_way = on_make_way,
						  .closed = on_closed};
	fixture->desk = (struct relay_desk){.codec = codec, .input = malloc(RELAY_INPUT_BYTES), .raw = raw,
					    .rest_bytes = &fixture->rest_bytes};
	fixture->base = config.base = event_base_new();
	fixture->of = relay_host_create("web-1");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	fixture->fd = fds[1];
	fixture->agent = relay_agent_create(&config, transport_plain_create(fds[0]), "10.0.0.1:7");
	assert_non_null(fixture->agent);
	fixture->agent->of = fixture->of;
	fixture->agent->state = AGENT_STREAMING;
}

static void close_fixture(struct fixture *fixture)
{
	if (fixture->agent)
		relay_agent_destroy(fixture->agent);
	assert_int_equal(fixture->rest_bytes, 0);
	relay_opening_put(fixture->last);
	relay_host_destroy(fixture->of);
	free(fixture->desk.input);
	close(fixture->fd);
	event_base_free(fixture->base);
}

static void turn(struct fixture *fixture)
{
	for (unsigned i = 0; i < TURNS; i++)
		event_base_loop(fixture->base, EVLOOP_NONBLOCK);
}

static void send_frame(struct fixture *fixture, struct frame_ref *frame)
{
	assert_non_null(frame);
	assert_int_equal(send(fixture->fd, frame->data, frame->bytes, MSG_NOSIGNAL), (ssize_t)frame->bytes);
	frame_ref_put(frame);
	turn(fixture);
}

static void send_message(struct fixture *fixture, enum frame_type type, const ProtobufCMessage *message)
{
	send_frame(fixture, frame_ref_pack(codec, type, message));
}

/* ---- What an agent sends ----------------------------------------------------------------------- */

static void send_hello(struct fixture *fixture, uint64_t epoch, uint64_t realtime_ns)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	uint8_t boot_id[16] = {1};

	hello.boot_id = (ProtobufCBinaryData){sizeof(boot_id), boot_id};
	hello.epoch = epoch;
	hello.realtime_ns = realtime_ns;
	send_message(fixture, FRAME_SERVER_HELLO, &hello.base);
}

/* Of one probe; NULL: of none. */
static void send_catalog_of(struct fixture *fixture, const char *name)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT, *list = &probe;

	probe.name = (char *)name;
	catalog.probe = &list;
	catalog.n_probe = name != NULL;
	send_message(fixture, FRAME_CATALOG, &catalog.base);
}

static void send_catalog(struct fixture *fixture)
{
	send_catalog_of(fixture, NULL);
}

struct list {
	size_t n;
	uint32_t cpu[CURSOR_POSITIONS_MAX + 1];
};

static struct cursor_message *positions(const struct list *list, uint64_t seq)
{
	struct cursor *cursor = cursor_create((uint32_t)list->n);
	struct cursor_message *message;

	for (size_t i = 0; i < list->n; i++)
		cursor_append(cursor, list->cpu[i], seq);
	message = cursor_message_create(cursor);
	free(cursor);
	return message;
}

static void send_subscribed(struct fixture *fixture, const struct list *start, uint64_t seq,
			    const struct list *since)
{
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor_message *from = positions(start, seq), *had = since ? positions(since, seq) : NULL;

	subscribed.start = &from->cursor;
	subscribed.since = had ? &had->cursor : NULL;
	send_message(fixture, FRAME_SUBSCRIBED, &subscribed.base);
	free(from);
	free(had);
}

static void send_watermark(struct fixture *fixture, const struct list *list)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	struct cursor_message *message = positions(list, 7);

	watermark.time_ns = 5;
	watermark.position = message->list;
	watermark.n_position = list->n;
	send_message(fixture, FRAME_WATERMARK, &watermark.base);
	free(message);
}

static void send_gap(struct fixture *fixture, uint32_t cpu)
{
	send_frame(fixture, frame_ref_gap(codec, cpu, 5, 5, LOSS_STAGE_SPOOL,
					  LOSS_REASON_UNKNOWN, 0));
}

static const struct list two = {2, {0, CURSOR_POSITIONS_MAX - 1}};

static void begin_stream(struct fixture *fixture)
{
	send_hello(fixture, 1, 1);
	send_catalog(fixture);
	send_subscribed(fixture, &two, 3, NULL);
}

/* An Error frame, which says which. */
static void expect_refused(struct fixture *fixture, const char *cpu)
{
	uint8_t bytes[4096];
	ssize_t n = recv(fixture->fd, bytes, sizeof(bytes), 0);
	struct frame_header header;
	Ringtail__V1__Error *error;
	const uint8_t *body;

	assert_true(n > 0);
	assert_int_equal(frame_parse_header(bytes, (size_t)n, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(header.type, FRAME_ERROR);
	assert_int_equal(frame_open(codec, bytes, &header, raw, &body), FRAME_OK);
	error = ringtail__v1__error__unpack(NULL, header.raw_bytes, body);
	assert_non_null(error);
	assert_string_equal(error->code, "cursor-invalid");
	assert_non_null(strstr(error->what, cpu));
	ringtail__v1__error__free_unpacked(error, NULL);
	assert_true(!fixture->agent || fixture->agent->state == AGENT_CLOSING);
}

/* ---- Tests ------------------------------------------------------------------------------------ */

static struct list all_and(uint32_t cpu)
{
	struct list list = {.n = CURSOR_POSITIONS_MAX + 1};

	for (uint32_t i = 0; i < CURSOR_POSITIONS_MAX; i++)
		list.cpu[i] = i;
	list.cpu[CURSOR_POSITIONS_MAX] = cpu;
	return list;
}

static void a_cpu_that_cannot_be_is_refused(void **state)
{
	const struct list wrong[] = {{1, {CURSOR_POSITIONS_MAX}}, {2, {3, UINT32_MAX}}, {3, {3, 4, 3}},
				     all_and(3)};
	static const char *const named[] = {"CPU 1024 ", "CPU 4294967295 ", "CPU 3 ", "CPU 3 "};
	struct fixture fixture;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		open_fixture(&fixture);
		begin_stream(&fixture);
		send_watermark(&fixture, &wrong[i]);
		expect_refused(&fixture, named[i]);
		assert_int_equal(fixture.forwarded, 0);
		close_fixture(&fixture);

		open_fixture(&fixture);
		send_hello(&fixture, 1, 1);
		send_subscribed(&fixture, &wrong[i], 3, NULL);
		expect_refused(&fixture, named[i]);
		close_fixture(&fixture);

		open_fixture(&fixture);
		send_hello(&fixture, 1, 1);
		send_subscribed(&fixture, &two, 3, &wrong[i]);
		expect_refused(&fixture, named[i]);
		close_fixture(&fixture);
	}
	open_fixture(&fixture);
	begin_stream(&fixture);
	send_gap(&fixture, CURSOR_POSITIONS_MAX);
	expect_refused(&fixture, "CPU 1024 ");
	assert_int_equal(fixture.forwarded, 0);
	close_fixture(&fixture);
}

static void the_last_cpu_that_can_be_is_taken(void **state)
{
	struct list all = all_and(0);
	struct fixture fixture;

	(void)state;
	all.n--;
	open_fixture(&fixture);
	begin_stream(&fixture);
	send_subscribed(&fixture, &all, 3, &all);	/* `begin_stream` is not over: no event has come */
	send_gap(&fixture, CURSOR_POSITIONS_MAX - 1);
	send_watermark(&fixture, &all);
	assert_int_equal(fixture.forwarded, 2);
	assert_int_equal(fixture.agent->state, AGENT_STREAMING);
	close_fixture(&fixture);
}

static void what_begins_as_before_goes_on(void **state)
{
	static const struct list one = {1, {0}};
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < 10; i++) {
		send_hello(&fixture, 1, i);
		send_catalog(&fixture);
		send_subscribed(&fixture, &two, 3, NULL);
		send_gap(&fixture, 0);
	}
	assert_int_equal(fixture.forwarded, 10);
	assert_int_equal(fixture.openings, 1);
	/* Elsewhere; of other CPUs; of another run. */
	send_hello(&fixture, 1, 1);
	send_subscribed(&fixture, &two, 4, NULL);
	send_gap(&fixture, 0);
	assert_int_equal(fixture.openings, 2);
	send_hello(&fixture, 1, 1);
	send_subscribed(&fixture, &one, 4, NULL);
	send_gap(&fixture, 0);
	assert_int_equal(fixture.openings, 3);
	send_hello(&fixture, 2, 1);
	send_subscribed(&fixture, &one, 4, NULL);
	send_gap(&fixture, 0);
	assert_int_equal(fixture.openings, 4);
	assert_int_equal(fixture.agent->state, AGENT_STREAMING);
	close_fixture(&fixture);
}

/* A hello that does not fit into any socket: what does not compress well. */
static struct frame_ref *large_hello(void)
{
	static char text[900000];
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	uint8_t boot_id[16] = {1};
	uint32_t seed = 1;

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		seed = seed * 1664525 + 1013904223;
		text[i] = (char)(' ' + (seed >> 24) % 90);
	}
	hello.boot_id = (ProtobufCBinaryData){sizeof(boot_id), boot_id};
	hello.epoch = 9;
	hello.kernel = text;
	return frame_ref_pack(codec, FRAME_SERVER_HELLO, &hello.base);
}

static void what_waits_for_its_rest_is_not_copied_with_each_piece(void **state)
{
	struct frame_ref *frame = large_hello();
	unsigned pieces = 0, moves = 0;
	const uint8_t *at = NULL;
	struct fixture fixture;

	(void)state;
	assert_non_null(frame);
	open_fixture(&fixture);
	for (size_t sent = 0, n; sent < frame->bytes; sent += n) {
		n = frame->bytes - sent < PIECE_BYTES ? frame->bytes - sent : PIECE_BYTES;
		assert_int_equal(send(fixture.fd, frame->data + sent, n, MSG_NOSIGNAL), (ssize_t)n);
		event_base_loop(fixture.base, EVLOOP_NONBLOCK);
		assert_non_null(fixture.agent);
		pieces++;
		moves += fixture.agent->input != at;
		at = fixture.agent->input;
	}
	turn(&fixture);
	assert_true(pieces > 100);
	assert_in_range(moves, 2, 12);
	assert_non_null(fixture.agent->next);
	assert_int_equal(fixture.agent->next->hello->bytes, frame->bytes);
	assert_memory_equal(fixture.agent->next->hello->data, frame->data, frame->bytes);
	/* Nothing is kept of it, and what comes next is read. */
	assert_null(fixture.agent->input);
	send_catalog(&fixture);
	send_subscribed(&fixture, &two, 3, NULL);
	send_gap(&fixture, 0);
	assert_int_equal(fixture.forwarded, 1);
	frame_ref_put(frame);
	close_fixture(&fixture);
}

static void what_begins_otherwise_begins_anew(void **state)
{
	static const struct list one = {1, {0}};
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	send_hello(&fixture, 1, 1);
	send_catalog(&fixture);
	send_subscribed(&fixture, &one, 3, NULL);
	send_gap(&fixture, 0);
	assert_int_equal(fixture.openings, 1);
	/* A CPU more; another catalog. */
	send_hello(&fixture, 1, 1);
	send_catalog(&fixture);
	send_subscribed(&fixture, &two, 3, NULL);
	send_gap(&fixture, 0);
	assert_int_equal(fixture.openings, 2);
	send_hello(&fixture, 1, 1);
	send_catalog_of(&fixture, "entry");
	send_subscribed(&fixture, &two, 3, NULL);
	send_gap(&fixture, 0);
	assert_int_equal(fixture.openings, 3);
	assert_int_equal(fixture.forwarded, 3);
	close_fixture(&fixture);
}

static bool is_refused(const struct fixture *fixture)
{
	return !fixture->agent || fixture->agent->state == AGENT_CLOSING;
}

/* The header alone says that it is too large for one that nobody knows yet. */
static void before_the_hello_only_small_frames_are_read(void **state)
{
	struct frame_ref *frame = large_hello();
	struct fixture fixture;

	(void)state;
	assert_non_null(frame);
	open_fixture(&fixture);
	fixture.agent->of = NULL;
	fixture.agent->state = AGENT_NEW;
	assert_int_equal(send(fixture.fd, frame->data, PIECE_BYTES, MSG_NOSIGNAL), PIECE_BYTES);
	turn(&fixture);
	assert_true(is_refused(&fixture));
	/* Nothing that comes behind it is kept. */
	assert_int_equal(send(fixture.fd, frame->data, PIECE_BYTES, MSG_NOSIGNAL), PIECE_BYTES);
	turn(&fixture);
	assert_non_null(fixture.agent);
	assert_null(fixture.agent->input);
	frame_ref_put(frame);
	close_fixture(&fixture);
}

static void a_range_that_ends_before_it_begins_is_refused(void **state)
{
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	begin_stream(&fixture);
	send_frame(&fixture, frame_ref_gap(codec, 0, 9, 5, LOSS_STAGE_SPOOL,
					   LOSS_REASON_UNKNOWN, 0));
	assert_true(is_refused(&fixture));
	assert_int_equal(fixture.forwarded, 0);
	close_fixture(&fixture);
}

/* How many acknowledgements have come; *seq: what the last one says of CPU 0. */
static unsigned read_acks(struct fixture *fixture, uint64_t *seq)
{
	uint8_t bytes[4096];
	ssize_t n = recv(fixture->fd, bytes, sizeof(bytes), 0);
	struct frame_header header;
	unsigned acks = 0;

	for (size_t at = 0; n > 0 && at < (size_t)n; at += FRAME_HEADER_BYTES + header.body_bytes) {
		Ringtail__V1__Ack *ack;
		const uint8_t *body;

		assert_int_equal(frame_parse_header(bytes + at, (size_t)n - at, sizeof(raw), &header), FRAME_OK);
		assert_int_equal(header.type, FRAME_ACK);
		assert_int_equal(frame_open(codec, bytes + at, &header, raw, &body), FRAME_OK);
		ack = ringtail__v1__ack__unpack(NULL, header.raw_bytes, body);
		assert_non_null(ack);
		assert_int_equal(ack->upto->n_position, 1);
		*seq = ack->upto->position[0]->seq;
		ringtail__v1__ack__free_unpacked(ack, NULL);
		acks++;
	}
	return acks;
}

static void an_acknowledgement_waits_for_its_turn(void **state)
{
	struct fixture fixture;
	uint64_t seq = 0;

	(void)state;
	open_fixture(&fixture);
	fixture.of->stored = cursor_create(1);
	cursor_append(fixture.of->stored, 0, 10);
	/* It has not said what it streams. */
	fixture.agent->state = AGENT_GREETED;
	relay_agent_acknowledge(fixture.agent);
	turn(&fixture);
	assert_int_equal(read_acks(&fixture, &seq), 0);
	/* More is stored while one is on its way. */
	fixture.agent->state = AGENT_STREAMING;
	relay_agent_acknowledge(fixture.agent);
	fixture.of->stored->position[0].seq = 20;
	relay_agent_acknowledge(fixture.agent);
	turn(&fixture);
	assert_int_equal(read_acks(&fixture, &seq), 2);
	assert_int_equal(seq, 20);
	close_fixture(&fixture);
}

static int make_codec(void **state)
{
	(void)state;
	codec = frame_codec_create(1);
	return codec ? 0 : -1;
}

static int free_codec(void **state)
{
	(void)state;
	frame_codec_destroy(codec);
	return 0;
}

/* Of all agents together: one goes, and its owner says whether it is this one. */
static void what_waits_for_its_rest_is_bounded(void **state)
{
	struct frame_ref *hello = large_hello();

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		struct fixture fixture;
		size_t sent = 0;

		open_fixture(&fixture);
		fixture.has_way = way;
		while (sent < hello->bytes - 1 && fixture.agent) {
			size_t n = hello->bytes - 1 - sent < PIECE_BYTES ? hello->bytes - 1 - sent : PIECE_BYTES;

			/* The others have all that there may be. */
			fixture.rest_bytes += sent ? 0 : RELAY_REST_BYTES;
			sent += (size_t)send(fixture.fd, hello->data + sent, n, MSG_NOSIGNAL);
			turn(&fixture);
		}
		assert_int_equal(fixture.agent != NULL, way);
		assert_true(way ? fixture.asked > 1 : fixture.asked == 1);
		assert_true(fixture.rest_bytes >= RELAY_REST_BYTES + (way ? hello->bytes - 1 : 0));
		fixture.rest_bytes -= RELAY_REST_BYTES;
		close_fixture(&fixture);
	}
	frame_ref_put(hello);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cpu_that_cannot_be_is_refused),
		cmocka_unit_test(the_last_cpu_that_can_be_is_taken),
		cmocka_unit_test(what_begins_as_before_goes_on),
		cmocka_unit_test(what_waits_for_its_rest_is_not_copied_with_each_piece),
		cmocka_unit_test(what_waits_for_its_rest_is_bounded),
		cmocka_unit_test(what_begins_otherwise_begins_anew),
		cmocka_unit_test(before_the_hello_only_small_frames_are_read),
		cmocka_unit_test(a_range_that_ends_before_it_begins_is_refused),
		cmocka_unit_test(an_acknowledgement_waits_for_its_turn),
	};

	return cmocka_run_group_tests(tests, make_codec, free_codec);
}
