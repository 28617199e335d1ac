/*
 * export_loki: events as lines of Loki's push API. Few streams: their labels are service, host and
 * class; the rest of an event is structured metadata. A line is at most EXPORT_BODY_BYTES, well under
 * Loki's 256 KiB, and within a stream lines are in the order of time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "query/digits.h"
#include "daemon/export/kind.h"
#include "daemon/export/pack.h"
#include "kmod/uapi/ringtail.h"

#define LABELS_BYTES		256u
#define ENTRY_BYTES_EXPECTED	400u

static size_t size_of(size_t bytes)
{
	return bytes ? export_pack_size(bytes) : 0;
}

/* A pair of structured metadata. */
static void add_bytes(struct export_pack *pack, const char *name, const char *value, size_t bytes)
{
	size_t name_bytes = strlen(name);
	size_t pair_bytes = size_of(name_bytes) + size_of(bytes);
	uint8_t *at = export_pack_room(pack, pair_bytes);

	if (!at)
		return;
	at = wire_put(wire_put_tag(at, 3, WIRE_BYTES), pair_bytes);
	at = wire_put_bytes(at, 1, name, name_bytes);
	export_pack_advance(pack, wire_put_bytes(at, 2, value, bytes));
}

static void add_text(struct export_pack *pack, const char *name, const char *value)
{
	add_bytes(pack, name, value, strlen(value));
}

static void add_number(struct export_pack *pack, const char *name, uint64_t value)
{
	char text[DIGITS_BYTES_MAX], *end = text + sizeof(text), *begin = digits_before(end, value);

	add_bytes(pack, name, begin, (size_t)(end - begin));
}

static void add_signed(struct export_pack *pack, const char *name, int64_t value)
{
	char text[DIGITS_BYTES_MAX], *end = text + sizeof(text), *begin = digits_signed_before(end, value);

	add_bytes(pack, name, begin, (size_t)(end - begin));
}

/* What is not known is not there. */
static void add_known(struct export_pack *pack, const char *name, const char *value)
{
	if (value && *value)
		add_text(pack, name, value);
}

static void add_context(struct export_pack *pack, const struct export_context *context)
{
	add_known(pack, "exe", context->exe);
	add_known(pack, "exe_path", context->exe_path);
	add_known(pack, "cgroup", context->cgroup);
	add_known(pack, "container", context->container);
	add_known(pack, "container_runtime", context->runtime);
	add_known(pack, "pod", context->pod);
	add_known(pack, "unit", context->unit);
}

/* The first is `path`, or `address`, as people look for it; the others have their fields' names. */
static void add_strings(struct export_pack *pack, const struct export_event *event)
{
	const char *address = export_event_address(event);

	for (unsigned i = 0; i < event->strings; i++)
		if (event->string[i] == address)
			add_known(pack, "address", address);
		else if (!i)
			add_known(pack, "path", event->string[i]);
		else if (event->string_field[i] < event->fields)
			add_known(pack, event->probe->field[event->string_field[i]]->name,
				  event->string[i]);
}

/* Loki, and Grafana over it, call it the line's level. */
static const char *level_of(enum export_class class)
{
	switch (class) {
	case EXPORT_ERROR:
		return "error";
	case EXPORT_SLOW:
	case EXPORT_EXIT:
		return "warn";
	default:
		return "info";
	}
}

static void add_all(struct export_pack *pack, const struct export_event *event)
{
	int number = export_event_errno(event);
	char comm[17];

	export_event_comm(event, comm);
	add_text(pack, "level", level_of(event->class));
	add_number(pack, "pid", event->thread.pid);
	add_number(pack, "tid", event->thread.tid);
	add_text(pack, "comm", comm);
	add_number(pack, "cpu", event->cpu);
	add_text(pack, "event", export_event_is_call(event) ? event->probe->function :
								event->probe->name);
	add_number(pack, "ppid", event->thread.ppid);
	add_number(pack, "uid", event->thread.uid);
	if (event->context)
		add_context(pack, event->context);
	add_strings(pack, event);
	if (number && strerrorname_np(number))
		add_text(pack, "errno", strerrorname_np(number));
	if (export_event_is_call(event) && event->field[0] != RT_DURATION_NEVER) {
		add_number(pack, "duration_ns", event->field[0]);
		add_signed(pack, "ret", (int64_t)event->field[1]);
	}
	if (event->class == EXPORT_EXIT && !export_event_is_call(event) &&
	    export_event_signal(event) > 0) {
		char name[24];

		add_text(pack, "signal", export_event_signal_name(export_event_signal(event), name));
	}
	if (event->class == EXPORT_SLOW) {
		const struct trace_place place = export_event_place(event);
		char text[TRACE_ID_TEXT_BYTES];
		uint8_t id[TRACE_ID_BYTES];

		trace_id_make(&place, id);
		trace_id_text(id, text);
		add_text(pack, "trace_id", text);
	}
}

static void put_time(struct export_pack *pack, uint64_t ns)
{
	struct export_pack_place place = export_pack_open(pack, 1, 12);

	export_pack_scalar(pack, 1, ns / NS_PER_S);
	export_pack_scalar(pack, 2, ns % NS_PER_S);
	export_pack_close(pack, place);
}

static void put_entry(const struct export_maker *maker, struct export_pack *pack, const struct export_event *event)
{
	struct export_pack_place place = export_pack_open(pack, 2, ENTRY_BYTES_EXPECTED);
	char line[EXPORT_BODY_BYTES];

	put_time(pack, event->time_ns + maker->to_realtime_ns);
	export_pack_bytes(pack, 2, line, export_event_body(event, line));
	add_all(pack, event);
	export_pack_close(pack, place);
}

/* {class="slow", host="a", service="ringtail"}: nothing in a host's name ends it. */
static void put_labels(const struct export_maker *maker, struct export_pack *pack, enum export_class class)
{
	char host[sizeof(maker->run->name)], labels[LABELS_BYTES];
	size_t i;

	for (i = 0; maker->run->name[i]; i++)
		host[i] = strchr("\"\\", maker->run->name[i]) ? '?' : maker->run->name[i];
	host[i] = '\0';
	snprintf(labels, sizeof(labels), "{class=\"%s\", host=\"%s\", service=\"ringtail\"}",
		 export_class_name(class), host);
	export_pack_text(pack, 1, labels);
}

/* The events of one class are a stream. */
static int build(const struct export_maker *maker, const struct export_list *events,
		 struct export_body *body)
{
	const struct export_event *event;
	struct export_pack pack = {0};
	size_t n[EXPORT_NOTHING] = {0}, all = 0;

	TAILQ_FOREACH(event, events, link) {
		n[event->class]++;
		all++;
	}
	for (unsigned i = 0; i < EXPORT_NOTHING; i++) {
		struct export_pack_place place;

		if (!n[i])
			continue;
		place = export_pack_open(&pack, 1, n[i] * ENTRY_BYTES_EXPECTED);
		put_labels(maker, &pack, i);
		TAILQ_FOREACH(event, events, link)
			if (event->class == i)
				put_entry(maker, &pack, event);
		export_pack_close(&pack, place);
	}
	return export_pack_finish(&pack, body, all);
}

const struct export_kind export_loki = {
	.name = "loki",
	.path = "/loki/api/v1/push",
	.encoding = EXPORT_SNAPPY,
	.build = build,
	.judge = export_judge,
};
