/*
 * ringtail: the client library: conn brings frames, intake makes items of them; this drives both.
 */
#include "client/lib/ringtail.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/address.h"
#include "proto/backoff.h"
#include "client/lib/conn.h"
#include "client/lib/cursor.h"
#include "client/lib/failure.h"
#include "client/lib/fed.h"
#include "client/lib/forward.h"
#include "client/lib/intake.h"
#include "client/lib/limits.h"
#include "client/lib/reach.h"
#include "client/lib/selection.h"
#include "client/lib/subscription.h"
#include "proto/batch_decode.h"
#include "proto/losses.h"
#include "proto/ringtail.pb-c.h"
#include "query/constant.h"
#include "query/visible.h"

struct ringtail {
	enum state {
		CONNECTED,		/* frames may come */
		LEAVING,		/* only those that have come already, up to arrived_end */
		DRAINING,		/* no more frames; items still wait; then `last` */
		WAITING,		/* between two tries to connect */
		OVER,			/* `last` for ever */
	} state;
	enum ringtail_kind last;
	bool is_file;
	const char *fed;		/* by somebody else: its name; NULL: it has a conn */
	uint64_t fed_upto;		/* byte of that stream */
	bool lost_told;			/* RINGTAIL_DISCONNECTED was given out */
	struct address address;
	struct conn *conn;		/* NULL while waiting, and if it is fed */
	struct intake *intake;
	struct subscription *subscription;
	struct selection *selection;	/* of a file; NULL: every event */
	const struct ringtail_question *question;	/* until it subscribes; NULL: none */
	void (*waits)(void *context, const struct ringtail_error *error);	/* the same; NULL: it does not wait */
	void *waits_context;
	int waits_ms;
	struct backoff backoff;
	uint64_t retry_ns, give_up_ns;
	uint64_t probes_until_ns;	/* so long programs may take to find the daemon that answers again; 0: none has answered */
	uint64_t arrived_end;		/* byte of the connection's stream */
	int interrupt_fd;
	void (*tap)(void *context, const uint8_t *frame, size_t bytes);
	void *tap_context;
	forward_frame *forward;
	void *forward_context;
	struct ringtail_error error;
	uint8_t hello[4096];		/* the first frame, for a tap that is set later */
	size_t hello_bytes;
	struct cursor *cursor;
	struct cursor *resume;		/* where the connection broke */
};

/* desk: NULL: its own. */
static struct ringtail *create(bool count_only, struct intake_desk *desk, struct ringtail_error *error)
{
	struct ringtail *ringtail = calloc(1, sizeof(*ringtail));

	if (ringtail) {
		ringtail->interrupt_fd = -1;
		ringtail->intake = desk ? intake_create_at(desk) : intake_create(count_only);
		ringtail->cursor = cursor_create(CURSOR_POSITIONS_MAX);
		ringtail->resume = cursor_create(CURSOR_POSITIONS_MAX);
		backoff_init(&ringtail->backoff, conn_now_ns() ^ (uint64_t)getpid() << 32,
			     RECONNECT_DELAY_MS_MIN, RECONNECT_DELAY_MS_MAX);
	}
	if (!ringtail || !ringtail->intake || !ringtail->cursor || !ringtail->resume) {
		ringtail_close(ringtail);
		failure_set(error, ENOMEM, "no-memory", "out of memory");
		return NULL;
	}
	return ringtail;
}

/* So that the daemon does not go on recording for our return. */
static void take_own_leave(struct ringtail *ringtail)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	struct ringtail_error ignored;

	if (ringtail->conn && ringtail->subscription)
		conn_send(ringtail->conn, FRAME_BYE, &bye.base, &ignored);
}

void ringtail_close(struct ringtail *ringtail)
{
	if (!ringtail)
		return;
	take_own_leave(ringtail);
	conn_close(ringtail->conn);
	intake_destroy(ringtail->intake);
	subscription_destroy(ringtail->subscription);
	selection_destroy(ringtail->selection);
	free(ringtail->cursor);
	free(ringtail->resume);
	free(ringtail);
}

static int take_frame(struct ringtail *ringtail, const struct frame *frame,
		      struct ringtail_error *error)
{
	int err;

	if (ringtail->tap)
		ringtail->tap(ringtail->tap_context, frame->bytes, frame->size);
	err = intake_frame(ringtail->intake, frame, error);
	if (!err && ringtail->forward)
		ringtail->forward(ringtail->forward_context, frame, intake_span(ringtail->intake));
	return err;
}

