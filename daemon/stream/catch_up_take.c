/*
 * catch_up_take: what the spool answers, as the stream's next frames. See catch_up.h.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/catch_up_private.h"
#include "proto/limits.h"
#include "proto/message.h"

#define QUEUE_FIRST 64u

/* ---- The queue ------------------------------------------------------------------------------- */

static uint32_t queued(const struct catch_up *catch_up)
{
	return catch_up->end - catch_up->first;
}

static bool grow(struct catch_up *catch_up)
{
	uint32_t capacity = catch_up->capacity ? 2 * catch_up->capacity : QUEUE_FIRST;
	struct frame_ref **queue = malloc(capacity * sizeof(struct frame_ref *));

	if (!queue)
		return false;
	for (uint32_t i = catch_up->first; i != catch_up->end; i++)
		queue[i & (capacity - 1)] = catch_up->queue[i & (catch_up->capacity - 1)];
	free(catch_up->queue);
	catch_up->queue = queue;
	catch_up->capacity = capacity;
	return true;
}

/* So many more can be pushed. */
static bool reserve(struct catch_up *catch_up, uint32_t frames)
{
	while (catch_up->capacity - queued(catch_up) < frames)
		if (!grow(catch_up))
			return false;
	return true;
}

/* Takes the frame over. False: there is no memory, and it is gone. */
static bool push(struct catch_up *catch_up, struct frame_ref *frame)
{
	if (frame && reserve(catch_up, 1)) {
		catch_up->queue[catch_up->end++ & (catch_up->capacity - 1)] = frame;
		return true;
	}
	frame_ref_put(frame);
	return false;
}

struct frame_ref *catch_up_get(const struct catch_up *catch_up, uint32_t i)
{
	return i < queued(catch_up) ?
	       catch_up->queue[(catch_up->first + i) & (catch_up->capacity - 1)] : NULL;
}

void catch_up_pass(struct catch_up *catch_up)
{
	frame_ref_put(catch_up->queue[catch_up->first++ & (catch_up->capacity - 1)]);
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

int catch_up_ring(const struct catch_up *catch_up, uint32_t cpu)
{
	for (uint32_t i = 0; i < catch_up_rings(catch_up); i++)
		if (catch_up->stream->cpu_of[i] == cpu)
			return (int)i;
	return -1;
}

/* As a frame: attempts that will not come, or (no bytes) that were not asked for. */
static struct frame_ref *make_gap(const struct catch_up *catch_up, uint32_t ring, uint64_t first,
				  uint64_t end, Ringtail__V1__LossReason reason)
{
	const struct stream *stream = catch_up->stream;
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	struct frame_ref *frame;

	gap.cpu = stream->cpu_of[ring];
	gap.first_seq = first;
	gap.end_seq = end;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL;
	gap.reason = reason;
	frame = frame_ref_pack(stream->codec, FRAME_GAP, &gap.base);
	if (!frame)
		return NULL;
	frame->cpu = gap.cpu;
	frame->ring = catch_up->foreign ? UINT32_MAX : ring;
	frame->first_seq = first;
	frame->end_seq = end;
	frame->losses = 1;
	frame->loss[0] = (struct loss_count){(uint8_t)gap.stage, (uint8_t)gap.reason, end - first};
	return frame;
}

bool catch_up_push_gap(struct catch_up *catch_up, uint32_t ring, uint64_t end)
{
	const struct spool *spool = catch_up->stream->subscription->spool.spool;
	struct catch_up_ring *place = &catch_up->ring[ring];
	Ringtail__V1__LossReason reason = place->starved ?
						  RINGTAIL__V1__LOSS_REASON__REASON_MEMORY :
						  catch_up->foreign ?
						  RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL :
						  spool_gap_reason(spool, ring, end);

	if (!push(catch_up, make_gap(catch_up, ring, place->seq, end, reason)))
		return false;
	place->seq = end;
	place->starved = false;
	return true;
}

bool catch_up_push_missed(struct catch_up *catch_up, uint32_t ring)
{
	uint64_t seq = catch_up->ring[ring].seq;

	if (catch_up->missed &&
	    !push(catch_up, make_gap(catch_up, ring, seq, seq, catch_up->missed)))
		return false;
	catch_up->missed = RINGTAIL__V1__LOSS_REASON__REASON_UNKNOWN;
	return true;
}

static bool push_quiet(struct catch_up *catch_up, uint32_t ring, uint64_t end)
{
	struct catch_up_ring *place = &catch_up->ring[ring];
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 0);

	if (frame) {
		frame->ring = catch_up->foreign ? UINT32_MAX : ring;
		frame->cpu = catch_up->stream->cpu_of[ring];
		frame->first_seq = place->seq;
		frame->end_seq = end;
		frame->skipped = end - place->seq;
	}
	if (!push(catch_up, frame))
		return false;
	place->seq = end;
	return true;
}

