/*
 * export_otlp: events as OTLP logs and traces, and snapshots of metrics.
 *
 * Names are those of OpenTelemetry's semantic conventions where there are any (process.*, thread.*,
 * network.*, host.*, os.*, error.type); system calls have none, so theirs begin with ringtail.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/kind.h"
#include "daemon/export/pack.h"
#include "daemon/export/spans.h"
#include "daemon/export/tree.h"
#include "kmod/uapi/ringtail.h"
#include "proto/export/otlp.pb-c.h"
#include "proto/message.h"

#define OTLP_RESOURCE_ATTRIBUTES_MAX	9u

/* The version of the semantic conventions whose names these are. */
#define OTLP_SCHEMA_URL	((char *)"https://opentelemetry.io/schemas/1.29.0")

/* What a resource takes of an arena, at most, with what is around it. */
#define OTLP_ATTRIBUTE_BYTES						\
	(EXPORT_ARENA_ROUND(sizeof(Ringtail__Otlp__KeyValue)) +		\
	 EXPORT_ARENA_ROUND(sizeof(Ringtail__Otlp__AnyValue)) + sizeof(void *))
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

/* ---- An event -------------------------------------------------------------------------------- */

#define KEY_BYTES_MAX	(NAME_BYTES_MAX + 32u)
#define VALUE_BYTES_MAX	(STRING_BYTES_MAX + 8u)

/* Where its attributes go: that field of the message that is being packed. */
struct pairs {
	struct export_pack *pack;
	uint32_t field;
};

/*
 * KeyValue { key = 1, value = 2 } with an AnyValue of so many bytes, which the caller writes; NULL: there is no
 * memory. The value is there though it is empty or 0: it is one of several.
 */
static uint8_t *begin_pair(const struct pairs *pairs, const char *key, size_t value_bytes)
{
	size_t key_bytes = strlen(key);
	size_t bytes = export_pack_size(key_bytes) + export_pack_size(value_bytes);
	uint8_t *at = export_pack_room(pairs->pack, bytes);

	if (!at)
		return NULL;
	at = wire_put(wire_put_tag(at, pairs->field, WIRE_BYTES), bytes);
	at = wire_put_bytes(at, 1, key, key_bytes);
	return wire_put(wire_put_tag(at, 2, WIRE_BYTES), value_bytes);
}

static uint8_t *put_string_value(uint8_t *at, const char *value, size_t bytes)
{
	at = wire_put(wire_put_tag(at, 1, WIRE_BYTES), bytes);
	memcpy(at, value, bytes);
	return at + bytes;
}

static void put_text(const struct pairs *pairs, const char *key, const char *value)
{
	size_t bytes = strlen(value);
	uint8_t *at = begin_pair(pairs, key, export_pack_size(bytes));

	if (at)
		export_pack_advance(pairs->pack, put_string_value(at, value, bytes));
}

static void put_number(const struct pairs *pairs, const char *key, int64_t value)
{
	uint8_t varint[WIRE_WRITE_BYTES] = {0};
	size_t bytes = (size_t)(wire_put(varint, (uint64_t)value) - varint);
	uint8_t *at = begin_pair(pairs, key, 1 + bytes);

	if (!at)
		return;
	at = wire_put_tag(at, 3, WIRE_VARINT);
	memcpy(at, varint, WIRE_VARINT_BYTES_MAX);	/* there is room for more than it has */
	export_pack_advance(pairs->pack, at + bytes);
}

/* What is not known is not there. */
static void put_known(const struct pairs *pairs, const char *key, const char *value)
{
	if (value && *value)
		put_text(pairs, key, value);
}

static void put_context(const struct pairs *pairs, const struct export_context *context)
{
	put_known(pairs, "process.executable.name", context->exe);
	put_known(pairs, "process.executable.path", context->exe_path);
	put_known(pairs, "process.linux.cgroup", context->cgroup);
	put_known(pairs, "container.id", context->container);
	put_known(pairs, "container.runtime", context->runtime);
	put_known(pairs, "k8s.pod.uid", context->pod);
	put_known(pairs, "ringtail.systemd.unit", context->unit);
}

