#include "courier/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "courier/runs.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/message.h"

#define NO_LANE		UINT32_MAX

struct recording_output {
	FILE *to;
	struct frame_codec *codec;
	uint32_t lane;			/* whose frames come last; NO_LANE: none has */
	uint8_t raw[FRAME_RAW_BYTES_MAX];
};

struct recording {
	struct recording_output *output;
	recording_find *find;
	void *context;
	uint32_t lane;			/* NO_LANE: it is alone */
	const char *host;		/* NULL: the lane has begun */
	struct numbers numbers;
	bool began;
	struct run run;			/* that the reader is in, */
	uint32_t catalog;		/* with that catalog */
	struct run lost;		/* of which nothing could be decoded: */
	bool owes_gap;			/* the reader has not been told, by a gap of no size */
	bool owes_beginning;		/* nor of what Kafka has deleted before all this */
	struct recording_ledger ledger;
};

struct recording_output *recording_output_create(FILE *to)
{
	struct recording_output *output = calloc(1, sizeof(*output));

	if (!output)
		return NULL;
	output->to = to;
	output->lane = NO_LANE;
	output->codec = frame_codec_create(1);
	if (output->codec)
		return output;
	free(output);
	return NULL;
}

void recording_output_destroy(struct recording_output *output)
{
	if (!output)
		return;
	frame_codec_destroy(output->codec);
	free(output);
}

struct recording *recording_create(struct recording_output *output, recording_find *find, void *context)
{
	struct recording *recording = calloc(1, sizeof(*recording));

	if (!recording)
		return NULL;
	recording->output = output;
	recording->find = find;
	recording->context = context;
	recording->lane = NO_LANE;
	return recording;
}

void recording_set_lane(struct recording *recording, uint32_t lane, const char *host)
{
	recording->lane = lane;
	recording->host = host;
}

void recording_begin_cut(struct recording *recording)
{
	recording->owes_beginning = true;
}

void recording_destroy(struct recording *recording)
{
	if (!recording)
		return;
	numbers_fini(&recording->numbers);
	free(recording);
}

/* ---- Frames out --------------------------------------------------------------------------------- */

static int no_memory(struct ringtail_error *error)
{
	return failure_set(error, ENOMEM, "no-memory", "out of memory");
}

static int write_out(struct recording_output *output, const void *frame, size_t bytes, struct ringtail_error *error)
{
	errno = 0;
	if (fwrite(frame, 1, bytes, output->to) == bytes)
		return 0;
	return failure_set(error, errno ? errno : EIO, "cannot-write", "cannot write the recording: %s",
			   strerror(errno ? errno : EIO));
}

/* Whose the next frames are; the first time, with the host's name. */
static int put_consign(struct recording *recording, struct ringtail_error *error)
{
	Ringtail__V1__Consign consign = RINGTAIL__V1__CONSIGN__INIT;
	struct recording_output *output = recording->output;
	uint8_t raw[HOST_BYTES_MAX + 64], frame[2 * sizeof(raw) + 128];
	size_t bytes;
	int err;

	consign.lane = recording->lane;
	if (recording->host)
		consign.host = (char *)recording->host;
	bytes = ringtail__v1__consign__get_packed_size(&consign);
	if (bytes > sizeof(raw) || frame_bound((uint32_t)bytes) > sizeof(frame))
		return failure_set(error, EMSGSIZE, "host-name", "a host's name is too long");
	ringtail__v1__consign__pack(&consign, raw);
	err = write_out(output, frame, frame_seal(output->codec, FRAME_CONSIGN, raw, (uint32_t)bytes, frame), error);
	if (err)
		return err;
	output->lane = recording->lane;
	recording->host = NULL;
	return 0;
}

static int put(struct recording *recording, const void *frame, size_t bytes, struct ringtail_error *error)
{
	int err = recording->output->lane != recording->lane ? put_consign(recording, error) : 0;

	return err ? err : write_out(recording->output, frame, bytes, error);
}

static int put_message(struct recording *recording, enum frame_type type, const ProtobufCMessage *message,
		       struct ringtail_error *error)
{
	size_t raw_bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *raw = malloc(raw_bytes + 1), *frame = malloc(frame_bound((uint32_t)raw_bytes));
	int err = raw && frame ? 0 : no_memory(error);

	if (!err) {
		protobuf_c_message_pack(message, raw);
		err = put(recording, frame, frame_seal(recording->output->codec, type, raw, (uint32_t)raw_bytes, frame), error);
	}
	free(raw);
	free(frame);
	return err;
}

