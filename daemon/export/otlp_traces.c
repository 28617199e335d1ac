/*
 * export_otlp_traces: slow calls, and the runs of process trees, as OTLP spans.
 *
 * A slow call is a trace of its own, whose id follows from its record, so that an exemplar leads to
 * it. In a process tree that is traced, calls are spans of their process too, and the slow call's own
 * trace has a link there.
 */
#include <errno.h>
#include <string.h>

#include "daemon/export/otlp.h"
#include "daemon/export/tree.h"

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

/* ---- Spans ----------------------------------------------------------------------------------- */

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
				       const struct otlp_attributes *attributes,
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
					  const struct otlp_attributes *attributes,
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
				      const struct otlp_attributes *attributes,
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
	struct otlp_attributes attributes;

	otlp_attributes_init(&attributes, maker->arena, OTLP_EVENT_ATTRIBUTES_MAX);
	otlp_add_event(&attributes, event);
	if (event->span.has_exit_code)
		otlp_add_number(&attributes, "process.exit.code", event->span.exit_code);
	if (event->span.in_tree)
		scope->spans[scope->n_spans++] = make_in_tree(maker, &attributes, event);
	if (is_own_trace(event))
		scope->spans[scope->n_spans++] = make_own(maker, &attributes, event);
}

static int build(const struct export_maker *maker, const struct export_list *events,
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
	scope.scope = otlp_scope(maker);
	resource.resource = otlp_resource(maker, true);
	resource.schema_url = scope.schema_url = OTLP_SCHEMA_URL;
	resource.scope_spans = &scopes;
	resource.n_scope_spans = 1;
	request.resource_spans = &resources;
	request.n_resource_spans = 1;
	body->items = scope.n_spans;
	return otlp_pack(&request.base, body);
}

const struct export_kind export_otlp_traces = {
	.name = "otlp-traces",
	.path = "/v1/traces",
	.encoding = EXPORT_GZIP,
	.create = create,
	.destroy = destroy,
	.take = take,
	.build = build,
	.judge = otlp_judge,
};
