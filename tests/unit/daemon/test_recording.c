/* A recording as its replay reads it: all CPUs in one order of time, and a file that is not what was opened. */
#include "tests/unit/daemon/small_replay.h"

#include <errno.h>

#include "daemon/source/recording.h"
#include "query/error.h"

static bool interrupt_next;

ssize_t __real_pread(int fd, void *bytes, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t offset);

ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t offset)
{
	if (!interrupt_next)
		return __real_pread(fd, bytes, n, offset);
	interrupt_next = false;
	errno = EINTR;
	return -1;
}

/* A batch of that CPU; the moments end with 0. */
static void put_batch(struct file *file, uint32_t cpu, uint64_t seq, const uint64_t *n)
{
	begin_batch(file, cpu, seq);
	for (; *n; n++)
		put_event(file, CALL, 0, *n);
	end_batch(file);
}

static struct recording *open_it(const struct file *file)
{
	struct recording *recording;
	struct error error;

	if (recording_open(file->path, &recording, &error))
		fail_msg("%s", error.what);
	return recording;
}

static void events_of_all_cpus_come_in_the_order_of_their_times(void **state)
{
	struct recording *recording;
	struct recording_item item;
	struct error error;
	struct file file;

	(void)state;
	open_recording(&file);
	put_batch(&file, 0, 0, (const uint64_t[]){5, 9, 0});
	put_batch(&file, 1, 0, (const uint64_t[]){1, 2, 8, 0});
	put_batch(&file, 2, 0, (const uint64_t[]){3, 10, 0});
	put_batch(&file, 2, 2, (const uint64_t[]){11, 12, 0});
	put_batch(&file, 1, 3, (const uint64_t[]){13, 0});
	put_batch(&file, 3, 0, (const uint64_t[]){4, 6, 7, 0});
	recording = open_it(&file);
	assert_int_equal(recording_streams(recording), 4);
	assert_int_equal(recording_first_ns(recording), RECORDED_NS + STEP_NS);
	for (uint64_t n = 1; n <= 13; n++) {
		assert_int_equal(recording_next(recording, &item, &error), RECORDING_EVENT);
		assert_int_equal(item.batch->event.time_ns, RECORDED_NS + n * STEP_NS);
		assert_int_equal(item.batch->event.field[0], n);
	}
	assert_int_equal(recording_next(recording, &item, &error), RECORDING_END);
	assert_int_equal(recording_next(recording, &item, &error), RECORDING_END);
	recording_close(recording);
	remove_file(&file);
}

/* What could not be read once is not gone on with, though the file is whole again. */
static void a_file_that_changes_is_over(void **state)
{
	uint8_t there, other;
	struct recording *recording;
	struct recording_item item;
	struct error error;
	struct file file;
	uint64_t second;

	(void)state;
	open_recording(&file);
	put_batch(&file, 0, 0, (const uint64_t[]){1, 0});
	second = file.bytes;
	put_batch(&file, 0, 1, (const uint64_t[]){2, 0});
	put_batch(&file, 0, 2, (const uint64_t[]){3, 0});
	recording = open_it(&file);
	assert_int_equal(pread(file.fd, &there, 1, (off_t)second + FRAME_HEADER_BYTES), 1);
	other = there ^ 1;
	assert_int_equal(pwrite(file.fd, &other, 1, (off_t)second + FRAME_HEADER_BYTES), 1);
	assert_int_equal(recording_next(recording, &item, &error), RECORDING_EVENT);
	assert_int_equal(recording_next(recording, &item, &error), RECORDING_FAILED);
	assert_string_equal(error.code, "recording-corrupt");
	assert_int_equal(pwrite(file.fd, &there, 1, (off_t)second + FRAME_HEADER_BYTES), 1);
	assert_int_equal(recording_next(recording, &item, &error), RECORDING_FAILED);
	recording_close(recording);
	remove_file(&file);
}

static void an_interrupted_read_is_made_again(void **state)
{
	struct file file;

	(void)state;
	open_recording(&file);
	put_batch(&file, 0, 0, (const uint64_t[]){1, 0});
	interrupt_next = true;
	recording_close(open_it(&file));
	assert_false(interrupt_next);
	remove_file(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_of_all_cpus_come_in_the_order_of_their_times),
		cmocka_unit_test(a_file_that_changes_is_over),
		cmocka_unit_test(an_interrupted_read_is_made_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
