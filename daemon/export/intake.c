#include "daemon/export/intake.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/export/choose.h"
#include "proto/frame.h"
#include "proto/message.h"
#include "proto/ringtail.pb-c.h"

/* ---- Order of time --------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
	const struct export_event *a = *(struct export_event *const *)left;
	const struct export_event *b = *(struct export_event *const *)right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Of one CPU they come as they are to be. */
void export_order_put(struct export_order *order, struct export_event *event)
{
	assert(order->events < EXPORT_ORDER_EVENTS_MAX);
	if (order->events && compare(&order->event[order->events - 1], &event) > 0)
		order->unsorted = true;
	order->event[order->events++] = event;
}

void export_order_take(struct export_order *order, uint64_t upto_ns, struct export_list *list)
{
	unsigned taken = 0;

	if (order->unsorted)
		qsort(order->event, order->events, sizeof(order->event[0]), compare);
	order->unsorted = false;
	for (; taken < order->events && order->event[taken]->time_ns <= upto_ns; taken++)
		TAILQ_INSERT_TAIL(list, order->event[taken], link);
	order->events -= taken;
	memmove(order->event, order->event + taken, order->events * sizeof(order->event[0]));
}

/* ---- Frames ---------------------------------------------------------------------------------- */

struct export_intake {
	const struct export_host *host;
	const struct export_kind *kind;
	void *state;			/* the kind's */
	struct export_chooser *chooser;
	struct frame_codec *codec;
	struct export_run *run;		/* of what comes now; NULL: there was no memory for it */
	struct batch_decoder *decoder;	/* for its probes */
	struct batch_decoder *here;	/* for those of this run */
	struct export_order order;
	struct export_frames *frames;	/* or NULL */
	uint64_t newest_frame;
	uint8_t raw[FRAME_RAW_BYTES_MAX];
};

static void leave_run(struct export_intake *intake)
{
	if (intake->decoder != intake->here)
		batch_decoder_destroy(intake->decoder);
	export_run_put(intake->run);
	intake->decoder = NULL;
	intake->run = NULL;
}

struct export_intake *export_intake_create(const struct export_host *host,
					   const struct export_kind *kind, uint64_t events_per_s)
{
	struct export_intake *intake = calloc(1, sizeof(*intake));

	if (!intake)
		return NULL;
	intake->host = host;
	intake->kind = kind;
	intake->chooser = export_chooser_create(host, events_per_s);
	intake->codec = frame_codec_create(1);
	intake->run = export_run_get(host->run);
	intake->here = batch_decoder_create(host->run->shape, RT_PROBE_MAX);
	intake->decoder = intake->here;
	intake->state = kind->create ? kind->create(host) : NULL;
	if (intake->chooser && intake->codec && intake->here &&
	    (intake->state || !kind->create))
		return intake;
	export_intake_destroy(intake);
	return NULL;
}

void export_intake_destroy(struct export_intake *intake)
{
	if (!intake)
		return;
	for (unsigned i = 0; i < intake->order.events; i++)
		export_event_destroy(intake->order.event[i]);
	free(intake->frames);
	if (intake->state)
		intake->kind->destroy(intake->state);
	export_chooser_destroy(intake->chooser);
	frame_codec_destroy(intake->codec);
	leave_run(intake);
	batch_decoder_destroy(intake->here);
	free(intake);
}

/* The state sees every event: what is not sent may tell of what is. */
static void take_due(struct export_intake *intake, struct export_event *event, struct export_taken *taken)
{
	export_choose(intake->chooser, event);
	if (intake->kind->take)
		intake->kind->take(intake->state, event, taken);
	else if (event->class != EXPORT_NOTHING)
		TAILQ_INSERT_TAIL(&taken->send, event, link);
	else
		TAILQ_INSERT_TAIL(&taken->drop, event, link);
}

static void settle(struct export_intake *intake, struct export_taken *taken, struct export_list *list,
		   struct export_intake_counts *counts)
{
	struct export_event *event;

	while ((event = TAILQ_FIRST(&taken->send)) != NULL) {
		bool goes = export_choose_within_rate(intake->chooser, event->time_ns);

		TAILQ_REMOVE(&taken->send, event, link);
		TAILQ_INSERT_TAIL(goes ? list : &taken->drop, event, link);
	}
	while ((event = TAILQ_FIRST(&taken->drop)) != NULL) {
		TAILQ_REMOVE(&taken->drop, event, link);
		counts->filtered++;
		export_event_destroy(event);
	}
	counts->filtered += taken->merged;
	counts->memory += taken->memory;
	taken->merged = taken->memory = 0;
}

static void pass_on(struct export_intake *intake, uint64_t upto_ns, struct export_list *list,
		    struct export_intake_counts *counts)
{
	struct export_list due = TAILQ_HEAD_INITIALIZER(due);
	struct export_taken taken = {.send = TAILQ_HEAD_INITIALIZER(taken.send),
				     .drop = TAILQ_HEAD_INITIALIZER(taken.drop)};
	struct export_event *event;

	export_order_take(&intake->order, upto_ns, &due);
	while ((event = TAILQ_FIRST(&due)) != NULL) {
		TAILQ_REMOVE(&due, event, link);
		take_due(intake, event, &taken);
		settle(intake, &taken, list, counts);
	}
}

