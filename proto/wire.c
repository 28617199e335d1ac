/*
 * wire: reads the fields of a protobuf message, one by one. Any bytes in, fields out, any thread.
 */
#include "proto/wire.h"

static bool get_fixed(struct wire_reader *reader, unsigned bytes, uint64_t *value)
{
	uint64_t word = 0;

	if ((size_t)(reader->end - reader->at) < bytes)
		return false;
	memcpy(&word, reader->at, bytes);
	reader->at += bytes;
	*value = le64toh(word);
	return true;
}

static bool get_bytes(struct wire_reader *reader, struct wire_reader *body)
{
	uint64_t bytes;

	if (!wire_get(reader, &bytes) || bytes > (uint64_t)(reader->end - reader->at))
		return false;
	body->at = reader->at;
	body->end = reader->at += bytes;
	return true;
}

bool wire_get_field(struct wire_reader *reader, struct wire_field *field)
{
	uint64_t tag;

	if (!wire_get(reader, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
		return false;
	field->number = (uint32_t)(tag >> 3);
	field->type = tag & 7;
	switch (field->type) {
	case WIRE_VARINT:
		return wire_get(reader, &field->value);
	case WIRE_FIXED64:
		return get_fixed(reader, 8, &field->value);
	case WIRE_BYTES:
		return get_bytes(reader, &field->body);
	case WIRE_FIXED32:
		return get_fixed(reader, 4, &field->value);
	}
	return false;
}
