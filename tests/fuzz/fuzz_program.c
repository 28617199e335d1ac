/*
 * fuzz_program: what any local program may send, and write into the memory that it shares with the daemon. The first
 * byte chooses: a hello and a table; or a ring. What is taken of a table makes probes that a catalog takes; what is
 * read of a ring lies within it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/programs/reader.h"
#include "daemon/programs/table.h"
#include "proto/limits.h"

#define DATA_BYTES	(1u << 12)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_message(const struct program_probe *probe)
{
	Ringtail__V1__Probe *message = program_probe_message(probe);

	if (!message || message->n_field > PROBE_FIELDS_MAX || strlen(message->print) > PRINT_BYTES_MAX ||
	    strpbrk(message->provider, ":*?") || strpbrk(message->function, ":*?"))
		abort();
	for (size_t i = 0; i < message->n_field; i++)
		for (size_t j = 0; j < i; j++)
			if (message->field[i]->type != RINGTAIL__V1__FIELD_TYPE__FIELD_MORE &&
			    strcmp(message->field[i]->name, message->field[j]->name) == 0)
				abort();
	ringtail__v1__probe__free_unpacked(message, NULL);
}

static void read_table(const uint8_t *bytes, size_t n)
{
	struct rt_program_hello hello;
	struct program_probe *probe;
	struct error error;
	uint8_t *table;

	if (n < sizeof(hello))
		return;
	memcpy(&hello, bytes, sizeof(hello));
	hello.magic = RT_PROGRAM_MAGIC;
	hello.version = RT_PROGRAM_VERSION;
	hello.bytes = (uint32_t)((n - sizeof(hello)) / 8 * 8);
	if (program_hello_check(&hello, &error) != 0)
		return;
	probe = calloc(hello.probes, sizeof(*probe));
	table = malloc(hello.bytes + 1);
	if (!probe || !table)
		abort();
	memcpy(table, bytes + sizeof(hello), hello.bytes);
	if (program_table_parse(&hello, table, probe, &error) == 0)
		for (uint32_t i = 0; i < hello.probes; i++)
			check_message(&probe[i]);
	free(table);
	free(probe);
}

/* Positions from the input, then the data; a second look finds what came meanwhile. */
static void read_ring(const uint8_t *bytes, size_t n)
{
	struct rt_program_ring *ring = calloc(1, RT_PROGRAM_PAGE + DATA_BYTES);
	struct program_reader reader;
	struct program_item item;
	uint16_t position[2];
	uint64_t time;

	if (!ring || n < sizeof(position)) {
		free(ring);
		return;
	}
	memcpy(position, bytes, sizeof(position));
	n -= sizeof(position);
	memcpy((char *)ring + RT_PROGRAM_PAGE, bytes + sizeof(position), n < DATA_BYTES ? n : DATA_BYTES);
	program_reader_init(&reader, ring, DATA_BYTES);
	for (unsigned look = 0; look < 2; look++) {
		ring->producer_pos = position[look];
		program_reader_look(&reader);
		while (program_reader_peek(&reader, &time)) {
			uint64_t before = reader.pos;

			program_reader_take(&reader, &item);
			if (item.words > RT_PROGRAM_WORDS_MAX - RT_PROGRAM_HEAD_WORDS || reader.pos <= before ||
			    reader.pos > reader.end)
				abort();
		}
		if (program_reader_lost(&reader) > INT64_MAX)
			abort();
		program_reader_release(&reader);
	}
	free(ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	if (!n)
		return 0;
	if (bytes[0] & 1)
		read_ring(bytes + 1, n - 1);
	else
		read_table(bytes + 1, n - 1);
	return 0;
}
