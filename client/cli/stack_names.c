#include "client/cli/stack_names.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/cli/debuginfod.h"
#include "client/cli/jit_symbols.h"
#include "client/cli/symbols.h"
#include "client/lib/limits.h"
#include "query/elf_symbols.h"

#define MAP_PATH	8
#define MAP_PATH_MORE	9
#define MAP_PATH_BYTES	257
#define DEBUG_ROOT	"/usr/lib/debug/.build-id"
#define PROCESSES_ALIKE	16u	/* whose pids have the same low bits; of more, the one heard of longest ago goes */
#define PROCESS_SETS	(PROCESSES_NAMED_MAX / PROCESSES_ALIKE)

/* A file that code came from: one for each build-id, or for each path and inode without one. */
struct code_file {
	char path[MAP_PATH_BYTES];
	uint64_t device, inode;
	uint8_t build_id[BUILD_ID_BYTES];
	bool has_build_id;
	struct elf_symbols *elf;	/* the file itself; NULL: not to be had */
	struct elf_symbols *debug;	/* its symbols apart; NULL: none */
	unsigned tries;
};

struct code_map {
	uint64_t start, bytes, offset;
	uint32_t file;			/* index */
};

struct process {
	uint32_t pid;
	unsigned maps;
	uint64_t learnt;		/* the number of its newest map, of all processes' */
	struct code_map *map;		/* [PROCESS_MAPS_MAX]; the newest last */
	struct jit_symbols *jit;	/* of the code that it made itself; NULL: none */
	unsigned jit_tries;
};

struct stack_names {
	const struct ringtail_host *host;
	bool kernel_tried;
	struct symbols *kernel;
	size_t files, bytes;		/* and of their symbols */
	unsigned jits;
	struct code_file *file;		/* [CODE_FILES_MAX] */
	uint64_t learnt;		/* maps so far */
	struct process *process;	/* [PROCESS_SETS][PROCESSES_ALIKE], by pid's low bits; pid 0: free */
};

struct stack_names *stack_names_create(const struct ringtail_host *host)
{
	struct stack_names *names = calloc(1, sizeof(*names));

	if (!names)
		return NULL;
	names->host = host;
	names->file = calloc(CODE_FILES_MAX, sizeof(*names->file));
	names->process = calloc(PROCESSES_NAMED_MAX, sizeof(*names->process));
	if (names->file && names->process)
		return names;
	stack_names_destroy(names);
	return NULL;
}

void stack_names_destroy(struct stack_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->files; i++) {
		elf_symbols_destroy(names->file[i].elf);
		elf_symbols_destroy(names->file[i].debug);
	}
	for (size_t i = 0; names->process && i < PROCESSES_NAMED_MAX; i++) {
		jit_symbols_destroy(names->process[i].jit);
		free(names->process[i].map);
	}
	free(names->file);
	free(names->process);
	symbols_destroy(names->kernel);
	free(names);
}

/* ---- Files ---------------------------------------------------------------------------------- */

static struct elf_symbols *load(int fd)
{
	struct elf_symbols *elf = NULL;
	struct stat stat_of;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &stat_of) == 0 && S_ISREG(stat_of.st_mode))
		elf = elf_symbols_load(fd);
	close(fd);
	return elf;
}

/* In the tree that the process sees, and not out of it by any link. */
static int open_in_root(uint32_t pid, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	char root[64];
	int directory, fd;

	snprintf(root, sizeof(root), "/proc/%u/root", pid);
	directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -1;
	fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	close(directory);
	return fd;
}

static bool is_same(const struct code_file *file, const struct elf_symbols *elf)
{
	return elf && !memcmp(elf_symbols_build_id(elf), file->build_id, BUILD_ID_BYTES);
}

/* Without a build-id there is only the inode to tell it by, and only on the traced host. */
static struct elf_symbols *load_same(const struct code_file *file, int fd, bool here)
{
	struct elf_symbols *elf;
	struct stat stat_of;

	if (fd < 0)
		return NULL;
	if (!file->has_build_id &&
	    (!here || fstat(fd, &stat_of) != 0 || stat_of.st_ino != file->inode)) {
		close(fd);
		return NULL;
	}
	elf = load(fd);
	if (!file->has_build_id || is_same(file, elf))
		return elf;
	elf_symbols_destroy(elf);
	return NULL;
}

