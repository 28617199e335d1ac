#include "tests/sim/sim_client.h"

#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/limits.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_daemon.h"

#define CLIENTS_MAX 32u
#define CLIENT_INPUT_BYTES (FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX)

struct client {
	char name[24];
	enum client_kind kind;
	unsigned spec;
	bool strings, context;		/* it asks for them */
	struct sim_link link;
	struct sim_conn *conn;
	uint64_t connection;		/* grows: what was planned for an earlier one is void */
	struct oracle_span span;
	struct oracle_cursor cursor;	/* of the last span; kept by those who come back */
	struct oracle_cursor since;	/* asked for in this one */
	struct oracle_cursor acked;	/* a durable one's */
	const struct loader *section;	/* what comes now is of this run */
	const struct loader *loader;	/* connected to, */
	unsigned run;			/* and the run of the daemon */
	uint64_t asked_ns;		/* since when, of a late one; 0: since now */
	uint64_t read_bytes, read_pause_ns, stalled_until_ns;
	unsigned bye_run;		/* that ended before its eyes */
	bool reading, stat_only, quiet;
	bool operates, busy;		/* asks for a change; it is on its way */
	bool registered;		/* as a durable consumer, and told so */
	bool given_up;			/* somebody asked for that: it may come about any time */
	struct oracle_cursor told;	/* the last place that the daemon said it had acknowledged, */
	unsigned told_by;		/* in that run */
	bool begun, whole;		/* something came of the stream; nothing is said to miss */
	bool ending;			/* the daemon has closed; there is still something to read */
	bool *done;
	size_t input_bytes;
	uint8_t input[CLIENT_INPUT_BYTES];
};

/* Something that one connection of a client has planned. */
struct plan {
	struct client *client;
	uint64_t connection;
	void (*act)(struct client *client);
};

static struct client *clients[CLIENTS_MAX];
static unsigned client_n;
static bool calm;
static uint64_t queue_bytes_max;
static struct frame_codec *codec;
static uint8_t raw[FRAME_RAW_BYTES_MAX], opened[FRAME_RAW_BYTES_MAX];	/* what is sent; what came */

static void come(struct client *client);