/* What comes first of a ring tells where it begins: there, or in the middle of what that holds. */
static void begin_ring(struct catch_up *catch_up, uint32_t i, uint64_t first_seq)
{
	struct stream_ring *ring = &catch_up->stream->ring[i];
	struct catch_up_ring *place = &catch_up->ring[i];

	if (!catch_up->foreign && ring->unknown) {
		ring->start = ring->seen = ring->told = first_seq;
		ring->unknown = false;
	} else if (!catch_up->foreign && place->known && first_seq < place->seq) {
		ring->start -= place->seq - first_seq;
		ring->seen = ring->told = first_seq;
	}
	if (!place->known)
		place->seq = first_seq;
	place->known = true;
}

/* False: as catch_up_take(). */
static bool take_range(struct catch_up *catch_up, struct frame_ref *frame)
{
	uint64_t first_seq = frame->first_seq, end_seq = frame->end_seq;
	int i = catch_up_ring(catch_up, frame->cpu);
	struct catch_up_ring *place = i < 0 ? NULL : &catch_up->ring[i];

	/*
	 * A loss of which nobody knows the size: it is told where the next frame begins. Behind a run
	 * that is the next run, so that the Gap stands between the two on every CPU, be it one that this
	 * run has not.
	 */
	if (end_seq == first_seq && (catch_up->foreign || (place && !place->known))) {
		catch_up->missed = (Ringtail__V1__LossReason)frame->loss[0].reason;
		frame_ref_put(frame);
		return true;
	}
	/* Such a loss elsewhere; or of a CPU that has gone since. */
	if (!place || end_seq == first_seq)
		return reserve(catch_up, 1) && push(catch_up, frame);
	if (place->known && end_seq <= place->seq) {
		frame_ref_put(frame);
		return true;
	}
	begin_ring(catch_up, (uint32_t)i, first_seq);
	if (!catch_up_push_missed(catch_up, (uint32_t)i))
		return false;
	if (first_seq > place->seq && !catch_up_push_gap(catch_up, (uint32_t)i, first_seq)) {
		frame_ref_put(frame);
		place->starved = true;
		return true;
	}
	place->starved = !push(catch_up, frame);
	place->seq = place->starved ? first_seq : end_seq;
	return true;
}

/* ---- What else there is ---------------------------------------------------------------------- */

static void *allocate(void *no_memory, size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		*(bool *)no_memory = true;
	return memory;
}

static void release(void *no_memory, void *memory)
{
	(void)no_memory;
	free(memory);
}

/* NULL: that is no such message; or, if *no_memory, it may be one. */
static void *unpack(const struct catch_up *catch_up, const struct frame_ref *frame,
		    const ProtobufCMessageDescriptor *descriptor, bool *no_memory)
{
	ProtobufCAllocator allocator = {allocate, release, no_memory};
	struct frame_header header;
	void *message = NULL;
	const uint8_t *body;
	uint8_t *raw;

	*no_memory = false;
	if (frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header) != FRAME_OK)
		return NULL;
	raw = allocate(no_memory, header.raw_bytes + 1);
	if (raw && frame_open(catch_up->stream->codec, frame->data, &header, raw, &body) == FRAME_OK)
		message = message_unpack(descriptor, &allocator, body, header.raw_bytes);
	free(raw);
	return message;
}

/* What it says was skipped, and no frame told of, was dealt with; what is beyond is missing. */
static bool take_position(struct catch_up *catch_up, const Ringtail__V1__Position *position)
{
	int ring = catch_up_ring(catch_up, position->cpu);
	struct catch_up_ring *place = ring < 0 ? NULL : &catch_up->ring[ring];

	/* Of a ring that has nothing on the disk, what is before it is not to come out of the log. */
	if (place && !place->known && !catch_up->foreign)
		begin_ring(catch_up, (uint32_t)ring, position->seq);
	if (!place || !place->known || position->seq <= place->seq)
		return true;
	if (position->seq - place->seq > position->skipped &&
	    !catch_up_push_gap(catch_up, (uint32_t)ring, position->seq - position->skipped))
		place->starved = true;
	else if (!push_quiet(catch_up, (uint32_t)ring, position->seq))
		place->starved = true;
	return !place->starved;
}

/* Where memory was short it is left out: it speaks of places that were not reached. */
static void take_watermark(struct catch_up *catch_up, struct frame_ref *frame)
{
	bool no_memory;
	Ringtail__V1__Watermark *watermark =
		unpack(catch_up, frame, &ringtail__v1__watermark__descriptor, &no_memory);
	bool whole = watermark && catch_up_push_missed(catch_up, 0);

	for (size_t i = 0; watermark && i < watermark->n_position; i++)
		whole &= take_position(catch_up, watermark->position[i]);
	if (whole) {
		frame->time_ns = watermark->time_ns;
		push(catch_up, frame);
	} else {
		frame_ref_put(frame);
	}
	if (watermark)
		protobuf_c_message_free_unpacked(&watermark->base, NULL);
}

