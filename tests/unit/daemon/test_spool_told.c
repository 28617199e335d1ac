/*
 * All that a reader is given, frame by frame, of a spool that something happened to: from each place it may
 * ask for, however much it asks for at a time, and whatever fails for a moment meanwhile.
 *
 * A transcript has a word for each frame. a and b are the rings, A and B those of the run of the rings before:
 * a3-8 a batch, a3-8~ a range of which nothing was asked for, a3-8!corrupt a gap, a3?corrupt one of no size;
 * w1.2 a watermark, seconds after the first; HCS what a reader of another run has first.
 * What is told was compared with docs/spool.md by eye; then it is to stay so.
 *
 * SPOOL_TOLD=1 in the environment prints what is given instead of comparing it.
 */
#include "tests/unit/daemon/spool_in_memory.h"

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "proto/segment.h"
#include "tests/lib/failing_memory.h"
#include "tests/lib/strict_segment.h"

#define TOLD_BYTES	4096
#define ALL		(1u << 20)

struct told {
	char text[TOLD_BYTES];
	size_t used;
	bool end;
	struct spool_reader *reader;
};

static struct told told;
static uint64_t begun_ns;

static void say(struct told *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct told *to, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	to->used += (size_t)vsnprintf(to->text + to->used, sizeof(to->text) - to->used, format, args);
	va_end(args);
	assert_true(to->used < sizeof(to->text));
}

static const char *reason_name(unsigned reason)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
		&ringtail__v1__loss_reason__descriptor, (int)reason);

	return value ? value->name + strlen("REASON_") : "?";
}

static void say_range(struct told *to, const struct frame_ref *frame)
{
	bool earlier = frame_ref_is_earlier(frame);
	char ring = frame->cpu == run_cpu_of[0] ? 'a' : frame->cpu == run_cpu_of[1] ? 'b' : '?';

	if (!earlier)
		assert_int_equal(run_cpu_of[frame->ring], frame->cpu);
	say(to, " %c%llu", earlier ? ring - 'a' + 'A' : ring, (unsigned long long)frame->first_seq);
	if (frame->end_seq != frame->first_seq)
		say(to, "-%llu", (unsigned long long)frame->end_seq);
	if (frame->type == FRAME_GAP) {
		assert_int_equal(frame->loss[0].stage, LOSS_STAGE_SPOOL);
		assert_int_equal(frame_ref_losses(frame) + frame->skipped, frame->end_seq - frame->first_seq);
		say(to, "%s%s", frame->end_seq == frame->first_seq ? "?" : "!",
		    reason_name(frame->loss[0].reason));
	} else if (!frame->bytes) {
		assert_int_equal(frame->skipped, frame->end_seq - frame->first_seq);
		say(to, "~");
	}
}

static void on_told(void *context, struct frame_ref *const *frame, unsigned n, bool end)
{
	struct told *to = context;

	for (unsigned i = 0; i < n; i++) {
		if (frame_ref_is_range(frame[i]))
			say_range(to, frame[i]);
		else if (frame[i]->type == FRAME_WATERMARK)
			say(to, " w%.1f", (double)(frame[i]->time_ns - begun_ns) / NS_PER_S);
		else
			say(to, "%s", frame[i]->type == FRAME_SERVER_HELLO ? " H" :
				      frame[i]->type == FRAME_CATALOG ? "C" :
				      frame[i]->type == FRAME_SUBSCRIBED ? "S" : "?");
		frame_ref_put(frame[i]);
	}
	to->end = end;
}

static void begin_asking(struct spool_run *run, const struct spool_place *place)
{
	memset(&told, 0, sizeof(told));
	assert_int_equal(spool_reader_create(run->spool, place, on_told, &told, &told.reader), 0);
}

/* For so many bytes at a time, until that is all there is. */
static void ask_all(struct spool_run *run, size_t bytes)
{
	for (unsigned i = 0; i < 1000 && !told.end; i++) {
		spool_reader_next(told.reader, bytes);
		disk_thread_settle(run->thread);
	}
	assert_true(told.end);
	spool_reader_destroy(told.reader);
}

static void ask(struct spool_run *run, const struct spool_place *place, size_t bytes)
{
	begin_asking(run, place);
	ask_all(run, bytes);
}

/* ---- What happened to it ---------------------------------------------------------------------- */

#define FRAMES		10u	/* of each of two runs: three segments */
#define SEGMENTS	6u	/* 1 to 3 are of the first, 4 to 6 of the second */

static struct faulty_file *file_of(unsigned sequence)
{
	return &faulty.file[segment(sequence, "seg")->file];
}

static struct {
	uint32_t probe[1 << 18];
	size_t n;
} large;

static void nothing(void)
{
}

static void delete(unsigned from, unsigned to)
{
	for (unsigned i = from; i <= to; i++)
		faulty_unlink(&faulty.names, segment(i, "seg")->path);
}

static void delete_first(void)
{
	delete(1, 1);
}

static void delete_second(void)
{
	delete(2, 2);
}

static void delete_first_run(void)
{
	delete(1, 3);
}

static void delete_all(void)
{
	delete(1, SEGMENTS);
}

static void damage_head(unsigned sequence)
{
	file_of(sequence)->bytes[30] ^= 0x10;
}

static void damage_first_head(void)
{
	damage_head(1);
}

static void damage_second_head(void)
{
	damage_head(2);
}

static void damage_head_of_second_run(void)
{
	damage_head(4);
}

static void damage_all_heads(void)
{
	for (unsigned i = 1; i <= SEGMENTS; i++)
		damage_head(i);
}

/* In its last frame. */
static void damage_end(unsigned sequence)
{
	struct faulty_file *file = file_of(sequence);
	size_t at;

	assert_true(segment_find_end(file->bytes, file->n, &at));
	file->bytes[at - 1] ^= 0x10;
}

static void damage_second(void)
{
	damage_end(2);
}

static void damage_end_of_first_run(void)
{
	damage_end(3);
}

static void damage_newest(void)
{
	damage_end(SEGMENTS);
}

/* As a kill does it: the last segment is not sealed, and of its last frame a part is missing. */
static void tear(unsigned bytes)
{
	char path[FAULTY_PATH_BYTES];
	size_t at;

	assert_true(segment_find_end(file_of(SEGMENTS)->bytes, file_of(SEGMENTS)->n, &at));
	file_of(SEGMENTS)->n = bytes ? bytes : at - 1;
	snprintf(path, sizeof(path), "spool/run/%016x.open", SEGMENTS);
	faulty_link(&faulty.names, path, segment(SEGMENTS, "seg")->file);
	faulty_unlink(&faulty.names, segment(SEGMENTS, "seg")->path);
}

static void tear_last_frame(void)
{
	tear(0);
}

static void tear_head(void)
{
	tear(20);
}