/*
 * An answer to a subscription that may wait. 1: it does, for a program. A refusal is no part of a recording: the tap
 * does not get it.
 */
static int take_answer(struct ringtail *ringtail, const struct frame *frame, struct ringtail_error *error)
{
	struct ringtail_error told = { 0 };
	int err;

	if (!ringtail->waits || frame->header.type != FRAME_ERROR)
		return take_frame(ringtail, frame, error);
	err = intake_frame(ringtail->intake, frame, &told);
	if (error)
		*error = told;
	if (err != -EPROTO || strcmp(told.code, "waits-for-program"))
		return err;
	ringtail->waits(ringtail->waits_context, &told);
	return 1;
}

/* Takes frames until the intake has reached the phase; whatever else comes first is an error. */
static int await(struct ringtail *ringtail, enum intake_phase phase, const char *what,
		 struct ringtail_error *error)
{
	/* The kernel attaches to one tracepoint after the other, and waits for every CPU in between. */
	const int reply_ms = phase == INTAKE_SUBSCRIBED ? CHANGE_TIMEOUT_MS : REPLY_TIMEOUT_MS;
	int timeout_ms = reply_ms;
	bool waits = false;

	for (unsigned i = 0; i < REPLY_FRAMES_MAX; i++) {
		struct frame frame;
		int err;

		switch (conn_wait(ringtail->conn, timeout_ms, &frame, error)) {
		case CONN_FRAME:
			break;
		case CONN_TIMEOUT:
			if (waits)
				return -ETIMEDOUT;	/* *error says what for */
			err = failure_set(error, ETIMEDOUT, "timeout", "%s sent no %s within %d s",
					  conn_name(ringtail->conn), what, timeout_ms / 1000);
			failure_hint(error, "is it a ringtaild? Is it overloaded?");
			return err;
		case CONN_INTERRUPTED:
			return failure_set(error, EINTR, "interrupted", "interrupted");
		case CONN_BAD:
			return -EBADMSG;
		default:
			return -ECONNRESET;
		}
		err = take_answer(ringtail, &frame, error);
		if (err < 0)
			return err;
		waits = err > 0;
		timeout_ms = waits ? ringtail->waits_ms : reply_ms;
		if (phase == INTAKE_GREETED && frame.size <= sizeof(ringtail->hello)) {
			memcpy(ringtail->hello, frame.bytes, frame.size);
			ringtail->hello_bytes = frame.size;
		}
		if (intake_reached(ringtail->intake, phase))
			return 0;
	}
	return failure_set(error, EBADMSG, "bad-reply", "%s sent %u frames and no %s among them",
			   conn_name(ringtail->conn), REPLY_FRAMES_MAX, what);
}

/* Connects, and takes frames up to the daemon's hello. */
static int greet(struct ringtail *ringtail, struct ringtail_error *error)
{
	int err = conn_open(&ringtail->address, ringtail->interrupt_fd, &ringtail->conn, error);

	if (err)
		return err;
	if (*ringtail->address.through)
		err = reach_host(ringtail->conn, ringtail->address.through, error);
	if (!err)
		err = conn_send_hello(ringtail->conn, error);
	if (!err)
		err = await(ringtail, INTAKE_GREETED, "hello", error);
	if (err) {
		conn_close(ringtail->conn);
		ringtail->conn = NULL;
	}
	return err;
}

int reach_connect(const char *address, const char *host, struct ringtail **made, struct ringtail_error *error)
{
	struct ringtail *ringtail = create(false, NULL, error);
	int err;

	if (!ringtail)
		return -ENOMEM;
	err = address_parse(address, &ringtail->address, error);
	snprintf(ringtail->address.through, sizeof(ringtail->address.through), "%s", host);
	if (!err)
		err = greet(ringtail, error);
	if (err) {
		ringtail_close(ringtail);
		return err;
	}
	*made = ringtail;
	return 0;
}

int ringtail_connect(const char *address, struct ringtail **made, struct ringtail_error *error)
{
	return reach_connect(address, "", made, error);
}

int ringtail_open(int fd, const char *name, bool count_only, struct ringtail **made,
		  struct ringtail_error *error)
{
	struct ringtail *ringtail = create(count_only, NULL, error);
	int err;