static int put_hole(struct recording *recording, const struct forward_span *hole,
		    Ringtail__V1__LossReason reason, struct ringtail_error *error)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;

	recording->ledger.holes++;
	recording->ledger.missing += hole->end_seq - hole->first_seq;
	gap.cpu = hole->cpu;
	gap.first_seq = hole->first_seq;
	gap.end_seq = hole->end_seq;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_HISTORY;
	gap.reason = reason;
	return put_message(recording, FRAME_GAP, &gap.base, error);
}

/* Where each CPU of the run is: what is before it the reader has, or will never have. */
static int put_subscribed(struct recording *recording, const struct numbers_run *run, struct ringtail_error *error)
{
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor *cursor = cursor_create(CURSOR_POSITIONS_MAX);
	struct cursor_message *message = NULL;
	int err;

	if (cursor) {
		cursor->run = run->run;
		for (uint32_t cpu = 0; cpu < CURSOR_POSITIONS_MAX; cpu++)
			if (run->cpu[cpu].known)
				cursor_append(cursor, cpu, run->cpu[cpu].next);
		message = cursor_message_create(cursor);
	}
	if (message)
		subscribed.start = subscribed.since = &message->cursor;
	err = message ? put_message(recording, FRAME_SUBSCRIBED, &subscribed.base, error) : no_memory(error);
	free(message);
	free(cursor);
	return err;
}

static int put_bye(struct recording *recording, const char *reason, struct ringtail_error *error)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;

	bye.reason = (char *)reason;
	bye.final = true;
	return put_message(recording, FRAME_BYE, &bye.base, error);
}

/* Whole, and as it was sent. */
static bool is_sound(struct recording *recording, const uint8_t *frame, size_t bytes)
{
	struct frame_header header;
	const uint8_t *body;

	return frame_parse_header(frame, bytes, FRAME_RAW_BYTES_MAX, &header) == FRAME_OK &&
	       FRAME_HEADER_BYTES + header.body_bytes == bytes &&
	       frame_open(recording->output->codec, frame, &header, recording->output->raw, &body) == FRAME_OK;
}

/* Of a run that nothing decodes: numbers of it mean nothing in another one. */
static int put_lost_run(struct recording *recording, struct ringtail_error *error)
{
	struct forward_span here = { .known = true };
	const struct numbers_run *run;

	if (!recording->owes_gap || !recording->began)
		return 0;
	run = numbers_find(&recording->numbers, &recording->run);
	if (!run)
		return no_memory(error);
	here.first_seq = here.end_seq = run->cpu[here.cpu].next;
	recording->owes_gap = false;
	return put_hole(recording, &here, RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT, error);
}

/* Nobody knows how much it was, nor of which runs: a gap of no size, in the first one that is there. */
static int put_beginning(struct recording *recording, const struct numbers_run *run, struct ringtail_error *error)
{
	struct forward_span here = { .known = true };

	if (!recording->owes_beginning)
		return 0;
	recording->owes_beginning = false;
	here.first_seq = here.end_seq = run->cpu[here.cpu].next;
	return put_hole(recording, &here, RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE, error);
}

/* The reader comes into the run of that label, or goes on in it with `again`: its places are told anew. */
static int enter(struct recording *recording, const struct parcel_label *label, const struct numbers_run *run,
		 bool again, struct ringtail_error *error)
{
	bool same = recording->began && run_equal(&recording->run, &label->run);
	struct runs_beginning beginning;
	int err;

	if (same && !again && recording->catalog == label->catalog)
		return 0;
	err = recording->find(recording->context, label, &beginning, error);
	if (!err && (!is_sound(recording, beginning.hello, beginning.hello_bytes) ||
		     !is_sound(recording, beginning.catalog, beginning.catalog_bytes)))
		err = -ENOENT;
	if (err)
		return err;
	if (again)
		err = put_bye(recording, "some of what follows was sent before", error);
	if (!err)
		err = put(recording, beginning.hello, beginning.hello_bytes, error);
	if (!err)
		err = put(recording, beginning.catalog, beginning.catalog_bytes, error);
	if (!err)
		err = put_subscribed(recording, run, error);
	recording->began = true;
	recording->run = label->run;
	recording->catalog = label->catalog;
	if (!err)
		err = put_beginning(recording, run, error);
	return err ? err : put_lost_run(recording, error);
}

/* ---- Frames in ---------------------------------------------------------------------------------- */

