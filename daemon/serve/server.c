#include "daemon/serve/server.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/allowance.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/random.h"
#include "daemon/collect/batcher.h"
#include "daemon/net/origin.h"
#include "daemon/net/transport.h"
#include "daemon/relay/relay.h"
#include "daemon/serve/dump_parts.h"
#include "daemon/serve/stuck.h"
#include "daemon/stream/gather.h"
#include "proto/limits.h"
#include "query/visible.h"

/* In the order in which stat tells of them. */
enum client_state {
	CLIENT_SERVED,
	CLIENT_PENDING,
	CLIENT_TURNED_AWAY,	/* beyond pending-max, in the middle of TLS: until it can be told so */
	CLIENT_REFUSED,		/* beyond clients-max, just long enough to be told so */
	CLIENT_STATES,
};

struct client {
	TAILQ_ENTRY(client) link;
	enum client_state state;
	enum server_door door;
	uint8_t origin;			/* where it comes from: a user, or an address */
	char through[IDENTITY_TEXT_BYTES];	/* SERVER_THROUGH: what the relay calls it */
	struct session *session;	/* NULL: being made */
};

TAILQ_HEAD(client_list, client);

struct server {
	struct server_config config;
	struct session_host host;
	struct event *sweep;
	struct stuck *stuck;
	struct dump_parts *dumps;
	uint64_t sweep_due_ns;
	uint64_t next_id;
	rlim_t descriptors_max;
	unsigned count[CLIENT_STATES];
	unsigned pending_from[ORIGINS];	/* of count[CLIENT_PENDING] */
	uint64_t origin_seed;
	struct allowance relay_allowance;		/* one for all connections to relays, also for clients of theirs */
	uint64_t dials_since_ns;			/* begin of the time in which `dials` are counted */
	unsigned dials;
	struct client_list list[CLIENT_STATES];		/* each from its oldest */
};

/* Takes its place in the list of its state. */
static void enlist(struct server *server, struct client *client)
{
	TAILQ_INSERT_TAIL(&server->list[client->state], client, link);
	server->count[client->state]++;
	server->pending_from[client->origin] += client->state == CLIENT_PENDING;
}

static void leave_list(struct server *server, struct client *client)
{
	TAILQ_REMOVE(&server->list[client->state], client, link);
	server->count[client->state]--;
	server->pending_from[client->origin] -= client->state == CLIENT_PENDING;
}

static void move(struct server *server, struct client *client, enum client_state state)
{
	leave_list(server, client);
	client->state = state;
	enlist(server, client);
}

static void forget_client(struct server *server, struct client *client)
{
	leave_list(server, client);
	free(client);
}

/* ---- Who may have a place, and who gives one up, so that no one keeps others out ------------- */

/* Counts one more, and says why. */
static void set_full(const struct server *server, struct error *error)
{
	counter_add(COUNTER_sessions_refused, 1);
	error_set(error, EBUSY, "too-many-clients", "this daemon serves %u clients at once",
		  server->config.bounds.clients_max);
	error_hint(error, "wait until one leaves, or raise clients-max");
}

/* Of clients-max. */
static unsigned kept_for_operators(const struct server *server)
{
	unsigned part = server->config.bounds.clients_max / OPERATORS_KEPT_PART;

	if (server->config.bounds.clients_max < OPERATORS_KEPT_FROM)
		return 0;
	return part < 1 ? 1 : part < OPERATORS_KEPT_MAX ? part : OPERATORS_KEPT_MAX;
}

static int refuse_identity(const struct client_identity *identity, unsigned has,
			   struct error *error)
{
	counter_add(COUNTER_sessions_refused, 1);
	counter_add(COUNTER_sessions_of_one_refused, 1);
	error_set(error, EBUSY, "too-many-of-identity",
		  "%s has %u connections here, as many as one identity may have", identity->text,
		  has);
	error_hint(error, "close one of them, or raise clients-per-identity");
	return -EBUSY;
}

static int refuse_viewer(const struct server *server, unsigned kept, struct error *error)
{
	counter_add(COUNTER_sessions_refused, 1);
	error_set(error, EBUSY, "too-many-clients", "this daemon serves %u clients at once, and keeps"
		  " %u of these places for operators", server->config.bounds.clients_max, kept);
	error_hint(error, "wait until one leaves, or raise clients-max");
	return -EBUSY;
}

/* Whether there is a place for one that was let in; -EBUSY with *error: what is full, and what to do. */
static int find_place(const struct server *server, const struct client_identity *identity,
		      struct error *error)
{
	unsigned kept = kept_for_operators(server), viewers = 0, same = 0;
	const struct server_bounds *bounds = &server->config.bounds;
	const struct client *client;

	TAILQ_FOREACH(client, &server->list[CLIENT_SERVED], link) {
		const struct client_identity *other = session_identity(client->session);

		viewers += other->role != ROLE_OPERATOR;
		same += strcmp(other->text, identity->text) == 0;
	}
	if (server->count[CLIENT_SERVED] >= bounds->clients_max) {
		set_full(server, error);
		return -EBUSY;
	}
	if (bounds->identity_max && same >= bounds->identity_max)
		return refuse_identity(identity, same, error);
	if (identity->role != ROLE_OPERATOR && viewers >= bounds->clients_max - kept)
		return refuse_viewer(server, kept, error);
	return 0;
}

/* ---- Those that have not said who they are --------------------------------------------------- */

