/*
 * metering: the meters, the snapshots made of them, and the HTTP server that shows them. daemon/engine.c starts and
 * stops them as one part.
 *
 * In: the configuration, the catalog, the workers' meters, the state of the daemon. Out: a meter for each worker; the
 * probes that have to be recorded for them; metrics for HTTP and exporters. Main thread; a meter is its worker's.
 *
 *	create	before the engine loses /proc and the right to ports below 1024
 *	prepare	before the workers start: each gets its meter
 *	start	when the server of clients exists, whose state is among the metrics
 */
#ifndef RINGTAIL_DAEMON_METERING_H
#define RINGTAIL_DAEMON_METERING_H

#include <sys/types.h>

#include "daemon/config/config.h"
#include "query/error.h"
#include "daemon/stream/fanout.h"
#include "daemon/access/gate.h"
#include "daemon/collect/meter.h"
#include "daemon/metrics/source.h"

struct event_base;
struct turnstile;
struct metering;

/* Binds --http, if there is one. 0, or -errno with *error. */
int metering_create(const struct config *config, uid_t uid, gid_t gid, struct metering **metering,
		    struct error *error);

/*
 * Makes a meter for each worker. -ENOENT with *error: metrics-probe names what the catalog has not. The
 * catalog is borrowed.
 */
int metering_prepare(struct metering *metering, const struct config *config,
		     const Ringtail__V1__Catalog *catalog, unsigned workers, struct error *error);

/* That worker's, after metering_prepare(). */
struct meter *metering_meter(struct metering *metering, unsigned worker);

struct metering_start {
	struct event_base *base;
	struct turnstile *turnstile;
	struct fanout *fanout;
	struct frame_codec *codec;
	const struct gate *gate;
	struct run run;

	/* The state of the daemon, and the metrics of other rooms: as in metric_source_config. */
	struct daemon_stat *(*stat)(void *context);
	void *context;
	void (*tell)(void *context, struct metric_builder *builder);
	void *tell_context;
};

/* Has the probes of the meters recorded, and starts the HTTP server. */
int metering_start(struct metering *metering, const struct config *config,
		   const struct metering_start *start, struct error *error);

/* Whether a new configuration could be put in force: as metering_prepare(). */
int metering_check(const struct metering *metering, const struct config *config,
		   struct error *error);
void metering_reload(struct metering *metering, const struct config *config);

/* For exporters: after metering_start(). */
struct metric_source *metering_source(struct metering *metering);

/* Stops serving; the meters stay until metering_destroy(), which comes after the workers' end. NULL is
 * safe for both. */
void metering_stop(struct metering *metering);
void metering_destroy(struct metering *metering);

#endif
