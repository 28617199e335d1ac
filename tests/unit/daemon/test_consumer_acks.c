/*
 * What acknowledgements of durable consumers free, and what they do not: only what a consumer was sent, at
 * the slowest consumer's place, and nothing that was always on. What a consumer gives up is written down
 * first, or it gives up nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "daemon/access/audit.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "tests/unit/daemon/durable_engine.h"

#define CALLS	"syscall:getppid:call"
#define ROUNDS	24u
#define CALLS_OF_ROUND 100u

/* Of the real disk, but for the audit log while it fails. */
static int (*open_file)(struct disk *disk, const char *path, int flags);
static bool audit_fails;

static int open_or_fail(struct disk *of, const char *path, int flags)
{
	return audit_fails && strcmp(path, AUDIT_FILE) == 0 ? -EIO : open_file(of, path, flags);
}

static int setup(void **state)
{
	(void)state;
	durable_engine_setup();
	open_file = disk_ops.open;
	disk_ops.open = open_or_fail;
	audit_fails = false;
	return 0;
}

/* ---- Consumers ------------------------------------------------------------------------------- */

/* A viewer, called `local`, that subscribes as that consumer; probe NULL: to what is always on. */
static struct watcher consume(struct engine *e, const char *name, const char *probe)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	char *probes[] = {(char *)probe};
	struct watcher watcher = {0};
	int fd;

	watcher.peer = peer_pair(e->base, &fd);
	server_serve(e->server, SERVER_PLAIN, transport_plain_create(fd), "127.0.0.1:9");
	peer_greet(watcher.peer);
	subscribe.probe = probes;
	subscribe.n_probe = probe != NULL;
	subscribe.consumer = (char *)name;
	peer_send(watcher.peer, FRAME_SUBSCRIBE, &subscribe);
	watcher_start(&watcher);
	return watcher;
}

/* For good: its subscription does not wait for it. */
static void leave(struct engine *e, struct watcher *watcher)
{
	peer_send_bye(watcher->peer);
	peer_run(e->base);
	peer_close(watcher->peer);
	peer_run(e->base);
}

/* Of what is told of one ring, as a cursor. */
struct place {
	char boot_id[16];
	uint64_t epoch;
	uint32_t cpus, cpu[ENGINE_RINGS];
	uint64_t seq[ENGINE_RINGS];
};

static struct place place_of(const struct watcher *watcher)
{
	return (struct place){.boot_id = "0123456789abcde", .epoch = engine_epoch,
			      .cpus = ENGINE_RINGS, .cpu = {engine_cpu[0], engine_cpu[1]},
			      .seq = {watcher->seq[0], watcher->seq[1]}};
}

static void acknowledge(struct peer *peer, const struct place *place)
{
	Ringtail__V1__Position position[ENGINE_RINGS], *list[ENGINE_RINGS];
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Ack ack = RINGTAIL__V1__ACK__INIT;

	cursor.boot_id.data = (uint8_t *)place->boot_id;
	cursor.boot_id.len = sizeof(place->boot_id);
	cursor.epoch = place->epoch;
	cursor.position = list;
	cursor.n_position = place->cpus;
	for (uint32_t i = 0; i < place->cpus; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = place->cpu[i];
		position[i].seq = place->seq[i];
		list[i] = &position[i];
	}
	ack.upto = &cursor;
	peer_send(peer, FRAME_ACK, &ack);
}

static void expect_refused(struct watcher *watcher, const struct place *place, const char *code)
{
	uint64_t refused = counter_read(COUNTER_acks_refused);
	Ringtail__V1__Error *error;

	acknowledge(watcher->peer, place);
	error = peer_await(watcher->peer, FRAME_ERROR);
	assert_int_equal(counter_read(COUNTER_acks_refused), refused + 1);
	assert_string_equal(error->code, code);
	assert_false(error->fatal);
	peer_free(error);
}

/* Acknowledges all that came, and waits for the disk to have done what follows from it. */
static void acknowledge_all(struct engine *e, struct watcher *watcher)
{
	struct place place = place_of(watcher);

	acknowledge(watcher->peer, &place);
	engine_settle(e);
}

