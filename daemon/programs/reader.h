/*
 * program_reader: one ring of a program's segment (struct rt_program_ring).
 *
 * In: memory that the program may write at any time. Out: records, each copied before it is looked at, with the
 * losses before it. Nothing that the memory says is read twice, and nothing of it can lead out of the ring. The
 * drain worker's thread.
 */
#ifndef RINGTAIL_DAEMON_PROGRAMS_READER_H
#define RINGTAIL_DAEMON_PROGRAMS_READER_H

#include <stdbool.h>
#include <stdint.h>

#define RT_PROBE_LAYOUT_ONLY
#include "proto/ringtail-probe.h"

struct program_reader {
	struct rt_program_ring *ring;
	uint64_t size;
	uint64_t pos;			/* what was read */
	uint64_t end;			/* what was published when it was looked at last */
	uint64_t lost_seen;
	uint64_t filtered_seen;
	uint64_t released;		/* the program has room up to there */
	bool corrupt;
	bool frozen;			/* it was looked at for the last time */
	bool peeked;
	uint64_t head[RT_PROGRAM_HEAD_WORDS];	/* of the record at pos, where `peeked` */
};

struct program_item {
	uint32_t probe;			/* index in the program's table */
	uint32_t tid;			/* these two are what the program says */
	uint64_t lost;			/* before it */
	uint32_t words;			/* of payload */
	uint64_t payload[RT_PROGRAM_WORDS_MAX];
};

void program_reader_init(struct program_reader *reader, struct rt_program_ring *ring, uint64_t size);

/* Looks how far the program has come, unless it was frozen. Whether there is something to read, or a loss, or it is corrupt. */
bool program_reader_look(struct program_reader *reader);

/* Looks for the last time. */
void program_reader_freeze(struct program_reader *reader);

/*
 * Whether there is a record below what was looked at, and its time. False also where the ring breaks its rules:
 * then `corrupt` is set, and it is not read any more.
 */
bool program_reader_peek(struct program_reader *reader, uint64_t *time);

/* Whether the time of the record that was peeked is the processor's counter; else it is in ns. */
bool program_reader_counts(const struct program_reader *reader);

/* The record that was peeked. */
void program_reader_take(struct program_reader *reader, struct program_item *item);

/* Where nothing is left to read: the losses since the last record. */
uint64_t program_reader_lost(struct program_reader *reader);

/* The events that did not pass the program's tests since the last time. */
uint64_t program_reader_filtered(struct program_reader *reader);

/* Whether something was published behind what was read. */
bool program_reader_is_behind(const struct program_reader *reader);

/* Gives the room of what was read back to the program. */
void program_reader_release(struct program_reader *reader);

#endif