	if (!ringtail) {
		close(fd);
		return -ENOMEM;
	}
	ringtail->is_file = true;
	err = conn_open_fd(fd, name, &ringtail->conn, error);
	if (err) {
		ringtail_close(ringtail);
		return err;
	}
	*made = ringtail;
	return 0;
}

int fed_create(const char *name, struct intake_desk *desk, struct ringtail **made, struct ringtail_error *error)
{
	struct ringtail *ringtail = create(false, desk, error);

	if (!ringtail)
		return -ENOMEM;
	ringtail->is_file = true;
	ringtail->fed = name;
	*made = ringtail;
	return 0;
}

int ringtail_ask(struct ringtail *ringtail, const struct ringtail_question *question,
		 struct ringtail_error *error)
{
	if (ringtail->is_file || ringtail->subscription)
		return failure_set(error, EINVAL, "no-question", "%s takes no question",
				   ringtail->is_file ? "a file" : "a subscribed connection");
	if (!ringtail_host(ringtail)->has_counts) {
		failure_set(error, EOPNOTSUPP, "no-counts", "the daemon (%.64s) is too old to count",
			    ringtail_host(ringtail)->software);
		failure_hint(error, "subscribe without a question, or upgrade ringtaild there");
		return -EOPNOTSUPP;
	}
	ringtail->question = question;
	return 0;
}

int ringtail_subscribe(struct ringtail *ringtail, const struct ringtail_subscription *wanted,
		       struct ringtail_error *error)
{
	int err;

	if (ringtail->is_file || ringtail->subscription)
		return failure_set(error, EINVAL, "no-subscription", "%s takes no subscription",
				   ringtail->is_file ? "a file" : "a subscribed connection");
	if (wanted && wanted->flags & RINGTAIL_CONTEXT && !ringtail_host(ringtail)->has_context) {
		failure_set(error, EOPNOTSUPP, "no-context", "the daemon (%.64s) is too old to send the "
			    "executable file and the cgroup of threads",
			    ringtail_host(ringtail)->software);
		failure_hint(error, "leave context out of the flags, or upgrade ringtaild there");
		return -EOPNOTSUPP;
	}
	if (wanted && wanted->flags & (RINGTAIL_FDS | RINGTAIL_DATA) && !ringtail_host(ringtail)->has_fds) {
		failure_set(error, EOPNOTSUPP, "no-fds", "the daemon (%.64s) is too old to send what file "
			    "descriptors stand for, and buffers", ringtail_host(ringtail)->software);
		failure_hint(error, "leave fds and data out of the flags, or upgrade ringtaild there");
		return -EOPNOTSUPP;
	}
	err = subscription_create(wanted, &ringtail->subscription, error);
	if (!err && ringtail->question)
		err = subscription_ask(ringtail->subscription, ringtail->question, error);
	ringtail->question = NULL;
	if (err)
		return err;
	intake_set_count_only(ringtail->intake, wanted && wanted->count_only);
	intake_set_since(ringtail->intake, subscription_since(ringtail->subscription));
	if (wanted && wanted->since_realtime_ns)
		intake_set_since_time(ringtail->intake, wanted->since_realtime_ns);
	err = subscription_send(ringtail->subscription, ringtail->conn, NULL, ringtail->waits, error);
	if (!err)
		err = await(ringtail, INTAKE_SUBSCRIBED, "answer to the subscription", error);
	ringtail->waits = NULL;
	return err;
}

void ringtail_set_waits(struct ringtail *ringtail, int timeout_ms,
			void (*waits)(void *context, const struct ringtail_error *error), void *context)
{
	ringtail->waits = waits;
	ringtail->waits_context = context;
	ringtail->waits_ms = timeout_ms;
}

/* ---- The stream ----------------------------------------------------------------------------- */

static const char *name_of(const struct ringtail *ringtail)
{
	return ringtail->fed ? ringtail->fed : conn_name(ringtail->conn);
}

/* A file's error says where in it: and in which. */
static void name_file(struct ringtail *ringtail)
{
	struct ringtail_error *error = &ringtail->error;
	const char *name = name_of(ringtail);
	char what[sizeof(error->what)];

	if (strstr(error->what, name))
		return;
	memcpy(what, error->what, sizeof(what));
	snprintf(error->what, sizeof(error->what), "%.200s: %.300s", name, what);
	visible_replace(error->what);
}

