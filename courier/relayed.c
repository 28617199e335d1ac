#include "courier/relayed.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "courier/notice.h"
#include "courier/watch.h"
#include "proto/backoff.h"
#include "proto/limits.h"
#include "proto/message.h"

/* One host of the relay, on this connection. */
struct lane {
	struct window window;
	uint32_t number;
	char host[HOST_BYTES_MAX];
	struct parcel_label label;	/* of the run that its frames belong to now */
	uint64_t announced_ns;		/* since when that run is in PREFIX.runs, or on its way there; 0: it is not */
	uint64_t items;			/* frames that came */
	uint64_t told;			/* of these, the relay knows */
};

struct blob {
	uint8_t *bytes;
	size_t n;
};

struct relayed {
	const struct courier_settings *settings;
	struct address address;
	struct producer *producer;
	struct windows windows;
	struct watch watch;
	struct frame_codec *codec;
	struct conn *conn;		/* NULL: the relay is gone */
	struct backoff backoff;
	uint64_t redial_ns;
	struct lane **lane;		/* by number */
	uint32_t lanes, capacity;

	/* What the last Consign said of what comes now. */
	enum {
		RELAYED_CONSIGN,	/* another Consign */
		RELAYED_HELLO,		/* a run's ServerHello, then */
		RELAYED_CATALOG,	/* its Catalog, and */
		RELAYED_SUBSCRIBED,
		RELAYED_ITEM,		/* a frame of the run */
	} expected;
	struct lane *at;
	struct parcel_label label;
	struct blob hello;
	bool out_of_memory;
	uint8_t raw[FRAME_RAW_BYTES_MAX];
};

/* ---- Lanes ------------------------------------------------------------------------------------- */

static void free_lanes(struct relayed *relayed)
{
	while (relayed->lanes) {
		struct lane *lane = relayed->lane[--relayed->lanes];

		window_fini(&lane->window);
		free(lane);
	}
}

static struct lane *add_lane(struct relayed *relayed)
{
	struct lane *lane;

	if (relayed->lanes == relayed->capacity) {
		uint32_t capacity = relayed->capacity ? 2 * relayed->capacity : 64;
		struct lane **larger = reallocarray(relayed->lane, capacity, sizeof(*larger));

		if (!larger)
			return NULL;
		relayed->lane = larger;
		relayed->capacity = capacity;
	}
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	window_init(&lane->window, &relayed->windows, lane->host);
	lane->number = relayed->lanes;
	relayed->lane[relayed->lanes++] = lane;
	return lane;
}

/* Its frames that Kafka has, or has in another form, in their order from the first one on. */
static uint64_t dealt_with(const struct lane *lane)
{
	const struct parcel *first = TAILQ_FIRST(&lane->window.parcels);

	return first && !lane->window.refused ? first->items : lane->items;
}

/* ---- What the relay is told -------------------------------------------------------------------- */

static bool tell(struct relayed *relayed, Ringtail__V1__DeliveredLane *lane, size_t n)
{
	Ringtail__V1__Delivered message = RINGTAIL__V1__DELIVERED__INIT;
	Ringtail__V1__DeliveredLane *at[LANES_TOLD_MAX];
	struct ringtail_error ignored;		/* a connection that breaks is noticed where it is read */

	for (size_t i = 0; i < n; i++)
		at[i] = &lane[i];
	message.lane = at;
	message.n_lane = n;
	return !n || conn_send(relayed->conn, FRAME_DELIVERED, &message.base, &ignored) == 0;
}

/* False: the relay knows it all. */
static bool note_delivered(struct lane *lane, Ringtail__V1__DeliveredLane *told)
{
	uint64_t upto = dealt_with(lane);

	if (upto <= lane->told)
		return false;
	*told = (Ringtail__V1__DeliveredLane)RINGTAIL__V1__DELIVERED_LANE__INIT;
	told->lane = lane->number;
	told->frames = lane->told = upto;
	told->refused = lane->window.refused;
	return true;
}

