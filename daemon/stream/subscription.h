/*
 * subscription: what some clients want, and what came of it. Clients that want the same share one:
 * its events are encoded once.
 *
 * Main thread; workers see only the spec, which does not change while they know it.
 */
#ifndef RINGTAIL_DAEMON_STREAM_SUBSCRIPTION_H
#define RINGTAIL_DAEMON_STREAM_SUBSCRIPTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/collect/batcher.h"
#include "daemon/stream/frame_log.h"
#include "proto/cursor.h"
#include "query/filter.h"
#include "query/probe_set.h"

/*
 * How far back in time a subscription's log goes. In: when recording began, and what the log discards.
 * Out: from which time on it is complete, and where each ring was at an earlier time.
 */
struct reach;

struct reach *reach_create(uint32_t rings);	/* NULL: out of memory */
void reach_destroy(struct reach *reach);

/* Recording has begun: each ring with the attempt seq[ring]. */
void reach_begin(struct reach *reach, uint64_t time_ns, const uint64_t *seq);

/* The log gives up a watermark that was made then: of each ring, it has given up what is before seq[ring]. */
void reach_give_up(struct reach *reach, uint64_t time_ns, const uint64_t *seq);

/* And attempts behind it. */
void reach_tear(struct reach *reach);

/* When recording began; UINT64_MAX: it has not. */
uint64_t reach_recorded_ns(const struct reach *reach);

/* The log has all that was recorded from that time on. */
bool reach_holds(const struct reach *reach, uint64_t time_ns);

/* Where ring stood at that time, or somewhat before it: at the last mark that is not after it. */
uint64_t reach_seq(const struct reach *reach, uint64_t time_ns, uint32_t ring);

/*
 * The rings of this run: the CPU of each, and the cursors that are made of places by ring. Frames number
 * by ring; messages to and from clients, by CPU.
 */
struct rings {
	struct run run;
	uint32_t n;
	uint32_t *cpu_of;		/* by ring */
};

/* The ring of a CPU, or -1. */
int rings_find(const struct rings *rings, uint32_t cpu);

/* A position for each ring, in their order; seq NULL: 0. free() it. NULL: out of memory. */
struct cursor *rings_cursor(const struct rings *rings, const uint64_t *seq);

/* The same as a message. */
struct cursor_message *rings_message(const struct rings *rings, const uint64_t *seq);

struct spool;
struct stream;

/*
 *	CONFIGURING --in force--> STARTING --all workers--> LIVE --nobody wants it--> REMOVING --> gone
 *	     |  ^
 *	  refused, with others that were new: each is tried alone
 *	     v  |
 *	    HELD
 *
 * Refused alone it is gone at once. Of the run before, it is LIVE before the kernel is told of it.
 */
enum subscription_state {
	SUBSCRIPTION_CONFIGURING,	/* the kernel does not record it yet */
	SUBSCRIPTION_HELD,		/* its turn comes after others' that are tried */
	SUBSCRIPTION_STARTING,		/* the workers do not know it yet */
	SUBSCRIPTION_LIVE,
	SUBSCRIPTION_REMOVING,		/* the workers still know it */
};

/* What was before it. */
enum subscription_origin {
	SUBSCRIPTION_NEW,
	SUBSCRIPTION_REBORN,		/* others went, and numbers stood still until it came */
	SUBSCRIPTION_RESTORED,		/* recorded since before this run of the daemon */
};

/* Where its frames are kept on disk. */
struct subscription_spool {
	struct spool *spool;		/* NULL: nowhere */
	bool unwanted;			/* it goes with the subscription */
	struct frame_ref *hello, *catalog;
	struct run run;			/* this one of the rings */
	uint64_t *end;			/* by ring: what is before is durable; 0: nothing */
	void (*read)(void *context);	/* some stream has got frames off the disk */
	void *context;
	struct durable *durable;	/* that opened it */
};

struct subscription {
	TAILQ_ENTRY(subscription) link;
	uint32_t index;
	enum subscription_state state;
	enum subscription_origin origin;
	bool permanent;			/* the daemon's own, not a client's */
	bool viewers;			/* a viewer made it */
	uint32_t owner;			/* as in its request: no other user shares it */
	bool ended;			/* a Bye ends the log */
	bool begins_late;		/* behind what is on disk: a gap says how much */
	unsigned consumers;		/* durable ones, connected or not */
	bool owes_release;		/* they need less than before, and the disk thread does not know yet */

	struct batcher_spec spec;
	char *filter_text;		/* as it was written; "" for none */
	char **glob;			/* what was asked for, for people */
	size_t globs;
	char **late;			/* what programs may bring later */
	size_t lates;
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
	unsigned clauses;

	uint64_t generation;		/* the configuration that has to be in force first */
	uint32_t workers_pending;	/* have not answered yet that it starts, or goes; */
	uint32_t workers_told;		/* the first so many have been asked */
	uint64_t watermark_ns;		/* of the last one in the log */
	uint64_t linger_until_ns;	/* without clients: when to give it up; 0: has clients */

	struct subscription_spool spool;
	struct frame_log *log;
	struct reach *reach;		/* how far back that goes */
	uint32_t rings;
	uint64_t *position;		/* by ring: the log's end */
	uint64_t *floor;		/* by ring: where the log begins */
	uint64_t *quiet;		/* by ring: attempts skipped since the last frame of the ring */
	TAILQ_HEAD(, stream) streams;
};

TAILQ_HEAD(subscription_list, subscription);

struct subscription_request {
	const char *const *glob;
	size_t globs;
	const char *filter;
	uint32_t flags;			/* RT_FLAG_* */
	bool file_strings;		/* an export's, which is given the strings of files */
	const struct question_request *question;	/* NULL: every event by itself */
	/* A viewer, who sees the probes of its own programs; of others' what viewers may. 0: no such. */
	uint32_t owner;
	/* And of programs, what matches these once it is there, whatever the filter says, which is older. */
	const char *const *late;
	size_t lates;
};

/* A client's fault is -EINVAL or -ENOENT with *error: a bad filter, an unknown probe. */
int subscription_create(const struct subscription_request *request,
			const Ringtail__V1__Catalog *catalog, uint32_t rings,
			uint64_t history_bytes, struct subscription **subscription,
			struct error *error);
void subscription_destroy(struct subscription *subscription);

/* What was asked for, borrowed; but for a question. */
struct subscription_request subscription_request_of(const struct subscription *subscription);

/* The catalog of its probes alone; how many. NULL: out of memory. */
struct frame_ref *subscription_pack_catalog(const struct subscription *subscription,
					    const Ringtail__V1__Catalog *all,
					    struct frame_codec *codec, uint32_t *probes);

/* A program's probe has joined the catalog: whether it wants that, and has it from now on. */
bool subscription_take_late(struct subscription *subscription, const Ringtail__V1__Probe *probe);

/* Whether two deliver the same events. */
bool subscription_equal(const struct subscription *a, const struct subscription *b);

/*
 * Takes a frame, and lets the streams know; the spool, if there is one, gets it too. The reference goes
 * over. After a Bye, no other.
 */
void subscription_append(struct subscription *subscription, struct frame_ref *frame);

#endif
