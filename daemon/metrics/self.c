#include "daemon/metrics/self.h"

#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/counters.h"
#include "daemon/base/frame_ref.h"
#include "daemon/host/machine.h"
#include "proto/losses.h"

#define COLLECTOR "ringtail_collector_"
#define USUAL_MAX 4	/* reasons whose series are there before there is a loss; 0 ends a shorter list */

/* ---- This process ---------------------------------------------------------------------------- */

int metric_process_open(void)
{
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void metric_process_read(int fd, struct metric_process *process)
{
	char text[128];
	unsigned long long pages;
	ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	struct timespec cpu = {0};

	*process = (struct metric_process){0};
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	process->cpu_seconds = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
	if (got <= 0)
		return;
	text[got] = '\0';
	if (sscanf(text, "%*u %llu", &pages) == 1)
		process->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* The enum's name without its prefix, in lower case. */
static const char *short_name(const ProtobufCEnumDescriptor *descriptor, int value,
			      const char *prefix, char *text, size_t bytes)
{
	const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(descriptor, value);
	size_t at = 0;

	if (!known)
		return "unknown";
	for (const char *c = known->name + strlen(prefix); *c && at + 1 < bytes; c++)
		text[at++] = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
	text[at] = '\0';
	return text;
}

const char *metric_stage_name(unsigned stage)
{
	static char text[LOSS_STAGES][24];

	return short_name(&ringtail__v1__loss_stage__descriptor, (int)stage, "LOSS_",
			  text[stage < LOSS_STAGES ? stage : 0], sizeof(text[0]));
}

/* As clients call it, with underscores: hyphens are no part of a label's habit. */
const char *metric_reason_name(unsigned reason)
{
	static char text[LOSS_REASONS][24];
	char *name = text[reason < LOSS_REASONS ? reason : 0];

	snprintf(name, sizeof(text[0]), "%s", loss_text(reason)->name);
	for (char *at = name; *at; at++)
		if (*at == '-')
			*at = '_';
	return name;
}

static void add_loss(struct metric_builder *builder, const struct metric_label *owner,
		     unsigned stage, unsigned reason, uint64_t count)
{
	struct metric_label label[3] = {
		{.name = "stage", .value = metric_stage_name(stage)},
		{.name = "reason", .value = metric_reason_name(reason)},
		*owner,
	};

	metric_add(builder, (double)count, label, 3);
}

/*
 * The usual losses have a series from the start: of one that appears with its first loss, increase()
 * would not see that one.
 */
static void add_losses(struct metric_builder *builder, struct metric_label owner, unsigned stage,
		       const enum loss_reason usual[USUAL_MAX],
		       const struct stat_losses *losses)
{
	bool there[USUAL_MAX] = {false};
	struct loss_count loss;

	for (unsigned at = 0; stat_losses_next(losses, &at, &loss);) {
		add_loss(builder, &owner, loss.stage, loss.reason, loss.count);
		for (unsigned j = 0; j < USUAL_MAX; j++)
			there[j] |= loss.stage == stage && loss.reason == usual[j];
	}
	for (unsigned j = 0; j < USUAL_MAX && usual[j]; j++)
		if (!there[j])
			add_loss(builder, &owner, stage, usual[j], 0);
}

static const enum loss_reason ring_usual[USUAL_MAX] = {
	LOSS_REASON_RING_FULL,
	LOSS_REASON_NEST,
};

void metric_stream_losses(struct metric_builder *builder, struct metric_label owner, const struct stat_losses *losses)
{
	add_losses(builder, owner, LOSS_STAGE_RING, ring_usual, losses);
}

static const enum loss_reason spool_usual[USUAL_MAX] = {
	LOSS_REASON_SPOOL_FULL,
	LOSS_REASON_DISK,
	LOSS_REASON_QUEUE_FULL,
	LOSS_REASON_MEMORY,
};

static const enum loss_reason export_usual[USUAL_MAX] = {
	LOSS_REASON_REJECTED,
	LOSS_REASON_EXPIRED,
};

/* ---- Numbers of a struct, a family each ------------------------------------------------------ */

struct row {
	const char *name, *unit, *help;
	enum metric_type type;
	size_t offset;
	bool is_signed;
};

#define COUNT(array) (sizeof(array) / sizeof(array[0]))

static double read_number(const void *from, size_t offset, bool is_signed)
{
	const char *at = (const char *)from + offset;

	return is_signed ? (double)*(const int64_t *)at : (double)*(const uint64_t *)at;
}

/* Of each of n structs of so many bytes, which begin with their name. */
static void add_rows(struct metric_builder *builder, const struct row *row, size_t rows,
		     const char *label_name, const void *first, size_t bytes, unsigned n)
{
	for (size_t i = 0; i < rows; i++) {
		metric_begin(builder, row[i].type, row[i].name, row[i].unit, row[i].help);
		for (unsigned j = 0; j < n; j++) {
			const void *one = (const char *)first + j * bytes;
			struct metric_label label = {.name = label_name,
						     .value = *(const char *const *)one};

			metric_add(builder, read_number(one, row[i].offset, row[i].is_signed),
				   &label, 1);
		}
	}
}

/* ---- Rings ----------------------------------------------------------------------------------- */

#define RING(field) offsetof(struct stat_ring, field)

static const struct row ring_row[] = {
	{COLLECTOR "ring_attempts_total", "", "Attempts of producers to put a record into the ring",
	 METRIC_COUNTER, RING(now.usage.produced), false},
	{COLLECTOR "ring_events_total", "", "Records that were read and understood as events",
	 METRIC_COUNTER, RING(now.events), false},
	{COLLECTOR "ring_meta_total", "", "Records of the ring's own that were read",
	 METRIC_COUNTER, RING(now.meta), false},
	{COLLECTOR "ring_in_flight", "", "Records not yet read, and losses not yet come to",
	 METRIC_GAUGE, RING(now.usage.in_flight), false},
	{COLLECTOR "ring_size_bytes", "bytes", "Size of the ring", METRIC_GAUGE, RING(now.usage.size_bytes),
	 false},
	{COLLECTOR "ring_used_bytes", "bytes", "Bytes of the ring that were not read yet",
	 METRIC_GAUGE, RING(now.usage.unread_bytes), false},
	{COLLECTOR "ring_residual", "",
	 "What is left of the ring's ledger when all is accounted for; anything but 0 is a bug",
	 METRIC_GAUGE, RING(residual), true},
	{COLLECTOR "ring_foreign_total", "", "Calls through another ABI, which are not recorded",
	 METRIC_COUNTER, RING(now.usage.foreign), false},
	{COLLECTOR "ring_unpaired_total", "", "Returns of calls that had begun before anybody asked",
	 METRIC_COUNTER, RING(now.usage.unpaired), false},
	{COLLECTOR "ring_faults_total", "", "Strings that could not be read",
	 METRIC_COUNTER, RING(now.usage.faults), false},
	{COLLECTOR "ring_consumer_bad_total", "", "Consumer positions that the producer refused",
	 METRIC_COUNTER, RING(now.usage.consumer_bad), false},
};

static void add_rings(struct metric_builder *builder, const struct daemon_stat *stat)
{
	add_rows(builder, ring_row, COUNT(ring_row), "cpu", stat->ring, sizeof(*stat->ring),
		 stat->rings);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "ring_stuck_seconds", "seconds",
		     "How long the ring has stood still behind an unfinished record; 0: it goes on");
	for (unsigned i = 0; i < stat->rings; i++) {
		struct metric_label label = {.name = "cpu", .value = stat->ring[i].name};

		metric_add(builder, (double)stat->ring[i].now.stuck_ns / 1e9, &label, 1);
	}
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "ring_lost_total", "",
		     "Attempts that left no event, by where and why");
	for (unsigned i = 0; i < stat->rings; i++)
		add_losses(builder, (struct metric_label){"cpu", stat->ring[i].name},
			   LOSS_STAGE_RING, ring_usual, &stat->ring[i].lost);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "recursion_lost_total", "",
		     "Events for which the kernel would not run a program inside itself");
	metric_add(builder, (double)stat->recursion_lost, NULL, 0);
}

