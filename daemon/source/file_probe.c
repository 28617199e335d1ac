#include "daemon/source/file_probe.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/source/registers.h"
#include "proto/limits.h"
#include "query/elf_symbols.h"
#include "query/glob.h"
#include "query/nearest.h"

#define NOTES_BYTES_MAX	(4u << 20)
#define NOTE_NAME	"stapsdt"
#define NOTE_TYPE	3

static int refuse_file(struct error *error)
{
	error_set(error, ENOEXEC, "not-elf", "the file is no 64-bit ELF file of this machine, or it is damaged");
	error_hint(error, "a probe lies in a program's or a library's own file; of a script, name its interpreter");
	return -ENOEXEC;
}

/* ---- Functions -------------------------------------------------------------------------------- */

/* "malloc" is the whole name, or all before the version: "malloc@@GLIBC_2.2.5". */
static bool is_called(const char *symbol, const char *name, size_t bytes)
{
	return strncmp(symbol, name, bytes) == 0 && (!symbol[bytes] || symbol[bytes] == '@');
}

/* "malloc+4": how many bytes of it are the symbol's name. False: the number is none. */
static bool split_offset(const char *name, size_t *bytes, uint64_t *offset)
{
	const char *plus = strrchr(name, '+');
	char *end;

	*bytes = plus ? (size_t)(plus - name) : strlen(name);
	*offset = 0;
	if (!plus)
		return *bytes > 0;
	errno = 0;
	*offset = strtoull(plus + 1, &end, 0);
	return *bytes && plus[1] >= '0' && plus[1] <= '9' && !*end && !errno;
}

