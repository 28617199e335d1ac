#include "daemon/host/watchdog.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"

#define TELL_PART 4	/* of the manager's patience, between two times of telling */

struct watchdog {
	struct watchdog_config config;
	struct event *tick;
	uint64_t patience_ns;		/* with a worker that does not beat */
	struct watchdog_worker {
		uint64_t beats, changed_ns;
		bool stuck;
	} worker[WORKERS_MAX];
};

static void look_at(struct watchdog *watchdog, unsigned i, uint64_t now_ns)
{
	struct watchdog_worker *worker = &watchdog->worker[i];
	uint64_t beats = watchdog->config.beats(watchdog->config.context, i);

	if (beats != worker->beats) {
		worker->beats = beats;
		worker->changed_ns = now_ns;
		if (worker->stuck)
			log_info("worker-moves", "drain worker %u moves on", i);
		worker->stuck = false;
	} else if (!worker->stuck && now_ns - worker->changed_ns > watchdog->patience_ns) {
		worker->stuck = true;
		log_error("worker-stuck",
			  "drain worker %u has been stuck for %.1f s: the daemon no longer reports to"
			  " the watchdog, so that the service manager restarts it",
			  i, (double)(now_ns - worker->changed_ns) / 1e9);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct watchdog *watchdog = context;
	uint64_t now_ns = clock_monotonic();
	bool stuck = false;

	(void)fd, (void)what;
	for (unsigned i = 0; i < watchdog->config.workers; i++) {
		look_at(watchdog, i, now_ns);
		stuck |= watchdog->worker[i].stuck;
	}
	if (!stuck)
		watchdog->config.tell(watchdog->config.context);
}

int watchdog_create(const struct watchdog_config *config, struct watchdog **out,
		    struct error *error)
{
	struct watchdog *watchdog;
	struct timeval interval;
	uint64_t usec = 0;

	*out = NULL;
	if (sd_watchdog_enabled(0, &usec) <= 0 || !usec)
		return 0;
	watchdog = calloc(1, sizeof(*watchdog));
	if (watchdog) {
		watchdog->config = *config;
		watchdog->patience_ns = usec * 1000 / 2;
		if (watchdog->patience_ns < WORKER_PATIENCE_NS_MIN)
			watchdog->patience_ns = WORKER_PATIENCE_NS_MIN;
		for (unsigned i = 0; i < config->workers; i++)
			watchdog->worker[i].changed_ns = clock_monotonic();
		watchdog->tick = event_new(config->base, -1, EV_PERSIST, on_tick, watchdog);
	}
	interval = (struct timeval){.tv_sec = (time_t)(usec / TELL_PART / 1000000),
				    .tv_usec = (suseconds_t)(usec / TELL_PART % 1000000)};
	if (!watchdog || !watchdog->tick || event_add(watchdog->tick, &interval) != 0) {
		watchdog_destroy(watchdog);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	*out = watchdog;
	return 0;
}

void watchdog_release_workers(struct watchdog *watchdog)
{
	if (watchdog)
		watchdog->config.workers = 0;
}

void watchdog_destroy(struct watchdog *watchdog)
{
	if (!watchdog)
		return;
	if (watchdog->tick)
		event_free(watchdog->tick);
	free(watchdog);
}
