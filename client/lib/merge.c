#include "client/lib/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/limits.h"
#include "proto/limits.h"

#define STEPS_BETWEEN_COUNTS 64u

struct lane {
	uint32_t cpu;
	struct merge_entry *first, **last;
	struct batch_decoder *decoder;
	struct catalog *decoder_catalog;	/* what the decoder was made from; a reference */
	size_t decoder_bytes;			/* as they are counted in the merge, now and then */
	unsigned steps;
	enum merge_next kind;			/* of what stands first; MERGE_EMPTY: none */
	struct batch_item item;
	struct batch_summary summary;
	const char *why;
	uint64_t time_ns;			/* of what stands first; only grows, */
	uint32_t generation;			/* within one of these */
	uint64_t seq;				/* where what was given out ends */
	const struct merge_entry *looked;	/* up to it was looked for events from before since_ns: */
	uint64_t early_end;			/* the last one found is before this; 0: none was. In this generation, */
	bool is_over;				/* one that is not early was found */
};

struct merge {
	size_t bytes, bytes_max;
	size_t decoder_bytes;			/* of all lanes */
	struct lane *whole;			/* its first goes out before anything else; NULL: none */
	const struct catalog *catalog;		/* the newest, to be compared alone */
	uint64_t watermark_ns;
	uint64_t since_ns;			/* what is before is not wanted */
	uint64_t flushed;			/* entries still to go out at any time */
	uint32_t generation, given_generation;
	uint64_t given_ns;			/* the youngest event given out */
	uint64_t late;
	struct lane *current;			/* the oldest, as long as it is not over rival_ns */
	uint64_t rival_ns;
	struct lane *given;			/* its first was given out: step before use */
	bool keeps_none;			/* no idle decoders */
	unsigned lanes;
	struct lane *lane[CURSOR_POSITIONS_MAX];
};

struct merge *merge_create(size_t bytes_max)
{
	struct merge *merge = calloc(1, sizeof(*merge));

	if (merge)
		merge->bytes_max = bytes_max;
	return merge;
}

void merge_keep_no_decoders(struct merge *merge)
{
	merge->keeps_none = true;
}

struct merge_entry *merge_entry_create(struct catalog *catalog, size_t bytes)
{
	struct merge_entry *entry = malloc(sizeof(*entry) + bytes);

	if (!entry)
		return NULL;
	memset(entry, 0, sizeof(*entry));
	entry->catalog = catalog ? catalog_ref(catalog) : NULL;
	entry->bytes = bytes;
	return entry;
}

void merge_entry_destroy(struct merge_entry *entry)
{
	if (!entry)
		return;
	catalog_unref(entry->catalog);
	free(entry);
}

void merge_destroy(struct merge *merge)
{
	if (!merge)
		return;
	for (unsigned i = 0; i < merge->lanes; i++) {
		struct lane *lane = merge->lane[i];
		struct merge_entry *entry, *next;

		for (entry = lane->first; entry; entry = next) {
			next = entry->next;
			merge_entry_destroy(entry);
		}
		batch_decoder_destroy(lane->decoder);
		catalog_unref(lane->decoder_catalog);
		free(lane);
	}
	free(merge);
}

static void set_time(struct lane *lane, uint64_t time_ns)
{
	if (time_ns > lane->time_ns)
		lane->time_ns = time_ns;
}

static void count_decoder(struct merge *merge, struct lane *lane)
{
	size_t bytes = lane->decoder ? batch_decoder_bytes(lane->decoder) : 0;

	merge->decoder_bytes += bytes - lane->decoder_bytes;
	lane->decoder_bytes = bytes;
}

static void drop_decoder(struct merge *merge, struct lane *lane)
{
	batch_decoder_destroy(lane->decoder);
	catalog_unref(lane->decoder_catalog);
	lane->decoder = NULL;
	lane->decoder_catalog = NULL;
	count_decoder(merge, lane);
}

/* The lane's decoder for a catalog; one serves until the catalog changes. */
static struct batch_decoder *lane_decoder(struct merge *merge, struct lane *lane,
					  struct catalog *catalog)
{
	if (lane->decoder_catalog == catalog)
		return lane->decoder;
	drop_decoder(merge, lane);
	lane->decoder = catalog_decoder_create(catalog);
	if (lane->decoder)
		lane->decoder_catalog = catalog_ref(catalog);
	return lane->decoder;
}

