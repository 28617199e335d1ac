/*
 * export_frames: how many events of each frame are still to be dealt with, and so up to which frame
 * all is: a value that is kept as events come and go, for looking at all that wait costs more the
 * longer a back end is away. The export thread.
 *
 *	settled         base                   newest
 *	────────────────┼──────────────────────┼─────────
 *	nothing waits   waiting[] of each frame   not begun
 */
#ifndef RINGTAIL_DAEMON_EXPORT_FRAMES_H
#define RINGTAIL_DAEMON_EXPORT_FRAMES_H

#include <stdint.h>

#include "daemon/base/limits.h"

struct export_frames {
	uint64_t base;		/* the oldest frame of which something may wait */
	uint64_t newest;
	uint32_t waiting[EXPORT_FRAMES_UNSETTLED_MAX];	/* by serial modulo the size */
};

/* A frame's events follow. Serials grow; the newest is less than the size of waiting[] ahead. */
void export_frames_begin(struct export_frames *frames, uint64_t serial);

/* One of its events waits; does so no more. */
void export_frames_hold(struct export_frames *frames, uint64_t serial);
void export_frames_release(struct export_frames *frames, uint64_t serial);

/* Nothing waits of this frame and of all before; 0: of none that can be said. */
uint64_t export_frames_settled(struct export_frames *frames);

#endif
