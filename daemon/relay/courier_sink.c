#include "daemon/relay/courier_sink.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "proto/message.h"

/* One host's frames, on their way. */
struct lane {
	STAILQ_ENTRY(lane) ready_link;
	char name[IDENTITY_NAME_BYTES];
	uint32_t number;
	bool ready;			/* is in the sink's list */
	struct relay_items items;	/* not confirmed, in their order */
	struct relay_item *unsent;	/* the first of them that this courier does not have; NULL: it has all */
	struct relay_opening *opening;	/* that this courier had last; a reference; */
	uint64_t opened_ns;		/* and when it had it */
	uint64_t sent, delivered;	/* items, on this connection */
	struct stat_sink stat;		/* of all connections, since it is this host's; but for what is in flight */
};

struct courier_sink {
	struct relay_sink sink;
	struct courier_sink_config config;
	struct lane **lane;		/* by number */
	uint32_t lanes, capacity;
	void *by_name;			/* a tree of the same */
	STAILQ_HEAD(lane_list, lane) ready;
	struct relay_items homeless;	/* there was no memory for the lane of their host */
	struct event *tick;
	struct bufferevent *stream;	/* the courier's; NULL: it is away */
	bool greeted;
	uint64_t delivered;		/* frames, on this connection */
	struct stat_sink gone;		/* sums of hosts whose lanes serve others */
};

static struct courier_sink *of(struct relay_sink *sink)
{
	return (struct courier_sink *)sink;
}

/* ---- Lanes ------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct lane *)a)->name, ((const struct lane *)b)->name);
}

static void offer(struct courier_sink *sink, struct lane *lane)
{
	if (!lane->ready && lane->unsent)
		STAILQ_INSERT_TAIL(&sink->ready, lane, ready_link);
	lane->ready |= lane->unsent != NULL;
}

static struct lane *find_lane(struct courier_sink *sink, const char *name)
{
	struct lane key;
	void *found;

	snprintf(key.name, sizeof(key.name), "%s", name);
	found = tfind(&key, &sink->by_name, by_name);
	return found ? *(struct lane **)found : NULL;
}

/* There is one if there are more lanes than hosts that a relay knows: it forgets no host with items. */
static struct lane *find_idle(struct courier_sink *sink)
{
	for (uint32_t i = 0; i < sink->lanes; i++)
		if (STAILQ_EMPTY(&sink->lane[i]->items))
			return sink->lane[i];
	return NULL;
}

static struct lane *add_lane(struct courier_sink *sink)
{
	struct lane *lane;

	if (sink->lanes == sink->capacity) {
		uint32_t capacity = sink->capacity ? 2 * sink->capacity : 64;
		struct lane **larger = reallocarray(sink->lane, capacity, sizeof(*larger));

		if (!larger)
			return NULL;
		sink->lane = larger;
		sink->capacity = capacity;
	}
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	STAILQ_INIT(&lane->items);
	lane->number = sink->lanes;
	sink->lane[sink->lanes++] = lane;
	return lane;
}

static void add_stat(struct stat_sink *sum, const struct stat_sink *one)
{
	sum->consigned += one->consigned;
	sum->confirmed += one->confirmed;
	sum->rejected += one->rejected;
	sum->returned += one->returned;
	sum->in_flight += one->in_flight;
	sum->residual += llabs(one->residual);
}

static void stat_lane(const struct lane *lane, struct stat_sink *stat)
{
	*stat = lane->stat;
	stat->in_flight = lane->sent - lane->delivered;
	stat->residual = (int64_t)(stat->consigned - stat->confirmed - stat->rejected - stat->returned -
				   stat->in_flight);
}

/* It serves another host from now on. */
static void clear_lane(struct courier_sink *sink, struct lane *lane)
{
	struct stat_sink stat;

	stat_lane(lane, &stat);
	add_stat(&sink->gone, &stat);
	lane->stat = (struct stat_sink){0};
	tdelete(lane, &sink->by_name, by_name);
}

