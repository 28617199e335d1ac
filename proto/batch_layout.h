/*
 * batch_layout: the numbers of message Batch that encoder and decoder share; all of them are those
 * of ringtail.proto, and held to it by a test. No code.
 */
#ifndef RINGTAIL_PROTO_BATCH_LAYOUT_H
#define RINGTAIL_PROTO_BATCH_LAYOUT_H

#include <stdint.h>

/* Field numbers. */
enum {
	BATCH_CPU = 1,
	BATCH_FIRST_SEQ = 2,
	BATCH_END_SEQ = 3,
	BATCH_TIME_NS = 4,
	BATCH_EVENTS = 5,
	BATCH_THREAD = 6,
	BATCH_PROBE = 7,
	BATCH_LOSS_FIELD = 8,
	BATCH_COLUMN_FIRST = 9,
	BATCH_ATTACHMENT = 18,
	BATCH_STACK = 19,
	BATCH_TEXT = 24,
	BATCH_COUNTS = 25,
};

enum {
	THREAD_TID = 1,
	THREAD_PID = 2,
	THREAD_COMM = 3,
	THREAD_UID = 4,
	THREAD_PPID = 5,
	THREAD_KERNEL = 6,
	THREAD_EXE = 7,
	THREAD_CGROUP = 8,
	THREAD_CGROUP_ID = 9,
};

enum {
	LOSS_BEFORE = 1,
	LOSS_COUNT = 2,
	LOSS_STAGE = 3,
	LOSS_REASON = 4,
	LOSS_SKIPPED = 5,
};

enum {
	ATTACHMENT_EVENT = 1,
	ATTACHMENT_KIND = 2,
	ATTACHMENT_ARG = 3,
	ATTACHMENT_TEXT = 4,
	ATTACHMENT_FRAME = 5,
	ATTACHMENT_STACK = 6,
};

enum {
	STACK_FRAME = 1,
};

/* The proto's AttachmentKind. */
enum {
	ATTACHMENT_KIND_STRING = 1,
	ATTACHMENT_KIND_KSTACK = 2,
	ATTACHMENT_KIND_USTACK = 3,
};

/*
 * A time is split at 7 bits, where a varint is: a low part is one byte whatever it is. The high
 * part of the gap has 3 bits beside that of the span, so that the two are mostly one byte as well.
 */
#define TIME_LOW_BITS	7
#define TIME_LOW_MASK	((1u << TIME_LOW_BITS) - 1)
#define GAP_HIGH_BITS	3
#define GAP_HIGH_MAX	((1u << GAP_HIGH_BITS) - 1)	/* and gap_more has the rest */
#define TIME_HIGH_BITS	(64 - TIME_LOW_BITS + GAP_HIGH_BITS)

/*
 * The columns, in the order of their field numbers from BATCH_COLUMN_FIRST on, with the most bytes
 * that one event may take in each. `value` has its own bound: it may be as long as there is room.
 *
 * COLUMN(name, field of Batch, entry_bytes)
 */
#define BATCH_COLUMN_TABLE(COLUMN) \
	COLUMN(EVENT_PROBE,	event_probe,	2) \
	COLUMN(EVENT_THREAD,	event_thread,	2) \
	COLUMN(CHANGED,		changed,	4) \
	COLUMN(VALUE,		value,		0) \
	COLUMN(TIME_HIGH,	time_high,	9) \
	COLUMN(GAP_MORE,	gap_more,	9) \
	COLUMN(GAP_LOW,		gap_low,	1) \
	COLUMN(SPAN_LOW,	span_low,	1) \
	COLUMN(EVENT_SKIPPED,	event_skipped,	10)

enum batch_column {
#define COLUMN(name, field, entry_bytes) COLUMN_##name,
	BATCH_COLUMN_TABLE(COLUMN)
#undef COLUMN
	BATCH_COLUMNS,
};

/* The most bytes that one event may take in all columns but `value`. */
enum {
#define COLUMN(name, field, entry_bytes) + (entry_bytes)
	BATCH_COLUMN_BYTES = 0 BATCH_COLUMN_TABLE(COLUMN),
#undef COLUMN
};

struct batch_column_info {
	const char *name;
	uint32_t field;			/* number in the message */
	uint32_t entry_bytes;
};

static const struct batch_column_info batch_columns[BATCH_COLUMNS] = {
#define COLUMN(name, field, entry_bytes) \
	[COLUMN_##name] = { #field, BATCH_COLUMN_FIRST + COLUMN_##name, entry_bytes },
	BATCH_COLUMN_TABLE(COLUMN)
#undef COLUMN
};

#endif
