#include "client/cli/stat_print.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/out.h"
#include "client/cli/units.h"
#include "proto/losses.h"

/* ---- What was lost, and what to do ------------------------------------------------------------ */

static bool has(Ringtail__V1__LossCount *const *lost, size_t n, unsigned reason)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned)lost[i]->reason == reason && lost[i]->count)
			return true;
	return false;
}

static bool was_lost(const Ringtail__V1__Stat *stat, unsigned reason)
{
	bool lost = false;

	for (size_t i = 0; i < stat->n_ring; i++)
		lost |= has(stat->ring[i]->lost, stat->ring[i]->n_lost, reason);
	for (size_t i = 0; i < stat->n_client; i++)
		lost |= has(stat->client[i]->lost, stat->client[i]->n_lost, reason);
	for (size_t i = 0; i < stat->n_spool; i++)
		lost |= has(stat->spool[i]->lost, stat->spool[i]->n_lost, reason);
	for (size_t i = 0; i < stat->n_export; i++)
		lost |= has(stat->export[i]->lost, stat->export[i]->n_lost, reason);
	for (size_t i = 0; i < stat->n_trigger; i++)
		lost |= has(stat->trigger[i]->lost, stat->trigger[i]->n_lost, reason);
	return lost;
}

static void describe(const Ringtail__V1__Stat *stat, unsigned reason, struct loss_advice *advice)
{
	const struct loss_text *row = loss_text(reason);
	char size[UNITS_TEXT_BYTES];

	snprintf(advice->name, sizeof(advice->name), "%s", row->name);
	for (char *at = advice->name; *at; at++)
		if (*at == '-')
			*at = ' ';
	advice->what = row->what;
	snprintf(advice->remedy, sizeof(advice->remedy), "%s", row->remedy);
	if (reason == RINGTAIL__V1__LOSS_REASON__REASON_RING_FULL && stat->n_ring)
		snprintf(advice->remedy, sizeof(advice->remedy), "%s (ring-size is %s now)",
			 row->remedy,
			 units_format_bytes((double)stat->ring[0]->size_bytes, size));
}

bool loss_advice_next(const Ringtail__V1__Stat *stat, unsigned *reason, struct loss_advice *advice)
{
	/* One that a newer daemon counts is the last: all of those are unknown here. */
	for (; *reason < ringtail__v1__loss_reason__descriptor.n_values; (*reason)++)
		if (was_lost(stat, *reason)) {
			describe(stat, (*reason)++, advice);
			return true;
		}
	return false;
}

#define BAR_COLUMNS 20

__attribute__((format(printf, 2, 3)))
static void put(struct out *out, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	for (char *at = line, *end; *at; at = end) {	/* a name may have been cut in its middle */
		bool ends;

		end = at + strcspn(at, "\n");
		ends = *end == '\n';
		*end = '\0';
		out_visible(out, at);
		if (ends)
			out_char(out, '\n');
		end += ends;
	}
}

