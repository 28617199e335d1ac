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

/* NULL: no. */
bool kafka_source_is(const char *address);

/*
 * Starts the reader and waits for its first bytes. follow: what comes from now on, until it is closed; else what
 * Kafka has. since_ns: begin at that time of the wall clock; 0: none. -ENODATA: Kafka has nothing of that host;
 * -errno with *error, which is empty if the reader has told by itself.
 */
int kafka_source_open(const char *address, bool follow, uint64_t since_ns, struct kafka_source **source, int *fd,
		      struct ringtail_error *error);

/* Ends the reader. False: it has failed. NULL: true. */
bool kafka_source_close(struct kafka_source *source);

#endif
