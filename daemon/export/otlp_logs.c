/* export_otlp_logs: events as OTLP log records: one line each, and everything else as attributes. */
#include <errno.h>
#include <stdio.h>

#include "daemon/export/otlp.h"

#define RECORD_BYTES							\
	(OTLP_EVENT_BYTES + EXPORT_BODY_BYTES + NAME_BYTES_MAX +	\
	 sizeof(Ringtail__Otlp__LogRecord) + TRACE_ID_BYTES + SPAN_ID_BYTES + 256u)

/* OTLP's SeverityNumber, and its short name. */
static void set_severity(Ringtail__Otlp__LogRecord *record, enum export_class class)
{
	switch (class) {
	case EXPORT_ERROR:
		record->severity_number = 17;
		record->severity_text = (char *)"ERROR";
		break;
	case EXPORT_SLOW:
	case EXPORT_EXIT:
		record->severity_number = 13;
		record->severity_text = (char *)"WARN";
		break;
	default:
		record->severity_number = 9;
		record->severity_text = (char *)"INFO";
	}
}

/* What kind of thing happened, of few: "ringtail.syscall.openat", "ringtail.sched_process_exec". */
static char *event_name(struct export_arena *arena, const struct export_event *event)
{
	char *name = export_arena_take(arena, NAME_BYTES_MAX + 32);
	bool call = export_event_is_call(event);

	snprintf(name, NAME_BYTES_MAX + 32, "ringtail.%s%s", call ? "syscall." : "",
		 call ? event->probe->function : event->probe->name);
	return name;
}

/* A slow call is a trace of its own: the log leads there. */
static void set_trace(const struct export_maker *maker, Ringtail__Otlp__LogRecord *record,
		      const struct export_event *event)
{
	const struct trace_place place = export_event_place(event);

	record->trace_id.len = TRACE_ID_BYTES;
	record->trace_id.data = export_arena_take(maker->arena, TRACE_ID_BYTES);
	record->span_id.len = SPAN_ID_BYTES;
	record->span_id.data = export_arena_take(maker->arena, SPAN_ID_BYTES);
	trace_id_make(&place, record->trace_id.data);
	trace_id_make_span(&place, record->span_id.data);
}

static Ringtail__Otlp__LogRecord *make_record(const struct export_maker *maker,
					      const struct export_event *event)
{
	Ringtail__Otlp__LogRecord *record = export_arena_take(maker->arena, sizeof(*record));
	char *line = export_arena_take(maker->arena, EXPORT_BODY_BYTES);
	struct otlp_attributes attributes;

	ringtail__otlp__log_record__init(record);
	record->time_unix_nano = event->time_ns + maker->to_realtime_ns;
	record->observed_time_unix_nano = record->time_unix_nano;
	record->event_name = event_name(maker->arena, event);
	set_severity(record, event->class);
	export_event_body(event, line);
	record->body = otlp_text(maker->arena, line);
	otlp_attributes_init(&attributes, maker->arena, OTLP_EVENT_ATTRIBUTES_MAX);
	otlp_add_event(&attributes, event);
	record->attributes = attributes.list;
	record->n_attributes = attributes.n;
	if (event->class == EXPORT_SLOW)
		set_trace(maker, record, event);
	return record;
}

static int build(const struct export_maker *maker, const struct export_list *events,
		 struct export_body *body)
{
	Ringtail__Otlp__LogsRequest request = RINGTAIL__OTLP__LOGS_REQUEST__INIT;
	Ringtail__Otlp__ResourceLogs resource = RINGTAIL__OTLP__RESOURCE_LOGS__INIT;
	Ringtail__Otlp__ScopeLogs scope = RINGTAIL__OTLP__SCOPE_LOGS__INIT;
	Ringtail__Otlp__ResourceLogs *resources = &resource;
	Ringtail__Otlp__ScopeLogs *scopes = &scope;
	const struct export_event *event;
	size_t n = 0;

	TAILQ_FOREACH(event, events, link)
		n++;
	if (export_arena_reserve(maker->arena, OTLP_COMMON_BYTES +
				 n * (RECORD_BYTES + sizeof(void *))) != 0)
		return -ENOMEM;
	scope.log_records = export_arena_take(maker->arena, n * sizeof(*scope.log_records));
	TAILQ_FOREACH(event, events, link)
		scope.log_records[scope.n_log_records++] = make_record(maker, event);
	scope.scope = otlp_scope(maker);
	resource.resource = otlp_resource(maker, true);
	resource.schema_url = scope.schema_url = OTLP_SCHEMA_URL;
	resource.scope_logs = &scopes;
	resource.n_scope_logs = 1;
	request.resource_logs = &resources;
	request.n_resource_logs = 1;
	body->items = n;
	return otlp_pack(&request.base, body);
}

const struct export_kind export_otlp_logs = {
	.name = "otlp-logs",
	.path = "/v1/logs",
	.encoding = EXPORT_GZIP,
	.build = build,
	.judge = otlp_judge,
};
