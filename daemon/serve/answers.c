#include "daemon/serve/answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/serve/answers_consumer.h"
#include "daemon/serve/answers_spool.h"
#include "daemon/base/counters.h"
#include "proto/limits.h"

struct frame_ref *answers_hello(const struct answers *answers, const char *role)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Feature feature[] = {RINGTAIL__V1__FEATURE__FEATURE_WATERMARK,
					   RINGTAIL__V1__FEATURE__FEATURE_RESUME,
					   RINGTAIL__V1__FEATURE__FEATURE_CONTROL};
	struct utsname host;

	uname(&host);
	hello.version = FRAME_VERSION;
	hello.feature = feature;
	hello.n_feature = sizeof(feature) / sizeof(feature[0]);
	hello.software = "ringtaild " RINGTAIL_VERSION;
	hello.hostname = host.nodename;
	hello.kernel = host.release;
	hello.machine = host.machine;
	hello.source = (char *)loader_source_name(answers->loader);
	hello.boot_id.data = (uint8_t *)answers->epoch.boot_id;
	hello.boot_id.len = sizeof(answers->epoch.boot_id);
	hello.epoch = answers->epoch.epoch;
	hello.monotonic_ns = clock_monotonic();
	hello.realtime_ns = clock_read(CLOCK_REALTIME);
	hello.cpus = loader_rings(answers->loader);
	hello.raw_bytes_max = FRAME_RAW_BYTES_MAX;
	hello.queue_bytes = answers->queue_bytes;
	hello.role = (char *)role;
	hello.durability = (char *)answers_durability(answers->spooler);
	return frame_ref_pack(answers->codec, FRAME_SERVER_HELLO, &hello.base);
}

struct frame_ref *answers_list(const struct answers *answers, const char *glob,
			       struct error *error)
{
	const Ringtail__V1__Catalog *all = loader_catalog(answers->loader);
	Ringtail__V1__Catalog some = RINGTAIL__V1__CATALOG__INIT;
	struct probe_set probes = {0};
	struct frame_ref *frame;

	if (*glob && probe_set_add_glob(&probes, glob, all, error) != 0)
		return NULL;
	some.probe = calloc(all->n_probe + 1, sizeof(*some.probe));
	if (!some.probe) {
		error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
		return NULL;
	}
	for (size_t i = 0; i < all->n_probe; i++)
		if (!*glob || probe_set_test(&probes, all->probe[i]->id))
			some.probe[some.n_probe++] = all->probe[i];
	frame = frame_ref_pack(answers->codec, FRAME_CATALOG, &some.base);
	free(some.probe);
	if (!frame) {
		error_set(error, EMSGSIZE, "list-too-large",
			  "%zu probes do not fit into a frame, or into memory", some.n_probe);
		error_hint(error, "list a part of them: tracectl list 'syscall:*'");
	}
	return frame;
}

/* ---- Stat ------------------------------------------------------------------------------------ */

/* Loss counts as messages, with their own storage. */
struct loss_list {
	Ringtail__V1__LossCount count[LOSS_STAGES * LOSS_REASONS];
	Ringtail__V1__LossCount *list[LOSS_STAGES * LOSS_REASONS];
	size_t n;
};

static void add_loss(struct loss_list *losses, uint32_t stage, uint32_t reason, uint64_t count)
{
	Ringtail__V1__LossCount *loss = &losses->count[losses->n];

	if (!count)
		return;
	ringtail__v1__loss_count__init(loss);
	loss->stage = (Ringtail__V1__LossStage)stage;
	loss->reason = (Ringtail__V1__LossReason)reason;
	loss->count = count;
	losses->list[losses->n++] = loss;
}

struct ring_answer {
	Ringtail__V1__RingStat stat;
	struct loss_list lost;
};

