#include "query/elf_symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct function {
	uint64_t address, bytes;
	uint32_t name;			/* offset into names */
	bool is_chosen;			/* STT_GNU_IFUNC */
};

struct load {
	uint64_t offset, bytes, address;
};

struct elf_symbols {
	bool all;
	uint8_t build_id[BUILD_ID_BYTES];
	unsigned loads;
	struct load load[ELF_LOADS_MAX];
	size_t functions;
	struct function *function;	/* by address */
	size_t names_bytes;
	char *names;			/* ends with a NUL */
};

static bool read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
	uint8_t *at = to;

	if (offset > INT64_MAX - bytes)
		return false;
	while (bytes) {
		ssize_t got = pread(fd, at, bytes, (off_t)offset);

		if (got <= 0)
			return false;
		at += got;
		offset += (uint64_t)got;
		bytes -= (size_t)got;
	}
	return true;
}

/* ---- Program headers ------------------------------------------------------------------------ */

/* One note after the other; each length is of the file's making. */
static void take_notes(struct elf_symbols *symbols, const uint8_t *at, size_t bytes)
{
	while (bytes >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		size_t name, size;

		memcpy(&note, at, sizeof(note));
		if (note.n_namesz > bytes || note.n_descsz > bytes)
			return;
		name = (note.n_namesz + 3u) & ~(size_t)3;
		size = sizeof(note) + name + ((note.n_descsz + 3u) & ~(size_t)3);
		if (size > bytes)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(at + sizeof(note), "GNU", 4) && note.n_descsz <= BUILD_ID_BYTES)
			memcpy(symbols->build_id, at + sizeof(note) + name, note.n_descsz);
		at += size;
		bytes -= size;
	}
}

static void read_notes(struct elf_symbols *symbols, int fd, uint64_t offset, uint64_t bytes)
{
	uint8_t notes[ELF_NOTES_BYTES_MAX];
	size_t size = bytes < sizeof(notes) ? (size_t)bytes : sizeof(notes);

	if (read_at(fd, offset, notes, size))
		take_notes(symbols, notes, size);
}

static bool read_program_headers(struct elf_symbols *symbols, int fd, const Elf64_Ehdr *header)
{
	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > ELF_HEADERS_MAX)
		return header->e_phnum == 0;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr program;

		if (!read_at(fd, header->e_phoff + i * sizeof(program), &program, sizeof(program)))
			return false;
		if (program.p_type == PT_NOTE)
			read_notes(symbols, fd, program.p_offset, program.p_filesz);
		if (program.p_type == PT_LOAD && symbols->loads < ELF_LOADS_MAX)
			symbols->load[symbols->loads++] = (struct load){
				.offset = program.p_offset,
				.bytes = program.p_filesz,
				.address = program.p_vaddr,
			};
	}
	return true;
}

/* ---- Symbols -------------------------------------------------------------------------------- */

static void *read_section(int fd, const Elf64_Shdr *section, uint64_t bytes_max, size_t more)
{
	uint8_t *bytes;

	if (section->sh_type == SHT_NOBITS || section->sh_size > bytes_max)
		return NULL;
	bytes = malloc((size_t)section->sh_size + more);
	if (bytes && !read_at(fd, section->sh_offset, bytes, (size_t)section->sh_size)) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

static int compare(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void take_functions(struct elf_symbols *symbols, const Elf64_Sym *symbol, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned type = ELF64_ST_TYPE(symbol[i].st_info);

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol[i].st_shndx == SHN_UNDEF ||
		    symbol[i].st_name >= symbols->names_bytes || !symbols->names[symbol[i].st_name])
			continue;
		symbols->function[symbols->functions++] = (struct function){
			.address = symbol[i].st_value,
			.bytes = symbol[i].st_size,
			.name = symbol[i].st_name,
			.is_chosen = type == STT_GNU_IFUNC,
		};
	}
	qsort(symbols->function, symbols->functions, sizeof(*symbols->function), compare);
}

static bool read_symbols(struct elf_symbols *symbols, int fd, const Elf64_Shdr *table,
			 const Elf64_Shdr *names)
{
	size_t count = (size_t)(table->sh_size / sizeof(Elf64_Sym));
	Elf64_Sym *symbol = read_section(fd, table, ELF_SYMBOLS_BYTES_MAX, 0);

	symbols->names = read_section(fd, names, ELF_SYMBOLS_BYTES_MAX, 1);
	/* A table that could not be read may say that it has any number of them. */
	symbols->function = symbol ? calloc(count ? count : 1, sizeof(*symbols->function)) : NULL;
	if (symbol && symbols->names && symbols->function) {
		symbols->names_bytes = (size_t)names->sh_size;
		symbols->names[symbols->names_bytes] = '\0';
		take_functions(symbols, symbol, count);
	}
	free(symbol);
	if (symbols->functions) {
		void *smaller = reallocarray(symbols->function, symbols->functions,
					     sizeof(*symbols->function));

		symbols->function = smaller ? smaller : symbols->function;
	}
	return symbols->functions > 0;
}

static void forget_symbols(struct elf_symbols *symbols)
{
	free(symbols->names);
	free(symbols->function);
	symbols->names = NULL;
	symbols->function = NULL;
	symbols->functions = symbols->names_bytes = 0;
}

/* All of the file's; NULL: they cannot be had. */
static Elf64_Shdr *read_section_headers(int fd, const Elf64_Ehdr *header)
{
	Elf64_Shdr *section;

	if (header->e_shentsize != sizeof(*section) || header->e_shnum > ELF_HEADERS_MAX)
		return NULL;
	section = calloc(header->e_shnum + 1u, sizeof(*section));
	if (section &&
	    !read_at(fd, header->e_shoff, section, header->e_shnum * sizeof(*section))) {
		free(section);
		return NULL;
	}
	return section;
}

