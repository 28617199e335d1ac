/*
 * fanout: brings what the workers finish to the clients that want it, and tells the kernel what to
 * record: the union of all subscriptions.
 *
 * In: worker mails, loader reports, subscribe requests. Out: frames appended to subscriptions,
 * sessions woken once for each round of mails. Main thread.
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
	bool file_strings;		/* exports are given the strings of calls that name a file */

	bool dials_relay;		/* what is always on is kept for it, from its beginning */

	/* Where durable consumers' frames go; NULL, all of them, where nothing outlives the daemon. */
	struct spooler *spooler;
	struct consumers *consumers;
	struct frame_ref *(*hello)(void *context);	/* what segments begin with */

	struct viewer_bounds viewers;
	struct saved_subscriptions *saved;	/* NULL: nothing is kept for a next run */

	/* Some of what fanout_prepare() said 1 of is made, or cannot be. May be NULL. */
	void (*made)(void *context);

	/* The loader is gone: the daemon cannot go on. */
	void (*failed)(void *context);
	void *context;
};

int fanout_create(const struct fanout_config *config, struct fanout **fanout, struct error *error);

/* After the workers are gone. NULL is safe. */
void fanout_destroy(struct fanout *fanout);

/*
 * Before a request that names these probes: 0 if they are there, as far as they can be made; 1 if they are
 * being made, and the same is to be asked again after made(); or -errno with *error. identity NULL: it is the
 * daemon's own. `again`: the same request was told 1 before.
 */
int fanout_prepare(struct fanout *fanout, const struct client_identity *identity, char *const *spec,
		   size_t specs, bool again, struct error *error);

/*
 * The same, at once: where the daemon starts, or an operator has it read its configuration again. What
 * cannot be made is said where it is looked up.
 */
void fanout_make_now(struct fanout *fanout, const char *spec);

/*
 * 0: live() or refused() follows, perhaps at once; or -errno with *error. All of the request is borrowed for
 * the call. An exporter's consumer is named with CONSUMER_EXPORT_PREFIX; what it asked for under that name
 * before, if it was other, is given up.
 */
int fanout_subscribe(struct fanout *fanout, struct subscriber *subscriber,
		     const struct subscribe_request *request, struct error *error);

/* Its subscription stays for history-age, unless it left orderly. Not from inside live() or refused(). */
void fanout_leave(struct fanout *fanout, struct subscriber *subscriber, bool orderly);

/*
 * Replaces the subscription that is always on; NULL: none. If it returns 0, done() follows, perhaps before
 * it returns: with NULL once the kernel records what is asked for and no longer what was given up; or with
 * the reason why not, and then what was always on stays. The next only after that: -EBUSY. done may be NULL.
 */
int fanout_set_permanent(struct fanout *fanout, const struct subscription_request *request,
			 permanent_done *done, void *context, struct error *error);

/*
 * A program's probe has joined the catalog, and no record of it can be written yet: whether a subscription waited for
 * it, so that it is to be recorded.
 */
bool fanout_take_late(struct fanout *fanout, const Ringtail__V1__Probe *probe);

/*
 * What the kernel records for the meters of the workers, of every process, with or without a
 * subscription that wants it; nothing is encoded of it.
 */
void fanout_set_meter(struct fanout *fanout, const struct probe_set *probes);

/* For new subscriptions and streams from now on. */
void fanout_set_bounds(struct fanout *fanout, uint64_t history_bytes, uint64_t history_age_ns,
		       uint64_t queue_bytes, uint64_t memory_bytes);

/* For what is asked for from now on; the rate also for streams that are there. */
void fanout_set_viewers(struct fanout *fanout, const struct viewer_bounds *viewers);

/* What records must not show: asked of no kernel, and to be used by who makes answers without a ring. */
void fanout_set_redaction(struct fanout *fanout, const struct redaction *redaction);
const struct redaction *fanout_redaction(const struct fanout *fanout);	/* NULL: nothing is hidden */

/*
 * Stops recording, drains what the rings hold, sends it and a Bye to every client, and calls `done`.
 */
void fanout_stop(struct fanout *fanout, const char *reason, void (*done)(void *context),
		 void *context);

/* ---- Durable consumers ------------------------------------------------------------------------ */

/*
 * A durable consumer has dealt with what is before these places: they need not be kept for it. -EINVAL: it
 * is none, or was not sent so much.
 */
int fanout_ack(struct fanout *fanout, struct subscriber *subscriber, const struct cursor *upto,
	       struct error *error);

/*
 * Whether that client may subscribe as this consumer now. *registers: nobody has so far, so it would be
 * its own from then on. -EPERM, -ENOSPC, -EBUSY, ...
 */
int fanout_may_consume(const struct fanout *fanout, const char *name,
		       const struct client_identity *identity, bool *registers,
		       struct error *error);

/* Whether that client may give it up. -ENOENT: there is none; -EPERM: it is another's. */
int fanout_may_forget(const struct fanout *fanout, const char *name,
		      const struct client_identity *identity, struct error *error);

/* Gives up what is kept for it alone. -ENOENT: there is none; -EBUSY: it is connected. */
int fanout_forget_consumer(struct fanout *fanout, const char *name, struct error *error);

/* The subscriptions of all registered consumers: what comes is kept for them from now on. */
int fanout_restore_consumers(struct fanout *fanout, struct error *error);

void fanout_each_consumer(const struct fanout *fanout,
			  void (*each)(void *context, const struct consumer_stat *stat),
			  void *context);

/* ---- From one run of the daemon to the next --------------------------------------------------- */

/*
 * The rings are those of the run before: brings back its subscriptions, and tells the kernel what this
 * run wants. Then, before the workers start and once the spools are open: these subscriptions begin
 * with the first attempt that was not read.
 */
int fanout_restore(struct fanout *fanout, struct error *error);
int fanout_adopt(struct fanout *fanout, struct error *error);

/* As fanout_stop, but the kernel records on, and what comes after now is left to the next run. */
void fanout_hand_over(struct fanout *fanout, const char *reason, void (*done)(void *context),
		      void *context);

/* Which threads are in a system call now: as recorder_ask_stuck(). */
int fanout_ask_stuck(struct fanout *fanout, uint64_t longer_than_ns, recorder_stuck_done *done,
		     void *context);
void fanout_forget_stuck(struct fanout *fanout);

/* Whether that client may: who may ask for all system calls with kernel stacks. -EACCES. */
int fanout_may_ask_stuck(const struct fanout *fanout, const struct client_identity *identity,
			 struct error *error);

/* Whether that client may see what a subscription like that recorded. -EACCES. */
int fanout_may_see(const struct fanout *fanout, const struct client_identity *identity,
		   const struct subscription_request *what, struct error *error);

/* What no ring can see, as of the loader's last answer; asks for a newer one. */
struct source_stats fanout_source_stats(struct fanout *fanout);

#endif
