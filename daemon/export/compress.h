/*
 * export_compress: a body as back ends want it: gzip for OTLP, snappy's block format for Loki and
 * remote write. Pure functions, any thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_COMPRESS_H
#define RINGTAIL_DAEMON_EXPORT_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

enum export_encoding {
	EXPORT_GZIP,
	EXPORT_SNAPPY,
};

/* "gzip", as the header Content-Encoding says it. */
const char *export_encoding_name(enum export_encoding encoding);

/* *out is allocated, the caller's. -ENOMEM. */
int export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
		    uint8_t **out, size_t *out_bytes);

/* What export_compress() made, undone. -ENOMEM, -EIO. */
int export_compress_undo(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
			 uint8_t **out, size_t *out_bytes);

#endif
