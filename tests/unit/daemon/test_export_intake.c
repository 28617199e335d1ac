/*
 * Events that come out of the spool after another run of the rings, or another boot, are told with
 * the ids, the clock, the host and the probes of their own run, whatever this one's are; and where
 * a run cannot be known its events are counted, and nobody else's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/frame_ref.h"
#include "daemon/export/intake.h"
#include "daemon/export/run.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/export_make.h"

#define SLOW_NS		(100 * 1000000ull)
#define EARLIER_OPENAT	40		/* openat's number in the earlier run */
#define EARLIER_EPOCH	5
#define HERE_EPOCH	7		/* as make_host() has it */
#define CPU		1

static const uint8_t earlier_boot[16] = "another boot id";

struct export_run *__real_export_run_of_hello(struct export_run *here,
					      const Ringtail__V1__ServerHello *hello);
struct export_run *__wrap_export_run_of_hello(struct export_run *here,
					      const Ringtail__V1__ServerHello *hello);

static bool no_memory_for_a_run;	/* of the next hello */

struct export_run *__wrap_export_run_of_hello(struct export_run *here,
					      const Ringtail__V1__ServerHello *hello)
{
	failures_left = no_memory_for_a_run;
	no_memory_for_a_run = false;
	return __real_export_run_of_hello(here, hello);
}

struct feed {
	struct export_host *host;
	struct export_intake *intake;
	struct frame_codec *codec;
	struct export_list list;
	struct export_intake_counts counts;
	uint64_t serial, seq;
};

static void open_feed(struct feed *feed, uint64_t events_per_s)
{
	*feed = (struct feed){.host = make_host(SLOW_NS, NULL), .codec = frame_codec_create(1)};
	feed->intake = export_intake_create(feed->host, &export_loki, events_per_s);
	assert_non_null(feed->intake);
	assert_non_null(feed->codec);
	TAILQ_INIT(&feed->list);
}

/* The first event that goes out. */
static struct export_event *take(struct feed *feed)
{
	struct export_event *event = TAILQ_FIRST(&feed->list);

	assert_non_null(event);
	TAILQ_REMOVE(&feed->list, event, link);
	return event;
}

static void close_feed(struct feed *feed)
{
	while (!TAILQ_EMPTY(&feed->list))
		export_event_destroy(take(feed));
	export_intake_destroy(feed->intake);
	frame_codec_destroy(feed->codec);
	export_host_destroy(feed->host);
}

static void give(struct feed *feed, struct frame_ref *frame, uint64_t events)
{
	assert_non_null(frame);
	export_intake_frame(feed->intake, ++feed->serial, frame->data, frame->bytes, events,
			    &feed->list, &feed->counts);
	frame_ref_put(frame);
}

static void give_hello(struct feed *feed, const uint8_t *boot_id, size_t bytes, uint64_t epoch)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.boot_id.data = (uint8_t *)boot_id;
	hello.boot_id.len = bytes;
	hello.epoch = epoch;
	hello.hostname = (char *)"before";
	hello.kernel = (char *)"5.10";
	hello.machine = (char *)"aarch64";
	hello.monotonic_ns = 100 * NS_PER_S;
	hello.realtime_ns = 1000 * NS_PER_S;
	give(feed, frame_ref_pack(feed->codec, FRAME_SERVER_HELLO, &hello.base), 0);
}

/* Of one probe: openat, under that number. */
static void give_catalog(struct feed *feed, uint32_t id)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe probe = make_probe[MAKE_OPENAT], *probes = &probe;

	probe.id = id;
	catalog.probe = &probes;
	catalog.n_probe = 1;
	give(feed, frame_ref_pack(feed->codec, FRAME_CATALOG, &catalog.base), 0);
}

static size_t more_bytes;		/* than it says, of the next frame of a call */

