/* answer: see answer.h. */
#include "client/cli/answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/pairs.h"
#include "client/cli/stack_set.h"
#include "client/cli/text_value.h"
#include "client/cli/units.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/container.h"
#include "query/probe_set.h"
#include "query/tally.h"
#include "query/visible.h"

#define KEY_BYTES_MAX	512u	/* of all its parts; what is longer is cut */
#define PART_END	'\x1f'	/* in no part: hidden characters are shown as '?' */
#define BAR_CELLS	40u
#define SLOTS_MIN	1024u
#define FRAME_TEXT_BYTES 160u
#define COUNT_TEXT_BYTES 48u
#define STACK_TEXT_BYTES 8192u

struct row {
	char *key;		/* the parts, each with PART_END behind it */
	uint32_t hash;
	uint32_t numbers;	/* bit by part: it is a number */
	bool of_time;		/* its values are durations */
	uint64_t events, errors, absent;	/* absent: events without the value, or with one below 0 */
	struct tally tally;
};

/* A name of --on in both events. */
struct common {
	char from[64], to[64];
};

#define ROLE_KNOWN	(1u << 0)
#define ROLE_FROM	(1u << 1)
#define ROLE_TO		(1u << 2)
#define TO_PREFIX	"to."	/* before a name of --by: of the second event */

struct sink {
	struct answer_question question;
	struct out *out;
	unsigned parts;
	char name[ANSWER_BY_MAX][64];
	bool any;			/* event has come */
	bool seen[ANSWER_BY_MAX + 1];	/* some event had it; the last: `of` */
	struct row **slot;
	size_t slots, rows;
	uint64_t lost, gaps_unknown, events, crowded;
	uint64_t begun_ns, next_ns;	/* of the interval, CLOCK_MONOTONIC of the host; 0: none yet */
	uint64_t last_ns;		/* of what came last */
	struct out scratch;
	struct pairs *pairs;		/* NULL: it is asked of single events */
	struct common common[PAIRS_ON_MAX];
	unsigned commons;
	uint8_t role[RT_PROBE_MAX];	/* ROLE_*, by probe id */
	uint64_t given_up;		/* pairs, because events were lost */
	struct stack_set *stacks;	/* NULL: nobody asks for them */
	char key[KEY_BYTES_MAX];
	size_t key_bytes;
	uint32_t numbers;
};

/* ---- What an event has ----------------------------------------------------------------------- */

static int field_of(const struct ringtail_probe *probe, const char *name)
{
	for (unsigned i = 0; i < probe->fields; i++)
		if (!strcmp(probe->field[i].name, name) ||
		    (probe->field[i].type == RINGTAIL_DURATION && !strcmp(name, "duration")) ||
		    (probe->field[i].type == RINGTAIL_RESULT && !strcmp(name, "ret")))
			return (int)i;
	return -1;
}

static bool never_returns(const struct ringtail_item *event)
{
	return event->probe->kind == RINGTAIL_CALL && event->value[0] == RINGTAIL_NEVER;
}

/* The errno of a call's result; 0: it has none. */
static int error_of(const struct ringtail_item *event)
{
	int i = field_of(event->probe, "ret");

	return i >= 0 && !never_returns(event) && errno_failed(event->value[i]) ?
		       (int)-(int64_t)event->value[i] : 0;
}

static bool put_error(struct out *out, const struct ringtail_item *event)
{
	int number = error_of(event);

	if (!number)
		out_literal(out, "none");
	else if (errno_name(number))
		out_text(out, errno_name(number));
	else
		out_u64(out, (uint64_t)number);
	return true;
}

/* The text of a field: what is attached to it, without quotes, or its value. */
static bool put_field(struct out *out, const struct ringtail_item *event, const char *name,
		      bool *number)
{
	int i = field_of(event->probe, name);

	if (i < 0 || (i < 2 && never_returns(event)))
		return false;
	for (size_t k = 0; k < event->attachments; k++)
		if (event->attachment[k].kind == RINGTAIL_ATTACHED_STRING &&
		    event->attachment[k].field == (unsigned)i) {
			char text[KEY_BYTES_MAX];

			snprintf(text, sizeof(text), "%.*s", (int)event->attachment[k].text_bytes,
				 (const char *)event->attachment[k].text);
			out_visible(out, text);
			return true;
		}
	*number = event->probe->field[i].type == RINGTAIL_UNSIGNED ||
		  event->probe->field[i].type == RINGTAIL_SIGNED ||
		  event->probe->field[i].type == RINGTAIL_FD;
	text_value(out, event, (unsigned)i);
	return true;
}

