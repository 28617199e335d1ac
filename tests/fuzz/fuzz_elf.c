/* fuzz_elf: bytes from outside as an ELF file: reading its functions stays inside them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "query/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct elf_symbols *symbols, uint64_t at)
{
	uint64_t offset = 0, address = 0;
	const char *name;

	if (elf_symbols_address(symbols, at, &address))
		at = address;
	name = elf_symbols_find(symbols, at, &offset);
	if (name && strlen(name) > 1u << 30)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1;
	struct elf_symbols *symbols;

	if (file < 0)
		file = memfd_create("elf", MFD_CLOEXEC);
	if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size)
		return 0;
	symbols = elf_symbols_load(file);
	for (size_t i = 0; symbols && i + 8 <= size && i < 512; i += 8) {
		uint64_t at;

		memcpy(&at, data + i, sizeof(at));
		look(symbols, at);
	}
	elf_symbols_destroy(symbols);
	return 0;
}
