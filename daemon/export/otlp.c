/*
 * export_otlp: events as OTLP logs and traces, and snapshots of metrics.
 *
 * Names are those of OpenTelemetry's semantic conventions where there are any (process.*, thread.*,
 * network.*, host.*, os.*, error.type); system calls have none, so theirs begin with ringtail.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/kind.h"
#include "daemon/export/tree.h"
#include "kmod/uapi/ringtail.h"
#include "proto/export/otlp.pb-c.h"
#include "proto/message.h"

#define OTLP_EVENT_ATTRIBUTES_MAX	(21u + PROBE_FIELDS_MAX)
#define OTLP_RESOURCE_ATTRIBUTES_MAX	9u

/* The version of the semantic conventions whose names these are. */
#define OTLP_SCHEMA_URL	((char *)"https://opentelemetry.io/schemas/1.29.0")

/* What the attributes of one event take of an arena, at most. */
#define OTLP_KEY_BYTES_MAX		(NAME_BYTES_MAX + 32u)
#define OTLP_VALUE_BYTES_MAX		(STRING_BYTES_MAX + 8u)
#define OTLP_ATTRIBUTE_BYTES						\
	(EXPORT_ARENA_ROUND(sizeof(Ringtail__Otlp__KeyValue)) +		\
	 EXPORT_ARENA_ROUND(sizeof(Ringtail__Otlp__AnyValue)) + sizeof(void *) + \
	 OTLP_KEY_BYTES_MAX + OTLP_VALUE_BYTES_MAX + 64u)
#define OTLP_EVENT_BYTES (OTLP_EVENT_ATTRIBUTES_MAX * OTLP_ATTRIBUTE_BYTES + 1024u)
#define OTLP_COMMON_BYTES (OTLP_RESOURCE_ATTRIBUTES_MAX * OTLP_ATTRIBUTE_BYTES + 2048u)

struct attributes {
	struct export_arena *arena;
	size_t n, max;
	Ringtail__Otlp__KeyValue **list;
};

/* ---- Attributes ------------------------------------------------------------------------------ */

static void attributes_init(struct attributes *attributes, struct export_arena *arena,
			    size_t max)
{
	attributes->arena = arena;
	attributes->n = 0;
	attributes->max = max;
	attributes->list = export_arena_take(arena, max * sizeof(*attributes->list));
}

static Ringtail__Otlp__AnyValue *add(struct attributes *attributes, const char *key)
{
	Ringtail__Otlp__KeyValue *pair = export_arena_take(attributes->arena, sizeof(*pair));

	assert(attributes->n < attributes->max);
	ringtail__otlp__key_value__init(pair);
	pair->key = (char *)key;
	pair->value = export_arena_take(attributes->arena, sizeof(*pair->value));
	ringtail__otlp__any_value__init(pair->value);
	attributes->list[attributes->n++] = pair;
	return pair->value;
}

static void set_text(Ringtail__Otlp__AnyValue *any, const char *value)
{
	any->value_case = RINGTAIL__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	any->string_value = (char *)value;
}

/* The texts are borrowed until the message is packed. */
static void add_text(struct attributes *attributes, const char *key, const char *value)
{
	set_text(add(attributes, key), value);
}

static void add_number(struct attributes *attributes, const char *key, int64_t value)
{
	Ringtail__Otlp__AnyValue *any = add(attributes, key);

	any->value_case = RINGTAIL__OTLP__ANY_VALUE__VALUE_INT_VALUE;
	any->int_value = value;
}

static Ringtail__Otlp__AnyValue *make_text(struct export_arena *arena, const char *value)
{
	Ringtail__Otlp__AnyValue *any = export_arena_take(arena, sizeof(*any));

	ringtail__otlp__any_value__init(any);
	set_text(any, value);
	return any;
}

/* ---- An event -------------------------------------------------------------------------------- */

static void add_thread(struct attributes *attributes, const struct export_event *event)
{
	char comm[17];
	const char *copy;

	export_event_comm(event, comm);
	copy = export_arena_text(attributes->arena, comm);
	add_number(attributes, "process.pid", event->thread.pid);
	add_number(attributes, "process.parent_pid", event->thread.ppid);
	add_number(attributes, "process.user.id", event->thread.uid);
	add_number(attributes, "thread.id", event->thread.tid);
	add_text(attributes, "thread.name", copy);
}

