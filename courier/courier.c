#include "courier/courier.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "client/lib/forward.h"
#include "client/lib/limits.h"
#include "courier/notice.h"
#include "courier/producer.h"
#include "courier/watch.h"
#include "proto/limits.h"
#include "proto/message.h"

/* A place of the daemon's stream, and how many records came before it. */
struct checkpoint {
	char *place;			/* a cursor's text */
	uint64_t index;
};

struct courier {
	const struct courier_settings *settings;
	struct ringtail *ringtail;
	struct producer *producer;
	struct windows windows;
	struct window window;		/* the one host's */
	struct frame_codec *codec;
	struct watch watch;
	const char *why;		/* it stops */
	char host[HOST_BYTES_MAX];
	struct parcel_label label;	/* of the run that frames belong to now */
	struct blob {
		uint8_t *bytes;
		size_t n;
	} hello, catalog;		/* the run's beginning */
	uint64_t announced_ns;		/* since when it is in PREFIX.runs, or on its way there; 0: it is not */
	bool out_of_memory;
	struct checkpoint checkpoint[CHECKPOINTS_MAX];
	unsigned first, checkpoints;
	uint64_t checked_index;		/* records that came before the newest */
	uint64_t checked_ns;
	uint64_t acknowledged;		/* records behind the last acknowledgement */
	uint8_t raw[FRAME_RAW_BYTES_MAX];
};

/* ---- Frames of the daemon, to parcels --------------------------------------------------------- */

static void keep(struct courier *courier, struct blob *blob, const struct frame *frame)
{
	uint8_t *copy = malloc(frame->size);

	if (!copy) {
		courier->out_of_memory = true;
		return;
	}
	memcpy(copy, frame->bytes, frame->size);
	free(blob->bytes);
	*blob = (struct blob){ .bytes = copy, .n = frame->size };
}

static void push(struct courier *courier, enum kafka_topic topic, const struct parcel_label *label,
		 const struct blob *a, const struct blob *b)
{
	struct parcel *parcel = parcel_create(topic, label, a->bytes, a->n, b->bytes, b->n);

	if (parcel)
		window_push(&courier->window, parcel);
	else
		courier->out_of_memory = true;
}

static void take_hello(struct courier *courier, const struct frame *frame)
{
	Ringtail__V1__ServerHello *hello;
	const uint8_t *body;
	struct run run;

	keep(courier, &courier->hello, frame);
	if (frame_open(courier->codec, frame->bytes, &frame->header, courier->raw, &body) != FRAME_OK)
		return;
	hello = message_unpack(&ringtail__v1__server_hello__descriptor, NULL, body, frame->header.raw_bytes);
	if (!hello) {
		courier->out_of_memory = true;	/* the library has looked into it already */
		return;
	}
	run = run_of_message(hello->boot_id, hello->epoch);
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	if (!run_equal(&run, &courier->label.run))
		courier->announced_ns = 0;
	courier->label.run = run;
}

static void take_catalog(struct courier *courier, const struct frame *frame)
{
	uint32_t crc = frame_crc32c(0, frame->bytes, frame->size);

	keep(courier, &courier->catalog, frame);
	if (crc != courier->label.catalog)
		courier->announced_ns = 0;
	courier->label.catalog = crc;
}

static void announce(struct courier *courier)
{
	struct parcel_label label = courier->label;
	uint64_t now_ns = conn_now_ns();

	if (!parcel_run_is_due(courier->announced_ns, now_ns))
		return;
	label.type = FRAME_SERVER_HELLO;
	push(courier, KAFKA_RUNS, &label, &courier->hello, &courier->catalog);
	courier->announced_ns = now_ns;
}

static void take_frame(void *context, const struct frame *frame, const struct forward_span *span)
{
	struct blob value = { .bytes = (uint8_t *)frame->bytes, .n = frame->size };
	struct courier *courier = context;
	struct parcel_label label;

	if (courier->out_of_memory)
		return;			/* what comes behind a frame that is missing belongs to no place, or no run */
	switch (frame->header.type) {
	case FRAME_SERVER_HELLO:
		take_hello(courier, frame);
		break;
	case FRAME_CATALOG:
		take_catalog(courier, frame);
		break;
	case FRAME_SUBSCRIBED:
	case FRAME_BATCH:
	case FRAME_GAP:
	case FRAME_WATERMARK:
	case FRAME_BYE:
		announce(courier);
		label = courier->label;
		label.type = frame->header.type;
		label.span = *span;
		push(courier, KAFKA_FRAMES, &label, &value, &(struct blob){ 0 });
		break;
	default:			/* answers to requests, which a courier does not make */
		break;
	}
}

