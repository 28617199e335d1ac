#include "daemon/trigger/first_event.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/export/event.h"
#include "daemon/export/run.h"

static bool decode(struct export_run *run, struct batch_decoder *decoder, const uint8_t *message,
		   size_t message_bytes, char body[EXPORT_BODY_BYTES])
{
	struct batch_summary summary;
	struct export_event *event = NULL;
	enum batch_item_kind kind;
	struct batch_item item;

	if (batch_decode_open(decoder, message, message_bytes, &summary) != 0)
		return false;
	do
		kind = batch_decode_next(decoder, &item);
	while (kind == BATCH_LOSS);
	if (kind == BATCH_EVENT)
		event = export_event_create(run, summary.cpu, &item);
	if (!event)
		return false;
	export_event_body(event, body);
	export_event_destroy(event);
	return true;
}

void first_event_text(const struct frame_ref *frame, struct frame_codec *codec,
		      const Ringtail__V1__Catalog *catalog, char *text, size_t bytes)
{
	static const struct config nothing_chosen;
	static const uint8_t boot_id[16];	/* nobody asks for the event's id */
	struct export_host *host = export_host_create(catalog, boot_id, 0, &nothing_chosen);
	struct batch_decoder *decoder = host ? batch_decoder_create(host->run->shape, RT_PROBE_MAX) :
					       NULL;
	char body[EXPORT_BODY_BYTES];
	struct frame_header header;
	const uint8_t *message;
	uint8_t *raw = NULL;

	snprintf(text, bytes, "an event that cannot be shown");
	if (decoder && frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header) ==
			       FRAME_OK)
		raw = malloc(header.raw_bytes + 1);
	if (raw && frame_open(codec, frame->data, &header, raw, &message) == FRAME_OK &&
	    decode(host->run, decoder, message, header.raw_bytes, body))
		snprintf(text, bytes, "%s", body);
	free(raw);
	batch_decoder_destroy(decoder);
	export_host_destroy(host);
}
