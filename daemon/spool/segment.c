/*
 * spool_segment: one file of a spool: its beginning, frames, its end; and the same read back. On
 * the disk thread. See spool_store.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/disk/disk.h"
#include "daemon/spool/store.h"
#include "proto/message.h"
#include "proto/segment.h"

#define BUFFER_BYTES (FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX)

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_bytes(struct spool_store *store, const uint8_t *bytes, size_t n)
{
	struct spool_segment *segment = store->current;
	uint64_t written = 0;
	int err = disk_write_all(store->disk, store->file, bytes, n, &written);

	segment->bytes += written;
	store->bytes += written;
	if (err)
		return err;
	segment->good_bytes += n;
	store->crc = frame_crc32c(store->crc, bytes, n);
	return 0;
}

/* Takes the reference. */
static int write_own(struct spool_store *store, struct frame_ref *frame)
{
	int err = frame ? write_bytes(store, frame->data, frame->bytes) : -ENOMEM;

	frame_ref_put(frame);
	return err;
}

static struct frame_ref *pack_head(struct spool_store *store)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;
	const struct spool_store_config *config = &store->config;
	Ringtail__V1__Flag flag[SEGMENT_FLAGS];

	head.sequence = store->current->sequence;
	head.spool = (char *)config->name;
	head.boot_id.data = store->config.run.boot_id;
	head.boot_id.len = sizeof(store->config.run.boot_id);
	head.epoch = config->run.epoch;
	head.realtime_ns = store->current->begun_realtime_ns;
	head.probe = (char **)config->probe;
	head.n_probe = config->probes;
	head.filter = (char *)(config->filter ? config->filter : "");
	head.flag = flag;
	head.n_flag = segment_list_flags(config->flags, flag);
	head.whole_realtime_ns = store->current->whole_realtime_ns;
	head.for_consumers = store->current->for_consumers;
	head.begins_record = store->current->begins_record;
	return frame_ref_pack(store->codec, FRAME_SEGMENT_HEAD, &head.base);
}

static struct cursor_message *make_cursor(const struct spool_segment *segment,
					  const struct cursor *marks)
{
	struct cursor_message *made = cursor_message_create(marks);

	if (!made)
		return NULL;
	made->run = segment->run;
	made->cursor.epoch = segment->run.epoch;
	return made;
}

static struct frame_ref *pack_subscribed(struct spool_store *store)
{
	Ringtail__V1__Subscribed message = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor_message *start = make_cursor(store->current, store->told);
	struct frame_ref *frame;

	if (!start)
		return NULL;
	message.start = &start->cursor;
	message.resumed = true;
	frame = frame_ref_pack(store->codec, FRAME_SUBSCRIBED, &message.base);
	free(start);
	return frame;
}

struct frame_ref *spool_segment_pack_end(struct spool_store *store,
					 const struct spool_segment *segment, uint32_t crc,
					 uint64_t frames, uint64_t events, uint64_t first_time_ns,
					 uint64_t last_time_ns, const struct cursor *marks)
{
	Ringtail__V1__SegmentEnd message = RINGTAIL__V1__SEGMENT_END__INIT;
	struct cursor_message *end = make_cursor(segment, marks);
	struct frame_ref *frame;

	if (!end)
		return NULL;
	message.sequence = segment->sequence;
	message.bytes = segment->good_bytes;
	message.crc32c = crc;
	message.frames = frames;
	message.events = events;
	message.first_time_ns = first_time_ns;
	message.last_time_ns = last_time_ns;
	message.end = &end->cursor;
	message.final = segment->final;
	frame = frame_ref_pack(store->codec, FRAME_SEGMENT_END, &message.base);
	free(end);
	return frame;
}

static int write_heads(struct spool_store *store)
{
	int err = write_own(store, pack_head(store));

	if (!err)
		err = write_bytes(store, store->config.hello->data, store->config.hello->bytes);
	if (!err)
		err = write_bytes(store, store->config.catalog->data, store->config.catalog->bytes);
	return err ? err : write_own(store, pack_subscribed(store));
}

/* Nothing of this run has been written before. */
static bool begins_run(const struct spool_store *store, const struct spool_segment *segment)
{
	for (size_t i = 0; i < store->segments; i++)
		if (store->segment[i] != segment &&
		    spool_segment_is_of(store->segment[i], &store->config.run))
			return false;
	return !store->begun_run;
}

