/*
 * print_text: items in, one line each out, for people.
 *
 *	12:00:00.123456 [001] bash             812/812         openat(...) = 3 <12.3us>
 */
#include "client/cli/sink.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/context.h"
#include "client/cli/device_names.h"
#include "client/cli/kernel_text.h"
#include "client/cli/stack_names.h"
#include "client/cli/text_value.h"
#include "client/cli/out.h"

enum color { PLAIN, DIM, NAME, GOOD, BAD, THREAD };

struct sink {
	struct out *out;
	const struct ringtail_host *host;
	const char *label;		/* of the host, if there are several; NULL: there is one */
	bool color;
	struct wall_clock clock;
	unsigned times;			/* SINK_UTC, RELATIVE, DELTA; 0: local time */
	bool has_begun;
	uint64_t from_ns;		/* the first event's time, or that of the line before */
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
	sink->out = out;
	sink->host = host;
	sink->color = flags & SINK_COLOR;
	sink->shows_maps = flags & SINK_MAPS;
	sink->names = stack_names_create(host);
	if (!sink->names) {
		free(sink);
		return NULL;
	}
	sink->times = flags & (SINK_UTC | SINK_RELATIVE | SINK_DELTA);
	wall_clock_init(&sink->clock, flags & SINK_UTC);
	return sink;
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	stack_names_destroy(sink->names);
	free(sink);
}

static void paint(struct sink *sink, enum color color)
{
	static const char *const code[] = {
		[PLAIN] = "\033[0m", [DIM] = "\033[2m", [NAME] = "\033[1m", [GOOD] = "\033[32m",
		[BAD] = "\033[31m", [THREAD] = "\033[36m",
	};

	if (sink->color)
		out_text(sink->out, code[color]);
}

/* ---- Columns before the event --------------------------------------------------------------- */

/* "+0.000012": since the first event, or since the line before. Events of two CPUs may come a little out of order. */
static void put_elapsed(struct sink *sink, uint64_t time_ns)
{
	uint64_t ns = time_ns - sink->from_ns;

	out_mark(sink->out);
	out_char(sink->out, (int64_t)ns < 0 ? '-' : '+');
	if ((int64_t)ns < 0)
		ns = -ns;
	out_u64(sink->out, ns / 1000000000u);
	out_char(sink->out, '.');
	out_digits(sink->out, ns % 1000000000u / 1000, 6);
	out_pad(sink->out, 12);
}

static void put_time(struct sink *sink, uint64_t time_ns)
{
	if (!(sink->times & (SINK_RELATIVE | SINK_DELTA))) {
		wall_clock_print(&sink->clock, sink->out, time_ns);
		return;
	}
	if (!sink->has_begun)
		sink->from_ns = time_ns;
	sink->has_begun = true;
	put_elapsed(sink, time_ns);
	if (sink->times & SINK_DELTA)
		sink->from_ns = time_ns;
}

static void put_label(struct sink *sink)
{
	if (!sink->label)
		return;
	paint(sink, NAME);
	out_visible(sink->out, sink->label);
	paint(sink, PLAIN);
	out_char(sink->out, ' ');
}

static void put_columns(struct sink *sink, const struct ringtail_item *item)
{
	struct out *out = sink->out;

	wall_clock_set(&sink->clock, sink->host->monotonic_ns, sink->host->realtime_ns);
	put_label(sink);
	paint(sink, DIM);
	put_time(sink, item->time_ns);
	out_literal(out, " [");
	out_digits(out, item->cpu, item->cpu < 1000 ? 3 : 4);
	out_literal(out, "] ");
	paint(sink, PLAIN);
	paint(sink, THREAD);
	out_mark(out);
	out_comm(out, item->thread.comm);
	out_pad(out, 17);
	paint(sink, PLAIN);
	out_mark(out);
	out_u64(out, item->thread.pid);
	out_char(out, '/');
	out_u64(out, item->thread.tid);
	out_pad(out, 15);
	out_char(out, ' ');
}

/* The result of an event, which is in that field. */
static void put_result(struct sink *sink, const struct ringtail_item *event, unsigned field)
{
	uint64_t result = event->value[field];

	out_literal(sink->out, " = ");
	paint(sink, errno_failed(result) ? BAD : GOOD);
	text_result(sink->out, result);
	if (event->attachments)
		text_file(sink->out, event, field);
	paint(sink, PLAIN);
}

static void put_name(struct sink *sink, const char *name)
{
	paint(sink, NAME);
	out_text(sink->out, name);
	paint(sink, PLAIN);
}