static void exchange(void)
{
	int second = segment(2, "seg")->file;

	segment(2, "seg")->file = segment(3, "seg")->file;
	segment(3, "seg")->file = second;
}

/* A rename that came to the disk in halves. */
static void leave_twice(void)
{
	char path[FAULTY_PATH_BYTES];

	snprintf(path, sizeof(path), "spool/run/%016x.open", 2);
	faulty_link(&faulty.names, path, segment(2, "seg")->file);
}

/* Of that many bytes, which nothing makes fewer. */
static struct frame_ref *large_batch(struct spool_run *run, unsigned ring, uint32_t bytes)
{
	struct frame_ref *frame;
	static uint32_t value = 1;

	large.n = bytes / sizeof(large.probe[0]);
	for (size_t i = 0; i < large.n; i++)
		large.probe[i] = value = value * 1664525 + 1013904223;
	frame = run_batch_of(run, ring, 5, 0, large.probe, large.n);
	assert_true(frame->bytes >= bytes);
	return frame;
}

/* ---- Each of them, from each place ------------------------------------------------------------ */

enum {
	OLDEST, AT_BEGIN, JUST_BEFORE, AT_TIME, NOW,
	FIRST, MIDDLE, ONE_RING, WHOLE, BEYOND, SECOND, SECOND_WHOLE, OURS, UNKNOWN,
	FOUND, TOLD,
};

static const char *const place_name[TOLD] = {
	"OLDEST", "AT_BEGIN", "JUST_BEFORE", "AT_TIME", "NOW",
	"FIRST", "MIDDLE", "ONE_RING", "WHOLE", "BEYOND", "SECOND", "SECOND_WHOLE", "OURS", "UNKNOWN",
	"FOUND",
};

struct happened {
	const char *name;
	void (*to_files)(void);
	bool killed;			/* the first run's daemon */
	bool goes_on;			/* the second run is this one, too */
	bool is_renamed;		/* a file, when its damage is seen: if that fails, more is missed */
	const char *told[TOLD];
};

/* What its segments hold: of the first run, of the second; and of that where it is this one. */
#define F1	" HCS A0-5 B0-7 A5-16"
#define F2	" w1.5 B10-19 A16-24 B19-29"
#define F3	" A24-31 w3.0"
#define S1	" HCS A0-5 B0-7 A5-16"
#define S2	" w4.5 B10-19 A16-24 B19-29"
#define S3	" A24-31 w6.0"
#define O1	" a0-5 b0-7 a5-16"
#define O2	" b7-10~ w4.5 b10-19 a16-24 b19-29"
#define O3	" a24-31 w6.0"

