/*
 * A turn is one job on the disk thread, which takes up one spool
 * more, with all of its files, and tends those that it has; jobs run in order, so that a spool that is
 * opened meanwhile is first seen by its own job, or is let go of before that.
 */
#include "daemon/spool/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/spool/store.h"
#include "proto/message.h"
#include "proto/segment.h"

/* With one that is about to go. */
#define TENDED_MAX (SPOOL_ORPHANS_MAX + CONSUMERS_MAX + 1)

enum fate {
	UNUSED,			/* nobody has named it */
	ASKED_FOR,		/* a subscription's: hands off */
	HELD,			/* a consumer's */
	UNWANTED,		/* it is to go */
};

struct names {
	size_t n, capacity;
	struct named {
		char name[SPOOL_NAME_BYTES];
		enum fate fate;
	} *name;
};

struct orphan {
	char name[SPOOL_NAME_BYTES];
	struct spool_store *store;		/* the disk thread's */
	Ringtail__V1__SegmentHead *head;	/* of its newest segment; NULL: not known */
	struct orphan *next;			/* among those that are gone */
};

/* What is told of one. */
struct row {
	const struct orphan *orphan;
	struct spool_config config;		/* of it, as far as is known; points into it */
	struct spool_files files;
	bool held;
};

struct spool_orphans {
	struct disk_job job;
	const struct spooler_config *config;
	spool_orphans_names *each_name;
	void *context;			/* of each_name */
	bool busy, stopped;
	uint64_t looked_ns;
	struct names unwanted;		/* for the next turn */
	struct row row[TENDED_MAX];
	unsigned rows;

	/* The disk thread's while busy. */
	struct disk *disk;
	uint64_t now_ns, realtime_ns;
	struct names names;
	bool no_memory;			/* for all the names */
	struct orphan *orphan[TENDED_MAX];
	unsigned orphans;
	char found[SPOOL_NAME_BYTES];	/* one that is not tended yet; "": there is none; */
	bool more;			/* and another */
	struct orphan *gone;		/* `row` may still speak of them */
	struct row new_row[TENDED_MAX];
	unsigned new_rows;
};

/* ---- Names ----------------------------------------------------------------------------------- */

