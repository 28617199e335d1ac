#include "daemon/export/ack.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/stream/stream.h"
#include "proto/limits.h"
#include "proto/message.h"

#define HELLO_BYTES_MAX 4096	/* its texts are names, of a host and of versions */

struct export_ack {
	struct frame_codec *codec;
	struct cursor *here;		/* without rings of which it is not known where they begin */
	struct cursor *earlier;		/* of the newest earlier run of which anything was settled */
	bool earlier_known;
	bool here_news, earlier_news;
};

struct export_ack *export_ack_create(const struct run *run, uint32_t rings,
				     struct frame_codec *codec)
{
	struct export_ack *ack = calloc(1, sizeof(*ack));

	if (!ack)
		return NULL;
	ack->codec = codec;
	ack->here = cursor_create(rings);
	ack->earlier = cursor_create(CURSOR_POSITIONS_MAX);
	if (ack->here && ack->earlier) {
		ack->here->run = *run;
		return ack;
	}
	export_ack_destroy(ack);
	return NULL;
}

void export_ack_destroy(struct export_ack *ack)
{
	if (!ack)
		return;
	free(ack->here);
	free(ack->earlier);
	free(ack);
}

void export_ack_begin(struct export_ack *ack, const struct stream *stream)
{
	ack->here->n = 0;
	for (uint32_t i = 0; i < ack->here->capacity; i++)
		if (!stream->ring[i].unknown)
			cursor_append(ack->here, stream->cpu_of[i], stream_place(stream, i));
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
	if (hello)
		place.run = run_of_message(hello->boot_id, hello->epoch);
	if (run_is_named(&place.run))
		place.kind = EXPORT_PLACE_RUN;
	ringtail__v1__server_hello__free_unpacked(hello, NULL);
	return place;
}

struct export_place export_ack_place(const struct export_ack *ack, const struct stream *stream,
				     const struct frame_ref *frame)
{
	bool earlier = frame_ref_is_earlier(frame);

	if (frame->type == FRAME_SERVER_HELLO && earlier)
		return place_of_hello(ack, frame);
	if (frame->type == FRAME_BATCH && earlier)
		return (struct export_place){.kind = EXPORT_PLACE_EARLIER, .cpu = frame->cpu,
					     .seq = frame->end_seq};
	if (frame->type == FRAME_BATCH && frame->ring < ack->here->capacity)
		return (struct export_place){.kind = EXPORT_PLACE_HERE, .cpu = frame->cpu,
					     .seq = stream_place(stream, frame->ring)};
	return (struct export_place){.kind = EXPORT_PLACE_NONE};
}

void export_ack_settle(struct export_ack *ack, const struct export_place *place)
{
	switch (place->kind) {
	case EXPORT_PLACE_NONE:
		break;
	case EXPORT_PLACE_HERE:
		ack->here_news |= cursor_put(ack->here, place->cpu, place->seq);
		break;
	case EXPORT_PLACE_EARLIER:
		/* Of more CPUs than there is room for some are sent again. */
		ack->earlier_news |= ack->earlier_known &&
				     cursor_put(ack->earlier, place->cpu, place->seq);
		break;
	case EXPORT_PLACE_NOWHERE:
		ack->earlier_known = false;
		break;
	case EXPORT_PLACE_RUN:
		ack->earlier_known = true;
		ack->earlier->run = place->run;
		ack->earlier->n = 0;
		break;
	}
}

void export_ack_tell(struct export_ack *ack, struct fanout *fanout, struct subscriber *subscriber)
{
	struct error ignored;

	/* Refused where its stream is not there yet: the next one says more. */
	if (ack->earlier_news)
		fanout_ack(fanout, subscriber, ack->earlier, &ignored);
	if (ack->here_news)
		fanout_ack(fanout, subscriber, ack->here, &ignored);
	ack->earlier_news = ack->here_news = false;
}
