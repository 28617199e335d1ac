/*
 * export_context: the executable file and the cgroup of threads, as exporters tell them: readable,
 * with what the cgroup's path says. Events of one thread share them, as they come one after the other.
 * Counted by reference; the export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_CONTEXT_H
#define RINGTAIL_DAEMON_EXPORT_CONTEXT_H

#include "proto/batch_encode.h"
#include "proto/limits.h"
#include "query/container.h"

#define EXPORT_CONTEXTS_KEPT	64u	/* of a run, for the next event; a power of two */

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

#endif
