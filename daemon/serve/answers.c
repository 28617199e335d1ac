#include "daemon/serve/answers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/collect/redaction.h"
#include "daemon/serve/program_uses.h"
#include "proto/limits.h"
#include "proto/segment.h"
#include "query/probe_set.h"

/* What a crash leaves of events. */
static const char *durability_of(const struct spooler *spooler)
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

struct frame_ref *answers_hello(const struct answers *answers, const char *role)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Feature feature[] = {RINGTAIL__V1__FEATURE__FEATURE_WATERMARK,
					   RINGTAIL__V1__FEATURE__FEATURE_RESUME,
					   RINGTAIL__V1__FEATURE__FEATURE_CONTROL,
					   RINGTAIL__V1__FEATURE__FEATURE_CONTEXT,
					   RINGTAIL__V1__FEATURE__FEATURE_STUCK,
					   RINGTAIL__V1__FEATURE__FEATURE_DUMPS,
					   RINGTAIL__V1__FEATURE__FEATURE_FDS,
					   RINGTAIL__V1__FEATURE__FEATURE_HOSTS,
					   RINGTAIL__V1__FEATURE__FEATURE_COUNTS,
					   RINGTAIL__V1__FEATURE__FEATURE_REACH};
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
	hello.boot_id.data = (uint8_t *)answers->run.boot_id;
	hello.boot_id.len = sizeof(answers->run.boot_id);
	hello.epoch = answers->run.epoch;
	hello.monotonic_ns = clock_monotonic();
	hello.realtime_ns = clock_read(CLOCK_REALTIME);
	hello.cpus = loader_rings(answers->loader);
	hello.raw_bytes_max = FRAME_RAW_BYTES_MAX;
	hello.queue_bytes = answers->queue_bytes;
	hello.role = (char *)role;
	hello.durability = (char *)durability_of(answers->spooler);
	return frame_ref_pack(answers->codec, FRAME_SERVER_HELLO, &hello.base);
}

static bool is_same(const Ringtail__V1__Probe *a, const Ringtail__V1__Probe *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->function, b->function) == 0 &&
	       strcmp(a->provider, b->provider) == 0;
}

/* Whether it is in the catalog, of which the first `from` probes are of other providers. */
static bool is_there(const Ringtail__V1__Catalog *all, size_t from, const Ringtail__V1__Probe *offer)
{
	for (size_t i = from; i < all->n_probe; i++)
		if (is_same(all->probe[i], offer))
			return true;
	return false;
}

/* All that is there, and of what can be made what is not there yet. */
static void merge(const Ringtail__V1__Catalog *all, const Ringtail__V1__Catalog *offers,
		  Ringtail__V1__Catalog *merged)
{
	size_t from = 0;

	while (from < all->n_probe && strcmp(all->probe[from]->provider, "syscall") == 0)
		from++;
	for (size_t i = 0; i < all->n_probe; i++)
		merged->probe[merged->n_probe++] = all->probe[i];
	for (size_t i = 0; offers && i < offers->n_probe; i++)
		if (!is_there(all, from, offers->probe[i]))
			merged->probe[merged->n_probe++] = offers->probe[i];
}

/*
 * How the kernel prints it is the most of a list, and of use only for filters; of a place in a source that says what it
 * is.
 */
static struct frame_ref *pack_list(const struct answers *answers, Ringtail__V1__Catalog *list,
				   const struct answers_list_question *question, struct error *error)
{
	const struct program_uses_config config = {
		.programs = answers->programs,
		.names_processes = question->names_processes,
		.owner = question->owner,
		.hides_comm = redaction_hides_comm(fanout_redaction(answers->fanout)),
	};
	struct program_uses *uses = program_uses_create(&config);
	Ringtail__V1__Probe *bare = uses ? calloc(list->n_probe + 1, sizeof(*bare)) : NULL;
	struct frame_ref *frame = NULL;

	for (size_t i = 0; bare && i < list->n_probe; i++) {
		bare[i] = *list->probe[i];
		program_uses_add(uses, &bare[i]);
		if (!bare[i].source[0] && !question->prints)
			bare[i].print = (char *)protobuf_c_empty_string;
		list->probe[i] = &bare[i];
	}
	if (bare)
		frame = frame_ref_pack(answers->codec, FRAME_CATALOG, &list->base);
	free(bare);
	program_uses_free(uses);
	if (!frame) {
		error_set(error, EMSGSIZE, "list-too-large",
			  "%zu probes do not fit into a frame, or into memory", list->n_probe);
		error_hint(error, "list a part of them: tracectl list 'syscall:*'");
	}
	return frame;
}

