/*
 * quantity: numbers with units, as people write them in options and filters: 40ms, 1MiB, 0x10, 64.
 *
 * Pure functions, any thread.
 */
#ifndef RINGTAIL_QUERY_QUANTITY_H
#define RINGTAIL_QUERY_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

#include "query/error.h"

enum quantity {
	QUANTITY_COUNT,		/* no unit */
	QUANTITY_BYTES,		/* B KiB MiB GiB; a bare number is bytes */
	QUANTITY_DURATION,	/* ns us ms s min h, in ns; only 0 may be bare */
	QUANTITY_ANY,		/* any of these units, or none */
};

/* The whole of `text`. -EINVAL with *error: no number, too large, no unit of that kind. */
int quantity_parse(const char *text, enum quantity kind, uint64_t *value, struct error *error);

/*
 * The same of the first `bytes`, for a text that goes on. *used tells how many belong to the number
 * and its unit, in an error too.
 */
int quantity_read(const char *text, size_t bytes, enum quantity kind, uint64_t *value, size_t *used,
		  struct error *error);

/* The value with the largest unit that divides it: "40ms". QUANTITY_TEXT_BYTES are enough. */
#define QUANTITY_TEXT_BYTES 32
const char *quantity_text(uint64_t value, enum quantity kind, char *text);

#endif
