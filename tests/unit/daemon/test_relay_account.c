/*
 * The relay's account: of what its host has stored for it, how much it has acknowledged, and how much was lost before it
 * did. It closes at every moment, whatever the disk, memory and restarts do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>

#include "daemon/base/limits.h"
#include "daemon/spool/frame.h"
#include "daemon/spool/store.h"
#include "daemon/stream/durable.h"
#include "tests/unit/daemon/durable_engine.h"

#define CALLS	"syscall:getppid:call"
#define OPENS	"syscall:openat:call"

/* ---- What fails -------------------------------------------------------------------------------- */

/* While it is set, no spool can be listed, and no segment can be synced or begun. */
static bool disk_is_broken;
static int (*list_names)(struct disk *disk, const char *path, disk_entry *entry, void *context);
static int (*open_file)(struct disk *disk, const char *path, int flags);

/* Once a spool is listed, that thread gets no memory of so many bytes the first time that it asks for them; 0: it does. */
static _Atomic size_t refused_once_listed;
static _Thread_local size_t refused_bytes;

static int broken_list(struct disk *of, const char *path, disk_entry *entry, void *context)
{
	if (strncmp(path, "spool/", 6) == 0)
		refused_bytes = atomic_exchange(&refused_once_listed, 0);
	return disk_is_broken ? -EIO : list_names(of, path, entry, context);
}

static int broken_open(struct disk *of, const char *path, int flags)
{
	return disk_is_broken && strncmp(path, "spool/", 6) == 0 && (flags & O_CREAT) ? -EIO :
	       open_file(of, path, flags);
}

static int broken_sync(struct disk *of, int file)
{
	(void)of, (void)file;
	return disk_is_broken ? -EIO : 0;
}

/* So that what a failure put off need not be waited for. */
static _Atomic uint64_t clock_ahead_ns;

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);

uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + clock_ahead_ns;
}

static _Thread_local unsigned long fails_in = ULONG_MAX;	/* of this thread: so many allocations succeed yet */
static _Atomic unsigned refusals;	/* by refused_bytes */

static bool has_memory(void)
{
	return fails_in == ULONG_MAX || fails_in-- > 0 || (fails_in = ULONG_MAX, false);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return has_memory() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	if (refused_bytes && n * bytes == refused_bytes) {
		refused_bytes = 0;
		refusals++;
		return NULL;
	}
	return has_memory() ? __real_calloc(n, bytes) : NULL;
}

static int setup(void **state)
{
	(void)state;
	durable_engine_setup();
	list_names = disk_ops.list;
	disk_ops.list = broken_list;
	open_file = disk_ops.open;
	disk_ops.open = broken_open;
	disk_ops.sync = broken_sync;
	disk_is_broken = false;
	clock_ahead_ns = 0;
	engine_dials_relay = false;
	return 0;
}

/* ---- The account ------------------------------------------------------------------------------- */

static void find_account(void *context, const struct consumer_stat *stat)
{
	if (strcmp(stat->name, CONSUMER_RELAY) == 0)
		*(struct consumer_stat *)context = *stat;
	else
		assert_int_equal(stat->account.stored + stat->account.acked + stat->account.lost + stat->behind, 0);
}

/* It closes: stored = acked + lost + behind. */
static struct consumer_stat account_in(const struct durable *durable)
{
	struct consumer_stat stat = {0};

	durable_each(durable, find_account, &stat);
	assert_int_equal(stat.account.stored, stat.account.acked + stat.account.lost + stat.behind);
	return stat;
}

static struct consumer_stat account_of(const struct engine *e)
{
	return account_in(find_relays(e)->subscription->spool.durable);
}

/* All that the disk has of this run, and `more` of each ring that it has not yet; so many allocations succeed. */
static void relay_acknowledges_within(struct engine *e, int64_t more, unsigned long allocations)
{
	const struct subscription *subscription = find_relays(e)->subscription;
	uint64_t seq[ENGINE_RINGS];
	struct cursor *upto;

	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		seq[i] = subscription->spool.end[i] + (uint64_t)more;
	upto = rings_cursor(subscription->spool.durable->rings, seq);
	assert_non_null(upto);
	fails_in = allocations;
	durable_acknowledge(subscription->spool.durable, find_relays(e), upto);
	fails_in = ULONG_MAX;
	free(upto);
}

