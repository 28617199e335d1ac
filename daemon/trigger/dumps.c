#include "daemon/trigger/dumps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "proto/message.h"
#include "proto/segment.h"

#define ID_CHARACTERS \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#define SUFFIX_WHOLE ".rt"
#define SUFFIX_OPEN ".part"

struct dumps {
	struct disk_thread *thread;
	uint64_t bytes_max, count_max;
	unsigned count;
	TAILQ_HEAD(dump_list, dump_entry) list;		/* the oldest first */
};

/* ---- One -------------------------------------------------------------------------------------- */

void dumps_path_of(const char *id, enum dump_state state, char path[DUMP_PATH_BYTES])
{
	snprintf(path, DUMP_PATH_BYTES, DUMPS_DIRECTORY "/%.*s%s", (int)DUMP_ID_BYTES_MAX, id,
		 state == DUMP_WRITING || state == DUMP_CUT ? SUFFIX_OPEN : SUFFIX_WHOLE);
}

void dumps_path(const struct dump_entry *entry, char path[DUMP_PATH_BYTES])
{
	dumps_path_of(entry->id, entry->state, path);
}

struct dump_entry *dumps_find(const struct dumps *dumps, const char *id)
{
	struct dump_entry *entry;

	TAILQ_FOREACH(entry, &dumps->list, link)
		if (strcmp(entry->id, id) == 0)
			return entry;
	return NULL;
}

unsigned dumps_count(const struct dumps *dumps, uint64_t *bytes)
{
	const struct dump_entry *entry;

	*bytes = 0;
	TAILQ_FOREACH(entry, &dumps->list, link)
		*bytes += entry->bytes;
	return dumps->count;
}

/* In its place by its id, which begins with its time. */
static void insert(struct dumps *dumps, struct dump_entry *entry)
{
	struct dump_entry *after;

	dumps->count++;
	TAILQ_FOREACH_REVERSE(after, &dumps->list, dump_list, link)
		if (strcmp(after->id, entry->id) < 0)
			break;
	if (after)
		TAILQ_INSERT_AFTER(&dumps->list, after, entry, link);
	else
		TAILQ_INSERT_HEAD(&dumps->list, entry, link);
}

static void forget(struct dumps *dumps, struct dump_entry *entry)
{
	TAILQ_REMOVE(&dumps->list, entry, link);
	dumps->count--;
	ringtail__v1__bye__free_unpacked(entry->bye, NULL);
	free(entry);
}

/* The end of a dump's file, opened; NULL: that is none. */
static Ringtail__V1__Bye *open_end(struct frame_codec *codec, const uint8_t *frame, size_t bytes)
{
	struct frame_header header;
	Ringtail__V1__Bye *bye = NULL;
	const uint8_t *body;
	uint8_t *raw;

	if (frame_parse_header(frame, bytes, DUMP_END_BYTES_MAX, &header) != FRAME_OK)
		return NULL;
	raw = malloc(header.raw_bytes + 1);
	if (raw && frame_open(codec, frame, &header, raw, &body) == FRAME_OK)
		bye = message_unpack(&ringtail__v1__bye__descriptor, NULL, body, header.raw_bytes);
	free(raw);
	if (bye && !bye->dump) {
		ringtail__v1__bye__free_unpacked(bye, NULL);
		bye = NULL;
	}
	return bye;
}

/* ---- What is there ----------------------------------------------------------------------------- */

static bool strip(char *id, const char *suffix)
{
	size_t bytes = strlen(id), end = strlen(suffix);

	if (bytes <= end || strcmp(id + bytes - end, suffix) != 0)
		return false;
	id[bytes - end] = '\0';
	return strspn(id, ID_CHARACTERS) == bytes - end;
}

/* Others' files are left alone. */
static void on_entry(void *context, const char *name, uint64_t bytes)
{
	struct dumps *dumps = context;
	struct dump_entry *entry;
	bool whole;

	if (strlen(name) >= sizeof(entry->id) || dumps->count >= DUMPS_MAX)
		return;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return;
	snprintf(entry->id, sizeof(entry->id), "%s", name);
	whole = strip(entry->id, SUFFIX_WHOLE);
	if (!whole && !strip(entry->id, SUFFIX_OPEN)) {
		free(entry);
		return;
	}
	entry->state = whole ? DUMP_DAMAGED : DUMP_CUT;
	entry->bytes = bytes;
	insert(dumps, entry);
}