/* Of all functions if it has that table; else of those that other files may call. */
static void read_sections(struct elf_symbols *symbols, int fd, const Elf64_Ehdr *header)
{
	static const uint32_t type[] = { SHT_SYMTAB, SHT_DYNSYM };
	Elf64_Shdr *section = read_section_headers(fd, header);

	if (!section)
		return;
	for (unsigned t = 0; t < 2 && !symbols->functions; t++)
		for (unsigned i = 0; i < header->e_shnum && !symbols->functions; i++) {
			if (section[i].sh_type != type[t] ||
			    section[i].sh_link >= header->e_shnum)
				continue;
			symbols->all = t == 0;
			if (!read_symbols(symbols, fd, &section[i], &section[section[i].sh_link]))
				forget_symbols(symbols);
		}
	symbols->all = symbols->all && symbols->functions;
	free(section);
}

static bool read_header(int fd, Elf64_Ehdr *header)
{
	return read_at(fd, 0, header, sizeof(*header)) && !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
}

static struct elf_symbols *load(int fd, Elf64_Ehdr *header)
{
	struct elf_symbols *symbols = calloc(1, sizeof(*symbols));

	if (!symbols)
		return NULL;
	if (read_header(fd, header) && read_program_headers(symbols, fd, header))
		return symbols;
	elf_symbols_destroy(symbols);
	return NULL;
}

struct elf_symbols *elf_symbols_load(int fd)
{
	Elf64_Ehdr header;
	struct elf_symbols *symbols = load(fd, &header);

	if (symbols)
		read_sections(symbols, fd, &header);
	return symbols;
}

struct elf_symbols *elf_symbols_load_places(int fd)
{
	Elf64_Ehdr header;

	return load(fd, &header);
}

void elf_symbols_destroy(struct elf_symbols *symbols)
{
	if (!symbols)
		return;
	forget_symbols(symbols);
	free(symbols);
}

size_t elf_symbols_bytes(const struct elf_symbols *symbols)
{
	return sizeof(*symbols) + symbols->names_bytes +
	       symbols->functions * sizeof(*symbols->function);
}

bool elf_symbols_are_all(const struct elf_symbols *symbols)
{
	return symbols->all;
}

const uint8_t *elf_symbols_build_id(const struct elf_symbols *symbols)
{
	return symbols->build_id;
}

bool elf_symbols_address(const struct elf_symbols *symbols, uint64_t file_offset, uint64_t *address)
{
	for (unsigned i = 0; i < symbols->loads; i++) {
		const struct load *load = &symbols->load[i];

		if (file_offset - load->offset < load->bytes) {
			*address = load->address + (file_offset - load->offset);
			return true;
		}
	}
	return false;
}

const char *elf_symbols_find(const struct elf_symbols *symbols, uint64_t address, uint64_t *offset)
{
	size_t low = 0, high = symbols->functions;

	while (low < high) {		/* the first one beyond the address */
		size_t middle = low + (high - low) / 2;

		if (symbols->function[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	*offset = address - symbols->function[low - 1].address;
	/* One without a size (assembly) goes as far as the next, within reason. */
	if (*offset >= (symbols->function[low - 1].bytes ? symbols->function[low - 1].bytes :
							    ELF_SIZELESS_BYTES))
		return NULL;
	return symbols->names + symbols->function[low - 1].name;
}

/* ---- By name -------------------------------------------------------------------------------- */

size_t elf_symbols_functions(const struct elf_symbols *symbols)
{
	return symbols->functions;
}

struct elf_function elf_symbols_function(const struct elf_symbols *symbols, size_t i)
{
	const struct function *function = &symbols->function[i];

	return (struct elf_function){
		.name = symbols->names + function->name,
		.address = function->address,
		.bytes = function->bytes,
		.is_chosen = function->is_chosen,
	};
}

bool elf_symbols_offset(const struct elf_symbols *symbols, uint64_t address, uint64_t *file_offset)
{
	for (unsigned i = 0; i < symbols->loads; i++) {
		const struct load *load = &symbols->load[i];

		if (address - load->address < load->bytes) {
			*file_offset = load->offset + (address - load->address);
			return true;
		}
	}
	return false;
}

/* ---- One section ---------------------------------------------------------------------------- */

/* The one of that name; -1: there is none. `names` ends with a NUL. */
static long find_section(const Elf64_Shdr *section, unsigned sections, const char *names,
			 uint64_t names_bytes, const char *name)
{
	for (unsigned i = 0; i < sections; i++)
		if (section[i].sh_name < names_bytes && !strcmp(names + section[i].sh_name, name))
			return i;
	return -1;
}

uint8_t *elf_section_read(int fd, const char *name, size_t bytes_max, size_t *bytes, uint64_t *address)
{
	Elf64_Ehdr header;
	Elf64_Shdr *section = read_header(fd, &header) ? read_section_headers(fd, &header) : NULL;
	const Elf64_Shdr *of_names;
	uint8_t *content = NULL;
	char *names = NULL;
	long i = -1;

	if (section && header.e_shstrndx < header.e_shnum) {
		of_names = &section[header.e_shstrndx];
		names = read_section(fd, of_names, ELF_SYMBOLS_BYTES_MAX, 1);
		if (names) {
			names[of_names->sh_size] = '\0';
			i = find_section(section, header.e_shnum, names, of_names->sh_size, name);
		}
	}
	if (i >= 0)
		content = read_section(fd, &section[i], bytes_max, 1);
	if (content) {
		*bytes = (size_t)section[i].sh_size;
		*address = section[i].sh_addr;
	}
	free(names);
	free(section);
	return content;
}
