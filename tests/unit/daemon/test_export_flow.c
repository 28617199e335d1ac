/*
 * How frames flow to the export thread and back: no more of them than it may have, the next ones when it has
 * taken some apart, all of them in order and counted once, also where there was no memory for one; metrics at
 * each interval; what is subscribed to; and how a destination stands, to the number. The stream, the export
 * thread and the timers are this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/export/feed.h"
#include "daemon/export/thread.h"
#include "daemon/stream/stream.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_catalog.h"

#define FRAMES_MAX	64u
#define EVENTS		10u		/* of each frame */
#define INTERVAL_NS	(2 * NS_PER_S + 5000000)

static const uint32_t cpu_of[] = {3};
static struct stream *stream;
static struct subscriber *subscriber[EXPORTS_MAX];
static unsigned subscribed, left, gives, metrics_given, flushes, snapshots;
static char asked[EXPORTS_MAX][512];
static bool stays_away, cannot_give, no_snapshot, no_subscription, has_work;
static struct frame_ref *waiting[FRAMES_MAX];
static unsigned first, end;
static uint64_t given_serial[FRAMES_MAX];
static struct mailbox *reports;
static uint64_t timer_us;
static struct export_thread_config started;

const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader);
const Ringtail__V1__Catalog *__wrap_loader_catalog(const struct loader *loader)
{
	(void)loader;
	return small_catalog_get();
}

uint32_t __wrap_loader_rings(const struct loader *loader);
uint32_t __wrap_loader_rings(const struct loader *loader)
{
	(void)loader;
	return 1;
}

int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error);
int __wrap_fanout_subscribe(struct fanout *fanout, struct subscriber *from, const struct subscribe_request *request,
			    struct error *error)
{
	char *text = asked[subscribed];

	(void)fanout;
	if (no_subscription)
		return error_set(error, EPERM, "no", "no");
	assert_int_equal(request->what.flags, RT_FLAG_CONTEXT);
	text[0] = '\0';
	for (unsigned i = 0; i < request->what.globs; i++)
		snprintf(text + strlen(text), 512 - strlen(text), "%s ", request->what.glob[i]);
	snprintf(text + strlen(text), 512 - strlen(text), "| %.60s | %s", request->what.filter,
		 request->consumer ? request->consumer : "none");
	subscriber[subscribed++] = from;
	from->state = stays_away ? SUBSCRIBER_WAITING : SUBSCRIBER_LIVE;
	return stays_away ? 0 : from->live(from->context, stream, NULL);
}

void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly);
void __wrap_fanout_leave(struct fanout *fanout, struct subscriber *from, bool orderly)
{
	(void)fanout, (void)from;
	assert_true(orderly);
	left++;
}

int __wrap_fanout_ack(struct fanout *fanout, struct subscriber *from, const struct cursor *upto, struct error *error);
int __wrap_fanout_ack(struct fanout *fanout, struct subscriber *from, const struct cursor *upto, struct error *error)
{
	(void)fanout, (void)from, (void)upto, (void)error;
	return 0;
}

void __wrap_stream_destroy(struct stream *old);
void __wrap_stream_destroy(struct stream *old)
{
	(void)old;
}

bool __wrap_stream_has_work(const struct stream *from);
bool __wrap_stream_has_work(const struct stream *from)
{
	(void)from;
	return has_work;
}

unsigned __wrap_stream_peek(struct stream *from, struct frame_ref **frame, unsigned n, stream_tell *tell,
			    void *context);
unsigned __wrap_stream_peek(struct stream *from, struct frame_ref **frame, unsigned n, stream_tell *tell,
			    void *context)
{
	unsigned found = 0;

	(void)from, (void)tell, (void)context;
	while (found < n && first + found < end) {
		frame[found] = waiting[first + found];
		found++;
	}
	return found;
}

void __wrap_stream_sent(struct stream *from);
void __wrap_stream_sent(struct stream *from)
{
	(void)from;
	frame_ref_put(waiting[first++]);
}

