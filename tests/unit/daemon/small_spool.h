/*
 * small_spool: a spool that is an array, of one stream that catches up from it: what the disk holds, what
 * it answers and when, is up to the test that includes this.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_SMALL_SPOOL_H
#define RINGTAIL_TESTS_UNIT_DAEMON_SMALL_SPOOL_H

#include <stdlib.h>
#include <string.h>

#include "daemon/spool/spool.h"

#define FRAMES		4096
#define SPOOL_RINGS_MAX	8

struct spool {
	struct frame_ref *frame[FRAMES];
	unsigned first, end;
	uint64_t stored, in_flight;
	uint64_t began[SPOOL_RINGS_MAX];	/* what is missing before is another reason's: REASON_RESTART */
	bool deaf;				/* what is given in never gets there */
};

struct spool_reader {
	struct spool *spool;
	spool_frames *frames;
	void *context;
	unsigned at;
	bool asked;
};

static struct spool disk;
static struct spool_reader *reader;	/* of the one stream there is */
static struct cursor *reader_cursor;	/* where it was asked to begin; NULL: at this time */
static uint64_t reader_realtime_ns;
static bool reader_fails;

void spool_append(struct spool *spool, struct frame_ref *frame)
{
	if (spool->deaf) {
		frame_ref_put(frame);
		return;
	}
	assert_true(spool->end < FRAMES);
	spool->frame[spool->end++] = frame;
	spool->stored += frame_ref_attempts(frame);
}

void spool_close(struct spool *spool)
{
	if (!spool)
		return;
	while (spool->first < spool->end)
		frame_ref_put(spool->frame[spool->first++]);
	memset(spool, 0, sizeof(*spool));
	free(reader_cursor);
	reader_cursor = NULL;
}

void spool_remove(struct spool *spool)
{
	spool_close(spool);
}

enum loss_reason spool_gap_reason(const struct spool *spool, uint32_t ring, uint64_t end)
{
	return end <= spool->began[ring] ? LOSS_REASON_RESTART : LOSS_REASON_SPOOL_FULL;
}

void spool_stat(const struct spool *spool, struct spool_stat *stat)
{
	*stat = (struct spool_stat){.stored = spool->stored, .in_flight = spool->in_flight};
}

int spool_reader_create(struct spool *spool, const struct spool_place *place, spool_frames *frames,
			void *context, struct spool_reader **out)
{
	if (reader_fails)
		return -ENOMEM;
	assert_null(reader);
	reader = *out = calloc(1, sizeof(*reader));
	*reader = (struct spool_reader){.spool = spool, .frames = frames, .context = context};
	free(reader_cursor);
	reader_cursor = place->cursor ? cursor_copy(place->cursor) : NULL;
	reader_realtime_ns = place->realtime_ns;
	return 0;
}

void spool_reader_next(struct spool_reader *asked, size_t bytes)
{
	assert_true(bytes > 0 && !asked->asked);
	asked->asked = true;
}

void spool_reader_destroy(struct spool_reader *old)
{
	free(old);
	reader = NULL;
}

/* The disk answers with up to n frames. */
static inline void answer(unsigned n)
{
	static struct frame_ref *frame[FRAMES];	/* the reader's: it stays until it is asked again */
	unsigned given = 0;

	if (!reader || !reader->asked)
		return;
	reader->asked = false;
	if (reader->at < disk.first)
		reader->at = disk.first;
	while (given < n && reader->at < disk.end)
		frame[given++] = frame_ref_get(disk.frame[reader->at++]);
	reader->frames(reader->context, frame, given, reader->at == disk.end);
}

static inline void delete_oldest(unsigned n)
{
	while (n-- && disk.first < disk.end)
		frame_ref_put(disk.frame[disk.first++]);
}

#endif