/* No more frames: what waits is given out, and then `last` for ever. */
static void end_with(struct ringtail *ringtail, enum ringtail_kind last)
{
	const struct ringtail_error *refusal = selection_refusal(ringtail->selection);

	if (last == RINGTAIL_END && refusal) {
		ringtail->error = *refusal;
		last = RINGTAIL_ERROR;
	} else if (last == RINGTAIL_ERROR && ringtail->is_file) {
		name_file(ringtail);
	}
	ringtail->last = last;
	ringtail->state = DRAINING;
	intake_flush(ringtail->intake);
}

/* Whole frames, and then nothing: whether that was all there was, its last frame tells. */
static void end_file(struct ringtail *ringtail)
{
	struct ringtail_error *error = &ringtail->error;

	if (!intake_is_whole(ringtail->intake)) {
		failure_set(error, EBADMSG, "cut-short",
			    "%.200s has no end: it was cut short after byte %llu, or is still being "
			    "written", name_of(ringtail), (unsigned long long)
			    (ringtail->fed ? ringtail->fed_upto : conn_offset(ringtail->conn)));
		failure_hint(error, "what is before that byte was read; what may have been behind it is "
			     "not known. If it is being written, read it again later");
		intake_set_cut_short(ringtail->intake);
	}
	end_with(ringtail, RINGTAIL_END);
}

/* How long poll(2) and conn_wait() may wait; -1: for ever. */
static int left_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = conn_now_ns();

	if (deadline_ns == UINT64_MAX)
		return -1;
	return deadline_ns > now_ns ? (int)((deadline_ns - now_ns + 999999) / 1000000) : 0;
}

/* ---- Where a connection broke: it waits, tries again, and goes on at its cursor -------------- */

static void schedule_retry(struct ringtail *ringtail)
{
	ringtail->retry_ns = conn_now_ns() + backoff_next_ms(&ringtail->backoff) * 1000000ull;
}

/* It is closed, and tried again from now on. */
static void lose_connection(struct ringtail *ringtail)
{
	conn_close(ringtail->conn);
	ringtail->conn = NULL;
	ringtail->state = WAITING;
	ringtail->lost_told = false;
	ringtail->give_up_ns = conn_now_ns() + RECONNECT_SECONDS_MAX * 1000000000ull;
	ringtail->probes_until_ns = 0;
	/* Now: a daemon that greets and does not take the subscription may be another run, of which nothing has come. */
	intake_cursor_come(ringtail->intake, ringtail->resume);
	backoff_reset(&ringtail->backoff);
	schedule_retry(ringtail);
	/* Nobody knows when the next watermark comes: what is here goes out now. */
	intake_flush(ringtail->intake);
}

/* One try. 0: connected and subscribed at the cursor. Else the try's error is in ->error. */
static int reconnect(struct ringtail *ringtail)
{
	int err;

	intake_restart(ringtail->intake);
	err = greet(ringtail, &ringtail->error);
	if (err)
		return err;
	err = subscription_send(ringtail->subscription, ringtail->conn, ringtail->resume,
				false, &ringtail->error);
	if (!err)
		err = await(ringtail, INTAKE_SUBSCRIBED, "answer to the subscription",
			    &ringtail->error);
	if (err) {
		conn_close(ringtail->conn);
		ringtail->conn = NULL;
	}
	return err;
}

/* What the daemon may say of a moment: it is being restarted or is full, or has not noticed yet that
 * this client's connection before is gone. */