static const struct happened all_that_happens[] = {
	{
		.name = "nothing",
		.to_files = nothing,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 0 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "killed, and goes on",
		.to_files = nothing, .killed = true, .goes_on = true,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?RESTART" O1 O2 O3,
			[AT_BEGIN] = F1 F2 F3 " A31?RESTART" O1 O2 O3,
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?RESTART" O1 O2 O3,
			[AT_TIME] = " HCS" F2 F3 " A31?RESTART" O1 O2 O3,
			[NOW] = O3,
			[FIRST] = F1 F2 F3 " A31?RESTART" O1 O2 O3,
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?RESTART" O1 O2 O3,
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?RESTART" O1 O2 O3,
			[WHOLE] = " HCS w3.0 A31?RESTART" O1 O2 O3,
			[BEYOND] = " HCS w3.0 A40?RESTART" O1 O2 O3,
			[SECOND] = O2 O3,
			[SECOND_WHOLE] = "",
			[OURS] = O1 O2 O3,
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?RESTART" O1 O2 O3,
			[FOUND] = "a31 b29 aside 0 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "deleted: the first",
		.to_files = delete_first, .goes_on = true,
		.told = {
			[OLDEST] = " HCS" F2 F3 " A31?NOT_RECORDED" O1 O2 O3,
			[AT_BEGIN] = " A0?SPOOL_FULL HCS" F2 F3 " A31?NOT_RECORDED" O1 O2 O3,
			[JUST_BEFORE] = " A0?SPOOL_FULL HCS" F2 F3 " A31?NOT_RECORDED" O1 O2 O3,
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" O1 O2 O3,
			[NOW] = O3,
			[FIRST] = " HCS A0-16!SPOOL_FULL B0-7!SPOOL_FULL" F2 F3
				" A31?NOT_RECORDED" O1 O2 O3,
			[MIDDLE] = " HCS A9-16!SPOOL_FULL" F2 F3 " A31?NOT_RECORDED" O1 O2 O3,
			[ONE_RING] = " HCS A9-16!SPOOL_FULL" F2 F3 " A31?NOT_RECORDED" O1 O2 O3,
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" O1 O2 O3,
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" O1 O2 O3,
			[SECOND] = O2 O3,
			[SECOND_WHOLE] = "",
			[OURS] = O1 O2 O3,
			[UNKNOWN] = " A0?OTHER_EPOCH HCS" F2 F3 " A31?NOT_RECORDED" O1 O2 O3,
			[FOUND] = "a31 b29 aside 0 missing 0: 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "deleted: the second",
		.to_files = delete_second,
		.told = {
			[OLDEST] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2
				S3 " A31?NOT_RECORDED",
			[AT_BEGIN] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" S1
				S2 S3 " A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 " A16-24!CORRUPT B7-29!CORRUPT" F3
				" A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[AT_TIME] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" S1
				S2 S3 " A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2
				S3 " A31?NOT_RECORDED",
			[MIDDLE] = " HCS A5-16 A16-24!CORRUPT B12-29!CORRUPT" F3
				" A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[ONE_RING] = " HCS B0-7 A5-16 A16-24!CORRUPT B7-29!CORRUPT" F3
				" A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 " A16-24!CORRUPT B7-29!CORRUPT" F3
				" A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 0 missing 30: 1.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "deleted: the first run",
		.to_files = delete_first_run,
		.told = {
			[OLDEST] = S1 S2 S3 " A31?NOT_RECORDED",
			[AT_BEGIN] = " A0?SPOOL_FULL" S1 S2 S3 " A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?SPOOL_FULL" S1 S2 S3 " A31?NOT_RECORDED",
			[AT_TIME] = " A0?SPOOL_FULL" S1 S2 S3 " A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = " A0?OTHER_EPOCH" S1 S2 S3 " A31?NOT_RECORDED",
			[MIDDLE] = " A0?OTHER_EPOCH" S1 S2 S3 " A31?NOT_RECORDED",
			[ONE_RING] = " A0?OTHER_EPOCH" S1 S2 S3 " A31?NOT_RECORDED",
			[WHOLE] = " A0?OTHER_EPOCH" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " A0?OTHER_EPOCH" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" S1 S2 S3 " A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 0 missing 0: 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "deleted: all",
		.to_files = delete_all,
		.told = {
			[OLDEST] = "",
			[AT_BEGIN] = " A0?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED",
			[AT_TIME] = " A0?NOT_RECORDED",
			[NOW] = " A0?NOT_RECORDED",
			[FIRST] = " A0?OTHER_EPOCH",
			[MIDDLE] = " A0?OTHER_EPOCH",
			[ONE_RING] = " A0?OTHER_EPOCH",
			[WHOLE] = " A0?OTHER_EPOCH",
			[BEYOND] = " A0?OTHER_EPOCH",
			[SECOND] = " A0?OTHER_EPOCH",
			[SECOND_WHOLE] = " A0?OTHER_EPOCH",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH",
			[FOUND] = "a0 b0 aside 0 missing 0:",
		},
	},
	{
		.name = "damaged: the first's head",
		.to_files = damage_first_head,
		.told = {
			[OLDEST] = " HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[AT_BEGIN] = " A0?CORRUPT HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?CORRUPT HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = " HCS A0-16!CORRUPT B0-7!CORRUPT" F2 F3 " A31?NOT_RECORDED" S1
				S2 S3 " A31?NOT_RECORDED",
			[MIDDLE] = " HCS A9-16!CORRUPT" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[ONE_RING] = " HCS A9-16!CORRUPT" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 1 missing 0: 1.bad 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "damaged: the second's head, and goes on",
		.to_files = damage_second_head, .goes_on = true,
		.told = {
			[OLDEST] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" O1 O2
				O3,
			[AT_BEGIN] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" O1
				O2 O3,
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 " A16-24!CORRUPT B7-29!CORRUPT" F3
				" A31?NOT_RECORDED" O1 O2 O3,
			[AT_TIME] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" O1
				O2 O3,
			[NOW] = O3,
			[FIRST] = F1 " A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" O1 O2
				O3,
			[MIDDLE] = " HCS A5-16 A16-24!CORRUPT B12-29!CORRUPT" F3
				" A31?NOT_RECORDED" O1 O2 O3,
			[ONE_RING] = " HCS B0-7 A5-16 A16-24!CORRUPT B7-29!CORRUPT" F3
				" A31?NOT_RECORDED" O1 O2 O3,
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" O1 O2 O3,
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" O1 O2 O3,
			[SECOND] = O2 O3,
			[SECOND_WHOLE] = "",
			[OURS] = O1 O2 O3,
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 " A16-24!CORRUPT B7-29!CORRUPT" F3
				" A31?NOT_RECORDED" O1 O2 O3,
			[FOUND] = "a31 b29 aside 1 missing 30: 1.seg 2.bad 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "damaged: the second",
		.to_files = damage_second,
		.told = {
			[OLDEST] = F1 F2 "!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[AT_BEGIN] = F1 F2 "!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 "!CORRUPT" F3 " A31?NOT_RECORDED"
				S1 S2 S3 " A31?NOT_RECORDED",
			[AT_TIME] = " HCS" F2 "!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = F1 F2 "!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[MIDDLE] = " HCS A5-16" F2 "!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[ONE_RING] = " HCS B0-7 A5-16" F2 "!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2
				S3 " A31?NOT_RECORDED",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 "!CORRUPT" F3 " A31?NOT_RECORDED" S1
				S2 S3 " A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 0 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "damaged: the first run's end",
		.to_files = damage_end_of_first_run, .is_renamed = true,
		.told = {
			[OLDEST] = F1 F2 " A24-31 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[AT_BEGIN] = F1 F2 " A24-31 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 " A24-31 A31?NOT_RECORDED" S1 S2
				S3 " A31?NOT_RECORDED",
			[AT_TIME] = " HCS" F2 " A24-31 A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = F1 F2 " A24-31 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[MIDDLE] = " HCS A5-16" F2 " A24-31 A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[ONE_RING] = " HCS B0-7 A5-16" F2 " A24-31 A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[WHOLE] = " HCS A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " HCS A40?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 " A24-31 A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 0 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "damaged: a killed run's end, and goes on",
		.to_files = damage_end_of_first_run, .killed = true, .goes_on = true, .is_renamed = true,
		.told = {
			[OLDEST] = F1 F2 " A24-31 A31?RESTART" O1 O2 O3,
			[AT_BEGIN] = F1 F2 " A24-31 A31?RESTART" O1 O2 O3,
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 " A24-31 A31?RESTART" O1 O2 O3,
			[AT_TIME] = " HCS" F2 " A24-31 A31?RESTART" O1 O2 O3,
			[NOW] = O3,
			[FIRST] = F1 F2 " A24-31 A31?RESTART" O1 O2 O3,
			[MIDDLE] = " HCS A5-16" F2 " A24-31 A31?RESTART" O1 O2 O3,
			[ONE_RING] = " HCS B0-7 A5-16" F2 " A24-31 A31?RESTART" O1 O2 O3,
			[WHOLE] = " HCS A31?RESTART" O1 O2 O3,
			[BEYOND] = " HCS A40?RESTART" O1 O2 O3,
			[SECOND] = O2 O3,
			[SECOND_WHOLE] = "",
			[OURS] = O1 O2 O3,
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 " A24-31 A31?RESTART" O1 O2 O3,
			[FOUND] = "a31 b29 aside 0 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "damaged: the second run's head",
		.to_files = damage_head_of_second_run,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED HCS A16?CORRUPT" S2 S3
				" A31?NOT_RECORDED",
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED HCS A16?CORRUPT" S2 S3
				" A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3
				" A31?NOT_RECORDED HCS A16?CORRUPT" S2 S3 " A31?NOT_RECORDED",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED HCS A16?CORRUPT" S2 S3
				" A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED HCS A16?CORRUPT" S2 S3
				" A31?NOT_RECORDED",
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED HCS A16?CORRUPT" S2 S3
				" A31?NOT_RECORDED",
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED HCS A16?CORRUPT"
				S2 S3 " A31?NOT_RECORDED",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED HCS A16?CORRUPT" S2 S3
				" A31?NOT_RECORDED",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED HCS A16?CORRUPT" S2 S3
				" A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED HCS A16?CORRUPT"
				S2 S3 " A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 1 missing 0: 1.seg 2.seg 3.seg 4.bad 5.seg 6.seg",
		},
	},
	{
		.name = "damaged: the second run's head, and goes on",
		.to_files = damage_head_of_second_run, .goes_on = true,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3
				" A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[NOW] = O3,
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED a16?CORRUPT" O2 O3,
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED a16?CORRUPT" O2 O3,
			[SECOND] = O2 O3,
			[SECOND_WHOLE] = "",
			[OURS] = " a0-16!CORRUPT b0-7!CORRUPT" O2 O3,
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED a16?CORRUPT" O2
				O3,
			[FOUND] = "a31 b29 aside 1 missing 0: 1.seg 2.seg 3.seg 4.bad 5.seg 6.seg",
		},
	},
	{
		.name = "damaged: all heads",
		.to_files = damage_all_heads,
		.told = {
			[OLDEST] = " A0?CORRUPT",
			[AT_BEGIN] = " A0?CORRUPT A0?CORRUPT",
			[JUST_BEFORE] = " A0?CORRUPT A0?CORRUPT",
			[AT_TIME] = " A0?CORRUPT A0?CORRUPT",
			[NOW] = " A0?CORRUPT A0?CORRUPT",
			[FIRST] = " A0?OTHER_EPOCH A0?CORRUPT",
			[MIDDLE] = " A0?OTHER_EPOCH A0?CORRUPT",
			[ONE_RING] = " A0?OTHER_EPOCH A0?CORRUPT",
			[WHOLE] = " A0?OTHER_EPOCH A0?CORRUPT",
			[BEYOND] = " A0?OTHER_EPOCH A0?CORRUPT",
			[SECOND] = " A0?OTHER_EPOCH A0?CORRUPT",
			[SECOND_WHOLE] = " A0?OTHER_EPOCH A0?CORRUPT",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH A0?CORRUPT",
			[FOUND] = "a0 b0 aside 6 missing 0: 1.bad 2.bad 3.bad 4.bad 5.bad 6.bad",
		},
	},
	{
		.name = "damaged: the newest",
		.to_files = damage_newest, .is_renamed = true,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT A24?CORRUPT",
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT A24?CORRUPT",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT A24?CORRUPT",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT A24?CORRUPT",
			[NOW] = " HCS" S2 " A24?CORRUPT A24?CORRUPT",
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT A24?CORRUPT",
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT A24?CORRUPT",
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT A24?CORRUPT",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 " A24?CORRUPT A24?CORRUPT",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 " A24?CORRUPT A24?CORRUPT",
			[SECOND] = " HCS" S2 " A24?CORRUPT A24?CORRUPT",
			[SECOND_WHOLE] = " HCS w4.5 A31?CORRUPT A31?CORRUPT",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT A24?CORRUPT",
			[FOUND] = "a0 b0 aside 1 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.bad",
		},
	},
	{
		.name = "damaged: the newest, and goes on",
		.to_files = damage_newest, .goes_on = true, .is_renamed = true,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" O1 O2,
			[NOW] = O2,
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" O1 O2,
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" O1 O2,
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" O1 O2,
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" O1 O2,
			[SECOND] = O2,
			[SECOND_WHOLE] = "",
			[OURS] = O1 O2,
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[FOUND] = "a24 b29 aside 1 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.bad",
		},
	},
	{
		.name = "torn: the last frame",
		.to_files = tear_last_frame,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24-31 A31?RESTART",
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24-31 A31?RESTART",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24-31 A31?RESTART",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 " A24-31 A31?RESTART",
			[NOW] = " HCS A24-31 A31?RESTART",
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24-31 A31?RESTART",
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24-31 A31?RESTART",
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24-31 A31?RESTART",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 " A24-31 A31?RESTART",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 " A24-31 A31?RESTART",
			[SECOND] = " HCS" S2 " A24-31 A31?RESTART",
			[SECOND_WHOLE] = " HCS A31?RESTART",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24-31 A31?RESTART",
			[FOUND] = "a0 b0 aside 0 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "torn: the last frame, and goes on",
		.to_files = tear_last_frame, .goes_on = true,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2 " a24-31",
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2 " a24-31",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" O1 O2
				" a24-31",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" O1 O2 " a24-31",
			[NOW] = " a24-31",
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2 " a24-31",
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" O1 O2 " a24-31",
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" O1 O2 " a24-31",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" O1 O2 " a24-31",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" O1 O2 " a24-31",
			[SECOND] = O2 " a24-31",
			[SECOND_WHOLE] = "",
			[OURS] = O1 O2 " a24-31",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" O1 O2 " a24-31",
			[FOUND] = "a31 b29 aside 0 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "torn: the last head",
		.to_files = tear_head,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT",
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT",
			[NOW] = " HCS" S2 " A24?CORRUPT",
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT",
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2 " A24?CORRUPT",
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 " A24?CORRUPT",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 " A24?CORRUPT",
			[SECOND] = " HCS" S2 " A24?CORRUPT",
			[SECOND_WHOLE] = " HCS w4.5 A31?CORRUPT",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" S1 S2
				" A24?CORRUPT",
			[FOUND] = "a0 b0 aside 1 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.bad",
		},
	},
	{
		.name = "torn: the last head, and goes on",
		.to_files = tear_head, .goes_on = true,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" O1 O2,
			[NOW] = O2,
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" O1 O2,
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" O1 O2,
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" O1 O2,
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" O1 O2,
			[SECOND] = O2,
			[SECOND_WHOLE] = "",
			[OURS] = O1 O2,
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" O1 O2,
			[FOUND] = "a24 b29 aside 1 missing 0: 1.seg 2.seg 3.seg 4.seg 5.seg 6.bad",
		},
	},
	{
		.name = "exchanged",
		.to_files = exchange,
		.told = {
			[OLDEST] = S1 " A16?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[AT_BEGIN] = S1 " A16?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED" S1 " A16?CORRUPT" S1 S2 S3
				" A31?NOT_RECORDED",
			[AT_TIME] = S1 " A16?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = S1 " A16?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[MIDDLE] = " HCS A5-16 A16?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[ONE_RING] = " HCS B0-7 A5-16 A16?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[WHOLE] = " HCS A31?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " HCS A40?CORRUPT" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" S1 " A16?CORRUPT" S1 S2 S3
				" A31?NOT_RECORDED",
			[FOUND] = "a0 b0 aside 2 missing 0: 1.seg 2.bad 3.bad 4.seg 5.seg 6.seg",
		},
	},
	{
		.name = "there twice",
		.to_files = leave_twice,
		.told = {
			[OLDEST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[AT_BEGIN] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[JUST_BEFORE] = " A0?NOT_RECORDED" F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[AT_TIME] = " HCS" F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[NOW] = " HCS" S3 " A31?NOT_RECORDED",
			[FIRST] = F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[MIDDLE] = " HCS A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[ONE_RING] = " HCS B0-7 A5-16" F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[WHOLE] = " HCS w3.0 A31?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[BEYOND] = " HCS w3.0 A40?NOT_RECORDED" S1 S2 S3 " A31?NOT_RECORDED",
			[SECOND] = " HCS" S2 S3 " A31?NOT_RECORDED",
			[SECOND_WHOLE] = " HCS w6.0 A31?NOT_RECORDED",
			[OURS] = "",
			[UNKNOWN] = " A0?OTHER_EPOCH" F1 F2 F3 " A31?NOT_RECORDED" S1 S2 S3
				" A31?NOT_RECORDED",
			[FOUND] =
				"a0 b0 aside 1 missing 0: 1.seg 2.seg 2.bad 3.seg 4.seg 5.seg 6.seg",
		},
	},
};

static void set_place(unsigned which, const struct spool_run *run, struct spool_place *place)
{
	static const struct {
		uint64_t epoch, seq[RUN_RINGS];
	} at[TOLD] = {
		[FIRST] = {RUN_EPOCH, {0, 0}},
		[MIDDLE] = {RUN_EPOCH, {9, 12}},
		[ONE_RING] = {RUN_EPOCH, {9, 12}},
		[WHOLE] = {RUN_EPOCH, {31, 29}},
		[BEYOND] = {RUN_EPOCH, {40, 40}},
		[SECOND] = {RUN_EPOCH + 1, {16, 7}},
		[SECOND_WHOLE] = {RUN_EPOCH + 1, {31, 29}},
		[OURS] = {0, {0, 0}},
		[UNKNOWN] = {RUN_EPOCH - 1, {9, 12}},
	};
	struct cursor *cursor;

	*place = (struct spool_place){0};
	if (which < FIRST) {
		const uint64_t time_ns[FIRST] = {0, begun_ns, begun_ns - 1, begun_ns + 1500000000, run_now_ns};

		place->realtime_ns = time_ns[which] ? time_ns[which] + run_realtime_ns : 0;
		return;
	}
	cursor = run_cursor(which == OURS ? run->config.run.epoch : at[which].epoch, at[which].seq);
	if (which == ONE_RING)
		cursor->n = 1;
	place->cursor = cursor;
}

static void make(struct spool_run *run, const struct happened *happened)
{
	begin(run);
	begun_ns = run_now_ns;
	run->config.segment_bytes = 1000;
	run_open(run);
	spool_set_recorded(run->spool, begun_ns + run_realtime_ns);
	run_script(run, FRAMES);
	if (happened->killed)
		faulty.cut_at = faulty.operations;
	run_close(run);
	if (happened->killed)
		faulty_disk_cut(&faulty, FAULTY_KILL);
	run->config.run.epoch++;
	memset(run->seq, 0, sizeof(run->seq));
	run_open(run);
	run_script(run, FRAMES);
	run_close(run);
	assert_non_null(segment(SEGMENTS, "seg"));
	happened->to_files();
	if (!happened->goes_on)
		run->config.run.epoch++;
}

static const uint8_t *body_at(struct spool_run *run, const struct faulty_file *file, size_t *at, uint8_t type,
			      struct frame_header *header)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	const uint8_t *body;

	assert_int_equal(frame_parse_header(file->bytes + *at, file->n - *at, sizeof(raw), header), FRAME_OK);
	assert_int_equal(header->type, type);
	assert_int_equal(frame_open(run->codec, file->bytes + *at, header, raw, &body), FRAME_OK);
	*at += FRAME_HEADER_BYTES + header->body_bytes;
	return body;
}

/* How it begins: what is the same of each is compared here. */
static void say_head(struct spool_run *run, const struct faulty_file *file, struct told *found)
{
	struct frame_header header;
	size_t at = 0;
	const uint8_t *body = body_at(run, file, &at, FRAME_SEGMENT_HEAD, &header);
	Ringtail__V1__SegmentHead *head = ringtail__v1__segment_head__unpack(NULL, header.raw_bytes, body);
	Ringtail__V1__Subscribed *subscribed;

	assert_non_null(head);
	assert_string_equal(head->spool, "run");
	assert_int_equal(head->boot_id.len, sizeof(run_boot_id));
	assert_memory_equal(head->boot_id.data, run_boot_id, sizeof(run_boot_id));
	assert_true(head->n_probe == 1 && strcmp(head->probe[0], "syscall:read:call") == 0);
	assert_string_equal(head->filter, "pid == 1");
	assert_true(head->n_flag == 2 && head->flag[0] == 1 && head->flag[1] == 3);
	assert_true(head->for_consumers);
	say(found, " %llu/%llu%s@%.1f-%.1f", (unsigned long long)head->sequence,
	    (unsigned long long)(head->epoch - RUN_EPOCH), head->begins_record ? "+" : "",
	    ((double)head->whole_realtime_ns - (double)(begun_ns + run_realtime_ns)) / NS_PER_S,
	    ((double)head->realtime_ns - (double)(begun_ns + run_realtime_ns)) / NS_PER_S);
	body_at(run, file, &at, FRAME_SERVER_HELLO, &header);
	body_at(run, file, &at, FRAME_CATALOG, &header);
	body = body_at(run, file, &at, FRAME_SUBSCRIBED, &header);
	subscribed = ringtail__v1__subscribed__unpack(NULL, header.raw_bytes, body);
	assert_non_null(subscribed);
	assert_true(subscribed->resumed && subscribed->start->epoch == head->epoch);
	assert_memory_equal(subscribed->start->boot_id.data, run_boot_id, sizeof(run_boot_id));
	for (size_t i = 0; i < subscribed->start->n_position; i++)
		say(found, "%c%llu", subscribed->start->position[i]->cpu == run_cpu_of[0] ? 'a' : 'b',
		    (unsigned long long)subscribed->start->position[i]->seq);
	ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
	ringtail__v1__segment_head__free_unpacked(head, NULL);
}

/* It says itself what it holds, whoever ended it. */
static void check_end(struct spool_run *run, const struct faulty_file *file)
{
	struct strict strict = {.codec = run->codec};
	size_t at;

	assert_true(segment_find_end(file->bytes, file->n, &at));
	strict_read(&strict, file->bytes, file->n);
	assert_int_equal(strict.wrong_ends, 0);
}

/* Opens it; what of it is durable, and what its files are called then. */
static void open_again(struct spool_run *run, const struct happened *happened, struct told *found)
{
	static const char *const suffix[] = {"seg", "open", "bad"};
	uint64_t aside = counter_read(COUNTER_spool_set_aside), missing = counter_read(COUNTER_spool_missing);
	struct spool_stat stat;
	uint64_t bytes = 0, n = 0;

	run_open(run);
	spool_stat(run->spool, &stat);
	*found = (struct told){0};
	say(found, "a%llu b%llu aside %llu missing %llu:", (unsigned long long)run->end[0],
	    (unsigned long long)run->end[1], (unsigned long long)(counter_read(COUNTER_spool_set_aside) - aside),
	    (unsigned long long)(counter_read(COUNTER_spool_missing) - missing));
	for (unsigned i = 1; i <= SEGMENTS + 1; i++) {
		for (unsigned j = 0; j < 3; j++) {
			if (!segment(i, suffix[j]))
				continue;
			bytes += faulty.file[segment(i, suffix[j])->file].n;
			n++;
			say(found, " %u.%s", i, suffix[j]);
			if (j == 0 && !happened->is_renamed)
				check_end(run, &faulty.file[segment(i, suffix[j])->file]);
		}
	}
	assert_int_equal(stat.bytes, bytes);
	assert_int_equal(stat.segments, n);
	assert_int_equal(stat.set_aside, counter_read(COUNTER_spool_set_aside) - aside);
}

static void is_told(const struct happened *happened, unsigned which, const char *text)
{
	const char *expected = happened->told[which];

	if (getenv("SPOOL_TOLD"))
		printf("%s|%s|%s\n", happened->name, place_name[which], text);
	else if (!expected || strcmp(expected, text) != 0)
		fail_msg("%s, %s: told\n%s\nand not\n%s", happened->name, place_name[which], text,
			 expected ? expected : "");
}

static void asked(const struct happened *happened, unsigned which, size_t bytes)
{
	struct spool_place place;
	struct spool_run run;
	struct told found;

	make(&run, happened);
	open_again(&run, happened, &found);
	set_place(which, &run, &place);
	ask(&run, &place, bytes);
	is_told(happened, which, told.text);
	if (which == OLDEST && bytes == ALL)
		is_told(happened, FOUND, found.text);
	free((void *)place.cursor);
	end(&run);
}

static void all_at_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(all_that_happens) / sizeof(all_that_happens[0]); i++)
		for (unsigned which = 0; which < FOUND; which++)
			asked(&all_that_happens[i], which, ALL);
}