static void stand_at_bad(struct lane *lane, const char *why)
{
	lane->kind = MERGE_BAD;
	lane->why = why;
}

/* Stands at the next item of the open batch; MERGE_EMPTY at its end. */
static void decode_next(struct lane *lane)
{
	switch (batch_decode_next(lane->decoder, &lane->item)) {
	case BATCH_EVENT:
		lane->kind = MERGE_EVENT;
		set_time(lane, lane->item.event.time_ns);
		return;
	case BATCH_LOSS:
		lane->kind = MERGE_LOSS;
		return;
	case BATCH_END:
		lane->kind = MERGE_EMPTY;
		return;
	case BATCH_ERROR:
		break;
	}
	stand_at_bad(lane, batch_decode_error(lane->decoder));
}

/* Stands at what comes first in the lane's first entry. */
static void open_first(struct merge *merge, struct lane *lane)
{
	struct merge_entry *entry = lane->first;
	struct batch_decoder *decoder;

	if (lane->generation != entry->generation) {
		lane->generation = entry->generation;
		lane->time_ns = lane->early_end = 0;
		lane->is_over = false;
	}
	if (!entry->catalog) {
		lane->kind = MERGE_GAP;
		lane->seq = entry->gap.first_seq;
		if (entry->ends_run)
			lane->time_ns = UINT64_MAX;
		return;
	}
	decoder = lane_decoder(merge, lane, entry->catalog);
	lane->seq = entry->gap.first_seq;
	lane->summary = (struct batch_summary){ .end_seq = entry->gap.end_seq };
	if (!decoder) {
		stand_at_bad(lane, "out of memory");
		return;
	}
	if (batch_decode_open(decoder, entry->message, entry->bytes, &lane->summary)) {
		stand_at_bad(lane, batch_decode_error(decoder));
		count_decoder(merge, lane);
		return;
	}
	lane->seq = lane->summary.first_seq;
	decode_next(lane);
	count_decoder(merge, lane);
	if (lane->kind == MERGE_LOSS)	/* nothing before it in this batch tells when it was */
		set_time(lane, lane->summary.time_ns);
}

/* Drops the lane's first entry, whose items have all been given out. */
static void drop_first(struct merge *merge, struct lane *lane)
{
	struct merge_entry *entry = lane->first;

	lane->first = entry->next;
	if (!lane->first)
		lane->last = &lane->first;
	if (lane->looked == entry)
		lane->looked = NULL;
	merge->bytes -= entry->bytes + sizeof(*entry);
	if (merge->flushed)
		merge->flushed--;
	lane->seq = entry->catalog ? lane->summary.end_seq : entry->gap.end_seq;
	merge_entry_destroy(entry);
	/* An idle decoder is kept for the next batch, as long as there is room for others. */
	if (merge->whole == lane ||
	    (!lane->first && (merge->keeps_none || merge->decoder_bytes > MERGE_DECODE_BYTES_MAX / 2 ||
			      lane->decoder_catalog != merge->catalog)))
		drop_decoder(merge, lane);
	if (merge->whole == lane)
		merge->whole = NULL;
}

/* Goes on until the lane stands at something or is empty; each round drops an entry. */
static void settle(struct merge *merge, struct lane *lane)
{
	while (lane->first && lane->kind == MERGE_EMPTY) {
		drop_first(merge, lane);
		if (lane->first)
			open_first(merge, lane);
	}
}

/* Past what was given out. */
static void step(struct merge *merge, struct lane *lane)
{
	if (lane->kind == MERGE_EVENT || lane->kind == MERGE_LOSS) {
		lane->seq = lane->kind == MERGE_EVENT ? lane->item.seq + 1 :
			    lane->item.loss.first_seq + lane->item.loss.count;
		decode_next(lane);
		/* It grows by an event's at most, and to count it costs as much as to decode one. */
		if (++lane->steps % STEPS_BETWEEN_COUNTS == 0)
			count_decoder(merge, lane);
	} else {
		lane->kind = MERGE_EMPTY;
	}
	settle(merge, lane);
}

static struct lane *find_lane(const struct merge *merge, uint32_t cpu)
{
	for (unsigned i = 0; i < merge->lanes; i++)
		if (merge->lane[i]->cpu == cpu)
			return merge->lane[i];
	return NULL;
}

