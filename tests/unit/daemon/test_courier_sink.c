/*
 * A relay's courier, over a socket: what it is sent of each host, what of that counts as stored, and what is kept for
 * the next one. A courier that speaks wrongly, a second one, and memory that runs out cost a connection, and no frame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <event2/bufferevent.h>
#include <sys/socket.h>

#include "daemon/base/limits.h"
#include "daemon/relay/courier_sink.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/peer.h"

#define HOSTS	2u
#define ITEMS	4u		/* of each host */
#define CPU	3u
#define ALLOCATIONS_MAX 200u

struct shipment {
	struct relay_item item;
	unsigned confirmed, order;
	int err;
};

struct fixture {
	struct event_base *base;
	struct frame_codec *codec;
	struct gate *gate;
	struct relay_sink *sink;
	struct relay_opening *opening[HOSTS];
	struct cursor *upto;
	struct shipment shipment[HOSTS][ITEMS];
};

static const char *const host_name[HOSTS] = {"web-1", "web-2"};
static unsigned confirmations;

/* Who the courier is, as the kernel would say; -1: as it does. */
static int user = -1;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	int err = __real_getsockopt(fd, level, name, value, bytes);

	if (!err && name == SO_PEERCRED && user >= 0)
		((struct ucred *)value)->uid = (uid_t)user;
	return err;
}

static uint64_t clock_ahead_ns;

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + clock_ahead_ns;
}

static uint64_t patience_ns;		/* with the courier, as it is now; 0: without end */

int __real_bufferevent_set_timeouts(struct bufferevent *stream, const struct timeval *read,
				       const struct timeval *write);
int __wrap_bufferevent_set_timeouts(struct bufferevent *stream, const struct timeval *read,
				       const struct timeval *write);
int __wrap_bufferevent_set_timeouts(struct bufferevent *stream, const struct timeval *read,
				       const struct timeval *write)
{
	assert_null(write);
	patience_ns = read ? (uint64_t)read->tv_sec * NS_PER_S + (uint64_t)read->tv_usec * 1000 : 0;
	return __real_bufferevent_set_timeouts(stream, read, write);
}

static void on_confirmed(struct relay_item *item, int err)
{
	struct shipment *shipment = (struct shipment *)item;

	assert_int_equal(shipment->confirmed, 0);
	shipment->confirmed++;
	shipment->order = ++confirmations;
	shipment->err = err;
	relay_opening_put(item->opening);
	frame_ref_put(item->frame);
}

static struct relay_opening *make_opening(const struct fixture *fixture, uint64_t epoch)
{
	struct relay_opening *opening = calloc(1, sizeof(*opening));
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;

	assert_non_null(opening);
	opening->refs = 1;
	opening->run = (struct run){.boot_id = {9}, .epoch = epoch};
	hello.epoch = epoch;
	opening->hello = frame_ref_pack(fixture->codec, FRAME_SERVER_HELLO, &hello.base);
	opening->catalog = frame_ref_pack(fixture->codec, FRAME_CATALOG, &catalog.base);
	opening->subscribed = frame_ref_pack(fixture->codec, FRAME_SUBSCRIBED, &subscribed.base);
	return opening;
}

static void open_fixture(struct fixture *fixture)
{
	struct courier_sink_config config = {.hello_timeout_ns = 60 * NS_PER_S};
	struct config options = {.viewer = {.word = {(char *)"user:12345"}, .count = 1}};
	struct error error = {0};

	*fixture = (struct fixture){.base = event_base_new(), .codec = frame_codec_create(1),
				    .upto = cursor_create(1)};
	if (gate_create(&options, &fixture->gate, &error) != 0)
		fail_msg("%s", error.what);
	config.base = fixture->base;
	config.gate = fixture->gate;
	config.codec = fixture->codec;
	assert_int_equal(courier_sink_create(&config, &fixture->sink, &error), 0);
	for (unsigned i = 0; i < HOSTS; i++)
		fixture->opening[i] = make_opening(fixture, 5 + i);
	confirmations = 0;
}

