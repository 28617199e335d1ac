#include "client/cli/print_fleet.h"

#include <protobuf-c/protobuf-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/units.h"
#include "client/lib/limits.h"

#define NS_PER_S 1000000000ull
#define LISTED_NAME_COLUMNS 18
#define LEDGER_NAME_COLUMNS 14
#define AGE_BYTES 24
#define UNTOLD_ROWS 3u	/* hosts that are named because they have not told of their spools */

/* ---- Words ------------------------------------------------------------------------------------- */

/* "12s", "59m", "47h", "365d": how long ago that was, by the relay's clock; "never". Returns text. */
static const char *age(uint64_t realtime_ns, uint64_t now_ns, char text[AGE_BYTES])
{
	uint64_t s = now_ns > realtime_ns ? (now_ns - realtime_ns) / NS_PER_S : 0;

	if (!realtime_ns)
		return "never";
	if (s < 100)
		snprintf(text, AGE_BYTES, "%us", (unsigned)s);
	else if (s < 100 * 60)
		snprintf(text, AGE_BYTES, "%um", (unsigned)(s / 60));
	else if (s < 100 * 3600)
		snprintf(text, AGE_BYTES, "%uh", (unsigned)(s / 3600));
	else
		snprintf(text, AGE_BYTES, "%llud", (unsigned long long)(s / 86400));
	return text;
}

/* "up 12m", "away 3d"; "unseen": not since the relay started. */
static const char *state(const Ringtail__V1__HostStat *host, uint64_t now_ns, char text[2 * AGE_BYTES])
{
	char since[AGE_BYTES];

	if (!host->since_realtime_ns)
		return "unseen";
	snprintf(text, 2 * AGE_BYTES, "%s %s", host->connected ? "up" : "away",
		 age(host->since_realtime_ns, now_ns, since));
	return text;
}

/* "12.3k", with "+?" where more is missing, nobody knows how much. */
static const char *lost(const Ringtail__V1__HostStat *host, char text[UNITS_TEXT_BYTES])
{
	char number[UNITS_TEXT_BYTES];

	snprintf(text, UNITS_TEXT_BYTES, "%.20s%s", units_format_rate((double)fleet_lost(host), number),
		 host->gaps ? "+?" : "");
	return text;
}

/* What of the software's name is not the same on all hosts. */
static const char *version(const char *software)
{
	const char *blank = strchr(software, ' ');

	return blank ? blank + 1 : software;
}

/* The beginning of its boot id. */
static const char *boot(const Ringtail__V1__HostStat *host, char text[9])
{
	if (host->boot_id.len < 4)
		return "-";
	snprintf(text, 9, "%02x%02x%02x%02x", host->boot_id.data[0], host->boot_id.data[1], host->boot_id.data[2],
		 host->boot_id.data[3]);
	return text;
}

static bool carries(const struct fleet *fleet)
{
	return strcmp(fleet->sum->ack, "kafka") == 0;
}

/* ---- Lines ------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void put(struct out *out, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	out_visible(out, line);
}

static void end_line(struct out *out)
{
	out_char(out, '\n');
}

/* Padded; one that is longer has the line to itself. */
static void put_name(struct out *out, const char *name, int columns)
{
	put(out, "%-*s", columns, name);
	if (strlen(name) > (size_t)columns) {
		end_line(out);
		put(out, "%-*s", columns, "");
	}
}

static void put_listed(struct out *out, const struct fleet *fleet, const Ringtail__V1__HostStat *host)
{
	char since[2 * AGE_BYTES], heard[AGE_BYTES], id[9], waiting[UNITS_TEXT_BYTES], kept[UNITS_TEXT_BYTES];
	char missing[UNITS_TEXT_BYTES];
	uint64_t now_ns = fleet->sum->realtime_ns;

	put_name(out, host->name, LISTED_NAME_COLUMNS);
	put(out, " %-8s %5s %-9.9s %-8s %8s %8s %7s", state(host, now_ns, since),
	    age(host->heard_realtime_ns, now_ns, heard), *host->software ? version(host->software) : "-",
	    boot(host, id), units_format_bytes((double)host->held_bytes, waiting),
	    units_format_bytes((double)(carries(fleet) ? host->forwarded_bytes : host->kept_bytes), kept),
	    lost(host, missing));
	end_line(out);
}

