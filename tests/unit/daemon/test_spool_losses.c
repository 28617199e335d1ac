/*
 * What a spool says of what it could not keep: each loss in its place, with its numbers, its events and its
 * reason, told once, and nothing called durable that a power cut takes.
 */
#include "tests/unit/daemon/spool_run.h"

#include <stdio.h>

#include "daemon/base/limits.h"
#include "tests/lib/strict_segment.h"

#define TOLD_MAX	4096u
#define NEVER		UINT64_MAX
#define RETRY_NS	(2 * SPOOL_RETRY_NS_MAX)

static struct faulty_disk faulty;

/* ---- What the files say ----------------------------------------------------------------------- */

struct told {
	enum frame_type type;
	unsigned ring;
	uint64_t first, end, events;	/* a Gap's, or a Batch's */
	enum loss_reason reason;
	uint64_t time_ns, positions, seq[RUN_RINGS], skipped[RUN_RINGS];	/* a Watermark's */
};

static struct told told[TOLD_MAX];
static unsigned tolds;
static struct strict strict;

static unsigned ring_of(uint32_t cpu)
{
	return cpu == run_cpu_of[1];
}

static void note_gap(const Ringtail__V1__Gap *gap)
{
	told[tolds++] = (struct told){.type = FRAME_GAP, .ring = ring_of(gap->cpu),
				      .first = gap->first_seq, .end = gap->end_seq,
				      .events = gap->events, .reason = (enum loss_reason)gap->reason};
}

static void note_watermark(const Ringtail__V1__Watermark *watermark)
{
	struct told *mine = &told[tolds++];

	*mine = (struct told){.type = FRAME_WATERMARK, .time_ns = watermark->time_ns,
			      .positions = watermark->n_position};
	for (size_t i = 0; i < watermark->n_position; i++) {
		unsigned ring = ring_of(watermark->position[i]->cpu);

		mine->seq[ring] = watermark->position[i]->seq;
		mine->skipped[ring] = watermark->position[i]->skipped;
	}
}

static void note_batch(const Ringtail__V1__Batch *batch)
{
	told[tolds++] = (struct told){.type = FRAME_BATCH, .ring = ring_of(batch->cpu),
				      .first = batch->first_seq, .end = batch->end_seq,
				      .events = batch->events};
}

static void note(uint8_t type, const uint8_t *body, size_t bytes)
{
	ProtobufCMessage *message = NULL;

	assert_true(tolds < TOLD_MAX);
	if (type == FRAME_GAP) {
		message = (ProtobufCMessage *)ringtail__v1__gap__unpack(NULL, bytes, body);
		note_gap((Ringtail__V1__Gap *)message);
	} else if (type == FRAME_WATERMARK) {
		message = (ProtobufCMessage *)ringtail__v1__watermark__unpack(NULL, bytes, body);
		note_watermark((Ringtail__V1__Watermark *)message);
	} else if (type == FRAME_BATCH) {
		message = (ProtobufCMessage *)ringtail__v1__batch__unpack(NULL, bytes, body);
		note_batch((Ringtail__V1__Batch *)message);
	}
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

static void read_file(struct spool_run *run, const struct faulty_file *file)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	struct frame_header header;
	const uint8_t *body;

	for (size_t at = 0; at < file->n; at += FRAME_HEADER_BYTES + header.body_bytes) {
		if (frame_parse_header(file->bytes + at, file->n - at, sizeof(raw), &header) !=
			    FRAME_OK ||
		    frame_open(run->codec, file->bytes + at, &header, raw, &body) != FRAME_OK)
			return;
		note(header.type, body, header.raw_bytes);
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct faulty_name *)a)->path, ((const struct faulty_name *)b)->path);
}

/* Every segment, in order: `told`, and whether that has holes. */
static void read_all(struct spool_run *run)
{
	static struct faulty_name name[FAULTY_FILES_MAX];
	unsigned n = faulty.names.n;

	tolds = 0;
	strict = (struct strict){.codec = run->codec};
	memcpy(name, faulty.names.name, n * sizeof(name[0]));
	qsort(name, n, sizeof(name[0]), by_path);
	for (unsigned i = 0; i < n; i++) {
		const struct faulty_file *file = &faulty.file[name[i].file < 0 ? 0 : name[i].file];
		const char *path = name[i].path;

		if (name[i].file < 0 || !(strstr(path, ".seg") || strstr(path, ".open")))
			continue;
		read_file(run, file);
		strict_read(&strict, file->bytes, file->n);
	}
	assert_int_equal(strict.residual, 0);
	assert_int_equal(strict.holes, 0);
	assert_int_equal(strict.wrong_ends, 0);
}

/* The i-th of that type. */
static const struct told *nth(enum frame_type type, unsigned n)
{
	for (unsigned i = 0; i < tolds; i++)
		if (told[i].type == type && n-- == 0)
			return &told[i];
	fail_msg("there is none");
	return NULL;
}

static unsigned count(enum frame_type type)
{
	unsigned n = 0;

	for (unsigned i = 0; i < tolds; i++)
		n += told[i].type == type;
	return n;
}

static void expect_gap(const struct told *gap, unsigned ring, uint64_t first, uint64_t end,
		       uint64_t events, enum loss_reason reason)
{
	assert_int_equal(gap->ring, ring);
	assert_int_equal(gap->first, first);
	assert_int_equal(gap->end, end);
	assert_int_equal(gap->events, events);
	assert_int_equal(gap->reason, reason);
}

/* ---- A run ------------------------------------------------------------------------------------ */

static void begin(struct spool_run *run, enum spool_durability durability)
{
	faulty_disk_init(&faulty, 1);
	run_init(run, &faulty, durability);
	run->config.segment_bytes = 1 << 20;
	run->config.size_bytes = 8 << 20;
}

