#include "client/cli/event_part.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/kernel_text.h"
#include "client/cli/text_value.h"
#include "query/container.h"
#include "query/filter.h"
#include "query/socket_text.h"

/* The text of a path; what is longer is cut. */
#define PART_BYTES_MAX	512u

static int field_of(const struct ringtail_probe *probe, const char *name)
{
	name = filter_field_name(name);
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
int event_part_error(const struct ringtail_item *event)
{
	int i = field_of(event->probe, "ret");

	return i >= 0 && !never_returns(event) && errno_failed(event->value[i]) ?
		       (int)-(int64_t)event->value[i] : 0;
}

static bool put_error(struct out *out, const struct ringtail_item *event)
{
	int number = event_part_error(event);

	if (!number)
		out_literal(out, "none");
	else if (errno_name(number))
		out_text(out, errno_name(number));
	else
		out_u64(out, (uint64_t)number);
	return true;
}

static bool put_text(struct out *out, const uint8_t *text, size_t bytes)
{
	char copy[PART_BYTES_MAX];

	snprintf(copy, sizeof(copy), "%.*s", (int)bytes, (const char *)text);
	out_visible(out, copy);
	return true;
}

/* What the kernel calls the value: of a tracepoint. */
static bool put_kernel_name(struct out *out, const struct ringtail_item *event, unsigned field)
{
	char text[KERNEL_TEXT_BYTES];

	if (event->probe->kind != RINGTAIL_TRACEPOINT || !kernel_text_name(event, field, text))
		return false;
	out_visible(out, text);
	return true;
}

/* The text of a field: what is attached to it or in the record, without quotes, or its value. */
static bool put_field(struct out *out, const struct ringtail_item *event, const char *name,
		      bool *number)
{
	int i = field_of(event->probe, name);

	if (i < 0 || (i < 2 && never_returns(event)))
		return false;
	for (size_t k = 0; k < event->attachments; k++)
		if (event->attachment[k].kind == RINGTAIL_ATTACHED_STRING &&
		    event->attachment[k].field == (unsigned)i)
			return put_text(out, event->attachment[k].text, event->attachment[k].text_bytes);
	if (event->probe->field[i].type == RINGTAIL_TEXT) {
		size_t bytes;
		const uint8_t *text = ringtail_bytes(event, (unsigned)i, &bytes, NULL);

		return text && put_text(out, text, bytes);
	}
	if (put_kernel_name(out, event, (unsigned)i))
		return true;
	*number = event->probe->field[i].type == RINGTAIL_UNSIGNED ||
		  event->probe->field[i].type == RINGTAIL_SIGNED ||
		  event->probe->field[i].type == RINGTAIL_FD;
	text_value(out, event, (unsigned)i);
	return true;
}

static bool put_bytes(struct out *out, const char *text, size_t bytes)
{
	return text && bytes && put_text(out, (const uint8_t *)text, bytes);
}

/* The first text that is attached of a path; or, `socket`, of an address. NULL: none. */
static const struct ringtail_attachment *attached(const struct ringtail_item *event, bool socket)
{
	for (size_t k = 0; k < event->attachments; k++) {
		const struct ringtail_attachment *at = &event->attachment[k];

		if (at->kind == RINGTAIL_ATTACHED_STRING && at->field < event->probe->fields &&
		    !strcmp(event->probe->field[at->field].c_type, "struct sockaddr *") == socket)
			return at;
	}
	return NULL;
}

static bool put_attached(struct out *out, const struct ringtail_item *event, bool socket)
{
	const struct ringtail_attachment *at = attached(event, socket);

	return at && put_bytes(out, (const char *)at->text, at->text_bytes);
}

static bool put_port(struct out *out, const struct ringtail_item *event)
{
	const struct ringtail_attachment *at = attached(event, true);
	struct socket_host host;
	uint16_t port;

	if (!at || !socket_text_parse((const char *)at->text, at->text_bytes, &host, &port))
		return false;
	out_u64(out, port);
	return true;
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
	if (!strcmp(name, "port") && field_of(event->probe, name) < 0)
		return put_port(out, event);
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

bool event_part_put(struct out *out, const struct ringtail_item *event, const char *name, bool *number)
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

bool event_part_value(const struct ringtail_item *event, const char *name, uint64_t *value, bool *of_time)
{
	int i = field_of(event->probe, name);
	const struct ringtail_field *field;

	if (i < 0 || (i < 2 && never_returns(event)))
		return false;
	field = &event->probe->field[i];
	*of_time = field->type == RINGTAIL_DURATION;
	*value = ringtail_value(field, event->value[i]);
	return !((field->type == RINGTAIL_SIGNED || field->type == RINGTAIL_RESULT || field->type == RINGTAIL_FD) &&
		 (int64_t)*value < 0);
}

bool event_part_number(const struct ringtail_item *event, const char *name, uint64_t *number)
{
	int i;

	if (!strcmp(name, "pid"))
		*number = event->thread.pid;
	else if (!strcmp(name, "tid"))
		*number = event->thread.tid;
	else if (!strcmp(name, "cpu"))
		*number = event->cpu;
	else if ((i = field_of(event->probe, name)) < 0)
		return false;
	else
		*number = ringtail_value(&event->probe->field[i], event->value[i]);
	return true;
}
