#include "daemon/relay/bridge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/random.h"
#include "daemon/relay/agent.h"
#include "proto/ringtail.pb-c.h"

/* One way: what was read from one side, and not yet taken by the other. */
struct flow {
	uint8_t *bytes;			/* BRIDGE_BYTES */
	size_t at, n;
	bool ended;			/* nothing more will come from there */
	bool told;			/* and the other side was told so */
	bool broken;			/* the other side takes nothing any more: what comes is dropped */
};

enum side {
	SIDE_CLIENT,
	SIDE_HOST,
	SIDES,
};

struct end {
	struct bridge *bridge;
	struct transport *transport;	/* NULL: not there yet */
	struct event *readable, *writable;
	short read_wants, write_wants;	/* of the socket; 0: nothing */
	struct flow from;
};

struct bridge {
	LIST_ENTRY(bridge) link;
	struct bridges *bridges;
	enum {
		BRIDGE_ASKED,		/* the host is to dial */
		BRIDGE_OPEN,
		BRIDGE_ENDING,		/* one side has ended, and the other is to end soon */
	} state;
	char host[IDENTITY_NAME_BYTES];
	char who[IDENTITY_TEXT_BYTES];
	struct client_identity identity;
	struct bridge_asker asker;	/* while it is asked */
	uint8_t token[RELAY_TOKEN_BYTES];
	struct event *timeout;
	struct event *again;		/* the next turn, when others had theirs */
	uint64_t bytes;			/* that were passed on */
	struct end end[SIDES];
};

struct bridges {
	struct bridges_config config;
	LIST_HEAD(bridge_list, bridge) list;
	unsigned count;
};

/* ---- The end of one -------------------------------------------------------------------------- */

static void arm(struct bridge *bridge, uint64_t ns)
{
	struct timeval delay = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	event_add(bridge->timeout, &delay);
}

static void free_bridge(struct bridge *bridge)
{
	LIST_REMOVE(bridge, link);
	bridge->bridges->count--;
	if (bridge->timeout)
		event_free(bridge->timeout);
	if (bridge->again)
		event_free(bridge->again);
	for (unsigned i = 0; i < SIDES; i++) {
		struct end *end = &bridge->end[i];

		if (end->readable)
			event_free(end->readable);
		if (end->writable)
			event_free(end->writable);
		transport_destroy(end->transport);
		free(end->from.bytes);
	}
	free(bridge);
}

static void end_bridge(struct bridge *bridge, const char *why)
{
	log_info("reach-ended", "%s reaches %s no more (%s): %llu bytes were passed on", bridge->who, bridge->host, why,
		 (unsigned long long)bridge->bytes);
	free_bridge(bridge);
}

/* It did not come about. */
static void fail(struct bridge *bridge, const struct error *error)
{
	struct bridge_asker asker = bridge->asker;

	counter_add(COUNTER_reaches_failed, 1);
	free_bridge(bridge);
	asker.failed(asker.context, error);
}

/* ---- Bytes ------------------------------------------------------------------------------------ */

static struct end *other_end(const struct end *end)
{
	return &end->bridge->end[end == &end->bridge->end[SIDE_CLIENT] ? SIDE_HOST : SIDE_CLIENT];
}

/* True: something was read, or the end. *turn: what is left of it; what is read to be dropped takes of it, too. */
static bool fill(struct end *end, size_t *turn)
{
	struct flow *flow = &end->from;
	ssize_t got;

	if (flow->n || flow->ended || !*turn)
		return false;
	got = transport_read(end->transport, flow->bytes, BRIDGE_BYTES);
	if (got == -EAGAIN) {
		end->read_wants = end->transport->wanted;
		return false;
	}
	flow->ended = got <= 0;
	flow->at = 0;
	flow->n = got > 0 && !flow->broken ? (size_t)got : 0;
	*turn -= got > 0 && (size_t)got < *turn ? (size_t)got : *turn;
	return true;
}

/* True: some of it left. */
static bool drain(struct end *end)
{
	struct flow *flow = &end->from;
	struct end *to = other_end(end);
	struct iovec iov = {.iov_base = flow->bytes + flow->at, .iov_len = flow->n};
	ssize_t sent;

	if (flow->broken || (!flow->n && !transport_unsent(to->transport)))
		return false;
	sent = transport_write(to->transport, &iov, flow->n ? 1 : 0);
	if (sent == -EAGAIN) {
		to->write_wants = to->transport->wanted;
		return false;
	}
	if (sent < 0) {
		flow->broken = true;
		flow->n = 0;
		return true;
	}
	flow->at += (size_t)sent;
	flow->n -= (size_t)sent;
	end->bridge->bytes += (size_t)sent;
	counter_add(COUNTER_reach_bytes, (uint64_t)sent);
	return sent > 0;
}

