/*
 * elf_symbols: the functions of one ELF file, by where they lie in the file and by name, and its build-id.
 *
 * In: a file that anybody may have written, or change while it is read. It is read in pieces with
 * pread(2), never mapped; each length, place and number in it is checked. 64-bit little-endian files.
 */
#ifndef RINGTAIL_QUERY_ELF_SYMBOLS_H
#define RINGTAIL_QUERY_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUILD_ID_BYTES			20

#define ELF_HEADERS_MAX			4096u		/* of a file: program headers, and sections */
#define ELF_LOADS_MAX			16u		/* pieces of a file that are loaded */
#define ELF_NOTES_BYTES_MAX		4096u
#define ELF_SYMBOLS_BYTES_MAX		(64u << 20)	/* of a file's symbols, and of their names */
#define ELF_SIZELESS_BYTES		65536u		/* of a function that has no size */

struct elf_symbols;

/* NULL: it is no such file, or out of memory. `fd` is borrowed. */
struct elf_symbols *elf_symbols_load(int fd);
void elf_symbols_destroy(struct elf_symbols *symbols);

/* The same without the functions: where the file's pieces are loaded, and its build-id. */
struct elf_symbols *elf_symbols_load_places(int fd);

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

/* ---- By name ---------------------------------------------------------------------------------- */

struct elf_function {
	const char *name;		/* borrowed; may go on with "@" and a version */
	uint64_t address, bytes;	/* the linker's; 0 bytes: not known */
	bool is_chosen;			/* an ifunc: the code that decides which function it is */
};

size_t elf_symbols_functions(const struct elf_symbols *symbols);
struct elf_function elf_symbols_function(const struct elf_symbols *symbols, size_t i);

/* The reverse of elf_symbols_address(): where in the file lies what has that address; false: nowhere. */
bool elf_symbols_offset(const struct elf_symbols *symbols, uint64_t address, uint64_t *file_offset);

/*
 * A section's bytes, to be freed, and its linker's address. NULL: the file has none of that name, or one of
 * more than bytes_max.
 */
uint8_t *elf_section_read(int fd, const char *name, size_t bytes_max, size_t *bytes, uint64_t *address);

#endif
