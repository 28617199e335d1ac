/*
 * fanout: appends the frames of the workers to the logs of their subscriptions, and has the recorder configure what the
 * kernel records: the union of all subscriptions.
 *
 * In: worker mails, loader reports, subscribe requests. Out: frames in subscriptions' logs; each subscriber is woken
 * once for each round of mails. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_FANOUT_H
#define RINGTAIL_DAEMON_STREAM_FANOUT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "daemon/config/config.h"
#include "daemon/source/loader.h"
#include "daemon/base/mailbox.h"
#include "daemon/stream/subscriber.h"
#include "daemon/stream/subscription.h"
#include "daemon/stream/recorder.h"
#include "daemon/collect/worker.h"

struct consumers;
struct fanout;
struct redaction;
struct saved_subscriptions;
struct spooler;

struct fanout_config {
	struct event_base *base;
	struct loader *loader;
	struct programs *programs;	/* NULL: none */
	struct worker **worker;
	unsigned workers;
	struct mailbox *mailbox;	/* the workers' */
	struct frame_codec *codec;
	struct run run;
	uint64_t history_bytes, history_age_ns, queue_bytes;
	uint64_t memory_bytes;		/* for the logs of all subscriptions together; 0: no bound */
	bool file_strings;		/* exporters get the strings of calls that name a file */

	bool dials_relay;		/* keep the permanent subscription for a relay, from its beginning */

	/* Where durable consumers' frames are stored. All three are NULL if durability is `memory`. */
	struct spooler *spooler;
	struct consumers *consumers;
	struct frame_ref *(*hello)(void *context);	/* the first frame of each segment */

	struct viewer_bounds viewers;
	struct saved_subscriptions *saved;	/* NULL: subscriptions end with this run */

	/* A probe for which fanout_prepare() returned 1 was made, or failed. May be NULL. */
	void (*made)(void *context);

	/* The loader ended, so the daemon has to end. */
	void (*failed)(void *context);
	void *context;
};

int fanout_create(const struct fanout_config *config, struct fanout **fanout, struct error *error);

/* Call it after the workers ended. NULL is safe. */
void fanout_destroy(struct fanout *fanout);

/*
 * Call it before a request that names these probes. 0: the probes exist, or cannot be made. 1: the loader is making
 * them; call it again after made(). -errno with *error. identity NULL: a request of the daemon itself. `again`: an
 * earlier call for the same request returned 1.
 */
int fanout_prepare(struct fanout *fanout, const struct client_identity *identity, char *const *spec,
		   size_t specs, bool again, struct error *error);

/* Whether such a client knows a probe that this means. */
bool fanout_knows(const struct fanout *fanout, const struct client_identity *identity, const char *spec);

/*
 * The same, and waits: for the start of the daemon, and for a reload. If a probe cannot be made, the later lookup of
 * the spec reports it.
 */
void fanout_make_now(struct fanout *fanout, const char *spec);

/*
 * 0: live() or refused() follows, perhaps before it returns; or -errno with *error. The request is borrowed for the
 * call. The name of an exporter's consumer begins with CONSUMER_EXPORT_PREFIX; if an exporter asks for something
 * different under its old name, the daemon discards what the old consumer had not read.
 */
int fanout_subscribe(struct fanout *fanout, struct subscriber *subscriber,
		     const struct subscribe_request *request, struct error *error);

/* Its subscription stays for history-age, unless `orderly`. Do not call it from live() or refused(). */
void fanout_leave(struct fanout *fanout, struct subscriber *subscriber, bool orderly);

/*
 * Replaces the permanent subscription, which is always on; NULL: removes it. If it returns 0, done() follows, perhaps
 * before it returns: with NULL when the kernel records the new subscription and not the old one; or with an error, and
 * then the old one stays. -EBUSY until done() was called. done may be NULL.
 */
int fanout_set_permanent(struct fanout *fanout, const struct subscription_request *request,
			 permanent_done *done, void *context, struct error *error);

/*
 * Call it when a program's probe joined the catalog, before the program can write a record of it. True: a subscription
 * waited for this probe, so it has to be enabled.
 */
