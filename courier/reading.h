/*
 * reading: the records of PREFIX.frames of one host, or of several, each host's into a recording of its own (recording.h).
 * In: brokers, what PREFIX.runs says. Out: a stream. Main thread.
 */
#ifndef RINGTAIL_COURIER_READING_H
#define RINGTAIL_COURIER_READING_H

#include <signal.h>
#include <stdio.h>

#include "courier/kafka.h"
#include "courier/runs.h"

struct reading_wanted {
	const char *only;		/* one host: its stream is a recording; NULL: all that these match, as lanes: */
	const char *const *host;	/* globs; */
	size_t hosts;			/* 0: all */
	bool follow;			/* read new records until stopped; otherwise up to the end */
	uint64_t since_ms;		/* from what Kafka got at that time on; 0: none */
	uint64_t patience_ms;		/* with a partition of which nothing comes, before its end */
};

struct reading;

/* All borrowed. NULL: out of memory. */
struct reading *reading_create(const struct kafka_settings *settings, const struct reading_wanted *wanted,
			       struct runs *runs, FILE *to);
void reading_destroy(struct reading *reading);

/* Reads to the end, or until *stop. -errno with *error; -EPIPE: nobody takes it any more. */
int reading_run(struct reading *reading, const volatile sig_atomic_t *stop, struct ringtail_error *error);

/* Something is missing that a record, or a partition, should have had: it was said. */
bool reading_is_lossy(const struct reading *reading);

/* Of each host a line; of several, also the sums. */
void reading_print_ledger(const struct reading *reading, FILE *to, bool json);

#endif
