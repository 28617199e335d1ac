#include "client/cli/jit_symbols.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/lib/limits.h"

struct jit_function {
	uint64_t address, bytes;
	uint32_t name;			/* offset into names */
	uint32_t number;		/* its line: a later one holds */
};

struct jit_symbols {
	int fd;
	uint64_t read_bytes;		/* of the file, up to the end of a line */
	size_t functions, room;
	struct jit_function *function;	/* by address, then by number */
	size_t names_bytes, names_room;
	char *names;
};

/* ---- Which file ------------------------------------------------------------------------------ */

/* The number behind `label` in a line of /proc/PID/status, of several the first but `skipped`, or the last. */
static bool status_number(const char *status, const char *label, unsigned skipped, bool last, uint32_t *number)
{
	const char *at = strstr(status, label);
	bool found = false;

	at = at ? at + strlen(label) : "";
	for (unsigned i = 0; *at && *at != '\n'; i++) {
		char *end;
		unsigned long value = strtoul(at, &end, 10);

		if (end == at)
			break;
		if (i == skipped || last) {
			*number = (uint32_t)value;
			found = true;
		}
		at = end + strspn(end, " \t");
	}
	return found;
}

/* Its effective user, and its pid where it lives: that stands in the file's name. */
static bool who_is(int process, uint32_t *uid, uint32_t *own_pid)
{
	int fd = openat(process, "status", O_RDONLY | O_CLOEXEC);
	char status[4096];
	ssize_t bytes = fd < 0 ? -1 : read(fd, status, sizeof(status) - 1);

	if (fd >= 0)
		close(fd);
	if (bytes <= 0)
		return false;
	status[bytes] = '\0';
	return status_number(status, "\nUid:", 1, false, uid) && status_number(status, "\nNSpid:", 0, true, own_pid);
}

static int open_in_root(int process, uint32_t own_pid)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int root = openat(process, "root", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;
	char name[64];

	if (root < 0)
		return -1;
	snprintf(name, sizeof(name), "/tmp/perf-%u.map", own_pid);
	fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	close(root);
	return fd;
}

int jit_symbols_open(uint32_t pid)
{
	uint32_t uid, own_pid;
	struct stat stat_of;
	int process, fd = -1;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (process < 0)
		return -1;
	if (who_is(process, &uid, &own_pid))
		fd = open_in_root(process, own_pid);
	close(process);
	if (fd < 0 || (fstat(fd, &stat_of) == 0 && S_ISREG(stat_of.st_mode) &&
		       (stat_of.st_uid == uid || stat_of.st_uid == 0)))
		return fd;
	close(fd);
	return -1;
}

/* ---- What is in it --------------------------------------------------------------------------- */

struct jit_symbols *jit_symbols_create(int fd)
{
	struct jit_symbols *symbols = calloc(1, sizeof(*symbols));

	if (symbols)
		symbols->fd = fd;
	else
		close(fd);
	return symbols;
}

void jit_symbols_destroy(struct jit_symbols *symbols)
{
	if (!symbols)
		return;
	close(symbols->fd);
	free(symbols->function);
	free(symbols->names);
	free(symbols);
}

static bool has_room(struct jit_symbols *symbols, size_t name_bytes)
{
	if (symbols->functions == symbols->room) {
		size_t room = symbols->room ? 2 * symbols->room : 1024;
		void *more = realloc(symbols->function, room * sizeof(*symbols->function));

		if (!more)
			return false;
		symbols->function = more;
		symbols->room = room;
	}
	if (symbols->names_room - symbols->names_bytes < name_bytes) {
		size_t room = 2 * symbols->names_room + name_bytes + 4096;
		void *more = realloc(symbols->names, room);

		if (!more)
			return false;
		symbols->names = more;
		symbols->names_room = room;
	}
	return true;
}

/* "7f0012345000 1a0 LazyCompile:~f /app/x.js:1", which ends with a NUL. One that is nothing is passed over. */
static bool take_line(struct jit_symbols *symbols, const char *line)
{
	char *end, *name;
	uint64_t address = strtoull(line, &end, 16), bytes;
	size_t n;

	if (end == line || *end != ' ')
		return true;
	bytes = strtoull(end, &name, 16);
	if (name == end || *name != ' ' || !bytes || address > UINT64_MAX - bytes)
		return true;
	n = strnlen(++name, FUNCTION_BYTES_MAX - 1);
	if (!n)
		return true;
	if (!has_room(symbols, n + 1))
		return false;
	memcpy(symbols->names + symbols->names_bytes, name, n);
	symbols->names[symbols->names_bytes + n] = '\0';
	symbols->function[symbols->functions] = (struct jit_function){
		.address = address, .bytes = bytes, .name = (uint32_t)symbols->names_bytes,
		.number = (uint32_t)symbols->functions,
	};
	symbols->functions++;
	symbols->names_bytes += n + 1;
	return true;
}

static int by_address(const void *a, const void *b)
{
	const struct jit_function *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->number < right->number ? -1 : left->number > right->number;
}

/* Whole lines alone: the last may be on its way. */
static void take_text(struct jit_symbols *symbols, char *text, size_t bytes)
{
	char *end;

	for (char *line = text; (end = memchr(line, '\n', bytes - (size_t)(line - text))); line = end + 1) {
		*end = '\0';
		if (!take_line(symbols, line))
			return;
		symbols->read_bytes += (uint64_t)(end - line) + 1;
	}
}

/* Whether there is more than before. A file that was cut begins anew. */
static bool read_on(struct jit_symbols *symbols)
{
	size_t before = symbols->functions, room;
	struct stat stat_of;
	ssize_t got = -1;
	char *text;

	if (fstat(symbols->fd, &stat_of))
		return false;
	if ((uint64_t)stat_of.st_size < symbols->read_bytes)
		symbols->functions = symbols->names_bytes = symbols->read_bytes = before = 0;
	if ((uint64_t)stat_of.st_size <= symbols->read_bytes || symbols->read_bytes >= JIT_MAP_BYTES_MAX)
		return false;
	room = (uint64_t)stat_of.st_size < JIT_MAP_BYTES_MAX ? (size_t)stat_of.st_size : JIT_MAP_BYTES_MAX;
	room -= (size_t)symbols->read_bytes;
	text = malloc(room);
	if (text)
		got = pread(symbols->fd, text, room, (off_t)symbols->read_bytes);
	if (got > 0)
		take_text(symbols, text, (size_t)got);
	free(text);
	if (symbols->functions == before)
		return false;
	qsort(symbols->function, symbols->functions, sizeof(*symbols->function), by_address);
	return true;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static bool is_in(const struct jit_function *function, uint64_t address)
{
	return address - function->address < function->bytes;
}

/* Of those that the address is in, the last one written; what lies over it begins not far before. */
static const char *find(const struct jit_symbols *symbols, uint64_t address, uint64_t *offset)
{
	const struct jit_function *found = NULL;
	size_t low = 0, high = symbols->functions;

	while (low < high) {		/* the first one beyond the address */
		size_t middle = low + (high - low) / 2;

		if (symbols->function[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = 0; i < JIT_OVERLAPS_MAX && low-- > 0; i++)
		if (is_in(&symbols->function[low], address) &&
		    (!found || symbols->function[low].number > found->number))
			found = &symbols->function[low];
	if (!found)
		return NULL;
	*offset = address - found->address;
	return symbols->names + found->name;
}

const char *jit_symbols_find(struct jit_symbols *symbols, uint64_t address, uint64_t *offset)
{
	const char *name = find(symbols, address, offset);

	if (!name && read_on(symbols))
		name = find(symbols, address, offset);
	return name;
}
