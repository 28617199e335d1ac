/*
 * swarm's streams: the frames that a client hears, and the numbers of its stream, each of which
 * comes once and in order. What was in a frame is remembered by its checksum.
 */
#include "tests/tools/swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define INPUT_BYTES_MAX	(FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX)
#define KNOWN_FRAMES	256

/* What a frame says that a client has to follow. */
struct content {
	uint32_t crc32c, raw_bytes;
	uint8_t type;
	uint64_t events, lost;
	unsigned spans;			/* of numbers: one, or a watermark's */
	struct span {
		uint32_t cpu;
		uint64_t first_seq, end_seq;
	} span[CPUS_MAX];
};

static struct content known[KNOWN_FRAMES];

static void read_batch(const uint8_t *body, size_t bytes, struct content *content)
{
	Ringtail__V1__Batch *batch = ringtail__v1__batch__unpack(NULL, bytes, body);

	if (!batch) {
		counts.bad_frames++;
		return;
	}
	content->spans = 1;
	content->span[0] = (struct span){batch->cpu, batch->first_seq, batch->end_seq};
	content->events = batch->events;
	for (size_t i = 0; i < batch->n_loss; i++)
		content->lost += batch->loss[i]->count;
	ringtail__v1__batch__free_unpacked(batch, NULL);
}

static void read_gap(const uint8_t *body, size_t bytes, struct content *content)
{
	Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, bytes, body);

	if (!gap) {
		counts.bad_frames++;
		return;
	}
	content->spans = 1;
	content->span[0] = (struct span){gap->cpu, gap->first_seq, gap->end_seq};
	content->lost = gap->events;
	ringtail__v1__gap__free_unpacked(gap, NULL);
}

/* What was skipped, since what was told last. */
static void read_watermark(const uint8_t *body, size_t bytes, struct content *content)
{
	Ringtail__V1__Watermark *mark = ringtail__v1__watermark__unpack(NULL, bytes, body);

	if (!mark || mark->n_position > CPUS_MAX) {
		counts.bad_frames++;
		ringtail__v1__watermark__free_unpacked(mark, NULL);
		return;
	}
	content->spans = (unsigned)mark->n_position;
	for (size_t i = 0; i < mark->n_position; i++) {
		const Ringtail__V1__Position *position = mark->position[i];

		content->span[i] = (struct span){position->cpu, position->seq - position->skipped,
						 position->seq};
	}
	ringtail__v1__watermark__free_unpacked(mark, NULL);
}

static void read_error(const uint8_t *body, size_t bytes)
{
	Ringtail__V1__Error *error = ringtail__v1__error__unpack(NULL, bytes, body);

	if (error)
		snprintf(counts.error, sizeof(counts.error), "%s", error->code);
	counts.refused++;
	ringtail__v1__error__free_unpacked(error, NULL);
}

/* Where this client's stream begins on each CPU. */
static void begin_stream(struct client *client, const uint8_t *body, size_t bytes)
{
	Ringtail__V1__Subscribed *subscribed = ringtail__v1__subscribed__unpack(NULL, bytes, body);

	if (!subscribed || !subscribed->start) {
		counts.bad_frames++;
		ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
		return;
	}
	for (size_t i = 0; i < subscribed->start->n_position; i++) {
		const Ringtail__V1__Position *position = subscribed->start->position[i];

		if (position->cpu < CPUS_MAX)
			client->next_seq[position->cpu] = position->seq;
	}
	ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
	counts.subscribed++;
	client->state = SUBSCRIBED;
	if (options.mode == STALL)
		client_wait_for(client, false, false);
	if (options.mode == STORM)
		client->due_ns = now_ns() + 1 + random_below(options.hold_ns + 1);
}

static const struct content *look_into(const uint8_t *frame, const struct frame_header *header)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	struct content *content = &known[header->crc32c % KNOWN_FRAMES];
	const uint8_t *body;

	if (content->crc32c == header->crc32c && content->raw_bytes == header->raw_bytes &&
	    content->type == header->type)
		return content;
	if (frame_open(codec, frame, header, raw, &body) != FRAME_OK) {
		counts.bad_frames++;
		return NULL;
	}
	*content = (struct content){.crc32c = header->crc32c, .raw_bytes = header->raw_bytes,
				    .type = (uint8_t)header->type};
	if (header->type == FRAME_BATCH)
		read_batch(body, header->raw_bytes, content);
	else if (header->type == FRAME_WATERMARK)
		read_watermark(body, header->raw_bytes, content);
	else
		read_gap(body, header->raw_bytes, content);
	return content;
}

/* Each number once, in order; a watermark may also repeat what came before it. */
static void follow(struct client *client, const struct span *span, bool mark)
{
	uint64_t *next;

	if (span->cpu >= CPUS_MAX)
		return;
	next = &client->next_seq[span->cpu];
	if (mark && span->end_seq <= *next)
		return;
	counts.holes += mark ? span->first_seq > *next : span->first_seq != *next;
	*next = span->end_seq;
}

static void take_frame(struct client *client, const uint8_t *frame,
		       const struct frame_header *header)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	const struct content *content;
	const uint8_t *body;

	if (header->type == FRAME_BATCH || header->type == FRAME_GAP ||
	    header->type == FRAME_WATERMARK) {
		content = look_into(frame, header);
		if (!content)
			return;
		for (unsigned i = 0; i < content->spans; i++)
			follow(client, &content->span[i], header->type == FRAME_WATERMARK);
		client->events += content->events;
		client->lost += content->lost;
	} else if (header->type == FRAME_ERROR || header->type == FRAME_SUBSCRIBED) {
		if (frame_open(codec, frame, header, raw, &body) != FRAME_OK)
			counts.bad_frames++;
		else if (header->type == FRAME_ERROR)
			read_error(body, header->raw_bytes);
		else
			begin_stream(client, body, header->raw_bytes);
	}
}

void stream_take_frames(struct client *client)
{
	size_t at = 0;

	while (client->input_bytes - at >= FRAME_HEADER_BYTES) {
		struct frame_header header;

		if (frame_parse_header(client->input + at, client->input_bytes - at,
				       FRAME_RAW_BYTES_MAX, &header) != FRAME_OK) {
			counts.bad_frames++;
			at = client->input_bytes;
			break;
		}
		if (client->input_bytes - at < FRAME_HEADER_BYTES + header.body_bytes)
			break;
		take_frame(client, client->input + at, &header);
		at += FRAME_HEADER_BYTES + header.body_bytes;
	}
	client->input_bytes -= at;
	memmove(client->input, client->input + at, client->input_bytes);
}

bool stream_make_room(struct client *client)
{
	size_t capacity = client->input_capacity ? 2 * client->input_capacity : 4096;
	uint8_t *input;

	if (client->input_bytes < client->input_capacity)
		return true;
	input = capacity <= 2 * INPUT_BYTES_MAX ? realloc(client->input, capacity) : NULL;
	if (!input)
		return false;
	client->input = input;
	client->input_capacity = capacity;
	return true;
}
