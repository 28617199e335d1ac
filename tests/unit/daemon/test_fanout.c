/*
 * From two rings to clients through workers, fanout and sessions, with a loader made by hand that holds
 * back, refuses, finishes and dies: the life of subscriptions, and every way it all ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "daemon/base/limits.h"
#include "tests/unit/daemon/small_engine.h"

#define CALLS "syscall:getppid:call"
#define READS "syscall:read:call"
#define CLIENTS_SUBSCRIPTIONS (SUBSCRIPTIONS_MAX - SUBSCRIPTIONS_OWN)

static void await_configures(struct engine *e, unsigned configures)
{
	PEER_AWAIT(e->base, e->loader.configures >= configures);
	assert_int_equal(e->loader.configures, configures);
}

static bool records(const struct engine *e, unsigned probe)
{
	return e->loader.request.probes[probe / 8] >> probe % 8 & 1;
}

struct permanent {
	unsigned done;
	char code[sizeof(((struct error *)0)->code)];	/* "": it is in force */
};

static void on_permanent(void *context, const struct error *error)
{
	struct permanent *permanent = context;

	permanent->done++;
	snprintf(permanent->code, sizeof(permanent->code), "%s", error ? error->code : "");
}

static void ask_permanent(struct engine *e, const char *probe, const char *filter,
			  struct permanent *permanent)
{
	struct subscription_request request = {.glob = &probe, .globs = 1, .filter = filter};
	struct error error;

	*permanent = (struct permanent){0};
	assert_int_equal(fanout_set_permanent(e->fanout, probe ? &request : NULL, on_permanent,
					      permanent, &error), 0);
}

static void set_permanent(struct engine *e, const char *probe, const char *filter)
{
	struct permanent permanent;

	ask_permanent(e, probe, filter, &permanent);
	PEER_AWAIT(e->base, permanent.done);
	assert_string_equal(permanent.code, "");
}

static void leave(struct watcher *watcher)
{
	peer_send_bye(watcher->peer);
	peer_close(watcher->peer);
}

/* Two that want the same share one subscription; a third has its own; all get all of theirs. */
static void test_clients(void **state)
{
	for (unsigned workers = 1; workers <= 2; workers++) {
		struct watcher same[2], other;
		struct engine e;

		(void)state;
		engine_open(&e, 2, workers, 8);
		engine_write(&e, 100);	/* before anybody came */
		same[0] = watcher_open(&e, CALLS, NULL, NULL);
		same[1] = watcher_open(&e, CALLS, NULL, NULL);
		assert_int_equal(e.loader.configures, 1);
		other = watcher_open(&e, CALLS, "ret > 200", NULL);
		assert_int_equal(e.loader.configures, 2);
		for (unsigned i = 0; i < 20; i++) {
			engine_write(&e, 1000);
			peer_run_for(e.base, 1000000);
		}
		watcher_await(&same[0], 20000);
		watcher_await(&same[1], 20000);
		watcher_await(&other, 20000 - 100);
		engine_check_ledger(&e);
		peer_close(same[0].peer);
		peer_close(same[1].peer);
		peer_close(other.peer);
		engine_close(&e);
	}
}

/* A filter is asked of its own probes; it neither hides nor opens what others want. */
static void test_filters_apart(void **state)
{
	const struct source_request *request;
	struct watcher filtered, all;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	request = &e.loader.request;
	filtered = watcher_open(&e, CALLS, "pid == 7", NULL);
	assert_int_equal(request->clauses, 1);
	assert_false(request->unfiltered[SMALL_GETPPID / 8] >> SMALL_GETPPID % 8 & 1);
	all = watcher_open(&e, READS, NULL, NULL);
	assert_int_equal(request->clauses, 1);
	assert_int_equal(request->clause[0].pid, 7);
	assert_false(request->unfiltered[SMALL_GETPPID / 8] >> SMALL_GETPPID % 8 & 1);
	assert_true(request->unfiltered[SMALL_READ / 8] >> SMALL_READ % 8 & 1);
	/* Without a filter on anything there are no clauses to ask. */
	leave(&filtered);
	await_configures(&e, 3);
	assert_int_equal(request->clauses, 0);
	peer_close(all.peer);
	engine_close(&e);
}