static int add_name(struct names *names, const char *name, enum fate fate)
{
	if (!spool_name_is_valid(name))
		return 0;
	if (names->n == names->capacity) {
		size_t capacity = names->capacity ? 2 * names->capacity : 16;
		struct named *larger = reallocarray(names->name, capacity, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		names->name = larger;
		names->capacity = capacity;
	}
	names->name[names->n].fate = fate;
	memcpy(names->name[names->n++].name, name, SPOOL_NAME_BYTES);
	return 0;
}

/* The first that was added counts. */
static enum fate fate_of(const struct spool_orphans *orphans, const char *name)
{
	for (size_t i = 0; i < orphans->names.n; i++)
		if (strcmp(orphans->names.name[i].name, name) == 0)
			return orphans->names.name[i].fate;
	return UNUSED;
}

/* ---- On the disk thread: one ----------------------------------------------------------------- */

static void orphan_free(struct orphan *orphan)
{
	if (orphan->head)
		ringtail__v1__segment_head__free_unpacked(orphan->head, NULL);
	spool_store_destroy(orphan->store);
	free(orphan);
}

static void take_up(struct spool_orphans *orphans, const char *name)
{
	const struct spooler_config *common = orphans->config;
	struct spool_store_config config = {
		.name = name,
		.durability = common->durability,
		.policy = common->policy,
		.size_bytes = common->size_bytes,
		.age_ns = common->age_ns,
		.run = common->run,
	};
	struct orphan *orphan = calloc(1, sizeof(*orphan));

	/* Without memory now, the next turn finds it again. */
	if (!orphan || spool_store_create(&config, orphans->disk, &orphan->store) != 0) {
		free(orphan);
		return;
	}
	memcpy(orphan->name, name, sizeof(orphan->name));
	orphan->store->config.name = orphan->name;
	orphans->orphan[orphans->orphans++] = orphan;
}

/* It is tended no more; its name is told until the main thread knows. */
static void let_go(struct spool_orphans *orphans, unsigned i)
{
	struct orphan *orphan = orphans->orphan[i];

	orphans->orphan[i] = orphans->orphan[--orphans->orphans];
	orphan->next = orphans->gone;
	orphans->gone = orphan;
}

/* What it was for, in its newest segment's words. */
static Ringtail__V1__SegmentHead *read_head(struct spool_store *store)
{
	Ringtail__V1__SegmentHead *head = NULL;

	for (size_t i = store->segments; i > 0 && !head; i--) {
		const struct spool_segment *segment = store->segment[i - 1];
		char path[SPOOL_PATH_BYTES];
		struct spool_scan scan;
		int file;

		if (!segment->readable)
			continue;
		spool_store_path(store, segment->sequence, segment->state, path);
		file = store->disk->ops->open(store->disk, path, O_RDONLY);
		if (file < 0)
			continue;
		spool_scan_init(&scan, store, file, 0, segment->bytes);
		if (spool_scan_next(&scan) == 1 && scan.header.type == FRAME_SEGMENT_HEAD)
			head = message_unpack(&ringtail__v1__segment_head__descriptor, NULL, scan.raw,
					      scan.header.raw_bytes);
		store->disk->ops->close(store->disk, file);
	}
	return head;
}

static void tend(struct spool_orphans *orphans, struct orphan *orphan)
{
	static const struct spool_turn nothing_released;
	struct spool_store *store = orphan->store;
	enum fate fate = fate_of(orphans, orphan->name);

	store->now_ns = orphans->now_ns;
	store->realtime_ns = orphans->realtime_ns;
	if (!store->recovered) {
		if (spool_store_recover(store) != 0)
			return;			/* the next turn tries again */
		orphan->head = read_head(store);
		spool_store_rest(store);
	}
	if (fate == UNWANTED)
		spool_store_remove_unneeded(store);
	spool_store_tidy(store, &nothing_released);
	if (fate == HELD && store->config.policy == SPOOL_DROP_OLDEST)
		spool_store_make_room(store, 0);
}

/* True: nothing of it is left. */
static bool remove_if_empty(struct spool_orphans *orphans, const struct orphan *orphan)
{
	struct spool_store *store = orphan->store;
	int err;

	if (!store->recovered || store->segments || fate_of(orphans, orphan->name) == HELD)
		return false;
	/* Somebody else's file may be in it: then it stays. */
	err = store->disk->ops->remove(store->disk, store->directory);
	if (err && err != -ENOENT)
		return false;
	if (!err)
		store->disk->ops->sync_directory(store->disk, "spool");
	log_info("spool-gone", "deleted the spool %s, which no subscription uses any more",
		 store->directory);
	return true;
}

/* ---- On the disk thread: all of them --------------------------------------------------------- */

static bool is_unused(const struct spool_orphans *orphans, const struct orphan *orphan)
{
	return fate_of(orphans, orphan->name) != HELD && orphan->store->recovered &&
	       orphan->store->segments;
}

/* Of those that are unused, the one whose segments, or whose newest one, ended first. */
static struct orphan *oldest(const struct spool_orphans *orphans, bool by_newest, unsigned *unused)
{
	struct orphan *found = NULL;
	int64_t first_ns = INT64_MAX;

	*unused = 0;
	for (unsigned i = 0; i < orphans->orphans; i++) {
		struct orphan *orphan = orphans->orphan[i];
		const struct spool_store *store = orphan->store;
		int64_t ended_ns;

		if (!is_unused(orphans, orphan))
			continue;
		(*unused)++;
		ended_ns = store->segment[by_newest ? store->segments - 1 : 0]->ended_ns;
		if (!found || ended_ns < first_ns) {
			found = orphan;
			first_ns = ended_ns;
		}
	}
	return found;
}

static uint64_t unused_bytes(const struct spool_orphans *orphans)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < orphans->orphans; i++)
		if (is_unused(orphans, orphans->orphan[i]))
			bytes += orphans->orphan[i]->store->bytes;
	return bytes;
}