struct frame_ref *answers_list(const struct answers *answers, const struct answers_list_question *question,
			       struct error *error)
{
	const Ringtail__V1__Catalog *all = loader_catalog(answers->loader);
	Ringtail__V1__Catalog *more = question->offers ? loader_offers(answers->loader) : NULL;
	Ringtail__V1__Catalog list = RINGTAIL__V1__CATALOG__INIT;
	struct frame_ref *frame = NULL;

	list.probe = calloc(all->n_probe + (more ? more->n_probe : 0) + 1,
			    sizeof(struct Ringtail__V1__Probe *));
	if (!list.probe) {
		error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	} else {
		merge(all, more, &list);
		if (!*question->glob || probe_set_keep_glob(&list, question->glob, error) == 0)
			frame = pack_list(answers, &list, question, error);
	}
	free(list.probe);
	if (more)
		ringtail__v1__catalog__free_unpacked(more, NULL);
	return frame;
}

struct frame_ref *answers_probes(struct frame_codec *codec, const struct always_on_probe *list, size_t n,
				 const char *filter, uint32_t flags)
{
	Ringtail__V1__AlwaysOn probe[2 * SUBSCRIBE_PROBES_MAX], *probes[2 * SUBSCRIBE_PROBES_MAX];
	Ringtail__V1__Flag flag[2 * SUBSCRIBE_PROBES_MAX][SEGMENT_FLAGS], of_all[SEGMENT_FLAGS];
	Ringtail__V1__Probes message = RINGTAIL__V1__PROBES__INIT;

	for (size_t i = 0; i < n; i++) {
		ringtail__v1__always_on__init(&probe[i]);
		probe[i].spec = (char *)list[i].spec;
		probe[i].by = (char *)list[i].by;
		probe[i].since_realtime_ns = list[i].since_realtime_ns;
		probe[i].flag = flag[i];
		probe[i].n_flag = segment_list_flags(list[i].flags, flag[i]);
		probe[i].waits = list[i].waits;
		probes[i] = &probe[i];
	}
	message.n_probe = n;
	message.probe = probes;
	message.flag = of_all;
	message.n_flag = segment_list_flags(flags, of_all);
	if (filter)
		message.filter = (char *)filter;
	return frame_ref_pack(codec, FRAME_PROBES, &message.base);
}

/* ---- Stat gathered: rings -------------------------------------------------------------------- */

static void gather_ring(const struct answers *answers, uint32_t ring, struct stat_ring *stat)
{
	const struct worker_ring_stat *now = &stat->now;
	uint64_t lost = 0;

	for (unsigned i = 0; i < answers->workers; i++)
		if (worker_ring_stat(answers->worker[i], ring, &stat->now) == 0)
			break;
	for (unsigned i = 0; i < RT_LOST_REASONS; i++) {
		uint64_t of_ring = now->usage.lost[i] + now->named[i];

		lost += of_ring;
		stat->lost_by[LOSS_STAGE_RING][ring_loss_reason(i)] += of_ring;
	}
	stat->lost_by[LOSS_STAGE_DECODE][LOSS_REASON_BAD_RECORD] = now->bad;
	stat->lost = (struct stat_losses){stat->lost_by, LOSS_STAGE_RING, STAT_RING_STAGES};
	stat->cpu = loader_ring(answers->loader, ring)->cpu;
	snprintf(stat->name_text, sizeof(stat->name_text), "%u", stat->cpu);
	stat->name = stat->name_text;
	stat->residual = (int64_t)(now->usage.produced - now->events - now->meta - now->bad - lost -
				   now->usage.in_flight);
}

/* ---- Stat gathered: clients ------------------------------------------------------------------ */

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

/* ---- Stat gathered: spools, consumers, back ends --------------------------------------------- */

