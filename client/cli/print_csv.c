/*
 * print_csv: items in, RFC 4180 out: a header, then a row for each event and each loss. docs/tracectl.1
 * lists the columns.
 *
 * Text is what would stand between the quotes of a JSON string, so that each row is one line whatever a
 * program put into a name; and what begins as a spreadsheet's formula has its first character as \u00XX.
 */
#include "client/cli/sink.h"

#include <stdlib.h>

#include "client/cli/json_event.h"
#include "client/cli/stack_names.h"
#include "client/cli/text_value.h"
#include "query/visible.h"

struct sink {
	struct out *out;
	const struct ringtail_host *host;
	struct wall_clock clock;
	bool shows_maps, begun;
	struct stack_names *names;
	/*
	 * Never full: an event has at most 16 strings of 128 bytes, and 64 frames whose names are cut at 256;
	 * JSON makes six bytes of one at most.
	 */
	struct out cell;		/* one that may need quotes */
	struct out stack;
};

static struct sink *create(struct out *out, const struct ringtail_host *host, unsigned flags)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return NULL;
	sink->names = stack_names_create(host);
	if (!sink->names) {
		free(sink);
		return NULL;
	}
	sink->shows_maps = flags & SINK_MAPS;
	sink->out = out;
	sink->host = host;
	out_init(&sink->cell, -1);
	out_init(&sink->stack, -1);
	wall_clock_init(&sink->clock, true);
	return sink;
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	stack_names_destroy(sink->names);
	free(sink);
}

/* ---- Cells ----------------------------------------------------------------------------------- */

/* What was written to the cell, between quotes, with its own doubled; and empties the cell. */
static void put_cell(struct sink *sink)
{
	const char *at = sink->cell.buffer, *end = at + sink->cell.used;

	out_char(sink->out, '"');
	while (at < end) {
		const char *quote = memchr(at, '"', (size_t)(end - at));
		size_t bytes = (size_t)((quote ? quote : end) - at);

		out_bytes(sink->out, at, bytes);
		if (quote)
			out_literal(sink->out, "\"\"");
		at += bytes + (quote != NULL);
	}
	out_char(sink->out, '"');
	sink->cell.used = 0;
}

/* Bytes of any kind. */
static void put_text(struct sink *sink, const void *text, size_t n)
{
	static const char formula[] = "=+-@";
	const char *at = text;
	char *first;

	sink->cell.used = 0;
	json_quote(&sink->cell, at, n);
	first = sink->cell.buffer + 1;
	if (n && memchr(formula, *at, sizeof(formula) - 1)) {
		memmove(first + 6, first + 1, sink->cell.used - 2);
		memcpy(first, "\\u00", 4);
		first[4] = "0123456789abcdef"[*at >> 4 & 15];
		first[5] = "0123456789abcdef"[*at & 15];
		sink->cell.used += 5;
	}
	/* Without the quotes of JSON, of which put_cell() makes its own. */
	memmove(sink->cell.buffer, first, sink->cell.used - 2);
	sink->cell.used -= 2;
	put_cell(sink);
}

static void put_number(struct out *out, uint64_t value)
{
	out_char(out, ',');
	out_u64(out, value);
}