static void as_little_as_possible_at_a_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(all_that_happens) / sizeof(all_that_happens[0]); i++)
		for (unsigned which = 0; which < FOUND; which++)
			asked(&all_that_happens[i], which, 1);
}

/* From the n-th on: of the disk's operations, or of the allocations; just that one. */
static void fail_once(bool memory, unsigned n)
{
	faulty.fail_errno = EIO;
	if (memory) {
		allocations_left = n;
		failures_left = 1;
	} else {
		faulty.fail_at = faulty.operations + n;
	}
}

/* Whether that has come to pass; it does not any more. */
static bool has_failed(bool memory)
{
	bool has = memory ? !failures_left : faulty.operations > faulty.fail_at;

	memory_suffices();
	faulty.fail_at = UINT64_MAX;
	return has;
}

/* False: it has not come so far. */
static bool fails_when_read(const struct happened *happened, bool memory, unsigned n)
{
	struct spool_place place;
	struct spool_run run;
	struct told found;
	bool failed;

	make(&run, happened);
	open_again(&run, happened, &found);
	set_place(ONE_RING, &run, &place);
	begin_asking(&run, &place);
	fail_once(memory, n);
	ask_all(&run, ALL);
	failed = has_failed(memory);
	is_told(happened, ONE_RING, told.text);
	free((void *)place.cursor);
	end(&run);
	return failed;
}