/* ---- Clients, all together ------------------------------------------------------------------- */

static void add_gauge(struct metric_builder *builder, const char *name, const char *unit,
		      const char *help, double value)
{
	metric_begin(builder, METRIC_GAUGE, name, unit, help);
	metric_add(builder, value, NULL, 0);
}

/* They come and go, and their ledgers with them: so these are gauges of those that are here. */
static void add_clients(struct metric_builder *builder, const struct daemon_stat *stat)
{
	double produced = 0, delivered = 0, filtered = 0, in_flight = 0, queue = 0, residual = 0;
	uint64_t lost[LOSS_STAGES][LOSS_REASONS] = {{0}};

	for (unsigned i = 0; i < stat->clients; i++) {
		const struct stat_client *client = &stat->client[i];
		struct loss_count loss;

		produced += (double)client->now.produced;
		delivered += (double)client->delivered;
		filtered += (double)client->filtered;
		in_flight += (double)client->now.in_flight;
		queue += (double)client->now.lag_bytes;
		residual += (double)llabs(client->now.residual);
		for (unsigned at = 0; stat_losses_next(&client->lost, &at, &loss);)
			lost[loss.stage][loss.reason] += loss.count;
	}
	add_gauge(builder, COLLECTOR "clients", "", "Clients connected now", stat->connected);
	add_gauge(builder, COLLECTOR "clients_attempts", "",
		  "Attempts in the span of the connected clients' subscriptions", produced);
	add_gauge(builder, COLLECTOR "clients_delivered", "",
		  "Events delivered to the connected clients", delivered);
	add_gauge(builder, COLLECTOR "clients_filtered", "",
		  "Attempts that the connected clients had not asked for", filtered);
	add_gauge(builder, COLLECTOR "clients_in_flight", "",
		  "Attempts on their way to the connected clients", in_flight);
	add_gauge(builder, COLLECTOR "clients_queue_bytes", "bytes",
		  "Bytes that wait for the connected clients", queue);
	add_gauge(builder, COLLECTOR "clients_residual", "",
		  "What is left of the connected clients' ledgers; anything but 0 is a bug",
		  residual);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "clients_lost", "",
		     "Events that the connected clients did not get, by where and why");
	for (unsigned at = 0; at < LOSS_STAGES * LOSS_REASONS; at++) {
		unsigned stage = at / LOSS_REASONS, reason = at % LOSS_REASONS;
		struct metric_label label[2] = {
			{.name = "stage", .value = metric_stage_name(stage)},
			{.name = "reason", .value = metric_reason_name(reason)},
		};

		if (lost[stage][reason])
			metric_add(builder, (double)lost[stage][reason], label, 2);
	}
}

