/*
 * topic: reads the partitions of one topic: all of them, or that of one key. In: brokers. Out: its records, and where
 * its end is. Main thread; librdkafka has threads of its own.
 */
#ifndef RINGTAIL_COURIER_TOPIC_H
#define RINGTAIL_COURIER_TOPIC_H

#include "courier/kafka.h"

struct topic;

enum topic_begin {
	TOPIC_ALL,			/* with the oldest that Kafka has */
	TOPIC_NEW,			/* with records from now on */
	TOPIC_TIME,			/* with what Kafka got at that time or later */
};

struct topic_wanted {
	enum kafka_topic which;
	enum topic_begin begin;
	int64_t realtime_ms;		/* of TOPIC_TIME */
	const char *key;		/* only the partition that the courier puts it into; NULL: all */
	bool to_end;			/* a partition is read no more once it has ended */
};

/* -errno with *error. A partition whose beginning its broker does not tell begins where it is found. */
int topic_open(const struct kafka_settings *settings, const struct topic_wanted *wanted, struct topic **topic,
	       struct ringtail_error *error);
void topic_close(struct topic *topic);

unsigned topic_partitions(const struct topic *topic);

/* Where the courier puts records of that key. */
int32_t topic_partition_of(const struct topic *topic, const char *key);

/* It is read, and has not come to its end. */
bool topic_is_open(const struct topic *topic, int32_t partition);

/*
 * It begins at a time (TOPIC_TIME) of which Kafka may have deleted something: retention has passed all that was before
 * its oldest record. False as well where the brokers do not tell.
 */
bool topic_is_cut(const struct topic *topic, int32_t partition);

/* How long nothing has come of any partition that is open, waiting for it. */
uint64_t topic_waited_ms(const struct topic *topic);

enum topic_next {
	TOPIC_RECORD,
	TOPIC_TIMEOUT,
	TOPIC_END,			/* all that was there has come; more may */
	TOPIC_FAILED,			/* *error says why */
};

/* The next record, borrowed until the next call. timeout_ms 0: what is here already. */
enum topic_next topic_next(struct topic *topic, int timeout_ms, const rd_kafka_message_t **record,
			   struct ringtail_error *error);

#endif