/* Of those that have not said who they are, the oldest from where most of them come. */
static struct client *pending_to_go(const struct server *server)
{
	unsigned most = 0;
	struct client *client;

	for (unsigned i = 0; i < ORIGINS; i++)
		if (server->pending_from[i] > most)
			most = server->pending_from[i];
	TAILQ_FOREACH(client, &server->list[CLIENT_PENDING], link)
		if (server->pending_from[client->origin] == most)
			return client;
	return NULL;
}

/* ---- Coming in: by which door, and what becomes of those that there is no room for ----------- */

/*
 * Whoever is turned away is told by which limit, as far as that costs next to nothing:
 *
 *	plain, and TLS that is shaken hands with	an Error frame, into a socket that is empty
 *	TLS, in the middle of its handshake		that frame once it is shaken; TURNED_AWAY_MAX wait so
 *	TLS, of which nothing was heard yet		an alert, which can say no more than "no room"
 */
static struct client *oldest(struct server *server, enum client_state state)
{
	return TAILQ_FIRST(&server->list[state]);
}

static void turn_away(struct server *server, struct client *client)
{
	struct error error;

	error_set(&error, EBUSY, "too-many-pending", "%u connections have sent no Hello yet,"
		  " the most allowed: the daemon ends the oldest of the busiest origin, this one",
		  server->config.bounds.pending_max);
	error_hint(&error, "connect again in a moment, or raise pending-max");
	if (session_turn_away(client->session, &error))
		return;
	if (server->count[CLIENT_TURNED_AWAY] == TURNED_AWAY_MAX)
		session_destroy(oldest(server, CLIENT_TURNED_AWAY)->session, false);
	move(server, client, CLIENT_TURNED_AWAY);
}

/* Who has not said who it is may not keep others from saying it. */
static void make_room_for_pending(struct server *server)
{
	while (server->count[CLIENT_PENDING] >= server->config.bounds.pending_max) {
		struct client *client = pending_to_go(server);

		counter_add(COUNTER_sessions_pending_evicted, 1);
		log_info("pending-max",
			 "disconnected client %llu (%s): %u other connections have not authenticated",
			 (unsigned long long)session_id(client->session),
			 session_peer(client->session), server->count[CLIENT_PENDING] - 1);
		turn_away(server, client);
	}
}

/* Who comes in TLS hears later that there is no room; for its own relay there always is. */
static bool waits_for_room(enum server_door door)
{
	return door != SERVER_TLS && door != SERVER_RELAY && door != SERVER_THROUGH;
}

/* So that it is dialled again. */
static void tell_relay_left(struct server *server, enum server_door door)
{
	if (door == SERVER_RELAY && server->config.relay_left)
		server->config.relay_left(server->config.context);
}

static void serve(struct server *server, enum server_door door, struct transport *transport, const char *peer,
		  const char *through)
{
	struct session_config config = {
		.base = server->config.base,
		.host = &server->host,
		.bounds = &server->config.bounds.session,
		.codec = server->config.codec,
		.turnstile = server->config.turnstile,
		.allowance = door == SERVER_RELAY || door == SERVER_THROUGH ? &server->relay_allowance : NULL,
	};
	bool full = server->count[CLIENT_SERVED] >= server->config.bounds.clients_max;
	struct client *client;
	struct error error;

	/* Who comes in TLS is pending meanwhile, and hears it when it has said who it is. */
	if (full && waits_for_room(door) && server->count[CLIENT_REFUSED] >= REFUSED_MAX) {
		counter_add(COUNTER_sessions_refused, 1);
		transport_destroy(transport);
		return;
	}
	client = calloc(1, sizeof(*client));
	if (!client) {
		transport_destroy(transport);
		goto no_memory;
	}
	client->origin = origin_of(server->origin_seed, peer);
	client->state = full && waits_for_room(door) ? CLIENT_REFUSED : CLIENT_PENDING;
	if (client->state == CLIENT_PENDING)
		make_room_for_pending(server);
	client->door = door;
	snprintf(client->through, sizeof(client->through), "%s", through);
	enlist(server, client);
	config.client = client;
	client->session = session_create(&config, transport, ++server->next_id, peer);
	if (!client->session) {
		forget_client(server, client);
		goto no_memory;
	}
	counter_add(COUNTER_sessions_accepted, 1);
	log_debug("client-came", "client %llu is %s",
		  (unsigned long long)session_id(client->session), peer);
	if (client->state == CLIENT_REFUSED) {
		set_full(server, &error);
		session_refuse(client->session, &error, true);
	}
	return;

no_memory:
	counter_add(COUNTER_sessions_out_of_memory, 1);
	log_warn("client-memory", "cannot serve %s: out of memory", peer);
	tell_relay_left(server, door);
}

void server_serve(struct server *server, enum server_door door, struct transport *transport, const char *peer)
{
	serve(server, door, transport, peer, "");
}

void server_serve_through(struct server *server, struct transport *transport, const char *peer, const char *client)
{
	serve(server, SERVER_THROUGH, transport, peer, client);
}

