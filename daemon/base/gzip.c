#include "daemon/base/gzip.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>

/* The header, the trailer, and the header of each stored block of what does not compress. */
#define HEAD_AND_END_BYTES	(10 + 8)
#define STORED_BYTES		65535
#define STORED_HEAD_BYTES	5

/*
 * isa-l and not zlib: of bodies for OTLP logs and Loki its level 1 takes a seventh of the time of zlib's, and its
 * output is between 13 % smaller and 4 % larger. A larger buffer than this made it no faster.
 */
struct compressor {
	struct isal_zstream stream;
	uint8_t buffer[ISAL_DEF_LVL1_SMALL];
};

static int compress(struct compressor *compressor, const uint8_t *in, size_t in_bytes, uint8_t *out,
		    size_t *out_bytes)
{
	struct isal_zstream *stream = &compressor->stream;

	isal_deflate_stateless_init(stream);
	stream->level = 1;
	stream->level_buf = compressor->buffer;
	stream->level_buf_size = sizeof(compressor->buffer);
	stream->gzip_flag = IGZIP_GZIP;
	stream->end_of_stream = 1;
	stream->next_in = (uint8_t *)in;
	stream->avail_in = (uint32_t)in_bytes;
	stream->next_out = out;
	stream->avail_out = (uint32_t)*out_bytes;
	if (isal_deflate_stateless(stream) != COMP_OK)
		return -EIO;
	*out_bytes = stream->total_out;
	return 0;
}

int gzip_compress(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	struct compressor *compressor = malloc(sizeof(*compressor));
	int err = -ENOMEM;

	*out_bytes = HEAD_AND_END_BYTES + in_bytes + (in_bytes / STORED_BYTES + 1) * STORED_HEAD_BYTES;
	*out = malloc(*out_bytes);
	if (compressor && *out)
		err = compress(compressor, in, in_bytes, *out, out_bytes);
	free(compressor);
	if (err)
		free(*out);
	return err;
}

int gzip_undo(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	struct inflate_state *state;
	const uint8_t *end;
	int err = -ENOMEM;

	if (in_bytes < 4 || in_bytes > UINT32_MAX)
		return -EIO;
	end = in + in_bytes - 4;		/* the size, little-endian */
	*out_bytes = end[0] | end[1] << 8 | end[2] << 16 | (size_t)end[3] << 24;
	/* There is a byte more than that in the buffer, by which a size that is too small is noticed. */
	if (*out_bytes == UINT32_MAX)
		return -EIO;
	*out = malloc(*out_bytes + 1);
	state = malloc(sizeof(*state));
	if (*out && state) {
		isal_inflate_init(state);
		state->crc_flag = ISAL_GZIP;
		state->next_in = (uint8_t *)in;
		state->avail_in = (uint32_t)in_bytes;
		state->next_out = *out;
		state->avail_out = (uint32_t)*out_bytes + 1;
		err = isal_inflate_stateless(state) == ISAL_DECOMP_OK && state->total_out == *out_bytes ? 0 : -EIO;
	}
	free(state);
	if (err)
		free(*out);
	return err;
}
