/*
 * relay: daemons of other hosts (agents) dial this one, and it keeps what they send.
 *
 * In: sockets from the listeners of `listen-agents`. Out: their frames, to the sink; acknowledgements, to the
 * agents, of what the sink has confirmed. So what is not stored here stays in the spool of its host.
 *
 * A host is who its certificate names. What came before is passed over, by run and number. Of one host, and of
 * all, only so many bytes are under way to the sink; beyond that nothing is read from the host, and its own
 * spool holds what it has. Main thread.
 */
#ifndef RINGTAIL_DAEMON_RELAY_RELAY_H
#define RINGTAIL_DAEMON_RELAY_RELAY_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/access/gate.h"
#include "daemon/base/limits.h"
#include "daemon/metrics/stat.h"
#include "daemon/net/address.h"
#include "daemon/relay/bridge.h"
#include "daemon/relay/sink.h"
#include "query/error.h"

struct relay;
struct turnstile;

struct relay_config {
	struct event_base *base;
	const struct gate *gate;	/* has the TLS context; borrowed */
	struct turnstile *turnstile;	/* borrowed */
	struct relay_sink *sink;	/* taken over */
	unsigned agents_max;
	uint64_t hello_timeout_ns;
	uint64_t silence_timeout_ns;	/* of what waits between a client and a host */
};

int relay_create(const struct relay_config *config, struct relay **relay, struct error *error);

/* Disconnects every agent, and destroys the sink, which confirms what it can. Says in the log what the ledger comes
 * to. NULL is safe. */
void relay_destroy(struct relay *relay);

/* A listener_accepted. */
void relay_accept(void *relay, int fd, const struct address *address, const char *peer);

/* After a reload: agents whose certificates are revoked now are disconnected. */
void relay_judge(struct relay *relay);

/*
 * A client, an operator, asks for a connection to the host of that name: one of asker's functions is called later.
 * -errno with *error: it cannot be had, and none is.
 */
int relay_reach(struct relay *relay, const char *host, const struct client_identity *identity, const char *who,
		const struct bridge_asker *asker, struct error *error);

/* Whoever asked with that context has left. */
void relay_leave(struct relay *relay, const void *context);

/* All hosts together. What it points at, here and below, is borrowed until control returns to the loop. */
void relay_stat(const struct relay *relay, struct stat_relay *stat);

/* Those that have series of their own: at most RELAY_HOSTS_METERED, as long as they are known. Returns how many. */
size_t relay_list_metered(const struct relay *relay, struct stat_host host[RELAY_HOSTS_METERED]);

/*
 * The first `max` hosts behind that of the name `after`, which need not be there, in an order that names alone decide;
 * "": from the first one on. Returns how many, or -ENOMEM; *more: there are others behind these.
 */
ssize_t relay_list(struct relay *relay, const char *after, struct stat_host *host, size_t max, bool *more);

#endif
