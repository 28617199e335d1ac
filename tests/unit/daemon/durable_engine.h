/*
 * durable_engine: a small engine above a directory of the real disk, in which durable consumers live; what lies in
 * that directory; and exporters that take nothing of what they are given.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_DURABLE_ENGINE_H
#define RINGTAIL_TESTS_UNIT_DAEMON_DURABLE_ENGINE_H

#include "tests/unit/daemon/small_engine.h"

#include <ftw.h>
#include <stdio.h>

static char directory[] = "/tmp/durable_engine.XXXXXX";
static struct disk disk;
static struct disk_ops disk_ops;	/* the real disk's, unless a test puts its own in their place */

/* What a crash leaves is not asked here: nothing waits for the disk. */
static inline int no_sync(struct disk *of, int file)
{
	(void)of, (void)file;
	return 0;
}

static inline int no_sync_directory(struct disk *of, const char *path)
{
	(void)of, (void)path;
	return 0;
}

static inline void durable_engine_setup(void)
{
	struct error error;

	strcpy(directory + strlen(directory) - 6, "XXXXXX");
	assert_non_null(mkdtemp(directory));
	assert_int_equal(disk_posix_open(directory, &disk, &error), 0);
	disk_ops = *disk.ops;
	disk_ops.sync = no_sync;
	disk_ops.sync_directory = no_sync_directory;
	disk.ops = &disk_ops;
	engine_disk = &disk;
	engine_durable = true;
	engine_segment_bytes = 1500;
	engine_spool_bytes = 64 << 20;
	engine_epoch = 99;
}

static inline int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
	(void)stat, (void)kind, (void)ftw;
	return remove(path);
}

static inline int teardown(void **state)
{
	(void)state;
	disk_posix_close(&disk);
	return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- What lies there --------------------------------------------------------------------------- */

/* The file's text; "": there is none. */
static inline const char *text_of(const char *name)
{
	static char text[64 << 10];
	char path[256];
	FILE *file;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "r");
	if (file) {
		n = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[n] = '\0';
	return text;
}

static unsigned files;
static unsigned long oldest, newest;	/* their sequence numbers */

static inline int count_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
	unsigned long sequence = strtoul(path + ftw->base, NULL, 16);

	(void)stat;
	if (kind != FTW_F)
		return 0;
	oldest = !files || sequence < oldest ? sequence : oldest;
	newest = sequence > newest ? sequence : newest;
	files++;
	return 0;
}

/* Segments of that spool; "": of all. */
static inline unsigned segments(const char *spool)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/spool/%s", directory, spool);
	files = 0;
	oldest = newest = 0;
	nftw(path, count_one, 8, FTW_PHYS);
	return files;
}

/*
 * The number of the oldest segment; 0: there is none. What is freed is told by this, and not by how many there are:
 * watermarks that come meanwhile may fill the last one and begin another.
 */
static inline unsigned long oldest_segment(const char *spool)
{
	segments(spool);
	return oldest;
}

static inline unsigned long newest_segment(const char *spool)
{
	segments(spool);
	return newest;
}

/* ---- Exporters --------------------------------------------------------------------------------- */

static inline int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	(void)context, (void)stream, (void)from;
	return 0;
}

static inline void on_refused(void *context, const struct error *error)
{
	(void)context, (void)error;
}

static inline void on_wake(void *context)
{
	(void)context;
}

static inline int tap(struct engine *e, struct subscriber *exporter, const char *consumer, const char *probe,
		      const char *filter, struct error *error)
{
	struct subscribe_request request = {
		.what = {.glob = &probe, .globs = 1, .filter = filter}, .consumer = consumer,
	};

	*exporter = (struct subscriber){.live = on_live, .refused = on_refused, .wake = on_wake};
	return fanout_subscribe(e->fanout, exporter, &request, error);
}

static inline void untap(struct engine *e, struct subscriber *exporter)
{
	struct stream *stream = exporter->stream;

	fanout_leave(e->fanout, exporter, true);
	stream_destroy(stream);
}

/* ---- Consumers --------------------------------------------------------------------------------- */

static inline struct subscription *subscription_of(const struct engine *e, const char *name)
{
	struct consumer *consumer = consumers_find(e->consumers, name);

	assert_non_null(consumer);
	return consumer->subscription;
}

static inline struct spool_stat spool_of(const struct engine *e, const char *name)
{
	struct subscription *subscription = subscription_of(e, name);
	struct spool_stat stat;

	assert_non_null(subscription);
	assert_non_null(subscription->spool.spool);
	spool_stat(subscription->spool.spool, &stat);
	return stat;
}

static inline void copy_name(const struct engine *e, const char *consumer, char name[SPOOL_NAME_BYTES])
{
	snprintf(name, SPOOL_NAME_BYTES, "%s", spool_of(e, consumer).config->name);
}

static inline void always_on(struct engine *e, const char *probe)
{
	struct subscription_request request = {.glob = &probe, .globs = 1, .filter = ""};
	struct error error;

	assert_int_equal(fanout_set_permanent(e->fanout, &request, NULL, NULL, &error), 0);
}

static inline struct consumer *find_relays(const struct engine *e)
{
	return consumers_find(e->consumers, CONSUMER_RELAY);
}

/* Writes so many on each ring, and waits until there are that many segments more. */
static inline void record(struct engine *e, const char *spool, unsigned calls, unsigned more)
{
	unsigned before = segments(spool);

	for (unsigned written = 0; written < ENGINE_RINGS * calls; written += 100) {
		engine_write(e, 100);
		engine_settle(e);
	}
	PEER_AWAIT(e->base, segments(spool) >= before + more);
	engine_settle(e);
}

#endif