static void put_thread(const struct pairs *pairs, const struct export_event *event)
{
	char comm[17];

	export_event_comm(event, comm);
	put_number(pairs, "process.pid", event->thread.pid);
	put_number(pairs, "process.parent_pid", event->thread.ppid);
	put_number(pairs, "process.user.id", event->thread.uid);
	put_number(pairs, "thread.id", event->thread.tid);
	put_text(pairs, "thread.name", comm);
	if (event->context)
		put_context(pairs, event->context);
}

/*
 * What a body has said of threads: most of an event, and the same for all of one thread's. The events are
 * those of the body, so they stay as long as this.
 */
#define SAID_SLOTS 64u		/* a power of two */

struct said {
	struct {
		const struct export_event *event;	/* NULL: none */
		size_t from, bytes;			/* what was packed for its thread */
	} slot[SAID_SLOTS];
};

static bool is_same_thread(const struct export_event *a, const struct export_event *b)
{
	return a->thread.tid == b->thread.tid && a->thread.pid == b->thread.pid &&
	       a->thread.ppid == b->thread.ppid && a->thread.uid == b->thread.uid &&
	       memcmp(a->thread.comm, b->thread.comm, sizeof(a->thread.comm)) == 0 &&
	       a->context == b->context;
}

static void put_thread_once(const struct pairs *pairs, struct said *said, const struct export_event *event)
{
	unsigned slot = event->thread.tid % SAID_SLOTS;

	if (said->slot[slot].event && is_same_thread(said->slot[slot].event, event)) {
		export_pack_again(pairs->pack, said->slot[slot].from, said->slot[slot].bytes);
		return;
	}
	said->slot[slot].from = pairs->pack->used;
	put_thread(pairs, event);
	said->slot[slot].event = event;
	said->slot[slot].bytes = pairs->pack->used - said->slot[slot].from;
}

static void put_value(const struct pairs *pairs, const struct export_event *event, unsigned field)
{
	const Ringtail__V1__Field *as = event->probe->field[field];
	char key[KEY_BYTES_MAX], value[VALUE_BYTES_MAX];
	size_t name_bytes = strnlen(as->name, 200);
	char *at;

	if (as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_MORE)
		return;
	at = stpcpy(key, export_event_is_call(event) ? "ringtail.syscall.arg." : "ringtail.event.");
	memcpy(at, as->name, name_bytes);
	at[name_bytes] = '\0';
	if (as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX ||
	    as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING ||
	    as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT)
		put_text(pairs, key, export_event_value_text(event, field, value, sizeof(value)));
	else
		put_number(pairs, key, (int64_t)export_event_value(event, field));
}

/*
 * The address of a socket, in the conventions' two parts: that of the peer, or bind's own. Of what has
 * neither host nor path (query/socket_text.h), the argument says all there is.
 */
static void put_address(const struct pairs *pairs, const struct export_event *event)
{
	bool is_own = !strcmp(event->probe->function, "bind");
	const char *text = export_event_address(event), *colon;
	char copy[STRING_BYTES_MAX + 1], *host = copy;

	if (!text)
		return;
	strcpy(copy, text);
	if (*text == '[' || isdigit((unsigned char)*text)) {
		colon = strrchr(text, ':');
		if (!colon)
			return;
		host[colon - text - (*text == '[')] = '\0';
		host += *text == '[';
		put_number(pairs, is_own ? "network.local.port" : "network.peer.port",
			   strtol(colon + 1, NULL, 10));
	} else if (!*text || !strchr("/.@", *text)) {
		return;
	}
	put_text(pairs, is_own ? "network.local.address" : "network.peer.address", host);
}

static void put_call(const struct pairs *pairs, const struct export_event *event)
{
	int number = export_event_errno(event);
	const char *name = number ? strerrorname_np(number) : NULL;

	put_text(pairs, "ringtail.syscall.name", event->probe->function);
	for (unsigned i = 2; i < event->fields; i++)
		put_value(pairs, event, i);
	put_address(pairs, event);
	if (event->field[0] == RT_DURATION_NEVER)
		return;
	put_number(pairs, "ringtail.syscall.duration_ns", (int64_t)event->field[0]);
	put_number(pairs, "ringtail.syscall.ret", (int64_t)event->field[1]);
	if (name)
		put_text(pairs, "error.type", name);
}