/* The frame goes out, in its run; `before`: what is missing before it. */
static int take(struct recording *recording, const struct parcel_label *label, const struct numbers_run *run,
		const uint8_t *frame, size_t bytes, struct ringtail_error *error)
{
	int err = enter(recording, label, run, false, error);

	recording->ledger.taken += !err;
	return err ? err : put(recording, frame, bytes, error);
}

static int take_span(struct recording *recording, const struct parcel_label *label, struct numbers_run *run,
		     const uint8_t *frame, size_t bytes, struct ringtail_error *error)
{
	const struct numbers_cpu before = run->cpu[label->span.cpu];
	struct forward_span hole;
	int err = 0;

	switch (numbers_span(run, &label->span, &hole)) {
	case NUMBERS_DUPLICATE:
		recording->ledger.duplicate++;
		return 0;
	case NUMBERS_OVERLAP:
		/* Where the reader is, it is told before it reads on: as it is told after a reconnection. */
		run->cpu[label->span.cpu].next = before.next;
		err = enter(recording, label, run, true, error);
		run->cpu[label->span.cpu].next = label->span.end_seq;
		break;
	case NUMBERS_HOLE:
		run->cpu[label->span.cpu].next = before.next;
		err = enter(recording, label, run, false, error);
		run->cpu[label->span.cpu].next = label->span.end_seq;
		if (!err)
			err = put_hole(recording, &hole, RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE, error);
		break;
	case NUMBERS_NEW:
		/* In a new run, the CPU begins where this frame does. */
		run->cpu[label->span.cpu] = before;
		err = enter(recording, label, run, false, error);
		numbers_span(run, &label->span, &hole);
		break;
	}
	return err ? err : take(recording, label, run, frame, bytes, error);
}

static void *open_message(struct recording *recording, const ProtobufCMessageDescriptor *descriptor,
			  const uint8_t *frame, size_t bytes)
{
	struct frame_header header;
	const uint8_t *body;

	if (frame_parse_header(frame, bytes, FRAME_RAW_BYTES_MAX, &header) != FRAME_OK ||
	    frame_open(recording->output->codec, frame, &header, recording->output->raw, &body) != FRAME_OK)
		return NULL;
	return message_unpack(descriptor, NULL, body, header.raw_bytes);
}

static int bad_frame(const struct parcel_label *label, struct ringtail_error *error)
{
	return failure_set(error, EBADMSG, "bad-record", "a %s of the topic is damaged", frame_type_name(label->type));
}

/* Places of a subscription or of a watermark: holes are told. *moved: any of them was new. */
static int take_places(struct recording *recording, const struct parcel_label *label, struct numbers_run *run,
		       Ringtail__V1__Position *const *position, size_t positions, bool is_start, bool *moved,
		       struct ringtail_error *error)
{
	int err = 0;

	for (size_t i = 0; !err && i < positions; i++) {
		enum numbers_verdict verdict;
		struct forward_span hole;

		if (position[i]->cpu >= CURSOR_POSITIONS_MAX)
			return bad_frame(label, error);
		if (!is_start && !run->cpu[position[i]->cpu].known)
			*moved = true;
		verdict = is_start ? numbers_start(run, position[i], &hole) :
				     numbers_watermark(run, position[i], &hole);
		*moved |= verdict != NUMBERS_DUPLICATE;
		if (verdict != NUMBERS_HOLE)
			continue;
		run->cpu[hole.cpu].next = hole.first_seq;
		err = enter(recording, label, run, false, error);
		run->cpu[hole.cpu].next = position[i]->seq;
		if (!err)
			err = put_hole(recording, &hole, is_start ?
				       RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED :
				       RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE, error);
	}
	return err;
}

static int take_subscribed(struct recording *recording, const struct parcel_label *label, struct numbers_run *run,
			   const uint8_t *frame, size_t bytes, struct ringtail_error *error)
{
	Ringtail__V1__Subscribed *subscribed = open_message(recording, &ringtail__v1__subscribed__descriptor, frame,
							     bytes);
	bool moved = false;
	int err = subscribed ? 0 : bad_frame(label, error);

	if (!err && subscribed->start)
		err = take_places(recording, label, run, subscribed->start->position, subscribed->start->n_position,
				  true, &moved, error);
	/* The reader is told of places where it enters a run; here they are only noted. */
	recording->ledger.taken += !err && moved;
	recording->ledger.duplicate += !err && !moved;
	if (subscribed)
		ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
	return err;
}