static bool put_bytes(struct out *out, const char *text, size_t bytes)
{
	char copy[KEY_BYTES_MAX];

	if (!text || !bytes)
		return false;
	snprintf(copy, sizeof(copy), "%.*s", (int)bytes, text);
	out_visible(out, copy);
	return true;
}

/* The first text of a path that is attached; or, `socket`, of an address. */
static bool put_attached(struct out *out, const struct ringtail_item *event, bool socket)
{
	for (size_t k = 0; k < event->attachments; k++) {
		const struct ringtail_attachment *at = &event->attachment[k];

		if (at->kind == RINGTAIL_ATTACHED_STRING && at->field < event->probe->fields &&
		    !strcmp(event->probe->field[at->field].c_type, "struct sockaddr *") == socket)
			return put_bytes(out, (const char *)at->text, at->text_bytes);
	}
	return false;
}

/* What is known with the thread's context, and what is attached under a name for all probes. */
static bool put_context(struct out *out, const struct ringtail_item *event, const char *name, bool *is_name)
{
	const struct ringtail_thread *thread = &event->thread;
	struct container container = { .id = NULL };

	*is_name = true;
	if (!strcmp(name, "path"))
		return put_attached(out, event, false);
	if (!strcmp(name, "addr") && field_of(event->probe, name) < 0)
		return put_attached(out, event, true);
	if (!strcmp(name, "exe"))
		return put_bytes(out, thread->exe, thread->exe_bytes);
	if (!strcmp(name, "cgroup"))
		return put_bytes(out, thread->cgroup, thread->cgroup_bytes);
	*is_name = !strcmp(name, "container") || !strcmp(name, "unit");
	if (!*is_name || !thread->cgroup)
		return false;
	container_parse(thread->cgroup, thread->cgroup_bytes, &container);
	if (!strcmp(name, "unit"))
		return put_bytes(out, container.unit, container.unit ? container.unit_bytes : 0);
	return put_bytes(out, container.id, container.id ? CONTAINER_SHORT_BYTES : 0);
}

/* A stack is named when all is known: until then it has a number. */
static bool put_stack(struct sink *sink, const struct ringtail_item *event)
{
	struct stack *stack = sink->stacks ? stack_set_take(sink->stacks, event, 0) : NULL;

	if (!stack || !(stack->user + stack->kernel))
		return false;
	out_u64(&sink->scratch, stack->id);
	return true;
}

/* False if the event has nothing of that name. */
static bool put_part(struct out *out, const struct ringtail_item *event, const char *name, bool *number)
{
	static const struct {
		const char *name;
		size_t offset;
	} ids[] = {
		{ "pid", offsetof(struct ringtail_thread, pid) },
		{ "tid", offsetof(struct ringtail_thread, tid) },
		{ "ppid", offsetof(struct ringtail_thread, ppid) },
		{ "uid", offsetof(struct ringtail_thread, uid) },
	};
	const struct {
		const char *name, *text;
	} texts[] = {
		{ "probe", event->probe->spec },
		{ "provider", event->probe->provider },
		{ "function", event->probe->function },
		{ "name", event->probe->name },
	};

	size_t used = out->used;
	bool is_name;

	*number = true;
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		if (!strcmp(name, ids[i].name)) {
			out_u64(out, *(const uint32_t *)((const char *)&event->thread + ids[i].offset));
			return true;
		}
	if (!strcmp(name, "cpu")) {
		out_u64(out, event->cpu);
		return true;
	}
	*number = false;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!strcmp(name, texts[i].name)) {
			out_visible(out, texts[i].text);
			return true;
		}
	if (!strcmp(name, "comm")) {
		out_comm(out, event->thread.comm);
		return true;
	}
	if (!strcmp(name, "error"))
		return put_error(out, event);
	if (put_context(out, event, name, &is_name) || is_name)
		return out->used > used;
	return put_field(out, event, name, number);
}

/* The value that is asked for; false if the event has none, or one below 0. */
static bool value_of(const struct sink *sink, const struct ringtail_item *event, uint64_t *value,
		     bool *of_time)
{
	int i = field_of(event->probe, sink->question.of);
	const struct ringtail_field *field;

	if (i < 0 || (i < 2 && never_returns(event)))
		return false;
	field = &event->probe->field[i];
	*of_time = field->type == RINGTAIL_DURATION;
	*value = ringtail_value(field, event->value[i]);
	return !((field->type == RINGTAIL_SIGNED || field->type == RINGTAIL_RESULT) &&
		 (int64_t)*value < 0);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static uint32_t hash_of(const char *key, size_t bytes)
{
	uint32_t hash = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)key[i]) * 16777619u;
	return hash;
}

