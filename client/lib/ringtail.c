/*
 * ringtail: the client library: conn brings frames, intake makes items of them; this drives both.
 * ringtail_reconnect.c: how it goes on where a connection broke.
 */
#include "client/lib/ringtail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/ringtail_private.h"
#include "proto/losses.h"
#include "proto/batch_decode.h"
#include "proto/ringtail.pb-c.h"
#include "query/constant.h"
#include "query/visible.h"

static struct ringtail *create(bool count_only, struct ringtail_error *error)
{
	struct ringtail *ringtail = calloc(1, sizeof(*ringtail));

	if (ringtail) {
		ringtail->interrupt_fd = -1;
		ringtail->intake = intake_create(count_only);
		backoff_init(&ringtail->backoff, conn_now_ns() ^ (uint64_t)getpid() << 32);
	}
	if (!ringtail || !ringtail->intake) {
		free(ringtail);
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
	free(ringtail);
}

static int take_frame(struct ringtail *ringtail, const struct frame *frame,
		      struct ringtail_error *error)
{
	if (ringtail->tap)
		ringtail->tap(ringtail->tap_context, frame->bytes, frame->size);
	return intake_frame(ringtail->intake, frame, error);
}

int ringtail_await(struct ringtail *ringtail, enum intake_phase phase, const char *what,
		   struct ringtail_error *error)
{
	for (unsigned i = 0; i < REPLY_FRAMES_MAX; i++) {
		struct frame frame;
		int err;

		switch (conn_wait(ringtail->conn, REPLY_TIMEOUT_MS, &frame, error)) {
		case CONN_FRAME:
			break;
		case CONN_TIMEOUT:
			err = failure_set(error, ETIMEDOUT, "timeout", "%s sent no %s within %d s",
					  conn_name(ringtail->conn), what, REPLY_TIMEOUT_MS / 1000);
			failure_hint(error, "is it a ringtaild? Is it overloaded?");
			return err;
		case CONN_INTERRUPTED:
			return failure_set(error, EINTR, "interrupted", "interrupted");
		case CONN_BAD:
			return -EBADMSG;
		default:
			return -ECONNRESET;
		}
		err = take_frame(ringtail, &frame, error);
		if (err)
			return err;
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

int ringtail_greet(struct ringtail *ringtail, struct ringtail_error *error)
{
	int err = conn_open(&ringtail->address, ringtail->interrupt_fd, &ringtail->conn, error);

	if (err)
		return err;
	err = conn_send_hello(ringtail->conn, error);
	if (!err)
		err = ringtail_await(ringtail, INTAKE_GREETED, "hello", error);
	if (err) {
		conn_close(ringtail->conn);
		ringtail->conn = NULL;
	}
	return err;
}

int ringtail_connect(const char *address, struct ringtail **made, struct ringtail_error *error)
{
	struct ringtail *ringtail = create(false, error);
	int err;

	if (!ringtail)
		return -ENOMEM;
	err = address_parse(address, &ringtail->address, error);
	if (!err)
		err = ringtail_greet(ringtail, error);
	if (err) {
		ringtail_close(ringtail);
		return err;
	}
	*made = ringtail;
	return 0;
}

int ringtail_open(int fd, const char *name, bool count_only, struct ringtail **made,
		  struct ringtail_error *error)
{
	struct ringtail *ringtail = create(count_only, error);
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

int ringtail_subscribe(struct ringtail *ringtail, const struct ringtail_subscription *wanted,
		       struct ringtail_error *error)
{
	int err;

	if (ringtail->is_file || ringtail->subscription)
		return failure_set(error, EINVAL, "no-subscription", "%s takes no subscription",
				   ringtail->is_file ? "a file" : "a subscribed connection");
	err = subscription_create(wanted, &ringtail->subscription, error);
	if (err)
		return err;
	intake_set_count_only(ringtail->intake, wanted && wanted->count_only);
	intake_set_since(ringtail->intake, subscription_since(ringtail->subscription));
	if (wanted && wanted->since_realtime_ns)
		intake_set_since_time(ringtail->intake, wanted->since_realtime_ns);
	err = subscription_send(ringtail->subscription, ringtail->conn, NULL, error);
	return err ? err : ringtail_await(ringtail, INTAKE_SUBSCRIBED,
					  "answer to the subscription", error);
}

/* ---- The stream ----------------------------------------------------------------------------- */

/* A file's error says where in it: and in which. */
static void name_file(struct ringtail *ringtail)
{
	struct ringtail_error *error = &ringtail->error;
	const char *name = conn_name(ringtail->conn);
	char what[sizeof(error->what)];

	if (strstr(error->what, name))
		return;
	memcpy(what, error->what, sizeof(what));
	snprintf(error->what, sizeof(error->what), "%.200s: %.300s", name, what);
	visible_replace(error->what);
}

void ringtail_end_with(struct ringtail *ringtail, enum ringtail_kind last)
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
			    "written", conn_name(ringtail->conn),
			    (unsigned long long)conn_offset(ringtail->conn));
		failure_hint(error, "what is before that byte was read; what may have been behind it is "
			     "not known. If it is being written, read it again later");
		intake_set_cut_short(ringtail->intake);
	}
	ringtail_end_with(ringtail, RINGTAIL_END);
}

int ringtail_left_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = conn_now_ns();

