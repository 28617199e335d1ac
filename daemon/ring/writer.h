/*
 * ring_writer: a producer of the ring ABI (kmod/uapi/ringtail.h) in user space: what the replay
 * source writes with, and what the tests torture the reader with.
 *
 * In: records. Out: a ring in two sealed memfds and an eventfd, as any source hands them out. Every
 * call on one writer may come from several threads and from signal handlers that interrupt another
 * call: as on a CPU, nobody waits for anybody.
 */
#ifndef RINGTAIL_DAEMON_RING_WRITER_H
#define RINGTAIL_DAEMON_RING_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "query/error.h"
#include "daemon/ring/handle.h"
#include "kmod/uapi/ringtail.h"

struct ring_writer;

struct ring_writer_config {
	uint32_t cpu;
	uint64_t ring_bytes;		/* of data: a power of two */
	uint64_t subbuf_bytes;		/* 0: a fitting one */
	enum rt_policy policy;
	uint64_t key;			/* 0: random */
	bool counts;			/* it has struct rt_counted; see ring_writer_count() */
};

struct ring_writer_attachment {
	enum rt_attachment_kind kind;
	uint16_t arg;
	uint32_t bytes;
	const void *data;
};

struct ring_writer_record {
	uint16_t probe;
	uint32_t tid;
	uint64_t time_ns;		/* 0: CLOCK_MONOTONIC, read when its place is known */
	const uint64_t *payload;
	uint32_t words;			/* of payload */
	const struct ring_writer_attachment *attachment;
	uint32_t attachments;
};

/* A place that was reserved, until it is committed. */
struct ring_writer_slot {
	uint64_t pos, end;		/* of the record */
	uint64_t reserved_pos;		/* where filler and sub-buffer head before it begin */
	uint64_t time_ns;
	uint64_t lost_total;		/* of the ring, before this record */
	uint64_t records;		/* committed before it; RT_POLICY_OVERWRITE */
};

int ring_writer_create(const struct ring_writer_config *config, struct ring_writer **writer,
		       struct error *error);

/* Mappings that others made of the ring stay readable. NULL is safe. */
void ring_writer_destroy(struct ring_writer *writer);

/* One attempt: 0, or -ENOSPC counted as lost. -EMSGSIZE is no attempt: it can never fit. */
int ring_writer_write(struct ring_writer *writer, const struct ring_writer_record *record);

/* Counts events of a probe instead of writing them; from one thread. */
void ring_writer_count(struct ring_writer *writer, uint16_t probe, uint64_t good, uint64_t bad);

/*
 * Waits until there is room for a record of `words` payload words, attachments included, so that a
 * lone writer's next write of that size is not refused. Looks every few dozen microseconds. 0, or
 * -ETIMEDOUT; -EPIPE if the ring was stopped.
 */
int ring_writer_wait(struct ring_writer *writer, uint32_t words, uint64_t timeout_ns);

/* Payload words that a record takes with its attachments. */
uint32_t ring_writer_words(const struct ring_writer_record *record);

/*
 * The two halves of a write, for tests that stand between them: reserve (as ring_writer_write
 * returns) the place for a record of `words` payload words, then fill and commit it.
 */
int ring_writer_reserve(struct ring_writer *writer, uint32_t words, uint64_t time_ns,
			struct ring_writer_slot *slot);
void ring_writer_commit(struct ring_writer *writer, const struct ring_writer_slot *slot,
			const struct ring_writer_record *record);

/* Counts attempts that were lost elsewhere as this ring's. */
void ring_writer_lose(struct ring_writer *writer, enum rt_lost reason, uint64_t count);

/* Lets a ring that RT_POLICY_STOP stopped go on. */
void ring_writer_resume(struct ring_writer *writer);

/* The ring as a source shows it; the descriptors stay the writer's. */
void ring_writer_describe(const struct ring_writer *writer, struct ring_handle *ring);

/* The writer's own mappings, borrowed. */
struct rt_ring_producer *ring_writer_map(const struct ring_writer *writer, size_t *bytes);
struct rt_ring_consumer *ring_writer_consumer(const struct ring_writer *writer);

#endif
