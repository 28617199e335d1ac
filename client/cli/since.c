#include "client/cli/since.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/cli/units.h"

#define NS_PER_S 1000000000ull
#define SECONDS_MAX (UINT64_MAX / NS_PER_S - 1)

bool since_is_cursor(const char *text)
{
	return strchr(text, '/');
}

/* Digits after the point, as nanoseconds; *at is moved behind them. */
static uint64_t parse_fraction(const char **at)
{
	uint64_t ns = 0, unit = NS_PER_S / 10;

	if (**at != '.')
		return 0;
	for (++*at; isdigit((unsigned char)**at); ++*at, unit /= 10)
		ns += unit * (uint64_t)(**at - '0');
	return ns;
}

static bool parse_epoch(const char *text, uint64_t *ns)
{
	char *end;
	const char *at;
	uint64_t seconds;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	seconds = strtoull(text, &end, 10);
	if (errno || seconds > SECONDS_MAX)
		return false;
	at = end;
	*ns = seconds * NS_PER_S + parse_fraction(&at);
	return !*at;
}

static bool parse_calendar(const char *text, uint64_t *ns)
{
	static const char *const format[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d" };
	struct tm tm;
	const char *at = NULL;
	uint64_t fraction;
	time_t seconds;

	for (size_t i = 0; i < sizeof(format) / sizeof(*format) && !at; i++) {
		tm = (struct tm){ .tm_isdst = -1 };
		at = strptime(text, format[i], &tm);
	}
	if (!at)
		return false;
	fraction = parse_fraction(&at);
	seconds = *at == 'Z' ? timegm(&tm) : mktime(&tm);
	at += *at == 'Z';
	if (*at || seconds < 0 || (uint64_t)seconds > SECONDS_MAX)
		return false;
	*ns = (uint64_t)seconds * NS_PER_S + fraction;
	return true;
}

static bool parse_time(const char *text, uint64_t now_ns, uint64_t *realtime_ns)
{
	uint64_t age_ns;

	if (*text == '-' && units_parse_duration(text + 1, &age_ns) == 0)
		*realtime_ns = age_ns < now_ns ? now_ns - age_ns : 1;
	else if (!(*text == '@' ? parse_epoch(text + 1, realtime_ns) :
				  parse_calendar(text, realtime_ns)))
		return false;
	if (!*realtime_ns)
		*realtime_ns = 1;	/* 0 means no time */
	return true;
}

int since_parse_until(const char *text, uint64_t now_ns, uint64_t *realtime_ns,
		      struct ringtail_error *error)
{
	*realtime_ns = now_ns;
	if (strcmp(text, "now") == 0 || parse_time(text, now_ns, realtime_ns))
		return 0;
	failure_set(error, EINVAL, "bad-until", "--until %s: no time", text);
	failure_hint(error, "a time is now, -5m, 2026-11-20T18:00:00 or @1760000000");
	return -EINVAL;
}

int since_parse_time(const char *text, uint64_t now_ns, uint64_t *realtime_ns,
		     struct ringtail_error *error)
{
	if (parse_time(text, now_ns, realtime_ns)) {
		if (*realtime_ns <= now_ns || *realtime_ns - now_ns <= CLOCKS_APART_NS_MAX)
			return 0;
		failure_set(error, EINVAL, "bad-since", "--since %s is in the future", text);
		failure_hint(error, "a stream without --since begins now");
		return -EINVAL;
	}
	failure_set(error, EINVAL, "bad-since", "--since %s: neither a cursor nor a time", text);
	failure_hint(error, "a time is -5m, 2026-11-20T18:00:00 or @1760000000; a cursor is what "
		     "tracectl prints after `resume with:`");
	return -EINVAL;
}