static void end(struct spool_run *run)
{
	run_fini(run);
	faulty_disk_fini(&faulty);
}

static void settle(struct spool_run *run)
{
	run_now_ns += 300000000;
	disk_thread_settle(run->thread);
}

static void append(struct spool_run *run, struct frame_ref *frame)
{
	spool_append(run->spool, frame);
	settle(run);
}

static void break_disk(void)
{
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EIO;
	faulty.fail_for_ever = true;
}

static void mend_disk(void)
{
	faulty.fail_at = NEVER;
	run_now_ns += RETRY_NS;
}

static uint64_t events_of(const struct frame_ref *frame)
{
	return frame->events + frame_ref_losses(frame);
}

/* ---- Durable ---------------------------------------------------------------------------------- */

/* The sync comes each few seconds: until it has come nothing is durable, and a power cut takes it. */
static void durable_with_the_sync_alone(void **state)
{
	uint64_t durable;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_FSYNC);
	run.config.sync_interval_ns = 10 * NS_PER_S;
	run_open(&run);
	for (unsigned i = 0; i < 4; i++)
		append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(run.end[0], 0);
	run_now_ns += 10 * NS_PER_S;
	append(&run, run_batch(&run, 0, 5, 1));
	durable = run.end[0];
	assert_int_equal(durable, run.seq[0]);
	append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(run.end[0], durable);
	/* The power goes: the daemon that comes next finds what was told, and no more. */
	faulty.cut_at = faulty.operations;
	run_close(&run);
	faulty_disk_cut(&faulty, FAULTY_DROP);
	run_open(&run);
	assert_int_equal(run.end[0], durable);
	end(&run);
}

/*
 * A daemon was killed before its sync, and the disk fails the next one once, whenever: what that finds and tells
 * to be durable outlives a power cut; what it could not sync is not told.
 */
static void found_is_durable_once_it_is_synced(void **state)
{
	unsigned whole = 0, steps = 40;
	struct spool_run run;
	uint64_t durable;

	(void)state;
	for (unsigned step = 0; step < steps; step++) {
		begin(&run, SPOOL_FSYNC);
		run.config.sync_interval_ns = 10 * NS_PER_S;
		run_open(&run);
		for (unsigned i = 0; i < 2; i++)
			append(&run, run_batch(&run, 0, 5, 1));
		assert_int_equal(run.end[0], 0);
		faulty.cut_at = faulty.operations;
		run_close(&run);
		faulty_disk_cut(&faulty, FAULTY_KILL);
		faulty.fail_at = faulty.operations + step;
		faulty.fail_errno = EIO;
		run_open(&run);
		durable = run.end[0];
		whole += durable == run.seq[0];
		faulty.cut_at = faulty.operations;
		run_close(&run);
		faulty_disk_cut(&faulty, FAULTY_DROP);
		run_open(&run);
		assert_true(run.end[0] >= durable);
		end(&run);
	}
	assert_true(whole > steps / 2 && whole < steps);
}

/* Whoever keeps a spool as the system writes it is told at once. */
static void written_is_durable_at_once(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(run.end[0], run.seq[0]);
	end(&run);
}

/*
 * A segment that is sealed outlives a power cut under its name, also where nothing else is ever synced: one that
 * was sealed when it was full, and one that a killed daemon left open and the next one sealed.
 */
static void sealed_outlives_a_power_cut(void **state)
{
	struct spool_run run;
	uint64_t sealed;

	(void)state;
	for (unsigned salvaged = 0; salvaged < 2; salvaged++) {
		begin(&run, SPOOL_WRITTEN);
		run.config.segment_bytes = salvaged ? 1 << 20 : 1500;
		run_open(&run);
		for (unsigned i = 0; i < 20 && !faulty_find(&faulty.names, "spool/run/0000000000000001.seg") &&
				     !(salvaged && i == 3); i++)
			append(&run, run_batch(&run, 0, 5, 1));
		sealed = run.seq[0];
		faulty.cut_at = faulty.operations;
		run_close(&run);
		if (salvaged) {
			faulty_disk_cut(&faulty, FAULTY_KILL);
			run_open(&run);
			faulty.cut_at = faulty.operations;
			run_close(&run);
		}
		assert_non_null(faulty_find(&faulty.names, "spool/run/0000000000000001.seg"));
		faulty_disk_cut(&faulty, FAULTY_DROP);
		assert_non_null(faulty_find(&faulty.names, "spool/run/0000000000000001.seg"));
		run_open(&run);
		assert_int_equal(run.end[0], sealed);
		end(&run);
	}
}

/* A segment whose file failed has an end nevertheless: it is read as the others are, and goes as they do. */
static void failed_file_is_read_and_goes(void **state)
{
	static struct run_back back;
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EIO;
	for (unsigned i = 0; i < 2; i++)
		append(&run, run_batch(&run, 0, 5, 1));
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.segments, 2);
	assert_int_equal(run.end[0], run.seq[0]);
	run_read(&run, &back);
	assert_int_equal(back.there, run.seq[0]);
	run_release(&run, RUN_EPOCH, run.seq);
	settle(&run);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.segments, 1);
	end(&run);
}

/* With a short spool-age a segment is sealed after a quarter of it, though it is not full. */
static void segment_is_sealed_after_a_quarter_of_the_age(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run.config.age_ns = 40 * NS_PER_S;
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	run_now_ns += 5 * NS_PER_S;
	append(&run, run_batch(&run, 0, 5, 1));
	assert_null(faulty_find(&faulty.names, "spool/run/0000000000000001.seg"));
	run_now_ns += 5 * NS_PER_S;
	append(&run, run_batch(&run, 0, 5, 1));
	assert_non_null(faulty_find(&faulty.names, "spool/run/0000000000000001.seg"));
	end(&run);
}

