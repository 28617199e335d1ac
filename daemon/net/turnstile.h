/*
 * turnstile: how much of the main loop's time goes to connections that have not been let in. In: those
 * that wait; out: their turns. Main thread.
 *
 *	a client that was let in	the loop serves it whenever its socket is ready
 *	a stranger			waits in line. A turn serves the line from its front for STRANGERS_TURN_NS;
 *					then the loop has at least as long for everybody else
 *
 * So strangers get half of the loop's time at most, and a client that was let in waits for one turn at
 * most, however many strangers there are. A turn always ends one piece of work: a handshake that takes
 * longer than STRANGERS_TURN_NS is a turn of its own.
 */
#ifndef RINGTAIL_DAEMON_NET_TURNSTILE_H
#define RINGTAIL_DAEMON_NET_TURNSTILE_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>

struct turnstile;

/* A place in the line, inside what waits. */
struct turnstile_place {
	TAILQ_ENTRY(turnstile_place) link;
	bool waits;
	void (*go)(void *context);	/* its turn has come; it may join again, and may free itself */
	void *context;
};

/* NULL: out of memory. */
struct turnstile *turnstile_create(struct event_base *base);

/* The line is empty by now. NULL is safe. */
void turnstile_destroy(struct turnstile *turnstile);

/* Takes the last place of the line, unless it stands there already. Without a turnstile it goes at once. */
void turnstile_join(struct turnstile *turnstile, struct turnstile_place *place);

/* Does nothing where it does not wait. */
void turnstile_leave(struct turnstile *turnstile, struct turnstile_place *place);

#endif
