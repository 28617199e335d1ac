#include "daemon/programs/taken_names.h"

#include <errno.h>
#include <stdlib.h>

#include "kmod/uapi/ringtail.h"

#define PARTS	3

/* FNV-1a: who chooses a name to meet another's takes only from himself. */
static uint64_t hash_of(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
	return hash;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void drop_doubles(struct taken_names *names)
{
	size_t kept = 0;

	for (size_t i = 0; i < names->count; i++)
		if (!kept || names->hash[kept - 1] != names->hash[i])
			names->hash[kept++] = names->hash[i];
	names->count = kept;
}

int taken_names_add(struct taken_names *names, const Ringtail__V1__Catalog *catalog)
{
	size_t probes = catalog ? catalog->n_probe : 0;
	uint64_t *hash = realloc(names->hash, (names->count + PARTS * probes + 1) * sizeof(*hash));

	if (!hash)
		return -ENOMEM;
	names->hash = hash;
	for (size_t i = 0; i < probes; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_PROGRAM)
			continue;
		hash[names->count++] = hash_of(probe->provider);
		hash[names->count++] = hash_of(probe->function);
		hash[names->count++] = hash_of(probe->name);
	}
	qsort(hash, names->count, sizeof(*hash), compare);
	drop_doubles(names);
	hash = realloc(names->hash, (names->count + 1) * sizeof(*hash));
	if (hash)
		names->hash = hash;
	return 0;
}

bool taken_names_has(const struct taken_names *names, const char *name)
{
	uint64_t hash = hash_of(name);

	return names->count && bsearch(&hash, names->hash, names->count, sizeof(hash), compare);
}

void taken_names_free(struct taken_names *names)
{
	free(names->hash);
	*names = (struct taken_names){0};
}
