/*
 * stat: one plain struct is what /metrics, the status page and the Stat message are made of, so they say
 * the same; and where clients are more than fit into a message, the metrics are there all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/http/live.h"
#include "daemon/metrics/self.h"
#include "daemon/metrics/source.h"
#include "daemon/metrics/format.h"
#include "daemon/serve/answers.h"
#include "proto/limits.h"
#include "tests/unit/daemon/small_catalog.h"

#define RING	LOSS_STAGE_RING
#define DECODE	LOSS_STAGE_DECODE
#define QUEUE	LOSS_STAGE_QUEUE
#define SPOOL	LOSS_STAGE_SPOOL
#define EXPORT	LOSS_STAGE_EXPORT
#define FULL	LOSS_REASON_RING_FULL
#define BAD	LOSS_REASON_BAD_RECORD
#define SLOW	LOSS_REASON_QUEUE_FULL
#define DISK	LOSS_REASON_DISK
#define REFUSED	LOSS_REASON_REJECTED

static const struct spool_config spool_config = {.name = "always-on", .filter = "pid == 1"};
static char *probe[] = {(char *)"syscall:*"};

struct fixture {
	struct daemon_stat stat;
	struct stat_ring ring[2];
	struct stat_client client;
	uint64_t client_lost[LOSS_STAGES][LOSS_REASONS];
	struct stat_spool spool;
	struct consumer_stat consumer;
	struct stat_export export;
	struct stat_host host;
	uint64_t told_lost[LOSS_STAGES][LOSS_REASONS];
};

static void make_ring(struct stat_ring *ring, const char *name, uint32_t cpu, uint64_t base)
{
	*ring = (struct stat_ring){
		.name = name, .cpu = cpu, .residual = -(int64_t)base - 1,
		.now = {.usage = {.produced = base + 2, .in_flight = base + 3, .size_bytes = base + 4,
				  .unread_bytes = base + 5, .foreign = base + 6, .unpaired = base + 7,
				  .faults = base + 8, .consumer_bad = base + 9},
			.events = base + 10, .meta = base + 11, .stuck_ns = base + 12},
		.lost_by = {[RING][FULL] = base + 13, [DECODE][BAD] = base + 14},
	};
	ring->lost = (struct stat_losses){ring->lost_by, RING, STAT_RING_STAGES};
}

/* No number twice. */
static void make(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	make_ring(&f->ring[0], "0", 0, 100);
	make_ring(&f->ring[1], "5", 5, 200);
	f->client_lost[QUEUE][SLOW] = 301;
	f->client = (struct stat_client){
		.id = 302, .peer = "somebody", .software = "soft", .identity = "user:1",
		.wire_bytes = 303, .frames = 304, .probe = probe, .probes = 1, .filter = "uid == 2",
		.now = {.produced = 305, .in_flight = 306, .lag_bytes = 307, .residual = -308},
		.delivered = 309, .filtered = 310, .lost = {f->client_lost, 0, LOSS_STAGES},
	};
	f->spool = (struct stat_spool){
		.name = "always-on", .residual = -401,
		.now = {.segments = 402, .bytes = 403, .oldest_realtime_ns = 404, .produced = 405,
			.stored = 406, .in_flight = 407, .lost = {[DISK] = 408}, .deleted = 409,
			.set_aside = 410, .state = "full", .config = &spool_config,
			.size_bytes = 411},
	};
	f->spool.lost = (struct stat_losses){&f->spool.now.lost, SPOOL, 1};
	f->consumer = (struct consumer_stat){"night", "always-on", "user:3", true, false, true, 501,
						    502, {940, 503, 504}, 505};
	f->export = (struct stat_export){
		.name = "loki:x", .state = "held", .error = "away", .accepted_realtime_ns = 601,
		.error_realtime_ns = 602, .events = 603, .accepted = 604, .filtered = 605,
		.in_flight = 606, .lost_by = {[EXPORT][REFUSED] = 607}, .gaps = 608,
		.requests = 609, .retries = 610, .bytes = 611, .spool_bytes = 612, .residual = -613,
	};
	f->export.lost = (struct stat_losses){f->export.lost_by, 0, LOSS_STAGES};
	f->stat = (struct daemon_stat){
		.monotonic_ns = 701, .uptime_ns = 702000000000, .recursion_lost = 703,
		.maps_too_late = 720, .maps_left_out = 721, .stacks_cut = 722,
		.loss_window_ns = 704000000000, .source = "bpf", .durability = "fsync",
		.connected = 705, .rings = 2, .clients = 1, .spools = 1, .consumers = 1,
		.exports = 1, .ring = f->ring, .client = &f->client, .spool = &f->spool,
		.consumer = &f->consumer, .export = &f->export,
		.is_relay = true, .hosts = 1, .host = &f->host,
		.relay = {.hosts = 801, .connected = 802, .told = 831, .forgotten = 803, .carries = true,
			  .courier = true,
			  .all = {.held = 804, .residual = 805, .held_bytes = 806, .gaps = 807,
				  .heard_realtime_ns = 808000000000,
				  .lost = {f->told_lost, 0, LOSS_STAGES},
				  .sink = {.kept_bytes = 810, .consigned = 811, .confirmed = 812, .rejected = 813,
					   .returned = 814, .in_flight = 815, .residual = 816},
				  .told = {.produced = 832, .stored = 833, .lost = 834, .in_flight = 835,
					   .behind_bytes = 836, .residual = 837, .kept = 838, .acked = 839,
					   .gone = 840, .waiting = 841, .relay_residual = 9}}},
	};
	f->told_lost[SPOOL][DISK] = 809;
	f->host = (struct stat_host){
		.name = "web-1", .connected = true, .received = 821, .forwarded = 822, .duplicate = 823,
		.refused = 824, .held = 825, .residual = -826, .held_bytes = 827,
		.heard_realtime_ns = 828000000000, .sink = {.kept_bytes = 829},
	};
}