/* ---- Spools, consumers, back ends ------------------------------------------------------------ */

#define SPOOL(field) offsetof(struct stat_spool, field)
#define EXPORT(field) offsetof(struct stat_export, field)

static const struct row spool_row[] = {
	{COLLECTOR "spool_segments", "", "Segments on disk", METRIC_GAUGE, SPOOL(now.segments), false},
	{COLLECTOR "spool_size_bytes", "bytes", "Bytes on disk", METRIC_GAUGE, SPOOL(now.bytes), false},
	{COLLECTOR "spool_limit_bytes", "bytes", "Bytes that may be on disk", METRIC_GAUGE,
	 SPOOL(now.size_bytes), false},
	{COLLECTOR "spool_attempts_total", "", "Attempts in the span of the spool", METRIC_COUNTER,
	 SPOOL(now.produced), false},
	{COLLECTOR "spool_stored_total", "", "Attempts that are as durable as was asked for",
	 METRIC_COUNTER, SPOOL(now.stored), false},
	{COLLECTOR "spool_in_flight", "", "Attempts on their way to the disk", METRIC_GAUGE,
	 SPOOL(now.in_flight), false},
	{COLLECTOR "spool_residual", "",
	 "What is left of the spool's ledger; anything but 0 is a bug", METRIC_GAUGE,
	 SPOOL(residual), true},
	{COLLECTOR "spool_deleted_segments_total", "",
	 "Segments given up: acknowledged, or to stay within the bound", METRIC_COUNTER,
	 SPOOL(now.deleted), false},
	{COLLECTOR "spool_damaged_segments_total", "", "Segments found damaged and set aside",
	 METRIC_COUNTER, SPOOL(now.set_aside), false},
};