/* Whatever has come from the relay is confirmed once, at the latest now. */
static void close_fixture(struct fixture *fixture)
{
	relay_sink_destroy(fixture->sink);
	for (unsigned i = 0; i < HOSTS; i++)
		relay_opening_put(fixture->opening[i]);
	for (unsigned i = 0; i < HOSTS * ITEMS; i++) {
		const struct shipment *shipment = &fixture->shipment[i / ITEMS][i % ITEMS];

		assert_true(shipment->confirmed == (shipment->item.host != NULL));
	}
	gate_destroy(fixture->gate);
	frame_codec_destroy(fixture->codec);
	event_base_free(fixture->base);
	free(fixture->upto);
}

/* The i-th frame of a host: a gap of ten attempts. */
static void forward(struct fixture *fixture, unsigned host, unsigned i)
{
	struct shipment *shipment = &fixture->shipment[host][i];

	shipment->item = (struct relay_item){
		.host = host_name[host],
		.opening = relay_opening_get(fixture->opening[host]),
		.frame = frame_ref_gap(fixture->codec, CPU, 100 + 10 * i, 110 + 10 * i, 0, 1, 0),
		.upto = fixture->upto,
		.confirmed = on_confirmed,
	};
	assert_non_null(shipment->item.frame);
	relay_sink_forward(fixture->sink, &shipment->item);
}

static struct peer *connect_courier(struct fixture *fixture)
{
	int fd;
	struct peer *peer = peer_pair(fixture->base, &fd);

	courier_sink_accept(fixture->sink, fd, NULL, "unix");
	return peer;
}

static void greet(struct peer *peer, uint64_t window_bytes)
{
	Ringtail__V1__CourierHello hello = RINGTAIL__V1__COURIER_HELLO__INIT;

	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.window_bytes = window_bytes;
	peer_send(peer, FRAME_COURIER_HELLO, &hello);
}

static struct peer *come(struct fixture *fixture)
{
	struct peer *peer = connect_courier(fixture);

	greet(peer, RELAY_HELD_BYTES);
	return peer;
}

static void deliver(struct peer *peer, uint32_t lane, uint64_t frames, bool refused)
{
	Ringtail__V1__DeliveredLane told = RINGTAIL__V1__DELIVERED_LANE__INIT, *lanes[] = {&told};
	Ringtail__V1__Delivered message = RINGTAIL__V1__DELIVERED__INIT;

	told.lane = lane;
	told.frames = frames;
	told.refused = refused;
	message.lane = lanes;
	message.n_lane = 1;
	peer_send(peer, FRAME_DELIVERED, &message);
}

/* Of that host; and, in this test, of all. */
static void assert_stat(struct fixture *fixture, const char *host, uint64_t consigned, uint64_t confirmed,
			uint64_t rejected, uint64_t returned, uint64_t in_flight)
{
	struct stat_sink stat;

	relay_sink_stat(fixture->sink, host, &stat);
	assert_int_equal(stat.consigned, consigned);
	assert_int_equal(stat.confirmed, confirmed);
	assert_int_equal(stat.rejected, rejected);
	assert_int_equal(stat.returned, returned);
	assert_int_equal(stat.in_flight, in_flight);
	assert_int_equal(stat.residual, 0);
}

/* What comes next is that: which lane has it? With `host`, a stream of it begins. */
static uint32_t expect_consigned(struct peer *peer, const char *host, unsigned i)
{
	Ringtail__V1__Consign *consign = peer_expect(peer, FRAME_CONSIGN);
	Ringtail__V1__ServerHello *hello;
	uint32_t lane = consign->lane;

	if (host) {
		assert_string_equal(consign->host, host);
		assert_int_equal(consign->boot_id.data[0], 9);
		hello = peer_expect(peer, FRAME_SERVER_HELLO);
		assert_int_equal(consign->epoch, hello->epoch);
		peer_free(hello);
		peer_free(peer_expect(peer, FRAME_CATALOG));
		peer_free(peer_expect(peer, FRAME_SUBSCRIBED));
		peer_free(consign);
		consign = peer_expect(peer, FRAME_CONSIGN);
	}
	assert_string_equal(consign->host, "");
	assert_int_equal(consign->lane, lane);
	assert_int_equal(consign->cpu, CPU);
	assert_int_equal(consign->first_seq, 100 + 10 * i);
	assert_int_equal(consign->end_seq, 110 + 10 * i);
	peer_free(consign);
	peer_free(peer_expect(peer, FRAME_GAP));
	return lane;
}

