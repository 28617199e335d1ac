/* fanout_private: the inside of fanout, shared by the fanout*.c alone. */
#ifndef RINGTAIL_DAEMON_STREAM_FANOUT_PRIVATE_H
#define RINGTAIL_DAEMON_STREAM_FANOUT_PRIVATE_H

#include <sys/queue.h>

#include "daemon/stream/consumers.h"
#include "daemon/stream/fanout.h"
#include "daemon/base/limits.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/past.h"
#include "daemon/stream/stream.h"

#define SOURCE_ENDED "the source has ended"

struct fanout {
	struct fanout_config config;
	uint32_t rings;
	uint32_t *cpu_of;		/* by ring */
	uint64_t *gone;			/* by ring: the end of subscriptions that went, + 1; 0: none */
	uint64_t worker_time_ns[WORKERS_MAX];
	uint64_t watermark_ns;

	TAILQ_HEAD(, subscription) subscriptions;
	struct subscription *by_index[SUBSCRIPTIONS_MAX];
	TAILQ_HEAD(, subscriber) waiting;
	struct mail *mail;		/* from workers, the oldest of which waits for memory */
	bool wake;			/* something was appended, */
	uint64_t wake_bytes;		/* so many bytes of it */

	struct probe_set metered;	/* recorded for the meters, whoever else wants it */
	struct probe_set metered_asked, metered_had;	/* as last sent, and as last in force */
	uint64_t generation;		/* of the newest configuration sent */
	uint64_t generation_done;	/* and answered */
	bool dirty;			/* another must be sent once that is */
	struct source_stats source_stats;

	bool stopping;
	bool restoring;			/* nothing is told to the kernel before all are back */
	bool handing_over;		/* the kernel records on for the next run */
	bool finished;			/* what the rings held is out: a Bye ends every log */
	unsigned drains_pending;
	unsigned drains_untold;		/* workers that are still to be told to drain */
	char bye_reason[64];
	void (*stopped)(void *context);
	void *stopped_context;

	struct subscription *next_permanent;	/* replaces the one that is always on when it is live */
	struct {
		fanout_done *done;	/* NULL: nobody waits for it */
		void *context;
		uint64_t generation;	/* the one before is given up then; 0: it is not live yet */
	} permanent;
	struct event *mails, *reports, *check;
	struct event *read;		/* some stream has frames off the disk */
	struct past_turns *turns;	/* of streams that read another subscription's record */
	uint64_t memory_used;		/* by all logs, as of the last look */
};

/* A cursor of this run with a position for each ring, in order; free() it. NULL: out of memory. */
struct cursor_message *fanout_places(const struct fanout *fanout, const uint64_t *seq);
struct cursor *fanout_cursor(const struct fanout *fanout, const uint64_t *seq);

/* ---- Places (fanout_place.c) -------------------------------------------------------------------- */

int beginning_of_cursor(const struct fanout *fanout, const struct cursor *cursor,
		    struct beginning *place, struct error *error);
int beginning_of_consumer(const struct fanout *fanout, const struct consumer *consumer,
		      struct beginning *place, struct error *error);
void beginning_free(struct beginning *place);

/* The ring of a CPU, or -1. */
int fanout_ring_of(const struct fanout *fanout, uint32_t cpu);

/*
 * Where that time is: `since`, of every ring in order, as near before it as is known. The log has all from
 * there on; or it has given some of it up; or so it may have, and the time is before recording began.
 */
enum place_found {
	PLACE_FOUND,
	PLACE_GIVEN_UP,
	PLACE_BEFORE_RECORDING,
};

enum place_found beginning_find_time(const struct fanout *fanout, const struct subscription *subscription,
		     uint64_t realtime_ns, struct cursor *since);

/* ---- Donors (fanout_donor.c) -------------------------------------------------------------------- */

/*
 * Whose record has of that time what this subscription asks for, as much as any has: *whole, all of it. NULL:
 * none has any of it that this one has not.
 */
struct subscription *fanout_find_donor(const struct fanout *fanout,
				       const struct subscription *wanted, uint64_t realtime_ns,
				       bool *whole);

/* ---- Viewers (fanout_viewer.c) ------------------------------------------------------------------ */

/* NULL: this daemon itself, which may ask for anything. */
enum fanout_claim fanout_claim_of(const struct client_identity *identity);

/* -EACCES: a viewer may not ask for that. probes NULL: those that are always on. */
int fanout_check_viewer(const struct fanout *fanout, enum fanout_claim claim, uint32_t flags,
			const struct probe_set *probes, struct error *error);

/* Whether viewers may make one more. */
int fanout_check_viewers_room(const struct fanout *fanout, struct error *error);

/* ---- Joining (subscriber.c) --------------------------------------------------------------------- */

