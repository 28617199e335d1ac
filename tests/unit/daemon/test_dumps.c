/*
 * The list of dumps and their files: what a directory's files are at a start, in which order, and whose they are;
 * and the bounds, beyond which the oldest goes that is not being written. The disk is in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/trigger/dumps.h"
#include "tests/lib/faulty_disk.h"

#define FIRED_NS (1795403700ull * NS_PER_S)	/* 2026-11-23 03:15:00 */

static struct faulty_disk faulty;
static struct event_base *base;
static struct disk_thread *thread;
static struct frame_codec *codec;
static struct dumps *dumps;
static char said[256];			/* codes of what was logged */
static unsigned probes;			/* of a dump that is put there */

static void note(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)text;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s ", code);
}

static int setup(void **state)
{
	static const struct log_sink sink = {.write = note, .now_ns = clock_monotonic};
	struct error error;

	(void)state;
	log_set_sink(&sink);
	faulty_disk_init(&faulty, 1);
	base = event_base_new();
	codec = frame_codec_create(1);
	assert_int_equal(disk_thread_create(base, &faulty.disk, false, &thread, &error), 0);
	said[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dumps_destroy(dumps);
	dumps = NULL;
	disk_thread_destroy(thread);
	frame_codec_destroy(codec);
	event_base_free(base);
	for (unsigned i = 0; i < FAULTY_HANDLES_MAX; i++)
		assert_false(faulty.handle[i].used);
	faulty_disk_fini(&faulty);
	log_set_sink(NULL);
	return 0;
}

static void open_dumps(uint64_t bytes_max, uint64_t count_max)
{
	struct error error;

	if (dumps_create(thread, bytes_max, count_max, &dumps, &error))
		fail_msg("%s", error.what);
}

static void put_file(const char *name, const void *bytes, size_t n)
{
	char path[128];
	int file;

	snprintf(path, sizeof(path), "dumps/%s", name);
	file = faulty.disk.ops->open(&faulty.disk, path, O_WRONLY | O_CREAT | O_TRUNC);
	assert_true(file >= 0);
	assert_int_equal(faulty.disk.ops->write(&faulty.disk, file, bytes, n), n);
	faulty.disk.ops->close(&faulty.disk, file);
}

static bool there(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "dumps/%s", name);
	return faulty_find(&faulty.names, path) != NULL;
}

/* A dump's last frame, which says that it stands there. */
static struct frame_ref *pack_end(uint64_t at)
{
	Ringtail__V1__Dump dump = RINGTAIL__V1__DUMP__INIT;
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	char *probe[2 * DUMP_PROBES_SHOWN];

	dump.id = dump.rule = (char *)"rule";
	dump.trigger = dump.filter = dump.why = (char *)"";
	dump.state = (char *)"whole";
	dump.bytes = at;
	dump.events = 77;
	for (unsigned i = 0; i < probes; i++)
		probe[i] = (char *)"kill";
	dump.probe = probe;
	dump.n_probe = probes;
	bye.reason = (char *)"";
	bye.dump = &dump;
	return frame_ref_pack(codec, FRAME_BYE, &bye.base);
}

/* So many bytes of what is in a dump, and its end. */
static void put_whole(const char *name, size_t before, uint64_t says)
{
	struct frame_ref *end = pack_end(says);
	uint8_t *bytes = calloc(1, before + end->bytes);

	memcpy(bytes + before, end->data, end->bytes);
	put_file(name, bytes, before + end->bytes);
	free(bytes);
	frame_ref_put(end);
}

/* What is told of them; of one of them and a part of its file, if it is given. To be freed. */
static Ringtail__V1__Dumps *tell(const struct dump_entry *part, const char *data)
{
	struct frame_ref *frame = dumps_pack(dumps, codec, part, (const uint8_t *)data, data ? strlen(data) : 0);
	struct frame_header header;
	uint8_t raw[4096];
	const uint8_t *body;
	Ringtail__V1__Dumps *message;

	assert_non_null(frame);
	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(frame_open(codec, frame->data, &header, raw, &body), FRAME_OK);
	message = ringtail__v1__dumps__unpack(NULL, header.raw_bytes, body);
	assert_non_null(message);
	frame_ref_put(frame);
	return message;
}

/* "ID state bytes, ..." of all that are listed; in order. */
static const char *listed(void)
{
	static char text[1024];
	Ringtail__V1__Dumps *message = tell(NULL, NULL);

	text[0] = '\0';
	assert_int_equal(message->bytes_max, dumps_bytes_max(dumps));
	for (size_t i = 0; i < message->n_dump; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s %llu", i ? ", " : "",
			 message->dump[i]->id, message->dump[i]->state,
			 (unsigned long long)message->dump[i]->bytes);
	ringtail__v1__dumps__free_unpacked(message, NULL);
	return text;
}

