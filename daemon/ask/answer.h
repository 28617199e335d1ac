/*
 * answer: what has been counted for one question: the busiest keys each by itself, and all the others together.
 *
 *	key ─► row, shown   ─► counts of its own, a series in the metrics
 *	       row, hidden  ─► the others' counts; ranked by what came lately
 *	       no room      ─► the others' counts
 *
 * A counter must never go back. So a row that is shown begins at 0, and what it has counted joins the others when a
 * busier one takes its place: all series of a question together are all its events. Which are shown is decided anew by
 * ask_answer_turn(), before they are told. No memory is allocated but at its creation. One thread.
 */
#ifndef RINGTAIL_DAEMON_ASK_ANSWER_H
#define RINGTAIL_DAEMON_ASK_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/ask/key.h"
#include "daemon/collect/meter_bucket.h"

struct ask_counts {
	uint64_t events, errors;
	uint64_t values;			/* events that had the value that is added up */
	double sum;
	uint64_t bucket[METER_BUCKETS];		/* of values */
};

struct ask_row {
	struct ask_key key;
	uint64_t hash;
	double weight;				/* events, of which each turn halves those before */
	bool shown;
	struct ask_counts counts;		/* shown */
};

struct ask_answer;

/* top: keys that are shown by themselves. NULL: out of memory. */
struct ask_answer *ask_answer_create(unsigned top);
void ask_answer_destroy(struct ask_answer *answer);

/* One event. value: NULL: it has none. */
void ask_answer_add(struct ask_answer *answer, const struct ask_key *key, const uint64_t *value, bool failed);

/* Many of one key, of which nobody asks a value, or whether they failed. */
void ask_answer_add_all(struct ask_answer *answer, const struct ask_key *key, uint64_t events);

/* Decides which keys are shown. */
void ask_answer_turn(struct ask_answer *answer);

/* The shown ones, from *at (0: the first) on; NULL: there are no more. */
const struct ask_row *ask_answer_next(const struct ask_answer *answer, unsigned *at);
const struct ask_counts *ask_answer_others(const struct ask_answer *answer);

#endif
