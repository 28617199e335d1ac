/*
 * export_loki: events as lines of Loki's push API. Few streams: their labels are service, host and
 * class; the rest of an event is structured metadata. A line is at most EXPORT_BODY_BYTES, well under
 * Loki's 256 KiB, and within a stream lines are in the order of time.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/export/kind.h"
#include "kmod/uapi/ringtail.h"
#include "proto/export/loki.pb-c.h"

#define LABELS_BYTES	256u
#define PAIRS_MAX	(21u + EXPORT_STRINGS_MAX)
#define PAIR_VALUE_BYTES (STRING_BYTES_MAX + 8u)
#define PAIR_BYTES	(EXPORT_ARENA_ROUND(sizeof(Ringtail__Loki__Pair)) +	\
			 EXPORT_ARENA_ROUND(PAIR_VALUE_BYTES) + sizeof(void *))
#define ENTRY_BYTES	(PAIRS_MAX * PAIR_BYTES + EXPORT_BODY_BYTES +		\
			 sizeof(Ringtail__Loki__Entry) + sizeof(Ringtail__Loki__Timestamp) + 64u)

struct pairs {
	struct export_arena *arena;
	Ringtail__Loki__Entry *entry;
};

__attribute__((format(printf, 3, 4)))
static void add(struct pairs *pairs, const char *name, const char *format, ...)
{
	Ringtail__Loki__Pair *pair = export_arena_take(pairs->arena, sizeof(*pair));
	va_list args;

	ringtail__loki__pair__init(pair);
	pair->name = (char *)name;
	pair->value = export_arena_take(pairs->arena, PAIR_VALUE_BYTES);
	va_start(args, format);
	vsnprintf(pair->value, PAIR_VALUE_BYTES, format, args);
	va_end(args);
	pairs->entry->structured_metadata[pairs->entry->n_structured_metadata++] = pair;
}

/* Lives as long as the event does. What is not known is not there. */
static void add_known(struct pairs *pairs, const char *name, const char *value)
{
	Ringtail__Loki__Pair *pair;

	if (!value || !*value)
		return;
	pair = export_arena_take(pairs->arena, sizeof(*pair));
	ringtail__loki__pair__init(pair);
	pair->name = (char *)name;
	pair->value = (char *)value;
	pairs->entry->structured_metadata[pairs->entry->n_structured_metadata++] = pair;
}

static void add_context(struct pairs *pairs, const struct export_context *context)
{
	add_known(pairs, "exe", context->exe);
	add_known(pairs, "exe_path", context->exe_path);
	add_known(pairs, "cgroup", context->cgroup);
	add_known(pairs, "container", context->container);
	add_known(pairs, "container_runtime", context->runtime);
	add_known(pairs, "pod", context->pod);
	add_known(pairs, "unit", context->unit);
}

