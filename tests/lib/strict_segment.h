/*
 * strict_segment: a spool's segment by its own words, as `tracectl read` takes it: each frame goes on
 * where the one before ended, or a watermark says how much was skipped between them. What nothing
 * tells of is the residual.
 *
 * Its end must say what it holds, to the byte.
 *
 * Several segments may be read one after the other: a hole between two is no residual, for the second
 * one says where it begins.
 */
#ifndef RINGTAIL_TESTS_LIB_STRICT_SEGMENT_H
#define RINGTAIL_TESTS_LIB_STRICT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define STRICT_RINGS_MAX 16u

struct strict_ring {
	uint32_t cpu;
	bool begins;			/* a segment does: its first frame may hold what is known */
	uint64_t seq;
	uint64_t told;			/* some frame tells of what is before, not where it begins */
};

struct strict {
	struct frame_codec *codec;
	uint64_t epoch;			/* of its last hello */
	struct strict_ring ring[STRICT_RINGS_MAX];
	unsigned rings;
	uint64_t residual, holes, events;
	unsigned watermarks, gaps;
	unsigned wrong_ends;		/* a SegmentEnd that says something else than the segment */
};

/* What a segment's end must say of it. */
struct strict_tally {
	uint64_t frames, events, first_time_ns, last_time_ns;
};

/* NULL: nothing was heard of that CPU. */
static inline struct strict_ring *strict_find(struct strict *strict, uint32_t cpu)
{
	for (unsigned i = 0; i < strict->rings; i++)
		if (strict->ring[i].cpu == cpu)
			return &strict->ring[i];
	return NULL;
}

static inline void strict_know(struct strict *strict, uint32_t cpu, uint64_t seq)
{
	if (strict->rings < STRICT_RINGS_MAX)
		strict->ring[strict->rings++] = (struct strict_ring){.cpu = cpu, .seq = seq};
}

static inline void strict_tell(struct strict *strict, uint32_t cpu, uint64_t seq)
{
	struct strict_ring *ring = strict_find(strict, cpu);

	if (ring && ring->told < seq)
		ring->told = seq;
}

static inline void strict_range(struct strict *strict, uint32_t cpu, uint64_t first_seq,
				uint64_t end_seq)
{
	struct strict_ring *ring = strict_find(strict, cpu);

	if (!ring) {
		strict_know(strict, cpu, end_seq);
		strict_tell(strict, cpu, end_seq);
		return;
	}
	if (first_seq > ring->seq)
		strict->residual += first_seq - ring->seq;
	if (first_seq < ring->seq && !ring->begins)
		strict->residual += (ring->seq < end_seq ? ring->seq : end_seq) - first_seq;
	if (end_seq > ring->seq) {
		ring->seq = end_seq;
		ring->begins = false;
	}
	strict_tell(strict, cpu, end_seq);
}

/* What was given up for lost may have come to the disk all the same. */
static inline void strict_gap(struct strict *strict, const Ringtail__V1__Gap *gap)
{
	const struct strict_ring *ring = strict_find(strict, gap->cpu);
	uint64_t first_seq = gap->first_seq;

	if (ring && first_seq < ring->seq)
		first_seq = ring->seq < gap->end_seq ? ring->seq : gap->end_seq;
	strict->gaps++;
	if (first_seq < gap->end_seq)
		strict_range(strict, gap->cpu, first_seq, gap->end_seq);
}

static inline void strict_watermark(struct strict *strict,
				    const Ringtail__V1__Watermark *watermark)
{
	strict->watermarks++;
	for (size_t i = 0; i < watermark->n_position; i++) {
		const Ringtail__V1__Position *position = watermark->position[i];
		struct strict_ring *ring = strict_find(strict, position->cpu);

		if (!ring)
			strict_know(strict, position->cpu, position->seq);
		strict_tell(strict, position->cpu, position->seq);
		if (!ring || position->seq <= ring->seq)
			continue;
		if (position->seq - ring->seq > position->skipped)
			strict->residual += position->seq - ring->seq - position->skipped;
		ring->seq = position->seq;
	}
}

static inline void strict_start(struct strict *strict, const Ringtail__V1__Cursor *start)
{
	for (size_t i = 0; start && i < start->n_position; i++) {
		const Ringtail__V1__Position *position = start->position[i];
		struct strict_ring *ring = strict_find(strict, position->cpu);

		if (!ring) {
			strict_know(strict, position->cpu, position->seq);
			ring = strict_find(strict, position->cpu);
		}
		if (!ring)
			continue;
		if (ring->seq < position->seq) {
			strict->holes += position->seq - ring->seq;
			ring->seq = position->seq;
		}
		ring->begins = true;
	}
}

