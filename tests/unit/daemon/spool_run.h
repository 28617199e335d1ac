/*
 * spool_run: a scripted run of a spool above a faulty disk, and what must hold whatever happened to
 * it: what was told to be durable is read back; nothing is read twice; all the rest has been
 * counted.
 *
 * Time is the test's own: it goes on by a step with each frame.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_SPOOL_RUN_H
#define RINGTAIL_TESTS_UNIT_DAEMON_SPOOL_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/spool/spool.h"
#include "tests/lib/faulty_disk.h"

#define RUN_RINGS	2
#define RUN_ATTEMPTS_MAX 4096u
#define RUN_EPOCH	1000u

static const uint32_t run_cpu_of[RUN_RINGS] = {0, 5};
static const uint8_t run_boot_id[16] = "a boot, of sixte";
static uint64_t run_now_ns = 1000000000ull;
static uint64_t run_realtime_ns = 1700000000000000000ull;	/* when that clock began */

uint64_t clock_read(clockid_t id)
{
	return id == CLOCK_REALTIME ? run_now_ns + run_realtime_ns : run_now_ns;
}

uint64_t clock_monotonic(void)
{
	return run_now_ns;
}

struct spool_run {
	struct disk *disk;
	bool threaded;
	struct event_base *base;
	struct disk_thread *thread;
	struct spooler_config config;
	struct spooler *spooler;
	struct spool *spool;
	struct frame_codec *codec;
	unsigned opened, gone;		/* so often told */
	bool goes_on;			/* as in struct spool_config */
	uint64_t seq[RUN_RINGS];	/* of the next frame */
	uint64_t end[RUN_RINGS];	/* told to be durable */
};

static void run_no_log(enum log_level level, const char *code, const char *text)
{
	if (getenv("SPOOL_RUN_LOG"))
		fprintf(stderr, "%d %s: %s\n", (int)level, code, text);
}

static inline void run_quiet(void)
{
	static const struct log_sink sink = {.write = run_no_log, .now_ns = clock_monotonic};

	log_set_sink(&sink);
}

static void run_progress(void *context, const uint64_t *end)
{
	struct spool_run *run = context;

	for (unsigned i = 0; i < RUN_RINGS; i++) {
		assert_true(end[i] >= run->end[i]);
		run->end[i] = end[i];
	}
}

static void run_opened(void *context, const uint64_t *end)
{
	struct spool_run *run = context;

	run->opened++;
	memcpy(run->end, end, sizeof(run->end));
}

static void run_gone(void *context, const struct spool_extent *extent)
{
	struct spool_run *run = context;

	(void)extent;
	run->gone++;
}

static inline struct run run_of(uint64_t epoch)
{
	struct run run = {.epoch = epoch};

	memcpy(run.boot_id, run_boot_id, sizeof(run.boot_id));
	return run;
}

/* Places on every ring; free() it. */
static inline struct cursor *run_cursor(uint64_t epoch, const uint64_t *seq)
{
	struct cursor *cursor = cursor_create(RUN_RINGS);

	assert_non_null(cursor);
	cursor->run = run_of(epoch);
	for (unsigned i = 0; i < RUN_RINGS; i++)
		assert_true(cursor_put(cursor, run_cpu_of[i], seq[i]));
	return cursor;
}

static inline void run_release(struct spool_run *run, uint64_t epoch, const uint64_t *upto)
{
	struct cursor *cursor = run_cursor(epoch, upto);

	spool_release(run->spool, cursor);
	free(cursor);
}

static inline void run_init(struct spool_run *run, struct faulty_disk *faulty,
			    enum spool_durability durability)
{
	memset(run, 0, sizeof(*run));
	run->disk = &faulty->disk;
	run->config = (struct spooler_config){
		.durability = durability,
		.policy = SPOOL_DROP_OLDEST,
		.size_bytes = 1 << 20,
		.age_ns = 3600 * NS_PER_S,
		.segment_bytes = 1500,
		.rings = RUN_RINGS,
		.cpu_of = run_cpu_of,
	};
	run->config.run = run_of(RUN_EPOCH);
	run->codec = frame_codec_create(1);
	run->base = event_base_new();
}

static inline struct frame_ref *run_pack(struct spool_run *run, enum frame_type type,
					 const ProtobufCMessage *message)
{
	struct frame_ref *frame = frame_ref_pack(run->codec, type, message);

	assert_non_null(frame);
	return frame;
}

