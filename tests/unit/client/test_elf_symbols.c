/* Functions of ELF files: this program's own, and what is left of it when it is damaged. */
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "query/elf_symbols.h"

#define DAMAGES 300

int a_function_to_be_found(int x);

__attribute__((noinline)) int a_function_to_be_found(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

static int find_base(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)bytes;
	*(uint64_t *)context = info->dlpi_addr;
	return 1;		/* the first is the program itself */
}

/* The linker's address of a function of this program. */
static uint64_t linked(uintptr_t at)
{
	uint64_t base = 0;

	dl_iterate_phdr(find_base, &base);
	return at - base;
}

static struct elf_symbols *load_self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_symbols *symbols = elf_symbols_load(fd);

	close(fd);
	return symbols;
}

static void own_functions_have_their_names(void **state)
{
	struct elf_symbols *symbols = load_self();
	uint64_t at = linked((uintptr_t)a_function_to_be_found), offset = 0, address;
	static const uint8_t none[BUILD_ID_BYTES];

	(void)state;
	assert_non_null(symbols);
	assert_true(elf_symbols_are_all(symbols));
	assert_string_equal(elf_symbols_find(symbols, at + 1, &offset), "a_function_to_be_found");
	assert_int_equal(offset, 1);
	assert_null(elf_symbols_find(symbols, 0, &offset));
	assert_null(elf_symbols_find(symbols, UINT64_MAX, &offset));
	assert_memory_not_equal(elf_symbols_build_id(symbols), none, sizeof(none));
	/* Each byte of the head is loaded where the linker put it. */
	assert_true(elf_symbols_address(symbols, 64, &address));
	assert_false(elf_symbols_address(symbols, UINT64_MAX - 5, &address));
	elf_symbols_destroy(symbols);
}

static int copy_of_self(uint8_t **bytes, size_t *size)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat stat_of;

	assert_true(fd >= 0 && fstat(fd, &stat_of) == 0);
	*size = (size_t)stat_of.st_size;
	*bytes = malloc(*size);
	assert_non_null(*bytes);
	assert_int_equal(pread(fd, *bytes, *size, 0), *size);
	close(fd);
	return memfd_create("elf", MFD_CLOEXEC);
}

static void try(int fd)
{
	struct elf_symbols *symbols = elf_symbols_load(fd);
	uint64_t offset = 0, address = 0;

	if (!symbols)
		return;
	for (uint64_t at = 0; at < 1 << 20; at += 4093) {
		const char *name = elf_symbols_find(symbols, at, &offset);

		if (name)
			assert_true(strlen(name) < 1 << 20);
		elf_symbols_address(symbols, at, &address);
	}
	elf_symbols_destroy(symbols);
}

/* Eight bytes of the headers become what an attacker might like to have there. */
static void damaged_files_are_read_within_their_bounds(void **state)
{
	static const uint64_t wild[] = { 0, 1, 0xffff, 1u << 31, UINT64_MAX, UINT64_MAX - 63 };
	uint64_t seed = (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
	uint8_t *bytes;
	size_t size;
	int fd = copy_of_self(&bytes, &size);
	uint64_t sections;

	(void)state;
	print_message("seed %" PRIu64 "\n", seed);
	memcpy(&sections, bytes + 40, sizeof(sections));
	assert_int_equal(pwrite(fd, bytes, size, 0), size);
	for (unsigned i = 0; i < DAMAGES; i++) {
		uint64_t at, value;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		at = seed >> 33;
		at = i % 2 ? at % 1024 : sections + at % (size - sections - 8);
		value = wild[(seed >> 20) % (sizeof(wild) / sizeof(wild[0]))];
		assert_int_equal(pwrite(fd, &value, sizeof(value), (off_t)at), sizeof(value));
		try(fd);
		assert_int_equal(pwrite(fd, bytes + at, sizeof(value), (off_t)at), sizeof(value));
	}
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(ftruncate(fd, (off_t)(size - i * size / 40)), 0);
		try(fd);
	}
	close(fd);
	free(bytes);
}

static void what_is_no_elf_file_is_refused(void **state)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), text = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_null(elf_symbols_load(null));
	assert_null(elf_symbols_load(text));
	close(null);
	close(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_functions_have_their_names),
		cmocka_unit_test(damaged_files_are_read_within_their_bounds),
		cmocka_unit_test(what_is_no_elf_file_is_refused),
	};

	return a_function_to_be_found(-1) + cmocka_run_group_tests(tests, NULL, NULL);
}