/* One way, for a turn. False: the turn ended, and there may be more to read. */
static bool pass(struct end *end)
{
	size_t turn = BRIDGE_TURN_BYTES;
	bool moves = true;

	while (moves) {
		moves = fill(end, &turn);
		moves |= drain(end);
	}
	return turn || end->from.n || end->from.ended;
}

/* All that one side said has reached the other, which is told that there is no more. */
static void tell_end(struct end *end)
{
	struct flow *flow = &end->from;
	struct end *to = other_end(end);

	if (!flow->ended || flow->n || flow->told || (!flow->broken && transport_unsent(to->transport)))
		return;
	flow->told = true;
	transport_shutdown(to->transport);
}

static bool is_over(const struct bridge *bridge)
{
	const struct flow *client = &bridge->end[SIDE_CLIENT].from, *host = &bridge->end[SIDE_HOST].from;

	/* A side that takes nothing and says nothing is gone. */
	return (client->told && host->told) || (client->broken && host->ended) || (host->broken && client->ended);
}

static bool waits(const struct bridge *bridge)
{
	return bridge->end[SIDE_CLIENT].from.n || bridge->end[SIDE_HOST].from.n;
}

static void await(struct event *event, bool wanted)
{
	if (wanted)
		event_add(event, NULL);
	else
		event_del(event);
}

static bool ends(const struct flow *flow)
{
	return flow->ended || flow->broken;
}

/* What either side can do next is an event. */
static void await_more(struct bridge *bridge, bool goes_on)
{
	const struct timeval at_once = {0};

	for (unsigned i = 0; i < SIDES; i++) {
		struct end *end = &bridge->end[i];
		short wants = end->read_wants | end->write_wants;

		await(end->readable, wants & EV_READ);
		await(end->writable, wants & EV_WRITE);
	}
	/* A timer, for what is made active in its own callback has its turn before the loop looks at any socket. */
	if (goes_on)
		event_add(bridge->again, &at_once);
}

/* Both ways. May free it. */
static void carry(struct bridge *bridge)
{
	const struct bridges_config *config = &bridge->bridges->config;
	uint64_t before = bridge->bytes;
	bool quiet = true;

	for (unsigned i = 0; i < SIDES; i++)
		bridge->end[i].read_wants = bridge->end[i].write_wants = 0;
	for (unsigned i = 0; i < SIDES; i++)
		quiet &= pass(&bridge->end[i]);
	for (unsigned i = 0; i < SIDES; i++)
		tell_end(&bridge->end[i]);
	if (is_over(bridge)) {
		end_bridge(bridge, bridge->end[SIDE_HOST].from.ended ? "the host has ended" : "the client has ended");
		return;
	}
	if (bridge->state == BRIDGE_OPEN && (ends(&bridge->end[SIDE_CLIENT].from) || ends(&bridge->end[SIDE_HOST].from))) {
		bridge->state = BRIDGE_ENDING;
		arm(bridge, config->linger_ns);
	}
	if (bridge->state == BRIDGE_OPEN && !waits(bridge))
		event_del(bridge->timeout);
	else if (bridge->state == BRIDGE_OPEN &&
		 (bridge->bytes != before || !event_pending(bridge->timeout, EV_TIMEOUT, NULL)))
		arm(bridge, config->silence_ns);
	await_more(bridge, !quiet);
}

static void on_ready(evutil_socket_t fd, short what, void *context)
{
	struct end *end = context;

	(void)fd, (void)what;
	carry(end->bridge);
}

static void on_again(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	carry(context);
}

static void on_timeout(evutil_socket_t fd, short what, void *context)
{
	struct bridge *bridge = context;
	struct error error;

	(void)fd, (void)what;
	if (bridge->state != BRIDGE_ASKED) {
		end_bridge(bridge, bridge->state == BRIDGE_OPEN ? "one side does not read" : "one side does not end");
		return;
	}
	error_set(&error, ETIMEDOUT, "host-silent", "the host %s was asked to dial this relay, and has not for %llu s",
		  bridge->host, (unsigned long long)(BRIDGE_DIAL_NS / NS_PER_S));
	error_hint(&error, "see the log of ringtaild on that host, for `dial-failed`");
	fail(bridge, &error);
}

/* ---- Asking ------------------------------------------------------------------------------------ */

static int refuse(struct error *error, int err, const char *code, const char *what, const char *host, const char *hint)
{
	error_set(error, err, code, what, host);
	error_hint(error, "%s", hint);
	return -err;
}