static void put_no_hosts(struct out *out)
{
	out_literal(out, "no hosts: none has connected; on a host, the option `relay` names this relay\n");
}

static void put_gaps(struct out *out, const struct fleet *fleet)
{
	if (fleet->sum->all->gaps)
		out_literal(out, "+?: more is missing, and nobody knows how much\n");
}

void print_fleet_hosts(struct out *out, const struct fleet *fleet)
{
	if (!fleet->hosts) {
		put_no_hosts(out);
		return;
	}
	put_name(out, "host", LISTED_NAME_COLUMNS);
	put(out, " %-8s %5s %-9s %-8s %8s %8s %7s", "state", "last", "version", "boot", "waiting",
	    carries(fleet) ? "carried" : "kept", "lost");
	end_line(out);
	for (size_t i = 0; i < fleet->hosts; i++)
		put_listed(out, fleet, fleet->host[i]);
	put_gaps(out, fleet);
}

/* ---- The ledgers ------------------------------------------------------------------------------- */

static const char *count(uint64_t n, char text[UNITS_TEXT_BYTES])
{
	return units_format_rate((double)n, text);
}

static void put_row(struct out *out, const struct fleet *fleet, const Ringtail__V1__HostStat *host)
{
	char received[UNITS_TEXT_BYTES], forwarded[UNITS_TEXT_BYTES], duplicate[UNITS_TEXT_BYTES];
	char refused[UNITS_TEXT_BYTES], held[UNITS_TEXT_BYTES], residual[UNITS_TEXT_BYTES];
	char missing[UNITS_TEXT_BYTES], heard[AGE_BYTES];

	put_name(out, host->name, LEDGER_NAME_COLUMNS);
	put(out, " %8s %9s %9s %7s %5s %8s %7s %5s", count(host->received, received),
	    count(host->forwarded, forwarded), count(host->duplicate, duplicate), count(host->refused, refused),
	    count(host->held, held), count(fleet_residual(host), residual), lost(host, missing),
	    age(host->heard_realtime_ns, fleet->sum->realtime_ns, heard));
	end_line(out);
}

static void put_worst(struct out *out, const struct fleet *fleet)
{
	size_t rows = fleet->hosts < FLEET_ROWS ? fleet->hosts : FLEET_ROWS;

	end_line(out);
	if (!fleet->hosts) {
		put_no_hosts(out);
		return;
	}
	put_name(out, "worst first", LEDGER_NAME_COLUMNS);
	put(out, " %8s %9s %9s %7s %5s %8s %7s %5s", "received", "forwarded", "duplicate", "refused", "held",
	    "residual", "lost", "last");
	end_line(out);
	for (size_t i = 0; i < rows; i++)
		put_row(out, fleet, fleet->host[i]);
	if (fleet->hosts > rows) {
		put(out, "and %zu more hosts: -o json has all, `tracectl list hosts` a line for each",
		    fleet->hosts - rows);
		end_line(out);
	}
	put_gaps(out, fleet);
}

/* Older daemons, whose sums are not in these; a host that has just come tells with its next frame. */
static void put_untold(struct out *out, const struct fleet *fleet)
{
	size_t untold = 0;

	for (size_t i = 0; i < fleet->hosts; i++) {
		if (!fleet->host[i]->connected || fleet->host[i]->told_realtime_ns || untold++ >= UNTOLD_ROWS)
			continue;
		put(out, "    not told: %s", fleet->host[i]->name);
		end_line(out);
	}
	if (untold > UNTOLD_ROWS) {
		put(out, "    not told: %zu more hosts", untold - UNTOLD_ROWS);
		end_line(out);
	}
}

