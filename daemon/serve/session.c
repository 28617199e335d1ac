/* session: see session.h. This file: how it begins and ends. session_input.c: what comes in,
 * session_output.c: what goes out. */
#include "daemon/serve/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/serve/session_private.h"
#include "query/visible.h"
#include "proto/limits.h"

static void on_timeout(evutil_socket_t fd, short what, void *context);

struct timeval session_timeval(uint64_t ns)
{
	return (struct timeval){.tv_sec = (time_t)(ns / NS_PER_S),
				.tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};
}

static void arm_until(struct session *session, uint64_t deadline_ns, uint64_t now_ns)
{
	struct timeval timeout = session_timeval(deadline_ns - now_ns);

	session->deadline_ns = deadline_ns;
	event_add(session->timeout, &timeout);
}

void session_arm(struct session *session, uint64_t ns)
{
	uint64_t now_ns = clock_monotonic();

	session->excused = false;
	arm_until(session, now_ns + ns, now_ns);
}

struct session *session_create(const struct session_config *config, struct transport *transport,
			       uint64_t id, const char *peer)
{
	struct session *session = calloc(1, sizeof(*session));
	int fd = transport->fd;

	if (!session) {
		transport_destroy(transport);
		return NULL;
	}
	session->config = *config;
	session->transport = transport;
	session->id = id;
	session->active_ns = clock_monotonic();
	identity_set_unproved(&session->identity);
	snprintf(session->peer, sizeof(session->peer), "%s", peer);
	session->turn = (struct turnstile_place){.go = session_take_turn, .context = session};
	STAILQ_INIT(&session->answers);
	session->input = malloc(INPUT_BYTES_FIRST);
	session->input_capacity = INPUT_BYTES_FIRST;
	session->readable = event_new(config->base, fd, EV_READ | EV_PERSIST, session_on_readable,
				      session);
	session->writable = event_new(config->base, fd, EV_WRITE, session_on_writable, session);
	session->timeout = evtimer_new(config->base, on_timeout, session);
	session->stat_timer = event_new(config->base, -1, EV_PERSIST, session_on_stat,
					session);
	if (!session->input || !session->readable || !session->writable || !session->timeout ||
	    !session->stat_timer || event_add(session->readable, NULL) != 0) {
		session_free(session);
		return NULL;
	}
	session_arm(session, config->bounds->tls_timeout_ns);
	/* In TLS the client speaks first, and then waits for its turn. */
	if (!transport->shakes)
		session_shake_hands(session);
	return session;
}

void session_free(struct session *session)
{
	struct answer *answer;

	turnstile_leave(session->config.turnstile, &session->turn);
	if (session->readable)
		event_free(session->readable);
	if (session->writable)
		event_free(session->writable);
	if (session->timeout)
		event_free(session->timeout);
	if (session->stat_timer)
		event_free(session->stat_timer);
	while ((answer = STAILQ_FIRST(&session->answers))) {
		STAILQ_REMOVE_HEAD(&session->answers, link);
		frame_ref_put(answer->frame);
		free(answer);
	}
	stream_destroy(session->stream);
	transport_destroy(session->transport);
	free(session->input);
	free(session);
}

void session_destroy(struct session *session, bool orderly)
{
	session->config.host->closed(session->config.host->context, session, orderly);
	session_free(session);
}

/* ---- Refusing -------------------------------------------------------------------------------- */

/* What is left to say has as long as a hello has; what comes in is thrown away. */
void session_close_soon(struct session *session)
{
	session->state = SESSION_CLOSING;
	session_arm(session, session->config.bounds->hello_timeout_ns);
	event_add(session->readable, NULL);
	event_add(session->writable, NULL);
	event_del(session->stat_timer);
}

void session_refuse(struct session *session, const struct error *error, bool fatal)
{
	Ringtail__V1__Error message = RINGTAIL__V1__ERROR__INIT;
	struct error shown = *error;
	struct frame_ref *frame;

	if (session->state == SESSION_CLOSING || session->turned_away)
		return;
	/* A text of the client's that is cut in it may end inside a character. */
	visible_replace(shown.what);
	visible_replace(shown.hint);
	message.code = shown.code;
	message.what = shown.what;
	message.hint = shown.hint;
	message.column = error->column;
	message.fatal = fatal;
	counter_add(COUNTER_requests_refused, 1);
	log_info("client-refused", "client %llu (%s): [%s] %s", (unsigned long long)session->id,
		 session->peer, error->code, error->what);
	frame = frame_ref_pack(session->config.codec, FRAME_ERROR, &message.base);
	if (frame)
		session_send(session, frame);
	else if (!fatal)
		session_break(session);		/* it waits for an answer that will not come */
	if (fatal) {
		counter_add(COUNTER_sessions_failed, 1);
		session->turned_away = session->state == SESSION_SHAKING;
		if (!session->turned_away)
			session_close_soon(session);
	}
}

