#include "daemon/serve/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "daemon/base/allowance.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/net/turnstile.h"
#include "query/message_text.h"
#include "query/visible.h"
#include "proto/limits.h"
#include "proto/message.h"

#define INPUT_BYTES_FIRST 1024u	/* of a session's input; larger requests make it grow */

struct answer {
	STAILQ_ENTRY(answer) link;
	struct frame_ref *frame;
	bool reply;			/* to a request; else the stream tells of a gap */
};

/* In this order; only the three behind SESSION_READY go back, to that. */
enum session_state {
	SESSION_SHAKING,		/* hands, in TLS: nothing can be said yet */
	SESSION_TURNED_AWAY,		/* refused meanwhile: told so once hands are shaken */
	SESSION_NEW,			/* no hello yet */
	SESSION_READY,			/* what it asks is answered */
	SESSION_PREPARING,		/* asked for probes that are being made; the request waits in `input` */
	SESSION_WAITING,		/* for a program that brings what it asked for; the same */
	SESSION_CHANGING,		/* asked for a change, or what takes a while: requests wait for the answer */
	SESSION_CLOSING,		/* refused: answers are still sent, input is not heeded */
	SESSION_LEAVING,		/* said Bye: the same, and it will not come back for its stream */
};

struct session {
	struct session_config config;
	struct transport *transport;
	struct client_identity identity;
	uint64_t id;
	enum session_state state;
	bool prepared;			/* the request that waits in `input` was looked at before */
	bool told;			/* and its client knows that it waits for a program */
	bool subscribing;		/* asked for a stream, whether it is there yet or not */
	bool broken;			/* the socket is, or memory ran out: to be closed */
	bool write_waits_for_read;	/* TLS has to hear something before it can go on */
	bool held_back;			/* something waits for its allowance */
	uint64_t active_ns;		/* when it last asked, or took, or had nothing to take */
	uint64_t deadline_ns;		/* of `timeout` */
	bool excused;			/* it passed while the daemon was held up, and was moved */
	char peer[128];
	char software[64];
	struct event *readable, *writable, *timeout, *stat_timer;
	struct event *allowed;		/* some of its allowance is there again; NULL: it has none */
	struct turnstile_place turn;	/* to shake hands */

	uint8_t *input;
	size_t input_bytes, input_capacity, input_wanted;
	uint64_t requests;

	/* Out, in this order: a frame sent in part, answers, the stream's frames. */
	size_t part_sent;		/* of the first answer, or of stream->begun */
	bool part_is_stream;
	STAILQ_HEAD(, answer) answers;
	unsigned replies;		/* of these */
	struct subscriber subscriber;
	struct stream *stream;
	uint64_t wire_bytes, frames;
};

static bool is_shaking(const struct session *session)
{
	return session->state <= SESSION_TURNED_AWAY;
}

static bool is_closing(const struct session *session)
{
	return session->state >= SESSION_CLOSING;
}

static struct timeval timeval_of(uint64_t ns)
{
	return (struct timeval){.tv_sec = (time_t)(ns / NS_PER_S),
				.tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};
}

static void arm_until(struct session *session, uint64_t deadline_ns, uint64_t now_ns)
{
	struct timeval timeout = timeval_of(deadline_ns - now_ns);

	session->deadline_ns = deadline_ns;
	event_add(session->timeout, &timeout);
}

static void arm(struct session *session, uint64_t ns)
{
	uint64_t now_ns = clock_monotonic();

	session->excused = false;
	arm_until(session, now_ns + ns, now_ns);
}

/* ---- Output: answers, then the stream's frames, many to a system call and none copied -------- */

/* Frames on their way into one sendmsg(2), in order. */
struct gathered {
	struct iovec iov[SEND_IOV_MAX];
	unsigned n;			/* of iov */
	unsigned part;			/* 1: the first is the rest of stream->begun */
	unsigned answers;		/* the next so many are answers, the others the stream's */
	size_t bytes;
};

static void gather(struct gathered *gathered, const struct frame_ref *frame, size_t from)
{
	gathered->iov[gathered->n++] = (struct iovec){
		.iov_base = (void *)(frame->data + from),
		.iov_len = frame->bytes - from,
	};
	gathered->bytes += frame->bytes - from;
}

/* Not at once: the caller still holds it. */
static void break_off(struct session *session)
{
	counter_add(COUNTER_sessions_out_of_memory, 1);
	session->broken = true;
	event_active(session->writable, EV_WRITE, 0);
}

static void queue_answer(struct session *session, struct frame_ref *frame, bool reply)
{
	struct answer *answer = malloc(sizeof(*answer));

	/* What the client must be told would go missing: it has to go. */
	if (!answer) {
		frame_ref_put(frame);
		break_off(session);
		return;
	}
	*answer = (struct answer){.frame = frame, .reply = reply};
	STAILQ_INSERT_TAIL(&session->answers, answer, link);
	session->replies += reply;
}

static void tell(void *context, struct frame_ref *frame)
{
	queue_answer(context, frame, false);
}