/* What they said of their spools. */
static void put_agents(struct out *out, const struct fleet *fleet)
{
	const Ringtail__V1__HostStat *all = fleet->sum->all;
	char behind[UNITS_TEXT_BYTES];

	put(out, "  agents: %llu produced = %llu stored + %llu lost", (unsigned long long)all->spool_produced,
	    (unsigned long long)all->spool_stored, (unsigned long long)all->spool_lost);
	end_line(out);
	put(out, "          + %llu in flight; residual %lld; %s not acknowledged",
	    (unsigned long long)all->spool_in_flight, (long long)all->spool_residual,
	    units_format_bytes((double)all->behind_bytes, behind));
	end_line(out);
	put(out, "    relayed: %llu stored = %llu acknowledged + %llu lost", (unsigned long long)all->relay_stored,
	    (unsigned long long)all->relay_acked, (unsigned long long)all->relay_lost);
	end_line(out);
	put(out, "          + %llu in flight; residual %lld", (unsigned long long)all->relay_in_flight,
	    (long long)all->relay_residual);
	end_line(out);
	put(out, "          told by %u of %u hosts, in attempts", fleet->sum->told, fleet->sum->hosts);
	end_line(out);
	put_untold(out, fleet);
}

static void put_courier(struct out *out, const struct fleet *fleet)
{
	const Ringtail__V1__HostStat *all = fleet->sum->all;

	put(out, "  courier: %llu consigned = %llu confirmed + %llu rejected", (unsigned long long)all->consigned,
	    (unsigned long long)all->confirmed, (unsigned long long)all->rejected);
	end_line(out);
	put(out, "           + %llu returned + %llu in flight; residual %lld", (unsigned long long)all->returned,
	    (unsigned long long)all->in_flight, (long long)all->consigned_residual);
	end_line(out);
	if (!fleet->sum->courier)
		out_literal(out, "  no courier is connected: start ringtail-courier --relay\n");
}

static void put_disk(struct out *out, const struct fleet *fleet)
{
	char bytes[UNITS_TEXT_BYTES];

	put(out, "  disk: %s in %llu segments", units_format_bytes((double)fleet->sum->all->kept_bytes, bytes),
	    (unsigned long long)fleet->sum->all->kept_segments);
	end_line(out);
}

/* What was lost before the relay, by where and why. */
static void put_losses(struct out *out, const Ringtail__V1__HostStat *all)
{
	for (size_t i = 0; i < all->n_lost; i++) {
		put(out, "  lost: %llu attempts (%s, %s)", (unsigned long long)all->lost[i]->count,
		    ringtail_stage_name(all->lost[i]->stage), ringtail_reason_name(all->lost[i]->reason));
		end_line(out);
		put(out, "    -> %s", ringtail_reason_remedy(all->lost[i]->reason));
		end_line(out);
	}
	if (all->gaps) {
		put(out, "  lost: an unknown number, in %llu gap%s", (unsigned long long)all->gaps,
		    all->gaps > 1 ? "s" : "");
		end_line(out);
	}
}

void print_fleet_ledger(struct out *out, const struct ringtail_host *relay, const struct fleet *fleet)
{
	const Ringtail__V1__Hosts *sum = fleet->sum;
	const Ringtail__V1__HostStat *all = sum->all;

	put(out, "%s on %s: %u hosts, %u connected", relay->software, relay->hostname, sum->hosts, sum->connected);
	end_line(out);
	put(out, "it acknowledges what %s has; frames are counted since it started",
	    carries(fleet) ? "Kafka" : "its disk");
	end_line(out);
	out_literal(out, "\nledger\n");
	put_agents(out, fleet);
	put(out, "  relay: %llu received = %llu forwarded + %llu duplicate", (unsigned long long)all->received,
	    (unsigned long long)all->forwarded, (unsigned long long)all->duplicate);
	end_line(out);
	put(out, "         + %llu refused + %llu held; residual %lld", (unsigned long long)all->refused,
	    (unsigned long long)all->held, (long long)all->residual);
	end_line(out);
	if (carries(fleet))
		put_courier(out, fleet);
	else
		put_disk(out, fleet);
	out_literal(out, "  consumers, streams: who reads prints them: `tracectl read`\n");
	put_losses(out, all);
	if (sum->forgotten) {
		put(out, "  forgotten: %llu hosts, for others; they are in these sums alone",
		    (unsigned long long)sum->forgotten);
		end_line(out);
	}
	put_worst(out, fleet);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* The first of an object has no comma before it. */
static void put_key(struct out *out, const char *name, bool first)
{
	if (!first)
		out_char(out, ',');
	json_quote_text(out, name);
	out_char(out, ':');
}

static void put_text(struct out *out, const char *name, const char *text, bool first)
{
	put_key(out, name, first);
	json_quote_text(out, text);
}

static void put_bool(struct out *out, const char *name, bool value)
{
	put_key(out, name, false);
	out_text(out, value ? "true" : "false");
}

/* All its numbers, by their names in the message. */
static void put_numbers(struct out *out, const Ringtail__V1__HostStat *host)
{
	const ProtobufCMessageDescriptor *descriptor = host->base.descriptor;

	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		const void *at = (const char *)host + field->offset;

		if (field->type == PROTOBUF_C_TYPE_UINT64 && strcmp(field->name, "epoch")) {
			put_key(out, field->name, false);
			out_u64(out, *(const uint64_t *)at);
		} else if (field->type == PROTOBUF_C_TYPE_SINT64) {
			put_key(out, field->name, false);
			out_i64(out, *(const int64_t *)at);
		}
	}
}