static bool fails_when_opened(const struct happened *happened, bool memory, unsigned n)
{
	struct spool_place place;
	struct spool_run run;
	bool failed;

	make(&run, happened);
	run_start(&run);
	fail_once(memory, n);
	run_open_spool(&run);
	disk_thread_settle(run.thread);
	failed = has_failed(memory);
	/* If it could not be opened it is tried again. */
	run_now_ns += 2 * SPOOL_RETRY_NS_MAX;
	spooler_turn(run.spooler);
	disk_thread_settle(run.thread);
	set_place(ONE_RING, &run, &place);
	ask(&run, &place, ALL);
	is_told(happened, ONE_RING, told.text);
	free((void *)place.cursor);
	end(&run);
	return failed;
}

/* The n-th operation of the disk, or the n-th allocation, fails, for each n. */
static void though_something_fails_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(all_that_happens) / sizeof(all_that_happens[0]); i++) {
		for (unsigned n = 0; fails_when_read(&all_that_happens[i], true, n); n++)
			;
		if (all_that_happens[i].is_renamed)
			continue;
		for (unsigned n = 0; fails_when_read(&all_that_happens[i], false, n); n++)
			;
		for (unsigned n = 0; fails_when_opened(&all_that_happens[i], false, n); n++)
			;
	}
}

