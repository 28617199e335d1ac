#include "daemon/stream/beginning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/catch_up.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/past.h"
#include "daemon/stream/stream.h"

/* ---- At a cursor ----------------------------------------------------------------------------- */

void beginning_free(struct beginning *begin)
{
	free(begin->since);
	*begin = (struct beginning){0};
}

/* Takes the cursor, which may be NULL for want of memory. */
static int set_since(const struct rings *rings, struct beginning *begin, struct cursor *since,
		     struct error *error)
{
	if (!since)
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	begin->since = since;
	begin->from = run_equal(&since->run, &rings->run) ? BEGIN_AT_CURSOR : BEGIN_IN_OTHER_RUN;
	return 0;
}

int beginning_of_cursor(const struct rings *rings, const struct cursor *cursor,
			struct beginning *begin, struct error *error)
{
	int err = set_since(rings, begin, cursor_copy(cursor), error);

	for (uint32_t i = 0; !err && begin->from == BEGIN_AT_CURSOR && i < cursor->n; i++)
		if (rings_find(rings, cursor->position[i].cpu) < 0)
			err = error_set(error, EINVAL, "cursor-invalid",
					"the cursor names CPU %u, which has no ring here",
					cursor->position[i].cpu);
	return err;
}

int beginning_of_consumer(const struct rings *rings, const struct consumer *consumer,
			  struct beginning *begin, struct error *error)
{
	const struct cursor *acked = consumer->place;
	struct cursor *since;

	if (!acked)
		return 0;
	if (!run_equal(&acked->run, &rings->run))
		return set_since(rings, begin, cursor_copy(acked), error);
	/*
	 * A CPU that it has not acknowledged anything of is there from its beginning. Where that is, it may
	 * not have been told yet: a watermark says so, or the CPU's first batch.
	 */
	since = rings_cursor(rings, NULL);
	for (uint32_t i = 0; since && i < rings->n; i++)
		since->position[i].seq = cursor_seq(acked, rings->cpu_of[i], SINCE_BEGIN);
	return set_since(rings, begin, since, error);
}

/* ---- At a time ------------------------------------------------------------------------------- */

/* How much of what was recorded since a time is in a log. */
enum found {
	FOUND_WHOLE,
	FOUND_IN_PART,		/* it has given some of it up */
	FOUND_NO_RECORD,	/* the time is before recording began; and it may have given some up */
};

/* The wall clock as it is now says what time of the events' clock that was. */
static uint64_t monotonic_of(uint64_t realtime_ns)
{
	uint64_t now = clock_read(CLOCK_REALTIME), monotonic = clock_monotonic();
	uint64_t age = realtime_ns < now ? now - realtime_ns : 0;

	return age < monotonic ? monotonic - age : 0;
}

/*
 * The newest watermark in the log that was made before that time; UINT64_MAX: there is none. Its own time
 * is somewhat earlier, and events between the two may be in batches before it.
 */
static uint64_t find_watermark(const struct frame_log *log, uint64_t wanted_ns)
{
	uint64_t found = UINT64_MAX;

	for (uint64_t serial = frame_log_first(log); serial < frame_log_end(log); serial++) {
		const struct frame_ref *frame = frame_log_get(log, serial);

		if (frame->type == FRAME_WATERMARK && frame->made_ns <= wanted_ns)
			found = serial;
	}
	return found;
}

/* `since`, of every ring in order: as near before that time as is known. */
static enum found find_time(const struct stream_maker *maker,
			    const struct subscription *subscription, uint64_t realtime_ns,
			    struct cursor *since)
{
	const struct frame_log *log = subscription->log;
	const struct reach *reach = subscription->reach;
	uint64_t wanted_ns = monotonic_of(realtime_ns), found = find_watermark(log, wanted_ns);

	for (uint32_t i = 0; i < maker->rings->n; i++)
		since->position[i].seq = found != UINT64_MAX || reach_holds(reach, wanted_ns) ?
						 subscription->floor[i] :
						 reach_seq(reach, wanted_ns, i);
	for (uint64_t serial = frame_log_first(log); found != UINT64_MAX && serial < found;
	     serial++) {
		const struct frame_ref *frame = frame_log_get(log, serial);

		if (frame->type == FRAME_BATCH || frame->type == FRAME_GAP)
			since->position[frame->ring].seq = frame->end_seq;
	}
	if (wanted_ns < reach_recorded_ns(reach))
		return FOUND_NO_RECORD;
	return found != UINT64_MAX || reach_holds(reach, wanted_ns) ? FOUND_WHOLE : FOUND_IN_PART;
}

/*
 * ---- Donors: whose record of the past answers who asks for it with another request: a subscription that
 * recorded what this one wants, with more perhaps, before this one was there.
 */

enum reach_rank {
	REACHES_NOT,		/* no further than who asks */
	REACHES_FURTHER,
	REACHES_ALL,		/* or will say itself what it does not have */
};

