#include "query/probe_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "query/glob.h"
#include "query/nearest.h"
#include "proto/limits.h"

#define PARTS		3
#define MEANINGS_MAX	3

/* A glob cut at its colons; NULL where a part was left out. */
struct spec {
	char text[NAME_BYTES_MAX + 1];
	const char *part[PARTS];
};

static bool part_matches(const char *pattern, const char *name)
{
	return glob_match(pattern, name, strlen(name));
}

static int split(struct spec *spec, const char *glob, struct error *error)
{
	size_t bytes = strlen(glob);
	char *at = spec->text;

	if (bytes > NAME_BYTES_MAX)
		return error_set(error, EINVAL, "probe-bad-spec",
				 "the probe `%.40s...` is longer than %u bytes", glob,
				 NAME_BYTES_MAX);
	memcpy(spec->text, glob, bytes + 1);
	memset(spec->part, 0, sizeof(spec->part));
	for (unsigned i = 0; at; i++) {
		char *colon = strchr(at, ':');

		/* usdt:PATH:PROVIDER:NAME: the name of such a probe has a colon in it. */
		if (i == PARTS - 1 && strcmp(spec->text, "usdt") == 0)
			colon = NULL;
		if (colon)
			*colon = '\0';
		if (i == PARTS || !*at) {
			error_set(error, EINVAL, "probe-bad-spec",
				  i == PARTS ? "`%.200s` has more than three parts" :
					       "`%.200s` has an empty part", glob);
			error_hint(error, "a probe is provider:function:name, as in"
					  " syscall:openat:call or tracepoint:sched:*");
			return -EINVAL;
		}
		spec->part[i] = at;
		at = colon ? colon + 1 : NULL;
	}
	return 0;
}

static bool matches(const struct spec *spec, const Ringtail__V1__Probe *probe)
{
	const char *name = spec->part[2];

	if (!name)
		name = strcmp(probe->provider, "syscall") ? "*" : "call";
	return part_matches(spec->part[0], probe->provider) &&
	       (!spec->part[1] || part_matches(spec->part[1], probe->function)) &&
	       part_matches(name, probe->name);
}

/*
 * One part may be the middle or the last of a probe, which is what people know it by; two may be
 * its last ones, as perf writes them.
 */
static void offer_by_its_end(struct nearest *nearest, const struct spec *spec,
			     const Ringtail__V1__Probe *probe)
{
	bool is_syscall = strcmp(probe->provider, "syscall") == 0;
	char whole[NAME_BYTES_MAX * PARTS], end[NAME_BYTES_MAX * PARTS];

	/* Of a system call's three, the one that a spec without its last part means. */
	if (spec->part[2] || (is_syscall && strcmp(probe->name, "call")))
		return;
	snprintf(whole, sizeof(whole), "%s:%s:%s", probe->provider, probe->function, probe->name);
	snprintf(end, sizeof(end), "%s:%s", probe->function, probe->name);
	if (spec->part[1])
		nearest_offer_as(nearest, end, whole);
	else
		nearest_offer_as(nearest, is_syscall ? probe->function : probe->name, whole);
}

/* Nothing matches `glob`: says which probes it may have been meant to be. */
static int refuse_glob(const struct spec *spec, const char *glob,
		       const Ringtail__V1__Catalog *catalog, struct error *error)
{
	char name[NAME_BYTES_MAX * PARTS];
	char text[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	error_set(error, ENOENT, "unknown-probe", "no probe matches `%.256s`", glob);
	nearest_init(&nearest, glob);
	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		/* Compare as much as was given: what was left out is not wrong. */
		snprintf(name, sizeof(name), "%s%s%s%s%s", probe->provider,
			 spec->part[1] ? ":" : "", spec->part[1] ? probe->function : "",
			 spec->part[2] ? ":" : "", spec->part[2] ? probe->name : "");
		nearest_offer(&nearest, name);
		offer_by_its_end(&nearest, spec, probe);
	}
	if (nearest_text(&nearest, text))
		error_hint(error, "did you mean %s?", text);
	else
		error_hint(error, "`tracectl list` shows every probe");
	return -ENOENT;
}

int probe_set_check_glob(const char *glob, struct error *error)
{
	struct spec spec;

	return split(&spec, glob, error);
}

/* Of the kernel, or of what probes it: none that a program brought. */
static bool is_of_source(const Ringtail__V1__Probe *probe)
{
	return probe->id < RT_PROBE_PROGRAM;
}

/* Those that can be recorded, or, of a list, also those that can be made and have no number. */
static bool may_be_meant(const struct spec *spec, const Ringtail__V1__Probe *probe, bool programs)
{
	return probe->id < RT_PROBE_MAX && (programs || is_of_source(probe)) && matches(spec, probe);
}

static bool has_match(const Ringtail__V1__Catalog *catalog, const struct spec *spec, bool programs)
{
	for (size_t i = 0; i < catalog->n_probe; i++)
		if (may_be_meant(spec, catalog->probe[i], programs))
			return true;
	return false;
}