/* The first is `path`, or `address`, as people look for it; the others have their fields' names. */
static void add_strings(struct pairs *pairs, const struct export_event *event)
{
	const char *address = export_event_address(event);

	for (unsigned i = 0; i < event->strings; i++)
		if (event->string[i] == address)
			add_known(pairs, "address", address);
		else if (!i)
			add_known(pairs, "path", event->string[i]);
		else if (event->string_field[i] < event->fields)
			add_known(pairs, event->probe->field[event->string_field[i]]->name,
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

static void add_all(struct pairs *pairs, const struct export_event *event)
{
	int number = export_event_errno(event);
	char comm[17];

	export_event_comm(event, comm);
	add(pairs, "level", "%s", level_of(event->class));
	add(pairs, "pid", "%u", event->thread.pid);
	add(pairs, "tid", "%u", event->thread.tid);
	add(pairs, "comm", "%s", comm);
	add(pairs, "cpu", "%u", event->cpu);
	add(pairs, "event", "%s", export_event_is_call(event) ? event->probe->function :
								event->probe->name);
	add(pairs, "ppid", "%u", event->thread.ppid);
	add(pairs, "uid", "%u", event->thread.uid);
	if (event->context)
		add_context(pairs, event->context);
	add_strings(pairs, event);
	if (number && strerrorname_np(number))
		add(pairs, "errno", "%s", strerrorname_np(number));
	if (export_event_is_call(event) && event->field[0] != RT_DURATION_NEVER) {
		add(pairs, "duration_ns", "%llu", (unsigned long long)event->field[0]);
		add(pairs, "ret", "%lld", (long long)event->field[1]);
	}
	if (event->class == EXPORT_EXIT && !export_event_is_call(event) &&
	    export_event_signal(event) > 0) {
		char name[24];

		add(pairs, "signal", "%s", export_event_signal_name(export_event_signal(event), name));
	}
	if (event->class == EXPORT_SLOW) {
		const struct trace_place place = export_event_place(event);
		char text[TRACE_ID_TEXT_BYTES];
		uint8_t id[TRACE_ID_BYTES];

		trace_id_make(&place, id);
		trace_id_text(id, text);
		add(pairs, "trace_id", "%s", text);
	}
}

static Ringtail__Loki__Entry *make_entry(const struct export_maker *maker,
					 const struct export_event *event)
{
	Ringtail__Loki__Entry *entry = export_arena_take(maker->arena, sizeof(*entry));
	Ringtail__Loki__Timestamp *time = export_arena_take(maker->arena, sizeof(*time));
	uint64_t ns = event->time_ns + maker->to_realtime_ns;
	struct pairs pairs = {maker->arena, entry};

	ringtail__loki__timestamp__init(time);
	time->seconds = (int64_t)(ns / NS_PER_S);
	time->nanos = (int32_t)(ns % NS_PER_S);
	ringtail__loki__entry__init(entry);
	entry->timestamp = time;
	entry->line = export_arena_take(maker->arena, EXPORT_BODY_BYTES);
	export_event_body(event, entry->line);
	entry->structured_metadata =
		export_arena_take(maker->arena, PAIRS_MAX * sizeof(*entry->structured_metadata));
	add_all(&pairs, event);
	return entry;
}

/* {class="slow", host="a", service="ringtail"}: nothing in a host's name ends it. */
static void set_labels(const struct export_maker *maker, Ringtail__Loki__Stream *stream,
		       enum export_class class)
{
	char host[sizeof(maker->run->name)];
	size_t i;

	for (i = 0; maker->run->name[i]; i++)
		host[i] = strchr("\"\\", maker->run->name[i]) ? '?' : maker->run->name[i];
	host[i] = '\0';
	stream->labels = export_arena_take(maker->arena, LABELS_BYTES);
	snprintf(stream->labels, LABELS_BYTES, "{class=\"%s\", host=\"%s\", service=\"ringtail\"}",
		 export_class_name(class), host);
}

static int build(const struct export_maker *maker, const struct export_list *events,
		 struct export_body *body)
{
	Ringtail__Loki__PushRequest request = RINGTAIL__LOKI__PUSH_REQUEST__INIT;
	Ringtail__Loki__Stream stream[EXPORT_NOTHING], *list[EXPORT_NOTHING];
	const struct export_event *event;
	size_t n[EXPORT_NOTHING] = {0}, all = 0;

	TAILQ_FOREACH(event, events, link) {
		n[event->class]++;
		all++;
	}
	if (export_arena_reserve(maker->arena, EXPORT_NOTHING * (LABELS_BYTES + 16u) +
				 all * (ENTRY_BYTES + sizeof(void *))) != 0)
		return -ENOMEM;
	for (unsigned i = 0; i < EXPORT_NOTHING; i++) {
		ringtail__loki__stream__init(&stream[i]);
		if (!n[i])
			continue;
		set_labels(maker, &stream[i], i);
		stream[i].entries = export_arena_take(maker->arena,
						      n[i] * sizeof(*stream[i].entries));
		list[request.n_streams++] = &stream[i];
	}
	TAILQ_FOREACH(event, events, link)
		stream[event->class].entries[stream[event->class].n_entries++] =
			make_entry(maker, event);
	request.streams = list;
	return export_body_pack(body, &request.base, all);
}

static void judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
{
	/* The words of its distributor, and of its ingester of old and today. */
	static const char *const too_old[] = {"timestamp too old", "out of order", "too far behind"};

	export_judge(status, answer, bytes, verdict);
	for (size_t i = 0; i < sizeof(too_old) / sizeof(too_old[0]); i++)
		if (strstr(verdict->message, too_old[i]))
			verdict->too_old = true;
}

const struct export_kind export_loki = {
	.name = "loki",
	.path = "/loki/api/v1/push",
	.encoding = EXPORT_SNAPPY,
	.build = build,
	.judge = judge,
};
