/* sim_client_take: what clients are sent, and the oracle with it. */
#include <string.h>

#include "tests/sim/sim_client_private.h"
#include "tests/sim/sim_daemon.h"

static uint8_t raw[FRAME_RAW_BYTES_MAX];

static void take_stat(struct client *client, const Ringtail__V1__Stat *stat)
{
	uint64_t waiting = 0;

	for (size_t i = 0; i < stat->n_client; i++)
		waiting += stat->client[i]->in_flight;
	for (size_t i = 0; i < stat->n_ring; i++)
		waiting += stat->ring[i]->in_flight;
	oracle_stat(client->loader, stat, client->quiet && !waiting, client_queue_bytes_max());
	*client->done = !client->quiet || !waiting;
	if (*client->done)
		client_hang_up(client, false);
	else
		client_plan(client, 100 * SIM_MS, client_ask);
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
	if (client->begun && span->cursor.epoch != message->start->epoch)
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
		client_hang_up(client, false);
		client->busy = false;
	} else if (type == FRAME_ERROR) {
		sim_log("%s: refused: [%s] %s", client->name,
			((Ringtail__V1__Error *)message)->code,
			((Ringtail__V1__Error *)message)->what);
		client->span.live = false;
		if (client->stat_only)
			client_plan(client, 100 * SIM_MS, client_ask);
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

/* One frame off the front. */
bool client_take_frame(struct client *client)
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
		status = frame_open(client_codec(), client->input, &header, raw, &body);
	if (status != FRAME_OK)
		sim_fail("%s: a frame is no good: %s", client->name, frame_status_text(status));
	if (header.type == FRAME_BATCH) {
		if (!client->span.loader)
			sim_fail("%s: a batch before it is subscribed", client->name);
		begin(client, NULL);
		oracle_batch(&client->span, body, header.raw_bytes);
		if (client->kind == CLIENT_DURABLE && sim_chance(5))
			client_acknowledge(client);
	} else {
		take_message(client, header.type, body, header.raw_bytes);
	}
	client->input_bytes -= bytes;
	memmove(client->input, client->input + bytes, client->input_bytes);
	return client->conn;
}
