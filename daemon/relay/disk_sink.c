#include "daemon/relay/disk_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/relay/host.h"
#include "proto/segment.h"

#define DIRECTORY	"hosts"
#define PLACE_BUCKETS	4096u
#define PATH_BYTES	(sizeof(DIRECTORY) + IDENTITY_NAME_BYTES + SEGMENT_NAME_BYTES + 2)

struct file {
	uint64_t sequence, bytes;
	enum segment_state state;
};

/* One host's directory. What a job has in `taken`, and all below it, is the disk thread's while that runs. */
struct place {
	LIST_ENTRY(place) link, hash_link;
	STAILQ_ENTRY(place) dirty_link;
	char name[IDENTITY_NAME_BYTES];
	bool dirty;			/* is in the sink's list: something waits in `items` */
	struct relay_items items;	/* came since */

	struct relay_opening *kept;	/* a reference to `opening`; counted on the main thread alone */
	uint64_t shown_bytes, shown_segments;	/* as of the last job: the main thread's */

	struct relay_items taken;
	int err;			/* what came of them */
	bool failing;			/* was said in the log */
	bool listed;			/* file[] is what is there */
	struct file *file;		/* from the oldest */
	size_t files, capacity;
	uint64_t bytes;			/* of all of them */

	/* The segment that is being written: the last file; without an opening there is none. It is held by
	 * `kept`, or by an item of this job. */
	struct relay_opening *opening;
	int fd;
	uint32_t crc;
	uint64_t begun_ns, frames, events, first_time_ns, last_time_ns;
	struct cursor *told;		/* how far the files go; NULL: not known */
};

struct disk_sink {
	struct relay_sink sink;
	struct disk_sink_config config;
	struct disk_job job;
	bool busy;			/* the job is under way */
	bool scanned;			/* what was there at the start is known */
	struct event *tick;
	uint64_t stored_ns;
	_Atomic uint64_t end_by_ns;	/* nothing is begun beyond that; 0: no end */
	struct frame_codec *codec;	/* the disk thread's */
	LIST_HEAD(place_bucket, place) places;	/* the job's while it runs */
	struct place_bucket fresh;	/* came meanwhile */
	struct place_bucket bucket[PLACE_BUCKETS];	/* both, by hash_link; the main thread's */
	unsigned found;			/* by the scan; the job's */
	STAILQ_HEAD(place_list, place) dirty, at_work;	/* at_work: the job's */
	struct relay_items homeless;	/* there was no memory for the place of their host */
	uint64_t bytes;			/* of all places; the job's */
	struct disk_sink_stat stat;
};

static struct disk_sink *of(struct relay_sink *sink)
{
	return (struct disk_sink *)sink;
}

/* ---- On the disk thread: one host's files ----------------------------------------------------- */

static void path_of(const struct place *place, const struct file *file, char path[PATH_BYTES])
{
	char name[SEGMENT_NAME_BYTES];

	segment_name_format(name, file->sequence, file->state);
	snprintf(path, PATH_BYTES, DIRECTORY "/%s/%s", place->name, name);
}

static void directory_of(const struct place *place, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, DIRECTORY "/%s", place->name);
}