static void each_host_has_its_turn_and_its_order(void **state)
{
	struct relay_opening *before;
	struct fixture fixture;
	struct peer *peer;
	uint32_t lane[HOSTS];

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < ITEMS; i++)
		forward(&fixture, 0, i);
	forward(&fixture, 1, 0);
	peer_run(fixture.base);
	assert_int_equal(confirmations, 0);	/* nobody has them */
	peer = come(&fixture);
	lane[0] = expect_consigned(peer, host_name[0], 0);
	lane[1] = expect_consigned(peer, host_name[1], 0);
	for (unsigned i = 1; i < ITEMS; i++)
		assert_int_equal(expect_consigned(peer, NULL, i), lane[0]);
	assert_int_not_equal(lane[0], lane[1]);

	/* One host's frames are stored, and say nothing of the other's. */
	deliver(peer, lane[0], 2, false);
	PEER_AWAIT(fixture.base, confirmations == 2);
	assert_int_equal(fixture.shipment[0][0].order, 1);
	assert_int_equal(fixture.shipment[0][1].order, 2);
	assert_int_equal(fixture.shipment[0][1].err, 0);
	deliver(peer, lane[1], 1, false);
	PEER_AWAIT(fixture.base, confirmations == 3);
	assert_int_equal(fixture.shipment[1][0].confirmed, 1);

	/* Another opening is written before what belongs to it, and nobody has the one before any more. */
	before = fixture.opening[1];
	fixture.opening[1] = make_opening(&fixture, 77);
	forward(&fixture, 1, 1);
	assert_int_equal(expect_consigned(peer, host_name[1], 1), lane[1]);
	assert_int_equal(before->refs, 1);
	relay_opening_put(before);
	peer_close(peer);
	close_fixture(&fixture);
	assert_int_equal(fixture.shipment[0][3].err, -ECANCELED);
}

static void the_next_courier_gets_what_was_not_delivered(void **state)
{
	struct fixture fixture;
	struct peer *peer;
	uint32_t lane;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < 3; i++)
		forward(&fixture, 0, i);
	assert_stat(&fixture, host_name[0], 0, 0, 0, 0, 0);
	assert_false(fixture.sink->ops->has_courier(fixture.sink));
	peer = come(&fixture);
	lane = expect_consigned(peer, host_name[0], 0);
	expect_consigned(peer, NULL, 1);
	assert_true(fixture.sink->ops->has_courier(fixture.sink));
	deliver(peer, lane, 1, false);
	PEER_AWAIT(fixture.base, confirmations == 1);
	assert_stat(&fixture, host_name[0], 3, 1, 0, 0, 2);
	peer_close(peer);
	peer_run(fixture.base);
	assert_stat(&fixture, host_name[0], 3, 1, 0, 2, 0);
	assert_false(fixture.sink->ops->has_courier(fixture.sink));
	peer = come(&fixture);
	lane = expect_consigned(peer, host_name[0], 1);
	expect_consigned(peer, NULL, 2);
	deliver(peer, lane, 2, false);
	PEER_AWAIT(fixture.base, confirmations == 3);
	assert_stat(&fixture, host_name[0], 5, 3, 0, 2, 0);
	assert_stat(&fixture, host_name[1], 0, 0, 0, 0, 0);
	assert_stat(&fixture, NULL, 5, 3, 0, 2, 0);
	peer_close(peer);
	close_fixture(&fixture);
}

