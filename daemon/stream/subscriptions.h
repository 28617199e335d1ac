/*
 * subscriptions: all there are, and their life: found or made for who asks, told to the workers once the
 * recorder has them in force, kept while somebody wants them, given up when nobody has come back for them;
 * saved for the next run, and taken over from the one before. All their logs stay within memory-max.
 *
 * In: requests; what the recorder and the workers answer. Out: orders to workers, and what has become of
 * each subscription. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_SUBSCRIPTIONS_H
#define RINGTAIL_DAEMON_STREAM_SUBSCRIPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "daemon/collect/worker.h"
#include "daemon/config/config.h"
#include "daemon/host/identity.h"
#include "daemon/stream/recorder.h"
#include "daemon/stream/subscription.h"
#include "query/error.h"

struct making;
struct saved_subscriptions;

/* What viewers may ask for; operators, and the daemon itself, may ask for anything. */
struct viewer_bounds {
	const struct config_words *probe;	/* globs; borrowed, none: any probe */
	bool strings, stacks;
	uint64_t rate;				/* events in a second, of one stream; 0: no bound */
	uint64_t subscriptions;			/* different ones, of all viewers together */
	/* Whether that probe is of programs which that user may look into. NULL: no program has probes. */
	bool (*is_own)(const void *context, uint32_t uid, uint32_t probe);
	const void *context;
};

struct subscriptions_config {
	struct worker **worker;
	unsigned workers;
	const Ringtail__V1__Catalog *catalog;
	struct frame_codec *codec;
	const struct rings *rings;
	uint64_t history_age_ns, log_bytes;
	uint64_t memory_bytes;		/* for the logs of all together; 0: no bound */
	bool file_strings;		/* exports are given the strings of calls that name a file */
	struct viewer_bounds viewers;
	struct saved_subscriptions *saved;	/* NULL: nothing is kept for a next run */

	/* It is live; it is about to be freed; somebody should look for what is to be given up. */
	void (*live)(void *context, struct subscription *subscription);
	void (*going)(void *context, struct subscription *subscription);
	void (*check_soon)(void *context);
	void *context;
};

/* Called once: NULL, it is in force; or why it is not. */
typedef void permanent_done(void *context, const struct error *error);

struct subscriptions {
	struct subscriptions_config config;
	struct recorder *recorder;
	struct making *making;
	struct subscription_list list;
	struct subscription *by_index[SUBSCRIPTIONS_MAX];
	uint64_t *gone;			/* by ring: the end of the last removed subscription, + 1; 0: none */
	uint64_t memory_used;		/* by all logs, as of the last look */
	bool saving;			/* for the next run; not any more once the daemon stops */
	struct {
		struct subscription *next;	/* is always on once it is live */
		permanent_done *done;		/* NULL: nobody waits for it */
		void *context;
		uint64_t generation;		/* the one before is given up then; 0: not live yet */
	} permanent;
};

int subscriptions_init(struct subscriptions *all, const struct subscriptions_config *config);
void subscriptions_fini(struct subscriptions *all);

/* ---- Finding --------------------------------------------------------------------------------- */

/* Of all there can be, some are this daemon's own, however many clients come. */
enum subscription_claim {
	CLAIM_VIEWERS,		/* some of what clients have */
	CLAIM_CLIENTS,
	CLAIM_OWN,		/* always on, or of the run before */
	CLAIM_EXPORT,
};

/* NULL: an exporter. */
enum subscription_claim subscription_claim_of(const struct client_identity *identity);

/* subscription_request.owner of such a client. */
uint32_t subscription_owner_of(const struct client_identity *identity);

/*
 * Before a request that names these probes: 0 if they are there, as far as they can be made; 1 if they are
 * being made; -errno with *error.
 */
int subscriptions_prepare(struct subscriptions *all, enum subscription_claim claim,
			  char *const *spec, size_t specs, bool again, struct error *error);

/* Whether a probe is there that this means to them; owner as in a request. */
bool subscriptions_knows(const struct subscriptions *all, uint32_t owner, const char *spec);

/* Makes what a spec names at once, and waits. What cannot be made is said where it is looked up. */
void subscriptions_make_now(struct subscriptions *all, const char *spec);

/* That of the request, made if nobody has it yet. No globs: what is always on, narrowed. */
int subscriptions_find(struct subscriptions *all, const struct subscription_request *request,
		       enum subscription_claim claim, struct subscription **subscription,
		       struct error *error);

/* The same of one with globs, which the daemon itself may ask for. */
int subscriptions_get(struct subscriptions *all, const struct subscription_request *request,
		      enum subscription_claim claim, struct subscription **subscription,
		      struct error *error);

/* A program's probe has joined the catalog: whether a subscription waited for it. */
bool subscriptions_take_late(struct subscriptions *all, const Ringtail__V1__Probe *probe);

/* NULL: no worker has it any more. */
struct subscription *subscriptions_at(const struct subscriptions *all, uint32_t index);

/* ---- Life ------------------------------------------------------------------------------------ */

/* The kernel records it: has the workers read it. */
void subscriptions_start(struct subscriptions *all, struct subscription *subscription);

/* A worker has answered: if it was the last, it is live, or gone. */
void subscriptions_answered(struct subscriptions *all, struct subscription *subscription);

/* Forgets it: no worker knows it, or ever will. */
void subscriptions_forget(struct subscriptions *all, struct subscription *subscription);

/* Where the rings are, as this subscription knows it, with a gap for what an earlier run lost before. */
void subscriptions_begin_ring(struct subscriptions *all, struct subscription *subscription,
			      uint32_t ring, uint64_t seq);

/* Gives up those that no client has come back for. */
void subscriptions_expire(struct subscriptions *all);

/* Orders that workers could not be given for want of memory. */
void subscriptions_order_again(struct subscriptions *all);

/*
 * That one is always on, as soon as it is live, and what was so far no longer; NULL: none is. -EBUSY while
 * another change is on its way.
 */
int subscriptions_check_permanent(const struct subscriptions *all, struct error *error);
void subscriptions_set_permanent(struct subscriptions *all, struct subscription *subscription,
				 permanent_done *done, void *context);
void subscriptions_end_permanent(struct subscriptions *all, const struct error *error);

/* What is always on now, and recorded; NULL: nothing is. */
struct subscription *subscriptions_permanent(const struct subscriptions *all);

/* The configurations up to that one are in force. */
void subscriptions_in_force(struct subscriptions *all, uint64_t generation);

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Something was appended: all logs together stay within their bound. */
void subscriptions_keep_within(struct subscriptions *all);

void subscriptions_set_log_bytes(struct subscriptions *all, uint64_t log_bytes);

/* Whether such a client might subscribe to these probes with these flags. -EACCES with *error. */
int subscriptions_may_ask(const struct subscriptions *all, enum subscription_claim claim,
			  const char *glob, uint32_t flags, struct error *error);

/*
 * Whether such a client may see what a subscription like that recorded: what is always on now everybody may; of
 * anything else, what it might ask for. -EACCES with *error.
 */
int subscriptions_may_see(const struct subscriptions *all, enum subscription_claim claim,
			  const struct subscription_request *what, struct error *error);

/* For streams that are there, and what is asked for from now on. */
void subscriptions_set_viewers(struct subscriptions *all, const struct viewer_bounds *viewers);

/* ---- From one run to the next ---------------------------------------------------------------- */

int subscriptions_restore(struct subscriptions *all, struct error *error);
int subscriptions_adopt(struct subscriptions *all, struct error *error);

#endif