/* What fits into an empty socket is said. */
static void say_no_descriptor(const struct server *server, int fd)
{
	Ringtail__V1__Error message = RINGTAIL__V1__ERROR__INIT;
	struct frame_ref *frame;

	message.code = "descriptors-exhausted";
	message.what = "this daemon has no descriptor left for another client";
	message.hint = "raise its limit of open files (LimitNOFILE), or lower clients-max";
	message.fatal = true;
	frame = frame_ref_pack(server->config.codec, FRAME_ERROR, &message.base);
	if (frame && send(fd, frame->data, frame->bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		shutdown(fd, SHUT_WR);
	frame_ref_put(frame);
}

/* The last descriptors are for files. */
static void refuse_descriptor(const struct server *server, enum server_door door, int fd)
{
	counter_add(COUNTER_sessions_refused, 1);
	log_warn("descriptors-exhausted", "no descriptor is left for another client: raise the limit"
		 " (LimitNOFILE), or lower clients-max");
	if (door == SERVER_TLS)
		transport_tls_turn_away(fd);
	else
		say_no_descriptor(server, fd);
	close(fd);
}

/* A peer that does not acknowledge what it is sent, or never has room for it, is gone by then. */
static void bound_acknowledgement(const struct server *server, int fd)
{
	uint64_t ms = server->config.bounds.session.silence_timeout_ns / 1000000;
	unsigned timeout_ms = ms < INT_MAX ? (unsigned)ms : INT_MAX;

	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

void server_accept(void *context, int fd, const struct address *address, const char *peer)
{
	struct server *server = context;
	enum server_door door = address_is_unix(address)				   ? SERVER_UNIX :
				address->loopback && server->config.bounds.insecure ? SERVER_PLAIN :
										      SERVER_TLS;
	struct transport *transport;

	if (server->descriptors_max <= DESCRIPTORS_RESERVED ||
	    (rlim_t)fd >= server->descriptors_max - DESCRIPTORS_RESERVED) {
		refuse_descriptor(server, door, fd);
		return;
	}
	if (door != SERVER_UNIX)
		bound_acknowledgement(server, fd);
	transport = door == SERVER_TLS ? transport_tls_create(gate_tls(server->config.gate), fd) :
					 transport_plain_create(fd);
	if (transport) {
		server_serve(server, door, transport, peer);
	} else {
		counter_add(COUNTER_sessions_out_of_memory, 1);
		log_warn("client-memory", "cannot serve %s: out of memory", peer);
	}
}

/* ---- Messages, and the plain structs that the rest of the daemon knows ---------------------------- */

static uint32_t flags_of(const Ringtail__V1__Subscribe *subscribe)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < subscribe->n_flag; i++) {
		if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_KSTACK)
			flags |= RT_FLAG_KSTACK;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_USTACK)
			flags |= RT_FLAG_USTACK;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_STRINGS)
			flags |= RT_FLAG_STRINGS;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_CONTEXT)
			flags |= RT_FLAG_CONTEXT;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_FDS)
			flags |= RT_FLAG_FDS;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_DATA)
			flags |= RT_FLAG_DATA;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_STACK_TABLE)
			flags |= SPEC_STACK_TABLE;
	}
	/* One that asks for no stacks shares with those that do not either. */
	return flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK) ? flags : flags & ~SPEC_STACK_TABLE;
}

static size_t cursor_bytes(const Ringtail__V1__Cursor *cursor)
{
	return cursor ? sizeof(struct cursor) + cursor->n_position * sizeof(struct position) : 0;
}

static size_t text_bytes(const Ringtail__V1__Subscribe *message)
{
	const Ringtail__V1__Question *question = message->question;
	size_t bytes = strlen(message->filter) + 1 + strlen(message->consumer) + 1;

	for (size_t i = 0; i < message->n_probe; i++)
		bytes += strlen(message->probe[i]) + 1;
	for (size_t i = 0; question && i < question->n_by; i++)
		bytes += strlen(question->by[i]) + 1;
	return question ? bytes + strlen(question->of) + 1 : bytes;
}

static const char *copy_text(char **to, const char *text)
{
	const char *copy = *to;

	*to = stpcpy(*to, text) + 1;
	return copy;
}

/* A question and its list of names. */
static size_t question_bytes(const Ringtail__V1__Question *question)
{
	return question ? sizeof(struct question_request) + question->n_by * sizeof(char *) : 0;
}

/* Into that room; its texts go to *text. */
static const struct question_request *copy_question(void *room, const Ringtail__V1__Question *message, char **text)
{
	struct question_request *question = room;
	const char **by = (const char **)(question + 1);

	if (!message)
		return NULL;
	*question = (struct question_request){
		.by = by, .bys = message->n_by, .of = copy_text(text, message->of),
		.interval_ns = message->interval_ns, .origin_ns = message->origin_ns,
	};
	for (size_t i = 0; i < message->n_by; i++)
		by[i] = copy_text(text, message->by[i]);
	return question;
}

/* What is counted begins when it is asked, and is not kept. */
static int check_question(const Ringtail__V1__Subscribe *message, struct error *error)
{
	if (!message->question || (!*message->consumer && !message->since_realtime_ns))
		return 0;
	error_set(error, EINVAL, "question-invalid", "a question cannot be combined with a durable consumer or with the past");
	error_hint(error, "subscribe without a question, and count the events in the client");
	return -EINVAL;
}

/* All that the message says, in one piece: free() it. NULL: a cursor that makes no sense, or no memory. */
static struct subscribe_request *request_of_subscribe(const Ringtail__V1__Subscribe *message,
						      struct error *error)
{
	const Ringtail__V1__Cursor *since = message->since;
	struct subscribe_request *request;
	struct cursor *cursor;
	const char **glob;
	char *question, *text;

