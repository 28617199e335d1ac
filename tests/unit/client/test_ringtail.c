/*
 * test_ringtail: the library and files: whole, cut, damaged, with frames out of place, of two
 * boots. What it does with a daemon: test_ringtail_connect.c.
 */
#include "tests/unit/client/handle.h"

#include <errno.h>

static struct ringtail *file(size_t bytes, bool count_only)
{
	struct ringtail *ringtail;

	assert_int_equal(ringtail_open(maker_file(&stream, bytes), "test.rt", count_only, &ringtail,
				       &error), 0);
	return ringtail;
}

static void whole_file(void **state)
{
	struct ringtail *ringtail;
	char text[256];

	(void)state;
	maker_start(&stream);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_batch(&stream, 1, 0, 1005, 10, 3);
	maker_watermark(&stream, 1100, 3, 3);
	maker_bye(&stream, "the end");
	ringtail = file(stream.size, false);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(next(ringtail), RINGTAIL_EVENT);
		assert_int_equal(item.time_ns, 1000 + 5 * i);
		assert_int_equal(item.cpu, i % 2);
		assert_int_equal(item.seq, i / 2);
		assert_string_equal(item.probe->spec, "syscall:openat:call");
		assert_int_equal(item.probe->kind, RINGTAIL_CALL);
		assert_int_equal(item.thread.uid, 1000);
		assert_int_equal((int64_t)ringtail_value(&item.probe->field[2], item.value[2]),
				 -100);
		assert_string_equal(ringtail_thread_comm(&item, 100 + i % 2),
				    i % 2 ? "t101" : "t100");
		assert_null(ringtail_thread_comm(&item, 5));
	}
	assert_int_equal(ringtail_cursor(ringtail, text, sizeof(text)), 0);
	assert_string_equal(text, "01020304-0506-0708-090a-0b0c0d0e0f10/7/0:3,1:3");
	assert_int_equal(ringtail_cursor(ringtail, text, 5), -ENOSPC);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_string_equal(item.text, "the end");
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->events, 6);
	assert_int_equal(ringtail_totals(ringtail)->wire_bytes, stream.size);
	assert_int_equal(ringtail_totals(ringtail)->frames, 7);
	assert_int_equal(ringtail_totals(ringtail)->residual, 0);
	assert_string_equal(ringtail_host(ringtail)->hostname, "here");
	assert_int_equal(ringtail_subscribe(ringtail, NULL, &error), -EINVAL);
	ringtail_close(ringtail);
	ringtail_close(NULL);
}

static void counted_file(void **state)
{
	struct ringtail *ringtail;

	(void)state;
	maker_start(&stream);
	maker_batch(&stream, 0, 0, 1000, 10, 300);
	maker_begin(&stream, 1, 0, 1000);
	batch_encode_loss(stream.encoder, 9, 0, 1);
	maker_open(&stream, 1, 1000, 0);
	maker_end(&stream);
	maker_gap(&stream, 0, 300, 310, 4, 2, 6);
	ringtail = file(stream.size, true);
	assert_int_equal(next(ringtail), RINGTAIL_BATCH);
	assert_int_equal(item.count, 300);
	assert_int_equal(next(ringtail), RINGTAIL_BATCH);
	assert_int_equal(next(ringtail), RINGTAIL_GAP);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->events, 301);
	assert_int_equal(ringtail_totals(ringtail)->lost, 13);
	assert_int_equal(ringtail_totals(ringtail)->gaps, 1);
	assert_int_equal(ringtail_totals(ringtail)->residual, 0);
	ringtail_close(ringtail);
}

/* At every cut: no crash, whole frames are read, and a cut inside a frame is told. */
static void cut_file(void **state)
{
	(void)state;
	maker_start(&stream);
	maker_batch(&stream, 0, 0, 1000, 10, 30);
	maker_batch(&stream, 1, 0, 1000, 10, 30);
	for (size_t cut = 0; cut <= stream.size; cut++) {
		struct ringtail *ringtail = file(cut, false);
		enum ringtail_kind kind;

		while ((kind = next(ringtail)) == RINGTAIL_EVENT)
			;
		if (cut == 0)
			assert_string_equal(ringtail_last_error(ringtail)->code, "foreign-file");
		else if (kind == RINGTAIL_ERROR)
			assert_string_equal(ringtail_last_error(ringtail)->code, "truncated");
		else
			assert_int_equal(kind, RINGTAIL_END);
		assert_int_equal(ringtail_totals(ringtail)->events % 30, 0);
		ringtail_close(ringtail);
	}
}

/* Every byte turned: an error that names a place, or the same events. */
static void damaged_file(void **state)
{
	(void)state;
	maker_start(&stream);
	maker_batch(&stream, 0, 0, 1000, 10, 30);
	for (size_t at = 0; at < stream.size; at++) {
		struct ringtail *ringtail;
		enum ringtail_kind kind;

		stream.bytes[at] ^= 0x55;
		ringtail = file(stream.size, false);
		while ((kind = next(ringtail)) == RINGTAIL_EVENT)
			;
		assert_int_equal(kind, RINGTAIL_ERROR);	/* the checksum sees to it */
		assert_true(ringtail_last_error(ringtail)->what[0]);
		ringtail_close(ringtail);
		stream.bytes[at] ^= 0x55;
	}
}