bool stat_balanced(const Ringtail__V1__Stat *stat)
{
	for (size_t i = 0; i < stat->n_ring; i++)
		if (stat->ring[i]->residual)
			return false;
	for (size_t i = 0; i < stat->n_client; i++)
		if (stat->client[i]->residual)
			return false;
	for (size_t i = 0; i < stat->n_export; i++)
		if (stat->export[i]->residual)
			return false;
	for (size_t i = 0; i < stat->n_spool; i++)
		if (stat->spool[i]->residual)
			return false;
	for (size_t i = 0; i < stat->n_consumer; i++)
		if (stat->consumer[i]->residual)
			return false;
	for (size_t i = 0; i < stat->n_trigger; i++)
		if (stat->trigger[i]->residual)
			return false;
	return true;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static uint64_t sum_lost(Ringtail__V1__LossCount *const *lost, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += lost[i]->count;
	return sum;
}

static const Ringtail__V1__RingStat *ring_before(const Ringtail__V1__Stat *before, uint32_t cpu)
{
	for (size_t i = 0; before && i < before->n_ring; i++)
		if (before->ring[i]->cpu == cpu)
			return before->ring[i];
	return NULL;
}

static const Ringtail__V1__ClientStat *client_before(const Ringtail__V1__Stat *before, uint64_t id)
{
	for (size_t i = 0; before && i < before->n_client; i++)
		if (before->client[i]->id == id)
			return before->client[i];
	return NULL;
}

/* "1.23M/s", or "-" for the first look. */
static const char *rate(uint64_t now, const uint64_t *then, double seconds,
			char text[UNITS_TEXT_BYTES])
{
	char number[UNITS_TEXT_BYTES];

	if (!then || seconds <= 0 || now < *then)
		return "-";
	snprintf(text, UNITS_TEXT_BYTES, "%.20s/s",
		 units_format_rate((double)(now - *then) / seconds, number));
	return text;
}

static void put_rings(struct out *out, const Ringtail__V1__Stat *stat,
		      const Ringtail__V1__Stat *before, double seconds)
{
	put(out, "%4s %10s %12s %10s  %-22s\n", "cpu", "events", "all events", "lost", "ring");
	for (size_t i = 0; i < stat->n_ring; i++) {
		const Ringtail__V1__RingStat *ring = stat->ring[i];
		const Ringtail__V1__RingStat *was = ring_before(before, ring->cpu);
		char events[UNITS_TEXT_BYTES], used[UNITS_TEXT_BYTES], size[UNITS_TEXT_BYTES];
		char bar[BAR_COLUMNS + 1];
		uint64_t filled = ring->size_bytes ?
				  (uint64_t)((double)ring->used_bytes / (double)ring->size_bytes *
					     BAR_COLUMNS + 0.5) : 0;

		memset(bar, '.', BAR_COLUMNS);
		memset(bar, '#', filled < BAR_COLUMNS ? filled : BAR_COLUMNS);
		bar[BAR_COLUMNS] = '\0';
		put(out, "%4u %10s %12llu %10llu  [%s] %s of %s\n", ring->cpu,
		    rate(ring->events, was ? &was->events : NULL, seconds, events),
		    (unsigned long long)ring->events,
		    (unsigned long long)sum_lost(ring->lost, ring->n_lost), bar,
		    units_format_bytes((double)ring->used_bytes, used),
		    units_format_bytes((double)ring->size_bytes, size));
	}
}

static void put_clients(struct out *out, const Ringtail__V1__Stat *stat,
			const Ringtail__V1__Stat *before, double seconds)
{
	if (!stat->n_client)
		return;
	put(out, "\n%6s %-16s %-16s %10s %12s %10s %10s %10s  %s\n", "client", "identity",
	    "software", "events",
	    "all events", "lost", "wire", "waiting", "probes");
	for (size_t i = 0; i < stat->n_client; i++) {
		const Ringtail__V1__ClientStat *client = stat->client[i];
		const Ringtail__V1__ClientStat *was = client_before(before, client->id);
		char events[UNITS_TEXT_BYTES], wire[UNITS_TEXT_BYTES], waiting[UNITS_TEXT_BYTES];

		put(out, "%6llu %-16.16s %-16.16s %10s %12llu %10llu %10s %10s  ",
		    (unsigned long long)client->id, client->identity, client->software,
		    rate(client->delivered, was ? &was->delivered : NULL, seconds, events),
		    (unsigned long long)client->delivered,
		    (unsigned long long)sum_lost(client->lost, client->n_lost),
		    units_format_bytes((double)client->wire_bytes, wire),
		    units_format_bytes((double)client->queue_bytes, waiting));
		for (size_t j = 0; j < client->n_probe; j++)
			put(out, "%s%.80s", j ? "," : "", client->probe[j]);
		put(out, client->filter[0] ? "  if %.200s\n" : "%s\n", client->filter);
	}
}

/* What is kept on disk, and what a crash would cost. */
static void put_spools(struct out *out, const Ringtail__V1__Stat *stat)
{
	if (stat->loss_window_ns)
		put(out, "\ndurability %s: a crash %s costs at most the last %llu ms\n",
		    stat->durability,
		    strcmp(stat->durability, "fsync") == 0 ? "of the machine" : "of the daemon",
		    (unsigned long long)(stat->loss_window_ns / 1000000));
	for (size_t i = 0; i < stat->n_spool; i++)
		if (strcmp(stat->spool[i]->state, "failed") == 0)
			put(out, "the spool %.100s has FAILED: what comes for it is lost until its disk "
				 "takes it again\n", stat->spool[i]->name);
	if (!stat->n_spool)
		return;
	put(out, "\n%-24s %-8s %8s %10s %10s %12s %10s %10s  %s\n", "spool", "state", "segments",
	    "bytes", "of", "stored", "lost", "waiting", "probes");
	for (size_t i = 0; i < stat->n_spool; i++) {
		const Ringtail__V1__SpoolStat *spool = stat->spool[i];
		char bytes[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];

		put(out, "%-24.100s %-8s %8llu %10s %10s %12llu %10llu %10llu  ", spool->name,
		    spool->state, (unsigned long long)spool->segments,
		    units_format_bytes((double)spool->bytes, bytes),
		    units_format_bytes((double)spool->bytes_max, most),
		    (unsigned long long)spool->stored,
		    (unsigned long long)sum_lost(spool->lost, spool->n_lost),
		    (unsigned long long)spool->in_flight);
		for (size_t j = 0; j < spool->n_probe; j++)
			put(out, "%s%.80s", j ? "," : "", spool->probe[j]);
		put(out, spool->filter[0] ? "  if %.200s\n" : "%s\n", spool->filter);
	}
}

#define WHEN_BYTES 32

/* "2026-11-22 17:00:00", UTC; "never". Returns text. */
static const char *format_when(uint64_t realtime_ns, char text[WHEN_BYTES])
{
	time_t when = (time_t)(realtime_ns / 1000000000u);
	struct tm utc;

	if (!when || !gmtime_r(&when, &utc) ||
	    !strftime(text, WHEN_BYTES, "%Y-%m-%d %H:%M:%S", &utc))
		snprintf(text, WHEN_BYTES, "never");
	return text;
}

static void put_consumers(struct out *out, const Ringtail__V1__Stat *stat)
{
	if (!stat->n_consumer)
		return;
	put(out, "\n%-32s %-10s %10s  %-19s  %-16s  %s\n", "durable consumer", "", "behind",
	    "acknowledged", "spool", "owner");
	for (size_t i = 0; i < stat->n_consumer; i++) {
		const Ringtail__V1__ConsumerStat *consumer = stat->consumer[i];
		char behind[UNITS_TEXT_BYTES], when[WHEN_BYTES];

		put(out, "%-32.64s %-10s %10s  %-19s  %-16.100s  %.100s\n", consumer->name,
		    consumer->exporter ? "exporter" : consumer->held_back ? "held back" :
		    consumer->connected ? "connected" : "away",
		    units_format_bytes((double)consumer->behind_bytes, behind),
		    format_when(consumer->acked_realtime_ns, when),
		    consumer->spool, consumer->owner);
	}
}

static void put_exports(struct out *out, const Ringtail__V1__Stat *stat)
{
	if (!stat->n_export)
		return;
	put(out, "\n%-40s %-10s %10s %10s %10s %10s %8s  %-19s  %s\n", "export", "state",
	    "accepted", "lost", "waiting", "on disk", "requests", "last accepted", "last error");
	for (size_t i = 0; i < stat->n_export; i++) {
		const Ringtail__V1__ExportStat *export = stat->export[i];
		char disk[UNITS_TEXT_BYTES], accepted[WHEN_BYTES], error[WHEN_BYTES];

		put(out, "%-40.200s %-10s %10llu %10llu %10llu %10s %8llu  %-19s", export->name,
		    export->state, (unsigned long long)export->accepted,
		    (unsigned long long)sum_lost(export->lost, export->n_lost),
		    (unsigned long long)export->in_flight,
		    units_format_bytes((double)export->spool_bytes, disk),
		    (unsigned long long)export->requests,
		    format_when(export->accepted_realtime_ns, accepted));
		if (export->last_error[0])
			put(out, "  %s: %.160s", format_when(export->error_realtime_ns, error),
			    export->last_error);
		put(out, "\n");
	}
}

static void put_triggers(struct out *out, const Ringtail__V1__Stat *stat)
{
	if (!stat->n_trigger)
		return;
	put(out, "\n%-32s %-8s %12s %8s %12s  %-19s  %s\n", "trigger", "state", "matches", "fired",
	    "suppressed", "fired last", "rule");
	for (size_t i = 0; i < stat->n_trigger; i++) {
		const Ringtail__V1__TriggerStat *trigger = stat->trigger[i];
		char fired[WHEN_BYTES];

		put(out, "%-32.64s %-8s %12llu %8llu %12llu  %-19s  %.400s\n", trigger->name,
		    trigger->state, (unsigned long long)trigger->matches,
		    (unsigned long long)trigger->fired, (unsigned long long)trigger->suppressed,
		    format_when(trigger->fired_realtime_ns, fired), trigger->rule);
		if (trigger->why[0])
			put(out, "    %.400s\n", trigger->why);
	}
}

/* " + 12 lost (ring, ring full)" for each reason there is. */
static void put_lost(struct out *out, Ringtail__V1__LossCount *const *lost, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (lost[i]->count)
			put(out, " + %llu lost (%s, %s)", (unsigned long long)lost[i]->count,
			    ringtail_stage_name(lost[i]->stage),
			    ringtail_reason_name(lost[i]->reason));
}

/* What never was an attempt: a line for what there is, of all rings together. */
static void put_beside(struct out *out, const Ringtail__V1__Stat *stat)
{
	uint64_t foreign = 0, unpaired = 0, faults = 0, consumer_bad = 0;

	for (size_t i = 0; i < stat->n_ring; i++) {
		foreign += stat->ring[i]->foreign;
		unpaired += stat->ring[i]->unpaired;
		faults += stat->ring[i]->faults;
		consumer_bad += stat->ring[i]->consumer_bad;
	}
	if (stat->recursion_lost)
		put(out, "  beside the rings: %llu events the kernel would not let nest\n",
		    (unsigned long long)stat->recursion_lost);
	if (stat->maps_too_late)
		put(out, "  beside the rings: %llu processes ended before their maps were read: "
		    "functions in their stacks have no names\n",
		    (unsigned long long)stat->maps_too_late);
	if (stat->maps_left_out)
		put(out, "  beside the rings: %llu maps of processes that have too many\n",
		    (unsigned long long)stat->maps_left_out);
	if (stat->stacks_cut)
		put(out, "  beside the rings: %llu user stacks could not be followed to their beginning\n",
		    (unsigned long long)stat->stacks_cut);
	if (stat->redact_rules)
		put(out, "  redact: %u rules hide texts; the counter texts_redacted says how many\n",
		    stat->redact_rules);
	if (foreign)
		put(out, "  beside the rings: %llu foreign: calls through another ABI (32-bit), not "
		    "recorded\n", (unsigned long long)foreign);
	if (unpaired)
		put(out, "  beside the rings: %llu unpaired: returns of calls that had begun before "
		    "anybody asked\n", (unsigned long long)unpaired);
	if (faults)
		put(out, "  beside the rings: %llu faults: strings that could not be read\n",
		    (unsigned long long)faults);
	if (consumer_bad)
		put(out, "  beside the rings: %llu consumer-bad: positions of the reader that the "
		    "producer refused\n", (unsigned long long)consumer_bad);
}

/* What was lost since the daemon started can be kept from happening again. */
static void put_advice(struct out *out, const Ringtail__V1__Stat *stat)
{
	struct loss_advice advice;
	unsigned reason = 0;

	while (loss_advice_next(stat, &reason, &advice))
		put(out, "  %s: %s\n    -> %s\n", advice.name, advice.what, advice.remedy);
}

/* What closes each row of the ledger. */
static void put_rest(struct out *out, Ringtail__V1__LossCount *const *lost, size_t n, uint64_t in_flight,
		     int64_t residual)
{
	put_lost(out, lost, n);
	put(out, " + %llu in flight; residual %lld\n", (unsigned long long)in_flight, (long long)residual);
}

static void put_ledger(struct out *out, const Ringtail__V1__Stat *stat)
{
	put(out, "\nledger\n");
	for (size_t i = 0; i < stat->n_ring; i++) {
		const Ringtail__V1__RingStat *ring = stat->ring[i];

		put(out, "  cpu %u: %llu produced = %llu events + %llu meta", ring->cpu,
		    (unsigned long long)ring->produced, (unsigned long long)ring->events,
		    (unsigned long long)ring->meta);
		put_rest(out, ring->lost, ring->n_lost, ring->in_flight, ring->residual);
		if (ring->stuck_ns)
			put(out, "  cpu %u: stuck for %llu s behind an unfinished record\n", ring->cpu,
			    (unsigned long long)(ring->stuck_ns / 1000000000u));
	}
	for (size_t i = 0; i < stat->n_client; i++) {
		const Ringtail__V1__ClientStat *client = stat->client[i];

		put(out, "  client %llu: %llu produced = %llu delivered + %llu filtered",
		    (unsigned long long)client->id, (unsigned long long)client->produced,
		    (unsigned long long)client->delivered, (unsigned long long)client->filtered);
		put_rest(out, client->lost, client->n_lost, client->in_flight, client->residual);
	}
	for (size_t i = 0; i < stat->n_spool; i++) {
		const Ringtail__V1__SpoolStat *spool = stat->spool[i];

		put(out, "  spool %.100s: %llu produced = %llu stored", spool->name,
		    (unsigned long long)spool->produced, (unsigned long long)spool->stored);
		put_rest(out, spool->lost, spool->n_lost, spool->in_flight, spool->residual);
	}
	for (size_t i = 0; i < stat->n_consumer; i++) {
		const Ringtail__V1__ConsumerStat *consumer = stat->consumer[i];

		/* Of the relay's alone it is counted. */
		if (consumer->stored || consumer->residual)
			put(out, "  consumer %.64s: %llu stored = %llu acknowledged + %llu lost + %llu in flight;"
			    " residual %lld\n", consumer->name, (unsigned long long)consumer->stored,
			    (unsigned long long)consumer->acked, (unsigned long long)consumer->lost,
			    (unsigned long long)consumer->in_flight, (long long)consumer->residual);
	}
	for (size_t i = 0; i < stat->n_export; i++) {
		const Ringtail__V1__ExportStat *export = stat->export[i];

		put(out, "  export %.200s: %llu events = %llu accepted + %llu filtered",
		    export->name, (unsigned long long)export->events,
		    (unsigned long long)export->accepted, (unsigned long long)export->filtered);
		put_rest(out, export->lost, export->n_lost, export->in_flight, export->residual);
		if (export->gaps)
			put(out, "    and an unknown number lost, in %llu gap%s\n",
			    (unsigned long long)export->gaps, export->gaps > 1 ? "s" : "");
	}
	for (size_t i = 0; i < stat->n_trigger; i++) {
		const Ringtail__V1__TriggerStat *trigger = stat->trigger[i];

		put(out, "  trigger %.64s: %llu produced = %llu matches + %llu filtered", trigger->name,
		    (unsigned long long)trigger->produced, (unsigned long long)trigger->matches,
		    (unsigned long long)trigger->filtered);
		put_rest(out, trigger->lost, trigger->n_lost, trigger->in_flight, trigger->residual);
	}
	put_beside(out, stat);
	put_advice(out, stat);
}

static void put_counters(struct out *out, const Ringtail__V1__Stat *stat, bool zeros)
{
	bool any = false;

	for (size_t i = 0; i < stat->n_counter; i++) {
		if (!zeros && !stat->counter[i]->value)
			continue;
		if (!any)
			put(out, "\ncounters\n");
		any = true;
		put(out, "  %-28s %14llu  %s\n", stat->counter[i]->name,
		    (unsigned long long)stat->counter[i]->value, stat->counter[i]->help);
	}
}

/* What both begin with: the daemon, rates, rings and clients. */
static void put_start(struct out *out, const struct ringtail_host *host,
		      const Ringtail__V1__Stat *stat, const Ringtail__V1__Stat *before)
{
	double seconds = before ? (double)(stat->monotonic_ns - before->monotonic_ns) / 1e9 : 0;
	uint64_t up = stat->uptime_ns / 1000000000u;

	put(out, "%s on %s (%s), source %s, up %llu:%02llu:%02llu\n\n", host->software,
	    host->hostname, host->kernel, stat->source, (unsigned long long)(up / 3600),
	    (unsigned long long)(up / 60 % 60), (unsigned long long)(up % 60));
	put_rings(out, stat, before, seconds);
	put_clients(out, stat, before, seconds);
}

void stat_print_text(struct out *out, const struct ringtail_host *host,
		     const Ringtail__V1__Stat *stat, const Ringtail__V1__Stat *before)
{
	put_start(out, host, stat, before);
	put_spools(out, stat);
	put_consumers(out, stat);
	put_exports(out, stat);
	put_triggers(out, stat);
	put_counters(out, stat, true);
	put_ledger(out, stat);
}

void stat_print_brief(struct out *out, const struct ringtail_host *host,
		      const Ringtail__V1__Stat *stat, const Ringtail__V1__Stat *before)
{
	put_start(out, host, stat, before);
	put_ledger(out, stat);
	put_spools(out, stat);
	put_consumers(out, stat);
	put_exports(out, stat);
	put_triggers(out, stat);
	put_counters(out, stat, false);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *lost_object(Ringtail__V1__LossCount *const *lost, size_t n)
{
	json_t *all = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(all, json_pack("{s:s, s:s, s:I, s:s}", "stage",
						     ringtail_stage_name(lost[i]->stage), "reason",
						     ringtail_reason_name(lost[i]->reason), "count",
						     (json_int_t)lost[i]->count, "remedy",
						     ringtail_reason_remedy(lost[i]->reason)));
	return all;
}

static json_t *ring_object(const Ringtail__V1__RingStat *ring)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "cpu", (json_int_t)ring->cpu, "produced", (json_int_t)ring->produced,
			 "events", (json_int_t)ring->events, "meta", (json_int_t)ring->meta,
			 "lost", lost_object(ring->lost, ring->n_lost),
			 "in_flight", (json_int_t)ring->in_flight,
			 "size_bytes", (json_int_t)ring->size_bytes,
			 "used_bytes", (json_int_t)ring->used_bytes,
			 "residual", (json_int_t)ring->residual,
			 "stuck_ns", (json_int_t)ring->stuck_ns,
			 "foreign", (json_int_t)ring->foreign,
			 "unpaired", (json_int_t)ring->unpaired,
			 "faults", (json_int_t)ring->faults,
			 "consumer_bad", (json_int_t)ring->consumer_bad);
}