/* The kernel records what was asked for, as long as it is, and changes meanwhile are not lost. */
static void test_union(void **state)
{
	struct engine e;
	struct watcher calls, reads;
	struct peer *late;

	(void)state;
	engine_open(&e, 2, 1, 8);
	calls = watcher_open(&e, CALLS, NULL, NULL);
	assert_true(records(&e, SMALL_GETPPID) && !records(&e, SMALL_READ));
	e.loader.hold = true;
	reads.peer = engine_connect(&e);
	peer_greet(reads.peer);
	peer_send_subscribe(reads.peer, READS, NULL, NULL);
	await_configures(&e, 2);
	late = engine_connect(&e);
	peer_greet(late);
	peer_send_subscribe(late, "syscall:kill:call", NULL, NULL);
	peer_run(e.base);
	assert_int_equal(e.loader.configures, 2);	/* one at a time */
	engine_let(&e.loader);
	watcher_start(&reads);
	peer_free(peer_expect(late, FRAME_CATALOG));
	assert_int_equal(e.loader.configures, 3);
	assert_true(records(&e, SMALL_GETPPID) && records(&e, SMALL_READ) &&
		    records(&e, SMALL_KILL));
	/* One that says Bye is not kept for; one that only goes is. */
	peer_send_bye(late);
	peer_close(late);
	peer_close(calls.peer);
	await_configures(&e, 4);
	assert_true(records(&e, SMALL_GETPPID) && records(&e, SMALL_READ) &&
		    !records(&e, SMALL_KILL));
	peer_close(reads.peer);
	engine_close(&e);
}

/* What the kernel is to look at is there once, whoever wants it; beyond its room it passes all. */
static void test_union_of_filters(void **state)
{
	struct watcher watcher[2 * RT_FILTER_CLAUSES_MAX + 1];
	unsigned watchers = 0;
	struct engine e;
	char filter[48];

	(void)state;
	engine_open(&e, 2, 1, 64);
	for (unsigned i = 0; i < RT_FILTER_CLAUSES_MAX + 1; i++) {
		snprintf(filter, sizeof(filter), "pid == 100 && ret != %u", i);
		watcher[watchers++] = watcher_open(&e, CALLS, filter, NULL);
		assert_int_equal(e.loader.request.clauses, 1);
	}
	for (unsigned i = 1; i < RT_FILTER_CLAUSES_MAX; i++) {
		snprintf(filter, sizeof(filter), "pid in (100, %u)", 100 + i);
		watcher[watchers++] = watcher_open(&e, CALLS, filter, NULL);
		assert_int_equal(e.loader.request.clauses, 1 + i);
		assert_int_equal(e.loader.request.clause[i].pid, 100 + i);
	}
	watcher[watchers++] = watcher_open(&e, CALLS, "pid in (100, 999)", NULL);
	assert_int_equal(e.loader.request.clauses, 0);
	while (watchers)
		peer_close(watcher[--watchers].peer);
	engine_close(&e);
}

static void test_refused_by_the_loader(void **state)
{
	struct engine e;
	struct watcher calls;
	struct peer *peer;

	(void)state;
	engine_open(&e, 2, 2, 8);
	calls = watcher_open(&e, CALLS, NULL, NULL);
	e.loader.refuse = true;
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, READS, NULL, NULL);
	peer_expect_error(peer, "refused", true);
	peer_expect_end(peer);
	/* What is in force is told again, without it. */
	assert_int_equal(e.loader.configures, 3);
	assert_true(records(&e, SMALL_GETPPID) && !records(&e, SMALL_READ));
	engine_write(&e, 10);
	watcher_await(&calls, 10);
	peer_close(peer);
	/* And it can be asked for again. */
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, READS, NULL, NULL);
	peer_free(peer_expect(peer, FRAME_CATALOG));
	peer_close(peer);
	peer_close(calls.peer);
	engine_close(&e);
}