static void gather_answers(const struct session *session, struct gathered *gathered)
{
	const struct answer *answer;

	STAILQ_FOREACH(answer, &session->answers, link) {
		if (gathered->n == SEND_IOV_MAX)
			return;
		gather(gathered, answer->frame,
		       gathered->n == 0 && !session->part_is_stream ? session->part_sent : 0);
		gathered->answers++;
	}
}

static void gather_stream(struct session *session, struct gathered *gathered)
{
	struct frame_ref *frame[SEND_IOV_MAX];
	unsigned n;

	if (gathered->n == SEND_IOV_MAX || is_closing(session))
		return;
	/* Gaps are told when it is their turn: until then they grow, and stay one for each ring. */
	if (gathered->n && session->stream->gaps)
		return;
	n = stream_peek(session->stream, frame, SEND_IOV_MAX - gathered->n, tell, session);
	for (unsigned i = 0; i < n && gathered->bytes < SEND_TURN_BYTES; i++)
		gather(gathered, frame[i], 0);
}

static void gather_all(struct session *session, struct gathered *gathered)
{
	gathered->n = gathered->part = gathered->answers = 0;
	gathered->bytes = 0;
	if (session->part_is_stream) {
		gather(gathered, session->stream->begun, session->part_sent);
		gathered->part = 1;
	}
	gather_answers(session, gathered);
	if (session->stream)
		gather_stream(session, gathered);
	/* Peeking at the stream may have turned up gaps to tell first. */
	if (gathered->n == 0)
		gather_answers(session, gathered);
}

static void count_sent(struct session *session)
{
	session->frames++;
	counter_add(COUNTER_frames_sent, 1);
}

static void answer_sent(struct session *session)
{
	struct answer *answer = STAILQ_FIRST(&session->answers);

	STAILQ_REMOVE_HEAD(&session->answers, link);
	session->replies -= answer->reply;
	frame_ref_put(answer->frame);
	free(answer);
}

/* Takes what was written off the front of what there was to write. */
static void consume(struct session *session, const struct gathered *gathered, size_t sent)
{
	session->wire_bytes += sent;
	counter_add(COUNTER_bytes_sent, sent);
	for (unsigned i = 0; i < gathered->n && sent; i++) {
		bool is_part = i < gathered->part;
		bool is_answer = !is_part && i < gathered->part + gathered->answers;

		if (sent < gathered->iov[i].iov_len) {
			bool continued = i == 0 && session->part_sent;

			if (!is_part && !is_answer)
				stream_begin(session->stream);
			session->part_is_stream = !is_answer;
			session->part_sent = continued ? session->part_sent + sent : sent;
			return;
		}
		sent -= gathered->iov[i].iov_len;
		session->part_sent = 0;
		session->part_is_stream = false;
		count_sent(session);
		if (is_part)
			stream_ended(session->stream);
		else if (is_answer)
			answer_sent(session);
		else
			stream_sent(session->stream);
	}
}

bool session_idle(const struct session *session)
{
	return !session->part_sent && STAILQ_EMPTY(&session->answers) &&
	       !transport_unsent(session->transport) &&
	       (!session->stream || is_closing(session) ||
		!stream_has_work(session->stream));
}

static size_t look_at_allowance(const struct session *session)
{
	return session->config.allowance ? allowance_look(session->config.allowance, clock_monotonic()) : SIZE_MAX;
}

/* What waits stays where it is: a frame in part, answers, the stream's in its log and then in the spool. */
static void hold_back(struct session *session)
{
	struct timeval wait = timeval_of(allowance_wait_ns(session->config.allowance) + 1000);

	if (session->held_back || session_idle(session))
		return;
	session->held_back = true;
	counter_add(COUNTER_relay_holds, 1);
	event_add(session->allowed, &wait);
}

/* At most so many bytes of it. */
static ssize_t write_some(struct session *session, struct gathered *gathered, size_t bytes)
{
	struct iovec *iov = gathered->iov;
	unsigned n = 0;
	size_t cut = 0;
	ssize_t sent;

	for (; n < gathered->n && bytes; n++) {
		if (iov[n].iov_len > bytes) {
			cut = iov[n].iov_len - bytes;
			iov[n].iov_len = bytes;
		}
		bytes -= iov[n].iov_len;
	}
	sent = transport_write(session->transport, iov, n);
	if (cut)
		iov[n - 1].iov_len += cut;
	if (sent > 0 && session->config.allowance)
		allowance_spend(session->config.allowance, (size_t)sent);
	return sent;
}