bool fanout_take_late(struct fanout *fanout, const Ringtail__V1__Probe *probe);

/*
 * Sets the probes that the kernel records for the workers' meters, of every process. Events that no subscription asks
 * for are metered, and not encoded.
 */
void fanout_set_meter(struct fanout *fanout, const struct probe_set *probes);

/* Applies to all logs, and to all streams. */
void fanout_set_bounds(struct fanout *fanout, uint64_t history_bytes, uint64_t history_age_ns,
		       uint64_t queue_bytes, uint64_t memory_bytes);

/* Applies to new requests; the rate also to existing streams. */
void fanout_set_viewers(struct fanout *fanout, const struct viewer_bounds *viewers);

/* Texts to hide. The kernel compares none of them; code that answers without a ring (`stuck`) has to apply it, too. */
void fanout_set_redaction(struct fanout *fanout, const struct redaction *redaction);
const struct redaction *fanout_redaction(const struct fanout *fanout);	/* NULL: nothing is hidden */

/*
 * Stops recording, drains the rings, sends the events and a Bye to every client, and calls `done`.
 */
void fanout_stop(struct fanout *fanout, const char *reason, void (*done)(void *context),
		 void *context);

/* ---- Durable consumers ------------------------------------------------------------------------ */

/*
 * A durable consumer acknowledges everything before these places: the spool may discard it. -EINVAL: the subscriber is
 * not a durable consumer, or has not been sent so much.
 */
int fanout_ack(struct fanout *fanout, struct subscriber *subscriber, const struct cursor *upto,
	       struct error *error);

/*
 * Whether that client may subscribe as this consumer now. *registers: the name is new, and this client would own it.
 * -EPERM, -ENOSPC, -EBUSY, ...
 */
int fanout_may_consume(const struct fanout *fanout, const char *name,
		       const struct client_identity *identity, bool *registers,
		       struct error *error);

/* Whether that client may remove the consumer. -ENOENT: there is none; -EPERM: another client owns it. */
int fanout_may_forget(const struct fanout *fanout, const char *name,
		      const struct client_identity *identity, struct error *error);

/* Removes the consumer, and discards what only it needs. -ENOENT: there is none; -EBUSY: it is connected. */
int fanout_forget_consumer(struct fanout *fanout, const char *name, struct error *error);

/* Creates the subscriptions of all registered consumers again, and stores their events from now on. */
int fanout_restore_consumers(struct fanout *fanout, struct error *error);

void fanout_each_consumer(const struct fanout *fanout,
			  void (*each)(void *context, const struct consumer_stat *stat),
			  void *context);

/* ---- From one run of the daemon to the next --------------------------------------------------- */

/*
 * If the rings are those of the last run: fanout_restore() creates its subscriptions again, and configures the kernel
 * for this run. fanout_adopt() follows when the spools are open, before the workers start: these subscriptions begin
 * with the first attempt that the last run did not read.
 */
int fanout_restore(struct fanout *fanout, struct error *error);
int fanout_adopt(struct fanout *fanout, struct error *error);

/* As fanout_stop(), but the kernel continues to record for the next run, which reads everything after this moment. */
void fanout_hand_over(struct fanout *fanout, const char *reason, void (*done)(void *context),
		      void *context);

/* Which threads are in a system call now: as recorder_ask_stuck(). */
int fanout_ask_stuck(struct fanout *fanout, uint64_t longer_than_ns, recorder_stuck_done *done,
		     void *context);
void fanout_forget_stuck(struct fanout *fanout);

/* Whether that client may do so: it needs the right to all system calls with kernel stacks. -EACCES. */
int fanout_may_ask_stuck(const struct fanout *fanout, const struct client_identity *identity,
			 struct error *error);

/* Whether that client may read the events of such a subscription. -EACCES. */
int fanout_may_see(const struct fanout *fanout, const struct client_identity *identity,
		   const struct subscription_request *what, struct error *error);

/* Losses that no ring counts, as of the loader's last answer; asks for a newer answer. */
struct source_stats fanout_source_stats(struct fanout *fanout);

#endif
