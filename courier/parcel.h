/*
 * parcel: one record for Kafka: a frame, and what its key and headers say of it.
 *
 *	topic	PREFIX.frames			PREFIX.runs (compacted)
 *	key	HOST				HOST, NUL, BOOTID/EPOCH, NUL, CATALOG
 *	value	one frame, as the wire has it	the run's ServerHello, then its Catalog
 *	headers	schema	"ringtail.v1"		the same, but for cpu, first, end
 *		type	"batch"			"run"
 *		run	"BOOTID/EPOCH"
 *		catalog	8 hex digits: CRC-32C of the Catalog frame which decodes it
 *		cpu, first, end			of a batch or a gap, in decimal
 *
 * In: frames; or a record of a topic. Out: records; or what one is. Any thread.
 */
#ifndef RINGTAIL_COURIER_PARCEL_H
#define RINGTAIL_COURIER_PARCEL_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/lib/forward.h"
#include "courier/kafka.h"
#include "proto/cursor.h"

#define PARCEL_SCHEMA "ringtail.v1"

/* What both sides know of a record. */
struct parcel_label {
	struct run run;
	uint32_t catalog;
	unsigned type;			/* a frame's; of a run, FRAME_SERVER_HELLO */
	struct forward_span span;
};

struct window;

struct parcel {
	TAILQ_ENTRY(parcel) link;
	struct window *window;		/* that it is in */
	enum {
		PARCEL_WAITING,		/* for the producer */
		PARCEL_SENT,		/* the producer has it */
		PARCEL_CONFIRMED,	/* so has Kafka */
	} state;
	bool was_sent;			/* once already, by a producer that failed */
	enum kafka_topic topic;
	uint64_t index;			/* of all of its window, in their order */
	uint64_t items;			/* the source's: how many of its items came before */
	uint64_t sent_ns;
	struct parcel_label label;
	size_t bytes;
	uint8_t value[];
};

/* A run's beginning is to be sent, with the next frame of it. `announced_ns`: when it was last; 0: never. */
static inline bool parcel_run_is_due(uint64_t announced_ns, uint64_t now_ns)
{
	return !announced_ns || now_ns - announced_ns >= ANNOUNCE_INTERVAL_MS * UINT64_C(1000000);
}

/* Copies the parts, one after the other. NULL: out of memory. */
struct parcel *parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
			     size_t a_bytes, const void *b, size_t b_bytes);

/*
 * What stands in the place of a batch or gap that Kafka does not take: a Gap of its attempts, of stage
 * export and reason rejected. NULL: out of memory, or it is about no attempts.
 */
struct parcel *parcel_create_gap(const struct parcel *refused);

/* The record's headers, which the caller gives to librdkafka. NULL: out of memory. */
rd_kafka_headers_t *parcel_headers(const struct parcel *parcel);

/* The key's bytes, in `key`. */
#define PARCEL_KEY_BYTES_MAX (HOST_BYTES_MAX + RUN_TEXT_BYTES + 16)
size_t parcel_key(const struct parcel *parcel, const char *host, char key[PARCEL_KEY_BYTES_MAX]);

/* False: that record is none of ours: another schema, or headers that are missing or make no sense. */
bool parcel_read_label(const rd_kafka_headers_t *headers, struct parcel_label *label);

/* Whether readers may show it as it is, on a terminal and in JSON: not empty, visible, and without '"' and '\\'. */
bool parcel_host_is_good(const char *host);

/* Whether one of the globs (0: any name) matches. */
bool parcel_host_matches(const char *host, const char *const *glob, size_t globs);

#endif