/* ---- What was lost ---------------------------------------------------------------------------- */

/* A spool that lost what it has not told yet does not end orderly: what is missing behind it was not left out. */
static void untold_loss_is_no_orderly_end(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run.config.policy = SPOOL_DROP_NEW;
	run.config.segment_bytes = 1500;
	run.config.size_bytes = 6000;
	run_open(&run);
	for (unsigned i = 0; i < 40; i++)
		append(&run, run_batch(&run, 0, 5, 1));
	run_check_ledger(&run, &stat, &lost);
	assert_true(lost > 0);
	run_close(&run);
	run_open(&run);
	assert_int_equal(spool_missing_reason(run.spool), LOSS_REASON_RESTART);
	end(&run);
}

/* However long the disk has failed, it is tried again within SPOOL_RETRY_NS_MAX. */
static void failed_for_long_is_tried_soon(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	break_disk();
	for (unsigned i = 0; i < 12; i++) {
		append(&run, run_batch(&run, 0, 5, 1));
		run_now_ns += SPOOL_RETRY_NS_MAX;
	}
	faulty.fail_at = UINT64_MAX;
	run_now_ns += SPOOL_RETRY_NS_MAX;
	append(&run, run_batch(&run, 0, 5, 1));
	settle(&run);
	assert_int_equal(run.end[0], run.seq[0]);
	end(&run);
}

/* What ends where this run begins is missing from before it; what goes on into it, the spool gave up. */
static void missing_up_to_where_the_run_begins(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	spool_begin_ring(run.spool, 0, 10);
	assert_int_equal(spool_gap_reason(run.spool, 0, 10), spool_missing_reason(run.spool));
	assert_int_equal(spool_gap_reason(run.spool, 0, 11), LOSS_REASON_SPOOL_FULL);
	end(&run);
}

/* Several frames of both rings while the disk fails: a Gap for each ring, with all of its events. */
static void disk_fails(void **state)
{
	uint64_t events[RUN_RINGS] = {0}, first[RUN_RINGS], seq[RUN_RINGS];
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	for (unsigned i = 0; i < 4; i++)
		append(&run, run_batch(&run, i % 2, 5, 1));
	memcpy(first, run.seq, sizeof(first));
	break_disk();
	for (unsigned i = 0; i < 9; i++) {
		struct frame_ref *frame = run_batch(&run, i % 2, 4 + i % 3, i % 4);

		events[i % 2] += events_of(frame);
		append(&run, frame);
	}
	memcpy(seq, run.seq, sizeof(seq));
	mend_disk();
	append(&run, run_batch(&run, 0, 5, 1));
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(lost, seq[0] - first[0] + seq[1] - first[1]);
	assert_int_equal(stat.lost[LOSS_REASON_DISK], lost);
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 2);
	for (unsigned i = 0; i < RUN_RINGS; i++)
		expect_gap(nth(FRAME_GAP, i), i, first[i], seq[i], events[i], LOSS_REASON_DISK);
	end(&run);
}

/* A watermark in place of those that were lost: as far in time as they, and as far as the skips go. */
static void watermarks_are_made_up_for(void **state)
{
	const struct told *made;
	uint64_t time_ns, told_of;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 1, 5, 0));
	told_of = run.seq[1];
	break_disk();
	append(&run, run_quiet_range(&run, 1, 3));
	append(&run, run_watermark_after(&run, (const uint64_t[RUN_RINGS]){0, 3}));
	append(&run, run_quiet_range(&run, 1, 4));
	time_ns = run_now_ns;
	append(&run, run_watermark_after(&run, (const uint64_t[RUN_RINGS]){0, 4}));
	mend_disk();
	append(&run, run_batch(&run, 0, 5, 0));
	/* It speaks of the skips: they are durable, without another. */
	assert_int_equal(run.end[1], told_of + 7);
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 0);
	assert_int_equal(count(FRAME_WATERMARK), 1);
	made = nth(FRAME_WATERMARK, 0);
	assert_int_equal(made->time_ns, time_ns);
	assert_int_equal(made->positions, 1);
	assert_int_equal(made->seq[1], told_of + 7);
	assert_int_equal(made->skipped[1], 7);
	end(&run);
}

/* Skips, and then events of the same ring: what speaks of the skips stands before the events' Gap. */
static void skips_before_a_loss(void **state)
{
	uint64_t first, events;
	struct frame_ref *frame;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 1, 5, 0));
	append(&run, run_quiet_range(&run, 1, 3));	/* no disk is needed for it */
	first = run.seq[1];
	break_disk();
	append(&run, run_watermark_after(&run, (const uint64_t[RUN_RINGS]){0, 3}));
	frame = run_batch(&run, 1, 5, 0);
	events = events_of(frame);
	append(&run, frame);
	mend_disk();
	append(&run, run_batch(&run, 0, 5, 0));
	append(&run, run_batch(&run, 1, 5, 0));
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 1);
	/* The skips were on their way with the watermark, and are lost with it. */
	assert_true(nth(FRAME_GAP, 0)->first <= first);
	assert_int_equal(nth(FRAME_GAP, 0)->events, events);
	end(&run);
}

/* Of a Gap that did not come to the disk the reason stays what it was. */
static void gap_is_lost_itself(void **state)
{
	struct spool_run run;
	uint64_t was;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	was = run.seq[0];
	faulty.cut_at = faulty.operations;
	run_close(&run);
	faulty_disk_cut(&faulty, FAULTY_KILL);
	run_open(&run);
	break_disk();
	spool_begin_ring(run.spool, 0, was + 20);
	settle(&run);
	mend_disk();
	run.seq[0] = was + 20;
	append(&run, run_watermark(&run));
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 1);
	expect_gap(nth(FRAME_GAP, 0), 0, was, was + 20, 20, LOSS_REASON_RESTART);
	end(&run);
}

