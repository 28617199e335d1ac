#include "daemon/source/bpf_unwind.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/source/bpf_objects.h"
#include "daemon/source/finder.h"
#include "kmod/bpf/request.h"

/* Where the BPF programs have no way by tables, no file is read. */
#if defined(__x86_64__)
#define HAS_TABLES	true
#else
#define HAS_TABLES	false
#endif

_Static_assert(UNWIND_TABLES == UNWIND_TABLES_MAX, "what the kernel has room for");
_Static_assert(UNWIND_PROCESSES == UNWIND_PROCESSES_MAX, "what the kernel has room for");

/*
 * What a mapping is of. The build-id is what the process has in its memory: it may have put that there itself. The rest
 * is the kernel's word. A file's inode may become another file's once nobody has it; its generation tells them apart.
 */
struct file_key {
	uint64_t build_id[MAPS_BUILD_ID_WORDS];
	uint64_t device, inode, generation;
};

enum table_state {
	TABLE_FREE,
	TABLE_READY,		/* the kernel has its rows */
	TABLE_NONE,		/* the file cannot be read, has no rows, or too many: one process's alone */
	TABLE_LEFT,		/* the kernel may have rows here, which no process uses any more: to be dropped */
};

/*
 * Of one file. Its index is its number in unwind_tables. It is for all that have mapped the file if the file that was
 * opened is the mapped one. Else the path of one process has led to it (in its own mount namespace, or through a file
 * system with numbers of its own, as overlayfs): it is for that process alone, and forgotten with it.
 */
struct table {
	enum table_state state;
	struct file_key file;
	uint32_t pid;		/* whose alone it is; 0: anybody's */
	uint64_t memory;
	uint32_t rows, first_block, blocks, shift;	/* as in struct unwind_map */
	uint32_t users;		/* mappings */
	uint64_t used_ns;
	uint64_t again_ns;	/* from then on the file may be read again; 0: it is not */
};

#define NOT_ASKED	(-2)	/* no table yet: the file is to be read */
#define NO_TABLE	(-1)

struct mapping {
	uint64_t start, bytes, offset;
	struct file_key file;
	char *path;		/* owned; NULL: in no file, or its table was found */
	int table;		/* index, or NOT_ASKED or NO_TABLE */
};

/* A process of which a stack was taken. */
struct process {
	uint32_t pid;		/* 0: no process */
	uint64_t memory;	/* its mm_struct */
	uint64_t hash;		/* of its mappings */
	uint64_t seen_ns;
	uint64_t again_ns;	/* from then on its mappings are looked at again; 0: when they are others */
	unsigned mappings;
	struct mapping *mapping;
};

struct source_bpf_unwind {
	const struct source_bpf_objects *objects;
	struct finder *finder;
	int tables, processes;		/* the kernel's maps */
	struct maps_found *found;	/* what was looked up last */
	bool is_empty;			/* the kernel knows no process, and what is left is to be dropped */
	uint64_t rows;			/* of all tables; not of those that an earlier run has left */
	unsigned left;			/* tables: TABLE_LEFT */
	uint64_t rest_ns;		/* until then no file is read */
	unsigned waiting;
	struct process wait[UNWIND_WAITING_MAX];	/* the first is worked on, and goes behind the others then */
	unsigned knowns;
	struct process known[UNWIND_PROCESSES_MAX];	/* whose mappings the kernel has */
	struct table table[UNWIND_TABLES_MAX];
};

/* ---- Tables ----------------------------------------------------------------------------------- */

static void drop_table(struct source_bpf_unwind *unwind, uint32_t index)
{
	struct table *table = &unwind->table[index];

	if (table->state == TABLE_READY || table->state == TABLE_LEFT)
		bpf_map_delete_elem(unwind->tables, &index);
	unwind->left -= table->state == TABLE_LEFT;
	unwind->rows -= table->rows + table->blocks;
	*table = (struct table){0};
}

