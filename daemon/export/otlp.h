/*
 * export_otlp: what logs, traces and metrics of OTLP have in common: attributes, the resource, the
 * scope, and the answer. The export thread.
 *
 * Names are those of OpenTelemetry's semantic conventions where there are any (process.*, thread.*,
 * host.*, os.*, error.type); system calls have none, so theirs begin with ringtail.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_OTLP_H
#define RINGTAIL_DAEMON_EXPORT_OTLP_H

#include "daemon/export/kind.h"
#include "proto/export/otlp.pb-c.h"

#define OTLP_EVENT_ATTRIBUTES_MAX	(12u + PROBE_FIELDS_MAX)
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

struct otlp_attributes {
	struct export_arena *arena;
	size_t n, max;
	Ringtail__Otlp__KeyValue **list;
};

void otlp_attributes_init(struct otlp_attributes *attributes, struct export_arena *arena,
			  size_t max);

/* The texts are borrowed until the message is packed. */
void otlp_add_text(struct otlp_attributes *attributes, const char *key, const char *value);
void otlp_add_number(struct otlp_attributes *attributes, const char *key, int64_t value);
Ringtail__Otlp__AnyValue *otlp_text(struct export_arena *arena, const char *value);

/* Everything an event has to say of itself. */
void otlp_add_event(struct otlp_attributes *attributes, const struct export_event *event);

/*
 * The host: the same over boots, for a back end may make a series of each resource. with_boot: says
 * which boot it was, too, where each item is a thing of its own.
 */
Ringtail__Otlp__Resource *otlp_resource(const struct export_maker *maker, bool with_boot);
Ringtail__Otlp__Scope *otlp_scope(const struct export_maker *maker);

/* Packs into an allocated body. -ENOMEM. */
int otlp_pack(const ProtobufCMessage *message, struct export_body *body);

/* Partial success is counted; an answer that is no protobuf is as good as an empty one. */
void otlp_judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict);

#endif