/* Everything an event has to say of itself. */
static void put_event(const struct pairs *pairs, struct said *said, const struct export_event *event)
{
	put_thread_once(pairs, said, event);
	put_number(pairs, "ringtail.cpu", event->cpu);
	put_text(pairs, "ringtail.class", export_class_name(event->class));
	if (export_event_is_call(event)) {
		put_call(pairs, event);
		return;
	}
	if (event->class == EXPORT_EXIT && export_event_signal(event) > 0) {
		char name[24];

		put_text(pairs, "ringtail.signal", export_event_signal_name(export_event_signal(event), name));
	}
	/* What it was called by is another name, mostly, than the path of what it is. */
	if (event->class == EXPORT_EXEC && event->strings &&
	    !(event->context && event->context->exe_path))
		put_text(pairs, "process.executable.path", event->string[0]);
	else
		for (unsigned i = 0; i < event->fields; i++)
			put_value(pairs, event, i);
}

/* ---- Around the events ----------------------------------------------------------------------- */

/*
 * The host: the same over boots and upgrades, for a back end may make a series of each resource.
 * with_versions: says which boot it was, of which kernel, and by which version of us, too, where each
 * item is a thing of its own.
 */
static Ringtail__Otlp__Resource *make_resource(const struct export_maker *maker, bool with_versions)
{
	const struct export_run *run = maker->run;
	Ringtail__Otlp__Resource *resource = export_arena_take(maker->arena, sizeof(*resource));
	struct attributes attributes;

	attributes_init(&attributes, maker->arena, OTLP_RESOURCE_ATTRIBUTES_MAX);
	add_text(&attributes, "service.name", "ringtail");
	if (with_versions)
		add_text(&attributes, "service.version", RINGTAIL_VERSION);
	/* As `instance` of remote write and `host` of Loki: one name everywhere. */
	add_text(&attributes, "service.instance.id", run->name);
	add_text(&attributes, "host.name", run->name);
	if (run->host_id[0])
		add_text(&attributes, "host.id", run->host_id);
	if (with_versions)
		add_text(&attributes, "ringtail.boot.id", run->boot_text);
	add_text(&attributes, "host.arch",
		 strcmp(run->machine, "x86_64") == 0 ? "amd64" :
		 strcmp(run->machine, "aarch64") == 0 ? "arm64" : run->machine);
	add_text(&attributes, "os.type", "linux");
	if (with_versions)
		add_text(&attributes, "os.version", run->kernel);
	ringtail__otlp__resource__init(resource);
	resource->attributes = attributes.list;
	resource->n_attributes = attributes.n;
	return resource;
}

/* with_version: as of the resource, for collectors make a label of it. */
static Ringtail__Otlp__Scope *make_scope(const struct export_maker *maker, bool with_version)
{
	Ringtail__Otlp__Scope *scope = export_arena_take(maker->arena, sizeof(*scope));

	ringtail__otlp__scope__init(scope);
	scope->name = (char *)"ringtail";
	if (with_version)
		scope->version = (char *)RINGTAIL_VERSION;
	return scope;
}