/* ---- Acknowledgements -------------------------------------------------------------------------- */

/* Where the stream is now, to be acknowledged when all that came before is confirmed. */
static void mark_place(struct courier *courier)
{
	struct checkpoint *at;
	char *text;

	/* A frame that found no memory is behind the stream's place, and not in the window. */
	if (courier->out_of_memory || courier->checkpoints == CHECKPOINTS_MAX ||
	    courier->checked_index == courier->window.index)
		return;
	text = malloc(CURSOR_TEXT_BYTES_MAX);
	if (!text || ringtail_cursor(courier->ringtail, text, CURSOR_TEXT_BYTES_MAX)) {
		free(text);		/* the next time, then */
		return;
	}
	at = &courier->checkpoint[(courier->first + courier->checkpoints++) % CHECKPOINTS_MAX];
	*at = (struct checkpoint){ .place = strdup(text), .index = courier->window.index };
	free(text);
	courier->checked_index = courier->window.index;
	courier->checked_ns = conn_now_ns();
	courier->out_of_memory |= !at->place;
}

/* The newest place before which all is confirmed. A connection that breaks is noticed where it is read. */
static void acknowledge(struct courier *courier)
{
	uint64_t upto = window_confirmed_upto(&courier->window);
	struct ringtail_error ignored;
	char *place = NULL;

	while (courier->checkpoints && courier->checkpoint[courier->first].index <= upto) {
		free(place);
		place = courier->checkpoint[courier->first].place;
		courier->acknowledged = courier->checkpoint[courier->first].index;
		courier->first = (courier->first + 1) % CHECKPOINTS_MAX;
		courier->checkpoints--;
	}
	if (place && place[strlen(place) - 1] != '/')	/* else no CPU has a place yet */
		forward_acknowledge(courier->ringtail, place, &ignored);
	free(place);
}

/* ---- The ledger -------------------------------------------------------------------------------- */

static void print_ledger(const struct courier *courier, FILE *to)
{
	const struct ledger_facts facts = {
		.json = courier->settings->json,
		.unacknowledged = courier->window.index - courier->acknowledged,
		.lost = ringtail_totals(courier->ringtail)->lost,
		.hosts = 1,
	};

	ledger_print(&courier->windows, courier->producer, &facts, to);
}

/* ---- The loop ----------------------------------------------------------------------------------- */

/* What is about the daemon: true if the stream is over, with *error if that is a failure. */
static bool take_item(struct courier *courier, enum ringtail_kind kind, const struct ringtail_item *item,
		      int *err, struct ringtail_error *error)
{
	switch (kind) {
	case RINGTAIL_DISCONNECTED:
		notice_warn("daemon-gone", "the daemon disconnected: %s; reconnecting", item->text);
		return false;
	case RINGTAIL_RECONNECTED:
		notice_info("daemon-back", "reconnected to the daemon at %s", item->text);
		return false;
	case RINGTAIL_END:
		courier->why = "the daemon ended the stream";
		return true;
	case RINGTAIL_ERROR:
		*error = *ringtail_last_error(courier->ringtail);
		*err = -EPROTO;
		return true;
	default:
		return false;
	}
}

/* One turn: what the daemon has, as long as there is room; reports; acknowledgements. */
static bool turn(struct courier *courier, FILE *ledger, int *err, struct ringtail_error *error)
{
	int wait_ms = producer_wait_ms(courier->producer);
	struct pollfd polled = { .fd = courier->watch.events, .events = POLLIN };
	struct ringtail_item item;
	enum ringtail_kind kind;
	bool over = false;

	if (wait_ms < 0 || wait_ms > (int)CHECKPOINT_INTERVAL_MS)
		wait_ms = CHECKPOINT_INTERVAL_MS;
	if (windows_are_full(&courier->windows)) {
		poll(&polled, 1, wait_ms);
	} else {
		kind = ringtail_next(courier->ringtail, &item, wait_ms);
		over = take_item(courier, kind, &item, err, error);
	}
	if (conn_now_ns() - courier->checked_ns >= CHECKPOINT_INTERVAL_MS * 1000000ull)
		mark_place(courier);
	if (watch_take_signals(&courier->watch))
		print_ledger(courier, ledger);
	if (courier->watch.stopping)
		courier->why = "it was told to";
	producer_run(courier->producer);
	acknowledge(courier);
	return over;
}

