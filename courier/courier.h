/*
 * courier: carries a daemon's frames to Kafka, as a durable consumer of it: what Kafka has not confirmed is not
 * acknowledged, so the daemon's spool keeps it. In: a daemon's stream. Out: records of PREFIX.frames and
 * PREFIX.runs; acknowledgements. Main thread, one loop.
 */
#ifndef RINGTAIL_COURIER_COURIER_H
#define RINGTAIL_COURIER_COURIER_H

#include <stdio.h>

#include "courier/kafka.h"

struct courier_settings {
	const char *address;		/* of the daemon; NULL: the default */
	const char *relay;		/* of a relay, instead of a daemon: the path of its socket; NULL: none */
	const char *consumer;		/* under which name the daemon keeps what is not confirmed */
	const char *const *probe;
	size_t probes;
	const char *filter;
	unsigned flags;			/* RINGTAIL_KSTACK, ... */
	const char *host;		/* what records have as their key; NULL: the daemon's host name */
	size_t window_bytes;
	bool json;			/* the ledger */
	struct kafka_settings kafka;
};

struct courier;

/*
 * Looks at the brokers and their topics, connects to the daemon and subscribes, in this order: a Kafka that
 * cannot be used leaves nothing with the daemon. -errno with *error.
 */
int courier_create(const struct courier_settings *settings, struct courier **courier,
		   struct ringtail_error *error);

/*
 * Until SIGTERM, SIGINT or the stream's end: 0. -errno with *error. SIGUSR1 prints the ledger to `ledger`, and
 * so does the end. These signals are blocked by the caller, before any thread is made.
 */
int courier_run(struct courier *courier, FILE *ledger, struct ringtail_error *error);
void courier_destroy(struct courier *courier);

#endif