/* What is not known is not there. */
static void add_known(struct attributes *attributes, const char *key, const char *value)
{
	if (value && *value)
		add_text(attributes, key, value);
}

static void add_context(struct attributes *attributes, const struct export_event *event)
{
	const struct export_context *context = event->context;

	if (!context)
		return;
	add_known(attributes, "process.executable.name", context->exe);
	add_known(attributes, "process.executable.path", context->exe_path);
	add_known(attributes, "process.linux.cgroup", context->cgroup);
	add_known(attributes, "container.id", context->container);
	add_known(attributes, "container.runtime", context->runtime);
	add_known(attributes, "k8s.pod.uid", context->pod);
	add_known(attributes, "ringtail.systemd.unit", context->unit);
}

static void add_value(struct attributes *attributes, const struct export_event *event,
		      unsigned field)
{
	const Ringtail__V1__Field *as = event->probe->field[field];
	char key[OTLP_KEY_BYTES_MAX], value[OTLP_VALUE_BYTES_MAX];
	const char *copy;

	if (as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_MORE)
		return;
	snprintf(key, sizeof(key), "ringtail.%s.%.200s",
		 export_event_is_call(event) ? "syscall.arg" : "event", as->name);
	copy = export_arena_text(attributes->arena, key);
	if (as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX ||
	    as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING ||
	    as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT) {
		export_event_value_text(event, field, value, sizeof(value));
		add_text(attributes, copy, export_arena_text(attributes->arena, value));
	} else {
		add_number(attributes, copy, (int64_t)export_event_value(event, field));
	}
}

/*
 * The address of a socket, in the conventions' two parts: that of the peer, or bind's own. Of what has
 * neither host nor path (query/socket_text.h), the argument says all there is.
 */
static void add_address(struct attributes *attributes, const struct export_event *event)
{
	bool is_own = !strcmp(event->probe->function, "bind");
	const char *text = export_event_address(event), *colon;
	char *host;

	if (!text)
		return;
	host = export_arena_text(attributes->arena, text);
	if (*text == '[' || isdigit((unsigned char)*text)) {
		colon = strrchr(text, ':');
		if (!colon)
			return;
		host[colon - text - (*text == '[')] = '\0';
		host += *text == '[';
		add_number(attributes, is_own ? "network.local.port" : "network.peer.port",
			   strtol(colon + 1, NULL, 10));
	} else if (!*text || !strchr("/.@", *text)) {
		return;
	}
	add_text(attributes, is_own ? "network.local.address" : "network.peer.address", host);
}

static void add_call(struct attributes *attributes, const struct export_event *event)
{
	int number = export_event_errno(event);
	const char *name = number ? strerrorname_np(number) : NULL;

	add_text(attributes, "ringtail.syscall.name", event->probe->function);
	for (unsigned i = 2; i < event->fields; i++)
		add_value(attributes, event, i);
	add_address(attributes, event);
	if (event->field[0] == RT_DURATION_NEVER)
		return;
	add_number(attributes, "ringtail.syscall.duration_ns", (int64_t)event->field[0]);
	add_number(attributes, "ringtail.syscall.ret", (int64_t)event->field[1]);
	if (name)
		add_text(attributes, "error.type", name);
}

/* Everything an event has to say of itself. */
static void add_event(struct attributes *attributes, const struct export_event *event)
{
	add_thread(attributes, event);
	add_context(attributes, event);
	add_number(attributes, "ringtail.cpu", event->cpu);
	add_text(attributes, "ringtail.class", export_class_name(event->class));
	if (export_event_is_call(event)) {
		add_call(attributes, event);
		return;
	}
	if (event->class == EXPORT_EXIT && export_event_signal(event) > 0) {
		char name[24];

		export_event_signal_name(export_event_signal(event), name);
		add_text(attributes, "ringtail.signal",
			 export_arena_text(attributes->arena, name));
	}
	/* What it was called by is another name, mostly, than the path of what it is. */
	if (event->class == EXPORT_EXEC && event->strings &&
	    !(event->context && event->context->exe_path))
		add_text(attributes, "process.executable.path", event->string[0]);
	else
		for (unsigned i = 0; i < event->fields; i++)
			add_value(attributes, event, i);
}