/* With a part of a file comes which dump it is of, and no other; of its probes so many are told. */
static void one_is_told_of_with_a_part_of_its_file(void **state)
{
	Ringtail__V1__Dumps *message;

	(void)state;
	probes = 2 * DUMP_PROBES_SHOWN;
	put_whole("2026-a.rt", 10, 10);
	probes = 1;
	put_whole("2026-b.rt", 10, 10);
	probes = 0;
	open_dumps(1 << 20, 4);
	message = tell(dumps_find(dumps, "2026-a"), "a part");
	assert_int_equal(message->n_dump, 1);
	assert_string_equal(message->dump[0]->id, "2026-a");
	assert_int_equal(message->dump[0]->n_probe, DUMP_PROBES_SHOWN);
	assert_int_equal(message->data.len, 6);
	ringtail__v1__dumps__free_unpacked(message, NULL);
	message = tell(dumps_find(dumps, "2026-b"), "");
	assert_int_equal(message->n_dump, 1);
	assert_string_equal(message->dump[0]->id, "2026-b");
	assert_int_equal(message->dump[0]->n_probe, 1);
	ringtail__v1__dumps__free_unpacked(message, NULL);
}

static void what_is_there_is_listed_by_its_time(void **state)
{
	char text[256];
	size_t end;
	struct frame_ref *frame = pack_end(5000);

	(void)state;
	end = frame->bytes;
	frame_ref_put(frame);
	frame = pack_end(DUMP_END_BYTES_MAX + 9);
	put_whole("2026-c.rt", 5000, 5000);
	put_whole("2026-a.rt", DUMP_END_BYTES_MAX + 9, DUMP_END_BYTES_MAX + 9);
	put_file("2026-d.part", "12345", 5);
	put_whole("2026-e.part", 10, 10);
	open_dumps(1 << 20, 8);
	snprintf(text, sizeof(text), "2026-a whole %zu, 2026-c whole %zu, 2026-d cut 5, 2026-e cut %zu",
		 DUMP_END_BYTES_MAX + 9 + frame->bytes, 5000 + end, 10 + end - 1);
	assert_string_equal(listed(), text);
	assert_int_equal(dumps_find(dumps, "2026-a")->bye->dump->events, 77);
	assert_null(dumps_find(dumps, "2026-d")->bye);
	assert_null(dumps_find(dumps, "2026"));
	assert_string_equal(said, "dump-cut dump-cut ");
	frame_ref_put(frame);
}

/* It is called whole: but its end is none, is another's, is not where it says, or is not the last that is there. */
static void what_has_no_end_of_its_own_is_damaged(void **state)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	struct frame_ref *end = pack_end(0), *other;
	uint8_t damaged[4096];

	(void)state;
	bye.reason = (char *)"";
	other = frame_ref_pack(codec, FRAME_BYE, &bye.base);
	put_file("2026-a.rt", "not a dump", 10);
	put_file("2026-b.rt", other->data, other->bytes);
	put_whole("2026-c.rt", 100, 99);
	memcpy(damaged, end->data, end->bytes);
	damaged[end->bytes - 1] ^= 1;
	put_file("2026-d.rt", damaged, end->bytes);
	put_file("2026-e.rt", end->data, end->bytes - 1);
	put_file("2026-f.rt", "", 0);
	open_dumps(1 << 20, 8);
	for (const char *id = "abcdef"; *id; id++) {
		char name[16];

		snprintf(name, sizeof(name), "2026-%c", *id);
		if (dumps_find(dumps, name)->state != DUMP_DAMAGED)
			fail_msg("%s", name);
	}
	assert_string_equal(said, "dump-cut dump-cut dump-cut dump-cut dump-cut dump-cut ");
	frame_ref_put(end);
	frame_ref_put(other);
}

static void files_of_others_are_left_alone(void **state)
{
	static const char *const name[] = {
		"notes.txt", ".rt", ".part", "a b.rt", "a\n.rt", "x.rt.part", "2026.rtx", "a%.part",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.rt",
	};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		put_file(name[i], "theirs", 6);
	open_dumps(1, 1);
	disk_thread_settle(thread);
	assert_int_equal(dumps_count(dumps, &bytes), 0);
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		assert_true(there(name[i]));
}

/* No more than can be listed. */
static void as_many_as_there_can_be(void **state)
{
	char name[32];
	uint64_t bytes;

	(void)state;
	for (unsigned i = 0; i <= DUMPS_MAX; i++) {
		snprintf(name, sizeof(name), "2026-%03u.part", i);
		put_file(name, "x", 1);
	}
	open_dumps(1 << 20, DUMPS_MAX + 1);
	assert_int_equal(dumps_count(dumps, &bytes), DUMPS_MAX);
	assert_int_equal(bytes, DUMPS_MAX);
}

/* Of five files of ten bytes each, those that stay. */
static void expect_left(const char *letters)
{
	char name[16];

	disk_thread_settle(thread);
	for (const char *letter = "abcde"; *letter; letter++) {
		snprintf(name, sizeof(name), "2026-%c.part", *letter);
		if (there(name) != (strchr(letters, *letter) != NULL))
			fail_msg("%s of %s", name, letters);
	}
}

