/*
 * fuzz_agent: bytes from outside as what an agent says to its relay, and as what a courier says to it. Whatever they
 * are, each connection ends at most once, each frame that was forwarded is confirmed once, the relay's ledger of that
 * host closes, and nothing is left behind.
 *
 * The first byte says who speaks, and with an odd one checksums are made right, or the fuzzer would never pass them.
 */
#include <endian.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/access/gate.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/relay/agent.h"
#include "daemon/relay/courier_sink.h"
#include "daemon/relay/host.h"
#include "query/visible.h"

#define NEVER_NS (3600 * NS_PER_S)
#define TURNS_MAX 100000u	/* of the loop, for one input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct shipment {
	struct relay_item item;
	struct world *world;
	struct cursor *upto;
};

struct world {
	struct event_base *base;
	struct frame_codec *codec;
	struct gate *gate;
	struct relay_sink *sink;
	struct relay_desk desk;
	struct relay_agent_host host;
	struct relay_host *of;
	struct relay_agent *agent;	/* NULL: it has ended */
	uint64_t rest_bytes, on_their_way;
	volatile uint8_t seen;		/* so that nothing read is optimized away */
};

static void quiet(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

/* ---- The relay's part -------------------------------------------------------------------------- */

static void on_confirmed(struct relay_item *item, int err)
{
	struct shipment *shipment = (struct shipment *)item;
	struct world *world = shipment->world;

	if (!world->on_their_way--)
		abort();
	relay_host_release(world->of, item);
	if (err)
		world->of->refused++;
	else
		world->of->forwarded++;
	if (err && item->generation == world->of->generation)
		relay_host_fail(world->of);
	else if (!err && relay_host_store(world->of, item) == 0 && world->agent)
		relay_agent_acknowledge(world->agent);
	relay_opening_put(item->opening);
	frame_ref_put(item->frame);
	free(shipment->upto);
	free(shipment);
}

static bool on_forward(void *context, struct relay_agent *agent, struct relay_opening *opening,
		       struct frame_ref *frame, struct cursor *upto)
{
	struct world *world = context;
	struct shipment *shipment = calloc(1, sizeof(*shipment));
	int news = shipment ? relay_host_take(world->of, frame, upto) : -1;

	if (agent != world->agent || news < 0)
		abort();
	world->of->received++;
	world->of->duplicate += news == 0;
	if (!news) {
		free(shipment);
		frame_ref_put(frame);
		free(upto);
		return true;
	}
	*shipment = (struct shipment){
		.item = {.host = world->of->name, .opening = relay_opening_get(opening), .frame = frame,
			 .generation = world->of->generation, .upto = upto, .confirmed = on_confirmed},
		.world = world,
		.upto = upto,
	};
	world->on_their_way++;
	relay_host_hold(world->of, &shipment->item);
	relay_sink_forward(world->sink, &shipment->item);
	return true;
}

static bool on_is_full(void *context, const struct relay_agent *agent)
{
	struct world *world = context;

	(void)agent;
	return relay_host_is_full(world->of);
}

static bool on_make_way(void *context, struct relay_agent *agent)
{
	(void)context, (void)agent;
	return false;
}

/* Nobody has asked it to dial, and its connection is not in TLS: it never gets so far. */
static int on_join(void *context, const char *name, const uint8_t *token, size_t bytes, struct transport *transport,
		   struct error *error)
{
	(void)context, (void)name, (void)token, (void)bytes, (void)transport, (void)error;
	abort();
}

static bool on_refused_dial(void *context, const char *name, const uint8_t *token, size_t bytes,
			    const struct error *error)
{
	struct world *world = context;
	uint8_t sum = 0;

	for (size_t i = 0; i < bytes; i++)
		sum ^= token[i];
	world->seen = sum;
	if (strcmp(name, world->of->name) != 0 || !*error->code || !visible_is_all(error->what) ||
	    !visible_is_all(error->hint))
		abort();
	return false;
}

static void on_closed(void *context, struct relay_agent *agent)
{
	struct world *world = context;

	if (agent != world->agent)
		abort();
	world->agent = NULL;
}

/* ---- Who speaks --------------------------------------------------------------------------------- */

static int connect_agent(struct world *world)
{
	struct relay_agent_config config = {.base = world->base, .host = &world->host, .desk = &world->desk,
					    .hello_timeout_ns = NEVER_NS};
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
		abort();
	world->agent = relay_agent_create(&config, transport_plain_create(fds[0]), "fuzzer");
	if (!world->agent)
		abort();
	/* It has shown its certificate: only TLS has one. */
	world->agent->of = world->of;
	world->agent->state = AGENT_GREETED;
	return fds[1];
}

static int connect_courier(struct world *world)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
		abort();
	courier_sink_accept(world->sink, fds[0], NULL, "fuzzer");
	return fds[1];
}

