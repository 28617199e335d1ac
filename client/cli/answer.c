/* answer: see answer.h. */
#include "client/cli/answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/answer_stacks.h"
#include "client/cli/answer_table.h"
#include "client/cli/chosen.h"
#include "client/cli/event_part.h"
#include "client/cli/pairs.h"
#include "client/cli/stack_set.h"
#include "client/cli/units.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/probe_set.h"

#define BAR_CELLS	40u
#define COUNT_TEXT_BYTES 48u

/* A name of --on in both events. */
struct common {
	char from[64], to[64];
};

/* Of the past: by the hosts' wall clocks, from a multiple of its length on. */
struct interval {
	uint64_t begin_ns;
	struct answer_table table;
};

#define ROLE_KNOWN	(1u << 0)
#define ROLE_FROM	(1u << 1)
#define ROLE_TO		(1u << 2)
#define TO_PREFIX	"to."	/* before a name of --by: of the second event */

/* What the events of all hosts are counted in. */
struct answer {
	struct answer_question question;
	struct out *out;
	unsigned parts;
	char name[ANSWER_BY_MAX][64];
	enum { OF_EVENT, OF_STACK, OF_HOST } kind[ANSWER_BY_MAX];	/* who knows it */
	bool any;			/* event has come */
	bool seen[ANSWER_BY_MAX + 1];	/* some event had it; the last: `of` */
	struct answer_table table;	/* of the interval that is printed next, */
	struct answer_table later;	/* and of what has come already of those behind it */
	uint64_t begun_ns, next_ns;	/* of the interval, by the hosts' wall clocks; 0: none yet */
	struct interval *interval;	/* of the past, in the order of their times; `table` has what is in none */
	size_t intervals;
	bool more;			/* another table is printed behind this one */
	struct common common[PAIRS_ON_MAX];
	unsigned commons;
	uint64_t given_up;		/* pairs, because events were lost */
	struct chosen chosen;		/* whose pairs */
	uint64_t nameless;		/* pairs of which neither event told whose they are */
	struct stack_set *stacks;	/* NULL: nobody asks for them */
	struct out scratch;
	struct answer_key key;
	struct sink *first;		/* of the hosts */
};

/* One host's part. */
struct sink {
	struct answer *answer;
	struct sink *next;
	const struct ringtail_host *host;	/* NULL: not known */
	const char *label;		/* NULL: there is no other host */
	bool joined, away, ended;	/* away: not connected now */
	uint64_t last_ns;		/* of what came last, by the host's wall clock */
	struct pairs *pairs;		/* NULL: it is asked of single events */
	uint8_t role[RT_PROBE_MAX];	/* ROLE_*, by probe id */
};

/* ---- Keys ------------------------------------------------------------------------------------ */

/* A stack is named when all is known: until then it has a number. */
static bool put_stack(struct answer *answer, const struct ringtail_item *event)
{
	struct stack *stack = answer->stacks ? stack_set_take(answer->stacks, event, 0) : NULL;

	if (!stack || !(stack->user + stack->kernel))
		return false;
	out_u64(&answer->scratch, stack->id);
	return true;
}

static bool put_host(struct out *out, const struct sink *sink)
{
	if (!sink->label && !(sink->host && sink->host->hostname[0]))
		return false;
	out_visible(out, sink->label ? sink->label : sink->host->hostname);
	return true;
}

static bool put_part(struct sink *sink, const struct ringtail_item *event, unsigned i, const char *name, bool *number)
{
	struct answer *answer = sink->answer;

	if (answer->kind[i] == OF_EVENT)
		return event_part_put(&answer->scratch, event, name, number);
	*number = false;
	return answer->kind[i] == OF_STACK ? put_stack(answer, event) : put_host(&answer->scratch, sink);
}

/* One part behind the others, cut so that there is room for the ends of those that follow. */
static void append_part(struct answer *answer, unsigned i, const char *text, size_t bytes)
{
	struct answer_key *key = &answer->key;
	size_t room = sizeof(key->text) - 2 - key->bytes - (answer->parts - i);

	if (bytes > room)
		bytes = room;
	memcpy(key->text + key->bytes, text, bytes);
	key->bytes += bytes;
	key->text[key->bytes++] = ANSWER_PART_END;
	key->text[key->bytes] = '\0';
}

/* '-' where the event has nothing of that name. */
static void add_part(struct sink *sink, const struct ringtail_item *event, unsigned i, const char *name)
{
	struct answer *answer = sink->answer;
	struct out *scratch = &answer->scratch;
	bool number, has;

	scratch->used = 0;
	has = put_part(sink, event, i, name, &number);
	answer->seen[i] |= has;
	if (!has)
		out_char(scratch, '-');
	append_part(answer, i, scratch->buffer, scratch->used);
	answer->key.numbers |= (uint32_t)number << i;
}

static bool is_of_second(const struct answer *answer, unsigned i)
{
	return answer->question.from && !strncmp(answer->name[i], TO_PREFIX, strlen(TO_PREFIX));
}

static void begin_key(struct answer_key *key, uint32_t numbers)
{
	key->bytes = 0;
	key->numbers = numbers;
	key->text[0] = '\0';
}

static void make_key(struct sink *sink, const struct ringtail_item *event)
{
	struct answer *answer = sink->answer;

	begin_key(&answer->key, 0);
	for (unsigned i = 0; i < answer->parts; i++)
		if (!is_of_second(answer, i))
			add_part(sink, event, i, answer->name[i]);
}