static void forget(struct engine *e, const char *name, const char *code)
{
	Ringtail__V1__Forget message = RINGTAIL__V1__FORGET__INIT;
	struct peer *peer = engine_connect(e);

	peer_greet(peer);
	message.consumer = (char *)name;
	peer_send(peer, FRAME_FORGET, &message);
	if (code)
		peer_expect_error(peer, code, false);
	else
		peer_free(peer_expect(peer, FRAME_STAT));
	peer_close(peer);
	engine_settle(e);
}

static void set_always_on(struct engine *e, const char *probe)
{
	struct subscription_request request = {.glob = &probe, .globs = 1, .filter = ""};
	struct error error;

	assert_int_equal(fanout_set_permanent(e->fanout, probe ? &request : NULL, NULL, NULL,
					      &error), 0);
	engine_settle(e);
}

/* Events enough for many segments; returns how many segments there are. */
static unsigned fill(struct engine *e)
{
	unsigned before = segments("");

	for (unsigned i = 0; i < ROUNDS || segments("") < before + 6; i++) {
		engine_write(e, CALLS_OF_ROUND);
		engine_settle(e);
		assert_true(i < 100 * ROUNDS);
	}
	engine_settle(e);
	return segments("");
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void consumer_acks_beyond(void **state)
{
	struct watcher watcher;
	struct place good, bad;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	engine_write(&e, 1000);
	watcher_await(&watcher, 1000);
	good = place_of(&watcher);

	bad = good, bad.seq[0] = bad.seq[1] = UINT64_MAX;
	expect_refused(&watcher, &bad, "ack-beyond");
	bad = good, bad.seq[1]++;
	expect_refused(&watcher, &bad, "ack-beyond");
	bad = good, bad.cpu[0] = 7;
	expect_refused(&watcher, &bad, "ack-beyond");
	bad = good, bad.boot_id[3] = '!';
	expect_refused(&watcher, &bad, "ack-beyond");
	bad = good, bad.epoch++;
	expect_refused(&watcher, &bad, "ack-beyond");
	bad = good, bad.epoch--;
	expect_refused(&watcher, &bad, "ack-beyond");
	bad = good, bad.cpu[1] = bad.cpu[0], bad.seq[1] = bad.seq[0];
	expect_refused(&watcher, &bad, "cursor-invalid");
	leave(&e, &watcher);
	disk_thread_settle(e.disk_thread);
	assert_non_null(strstr(text_of("consumers"), "acked 0\n"));

	/* What an earlier connection was sent may be acknowledged before it is sent again. */
	watcher = consume(&e, "mine", CALLS);
	acknowledge(watcher.peer, &good);
	engine_settle(&e);
	leave(&e, &watcher);
	disk_thread_settle(e.disk_thread);
	assert_null(strstr(text_of("consumers"), "acked 0\n"));
	/* Nothing goes back, and nobody is refused for saying less. */
	watcher = consume(&e, "mine", CALLS);
	assert_int_equal(watcher.seq[0], good.seq[0]);
	bad = good, bad.seq[0] -= 5, bad.cpus = 1;
	acknowledge(watcher.peer, &bad);
	bad = good, bad.cpus = 0;
	acknowledge(watcher.peer, &bad);
	engine_write(&e, 10);
	watcher_await(&watcher, 10);
	leave(&e, &watcher);
	watcher = consume(&e, "mine", CALLS);
	assert_int_equal(watcher.seq[0], good.seq[0]);
	leave(&e, &watcher);
	engine_close(&e);
}

/* Of an earlier run of the rings, too: what came out of the spool, and no more. */
static void consumer_acks_beyond_an_earlier_run(void **state)
{
	struct watcher watcher;
	struct place earlier, bad;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	engine_write(&e, 1000);
	watcher_await(&watcher, 1000);
	earlier = place_of(&watcher);
	leave(&e, &watcher);
	engine_close(&e);

	engine_epoch = 100;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	for (unsigned events = 0; events < 1000;) {
		Ringtail__V1__Batch *batch = peer_await(watcher.peer, FRAME_BATCH);

		events += batch->events;
		peer_free(batch);
	}
	bad = earlier, bad.seq[0] += 1000;
	expect_refused(&watcher, &bad, "ack-beyond");
	acknowledge(watcher.peer, &earlier);
	engine_settle(&e);
	leave(&e, &watcher);
	engine_close(&e);
	assert_null(strstr(text_of("consumers"), "acked 0\n"));
}

/* ---- What is freed --------------------------------------------------------------------------- */

static void always_on_kept_from_acks(void **state)
{
	struct watcher watcher;
	struct engine e;
	unsigned kept;

	(void)state;
	engine_open(&e, 2, 1, 8);
	set_always_on(&e, CALLS);
	watcher = consume(&e, "mine", NULL);
	kept = fill(&e);
	watcher_await(&watcher, e.written);
	acknowledge_all(&e, &watcher);
	leave(&e, &watcher);
	assert_true(segments("") >= kept);
	forget(&e, "mine", NULL);
	assert_true(segments("") >= kept);

	/* It is on no longer: what was recorded stays all the same, what comes is the consumer's alone. */
	watcher = consume(&e, "mine", CALLS);
	set_always_on(&e, NULL);
	watcher.events = e.written;
	fill(&e);
	watcher_await(&watcher, e.written);
	acknowledge_all(&e, &watcher);
	leave(&e, &watcher);
	assert_true(segments("") >= kept);
	forget(&e, "mine", NULL);
	assert_true(segments("") >= kept);
	engine_close(&e);

	/* Nor do the daemon's next run, and one who asks for the same as what was always on then. */
	engine_epoch = 100;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	engine_settle(&e);
	leave(&e, &watcher);
	forget(&e, "mine", NULL);
	disk_thread_settle(e.disk_thread);
	assert_true(segments("") >= kept);
	engine_close(&e);
}

/* It becomes always on while a segment that was the consumer's alone is written: that one ends there. */
static void always_on_begins_a_segment(void **state)
{
	struct watcher watcher;
	struct engine e;

	(void)state;
	engine_segment_bytes = 1 << 20;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	engine_write(&e, 20);
	watcher_await(&watcher, 20);
	PEER_AWAIT(e.base, segments("") == 1);
	set_always_on(&e, CALLS);
	engine_write(&e, 20);
	watcher_await(&watcher, 40);
	PEER_AWAIT(e.base, segments("") == 2);
	acknowledge_all(&e, &watcher);
	PEER_AWAIT(e.base, segments("") == 1);
	leave(&e, &watcher);
	forget(&e, "mine", NULL);
	assert_int_equal(segments(""), 1);
	engine_close(&e);
}

/* Whoever of them is the slowest, in whatever order they are listed; and of each CPU, the slowest. */
static void freed_at_the_slowest_place(void **state)
{
	static const char *const name[] = {"first", "second", "third"};

	(void)state;
	for (unsigned slowest = 0; slowest < 3; slowest++) {
		struct watcher watcher[3];
		unsigned long last;
		struct place half;
		unsigned kept;
		struct engine e;

		if (slowest)
			setup(NULL);
		engine_open(&e, 2, 1, 8);
		for (unsigned i = 0; i < 3; i++)
			watcher[i] = consume(&e, name[i], CALLS);
		kept = fill(&e);
		for (unsigned i = 0; i < 3; i++)
			watcher_await(&watcher[i], e.written);
		for (unsigned i = 0; i < 3; i++)
			if (i != slowest)
				acknowledge_all(&e, &watcher[i]);
		assert_true(segments("") >= kept);
		/* One CPU of two: what goes now is at most what has batches of that one alone. */
		half = place_of(&watcher[slowest]);
		half.cpus = 1;
		acknowledge(watcher[slowest].peer, &half);
		engine_settle(&e);
		assert_true(segments("") >= kept / 2 && segments("") > 1);
		last = newest_segment("");
		acknowledge_all(&e, &watcher[slowest]);
		PEER_AWAIT(e.base, oldest_segment("") >= last);
		for (unsigned i = 0; i < 3; i++)
			leave(&e, &watcher[i]);
		engine_close(&e);
		if (slowest < 2)
			teardown(NULL);
	}
}

/* Registers one as `mine` is, of which no place was written down yet. */
static void register_without_place(const char *name)
{
	const char *block = strstr(text_of("consumers"), "consumer mine\n"), *at, *rest;
	char path[256];
	FILE *file;

	assert_non_null(block);
	at = strstr(block, "\nat ");
	assert_non_null(at);
	rest = strchr(at + 1, '\n');
	snprintf(path, sizeof(path), "%s/consumers", directory);
	file = fopen(path, "a");
	assert_non_null(file);
	fprintf(file, "consumer %s%.*s%s", name, (int)(at - strchr(block, '\n')), strchr(block, '\n'), rest);
	assert_int_equal(fclose(file), 0);
}

static void kept_while_one_has_no_place(void **state)
{
	struct watcher watcher;
	struct place earlier;
	struct engine e;
	unsigned kept;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	kept = fill(&e);
	watcher_await(&watcher, e.written);
	earlier = place_of(&watcher);
	leave(&e, &watcher);
	engine_close(&e);
	register_without_place("second");

	engine_epoch = 100;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	for (uint64_t events = 0, all = earlier.seq[0] + earlier.seq[1]; events < all;) {
		Ringtail__V1__Batch *batch = peer_await(watcher.peer, FRAME_BATCH);

		events += batch->events;
		peer_free(batch);
	}
	acknowledge(watcher.peer, &earlier);
	engine_settle(&e);
	assert_non_null(strstr(text_of("consumers"), "consumer second\n"));
	assert_true(segments("") >= kept);
	leave(&e, &watcher);
	forget(&e, "second", NULL);		/* nobody else needs them */
	PEER_AWAIT(e.base, segments("") < kept);
	engine_close(&e);
}

/* ---- Where a run begins ------------------------------------------------------------------------ */

static void expect_gap_not_of_space(struct watcher *watcher, uint64_t first_seq, uint64_t end_seq)
{
	Ringtail__V1__Gap *gap = peer_await(watcher->peer, FRAME_GAP);

	assert_int_equal(gap->first_seq, first_seq);
	assert_int_equal(gap->end_seq, end_seq);
	assert_int_not_equal(gap->reason, LOSS_REASON_SPOOL_FULL);
	peer_free(gap);
}

/* A client's cursor is of before the record that is on disk: it is not told that this was discarded for space. */
static void nothing_discarded_before_the_record_on_disk(void **state)
{
	Ringtail__V1__Position position[ENGINE_RINGS], *list[ENGINE_RINGS];
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	struct watcher watcher, late;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	engine_write(&e, 50);			/* before its subscription is there */
	engine_settle(&e);
	watcher = consume(&e, "mine", CALLS);
	engine_write(&e, 20);
	watcher_await(&watcher, 20);
	cursor.boot_id.data = (uint8_t *)"0123456789abcde";
	cursor.boot_id.len = 16;
	cursor.epoch = engine_epoch;
	cursor.position = list;
	cursor.n_position = ENGINE_RINGS;
	for (unsigned i = 0; i < ENGINE_RINGS; i++) {
		list[i] = &position[i];
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = engine_cpu[i];
		position[i].seq = 10;
	}
	late = watcher_open(&e, CALLS, NULL, &cursor);
	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		expect_gap_not_of_space(&late, 10, 25);
	leave(&e, &late);
	leave(&e, &watcher);
	engine_close(&e);
}

/*
 * The next daemon reads the same rings, from beyond what the one before had stored: that gap has a size, so
 * no other is told, though a run between the two recorded nothing for the consumer.
 */
static void gap_before_what_the_next_daemon_reads(void **state)
{
	struct watcher watcher;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	engine_write(&e, 100);
	watcher_await(&watcher, 100);
	leave(&e, &watcher);
	engine_close(&e);

	engine_open(&e, 2, 1, 8);
	engine_write(&e, 300);			/* before its subscription is there */
	engine_settle(&e);
	consumers_find(e.consumers, "mine")->unrecorded = true;
	watcher = consume(&e, "mine", CALLS);
	engine_write(&e, 20);
	watcher_await(&watcher, 120);
	assert_int_equal(watcher.gaps, ENGINE_RINGS);
	leave(&e, &watcher);
	engine_close(&e);
}

/* ---- What a place says ------------------------------------------------------------------------ */

static void write_first_ring(struct engine *e, unsigned calls)
{
	const uint64_t payload[] = {100, 1};
	struct ring_writer_record record = {.probe = SMALL_GETPPID, .tid = ENGINE_PID,
					    .payload = payload, .words = 2};

	for (unsigned i = 0; i < calls; i++)
		assert_int_equal(ring_writer_write(e->writer[0], &record), 0);
}

/* The first Batch of this run, behind all of the run before. */
static struct place await_run(struct watcher *watcher)
{
	struct place place = {.boot_id = "0123456789abcde", .epoch = engine_epoch, .cpus = 1};
	Ringtail__V1__Batch *batch;
	Ringtail__V1__ServerHello *hello;

	do {
		hello = peer_await(watcher->peer, FRAME_SERVER_HELLO);
		place.epoch = hello->epoch;
		peer_free(hello);
	} while (place.epoch != engine_epoch);
	batch = peer_await(watcher->peer, FRAME_BATCH);
	place.cpu[0] = batch->cpu;
	place.seq[0] = batch->end_seq;
	peer_free(batch);
	return place;
}

/*
 * It was sent a batch of one CPU of a run, and acknowledges that, before a watermark tells where the
 * run's record begins on the others: there it has missed nothing when it comes back, whatever the
 * numbers were that its subscription did not record.
 */
static void acknowledged_before_the_first_watermark(void **state)
{
	struct watcher watcher;
	struct place place;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	engine_write(&e, 100);
	watcher_await(&watcher, 100);
	leave(&e, &watcher);
	engine_close(&e);

	engine_epoch = 100;
	engine_open(&e, 2, 1, 8);
	engine_write(&e, 50);			/* before its subscription is there */
	engine_settle(&e);
	write_first_ring(&e, 10);
	watcher = consume(&e, "mine", CALLS);
	place = await_run(&watcher);
	assert_int_equal(place.cpu[0], engine_cpu[0]);
	assert_in_range(place.seq[0], 26, 35);		/* of the ten, all or the first */
	acknowledge(watcher.peer, &place);
	engine_settle(&e);
	leave(&e, &watcher);

	watcher = consume(&e, "mine", CALLS);
	assert_true(watcher.resumed);
	watcher.seq[0] = place.seq[0];
	watcher.seq[1] = 25;
	engine_write(&e, 10);
	watcher_await(&watcher, 35 - place.seq[0] + 10);
	assert_int_equal(watcher.gaps, 0);
	leave(&e, &watcher);
	engine_close(&e);
}

/* ---- What is written down -------------------------------------------------------------------- */

static void kept_while_the_audit_log_fails(void **state)
{
	struct watcher watcher;
	struct engine e;
	unsigned kept;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = consume(&e, "mine", CALLS);
	kept = fill(&e);
	leave(&e, &watcher);
	audit_fails = true;
	forget(&e, "mine", "audit-failed");
	assert_true(segments("") >= kept);
	audit_fails = false;
	watcher = consume(&e, "mine", CALLS);		/* it is there, as it was */
	watcher_await(&watcher, e.written);
	leave(&e, &watcher);
	assert_null(strstr(text_of(AUDIT_FILE), "\"action\":\"forget\""));
	forget(&e, "mine", NULL);
	PEER_AWAIT(e.base, segments("") == 0);
	assert_non_null(strstr(text_of(AUDIT_FILE), "\"action\":\"forget\",\"consumer\":\"mine\""));
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(consumer_acks_beyond, setup, teardown),
		cmocka_unit_test_setup_teardown(consumer_acks_beyond_an_earlier_run, setup, teardown),
		cmocka_unit_test_setup_teardown(always_on_kept_from_acks, setup, teardown),
		cmocka_unit_test_setup_teardown(always_on_begins_a_segment, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_at_the_slowest_place, setup, teardown),
		cmocka_unit_test_setup_teardown(kept_while_one_has_no_place, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_discarded_before_the_record_on_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(gap_before_what_the_next_daemon_reads, setup, teardown),
		cmocka_unit_test_setup_teardown(acknowledged_before_the_first_watermark, setup, teardown),
		cmocka_unit_test_setup_teardown(kept_while_the_audit_log_fails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