/* What is on its way is bounded; what came later was lost first, and the Gap begins with the earlier. */
static void queue_is_full_and_then_the_disk_fails(void **state)
{
	const uint32_t bytes = 8 << 20;
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	break_disk();
	for (unsigned i = 0; i < 12; i++) {
		struct frame_ref *frame = frame_ref_create(FRAME_BATCH, bytes);

		assert_non_null(frame);
		memset(frame->data, 0, 64);
		frame->cpu = run_cpu_of[0];
		frame->first_seq = run.seq[0];
		frame->end_seq = run.seq[0] += 10;
		frame->events = 10;
		spool_append(run.spool, frame);
	}
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.lost[LOSS_REASON_QUEUE_FULL], lost);
	assert_true(lost >= 12 * 10 - SPOOL_HELD_BYTES_MAX / bytes * 10 && lost < 120);
	settle(&run);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(lost, 120);
	mend_disk();
	append(&run, run_watermark(&run));
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 1);
	expect_gap(nth(FRAME_GAP, 0), 0, 0, 120, 120, LOSS_REASON_DISK);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(lost, 120);
	assert_int_equal(stat.in_flight, 0);
	end(&run);
}

/* ---- Over a restart ---------------------------------------------------------------------------- */

/* What the spool has already comes again: it is neither stored nor counted anew. */
static void what_is_there_comes_again(void **state)
{
	struct spool_stat stat;
	uint64_t lost, was;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	was = run.seq[0];
	run_close(&run);
	run_open(&run);
	run.seq[0] = 0;
	append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(run.seq[0], was);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.produced, 0);
	append(&run, run_batch(&run, 0, 5, 1));
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.produced, run.seq[0] - was);
	read_all(&run);
	assert_int_equal(count(FRAME_BATCH), 2);
	end(&run);
}

/*
 * What came while the spool was opened waited, and counts once; a watermark that was lost meanwhile is made
 * up for.
 */
static void comes_while_it_is_opened(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_start(&run);
	run_open_spool(&run);
	for (unsigned i = 0; i < 4; i++)
		spool_append(run.spool, run_batch(&run, i % 2, 5, 1));
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.produced, run.seq[0] + run.seq[1]);
	assert_int_equal(stat.in_flight, stat.produced);
	settle(&run);
	settle(&run);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.produced, run.seq[0] + run.seq[1]);
	assert_int_equal(stat.stored, stat.produced);
	read_all(&run);
	assert_int_equal(count(FRAME_BATCH), 4);
	end(&run);
}

/* The disk fails as the spool is opened: skips and their watermark are told once it does not. */
static void fails_as_it_is_opened(void **state)
{
	const struct told *made;
	uint64_t time_ns;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_start(&run);
	break_disk();
	run_open_spool(&run);
	spool_append(run.spool, run_quiet_range(&run, 1, 3));
	time_ns = run_now_ns;
	spool_append(run.spool, run_watermark_after(&run, (const uint64_t[RUN_RINGS]){0, 3}));
	settle(&run);
	mend_disk();
	append(&run, run_batch(&run, 0, 5, 0));
	settle(&run);
	run_now_ns += RETRY_NS;
	append(&run, run_batch(&run, 0, 5, 0));
	read_all(&run);
	assert_true(count(FRAME_WATERMARK) > 0);
	made = nth(FRAME_WATERMARK, 0);
	assert_true(made->time_ns >= time_ns);
	assert_int_equal(made->seq[1], 3);
	assert_int_equal(made->skipped[1], 3);
	end(&run);
}

/* ---- What waits, and what there is no room for -------------------------------------------------- */

/* Nothing makes it smaller. */
static struct frame_ref *big_batch(struct spool_run *run, unsigned ring)
{
	static uint32_t probe[160000], value = 1;
	const size_t n = sizeof(probe) / sizeof(probe[0]);
	struct frame_ref *frame;

	for (size_t i = 0; i < n; i++)
		probe[i] = value = value * 1664525 + 1013904223;
	frame = run_batch_of(run, ring, 5, 0, probe, n);
	assert_true(frame->bytes > 600000);
	return frame;
}

/*
 * A watermark in place of one that found no room tells of skips behind what waits for a sync, and up to what was
 * lost: neither of what waits, nor of what the Gap tells.
 */
static void skips_between_what_waits_and_a_loss(void **state)
{
	uint64_t waits, skipped;
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run, SPOOL_FSYNC);
	run.config.policy = SPOOL_DROP_NEW;
	run.config.size_bytes = 1000000;
	run.config.sync_interval_ns = 3000 * NS_PER_S;
	run_open(&run);
	append(&run, big_batch(&run, 0));
	append(&run, run_batch(&run, 1, 5, 1));
	waits = run.seq[1];
	assert_int_equal(run.end[1], 0);
	spool_append(run.spool, run_quiet_range(&run, 1, 3));
	skipped = run.seq[1];
	spool_append(run.spool, big_batch(&run, 1));
	append(&run, run_watermark_after(&run, (const uint64_t[RUN_RINGS]){0, 3}));
	spool_stat(run.spool, &stat);
	assert_string_equal(stat.state, "full");
	run_now_ns += run.config.age_ns;
	for (unsigned i = 0; i < 4; i++) {
		run_now_ns += i == 3 ? run.config.sync_interval_ns : SPOOL_TIDY_NS;
		append(&run, run_watermark(&run));
	}
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 1);
	assert_int_equal(nth(FRAME_GAP, 0)->first, skipped);
	assert_int_equal(nth(FRAME_GAP, 0)->end, run.seq[1]);
	assert_int_equal(nth(FRAME_WATERMARK, 0)->positions, 1);
	assert_int_equal(nth(FRAME_WATERMARK, 0)->seq[1], skipped);
	assert_int_equal(nth(FRAME_WATERMARK, 0)->skipped[1], skipped - waits);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.in_flight, 0);
	assert_int_equal(lost, run.seq[1] - skipped);
	end(&run);
}

