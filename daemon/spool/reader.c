/* spool_reader: somebody's place in a spool, as the main thread knows it. See spool.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/spool/private.h"
#include "daemon/spool/read.h"

struct spool_reader {
	struct disk_job job;
	struct spool *spool;
	struct spool_read *read;	/* the disk thread's while busy */
	spool_frames *frames;
	void *context;
	bool busy, destroyed;

	size_t bytes;			/* the question */
	unsigned n;			/* the answer */
	bool end;
	struct frame_ref *frame[SPOOL_READ_FRAMES_MAX];
};

static void reader_free(struct spool_reader *reader)
{
	struct spool *spool = reader->spool;

	spool_read_destroy(reader->read);
	free(reader);
	spool->readers--;
	spool_free_if_done(spool);
}

static void on_run(struct disk_job *job, struct disk *disk)
{
	struct spool_reader *reader = (struct spool_reader *)job;

	(void)disk;
	reader->end = spool_read_next(reader->read, reader->spool->store, reader->bytes,
				      reader->frame, SPOOL_READ_FRAMES_MAX, &reader->n);
}

static void on_done(struct disk_job *job)
{
	struct spool_reader *reader = (struct spool_reader *)job;

	reader->busy = false;
	if (!reader->destroyed) {
		reader->frames(reader->context, reader->frame, reader->n, reader->end);
		return;
	}
	for (unsigned i = 0; i < reader->n; i++)
		frame_ref_put(reader->frame[i]);
	reader_free(reader);
}

int spool_reader_create(struct spool *spool, const struct spool_place *where, spool_frames *frames,
			void *context, struct spool_reader **out)
{
	const Ringtail__V1__Cursor *cursor = where->cursor;
	struct spool_reader *reader = calloc(1, sizeof(*reader));
	struct spool_marks *since = cursor ? spool_marks_from(cursor) : NULL;
	uint8_t boot_id[16] = {0};

	if (!reader || (cursor && !since)) {
		free(since);
		free(reader);
		return -ENOMEM;
	}
	if (cursor && cursor->boot_id.len == sizeof(boot_id))
		memcpy(boot_id, cursor->boot_id.data, sizeof(boot_id));
	reader->read = spool_read_create(since, boot_id, cursor ? cursor->epoch : 0,
					 where->realtime_ns);
	if (!reader->read) {
		free(reader);
		return -ENOMEM;
	}
	reader->job.run = on_run;
	reader->job.done = on_done;
	reader->spool = spool;
	reader->frames = frames;
	reader->context = context;
	spool->readers++;
	*out = reader;
	return 0;
}

void spool_reader_next(struct spool_reader *reader, size_t bytes)
{
	reader->busy = true;
	reader->bytes = bytes < SPOOL_READ_BYTES_MAX ? bytes : SPOOL_READ_BYTES_MAX;
	disk_thread_submit(reader->spool->spooler->config.thread, &reader->job);
}

void spool_reader_destroy(struct spool_reader *reader)
{
	if (!reader)
		return;
	/* The callee may end it from within frames(): then it is not busy any more. */
	if (reader->busy)
		reader->destroyed = true;
	else
		reader_free(reader);
}