static void beyond_the_bounds_the_oldest_goes(void **state)
{
	uint64_t deleted = counter_read(COUNTER_dumps_deleted), bytes;

	(void)state;
	for (const char *name = "cbaed"; *name; name++) {
		char file[16];

		snprintf(file, sizeof(file), "2026-%c.part", *name);
		put_file(file, "0123456789", 10);
	}
	open_dumps(50, 5);
	expect_left("abcde");
	dumps_set_bounds(dumps, 50, 4);
	expect_left("bcde");
	dumps_set_bounds(dumps, 40, 5);
	expect_left("bcde");
	dumps_set_bounds(dumps, 39, 5);
	expect_left("cde");
	dumps_remove(dumps, dumps_find(dumps, "2026-d"));
	expect_left("ce");
	assert_int_equal(dumps_count(dumps, &bytes), 2);
	assert_int_equal(bytes, 20);
	dumps_destroy(dumps);
	open_dumps(10, 5);				/* at a start, too */
	expect_left("e");
	assert_int_equal(counter_read(COUNTER_dumps_deleted) - deleted, 3);
}

static void finish(struct dump_entry *entry)
{
	struct frame_ref *end = pack_end(0);

	dumps_end(dumps, entry, end);
	frame_ref_put(end);
}

/* Of those that are being written none goes, however old it is; what they grow by, others make room for. */
static void one_that_is_being_written_stays(void **state)
{
	struct dump_entry *old, *new;
	uint64_t bytes;

	(void)state;
	put_file("2026-a.part", "0123456789", 10);
	put_file("2026-b.part", "0123456789", 10);
	open_dumps(30, 3);
	old = dumps_begin(dumps, "x", 0);		/* of 1970 */
	assert_string_equal(old->id, "19700101T000000Z-x");
	assert_int_equal(old->state, DUMP_WRITING);
	dumps_grow(dumps, old, 10);
	expect_left("ab");
	dumps_grow(dumps, old, 11);
	expect_left("b");
	new = dumps_begin(dumps, "slow", FIRED_NS);
	expect_left("b");
	assert_string_equal(new->id, "20261123T031500Z-slow");
	assert_string_equal(dumps_begin(dumps, "slow", FIRED_NS)->id, "20261123T031500Z-slow-2");
	expect_left("");
	assert_string_equal(listed(), "19700101T000000Z-x writing 11, 20261123T031500Z-slow writing 0, "
			    "20261123T031500Z-slow-2 writing 0");
	dumps_grow(dumps, new, 100);
	assert_int_equal(dumps_count(dumps, &bytes), 3);
	assert_int_equal(bytes, 111);
	finish(new);					/* it is beyond the bound by itself */
	assert_string_equal(listed(), "19700101T000000Z-x writing 11, 20261123T031500Z-slow-2 writing 0");
	finish(old);
	assert_string_equal(listed(), "19700101T000000Z-x whole 11, 20261123T031500Z-slow-2 writing 0");
	dumps_end(dumps, dumps_find(dumps, "20261123T031500Z-slow-2"), NULL);
	assert_string_equal(listed(), "19700101T000000Z-x whole 11");
}

static void one_whose_end_is_none_is_damaged(void **state)
{
	struct frame_ref *none = frame_ref_create(FRAME_BYE, 64);
	struct dump_entry *entry;

	(void)state;
	memset(none->data, 0, 64);
	open_dumps(1 << 20, 3);
	entry = dumps_begin(dumps, "x", FIRED_NS);
	dumps_end(dumps, entry, none);
	assert_string_equal(listed(), "20261123T031500Z-x damaged 0");
	frame_ref_put(none);
}

static void a_file_that_cannot_be_deleted_is_told_of(void **state)
{
	(void)state;
	put_file("2026-a.part", "0123456789", 10);
	open_dumps(100, 3);
	said[0] = '\0';
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EROFS;
	dumps_set_bounds(dumps, 9, 3);
	disk_thread_settle(thread);
	assert_string_equal(said, "dump-deleted dump-kept ");
}

static void a_directory_that_cannot_be_read_is_an_error(void **state)
{
	struct error error;

	(void)state;
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EACCES;
	assert_int_equal(dumps_create(thread, 1, 1, &dumps, &error), -EACCES);
	assert_string_equal(error.code, "dumps-unreadable");
	dumps = NULL;
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = ENOENT;			/* nothing was ever written */
	open_dumps(1, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_there_is_listed_by_its_time),
		TEST(one_is_told_of_with_a_part_of_its_file),
		TEST(what_has_no_end_of_its_own_is_damaged),
		TEST(files_of_others_are_left_alone),
		TEST(as_many_as_there_can_be),
		TEST(beyond_the_bounds_the_oldest_goes),
		TEST(one_that_is_being_written_stays),
		TEST(one_whose_end_is_none_is_damaged),
		TEST(a_file_that_cannot_be_deleted_is_told_of),
		TEST(a_directory_that_cannot_be_read_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
