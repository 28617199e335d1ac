/*
 * answers: the edge where the daemon's own structs become messages: hello, list, probes, stat and hosts; and how the
 * daemon stands, gathered from every room's own account as one plain struct (metrics/stat.h).
 *
 * In: the rooms. Out: struct daemon_stat; frames, each of which is the caller's, or NULL when out of memory. Main
 * thread.
 */
#ifndef RINGTAIL_DAEMON_SERVE_ANSWERS_H
#define RINGTAIL_DAEMON_SERVE_ANSWERS_H

#include "query/error.h"
#include "daemon/export/feed.h"
#include "daemon/metrics/stat.h"
#include "daemon/relay/relay.h"
#include "daemon/stream/fanout.h"
#include "daemon/source/loader.h"
#include "daemon/serve/always_on.h"
#include "daemon/serve/session.h"
#include "daemon/spool/spool.h"
#include "daemon/trigger/triggers.h"
#include "daemon/collect/worker.h"

struct answers {
	struct frame_codec *codec;
	struct loader *loader;
	struct fanout *fanout;
	struct worker **worker;
	unsigned workers;
	struct run run;
	uint64_t started_ns;
	uint64_t queue_bytes;
	const struct export_feed *exports;	/* NULL: none */
	const struct triggers *triggers;	/* NULL: none */
	const struct spooler *spooler;		/* NULL: nothing is kept on disk */
	uint64_t batch_interval_ns;
	struct relay *relay;			/* NULL: this is none */
	const struct programs *programs;	/* NULL: there are none */
};

/* role: what the client may do. */
struct frame_ref *answers_hello(const struct answers *answers, const char *role);

struct answers_list_question {
	const char *glob;			/* empty: all */
	bool offers;				/* also what can be made */
	bool prints;				/* with how the kernel prints them */
	bool names_processes;			/* of programs; else they are only counted, */
	uint32_t owner;				/* but for those of this user; 0: nobody */
};

/* NULL with *error: unknown-probe, with the nearest names; list-too-large. */
struct frame_ref *answers_list(const struct answers *answers, const struct answers_list_question *question,
			       struct error *error);

/* What is always on: at most 2 * SUBSCRIBE_PROBES_MAX, and the filter or NULL. */
struct frame_ref *answers_probes(struct frame_codec *codec, const struct always_on_probe *list, size_t n,
				 const char *filter, uint32_t flags);

/*
 * session[]: the clients to list, of so many that are connected. Free the result by daemon_stat_free(); NULL: out of
 * memory.
 */
struct daemon_stat *answers_gather(const struct answers *answers, struct session *const *session,
				   unsigned sessions, unsigned connected);

/* The spools of stat, and what a crash costs by their durability. NULL: nothing is kept on disk. */
int answers_gather_spools(struct daemon_stat *stat, const struct spooler *spooler,
			  uint64_t batch_interval_ns);

/* Hosts of a relay, behind that one. NULL with *error: not-a-relay, out-of-memory. */
struct frame_ref *answers_hosts(const struct answers *answers, const char *after, struct error *error);

/* NULL also where it does not fit into a frame. */
struct frame_ref *answers_stat(const struct answers *answers, const struct daemon_stat *stat);

/* Only what is about that durable consumer: it, and its spool. The rest of *stat is left out there, too. */
struct frame_ref *answers_stat_of(const struct answers *answers, struct daemon_stat *stat, const char *consumer);

#endif
