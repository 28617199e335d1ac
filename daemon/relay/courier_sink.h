/*
 * courier_sink: what hosts send, to a courier, which carries it to Kafka. In: items, from the relay; one connection of
 * a courier, at a unix socket. Out: frames of all hosts, each host in its turn (Consign); the same items, confirmed
 * when the courier says that Kafka has them (Delivered).
 *
 * Nothing is stored here. What is not confirmed is kept in memory, within the relay's bounds, and the next courier
 * gets it from its beginning; if the relay is killed, its agents have it still. Main thread.
 */
#ifndef RINGTAIL_DAEMON_RELAY_COURIER_SINK_H
#define RINGTAIL_DAEMON_RELAY_COURIER_SINK_H

#include <event2/event.h>
#include <stdint.h>

#include "daemon/access/gate.h"
#include "daemon/net/address.h"
#include "daemon/relay/sink.h"
#include "query/error.h"

struct courier_sink_config {
	struct event_base *base;
	const struct gate *gate;	/* who may be the courier; borrowed */
	struct frame_codec *codec;	/* borrowed */
	uint64_t hello_timeout_ns;
};

/* 0, -ENOMEM. relay_sink_destroy() frees it, and refuses what is under way. */
int courier_sink_create(const struct courier_sink_config *config, struct relay_sink **sink,
			struct error *error);

/* A listener_accepted; the context is the relay_sink. */
void courier_sink_accept(void *sink, int fd, const struct address *address, const char *peer);

#endif
