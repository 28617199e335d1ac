/*
 * sim_event: as much of libevent as the daemon's loops use, on the made-up clock and descriptors.
 * Of what is due on a base at once, the seed says which comes first.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "tests/sim/sim.h"

struct event {
	TAILQ_ENTRY(event) link;	/* among its base's, while it is added or active */
	struct event_base *base;
	evutil_socket_t fd;
	short events;
	bool added, active;
	short result;			/* of `active` */
	uint64_t interval_ns, deadline_ns;
	event_callback_fn callback;
	void *context;
};

struct event_base {
	TAILQ_HEAD(, event) events;
	bool broken;
};

/* Bases look the same whatever they were asked to be like. */
struct event_config {
	int flags;
};

static uint64_t to_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * SIM_S + (uint64_t)time->tv_usec * SIM_US;
}

/* ---- Bases ----------------------------------------------------------------------------------- */

struct event_config *event_config_new(void)
{
	return calloc(1, sizeof(struct event_config));
}

void event_config_free(struct event_config *config)
{
	free(config);
}

int event_config_set_flag(struct event_config *config, int flag)
{
	config->flags |= flag;
	return 0;
}

/* One callback at a time is called here, and time is looked at between any two. */
int event_config_set_max_dispatch_interval(struct event_config *config, const struct timeval *interval,
					   int callbacks, int priority)
{
	(void)config, (void)interval, (void)callbacks, (void)priority;
	return 0;
}

struct event_base *event_base_new_with_config(const struct event_config *config)
{
	struct event_base *base = calloc(1, sizeof(*base));

	(void)config;
	if (base)
		TAILQ_INIT(&base->events);
	return base;
}

struct event_base *event_base_new(void)
{
	return event_base_new_with_config(NULL);
}

void event_base_free(struct event_base *base)
{
	if (!TAILQ_EMPTY(&base->events))
		sim_fail("a loop is freed with events on it");
	free(base);
}

int event_base_loopbreak(struct event_base *base)
{
	base->broken = true;
	return 0;
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct event *event_new(struct event_base *base, evutil_socket_t fd, short events,
			event_callback_fn callback, void *context)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->base = base;
	event->fd = fd;
	event->events = events;
	event->callback = callback;
	event->context = context;
	event->deadline_ns = UINT64_MAX;
	return event;
}

static void list(struct event *event)
{
	if (!event->added && !event->active)
		TAILQ_INSERT_TAIL(&event->base->events, event, link);
}

static void unlist(struct event *event)
{
	if (!event->added && !event->active)
		TAILQ_REMOVE(&event->base->events, event, link);
}

int event_add(struct event *event, const struct timeval *timeout)
{
	list(event);
	event->added = true;
	if (timeout) {
		event->interval_ns = to_ns(timeout);
		event->deadline_ns = sim.now_ns + event->interval_ns;
	}
	return 0;
}

int event_del(struct event *event)
{
	if (!event->added && !event->active)
		return 0;
	event->added = event->active = false;
	event->deadline_ns = UINT64_MAX;
	unlist(event);
	return 0;
}

void event_free(struct event *event)
{
	event_del(event);
	free(event);
}

void event_active(struct event *event, int result, short calls)
{
	(void)calls;
	list(event);
	event->active = true;
	event->result = (short)result;
}

int event_pending(const struct event *event, short events, struct timeval *timeout)
{
	int pending = event->added ? event->events & (EV_READ | EV_WRITE) : 0;

	if (event->deadline_ns != UINT64_MAX)
		pending |= EV_TIMEOUT;
	if (event->active)
		pending |= event->result;
	if (timeout && event->deadline_ns != UINT64_MAX)
		*timeout = (struct timeval){
			.tv_sec = (time_t)(event->deadline_ns / SIM_S),
			.tv_usec = (suseconds_t)(event->deadline_ns % SIM_S / SIM_US)};
	return pending & events;
}

/* ---- Loops ----------------------------------------------------------------------------------- */

static short due(const struct event *event)
{
	short what = event->active ? event->result : 0;

	if (!event->added)
		return what;
	if (event->deadline_ns <= sim.now_ns)
		what |= EV_TIMEOUT;
	if (event->fd >= 0 && event->events & EV_READ && sim_fd_readable(event->fd))
		what |= EV_READ;
	if (event->fd >= 0 && event->events & EV_WRITE && sim_fd_writable(event->fd))
		what |= EV_WRITE;
	return what;
}

bool sim_base_ready(const struct event_base *base)
{
	const struct event *event;

	if (base->broken)
		return true;
	TAILQ_FOREACH(event, &base->events, link)
		if (due(event))
			return true;
	return false;
}

uint64_t sim_base_deadline(const struct event_base *base)
{
	const struct event *event;
	uint64_t deadline = UINT64_MAX;

	TAILQ_FOREACH(event, &base->events, link)
		if (event->added && event->deadline_ns < deadline)
			deadline = event->deadline_ns;
	return deadline;
}

static struct event *choose(const struct event_base *base)
{
	struct event *event, *chosen = NULL;
	unsigned n = 0;

	TAILQ_FOREACH(event, &base->events, link)
		if (due(event) && sim_below(++n) == 0)
			chosen = event;
	return chosen;
}

static void call(struct event *event)
{
	short what = due(event);

	if (!(event->events & EV_PERSIST)) {
		event_del(event);
	} else {
		event->active = false;
		unlist(event);
		if (event->deadline_ns != UINT64_MAX)
			event->deadline_ns = sim.now_ns + event->interval_ns;
	}
	event->callback(event->fd, what, event->context);
}

int event_base_dispatch(struct event_base *base)
{
	while (!base->broken) {
		struct event *event = choose(base);

		if (!event) {
			sim_task_wait(base);
			continue;
		}
		call(event);
		if (!base->broken)
			sim_task_yield();
	}
	base->broken = false;
	return 0;
}