static int refuse_function(const struct elf_symbols *symbols, const char *name, struct error *error)
{
	char near[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	error_set(error, ENOENT, "unknown-symbol", "the file has no function `%.200s`", name);
	nearest_init(&nearest, name);
	for (size_t i = 0; i < elf_symbols_functions(symbols); i++)
		nearest_offer(&nearest, elf_symbols_function(symbols, i).name);
	if (!elf_symbols_functions(symbols))
		error_hint(error, "it has no symbols at all: install one that has, or probe a library that it uses");
	else if (nearest_text(&nearest, near))
		error_hint(error, "did you mean %s?", near);
	else
		error_hint(error, elf_symbols_are_all(symbols) ?
			   "a function that the compiler put into its callers has no symbol" :
			   "it was stripped: only the functions that other files may call have a name");
	return -ENOENT;
}

static int take_function(const struct elf_symbols *symbols, const struct elf_function *function,
			 const char *name, uint64_t offset, struct file_sites *sites, struct error *error)
{
	struct file_site *site = &sites->site[0];

	if (function->is_chosen) {
		error_set(error, EINVAL, "symbol-chosen", "`%.200s` only chooses one of several functions, once in"
			  " each process", name);
		error_hint(error, "probe the one that is chosen: `tracectl list 'uprobe:PATH:*%.100s*'`", name);
		return -EINVAL;
	}
	if (offset && offset >= function->bytes)
		return error_set(error, EINVAL, "symbol-offset", "`%.200s` is beyond the function's %" PRIu64 " bytes",
				 name, function->bytes);
	if (!elf_symbols_offset(symbols, function->address + offset, &site->offset))
		return error_set(error, EINVAL, "symbol-unloaded", "`%.200s` lies in no part of the file that is loaded",
				 name);
	sites->count = 1;
	return 0;
}

static int find_function(int fd, const char *name, struct file_sites *sites, struct error *error)
{
	struct elf_symbols *symbols = elf_symbols_load(fd);
	uint64_t offset;
	size_t bytes;
	int err;

	if (!symbols)
		return refuse_file(error);
	if (!split_offset(name, &bytes, &offset)) {
		elf_symbols_destroy(symbols);
		return error_set(error, EINVAL, "symbol-offset", "`%.200s` is no symbol and no symbol+offset", name);
	}
	err = 1;
	for (size_t i = 0; i < elf_symbols_functions(symbols) && err == 1; i++) {
		struct elf_function function = elf_symbols_function(symbols, i);

		if (is_called(function.name, name, bytes))
			err = take_function(symbols, &function, name, offset, sites, error);
	}
	if (err == 1)
		err = refuse_function(symbols, name, error);
	elf_symbols_destroy(symbols);
	return err;
}

/* ---- USDT ------------------------------------------------------------------------------------- */

/* A note of sys/sdt.h. */
struct mark {
	uint64_t address, base, semaphore;
	const char *provider, *name, *args;
};

/* Its texts end within the note, or it is none. */
static bool take_mark(const uint8_t *at, size_t bytes, struct mark *mark)
{
	const char **text[] = {&mark->provider, &mark->name, &mark->args};

	if (bytes < 3 * sizeof(uint64_t))
		return false;
	memcpy(mark, at, 3 * sizeof(uint64_t));
	at += 3 * sizeof(uint64_t);
	bytes -= 3 * sizeof(uint64_t);
	for (unsigned i = 0; i < 3; i++) {
		size_t length = strnlen((const char *)at, bytes);

		if (length == bytes)
			return false;
		*text[i] = (const char *)at;
		at += length + 1;
		bytes -= length + 1;
	}
	return true;
}

struct notes {
	uint8_t *all;
	const uint8_t *at;
	size_t bytes;
	uint64_t moved;			/* .stapsdt.base, where it lies in this file; 0: it has none */
};

/* The next of the notes. False: there are no more. */
static bool next_mark(struct notes *notes, struct mark *mark)
{
	while (notes->bytes >= sizeof(Elf64_Nhdr)) {
		const uint8_t *name = notes->at + sizeof(Elf64_Nhdr);
		size_t name_bytes, size;
		Elf64_Nhdr note;
		bool is_mark;

		memcpy(&note, notes->at, sizeof(note));
		if (note.n_namesz > notes->bytes || note.n_descsz > notes->bytes)
			return false;
		name_bytes = (note.n_namesz + 3u) & ~(size_t)3;
		size = sizeof(note) + name_bytes + ((note.n_descsz + 3u) & ~(size_t)3);
		if (size > notes->bytes)
			return false;
		is_mark = note.n_type == NOTE_TYPE && note.n_namesz == sizeof(NOTE_NAME) &&
			  memcmp(name, NOTE_NAME, sizeof(NOTE_NAME)) == 0 &&
			  take_mark(name + name_bytes, note.n_descsz, mark);
		notes->at += size;
		notes->bytes -= size;
		if (is_mark)
			return true;
	}
	return false;
}

static void read_notes(int fd, struct notes *notes)
{
	uint64_t address;
	uint8_t *base;
	size_t bytes;

	*notes = (struct notes){0};
	base = elf_section_read(fd, ".stapsdt.base", sizeof(uint64_t), &bytes, &notes->moved);
	free(base);
	notes->all = elf_section_read(fd, ".note.stapsdt", NOTES_BYTES_MAX, &notes->bytes, &address);
	notes->at = notes->all;
}

/* A linker that moves the code (prelink) leaves the notes as they are: they say where the base was. */
static uint64_t moved(const struct notes *notes, const struct mark *mark, uint64_t address)
{
	return notes->moved && mark->base ? address + (notes->moved - mark->base) : address;
}

static bool take_site(const struct elf_symbols *symbols, const struct notes *notes, const struct mark *mark,
		      struct file_site *site)
{
	*site = (struct file_site){0};
	if (!elf_symbols_offset(symbols, moved(notes, mark, mark->address), &site->offset))
		return false;
	if (mark->semaphore &&
	    (!elf_symbols_offset(symbols, moved(notes, mark, mark->semaphore), &site->semaphore) ||
	     site->semaphore > UINT32_MAX))
		return false;
	site->args = registers_parse_usdt(mark->args, site->arg);
	return true;
}

static bool is_named(const struct mark *mark, const char *name)
{
	size_t bytes = strlen(mark->provider);

	return strncmp(name, mark->provider, bytes) == 0 && name[bytes] == ':' &&
	       strcmp(name + bytes + 1, mark->name) == 0;
}

static int refuse_mark(int fd, const char *name, struct error *error)
{
	char whole[NAME_BYTES_MAX + 1], near[NEAREST_TEXT_BYTES];
	struct nearest nearest;
	struct notes notes;
	struct mark mark;
	unsigned marks = 0;

	error_set(error, ENOENT, "unknown-probe", "the file has no USDT probe `%.200s`", name);
	nearest_init(&nearest, name);
	read_notes(fd, &notes);
	for (; next_mark(&notes, &mark); marks++) {
		snprintf(whole, sizeof(whole), "%s:%s", mark.provider, mark.name);
		nearest_offer(&nearest, whole);
		nearest_offer_as(&nearest, mark.name, whole);
	}
	free(notes.all);
	if (!marks)
		error_hint(error, "it has none at all: some programs have them only if they were configured so");
	else if (nearest_text(&nearest, near))
		error_hint(error, "did you mean %s?", near);
	else
		error_hint(error, "`tracectl list 'usdt:PATH:*'` shows those that it has");
	return -ENOENT;
}

static int find_mark(int fd, const char *name, struct file_sites *sites, struct error *error)
{
	struct elf_symbols *symbols = elf_symbols_load(fd);
	struct notes notes;
	struct mark mark;
	int err = 0;

	if (!symbols)
		return refuse_file(error);
	read_notes(fd, &notes);
	while (!err && next_mark(&notes, &mark)) {
		if (!is_named(&mark, name))
			continue;
		if (sites->count == FILE_SITES_MAX)
			err = error_set(error, E2BIG, "too-many-places", "`%.200s` lies in more than %d places of"
					" the code", name, FILE_SITES_MAX);
		else if (!take_site(symbols, &notes, &mark, &sites->site[sites->count++]))
			err = error_set(error, EINVAL, "usdt-damaged", "the note of `%.200s` names a place that is"
					" not in the file", name);
	}
	if (!err && !sites->count)
		err = refuse_mark(fd, name, error);
	free(notes.all);
	elf_symbols_destroy(symbols);
	return err;
}

int file_probe_find(int fd, enum file_probe_kind kind, const char *name, struct file_sites *sites,
		    struct error *error)
{
	sites->count = sites->zero0 = 0;
	return kind == FILE_FUNCTION ? find_function(fd, name, sites, error) :
				       find_mark(fd, name, sites, error);
}

/* ---- Listing ---------------------------------------------------------------------------------- */

struct listing {
	const char *glob;
	unsigned names, names_max;
	FILE *out;
};

/* Once, of what lies in many places; those follow each other, or are told apart by who asked. */
static void list_name(struct listing *listing, const char *name, size_t bytes)
{
	if (bytes && bytes <= NAME_BYTES_MAX && glob_match(listing->glob, name, bytes) &&
	    listing->names < listing->names_max) {
		fwrite(name, 1, bytes, listing->out);
		fputc('\0', listing->out);
		listing->names++;
	}
}

static int list_functions(int fd, struct listing *listing, struct error *error)
{
	struct elf_symbols *symbols = elf_symbols_load(fd);

	if (!symbols)
		return refuse_file(error);
	for (size_t i = 0; i < elf_symbols_functions(symbols); i++) {
		struct elf_function function = elf_symbols_function(symbols, i);

		if (!function.is_chosen)
			list_name(listing, function.name, strcspn(function.name, "@"));
	}
	elf_symbols_destroy(symbols);
	return 0;
}

static void list_marks(int fd, struct listing *listing)
{
	char whole[NAME_BYTES_MAX + 1];
	struct notes notes;
	struct mark mark;

	read_notes(fd, &notes);
	while (next_mark(&notes, &mark)) {
		snprintf(whole, sizeof(whole), "%s:%s", mark.provider, mark.name);
		list_name(listing, whole, strlen(whole));
	}
	free(notes.all);
}

int file_probe_list(int fd, enum file_probe_kind kind, const char *glob, unsigned names_max, int out,
		    struct error *error)
{
	struct listing listing = {.glob = glob, .names_max = names_max};
	static char buffer[4096];
	int copy = dup(out), err = 0;

	listing.out = copy < 0 ? NULL : fdopen(copy, "w");
	if (!listing.out) {
		if (copy >= 0)
			close(copy);
		return error_set(error, ENOMEM, "out-of-memory", "no memory for the names");
	}
	/* A buffer of its own would make it look what file this is, with a system call that readers may not make. */
	setvbuf(listing.out, buffer, _IOFBF, sizeof(buffer));
	if (kind == FILE_FUNCTION)
		err = list_functions(fd, &listing, error);
	else
		list_marks(fd, &listing);
	if (fclose(listing.out) != 0 && !err)
		err = error_set(error, ENOMEM, "out-of-memory", "no memory for the names");
	return err ? err : (int)listing.names;
}

/* ---- From another process --------------------------------------------------------------------- */

static bool is_register(uint16_t offset, unsigned bytes)
{
	return offset + bytes <= registers_bytes && offset % bytes == 0;
}

static bool word_fits(const struct tracepoint_word *word)
{
	bool sized = word->bytes == 1 || word->bytes == 2 || word->bytes == 4 || word->bytes == 8;

	if (word->is_location || word->zero0 || word->zero1)
		return false;
	if (!word->bytes || word->of == WORD_NUMBER)
		return word->of <= WORD_OF_MEMORY && (!word->bytes || sized);
	if (word->of == WORD_OF_RECORD)
		return sized && is_register(word->offset, word->bytes);
	return sized && word->of == WORD_OF_MEMORY && is_register(word->offset, 8) && word->shift <= 3 &&
	       (word->index == WORD_NO_INDEX || is_register(word->index, 8));
}

bool file_sites_fit(const struct file_sites *sites)
{
	if (!sites->count || sites->count > FILE_SITES_MAX)
		return false;
	for (unsigned i = 0; i < sites->count; i++) {
		const struct file_site *site = &sites->site[i];

		if (site->args > FILE_ARGS_MAX || site->offset > INT64_MAX || site->semaphore > UINT32_MAX)
			return false;
		for (unsigned a = 0; a < site->args; a++)
			if (!word_fits(&site->arg[a]))
				return false;
	}
	return true;
}
