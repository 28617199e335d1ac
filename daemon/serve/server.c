/* server: see server.h. This file: what sessions ask, and what goes for all of them.
 * server_accept.c: how they come in; server_places.c: for whom there is a place. */
#include "daemon/serve/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/random.h"
#include "daemon/serve/server_private.h"
#include "daemon/net/transport_tls.h"
#include "proto/limits.h"

void server_enlist(struct server *server, struct client *client)
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

void server_move(struct server *server, struct client *client, enum client_state state)
{
	leave_list(server, client);
	client->state = state;
	server_enlist(server, client);
}

void server_forget_client(struct server *server, struct client *client)
{
	leave_list(server, client);
	free(client);
}

/* ---- What sessions ask ------------------------------------------------------------------------- */

static int on_identify(void *context, void *client, const struct transport *transport,
		       struct client_identity *identity, struct error *error)
{
	int err;

	(void)context;
	switch (((struct client *)client)->door) {
	case SERVER_UNIX:
		err = identity_of_unix_peer(transport->fd, identity);
		return err ? error_set(error, -err, "peer-unknown",
				       "the kernel does not say who this is: %s", strerror(-err)) :
			     0;
	case SERVER_TLS:
		return transport_tls_identity(transport, identity, error);
	case SERVER_PLAIN:
		identity_set_local(identity);
		break;
	}
	return 0;
}

void server_set_full(const struct server *server, struct error *error)
{
	counter_add(COUNTER_sessions_refused, 1);
	error_set(error, EBUSY, "too-many-clients", "this daemon serves %u clients at once",
		  server->config.bounds.clients_max);
	error_hint(error, "wait until one leaves, or raise clients-max");
}

static int on_admit(void *context, struct session *session, const char *token,
		    struct error *error)
{
	struct server *server = context;
	struct client *client = session_client(session);
	int err = gate_admit(server->config.gate, session_identity(session), token, error);

	if (err) {
		counter_add(COUNTER_sessions_denied, 1);
		return err;
	}
	if (client->state != CLIENT_PENDING)
		return 0;
	err = server_find_place(server, session_identity(session), error);
	if (err)
		return err;
	server_move(server, client, CLIENT_SERVED);
	log_debug("client-named", "client %llu is %s, a %s", (unsigned long long)session_id(session),
		  gate_name(server->config.gate, session_identity(session)),
		  role_name(session_identity(session)->role));
	return 0;
}

static struct frame_ref *on_hello(void *context, struct session *session)
{
	struct server *server = context;

	return control_hello(server->config.control, role_name(session_identity(session)->role));
}

static struct frame_ref *on_list(void *context, const char *glob, struct error *error)
{
	struct server *server = context;

	return control_list(server->config.control, glob, error);
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

/* All in the order in which they came; of more than can be listed, those that lag most. */
struct frame_ref *server_stat(struct server *server)
{
	unsigned total = 0, n = 0;
	struct session **session;
	struct frame_ref *frame;
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
	frame = control_stat(server->config.control, session,
			     n < CLIENTS_LISTED_MAX ? n : CLIENTS_LISTED_MAX, n);
	free(session);
	return frame;
}

static struct frame_ref *on_stat(void *context)
{
	return server_stat(context);
}

static struct frame_ref *on_probes(void *context)
{
	struct server *server = context;

	return changes_list(server->config.changes);
}

static int on_subscribe(void *context, struct session *session,
			const Ringtail__V1__Subscribe *subscribe, struct error *error)
{
	struct server *server = context;
	struct fanout *fanout = server->config.control->fanout;
	bool registers = false;
	int err = 0;

	if (*subscribe->consumer)
		err = fanout_may_consume(fanout, subscribe->consumer, session_identity(session),
					 &registers, error);
	/* Who registers a consumer, or is denied one, is in the audit log first. */
	if (registers || err == -EPERM) {
		changes_ask_register(server->config.changes, session, subscribe);
		return 0;
	}
	return err ? err : fanout_subscribe(fanout, session, subscribe, error);
}

static int on_ack(void *context, struct session *session, const Ringtail__V1__Ack *ack,
		  struct error *error)
{
	struct server *server = context;

	return fanout_ack(server->config.control->fanout, session, ack, error);
}

static void on_change(void *context, struct session *session, const Ringtail__V1__Change *change)
{
	struct server *server = context;

	changes_ask(server->config.changes, session, change);
}

static void on_forget(void *context, struct session *session, const char *consumer)
{
	struct server *server = context;

	changes_ask_forget(server->config.changes, session, consumer);
}

static void on_closed(void *context, struct session *session, bool orderly)
{
	struct server *server = context;

	fanout_leave(server->config.control->fanout, session, orderly);
	changes_leave(server->config.changes, session);
	server_forget_client(server, session_client(session));
	log_debug("client-left", "client %llu (%s) left",
		  (unsigned long long)session_id(session), session_peer(session));
}

/* ---- Life ---------------------------------------------------------------------------------------- */

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
	for (unsigned i = 0; i < CLIENT_STATES; i++)
		TAILQ_INIT(&server->list[i]);
	server->host = (struct session_host){
		.context = server,
		.identify = on_identify,
		.admit = on_admit,
		.hello = on_hello,
		.list = on_list,
		.stat = on_stat,
		.probes = on_probes,
		.subscribe = on_subscribe,
		.ack = on_ack,
		.change = on_change,
		.forget = on_forget,
		.closed = on_closed,
	};
	server->sweep = event_new(config->base, -1, EV_PERSIST, on_sweep, server);
	if (!server->sweep) {
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
	event_free(server->sweep);
	free(server);
}

/* ---- All of them ---------------------------------------------------------------------------------- */

static void flush(struct session *session, void *idle)
{
	bool its_idle = session_idle(session);

	session_wake(session);
	*(bool *)idle &= its_idle;
}

bool server_flush(struct server *server)
{
	bool idle = true;

	for_each(server, flush, &idle);
	return idle;
}

/* Only who was let in has a role to lose. */
static void judge(struct session *session, void *context)
{
	struct server *server = context;
	struct client_identity *identity = session_identity(session);
	struct error error;

	if (identity->role == ROLE_NONE)
		return;
	gate_judge(server->config.gate, identity);
	if (gate_allow(server->config.gate, identity, ROLE_VIEWER, "see anything here any more",
		       &error) != 0) {
		counter_add(COUNTER_sessions_denied, 1);
		session_refuse(session, &error, true);
	}
}

void server_set_bounds(struct server *server, const struct server_bounds *bounds)
{
	bool insecure = server->config.bounds.insecure;

	server->config.bounds = *bounds;
	server->config.bounds.insecure = insecure;	/* as the addresses it goes with */
	arm_sweep(server);
	for_each(server, judge, server);
}
