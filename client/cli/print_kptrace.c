/*
 * print_kptrace: items in, newline-delimited text out, as Akaros prints its queue of traced system calls:
 *
 *	X [      5.000000123]-[      5.000012468] Syscall 257 (      openat):(0xffffff9c, 0x7f00, 0x0, 0x0) ret: 0x3 ...
 *	... proc: 812 core:  1 vcore: -- errno:   0 thread: 813 comm: 'bash' data: '/etc/passwd'
 *
 * E stands for a call that began and has not returned: its end is 0, ret and errno are ---. What is no system
 * call has the form of Akaros' trace_printk(), "[5.000000123]:cpu1: TEXT". Each line is a whole one: what is not
 * printable ASCII, a quote and a backslash are written as \ooo in names and data.
 */
#include "client/cli/sink.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/cli/kernel_text.h"
#include "client/cli/stack_names.h"
#include "client/cli/text_value.h"

#define NS_PER_S	1000000000u

/* As kmod/uapi/ringtail.h numbers the probes of calls, which is part of the ring's ABI. */
#define CALL_IDS	0x1000u
#define ENTRY_IDS	0x1400u
#define RETURN_IDS	0x1800u
#define IDS_MAX		0x400u
#define UNKNOWN_CALL	(IDS_MAX - 1)	/* its number is its first argument */

struct sink {
	struct out *out;
	const struct ringtail_host *host;
	bool shows_maps;
	struct stack_names *names;
};

static struct sink *create(struct out *out, const struct ringtail_host *host, unsigned flags)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return NULL;
	sink->out = out;
	sink->host = host;
	sink->shows_maps = flags & SINK_MAPS;
	sink->names = stack_names_create(host);
	if (sink->names)
		return sink;
	free(sink);
	return NULL;
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	stack_names_destroy(sink->names);
	free(sink);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Padded to `width` with blanks in front. */
static void put_number(struct out *out, int64_t value, int width)
{
	char text[24];

	snprintf(text, sizeof(text), "%*lld", width, (long long)value);
	out_text(out, text);
}

/* Seconds since the traced host booted, without its sleep. */
static void put_time(struct out *out, uint64_t ns, int width)
{
	out_char(out, '[');
	put_number(out, (int64_t)(ns / NS_PER_S), width);
	out_char(out, '.');
	out_digits(out, ns % NS_PER_S, 9);
	out_char(out, ']');
}

static void put_escaped(struct out *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= ' ' && c <= '~' && c != '\'' && c != '\\') {
			out_char(out, text[i]);
			continue;
		}
		out_char(out, '\\');
		out_char(out, (char)('0' + (c >> 6)));
		out_char(out, (char)('0' + (c >> 3 & 7)));
		out_char(out, (char)('0' + (c & 7)));
	}
}

static void put_text(struct out *out, const char *text)
{
	put_escaped(out, text, strlen(text));
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* -1: it has none that we know. */
static int64_t call_number(const struct ringtail_item *event, uint32_t ids, unsigned first)
{
	const struct ringtail_probe *probe = event->probe;
	uint32_t number = probe->id - ids;

	if (number >= IDS_MAX)
		return -1;
	if (number == UNKNOWN_CALL)
		return probe->fields > first ? (int64_t)ringtail_value(&probe->field[first], event->value[first]) : -1;
	return number;
}

static void put_call_name(struct out *out, const struct ringtail_item *event, int64_t number)
{
	out_literal(out, " Syscall ");
	put_number(out, number, 3);
	out_literal(out, " (");
	for (size_t n = strlen(event->probe->function); n < 12; n++)
		out_char(out, ' ');
	put_text(out, event->probe->function);
	out_literal(out, "):(");
}

/* As the registers had them. */
static void put_registers(struct out *out, const struct ringtail_item *event, unsigned first)
{
	for (unsigned i = first; i < event->probe->fields; i++) {
		if (i > first)
			out_literal(out, ", ");
		out_hex(out, event->value[i]);
	}
}

/* One behind the other, as rename's in Akaros: 'old -> new'; and of a call that failed, why. */
static void put_data(struct out *out, const struct ringtail_item *event, int error)
{
	const char *text = error ? errno_text(error) : NULL;
	bool any = false;

	out_literal(out, " data: '");
	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *string = &event->attachment[i];

		if (string->kind != RINGTAIL_ATTACHED_STRING)
			continue;
		if (any)
			out_literal(out, " -> ");
		put_escaped(out, (const char *)string->text, string->text_bytes);
		any = true;
	}
	if (text) {
		out_text(out, any ? " errstr: " : "errstr: ");
		put_text(out, text);
	}
	out_literal(out, "'\n");
}

static void put_where(struct out *out, const struct ringtail_item *event)
{
	out_literal(out, " proc: ");
	out_u64(out, event->thread.pid);
	out_literal(out, " core: ");
	put_number(out, event->cpu, 2);
	out_literal(out, " vcore: -- errno: ");
}

static void put_thread(struct out *out, const struct ringtail_item *event)
{
	out_literal(out, " thread: ");
	out_u64(out, event->thread.tid);
	out_literal(out, " comm: '");
	put_escaped(out, event->thread.comm, out_comm_bytes(event->thread.comm));
	out_char(out, '\'');
}

