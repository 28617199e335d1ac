/*
 * bpf_unwind: which table is whose, and what one process can take of the loader's time and of the kernel's memory. The
 * kernel's maps, the finder and the clock are the test's own. That stacks follow the tables is seen in
 * tests/bpf/test_unwind.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/source/bpf_objects.h"
#include "daemon/source/bpf_unwind.h"
#include "daemon/source/finder.h"
#include "kmod/bpf/request.h"
#include "tests/lib/failing_memory.h"

#if defined(__x86_64__)

#define FOUND		70	/* the kernel's maps */
#define TABLES		71
#define PROCESSES	72
#define PIDS		64u
#define MS		1000000ull

/* The kernel has another form for the number of a device than programs. */
#define DISK		makedev(8, 1)
#define DISK_INSIDE	(8ull << 20 | 1)
#define NO_DISK		makedev(0, 50)
#define NO_DISK_INSIDE	50ull

/* ---- The kernel ------------------------------------------------------------------------------- */

static struct maps_found found;

static struct {
	bool is_there;
	int16_t mark;		/* cfa of its first row: what it was made of */
} table[UNWIND_TABLES_MAX];

static struct {
	uint64_t memory, mappings;	/* 0: nothing is known of it */
	uint32_t table[MAPS_PER_PROCESS_MAX];
} process[PIDS];

/* Calls on the map of tables that take something out of it or read there: an old kernel waits in each. */
static unsigned waits;

int __wrap_source_bpf_objects_inner(const struct source_bpf_objects *objects, const char *name);
int __wrap_source_bpf_objects_inner(const struct source_bpf_objects *objects, const char *name)
{
	(void)objects;
	return strcmp(name, "unwind_tables") ? PROCESSES : TABLES;
}

int __wrap_bpf_map_create(enum bpf_map_type type, const char *name, uint32_t key_bytes, uint32_t value_bytes,
			  uint32_t values, const struct bpf_map_create_opts *options);
int __wrap_bpf_map_create(enum bpf_map_type type, const char *name, uint32_t key_bytes, uint32_t value_bytes,
			  uint32_t values, const struct bpf_map_create_opts *options)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	(void)key_bytes, (void)options;
	assert_int_equal(type, BPF_MAP_TYPE_ARRAY);
	assert_int_equal(ftruncate(fd, (off_t)value_bytes * values), 0);
	return fd;
}

int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value);
int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	(void)key;
	waits += fd == TABLES;
	if (fd != FOUND)
		return -ENOENT;
	memcpy(value, &found, sizeof(found));
	return 0;
}

static void take_process(uint32_t pid, int inner)
{
	struct unwind_map map;

	assert_int_equal(pread(inner, &map, sizeof(map), 0), sizeof(map));
	process[pid].memory = map.start;
	process[pid].mappings = map.bytes;
	for (uint32_t i = 0; i < process[pid].mappings; i++) {
		assert_int_equal(pread(inner, &map, sizeof(map), (off_t)((i + 1) * sizeof(map))), sizeof(map));
		process[pid].table[i] = map.table;
	}
}

int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags);
int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags)
{
	uint32_t number = *(const uint32_t *)key;
	int inner = *(const int *)value;
	struct unwind_row row;

	assert_int_equal(flags, BPF_ANY);
	if (fd == PROCESSES) {
		assert_true(number < PIDS);
		take_process(number, inner);
		return 0;
	}
	assert_int_equal(fd, TABLES);
	assert_true(number < UNWIND_TABLES_MAX);
	assert_int_equal(pread(inner, &row, sizeof(row), 0), sizeof(row));
	table[number].is_there = true;
	table[number].mark = row.cfa;
	return 0;
}

int __wrap_bpf_map_delete_elem(int fd, const void *key);
int __wrap_bpf_map_delete_elem(int fd, const void *key)
{
	uint32_t number = *(const uint32_t *)key;

	waits += fd == TABLES;
	if (fd == PROCESSES)
		process[number].memory = process[number].mappings = 0;
	else
		table[number].is_there = false;
	return 0;
}