	if (since && since->n_position > CURSOR_POSITIONS_MAX) {
		error_set(error, EINVAL, "cursor-invalid",
			  "the cursor has %zu positions, and at most %u make sense",
			  since->n_position, CURSOR_POSITIONS_MAX);
		return NULL;
	}
	if (check_question(message, error) != 0)
		return NULL;
	/* The request, its cursor, its question, its list of probes, their texts. */
	request = malloc(sizeof(*request) + cursor_bytes(since) + question_bytes(message->question) +
			 message->n_probe * sizeof(*glob) + text_bytes(message));
	if (!request) {
		error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
		return NULL;
	}
	cursor = (struct cursor *)(request + 1);
	question = (char *)cursor + cursor_bytes(since);
	glob = (const char **)(question + question_bytes(message->question));
	text = (char *)(glob + message->n_probe);
	*request = (struct subscribe_request){.since_realtime_ns = message->since_realtime_ns};
	if (since) {
		*cursor = (struct cursor){.capacity = (uint32_t)since->n_position};
		cursor_fill(cursor, since);
		request->since = cursor;
	}
	request->what = (struct subscription_request){.glob = glob, .globs = message->n_probe,
						      .flags = flags_of(message)};
	for (size_t i = 0; i < message->n_probe; i++)
		glob[i] = copy_text(&text, message->probe[i]);
	request->what.filter = copy_text(&text, message->filter);
	request->what.question = copy_question(question, message->question, &text);
	if (*message->consumer)
		request->consumer = copy_text(&text, message->consumer);
	return request;
}

/* What an Ack says is dealt with; free() it. NULL: as above. */
static struct cursor *cursor_of_ack(const Ringtail__V1__Ack *message, struct error *error)
{
	struct cursor *upto;

	if (!message->upto || message->upto->n_position > CURSOR_POSITIONS_MAX) {
		error_set(error, EINVAL, "cursor-invalid",
			  "an acknowledgement needs a cursor, of at most %u positions",
			  CURSOR_POSITIONS_MAX);
		return NULL;
	}
	upto = cursor_of_message(message->upto);
	if (!upto)
		error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	return upto;
}

/* What is said of a CPU is a number. */
static struct cursor_message *pack_since(const struct cursor *since)
{
	struct cursor *said = cursor_create(since->n);
	struct cursor_message *message = NULL;

	if (!said)
		return NULL;
	said->run = since->run;
	for (uint32_t i = 0; i < since->n; i++)
		if (since->position[i].seq < SINCE_BEGIN)
			cursor_append(said, since->position[i].cpu, since->position[i].seq);
	message = cursor_message_create(said);
	free(said);
	return message;
}

/* Where a stream of so many probes begins, and what its client has of it. NULL: out of memory. */
static struct frame_ref *pack_subscribed(struct frame_codec *codec, const struct run *run,
					 const struct stream *stream, const struct beginning *from,
					 uint32_t probes)
{
	Ringtail__V1__Subscribed message = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor *told = stream_told(stream);
	struct cursor_message *start = NULL, *since = NULL;
	struct frame_ref *frame = NULL;

	if (told) {
		told->run = *run;
		start = cursor_message_create(told);
	}
	if (from->since)
		since = pack_since(from->since);
	if (start && (since || !from->since)) {
		message.start = &start->cursor;
		message.since = since ? &since->cursor : NULL;
		message.from_realtime_ns = from->from == BEGIN_AT_TIME ? from->realtime_ns :
					   from->from == BEGIN_NOW ? clock_read(CLOCK_REALTIME) : 0;
		message.probes = probes;
		message.resumed = stream->resumed;
		frame = frame_ref_pack(codec, FRAME_SUBSCRIBED, &message.base);
	}
	free(told);
	free(start);
	free(since);
	return frame;
}

/* ---- Clients of the relay that this daemon has dialled ----------------------------------------- */

static void refuse_relay_clients(struct error *error)
{
	error_set(error, EACCES, "relay-clients", "this host serves no clients of its relay");
	error_hint(error, "give relay-clients = viewer on that host");
}

static void refuse_more_through(struct error *error)
{
	error_set(error, EBUSY, "too-many-dials", "this host serves %u clients of its relay, as many as it does at once",
		  BRIDGES_HOST_MAX);
	error_hint(error, "wait until one of them has ended");
}

/* ---- What sessions ask ----------------------------------------------------------------------- */

static int on_identify(void *context, void *client, const struct transport *transport,
		       struct client_identity *identity, struct error *error)
{
	struct server *server = context;
	int err;

	switch (((struct client *)client)->door) {
	case SERVER_UNIX:
		err = identity_of_unix_peer(transport->fd, identity);
		return err ? error_set(error, -err, "peer-unknown",
				       "cannot read from the kernel which user connected: %s", strerror(-err)) :
			     0;
	case SERVER_TLS:
		err = transport_tls_identity(transport, identity, error);
		return err ? err : transport_tls_check_revoked(gate_tls(server->config.gate), transport, error);
	case SERVER_PLAIN:
		identity_set_local(identity);
		break;
	case SERVER_RELAY:
		identity_set_relay(identity, server->config.relay_role);
		break;
	case SERVER_THROUGH:
		identity_set_through(identity, ((struct client *)client)->through);
		break;
	}
	return 0;
}

