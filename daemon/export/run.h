/*
 * export_run: a run of the rings, as exporters know it: its boot and epoch, of which ids are made;
 * its host and its clock; and what its probes' numbers mean. Most events are of this run. Out of
 * the spool come those of earlier ones too, each run behind its own ServerHello and Catalog, and
 * are told as that run would have told them: the same ids, times and names.
 *
 * Counted by reference, because events outlive the frames that told of their run. This run is made
 * before the export thread and ends after it; everything else happens on it.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_RUN_H
#define RINGTAIL_DAEMON_EXPORT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config/config.h"
#include "daemon/host/machine.h"
#include "kmod/uapi/ringtail.h"
#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/cursor.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/container.h"

#define EXPORT_CONTEXTS_KEPT	64u	/* of a run, for the next event; a power of two */

/*
 * The executable file and the cgroup of threads, as exporters send them: readable, with what the
 * cgroup's path reveals. Events of one thread share one. Counted by reference; the export thread.
 */
struct export_context {
	unsigned references;
	const char *exe, *exe_path;	/* UTF-8, other bytes are '?'; NULL: not known */
	const char *cgroup, *unit;
	const char *runtime;
	char container[CONTAINER_ID_BYTES + 1], pod[CONTAINER_POD_BYTES + 1];	/* "": none */
	uint32_t exe_bytes, cgroup_bytes;	/* of what it was made of, which stands first */
	char text[];
};

struct export_contexts {
	struct export_context *kept[EXPORT_CONTEXTS_KEPT];
};

void export_contexts_fini(struct export_contexts *contexts);

/* A reference of the caller's; NULL: nothing is known of the thread, or there is no memory. */
struct export_context *export_context_of(struct export_contexts *contexts,
					 const struct batch_thread *thread);
void export_context_put(struct export_context *context);	/* NULL is safe */

struct export_run {
	unsigned references;
	const Ringtail__V1__Probe *probe[RT_PROBE_MAX];	/* by id; NULL: there is none */
	struct batch_probe shape[RT_PROBE_MAX];		/* the same, for the decoder */
	bool described;					/* what probes there are is known */
	Ringtail__V1__Catalog *catalog;			/* of an earlier run: owned; or NULL */
	uint8_t boot_id[16];
	uint64_t epoch;
	bool this_boot;
	uint64_t to_realtime_ns;	/* of another boot: its wall clock less its monotonic one */
	struct export_contexts contexts;	/* of its threads */
	char name[65], kernel[65], machine[65];
	char host_id[MACHINE_ID_BYTES];	/* "": not known */
	char boot_text[BOOT_ID_TEXT_BYTES];		/* boot_id as the kernel writes it */
};

/*
 * The run of a ServerHello: `here`, or one of its own, which knows no probe before its Catalog has
 * come. A reference of the caller's; NULL: out of memory, or the hello names no run.
 */
struct export_run *export_run_of_hello(struct export_run *here,
				       const Ringtail__V1__ServerHello *hello);

/* An earlier run's Catalog, which is taken over. Only the first counts; this run has its own. */
void export_run_take_catalog(struct export_run *run, Ringtail__V1__Catalog *catalog);

/* A probe that joined the catalog of this run since, borrowed for its life. */
void export_run_take_late(struct export_run *run, const Ringtail__V1__Probe *probe);

struct export_run *export_run_get(struct export_run *run);
void export_run_put(struct export_run *run);	/* NULL is safe */

/*
 * What, added to a time of its events, makes it the wall clock's. Of this boot: as of now, whichever
 * run it was, for that clock goes on, and may have been set since. Of another: as its hello says.
 */
uint64_t export_run_to_realtime(const struct export_run *run);

/* What all exporters know of this run and of what is to be exported. Immutable; outlives the thread. */
struct export_host {
	struct export_run *run;		/* this one */
	uint64_t slow_ns;
	bool everything;		/* export-probe chose: send whatever comes */
	struct config_words tree;	/* globs: commands whose process trees are traces */
};

/* The catalog is borrowed for its life. NULL: out of memory. */
struct export_host *export_host_create(const Ringtail__V1__Catalog *catalog,
				       const uint8_t boot_id[16], uint64_t epoch,
				       const struct config *config);
void export_host_destroy(struct export_host *host);

#endif
