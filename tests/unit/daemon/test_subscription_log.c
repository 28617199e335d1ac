/*
 * One subscription: what it records of what was asked for, when another is the same, what its log, its spool and its
 * reach make of a frame, and its places as a cursor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/collect/batcher.h"
#include "daemon/stream/frame_log.h"
#include "daemon/stream/subscription.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS 2

/* What was given to the spool, if the subscription has one. */
static unsigned stored;
static enum frame_type stored_last;

void __wrap_spool_append(struct spool *spool, struct frame_ref *frame);
void __wrap_spool_close(struct spool *spool);
void __wrap_spool_remove(struct spool *spool);

static const char *spool_end;

void __wrap_spool_append(struct spool *spool, struct frame_ref *frame)
{
	assert_non_null(spool);
	stored++;
	stored_last = frame->type;
	frame_ref_put(frame);
}

void __wrap_spool_close(struct spool *spool)
{
	spool_end = spool ? "closed" : "none";
}

void __wrap_spool_remove(struct spool *spool)
{
	spool_end = spool ? "removed" : "none";
}

static struct subscription *make(const char *glob, const char *filter, uint32_t flags)
{
	struct subscription_request request = {.glob = &glob, .globs = 1, .filter = filter, .flags = flags};
	struct subscription *made;
	struct error error;

	if (subscription_create(&request, small_catalog_get(), RINGS, 1 << 20, &made, &error))
		fail_msg("%s", error.what);
	return made;
}

static void append(struct subscription *subscription, enum frame_type type, uint32_t ring, size_t bytes,
		   uint64_t end_seq)
{
	struct frame_ref *frame = frame_ref_create(type, bytes);

	assert_non_null(frame);
	memset(frame->data, 0, bytes);
	frame->ring = ring;
	frame->first_seq = subscription->position[ring];
	frame->end_seq = end_seq;
	frame->time_ns = 1000;
	frame->made_ns = 2000;
	subscription_append(subscription, frame);
}

/* ---- What it records --------------------------------------------------------------------------------- */

static void filter_asks_for_what_it_compares(void **state)
{
	static const struct {
		const char *filter;
		uint32_t asked, flags;
		bool context;
	} cases[] = {
		{"ret < 0", 0, 0, false},
		{"filename =~ \"/etc/*\"", 0, RT_FLAG_STRINGS, false},
		{"exe == \"bash\"", 0, 0, true},
		{"ret < 0", RT_FLAG_CONTEXT, RT_FLAG_CONTEXT, true},
		{"ret < 0", RT_FLAG_USTACK, RT_FLAG_USTACK, false},
		{"", RT_FLAG_STRINGS, RT_FLAG_STRINGS, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct subscription *made = make("openat", cases[i].filter, cases[i].asked);

		assert_int_equal(made->spec.flags, cases[i].flags);
		assert_int_equal(made->spec.context, cases[i].context);
		assert_string_equal(made->filter_text, cases[i].filter);
		assert_int_equal(subscription_request_of(made).flags, cases[i].flags);
		subscription_destroy(made);
	}
}

/* Maps come with stacks that are to be told apart, where the source has them; and with nothing else. */
static void maps_come_with_stacks(void **state)
{
	static const uint32_t asked[] = {RT_FLAG_USTACK | SPEC_STACK_TABLE, RT_FLAG_USTACK, SPEC_STACK_TABLE, 0};
	Ringtail__V1__Catalog all = *small_catalog_get();
	Ringtail__V1__Probe map = RINGTAIL__V1__PROBE__INIT, *list[16];
	const char *glob = "openat";

	(void)state;
	map.id = RT_PROBE_PROCESS_MAP;
	map.provider = (char *)"process";
	map.function = (char *)"map";
	map.name = (char *)"executable";
	assert_true(all.n_probe < 16);
	memcpy(list, all.probe, all.n_probe * sizeof(list[0]));
	all.probe = list;
	for (unsigned has = 0; has < 2; has++) {
		for (size_t i = 0; i < 4; i++) {
			struct subscription_request request = {.glob = &glob, .globs = 1, .flags = asked[i]};
			struct subscription *made;
			struct error error;

			assert_int_equal(subscription_create(&request, &all, RINGS, 1 << 20, &made, &error), 0);
			assert_int_equal(probe_set_test(&made->spec.probes, RT_PROBE_PROCESS_MAP), has && !i);
			assert_true(probe_set_test(&made->spec.probes, SMALL_OPENAT));
			subscription_destroy(made);
		}
		list[all.n_probe++] = &map;
	}
}

static void equal_if_both_deliver_the_same(void **state)
{
	struct subscription *one = make("openat", "ret < 0", 0);
	struct subscription *other[] = {make("openat", "ret < 0", 0), make("*:openat", "ret < 0", 0),
					make("read", "ret < 0", 0), make("openat", "ret < 1", 0),
					make("openat", "ret < 0", RT_FLAG_USTACK), make("openat", "ret < 0", 0)};

	(void)state;
	other[5]->spec.file_strings = true;
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(subscription_equal(one, other[i]), i < 2);
		assert_int_equal(subscription_equal(other[i], one), i < 2);
		subscription_destroy(other[i]);
	}
	subscription_destroy(one);
}

