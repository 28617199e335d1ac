/*
 * Subscriptions of the daemon's own, over a whole engine: each event is handed over once, by its probe; of what is lost
 * or cannot be read the ledger closes; many frames keep nothing else from the loop; a watch sees what its role may; and
 * when it ends, nothing is recorded for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "daemon/ask/watch.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/stream/stream.h"
#include "proto/frame.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_engine.h"

#define CALLS "syscall:getppid:call"
#define READS "syscall:read:call"

/* ---- What may be broken --------------------------------------------------------------------------- */

static bool frames_are_broken, batches_are_broken;

enum frame_status __real_frame_open(struct frame_codec *codec, const uint8_t *frame, const struct frame_header *header,
				    uint8_t *raw, const uint8_t **message);
enum frame_status __wrap_frame_open(struct frame_codec *codec, const uint8_t *frame, const struct frame_header *header,
				    uint8_t *raw, const uint8_t **message);
enum frame_status __wrap_frame_open(struct frame_codec *codec, const uint8_t *frame, const struct frame_header *header,
				    uint8_t *raw, const uint8_t **message)
{
	return frames_are_broken ? FRAME_BAD_ZSTD : __real_frame_open(codec, frame, header, raw, message);
}

int __real_batch_decode_open(struct batch_decoder *decoder, const uint8_t *message, size_t bytes,
			     struct batch_summary *summary);
int __wrap_batch_decode_open(struct batch_decoder *decoder, const uint8_t *message, size_t bytes,
			     struct batch_summary *summary);
int __wrap_batch_decode_open(struct batch_decoder *decoder, const uint8_t *message, size_t bytes,
			     struct batch_summary *summary)
{
	return batches_are_broken ? -EBADMSG : __real_batch_decode_open(decoder, message, bytes, summary);
}

/* ---- Somebody who watches -------------------------------------------------------------------------- */

struct look {
	struct ask_watch watch;
	uint64_t events, of_cpu[ENGINE_RINGS], sum;	/* of what the calls returned */
	uint32_t probe;					/* of the last one */
	unsigned refusals;
	struct error error;
	int other;					/* written to with the first event; 0: not */
};

static struct engine e;
static Ringtail__V1__Catalog catalog;	/* the engine's, as far as it is known */
static struct ask_watches *watches;

static void on_event(void *context, const Ringtail__V1__Probe *probe, uint32_t cpu, const struct batch_item *item)
{
	struct look *look = context;

	assert_int_equal(probe->id, item->event.probe);
	assert_int_equal(probe->n_field, item->event.fields);
	look->probe = probe->id;
	look->of_cpu[watcher_ring(cpu)]++;
	look->sum += item->event.field[1];
	if (!look->events++ && look->other)
		assert_int_equal(eventfd_write(look->other, 1), 0);
}

static void on_refused(void *context, const struct error *error)
{
	struct look *look = context;

	look->refusals++;
	look->error = *error;
}

static int open_engine(void **state)
{
	(void)state;
	engine_viewers = (struct viewer_bounds){.strings = false, .stacks = true, .subscriptions = SUBSCRIPTIONS_MAX};
	engine_open(&e, 2, 2, 8);
	catalog = *small_catalog_get();
	watches = ask_watches_create(&(struct ask_watches_config){
		.base = e.base, .fanout = e.fanout, .codec = e.codec, .catalog = &catalog});
	assert_non_null(watches);
	return 0;
}

static int close_engine(void **state)
{
	(void)state;
	ask_watches_destroy(watches);
	engine_close(&e);
	return 0;
}

static int ask(struct look *look, enum role role, const char *glob, uint32_t flags, struct error *error)
{
	const struct subscription_request what = {.glob = &glob, .globs = 1, .filter = "", .flags = flags};

	*look = (struct look){.watch = {.watches = watches, .role = role, .name = "page:test", .event = on_event,
					.refused = on_refused, .context = look}};
	return ask_watch_begin(&look->watch, &what, error);
}

/* It watches from now on. */
static void begin(struct look *look, const char *glob)
{
	struct error error;

	assert_int_equal(ask(look, ROLE_OPERATOR, glob, 0, &error), 0);
	PEER_AWAIT(e.base, look->watch.stream);
}