/* Of a pair: what the first event had, and between it what the second has. */
static void complete_key(struct sink *sink, const struct pair *pair, const struct ringtail_item *event)
{
	struct answer *answer = sink->answer;
	const char *at = pair->key;

	begin_key(&answer->key, pair->numbers);
	for (unsigned i = 0; i < answer->parts; i++) {
		size_t bytes;

		if (is_of_second(answer, i)) {
			add_part(sink, event, i, answer->name[i] + strlen(TO_PREFIX));
			continue;
		}
		bytes = strcspn(at, (const char[]){ ANSWER_PART_END, '\0' });
		append_part(answer, i, at, bytes);
		at += bytes + 1;
	}
}

/* By the wall clock of the host. */
static uint64_t wall_ns(const struct sink *sink, uint64_t time_ns)
{
	return sink->host ? time_ns + sink->host->realtime_ns - sink->host->monotonic_ns : time_ns;
}

/* The first that does not begin before that time. */
static size_t find_interval(const struct answer *answer, uint64_t begin_ns)
{
	size_t from = 0, upto = answer->intervals;

	while (from < upto) {
		size_t middle = from + (upto - from) / 2;

		if (answer->interval[middle].begin_ns < begin_ns)
			from = middle + 1;
		else
			upto = middle;
	}
	return from;
}

/* What has no time, and what there are too many intervals for, is in the table of none. */
static struct answer_table *interval_of(struct answer *answer, uint64_t time_ns)
{
	uint64_t begin_ns = time_ns - time_ns % answer->question.interval_ns;
	size_t at = find_interval(answer, begin_ns);
	struct interval *larger;

	if (at < answer->intervals && answer->interval[at].begin_ns == begin_ns)
		return &answer->interval[at].table;
	if (!time_ns || answer->intervals == ANSWER_INTERVALS_MAX)
		return &answer->table;
	larger = reallocarray(answer->interval, answer->intervals + 1, sizeof(*larger));
	if (!larger)
		return &answer->table;
	answer->interval = larger;
	memmove(larger + at + 1, larger + at, (answer->intervals - at) * sizeof(*larger));
	larger[at] = (struct interval){ .begin_ns = begin_ns };
	answer->intervals++;
	return &larger[at].table;
}

/* Where an event, or a loss, of that time is counted. */
static struct answer_table *table_of(struct answer *answer, uint64_t time_ns)
{
	if (answer->question.past && answer->question.interval_ns)
		return interval_of(answer, time_ns);
	return answer->next_ns && time_ns >= answer->next_ns ? &answer->later : &answer->table;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Thread 0 is the idle task, of which each CPU has one: they are told apart by the CPU, which they never leave. */
static bool numbers_of(const struct answer *answer, const struct ringtail_item *event, bool second,
		       uint64_t on[PAIRS_ON_MAX])
{
	memset(on, 0, PAIRS_ON_MAX * sizeof(on[0]));
	for (unsigned i = 0; i < answer->commons; i++) {
		const struct common *common = &answer->common[i];
		bool is_thread = !strcmp(common->from, "tid") || !strcmp(common->to, "tid");

		if (!event_part_number(event, second ? common->to : common->from, &on[i]))
			return false;
		if (is_thread && !on[i])
			on[i] = UINT64_MAX - event->cpu;
	}
	return true;
}

static bool matches(const char *glob, const struct ringtail_probe *probe)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe one = RINGTAIL__V1__PROBE__INIT, *all = &one;
	struct probe_set set = { 0 };

	one.provider = (char *)probe->provider;
	one.function = (char *)probe->function;
	one.name = (char *)probe->name;
	catalog.probe = &all;
	catalog.n_probe = 1;
	return probe_set_add_glob(&set, glob, &catalog, &(struct error){ 0 }) == 0;
}

static unsigned role_of(struct sink *sink, const struct ringtail_probe *probe)
{
	const struct answer_question *question = &sink->answer->question;
	uint8_t role = ROLE_KNOWN;

	if (probe->id >= RT_PROBE_MAX)
		return 0;
	if (sink->role[probe->id])
		return sink->role[probe->id];
	role |= matches(question->from, probe) ? ROLE_FROM : 0;
	role |= matches(question->to, probe) ? ROLE_TO : 0;
	sink->role[probe->id] = role;
	return role;
}

/*
 * Whether a pair is of a thread that is asked for: the one that the first name of --on gives if that is a thread's
 * number, else the one that did the first event.
 */
static enum chosen_answer whose(const struct answer *answer, const struct ringtail_item *event, bool second)
{
	const struct common *common = &answer->common[0];
	const char *name = second ? common->to : common->from;
	uint64_t tid;

	if (chosen_all(&answer->chosen))
		return CHOSEN_YES;
	for (unsigned i = 0; i < event->probe->fields; i++)
		if (event->probe->field[i].type == RINGTAIL_THREAD && !strcmp(event->probe->field[i].name, name) &&
		    event_part_number(event, name, &tid))
			return chosen_thread(&answer->chosen, event, (uint32_t)tid);
	return second && strcmp(name, "tid") ? CHOSEN_UNKNOWN :
	       chosen_thread(&answer->chosen, event, event->thread.tid);
}

