#include "daemon/export/compress.h"

#include <errno.h>
#include <snappy-c.h>
#include <stdlib.h>

#include "daemon/base/gzip.h"

const char *export_encoding_name(enum export_encoding encoding)
{
	return encoding == EXPORT_GZIP ? "gzip" : "snappy";
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
	return encoding == EXPORT_GZIP ? gzip_compress(in, in_bytes, out, out_bytes) :
					 compress_snappy(in, in_bytes, out, out_bytes);
}

static int undo_snappy(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	if (snappy_uncompressed_length((const char *)in, in_bytes, out_bytes) != SNAPPY_OK)
		return -EIO;
	*out = malloc(*out_bytes + 1);
	if (!*out)
		return -ENOMEM;
	if (snappy_uncompress((const char *)in, in_bytes, (char *)*out, out_bytes) == SNAPPY_OK)
		return 0;
	free(*out);
	return -EIO;
}

int export_compress_undo(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
			 uint8_t **out, size_t *out_bytes)
{
	return encoding == EXPORT_GZIP ? gzip_undo(in, in_bytes, out, out_bytes) :
					 undo_snappy(in, in_bytes, out, out_bytes);
}
