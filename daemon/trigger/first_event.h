/*
 * first_event: the first event of a batch as one line for people: "postgres[812]: fsync(fd=7) = 0 <67.2ms>".
 *
 * In: a frame of a subscription. Out: text, which is never empty. For what is rare: it makes all that it takes
 * anew. Main thread.
 */
#ifndef RINGTAIL_DAEMON_TRIGGER_FIRST_EVENT_H
#define RINGTAIL_DAEMON_TRIGGER_FIRST_EVENT_H

#include <stddef.h>

#include "daemon/base/frame_ref.h"
#include "proto/ringtail.pb-c.h"

void first_event_text(const struct frame_ref *frame, struct frame_codec *codec,
		      const Ringtail__V1__Catalog *catalog, char *text, size_t bytes);

#endif