int spool_segment_begin(struct spool_store *store)
{
	struct spool_segment *segment = spool_store_add(store, store->next_sequence, SEGMENT_OPEN);
	char path[SPOOL_PATH_BYTES];
	int err;

	if (!segment)
		return -ENOMEM;
	store->next_sequence++;
	store->current = segment;
	store->file = -1;
	store->crc = 0;
	store->frames = store->events = 0;
	store->first_time_ns = store->last_time_ns = 0;
	store->any_durable = false;
	store->begun_ns = store->now_ns;
	segment->begun_realtime_ns = store->realtime_ns;
	segment->whole_realtime_ns = begins_run(store, segment) && store->recorded_realtime_ns ?
					     store->recorded_realtime_ns : store->realtime_ns;
	segment->is_first = !store->begun_run;
	segment->begins_record = segment->is_first && store->orderly && !store->config.goes_on;
	segment->ended_ns = (int64_t)store->now_ns;
	segment->trusted = true;
	segment->for_consumers = !store->always_on;
	segment->run = store->config.run;
	segment->start = cursor_copy(store->told);
	if (!segment->start)
		return -ENOMEM;
	spool_store_path(store, segment->sequence, SEGMENT_OPEN, path);
	store->file = store->disk->ops->open(store->disk, path,
					     O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
	if (store->file < 0)
		return store->file;
	/* What is durable in a file of no name is durable for nobody. */
	err = store->config.durability == SPOOL_FSYNC ?
		      store->disk->ops->sync_directory(store->disk, store->directory) : 0;
	if (!err)
		err = write_heads(store);
	segment->readable = !err;
	store->begun_run |= !err;
	return err;
}

int spool_segment_write(struct spool_store *store, const struct frame_ref *frame)
{
	int err = write_bytes(store, frame->data, frame->bytes);

	if (err)
		return err;
	store->frames++;
	store->events += frame->events;
	if (frame->type == FRAME_WATERMARK) {
		store->last_time_ns = frame->time_ns;
		if (!store->first_time_ns)
			store->first_time_ns = frame->time_ns;
	}
	return 0;
}

int spool_segment_end(struct spool_store *store)
{
	struct spool_segment *segment = store->current;
	uint64_t good_bytes = segment->good_bytes;
	int err;

	free(segment->end);
	segment->end = cursor_copy(store->told);
	if (!segment->end)
		return -ENOMEM;
	segment->final = store->final;
	segment->crc32c = store->crc;
	err = write_own(store, spool_segment_pack_end(store, segment, store->crc, store->frames,
						      store->events, store->first_time_ns,
						      store->last_time_ns, store->told));
	segment->good_bytes = good_bytes;
	return err;
}

int spool_segment_rename(struct spool_store *store)
{
	char open[SPOOL_PATH_BYTES], sealed[SPOOL_PATH_BYTES];
	struct spool_segment *segment = store->current;
	int err;

	spool_store_path(store, segment->sequence, SEGMENT_OPEN, open);
	spool_store_path(store, segment->sequence, SEGMENT_SEALED, sealed);
	err = store->disk->ops->rename(store->disk, open, sealed);
	if (err)
		return err;
	segment->state = SEGMENT_SEALED;
	/* Under either name it is found: that this failed is news, but no loss. */
	return store->disk->ops->sync_directory(store->disk, store->directory);
}

void spool_segment_close(struct spool_store *store)
{
	if (store->file >= 0)
		store->disk->ops->close(store->disk, store->file);
	store->file = -1;
	store->current->ended_ns = (int64_t)store->now_ns;
	store->current = NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

int spool_checksum(struct spool_store *store, int file, uint64_t bytes, uint32_t *crc)
{
	uint64_t at = 0;

	*crc = 0;
	while (at < bytes) {
		size_t room = bytes - at < BUFFER_BYTES ? (size_t)(bytes - at) : BUFFER_BYTES;
		ssize_t got = store->disk->ops->read(store->disk, file, store->buffer, room, at);

		if (got <= 0)
			return got < 0 ? (int)got : -EBADMSG;
		*crc = frame_crc32c(*crc, store->buffer, (size_t)got);
		at += (uint64_t)got;
	}
	return 0;
}

int spool_check(struct spool_store *store, struct spool_segment *segment, int file)
{
	uint32_t crc;
	int err = segment->checked ? 0 :
				     spool_checksum(store, file, segment->good_bytes, &crc);

	if (!err && !segment->checked && crc != segment->crc32c)
		err = -EBADMSG;
	segment->checked |= !err;
	return err;
}

void spool_scan_init(struct spool_scan *scan, struct spool_store *store, int file, uint64_t offset,
		     uint64_t limit)
{
	*scan = (struct spool_scan){
		.store = store, .file = file, .offset = offset, .limit = limit};
}

/* Until `need` bytes lie at `at`. -EBADMSG: there are not so many. */
static int fill(struct spool_scan *scan, size_t need)
{
	struct disk *disk = scan->store->disk;
	uint8_t *buffer = scan->store->buffer;

	if (scan->limit - scan->offset < need)
		return -EBADMSG;
	if (scan->at && scan->have - scan->at < need) {
		memmove(buffer, buffer + scan->at, scan->have - scan->at);
		scan->have -= scan->at;
		scan->at = 0;
	}
	while (scan->have - scan->at < need) {
		uint64_t from = scan->offset + (scan->have - scan->at);
		uint64_t left = scan->limit - from;
		size_t room = BUFFER_BYTES - scan->have;
		ssize_t got = disk->ops->read(disk, scan->file, buffer + scan->have,
					      left < room ? (size_t)left : room, from);

		if (got <= 0)
			return got < 0 ? (int)got : -EBADMSG;
		scan->have += (size_t)got;
	}
	return 0;
}

int spool_scan_next(struct spool_scan *scan)
{
	struct spool_store *store = scan->store;
	int err;

	if (scan->offset >= scan->limit)
		return 0;
	err = fill(scan, FRAME_HEADER_BYTES);
	if (err)
		return err;
	if (frame_parse_header(store->buffer + scan->at, FRAME_HEADER_BYTES, FRAME_RAW_BYTES_MAX,
			       &scan->header) != FRAME_OK)
		return -EBADMSG;
	err = fill(scan, FRAME_HEADER_BYTES + (size_t)scan->header.body_bytes);
	if (err)
		return err;
	scan->frame = store->buffer + scan->at;
	if (frame_open(store->codec, scan->frame, &scan->header, store->raw, &scan->raw) !=
	    FRAME_OK)
		return -EBADMSG;
	scan->at += FRAME_HEADER_BYTES + scan->header.body_bytes;
	scan->offset += FRAME_HEADER_BYTES + scan->header.body_bytes;
	return 1;
}

/* The next frame, which must be of that type. */
static int expect(struct spool_scan *scan, enum frame_type type)
{
	int got = spool_scan_next(scan);

	if (got < 0)
		return got;
	return got == 1 && scan->header.type == type ? 0 : -EBADMSG;
}

static int read_head(struct spool_scan *scan, struct spool_segment *segment)
{
	Ringtail__V1__SegmentHead *head =
		message_unpack(&ringtail__v1__segment_head__descriptor, NULL, scan->raw,
			       scan->header.raw_bytes);
	int err = -EBADMSG;

	if (head && head->sequence == segment->sequence &&
	    head->boot_id.len == sizeof(segment->run.boot_id)) {
		segment->run = run_of_message(head->boot_id, head->epoch);
		segment->begun_realtime_ns = head->realtime_ns;
		segment->whole_realtime_ns = head->whole_realtime_ns ? head->whole_realtime_ns :
								       head->realtime_ns;
		segment->for_consumers = head->for_consumers;
		segment->begins_record = head->begins_record;
		err = 0;
	}
	if (head)
		ringtail__v1__segment_head__free_unpacked(head, NULL);
	return err;
}

static int read_start(struct spool_scan *scan, struct spool_segment *segment)
{
	Ringtail__V1__Subscribed *message =
		message_unpack(&ringtail__v1__subscribed__descriptor, NULL, scan->raw,
			       scan->header.raw_bytes);
	struct cursor *start;

	if (!message)
		return -EBADMSG;
	start = cursor_of_message(message->start);
	ringtail__v1__subscribed__free_unpacked(message, NULL);
	if (!start)
		return -ENOMEM;
	free(segment->start);
	segment->start = start;
	return 0;
}

int spool_scan_head(struct spool_scan *scan, struct spool_segment *segment)
{
	int err = expect(scan, FRAME_SEGMENT_HEAD);

	if (!err)
		err = read_head(scan, segment);
	if (!err)
		err = expect(scan, FRAME_SERVER_HELLO);
	if (!err)
		err = expect(scan, FRAME_CATALOG);
	if (!err)
		err = expect(scan, FRAME_SUBSCRIBED);
	return err ? err : read_start(scan, segment);
}