/* One part behind the others; '-' where the event has nothing of that name. */
static void add_part(struct sink *sink, const struct ringtail_item *event, unsigned i, const char *name)
{
	struct out *scratch = &sink->scratch;
	size_t room = KEY_BYTES_MAX - 2 - sink->key_bytes - (sink->parts - i);
	bool number = false, has;

	scratch->used = 0;
	has = strcmp(name, "stack") ? put_part(scratch, event, name, &number) : put_stack(sink, event);
	sink->seen[i] |= has;
	if (!has)
		out_char(scratch, '-');
	if (scratch->used < room)
		room = scratch->used;
	memcpy(sink->key + sink->key_bytes, scratch->buffer, room);
	sink->key_bytes += room;
	sink->key[sink->key_bytes++] = PART_END;
	sink->key[sink->key_bytes] = '\0';
	sink->numbers |= (uint32_t)number << i;
}

static bool is_of_second(const struct sink *sink, unsigned i)
{
	return sink->pairs && !strncmp(sink->name[i], TO_PREFIX, strlen(TO_PREFIX));
}

static void make_key(struct sink *sink, const struct ringtail_item *event)
{
	sink->key_bytes = 0;
	sink->numbers = 0;
	sink->key[0] = '\0';
	for (unsigned i = 0; i < sink->parts; i++)
		if (!is_of_second(sink, i))
			add_part(sink, event, i, sink->name[i]);
}

/* Of a pair: what the first event had, and between it what the second has. */
static void complete_key(struct sink *sink, const struct pair *pair, const struct ringtail_item *event)
{
	const char *at = pair->key;

	sink->key_bytes = 0;
	sink->numbers = pair->numbers;
	sink->key[0] = '\0';
	for (unsigned i = 0; i < sink->parts; i++) {
		size_t bytes;

		if (is_of_second(sink, i)) {
			add_part(sink, event, i, sink->name[i] + strlen(TO_PREFIX));
			continue;
		}
		bytes = strcspn(at, (const char[]){ PART_END, '\0' }) + 1;
		if (bytes > KEY_BYTES_MAX - 2 - sink->key_bytes)
			bytes = 0;
		memcpy(sink->key + sink->key_bytes, at, bytes);
		sink->key_bytes += bytes;
		sink->key[sink->key_bytes] = '\0';
		at += bytes;
	}
}

static void grow(struct sink *sink)
{
	size_t slots = sink->slots ? sink->slots * 2 : SLOTS_MIN;
	struct row **larger = calloc(slots, sizeof(*larger));

	if (!larger)
		return;
	for (size_t i = 0; i < sink->slots; i++) {
		size_t at;

		if (!sink->slot[i])
			continue;
		at = sink->slot[i]->hash & (slots - 1);
		while (larger[at])
			at = (at + 1) & (slots - 1);
		larger[at] = sink->slot[i];
	}
	free(sink->slot);
	sink->slot = larger;
	sink->slots = slots;
}

/* The row of sink->key; NULL where there are too many already, or no memory. */
static struct row *row_of(struct sink *sink)
{
	uint32_t hash = hash_of(sink->key, sink->key_bytes);
	struct row *row;
	size_t at;

	if (sink->rows * 2 >= sink->slots)
		grow(sink);
	if (sink->rows * 2 >= sink->slots)
		return NULL;
	for (at = hash & (sink->slots - 1); (row = sink->slot[at]); at = (at + 1) & (sink->slots - 1))
		if (row->hash == hash && !strcmp(row->key, sink->key))
			return row;
	row = sink->rows < ANSWER_ROWS_MAX ? calloc(1, sizeof(*row)) : NULL;
	if (row && !(row->key = strdup(sink->key))) {
		free(row);
		row = NULL;
	}
	if (!row)
		return NULL;
	row->hash = hash;
	row->numbers = sink->numbers;
	sink->slot[at] = row;
	sink->rows++;
	return row;
}

