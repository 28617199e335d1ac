#include "daemon/export/frames.h"

#include <assert.h>

static uint32_t *slot(struct export_frames *frames, uint64_t serial)
{
	assert(serial - frames->base < EXPORT_FRAMES_UNSETTLED_MAX);
	return &frames->waiting[serial % EXPORT_FRAMES_UNSETTLED_MAX];
}

void export_frames_begin(struct export_frames *frames, uint64_t serial)
{
	if (!frames->base)
		frames->base = serial;
	export_frames_settled(frames);
	*slot(frames, serial) = 0;
	frames->newest = serial;
}

void export_frames_hold(struct export_frames *frames, uint64_t serial)
{
	++*slot(frames, serial);
}

void export_frames_release(struct export_frames *frames, uint64_t serial)
{
	--*slot(frames, serial);
}

uint64_t export_frames_settled(struct export_frames *frames)
{
	if (!frames->base)
		return 0;
	while (frames->base <= frames->newest && !*slot(frames, frames->base))
		frames->base++;
	return frames->base - 1;
}
