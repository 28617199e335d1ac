#include "daemon/relay/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/random.h"
#include "daemon/net/origin.h"
#include "daemon/net/transport.h"
#include "daemon/relay/agent.h"
#include "daemon/relay/bridge.h"
#include "daemon/relay/host.h"
#include "daemon/relay/waiting_room.h"

#define BUCKETS		1024u

TAILQ_HEAD(agent_list, relay_agent);

struct relay {
	struct relay_config config;
	struct relay_agent_host callbacks;
	struct relay_desk desk;
	LIST_HEAD(host_list, relay_host) bucket[BUCKETS];
	unsigned hosts, connected, pendings;
	struct agent_list agents, pending;	/* with a host; and without, the oldest first */
	unsigned pending_from[ORIGINS];		/* of pendings */
	struct waiting_room waiting;		/* for a place among these */
	struct event *room;			/* there may be such a place */
	uint64_t origin_seed;
	rlim_t descriptors_max;
	unsigned metered;			/* hosts that have series of their own */
	struct stat_host gone;			/* sums of hosts that are known no more */
	uint64_t forgotten;			/* of these, so many */
	uint64_t lost[LOSS_STAGES][LOSS_REASONS];	/* that all hosts told of */
	uint64_t held_bytes;
	uint64_t rest_bytes;			/* of frames that have not come whole */
	struct bridges *bridges;		/* of clients and hosts */
	bool full;				/* some host waits for others to be stored */
	bool ending;
};

/* A frame on its way to the sink. */
struct shipment {
	struct relay_item item;
	struct relay *relay;
	struct relay_host *host;
	struct cursor *upto;
};

/* ---- Hosts ----------------------------------------------------------------------------------- */

/* FNV-1a (Fowler, Noll, Vo). */
static struct host_list *bucket_of(struct relay *relay, const char *name)
{
	uint32_t hash = 0x811c9dc5;

	while (*name)
		hash = (hash ^ (uint8_t)*name++) * 0x01000193;
	return &relay->bucket[hash % BUCKETS];
}

static struct relay_host *find_host(struct relay *relay, const char *name)
{
	struct relay_host *host;

	LIST_FOREACH(host, bucket_of(relay, name), link)
		if (strcmp(host->name, name) == 0)
			return host;
	return NULL;
}

/* The sum has no sign, and ends at INT64_MAX: a host can send any number, and two must not add up to 0. */
static void add_residual(int64_t *sum, int64_t residual)
{
	uint64_t more = residual < 0 ? 0 - (uint64_t)residual : (uint64_t)residual;
	uint64_t room = (uint64_t)INT64_MAX - (uint64_t)*sum;

	*sum += (int64_t)(more < room ? more : room);
}

static void add_host(struct stat_host *sum, const struct stat_host *host)
{
	sum->received += host->received;
	sum->forwarded += host->forwarded;
	sum->duplicate += host->duplicate;
	sum->refused += host->refused;
	sum->held += host->held;
	add_residual(&sum->residual, host->residual);
	sum->events += host->events;
	sum->forwarded_bytes += host->forwarded_bytes;
	sum->gaps += host->gaps;
	sum->told.produced += host->told.produced;
	sum->told.stored += host->told.stored;
	sum->told.lost += host->told.lost;
	sum->told.in_flight += host->told.in_flight;
	sum->told.behind_bytes += host->told.behind_bytes;
	add_residual(&sum->told.residual, host->told.residual);
	sum->told.kept += host->told.kept;
	sum->told.acked += host->told.acked;
	sum->told.gone += host->told.gone;
	sum->told.waiting += host->told.waiting;
	add_residual(&sum->told.relay_residual, host->told.relay_residual);
	if (host->heard_realtime_ns && (!sum->heard_realtime_ns || host->heard_realtime_ns < sum->heard_realtime_ns))
		sum->heard_realtime_ns = host->heard_realtime_ns;
}