static void catalog_has_its_probes_alone(void **state)
{
	struct subscription *made = make("syscall:openat:*", "", 0);
	struct frame_codec *codec = frame_codec_create(1);
	uint32_t probes = 0;

	(void)state;
	frame_ref_put(subscription_pack_catalog(made, small_catalog_get(), codec, &probes));
	assert_int_equal(probes, 3);
	memory_fails_after(0);
	assert_null(subscription_pack_catalog(made, small_catalog_get(), codec, &probes));
	memory_suffices();
	frame_codec_destroy(codec);
	subscription_destroy(made);
}

static void refused_or_without_memory(void **state)
{
	static const char *const globs[] = {"openat", "nosuch"};
	struct subscription_request request = {.glob = globs, .globs = 2, .filter = "ret < 0"};
	struct subscription *made = NULL;
	struct error error;
	unsigned allocations = 0;
	int err;

	(void)state;
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, 1, &made, &error), -ENOENT);
	request.globs = 1;
	request.filter = "nosuch < 0";
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, 1, &made, &error), -EINVAL);
	request.filter = "ret < 0";
	do {
		assert_null(made);
		memory_fails_after(allocations);
		failures_left = 1;
		err = subscription_create(&request, small_catalog_get(), RINGS, 1, &made, &error);
		memory_suffices();
	} while (err == -ENOMEM && ++allocations < 50);
	assert_int_equal(err, 0);
	assert_true(allocations >= 9);
	subscription_destroy(made);
}

/* ---- Frames ------------------------------------------------------------------------------------------ */

/* A range without a frame waits for the next watermark; a batch tells of its own. */
static void skips_wait_until_they_are_told(void **state)
{
	struct subscription *made = make("openat", "", 0);

	(void)state;
	append(made, FRAME_BATCH, 0, 0, 5);
	append(made, FRAME_BATCH, 0, 0, 12);
	append(made, FRAME_BATCH, 1, 0, 3);
	assert_int_equal(made->quiet[0], 12);
	assert_int_equal(made->quiet[1], 3);
	append(made, FRAME_WATERMARK, 0, 10, 99);
	assert_int_equal(made->position[0], 12);
	assert_int_equal(made->quiet[0], 12);
	append(made, FRAME_BATCH, 0, 10, 20);
	append(made, FRAME_GAP, 1, 10, 30);
	assert_int_equal(made->position[0], 20);
	assert_int_equal(made->position[1], 30);
	assert_int_equal(made->quiet[0], 0);
	assert_int_equal(made->quiet[1], 0);
	subscription_destroy(made);
}

/* Everything goes to the disk but a Bye, which ends the log, and is of this run of the daemon alone. */
static void bye_ends_the_log_and_stays_off_the_disk(void **state)
{
	struct subscription *made = make("openat", "", 0);

	(void)state;
	stored = 0;
	append(made, FRAME_BATCH, 0, 10, 5);
	assert_int_equal(stored, 0);		/* there is no spool */
	made->spool.spool = (void *)made;
	append(made, FRAME_BATCH, 0, 10, 9);
	append(made, FRAME_WATERMARK, 0, 10, 0);
	assert_int_equal(stored, 2);
	assert_int_equal(stored_last, FRAME_WATERMARK);
	assert_false(made->ended);
	append(made, FRAME_BYE, 0, 10, 0);
	assert_int_equal(stored, 2);
	assert_true(made->ended);
	assert_int_equal(frame_log_end(made->log), 4);
	subscription_destroy(made);
	assert_string_equal(spool_end, "closed");
	made = make("openat", "", 0);
	made->spool.spool = (void *)made;
	made->spool.unwanted = true;
	subscription_destroy(made);
	assert_string_equal(spool_end, "removed");
	subscription_destroy(NULL);
}

