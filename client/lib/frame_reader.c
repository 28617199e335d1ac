#include "client/lib/frame_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/limits.h"
#include "proto/limits.h"

struct frame_reader {
	int fd;
	ssize_t (*read)(void *context, void *bytes, size_t n);	/* NULL: from fd */
	void *context;
	uint32_t raw_max;
	enum frame_status status;
	uint64_t offset;	/* of buffer[begin] in the stream */
	size_t begin, end;	/* unread bytes */
	size_t size;
	size_t need;		/* bytes of the frame at `begin`, as far as is known */
	uint8_t *buffer;
};

struct frame_reader *frame_reader_create(int fd, uint32_t raw_max)
{
	struct frame_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->buffer = malloc(READ_BUFFER_BYTES);
	if (!reader->buffer) {
		free(reader);
		return NULL;
	}
	reader->size = READ_BUFFER_BYTES;
	reader->need = FRAME_HEADER_BYTES;
	reader->fd = fd;
	reader->raw_max = raw_max;
	return reader;
}

void frame_reader_set_source(struct frame_reader *reader,
			     ssize_t (*source)(void *context, void *bytes, size_t n), void *context)
{
	reader->read = source;
	reader->context = context;
}

void frame_reader_destroy(struct frame_reader *reader)
{
	if (!reader)
		return;
	free(reader->buffer);
	free(reader);
}

/* Makes room for a frame of `need` bytes at the front of the buffer. */
static int make_room(struct frame_reader *reader, size_t need)
{
	uint8_t *larger;

	if (reader->begin) {
		memmove(reader->buffer, reader->buffer + reader->begin,
			reader->end - reader->begin);
		reader->end -= reader->begin;
		reader->begin = 0;
	}
	if (need <= reader->size)
		return 0;
	larger = realloc(reader->buffer, need);
	if (!larger)
		return -ENOMEM;
	reader->buffer = larger;
	reader->size = need;
	return 0;
}

/* Whether a whole frame lies at `begin`; sets how many bytes it takes to tell, or to have it. */
static enum frame_status look(struct frame_reader *reader, struct frame *frame)
{
	const uint8_t *at = reader->buffer + reader->begin;
	size_t unread = reader->end - reader->begin;
	enum frame_status status = frame_parse_header(at, unread, reader->raw_max, &frame->header);

	reader->need = FRAME_HEADER_BYTES;
	if (status != FRAME_OK)
		return status;
	reader->need += frame->header.body_bytes;
	return unread < reader->need ? FRAME_SHORT : FRAME_OK;
}

enum frame_read frame_reader_next(struct frame_reader *reader, struct frame *frame)
{
	enum frame_status status = reader->status;

	if (status == FRAME_OK)
		status = look(reader, frame);
	if (status == FRAME_SHORT)
		return FRAME_READ_MORE;
	if (status != FRAME_OK) {
		reader->status = status;
		return FRAME_READ_BAD;
	}
	frame->bytes = reader->buffer + reader->begin;
	frame->size = reader->need;
	frame->offset = reader->offset;
	reader->begin += reader->need;
	reader->offset += reader->need;
	reader->need = FRAME_HEADER_BYTES;
	return FRAME_READ_FRAME;
}

enum frame_read frame_reader_fill(struct frame_reader *reader)
{
	ssize_t n;

	if (make_room(reader, reader->need)) {
		errno = ENOMEM;
		return FRAME_READ_FAILED;
	}
	n = reader->read ? reader->read(reader->context, reader->buffer + reader->end,
					reader->size - reader->end) :
			   read(reader->fd, reader->buffer + reader->end, reader->size - reader->end);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? FRAME_READ_MORE : FRAME_READ_FAILED;
	if (n == 0)
		return reader->end ? FRAME_READ_TRUNCATED : FRAME_READ_END;
	reader->end += (size_t)n;
	return FRAME_READ_MORE;
}

enum frame_status frame_reader_status(const struct frame_reader *reader)
{
	return reader->status;
}

uint64_t frame_reader_offset(const struct frame_reader *reader)
{
	return reader->offset;
}

const uint8_t *frame_reader_peek(const struct frame_reader *reader, size_t *bytes)
{
	*bytes = reader->end - reader->begin;
	return reader->buffer + reader->begin;
}

/* ---- What are no frames ---------------------------------------------------------------------- */

#define LOOKED_AT_BYTES 256

#define KIND(signature, name) { signature, sizeof(signature) - 1, name }

static const struct {
	const char *signature;
	size_t bytes;
	const char *name;
} kinds[] = {
	KIND("\x1f\x8b", "gzip data: decompress it first"),
	KIND("\x28\xb5\x2f\xfd", "zstd data: decompress it first"),
	KIND("\xfd""7zXZ", "xz data: decompress it first"),
	KIND("BZh", "bzip2 data: decompress it first"),
	KIND("PK\x03\x04", "a zip archive"),
	KIND("\x7f""ELF", "an ELF program or library"),
	KIND("PERFILE2", "perf.data of perf record: `perf script` reads it"),
	KIND("\x17\x08\x44tracing", "trace.dat of trace-cmd: `trace-cmd report` reads it"),
	KIND("\xc1\x1f\xfc\xc1", "a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\xc1\xfc\x1f\xc1", "a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\x75\xd1\x1d\x57", "metadata of a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\x57\x1d\xd1\x75", "metadata of a CTF trace (LTTng): `babeltrace2` reads it"),
	KIND("\xd4\xc3\xb2\xa1", "a packet capture: `tcpdump -r` reads it"),
	KIND("\xa1\xb2\xc3\xd4", "a packet capture: `tcpdump -r` reads it"),
	KIND("\x0a\x0d\x0d\x0a", "a packet capture: `tcpdump -r` reads it"),
	KIND("HTTP/", "an HTTP server's answer"),
	KIND("SSH-", "an SSH server's greeting"),
	KIND("\x15\x03", "a TLS server's answer"),
	KIND("{\"", "JSON"),
};

const char *file_kind_name(const uint8_t *bytes, size_t n)
{
	size_t zeros = 0, text = 0;

	if (!n)
		return "an empty file";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (n >= kinds[i].bytes && !memcmp(bytes, kinds[i].signature, kinds[i].bytes))
			return kinds[i].name;
	if (n > LOOKED_AT_BYTES)
		n = LOOKED_AT_BYTES;
	for (size_t i = 0; i < n; i++) {
		zeros += bytes[i] == 0;
		text += (bytes[i] >= 0x20 && bytes[i] != 0x7f) || bytes[i] == '\n' ||
			bytes[i] == '\t' || bytes[i] == '\r';
	}
	if (zeros == n)
		return "nothing but zeros";
	return text == n ? "text" : "binary data of a kind unknown here";
}