/* ---- The message ----------------------------------------------------------------------------- */

/* `consumer`: what is about it, and *stat is less by the rest; NULL: all. */
static Ringtail__V1__Stat *packed_of(struct daemon_stat *stat, const char *consumer)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	struct answers answers = {.codec = frame_codec_create(1)};
	struct frame_ref *frame = consumer ? answers_stat_of(&answers, stat, consumer) : answers_stat(&answers, stat);
	Ringtail__V1__Stat *message = NULL;
	struct frame_header header;
	const uint8_t *body;

	if (frame) {
		assert_int_equal(frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX,
						    &header), FRAME_OK);
		assert_int_equal(frame_open(answers.codec, frame->data, &header, raw, &body), FRAME_OK);
		message = ringtail__v1__stat__unpack(NULL, header.raw_bytes, body);
	}
	frame_ref_put(frame);
	frame_codec_destroy(answers.codec);
	return message;
}

static Ringtail__V1__Stat *packed(struct daemon_stat *stat)
{
	return packed_of(stat, NULL);
}

/* A relay asks this of each host: it is small, and the consumer's spool is found wherever it stands. */
static void test_one_consumer(void **state)
{
	struct consumer_stat consumers[2];
	struct stat_spool spools[2];
	Ringtail__V1__Stat *message;
	struct fixture f;

	(void)state;
	make(&f);
	consumers[0] = (struct consumer_stat){"day", "other", "user:3", true, false, false, 1, 2, {0}, 0};
	consumers[1] = f.consumer;
	spools[0] = f.spool;
	spools[0].name = "other";
	spools[1] = f.spool;
	spools[1].lost = (struct stat_losses){&spools[1].now.lost, SPOOL, 1};
	f.stat.consumer = consumers;
	f.stat.spool = spools;
	f.stat.consumers = f.stat.spools = 2;
	message = packed_of(&f.stat, "night");
	assert_non_null(message);
	assert_int_equal(message->n_ring + message->n_client + message->n_counter + message->n_export, 0);
	assert_int_equal(message->n_consumer, 1);
	assert_string_equal(message->consumer[0]->name, "night");
	assert_int_equal(message->n_spool, 1);
	assert_string_equal(message->spool[0]->name, "always-on");
	assert_int_equal(message->spool[0]->produced, 405);
	assert_int_equal(message->spool[0]->lost[0]->count, 408);
	ringtail__v1__stat__free_unpacked(message, NULL);
	/* One that is not there; and one without a spool. */
	make(&f);
	message = packed_of(&f.stat, "nobody");
	assert_non_null(message);
	assert_int_equal(message->n_consumer + message->n_spool + message->n_ring + message->n_counter, 0);
	ringtail__v1__stat__free_unpacked(message, NULL);
	make(&f);
	f.consumer.spool = "";
	message = packed_of(&f.stat, "night");
	assert_non_null(message);
	assert_int_equal(message->n_consumer, 1);
	assert_int_equal(message->n_spool, 0);
	ringtail__v1__stat__free_unpacked(message, NULL);
}

