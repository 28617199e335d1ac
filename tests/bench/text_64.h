/* The text of an event with one: 64 bytes, of ringtail and of LTTng-UST. */
#ifndef RINGTAIL_TESTS_BENCH_TEXT_64_H
#define RINGTAIL_TESTS_BENCH_TEXT_64_H

static const char text_64[] = "sixty-four bytes of text, as many as a request may have, or path";

_Static_assert(sizeof(text_64) == 64 + 1, "64 bytes of text");

#endif
