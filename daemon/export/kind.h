/*
 * export_kind: how one back end's protocol differs from another's: where to post, how to make a body
 * of events or metrics, and what an answer means. One row of export_kinds[] and one file each;
 * docs/exporters.md says how to add one. The export thread.
 *
 *	events --take--> queue --build--> body --compress, post--> answer --judge--> verdict
 *	metrics ------------------build-metrics--> ...
 */
#ifndef RINGTAIL_DAEMON_EXPORT_KIND_H
#define RINGTAIL_DAEMON_EXPORT_KIND_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/export/event.h"
#include "daemon/export/run.h"
#include "daemon/metrics/metric.h"

/* Memory for the pieces of one message: reserved in one go, so that only that can fail. */
struct export_arena {
	uint8_t *data;
	size_t used, bytes;
};

/* Empties it and makes room. -ENOMEM: it is empty then. */
int export_arena_reserve(struct export_arena *arena, size_t bytes);
void export_arena_fini(struct export_arena *arena);

/* Aligned for anything, not zeroed. Whoever takes more than is reserved has a bug. */
void *export_arena_take(struct export_arena *arena, size_t bytes);

/* What export_arena_take() uses up for so many bytes, at most. */
#define EXPORT_ARENA_ROUND(bytes) (((bytes) + 15u) & ~(size_t)15u)

/* Before it is compressed; the data is allocated, the caller's. */
struct export_body {
	uint8_t *data;
	size_t bytes;
	uint64_t items;		/* what the back end will count: log records, spans, points */
};

/* -ENOMEM. */
int export_body_pack(struct export_body *body, const ProtobufCMessage *message, uint64_t items);

enum export_encoding {
	EXPORT_GZIP,
	EXPORT_SNAPPY,
};

/* "gzip", as the header Content-Encoding says it. */
const char *export_encoding_name(enum export_encoding encoding);

/* *out is allocated, the caller's. -ENOMEM. */
int export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
		    uint8_t **out, size_t *out_bytes);

/* What export_compress() made, undone. -ENOMEM, -EIO. */
int export_compress_undo(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
			 uint8_t **out, size_t *out_bytes);

/* What bodies are made with. */
struct export_maker {
	const struct export_run *run;	/* of every event in the body */
	struct export_arena *arena;
	uint64_t to_realtime_ns;	/* added to an event's time, makes it the wall clock's */
};

/* What a kind has made of events. */
struct export_taken {
	struct export_list send, drop;
	uint64_t merged;	/* that are a part of others, and go out with them */
	uint64_t memory;	/* for which there was no room, or no memory: they are destroyed */
};

enum export_outcome {
	EXPORT_ACCEPTED,	/* but for `rejected` items */
	EXPORT_REJECTED,	/* for something that is in it: the rest may be accepted without that */
	EXPORT_RETRY,		/* the back end is away or busy: later */
	EXPORT_HOLD,		/* it refuses whoever sends, whatever is sent: once that is mended */
};

/* What a refusal says of the time of what was sent. No setting of ours mends that. */
enum export_lateness {
	EXPORT_IN_TIME,		/* nothing */
	EXPORT_BEHIND,		/* something newer of its stream, or series, is there already */
	EXPORT_TOO_OLD,		/* it is before the time from which anything is taken */
};

struct export_verdict {
	enum export_outcome outcome;
	uint64_t rejected;	/* items of an accepted body */
	enum export_lateness late;
	char message[128];	/* the back end's words, if it had any */
};

struct export_kind {
	const char *name;	/* "otlp-logs" */
	const char *path;	/* where to post, if the URL says nothing */
	enum export_encoding encoding;
	const char *const *headers;	/* beyond type and encoding; ends with NULL */

	/* Kinds that send events, those of one run at a time: */
	int (*build)(const struct export_maker *maker, const struct export_list *events,
		     struct export_body *body);
	/* Where there is more to an event than itself: a state, and what it makes of events, in the
	 * order of time: each goes on to *taken, at once or later. NULL: what was chosen goes out. */
	void *(*create)(const struct export_host *host);
	void (*destroy)(void *state);
	void (*take)(void *state, struct export_event *event, struct export_taken *taken);
	void (*flush)(void *state, struct export_taken *taken);	/* no more will come */
	uint64_t (*waiting)(const void *state);		/* taken, and in no list yet */

	/* Kinds that send metrics: */
	int (*build_metrics)(const struct export_maker *maker,
			     const struct metric_snapshot *snapshot, struct export_body *body);
	/* Of a body that it made, so many points from that one on. -ENOMEM. */
	int (*build_part)(const uint8_t *body, size_t bytes, uint64_t from, uint64_t points,
			  struct export_body *part);

	void (*judge)(long status, const uint8_t *answer, size_t bytes,
		      struct export_verdict *verdict);
};

/* Ends with NULL. */
extern const struct export_kind *const export_kinds[];

/* NULL: there is none of that name. */
const struct export_kind *export_kind_find(const char *name);

extern const struct export_kind export_otlp_logs, export_otlp_traces, export_otlp_metrics,
	export_loki, export_remote_write;

/*
 * Any 2xx is accepted; 400, 413 and 422 are about what is in the body; 408, 429 and any 5xx pass. All
 * else (a redirection, 401, 403, 404 ...) is about the URL, the headers or the back end's settings.
 */
void export_judge_status(long status, struct export_verdict *verdict);

/*
 * The same, and what a refusal's text says: to people, and of the time of what was sent. For that is
 * about the body whatever the status is: Thanos answers 409, and Prometheus 2 answers 500 where it
 * takes samples out of order, but none so old.
 */
void export_judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict);

/* Keeps the start of an answer's text for people. */
void export_judge_text(const uint8_t *answer, size_t bytes, struct export_verdict *verdict);

#endif