static json_t *client_object(const Ringtail__V1__ClientStat *client)
{
	json_t *probes = json_array();

	for (size_t i = 0; i < client->n_probe; i++)
		json_array_append_new(probes, json_string(client->probe[i]));
	return json_pack("{s:I, s:s, s:s, s:s, s:o, s:s, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I}",
			 "id", (json_int_t)client->id, "peer", client->peer,
			 "identity", client->identity, "software", client->software, "probes", probes, "filter", client->filter,
			 "produced", (json_int_t)client->produced,
			 "delivered", (json_int_t)client->delivered,
			 "filtered", (json_int_t)client->filtered,
			 "lost", lost_object(client->lost, client->n_lost),
			 "in_flight", (json_int_t)client->in_flight,
			 "queue_bytes", (json_int_t)client->queue_bytes,
			 "wire_bytes", (json_int_t)client->wire_bytes,
			 "frames", (json_int_t)client->frames,
			 "residual", (json_int_t)client->residual);
}

static json_t *spool_object(const Ringtail__V1__SpoolStat *spool)
{
	json_t *probes = json_array();

	for (size_t i = 0; i < spool->n_probe; i++)
		json_array_append_new(probes, json_string(spool->probe[i]));
	return json_pack("{s:s, s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I}",
			 "name", spool->name, "state", spool->state, "probes", probes,
			 "filter", spool->filter,
			 "segments", (json_int_t)spool->segments,
			 "bytes", (json_int_t)spool->bytes,
			 "bytes_max", (json_int_t)spool->bytes_max,
			 "oldest_realtime_ns", (json_int_t)spool->oldest_realtime_ns,
			 "produced", (json_int_t)spool->produced,
			 "stored", (json_int_t)spool->stored,
			 "lost", lost_object(spool->lost, spool->n_lost),
			 "in_flight", (json_int_t)spool->in_flight,
			 "deleted", (json_int_t)spool->deleted,
			 "set_aside", (json_int_t)spool->set_aside,
			 "residual", (json_int_t)spool->residual);
}