static void assert_lost(Ringtail__V1__LossCount *const *lost, size_t n, size_t i, unsigned stage,
			unsigned reason, uint64_t count)
{
	assert_true(i < n);
	assert_int_equal(lost[i]->stage, stage);
	assert_int_equal(lost[i]->reason, reason);
	assert_int_equal(lost[i]->count, count);
}

static void assert_ring(const Ringtail__V1__RingStat *ring, uint32_t cpu, uint64_t base)
{
	assert_int_equal(ring->cpu, cpu);
	assert_int_equal(ring->residual, -(int64_t)base - 1);
	assert_int_equal(ring->produced, base + 2);
	assert_int_equal(ring->in_flight, base + 3);
	assert_int_equal(ring->size_bytes, base + 4);
	assert_int_equal(ring->used_bytes, base + 5);
	assert_int_equal(ring->foreign, base + 6);
	assert_int_equal(ring->unpaired, base + 7);
	assert_int_equal(ring->faults, base + 8);
	assert_int_equal(ring->consumer_bad, base + 9);
	assert_int_equal(ring->events, base + 10);
	assert_int_equal(ring->meta, base + 11);
	assert_int_equal(ring->stuck_ns, base + 12);
	assert_int_equal(ring->n_lost, 2);
	assert_lost(ring->lost, ring->n_lost, 0, RING, FULL, base + 13);
	assert_lost(ring->lost, ring->n_lost, 1, DECODE, BAD, base + 14);
}

static void assert_client(const Ringtail__V1__ClientStat *client)
{
	assert_int_equal(client->id, 302);
	assert_string_equal(client->peer, "somebody");
	assert_string_equal(client->software, "soft");
	assert_string_equal(client->identity, "user:1");
	assert_int_equal(client->wire_bytes, 303);
	assert_int_equal(client->frames, 304);
	assert_int_equal(client->n_probe, 1);
	assert_string_equal(client->probe[0], "syscall:*");
	assert_string_equal(client->filter, "uid == 2");
	assert_int_equal(client->produced, 305);
	assert_int_equal(client->in_flight, 306);
	assert_int_equal(client->queue_bytes, 307);
	assert_int_equal(client->residual, -308);
	assert_int_equal(client->delivered, 309);
	assert_int_equal(client->filtered, 310);
	assert_int_equal(client->n_lost, 1);
	assert_lost(client->lost, client->n_lost, 0, QUEUE, SLOW, 301);
}

static void assert_spool(const Ringtail__V1__SpoolStat *spool)
{
	assert_string_equal(spool->name, "always-on");
	assert_string_equal(spool->filter, "pid == 1");
	assert_string_equal(spool->state, "full");
	assert_int_equal(spool->residual, -401);
	assert_int_equal(spool->segments, 402);
	assert_int_equal(spool->bytes, 403);
	assert_int_equal(spool->oldest_realtime_ns, 404);
	assert_int_equal(spool->produced, 405);
	assert_int_equal(spool->stored, 406);
	assert_int_equal(spool->in_flight, 407);
	assert_int_equal(spool->n_lost, 1);
	assert_lost(spool->lost, spool->n_lost, 0, SPOOL, DISK, 408);
	assert_int_equal(spool->deleted, 409);
	assert_int_equal(spool->set_aside, 410);
	assert_int_equal(spool->bytes_max, 411);
}

static void assert_export(const Ringtail__V1__ExportStat *export)
{
	assert_string_equal(export->name, "loki:x");
	assert_string_equal(export->state, "held");
	assert_string_equal(export->last_error, "away");
	assert_int_equal(export->accepted_realtime_ns, 601);
	assert_int_equal(export->error_realtime_ns, 602);
	assert_int_equal(export->events, 603);
	assert_int_equal(export->accepted, 604);
	assert_int_equal(export->filtered, 605);
	assert_int_equal(export->in_flight, 606);
	assert_int_equal(export->n_lost, 1);
	assert_lost(export->lost, export->n_lost, 0, EXPORT, REFUSED, 607);
	assert_int_equal(export->gaps, 608);
	assert_int_equal(export->requests, 609);
	assert_int_equal(export->retries, 610);
	assert_int_equal(export->bytes, 611);
	assert_int_equal(export->spool_bytes, 612);
	assert_int_equal(export->residual, -613);
}