int merge_push(struct merge *merge, uint32_t cpu, struct merge_entry *entry)
{
	struct lane *lane = find_lane(merge, cpu);

	if (!lane) {
		if (merge->lanes == CURSOR_POSITIONS_MAX)
			return -ENOMEM;
		lane = calloc(1, sizeof(*lane));
		if (!lane)
			return -ENOMEM;
		lane->cpu = cpu;
		lane->last = &lane->first;
		merge->lane[merge->lanes++] = lane;
	}
	entry->generation = merge->generation;
	*lane->last = entry;
	lane->last = &entry->next;
	merge->bytes += entry->bytes + sizeof(*entry);
	if (lane->first == entry) {
		open_first(merge, lane);
		settle(merge, lane);
		merge->current = NULL;		/* there is a new rival */
	}
	return 0;
}

void merge_set_since(struct merge *merge, uint64_t time_ns)
{
	merge->since_ns = time_ns;
}

void merge_watermark(struct merge *merge, uint64_t time_ns)
{
	if (time_ns > merge->watermark_ns)
		merge->watermark_ns = time_ns;
}

void merge_set_catalog(struct merge *merge, const struct catalog *catalog)
{
	merge->catalog = catalog;
	merge_flush(merge);
	for (unsigned i = 0; i < merge->lanes; i++)
		if (!merge->lane[i]->first)
			drop_decoder(merge, merge->lane[i]);
}

void merge_flush(struct merge *merge)
{
	merge->flushed = 0;
	for (unsigned i = 0; i < merge->lanes; i++)
		for (const struct merge_entry *entry = merge->lane[i]->first; entry;
		     entry = entry->next)
			merge->flushed++;
}

void merge_end_run(struct merge *merge)
{
	merge_flush(merge);
	merge->current = NULL;
	for (unsigned i = 0; i < merge->lanes; i++) {
		struct lane *lane = merge->lane[i];
		struct merge_entry *entry, *gap = NULL;

		for (entry = lane->first; entry; entry = entry->next)
			gap = entry->catalog ? NULL : gap ? gap : entry;
		for (entry = gap; entry; entry = entry->next)
			entry->ends_run = true;
		if (gap && gap == lane->first)
			lane->time_ns = UINT64_MAX;
	}
}

void merge_restart(struct merge *merge)
{
	merge_flush(merge);
	merge->generation++;
	merge->watermark_ns = 0;
}

/* The lane whose first item is oldest, and the time up to which it stays that. */
static struct lane *oldest(struct merge *merge)
{
	struct lane *best = NULL;

	merge->rival_ns = UINT64_MAX;
	for (unsigned i = 0; i < merge->lanes; i++) {
		struct lane *lane = merge->lane[i];

		if (!lane->first)
			continue;
		if (!best || lane->time_ns < best->time_ns) {
			if (best)
				merge->rival_ns = best->time_ns;
			best = lane;
		} else if (lane->time_ns < merge->rival_ns) {
			merge->rival_ns = lane->time_ns;
		}
	}
	return best;
}

/*
 * ---- From before the time that was asked for ---------------------------------------------------
 *
 * A spool is read from somewhat before that time. When something was lost nobody knows; but what stands before
 * an event from before that time was lost before it, too.
 */

/* A batch's events from before that time: seldom, and the item it takes apart is large. */
static __attribute__((noinline)) void look_for_early(const struct merge *merge, struct lane *lane,
						     const struct merge_entry *entry)
{
	struct batch_decoder *decoder = catalog_decoder_create(entry->catalog);
	struct batch_summary summary = { 0 };
	struct batch_item item;
	enum batch_item_kind got = BATCH_END;

	if (decoder && !batch_decode_open(decoder, entry->message, entry->bytes, &summary))
		got = batch_decode_next(decoder, &item);
	for (; !lane->is_over && (got == BATCH_EVENT || got == BATCH_LOSS);
	     got = batch_decode_next(decoder, &item)) {
		if (got != BATCH_EVENT)
			continue;
		lane->is_over = item.event.time_ns >= merge->since_ns;
		if (!lane->is_over)
			lane->early_end = item.seq + 1;
	}
	batch_decoder_destroy(decoder);
}