static void forget_rows(struct sink *sink)
{
	for (size_t i = 0; i < sink->slots; i++) {
		if (!sink->slot[i])
			continue;
		tally_clear(&sink->slot[i]->tally);
		free(sink->slot[i]->key);
		free(sink->slot[i]);
		sink->slot[i] = NULL;
	}
	sink->rows = 0;
	sink->lost = sink->gaps_unknown = sink->events = sink->crowded = 0;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static bool number_of(const struct ringtail_item *event, const char *name, uint64_t *number)
{
	int i = field_of(event->probe, name);

	if (!strcmp(name, "pid"))
		*number = event->thread.pid;
	else if (!strcmp(name, "tid"))
		*number = event->thread.tid;
	else if (!strcmp(name, "cpu"))
		*number = event->cpu;
	else if (i < 0)
		return false;
	else
		*number = ringtail_value(&event->probe->field[i], event->value[i]);
	return true;
}

static bool numbers_of(const struct sink *sink, const struct ringtail_item *event, bool second,
		       uint64_t on[PAIRS_ON_MAX])
{
	memset(on, 0, PAIRS_ON_MAX * sizeof(on[0]));
	for (unsigned i = 0; i < sink->commons; i++)
		if (!number_of(event, second ? sink->common[i].to : sink->common[i].from, &on[i]))
			return false;
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
	uint8_t role = ROLE_KNOWN;

	if (probe->id >= RT_PROBE_MAX)
		return 0;
	if (sink->role[probe->id])
		return sink->role[probe->id];
	role |= matches(sink->question.from, probe) ? ROLE_FROM : 0;
	role |= matches(sink->question.to, probe) ? ROLE_TO : 0;
	sink->role[probe->id] = role;
	return role;
}

/* An event may end one pair and begin the next. */
static void add_pair(struct sink *sink, const struct ringtail_item *event)
{
	unsigned role = role_of(sink, event->probe);
	uint64_t on[PAIRS_ON_MAX];
	struct pair *pair = NULL;
	struct row *row;

	sink->any = true;
	if (role & ROLE_TO && numbers_of(sink, event, true, on))
		pair = pairs_end(sink->pairs, on);
	if (pair) {
		sink->events++;
		sink->seen[ANSWER_BY_MAX] = true;
		complete_key(sink, pair, event);
		row = row_of(sink);
		if (row) {
			row->events++;
			row->of_time = true;
			tally_add(&row->tally, event->time_ns > pair->time_ns ?
					       event->time_ns - pair->time_ns : 0);
		} else {
			sink->crowded++;
		}
		free(pair);
	}
	if (!(role & ROLE_FROM) || !numbers_of(sink, event, false, on))
		return;
	make_key(sink, event);
	sink->crowded += !pairs_begin(sink->pairs, on, event->time_ns, sink->key, sink->key_bytes,
				      sink->numbers);
}

/* What ended among the lost is not known: a later end would be taken for it. */
static void lose(struct sink *sink)
{
	if (!sink->pairs)
		return;
	sink->given_up += pairs_open(sink->pairs);
	pairs_give_up(sink->pairs);
}

static int take_common(struct sink *sink, const char *on, struct ringtail_error *error)
{
	while (*on) {
		size_t bytes = strcspn(on, ","), from = strcspn(on, "=,");
		struct common *common = &sink->common[sink->commons];
		const char *to = from < bytes ? on + from + 1 : on;
		size_t to_bytes = bytes - (size_t)(to - on);

		if (sink->commons == PAIRS_ON_MAX || !from || !to_bytes || from >= sizeof(common->from) ||
		    to_bytes >= sizeof(common->to))
			return failure_set(error, EINVAL, "bad-on", "--on %.60s: at most %u of NAME or "
					   "NAME=NAME stand with commas between", on, PAIRS_ON_MAX);
		memcpy(common->from, on, from);
		memcpy(common->to, to, to_bytes);
		sink->commons++;
		on += bytes + (on[bytes] == ',');
	}
	return 0;
}

static int take_pair(struct sink *sink, struct ringtail_error *error)
{
	const struct answer_question *question = &sink->question;

	if (!question->from && !question->to && !question->on)
		return 0;
	if (!question->from || !question->to || !question->on)
		return failure_set(error, EINVAL, "half-a-pair", "the time between two events needs --from, --to "
				   "and --on");
	if (probe_set_check_glob(question->from, &(struct error){ 0 }) ||
	    probe_set_check_glob(question->to, &(struct error){ 0 }))
		return failure_set(error, EINVAL, "bad-probe", "--from and --to are probes, as in "
				   "--from sched_wakeup --to sched_switch");
	sink->pairs = pairs_create();
	return sink->pairs ? take_common(sink, question->on, error) :
			     failure_set(error, ENOMEM, "no-memory", "out of memory");
}

static void add_event(struct sink *sink, const struct ringtail_item *event)
{
	struct row *row;
	bool of_time = false;
	uint64_t value;

	if (sink->stacks && stack_names_learn(stack_set_names(sink->stacks), event))
		return;
	if (sink->pairs) {
		add_pair(sink, event);
		return;
	}
	sink->events++;
	sink->any = true;
	make_key(sink, event);
	row = row_of(sink);
	if (!row) {
		sink->crowded++;
		return;
	}
	row->events++;
	row->errors += error_of(event) != 0;
	if (!sink->question.of)
		return;
	if (value_of(sink, event, &value, &of_time)) {
		sink->seen[ANSWER_BY_MAX] = true;
		row->of_time = of_time;
		tally_add(&row->tally, value);
	} else {
		row->absent++;
	}
}

/* ---- Printing -------------------------------------------------------------------------------- */

static int by_most(const void *a, const void *b)
{
	const struct row *left = *(struct row *const *)a, *right = *(struct row *const *)b;

	if (left->events != right->events)
		return left->events < right->events ? 1 : -1;
	return strcmp(left->key, right->key);
}

static int by_time(const void *a, const void *b)
{
	const struct row *left = *(struct row *const *)a, *right = *(struct row *const *)b;

	if (left->tally.sum != right->tally.sum)
		return left->tally.sum < right->tally.sum ? 1 : -1;
	return by_most(a, b);
}

static int by_errors(const void *a, const void *b)
{
	const struct row *left = *(struct row *const *)a, *right = *(struct row *const *)b;

	if (left->errors != right->errors)
		return left->errors < right->errors ? 1 : -1;
	return by_most(a, b);
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct row *const *)a)->key, (*(struct row *const *)b)->key);
}

