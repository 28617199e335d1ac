/*
 * fanout_restart: from one run of the daemon to the next, on the same rings. What clients want is kept
 * for the next run (saved_subscriptions); the next run records it from the first attempt that the run
 * before has not read, before anybody has come back for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/fanout_private.h"
#include "daemon/base/log.h"
#include "daemon/stream/saved_subscriptions.h"

static int restore_one(void *context, const struct subscription_request *request)
{
	struct fanout *fanout = context;
	struct subscription *subscription;
	struct error error;
	int err = fanout_get_subscription(fanout, request, FANOUT_OWN, &subscription, &error);

	if (err == -ENOMEM)
		return err;
	if (err)
		log_failure(LOG_LEVEL_WARNING, &error);
	else
		subscription->restored = true;
	return 0;
}

int fanout_restore(struct fanout *fanout, struct error *error)
{
	int err;

	fanout->restoring = true;
	err = saved_subscriptions_restore(fanout->config.saved, restore_one, fanout, error);
	if (err == -ENOMEM)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (err)
		log_failure(LOG_LEVEL_WARNING, error);
	return 0;
}

static int adopt(struct fanout *fanout, struct subscription *subscription)
{
	int err = 0;

	for (unsigned i = 0; i < fanout->config.workers && !err; i++)
		err = worker_adopt_subscription(fanout->config.worker[i], subscription->index,
						&subscription->spec);
	if (err)
		return err;
	for (uint32_t ring = 0; ring < fanout->rings; ring++)
		for (unsigned i = 0; i < fanout->config.workers; i++) {
			struct worker_baseline baseline;

			if (worker_baseline(fanout->config.worker[i], ring, &baseline) == 0)
				fanout_begin_ring(fanout, subscription, ring, baseline.seq);
		}
	fanout_live(fanout, subscription);
	return 0;
}

int fanout_adopt(struct fanout *fanout, struct error *error)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->restored && adopt(fanout, subscription) != 0)
			return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	/* The kernel still records what the run before wanted: now it learns what this one wants. */
	fanout->restoring = false;
	fanout_configure(fanout);
	return 0;
}

/* Not to know what clients wanted costs them what happens before they are back, and no more. */
void fanout_save(struct fanout *fanout)
{
	struct subscription_request request[SUBSCRIPTIONS_MAX];
	struct subscription *subscription;
	unsigned n = 0;
	int err;

	if (!fanout->config.saved || fanout->stopping)
		return;
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->state == SUBSCRIPTION_LIVE)
			request[n++] = subscription_request_of(subscription);
	err = saved_subscriptions_save(fanout->config.saved, request, n);
	if (err)
		log_warn("subscriptions-not-saved",
			 "what clients want cannot be kept for a restart: %s", strerror(-err));
}

void fanout_hand_over(struct fanout *fanout, const char *reason, void (*done)(void *context),
		      void *context)
{
	fanout->handing_over = true;
	fanout_stop(fanout, reason, done, context);
	fanout->drains_pending = fanout->config.workers;
	for (unsigned i = 0; i < fanout->config.workers; i++)
		if (worker_leave(fanout->config.worker[i]) != 0)
			fanout_drained(fanout);		/* what it holds is the next run's */
}
