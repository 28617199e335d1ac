#include "courier/courier.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "client/lib/forward.h"
#include "client/lib/limits.h"
#include "courier/notice.h"
#include "courier/producer.h"
#include "courier/window.h"
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
	struct window window;
	struct frame_codec *codec;
	int events;			/* epoll: reports of the producer, signals */
	int signals;
	bool stopping;
	const char *why;		/* it stops */
	char host[HOST_BYTES_MAX];
	struct parcel_label label;	/* of the run that frames belong to now */
	struct blob {
		uint8_t *bytes;
		size_t n;
	} hello, catalog;		/* the run's beginning */
	bool announced;			/* it is in PREFIX.runs, or on its way there */
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
		courier->announced = false;
	courier->label.run = run;
}

static void take_catalog(struct courier *courier, const struct frame *frame)
{
	uint32_t crc = frame_crc32c(0, frame->bytes, frame->size);

	keep(courier, &courier->catalog, frame);
	if (crc != courier->label.catalog)
		courier->announced = false;
	courier->label.catalog = crc;
}

static void announce(struct courier *courier)
{
	struct parcel_label label = courier->label;

	label.type = FRAME_SERVER_HELLO;
	if (!courier->announced)
		push(courier, KAFKA_RUNS, &label, &courier->hello, &courier->catalog);
	courier->announced = true;
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
	const struct window_ledger *ledger = &courier->window.ledger;
	uint64_t waiting = 0;
	const struct parcel *parcel;
	struct producer_stat stat;

	TAILQ_FOREACH(parcel, &courier->window.parcels, link)
		waiting += parcel->state != PARCEL_CONFIRMED;
	producer_stat(courier->producer, &stat);
	fprintf(to, courier->settings->json ?
		"{\"forwarded\":%" PRIu64 ",\"confirmed\":%" PRIu64 ",\"rejected\":%" PRIu64 ",\"in_flight\":%" PRIu64
		",\"residual\":%" PRId64 ",\"rejected_attempts\":%" PRIu64 ",\"resent\":%" PRIu64 ",\"bytes\":%" PRIu64
		",\"unacknowledged\":%" PRIu64 ",\"producers_failed\":%" PRIu64 ",\"errors\":%" PRIu64
		",\"slowest_ms\":%" PRIu64 ",\"stalled_ms\":%" PRIu64 ",\"lost\":%" PRIu64 "}\n" :
		"%" PRIu64 " forwarded = %" PRIu64 " confirmed + %" PRIu64 " rejected + %" PRIu64 " in flight; residual "
		"%" PRId64 "; attempts rejected: %" PRIu64 "; resent: %" PRIu64 "; bytes: %" PRIu64
		"; not acknowledged: %" PRIu64 "; producers that failed: %" PRIu64 "; errors: %" PRIu64
		"; slowest: %" PRIu64 " ms; longest stall: %" PRIu64 " ms; lost before: %" PRIu64 "\n",
		ledger->forwarded, ledger->confirmed, ledger->rejected, waiting,
		(int64_t)(ledger->forwarded - ledger->confirmed - ledger->rejected - waiting),
		ledger->rejected_attempts, ledger->resent, ledger->confirmed_bytes,
		courier->window.index - courier->acknowledged, stat.renewed, stat.errors,
		stat.slowest_ns / 1000000, stat.stalled_ns / 1000000, ringtail_totals(courier->ringtail)->lost);
	fflush(to);
}

/* ---- The loop ----------------------------------------------------------------------------------- */

static void take_signals(struct courier *courier, FILE *ledger)
{
	struct signalfd_siginfo info;

	while (read(courier->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1) {
			print_ledger(courier, ledger);
		} else {
			courier->stopping = true;
			courier->why = "it was told to";
		}
	}
}

/* What is about the daemon: true if the stream is over, with *error if that is a failure. */
static bool take_item(struct courier *courier, enum ringtail_kind kind, const struct ringtail_item *item,
		      int *err, struct ringtail_error *error)
{
	switch (kind) {
	case RINGTAIL_DISCONNECTED:
		notice_warn("daemon-gone", "the daemon is gone: %s; reconnecting", item->text);
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
	struct pollfd polled = { .fd = courier->events, .events = POLLIN };
	struct ringtail_item item;
	enum ringtail_kind kind;
	bool over = false;

	if (wait_ms < 0 || wait_ms > (int)CHECKPOINT_INTERVAL_MS)
		wait_ms = CHECKPOINT_INTERVAL_MS;
	if (window_is_full(&courier->window)) {
		poll(&polled, 1, wait_ms);
	} else {
		kind = ringtail_next(courier->ringtail, &item, wait_ms);
		over = take_item(courier, kind, &item, err, error);
	}
	if (conn_now_ns() - courier->checked_ns >= CHECKPOINT_INTERVAL_MS * 1000000ull)
		mark_place(courier);
	take_signals(courier, ledger);
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
	while (courier->window.count && !producer_is_refused(courier->producer) && conn_now_ns() < until_ns) {
		poll(&polled, 1, (int)CHECKPOINT_INTERVAL_MS);
		producer_run(courier->producer);
	}
	acknowledge(courier);
	if (courier->window.count)
		notice_warn("not-confirmed", "%u records were not confirmed in time: they are sent again the next time",
			    courier->window.count);
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

	while (!courier->stopping && !courier->out_of_memory && !producer_is_refused(courier->producer) &&
	       !turn(courier, ledger, &err, error))
		;
	/* Behind a run that nobody could decode, nothing is sent and nothing acknowledged. */
	if (!producer_is_refused(courier->producer))
		drain(courier);
	print_ledger(courier, ledger);
	if (courier->out_of_memory)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (producer_is_refused(courier->producer))
		return fail_refused(courier, error);
	if (!err)
		notice_info("end", "the courier ends: %s", courier->why);
	return err;
}

/* ---- Its beginning and its end ------------------------------------------------------------------ */

static int watch(struct courier *courier, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(courier->events, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_events(struct courier *courier, struct ringtail_error *error)
{
	sigset_t signals;
	int err = 0;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	courier->events = epoll_create1(EPOLL_CLOEXEC);
	courier->signals = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (courier->events < 0 || courier->signals < 0)
		err = -errno;
	if (!err)
		err = watch(courier, courier->signals);
	if (!err)
		err = watch(courier, producer_fd(courier->producer));
	return err ? failure_set(error, -err, "no-descriptor", "cannot wait for signals: %s", strerror(-err)) : 0;
}

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
	producer_set_host(courier->producer, courier->host);
	forward_set(courier->ringtail, take_frame, courier);
	err = ringtail_subscribe(courier->ringtail, &wanted, error);
	ringtail_set_interrupt(courier->ringtail, courier->events);	/* a report is no reason to give this up */
	return err;
}

int courier_create(const struct courier_settings *settings, struct courier **made, struct ringtail_error *error)
{
	struct courier *courier = calloc(1, sizeof(*courier));
	int err;

	if (!courier)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	courier->settings = settings;
	courier->events = courier->signals = -1;
	window_init(&courier->window, settings->window_bytes);
	courier->codec = frame_codec_create(1);
	err = courier->codec ? 0 : failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (!err)
		err = producer_create(&settings->kafka, settings->host, &courier->window, &courier->producer, error);
	if (!err)
		err = open_events(courier, error);
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
	if (courier->events >= 0)
		close(courier->events);
	if (courier->signals >= 0)
		close(courier->signals);
	free(courier);
}
