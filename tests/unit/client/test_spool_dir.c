/*
 * test_spool_dir: a spool's segments as one stream: what is good of each comes, and of what is not it
 * is said where that begins; a spool that has nothing yet is no error, nor is one that goes on.
 */
#include "tests/unit/client/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/cli/spool_dir.h"
#include "client/lib/limits.h"
#include "proto/segment.h"
#include "tests/unit/client/maker.h"

static char dir[64];
static struct maker maker;
static FILE *messages;
static char said[4096];

/* What happens before a file of that number is opened; NULL: nothing does. */
static void (*before_open)(uint64_t sequence);

int __real_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...);

int __wrap_openat(int directory, const char *path, int flags, ...)
{
	enum segment_state segment_is;
	uint64_t sequence;

	if (before_open && segment_name_parse(path, &sequence, &segment_is))
		before_open(sequence);
	return __real_openat(directory, path, flags);
}

static int setup(void **state)
{
	before_open = NULL;
	(void)state;
	strcpy(dir, "/tmp/ringtail-spool-dir-XXXXXX");
	assert_non_null(mkdtemp(dir));
	maker_init(&maker);
	messages = tmpfile();
	assert_non_null(messages);
	return 0;
}

static int teardown(void **state)
{
	DIR *stream = opendir(dir);
	struct dirent *entry;

	(void)state;
	while ((entry = readdir(stream)))
		unlinkat(dirfd(stream), entry->d_name, 0);
	closedir(stream);
	rmdir(dir);
	maker_fini(&maker);
	fclose(messages);
	return 0;
}

static void save(uint64_t sequence, enum segment_state state, size_t bytes)
{
	char name[SEGMENT_NAME_BYTES], path[128];
	int fd;

	segment_name_format(name, sequence, state);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, maker.bytes, bytes), bytes);
	close(fd);
}

/* A segment's frames but its end. */
static void make_frames(uint64_t sequence)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;

	maker.size = 0;
	head.sequence = sequence;
	maker_message(&maker, FRAME_SEGMENT_HEAD, &head.base);
	maker_hello(&maker, 1, 7);
	maker_start(&maker);
	maker_batch(&maker, 0, sequence * 10, 1000 * sequence, 10, 20);
}

static Ringtail__V1__SegmentEnd good_end(uint64_t sequence)
{
	Ringtail__V1__SegmentEnd end = RINGTAIL__V1__SEGMENT_END__INIT;

	end.sequence = sequence;
	end.bytes = maker.size;
	end.crc32c = frame_crc32c(0, maker.bytes, maker.size);
	return end;
}

static void make_segment(uint64_t sequence)
{
	Ringtail__V1__SegmentEnd end;

	make_frames(sequence);
	end = good_end(sequence);
	maker_message(&maker, FRAME_SEGMENT_END, &end.base);
}

static struct spool_dir *open_dir(int *fd)
{
	struct ringtail_error error;
	struct spool_dir *spool;

	rewind(messages);
	assert_int_equal(ftruncate(fileno(messages), 0), 0);
	assert_int_equal(spool_dir_open(dir, messages, &spool, fd, &error), 0);
	return spool;
}

/* Bytes before the Bye with which all that is there ends, whatever became of its segments. */
static size_t before_bye(const uint8_t *frames, size_t bytes)
{
	struct frame_header header = { 0 };
	size_t at = 0, last = 0;

	while (at < bytes) {
		assert_int_equal(frame_parse_header(frames + at, bytes - at, FRAME_RAW_BYTES_MAX,
						    &header), FRAME_OK);
		last = at;
		at += FRAME_HEADER_BYTES + header.body_bytes;
	}
	assert_int_equal(at, bytes);
	assert_int_equal(header.type, FRAME_BYE);
	return last;
}