static int check_bounds(const struct bridges *bridges, const char *host, struct error *error)
{
	const struct bridge *bridge;
	unsigned same = 0;

	LIST_FOREACH(bridge, &bridges->list, link)
		same += strcmp(bridge->host, host) == 0;
	if (same < BRIDGES_HOST_MAX && bridges->count < BRIDGES_MAX)
		return 0;
	return refuse(error, EBUSY, "too-many-reached", same < BRIDGES_HOST_MAX ?
		      "%s: this relay connects clients to as many hosts as it may at once" :
		      "%s: this relay connects as many clients to this host as it may at once", host,
		      "wait until one of them has ended, or ask fewer hosts at once, with --host");
}

static int check_host(const struct relay_host *host, struct error *error)
{
	const struct relay_agent *agent = host->agent;

	if (!agent || agent->state != AGENT_STREAMING)
		return refuse(error, EHOSTUNREACH, "host-away", "the host %s is not connected to this relay", host->name,
			      "`tracectl list hosts` shows which are");
	if (!agent->dials)
		return refuse(error, EOPNOTSUPP, "host-too-old", "the daemon of the host %s is too old to be asked through"
			      " a relay", host->name, "upgrade ringtaild there");
	return 0;
}

static struct bridge *create(struct bridges *bridges, const char *host, const struct client_identity *identity,
			     const char *who, const struct bridge_asker *asker)
{
	struct bridge *bridge = calloc(1, sizeof(*bridge));

	if (!bridge)
		return NULL;
	bridge->bridges = bridges;
	bridge->identity = *identity;
	bridge->asker = *asker;
	snprintf(bridge->host, sizeof(bridge->host), "%s", host);
	snprintf(bridge->who, sizeof(bridge->who), "%s", who);
	LIST_INSERT_HEAD(&bridges->list, bridge, link);
	bridges->count++;
	bridge->timeout = evtimer_new(bridges->config.base, on_timeout, bridge);
	bridge->again = evtimer_new(bridges->config.base, on_again, bridge);
	for (unsigned i = 0; i < SIDES; i++) {
		bridge->end[i].bridge = bridge;
		bridge->end[i].from.bytes = malloc(BRIDGE_BYTES);
	}
	if (bridge->timeout && bridge->again && bridge->end[SIDE_CLIENT].from.bytes &&
	    bridge->end[SIDE_HOST].from.bytes && random_bytes(bridge->token, sizeof(bridge->token)) == 0)
		return bridge;
	free_bridge(bridge);
	return NULL;
}

int bridges_ask(struct bridges *bridges, struct relay_host *host, const struct client_identity *identity,
		const char *who, const struct bridge_asker *asker, struct error *error)
{
	int err = check_host(host, error);
	struct bridge *bridge;

	counter_add(COUNTER_reaches, 1);
	if (!err)
		err = check_bounds(bridges, host->name, error);
	if (err) {
		counter_add(COUNTER_reaches_failed, 1);
		return err;
	}
	bridge = create(bridges, host->name, identity, who, asker);
	if (bridge && relay_agent_dial(host->agent, bridge->token, sizeof(bridge->token), who)) {
		arm(bridge, BRIDGE_DIAL_NS);
		return 0;
	}
	counter_add(COUNTER_reaches_failed, 1);
	if (bridge)
		free_bridge(bridge);
	return refuse(error, EBUSY, bridge ? "host-busy" : "out-of-memory", bridge ?
		      "the host %s does not read what this relay sends" : "this relay has no memory to reach the host %s",
		      host->name, "ask again in a moment");
}

void bridges_leave(struct bridges *bridges, const void *context)
{
	struct bridge *bridge, *next;

	for (bridge = LIST_FIRST(&bridges->list); bridge; bridge = next) {
		next = LIST_NEXT(bridge, link);
		if (bridge->state != BRIDGE_ASKED || bridge->asker.context != context)
			continue;
		counter_add(COUNTER_reaches_failed, 1);
		free_bridge(bridge);
	}
}

/* ---- The host's answer -------------------------------------------------------------------------- */

/* Tokens of other hosts are none. */
static struct bridge *find(const struct bridges *bridges, const char *host, const uint8_t *token, size_t bytes)
{
	struct bridge *bridge;

	LIST_FOREACH(bridge, &bridges->list, link)
		if (bridge->state == BRIDGE_ASKED && bytes == sizeof(bridge->token) && strcmp(bridge->host, host) == 0 &&
		    memcmp(bridge->token, token, bytes) == 0)
			return bridge;
	return NULL;
}

static int take_end(struct bridge *bridge, enum side side, struct transport *transport)
{
	struct end *end = &bridge->end[side];
	struct event_base *base = bridge->bridges->config.base;

	end->transport = transport;
	end->readable = event_new(base, transport->fd, EV_READ | EV_PERSIST, on_ready, end);
	end->writable = event_new(base, transport->fd, EV_WRITE | EV_PERSIST, on_ready, end);
	return end->readable && end->writable ? 0 : -ENOMEM;
}

