/*
 * frame_reader: bytes from a descriptor in, whole frames out.
 *
 * Taking a frame never reads; filling reads once. So the caller decides when it may wait, and can
 * poll first. Holds READ_BUFFER_BYTES, or the frame at hand if that is larger. One thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_FRAME_READER_H
#define RINGTAIL_CLIENT_LIB_FRAME_READER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/frame.h"

struct frame_reader;

enum frame_read {
	FRAME_READ_FRAME,
	FRAME_READ_MORE,	/* next: fill first; fill: try next */
	FRAME_READ_END,		/* end of file, between two frames */
	FRAME_READ_TRUNCATED,	/* end of file, inside a frame */
	FRAME_READ_BAD,		/* frame_reader_status() says why; it stays there */
	FRAME_READ_FAILED,	/* errno says why */
};

struct frame {
	struct frame_header header;
	const uint8_t *bytes;	/* header and body, borrowed until the next call */
	size_t size;
	uint64_t offset;	/* of its first byte in the stream */
};

/* `fd` is borrowed. NULL when out of memory. */
struct frame_reader *frame_reader_create(int fd, uint32_t raw_max);

/* From now on bytes come from there, as from read(2), and not from the descriptor. */
void frame_reader_set_source(struct frame_reader *reader,
			     ssize_t (*read)(void *context, void *bytes, size_t n), void *context);
void frame_reader_destroy(struct frame_reader *reader);

/* FRAME, MORE or BAD. */
enum frame_read frame_reader_next(struct frame_reader *reader, struct frame *frame);

/* MORE (perhaps nothing came), END, TRUNCATED or FAILED. */
enum frame_read frame_reader_fill(struct frame_reader *reader);

enum frame_status frame_reader_status(const struct frame_reader *reader);

/* Where the next frame begins, and what of it has come. */
uint64_t frame_reader_offset(const struct frame_reader *reader);
const uint8_t *frame_reader_peek(const struct frame_reader *reader, size_t *bytes);

/* What bytes that begin no frame look like: "gzip data", "text", ... for a message: `it looks like %s`. Never NULL. */
const char *file_kind_name(const uint8_t *bytes, size_t n);

#endif
