#include "query/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static unsigned min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned copy_lower(char *to, const char *from)
{
	unsigned n = 0;

	for (; n < NEAREST_NAME_BYTES - 1 && from[n]; n++)
		to[n] = tolower((unsigned char)from[n]);
	to[n] = '\0';
	return n;
}

/*
 * Damerau's distance in the form of optimal string alignment: three rows of the table of prefix
 * distances are enough, the third for swaps. Gives up with `limit` when a row is all above it.
 */
static unsigned distance(const char *a, unsigned a_bytes, const char *b, unsigned b_bytes,
			 unsigned limit)
{
	unsigned rows[3][NEAREST_NAME_BYTES];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	if (a_bytes > b_bytes + limit || b_bytes > a_bytes + limit)
		return limit + 1;
	for (unsigned j = 0; j <= b_bytes; j++)
		last[j] = j;
	for (unsigned i = 1; i <= a_bytes; i++) {
		unsigned best = row[0] = i;
		unsigned *spare = before;

		for (unsigned j = 1; j <= b_bytes; j++) {
			unsigned cost = a[i - 1] != b[j - 1];

			row[j] = min(min(last[j], row[j - 1]) + 1, last[j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min(row[j], before[j - 2] + 1);
			best = min(best, row[j]);
		}
		if (best > limit)
			return limit + 1;
		before = last;
		last = row;
		row = spare;
	}
	return last[b_bytes];
}

/* Beyond this many changes a name is another name. */
static unsigned far(const struct nearest *nearest)
{
	return 1 + nearest->wanted_bytes / 4;
}

void nearest_init(struct nearest *nearest, const char *wanted)
{
	nearest->wanted_bytes = copy_lower(nearest->wanted, wanted);
	nearest->count = 0;
}

void nearest_offer(struct nearest *nearest, const char *name)
{
	nearest_offer_as(nearest, name, name);
}

void nearest_offer_as(struct nearest *nearest, const char *name, const char *whole)
{
	char lower[NEAREST_NAME_BYTES];
	unsigned bytes = copy_lower(lower, name);
	unsigned limit = far(nearest);
	unsigned d = distance(nearest->wanted, nearest->wanted_bytes, lower, bytes, limit);
	unsigned rank, place;

	/* Part of a name is what one types who does not remember the rest. */
	if (d > 1 && nearest->wanted_bytes >= 2 && strstr(lower, nearest->wanted))
		d = 1;
	if (d > limit)
		return;
	for (unsigned i = 0; i < nearest->count; i++) {
		if (strncmp(nearest->best[i].name, whole, NEAREST_NAME_BYTES - 1) == 0)
			return;
	}
	/* Of two as near, the one about as long. */
	rank = d * NEAREST_NAME_BYTES + (bytes > nearest->wanted_bytes ?
			bytes - nearest->wanted_bytes : nearest->wanted_bytes - bytes);
	for (place = nearest->count; place > 0 && nearest->best[place - 1].rank > rank; place--)
		;
	if (place == NEAREST_MAX)
		return;
	if (nearest->count < NEAREST_MAX)
		nearest->count++;
	memmove(&nearest->best[place + 1], &nearest->best[place],
		(nearest->count - 1 - place) * sizeof(nearest->best[0]));
	nearest->best[place].rank = rank;
	snprintf(nearest->best[place].name, NEAREST_NAME_BYTES, "%s", whole);
}

bool nearest_text(const struct nearest *nearest, char *text)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < nearest->count; i++) {
		const char *joint = i == 0 ? "" : i + 1 == nearest->count ? " or " : ", ";

		used += snprintf(text + used, NEAREST_TEXT_BYTES - used, "%s`%s`", joint,
				 nearest->best[i].name);
	}
	return nearest->count > 0;
}
