/* export_show: a protobuf message as one line of text, for tests that say what a body is to be. */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_EXPORT_SHOW_H
#define RINGTAIL_TESTS_UNIT_DAEMON_EXPORT_SHOW_H

#include <inttypes.h>
#include <protobuf-c/protobuf-c.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline void show(FILE *out, const ProtobufCMessage *message);

static inline void show_value(FILE *out, const ProtobufCFieldDescriptor *field, const uint8_t *at)
{
	const ProtobufCBinaryData *bytes = (const ProtobufCBinaryData *)at;

	switch (field->type) {
	case PROTOBUF_C_TYPE_MESSAGE:
		show(out, *(ProtobufCMessage *const *)at);
		break;
	case PROTOBUF_C_TYPE_STRING:
		fprintf(out, "'%s'", *(char *const *)at);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		for (size_t i = 0; i < bytes->len; i++)
			fprintf(out, "%02x", bytes->data[i]);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		fprintf(out, "%.17g", *(const double *)at);
		break;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_ENUM:
		fprintf(out, "%d", *(const int *)at);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		fputs(*(const protobuf_c_boolean *)at ? "true" : "false", out);
		break;
	default:
		fprintf(out, "%" PRId64, *(const int64_t *)at);
	}
}

static inline size_t show_size(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_ENUM:
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(int);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	default:
		return 8;
	}
}

/* What proto3 leaves out is left out. */
static inline int show_is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const uint8_t *at = (const uint8_t *)message + field->offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)((const uint8_t *)message + field->quantifier_offset) > 0;
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return *(const uint32_t *)((const uint8_t *)message + field->quantifier_offset) == field->id;
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return *(char *const *)at && **(char *const *)at;
	if (field->type == PROTOBUF_C_TYPE_BYTES)
		return ((const ProtobufCBinaryData *)at)->len > 0;
	return memcmp(at, "\0\0\0\0\0\0\0", show_size(field)) != 0;
}

static inline void show_field(FILE *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const uint8_t *at = (const uint8_t *)message + field->offset;

	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		show_value(out, field, at);
		return;
	}
	fputc('[', out);
	for (size_t i = 0; i < *(const size_t *)((const uint8_t *)message + field->quantifier_offset); i++) {
		if (i)
			fputc(' ', out);
		show_value(out, field, *(const uint8_t *const *)at + i * show_size(field));
	}
	fputc(']', out);
}

/* `{a=1 b='x' c={...}}`; of a pair of a name and a value, and of a value of many types, that alone: `name='x'`. */
static inline void show(FILE *out, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	const char *before = "";
	int pair = type->n_fields == 2 && !strcmp(type->fields[1].name, "value") &&
		   type->fields[0].type == PROTOBUF_C_TYPE_STRING;
	int any = !strcmp(type->short_name, "AnyValue");

	if (!pair && !any)
		fputc('{', out);
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];

		if (!show_is_there(message, field))
			continue;
		if (pair && !i) {
			fprintf(out, "%s=", *(char *const *)((const uint8_t *)message + field->offset));
			continue;
		}
		if (!pair && !any)
			fprintf(out, "%s%s=", before, field->name);
		show_field(out, message, field);
		before = " ";
	}
	if (!pair && !any)
		fputc('}', out);
}

#endif