static const struct row export_row[] = {
	{COLLECTOR "export_events_total", "", "Events meant for the back end", METRIC_COUNTER,
	 EXPORT(events), false},
	{COLLECTOR "export_accepted_total", "", "Events that the back end took", METRIC_COUNTER,
	 EXPORT(accepted), false},
	{COLLECTOR "export_filtered_total", "", "Events not chosen for the back end",
	 METRIC_COUNTER, EXPORT(filtered), false},
	{COLLECTOR "export_in_flight", "", "Events on their way to the back end", METRIC_GAUGE,
	 EXPORT(in_flight), false},
	{COLLECTOR "export_residual", "",
	 "What is left of the back end's ledger; anything but 0 is a bug", METRIC_GAUGE,
	 EXPORT(residual), true},
	{COLLECTOR "export_gaps_total", "",
	 "Where events for the back end are missing, nobody knows how many", METRIC_COUNTER,
	 EXPORT(gaps), false},
	{COLLECTOR "export_requests_total", "", "Requests to the back end", METRIC_COUNTER,
	 EXPORT(requests), false},
	{COLLECTOR "export_retries_total", "", "Requests that were sent again", METRIC_COUNTER,
	 EXPORT(retries), false},
	{COLLECTOR "export_sent_bytes_total", "bytes", "Bytes of bodies sent, compressed",
	 METRIC_COUNTER, EXPORT(bytes), false},
	{COLLECTOR "export_spool_bytes", "bytes",
	 "Bytes on disk that the back end has not accepted; 0 without a spool", METRIC_GAUGE,
	 EXPORT(spool_bytes), false},
};

static void add_spools(struct metric_builder *builder, const struct daemon_stat *stat)
{
	add_rows(builder, spool_row, COUNT(spool_row), "spool", stat->spool, sizeof(*stat->spool),
		 stat->spools);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "spool_lost_total", "",
		     "Attempts that are not on disk, by where and why");
	for (unsigned i = 0; i < stat->spools; i++)
		add_losses(builder, (struct metric_label){"spool", stat->spool[i].name},
			   LOSS_STAGE_SPOOL, spool_usual, &stat->spool[i].lost);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "consumer_behind_bytes", "bytes",
		     "Bytes kept for a durable consumer");
	for (unsigned i = 0; i < stat->consumers; i++) {
		struct metric_label label = {.name = "consumer", .value = stat->consumer[i].name};

		metric_add(builder, (double)stat->consumer[i].behind_bytes, &label, 1);
	}
}

/* A series for each state there is, of which one is 1: one that changes leaves no old one behind. */
static void add_export_states(struct metric_builder *builder, const struct daemon_stat *stat)
{
	static const char *const state[] = {"starting", "refused", "ok", "retrying", "held",
					    "rejecting"};

	metric_begin(builder, METRIC_GAUGE, COLLECTOR "export_state", "",
		     "Whether the back end is in that state: 1 for one of them");
	for (unsigned i = 0; i < stat->exports; i++)
		for (size_t j = 0; j < COUNT(state); j++) {
			const struct metric_label label[2] = {
				{.name = "destination", .value = stat->export[i].name},
				{.name = "state", .value = state[j]},
			};

			metric_add(builder, strcmp(stat->export[i].state, state[j]) == 0, label, 2);
		}
}

static void add_export_times(struct metric_builder *builder, const struct daemon_stat *stat,
			     const char *name, const char *help, size_t offset)
{
	metric_begin(builder, METRIC_GAUGE, name, "seconds", help);
	for (unsigned i = 0; i < stat->exports; i++) {
		struct metric_label label = {.name = "destination",
					     .value = stat->export[i].name};

		metric_add(builder, read_number(&stat->export[i], offset, false) / 1e9, &label, 1);
	}
}