static void fill_ring(const struct answers *answers, uint32_t ring, struct ring_answer *answer)
{
	static const uint32_t reasons[RT_LOST_REASONS] = {
		[RT_LOST_FULL] = RINGTAIL__V1__LOSS_REASON__REASON_RING_FULL,
		[RT_LOST_NEST] = RINGTAIL__V1__LOSS_REASON__REASON_NEST,
		[RT_LOST_STOPPED] = RINGTAIL__V1__LOSS_REASON__REASON_STOPPED,
		[RT_LOST_BUSY] = RINGTAIL__V1__LOSS_REASON__REASON_BUSY,
	};
	Ringtail__V1__RingStat *stat = &answer->stat;
	struct worker_ring_stat mine = {0};
	uint64_t lost = 0;

	ringtail__v1__ring_stat__init(stat);
	answer->lost.n = 0;
	for (unsigned i = 0; i < answers->workers; i++)
		if (worker_ring_stat(answers->worker[i], ring, &mine) == 0)
			break;
	for (unsigned i = 0; i < RT_LOST_REASONS; i++) {
		lost += mine.usage.lost[i];
		add_loss(&answer->lost, RINGTAIL__V1__LOSS_STAGE__LOSS_RING, reasons[i],
			 mine.usage.lost[i]);
	}
	add_loss(&answer->lost, RINGTAIL__V1__LOSS_STAGE__LOSS_DECODE,
		 RINGTAIL__V1__LOSS_REASON__REASON_BAD_RECORD, mine.bad);
	stat->cpu = loader_ring(answers->loader, ring)->cpu;
	stat->produced = mine.usage.produced;
	stat->events = mine.events;
	stat->meta = mine.meta;
	stat->lost = answer->lost.list;
	stat->n_lost = answer->lost.n;
	stat->in_flight = mine.usage.in_flight;
	stat->size_bytes = mine.usage.size_bytes;
	stat->used_bytes = mine.usage.unread_bytes;
	stat->stuck_ns = mine.stuck_ns;
	stat->foreign = mine.usage.foreign;
	stat->unpaired = mine.usage.unpaired;
	stat->faults = mine.usage.faults;
	stat->consumer_bad = mine.usage.consumer_bad;
	stat->residual = (int64_t)(stat->produced - stat->events - stat->meta - mine.bad - lost -
				   stat->in_flight);
}

struct client_answer {
	Ringtail__V1__ClientStat stat;
	struct loss_list lost;
};

static void fill_stream(const struct stream *stream, struct client_answer *answer)
{
	Ringtail__V1__ClientStat *stat = &answer->stat;
	struct stream_stat now;

	stream_stat(stream, &now);
	for (uint32_t i = 0; i < LOSS_STAGES; i++)
		for (uint32_t j = 0; j < LOSS_REASONS; j++)
			add_loss(&answer->lost, i, j, stream->lost[i][j]);
	stat->probe = stream->subscription->glob;
	stat->n_probe = stream->subscription->globs;
	stat->filter = stream->subscription->filter_text;
	stat->produced = now.produced;
	stat->delivered = stream->delivered;
	stat->filtered = stream->filtered;
	stat->lost = answer->lost.list;
	stat->n_lost = answer->lost.n;
	stat->in_flight = now.in_flight;
	stat->queue_bytes = now.lag_bytes;
	stat->residual = now.residual;
}

static void fill_client(const struct session *session, struct client_answer *answer)
{
	Ringtail__V1__ClientStat *stat = &answer->stat;

	ringtail__v1__client_stat__init(stat);
	answer->lost.n = 0;
	stat->id = session_id(session);
	stat->peer = (char *)session_peer(session);
	stat->software = (char *)session_software(session);
	stat->identity = (char *)session_name(session);
	stat->wire_bytes = session_wire_bytes(session);
	stat->frames = session_frames(session);
	if (session_stream(session))
		fill_stream(session_stream(session), answer);
}

struct export_answer_stat {
	struct export_feed_stat now;
	Ringtail__V1__ExportStat stat;
	struct loss_list lost;
};

/* What the disk keeps for a consumer. */
static uint64_t spooled_bytes(const Ringtail__V1__Stat *stat, const char *consumer)
{
	for (size_t i = 0; consumer && i < stat->n_consumer; i++)
		if (strcmp(stat->consumer[i]->name, consumer) == 0)
			return stat->consumer[i]->behind_bytes;
	return 0;
}