/* Together they have the room of one spool. That a file cannot be deleted shows in the next turn. */
static void keep_within(struct spool_orphans *orphans)
{
	struct orphan *orphan;
	unsigned unused;

	while (unused_bytes(orphans) > orphans->config->size_bytes) {
		orphan = oldest(orphans, false, &unused);
		if (!orphan || spool_store_delete_oldest(orphan->store) != 0)
			break;
	}
	orphan = oldest(orphans, true, &unused);
	if (unused > SPOOL_ORPHANS_MAX)
		spool_store_remove_all(orphan->store);
}

static void on_entry(void *context, const char *name, uint64_t bytes)
{
	struct spool_orphans *orphans = context;
	enum fate fate;

	(void)bytes;
	if (!spool_name_is_valid(name))
		return;
	fate = fate_of(orphans, name);
	for (unsigned i = 0; i < orphans->orphans; i++)
		if (strcmp(orphans->orphan[i]->name, name) == 0)
			return;
	if (fate == ASKED_FOR || fate == UNWANTED)
		return;
	if (orphans->found[0])
		orphans->more = true;
	else
		memcpy(orphans->found, name, SPOOL_NAME_BYTES);
}

static bool is_tended(const struct spool_orphans *orphans, const char *name)
{
	for (unsigned i = 0; i < orphans->orphans; i++)
		if (strcmp(orphans->orphan[i]->name, name) == 0)
			return true;
	return false;
}

/* Those that are to go, and the first that is found: not all at once, for others wait for the disk. */
static void take_up_some(struct spool_orphans *orphans)
{
	for (size_t i = 0; i < orphans->names.n; i++) {
		const char *name = orphans->names.name[i].name;

		if (fate_of(orphans, name) == UNWANTED && !is_tended(orphans, name) &&
		    orphans->orphans < TENDED_MAX - 1)
			take_up(orphans, name);
	}
	orphans->found[0] = '\0';
	orphans->more = false;
	if (orphans->disk->ops->list(orphans->disk, "spool", on_entry, orphans) == 0 &&
	    orphans->found[0] && orphans->orphans < TENDED_MAX)
		take_up(orphans, orphans->found);
}

static struct spool_config config_of(const struct orphan *orphan)
{
	const Ringtail__V1__SegmentHead *head = orphan->head;

	if (!head)
		return (struct spool_config){.name = orphan->name, .filter = ""};
	return (struct spool_config){
		.name = orphan->name,
		.probe = (const char *const *)head->probe,
		.probes = head->n_probe < SPOOL_ORPHAN_PROBES_SHOWN ? head->n_probe :
								      SPOOL_ORPHAN_PROBES_SHOWN,
		.filter = head->filter,
	};
}

static void tell(struct spool_orphans *orphans)
{
	orphans->new_rows = 0;
	for (unsigned i = 0; i < orphans->orphans; i++) {
		const struct orphan *orphan = orphans->orphan[i];
		const struct spool_store *store = orphan->store;

		if (!store->recovered)
			continue;
		orphans->new_row[orphans->new_rows++] = (struct row){
			.orphan = orphan,
			.config = config_of(orphan),
			.held = fate_of(orphans, orphan->name) == HELD,
			.files = spool_store_files(store),
		};
	}
}

static void on_run(struct disk_job *job, struct disk *disk)
{
	struct spool_orphans *orphans = (struct spool_orphans *)job;

	orphans->disk = disk;
	for (unsigned i = orphans->orphans; i-- > 0;)
		if (fate_of(orphans, orphans->orphan[i]->name) == ASKED_FOR)
			let_go(orphans, i);
	take_up_some(orphans);
	for (unsigned i = 0; i < orphans->orphans; i++)
		tend(orphans, orphans->orphan[i]);
	keep_within(orphans);
	for (unsigned i = orphans->orphans; i-- > 0;)
		if (remove_if_empty(orphans, orphans->orphan[i]))
			let_go(orphans, i);
	tell(orphans);
}

