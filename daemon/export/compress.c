#include "daemon/export/compress.h"

#include <errno.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_WINDOW_BITS	(15 + 16)	/* zlib's way to ask for gzip's header */
#define GZIP_MEMORY_LEVEL	8		/* zlib's default */

const char *export_encoding_name(enum export_encoding encoding)
{
	return encoding == EXPORT_GZIP ? "gzip" : "snappy";
}

static int compress_gzip(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	z_stream stream = {0};
	int err = -ENOMEM;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEMORY_LEVEL,
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

static int compress_snappy(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	*out_bytes = snappy_max_compressed_length(in_bytes);
	*out = malloc(*out_bytes);
	if (!*out)
		return -ENOMEM;
	if (snappy_compress((const char *)in, in_bytes, (char *)*out, out_bytes) == SNAPPY_OK)
		return 0;
	free(*out);
	return -EIO;
}

int export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
		    uint8_t **out, size_t *out_bytes)
{
	return encoding == EXPORT_GZIP ? compress_gzip(in, in_bytes, out, out_bytes) :
					 compress_snappy(in, in_bytes, out, out_bytes);
}
