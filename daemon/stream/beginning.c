/* beginning: where a stream is to begin: at a cursor, where its consumer was, or at a time. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/stream/fanout_private.h"

void beginning_free(struct beginning *begin)
{
	free(begin->since);
	*begin = (struct beginning){0};
}

int fanout_ring_of(const struct fanout *fanout, uint32_t cpu)
{
	for (uint32_t i = 0; i < fanout->rings; i++)
		if (fanout->cpu_of[i] == cpu)
			return (int)i;
	return -1;
}

struct cursor *fanout_cursor(const struct fanout *fanout, const uint64_t *seq)
{
	struct cursor *cursor = cursor_create(fanout->rings);

	if (!cursor)
		return NULL;
	cursor->run = fanout->config.run;
	for (uint32_t i = 0; i < fanout->rings; i++)
		cursor_append(cursor, fanout->cpu_of[i], seq ? seq[i] : 0);
	return cursor;
}

struct cursor_message *fanout_places(const struct fanout *fanout, const uint64_t *seq)
{
	struct cursor *cursor = fanout_cursor(fanout, seq);
	struct cursor_message *places = cursor ? cursor_message_create(cursor) : NULL;

	free(cursor);
	return places;
}

/* Takes the cursor, which may be NULL for want of memory. */
static int set_since(const struct fanout *fanout, struct beginning *begin, struct cursor *since,
		     struct error *error)
{
	if (!since)
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	begin->since = since;
	begin->from = run_equal(&since->run, &fanout->config.run) ? BEGIN_AT_CURSOR : BEGIN_IN_OTHER_RUN;
	return 0;
}

int beginning_of_cursor(const struct fanout *fanout, const struct cursor *cursor,
		    struct beginning *begin, struct error *error)
{
	int err = set_since(fanout, begin, cursor_copy(cursor), error);

	for (uint32_t i = 0; !err && begin->from == BEGIN_AT_CURSOR && i < cursor->n; i++)
		if (fanout_ring_of(fanout, cursor->position[i].cpu) < 0)
			err = error_set(error, EINVAL, "cursor-invalid",
					"the cursor names CPU %u, which has no ring here",
					cursor->position[i].cpu);
	return err;
}

int beginning_of_consumer(const struct fanout *fanout, const struct consumer *consumer,
		      struct beginning *begin, struct error *error)
{
	const struct cursor *acked = consumer->place;
	struct cursor *since;

	if (!acked)
		return 0;
	if (!run_equal(&acked->run, &fanout->config.run))
		return set_since(fanout, begin, cursor_copy(acked), error);
	/*
	 * A CPU that it has not acknowledged anything of is there from its beginning. Where that is, it may
	 * not have been told yet: a watermark says so, or the CPU's first batch.
	 */
	since = fanout_cursor(fanout, NULL);
	for (uint32_t i = 0; since && i < fanout->rings; i++)
		since->position[i].seq = cursor_seq(acked, fanout->cpu_of[i], SINCE_BEGIN);
	return set_since(fanout, begin, since, error);
}

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

enum place_found beginning_find_time(const struct fanout *fanout,
				 const struct subscription *subscription, uint64_t realtime_ns,
				 struct cursor *since)
{
	const struct frame_log *log = subscription->log;
	const struct reach *reach = subscription->reach;
	uint64_t wanted_ns = monotonic_of(realtime_ns), found = find_watermark(log, wanted_ns);

	for (uint32_t i = 0; i < fanout->rings; i++)
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
		return PLACE_BEFORE_RECORDING;
	return found != UINT64_MAX || reach_holds(reach, wanted_ns) ? PLACE_FOUND : PLACE_GIVEN_UP;
}