/* Behind the parenthesis that closes the one it begins with; NULL: it begins with none. */
static const char *skip_group(const char *text)
{
	unsigned depth = 0;
	bool quoted = false;

	if (*text != '(')
		return NULL;
	for (; *text; text++) {
		if (quoted && *text == '\\' && text[1])
			text++;
		else if (*text == '"')
			quoted = !quoted;
		else if (!quoted && *text == '(')
			depth++;
		else if (!quoted && *text == ')' && --depth == 0)
			return text + 1;
	}
	return NULL;
}

/* Whatever passes `text` passes `other`: the same, or "(...) && (other)", as what is always on is narrowed. */
static bool implies(const char *text, const char *other)
{
	size_t bytes = strlen(other);
	const char *rest;

	if (!*other || strcmp(text, other) == 0)
		return true;
	rest = skip_group(text);
	return rest && strncmp(rest, " && (", 5) == 0 && strncmp(rest + 5, other, bytes) == 0 &&
	       strcmp(rest + 5 + bytes, ")") == 0;
}

static bool shares_probe(const struct probe_set *a, const struct probe_set *b)
{
	for (size_t i = 0; i < sizeof(a->bits); i++)
		if (a->bits[i] & b->bits[i])
			return true;
	return false;
}

static bool covers_probes(const struct probe_set *set, const struct probe_set *subset)
{
	for (size_t i = 0; i < sizeof(set->bits); i++)
		if (subset->bits[i] & ~set->bits[i])
			return false;
	return true;
}

static bool covers(const struct subscription *donor, const struct subscription *wanted)
{
	return covers_probes(&donor->spec.probes, &wanted->spec.probes) &&
	       !(wanted->spec.flags & ~donor->spec.flags) &&
	       implies(wanted->filter_text, donor->filter_text);
}

static enum reach_rank rank(const struct stream_maker *maker, const struct subscription *donor,
			    const struct subscription *wanted, uint64_t realtime_ns,
			    struct cursor *since)
{
	enum found found = find_time(maker, donor, realtime_ns, since);

	if (found == FOUND_WHOLE || donor->spool.spool)
		return REACHES_ALL;
	return reach_recorded_ns(donor->reach) < reach_recorded_ns(wanted->reach) ?
		       REACHES_FURTHER : REACHES_NOT;
}

static bool lacks_strings(const struct subscription *donor, const struct subscription *wanted)
{
	return filter_asks_strings(wanted->spec.filter) &&
	       !(donor->spec.flags & RT_FLAG_STRINGS || donor->spec.file_strings);
}

/*
 * Whose record has of that time what this subscription asks for, as much as any has: *whole, all of it. NULL:
 * none has any of it that this one has not.
 */
static struct subscription *find_donor(const struct stream_maker *maker,
				       const struct subscription *wanted, uint64_t realtime_ns,
				       bool *whole)
{
	struct cursor *since = rings_cursor(maker->rings, NULL);
	struct subscription *donor, *best = NULL;
	unsigned best_rank = 0;

	if (!since || wanted->spool.spool ||
	    find_time(maker, wanted, realtime_ns, since) == FOUND_WHOLE) {
		free(since);
		return NULL;
	}
	TAILQ_FOREACH(donor, &maker->subscriptions->list, link) {
		unsigned ranked;

		/* Of a record without context, a filter that asks for it could only say no; without
		 * strings, only that it does not know. What was counted is no record of events. */
		if (donor == wanted || donor->state != SUBSCRIPTION_LIVE || donor->spec.question ||
		    (wanted->spec.context && !donor->spec.context) || lacks_strings(donor, wanted) ||
		    !shares_probe(&donor->spec.probes, &wanted->spec.probes))
			continue;
		ranked = rank(maker, donor, wanted, realtime_ns, since);
		if (ranked != REACHES_NOT && covers(donor, wanted))
			ranked += REACHES_ALL;
		if (ranked > best_rank) {
			best = donor;
			best_rank = ranked;
		}
	}
	*whole = best_rank > REACHES_ALL;
	free(since);
	return best;
}

/* ---- Streams --------------------------------------------------------------------------------- */

static struct stream *create(const struct stream_maker *maker, struct subscription *subscription,
			     const struct cursor *since, enum loss_reason reason)
{
	return stream_create(subscription, maker->subscriptions->config.codec, maker->rings->cpu_of,
			     maker->queue_bytes, since, reason);
}

static bool is_in_log(const struct stream_maker *maker, const struct subscription *subscription,
		      const struct cursor *since)
{
	for (uint32_t i = 0; i < subscription->rings; i++) {
		uint64_t seq = cursor_seq(since, maker->rings->cpu_of[i], UINT64_MAX);

		if (seq < subscription->floor[i] || seq == SINCE_BEGIN)
			return false;
	}
	return true;
}