/* Three come while the loader is busy, so that it hears of them at once: one is refused, not three. */
static void test_one_of_three_is_refused(void **state)
{
	static const char *const probes[] = {CALLS, READS, "syscall:openat:call"};
	struct peer *peer[3];
	struct watcher calls;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 2, 8);
	e.loader.refuse_probe = SMALL_READ;
	e.loader.hold = true;
	peer_greet(peer[0] = engine_connect(&e));
	peer_greet(peer[1] = engine_connect(&e));
	peer_greet(peer[2] = engine_connect(&e));
	for (unsigned i = 0; i < 3; i++)
		peer_send_subscribe(peer[i], probes[i], NULL, NULL);
	calls = (struct watcher){.peer = engine_connect(&e)};
	peer_greet(calls.peer);
	peer_send_subscribe(calls.peer, CALLS, NULL, NULL);
	peer_run(e.base);
	engine_let(&e.loader);
	peer_expect_error(peer[1], "refused", true);
	watcher_start(&calls);
	for (unsigned i = 0; i < 3; i += 2) {
		peer_free(peer_expect(peer[i], FRAME_CATALOG));
		peer_free(peer_expect(peer[i], FRAME_SUBSCRIBED));
	}
	assert_true(records(&e, SMALL_GETPPID) && records(&e, SMALL_OPENAT) &&
		    !records(&e, SMALL_READ));
	engine_write(&e, 10);
	watcher_await(&calls, 10);
	for (unsigned i = 0; i < 3; i++)
		peer_close(peer[i]);
	peer_close(calls.peer);
	engine_close(&e);
}

/* What the meters want is refused, by itself or with a client's: the client does not pay for it. */
static void test_meter_is_refused(void **state)
{
	struct probe_set wanted = {0}, none = {0};
	struct watcher calls;
	struct engine e;

	(void)state;
	probe_set_add(&wanted, SMALL_READ);
	for (unsigned together = 0; together < 2; together++) {
		engine_open(&e, 2, 1, 8);
		e.loader.refuse_probe = SMALL_READ;
		e.loader.hold = together;
		calls = (struct watcher){.peer = engine_connect(&e)};
		peer_greet(calls.peer);
		if (together)
			fanout_set_meter(e.fanout, &none);
		fanout_set_meter(e.fanout, &wanted);
		peer_send_subscribe(calls.peer, CALLS, NULL, NULL);
		peer_run(e.base);
		engine_let(&e.loader);
		watcher_start(&calls);
		assert_true(records(&e, SMALL_GETPPID) && !records(&e, SMALL_READ));
		engine_write(&e, 10);
		watcher_await(&calls, 10);
		/* It may be wanted again. */
		e.loader.refuse_probe = 0;
		fanout_set_meter(e.fanout, &wanted);
		PEER_AWAIT(e.base, records(&e, SMALL_READ));
		peer_close(calls.peer);
		engine_close(&e);
	}
}

/* What was always on stays on where what is to be is refused, and whoever asked learns why. */
static void test_permanent_is_refused(void **state)
{
	struct permanent permanent;
	struct watcher first;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	set_permanent(&e, CALLS, NULL);
	e.loader.refuse_probe = SMALL_READ;
	e.loader.hold = true;
	ask_permanent(&e, READS, NULL, &permanent);
	peer_run(e.base);
	assert_int_equal(permanent.done, 0);
	engine_let(&e.loader);
	PEER_AWAIT(e.base, permanent.done);
	assert_string_equal(permanent.code, "refused");
	PEER_AWAIT(e.base, records(&e, SMALL_GETPPID) && !records(&e, SMALL_READ));
	first = watcher_open(&e, NULL, NULL, NULL);
	engine_write(&e, 10);
	watcher_await(&first, 10);
	leave(&first);
	/* In force is: the new is recorded, and the old is not any more. */
	e.loader.refuse_probe = 0;
	peer_run(e.base);
	ask_permanent(&e, READS, NULL, &permanent);
	PEER_AWAIT(e.base, permanent.done);
	assert_string_equal(permanent.code, "");
	assert_true(records(&e, SMALL_READ) && !records(&e, SMALL_GETPPID));
	engine_lose_loader(&e.loader);
	ask_permanent(&e, CALLS, NULL, &permanent);
	PEER_AWAIT(e.base, permanent.done);
	assert_string_equal(permanent.code, "loader-gone");
	engine_close(&e);
}

