/*
 * export_host: what all exporters know of this host and of what is to be exported. Immutable once
 * made; outlives the export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_HOST_H
#define RINGTAIL_DAEMON_EXPORT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config.h"
#include "kmod/uapi/ringtail.h"
#include "proto/batch_decode.h"
#include "proto/ringtail.pb-c.h"

struct export_host {
	const Ringtail__V1__Probe *probe[RT_PROBE_MAX];	/* by id, borrowed; NULL: there is none */
	struct batch_probe shape[RT_PROBE_MAX];		/* the same, for the decoder */
	uint8_t boot_id[16];
	uint64_t epoch;
	uint64_t slow_ns;
	bool everything;		/* export-probe chose: send whatever comes */
	struct config_words tree;	/* globs: commands whose process trees are traces */
	char name[65], kernel[65], machine[65];
	char boot_text[37];		/* boot_id as the kernel writes it */
};

/* The catalog is borrowed for its life. NULL: out of memory. */
struct export_host *export_host_create(const Ringtail__V1__Catalog *catalog,
				       const uint8_t boot_id[16], uint64_t epoch,
				       const struct config *config);
void export_host_destroy(struct export_host *host);

#endif
