/*
 * First what lies where in the file, then its events and losses, one by one:
 * the batches of different CPUs lie in the file as they were flushed, not in order of time, so each CPU
 * is a stream of its own with its own decoder, and the stream with the oldest event goes next.
 */
#include "daemon/source/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "query/message_text.h"

/* Where one batch lies, or a gap of its CPU's. */
struct recording_part {
	uint64_t offset;
	struct batch_loss gap;		/* .count is 0 for a batch */
};

struct recording_stream {
	uint32_t cpu;
	unsigned index;
	struct recording_part *part;
	size_t parts, next_part;

	/* What comes next of it, looked at ahead of time. */
	struct batch_decoder *decoder;
	uint8_t *raw;			/* of the open batch, FRAME_RAW_BYTES_MAX */
	bool is_open;
	enum recording_read ready;
	struct batch_item item;
	struct batch_loss loss;
	uint64_t time_ns;		/* of `item`; of a loss, that of the event before it */
};

struct recording {
	char *path;
	int fd;
	uint64_t size_bytes;
	uint64_t first_ns;
	struct frame_codec *codec;
	uint8_t *frame;			/* one frame as it lies in the file */
	uint8_t *raw;			/* for opening: the body of that frame */
	Ringtail__V1__Catalog **catalogs;	/* as they came; `catalog` borrows from them */
	size_t catalog_count;
	Ringtail__V1__Catalog catalog;
	struct probe_table probes;
	struct batch_probe batch_probe[RT_PROBE_MAX];