/* One that is called whole is, if it ends with its end. */
static void read_end(struct dump_entry *entry, struct disk *disk, struct frame_codec *codec,
		     uint8_t *tail)
{
	uint64_t from = entry->bytes > DUMP_END_BYTES_MAX ? entry->bytes - DUMP_END_BYTES_MAX : 0;
	size_t bytes = 0, at;
	char path[DUMP_PATH_BYTES];
	ssize_t got = 1;
	int file;

	dumps_path(entry, path);
	file = disk->ops->open(disk, path, O_RDONLY);
	while (file >= 0 && got > 0 && bytes < DUMP_END_BYTES_MAX) {
		got = disk->ops->read(disk, file, tail + bytes, DUMP_END_BYTES_MAX - bytes,
				      from + bytes);
		bytes += got > 0 ? (size_t)got : 0;
	}
	if (file >= 0)
		disk->ops->close(disk, file);
	if (segment_find_last(tail, bytes, FRAME_BYE, &at))
		entry->bye = open_end(codec, tail + at, bytes - at);
	/* Its checksum holds, and it stands where it says. */
	if (entry->bye && entry->bye->dump->bytes == from + at)
		entry->state = DUMP_WHOLE;
}

static int read_directory(struct dumps *dumps)
{
	struct disk *disk = disk_thread_disk(dumps->thread);
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t *tail = malloc(DUMP_END_BYTES_MAX);
	struct dump_entry *entry;
	int err = codec && tail ? disk->ops->list(disk, DUMPS_DIRECTORY, on_entry, dumps) : -ENOMEM;

	TAILQ_FOREACH(entry, &dumps->list, link) {
		if (!err && entry->state == DUMP_DAMAGED)
			read_end(entry, disk, codec, tail);
		if (entry->state != DUMP_WHOLE)
			log_warn("dump-cut", "the dump %s is %s: `tracectl dumps get %s -w FILE` fetches what"
				 " is left of it", entry->id,
				 entry->state == DUMP_CUT ? "cut short" : "damaged", entry->id);
	}
	free(tail);
	frame_codec_destroy(codec);
	return err == -ENOENT ? 0 : err;
}

int dumps_create(struct disk_thread *thread, uint64_t bytes_max, uint64_t count_max,
		 struct dumps **out, struct error *error)
{
	struct dumps *dumps = calloc(1, sizeof(*dumps));
	int err;

	if (!dumps)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	*dumps = (struct dumps){.thread = thread, .bytes_max = bytes_max, .count_max = count_max};
	TAILQ_INIT(&dumps->list);
	err = read_directory(dumps);
	if (err) {
		dumps_destroy(dumps);
		return error_set(error, -err, "dumps-unreadable", "cannot read %s in state-dir: %s",
				 DUMPS_DIRECTORY, strerror(-err));
	}
	dumps_set_bounds(dumps, bytes_max, count_max);
	*out = dumps;
	return 0;
}

void dumps_destroy(struct dumps *dumps)
{
	struct dump_entry *entry;

	if (!dumps)
		return;
	while ((entry = TAILQ_FIRST(&dumps->list)))
		forget(dumps, entry);
	free(dumps);
}

/* ---- Deleting ---------------------------------------------------------------------------------- */

struct removal {
	struct disk_job job;
	char path[DUMP_PATH_BYTES];
	int err;
};

static void run_removal(struct disk_job *job, struct disk *disk)
{
	struct removal *removal = (struct removal *)job;

	removal->err = disk->ops->remove(disk, removal->path);
}

static void removal_done(struct disk_job *job)
{
	struct removal *removal = (struct removal *)job;

	if (removal->err)
		log_error("dump-kept", "cannot delete %s in state-dir: %s", removal->path,
			  strerror(-removal->err));
	free(removal);
}

void dumps_remove(struct dumps *dumps, struct dump_entry *entry)
{
	struct removal *removal = calloc(1, sizeof(*removal));

	if (removal) {
		removal->job = (struct disk_job){.run = run_removal, .done = removal_done};
		dumps_path(entry, removal->path);
		disk_thread_submit(dumps->thread, &removal->job);
	} else {
		log_error("dump-kept", "cannot delete the dump %s: out of memory", entry->id);
	}
	forget(dumps, entry);
}

/* The oldest that is not being written; NULL: all are, or it is the last. */
static struct dump_entry *oldest(const struct dumps *dumps)
{
	struct dump_entry *entry;

	TAILQ_FOREACH(entry, &dumps->list, link)
		if (entry->state != DUMP_WRITING)
			return entry;
	return NULL;
}