/* Each of six segments says whose it is, since when, and where it begins. */
static void say_where_they_begin(void **state)
{
	static const struct happened nothing_happened = {.to_files = nothing};
	struct told found = {0};
	struct spool_run run;

	(void)state;
	make(&run, &nothing_happened);
	for (unsigned i = 1; i <= SEGMENTS; i++)
		say_head(&run, file_of(i), &found);
	assert_string_equal(found.text, " 1/0+@0.0-0.3 2/0@1.5-1.5a16b7 3/0@2.7-2.7a24b29"
			    " 4/1+@3.3-3.3 5/1@4.5-4.5a16b7 6/1@5.7-5.7a24b29");
	end(&run);
}

/* A gap that is in the file, from its middle: what the reader has had of it is not told again. */
static void a_gap_from_its_middle(void **state)
{
	struct spool_place place = {0};
	struct frame_ref *gap;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	gap = frame_ref_gap(run.codec, run_cpu_of[0], 0, 10, LOSS_STAGE_SPOOL,
			    LOSS_REASON_RING_FULL, 0);
	assert_non_null(gap);
	run.seq[0] = 10;
	spool_append(run.spool, gap);
	spool_append(run.spool, run_batch(&run, 0, 5, 0));
	disk_thread_settle(run.thread);
	place.cursor = run_cursor(RUN_EPOCH, (uint64_t[RUN_RINGS]){4, 0});
	ask(&run, &place, ALL);
	assert_string_equal(told.text, " a4-10!RING_FULL a10-16");
	free((void *)place.cursor);
	end(&run);
}

static const struct disk_ops *real_ops;
static unsigned reads, wrong_read;

/* The disk gives another byte, once. */
static ssize_t read_wrong(struct disk *disk, int file, void *bytes, size_t n, uint64_t offset)
{
	ssize_t got = real_ops->read(disk, file, bytes, n, offset);

	if (got > 0 && reads++ == wrong_read)
		((uint8_t *)bytes)[got / 2] ^= 1;
	return got;
}

/* What a killed daemon left is written over itself: a file whose name says that it is whole has the same bytes. */
static void check_same(const struct faulty_file *file, const uint8_t *was)
{
	size_t at;

	assert_true(segment_find_end(file->bytes, file->n, &at));
	assert_memory_equal(file->bytes, was, at);
}

