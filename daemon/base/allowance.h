/*
 * allowance: so many bytes a second may leave, and what is saved up of them is bounded.
 *
 * In: the time, and how many bytes left. Out: how many may leave now. What leaves within any time t is at most
 * bytes_per_s * (t + ALLOWANCE_SAVED_NS), so a part of a second at the full speed of the network behind a pause. Once all
 * is used up, nothing leaves until half of that is saved again: few large writes, not many small ones. Of one thread.
 */
#ifndef RINGTAIL_DAEMON_BASE_ALLOWANCE_H
#define RINGTAIL_DAEMON_BASE_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct allowance {
	uint64_t bytes_per_s;		/* 0: any number */
	double saved;			/* bytes */
	uint64_t since_ns;		/* of `saved`; 0: nothing was asked for yet */
	bool used_up;
};

/* From now on; 0: any number. What is saved up stays, within the new bound. */
void allowance_set(struct allowance *allowance, uint64_t bytes_per_s);

/* How many bytes may leave now; SIZE_MAX without a bound; 0: none for allowance_wait_ns(). */
size_t allowance_look(struct allowance *allowance, uint64_t now_ns);

/* They left. No more than allowance_look() said. */
void allowance_spend(struct allowance *allowance, size_t bytes);

/* From the last look on, if that said 0. Never 0. */
uint64_t allowance_wait_ns(const struct allowance *allowance);

#endif