/* Of each host of which something has moved since. */
static void tell_relay(struct relayed *relayed)
{
	Ringtail__V1__DeliveredLane told[LANES_TOLD_MAX];
	struct window *window;
	size_t n = 0;

	while (n < LANES_TOLD_MAX && (window = TAILQ_FIRST(&relayed->windows.moved))) {
		if (window->refused)
			window_give_up_waiting(window);
		TAILQ_REMOVE(&relayed->windows.moved, window, moved_link);
		window->has_moved = false;
		n += note_delivered((struct lane *)window, &told[n]);
	}
	if (relayed->conn)
		tell(relayed, told, n);
}

/* Before the host begins again: else what came behind the refused run would be told as delivered, with what comes now. */
static void end_refusal(struct relayed *relayed, struct lane *lane)
{
	Ringtail__V1__DeliveredLane told;

	window_give_up_waiting(&lane->window);
	if (note_delivered(lane, &told))
		tell(relayed, &told, 1);
	lane->window.refused = false;
	lane->announced_ns = 0;
}

/* ---- Frames of the relay, to parcels ------------------------------------------------------------ */

static void push(struct relayed *relayed, enum kafka_topic topic, const struct parcel_label *label,
		 const struct blob *a, const struct blob *b)
{
	struct parcel *parcel = parcel_create(topic, label, a->bytes, a->n, b->bytes, b->n);

	if (!parcel) {
		relayed->out_of_memory = true;
		return;
	}
	parcel->items = relayed->at->items;
	window_push(&relayed->at->window, parcel);
}

static int refuse(struct ringtail_error *error, const char *what)
{
	failure_set(error, EPROTO, "relay-protocol", "the relay %s", what);
	failure_hint(error, "install ringtaild and ringtail-courier of one version");
	return -EPROTO;
}

/* A lane serves another host when the one before has nothing on its way. */
static bool names_host(struct lane *lane, const char *host)
{
	if (strcmp(lane->host, host) == 0)
		return true;
	if (!parcel_host_is_good(host) || (lane->host[0] && !TAILQ_EMPTY(&lane->window.parcels)))
		return false;
	memcpy(lane->host, host, strlen(host) + 1);
	lane->announced_ns = 0;
	return true;
}

static int take_consign(struct relayed *relayed, const Ringtail__V1__Consign *consign,
			struct ringtail_error *error)
{
	bool begins = consign->host[0];

	if (consign->lane > relayed->lanes || consign->lane >= LANES_MAX ||
	    (consign->lane == relayed->lanes && !begins))
		return refuse(error, "names a lane that has not begun");
	relayed->at = consign->lane < relayed->lanes ? relayed->lane[consign->lane] : add_lane(relayed);
	if (!relayed->at) {
		relayed->out_of_memory = true;
		return 0;
	}
	relayed->expected = begins ? RELAYED_HELLO : RELAYED_ITEM;
	if (!begins) {
		relayed->label = relayed->at->label;
		relayed->label.span = (struct forward_span){
			.cpu = consign->cpu, .first_seq = consign->first_seq, .end_seq = consign->end_seq };
		return 0;
	}
	if (!names_host(relayed->at, consign->host))
		return refuse(error, "names a host that cannot be one");
	relayed->label = (struct parcel_label){ .run = run_of_message(consign->boot_id, consign->epoch) };
	return 0;
}

static int open_consign(struct relayed *relayed, const struct frame *frame, struct ringtail_error *error)
{
	Ringtail__V1__Consign *consign;
	const uint8_t *body;
	int err;

	if (frame->header.type != FRAME_CONSIGN ||
	    frame_open(relayed->codec, frame->bytes, &frame->header, relayed->raw, &body) != FRAME_OK)
		return refuse(error, "sends a frame of nobody");
	consign = message_unpack(&ringtail__v1__consign__descriptor, NULL, body, frame->header.raw_bytes);
	if (!consign)
		return refuse(error, "sends no good message");
	err = take_consign(relayed, consign, error);
	protobuf_c_message_free_unpacked(&consign->base, NULL);
	return err;
}

