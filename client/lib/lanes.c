#include "client/lib/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "client/lib/fed.h"
#include "client/lib/intake.h"
#include "client/lib/limits.h"
#include "client/lib/selection.h"
#include "client/lib/unpack.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/visible.h"

struct lane {
	struct ringtail *ringtail;
	char host[NAME_BYTES_MAX];
};

struct lanes {
	struct conn *conn;
	struct lanes_wanted wanted;
	struct intake_desk *desk;		/* of all of them */
	struct lane **lane;			/* by number */
	size_t count, current;
};

static int no_memory(struct ringtail_error *error)
{
	return failure_set(error, ENOMEM, "no-memory", "out of memory");
}

/* What is wrong with the texts is told before the first host comes. */
static int check(const struct lanes_wanted *wanted, struct ringtail_error *error)
{
	struct selection *selection;
	int err = selection_create(wanted->probe, wanted->probes, wanted->filter, &selection, error);

	if (!err)
		selection_destroy(selection);
	return err;
}

int lanes_open(int fd, const char *name, const struct lanes_wanted *wanted, struct lanes **made,
	       struct ringtail_error *error)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));
	int err;

	if (!lanes) {
		close(fd);
		return no_memory(error);
	}
	lanes->wanted = *wanted;
	err = conn_open_fd(fd, name, &lanes->conn, error);
	lanes->desk = intake_desk_create();
	if (!err)
		err = lanes->desk ? check(wanted, error) : no_memory(error);
	if (err)
		lanes_close(lanes);
	else
		*made = lanes;
	return err;
}

void lanes_close(struct lanes *lanes)
{
	if (!lanes)
		return;
	for (size_t i = 0; i < lanes->count; i++) {
		ringtail_close(lanes->lane[i]->ringtail);
		free(lanes->lane[i]);
	}
	free(lanes->lane);
	intake_desk_destroy(lanes->desk);
	conn_close(lanes->conn);
	free(lanes);
}

void lanes_set_interrupt(struct lanes *lanes, int fd)
{
	conn_set_interrupt(lanes->conn, fd);
}

size_t lanes_count(const struct lanes *lanes)
{
	return lanes->count;
}

struct ringtail *lanes_handle(const struct lanes *lanes, size_t lane)
{
	return lanes->lane[lane]->ringtail;
}

const char *lanes_host(const struct lanes *lanes, size_t lane)
{
	return lanes->lane[lane]->host;
}

/* ---- Which host's -------------------------------------------------------------------------------- */

static int bad_consign(const struct lanes *lanes, const struct frame *frame, const char *why,
		       struct ringtail_error *error)
{
	return failure_set(error, EBADMSG, "bad-message", "%.200s: consign frame at byte %llu: %s", conn_name(lanes->conn),
			   (unsigned long long)frame->offset, why);
}

/* A handle that waits for its first frame. */
static int prepare(struct lanes *lanes, struct lane *lane, struct ringtail_error *error)
{
	const struct lanes_wanted *wanted = &lanes->wanted;
	int err = fed_create(lane->host, lanes->desk, &lane->ringtail, error);

	if (err)
		return err;
	ringtail_set_span(lane->ringtail, wanted->since_ns, wanted->until_ns);
	if (wanted->probes || wanted->filter)
		err = ringtail_select(lane->ringtail, wanted->probe, wanted->probes, wanted->filter, error);
	if (err)
		ringtail_close(lane->ringtail);
	return err;
}

static int add(struct lanes *lanes, const char *host, struct ringtail_error *error)
{
	struct lane **larger = reallocarray(lanes->lane, lanes->count + 1, sizeof(*larger));
	struct lane *lane;
	int err;

	if (!larger)
		return no_memory(error);
	lanes->lane = larger;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return no_memory(error);
	snprintf(lane->host, sizeof(lane->host), "%s", host);
	err = prepare(lanes, lane, error);
	if (err)
		free(lane);
	else
		lanes->lane[lanes->count++] = lane;
	return err;
}

/* As it is, on a terminal and in JSON. */
static bool is_good(const char *host)
{
	return *host && strlen(host) < NAME_BYTES_MAX && visible_is_all(host) && !strpbrk(host, "\"\\");
}

static int turn_to(struct lanes *lanes, const struct frame *frame, const Ringtail__V1__Consign *consign,
		   struct ringtail_error *error)
{
	lanes->current = consign->lane;
	if (consign->lane < lanes->count)
		return *consign->host && strcmp(consign->host, lanes->lane[consign->lane]->host) != 0 ?
			       bad_consign(lanes, frame, "its lane is another host's", error) : 0;
	if (consign->lane != lanes->count || !is_good(consign->host))
		return bad_consign(lanes, frame, "its lane has no host that can be shown", error);
	if (lanes->count == FLEET_HOSTS_MAX)
		return failure_set(error, E2BIG, "too-many-hosts", "there are more than %u hosts", FLEET_HOSTS_MAX);
	return add(lanes, consign->host, error);
}

static int take_consign(struct lanes *lanes, const struct frame *frame, struct ringtail_error *error)
{
	const Ringtail__V1__Consign *consign;
	struct arena *arena;
	const uint8_t *body;
	int err;

	if (frame_open(lanes->desk->codec, frame->bytes, &frame->header, lanes->desk->raw, &body) != FRAME_OK)
		return bad_consign(lanes, frame, "it is damaged", error);
	consign = unpack(&ringtail__v1__consign__descriptor, body, frame->header.raw_bytes, &arena);
	if (!consign)
		return bad_consign(lanes, frame, "it does not hold its message", error);
	err = turn_to(lanes, frame, consign, error);
	arena_destroy(arena);
	return err;
}

/* 1: it was a lane's own frame; 0: it says whose the next ones are. */
static int take(struct lanes *lanes, const struct frame *frame, struct ringtail_error *error)
{
	if (frame->header.type == FRAME_CONSIGN)
		return take_consign(lanes, frame, error);
	if (lanes->current >= lanes->count)
		return bad_consign(lanes, frame, "none stands before the first frame", error);
	fed_take(lanes->lane[lanes->current]->ringtail, frame);
	return 1;
}

static void end_all(struct lanes *lanes)
{
	for (size_t i = 0; i < lanes->count; i++)
		fed_end(lanes->lane[i]->ringtail);
}

enum lanes_next lanes_next(struct lanes *lanes, int timeout_ms, size_t *lane, struct ringtail_error *error)
{
	struct frame frame;
	int taken = 0;

	while (!taken) {
		switch (conn_wait(lanes->conn, timeout_ms, &frame, error)) {
		case CONN_FRAME:
			taken = take(lanes, &frame, error);
			break;
		case CONN_TIMEOUT:
			return LANES_TIMEOUT;
		case CONN_INTERRUPTED:
			return LANES_INTERRUPTED;
		case CONN_END:
			end_all(lanes);
			return LANES_END;
		case CONN_LOST:
		case CONN_BAD:
			taken = -EBADMSG;
			break;
		}
	}
	*lane = lanes->current;
	if (taken > 0)
		return LANES_FRAME;
	end_all(lanes);
	return LANES_FAILED;
}