/* Where nothing is on disk, the record begins when the subscription did; or did in a run of before. */
static void settle_begin(const struct stream_maker *maker, const struct subscription *subscription,
			 struct cursor *since)
{
	for (uint32_t i = 0; i < since->n; i++) {
		struct position *at = &since->position[i];

		if (at->seq == SINCE_BEGIN)
			at->seq = subscription->origin == SUBSCRIPTION_RESTORED ? 0 :
				  reach_seq(subscription->reach, 0,
					    (uint32_t)rings_find(maker->rings, at->cpu));
	}
}

static struct stream *create_from_disk(const struct stream_maker *maker,
				       struct subscription *subscription,
				       const struct spool_place *start)
{
	struct stream *stream = create(maker, subscription, NULL, LOSS_REASON_UNKNOWN);

	if (!stream)
		return NULL;
	stream->resumed = true;
	if (catch_up_begin(stream, start) == 0)
		return stream;
	stream_destroy(stream);
	return NULL;
}

static struct stream *create_at_cursor(const struct stream_maker *maker,
				       struct subscription *subscription,
				       const struct beginning *begin)
{
	if (subscription->spool.spool && !is_in_log(maker, subscription, begin->since))
		return create_from_disk(maker, subscription,
					&(struct spool_place){.cursor = begin->since});
	settle_begin(maker, subscription, begin->since);
	/* A log that has given nothing up begins where it began to be recorded, or where the run
	 * before was killed: what that one had read and not sent is gone. */
	return create(maker, subscription, begin->since,
		      frame_log_first(subscription->log) == 0 && subscription->origin == SUBSCRIPTION_RESTORED ?
		      LOSS_REASON_RESTART :
		      frame_log_first(subscription->log) == 0 ?
		      LOSS_REASON_NOT_RECORDED : LOSS_REASON_HISTORY_GONE);
}

static struct stream *create_of_record(const struct stream_maker *maker,
				       struct subscription *subscription,
				       const struct beginning *begin)
{
	struct cursor *since = rings_cursor(maker->rings, NULL);
	enum found found;
	struct stream *stream;

	if (!since)
		return NULL;
	found = find_time(maker, subscription, begin->realtime_ns, since);
	if (found == FOUND_WHOLE || !subscription->spool.spool)
		stream = create(maker, subscription, since, LOSS_REASON_HISTORY_GONE);
	else
		stream = create_from_disk(maker, subscription, &(struct spool_place){
						  .realtime_ns = begin->realtime_ns});
	if (stream && found == FOUND_NO_RECORD && !subscription->spool.spool)
		stream_miss(stream, subscription->origin == SUBSCRIPTION_RESTORED ?
				    LOSS_REASON_RESTART : LOSS_REASON_NOT_RECORDED);
	free(since);
	return stream;
}

/* NULL: out of memory. */
static struct stream *create_from_donor(const struct stream_maker *maker,
					struct subscription *subscription,
					struct subscription *donor, bool whole,
					const struct beginning *begin)
{
	struct stream *from = create_of_record(maker, donor, begin);
	struct stream *stream = from ? create(maker, subscription, NULL, LOSS_REASON_UNKNOWN) : NULL;

	if (stream && past_begin(maker->turns, stream, from, whole,
				 maker->subscriptions->config.catalog) == 0)
		return stream;
	stream_destroy(stream);
	stream_destroy(from);
	return NULL;
}

/* What it did not record then, another one may have. */
static struct stream *create_at_time(const struct stream_maker *maker,
				     struct subscription *subscription,
				     const struct beginning *begin)
{
	struct subscription *donor;
	struct stream *stream;
	bool whole;

	donor = find_donor(maker, subscription, begin->realtime_ns, &whole);
	if (!donor)
		return create_of_record(maker, subscription, begin);
	stream = create_from_donor(maker, subscription, donor, whole, begin);
	if (stream && !whole)
		stream_miss(stream, LOSS_REASON_NOT_RECORDED);
	/* Its reader is none that comes back, but may be all that has kept it. */
	if (stream)
		donor->linger_until_ns = clock_monotonic() + maker->subscriptions->config.history_age_ns;
	return stream;
}

struct stream *beginning_make_stream(const struct stream_maker *maker,
				     struct subscription *subscription,
				     const struct beginning *begin)
{
	switch (begin->from) {
	case BEGIN_NOW:
		break;
	case BEGIN_AT_CURSOR:
		return create_at_cursor(maker, subscription, begin);
	case BEGIN_IN_OTHER_RUN:
		if (subscription->spool.spool)
			return create_from_disk(maker, subscription, &(struct spool_place){
							.cursor = begin->since});
		/* How much that was, nobody knows: the stream begins now, with a gap of no size. */
		return create(maker, subscription, NULL, LOSS_REASON_OTHER_EPOCH);
	case BEGIN_AT_TIME:
		return create_at_time(maker, subscription, begin);
	}
	return create(maker, subscription, NULL, LOSS_REASON_UNKNOWN);
}