/* It is live: they get their streams, or are refused; or wait until their consumers are on disk. */
void fanout_join_waiting(struct fanout *fanout, const struct subscription *subscription);

/* It never will be (NULL: none will): they get the error. */
void fanout_refused(struct fanout *fanout, const struct subscription *subscription,
		    const struct error *error);

/* The consumers were saved, or not: who waits for that. And again what found no memory. */
void fanout_consumers_saved(void *fanout, int err);
void fanout_register_again(struct fanout *fanout);

/* ---- Durable consumers (fanout_durable.c) ------------------------------------------------------- */

/* Its frames go to disk from now on, if anything does; for that consumer, or (NULL) for all who ask. */
/* Frees what no durable consumer needs, where that is not known to the disk yet. */
void fanout_release(struct fanout *fanout);

int fanout_keep_on_disk(struct fanout *fanout, struct subscription *subscription,
			struct consumer *consumer, struct error *error);

/* fanout_may_consume(); identity NULL: an exporter of this daemon. */
int fanout_check_consumer(const struct fanout *fanout, const char *name,
			  const struct client_identity *identity, struct error *error);

/*
 * The registered consumer of that name, which is made if there is none. It is connected then. An
 * exporter's (identity NULL) that is there with another request becomes this one.
 */
int fanout_take_consumer(struct fanout *fanout, const char *name,
			 const struct client_identity *identity,
			 const struct subscription_request *request,
			 struct subscription *subscription, struct consumer **consumer,
			 struct error *error);

/* The spools of consumers whose subscription cannot be made: this kernel lacks its probes. */
void fanout_each_held(void *fanout, spooler_name *name, void *context);

/*
 * -EINVAL: an acknowledgement of what this consumer was not sent, in this connection or an earlier one; it
 * is refused, and counted. That of an earlier run than its place changes nothing, and is none.
 */
int fanout_check_ack(const struct fanout *fanout, const struct stream *stream,
		     const struct cursor *upto, struct error *error);

/* What it acknowledged counts; what nobody needs any more goes. */
void fanout_acknowledge(struct fanout *fanout, struct consumer *consumer,
			const struct cursor *upto);

/* The rings' end as this subscription knows it, with a gap for what an earlier run lost before. */
void fanout_begin_ring(struct fanout *fanout, struct subscription *subscription, uint32_t ring,
		       uint64_t seq);

/* Streams that read the disk look again. */
void fanout_poke_readers(struct subscription *subscription);

/* ---- Memory (fanout_memory.c) ------------------------------------------------------------------- */

/* Something was appended: all logs together stay within their bound. */
void fanout_keep_within(struct fanout *fanout);

/* What all want is what the kernel is to record. */
void fanout_configure(struct fanout *fanout);

/* Which subscriptions there are has changed: the next run is to know. */
void fanout_save(struct fanout *fanout);

/* Appends a Bye: nothing more will come. */
void fanout_append_bye(struct fanout *fanout, struct subscription *subscription);

/* Of all subscriptions there can be, some are this daemon's own, however many clients come. */
enum fanout_claim {
	FANOUT_VIEWERS,		/* some of what clients have */
	FANOUT_CLIENTS,
	FANOUT_OWN,		/* always on, or of the run before */
	FANOUT_EXPORT,
};

/* The subscription of that request, made if nobody has it yet. */
int fanout_get_subscription(struct fanout *fanout, const struct subscription_request *request,
			    enum fanout_claim claim, struct subscription **subscription,
			    struct error *error);

/* It records. */
void fanout_live(struct fanout *fanout, struct subscription *subscription);

/* Wakes every stream's owner. */
void fanout_wake(struct fanout *fanout);

/* What is to be always on is recorded: what was, goes. */
void fanout_change_permanent(struct fanout *fanout);

/* Who waits for what is to be always on is answered; NULL: it is in force. */
void fanout_end_permanent(struct fanout *fanout, const struct error *error);

/* No worker knows it any more. */
void fanout_forget(struct fanout *fanout, struct subscription *subscription);

/* Orders that workers could not be given for want of memory. */
void fanout_order_again(struct fanout *fanout);

/* Gives up subscriptions that no client has come back for. */
void fanout_expire(struct fanout *fanout);
void fanout_check_soon(struct fanout *fanout);

void fanout_drained(struct fanout *fanout);
void fanout_on_report(evutil_socket_t fd, short what, void *context);

/* The log is history and every client's queue at once: it reaches as far back as either. */
static inline uint64_t fanout_log_bytes(const struct fanout *fanout)
{
	const struct fanout_config *config = &fanout->config;

	return config->history_bytes > config->queue_bytes ? config->history_bytes :
							     config->queue_bytes;
}

#endif