/* Frames that come together have room together, or the last of them has none. */
static void frames_of_one_turn_share_the_room(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run.config.policy = SPOOL_DROP_NEW;
	run.config.size_bytes = 1000000;
	run_open(&run);
	spool_append(run.spool, run_watermark(&run));	/* a turn of its own, during which the others come */
	for (unsigned i = 0; i < 3; i++)
		spool_append(run.spool, big_batch(&run, 0));
	settle(&run);
	run_check_ledger(&run, &stat, &lost);
	assert_true(stat.bytes <= run.config.size_bytes);
	assert_int_equal(stat.lost[LOSS_REASON_SPOOL_FULL], lost);
	assert_int_equal(stat.stored, run.seq[0] / 3);
	end(&run);
}

/* Up to spool-size: what fits to the byte is stored. */
static void what_fits_exactly_is_stored(void **state)
{
	uint64_t exact = 100000;
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct frame_ref *second;

		begin(&run, SPOOL_WRITTEN);
		run.config.policy = SPOOL_DROP_NEW;
		run.config.segment_bytes = 1;
		run.config.size_bytes = i == 2 ? exact - 1 : exact;
		run_open(&run);
		append(&run, run_batch(&run, 0, 5, 1));
		spool_stat(run.spool, &stat);
		second = run_batch(&run, 0, 5, 1);
		exact = i == 0 ? stat.bytes + second->bytes : exact;
		append(&run, second);
		spool_stat(run.spool, &stat);
		assert_int_equal(stat.stored == run.seq[0], i < 2);
		end(&run);
	}
}

/*
 * More comes while the spool is opened than may wait: what waits is lost with it, and told in one Gap behind what was
 * there. What comes then is stored behind that.
 */
static void too_much_comes_while_it_is_opened(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost, was, first;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	was = run.seq[0];
	run_close(&run);
	run_start(&run);
	run_open_spool(&run);
	for (unsigned i = 0; i < SPOOL_HELD_BYTES_MAX / (8 << 20); i++) {
		struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 8 << 20);

		assert_non_null(frame);
		frame->cpu = run_cpu_of[0];
		frame->first_seq = run.seq[0];
		frame->end_seq = run.seq[0] += 10;
		frame->events = 10;
		spool_append(run.spool, frame);
	}
	first = run.seq[0];
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.lost[LOSS_REASON_QUEUE_FULL], first - was);
	spool_append(run.spool, run_batch(&run, 0, 5, 1));
	spool_append(run.spool, run_batch(&run, 1, 5, 1));
	settle(&run);
	settle(&run);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.produced, run.seq[0] - was + run.seq[1]);
	assert_int_equal(lost, first - was);
	assert_int_equal(stat.in_flight, 0);
	assert_int_equal(run.end[0], run.seq[0]);
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 1);
	expect_gap(nth(FRAME_GAP, 0), 0, was, first, first - was, LOSS_REASON_QUEUE_FULL);
	assert_int_equal(count(FRAME_BATCH), 3);
	end(&run);
}

static unsigned files_named(const char *suffix)
{
	unsigned n = 0;

	for (unsigned i = 0; i < faulty.names.n; i++)
		n += faulty.names.name[i].file >= 0 && strstr(faulty.names.name[i].path, suffix);
	return n;
}

/* More waits than a turn takes when the spool is closed: all of it is written, and then that it was all. */
static void closed_with_more_than_a_turn_takes(void **state)
{
	struct spool_run run;
	uint64_t seq;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run.config.size_bytes = 64 << 20;
	run.config.segment_bytes = 16 << 20;
	run_open(&run);
	for (unsigned i = 0; i < 2 * (SPOOL_TURN_BYTES / 600000) + 2; i++)
		spool_append(run.spool, big_batch(&run, 0));
	seq = run.seq[0];
	spool_close(run.spool);
	run.spool = NULL;
	run_close(&run);
	assert_int_equal(files_named(".open"), 0);
	assert_int_equal(files_named(".seg"), 1);
	run_open(&run);
	assert_int_equal(run.end[0], seq);
	assert_int_equal(spool_missing_reason(run.spool), LOSS_REASON_NOT_RECORDED);
	end(&run);
}

/* What finds no room as the spool is closed was not left out: the spool does not say that this was all. */
static void closed_while_it_is_full(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run.config.policy = SPOOL_DROP_NEW;
	run.config.size_bytes = 1000000;
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	append(&run, big_batch(&run, 0));
	append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(run.end[0], run.seq[0]);
	run_now_ns += 1;
	spool_append(run.spool, run_watermark(&run));	/* a turn is under way: the last one takes what comes now */
	spool_append(run.spool, big_batch(&run, 0));
	run_close(&run);
	run_open(&run);
	assert_int_equal(spool_missing_reason(run.spool), LOSS_REASON_RESTART);
	end(&run);
}

/* A segment is at most a quarter of the spool: when one goes, most of what there was stays. */
static void a_quarter_goes_at_a_time(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t least = UINT64_MAX;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run.config.size_bytes = 20000;
	run_open(&run);
	for (unsigned i = 0; i < 120; i++) {
		append(&run, run_batch(&run, 0, 5, 1));
		spool_stat(run.spool, &stat);
		if (stat.deleted && stat.bytes < least)
			least = stat.bytes;
	}
	assert_true(stat.deleted > 4);
	assert_true(least > 20000 * 5 / 8);
	end(&run);
}