/* ---- Around the events ----------------------------------------------------------------------- */

/*
 * The host: the same over boots, for a back end may make a series of each resource. with_boot: says
 * which boot it was, too, where each item is a thing of its own.
 */
static Ringtail__Otlp__Resource *make_resource(const struct export_maker *maker, bool with_boot)
{
	const struct export_run *run = maker->run;
	Ringtail__Otlp__Resource *resource = export_arena_take(maker->arena, sizeof(*resource));
	struct attributes attributes;

	attributes_init(&attributes, maker->arena, OTLP_RESOURCE_ATTRIBUTES_MAX);
	add_text(&attributes, "service.name", "ringtail");
	add_text(&attributes, "service.version", RINGTAIL_VERSION);
	/* As `instance` of remote write and `host` of Loki: one name everywhere. */
	add_text(&attributes, "service.instance.id", run->name);
	add_text(&attributes, "host.name", run->name);
	if (run->host_id[0])
		add_text(&attributes, "host.id", run->host_id);
	if (with_boot)
		add_text(&attributes, "ringtail.boot.id", run->boot_text);
	add_text(&attributes, "host.arch",
		 strcmp(run->machine, "x86_64") == 0 ? "amd64" :
		 strcmp(run->machine, "aarch64") == 0 ? "arm64" : run->machine);
	add_text(&attributes, "os.type", "linux");
	add_text(&attributes, "os.version", run->kernel);
	ringtail__otlp__resource__init(resource);
	resource->attributes = attributes.list;
	resource->n_attributes = attributes.n;
	return resource;
}

static Ringtail__Otlp__Scope *make_scope(const struct export_maker *maker)
{
	Ringtail__Otlp__Scope *scope = export_arena_take(maker->arena, sizeof(*scope));

	ringtail__otlp__scope__init(scope);
	scope->name = (char *)"ringtail";
	scope->version = (char *)RINGTAIL_VERSION;
	return scope;
}

/* Partial success is counted; an answer that is no protobuf is as good as an empty one. */
static void judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
{
	Ringtail__Otlp__Response *response;

	export_judge_status(status, verdict);
	if (verdict->outcome != EXPORT_ACCEPTED) {
		export_judge_text(answer, bytes, verdict);
		return;
	}
	response = message_unpack(&ringtail__otlp__response__descriptor, NULL, answer, bytes);
	if (response && response->partial_success) {
		const Ringtail__Otlp__PartialSuccess *partial = response->partial_success;
		const char *text = partial->error_message;

		if (partial->rejected > 0)
			verdict->rejected = (uint64_t)partial->rejected;
		export_judge_text((const uint8_t *)text, strlen(text), verdict);
	}
	ringtail__otlp__response__free_unpacked(response, NULL);
}

/* ---- Logs: one line each, and everything else as attributes ---------------------------------- */

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
	struct attributes attributes;

	ringtail__otlp__log_record__init(record);
	record->time_unix_nano = event->time_ns + maker->to_realtime_ns;
	record->observed_time_unix_nano = record->time_unix_nano;
	record->event_name = event_name(maker->arena, event);
	set_severity(record, event->class);
	export_event_body(event, line);
	record->body = make_text(maker->arena, line);
	attributes_init(&attributes, maker->arena, OTLP_EVENT_ATTRIBUTES_MAX);
	add_event(&attributes, event);
	record->attributes = attributes.list;
	record->n_attributes = attributes.n;
	if (event->class == EXPORT_SLOW)
		set_trace(maker, record, event);
	return record;
}

static int build_logs(const struct export_maker *maker, const struct export_list *events,
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
	scope.scope = make_scope(maker);
	resource.resource = make_resource(maker, true);
	resource.schema_url = scope.schema_url = OTLP_SCHEMA_URL;
	resource.scope_logs = &scopes;
	resource.n_scope_logs = 1;
	request.resource_logs = &resources;
	request.n_resource_logs = 1;
	return export_body_pack(body, &request.base, n);
}

