/* test_jit_symbols: what programs write of the code that they make, whole, on its way, hostile, and not theirs. */
#include "tests/unit/client/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/cli/jit_symbols.h"

static struct jit_symbols *symbols;
static int file;

static int setup(void **state)
{
	(void)state;
	file = memfd_create("map", MFD_CLOEXEC);
	symbols = jit_symbols_create(dup(file));
	return file < 0 || !symbols;
}

static int teardown(void **state)
{
	(void)state;
	jit_symbols_destroy(symbols);
	close(file);
	return 0;
}

static void put(const char *text)
{
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
}

#define assert_found(address, text, into) do { \
	uint64_t offset_; \
	const char *name_ = jit_symbols_find(symbols, address, &offset_); \
	assert_non_null(name_); \
	assert_string_equal(name_, text); \
	assert_int_equal(offset_, into); \
} while (0)

#define assert_not_found(address) do { \
	uint64_t offset_; \
	assert_null(jit_symbols_find(symbols, address, &offset_)); \
} while (0)

static void a_later_line_holds(void **state)
{
	(void)state;
	put("1000 100 first function\n3000 10 third\n2000 80 second\n");
	assert_found(0x1000, "first function", 0);
	assert_found(0x10ff, "first function", 0xff);
	assert_not_found(0x1100);
	assert_found(0x2001, "second", 1);
	assert_not_found(0x300f + 1);
	assert_not_found(0xfff);
	put("2000 80 second again\n1080 10 inside\n");
	assert_not_found(0x4000);		/* reads on */
	assert_found(0x2001, "second again", 1);
	assert_found(0x1085, "inside", 5);
	assert_found(0x1090, "first function", 0x90);
}

static void a_line_on_its_way_comes_later(void **state)
{
	(void)state;
	put("1000 100 who");
	assert_not_found(0x1000);
	put("le\n");
	assert_found(0x1000, "whole", 0);
}

static void a_file_that_was_cut_begins_anew(void **state)
{
	(void)state;
	put("1000 100 before\n2000 100 before, too\n");
	assert_found(0x1000, "before", 0);
	assert_int_equal(ftruncate(file, 0), 0);
	lseek(file, 0, SEEK_SET);
	put("5000 100 after\n");
	assert_found(0x5000, "after", 0);
	assert_not_found(0x1000);
}

static void nonsense_is_passed_over(void **state)
{
	(void)state;
	put("\n \nx\n10\n10 10\n10 10 \n10 0 none\nffffffffffffffff 2 wraps\n-1 5 minus\n1000 zz x\n0x1000 0x10 good\n");
	assert_found(0x1008, "good", 8);
	assert_not_found(0x10);
	assert_not_found(0);
}

/* A process that waits, whose file that is. */
static pid_t start(uid_t uid)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (uid && setuid(uid))
			_exit(1);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* No function goes around the end of memory. */
static void nothing_is_around_the_end(void **state)
{
	(void)state;
	put("fffffffffffffff0 11 around\nffffffffffffffe0 10 at the end\n");
	assert_found(0xffffffffffffffef, "at the end", 0xf);
	assert_not_found(0xfffffffffffffff0);
	assert_not_found(0);
}

static void only_a_file_of_its_own_user_is_believed(void **state)
{
	char path[64], other[64];
	pid_t pid = start(geteuid() ? 0 : 65534);
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	snprintf(other, sizeof(other), "/tmp/ringtail-test-%d", pid);
	assert_int_equal(jit_symbols_open((uint32_t)pid), -1);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
	assert_true(fd >= 0);
	close(fd);
	fd = jit_symbols_open((uint32_t)pid);	/* of root, or its own */
	assert_true(fd >= 0);
	close(fd);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65533, 65533), 0);
		assert_int_equal(jit_symbols_open((uint32_t)pid), -1);
		assert_int_equal(chown(path, 65534, 65534), 0);
		fd = jit_symbols_open((uint32_t)pid);
		assert_true(fd >= 0);
		close(fd);
	}
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(jit_symbols_open((uint32_t)pid), -1);
	unlink(path);
	unlink(other);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(jit_symbols_open((uint32_t)pid), -1);
	unlink(path);
	end(pid);
	assert_int_equal(jit_symbols_open((uint32_t)pid), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_later_line_holds), TEST(a_line_on_its_way_comes_later),
		TEST(a_file_that_was_cut_begins_anew), TEST(nonsense_is_passed_over),
		TEST(nothing_is_around_the_end), TEST(only_a_file_of_its_own_user_is_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
