/*
 * print_json: items in, one JSON object a line out. docs/tracectl.1 lists the members.
 *
 * Integers are numbers as wide as 64 bits; addresses and masks are strings of hexadecimal, which no
 * reader rounds. A line is valid JSON whatever bytes a program put into its name or a string: bytes
 * that are not UTF-8 appear as the characters U+0080 to U+00FF.
 */
#include "client/cli/sink.h"

#include <stdlib.h>

#include "client/cli/context.h"
#include "client/cli/device_names.h"
#include "client/cli/json_event.h"
#include "client/cli/out.h"
#include "client/cli/text_value.h"
#include "client/cli/stack_names.h"
#include "proto/limits.h"


struct sink {
	struct out *out;
	const struct ringtail_host *host;
	const char *label;		/* of the host, if there are several; NULL: there is one */
	struct wall_clock clock;
	struct context_users users;
	struct device_names devices;
	bool shows_maps;
	struct stack_names *names;
};

static struct sink *create(struct out *out, const struct ringtail_host *host, unsigned flags)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return NULL;
	sink->shows_maps = flags & SINK_MAPS;
	sink->names = stack_names_create(host);
	if (!sink->names) {
		free(sink);
		return NULL;
	}
	sink->out = out;
	sink->host = host;
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

/* A member, and a comma. */
static void put_label(struct sink *sink)
{
	if (!sink->label)
		return;
	out_literal(sink->out, "\"host\":");
	json_quote_text(sink->out, sink->label);
	out_char(sink->out, ',');
}

static void put_start(struct sink *sink, const struct ringtail_item *item)
{
	struct out *out = sink->out;

	wall_clock_set(&sink->clock, sink->host->monotonic_ns, sink->host->realtime_ns);
	out_char(out, '{');
	put_label(sink);
	out_literal(out, "\"time\":");
	out_u64(out, item->time_ns);
	out_literal(out, ",\"wall\":\"");
	wall_clock_print(&sink->clock, out, item->time_ns);
	out_literal(out, "\",\"cpu\":");
	out_u64(out, item->cpu);
}

static void put_outcome(struct out *out, const struct json_outcome *outcome)
{
	if (outcome->duration) {
		out_literal(out, ",\"duration\":");
		out_u64(out, *outcome->duration);
	}
	if (outcome->result) {
		out_literal(out, ",\"ret\":");
		out_i64(out, (int64_t)*outcome->result);
	}
	if (outcome->error) {
		out_literal(out, ",\"error\":\"");
		out_text(out, outcome->error);
		out_char(out, '"');
	}
}

/* The names of those that were cut; none: no member. */
static void put_strings_cut(struct out *out, const struct ringtail_item *event)
{
	char separator = '[';

	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *string = &event->attachment[i];

		if (!json_is_string(event, string) || string->text_bytes != STRING_BYTES_MAX)
			continue;
		if (separator == '[')
			out_literal(out, ",\"strings_cut\":");
		out_char(out, separator);
		separator = ',';
		json_quote_text(out, event->probe->field[string->field].name);
	}
	if (separator == ',')
		out_char(out, ']');
}

static void put_strings(struct out *out, const struct ringtail_item *event)
{
	if (!json_has_strings(event))
		return;
	out_literal(out, ",\"strings\":");
	json_put_strings(out, event);
	put_strings_cut(out, event);
}

/* What is known of one address: {} if nothing is. */
static void put_place(struct out *out, const struct code_place *place)
{
	char separator = '{';

	if (place->name) {
		out_literal(out, "{\"name\":");
		json_quote_text(out, place->name);
		out_literal(out, ",\"offset\":");
		out_u64(out, place->offset);
		separator = ',';
	}
	if (place->path && place->path[0]) {
		out_char(out, separator);
		out_literal(out, "\"file\":");
		json_quote_text(out, place->path);
		out_literal(out, ",\"file_offset\":");
		out_u64(out, place->file_offset);
		if (place->build_id[0]) {
			out_literal(out, ",\"build_id\":");
			json_quote_text(out, place->build_id);
		}
		separator = ',';
	}
	if (separator == '{')
		out_char(out, '{');
	out_char(out, '}');
}

