/*
 * digits: numbers as text, without printf. Nothing is terminated. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_DIGITS_H
#define RINGTAIL_QUERY_DIGITS_H

#include <stdint.h>

#define DIGITS_BYTES_MAX 20		/* of a number, with its sign */
#define DIGITS_HEX_BYTES_MAX 18		/* with its 0x */

/* Decimal digits of a value before `end`; returns where they begin. */
char *digits_before(char *end, uint64_t value);

/* The same with a sign. */
char *digits_signed_before(char *end, int64_t value);

/* 0x7f00. Returns its end. */
char *digits_put_hex(char *to, uint64_t value);

#endif