static void keep_hello(struct relayed *relayed, const struct frame *frame)
{
	uint8_t *copy = realloc(relayed->hello.bytes, frame->size);

	if (!copy) {
		relayed->out_of_memory = true;
		return;
	}
	memcpy(copy, frame->bytes, frame->size);
	relayed->hello = (struct blob){ .bytes = copy, .n = frame->size };
}

/* A stream begins, perhaps of a run that is announced already. */
static void begin_run(struct relayed *relayed, const struct frame *catalog)
{
	const struct blob value = { .bytes = (uint8_t *)catalog->bytes, .n = catalog->size };
	struct lane *lane = relayed->at;
	uint64_t now_ns = conn_now_ns();

	relayed->label.type = FRAME_SERVER_HELLO;
	relayed->label.catalog = frame_crc32c(0, catalog->bytes, catalog->size);
	if (lane->window.refused)
		end_refusal(relayed, lane);
	if (!run_equal(&lane->label.run, &relayed->label.run) || lane->label.catalog != relayed->label.catalog)
		lane->announced_ns = 0;
	lane->label = relayed->label;
	if (!parcel_run_is_due(lane->announced_ns, now_ns))
		return;
	push(relayed, KAFKA_RUNS, &relayed->label, &relayed->hello, &value);
	lane->announced_ns = now_ns;
}

static int take_item(struct relayed *relayed, const struct frame *frame, struct ringtail_error *error)
{
	const struct blob value = { .bytes = (uint8_t *)frame->bytes, .n = frame->size };
	unsigned type = frame->header.type;

	if (type != FRAME_BATCH && type != FRAME_GAP && type != FRAME_WATERMARK && type != FRAME_BYE)
		return refuse(error, "sends a frame that is none of events");
	relayed->label.type = type;
	relayed->label.span.known = type == FRAME_BATCH || type == FRAME_GAP;
	if (relayed->label.span.cpu >= CURSOR_POSITIONS_MAX ||
	    relayed->label.span.first_seq > relayed->label.span.end_seq)
		return refuse(error, "sends a frame of impossible numbers");
	if (!relayed->at->window.refused)
		push(relayed, KAFKA_FRAMES, &relayed->label, &value, &(struct blob){ 0 });
	if (relayed->out_of_memory)
		return 0;			/* it is in no window: what counts as an item may be acknowledged */
	relayed->at->items++;
	if (relayed->at->window.refused)
		window_note_move(&relayed->at->window);
	relayed->expected = RELAYED_CONSIGN;
	return 0;
}

static int take_error(struct relayed *relayed, const struct frame *frame, struct ringtail_error *error)
{
	Ringtail__V1__Error *message = NULL;
	const uint8_t *body;

	if (frame_open(relayed->codec, frame->bytes, &frame->header, relayed->raw, &body) == FRAME_OK)
		message = message_unpack(&ringtail__v1__error__descriptor, NULL, body, frame->header.raw_bytes);
	if (!message)
		return refuse(error, "sends no good error");
	failure_set(error, EACCES, message->code, "the relay answers: %s", message->what);
	failure_hint(error, "%s", message->hint);
	protobuf_c_message_free_unpacked(&message->base, NULL);
	return -EACCES;
}

