#include "daemon/metering.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/http/status.h"
#include "daemon/net/listener.h"
#include "daemon/base/log.h"
#include "daemon/metrics/self.h"

struct metering {
	const Ringtail__V1__Catalog *catalog;
	struct probe_set probes;
	struct meters *meters;
	struct metric_source *source;
	struct listener *listener;	/* NULL: nothing is served */
	struct http_status *status;
	struct fanout *fanout;
	int process_fd;			/* -1 once it is the source's, or where there is none */
};

/* What a replayed file has not, or a module does not know, is not missed. */
static const char *const default_probe[] = {
	"syscall",
	"tracepoint:sched:sched_switch",
	"tracepoint:sched:sched_wakeup",
	"tracepoint:sched:sched_process_*",
};

static int find_probes(const struct config *config, const Ringtail__V1__Catalog *catalog,
		       struct probe_set *probes, struct error *error)
{
	struct error ignored;

	*probes = (struct probe_set){0};
	if (config->metrics_probe.count)
		return probe_set_from_globs(probes, config->metrics_probe.word,
					    config->metrics_probe.count, catalog, error);
	for (unsigned i = 0; i < sizeof(default_probe) / sizeof(default_probe[0]); i++)
		probe_set_add_glob(probes, default_probe[i], catalog, &ignored);
	return 0;
}

int metering_create(const struct config *config, uid_t uid, gid_t gid, struct metering **out,
		    struct error *error)
{
	struct metering *metering = calloc(1, sizeof(*metering));
	int err = 0;

	if (!metering)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	metering->process_fd = metric_process_open();
	if (config->http.socket_bytes)
		err = listener_create(&config->http, uid, gid, &metering->listener, error);
	if (err) {
		metering_destroy(metering);
		return err;
	}
	*out = metering;
	return 0;
}

int metering_prepare(struct metering *metering, const struct config *config,
		     const Ringtail__V1__Catalog *catalog, unsigned workers, struct error *error)
{
	struct meters_config meters = {
		.workers = workers,
		.catalog = catalog,
		.probes = &metering->probes,
		.slow_ns = config->slow_call_ns,
		.comm = config->metrics_comm,
	};
	int err = find_probes(config, catalog, &metering->probes, error);

	if (err)
		return err;
	metering->catalog = catalog;
	metering->meters = meters_create(&meters);
	return metering->meters ? 0 : error_set(error, ENOMEM, "out-of-memory", "out of memory");
}

struct meter *metering_meter(struct metering *metering, unsigned worker)
{
	return meters_get(metering->meters, worker);
}

static int serve(struct metering *metering, const struct config *config,
		 const struct metering_start *start, struct error *error)
{
	struct http_status_config status = {
		.base = start->base,
		.turnstile = start->turnstile,
		.source = metering->source,
		.meters = metering->meters,
		.gate = config->http.loopback ? NULL : start->gate,
		.rules = start->gate,
		.watch = {.base = start->base, .fanout = start->fanout, .codec = start->codec,
			  .catalog = metering->catalog},
	};
	int err;

	metering->status = http_status_create(&status);
	if (!metering->status)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	err = listener_start(metering->listener, start->base, start->turnstile, http_status_accept,
			     metering->status, error);
	if (!err)
		log_info("serving", "the status page and metrics are at %s://%s/",
			 status.gate ? "https" : "http",
			 listener_text(metering->listener) + strlen("tcp:"));
	return err;
}

int metering_start(struct metering *metering, const struct config *config,
		   const struct metering_start *start, struct error *error)
{
	struct metric_source_config source = {
		.stat = start->stat,
		.context = start->context,
		.tell = start->tell,
		.tell_context = start->tell_context,
		.meters = metering->meters,
		.series_max = (uint32_t)config->metrics_series_max,
		.comm = config->metrics_comm,
		.epoch = start->run.epoch,
		.process_fd = metering->process_fd,
		.tls = gate_tls(start->gate),
	};

	memcpy(source.boot_id, start->run.boot_id, sizeof(source.boot_id));
	metering->process_fd = -1;
	metering->source = metric_source_create(&source);
	if (!metering->source)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	metering->fanout = start->fanout;
	fanout_set_meter(metering->fanout, &metering->probes);
	return metering->listener ? serve(metering, config, start, error) : 0;
}

int metering_check(const struct metering *metering, const struct config *config,
		   struct error *error)
{
	struct probe_set probes;

	return find_probes(config, metering->catalog, &probes, error);
}

void metering_reload(struct metering *metering, const struct config *config)
{
	struct error ignored;

	find_probes(config, metering->catalog, &metering->probes, &ignored);
	meters_set_probes(metering->meters, &metering->probes);
	meters_set_slow(metering->meters, config->slow_call_ns);
	fanout_set_meter(metering->fanout, &metering->probes);
}

struct metric_source *metering_source(struct metering *metering)
{
	return metering->source;
}

void metering_stop(struct metering *metering)
{
	if (!metering)
		return;
	listener_destroy(metering->listener);
	metering->listener = NULL;
	http_status_destroy(metering->status);
	metering->status = NULL;
}

void metering_destroy(struct metering *metering)
{
	if (!metering)
		return;
	metering_stop(metering);
	metric_source_destroy(metering->source);
	meters_destroy(metering->meters);
	if (metering->process_fd >= 0)
		close(metering->process_fd);
	free(metering);
}