static struct frame_codec *the_codec(void)
{
	if (!codec)
		codec = frame_codec_create(1);
	return codec;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void carry_out(void *context)
{
	struct plan *plan = context;

	if (plan->connection == plan->client->connection)
		plan->act(plan->client);
	free(plan);
}

/* Later, unless the connection is another one by then. */
static void plan_act(struct client *client, uint64_t ns, void (*act)(struct client *client))
{
	struct plan *mine = sim_calloc(sizeof(*mine));

	*mine = (struct plan){client, client->connection, act};
	sim_after(ns, carry_out, mine);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void send_frame(struct client *client, enum frame_type type, const void *message)
{
	size_t bytes = protobuf_c_message_get_packed_size(message), n, first;
	uint8_t frame[8192];

	if (frame_bound((uint32_t)bytes) > sizeof(frame) || bytes > sizeof(raw))
		sim_fail("a request of %zu bytes", bytes);
	protobuf_c_message_pack(message, raw);
	n = frame_seal(codec, type, raw, (uint32_t)bytes, frame);
	/* In one piece, or in two that come apart. */
	first = sim_chance(30) ? sim_below(n) : n;
	sim_conn_write(client->conn, frame, first);
	sim_conn_write(client->conn, frame + first, n - first);
}

static void send_hello(struct client *client)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;

	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = client->name;
	send_frame(client, FRAME_CLIENT_HELLO, &hello);
}

static void fill_cursor(Ringtail__V1__Cursor *cursor, Ringtail__V1__Position *position,
			Ringtail__V1__Position **list, const struct oracle_cursor *from)
{
	const struct loader *loader = source_of_epoch(from->epoch);

	cursor->boot_id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcde"};
	cursor->epoch = from->epoch;
	cursor->position = list;
	for (unsigned i = 0; i < loader_rings(loader); i++) {
		if (!from->knows[i])
			continue;
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = source_truth(loader, i)->cpu;
		position[i].seq = from->seq[i];
		list[cursor->n_position++] = &position[i];
	}
}

static void send_subscribe(struct client *client)
{
	const struct oracle_spec *spec = &oracle_specs[client->spec];
	Ringtail__V1__Subscribe message = RINGTAIL__V1__SUBSCRIBE__INIT;
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Position position[SOURCE_RINGS_MAX], *list[SOURCE_RINGS_MAX];
	Ringtail__V1__Flag flag[2];

	message.probe = (char **)spec->probe;
	message.n_probe = spec->probes;
	message.filter = (char *)spec->filter;
	message.flag = flag;
	if (client->strings)
		flag[message.n_flag++] = RINGTAIL__V1__FLAG__FLAG_STRINGS;
	if (client->context)
		flag[message.n_flag++] = RINGTAIL__V1__FLAG__FLAG_CONTEXT;
	client->since = client->cursor;
	client->asked_ns = client->kind == CLIENT_LATE ? sim.now_ns - sim_below(sim_chance(50) ? SIM_S : 6 * SIM_S) : 0;
	if (client->asked_ns)
		message.since_realtime_ns = client->asked_ns + (uint64_t)sim.wall_ns;
	if (client->kind == CLIENT_DURABLE) {
		client->since.known = false;
		message.consumer = client->name;
	}
	if (client->since.known) {
		fill_cursor(&cursor, position, list, &client->since);
		message.since = &cursor;
	}
	send_frame(client, FRAME_SUBSCRIBE, &message);
}

/* What it has so far need not be kept for it. */
static void acknowledge(struct client *client)
{
	Ringtail__V1__Ack ack = RINGTAIL__V1__ACK__INIT;
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Position position[SOURCE_RINGS_MAX], *list[SOURCE_RINGS_MAX];
	struct oracle_cursor was = client->acked, now = client->span.cursor;

	/* A stream out of the spool may begin before what was acknowledged: that is not taken back. */
	for (unsigned i = 0; i < SOURCE_RINGS_MAX; i++)
		if (was.known && was.epoch == now.epoch && was.knows[i] &&
		    (!now.knows[i] || was.seq[i] > now.seq[i])) {
			now.knows[i] = true;
			now.seq[i] = was.seq[i];
		}
	client->acked = now;
	fill_cursor(&cursor, position, list, &client->span.cursor);
	ack.upto = &cursor;
	send_frame(client, FRAME_ACK, &ack);
}

static void ask_stat(struct client *client)
{
	Ringtail__V1__StatRequest request = RINGTAIL__V1__STAT_REQUEST__INIT;

	send_frame(client, FRAME_STAT_REQUEST, &request);
}

static struct client *some_consumer(void)
{
	struct client *found = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < client_n; i++)
		if (clients[i]->kind == CLIENT_DURABLE && sim_below(++n) == 0)
			found = clients[i];
	return found;
}

static void send_change(struct client *client)
{
	const struct oracle_spec *spec = &oracle_specs[sim_below(ORACLE_SPECS)];
	Ringtail__V1__ProbesRequest look = RINGTAIL__V1__PROBES_REQUEST__INIT;
	Ringtail__V1__Change change = RINGTAIL__V1__CHANGE__INIT;
	Ringtail__V1__Forget forget = RINGTAIL__V1__FORGET__INIT;
	struct client *consumer = some_consumer();
	uint64_t what = sim_below(consumer ? 8 : 7);

	if (what < 6) {
		*(what < 3 ? &change.enable : &change.disable) = (char **)spec->probe;
		*(what < 3 ? &change.n_enable : &change.n_disable) = spec->probes;
		send_frame(client, FRAME_CHANGE, &change);
	} else if (what == 6) {
		send_frame(client, FRAME_PROBES_REQUEST, &look);
	} else {
		consumer->given_up = true;
		forget.consumer = consumer->name;
		sim_log("%s: gives up %s", client->name, consumer->name);
		send_frame(client, FRAME_FORGET, &forget);
	}
}

static void send_rubbish(struct client *client)
{
	uint8_t bytes[64];
	size_t n = sim_between(1, sizeof(bytes));

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)sim_random();
	/* Some of it begins well. */
	if (sim_chance(50)) {
		bytes[0] = FRAME_MAGIC & 0xff;
		bytes[1] = FRAME_MAGIC >> 8;
		bytes[2] = FRAME_VERSION;
	}
	sim_conn_write(client->conn, bytes, n);
}

/* ---- Coming and going ------------------------------------------------------------------------ */

/* The stream ends here, wherever it is: what it knows is what it would say when it comes back. */
static void end_span(struct client *client)
{
	if (!client->span.loader)
		return;
	client->cursor = client->span.cursor;
	client->cursor.left_ns = sim.now_ns;
	if (client->kind == CLIENT_VISITOR || client->kind == CLIENT_LATE)
		client->cursor.known = false;
	oracle_unwatch(&client->span);
	client->span.live = false;
	client->span.loader = NULL;
}