/* ---- A disk that fails ---------------------------------------------------------------------------- */

/* An earlier daemon left something, and the disk fails as it is opened: what is lost, and what is missing before. */
static void fails_as_what_is_there_is_opened(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost, was;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	was = run.seq[0];
	faulty.cut_at = faulty.operations;
	run_close(&run);
	faulty_disk_cut(&faulty, FAULTY_KILL);
	run_start(&run);
	break_disk();
	run_open_spool(&run);
	settle(&run);
	assert_int_equal(run.opened, 1);
	run.seq[0] = was + 20;
	append(&run, run_batch(&run, 0, 5, 1));
	run_check_ledger(&run, &stat, &lost);
	assert_string_equal(stat.state, "failed");
	assert_int_equal(stat.lost[LOSS_REASON_DISK], run.seq[0] - was - 20);
	assert_int_equal(lost, run.seq[0] - was - 20);
	mend_disk();
	spooler_turn(run.spooler);
	settle(&run);
	assert_int_equal(run.end[0], run.seq[0]);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.produced, run.seq[0] - was);
	assert_int_equal(lost, stat.produced);
	assert_int_equal(stat.stored, 0);
	read_all(&run);
	assert_int_equal(count(FRAME_GAP), 1);
	assert_int_equal(nth(FRAME_GAP, 0)->first, was);
	assert_int_equal(nth(FRAME_GAP, 0)->end, run.seq[0]);
	end(&run);
}

/* Nothing comes: where the spool ends is told once that is known. */
static void fails_as_it_is_opened_and_nothing_comes(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	run_close(&run);
	run_start(&run);
	break_disk();
	run_open_spool(&run);
	settle(&run);
	assert_int_equal(run.end[0], 0);
	mend_disk();
	run.opened = 0;
	spooler_turn(run.spooler);
	settle(&run);
	assert_int_equal(run.opened, 1);
	assert_int_equal(run.end[0], run.seq[0]);
	end(&run);
}

/* How often the disk was asked in so many seconds. */
static unsigned tries(struct spool_run *run, unsigned seconds)
{
	unsigned n = 0;

	for (unsigned i = 0; i < seconds; i++) {
		uint64_t before = faulty.operations;

		run_now_ns += NS_PER_S;
		spool_append(run->spool, run_batch(run, 0, 1, 0));
		disk_thread_settle(run->thread);
		n += faulty.operations != before;
	}
	return n;
}

/* Tries become rarer while it fails. After one that succeeds they begin anew. */
static void tries_become_rarer_and_begin_anew(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	for (unsigned i = 0; i < 2; i++) {
		break_disk();
		append(&run, run_batch(&run, 0, 5, 1));
		assert_in_range(tries(&run, 31), 4, 6);		/* after 1, 2, 4, 8 and 16 s */
		assert_in_range(tries(&run, 60), 1, 2);
		mend_disk();
		append(&run, run_batch(&run, 0, 5, 1));
		settle(&run);
		assert_int_equal(run.end[0], run.seq[0]);
	}
	end(&run);
}

static unsigned said;

static void count_said(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)text;
	said += strcmp(code, "spool-disk") == 0;
}

/* That the disk fails is said once; and once more when it does so again. */
static void said_once_each_time(void **state)
{
	static const struct log_sink sink = {.write = count_said, .now_ns = clock_monotonic};
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	log_set_sink(&sink);
	for (unsigned i = 1; i <= 2; i++) {
		break_disk();
		append(&run, run_batch(&run, 0, 5, 1));
		run_now_ns += RETRY_NS;
		append(&run, run_batch(&run, 0, 5, 1));
		assert_int_equal(said, i);
		mend_disk();
		append(&run, run_batch(&run, 0, 5, 1));
	}
	run_quiet();
	end(&run);
}

static struct disk_ops other_ops;
static const struct disk_ops *sound_ops;
static unsigned syncs;

static int refuse_to_remove(struct disk *disk, const char *path)
{
	(void)disk, (void)path;
	return -EACCES;
}

static int count_sync(struct disk *disk, int file)
{
	syncs++;
	return sound_ops->sync(disk, file);
}

/* There is no room, and no file can be deleted: that is the disk's failure. */
static void nothing_can_be_deleted(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	sound_ops = faulty.disk.ops;
	other_ops = *sound_ops;
	other_ops.remove = refuse_to_remove;
	faulty.disk.ops = &other_ops;
	run.config.size_bytes = 20000;
	run_open(&run);
	for (unsigned i = 0; i < 60; i++)
		append(&run, run_batch(&run, 0, 5, 1));
	run_check_ledger(&run, &stat, &lost);
	assert_true(lost > 0);
	assert_in_range(stat.bytes, 10000, 24000);	/* heads and ends of segments are beyond it */
	assert_int_equal(stat.lost[LOSS_REASON_DISK], lost);
	assert_string_equal(stat.state, "failed");
	other_ops.remove = sound_ops->remove;
	run_now_ns += RETRY_NS;
	append(&run, run_batch(&run, 0, 5, 1));
	settle(&run);
	assert_int_equal(run.end[0], run.seq[0]);
	end(&run);
}

/* What is kept as the system writes it costs a sync for each segment, and none for what is in it. */
static void written_is_not_synced(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	sound_ops = faulty.disk.ops;
	other_ops = *sound_ops;
	other_ops.sync = count_sync;
	faulty.disk.ops = &other_ops;
	run_open(&run);
	syncs = 0;
	for (unsigned i = 0; i < 10; i++)
		append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(syncs, 0);
	run_close(&run);
	assert_int_equal(syncs, 1);
	end(&run);
}