static bool is_of_the_moment(const char *code)
{
	static const char *const codes[] = {
		"shutting-down", "too-many-clients", "too-many-of-identity", "too-many-pending",
		"descriptors-exhausted", "no-room", "consumer-in-use",
		/* Of a relay: the host is back soon, also at a relay that was restarted and stores nothing; or its
		 * connection before has not ended yet. */
		"host-unknown", "host-away", "host-silent", "host-busy", "too-many-reached", "too-many-dials",
		"too-many-changes",
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (strcmp(code, codes[i]) == 0)
			return true;
	return false;
}

/* What the daemon before knew: a probe or a field of a program, which has not found this daemon yet. */
static bool is_not_there_yet(const struct ringtail *ringtail, uint64_t now_ns)
{
	const char *code = ringtail->error.code;

	return now_ns < ringtail->probes_until_ns &&
	       (strcmp(code, "unknown-probe") == 0 || strcmp(code, "filter-unknown-name") == 0);
}

/* What will not be better next time: an answer that was understood, and is no. */
static bool is_permanent(const struct ringtail *ringtail, int err, uint64_t now_ns)
{
	return (err == -EPROTO && !is_of_the_moment(ringtail->error.code) && !is_not_there_yet(ringtail, now_ns)) ||
	       err == -EBADMSG || err == -EINVAL || err == -ENOMEM;
}

/* Waits for the next try and makes it; any kind but RINGTAIL_EVENT is to be given out. */
static enum ringtail_kind wait_and_retry(struct ringtail *ringtail, uint64_t deadline_ns)
{
	uint64_t now_ns = conn_now_ns();
	uint64_t until_ns = ringtail->retry_ns < deadline_ns ? ringtail->retry_ns : deadline_ns;
	struct pollfd polled = { .fd = ringtail->interrupt_fd, .events = POLLIN };
	int err;

	if (until_ns > now_ns && poll(&polled, 1, left_ms(until_ns)) > 0)
		return RINGTAIL_INTERRUPTED;
	now_ns = conn_now_ns();
	if (now_ns < ringtail->retry_ns)
		return now_ns < deadline_ns ? RINGTAIL_EVENT : RINGTAIL_TIMEOUT;
	err = reconnect(ringtail);
	/* From its first answer on. */
	if (err == -EPROTO && !ringtail->probes_until_ns)
		ringtail->probes_until_ns = now_ns + RECONNECT_PROBE_SECONDS * 1000000000ull;
	if (!err) {
		ringtail->state = CONNECTED;
		return RINGTAIL_RECONNECTED;
	}
	if (err == -EINTR)
		return RINGTAIL_INTERRUPTED;
	if (is_permanent(ringtail, err, now_ns) || now_ns > ringtail->give_up_ns) {
		end_with(ringtail, RINGTAIL_ERROR);
		return RINGTAIL_EVENT;
	}
	schedule_retry(ringtail);
	return RINGTAIL_EVENT;
}

/* The daemon said goodbye: for good, or as one that is being restarted. */
static void take_leave(struct ringtail *ringtail, bool retries)
{
	if (!retries || intake_bye_is_final(ringtail->intake)) {
		end_with(ringtail, RINGTAIL_END);
		return;
	}
	failure_set(&ringtail->error, ECONNRESET, "daemon-left", "the daemon left: %s",
		    intake_bye(ringtail->intake));
	lose_connection(ringtail);
}

/* ---- Frames --------------------------------------------------------------------------------- */

/* Takes one frame, or notices that there will be none. False: give out `kind`. */
static bool receive(struct ringtail *ringtail, uint64_t deadline_ns, enum ringtail_kind *kind)
{
	bool retries = ringtail->subscription &&
		       subscription_wanted(ringtail->subscription)->reconnect;
	struct frame frame;
	int err;

	if (ringtail->fed) {
		*kind = RINGTAIL_TIMEOUT;
		return false;
	}
	switch (conn_wait(ringtail->conn, left_ms(deadline_ns), &frame,
			  &ringtail->error)) {
	case CONN_FRAME:
		err = take_frame(ringtail, &frame, &ringtail->error);
		if (err)
			end_with(ringtail, RINGTAIL_ERROR);
		else if (intake_reached(ringtail->intake, INTAKE_ENDED) && !ringtail->is_file)
			take_leave(ringtail, retries);
		return true;
	case CONN_TIMEOUT:
		*kind = RINGTAIL_TIMEOUT;
		return false;
	case CONN_INTERRUPTED:
		*kind = RINGTAIL_INTERRUPTED;
		return false;
	case CONN_END:
		if (ringtail->is_file)
			end_file(ringtail);
		else if (retries)
			lose_connection(ringtail);
		else
			end_with(ringtail, RINGTAIL_ERROR);
		return true;
	case CONN_LOST:
		if (retries)
			lose_connection(ringtail);
		else
			end_with(ringtail, RINGTAIL_ERROR);
		return true;
	case CONN_BAD:
		break;
	}
	end_with(ringtail, RINGTAIL_ERROR);
	return true;
}

void fed_take(struct ringtail *ringtail, const struct frame *frame)
{
	ringtail->fed_upto = frame->offset + frame->size;
	if (ringtail->state == CONNECTED && take_frame(ringtail, frame, &ringtail->error))
		end_with(ringtail, RINGTAIL_ERROR);
}

void fed_end(struct ringtail *ringtail)
{
	if (ringtail->state == CONNECTED)
		end_file(ringtail);
}

bool fed_lacks_selection(const struct ringtail *ringtail)
{
	return ringtail->last == RINGTAIL_ERROR && selection_refusal(ringtail->selection);
}

/* Leaving: takes one more of the frames that had come by then. A frame that came in part is left. */
static void receive_arrived(struct ringtail *ringtail)
{
	struct frame frame;

	if (conn_offset(ringtail->conn) < ringtail->arrived_end) {
		switch (conn_wait(ringtail->conn, 0, &frame, &ringtail->error)) {
		case CONN_FRAME:
			if (take_frame(ringtail, &frame, &ringtail->error))
				end_with(ringtail, RINGTAIL_ERROR);
			return;
		case CONN_BAD:
			end_with(ringtail, RINGTAIL_ERROR);
			return;
		case CONN_TIMEOUT:
		case CONN_INTERRUPTED:
		case CONN_END:
		case CONN_LOST:
			break;
		}
	}
	end_with(ringtail, RINGTAIL_END);
}

static enum ringtail_kind give(struct ringtail_item *item, enum ringtail_kind kind,
			       const char *text)
{
	*item = (struct ringtail_item){ .kind = kind, .text = text };
	return kind;
}

enum ringtail_kind ringtail_next(struct ringtail *ringtail, struct ringtail_item *item,
				 int timeout_ms)
{
	uint64_t deadline_ns = 0;
	enum ringtail_kind kind;

	for (;;) {
		kind = intake_next(ringtail->intake, item, &ringtail->error);
		if (kind == RINGTAIL_ERROR) {
			end_with(ringtail, RINGTAIL_ERROR);
			continue;
		}
		if (kind != RINGTAIL_TIMEOUT)
			return kind;
		if (!deadline_ns)	/* the clock is read only when there is nothing at hand */
			deadline_ns = timeout_ms < 0 ? UINT64_MAX :
				      conn_now_ns() + (uint64_t)timeout_ms * 1000000u;
		switch (ringtail->state) {
		case CONNECTED:
			if (!receive(ringtail, deadline_ns, &kind))
				return give(item, kind, NULL);
			break;
		case LEAVING:
			receive_arrived(ringtail);
			break;
		case WAITING:
			if (!ringtail->lost_told) {
				ringtail->lost_told = true;
				return give(item, RINGTAIL_DISCONNECTED, ringtail->error.what);
			}
			kind = wait_and_retry(ringtail, deadline_ns);
			if (kind != RINGTAIL_EVENT)
				return give(item, kind, ringtail->address.text);
			break;
		case DRAINING:
			ringtail->state = OVER;
			break;
		case OVER:
			return give(item, ringtail->last, ringtail->last == RINGTAIL_END ?
				    intake_bye(ringtail->intake) : ringtail->error.what);
		}
	}
}

void ringtail_flush(struct ringtail *ringtail)
{
	if (ringtail->state == CONNECTED && !ringtail->is_file) {
		ringtail->state = LEAVING;
		ringtail->arrived_end = conn_arrived_end(ringtail->conn);
		conn_set_interrupt(ringtail->conn, -1);
	} else if (ringtail->state != LEAVING && ringtail->state != OVER) {
		end_with(ringtail, RINGTAIL_END);
	}
}

/* ---- What it knows -------------------------------------------------------------------------- */

const struct ringtail_error *ringtail_last_error(const struct ringtail *ringtail)
{
	return &ringtail->error;
}

const struct ringtail_host *ringtail_host(const struct ringtail *ringtail)
{
	return intake_host(ringtail->intake);
}

const struct ringtail_totals *ringtail_totals(const struct ringtail *ringtail)
{
	return intake_totals(ringtail->intake);
}

void ringtail_set_span(struct ringtail *ringtail, uint64_t since_ns, uint64_t until_ns)
{
	intake_set_since_time(ringtail->intake, since_ns);
	intake_set_until_time(ringtail->intake, until_ns);
	if (ringtail->is_file && since_ns)
		intake_check_begin(ringtail->intake);
}

int ringtail_select(struct ringtail *ringtail, const char *const *probe, size_t probes,
		    const char *filter, struct ringtail_error *error)
{
	int err;

	if (!ringtail->is_file || ringtail->selection)
		return failure_set(error, EINVAL, "no-selection", "%s",
				   ringtail->is_file ? "this file already has a selection" :
				   "a connection chooses its events with a subscription");
	err = selection_create(probe, probes, filter, &ringtail->selection, error);
	if (!err)
		intake_set_selection(ringtail->intake, ringtail->selection);
	return err;
}

void ringtail_set_interrupt(struct ringtail *ringtail, int fd)
{
	ringtail->interrupt_fd = fd;
	if (ringtail->conn)
		conn_set_interrupt(ringtail->conn, fd);
}

int ringtail_cursor(const struct ringtail *ringtail, char *text, size_t text_bytes)
{
	struct cursor *cursor = cursor_create(CURSOR_POSITIONS_MAX);
	int err;

	if (!cursor)
		return -ENOMEM;
	intake_cursor_given(ringtail->intake, cursor);
	err = cursor_print(cursor, text, text_bytes);
	free(cursor);
	return err;
}

int ringtail_ack(struct ringtail *ringtail, struct ringtail_error *error)
{
	if (!ringtail->conn || !ringtail->subscription)
		return 0;
	intake_cursor_given(ringtail->intake, ringtail->cursor);
	return subscription_ack(ringtail->subscription, ringtail->conn, ringtail->cursor, error);
}

void forward_set(struct ringtail *ringtail, forward_frame *forward, void *context)
{
	static const struct forward_span none;
	struct frame hello = { .bytes = ringtail->hello, .size = ringtail->hello_bytes };

	ringtail->forward = forward;
	ringtail->forward_context = context;
	if (forward && hello.size && frame_parse_header(hello.bytes, hello.size, FRAME_RAW_BYTES_MAX,
							&hello.header) == FRAME_OK)
		forward(context, &hello, &none);
}

int forward_acknowledge(struct ringtail *ringtail, const char *place, struct ringtail_error *error)
{
	struct cursor *upto;
	int err;

	if (!ringtail->conn || !ringtail->subscription)
		return 0;
	err = cursor_parse(place, &upto, error);
	if (!err)
		err = subscription_ack(ringtail->subscription, ringtail->conn, upto, error);
	free(upto);
	return err;
}

_Static_assert(sizeof(struct ringtail_bucket) == sizeof(struct count_bucket) &&
	       offsetof(struct ringtail_bucket, values) == offsetof(struct count_bucket, values),
	       "buckets are given as they are");

bool ringtail_counts(const struct ringtail_item *event, struct ringtail_counts *counts)
{
	const struct batch_counts *from = event->source ? batch_decode_counts(event->source) : NULL;

	if (!from)
		return false;
	*counts = (struct ringtail_counts){
		.events = from->events, .errors = from->errors, .values = from->values,
		.least = from->least, .greatest = from->greatest, .sum = from->sum, .sum_high = from->sum_high,
		.buckets = from->buckets, .bucket = (const struct ringtail_bucket *)from->bucket,
	};
	return true;
}

uint64_t ringtail_value(const struct ringtail_field *field, uint64_t word)
{
	unsigned shift = 64 - field->bits;

	switch (field->type) {
	case RINGTAIL_FD:	/* often declared wider, but the kernel looks at the lower half */
		return (uint64_t)(int32_t)word;
	case RINGTAIL_SIGNED:
		return (uint64_t)((int64_t)(word << shift) >> shift);
	case RINGTAIL_UNSIGNED:
	case RINGTAIL_HEX:
	case RINGTAIL_THREAD:
		return word << shift >> shift;
	default:
		return word;
	}
}

/* The value of another field of the event, by its name. */
static bool other_is(const struct ringtail_item *event, const char *name, uint32_t value)
{
	for (unsigned i = 0; i < event->probe->fields; i++)
		if (!strcmp(event->probe->field[i].name, name))
			return (uint32_t)event->value[i] == value;
	return false;
}

size_t ringtail_value_name(const struct ringtail_item *event, unsigned field, char *text,
			   size_t text_bytes)
{
	const struct ringtail_field *of = &event->probe->field[field];
	const struct constant_rule *rule = of->names;
	char name[CONSTANT_TEXT_BYTES];
	const char *other;
	uint32_t value;
	size_t bytes;

	while (rule && (other = constant_rule_other(rule, &value)) && !other_is(event, other, value))
		rule = constant_rule_next(rule);
	if (!rule)
		return 0;
	bytes = constant_print(rule, ringtail_value(of, event->value[field]), name);
	if (!bytes || bytes >= text_bytes)
		return 0;
	memcpy(text, name, bytes + 1);
	return bytes;
}

/* The values are little-endian words, one after the other: those of the machines that this runs on. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "an array lies in its values as it is");

static const uint8_t *attached_bytes(const struct ringtail_item *event, unsigned field, size_t *bytes)
{
	for (size_t i = 0; i < event->attachments; i++)
		if (event->attachment[i].kind == RINGTAIL_ATTACHED_STRING &&
		    event->attachment[i].field == field) {
			*bytes = event->attachment[i].text_bytes;
			return event->attachment[i].text;
		}
	return NULL;
}

const uint8_t *ringtail_bytes(const struct ringtail_item *event, unsigned field, size_t *bytes,
			      size_t *whole)
{
	const struct ringtail_field *of = &event->probe->field[field];
	const uint8_t *at = (const uint8_t *)&event->value[field];

	*bytes = of->bytes;
	if (!of->bytes)
		at = attached_bytes(event, field, bytes);
	if (whole)
		*whole = of->bytes ? of->bytes : event->value[field];
	if (at && of->type == RINGTAIL_TEXT)
		*bytes = strnlen((const char *)at, *bytes);
	return at;
}

const char *ringtail_thread_comm(const struct ringtail_item *event, uint32_t tid)
{
	const struct batch_thread *thread;

	if (tid == event->thread.tid)
		return event->thread.comm;
	thread = event->source ? batch_decode_thread(event->source, tid) : NULL;
	return thread ? thread->comm : NULL;
}

uint32_t ringtail_thread_pid(const struct ringtail_item *event, uint32_t tid)
{
	const struct batch_thread *thread;

	if (tid == event->thread.tid)
		return event->thread.pid;
	thread = event->source ? batch_decode_thread(event->source, tid) : NULL;
	return thread ? thread->pid : 0;
}

const char *ringtail_stage_name(unsigned stage)
{
	static const char *const name[] = { "ring", "decode", "queue", "history", "spool",
					    "export" };

	return stage < sizeof(name) / sizeof(*name) ? name[stage] : "unknown";
}

const char *ringtail_reason_name(unsigned reason)
{
	return loss_text(reason)->name;
}

const char *ringtail_reason_remedy(unsigned reason)
{
	return loss_text(reason)->remedy;
}

/* ---- A recording of what comes: its hello, each frame, and its end ---------------------------- */

void ringtail_set_tap(struct ringtail *ringtail,
		      void (*tap)(void *context, const uint8_t *frame, size_t bytes), void *context)
{
	ringtail->tap = tap;
	ringtail->tap_context = context;
	/* A recording begins with the hello, which came before anyone could tap. */
	if (tap && ringtail->hello_bytes)
		tap(context, ringtail->hello, ringtail->hello_bytes);
}

static int give_bye(struct ringtail *ringtail, const Ringtail__V1__Bye *bye,
		    struct ringtail_error *error)
{
	size_t raw_bytes = ringtail__v1__bye__get_packed_size(bye), bytes;
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t *raw = malloc(raw_bytes), *frame = malloc(frame_bound((uint32_t)raw_bytes));
	int err = 0;

	if (codec && raw && frame) {
		ringtail__v1__bye__pack(bye, raw);
		bytes = frame_seal(codec, FRAME_BYE, raw, (uint32_t)raw_bytes, frame);
		ringtail->tap(ringtail->tap_context, frame, bytes);
	} else {
		err = failure_set(error, ENOMEM, "no-memory", "out of memory for the recording's end");
	}
	frame_codec_destroy(codec);
	free(raw);
	free(frame);
	return err;
}

int ringtail_end_tap(struct ringtail *ringtail, const char *reason, struct ringtail_error *error)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	struct cursor_message *end;
	int err;

	if (!ringtail->tap)
		return 0;
	intake_cursor_come(ringtail->intake, ringtail->cursor);
	end = cursor_message_create(ringtail->cursor);
	if (!end)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	bye.reason = (char *)reason;
	bye.end = &end->cursor;
	bye.final = true;
	err = give_bye(ringtail, &bye, error);
	free(end);
	ringtail->tap = NULL;
	return err;
}