static json_t *consumer_object(const Ringtail__V1__ConsumerStat *consumer)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:b, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I}", "name", consumer->name, "owner",
			 consumer->owner, "spool", consumer->spool, "connected", consumer->connected,
			 "exporter", consumer->exporter, "behind_bytes",
			 (json_int_t)consumer->behind_bytes, "acked_realtime_ns", (json_int_t)consumer->acked_realtime_ns,
			 "held_back", consumer->held_back, "stored", (json_int_t)consumer->stored,
			 "acked", (json_int_t)consumer->acked, "lost", (json_int_t)consumer->lost,
			 "in_flight", (json_int_t)consumer->in_flight, "residual", (json_int_t)consumer->residual);
}

static json_t *export_object(const Ringtail__V1__ExportStat *export)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "name", export->name, "state", export->state,
			 "last_error", export->last_error,
			 "events", (json_int_t)export->events,
			 "accepted", (json_int_t)export->accepted,
			 "filtered", (json_int_t)export->filtered,
			 "lost", lost_object(export->lost, export->n_lost),
			 "gaps", (json_int_t)export->gaps,
			 "in_flight", (json_int_t)export->in_flight,
			 "requests", (json_int_t)export->requests,
			 "retries", (json_int_t)export->retries,
			 "bytes", (json_int_t)export->bytes,
			 "residual", (json_int_t)export->residual,
			 "spool_bytes", (json_int_t)export->spool_bytes,
			 "accepted_realtime_ns", (json_int_t)export->accepted_realtime_ns,
			 "error_realtime_ns", (json_int_t)export->error_realtime_ns);
}

