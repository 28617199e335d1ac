/*
 * taken_names: what no program may call a provider, as it would be taken for a probe of the kernel's.
 *
 * In: catalogs of what the source has, and of what it can make. Out: whether something in them has that name, as a
 * provider, a function, or a probe: all that a glob may begin with. Main thread.
 */
#ifndef RINGTAIL_DAEMON_PROGRAMS_TAKEN_NAMES_H
#define RINGTAIL_DAEMON_PROGRAMS_TAKEN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ringtail.pb-c.h"

struct taken_names {
	uint64_t *hash;			/* sorted; of names, which take too much memory */
	size_t count;
};

/* Adds the names of a catalog; NULL has none. 0, or -ENOMEM: it is as before. */
int taken_names_add(struct taken_names *names, const Ringtail__V1__Catalog *catalog);
bool taken_names_has(const struct taken_names *names, const char *name);
void taken_names_free(struct taken_names *names);

#endif
