#include "client/cli/print_stuck.h"

#include <errno.h>
#include <string.h>

#include "client/cli/json_event.h"
#include "client/cli/stack_names.h"
#include "client/cli/text_value.h"
#include "proto/limits.h"

struct printer {
	struct out *out;
	const struct ringtail_host *host;
	const Ringtail__V1__Stuck *stuck;
	struct stack_names *names;
	struct wall_clock clock;
};

/* One thread of the answer as an event of its call, which has no end yet. */
struct call {
	const Ringtail__V1__StuckThread *from;
	struct ringtail_item event;
	uint64_t value[PROBE_FIELDS_MAX + 1];
	uint64_t frame[STACK_FRAMES_MAX];
	size_t frames;
	unsigned first;			/* argument's field */
};

static void take_call(const struct catalog *catalog, const Ringtail__V1__StuckThread *from,
		      struct call *call)
{
	const Ringtail__V1__Thread *thread = from->thread;
	struct ringtail_item *event = &call->event;
	uint64_t address = 0;

	*call = (struct call){.from = from, .first = 2};
	event->probe = catalog_probe(catalog, from->probe);
	event->value = call->value;
	if (event->probe && event->probe->kind != RINGTAIL_CALL)
		event->probe = NULL;
	for (size_t i = 0; i < from->n_argument && call->first + i < PROBE_FIELDS_MAX; i++)
		call->value[call->first + i] = from->argument[i];
	for (; call->frames < from->n_frame && call->frames < STACK_FRAMES_MAX; call->frames++)
		call->frame[call->frames] = address += (uint64_t)from->frame[call->frames];
	if (!thread)
		return;
	event->thread = (struct ringtail_thread){
		.tid = thread->tid, .pid = thread->pid, .ppid = thread->ppid, .uid = thread->uid,
	};
	memcpy(event->thread.comm, thread->comm.data,
	       thread->comm.len < sizeof(event->thread.comm) ? thread->comm.len :
							       sizeof(event->thread.comm));
}

static struct code_place find(const struct printer *printer, const struct call *call, size_t i)
{
	struct code_place place;

