/*
 * saved_subscriptions: what clients want, for the next run of the daemon, so that it goes on with it
 * before they have come back: text in a memfd in the service manager's store. It lives as long as the
 * rings do that it is about, and goes with them.
 *
 * In: the requests of all subscriptions, whenever that set changes. Out: the same, at the next start.
 * Main thread; never waits.
 */
#ifndef RINGTAIL_DAEMON_STREAM_SAVED_SUBSCRIPTIONS_H
#define RINGTAIL_DAEMON_STREAM_SAVED_SUBSCRIPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "query/error.h"
#include "daemon/stream/subscription.h"

struct activation;
struct saved_subscriptions;
struct service_manager;

/*
 * Takes what the run before has left out of `activation`. Both are borrowed; without a manager
 * nothing is kept. NULL: out of memory.
 */
struct saved_subscriptions *saved_subscriptions_create(struct service_manager *manager,
						       struct activation *activation);
void saved_subscriptions_destroy(struct saved_subscriptions *saved);

/*
 * Calls `each` for every request of the run before; what they point to is borrowed for the call. Its
 * first failure ends it and is returned. -EBADMSG: what was left makes no sense.
 */
typedef int saved_subscription(void *context, const struct subscription_request *request);
int saved_subscriptions_restore(struct saved_subscriptions *saved, saved_subscription *each,
				void *context, struct error *error);

/* Replaces what the next run will find. Nothing happens where that is the same. 0 or -errno. */
int saved_subscriptions_save(struct saved_subscriptions *saved,
			     const struct subscription_request *request, size_t requests);

/* ---- The text: for the above, tests and a fuzzer ------------------------------------------------ */

/* *text is for free(). -ENOMEM. */
int saved_subscriptions_print(const struct subscription_request *request, size_t requests,
			      char **text, size_t *bytes);
int saved_subscriptions_parse(const char *text, size_t bytes, saved_subscription *each,
			      void *context, struct error *error);

#endif
