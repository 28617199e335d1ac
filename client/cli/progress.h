/*
 * progress: how far a read has come, and how long the rest takes: in the line of rates, and on SIGUSR1, as dd(1)
 * says it. Text and arithmetic, but for the signal.
 */
#ifndef RINGTAIL_CLIENT_CLI_PROGRESS_H
#define RINGTAIL_CLIENT_CLI_PROGRESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/ringtail.h"

#define PROGRESS_TEXT_BYTES	96	/* of the line of rates, */
#define PROGRESS_SAID_BYTES	256	/* and of the answer to a signal */

struct progress {
	uint64_t all;		/* bytes of the file, or ns of the past; 0: nobody knows how much comes */
	uint64_t done;
	bool is_past;		/* they are ns */
	double seconds;		/* since the start */
};

/* "35 % of 3.40 GiB, 22.0s left", or "35 % of the past, ..."; "": nobody knows. Returns `text`. */
char *progress_format(const struct progress *progress, char text[PROGRESS_TEXT_BYTES]);

/* "1.20 GiB in 12.3 s, 100 MiB/s; 35 % of 3.40 GiB, 22.0s left; 45600000 events, 0 lost". Returns `text`. */
char *progress_say(const struct progress *progress, const struct ringtail_totals *totals,
		   char text[PROGRESS_SAID_BYTES]);

/* From now on SIGUSR1 asks instead of ending the process. */
void progress_listen(void);

/* Whether somebody has asked; 0 once it is answered. */
extern volatile sig_atomic_t progress_asked;

#endif
