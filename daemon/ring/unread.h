/*
 * ring_unread: how many attempts stand in a part of a ring (kmod/uapi/ringtail.h) that was not read yet.
 *
 * In: the ring's data, from where the reader stands to what is reserved. Out: a count. Nothing is taken,
 * nothing written; on the thread of the reader, so that the producer does not reuse what is looked at,
 * while producers run beside it.
 */
#ifndef RINGTAIL_DAEMON_RING_UNREAD_H
#define RINGTAIL_DAEMON_RING_UNREAD_H

#include <stdint.h>

struct ring_span {
	const uint8_t *data;		/* the ring's, size_bytes long; borrowed */
	uint64_t size_bytes;
	uint64_t key;
	uint64_t pos, end;		/* at most size_bytes apart */
};

/*
 * Attempts in the span that have a record, or will have one; fillers and heads of sub-buffers are none.
 * Exact, but for two cases, where it is too low: unfinished records that follow one another at once
 * count as one, since nothing tells how long they are; and it looks at `looks_max` places at most.
 */
uint64_t ring_unread_count(const struct ring_span *span, uint64_t looks_max);

#endif