/* Writes until the socket is full, a turn's worth is written, its allowance is used up, or nothing is left. */
static void write_out(struct session *session)
{
	struct gathered gathered;
	size_t written = 0;

	session->write_waits_for_read = false;
	while (written < SEND_TURN_BYTES && !session->broken) {
		size_t most = look_at_allowance(session);
		ssize_t sent;

		/* What the transport has taken already has left, as far as the allowance goes. */
		if (!most && !transport_unsent(session->transport)) {
			hold_back(session);
			return;
		}
		session->held_back = false;
		gather_all(session, &gathered);
		if (!gathered.n && !transport_unsent(session->transport))
			return;
		sent = write_some(session, &gathered, most);
		if (sent < 0) {
			session->broken |= sent != -EAGAIN;
			session->write_waits_for_read = session->transport->wanted == EV_READ;
			return;
		}
		if (sent)
			session->active_ns = clock_monotonic();
		consume(session, &gathered, (size_t)sent);
		written += (size_t)sent;
	}
}

bool session_flushed(const struct session *session)
{
	return (!session->stream || is_closing(session) || !stream_waits(session->stream)) &&
	       session_idle(session);
}

void session_send(struct session *session, struct frame_ref *frame)
{
	/* A fatal Error, and the client's Bye, is the last word. */
	if (is_closing(session)) {
		frame_ref_put(frame);
		return;
	}
	queue_answer(session, frame, true);
	event_add(session->writable, NULL);
}

void session_subscribed(struct session *session, struct stream *stream, struct frame_ref *catalog,
			struct frame_ref *subscribed)
{
	session->stream = stream;
	session_send(session, catalog);
	session_send(session, subscribed);
}

/* ---- Refusing -------------------------------------------------------------------------------- */

/* What is left to say has as long as a hello has; what comes in is thrown away. */
static void close_soon(struct session *session)
{
	session->state = SESSION_CLOSING;
	arm(session, session->config.bounds->hello_timeout_ns);
	event_add(session->readable, NULL);
	event_add(session->writable, NULL);
	event_del(session->stat_timer);
}

/* NULL: no memory. */
static struct frame_ref *pack_error(const struct session *session, const struct error *error, bool fatal)
{
	Ringtail__V1__Error message = RINGTAIL__V1__ERROR__INIT;
	struct error shown = *error;

	/* A text of the client's that is cut in it may end inside a character. */
	visible_replace(shown.what);
	visible_replace(shown.hint);
	message.code = shown.code;
	message.what = shown.what;
	message.hint = shown.hint;
	message.column = error->column;
	message.fatal = fatal;
	return frame_ref_pack(session->config.codec, FRAME_ERROR, &message.base);
}

void session_refuse(struct session *session, const struct error *error, bool fatal)
{
	struct frame_ref *frame;

	if (is_closing(session) || session->state == SESSION_TURNED_AWAY)
		return;
	counter_add(COUNTER_requests_refused, 1);
	log_info("client-refused", "client %llu (%s): [%s] %s", (unsigned long long)session->id,
		 session->peer, error->code, error->what);
	frame = pack_error(session, error, fatal);
	if (frame)
		session_send(session, frame);
	else if (!fatal)
		break_off(session);		/* it waits for an answer that will not come */
	if (fatal) {
		counter_add(COUNTER_sessions_failed, 1);
		if (is_shaking(session))
			session->state = SESSION_TURNED_AWAY;
		else
			close_soon(session);
	}
}

static void refuse(struct session *session, const char *code, const char *what, const char *hint)
{
	struct error error;

	error_set(&error, EPROTO, code, "%s", what);
	error_hint(&error, "%s", hint);
	session_refuse(session, &error, true);
}

static void refuse_slow(struct session *session)
{
	struct error error;

	counter_add(COUNTER_sessions_too_slow, 1);
	error_set(&error, ENOBUFS, "too-slow", "this client lags more than queue-size (%llu bytes),"
		  " and overflow is `disconnect`",
		  (unsigned long long)session->stream->lag_bytes_max);
	error_hint(&error, "request fewer events, read faster, or reconnect with the cursor");
	session_refuse(session, &error, true);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void free_session(struct session *session)
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
	if (session->allowed)
		event_free(session->allowed);
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
	free_session(session);
}

static void end(struct session *session)
{
	session_destroy(session, session->state == SESSION_LEAVING);
}