/* What came of it goes on counting in the sums. */
static void forget_host(struct relay *relay, struct relay_host *host)
{
	struct stat_host stat;

	relay_host_stat(host, &stat);
	stat.heard_realtime_ns = 0;
	stat.told = (struct stat_told){0};	/* of a spool as it is, not of what came */
	add_host(&relay->gone, &stat);
	LIST_REMOVE(host, link);
	relay->hosts--;
	relay->metered -= host->metered;
	relay->forgotten++;
	relay_host_destroy(host);
}

/* Nothing of it is under way, and it is not connected: it is known no more. */
static bool forget_one(struct relay *relay)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct relay_host *host;

		LIST_FOREACH(host, &relay->bucket[i], link) {
			if (host->agent || host->held)
				continue;
			forget_host(relay, host);
			return true;
		}
	}
	return false;
}

static struct relay_host *get_host(struct relay *relay, const char *name)
{
	struct relay_host *host = find_host(relay, name);

	if (host)
		return host;
	if (relay->hosts == RELAY_HOSTS_MAX && !forget_one(relay))
		return NULL;
	host = relay_host_create(name);
	if (!host)
		return NULL;
	LIST_INSERT_HEAD(bucket_of(relay, name), host, link);
	relay->hosts++;
	host->metered = relay->metered < RELAY_HOSTS_METERED;
	relay->metered += host->metered;
	return host;
}

/* The sink has something of it, though it has not been here. */
static void on_found(void *context, const char *name)
{
	struct relay *relay = context;

	if (relay->hosts < RELAY_HOSTS_MAX)
		get_host(relay, name);
}

static void refuse_full(const struct relay *relay, struct error *error)
{
	error_set(error, EBUSY, "too-many-agents", "this relay serves %u hosts at once",
		  relay->config.agents_max);
	error_hint(error, "raise agents-max of the relay, or give the agents another relay");
}

/* The newer connection counts: the older one may be of before the host's network broke. */
static void replace(const struct relay *relay, struct relay_host *host)
{
	struct error error;

	log_warn("agent-replaced", "the host %s has connected once more: the connection before ends; if"
		 " that goes on, two hosts have certificates of this name", host->name);
	error_set(&error, EBUSY, "agent-replaced", "the host %s has connected once more", host->name);
	error_hint(&error, "if that goes on, two hosts have certificates of this name: give each its own");
	bridges_host_left(relay->bridges, host->name);
	host->agent->of = NULL;
	relay_agent_replace(host->agent, &error);
	host->agent = NULL;
}

static void enlist(struct relay *relay, struct relay_agent *agent, bool pending)
{
	agent->pending = pending;
	relay->pendings += pending;
	relay->pending_from[agent->origin] += pending;
	TAILQ_INSERT_TAIL(pending ? &relay->pending : &relay->agents, agent, link);
}

static void delist(struct relay *relay, struct relay_agent *agent)
{
	TAILQ_REMOVE(agent->pending ? &relay->pending : &relay->agents, agent, link);
	relay->pendings -= agent->pending;
	relay->pending_from[agent->origin] -= agent->pending;
	if (agent->pending && relay->waiting.count && !relay->ending)
		event_active(relay->room, EV_TIMEOUT, 0);
}

static void make_pending(struct relay *relay, struct relay_agent *agent, bool pending)
{
	delist(relay, agent);
	enlist(relay, agent, pending);
}

static struct relay_host *on_admit(void *context, struct relay_agent *agent, const char *name,
				   struct error *error)
{
	struct relay *relay = context;
	struct relay_host *host = find_host(relay, name);

