/* fanout_place: where a stream is to begin: cursors, acknowledged places and times, by ring. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/stream/fanout_private.h"
#include "proto/message.h"

static int no_memory(struct error *error)
{
	return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
}

void place_free(struct place *place)
{
	free(place->since);
	if (place->cursor)
		protobuf_c_message_free_unpacked(&place->cursor->base, NULL);
	*place = (struct place){0};
}

int fanout_ring_of(const struct fanout *fanout, uint32_t cpu)
{
	for (uint32_t i = 0; i < fanout->rings; i++)
		if (fanout->cpu_of[i] == cpu)
			return (int)i;
	return -1;
}

static Ringtail__V1__Cursor *copy_cursor(const Ringtail__V1__Cursor *cursor)
{
	size_t bytes = ringtail__v1__cursor__get_packed_size(cursor);
	uint8_t *packed = malloc(bytes + 1);
	Ringtail__V1__Cursor *copy;

	if (!packed)
		return NULL;
	ringtail__v1__cursor__pack(cursor, packed);
	copy = message_unpack(&ringtail__v1__cursor__descriptor, NULL, packed, bytes);
	free(packed);
	return copy;
}

bool fanout_is_this_run(const struct fanout *fanout, const uint8_t *boot_id, size_t bytes,
			uint64_t epoch)
{
	const struct fanout_epoch *mine = &fanout->config.epoch;

	return epoch == mine->epoch && bytes == sizeof(mine->boot_id) &&
	       memcmp(boot_id, mine->boot_id, bytes) == 0;
}

/* Of CPUs that a place does not name, it asks for nothing that was. */
static int make_since(const struct fanout *fanout, struct place *place, struct error *error)
{
	place->since = calloc(fanout->rings + 1, sizeof(*place->since));
	if (!place->since)
		return no_memory(error);
	for (uint32_t i = 0; i < fanout->rings; i++)
		place->since[i] = UINT64_MAX;
	place->from = PLACE_CURSOR;
	return 0;
}

int place_of_cursor(const struct fanout *fanout, const Ringtail__V1__Cursor *cursor,
		    struct place *place, struct error *error)
{
	int err;

	if (cursor->n_position > CURSOR_POSITIONS_MAX)
		return error_set(error, EINVAL, "cursor-invalid",
				 "the cursor has %zu positions, and at most %u make sense",
				 cursor->n_position, CURSOR_POSITIONS_MAX);
	if (!fanout_is_this_run(fanout, cursor->boot_id.data, cursor->boot_id.len, cursor->epoch)) {
		place->cursor = copy_cursor(cursor);
		place->from = PLACE_OTHER;
		return place->cursor ? 0 : no_memory(error);
	}
	err = make_since(fanout, place, error);
	for (size_t i = 0; i < cursor->n_position && !err; i++) {
		int ring = fanout_ring_of(fanout, cursor->position[i]->cpu);

		if (ring < 0)
			return error_set(error, EINVAL, "cursor-invalid",
					 "the cursor names CPU %u, which has no ring here",
					 cursor->position[i]->cpu);
		place->since[ring] = cursor->position[i]->seq;
	}
	return err;
}

static int place_of_other_run(const struct consumer_place *from, struct place *place,
			      struct error *error)
{
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Position *position = calloc(from->positions + 1, sizeof(*position));
	Ringtail__V1__Position **list = calloc(from->positions + 1, sizeof(*list));

	if (position && list) {
		cursor.boot_id.data = (uint8_t *)from->boot_id;
		cursor.boot_id.len = sizeof(from->boot_id);
		cursor.epoch = from->epoch;
		cursor.position = list;
		cursor.n_position = from->positions;
		for (uint32_t i = 0; i < from->positions; i++) {
			ringtail__v1__position__init(&position[i]);
			position[i].cpu = from->position[i].cpu;
			position[i].seq = from->position[i].seq;
			list[i] = &position[i];
		}
		place->cursor = copy_cursor(&cursor);
		place->from = PLACE_OTHER;
	}
	free(position);
	free(list);
	return place->cursor ? 0 : no_memory(error);
}

int place_of_consumer(const struct fanout *fanout, const struct consumer *consumer,
		      struct place *place, struct error *error)
{
	const struct consumer_place *from = &consumer->place;
	int err;

	if (!from->known)
		return 0;
	if (!fanout_is_this_run(fanout, from->boot_id, sizeof(from->boot_id), from->epoch))
		return place_of_other_run(from, place, error);
	err = make_since(fanout, place, error);
	/*
	 * A CPU that it has not acknowledged anything of is there from its beginning. Where that is, it may
	 * not have been told yet: a watermark says so, or the CPU's first batch.
	 */
	for (uint32_t i = 0; i < fanout->rings && !err; i++)
		place->since[i] = SINCE_BEGIN;
	for (uint32_t i = 0; i < from->positions && !err; i++) {
		int ring = fanout_ring_of(fanout, from->position[i].cpu);

		if (ring >= 0)
			place->since[ring] = from->position[i].seq;
	}
	return err;
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

enum place_found place_find_time(const struct fanout *fanout,
				 const struct subscription *subscription, uint64_t realtime_ns,
				 uint64_t *since)
{
	const struct frame_log *log = subscription->log;
	const struct reach *reach = subscription->reach;
	uint64_t wanted_ns = monotonic_of(realtime_ns), found = find_watermark(log, wanted_ns);

	for (uint32_t i = 0; i < fanout->rings; i++)
		since[i] = found != UINT64_MAX || reach_holds(reach, wanted_ns) ?
				   subscription->floor[i] : reach_seq(reach, wanted_ns, i);
	for (uint64_t serial = frame_log_first(log); found != UINT64_MAX && serial < found;
	     serial++) {
		const struct frame_ref *frame = frame_log_get(log, serial);

		if (frame->type == FRAME_BATCH || frame->type == FRAME_GAP)
			since[frame->ring] = frame->end_seq;
	}
	if (wanted_ns < reach_recorded_ns(reach))
		return PLACE_BEFORE_RECORDING;
	return found != UINT64_MAX || reach_holds(reach, wanted_ns) ? PLACE_FOUND : PLACE_GIVEN_UP;
}
