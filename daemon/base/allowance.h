/*
 * allowance: bounds how many bytes its owner sends in a second.
 *
 * In: the rate, the time, and how many bytes were sent. Out: how many bytes may be sent now; if none, how long to wait.
 *
 * Within any time t at most bytes_per_s * (t + ALLOWANCE_SAVED_NS) bytes are sent: after a pause, what was saved up
 * goes at the full speed of the network. Once all is used up, nothing may be sent until half of what can be saved up
 * is there again: few large writes, not many small ones. Main thread.
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

/* The rate from now on; 0: no bound. What is saved up stays, as far as the new rate allows. */
void allowance_set(struct allowance *allowance, uint64_t bytes_per_s);

/* How many bytes may be sent now: SIZE_MAX without a bound; 0: ask again after allowance_wait_ns(). */
size_t allowance_look(struct allowance *allowance, uint64_t now_ns);

/* So many were sent: no more than allowance_look() said. */
void allowance_spend(struct allowance *allowance, size_t bytes);

/* How long to wait, from the last allowance_look() on, if that returned 0. Never 0. */
uint64_t allowance_wait_ns(const struct allowance *allowance);

#endif