/*
 * Later: in each call that takes something out of a map of maps, the kernel waits for all running programs; that of
 * Linux 6.1 even if nothing is there, and in each lookup. That is some 10 ms, and these may be a thousand.
 */
static void leave_to_be_dropped(struct source_bpf_unwind *unwind, struct table *table)
{
	if (table->state == TABLE_READY) {
		*table = (struct table){.state = TABLE_LEFT, .rows = table->rows, .blocks = table->blocks};
		unwind->left++;
	} else if (table->state == TABLE_NONE) {
		*table = (struct table){0};
	}
}

static void drop_one_left(struct source_bpf_unwind *unwind)
{
	for (uint32_t i = 0; unwind->left && i < UNWIND_TABLES_MAX; i++)
		if (unwind->table[i].state == TABLE_LEFT) {
			drop_table(unwind, i);
			return;
		}
}

static void use_table(struct source_bpf_unwind *unwind, int index)
{
	if (index >= 0)
		unwind->table[index].users++;
}

static void leave_table(struct source_bpf_unwind *unwind, int index)
{
	struct table *table = index >= 0 ? &unwind->table[index] : NULL;

	if (!table)
		return;
	table->users--;
	table->used_ns = clock_monotonic();
	if (!table->users && table->pid)
		leave_to_be_dropped(unwind, table);
}

static bool is_for(const struct table *table, const struct file_key *file, const struct process *process)
{
	return table->state != TABLE_FREE && !memcmp(&table->file, file, sizeof(*file)) &&
	       (!table->pid || (table->pid == process->pid && table->memory == process->memory)) &&
	       (!table->again_ns || process->seen_ns < table->again_ns);
}

static int find_table(const struct source_bpf_unwind *unwind, const struct file_key *file,
		      const struct process *process)
{
	for (int i = 0; i < UNWIND_TABLES_MAX; i++)
		if (is_for(&unwind->table[i], file, process))
			return i;
	return NOT_ASKED;
}

/* The one that nobody has used for longest, those that are left before all; -1: all are in use. */
static int oldest_unused(const struct source_bpf_unwind *unwind)
{
	int oldest = -1;

	for (int i = 0; i < UNWIND_TABLES_MAX; i++) {
		const struct table *table = &unwind->table[i];

		if (table->state != TABLE_FREE && !table->users &&
		    (oldest < 0 || table->used_ns < unwind->table[oldest].used_ns))
			oldest = i;
	}
	return oldest;
}

static int free_table(struct source_bpf_unwind *unwind)
{
	int unused;

	for (int i = 0; i < UNWIND_TABLES_MAX; i++)
		if (unwind->table[i].state == TABLE_FREE)
			return i;
	unused = oldest_unused(unwind);
	if (unused >= 0)
		drop_table(unwind, (uint32_t)unused);
	return unused;
}

static bool make_room(struct source_bpf_unwind *unwind, uint32_t rows)
{
	int unused;

	while (unwind->rows + rows > UNWIND_ROWS_MAX && (unused = oldest_unused(unwind)) >= 0)
		drop_table(unwind, (uint32_t)unused);
	return unwind->rows + rows <= UNWIND_ROWS_MAX;
}

/* Copied with read(2): who has the file may still cut it. */
static bool read_all(int fd, void *to, size_t bytes)
{
	uint8_t *at = to;
	off_t offset = 0;

	while (bytes) {
		ssize_t got = pread(fd, at, bytes, offset);

		if (got <= 0)
			return false;
		at += got;
		offset += got;
		bytes -= (size_t)got;
	}
	return true;
}

/* An inner map with memory of `bytes` mapped to *memory; -errno. To be ended with end_inner(). */
static int begin_inner(const char *name, size_t value_bytes, uint32_t values, void **memory)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP | BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), (uint32_t)value_bytes, values, &options);

	if (fd < 0)
		return -errno;
	*memory = mmap(NULL, value_bytes * values, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*memory != MAP_FAILED)
		return fd;
	close(fd);
	return -ENOMEM;
}