static void test_message(void **state)
{
	Ringtail__V1__Stat *message;
	struct fixture f;

	(void)state;
	make(&f);
	message = packed(&f.stat);
	assert_non_null(message);
	assert_int_equal(message->monotonic_ns, 701);
	assert_int_equal(message->uptime_ns, 702000000000);
	assert_int_equal(message->recursion_lost, 703);
	assert_int_equal(message->maps_too_late, 720);
	assert_int_equal(message->maps_left_out, 721);
	assert_int_equal(message->stacks_cut, 722);
	assert_int_equal(message->loss_window_ns, 704000000000);
	assert_string_equal(message->source, "bpf");
	assert_string_equal(message->durability, "fsync");
	assert_int_equal(message->clients, 705);
	assert_int_equal(message->n_ring, 2);
	assert_ring(message->ring[0], 0, 100);
	assert_ring(message->ring[1], 5, 200);
	assert_int_equal(message->n_client, 1);
	assert_client(message->client[0]);
	assert_int_equal(message->n_spool, 1);
	assert_spool(message->spool[0]);
	assert_int_equal(message->n_consumer, 1);
	assert_string_equal(message->consumer[0]->name, "night");
	assert_string_equal(message->consumer[0]->spool, "always-on");
	assert_string_equal(message->consumer[0]->owner, "user:3");
	assert_true(message->consumer[0]->connected && !message->consumer[0]->exporter);
	assert_int_equal(message->consumer[0]->behind_bytes, 501);
	assert_int_equal(message->consumer[0]->held_back, true);
	assert_int_equal(message->consumer[0]->stored, 940);
	assert_int_equal(message->consumer[0]->acked, 503);
	assert_int_equal(message->consumer[0]->lost, 504);
	assert_int_equal(message->consumer[0]->in_flight, 505);
	assert_int_equal(message->consumer[0]->residual, 940 - 503 - 504 - 505);
	assert_int_equal(message->consumer[0]->acked_realtime_ns, 502);
	assert_int_equal(message->n_export, 1);
	assert_export(message->export[0]);
	assert_true(message->n_counter > 10);
	ringtail__v1__stat__free_unpacked(message, NULL);
}

/* ---- The same as text ------------------------------------------------------------------------ */

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("%s\nis not in\n%s", part, text);
}

static const char *const ring_line[] = {
	"ring_attempts_total{cpu=\"5\"} 202", "ring_in_flight{cpu=\"5\"} 203",
	"ring_size_bytes{cpu=\"5\"} 204", "ring_used_bytes{cpu=\"5\"} 205",
	"ring_foreign_total{cpu=\"5\"} 206", "ring_unpaired_total{cpu=\"5\"} 207",
	"ring_faults_total{cpu=\"5\"} 208", "ring_consumer_bad_total{cpu=\"5\"} 209",
	"ring_events_total{cpu=\"5\"} 210", "ring_meta_total{cpu=\"5\"} 211",
	"ring_residual{cpu=\"5\"} -201", "ring_stuck_seconds{cpu=\"5\"} 2.12e-07",
	"ring_lost_total{stage=\"ring\",reason=\"ring_full\",cpu=\"5\"} 213",
	"ring_lost_total{stage=\"decode\",reason=\"bad_record\",cpu=\"5\"} 214",
	"ring_lost_total{stage=\"ring\",reason=\"nest\",cpu=\"0\"} 0",
	"ring_residual{cpu=\"0\"} -101",
};

