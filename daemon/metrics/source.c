#include "daemon/metrics/source.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/metrics/kernel.h"
#include "daemon/metrics/self.h"
#include "daemon/net/transport.h"

#define CLOCK_SET_NS_MIN	1000000000ull	/* less than that is time between two readings */

struct metric_source {
	struct metric_source_config config;
	struct metric_kernel *kernel;
	uint64_t start_realtime_ns;
	uint64_t realtime_less_monotonic_ns;
	uint32_t points_dropped;	/* in the last snapshot */
};

struct metric_source *metric_source_create(const struct metric_source_config *config)
{
	struct metric_source *source = calloc(1, sizeof(*source));
	struct metric_kernel_config kernel = {
		.meters = config->meters,
		.series_max = config->series_max,
		.epoch = config->epoch,
		.comm = config->comm,
	};

	if (!source) {
		if (config->process_fd >= 0)
			close(config->process_fd);
		return NULL;
	}
	for (unsigned i = 0; i < sizeof(kernel.boot_id); i++)
		kernel.boot_id[i] = config->boot_id[i];
	source->config = *config;
	source->start_realtime_ns = clock_read(CLOCK_REALTIME);
	source->kernel = metric_kernel_create(&kernel);
	if (!source->kernel) {
		metric_source_destroy(source);
		return NULL;
	}
	return source;
}

void metric_source_destroy(struct metric_source *source)
{
	if (!source)
		return;
	if (source->config.process_fd >= 0)
		close(source->config.process_fd);
	metric_kernel_destroy(source->kernel);
	free(source);
}

struct daemon_stat *metric_source_stat(struct metric_source *source)
{
	return source->config.stat(source->config.context);
}

/*
 * What to add to an event's time. It stays what it was unless the clock was set: an exemplar that came
 * a little earlier or later in each snapshot would be another one to whoever stores them.
 */
static uint64_t realtime_less_monotonic(struct metric_source *source)
{
	uint64_t now = clock_read(CLOCK_REALTIME) - clock_monotonic();
	uint64_t was = source->realtime_less_monotonic_ns;

	if ((now > was ? now - was : was - now) > CLOCK_SET_NS_MIN)
		source->realtime_less_monotonic_ns = now;
	return source->realtime_less_monotonic_ns;
}

const struct metric_snapshot *metric_source_take(struct metric_source *source)
{
	uint64_t realtime_ns = clock_read(CLOCK_REALTIME);
	struct metric_builder *builder = metric_builder_create(METRIC_BYTES_MAX);
	struct daemon_stat *stat = metric_source_stat(source);
	const struct metric_snapshot *snapshot = NULL;
	struct metric_process process;

	if (builder && stat) {
		metric_process_read(source->config.process_fd, &process);
		/* What is bounded least comes last, so that what finds no room is never health. */
		metric_self_add(builder, stat, &process);
		metric_begin(builder, METRIC_GAUGE, "ringtail_collector_metric_points_dropped", "",
			     "Series that the last snapshot before this one had no room for");
		metric_add(builder, source->points_dropped, NULL, 0);
		if (source->config.tls) {
			metric_begin(builder, METRIC_GAUGE,
				     "ringtail_collector_tls_cert_expiry_timestamp_seconds", "seconds",
				     "When our certificate expires, since 1970");
			metric_add(builder,
				   (double)transport_tls_context_expires(source->config.tls), NULL,
				   0);
		}
		if (source->config.tell)
			source->config.tell(source->config.tell_context, builder);
		metric_kernel_add(source->kernel, builder, realtime_less_monotonic(source));
		snapshot = metric_builder_end(builder, realtime_ns, source->start_realtime_ns);
		builder = NULL;
	}
	if (snapshot)
		source->points_dropped = snapshot->dropped;
	metric_builder_destroy(builder);
	daemon_stat_free(stat);
	return snapshot;
}