/* How many bytes come, but for the Bye at their end; what is said on the way is in said[]. */
static size_t read_rest(struct spool_dir *spool, int fd, bool *good)
{
	static uint8_t come[8 << 20];
	size_t bytes = 0, n;
	ssize_t got;

	while ((got = read(fd, come + bytes, sizeof(come) - bytes)) > 0)
		bytes += (size_t)got;
	assert_int_equal(got, 0);
	bytes = before_bye(come, bytes);
	close(fd);
	*good = spool_dir_close(spool);
	rewind(messages);
	n = fread(said, 1, sizeof(said) - 1, messages);
	said[n] = '\0';
	return bytes;
}

static size_t read_dir(bool *good)
{
	int fd;
	struct spool_dir *spool = open_dir(&fd);

	return read_rest(spool, fd, good);
}

static void check_damaged_at(uint64_t sequence, enum segment_state state, size_t offset,
			     const char *why)
{
	char name[SEGMENT_NAME_BYTES], line[256];

	segment_name_format(name, sequence, state);
	snprintf(line, sizeof(line), "%s is damaged at byte %zu: %s", name, offset, why);
	if (!strstr(said, line))
		fail_msg("'%s' is not in: %s", line, said);
}

static void whole(void **state)
{
	size_t bytes = 0;
	bool good;

	(void)state;
	for (uint64_t i = 1; i <= 3; i++) {
		make_segment(i);
		save(i, SEGMENT_SEALED, maker.size);
		bytes += maker.size;
	}
	/* One that is being written has no end yet, and may stop inside a frame. */
	make_frames(4);
	save(4, SEGMENT_OPEN, maker.size);
	assert_int_equal(read_dir(&good), bytes + maker.size);
	assert_true(good);
	assert_string_equal(said, "");
	make_frames(4);
	save(4, SEGMENT_OPEN, maker.size - 1);
	assert_true(read_dir(&good) < bytes + maker.size - 1);
	assert_true(good);
	/* It has its end, and was not renamed. */
	make_segment(4);
	save(4, SEGMENT_OPEN, maker.size);
	assert_int_equal(read_dir(&good), bytes + maker.size);
	assert_true(good);
}

/* Each frame is good, and the end says that they are not those that were written. */
static void end_speaks_of_other_bytes(void **state)
{
	static const struct {
		uint32_t crc32c, sequence, bytes;	/* added to what is right */
	} wrong[] = {{1, 0, 0}, {0x80000000, 0, 0}, {0, 1, 0}, {0, 0, 1}};
	bool good;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		Ringtail__V1__SegmentEnd end;
		size_t first, before;

		make_frames(1);
		before = maker.size;
		end = good_end(1);
		end.crc32c ^= wrong[i].crc32c;
		end.sequence += wrong[i].sequence;
		end.bytes += wrong[i].bytes;
		maker_message(&maker, FRAME_SEGMENT_END, &end.base);
		first = maker.size;
		save(1, SEGMENT_SEALED, first);
		make_segment(2);
		save(2, SEGMENT_SEALED, maker.size);
		/* What is before it comes all the same, and so do the others. */
		assert_int_equal(read_dir(&good), before + maker.size);
		assert_false(good);
		check_damaged_at(1, SEGMENT_SEALED, before,
				 "its end speaks of another segment, or of other bytes");
	}
	/* Nor is it an end that nobody can read. */
	make_frames(1);
	maker_raw(&maker, FRAME_SEGMENT_END, (const uint8_t *)"\xff\xff\xff", 3);
	save(1, SEGMENT_SEALED, maker.size);
	read_dir(&good);
	assert_false(good);
}

static void has_no_end(void **state)
{
	size_t before;
	bool good;

	(void)state;
	make_frames(1);
	before = maker.size;
	save(1, SEGMENT_SEALED, before);
	assert_int_equal(read_dir(&good), before);
	assert_false(good);
	check_damaged_at(1, SEGMENT_SEALED, before, "it has no end");
	make_segment(1);
	save(1, SEGMENT_SEALED, maker.size - 1);
	assert_int_equal(read_dir(&good), before);
	check_damaged_at(1, SEGMENT_SEALED, before, "it is cut short");
	maker.bytes[before - 1] ^= 1;
	save(1, SEGMENT_SEALED, maker.size);
	assert_true(read_dir(&good) < before);
	assert_false(good);
	assert_non_null(strstr(said, "is damaged at byte"));
}

