#include "daemon/base/trace_id.h"

#include <endian.h>
#include <string.h>

/* What is hashed: the place, and which of the two ids is asked for. */
#define WORDS	4
#define OF_TRACE 0
#define OF_SPAN	1

static uint64_t read_le64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static void write_le64(uint8_t *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
}

static uint64_t rotate(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

static inline void rounds(uint64_t v[4], unsigned n)
{
	while (n-- > 0) {
		v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
		v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
	}
}

static inline void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

static void hash(const struct trace_place *place, uint64_t of, uint8_t out[16])
{
	uint64_t k0 = read_le64(place->boot_id), k1 = read_le64(place->boot_id + 8);
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee,
			 k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
	const uint64_t word[WORDS] = {place->epoch, place->cpu, place->seq, of};

	for (unsigned i = 0; i < WORDS; i++)
		absorb(v, word[i]);
	absorb(v, (uint64_t)(WORDS * 8) << 56);
	v[2] ^= 0xee;
	rounds(v, 4);
	write_le64(out, v[0] ^ v[1] ^ v[2] ^ v[3]);
	v[1] ^= 0xdd;
	rounds(v, 4);
	write_le64(out + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}

static void forbid_zero(uint8_t *id, unsigned bytes)
{
	uint8_t any = 0;

	for (unsigned i = 0; i < bytes; i++)
		any |= id[i];
	if (!any)
		id[bytes - 1] = 1;
}

void trace_id_make(const struct trace_place *place, uint8_t id[TRACE_ID_BYTES])
{
	hash(place, OF_TRACE, id);
	forbid_zero(id, TRACE_ID_BYTES);
}

void trace_id_make_span(const struct trace_place *place, uint8_t id[SPAN_ID_BYTES])
{
	uint8_t whole[16];

	hash(place, OF_SPAN, whole);
	memcpy(id, whole, SPAN_ID_BYTES);
	forbid_zero(id, SPAN_ID_BYTES);
}

static void put_hex(const uint8_t *id, unsigned bytes, char *text)
{
	static const char digit[] = "0123456789abcdef";

	for (unsigned i = 0; i < bytes; i++) {
		text[2 * i] = digit[id[i] >> 4];
		text[2 * i + 1] = digit[id[i] & 15];
	}
	text[2 * bytes] = '\0';
}

void trace_id_text(const uint8_t id[TRACE_ID_BYTES], char text[TRACE_ID_TEXT_BYTES])
{
	put_hex(id, TRACE_ID_BYTES, text);
}
