/*
 * The process that opens files for probes: what it finds, what it refuses, and what the loader makes of an
 * answer that is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/source/finder.h"
#include "daemon/source/unwind_table.h"

#define DAMAGES 400

int a_function_to_be_probed(int x);

__attribute__((noinline)) int a_function_to_be_probed(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

static char self[256];

static int ask(struct finder *finder, const char *path, const char *name, enum file_probe_kind kind,
	       struct finder_answer *answer, struct error *error)
{
	struct finder_question question = {.kind = kind};
	int fd = -1, err;

	*error = (struct error){0};
	snprintf(question.path, sizeof(question.path), "%s", path);
	snprintf(question.name, sizeof(question.name), "%s", name);
	err = finder_ask(finder, &question, answer, &fd, error);
	if (!err)
		close(fd);
	return err;
}

static void finds_a_function_where_the_file_has_it(void **state)
{
	static struct finder_answer answer;
	struct finder finder;
	struct error error;
	uint8_t code[16];
	int fd = open(self, O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(finder_start(&finder, NULL, false, &error), 0);
	assert_int_equal(ask(&finder, self, "a_function_to_be_probed", FILE_FUNCTION, &answer, &error), 0);
	assert_int_equal(answer.sites.count, 1);
	assert_int_equal(pread(fd, code, sizeof(code), (off_t)answer.sites.site[0].offset), sizeof(code));
	assert_memory_equal(code, (void *)(uintptr_t)a_function_to_be_probed, sizeof(code));
	assert_int_equal(ask(&finder, self, "a_function_to_be_probed+1", FILE_FUNCTION, &answer, &error), 0);
	close(fd);
	finder_stop(&finder);
	assert_int_equal(waitpid(finder.pid, NULL, 0), finder.pid);
}

static void says_why_it_finds_nothing(void **state)
{
	static const struct {
		const char *path, *name, *code;
	} row[] = {
		{"/no/such/file", "f", "probe-no-file"},	{"/", "f", "probe-no-file"},
		{"/dev/zero", "f", "probe-no-file"},		{"relative", "f", "probe-bad-path"},
		{"", "f", "probe-bad-path"},			{"/etc/passwd", "f", "not-elf"},
		{"/proc/self/fd/0", "f", "probe-no-file"},	{self, "a_function_to_be_prodded", "unknown-symbol"},
		{self, "", "symbol-offset"},			{self, "a_function_to_be_probed+", "symbol-offset"},
		{self, "a_function_to_be_probed+4096", "symbol-offset"},
		{self, "a_function_to_be_probed+-1", "symbol-offset"},
		{"/proc/999999999/root/bin/sh", "f", "probe-no-file"},
	};
	static struct finder_answer answer;
	struct finder finder;
	struct error error;

	(void)state;
	assert_int_equal(finder_start(&finder, NULL, false, &error), 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_true(ask(&finder, row[i].path, row[i].name, FILE_FUNCTION, &answer, &error) < 0);
		assert_string_equal(error.code, row[i].code);
	}
	assert_int_equal(ask(&finder, self, "none:such", FILE_MARK, &answer, &error), -ENOENT);
	assert_string_equal(error.code, "unknown-probe");
	/* It goes on, whatever it was asked. */
	assert_int_equal(ask(&finder, self, "a_function_to_be_probed", FILE_FUNCTION, &answer, &error), 0);
	finder_stop(&finder);
	assert_int_equal(waitpid(finder.pid, NULL, 0), finder.pid);
}

static void its_end_is_an_error_and_nothing_worse(void **state)
{
	static struct finder_answer answer;
	struct finder finder;
	struct error error;

	(void)state;
	assert_int_equal(finder_start(&finder, NULL, false, &error), 0);
	assert_int_equal(kill(finder.pid, SIGKILL), 0);
	assert_int_equal(waitpid(finder.pid, NULL, 0), finder.pid);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask(&finder, self, "f", FILE_FUNCTION, &answer, &error), -EPIPE);
		assert_string_equal(error.code, "finder-gone");
	}
}

