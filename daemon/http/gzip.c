#include "daemon/http/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define WINDOW_BITS	(15 + 16)	/* zlib's way to ask for gzip's header */
#define MEMORY_LEVEL	8		/* zlib's default */

/* ";q=0", ";q=0.000": not at any price. */
static bool is_refused(const char *parameters, size_t bytes)
{
	const char *q = memchr(parameters, '=', bytes);
	const char *end = parameters + bytes;

	if (!q)
		return false;
	for (q++; q < end && strchr("0. \t", *q); q++)
		;
	return q == end;
}

bool http_gzip_is_asked_for(const char *accept_encoding)
{
	const char *at = accept_encoding;

	while (*at) {
		size_t bytes, name;

		at += strspn(at, " \t,");
		bytes = strcspn(at, ",");
		name = strcspn(at, " \t;,");
		if (name == 4 && strncasecmp(at, "gzip", 4) == 0)
			return !is_refused(at + name, bytes - name);
		at += bytes;
	}
	return false;
}

int http_gzip(const char *in, size_t in_bytes, char **out, size_t *out_bytes)
{
	z_stream stream = {0};
	int err = -ENOMEM;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return err;
	*out_bytes = deflateBound(&stream, in_bytes);
	*out = malloc(*out_bytes);
	if (*out) {
		stream.next_in = (unsigned char *)in;
		stream.avail_in = (unsigned)in_bytes;
		stream.next_out = (unsigned char *)*out;
		stream.avail_out = (unsigned)*out_bytes;
		/* In one step: the bound has room for all of it. */
		err = deflate(&stream, Z_FINISH) == Z_STREAM_END ? 0 : -ENOMEM;
		*out_bytes = stream.total_out;
	}
	deflateEnd(&stream);
	if (err)
		free(*out);
	return err;
}