int __wrap_bpf_map_get_next_key(int fd, const void *key, void *next);
int __wrap_bpf_map_get_next_key(int fd, const void *key, void *next)
{
	assert_int_equal(fd, PROCESSES);
	assert_null(key);
	for (uint32_t pid = 0; pid < PIDS; pid++)
		if (process[pid].memory) {
			memcpy(next, &pid, sizeof(pid));
			return 0;
		}
	return -ENOENT;
}

static unsigned tables_there(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < UNWIND_TABLES_MAX; i++)
		count += table[i].is_there;
	return count;
}

/* ---- The clock and the finder ----------------------------------------------------------------- */

static uint64_t now_ns;

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

/* Of the file /lib/N: inode and build-id are N, unless it is said here what is different. */
static struct {
	int err_in_its_tree, err_in_ours;
	uint64_t device, more_inode;
	uint8_t more_build_id;
	uint32_t rows;
	int16_t mark;
	uint64_t takes_ns;
} answers;

static unsigned asked;
static char asked_path[NAME_BYTES_MAX + 1];	/* last */

static int rows_file(uint32_t rows)
{
	struct unwind_row *row = __real_calloc(rows, sizeof(*row));
	int fd = memfd_create("rows", MFD_CLOEXEC);

	for (uint32_t i = 0; i < rows; i++)
		row[i] = (struct unwind_row){.at = i * 16, .cfa = answers.mark, .rule = UNWIND_RSP};
	assert_int_equal(write(fd, row, rows * sizeof(*row)), rows * sizeof(*row));
	free(row);
	return fd;
}

int __wrap_finder_ask(struct finder *finder, struct finder_question *question, struct finder_answer *answer, int *fd,
		      struct error *error);
int __wrap_finder_ask(struct finder *finder, struct finder_question *question, struct finder_answer *answer, int *fd,
		      struct error *error)
{
	int err = strncmp(question->path, "/proc/", 6) ? answers.err_in_ours : answers.err_in_its_tree;
	uint32_t number = 0;

	(void)finder, (void)error;
	assert_true(question->unwinds);
	asked++;
	now_ns += answers.takes_ns;
	snprintf(asked_path, sizeof(asked_path), "%s", question->path);
	if (err)
		return err;
	sscanf(strrchr(question->path, '/'), "/%u", &number);
	*answer = (struct finder_answer){
		.names = answers.rows, .device = answers.device, .inode = number + answers.more_inode,
	};
	memcpy(answer->build_id, &number, sizeof(number));
	answer->build_id[19] = answers.more_build_id;
	*fd = rows_file(answers.rows);
	return 0;
}

/* ---- Processes -------------------------------------------------------------------------------- */

static const struct source_bpf_objects objects = {.maps_found = FOUND};
static struct finder finder;
static struct source_bpf_unwind *unwind;

/* That process, with a mapping of each of the files. */
static void find(uint32_t pid, uint32_t first_file, uint32_t files)
{
	found.pid = pid;
	found.memory = pid * 4096;
	found.told = files;
	for (uint32_t i = 0; i < files; i++) {
		struct maps_one *one = &found.one[i];

		*one = (struct maps_one){
			.start = 0x100000 + i * 0x10000, .bytes = 0x10000, .build_id = {first_file + i},
			.device = DISK_INSIDE, .inode = first_file + i, .generation = 7,
		};
		snprintf(one->path, sizeof(one->path), "/lib/%u", first_file + i);
	}
}

static void take(uint32_t pid, uint32_t first_file, uint32_t files)
{
	find(pid, first_file, files);
	source_bpf_unwind_take(unwind);
}

static bool has_work(void)
{
	int wait_ms = source_bpf_unwind_wait_ms(unwind);

	return wait_ms >= 0 && wait_ms < 5000;
}

/* When it wants to. */
static void work(void)
{
	now_ns += (uint64_t)source_bpf_unwind_wait_ms(unwind) * MS;
	source_bpf_unwind_work(unwind);
}

static void work_to_the_end(void)
{
	for (unsigned i = 0; i < 4 * UNWIND_TABLES_MAX && has_work(); i++)
		work();
	assert_false(has_work());
}

static void take_and_work(uint32_t pid, uint32_t first_file, uint32_t files)
{
	take(pid, first_file, files);
	work_to_the_end();
}