static int (*order_of(const struct answer_question *question))(const void *a, const void *b)
{
	switch (question->sort) {
	case ANSWER_SORT_EVENTS:
		return by_most;
	case ANSWER_SORT_TIME:
		return by_time;
	case ANSWER_SORT_ERRORS:
		return by_errors;
	case ANSWER_SORT_NAME:
		return by_name;
	case ANSWER_SORT_SHAPE:
		break;
	}
	return question->shape == ANSWER_SUMMARY ? by_time : by_most;
}

/* Part i of a key: where it begins, and its length. */
static const char *part(const char *key, unsigned i, int *bytes)
{
	while (i--)
		key = strchr(key, PART_END) + 1;
	*bytes = (int)(strchr(key, PART_END) - key);
	return key;
}

__attribute__((format(printf, 2, 3)))
static void put(struct out *out, const char *format, ...)
{
	char text[KEY_BYTES_MAX + 256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	out_text(out, text);
}

static const char *value_text(const struct row *row, uint64_t value, char text[UNITS_TEXT_BYTES])
{
	if (row->of_time)
		return units_format_duration(value, text);
	snprintf(text, UNITS_TEXT_BYTES, "%llu", (unsigned long long)value);
	return text;
}

static uint64_t mean(const struct tally *tally)
{
	return tally->count ? (uint64_t)(tally->sum / tally->count) : 0;
}

/* "main;read;vfs_read", outermost first. Cut to what a row may have. */
static const char *stack_text(struct sink *sink, const char *number, int *bytes)
{
	static char text[STACK_TEXT_BYTES];
	size_t id = (size_t)strtoull(number, NULL, 10), used = 0;
	const struct stack *stack;

	if (!id || id > stack_set_count(sink->stacks))
		return number;
	stack = stack_set_at(sink->stacks, id - 1);
	for (unsigned i = stack->user + stack->kernel; i-- && used < sizeof(text) - FRAME_TEXT_BYTES;) {
		unsigned at = i < stack->kernel ? stack->user + i : i - stack->kernel;
		struct code_place place;
		const char *name;
		char frame[FRAME_TEXT_BYTES - 1];

		stack_set_place(sink->stacks, stack, at, &place);
		name = place.name ? place.name : place.path && *place.path ? place.path : "?";
		visible_copy(frame, sizeof(frame), name, strnlen(name, sizeof(frame) - 8));
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? ";" : "", frame);
	}
	*bytes = (int)used;
	return text;
}

/* Part i of a row's key, as it is shown. */
static const char *shown_part(struct sink *sink, const struct row *row, unsigned i, int *bytes)
{
	const char *text = part(row->key, i, bytes), *name = sink->name[i];

	if (is_of_second(sink, i))
		name += strlen(TO_PREFIX);
	return sink->stacks && !strcmp(name, "stack") && *text != '-' ? stack_text(sink, text, bytes) : text;
}

static void put_key(struct sink *sink, const struct row *row)
{
	for (unsigned i = 0; i < sink->parts; i++) {
		int bytes;
		const char *text = shown_part(sink, row, i, &bytes);

		if (i)
			out_literal(sink->out, "  ");
		out_bytes(sink->out, text, (size_t)bytes);
	}
	out_char(sink->out, '\n');
}

static void put_names(struct sink *sink)
{
	for (unsigned i = 0; i < sink->parts; i++)
		put(sink->out, "%s%s", i ? "  " : "", sink->name[i]);
	out_char(sink->out, '\n');
}

