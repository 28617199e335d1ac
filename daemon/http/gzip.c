#include "daemon/http/gzip.h"

#include <string.h>
#include <strings.h>

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