/* ---- Watermarks ----------------------------------------------------------------------------------- */

/* What was skipped of any ring is durable with the watermark that tells of it, and that is told. */
static void skips_of_each_ring_are_durable(void **state)
{
	struct spool_run run;

	(void)state;
	for (unsigned ring = 0; ring < RUN_RINGS; ring++) {
		uint64_t skipped[RUN_RINGS] = {0};

		begin(&run, SPOOL_WRITTEN);
		run_open(&run);
		skipped[ring] = 3;
		append(&run, run_quiet_range(&run, ring, 3));
		assert_int_equal(run.end[ring], 0);
		append(&run, run_watermark_after(&run, skipped));
		assert_int_equal(run.end[ring], 3);
		end(&run);
	}
}

/* A watermark was lost that told of nothing new: what stands in its place tells of nothing, either. */
static void made_up_watermark_without_news(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_quiet_range(&run, 1, 3));
	append(&run, run_watermark_after(&run, (const uint64_t[RUN_RINGS]){0, 3}));
	append(&run, run_batch(&run, 1, 5, 0));
	break_disk();
	append(&run, run_watermark(&run));
	mend_disk();
	append(&run, run_batch(&run, 1, 5, 0));
	read_all(&run);
	assert_int_equal(count(FRAME_WATERMARK), 2);
	assert_int_equal(nth(FRAME_WATERMARK, 1)->positions, 0);
	end(&run);
}

/* ---- Places of runs ------------------------------------------------------------------------------- */

/* A batch begins in what the spool has, and ends behind it: it is stored. */
static void begins_in_what_is_there(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	run_close(&run);
	run_open(&run);
	run.seq[0] -= 2;
	append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(run.end[0], run.seq[0]);
	end(&run);
}

/* Nothing is on disk. From when it was recorded first, a reader is told of no gap. */
static void recorded_since_the_first_word(void **state)
{
	const uint64_t since_ns = 1000;
	struct spool_run run;
	struct run_back back;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	spool_set_recorded(run.spool, since_ns);
	spool_set_recorded(run.spool, since_ns + 500);
	run_now_ns += 2 * SPOOL_TIDY_NS;
	spooler_turn(run.spooler);
	settle(&run);
	for (unsigned i = 0; i < 3; i++) {
		run_read_from(&run, &back, &(struct spool_place){.realtime_ns = since_ns - 1 + i});
		assert_int_equal(back.unknown[LOSS_REASON_NOT_RECORDED], i == 0);
		assert_int_equal(back.frames, i == 0);
	}
	end(&run);
}

/* A run that stores nothing ends all the same, though the one before has said so of itself. */
static void run_that_stores_nothing_ends(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_open(&run);
	append(&run, run_batch(&run, 0, 5, 1));
	run_close(&run);
	run.config.run.epoch++;
	run_open(&run);
	run_close(&run);
	assert_int_equal(files_named(".seg"), 2);
	run_open(&run);
	run_close(&run);
	assert_int_equal(files_named(".seg"), 2);	/* that is said once */
	end(&run);
}

/* Something of one spool waits for its sync. Another one is opened meanwhile, but none of its name. */
static void opened_while_another_one_waits(void **state)
{
	struct spool *first;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_FSYNC);
	run.config.sync_interval_ns = 10 * NS_PER_S;
	run_open(&run);
	first = run.spool;
	append(&run, run_batch(&run, 0, 5, 1));
	assert_int_equal(run.end[0], 0);
	run_open_named(&run, "other");
	disk_thread_settle(run.thread);
	assert_int_equal(run.opened, 2);
	run_open_named(&run, "run");
	disk_thread_settle(run.thread);
	assert_int_equal(run.opened, 2);
	assert_true(spooler_has(run.spooler, "run") && spooler_has(run.spooler, "other"));
	spool_close(first);
	disk_thread_settle(run.thread);
	assert_int_equal(run.opened, 3);
	spool_close(run.spool);
	run.spool = NULL;
	assert_false(spooler_has(run.spooler, "run"));
	assert_int_equal(spooler_count(run.spooler), 1);
	end(&run);
}

/* ---- Anything, in any order -------------------------------------------------------------------- */

static uint8_t is_event[RUN_RINGS][RUN_ATTEMPTS_MAX];
static uint64_t untold[RUN_RINGS];	/* skipped without a frame since one told of the ring */

static unsigned dice(unsigned *seed, unsigned sides)
{
	return (unsigned)rand_r(seed) % sides;
}

static void append_watermark(struct spool_run *run)
{
	spool_append(run->spool, run_watermark_after(run, untold));
	memset(untold, 0, sizeof(untold));
}

/* As the main loop does it: what was skipped is told before the ring's next frame. */
static void append_something(struct spool_run *run, unsigned *seed)
{
	unsigned ring = dice(seed, RUN_RINGS), what = dice(seed, 8);
	uint64_t first = run->seq[ring];
	struct frame_ref *frame;

	run_now_ns += 100000000;
	if (what < 3 && untold[ring])
		append_watermark(run);
	if (what < 3) {
		frame = run_batch(run, ring, 1 + dice(seed, 5), dice(seed, 3));
		memset(&is_event[ring][first], 1, events_of(frame));
		spool_append(run->spool, frame);
	} else if (what < 6) {
		frame = run_quiet_range(run, ring, 1 + dice(seed, 4));
		untold[ring] += frame->skipped;
		spool_append(run->spool, frame);
	} else {
		append_watermark(run);
	}
}

