/*
 * kafka_source: what couriers have carried to Kafka, as a recording: ringtail-kafka reads the topics and writes it
 * into a pipe. So tracectl knows nothing of Kafka, and needs none of its libraries. In: "kafka:BROKERS[/PREFIX[/HOST]]".
 * Out: a descriptor to read. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_KAFKA_SOURCE_H
#define RINGTAIL_CLIENT_CLI_KAFKA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/ringtail.h"

struct kafka_source;

/* What is asked of Kafka. */
struct kafka_question {
	const char *address;
	bool follow;			/* read new records until closed; otherwise those that Kafka has */
	uint64_t since_ns;		/* begin at that time of the wall clock; 0: none */
	bool lanes;			/* hosts as lanes (client/lib/lanes.h); else one host, as a recording */
	const char *const *host;	/* globs of their names; none: all, or the only one */
	size_t hosts;
	uint64_t wait_ns;		/* for the first bytes: then it is open all the same; 0: as long as it takes */
};

/* NULL: no. */
bool kafka_source_is(const char *address);

/* Whether it names a host: "kafka:BROKERS/PREFIX/HOST". */
bool kafka_source_names_host(const char *address);

/*
 * Starts the reader and waits for its first bytes. -ENODATA: Kafka has nothing of that host, or of any; -errno with
 * *error, which is empty if the reader has told by itself.
 */
int kafka_source_open(const struct kafka_question *question, struct kafka_source **source, int *fd,
		      struct ringtail_error *error);

/* Ends the reader. False: it has failed. NULL: true. */
bool kafka_source_close(struct kafka_source *source);

#endif