/* What is on its way when it ends has so long to be confirmed; the rest is sent again by the next courier. */
static void drain(struct courier *courier)
{
	uint64_t until_ns = conn_now_ns() + DRAIN_TIMEOUT_MS * 1000000ull;
	struct pollfd polled = { .fd = producer_fd(courier->producer), .events = POLLIN };

	mark_place(courier);
	while (courier->windows.count && !courier->window.refused && conn_now_ns() < until_ns) {
		poll(&polled, 1, (int)CHECKPOINT_INTERVAL_MS);
		producer_run(courier->producer);
	}
	acknowledge(courier);
	if (courier->windows.count)
		notice_warn("not-confirmed", "%u records were not confirmed in time: they are sent again the next time",
			    courier->windows.count);
}

static int fail_refused(const struct courier *courier, struct ringtail_error *error)
{
	failure_set(error, EMSGSIZE, "run-rejected", "Kafka does not take the beginning of this run: its catalog has "
		    "%zu bytes; the events stay with the daemon", courier->catalog.n);
	failure_hint(error, "raise max.message.bytes of %s.runs", courier->settings->kafka.prefix);
	return -EMSGSIZE;
}

int courier_run(struct courier *courier, FILE *ledger, struct ringtail_error *error)
{
	int err = 0;

	while (!courier->watch.stopping && !courier->out_of_memory && !courier->window.refused &&
	       !turn(courier, ledger, &err, error))
		;
	/* Behind a run that nobody could decode, nothing is sent and nothing acknowledged. */
	if (!courier->window.refused)
		drain(courier);
	print_ledger(courier, ledger);
	if (courier->out_of_memory)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (courier->window.refused)
		return fail_refused(courier, error);
	if (!err)
		notice_info("end", "the courier ends: %s", courier->why);
	return err;
}

/* ---- Its beginning and its end ------------------------------------------------------------------ */

static int subscribe(struct courier *courier, struct ringtail_error *error)
{
	const struct courier_settings *settings = courier->settings;
	const struct ringtail_subscription wanted = {
		.probe = settings->probe,
		.probes = settings->probes,
		.filter = settings->filter,
		.consumer = settings->consumer,
		.flags = settings->flags,
		.count_only = true,
		.reconnect = true,
	};
	const char *host;
	int err = ringtail_connect(settings->address, &courier->ringtail, error);

	if (err)
		return err;
	host = settings->host ? settings->host : ringtail_host(courier->ringtail)->hostname;
	if (!parcel_host_is_good(host))
		return failure_set(error, EINVAL, "no-host", "'%.64s' is no host name that can be a key: name "
				   "the host with --host", host);
	snprintf(courier->host, sizeof(courier->host), "%s", host);
	forward_set(courier->ringtail, take_frame, courier);
	err = ringtail_subscribe(courier->ringtail, &wanted, error);
	ringtail_set_interrupt(courier->ringtail, courier->watch.events);	/* a report is no reason to give this up */
	return err;
}

int courier_create(const struct courier_settings *settings, struct courier **made, struct ringtail_error *error)
{
	struct courier *courier = calloc(1, sizeof(*courier));
	int err;

	if (!courier)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	courier->settings = settings;
	courier->watch = (struct watch){ .events = -1, .signals = -1 };
	windows_init(&courier->windows, settings->window_bytes);
	window_init(&courier->window, &courier->windows, courier->host);
	courier->codec = frame_codec_create(1);
	err = courier->codec ? 0 : failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (!err)
		err = producer_create(&settings->kafka, &courier->windows, &courier->producer, error);
	if (!err)
		err = watch_open(&courier->watch, courier->producer, error);
	if (!err)
		err = subscribe(courier, error);
	if (err)
		courier_destroy(courier);
	else
		*made = courier;
	return err;
}

void courier_destroy(struct courier *courier)
{
	if (!courier)
		return;
	ringtail_close(courier->ringtail);
	producer_destroy(courier->producer);
	window_fini(&courier->window);
	for (; courier->checkpoints; courier->checkpoints--, courier->first++)
		free(courier->checkpoint[courier->first % CHECKPOINTS_MAX].place);
	frame_codec_destroy(courier->codec);
	free(courier->hello.bytes);
	free(courier->catalog.bytes);
	watch_close(&courier->watch);
	free(courier);
}
