/*
 * dumps: the files that triggers have written, in a directory of their own below state-dir, within a bound of
 * bytes and of files: beyond it, the oldest is deleted, and the log says so.
 *
 *	dumps/20261123T031500Z-slow-fsync.rt	whole: it ends with a Bye that says what it is
 *	dumps/20261123T031700Z-oom.part		being written; or, of an earlier run of the daemon, cut short
 *
 * In: what is there at the start; what dump.h begins, grows and ends. Out: a list; paths. Main thread, and
 * jobs of the disk thread.
 */
#ifndef RINGTAIL_DAEMON_TRIGGER_DUMPS_H
#define RINGTAIL_DAEMON_TRIGGER_DUMPS_H

#include <stdint.h>
#include <sys/queue.h>

#include "daemon/base/frame_ref.h"
#include "daemon/disk/thread.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/error.h"

#define DUMPS_DIRECTORY	"dumps"
#define DUMP_PATH_BYTES	(DUMP_ID_BYTES_MAX + 16)

enum dump_state {
	DUMP_WRITING,
	DUMP_WHOLE,		/* its file has its end, whatever that says is missing */
	DUMP_CUT,		/* the daemon died while it wrote it */
	DUMP_DAMAGED,		/* it is called whole, and has no end */
};

struct dump_entry {
	TAILQ_ENTRY(dump_entry) link;
	char id[DUMP_ID_BYTES_MAX + 1];
	enum dump_state state;
	uint64_t bytes;
	Ringtail__V1__Bye *bye;		/* with its `dump`; NULL: there is none */
};

struct dumps;

/* Reads the directory, if there is one: blocking, before there is anything to wait for. */
int dumps_create(struct disk_thread *thread, uint64_t bytes_max, uint64_t count_max,
		 struct dumps **dumps, struct error *error);

/* No job of its own is under way any more. NULL is safe. */
void dumps_destroy(struct dumps *dumps);

/* Deletes what is beyond them at once. */
void dumps_set_bounds(struct dumps *dumps, uint64_t bytes_max, uint64_t count_max);
uint64_t dumps_bytes_max(const struct dumps *dumps);

/* NULL: there is none. */
struct dump_entry *dumps_find(const struct dumps *dumps, const char *id);

void dumps_path(const struct dump_entry *entry, char path[DUMP_PATH_BYTES]);
void dumps_path_of(const char *id, enum dump_state state, char path[DUMP_PATH_BYTES]);

/* The file goes soon; not one that is being written. */
void dumps_remove(struct dumps *dumps, struct dump_entry *entry);

/* How many, and their bytes together. */
unsigned dumps_count(const struct dumps *dumps, uint64_t *bytes);

/* All of them (`part` NULL), or a part of one's file. NULL: no memory, or it does not fit. */
struct frame_ref *dumps_pack(const struct dumps *dumps, struct frame_codec *codec,
			     const struct dump_entry *part, const uint8_t *data, size_t bytes);

/* ---- For who writes one ------------------------------------------------------------------------ */

/* NULL: no memory. The name is the trigger's. */
struct dump_entry *dumps_begin(struct dumps *dumps, const char *name, uint64_t realtime_ns);

/* It has so many bytes now. */
void dumps_grow(struct dumps *dumps, struct dump_entry *entry, uint64_t bytes);

/* Its file has its name, and ends with that frame; NULL: there is no file. */
void dumps_end(struct dumps *dumps, struct dump_entry *entry, const struct frame_ref *bye);

#endif
