/*
 * loop: an event loop in which everybody gets a turn.
 *
 * libevent calls what a callback makes active before it looks at any descriptor or timer again. So a callback that
 * makes its own event active, as one does while its connection has more to read, would keep all others away for as long
 * as its peer likes. Here the loop looks again after so many callbacks, and calls them in the order in which they came.
 */
#ifndef RINGTAIL_DAEMON_BASE_LOOP_H
#define RINGTAIL_DAEMON_BASE_LOOP_H

#include <event2/event.h>

/* For one thread. Its timers are as exact as the clock. NULL: out of memory. */
struct event_base *loop_create(void);

#endif