static inline void run_open_named(struct spool_run *run, const char *name)
{
	static const char *const probe[] = {"syscall:read:call"};
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	struct spool_config config = {
		.name = name, .probe = probe, .probes = 1, .filter = "pid == 1", .flags = 5,
		.goes_on = run->goes_on, .opened = run_opened, .progress = run_progress, .gone = run_gone,
		.context = run,
	};
	struct error error;

	hello.epoch = run->config.run.epoch;
	config.hello = run_pack(run, FRAME_SERVER_HELLO, &hello.base);
	config.catalog = run_pack(run, FRAME_CATALOG, &catalog.base);
	memset(run->end, 0, sizeof(run->end));
	assert_int_equal(spool_open(run->spooler, &config, &run->spool, &error), 0);
}

static inline void run_open_spool(struct spool_run *run)
{
	run_open_named(run, "run");
}

/* All but a spool. */
static inline void run_start(struct spool_run *run)
{
	struct error error;

	assert_int_equal(disk_thread_create(run->base, run->disk, run->threaded, &run->thread,
					    &error), 0);
	run->config.base = run->base;
	run->config.thread = run->thread;
	assert_int_equal(spooler_create(&run->config, &run->spooler, &error), 0);
	run->opened = 0;
}

static inline void run_open(struct spool_run *run)
{
	run_start(run);
	run_open_spool(run);
	disk_thread_settle(run->thread);
	assert_int_equal(run->opened, 1);
}

static inline void run_close(struct spool_run *run)
{
	spooler_destroy(run->spooler);
	disk_thread_destroy(run->thread);
	run->spooler = NULL;
	run->thread = NULL;
}

static inline void run_fini(struct spool_run *run)
{
	if (run->spooler)
		run_close(run);
	event_base_free(run->base);
	frame_codec_destroy(run->codec);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static inline struct frame_ref *run_batch_of(struct spool_run *run, unsigned ring, unsigned events,
					     unsigned skipped, uint32_t *probe, size_t probes)
{
	Ringtail__V1__Batch batch = RINGTAIL__V1__BATCH__INIT;
	Ringtail__V1__Loss loss[2] = {RINGTAIL__V1__LOSS__INIT, RINGTAIL__V1__LOSS__INIT};
	Ringtail__V1__Loss *losses[2] = {&loss[0], &loss[1]};
	unsigned lost = run->seq[ring] % 3;
	struct frame_ref *frame;

	batch.cpu = run_cpu_of[ring];
	batch.first_seq = run->seq[ring];
	batch.end_seq = run->seq[ring] + events + skipped + lost;
	loss[0].count = loss[1].count = 1;
	loss[0].reason = loss[1].reason = RINGTAIL__V1__LOSS_REASON__REASON_RING_FULL;
	batch.loss = losses;
	batch.n_loss = lost;
	batch.events = events;
	batch.probe = probe;
	batch.n_probe = probes;
	frame = run_pack(run, FRAME_BATCH, &batch.base);
	frame->ring = ring;
	frame->cpu = batch.cpu;
	frame->first_seq = batch.first_seq;
	frame->end_seq = run->seq[ring] = batch.end_seq;
	frame->events = events;
	frame->skipped = skipped;
	frame->losses = lost != 0;
	frame->loss[0] = (struct loss_count){.reason = (uint8_t)loss[0].reason, .count = lost};
	return frame;
}

static inline struct frame_ref *run_batch(struct spool_run *run, unsigned ring, unsigned events,
					  unsigned skipped)
{
	uint32_t probe[300];

	/* Something that zstd makes no smaller, so that segments fill. */
	for (unsigned i = 0; i < 300; i++)
		probe[i] = (uint32_t)(run->seq[ring] * 7919 + i * i * 2654435761u) % 100;
	return run_batch_of(run, ring, events, skipped, probe, 300);
}

static inline struct frame_ref *run_quiet_range(struct spool_run *run, unsigned ring, unsigned skipped)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 0);

	assert_non_null(frame);
	frame->ring = ring;
	frame->cpu = run_cpu_of[ring];
	frame->first_seq = run->seq[ring];
	frame->end_seq = run->seq[ring] += skipped;
	frame->skipped = skipped;
	return frame;
}

/* `skipped`: of each ring, since the watermark before. */
static inline struct frame_ref *run_watermark_after(struct spool_run *run,
						     const uint64_t skipped[RUN_RINGS])
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	Ringtail__V1__Position position[RUN_RINGS], *list[RUN_RINGS];
	struct frame_ref *frame;

	for (unsigned i = 0; i < RUN_RINGS; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = run_cpu_of[i];
		position[i].seq = run->seq[i];
		position[i].skipped = skipped[i];
		list[i] = &position[i];
	}
	watermark.time_ns = run_now_ns;
	watermark.position = list;
	watermark.n_position = RUN_RINGS;
	frame = run_pack(run, FRAME_WATERMARK, &watermark.base);
	frame->time_ns = watermark.time_ns;
	return frame;
}

static inline struct frame_ref *run_watermark(struct spool_run *run)
{
	return run_watermark_after(run, (const uint64_t[RUN_RINGS]){0});
}