static void test_permanent(void **state)
{
	struct watcher first, same, narrow, second;
	struct engine e;
	struct peer *peer;

	(void)state;
	engine_open(&e, 2, 1, 8);
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, NULL, NULL, NULL);
	peer_expect_error(peer, "no-default-probes", true);
	peer_close(peer);

	set_permanent(&e, CALLS, "ret <= 100");
	first = watcher_open(&e, NULL, NULL, NULL);
	narrow = watcher_open(&e, NULL, "ret > 50", NULL);
	engine_write(&e, 200);
	watcher_await(&first, 100);
	watcher_await(&narrow, 50);
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, NULL, "ret >", NULL);
	Ringtail__V1__Error *error = peer_expect(peer, FRAME_ERROR);
	assert_int_equal(error->column, 6);
	peer_free(error);
	peer_close(peer);

	/* A reload that changes nothing, then one that does: whoever has the old keeps it. */
	set_permanent(&e, CALLS, "ret <= 100");
	same = watcher_open(&e, NULL, NULL, NULL);
	assert_int_equal(e.loader.configures, 2);
	set_permanent(&e, READS, NULL);
	second = watcher_open(&e, NULL, NULL, NULL);
	assert_true(records(&e, SMALL_GETPPID) && records(&e, SMALL_READ));
	leave(&first);
	leave(&same);
	leave(&narrow);
	PEER_AWAIT(e.base, !records(&e, SMALL_GETPPID));
	assert_true(records(&e, SMALL_READ));
	set_permanent(&e, NULL, NULL);
	leave(&second);
	PEER_AWAIT(e.base, !records(&e, SMALL_READ));
	engine_close(&e);
}

/* ---- Coming back ----------------------------------------------------------------------------- */

struct place {
	Ringtail__V1__Cursor cursor;
	Ringtail__V1__Position position[ENGINE_RINGS], *list[ENGINE_RINGS];
};

static void make_place(struct place *place, const struct watcher *watcher)
{
	ringtail__v1__cursor__init(&place->cursor);
	for (unsigned i = 0; i < ENGINE_RINGS; i++) {
		ringtail__v1__position__init(&place->position[i]);
		place->position[i].cpu = engine_cpu[i];
		place->position[i].seq = watcher->seq[i];
		place->list[i] = &place->position[i];
	}
	place->cursor.boot_id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcde"};
	place->cursor.epoch = 99;
	place->cursor.position = place->list;
	place->cursor.n_position = ENGINE_RINGS;
}

static void test_cursor(void **state)
{
	struct watcher watcher, again;
	struct place place;
	struct engine e;
	struct peer *peer;
	void *message;
	enum frame_type type;

	(void)state;
	engine_open(&e, 2, 2, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	make_place(&place, &watcher);
	engine_write(&e, 1000);
	watcher_await(&watcher, 1000);
	peer_close(watcher.peer);
	peer_run(e.base);
	engine_write(&e, 1000);	/* while it was away */
	again = watcher_open(&e, CALLS, NULL, &place.cursor);
	assert_true(again.resumed);
	engine_write(&e, 1000);
	watcher_await(&again, 3000);
	assert_int_equal(again.gaps, 0);
	peer_close(again.peer);

	/* Of what nobody had asked for there is nothing to resume. */
	make_place(&place, &watcher);
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, CALLS, "ret != 3", &place.cursor);
	peer_free(peer_expect(peer, FRAME_CATALOG));
	peer_free(peer_expect(peer, FRAME_SUBSCRIBED));
	message = peer_next(peer, &type);
	assert_int_equal(type, FRAME_GAP);
	assert_int_equal(((Ringtail__V1__Gap *)message)->stage, LOSS_STAGE_HISTORY);
	assert_int_equal(((Ringtail__V1__Gap *)message)->reason, LOSS_REASON_NOT_RECORDED);
	peer_free(message);
	peer_close(peer);
	engine_check_ledger(&e);

	place.position[1].cpu = 77;
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, CALLS, NULL, &place.cursor);
	peer_expect_error(peer, "cursor-invalid", true);
	peer_close(peer);

	place.cursor.epoch = 98;
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, CALLS, NULL, &place.cursor);
	peer_free(peer_expect(peer, FRAME_CATALOG));
	peer_free(peer_expect(peer, FRAME_SUBSCRIBED));
	message = peer_expect(peer, FRAME_GAP);
	assert_int_equal(((Ringtail__V1__Gap *)message)->reason, LOSS_REASON_OTHER_EPOCH);
	peer_free(message);
	peer_close(peer);
	engine_close(&e);
}