bool session_turn_away(struct session *session, const struct error *error)
{
	bool mute = session->state == SESSION_SHAKING;

	if (mute && !transport_turn_away(session->transport)) {
		session_refuse(session, error, true);
		return false;
	}
	if (!mute) {
		session_refuse(session, error, true);
		session_write_out(session);
		transport_shutdown(session->transport);
	}
	session_destroy(session, false);
	return true;
}

void session_refuse_fatal(struct session *session, const char *code, const char *what,
			 const char *hint)
{
	struct error error;

	error_set(&error, EPROTO, code, "%s", what);
	error_hint(&error, "%s", hint);
	session_refuse(session, &error, true);
}

/* Once for each deadline: on a loop that is always late they pass all the same. */
static bool passed_unseen(struct session *session)
{
	uint64_t now_ns = clock_monotonic();

	if (session->excused || now_ns < session->deadline_ns + LATE_NS)
		return false;
	session->excused = true;
	arm_until(session, 2 * now_ns - session->deadline_ns, now_ns);
	return true;
}

static void on_timeout(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd, (void)what;
	if (passed_unseen(session))
		return;
	if (session->state == SESSION_CLOSING) {
		session_destroy(session, session->orderly);
		return;
	}
	if (session->state == SESSION_SHAKING) {
		counter_add(COUNTER_tls_failed, 1);
		log_info("tls-timeout", "client %llu (%s): no TLS came in time",
			 (unsigned long long)session->id, session->peer);
		session_destroy(session, false);
		return;
	}
	session_refuse_fatal(session, session->state == SESSION_NEW ? "hello-timeout" : "request-timeout",
		     session->state == SESSION_NEW ? "no hello came in time"
						   : "no request followed the hello in time",
		     "send a ClientHello and then a request within the daemon's hello-timeout");
	session_wake(session);
}

void session_excuse(struct session *session, uint64_t ns, uint64_t now_ns)
{
	/* What came in behind the pause was heard before this. */
	session->active_ns = session->active_ns + ns < now_ns ? session->active_ns + ns : now_ns;
	if (event_pending(session->timeout, EV_TIMEOUT, NULL) && session->deadline_ns + ns > now_ns)
		arm_until(session, session->deadline_ns + ns, now_ns);
}

void session_check_silence(struct session *session, uint64_t now_ns)
{
	bool waits = !session_idle(session);
	bool fed = session->stream || event_pending(session->stat_timer, EV_TIMEOUT, NULL);

	if (session->state != SESSION_READY || session->changing)
		return;
	/* It has taken all there is, and will be given more. */
	if (!waits && fed)
		session->active_ns = now_ns;
	if (now_ns - session->active_ns < session->config.bounds->silence_timeout_ns)
		return;
	counter_add(COUNTER_sessions_silent, 1);
	session_refuse_fatal(session, "silence-timeout",
		     waits ? "nothing was taken of what waits for this client"
			   : "this client asks for nothing",
		     "read what comes, or connect again when there is something to ask");
}

/* ---- Handshake --------------------------------------------------------------------------------- */

static void identify(struct session *session)
{
	struct error error = {0};

	session->state = SESSION_NEW;
	session_arm(session, session->config.bounds->hello_timeout_ns);
	if (session->config.host->identify(session->config.host->context, session->config.client,
					   session->transport, &session->identity, &error) != 0)
		session_refuse(session, &error, true);
}

void session_shake_hands(struct session *session)
{
	struct error error = {0};
	int err = transport_handshake(session->transport, &error);

	if (!err && session->turned_away) {
		session_close_soon(session);
	} else if (!err) {
		event_add(session->readable, NULL);
		identify(session);
	} else if (err == -EAGAIN && session->transport->wanted == EV_WRITE) {
		event_del(session->readable);
		event_add(session->writable, NULL);
	} else if (err == -EAGAIN) {
		event_add(session->readable, NULL);
	} else {
		/* The transport has said why; the client gets to read it. */
		counter_add(COUNTER_tls_failed, 1);
		log_info("tls-handshake", "client %llu (%s): %s", (unsigned long long)session->id,
			 session->peer, error.what);
		session_close_soon(session);
	}
}

/* ---- Facts ----------------------------------------------------------------------------------- */

struct stream *session_stream(const struct session *session)
{
	return session->stream;
}

struct client_identity *session_identity(struct session *session)
{
	return &session->identity;
}

void *session_client(const struct session *session)
{
	return session->config.client;
}

uint64_t session_id(const struct session *session)
{
	return session->id;
}

const char *session_peer(const struct session *session)
{
	return session->peer;
}

const char *session_name(const struct session *session)
{
	return session->identity.text;
}

const char *session_software(const struct session *session)
{
	return session->software;
}

uint64_t session_wire_bytes(const struct session *session)
{
	return session->wire_bytes;
}

uint64_t session_frames(const struct session *session)
{
	return session->frames;
}