/* The courier announces its run again: what Kafka has of it is for readers to find. */
static void a_stream_that_goes_on_begins_again(void **state)
{
	struct fixture fixture;
	struct peer *peer;
	uint32_t lane;

	(void)state;
	open_fixture(&fixture);
	peer = come(&fixture);
	forward(&fixture, 0, 0);
	lane = expect_consigned(peer, host_name[0], 0);
	clock_ahead_ns += RELAY_OPENING_NS / 2;
	forward(&fixture, 0, 1);
	assert_int_equal(expect_consigned(peer, NULL, 1), lane);
	clock_ahead_ns += RELAY_OPENING_NS / 2;
	forward(&fixture, 0, 2);
	assert_int_equal(expect_consigned(peer, host_name[0], 2), lane);
	forward(&fixture, 0, 3);
	assert_int_equal(expect_consigned(peer, NULL, 3), lane);
	deliver(peer, lane, 4, false);
	PEER_AWAIT(fixture.base, confirmations == 4);
	assert_stat(&fixture, host_name[0], 4, 4, 0, 0, 0);
	peer_close(peer);
	close_fixture(&fixture);
}

static void a_refused_run_is_refused_to_its_host_alone(void **state)
{
	struct fixture fixture;
	struct peer *peer;
	uint32_t lane[HOSTS];

	(void)state;
	open_fixture(&fixture);
	for (unsigned host = 0; host < HOSTS; host++)
		forward(&fixture, host, 0);
	peer = come(&fixture);
	for (unsigned host = 0; host < HOSTS; host++)
		lane[host] = expect_consigned(peer, host_name[host], 0);
	deliver(peer, lane[0], 1, true);
	deliver(peer, lane[1], 1, false);
	PEER_AWAIT(fixture.base, confirmations == 2);
	assert_int_equal(fixture.shipment[0][0].err, -EMSGSIZE);
	assert_int_equal(fixture.shipment[1][0].err, 0);
	assert_stat(&fixture, host_name[0], 1, 0, 1, 0, 0);
	assert_stat(&fixture, host_name[1], 1, 1, 0, 0, 0);
	assert_stat(&fixture, NULL, 2, 1, 1, 0, 0);
	peer_close(peer);
	close_fixture(&fixture);
}

/* Each of them loses its connection, and no frame. */
static void a_courier_that_speaks_wrongly_is_disconnected(void **state)
{
	static const char noise[] = "GET / HTTP/1.1\r\n\r\n";
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < 2; i++)
		forward(&fixture, 0, i);
	for (unsigned way = 0; way < 7; way++) {
		struct peer *peer = way < 3 ? connect_courier(&fixture) : come(&fixture);

		if (way == 0)
			peer_write(peer, noise, sizeof(noise));
		else if (way == 1)
			greet(peer, RELAY_HELD_BYTES - 1);
		else if (way == 2)
			deliver(peer, 0, 1, false);	/* before a hello */
		else
			expect_consigned(peer, host_name[0], 0);
		if (way == 3)
			greet(peer, RELAY_HELD_BYTES);	/* a second one */
		else if (way == 4)
			deliver(peer, 1, 0, false);	/* no such lane */
		else if (way == 5)
			deliver(peer, 0, 3, false);	/* more than it was sent */
		else if (way == 6)
			peer_write(peer, noise, sizeof(noise));
		if (way < 3)
			peer_expect_error(peer, way == 1 ? "courier-window" : "unexpected-frame", true);
		else
			expect_consigned(peer, NULL, 1);
		peer_expect_end(peer);
		peer_close(peer);
		assert_int_equal(confirmations, 0);
	}
	close_fixture(&fixture);
}

static void a_courier_of_another_version_is_refused(void **state)
{
	static const uint32_t version[][2] = {{FRAME_VERSION + 1, FRAME_VERSION + 1}, {0, FRAME_VERSION - 1}};
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < 2; i++) {
		struct peer *peer = connect_courier(&fixture);
		Ringtail__V1__CourierHello hello = RINGTAIL__V1__COURIER_HELLO__INIT;

		hello.version_min = version[i][0];
		hello.version_max = version[i][1];
		hello.window_bytes = RELAY_HELD_BYTES;
		peer_send(peer, FRAME_COURIER_HELLO, &hello);
		peer_expect_error(peer, "version-unsupported", true);
		peer_expect_end(peer);
		peer_close(peer);
	}
	close_fixture(&fixture);
}

