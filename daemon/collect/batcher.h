/*
 * batcher: one ring's records as one subscription sees them: what it asked for goes into a batch,
 * the rest is counted as skipped, losses are placed. Finished batches leave as frames.
 *
 * A drain worker owns it. The drain passes every attempt on the ring to it exactly once and in order.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_BATCHER_H
#define RINGTAIL_DAEMON_COLLECT_BATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "query/filter.h"
#include "daemon/base/frame_ref.h"
#include "daemon/collect/counting.h"
#include "query/probe_set.h"
#include "daemon/ring/probe_table.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/thread_table.h"

struct batcher;

/* Beside RT_FLAG_*: a batch has each stack once, and the maps of processes with stacks come along. */
#define SPEC_STACK_TABLE	(1u << 7)

/* What a subscription wants, immutable while any worker knows it, but for probes that are added. */
struct batcher_spec {
	struct probe_set probes;
	struct probe_set late;		/* of these, those that the filter cannot know: it is not asked */
	const struct filter *filter;	/* NULL: everything */
	bool filter_of_kernel;		/* whatever passes the subscription's clauses passes it */
	uint32_t flags;			/* RT_FLAG_*: attachments to pass on; SPEC_STACK_TABLE */
	bool context;			/* threads with exe and cgroup: asked for, or by the filter */
	bool file_strings;		/* strings, too, but the kernel need read only those of files */
	const struct question *question;	/* NULL: each event is encoded by itself */
};

/*
 * Takes a finished frame: a batch, or (no bytes) a range that held nothing for this subscription. False:
 * there is no memory to take it, and it stays the batcher's.
 */
typedef bool batcher_sink(void *context, uint32_t subscription, struct frame_ref *frame);

struct batcher_config {
	const struct batcher_spec *spec;	/* all borrowed for the batcher's life */
	struct thread_table *threads;
	struct frame_codec *codec;
	batcher_sink *sink;
	void *context;
	uint32_t subscription;
	uint32_t ring, cpu;
};

/* Whether it wants the text of that field of a probe's events. */
bool batcher_wants_text(const struct batcher_spec *spec, uint16_t probe, const struct probe_info *info,
			uint32_t field);

/* Which field an attachment belongs to, of all that the probe has: its `arg` counts arguments. */
uint32_t batcher_field_of_arg(const struct probe_info *info, uint32_t arg);

struct batcher *batcher_create(const struct batcher_config *config);
void batcher_destroy(struct batcher *batcher);

const struct batcher_spec *batcher_spec_of(const struct batcher *batcher);

/* Begins with attempt `seq`. */
void batcher_start(struct batcher *batcher, uint64_t seq, uint64_t time_ns);

/*
 * An event of a known probe, its thread (or THREAD_NONE), and how many payload words are fields (the
 * rest is attachments).
 */
void batcher_event(struct batcher *batcher, const struct ring_item *item,
		   const struct probe_info *info, uint32_t thread);

/* An attempt that is nobody's event, and several. */
void batcher_skip(struct batcher *batcher);
void batcher_skip_all(struct batcher *batcher, uint64_t attempts);

/* The probes of which the batcher is content with batcher_counted() in the place of their events; NULL: none. */
const struct probe_set *batcher_plain_probes(const struct batcher_spec *spec);

/*
 * Events that were counted and not recorded, and that have passed the filter in the kernel. A batcher that wants more of
 * them skips them: as long as one does, events are recorded, so these began before it.
 */
void batcher_counted(struct batcher *batcher, const struct ring_counted *counted, const struct probe_info *info,
		     uint64_t time_ns);

/* An attempt at an event of one of the probes from first to last, which was lost: nobody's, if none is wanted. */
void batcher_loss_of(struct batcher *batcher, const struct rt_loss *of, uint32_t stage, uint32_t reason);

/* Attempts that were lost, at events of whatever probe. */
void batcher_loss(struct batcher *batcher, uint64_t count, uint32_t stage, uint32_t reason);

/* The thread with this index has another meaning from now on. */
void batcher_forget_thread(struct batcher *batcher, uint32_t thread);

/*
 * Hands everything so far to the sink. Where there is no memory for a frame, a gap takes its place,
 * once there is some for that.
 */
void batcher_flush(struct batcher *batcher);

/* The same, but of a question what is counted stays until its slice is over; no older event than until_ns will come. */
void batcher_tick(struct batcher *batcher, uint64_t until_ns);

#endif