static void a_disk_that_reads_wrong_once(void **state)
{
	(void)state;
	wrong_read = 0;
	do {
		struct spool_run run;
		struct disk_ops ops;
		uint8_t *was;
		size_t n;

		begin(&run);
		run.config.segment_bytes = 1 << 20;
		run_open(&run);
		run_script(&run, FRAMES);
		faulty.cut_at = faulty.operations;
		run_close(&run);
		faulty_disk_cut(&faulty, FAULTY_KILL);
		n = faulty.file[segment(1, "open")->file].n;
		was = malloc(n);
		memcpy(was, faulty.file[segment(1, "open")->file].bytes, n);
		real_ops = faulty.disk.ops;
		ops = *real_ops;
		ops.read = read_wrong;
		faulty.disk.ops = &ops;
		reads = 0;
		run_open(&run);
		if (segment(1, "seg"))
			check_same(file_of(1), was);
		free(was);
		run_close(&run);
		end(&run);
	} while (reads > wrong_read++);
	assert_true(wrong_read > 3);
}

/* Segments of a multiple of what is read from the disk at a time, whole and torn. */
static void are_longer_than_what_is_read_at_once(void **state)
{
	(void)state;
	for (unsigned torn = 0; torn < 2; torn++) {
		struct spool_stat stat;
		struct spool_run run;
		uint64_t lost;

		begin(&run);
		run.config.segment_bytes = 6 << 20;
		run.config.size_bytes = 64 << 20;
		run_open(&run);
		for (unsigned i = 0; i < 20; i++) {
			spool_append(run.spool, large_batch(&run, i % 2, 300000 + i * 10007));
			disk_thread_settle(run.thread);
		}
		if (torn)
			faulty.cut_at = faulty.operations;
		run_close(&run);
		if (torn)
			faulty_disk_cut(&faulty, FAULTY_KILL);
		run_open(&run);
		run_read(&run, &back);
		assert_int_equal(back.there, produced(&run));
		assert_int_equal(back.lost, 0);
		for (unsigned i = 1; segment(i, "seg"); i++)
			check_end(&run, &faulty.file[segment(i, "seg")->file]);
		run_check_ledger(&run, &stat, &lost);
		assert_int_equal(stat.set_aside, 0);
		end(&run);
	}
}

/* Before the watermark that tells of a range without a frame comes a batch of the same ring. */
static void skipped_before_a_batch(void **state)
{
	struct spool_place oldest = {0};
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	spool_append(run.spool, run_batch(&run, 0, 5, 0));
	spool_append(run.spool, run_quiet_range(&run, 0, 4));
	spool_append(run.spool, run_batch(&run, 0, 4, 0));
	disk_thread_settle(run.thread);
	ask(&run, &oldest, ALL);
	assert_string_equal(told.text, " a0-5 a5-9~ a9-13");
	end(&run);
}

/* ---- Watermarks ----------------------------------------------------------------------------------- */

static struct disk_ops other_ops;
static bool sync_fails;

static int fail_sync(struct disk *disk, int file)
{
	if (!sync_fails)
		return real_ops->sync(disk, file);
	sync_fails = false;
	return -EIO;
}

static void turn_later(struct spool_run *run, uint64_t ns)
{
	run_now_ns += ns;
	spooler_turn(run->spooler);
	disk_thread_settle(run->thread);
}

static void give(struct spool_run *run, struct frame_ref *frame)
{
	spool_append(run->spool, frame);
	disk_thread_settle(run->thread);
}

/* A sync failed: what it was for is written again, into another file, and stands in both. */
static void what_stands_in_two_files(void **state)
{
	struct spool_place oldest = {0};
	struct spool_run run;

	(void)state;
	faulty_disk_init(&faulty, 1);
	real_ops = faulty.disk.ops;
	other_ops = *real_ops;
	other_ops.sync = fail_sync;
	faulty.disk.ops = &other_ops;
	run_init(&run, &faulty, SPOOL_FSYNC);
	run.config.segment_bytes = 1 << 20;
	run.config.sync_interval_ns = 10 * NS_PER_S;
	begun_ns = run_now_ns;
	run_open(&run);
	give(&run, run_batch(&run, 0, 5, 0));
	turn_later(&run, 10 * NS_PER_S);
	assert_int_equal(run.end[0], run.seq[0]);
	give(&run, run_batch(&run, 1, 5, 0));
	give(&run, run_watermark(&run));
	sync_fails = true;
	turn_later(&run, 10 * NS_PER_S);
	assert_false(sync_fails);
	assert_int_equal(run.end[1], run.seq[1]);
	assert_non_null(segment(2, "open"));
	ask(&run, &oldest, ALL);
	assert_string_equal(told.text, " a0-5 b0-5 w10.0");
	end(&run);
}

/* A writer that is unfinished holds time back. Places that a watermark tells are news all the same. */
static void time_stands_still(void **state)
{
	struct spool_place oldest = {0};
	struct spool_run run;

	(void)state;
	begin(&run);
	begun_ns = run_now_ns;
	run_open(&run);
	give(&run, run_batch(&run, 0, 5, 0));
	give(&run, run_watermark(&run));
	give(&run, run_quiet_range(&run, 0, 3));
	give(&run, run_watermark_after(&run, (const uint64_t[RUN_RINGS]){3, 0}));
	ask(&run, &oldest, ALL);
	assert_string_equal(told.text, " a0-5 w0.0 a5-8~ w0.0");
	end(&run);
}

/* The machine was started again: its clock begins anew, and all that the new run tells is news. */
static void clock_begins_anew(void **state)
{
	const uint64_t now_ns = run_now_ns;
	struct spool_place oldest = {0};
	struct spool_run run;

	(void)state;
	begin(&run);
	begun_ns = run_now_ns;
	run_now_ns += 500 * NS_PER_S;
	for (unsigned i = 0; i < 2; i++) {
		run_open(&run);
		give(&run, run_batch(&run, 0, 5, 0));
		give(&run, run_batch(&run, 1, 5, 0));
		give(&run, run_watermark(&run));
		run_close(&run);
		run.config.run.epoch++;
		memset(run.seq, 0, sizeof(run.seq));
		run_now_ns = now_ns + NS_PER_S;
	}
	run_open(&run);
	ask(&run, &oldest, ALL);
	assert_string_equal(told.text, " HCS A0-5 B0-5 w500.0 A5?NOT_RECORDED HCS A0-5 B0-5 w1.0 A5?NOT_RECORDED");
	end(&run);
}

/* ---- Files ---------------------------------------------------------------------------------------- */

static const char *locked;

static int open_but_that(struct disk *disk, const char *path, int flags)
{
	return locked && strstr(path, locked) ? -EIO : real_ops->open(disk, path, flags);
}

static void lock(const char *name)
{
	real_ops = faulty.disk.ops;
	other_ops = *real_ops;
	other_ops.open = open_but_that;
	faulty.disk.ops = &other_ops;
	locked = name;
}