const struct export_kind export_otlp_logs = {
	.name = "otlp-logs",
	.path = "/v1/logs",
	.encoding = EXPORT_GZIP,
	.build = build_logs,
	.judge = judge,
};

/*
 * ---- Traces ------------------------------------------------------------------------------------
 *
 * A slow call is a trace of its own, whose id follows from its record, so that an exemplar leads to
 * it. In a process tree that is traced, calls are spans of their process too, and the slow call's own
 * trace has a link there.
 */

/* One event makes at most two spans. */
#define SPAN_BYTES							\
	(OTLP_EVENT_BYTES + 2 * (sizeof(Ringtail__Otlp__Span) +		\
				 sizeof(Ringtail__Otlp__Status) +	\
				 sizeof(Ringtail__Otlp__Link) + 512u))

static void *create(const struct export_host *host)
{
	return export_tree_create(host);
}

static void destroy(void *state)
{
	export_tree_destroy(state);
}

static bool is_own_trace(const struct export_event *event)
{
	return export_event_is_call(event) &&
	       (event->class == EXPORT_SLOW || event->class == EXPORT_EVENT);
}

static bool take(void *state, struct export_event *event)
{
	export_tree_take(state, event);
	if (event->span.is_process) {
		if (event->class == EXPORT_NOTHING)
			event->class = EXPORT_EVENT;	/* it ended as it should */
		return true;
	}
	if (is_own_trace(event))
		return true;
	return event->span.in_tree && event->class == EXPORT_ERROR;
}

static void set_bytes(struct export_arena *arena, ProtobufCBinaryData *to, const uint8_t *from,
		      size_t bytes)
{
	to->data = memcpy(export_arena_take(arena, bytes), from, bytes);
	to->len = bytes;
}

static void set_status(const struct export_maker *maker, Ringtail__Otlp__Span *span,
		       const char *message)
{
	span->status = export_arena_take(maker->arena, sizeof(*span->status));
	ringtail__otlp__status__init(span->status);
	span->status->code = RINGTAIL__OTLP__STATUS_CODE__STATUS_CODE_ERROR;
	span->status->message = (char *)message;
}

static Ringtail__Otlp__Span *make_span(const struct export_maker *maker,
				       const struct attributes *attributes,
				       const struct export_event *event)
{
	Ringtail__Otlp__Span *span = export_arena_take(maker->arena, sizeof(*span));
	int number = export_event_errno(event);

	ringtail__otlp__span__init(span);
	span->kind = RINGTAIL__OTLP__SPAN_KIND__SPAN_KIND_INTERNAL;
	span->name = event->probe->function;
	span->start_time_unix_nano = export_event_start_ns(event) + maker->to_realtime_ns;
	span->end_time_unix_nano = event->time_ns + maker->to_realtime_ns;
	span->attributes = attributes->list;
	span->n_attributes = attributes->n;
	set_bytes(maker->arena, &span->span_id, event->span.span_id, SPAN_ID_BYTES);
	if (number && strerrorname_np(number))
		set_status(maker, span, strerrorname_np(number));
	return span;
}

/* As part of its tree. */
static Ringtail__Otlp__Span *make_in_tree(const struct export_maker *maker,
					  const struct attributes *attributes,
					  const struct export_event *event)
{
	Ringtail__Otlp__Span *span = make_span(maker, attributes, event);

	set_bytes(maker->arena, &span->trace_id, event->span.trace_id, TRACE_ID_BYTES);
	if (event->span.has_parent)
		set_bytes(maker->arena, &span->parent_span_id, event->span.parent_id,
			  SPAN_ID_BYTES);
	if (event->span.is_process) {
		span->name = export_arena_text(maker->arena, event->span.name);
		span->start_time_unix_nano = event->span.start_ns + maker->to_realtime_ns;
		if (event->class == EXPORT_EXIT)
			set_status(maker, span, "killed by a signal");
		else if (event->span.has_exit_code && event->span.exit_code)
			set_status(maker, span, "exit status other than 0");
	}
	return span;
}

