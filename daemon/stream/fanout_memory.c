/*
 * fanout_memory: all logs together stay within memory-max. First goes history that no connected client
 * still needs, of the log that has most of it; then the oldest frames of the largest log, and whoever
 * has not been sent them is told so in place.
 */
#include "daemon/stream/fanout_private.h"

/* The first entry that a client has not been sent yet. */
static uint64_t needed_from(const struct subscription *subscription)
{
	uint64_t from = frame_log_end(subscription->log);
	const struct stream *stream;

	TAILQ_FOREACH(stream, &subscription->streams, link)
		if (stream_in_log(stream) && stream->next < from)
			from = stream->next;
	return from;
}

static uint64_t log_bytes(const struct subscription *subscription)
{
	return frame_log_bytes_from(subscription->log, frame_log_first(subscription->log));
}

static uint64_t idle_bytes(const struct subscription *subscription)
{
	return log_bytes(subscription) -
	       frame_log_bytes_from(subscription->log, needed_from(subscription));
}

static bool can_give(const struct subscription *subscription)
{
	return frame_log_end(subscription->log) - frame_log_first(subscription->log) > 1;
}

/* The one with the most bytes of that kind, or NULL. */
static struct subscription *largest(struct fanout *fanout,
				    uint64_t (*bytes)(const struct subscription *subscription))
{
	struct subscription *subscription, *found = NULL;
	uint64_t most = 0;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link) {
		uint64_t its = can_give(subscription) ? bytes(subscription) : 0;

		if (its > most) {
			most = its;
			found = subscription;
		}
	}
	return found;
}

static uint64_t all_bytes(const struct fanout *fanout)
{
	const struct subscription *subscription;
	uint64_t bytes = 0;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		bytes += log_bytes(subscription);
	return bytes;
}

void fanout_keep_within(struct fanout *fanout)
{
	fanout->memory_used = all_bytes(fanout);
	while (fanout->config.memory_bytes &&
	       fanout->memory_used > fanout->config.memory_bytes) {
		struct subscription *from = largest(fanout, idle_bytes);
		uint64_t before;

		if (!from)
			from = largest(fanout, log_bytes);
		if (!from)
			return;
		before = log_bytes(from);
		frame_log_evict_oldest(from->log, RINGTAIL__V1__LOSS_REASON__REASON_MEMORY);
		fanout->memory_used -= before - log_bytes(from);
	}
}