static void hang_up(struct client *client, bool reset)
{
	sim_log("%s: %s", client->name, reset ? "resets" : "hangs up");
	end_span(client);
	sim_conn_close(client->conn, reset);
	client->conn = NULL;
	client->connection++;
}

static void come_back_soon(struct client *client)
{
	client->busy = false;
	if (client->operates)
		return;
	if (!client->stat_only || !*client->done)
		plan_act(client, sim_between(SIM_MS, 500 * SIM_MS), come);
}

static void ended(struct client *client, bool reset)
{
	sim_log("%s: the daemon has %s", client->name, reset ? "reset" : "closed");
	if (client->kind == CLIENT_HEALTHY && client->span.live && !sim.shortage.struck &&
	    client->run == daemon_run())
		sim_fail("%s: sent away, and it did nothing wrong", client->name);
	hang_up(client, false);
	come_back_soon(client);
}

static void on_ended(void *context, bool reset)
{
	struct client *client = context;

	client->ending = !reset && sim_conn_unread(client->conn);
	if (!client->ending)
		ended(client, reset);
}

static void go(struct client *client)
{
	if (calm)
		return;
	hang_up(client, sim_chance(50));
	plan_act(client, sim_between(SIM_MS, sim_chance(20) ? 6 * SIM_S : SIM_S), come);
}

static void say_bye(struct client *client)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;

	if (calm)
		return;
	client->span.live = false;
	oracle_says_bye(&client->span);
	send_frame(client, FRAME_BYE, &bye);
}

static void be_rude(struct client *client)
{
	if (calm)
		return;
	send_rubbish(client);
	if (sim_chance(50))
		plan_act(client, sim_below(SIM_S), go);
}

static void stall(struct client *client)
{
	if (calm)
		return;
	client->stalled_until_ns = sim.now_ns + sim_between(100 * SIM_MS, 4 * SIM_S);
	sim_log("%s: stalls", client->name);
	plan_act(client, sim_between(SIM_S, 5 * SIM_S), stall);
}

/* ---- What they are sent, and the oracle with it ---------------------------------------------- */

static void take_stat(struct client *client, const Ringtail__V1__Stat *stat)
{
	uint64_t waiting = 0;

	for (size_t i = 0; i < stat->n_client; i++)
		waiting += stat->client[i]->in_flight;
	for (size_t i = 0; i < stat->n_ring; i++)
		waiting += stat->ring[i]->in_flight;
	oracle_stat(client->loader, stat, client->quiet && !waiting, queue_bytes_max);
	*client->done = !client->quiet || !waiting;
	if (*client->done)
		hang_up(client, false);
	else
		plan_act(client, 100 * SIM_MS, ask_stat);
}

/* What the daemon said once, it does not take back; a run that was killed need not have kept it. */
static void check_not_back(struct client *client)
{
	const struct oracle_cursor *told = &client->told, *now = &client->since;

	if (told->known && !client->given_up && !sim.shortage.struck &&
	    client->told_by == client->run) {
		bool back = now->epoch < told->epoch;

		for (unsigned i = 0; i < SOURCE_RINGS_MAX; i++)
			back |= now->epoch == told->epoch && told->knows[i] &&
				(!now->knows[i] || now->seq[i] < told->seq[i]);
		if (back)
			sim_fail("%s: what it had acknowledged is taken back", client->name);
	}
	client->told = *now;
	client->told_by = client->run;
}

/*
 * What the daemon says that this consumer has acknowledged. It may have forgotten some of it, and
 * then that the consumer was ever there, which it is since it was registered anew.
 */
static void take_since(struct client *client, const Ringtail__V1__Cursor *since)
{
	const struct loader *loader = source_of_epoch(since->epoch);

	if (!loader)
		sim_fail("%s: acknowledged in an epoch that never was", client->name);
	client->since = (struct oracle_cursor){.known = true, .epoch = since->epoch};
	for (size_t i = 0; i < since->n_position; i++) {
		int ring = source_ring_of(loader, since->position[i]->cpu);
		uint64_t seq = since->position[i]->seq;

		if (ring < 0 || (client->acked.known && since->epoch == client->acked.epoch &&
				 client->acked.knows[ring] &&
				 seq > client->acked.seq[ring]))
			sim_fail("%s: the daemon has %llu acknowledged, of ring %d", client->name,
				 (unsigned long long)seq, ring);
		client->since.knows[ring] = true;
		client->since.seq[ring] = seq;
		sim_log("%s: has acknowledged %llu of ring %d, epoch %llu", client->name,
			(unsigned long long)seq, ring, (unsigned long long)since->epoch);
	}
	if (!client->acked.known || since->epoch > client->acked.epoch)
		client->acked = client->since;
	check_not_back(client);
}