bool session_turn_away(struct session *session, const struct error *error)
{
	bool mute = is_shaking(session);

	if (mute && !transport_turn_away(session->transport)) {
		session_refuse(session, error, true);
		return false;
	}
	if (!mute) {
		session_refuse(session, error, true);
		write_out(session);
		transport_shutdown(session->transport);
	}
	session_destroy(session, false);
	return true;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void refuse_frame(struct session *session, enum frame_status status)
{
	struct error error;

	counter_add(COUNTER_frames_bad, 1);
	error_set(&error, EPROTO, frame_status_name(status), "frame %llu from this client: %s",
		  (unsigned long long)session->requests + 1, frame_status_text(status));
	error_hint(&error, "the connection speaks ringtail frames, docs/protocol.md");
	session_refuse(session, &error, true);
}

static void take_hello(struct session *session, const Ringtail__V1__ClientHello *hello)
{
	struct frame_ref *answer;
	struct error refused = {0};

	if (hello->version_min > FRAME_VERSION || hello->version_max < FRAME_VERSION) {
		struct error error;

		error_set(&error, EPROTO, "version-unsupported",
			  "this daemon speaks version %d, the client %u to %u", FRAME_VERSION,
			  hello->version_min, hello->version_max);
		error_hint(&error, "use a client and a daemon of the same release");
		session_refuse(session, &error, true);
		return;
	}
	visible_copy(session->software, sizeof(session->software), hello->software,
		     strlen(hello->software));
	if (session->config.host->admit(session->config.host->context, session, hello->token,
					&refused) != 0) {
		session_refuse(session, &refused, true);
		return;
	}
	answer = session->config.host->hello(session->config.host->context, session);
	if (!answer) {
		error_set(&refused, ENOMEM, "out-of-memory", "no memory is left for a ServerHello");
		error_hint(&refused, "connect again in a moment");
		session_refuse(session, &refused, true);
		return;
	}
	session->state = SESSION_READY;
	arm(session, session->config.bounds->hello_timeout_ns);
	session_send(session, answer);
}

static void send_stat(struct session *session, const char *consumer)
{
	struct frame_ref *frame = session->config.host->stat(session->config.host->context, consumer);

	if (frame) {
		session_send(session, frame);
	} else {
		struct error error;

		error_set(&error, EMSGSIZE, "stat-too-large",
			  "the answer does not fit into a frame, or into memory");
		error_hint(&error, "ask again when fewer clients are connected");
		session_refuse(session, &error, false);
	}
}

static void on_stat(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd, (void)what;
	/* One that does not read its answers is not sent more of them. */
	if (STAILQ_EMPTY(&session->answers))
		send_stat(session, "");
	session_wake(session);
}

static void take_stat(struct session *session, const Ringtail__V1__StatRequest *request)
{
	uint32_t ms = request->interval_ms;

	send_stat(session, request->consumer);
	if (ms && !*request->consumer) {
		struct timeval interval;

		ms = ms < STAT_INTERVAL_MS_MIN ? STAT_INTERVAL_MS_MIN : ms;
		interval = timeval_of(ms * 1000000ull);
		event_add(session->stat_timer, &interval);
	}
}

static void take_list(struct session *session, const Ringtail__V1__ListRequest *request)
{
	struct error error = {0};
	struct frame_ref *frame = session->config.host->list(session->config.host->context,
							     session, request, &error);

	if (frame)
		session_send(session, frame);
	else
		session_refuse(session, &error, false);
}

static void take_hosts(struct session *session, const Ringtail__V1__HostsRequest *request)
{
	struct error error = {0};
	struct frame_ref *frame = session->config.host->hosts(session->config.host->context,
							      request->after, &error);

	if (frame)
		session_send(session, frame);
	else
		session_refuse(session, &error, false);
}

static void take_subscribe(struct session *session, const Ringtail__V1__Subscribe *subscribe)
{
	struct error error = {0};

	if (session->subscribing) {
		refuse(session, "already-subscribed", "this connection has a subscription",
		       "open one connection for each subscription");
		return;
	}
	session->subscribing = true;
	if (session->config.host->subscribe(session->config.host->context, session, subscribe,
					    &error) != 0)
		session_refuse(session, &error, true);
}

static void take_ack(struct session *session, const Ringtail__V1__Ack *ack)
{
	struct error error = {0};

	if (session->config.host->ack(session->config.host->context, session, ack, &error) != 0)
		session_refuse(session, &error, false);
}

static void take_probes(struct session *session)
{
	struct frame_ref *frame = session->config.host->probes(session->config.host->context);

	if (frame)
		session_send(session, frame);
	else
		break_off(session);
}

static void take_change(struct session *session, const Ringtail__V1__Change *change)
{
	const struct change_request request = {
		.enable = change->enable,
		.enables = change->n_enable,
		.disable = change->disable,
		.disables = change->n_disable,
		.flag = change->flag,
		.flags = change->n_flag,
	};

	session->state = SESSION_CHANGING;
	session->config.host->change(session->config.host->context, session, &request);
}

static void take_forget(struct session *session, const Ringtail__V1__Forget *forget)
{
	session->state = SESSION_CHANGING;
	session->config.host->forget(session->config.host->context, session, forget->consumer);
}

static void take_stuck(struct session *session, const Ringtail__V1__StuckRequest *request)
{
	session->state = SESSION_CHANGING;
	session->config.host->stuck(session->config.host->context, session, request);
}

static void take_dumps(struct session *session, const Ringtail__V1__DumpsRequest *request)
{
	session->state = SESSION_CHANGING;
	session->config.host->dumps(session->config.host->context, session, request);
}

static void take_reach(struct session *session, const Ringtail__V1__Reach *request)
{
	session->state = SESSION_CHANGING;
	session->config.host->reach(session->config.host->context, session, request->host);
}

/* While it waited it was not read, but for what came right behind its request. */
struct transport *session_hand_over(struct session *session)
{
	struct transport *transport = session->transport;

	if (session->state != SESSION_CHANGING || session->input_bytes || session->broken || session->stream ||
	    !session_idle(session)) {
		refuse(session, "unexpected-frame", "a client that asks for a host waits for the answer",
		       "see docs/protocol.md, Reach");
		return NULL;
	}
	session->transport = NULL;
	session_destroy(session, true);
	return transport;
}

void session_answer(struct session *session, struct frame_ref *answer, const struct error *error)
{
	if (session->state == SESSION_CHANGING)
		session->state = SESSION_READY;
	if (answer)
		session_send(session, answer);
	else
		session_refuse(session, error, false);
	/* Requests may have come meanwhile; not from in here, where the caller still holds it. */
	event_add(session->writable, NULL);
}

void session_go_on(struct session *session)
{
	if (session->state != SESSION_PREPARING && session->state != SESSION_WAITING)
		return;
	session->state = SESSION_READY;
	/* Not from in here, where the caller still goes over the sessions. */
	event_add(session->writable, NULL);
}

/* Probes of files and functions of the kernel are too many to be offered: a list that names some has them made. */
static bool is_made_for_list(const char *glob)
{
	static const char *const provider[] = {"fentry:", "fexit:", "kprobe:", "kretprobe:"};

	for (size_t i = 0; i < sizeof(provider) / sizeof(provider[0]); i++)
		if (strncmp(glob, provider[i], strlen(provider[i])) == 0)
			return true;
	return strchr(glob, '/') != NULL;
}

/*
 * Whether a program is yet to bring what it asks for: 1, 0; -1: it was refused. The client is told once, and may take as
 * long as it likes.
 */
static int wait_for_program(struct session *session, const Ringtail__V1__Subscribe *subscribe)
{
	const struct session_host *host = session->config.host;
	struct frame_ref *frame;
	struct error error = {0};
	int waits = 0;

	if (subscribe->wait && !session->subscribing && host->awaits)
		waits = host->awaits(host->context, session, subscribe, session->told ? NULL : &error);
	if (waits < 0 && !session->told) {
		session_refuse(session, &error, true);
		return -1;
	}
	if (waits <= 0)
		return 0;
	session->state = SESSION_WAITING;
	if (session->told)
		return 1;
	session->told = true;
	/* For what the client sends behind its request, which may fill the input by itself. */
	session->input_wanted = session->input_bytes + INPUT_BYTES_FIRST;
	frame = pack_error(session, &error, false);
	if (frame)
		session_send(session, frame);
	else
		break_off(session);
	return 1;
}

/* Whether the probes of a request are there. 0: not yet, and it waits; -1: it was refused. */
static int prepare(struct session *session, enum frame_type type, const ProtobufCMessage *message)
{
	const Ringtail__V1__Subscribe *subscribe = (const void *)message;
	const Ringtail__V1__Change *change = (const void *)message;
	const Ringtail__V1__ListRequest *list = (const void *)message;
	struct error error = {0};
	int err = 0;

	if (type == FRAME_SUBSCRIBE)
		err = session->config.host->prepare(session->config.host->context, session,
						    subscribe->probe, subscribe->n_probe,
						    session->prepared, &error);
	else if (type == FRAME_CHANGE && session->identity.role >= ROLE_OPERATOR)
		err = session->config.host->prepare(session->config.host->context, session,
						    change->enable, change->n_enable,
						    session->prepared, &error);
	else if (type == FRAME_LIST && session->identity.role >= ROLE_OPERATOR && is_made_for_list(list->glob))
		err = session->config.host->prepare(session->config.host->context, session, &list->glob, 1,
						    session->prepared, &error);
	if (err < 0)
		session_refuse(session, &error, type == FRAME_SUBSCRIBE);
	session->prepared = err > 0;
	if (err > 0)
		session->state = SESSION_PREPARING;
	else if (!err && type == FRAME_SUBSCRIBE)
		err = wait_for_program(session, subscribe);
	return err < 0 ? -1 : err == 0;
}

static void take_bye(struct session *session)
{
	close_soon(session);
	session->state = SESSION_LEAVING;
}

/* A relay, which this daemon has dialled, does not want it any more. */
static void take_error(struct session *session, const Ringtail__V1__Error *error)
{
	log_warn("relay-refuses", "the relay %s answers: [%s] %s; %s", session->peer, error->code,
		 error->what, error->hint);
	close_soon(session);
}

static void dispatch(struct session *session, enum frame_type type, const void *message)
{
	assert(!session->replies);	/* the answer before is written: they do not pile up */
	switch (type) {
	case FRAME_CLIENT_HELLO:
		take_hello(session, message);
		break;
	case FRAME_ERROR:
		take_error(session, message);
		break;
	case FRAME_LIST:
		take_list(session, message);
		break;
	case FRAME_SUBSCRIBE:
		take_subscribe(session, message);
		break;
	case FRAME_STAT_REQUEST:
		take_stat(session, message);
		break;
	case FRAME_ACK:
		take_ack(session, message);
		break;
	case FRAME_PROBES_REQUEST:
		take_probes(session);
		break;
	case FRAME_CHANGE:
		take_change(session, message);
		break;
	case FRAME_FORGET:
		take_forget(session, message);
		break;
	case FRAME_STUCK_REQUEST:
		take_stuck(session, message);
		break;
	case FRAME_DUMPS_REQUEST:
		take_dumps(session, message);
		break;
	case FRAME_HOSTS_REQUEST:
		take_hosts(session, message);
		break;
	case FRAME_REACH:
		take_reach(session, message);
		break;
	case FRAME_DIAL:
		session->config.host->dial(session->config.host->context, session, message);
		break;
	default:
		take_bye(session);
		break;
	}
}

/* Before a byte of it is unpacked: what no client of ours packs costs nothing. */
static bool check_request(struct session *session, const ProtobufCMessageDescriptor *descriptor,
			  const uint8_t *body, uint32_t bytes)
{
	struct message_place place;
	enum message_fault fault =
		message_check(descriptor, body, bytes, REQUEST_ELEMENTS_MAX, &place);
	struct error error;

	if (fault == MESSAGE_GOOD)
		return true;
	counter_add(COUNTER_frames_bad, 1);
	error_set(&error, EPROTO, message_fault_code(fault), "request %llu from this client: %s%s%s %s",
		  (unsigned long long)session->requests + 1, place.message, place.field ? "." : "",
		  place.field ? place.field : "", message_fault_text(fault));
	error_hint(&error, "see docs/protocol.md: each field at most once, unless it is repeated, and at"
			   " most %d elements", REQUEST_ELEMENTS_MAX);
	session_refuse(session, &error, true);
	return false;
}

/* What it says is shown to others, and kept: text is of one line, and acts on nobody's terminal. */
static bool check_text(struct session *session, const ProtobufCMessage *message)
{
	struct message_text_place place;
	struct error error;

	if (message_text_is_visible(message, &place))
		return true;
	counter_add(COUNTER_frames_bad, 1);
	error_set(&error, EPROTO, "text-invalid", place.no_text ?
		  "request %llu from this client: %s.%s has the byte %02X at %zu, which is not UTF-8" :
		  "request %llu from this client: %s.%s has U+%04X at byte %zu, which does not show",
		  (unsigned long long)session->requests + 1, place.message, place.field,
		  (unsigned)place.code, place.byte + 1);
	error_hint(&error, "send text as UTF-8 in one line, without control characters and without"
			   " those that turn the direction of text");
	session_refuse(session, &error, true);
	return false;
}

/* What a client may send, once it has said hello. False: it is to be taken again later. */
static bool take_request(struct session *session, enum frame_type type, const uint8_t *body,
			 uint32_t bytes)
{
	static const ProtobufCMessageDescriptor *const message_of[] = {
		[FRAME_CLIENT_HELLO] = &ringtail__v1__client_hello__descriptor,
		[FRAME_ERROR] = &ringtail__v1__error__descriptor,
		[FRAME_LIST] = &ringtail__v1__list_request__descriptor,
		[FRAME_SUBSCRIBE] = &ringtail__v1__subscribe__descriptor,
		[FRAME_BYE] = &ringtail__v1__bye__descriptor,
		[FRAME_STAT_REQUEST] = &ringtail__v1__stat_request__descriptor,
		[FRAME_ACK] = &ringtail__v1__ack__descriptor,
		[FRAME_FORGET] = &ringtail__v1__forget__descriptor,
		[FRAME_PROBES_REQUEST] = &ringtail__v1__probes_request__descriptor,
		[FRAME_CHANGE] = &ringtail__v1__change__descriptor,
		[FRAME_STUCK_REQUEST] = &ringtail__v1__stuck_request__descriptor,
		[FRAME_DUMPS_REQUEST] = &ringtail__v1__dumps_request__descriptor,
		[FRAME_HOSTS_REQUEST] = &ringtail__v1__hosts_request__descriptor,
		[FRAME_REACH] = &ringtail__v1__reach__descriptor,
		[FRAME_DIAL] = &ringtail__v1__dial__descriptor,
	};
	size_t types = sizeof(message_of) / sizeof(message_of[0]);
	ProtobufCMessage *message;
	int ready = -1;

	if (type >= types || !message_of[type] ||
	    ((type == FRAME_ERROR || type == FRAME_DIAL) && session->identity.proof != IDENTITY_RELAY) ||
	    (session->state == SESSION_NEW) != (type == FRAME_CLIENT_HELLO)) {
		refuse(session, "unexpected-frame",
		       session->state == SESSION_NEW ? "the first frame is not a ClientHello"
						     : "a client does not send this here",
		       "the connection speaks ringtail frames, docs/protocol.md");
		return true;
	}
	if (!check_request(session, message_of[type], body, bytes))
		return true;
	message = message_unpack_checked(message_of[type], NULL, body, bytes);
	if (!message) {
		refuse_frame(session, FRAME_BAD_MESSAGE);
		return true;
	}
	if (check_text(session, message))
		ready = prepare(session, type, message);
	/* It has come, and may wait: no longer for the client. */
	if (ready >= 0)
		event_del(session->timeout);
	if (ready > 0) {
		session->requests++;
		dispatch(session, type, message);
	}
	protobuf_c_message_free_unpacked(message, NULL);
	return ready != 0;
}

/* ---- Input ----------------------------------------------------------------------------------- */

/* One frame off the front of the input. False: no whole one is there, or the session is closing. */
static bool take_frame(struct session *session)
{
	struct frame_header header;
	uint8_t raw[REQUEST_RAW_BYTES_MAX];
	const uint8_t *body;
	enum frame_status status;
	size_t bytes;

	if (is_closing(session))
		return false;
	status = frame_parse_header(session->input, session->input_bytes, REQUEST_RAW_BYTES_MAX,
				    &header);
	if (status == FRAME_SHORT)
		return false;
	if (status != FRAME_OK) {
		refuse_frame(session, status);
		return false;
	}
	bytes = FRAME_HEADER_BYTES + header.body_bytes;
	if (session->input_bytes < bytes) {
		session->input_wanted = bytes;
		return false;
	}
	status = frame_open(session->config.codec, session->input, &header, raw, &body);
	if (status != FRAME_OK) {
		refuse_frame(session, status);
		return false;
	}
	if (!take_request(session, header.type, body, header.raw_bytes))
		return false;
	session->input_bytes -= bytes;
	memmove(session->input, session->input + bytes, session->input_bytes);
	return true;
}

static bool make_room(struct session *session)
{
	uint8_t *input;

	if (session->input_wanted <= session->input_capacity)
		return true;
	input = realloc(session->input, session->input_wanted);
	if (!input)
		return false;
	session->input = input;
	session->input_capacity = session->input_wanted;
	return true;
}

/* One large request, once, is no reason to be large for ever. */
static void give_room_back(struct session *session)
{
	uint8_t *input;

	if (session->input_bytes || session->input_capacity == INPUT_BYTES_FIRST)
		return;
	input = realloc(session->input, INPUT_BYTES_FIRST);
	if (!input)
		return;
	session->input = input;
	session->input_capacity = INPUT_BYTES_FIRST;
	session->input_wanted = 0;
}

/* As transport_read(): what came is in the input. */
static ssize_t receive(struct session *session)
{
	ssize_t got;

	if (!make_room(session)) {
		counter_add(COUNTER_sessions_out_of_memory, 1);
		return -ENOMEM;
	}
	/* Read on while closing: to close with bytes unread would reset the connection, and the
	 * client might never see why. */
	if (is_closing(session))
		session->input_bytes = 0;
	got = transport_read(session->transport, session->input + session->input_bytes,
			     session->input_capacity - session->input_bytes);
	if (got > 0)
		session->input_bytes += (size_t)got;
	return got;
}

/* ---- Turns: what waits is written, then requests are taken ----------------------------------- */

/* The answer to the request before comes first. */
static bool must_wait(const struct session *session)
{
	return session->replies || session->state == SESSION_CHANGING ||
	       session->state == SESSION_PREPARING || session->state == SESSION_WAITING;
}

/* It is to be noticed if the client goes meanwhile. What it sends is kept, as much as fits. */
static bool hears_on(const struct session *session)
{
	return session->state == SESSION_WAITING &&
	       (session->input_bytes < session->input_capacity || session->input_bytes < session->input_wanted);
}

/*
 * Takes what has come in, one request at a time: while an answer waits to be written, the next request
 * waits too, and then nothing is read. So one who asks and never listens costs one answer.
 */
static void take_requests(struct session *session)
{
	while (!must_wait(session) && take_frame(session))
		;
	if (must_wait(session) && !is_closing(session) && !hears_on(session)) {
		event_del(session->readable);
		/* That it goes would not be noticed any more, and what it waits for may never come. */
		if (session->state == SESSION_WAITING)
			break_off(session);
		return;
	}
	if (!must_wait(session))
		give_room_back(session);
	event_add(session->readable, NULL);
	/* No event will tell of what the transport has taken off the socket already. */
	if (transport_pending(session->transport))
		event_active(session->readable, EV_READ, 0);
}

/* The client has gone: perhaps it said before that it would not come back. */
static void hear_last(struct session *session)
{
	if (is_shaking(session))
		return;
	receive(session);
	while (!must_wait(session) && take_frame(session))
		;
}

void session_wake(struct session *session)
{
	if (is_shaking(session))
		return;
	if (session->config.bounds->disconnect && !is_closing(session) && session->stream &&
	    session->stream->frames_dropped)
		refuse_slow(session);
	write_out(session);
	if (session->broken) {
		hear_last(session);
		end(session);
		return;
	}
	take_requests(session);
	if (session->write_waits_for_read)
		event_add(session->readable, NULL);
	else if (session->held_back)
		return;					/* on_allowed() goes on */
	else if (!session_idle(session))
		event_add(session->writable, NULL);
	else if (is_closing(session))
		transport_shutdown(session->transport);	/* the client's own end of file ends it */
}

static void hear(struct session *session)
{
	ssize_t got = receive(session);

	if (got == -EAGAIN) {
		if (session->transport->wanted == EV_WRITE) {
			event_del(session->readable);
			event_add(session->writable, NULL);
		}
		return;
	}
	if (got <= 0) {
		end(session);
		return;
	}
	session->active_ns = clock_monotonic();
	session_wake(session);
}

/* ---- Handshake ------------------------------------------------------------------------------- */

static void identify(struct session *session)
{
	struct error error = {0};

	session->state = SESSION_NEW;
	arm(session, session->config.bounds->hello_timeout_ns);
	if (session->config.host->identify(session->config.host->context, session->config.client,
					   session->transport, &session->identity, &error) != 0)
		session_refuse(session, &error, true);
}

static void shake_hands(struct session *session)
{
	struct error error = {0};
	int err = transport_handshake(session->transport, &error);

	if (!err && session->state == SESSION_TURNED_AWAY) {
		close_soon(session);
	} else if (!err) {
		event_add(session->readable, NULL);
		identify(session);
		/* No event will tell of what has come with the handshake. */
		if (transport_pending(session->transport))
			event_active(session->readable, EV_READ, 0);
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
		close_soon(session);
	}
}

static void take_turn(void *context)
{
	struct session *session = context;

	shake_hands(session);
	/* What came right behind the handshake may be inside the transport already. */
	if (session->state == SESSION_NEW)
		hear(session);
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd, (void)what;
	if (!is_shaking(session)) {
		hear(session);
		return;
	}
	/* A handshake is dear, and whoever connects can ask for one. */
	event_del(session->readable);
	turnstile_join(session->config.turnstile, &session->turn);
}

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)what;
	if (is_shaking(session))
		on_readable(fd, EV_READ, session);
	else
		session_wake(session);
}

