/*
 * numbers: how far one host's records have been read, by run and CPU: what is new, what has come before (a
 * courier that was killed sends again), and what is missing. In: spans, watermarks. Out: what to do with each.
 * One thread.
 */
#ifndef RINGTAIL_COURIER_NUMBERS_H
#define RINGTAIL_COURIER_NUMBERS_H

#include "client/lib/forward.h"
#include "courier/limits.h"
#include "proto/cursor.h"
#include "proto/limits.h"

/* One run of the rings. */
struct numbers_run {
	struct run run;
	uint64_t used;			/* when it was looked for last */
	uint64_t watermark_ns;
	struct numbers_cpu {
		bool known;
		uint64_t next;		/* attempts before it have been read, or are told as missing */
		uint64_t sizeless;	/* 1 + where the last gap of no size was; 0: there was none */
	} cpu[CURSOR_POSITIONS_MAX];
};

struct numbers {
	struct numbers_run *run[RUNS_KEPT_MAX];
	uint64_t clock;
};

enum numbers_verdict {
	NUMBERS_NEW,
	NUMBERS_DUPLICATE,		/* all of it has come before */
	NUMBERS_OVERLAP,		/* some of it has */
	NUMBERS_HOLE,			/* *hole is missing before it */
};

/* A run that has not been seen takes the place of the one that was seen longest ago. NULL: out of memory. */
struct numbers_run *numbers_find(struct numbers *numbers, const struct run *run);
void numbers_fini(struct numbers *numbers);

/* A batch or a gap: it has been read from then on. */
enum numbers_verdict numbers_span(struct numbers_run *run, const struct forward_span *span,
				  struct forward_span *hole);

/* The beginning of a subscription: what a CPU's numbers begin with, unless they are further. */
enum numbers_verdict numbers_start(struct numbers_run *run, const Ringtail__V1__Position *start,
				   struct forward_span *hole);

/* The same of one place of a watermark: of what is before it, `skipped` were not asked for. */
enum numbers_verdict numbers_watermark(struct numbers_run *run, const Ringtail__V1__Position *position,
				       struct forward_span *hole);

#endif
