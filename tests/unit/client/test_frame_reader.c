/* test_frame_reader: frames in pieces, cut off, and what are none. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>

#include "client/lib/frame_reader.h"
#include "tests/unit/client/maker.h"

/* Reads as conn does. */
static enum frame_read take(struct frame_reader *reader, struct frame *frame)
{
	for (;;) {
		enum frame_read read = frame_reader_next(reader, frame);

		if (read != FRAME_READ_MORE)
			return read;
		read = frame_reader_fill(reader);
		if (read != FRAME_READ_MORE)
			return read;
	}
}

static void in_pieces(void **state)
{
	struct frame_reader *reader;
	struct frame frame;
	struct maker maker;
	uint64_t offset = 0;
	unsigned frames = 0;
	int ends[2];

	(void)state;
	maker_init(&maker);
	maker_start(&maker);
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	reader = frame_reader_create(ends[0], FRAME_RAW_BYTES_MAX);
	for (size_t i = 0; i < maker.size; i++) {
		assert_int_equal(frame_reader_fill(reader), FRAME_READ_MORE);	/* nothing came */
		assert_int_equal(write(ends[1], maker.bytes + i, 1), 1);
		assert_int_equal(frame_reader_fill(reader), FRAME_READ_MORE);
		if (frame_reader_next(reader, &frame) != FRAME_READ_FRAME)
			continue;
		assert_int_equal(frame.offset, offset);
		offset += frame.size;
		assert_int_equal(offset, i + 1);
		frames++;
	}
	assert_int_equal(frames, 4);
	close(ends[1]);
	assert_int_equal(frame_reader_fill(reader), FRAME_READ_END);
	frame_reader_destroy(reader);
	close(ends[0]);
	maker_fini(&maker);
}

/* Cut at every byte: whole frames come, then the end or a truncation, at the right place. */
static void cut_anywhere(void **state)
{
	size_t boundary[16] = { 0 };
	struct maker maker;
	unsigned frames = 0;

	(void)state;
	maker_init(&maker);
	maker_start(&maker);
	maker_batch(&maker, 0, 0, 1000, 10, 5);
	for (size_t cut = 0; cut <= maker.size; cut++) {
		int fd = maker_file(&maker, cut);
		struct frame_reader *reader = frame_reader_create(fd, FRAME_RAW_BYTES_MAX);
		struct frame frame;
		enum frame_read how;
		unsigned whole = 0;

		while ((how = take(reader, &frame)) == FRAME_READ_FRAME)
			whole++;
		if (how == FRAME_READ_END) {
			boundary[frames++] = cut;
			assert_int_equal(whole, frames - 1);
		} else {
			assert_int_equal(how, FRAME_READ_TRUNCATED);
			assert_int_equal(whole, frames - 1);
		}
		assert_int_equal(frame_reader_offset(reader), boundary[frames - 1]);
		frame_reader_destroy(reader);
		close(fd);
	}
	assert_int_equal(frames, 5);
	maker_fini(&maker);
}

/* Each byte of a header turned: never a crash, and what is refused stays refused. */
static void garbage(void **state)
{
	struct maker maker;

	(void)state;
	maker_init(&maker);
	maker_hello(&maker, 1, 7);
	for (unsigned byte = 0; byte < FRAME_HEADER_BYTES; byte++) {
		for (unsigned turn = 1; turn < 256; turn <<= 1) {
			struct frame_reader *reader;
			struct frame frame;
			enum frame_read how;
			int fd;

			maker.bytes[byte] ^= (uint8_t)turn;
			fd = maker_file(&maker, maker.size);
			reader = frame_reader_create(fd, FRAME_RAW_BYTES_MAX);
			how = take(reader, &frame);
			if (how == FRAME_READ_BAD) {
				assert_int_not_equal(frame_reader_status(reader), FRAME_OK);
				assert_int_equal(frame_reader_next(reader, &frame), FRAME_READ_BAD);
			}
			frame_reader_destroy(reader);
			close(fd);
			maker.bytes[byte] ^= (uint8_t)turn;
		}
	}
	maker_fini(&maker);
}