int __wrap_export_thread_start(const struct export_thread_config *config, struct export_thread **thread,
			       struct error *error);
int __wrap_export_thread_start(const struct export_thread_config *config, struct export_thread **thread,
			       struct error *error)
{
	(void)error;
	started = *config;
	reports = config->reports;
	*thread = NULL;
	return 0;
}

int __wrap_export_thread_give(struct export_thread *thread, unsigned target, uint64_t serial, const uint8_t *frame,
			      size_t bytes, uint64_t events);
int __wrap_export_thread_give(struct export_thread *thread, unsigned target, uint64_t serial, const uint8_t *frame,
			      size_t bytes, uint64_t events)
{
	(void)thread, (void)target;
	if (cannot_give)
		return -ENOMEM;
	assert_int_equal(bytes, 8);
	assert_ptr_equal(frame, waiting[first]->data);
	assert_int_equal(events, EVENTS);
	given_serial[gives++] = serial;
	return 0;
}

int __wrap_export_thread_give_metrics(struct export_thread *thread, unsigned target,
				      const struct metric_snapshot *snapshot);
int __wrap_export_thread_give_metrics(struct export_thread *thread, unsigned target,
				      const struct metric_snapshot *snapshot)
{
	(void)thread;
	assert_int_equal(target, 1);
	if (cannot_give)
		return -ENOMEM;
	metrics_given++;
	metric_snapshot_destroy(snapshot);
	return 0;
}

int __wrap_export_thread_flush(struct export_thread *thread);
int __wrap_export_thread_flush(struct export_thread *thread)
{
	(void)thread;
	flushes++;
	return cannot_give ? -ENOMEM : 0;
}

void __wrap_metric_snapshot_destroy(const struct metric_snapshot *snapshot);
void __wrap_metric_snapshot_destroy(const struct metric_snapshot *snapshot)
{
	snapshots -= snapshot != NULL;
}

static const struct metric_snapshot *take_snapshot(void *context)
{
	static const struct metric_snapshot snapshot = {.points = 7};

	assert_ptr_equal(context, &reports);
	snapshots += !no_snapshot;
	return no_snapshot ? NULL : &snapshot;
}

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after)
{
	if (after)
		timer_us = (uint64_t)after->tv_sec * 1000000 + (uint64_t)after->tv_usec;
	return __real_event_add(event, after);
}

static struct {
	event_callback_fn call;
	void *context;
} timer[EXPORTS_MAX];
static unsigned timers_made;

struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn call,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn call,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn call,
			       void *context)
{
	if (fd < 0) {
		timer[timers_made].call = call;
		timer[timers_made++].context = context;
	}
	return __real_event_new(base, fd, what, call, context);
}

/* ---- A feed ---------------------------------------------------------------------------------- */

struct fixture {
	struct config config;
	struct export_targets targets;
	struct export_feed_config from;
	struct export_feed *feed;
	struct frame_codec *codec;
};

static int open_feed(struct fixture *f, bool spooled, struct error *error)
{
	subscribed = left = gives = metrics_given = flushes = timers_made = first = end = 0;
	stays_away = stays_away && !f->feed;
	f->from.spooled = spooled;
	return export_feed_create(&f->from, &f->feed, error);
}

static void open_fine(struct fixture *f, bool spooled)
{
	struct error error;

	assert_int_equal(open_feed(f, spooled, &error), 0);
	assert_non_null(f->feed);
}

static void close_feed(struct fixture *f)
{
	export_feed_destroy(f->feed);
	f->feed = NULL;
	while (first < end)
		frame_ref_put(waiting[first++]);
}