	/* A reload may have come between its handshake and its hello. */
	if (transport_tls_check_revoked(gate_tls(relay->config.gate), agent->transport, error) != 0)
		return NULL;
	if (relay->connected >= relay->config.agents_max && !(host && host->agent)) {
		refuse_full(relay, error);
		return NULL;
	}
	host = host ? host : get_host(relay, name);
	if (!host) {
		error_set(error, ENOMEM, "out-of-memory", "the relay has no memory for another host");
		error_hint(error, "connect again in a moment");
		return NULL;
	}
	relay->connected += !host->agent;
	if (host->agent) {
		make_pending(relay, host->agent, true);
		replace(relay, host);
	}
	host->agent = agent;
	host->since_realtime_ns = clock_read(CLOCK_REALTIME);
	snprintf(host->software, sizeof(host->software), "%s", agent->software);
	make_pending(relay, agent, false);
	log_info("agent-came", "the host %s is connected (%s)", name, agent->peer);
	return host;
}

static void on_closed(void *context, struct relay_agent *agent)
{
	struct relay *relay = context;

	delist(relay, agent);
	if (!agent->of || agent->of->agent != agent)
		return;
	agent->of->agent = NULL;
	agent->of->since_realtime_ns = clock_read(CLOCK_REALTIME);
	relay->connected--;
	bridges_host_left(relay->bridges, agent->of->name);
	if (!relay->ending)
		log_info("agent-left", "the host %s has left", agent->of->name);
}

/* ---- Clients that ask for a host ------------------------------------------------------------- */

int relay_reach(struct relay *relay, const char *name, const struct client_identity *identity, const char *who,
		const struct bridge_asker *asker, struct error *error)
{
	struct relay_host *host = find_host(relay, name);

	if (host)
		return bridges_ask(relay->bridges, host, identity, who, asker, error);
	counter_add(COUNTER_reaches, 1);
	counter_add(COUNTER_reaches_failed, 1);
	error_set(error, ENOENT, "host-unknown", "this relay knows no host %.64s", name);
	error_hint(error, "`tracectl list hosts` shows which it knows");
	return -ENOENT;
}

void relay_leave(struct relay *relay, const void *context)
{
	bridges_leave(relay->bridges, context);
}

static int on_join(void *context, const char *name, const uint8_t *token, size_t bytes, struct transport *transport,
		   struct error *error)
{
	struct relay *relay = context;
	int err = transport_tls_check_revoked(gate_tls(relay->config.gate), transport, error);

	return err ? err : bridges_join(relay->bridges, name, token, bytes, transport, error);
}