static int take_watermark(struct recording *recording, const struct parcel_label *label, struct numbers_run *run,
			  const uint8_t *frame, size_t bytes, struct ringtail_error *error)
{
	Ringtail__V1__Watermark *watermark = open_message(recording, &ringtail__v1__watermark__descriptor, frame, bytes);
	bool moved;
	int err;

	if (!watermark)
		return bad_frame(label, error);
	moved = watermark->time_ns > run->watermark_ns;
	err = moved ? enter(recording, label, run, false, error) : 0;
	if (!err)
		err = take_places(recording, label, run, watermark->position, watermark->n_position, false, &moved,
				  error);
	if (watermark->time_ns > run->watermark_ns)
		run->watermark_ns = watermark->time_ns;
	ringtail__v1__watermark__free_unpacked(watermark, NULL);
	if (err || moved)
		return err ? err : take(recording, label, run, frame, bytes, error);
	recording->ledger.duplicate++;
	return 0;
}

static int take_record(struct recording *recording, const struct parcel_label *label, struct numbers_run *run,
		       const uint8_t *frame, size_t bytes, struct ringtail_error *error)
{
	struct frame_header header;

	if (!is_sound(recording, frame, bytes) ||
	    frame_parse_header(frame, bytes, FRAME_RAW_BYTES_MAX, &header) != FRAME_OK || header.type != label->type)
		return bad_frame(label, error);
	if (label->span.known)
		return take_span(recording, label, run, frame, bytes, error);
	if (label->type == FRAME_SUBSCRIBED)
		return take_subscribed(recording, label, run, frame, bytes, error);
	if (label->type == FRAME_WATERMARK)
		return take_watermark(recording, label, run, frame, bytes, error);
	return take(recording, label, run, frame, bytes, error);
}

/* Nothing decodes that run: the reader, in another one or in none yet, is told once. */
static int lose_run(struct recording *recording, const struct parcel_label *label,
		    const struct forward_span *missing, struct ringtail_error *error)
{
	recording->ledger.missing += missing->end_seq - missing->first_seq;
	if (run_equal(&recording->lost, &label->run))
		return 0;
	recording->lost = label->run;
	recording->owes_gap = true;
	return put_lost_run(recording, error);
}

/* It cannot be decoded: what its headers tell of it is a gap, and the next record is read. */
static int lose(struct recording *recording, const struct parcel_label *label, struct numbers_run *run,
		struct ringtail_error *error)
{
	struct numbers_cpu *at = &run->cpu[label->span.cpu];
	struct forward_span missing = label->span;
	int err = 0;

	recording->ledger.damaged++;
	if (at->known)
		missing.first_seq = at->next;	/* or it overlaps, or there is a hole before it */
	if (!missing.known || missing.first_seq >= missing.end_seq)
		return 0;			/* the next one shows what is missing; or it came before */
	if (!recording->began || !run_equal(&recording->run, &label->run))
		err = enter(recording, label, run, false, error);
	at->known = true;
	at->next = missing.end_seq;
	if (err == -ENOENT)
		return lose_run(recording, label, &missing, error);
	return err ? err : put_hole(recording, &missing, RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT, error);
}

int recording_take(struct recording *recording, const struct parcel_label *label, const uint8_t *frame,
		   size_t bytes, struct ringtail_error *error)
{
	struct numbers_run *run = numbers_find(&recording->numbers, &label->run);
	struct numbers_cpu before;
	int err;

	recording->ledger.records++;
	if (!run)
		return no_memory(error);
	before = run->cpu[label->span.cpu];
	err = take_record(recording, label, run, frame, bytes, error);
	if (err != -EBADMSG && err != -ENOENT)
		return err;
	if (label->span.known)
		run->cpu[label->span.cpu] = before;
	return lose(recording, label, run, error);
}

int recording_break(struct recording *recording, struct ringtail_error *error)
{
	struct forward_span here = { .known = true };
	const struct numbers_run *run;

	if (!recording->began)
		return 0;
	run = numbers_find(&recording->numbers, &recording->run);
	if (!run)
		return no_memory(error);
	while (here.cpu + 1 < CURSOR_POSITIONS_MAX && !run->cpu[here.cpu].known)
		here.cpu++;
	here.first_seq = here.end_seq = run->cpu[here.cpu].next;
	return put_hole(recording, &here, RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE, error);
}

int recording_end(struct recording *recording, const char *reason, struct ringtail_error *error)
{
	return recording->began ? put_bye(recording, reason, error) : 0;
}

const struct recording_ledger *recording_ledger(const struct recording *recording)
{
	return &recording->ledger;
}
