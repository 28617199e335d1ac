/*
 * gather: makes few large frames of many small ones, which a relay stores at less cost. The next frames of a stream,
 * from the log or the disk, wait for an interval; then the small batches of each ring become one, and one watermark replaces
 * theirs. The frames in the log and in the spool do not change, so other readers do not wait.
 *
 *	log, spool: B0 B1 W B0 B1 W B0 B1 W  ──►  B0 B1 W
 *
 * In: the frames that are next. Out: the same attempts in fewer frames, as the stream's next ones. What cannot be
 * joined, and what memory is short for, goes as it is. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_GATHER_H
#define RINGTAIL_DAEMON_STREAM_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/frame_ref.h"
#include "daemon/stream/stream.h"

struct gather;

/* The stream's frames are gathered from now on, for *interval_ns each time, borrowed. -ENOMEM: they are not. */
int gather_begin(struct stream *stream, const Ringtail__V1__Catalog *catalog, const uint64_t *interval_ns);
void gather_destroy(struct gather *gather);		/* NULL is safe */

/* The frame that is i-th in turn, or NULL. Borrowed until it is passed. */
struct frame_ref *gather_get(const struct gather *gather, uint32_t i);
void gather_pass(struct gather *gather);

/* Nothing is left to give: gathers what is next, if it is time. */
void gather_go_on(struct gather *gather);

/* gather_go_on() would return a frame, or a watermark is to be sent. */
bool gather_has_work(struct gather *gather);

/* When all frames were returned: whether the client needs a watermark of that time; and that it was sent. */
bool gather_owes_time(const struct gather *gather, uint64_t *time_ns);
void gather_told(struct gather *gather);

/* What was gathered and not given comes again, off the disk. */
void gather_forget(struct gather *gather);

/* What was gathered and not given is in flight. */
void gather_stat(const struct gather *gather, struct stream_stat *stat);

#endif