/* A lane whose host has nothing on its way serves another. NULL: out of memory. */
static struct lane *get_lane(struct courier_sink *sink, const char *name)
{
	struct lane *lane = find_lane(sink, name);

	if (lane)
		return lane;
	lane = sink->lanes < RELAY_HOSTS_MAX ? add_lane(sink) : find_idle(sink);
	if (!lane)
		return NULL;
	if (lane->name[0])
		clear_lane(sink, lane);
	relay_opening_put(lane->opening);
	lane->opening = NULL;
	snprintf(lane->name, sizeof(lane->name), "%s", name);
	if (tsearch(lane, &sink->by_name, by_name))
		return lane;
	lane->name[0] = '\0';		/* it is idle, and of no host */
	return NULL;
}

/* So many of the first of it are dealt with. */
static void confirm(struct lane *lane, uint64_t upto, int err)
{
	struct relay_item *item;

	while (lane->delivered < upto && (item = STAILQ_FIRST(&lane->items))) {
		STAILQ_REMOVE_HEAD(&lane->items, link);
		lane->delivered++;
		lane->stat.confirmed += !err;
		lane->stat.rejected += err != 0;
		item->confirmed(item, err);
	}
}

/* ---- To the courier ---------------------------------------------------------------------------- */

static void drop_reference(const void *data, size_t n, void *frame)
{
	(void)data, (void)n;
	frame_ref_put(frame);
}

/* Takes the reference. */
static bool put_frame(struct evbuffer *out, struct frame_ref *frame)
{
	if (!frame)
		return false;
	if (evbuffer_add_reference(out, frame->data, frame->bytes, drop_reference, frame) == 0)
		return true;
	frame_ref_put(frame);
	return false;
}

static bool put_opening(struct courier_sink *sink, struct evbuffer *out, struct lane *lane,
			struct relay_opening *opening)
{
	Ringtail__V1__Consign consign = RINGTAIL__V1__CONSIGN__INIT;

	consign.lane = lane->number;
	consign.host = lane->name;
	consign.boot_id.data = opening->run.boot_id;
	consign.boot_id.len = sizeof(opening->run.boot_id);
	consign.epoch = opening->run.epoch;
	if (!put_frame(out, frame_ref_pack(sink->config.codec, FRAME_CONSIGN, &consign.base)) ||
	    !put_frame(out, frame_ref_get(opening->hello)) ||
	    !put_frame(out, frame_ref_get(opening->catalog)) ||
	    !put_frame(out, frame_ref_get(opening->subscribed)))
		return false;
	relay_opening_put(lane->opening);
	lane->opening = relay_opening_get(opening);
	lane->opened_ns = clock_monotonic();
	return true;
}

/* Of a stream that goes on for days, too: the courier announces its run again. */
static bool must_open(const struct lane *lane, const struct relay_opening *opening)
{
	return lane->opening != opening || clock_monotonic() - lane->opened_ns >= RELAY_OPENING_NS;
}

static bool put_item(struct courier_sink *sink, struct evbuffer *out, struct lane *lane)
{
	Ringtail__V1__Consign consign = RINGTAIL__V1__CONSIGN__INIT;
	struct relay_item *item = lane->unsent;

	if (must_open(lane, item->opening) && !put_opening(sink, out, lane, item->opening))
		return false;
	consign.lane = lane->number;
	if (frame_ref_is_range(item->frame)) {
		consign.cpu = item->frame->cpu;
		consign.first_seq = item->frame->first_seq;
		consign.end_seq = item->frame->end_seq;
	}
	if (!put_frame(out, frame_ref_pack(sink->config.codec, FRAME_CONSIGN, &consign.base)) ||
	    !put_frame(out, frame_ref_get(item->frame)))
		return false;
	lane->unsent = STAILQ_NEXT(item, link);
	lane->sent++;
	lane->stat.consigned++;
	return true;
}

/* ---- Its connection ---------------------------------------------------------------------------- */