/* As a trace that is found by its record. */
static Ringtail__Otlp__Span *make_own(const struct export_maker *maker,
				      const struct attributes *attributes,
				      const struct export_event *event)
{
	const struct trace_place place = export_event_place(event);
	Ringtail__Otlp__Span *span = make_span(maker, attributes, event);
	uint8_t id[TRACE_ID_BYTES];

	trace_id_make(&place, id);
	set_bytes(maker->arena, &span->trace_id, id, sizeof(id));
	if (event->span.in_tree) {
		Ringtail__Otlp__Link *link = export_arena_take(maker->arena, sizeof(*link));

		ringtail__otlp__link__init(link);
		set_bytes(maker->arena, &link->trace_id, event->span.trace_id, TRACE_ID_BYTES);
		set_bytes(maker->arena, &link->span_id, event->span.span_id, SPAN_ID_BYTES);
		span->links = export_arena_take(maker->arena, sizeof(*span->links));
		span->links[0] = link;
		span->n_links = 1;
	}
	return span;
}

static void make_spans(const struct export_maker *maker, Ringtail__Otlp__ScopeSpans *scope,
		       const struct export_event *event)
{
	struct attributes attributes;

	attributes_init(&attributes, maker->arena, OTLP_EVENT_ATTRIBUTES_MAX);
	add_event(&attributes, event);
	if (event->span.has_exit_code)
		add_number(&attributes, "process.exit.code", event->span.exit_code);
	if (event->span.in_tree)
		scope->spans[scope->n_spans++] = make_in_tree(maker, &attributes, event);
	if (is_own_trace(event))
		scope->spans[scope->n_spans++] = make_own(maker, &attributes, event);
}

static int build_traces(const struct export_maker *maker, const struct export_list *events,
			struct export_body *body)
{
	Ringtail__Otlp__TracesRequest request = RINGTAIL__OTLP__TRACES_REQUEST__INIT;
	Ringtail__Otlp__ResourceSpans resource = RINGTAIL__OTLP__RESOURCE_SPANS__INIT;
	Ringtail__Otlp__ScopeSpans scope = RINGTAIL__OTLP__SCOPE_SPANS__INIT;
	Ringtail__Otlp__ResourceSpans *resources = &resource;
	Ringtail__Otlp__ScopeSpans *scopes = &scope;
	const struct export_event *event;
	size_t n = 0;

	TAILQ_FOREACH(event, events, link)
		n++;
	if (export_arena_reserve(maker->arena, OTLP_COMMON_BYTES +
				 n * (SPAN_BYTES + 2 * sizeof(void *))) != 0)
		return -ENOMEM;
	scope.spans = export_arena_take(maker->arena, 2 * n * sizeof(*scope.spans));
	TAILQ_FOREACH(event, events, link)
		make_spans(maker, &scope, event);
	scope.scope = make_scope(maker);
	resource.resource = make_resource(maker, true);
	resource.schema_url = scope.schema_url = OTLP_SCHEMA_URL;
	resource.scope_spans = &scopes;
	resource.n_scope_spans = 1;
	request.resource_spans = &resources;
	request.n_resource_spans = 1;
	return export_body_pack(body, &request.base, scope.n_spans);
}

const struct export_kind export_otlp_traces = {
	.name = "otlp-traces",
	.path = "/v1/traces",
	.encoding = EXPORT_GZIP,
	.create = create,
	.destroy = destroy,
	.take = take,
	.build = build_traces,
	.judge = judge,
};

/*
 * ---- Metrics -----------------------------------------------------------------------------------
 *
 * Counters are cumulative sums since the start, histograms have explicit bounds, and both have
 * exemplars. Names are those of /metrics.
 */

/* Of a family with its lists, and of a point; on the safe side of the arena's rounding. */
#define FAMILY_BYTES	(sizeof(Ringtail__Otlp__Metric) + sizeof(Ringtail__Otlp__Histogram) + \
			 sizeof(void *) + 64u)
#define LABEL_BYTES	(sizeof(Ringtail__Otlp__KeyValue) + sizeof(Ringtail__Otlp__AnyValue) + \
			 sizeof(void *) + 48u)
#define EXEMPLAR_BYTES	(sizeof(Ringtail__Otlp__Exemplar) + sizeof(void *) + 32u)
#define POINT_BYTES	(sizeof(Ringtail__Otlp__HistogramPoint) + sizeof(void *) +	\
			 METRIC_LABELS_MAX * LABEL_BYTES + 64u)
