#include "client/cli/message_out.h"

#include <string.h>

#include "client/lib/limits.h"
#include "proto/wire.h"
#include "query/visible.h"

#define LENGTH_BYTES	4

/* Room for n bytes and what a writer may touch beyond them; NULL: there is none. */
static uint8_t *room(struct message_out *message, size_t n)
{
	if (sizeof(message->bytes) - message->used < n + 2 * WIRE_WRITE_BYTES) {
		message->full = true;
		return NULL;
	}
	return message->bytes + message->used;
}

static void end_at(struct message_out *message, const uint8_t *end)
{
	message->used = (size_t)(end - message->bytes);
}

void message_out_begin(struct message_out *message)
{
	message->used = 0;
	message->full = false;
}

void message_out_number(struct message_out *message, uint32_t field, uint64_t value)
{
	uint8_t *at = room(message, 0);

	if (at)
		end_at(message, wire_put(wire_put_tag(at, field, WIRE_VARINT), value));
}

void message_out_bytes(struct message_out *message, uint32_t field, const void *bytes, size_t n)
{
	uint8_t *at = room(message, n);

	if (!at)
		return;
	at = wire_put(wire_put_tag(at, field, WIRE_BYTES), n);
	if (n)
		memcpy(at, bytes, n);
	end_at(message, at + n);
}

void message_out_visible(struct message_out *message, uint32_t field, const void *text, size_t n)
{
	size_t place = message_out_open(message, field);
	uint8_t *at = room(message, n + 1);

	if (at)
		message->used += visible_copy((char *)at, n + 1, text, n);
	message_out_close(message, place);
}

void message_out_text(struct message_out *message, uint32_t field, const char *text)
{
	message_out_visible(message, field, text, strnlen(text, FUNCTION_BYTES_MAX));
}

size_t message_out_open(struct message_out *message, uint32_t field)
{
	uint8_t *at = room(message, LENGTH_BYTES);

	if (!at)
		return SIZE_MAX;
	end_at(message, wire_put_tag(at, field, WIRE_BYTES) + LENGTH_BYTES);
	return message->used;
}

void message_out_close(struct message_out *message, size_t place)
{
	size_t n;

	if (place == SIZE_MAX)
		return;
	n = message->used - place;
	for (unsigned i = 0; i < LENGTH_BYTES; i++, n >>= 7)
		message->bytes[place - LENGTH_BYTES + i] =
			(uint8_t)((n & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

void message_out_packed(struct message_out *message, uint64_t value)
{
	uint8_t *at = room(message, 0);

	if (at)
		end_at(message, wire_put(at, value));
}
