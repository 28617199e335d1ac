#include "daemon/export/host.h"

#include <stdlib.h>
#include <string.h>

struct export_host *export_host_create(const Ringtail__V1__Catalog *catalog,
				       const uint8_t boot_id[16], uint64_t epoch,
				       const struct config *config)
{
	struct export_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->run = export_run_create(catalog, boot_id, epoch);
	if (!host->run) {
		free(host);
		return NULL;
	}
	host->slow_ns = config->slow_call_ns;
	host->everything = config->export_probe.count > 0;
	/* A reload replaces the configuration, not these. */
	for (unsigned i = 0; i < config->export_trace.count; i++) {
		host->tree.word[i] = strdup(config->export_trace.word[i]);
		if (!host->tree.word[i]) {
			export_host_destroy(host);
			return NULL;
		}
		host->tree.count++;
	}
	return host;
}

void export_host_destroy(struct export_host *host)
{
	if (!host)
		return;
	for (unsigned i = 0; i < host->tree.count; i++)
		free(host->tree.word[i]);
	export_run_put(host->run);
	free(host);
}
