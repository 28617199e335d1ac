/*
 * metering: the meters, the snapshots made of them, and the HTTP server that shows them, as one part
 * of the daemon: what daemon/engine.c starts and stops. Main thread.
 *
 *	create	before /proc is out of sight and ports below 1024 are out of reach
 *	prepare	before the workers: they get their meters
 *	start	when there are clients to tell of
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

	/* How the daemon stands, and what else there is to tell: a metric_source_config's. */
	struct daemon_stat *(*stat)(void *context);
	void *context;
	void (*tell)(void *context, struct metric_builder *builder);
	void *tell_context;
};

/* Tells the kernel what to record, and serves. */
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