/* Somebody gave it up, or tried: if it was registered anew, it begins anew. */
static void begin_anew(struct client *client)
{
	client->acked.known = client->cursor.known = client->told.known = false;
	client->registered = false;
}

/* A stream out of the spool has a hello for each run of the rings that it comes from. */
static void take_hello(struct client *client, const Ringtail__V1__ServerHello *hello)
{
	client->section = source_of_epoch(hello->epoch);
	if (!client->section || (!sim.durable && client->section != client->loader))
		sim_fail("%s: hello from epoch %llu", client->name,
			 (unsigned long long)hello->epoch);
}

/*
 * With the first that comes, it is clear what of the place it was at does not. That nothing of that run
 * is there any more may be told, as a gap: after a jump of the clock all of it is older than spool-age.
 * A consumer that has acknowledged nothing of that run begins in an older one, and comes to it later.
 */
static void begin(struct client *client, const Ringtail__V1__Gap *gap)
{
	bool told = gap && gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_OTHER_EPOCH;

	if (!client->begun && !told && client->whole && client->cursor.known &&
	    client->cursor.epoch < client->span.cursor.epoch)
		oracle_passed(&client->span, &client->cursor);
	client->begun = true;
}

/* What is of a run before nobody keeps for it; after a power cut some of it may be back that was deleted. */
static bool is_before_acked(const struct client *client)
{
	return client->kind == CLIENT_DURABLE && client->since.known &&
	       client->span.cursor.epoch < client->since.epoch;
}

static void take_subscribed(struct client *client, const Ringtail__V1__Subscribed *message)
{
	struct oracle_span *span = &client->span;

	if (!client->section)
		sim_fail("%s: subscribed without a hello", client->name);
	if (client->kind == CLIENT_DURABLE && !span->loader) {
		if (client->given_up)
			begin_anew(client);
		if (message->since)
			take_since(client, message->since);
		else if (client->registered && !sim.shortage.struck)
			sim_fail("%s: is told again that it is registered: it was forgotten", client->name);
		client->registered = true;
	}
	if (client->begun && span->cursor.epoch != message->start->epoch && !is_before_acked(client))
		oracle_passed(span, &span->cursor);
	client->whole |= message->resumed || client->kind == CLIENT_DURABLE;
	span->asked_ns = span->loader || client->section != client->loader ? 0 : client->asked_ns;
	if (!span->loader) {
		oracle_watch(span);
		oracle_come_from(span, &client->since);
	}
	oracle_subscribed(span, client->section, message, &client->since);
	span->live = client->section == client->loader && client->run == daemon_run();
	oracle_expect(span, client->run);
	sim_log("%s: subscribed to %s of `%s`%s, epoch %llu", client->name, span->spec->probe[0],
		span->spec->filter, message->resumed ? ", resumed" : "",
		(unsigned long long)message->start->epoch);
}

