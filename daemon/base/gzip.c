#include "daemon/base/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define WINDOW_BITS	(15 + 16)	/* zlib's way to ask for gzip's header */
#define MEMORY_LEVEL	8		/* zlib's default */

int gzip_compress(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	z_stream stream = {0};
	int err = -ENOMEM;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return err;
	*out_bytes = deflateBound(&stream, in_bytes);
	*out = malloc(*out_bytes);
	if (*out) {
		stream.next_in = (uint8_t *)in;
		stream.avail_in = (unsigned)in_bytes;
		stream.next_out = *out;
		stream.avail_out = (unsigned)*out_bytes;
		/* In one step: the bound has room for all of it. */
		err = deflate(&stream, Z_FINISH) == Z_STREAM_END ? 0 : -EIO;
		*out_bytes = stream.total_out;
	}
	deflateEnd(&stream);
	if (err)
		free(*out);
	return err;
}

int gzip_undo(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	z_stream stream = {.next_in = (uint8_t *)in, .avail_in = (unsigned)in_bytes};
	const uint8_t *end = in + in_bytes - 4;		/* the size, little-endian */
	int err = -ENOMEM;

	if (in_bytes < 4 || inflateInit2(&stream, WINDOW_BITS) != Z_OK)
		return -EIO;
	*out_bytes = end[0] | end[1] << 8 | end[2] << 16 | (size_t)end[3] << 24;
	*out = malloc(*out_bytes + 1);
	if (*out) {
		stream.next_out = *out;
		stream.avail_out = (unsigned)*out_bytes + 1;
		err = inflate(&stream, Z_FINISH) == Z_STREAM_END &&
		      stream.total_out == *out_bytes ? 0 : -EIO;
	}
	inflateEnd(&stream);
	if (err)
		free(*out);
	return err;
}
