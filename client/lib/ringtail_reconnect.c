/*
 * ringtail_reconnect: what a handle does after its connection broke, or its daemon left: it waits,
 * tries again, and goes on at its cursor. On the thread that called ringtail_next(). See ringtail.h.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/ringtail_private.h"

static void schedule_retry(struct ringtail *ringtail)
{
	ringtail->retry_ns = conn_now_ns() + backoff_next_ms(&ringtail->backoff) * 1000000ull;
}

void ringtail_lose_connection(struct ringtail *ringtail)
{
	conn_close(ringtail->conn);
	ringtail->conn = NULL;
	ringtail->state = WAITING;
	ringtail->lost_told = false;
	ringtail->give_up_ns = conn_now_ns() + RECONNECT_SECONDS_MAX * 1000000000ull;
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
	intake_cursor_come(ringtail->intake, &ringtail->cursor);
	err = ringtail_greet(ringtail, &ringtail->error);
	if (err)
		return err;
	err = subscription_send(ringtail->subscription, ringtail->conn, &ringtail->cursor,
				&ringtail->error);
	if (!err)
		err = ringtail_await(ringtail, INTAKE_SUBSCRIBED, "answer to the subscription",
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
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (strcmp(code, codes[i]) == 0)
			return true;
	return false;
}

/* What will not be better next time: an answer that was understood, and is no. */
static bool is_permanent(int err, const struct ringtail_error *error)
{
	return (err == -EPROTO && !is_of_the_moment(error->code)) || err == -EBADMSG ||
	       err == -EINVAL || err == -ENOMEM;
}

enum ringtail_kind ringtail_wait_and_retry(struct ringtail *ringtail, uint64_t deadline_ns)
{
	uint64_t now_ns = conn_now_ns();
	uint64_t until_ns = ringtail->retry_ns < deadline_ns ? ringtail->retry_ns : deadline_ns;
	struct pollfd polled = { .fd = ringtail->interrupt_fd, .events = POLLIN };
	int err;

	if (until_ns > now_ns && poll(&polled, 1, ringtail_left_ms(until_ns)) > 0)
		return RINGTAIL_INTERRUPTED;
	now_ns = conn_now_ns();
	if (now_ns < ringtail->retry_ns)
		return now_ns < deadline_ns ? RINGTAIL_EVENT : RINGTAIL_TIMEOUT;
	err = reconnect(ringtail);
	if (!err) {
		ringtail->state = CONNECTED;
		return RINGTAIL_RECONNECTED;
	}
	if (err == -EINTR)
		return RINGTAIL_INTERRUPTED;
	if (is_permanent(err, &ringtail->error) || now_ns > ringtail->give_up_ns) {
		ringtail_end_with(ringtail, RINGTAIL_ERROR);
		return RINGTAIL_EVENT;
	}
	schedule_retry(ringtail);
	return RINGTAIL_EVENT;
}

void ringtail_take_leave(struct ringtail *ringtail, bool retries)
{
	if (!retries || intake_bye_is_final(ringtail->intake)) {
		ringtail_end_with(ringtail, RINGTAIL_END);
		return;
	}
	failure_set(&ringtail->error, ECONNRESET, "daemon-left", "the daemon left: %s",
		    intake_bye(ringtail->intake));
	ringtail_lose_connection(ringtail);
}