#define HISTOGRAM_BYTES	(METER_BUCKETS * (sizeof(uint64_t) + EXEMPLAR_BYTES) + 32u)

struct making {
	const struct export_maker *maker;
	const struct metric_snapshot *snapshot;
	double *bounds;			/* of every histogram */
};

static void *reserve(const struct making *making, size_t bytes)
{
	return export_arena_take(making->maker->arena, bytes);
}

static void set_labels(const struct making *making, const struct metric_point *point,
		       Ringtail__Otlp__KeyValue ***list, size_t *n)
{
	struct attributes attributes;

	attributes_init(&attributes, making->maker->arena, METRIC_LABELS_MAX);
	for (uint32_t i = 0; i < point->labels; i++)
		add_text(&attributes, point->label[i].name, point->label[i].value);
	*list = attributes.list;
	*n = attributes.n;
}

static Ringtail__Otlp__NumberPoint *make_number(const struct making *making,
						const struct metric_family *family,
						const struct metric_point *point)
{
	Ringtail__Otlp__NumberPoint *number = reserve(making, sizeof(*number));

	ringtail__otlp__number_point__init(number);
	if (family->type == METRIC_COUNTER)
		number->start_time_unix_nano = making->snapshot->start_realtime_ns;
	number->time_unix_nano = making->snapshot->realtime_ns;
	number->value_case = RINGTAIL__OTLP__NUMBER_POINT__VALUE_AS_DOUBLE;
	number->as_double = point->value;
	set_labels(making, point, &number->attributes, &number->n_attributes);
	return number;
}

static Ringtail__Otlp__Exemplar *make_exemplar(const struct making *making,
					       const struct metric_exemplar *from)
{
	Ringtail__Otlp__Exemplar *exemplar = reserve(making, sizeof(*exemplar));

	ringtail__otlp__exemplar__init(exemplar);
	exemplar->time_unix_nano = from->realtime_ns;
	exemplar->value_case = RINGTAIL__OTLP__EXEMPLAR__VALUE_AS_DOUBLE;
	exemplar->as_double = from->seconds;
	exemplar->trace_id.data = (uint8_t *)from->trace_id;
	exemplar->trace_id.len = TRACE_ID_BYTES;
	return exemplar;
}

static Ringtail__Otlp__HistogramPoint *make_histogram(const struct making *making,
						      const struct metric_point *point)
{
	const struct metric_histogram *from = point->histogram;
	Ringtail__Otlp__HistogramPoint *histogram = reserve(making, sizeof(*histogram));

	ringtail__otlp__histogram_point__init(histogram);
	histogram->start_time_unix_nano = making->snapshot->start_realtime_ns;
	histogram->time_unix_nano = making->snapshot->realtime_ns;
	histogram->count = from->count;
	histogram->has_sum_case = RINGTAIL__OTLP__HISTOGRAM_POINT__HAS_SUM_SUM;
	histogram->sum = from->sum_seconds;
	histogram->bucket_counts = (uint64_t *)from->bucket;
	histogram->n_bucket_counts = METER_BUCKETS;
	histogram->explicit_bounds = making->bounds;
	histogram->n_explicit_bounds = METER_BUCKET_BOUNDS;
	histogram->exemplars = reserve(making, METER_BUCKETS * sizeof(*histogram->exemplars));
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		if (from->exemplar[i])
			histogram->exemplars[histogram->n_exemplars++] =
				make_exemplar(making, from->exemplar[i]);
	set_labels(making, point, &histogram->attributes, &histogram->n_attributes);
	return histogram;
}

static Ringtail__Otlp__NumberPoint **make_numbers(const struct making *making,
						  const struct metric_family *family, size_t *n)
{
	Ringtail__Otlp__NumberPoint **list = reserve(making, family->points * sizeof(*list));

	for (const struct metric_point *point = family->first; point; point = point->next)
		list[(*n)++] = make_number(making, family, point);
	return list;
}