	struct recording_stream *stream[RT_CPUS_MAX];	/* by CPU until opened, then packed */
	unsigned streams;
	struct recording_stream *current;
	uint64_t turn_end_ns;		/* up to here no other stream is older */
	enum recording_read over;	/* END or FAILED, once it is */
};

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Why the frame at `offset` is none that could be played, as an error: -EBADMSG. */
__attribute__((format(printf, 4, 5)))
static int bad_frame(const struct recording *recording, uint64_t offset, struct error *error,
		     const char *format, ...)
{
	char why[ERROR_TEXT_BYTES / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	error_set(error, EBADMSG, offset ? "recording-corrupt" : "recording-foreign",
		  "%s, at byte %" PRIu64 ": %s", recording->path, offset, why);
	if (offset)
		error_hint(error, "the frames before it are good: `head -c %" PRIu64 "` keeps them",
			   offset);
	else
		error_hint(error, "a recording is what `tracectl record -w FILE` writes");
	return -EBADMSG;
}

/* pread of exactly that much; what the file does not have is missing bytes, not an error. */
static ssize_t read_at(const struct recording *recording, uint8_t *to, size_t bytes,
		       uint64_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(recording->fd, to + done, bytes - done, offset + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += n;
	}
	return done;
}

/* Reads the frame at `offset` and checks it. Its body is in `raw` then, always. */
static int read_frame(struct recording *recording, uint64_t offset, uint8_t *raw,
		      struct frame_header *header, struct error *error)
{
	ssize_t n = read_at(recording, recording->frame, FRAME_HEADER_BYTES, offset);
	enum frame_status status;
	const uint8_t *body;

	if (n < 0)
		return error_set(error, -n, "recording-unreadable", "cannot read %s: %s",
				 recording->path, strerror(-n));
	status = frame_parse_header(recording->frame, n, FRAME_RAW_BYTES_MAX, header);
	if (status != FRAME_OK)
		return bad_frame(recording, offset, error, "%s",
					   frame_status_text(status));
	n = read_at(recording, recording->frame + FRAME_HEADER_BYTES, header->body_bytes,
		    offset + FRAME_HEADER_BYTES);
	if (n != (ssize_t)header->body_bytes)
		return bad_frame(recording, offset, error,
					   "the file ends %zd bytes into the body "
					   "of a %s frame that has %" PRIu32, n,
					   frame_type_name(header->type), header->body_bytes);
	status = frame_open(recording->codec, recording->frame, header, raw, &body);
	if (status != FRAME_OK)
		return bad_frame(recording, offset, error, "%s",
					   frame_status_text(status));
	if (body != raw)
		memcpy(raw, body, header->raw_bytes);
	return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int no_memory(const struct recording *recording, struct error *error)
{
	return error_set(error, ENOMEM, "out-of-memory", "no memory to replay %s", recording->path);
}

/* Makes room for one more of *count things of `size`; *array doubles at powers of two. */
static bool grow(void *array, size_t count, size_t size)
{
	void **old = array, *larger;

	if (count & (count - 1))
		return true;
	larger = realloc(*old, (count ? count * 2 : 1) * size);
	if (larger)
		*old = larger;
	return larger;
}

/* A file may hold several catalogs, one for each segment or subscription: what is new is added. */
static int add_catalog(struct recording *recording, uint64_t offset,
		       const struct frame_header *header, struct error *error)
{
	Ringtail__V1__Catalog *all = &recording->catalog, *catalog;
	struct message_text_place place;
	struct error why;

	if (!grow(&recording->catalogs, recording->catalog_count, sizeof(catalog)))
		return no_memory(recording, error);
	catalog = message_unpack(&ringtail__v1__catalog__descriptor, NULL, recording->raw,
				 header->raw_bytes);
	if (!catalog)
		return bad_frame(recording, offset, error, "not a catalog");
	recording->catalogs[recording->catalog_count++] = catalog;
	if (!message_text_is_visible(&catalog->base, &place))
		return bad_frame(recording, offset, error, "a catalog with names that are no text");
	for (size_t i = 0; i < catalog->n_probe; i++) {
		uint32_t id = catalog->probe[i]->id;

		if (id < RT_PROBE_MAX && recording->probes.probe[id].known) {
			if (recording->probes.probe[id].fields == catalog->probe[i]->n_field)
				continue;
			return bad_frame(recording, offset, error,
						   "probe %" PRIu32 " is not what it was", id);
		}
		if (!grow(&all->probe, all->n_probe, sizeof(*all->probe)))
			return no_memory(recording, error);
		all->probe[all->n_probe++] = catalog->probe[i];
	}
	if (all->n_probe > CATALOG_PROBES_MAX)
		return bad_frame(recording, offset, error, "over %u probes",
					   CATALOG_PROBES_MAX);
	if (probe_table_init(&recording->probes, all, &why))
		return bad_frame(recording, offset, error, "%s", why.what);
	for (unsigned id = 0; id < RT_PROBE_MAX; id++) {
		const struct probe_info *info = &recording->probes.probe[id];

		recording->batch_probe[id] = (struct batch_probe){
			.fields = info->fields, .has_duration = info->has_duration,
			.known = info->known && id >= RT_PROBE_EVENT_MIN,
		};
	}
	return 0;
}

static struct recording_stream *stream_of(struct recording *recording, uint32_t cpu)
{
	struct recording_stream *stream = recording->stream[cpu];

	if (stream)
		return stream;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return NULL;
	stream->cpu = cpu;
	stream->raw = malloc(FRAME_RAW_BYTES_MAX);
	stream->decoder = batch_decoder_create(recording->batch_probe, RT_PROBE_MAX);
	recording->stream[cpu] = stream;
	return stream->raw && stream->decoder ? stream : NULL;
}

static int add_part(struct recording *recording, uint64_t offset, uint32_t cpu,
		    const struct batch_loss *gap, struct error *error)
{
	struct recording_stream *stream;

	if (cpu >= RT_CPUS_MAX)
		return bad_frame(recording, offset, error,
					   "CPU %" PRIu32 ", over the bound of %u",
					   cpu, RT_CPUS_MAX);
	stream = stream_of(recording, cpu);
	if (!stream || !grow(&stream->part, stream->parts, sizeof(*stream->part)))
		return no_memory(recording, error);
	stream->part[stream->parts++] = (struct recording_part){ .offset = offset, .gap = *gap };
	return 0;
}

/* A record has room for what one event of ours may carry, and so for no more than that. */
static bool fits_record(const struct batch_item *item)
{
	size_t bytes = RT_RECORD_HEADER_BYTES + item->event.fields * 8;

	for (size_t i = 0; i < item->attachments; i++) {
		const struct batch_attachment *attachment = &item->attachment[i];

		bytes += sizeof(struct rt_attachment) + attachment->frames * 8 +
			 ((attachment->text_bytes + 7) & ~(size_t)7);
	}
	return bytes <= RT_RECORD_BYTES_MAX;
}

/* Decodes a batch to its end, so that playing it later is sure to succeed. */
static int add_batch(struct recording *recording, struct batch_decoder *decoder, uint64_t offset,
		     const struct frame_header *header, struct error *error)
{
	struct batch_summary summary;
	struct batch_item item;

	if (batch_decode_open(decoder, recording->raw, header->raw_bytes, &summary))
		return bad_frame(recording, offset, error, "%s",
					   batch_decode_error(decoder));
	while (batch_decode_next(decoder, &item) != BATCH_END) {
		if (item.kind == BATCH_ERROR)
			return bad_frame(recording, offset, error, "%s",
						   batch_decode_error(decoder));
		if (item.kind != BATCH_EVENT)
			continue;
		if (!fits_record(&item))
			return bad_frame(recording, offset, error,
						   "event %" PRIu64 " has more attachments "
						   "than a record holds", item.seq);
		if (!recording->first_ns || item.event.time_ns < recording->first_ns)
			recording->first_ns = item.event.time_ns;
	}
	return add_part(recording, offset, summary.cpu, &(struct batch_loss){ 0 }, error);
}

/* `events` of a gap, where it is known, is how many of its attempts the recorder missed. */
static int add_gap(struct recording *recording, uint64_t offset, const struct frame_header *header,
		   struct error *error)
{
	Ringtail__V1__Gap *gap = message_unpack(&ringtail__v1__gap__descriptor, NULL, recording->raw,
						header->raw_bytes);
	struct batch_loss loss = { 0 };
	uint32_t cpu;

	if (!gap)
		return bad_frame(recording, offset, error, "not a gap");
	cpu = gap->cpu;
	if (gap->end_seq > gap->first_seq) {
		loss.first_seq = gap->first_seq;
		loss.count = gap->events ? gap->events : gap->end_seq - gap->first_seq;
		loss.stage = gap->stage;
		loss.reason = gap->reason;
	}
	ringtail__v1__gap__free_unpacked(gap, NULL);
	return loss.count ? add_part(recording, offset, cpu, &loss, error) : 0;
}

static int add_frame(struct recording *recording, struct batch_decoder *decoder, uint64_t offset,
		     const struct frame_header *header, struct error *error)
{
	if (!offset && header->type != FRAME_SERVER_HELLO)
		return bad_frame(recording, offset, error, "it begins with a %s frame",
					   frame_type_name(header->type));
	switch (header->type) {
	case FRAME_CATALOG:
		return add_catalog(recording, offset, header, error);
	case FRAME_BATCH:
		return add_batch(recording, decoder, offset, header, error);
	case FRAME_GAP:
		return add_gap(recording, offset, header, error);
	default:
		return 0;	/* speaks to whoever was connected; nothing of it can be replayed */
	}
}

static int add_frames(struct recording *recording, struct error *error)
{
	struct batch_decoder *decoder = batch_decoder_create(recording->batch_probe, RT_PROBE_MAX);
	struct frame_header header = { 0 };
	uint64_t offset = 0;
	int err;

	if (!decoder)
		return no_memory(recording, error);
	do {
		err = read_frame(recording, offset, recording->raw, &header, error);
		if (!err)
			err = add_frame(recording, decoder, offset, &header, error);
		offset += FRAME_HEADER_BYTES + header.body_bytes;
	} while (!err && offset < recording->size_bytes);
	if (!err && header.type != FRAME_BYE)
		log_warn("recording-cut-short", "%s has no end: it was cut short after byte %" PRIu64
			 ", or is still being written; what it has is replayed", recording->path,
			 offset);
	batch_decoder_destroy(decoder);
	return err;
}

static int open_file(struct recording *recording, struct error *error)
{
	off_t size;

	recording->fd = open(recording->path, O_RDONLY | O_CLOEXEC);
	if (recording->fd < 0)
		return error_set(error, errno, "recording-unreadable", "cannot open %s: %s",
				 recording->path, strerror(errno));
	size = lseek(recording->fd, 0, SEEK_END);
	if (size < 0)
		return error_set(error, errno, "recording-unreadable", "cannot replay %s: %s",
				 recording->path, strerror(errno));
	recording->size_bytes = size;
	return 0;
}

int recording_open(const char *path, struct recording **recording, struct error *error)
{
	struct recording *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return error_set(error, ENOMEM, "out-of-memory", "no memory to replay %s", path);
	r->fd = -1;
	r->path = strdup(path);
	r->codec = frame_codec_create(1);
	r->frame = malloc(FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX);
	r->raw = malloc(FRAME_RAW_BYTES_MAX);
	ringtail__v1__catalog__init(&r->catalog);
	if (!r->path || !r->codec || !r->frame || !r->raw)
		err = error_set(error, ENOMEM, "out-of-memory", "no memory to replay %s", path);
	else
		err = open_file(r, error);
	if (!err)
		err = add_frames(r, error);
	for (unsigned cpu = 0; cpu < RT_CPUS_MAX; cpu++) {
		struct recording_stream *stream = r->stream[cpu];

		r->stream[cpu] = NULL;
		if (!stream)
			continue;
		stream->index = r->streams;
		r->stream[r->streams++] = stream;
	}
	if (err) {
		recording_close(r);
		return err;
	}
	*recording = r;
	return 0;
}

void recording_close(struct recording *recording)
{
	if (!recording)
		return;
	for (unsigned i = 0; i < recording->streams; i++) {
		batch_decoder_destroy(recording->stream[i]->decoder);
		free(recording->stream[i]->raw);
		free(recording->stream[i]->part);
		free(recording->stream[i]);
	}
	for (size_t i = 0; i < recording->catalog_count; i++)
		ringtail__v1__catalog__free_unpacked(recording->catalogs[i], NULL);
	free(recording->catalogs);
	free(recording->catalog.probe);
	free(recording->raw);
	free(recording->frame);
	frame_codec_destroy(recording->codec);
	if (recording->fd >= 0)
		close(recording->fd);
	free(recording->path);
	free(recording);
}

/* ---- Questions ------------------------------------------------------------------------------- */

const Ringtail__V1__Catalog *recording_catalog(const struct recording *recording)
{
	return &recording->catalog;
}

const struct probe_table *recording_probes(const struct recording *recording)
{
	return &recording->probes;
}

unsigned recording_streams(const struct recording *recording)
{
	return recording->streams;
}

uint32_t recording_cpu(const struct recording *recording, unsigned stream)
{
	return recording->stream[stream]->cpu;
}

uint64_t recording_first_ns(const struct recording *recording)
{
	return recording->first_ns;
}

/* ---- Playing ----------------------------------------------------------------------------------- */

/* Opens a stream's next batch, or makes its next gap ready. */
static int open_part(struct recording *recording, struct recording_stream *stream,
		     struct error *error)
{
	const struct recording_part *part = &stream->part[stream->next_part++];
	struct batch_summary summary;
	struct frame_header header;
	int err;

	if (part->gap.count) {
		stream->loss = part->gap;
		stream->ready = RECORDING_LOSS;
		return 0;
	}
	err = read_frame(recording, part->offset, stream->raw, &header, error);
	if (err)
		return err;
	if (batch_decode_open(stream->decoder, stream->raw, header.raw_bytes, &summary))
		return bad_frame(recording, part->offset, error, "%s",
					   batch_decode_error(stream->decoder));
	stream->is_open = true;
	return 0;
}

/* Looks at what comes next of a stream. */
static int look_ahead(struct recording *recording, struct recording_stream *stream,
		      struct error *error)
{
	stream->ready = RECORDING_END;
	while (stream->ready == RECORDING_END) {
		if (!stream->is_open) {
			int err;

			if (stream->next_part == stream->parts)
				return 0;
			err = open_part(recording, stream, error);
			if (err)
				return err;
			continue;
		}
		switch (batch_decode_next(stream->decoder, &stream->item)) {
		case BATCH_EVENT:
			stream->time_ns = stream->item.event.time_ns;
			stream->ready = RECORDING_EVENT;
			break;
		case BATCH_LOSS:
			stream->loss = stream->item.loss;
			stream->ready = RECORDING_LOSS;
			break;
		case BATCH_END:
			stream->is_open = false;
			break;
		case BATCH_ERROR:
			return bad_frame(recording,
						   stream->part[stream->next_part - 1].offset,
						   error, "%s",
						   batch_decode_error(stream->decoder));
		}
	}
	return 0;
}

/* Gives the turn to the stream that is oldest, for as long as it is. NULL: all are at their end. */
static struct recording_stream *choose_stream(struct recording *recording)
{
	recording->current = NULL;
	recording->turn_end_ns = UINT64_MAX;
	for (unsigned i = 0; i < recording->streams; i++) {
		struct recording_stream *stream = recording->stream[i];

		if (stream->ready == RECORDING_END)
			continue;
		if (!recording->current || stream->time_ns < recording->current->time_ns) {
			if (recording->current)
				recording->turn_end_ns = recording->current->time_ns;
			recording->current = stream;
		} else if (stream->time_ns < recording->turn_end_ns) {
			recording->turn_end_ns = stream->time_ns;
		}
	}
	return recording->current;
}

/* The first call looks at every stream, each later one at the one whose item was given out. */
static int look_on(struct recording *recording, struct error *error)
{
	int err = 0;

	if (recording->current)
		return look_ahead(recording, recording->current, error);
	for (unsigned i = 0; i < recording->streams && !err; i++)
		err = look_ahead(recording, recording->stream[i], error);
	return err;
}

enum recording_read recording_next(struct recording *recording, struct recording_item *item,
				   struct error *error)
{
	struct recording_stream *stream;

	if (recording->over)
		return recording->over;
	if (look_on(recording, error))
		return recording->over = RECORDING_FAILED;
	stream = recording->current;
	if (!stream || stream->ready == RECORDING_END || stream->time_ns > recording->turn_end_ns)
		stream = choose_stream(recording);
	if (!stream)
		return recording->over = RECORDING_END;
	*item = (struct recording_item){
		.stream = stream->index,
		.batch = &stream->item,
		.decoder = stream->decoder,
		.loss = stream->loss,
	};
	return stream->ready;
}