/* It begins, or it never returns. */
static void put_begin(struct out *out, const struct ringtail_item *event, uint32_t ids, unsigned first)
{
	out_literal(out, "E ");
	put_time(out, event->time_ns, 7);
	out_char(out, '-');
	put_time(out, 0, 7);
	put_call_name(out, event, call_number(event, ids, first));
	put_registers(out, event, first);
	out_literal(out, ") ret: ---");
	put_where(out, event);
	out_literal(out, "---");
	put_thread(out, event);
	put_data(out, event, 0);
}

/* Where the kernel returns -errno, Akaros returns -1 and sets errno. */
static void put_end(struct out *out, const struct ringtail_item *event, uint32_t ids, uint64_t start_ns,
		    uint64_t result, unsigned first)
{
	int error = errno_failed(result) ? (int)-(int64_t)result : 0;

	out_literal(out, "X ");
	put_time(out, start_ns, 7);
	out_char(out, '-');
	put_time(out, event->time_ns, 7);
	put_call_name(out, event, call_number(event, ids, first));
	put_registers(out, event, first);
	out_literal(out, ") ret: ");
	out_hex(out, error ? UINT64_MAX : result);
	put_where(out, event);
	put_number(out, error, 3);
	put_thread(out, event);
	put_data(out, event, error);
}

static void put_call(struct out *out, const struct ringtail_item *event)
{
	uint64_t duration = event->value[0];

	if (duration == RINGTAIL_NEVER) {
		put_begin(out, event, CALL_IDS, 2);
		return;
	}
	if (duration > event->time_ns)
		duration = event->time_ns;
	put_end(out, event, CALL_IDS, event->time_ns - duration, event->value[1], 2);
}

/* ---- What is no call ------------------------------------------------------------------------- */

static void put_header(struct out *out, const struct ringtail_item *item)
{
	put_time(out, item->time_ns, 0);
	out_literal(out, ":cpu");
	out_u64(out, item->cpu);
	out_literal(out, ": ");
}

static void put_other(struct sink *sink, const struct ringtail_item *event)
{
	struct out *out = sink->out;
	char text[KERNEL_TEXT_BYTES];

	put_header(out, event);
	put_text(out, event->probe->spec);
	if (kernel_text(event, text)) {
		out_literal(out, ": ");
		put_text(out, text);
	} else {
		text_arguments(out, event, 0);
	}
	out_literal(out, " proc: ");
	out_u64(out, event->thread.pid);
	put_thread(out, event);
	out_char(out, '\n');
}

/* As Akaros appends a backtrace, with blanks for its tab: "  #01 [<0xffffffff81000000>] in vfs_read". */
static void put_stack(struct sink *sink, const struct ringtail_item *event,
		      const struct ringtail_attachment *stack)
{
	struct out *out = sink->out;
	unsigned number = 0;

	put_header(out, event);
	out_literal(out, "  Backtrace:\n");
	for (size_t i = stack_names_own(sink->names, event, stack); i < stack->frames; i++) {
		struct code_place place;

		stack_names_find(sink->names, stack->kind, event->thread.pid, stack->frame, i, &place);
		put_header(out, event);
		out_literal(out, "  #");
		out_digits(out, ++number % 100, 2);
		out_literal(out, " [<");
		out_hex(out, stack->frame[i]);
		out_literal(out, ">] in ");
		put_text(out, place.name ? place.name : place.path && place.path[0] ? place.path : "?");
		out_char(out, '\n');
	}
}

/* Akaros counts what it dropped, and does not print it; here it stands in its place. */
static void put_loss(struct out *out, const struct ringtail_item *item)
{
	uint64_t lost = item->kind == RINGTAIL_GAP && item->events ? item->events : item->count;

	put_header(out, item);
	if (lost) {
		out_literal(out, "up to ");
		out_u64(out, lost);
	} else {
		out_literal(out, "an unknown number of");
	}
	out_literal(out, " events lost: ");
	out_text(out, ringtail_reason_name(item->reason));
	out_literal(out, " (");
	out_text(out, ringtail_reason_remedy(item->reason));
	out_literal(out, ")\n");
}

static void put_event(struct sink *sink, const struct ringtail_item *event)
{
	switch (event->probe->kind) {
	case RINGTAIL_CALL:
		put_call(sink->out, event);
		break;
	case RINGTAIL_ENTRY:
		put_begin(sink->out, event, ENTRY_IDS, 0);
		break;
	case RINGTAIL_RETURN:
		put_end(sink->out, event, RETURN_IDS, 0, event->value[0], 1);
		break;
	case RINGTAIL_TRACEPOINT:
		put_other(sink, event);
		break;
	}
	for (size_t i = 0; i < event->attachments; i++)
		if (event->attachment[i].kind != RINGTAIL_ATTACHED_STRING)
			put_stack(sink, event, &event->attachment[i]);
}

static void put_item(struct sink *sink, const struct ringtail_item *item)
{
	if (item->kind == RINGTAIL_EVENT && stack_names_learn(sink->names, item) && !sink->shows_maps)
		return;
	if (item->kind == RINGTAIL_EVENT)
		put_event(sink, item);
	else if (item->kind == RINGTAIL_LOSS || item->kind == RINGTAIL_GAP)
		put_loss(sink->out, item);
}

const struct sink_ops print_kptrace = {
	.create = create,
	.item = put_item,
	.destroy = destroy,
};
