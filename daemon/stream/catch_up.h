/*
 * catch_up: a stream's way through the spool, from a place that memory no longer has up to where its
 * subscription's log takes over, without a hole or a double.
 *
 * In: frames off the disk, a portion at a time. Out: the same frames, and a Gap for every hole among
 * them, as the stream's next ones. Attempts that were skipped without a frame come as frames without
 * bytes, as they do in the log. Frames of another run of the rings come between their own hello and
 * this run's. What finds no memory comes later; none of it is lost. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_CATCH_UP_H
#define RINGTAIL_DAEMON_STREAM_CATCH_UP_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/frame_ref.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/stream.h"

struct catch_up;

/*
 * The stream reads the spool from now on. Nothing of the stream may be begun and unsent before
 * `start`. NULL: from where the stream is. -ENOMEM, and the stream reads its log still.
 */
int catch_up_begin(struct stream *stream, const struct spool_place *start);

/* Without a word to anybody. NULL is safe. */
void catch_up_destroy(struct catch_up *catch_up);

/* The frame that is i-th in turn, or NULL. Borrowed until it is passed. */
struct frame_ref *catch_up_get(const struct catch_up *catch_up, uint32_t i);

/* The first has had its turn. */
void catch_up_pass(struct catch_up *catch_up);

/*
 * Nothing is left to give: asks the disk for more, or changes over to the log if that has what comes
 * next. There the stream's catch_up is NULL.
 */
void catch_up_go_on(struct stream *stream);

/* There may be more on disk than when it was asked last. */
void catch_up_poke(struct stream *stream);

#endif