static uint64_t lost(const struct look *look)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LOSS_STAGES; i++)
		for (unsigned k = 0; k < LOSS_REASONS; k++)
			sum += look->watch.stream->lost[i][k];
	return sum;
}

static bool records(unsigned probe)
{
	return e.loader.request.probes[probe / 8] >> probe % 8 & 1;
}

/* ---- What it is handed ------------------------------------------------------------------------------ */

static void each_event_is_handed_over_once(void **state)
{
	struct look calls, reads;

	(void)state;
	begin(&calls, CALLS);
	begin(&reads, READS);
	assert_string_equal(calls.watch.identity.text, "page:test");
	for (unsigned i = 0; i < 7; i++) {
		engine_write(&e, 300);
		engine_settle(&e);
	}
	assert_int_equal(calls.events, 2100);
	assert_int_equal(calls.of_cpu[0], 1050);
	assert_int_equal(calls.of_cpu[1], 1050);
	assert_int_equal(calls.sum, 2100 * 2101 / 2);
	assert_int_equal(calls.probe, SMALL_GETPPID);
	assert_int_equal(calls.watch.taken, 2100);
	assert_int_equal(calls.watch.stream->delivered, 2100);
	assert_int_equal(ask_watch_residual(&calls.watch), 0);
	assert_int_equal(reads.events, 0);
	assert_int_equal(ask_watch_residual(&reads.watch), 0);
	engine_check_ledger(&e);
	ask_watch_end(&reads.watch);
	ask_watch_end(&calls.watch);
	assert_int_equal(ask_watch_residual(&calls.watch), 0);
}

static void on_other(evutil_socket_t fd, short what, void *context)
{
	uint64_t *seen = context;
	eventfd_t ignored;

	(void)what;
	eventfd_read(fd, &ignored);
	seen[1] = *(uint64_t *)seen[0];
}

/* A backlog is taken in turns, and what else is ready has its own between two of them. */
static void a_backlog_keeps_nothing_else_from_the_loop(void **state)
{
	struct look look;
	uint64_t seen[2] = {(uintptr_t)&look.events, 0};
	struct event *other;

	(void)state;
	begin(&look, CALLS);
	look.other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	other = event_new(e.base, look.other, EV_READ | EV_PERSIST, on_other, seen);
	event_add(other, NULL);
	for (unsigned i = 0; i < 10; i++) {
		engine_write(&e, 20);
		engine_empty_rings(&e);
	}
	engine_settle(&e);
	assert_int_equal(look.events, 200);
	assert_true(seen[1] > 0 && seen[1] <= 10 * ASK_FRAMES_PER_TURN);
	assert_int_equal(ask_watch_residual(&look.watch), 0);
	event_free(other);
	close(look.other);
	ask_watch_end(&look.watch);
}

/* The stream's ledger has them; what comes behind them is handed over. */
static void what_is_lost_is_in_the_ledger(void **state)
{
	struct look look;

	(void)state;
	begin(&look, CALLS);
	engine_write(&e, 10);
	ring_writer_lose(e.writer[0], RT_LOST_FULL, 7);
	engine_write(&e, 10);
	engine_settle(&e);
	assert_int_equal(look.events, 20);
	assert_int_equal(lost(&look), 7);
	assert_int_equal(ask_watch_residual(&look.watch), 0);
	ask_watch_end(&look.watch);
}

/* A viewer's stream may have so many events in a second; the others are passed over, and told by no batch. */
static void what_is_over_its_rate_is_in_the_ledger(void **state)
{
	const struct viewer_bounds slow = {.subscriptions = SUBSCRIPTIONS_MAX, .rate = 1};
	struct error error;
	struct look look;

	(void)state;
	fanout_set_viewers(e.fanout, &slow);
	assert_int_equal(ask(&look, ROLE_VIEWER, CALLS, 0, &error), 0);
	PEER_AWAIT(e.base, look.watch.stream);
	for (unsigned i = 1; i <= 10; i++) {
		engine_write(&e, 500);
		engine_settle(&e);
		assert_int_equal(look.events + lost(&look), 500 * i);
		assert_int_equal(ask_watch_residual(&look.watch), 0);
	}
	assert_true(look.events && lost(&look));
	ask_watch_end(&look.watch);
}