static void build_id_text(const uint8_t *build_id, char text[BUILD_ID_TEXT_BYTES])
{
	for (unsigned i = 0; i < BUILD_ID_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", build_id[i]);
}

/* What Debian's -dbgsym packages bring; else what servers have, if they are to be asked. */
static struct elf_symbols *load_debug(const struct code_file *file)
{
	char id[BUILD_ID_TEXT_BYTES], path[128];
	struct elf_symbols *debug;

	if (!file->has_build_id)
		return NULL;
	build_id_text(file->build_id, id);
	snprintf(path, sizeof(path), DEBUG_ROOT "/%.2s/%s.debug", id, id + 2);
	debug = load_same(file, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), false);
	return debug ? debug : load_same(file, debuginfod_find(file->build_id, BUILD_ID_BYTES), false);
}

/* While the process lives, its file can be reached; so this is done when the map is told. */
static void open_file(struct stack_names *names, struct code_file *file, uint32_t pid)
{
	bool here;

	if (file->elf || !file->path[0] || names->bytes > ELF_ALL_BYTES_MAX ||
	    file->tries++ >= CODE_FILE_TRIES_MAX)
		return;
	here = symbols_same_boot(names->host->boot_id);
	if (here)
		file->elf = load_same(file, open_in_root(pid, file->path), here);
	if (!file->elf)
		file->elf = load_same(file, open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
						 O_NOCTTY), here);
	if (!file->debug && !(file->elf && elf_symbols_are_all(file->elf)))
		file->debug = load_debug(file);
	names->bytes += file->elf ? elf_symbols_bytes(file->elf) : 0;
	names->bytes += file->debug && file->elf ? elf_symbols_bytes(file->debug) : 0;
}

static struct code_file *get_file(struct stack_names *names, const struct code_file *wanted)
{
	struct code_file *file;

	for (size_t i = 0; i < names->files; i++) {
		file = &names->file[i];
		if (file->has_build_id != wanted->has_build_id || strcmp(file->path, wanted->path))
			continue;
		if (file->has_build_id ? !memcmp(file->build_id, wanted->build_id, BUILD_ID_BYTES) :
					 file->inode == wanted->inode &&
						 file->device == wanted->device)
			return file;
	}
	if (names->files == CODE_FILES_MAX)
		return NULL;
	file = &names->file[names->files++];
	*file = *wanted;
	return file;
}

/* ---- Maps ----------------------------------------------------------------------------------- */

static struct process *set_of(struct stack_names *names, uint32_t pid)
{
	return &names->process[pid % PROCESS_SETS * PROCESSES_ALIKE];
}

/* NULL: nothing is known of it. */
static struct process *find_process(struct stack_names *names, uint32_t pid)
{
	struct process *set = set_of(names, pid);

	for (unsigned i = 0; i < PROCESSES_ALIKE; i++) {
		if (set[i].pid == pid)
			return &set[i];
	}
	return NULL;
}

static struct process *oldest(struct process *set)
{
	struct process *oldest = set;

	for (unsigned i = 1; i < PROCESSES_ALIKE; i++) {
		if (set[i].learnt < oldest->learnt)
			oldest = &set[i];
	}
	return oldest;
}

static struct process *get_process(struct stack_names *names, uint32_t pid)
{
	struct process *process = find_process(names, pid);

	if (!process)
		process = oldest(set_of(names, pid));
	process->learnt = ++names->learnt;
	if (process->pid == pid && process->map)
		return process;
	names->jits -= process->jit != NULL;
	jit_symbols_destroy(process->jit);
	process->jit = NULL;
	process->jit_tries = 0;
	process->pid = pid;
	process->maps = 0;
	if (!process->map)
		process->map = calloc(PROCESS_MAPS_MAX, sizeof(*process->map));
	if (!process->map)
		process->pid = 0;
	return process->map ? process : NULL;
}

/* Maps that the new one lies over are not there any more. */
static void add_map(struct process *process, const struct code_map *map)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < process->maps; i++) {
		const struct code_map *old = &process->map[i];

		if (old->start + old->bytes <= map->start || map->start + map->bytes <= old->start)
			process->map[kept++] = *old;
	}
	if (kept == PROCESS_MAPS_MAX) {
		memmove(process->map, process->map + 1, --kept * sizeof(*process->map));
	}
	process->map[kept++] = *map;
	process->maps = kept;
}

/* While the process lives: afterwards nobody knows in which tree its file lies, but the file can be read on. */
static void open_jit(struct stack_names *names, struct process *process)
{
	int fd;

	if (process->jit || names->jits == JIT_PROCESSES_MAX || process->jit_tries >= JIT_TRIES_MAX ||
	    !symbols_same_boot(names->host->boot_id))
		return;
	process->jit_tries++;
	fd = jit_symbols_open(process->pid);
	if (fd >= 0)
		process->jit = jit_symbols_create(fd);
	names->jits += process->jit != NULL;
}