/* Hands it over as that one's. */
static bool end_inner(int fd, void *memory, size_t bytes, int outer, uint32_t key)
{
	bool is_good;

	munmap(memory, bytes);
	is_good = !bpf_map_update_elem(outer, &key, &fd, BPF_ANY);
	close(fd);
	return is_good;
}

/* Whether they can be searched: each lies behind the one before it. */
static bool are_sorted(const struct unwind_row *row, uint32_t rows)
{
	for (uint32_t i = 1; i < rows; i++)
		if (row[i].at <= row[i - 1].at)
			return false;
	return true;
}

/* Blocks so large that there are no more of them than rows. */
static void choose_blocks(struct table *table, uint32_t first, uint32_t last)
{
	table->shift = UNWIND_SHIFT_MIN;
	while (table->shift < UNWIND_SHIFT_MAX && (last >> table->shift) - (first >> table->shift) >= table->rows)
		table->shift++;
	table->first_block = first >> table->shift;
	table->blocks = (last >> table->shift) - table->first_block + 1;
}

static void make_index(const struct table *table, const struct unwind_row *row, struct unwind_block *block)
{
	uint32_t next = 0;		/* the first row that does not begin before the block */

	for (uint32_t b = 0; b < table->blocks; b++) {
		uint64_t begin = (uint64_t)(table->first_block + b) << table->shift;
		uint64_t end = begin + (1ull << table->shift);

		while (next < table->rows && row[next].at < begin)
			next++;
		block[b].low = block[b].high = next;
		while (block[b].high < table->rows && row[block[b].high].at < end)
			block[b].high++;
		next = block[b].high;
	}
}

/* Into the map of that table, with its index. */
static bool hand_over_rows(struct source_bpf_unwind *unwind, uint32_t index, const struct unwind_row *row)
{
	struct table *table = &unwind->table[index];
	uint32_t values;
	void *memory;
	int fd;

	choose_blocks(table, row[0].at, row[table->rows - 1].at);
	values = table->rows + table->blocks;
	if (!make_room(unwind, values))
		return false;
	fd = begin_inner("unwind_rows", sizeof(*row), values, &memory);
	if (fd < 0)
		return false;
	memcpy(memory, row, table->rows * sizeof(*row));
	make_index(table, row, (struct unwind_block *)((struct unwind_row *)memory + table->rows));
	return end_inner(fd, memory, values * sizeof(*row), unwind->tables, index);
}

static bool load_rows(struct source_bpf_unwind *unwind, uint32_t index, int file, uint32_t rows)
{
	struct unwind_row *row = malloc(rows * sizeof(*row));
	bool is_good = row && read_all(file, row, rows * sizeof(*row)) && are_sorted(row, rows);

	unwind->table[index].rows = rows;
	is_good = is_good && hand_over_rows(unwind, index, row);
	free(row);
	return is_good;
}

/* ---- Files ------------------------------------------------------------------------------------ */

/* What a reader has made of a file. */
struct compiled {
	uint32_t rows;
	bool is_mapped;		/* it is the mapped file itself, beyond doubt */
};

/*
 * Inside the kernel a device's number has another form than that which it tells. Without a major number it is no
 * disk's: when that file system is unmounted, another's may have it, which another user mounts.
 */
static bool is_mapped_file(const struct finder_answer *answer, const struct file_key *file)
{
	return major(answer->device) && answer->inode == file->inode &&
	       ((uint64_t)major(answer->device) << 20 | minor(answer->device)) == file->device;
}

/* The descriptor of a memory file of rows; -errno. */
static int ask_for(struct source_bpf_unwind *unwind, const char *path, const struct file_key *file,
		   struct compiled *compiled)
{
	static struct finder_answer answer;	/* the loader has one thread */
	struct finder_question question = {.unwinds = true};
	struct error error = {0};
	int fd = -1, err;