/* It is counted as such, the ledger closes, and the next frame is read. */
static void what_cannot_be_read_is_counted(void **state)
{
	bool *const broken[] = {&frames_are_broken, &batches_are_broken};
	struct look look;

	(void)state;
	begin(&look, CALLS);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t uncounted = counter_read(COUNTER_ask_events_uncounted);

		*broken[i] = true;
		engine_write(&e, 30);
		engine_settle(&e);
		*broken[i] = false;
		assert_int_equal(look.events, 10 * i);
		assert_int_equal(counter_read(COUNTER_ask_events_uncounted) - uncounted, 30);
		assert_int_equal(ask_watch_residual(&look.watch), 0);
		engine_write(&e, 10);
		engine_settle(&e);
		assert_int_equal(look.events, 10 * (i + 1));
		assert_int_equal(counter_read(COUNTER_ask_events_uncounted) - uncounted, 30);
	}
	assert_int_equal(look.watch.taken, 80);
	assert_int_equal(ask_watch_residual(&look.watch), 0);
	/* What is not accounted for shows. */
	look.watch.taken -= 3;
	assert_int_equal(ask_watch_residual(&look.watch), 3);
	ask_watch_end(&look.watch);
}

/* Probes are made while the daemon runs; some that are no events of anything are in no table. */
static void probes_that_were_made_since_are_known(void **state)
{
	Ringtail__V1__Probe beyond = *small_catalog_get()->probe[0], wide = *small_catalog_get()->probe[1];
	Ringtail__V1__Probe *probes[16];
	struct look look;

	(void)state;
	ask_watches_destroy(watches);
	catalog.n_probe = 0;
	watches = ask_watches_create(&(struct ask_watches_config){
		.base = e.base, .fanout = e.fanout, .codec = e.codec, .catalog = &catalog});
	beyond.id = RT_PROBE_MAX;
	wide.n_field = PROBE_FIELDS_MAX + 1;
	probes[0] = &beyond;
	probes[1] = &wide;
	memcpy(probes + 2, small_catalog_get()->probe, small_catalog_get()->n_probe * sizeof(probes[0]));
	catalog.n_probe = small_catalog_get()->n_probe + 2;
	catalog.probe = probes;
	begin(&look, CALLS);
	engine_write(&e, 10);
	engine_settle(&e);
	assert_int_equal(look.events, 10);
	assert_int_equal(look.probe, SMALL_GETPPID);
	ask_watch_end(&look.watch);
}

/* ---- Who may, and how it ends ------------------------------------------------------------------------ */

static void it_sees_what_its_role_may(void **state)
{
	struct look look;
	struct error error;

	(void)state;
	assert_int_equal(ask(&look, ROLE_VIEWER, CALLS, RT_FLAG_STRINGS, &error), -EACCES);
	assert_string_equal(error.code, "viewer-flags");
	ask_watch_end(&look.watch);
	assert_int_equal(ask(&look, ROLE_VIEWER, CALLS, 0, &error), 0);
	PEER_AWAIT(e.base, look.watch.stream);
	assert_true(look.watch.stream->rate.bound);
	ask_watch_end(&look.watch);
	assert_int_equal(ask(&look, ROLE_OPERATOR, CALLS, RT_FLAG_STRINGS, &error), 0);
	PEER_AWAIT(e.base, look.watch.stream);
	assert_false(look.watch.stream->rate.bound);
	ask_watch_end(&look.watch);
	assert_int_equal(ask(&look, ROLE_OPERATOR, "syscall:nothing:call", 0, &error), -ENOENT);
	ask_watch_end(&look.watch);
	ask_watch_end(&look.watch);
	assert_int_equal(look.refusals, 0);
}

/* At once, and not after history-age: nobody comes back for it. */
static void nothing_is_recorded_when_it_has_ended(void **state)
{
	struct look look;

	(void)state;
	begin(&look, CALLS);
	assert_true(records(SMALL_GETPPID));
	ask_watch_end(&look.watch);
	assert_null(look.watch.stream);
	PEER_AWAIT(e.base, !records(SMALL_GETPPID));
	ask_watch_end(&look.watch);
	engine_write(&e, 10);
	engine_settle(&e);
	assert_int_equal(look.events, 0);
}