/* One call; its number is feed->seq then. */
static void give_call_of(struct feed *feed, uint16_t probe, uint64_t time_ns, uint64_t duration_ns)
{
	const struct batch_thread thread = {.tid = 5, .pid = 5, .ppid = 1, .comm = "a"};
	const uint64_t field[3] = {duration_ns, 3, 9};
	struct batch_event event = {.probe = probe, .fields = 3, .has_duration = true,
				    .field = field, .time_ns = time_ns};
	struct batch_encoder *encoder = batch_encoder_create(RT_PROBE_MAX);
	struct frame_ref *frame;
	const uint8_t *message;
	uint64_t slot = 0;
	size_t bytes;

	assert_non_null(encoder);
	batch_encode_begin(encoder, CPU, ++feed->seq, time_ns);
	event.thread = batch_encode_thread(encoder, &thread, &slot);
	assert_true(batch_encode_event(encoder, &event));
	message = batch_encode_finish(encoder, &bytes);
	frame = frame_ref_seal(feed->codec, FRAME_BATCH, message, (uint32_t)bytes);
	frame->bytes += (uint32_t)more_bytes;
	give(feed, frame, 1);
	batch_encoder_destroy(encoder);
}

/* A slow one. */
static void give_call(struct feed *feed, uint16_t probe, uint64_t time_ns)
{
	give_call_of(feed, probe, time_ns, SLOW_NS);
}

static void come_home(struct feed *feed)
{
	give_hello(feed, feed->host->run->boot_id, 16, HERE_EPOCH);
	give_catalog(feed, EARLIER_OPENAT);	/* not the one that counts here */
}

/* The trace of an event is that of a record which was there. */
static void check_place(const struct export_event *event, const uint8_t *boot_id, uint64_t epoch,
			uint64_t seq)
{
	const struct trace_place there = {boot_id, epoch, CPU, seq};
	const struct trace_place said = export_event_place(event);
	uint8_t expect[TRACE_ID_BYTES], got[TRACE_ID_BYTES];

	trace_id_make(&there, expect);
	trace_id_make(&said, got);
	assert_memory_equal(got, expect, sizeof(got));
}

static void test_another_boot(void **state)
{
	struct export_event *event;
	struct feed feed;

	(void)state;
	open_feed(&feed, 0);
	give_hello(&feed, earlier_boot, sizeof(earlier_boot), EARLIER_EPOCH);
	give_catalog(&feed, EARLIER_OPENAT);
	give_call(&feed, EARLIER_OPENAT, 900 * NS_PER_S);
	assert_true(TAILQ_EMPTY(&feed.list));		/* no watermark was there, */
	come_home(&feed);
	event = take(&feed);				/* and none comes any more */
	check_place(event, earlier_boot, EARLIER_EPOCH, 1);
	assert_string_equal(event->probe->function, "openat");
	assert_int_equal(export_run_to_realtime(event->run), 900 * NS_PER_S);
	assert_string_equal(event->run->name, "before");
	assert_string_equal(event->run->kernel, "5.10");
	assert_string_equal(event->run->machine, "aarch64");
	assert_string_equal(event->run->boot_text, "616e6f74-6865-7220-626f-6f7420696400");
	give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S);	/* this boot's clock began anew */
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	/* Its run is there as long as it is. */
	assert_string_equal(event->probe->field[2]->name, "dfd");
	export_event_destroy(event);
	event = take(&feed);
	check_place(event, feed.host->run->boot_id, HERE_EPOCH, 2);
	assert_ptr_equal(event->run, feed.host->run);
	export_event_destroy(event);
	assert_int_equal(feed.counts.taken, 2);
	assert_int_equal(feed.counts.memory, 0);
	close_feed(&feed);
}

