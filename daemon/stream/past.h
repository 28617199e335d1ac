/*
 * past: what a stream is given before its own subscription's record begins: another's record of the same
 * attempts, by that one's log and spool, filtered; and from where that ends its own, without a hole or a
 * double.
 *
 * In: the frames of a stream of the other subscription, which nobody sends. Out: frames of the same
 * attempts, as the stream's next ones. Many that read so take turns, each with a bound. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_PAST_H
#define RINGTAIL_DAEMON_STREAM_PAST_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/frame_ref.h"
#include "daemon/stream/stream.h"

struct past;
struct past_turns;

/* NULL: out of memory. */
struct past_turns *past_turns_create(struct event_base *base);
void past_turns_destroy(struct past_turns *turns);	/* no past is left; NULL is safe */

/*
 * The stream, which has just been made, begins where `from` does. That one goes over; not if it fails:
 * -ENOMEM.
 */
int past_begin(struct past_turns *turns, struct stream *stream, struct stream *from, bool whole,
	       const Ringtail__V1__Catalog *catalog);
void past_destroy(struct past *past);			/* NULL is safe */

/* The frame that is i-th in turn, or NULL. Borrowed until it is passed. */
struct frame_ref *past_get(const struct past *past, uint32_t i);
void past_pass(struct past *past);

/* Nothing is left to give: makes more, if it is its turn, or changes over to the log: no past then. */
void past_go_on(struct stream *stream);

/* past_go_on() would bring something. */
bool past_has_work(const struct past *past);

/* The log gives up that frame. False: its attempts came before. Else `part` is what did not. */
bool past_leave_out(struct past *past, const struct frame_ref *frame, struct frame_ref *part);

/* By ring: how far either record has got. */
uint64_t past_end(const struct past *past, uint32_t ring);

void past_stat(const struct past *past, struct stream_stat *stat);

#endif