/* The end of one that may be nobody's who is asked for. */
static bool counts(struct answer *answer, const struct pair *pair, const struct ringtail_item *event)
{
	enum chosen_answer end = pair->maybe ? whose(answer, event, true) : CHOSEN_YES;

	answer->nameless += end == CHOSEN_UNKNOWN;
	return end == CHOSEN_YES;
}

/* An event may end one pair and begin the next. */
static void add_pair(struct sink *sink, const struct ringtail_item *event, struct answer_table *table)
{
	unsigned role = role_of(sink, event->probe);
	struct answer *answer = sink->answer;
	uint64_t on[PAIRS_ON_MAX];
	struct pair *pair = NULL;
	struct answer_row *row;
	enum chosen_answer begin;

	answer->any |= chosen_all(&answer->chosen);
	if (role & ROLE_TO && numbers_of(answer, event, true, on))
		pair = pairs_end(sink->pairs, on);
	if (pair && counts(answer, pair, event)) {
		table->events++;
		answer->seen[ANSWER_BY_MAX] = true;
		complete_key(sink, pair, event);
		row = answer_table_row(table, &answer->key);
		if (row) {
			row->events++;
			row->of_time = true;
			tally_add(&row->tally, event->time_ns > pair->time_ns ?
					       event->time_ns - pair->time_ns : 0);
		} else {
			table->crowded++;
		}
	}
	free(pair);
	if (!(role & ROLE_FROM) || !numbers_of(answer, event, false, on))
		return;
	begin = whose(answer, event, false);
	if (begin == CHOSEN_NO) {
		pairs_drop(sink->pairs, on);
		return;
	}
	answer->any = true;
	make_key(sink, event);
	table->crowded += !pairs_begin(sink->pairs, on, event->time_ns, answer->key.text, answer->key.bytes,
				       answer->key.numbers, begin == CHOSEN_UNKNOWN);
}

/* What ended among the lost is not known: a later end would be taken for it. */
static void give_up_pairs(struct sink *sink)
{
	if (!sink->pairs)
		return;
	sink->answer->given_up += pairs_open(sink->pairs);
	pairs_give_up(sink->pairs);
}

static uint64_t all_replaced(const struct answer *answer)
{
	uint64_t replaced = 0;

	for (const struct sink *sink = answer->first; sink; sink = sink->next)
		replaced += sink->pairs ? pairs_replaced(sink->pairs) : 0;
	return replaced;
}

static size_t all_open(const struct answer *answer)
{
	size_t open = 0;

	for (const struct sink *sink = answer->first; sink; sink = sink->next)
		open += sink->pairs ? pairs_open(sink->pairs) : 0;
	return open;
}

static int take_common(struct answer *answer, const char *on, struct ringtail_error *error)
{
	while (*on) {
		size_t bytes = strcspn(on, ","), from = strcspn(on, "=,");
		struct common *common = &answer->common[answer->commons];
		const char *to = from < bytes ? on + from + 1 : on;
		size_t to_bytes = bytes - (size_t)(to - on);

		if (answer->commons == PAIRS_ON_MAX || !from || !to_bytes || from >= sizeof(common->from) ||
		    to_bytes >= sizeof(common->to))
			return failure_set(error, EINVAL, "bad-on", "--on %.60s: at most %u of NAME or "
					   "NAME=NAME stand with commas between", on, PAIRS_ON_MAX);
		memcpy(common->from, on, from);
		memcpy(common->to, to, to_bytes);
		answer->commons++;
		on += bytes + (on[bytes] == ',');
	}
	return 0;
}

static const struct texts nobody;

static int take_pair(struct answer *answer, struct ringtail_error *error)
{
	const struct answer_question *question = &answer->question;

	if (!question->from && !question->to && !question->on)
		return 0;
	if (!question->from || !question->to || !question->on)
		return failure_set(error, EINVAL, "half-a-pair", "the time between two events needs --from, --to "
				   "and --on");
	if (probe_set_check_glob(question->from, &(struct error){ 0 }) ||
	    probe_set_check_glob(question->to, &(struct error){ 0 }))
		return failure_set(error, EINVAL, "bad-probe", "--from and --to are probes, as in "
				   "--from sched_wakeup --to sched_switch");
	return take_common(answer, question->on, error) ? -EINVAL :
	       chosen_init(&answer->chosen, question->pid ? question->pid : &nobody,
			   question->comm ? question->comm : &nobody, error);
}

/* What the daemon has counted of an event's kind, added to its row. */
static void add_counts(struct answer *answer, struct answer_row *row, const struct ringtail_item *event,
		       const struct ringtail_counts *counts)
{
	long double sum = (long double)counts->sum_high * 0x1p64L + (long double)counts->sum;
	bool of_time = false;
	uint64_t ignored;

	row->events += counts->events;
	row->errors += counts->errors;
	if (!answer->question.of)
		return;
	row->absent += counts->events - counts->values;
	if (!counts->values)
		return;
	(void)event_part_value(event, answer->question.of, &ignored, &of_time);
	answer->seen[ANSWER_BY_MAX] = true;
	row->of_time = of_time;
	tally_add_counted(&row->tally, counts->values, counts->least, counts->greatest, sum);
	for (uint32_t i = 0; i < counts->buckets; i++)
		tally_add_bucket(&row->tally, counts->bucket[i].number, counts->bucket[i].values);
}

