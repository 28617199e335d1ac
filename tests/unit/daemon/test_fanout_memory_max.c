/*
 * All logs together stay within memory-max: what no client needs goes first, of the log that has most of
 * it; then the oldest of the largest log, and who has not been sent that is told so, with the reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "daemon/stream/stream.h"
#include "daemon/stream/subscriptions.h"
#include "tests/unit/daemon/small_catalog.h"

#define LOGS		3
#define FRAME_BYTES	1000u
#define EVENTS		10u
#define PLENTY		(1u << 30)

static const uint32_t cpu_of[] = {0};

struct fixture {
	struct subscriptions all;
	struct frame_codec *codec;
	struct subscription *log[LOGS];
	struct stream *stream[LOGS];	/* NULL: nobody reads it */
	uint64_t seq[LOGS];
};

static void open_all(struct fixture *f)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct error error;

	*f = (struct fixture){.codec = frame_codec_create(1)};
	TAILQ_INIT(&f->all.list);
	for (unsigned i = 0; i < LOGS; i++) {
		assert_int_equal(subscription_create(&request, small_catalog_get(), 1, PLENTY,
						     &f->log[i], &error), 0);
		TAILQ_INSERT_TAIL(&f->all.list, f->log[i], link);
	}
}

static void close_all(struct fixture *f)
{
	for (unsigned i = 0; i < LOGS; i++) {
		stream_destroy(f->stream[i]);
		subscription_destroy(f->log[i]);
	}
	frame_codec_destroy(f->codec);
}

static struct stream *join(struct fixture *f, unsigned log)
{
	struct stream *stream = stream_create(f->log[log], f->codec, cpu_of, PLENTY, NULL,
					      LOSS_REASON_UNKNOWN);

	assert_non_null(stream);
	return stream;
}

static void append(struct fixture *f, unsigned log, unsigned frames)
{
	while (frames--) {
		struct frame_ref *frame = frame_ref_create(FRAME_BATCH, FRAME_BYTES);

		frame->first_seq = f->seq[log];
		frame->end_seq = f->seq[log] += EVENTS;
		frame->events = EVENTS;
		subscription_append(f->log[log], frame);
	}
}

static void no_gap(void *context, struct frame_ref *frame)
{
	(void)context, (void)frame;
	fail_msg("a gap is told");
}

static void take(struct stream *stream, unsigned frames)
{
	struct frame_ref *frame;

	while (frames--) {
		assert_int_equal(stream_peek(stream, &frame, 1, no_gap, NULL), 1);
		stream_sent(stream);
	}
}

static uint64_t frames_of(const struct fixture *f, unsigned log)
{
	return frame_log_end(f->log[log]->log) - frame_log_first(f->log[log]->log);
}

static uint64_t bytes_of(const struct fixture *f)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < LOGS; i++)
		bytes += frame_log_bytes_from(f->log[i]->log, frame_log_first(f->log[i]->log));
	return bytes;
}

/* So much less than there is now: `frames` of them have to go, which all cost the same. */
static void keep_less(struct fixture *f, unsigned frames)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < LOGS; i++)
		all += frames_of(f, i);
	f->all.config.memory_bytes = bytes_of(f) - frames * (bytes_of(f) / all);
	subscriptions_keep_within(&f->all);
	assert_true(bytes_of(f) <= f->all.config.memory_bytes);
	assert_int_equal(f->all.memory_used, bytes_of(f));
}

static uint64_t lost_for_memory(const struct stream *stream)
{
	struct stream_stat stat;
	uint64_t lost = 0;

	stream_stat(stream, &stat);
	assert_int_equal(stat.residual, 0);
	for (unsigned i = 0; i < LOSS_REASONS; i++)
		lost += stream->lost[LOSS_STAGE_QUEUE][i];
	assert_int_equal(lost, stream->lost[LOSS_STAGE_QUEUE][LOSS_REASON_MEMORY]);
	return lost;
}

