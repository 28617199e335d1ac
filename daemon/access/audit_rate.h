/*
 * audit_rate: how often each identity may do what leaves a line in an audit log. Whoever does it more
 * often in a window only has it counted. So many identities are told apart; the rest share one count.
 * Pure; main thread.
 */
#ifndef RINGTAIL_DAEMON_ACCESS_AUDIT_RATE_H
#define RINGTAIL_DAEMON_ACCESS_AUDIT_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/identity.h"
#include "daemon/base/limits.h"

struct audit_rate {
	unsigned max;			/* for each in a window */
	uint64_t window_ns;
	struct audit_talker {
		char who[IDENTITY_TEXT_BYTES];	/* "": free, and so is what follows */
		uint64_t since_ns;	/* the window's begin */
		unsigned said;
		uint64_t more;		/* beyond that */
	} talker[AUDIT_TALKERS_MAX];
};

/* Whether it may; else it is counted. */
bool audit_rate_take(struct audit_rate *rate, const char *who, uint64_t now_ns);

/*
 * Somebody whose window is over, and how many more there were, which it forgets; NULL: none. With
 * UINT64_MAX for now every window is over.
 */
const char *audit_rate_next(struct audit_rate *rate, uint64_t now_ns, uint64_t *more);

/* When the first window with something to tell is over; 0: none has. */
uint64_t audit_rate_due(const struct audit_rate *rate);

#endif