/* The clock of this boot is what it is now: a hello may be from before it was set. */
static void test_another_epoch(void **state)
{
	struct export_event *event;
	uint64_t now, expect;
	struct feed feed;

	(void)state;
	open_feed(&feed, 0);
	give_hello(&feed, feed.host->run->boot_id, 16, EARLIER_EPOCH);
	give_catalog(&feed, EARLIER_OPENAT);
	give_call(&feed, EARLIER_OPENAT, 900 * NS_PER_S);
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	event = take(&feed);
	check_place(event, feed.host->run->boot_id, EARLIER_EPOCH, 1);
	expect = clock_read(CLOCK_REALTIME) - clock_monotonic();
	now = export_run_to_realtime(event->run);
	assert_in_range(now, expect - NS_PER_S, expect + NS_PER_S);
	export_event_destroy(event);
	close_feed(&feed);
}

/* Time goes back with a boot: what a second may have is not what the last boot has left of it. */
static void test_rate_of_each_run(void **state)
{
	struct export_event *event;
	struct feed feed;

	(void)state;
	open_feed(&feed, 1);
	give_hello(&feed, earlier_boot, sizeof(earlier_boot), EARLIER_EPOCH);
	give_catalog(&feed, EARLIER_OPENAT);
	give_call(&feed, EARLIER_OPENAT, 900 * NS_PER_S);
	give_call(&feed, EARLIER_OPENAT, 900 * NS_PER_S + 1);
	come_home(&feed);
	give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S);
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	assert_int_equal(feed.counts.filtered, 1);
	event = take(&feed);
	assert_int_equal(event->time_ns, 900 * NS_PER_S);
	assert_int_equal(TAILQ_FIRST(&feed.list)->time_ns, 2 * NS_PER_S);
	export_event_destroy(event);
	close_feed(&feed);
}

/* What is not sent takes nothing away from what is. */
static void test_rate_is_of_what_goes_out(void **state)
{
	struct feed feed;

	(void)state;
	open_feed(&feed, 1);
	come_home(&feed);
	for (unsigned i = 0; i < 3; i++)
		give_call_of(&feed, MAKE_OPENAT, 2 * NS_PER_S + i, 1);
	give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S + 3);
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	assert_int_equal(feed.counts.filtered, 3);
	assert_int_equal(TAILQ_FIRST(&feed.list)->time_ns, 2 * NS_PER_S + 3);
	close_feed(&feed);
}

/* Of a run that cannot be known, nothing is told as if it were another's. */
static void test_unknown_run(void **state)
{
	struct feed feed;

	(void)state;
	open_feed(&feed, 0);
	give_hello(&feed, earlier_boot, 3, EARLIER_EPOCH);
	give_catalog(&feed, EARLIER_OPENAT);
	give_call(&feed, MAKE_OPENAT, 900 * NS_PER_S);
	assert_int_equal(feed.counts.memory, 1);
	give_hello(&feed, earlier_boot, sizeof(earlier_boot), EARLIER_EPOCH);
	give_call(&feed, MAKE_OPENAT, 900 * NS_PER_S);	/* its catalog has not come */
	assert_int_equal(feed.counts.memory, 2);
	no_memory_for_a_run = true;
	give_hello(&feed, earlier_boot, sizeof(earlier_boot), EARLIER_EPOCH + 1);
	assert_false(no_memory_for_a_run);
	give_catalog(&feed, EARLIER_OPENAT);
	give_call(&feed, EARLIER_OPENAT, 900 * NS_PER_S);
	assert_int_equal(feed.counts.memory, 3);
	come_home(&feed);
	give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S);
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	assert_int_equal(feed.counts.memory, 3);
	assert_int_equal(feed.counts.taken, 4);
	assert_ptr_equal(TAILQ_FIRST(&feed.list)->run, feed.host->run);
	close_feed(&feed);
}