static void relay_acknowledges(struct engine *e, int64_t more)
{
	relay_acknowledges_within(e, more, ULONG_MAX);
}

static void relay_account_open(struct engine *e)
{
	engine_dials_relay = true;
	engine_open(e, 2, 1, 8);
	always_on(e, CALLS);
	PEER_AWAIT(e->base, find_relays(e));
	engine_settle(e);
}

/* The same, with so many attempts of each ring that are acknowledged, and so many that are not. */
static struct consumer_stat relay_account_open_with(struct engine *e, unsigned acked, unsigned behind)
{
	struct consumer_stat account;

	relay_account_open(e);
	engine_write(e, acked);
	engine_settle(e);
	relay_acknowledges(e, 0);
	engine_write(e, behind);
	engine_settle(e);
	account = account_of(e);
	assert_true(account.account.acked >= acked && account.behind >= behind);
	return account;
}

static void relay_account_of_what_is_acknowledged(void **state)
{
	struct consumer_stat now;
	uint64_t acked;
	struct engine e;

	(void)state;
	relay_account_open(&e);
	engine_write(&e, 1000);
	engine_settle(&e);
	now = account_of(&e);
	assert_int_equal(now.account.acked + now.account.lost, 0);
	assert_true(now.account.stored >= 1000);
	relay_acknowledges(&e, 0);
	now = account_of(&e);
	assert_int_equal(now.account.acked, now.account.stored);
	acked = now.account.acked;
	/* The same once more. */
	relay_acknowledges(&e, 0);
	assert_int_equal(account_of(&e).account.acked, acked);
	/* A relay may have what the disk has not: it is acknowledged when it is stored, and no sooner. */
	relay_acknowledges(&e, 100);
	assert_int_equal(account_of(&e).account.acked, acked);
	engine_write(&e, 100);
	engine_settle(&e);
	now = account_of(&e);
	assert_int_equal(now.account.acked, now.account.stored);
	assert_true(now.account.stored >= acked + 100);
	engine_write(&e, 400);
	engine_settle(&e);
	now = account_of(&e);
	assert_int_equal(now.account.acked, acked + 200);
	assert_true(now.behind >= 300);
	acked = now.account.acked;
	engine_settle(&e);
	engine_close(&e);
	/* Another run: it is known what was acknowledged, and the disk has the rest. */
	engine_epoch = 100;
	relay_account_open(&e);
	now = account_of(&e);
	assert_int_equal(now.account.acked, acked);
	assert_true(now.behind >= 300);
	engine_write(&e, 100);
	engine_settle(&e);
	assert_true(account_of(&e).behind >= 400);
	relay_acknowledges(&e, 0);
	now = account_of(&e);
	assert_int_equal(now.behind + now.account.lost, 0);
	assert_true(now.account.acked >= acked + 400);
	engine_close(&e);
}

static void relay_account_of_what_is_lost(void **state)
{
	struct consumer_stat now;
	uint64_t lost, acked;
	struct engine e;

	(void)state;
	engine_spool_bytes = 8000;
	relay_account_open(&e);
	for (unsigned i = 0; i < 200; i++) {
		engine_write(&e, 50);
		engine_settle(&e);
		account_of(&e);
	}
	now = account_of(&e);
	lost = now.account.lost;
	assert_true(lost && now.behind && !now.account.acked);
	assert_true(now.account.stored >= 200 * 50);
	/* What is acknowledged is not lost when it goes. */
	relay_acknowledges(&e, 0);
	acked = account_of(&e).account.acked;
	assert_int_equal(acked, now.behind);
	for (unsigned i = 0; i < 200 && account_of(&e).account.lost == lost; i++) {
		engine_write(&e, 50);
		engine_settle(&e);
	}
	now = account_of(&e);
	assert_int_equal(now.account.acked, acked);
	assert_true(now.account.lost > lost);
	engine_close(&e);
	engine_epoch = 100;
	relay_account_open(&e);
	assert_int_equal(account_of(&e).account.acked, acked);
	assert_true(account_of(&e).account.lost >= now.account.lost);
	engine_close(&e);
}