static void put_lost(struct out *out, const Ringtail__V1__HostStat *host)
{
	put_key(out, "lost", false);
	out_char(out, '[');
	for (size_t i = 0; i < host->n_lost; i++) {
		out_text(out, i ? ",{" : "{");
		put_text(out, "stage", ringtail_stage_name(host->lost[i]->stage), true);
		put_text(out, "reason", ringtail_reason_name(host->lost[i]->reason), false);
		put_key(out, "count", false);
		out_u64(out, host->lost[i]->count);
		out_char(out, '}');
	}
	out_char(out, ']');
}

/* "BOOTID/EPOCH", as headers of records in Kafka have it; null: nothing came. */
static void put_run(struct out *out, const Ringtail__V1__HostStat *host)
{
	char hex[3];

	put_key(out, "run", false);
	if (!host->boot_id.len) {
		out_literal(out, "null");
		return;
	}
	out_char(out, '"');
	for (size_t i = 0; i < host->boot_id.len; i++) {
		snprintf(hex, sizeof(hex), "%02x", host->boot_id.data[i]);
		out_text(out, hex);
	}
	out_char(out, '/');
	out_u64(out, host->epoch);
	out_char(out, '"');
}

static void put_object(struct out *out, const Ringtail__V1__HostStat *host)
{
	out_char(out, '{');
	put_text(out, "host", host->name, true);
	put_bool(out, "connected", host->connected);
	put_text(out, "software", host->software, false);
	put_text(out, "peer", host->peer, false);
	put_run(out, host);
	put_numbers(out, host);
	put_lost(out, host);
	out_char(out, '}');
}

void print_fleet_hosts_json(struct out *out, const struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->hosts; i++) {
		put_object(out, fleet->host[i]);
		end_line(out);
	}
}

void print_fleet_ledger_json(struct out *out, const struct fleet *fleet)
{
	const Ringtail__V1__Hosts *sum = fleet->sum;

	out_char(out, '{');
	put_text(out, "ack", sum->ack, true);
	put_bool(out, "courier", sum->courier);
	put_bool(out, "balanced", fleet_balanced(fleet));
	put_key(out, "realtime_ns", false);
	out_u64(out, sum->realtime_ns);
	put_key(out, "known", false);
	out_u64(out, sum->hosts);
	put_key(out, "connected", false);
	out_u64(out, sum->connected);
	put_key(out, "told", false);
	out_u64(out, sum->told);
	put_key(out, "forgotten", false);
	out_u64(out, sum->forgotten);
	put_key(out, "all", false);
	out_char(out, '{');
	put_text(out, "host", "", true);
	put_numbers(out, sum->all);
	put_lost(out, sum->all);
	out_char(out, '}');
	put_key(out, "hosts", false);
	out_char(out, '[');
	for (size_t i = 0; i < fleet->hosts; i++) {
		if (i)
			out_char(out, ',');
		put_object(out, fleet->host[i]);
	}
	out_literal(out, "]}\n");
}