static void larger_than_the_buffer(void **state)
{
	static uint8_t noise[900 << 10];
	struct frame_reader *reader;
	struct frame frame;
	struct maker maker;
	int fd;

	(void)state;
	srandom(1);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)random();
	maker_init(&maker);
	maker_hello(&maker, 1, 7);
	maker_raw(&maker, FRAME_BATCH, noise, sizeof(noise));
	maker_hello(&maker, 1, 7);
	fd = maker_file(&maker, maker.size);
	reader = frame_reader_create(fd, FRAME_RAW_BYTES_MAX);
	assert_int_equal(take(reader, &frame), FRAME_READ_FRAME);
	assert_int_equal(take(reader, &frame), FRAME_READ_FRAME);
	assert_true(frame.size > 800 << 10);
	assert_int_equal(take(reader, &frame), FRAME_READ_FRAME);
	assert_int_equal(take(reader, &frame), FRAME_READ_END);
	frame_reader_destroy(reader);
	close(fd);
	/* The same under a smaller bound is refused before it is read. */
	fd = maker_file(&maker, maker.size);
	reader = frame_reader_create(fd, REQUEST_RAW_BYTES_MAX);
	assert_int_equal(take(reader, &frame), FRAME_READ_FRAME);
	assert_int_equal(take(reader, &frame), FRAME_READ_BAD);
	assert_int_equal(frame_reader_status(reader), FRAME_TOO_LARGE);
	frame_reader_destroy(reader);
	close(fd);
	maker_fini(&maker);
}

static void read_fails(void **state)
{
	struct frame_reader *reader = frame_reader_create(-1, FRAME_RAW_BYTES_MAX);

	(void)state;
	assert_int_equal(frame_reader_fill(reader), FRAME_READ_FAILED);
	assert_int_equal(errno, EBADF);
	frame_reader_destroy(reader);
	frame_reader_destroy(NULL);
}

static ssize_t fail_with(void *context, void *bytes, size_t n)
{
	(void)bytes, (void)n;
	errno = *(int *)context;
	return -1;
}

static void what_is_only_not_there_yet(void **state)
{
	static const struct {
		int err;
		enum frame_read read;
	} row[] = {{EINTR, FRAME_READ_MORE}, {EAGAIN, FRAME_READ_MORE}, {EIO, FRAME_READ_FAILED}};
	struct frame_reader *reader = frame_reader_create(-1, FRAME_RAW_BYTES_MAX);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		int err = row[i].err;

		frame_reader_set_source(reader, fail_with, &err);
		assert_int_equal(frame_reader_fill(reader), row[i].read);
	}
	frame_reader_destroy(reader);
}

static void kinds(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *name;
	} cases[] = {
		{"", 0, "an empty file"},
		{"\x1f\x8b\x08", 3, "gzip"},
		{"\x7f"
		 "ELF",
		 4, "ELF"},
		{"PERFILE2xxx", 11, "perf"},
		{"\x17\x08\x44tracing6", 11, "trace-cmd"},
		{"\xc1\x1f\xfc\xc1", 4, "CTF"},
		{"hello\n", 6, "text"},
		{"\0\0\0", 3, "zeros"},
		{"\1\2\3\377", 4, "unknown"},
		{"{\"a\":1}", 7, "JSON"},
		{"HTTP/1.1 200", 12, "HTTP"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_non_null(strstr(file_kind_name((const uint8_t *)cases[i].bytes, cases[i].n),
				       cases[i].name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_pieces),  cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(garbage),    cmocka_unit_test(larger_than_the_buffer),
		cmocka_unit_test(read_fails), cmocka_unit_test(what_is_only_not_there_yet),
		cmocka_unit_test(kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