static int take_frame(struct relayed *relayed, const struct frame *frame, struct ringtail_error *error)
{
	static const enum frame_type opens[] = {
		[RELAYED_HELLO] = FRAME_SERVER_HELLO, [RELAYED_CATALOG] = FRAME_CATALOG,
		[RELAYED_SUBSCRIBED] = FRAME_SUBSCRIBED,
	};
	const struct blob value = { .bytes = (uint8_t *)frame->bytes, .n = frame->size };

	if (frame->header.type == FRAME_ERROR)
		return take_error(relayed, frame, error);
	if (relayed->expected == RELAYED_CONSIGN)
		return open_consign(relayed, frame, error);
	if (relayed->expected == RELAYED_ITEM)
		return take_item(relayed, frame, error);
	if (frame->header.type != opens[relayed->expected])
		return refuse(error, "begins a stream in another way");
	if (relayed->expected == RELAYED_HELLO) {
		keep_hello(relayed, frame);
	} else if (relayed->expected == RELAYED_CATALOG) {
		begin_run(relayed, frame);
	} else {
		relayed->label.type = FRAME_SUBSCRIBED;
		push(relayed, KAFKA_FRAMES, &relayed->label, &value, &(struct blob){ 0 });
	}
	relayed->expected = relayed->expected == RELAYED_SUBSCRIBED ? RELAYED_CONSIGN : relayed->expected + 1;
	return 0;
}

/* ---- The relay comes and goes ------------------------------------------------------------------- */

static int dial(struct relayed *relayed, struct ringtail_error *error)
{
	Ringtail__V1__CourierHello hello = RINGTAIL__V1__COURIER_HELLO__INIT;
	int err = conn_open(&relayed->address, -1, &relayed->conn, error);

	if (err)
		return err;
	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = "ringtail-courier " RINGTAIL_VERSION;
	hello.window_bytes = relayed->windows.bytes_max;
	err = conn_send(relayed->conn, FRAME_COURIER_HELLO, &hello.base, error);
	if (err) {
		conn_close(relayed->conn);
		relayed->conn = NULL;
		return err;
	}
	conn_set_interrupt(relayed->conn, relayed->watch.events);
	relayed->expected = RELAYED_CONSIGN;
	return 0;
}

static void wait_for_relay(struct relayed *relayed)
{
	relayed->redial_ns = conn_now_ns() + backoff_next_ms(&relayed->backoff) * 1000000ull;
}

/* Nothing of it is on its way to Kafka any more: the relay, or the next one, sends it again. */
static void leave(struct relayed *relayed, const struct ringtail_error *why)
{
	notice_warn("relay-gone", "the relay disconnected: %s%s%s; reconnecting", why->what, why->hint[0] ? "; " : "",
		    why->hint);
	conn_close(relayed->conn);
	relayed->conn = NULL;
	producer_call_back(relayed->producer);
	free_lanes(relayed);
	relayed->at = NULL;
	wait_for_relay(relayed);
}

static void redial(struct relayed *relayed)
{
	struct ringtail_error error;

	if (conn_now_ns() < relayed->redial_ns)
		return;
	if (dial(relayed, &error))
		wait_for_relay(relayed);
	else
		notice_info("relay-back", "connected to the relay at %s", relayed->address.path);
}

/* ---- The loop ----------------------------------------------------------------------------------- */

static void print_ledger(const struct relayed *relayed, FILE *to)
{
	struct ledger_facts facts = { .json = relayed->settings->json, .hosts = relayed->lanes };

	for (uint32_t i = 0; i < relayed->lanes; i++)
		facts.unacknowledged += relayed->lane[i]->items - relayed->lane[i]->told;
	ledger_print(&relayed->windows, relayed->producer, &facts, to);
}

/* What the relay has: a bounded part of it. 0, or -errno with *error: the connection is over. */
static int read_relay(struct relayed *relayed, int wait_ms, struct ringtail_error *error)
{
	struct frame frame;

	for (unsigned i = 0; i < RELAY_FRAMES_MAX && !relayed->out_of_memory; i++) {
		enum conn_wait got = conn_wait(relayed->conn, i ? 0 : wait_ms, &frame, error);
		int err;

		if (got == CONN_TIMEOUT || got == CONN_INTERRUPTED)
			return 0;
		if (got == CONN_END)
			return failure_set(error, ECONNRESET, "relay-ended", "it has closed the connection");
		if (got != CONN_FRAME)
			return -ECONNRESET;
		err = take_frame(relayed, &frame, error);
		if (err)
			return err;
		backoff_reset(&relayed->backoff);
		if (windows_are_full(&relayed->windows))
			return 0;
	}
	return 0;
}

