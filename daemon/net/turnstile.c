#include "daemon/net/turnstile.h"

#include <stdint.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"

struct turnstile {
	struct event_base *base;
	struct event *turn;
	uint64_t rest_end_ns;		/* until then the loop is everybody else's */
	TAILQ_HEAD(, turnstile_place) line;
};

/* Never at once: between two turns the loop looks at all other sockets and timers. */
static void arm(struct turnstile *turnstile, uint64_t now_ns)
{
	uint64_t ns = turnstile->rest_end_ns > now_ns ? turnstile->rest_end_ns - now_ns : 0;
	struct timeval rest = {.tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	/* The loop would count from when it last woke, and the turn is part of that time. */
	event_base_update_cache_time(turnstile->base);
	event_add(turnstile->turn, &rest);
}

static void on_turn(evutil_socket_t fd, short what, void *context)
{
	struct turnstile *turnstile = context;
	uint64_t began_ns = clock_monotonic(), now_ns = began_ns;
	struct turnstile_place *place;

	(void)fd, (void)what;
	for (unsigned i = 0; i < STRANGERS_TURN_MAX && now_ns - began_ns < STRANGERS_TURN_NS &&
			     (place = TAILQ_FIRST(&turnstile->line)); i++) {
		turnstile_leave(turnstile, place);
		place->go(place->context);
		now_ns = clock_monotonic();
	}
	turnstile->rest_end_ns = now_ns + (now_ns - began_ns);
	if (!TAILQ_EMPTY(&turnstile->line))
		arm(turnstile, now_ns);
}

struct turnstile *turnstile_create(struct event_base *base)
{
	struct turnstile *turnstile = calloc(1, sizeof(*turnstile));

	if (!turnstile)
		return NULL;
	turnstile->base = base;
	TAILQ_INIT(&turnstile->line);
	turnstile->turn = evtimer_new(base, on_turn, turnstile);
	if (turnstile->turn)
		return turnstile;
	free(turnstile);
	return NULL;
}

void turnstile_destroy(struct turnstile *turnstile)
{
	if (!turnstile)
		return;
	event_free(turnstile->turn);
	free(turnstile);
}

void turnstile_join(struct turnstile *turnstile, struct turnstile_place *place)
{
	if (!turnstile) {
		place->go(place->context);
		return;
	}
	if (place->waits)
		return;
	place->waits = true;
	TAILQ_INSERT_TAIL(&turnstile->line, place, link);
	if (!event_pending(turnstile->turn, EV_TIMEOUT, NULL))
		arm(turnstile, clock_monotonic());
}

void turnstile_leave(struct turnstile *turnstile, struct turnstile_place *place)
{
	if (!place->waits)
		return;
	place->waits = false;
	TAILQ_REMOVE(&turnstile->line, place, link);
}
