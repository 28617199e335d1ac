#include "daemon/export/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES	4096u

static unsigned width_of(uint64_t value)
{
	uint8_t text[WIRE_WRITE_BYTES];

	return (unsigned)(wire_put(text, value) - text);
}

uint8_t *export_pack_grow(struct export_pack *pack, size_t bytes)
{
	size_t wanted = pack->bytes ? pack->bytes : FIRST_BYTES;
	uint8_t *data;

	if (pack->failed)
		return NULL;
	while (wanted - pack->used < bytes)
		wanted *= 2;
	data = realloc(pack->data, wanted);
	if (!data) {
		free(pack->data);
		*pack = (struct export_pack){.failed = true};
		return NULL;
	}
	pack->data = data;
	pack->bytes = wanted;
	return data + pack->used;
}

void export_pack_scalar(struct export_pack *pack, uint32_t field, uint64_t value)
{
	uint8_t *at = export_pack_room(pack, 0);

	if (at)
		export_pack_advance(pack, wire_put_scalar(at, field, value));
}

void export_pack_fixed64(struct export_pack *pack, uint32_t field, uint64_t value)
{
	uint8_t *at = value ? export_pack_room(pack, 0) : NULL;

	if (!at)
		return;
	at = wire_put_tag(at, field, WIRE_FIXED64);
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
	export_pack_advance(pack, at + sizeof(value));
}

void export_pack_bytes(struct export_pack *pack, uint32_t field, const void *data, size_t bytes)
{
	uint8_t *at = export_pack_room(pack, bytes);

	if (at)
		export_pack_advance(pack, wire_put_bytes(at, field, data, bytes));
}

void export_pack_text(struct export_pack *pack, uint32_t field, const char *text)
{
	export_pack_bytes(pack, field, text, strlen(text));
}

void export_pack_message(struct export_pack *pack, uint32_t field, const ProtobufCMessage *message)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *at = export_pack_room(pack, bytes);

	if (!at)
		return;
	at = wire_put(wire_put_tag(at, field, WIRE_BYTES), bytes);
	export_pack_advance(pack, at + protobuf_c_message_pack(message, at));
}

void export_pack_again(struct export_pack *pack, size_t from, size_t bytes)
{
	uint8_t *at = export_pack_room(pack, bytes);

	if (!at)
		return;
	memcpy(at, pack->data + from, bytes);
	export_pack_advance(pack, at + bytes);
}

struct export_pack_place export_pack_open(struct export_pack *pack, uint32_t field, size_t expected)
{
	struct export_pack_place place = {.width = width_of(expected)};
	uint8_t *at = export_pack_room(pack, 0);

	if (!at)
		return place;
	export_pack_advance(pack, wire_put_tag(at, field, WIRE_BYTES) + place.width);
	place.start = pack->used;
	return place;
}

void export_pack_close(struct export_pack *pack, struct export_pack_place place)
{
	size_t bytes = pack->used - place.start;
	uint8_t length[WIRE_WRITE_BYTES];
	unsigned width = (unsigned)(wire_put(length, bytes) - length);
	uint8_t *start;

	if (!export_pack_room(pack, 0))
		return;
	start = pack->data + place.start - place.width;
	if (width != place.width)
		memmove(start + width, start + place.width, bytes);
	memcpy(start, length, width);
	export_pack_advance(pack, start + width + bytes);
}

int export_pack_finish(struct export_pack *pack, struct export_body *body, uint64_t items)
{
	if (!export_pack_room(pack, 0))		/* an empty message has its bytes, too */
		return -ENOMEM;
	*body = (struct export_body){.data = pack->data, .bytes = pack->used, .items = items};
	return 0;
}
