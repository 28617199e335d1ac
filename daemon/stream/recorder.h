/*
 * recorder: what the kernel is asked to record: the union of what all subscriptions want, and of what the
 * meters do. One configuration is on its way to the loader at a time; changes meanwhile make another.
 *
 * In: the subscriptions, by their list; the loader's reports. Out: configurations to the loader; and which
 * subscriptions are recorded from now on, or never will be. Main thread.
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

	/* The kernel records that one now, which was SUBSCRIPTION_CONFIGURING; or refuses to. */
	void (*accepted)(void *context, struct subscription *subscription);
	void (*refused)(void *context, struct subscription *subscription, const struct error *error);
	/* The configurations up to that one are in force. */
	void (*in_force)(void *context, uint64_t generation);
	/* LOADER_MADE: probes that were asked of the loader were made, or cannot be. */
	void (*made)(void *context, const struct loader_report *report);
	/* After recorder_stop(), or where the source has ended: nothing more comes into the rings. */
	void (*silent)(void *context);
	/* The loader is gone, and its producers with it; what they wrote is still in the rings. */
	void (*gone)(void *context, const struct error *error);
	/* It cannot be told any more. */
	void (*failed)(void *context);
	void *context;
};

/* NULL: out of memory. */
struct recorder *recorder_create(const struct recorder_config *config);
void recorder_destroy(struct recorder *recorder);	/* NULL is safe */

/* Something in `wanted` has changed: the generation in which that is in force. */
uint64_t recorder_change(struct recorder *recorder);
uint64_t recorder_newest(const struct recorder *recorder);	/* of the last change */
uint64_t recorder_in_force(const struct recorder *recorder);

/* A subscription has become live: the workers read it. */
void recorder_joined(struct recorder *recorder);

/* For the meters, of every process, whoever else wants it. */
void recorder_set_meter(struct recorder *recorder, const struct probe_set *probes);

/* The kernel judges nobody by a name that is hidden from who asks: what it leaves out would tell. */
void recorder_hide_comm(struct recorder *recorder, bool hide);

/* Tells the kernel nothing until recorder_resume(): it still records what the run before wanted. */
void recorder_hold(struct recorder *recorder);
void recorder_resume(struct recorder *recorder);
bool recorder_is_held(const struct recorder *recorder);

/* The kernel is to record nothing; silent() follows. */
void recorder_stop(struct recorder *recorder);

/* The kernel records on for the next run, whatever becomes of this one. */
void recorder_leave(struct recorder *recorder);

/* Reports wait that were taken off the loader's socket already: see loader_make_now(). */
void recorder_look(struct recorder *recorder);

/*
 * Asks which threads are in a system call now. If it returns 0, done() follows once: with a report of
 * LOADER_STUCK, whose descriptor is done()'s; or NULL and why there is none. -EBUSY before that.
 */
typedef void recorder_stuck_done(void *context, const struct loader_report *report,
				 const struct error *error);
int recorder_ask_stuck(struct recorder *recorder, uint64_t longer_than_ns,
		       recorder_stuck_done *done, void *context);

/* Whoever asked does not want to know any more. */
void recorder_forget_stuck(struct recorder *recorder);

/* As of the loader's last answer; asks for a newer one. */
struct source_stats recorder_stats(struct recorder *recorder);

#endif
