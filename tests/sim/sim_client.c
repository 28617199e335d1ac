/*
 * sim_client: see sim_client.h. This file: life, and what they send. sim_client_take.c: what they
 * are sent.
 */
#include "tests/sim/sim_client.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_client_private.h"
#include "tests/sim/sim_daemon.h"

#define CLIENTS_MAX 32u

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
static uint8_t raw[FRAME_RAW_BYTES_MAX];

static void come(struct client *client);

struct frame_codec *client_codec(void)
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

void client_plan(struct client *client, uint64_t ns, void (*act)(struct client *client))
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
void client_acknowledge(struct client *client)
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

void client_ask(struct client *client)
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

void client_hang_up(struct client *client, bool reset)
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
		client_plan(client, sim_between(SIM_MS, 500 * SIM_MS), come);
}

static void ended(struct client *client, bool reset)
{
	sim_log("%s: the daemon has %s", client->name, reset ? "reset" : "closed");
	if (client->kind == CLIENT_HEALTHY && client->span.live && !sim.shortage.struck &&
	    client->run == daemon_run())
		sim_fail("%s: sent away, and it did nothing wrong", client->name);
	client_hang_up(client, false);
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
	client_hang_up(client, sim_chance(50));
	client_plan(client, sim_between(SIM_MS, sim_chance(20) ? 6 * SIM_S : SIM_S), come);
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
		client_plan(client, sim_below(SIM_S), go);
}

static void stall(struct client *client)
{
	if (calm)
		return;
	client->stalled_until_ns = sim.now_ns + sim_between(100 * SIM_MS, 4 * SIM_S);
	sim_log("%s: stalls", client->name);
	client_plan(client, sim_between(SIM_S, 5 * SIM_S), stall);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_some(struct client *client);

static void read_later(struct client *client, uint64_t ns)
{
	client->reading = true;
	client_plan(client, ns, read_some);
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
	while (client_take_frame(client))
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
		client_plan(client, sim_below(3 * SIM_S), stall);
		break;
	case CLIENT_FLAKY:
	case CLIENT_DURABLE:
		client_plan(client, sim_below(3 * SIM_S), go);
		break;
	case CLIENT_VISITOR:
	case CLIENT_LATE:
		client_plan(client, sim_below(3 * SIM_S), say_bye);
		break;
	case CLIENT_RUDE:
		client_plan(client, sim_below(2 * SIM_S), be_rude);
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
		client_plan(client, sim_between(SIM_MS, 200 * SIM_MS), come);
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
		client_ask(client);
	else
		send_subscribe(client);
	if (!calm && !client->stat_only && !client->operates)
		behave(client);
}

static struct client *create(const char *what, unsigned id)
{
	struct client *client = sim_calloc(sizeof(*client));

	if (!client_codec() || client_n == CLIENTS_MAX)
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
	client_plan(client, sim_below(sim_chance(70) ? 100 * SIM_MS : 5 * SIM_S), come);
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
	client_plan(asker, 0, come);
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
	client_plan(asker, 0, come);
}

uint64_t client_queue_bytes_max(void)
{
	return queue_bytes_max;
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
