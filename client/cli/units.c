#include "client/cli/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	double factor;
};

static const struct unit count_units[] = {
	{ "", 1 }, { "k", 1e3 }, { "K", 1e3 }, { "M", 1e6 }, { "G", 1e9 },
};

static const struct unit duration_units[] = {
	{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 },
	{ "m", 60e9 }, { "min", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 },
};

static int parse(const char *text, const struct unit *unit, size_t units, bool whole_only,
		 uint64_t *result)
{
	unsigned long long whole;
	double value;
	char *end;

	/* strtoull takes a sign, and strtod also "inf" and "nan": nobody means those here. */
	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -EINVAL;
	errno = 0;
	whole = strtoull(text, &end, 0);
	if (end != text && *end == '\0' && unit[0].factor == 1) {	/* exact where it can be */
		if (errno == ERANGE)
			return -ERANGE;
		*result = whole;
		return 0;
	}
	value = strtod(text, &end);
	if (end == text)
		return -EINVAL;
	for (size_t i = 0; i < units; i++) {
		if (strcmp(end, unit[i].name))
			continue;
		value *= unit[i].factor;
		if (value >= 18446744073709551616.0)
			return -ERANGE;
		*result = (uint64_t)(value + 0.5);
		if (whole_only && value != (double)*result)	/* half an event is a slip */
			return -EINVAL;
		return 0;
	}
	return -EINVAL;
}

int units_parse_count(const char *text, uint64_t *count)
{
	return parse(text, count_units, sizeof(count_units) / sizeof(*count_units), true, count);
}

int units_parse_duration(const char *text, uint64_t *ns)
{
	return parse(text, duration_units, sizeof(duration_units) / sizeof(*duration_units), false,
		     ns);
}

/* Three significant digits and a suffix; whole numbers below the first step. */
static char *format_steps(double value, double step, const char *const *suffix, unsigned suffixes,
			  char to[UNITS_TEXT_BYTES])
{
	unsigned i = 0;
	int decimals;

	while (i + 1 < suffixes && value >= step * 0.9995) {
		value /= step;
		i++;
	}
	decimals = i == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	snprintf(to, UNITS_TEXT_BYTES, "%.*f%s", decimals, value, suffix[i]);
	return to;
}

char *units_format_duration(uint64_t ns, char to[UNITS_TEXT_BYTES])
{
	static const char *const suffix[] = { "ns", "us", "ms", "s" };

	return format_steps((double)ns, 1000, suffix, 4, to);
}

char *units_format_rate(double value, char to[UNITS_TEXT_BYTES])
{
	static const char *const suffix[] = { "", "k", "M", "G", "T" };

	return format_steps(value, 1000, suffix, 5, to);
}

char *units_format_bytes(double bytes, char to[UNITS_TEXT_BYTES])
{
	static const char *const suffix[] = { " B", " KiB", " MiB", " GiB", " TiB" };

	return format_steps(bytes, 1024, suffix, 5, to);
}