static void take_path(const struct ringtail_item *event, char path[MAP_PATH_BYTES])
{
	size_t used = 0;

	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *text = &event->attachment[i];

		if (text->kind != RINGTAIL_ATTACHED_STRING ||
		    (text->field != MAP_PATH && text->field != MAP_PATH_MORE) ||
		    used + text->text_bytes >= MAP_PATH_BYTES)
			continue;
		memcpy(path + used, text->text, text->text_bytes);
		used += text->text_bytes;
	}
	path[used] = '\0';
}

bool stack_names_learn(struct stack_names *names, const struct ringtail_item *event)
{
	struct code_file wanted = { 0 }, *file;
	uint64_t build_id[3];
	struct process *process;

	if (event->probe->fields != MAP_FIELDS || strcmp(event->probe->spec, MAP_SPEC) != 0)
		return false;
	memcpy(build_id, event->value + 3, sizeof(build_id));
	memcpy(wanted.build_id, build_id, BUILD_ID_BYTES);
	wanted.has_build_id = build_id[0] != 0;
	wanted.device = event->value[6];
	wanted.inode = event->value[7];
	take_path(event, wanted.path);
	process = get_process(names, event->thread.pid);
	file = process ? get_file(names, &wanted) : NULL;
	if (!file)
		return true;
	add_map(process, &(struct code_map){
		.start = event->value[0], .bytes = event->value[1], .offset = event->value[2],
		.file = (uint32_t)(file - names->file),
	});
	open_file(names, file, event->thread.pid);
	open_jit(names, process);
	return true;
}

/* ---- Finding -------------------------------------------------------------------------------- */

static struct symbols *kernel_symbols(struct stack_names *names)
{
	if (!names->kernel_tried) {
		names->kernel_tried = true;
		names->kernel = symbols_of_boot(names->host->boot_id);
	}
	return names->kernel;
}

/* A sample's stack begins where the CPU was: nothing of it is the tracer's. */
size_t stack_names_own(struct stack_names *names, const struct ringtail_item *event,
		       const struct ringtail_attachment *stack)
{
	if (stack->kind != RINGTAIL_ATTACHED_KSTACK || !strncmp(event->probe->spec, "profile:", 8))
		return 0;
	return symbols_own_frames(kernel_symbols(names), stack->frame, stack->frames);
}

static void find_in_file(const struct code_file *file, uint64_t address, uint64_t into,
			 struct code_place *place)
{
	const struct elf_symbols *elf = file->elf ? file->elf : file->debug;
	uint64_t at;

	place->path = file->path;
	place->file_offset = address;
	if (file->has_build_id)
		build_id_text(file->build_id, place->build_id);
	if (!elf || !elf_symbols_address(elf, address - into, &at))
		return;
	if (file->debug)
		place->name = elf_symbols_find(file->debug, at, &place->offset);
	if (!place->name)
		place->name = elf_symbols_find(elf, at, &place->offset);
	if (place->name)
		place->offset += into;
}

/* Of code that is in no file, or in one without such a function, as a JIT's memory has. */
static void find_made(struct stack_names *names, struct process *process, uint64_t address, uint64_t into,
		      struct code_place *place)
{
	open_jit(names, process);
	if (process->jit)
		place->name = jit_symbols_find(process->jit, address, &place->offset);
	if (place->name)
		place->offset += into;
}

/* Of a user stack that ends with a reason; NULL: it is an address. */
static const char *end_text(uint64_t frame)
{
	switch (frame ^ RINGTAIL_STACK_END) {
	case RINGTAIL_STACK_END_TABLE:
		return "[could not unwind: no table for this code]";
	case RINGTAIL_STACK_END_RULE:
		return "[could not unwind: no rule for this code]";
	case RINGTAIL_STACK_END_MEMORY:
		return "[could not unwind: the stack cannot be read]";
	default:
		return NULL;
	}
}

/* All but the innermost frame are return addresses, and a call may be the last of its function. */
void stack_names_find(struct stack_names *names, enum ringtail_attachment_kind kind, uint32_t pid,
		      const uint64_t *frame, size_t i, struct code_place *place)
{
	struct process *process = find_process(names, pid);
	uint64_t into = i > 0, address = frame[i] - into;

	*place = (struct code_place){ 0 };
	if (kind == RINGTAIL_ATTACHED_KSTACK) {
		place->name = symbols_find(kernel_symbols(names), address, &place->offset);
		place->offset += place->name ? into : 0;
		return;
	}
	place->name = end_text(frame[i]);
	if (!process || place->name)
		return;
	for (unsigned m = process->maps; m-- > 0;) {
		const struct code_map *map = &process->map[m];

		if (address - map->start >= map->bytes)
			continue;
		find_in_file(&names->file[map->file], frame[i] - map->start + map->offset, into,
			     place);
		break;
	}
	if (!place->name)
		find_made(names, process, address, into, place);
}
