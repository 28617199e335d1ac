/*
 * ledger: checks that the frames of each CPU account for every attempt exactly once.
 *
 * In: the spans [first_seq, end_seq) of batches and gaps, in the order in which they come, and the
 * positions of watermarks, which may go beyond them. Out: the residual, attempts in a hole or in an
 * overlap: each must begin where the last one, or the watermark since, ended. One thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_LEDGER_H
#define RINGTAIL_CLIENT_LIB_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/cursor.h"

struct ledger {
	uint64_t residual;
	uint32_t cpus;				/* one past the highest seen */
	struct ledger_cpu {
		bool known;
		bool begins;			/* nothing has come since ledger_start() */
		uint64_t seq;			/* where the next span must begin */
	} cpu[CURSOR_POSITIONS_MAX];
};

/* Forgets the positions (another run of the rings begins), not the residual. */
void ledger_restart(struct ledger *ledger);

/*
 * The stream begins at `seq`, unless the CPU stands somewhere already: a span must explain that. The
 * first span may begin before it, for a batch is not cut.
 */
int ledger_start(struct ledger *ledger, uint32_t cpu, uint64_t seq);

/* -ERANGE: no such CPU. -EBADMSG: it ends before it begins. */
int ledger_span(struct ledger *ledger, uint32_t cpu, uint64_t first_seq, uint64_t end_seq);

/*
 * The daemon says that all before `seq` was dealt with. Between the last span and there
 * at most `skipped` were recorded for others: batches of nothing but skips are not sent. What is
 * beyond them is missing.
 */
int ledger_watermark(struct ledger *ledger, uint32_t cpu, uint64_t seq, uint64_t skipped);

void ledger_cursor(const struct ledger *ledger, struct cursor *cursor);

#endif
