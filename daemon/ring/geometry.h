/*
 * ring_geometry: what a mapped ring says of itself, checked once and copied, so that nobody asks
 * shared memory for it again. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_RING_GEOMETRY_H
#define RINGTAIL_DAEMON_RING_GEOMETRY_H

#include <stddef.h>
#include <stdint.h>

#include "query/error.h"
#include "kmod/uapi/ringtail.h"

#define RING_SUBBUFS_MIN 4

struct ring_geometry {
	uint64_t size_bytes, subbuf_bytes;
	uint64_t key;			/* its bits of RT_TAG_MASK */
	enum rt_policy policy;
	uint32_t cpu;
	uint64_t consumer_pos;		/* where an earlier reader stopped; 0 in a fresh ring */
};

/* map: producer page, data and slack. -EPROTO with *error if they are no ring of this ABI. */
int ring_geometry_read(const void *map, size_t map_bytes, const struct rt_ring_consumer *consumer,
		       struct ring_geometry *geometry, struct error *error);

#endif