/* Whatever it has not delivered waits for the next one. */
static void close_stream(struct courier_sink *sink)
{
	if (!sink->stream)
		return;
	bufferevent_free(sink->stream);
	sink->stream = NULL;
	sink->greeted = false;
	for (uint32_t i = 0; i < sink->lanes; i++) {
		struct lane *lane = sink->lane[i];

		relay_opening_put(lane->opening);
		lane->opening = NULL;
		lane->unsent = STAILQ_FIRST(&lane->items);
		lane->stat.returned += lane->sent - lane->delivered;
		lane->sent = lane->delivered = 0;
		offer(sink, lane);
	}
}

static void leave(struct courier_sink *sink, const char *why)
{
	log_warn("courier-left", "the courier disconnected (%s): frames that it has not delivered wait for the next one; it had"
		 " delivered %llu frames", why, (unsigned long long)sink->delivered);
	close_stream(sink);
}

static void fill(struct courier_sink *sink)
{
	struct evbuffer *out = sink->stream ? bufferevent_get_output(sink->stream) : NULL;
	struct lane *lane;

	while (sink->greeted && evbuffer_get_length(out) < RELAY_COURIER_OUT_BYTES &&
	       (lane = STAILQ_FIRST(&sink->ready))) {
		STAILQ_REMOVE_HEAD(&sink->ready, ready_link);
		lane->ready = false;
		if (lane->unsent && !put_item(sink, out, lane)) {
			/* Half of it may be written: this connection cannot go on. */
			offer(sink, lane);
			leave(sink, "out of memory");
			return;
		}
		offer(sink, lane);
	}
}