static int make(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	stays_away = cannot_give = no_snapshot = no_subscription = has_work = false;
	stream = calloc(1, sizeof(*stream) + sizeof(stream->ring[0]));
	stream->cpu_of = cpu_of;
	f->codec = frame_codec_create(1);
	f->config = (struct config){.export_queue_bytes = 1000, .export_timeout_ns = 11, .export_rate = 12,
				    .export_interval_ns = INTERVAL_NS, .export_ca = (char *)"/ca", .slow_call_ns = 13,
				    .export_filter = (char *)"pid == 1"};
	f->targets.target[0] = (struct export_target){.kind = &export_loki, .name = "loki", .consumer = "export-loki"};
	f->targets.target[1] = (struct export_target){.kind = &export_remote_write, .name = "metrics",
						      .consumer = "export-metrics"};
	f->targets.count = 2;
	f->from = (struct export_feed_config){
		.base = event_base_new(), .codec = f->codec, .config = &f->config, .targets = &f->targets,
		.run = {.boot_id = "b", .epoch = 1}, .snapshot = take_snapshot, .context = &reports,
	};
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *f = *state;

	close_feed(f);
	event_base_free(f->from.base);
	frame_codec_destroy(f->codec);
	free(stream);
	free(f);
	return 0;
}

static void add_frames(unsigned n)
{
	for (; n; n--) {
		struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 8);

		frame->cpu = cpu_of[0];
		frame->events = EVENTS;
		frame->end_seq = end;
		waiting[end++] = frame;
	}
}

/* Some frames come, and the stream says so. */
static void come(unsigned n)
{
	add_frames(n);
	subscriber[0]->wake(subscriber[0]->context);
}

static void report(struct fixture *f, unsigned target, const struct export_counts *counts)
{
	struct export_report *made = calloc(1, sizeof(*made));

	made->target = target;
	made->counts = *counts;
	mailbox_send(reports, &made->mail);
	event_base_loop(f->from.base, EVLOOP_NONBLOCK);
}

/* Two in one go: each is taken. */
static void report_two(struct fixture *f)
{
	for (unsigned i = 0; i < 2; i++) {
		struct export_report *made = calloc(1, sizeof(*made));

		made->target = i;
		made->counts.requests = 40 + i;
		mailbox_send(reports, &made->mail);
	}
	event_base_loop(f->from.base, EVLOOP_NONBLOCK);
}

static struct stat_export stat_of(struct fixture *f, unsigned target)
{
	struct stat_export stat;

