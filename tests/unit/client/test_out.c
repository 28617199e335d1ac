/* test_out: the writer, its numbers, and JSON strings of bytes that are none. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>

#include "client/cli/out.h"

static struct out out;

static void numbers(void **state)
{
	(void)state;
	check_out(&out);
	out_u64(&out, 0);
	out_char(&out, ' ');
	out_u64(&out, UINT64_MAX);
	out_char(&out, ' ');
	out_i64(&out, INT64_MIN);
	out_char(&out, ' ');
	out_i64(&out, -7);
	out_char(&out, ' ');
	out_digits(&out, 42, 6);
	out_char(&out, ' ');
	out_hex(&out, 0);
	out_char(&out, ' ');
	out_hex(&out, 0x10);
	out_char(&out, ' ');
	out_hex(&out, UINT64_MAX);
	assert_string_equal(check_text(&out),
			    "0 18446744073709551615 -9223372036854775808 -7 000042 0x0 "
			    "0x10 0xffffffffffffffff");
	out_octal(&out, 0);
	out_char(&out, ' ');
	out_octal(&out, 7);
	out_char(&out, ' ');
	out_octal(&out, 0644);
	out_char(&out, ' ');
	out_octal(&out, UINT64_MAX);
	assert_string_equal(check_text(&out), "0 07 0644 01777777777777777777777");
	out_mark(&out);
	out_text(&out, "ab");
	out_pad(&out, 5);
	out_char(&out, '|');
	out_pad(&out, 5);
	assert_string_equal(check_text(&out), "ab   |");
	out_comm(&out, "a\033b\0cdefghijklm");
	out_comm(&out, "sixteen bytes...");
	assert_string_equal(check_text(&out), "a?bsixteen bytes...");
	close(out.fd);
}

static void long_runs(void **state)
{
	static char block[3 * WRITE_BUFFER_BYTES], back[sizeof(block) + 1];

	(void)state;
	check_out(&out);
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (char)('a' + i % 26);
	out_bytes(&out, block, sizeof(block));
	assert_int_equal(out_flush(&out), 0);
	assert_int_equal(pread(out.fd, back, sizeof(back), 0), sizeof(block));
	assert_memory_equal(back, block, sizeof(block));
	close(out.fd);
}

static void broken_pipe(void **state)
{
	int ends[2];

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	out_init(&out, ends[1]);
	out_literal(&out, "x");
	assert_int_equal(out_flush(&out), -EPIPE);
	out_literal(&out, "swallowed");
	assert_int_equal(out_flush(&out), -EPIPE);
	assert_int_equal(out_error(&out), EPIPE);
	close(ends[1]);
	out_init(&out, -1);
	out_literal(&out, "x");
	assert_int_equal(out_flush(&out), -EBADF);
}

/* A full pipe that does not block is waited for. */
static void full_pipe(void **state)
{
	static char block[WRITE_BUFFER_BYTES];
	char back[4096];
	int ends[2];
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	while (write(ends[1], block, sizeof(block)) > 0)
		;
	pid = fork();
	if (pid == 0) {
		close(ends[1]);
		fcntl(ends[0], F_SETFL, 0);
		usleep(20000);
		while ((n = read(ends[0], back, sizeof(back))) > 0)
			;
		_exit(0);
	}
	close(ends[0]);
	out_init(&out, ends[1]);
	out_literal(&out, "x");
	assert_int_equal(out_flush(&out), 0);
	close(ends[1]);
}

static void json(void **state)
{
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{"plain", "\"plain\""},
		{"a\"b\\c", "\"a\\\"b\\\\c\""},
		{"\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\""},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		 "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
		{"\x80", "\"\\u0080\""},
		{"\xff", "\"\\u00ff\""},
		{"\xc3", "\"\\u00c3\""},
		{"\xc0\xaf", "\"\\u00c0\\u00af\""}, /* overlong */
		{"\xe0\x80\x80", "\"\\u00e0\\u0080\\u0080\""},
		{"\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\""}, /* a surrogate */
		{"\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\""},
		{"\xf0\x80\x80\x80", "\"\\u00f0\\u0080\\u0080\\u0080\""},
		{"\xe2\x82", "\"\\u00e2\\u0082\""},
		{"\xe2\x28\xa1", "\"\\u00e2(\\u00a1\""},
	};

	(void)state;
	check_out(&out);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_quote_text(&out, cases[i].bytes);
		assert_string_equal(check_text(&out), cases[i].text);
	}
	json_quote(&out, "a\0b", 3);
	assert_string_equal(check_text(&out), "\"a\\u0000b\"");
	close(out.fd);
}

/* Whatever the bytes are, another JSON reader takes the line. */
static void json_of_noise(void **state)
{
	unsigned seed = (unsigned)getpid();

	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	check_out(&out);
	for (unsigned i = 0; i < 2000; i++) {
		char bytes[64];
		size_t n = (size_t)random() % sizeof(bytes);
		json_t *value;

		for (size_t j = 0; j < n; j++)
			bytes[j] = (char)(random() % 3 ? random() : random() % 64 + 0xc0);
		json_quote(&out, bytes, n);
		value = json_loads(check_text(&out), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_non_null(value);
		json_decref(value);
	}
	close(out.fd);
}

static void wall(void **state)
{
	struct wall_clock clock;

	(void)state;
	check_out(&out);
	wall_clock_init(&clock, true);
	wall_clock_set(&clock, 5, 1700000000000000005ull);
	wall_clock_print(&clock, &out, 1999999999);
	wall_clock_print(&clock, &out, 2000000000);
	assert_string_equal(check_text(&out),
			    "2023-11-14T22:13:21.999999999Z2023-11-14T22:13:22.000000000Z");
	setenv("TZ", "UTC-2", 1);
	wall_clock_init(&clock, false);
	wall_clock_set(&clock, 5, 1700000000000000005ull);
	wall_clock_print(&clock, &out, 1999999999);
	assert_string_equal(check_text(&out), "00:13:21.999999");
	close(out.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),     cmocka_unit_test(long_runs),
		cmocka_unit_test(broken_pipe), cmocka_unit_test(full_pipe),
		cmocka_unit_test(json),        cmocka_unit_test(json_of_noise),
		cmocka_unit_test(wall),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
