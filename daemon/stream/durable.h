/*
 * durable: subscriptions whose frames are stored on disk, and the durable consumers that need them: which client owns
 * which consumer, which frames it needs, and which frames may be deleted after its acknowledgement.
 *
 * Such a subscription is the permanent one, or a consumer's. In: the clients' names of consumers, and their
 * acknowledgements. Out: spools that are opened, released and removed; the file of consumers. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_DURABLE_H
#define RINGTAIL_DAEMON_STREAM_DURABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/identity.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/stream.h"
#include "daemon/stream/subscriptions.h"
#include "query/error.h"

struct durable {
	struct spooler *spooler;	/* NULL, and the next: nothing outlives the daemon */
	struct consumers *consumers;
	struct subscriptions *subscriptions;
	const struct rings *rings;
	struct frame_ref *(*hello)(void *context);	/* what segments begin with */
	void *hello_context;
	void (*read)(void *context);	/* some stream has got frames off the disk */
	void *context;
};

/* Stores its frames on disk from now on, if durability allows; for that consumer, or (NULL) for all readers. */
int durable_keep(struct durable *durable, struct subscription *subscription,
		 struct consumer *consumer, struct error *error);

/* Frees what no durable consumer needs, once what they acknowledged is given to the disk. */
void durable_release(struct durable *durable);

/* Streams that read the disk look again. */
void durable_poke(struct subscription *subscription);

/* ---- Who may have which; identity NULL: an exporter of this daemon ------------------------------ */

int durable_check(const struct durable *durable, const char *name,
		  const struct client_identity *identity, struct error *error);

/* The same; *registers: nobody has that one so far, and the daemon does not register it itself. */
int durable_may_consume(const struct durable *durable, const char *name,
			const struct client_identity *identity, bool *registers,
			struct error *error);
int durable_may_forget(const struct durable *durable, const char *name,
		       const struct client_identity *identity, struct error *error);

/* ---- Consumers ------------------------------------------------------------------------------- */

/*
 * The registered consumer of that name, which is made if there is none, and is that subscriber's then. An
 * exporter's that is there with another request becomes this one.
 */
int durable_take(struct durable *durable, const char *name, struct subscriber *subscriber,
		 const struct subscription_request *request, struct error *error);

/*
 * The relay's consumer is registered for that subscription, which is always on, before any relay is there: `at`, by
 * ring, if it has no place yet. If it was for what was always on before, its place stays, and what it had not
 * acknowledged of that is given up, as an exporter's; not while it is connected. Nothing is done where nothing
 * outlives the daemon. -ENOSPC, -ENOMEM, ...: the same is to be asked again.
 */
int durable_register_relay(struct durable *durable, struct subscription *subscription, const uint64_t *at,
			   struct error *error);

/* Gives up what is kept for it alone. -ENOENT: there is none; -EBUSY: it is connected. */
int durable_forget(struct durable *durable, const char *name, struct error *error);

/* Creates the subscriptions of all registered consumers again, and stores their events from now on. */
int durable_restore(struct durable *durable, struct error *error);

/* It is about to be freed: its consumers have none. */
void durable_lose(struct durable *durable, const struct subscription *subscription);

/* The spools of consumers whose subscription cannot be made: this kernel lacks its probes. */
void durable_each_held(void *durable, spooler_name *name, void *context);

struct consumer_stat {
	const char *name, *spool;	/* spool: "", it has none yet */
	const char *owner;		/* "": operators alone */
	bool connected, exporter;
	bool held_back;			/* the server's: relay-bandwidth lets what it should get wait */
	uint64_t behind_bytes;		/* on disk, about */
	uint64_t acked_realtime_ns;	/* when it acknowledged last; 0: never */
	struct consumer_account account;	/* the relay's, of others 0 */
	uint64_t behind;		/* attempts on disk that it has not acknowledged; counted with `account` */
};

void durable_each(const struct durable *durable,
		  void (*each)(void *context, const struct consumer_stat *stat), void *context);

/* ---- What they acknowledge ------------------------------------------------------------------- */

/*
 * -EINVAL: an acknowledgement of what this consumer was not sent, in this connection or an earlier one; it
 * is refused, and counted. That of an earlier run than its place changes nothing, and is none.
 */
int durable_check_ack(const struct durable *durable, const struct stream *stream,
		      const struct cursor *upto, struct error *error);

/* What it acknowledged counts; what nobody needs any more goes. */
void durable_acknowledge(struct durable *durable, struct consumer *consumer,
			 const struct cursor *upto);

#endif
