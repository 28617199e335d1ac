#include "proto/backoff.h"

void backoff_init(struct backoff *backoff, uint64_t seed, uint32_t min_ms, uint32_t max_ms)
{
	backoff->random = seed | 1;	/* xorshift stays at 0 for ever */
	backoff->min_ms = min_ms;
	backoff->max_ms = max_ms;
	backoff_reset(backoff);
}

void backoff_reset(struct backoff *backoff)
{
	backoff->delay_ms = backoff->min_ms;
}

/* xorshift (Marsaglia). */
static uint64_t next_random(struct backoff *backoff)
{
	backoff->random ^= backoff->random << 13;
	backoff->random ^= backoff->random >> 7;
	backoff->random ^= backoff->random << 17;
	return backoff->random;
}

uint32_t backoff_next_ms(struct backoff *backoff)
{
	uint32_t delay_ms = backoff->delay_ms;

	backoff->delay_ms = delay_ms * 2 < backoff->max_ms ? delay_ms * 2 : backoff->max_ms;
	return delay_ms / 2 + (uint32_t)(next_random(backoff) % (delay_ms / 2 + 1));
}

uint32_t backoff_spread_ms(struct backoff *backoff, uint32_t max_ms)
{
	return (uint32_t)(next_random(backoff) % ((uint64_t)max_ms + 1));
}
