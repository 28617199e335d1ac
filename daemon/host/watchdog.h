/*
 * watchdog: reports to the service manager that the daemon is alive. The main loop is, because it reports; each drain
 * worker is, because it beats at least once a second. When a worker no longer beats, nothing is reported, and the
 * manager ends this process and starts another.
 *
 * In: $WATCHDOG_USEC; out: WATCHDOG=1. Main thread.
 */
#ifndef RINGTAIL_DAEMON_HOST_WATCHDOG_H
#define RINGTAIL_DAEMON_HOST_WATCHDOG_H

#include <event2/event.h>
#include <stdint.h>

#include "query/error.h"

struct watchdog;

struct watchdog_config {
	struct event_base *base;
	unsigned workers;
	/* How often that worker has beaten; it must go on counting. */
	uint64_t (*beats)(void *context, unsigned worker);
	/* Tells the manager. */
	void (*tell)(void *context);
	void *context;
};

/* *watchdog is NULL if no service manager supervises the daemon. */
int watchdog_create(const struct watchdog_config *config, struct watchdog **watchdog,
		    struct error *error);

/* From now on the main loop alone counts: the workers have ended, or are about to. NULL is safe. */
void watchdog_release_workers(struct watchdog *watchdog);

void watchdog_destroy(struct watchdog *watchdog);

#endif
