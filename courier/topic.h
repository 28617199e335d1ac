/*
 * topic: reads all partitions of one topic. In: brokers. Out: its records, and where its end is. Main thread;
 * librdkafka has threads of its own.
 */
#ifndef RINGTAIL_COURIER_TOPIC_H
#define RINGTAIL_COURIER_TOPIC_H

#include "courier/kafka.h"

struct topic;

enum topic_begin {
	TOPIC_ALL,			/* with the oldest that Kafka has */
	TOPIC_NEW,			/* with what comes from now on */
	TOPIC_TIME,			/* with what Kafka got at that time or later */
};

/* -errno with *error. */
int topic_open(const struct kafka_settings *settings, enum kafka_topic which, enum topic_begin begin,
	       int64_t realtime_ms, struct topic **topic, struct ringtail_error *error);
void topic_close(struct topic *topic);

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