static void add_exports(struct metric_builder *builder, const struct daemon_stat *stat)
{
	add_export_states(builder, stat);
	add_export_times(builder, stat, COLLECTOR "export_last_accepted_timestamp_seconds",
			 "When the back end accepted something last; 0: never",
			 EXPORT(accepted_realtime_ns));
	add_export_times(builder, stat, COLLECTOR "export_last_error_timestamp_seconds",
			 "When the back end last refused something or did not answer; 0: never",
			 EXPORT(error_realtime_ns));
	add_rows(builder, export_row, COUNT(export_row), "destination", stat->export,
		 sizeof(*stat->export), stat->exports);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "export_lost_total", "",
		     "Events that a back end did not get, by where and why");
	for (unsigned i = 0; i < stat->exports; i++)
		add_losses(builder, (struct metric_label){"destination", stat->export[i].name},
			   LOSS_STAGE_EXPORT, export_usual,
			   &stat->export[i].lost);
}

#define TRIGGER(field) offsetof(struct stat_trigger, field)

static const struct row trigger_row[] = {
	{COLLECTOR "trigger_rule_matches_total", "", "Events that matched the rule", METRIC_COUNTER,
	 TRIGGER(matches), false},
	{COLLECTOR "trigger_rule_fired_total", "", "Times the rule fired", METRIC_COUNTER,
	 TRIGGER(fired), false},
	{COLLECTOR "trigger_rule_suppressed_total", "",
	 "Matches that nothing was done about, because the rule had fired within its `every`",
	 METRIC_COUNTER, TRIGGER(suppressed), false},
	{COLLECTOR "trigger_rule_residual", "",
	 "What is left of the rule's ledger; anything but 0 is a bug", METRIC_GAUGE,
	 TRIGGER(residual), true},
};

static void add_triggers(struct metric_builder *builder, const struct daemon_stat *stat)
{
	add_rows(builder, trigger_row, COUNT(trigger_row), "trigger", stat->trigger,
		 sizeof(*stat->trigger), stat->triggers);
}

/* ---- The hosts of a relay --------------------------------------------------------------------- */

#define HOST(field) offsetof(struct stat_host, field)

/* Of hosts that have series of their own. */
static const struct row host_row[] = {
	{COLLECTOR "relay_host_received_total", "", "Frames that came of the host", METRIC_COUNTER, HOST(received),
	 false},
	{COLLECTOR "relay_host_forwarded_total", "", "Of these, stored or in Kafka", METRIC_COUNTER,
	 HOST(forwarded), false},
	{COLLECTOR "relay_host_duplicate_total", "", "Of these, had come before", METRIC_COUNTER, HOST(duplicate),
	 false},
	{COLLECTOR "relay_host_refused_total", "", "Of these, could not be stored", METRIC_COUNTER, HOST(refused),
	 false},
	{COLLECTOR "relay_host_held", "", "Of these, not yet acknowledged", METRIC_GAUGE, HOST(held), false},
	{COLLECTOR "relay_host_residual", "", "What is left of the host's ledger; anything but 0 is a bug",
	 METRIC_GAUGE, HOST(residual), true},
	{COLLECTOR "relay_host_held_bytes", "bytes", "Bytes of the host that are not yet acknowledged", METRIC_GAUGE,
	 HOST(held_bytes), false},
	{COLLECTOR "relay_host_kept_bytes", "bytes", "Bytes of the host on this relay's disk", METRIC_GAUGE,
	 HOST(sink.kept_bytes), false},
};

static void add_hosts(struct metric_builder *builder, const struct daemon_stat *stat)
{
	add_rows(builder, host_row, COUNT(host_row), "host", stat->host, sizeof(*stat->host), stat->hosts);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "relay_host_connected", "", "Whether the host is connected");
	for (unsigned i = 0; i < stat->hosts; i++) {
		struct metric_label label = {.name = "host", .value = stat->host[i].name};

		metric_add(builder, stat->host[i].connected, &label, 1);
	}
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "relay_host_last_frame_timestamp_seconds", "seconds",
		     "When the host's last frame came; 0: none has since the relay started");
	for (unsigned i = 0; i < stat->hosts; i++) {
		struct metric_label label = {.name = "host", .value = stat->host[i].name};

		metric_add(builder, (double)stat->host[i].heard_realtime_ns / 1e9, &label, 1);
	}
}

static void add_frames(struct metric_builder *builder, const char *state, uint64_t frames)
{
	struct metric_label label = {.name = "state", .value = state};

	metric_add(builder, (double)frames, &label, 1);
}