/* More in history than may wait for a slow client: who comes back for it still gets all of it. */
static void test_comes_back_for_much(void **state)
{
	struct watcher watcher, again;
	struct place place;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	make_place(&place, &watcher);
	for (unsigned i = 0; i < 20; i++) {
		engine_write(&e, 5000);
		watcher_await(&watcher, (i + 1) * 5000);
	}
	fanout_set_bounds(e.fanout, 16 << 20, 30 * NS_PER_S, 16 << 10, 0);
	again = watcher_open(&e, CALLS, NULL, &place.cursor);
	engine_write(&e, 10);
	watcher_await(&again, 100010);
	assert_int_equal(again.gaps, 0);
	peer_close(watcher.peer);
	peer_close(again.peer);
	engine_close(&e);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Whether one more may have a subscription of its own. */
static bool is_let_in(struct engine *e)
{
	struct peer *peer = engine_connect(e);
	enum frame_type type;

	peer_greet(peer);
	peer_send_subscribe(peer, READS, NULL, NULL);
	peer_free(peer_next(peer, &type));
	peer_close(peer);
	return type == FRAME_CATALOG;
}

/* One more is refused, and told what helps. */
static void expect_hint(struct engine *e, const char *hint)
{
	struct peer *peer = engine_connect(e);
	Ringtail__V1__Error *error;

	peer_greet(peer);
	peer_send_subscribe(peer, CALLS, "ret == 12345", NULL);
	error = peer_expect(peer, FRAME_ERROR);
	assert_string_equal(error->code, "too-many-subscriptions");
	assert_non_null(strstr(error->hint, hint));
	peer_free(error);
	peer_close(peer);
	peer_run(e->base);
}

static void test_too_many_subscriptions(void **state)
{
	static struct watcher watcher[CLIENTS_SUBSCRIPTIONS];
	struct engine e;
	char filter[32];

	(void)state;
	engine_open(&e, 2, 1, 200);
	for (unsigned i = 0; i < CLIENTS_SUBSCRIPTIONS; i++) {
		snprintf(filter, sizeof(filter), "ret != %u", i);
		watcher[i] = watcher_open(&e, CALLS, filter, NULL);
	}
	engine_write(&e, 100);
	for (unsigned i = 0; i < CLIENTS_SUBSCRIPTIONS; i++)
		watcher_await(&watcher[i], i && i <= 100 ? 99 : 100);
	engine_check_ledger(&e);
	expect_hint(&e, "end a client");
	/* What the daemon wants for itself has room. */
	set_permanent(&e, READS, NULL);
	PEER_AWAIT(e.base, records(&e, SMALL_READ));
	set_permanent(&e, NULL, NULL);
	peer_close(watcher[9].peer);
	peer_run(e.base);
	expect_hint(&e, "in a moment");
	peer_run(e.base);
	/* The one that was left makes room, if not at once. */
	PEER_AWAIT(e.base, is_let_in(&e));
	for (unsigned i = 0; i < CLIENTS_SUBSCRIPTIONS; i++)
		if (i != 9)
			peer_close(watcher[i].peer);
	engine_close(&e);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void test_stop(void **state)
{
	for (unsigned workers = 1; workers <= 2; workers++) {
		struct watcher watcher;
		struct peer *waiting, *late;
		struct engine e;

		(void)state;
		engine_open(&e, 2, workers, 8);
		watcher = watcher_open(&e, CALLS, NULL, NULL);
		e.loader.hold = true;
		waiting = engine_connect(&e);
		peer_greet(waiting);
		peer_send_subscribe(waiting, READS, NULL, NULL);
		await_configures(&e, 2);
		engine_write(&e, 5000);
		fanout_stop(e.fanout, "enough", engine_stopped, &e);
		peer_expect_error(waiting, "shutting-down", true);
		late = engine_connect(&e);
		peer_greet(late);
		peer_send_subscribe(late, CALLS, NULL, NULL);
		peer_expect_error(late, "shutting-down", true);
		engine_let(&e.loader);
		watcher_await_bye(&watcher);
		assert_int_equal(watcher.events, 5000);
		assert_string_equal(watcher.bye, "enough");
		assert_int_equal(e.stops, 1);
		assert_false(records(&e, SMALL_GETPPID));
		assert_true(server_flush(e.server));
		/* Nothing comes after a Bye. */
		peer_run_for(e.base, 20000000);
		assert_null(peer_take(watcher.peer, &(enum frame_type){0}));
		peer_close(waiting);
		peer_close(late);
		peer_close(watcher.peer);
		engine_close(&e);
	}
}

/* A writer is preempted for ever in the middle of a record: it is not waited for without end. */
static void test_stop_with_an_unfinished_writer(void **state)
{
	struct ring_writer_slot slot;
	uint64_t begin;
	struct watcher watcher;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	engine_write(&e, 100);
	assert_int_equal(ring_writer_reserve(e.writer[0], 2, 0, &slot), 0);
	engine_write(&e, 100);
	begin = clock_monotonic();
	fanout_stop(e.fanout, "enough", engine_stopped, &e);
	watcher_await_bye(&watcher);
	assert_true(clock_monotonic() - begin >= STOP_DRAIN_NS);
	assert_int_equal(watcher.events, 150);
	assert_int_equal(e.stops, 1);
	peer_close(watcher.peer);
	engine_close(&e);
}

static void test_source_ends(void **state)
{
	struct watcher watcher, same, back, narrow;
	struct place place;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 2, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	make_place(&place, &watcher);
	engine_write(&e, 5000);
	engine_report(&e.loader, (struct loader_report){.event = LOADER_FINISHED});
	watcher_await_bye(&watcher);
	assert_int_equal(watcher.events, 5000);
	assert_string_equal(watcher.bye, "the source has ended");
	/* Who comes late: from now on, for what there was, for something else. */
	same = watcher_open(&e, CALLS, NULL, NULL);
	watcher_await_bye(&same);
	assert_int_equal(same.events, 0);
	back = watcher_open(&e, CALLS, NULL, &place.cursor);
	watcher_await_bye(&back);
	assert_int_equal(back.events, 5000);
	make_place(&place, &watcher);
	peer_close(back.peer);
	back = watcher_open(&e, CALLS, NULL, &place.cursor);
	watcher_await_bye(&back);
	assert_int_equal(back.events, 0);
	narrow = watcher_open(&e, CALLS, "ret == 1", NULL);
	watcher_await_bye(&narrow);
	engine_check_ledger(&e);
	/* And then it is stopped: nobody hears a second Bye. */
	fanout_stop(e.fanout, "enough", engine_stopped, &e);
	PEER_AWAIT(e.base, e.stops == 1);
	peer_run_for(e.base, 20000000);
	assert_int_equal(e.stops, 1);
	assert_null(peer_take(watcher.peer, &(enum frame_type){0}));
	assert_null(peer_take(narrow.peer, &(enum frame_type){0}));
	peer_close(watcher.peer);
	peer_close(same.peer);
	peer_close(back.peer);
	peer_close(narrow.peer);
	engine_close(&e);
}

/* The source ends while a client waits for its subscription, and while the daemon stops. */
static void test_source_ends_meanwhile(void **state)
{
	struct watcher watcher, waiting;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	e.loader.hold = true;
	waiting = (struct watcher){.peer = engine_connect(&e)};
	peer_greet(waiting.peer);
	peer_send_subscribe(waiting.peer, READS, NULL, NULL);
	await_configures(&e, 2);
	engine_report(&e.loader, (struct loader_report){.event = LOADER_FINISHED});
	engine_let(&e.loader);
	watcher_start(&waiting);
	watcher_await_bye(&waiting);
	watcher_await_bye(&watcher);
	engine_report(&e.loader, (struct loader_report){.event = LOADER_FINISHED});
	fanout_stop(e.fanout, "enough", engine_stopped, &e);
	PEER_AWAIT(e.base, e.stops == 1);
	peer_run_for(e.base, 20000000);
	assert_int_equal(e.stops, 1);
	peer_close(watcher.peer);
	peer_close(waiting.peer);
	engine_close(&e);
}

static void test_loader_dies(void **state)
{
	struct watcher watcher;
	struct peer *peer;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 2, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	engine_write(&e, 3000);
	e.loader.gone = true;
	/* A request finds out first. */
	peer = engine_connect(&e);
	peer_greet(peer);
	peer_send_subscribe(peer, READS, NULL, NULL);
	peer_run(e.base);
	assert_true(e.failures > 0);
	fanout_stop(e.fanout, "the loader ended", engine_stopped, &e);
	peer_expect_error(peer, "shutting-down", true);
	engine_report(&e.loader, (struct loader_report){.event = LOADER_GONE});
	watcher_await_bye(&watcher);
	assert_int_equal(watcher.events, 3000);
	assert_string_equal(watcher.bye, "the loader ended");
	assert_int_equal(e.stops, 1);
	peer_close(peer);
	peer_close(watcher.peer);
	engine_close(&e);
}

/* It dies with a configuration on its way, while the daemon stops. */
static void test_loader_dies_while_stopping(void **state)
{
	struct watcher watcher;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	e.loader.hold = true;
	fanout_stop(e.fanout, "enough", engine_stopped, &e);
	e.loader.first = e.loader.end;	/* the answer never comes */
	e.loader.gone = true;
	engine_report(&e.loader, (struct loader_report){.event = LOADER_GONE});
	engine_let(&e.loader);
	watcher_await_bye(&watcher);
	assert_int_equal(e.stops, 1);
	peer_close(watcher.peer);
	engine_close(&e);
}

/* An empty recording has no rings. */
static void test_no_rings(void **state)
{
	struct watcher watcher;
	struct engine e;

	(void)state;
	engine_open(&e, 0, 1, 8);
	watcher = watcher_open(&e, CALLS, NULL, NULL);
	engine_report(&e.loader, (struct loader_report){.event = LOADER_FINISHED});
	watcher_await_bye(&watcher);
	assert_true(watcher.watermark_ns <= clock_monotonic());
	peer_close(watcher.peer);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clients),
		cmocka_unit_test(test_filters_apart),
		cmocka_unit_test(test_union),
		cmocka_unit_test(test_union_of_filters),
		cmocka_unit_test(test_refused_by_the_loader),
		cmocka_unit_test(test_one_of_three_is_refused),
		cmocka_unit_test(test_meter_is_refused),
		cmocka_unit_test(test_permanent_is_refused),
		cmocka_unit_test(test_permanent),
		cmocka_unit_test(test_cursor),
		cmocka_unit_test(test_comes_back_for_much),
		cmocka_unit_test(test_too_many_subscriptions),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_stop_with_an_unfinished_writer),
		cmocka_unit_test(test_source_ends),
		cmocka_unit_test(test_source_ends_meanwhile),
		cmocka_unit_test(test_loader_dies),
		cmocka_unit_test(test_loader_dies_while_stopping),
		cmocka_unit_test(test_no_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