/* What goes: its ring's log begins behind it, and until a watermark goes nobody knows since when it is whole. */
static void what_is_given_up_shortens_the_reach(void **state)
{
	struct subscription *made = make("openat", "", 0);
	const enum loss_reason memory = LOSS_REASON_MEMORY;

	(void)state;
	reach_begin(made->reach, 500, made->floor);
	append(made, FRAME_BATCH, 0, 10, 5);
	append(made, FRAME_WATERMARK, 0, 10, 0);
	append(made, FRAME_GAP, 1, 10, 7);
	append(made, FRAME_WATERMARK, 0, 10, 0);
	append(made, FRAME_BATCH, 0, 10, 9);
	assert_true(reach_holds(made->reach, 500));
	frame_log_evict_oldest(made->log, memory);
	assert_int_equal(made->floor[0], 5);
	assert_int_equal(made->floor[1], 0);
	assert_false(reach_holds(made->reach, 5000));
	frame_log_evict_oldest(made->log, memory);
	assert_false(reach_holds(made->reach, 1999));	/* of when it was made, not of what it says */
	assert_true(reach_holds(made->reach, 2000));
	assert_int_equal(reach_seq(made->reach, 2000, 0), 5);
	frame_log_evict_oldest(made->log, memory);
	assert_int_equal(made->floor[1], 7);
	assert_false(reach_holds(made->reach, 5000));
	subscription_destroy(made);
}

/* ---- Places ------------------------------------------------------------------------------------------ */

/* CPUs that are numbered otherwise than their rings, and one that is gone. */
static void rings_of_any_cpus(void **state)
{
	uint32_t cpu_of[] = {0, 3, 2, 7};
	struct rings rings = {.run = {.boot_id = {1, 2}, .epoch = 9}, .n = 4, .cpu_of = cpu_of};
	static const uint64_t seq[] = {10, 20, 30, 40};
	struct cursor_message *message;
	struct cursor *cursor;

	(void)state;
	assert_int_equal(rings_find(&rings, 0), 0);
	assert_int_equal(rings_find(&rings, 3), 1);
	assert_int_equal(rings_find(&rings, 2), 2);
	assert_int_equal(rings_find(&rings, 7), 3);
	assert_int_equal(rings_find(&rings, 1), -1);
	assert_int_equal(rings_find(&rings, 8), -1);
	cursor = rings_cursor(&rings, seq);
	assert_non_null(cursor);
	assert_true(run_equal(&cursor->run, &rings.run));
	assert_int_equal(cursor->n, 4);
	assert_int_equal(cursor_seq(cursor, 7, 0), 40);
	free(cursor);
	cursor = rings_cursor(&rings, NULL);
	assert_int_equal(cursor->n, 4);
	assert_int_equal(cursor_seq(cursor, 7, 5), 0);
	free(cursor);
	message = rings_message(&rings, seq);
	assert_int_equal(message->cursor.epoch, 9);
	assert_int_equal(message->cursor.n_position, 4);
	assert_int_equal(message->position[1].cpu, 3);
	assert_int_equal(message->position[1].seq, 20);
	free(message);
	for (unsigned i = 0; i < 2; i++) {
		memory_fails_after(i);
		assert_null(rings_message(&rings, seq));
		memory_suffices();
	}
}

/* Half of the marks go when there is no room for another: every other one, and never the beginning. */
static void marks_that_are_left(void **state)
{
	struct reach *reach = reach_create(1);
	uint64_t time_ns = 100;

	(void)state;
	assert_non_null(reach);
	reach_begin(reach, time_ns, &time_ns);
	for (unsigned i = 1; i < REACH_MARKS_MAX; i++)
		time_ns++, reach_give_up(reach, time_ns, &time_ns);
	for (uint64_t at = 100; at <= time_ns; at++)
		assert_int_equal(reach_seq(reach, at, 0), at);
	time_ns++, reach_give_up(reach, time_ns, &time_ns);
	for (uint64_t at = 100; at < time_ns; at++)
		assert_int_equal(reach_seq(reach, at, 0), at - (at - 100) % 2);
	assert_int_equal(reach_seq(reach, time_ns, 0), time_ns);
	assert_int_equal(reach_recorded_ns(reach), 100);
	time_ns++, reach_give_up(reach, time_ns, &time_ns);	/* from now on every other one */
	assert_int_equal(reach_seq(reach, time_ns, 0), time_ns - 1);
	time_ns++, reach_give_up(reach, time_ns, &time_ns);
	assert_int_equal(reach_seq(reach, time_ns, 0), time_ns);
	reach_destroy(reach);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filter_asks_for_what_it_compares),
		cmocka_unit_test(maps_come_with_stacks),
		cmocka_unit_test(equal_if_both_deliver_the_same),
		cmocka_unit_test(catalog_has_its_probes_alone),
		cmocka_unit_test(refused_or_without_memory),
		cmocka_unit_test(skips_wait_until_they_are_told),
		cmocka_unit_test(bye_ends_the_log_and_stays_off_the_disk),
		cmocka_unit_test(what_is_given_up_shortens_the_reach),
		cmocka_unit_test(rings_of_any_cpus),
		cmocka_unit_test(marks_that_are_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
