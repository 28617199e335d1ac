/*
 * recorder: computes what the kernel records: the union of all subscriptions and of the meters. One configuration at a
 * time is on its way to the loader; changes meanwhile are in the next one.
 *
 * In: the list of subscriptions; the loader's reports. Out: configurations for the loader; calls of accepted() and
 * refused() for each new subscription. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_RECORDER_H
#define RINGTAIL_DAEMON_STREAM_RECORDER_H

#include <event2/event.h>
#include <stdint.h>

#include "daemon/programs/programs.h"
#include "daemon/source/loader.h"
#include "daemon/stream/subscription.h"
#include "query/error.h"
#include "query/probe_set.h"

struct recorder;

struct recorder_config {
	struct event_base *base;
	struct loader *loader;
	struct programs *programs;		/* NULL: none */
	const struct subscription_list *wanted;	/* borrowed for its life */

	/* The kernel records this subscription, which was SUBSCRIPTION_CONFIGURING; or refuses it. */
	void (*accepted)(void *context, struct subscription *subscription);
	void (*refused)(void *context, struct subscription *subscription, const struct error *error);
	/* The configurations up to this one are in force. */
	void (*in_force)(void *context, uint64_t generation);
	/* LOADER_MADE: the loader made probes, or could not. */
	void (*made)(void *context, const struct loader_report *report);
	/* After recorder_stop(), or when the source has ended: no record is written any more. */
	void (*silent)(void *context);
	/* The loader and its producers ended; the rings still hold what they wrote. */
	void (*gone)(void *context, const struct error *error);
	/* A configuration could not be sent to the loader. */
	void (*failed)(void *context);
	void *context;
};

/* NULL: out of memory. */
struct recorder *recorder_create(const struct recorder_config *config);
void recorder_destroy(struct recorder *recorder);	/* NULL is safe */

/* Call it after a change of `wanted`. Returns the generation in which the change is in force. */
uint64_t recorder_change(struct recorder *recorder);
uint64_t recorder_newest(const struct recorder *recorder);	/* of the last change */
uint64_t recorder_in_force(const struct recorder *recorder);

/* Call it when a subscription became live: the workers read it. */
void recorder_joined(struct recorder *recorder);

/* Sets the probes that are recorded for the meters, of every process. */
void recorder_set_meter(struct recorder *recorder, const struct probe_set *probes);

/* If comm is hidden, the kernel does not filter by comm: which events are missing would reveal the name. */
void recorder_hide_comm(struct recorder *recorder, bool hide);

/* If texts of events are hidden, programs do not compare them: filters compare what is shown. */
void recorder_hide_texts(struct recorder *recorder, bool hide);

/* Sends no configuration until recorder_resume(): the kernel still records what the last run asked for. */
void recorder_hold(struct recorder *recorder);
void recorder_resume(struct recorder *recorder);
bool recorder_is_held(const struct recorder *recorder);

/* Configures the kernel to record nothing; silent() follows. */
void recorder_stop(struct recorder *recorder);

/* Sends no configuration any more: the kernel continues to record for the next run. */
void recorder_leave(struct recorder *recorder);

/* Call it if loader_make_now() has set *pending: reads those reports soon. */
void recorder_look(struct recorder *recorder);

/*
 * Asks which threads are in a system call now. If it returns 0, done() follows once: with a report of LOADER_STUCK,
 * whose descriptor done() owns; or with NULL and an error. -EBUSY until then.
 */
typedef void recorder_stuck_done(void *context, const struct loader_report *report,
				 const struct error *error);
int recorder_ask_stuck(struct recorder *recorder, uint64_t longer_than_ns,
		       recorder_stuck_done *done, void *context);

/* Forgets done(): nothing waits for the answer any more. */
void recorder_forget_stuck(struct recorder *recorder);

/* The figures of the loader's last whole answer; asks for a newer one. */
struct source_stats recorder_stats(struct recorder *recorder);

#endif