/* A reload may have come since it was dialled for. */
static int admit_through(const struct server *server, struct error *error)
{
	const struct client *client;
	unsigned same = 0;

	TAILQ_FOREACH(client, &server->list[CLIENT_SERVED], link)
		same += client->door == SERVER_THROUGH;
	if (!server->config.bounds.relay_clients) {
		refuse_relay_clients(error);
		return -EACCES;
	}
	if (same < BRIDGES_HOST_MAX)
		return 0;
	refuse_more_through(error);
	return -EBUSY;
}

static int on_admit(void *context, struct session *session, const char *token,
		    struct error *error)
{
	struct server *server = context;
	struct client *client = session_client(session);
	bool is_relay = client->door == SERVER_RELAY;
	int err = client->door == SERVER_THROUGH ? admit_through(server, error) :
		  is_relay ? 0 : gate_admit(server->config.gate, session_identity(session), token, error);

	if (err) {
		counter_add(COUNTER_sessions_denied, 1);
		return err;
	}
	if (client->state != CLIENT_PENDING)
		return 0;
	if (!is_relay)
		err = find_place(server, session_identity(session), error);
	if (err)
		return err;
	move(server, client, CLIENT_SERVED);
	log_debug("client-named", "client %llu is %s, a %s", (unsigned long long)session_id(session),
		  gate_name(server->config.gate, session_identity(session)),
		  role_name(session_identity(session)->role));
	return 0;
}

static struct frame_ref *on_hello(void *context, struct session *session)
{
	struct server *server = context;

	return answers_hello(server->config.answers, role_name(session_identity(session)->role));
}

static struct frame_ref *on_list(void *context, struct session *session, const Ringtail__V1__ListRequest *request,
				 struct error *error)
{
	struct server *server = context;
	const struct answers_list_question question = {
		.glob = request->glob, .offers = request->offers, .prints = request->prints,
		.names_processes = session_identity(session)->role >= ROLE_OPERATOR,
		.owner = subscription_owner_of(session_identity(session)),
	};

	return answers_list(server->config.answers, &question, error);
}

static int on_prepare(void *context, struct session *session, char *const *probe, size_t probes, bool again,
		      struct error *error)
{
	struct server *server = context;

	return fanout_prepare(server->config.answers->fanout, session_identity(session), probe, probes, again,
			      error);
}

static int on_awaits(void *context, struct session *session, const Ringtail__V1__Subscribe *subscribe,
		     struct error *error)
{
	struct server *server = context;

	return control_awaits(server->config.control, session_identity(session), subscribe->probe, subscribe->n_probe,
			      subscribe->filter, error);
}

static int compare_queues(const void *a, const void *b)
{
	const struct stream *one = session_stream(*(struct session *const *)a);
	const struct stream *other = session_stream(*(struct session *const *)b);
	struct stream_stat stat = {0}, other_stat = {0};

	if (one)
		stream_stat(one, &stat);
	if (other)
		stream_stat(other, &other_stat);
	return stat.lag_bytes < other_stat.lag_bytes ? 1 : stat.lag_bytes > other_stat.lag_bytes ? -1 : 0;
}

/* Whether the relay's consumer waits for relay-bandwidth. Only a session with a relay can be held back; there is one. */
static void note_held_back(const struct server *server, struct daemon_stat *stat)
{
	const struct client *client;
	bool held_back = false;

	TAILQ_FOREACH(client, &server->list[CLIENT_SERVED], link)
		held_back |= client->door == SERVER_RELAY && session_held_back(client->session);
	for (unsigned i = 0; i < stat->consumers; i++)
		if (strcmp(stat->consumer[i].name, CONSUMER_RELAY) == 0)
			stat->consumer[i].held_back = held_back;
}

/* All in the order in which they came; of more than can be listed, those that lag most. */
struct daemon_stat *server_stat(void *context)
{
	struct server *server = context;
	unsigned total = 0, n = 0;
	struct daemon_stat *stat;
	struct session **session;
	struct client *client;

	for (unsigned i = 0; i < CLIENT_STATES; i++)
		total += server->count[i];
	session = calloc(total + 1, sizeof(struct session *));
	if (!session)
		return NULL;
	for (unsigned i = 0; i < CLIENT_STATES; i++)
		TAILQ_FOREACH(client, &server->list[i], link)
			if (client->session)
				session[n++] = client->session;
	if (n > CLIENTS_LISTED_MAX)
		qsort(session, n, sizeof(struct session *), compare_queues);
	stat = answers_gather(server->config.answers, session,
			      n < CLIENTS_LISTED_MAX ? n : CLIENTS_LISTED_MAX, n);
	free(session);
	if (stat)
		note_held_back(server, stat);
	return stat;
}

struct frame_ref *server_stat_frame(void *context)
{
	struct server *server = context;
	struct daemon_stat *stat = server_stat(server);
	struct frame_ref *frame = stat ? answers_stat(server->config.answers, stat) : NULL;

	daemon_stat_free(stat);
	return frame;
}

/* Everything, or what is about one consumer. */
static struct frame_ref *on_stat(void *context, const char *consumer)
{
	struct server *server = context;
	struct daemon_stat *stat = *consumer ? server_stat(server) : NULL;
	struct frame_ref *frame = stat ? answers_stat_of(server->config.answers, stat, consumer) : NULL;

	daemon_stat_free(stat);
	return *consumer ? frame : server_stat_frame(server);
}

static struct frame_ref *on_probes(void *context)
{
	struct server *server = context;

	return control_probes(server->config.control);
}