/* The disk fails now and then, and the spool is full now and then. */
static void something_happens(unsigned *seed)
{
	unsigned what = dice(seed, 16);

	if (what == 0) {
		faulty.fail_at = faulty.operations + dice(seed, 6);
		faulty.fail_errno = EIO;
		faulty.fail_for_ever = dice(seed, 2);
	} else if (what < 3) {
		faulty.fail_at = NEVER;
		run_now_ns += dice(seed, 2) ? RETRY_NS : 5 * NS_PER_S;
	} else if (what == 3) {
		run_now_ns += 500 * NS_PER_S;
	}
}

/* No Gap says more or less than there was: each holds whole frames. */
static void check_gaps(void)
{
	for (unsigned i = 0; i < tolds; i++) {
		uint64_t events = 0;

		if (told[i].type != FRAME_GAP)
			continue;
		for (uint64_t seq = told[i].first; seq < told[i].end; seq++)
			events += is_event[told[i].ring][seq];
		assert_int_equal(told[i].events, events);
	}
}

static void check_end(struct spool_run *run)
{
	struct spool_stat stat;
	uint64_t lost;

	run_check_ledger(run, &stat, &lost);
	assert_int_equal(stat.in_flight, 0);
	assert_int_equal(stat.produced, run->seq[0] + run->seq[1]);
	read_all(run);
	check_gaps();
	for (unsigned i = 0; i < RUN_RINGS; i++) {
		const struct strict_ring *ring = strict_find(&strict, run_cpu_of[i]);

		assert_non_null(ring);
		assert_int_equal(ring->seq, run->seq[i]);
		assert_int_equal(run->end[i], run->seq[i]);
	}
}

static void history(unsigned seed)
{
	enum spool_durability durability = seed % 2 ? SPOOL_FSYNC : SPOOL_WRITTEN;
	struct spool_run run;

	begin(&run, durability);
	run.config.policy = SPOOL_DROP_NEW;
	run.config.segment_bytes = 1500;
	run.config.size_bytes = 8000 + 1000 * (seed % 5);
	run.config.age_ns = 400 * NS_PER_S;
	memset(is_event, 0, sizeof(is_event));
	memset(untold, 0, sizeof(untold));
	run_open(&run);
	for (unsigned step = 0; step < 120; step++) {
		append_something(&run, &seed);
		if (dice(&seed, 3) == 0)
			disk_thread_settle(run.thread);
		something_happens(&seed);
	}
	/* The disk is good, there is room, and all that is left is told. */
	for (unsigned i = 0; i < 4; i++) {
		disk_thread_settle(run.thread);
		faulty.fail_at = NEVER;
		run_now_ns += 500 * NS_PER_S;
		append_watermark(&run);
		disk_thread_settle(run.thread);
	}
	for (unsigned i = 0; i < RUN_RINGS; i++) {
		struct frame_ref *frame = run_batch(&run, i, 1, 0);

		memset(&is_event[i][frame->first_seq], 1, events_of(frame));
		spool_append(run.spool, frame);
		disk_thread_settle(run.thread);
	}
	check_end(&run);
	end(&run);
}

static void anything_in_any_order(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 400; seed++) {
		if (getenv("RINGTAIL_SEED") && seed != strtoul(getenv("RINGTAIL_SEED"), NULL, 0))
			continue;
		if (getenv("SPOOL_RUN_LOG"))
			fprintf(stderr, "seed %u\n", seed);
		history(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durable_with_the_sync_alone),
		cmocka_unit_test(found_is_durable_once_it_is_synced),
		cmocka_unit_test(written_is_durable_at_once),
		cmocka_unit_test(sealed_outlives_a_power_cut),
		cmocka_unit_test(failed_file_is_read_and_goes),
		cmocka_unit_test(segment_is_sealed_after_a_quarter_of_the_age),
		cmocka_unit_test(untold_loss_is_no_orderly_end),
		cmocka_unit_test(failed_for_long_is_tried_soon),
		cmocka_unit_test(missing_up_to_where_the_run_begins),
		cmocka_unit_test(disk_fails),
		cmocka_unit_test(watermarks_are_made_up_for),
		cmocka_unit_test(skips_before_a_loss),
		cmocka_unit_test(gap_is_lost_itself),
		cmocka_unit_test(queue_is_full_and_then_the_disk_fails),
		cmocka_unit_test(what_is_there_comes_again),
		cmocka_unit_test(comes_while_it_is_opened),
		cmocka_unit_test(fails_as_it_is_opened),
		cmocka_unit_test(skips_between_what_waits_and_a_loss),
		cmocka_unit_test(frames_of_one_turn_share_the_room),
		cmocka_unit_test(what_fits_exactly_is_stored),
		cmocka_unit_test(too_much_comes_while_it_is_opened),
		cmocka_unit_test(closed_with_more_than_a_turn_takes),
		cmocka_unit_test(closed_while_it_is_full),
		cmocka_unit_test(a_quarter_goes_at_a_time),
		cmocka_unit_test(fails_as_what_is_there_is_opened),
		cmocka_unit_test(fails_as_it_is_opened_and_nothing_comes),
		cmocka_unit_test(tries_become_rarer_and_begin_anew),
		cmocka_unit_test(said_once_each_time),
		cmocka_unit_test(nothing_can_be_deleted),
		cmocka_unit_test(written_is_not_synced),
		cmocka_unit_test(skips_of_each_ring_are_durable),
		cmocka_unit_test(made_up_watermark_without_news),
		cmocka_unit_test(begins_in_what_is_there),
		cmocka_unit_test(recorded_since_the_first_word),
		cmocka_unit_test(run_that_stores_nothing_ends),
		cmocka_unit_test(opened_while_another_one_waits),
		cmocka_unit_test(anything_in_any_order),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