/* The i-th frame of the script. */
static inline struct frame_ref *run_frame(struct spool_run *run, unsigned i)
{
	if (i % 5 == 4)
		return run_watermark(run);
	if (i % 10 == 3)
		return run_quiet_range(run, 1, 3);
	return run_batch(run, i % 2, 5 + i % 3, i % 4);
}

static inline void run_script(struct spool_run *run, unsigned frames)
{
	for (unsigned i = 0; i < frames; i++) {
		run_now_ns += 300000000;
		spool_append(run->spool, run_frame(run, i));
		disk_thread_settle(run->thread);
	}
}

static inline void run_check_ledger(struct spool_run *run, struct spool_stat *stat, uint64_t *lost)
{
	spool_stat(run->spool, stat);
	*lost = 0;
	for (unsigned i = 0; i < LOSS_REASONS; i++)
		*lost += stat->lost[i];
	assert_int_equal(stat->produced, stat->stored + *lost + stat->in_flight);
}

/* ---- Reading back ---------------------------------------------------------------------------- */

enum run_attempt {
	RUN_NOT_READ = 0,
	RUN_THERE,
	RUN_LOST,
};

struct run_back {
	struct spool_reader *reader;
	uint8_t attempt[RUN_RINGS][RUN_ATTEMPTS_MAX];	/* enum run_attempt */
	uint64_t at[RUN_RINGS];
	bool known[RUN_RINGS], end;
	uint64_t there, lost, frames, bytes_less, gaps[LOSS_REASONS];
	uint64_t unknown[LOSS_REASONS];		/* gaps of no size */
	uint64_t foreign, foreign_attempts;	/* of another run of the rings */
};

static inline void run_back_range(struct run_back *back, const struct frame_ref *frame)
{
	unsigned ring = frame->ring;

	assert_true(ring < RUN_RINGS);
	assert_int_equal(frame->cpu, run_cpu_of[ring]);
	assert_true(frame->end_seq > frame->first_seq);
	assert_int_equal(frame->end_seq - frame->first_seq,
			 frame->events + frame->skipped + frame_ref_losses(frame));
	if (back->known[ring])
		assert_int_equal(frame->first_seq, back->at[ring]);
	back->known[ring] = true;
	back->at[ring] = frame->end_seq;
	assert_true(frame->end_seq <= RUN_ATTEMPTS_MAX);
	if (frame->type == FRAME_BATCH && frame->bytes) {
		assert_int_equal(frame_ref_losses(frame), frame->first_seq % 3);
		assert_int_equal(frame->losses, frame->first_seq % 3 != 0);
	}
	for (uint64_t i = frame->first_seq; i < frame->end_seq; i++) {
		assert_int_equal(back->attempt[ring][i], RUN_NOT_READ);
		back->attempt[ring][i] = frame->type == FRAME_GAP ? RUN_LOST : RUN_THERE;
	}
	if (frame->type == FRAME_GAP) {
		assert_int_equal(frame->losses, 1);
		assert_int_equal(frame->loss[0].stage, LOSS_STAGE_SPOOL);
		back->gaps[frame->loss[0].reason]++;
		back->lost += frame->end_seq - frame->first_seq;
	} else {
		back->there += frame->end_seq - frame->first_seq;
	}
	back->bytes_less += frame->bytes == 0;
}

static void run_on_frames(void *context, struct frame_ref *const *frame, unsigned n, bool end)
{
	struct run_back *back = context;

	for (unsigned i = 0; i < n; i++) {
		back->frames++;
		if (frame[i]->type == FRAME_GAP && frame[i]->end_seq == frame[i]->first_seq) {
			back->unknown[frame[i]->loss[0].reason]++;
			back->foreign += frame_ref_is_earlier(frame[i]);
		} else if (frame_ref_is_earlier(frame[i])) {
			back->foreign++;
			back->foreign_attempts += frame[i]->end_seq - frame[i]->first_seq;
		} else if (frame[i]->type == FRAME_BATCH || frame[i]->type == FRAME_GAP) {
			run_back_range(back, frame[i]);
		}
		frame_ref_put(frame[i]);
	}
	back->end = end;
}

static inline void run_read_from(struct spool_run *run, struct run_back *back,
				 const struct spool_place *place)
{
	memset(back, 0, sizeof(*back));
	assert_int_equal(spool_reader_create(run->spool, place, run_on_frames, back, &back->reader),
			 0);
	for (unsigned i = 0; i < 1000 && !back->end; i++) {
		spool_reader_next(back->reader, 700);
		disk_thread_settle(run->thread);
	}
	assert_true(back->end);
	spool_reader_destroy(back->reader);
}

static inline void run_read(struct spool_run *run, struct run_back *back)
{
	struct spool_place place = {0};

	run_read_from(run, back, &place);
}

#endif
