/*
 * nearest: of many names, the few that are most like one that does not exist.
 *
 * In: the wrong name, then every right one. Out: up to NEAREST_MAX of them, best first, for "did
 * you mean". Likeness is the number of letters to insert, delete, replace or swap (capitals do not
 * count); a name that holds the wrong one whole is near too. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_NEAREST_H
#define RINGTAIL_QUERY_NEAREST_H

#include <stdbool.h>

#define NEAREST_MAX		3
#define NEAREST_NAME_BYTES	80	/* longer names are compared, and shown, by their start */
#define NEAREST_TEXT_BYTES	(NEAREST_MAX * (NEAREST_NAME_BYTES + 8))

struct nearest {
	char wanted[NEAREST_NAME_BYTES];
	unsigned wanted_bytes;
	unsigned count;
	struct nearest_name {
		unsigned rank;		/* the less, the nearer */
		char name[NEAREST_NAME_BYTES];
	} best[NEAREST_MAX];
};

void nearest_init(struct nearest *nearest, const char *wanted);

/* Copies the name if it is among the best so far. */
void nearest_offer(struct nearest *nearest, const char *name);

/* The same, for what is known by a shorter name: `name` is compared, `whole` is shown. */
void nearest_offer_as(struct nearest *nearest, const char *name, const char *whole);

/* "`a`, `b` or `c`" into NEAREST_TEXT_BYTES; false if nothing is near enough to be worth saying. */
bool nearest_text(const struct nearest *nearest, char *text);

#endif
