#include "query/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "query/nearest.h"

#define UNIT_BYTES_MAX	16	/* of what is quoted in an error */

static const struct unit {
	const char *name;
	enum quantity kind;
	uint64_t factor;
} units[] = {			/* each kind's in ascending order */
	{ "B", QUANTITY_BYTES, 1 },
	{ "KiB", QUANTITY_BYTES, 1ull << 10 },
	{ "MiB", QUANTITY_BYTES, 1ull << 20 },
	{ "GiB", QUANTITY_BYTES, 1ull << 30 },
	{ "ns", QUANTITY_DURATION, 1 },
	{ "us", QUANTITY_DURATION, 1000 },
	{ "ms", QUANTITY_DURATION, 1000000 },
	{ "s", QUANTITY_DURATION, 1000000000 },
	{ "min", QUANTITY_DURATION, 60000000000 },
	{ "h", QUANTITY_DURATION, 3600000000000 },
	{ "d", QUANTITY_DURATION, 86400000000000 },
};

#define UNITS (sizeof(units) / sizeof(units[0]))

static bool of_kind(const struct unit *unit, enum quantity kind)
{
	return kind == QUANTITY_ANY || unit->kind == kind;
}

/* The first number in the text; how many bytes it has, or -ERANGE. */
static ssize_t read_digits(const char *text, size_t bytes, uint64_t *value)
{
	bool hex = bytes > 2 && text[0] == '0' && text[1] == 'x' &&
		   isxdigit((unsigned char)text[2]);
	size_t i = hex ? 2 : 0;

	*value = 0;
	for (; i < bytes; i++) {
		unsigned char c = text[i];
		unsigned digit;

		if (isdigit(c))
			digit = c - '0';
		else if (hex && isxdigit(c))
			digit = tolower(c) - 'a' + 10;
		else
			break;
		if (__builtin_mul_overflow(*value, hex ? 16u : 10u, value) ||
		    __builtin_add_overflow(*value, digit, value))
			return -ERANGE;
	}
	return i;
}

#define FRACTION_DIGITS_MAX 9

/* What stands behind a number: `.5` is 5 of 10. How many bytes it has, or -ERANGE; 0: there is none. */
static ssize_t read_fraction(const char *text, size_t bytes, uint64_t *part, uint64_t *of)
{
	size_t i = 1;

	*part = 0;
	*of = 1;
	if (bytes < 2 || text[0] != '.' || !isdigit((unsigned char)text[1]))
		return 0;
	for (; i < bytes && isdigit((unsigned char)text[i]); i++) {
		if (i > FRACTION_DIGITS_MAX)
			return -ERANGE;
		*part = *part * 10 + (uint64_t)(text[i] - '0');
		*of *= 10;
	}
	return (ssize_t)i;
}

/* value + part / of, that many times. 0; -ERANGE; -EDOM: not a whole number. */
static int multiply(uint64_t *value, uint64_t part, uint64_t of, uint64_t factor)
{
	unsigned __int128 all;

	if (__builtin_mul_overflow((unsigned __int128)*value * of + part, factor, &all) ||
	    all / of > UINT64_MAX)
		return -ERANGE;
	*value = (uint64_t)(all / of);
	return all % of ? -EDOM : 0;
}

static int refuse_fraction(const char *text, size_t bytes, struct error *error)
{
	error_set(error, EINVAL, "number-fraction", "`%.*s` is not a whole number",
		  (int)(bytes < 40 ? bytes : 40), text);
	error_hint(error, "a fraction needs a unit that makes it whole, as in 1.5ms; at most %u digits",
		   FRACTION_DIGITS_MAX);
	return -EINVAL;
}

