/*
 * rate_line: the live line at the bottom of a terminal: events/s, losses, bytes/s, ledger.
 */
#ifndef RINGTAIL_CLIENT_CLI_RATE_LINE_H
#define RINGTAIL_CLIENT_CLI_RATE_LINE_H

#include <stdbool.h>
#include <stdio.h>

#include "client/cli/progress.h"
#include "client/lib/ringtail.h"

struct rate_line {
	FILE *to;			/* NULL: there is no terminal to draw on */
	uint64_t drawn_ns;		/* when */
	uint64_t events, wire_bytes;	/* and what the totals were */
	bool shown;
	char lead[PROGRESS_TEXT_BYTES];	/* what the next line begins with; empty: with the rates */
	char text[160 + PROGRESS_TEXT_BYTES];	/* what was drawn; empty: there is no rate yet */
};

/* Draws on `to` if it is a terminal. */
void rate_line_init(struct rate_line *line, FILE *to);

/* Whether RATE_LINE_INTERVAL_MS have passed, so that an update would draw something new. */
bool rate_line_due(const struct rate_line *line, uint64_t now_ns);

/*
 * Draws it anew if it is due, and as it was if it had been taken away. The cursor must be at the
 * beginning of a line. Returns the ms until the next is due; -1: never.
 */
int rate_line_update(struct rate_line *line, const struct ringtail_totals *totals,
		     uint64_t now_ns);

/* Takes the line away, before anything else is written there. */
void rate_line_clear(struct rate_line *line);

/* The text alone: "1.23M events/s  4.5 MiB/s  0 lost  ledger balanced". */
void rate_line_format(char *text, size_t bytes, double events_rate, double wire_rate,
		      const struct ringtail_totals *totals);

#endif
