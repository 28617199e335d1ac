/*
 * spool_read: a reader's place in a spool's files, and the frames from there. On the disk thread.
 *
 * Files may overlap (what could not be synced was written again) and may have holes (deleted,
 * damaged, set aside): each attempt is given once, and each that is missing is in a Gap, in its
 * place.
 */
#ifndef RINGTAIL_DAEMON_SPOOL_READ_H
#define RINGTAIL_DAEMON_SPOOL_READ_H

#include "daemon/spool/store.h"

struct spool_read;

/*
 * From a cursor (taken over), or with NULL from a time, 0:
 * from the oldest. NULL: out of memory, and `since` is freed.
 */
struct spool_read *spool_read_create(struct cursor *since, uint64_t realtime_ns);
void spool_read_destroy(struct spool_read *read);

/*
 * Appends frames to frame[], at most max and about `bytes` of them; the references are the
 * caller's. true: that was all there is now. *n is how many.
 */
bool spool_read_next(struct spool_read *read, struct spool_store *store, size_t bytes,
		     struct frame_ref **frame, unsigned max, unsigned *n);

#endif