/* What is always on changes: what was to be sent of that before is lost. */
static void relay_account_of_what_is_given_up(void **state)
{
	struct consumer_stat before, now;
	struct error error;
	struct engine e;

	(void)state;
	relay_account_open(&e);
	engine_write(&e, 1000);
	engine_settle(&e);
	before = account_of(&e);
	always_on(&e, OPENS);
	PEER_AWAIT(e.base, strcmp(find_relays(&e)->glob[0], OPENS) == 0);
	engine_settle(&e);
	now = account_of(&e);
	assert_true(now.account.lost >= before.behind);
	assert_int_equal(now.account.acked, 0);
	/* Registered anew, it begins with nothing. */
	assert_int_equal(fanout_forget_consumer(e.fanout, CONSUMER_RELAY, &error), 0);
	engine_settle(&e);
	assert_int_equal(account_of(&e).account.lost, 0);
	engine_close(&e);
}

static void mend_disk(struct engine *e)
{
	disk_is_broken = false;
	clock_ahead_ns += SPOOL_RETRY_NS_MAX + 1;
	spooler_turn(e->spooler);
	engine_settle(e);
}

/* The disk cannot be read at first: once it can be, the account is that of a daemon which could read it at once. */
static void relay_account_of_a_disk_that_is_read_late(void **state)
{
	struct consumer_stat before, at_once, late;
	struct engine e;

	(void)state;
	before = relay_account_open_with(&e, 1000, 400);
	engine_close(&e);
	/* With the rings of the run before; and twice with others. */
	for (unsigned i = 0; i < 3; i++) {
		engine_epoch = 99 + i;
		relay_account_open(&e);
		at_once = account_of(&e);
		assert_int_equal(at_once.behind, before.behind);
		engine_close(&e);
		disk_is_broken = true;
		relay_account_open(&e);
		late = account_of(&e);
		assert_int_equal(late.account.acked, before.account.acked);
		assert_int_equal(late.account.lost + late.behind, 0);
		mend_disk(&e);
		late = account_of(&e);
		assert_memory_equal(&late.account, &at_once.account, sizeof(late.account));
		assert_int_equal(late.behind, at_once.behind);
		engine_close(&e);
	}
}

/* Without memory to count what is on the disk when it is opened, the account begins once that is counted. */
static void relay_account_of_a_disk_that_is_counted_late(void **state)
{
	struct consumer_stat before, now;
	char name[SPOOL_NAME_BYTES];
	struct engine e;

	(void)state;
	relay_account_open(&e);
	copy_name(&e, CONSUMER_RELAY, name);
	record(&e, name, 200, 3);
	relay_acknowledges(&e, -50);
	before = account_of(&e);
	assert_int_equal(before.behind, 2 * 50);
	engine_close(&e);
	engine_epoch = 100;
	refusals = 0;
	refused_once_listed = sizeof(struct spool_extents) + segments(name) * sizeof(struct spool_extent);
	relay_account_open(&e);
	assert_int_equal(refusals, 1);
	clock_ahead_ns += SPOOL_TIDY_NS + 1;
	spooler_turn(e.spooler);
	engine_settle(&e);
	now = account_of(&e);
	assert_memory_equal(&now.account, &before.account, sizeof(now.account));
	assert_int_equal(now.behind, before.behind);
	engine_close(&e);
}