/* What stays on this host's disk for a client has an owner, and of that one there is no more than the relay's word. */
static int check_through(const struct client *client, const struct subscribe_request *request, struct error *error)
{
	if (client->door != SERVER_THROUGH || !request->consumer)
		return 0;
	error_set(error, EACCES, "relay-consumer", "a durable consumer cannot be had through a relay");
	error_hint(error, "connect to the daemon itself, or subscribe without a consumer");
	return -EACCES;
}

static int on_subscribe(void *context, struct session *session,
			const Ringtail__V1__Subscribe *subscribe, struct error *error)
{
	struct server *server = context;
	struct fanout *fanout = server->config.answers->fanout;
	struct subscribe_request *request = request_of_subscribe(subscribe, error);
	bool registers = false;
	int err = 0;

	if (!request)
		return -EINVAL;
	err = check_through(session_client(session), request, error);
	if (!err && request->consumer)
		err = fanout_may_consume(fanout, request->consumer, session_identity(session),
					 &registers, error);
	/* Who registers a consumer, or is denied one, is in the audit log first. */
	if (registers || err == -EPERM) {
		control_ask_register(server->config.control, session, request);
		return 0;
	}
	if (!err)
		err = fanout_subscribe(fanout, session_subscriber(session), request, error);
	free(request);
	return err;
}

static int on_live(void *context, struct session *session, struct stream *stream,
		   const struct beginning *from)
{
	struct server *server = context;
	const struct answers *answers = server->config.answers;
	const struct client *client = session_client(session);
	const uint64_t *interval_ns = &server->config.bounds.relay_interval_ns;
	struct frame_ref *catalog, *subscribed = NULL;
	uint32_t probes;

	if (client->door == SERVER_RELAY && stream->consumer && *interval_ns &&
	    gather_begin(stream, loader_catalog(answers->loader), interval_ns) != 0)
		return -ENOMEM;
	catalog = subscription_pack_catalog(stream->subscription, loader_catalog(answers->loader),
					    answers->codec, &probes);
	if (catalog)
		subscribed = pack_subscribed(answers->codec, &answers->run, stream, from, probes);
	if (!subscribed) {
		frame_ref_put(catalog);
		return -ENOMEM;
	}
	session_subscribed(session, stream, catalog, subscribed);
	return 0;
}

static int on_ack(void *context, struct session *session, const Ringtail__V1__Ack *ack,
		  struct error *error)
{
	struct server *server = context;
	struct cursor *upto = cursor_of_ack(ack, error);
	int err;

	if (!upto)
		return -EINVAL;
	err = fanout_ack(server->config.answers->fanout, session_subscriber(session), upto, error);
	free(upto);
	return err;
}

static void on_change(void *context, struct session *session,
		      const struct change_request *request)
{
	struct server *server = context;

	control_ask(server->config.control, session, request);
}

static void on_forget(void *context, struct session *session, const char *consumer)
{
	struct server *server = context;

	control_ask_forget(server->config.control, session, consumer);
}

static void on_stuck(void *context, struct session *session,
		     const Ringtail__V1__StuckRequest *request)
{
	struct server *server = context;

	stuck_ask(server->stuck, session, request);
}

static void on_dumps(void *context, struct session *session,
		     const Ringtail__V1__DumpsRequest *request)
{
	struct server *server = context;

	if (*request->remove)
		control_ask_delete_dump(server->config.control, session, request->remove);
	else
		dump_parts_ask(server->dumps, session, request);
}

static struct frame_ref *on_hosts(void *context, const char *after, struct error *error)
{
	struct server *server = context;

	return answers_hosts(server->config.answers, after, error);
}

/* ---- A client that asks for a host of this relay ----------------------------------------------- */

static struct transport *on_reached(void *session)
{
	return session_hand_over(session);
}

static void on_unreached(void *session, const struct error *error)
{
	session_answer(session, NULL, error);
}

static void reach(struct server *server, struct session *session, const struct control_note *note)
{
	struct bridge_asker asker = {.context = session, .reached = on_reached, .failed = on_unreached};
	const struct client_identity *identity = session_identity(session);
	struct error error = {0};

	if (!server->config.answers->relay)
		error_set(&error, EINVAL, "not-a-relay", "this daemon is no relay");
	else
		relay_reach(server->config.answers->relay, note->name, identity,
			    gate_name(server->config.gate, identity), &asker, &error);
	if (error.code[0])
		session_answer(session, NULL, &error);
}

static void on_reach_noted(void *context, struct session *session, const struct control_note *note,
			   const struct error *error)
{
	struct server *server = context;

	if (error->code[0])
		session_answer(session, NULL, error);
	else
		reach(server, session, note);
}

static void on_reach(void *context, struct session *session, const char *host)
{
	struct server *server = context;
	struct control_note note = {.kind = CONTROL_NOTE_REACH, .noted = on_reach_noted, .context = server};
	struct error error;

	snprintf(note.name, sizeof(note.name), "%s", host);
	if (server->config.answers->relay && session_stream(session) == NULL && strcmp(note.name, host) == 0) {
		control_ask_note(server->config.control, session, &note);
		return;
	}
	if (server->config.answers->relay) {
		error_set(&error, EINVAL, "host-unknown", "%s", session_stream(session) ?
			  "a connection with a stream cannot become one to a host" : "no host has so long a name");
		error_hint(&error, "`tracectl list hosts` shows which hosts there are");
	} else {
		error_set(&error, EINVAL, "not-a-relay", "this daemon is no relay");
		error_hint(&error, "ask a daemon whose option listen-agents is given");
	}
	session_answer(session, NULL, &error);
}