static void add_courier(struct metric_builder *builder, const struct stat_relay *relay)
{
	const struct stat_sink *sink = &relay->all.sink;

	add_gauge(builder, COLLECTOR "relay_courier_connected", "", "Whether a courier is connected", relay->courier);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "relay_courier_frames_total", "",
		     "Frames that couriers were handed: consigned = confirmed + rejected + returned + in flight");
	add_frames(builder, "consigned", sink->consigned);
	add_frames(builder, "confirmed", sink->confirmed);
	add_frames(builder, "rejected", sink->rejected);
	add_frames(builder, "returned", sink->returned);
	add_gauge(builder, COLLECTOR "relay_courier_in_flight", "", "Frames that the courier has",
		  (double)sink->in_flight);
	add_gauge(builder, COLLECTOR "relay_courier_residual", "",
		  "What is left of the ledgers of couriers; anything but 0 is a bug", (double)sink->residual);
}

/* Each agent counts since it started: the sums are no counters. */
static void add_agents(struct metric_builder *builder, const struct stat_relay *relay)
{
	const struct stat_told *told = &relay->all.told;

	add_gauge(builder, COLLECTOR "relay_agents_told", "", "Hosts that have told how their spools stand",
		  relay->told);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "relay_agents_attempts", "",
		     "Attempts since the agents started, by their spools: produced = stored + lost + in flight");
	add_frames(builder, "produced", told->produced);
	add_frames(builder, "stored", told->stored);
	add_frames(builder, "lost", told->lost);
	add_frames(builder, "in flight", told->in_flight);
	add_gauge(builder, COLLECTOR "relay_agents_behind_bytes", "bytes", "Bytes that the agents keep for this relay",
		  (double)told->behind_bytes);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "relay_agents_relayed", "",
		     "Attempts since the agents know a relay, by what became of them: stored = acknowledged + lost + in flight");
	add_frames(builder, "stored", told->kept);
	add_frames(builder, "acknowledged", told->acked);
	add_frames(builder, "lost", told->gone);
	add_frames(builder, "in flight", told->waiting);
	add_gauge(builder, COLLECTOR "relay_agents_residual", "",
		  "What is left of the agents' ledgers, without signs; anything but 0 is a bug",
		  (double)told->residual + (double)told->relay_residual);
}

/* The sums first: they are of all hosts, however many there are. */
static void add_relay(struct metric_builder *builder, const struct daemon_stat *stat)
{
	const struct stat_relay *relay = &stat->relay;
	const struct stat_host *all = &relay->all;
	struct loss_count loss;

	if (!stat->is_relay)
		return;
	add_gauge(builder, COLLECTOR "relay_hosts", "", "Hosts that the relay knows", relay->hosts);
	add_gauge(builder, COLLECTOR "relay_hosts_connected", "", "Of these, connected now", relay->connected);
	add_gauge(builder, COLLECTOR "relay_hosts_metered", "", "Of these, with series of their own", stat->hosts);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "relay_hosts_forgotten_total", "",
		     "Times that a host was given up for another");
	metric_add(builder, (double)relay->forgotten, NULL, 0);
	add_gauge(builder, COLLECTOR "relay_residual", "",
		  "What is left of all hosts' ledgers, without signs; anything but 0 is a bug", (double)all->residual);
	add_gauge(builder, COLLECTOR "relay_held", "", "Frames that are not yet acknowledged", (double)all->held);
	add_gauge(builder, COLLECTOR "relay_held_bytes", "bytes", "Bytes that are not yet acknowledged",
		  (double)all->held_bytes);
	add_gauge(builder, COLLECTOR "relay_kept_bytes", "bytes", "Bytes of hosts on this relay's disk",
		  (double)all->sink.kept_bytes);
	add_gauge(builder, COLLECTOR "relay_oldest_last_frame_timestamp_seconds", "seconds",
		  "When the last frame came of the host that is silent longest; 0: none has come",
		  (double)all->heard_realtime_ns / 1e9);
	add_agents(builder, relay);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "relay_gaps_total", "",
		     "Where events of hosts are missing, nobody knows how many");
	metric_add(builder, (double)all->gaps, NULL, 0);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "relay_lost_total", "",
		     "Attempts that the hosts' frames told of as lost, by where and why");
	for (unsigned at = 0; stat_losses_next(&all->lost, &at, &loss);) {
		const struct metric_label label[2] = {
			{.name = "stage", .value = metric_stage_name(loss.stage)},
			{.name = "reason", .value = metric_reason_name(loss.reason)},
		};

		metric_add(builder, (double)loss.count, label, 2);
	}
	if (relay->carries)
		add_courier(builder, relay);
	add_hosts(builder, stat);
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void add_counters(struct metric_builder *builder)
{
	static const char *const name[COUNTERS] = {
#define COUNTER(name, help) COLLECTOR #name "_total",
#include "daemon/base/counters.def"
#undef COUNTER
	};

	for (unsigned i = 0; i < COUNTERS; i++) {
		const char *bytes = strstr(name[i], "_bytes_total");

		metric_begin(builder, METRIC_COUNTER, name[i], bytes ? "bytes" : "",
			     counter_help(i));
		metric_add(builder, (double)counter_read(i), NULL, 0);
	}
}