static void take_message(struct client *client, enum frame_type type, const uint8_t *body,
			 uint32_t bytes)
{
	static const ProtobufCMessageDescriptor *const message_of[] = {
		[FRAME_SERVER_HELLO] = &ringtail__v1__server_hello__descriptor,
		[FRAME_ERROR] = &ringtail__v1__error__descriptor,
		[FRAME_CATALOG] = &ringtail__v1__catalog__descriptor,
		[FRAME_SUBSCRIBED] = &ringtail__v1__subscribed__descriptor,
		[FRAME_GAP] = &ringtail__v1__gap__descriptor,
		[FRAME_WATERMARK] = &ringtail__v1__watermark__descriptor,
		[FRAME_BYE] = &ringtail__v1__bye__descriptor,
		[FRAME_STAT] = &ringtail__v1__stat__descriptor,
		[FRAME_PROBES] = &ringtail__v1__probes__descriptor,
	};
	size_t types = sizeof(message_of) / sizeof(message_of[0]);
	ProtobufCMessage *message;

	if (type >= types || !message_of[type])
		sim_fail("%s: the daemon sends a %s", client->name, frame_type_name(type));
	message = protobuf_c_message_unpack(message_of[type], NULL, bytes, body);
	if (!message)
		sim_fail("%s: a %s is no message", client->name, frame_type_name(type));
	if ((type == FRAME_GAP || type == FRAME_WATERMARK || type == FRAME_BYE) &&
	    !client->span.loader)
		sim_fail("%s: a %s before it is subscribed", client->name, frame_type_name(type));
	if (client->operates && (type == FRAME_STAT || type == FRAME_PROBES || type == FRAME_ERROR)) {
		sim_log("%s: is answered with a %s", client->name, frame_type_name(type));
		hang_up(client, false);
		client->busy = false;
	} else if (type == FRAME_ERROR) {
		sim_log("%s: refused: [%s] %s", client->name,
			((Ringtail__V1__Error *)message)->code,
			((Ringtail__V1__Error *)message)->what);
		client->span.live = false;
		if (client->stat_only)
			plan_act(client, 100 * SIM_MS, ask_stat);
	} else if (type == FRAME_SUBSCRIBED) {
		take_subscribed(client, (void *)message);
	} else if (type == FRAME_SERVER_HELLO) {
		take_hello(client, (void *)message);
	} else if (type == FRAME_GAP) {
		begin(client, (void *)message);
		oracle_gap(&client->span, (void *)message);
	} else if (type == FRAME_WATERMARK) {
		oracle_watermark(&client->span, (void *)message);
	} else if (type == FRAME_BYE) {
		oracle_bye(&client->span, (void *)message);
		client->bye_run = client->run;
		client->span.cursor.bye_run = client->run;
	} else if (type == FRAME_STAT) {
		take_stat(client, (void *)message);
	}
	protobuf_c_message_free_unpacked(message, NULL);
}