/* The disk does not give a file, however often it is asked: its numbers are a gap, until it does. */
static void a_file_that_cannot_be_read(void **state)
{
	static const struct happened nothing_happened = {.to_files = nothing};
	struct spool_place place;
	struct spool_run run;

	(void)state;
	make(&run, &nothing_happened);
	lock(NULL);
	run_open(&run);
	locked = "0000000000000002.seg";
	set_place(ONE_RING, &run, &place);
	ask(&run, &place, ALL);
	assert_string_equal(told.text, " HCS B0-7 A5-16 A16-24!DISK B7-29!DISK" F3 " A31?NOT_RECORDED" S1 S2 S3
				       " A31?NOT_RECORDED");
	assert_non_null(segment(2, "seg"));
	locked = NULL;
	ask(&run, &place, ALL);
	assert_string_equal(told.text, all_that_happens[0].told[ONE_RING]);
	free((void *)place.cursor);
	end(&run);
}

/* And one that cannot be read as the spool is opened is passed over, and counted. */
static void a_file_that_cannot_be_opened(void **state)
{
	static const struct happened nothing_happened = {.to_files = nothing};
	struct spool_place place;
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	make(&run, &nothing_happened);
	lock("0000000000000002.seg");
	run_open(&run);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.set_aside, 1);
	assert_non_null(segment(2, "seg"));
	locked = NULL;
	set_place(ONE_RING, &run, &place);
	ask(&run, &place, ALL);
	assert_string_equal(told.text, " HCS B0-7 A5-16 A16-24!CORRUPT B7-29!CORRUPT" F3 " A31?NOT_RECORDED" S1 S2 S3
				       " A31?NOT_RECORDED");
	free((void *)place.cursor);
	end(&run);
}

/* The file that is being written stays where it is, whatever is read of it. */
static void damage_of_what_is_being_written(void **state)
{
	struct spool_place oldest = {0};
	struct faulty_file *file;
	struct spool_run run;
	size_t first;

	(void)state;
	begin(&run);
	run.config.segment_bytes = 1 << 20;
	run_open(&run);
	give(&run, run_batch(&run, 0, 5, 0));
	file = &faulty.file[segment(1, "open")->file];
	first = file->n;
	give(&run, run_batch(&run, 1, 5, 0));
	file->bytes[first + 20] ^= 1;
	ask(&run, &oldest, ALL);
	assert_non_null(segment(1, "open"));
	assert_null(segment(1, "bad"));
	assert_int_equal(strncmp(told.text, " a0-5", 5), 0);
	end(&run);
}

static void make_empty(unsigned sequence, const char *suffix)
{
	char path[FAULTY_PATH_BYTES];
	int file = faulty.disk.ops->open(&faulty.disk, "empty", O_WRONLY | O_CREAT);

	assert_true(file >= 0);
	faulty.disk.ops->close(&faulty.disk, file);
	snprintf(path, sizeof(path), "spool/run/%016x.%s", sequence, suffix);
	faulty_link(&faulty.names, path, faulty_find(&faulty.names, "empty")->file);
	faulty_unlink(&faulty.names, "empty");
}

/* A file that was begun and holds nothing is removed, and its number given again if it was the last. */
static void empty_files(void **state)
{
	static const struct {
		unsigned sequence;
		const char *suffix;
		unsigned next;
		bool is_bad;
	} file[] = {{7, "open", 7, false}, {2, "open", 7, false}, {7, "seg", 8, true}};
	static const struct happened nothing_happened = {.to_files = nothing};

	(void)state;
	for (unsigned i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
		struct spool_run run;

		make(&run, &nothing_happened);
		if (file[i].sequence == 2)
			delete_second();
		make_empty(file[i].sequence, file[i].suffix);
		run_open(&run);
		assert_int_equal(segment(file[i].sequence, "bad") != NULL, file[i].is_bad);
		assert_true(file[i].next == file[i].sequence || !segment(file[i].sequence, file[i].suffix));
		give(&run, run_batch(&run, 0, 5, 0));
		for (unsigned sequence = 1; sequence < 10; sequence++)
			assert_int_equal(segment(sequence, "open") != NULL, sequence == file[i].next);
		end(&run);
	}
}

/* A file that has another number in its name than in itself is not what it is called. */
static void a_file_of_another_number(void **state)
{
	static const struct happened torn = {.to_files = tear_last_frame};
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	make(&run, &torn);
	faulty_link(&faulty.names, "spool/run/0000000000000009.open", segment(SEGMENTS, "open")->file);
	faulty_unlink(&faulty.names, segment(SEGMENTS, "open")->path);
	run_open(&run);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.set_aside, 1);
	assert_non_null(segment(9, "bad"));
	end(&run);
}

/* What a killed daemon left ends at the last frame that can be, and no place in it is behind another. */
static void places_in_what_was_left(void **state)
{
	struct frame_ref *impossible;
	struct spool_run run;
	uint64_t whole;

	(void)state;
	begin(&run);
	run.config.segment_bytes = 1 << 20;
	run_open(&run);
	give(&run, run_batch(&run, 0, 5, 0));
	whole = run.seq[0];
	run.seq[0] -= 3;
	give(&run, run_watermark(&run));
	run.seq[0] = whole;
	impossible = frame_ref_gap(run.codec, run_cpu_of[0], whole + 9, whole, LOSS_STAGE_SPOOL,
				   LOSS_REASON_DISK, 0);
	assert_non_null(impossible);
	impossible->first_seq = whole;
	impossible->end_seq = whole + 9;
	give(&run, impossible);
	run.seq[0] = whole + 9;
	give(&run, run_batch(&run, 0, 5, 0));
	faulty.cut_at = faulty.operations;
	run_close(&run);
	faulty_disk_cut(&faulty, FAULTY_KILL);
	run_open(&run);
	assert_int_equal(run.end[0], whole);
	check_end(&run, file_of(1));
	end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_at_once),
		cmocka_unit_test(as_little_as_possible_at_a_time),
		cmocka_unit_test(skipped_before_a_batch),
		cmocka_unit_test(a_gap_from_its_middle),
		cmocka_unit_test(a_disk_that_reads_wrong_once),
		cmocka_unit_test(say_where_they_begin),
		cmocka_unit_test(are_longer_than_what_is_read_at_once),
		cmocka_unit_test(what_stands_in_two_files),
		cmocka_unit_test(time_stands_still),
		cmocka_unit_test(clock_begins_anew),
		cmocka_unit_test(a_file_that_cannot_be_read),
		cmocka_unit_test(a_file_that_cannot_be_opened),
		cmocka_unit_test(damage_of_what_is_being_written),
		cmocka_unit_test(empty_files),
		cmocka_unit_test(a_file_of_another_number),
		cmocka_unit_test(places_in_what_was_left),
		cmocka_unit_test(though_something_fails_once),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