/* Of a finder that was taken over. */
static void an_answer_that_is_none_is_refused(void **state)
{
	static struct finder_answer good = {
		.sites = {.count = 1, .site = {{.offset = 64, .args = 1,
						.arg = {{.bytes = 8, .index = WORD_NO_INDEX}}}}},
	};
	struct finder_question question = {.kind = FILE_MARK};
	struct finder_answer *bad = malloc(sizeof(*bad));
	struct file_site *site = &bad->sites.site[0];

#define REFUSED(change) do { \
		*bad = good; \
		change; \
		assert_false(finder_answer_fits(bad, &question, true)); \
	} while (0)
	(void)state;
	assert_true(finder_answer_fits(&good, &question, true));
	assert_false(finder_answer_fits(&good, &question, false));
	REFUSED(bad->sites.count = 0);
	REFUSED(bad->sites.count = FILE_SITES_MAX + 1);
	REFUSED(site->args = FILE_ARGS_MAX + 1);
	REFUSED(site->semaphore = 1ull << 32);
	REFUSED(site->offset = UINT64_MAX);
	REFUSED(site->arg[0].bytes = 3);
	REFUSED(site->arg[0].offset = 4096);
	REFUSED(site->arg[0].offset = 4);
	REFUSED(site->arg[0].of = 3);
	REFUSED(site->arg[0].is_location = true);
	REFUSED((site->arg[0].of = WORD_OF_MEMORY, site->arg[0].shift = 4));
	REFUSED((site->arg[0].of = WORD_OF_MEMORY, site->arg[0].index = 4096));
	REFUSED(memset(bad->error.hint, 'x', sizeof(bad->error.hint)));
	REFUSED(bad->err = 1);
	REFUSED(bad->err = -1);		/* and a descriptor all the same */
	question.lists = 1;
	REFUSED(bad->names = FIND_NAMES_MAX + 1);
	REFUSED(bad->names_bytes = UINT64_MAX);
	question.lists = 0;
	question.unwinds = 1;
	good.names = 2;
	good.names_bytes = 2 * sizeof(struct unwind_row);
	assert_true(finder_answer_fits(&good, &question, true));
	REFUSED(bad->names = 3);
	REFUSED(bad->names_bytes++);
	REFUSED(bad->names = 0; bad->names_bytes = 0);
	REFUSED(bad->names = UNWIND_FILE_ROWS_MAX + 1;
		bad->names_bytes = (UNWIND_FILE_ROWS_MAX + 1ull) * sizeof(struct unwind_row));
	free(bad);
}

/* As /proc/PID/root leads to it, which is how the loader asks. */
static void compiles_the_rows_of_a_file(void **state)
{
	static struct finder_answer answer;
	struct finder_question question = {.unwinds = true};
	struct unwind_row row[2];
	struct finder finder;
	struct error error = {0};
	int fd = -1;

	(void)state;
	assert_int_equal(finder_start(&finder, NULL, false, &error), 0);
	snprintf(question.path, sizeof(question.path), "/proc/%d/root%.200s", getpid(), self);
#if defined(__x86_64__)
	assert_int_equal(finder_ask(&finder, &question, &answer, &fd, &error), 0);
	assert_true(answer.names > 2);
	assert_int_equal(answer.names_bytes, answer.names * sizeof(row[0]));
	assert_int_equal(pread(fd, row, sizeof(row), 0), sizeof(row));
	assert_true(row[0].at < row[1].at);
	assert_int_equal(lseek(fd, 0, SEEK_END), answer.names_bytes);
	close(fd);
#endif
	snprintf(question.path, sizeof(question.path), "/etc/passwd");
	assert_int_equal(finder_ask(&finder, &question, &answer, &fd, &error), -ENOEXEC);
	assert_string_equal(error.code, "no-unwind-table");
	finder_stop(&finder);
	assert_int_equal(waitpid(finder.pid, NULL, 0), finder.pid);
}

/* A copy of this program with some of its bytes changed: what is found in it, if anything, is within bounds. */
static void damaged_files_do_no_harm(void **state)
{
	int from = open(self, O_RDONLY | O_CLOEXEC), to = memfd_create("damaged", MFD_CLOEXEC);
	static struct file_sites sites;
	struct stat status;
	uint8_t *all;

	(void)state;
	assert_int_equal(fstat(from, &status), 0);
	all = malloc((size_t)status.st_size);
	assert_non_null(all);
	assert_int_equal(pread(from, all, (size_t)status.st_size, 0), status.st_size);
	srandom(1);
	for (int i = 0; i < DAMAGES; i++) {
		off_t at = i < DAMAGES / 2 ? random() % 1024 : random() % status.st_size;
		uint8_t byte = (uint8_t)random();
		struct error error;

		assert_int_equal(pwrite(to, all, (size_t)status.st_size, 0), status.st_size);
		assert_int_equal(pwrite(to, &byte, 1, at), 1);
		if (file_probe_find(to, FILE_FUNCTION, "a_function_to_be_probed", &sites, &error) == 0)
			assert_true(file_sites_fit(&sites));
		if (file_probe_find(to, FILE_MARK, "libc:setjmp", &sites, &error) == 0)
			assert_true(file_sites_fit(&sites));
	}
	free(all);
	close(from);
	close(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_a_function_where_the_file_has_it),
		cmocka_unit_test(says_why_it_finds_nothing),
		cmocka_unit_test(its_end_is_an_error_and_nothing_worse),
		cmocka_unit_test(an_answer_that_is_none_is_refused),
		cmocka_unit_test(compiles_the_rows_of_a_file),
		cmocka_unit_test(damaged_files_do_no_harm),
	};

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
