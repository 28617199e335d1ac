/*
 * relay_place: what a relay without connections stands on in a test: no TLS, and a sink that holds what it is given
 * until the test confirms it.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_RELAY_PLACE_H
#define RINGTAIL_TESTS_UNIT_DAEMON_RELAY_PLACE_H

#include <errno.h>

#include "daemon/access/gate.h"
#include "daemon/net/transport.h"
#include "daemon/relay/relay.h"

static struct relay_items held;		/* the sink's, oldest first */

struct transport_tls_context *__wrap_gate_tls(const struct gate *gate);
struct transport_tls_context *__wrap_gate_tls(const struct gate *gate)
{
	(void)gate;
	return NULL;
}

struct transport *__wrap_transport_tls_create(struct transport_tls_context *context, int fd);
struct transport *__wrap_transport_tls_create(struct transport_tls_context *context, int fd)
{
	static struct transport transport;

	(void)context, (void)fd;
	return &transport;
}

static void on_forward(struct relay_sink *sink, struct relay_item *item)
{
	(void)sink;
	STAILQ_INSERT_TAIL(&held, item, link);
}

static void confirm_first(int err)
{
	struct relay_item *item = STAILQ_FIRST(&held);

	STAILQ_REMOVE_HEAD(&held, link);
	item->confirmed(item, err);
}

static void on_destroy(struct relay_sink *sink)
{
	(void)sink;
	while (!STAILQ_EMPTY(&held))
		confirm_first(-ECANCELED);
}

static struct relay_sink *holding_sink(void)
{
	static const struct relay_sink_ops ops = {.forward = on_forward, .destroy = on_destroy};
	static struct relay_sink sink = {.ops = &ops};

	STAILQ_INIT(&held);
	return &sink;
}

/* Of one ring, from its beginning; one reference. */
static struct relay_opening *make_opening(void)
{
	struct relay_opening *opening = calloc(1, sizeof(*opening));

	assert_non_null(opening);
	opening->refs = 1;
	opening->start = cursor_create(1);
	cursor_append(opening->start, 0, 0);
	return opening;
}

#endif
