/*
 * loss_advice: what a daemon's Stat says was lost, and what to do so that it is not lost again.
 */
#ifndef RINGTAIL_CLIENT_CLI_LOSS_ADVICE_H
#define RINGTAIL_CLIENT_CLI_LOSS_ADVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/ringtail.pb-c.h"

#define LOSS_ADVICE_BYTES 256

struct loss_advice {
	char name[32];			/* "ring full" */
	const char *what;		/* happened */
	char remedy[LOSS_ADVICE_BYTES];
};

/*
 * The advice for the next reason from *reason on for which a ring, a client, a spool or an export has
 * lost something; *reason is the one after it then. False: there is no other.
 */
bool loss_advice_next(const Ringtail__V1__Stat *stat, unsigned *reason,
		      struct loss_advice *advice);

#endif