static bool has_table(uint32_t pid, uint32_t mapping)
{
	return process[pid].mappings > mapping && process[pid].table[mapping] != UNWIND_NO_TABLE;
}

static unsigned tables_of(uint32_t pid)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < process[pid].mappings; i++)
		count += has_table(pid, i);
	return count;
}

/* What the table of a process's first mapping was made of. */
static int16_t mark_of(uint32_t pid)
{
	assert_true(has_table(pid, 0));
	assert_true(table[process[pid].table[0]].is_there);
	return table[process[pid].table[0]].mark;
}

static int setup(void **state)
{
	(void)state;
	memset(table, 0, sizeof(table));
	memset(process, 0, sizeof(process));
	answers = (typeof(answers)){.device = DISK, .rows = 3, .mark = 1};
	asked = 0;
	now_ns = 1000 * MS;
	unwind = source_bpf_unwind_create(&objects, false, &finder);
	return unwind ? 0 : -1;
}

static void expect_no_process(void)
{
	for (unsigned i = 0; i < PIDS; i++)
		assert_int_equal(process[i].memory, 0);
}

/* Whatever came before: nothing of it stays. */
static int teardown(void **state)
{
	(void)state;
	source_bpf_unwind_forget(unwind);
	expect_no_process();
	work_to_the_end();
	assert_int_equal(tables_there(), 0);
	source_bpf_unwind_destroy(unwind);
	return 0;
}

/* ---- Whose a table is ------------------------------------------------------------------------- */

static void a_file_is_read_once_for_all(void **state)
{
	(void)state;
	take_and_work(1, 100, 2);
	take_and_work(2, 101, 2);
	assert_int_equal(asked, 3);
	assert_string_equal(asked_path, "/proc/2/root/lib/102");
	assert_int_equal(process[1].memory, 4096);
	assert_int_equal(tables_of(1), 2);
	assert_int_equal(process[2].table[0], process[1].table[1]);
	assert_int_equal(tables_there(), 3);
}

/* Its path leads to a file that it has made, with the build-id of the one that it has mapped. */
static void a_file_that_is_not_the_mapped_one_is_one_processs(void **state)
{
	(void)state;
	for (int is_inode = 0; is_inode < 2; is_inode++) {
		answers.mark = 9;
		answers.more_inode = (uint64_t)is_inode;
		answers.device = is_inode ? DISK : makedev(8, 2);
		take_and_work(1, 100, 1);
		assert_int_equal(mark_of(1), 9);
		answers.mark = 1;
		answers.more_inode = 0;
		answers.device = DISK;
		take_and_work(2, 100, 1);
		take_and_work(3, 100, 1);
		assert_int_equal(mark_of(2), 1);
		assert_int_equal(process[3].table[0], process[2].table[0]);
		assert_int_equal(mark_of(1), 9);
		source_bpf_unwind_forget(unwind);
	}
	assert_int_equal(asked, 4);
}

/* Its pid and its memory: another program that has its pid is another process. */
static void such_a_table_goes_with_its_process(void **state)
{
	(void)state;
	answers.more_inode = 1;
	take_and_work(1, 100, 1);
	assert_int_equal(tables_there(), 1);
	find(1, 100, 1);
	found.memory++;
	answers.mark = 2;
	source_bpf_unwind_take(unwind);
	work_to_the_end();
	assert_int_equal(mark_of(1), 2);
	assert_int_equal(tables_there(), 1);
	/* A mapping more: the file is not read again. */
	find(1, 100, 2);
	found.memory++;
	source_bpf_unwind_take(unwind);
	work_to_the_end();
	assert_int_equal(asked, 3);
	assert_int_equal(tables_of(1), 2);
	now_ns += UNWIND_PROCESS_NS + 1;
	source_bpf_unwind_work(unwind);
	assert_int_equal(process[1].memory, 0);
	work_to_the_end();
	assert_int_equal(tables_there(), 0);
}