static void set_aside(void **state)
{
	bool good;

	(void)state;
	make_segment(1);
	save(1, SEGMENT_BAD, maker.size);
	assert_int_equal(read_dir(&good), maker.size);
	assert_false(good);
	assert_non_null(strstr(said, "was set aside"));
}

/* ---- A daemon goes on writing it ------------------------------------------------------------- */

/* More than a socket holds: what comes after it is opened only when somebody reads. */
static size_t save_large(uint64_t sequence)
{
	static uint8_t noise[FRAME_RAW_BYTES_MAX];
	Ringtail__V1__SegmentEnd end;

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)rand();
	make_frames(sequence);
	maker_raw(&maker, FRAME_BATCH, noise, sizeof(noise));
	end = good_end(sequence);
	maker_message(&maker, FRAME_SEGMENT_END, &end.base);
	save(sequence, SEGMENT_SEALED, maker.size);
	return maker.size;
}

static size_t save_small(uint64_t sequence, enum segment_state state)
{
	make_segment(sequence);
	save(sequence, state, maker.size);
	return maker.size;
}

static void rename_segment(uint64_t sequence, enum segment_state from, enum segment_state to)
{
	char old[SEGMENT_NAME_BYTES], new[SEGMENT_NAME_BYTES];
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	segment_name_format(old, sequence, from);
	segment_name_format(new, sequence, to);
	assert_int_equal(renameat(fd, old, fd, new), 0);
	close(fd);
}

static void delete_segment(uint64_t sequence)
{
	char name[SEGMENT_NAME_BYTES];
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	segment_name_format(name, sequence, SEGMENT_SEALED);
	assert_int_equal(unlinkat(fd, name, 0), 0);
	close(fd);
}

/* What stands for segments that are gone. */
static size_t gone_bytes(void)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;

	maker.size = 0;
	maker_message(&maker, FRAME_SEGMENT_HEAD, &head.base);
	return maker.size;
}

static void sealed_meanwhile(void **state)
{
	size_t bytes = save_large(1) + save_small(2, SEGMENT_OPEN);
	struct spool_dir *spool;
	bool good;
	int fd;

	(void)state;
	spool = open_dir(&fd);
	rename_segment(2, SEGMENT_OPEN, SEGMENT_SEALED);
	assert_int_equal(read_rest(spool, fd, &good), bytes);
	assert_true(good);
	assert_string_equal(said, "");
	/* Met under both names, or under neither, while the directory was read. */
	save_small(2, SEGMENT_OPEN);
	assert_int_equal(read_dir(&good), bytes);
	assert_true(good);
	rename_segment(2, SEGMENT_OPEN, SEGMENT_BAD);
	delete_segment(2);
	bytes += save_small(3, SEGMENT_SEALED);
	assert_int_equal(read_dir(&good), bytes);
	assert_false(good);
}

static void deleted_meanwhile(void **state)
{
	size_t bytes = save_large(1);
	struct spool_dir *spool;
	bool good;
	int fd;

	(void)state;
	save_small(2, SEGMENT_SEALED);
	save_small(3, SEGMENT_SEALED);
	spool = open_dir(&fd);
	/* All there was, and 5 and 6 are new: of them one is enough to tell what is missing. */
	delete_segment(1);
	delete_segment(2);
	delete_segment(3);
	bytes += save_small(5, SEGMENT_SEALED);
	save_small(6, SEGMENT_SEALED);
	bytes += gone_bytes();
	assert_int_equal(read_rest(spool, fd, &good), bytes);
	assert_true(good);
	assert_string_equal(said, "");
}