static void add_event(struct sink *sink, const struct ringtail_item *event, struct answer_table *table)
{
	struct answer *answer = sink->answer;
	struct ringtail_counts counts = { .events = 1 };
	bool is_counted, of_time = false;
	struct answer_row *row;
	uint64_t value;

	if (answer->stacks && stack_names_learn(stack_set_names(answer->stacks), event))
		return;
	if (sink->pairs) {
		add_pair(sink, event, table);
		return;
	}
	is_counted = ringtail_counts(event, &counts);
	table->events += counts.events;
	answer->any = true;
	make_key(sink, event);
	row = answer_table_row(table, &answer->key);
	if (!row) {
		table->crowded += counts.events;
		return;
	}
	if (is_counted) {
		add_counts(answer, row, event, &counts);
		return;
	}
	row->events++;
	row->errors += event_part_error(event) != 0;
	if (!answer->question.of)
		return;
	if (event_part_value(event, answer->question.of, &value, &of_time)) {
		answer->seen[ANSWER_BY_MAX] = true;
		row->of_time = of_time;
		tally_add(&row->tally, value);
	} else {
		row->absent++;
	}
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* Part i of a key: where it begins, and its length. */
static const char *part(const char *key, unsigned i, int *bytes)
{
	while (i--)
		key = strchr(key, ANSWER_PART_END) + 1;
	*bytes = (int)(strchr(key, ANSWER_PART_END) - key);
	return key;
}

__attribute__((format(printf, 2, 3)))
static void put(struct out *out, const char *format, ...)
{
	char text[ANSWER_KEY_BYTES_MAX + 256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	out_text(out, text);
}

static const char *value_text(const struct answer_row *row, uint64_t value, char text[UNITS_TEXT_BYTES])
{
	if (row->of_time)
		return units_format_duration(value, text);
	snprintf(text, UNITS_TEXT_BYTES, "%llu", (unsigned long long)value);
	return text;
}

/* What does not fit is the largest that does. */
static uint64_t whole(long double value)
{
	return value < 0x1p64L ? (uint64_t)value : UINT64_MAX;
}

/* Sums of addresses exceed 64 bits soon: five digits of them are shown. */
static const char *sum_text(const struct answer_row *row, char text[UNITS_TEXT_BYTES])
{
	if (row->tally.sum < 0x1p64L)
		return value_text(row, whole(row->tally.sum), text);
	snprintf(text, UNITS_TEXT_BYTES, "%.5Lg", row->of_time ? row->tally.sum / 1e9L : row->tally.sum);
	return row->of_time ? strcat(text, "s") : text;
}

static uint64_t mean(const struct tally *tally)
{
	return tally->count ? whole(tally->sum / tally->count) : 0;
}

/* JSON has numbers of any size, jansson integers below 2^63: what is larger has the digits of a double. */
static json_t *number_json(long double value)
{
	return value < 0x1p63L ? json_integer((json_int_t)value) : json_real((double)value);
}

/* Whether part i of the keys is a stack, of the first or the second event. */
static bool is_stack(const struct answer *answer, unsigned i)
{
	return answer->stacks && !strcmp(answer->name[i] + (is_of_second(answer, i) ? strlen(TO_PREFIX) : 0), "stack");
}

/* Part i of a row's key, as it is shown. */
static const char *shown_part(struct answer *answer, const struct answer_row *row, unsigned i, int *bytes)
{
	const char *text = part(row->key, i, bytes);

	return is_stack(answer, i) ? answer_stacks_text(answer->stacks, text, bytes) : text;
}

static void put_key(struct answer *answer, const struct answer_row *row)
{
	for (unsigned i = 0; i < answer->parts; i++) {
		int bytes;
		const char *text = shown_part(answer, row, i, &bytes);

		if (i)
			out_literal(answer->out, "  ");
		out_bytes(answer->out, text, (size_t)bytes);
	}
	out_char(answer->out, '\n');
}

static void put_names(struct answer *answer)
{
	for (unsigned i = 0; i < answer->parts; i++)
		put(answer->out, "%s%s", i ? "  " : "", answer->name[i]);
	out_char(answer->out, '\n');
}

/* What was lost may all be this row's: "300", or "300..345". */
static const char *count_text(const struct answer *answer, uint64_t count, char text[COUNT_TEXT_BYTES])
{
	if (answer->table.lost || answer->table.gaps_unknown)
		snprintf(text, COUNT_TEXT_BYTES, answer->table.gaps_unknown ? "%llu.." : "%llu..%llu",
			 (unsigned long long)count, (unsigned long long)(count + answer->table.lost));
	else
		snprintf(text, COUNT_TEXT_BYTES, "%llu", (unsigned long long)count);
	return text;
}

static void put_count(struct answer *answer, struct answer_row **row, size_t rows)
{
	char sum[UNITS_TEXT_BYTES], min[UNITS_TEXT_BYTES], middle[UNITS_TEXT_BYTES],
		max[UNITS_TEXT_BYTES];

	put(answer->out, answer->question.of ? "%12s %10s %10s %10s %10s  " : "%12s  ", "COUNT", "SUM", "MIN",
	    "MEAN", "MAX");
	put_names(answer);
	for (size_t i = 0; i < rows; i++) {
		const struct tally *tally = &row[i]->tally;

		char events[COUNT_TEXT_BYTES];

		put(answer->out, "%12s", count_text(answer, row[i]->events, events));
		if (answer->question.of)
			put(answer->out, " %10s %10s %10s %10s", sum_text(row[i], sum),
			    value_text(row[i], tally->min, min), value_text(row[i], mean(tally), middle),
			    value_text(row[i], tally->max, max));
		out_literal(answer->out, "  ");
		put_key(answer, row[i]);
	}
}

static void put_summary(struct answer *answer, struct answer_row **row, size_t rows, long double all)
{
	char events[COUNT_TEXT_BYTES], total[UNITS_TEXT_BYTES], middle[UNITS_TEXT_BYTES], half[UNITS_TEXT_BYTES],
		most[UNITS_TEXT_BYTES], max[UNITS_TEXT_BYTES];

	put(answer->out, "%6s %9s %9s %9s %9s %9s %10s %9s  ", "%TIME", "TOTAL", "MEAN", "P50", "P99", "MAX",
	    "CALLS", "ERRORS");
	put_names(answer);
	for (size_t i = 0; i < rows; i++) {
		const struct tally *tally = &row[i]->tally;

		put(answer->out, "%6.2f %9s %9s %9s %9s %9s %10s %9llu  ",
		    all > 0 ? (double)(100 * tally->sum / all) : 0,
		    sum_text(row[i], total), value_text(row[i], mean(tally), middle),
		    value_text(row[i], tally_quantile(tally, 0.5), half),
		    value_text(row[i], tally_quantile(tally, 0.99), most),
		    value_text(row[i], tally->max, max), count_text(answer, row[i]->events, events),
		    (unsigned long long)row[i]->errors);
		put_key(answer, row[i]);
	}
}

/* From the power of two that the least value is in to that of the greatest. */
static void put_hist_row(struct answer *answer, const struct answer_row *row)
{
	const struct tally *tally = &row->tally;
	char low_text[UNITS_TEXT_BYTES], high_text[UNITS_TEXT_BYTES], count[COUNT_TEXT_BYTES];
	uint64_t most = 0, low;

	if (answer->parts)
		put_key(answer, row);
	put(answer->out, "  %s values, ", count_text(answer, tally->count, count));
	put(answer->out, "p50 %s, ", value_text(row, tally_quantile(tally, 0.5), low_text));
	put(answer->out, "p90 %s, ", value_text(row, tally_quantile(tally, 0.9), low_text));
	put(answer->out, "p99 %s, ", value_text(row, tally_quantile(tally, 0.99), low_text));
	put(answer->out, "p99.9 %s, ", value_text(row, tally_quantile(tally, 0.999), low_text));
	put(answer->out, "max %s\n", value_text(row, tally->max, low_text));
	for (int pass = 0; pass < 2 && tally->count; pass++)
		for (low = tally->min ? 1ull << (63 - __builtin_clzll(tally->min)) : 0;;
		     low = low ? low * 2 : 1) {
			uint64_t high = low ? low + (low - 1) : 0;
			uint64_t n = tally_between(tally, low, high);

			if (n > most)
				most = n;
			if (pass)
				put(answer->out, "  %9s .. %-9s %10llu |%.*s\n", value_text(row, low, low_text),
				    value_text(row, high, high_text), (unsigned long long)n,
				    (int)(most ? n * BAR_CELLS / most : 0),
				    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@");
			if (high >= tally->max)
				break;
		}
}

/* Which of the names that were asked for no event had; NULL: all were seen, or no event was. */
static const char *unknown_name(const struct answer *answer)
{
	if (!answer->any)
		return NULL;
	for (unsigned i = 0; i < answer->parts; i++)
		if (!answer->seen[i])
			return answer->name[i];
	return answer->question.of && !answer->seen[ANSWER_BY_MAX] ? answer->question.of : NULL;
}

static void put_loss(struct answer *answer)
{
	if (answer->table.crowded)
		put(answer->out, "%12llu more events in rows beyond the first %u\n",
		    (unsigned long long)answer->table.crowded, ANSWER_ROWS_MAX);
	if (answer->table.lost)
		put(answer->out, "up to %llu more events were lost: a count above may be so much higher\n",
		    (unsigned long long)answer->table.lost);
	if (answer->table.gaps_unknown)
		put(answer->out, "an unknown number of events is missing too (%llu gaps)\n",
		    (unsigned long long)answer->table.gaps_unknown);
	if (answer->more)
		return;
	if (answer->given_up)
		put(answer->out, "%llu beginnings were given up, because an end may be among what was lost\n",
		    (unsigned long long)answer->given_up);
	if (all_replaced(answer))
		put(answer->out, "%llu beginnings without an end: the same began again before an end was seen; "
		    "see --from in tracectl(1)\n", (unsigned long long)all_replaced(answer));
	if (answer->nameless)
		put(answer->out, "%llu more may be of those that are asked for: no event told whose they are\n",
		    (unsigned long long)answer->nameless);
	if (all_open(answer))
		put(answer->out, "%zu had not ended yet\n", all_open(answer));
	if (unknown_name(answer))
		put(answer->out, "no event had `%.64s`; `tracectl list` shows the fields\n",
		    unknown_name(answer));
}

/* Left as it is where there is none. */
static void put_begin(uint64_t begun_ns, char text[UNITS_TEXT_BYTES + 32])
{
	time_t seconds = (time_t)(begun_ns / 1000000000u);
	struct tm when;
	size_t used;

	if (!begun_ns || !localtime_r(&seconds, &when))
		return;
	used = strftime(text, UNITS_TEXT_BYTES + 32, "%Y-%m-%d %H:%M:%S", &when);
	if (used && begun_ns % 1000000000u)
		snprintf(text + used, UNITS_TEXT_BYTES + 32 - used, ".%03u", (unsigned)(begun_ns / 1000000u % 1000u));
}

static void put_time(struct answer *answer, uint64_t until_ns)
{
	char took[UNITS_TEXT_BYTES], begun[UNITS_TEXT_BYTES + 32] = "no known interval";

	if (answer->question.past && answer->question.interval_ns) {
		put_begin(answer->begun_ns, begun);
		put(answer->out, "--- %s, %llu events ---\n", begun, (unsigned long long)answer->table.events);
	} else if (answer->question.interval_ns) {
		put(answer->out, "--- %s, %llu events ---\n",
		    units_format_duration(until_ns - answer->begun_ns, took),
		    (unsigned long long)answer->table.events);
	}
}

static json_t *key_json(struct answer *answer, const struct answer_row *row)
{
	json_t *key = json_object();

	for (unsigned i = 0; i < answer->parts; i++) {
		int bytes;
		const char *text = shown_part(answer, row, i, &bytes);
		char *end;
		long long number;

		/* A number that jansson has no room for stays a text: two keys are never one. */
		errno = 0;
		number = strtoll(text, &end, 10);
		json_object_set_new(key, answer->name[i],
				    row->numbers >> i & 1 && end == text + bytes && !errno ?
					    json_integer(number) : json_stringn(text, (size_t)bytes));
	}
	return key;
}

static void set_tally(json_t *object, const struct tally *tally, bool with_spread)
{
	static const struct {
		const char *name;
		double part;
	} quantile[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99.9", 0.999 } };
	json_t *spread = json_array();

	json_object_set_new(object, "values", number_json(tally->count));
	json_object_set_new(object, "sum", number_json(tally->sum));
	json_object_set_new(object, "min", number_json(tally->min));
	json_object_set_new(object, "max", number_json(tally->max));
	for (size_t i = 0; i < sizeof(quantile) / sizeof(*quantile); i++)
		json_object_set_new(object, quantile[i].name,
				    number_json(tally_quantile(tally, quantile[i].part)));
	for (uint64_t low = 0; tally->count && with_spread; low = low ? low * 2 : 1) {
		uint64_t high = low ? low + (low - 1) : 0, n = tally_between(tally, low, high);

		if (n)
			json_array_append_new(spread, json_pack("[o,o,o]", number_json(low), number_json(high),
								number_json(n)));
		if (high >= tally->max)
			break;
	}
	if (with_spread)
		json_object_set_new(object, "buckets", spread);
	else
		json_decref(spread);
}

/* One object a row, and one at the end of all rows. */
static void put_json(struct answer *answer, struct answer_row **row, size_t rows, uint64_t until_ns)
{
	for (size_t i = 0; i <= rows; i++) {
		json_t *object = json_object();
		char *text;

		if (i < rows) {
			json_object_set_new(object, "key", key_json(answer, row[i]));
			json_object_set_new(object, "count", json_integer((json_int_t)row[i]->events));
			json_object_set_new(object, "count_max",
					    number_json((long double)row[i]->events + answer->table.lost));
			if (answer->question.of) {
				json_object_set_new(object, "errors",
						    json_integer((json_int_t)row[i]->errors));
				set_tally(object, &row[i]->tally,
					  answer->question.shape == ANSWER_HIST);
			}
		} else {
			json_object_set_new(object, "events", json_integer((json_int_t)answer->table.events));
			json_object_set_new(object, "lost", json_integer((json_int_t)answer->table.lost));
			json_object_set_new(object, "gaps", json_integer((json_int_t)answer->table.gaps_unknown));
			json_object_set_new(object, "beyond_rows",
					    json_integer((json_int_t)answer->table.crowded));
			if (answer->question.from) {
				json_object_set_new(object, "open",
						    json_integer((json_int_t)all_open(answer)));
				json_object_set_new(object, "given_up",
						    json_integer((json_int_t)answer->given_up));
				json_object_set_new(object, "nameless",
						    json_integer((json_int_t)answer->nameless));
				json_object_set_new(object, "replaced",
						    json_integer((json_int_t)all_replaced(answer)));
			}
			if (unknown_name(answer))
				json_object_set_new(object, "unknown", json_string(unknown_name(answer)));
			json_object_set_new(object, "rows", json_integer((json_int_t)answer->table.rows));
			if (answer->question.past && answer->question.interval_ns)
				json_object_set_new(object, "begin_realtime_ns",
						    json_integer((json_int_t)answer->begun_ns));
			json_object_set_new(object, "seconds",
					    json_real((double)(until_ns - answer->begun_ns) / 1e9));
		}
		text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
		if (text) {
			out_text(answer->out, text);
			out_char(answer->out, '\n');
		}
		free(text);
		json_decref(object);
	}
}

/* Stacks that are called the same are one row. */
static void join_stacks(struct answer *answer)
{
	uint32_t parts = 0;

	for (unsigned i = 0; i < answer->parts; i++)
		parts |= (uint32_t)is_stack(answer, i) << i;
	if (parts)
		answer_stacks_join(answer->stacks, parts, &answer->table);
}

static void print(struct answer *answer, uint64_t until_ns)
{
	struct answer_row **row;
	long double all;
	size_t rows;

	join_stacks(answer);
	row = answer_table_sort(&answer->table, &answer->question, &all);
	rows = row ? answer->table.rows : 0;
	if (answer->question.top && rows > answer->question.top)
		rows = answer->question.top;
	if (answer->question.json) {
		put_json(answer, row, rows, until_ns);
	} else {
		put_time(answer, until_ns);
		if (answer->question.shape == ANSWER_COUNT)
			put_count(answer, row, rows);
		else if (answer->question.shape == ANSWER_SUMMARY)
			put_summary(answer, row, rows, all);
		for (size_t i = 0; answer->question.shape == ANSWER_HIST && i < rows; i++)
			put_hist_row(answer, row[i]);
		if (answer->question.shape == ANSWER_HIST && !rows && !answer->question.interval_ns)
			put(answer->out, "no event had a value\n");
		put_loss(answer);
	}
	free(row);
	answer_table_clear(&answer->table);
}

/* ---- Intervals ------------------------------------------------------------------------------- */

static void end_interval(struct answer *answer)
{
	struct answer_table empty;

	print(answer, answer->next_ns);
	empty = answer->table;
	answer->table = answer->later;
	answer->later = empty;
	answer->begun_ns = answer->next_ns;
	answer->next_ns += answer->question.interval_ns;
}

/* Up to when every host has told all: who is away, and who has ended, tells nothing. */
static uint64_t told_ns(const struct answer *answer, uint64_t otherwise_ns)
{
	uint64_t least_ns = UINT64_MAX;

	for (const struct sink *sink = answer->first; sink; sink = sink->next)
		if (!sink->away && !sink->ended && sink->last_ns < least_ns)
			least_ns = sink->last_ns;
	return least_ns == UINT64_MAX ? otherwise_ns : least_ns;
}

/*
 * Intervals end by the hosts' clocks, when all have told what happened before the end: that is in the table before
 * it. A host that lags by more than an interval does not hold the others up: it is counted where they are.
 */
static void end_intervals(struct answer *answer, uint64_t time_ns)
{
	const uint64_t interval_ns = answer->question.interval_ns;

	if (!answer->begun_ns)
		answer->begun_ns = time_ns;
	if (!interval_ns || answer->question.past)
		return;
	if (!answer->next_ns)
		answer->next_ns = answer->begun_ns + interval_ns;
	/* Nobody is farther than this host is now: of many hosts the others need not be looked at. */
	if (time_ns < answer->next_ns)
		return;
	while (told_ns(answer, time_ns) >= answer->next_ns || time_ns >= answer->next_ns + interval_ns)
		end_interval(answer);
}

static void lose(struct sink *sink, uint64_t count, bool is_known)
{
	struct answer_table *table = table_of(sink->answer, sink->last_ns);

	table->lost += count;
	table->gaps_unknown += !is_known;
	give_up_pairs(sink);
}

static void take_item(struct sink *sink, const struct ringtail_item *item)
{
	uint64_t time_ns = item->time_ns ? wall_ns(sink, item->time_ns) : 0;

	if (time_ns > sink->last_ns) {
		sink->last_ns = time_ns;
		end_intervals(sink->answer, time_ns);
	}
	switch (item->kind) {
	case RINGTAIL_EVENT:
		add_event(sink, item, table_of(sink->answer, time_ns));
		break;
	case RINGTAIL_LOSS:
		lose(sink, item->count, true);
		break;
	case RINGTAIL_GAP:
		lose(sink, item->events ? item->events : item->count, item->events || item->count);
		break;
	case RINGTAIL_DISCONNECTED:
	case RINGTAIL_RECONNECTED:
		sink->away = item->kind == RINGTAIL_DISCONNECTED;
		break;
	default:
		break;
	}
}

/* ---- The sink -------------------------------------------------------------------------------- */

static void destroy_answer(struct answer *answer)
{
	answer_table_destroy(&answer->table);
	answer_table_destroy(&answer->later);
	for (size_t i = 0; i < answer->intervals; i++)
		answer_table_destroy(&answer->interval[i].table);
	free(answer->interval);
	stack_set_destroy(answer->stacks);
	free(answer);
}

static void destroy(struct sink *sink)
{
	struct sink **at;

	if (!sink)
		return;
	for (at = &sink->answer->first; *at != sink; at = &(*at)->next)
		;
	*at = sink->next;
	if (!sink->answer->first)
		destroy_answer(sink->answer);
	pairs_destroy(sink->pairs);
	free(sink);
}

static int take_names(struct answer *answer, const char *by, struct ringtail_error *error)
{
	for (const char *at = by; *at;) {
		size_t bytes = strcspn(at, ",");

		if (answer->parts == ANSWER_BY_MAX)
			return failure_set(error, EINVAL, "bad-by", "--by takes at most %u names",
					   ANSWER_BY_MAX);
		if (!bytes || bytes >= sizeof(answer->name[0]))
			return failure_set(error, EINVAL, "bad-by", "--by %.60s: names stand with "
					   "commas between", by);
		memcpy(answer->name[answer->parts++], at, bytes);
		at += bytes;
		if (*at == ',' && !*++at)
			return failure_set(error, EINVAL, "bad-by", "--by %.60s: a name is missing at "
					   "its end", by);
	}
	return 0;
}

static void take_kinds(struct answer *answer)
{
	for (unsigned i = 0; i < answer->parts; i++) {
		const char *name = answer->name[i] + (is_of_second(answer, i) ? strlen(TO_PREFIX) : 0);

		answer->kind[i] = !strcmp(name, "stack") ? OF_STACK : !strcmp(name, "host") ? OF_HOST : OF_EVENT;
	}
}

static struct sink *add_sink(struct answer *answer)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return NULL;
	sink->answer = answer;
	sink->pairs = answer->question.from ? pairs_create() : NULL;
	if (answer->question.from && !sink->pairs) {
		free(sink);
		return NULL;
	}
	sink->next = answer->first;
	answer->first = sink;
	return sink;
}

struct sink *answer_create(const struct answer_question *question, struct out *out,
			   struct ringtail_error *error)
{
	struct answer *answer = calloc(1, sizeof(*answer));
	struct sink *sink;

	if (!answer) {
		failure_set(error, ENOMEM, "no-memory", "out of memory");
		return NULL;
	}
	answer->question = *question;
	answer->out = out;
	out_init(&answer->scratch, -1);
	if (take_names(answer, question->by ? question->by : "", error) || take_pair(answer, error)) {
		destroy_answer(answer);
		return NULL;
	}
	take_kinds(answer);
	sink = add_sink(answer);
	if (!sink) {
		failure_set(error, ENOMEM, "no-memory", "out of memory");
		destroy_answer(answer);
	}
	return sink;
}

void answer_set_sort(struct sink *sink, enum answer_sort sort)
{
	sink->answer->question.sort = sort;
}

/* Each interval, and what is in none. */
static void print_past(struct answer *answer)
{
	struct answer_table none = answer->table;
	bool rest = none.events || none.lost || none.gaps_unknown || !answer->intervals;

	for (size_t i = 0; i < answer->intervals; i++) {
		struct interval *interval = &answer->interval[i];

		answer->begun_ns = interval->begin_ns;
		answer->table = interval->table;
		answer->more = rest || i + 1 < answer->intervals;
		print(answer, interval->begin_ns + answer->question.interval_ns);
		interval->table = answer->table;
	}
	answer->table = none;
	answer->begun_ns = 0;
	answer->more = false;
	if (rest)
		print(answer, 0);
}

/* The table is whole when the last host's events have come. */
static void end(struct sink *sink)
{
	struct answer *answer = sink->answer;
	uint64_t last_ns = 0;

	sink->ended = true;
	for (const struct sink *other = answer->first; other; other = other->next) {
		if (!other->ended)
			return;
		if (other->last_ns > last_ns)
			last_ns = other->last_ns;
	}
	if (answer->question.past && answer->question.interval_ns) {
		print_past(answer);
		return;
	}
	if (answer->next_ns && last_ns >= answer->next_ns)
		end_interval(answer);
	print(answer, last_ns);
}

static struct sink *join(struct sink *first, const struct sink_place *place)
{
	struct answer *answer = first->answer;
	struct sink *sink = first->joined ? add_sink(answer) : first;

	if (!sink)
		return NULL;
	sink->joined = true;
	sink->host = place->host;
	if (answer->question.from_hello && !answer->begun_ns)
		answer->begun_ns = place->host->realtime_ns;
	sink->label = place->label;
	for (unsigned i = 0; i < answer->parts && !answer->stacks; i++)
		if (!strcmp(answer->name[i], "stack"))
			answer->stacks = stack_set_create(place->host);
	return sink;
}

unsigned answer_flags(const char *by)
{
	static const struct {
		const char *name;
		unsigned flags;
	} wants[] = {
		{ "stack", RINGTAIL_KSTACK | RINGTAIL_USTACK }, { "exe", RINGTAIL_CONTEXT },
		{ "cgroup", RINGTAIL_CONTEXT }, { "container", RINGTAIL_CONTEXT },
		{ "unit", RINGTAIL_CONTEXT }, { "path", RINGTAIL_STRINGS }, { "addr", RINGTAIL_STRINGS },
		{ "port", RINGTAIL_STRINGS }, { "arg.name", RINGTAIL_STRINGS },
		{ "filename", RINGTAIL_STRINGS }, { "pathname", RINGTAIL_STRINGS },
		{ "oldname", RINGTAIL_STRINGS }, { "newname", RINGTAIL_STRINGS },
	};
	unsigned flags = 0;

	while (by && *by) {
		size_t bytes = strcspn(by, ",");
		const char *name = strncmp(by, TO_PREFIX, strlen(TO_PREFIX)) ? by : by + strlen(TO_PREFIX);

		for (size_t i = 0; i < sizeof(wants) / sizeof(*wants); i++)
			if (bytes - (size_t)(name - by) == strlen(wants[i].name) &&
			    !strncmp(name, wants[i].name, strlen(wants[i].name)))
				flags |= wants[i].flags;
		by += bytes + (by[bytes] == ',');
	}
	return flags;
}

const struct sink_ops answer_ops = { .join = join, .item = take_item, .end = end, .destroy = destroy };