/* What an acknowledgement changes is counted whatever finds no memory. */
static void relay_account_without_memory(void **state)
{
	struct consumer_stat now;
	struct engine e;

	(void)state;
	relay_account_open(&e);
	for (unsigned long at = 0; at < 6; at++) {
		uint64_t acked, behind;

		engine_write(&e, 200);
		engine_settle(&e);
		now = account_of(&e);
		acked = now.account.acked;
		behind = now.behind;
		assert_true(behind >= 200);
		relay_acknowledges_within(&e, -50, at);
		now = account_of(&e);
		assert_int_equal(now.behind, 2 * 50);
		assert_int_equal(now.account.acked, acked + behind - 2 * 50);
	}
	engine_close(&e);
}

/* Its segment can be neither ended nor followed by another: what was to be in it is not stored yet. */
static void relay_account_of_a_segment_that_cannot_be_sealed(void **state)
{
	struct consumer_stat before, now;
	unsigned begun;
	struct engine e;

	(void)state;
	relay_account_open(&e);
	engine_write(&e, 20);
	engine_settle(&e);
	before = account_of(&e);
	begun = segments("");
	disk_is_broken = true;
	for (unsigned i = 0; i < 40 && strcmp(spool_of(&e, CONSUMER_RELAY).state, "failed") != 0; i++) {
		engine_write(&e, 200);
		engine_settle(&e);
		account_of(&e);
	}
	assert_string_equal(spool_of(&e, CONSUMER_RELAY).state, "failed");
	assert_int_equal(segments(""), begun);
	before = account_of(&e);
	/* A relay has been sent all of it. */
	relay_acknowledges(&e, 8000);
	now = account_of(&e);
	assert_int_equal(now.account.stored, before.account.stored);
	assert_int_equal(now.account.acked, now.account.stored);
	mend_disk(&e);
	engine_write(&e, 20);
	engine_settle(&e);
	now = account_of(&e);
	assert_true(now.account.stored > before.account.stored);
	assert_int_equal(now.account.acked, now.account.stored);
	engine_close(&e);
}

/* There was no memory to register its place: its account begins with what it acknowledges first. */
static void relay_account_begins_without_a_place(void **state)
{
	struct consumer_stat now;
	struct engine e;

	(void)state;
	relay_account_open(&e);
	engine_write(&e, 200);
	engine_settle(&e);
	free(find_relays(&e)->place);
	find_relays(&e)->place = NULL;
	find_relays(&e)->account = (struct consumer_account){0};
	relay_acknowledges(&e, -50);
	now = account_of(&e);
	assert_int_equal(now.behind, 2 * 50);
	assert_int_equal(now.account.acked + now.account.lost, 0);
	engine_close(&e);
}

/* What was recorded before it was registered anew, and comes to the disk only then, is not its. */
static void relay_account_begins_with_frames_in_flight(void **state)
{
	uint64_t at[ENGINE_RINGS];
	struct subscription *subscription;
	struct consumer_stat now;
	struct durable *durable;
	struct error error;
	struct engine e;

	(void)state;
	relay_account_open(&e);
	engine_write(&e, 100);
	engine_settle(&e);
	subscription = find_relays(&e)->subscription;
	durable = subscription->spool.durable;
	assert_int_equal(durable_forget(durable, CONSUMER_RELAY, &error), 0);
	for (unsigned i = 0; i < ENGINE_RINGS; i++) {
		struct frame_ref *frame;

		at[i] = subscription->spool.end[i] + 60;
		frame = spool_frame_gap(e.codec, engine_cpu[i], at[i] - 60, at[i] + 10, 0, LOSS_REASON_RESTART);
		assert_non_null(frame);
		frame->ring = i;
		spool_append(subscription->spool.spool, frame);
	}
	assert_int_equal(durable_register_relay(durable, subscription, at, &error), 0);
	assert_true(account_of(&e).account.stored == 0 && spool_of(&e, CONSUMER_RELAY).in_flight != 0);
	engine_settle(&e);
	now = account_of(&e);
	assert_int_equal(subscription->spool.end[0], at[0] + 10);
	assert_int_equal(now.account.acked + now.account.lost, 0);
	assert_int_equal(now.behind, 2 * 10);
	engine_close(&e);
}

/* A reader finds a damaged segment: what it held is lost before anybody can acknowledge the Gap in its place. */
static uint64_t lost_when_read;

