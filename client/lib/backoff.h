/*
 * backoff: how long to wait before the next try: longer each time, and never the same for two.
 */
#ifndef RINGTAIL_CLIENT_LIB_BACKOFF_H
#define RINGTAIL_CLIENT_LIB_BACKOFF_H

#include <stdint.h>

struct backoff {
	uint32_t delay_ms;
	uint64_t random;	/* state; the seed is the caller's */
};

void backoff_init(struct backoff *backoff, uint64_t seed);

/* From the caller's success on: begin with the shortest wait again. */
void backoff_reset(struct backoff *backoff);

/*
 * Doubles from RECONNECT_DELAY_MS_MIN to RECONNECT_DELAY_MS_MAX; what it returns is between half of
 * that and all of it, so that clients which lost their daemon together do not return together.
 */
uint32_t backoff_next_ms(struct backoff *backoff);

#endif