/* Neither is one whose hello cannot be read. */
static void test_hello_that_is_none(void **state)
{
	static const uint8_t none[] = "\xff\xff\xff";
	struct feed feed;

	(void)state;
	open_feed(&feed, 0);
	give(&feed, frame_ref_seal(feed.codec, FRAME_SERVER_HELLO, none, 3), 0);
	give_call(&feed, MAKE_OPENAT, 900 * NS_PER_S);
	assert_int_equal(feed.counts.memory, 1);
	give(&feed, frame_ref_seal(feed.codec, FRAME_WATERMARK, none, 3), 0);
	come_home(&feed);
	give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S);
	assert_int_equal(export_intake_waiting(feed.intake), 1);
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	assert_int_equal(feed.counts.memory, 1);
	assert_int_equal(feed.counts.taken, 2);
	close_feed(&feed);
}

/* A frame that is cut, or is longer than it says, or cannot be decoded: its events are counted, and no others. */
static void test_frame_that_is_damaged(void **state)
{
	struct frame_ref *frame;
	struct feed feed;
	uint8_t bytes[64];

	(void)state;
	open_feed(&feed, 0);
	frame = frame_ref_seal(feed.codec, FRAME_BATCH, (const uint8_t *)"\xff\xff", 2);
	for (unsigned i = 0; i < 3; i++) {
		memcpy(bytes, frame->data, frame->bytes);
		export_intake_frame(feed.intake, ++feed.serial, bytes, frame->bytes - 1 + i, 5, &feed.list, &feed.counts);
		assert_int_equal(feed.counts.taken, 5 * (i + 1));
		assert_int_equal(feed.counts.memory, 5 * (i + 1));
	}
	frame_ref_put(frame);
	assert_int_equal(export_intake_settled_frame(feed.intake), 3);
	more_bytes = 1;
	give_call(&feed, MAKE_OPENAT, NS_PER_S);
	more_bytes = (size_t)-1;
	give_call(&feed, MAKE_OPENAT, NS_PER_S);
	more_bytes = 0;
	assert_int_equal(feed.counts.memory, 17);
	assert_int_equal(export_intake_waiting(feed.intake), 0);
	give_call(&feed, MAKE_OPENAT, NS_PER_S);
	assert_int_equal(feed.counts.memory, 17);
	assert_int_equal(export_intake_waiting(feed.intake), 1);
	close_feed(&feed);
}

/* Nothing comes after a Bye, so all goes out; and no more goes by a watermark than it promises. */
static void test_what_lets_go(void **state)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	struct feed feed;

	(void)state;
	open_feed(&feed, 0);
	come_home(&feed);
	for (unsigned i = 0; i < 3; i++)
		give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S + i);
	watermark.time_ns = 2 * NS_PER_S;
	give(&feed, frame_ref_pack(feed.codec, FRAME_WATERMARK, &watermark.base), 0);
	assert_int_equal(export_intake_waiting(feed.intake), 2);
	give(&feed, frame_ref_pack(feed.codec, FRAME_GAP, &watermark.base), 0);
	assert_int_equal(export_intake_waiting(feed.intake), 2);
	give(&feed, frame_ref_pack(feed.codec, FRAME_BYE, &bye.base), 0);
	assert_int_equal(export_intake_waiting(feed.intake), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct export_event *event = take(&feed);

		assert_int_equal(event->time_ns, 2 * NS_PER_S + i);
		export_event_destroy(event);
	}
	close_feed(&feed);
}

/* A kind that has no room for any event. */
static void *kind_create(const struct export_host *host)
{
	return (void *)host;
}

static void kind_destroy(void *state)
{
	assert_non_null(state);
}

static void kind_take(void *state, struct export_event *event, struct export_taken *taken)
{
	(void)state;
	export_event_destroy(event);
	taken->memory++;
}

/* Nobody filtered it. */
static void test_no_room_is_lost_for_want_of_memory(void **state)
{
	const struct export_kind kind = {.name = "small", .create = kind_create, .destroy = kind_destroy,
					 .take = kind_take};
	struct feed feed;

	(void)state;
	open_feed(&feed, 0);
	export_intake_destroy(feed.intake);
	feed.intake = export_intake_create(feed.host, &kind, 0);
	assert_non_null(feed.intake);
	come_home(&feed);
	for (unsigned i = 0; i < 3; i++)
		give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S + i);
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	assert_int_equal(feed.counts.memory, 3);
	assert_int_equal(feed.counts.filtered, 0);
	assert_int_equal(feed.counts.taken, 3);
	close_feed(&feed);
}

