/*
 * export_sender: one destination: frames or metrics in, requests out, one at a time, until its back
 * end has accepted or refused what is in them.
 *
 *	frame ─ decode ─ order ─ choose ─ queue ─ request ─ post ─ answer ─ judge
 *	                                            ^──── later ─────────────┘
 *
 * The queue is bounded: beyond it the oldest goes, counted, unless the spool has what is behind (then
 * whoever gives frames waits, see feed.h). A request is sent again, later each time, until it is
 * answered; a back end that refuses whoever sends has it kept as one that is away. One that refuses
 * what is in it is sent its halves, until what it refuses is alone. The export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_SENDER_H
#define RINGTAIL_DAEMON_EXPORT_SENDER_H

#include <event2/event.h>

#include "daemon/export/http.h"
#include "daemon/export/kind.h"
#include "proto/frame.h"

enum export_state {
	EXPORT_OK,
	EXPORT_RETRYING,	/* the back end is away, or busy */
	EXPORT_HELD,		/* it refuses us: credentials, URL, certificate */
	EXPORT_REJECTING,	/* it refused the last request, or part of it */
};

/* What became of what it was given; events, or points of metrics. */
struct export_counts {
	uint64_t taken;		/* out of frames, or snapshots */
	uint64_t accepted, filtered;
	uint64_t rejected, expired, memory;	/* lost */
	uint64_t queued;	/* the rest: taken, and nothing of the above */
	uint64_t queued_bytes;
	uint64_t requests, retries, bytes;
	uint64_t decoded_frame;	/* serial of the newest frame taken apart, */
	uint64_t settled_frame;	/* and of that up to which there is nothing left to send */
	enum export_state state;
	uint64_t accepted_realtime_ns;	/* when something was last accepted; 0: never */
	uint64_t error_realtime_ns;	/* when there was an error last; 0: never */
	char error[160];		/* that one */
};

struct export_sender_config {
	struct event_base *base;
	struct export_http *http;
	const struct export_host *host;
	const struct export_kind *kind;
	const char *name;		/* for the log: "loki:http://..." */
	const char *url;
	const char *const *headers;
	unsigned headers_count;
	uint64_t queue_bytes_max;
	uint64_t timeout_ns;
	uint64_t events_per_s;		/* 0: no bound */
	bool spooled;
	void (*changed)(void *context);	/* counts are not what they were */
	void *context;
};

struct export_sender;

/* NULL: out of memory. */
struct export_sender *export_sender_create(const struct export_sender_config *config);
void export_sender_destroy(struct export_sender *sender);

/* A frame, borrowed for the call, that has so many events; serials grow by one from 1. */
void export_sender_frame(struct export_sender *sender, uint64_t serial, const uint8_t *frame,
			 size_t bytes, uint64_t events);

/* Borrowed for the call. */
void export_sender_metrics(struct export_sender *sender, const struct metric_snapshot *snapshot);

/* No more will come: sends what there is without waiting for more to go with it. */
void export_sender_flush(struct export_sender *sender);

const struct export_counts *export_sender_counts(struct export_sender *sender);

/*
 * How long to wait before a request is sent again. tries: how often it was sent; from 1. What the back end asked for is kept to, within
 * EXPORT_RETRY_AFTER_NS_MAX; else twice as long each time, between half of it and all, so that
 * many daemons do not come back at once.
 */
uint64_t export_retry_ns(unsigned tries, uint64_t asked_ns);

#endif
