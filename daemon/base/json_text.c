#include "daemon/base/json_text.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "query/visible.h"

#define CUT_MARK "..."

/* One piece of it. Bytes written. */
static size_t put_piece(FILE *out, const char *at, size_t n, size_t *took)
{
	uint32_t code;

	if (visible_next(at, n, took, &code) != VISIBLE_SHOWN)
		return (size_t)fprintf(out, "\\u%04x", (unsigned)code);
	if (*at == '"' || *at == '\\')
		return (size_t)fprintf(out, "\\%c", *at);
	return fwrite(at, 1, *took, out);
}

void json_put_text(FILE *out, const char *text, size_t max)
{
	size_t n = strlen(text), bytes = 0, took;

	fputc('"', out);
	for (; n; text += took, n -= took) {
		if (bytes + 6 > max) {
			fputs(CUT_MARK, out);
			break;
		}
		bytes += put_piece(out, text, n, &took);
	}
	fputc('"', out);
}

void json_put_time(FILE *out, uint64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / NS_PER_S);
	char stamp[32] = "";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(out, "\"%s.%06uZ\"", stamp, (unsigned)(realtime_ns % NS_PER_S / 1000));
}