static void keep_within(struct dumps *dumps)
{
	struct dump_entry *entry;
	uint64_t bytes;

	while ((dumps_count(dumps, &bytes) > dumps->count_max || bytes > dumps->bytes_max) &&
	       (entry = oldest(dumps))) {
		log_info("dump-deleted", "deleted the oldest dump, %s (%" PRIu64 " bytes), for newer ones:"
			 " dump-size and dump-count bound them", entry->id, entry->bytes);
		counter_add(COUNTER_dumps_deleted, 1);
		dumps_remove(dumps, entry);
	}
}

void dumps_set_bounds(struct dumps *dumps, uint64_t bytes_max, uint64_t count_max)
{
	dumps->bytes_max = bytes_max;
	dumps->count_max = count_max;
	keep_within(dumps);
}

uint64_t dumps_bytes_max(const struct dumps *dumps)
{
	return dumps->bytes_max;
}

/* ---- Writing ----------------------------------------------------------------------------------- */

struct dump_entry *dumps_begin(struct dumps *dumps, const char *name, uint64_t realtime_ns)
{
	struct dump_entry *entry = calloc(1, sizeof(*entry));
	time_t seconds = (time_t)(realtime_ns / NS_PER_S);
	char stamp[32] = "", id[sizeof(entry->id)];
	struct tm tm;

	if (!entry)
		return NULL;
	if (gmtime_r(&seconds, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(id, sizeof(id), "%s-%s", stamp, name);
	for (unsigned i = 2; dumps_find(dumps, id) && i <= DUMPS_MAX + 1; i++)
		snprintf(id, sizeof(id), "%s-%s-%u", stamp, name, i);
	memcpy(entry->id, id, sizeof(id));
	entry->state = DUMP_WRITING;
	insert(dumps, entry);
	keep_within(dumps);
	return entry;
}

void dumps_grow(struct dumps *dumps, struct dump_entry *entry, uint64_t bytes)
{
	entry->bytes = bytes;
	keep_within(dumps);
}

void dumps_end(struct dumps *dumps, struct dump_entry *entry, const struct frame_ref *bye)
{
	struct frame_codec *codec = bye ? frame_codec_create(1) : NULL;

	if (!bye) {
		forget(dumps, entry);
		return;
	}
	if (codec)
		entry->bye = open_end(codec, bye->data, bye->bytes);
	frame_codec_destroy(codec);
	entry->state = entry->bye ? DUMP_WHOLE : DUMP_DAMAGED;
	keep_within(dumps);
}

/* ---- Telling ----------------------------------------------------------------------------------- */

/* Points into the entry, and into id. */
static void describe(const struct dump_entry *entry, Ringtail__V1__Dump *message)
{
	static const char *const state[] = {
		[DUMP_WRITING] = "writing", [DUMP_WHOLE] = "whole", [DUMP_CUT] = "cut",
		[DUMP_DAMAGED] = "damaged",
	};

	if (entry->bye)
		*message = *entry->bye->dump;
	else
		ringtail__v1__dump__init(message);
	message->id = (char *)entry->id;
	message->bytes = entry->bytes;
	if (message->n_probe > DUMP_PROBES_SHOWN)
		message->n_probe = DUMP_PROBES_SHOWN;
	if (!entry->bye || entry->state != DUMP_WHOLE)
		message->state = (char *)state[entry->state];
}

struct frame_ref *dumps_pack(const struct dumps *dumps, struct frame_codec *codec,
			     const struct dump_entry *part, const uint8_t *data, size_t bytes)
{
	size_t n = part ? 1 : dumps->count, used = 0;
	Ringtail__V1__Dumps message = RINGTAIL__V1__DUMPS__INIT;
	Ringtail__V1__Dump *dump = calloc(n + 1, sizeof(*dump)), **list = calloc(n + 1, sizeof(*list));
	const struct dump_entry *entry;
	struct frame_ref *frame = NULL;

	if (dump && list) {
		TAILQ_FOREACH(entry, &dumps->list, link) {
			if (part && entry != part)
				continue;
			describe(entry, &dump[used]);
			list[used] = &dump[used];
			used++;
		}
		message.dump = list;
		message.n_dump = used;
		message.bytes_max = dumps->bytes_max;
		message.data.data = (uint8_t *)data;
		message.data.len = bytes;
		frame = frame_ref_pack(codec, FRAME_DUMPS, &message.base);
	}
	free(dump);
	free(list);
	return frame;
}