static bool on_refused_dial(void *context, const char *name, const uint8_t *token, size_t bytes,
			    const struct error *error)
{
	struct relay *relay = context;

	return bridges_refuse(relay->bridges, name, token, bytes, error);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static void free_shipment(struct shipment *shipment)
{
	relay_opening_put(shipment->item.opening);
	frame_ref_put(shipment->item.frame);
	free(shipment->upto);
	free(shipment);
}

static void refuse_unstored(struct relay_host *host)
{
	struct error error;

	relay_host_fail(host);
	if (!host->agent || host->agent->state == AGENT_CLOSING)
		return;
	error_set(&error, EIO, "relay-cannot-store", "the relay could not store what this host sent");
	error_hint(&error, "nothing is lost: it is sent again; see the relay's log");
	relay_agent_refuse(host->agent, &error);
}

/* Who waited reads on, as far as there is room again. */
static void go_on(struct relay *relay, struct relay_host *host)
{
	struct relay_agent *agent;

	if (relay->full && relay->held_bytes < RELAY_HELD_BYTES - RELAY_HELD_BYTES / 8) {
		relay->full = false;
		TAILQ_FOREACH(agent, &relay->agents, link)
			relay_agent_go_on(agent);
	}
	if (host->agent)
		relay_agent_go_on(host->agent);
}

static void count_forwarded(struct relay *relay, struct relay_host *host, const struct frame_ref *frame)
{
	relay_host_count(host, frame);
	for (uint32_t i = 0; i < frame->losses; i++)
		relay->lost[frame->loss[i].stage][frame->loss[i].reason] += frame->loss[i].count;
	counter_add(COUNTER_relay_forwarded, 1);
	counter_add(COUNTER_relay_events, frame->events);
}

static void on_confirmed(struct relay_item *item, int err)
{
	struct shipment *shipment = (struct shipment *)item;
	struct relay *relay = shipment->relay;
	struct relay_host *host = shipment->host;
	bool current = item->generation == host->generation;

	relay->held_bytes -= relay_host_release(host, item);
	if (!err) {
		count_forwarded(relay, host, item->frame);
		if (relay_host_store(host, item) == 0 && host->agent)
			host->agent->owes_ack = true;
	} else {
		host->refused++;
		counter_add(COUNTER_relay_refused, 1);
	}
	free_shipment(shipment);
	if (relay->ending)
		return;
	if (err && current)
		refuse_unstored(host);
	/* The last of them: one acknowledgement for all. */
	else if (host->agent && host->agent->owes_ack)
		event_active(host->agent->writable, EV_WRITE, 0);
	go_on(relay, host);
}

static bool on_forward(void *context, struct relay_agent *agent, struct relay_opening *opening,
		       struct frame_ref *frame, struct cursor *upto)
{
	struct relay *relay = context;
	struct relay_host *host = agent->of;
	struct shipment *shipment = calloc(1, sizeof(*shipment));
	int news = shipment ? relay_host_take(host, frame, upto) : -ENOMEM;

	host->received += news >= 0;
	host->duplicate += news == 0;
	counter_add(COUNTER_relay_received, news >= 0);
	counter_add(COUNTER_relay_duplicate, news == 0);
	host->heard_realtime_ns = clock_read(CLOCK_REALTIME);
	if (news <= 0) {
		free(shipment);
		frame_ref_put(frame);
		free(upto);
		return news == 0;
	}
	*shipment = (struct shipment){
		.item = {.host = host->name, .opening = relay_opening_get(opening), .frame = frame,
			 .generation = host->generation, .upto = upto, .confirmed = on_confirmed},
		.relay = relay,
		.host = host,
		.upto = upto,
	};
	relay->held_bytes += relay_host_hold(host, &shipment->item);
	relay_sink_forward(relay->config.sink, &shipment->item);
	return true;
}

/*
 * Hosts whose sink stands still (a partition of Kafka) must leave room for the others, however many they are. So a host
 * may hold as much as all leave free of the first half; when that is full, a frame at a time.
 */
static bool has_its_share(const struct relay *relay, const struct relay_host *host)
{
	uint64_t shared = RELAY_HELD_BYTES / 2;
	uint64_t left = shared > relay->held_bytes ? shared - relay->held_bytes : 0;

	return host->held_bytes && host->held_bytes >= left;
}

static bool on_is_full(void *context, const struct relay_agent *agent)
{
	struct relay *relay = context;

	if (relay->held_bytes >= RELAY_HELD_BYTES)
		relay->full = true;
	return relay->full || relay_host_is_full(agent->of) || has_its_share(relay, agent->of);
}

/* The one that has most goes: who sends the beginnings of large frames from many hosts hurts these. */
static bool on_make_way(void *context, struct relay_agent *agent)
{
	struct relay *relay = context;
	struct relay_agent *other, *most = agent;

	TAILQ_FOREACH(other, &relay->agents, link)
		if (other->input_capacity > most->input_capacity)
			most = other;
	if (most->input_capacity <= RELAY_REST_SMALL_BYTES)
		return true;
	log_warn("agent-slow", "the host %s is disconnected: %llu bytes of a frame that has not come whole wait,"
		 " and of all hosts too many do", most->of ? most->of->name : "?",
		 (unsigned long long)most->input_bytes);
	counter_add(COUNTER_agents_refused, 1);
	if (most != agent)
		relay_agent_destroy(most);
	return most != agent;
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* Of those that have not said who they are, the oldest from where most of them come that has sent nothing; or else the
 * oldest from there, one whose certificate is good only where all from there are. */
static struct relay_agent *pending_to_go(const struct relay *relay, unsigned most)
{
	struct relay_agent *agent, *oldest = NULL;

	TAILQ_FOREACH(agent, &relay->pending, link) {
		if (relay->pending_from[agent->origin] != most)
			continue;
		if (!agent->heard)
			return agent;
		if (!oldest || (oldest->shaken && !agent->shaken))
			oldest = agent;
	}
	return oldest;
}

/* It shakes hands when its turn comes. */
static void begin(struct relay *relay, int fd, uint8_t origin, const char *peer)
{
	struct relay_agent_config config = {
		.base = relay->config.base,
		.host = &relay->callbacks,
		.desk = &relay->desk,
		.turnstile = relay->config.turnstile,
		.hello_timeout_ns = relay->config.hello_timeout_ns,
	};
	struct transport *transport = transport_tls_create(gate_tls(relay->config.gate), fd);
	struct relay_agent *agent = transport ? relay_agent_create(&config, transport, peer) :
						NULL;

	if (!agent) {
		counter_add(COUNTER_agents_refused, 1);
		log_warn("agent-memory", "cannot serve the agent %s: out of memory", peer);
		return;
	}
	counter_add(COUNTER_agents_accepted, 1);
	agent->origin = origin;
	agent->began_ns = clock_monotonic();
	enlist(relay, agent, true);
}

/* Who connects and says nothing keeps others waiting. */
static void end_silent(struct relay *relay, uint64_t now_ns)
{
	struct relay_agent *agent, *next;

	for (agent = TAILQ_FIRST(&relay->pending); agent && now_ns - agent->began_ns > RELAY_SILENT_NS; agent = next) {
		next = TAILQ_NEXT(agent, link);
		if (agent->heard)
			continue;
		counter_add(COUNTER_agents_refused, 1);
		relay_agent_destroy(agent);
	}
}

static void await_room(struct relay *relay)
{
	struct timeval tv = {.tv_usec = RELAY_ROOM_NS / 1000};

	if (relay->waiting.count && !event_pending(relay->room, EV_TIMEOUT, NULL))
		event_add(relay->room, &tv);
}

static void on_room(evutil_socket_t fd, short what, void *context)
{
	struct relay *relay = context;
	uint64_t now_ns = clock_monotonic();
	char peer[WAITING_ROOM_PEER_BYTES];
	uint8_t origin;

	(void)what;
	counter_add(COUNTER_agents_refused, waiting_room_sweep(&relay->waiting, now_ns));
	if (relay->waiting.count)
		end_silent(relay, now_ns);
	while (relay->pendings < RELAY_PENDING_MAX &&
	       (fd = waiting_room_next(&relay->waiting, relay->pending_from, &origin, peer)) >= 0)
		begin(relay, fd, origin, peer);
	await_room(relay);
}

static unsigned most_pending(const struct relay *relay)
{
	unsigned most = 0;

	for (unsigned i = 0; i < ORIGINS; i++)
		if (relay->pending_from[i] > most)
			most = relay->pending_from[i];
	return most;
}

/* With a descriptor for each host that may still come: whoever floods this address takes none of theirs. */
static bool may_wait(const struct relay *relay, int fd)
{
	rlim_t room = relay->descriptors_max - DESCRIPTORS_RESERVED;

	return (rlim_t)fd + relay->config.agents_max - relay->connected < room;
}

void relay_accept(void *context, int fd, const struct address *address, const char *peer)
{
	struct relay *relay = context;
	uint8_t origin = origin_of(relay->origin_seed, peer);
	unsigned most = most_pending(relay);

	(void)address;
	if (relay->descriptors_max <= DESCRIPTORS_RESERVED ||
	    (rlim_t)fd >= relay->descriptors_max - DESCRIPTORS_RESERVED) {
		counter_add(COUNTER_agents_refused, 1);
		log_warn("descriptors-exhausted", "no descriptor is left for another agent: raise the"
			 " limit (LimitNOFILE), or lower agents-max");
		transport_tls_turn_away(fd);
		close(fd);
		return;
	}
	transport_keep_alive(fd);
	/* Others from there wait already; or there is no place, and no other origin has more of them than its share. */
	if (relay->waiting.from[origin] || (relay->pendings >= RELAY_PENDING_MAX &&
					    relay->pending_from[origin] + 1 >= most)) {
		if (may_wait(relay, fd)) {
			counter_add(COUNTER_agents_refused,
				    !waiting_room_enter(&relay->waiting, fd, origin, peer, clock_monotonic()));
			await_room(relay);
			return;
		}
	}
	if (relay->pendings >= RELAY_PENDING_MAX) {
		counter_add(COUNTER_agents_refused, 1);
		relay_agent_destroy(pending_to_go(relay, most));
	}
	begin(relay, fd, origin, peer);
}

void relay_judge(struct relay *relay)
{
	struct relay_agent *agent;
	struct error error;

	TAILQ_FOREACH(agent, &relay->agents, link)
		if (transport_tls_check_revoked(gate_tls(relay->config.gate), agent->transport, &error) != 0)
			relay_agent_refuse(agent, &error);
	bridges_judge(relay->bridges);
}

/* ---- Facts ----------------------------------------------------------------------------------- */

/* Of one host, with what its sink knows. */
static void stat_host(const struct relay *relay, const struct relay_host *host, struct stat_host *stat)
{
	relay_host_stat(host, stat);
	relay_sink_stat(relay->config.sink, host->name, &stat->sink);
	if (host->agent)
		stat->peer = host->agent->peer;
}

void relay_stat(const struct relay *relay, struct stat_relay *stat)
{
	const struct relay_sink *sink = relay->config.sink;

	*stat = (struct stat_relay){
		.hosts = relay->hosts,
		.connected = relay->connected,
		.forgotten = relay->forgotten,
		.carries = sink && sink->ops->has_courier,
		.courier = sink && sink->ops->has_courier && sink->ops->has_courier(sink),
		.all = relay->gone,
	};
	for (unsigned i = 0; i < BUCKETS; i++) {
		const struct relay_host *host;
		struct stat_host one;

		LIST_FOREACH(host, &relay->bucket[i], link) {
			relay_host_stat(host, &one);
			add_host(&stat->all, &one);
			stat->told += one.told.realtime_ns != 0;
		}
	}
	stat->all.name = stat->all.software = stat->all.peer = "";
	stat->all.held_bytes = relay->held_bytes;
	stat->all.lost = (struct stat_losses){relay->lost, 0, LOSS_STAGES};
	relay_sink_stat(relay->config.sink, NULL, &stat->all.sink);
}

size_t relay_list_metered(const struct relay *relay, struct stat_host list[RELAY_HOSTS_METERED])
{
	size_t n = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		const struct relay_host *host;

		LIST_FOREACH(host, &relay->bucket[i], link)
			if (host->metered)
				stat_host(relay, host, &list[n++]);
	}
	return n;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct relay_host *const *)a)->name, (*(const struct relay_host *const *)b)->name);
}

