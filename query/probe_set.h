/*
 * probe_set: a set of probe ids, from globs over the catalog.
 *
 * A glob is provider:function:name. Parts left out at its end mean what one most often wants:
 *
 *	syscall:openat		syscall:openat:call
 *	syscall			syscall:*:call
 *	tracepoint:sched	tracepoint:sched:*
 *
 * and parts left out at its beginning, where no provider is called so:
 *
 *	openat			syscall:openat:call
 *	sched			tracepoint:sched:*
 *	sched:sched_switch	tracepoint:sched:sched_switch
 *	sched_switch		tracepoint:sched:sched_switch
 *
 * that is, any function, and any name but for system calls, where it is `call`: who asks for a
 * system call wants it once and not also as its entry and its return.
 *
 * Probes that programs brought (RT_PROBE_PROGRAM) never change what a glob means of the source's: a program whose
 * provider is `openat` is meant by `openat:*:event`, not by `openat`. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_PROBE_SET_H
#define RINGTAIL_QUERY_PROBE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "kmod/uapi/ringtail.h"
#include "proto/ringtail.pb-c.h"

/* Bit by id, as in struct source_request. All zeros: empty. */
struct probe_set {
	uint8_t bits[RT_PROBE_MAX / 8];
};

/* Whether it is a glob of probes at all, whatever there is. */
int probe_set_check_glob(const char *glob, struct error *error);

/*
 * Adds every probe that matches. -EINVAL if it is not a glob of probes, -ENOENT if nothing matches:
 * *error then names the nearest probes, which takes time: NULL where nobody reads it. The set is unchanged on failure.
 */
int probe_set_add_glob(struct probe_set *set, const char *glob,
		       const Ringtail__V1__Catalog *catalog, struct error *error);

/* The same of every glob, into an empty set. */
int probe_set_from_globs(struct probe_set *set, char *const *glob, unsigned globs,
			 const Ringtail__V1__Catalog *catalog, struct error *error);

/*
 * Keeps in a catalog the probes that this glob would add, also those that the daemon only offers to make and
 * that have no id yet. Errors as above; the catalog is unchanged on failure.
 */
int probe_set_keep_glob(Ringtail__V1__Catalog *catalog, const char *glob, struct error *error);

/* Whether one probe matches one glob; false too if it is not a glob of probes. */
bool probe_set_glob_matches(const char *glob, const Ringtail__V1__Probe *probe);

/*
 * Whether whatever `narrow` may mean, of the provider that it names, is among what `wide` means, which names the
 * same. No is also said where that is hard to tell.
 */
bool probe_set_glob_covers(const char *wide, const char *narrow);

void probe_set_add(struct probe_set *set, uint32_t id);	/* below RT_PROBE_MAX */
void probe_set_union(struct probe_set *set, const struct probe_set *other);
bool probe_set_equal(const struct probe_set *a, const struct probe_set *b);
uint32_t probe_set_count(const struct probe_set *set);

/* While other threads look: they see it before a record of that probe, which nobody has been able to write so far. */
void probe_set_add_amid(struct probe_set *set, uint32_t id);

static inline bool probe_set_test(const struct probe_set *set, uint32_t id)
{
	return id < RT_PROBE_MAX && (__atomic_load_n(&set->bits[id / 8], __ATOMIC_RELAXED) >> (id % 8) & 1);
}

#endif
