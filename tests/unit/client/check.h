/*
 * check: what the client's tests share: cmocka, and an `out` whose bytes can be looked at.
 */
#ifndef RINGTAIL_TESTS_CLIENT_CHECK_H
#define RINGTAIL_TESTS_CLIENT_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/cli/out.h"

/* What was written to a descriptor made by memfd_create() since the last look. */
__attribute__((unused))
static const char *check_read(int fd)
{
	static char text[1 << 18];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	assert_int_equal(ftruncate(fd, 0), 0);
	lseek(fd, 0, SEEK_SET);
	return text;
}

__attribute__((unused))
static const char *check_text(struct out *out)
{
	assert_int_equal(out_flush(out), 0);
	return check_read(out->fd);
}

__attribute__((unused))
static void check_out(struct out *out)
{
	int fd = memfd_create("out", MFD_CLOEXEC);

	assert_true(fd >= 0);
	out_init(out, fd);
}

#endif
