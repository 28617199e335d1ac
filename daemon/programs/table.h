/*
 * program_table: the probes that a program has.
 *
 * In: bytes from any local program (struct rt_program_hello, then a struct rt_program_probe each). Out: names,
 * formats and types that are fit for the catalog, or why not. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_PROGRAMS_TABLE_H
#define RINGTAIL_DAEMON_PROGRAMS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define RT_PROBE_LAYOUT_ONLY
#include "proto/ringtail-probe.h"
#include "proto/ringtail.pb-c.h"
#include "query/error.h"

#define PROGRAM_NAME_BYTES	64	/* of a provider, a name, a field; with the zero */

struct program_probe {
	const char *provider, *name, *format, *file;	/* in the bytes that were read */
	uint32_t line;
	enum rt_program_sort sort;
	uint32_t args;
	uint8_t type[RT_PROGRAM_ARGS_MAX];
	char field[RT_PROGRAM_ARGS_MAX][PROGRAM_NAME_BYTES];
};

/* -EPROTO with *error if it is no hello of this version, or names more than the limits allow. */
int program_hello_check(const struct rt_program_hello *hello, struct error *error);

/* `bytes` behind a good hello: hello->probes probes. -EPROTO with *error: one of them is not whole, or unfit. */
int program_table_parse(const struct rt_program_hello *hello, const void *bytes, struct program_probe *probe,
			struct error *error);

/* The words of a record's payload before its arguments, and before its texts. */
uint32_t program_probe_words_before(enum rt_program_sort sort);
uint32_t program_probe_words(const struct program_probe *probe);

/* What is attached to an argument comes in units of so many bytes: of a text 1. 0: nothing is. */
uint32_t program_probe_attached(const struct program_probe *probe, uint32_t arg);

/* As the catalog has it, with id 0; to be freed with ringtail__v1__probe__free_unpacked(). NULL: no memory. */
Ringtail__V1__Probe *program_probe_message(const struct program_probe *probe);

#endif