	if (snprintf(question.path, sizeof(question.path), "%s", path) >= (int)sizeof(question.path))
		return -ENAMETOOLONG;
	err = finder_ask(unwind->finder, &question, &answer, &fd, &error);
	if (err)
		return err;
	compiled->rows = answer.names;
	compiled->is_mapped = is_mapped_file(&answer, file);
	if (!memcmp(answer.build_id, file->build_id, sizeof(answer.build_id)))
		return fd;
	close(fd);
	return -ESTALE;
}

/* In the tree that the process sees. Where we may not look into that, or it is not there, in the tree that we see. */
static int ask_for_file(struct source_bpf_unwind *unwind, const struct mapping *mapping, uint32_t pid,
			struct compiled *compiled)
{
	char path[sizeof("/proc//root") + 16 + MAPS_PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/root%s", pid, mapping->path);
	fd = ask_for(unwind, path, &mapping->file, compiled);
	return fd == -EACCES || fd == -EPERM || fd == -ENAMETOOLONG || fd == -ENOENT ?
		       ask_for(unwind, mapping->path, &mapping->file, compiled) : fd;
}

/*
 * Whether a process may use that table, of `rows` rows: it does already, or its share has room for one more. Each table
 * counts once, whatever the number of mappings.
 */
static bool has_share(const struct source_bpf_unwind *unwind, const struct process *process, int index, uint64_t rows)
{
	bool is_counted[UNWIND_TABLES_MAX] = {false};
	unsigned tables = 0;

	for (unsigned i = 0; i < process->mappings; i++) {
		int used = process->mapping[i].table;

		if (used < 0 || is_counted[used])
			continue;
		if (used == index)
			return true;
		is_counted[used] = true;
		rows += unwind->table[used].rows;
		tables++;
	}
	return tables < UNWIND_PROCESS_TABLES_MAX && rows <= UNWIND_PROCESS_ROWS_MAX;
}

/* It says nothing of the file. */
static bool is_passing(int err)
{
	return err == -ETIMEDOUT || err == -EAGAIN || err == -ENOMEM;
}

/* Its index; NO_TABLE: all are in use. */
static int read_file(struct source_bpf_unwind *unwind, const struct mapping *mapping, const struct process *process)
{
	int index = free_table(unwind), fd;
	struct compiled compiled = {0};
	struct table *table;

	if (index < 0)
		return NO_TABLE;
	table = &unwind->table[index];
	fd = ask_for_file(unwind, mapping, process->pid, &compiled);
	if (fd >= 0 && has_share(unwind, process, NO_TABLE, compiled.rows) &&
	    load_rows(unwind, (uint32_t)index, fd, compiled.rows)) {
		table->state = TABLE_READY;
		unwind->rows += table->rows + table->blocks;
	} else {
		*table = (struct table){.state = TABLE_NONE};
	}
	if (fd >= 0)
		close(fd);
	table->file = mapping->file;
	table->again_ns = is_passing(fd) ? clock_monotonic() + UNWIND_AGAIN_NS : 0;
	if (table->state == TABLE_NONE || !compiled.is_mapped) {
		table->pid = process->pid;
		table->memory = process->memory;
	}
	return index;
}

/* ---- Processes -------------------------------------------------------------------------------- */

static void free_process(struct source_bpf_unwind *unwind, struct process *process)
{
	for (unsigned i = 0; i < process->mappings; i++) {
		leave_table(unwind, process->mapping[i].table);
		free(process->mapping[i].path);
	}
	free(process->mapping);
	*process = (struct process){0};
}

static struct process *find_process(struct process *process, unsigned processes, uint32_t pid)
{
	for (unsigned i = 0; i < processes; i++)
		if (process[i].pid == pid)
			return &process[i];
	return NULL;
}

static void forget_known(struct source_bpf_unwind *unwind, struct process *known)
{
	bpf_map_delete_elem(unwind->processes, &known->pid);
	free_process(unwind, known);
	*known = unwind->known[--unwind->knowns];
	unwind->known[unwind->knowns] = (struct process){0};
}

static struct process *oldest_known(struct source_bpf_unwind *unwind)
{
	struct process *oldest = &unwind->known[0];

