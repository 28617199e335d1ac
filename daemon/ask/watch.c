#include "daemon/ask/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/stream/stream.h"
#include "proto/frame.h"

struct ask_watches {
	struct ask_watches_config config;
	struct batch_probe shape[RT_PROBE_MAX];		/* of the catalog, for the decoder */
	const Ringtail__V1__Probe *probe[RT_PROBE_MAX];	/* by id; NULL: there is none */
	struct batch_decoder *decoder;
};

/* ---- Events ---------------------------------------------------------------------------------- */

/* How many events it had; of a question, how many its events stand for. */
static uint64_t take_batch(struct ask_watch *watch, const uint8_t *message, size_t bytes)
{
	struct ask_watches *watches = watch->watches;
	struct batch_summary summary;
	struct batch_item item;
	uint64_t events = 0;

	if (batch_decode_open(watches->decoder, message, bytes, &summary) != 0)
		return 0;
	while (batch_decode_next(watches->decoder, &item) < BATCH_END)
		if (item.kind == BATCH_EVENT) {
			watch->event(watch->context, watches->probe[item.event.probe], summary.cpu, &item);
			events += item.counts ? item.counts->events : 1;
		}
	return events;
}

static void take(struct ask_watch *watch, const struct frame_ref *frame)
{
	struct frame_header header;
	const uint8_t *message;
	uint64_t events = 0;
	uint8_t *raw = NULL;

	if (!frame->events)
		return;
	if (frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header) == FRAME_OK)
		raw = malloc(header.raw_bytes + 1);
	if (raw && frame_open(watch->watches->config.codec, frame->data, &header, raw, &message) == FRAME_OK)
		events = take_batch(watch, message, header.raw_bytes);
	free(raw);
	watch->taken += frame->events;
	if (events < frame->events)
		counter_add(COUNTER_ask_events_uncounted, frame->events - events);
}

/* ---- As a subscriber --------------------------------------------------------------------------- */

/* What was missed is in the ledger of its stream, and told from there. */
static void on_gap(void *told, struct frame_ref *frame)
{
	*(bool *)told = true;
	frame_ref_put(frame);
}

static void on_wake(void *context)
{
	struct ask_watch *watch = context;

	for (unsigned frames = 0; frames < ASK_FRAMES_PER_TURN;) {
		struct frame_ref *frame;
		bool told = false;
		unsigned n = stream_peek(watch->stream, &frame, 1, on_gap, &told);

		if (!n && (!told || watch->stream->gaps))
			return;
		if (!n)
			continue;
		frame_ref_get(frame);
		stream_sent(watch->stream);
		take(watch, frame);
		frame_ref_put(frame);
		frames++;
	}
	/* What is made active here would run before anything else is looked for, until there are no more frames. */
	if (event_add(watch->turn, &(struct timeval){0}) != 0)
		event_active(watch->turn, EV_TIMEOUT, 0);
}

static void on_turn(evutil_socket_t fd, short what, void *context)
{
	struct ask_watch *watch = context;

	(void)fd, (void)what;
	if (watch->stream)
		on_wake(watch);
}

/* Probes may have been made since the last time. */
static void read_catalog(struct ask_watches *watches)
{
	const Ringtail__V1__Catalog *catalog = watches->config.catalog;

	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_MAX || probe->n_field > PROBE_FIELDS_MAX)
			continue;	/* none of its events comes */
		watches->probe[probe->id] = probe;
		watches->shape[probe->id] = (struct batch_probe){
			.fields = (uint8_t)probe->n_field,
			.has_duration = probe->n_field &&
					probe->field[0]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION,
			.known = true,
		};
	}
}

static int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	struct ask_watch *watch = context;

	(void)from;
	read_catalog(watch->watches);
	watch->stream = stream;
	return 0;
}

static void on_refused(void *context, const struct error *error)
{
	struct ask_watch *watch = context;

	if (strcmp(error->code, "shutting-down") != 0)
		watch->refused(watch->context, error);
}

int ask_watch_begin(struct ask_watch *watch, const struct subscription_request *what, struct error *error)
{
	const struct ask_watches_config *config = &watch->watches->config;
	const struct subscribe_request request = {.what = *what};

	watch->turn = event_new(config->base, -1, 0, on_turn, watch);
	if (!watch->turn)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	identity_set_unproved(&watch->identity);
	watch->identity.role = watch->role;
	memcpy(watch->identity.text, watch->name, sizeof(watch->identity.text));
	watch->subscriber = (struct subscriber){
		.identity = &watch->identity, .live = on_live, .refused = on_refused, .wake = on_wake, .context = watch,
	};
	return fanout_subscribe(config->fanout, &watch->subscriber, &request, error);
}

void ask_watch_end(struct ask_watch *watch)
{
	if (watch->subscriber.state != SUBSCRIBER_AWAY)
		fanout_leave(watch->watches->config.fanout, &watch->subscriber, true);
	stream_destroy(watch->stream);
	if (watch->turn)
		event_free(watch->turn);
	watch->stream = NULL;
	watch->turn = NULL;
}

int64_t ask_watch_residual(const struct ask_watch *watch)
{
	struct stream_stat stat;

	if (!watch->stream)
		return 0;
	stream_stat(watch->stream, &stat);
	return stat.residual + (int64_t)(watch->stream->delivered - watch->taken);
}

/* ---- Life -------------------------------------------------------------------------------------- */

struct ask_watches *ask_watches_create(const struct ask_watches_config *config)
{
	struct ask_watches *watches = calloc(1, sizeof(*watches));

	if (!watches)
		return NULL;
	watches->config = *config;
	read_catalog(watches);
	watches->decoder = batch_decoder_create(watches->shape, RT_PROBE_MAX);
	if (watches->decoder)
		return watches;
	free(watches);
	return NULL;
}

void ask_watches_destroy(struct ask_watches *watches)
{
	if (!watches)
		return;
	batch_decoder_destroy(watches->decoder);
	free(watches);
}