/* The largest log is needed by a client: of the smaller, that nobody needs, it goes. */
static void test_what_nobody_needs_goes_first(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	f.stream[1] = join(&f, 1);
	append(&f, 0, 5);
	append(&f, 1, 20);
	append(&f, 2, 8);
	keep_less(&f, 5);
	assert_int_equal(frames_of(&f, 1), 20);
	/* Of the two, that which has more; then both by turns. */
	assert_int_equal(frames_of(&f, 0), 4);
	assert_int_equal(frames_of(&f, 2), 4);
	assert_int_equal(lost_for_memory(f.stream[1]), 0);
	close_all(&f);
}

/* What a client was sent is history; what the slowest was not sent is not, and what is read off the disk. */
static void test_what_the_slowest_needs_is_needed(void **state)
{
	struct stream *faster, *from_disk;
	struct catch_up *none;
	struct fixture f;

	(void)state;
	open_all(&f);
	f.stream[1] = join(&f, 1);
	append(&f, 1, 4);
	faster = join(&f, 1);
	from_disk = join(&f, 1);
	none = (struct catch_up *)&f;		/* not looked into */
	from_disk->next = 0;
	from_disk->catch_up = none;
	append(&f, 1, 16);
	append(&f, 0, 10);
	f.stream[2] = join(&f, 2);
	append(&f, 2, 30);
	take(f.stream[1], 6);
	take(faster, 16);
	keep_less(&f, 15);
	assert_int_equal(frames_of(&f, 0), 1);
	assert_int_equal(frames_of(&f, 1), 14);
	assert_int_equal(frames_of(&f, 2), 30);
	assert_int_equal(lost_for_memory(f.stream[1]), 0);
	assert_int_equal(lost_for_memory(f.stream[2]), 0);
	from_disk->catch_up = NULL;
	from_disk->next = frame_log_end(f.log[1]->log);
	stream_destroy(from_disk);
	stream_destroy(faster);
	close_all(&f);
}

/* All is needed: the largest log gives its oldest, and its client, that has not been sent it, loses it. */
static void test_who_lags_most_loses(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	for (unsigned i = 0; i < LOGS; i++)
		f.stream[i] = join(&f, i);
	append(&f, 0, 6);
	append(&f, 1, 30);
	append(&f, 2, 9);
	keep_less(&f, 10);
	assert_int_equal(frames_of(&f, 0), 6);
	assert_int_equal(frames_of(&f, 2), 9);
	assert_int_equal(lost_for_memory(f.stream[0]), 0);
	assert_int_equal(lost_for_memory(f.stream[1]), (30 - frames_of(&f, 1)) * EVENTS);
	assert_true(lost_for_memory(f.stream[1]) > 0);
	assert_int_equal(lost_for_memory(f.stream[2]), 0);
	close_all(&f);
}

/* No log gives its last frame, however little memory there is. */
static void test_one_frame_stays(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	f.stream[1] = join(&f, 1);
	for (unsigned i = 0; i < LOGS; i++)
		append(&f, i, 3);
	f.all.config.memory_bytes = 1;
	subscriptions_keep_within(&f.all);
	for (unsigned i = 0; i < LOGS; i++)
		assert_int_equal(frames_of(&f, i), 1);
	assert_int_equal(lost_for_memory(f.stream[1]), 2 * EVENTS);
	close_all(&f);
}

/* 0 is no bound. */
static void test_no_bound(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f);
	append(&f, 0, 50);
	subscriptions_keep_within(&f.all);
	assert_int_equal(frames_of(&f, 0), 50);
	assert_int_equal(f.all.memory_used, bytes_of(&f));
	close_all(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_nobody_needs_goes_first),
		cmocka_unit_test(test_what_the_slowest_needs_is_needed),
		cmocka_unit_test(test_who_lags_most_loses),
		cmocka_unit_test(test_one_frame_stays),
		cmocka_unit_test(test_no_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