	for (unsigned i = 1; i < unwind->knowns; i++)
		if (unwind->known[i].seen_ns < oldest->seen_ns)
			oldest = &unwind->known[i];
	return oldest;
}

static void fill(const struct source_bpf_unwind *unwind, const struct process *process, struct unwind_map *map)
{
	map[0] = (struct unwind_map){.start = process->memory, .bytes = process->mappings};
	for (unsigned i = 0; i < process->mappings; i++) {
		const struct mapping *mapping = &process->mapping[i];
		const struct table *table = mapping->table >= 0 ? &unwind->table[mapping->table] : NULL;

		map[i + 1] = (struct unwind_map){
			.start = mapping->start, .bytes = mapping->bytes, .offset = mapping->offset,
			.table = UNWIND_NO_TABLE,
		};
		if (table && table->state == TABLE_READY) {
			map[i + 1].table = (uint32_t)mapping->table;
			map[i + 1].rows = table->rows;
			map[i + 1].first_block = table->first_block;
			map[i + 1].blocks = table->blocks;
			map[i + 1].shift = table->shift;
		}
	}
}

static bool has_table(const struct source_bpf_unwind *unwind, const struct process *process)
{
	for (unsigned i = 0; i < process->mappings; i++)
		if (process->mapping[i].table >= 0 &&
		    unwind->table[process->mapping[i].table].state == TABLE_READY)
			return true;
	return false;
}

/* A process of which no file has a table is followed by its frame pointers alone: the kernel is told nothing of it. */
static bool hand_over(const struct source_bpf_unwind *unwind, const struct process *process)
{
	uint32_t values = process->mappings + 1;
	void *memory;
	int fd;

	if (!has_table(unwind, process)) {
		bpf_map_delete_elem(unwind->processes, &process->pid);
		return true;
	}
	fd = begin_inner("unwind_mappings", sizeof(struct unwind_map), values, &memory);
	if (fd < 0)
		return false;
	fill(unwind, process, memory);
	return end_inner(fd, memory, values * sizeof(struct unwind_map), unwind->processes, process->pid);
}

/* The first that waits has all that it needs. */
static void finish_first(struct source_bpf_unwind *unwind)
{
	struct process process = unwind->wait[0], *known = find_process(unwind->known, unwind->knowns, process.pid);

	memmove(unwind->wait, unwind->wait + 1, --unwind->waiting * sizeof(unwind->wait[0]));
	unwind->wait[unwind->waiting] = (struct process){0};
	if (!known && unwind->knowns == UNWIND_PROCESSES_MAX)
		forget_known(unwind, oldest_known(unwind));
	if (!hand_over(unwind, &process)) {
		if (known)
			forget_known(unwind, known);
		free_process(unwind, &process);
		return;
	}
	if (known)
		free_process(unwind, known);
	else
		known = &unwind->known[unwind->knowns++];
	*known = process;
}

/* That table is the mapping's; NO_TABLE: there is no room for one. */
static void settle(struct source_bpf_unwind *unwind, struct process *process, struct mapping *mapping, int table)
{
	mapping->table = table;
	use_table(unwind, table);
	free(mapping->path);
	mapping->path = NULL;
	if (table < 0)
		process->again_ns = process->seen_ns + UNWIND_AGAIN_NS;
	else if (unwind->table[table].again_ns)
		process->again_ns = unwind->table[table].again_ns;
}

/* False: that mapping's file is to be read. */
static bool settle_without_reading(struct source_bpf_unwind *unwind, struct process *process, struct mapping *mapping)
{
	int table;

	if (mapping->table != NOT_ASKED)
		return true;
	table = find_table(unwind, &mapping->file, process);
	if (!has_share(unwind, process, table, table >= 0 ? unwind->table[table].rows : 0))
		table = NO_TABLE;
	if (table != NOT_ASKED)
		settle(unwind, process, mapping, table);
	return table != NOT_ASKED;
}

/* Reads one file at most. False: more are to be read. */
static bool find_tables(struct source_bpf_unwind *unwind, struct process *process)
{
	bool was_read = false;

	for (unsigned i = 0; i < process->mappings; i++) {
		struct mapping *mapping = &process->mapping[i];

		if (settle_without_reading(unwind, process, mapping))
			continue;
		if (was_read)
			return false;
		was_read = true;
		settle(unwind, process, mapping, read_file(unwind, mapping, process));
	}
	return true;
}

/* ---- Taking ----------------------------------------------------------------------------------- */

#define FNV_OFFSET	0xcbf29ce484222325ull	/* FNV-1a, 64 bits, of words */
#define FNV_PRIME	0x100000001b3ull

static uint64_t hash_of(const struct maps_found *found)
{
	uint64_t hash = FNV_OFFSET;

	for (uint32_t i = 0; i < found->told && i < MAPS_PER_PROCESS_MAX; i++) {
		const struct maps_one *one = &found->one[i];
		const uint64_t word[] = {one->start, one->bytes, one->offset, one->build_id[0], one->build_id[1],
					 one->build_id[2], one->device, one->inode, one->generation};

		for (unsigned w = 0; w < sizeof(word) / sizeof(word[0]); w++)
			hash = (hash ^ word[w]) * FNV_PRIME;
	}
	return hash;
}

static bool take_mappings(struct process *process, const struct maps_found *found)
{
	unsigned count = found->told < MAPS_PER_PROCESS_MAX ? found->told : MAPS_PER_PROCESS_MAX;

	process->mapping = calloc(count + 1, sizeof(*process->mapping));
	if (!process->mapping)
		return false;
	for (unsigned i = 0; i < count; i++) {
		const struct maps_one *one = &found->one[i];
		struct mapping *mapping = &process->mapping[i];

		*mapping = (struct mapping){
			.start = one->start, .bytes = one->bytes, .offset = one->offset, .table = NO_TABLE,
			.file = {.device = one->device, .inode = one->inode, .generation = one->generation},
		};
		memcpy(mapping->file.build_id, one->build_id, sizeof(mapping->file.build_id));
		if (one->build_id[0] && one->path[0] == '/')
			mapping->path = strndup(one->path, sizeof(one->path));
		if (mapping->path)
			mapping->table = NOT_ASKED;
	}
	process->mappings = count;
	return true;
}

static bool is_known(struct source_bpf_unwind *unwind, const struct process *process)
{
	struct process *known = find_process(unwind->known, unwind->knowns, process->pid);

	if (!known || known->memory != process->memory || known->hash != process->hash ||
	    (known->again_ns && process->seen_ns >= known->again_ns))
		return false;
	known->seen_ns = process->seen_ns;
	return true;
}

void source_bpf_unwind_take(struct source_bpf_unwind *unwind)
{
	struct maps_found *found = unwind->found;
	uint32_t zero = 0;
	struct process process, *waits;

	if (!unwind->finder || unwind->finder->socket < 0 || bpf_map_lookup_elem(unwind->objects->maps_found, &zero, found))
		return;
	process = (struct process){
		.pid = found->pid, .memory = found->memory, .hash = hash_of(found), .seen_ns = clock_monotonic(),
	};
	if (!found->told || !process.pid || !process.memory || is_known(unwind, &process))
		return;
	waits = find_process(unwind->wait, unwind->waiting, process.pid);
	if ((!waits && unwind->waiting == UNWIND_WAITING_MAX) || !take_mappings(&process, found))
		return;
	/* Before it is forgotten what it was: what was read for this process alone is not read again. */
	for (unsigned i = 0; i < process.mappings; i++)
		settle_without_reading(unwind, &process, &process.mapping[i]);
	if (waits)
		free_process(unwind, waits);
	else
		waits = &unwind->wait[unwind->waiting++];
	*waits = process;
	unwind->is_empty = false;
}

/* ---- In turns --------------------------------------------------------------------------------- */

#define LOOK_MS		5000	/* between two looks for processes without stacks */

int source_bpf_unwind_wait_ms(const struct source_bpf_unwind *unwind)
{
	uint64_t now_ns = clock_monotonic();

	if (unwind->left)
		return 0;
	if (unwind->waiting)
		return now_ns >= unwind->rest_ns ? 0 : (int)((unwind->rest_ns - now_ns) / 1000000 + 1);
	return unwind->knowns ? LOOK_MS : -1;
}

static void forget_old(struct source_bpf_unwind *unwind, uint64_t now_ns)
{
	for (unsigned i = unwind->knowns; i-- > 0;)
		if (now_ns - unwind->known[i].seen_ns > UNWIND_PROCESS_NS)
			forget_known(unwind, &unwind->known[i]);
}

/* It has had a file read: the others come first now. */
static void send_first_behind(struct source_bpf_unwind *unwind)
{
	struct process first = unwind->wait[0];

	memmove(unwind->wait, unwind->wait + 1, (unwind->waiting - 1) * sizeof(unwind->wait[0]));
	unwind->wait[unwind->waiting - 1] = first;
}

void source_bpf_unwind_work(struct source_bpf_unwind *unwind)
{
	uint64_t now_ns, end_ns;

	forget_old(unwind, clock_monotonic());
	drop_one_left(unwind);
	now_ns = clock_monotonic();
	if (!unwind->waiting || now_ns < unwind->rest_ns)
		return;
	if (find_tables(unwind, &unwind->wait[0]))
		finish_first(unwind);
	else
		send_first_behind(unwind);
	end_ns = clock_monotonic();
	unwind->rest_ns = end_ns + UNWIND_REST_TIMES * (end_ns - now_ns);
}

/* ---- The whole -------------------------------------------------------------------------------- */

void source_bpf_unwind_forget(struct source_bpf_unwind *unwind)
{
	uint32_t pid;

	if (unwind->is_empty)
		return;
	unwind->is_empty = true;
	while (unwind->waiting)
		free_process(unwind, &unwind->wait[--unwind->waiting]);
	while (unwind->knowns)
		forget_known(unwind, &unwind->known[unwind->knowns - 1]);
	for (unsigned i = 0; i < UNWIND_PROCESSES_MAX && !bpf_map_get_next_key(unwind->processes, NULL, &pid); i++)
		bpf_map_delete_elem(unwind->processes, &pid);
	for (unsigned i = 0; i < UNWIND_TABLES_MAX; i++)
		leave_to_be_dropped(unwind, &unwind->table[i]);
}

/* An earlier run has put there what it likes. */
static void adopt(struct source_bpf_unwind *unwind)
{
	for (unsigned i = 0; i < UNWIND_TABLES_MAX; i++)
		unwind->table[i].state = TABLE_LEFT;
	unwind->left = UNWIND_TABLES_MAX;
	source_bpf_unwind_forget(unwind);
}

struct source_bpf_unwind *source_bpf_unwind_create(const struct source_bpf_objects *objects, bool are_adopted,
						   struct finder *finder)
{
	struct source_bpf_unwind *unwind = calloc(1, sizeof(*unwind));

	if (!unwind)
		return NULL;
	unwind->objects = objects;
	unwind->finder = HAS_TABLES ? finder : NULL;
	unwind->tables = source_bpf_objects_inner(objects, "unwind_tables");
	unwind->processes = source_bpf_objects_inner(objects, "unwind_processes");
	unwind->found = malloc(sizeof(*unwind->found));
	if (unwind->found) {
		if (HAS_TABLES && are_adopted)
			adopt(unwind);
		unwind->is_empty = true;
		return unwind;
	}
	free(unwind);
	return NULL;
}

void source_bpf_unwind_destroy(struct source_bpf_unwind *unwind)
{
	if (!unwind)
		return;
	while (unwind->waiting)
		free_process(unwind, &unwind->wait[--unwind->waiting]);
	while (unwind->knowns)
		free_process(unwind, &unwind->known[--unwind->knowns]);
	free(unwind->found);
	free(unwind);
}