	if (deadline_ns == UINT64_MAX)
		return -1;
	return deadline_ns > now_ns ? (int)((deadline_ns - now_ns + 999999) / 1000000) : 0;
}

/* Takes one frame, or notices that there will be none. False: give out `kind`. */
static bool receive(struct ringtail *ringtail, uint64_t deadline_ns, enum ringtail_kind *kind)
{
	bool retries = ringtail->subscription &&
		       subscription_wanted(ringtail->subscription)->reconnect;
	struct frame frame;
	int err;

	switch (conn_wait(ringtail->conn, ringtail_left_ms(deadline_ns), &frame,
			  &ringtail->error)) {
	case CONN_FRAME:
		err = take_frame(ringtail, &frame, &ringtail->error);
		if (err)
			ringtail_end_with(ringtail, RINGTAIL_ERROR);
		else if (intake_reached(ringtail->intake, INTAKE_ENDED) && !ringtail->is_file)
			ringtail_take_leave(ringtail, retries);
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
			ringtail_lose_connection(ringtail);
		else
			ringtail_end_with(ringtail, RINGTAIL_ERROR);
		return true;
	case CONN_LOST:
		if (retries)
			ringtail_lose_connection(ringtail);
		else
			ringtail_end_with(ringtail, RINGTAIL_ERROR);
		return true;
	case CONN_BAD:
		break;
	}
	ringtail_end_with(ringtail, RINGTAIL_ERROR);
	return true;
}

/* Leaving: takes one more of the frames that had come by then. A frame that came in part is left. */
static void receive_arrived(struct ringtail *ringtail)
{
	struct frame frame;

	if (conn_offset(ringtail->conn) < ringtail->arrived_end) {
		switch (conn_wait(ringtail->conn, 0, &frame, &ringtail->error)) {
		case CONN_FRAME:
			if (take_frame(ringtail, &frame, &ringtail->error))
				ringtail_end_with(ringtail, RINGTAIL_ERROR);
			return;
		case CONN_BAD:
			ringtail_end_with(ringtail, RINGTAIL_ERROR);
			return;
		case CONN_TIMEOUT:
		case CONN_INTERRUPTED:
		case CONN_END:
		case CONN_LOST:
			break;
		}
	}
	ringtail_end_with(ringtail, RINGTAIL_END);
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
			ringtail_end_with(ringtail, RINGTAIL_ERROR);
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
			kind = ringtail_wait_and_retry(ringtail, deadline_ns);
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
		ringtail_end_with(ringtail, RINGTAIL_END);
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
				   ringtail->is_file ? "what is wanted of this file was said before" :
				   "a connection is asked by its subscription");
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
	struct cursor *cursor = malloc(sizeof(*cursor));
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
	intake_cursor_given(ringtail->intake, &ringtail->cursor);
	return subscription_ack(ringtail->subscription, ringtail->conn, &ringtail->cursor, error);
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

const char *ringtail_thread_comm(const struct ringtail_item *event, uint32_t tid)
{
	const struct batch_thread *thread;

	if (tid == event->thread.tid)
		return event->thread.comm;
	thread = event->source ? batch_decode_thread(event->source, tid) : NULL;
	return thread ? thread->comm : NULL;
}

const char *ringtail_stage_name(unsigned stage)
{
	static const char *const name[] = { "ring", "decode", "queue", "history", "spool",
					    "export" };

	return stage < sizeof(name) / sizeof(*name) ? name[stage] : "unknown";
}

const char *ringtail_reason_name(unsigned reason)
{
	return loss_reason(reason)->name;
}

const char *ringtail_reason_remedy(unsigned reason)
{
	return loss_reason(reason)->remedy;
}
