/*
 * answer: a sink that counts events by what they have in common, and prints tables instead of events.
 *
 *	fields of events -> a key (texts) -> a tally for each key -> rows, most first
 *
 * What was lost stands with the answer: a count is an interval, from what was seen to that and what was lost.
 * One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_ANSWER_H
#define RINGTAIL_CLIENT_CLI_ANSWER_H

#include "client/cli/options.h"
#include "client/cli/sink.h"

#define ANSWER_BY_MAX	8u

enum answer_shape {
	ANSWER_COUNT,		/* how many; with `of`: sum, least, mean, greatest */
	ANSWER_HIST,		/* how the values of `of` are spread */
	ANSWER_SUMMARY,		/* calls, errors, times: as strace -c */
};

enum answer_sort {
	ANSWER_SORT_SHAPE,	/* by the sum of `of`, where the table has one; else by how many */
	ANSWER_SORT_EVENTS,
	ANSWER_SORT_TIME,	/* the sum of `of` */
	ANSWER_SORT_ERRORS,
	ANSWER_SORT_NAME,
};

struct answer_question {
	enum answer_shape shape;
	const char *by;		/* names with commas between; NULL: by none */
	const char *of;		/* a number of the event; NULL: its duration, or none for COUNT */
	uint64_t top;		/* rows; 0: all */
	uint64_t interval_ns;	/* a table each; 0: one at the end */
	bool past;		/* hosts come in any order: intervals are printed when all of them have come */
	bool json;
	const char *from, *to;	/* globs of probes: the time between two events; NULL: of one */
	const struct texts *pid, *comm;	/* of pairs: whose; NULL: of single events */
	const char *on;		/* what both have: NAME or NAME=NAME, with commas between */
	enum answer_sort sort;
	bool from_hello;	/* the first interval begins when the first host said hello; else with the first event */
};

/* What events have to come with for these names: RINGTAIL_STRINGS, ... */
unsigned answer_flags(const char *by);

/* NULL with *error if `by` is no list of names, or when out of memory. Borrows the texts. */
struct sink *answer_create(const struct answer_question *question, struct out *out,
			   struct ringtail_error *error);

/* From the next table on. */
void answer_set_sort(struct sink *sink, enum answer_sort sort);

/* `create` is NULL: answer_create() makes the sink. */
extern const struct sink_ops answer_ops;

#endif