static void fill_export(const struct answers *answers, unsigned i,
			const Ringtail__V1__Stat *all, struct export_answer_stat *answer)
{
	Ringtail__V1__ExportStat *stat = &answer->stat;
	const struct export_feed_stat *now = &answer->now;

	export_feed_stat(answers->exports, i, &answer->now);
	ringtail__v1__export_stat__init(stat);
	answer->lost.n = 0;
	for (uint32_t j = 0; j < LOSS_STAGES; j++)
		for (uint32_t k = 0; k < LOSS_REASONS; k++)
			add_loss(&answer->lost, j, k, now->lost[j][k]);
	stat->name = (char *)now->name;
	stat->events = now->events;
	stat->accepted = now->accepted;
	stat->filtered = now->filtered;
	stat->lost = answer->lost.list;
	stat->n_lost = answer->lost.n;
	stat->in_flight = now->in_flight;
	stat->residual = now->residual;
	stat->gaps = now->gaps;
	stat->requests = now->requests;
	stat->retries = now->retries;
	stat->bytes = now->bytes;
	stat->state = (char *)now->state;
	stat->last_error = (char *)now->error;
	stat->spool_bytes = spooled_bytes(all, now->consumer);
	stat->accepted_realtime_ns = now->accepted_realtime_ns;
	stat->error_realtime_ns = now->error_realtime_ns;
}

static void fill_counters(Ringtail__V1__Counter *counter, Ringtail__V1__Counter **list)
{
	for (unsigned i = 0; i < COUNTERS; i++) {
		ringtail__v1__counter__init(&counter[i]);
		counter[i].name = (char *)counter_name(i);
		counter[i].help = (char *)counter_help(i);
		counter[i].value = counter_read(i);
		list[i] = &counter[i];
	}
}

struct frame_ref *answers_stat(const struct answers *answers, struct session *const *session,
			       unsigned sessions, unsigned connected)
{
	unsigned rings = loader_rings(answers->loader);
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;
	Ringtail__V1__Counter counter[COUNTERS], *counters[COUNTERS];
	struct ring_answer *ring = calloc(rings + 1, sizeof(*ring));
	struct client_answer *client = calloc(sessions + 1, sizeof(*client));
	unsigned exports = export_feed_count(answers->exports);
	struct export_answer_stat *export = calloc(exports + 1, sizeof(*export));
	void **list = calloc(rings + sessions + exports + 1, sizeof(*list));
	struct answers_spools *spools =
		answers_spools_fill(answers->spooler, answers->batch_interval_ns, &stat);
	struct answers_consumers *consumers = answers_consumers_fill(answers->fanout, &stat);
	struct frame_ref *frame = NULL;

	if (!ring || !client || !export || !list || !spools || !consumers)
		goto free_all;
	stat.monotonic_ns = clock_monotonic();
	stat.uptime_ns = stat.monotonic_ns - answers->started_ns;
	stat.source = (char *)loader_source_name(answers->loader);
	stat.recursion_lost = fanout_source_stats(answers->fanout).recursion_lost;
	for (unsigned i = 0; i < rings; i++) {
		fill_ring(answers, i, &ring[i]);
		list[i] = &ring[i].stat;
	}
	for (unsigned i = 0; i < sessions; i++) {
		fill_client(session[i], &client[i]);
		list[rings + i] = &client[i].stat;
	}
	for (unsigned i = 0; i < exports; i++) {
		fill_export(answers, i, &stat, &export[i]);
		list[rings + sessions + i] = &export[i].stat;
	}
	fill_counters(counter, counters);
	stat.ring = (Ringtail__V1__RingStat **)list;
	stat.n_ring = rings;
	stat.client = (Ringtail__V1__ClientStat **)(list + rings);
	stat.n_client = sessions;
	stat.clients = connected;
	stat.export = (Ringtail__V1__ExportStat **)(list + rings + sessions);
	stat.n_export = exports;
	stat.counter = counters;
	stat.n_counter = COUNTERS;
	frame = frame_ref_pack(answers->codec, FRAME_STAT, &stat.base);

free_all:
	free(ring);
	free(client);
	free(export);
	free(list);
	answers_spools_destroy(spools);
	answers_consumers_destroy(consumers);
	return frame;
}
