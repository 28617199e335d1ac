/*
 * nearest: the known word that a mistyped one was probably meant to be.
 */
#include "client/cli/nearest.h"

#include <string.h>

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein's distance, one row at a time. */
static unsigned distance(const char *a, const char *b)
{
	size_t a_bytes = strlen(a), b_bytes = strlen(b);
	unsigned row[NEAREST_BYTES_MAX + 1];

	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_bytes; j++) {
			unsigned above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[b_bytes];
}

const char *nearest_name(const char *word, const char *const *names, size_t n)
{
	size_t word_bytes = strlen(word);
	unsigned best_distance = word_bytes < 4 ? 2 : 3;	/* less than this is near */
	const char *best = NULL;

	if (!word_bytes || word_bytes > NEAREST_BYTES_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		unsigned d;

		if (strlen(names[i]) > NEAREST_BYTES_MAX)
			continue;
		if (word_bytes >= 2 && !strncmp(word, names[i], word_bytes))
			return names[i];
		d = distance(word, names[i]);
		if (d < best_distance) {
			best_distance = d;
			best = names[i];
		}
	}
	return best;
}
