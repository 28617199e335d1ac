/*
 * export_host: what all exporters know of this run of the rings and of what is to be exported.
 * Immutable once made; outlives the export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_HOST_H
#define RINGTAIL_DAEMON_EXPORT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/config.h"
#include "daemon/export/run.h"

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