/* Of one bucket, those behind that name, in order; as many as the bucket has at most. Returns how many. */
static size_t list_bucket(const struct host_list *bucket, const char *after, const struct relay_host **list)
{
	const struct relay_host *host;
	size_t n = 0;

	LIST_FOREACH(host, bucket, link)
		if (strcmp(host->name, after) > 0)
			list[n++] = host;
	qsort(list, n, sizeof(*list), by_name);
	return n;
}

/* By buckets, and by names in each: so that the place of a name is known without sorting all of them. */
ssize_t relay_list(struct relay *relay, const char *after, struct stat_host *list, size_t max, bool *more)
{
	const struct relay_host **found = calloc(relay->hosts + 1, sizeof(*found));
	const struct host_list *bucket = *after ? bucket_of(relay, after) : relay->bucket;
	size_t n = 0;

	if (!found)
		return -ENOMEM;
	for (; bucket < relay->bucket + BUCKETS && n <= max; bucket++, after = "")
		n += list_bucket(bucket, after, found + n);
	*more = n > max;
	n = *more ? max : n;
	for (size_t i = 0; i < n; i++)
		stat_host(relay, found[i], &list[i]);
	free(found);
	return (ssize_t)n;
}

static void log_ledger(const struct relay *relay)
{
	struct stat_relay stat;
	const struct stat_host *all = &stat.all;

	relay_stat(relay, &stat);
	log_info("relay-ledger", "%u hosts: %llu frames received = %llu forwarded + %llu duplicate + %llu refused"
		 " + %llu held, residual %lld", stat.hosts, (unsigned long long)all->received,
		 (unsigned long long)all->forwarded, (unsigned long long)all->duplicate,
		 (unsigned long long)all->refused, (unsigned long long)all->held,
		 (long long)all->residual);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_relay(struct relay *relay)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct relay_host *host;

		while ((host = LIST_FIRST(&relay->bucket[i]))) {
			LIST_REMOVE(host, link);
			relay_host_destroy(host);
		}
	}
	bridges_destroy(relay->bridges);
	waiting_room_fini(&relay->waiting);
	if (relay->room)
		event_free(relay->room);
	frame_codec_destroy(relay->desk.codec);
	free(relay->desk.input);
	free(relay->desk.raw);
	free(relay);
}

