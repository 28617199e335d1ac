/*
 * loader: the small privileged process that holds the source, and the engine's end of the socket between them.
 *
 * In: requests of the engine: what to record, which probes to make. Out: the rings and the catalog at the start; then
 * reports (enum loader_event). Main thread of the engine.
 *
 * The loader has the capabilities and no network; the engine has the network and no capabilities. Between them are one
 * socketpair, fixed messages (struct loader_message) and descriptors of rings.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_LOADER_H
#define RINGTAIL_DAEMON_SOURCE_LOADER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "query/error.h"
#include "daemon/source/source.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

struct activation;
struct loader;
struct service_manager;

enum loader_event {
	LOADER_CONFIGURED,	/* generation, and err with *error if it was refused */
	LOADER_STATS,		/* `stats`; err if some of the figures are missing */
	LOADER_MADE,		/* of `spec`: new probes are in the catalog; err with *error: not all were made */
	LOADER_FINISHED,	/* the source has written its last record */
	LOADER_STUCK,		/* the threads' descriptor, which the receiver owns; or err and *error */
	LOADER_GONE,		/* the process ended, and with it all recording */
};

struct loader_report {
	enum loader_event event;
	uint64_t generation;
	int err;
	struct error error;
	struct source_stats stats;
	char spec[NAME_BYTES_MAX + 1];

	struct source_stuck stuck;
	int fd;				/* -1: none */
};

/* Keeps the source's descriptors while no daemon runs. */
struct loader_keeper {
	struct activation *activation;		/* those that begin with "source." are taken */
	struct service_manager *manager;	/* borrowed for the loader's life */
};

/*
 * Forks the loader and waits until the source is open and its rings are here, or *error says why
 * not. `name`: a source's, or "auto". Call it before there are threads. config->excluded_pids is
 * filled in for both processes unless trace_self. `keeper` may be NULL: nobody.
 */
int loader_start(const char *name, struct source_config *config, bool trace_self,
		 const struct loader_keeper *keeper, struct loader **loader, struct error *error);

/* Lets the loader end, and waits for it. NULL is safe. */
void loader_stop(struct loader *loader);

/*
 * Sends a request; the answer is a report. -EPIPE: the loader ended. Wait for LOADER_CONFIGURED before the next
 * loader_configure().
 */
int loader_configure(struct loader *loader, const struct source_request *request);

/* Reports that the workers read everything that the last configuration asked for. Once for each configuration. */
int loader_joined(struct loader *loader);
int loader_ask_stats(struct loader *loader);

/* ---- Probes that are made when they are asked for ------------------------------------------------ */

/*
 * Whether the spec may name such probes: its first part is a provider that makes probes. A spec whose first part is a
 * glob names existing probes only.
 */
bool loader_can_make(const struct loader *loader, const char *spec);

/* Sends a request; LOADER_MADE is the answer. */
int loader_make(struct loader *loader, const char *spec);

/*
 * The same, and waits for the answer: at the start, when there is no loop yet, and for a reload. loader_receive()
 * returns other reports that arrived meanwhile; *pending: there are some.
 */
int loader_make_now(struct loader *loader, const char *spec, bool *pending, struct error *error);

/* Sets what is called for every probe that joins the catalog, before any record of it can be read. */
void loader_on_made(struct loader *loader, void (*made)(void *context, const Ringtail__V1__Probe *probe),
		    void *context);

/*
 * Adds a program's probe to the catalog, with a number from RT_PROBE_PROGRAM on, and owns it from now on. -ENOSPC. The
 * source is never asked for it.
 */
int loader_join(struct loader *loader, Ringtail__V1__Probe *probe);

/* Adds a ring behind the source's, and copies its descriptors. Call it before loader_rings(). */
int loader_add_ring(struct loader *loader, const struct ring_handle *ring, struct error *error);

/* The probes that can be made and listed, each with id 0; the caller frees it. NULL: out of memory. */
Ringtail__V1__Catalog *loader_offers(const struct loader *loader);

/* Wait for LOADER_STUCK before the next. */
int loader_ask_stuck(struct loader *loader, uint64_t longer_than_ns);

/* The next report, without waiting: 0, or -EAGAIN. */
int loader_receive(struct loader *loader, struct loader_report *report);

int loader_fd(const struct loader *loader);
pid_t loader_pid(const struct loader *loader);
const char *loader_source_name(const struct loader *loader);

/* Probes that are made join it; no probe is removed. */
const Ringtail__V1__Catalog *loader_catalog(const struct loader *loader);
unsigned loader_rings(const struct loader *loader);

/* Whether the rings are those of an earlier run, and record what that run had asked for. */
bool loader_adopted(const struct loader *loader);

/* Whether the service manager has what the next run needs to continue with these rings. */
bool loader_keeps(const struct loader *loader);

/* The i-th ring; its descriptors are the loader object's. */
const struct ring_handle *loader_ring(const struct loader *loader, unsigned i);

#endif
