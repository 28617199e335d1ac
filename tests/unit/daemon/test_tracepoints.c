/* What tracefs has: formats that fit, one that is too long, and more than are kept. The test has its own tracefs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/source/tracepoints.h"

static char root[] = "/dev/shm/ringtail-tracepoints-XXXXXX";

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
	return __real_open(strcmp(path, "/sys/kernel/tracing") == 0 ? root : path, flags);
}

static void make_event(const char *system, const char *name, size_t bytes)
{
	char path[256], *text = malloc(bytes + 1);
	FILE *file;

	memset(text, 'x', bytes);
	snprintf(path, sizeof(path), "%s/events/%s/%s", root, system, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/events/%s/%s/format", root, system, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
	free(text);
}

static int make_root(void **state)
{
	char path[256];

	(void)state;
	assert_non_null(mkdtemp(root));
	for (const char *const *name = (const char *const[]){"", "syscalls", "some", "ftrace", NULL}; *name; name++) {
		snprintf(path, sizeof(path), "%s/events/%s", root, *name);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
	(void)stat, (void)kind, (void)at;
	return remove(path);
}

static int remove_root(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void one_that_is_too_long_is_there_without_its_format(void **state)
{
	char *text = malloc(TRACEPOINT_FORMAT_BYTES_MAX);
	struct tracepoints *tracepoints;

	(void)state;
	make_event("some", "a", 100);
	make_event("some", "b", TRACEPOINT_FORMAT_BYTES_MAX);
	make_event("some", "c", TRACEPOINT_FORMAT_BYTES_MAX - 1);
	make_event("some", "empty", 0);
	make_event("ftrace", "own", 100);
	assert_int_equal(tracepoints_read(&tracepoints), 0);
	assert_int_equal(tracepoints_count(tracepoints), 3);
	assert_int_equal(tracepoints_beyond(tracepoints), 0);
	assert_string_equal(tracepoints_name(tracepoints, 1), "b");
	assert_int_equal(tracepoints_format(tracepoints, 0, text), 100);
	assert_int_equal(tracepoints_format(tracepoints, 1, text), -EFBIG);
	assert_int_equal(tracepoints_format(tracepoints, 2, text), TRACEPOINT_FORMAT_BYTES_MAX - 1);
	tracepoints_destroy(tracepoints);
	free(text);
}

static void those_beyond_all_are_counted(void **state)
{
	struct tracepoints *tracepoints;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < TRACEPOINTS_MAX; i++) {
		snprintf(name, sizeof(name), "e%u", i);
		make_event("syscalls", name, 10);
	}
	assert_int_equal(tracepoints_read(&tracepoints), 0);
	assert_int_equal(tracepoints_count(tracepoints), TRACEPOINTS_MAX);
	assert_int_equal(tracepoints_beyond(tracepoints), 3);
	tracepoints_destroy(tracepoints);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_too_long_is_there_without_its_format),
		cmocka_unit_test(those_beyond_all_are_counted),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
