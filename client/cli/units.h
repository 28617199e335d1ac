/*
 * units: numbers, durations and sizes as people write and read them. Pure functions.
 */
#ifndef RINGTAIL_CLIENT_CLI_UNITS_H
#define RINGTAIL_CLIENT_CLI_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* "1000", "0x10", "10k", "5M". -EINVAL: not a number; -ERANGE: does not fit. */
int units_parse_count(const char *text, uint64_t *count);

/* "10s", "1.5ms", "2min", "1h", a bare number is seconds; to ns. Errors as above. */
int units_parse_duration(const char *text, uint64_t *ns);

#define UNITS_TEXT_BYTES 32

/* "999ns", "12.3us", "1.50s": at most 4 digits. Returns `to`. */
char *units_format_duration(uint64_t ns, char to[UNITS_TEXT_BYTES]);

/* "512", "12.3k", "4.56M": at most 4 digits, decimal steps. */
char *units_format_rate(double value, char to[UNITS_TEXT_BYTES]);

/* "512 B", "12.3 KiB": binary steps. */
char *units_format_bytes(double bytes, char to[UNITS_TEXT_BYTES]);

#endif