/* Best effort: what a new connection has room for. */
static void say_no(struct courier_sink *sink, int fd, const struct error *error)
{
	Ringtail__V1__Error message = RINGTAIL__V1__ERROR__INIT;
	struct frame_ref *frame;

	message.code = (char *)error->code;
	message.what = (char *)error->what;
	message.hint = (char *)error->hint;
	message.fatal = true;
	log_warn("courier-refused", "[%s] %s", error->code, error->what);
	frame = frame_ref_pack(sink->config.codec, FRAME_ERROR, &message.base);
	if (frame && send(fd, frame->data, frame->bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("courier-unheard", "the courier is not told: %s", strerror(errno));
	frame_ref_put(frame);
}

static void refuse(struct courier_sink *sink, const char *code, const char *what, const char *hint)
{
	struct error error;

	error_set(&error, EPROTO, code, "%s", what);
	error_hint(&error, "%s", hint);
	if (!sink->greeted)
		say_no(sink, bufferevent_getfd(sink->stream), &error);
	leave(sink, what);
}

static void take_hello(struct courier_sink *sink, const Ringtail__V1__CourierHello *hello)
{
	if (hello->version_min > FRAME_VERSION || hello->version_max < FRAME_VERSION) {
		refuse(sink, "version-unsupported", "the relay and this courier have no version of the protocol in"
		       " common", "install ringtaild and ringtail-courier of one version");
		return;
	}
	if (hello->window_bytes < RELAY_HELD_BYTES) {
		refuse(sink, "courier-window", "the courier holds less than this relay may have on its way",
		       "start ringtail-courier without --window, or with 128MiB or more");
		return;
	}
	bufferevent_set_timeouts(sink->stream, NULL, NULL);
	sink->greeted = true;
	sink->delivered = 0;
	log_info("courier-came", "a courier is connected");
	fill(sink);
}

/* False: that cannot be. */
static bool take_lane(struct courier_sink *sink, const Ringtail__V1__DeliveredLane *message)
{
	struct lane *lane = message->lane < sink->lanes ? sink->lane[message->lane] : NULL;

	if (!lane || message->frames < lane->delivered || message->frames > lane->sent)
		return false;
	if (message->refused && message->frames > lane->delivered) {
		log_warn("courier-refuses", "Kafka does not take the beginning of a run of the host %s: it is"
			 " disconnected, and sends that again; see the courier's log", lane->name);
		confirm(lane, message->frames, -EMSGSIZE);
	} else {
		sink->delivered += message->frames - lane->delivered;
		confirm(lane, message->frames, 0);
	}
	return true;
}

static void take_delivered(struct courier_sink *sink, const Ringtail__V1__Delivered *message)
{
	for (size_t i = 0; i < message->n_lane; i++)
		if (!take_lane(sink, message->lane[i])) {
			refuse(sink, "delivered-unknown", "it has delivered what it was not sent", "");
			return;
		}
}

static void take_frame(struct courier_sink *sink, const uint8_t *bytes, const struct frame_header *header)
{
	static uint8_t raw[RELAY_COURIER_IN_BYTES];
	enum frame_type wanted = sink->greeted ? FRAME_DELIVERED : FRAME_COURIER_HELLO;
	const uint8_t *body;
	void *message;

	if (header->type != wanted ||
	    frame_open(sink->config.codec, bytes, header, raw, &body) != FRAME_OK) {
		refuse(sink, "unexpected-frame", "it sends no good frame of a courier",
		       "this socket is for ringtail-courier --relay");
		return;
	}
	message = message_unpack(sink->greeted ? &ringtail__v1__delivered__descriptor :
						 &ringtail__v1__courier_hello__descriptor, NULL, body,
				 header->raw_bytes);
	if (!message) {
		refuse(sink, "bad-message", "a frame of it holds no good message", "");
		return;
	}
	if (sink->greeted)
		take_delivered(sink, message);
	else
		take_hello(sink, message);
	protobuf_c_message_free_unpacked(message, NULL);
}

static void on_read(struct bufferevent *stream, void *context)
{
	struct courier_sink *sink = context;
	struct evbuffer *in = bufferevent_get_input(stream);
	struct frame_header header;
	uint8_t head[FRAME_HEADER_BYTES];

	while (sink->stream == stream && evbuffer_copyout(in, head, sizeof(head)) == sizeof(head)) {
		enum frame_status status = frame_parse_header(head, sizeof(head), RELAY_COURIER_IN_BYTES, &header);
		size_t bytes = FRAME_HEADER_BYTES + header.body_bytes;
		uint8_t *whole;

		if (status != FRAME_OK || header.body_bytes > RELAY_COURIER_IN_BYTES) {
			refuse(sink, "unexpected-frame", "it sends no frames",
			       "this socket is for ringtail-courier --relay");
			return;
		}
		if (evbuffer_get_length(in) < bytes)
			return;
		whole = evbuffer_pullup(in, (ssize_t)bytes);
		if (!whole) {
			leave(sink, "out of memory");
			return;
		}
		take_frame(sink, whole, &header);
		if (sink->stream == stream)
			evbuffer_drain(in, bytes);
	}
}

static void on_written(struct bufferevent *stream, void *context)
{
	(void)stream;
	fill(context);
}

static void on_event(struct bufferevent *stream, short what, void *context)
{
	struct courier_sink *sink = context;

	(void)stream;
	leave(sink, what & BEV_EVENT_TIMEOUT ? "it did not say hello in time" :
		    what & BEV_EVENT_EOF	? "it has ended" : "the connection broke");
}

static int admit(const struct courier_sink *sink, int fd, struct error *error)
{
	struct client_identity identity;
	int err = identity_of_unix_peer(fd, &identity);

	if (err)
		return error_set(error, -err, "peer-unknown", "the kernel does not say who the courier is: %s",
				 strerror(-err));
	if (sink->stream) {
		error_set(error, EBUSY, "courier-busy", "this relay has a courier already");
		error_hint(error, "end the other one first");
		return -EBUSY;
	}
	err = gate_admit(sink->config.gate, &identity, "", error);
	return err ? err : gate_allow(sink->config.gate, &identity, ROLE_OPERATOR,
				      "carry what hosts send to Kafka", error);
}

void courier_sink_accept(void *context, int fd, const struct address *address, const char *peer)
{
	struct courier_sink *sink = of(context);
	struct timeval patience = {.tv_sec = (time_t)(sink->config.hello_timeout_ns / NS_PER_S),
				   .tv_usec = (suseconds_t)(sink->config.hello_timeout_ns % NS_PER_S / 1000)};
	struct error error = {0};

	(void)address, (void)peer;
	if (admit(sink, fd, &error) != 0) {
		say_no(sink, fd, &error);
		close(fd);
		return;
	}
	sink->stream = bufferevent_socket_new(sink->config.base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!sink->stream) {
		log_warn("courier-memory", "cannot serve a courier: out of memory");
		close(fd);
		return;
	}
	bufferevent_setcb(sink->stream, on_read, on_written, on_event, sink);
	bufferevent_setwatermark(sink->stream, EV_READ, 0, RELAY_COURIER_IN_BYTES + FRAME_HEADER_BYTES);
	bufferevent_setwatermark(sink->stream, EV_WRITE, RELAY_COURIER_OUT_BYTES / 2, 0);
	bufferevent_set_timeouts(sink->stream, &patience, NULL);
	if (bufferevent_enable(sink->stream, EV_READ | EV_WRITE) != 0)
		leave(sink, "out of memory");
}

/* ---- Of the relay ------------------------------------------------------------------------------ */

static void refuse_homeless(struct courier_sink *sink)
{
	struct relay_item *item;

	while ((item = STAILQ_FIRST(&sink->homeless))) {
		STAILQ_REMOVE_HEAD(&sink->homeless, link);
		item->confirmed(item, -ENOMEM);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct courier_sink *sink = context;

	(void)fd, (void)what;
	refuse_homeless(sink);
	fill(sink);
}

static void forward(struct relay_sink *base, struct relay_item *item)
{
	struct courier_sink *sink = of(base);
	struct lane *lane = get_lane(sink, item->host);

	/* Nothing is confirmed, and no connection given up, from inside here. */
	event_active(sink->tick, EV_TIMEOUT, 0);
	if (!lane) {
		STAILQ_INSERT_TAIL(&sink->homeless, item, link);
		return;
	}
	STAILQ_INSERT_TAIL(&lane->items, item, link);
	if (!lane->unsent)
		lane->unsent = item;
	offer(sink, lane);
}

static void free_sink(struct courier_sink *sink)
{
	for (uint32_t i = 0; i < sink->lanes; i++) {
		struct lane *lane = sink->lane[i];

		if (lane->name[0])
			tdelete(lane, &sink->by_name, by_name);
		relay_opening_put(lane->opening);
		free(lane);
	}
	free(sink->lane);
	if (sink->tick)
		event_free(sink->tick);
	free(sink);
}

/* Its agents have what is not confirmed, and send it again. */
static void destroy(struct relay_sink *base)
{
	struct courier_sink *sink = of(base);

	close_stream(sink);
	refuse_homeless(sink);
	for (uint32_t i = 0; i < sink->lanes; i++)
		confirm(sink->lane[i], UINT64_MAX, -ECANCELED);
	free_sink(sink);
}

static void stat_of(struct relay_sink *base, const char *host, struct stat_sink *stat)
{
	struct courier_sink *sink = of(base);
	const struct lane *lane = host ? find_lane(sink, host) : NULL;
	struct stat_sink one;

	if (lane)
		stat_lane(lane, stat);
	if (host)
		return;
	*stat = sink->gone;
	for (uint32_t i = 0; i < sink->lanes; i++) {
		stat_lane(sink->lane[i], &one);
		add_stat(stat, &one);
	}
}

static bool has_courier(const struct relay_sink *base)
{
	return ((const struct courier_sink *)base)->greeted;
}

int courier_sink_create(const struct courier_sink_config *config, struct relay_sink **out,
			struct error *error)
{
	static const struct relay_sink_ops ops = {.forward = forward, .destroy = destroy, .stat = stat_of,
						 .has_courier = has_courier};
	struct courier_sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	sink->sink.ops = &ops;
	sink->config = *config;
	STAILQ_INIT(&sink->ready);
	STAILQ_INIT(&sink->homeless);
	sink->tick = evtimer_new(config->base, on_tick, sink);
	if (!sink->tick) {
		free_sink(sink);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	*out = &sink->sink;
	return 0;
}