static struct frame_ref *pack_subscribed(const struct catch_up *catch_up, const struct run *run)
{
	Ringtail__V1__Subscribed message = RINGTAIL__V1__SUBSCRIBED__INIT;
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;

	/* Without positions: the first frame of each CPU says where that begins. */
	cursor.boot_id.data = (uint8_t *)run->boot_id;
	cursor.boot_id.len = sizeof(run->boot_id);
	cursor.epoch = run->epoch;
	message.start = &cursor;
	message.resumed = true;
	return frame_ref_pack(catch_up->stream->codec, FRAME_SUBSCRIBED, &message.base);
}

/* Another run begins. If the cursor was of that one, its numbers go on from there. */
static bool begin_run(struct catch_up *catch_up, struct frame_ref *frame,
		      const struct run *run)
{
	struct frame_ref *subscribed = pack_subscribed(catch_up, run);
	const struct cursor *cursor = catch_up->cursor;

	if (!subscribed || !reserve(catch_up, 3)) {
		frame_ref_put(subscribed);
		return false;
	}
	if (cursor && !run_equal(&cursor->run, run))
		cursor = NULL;
	for (uint32_t i = 0; i < catch_up_rings(catch_up); i++) {
		const struct position *at =
			cursor ? cursor_find(cursor, catch_up->stream->cpu_of[i]) : NULL;

		catch_up->ring[i] = (struct catch_up_ring){.seq = at ? at->seq : 0, .known = at};
	}
	catch_up->foreign = true;
	catch_up->nameless = false;
	frame->run = *run;
	push(catch_up, frame);
	push(catch_up, subscribed);
	catch_up_push_missed(catch_up, 0);
	return true;
}

/* False: as catch_up_take(). */
static bool take_hello(struct catch_up *catch_up, struct frame_ref *frame)
{
	bool no_memory, taken = true;
	struct run run = {0};
	Ringtail__V1__ServerHello *hello =
		unpack(catch_up, frame, &ringtail__v1__server_hello__descriptor, &no_memory);

	if (hello)
		run = run_of_message(hello->boot_id, hello->epoch);
	if (run_is_named(&run)) {
		taken = begin_run(catch_up, frame, &run);
	} else if (no_memory) {
		taken = false;
	} else {
		/* A run that nobody can name: what it has is lost. */
		catch_up->foreign = catch_up->nameless = true;
		catch_up->missed = RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT;
		memset(catch_up->ring, 0, catch_up_rings(catch_up) * sizeof(catch_up->ring[0]));
		frame_ref_put(frame);
	}
	if (hello)
		protobuf_c_message_free_unpacked(&hello->base, NULL);
	return taken;
}

bool catch_up_come_home(struct catch_up *catch_up)
{
	const struct subscription_spool *home = &catch_up->stream->subscription->spool;
	struct frame_ref *subscribed = pack_subscribed(catch_up, &home->run);

	if (!subscribed || !reserve(catch_up, 4)) {
		frame_ref_put(subscribed);
		return false;
	}
	catch_up->foreign = catch_up->nameless = false;
	memset(catch_up->ring, 0, catch_up_rings(catch_up) * sizeof(catch_up->ring[0]));
	push(catch_up, frame_ref_get(home->hello));
	push(catch_up, frame_ref_get(home->catalog));
	push(catch_up, subscribed);
	catch_up_push_missed(catch_up, 0);
	return true;
}

bool catch_up_take(struct catch_up *catch_up, struct frame_ref *frame)
{
	bool is_range = frame_ref_is_range(frame);
	bool comes_home = (is_range || frame->type == FRAME_WATERMARK) &&
			  frame->ring != UINT32_MAX;

	if (catch_up->foreign && comes_home && !catch_up_come_home(catch_up))
		return false;
	if (frame->type == FRAME_SERVER_HELLO)
		return take_hello(catch_up, frame);
	if (catch_up->nameless)
		frame_ref_put(frame);
	else if (is_range)
		return take_range(catch_up, frame);
	else if (frame->type == FRAME_WATERMARK)
		take_watermark(catch_up, frame);
	else if (frame->type == FRAME_CATALOG)
		return reserve(catch_up, 1) && push(catch_up, frame);
	else
		frame_ref_put(frame);		/* its Subscribed: ours says where the stream begins */
	return true;
}

void catch_up_take_answer(struct catch_up *catch_up)
{
	while (catch_up->answered && catch_up_take(catch_up, *catch_up->answer)) {
		catch_up->answer++;
		catch_up->answered--;
	}
}

void catch_up_on_frames(void *context, struct frame_ref *const *frame, unsigned n, bool end)
{
	struct catch_up *catch_up = context;
	const struct subscription_spool *spool = &catch_up->stream->subscription->spool;

	catch_up->asked = false;
	catch_up->at_end = end;
	catch_up->answer = frame;
	catch_up->answered = n;
	catch_up_take_answer(catch_up);
	spool->read(spool->context);
}
