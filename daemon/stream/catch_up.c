#include "daemon/stream/catch_up.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/spool/frame.h"
#include "daemon/stream/frame_log.h"
#include "proto/limits.h"
#include "proto/message.h"

#define QUEUE_FIRST 64u

/*	HAS_MORE --ask()--> ASKED --an answer--> HAS_MORE, or AT_END --poked--> ASKED */
enum disk_state {
	DISK_HAS_MORE,
	DISK_ASKED,		/* an answer is on its way */
	DISK_AT_END,		/* the last one had all that there was */
};

/*	EARLIER and NAMELESS, one run after the other, then OURS */
enum run_state {
	RUN_OURS,
	RUN_EARLIER,		/* another run of the rings */
	RUN_NAMELESS,		/* whose hello nobody can read: what it has is lost */
};

/* How far the frames that came have got on one ring; of a run at a time. */
struct catch_up_ring {
	uint64_t seq;
	uint64_t told;			/* and the client knows of it up to here */
	bool known;
};

struct catch_up {
	struct stream *stream;
	struct spool_reader *reader;
	struct frame_ref **queue;	/* first .. end - 1, modulo capacity */
	uint32_t first, end, capacity;	/* a power of two */

	enum disk_state disk;
	struct frame_ref *const *answer;	/* the last one, the reader's: what is still to be taken, */
	unsigned answered;		/* for there was no memory; our references */
	uint64_t stored;		/* so much was on disk when it was asked last */
	enum run_state run;		/* of what comes */
	uint32_t missed;		/* bits of reasons: of each, what is missing here, of no known size */
	uint8_t boot_id[16];		/* of what came last */

	uint64_t watermark_ns;		/* the latest that the client was told, by this boot's clock; 0: none */
	uint64_t taken;			/* of the log's entries before, all is that had not come; */
	bool torn;			/* and there was no memory for the one that is there */
	struct cursor *cursor;		/* of another run: its numbers count if that comes; or NULL */
	struct catch_up_ring ring[];
};

static uint32_t rings_of(const struct catch_up *catch_up)
{
	return catch_up->stream->subscription->rings;
}

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

static int ring_of(const struct catch_up *catch_up, uint32_t cpu)
{
	for (uint32_t i = 0; i < rings_of(catch_up); i++)
		if (catch_up->stream->cpu_of[i] == cpu)
			return (int)i;
	return -1;
}

/* Attempts that will not come. */
static struct frame_ref *make_gap(const struct catch_up *catch_up, uint32_t ring, uint64_t first,
				  uint64_t end, enum loss_reason reason)
{
	const struct stream *stream = catch_up->stream;
	struct frame_ref *frame =
		spool_frame_gap(stream->codec, stream->cpu_of[ring], first, end, 0, reason);

	if (frame)
		frame->ring = catch_up->run != RUN_OURS ? RING_EARLIER : ring;
	return frame;
}

/*
 * What the client does not know of was skipped, and no watermark has come that says so: the disk lost it, or the
 * log has it. One goes before what comes next of the ring.
 */
static bool push_skipped(struct catch_up *catch_up, uint32_t ring)
{
	struct catch_up_ring *place = &catch_up->ring[ring];
	Ringtail__V1__Position position = RINGTAIL__V1__POSITION__INIT, *list = &position;
	struct frame_ref *frame;

	if (!place->known || place->told == place->seq)
		return true;
	position.cpu = catch_up->stream->cpu_of[ring];
	position.seq = place->seq;
	position.skipped = place->seq - place->told;
	frame = spool_frame_watermark(catch_up->stream->codec, catch_up->watermark_ns, &list, 1);
	if (frame)
		frame->ring = catch_up->run != RUN_OURS ? RING_EARLIER : 0;
	if (!push(catch_up, frame))
		return false;
	place->told = place->seq;
	return true;
}

static bool push_gap(struct catch_up *catch_up, uint32_t ring, uint64_t end)
{
	const struct spool *spool = catch_up->stream->subscription->spool.spool;
	struct catch_up_ring *place = &catch_up->ring[ring];
	enum loss_reason reason = catch_up->run != RUN_OURS ? LOSS_REASON_SPOOL_FULL :
								       spool_gap_reason(spool, ring, end);

	if (!push_skipped(catch_up, ring) ||
	    !push(catch_up, make_gap(catch_up, ring, place->seq, end, reason)))
		return false;
	place->seq = place->told = end;
	return true;
}

