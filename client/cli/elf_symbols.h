/*
 * elf_symbols: the functions of one ELF file, by where they lie in the file, and its build-id.
 *
 * In: a file that anybody may have written, or change while it is read. It is read in pieces with
 * pread(2), never mapped; each length, place and number in it is checked. 64-bit little-endian files.
 */
#ifndef RINGTAIL_CLIENT_CLI_ELF_SYMBOLS_H
#define RINGTAIL_CLIENT_CLI_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUILD_ID_BYTES 20

struct elf_symbols;

/* NULL: it is no such file, or out of memory. `fd` is borrowed. */
struct elf_symbols *elf_symbols_load(int fd);
void elf_symbols_destroy(struct elf_symbols *symbols);

/* Memory that it takes. */
size_t elf_symbols_bytes(const struct elf_symbols *symbols);

/* Whether it has the table of all functions, not just that of those which others may call. */
bool elf_symbols_are_all(const struct elf_symbols *symbols);

/* Zeros: it has none. */
const uint8_t *elf_symbols_build_id(const struct elf_symbols *symbols);

/* The address that the file's linker gave to what lies at `file_offset`; false: nothing is loaded there. */
bool elf_symbols_address(const struct elf_symbols *symbols, uint64_t file_offset, uint64_t *address);

/* The function that the linker's address is in, and how far; NULL: none. Borrowed. */
const char *elf_symbols_find(const struct elf_symbols *symbols, uint64_t address, uint64_t *offset);

#endif