static void add_process(struct metric_builder *builder, const struct daemon_stat *stat,
			const struct metric_process *process)
{
	const struct metric_label build[2] = {{.name = "version", .value = RINGTAIL_VERSION},
					      {.name = "source", .value = stat->source}};
	uint64_t read = counter_read(COUNTER_records_read);
	struct utsname system;
	const struct metric_label host[2] = {{.name = "host_name", .value = system.nodename},
					     {.name = "host_id", .value = machine_id()}};

	uname(&system);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "host_info", "",
		     "Which host this is, by the names that exports have; always 1");
	metric_add(builder, 1, host, 2);
	metric_begin(builder, METRIC_GAUGE, COLLECTOR "build_info", "",
		     "What runs here; always 1");
	metric_add(builder, 1, build, 2);
	add_gauge(builder, COLLECTOR "uptime_seconds", "seconds", "Since the daemon started",
		  (double)stat->uptime_ns / 1e9);
	metric_begin(builder, METRIC_COUNTER, COLLECTOR "cpu_seconds_total", "seconds",
		     "CPU time of the engine, user and system");
	metric_add(builder, process->cpu_seconds, NULL, 0);
	add_gauge(builder, COLLECTOR "cpu_per_record_seconds", "seconds",
		  "CPU time of the engine by record read, since it started",
		  read ? process->cpu_seconds / (double)read : 0);
	if (process->resident_bytes)
		add_gauge(builder, COLLECTOR "resident_memory_bytes", "bytes",
			  "Resident memory of the engine", (double)process->resident_bytes);
	add_gauge(builder, COLLECTOR "loss_window_seconds", "seconds",
		  "What a crash costs at worst, by durability; it grows while a disk is slow "
		  "or fails", (double)stat->loss_window_ns / 1e9);
}

void metric_self_add(struct metric_builder *builder, const struct daemon_stat *stat,
		     const struct metric_process *process)
{
	add_process(builder, stat, process);
	add_rings(builder, stat);
	add_clients(builder, stat);
	add_spools(builder, stat);
	add_exports(builder, stat);
	add_triggers(builder, stat);
	add_counters(builder);
	add_relay(builder, stat);
}

/* ---- The struct it is made of ----------------------------------------------------------------- */

bool stat_losses_next(const struct stat_losses *losses, unsigned *at, struct loss_count *loss)
{
	for (; *at < losses->stages * LOSS_REASONS; (*at)++) {
		unsigned row = *at / LOSS_REASONS, reason = *at % LOSS_REASONS;

		if (!losses->count[row][reason])
			continue;
		loss->stage = (uint8_t)(losses->stage + row);
		loss->reason = (uint8_t)reason;
		loss->count = losses->count[row][reason];
		(*at)++;
		return true;
	}
	return false;
}

void daemon_stat_free(struct daemon_stat *stat)
{
	if (!stat)
		return;
	free(stat->ring);
	free(stat->client);
	free(stat->spool);
	free(stat->consumer);
	free(stat->export);
	free(stat->trigger);
	free(stat->host);
	free(stat);
}