/* A word of ours. */
static void put_word(struct out *out, const char *word)
{
	out_char(out, ',');
	out_text(out, word);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void put_start(struct sink *sink, const struct ringtail_item *item)
{
	wall_clock_set(&sink->clock, sink->host->monotonic_ns, sink->host->realtime_ns);
	out_u64(sink->out, item->time_ns);
	out_char(sink->out, ',');
	wall_clock_print(&sink->clock, sink->out, item->time_ns);
	put_number(sink->out, item->cpu);
	put_number(sink->out, item->seq);
}

/* pid, tid, comm, ppid, uid, exe, cgroup: what is not known is empty. */
static void put_thread(struct sink *sink, const struct ringtail_thread *thread)
{
	struct out *out = sink->out;
	bool is_known = thread->pid || thread->comm[0], has_context = thread->exe || thread->cgroup;

	out_char(out, ',');
	if (is_known)
		out_u64(out, thread->pid);
	put_number(out, thread->tid);
	out_char(out, ',');
	if (is_known)
		put_text(sink, thread->comm, out_comm_bytes(thread->comm));
	out_char(out, ',');
	if (has_context)
		out_u64(out, thread->ppid);
	out_char(out, ',');
	if (has_context)
		out_u64(out, thread->uid);
	out_char(out, ',');
	if (thread->exe)
		put_text(sink, thread->exe, thread->exe_bytes);
	out_char(out, ',');
	if (thread->cgroup)
		put_text(sink, thread->cgroup, thread->cgroup_bytes);
}

/* duration, ret, error */
static void put_outcome(struct out *out, const struct json_outcome *outcome)
{
	out_char(out, ',');
	if (outcome->duration)
		out_u64(out, *outcome->duration);
	out_char(out, ',');
	if (outcome->result)
		out_i64(out, (int64_t)*outcome->result);
	out_char(out, ',');
	if (outcome->error)
		out_text(out, outcome->error);
}

static bool has_stack(const struct ringtail_item *event)
{
	for (size_t i = 0; i < event->attachments; i++)
		if (event->attachment[i].kind != RINGTAIL_ATTACHED_STRING)
			return true;
	return false;
}

static void put_frame(struct out *out, const struct code_place *place, uint64_t address)
{
	char name[FUNCTION_BYTES_MAX];

	if (out->used)
		out_char(out, ';');
	if (place->name) {
		visible_copy(name, sizeof(name), place->name, strnlen(place->name, sizeof(name)));
		out_text(out, name);
		out_char(out, '+');
	}
	out_hex(out, place->name ? place->offset : address);
}

/* Innermost first, the kernel's before the program's: "vfs_read+0x1f;0x7f0012;main+0x40". */
static void put_stack(struct sink *sink, const struct ringtail_item *event,
		      enum ringtail_attachment_kind kind)
{
	for (size_t a = 0; a < event->attachments; a++) {
		const struct ringtail_attachment *stack = &event->attachment[a];

		if (stack->kind != kind)
			continue;
		for (size_t i = stack_names_own(sink->names, event, stack); i < stack->frames; i++) {
			struct code_place place;

			stack_names_find(sink->names, kind, event->thread.pid, stack->frame, i, &place);
			put_frame(&sink->stack, &place, stack->frame[i]);
		}
	}
}

static void put_event(struct sink *sink, const struct ringtail_item *event)
{
	struct json_outcome outcome = json_outcome(event);
	struct out *out = sink->out;

	put_start(sink, event);
	out_char(out, ',');
	put_text(sink, event->probe->spec, strlen(event->probe->spec));
	put_thread(sink, &event->thread);
	put_outcome(out, &outcome);
	out_char(out, ',');
	json_put_arguments(&sink->cell, event, outcome.fields);
	put_cell(sink);
	out_char(out, ',');
	if (event->attachments && json_has_strings(event)) {
		json_put_strings(&sink->cell, event);
		put_cell(sink);
	}
	out_char(out, ',');
	if (event->attachments && has_stack(event)) {
		sink->stack.used = 0;
		put_stack(sink, event, RINGTAIL_ATTACHED_KSTACK);
		put_stack(sink, event, RINGTAIL_ATTACHED_USTACK);
		put_text(sink, sink->stack.buffer, sink->stack.used);
	}
	out_literal(out, ",,,,\r\n");
}

/* Of the columns of an event it has the first four. `lost` is empty where nobody knows how many. */
static void put_loss(struct sink *sink, const struct ringtail_item *item)
{
	uint64_t lost = item->kind == RINGTAIL_GAP && item->events ? item->events : item->count;
	struct out *out = sink->out;

	put_start(sink, item);
	out_literal(out, ",,,,,,,,,,,,,,,");
	if (lost)
		out_u64(out, lost);
	put_number(out, item->count);
	put_word(out, ringtail_stage_name(item->stage));
	put_word(out, ringtail_reason_name(item->reason));
	out_literal(out, "\r\n");
}

static void begin(struct sink *sink)
{
	if (!sink->begun)
		out_literal(sink->out, "time,wall,cpu,seq,probe,pid,tid,comm,ppid,uid,exe,cgroup,duration,ret,"
			    "error,args,strings,stack,lost,attempts,stage,reason\r\n");
	sink->begun = true;
}

static void put_item(struct sink *sink, const struct ringtail_item *item)
{
	if (item->kind == RINGTAIL_EVENT && stack_names_learn(sink->names, item) && !sink->shows_maps)
		return;
	if (item->kind != RINGTAIL_EVENT && item->kind != RINGTAIL_LOSS && item->kind != RINGTAIL_GAP)
		return;
	begin(sink);
	if (item->kind == RINGTAIL_EVENT)
		put_event(sink, item);
	else
		put_loss(sink, item);
}

const struct sink_ops print_csv = {
	.create = create,
	.item = put_item,
	.end = begin,		/* of no events, the header alone */
	.destroy = destroy,
};