	export_feed_stat(f->feed, target, &stat);
	assert_int_equal(stat.residual, 0);
	return stat;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static void no_more_frames_than_it_may_have(void **state)
{
	struct fixture *f = *state;

	for (unsigned spooled = 0; spooled < 2; spooled++) {
		open_fine(f, spooled);
		come(EXPORT_FRAMES_MAX + 5);
		assert_int_equal(gives, EXPORT_FRAMES_MAX);
		for (unsigned i = 0; i < gives; i++)
			assert_int_equal(given_serial[i], i + 1);
		assert_int_equal(stat_of(f, 0).events, EVENTS * EXPORT_FRAMES_MAX);
		assert_int_equal(stat_of(f, 0).in_flight, EVENTS * EXPORT_FRAMES_MAX);
		report(f, 0, &(struct export_counts){.decoded_frame = 3, .taken = 3 * EVENTS, .queued = 3 * EVENTS});
		assert_int_equal(gives, EXPORT_FRAMES_MAX + 3);
		assert_int_equal(given_serial[gives - 1], gives);
		report(f, 0, &(struct export_counts){.decoded_frame = 3, .taken = 3 * EVENTS, .queued = 3 * EVENTS});
		assert_int_equal(gives, EXPORT_FRAMES_MAX + 3);
		report(f, 0, &(struct export_counts){.decoded_frame = gives, .settled_frame = gives,
						     .taken = gives * EVENTS, .accepted = gives * EVENTS});
		assert_int_equal(gives, EXPORT_FRAMES_MAX + 5);
		assert_int_equal(stat_of(f, 0).in_flight, 2 * EVENTS);
		close_feed(f);
	}
}

/* With a spool, what waits for the back end is bounded by taking no more; without one, it gives up the oldest. */
static void takes_no_more_than_there_is_room_for(void **state)
{
	struct export_counts counts = {.queued_bytes = 1000};
	struct fixture *f = *state;

	for (unsigned spooled = 0; spooled < 2; spooled++) {
		open_fine(f, spooled);
		report(f, 0, &counts);
		come(1);
		assert_int_equal(gives, !spooled);
		report(f, 0, &(struct export_counts){.queued_bytes = 999});
		assert_int_equal(gives, 1);
		close_feed(f);
	}
}

/* As many as the export thread can keep count of, and not one more. */
static void frames_not_settled_are_bounded(void **state)
{
	struct export_counts counts = {0};
	struct fixture *f = *state;
	uint64_t most = EXPORT_FRAMES_UNSETTLED_MAX - EXPORT_FRAMES_MAX, given = 0;

	for (unsigned spooled = 0; spooled < 2; spooled++) {
		open_fine(f, spooled);
		for (given = 0; given < most;) {
			unsigned n = most - given < EXPORT_FRAMES_MAX ? (unsigned)(most - given) : EXPORT_FRAMES_MAX;

			first = end = gives = 0;
			come(n);
			assert_int_equal(gives, n);
			given += n;
			counts.decoded_frame = given;
			report(f, 0, &counts);
		}
		first = end = gives = 0;
		come(1);
		assert_int_equal(gives, !spooled);
		counts.settled_frame = 1;
		report(f, 0, &counts);
		assert_int_equal(gives, 1);
		counts = (struct export_counts){0};
		close_feed(f);
	}
}

/* It stays where it is, and is given a moment later, once. */
static void no_memory_to_give(void **state)
{
	struct fixture *f = *state;

	open_fine(f, true);
	cannot_give = true;
	timer_us = 0;
	come(2);
	assert_int_equal(timer_us, 100000);
	cannot_give = false;
	timer_us = 0;
	failures_left = 1;
	timer[0].call(-1, EV_TIMEOUT, timer[0].context);
	failures_left = 0;
	assert_int_equal(timer_us, 100000);
	assert_int_equal(gives + first, 0);
	assert_int_equal(stat_of(f, 0).events, 0);
	timer[0].call(-1, EV_TIMEOUT, timer[0].context);
	assert_int_equal(gives, 2);
	assert_int_equal(first, 2);
	assert_int_equal(given_serial[0], 1);
	assert_int_equal(stat_of(f, 0).events, 2 * EVENTS);
}

/* There was no memory to tell the gaps of a stream: it is asked again. */
static void no_memory_to_tell_gaps(void **state)
{
	struct fixture *f = *state;

	open_fine(f, true);
	timer_us = 0;
	stream->gaps = true;
	come(0);
	assert_int_equal(timer_us, 100000);
	stream->gaps = false;
	timer_us = 0;
	timer[0].call(-1, EV_TIMEOUT, timer[0].context);
	assert_int_equal(timer_us, 0);
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static void metrics_at_each_interval(void **state)
{
	struct fixture *f = *state;

	timer_us = 0;
	open_fine(f, true);
	assert_int_equal(subscribed, 1);
	assert_int_equal(timer_us, INTERVAL_NS / 1000);
	for (unsigned i = 1; i < 4; i++) {
		timer_us = 0;
		timer[1].call(-1, EV_TIMEOUT, timer[1].context);
		assert_int_equal(timer_us, INTERVAL_NS / 1000);
		assert_int_equal(metrics_given, i);
		assert_int_equal(stat_of(f, 1).events, 7 * i);
		assert_int_equal(stat_of(f, 1).in_flight, 7 * i);
	}
	no_snapshot = true;
	timer[1].call(-1, EV_TIMEOUT, timer[1].context);
	no_snapshot = false;
	cannot_give = true;
	timer[1].call(-1, EV_TIMEOUT, timer[1].context);
	assert_int_equal(metrics_given, 3);
	assert_int_equal(stat_of(f, 1).events, 21);
	assert_int_equal(snapshots, 0);
	assert_int_equal(stat_of(f, 0).events, 0);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void what_is_asked_for(void **state)
{
	struct fixture *f = *state;

	open_fine(f, true);
	assert_string_equal(asked[0], "syscall:*:call tracepoint:sched:sched_process_fork tracepoint:sched:"
			    "sched_process_exec tracepoint:sched:sched_process_exit | (duration >= 13ns || provider =="
			    " \"tracepoint\" || function =~ | export-loki");
	assert_int_equal(started.queue_bytes_max, 1000);
	assert_int_equal(started.timeout_ns, 11);
	assert_int_equal(started.events_per_s, 12);
	assert_string_equal(started.ca_file, "/ca");
	assert_true(started.spooled);
	assert_ptr_equal(started.targets, &f->targets);
	assert_int_equal(started.host->slow_ns, 13);
	assert_int_equal(export_feed_count(f->feed), 2);
	assert_int_equal(export_feed_count(NULL), 0);
	close_feed(f);
	assert_int_equal(left, 2);
	f->config.export_probe = (struct config_words){.word = {(char *)"syscall:read:call", (char *)"syscall:k*:call"},
						       .count = 2};
	f->config.export_ca = NULL;
	open_fine(f, false);
	assert_string_equal(asked[0], "syscall:read:call syscall:k*:call | pid == 1 | none");
	assert_null(started.ca_file);
	assert_false(started.spooled);
	assert_true(started.host->everything);
}

static void what_cannot_be_asked_for(void **state)
{
	struct fixture *f = *state;
	struct error error;

	f->config.export_filter = (char *)"pid ==";
	assert_int_not_equal(open_feed(f, true, &error), 0);
	assert_non_null(strstr(error.what, "export-filter"));
	f->config.export_filter = (char *)"pid == 1";
	no_subscription = true;
	assert_int_equal(open_feed(f, true, &error), -EPERM);
	assert_null(f->feed);
	no_subscription = false;
	/* Wherever memory ends, nothing is left behind. */
	for (unsigned n = 0; !f->feed; n++) {
		assert_true(n < 200);
		allocations_left = n;
		failures_left = 1;
		if (open_feed(f, true, &error) == 0)
			break;
		failures_left = allocations_left = 0;
	}
	failures_left = allocations_left = 0;
}

/* ---- How it stands --------------------------------------------------------------------------- */

static void stands_as_it_was_last_reported(void **state)
{
	static const char *const name[] = {"ok", "retrying", "held", "rejecting"};
	const struct export_counts counts = {
		.taken = 30, .accepted = 3, .filtered = 4, .rejected = 5, .expired = 6, .memory = 7, .queued = 5,
		.requests = 8, .retries = 9, .bytes = 10, .decoded_frame = 3, .accepted_realtime_ns = 11,
		.error_realtime_ns = 12, .error = "why", .state = EXPORT_HELD,
	};
	struct fixture *f = *state;
	struct stat_export stat;

	open_fine(f, true);
	come(3);
	report(f, 0, &counts);
	stat = stat_of(f, 0);
	assert_string_equal(stat.name, "loki");
	assert_string_equal(stat.state, "held");
	assert_string_equal(stat.error, "why");
	assert_string_equal(stat.consumer, "export-loki");
	assert_int_equal(stat.events, 30);
	assert_int_equal(stat.accepted, 3);
	assert_int_equal(stat.filtered, 4);
	assert_int_equal(stat.in_flight, 5);
	assert_int_equal(stat.requests, 8);
	assert_int_equal(stat.retries, 9);
	assert_int_equal(stat.bytes, 10);
	assert_int_equal(stat.accepted_realtime_ns, 11);
	assert_int_equal(stat.error_realtime_ns, 12);
	assert_int_equal(stat.lost_by[LOSS_STAGE_EXPORT][LOSS_REASON_REJECTED], 5);
	assert_int_equal(stat.lost_by[LOSS_STAGE_EXPORT][LOSS_REASON_EXPIRED], 6);
	assert_int_equal(stat.lost_by[LOSS_STAGE_EXPORT][LOSS_REASON_MEMORY], 7);
	for (unsigned i = EXPORT_OK; i <= EXPORT_REJECTING; i++) {
		report(f, 0, &(struct export_counts){.state = (enum export_state)i, .decoded_frame = 3});
		assert_string_equal(stat_of(f, 0).state, name[i]);
	}
	/* What went there and is not counted there yet is on its way. */
	assert_int_equal(stat_of(f, 0).in_flight, 30);
	stat = stat_of(f, 1);
	assert_string_equal(stat.state, "ok");		/* metrics need no stream */
	assert_null(stat.consumer);
	report_two(f);
	assert_int_equal(stat_of(f, 0).requests, 40);
	assert_int_equal(stat_of(f, 1).requests, 41);
	close_feed(f);
	open_fine(f, false);
	assert_null(stat_of(f, 0).consumer);
}

static void stands_without_a_stream(void **state)
{
	const struct error why = {.what = "no", .hint = "do"};
	struct fixture *f = *state;

	stays_away = true;
	open_fine(f, true);
	assert_string_equal(stat_of(f, 0).state, "starting");
	subscriber[0]->refused(subscriber[0]->context, &why);
	subscriber[0]->state = SUBSCRIBER_AWAY;
	assert_string_equal(stat_of(f, 0).state, "refused");
	come(1);
	assert_int_equal(gives, 0);
	report(f, 0, &(struct export_counts){0});
}

/* ---- The end --------------------------------------------------------------------------------- */

static void flushed_when_nothing_is_on_its_way(void **state)
{
	struct export_counts counts = {.taken = EVENTS, .queued = EVENTS, .decoded_frame = 1};
	struct fixture *f = *state;

	assert_true(export_feed_flush(NULL));
	open_fine(f, true);
	cannot_give = true;
	assert_true(export_feed_flush(f->feed));
	cannot_give = false;
	assert_true(export_feed_flush(f->feed));
	assert_true(export_feed_flush(f->feed));
	assert_int_equal(flushes, 2);			/* again where it could not be said; once said, no more */
	come(1);
	assert_false(export_feed_flush(f->feed));
	report(f, 0, &counts);
	assert_false(export_feed_flush(f->feed));
	/* A back end that is away is not waited for, */
	counts.state = EXPORT_RETRYING;
	report(f, 0, &counts);
	assert_true(export_feed_flush(f->feed));
	counts.state = EXPORT_HELD;
	report(f, 0, &counts);
	assert_true(export_feed_flush(f->feed));
	counts.state = EXPORT_REJECTING;
	report(f, 0, &counts);
	assert_false(export_feed_flush(f->feed));
	counts = (struct export_counts){.taken = EVENTS, .accepted = EVENTS, .decoded_frame = 1};
	report(f, 0, &counts);
	assert_true(export_feed_flush(f->feed));
	/* nor is more than there is room for; what can be taken is waited for. */
	has_work = true;
	assert_false(export_feed_flush(f->feed));
	counts.queued_bytes = 1000;
	report(f, 0, &counts);
	assert_true(export_feed_flush(f->feed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		TEST(no_more_frames_than_it_may_have),
		TEST(takes_no_more_than_there_is_room_for),
		TEST(frames_not_settled_are_bounded),
		TEST(no_memory_to_give),
		TEST(no_memory_to_tell_gaps),
		TEST(metrics_at_each_interval),
		TEST(what_is_asked_for),
		TEST(what_cannot_be_asked_for),
		TEST(stands_as_it_was_last_reported),
		TEST(stands_without_a_stream),
		TEST(flushed_when_nothing_is_on_its_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