/* Whether such an event is behind what ends there. Each entry of a lane is looked at once. */
static bool is_before_early(const struct merge *merge, struct lane *lane, uint64_t end_seq)
{
	const struct merge_entry *entry = lane->looked ? lane->looked->next : lane->first;

	for (; entry && entry->generation == lane->generation && !lane->is_over && lane->early_end <= end_seq;
	     entry = entry->next) {
		lane->looked = entry;
		if (entry->catalog)
			look_for_early(merge, lane, entry);
	}
	return end_seq < lane->early_end;
}

static bool is_early(const struct merge *merge, struct lane *lane)
{
	uint64_t end_seq = lane->kind == MERGE_GAP ? lane->first->gap.end_seq :
						     lane->item.loss.first_seq + lane->item.loss.count;

	return (lane->kind == MERGE_GAP || lane->kind == MERGE_LOSS) && lane->time_ns < merge->since_ns &&
	       is_before_early(merge, lane, end_seq);
}

/* It stands at the last that came, and what comes behind it may still be early. */
static bool is_undecided(const struct merge *merge, const struct lane *lane)
{
	return lane->kind != MERGE_BAD && lane->time_ns < merge->since_ns &&
	       merge->watermark_ns < merge->since_ns && !lane->first->next && !lane->is_over;
}

static void fill(struct merge *merge, struct lane *lane, struct merge_item *item)
{
	*item = (struct merge_item){
		.cpu = lane->cpu,
		.time_ns = lane->time_ns,
		.batch = &lane->item,
		.gap = &lane->first->gap,
		.catalog = lane->first->catalog,
		.decoder = lane->decoder,
		.offset = lane->first->offset,
	};
	if (merge->given_generation != lane->generation) {
		merge->given_generation = lane->generation;
		merge->given_ns = 0;
	}
	if (lane->first->ends_run) {
		item->time_ns = merge->given_ns;
	} else if (lane->kind == MERGE_EVENT) {
		if (lane->item.event.time_ns < merge->given_ns)
			merge->late += lane->item.seq >= lane->first->gap.first_seq;	/* else it is not new */
		else
			merge->given_ns = lane->item.event.time_ns;
		item->time_ns = lane->item.event.time_ns;
	} else if (lane->kind == MERGE_BAD) {
		item->first_seq = lane->seq;
		item->end_seq = lane->summary.end_seq;
		item->why = lane->why;
	}
}

enum merge_next merge_next(struct merge *merge, struct merge_item *item)
{
	struct lane *lane;
	bool over, waits, early = false;

	if (merge->given) {
		step(merge, merge->given);
		merge->given = NULL;
	}
	over = merge->decoder_bytes > MERGE_DECODE_BYTES_MAX;
	lane = merge->whole ? merge->whole : merge->current;
	if (!lane || !lane->first || (!merge->whole && (over || lane->time_ns > merge->rival_ns))) {
		lane = oldest(merge);
		merge->current = lane;
		if (!lane)
			return MERGE_EMPTY;
		if (over)
			merge->whole = lane;
	}
	waits = lane->time_ns >= merge->watermark_ns;
	if (lane->kind != MERGE_EVENT) {
		early = is_early(merge, lane);
		waits |= !early && is_undecided(merge, lane);
	}
	if (waits && !merge->flushed && !merge->whole && merge->bytes <= merge->bytes_max)
		return MERGE_EMPTY;
	fill(merge, lane, item);
	item->is_early = early;
	merge->given = lane;
	return lane->kind;
}

bool merge_waiting(const struct merge *merge, uint32_t cpu, uint64_t *seq)
{
	const struct lane *lane = find_lane(merge, cpu);

	if (!lane || !lane->first)
		return false;
	*seq = lane->seq;
	if (merge->given == lane && lane->kind == MERGE_EVENT)
		*seq = lane->item.seq + 1;
	else if (merge->given == lane && lane->kind == MERGE_LOSS)
		*seq = lane->item.loss.first_seq + lane->item.loss.count;
	else if (merge->given == lane && lane->kind == MERGE_GAP)
		*seq = lane->first->gap.end_seq;
	return true;
}

uint64_t merge_late(const struct merge *merge)
{
	return merge->late;
}

size_t merge_bytes(const struct merge *merge)
{
	return merge->bytes;
}