/* Partial success is counted; an answer that is no protobuf is as good as an empty one. */
static void judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
{
	Ringtail__Otlp__Response *response;

	export_judge(status, answer, bytes, verdict);
	if (verdict->outcome != EXPORT_ACCEPTED)
		return;
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

#define RECORD_BYTES_EXPECTED 700u

/* OTLP's SeverityNumber, and its short name. */
static void put_severity(struct export_pack *pack, enum export_class class)
{
	switch (class) {
	case EXPORT_ERROR:
		export_pack_scalar(pack, 2, 17);
		export_pack_text(pack, 3, "ERROR");
		break;
	case EXPORT_SLOW:
	case EXPORT_EXIT:
		export_pack_scalar(pack, 2, 13);
		export_pack_text(pack, 3, "WARN");
		break;
	default:
		export_pack_scalar(pack, 2, 9);
		export_pack_text(pack, 3, "INFO");
	}
}

/* As one line. */
static void put_body(struct export_pack *pack, const struct export_event *event)
{
	char line[EXPORT_BODY_BYTES];
	size_t bytes = export_event_body(event, line);
	uint8_t *at = export_pack_room(pack, bytes);

	if (!at)
		return;
	at = wire_put(wire_put_tag(at, 5, WIRE_BYTES), export_pack_size(bytes));
	export_pack_advance(pack, put_string_value(at, line, bytes));
}

/* A slow call is a trace of its own: the log leads there. */
static void put_trace(struct export_pack *pack, const struct export_event *event)
{
	const struct trace_place place = export_event_place(event);
	uint8_t trace[TRACE_ID_BYTES], span[SPAN_ID_BYTES];

	trace_id_make(&place, trace);
	trace_id_make_span(&place, span);
	export_pack_bytes(pack, 9, trace, sizeof(trace));
	export_pack_bytes(pack, 10, span, sizeof(span));
}

/* What kind of thing happened, of few: "ringtail.syscall.openat", "ringtail.sched_process_exec". */
static void put_event_name(struct export_pack *pack, const struct export_event *event)
{
	bool call = export_event_is_call(event);
	const char *first = call ? "ringtail.syscall." : "ringtail.";
	const char *last = call ? event->probe->function : event->probe->name;
	size_t first_bytes = strlen(first), last_bytes = strlen(last);
	uint8_t *at = export_pack_room(pack, first_bytes + last_bytes);

	if (!at)
		return;
	at = wire_put(wire_put_tag(at, 12, WIRE_BYTES), first_bytes + last_bytes);
	memcpy(at, first, first_bytes);
	memcpy(at + first_bytes, last, last_bytes);
	export_pack_advance(pack, at + first_bytes + last_bytes);
}

static void put_record(const struct export_maker *maker, struct export_pack *pack, struct said *said,
		       const struct export_event *event)
{
	const struct pairs pairs = {pack, 6};
	struct export_pack_place place = export_pack_open(pack, 2, RECORD_BYTES_EXPECTED);

	export_pack_fixed64(pack, 1, event->time_ns + maker->to_realtime_ns);
	put_severity(pack, event->class);
	put_body(pack, event);
	put_event(&pairs, said, event);
	if (event->class == EXPORT_SLOW)
		put_trace(pack, event);
	export_pack_fixed64(pack, 11, event->time_ns + maker->to_realtime_ns);
	put_event_name(pack, event);
	export_pack_close(pack, place);
}

/*
 * Logs and traces are packed alike: { resource and scope = 1: { resource = 1, scope and items = 2: { scope = 1,
 * item = 2 ..., schema_url = 3 }, schema_url = 3 } }.
 */
struct around {
	struct export_pack_place resource, scope;
};

static int open_around(const struct export_maker *maker, struct export_pack *pack, size_t expected,
		       struct around *around)
{
	if (export_arena_reserve(maker->arena, OTLP_COMMON_BYTES) != 0)
		return -ENOMEM;
	around->resource = export_pack_open(pack, 1, expected);
	export_pack_message(pack, 1, &make_resource(maker, true)->base);
	around->scope = export_pack_open(pack, 2, expected);
	export_pack_message(pack, 1, &make_scope(maker, true)->base);
	return 0;
}

static void close_around(struct export_pack *pack, const struct around *around)
{
	export_pack_text(pack, 3, OTLP_SCHEMA_URL);
	export_pack_close(pack, around->scope);
	export_pack_text(pack, 3, OTLP_SCHEMA_URL);
	export_pack_close(pack, around->resource);
}

static int build_logs(const struct export_maker *maker, const struct export_list *events,
		      struct export_body *body)
{
	const struct export_event *event;
	struct export_pack pack = {0};
	struct said said = {0};
	struct around around;
	size_t n = 0;

	TAILQ_FOREACH(event, events, link)
		n++;
	if (open_around(maker, &pack, n * RECORD_BYTES_EXPECTED, &around) != 0)
		return -ENOMEM;
	TAILQ_FOREACH(event, events, link)
		put_record(maker, &pack, &said, event);
	close_around(&pack, &around);
	return export_pack_finish(&pack, body, n);
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

#define SPAN_BYTES_EXPECTED 600u

struct traces {
	struct export_tree *tree;
	struct export_spans *spans;
};

static void destroy(void *state)
{
	struct traces *traces = state;

	export_tree_destroy(traces->tree);
	export_spans_destroy(traces->spans);
	free(traces);
}

static void *create(const struct export_host *host)
{
	struct traces *traces = calloc(1, sizeof(*traces));

	if (!traces)
		return NULL;
	traces->tree = export_tree_create(host);
	traces->spans = export_spans_create();
	if (traces->tree && traces->spans)
		return traces;
	destroy(traces);
	return NULL;
}

static bool is_own_trace(const struct export_event *event)
{
	return export_event_is_call(event) &&
	       (event->class == EXPORT_SLOW || event->class == EXPORT_EVENT);
}

static bool goes_out(struct export_event *event)
{
	if (event->span.is_process) {
		if (event->class == EXPORT_NOTHING)
			event->class = EXPORT_EVENT;	/* it ended as it should */
		return true;
	}
	if (is_own_trace(event))
		return true;
	return event->span.in_tree && event->class == EXPORT_ERROR;
}

/* A call that is inside a program's span and in a tree of processes is that span's. */
static void take(void *state, struct export_event *event, struct export_taken *taken)
{
	struct traces *traces = state;

	export_tree_take(traces->tree, event);
	if (export_spans_take(traces->spans, event, taken))
		return;
	TAILQ_INSERT_TAIL(goes_out(event) ? &taken->send : &taken->drop, event, link);
}

static void flush(void *state, struct export_taken *taken)
{
	export_spans_flush(((struct traces *)state)->spans, taken);
}

static uint64_t waiting(const void *state)
{
	return export_spans_open(((const struct traces *)state)->spans);
}

/* Of a call that failed, or of a process that did: why. NULL: it did not. */
static const char *failure_of(const struct export_event *event, bool in_tree)
{
	int number = export_event_errno(event);

	if (in_tree && event->span.is_process) {
		if (event->class == EXPORT_EXIT)
			return "killed by a signal";
		if (event->span.has_exit_code && event->span.exit_code)
			return "exit status other than 0";
	}
	return number ? strerrorname_np(number) : NULL;
}

static void put_ids(struct export_pack *pack, uint32_t field, const uint8_t *trace_id, const uint8_t *span_id)
{
	export_pack_bytes(pack, field, trace_id, TRACE_ID_BYTES);
	export_pack_bytes(pack, field + 1, span_id, SPAN_ID_BYTES);
}

/* All of a span behind its ids: as part of its tree, or of an event as a trace of its own. */
static void put_span(const struct export_maker *maker, struct export_pack *pack, struct said *said,
		     const struct export_event *event, bool in_tree)
{
	const struct pairs pairs = {pack, 9};
	bool is_process = in_tree && event->span.is_process;
	uint64_t start_ns = is_process ? event->span.start_ns : export_event_start_ns(event);

	export_pack_text(pack, 5, is_process ? event->span.name : event->probe->function);
	export_pack_scalar(pack, 6, RINGTAIL__OTLP__SPAN_KIND__SPAN_KIND_INTERNAL);
	export_pack_fixed64(pack, 7, start_ns + maker->to_realtime_ns);
	export_pack_fixed64(pack, 8, event->time_ns + maker->to_realtime_ns);
	put_event(&pairs, said, event);
	if (event->span.has_exit_code)
		put_number(&pairs, "process.exit.code", event->span.exit_code);
}

static void put_status(struct export_pack *pack, const char *failure)
{
	struct export_pack_place place;

	if (!failure)
		return;
	place = export_pack_open(pack, 15, 20);
	export_pack_text(pack, 2, failure);
	export_pack_scalar(pack, 3, RINGTAIL__OTLP__STATUS_CODE__STATUS_CODE_ERROR);
	export_pack_close(pack, place);
}

/* Of a program's span: what its begin said. Of an end whose begin is not known, nothing. */
static void put_arguments(const struct pairs *pairs, const struct export_event *begin)
{
	/* The last field is the CPU, which is said already. */
	for (unsigned i = export_event_first_argument(begin); i + 1 < begin->fields; i++)
		put_value(pairs, begin, i);
}

/* By its end, or, if the program did not end it, by its begin alone. */
static void put_program_span(const struct export_maker *maker, struct export_pack *pack, struct said *said,
			     const struct export_event *event)
{
	const struct export_event *begin = event->span.failure ? event : event->begin;
	const struct pairs pairs = {pack, 9};
	int64_t status = event->span.failure ? 0 : export_event_span_status(event);
	uint64_t end_ns = event->span.failure ? event->span.end_ns : event->time_ns;
	/* The times of records: who loses the CPU between the clock and a record is not outside of what it is in. */
	uint64_t start_ns = begin ? begin->time_ns : export_event_start_ns(event);

	export_pack_text(pack, 5, event->probe->function);
	export_pack_scalar(pack, 6, RINGTAIL__OTLP__SPAN_KIND__SPAN_KIND_INTERNAL);
	export_pack_fixed64(pack, 7, start_ns + maker->to_realtime_ns);
	export_pack_fixed64(pack, 8, end_ns + maker->to_realtime_ns);
	put_thread_once(&pairs, said, event);
	put_number(&pairs, "ringtail.cpu", event->cpu);
	put_text(&pairs, "ringtail.class", export_class_name(event->class));
	put_text(&pairs, "ringtail.program.provider", event->probe->provider);
	put_known(&pairs, "ringtail.program.source", event->probe->source);
	if (begin)
		put_arguments(&pairs, begin);
	if (status)
		put_number(&pairs, "ringtail.program.status", status);
}

static const char *program_failure_of(const struct export_event *event)
{
	if (event->span.failure)
		return event->span.failure;
	return export_event_span_status(event) ? "the program reports a failure" : NULL;
}

static void put_in_tree(const struct export_maker *maker, struct export_pack *pack, struct said *said,
			const struct export_event *event)
{
	struct export_pack_place place = export_pack_open(pack, 2, SPAN_BYTES_EXPECTED);

	put_ids(pack, 1, event->span.trace_id, event->span.span_id);
	if (event->span.has_parent)
		export_pack_bytes(pack, 4, event->span.parent_id, SPAN_ID_BYTES);
	if (event->span.is_program)
		put_program_span(maker, pack, said, event);
	else
		put_span(maker, pack, said, event, true);
	put_status(pack, event->span.is_program ? program_failure_of(event) : failure_of(event, true));
	export_pack_close(pack, place);
}

/* As a trace that is found by its record. */
static void put_own(const struct export_maker *maker, struct export_pack *pack, struct said *said,
		    const struct export_event *event)
{
	const struct trace_place at = export_event_place(event);
	struct export_pack_place place = export_pack_open(pack, 2, SPAN_BYTES_EXPECTED), link;
	uint8_t id[TRACE_ID_BYTES];

	trace_id_make(&at, id);
	put_ids(pack, 1, id, event->span.span_id);
	put_span(maker, pack, said, event, false);
	if (event->span.in_tree) {
		link = export_pack_open(pack, 13, TRACE_ID_BYTES + SPAN_ID_BYTES);
		put_ids(pack, 1, event->span.trace_id, event->span.span_id);
		export_pack_close(pack, link);
	}
	put_status(pack, failure_of(event, false));
	export_pack_close(pack, place);
}

static int build_traces(const struct export_maker *maker, const struct export_list *events,
			struct export_body *body)
{
	const struct export_event *event;
	struct export_pack pack = {0};
	struct said said = {0};
	struct around around;
	size_t n = 0, spans = 0;

	TAILQ_FOREACH(event, events, link)
		n++;
	if (open_around(maker, &pack, n * SPAN_BYTES_EXPECTED, &around) != 0)
		return -ENOMEM;
	TAILQ_FOREACH(event, events, link) {
		if (event->span.in_tree) {
			put_in_tree(maker, &pack, &said, event);
			spans++;
		}
		if (is_own_trace(event)) {
			put_own(maker, &pack, &said, event);
			spans++;
		}
	}
	close_around(&pack, &around);
	return export_pack_finish(&pack, body, spans);
}

const struct export_kind export_otlp_traces = {
	.name = "otlp-traces",
	.path = "/v1/traces",
	.encoding = EXPORT_GZIP,
	.create = create,
	.destroy = destroy,
	.take = take,
	.flush = flush,
	.waiting = waiting,
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
	scope.scope = make_scope(maker, false);
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