static void repair_checksums(uint8_t *bytes, size_t size)
{
	struct frame_header header;

	while (size >= FRAME_HEADER_BYTES &&
	       frame_parse_header(bytes, size, FRAME_RAW_BYTES_MAX, &header) == FRAME_OK &&
	       header.body_bytes <= size - FRAME_HEADER_BYTES) {
		size_t n = FRAME_HEADER_BYTES + header.body_bytes;
		uint32_t crc = crc32_iscsi(bytes, 12, ~0u);

		crc = htole32(~crc32_iscsi(bytes + FRAME_HEADER_BYTES, (int)header.body_bytes, crc));
		memcpy(bytes + 12, &crc, sizeof(crc));
		bytes += n;
		size -= n;
	}
}

/* Says it all, and listens to all that is said to either. */
static void talk(struct world *world, int fd, int other, const uint8_t *bytes, size_t size)
{
	static uint8_t ignored[64 << 10];
	unsigned quiet_turns = 0;
	size_t said = 0;

	for (unsigned turn = 0; turn < TURNS_MAX && quiet_turns < 3; turn++) {
		ssize_t sent = said < size ? send(fd, bytes + said, size - said, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
		ssize_t got, heard;

		said += sent > 0 ? (size_t)sent : 0;
		event_base_loop(world->base, EVLOOP_NONBLOCK);
		got = recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);
		heard = recv(other, ignored, sizeof(ignored), MSG_DONTWAIT);
		quiet_turns = sent > 0 || got > 0 || heard > 0 ? 0 : quiet_turns + 1;
	}
}

/* A stream of one CPU, so that a courier has something to deliver. */
static size_t a_stream(struct world *world, uint8_t *bytes)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Cursor start = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	uint8_t boot_id[16] = {1};
	struct frame_ref *frame[5];
	size_t n = 0;

	hello.boot_id = (ProtobufCBinaryData){sizeof(boot_id), boot_id};
	hello.epoch = 1;
	subscribed.start = &start;
	frame[0] = frame_ref_pack(world->codec, FRAME_SERVER_HELLO, &hello.base);
	frame[1] = frame_ref_pack(world->codec, FRAME_CATALOG, &catalog.base);
	frame[2] = frame_ref_pack(world->codec, FRAME_SUBSCRIBED, &subscribed.base);
	frame[3] = frame_ref_gap(world->codec, 0, 0, 5, 1, 1, 0);
	frame[4] = frame_ref_gap(world->codec, 0, 5, 9, 1, 1, 0);
	for (size_t i = 0; i < sizeof(frame) / sizeof(frame[0]); i++) {
		memcpy(bytes + n, frame[i]->data, frame[i]->bytes);
		n += frame[i]->bytes;
		frame_ref_put(frame[i]);
	}
	return n;
}

/* ---- One input ---------------------------------------------------------------------------------- */

static void open_world(struct world *world)
{
	static const struct log_sink sink = {quiet, clock_monotonic};
	static const struct config nobody_named;
	struct courier_sink_config config = {.hello_timeout_ns = NEVER_NS};

	log_set_sink(&sink);
	world->base = config.base = event_base_new();
	world->codec = config.codec = frame_codec_create(1);
	world->of = relay_host_create("web-1");
	world->desk = (struct relay_desk){.codec = world->codec, .input = malloc(RELAY_INPUT_BYTES),
					  .raw = malloc(FRAME_RAW_BYTES_MAX), .rest_bytes = &world->rest_bytes};
	world->host = (struct relay_agent_host){.context = world, .forward = on_forward, .is_full = on_is_full,
						.make_way = on_make_way, .join = on_join,
						.refused_dial = on_refused_dial, .closed = on_closed};
	if (!world->base || !world->codec || !world->of || gate_create(&nobody_named, &world->gate, NULL) != 0)
		abort();
	config.gate = world->gate;
	if (courier_sink_create(&config, &world->sink, NULL) != 0)
		abort();
}

static void close_world(struct world *world)
{
	const struct relay_host *of = world->of;

	if (world->agent)
		relay_agent_destroy(world->agent);
	relay_sink_destroy(world->sink);
	if (world->on_their_way || world->rest_bytes || of->held || of->held_bytes ||
	    of->received != of->forwarded + of->duplicate + of->refused)
		abort();
	relay_host_destroy(world->of);
	gate_destroy(world->gate);
	frame_codec_destroy(world->codec);
	event_base_free(world->base);
	free(world->desk.input);
	free(world->desk.raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[4096];
	struct world world = {0};
	uint8_t *bytes = malloc(size + 1);
	int agent, courier;

	if (!size || !bytes) {
		free(bytes);
		return 0;
	}
	memcpy(bytes, data + 1, size - 1);
	if (data[0] & 1)
		repair_checksums(bytes, size - 1);
	open_world(&world);
	agent = connect_agent(&world);
	courier = connect_courier(&world);
	if (data[0] & 2)
		talk(&world, agent, courier, stream, a_stream(&world, stream));
	talk(&world, data[0] & 2 ? courier : agent, data[0] & 2 ? agent : courier, bytes, size - 1);
	close_world(&world);
	close(agent);
	close(courier);
	free(bytes);
	return 0;
}