/* The answer to the client is the first that it is to get. */
static int put_reached(struct bridge *bridge)
{
	Ringtail__V1__Reached message = RINGTAIL__V1__REACHED__INIT;
	struct frame_ref *frame = frame_ref_pack(bridge->bridges->config.codec, FRAME_REACHED, &message.base);
	struct flow *flow = &bridge->end[SIDE_HOST].from;

	if (!frame)
		return -ENOMEM;
	memcpy(flow->bytes, frame->data, frame->bytes);
	flow->n = frame->bytes;
	frame_ref_put(frame);
	return 0;
}

static void open_bridge(struct bridge *bridge, struct transport *of_host)
{
	struct transport *of_client;
	int err;

	bridge->state = BRIDGE_OPEN;	/* from here on its client's session, which ends now, is nobody's */
	event_del(bridge->timeout);
	of_client = bridge->asker.reached(bridge->asker.context);
	err = take_end(bridge, SIDE_HOST, of_host);
	if (of_client && take_end(bridge, SIDE_CLIENT, of_client) != 0)
		err = -ENOMEM;
	if (!err)
		err = put_reached(bridge);
	if (err || !of_client) {
		counter_add(COUNTER_reaches_failed, 1);
		end_bridge(bridge, err ? "out of memory" : "the client has left");
		return;
	}
	log_info("reach-begins", "%s reaches %s", bridge->who, bridge->host);
	carry(bridge);
}

int bridges_join(struct bridges *bridges, const char *host, const uint8_t *token, size_t bytes,
		 struct transport *transport, struct error *error)
{
	struct bridge *bridge = find(bridges, host, token, bytes);

	if (!bridge)
		return refuse(error, EACCES, "dial-unknown", "the host %s was not asked to dial this relay with this token, or"
			      " its client has left", host, "nothing needs to be done, if it was late");
	open_bridge(bridge, transport);
	return 0;
}

bool bridges_refuse(struct bridges *bridges, const char *host, const uint8_t *token, size_t bytes,
		    const struct error *error)
{
	struct bridge *bridge = find(bridges, host, token, bytes);

	if (bridge)
		fail(bridge, error);
	return bridge;
}

void bridges_host_left(struct bridges *bridges, const char *host)
{
	struct bridge *bridge, *next;
	struct error error;

	error_set(&error, EHOSTUNREACH, "host-away", "the host %s has left this relay", host);
	error_hint(&error, "`tracectl list hosts` shows which are connected");
	for (bridge = LIST_FIRST(&bridges->list); bridge; bridge = next) {
		next = LIST_NEXT(bridge, link);
		if (bridge->state == BRIDGE_ASKED && strcmp(bridge->host, host) == 0)
			fail(bridge, &error);
	}
}

/* ---- All of them -------------------------------------------------------------------------------- */

static bool is_allowed(struct bridge *bridge)
{
	const struct gate *gate = bridge->bridges->config.gate;
	const struct transport *client = bridge->end[SIDE_CLIENT].transport, *host = bridge->end[SIDE_HOST].transport;
	struct error ignored;

	gate_judge(gate, &bridge->identity);
	return bridge->identity.role >= ROLE_OPERATOR &&
	       (bridge->identity.proof != IDENTITY_CERT ||
		transport_tls_check_revoked(gate_tls(gate), client, &ignored) == 0) &&
	       transport_tls_check_revoked(gate_tls(gate), host, &ignored) == 0;
}

/* One that waits for its host is a session's, which goes on with the role that is left to it. */
static void judge_asked(struct bridge *bridge)
{
	const struct gate *gate = bridge->bridges->config.gate;
	struct error error;

	gate_judge(gate, &bridge->identity);
	if (gate_allow(gate, &bridge->identity, ROLE_OPERATOR, "ask hosts through this relay", &error) != 0)
		fail(bridge, &error);
}

void bridges_judge(struct bridges *bridges)
{
	struct bridge *bridge, *next;

	for (bridge = LIST_FIRST(&bridges->list); bridge; bridge = next) {
		next = LIST_NEXT(bridge, link);
		if (bridge->state == BRIDGE_ASKED)
			judge_asked(bridge);
		else if (!is_allowed(bridge))
			end_bridge(bridge, "it is no longer allowed");
	}
}

struct bridges *bridges_create(const struct bridges_config *config)
{
	struct bridges *bridges = calloc(1, sizeof(*bridges));

	if (!bridges)
		return NULL;
	bridges->config = *config;
	LIST_INIT(&bridges->list);
	return bridges;
}

void bridges_destroy(struct bridges *bridges)
{
	struct bridge *bridge;

	if (!bridges)
		return;
	/* Who waits for one is disconnected with all other clients. */
	while ((bridge = LIST_FIRST(&bridges->list)))
		free_bridge(bridge);
	free(bridges);
}
