/*
 * spool_extent: what each segment of a spool holds, as the main thread may know it: made by the disk
 * thread when the list of segments has changed, and handed over.
 */
#ifndef RINGTAIL_DAEMON_SPOOL_EXTENT_H
#define RINGTAIL_DAEMON_SPOOL_EXTENT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/cursor.h"

struct spool_store;

struct spool_extent {
	struct run run;
	uint64_t bytes;
	struct cursor *start;
	struct cursor *end;	/* NULL: it is being written, and its bytes are not counted here */
};

struct spool_extents {
	size_t n;
	uint64_t bytes;			/* of all of them */
	struct spool_extent extent[];
};

/* NULL: out of memory. */
struct spool_extents *spool_extents_create(const struct spool_store *store);
void spool_extents_destroy(struct spool_extents *extents);

/*
 * About how many bytes are behind that place of that run; total: of the whole spool, now; end: how far
 * the segment goes that is being written.
 */
uint64_t spool_extents_behind(const struct spool_extents *extents, uint64_t total,
			      const struct cursor *end, const struct cursor *place);

#endif