/* What was lost may all be this row's: "300", or "300..345". */
static const char *count_text(const struct sink *sink, uint64_t count, char text[COUNT_TEXT_BYTES])
{
	if (sink->lost || sink->gaps_unknown)
		snprintf(text, COUNT_TEXT_BYTES, sink->gaps_unknown ? "%llu.." : "%llu..%llu",
			 (unsigned long long)count, (unsigned long long)(count + sink->lost));
	else
		snprintf(text, COUNT_TEXT_BYTES, "%llu", (unsigned long long)count);
	return text;
}

static void put_count(struct sink *sink, struct row **row, size_t rows)
{
	char sum[UNITS_TEXT_BYTES], min[UNITS_TEXT_BYTES], middle[UNITS_TEXT_BYTES],
		max[UNITS_TEXT_BYTES];

	put(sink->out, sink->question.of ? "%12s %10s %10s %10s %10s  " : "%12s  ", "COUNT", "SUM", "MIN",
	    "MEAN", "MAX");
	put_names(sink);
	for (size_t i = 0; i < rows; i++) {
		const struct tally *tally = &row[i]->tally;

		char events[COUNT_TEXT_BYTES];

		put(sink->out, "%12s", count_text(sink, row[i]->events, events));
		if (sink->question.of)
			put(sink->out, " %10s %10s %10s %10s", value_text(row[i], (uint64_t)tally->sum, sum),
			    value_text(row[i], tally->min, min), value_text(row[i], mean(tally), middle),
			    value_text(row[i], tally->max, max));
		out_literal(sink->out, "  ");
		put_key(sink, row[i]);
	}
}

static void put_summary(struct sink *sink, struct row **row, size_t rows, long double all)
{
	char events[COUNT_TEXT_BYTES], total[UNITS_TEXT_BYTES], middle[UNITS_TEXT_BYTES], half[UNITS_TEXT_BYTES],
		most[UNITS_TEXT_BYTES], max[UNITS_TEXT_BYTES];

	put(sink->out, "%6s %9s %9s %9s %9s %9s %10s %9s  ", "%TIME", "TOTAL", "MEAN", "P50", "P99", "MAX",
	    "CALLS", "ERRORS");
	put_names(sink);
	for (size_t i = 0; i < rows; i++) {
		const struct tally *tally = &row[i]->tally;

		put(sink->out, "%6.2f %9s %9s %9s %9s %9s %10s %9llu  ",
		    all > 0 ? (double)(100 * tally->sum / all) : 0,
		    value_text(row[i], (uint64_t)tally->sum, total), value_text(row[i], mean(tally), middle),
		    value_text(row[i], tally_quantile(tally, 0.5), half),
		    value_text(row[i], tally_quantile(tally, 0.99), most),
		    value_text(row[i], tally->max, max), count_text(sink, row[i]->events, events),
		    (unsigned long long)row[i]->errors);
		put_key(sink, row[i]);
	}
}