/* ---- Its relay asks it to dial, for a client --------------------------------------------------- */

static void refuse_dial(struct server *server, struct session *session, const uint8_t *token, size_t bytes,
			const struct error *error)
{
	Ringtail__V1__DialRefused message = RINGTAIL__V1__DIAL_REFUSED__INIT;
	Ringtail__V1__Error told = RINGTAIL__V1__ERROR__INIT;
	struct frame_ref *frame;

	told.code = (char *)error->code;
	told.what = (char *)error->what;
	told.hint = (char *)error->hint;
	message.token = (ProtobufCBinaryData){bytes, (uint8_t *)token};
	message.error = &told;
	counter_add(COUNTER_dials_refused, 1);
	log_info("dial-refused", "the relay asks for a connection: [%s] %s", error->code, error->what);
	/* Without memory the relay waits, and then says that this host is silent. */
	frame = frame_ref_pack(server->config.codec, FRAME_DIAL_REFUSED, &message.base);
	if (frame)
		session_send(session, frame);
}

static void on_dial_noted(void *context, struct session *session, const struct control_note *note,
			  const struct error *error)
{
	struct server *server = context;
	struct error why = *error;

	if (!why.code[0])
		server->config.dial(server->config.context, note->token, note->name, &why);
	if (why.code[0])
		refuse_dial(server, session, note->token, sizeof(note->token), &why);
}

static unsigned count_through(const struct server *server)
{
	const struct client *client;
	unsigned n = 0;

	for (unsigned i = 0; i < CLIENT_STATES; i++)
		TAILQ_FOREACH(client, &server->list[i], link)
			n += client->door == SERVER_THROUGH;
	return n;
}

/* What is beyond any bound leaves no line. */
static void on_dial(void *context, struct session *session, const Ringtail__V1__Dial *request)
{
	struct server *server = context;
	struct control_note note = {.kind = CONTROL_NOTE_DIAL, .noted = on_dial_noted, .context = server};
	uint64_t now_ns = clock_monotonic();
	struct error error = {0};

	counter_add(COUNTER_dials_asked, 1);
	snprintf(note.name, sizeof(note.name), "%s", request->client);
	visible_replace(note.name);
	if (now_ns - server->dials_since_ns > BRIDGE_DIALS_NS) {
		server->dials_since_ns = now_ns;
		server->dials = 0;
	}
	if (request->token.len != sizeof(note.token))
		error_set(&error, EINVAL, "dial-token", "the token of the relay has %zu bytes, not %zu",
			  request->token.len, sizeof(note.token));
	else if (++server->dials > BRIDGE_DIALS_MAX)
		error_set(&error, EBUSY, "too-many-dials", "the relay has asked for more than %u connections in a minute",
			  BRIDGE_DIALS_MAX);
	else if (count_through(server) >= BRIDGES_HOST_MAX)
		refuse_more_through(&error);
	if (error.code[0]) {
		refuse_dial(server, session, request->token.data, request->token.len, &error);
		return;
	}
	memcpy(note.token, request->token.data, sizeof(note.token));
	if (!server->config.bounds.relay_clients || !server->config.dial)
		refuse_relay_clients(&note.refused);
	control_ask_note(server->config.control, session, &note);
}