static const char *const other_line[] = {
	"clients 705", "clients_attempts 305", "clients_delivered 309", "clients_filtered 310",
	"clients_in_flight 306", "clients_queue_bytes 307", "clients_residual 308",
	"clients_lost{stage=\"queue\",reason=\"queue_full\"} 301",
	"spool_segments{spool=\"always-on\"} 402", "spool_size_bytes{spool=\"always-on\"} 403",
	"spool_limit_bytes{spool=\"always-on\"} 411", "spool_residual{spool=\"always-on\"} -401",
	"spool_attempts_total{spool=\"always-on\"} 405", "spool_stored_total{spool=\"always-on\"} 406",
	"spool_in_flight{spool=\"always-on\"} 407",
	"spool_deleted_segments_total{spool=\"always-on\"} 409",
	"spool_damaged_segments_total{spool=\"always-on\"} 410",
	"spool_lost_total{stage=\"spool\",reason=\"disk\",spool=\"always-on\"} 408",
	"spool_lost_total{stage=\"spool\",reason=\"spool_full\",spool=\"always-on\"} 0",
	"consumer_behind_bytes{consumer=\"night\"} 501",
	"export_state{destination=\"loki:x\",state=\"held\"} 1",
	"export_state{destination=\"loki:x\",state=\"ok\"} 0",
	"export_last_accepted_timestamp_seconds{destination=\"loki:x\"} 6.01e-07",
	"export_last_error_timestamp_seconds{destination=\"loki:x\"} 6.02e-07",
	"export_events_total{destination=\"loki:x\"} 603",
	"export_accepted_total{destination=\"loki:x\"} 604",
	"export_filtered_total{destination=\"loki:x\"} 605",
	"export_in_flight{destination=\"loki:x\"} 606",
	"export_lost_total{stage=\"export\",reason=\"rejected\",destination=\"loki:x\"} 607",
	"export_gaps_total{destination=\"loki:x\"} 608",
	"export_requests_total{destination=\"loki:x\"} 609",
	"export_retries_total{destination=\"loki:x\"} 610",
	"export_sent_bytes_total{destination=\"loki:x\"} 611",
	"export_spool_bytes{destination=\"loki:x\"} 612",
	"export_residual{destination=\"loki:x\"} -613",
	"relay_hosts 801", "relay_hosts_connected 802", "relay_hosts_metered 1", "relay_hosts_forgotten_total 803",
	"relay_held 804", "relay_residual 805", "relay_held_bytes 806", "relay_gaps_total 807",
	"relay_oldest_last_frame_timestamp_seconds 808", "relay_lost_total{stage=\"spool\",reason=\"disk\"} 809",
	"relay_kept_bytes 810", "relay_courier_connected 1",
	"relay_agents_told 831", "relay_agents_attempts{state=\"produced\"} 832",
	"relay_agents_attempts{state=\"stored\"} 833", "relay_agents_attempts{state=\"lost\"} 834",
	"relay_agents_attempts{state=\"in flight\"} 835", "relay_agents_behind_bytes 836", "relay_agents_residual 846",
	"relay_agents_relayed{state=\"stored\"} 838", "relay_agents_relayed{state=\"acknowledged\"} 839",
	"relay_agents_relayed{state=\"lost\"} 840", "relay_agents_relayed{state=\"in flight\"} 841",
	"relay_courier_frames_total{state=\"consigned\"} 811",
	"relay_courier_frames_total{state=\"confirmed\"} 812",
	"relay_courier_frames_total{state=\"rejected\"} 813",
	"relay_courier_frames_total{state=\"returned\"} 814",
	"relay_courier_in_flight 815", "relay_courier_residual 816",
	"relay_host_received_total{host=\"web-1\"} 821", "relay_host_forwarded_total{host=\"web-1\"} 822",
	"relay_host_duplicate_total{host=\"web-1\"} 823", "relay_host_refused_total{host=\"web-1\"} 824",
	"relay_host_held{host=\"web-1\"} 825", "relay_host_residual{host=\"web-1\"} -826",
	"relay_host_held_bytes{host=\"web-1\"} 827", "relay_host_connected{host=\"web-1\"} 1",
	"relay_host_last_frame_timestamp_seconds{host=\"web-1\"} 828",
	"relay_host_kept_bytes{host=\"web-1\"} 829",
	"recursion_lost_total 703", "uptime_seconds 702", "loss_window_seconds 704",
};

static void test_metrics(void **state)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	const struct metric_snapshot *snapshot;
	struct metric_process process = {0};
	char *text = NULL, line[200];
	struct fixture f;
	size_t bytes;
	FILE *out;

	(void)state;
	make(&f);
	metric_self_add(builder, &f.stat, &process);
	snapshot = metric_builder_end(builder, 2, 1);
	out = open_memstream(&text, &bytes);
	assert_int_equal(metric_format_write(snapshot, METRIC_PROMETHEUS, out), 0);
	fclose(out);
	for (size_t i = 0; i < sizeof(ring_line) / sizeof(ring_line[0]); i++) {
		snprintf(line, sizeof(line), "\nringtail_collector_%s\n", ring_line[i]);
		assert_has(text, line);
	}
	for (size_t i = 0; i < sizeof(other_line) / sizeof(other_line[0]); i++) {
		snprintf(line, sizeof(line), "\nringtail_collector_%s\n", other_line[i]);
		assert_has(text, line);
	}
	free(text);
	metric_snapshot_destroy(snapshot);
}