static void on_allowed(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd, (void)what;
	session->held_back = false;
	session_wake(session);
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

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
	if (is_closing(session)) {
		end(session);
		return;
	}
	if (is_shaking(session)) {
		counter_add(COUNTER_tls_failed, 1);
		log_info("tls-timeout", "client %llu (%s) did not finish the TLS handshake in time",
			 (unsigned long long)session->id, session->peer);
		session_destroy(session, false);
		return;
	}
	refuse(session, session->state == SESSION_NEW ? "hello-timeout" : "request-timeout",
	       session->state == SESSION_NEW ? "the client sent no hello in time"
					     : "the client sent no request in time after its hello",
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

	if (session->state != SESSION_READY)
		return;
	/* It has taken all there is, and will be given more. */
	if (!waits && fed)
		session->active_ns = now_ns;
	if (now_ns - session->active_ns < session->config.bounds->silence_timeout_ns)
		return;
	counter_add(COUNTER_sessions_silent, 1);
	refuse(session, "silence-timeout",
	       waits ? "the client has not read pending data for silence-timeout"
		     : "the client has been idle without a stream for silence-timeout",
	       "read what comes, or connect again when there is something to ask");
}

/* ---- The beginning --------------------------------------------------------------------------- */

static int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	struct session *session = context;

	return session->config.host->live(session->config.host->context, session, stream, from);
}

