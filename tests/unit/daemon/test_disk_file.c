/* test_disk_file: whichever step fails, and whatever a power cut then forgets, the file is the old one
 * or the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/disk/disk.h"
#include "tests/lib/faulty_disk.h"

#define OLD "what was"
#define NEW "what is to be, and is longer"
#define STEPS_MAX 20u

static void expect(struct disk *disk, const char *one, const char *other)
{
	char *text;
	size_t bytes;

	assert_int_equal(disk_file_read(disk, "file", 1000, &text, &bytes), 0);
	assert_int_equal(bytes, strlen(text));
	assert_true(strcmp(text, one) == 0 || strcmp(text, other) == 0);
	free(text);
}

/* Whether it was replaced, with that step failing (errno 0: a short write, and no failure). */
static bool replace(uint64_t step, int fail_errno, enum faulty_cut cut)
{
	static struct faulty_disk faulty;
	struct disk *disk = &faulty.disk;
	bool replaced;

	faulty_disk_init(&faulty, step + 1);
	assert_int_equal(disk_file_replace(disk, "file", "file.new", OLD, strlen(OLD)), 0);
	faulty.fail_at = faulty.operations + step;
	faulty.fail_errno = fail_errno;
	replaced = disk_file_replace(disk, "file", "file.new", NEW, strlen(NEW)) == 0;
	faulty_disk_cut(&faulty, cut);
	expect(disk, NEW, replaced ? NEW : OLD);
	faulty_disk_fini(&faulty);
	return replaced;
}

static void test_replace(void **state)
{
	static const enum faulty_cut cuts[] = {FAULTY_KILL, FAULTY_DROP, FAULTY_REORDER, FAULTY_TEAR};

	(void)state;
	for (unsigned i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		uint64_t step = 0;

		while (!replace(step, EIO, cuts[i]) && step < STEPS_MAX)
			step++;
		assert_in_range(step, 4, STEPS_MAX - 1);
		while (step--)
			replace(step, 0, cuts[i]);
	}
}

static void test_read(void **state)
{
	static struct faulty_disk faulty;
	struct disk *disk = &faulty.disk;
	size_t bytes;
	char *text;

	(void)state;
	faulty_disk_init(&faulty, 1);
	assert_int_equal(disk_file_read(disk, "file", 1000, &text, &bytes), -ENOENT);
	assert_null(text);
	assert_int_equal(disk_file_replace(disk, "file", "file.new", OLD, strlen(OLD)), 0);
	assert_int_equal(disk_file_read(disk, "file", 4, &text, &bytes), 0);
	assert_string_equal(text, "what");
	free(text);
	for (unsigned step = 0; step < 2; step++) {
		faulty.fail_at = faulty.operations + step;
		faulty.fail_errno = EIO;
		assert_int_equal(disk_file_read(disk, "file", 1000, &text, &bytes), -EIO);
		assert_null(text);
	}
	expect(disk, OLD, OLD);
	faulty_disk_fini(&faulty);
}

/* What a daemon that was killed left of a longer one is not behind the new one. */
static void test_replace_over_what_was_left(void **state)
{
	static struct faulty_disk faulty;
	struct disk *disk = &faulty.disk;
	uint64_t written = 0;
	int file;

	(void)state;
	faulty_disk_init(&faulty, 1);
	file = disk->ops->open(disk, "file.new", O_WRONLY | O_CREAT);
	assert_int_equal(disk_write_all(disk, file, (const uint8_t *)NEW, strlen(NEW), &written), 0);
	disk->ops->close(disk, file);
	assert_int_equal(disk_file_replace(disk, "file", "file.new", OLD, strlen(OLD)), 0);
	expect(disk, OLD, OLD);
	faulty_disk_fini(&faulty);
}

static const struct disk_ops *whole_ops;

static ssize_t read_a_byte(struct disk *disk, int file, void *bytes, size_t n, uint64_t offset)
{
	return whole_ops->read(disk, file, bytes, n ? 1 : 0, offset);
}

static ssize_t write_a_byte(struct disk *disk, int file, const void *bytes, size_t n)
{
	return whole_ops->write(disk, file, bytes, n ? 1 : 0);
}

/* A disk that takes and gives a byte at a time takes and gives all, up to the bound. */
static void test_byte_by_byte(void **state)
{
	static struct faulty_disk faulty;
	struct disk_ops slow;
	struct disk disk;
	uint64_t written = 1;
	size_t bytes;
	char *text;
	int file;

	(void)state;
	faulty_disk_init(&faulty, 1);
	disk = faulty.disk;
	whole_ops = disk.ops;
	slow = *disk.ops;
	slow.read = read_a_byte;
	slow.write = write_a_byte;
	disk.ops = &slow;
	file = disk.ops->open(&disk, "file", O_WRONLY | O_CREAT);
	assert_int_equal(disk_write_all(&disk, file, (const uint8_t *)NEW, strlen(NEW), &written), 0);
	assert_int_equal(written, 1 + strlen(NEW));
	disk.ops->close(&disk, file);
	for (size_t max = strlen(NEW) - 1; max <= strlen(NEW) + 1; max++) {
		size_t there = max < strlen(NEW) ? max : strlen(NEW);

		assert_int_equal(disk_file_read(&disk, "file", max, &text, &bytes), 0);
		assert_int_equal(bytes, there);
		assert_memory_equal(text, NEW, there);
		assert_int_equal(text[there], '\0');
		free(text);
	}
	faulty_disk_fini(&faulty);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_replace_over_what_was_left),
		cmocka_unit_test(test_byte_by_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