/* Takes one frame off the front of the input. False: there is none, or the client has gone. */
static bool take_frame(struct client *client)
{
	struct frame_header header;
	const uint8_t *body;
	enum frame_status status = frame_parse_header(client->input, client->input_bytes,
						      FRAME_RAW_BYTES_MAX, &header);
	size_t bytes;

	if (status == FRAME_SHORT)
		return false;
	bytes = FRAME_HEADER_BYTES + header.body_bytes;
	if (status == FRAME_OK && client->input_bytes < bytes)
		return false;
	if (status == FRAME_OK)
		status = frame_open(the_codec(), client->input, &header, opened, &body);
	if (status != FRAME_OK)
		sim_fail("%s: a frame is no good: %s", client->name, frame_status_text(status));
	if (header.type == FRAME_BATCH) {
		if (!client->span.loader)
			sim_fail("%s: a batch before it is subscribed", client->name);
		begin(client, NULL);
		oracle_batch(&client->span, body, header.raw_bytes);
		if (client->kind == CLIENT_DURABLE && sim_chance(5))
			acknowledge(client);
	} else {
		take_message(client, header.type, body, header.raw_bytes);
	}
	client->input_bytes -= bytes;
	memmove(client->input, client->input + bytes, client->input_bytes);
	return client->conn;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_some(struct client *client);

static void read_later(struct client *client, uint64_t ns)
{
	client->reading = true;
	plan_act(client, ns, read_some);
}

static void read_some(struct client *client)
{
	size_t room = CLIENT_INPUT_BYTES - client->input_bytes;

	client->reading = false;
	if (!calm && client->stalled_until_ns > sim.now_ns) {
		read_later(client, client->stalled_until_ns - sim.now_ns);
		return;
	}
	if (!calm && client->read_bytes && client->read_bytes < room)
		room = client->read_bytes;
	client->input_bytes += sim_conn_read(client->conn, client->input + client->input_bytes,
					     room);
	while (take_frame(client))
		;
	if (client->conn && sim_conn_unread(client->conn))
		read_later(client, calm ? 0 : client->read_pause_ns);
	else if (client->conn && client->ending)
		ended(client, false);
}

static void on_arrived(void *context)
{
	struct client *client = context;

	if (!client->reading)
		read_later(client, calm ? 0 : client->read_pause_ns);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void behave(struct client *client)
{
	switch (client->kind) {
	case CLIENT_STALLS:
		plan_act(client, sim_below(3 * SIM_S), stall);
		break;
	case CLIENT_FLAKY:
	case CLIENT_DURABLE:
		plan_act(client, sim_below(3 * SIM_S), go);
		break;
	case CLIENT_VISITOR:
	case CLIENT_LATE:
		plan_act(client, sim_below(3 * SIM_S), say_bye);
		break;
	case CLIENT_RUDE:
		plan_act(client, sim_below(2 * SIM_S), be_rude);
		break;
	default:
		break;
	}
}

static void come(struct client *client)
{
	struct sim_peer peer = {on_arrived, on_ended, client};

	client->conn = daemon_loader() ? sim_connect(&client->link, &peer) : NULL;
	client->connection++;
	if (!client->conn) {
		plan_act(client, sim_between(SIM_MS, 200 * SIM_MS), come);
		return;
	}
	client->loader = daemon_loader();
	client->run = daemon_run();
	client->section = NULL;
	client->input_bytes = 0;
	client->reading = client->ending = client->begun = client->whole = false;
	client->span = (struct oracle_span){.client = client->name,
					    .spec = &oracle_specs[client->spec],
					    .healthy = client->kind == CLIENT_HEALTHY,
					    .strings = client->strings,
					    .context = client->context,
					    .durable = sim.durable,
					    .late = client->kind == CLIENT_LATE,
					    .consumer = client->kind == CLIENT_DURABLE};
	sim_log("%s: connects as %u", client->name, sim_conn_id(client->conn));
	if (client->kind == CLIENT_RUDE && !calm && sim_chance(30)) {
		send_rubbish(client);
		return;
	}
	send_hello(client);
	if (client->operates)
		send_change(client);
	else if (client->stat_only)
		ask_stat(client);
	else
		send_subscribe(client);
	if (!calm && !client->stat_only && !client->operates)
		behave(client);
}

static struct client *create(const char *what, unsigned id)
{
	struct client *client = sim_calloc(sizeof(*client));

	if (!the_codec() || client_n == CLIENTS_MAX)
		sim_fail("the simulation has no room for another client");
	snprintf(client->name, sizeof(client->name), "%s-%u", what, id);
	client->link.latency_ns = sim_between(10 * SIM_US, 20 * SIM_MS);
	client->link.capacity = 256 << 10;
	clients[client_n++] = client;
	return client;
}

struct client *client_create(unsigned id, enum client_kind kind)
{
	static const char *const names[CLIENT_KINDS] = {"healthy", "slow", "stalling", "flaky",
							"visitor", "rude", "late", "durable"};
	struct client *client = create(names[kind], id);

	client->kind = kind;
	client->spec = (unsigned)sim_below(ORACLE_SPECS);
	client->strings = sim.rich && sim_chance(50);
	client->context = sim.rich && sim_chance(50);
	if (kind == CLIENT_SLOW || (kind == CLIENT_DURABLE && sim_chance(50))) {
		client->read_bytes = sim_between(1, 2000);
		client->read_pause_ns = sim_between(SIM_MS, 100 * SIM_MS);
	}
	if (kind != CLIENT_HEALTHY)
		client->link.capacity = sim_between(256, 64 << 10);
	plan_act(client, sim_below(sim_chance(70) ? 100 * SIM_MS : 5 * SIM_S), come);
	return client;
}

void client_calm_all(void)
{
	calm = true;
	/* Who waits for the end of a stall looks at once. */
	for (unsigned i = 0; i < client_n; i++)
		if (clients[i]->conn && clients[i]->reading)
			read_later(clients[i], 0);
}

void client_ask_stat(bool quiet, bool *done)
{
	static struct client *asker;

	*done = false;
	if (!asker)
		asker = create("stat", 0);
	if (asker->conn)
		return;
	asker->stat_only = true;
	asker->kind = CLIENT_VISITOR;
	asker->quiet = quiet;
	asker->done = done;
	plan_act(asker, 0, come);
}

void client_ask_change(void)
{
	static struct client *asker;

	if (!asker)
		asker = create("operator", 0);
	if (asker->busy)
		return;
	asker->operates = asker->busy = true;
	asker->kind = CLIENT_VISITOR;
	plan_act(asker, 0, come);
}

void client_note_queue_bytes(uint64_t bytes)
{
	queue_bytes_max = bytes > queue_bytes_max ? bytes : queue_bytes_max;
}

const char *client_unserved(unsigned run)
{
	for (unsigned i = 0; i < client_n; i++)
		if (clients[i]->kind == CLIENT_HEALTHY && clients[i]->bye_run != run)
			return clients[i]->name;
	return NULL;
}

void client_summary(void)
{
	for (unsigned i = 0; i < client_n; i++)
		sim_log("%s: %llu events, %llu lost, %llu gaps in the last stream",
			clients[i]->name, (unsigned long long)clients[i]->span.events,
			(unsigned long long)clients[i]->span.lost,
			(unsigned long long)clients[i]->span.gaps);
}