static void add_spool(void *context, const struct spool_stat *now)
{
	struct daemon_stat *stat = context;
	struct stat_spool *spool = &stat->spool[stat->spools++];
	uint64_t lost = 0;

	*spool = (struct stat_spool){.name = now->config->name, .now = *now};
	for (unsigned i = 0; i < LOSS_REASONS; i++)
		lost += now->lost[i];
	spool->lost = (struct stat_losses){&spool->now.lost, LOSS_STAGE_SPOOL, 1};
	spool->residual = (int64_t)(now->produced - now->stored - lost - now->in_flight);
}

static void add_open_spool(void *context, const struct spool *spool)
{
	struct spool_stat now;

	spool_stat(spool, &now);
	add_spool(context, &now);
}

int answers_gather_spools(struct daemon_stat *stat, const struct spooler *spooler,
			  uint64_t batch_interval_ns)
{
	uint64_t disk_ns;

	stat->durability = durability_of(spooler);
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

/* ---- Stat gathered: all ---------------------------------------------------------------------- */

static int make_lists(struct daemon_stat *stat, const struct answers *answers)
{
	stat->ring = calloc(stat->rings + 1, sizeof(*stat->ring));
	stat->client = calloc(stat->clients + 1, sizeof(*stat->client));
	stat->export = calloc(stat->exports + 1, sizeof(*stat->export));
	stat->consumer = calloc(CONSUMERS_MAX, sizeof(*stat->consumer));
	stat->trigger = calloc(stat->triggers + 1, sizeof(*stat->trigger));
	if (!stat->ring || !stat->client || !stat->export || !stat->consumer || !stat->trigger)
		return -ENOMEM;
	if (stat->is_relay) {
		stat->host = calloc(RELAY_HOSTS_METERED, sizeof(*stat->host));
		if (!stat->host)
			return -ENOMEM;
	}
	return answers_gather_spools(stat, answers->spooler, answers->batch_interval_ns);
}

struct daemon_stat *answers_gather(const struct answers *answers, struct session *const *session,
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
		.stacks_cut = fanout_source_stats(answers->fanout).stacks_cut,
		.connected = connected,
		.rings = loader_rings(answers->loader),
		.clients = sessions,
		.exports = export_feed_count(answers->exports),
		.triggers = triggers_count(answers->triggers),
		.is_relay = answers->relay != NULL,
	};
	stat->uptime_ns = stat->monotonic_ns - answers->started_ns;
	if (make_lists(stat, answers) != 0) {
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
	if (stat->is_relay) {
		relay_stat(answers->relay, &stat->relay);
		stat->hosts = (unsigned)relay_list_metered(answers->relay, stat->host);
	}
	for (unsigned i = 0; i < stat->exports; i++) {
		export_feed_stat(answers->exports, i, &stat->export[i]);
		stat->export[i].spool_bytes = spooled_bytes(stat, stat->export[i].consumer);
	}
	return stat;
}

/* ---- Stat as a message ----------------------------------------------------------------------- */

/* Messages of one type, and the list that names them. */
struct rows {
	char *message;
	void **list;
};

struct packing {
	Ringtail__V1__Stat stat;
	Ringtail__V1__Counter counter[COUNTERS], *counters[COUNTERS];
	struct rows ring, client, spool, consumer, export, trigger, loss;
	size_t losses;			/* used, of loss */
};

static bool make_rows(struct rows *rows, size_t n, size_t bytes)
{
	rows->message = calloc(n + 1, bytes);
	rows->list = calloc(n + 1, sizeof(*rows->list));
	if (!rows->message || !rows->list)
		return false;
	for (size_t i = 0; i < n; i++)
		rows->list[i] = rows->message + i * bytes;
	return true;
}

static void free_rows(struct rows *rows)
{
	free(rows->message);
	free(rows->list);
}

static size_t count_losses(const struct stat_losses *losses)
{
	struct loss_count loss;
	size_t n = 0;

	for (unsigned at = 0; stat_losses_next(losses, &at, &loss);)
		n++;
	return n;
}

static bool make_room(struct packing *packing, const struct daemon_stat *stat)
{
	size_t losses = 0;

	for (unsigned i = 0; i < stat->rings; i++)
		losses += count_losses(&stat->ring[i].lost);
	for (unsigned i = 0; i < stat->clients; i++)
		losses += count_losses(&stat->client[i].lost);
	for (unsigned i = 0; i < stat->spools; i++)
		losses += count_losses(&stat->spool[i].lost);
	for (unsigned i = 0; i < stat->exports; i++)
		losses += count_losses(&stat->export[i].lost);
	for (unsigned i = 0; i < stat->triggers; i++)
		losses += count_losses(&stat->trigger[i].lost);
	return make_rows(&packing->trigger, stat->triggers, sizeof(Ringtail__V1__TriggerStat)) &&
	       make_rows(&packing->loss, losses, sizeof(Ringtail__V1__LossCount)) &&
	       make_rows(&packing->ring, stat->rings, sizeof(Ringtail__V1__RingStat)) &&
	       make_rows(&packing->client, stat->clients, sizeof(Ringtail__V1__ClientStat)) &&
	       make_rows(&packing->spool, stat->spools, sizeof(Ringtail__V1__SpoolStat)) &&
	       make_rows(&packing->consumer, stat->consumers, sizeof(Ringtail__V1__ConsumerStat)) &&
	       make_rows(&packing->export, stat->exports, sizeof(Ringtail__V1__ExportStat));
}

/* Returns how many. */
static size_t pack_losses(struct packing *packing, const struct stat_losses *losses,
			  Ringtail__V1__LossCount ***list)
{
	size_t first = packing->losses;
	struct loss_count loss;

	*list = (Ringtail__V1__LossCount **)packing->loss.list + first;
	for (unsigned at = 0; stat_losses_next(losses, &at, &loss);) {
		Ringtail__V1__LossCount *count = packing->loss.list[packing->losses++];

		ringtail__v1__loss_count__init(count);
		count->stage = loss.stage;
		count->reason = loss.reason;
		count->count = loss.count;
	}
	return packing->losses - first;
}

static void pack_ring(struct packing *packing, const struct stat_ring *ring,
		      Ringtail__V1__RingStat *message)
{
	ringtail__v1__ring_stat__init(message);
	message->cpu = ring->cpu;
	message->produced = ring->now.usage.produced;
	message->events = ring->now.events;
	message->meta = ring->now.meta;
	message->n_lost = pack_losses(packing, &ring->lost, &message->lost);
	message->in_flight = ring->now.usage.in_flight;
	message->size_bytes = ring->now.usage.size_bytes;
	message->used_bytes = ring->now.usage.unread_bytes;
	message->stuck_ns = ring->now.stuck_ns;
	message->foreign = ring->now.usage.foreign;
	message->unpaired = ring->now.usage.unpaired;
	message->faults = ring->now.usage.faults;
	message->consumer_bad = ring->now.usage.consumer_bad;
	message->residual = ring->residual;
}

static void pack_client(struct packing *packing, const struct stat_client *client,
			Ringtail__V1__ClientStat *message)
{
	ringtail__v1__client_stat__init(message);
	message->id = client->id;
	message->peer = (char *)client->peer;
	message->software = (char *)client->software;
	message->identity = (char *)client->identity;
	message->wire_bytes = client->wire_bytes;
	message->frames = client->frames;
	message->probe = (char **)client->probe;
	message->n_probe = client->probes;
	message->filter = (char *)client->filter;
	message->produced = client->now.produced;
	message->delivered = client->delivered;
	message->filtered = client->filtered;
	message->n_lost = pack_losses(packing, &client->lost, &message->lost);
	message->in_flight = client->now.in_flight;
	message->queue_bytes = client->now.lag_bytes;
	message->residual = client->now.residual;
}

static void pack_spool(struct packing *packing, const struct stat_spool *spool,
		       Ringtail__V1__SpoolStat *message)
{
	const struct spool_stat *now = &spool->now;

	ringtail__v1__spool_stat__init(message);
	message->name = (char *)spool->name;
	message->probe = (char **)now->config->probe;
	message->n_probe = now->config->probes;
	message->filter = (char *)now->config->filter;
	message->segments = now->segments;
	message->bytes = now->bytes;
	message->bytes_max = now->size_bytes;
	message->oldest_realtime_ns = now->oldest_realtime_ns;
	message->produced = now->produced;
	message->stored = now->stored;
	message->n_lost = pack_losses(packing, &spool->lost, &message->lost);
	message->in_flight = now->in_flight;
	message->residual = spool->residual;
	message->state = (char *)now->state;
	message->deleted = now->deleted;
	message->set_aside = now->set_aside;
}

static void pack_consumer(const struct consumer_stat *consumer,
			  Ringtail__V1__ConsumerStat *message)
{
	ringtail__v1__consumer_stat__init(message);
	message->name = (char *)consumer->name;
	message->spool = (char *)consumer->spool;
	message->owner = (char *)consumer->owner;
	message->connected = consumer->connected;
	message->behind_bytes = consumer->behind_bytes;
	message->acked_realtime_ns = consumer->acked_realtime_ns;
	message->exporter = consumer->exporter;
	message->held_back = consumer->held_back;
	message->stored = consumer->account.stored;
	message->acked = consumer->account.acked;
	message->lost = consumer->account.lost;
	message->in_flight = consumer->behind;
	message->residual = (int64_t)(message->stored - message->acked - message->lost - message->in_flight);
}

static void pack_export(struct packing *packing, const struct stat_export *export,
			Ringtail__V1__ExportStat *message)
{
	ringtail__v1__export_stat__init(message);
	message->name = (char *)export->name;
	message->events = export->events;
	message->accepted = export->accepted;
	message->filtered = export->filtered;
	message->n_lost = pack_losses(packing, &export->lost, &message->lost);
	message->in_flight = export->in_flight;
	message->residual = export->residual;
	message->gaps = export->gaps;
	message->requests = export->requests;
	message->retries = export->retries;
	message->bytes = export->bytes;
	message->state = (char *)export->state;
	message->last_error = (char *)export->error;
	message->spool_bytes = export->spool_bytes;
	message->accepted_realtime_ns = export->accepted_realtime_ns;
	message->error_realtime_ns = export->error_realtime_ns;
}

static void pack_trigger(struct packing *packing, const struct stat_trigger *trigger,
			 Ringtail__V1__TriggerStat *message)
{
	ringtail__v1__trigger_stat__init(message);
	message->name = (char *)trigger->name;
	message->rule = (char *)trigger->rule;
	message->state = (char *)trigger->state;
	message->why = (char *)trigger->why;
	message->matches = trigger->matches;
	message->fired = trigger->fired;
	message->suppressed = trigger->suppressed;
	message->fired_realtime_ns = trigger->fired_realtime_ns;
	message->produced = trigger->now.produced;
	message->filtered = trigger->filtered;
	message->n_lost = pack_losses(packing, &trigger->lost, &message->lost);
	message->in_flight = trigger->now.in_flight;
	message->residual = trigger->residual;
}

static void pack_rows(struct packing *packing, const struct daemon_stat *stat)
{
	Ringtail__V1__Stat *message = &packing->stat;

	message->n_ring = stat->rings;
	message->ring = (Ringtail__V1__RingStat **)packing->ring.list;
	for (unsigned i = 0; i < stat->rings; i++)
		pack_ring(packing, &stat->ring[i], message->ring[i]);
	message->n_client = stat->clients;
	message->client = (Ringtail__V1__ClientStat **)packing->client.list;
	for (unsigned i = 0; i < stat->clients; i++)
		pack_client(packing, &stat->client[i], message->client[i]);
	message->n_spool = stat->spools;
	message->spool = (Ringtail__V1__SpoolStat **)packing->spool.list;
	for (unsigned i = 0; i < stat->spools; i++)
		pack_spool(packing, &stat->spool[i], message->spool[i]);
	message->n_consumer = stat->consumers;
	message->consumer = (Ringtail__V1__ConsumerStat **)packing->consumer.list;
	for (unsigned i = 0; i < stat->consumers; i++)
		pack_consumer(&stat->consumer[i], message->consumer[i]);
	message->n_export = stat->exports;
	message->export = (Ringtail__V1__ExportStat **)packing->export.list;
	for (unsigned i = 0; i < stat->exports; i++)
		pack_export(packing, &stat->export[i], message->export[i]);
	message->n_trigger = stat->triggers;
	message->trigger = (Ringtail__V1__TriggerStat **)packing->trigger.list;
	for (unsigned i = 0; i < stat->triggers; i++)
		pack_trigger(packing, &stat->trigger[i], message->trigger[i]);
}

static void pack_counters(struct packing *packing)
{
	for (unsigned i = 0; i < COUNTERS; i++) {
		Ringtail__V1__Counter *counter = packing->counters[i] = &packing->counter[i];

		ringtail__v1__counter__init(counter);
		counter->name = (char *)counter_name(i);
		counter->help = (char *)counter_help(i);
		counter->value = counter_read(i);
	}
	packing->stat.counter = packing->counters;
	packing->stat.n_counter = COUNTERS;
}

static struct frame_ref *pack_stat(const struct answers *answers, const struct daemon_stat *stat, bool counters)
{
	struct packing packing = {.stat = RINGTAIL__V1__STAT__INIT};
	Ringtail__V1__Stat *message = &packing.stat;
	struct frame_ref *frame = NULL;

	message->monotonic_ns = stat->monotonic_ns;
	message->uptime_ns = stat->uptime_ns;
	message->source = (char *)stat->source;
	message->recursion_lost = stat->recursion_lost;
	message->redact_rules = stat->redact_rules;
	message->maps_too_late = stat->maps_too_late;
	message->maps_left_out = stat->maps_left_out;
	message->stacks_cut = stat->stacks_cut;
	message->durability = (char *)stat->durability;
	message->loss_window_ns = stat->loss_window_ns;
	message->clients = stat->connected;
	if (make_room(&packing, stat)) {
		pack_rows(&packing, stat);
		if (counters)
			pack_counters(&packing);
		frame = frame_ref_pack(answers->codec, FRAME_STAT, &message->base);
	}
	free_rows(&packing.ring);
	free_rows(&packing.client);
	free_rows(&packing.spool);
	free_rows(&packing.consumer);
	free_rows(&packing.export);
	free_rows(&packing.trigger);
	free_rows(&packing.loss);
	return frame;
}

struct frame_ref *answers_stat(const struct answers *answers, const struct daemon_stat *stat)
{
	return pack_stat(answers, stat, true);
}

/* Whoever asks this of each host, and often, gets a hundred bytes, and not ten thousand. */
struct frame_ref *answers_stat_of(const struct answers *answers, struct daemon_stat *stat, const char *consumer)
{
	const char *spool = NULL;

	stat->rings = stat->clients = stat->exports = stat->triggers = 0;
	for (unsigned i = 0; i < stat->consumers && !spool; i++)
		if (strcmp(stat->consumer[i].name, consumer) == 0) {
			stat->consumer[0] = stat->consumer[i];
			spool = stat->consumer[0].spool;
		}
	stat->consumers = spool != NULL;
	for (unsigned i = 0, n = stat->spools; i < n; i++)
		if (spool && strcmp(stat->spool[i].name, spool) == 0)
			stat->spool[0] = stat->spool[i];
	stat->spools = spool && stat->spools && strcmp(stat->spool[0].name, spool) == 0;
	return pack_stat(answers, stat, false);
}

/* ---- The hosts of a relay -------------------------------------------------------------------- */

static void pack_sink(const struct stat_sink *sink, Ringtail__V1__HostStat *message)
{
	message->kept_bytes = sink->kept_bytes;
	message->kept_segments = sink->kept_segments;
	message->consigned = sink->consigned;
	message->confirmed = sink->confirmed;
	message->rejected = sink->rejected;
	message->returned = sink->returned;
	message->in_flight = sink->in_flight;
	message->consigned_residual = sink->residual;
}

static void pack_told(const struct stat_told *told, Ringtail__V1__HostStat *message)
{
	message->told_realtime_ns = told->realtime_ns;
	message->spool_produced = told->produced;
	message->spool_stored = told->stored;
	message->spool_lost = told->lost;
	message->spool_in_flight = told->in_flight;
	message->spool_residual = told->residual;
	message->behind_bytes = told->behind_bytes;
	message->relay_stored = told->kept;
	message->relay_acked = told->acked;
	message->relay_lost = told->gone;
	message->relay_in_flight = told->waiting;
	message->relay_residual = told->relay_residual;
}

static void pack_host(struct packing *packing, const struct stat_host *host, Ringtail__V1__HostStat *message)
{
	ringtail__v1__host_stat__init(message);
	message->name = (char *)host->name;
	message->software = (char *)host->software;
	message->peer = (char *)host->peer;
	message->connected = host->connected;
	if (run_is_named(&host->run))
		message->boot_id = (ProtobufCBinaryData){sizeof(host->run.boot_id),
							 (uint8_t *)host->run.boot_id};
	message->epoch = host->run.epoch;
	message->since_realtime_ns = host->since_realtime_ns;
	message->heard_realtime_ns = host->heard_realtime_ns;
	message->received = host->received;
	message->forwarded = host->forwarded;
	message->duplicate = host->duplicate;
	message->refused = host->refused;
	message->held = host->held;
	message->residual = host->residual;
	message->events = host->events;
	message->gaps = host->gaps;
	message->forwarded_bytes = host->forwarded_bytes;
	message->held_bytes = host->held_bytes;
	pack_sink(&host->sink, message);
	pack_told(&host->told, message);
	message->n_lost = pack_losses(packing, &host->lost, &message->lost);
}

/* As many of them as a frame is to have. */
static size_t pack_hosts(struct packing *packing, const struct stat_host *host, size_t n,
			 Ringtail__V1__HostStat **message)
{
	size_t bytes = 0, i;

	for (i = 0; i < n && bytes < RELAY_HOSTS_LISTED_BYTES; i++) {
		pack_host(packing, &host[i], message[i]);
		bytes += protobuf_c_message_get_packed_size(&message[i]->base) + 4;	/* tag and length */
	}
	return i;
}

static struct frame_ref *pack_fleet(const struct answers *answers, const struct stat_relay *stat,
				    const struct stat_host *host, size_t n, bool more)
{
	Ringtail__V1__Hosts message = RINGTAIL__V1__HOSTS__INIT;
	Ringtail__V1__HostStat all;
	size_t losses = count_losses(&stat->all.lost);
	struct frame_ref *frame = NULL;
	struct packing packing = {0};
	struct rows rows = {0};

	for (size_t i = 0; i < n; i++)
		losses += count_losses(&host[i].lost);
	if (make_rows(&rows, n, sizeof(Ringtail__V1__HostStat)) &&
	    make_rows(&packing.loss, losses, sizeof(Ringtail__V1__LossCount))) {
		pack_host(&packing, &stat->all, &all);
		message.all = &all;
		message.host = (Ringtail__V1__HostStat **)rows.list;
		message.n_host = pack_hosts(&packing, host, n, message.host);
		message.more = more || message.n_host < n;
		message.hosts = stat->hosts;
		message.connected = stat->connected;
		message.told = stat->told;
		message.forgotten = stat->forgotten;
		message.ack = stat->carries ? "kafka" : "fsync";
		message.courier = stat->courier;
		message.realtime_ns = clock_read(CLOCK_REALTIME);
		frame = frame_ref_pack(answers->codec, FRAME_HOSTS, &message.base);
	}
	free_rows(&rows);
	free_rows(&packing.loss);
	return frame;
}

static void refuse_no_relay(struct error *error)
{
	error_set(error, EOPNOTSUPP, "not-a-relay", "this daemon is no relay: it knows no hosts but its own");
	error_hint(error, "ask the daemon whose option `listen-agents` is set; this one answers `tracectl stat`");
}

struct frame_ref *answers_hosts(const struct answers *answers, const char *after, struct error *error)
{
	struct stat_host *host = NULL;
	struct frame_ref *frame = NULL;
	struct stat_relay stat;
	bool more = false;
	ssize_t n = -ENOMEM;

	if (!answers->relay) {
		refuse_no_relay(error);
		return NULL;
	}
	relay_stat(answers->relay, &stat);
	host = calloc(RELAY_HOSTS_LISTED, sizeof(*host));
	if (host)
		n = relay_list(answers->relay, after, host, RELAY_HOSTS_LISTED, &more);
	if (n >= 0)
		frame = pack_fleet(answers, &stat, host, (size_t)n, more);
	free(host);
	if (!frame)
		error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	return frame;
}