static void out_of_place(void **state)
{
	Ringtail__V1__StatRequest request = RINGTAIL__V1__STAT_REQUEST__INIT;
	static const struct {
		void (*make)(struct maker *maker);
		const char *says;
	} cases[] = {
		{ maker_catalog, "hello must come first" },
	};
	struct ringtail *ringtail;

	(void)state;
	cases[0].make(&stream);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_non_null(strstr(item.text, cases[0].says));
	ringtail_close(ringtail);

	stream.size = 0;
	maker_hello(&stream, 1, 7);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_non_null(strstr(item.text, "before any catalog"));
	ringtail_close(ringtail);

	stream.size = 0;
	maker_hello(&stream, 1, 7);
	maker_message(&stream, FRAME_STAT_REQUEST, &request.base);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_non_null(strstr(item.text, "no business"));
	ringtail_close(ringtail);

	stream.size = 0;
	maker_start(&stream);
	maker_batch(&stream, 5000, 0, 1000, 10, 3);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_non_null(strstr(item.text, "out of range"));
	ringtail_close(ringtail);

	stream.size = 0;
	maker_start(&stream);
	maker_gap(&stream, 0, 5, 4, 0, 0, 0);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	ringtail_close(ringtail);

	stream.size = 0;
	maker_start(&stream);
	maker_raw(&stream, FRAME_WATERMARK, (const uint8_t *)"\x12\xff", 2);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_non_null(strstr(item.text, "byte"));
	ringtail_close(ringtail);
}

static void other_version(void **state)
{
	struct ringtail *ringtail;

	(void)state;
	maker_hello(&stream, 2, 7);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_string_equal(ringtail_last_error(ringtail)->code, "version-mismatch");
	assert_true(ringtail_last_error(ringtail)->hint[0]);
	ringtail_close(ringtail);
}

static void bad_catalogs(void **state)
{
	static const char *const frames[] = {
		"\x0a\x05\x08\x80\x80\x80\x01",			/* an id over 16 bits */
		"\x0a\x02\x08\x01\x0a\x02\x08\x01",		/* two of one id */
		"\x0a\xff",					/* no message */
		"\x0a\x05\x08\x01\x12\x01\x1b",			/* a name that a terminal obeys */
		"\x0a\x07\x08\x01\x2a\x03\x0a\x01\x0a",		/* a field's name of two lines */
	};
	static const size_t bytes[] = { 7, 8, 2, 7, 9 };

	(void)state;
	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
		struct ringtail *ringtail;

		stream.size = 0;
		maker_hello(&stream, 1, 7);
		maker_raw(&stream, FRAME_CATALOG, (const uint8_t *)frames[i], bytes[i]);
		ringtail = file(stream.size, false);
		assert_int_equal(next(ringtail), RINGTAIL_ERROR);
		assert_string_equal(ringtail_last_error(ringtail)->code, "bad-catalog");
		ringtail_close(ringtail);
	}
}

/* A megabyte of empty probes would unpack to many times that: it is refused within bounds. */
static void catalog_bomb(void **state)
{
	size_t bytes = FRAME_RAW_BYTES_MAX & ~1u;
	uint8_t *raw = malloc(bytes);
	struct ringtail *ringtail;

	(void)state;
	for (size_t i = 0; i < bytes; i += 2)
		memcpy(raw + i, "\x0a", 2);
	maker_hello(&stream, 1, 7);
	maker_raw(&stream, FRAME_CATALOG, raw, bytes);
	free(raw);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_ERROR);
	assert_string_equal(ringtail_last_error(ringtail)->code, "bad-catalog");
	ringtail_close(ringtail);
}

static void hole_in_file(void **state)
{
	struct ringtail *ringtail;

	(void)state;
	maker_start(&stream);
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_batch(&stream, 0, 8, 2000, 10, 3);
	ringtail = file(stream.size, false);
	while (next(ringtail) == RINGTAIL_EVENT)
		;
	assert_int_equal(ringtail_totals(ringtail)->residual, 5);
	ringtail_close(ringtail);
}

/* A recording that went on after the host was booted anew: both halves come, in their own time. */
static void two_boots(void **state)
{
	struct ringtail *ringtail;
	static const uint64_t zero[2];

	(void)state;
	maker_start(&stream);
	maker_batch(&stream, 0, 0, 900000, 10, 2);
	maker_hello(&stream, 1, 8);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, zero);
	maker_gap(&stream, 0, 0, 0, 0, 3, 8);
	maker_batch(&stream, 0, 0, 1000, 10, 2);
	maker_watermark(&stream, 2000, 2, 0);
	ringtail = file(stream.size, false);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(item.time_ns, 900010);
	assert_int_equal(next(ringtail), RINGTAIL_GAP);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(item.time_ns, 1000);
	assert_int_equal(next(ringtail), RINGTAIL_EVENT);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->residual, 0);
	assert_int_equal(ringtail_totals(ringtail)->late, 0);
	assert_int_equal(ringtail_host(ringtail)->epoch, 8);
	ringtail_close(ringtail);
}

static void names(void **state)
{
	static const struct ringtail_field field = { .type = RINGTAIL_SIGNED, .bits = 8 };

	(void)state;
	assert_string_equal(ringtail_stage_name(2), "queue");
	assert_string_equal(ringtail_stage_name(99), "unknown");
	assert_string_equal(ringtail_reason_name(7), "history-gone");
	assert_string_equal(ringtail_reason_name(99), "unknown");
	assert_int_equal((int64_t)ringtail_value(&field, 0x180), -128);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(whole_file), TEST(counted_file), TEST(cut_file), TEST(damaged_file),
		TEST(out_of_place), TEST(other_version), TEST(bad_catalogs), TEST(catalog_bomb),
		TEST(hole_in_file), TEST(two_boots), TEST(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
