/*
 * fed: a handle of one host whose frames somebody else brings, from a stream that has those of several. Of this tree's
 * own programs: the shared library does not show it. In: frames. Out: a handle that is read as a file's is.
 */
#ifndef RINGTAIL_CLIENT_LIB_FED_H
#define RINGTAIL_CLIENT_LIB_FED_H

#include "client/lib/frame_reader.h"
#include "client/lib/ringtail.h"

struct intake_desk;

/*
 * `name` is for messages; both are borrowed, and the desk may be shared with others (client/lib/intake.h).
 * ringtail_next() says RINGTAIL_TIMEOUT when it wants a frame.
 */
int fed_create(const char *name, struct intake_desk *desk, struct ringtail **made, struct ringtail_error *error);

/* The next frame; behind it ringtail_next() until it says RINGTAIL_TIMEOUT. One that is bad ends with RINGTAIL_ERROR. */
void fed_take(struct ringtail *ringtail, const struct frame *frame);

/* No more will come: ringtail_next() gives out what waits, and then RINGTAIL_END. */
void fed_end(struct ringtail *ringtail);

/* It has ended with RINGTAIL_ERROR only because no catalog of its host has what ringtail_select() asked for. */
bool fed_lacks_selection(const struct ringtail *ringtail);

#endif
