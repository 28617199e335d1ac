/*
 * producer: sends the records that wait in windows to Kafka, and reports to the windows which were delivered.
 *
 * Idempotent, acks=all, one request in flight, no compression (frames are zstd). When librdkafka's producer
 * has failed for good (2.0.2 does if a broker freezes: librdkafka #4438), or a record failed otherwise, a new
 * producer begins where the last confirmed record was. In: windows. Out: their parcels' reports, on a
 * descriptor that becomes readable. Main thread; librdkafka has threads of its own.
 */
#ifndef RINGTAIL_COURIER_PRODUCER_H
#define RINGTAIL_COURIER_PRODUCER_H

#include "courier/window.h"

struct producer;

/* Reaches the brokers, and looks at both topics: -errno with *error, which says what to do. */
int producer_create(const struct kafka_settings *settings, struct windows *windows, struct producer **producer,
		    struct ringtail_error *error);
void producer_destroy(struct producer *producer);

/* Readable when there are reports. */
int producer_fd(const struct producer *producer);

/* Takes the reports that there are, renews itself if it must, and sends what waits. */
void producer_run(struct producer *producer);

/* How long until producer_run() has something to do without a report; -1: nothing. */
int producer_wait_ms(const struct producer *producer);

/* Nothing of any window is on its way any more: what was not confirmed waits. */
void producer_call_back(struct producer *producer);

struct producer_stat {
	uint64_t renewed;		/* producers that failed */
	uint64_t errors;		/* that librdkafka reported */
	uint64_t slowest_ns;		/* from sending to the report */
	uint64_t stalled_ns;		/* the longest time without a report while something was on its way */
};
void producer_stat(const struct producer *producer, struct producer_stat *stat);

#endif