static inline void strict_message(struct strict *strict, uint8_t type, const uint8_t *body,
				  size_t bytes)
{
	Ringtail__V1__Subscribed *subscribed;
	Ringtail__V1__ServerHello *hello;
	Ringtail__V1__Watermark *watermark;
	Ringtail__V1__Batch *batch;
	Ringtail__V1__Gap *gap;

	switch (type) {
	case FRAME_BATCH:
		batch = ringtail__v1__batch__unpack(NULL, bytes, body);
		if (!batch)
			break;
		strict_range(strict, batch->cpu, batch->first_seq, batch->end_seq);
		strict->events += batch->events;
		ringtail__v1__batch__free_unpacked(batch, NULL);
		break;
	case FRAME_GAP:
		gap = ringtail__v1__gap__unpack(NULL, bytes, body);
		if (!gap)
			break;
		strict_gap(strict, gap);
		ringtail__v1__gap__free_unpacked(gap, NULL);
		break;
	case FRAME_WATERMARK:
		watermark = ringtail__v1__watermark__unpack(NULL, bytes, body);
		if (!watermark)
			break;
		strict_watermark(strict, watermark);
		ringtail__v1__watermark__free_unpacked(watermark, NULL);
		break;
	case FRAME_SERVER_HELLO:
		hello = ringtail__v1__server_hello__unpack(NULL, bytes, body);
		strict->epoch = hello ? hello->epoch : 0;
		if (hello)
			ringtail__v1__server_hello__free_unpacked(hello, NULL);
		break;
	case FRAME_SUBSCRIBED:
		subscribed = ringtail__v1__subscribed__unpack(NULL, bytes, body);
		if (!subscribed)
			break;
		strict_start(strict, subscribed->start);
		ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
		break;
	default:
		break;
	}
}

static inline void strict_count(struct strict_tally *tally, const struct strict *strict, uint64_t events,
				uint8_t type, const uint8_t *body, size_t bytes)
{
	Ringtail__V1__Watermark *watermark;

	tally->frames += type == FRAME_BATCH || type == FRAME_GAP || type == FRAME_WATERMARK;
	tally->events += strict->events - events;
	if (type != FRAME_WATERMARK)
		return;
	watermark = ringtail__v1__watermark__unpack(NULL, bytes, body);
	tally->last_time_ns = watermark ? watermark->time_ns : 0;
	if (!tally->first_time_ns)
		tally->first_time_ns = tally->last_time_ns;
	if (watermark)
		ringtail__v1__watermark__free_unpacked(watermark, NULL);
}

/* Of each CPU that anything tells of, and no further. */
static inline bool strict_is_at(struct strict *strict, const Ringtail__V1__Cursor *end)
{
	for (size_t i = 0; end && i < end->n_position; i++) {
		const struct strict_ring *ring = strict_find(strict, end->position[i]->cpu);

		if (!ring || ring->seq != end->position[i]->seq)
			return false;
	}
	return end && end->epoch == strict->epoch;
}

static inline void strict_end(struct strict *strict, const struct strict_tally *tally, const uint8_t *file,
			      size_t at, const uint8_t *body, size_t bytes)
{
	Ringtail__V1__SegmentEnd *end = ringtail__v1__segment_end__unpack(NULL, bytes, body);

	strict->wrong_ends += !end || end->bytes != at || end->crc32c != frame_crc32c(0, file, at) ||
			      end->frames != tally->frames || end->events != tally->events ||
			      end->first_time_ns != tally->first_time_ns ||
			      end->last_time_ns != tally->last_time_ns || !strict_is_at(strict, end->end);
	if (end)
		ringtail__v1__segment_end__free_unpacked(end, NULL);
}

/* Up to its end, or to what the disk has torn. */
static inline void strict_read(struct strict *strict, const uint8_t *bytes, size_t n)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	struct strict_tally tally = {0};
	struct frame_header header;
	const uint8_t *body;

	for (size_t at = 0; at < n; at += FRAME_HEADER_BYTES + header.body_bytes) {
		uint64_t events = strict->events;

		if (frame_parse_header(bytes + at, n - at, sizeof(raw), &header) != FRAME_OK ||
		    frame_open(strict->codec, bytes + at, &header, raw, &body) != FRAME_OK)
			return;
		strict_message(strict, header.type, body, header.raw_bytes);
		strict_count(&tally, strict, events, header.type, body, header.raw_bytes);
		if (header.type == FRAME_SEGMENT_END)
			strict_end(strict, &tally, bytes, at, body, header.raw_bytes);
	}
}

#endif