int relay_create(const struct relay_config *config, struct relay **out, struct error *error)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	struct rlimit limit;

	if (!relay) {
		relay_sink_destroy(config->sink);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	relay->config = *config;
	relay->callbacks = (struct relay_agent_host){
		.context = relay,
		.admit = on_admit,
		.forward = on_forward,
		.is_full = on_is_full,
		.make_way = on_make_way,
		.join = on_join,
		.refused_dial = on_refused_dial,
		.closed = on_closed,
	};
	relay->descriptors_max = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur :
									 RLIM_INFINITY;
	for (unsigned i = 0; i < BUCKETS; i++)
		LIST_INIT(&relay->bucket[i]);
	TAILQ_INIT(&relay->agents);
	TAILQ_INIT(&relay->pending);
	waiting_room_init(&relay->waiting);
	relay->room = evtimer_new(config->base, on_room, relay);
	relay->desk = (struct relay_desk){
		.codec = frame_codec_create(1),
		.input = malloc(RELAY_INPUT_BYTES),
		.raw = malloc(FRAME_RAW_BYTES_MAX),
		.rest_bytes = &relay->rest_bytes,
	};
	relay->bridges = bridges_create(&(struct bridges_config){
		.base = config->base, .gate = config->gate, .codec = relay->desk.codec,
		.linger_ns = config->hello_timeout_ns, .silence_ns = config->silence_timeout_ns,
	});
	if (!relay->room || !relay->bridges || !relay->desk.codec || !relay->desk.input || !relay->desk.raw ||
	    random_bytes(&relay->origin_seed, sizeof(relay->origin_seed)) != 0) {
		relay_sink_destroy(config->sink);
		free_relay(relay);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	config->sink->found = on_found;
	config->sink->context = relay;
	*out = relay;
	return 0;
}

void relay_destroy(struct relay *relay)
{
	struct relay_agent *agent;

	if (!relay)
		return;
	relay->ending = true;
	while ((agent = TAILQ_FIRST(&relay->pending)) || (agent = TAILQ_FIRST(&relay->agents)))
		relay_agent_destroy(agent);
	relay_sink_destroy(relay->config.sink);
	relay->config.sink = NULL;
	log_ledger(relay);
	free_relay(relay);
}
