/*
 * fuzz_jit: /tmp/perf-PID.map of a program that writes what it likes, which grows as it is read: a name that is
 * found is text with an end, and its function has the address in it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/cli/jit_symbols.h"
#include "client/lib/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct jit_symbols *symbols, uint64_t address)
{
	const char *name;
	uint64_t offset;

	name = jit_symbols_find(symbols, address, &offset);
	if (name && (offset > address || strlen(name) >= FUNCTION_BYTES_MAX || !*name))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("map", MFD_CLOEXEC);
	struct jit_symbols *symbols = fd < 0 ? NULL : jit_symbols_create(dup(fd));

	if (!symbols)
		abort();
	for (size_t done = 0, piece = 1 + size / 3; done < size; done += piece) {
		size_t n = size - done < piece ? size - done : piece;

		if (write(fd, data + done, n) != (ssize_t)n)
			abort();
		for (uint64_t address = 1; address < 1ull << 62; address <<= 3)
			look(symbols, address);
	}
	if (size >= 8) {
		uint64_t address;

		memcpy(&address, data, sizeof(address));
		look(symbols, address);
	}
	close(fd);
	jit_symbols_destroy(symbols);
	return 0;
}