/* The number of a file system that lies on no disk is the next one's when it is unmounted. */
static void a_file_on_no_disk_is_one_processs(void **state)
{
	(void)state;
	answers.device = NO_DISK;
	for (uint32_t pid = 1; pid <= 2; pid++) {
		find(pid, 100, 1);
		found.one[0].device = NO_DISK_INSIDE;
		source_bpf_unwind_take(unwind);
		work_to_the_end();
	}
	assert_int_equal(asked, 2);
	assert_true(has_table(1, 0) && has_table(2, 0));
	assert_int_not_equal(process[1].table[0], process[2].table[0]);
}

static void other_files_have_other_tables(void **state)
{
	(void)state;
	take_and_work(1, 100, 1);
	for (uint32_t i = 0; i < 3; i++) {
		find(2 + i, 100, 1);
		*(i == 0 ? &found.one[0].build_id[0] : i == 1 ? &found.one[0].generation : &found.one[0].inode) += 1;
		source_bpf_unwind_take(unwind);
		work_to_the_end();
	}
	assert_int_equal(asked, 4);
	assert_false(has_table(2, 0));		/* the file has another build-id than that process says */
	assert_true(has_table(3, 0) && has_table(4, 0));
	assert_int_not_equal(process[3].table[0], process[1].table[0]);
	assert_int_not_equal(process[4].table[0], process[1].table[0]);
}

static void that_there_is_no_table_is_one_processs(void **state)
{
	static const int err[] = {-ENOEXEC, -ENODATA, -E2BIG, -EIO};

	(void)state;
	for (uint32_t i = 0; i < sizeof(err) / sizeof(err[0]); i++) {
		asked = 0;
		answers.err_in_its_tree = err[i];
		take_and_work(1, 100, 1);
		assert_int_equal(process[1].memory, 0);	/* frame pointers alone: the kernel need not know it */
		answers.err_in_its_tree = 0;
		take_and_work(2, 100, 1);
		assert_int_equal(mark_of(2), 1);
		/* Nor is it read again, as long as there are stacks of it. */
		now_ns += UNWIND_AGAIN_NS + 1;
		take_and_work(1, 100, 1);
		assert_int_equal(asked, 2);
		assert_int_equal(process[1].memory, 0);
		/* It had one, and has other files now. */
		take_and_work(1, 200, 1);
		assert_true(has_table(1, 0));
		answers.err_in_its_tree = err[i];
		take_and_work(1, 300, 1);
		assert_int_equal(process[1].memory, 0);
		source_bpf_unwind_forget(unwind);
	}
}

/* It was replaced since, or is another process's idea of it. */
static void a_file_with_another_build_id_is_not_used(void **state)
{
	(void)state;
	answers.more_build_id = 1;
	take_and_work(1, 100, 1);
	assert_int_equal(process[1].memory, 0);
	assert_int_equal(asked, 1);
	assert_int_equal(tables_there(), 0);
}

/* ---- Which file is opened --------------------------------------------------------------------- */