	stack_names_find(printer->names, RINGTAIL_ATTACHED_KSTACK, call->event.thread.pid, call->frame,
			 i, &place);
	return place;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* "12.3s", ">12.3s" where only that much is known, "?". */
static void put_age(struct printer *printer, const struct call *call)
{
	uint64_t began_ns = call->from->since_ns ? call->from->since_ns : call->from->before_ns;

	if (!began_ns || began_ns > printer->stuck->monotonic_ns) {
		out_literal(printer->out, "?");
		return;
	}
	if (!call->from->since_ns)
		out_char(printer->out, '>');
	text_duration(printer->out, printer->stuck->monotonic_ns - began_ns);
}

static void put_text_call(struct printer *printer, const struct call *call)
{
	const struct ringtail_item *event = &call->event;
	struct out *out = printer->out;

	if (!event->probe) {
		out_literal(out, "probe ");
		out_u64(out, call->from->probe);
		return;
	}
	out_text(out, event->probe->function);
	out_char(out, '(');
	for (unsigned i = call->first; i < event->probe->fields; i++) {
		if (i > call->first)
			out_literal(out, ", ");
		out_text(out, event->probe->field[i].name);
		out_char(out, '=');
		text_value(out, event, i);
	}
	out_char(out, ')');
}

static void put_text_frame(struct printer *printer, const struct call *call, size_t i)
{
	struct code_place place = find(printer, call, i);
	struct out *out = printer->out;

	out_literal(out, "                        ");
	out_hex(out, call->frame[i]);
	if (place.name) {
		out_char(out, ' ');
		out_visible(out, place.name);
		out_char(out, '+');
		out_hex(out, place.offset);
	}
	out_char(out, '\n');
}

static void put_text(struct printer *printer, const struct call *call)
{
	const struct ringtail_thread *thread = &call->event.thread;
	struct out *out = printer->out;

	out_mark(out);
	put_age(printer, call);
	out_pad(out, 9);
	out_visible(out, call->from->state);
	out_char(out, ' ');
	out_mark(out);
	out_comm(out, thread->comm);
	out_pad(out, 17);
	out_mark(out);
	out_u64(out, thread->pid);
	out_char(out, '/');
	out_u64(out, thread->tid);
	out_pad(out, 15);
	out_char(out, ' ');
	put_text_call(printer, call);
	if (!call->from->since_ns && call->from->before_ns) {
		out_literal(out, " (since before ");
		wall_clock_print(&printer->clock, out, call->from->before_ns);
		out_literal(out, ", when the recording of such calls began)");
	}
	out_char(out, '\n');
	for (size_t i = 0; i < call->frames; i++)
		put_text_frame(printer, call, i);
}

static void put_count(struct out *out, uint64_t count, const char *what)
{
	if (!count)
		return;
	out_literal(out, "--- ");
	out_u64(out, count);
	out_text(out, count == 1 ? " thread " : " threads ");
	out_text(out, what);
	out_literal(out, " ---\n");
}

/* What the lines do not show. */
static void put_text_end(struct printer *printer)
{
	const Ringtail__V1__Stuck *stuck = printer->stuck;
	bool unknown = false;

	for (size_t i = 0; i < stuck->n_thread; i++)
		unknown |= !stuck->thread[i]->since_ns && !stuck->thread[i]->before_ns;
	if (unknown)
		out_literal(printer->out, "--- ?: since when is not known, because such calls are not"
			    " recorded (tracectl enable 'syscall:*:call') ---\n");
	put_count(printer->out, stuck->undated, "left out: nobody knows since when, because such calls are"
		  " not recorded (tracectl enable 'syscall:*:call')");
	put_count(printer->out, stuck->left_out, "left out: the answer has no more room (ask for less with"
		  " --longer-than or -f)");
	put_count(printer->out, stuck->foreign, "left out: in a 32-bit system call");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_json_number(struct out *out, const char *name, uint64_t value)
{
	out_char(out, ',');
	json_quote_text(out, name);
	out_char(out, ':');
	out_u64(out, value);
}

static void put_json_stack(struct printer *printer, const struct call *call)
{
	struct out *out = printer->out;

	out_literal(out, ",\"kstack\":[");
	for (size_t i = 0; i < call->frames; i++) {
		out_text(out, i ? ",\"" : "\"");
		out_hex(out, call->frame[i]);
		out_char(out, '"');
	}
	out_literal(out, "],\"kstack_names\":[");
	for (size_t i = 0; i < call->frames; i++) {
		struct code_place place = find(printer, call, i);

		out_text(out, i ? ",{" : "{");
		if (place.name) {
			out_literal(out, "\"name\":");
			json_quote_text(out, place.name);
			out_literal(out, ",\"offset\":");
			out_u64(out, place.offset);
		}
		out_char(out, '}');
	}
	out_char(out, ']');
}

static void put_json_begin(struct printer *printer, const struct call *call)
{
	const Ringtail__V1__StuckThread *from = call->from;
	uint64_t began_ns = from->since_ns ? from->since_ns : from->before_ns;
	struct out *out = printer->out;

	if (!began_ns)
		return;
	out_text(out, from->since_ns ? ",\"since\":\"" : ",\"before\":\"");
	wall_clock_print(&printer->clock, out, began_ns);
	out_char(out, '"');
	if (began_ns <= printer->stuck->monotonic_ns)
		put_json_number(out, from->since_ns ? "duration" : "duration_min",
				printer->stuck->monotonic_ns - began_ns);
}

static void put_json(struct printer *printer, const struct call *call)
{
	const struct ringtail_probe *probe = call->event.probe;
	struct out *out = printer->out;

	out_literal(out, "{\"tid\":");
	out_u64(out, call->event.thread.tid);
	put_json_number(out, "pid", call->event.thread.pid);
	put_json_number(out, "ppid", call->event.thread.ppid);
	put_json_number(out, "uid", call->event.thread.uid);
	out_literal(out, ",\"comm\":");
	json_quote(out, call->event.thread.comm, out_comm_bytes(call->event.thread.comm));
	out_literal(out, ",\"state\":");
	json_quote_text(out, call->from->state);
	put_json_begin(printer, call);
	if (probe) {
		out_literal(out, ",\"probe\":");
		json_quote_text(out, probe->spec);
		out_literal(out, ",\"args\":");
		json_put_arguments(out, &call->event, call->first);
	} else {
		put_json_number(out, "probe_id", call->from->probe);
	}
	put_json_stack(printer, call);
	out_literal(out, "}\n");
}

/* The last object: what the others do not show. */
static void put_json_end(struct printer *printer)
{
	struct out *out = printer->out;

	out_literal(out, "{\"threads\":");
	out_u64(out, printer->stuck->n_thread);
	put_json_number(out, "time", printer->stuck->monotonic_ns);
	put_json_number(out, "undated", printer->stuck->undated);
	put_json_number(out, "left_out", printer->stuck->left_out);
	put_json_number(out, "foreign", printer->stuck->foreign);
	out_literal(out, "}\n");
}

/* ---- All ------------------------------------------------------------------------------------- */

int print_stuck(struct out *out, bool json, const struct ringtail_host *host,
		const struct catalog *catalog, const Ringtail__V1__Stuck *stuck)
{
	struct printer printer = {.out = out, .host = host, .stuck = stuck};
	struct call call;

	printer.names = stack_names_create(host);
	if (!printer.names)
		return -ENOMEM;
	wall_clock_init(&printer.clock, json);
	wall_clock_set(&printer.clock, host->monotonic_ns, host->realtime_ns);
	for (size_t i = 0; i < stuck->n_thread; i++) {
		take_call(catalog, stuck->thread[i], &call);
		if (json)
			put_json(&printer, &call);
		else
			put_text(&printer, &call);
	}
	if (json)
		put_json_end(&printer);
	else
		put_text_end(&printer);
	stack_names_destroy(printer.names);
	return 0;
}
