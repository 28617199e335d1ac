#include "query/visible.h"

#include <string.h>

#include "query/utf8.h"

/* In order, from where to where. */
static const struct {
	uint16_t first, last;
} hidden[] = {
	{ 0x0000, 0x001f }, { 0x007f, 0x009f }, { 0x061c, 0x061c }, { 0x200e, 0x200f },
	{ 0x2028, 0x202e }, { 0x2066, 0x2069 },
};

static bool is_hidden(uint32_t code)
{
	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden) && code >= hidden[i].first; i++)
		if (code <= hidden[i].last)
			return true;
	return false;
}

enum visible visible_next(const void *at, size_t n, size_t *bytes, uint32_t *code)
{
	const uint8_t *byte = at;

	*bytes = utf8_decode(at, n, code);
	if (*bytes)
		return is_hidden(*code) ? VISIBLE_HIDDEN : VISIBLE_SHOWN;
	*bytes = 1;
	*code = *byte;
	return VISIBLE_NO_TEXT;
}

size_t visible_span(const void *text, size_t n)
{
	const uint8_t *at = text;
	size_t done = 0, bytes;
	uint32_t code;

	while (done < n) {
		if (at[done] >= ' ' && at[done] < 0x7f)		/* nearly all there is */
			bytes = 1;
		else if (visible_next(at + done, n - done, &bytes, &code) != VISIBLE_SHOWN)
			break;
		done += bytes;
	}
	return done;
}

bool visible_is_all(const char *text)
{
	size_t n = strlen(text);

	return visible_span(text, n) == n;
}

size_t visible_copy(char *to, size_t to_bytes, const void *text, size_t n)
{
	const uint8_t *at = text;
	size_t done = 0, used = 0, bytes;
	uint32_t code;

	if (!to_bytes)
		return 0;
	while (done < n) {
		size_t room = to_bytes - 1 - used;
		size_t shown = visible_span(at + done, n - done < room ? n - done : room);

		memmove(to + used, at + done, shown);
		used += shown;
		done += shown;
		/* What is shown and still here is longer than the room. */
		if (done == n || shown == room ||
		    visible_next(at + done, n - done, &bytes, &code) == VISIBLE_SHOWN)
			break;
		to[used++] = '?';
		done += bytes;
	}
	to[used] = '\0';
	return used;
}

/* What stands for something is never longer than it: a copy over itself does not overtake. */
void visible_replace(char *text)
{
	size_t n = strlen(text);

	visible_copy(text, n + 1, text, n);
}

void visible_put(FILE *to, const char *text)
{
	size_t n = strlen(text), bytes;
	uint32_t code;

	while (n) {
		size_t shown = visible_span(text, n);

		fwrite(text, 1, shown, to);
		text += shown;
		n -= shown;
		if (!n)
			break;
		visible_next(text, n, &bytes, &code);
		putc('?', to);
		text += bytes;
		n -= bytes;
	}
}

static void replace_all(const ProtobufCFieldDescriptor *field, void *const *value, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!value[i])
			continue;
		/* A default is a constant, and empty here. */
		if (field->type == PROTOBUF_C_TYPE_STRING && value[i] != field->default_value &&
		    *(const char *)value[i])
			visible_replace(value[i]);
		else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			visible_replace_message(value[i]);
	}
}

void visible_replace_message(ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;

	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		char *member = (char *)message + field->offset;
		const char *count = (const char *)message + field->quantifier_offset;

		if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (field->label == PROTOBUF_C_LABEL_REPEATED)
			replace_all(field, *(void ***)member, *(const size_t *)count);
		else
			replace_all(field, (void **)member, 1);
	}
}