/* ---- Tracepoints that read better than their fields ------------------------------------------ */

/* The letter that ps and the kernel's own trace print for what the kernel reports as a state. */
static const char *state_letter(uint64_t state)
{
	static const char *const letter[] = { "S", "D", "T", "t", "X", "Z", "P", "I", "R+" };

	for (unsigned i = 0; i < sizeof(letter) / sizeof(*letter); i++)
		if (state & 1u << i)
			return letter[i];
	return "R";
}

static void put_priority(struct out *out, uint64_t priority)
{
	out_literal(out, " [");
	out_i64(out, (int32_t)priority);
	out_char(out, ']');
}

static void put_switch(struct out *out, const struct ringtail_item *event)
{
	text_thread(out, event, event->thread.tid);
	put_priority(out, event->value[0]);
	out_char(out, ' ');
	out_text(out, state_letter(event->value[1]));
	out_literal(out, " ==> ");
	text_thread(out, event, (uint32_t)event->value[2]);
	put_priority(out, event->value[3]);
}

static void put_wakeup(struct out *out, const struct ringtail_item *event)
{
	text_thread(out, event, (uint32_t)event->value[0]);
	put_priority(out, event->value[1]);
	out_literal(out, " on cpu ");
	out_u64(out, (uint32_t)event->value[2]);
}

static void put_fork(struct out *out, const struct ringtail_item *event)
{
	bool is_thread = event->value[1] == event->thread.pid;

	if (is_thread)
		out_literal(out, "new thread ");
	else
		out_literal(out, "new process ");
	text_thread(out, event, (uint32_t)event->value[0]);
}

static void put_exec(struct out *out, const struct ringtail_item *event)
{
	text_value(out, event, 1);
	if ((uint32_t)event->value[0] != event->thread.tid) {
		out_literal(out, " by thread ");
		out_u64(out, (uint32_t)event->value[0]);
	}
}

enum { EXIT_STATUS = 3, EXIT_SIGNAL, EXIT_CORE, EXIT_FIELDS };

static void put_exit(struct out *out, const struct ringtail_item *event)
{
	text_thread(out, event, event->thread.tid);
	put_priority(out, event->value[0]);
	if (event->value[1])
		out_literal(out, ", the last of its process");
	if (event->probe->fields < EXIT_FIELDS)
		return;
	out_text(out, event->value[EXIT_SIGNAL] ? ", killed by " : ", status ");
	text_value(out, event, event->value[EXIT_SIGNAL] ? EXIT_SIGNAL : EXIT_STATUS);
	if (event->value[EXIT_CORE])
		out_literal(out, " (core dumped)");
}

/* Their fields are those of kmod/uapi/ringtail.h. */
static const struct natural {
	const char *name;
	unsigned fields;
	void (*put)(struct out *out, const struct ringtail_item *event);
} naturals[] = {
	{ "sched_switch", 4, put_switch },
	{ "sched_wakeup", 3, put_wakeup },
	{ "sched_process_fork", 2, put_fork },
	{ "sched_process_exec", 2, put_exec },
	{ "sched_process_exit", 2, put_exit },
	{ "sched_process_exit", EXIT_FIELDS, put_exit },
};

static const struct natural *find_natural(const struct ringtail_probe *probe)
{
	if (strcmp(probe->function, "sched"))
		return NULL;
	for (size_t i = 0; i < sizeof(naturals) / sizeof(*naturals); i++)
		if (!strcmp(probe->name, naturals[i].name) && probe->fields == naturals[i].fields)
			return &naturals[i];
	return NULL;
}

/* ---- Events --------------------------------------------------------------------------------- */

static void put_call(struct sink *sink, const struct ringtail_item *event)
{
	struct out *out = sink->out;

	put_name(sink, event->probe->function);
	text_arguments(out, event, 2);
	if (event->value[0] == RINGTAIL_NEVER) {
		out_literal(out, " = ?");
		return;
	}
	put_result(sink, event, 1);
	paint(sink, DIM);
	out_literal(out, " <");
	text_duration(out, event->value[0]);
	out_char(out, '>');
	paint(sink, PLAIN);
}

