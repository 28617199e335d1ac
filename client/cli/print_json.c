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
#include "client/cli/out.h"
#include "client/cli/text_value.h"
#include "client/cli/symbols.h"
#include "proto/limits.h"

struct sink {
	struct out *out;
	const struct ringtail_host *host;
	struct wall_clock clock;
	uint64_t realtime_ns;		/* of the host, that the clock was set by */
	bool symbols_tried;
	struct symbols *symbols;	/* NULL: stacks are shown whole */
	struct context_users users;
};

static struct sink *create(struct out *out, const struct ringtail_host *host, bool colour)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	(void)colour;
	if (!sink)
		return NULL;
	sink->out = out;
	sink->host = host;
	wall_clock_init(&sink->clock, true);
	return sink;
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	symbols_destroy(sink->symbols);
	free(sink);
}

static void put_start(struct sink *sink, const struct ringtail_item *item)
{
	struct out *out = sink->out;

	if (sink->realtime_ns != sink->host->realtime_ns) {
		sink->realtime_ns = sink->host->realtime_ns;
		wall_clock_set(&sink->clock, sink->host->monotonic_ns, sink->realtime_ns);
	}
	out_literal(out, "{\"time\":");
	out_u64(out, item->time_ns);
	out_literal(out, ",\"wall\":\"");
	wall_clock_print(&sink->clock, out, item->time_ns);
	out_literal(out, "\",\"cpu\":");
	out_u64(out, item->cpu);
}

static void put_value(struct out *out, const struct ringtail_field *field, uint64_t word)
{
	uint64_t value = ringtail_value(field, word);

	switch (field->type) {
	case RINGTAIL_HEX:
	case RINGTAIL_STRING:
		out_char(out, '"');
		out_hex(out, value);
		out_char(out, '"');
		return;
	case RINGTAIL_SIGNED:
	case RINGTAIL_FD:
	case RINGTAIL_RESULT:
		out_i64(out, (int64_t)value);
		return;
	default:
		out_u64(out, value);
	}
}

/* "duration", "ret" and "error", which stand apart from the arguments. Returns how many fields. */
static unsigned put_outcome(struct out *out, const struct ringtail_item *event)
{
	const struct ringtail_probe *probe = event->probe;
	bool returns = true;
	unsigned used = 0;

	if (probe->fields && probe->field[0].type == RINGTAIL_DURATION) {
		returns = event->value[0] != RINGTAIL_NEVER;
		if (returns) {
			out_literal(out, ",\"duration\":");
			out_u64(out, event->value[0]);
		}
		used = 1;
	}
	if (used < probe->fields && probe->field[used].type == RINGTAIL_RESULT) {
		uint64_t result = event->value[used];
		const char *name = errno_failed(result) ? errno_name((int)-(int64_t)result) : NULL;

		if (returns) {
			out_literal(out, ",\"ret\":");
			out_i64(out, (int64_t)result);
		}
		if (returns && name) {
			out_literal(out, ",\"error\":\"");
			out_text(out, name);
			out_char(out, '"');
		}
		used++;
	}
	return used;
}

/* Whether it is the text of one of the probe's fields. */
static bool is_text(const struct ringtail_item *event, const struct ringtail_attachment *string)
{
	return string->kind == RINGTAIL_ATTACHED_STRING && string->field < event->probe->fields;
}

/* The names of those that were cut; none: no member. */
static void put_strings_cut(struct out *out, const struct ringtail_item *event)
{
	char separator = '[';

	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *string = &event->attachment[i];

		if (!is_text(event, string) || string->text_bytes != STRING_BYTES_MAX)
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
	char separator = '{';

	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *string = &event->attachment[i];

		if (!is_text(event, string))
			continue;
		if (separator == '{')
			out_literal(out, ",\"strings\":");
		out_char(out, separator);
		separator = ',';
		json_quote_text(out, event->probe->field[string->field].name);
		out_char(out, ':');
		json_quote(out, (const char *)string->text, string->text_bytes);
	}
	if (separator == ',')
		out_char(out, '}');
	put_strings_cut(out, event);
}

/* Of a kernel stack, where the tracer's own part ends. */
static size_t first_frame(struct sink *sink, const struct ringtail_attachment *stack)
{
	if (!sink->symbols_tried) {
		sink->symbols_tried = true;
		sink->symbols = symbols_of_boot(sink->host->boot_id);
	}
	return symbols_own_frames(sink->symbols, stack->frame, stack->frames);
}

static void put_stack(struct sink *sink, const struct ringtail_attachment *stack)
{
	struct out *out = sink->out;
	size_t first = 0;

	if (stack->kind == RINGTAIL_ATTACHED_KSTACK) {
		out_literal(out, ",\"kstack\":[");
		first = first_frame(sink, stack);
	} else {
		out_literal(out, ",\"ustack\":[");
	}
	for (size_t i = first; i < stack->frames; i++) {
		if (i > first)
			out_char(out, ',');
		out_char(out, '"');
		out_hex(out, stack->frame[i]);
		out_char(out, '"');
	}
	out_char(out, ']');
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
	struct out *out = sink->out;
	unsigned first;

	put_start(sink, event);
	out_literal(out, ",\"seq\":");
	out_u64(out, event->seq);
	out_literal(out, ",\"probe\":");
	json_quote_text(out, probe->spec);
	put_thread(out, &event->thread);
	if (context_is_there(&event->thread))
		context_put_json(out, &sink->users, sink->host, &event->thread);
	first = put_outcome(out, event);
	out_literal(out, ",\"args\":{");
	for (unsigned i = first; i < probe->fields; i++) {
		if (i > first)
			out_char(out, ',');
		json_quote_text(out, probe->field[i].name);
		out_char(out, ':');
		put_value(out, &probe->field[i], event->value[i]);
	}
	out_char(out, '}');
	if (event->attachments) {
		put_strings(out, event);
		for (size_t i = 0; i < event->attachments; i++)
			if (event->attachment[i].kind != RINGTAIL_ATTACHED_STRING)
				put_stack(sink, &event->attachment[i]);
	}
	out_literal(out, "}\n");
}

static void put_loss(struct sink *sink, const struct ringtail_item *item)
{
	struct out *out = sink->out;

	out_literal(out, "{\"lost\":");
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
	if (item->kind == RINGTAIL_EVENT)
		put_event(sink, item);
	else if (item->kind == RINGTAIL_LOSS || item->kind == RINGTAIL_GAP)
		put_loss(sink, item);
}

const struct sink_ops print_json = {
	.create = create,
	.item = put_item,
	.destroy = destroy,
};