/* A kind that makes one of all events: the first stands for them, and goes out at the end. */
static struct export_event *first;

static void kind_merge(void *state, struct export_event *event, struct export_taken *taken)
{
	(void)state;
	if (!first) {
		first = event;
		return;
	}
	assert_true(event->time_ns > first->time_ns);
	export_event_destroy(event);
	taken->merged++;
}

static void kind_flush(void *state, struct export_taken *taken)
{
	(void)state;
	if (first)
		TAILQ_INSERT_TAIL(&taken->send, first, link);
	first = NULL;
}

static uint64_t kind_waiting(const void *state)
{
	(void)state;
	return first != NULL;
}

/* Each event waits, is a part of another, or goes out: whoever waits is counted, and at the end nobody does. */
static void test_what_a_kind_holds_is_counted(void **state)
{
	const struct export_kind kind = {.name = "one", .create = kind_create, .destroy = kind_destroy,
					 .take = kind_merge, .flush = kind_flush, .waiting = kind_waiting};
	struct feed feed;

	(void)state;
	open_feed(&feed, 0);
	export_intake_destroy(feed.intake);
	feed.intake = export_intake_create(feed.host, &kind, 0);
	assert_non_null(feed.intake);
	come_home(&feed);
	for (unsigned i = 0; i < 3; i++)
		give_call(&feed, MAKE_OPENAT, 2 * NS_PER_S + i);
	assert_int_equal(export_intake_waiting(feed.intake), 3);
	come_home(&feed);
	assert_int_equal(export_intake_waiting(feed.intake), 1);
	assert_int_equal(feed.counts.filtered, 2);
	give_call(&feed, MAKE_OPENAT, 3 * NS_PER_S);
	assert_int_equal(export_intake_waiting(feed.intake), 2);
	export_intake_flush(feed.intake, &feed.list, &feed.counts);
	assert_int_equal(export_intake_waiting(feed.intake), 0);
	assert_int_equal(feed.counts.taken, 4);
	assert_int_equal(feed.counts.filtered, 3);
	assert_int_equal(TAILQ_FIRST(&feed.list)->time_ns, 2 * NS_PER_S);
	assert_null(TAILQ_NEXT(TAILQ_FIRST(&feed.list), link));
	close_feed(&feed);
}

/* Wherever memory ends, nothing is made, and nothing stays. */
static void test_no_memory(void **state)
{
	struct export_host *host = make_host(SLOW_NS, "a");
	struct export_intake *intake = NULL;
	unsigned n = 0;

	(void)state;
	for (; !intake; n++) {
		assert_true(n < 50);
		allocations_left = n;
		failures_left = 1;
		intake = export_intake_create(host, &export_otlp_traces, 0);
	}
	assert_true(n > 4);
	allocations_left = 0;
	failures_left = 1;
	assert_int_equal(export_intake_track(intake), -ENOMEM);
	failures_left = 0;
	export_intake_destroy(intake);
	export_intake_destroy(NULL);
	export_host_destroy(host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_boot),
		cmocka_unit_test(test_another_epoch),
		cmocka_unit_test(test_rate_of_each_run),
		cmocka_unit_test(test_rate_is_of_what_goes_out),
		cmocka_unit_test(test_unknown_run),
		cmocka_unit_test(test_hello_that_is_none),
		cmocka_unit_test(test_frame_that_is_damaged),
		cmocka_unit_test(test_what_lets_go),
		cmocka_unit_test(test_no_room_is_lost_for_want_of_memory),
		cmocka_unit_test(test_what_a_kind_holds_is_counted),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