static void test_page(void **state)
{
	static const struct probe_set none;
	struct meters_config config = {.workers = 1, .catalog = small_catalog_get(), .probes = &none};
	struct meters *meters = meters_create(&config);
	struct fixture f;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	make(&f);
	http_live_write(&f.stat, meters, out);
	fclose(out);
	assert_has(text, "\"source\":\"bpf\",\"durability\":\"fsync\",\"monotonic_ns\":701,"
			 "\"uptime_ns\":702000000000,");
	assert_has(text, "\"recursion_lost\":703,");
	assert_has(text, "{\"cpu\":5,\"produced\":202,\"events\":210,\"meta\":211,\"in_flight\":203,"
			 "\"residual\":-201,\"size\":204,\"used\":205,\"stuck_ns\":212,\"lost\":["
			 "{\"stage\":\"ring\",\"reason\":\"ring_full\",");
	assert_has(text, "\"count\":213},{\"stage\":\"decode\",\"reason\":\"bad_record\",");
	assert_has(text, "\"clients_connected\":705,\"clients\":[{\"id\":302,\"peer\":\"somebody\","
			 "\"probe\":[\"syscall:*\"],\"filter\":\"uid == 2\",\"produced\":305,"
			 "\"delivered\":309,\"filtered\":310,\"in_flight\":306,\"residual\":-308,"
			 "\"queue\":307,\"wire\":303,");
	assert_has(text, "{\"name\":\"always-on\",\"state\":\"full\",\"size\":403,\"limit\":411,"
			 "\"produced\":405,\"stored\":406,\"in_flight\":407,\"residual\":-401,");
	assert_has(text, "{\"name\":\"loki:x\",\"state\":\"held\",\"events\":603,\"accepted\":604,"
			 "\"filtered\":605,\"in_flight\":606,\"residual\":-613,\"retries\":610,");
	free(text);
	meters_destroy(meters);
}

/* ---- More than a frame holds ----------------------------------------------------------------- */

#define FILTER_BYTES (FRAME_RAW_BYTES_MAX / CLIENTS_LISTED_MAX + 1)

static struct daemon_stat *many_clients(void *context)
{
	struct daemon_stat *stat = calloc(1, sizeof(*stat));

	stat->source = stat->durability = "";
	stat->clients = stat->connected = CLIENTS_LISTED_MAX;
	stat->client = calloc(stat->clients, sizeof(*stat->client));
	for (unsigned i = 0; i < stat->clients; i++)
		stat->client[i] = (struct stat_client){.peer = "", .software = "", .identity = "",
						       .filter = context, .now.lag_bytes = 2};
	return stat;
}

static void test_clients_beyond_a_frame_have_metrics(void **state)
{
	static const struct probe_set none;
	struct meters_config meters = {.workers = 1, .catalog = small_catalog_get(), .probes = &none};
	static char filter[FILTER_BYTES + 1];
	struct metric_source_config config = {
		.stat = many_clients, .context = filter, .meters = meters_create(&meters),
		.process_fd = -1,
	};
	struct metric_source *source = metric_source_create(&config);
	const struct metric_snapshot *snapshot;
	struct daemon_stat *stat;
	double queued = 0;

	(void)state;
	memset(filter, 'x', FILTER_BYTES);
	stat = many_clients(filter);
	assert_null(packed(stat));
	daemon_stat_free(stat);
	snapshot = metric_source_take(source);
	assert_non_null(snapshot);
	for (const struct metric_family *family = snapshot->first; family; family = family->next)
		if (strcmp(family->name, "ringtail_collector_clients_queue_bytes") == 0)
			queued = family->first->value;
	assert_true(queued == 2 * CLIENTS_LISTED_MAX);
	metric_snapshot_destroy(snapshot);
	metric_source_destroy(source);
	meters_destroy((struct meters *)config.meters);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_message),
		cmocka_unit_test(test_one_consumer),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_page),
		cmocka_unit_test(test_clients_beyond_a_frame_have_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