static json_t *trigger_object(const Ringtail__V1__TriggerStat *trigger)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I}",
			 "name", trigger->name, "rule", trigger->rule, "state", trigger->state,
			 "why", trigger->why,
			 "matches", (json_int_t)trigger->matches,
			 "fired", (json_int_t)trigger->fired,
			 "suppressed", (json_int_t)trigger->suppressed,
			 "fired_realtime_ns", (json_int_t)trigger->fired_realtime_ns,
			 "produced", (json_int_t)trigger->produced,
			 "filtered", (json_int_t)trigger->filtered,
			 "lost", lost_object(trigger->lost, trigger->n_lost),
			 "in_flight", (json_int_t)trigger->in_flight,
			 "residual", (json_int_t)trigger->residual);
}

int stat_print_json(struct out *out, const Ringtail__V1__Stat *stat)
{
	json_t *rings = json_array(), *clients = json_array(), *counters = json_object(), *all;
	json_t *exports = json_array(), *spools = json_array(), *consumers = json_array();
	json_t *triggers = json_array();
	char *text;
	int bad = 0;

	for (size_t i = 0; i < stat->n_ring; i++)
		bad |= json_array_append_new(rings, ring_object(stat->ring[i]));
	for (size_t i = 0; i < stat->n_client; i++)
		bad |= json_array_append_new(clients, client_object(stat->client[i]));
	for (size_t i = 0; i < stat->n_counter; i++)
		bad |= json_object_set_new(counters, stat->counter[i]->name,
					   json_integer((json_int_t)stat->counter[i]->value));
	all = json_pack("{s:I, s:I, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:b}",
			"monotonic_ns", (json_int_t)stat->monotonic_ns,
			"uptime_ns", (json_int_t)stat->uptime_ns, "source", stat->source,
			"rings", rings, "clients", clients, "counters", counters,
			"recursion_lost", (json_int_t)stat->recursion_lost,
			"maps_too_late", (json_int_t)stat->maps_too_late,
			"maps_left_out", (json_int_t)stat->maps_left_out,
			"stacks_cut", (json_int_t)stat->stacks_cut,
			"redact_rules", (json_int_t)stat->redact_rules,
			"balanced", stat_balanced(stat));
	for (size_t i = 0; i < stat->n_export; i++)
		bad |= json_array_append_new(exports, export_object(stat->export[i]));
	for (size_t i = 0; i < stat->n_spool; i++)
		bad |= json_array_append_new(spools, spool_object(stat->spool[i]));
	bad |= json_object_set_new(all, "exports", exports);
	for (size_t i = 0; i < stat->n_trigger; i++)
		bad |= json_array_append_new(triggers, trigger_object(stat->trigger[i]));
	bad |= json_object_set_new(all, "triggers", triggers);
	for (size_t i = 0; i < stat->n_consumer; i++)
		bad |= json_array_append_new(consumers, consumer_object(stat->consumer[i]));
	bad |= json_object_set_new(all, "consumers", consumers);
	bad |= json_object_set_new(all, "spools", spools);
	bad |= json_object_set_new(all, "durability", json_string(stat->durability));
	bad |= json_object_set_new(all, "loss_window_ns",
				   json_integer((json_int_t)stat->loss_window_ns));
	text = all && !bad ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	if (!text)
		return -EBADMSG;
	json_put(out, text);
	out_char(out, '\n');
	free(text);
	return 0;
}
