/*
 * making: probes that are made when somebody asks for them by name.
 *
 * In: specs of requests. Out: questions to the loader, which makes the probes and adds them to the catalog.
 * Which specs were made is remembered, so that a request that is tried again goes on, and an operator's many
 * requests ask once. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_MAKING_H
#define RINGTAIL_DAEMON_STREAM_MAKING_H

#include <stdbool.h>

#include "daemon/source/loader.h"
#include "daemon/stream/recorder.h"
#include "query/error.h"

struct making;

/* Both are borrowed for its life. NULL: out of memory. */
struct making *making_create(struct loader *loader, struct recorder *recorder);
void making_destroy(struct making *making);	/* NULL is safe */

/* Whether the spec may name probes that are made; else it means what is in the catalog. */
bool making_can(const struct making *making, const char *spec);

/* Whether the kernel had such a tracepoint when the daemon started. Both are globs. */
bool making_offers(struct making *making, const char *system, const char *name);

/*
 * 0: it is made, or nothing is to be made; 1: it will be, and is to be asked again; -errno with *error. A file that
 * was replaced since is another one: of a spec that names one, a new request (not `again`) is not content with
 * what was made before.
 */
int making_prepare(struct making *making, const char *spec, bool again, struct error *error);

/* Makes it at once, and waits. What cannot be made is said where it is looked up. */
void making_now(struct making *making, const char *spec);

/* The loader's answer: LOADER_MADE. */
void making_take(struct making *making, const struct loader_report *report);

/* The loader ended: refuses every request that waits for it. */
void making_fail(struct making *making, const struct error *error);

#endif
