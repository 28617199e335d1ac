/*
 * forward: what a program takes that hands a daemon's frames on to something slower than itself, and
 * acknowledges them only when that has stored them. Of this tree's own programs: the shared library does
 * not show it. In: a subscribed handle. Out: its frames, checked; acknowledgements up to an earlier place.
 */
#ifndef RINGTAIL_CLIENT_LIB_FORWARD_H
#define RINGTAIL_CLIENT_LIB_FORWARD_H

#include "client/lib/frame_reader.h"
#include "client/lib/ringtail.h"

/* The attempts of one CPU that a batch or a gap is about; other frames are about none. */
struct forward_span {
	bool known;
	uint32_t cpu;
	uint64_t first_seq, end_seq;
};

typedef void forward_frame(void *context, const struct frame *frame, const struct forward_span *span);

/*
 * Sees every frame from now on, once it has been looked into and found good, and the hello that came
 * before. The frame is borrowed for the call.
 */
void forward_set(struct ringtail *ringtail, forward_frame *forward, void *context);

/*
 * For a durable consumer: what is before that place, a text of ringtail_cursor(), need not be kept for it
 * any more. Does not wait for an answer; between two connections nothing is sent.
 */
int forward_acknowledge(struct ringtail *ringtail, const char *place, struct ringtail_error *error);

#endif