static void on_closed(void *context, struct session *session, bool orderly)
{
	struct server *server = context;
	enum server_door door;

	fanout_leave(server->config.answers->fanout, session_subscriber(session), orderly);
	control_leave(server->config.control, session);
	stuck_leave(server->stuck, session);
	dump_parts_leave(server->dumps, session);
	if (server->config.answers->relay)
		relay_leave(server->config.answers->relay, session);
	door = ((struct client *)session_client(session))->door;
	forget_client(server, session_client(session));
	log_debug("client-left", "client %llu (%s) left",
		  (unsigned long long)session_id(session), session_peer(session));
	tell_relay_left(server, door);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* Calls `visit` for every session; it may end that one. */
static void for_each(struct server *server, void (*visit)(struct session *session, void *context),
		     void *context)
{
	struct client *client, *next;

	for (unsigned i = 0; i < CLIENT_STATES; i++)
		for (client = TAILQ_FIRST(&server->list[i]); client; client = next) {
			next = TAILQ_NEXT(client, link);
			visit(client->session, context);
		}
}

static void go_on(struct session *session, void *context)
{
	(void)context;
	session_go_on(session);
}

void server_made(struct server *server)
{
	for_each(server, go_on, NULL);
}

static void check_silence(struct session *session, void *now_ns)
{
	session_check_silence(session, *(uint64_t *)now_ns);
}

struct pause {
	uint64_t ns, end_ns;
};

static void excuse(struct session *session, void *context)
{
	const struct pause *pause = context;

	session_excuse(session, pause->ns, pause->end_ns);
}

static uint64_t sweep_interval(const struct server *server)
{
	uint64_t ns = server->config.bounds.session.silence_timeout_ns / SWEEP_PART;

	return ns < SWEEP_NS_MAX ? ns : SWEEP_NS_MAX;
}

/*
 * A sweep that comes late tells that the daemon was held up, with its machine or alone: whom it did not
 * hear meanwhile was not silent.
 */
static void on_sweep(evutil_socket_t fd, short what, void *context)
{
	struct server *server = context;
	uint64_t now_ns = clock_monotonic();
	struct pause pause = {.ns = now_ns - server->sweep_due_ns, .end_ns = now_ns};

	(void)fd, (void)what;
	if (now_ns > server->sweep_due_ns + LATE_NS)
		for_each(server, excuse, &pause);
	server->sweep_due_ns = now_ns + sweep_interval(server);
	for_each(server, check_silence, &now_ns);
}

static void arm_sweep(struct server *server)
{
	uint64_t ns = sweep_interval(server);
	struct timeval interval = {.tv_sec = (time_t)(ns / NS_PER_S),
				   .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	server->sweep_due_ns = clock_monotonic() + ns;
	event_add(server->sweep, &interval);
}

struct server_bounds server_bounds_of(const struct config *config)
{
	return (struct server_bounds){
		.session = {
			.tls_timeout_ns = config->tls_timeout_ns,
			.hello_timeout_ns = config->hello_timeout_ns,
			.silence_timeout_ns = config->silence_timeout_ns,
			.disconnect = config->overflow == CONFIG_OVERFLOW_DISCONNECT,
		},
		.clients_max = (unsigned)config->clients_max,
		.pending_max = (unsigned)config->pending_max,
		.identity_max = (unsigned)(config->identity_max ? config->identity_max :
								  (config->clients_max + 1) / 2),
		.relay_interval_ns = config->relay_interval_ns,
		.relay_bandwidth = config->relay_bandwidth,
		.relay_clients = config->relay_clients == CONFIG_RELAY_CLIENTS_VIEWER,
		.insecure = config->insecure,
	};
}

struct server *server_create(const struct server_config *config)
{
	struct server *server = calloc(1, sizeof(*server));
	struct rlimit limit;

	if (!server)
		return NULL;
	server->config = *config;
	if (random_bytes(&server->origin_seed, sizeof(server->origin_seed)) != 0) {
		free(server);
		return NULL;
	}
	server->descriptors_max = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur :
									  RLIM_INFINITY;
	allowance_set(&server->relay_allowance, config->bounds.relay_bandwidth);
	for (unsigned i = 0; i < CLIENT_STATES; i++)
		TAILQ_INIT(&server->list[i]);
	server->host = (struct session_host){
		.context = server,
		.identify = on_identify,
		.admit = on_admit,
		.hello = on_hello,
		.list = on_list,
		.prepare = on_prepare,
		.awaits = on_awaits,
		.stat = on_stat,
		.probes = on_probes,
		.subscribe = on_subscribe,
		.live = on_live,
		.ack = on_ack,
		.change = on_change,
		.forget = on_forget,
		.stuck = on_stuck,
		.dumps = on_dumps,
		.hosts = on_hosts,
		.reach = on_reach,
		.dial = on_dial,
		.closed = on_closed,
	};
	server->sweep = event_new(config->base, -1, EV_PERSIST, on_sweep, server);
	server->stuck = stuck_create(config->answers->fanout, config->codec,
				     loader_catalog(config->answers->loader));
	server->dumps = dump_parts_create(config->answers->fanout, config->dumps,
					  config->disk_thread, config->codec);
	if (!server->sweep || !server->stuck || !server->dumps) {
		if (server->sweep)
			event_free(server->sweep);
		stuck_destroy(server->stuck);
		dump_parts_destroy(server->dumps);
		free(server);
		return NULL;
	}
	arm_sweep(server);
	return server;
}

static void end(struct session *session, void *context)
{
	(void)context;
	session_destroy(session, true);
}

void server_destroy(struct server *server)
{
	if (!server)
		return;
	for_each(server, end, NULL);
	stuck_destroy(server->stuck);
	dump_parts_destroy(server->dumps);
	event_free(server->sweep);
	free(server);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void flush(struct session *session, void *flushed)
{
	bool its_flushed = session_flushed(session);

	session_wake(session);
	*(bool *)flushed &= its_flushed;
}

bool server_flush(struct server *server)
{
	bool flushed = true;

	for_each(server, flush, &flushed);
	return flushed;
}

/* Only who was let in has a role to lose. */
static void judge(struct session *session, void *context)
{
	struct server *server = context;
	const struct client *client = session_client(session);
	struct client_identity *identity = session_identity(session);
	int err = 0;
	struct error error;

	if (identity->role == ROLE_NONE || identity->proof == IDENTITY_RELAY)
		return;
	if (identity->proof == IDENTITY_THROUGH) {
		if (server->config.bounds.relay_clients)
			return;
		refuse_relay_clients(&error);
		session_refuse(session, &error, true);
		return;
	}
	gate_judge(server->config.gate, identity);
	if (client->door == SERVER_TLS)
		err = transport_tls_check_revoked(gate_tls(server->config.gate), session_transport(session), &error);
	if (!err)
		err = gate_allow(server->config.gate, identity, ROLE_VIEWER, "see anything here any more", &error);
	if (err) {
		counter_add(COUNTER_sessions_denied, 1);
		session_refuse(session, &error, true);
	}
}

void server_set_bounds(struct server *server, const struct server_bounds *bounds)
{
	bool insecure = server->config.bounds.insecure;

	server->config.bounds = *bounds;
	server->config.bounds.insecure = insecure;	/* as the addresses it goes with */
	allowance_set(&server->relay_allowance, bounds->relay_bandwidth);
	arm_sweep(server);
	for_each(server, judge, server);
}