/* From the power of two that the least value is in to that of the greatest. */
static void put_hist_row(struct sink *sink, const struct row *row)
{
	const struct tally *tally = &row->tally;
	char low_text[UNITS_TEXT_BYTES], high_text[UNITS_TEXT_BYTES], count[COUNT_TEXT_BYTES];
	uint64_t most = 0, low;

	if (sink->parts)
		put_key(sink, row);
	put(sink->out, "  %s values, ", count_text(sink, tally->count, count));
	put(sink->out, "p50 %s, ", value_text(row, tally_quantile(tally, 0.5), low_text));
	put(sink->out, "p90 %s, ", value_text(row, tally_quantile(tally, 0.9), low_text));
	put(sink->out, "p99 %s, ", value_text(row, tally_quantile(tally, 0.99), low_text));
	put(sink->out, "p99.9 %s, ", value_text(row, tally_quantile(tally, 0.999), low_text));
	put(sink->out, "max %s\n", value_text(row, tally->max, low_text));
	for (int pass = 0; pass < 2 && tally->count; pass++)
		for (low = tally->min ? 1ull << (63 - __builtin_clzll(tally->min)) : 0;;
		     low = low ? low * 2 : 1) {
			uint64_t high = low ? low + (low - 1) : 0;
			uint64_t n = tally_between(tally, low, high);

			if (n > most)
				most = n;
			if (pass)
				put(sink->out, "  %9s .. %-9s %10llu |%.*s\n", value_text(row, low, low_text),
				    value_text(row, high, high_text), (unsigned long long)n,
				    (int)(most ? n * BAR_CELLS / most : 0),
				    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@");
			if (high >= tally->max)
				break;
		}
}

/* Which of the names that were asked for no event had; NULL: all were seen, or no event was. */
static const char *unknown_name(const struct sink *sink)
{
	if (!sink->any)
		return NULL;
	for (unsigned i = 0; i < sink->parts; i++)
		if (!sink->seen[i])
			return sink->name[i];
	return sink->question.of && !sink->seen[ANSWER_BY_MAX] ? sink->question.of : NULL;
}

static void put_loss(struct sink *sink)
{
	if (sink->crowded)
		put(sink->out, "%12llu more events in rows beyond the first %u\n",
		    (unsigned long long)sink->crowded, ANSWER_ROWS_MAX);
	if (sink->lost)
		put(sink->out, "up to %llu more events were lost: a count above may be so much higher\n",
		    (unsigned long long)sink->lost);
	if (sink->gaps_unknown)
		put(sink->out, "an unknown number of events is missing too (%llu gaps)\n",
		    (unsigned long long)sink->gaps_unknown);
	if (sink->given_up)
		put(sink->out, "%llu beginnings were given up, because an end may be among what was lost\n",
		    (unsigned long long)sink->given_up);
	if (sink->pairs && pairs_open(sink->pairs))
		put(sink->out, "%zu had not ended yet\n", pairs_open(sink->pairs));
	if (unknown_name(sink))
		put(sink->out, "no event had `%.64s`; `tracectl list` shows the fields\n",
		    unknown_name(sink));
}

static void put_time(struct sink *sink, uint64_t until_ns)
{
	char took[UNITS_TEXT_BYTES];

	if (sink->question.interval_ns)
		put(sink->out, "--- %s, %llu events ---\n",
		    units_format_duration(until_ns - sink->begun_ns, took),
		    (unsigned long long)sink->events);
}

static json_t *key_json(struct sink *sink, const struct row *row)
{
	json_t *key = json_object();

	for (unsigned i = 0; i < sink->parts; i++) {
		int bytes;
		const char *text = shown_part(sink, row, i, &bytes);
		char *end;
		long long number = strtoll(text, &end, 10);

		json_object_set_new(key, sink->name[i],
				    row->numbers >> i & 1 && end == text + bytes ?
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

	json_object_set_new(object, "values", json_integer((json_int_t)tally->count));
	json_object_set_new(object, "sum", json_integer((json_int_t)tally->sum));
	json_object_set_new(object, "min", json_integer((json_int_t)tally->min));
	json_object_set_new(object, "max", json_integer((json_int_t)tally->max));
	for (size_t i = 0; i < sizeof(quantile) / sizeof(*quantile); i++)
		json_object_set_new(object, quantile[i].name,
				    json_integer((json_int_t)tally_quantile(tally, quantile[i].part)));
	for (uint64_t low = 0; tally->count && with_spread; low = low ? low * 2 : 1) {
		uint64_t high = low ? low + (low - 1) : 0, n = tally_between(tally, low, high);

		if (n)
			json_array_append_new(spread, json_pack("[I,I,I]", (json_int_t)low,
								(json_int_t)high, (json_int_t)n));
		if (high >= tally->max)
			break;
	}
	if (with_spread)
		json_object_set_new(object, "buckets", spread);
	else
		json_decref(spread);
}

/* One object a row, and one at the end of all rows. */
static void put_json(struct sink *sink, struct row **row, size_t rows, uint64_t until_ns)
{
	for (size_t i = 0; i <= rows; i++) {
		json_t *object = json_object();
		char *text;

		if (i < rows) {
			json_object_set_new(object, "key", key_json(sink, row[i]));
			json_object_set_new(object, "count", json_integer((json_int_t)row[i]->events));
			json_object_set_new(object, "count_max",
					    json_integer((json_int_t)row[i]->events +
							 (json_int_t)sink->lost));
			if (sink->question.of) {
				json_object_set_new(object, "errors",
						    json_integer((json_int_t)row[i]->errors));
				set_tally(object, &row[i]->tally,
					  sink->question.shape == ANSWER_HIST);
			}
		} else {
			json_object_set_new(object, "events", json_integer((json_int_t)sink->events));
			json_object_set_new(object, "lost", json_integer((json_int_t)sink->lost));
			json_object_set_new(object, "gaps", json_integer((json_int_t)sink->gaps_unknown));
			json_object_set_new(object, "beyond_rows",
					    json_integer((json_int_t)sink->crowded));
			if (sink->pairs) {
				json_object_set_new(object, "open",
						    json_integer((json_int_t)pairs_open(sink->pairs)));
				json_object_set_new(object, "given_up",
						    json_integer((json_int_t)sink->given_up));
			}
			if (unknown_name(sink))
				json_object_set_new(object, "unknown", json_string(unknown_name(sink)));
			json_object_set_new(object, "rows", json_integer((json_int_t)sink->rows));
			json_object_set_new(object, "seconds",
					    json_real((double)(until_ns - sink->begun_ns) / 1e9));
		}
		text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
		if (text) {
			out_text(sink->out, text);
			out_char(sink->out, '\n');
		}
		free(text);
		json_decref(object);
	}
}

static void print(struct sink *sink, uint64_t until_ns)
{
	struct row **row = calloc(sink->rows + 1, sizeof(*row));
	size_t rows = 0;
	long double all = 0;

	for (size_t i = 0; row && i < sink->slots; i++)
		if (sink->slot[i]) {
			all += sink->slot[i]->tally.sum;
			row[rows++] = sink->slot[i];
		}
	if (row)
		qsort(row, rows, sizeof(*row), order_of(&sink->question));
	if (sink->question.top && rows > sink->question.top)
		rows = sink->question.top;
	if (sink->question.json) {
		put_json(sink, row, rows, until_ns);
	} else {
		put_time(sink, until_ns);
		if (sink->question.shape == ANSWER_COUNT)
			put_count(sink, row, rows);
		else if (sink->question.shape == ANSWER_SUMMARY)
			put_summary(sink, row, rows, all);
		for (size_t i = 0; sink->question.shape == ANSWER_HIST && i < rows; i++)
			put_hist_row(sink, row[i]);
		put_loss(sink);
	}
	free(row);
	forget_rows(sink);
}

/* ---- The sink -------------------------------------------------------------------------------- */

/* Intervals end by the host's clock: what happened before an end is in the table before it. */
static void end_intervals(struct sink *sink, uint64_t time_ns)
{
	if (!sink->begun_ns)
		sink->begun_ns = time_ns;
	if (!sink->question.interval_ns)
		return;
	if (!sink->next_ns)
		sink->next_ns = sink->begun_ns + sink->question.interval_ns;
	while (time_ns >= sink->next_ns) {
		print(sink, sink->next_ns);
		sink->begun_ns = sink->next_ns;
		sink->next_ns += sink->question.interval_ns;
	}
}

static void take_item(struct sink *sink, const struct ringtail_item *item)
{
	if (item->time_ns > sink->last_ns) {
		sink->last_ns = item->time_ns;
		end_intervals(sink, item->time_ns);
	}
	switch (item->kind) {
	case RINGTAIL_EVENT:
		add_event(sink, item);
		break;
	case RINGTAIL_LOSS:
		sink->lost += item->count;
		lose(sink);
		break;
	case RINGTAIL_GAP:
		sink->lost += item->events ? item->events : item->count;
		sink->gaps_unknown += !item->events && !item->count;
		lose(sink);
		break;
	default:
		break;
	}
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	forget_rows(sink);
	pairs_destroy(sink->pairs);
	stack_set_destroy(sink->stacks);
	free(sink->slot);
	free(sink);
}

static int take_names(struct sink *sink, const char *by, struct ringtail_error *error)
{
	for (const char *at = by; *at;) {
		size_t bytes = strcspn(at, ",");

		if (sink->parts == ANSWER_BY_MAX)
			return failure_set(error, EINVAL, "bad-by", "--by takes at most %u names",
					   ANSWER_BY_MAX);
		if (!bytes || bytes >= sizeof(sink->name[0]))
			return failure_set(error, EINVAL, "bad-by", "--by %.60s: names stand with "
					   "commas between", by);
		memcpy(sink->name[sink->parts++], at, bytes);
		at += bytes;
		if (*at == ',' && !*++at)
			return failure_set(error, EINVAL, "bad-by", "--by %.60s: a name is missing at "
					   "its end", by);
	}
	return 0;
}

struct sink *answer_create(const struct answer_question *question, struct out *out,
			   struct ringtail_error *error)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink) {
		failure_set(error, ENOMEM, "no-memory", "out of memory");
		return NULL;
	}
	sink->question = *question;
	sink->out = out;
	out_init(&sink->scratch, -1);
	if (take_names(sink, question->by ? question->by : "", error) || take_pair(sink, error)) {
		destroy(sink);
		return NULL;
	}
	return sink;
}

void answer_set_sort(struct sink *sink, enum answer_sort sort)
{
	sink->question.sort = sort;
}

static void end(struct sink *sink)
{
	print(sink, sink->last_ns);
}

static void begin(struct sink *sink, const struct sink_place *place)
{
	for (unsigned i = 0; i < sink->parts && !sink->stacks; i++)
		if (!strcmp(sink->name[i], "stack"))
			sink->stacks = stack_set_create(place->host);
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

const struct sink_ops answer_ops = { .begin = begin, .item = take_item, .end = end, .destroy = destroy };