static void a_second_courier_is_refused(void **state)
{
	struct fixture fixture;
	struct peer *peer, *second;

	(void)state;
	open_fixture(&fixture);
	peer = connect_courier(&fixture);
	for (unsigned i = 0; i < 2; i++) {		/* whether or not the first has said hello */
		second = connect_courier(&fixture);
		peer_expect_error(second, "courier-busy", true);
		peer_expect_end(second);
		peer_close(second);
		if (!i)
			greet(peer, RELAY_HELD_BYTES);
		peer_run(fixture.base);
	}
	forward(&fixture, 0, 0);
	expect_consigned(peer, host_name[0], 0);
	peer_close(peer);
	close_fixture(&fixture);
}

/* Whoever may look at events may not carry those of hosts away. */
static void only_an_operator_is_a_courier(void **state)
{
	struct fixture fixture;
	struct peer *peer;

	(void)state;
	open_fixture(&fixture);
	forward(&fixture, 0, 0);
	user = 12345;
	peer = connect_courier(&fixture);
	peer_expect_error(peer, "not-allowed", true);
	peer_expect_end(peer);
	peer_close(peer);
	user = -1;
	peer = come(&fixture);
	expect_consigned(peer, host_name[0], 0);
	peer_close(peer);
	close_fixture(&fixture);
}

/* One that says nothing is not waited for, and one that has nothing to report is. */
static void a_hello_is_awaited_for_so_long(void **state)
{
	struct fixture fixture;
	struct peer *peer;

	(void)state;
	open_fixture(&fixture);
	peer = connect_courier(&fixture);
	assert_int_equal(patience_ns, 60 * NS_PER_S);
	greet(peer, RELAY_HELD_BYTES);
	forward(&fixture, 0, 0);
	expect_consigned(peer, host_name[0], 0);
	assert_int_equal(patience_ns, 0);
	peer_close(peer);
	close_fixture(&fixture);
}

static void what_is_delivered_stays_so(void **state)
{
	struct fixture fixture;
	struct peer *peer;
	uint32_t lane;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < 3; i++)
		forward(&fixture, 0, i);
	peer = come(&fixture);
	lane = expect_consigned(peer, host_name[0], 0);
	expect_consigned(peer, NULL, 1);
	expect_consigned(peer, NULL, 2);
	deliver(peer, lane, 2, false);
	PEER_AWAIT(fixture.base, confirmations == 2);
	deliver(peer, lane, 1, false);
	peer_expect_end(peer);
	assert_int_equal(confirmations, 2);
	peer_close(peer);
	close_fixture(&fixture);
}

/* A courier that reads nothing is sent what its connection holds, and no more: the rest stays where it is counted. */
static void what_is_not_read_waits_here(void **state)
{
	enum { BYTES = RELAY_COURIER_OUT_BYTES };
	struct fixture fixture;
	struct peer *peer;

	(void)state;
	open_fixture(&fixture);
	peer = come(&fixture);
	for (unsigned i = 0; i < ITEMS; i++) {
		struct shipment *shipment = &fixture.shipment[0][i];

		shipment->item = (struct relay_item){
			.host = host_name[0], .opening = relay_opening_get(fixture.opening[0]),
			.frame = frame_ref_create(FRAME_BATCH, 4 * BYTES), .upto = fixture.upto,
			.confirmed = on_confirmed,
		};
		assert_non_null(shipment->item.frame);
		memset(shipment->item.frame->data, 0, 4 * BYTES);
		relay_sink_forward(fixture.sink, &shipment->item);
	}
	peer_run(fixture.base);
	deliver(peer, 0, ITEMS, false);		/* it was not sent so many */
	peer_run(fixture.base);
	assert_int_equal(confirmations, 0);
	peer_close(peer);
	close_fixture(&fixture);
}