static int wait_ms_of(const struct relayed *relayed)
{
	int wait_ms = producer_wait_ms(relayed->producer);

	return wait_ms < 0 || wait_ms > (int)CHECKPOINT_INTERVAL_MS ? (int)CHECKPOINT_INTERVAL_MS : wait_ms;
}

static void turn(struct relayed *relayed, FILE *ledger)
{
	struct pollfd polled = { .fd = relayed->watch.events, .events = POLLIN };
	struct ringtail_error error = { 0 };

	if (!relayed->conn)
		redial(relayed);
	if (!relayed->conn || windows_are_full(&relayed->windows))
		poll(&polled, 1, relayed->conn ? wait_ms_of(relayed) : (int)REDIAL_DELAY_MS_MIN);
	else if (read_relay(relayed, wait_ms_of(relayed), &error))
		leave(relayed, &error);
	if (watch_take_signals(&relayed->watch))
		print_ledger(relayed, ledger);
	producer_run(relayed->producer);
	tell_relay(relayed);
}

/* What is on its way when it ends has so long to be confirmed; the relay gives the rest to the next courier. */
static void drain(struct relayed *relayed)
{
	uint64_t until_ns = conn_now_ns() + DRAIN_TIMEOUT_MS * 1000000ull;
	struct pollfd polled = { .fd = producer_fd(relayed->producer), .events = POLLIN };

	while (relayed->windows.count && conn_now_ns() < until_ns) {
		poll(&polled, 1, (int)CHECKPOINT_INTERVAL_MS);
		producer_run(relayed->producer);
		tell_relay(relayed);
	}
	if (relayed->windows.count)
		notice_warn("not-confirmed", "%u records were not confirmed in time: they are sent again the next time",
			    relayed->windows.count);
}

int relayed_run(struct relayed *relayed, FILE *ledger, struct ringtail_error *error)
{
	while (!relayed->watch.stopping && !relayed->out_of_memory)
		turn(relayed, ledger);
	if (!relayed->out_of_memory)
		drain(relayed);
	print_ledger(relayed, ledger);
	if (relayed->out_of_memory)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	notice_info("end", "the courier ends: it received a signal");
	return 0;
}

/* ---- Its beginning and its end ------------------------------------------------------------------ */

static int name_address(struct relayed *relayed, struct ringtail_error *error)
{
	char text[ADDRESS_PATH_BYTES + 8];

	snprintf(text, sizeof(text), "unix:%s", relayed->settings->relay);
	return address_parse(text, &relayed->address, error);
}

int relayed_create(const struct courier_settings *settings, struct relayed **made, struct ringtail_error *error)
{
	struct relayed *relayed = calloc(1, sizeof(*relayed));
	int err;

	if (!relayed)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	relayed->settings = settings;
	relayed->watch = (struct watch){ .events = -1, .signals = -1 };
	windows_init(&relayed->windows, settings->window_bytes);
	backoff_init(&relayed->backoff, conn_now_ns() ^ (uint64_t)getpid(), REDIAL_DELAY_MS_MIN, REDIAL_DELAY_MS_MAX);
	relayed->codec = frame_codec_create(1);
	err = relayed->codec ? name_address(relayed, error) :
			       failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (!err)
		err = producer_create(&settings->kafka, &relayed->windows, &relayed->producer, error);
	if (!err)
		err = watch_open(&relayed->watch, relayed->producer, error);
	if (!err)
		err = dial(relayed, error);
	if (err)
		relayed_destroy(relayed);
	else
		*made = relayed;
	return err;
}

void relayed_destroy(struct relayed *relayed)
{
	if (!relayed)
		return;
	conn_close(relayed->conn);
	producer_destroy(relayed->producer);
	free_lanes(relayed);
	free(relayed->lane);
	frame_codec_destroy(relayed->codec);
	free(relayed->hello.bytes);
	watch_close(&relayed->watch);
	free(relayed);
}
