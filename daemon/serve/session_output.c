/*
 * session_output: what a session sends: answers, then its stream's frames, many to a system call and
 * none copied. Waits for the socket only with something to write.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/serve/session_private.h"

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
void session_break(struct session *session)
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
		session_break(session);
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

	if (gathered->n == SEND_IOV_MAX || session->state == SESSION_CLOSING)
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

/* Writes until the socket is full, a turn's worth is written, or nothing is left. */
void session_write_out(struct session *session)
{
	struct gathered gathered;
	size_t written = 0;

	session->write_waits_for_read = false;
	while (written < SEND_TURN_BYTES && !session->broken) {
		ssize_t sent;

		gather_all(session, &gathered);
		if (!gathered.n && !transport_unsent(session->transport))
			return;
		sent = transport_write(session->transport, gathered.iov, gathered.n);
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

bool session_idle(const struct session *session)
{
	return !session->part_sent && STAILQ_EMPTY(&session->answers) &&
	       !transport_unsent(session->transport) &&
	       (!session->stream || session->state == SESSION_CLOSING ||
		!stream_has_work(session->stream));
}

static void refuse_slow(struct session *session)
{
	struct error error;

	counter_add(COUNTER_sessions_too_slow, 1);
	error_set(&error, ENOBUFS, "too-slow", "this client lags more than queue-size (%llu bytes),"
		  " and overflow is `disconnect`",
		  (unsigned long long)session->stream->lag_bytes_max);
	error_hint(&error, "ask for less, read faster, or come back at your cursor");
	session_refuse(session, &error, true);
}

void session_wake(struct session *session)
{
	if (session->state == SESSION_SHAKING)
		return;
	if (session->config.bounds->disconnect && session->state == SESSION_READY &&
	    session->stream && session->stream->frames_dropped)
		refuse_slow(session);
	session_write_out(session);
	if (session->broken) {
		session_hear_last(session);
		session_destroy(session, session->orderly);
		return;
	}
	session_take_requests(session);
	if (session->write_waits_for_read)
		event_add(session->readable, NULL);
	else if (!session_idle(session))
		event_add(session->writable, NULL);
	else if (session->state == SESSION_CLOSING)
		transport_shutdown(session->transport);	/* the client's own end of file ends it */
}

void session_on_writable(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)what;
	if (session->state == SESSION_SHAKING)
		session_on_readable(fd, EV_READ, session);
	else
		session_wake(session);
}

void session_send(struct session *session, struct frame_ref *frame)
{
	/* A fatal Error, and the client's Bye, is the last word. */
	if (session->state == SESSION_CLOSING) {
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