/* As many hosts as a relay knows, and one more: nobody's place is given away while something of it is on its way. */
static void a_lane_with_items_is_its_hosts(void **state)
{
	static struct shipment shipment[RELAY_HOSTS_MAX + 1];
	static char name[RELAY_HOSTS_MAX + 1][16];
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i <= RELAY_HOSTS_MAX; i++) {
		snprintf(name[i], sizeof(name[i]), "host-%u", i);
		shipment[i].item = (struct relay_item){
			.host = name[i], .opening = relay_opening_get(fixture.opening[0]),
			.frame = frame_ref_create(FRAME_BATCH, 0), .upto = fixture.upto, .confirmed = on_confirmed,
		};
		assert_non_null(shipment[i].item.frame);
		relay_sink_forward(fixture.sink, &shipment[i].item);
	}
	assert_int_equal(confirmations, 0);
	peer_run(fixture.base);
	assert_int_equal(confirmations, 1);
	assert_int_equal(shipment[RELAY_HOSTS_MAX].err, -ENOMEM);
	close_fixture(&fixture);
	assert_int_equal(confirmations, RELAY_HOSTS_MAX + 1);
}

/* Reads whatever the courier is sent, until that stands in it. False: it never does. */
static bool reads(struct fixture *fixture, struct peer *peer, const char *text)
{
	static uint8_t bytes[1 << 20];
	size_t kept = 0;

	for (unsigned idle = 0; idle < 100;) {
		ssize_t got = recv(peer->fd, bytes + kept, sizeof(bytes) - kept, 0);

		event_base_loop(fixture->base, EVLOOP_NONBLOCK);
		idle = got > 0 ? 0 : idle + 1;
		kept += got > 0 ? (size_t)got : 0;
		if (memmem(bytes, kept, text, strlen(text)))
			return true;
		if (kept > strlen(text)) {		/* it may be half there */
			memmove(bytes, bytes + kept - strlen(text), strlen(text));
			kept = strlen(text);
		}
	}
	return false;
}

/*
 * A host comes that nobody knew, when there are as many as there can be: it has the lane of one of which nothing is on
 * its way. The courier is told whose the lane is, and what was counted of the other stays in the sums alone.
 */
static void a_lane_without_items_serves_another(void **state)
{
	static struct shipment shipment[RELAY_HOSTS_MAX + 1];
	static char name[RELAY_HOSTS_MAX + 1][16];
	struct fixture fixture;
	struct stat_sink stat;
	struct peer *peer;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i <= RELAY_HOSTS_MAX; i++) {
		snprintf(name[i], sizeof(name[i]), "host-%u.", i);
		shipment[i].item = (struct relay_item){
			.host = name[i], .opening = relay_opening_get(fixture.opening[0]),
			.frame = frame_ref_gap(fixture.codec, CPU, 100, 110, 0, 1, 0), .upto = fixture.upto,
			.confirmed = on_confirmed,
		};
		assert_non_null(shipment[i].item.frame);
		if (i == RELAY_HOSTS_MAX)
			break;
		relay_sink_forward(fixture.sink, &shipment[i].item);
	}
	peer = come(&fixture);
	peer_run(fixture.base);
	deliver(peer, 5, 1, false);
	PEER_AWAIT(fixture.base, confirmations == 1);
	assert_int_equal(shipment[5].confirmed, 1);
	assert_stat(&fixture, name[5], 1, 1, 0, 0, 0);
	relay_sink_forward(fixture.sink, &shipment[RELAY_HOSTS_MAX].item);
	assert_stat(&fixture, name[RELAY_HOSTS_MAX], 0, 0, 0, 0, 0);
	assert_stat(&fixture, name[0], 1, 0, 0, 0, 1);
	relay_sink_stat(fixture.sink, NULL, &stat);
	assert_int_equal(stat.confirmed, 1);
	assert_int_equal(stat.consigned, stat.in_flight + 1);
	assert_int_equal(stat.residual, 0);
	assert_true(reads(&fixture, peer, name[RELAY_HOSTS_MAX]));
	assert_stat(&fixture, name[RELAY_HOSTS_MAX], 1, 0, 0, 0, 1);
	peer_close(peer);
	close_fixture(&fixture);
	assert_int_equal(confirmations, RELAY_HOSTS_MAX + 1);
}

