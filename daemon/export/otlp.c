#include "daemon/export/otlp.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kmod/uapi/ringtail.h"
#include "proto/message.h"

void otlp_attributes_init(struct otlp_attributes *attributes, struct export_arena *arena,
			  size_t max)
{
	attributes->arena = arena;
	attributes->n = 0;
	attributes->max = max;
	attributes->list = export_arena_take(arena, max * sizeof(*attributes->list));
}

static Ringtail__Otlp__AnyValue *add(struct otlp_attributes *attributes, const char *key)
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

void otlp_add_text(struct otlp_attributes *attributes, const char *key, const char *value)
{
	set_text(add(attributes, key), value);
}

void otlp_add_number(struct otlp_attributes *attributes, const char *key, int64_t value)
{
	Ringtail__Otlp__AnyValue *any = add(attributes, key);

	any->value_case = RINGTAIL__OTLP__ANY_VALUE__VALUE_INT_VALUE;
	any->int_value = value;
}

Ringtail__Otlp__AnyValue *otlp_text(struct export_arena *arena, const char *value)
{
	Ringtail__Otlp__AnyValue *any = export_arena_take(arena, sizeof(*any));

	ringtail__otlp__any_value__init(any);
	set_text(any, value);
	return any;
}

/* ---- An event -------------------------------------------------------------------------------- */

static void add_thread(struct otlp_attributes *attributes, const struct export_event *event)
{
	char comm[17];
	const char *copy;

	export_event_comm(event, comm);
	copy = export_arena_text(attributes->arena, comm);
	otlp_add_number(attributes, "process.pid", event->thread.pid);
	otlp_add_number(attributes, "process.parent_pid", event->thread.ppid);
	otlp_add_number(attributes, "process.user.id", event->thread.uid);
	otlp_add_number(attributes, "thread.id", event->thread.tid);
	otlp_add_text(attributes, "thread.name", copy);
}

static void add_value(struct otlp_attributes *attributes, const struct export_event *event,
		      unsigned field)
{
	const Ringtail__V1__Field *as = event->probe->field[field];
	char key[OTLP_KEY_BYTES_MAX], value[OTLP_VALUE_BYTES_MAX];
	const char *copy;

	snprintf(key, sizeof(key), "ringtail.%s.%.200s",
		 export_event_is_call(event) ? "syscall.arg" : "event", as->name);
	copy = export_arena_text(attributes->arena, key);
	if (as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX ||
	    as->type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING) {
		export_event_value_text(event, field, value, sizeof(value));
		otlp_add_text(attributes, copy, export_arena_text(attributes->arena, value));
	} else {
		otlp_add_number(attributes, copy, (int64_t)export_event_value(event, field));
	}
}

static void add_call(struct otlp_attributes *attributes, const struct export_event *event)
{
	int number = export_event_errno(event);
	const char *name = number ? strerrorname_np(number) : NULL;

	otlp_add_text(attributes, "ringtail.syscall.name", event->probe->function);
	for (unsigned i = 2; i < event->fields; i++)
		add_value(attributes, event, i);
	if (event->field[0] == RT_DURATION_NEVER)
		return;
	otlp_add_number(attributes, "ringtail.syscall.duration_ns", (int64_t)event->field[0]);
	otlp_add_number(attributes, "ringtail.syscall.ret", (int64_t)event->field[1]);
	if (name)
		otlp_add_text(attributes, "error.type", name);
}

void otlp_add_event(struct otlp_attributes *attributes, const struct export_event *event)
{
	add_thread(attributes, event);
	otlp_add_number(attributes, "ringtail.cpu", event->cpu);
	otlp_add_text(attributes, "ringtail.class", export_class_name(event->class));
	if (export_event_is_call(event)) {
		add_call(attributes, event);
		return;
	}
	if (event->class == EXPORT_EXIT && export_event_signal(event) > 0) {
		char name[24];

		export_event_signal_name(export_event_signal(event), name);
		otlp_add_text(attributes, "ringtail.signal",
			      export_arena_text(attributes->arena, name));
	}
	if (event->class == EXPORT_EXEC && event->has_string)
		otlp_add_text(attributes, "process.executable.path", event->string);
	else
		for (unsigned i = 0; i < event->fields; i++)
			add_value(attributes, event, i);
}

/* ---- Around the events ----------------------------------------------------------------------- */

Ringtail__Otlp__Resource *otlp_resource(const struct export_maker *maker, bool with_boot)
{
	const struct export_run *run = maker->run;
	Ringtail__Otlp__Resource *resource = export_arena_take(maker->arena, sizeof(*resource));
	struct otlp_attributes attributes;

	otlp_attributes_init(&attributes, maker->arena, OTLP_RESOURCE_ATTRIBUTES_MAX);
	otlp_add_text(&attributes, "service.name", "ringtail");
	otlp_add_text(&attributes, "service.version", RINGTAIL_VERSION);
	/* As `instance` of remote write and `host` of Loki: one name everywhere. */
	otlp_add_text(&attributes, "service.instance.id", run->name);
	otlp_add_text(&attributes, "host.name", run->name);
	if (run->host_id[0])
		otlp_add_text(&attributes, "host.id", run->host_id);
	if (with_boot)
		otlp_add_text(&attributes, "ringtail.boot.id", run->boot_text);
	otlp_add_text(&attributes, "host.arch",
		      strcmp(run->machine, "x86_64") == 0 ? "amd64" :
		      strcmp(run->machine, "aarch64") == 0 ? "arm64" : run->machine);
	otlp_add_text(&attributes, "os.type", "linux");
	otlp_add_text(&attributes, "os.version", run->kernel);
	ringtail__otlp__resource__init(resource);
	resource->attributes = attributes.list;
	resource->n_attributes = attributes.n;
	return resource;
}

Ringtail__Otlp__Scope *otlp_scope(const struct export_maker *maker)
{
	Ringtail__Otlp__Scope *scope = export_arena_take(maker->arena, sizeof(*scope));

	ringtail__otlp__scope__init(scope);
	scope->name = (char *)"ringtail";
	scope->version = (char *)RINGTAIL_VERSION;
	return scope;
}

int otlp_pack(const ProtobufCMessage *message, struct export_body *body)
{
	body->bytes = protobuf_c_message_get_packed_size(message);
	body->data = malloc(body->bytes + 1);
	if (!body->data)
		return -ENOMEM;
	protobuf_c_message_pack(message, body->data);
	return 0;
}

void otlp_judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
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
