/* export_host: see export_host.h. */
#include "daemon/export_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static void describe_probes(struct export_host *host, const Ringtail__V1__Catalog *catalog)
{
	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_MAX || probe->n_field > PROBE_FIELDS_MAX)
			continue;	/* none of its events comes */
		host->probe[probe->id] = probe;
		host->shape[probe->id] = (struct batch_probe){
			.fields = (uint8_t)probe->n_field,
			.has_duration = probe->n_field && probe->field[0]->type ==
					RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION,
			.known = true,
		};
	}
}

static void describe_system(struct export_host *host)
{
	const uint8_t *id = host->boot_id;
	struct utsname system;

	uname(&system);
	snprintf(host->name, sizeof(host->name), "%s", system.nodename);
	snprintf(host->kernel, sizeof(host->kernel), "%s", system.release);
	snprintf(host->machine, sizeof(host->machine), "%s", system.machine);
	snprintf(host->boot_text, sizeof(host->boot_text),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0],
		 id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11],
		 id[12], id[13], id[14], id[15]);
}

struct export_host *export_host_create(const Ringtail__V1__Catalog *catalog,
				       const uint8_t boot_id[16], uint64_t epoch,
				       const struct config *config)
{
	struct export_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	memcpy(host->boot_id, boot_id, sizeof(host->boot_id));
	host->epoch = epoch;
	host->slow_ns = config->slow_call_ns;
	host->everything = config->export_probe.count > 0;
	describe_probes(host, catalog);
	describe_system(host);
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
	free(host);
}