/* There was no memory for its host's lane, and the relay ends before it could say so. */
static void a_frame_without_a_lane_is_refused_at_the_end(void **state)
{
	struct shipment *shipment;
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	shipment = &fixture.shipment[0][0];
	shipment->item = (struct relay_item){
		.host = host_name[0], .opening = relay_opening_get(fixture.opening[0]),
		.frame = frame_ref_gap(fixture.codec, CPU, 100, 110, 0, 1, 0), .upto = fixture.upto,
		.confirmed = on_confirmed,
	};
	memory_fails_after(0);
	relay_sink_forward(fixture.sink, &shipment->item);
	memory_suffices();
	assert_int_equal(confirmations, 0);
	close_fixture(&fixture);
	assert_int_equal(confirmations, 1);
	assert_int_equal(fixture.shipment[0][0].err, -ENOMEM);
}

/* The n-th allocation fails, and all behind it, while frames come and a courier reads. */
static void memory_that_runs_out_loses_nothing(void **state)
{
	(void)state;
	for (unsigned n = 0; n < ALLOCATIONS_MAX; n += 1 + n / 8) {
		struct fixture fixture;
		struct peer *peer;

		open_fixture(&fixture);
		peer = come(&fixture);
		for (unsigned i = 0; i < ITEMS * HOSTS; i++) {
			struct shipment *shipment = &fixture.shipment[i % HOSTS][i / HOSTS];

			shipment->item = (struct relay_item){
				.host = host_name[i % HOSTS],
				.opening = relay_opening_get(fixture.opening[i % HOSTS]),
				.frame = frame_ref_gap(fixture.codec, CPU, 100, 110, 0, 1, 0),
				.upto = fixture.upto,
				.confirmed = on_confirmed,
			};
			memory_fails_after(n);
			relay_sink_forward(fixture.sink, &shipment->item);
			event_base_loop(fixture.base, EVLOOP_NONBLOCK);
			memory_suffices();
		}
		peer_close(peer);
		peer_run(fixture.base);
		peer = come(&fixture);		/* with memory again, what was kept comes */
		for (unsigned host = 0; host < HOSTS; host++)
			if (!fixture.shipment[host][ITEMS - 1].confirmed)
				peer_free(peer_await(peer, FRAME_GAP));
		peer_close(peer);
		close_fixture(&fixture);
		/* No courier has delivered anything. */
		for (unsigned i = 0; i < ITEMS * HOSTS; i++)
			assert_int_not_equal(fixture.shipment[i % HOSTS][i / HOSTS].err, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_host_has_its_turn_and_its_order),
		cmocka_unit_test(the_next_courier_gets_what_was_not_delivered),
		cmocka_unit_test(a_stream_that_goes_on_begins_again),
		cmocka_unit_test(a_refused_run_is_refused_to_its_host_alone),
		cmocka_unit_test(a_courier_that_speaks_wrongly_is_disconnected),
		cmocka_unit_test(a_courier_of_another_version_is_refused),
		cmocka_unit_test(a_second_courier_is_refused),
		cmocka_unit_test(only_an_operator_is_a_courier),
		cmocka_unit_test(a_hello_is_awaited_for_so_long),
		cmocka_unit_test(what_is_delivered_stays_so),
		cmocka_unit_test(what_is_not_read_waits_here),
		cmocka_unit_test(a_lane_with_items_is_its_hosts),
		cmocka_unit_test(a_lane_without_items_serves_another),
		cmocka_unit_test(a_frame_without_a_lane_is_refused_at_the_end),
		cmocka_unit_test(memory_that_runs_out_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