static void note_lost(void *context, struct frame_ref *const *frame, unsigned n, bool end)
{
	struct engine *e = context;

	(void)end;
	lost_when_read = account_of(e).account.lost;
	for (unsigned i = 0; i < n; i++)
		frame_ref_put(frame[i]);
	relay_acknowledges(e, 0);
}

static void damage(const char *spool, unsigned long sequence)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/spool/%s/%016lx.seg", directory, spool, sequence);
	file = fopen(path, "r+");
	assert_non_null(file);
	assert_int_equal(fseek(file, 700, SEEK_SET), 0);
	assert_int_equal(fputs("DAMAGED!", file) >= 0, 1);
	assert_int_equal(fclose(file), 0);
}

static void relay_account_of_what_is_damaged(void **state)
{
	struct spool_place everything = {0};
	struct spool_reader *reader;
	struct consumer_stat before, now;
	char name[SPOOL_NAME_BYTES];
	struct engine e;

	(void)state;
	relay_account_open(&e);
	copy_name(&e, CONSUMER_RELAY, name);
	record(&e, name, 200, 3);
	before = account_of(&e);
	damage(name, oldest_segment(name) + 1);
	lost_when_read = 0;
	assert_int_equal(spool_reader_create(subscription_of(&e, CONSUMER_RELAY)->spool.spool, &everything, note_lost, &e,
					     &reader), 0);
	spool_reader_next(reader, 1 << 16);
	PEER_AWAIT(e.base, lost_when_read);
	spool_reader_destroy(reader);
	now = account_of(&e);
	assert_int_equal(now.account.lost, lost_when_read);
	assert_int_equal(now.account.acked, before.account.stored - lost_when_read);
	engine_settle(&e);
	assert_int_equal(account_of(&e).account.lost, lost_when_read);
	engine_close(&e);
}

/* The daemon does not run until all of it is too old: the next one deletes it, and counts it as lost. */
static void relay_account_of_what_is_too_old_at_the_start(void **state)
{
	struct consumer_stat before, now;
	char name[SPOOL_NAME_BYTES];
	struct engine e;

	(void)state;
	relay_account_open(&e);
	copy_name(&e, CONSUMER_RELAY, name);
	record(&e, name, 200, 3);
	relay_acknowledges(&e, -50);
	before = account_of(&e);
	assert_int_equal(before.behind, 2 * 50);
	engine_close(&e);
	clock_ahead_ns += 2 * 3600 * NS_PER_S;
	engine_epoch = 100;
	relay_account_open(&e);
	now = account_of(&e);
	assert_int_equal(now.account.acked, before.account.acked);
	assert_int_equal(now.account.lost, before.behind);
	assert_int_equal(now.behind, 0);
	engine_close(&e);
}

/* Its subscription goes, and comes again: until then it has nothing on a disk, and what it had is there again. */
static void relay_account_while_it_is_held(void **state)
{
	struct subscription *subscription;
	struct consumer_stat before, now;
	struct durable *durable;
	struct error error;
	struct engine e;

	(void)state;
	before = relay_account_open_with(&e, 100, 100);
	subscription = find_relays(&e)->subscription;
	durable = subscription->spool.durable;
	durable_lose(durable, subscription);
	now = account_in(durable);
	assert_int_equal(now.behind, 0);
	assert_int_equal(now.account.stored, before.account.acked);
	assert_int_equal(durable_register_relay(durable, subscription, subscription->position, &error), 0);
	subscription->consumers--;
	now = account_of(&e);
	assert_memory_equal(&now.account, &before.account, sizeof(now.account));
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(relay_account_of_what_is_acknowledged, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_of_a_disk_that_is_read_late, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_of_a_disk_that_is_counted_late, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_of_a_segment_that_cannot_be_sealed, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_begins_with_frames_in_flight, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_begins_without_a_place, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_of_what_is_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_of_what_is_too_old_at_the_start, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_while_it_is_held, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_of_what_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(relay_account_of_what_is_given_up, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