static void make_data(const struct making *making, const struct metric_family *family,
		      Ringtail__Otlp__Metric *metric)
{
	switch (family->type) {
	case METRIC_GAUGE:
		metric->data_case = RINGTAIL__OTLP__METRIC__DATA_GAUGE;
		metric->gauge = reserve(making, sizeof(*metric->gauge));
		ringtail__otlp__gauge__init(metric->gauge);
		metric->gauge->data_points = make_numbers(making, family,
							  &metric->gauge->n_data_points);
		break;
	case METRIC_COUNTER:
		metric->data_case = RINGTAIL__OTLP__METRIC__DATA_SUM;
		metric->sum = reserve(making, sizeof(*metric->sum));
		ringtail__otlp__sum__init(metric->sum);
		metric->sum->aggregation_temporality =
			RINGTAIL__OTLP__TEMPORALITY__TEMPORALITY_CUMULATIVE;
		metric->sum->is_monotonic = true;
		metric->sum->data_points = make_numbers(making, family,
							&metric->sum->n_data_points);
		break;
	case METRIC_HISTOGRAM:
		metric->data_case = RINGTAIL__OTLP__METRIC__DATA_HISTOGRAM;
		metric->histogram = reserve(making, sizeof(*metric->histogram));
		ringtail__otlp__histogram__init(metric->histogram);
		metric->histogram->aggregation_temporality =
			RINGTAIL__OTLP__TEMPORALITY__TEMPORALITY_CUMULATIVE;
		metric->histogram->data_points =
			reserve(making, family->points * sizeof(*metric->histogram->data_points));
		for (const struct metric_point *point = family->first; point; point = point->next)
			metric->histogram->data_points[metric->histogram->n_data_points++] =
				make_histogram(making, point);
	}
}

/* "s" and "By" are what UCUM calls them. */
static const char *unit_of(const struct metric_family *family)
{
	if (strcmp(family->unit, "seconds") == 0)
		return "s";
	return strcmp(family->unit, "bytes") == 0 ? "By" : family->unit;
}

static Ringtail__Otlp__Metric *make_metric(const struct making *making,
					   const struct metric_family *family)
{
	Ringtail__Otlp__Metric *metric = reserve(making, sizeof(*metric));

	ringtail__otlp__metric__init(metric);
	metric->name = (char *)family->name;
	metric->description = (char *)family->help;
	metric->unit = (char *)unit_of(family);
	make_data(making, family, metric);
	return metric;
}

static size_t arena_bytes(const struct metric_snapshot *snapshot)
{
	size_t bytes = OTLP_COMMON_BYTES + METER_BUCKET_BOUNDS * sizeof(double) + 64;

	for (const struct metric_family *family = snapshot->first; family; family = family->next) {
		bytes += FAMILY_BYTES + family->points * POINT_BYTES;
		if (family->type == METRIC_HISTOGRAM)
			bytes += family->points * HISTOGRAM_BYTES;
	}
	return bytes + snapshot->families * sizeof(void *);
}

static int build_metrics(const struct export_maker *maker, const struct metric_snapshot *snapshot,
			 struct export_body *body)
{
	Ringtail__Otlp__MetricsRequest request = RINGTAIL__OTLP__METRICS_REQUEST__INIT;
	Ringtail__Otlp__ResourceMetrics resource = RINGTAIL__OTLP__RESOURCE_METRICS__INIT;
	Ringtail__Otlp__ScopeMetrics scope = RINGTAIL__OTLP__SCOPE_METRICS__INIT;
	Ringtail__Otlp__ResourceMetrics *resources = &resource;
	Ringtail__Otlp__ScopeMetrics *scopes = &scope;
	struct making making = {.maker = maker, .snapshot = snapshot};

	if (export_arena_reserve(maker->arena, arena_bytes(snapshot)) != 0)
		return -ENOMEM;
	making.bounds = reserve(&making, METER_BUCKET_BOUNDS * sizeof(*making.bounds));
	for (unsigned i = 0; i < METER_BUCKET_BOUNDS; i++)
		making.bounds[i] = meter_bucket_seconds(i);
	scope.metrics = reserve(&making, snapshot->families * sizeof(*scope.metrics));
	for (const struct metric_family *family = snapshot->first; family; family = family->next)
		scope.metrics[scope.n_metrics++] = make_metric(&making, family);
	scope.scope = make_scope(maker);
	resource.resource = make_resource(maker, false);
	resource.schema_url = scope.schema_url = OTLP_SCHEMA_URL;
	resource.scope_metrics = &scopes;
	resource.n_scope_metrics = 1;
	request.resource_metrics = &resources;
	request.n_resource_metrics = 1;
	return export_body_pack(body, &request.base, snapshot->points);
}

