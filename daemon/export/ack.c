#include "daemon/export/ack.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/stream/stream.h"
#include "proto/limits.h"
#include "proto/message.h"

#define HELLO_BYTES_MAX 4096	/* its texts are names, of a host and of versions */

struct export_ack {
	struct frame_codec *codec;
	uint32_t rings;
	uint64_t *upto;			/* this run's, by ring; UINT64_MAX: not known where that begins */
	bool news;			/* of this run */

	/* The newest earlier run of which anything was settled; positions are of its CPUs. */
	bool earlier_known, earlier_news;
	uint8_t boot_id[16];
	Ringtail__V1__Cursor cursor;
	Ringtail__V1__Position *position, **list;
};

struct export_ack *export_ack_create(uint32_t rings, struct frame_codec *codec)
{
	struct export_ack *ack = calloc(1, sizeof(*ack));

	if (!ack)
		return NULL;
	ack->codec = codec;
	ack->rings = rings;
	ringtail__v1__cursor__init(&ack->cursor);
	ack->cursor.boot_id.data = ack->boot_id;
	ack->cursor.boot_id.len = sizeof(ack->boot_id);
	ack->upto = calloc(rings + 1, sizeof(*ack->upto));
	ack->position = calloc(CURSOR_POSITIONS_MAX, sizeof(*ack->position));
	ack->list = calloc(CURSOR_POSITIONS_MAX, sizeof(*ack->list));
	if (ack->upto && ack->position && ack->list) {
		ack->cursor.position = ack->list;
		return ack;
	}
	export_ack_destroy(ack);
	return NULL;
}

void export_ack_destroy(struct export_ack *ack)
{
	if (!ack)
		return;
	free(ack->upto);
	free(ack->position);
	free(ack->list);
	free(ack);
}

void export_ack_begin(struct export_ack *ack, const struct stream *stream)
{
	for (uint32_t i = 0; i < ack->rings; i++)
		ack->upto[i] = stream->ring[i].unknown ? UINT64_MAX : stream_place(stream, i);
}

/* Of an earlier run: from here on it is that one's frames. */
static struct export_place place_of_hello(const struct export_ack *ack,
					  const struct frame_ref *frame)
{
	struct export_place place = {.kind = EXPORT_PLACE_NOWHERE};
	Ringtail__V1__ServerHello *hello = NULL;
	uint8_t raw[HELLO_BYTES_MAX];
	struct frame_header header;
	const uint8_t *body;

	if (frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header) == FRAME_OK &&
	    frame_open(ack->codec, frame->data, &header, raw, &body) == FRAME_OK)
		hello = message_unpack(&ringtail__v1__server_hello__descriptor, NULL, body,
				       header.raw_bytes);
	if (hello && hello->boot_id.len == sizeof(place.boot_id)) {
		place.kind = EXPORT_PLACE_RUN;
		place.seq = hello->epoch;
		memcpy(place.boot_id, hello->boot_id.data, sizeof(place.boot_id));
	}
	ringtail__v1__server_hello__free_unpacked(hello, NULL);
	return place;
}

struct export_place export_ack_place(const struct export_ack *ack, const struct stream *stream,
				     const struct frame_ref *frame)
{
	bool earlier = frame->ring == UINT32_MAX;

	if (frame->type == FRAME_SERVER_HELLO && earlier)
		return place_of_hello(ack, frame);
	if (frame->type == FRAME_BATCH && earlier)
		return (struct export_place){EXPORT_PLACE_CPU, frame->cpu, frame->end_seq, {0}};
	if (frame->type == FRAME_BATCH && frame->ring < ack->rings)
		return (struct export_place){EXPORT_PLACE_RING, frame->ring,
					     stream_place(stream, frame->ring), {0}};
	return (struct export_place){.kind = EXPORT_PLACE_NONE};
}

static void settle_cpu(struct export_ack *ack, uint32_t cpu, uint64_t seq)
{
	Ringtail__V1__Cursor *cursor = &ack->cursor;
	size_t i = 0;

	if (!ack->earlier_known)
		return;
	while (i < cursor->n_position && ack->list[i]->cpu != cpu)
		i++;
	if (i == CURSOR_POSITIONS_MAX)
		return;			/* of so many CPUs some are sent again */
	if (i == cursor->n_position) {
		ringtail__v1__position__init(&ack->position[i]);
		ack->list[i] = &ack->position[i];
		ack->list[i]->cpu = cpu;
		cursor->n_position++;
	}
	ack->list[i]->seq = seq;
	ack->earlier_news = true;
}

void export_ack_settle(struct export_ack *ack, const struct export_place *place)
{
	switch (place->kind) {
	case EXPORT_PLACE_NONE:
		break;
	case EXPORT_PLACE_RING:
		ack->upto[place->of] = place->seq;
		ack->news = true;
		break;
	case EXPORT_PLACE_CPU:
		settle_cpu(ack, place->of, place->seq);
		break;
	case EXPORT_PLACE_NOWHERE:
		ack->earlier_known = false;
		break;
	case EXPORT_PLACE_RUN:
		ack->earlier_known = true;
		memcpy(ack->boot_id, place->boot_id, sizeof(ack->boot_id));
		ack->cursor.epoch = place->seq;
		ack->cursor.n_position = 0;
		break;
	}
}

void export_ack_tell(struct export_ack *ack, struct fanout_tap *tap)
{
	if (ack->earlier_news)
		fanout_tap_ack_earlier(tap, &ack->cursor);
	if (ack->news)
		fanout_tap_ack(tap, ack->upto);
	ack->earlier_news = ack->news = false;
}