/* ---- On the main thread ---------------------------------------------------------------------- */

static void add(struct spool_orphans *orphans, const char *name, enum fate fate)
{
	if (add_name(&orphans->names, name, fate) != 0)
		orphans->no_memory = true;
}

static void add_asked_for(void *context, const char *name)
{
	add(context, name, ASKED_FOR);
}

static void add_held(void *context, const char *name)
{
	add(context, name, HELD);
}

/* False: out of memory. */
static bool gather_names(struct spool_orphans *orphans)
{
	orphans->names.n = 0;
	orphans->no_memory = false;
	orphans->each_name(orphans->context, add_asked_for, add_held, orphans);
	for (size_t i = 0; i < orphans->unwanted.n; i++)
		add(orphans, orphans->unwanted.name[i].name, UNWANTED);
	return !orphans->no_memory;
}

static void submit(struct spool_orphans *orphans)
{
	if (!gather_names(orphans))
		return;				/* the next tick tries again */
	orphans->unwanted.n = 0;
	orphans->now_ns = orphans->looked_ns = clock_monotonic();
	orphans->realtime_ns = clock_read(CLOCK_REALTIME);
	orphans->busy = true;
	disk_thread_submit(orphans->config->thread, &orphans->job);
}

static void on_done(struct disk_job *job)
{
	struct spool_orphans *orphans = (struct spool_orphans *)job;
	struct orphan *orphan;

	orphans->busy = false;
	orphans->rows = orphans->new_rows;
	memcpy(orphans->row, orphans->new_row, orphans->rows * sizeof(orphans->row[0]));
	while ((orphan = orphans->gone)) {
		orphans->gone = orphan->next;
		orphan_free(orphan);
	}
	if ((orphans->more || orphans->unwanted.n) && !orphans->stopped)
		submit(orphans);
}

void spool_orphans_turn(struct spool_orphans *orphans)
{
	if (!orphans->busy && (!orphans->looked_ns || orphans->unwanted.n ||
			       clock_monotonic() - orphans->looked_ns >= SPOOL_TIDY_NS))
		submit(orphans);
}

void spool_orphans_remove(struct spool_orphans *orphans, const char *name)
{
	/* Without memory for it it gets old, as others do. */
	if (add_name(&orphans->unwanted, name, UNWANTED) == 0)
		spool_orphans_turn(orphans);
}

unsigned spool_orphans_count(const struct spool_orphans *orphans)
{
	return orphans->rows;
}

void spool_orphans_each(const struct spool_orphans *orphans,
			void (*each)(void *context, const struct spool_stat *stat), void *context)
{
	for (unsigned i = 0; i < orphans->rows; i++) {
		const struct row *row = &orphans->row[i];
		struct spool_stat stat = {
			.segments = row->files.segments,
			.bytes = row->files.bytes,
			.oldest_realtime_ns = row->files.oldest_realtime_ns,
			.deleted = row->files.deleted,
			.set_aside = row->files.set_aside,
			.state = row->held ? "held" : "unused",
			.config = &row->config,
			.size_bytes = orphans->config->size_bytes,
		};

		each(context, &stat);
	}
}

struct spool_orphans *spool_orphans_create(const struct spooler_config *config,
					   spool_orphans_names *each_name, void *context)
{
	struct spool_orphans *orphans = calloc(1, sizeof(*orphans));

	if (!orphans)
		return NULL;
	orphans->job.run = on_run;
	orphans->job.done = on_done;
	orphans->config = config;
	orphans->each_name = each_name;
	orphans->context = context;
	return orphans;
}

void spool_orphans_stop(struct spool_orphans *orphans)
{
	if (orphans)
		orphans->stopped = true;
}

void spool_orphans_destroy(struct spool_orphans *orphans)
{
	if (!orphans)
		return;
	while (orphans->orphans)
		orphan_free(orphans->orphan[--orphans->orphans]);
	free(orphans->names.name);
	free(orphans->unwanted.name);
	free(orphans);
}
