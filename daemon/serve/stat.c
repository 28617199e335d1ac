#include "daemon/serve/stat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/collect/redaction.h"

/* ---- Rings ----------------------------------------------------------------------------------- */

static void gather_ring(const struct answers *answers, uint32_t ring, struct stat_ring *stat)
{
	const struct worker_ring_stat *now = &stat->now;
	uint64_t lost = 0;

	for (unsigned i = 0; i < answers->workers; i++)
		if (worker_ring_stat(answers->worker[i], ring, &stat->now) == 0)
			break;
	for (unsigned i = 0; i < RT_LOST_REASONS; i++) {
		lost += now->usage.lost[i];
		stat->lost_by[RINGTAIL__V1__LOSS_STAGE__LOSS_RING][ring_loss_reason(i)] =
			now->usage.lost[i];
	}
	stat->lost_by[RINGTAIL__V1__LOSS_STAGE__LOSS_DECODE]
		     [RINGTAIL__V1__LOSS_REASON__REASON_BAD_RECORD] = now->bad;
	stat->lost = (struct stat_losses){stat->lost_by, RINGTAIL__V1__LOSS_STAGE__LOSS_RING,
					  STAT_RING_STAGES};
	stat->cpu = loader_ring(answers->loader, ring)->cpu;
	snprintf(stat->name_text, sizeof(stat->name_text), "%u", stat->cpu);
	stat->name = stat->name_text;
	stat->residual = (int64_t)(now->usage.produced - now->events - now->meta - now->bad - lost -
				   now->usage.in_flight);
}

/* ---- Clients --------------------------------------------------------------------------------- */

static void gather_client(const struct session *session, struct stat_client *stat)
{
	const struct stream *stream = session_stream(session);

	*stat = (struct stat_client){
		.id = session_id(session),
		.peer = session_peer(session),
		.software = session_software(session),
		.identity = session_name(session),
		.wire_bytes = session_wire_bytes(session),
		.frames = session_frames(session),
		.filter = "",
	};
	if (!stream)
		return;
	stat->probe = stream->subscription->glob;
	stat->probes = stream->subscription->globs;
	stat->filter = stream->subscription->filter_text;
	stat->delivered = stream->delivered;
	stat->filtered = stream->filtered;
	stat->lost = (struct stat_losses){stream->lost, 0, LOSS_STAGES};
	stream_stat(stream, &stat->now);
}

/* ---- Spools, consumers, back ends ------------------------------------------------------------ */

const char *stat_durability(const struct spooler *spooler)
{
	switch (spooler ? spooler_durability(spooler) : SPOOL_MEMORY) {
	case SPOOL_MEMORY:
		return "memory";
	case SPOOL_WRITTEN:
		return "written";
	case SPOOL_FSYNC:
		return "fsync";
	}
	return "";
}

static void add_spool(void *context, const struct spool_stat *now)
{
	struct daemon_stat *stat = context;
	struct stat_spool *spool = &stat->spool[stat->spools++];
	uint64_t lost = 0;

	*spool = (struct stat_spool){.name = now->config->name, .now = *now};
	for (unsigned i = 0; i < LOSS_REASONS; i++)
		lost += now->lost[i];
	spool->lost = (struct stat_losses){&spool->now.lost, RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL, 1};
	spool->residual = (int64_t)(now->produced - now->stored - lost - now->in_flight);
}

static void add_open_spool(void *context, const struct spool *spool)
{
	struct spool_stat now;

	spool_stat(spool, &now);
	add_spool(context, &now);
}

int stat_gather_spools(struct daemon_stat *stat, const struct spooler *spooler,
		       uint64_t batch_interval_ns)
{
	uint64_t disk_ns;

	stat->durability = stat_durability(spooler);
	if (!spooler)
		return 0;
	stat->spool = calloc(spooler_count(spooler) + spooler_orphans(spooler) + 1,
			     sizeof(*stat->spool));
	if (!stat->spool)
		return -ENOMEM;
	spooler_each(spooler, add_open_spool, stat);
	disk_ns = spooler_sync_interval_ns(spooler);
	for (unsigned i = 0; i < stat->spools; i++)
		if (disk_ns < stat->spool[i].now.unstored_ns)
			disk_ns = stat->spool[i].now.unstored_ns;
	/*
	 * An event waits for its batch, then for the disk: as long as was asked for while all is well,
	 * and for as long as the disk takes. Without a spool, there is no bound.
	 */
	stat->loss_window_ns = batch_interval_ns + disk_ns;
	spooler_each_orphan(spooler, add_spool, stat);
	return 0;
}

static void add_consumer(void *context, const struct consumer_stat *now)
{
	struct daemon_stat *stat = context;

	if (stat->consumers < CONSUMERS_MAX)
		stat->consumer[stat->consumers++] = *now;
}

/* What the disk keeps for a consumer. */
static uint64_t spooled_bytes(const struct daemon_stat *stat, const char *consumer)
{
	for (unsigned i = 0; consumer && i < stat->consumers; i++)
		if (strcmp(stat->consumer[i].name, consumer) == 0)
			return stat->consumer[i].behind_bytes;
	return 0;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int make_room(struct daemon_stat *stat, const struct answers *answers)
{
	stat->ring = calloc(stat->rings + 1, sizeof(*stat->ring));
	stat->client = calloc(stat->clients + 1, sizeof(*stat->client));
	stat->export = calloc(stat->exports + 1, sizeof(*stat->export));
	stat->consumer = calloc(CONSUMERS_MAX, sizeof(*stat->consumer));
	stat->trigger = calloc(stat->triggers + 1, sizeof(*stat->trigger));
	if (!stat->ring || !stat->client || !stat->export || !stat->consumer || !stat->trigger)
		return -ENOMEM;
	return stat_gather_spools(stat, answers->spooler, answers->batch_interval_ns);
}

struct daemon_stat *stat_gather(const struct answers *answers, struct session *const *session,
				unsigned sessions, unsigned connected)
{
	struct daemon_stat *stat = calloc(1, sizeof(*stat));

	if (!stat)
		return NULL;
	*stat = (struct daemon_stat){
		.monotonic_ns = clock_monotonic(),
		.source = loader_source_name(answers->loader),
		.recursion_lost = fanout_source_stats(answers->fanout).recursion_lost,
		.redact_rules = redaction_rules(fanout_redaction(answers->fanout)),
		.maps_too_late = fanout_source_stats(answers->fanout).maps_too_late,
		.maps_left_out = fanout_source_stats(answers->fanout).maps_left_out,
		.connected = connected,
		.rings = loader_rings(answers->loader),
		.clients = sessions,
		.exports = export_feed_count(answers->exports),
		.triggers = triggers_count(answers->triggers),
	};
	stat->uptime_ns = stat->monotonic_ns - answers->started_ns;
	if (make_room(stat, answers) != 0) {
		daemon_stat_free(stat);
		return NULL;
	}
	fanout_each_consumer(answers->fanout, add_consumer, stat);
	for (unsigned i = 0; i < stat->rings; i++)
		gather_ring(answers, i, &stat->ring[i]);
	for (unsigned i = 0; i < stat->clients; i++)
		gather_client(session[i], &stat->client[i]);
	for (unsigned i = 0; i < stat->triggers; i++)
		triggers_stat(answers->triggers, i, &stat->trigger[i]);
	for (unsigned i = 0; i < stat->exports; i++) {
		export_feed_stat(answers->exports, i, &stat->export[i]);
		stat->export[i].spool_bytes = spooled_bytes(stat, stat->export[i].consumer);
	}
	return stat;
}