static bool push_missed(struct catch_up *catch_up, uint32_t ring)
{
	uint64_t seq = catch_up->ring[ring].seq;

	for (enum loss_reason reason = 0; catch_up->missed; reason++) {
		if (!(catch_up->missed & 1u << reason))
			continue;
		if (!push(catch_up, make_gap(catch_up, ring, seq, seq, reason)))
			return false;
		catch_up->missed &= ~(1u << reason);
	}
	return true;
}

static bool push_quiet(struct catch_up *catch_up, uint32_t ring, uint64_t end)
{
	struct catch_up_ring *place = &catch_up->ring[ring];
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 0);

	if (frame) {
		frame->ring = catch_up->run != RUN_OURS ? RING_EARLIER : ring;
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

	if (catch_up->run == RUN_OURS && ring->unknown) {
		ring->start = ring->seen = ring->told = first_seq;
		ring->unknown = false;
	} else if (catch_up->run == RUN_OURS && place->known && first_seq < place->seq) {
		ring->start -= place->seq - first_seq;
		ring->seen = place->seq = first_seq;
		ring->told = ring->told < first_seq ? ring->told : first_seq;
		place->told = place->told < first_seq ? place->told : first_seq;
	}
	if (!place->known)
		place->seq = place->told = first_seq;
	place->known = true;
}

