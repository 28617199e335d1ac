/* test_screen: of a block of lines, what a terminal has room for. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <unistd.h>

#include "client/cli/screen.h"

#define CLEAR "\033[H\033[J"

static struct out out;

static const char *draw(struct screen *screen, const char *block, unsigned rows, unsigned columns)
{
	out_text(screen_begin(screen), block);
	assert_int_equal(screen_draw(screen, &out, rows, columns), 0);
	return check_text(&out);
}

static void fits(void **state)
{
	struct screen *screen;

	(void)state;
	check_out(&out);
	assert_int_equal(screen_create(&screen), 0);
	assert_string_equal(draw(screen, "", 24, 80), CLEAR);
	assert_string_equal(draw(screen, "a\nb\nc\n", 4, 80), CLEAR "a\nb\nc\n");
	assert_string_equal(draw(screen, "a\nb\nc\n", 3, 80), CLEAR "a\n2 more lines do not fit\n");
	assert_string_equal(draw(screen, "a\nb\nc\n", 1, 80), CLEAR "3 more lines do not fit\n");
	assert_string_equal(draw(screen, "a\nb\nc\n", 0, 0), CLEAR "a\nb\nc\n");
	/* What is wider takes more rows; a line is shown whole or not at all. */
	assert_string_equal(draw(screen, "abcdef\n\nabc\n", 5, 3), CLEAR "abcdef\n\nabc\n");
	assert_string_equal(draw(screen, "abcdefg\n\nabc\n", 5, 3),
			    CLEAR "abcdefg\n2 more lines do not fit\n");
	assert_string_equal(draw(screen, "a\nabcdefghijklm\nabc\n", 5, 3),
			    CLEAR "a\n2 more lines do not fit\n");
	screen_destroy(screen);
	screen_destroy(NULL);
	close(out.fd);
}

/* Longer than any buffer. */
static void long_block(void **state)
{
	struct screen *screen;
	struct out *block;

	(void)state;
	check_out(&out);
	assert_int_equal(screen_create(&screen), 0);
	block = screen_begin(screen);
	for (unsigned i = 0; i < 100000; i++) {
		out_u64(block, i);
		out_char(block, '\n');
	}
	assert_int_equal(screen_draw(screen, &out, 4, 80), 0);
	assert_string_equal(check_text(&out), CLEAR "0\n1\n99998 more lines do not fit\n");
	screen_destroy(screen);
	close(out.fd);
}

static void fails(void **state)
{
	struct screen *screen;
	int fd;

	(void)state;
	check_out(&out);
	assert_int_equal(screen_create(&screen), 0);
	fd = screen_begin(screen)->fd;
	close(fd);
	out_text(screen_begin(screen), "a\n");
	assert_int_equal(screen_draw(screen, &out, 4, 80), -EBADF);
	screen_destroy(screen);
	close(out.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fits), cmocka_unit_test(long_block), cmocka_unit_test(fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