static void where_its_tree_is_closed_the_path_is_opened_in_ours(void **state)
{
	static const struct {
		int err;
		bool falls_back;
	} row[] = {
		{-EACCES, true}, {-EPERM, true}, {-ENOENT, true}, {-EIO, false}, {-ELOOP, false}, {-ETIMEDOUT, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		asked = 0;
		answers.err_in_its_tree = row[i].err;
		take_and_work(1, 100, 1);
		assert_int_equal(asked, row[i].falls_back ? 2 : 1);
		assert_string_equal(asked_path, row[i].falls_back ? "/lib/100" : "/proc/1/root/lib/100");
		assert_int_equal(tables_of(1), row[i].falls_back);
		source_bpf_unwind_forget(unwind);
	}
	answers.err_in_ours = -EACCES;
	answers.err_in_its_tree = -ENOENT;
	take_and_work(1, 100, 1);
	assert_int_equal(tables_of(1), 0);
}

/* As long as the kernel tells it; with the process's root before it, it is too long for a question. */
static void a_long_path_is_opened_in_our_tree(void **state)
{
	(void)state;
	find(1, 100, 1);
	memset(found.one[0].path, '0', sizeof(found.one[0].path) - 1);
	memcpy(found.one[0].path, "/", 1);
	memcpy(found.one[0].path + sizeof(found.one[0].path) - 4, "100", 4);
	source_bpf_unwind_take(unwind);
	work_to_the_end();
	assert_int_equal(asked, 1);
	assert_string_equal(asked_path, found.one[0].path);
	assert_true(has_table(1, 0));
}

/* ---- What one process can take ---------------------------------------------------------------- */

static void one_process_has_a_share_of_the_tables(void **state)
{
	(void)state;
	take_and_work(1, 100, MAPS_PER_PROCESS_MAX);
	assert_int_equal(tables_of(1), UNWIND_PROCESS_TABLES_MAX);
	assert_int_equal(asked, UNWIND_PROCESS_TABLES_MAX);
	/* Of those that are there for all, it is the same. */
	take_and_work(2, 100 + UNWIND_PROCESS_TABLES_MAX, UNWIND_PROCESS_TABLES_MAX);
	take_and_work(3, 100, MAPS_PER_PROCESS_MAX);
	assert_int_equal(tables_of(3), UNWIND_PROCESS_TABLES_MAX);
	assert_int_equal(asked, 2 * UNWIND_PROCESS_TABLES_MAX);
	/* A file counts once. */
	find(4, 100, MAPS_PER_PROCESS_MAX);
	for (unsigned i = 0; i <= MAPS_PER_PROCESS_MAX - UNWIND_PROCESS_TABLES_MAX; i++)
		found.one[i].inode = found.one[i].build_id[0] = 100;
	source_bpf_unwind_take(unwind);
	work_to_the_end();
	assert_int_equal(tables_of(4), MAPS_PER_PROCESS_MAX);
}

static void one_process_has_a_share_of_the_rows(void **state)
{
	(void)state;
	answers.rows = UNWIND_PROCESS_ROWS_MAX / 4 + 1;
	take_and_work(1, 100, 4);
	assert_int_equal(asked, 4);
	assert_int_equal(tables_of(1), 3);
	take_and_work(2, 103, 1);
	assert_int_equal(tables_of(2), 1);
	take_and_work(3, 100, 4);
	assert_int_equal(tables_of(3), 3);
	assert_int_equal(asked, 5);
}

/* Until others go: then it is tried again, without a change of its mappings. */
static void when_all_tables_are_in_use_the_next_has_none(void **state)
{
	const uint32_t pids = UNWIND_TABLES_MAX / UNWIND_PROCESS_TABLES_MAX;

	(void)state;
	for (uint32_t i = 0; i < pids; i++)
		take_and_work(1 + i, 1000 * (1 + i), UNWIND_PROCESS_TABLES_MAX);
	assert_int_equal(tables_there(), UNWIND_TABLES_MAX);
	take_and_work(50, 1000, 2);
	assert_int_equal(tables_of(50), 2);	/* what is there is for all */
	take_and_work(51, 50000, 1);
	assert_int_equal(tables_of(51), 0);
	assert_int_equal(asked, UNWIND_TABLES_MAX);
	take_and_work(51, 50000, 1);
	assert_int_equal(asked, UNWIND_TABLES_MAX);
	now_ns += UNWIND_PROCESS_NS / 2;
	take_and_work(51, 50000, 1);
	assert_int_equal(tables_of(51), 0);
	now_ns += UNWIND_PROCESS_NS / 2 + 1000 * MS;
	source_bpf_unwind_work(unwind);		/* the others are forgotten, */
	take_and_work(51, 50000, 1);
	assert_int_equal(tables_of(51), 1);
	assert_int_equal(tables_there(), UNWIND_TABLES_MAX);	/* and one table for which there was use */
}

static void the_loader_rests_after_a_file(void **state)
{
	(void)state;
	answers.takes_ns = 100 * MS;
	take(1, 100, 2);
	assert_int_equal(source_bpf_unwind_wait_ms(unwind), 0);
	source_bpf_unwind_work(unwind);
	assert_int_equal(asked, 1);
	assert_in_range(source_bpf_unwind_wait_ms(unwind), UNWIND_REST_TIMES * 100, UNWIND_REST_TIMES * 100 + 1);
	now_ns += UNWIND_REST_TIMES * 100 * MS - 1;
	source_bpf_unwind_work(unwind);
	assert_int_equal(asked, 1);
	now_ns++;
	source_bpf_unwind_work(unwind);
	assert_int_equal(asked, 2);
}

static void a_process_with_many_files_does_not_hold_the_others(void **state)
{
	(void)state;
	answers.takes_ns = 10 * MS;
	take(1, 100, 100);
	take(2, 500, 1);
	take(3, 600, 2);
	for (int i = 0; i < 6 && !(process[2].mappings && process[3].mappings); i++)
		work();
	assert_int_equal(tables_of(2), 1);
	assert_int_equal(tables_of(3), 2);
	assert_int_equal(tables_of(1), 0);
	work_to_the_end();
	assert_int_equal(tables_of(1), 100);
}

/* A machine that is busy, or a file system that hangs. */
static void a_file_that_is_late_is_tried_again(void **state)
{
	static const int err[] = {-ETIMEDOUT, -EAGAIN, -ENOMEM};

	(void)state;
	for (size_t i = 0; i < sizeof(err) / sizeof(err[0]); i++) {
		asked = 0;
		answers.err_in_its_tree = err[i];
		take_and_work(1, 100, 1);
		assert_int_equal(tables_of(1), 0);
		answers.err_in_its_tree = 0;
		/* With another mapping: that is read, and the late one not yet. */
		take_and_work(1, 100, 2);
		assert_int_equal(asked, 2);
		assert_false(has_table(1, 0));
		assert_true(has_table(1, 1));
		now_ns += UNWIND_AGAIN_NS;
		take_and_work(1, 100, 2);
		assert_int_equal(asked, 3);
		assert_int_equal(tables_of(1), 2);
		source_bpf_unwind_forget(unwind);
	}
}

static void few_processes_wait(void **state)
{
	(void)state;
	answers.takes_ns = 10 * MS;
	for (uint32_t pid = 1; pid <= UNWIND_WAITING_MAX + 1; pid++)
		take(pid, 100 * pid, 1);
	/* One that waits already is looked at again. */
	take(UNWIND_WAITING_MAX, 100 * UNWIND_WAITING_MAX, 2);
	work_to_the_end();
	assert_int_equal(asked, UNWIND_WAITING_MAX + 1);
	assert_int_equal(tables_of(UNWIND_WAITING_MAX), 2);
	assert_int_equal(tables_of(UNWIND_WAITING_MAX + 1), 0);
	take_and_work(UNWIND_WAITING_MAX + 1, 100, 1);
	assert_int_equal(tables_of(UNWIND_WAITING_MAX + 1), 1);
}

/* ---- What goes again -------------------------------------------------------------------------- */

/* Each drop may wait for what runs in the kernel: the loader does not wait for all of them at once. */
static void tables_go_one_in_a_turn(void **state)
{
	(void)state;
	take_and_work(1, 100, 3);
	answers.more_inode = 1;
	take_and_work(2, 200, 3);
	waits = 0;
	source_bpf_unwind_forget(unwind);
	expect_no_process();
	assert_int_equal(waits, 0);
	for (unsigned left = 6; left; left--) {
		assert_int_equal(tables_there(), left);
		assert_int_equal(source_bpf_unwind_wait_ms(unwind), 0);
		source_bpf_unwind_work(unwind);
	}
	assert_int_equal(tables_there(), 0);
	assert_int_equal(waits, 6);
	assert_int_equal(source_bpf_unwind_wait_ms(unwind), -1);
}

/* While they go, nobody follows them, and others have their places. */
static void a_table_that_is_to_go_is_nobodys(void **state)
{
	(void)state;
	for (int is_ours = 0; is_ours < 2; is_ours++) {
		answers.more_inode = (uint64_t)is_ours;
		answers.mark = 9;
		take_and_work(1, 100, 2);
		source_bpf_unwind_forget(unwind);
		answers.mark = 1;
		take(1, 100, 2);
		work_to_the_end();
		assert_int_equal(mark_of(1), 1);
		assert_int_equal(tables_there(), 2);
		source_bpf_unwind_forget(unwind);
	}
	assert_int_equal(asked, 8);
}

/* Their rows count as long as the kernel has them. */
static void tables_that_are_to_go_have_their_memory(void **state)
{
	(void)state;
	answers.rows = UNWIND_PROCESS_ROWS_MAX / 3;
	take_and_work(1, 100, 3);
	take_and_work(2, 200, 2);
	assert_int_equal(tables_there(), 5);
	source_bpf_unwind_forget(unwind);
	answers.rows = UNWIND_PROCESS_ROWS_MAX;
	take(3, 300, 1);
	work();
	assert_int_equal(tables_of(3), 1);
	assert_int_equal(tables_there(), 3);	/* two of the five, and the one for which there was no room beside more */
	work_to_the_end();
	assert_int_equal(tables_there(), 1);
}

static void tables_of_an_earlier_run_go_one_in_a_turn(void **state)
{
	(void)state;
	source_bpf_unwind_destroy(unwind);
	for (unsigned i = 0; i < UNWIND_TABLES_MAX; i++)
		table[i] = (typeof(table[0])){.is_there = true, .mark = 9};
	for (uint32_t pid = 1; pid < PIDS; pid++)
		process[pid].memory = process[pid].mappings = 1;
	waits = 0;
	unwind = source_bpf_unwind_create(&objects, true, &finder);
	assert_non_null(unwind);
	expect_no_process();
	assert_int_equal(waits, 0);
	/* Nor does who comes now wait for that. */
	take(1, 100, 2);
	work();
	work();
	assert_int_equal(tables_of(1), 2);
	assert_int_equal(mark_of(1), 1);
	assert_int_equal(waits, 2);
	work_to_the_end();
	assert_int_equal(mark_of(1), 1);
	assert_int_equal(tables_there(), 2);
	assert_int_equal(waits, UNWIND_TABLES_MAX);
}

static void without_memory_it_is_left_out(void **state)
{
	bool is_there = false;

	(void)state;
	for (unsigned n = 0; !is_there; n++) {
		assert_true(n < 20);
		find(1, 100, 2);
		memory_fails_after(n);
		source_bpf_unwind_take(unwind);
		memory_suffices();
		work_to_the_end();
		is_there = tables_of(1) == 2;
		source_bpf_unwind_forget(unwind);
	}
	/* Where there is none for a table's rows, the other file has its own. */
	take(1, 100, 2);
	memory_fails_after(0);
	work();
	memory_suffices();
	work_to_the_end();
	assert_int_equal(tables_of(1), 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(a_file_is_read_once_for_all),
	CASE(a_file_that_is_not_the_mapped_one_is_one_processs),
	CASE(such_a_table_goes_with_its_process),
	CASE(a_file_on_no_disk_is_one_processs),
	CASE(other_files_have_other_tables),
	CASE(that_there_is_no_table_is_one_processs),
	CASE(a_file_with_another_build_id_is_not_used),
	CASE(where_its_tree_is_closed_the_path_is_opened_in_ours),
	CASE(a_long_path_is_opened_in_our_tree),
	CASE(one_process_has_a_share_of_the_tables),
	CASE(one_process_has_a_share_of_the_rows),
	CASE(when_all_tables_are_in_use_the_next_has_none),
	CASE(the_loader_rests_after_a_file),
	CASE(a_process_with_many_files_does_not_hold_the_others),
	CASE(a_file_that_is_late_is_tried_again),
	CASE(few_processes_wait),
	CASE(tables_go_one_in_a_turn),
	CASE(a_table_that_is_to_go_is_nobodys),
	CASE(tables_that_are_to_go_have_their_memory),
	CASE(tables_of_an_earlier_run_go_one_in_a_turn),
	CASE(without_memory_it_is_left_out),
};

#else

/* On other processors no file is read. */
static void nothing_is_to_be_done(void **state)
{
	struct source_bpf_objects objects = {.maps_found = -1};
	struct finder finder = {0};
	struct source_bpf_unwind *unwind = source_bpf_unwind_create(&objects, false, &finder);

	(void)state;
	assert_non_null(unwind);
	source_bpf_unwind_take(unwind);
	assert_int_equal(source_bpf_unwind_wait_ms(unwind), -1);
	source_bpf_unwind_destroy(unwind);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(nothing_is_to_be_done),
};

#endif

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
