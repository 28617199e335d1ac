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

/* ---- A file made here: notes, a table of symbols and their names ------------------------------- */

struct made {
	Elf64_Ehdr header;
	Elf64_Phdr program;
	Elf64_Shdr section[3];		/* none, the table, the names */
	Elf64_Sym symbol[3];
	char names[16];
	uint8_t note[128];
};

/* Functions `one` and `two`, and a variable; no note. */
static struct made make(void)
{
	struct made made = {
		.header = {
			.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
			.e_phoff = offsetof(struct made, program), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
			.e_shoff = offsetof(struct made, section), .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3,
		},
		.program = {.p_type = PT_NOTE, .p_offset = offsetof(struct made, note)},
		.section = {
			[1] = {.sh_type = SHT_SYMTAB, .sh_link = 2, .sh_offset = offsetof(struct made, symbol),
			       .sh_size = 3 * sizeof(Elf64_Sym)},
			[2] = {.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct made, names), .sh_size = 9},
		},
		.symbol = {
			{.st_name = 1, .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x100, .st_size = 0x10},
			{.st_name = 5, .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x200, .st_size = 0x10},
			{.st_name = 1, .st_info = STT_OBJECT, .st_shndx = 1, .st_value = 0x300, .st_size = 0x10},
		},
		.names = "\0one\0two",
	};

	return made;
}

static struct elf_symbols *load(const struct made *made)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct elf_symbols *symbols;

	assert_int_equal(write(fd, made, sizeof(*made)), sizeof(*made));
	symbols = elf_symbols_load(fd);
	close(fd);
	assert_non_null(symbols);
	return symbols;
}

static void only_functions_with_a_name_of_the_table_are_taken(void **state)
{
	struct made made = make();
	struct elf_symbols *symbols = load(&made);
	uint64_t offset;

	(void)state;
	assert_true(elf_symbols_are_all(symbols));
	assert_int_equal(elf_symbols_functions(symbols), 2);
	assert_string_equal(elf_symbols_find(symbols, 0x20f, &offset), "two");
	assert_int_equal(offset, 0xf);
	assert_null(elf_symbols_find(symbols, 0x210, &offset));
	assert_null(elf_symbols_find(symbols, 0x300, &offset));
	elf_symbols_destroy(symbols);
	made.symbol[0].st_name = 1u << 30;	/* far behind the names */
	made.symbol[1].st_shndx = SHN_UNDEF;	/* another file's */
	made.symbol[2].st_info = STT_GNU_IFUNC;
	made.symbol[2].st_name = 5;
	symbols = load(&made);
	assert_int_equal(elf_symbols_functions(symbols), 1);
	assert_true(elf_symbols_function(symbols, 0).is_chosen);
	assert_string_equal(elf_symbols_function(symbols, 0).name, "two");
	elf_symbols_destroy(symbols);
}

/* Those that other files may call are some of them; a table that has none is not all there is to know. */
static void all_functions_are_in_the_whole_table_alone(void **state)
{
	struct made made = make();
	struct elf_symbols *symbols;

	(void)state;
	made.section[1].sh_type = SHT_DYNSYM;
	symbols = load(&made);
	assert_int_equal(elf_symbols_functions(symbols), 2);
	assert_false(elf_symbols_are_all(symbols));
	elf_symbols_destroy(symbols);
	made.section[1].sh_type = SHT_SYMTAB;
	made.section[1].sh_size = 0;
	symbols = load(&made);
	assert_int_equal(elf_symbols_functions(symbols), 0);
	assert_false(elf_symbols_are_all(symbols));
	elf_symbols_destroy(symbols);
	made = make();
	made.section[1].sh_link = 3;		/* of no section */
	symbols = load(&made);
	assert_int_equal(elf_symbols_functions(symbols), 0);
	elf_symbols_destroy(symbols);
}

static size_t put_note(struct made *made, size_t at, uint32_t name, uint32_t bytes, uint32_t type, const char *who)
{
	Elf64_Nhdr note = {.n_namesz = name, .n_descsz = bytes, .n_type = type};
	size_t size = sizeof(note) + 4 + ((bytes < 64 ? bytes : 0) + 3) / 4 * 4;

	memcpy(made->note + at, &note, sizeof(note));
	memcpy(made->note + at + sizeof(note), who, 4);
	memset(made->note + at + sizeof(note) + 4, 0x5a, size - sizeof(note) - 4);
	made->program.p_filesz = at + size;
	return at + size;
}

static void a_build_id_is_a_whole_note_of_at_most_20_bytes(void **state)
{
	static const struct {
		uint32_t name, bytes, type;
		const char *who;
		unsigned taken;
	} row[] = {
		{4, 20, NT_GNU_BUILD_ID, "GNU", 20}, {4, 8, NT_GNU_BUILD_ID, "GNU", 8},
		{4, 21, NT_GNU_BUILD_ID, "GNU", 0}, {4, 40, NT_GNU_BUILD_ID, "GNU", 0},
		{4, 20, NT_GNU_ABI_TAG, "GNU", 0}, {4, 20, NT_GNU_BUILD_ID, "GNO", 0},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct made made = make();
		size_t at = put_note(&made, 0, 4, 4, NT_GNU_ABI_TAG, "GNU");
		uint8_t expected[BUILD_ID_BYTES] = {0};
		struct elf_symbols *symbols;

		memset(expected, 0x5a, row[i].taken);
		put_note(&made, at, row[i].name, row[i].bytes, row[i].type, row[i].who);
		symbols = load(&made);
		assert_memory_equal(elf_symbols_build_id(symbols), expected, sizeof(expected));
		elf_symbols_destroy(symbols);
	}
}

/* What lies behind a note that is longer than all of them is not one. */
static void no_note_is_behind_one_without_end(void **state)
{
	static const uint32_t wild[][2] = {{UINT32_MAX, 0}, {0, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}, {200, 0}};
	static const uint8_t none[BUILD_ID_BYTES];

	(void)state;
	for (unsigned i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		struct made made = make();
		struct elf_symbols *symbols;

		put_note(&made, 0, wild[i][0], wild[i][1], NT_GNU_ABI_TAG, "GNU");
		put_note(&made, sizeof(Elf64_Nhdr), 4, 20, NT_GNU_BUILD_ID, "GNU");
		symbols = load(&made);
		assert_memory_equal(elf_symbols_build_id(symbols), none, sizeof(none));
		elf_symbols_destroy(symbols);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_functions_have_their_names),
		cmocka_unit_test(damaged_files_are_read_within_their_bounds),
		cmocka_unit_test(what_is_no_elf_file_is_refused),
		cmocka_unit_test(only_functions_with_a_name_of_the_table_are_taken),
		cmocka_unit_test(all_functions_are_in_the_whole_table_alone),
		cmocka_unit_test(a_build_id_is_a_whole_note_of_at_most_20_bytes),
		cmocka_unit_test(no_note_is_behind_one_without_end),
	};

	return a_function_to_be_found(-1) + cmocka_run_group_tests(tests, NULL, NULL);
}