static void deleted_and_nothing_after(void **state)
{
	size_t bytes = save_large(1);
	struct spool_dir *spool;
	bool good;
	int fd;

	(void)state;
	save_small(2, SEGMENT_SEALED);
	spool = open_dir(&fd);
	delete_segment(2);
	assert_int_equal(read_rest(spool, fd, &good), bytes + gone_bytes());
	assert_false(good);
	assert_non_null(strstr(said, "deleted faster than they can be read"));
	/* Not one is left. */
	save_small(2, SEGMENT_SEALED);
	spool = open_dir(&fd);
	delete_segment(1);
	delete_segment(2);
	assert_int_equal(read_rest(spool, fd, &good), bytes);
	assert_false(good);
	assert_non_null(strstr(said, "deleted faster than they can be read"));
}

static void delete_the_first(uint64_t sequence)
{
	char path[128], name[SEGMENT_NAME_BYTES];

	if (sequence != 1)
		return;
	segment_name_format(name, 1, SEGMENT_SEALED);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* It begins with the next one then, as if the first had gone before: nothing that was there before is missed. */
static void deleted_before_anything_came(void **state)
{
	size_t bytes;
	bool good;

	(void)state;
	save_small(1, SEGMENT_SEALED);
	bytes = save_small(2, SEGMENT_SEALED);
	before_open = delete_the_first;
	assert_int_equal(read_dir(&good), bytes);
	assert_true(good);
	assert_string_equal(said, "");
}

static unsigned chased;

/* Whichever it would read has gone, and the next has come. */
static void run_ahead(uint64_t sequence)
{
	char path[128], name[SEGMENT_NAME_BYTES];

	if (sequence < 2)
		return;
	segment_name_format(name, sequence, SEGMENT_SEALED);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (unlink(path) == 0) {
		chased++;
		save(sequence + 1, SEGMENT_SEALED, maker.size);
	}
}

static void deleted_as_fast_as_they_are_listed(void **state)
{
	bool good;

	(void)state;
	save_small(1, SEGMENT_SEALED);
	save_small(2, SEGMENT_SEALED);
	chased = 0;
	before_open = run_ahead;
	read_dir(&good);
	assert_false(good);
	assert_non_null(strstr(said, "deleted faster than they can be read"));
	assert_int_equal(chased, SPOOL_LISTS_MAX + 1);
}

static int try_open(struct ringtail_error *error)
{
	struct spool_dir *spool;
	int fd;

	return spool_dir_open(dir, messages, &spool, &fd, error);
}

static void nothing_yet(void **state)
{
	struct ringtail_error error;

	(void)state;
	assert_int_equal(try_open(&error), -ENOENT);
	assert_non_null(strstr(error.what, "no segments"));
	/* As it is for a moment when the first frame is written: empty, or a part of a head. */
	save(1, SEGMENT_OPEN, 0);
	assert_int_equal(try_open(&error), -ENODATA);
	assert_non_null(strstr(error.what, "nothing is stored in"));
	make_frames(1);
	save(1, SEGMENT_OPEN, 10);
	assert_int_equal(try_open(&error), -ENODATA);
	/* What is sealed is never empty, and no head begins like that. */
	save(2, SEGMENT_SEALED, 0);
	assert_int_equal(try_open(&error), -EBADMSG);
	assert_string_equal(error.code, "no-frames");
	teardown(NULL);
	setup(NULL);
	make_frames(1);
	maker.bytes[0] ^= 1;
	save(1, SEGMENT_OPEN, maker.size);
	assert_int_equal(try_open(&error), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whole, setup, teardown),
		cmocka_unit_test_setup_teardown(end_speaks_of_other_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(has_no_end, setup, teardown),
		cmocka_unit_test_setup_teardown(set_aside, setup, teardown),
		cmocka_unit_test_setup_teardown(sealed_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(deleted_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(deleted_and_nothing_after, setup, teardown),
		cmocka_unit_test_setup_teardown(deleted_before_anything_came, setup, teardown),
		cmocka_unit_test_setup_teardown(deleted_as_fast_as_they_are_listed, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_yet, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