/* All three kinds of data begin with their points. */
static size_t *points_of(Ringtail__Otlp__Metric *metric, void ****list)
{
	switch (metric->data_case) {
	case RINGTAIL__OTLP__METRIC__DATA_GAUGE:
		*list = (void ***)&metric->gauge->data_points;
		return &metric->gauge->n_data_points;
	case RINGTAIL__OTLP__METRIC__DATA_SUM:
		*list = (void ***)&metric->sum->data_points;
		return &metric->sum->n_data_points;
	case RINGTAIL__OTLP__METRIC__DATA_HISTOGRAM:
		*list = (void ***)&metric->histogram->data_points;
		return &metric->histogram->n_data_points;
	default:
		return NULL;
	}
}

/* What a metric's list was before it was cut, and is again before it is freed. */
struct cut {
	size_t n;
	void **list;
};

/* Leaves the points from `from` on, so many, of all metrics together. */
static void cut_points(Ringtail__Otlp__ScopeMetrics *scope, struct cut *cut, uint64_t from,
		       uint64_t points)
{
	for (size_t i = 0; i < scope->n_metrics; i++) {
		void ***list;
		size_t *n = points_of(scope->metrics[i], &list), skipped, left;

		if (!n)
			continue;
		cut[i] = (struct cut){*n, *list};
		skipped = from < *n ? from : *n;
		left = *n - skipped < points ? *n - skipped : points;
		from -= skipped;
		points -= left;
		*list += skipped;
		*n = left;
	}
}

static void uncut_points(Ringtail__Otlp__ScopeMetrics *scope, const struct cut *cut)
{
	for (size_t i = 0; i < scope->n_metrics; i++) {
		void ***list;
		size_t *n = points_of(scope->metrics[i], &list);

		if (!n)
			continue;
		*n = cut[i].n;
		*list = cut[i].list;
	}
}

/* Without the metrics that have no points left. */
static int pack_cut(Ringtail__Otlp__MetricsRequest *request, Ringtail__Otlp__ScopeMetrics *scope,
		    struct export_body *part, uint64_t points)
{
	Ringtail__Otlp__Metric **all = scope->metrics, **some = calloc(scope->n_metrics + 1,
								       sizeof(*some));
	size_t n = scope->n_metrics;
	int err;

	if (!some)
		return -ENOMEM;
	scope->metrics = some;
	scope->n_metrics = 0;
	for (size_t i = 0; i < n; i++) {
		void ***list;
		const size_t *left = points_of(all[i], &list);

		if (left && *left)
			some[scope->n_metrics++] = all[i];
	}
	err = export_body_pack(part, &request->base, points);
	scope->metrics = all;
	scope->n_metrics = n;
	free(some);
	return err;
}

static int build_part(const uint8_t *body, size_t bytes, uint64_t from, uint64_t points,
		      struct export_body *part)
{
	Ringtail__Otlp__MetricsRequest *request =
		message_unpack_checked(&ringtail__otlp__metrics_request__descriptor, NULL, body,
				       bytes);	/* made here */
	Ringtail__Otlp__ScopeMetrics *scope;
	struct cut *cut;
	int err = -ENOMEM;

	if (!request)
		return err;
	scope = request->resource_metrics[0]->scope_metrics[0];
	cut = calloc(scope->n_metrics + 1, sizeof(*cut));
	if (cut) {
		cut_points(scope, cut, from, points);
		err = pack_cut(request, scope, part, points);
		uncut_points(scope, cut);
	}
	free(cut);
	ringtail__otlp__metrics_request__free_unpacked(request, NULL);
	return err;
}

const struct export_kind export_otlp_metrics = {
	.name = "otlp-metrics",
	.path = "/v1/metrics",
	.encoding = EXPORT_GZIP,
	.build_metrics = build_metrics,
	.build_part = build_part,
	.judge = judge,
};
