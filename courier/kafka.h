/*
 * kafka: which brokers, how they are believed and how we prove who we are; and a handle of librdkafka's
 * that has all of it. In: options. Out: a configuration; topics that have been looked at. Main thread.
 *
 * A secret comes from a file that nobody else may read, and never from an argument, which ps(1) shows.
 */
#ifndef RINGTAIL_COURIER_KAFKA_H
#define RINGTAIL_COURIER_KAFKA_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/lib/ringtail.h"
#include "courier/limits.h"

struct kafka_settings {
	const char *brokers;		/* HOST:PORT,... */
	const char *prefix;		/* of the topics PREFIX.frames and PREFIX.runs */
	bool tls;
	const char *ca;			/* authorities in PEM; NULL: the system's */
	const char *cert, *key;		/* our certificate, and its key */
	const char *sasl;		/* PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; NULL: none */
	const char *user;		/* with SASL: who we are, */
	const char *password_file;	/* and the file whose first line proves it */
};

enum kafka_topic {
	KAFKA_FRAMES,
	KAFKA_RUNS,
	KAFKA_TOPICS,
};

#define KAFKA_TOPIC_BYTES (PREFIX_BYTES_MAX + 8)

void kafka_topic_name(const struct kafka_settings *settings, enum kafka_topic topic,
		      char name[KAFKA_TOPIC_BYTES]);

/* Whether the options make sense together. -EINVAL with *error. */
int kafka_check(const struct kafka_settings *settings, struct ringtail_error *error);

/* What every handle has. The caller adds its own to *conf and owns it. -errno with *error. */
int kafka_configure(const struct kafka_settings *settings, const char *client, rd_kafka_conf_t **conf,
		    struct ringtail_error *error);
int kafka_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct ringtail_error *error);

struct kafka_facts {
	unsigned partitions;
	int32_t broker;			/* one that answers questions about it */
};

/*
 * Reaches the brokers and looks whether the topic is there. -ETIMEDOUT, -ENOENT or
 * -EACCES with *error, which says what to do.
 */
int kafka_find_topic(rd_kafka_t *handle, const struct kafka_settings *settings, enum kafka_topic topic,
		     struct kafka_facts *facts, struct ringtail_error *error);

/*
 * How large a record batch may be in that topic, by its own configuration; 0: the brokers do not tell
 * (they are too old, or we may not ask). -EMSGSIZE with *error: a frame of 1 MiB does not fit.
 */
int kafka_find_size(rd_kafka_t *handle, const struct kafka_settings *settings, enum kafka_topic topic,
		    const struct kafka_facts *facts, size_t *bytes_max, struct ringtail_error *error);

#endif