/* It has not been dealt with before it is destroyed. */
static void hold_frame(struct export_intake *intake, struct export_event *event)
{
	event->frames = intake->frames;
	event->frame = intake->newest_frame;
	if (event->frames)
		export_frames_hold(event->frames, event->frame);
}

static void take_batch(struct export_intake *intake, const uint8_t *message, size_t bytes,
		       struct export_list *list, struct export_intake_counts *counts)
{
	struct batch_summary summary;
	struct batch_item item;

	if (!intake->decoder ||
	    batch_decode_open(intake->decoder, message, bytes, &summary) != 0)
		return;
	while (batch_decode_next(intake->decoder, &item) < BATCH_END) {
		struct export_event *event;

		if (item.kind != BATCH_EVENT)
			continue;
		event = export_event_create(intake->run, summary.cpu, &item);
		if (!event)
			continue;
		hold_frame(intake, event);
		if (intake->order.events == EXPORT_ORDER_EVENTS_MAX) {
			counter_add(COUNTER_export_events_unordered, intake->order.events);
			pass_on(intake, UINT64_MAX, list, counts);
		}
		export_order_put(&intake->order, event);
		counts->taken++;
	}
}

static void take_watermark(struct export_intake *intake, const uint8_t *message, size_t bytes,
			   struct export_list *list, struct export_intake_counts *counts)
{
	Ringtail__V1__Watermark *watermark =
		message_unpack(&ringtail__v1__watermark__descriptor, NULL, message, bytes);

	if (watermark)
		pass_on(intake, watermark->time_ns, list, counts);
	ringtail__v1__watermark__free_unpacked(watermark, NULL);
}

/* Another run begins, and no watermark says that all of the one before has come: it has. */
static void take_hello(struct export_intake *intake, const uint8_t *message, size_t bytes,
		       struct export_list *list, struct export_intake_counts *counts)
{
	struct export_run *here = intake->host->run;
	Ringtail__V1__ServerHello *hello =
		message_unpack(&ringtail__v1__server_hello__descriptor, NULL, message, bytes);

	pass_on(intake, UINT64_MAX, list, counts);
	leave_run(intake);
	if (hello)
		intake->run = export_run_of_hello(here, hello);
	if (intake->run)
		intake->decoder = intake->run == here ? intake->here :
				  batch_decoder_create(intake->run->shape, RT_PROBE_MAX);
	ringtail__v1__server_hello__free_unpacked(hello, NULL);
}

static void take_catalog(struct export_intake *intake, const uint8_t *message, size_t bytes)
{
	Ringtail__V1__Catalog *catalog = message_unpack(&ringtail__v1__catalog__descriptor, NULL, message,
							bytes);

	if (catalog && intake->run)
		export_run_take_catalog(intake->run, catalog);
	else
		ringtail__v1__catalog__free_unpacked(catalog, NULL);
}

void export_intake_frame(struct export_intake *intake, uint64_t serial, const uint8_t *frame,
			 size_t bytes, uint64_t events, struct export_list *list,
			 struct export_intake_counts *counts)
{
	uint64_t before = counts->taken;
	struct frame_header header;
	const uint8_t *message;

	intake->newest_frame = serial;
	if (intake->frames)
		export_frames_begin(intake->frames, serial);
	if (frame_parse_header(frame, bytes, FRAME_RAW_BYTES_MAX, &header) == FRAME_OK &&
	    bytes == FRAME_HEADER_BYTES + header.body_bytes &&
	    frame_open(intake->codec, frame, &header, intake->raw, &message) == FRAME_OK) {
		if (header.type == FRAME_BATCH)
			take_batch(intake, message, header.raw_bytes, list, counts);
		else if (header.type == FRAME_SERVER_HELLO)
			take_hello(intake, message, header.raw_bytes, list, counts);
		else if (header.type == FRAME_CATALOG)
			take_catalog(intake, message, header.raw_bytes);
		else if (header.type == FRAME_WATERMARK)
			take_watermark(intake, message, header.raw_bytes, list, counts);
		else if (header.type == FRAME_BYE)
			pass_on(intake, UINT64_MAX, list, counts);
	}
	if (counts->taken - before < events) {
		counts->memory += events - (counts->taken - before);
		counts->taken = before + events;
	}
}

void export_intake_flush(struct export_intake *intake, struct export_list *list,
			 struct export_intake_counts *counts)
{
	struct export_taken taken = {.send = TAILQ_HEAD_INITIALIZER(taken.send),
				     .drop = TAILQ_HEAD_INITIALIZER(taken.drop)};

	pass_on(intake, UINT64_MAX, list, counts);
	if (!intake->kind->flush)
		return;
	intake->kind->flush(intake->state, &taken);
	settle(intake, &taken, list, counts);
}

uint64_t export_intake_waiting(const struct export_intake *intake)
{
	return intake->order.events + (intake->kind->waiting ? intake->kind->waiting(intake->state) : 0);
}

int export_intake_track(struct export_intake *intake)
{
	intake->frames = calloc(1, sizeof(*intake->frames));
	return intake->frames ? 0 : -ENOMEM;
}

uint64_t export_intake_settled_frame(struct export_intake *intake)
{
	return intake->frames ? export_frames_settled(intake->frames) : intake->newest_frame;
}
