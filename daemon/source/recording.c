/* recording: see recording.h. This file: what lies where in it. recording_play.c: its items. */
#include "daemon/source/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/source/recording_private.h"

/* ---- Frames ---------------------------------------------------------------------------------- */

int recording_bad_frame(const struct recording *recording, uint64_t offset, struct error *error,
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
		error_hint(error, "what comes before is good: head -c %" PRIu64 " keeps it",
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

int recording_read_frame(struct recording *recording, uint64_t offset, uint8_t *raw,
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
		return recording_bad_frame(recording, offset, error, "%s",
					   frame_status_text(status));
	n = read_at(recording, recording->frame + FRAME_HEADER_BYTES, header->body_bytes,
		    offset + FRAME_HEADER_BYTES);
	if (n != (ssize_t)header->body_bytes)
		return recording_bad_frame(recording, offset, error,
					   "the file ends %zd bytes into the body "
					   "of a %s frame that has %" PRIu32, n,
					   frame_type_name(header->type), header->body_bytes);
	status = frame_open(recording->codec, recording->frame, header, raw, &body);
	if (status != FRAME_OK)
		return recording_bad_frame(recording, offset, error, "%s",
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
	struct error why;

	if (!grow(&recording->catalogs, recording->catalog_count, sizeof(catalog)))
		return no_memory(recording, error);
	catalog = ringtail__v1__catalog__unpack(NULL, header->raw_bytes, recording->raw);
	if (!catalog)
		return recording_bad_frame(recording, offset, error, "not a catalog");
	recording->catalogs[recording->catalog_count++] = catalog;
	for (size_t i = 0; i < catalog->n_probe; i++) {
		uint32_t id = catalog->probe[i]->id;

		if (id < RT_PROBE_MAX && recording->probes.probe[id].known) {
			if (recording->probes.probe[id].fields == catalog->probe[i]->n_field)
				continue;
			return recording_bad_frame(recording, offset, error,
						   "probe %" PRIu32 " is not what it was", id);
		}
		if (!grow(&all->probe, all->n_probe, sizeof(*all->probe)))
			return no_memory(recording, error);
		all->probe[all->n_probe++] = catalog->probe[i];
	}
	if (all->n_probe > CATALOG_PROBES_MAX)
		return recording_bad_frame(recording, offset, error, "over %u probes",
					   CATALOG_PROBES_MAX);
	if (probe_table_init(&recording->probes, all, &why))
		return recording_bad_frame(recording, offset, error, "%s", why.what);
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
		return recording_bad_frame(recording, offset, error,
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
		return recording_bad_frame(recording, offset, error, "%s",
					   batch_decode_error(decoder));
	while (batch_decode_next(decoder, &item) != BATCH_END) {
		if (item.kind == BATCH_ERROR)
			return recording_bad_frame(recording, offset, error, "%s",
						   batch_decode_error(decoder));
		if (item.kind != BATCH_EVENT)
			continue;
		if (!fits_record(&item))
			return recording_bad_frame(recording, offset, error,
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
	Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, header->raw_bytes, recording->raw);
	struct batch_loss loss = { 0 };
	uint32_t cpu;

	if (!gap)
		return recording_bad_frame(recording, offset, error, "not a gap");
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
		return recording_bad_frame(recording, offset, error, "it begins with a %s frame",
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
		err = recording_read_frame(recording, offset, recording->raw, &header, error);
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
