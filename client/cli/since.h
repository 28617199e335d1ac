/*
 * since: where a stream is to begin, as people write it: a cursor, or a time.
 *
 *	-5m				so long ago
 *	2026-11-20T18:00:00		local time; with Z: UTC
 *	@1760000000			seconds since 1970, with a fraction if need be
 */
#ifndef RINGTAIL_CLIENT_CLI_SINCE_H
#define RINGTAIL_CLIENT_CLI_SINCE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/ringtail.h"

/* A cursor has a '/', and no time has. */
bool since_is_cursor(const char *text);

/*
 * -EINVAL with *error; also for a time to come, but for as much as the clock of the traced host may
 * be ahead of ours. now_ns: the wall clock.
 */
int since_parse_time(const char *text, uint64_t now_ns, uint64_t *realtime_ns,
		     struct ringtail_error *error);

/* The same, a time to come or not, and `now`. */
int since_parse_until(const char *text, uint64_t now_ns, uint64_t *realtime_ns,
		      struct ringtail_error *error);

#endif