static void on_refused(void *context, const struct error *error)
{
	session_refuse(context, error, true);
}

static void on_wake(void *context)
{
	session_wake(context);
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
	session->turn = (struct turnstile_place){.go = take_turn, .context = session};
	session->subscriber = (struct subscriber){.identity = &session->identity, .live = on_live,
						  .refused = on_refused, .wake = on_wake,
						  .context = session};
	STAILQ_INIT(&session->answers);
	session->input = malloc(INPUT_BYTES_FIRST);
	session->input_capacity = INPUT_BYTES_FIRST;
	session->readable = event_new(config->base, fd, EV_READ | EV_PERSIST, on_readable,
				      session);
	session->writable = event_new(config->base, fd, EV_WRITE, on_writable, session);
	session->timeout = evtimer_new(config->base, on_timeout, session);
	session->stat_timer = event_new(config->base, -1, EV_PERSIST, on_stat,
					session);
	if (config->allowance)
		session->allowed = evtimer_new(config->base, on_allowed, session);
	if (!session->input || !session->readable || !session->writable || !session->timeout ||
	    !session->stat_timer || (config->allowance && !session->allowed) ||
	    event_add(session->readable, NULL) != 0) {
		free_session(session);
		return NULL;
	}
	arm(session, config->bounds->tls_timeout_ns);
	/* In TLS the client speaks first, and then waits for its turn. */
	if (!transport->shakes)
		shake_hands(session);
	return session;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

struct subscriber *session_subscriber(struct session *session)
{
	return &session->subscriber;
}

struct stream *session_stream(const struct session *session)
{
	return session->stream;
}

bool session_held_back(const struct session *session)
{
	return session->held_back;
}

struct client_identity *session_identity(struct session *session)
{
	return &session->identity;
}

void *session_client(const struct session *session)
{
	return session->config.client;
}

const struct transport *session_transport(const struct session *session)
{
	return session->transport;
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
