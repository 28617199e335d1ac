#include "client/cli/progress.h"

#include <stdio.h>

#include "client/cli/units.h"

#define SECONDS_LEFT_MAX 1e9	/* more is no answer */

volatile sig_atomic_t progress_asked;

static void ask(int signal)
{
	(void)signal;
	progress_asked = 1;
}

void progress_listen(void)
{
	/* SA_RESTART: whoever writes or waits goes on. */
	struct sigaction action = { .sa_handler = ask, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &action, NULL);
}

/* As much again takes as long again. A file that grows may be read further than it was long. */
static void format_left(const struct progress *progress, char *text, size_t bytes)
{
	double left = progress->done < progress->all ? (double)(progress->all - progress->done) : 0;
	char time[UNITS_TEXT_BYTES];

	left = progress->done ? progress->seconds * left / (double)progress->done : SECONDS_LEFT_MAX;
	text[0] = '\0';
	if (left < SECONDS_LEFT_MAX)
		snprintf(text, bytes, ", %s left", units_format_duration((uint64_t)(left * 1e9), time));
}

char *progress_format(const struct progress *progress, char text[PROGRESS_TEXT_BYTES])
{
	char left[UNITS_TEXT_BYTES + 16], of[UNITS_TEXT_BYTES] = "the past";
	uint64_t done = progress->done < progress->all ? progress->done : progress->all;

	text[0] = '\0';
	if (!progress->all)
		return text;
	if (!progress->is_past)
		units_format_bytes((double)progress->all, of);
	format_left(progress, left, sizeof(left));
	snprintf(text, PROGRESS_TEXT_BYTES, "%u %% of %s%s", (unsigned)((double)done * 100 / (double)progress->all),
		 of, left);
	return text;
}

char *progress_say(const struct progress *progress, const struct ringtail_totals *totals,
		   char text[PROGRESS_SAID_BYTES])
{
	double rate = progress->seconds > 0 ? (double)totals->wire_bytes / progress->seconds : 0;
	char bytes[UNITS_TEXT_BYTES], per_second[UNITS_TEXT_BYTES], share[PROGRESS_TEXT_BYTES];

	progress_format(progress, share);
	snprintf(text, PROGRESS_SAID_BYTES, "%s in %.1f s, %s/s%s%s; %llu events, %llu%s lost",
		 units_format_bytes((double)totals->wire_bytes, bytes), progress->seconds,
		 units_format_bytes(rate, per_second), *share ? "; " : "", share,
		 (unsigned long long)totals->events, (unsigned long long)totals->lost,
		 totals->unknown ? " and an unknown number" : "");
	return text;
}
