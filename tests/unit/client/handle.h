/*
 * handle: what test_ringtail*.c share: frames of a test's making, and the next item that a handle
 * makes of them.
 */
#ifndef RINGTAIL_TESTS_CLIENT_HANDLE_H
#define RINGTAIL_TESTS_CLIENT_HANDLE_H

#include "tests/unit/client/check.h"

#include "client/lib/ringtail.h"
#include "tests/unit/client/maker.h"

/* hello: what a daemon says first; stream: what comes after it, or a whole file. */
static struct maker hello, stream;
static struct ringtail_error error;
static struct ringtail_item item;

__attribute__((unused))
static int setup(void **state)
{
	(void)state;
	maker_init(&hello);
	maker_init(&stream);
	maker_hello(&hello, 1, 7);
	memset(&error, 0, sizeof(error));
	return 0;
}

__attribute__((unused))
static int teardown(void **state)
{
	(void)state;
	maker_fini(&hello);
	maker_fini(&stream);
	return 0;
}

/* The next item that is no watermark. */
__attribute__((unused))
static enum ringtail_kind next(struct ringtail *ringtail)
{
	enum ringtail_kind kind;

	do {
		kind = ringtail_next(ringtail, &item, 3000);
		assert_int_equal(kind, item.kind);
	} while (kind == RINGTAIL_WATERMARK);
	return kind;
}

#endif
