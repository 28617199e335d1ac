/*
 * backoff: how long to wait before the next try: longer each time, and never the same for two. In: a seed, and
 * the bounds. Out: milliseconds. Pure; one thread each.
 */
#ifndef RINGTAIL_PROTO_BACKOFF_H
#define RINGTAIL_PROTO_BACKOFF_H

#include <stdint.h>

struct backoff {
	uint32_t min_ms, max_ms;
	uint32_t delay_ms;
	uint64_t random;	/* state; the seed is the caller's */
};

void backoff_init(struct backoff *backoff, uint64_t seed, uint32_t min_ms, uint32_t max_ms);

/* From the caller's success on: begin with the shortest wait again. */
void backoff_reset(struct backoff *backoff);

/*
 * Doubles from min_ms to max_ms; what it returns is between half of that and all of it, so that clients which
 * lost their daemon together do not return together.
 */
uint32_t backoff_next_ms(struct backoff *backoff);

/* Anything from 0 to that, for clients that begin together. */
uint32_t backoff_spread_ms(struct backoff *backoff, uint32_t max_ms);

#endif