/*
 * What a glob may mean, likeliest first: what it says; a probe without its provider (`openat`, `sched`,
 * `sched:sched_switch`); a tracepoint's name alone (`sched_switch`). Each borrows from spec.
 */
static unsigned list_meanings(const struct spec *spec, struct spec meaning[MEANINGS_MAX])
{
	unsigned n = 0;

	meaning[n++] = *spec;
	if (!spec->part[2])
		meaning[n++] = (struct spec){ .part = { "*", spec->part[0], spec->part[1] } };
	if (!spec->part[1])
		meaning[n++] = (struct spec){ .part = { "tracepoint", "*", spec->part[0] } };
	return n;
}

/* What the glob means here. */
struct meant {
	struct spec spec, meaning[MEANINGS_MAX];
	const struct spec *is;
	bool programs;			/* also probes that programs brought */
};

/*
 * Programs choose the names of their probes, so none of them decides what a glob means while the source has a
 * probe that it may mean; and where that is another than what the glob says in full, it means no program's.
 */
static int find_meant(struct meant *meant, const char *glob, const Ringtail__V1__Catalog *catalog,
		      struct error *error)
{
	int err = split(&meant->spec, glob, error);
	unsigned meanings = err ? 0 : list_meanings(&meant->spec, meant->meaning);

	meant->is = NULL;
	for (unsigned of = 0; of < 2; of++)
		for (unsigned i = 0; i < meanings; i++)
			if (has_match(catalog, &meant->meaning[i], of == 1)) {
				meant->is = &meant->meaning[i];
				meant->programs = of == 1 || i == 0;
				return 0;
			}
	if (err)
		return err;
	return error ? refuse_glob(&meant->spec, glob, catalog, error) : -ENOENT;
}

int probe_set_add_glob(struct probe_set *set, const char *glob,
		       const Ringtail__V1__Catalog *catalog, struct error *error)
{
	struct meant meant;
	int err = find_meant(&meant, glob, catalog, error);

	for (size_t i = 0; !err && i < catalog->n_probe; i++)
		if (may_be_meant(meant.is, catalog->probe[i], meant.programs))
			probe_set_add(set, catalog->probe[i]->id);
	return err;
}

int probe_set_keep_glob(Ringtail__V1__Catalog *catalog, const char *glob, struct error *error)
{
	struct meant meant;
	int err = find_meant(&meant, glob, catalog, error);
	size_t kept = 0;

	if (err)
		return err;
	for (size_t i = 0; i < catalog->n_probe; i++)
		if (may_be_meant(meant.is, catalog->probe[i], meant.programs))
			catalog->probe[kept++] = catalog->probe[i];
	catalog->n_probe = kept;
	return 0;
}

int probe_set_from_globs(struct probe_set *set, char *const *glob, unsigned globs,
			 const Ringtail__V1__Catalog *catalog, struct error *error)
{
	memset(set, 0, sizeof(*set));
	for (unsigned i = 0; i < globs; i++) {
		int err = probe_set_add_glob(set, glob[i], catalog, error);

		if (err)
			return err;
	}
	return 0;
}

/* Parts that are left out mean anything. A `*` covers whatever stands there, another pattern only itself. */
static bool part_covers(const char *wide, const char *narrow)
{
	if (!wide)
		return true;
	if (!narrow)
		return strcmp(wide, "*") == 0;
	if (glob_is_pattern(narrow) && strpbrk(wide, "?[\\"))
		return strcmp(wide, narrow) == 0;
	return part_matches(wide, narrow);
}

bool probe_set_glob_covers(const char *wide, const char *narrow)
{
	struct error ignored;
	struct spec a, b;

	return split(&a, wide, &ignored) == 0 && split(&b, narrow, &ignored) == 0 &&
	       strcmp(a.part[0], b.part[0]) == 0 && part_covers(a.part[1], b.part[1]) &&
	       part_covers(a.part[2], b.part[2]);
}

void probe_set_add(struct probe_set *set, uint32_t id)
{
	set->bits[id / 8] |= 1u << (id % 8);
}

void probe_set_add_amid(struct probe_set *set, uint32_t id)
{
	__atomic_fetch_or(&set->bits[id / 8], (uint8_t)(1u << (id % 8)), __ATOMIC_RELEASE);
}

void probe_set_union(struct probe_set *set, const struct probe_set *other)
{
	for (size_t i = 0; i < sizeof(set->bits); i++)
		set->bits[i] |= other->bits[i];
}

bool probe_set_glob_matches(const char *glob, const Ringtail__V1__Probe *probe)
{
	struct spec spec;

	return split(&spec, glob, NULL) == 0 && matches(&spec, probe);
}

bool probe_set_equal(const struct probe_set *a, const struct probe_set *b)
{
	return memcmp(a->bits, b->bits, sizeof(a->bits)) == 0;
}

uint32_t probe_set_count(const struct probe_set *set)
{
	uint32_t count = 0;

	for (size_t i = 0; i < sizeof(set->bits); i++)
		count += __builtin_popcount(set->bits[i]);
	return count;
}