/* False: as take(). */
static bool take_range(struct catch_up *catch_up, struct frame_ref *frame)
{
	uint64_t first_seq = frame->first_seq, end_seq = frame->end_seq;
	int i = ring_of(catch_up, frame->cpu);
	struct catch_up_ring *place = i < 0 ? NULL : &catch_up->ring[i];

	/*
	 * A loss of which nobody knows the size: it is told where the next frame begins. Behind a run
	 * that is the next run, so that the Gap stands between the two on every CPU, be it one that this
	 * run has not.
	 */
	if (end_seq == first_seq && (catch_up->run != RUN_OURS || (place && !place->known))) {
		catch_up->missed |= 1u << frame->loss[0].reason;
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
	if (!push_missed(catch_up, (uint32_t)i))
		return false;
	if ((first_seq > place->seq && !push_gap(catch_up, (uint32_t)i, first_seq)) ||
	    (frame->bytes && !push_skipped(catch_up, (uint32_t)i)) || !reserve(catch_up, 1))
		return false;
	place->seq = end_seq;
	if (frame->bytes)
		place->told = end_seq;
	return push(catch_up, frame);
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

/* What it says was skipped, and no frame told of, was dealt with; what is beyond is missing. False: as take(). */
static bool take_position(struct catch_up *catch_up, const Ringtail__V1__Position *position)
{
	int ring = ring_of(catch_up, position->cpu);
	struct catch_up_ring *place = ring < 0 ? NULL : &catch_up->ring[ring];

	/* Of a ring that has nothing on the disk, what is before it is not to come out of the log. */
	if (place && !place->known && catch_up->run == RUN_OURS)
		begin_ring(catch_up, (uint32_t)ring, position->seq);
	if (!place || !place->known || position->seq <= place->seq)
		return true;
	if (position->seq - place->seq > position->skipped &&
	    !push_gap(catch_up, (uint32_t)ring, position->seq - position->skipped))
		return false;
	return position->seq == place->seq || push_quiet(catch_up, (uint32_t)ring, position->seq);
}

/* All before the ring's place has come: what the client does not know of was skipped. True: it said something else. */
static bool set_position(const struct catch_up *catch_up, Ringtail__V1__Position *position)
{
	int ring = ring_of(catch_up, position->cpu);
	const struct catch_up_ring *place = ring < 0 ? NULL : &catch_up->ring[ring];
	Ringtail__V1__Position was = *position;

	if (!place || !place->known)
		return false;
	position->seq = place->seq;
	position->skipped = place->seq - place->told;
	return was.seq != position->seq || was.skipped != position->skipped;
}

/* The client knows of all of the CPU that has come. */
static bool is_known(const struct catch_up *catch_up, const Ringtail__V1__Position *position)
{
	int ring = ring_of(catch_up, position->cpu);
	const struct catch_up_ring *place = ring < 0 ? NULL : &catch_up->ring[ring];

	return place && place->known && place->told == place->seq;
}

/*
 * The disk tells again what the client knows: of before the place that it came back to, and of what was in the
 * log before. No watermark takes back what one before it said: it says what has come instead. NULL: out of memory.
 */
static struct frame_ref *say_anew(const struct catch_up *catch_up, Ringtail__V1__Watermark *watermark,
				  struct frame_ref *frame)
{
	bool other = watermark->time_ns < catch_up->watermark_ns;
	struct frame_ref *made;

	if (other)
		watermark->time_ns = catch_up->watermark_ns;
	for (size_t i = 0; i < watermark->n_position; i++)
		other |= set_position(catch_up, watermark->position[i]);
	if (!other)
		return frame_ref_get(frame);
	made = spool_frame_watermark(catch_up->stream->codec, watermark->time_ns, watermark->position,
				     watermark->n_position);
	if (made)
		made->ring = frame->ring;
	return made;
}

/* What a watermark that goes to the client says, it knows. */
static void note_watermark(struct catch_up *catch_up, const Ringtail__V1__Watermark *watermark)
{
	catch_up->watermark_ns = watermark->time_ns;
	for (size_t i = 0; i < watermark->n_position; i++) {
		int ring = ring_of(catch_up, watermark->position[i]->cpu);

		if (ring >= 0 && catch_up->ring[ring].known)
			catch_up->ring[ring].told = watermark->position[i]->seq;
	}
}

/*
 * One that has nothing new for the client does not go out. False: as take(). The places that it had come to by
 * then are behind it when it is taken again.
 */
static bool take_watermark(struct catch_up *catch_up, struct frame_ref *frame)
{
	bool no_memory, news, whole;
	Ringtail__V1__Watermark *watermark =
		unpack(catch_up, frame, &ringtail__v1__watermark__descriptor, &no_memory);

	if (!watermark) {
		if (!no_memory)
			frame_ref_put(frame);
		return !no_memory;
	}
	news = watermark->time_ns > catch_up->watermark_ns;
	whole = push_missed(catch_up, 0);
	for (size_t i = 0; whole && i < watermark->n_position; i++) {
		news |= !is_known(catch_up, watermark->position[i]);
		whole = take_position(catch_up, watermark->position[i]);
		news |= !is_known(catch_up, watermark->position[i]);
	}
	whole = whole && (!news || push(catch_up, say_anew(catch_up, watermark, frame)));
	if (whole && news)
		note_watermark(catch_up, watermark);
	if (whole)
		frame_ref_put(frame);
	protobuf_c_message_free_unpacked(&watermark->base, NULL);
	return whole;
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

/* Another boot has another clock. */
static void enter_boot(struct catch_up *catch_up, const struct run *run)
{
	if (memcmp(catch_up->boot_id, run->boot_id, sizeof(run->boot_id)) != 0)
		catch_up->watermark_ns = 0;
	memcpy(catch_up->boot_id, run->boot_id, sizeof(run->boot_id));
}

/* Another run begins. If the cursor was of that one, its numbers go on from there. */
static bool begin_run(struct catch_up *catch_up, struct frame_ref *frame, const struct run *run)
{
	struct frame_ref *subscribed = pack_subscribed(catch_up, run);
	const struct cursor *cursor = catch_up->cursor;

	if (!subscribed || !reserve(catch_up, 3)) {
		frame_ref_put(subscribed);
		return false;
	}
	if (cursor && !run_equal(&cursor->run, run))
		cursor = NULL;
	for (uint32_t i = 0; i < rings_of(catch_up); i++) {
		const struct position *at =
			cursor ? cursor_find(cursor, catch_up->stream->cpu_of[i]) : NULL;

		catch_up->ring[i] = (struct catch_up_ring){.seq = at ? at->seq : 0,
							   .told = at ? at->seq : 0, .known = at};
	}
	enter_boot(catch_up, run);
	catch_up->run = RUN_EARLIER;
	frame->run = *run;
	push(catch_up, frame);
	push(catch_up, subscribed);
	push_missed(catch_up, 0);
	return true;
}

/* False: as take(). */
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
		catch_up->run = RUN_NAMELESS;
		catch_up->missed |= 1u << LOSS_REASON_CORRUPT;
		frame_ref_put(frame);
	}
	if (hello)
		protobuf_c_message_free_unpacked(&hello->base, NULL);
	return taken;
}

static bool come_home(struct catch_up *catch_up)
{
	const struct subscription_spool *home = &catch_up->stream->subscription->spool;
	struct frame_ref *subscribed = pack_subscribed(catch_up, &home->run);

	if (!subscribed || !reserve(catch_up, 4)) {
		frame_ref_put(subscribed);
		return false;
	}
	enter_boot(catch_up, &home->run);
	catch_up->run = RUN_OURS;
	memset(catch_up->ring, 0, rings_of(catch_up) * sizeof(catch_up->ring[0]));
	push(catch_up, frame_ref_get(home->hello));
	push(catch_up, frame_ref_get(home->catalog));
	push(catch_up, subscribed);
	push_missed(catch_up, 0);
	return true;
}

/* Takes the frame over. False: there is no memory for it yet, and it is the caller's still. */
static bool take(struct catch_up *catch_up, struct frame_ref *frame)
{
	bool is_range = frame_ref_is_range(frame);
	bool comes_home = (is_range || frame->type == FRAME_WATERMARK) &&
			  !frame_ref_is_earlier(frame);

	if (catch_up->run != RUN_OURS && comes_home && !come_home(catch_up))
		return false;
	if (frame->type == FRAME_SERVER_HELLO)
		return take_hello(catch_up, frame);
	if (is_range && catch_up->run != RUN_NAMELESS)
		return take_range(catch_up, frame);
	if (frame->type == FRAME_WATERMARK && catch_up->run != RUN_NAMELESS)
		return take_watermark(catch_up, frame);
	if (frame->type == FRAME_CATALOG && catch_up->run != RUN_NAMELESS)
		return reserve(catch_up, 1) && push(catch_up, frame);
	/* Its Subscribed, where ours says where the stream begins; and all of a nameless run. */
	frame_ref_put(frame);
	return true;
}

static void take_answer(struct catch_up *catch_up)
{
	while (catch_up->answered && take(catch_up, *catch_up->answer)) {
		catch_up->answer++;
		catch_up->answered--;
	}
}

static void on_frames(void *context, struct frame_ref *const *frame, unsigned n, bool end)
{
	struct catch_up *catch_up = context;
	const struct subscription_spool *spool = &catch_up->stream->subscription->spool;

	catch_up->disk = end ? DISK_AT_END : DISK_HAS_MORE;
	catch_up->answer = frame;
	catch_up->answered = n;
	take_answer(catch_up);
	spool->read(spool->context);
}

/* ---- From the log to the spool --------------------------------------------------------------- */

/* From where the stream is, or from a cursor of this run. */
static bool is_home(const struct stream *stream, const struct spool_place *start)
{
	return !start || (start->cursor &&
			  run_equal(&start->cursor->run, &stream->subscription->spool.run));
}

/* Where the stream is, as a cursor of this run; free() it. NULL: out of memory. */
static struct cursor *make_cursor(const struct catch_up *catch_up)
{
	uint32_t rings = rings_of(catch_up);
	struct cursor *made = cursor_create(rings);

	if (!made)
		return NULL;
	made->run = catch_up->stream->subscription->spool.run;
	for (uint32_t i = 0; i < rings; i++)
		cursor_append(made, catch_up->stream->cpu_of[i], catch_up->ring[i].seq);
	return made;
}

/* A cursor of another run counts if that run comes. */
static int open_reader(struct catch_up *catch_up, const struct spool_place *start)
{
	bool home = is_home(catch_up->stream, start);
	struct cursor *cursor = home ? make_cursor(catch_up) :
				start->cursor ? cursor_copy(start->cursor) : NULL;
	struct spool_place place = {.cursor = cursor, .realtime_ns = home ? 0 : start->realtime_ns};
	int err;

	if (!cursor && (home || start->cursor))
		return -ENOMEM;
	err = spool_reader_create(catch_up->stream->subscription->spool.spool, &place, on_frames,
				  catch_up, &catch_up->reader);
	if (!home && !err)
		catch_up->cursor = cursor;
	else
		free(cursor);
	return err;
}

static void set_ring(struct catch_up *catch_up, uint32_t i, const struct spool_place *start)
{
	struct stream *stream = catch_up->stream;
	struct stream_ring *ring = &stream->ring[i];

	uint64_t end = stream->subscription->position[i];
	uint64_t seq = !start ? stream_place(stream, i) :
		       is_home(stream, start) ? cursor_seq(start->cursor, stream->cpu_of[i], end) :
						SINCE_BEGIN;

	if (start && seq == SINCE_BEGIN) {
		*ring = (struct stream_ring){.unknown = true};
		return;
	}
	if (start) {
		seq = seq < end ? seq : end;
		ring->start = ring->seen = ring->told = seq;
	}
	catch_up->ring[i] = (struct catch_up_ring){
		.seq = seq, .known = true, .told = seq > ring->seen ? seq : ring->told};
}

int catch_up_begin(struct stream *stream, const struct spool_place *start)
{
	uint32_t rings = stream->subscription->rings;
	struct catch_up *catch_up =
		calloc(1, sizeof(*catch_up) + rings * sizeof(catch_up->ring[0]));
	int err;

	if (!catch_up)
		return -ENOMEM;
	catch_up->stream = stream;
	catch_up->watermark_ns = stream->last_time_ns;
	memcpy(catch_up->boot_id, stream->subscription->spool.run.boot_id, sizeof(catch_up->boot_id));
	for (uint32_t i = 0; i < rings; i++)
		set_ring(catch_up, i, start);
	err = open_reader(catch_up, start);
	if (err) {
		catch_up_destroy(catch_up);
		return err;
	}
	stream->catch_up = catch_up;
	return 0;
}

void catch_up_destroy(struct catch_up *catch_up)
{
	if (!catch_up)
		return;
	for (unsigned i = 0; i < catch_up->answered; i++)
		frame_ref_put(catch_up->answer[i]);
	spool_reader_destroy(catch_up->reader);
	while (catch_up->first != catch_up->end)
		catch_up_pass(catch_up);
	free(catch_up->queue);
	free(catch_up->cursor);
	free(catch_up);
}

/* ---- From the spool to the log --------------------------------------------------------------- */

/*
 * By ring there is one number, its place: all before it has come, be it off the disk or out of the log.
 * What the disk gave need not come in the log's order: it tells of skips with the watermark, and of what
 * it lost when it can write again. So the log takes over behind the last of its entries that ends at or
 * before its ring's place. What is before that and has not come is taken out of the log first; behind it
 * nothing has come.
 *
 * False: a ring is not known yet, and the disk has not come to what the log has; or it has passed by
 * what the log has of that ring, and so will say of it first what it lost.
 */
static bool find_change_over(const struct catch_up *catch_up, uint64_t *serial)
{
	const struct frame_log *log = catch_up->stream->subscription->log;
	bool found = true, passed = false;

	for (uint32_t i = 0; i < rings_of(catch_up); i++)
		found &= catch_up->ring[i].known;
	*serial = frame_log_first(log);
	for (uint64_t at = *serial; at < frame_log_end(log); at++) {
		const struct frame_ref *frame = frame_log_get(log, at);
		const struct catch_up_ring *ring = &catch_up->ring[frame->ring];

		if (!frame_ref_is_range(frame))
			continue;
		passed |= !ring->known;
		if (!ring->known || frame->end_seq > ring->seq)
			continue;
		*serial = at + 1;
		found = !passed;
	}
	return found;
}

/* The disk has no more and gets no more: what is between it and the log is lost. */
static bool is_stranded(const struct catch_up *catch_up)
{
	struct spool_stat stat;

	if (catch_up->disk != DISK_AT_END)
		return false;
	spool_stat(catch_up->stream->subscription->spool.spool, &stat);
	return stat.in_flight == 0 && stat.stored == catch_up->stored;
}

/*
 * The log has what comes next of every ring that is known. What it has not is a gap, where it will not
 * come off the disk either.
 */
static bool log_reaches(struct catch_up *catch_up, bool stranded)
{
	const struct subscription *subscription = catch_up->stream->subscription;

	for (uint32_t i = 0; i < subscription->rings; i++) {
		const struct catch_up_ring *ring = &catch_up->ring[i];

		if (ring->known && ring->seq < subscription->floor[i] &&
		    !(stranded && push_gap(catch_up, i, subscription->floor[i])))
			return false;
	}
	return true;
}

/*
 * What has not come, of the log's entries before that one; with the watermarks, that tell of skips.
 * Rings of which nothing came begin behind it, unless the disk will not have them. False: as take(); it
 * goes on there the next time.
 */
static bool take_up_to(struct catch_up *catch_up, uint64_t serial, bool stranded)
{
	const struct frame_log *log = catch_up->stream->subscription->log;
	uint64_t first = frame_log_first(log);
	bool any = catch_up->torn;

	for (uint64_t at = first > catch_up->taken ? first : catch_up->taken; at < serial; at++) {
		struct frame_ref *frame = frame_log_get(log, at);
		const struct catch_up_ring *ring = &catch_up->ring[frame->ring];

		if (frame_ref_is_range(frame))
			any |= ring->known ? frame->end_seq > ring->seq : stranded;
		if (any && (ring->known || stranded || !frame_ref_is_range(frame)) &&
		    !take(catch_up, frame_ref_get(frame))) {
			frame_ref_put(frame);
			catch_up->taken = at;
			catch_up->torn = true;
			return false;
		}
	}
	catch_up->taken = serial;
	catch_up->torn = false;
	return true;
}

static void ask(struct catch_up *catch_up)
{
	struct spool_stat stat;

	spool_stat(catch_up->stream->subscription->spool.spool, &stat);
	catch_up->stored = stat.stored;
	catch_up->disk = DISK_ASKED;
	spool_reader_next(catch_up->reader, CATCH_UP_BYTES);
}

/*
 * Rings of which nothing came begin with what the log has of them; so do those that stand beyond
 * it, as a cursor may: what the client has it gets again, and knows.
 */
static void begin_in_log(struct stream *stream)
{
	const struct subscription *subscription = stream->subscription;
	const struct frame_log *log = subscription->log;

	for (uint64_t serial = stream->next; serial < frame_log_end(log); serial++) {
		const struct frame_ref *frame = frame_log_get(log, serial);
		struct stream_ring *ring = &stream->ring[frame->ring];

		if (frame->type != FRAME_BATCH && frame->type != FRAME_GAP)
			continue;
		if (ring->unknown)
			ring->start = ring->seen = ring->told = frame->first_seq;
		if (ring->seen > frame->first_seq) {
			ring->start -= ring->seen - frame->first_seq;
			ring->seen = ring->told = frame->first_seq;
		}
		ring->unknown = false;
	}
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (stream->ring[i].unknown)
			stream->ring[i] = (struct stream_ring){
				.start = subscription->position[i],
				.seen = subscription->position[i],
				.told = subscription->position[i]};
}

static void change_over(struct stream *stream, uint64_t serial)
{
	stream->next = serial;
	catch_up_destroy(stream->catch_up);
	stream->catch_up = NULL;
	stream->joined = frame_log_end(stream->subscription->log);
	begin_in_log(stream);
	stream_owe_places(stream);
}

void catch_up_go_on(struct stream *stream)
{
	struct catch_up *catch_up = stream->catch_up;
	bool stranded = is_stranded(catch_up);
	uint64_t serial;

	take_answer(catch_up);
	if (catch_up->answered || catch_up->first != catch_up->end)
		return;				/* for memory, catch_up_poke() tries again */
	/* Even if an answer is on its way: the log has all that it could bring. */
	if (catch_up->run == RUN_OURS && log_reaches(catch_up, stranded) &&
	    (find_change_over(catch_up, &serial) || stranded)) {
		if (take_up_to(catch_up, serial, stranded) && push_missed(catch_up, 0) &&
		    catch_up->first == catch_up->end)
			change_over(stream, serial);
	} else if (catch_up->run != RUN_OURS && stranded) {
		come_home(catch_up);
	} else if (catch_up->disk == DISK_HAS_MORE) {
		ask(catch_up);
	}
}

void catch_up_poke(struct stream *stream)
{
	const struct subscription_spool *spool = &stream->subscription->spool;
	struct catch_up *catch_up = stream->catch_up;

	if (!catch_up || catch_up->first != catch_up->end)
		return;
	if (catch_up->answered)
		spool->read(spool->context);
	else if (catch_up->disk == DISK_AT_END)
		ask(catch_up);
}