/* Beside the addresses, what is known of each; absent if nothing is known of any. */
static void put_places(struct sink *sink, const struct ringtail_item *event,
		       const struct ringtail_attachment *stack, size_t first)
{
	struct out *out = sink->out;
	struct code_place place;
	bool known = false;

	for (size_t i = first; i < stack->frames && !known; i++) {
		stack_names_find(sink->names, stack->kind, event->thread.pid, stack->frame, i, &place);
		known = place.name || (place.path && place.path[0]);
	}
	if (!known)
		return;
	out_text(out, stack->kind == RINGTAIL_ATTACHED_KSTACK ? ",\"kstack_names\":[" :
								 ",\"ustack_names\":[");
	for (size_t i = first; i < stack->frames; i++) {
		stack_names_find(sink->names, stack->kind, event->thread.pid, stack->frame, i, &place);
		if (i > first)
			out_char(out, ',');
		put_place(out, &place);
	}
	out_char(out, ']');
}

static void put_stack(struct sink *sink, const struct ringtail_item *event,
		      const struct ringtail_attachment *stack)
{
	size_t first = stack_names_own(sink->names, event, stack);
	struct out *out = sink->out;

	out_text(out, stack->kind == RINGTAIL_ATTACHED_KSTACK ? ",\"kstack\":[" :
								 ",\"ustack\":[");
	for (size_t i = first; i < stack->frames; i++) {
		if (i > first)
			out_char(out, ',');
		out_char(out, '"');
		out_hex(out, stack->frame[i]);
		out_char(out, '"');
	}
	out_char(out, ']');
	put_places(sink, event, stack, first);
}

/* Of one that the daemon was not introduced to, its tid is all there is. */
static void put_thread(struct out *out, const struct ringtail_thread *thread)
{
	bool is_known = thread->pid || thread->comm[0];

	if (is_known) {
		out_literal(out, ",\"pid\":");
		out_u64(out, thread->pid);
	}
	out_literal(out, ",\"tid\":");
	out_u64(out, thread->tid);
	if (is_known) {
		out_literal(out, ",\"comm\":");
		json_quote(out, thread->comm, out_comm_bytes(thread->comm));
	}
}

static void put_event(struct sink *sink, const struct ringtail_item *event)
{
	const struct ringtail_probe *probe = event->probe;
	struct json_outcome outcome = json_outcome(event);
	struct out *out = sink->out;

	put_start(sink, event);
	out_literal(out, ",\"seq\":");
	out_u64(out, event->seq);
	out_literal(out, ",\"probe\":");
	json_quote_text(out, probe->spec);
	put_thread(out, &event->thread);
	if (context_is_there(&event->thread))
		context_put_json(out, &sink->users, sink->host, &event->thread);
	put_outcome(out, &outcome);
	out_literal(out, ",\"args\":");
	json_put_arguments(out, event, outcome.fields);
	device_names_put_json(out, &sink->devices, sink->host, event);
	if (event->attachments) {
		put_strings(out, event);
		for (size_t i = 0; i < event->attachments; i++)
			if (event->attachment[i].kind != RINGTAIL_ATTACHED_STRING)
				put_stack(sink, event, &event->attachment[i]);
	}
	out_literal(out, "}\n");
}

static void put_loss(struct sink *sink, const struct ringtail_item *item)
{
	struct out *out = sink->out;

	out_char(out, '{');
	put_label(sink);
	out_literal(out, "\"lost\":");
	out_u64(out, item->kind == RINGTAIL_GAP && item->events ? item->events : item->count);
	out_literal(out, ",\"time\":");
	out_u64(out, item->time_ns);
	out_literal(out, ",\"cpu\":");
	out_u64(out, item->cpu);
	out_literal(out, ",\"first_seq\":");
	out_u64(out, item->seq);
	out_literal(out, ",\"attempts\":");
	out_u64(out, item->count);
	out_literal(out, ",\"stage\":\"");
	out_text(out, ringtail_stage_name(item->stage));
	out_literal(out, "\",\"reason\":\"");
	out_text(out, ringtail_reason_name(item->reason));
	out_literal(out, "\"}\n");
}

static void put_item(struct sink *sink, const struct ringtail_item *item)
{
	if (item->kind == RINGTAIL_EVENT && stack_names_learn(sink->names, item) && !sink->shows_maps)
		return;
	if (item->kind == RINGTAIL_EVENT)
		put_event(sink, item);
	else if (item->kind == RINGTAIL_LOSS || item->kind == RINGTAIL_GAP)
		put_loss(sink, item);
}

static void set_label(struct sink *sink, const char *label)
{
	sink->label = label;
}

const struct sink_ops print_json = {
	.create = create,
	.set_label = set_label,
	.item = put_item,
	.destroy = destroy,
};
