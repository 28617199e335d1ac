#include "query/message_text.h"

#include <string.h>

#include "query/visible.h"

static bool is_visible(const ProtobufCMessageDescriptor *descriptor,
		       const ProtobufCFieldDescriptor *field, const char *text,
		       struct message_text_place *place)
{
	size_t n = strlen(text), shown = visible_span(text, n), bytes;

	if (shown == n)
		return true;
	*place = (struct message_text_place){
		.message = descriptor->short_name, .field = field->name, .byte = shown};
	place->no_text = visible_next(text + shown, n - shown, &bytes, &place->code) ==
			 VISIBLE_NO_TEXT;
	return false;
}

static bool are_visible(const ProtobufCMessageDescriptor *descriptor,
			const ProtobufCFieldDescriptor *field, void *const *value, size_t n,
			struct message_text_place *place)
{
	bool text = field->type == PROTOBUF_C_TYPE_STRING, visible = true;

	for (size_t i = 0; i < n && visible; i++)
		if (value[i])
			visible = text ? is_visible(descriptor, field, value[i], place) :
					 message_text_is_visible(value[i], place);
	return visible;
}

bool message_text_is_visible(const ProtobufCMessage *message, struct message_text_place *place)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	bool visible = true;

	for (unsigned i = 0; i < descriptor->n_fields && visible; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		const char *member = (const char *)message + field->offset;
		const char *count = (const char *)message + field->quantifier_offset;

		if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (field->label == PROTOBUF_C_LABEL_REPEATED)
			visible = are_visible(descriptor, field, *(void *const *const *)member,
					      *(const size_t *)count, place);
		else
			visible = are_visible(descriptor, field, (void *const *)member, 1, place);
	}
	return visible;
}
