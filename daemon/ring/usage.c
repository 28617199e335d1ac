/*
 * ring_usage: what a reader has read of its ring and what the producer says it has written, side by side;
 * see struct ring_usage. On the reader's thread; producers run beside it.
 *
 *	load acquire lost_total, then lost[]		adds to lost[reason], then to lost_total
 */
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/ring/reader_private.h"
#include "daemon/ring/unread.h"

#define LOSERS_MAX	64	/* writers that may be between two counters */

/*
 * What the producer says was lost, twice: the sum by reason, and what lost_total was when that was the
 * sum. A writer adds to the one and then to the other, so of two looks at lost_total around the sum the
 * first is not above it, and the second below it by no more than writers can be between the two; those
 * go into *between. Anything else is left for the residual to show.
 */
static uint64_t sum_lost(const struct rt_ring_producer *producer, uint64_t *lost_total,
			 uint64_t *between)
{
	uint64_t before = load_acquire(&producer->lost_total), sum = 0;

	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		sum += load_acquire(&producer->lost[i]);
	*lost_total = load_acquire(&producer->lost_total);
	*between = 0;
	if (sum >= before && sum <= *lost_total)
		*lost_total = sum;
	else if (sum - *lost_total <= LOSERS_MAX)
		*between = sum - *lost_total;
	return sum;
}

/*
 * The span is of the ring itself, whatever the reader's copy has; where the oldest goes, what was
 * overwritten is counted when the reader comes upon it.
 */
static uint64_t count_unread(const struct ring_reader *reader, uint64_t produced)
{
	struct ring_span span = {
		.data = reader->data, .size_bytes = reader->size_bytes, .key = reader->key,
		.pos = reader->pos, .end = produced,
	};

	if (reader->corrupt || (int64_t)(produced - reader->pos) < 0)
		return 0;
	if (produced - reader->pos > reader->size_bytes)
		span.pos = subbuf_end(reader, produced - reader->size_bytes - 1);
	return ring_unread_count(&span, UNREAD_LOOKS_MAX);
}

void ring_reader_usage(const struct ring_reader *reader, struct ring_usage *usage)
{
	const struct rt_ring_producer *producer = reader->producer;
	uint64_t produced = load_acquire(&producer->producer_pos);
	uint64_t unread = produced - reader->released;
	uint64_t lost_total, between, sum = sum_lost(producer, &lost_total, &between);
	uint64_t records = reader->seq - reader->first_seq;
	uint64_t count = count_unread(reader, produced);

	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		records -= reader->lost[i];
	*usage = (struct ring_usage){
		.produced = records + count + sum - reader->charged_before +
			    reader->overwritten + reader->missed,
		.records = records,
		.unread = count,
		.in_flight = count + lost_total + between - reader->lost_seen + reader->owed +
			     reader->missed,
		.unread_bytes = unread < reader->size_bytes ? unread : reader->size_bytes,
		.size_bytes = reader->size_bytes,
		.torn = reader->torn,
		.foreign = load_acquire(&producer->foreign),
		.unpaired = load_acquire(&producer->unpaired),
		.faults = load_acquire(&producer->faults),
		.consumer_bad = load_acquire(&producer->consumer_bad),
	};
	memcpy(usage->lost, reader->lost, sizeof(usage->lost));
}
