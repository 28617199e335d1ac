#include "proto/message.h"

#include <assert.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/wire.h"

/* Of one call: what is left of its bounds, and where it stands. */
struct check {
	uint32_t elements;
	struct message_place place;
};

/* ---- Faults ---------------------------------------------------------------------------------- */

static const struct {
	const char *code, *text;
} faults[] = {
	[MESSAGE_GOOD] = {"", ""},
	[MESSAGE_BAD] = {"bad-message", "is no message"},
	[MESSAGE_REPEATED] = {"field-repeated", "comes twice, and may come once"},
	[MESSAGE_WRONG_TYPE] = {"field-type", "is of another wire type"},
	[MESSAGE_NUL] = {"field-nul", "has a NUL in its text"},
	[MESSAGE_TOO_DEEP] = {"message-too-deep", "has too many messages inside each other"},
	[MESSAGE_TOO_MANY] = {"too-many-elements", "has too many elements"},
};

const char *message_fault_code(enum message_fault fault)
{
	return faults[fault].code;
}

const char *message_fault_text(enum message_fault fault)
{
	return faults[fault].text;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static enum wire_type wire_type_of(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return WIRE_FIXED32;
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return WIRE_FIXED64;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return WIRE_BYTES;
	default:
		return WIRE_VARINT;
	}
}

static enum message_fault take_elements(struct check *check, size_t n)
{
	if (n > check->elements)
		return MESSAGE_TOO_MANY;
	check->elements -= (uint32_t)n;
	return MESSAGE_GOOD;
}

/* Each number ends with a byte without the bit that says "more". */
static size_t count_packed(const struct wire_reader *body, enum wire_type type)
{
	size_t bytes = (size_t)(body->end - body->at), n = 0;

	if (type != WIRE_VARINT)
		return bytes / (type == WIRE_FIXED32 ? 4 : 8);
	for (const uint8_t *at = body->at; at < body->end; at++)
		n += *at < 0x80;
	return n;
}

static enum message_fault check_message(struct check *check,
					const ProtobufCMessageDescriptor *descriptor,
					struct wire_reader reader, unsigned depth);

/* Of the wire type that its kind of field has. */
static enum message_fault check_value(struct check *check, const ProtobufCFieldDescriptor *known,
				      const struct wire_field *field, unsigned depth)
{
	const struct wire_reader *body = &field->body;

	if (known->type == PROTOBUF_C_TYPE_STRING &&
	    memchr(body->at, '\0', (size_t)(body->end - body->at)))
		return MESSAGE_NUL;
	if (known->type != PROTOBUF_C_TYPE_MESSAGE)
		return MESSAGE_GOOD;
	return check_message(check, known->descriptor, *body, depth + 1);
}

static enum message_fault check_repeated(struct check *check,
					 const ProtobufCFieldDescriptor *known,
					 const struct wire_field *field, unsigned depth)
{
	enum wire_type type = wire_type_of(known);
	enum message_fault fault;

	if (field->type == WIRE_BYTES && type != WIRE_BYTES)
		return take_elements(check, count_packed(&field->body, type));
	if (field->type != type)
		return MESSAGE_WRONG_TYPE;
	fault = take_elements(check, 1);
	return fault ? fault : check_value(check, known, field, depth);
}

/* A bit for each field; those of one oneof have a bit in common. */
static uint64_t bit_of(const ProtobufCMessageDescriptor *descriptor,
		       const ProtobufCFieldDescriptor *known)
{
	unsigned i = 0;

	if (known->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		while (!(descriptor->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
		       descriptor->fields[i].quantifier_offset != known->quantifier_offset)
			i++;
	else
		i = (unsigned)(known - descriptor->fields);
	return UINT64_C(1) << i;
}

static enum message_fault check_field(struct check *check,
				      const ProtobufCMessageDescriptor *descriptor,
				      const struct wire_field *field, uint64_t *seen, unsigned depth)
{
	const ProtobufCFieldDescriptor *known =
		protobuf_c_message_descriptor_get_field(descriptor, field->number);
	uint64_t bit;

	check->place = (struct message_place){descriptor->short_name, known ? known->name : NULL};
	if (!known)
		return take_elements(check, 1);
	if (known->label == PROTOBUF_C_LABEL_REPEATED)
		return check_repeated(check, known, field, depth);
	if (field->type != wire_type_of(known))
		return MESSAGE_WRONG_TYPE;
	bit = bit_of(descriptor, known);
	if (*seen & bit)
		return MESSAGE_REPEATED;
	*seen |= bit;
	return check_value(check, known, field, depth);
}

/* Each byte is passed over once for each message that it is inside of. */
static enum message_fault check_message(struct check *check,
					const ProtobufCMessageDescriptor *descriptor,
					struct wire_reader reader, unsigned depth)
{
	enum message_fault fault = MESSAGE_GOOD;
	struct wire_field field;
	uint64_t seen = 0;

	assert(descriptor->n_fields <= 64);
	if (depth > MESSAGE_DEPTH_MAX)
		return MESSAGE_TOO_DEEP;
	while (!fault && reader.at < reader.end) {
		check->place = (struct message_place){descriptor->short_name, NULL};
		fault = wire_get_field(&reader, &field) ?
				check_field(check, descriptor, &field, &seen, depth) :
				MESSAGE_BAD;
	}
	return fault;
}

enum message_fault message_check(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
				 size_t n, uint32_t elements_max, struct message_place *place)
{
	struct check check = {.elements = elements_max};
	enum message_fault fault =
		check_message(&check, descriptor, (struct wire_reader){bytes, n ? bytes + n : bytes}, 1);

	if (place)
		*place = check.place;
	return fault;
}

/* ---- Unpacking ------------------------------------------------------------------------------- */

void *message_unpack_checked(const ProtobufCMessageDescriptor *descriptor,
			     ProtobufCAllocator *allocator, const uint8_t *bytes, size_t n)
{
	return protobuf_c_message_unpack(descriptor, allocator, n, bytes);
}

void *message_unpack(const ProtobufCMessageDescriptor *descriptor, ProtobufCAllocator *allocator,
		     const uint8_t *bytes, size_t n)
{
	if (message_check(descriptor, bytes, n, MESSAGE_ELEMENTS_MAX, NULL) != MESSAGE_GOOD)
		return NULL;
	return message_unpack_checked(descriptor, allocator, bytes, n);
}