static int refuse_unit(const char *unit, size_t bytes, enum quantity kind, struct error *error)
{
	struct nearest nearest;
	char name[UNIT_BYTES_MAX + 1];
	char text[NEAREST_TEXT_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)(bytes < UNIT_BYTES_MAX ? bytes : UNIT_BYTES_MAX),
		 unit);
	if (kind == QUANTITY_COUNT)
		return error_set(error, EINVAL, "unit-unwanted", "`%s` follows a plain number",
				 name);
	error_set(error, EINVAL, "unit-unknown", "no unit is called `%s`", name);
	nearest_init(&nearest, name);
	for (size_t i = 0; i < UNITS; i++) {
		if (of_kind(&units[i], kind))
			nearest_offer(&nearest, units[i].name);
	}
	if (nearest_text(&nearest, text))
		error_hint(error, "did you mean %s?", text);
	else if (kind == QUANTITY_BYTES)
		error_hint(error, "units are B, KiB, MiB and GiB");
	else if (kind == QUANTITY_DURATION)
		error_hint(error, "units are ns, us, ms, s, min and h");
	else
		error_hint(error, "units are ns, us, ms, s, min, h, B, KiB, MiB and GiB");
	return -EINVAL;
}

int quantity_read(const char *text, size_t bytes, enum quantity kind, uint64_t *value, size_t *used,
		  struct error *error)
{
	ssize_t digits = read_digits(text, bytes, value), behind = 0;
	uint64_t part = 0, of = 1;
	size_t end;
	int err;

	if (digits > 0 && text[digits - 1] != 'x')
		behind = read_fraction(text + digits, bytes - digits, &part, &of);
	if (behind < 0)
		return refuse_fraction(text, bytes, error);
	*used = digits > 0 ? digits + behind : 0;
	while (*used < bytes && (isalnum((unsigned char)text[*used]) || text[*used] == '_'))
		++*used;
	if (digits < 0)
		goto too_large;
	if (digits == 0) {
		error_set(error, EINVAL, "number-missing", "`%.*s` is not a number",
			  (int)(bytes < 40 ? bytes : 40), text);
		return -EINVAL;
	}
	end = *used;
	digits += behind;
	if (end == (size_t)digits && behind)
		return refuse_fraction(text, end, error);
	if (end == (size_t)digits) {
		if (kind != QUANTITY_DURATION || *value == 0)
			return 0;
		error_set(error, EINVAL, "unit-missing", "`%.*s` has no unit", (int)end, text);
		error_hint(error, "write %.*sms or %.*ss; units are ns, us, ms, s, min and h",
			   (int)end, text, (int)end, text);
		return -EINVAL;
	}
	for (size_t i = 0; i < UNITS; i++) {
		if (!of_kind(&units[i], kind) || strlen(units[i].name) != end - digits ||
		    memcmp(units[i].name, text + digits, end - digits))
			continue;
		err = multiply(value, part, of, units[i].factor);
		if (err == -ERANGE)
			goto too_large;
		return err ? refuse_fraction(text, end, error) : 0;
	}
	return refuse_unit(text + digits, end - digits, kind, error);
too_large:
	return error_set(error, EINVAL, "number-too-large", "`%.*s` is too large",
			 (int)(*used < 40 ? *used : 40), text);
}

int quantity_parse(const char *text, enum quantity kind, uint64_t *value, struct error *error)
{
	size_t bytes = strlen(text);
	size_t used;
	int err = quantity_read(text, bytes, kind, value, &used, error);

	if (err || used == bytes)
		return err;
	error_set(error, EINVAL, "number-trailing", "`%.40s` follows the number", text + used);
	error_hint(error, "write the number and its unit without a space, as in 40ms or 1MiB");
	return -EINVAL;
}

const char *quantity_text(uint64_t value, enum quantity kind, char *text)
{
	const struct unit *best = NULL;

	for (size_t i = 0; i < UNITS; i++) {
		if (kind != QUANTITY_COUNT && units[i].kind == kind && value &&
		    value % units[i].factor == 0)
			best = &units[i];
	}
	if (best)
		snprintf(text, QUANTITY_TEXT_BYTES, "%" PRIu64 "%s", value / best->factor,
			 best->name);
	else
		snprintf(text, QUANTITY_TEXT_BYTES, "%" PRIu64, value);
	return text;
}
