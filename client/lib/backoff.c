#include "client/lib/backoff.h"

#include "client/lib/limits.h"

void backoff_init(struct backoff *backoff, uint64_t seed)
{
	backoff->random = seed | 1;	/* xorshift stays at 0 for ever */
	backoff_reset(backoff);
}

void backoff_reset(struct backoff *backoff)
{
	backoff->delay_ms = RECONNECT_DELAY_MS_MIN;
}

uint32_t backoff_next_ms(struct backoff *backoff)
{
	uint32_t delay_ms = backoff->delay_ms;

	backoff->random ^= backoff->random << 13;
	backoff->random ^= backoff->random >> 7;
	backoff->random ^= backoff->random << 17;
	backoff->delay_ms = delay_ms * 2 < RECONNECT_DELAY_MS_MAX ? delay_ms * 2 :
			    RECONNECT_DELAY_MS_MAX;
	return delay_ms / 2 + (uint32_t)(backoff->random % (delay_ms / 2 + 1));
}