/* Before it is recorded, and with frames that wait. */
static void it_may_end_at_any_time(void **state)
{
	struct error error;
	struct look look;

	(void)state;
	e.loader.hold = true;
	assert_int_equal(ask(&look, ROLE_OPERATOR, CALLS, 0, &error), 0);
	peer_run(e.base);
	assert_null(look.watch.stream);
	assert_int_equal(ask_watch_residual(&look.watch), 0);
	ask_watch_end(&look.watch);
	engine_let(&e.loader);
	peer_run(e.base);
	assert_int_equal(look.refusals, 0);
	begin(&look, CALLS);
	for (unsigned i = 0; i < 10; i++) {
		engine_write(&e, 20);
		engine_empty_rings(&e);
	}
	for (unsigned i = 0; i < 1000 && !look.events; i++)
		event_base_loop(e.base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
	assert_true(look.events);
	ask_watch_end(&look.watch);
	engine_settle(&e);
}

static void a_refusal_of_the_kernel_is_told(void **state)
{
	struct error error;
	struct look look;

	(void)state;
	e.loader.refuse_probe = SMALL_GETPPID;
	assert_int_equal(ask(&look, ROLE_OPERATOR, CALLS, 0, &error), 0);
	PEER_AWAIT(e.base, look.refusals);
	assert_int_equal(look.refusals, 1);
	assert_string_equal(look.error.code, "refused");
	assert_null(look.watch.stream);
	assert_int_equal(ask_watch_residual(&look.watch), 0);
	ask_watch_end(&look.watch);
}

/* The daemon ends: that is no refusal. */
static void an_end_of_the_daemon_is_no_refusal(void **state)
{
	struct error error;
	struct look look, waits;

	(void)state;
	begin(&look, CALLS);
	e.loader.hold = true;
	assert_int_equal(ask(&waits, ROLE_OPERATOR, READS, 0, &error), 0);
	fanout_stop(e.fanout, "the test is over", engine_stopped, &e);
	engine_let(&e.loader);
	PEER_AWAIT(e.base, e.stops);
	assert_int_equal(waits.refusals + look.refusals, 0);
	ask_watch_end(&waits.watch);
	ask_watch_end(&look.watch);
}

/* Whichever allocation fails, it is told, nothing stays recorded, and the next time it works. */
static void without_memory_it_does_not_begin(void **state)
{
	struct error error;
	struct look look;
	unsigned n = 0;

	(void)state;
	do {
		struct ask_watches *one;

		memory_fails_after(n++);
		one = ask_watches_create(&(struct ask_watches_config){
			.base = e.base, .fanout = e.fanout, .codec = e.codec, .catalog = &catalog});
		memory_suffices();
		if (one)
			n = 0;
		ask_watches_destroy(one);
	} while (n);
	for (int err = -ENOMEM; err; n++) {
		error = (struct error){0};
		memory_fails_after(n);
		err = ask(&look, ROLE_OPERATOR, CALLS, 0, &error);
		memory_suffices();
		assert_true(!err || err == -ENOMEM);
		assert_int_equal(*error.code != 0, err != 0);
		PEER_AWAIT(e.base, err || look.watch.stream || look.refusals);
		ask_watch_end(&look.watch);
		PEER_AWAIT(e.base, !records(SMALL_GETPPID));
	}
	begin(&look, CALLS);
	engine_write(&e, 10);
	engine_settle(&e);
	assert_int_equal(look.events, 10);
	ask_watch_end(&look.watch);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_engine, close_engine)
	const struct CMUnitTest tests[] = {
		TEST(each_event_is_handed_over_once),
		TEST(a_backlog_keeps_nothing_else_from_the_loop),
		TEST(what_is_lost_is_in_the_ledger),
		TEST(what_is_over_its_rate_is_in_the_ledger),
		TEST(what_cannot_be_read_is_counted),
		TEST(probes_that_were_made_since_are_known),
		TEST(it_sees_what_its_role_may),
		TEST(nothing_is_recorded_when_it_has_ended),
		TEST(it_may_end_at_any_time),
		TEST(a_refusal_of_the_kernel_is_told),
		TEST(an_end_of_the_daemon_is_no_refusal),
		TEST(without_memory_it_does_not_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