static int add_file(struct place *place, const struct file *file)
{
	if (place->files == place->capacity) {
		size_t capacity = place->capacity ? 2 * place->capacity : 4;
		struct file *larger = reallocarray(place->file, capacity, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		place->file = larger;
		place->capacity = capacity;
	}
	place->file[place->files++] = *file;
	place->bytes += file->bytes;
	return 0;
}

struct listing {
	struct place *place;
	int err;
};

static void list_file(void *context, const char *name, uint64_t bytes)
{
	struct listing *listing = context;
	struct file file = {.bytes = bytes};

	if (!listing->err && segment_name_parse(name, &file.sequence, &file.state))
		listing->err = add_file(listing->place, &file);
}

static int by_sequence(const void *a, const void *b)
{
	const struct file *left = a, *right = b;

	return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

/* What an earlier relay left there. */
static int list_files(struct disk_sink *sink, struct disk *disk, struct place *place)
{
	struct listing listing = {.place = place};
	char path[PATH_BYTES];
	int err;

	sink->bytes -= place->bytes;
	place->files = 0;
	place->bytes = 0;
	directory_of(place, path);
	err = disk->ops->list(disk, path, list_file, &listing);
	err = err ? err : listing.err;
	if (place->files)
		qsort(place->file, place->files, sizeof(*place->file), by_sequence);
	sink->bytes += place->bytes;
	place->listed = !err;
	return err;
}

static int make_ready(struct disk_sink *sink, struct disk *disk, struct place *place)
{
	char path[PATH_BYTES];
	int err;

	if (place->listed)
		return 0;
	directory_of(place, path);
	err = disk->ops->make_directory(disk, DIRECTORY);
	if (!err)
		err = disk->ops->make_directory(disk, path);
	if (!err)
		err = disk->ops->sync_directory(disk, DIRECTORY);
	if (!err)
		err = disk->ops->sync_directory(disk, ".");
	return err ? err : list_files(sink, disk, place);
}

static struct file *last_of(const struct place *place)
{
	return &place->file[place->files - 1];
}

static int write_bytes(struct disk_sink *sink, struct disk *disk, struct place *place,
		       const uint8_t *bytes, size_t n)
{
	uint64_t written = 0;
	int err = disk_write_all(disk, place->fd, bytes, n, &written);

	last_of(place)->bytes += written;
	place->bytes += written;
	sink->bytes += written;
	place->crc = frame_crc32c(place->crc, bytes, n);
	return err;
}

/* Takes the reference. */
static int write_own(struct disk_sink *sink, struct disk *disk, struct place *place,
		     struct frame_ref *frame)
{
	int err = frame ? write_bytes(sink, disk, place, frame->data, frame->bytes) : -ENOMEM;

	frame_ref_put(frame);
	return err;
}

static struct frame_ref *pack_head(struct disk_sink *sink, const struct place *place)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;

	head.sequence = last_of(place)->sequence;
	head.spool = (char *)place->name;
	head.boot_id.data = place->opening->run.boot_id;
	head.boot_id.len = sizeof(place->opening->run.boot_id);
	head.epoch = place->opening->run.epoch;
	head.realtime_ns = head.whole_realtime_ns = clock_read(CLOCK_REALTIME);
	return frame_ref_pack(sink->codec, FRAME_SEGMENT_HEAD, &head.base);
}

/* Not the agent's own: what it sends again was passed over. */
static struct frame_ref *pack_subscribed(struct disk_sink *sink, const struct place *place)
{
	Ringtail__V1__Subscribed message = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor_message *start = cursor_message_create(place->told);
	struct frame_ref *frame;

	if (!start)
		return NULL;
	message.start = &start->cursor;
	message.resumed = true;
	frame = frame_ref_pack(sink->codec, FRAME_SUBSCRIBED, &message.base);
	free(start);
	return frame;
}

static struct frame_ref *pack_end(struct disk_sink *sink, const struct place *place, bool final)
{
	Ringtail__V1__SegmentEnd message = RINGTAIL__V1__SEGMENT_END__INIT;
	struct cursor_message *end = cursor_message_create(place->told);
	struct frame_ref *frame;

	if (!end)
		return NULL;
	message.sequence = last_of(place)->sequence;
	message.bytes = last_of(place)->bytes;
	message.crc32c = place->crc;
	message.frames = place->frames;
	message.events = place->events;
	message.first_time_ns = place->first_time_ns;
	message.last_time_ns = place->last_time_ns;
	message.end = &end->cursor;
	message.final = final;
	frame = frame_ref_pack(sink->codec, FRAME_SEGMENT_END, &message.base);
	free(end);
	return frame;
}

static void close_file(struct disk *disk, struct place *place)
{
	if (place->fd >= 0)
		disk->ops->close(disk, place->fd);
	place->fd = -1;
}

/* The file stays; nothing more goes into it. */
static void leave_segment(struct disk *disk, struct place *place)
{
	close_file(disk, place);
	place->opening = NULL;
}

/* Where the files of that run end, or where it begins. -ENOMEM. */
static int tell_start(struct place *place, const struct relay_opening *opening)
{
	if (place->told && run_equal(&place->told->run, &opening->run)) {
		int err = 0;

		for (uint32_t i = 0; !err && i < opening->start->n; i++) {
			const struct position *at = &opening->start->position[i];

			if (!cursor_find(place->told, at->cpu))
				err = cursor_add(&place->told, at->cpu, at->seq);
		}
		return err;
	}
	free(place->told);
	place->told = cursor_copy(opening->start);
	if (!place->told)
		return -ENOMEM;
	place->told->run = opening->run;
	return 0;
}

static int create_file(struct disk *disk, struct place *place)
{
	struct file file = {
		.sequence = place->files ? last_of(place)->sequence + 1 : 1,
		.state = SEGMENT_OPEN,
	};
	char path[PATH_BYTES];
	int err = add_file(place, &file);

	if (err)
		return err;
	path_of(place, last_of(place), path);
	place->fd = disk->ops->open(disk, path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
	if (place->fd < 0)
		return place->fd;
	/* What is stored in a file of no name is stored for nobody. */
	directory_of(place, path);
	return disk->ops->sync_directory(disk, path);
}

static int begin_segment(struct disk_sink *sink, struct disk *disk, struct place *place,
			 struct relay_opening *opening)
{
	int err = tell_start(place, opening);

	place->opening = opening;
	place->crc = 0;
	place->frames = place->events = place->first_time_ns = place->last_time_ns = 0;
	place->begun_ns = clock_monotonic();
	if (!err)
		err = create_file(disk, place);
	if (!err)
		err = write_own(sink, disk, place, pack_head(sink, place));
	if (!err)
		err = write_bytes(sink, disk, place, opening->hello->data, opening->hello->bytes);
	if (!err)
		err = write_bytes(sink, disk, place, opening->catalog->data, opening->catalog->bytes);
	return err ? err : write_own(sink, disk, place, pack_subscribed(sink, place));
}

static int open_again(struct disk *disk, struct place *place)
{
	char path[PATH_BYTES];

	if (place->fd >= 0)
		return 0;
	path_of(place, last_of(place), path);
	place->fd = disk->ops->open(disk, path, O_WRONLY | O_APPEND);
	return place->fd < 0 ? place->fd : 0;
}

static int seal_segment(struct disk_sink *sink, struct disk *disk, struct place *place, bool final)
{
	char from[PATH_BYTES], to[PATH_BYTES];
	int err = open_again(disk, place);

	if (!err)
		err = write_own(sink, disk, place, pack_end(sink, place, final));
	if (!err)
		err = disk->ops->sync(disk, place->fd);
	if (err)
		return err;
	path_of(place, last_of(place), from);
	last_of(place)->state = SEGMENT_SEALED;
	path_of(place, last_of(place), to);
	err = disk->ops->rename(disk, from, to);
	if (err)
		last_of(place)->state = SEGMENT_OPEN;
	directory_of(place, to);
	leave_segment(disk, place);
	return err ? err : disk->ops->sync_directory(disk, to);
}

/* Whether this item needs another segment than the one that is there. */
static bool is_over(const struct disk_sink *sink, const struct place *place,
		    const struct relay_item *item)
{
	return place->opening &&
	       (place->opening != item->opening || last_of(place)->bytes >= sink->config.segment_bytes ||
		clock_monotonic() - place->begun_ns > SPOOL_SEGMENT_AGE_NS);
}

static int note_told(struct place *place, const struct relay_item *item)
{
	const struct frame_ref *frame = item->frame;

	place->frames++;
	place->events += frame->events;
	if (frame->type == FRAME_WATERMARK) {
		place->last_time_ns = frame->time_ns;
		if (!place->first_time_ns)
			place->first_time_ns = frame->time_ns;
	}
	for (uint32_t i = 0; i < item->upto->n; i++) {
		const struct position *at = &item->upto->position[i];
		int err = cursor_seq(place->told, at->cpu, 0) < at->seq ?
				  cursor_add(&place->told, at->cpu, at->seq) : 0;

		if (err)
			return err;
	}
	return 0;
}

/* The oldest, if it is not the one that is being written. */
static bool delete_oldest(struct disk_sink *sink, struct disk *disk, struct place *place)
{
	char path[PATH_BYTES];
	int err;

	if (place->files < 2)
		return false;
	path_of(place, &place->file[0], path);
	err = disk->ops->remove(disk, path);
	if (err && err != -ENOENT)
		return false;
	counter_add(COUNTER_relay_segments_deleted, 1);
	place->bytes -= place->file[0].bytes;
	sink->bytes -= place->file[0].bytes;
	place->files--;
	memmove(place->file, place->file + 1, place->files * sizeof(*place->file));
	return true;
}

/* Of the host that has most: it hurts itself alone. */
static void keep_bound_of_all(struct disk_sink *sink, struct disk *disk)
{
	while (sink->bytes > sink->config.hosts_bytes) {
		struct place *place, *most = NULL;

		LIST_FOREACH(place, &sink->places, link)
			if (place->files > 1 && (!most || place->bytes > most->bytes))
				most = place;
		if (!most || !delete_oldest(sink, disk, most))
			return;
	}
}

static void keep_bounds(struct disk_sink *sink, struct disk *disk, struct place *place)
{
	while ((place->bytes > sink->config.host_bytes || place->files > RELAY_SEGMENTS_MAX) &&
	       delete_oldest(sink, disk, place))
		;
	keep_bound_of_all(sink, disk);
}

static int store_item(struct disk_sink *sink, struct disk *disk, struct place *place,
		      struct relay_item *item)
{
	bool bye = item->frame->type == FRAME_BYE;
	int err = 0;

	if (is_over(sink, place, item) || (bye && place->opening)) {
		err = seal_segment(sink, disk, place, bye && place->opening == item->opening);
		keep_bounds(sink, disk, place);
	}
	if (err || bye)
		return err;
	err = place->opening ? open_again(disk, place) :
			       begin_segment(sink, disk, place, item->opening);
	if (!err)
		err = write_bytes(sink, disk, place, item->frame->data, item->frame->bytes);
	return err ? err : note_told(place, item);
}

/* The relay ends, and the time for that is over. */
static bool is_late(struct disk_sink *sink)
{
	uint64_t by_ns = atomic_load(&sink->end_by_ns);

	return by_ns && clock_monotonic() > by_ns;
}

static void fail(struct disk *disk, struct place *place, int err)
{
	bool failed = err != -ECANCELED;

	counter_add(COUNTER_relay_disk_errors, failed);
	if (failed && !place->failing)
		log_error("relay-disk", "cannot store what the host %s sends: %s; it keeps that, and"
			  " sends it again: see to the disk of state-dir", place->name, strerror(-err));
	place->failing = true;
	leave_segment(disk, place);
	free(place->told);
	place->told = NULL;
	place->listed = false;
}

static void store_place(struct disk_sink *sink, struct disk *disk, struct place *place)
{
	struct relay_item *item;
	int err = is_late(sink) ? -ECANCELED : make_ready(sink, disk, place);

	STAILQ_FOREACH(item, &place->taken, link)
		if (!err)
			err = is_late(sink) ? -ECANCELED : store_item(sink, disk, place, item);
	if (!err && place->fd >= 0)
		err = disk->ops->sync(disk, place->fd);
	close_file(disk, place);
	place->err = err;
	if (err)
		fail(disk, place, err);
	else
		place->failing = false;
	keep_bounds(sink, disk, place);
}

/* ---- On the disk thread: all of them ---------------------------------------------------------- */

static struct place *create_place(const char *name)
{
	struct place *place = calloc(1, sizeof(*place));

	if (!place)
		return NULL;
	snprintf(place->name, sizeof(place->name), "%s", name);
	place->fd = -1;
	STAILQ_INIT(&place->items);
	STAILQ_INIT(&place->taken);
	return place;
}

static void destroy_place(struct place *place)
{
	relay_opening_put(place->kept);
	free(place->told);
	free(place->file);
	free(place);
}

/* A directory that an earlier relay left: it counts, though its host may never come again. */
static void scan_place(void *context, const char *name, uint64_t bytes)
{
	struct disk_sink *sink = context;
	struct place *place;

	(void)bytes;
	if (!relay_host_name_is_valid(name) || sink->found >= RELAY_HOSTS_MAX)
		return;
	place = create_place(name);
	if (!place)
		return;
	sink->found++;
	STAILQ_INSERT_TAIL(&sink->at_work, place, dirty_link);
}

static void count(struct disk_sink *sink)
{
	struct place *place;

	sink->stat = (struct disk_sink_stat){.bytes = sink->bytes};
	LIST_FOREACH(place, &sink->places, link) {
		place->shown_bytes = place->bytes;
		place->shown_segments = place->files;
		sink->stat.hosts++;
		sink->stat.segments += place->files;
	}
}

static void on_run(struct disk_job *job, struct disk *disk)
{
	struct disk_sink *sink = (struct disk_sink *)((char *)job - offsetof(struct disk_sink, job));
	struct place *place;

	if (!sink->scanned)
		disk->ops->list(disk, DIRECTORY, scan_place, sink);
	STAILQ_FOREACH(place, &sink->at_work, dirty_link)
		if (sink->scanned)
			store_place(sink, disk, place);
		else
			list_files(sink, disk, place);
}

/* ---- On the main thread ----------------------------------------------------------------------- */

static void confirm(struct place *place)
{
	struct relay_opening *before = place->kept;
	struct relay_item *item;

	/* The items still hold what the job began. */
	place->kept = place->opening ? relay_opening_get(place->opening) : NULL;
	relay_opening_put(before);
	/* What came behind it since is not stored either: it comes again in order. */
	if (place->err) {
		STAILQ_CONCAT(&place->taken, &place->items);
		place->dirty = false;
	}
	while ((item = STAILQ_FIRST(&place->taken))) {
		STAILQ_REMOVE_HEAD(&place->taken, link);
		item->confirmed(item, place->err);
	}
}

static void submit(struct disk_sink *sink)
{
	size_t bytes = 0;
	struct place *place;

	while (sink->scanned && bytes < RELAY_STORE_BYTES && (place = STAILQ_FIRST(&sink->dirty))) {
		struct relay_item *item;

		STAILQ_REMOVE_HEAD(&sink->dirty, dirty_link);
		place->dirty = false;
		STAILQ_CONCAT(&place->taken, &place->items);
		STAILQ_FOREACH(item, &place->taken, link)
			bytes += item->frame->bytes;
		STAILQ_INSERT_TAIL(&sink->at_work, place, dirty_link);
	}
	sink->busy = true;
	sink->stored_ns = clock_monotonic();
	disk_thread_submit(sink->config.thread, &sink->job);
}

static void arm(struct disk_sink *sink)
{
	uint64_t now_ns = clock_monotonic(), due_ns = sink->stored_ns + RELAY_STORE_NS;
	uint64_t ns = due_ns > now_ns ? due_ns - now_ns : 0;
	struct timeval delay = {.tv_sec = (time_t)(ns / NS_PER_S),
				.tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	if (!sink->busy && !STAILQ_EMPTY(&sink->dirty) && !event_pending(sink->tick, EV_TIMEOUT, NULL))
		event_add(sink->tick, &delay);
}

static void refuse_homeless(struct disk_sink *sink)
{
	struct relay_item *item;

	while ((item = STAILQ_FIRST(&sink->homeless))) {
		STAILQ_REMOVE_HEAD(&sink->homeless, link);
		item->confirmed(item, -ENOMEM);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct disk_sink *sink = context;

	(void)fd, (void)what;
	refuse_homeless(sink);
	if (!sink->busy && !STAILQ_EMPTY(&sink->dirty))
		submit(sink);
}

/* FNV-1a (Fowler, Noll, Vo). */
static struct place_bucket *bucket_of(struct disk_sink *sink, const char *name)
{
	uint32_t hash = 0x811c9dc5;

	while (*name)
		hash = (hash ^ (uint8_t)*name++) * 0x01000193;
	return &sink->bucket[hash % PLACE_BUCKETS];
}

static void insert(struct disk_sink *sink, struct place *place)
{
	LIST_INSERT_HEAD(sink->busy ? &sink->fresh : &sink->places, place, link);
	LIST_INSERT_HEAD(bucket_of(sink, place->name), place, hash_link);
}

static struct place *find_place(struct disk_sink *sink, const char *name)
{
	struct place *place;

	LIST_FOREACH(place, bucket_of(sink, name), hash_link)
		if (strcmp(place->name, name) == 0)
			return place;
	return NULL;
}

static void join_fresh(struct disk_sink *sink)
{
	struct place *place;

	while ((place = LIST_FIRST(&sink->fresh))) {
		LIST_REMOVE(place, link);
		LIST_INSERT_HEAD(&sink->places, place, link);
	}
}

/* What the scan found. A host that has come meanwhile has a place already, which lists by itself. */
static void adopt(struct disk_sink *sink)
{
	struct place *place;

	while ((place = STAILQ_FIRST(&sink->at_work))) {
		STAILQ_REMOVE_HEAD(&sink->at_work, dirty_link);
		if (find_place(sink, place->name)) {
			sink->bytes -= place->bytes;
			destroy_place(place);
		} else {
			insert(sink, place);
			if (sink->sink.found)
				sink->sink.found(sink->sink.context, place->name);
		}
	}
	sink->scanned = true;
	count(sink);
	log_info("relay-hosts", "state-dir/" DIRECTORY " has %llu hosts, %llu bytes",
		 (unsigned long long)sink->stat.hosts, (unsigned long long)sink->stat.bytes);
}

static void on_done(struct disk_job *job)
{
	struct disk_sink *sink = (struct disk_sink *)((char *)job - offsetof(struct disk_sink, job));
	struct place *place;

	sink->busy = false;
	join_fresh(sink);
	if (!sink->scanned)
		adopt(sink);
	while ((place = STAILQ_FIRST(&sink->at_work))) {
		STAILQ_REMOVE_HEAD(&sink->at_work, dirty_link);
		confirm(place);
		if (place->dirty)
			STAILQ_INSERT_TAIL(&sink->dirty, place, dirty_link);
	}
	count(sink);
	arm(sink);
}

static bool is_at_work(const struct disk_sink *sink, const struct place *place)
{
	return sink->busy && !STAILQ_EMPTY(&place->taken);
}

static void forward(struct relay_sink *base, struct relay_item *item)
{
	struct disk_sink *sink = of(base);
	struct place *place = find_place(sink, item->host);

	if (!place) {
		place = create_place(item->host);
		if (!place) {
			/* Not from in here; nothing of this host is under way. */
			STAILQ_INSERT_TAIL(&sink->homeless, item, link);
			event_active(sink->tick, EV_TIMEOUT, 0);
			return;
		}
		insert(sink, place);
	}
	STAILQ_INSERT_TAIL(&place->items, item, link);
	/* One that is at work is listed again when it is done. */
	if (!place->dirty && !is_at_work(sink, place))
		STAILQ_INSERT_TAIL(&sink->dirty, place, dirty_link);
	place->dirty = true;
	arm(sink);
}

static void destroy(struct relay_sink *base)
{
	struct disk_sink *sink = of(base);
	struct place *place, *next;

	atomic_store(&sink->end_by_ns, clock_monotonic() + RELAY_END_NS);
	disk_thread_settle(sink->config.thread);
	refuse_homeless(sink);
	while (!STAILQ_EMPTY(&sink->dirty)) {
		submit(sink);
		disk_thread_settle(sink->config.thread);
	}
	if (is_late(sink))
		log_warn("relay-unstored", "the disk takes long: what it did not take within %llu s is refused,"
			 " and its hosts send it again", RELAY_END_NS / NS_PER_S);
	for (place = LIST_FIRST(&sink->places); place; place = next) {
		next = LIST_NEXT(place, link);
		destroy_place(place);
	}
	if (sink->tick)
		event_free(sink->tick);
	frame_codec_destroy(sink->codec);
	free(sink);
}

static void stat_of(struct relay_sink *base, const char *host, struct stat_sink *stat)
{
	struct disk_sink *sink = of(base);
	const struct place *place = host ? find_place(sink, host) : NULL;

	stat->kept_bytes = place ? place->shown_bytes : host ? 0 : sink->stat.bytes;
	stat->kept_segments = place ? place->shown_segments : host ? 0 : sink->stat.segments;
}

int disk_sink_create(const struct disk_sink_config *config, struct relay_sink **out,
		     struct error *error)
{
	static const struct relay_sink_ops ops = {.forward = forward, .destroy = destroy, .stat = stat_of};
	struct disk_sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	sink->sink.ops = &ops;
	sink->config = *config;
	sink->job = (struct disk_job){.run = on_run, .done = on_done};
	LIST_INIT(&sink->places);
	LIST_INIT(&sink->fresh);
	STAILQ_INIT(&sink->homeless);
	STAILQ_INIT(&sink->dirty);
	STAILQ_INIT(&sink->at_work);
	sink->codec = frame_codec_create(1);
	sink->tick = evtimer_new(config->base, on_tick, sink);
	if (!sink->codec || !sink->tick) {
		if (sink->tick)
			event_free(sink->tick);
		frame_codec_destroy(sink->codec);
		free(sink);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	submit(sink);
	*out = &sink->sink;
	return 0;
}

void disk_sink_stat(const struct relay_sink *sink, struct disk_sink_stat *stat)
{
	*stat = ((const struct disk_sink *)sink)->stat;
}