static void put_tracepoint(struct sink *sink, const struct ringtail_item *event)
{
	const struct natural *natural = find_natural(event->probe);
	char text[KERNEL_TEXT_BYTES];

	put_name(sink, !strcmp(event->probe->provider, "tracepoint") ? event->probe->name : event->probe->spec);
	if (natural) {
		out_literal(sink->out, ": ");
		natural->put(sink->out, event);
	} else if (kernel_text(event, text)) {
		out_literal(sink->out, ": ");
		out_visible(sink->out, text);
	} else {
		text_arguments(sink->out, event, 0);
	}
}

/* "0x5581f2a0 leaf+0x12 (/usr/bin/busy)"; without a name "(/usr/bin/busy+0x1140)". */
static void put_frame(struct sink *sink, uint64_t address, bool kernel,
		      const struct code_place *place)
{
	struct out *out = sink->out;

	out_literal(out, "                        ");
	paint(sink, DIM);
	out_hex(out, address);
	paint(sink, PLAIN);
	if (place->name) {
		out_char(out, ' ');
		out_visible(out, place->name);
		out_char(out, '+');
		out_hex(out, place->offset);
	}
	if (!kernel && place->path && place->path[0]) {
		out_literal(out, " (");
		out_visible(out, place->path);
		if (!place->name) {
			out_char(out, '+');
			out_hex(out, place->file_offset);
		}
		out_char(out, ')');
	} else if (!kernel && !place->name) {
		out_literal(out, " (user)");
	}
	out_char(out, '\n');
}

static void put_stack(struct sink *sink, const struct ringtail_item *event,
		      const struct ringtail_attachment *stack)
{
	for (size_t i = stack_names_own(sink->names, event, stack); i < stack->frames; i++) {
		struct code_place place;

		stack_names_find(sink->names, stack->kind, event->thread.pid, stack->frame, i, &place);
		put_frame(sink, stack->frame[i], stack->kind == RINGTAIL_ATTACHED_KSTACK, &place);
	}
}

static void put_event(struct sink *sink, const struct ringtail_item *event)
{
	struct out *out = sink->out;

	put_columns(sink, event);
	switch (event->probe->kind) {
	case RINGTAIL_CALL:
		put_call(sink, event);
		break;
	case RINGTAIL_ENTRY:
		put_name(sink, event->probe->function);
		text_arguments(sink->out, event, 0);
		out_literal(out, " ...");
		break;
	case RINGTAIL_RETURN:
		out_literal(out, "... ");
		put_name(sink, event->probe->function);
		put_result(sink, event, 0);
		break;
	case RINGTAIL_TRACEPOINT:
		put_tracepoint(sink, event);
		break;
	}
	device_names_put_text(out, &sink->devices, sink->host, event);
	if (context_is_there(&event->thread)) {
		paint(sink, DIM);
		context_put_text(out, &sink->users, sink->host, &event->thread);
		paint(sink, PLAIN);
	}
	out_char(out, '\n');
	for (size_t i = 0; i < event->attachments; i++)
		if (event->attachment[i].kind != RINGTAIL_ATTACHED_STRING)
			put_stack(sink, event, &event->attachment[i]);
}

/* 42331 as 42,331. */
static void put_grouped(struct out *out, uint64_t count)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			out_char(out, ',');
		out_char(out, digits[i]);
	}
}

/*
 * "--- up to 42,331 events lost on CPU 0: ring full (raise ring-size) ---". "Up to": a ring that is full loses
 * the probe of an event with the event, so nobody knows whether this stream had asked for it.
 */
static void put_loss(struct sink *sink, const struct ringtail_item *item)
{
	bool known = item->kind == RINGTAIL_GAP && item->events;
	uint64_t count = known ? item->events : item->count;
	struct out *out = sink->out;

	put_label(sink);
	paint(sink, BAD);
	out_literal(out, "--- ");
	if (!count) {		/* of another run of the rings, which took its numbers with it */
		out_literal(out, "an unknown number of events");
	} else {
		if (!known)
			out_literal(out, "up to ");
		put_grouped(out, count);
		out_literal(out, " event");
		if (count > 1)
			out_char(out, 's');
	}
	out_literal(out, " lost on CPU ");
	out_u64(out, item->cpu);
	out_literal(out, ": ");
	for (const char *at = ringtail_reason_name(item->reason); *at; at++)
		out_char(out, *at == '-' ? ' ' : *at);
	out_literal(out, " (");
	out_text(out, ringtail_reason_remedy(item->reason));
	out_literal(out, ") ---");
	paint(sink, PLAIN);
	out_char(out, '\n');
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

const struct sink_ops print_text = {
	.create = create,
	.set_label = set_label,
	.item = put_item,
	.destroy = destroy,
};
