/*
 * text_value: the values of fields as people read them.
 */
#ifndef RINGTAIL_CLIENT_CLI_TEXT_VALUE_H
#define RINGTAIL_CLIENT_CLI_TEXT_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <string.h>

#include "client/cli/out.h"
#include "client/lib/ringtail.h"

/* The field of that number: AT_FDCWD, 0x80000, "a path", 12.3us, bash/123. */
void text_value(struct out *out, const struct ringtail_item *event, unsigned field);

/* "(dfd=AT_FDCWD, flags=0)" of the fields from `first` on. */
void text_arguments(struct out *out, const struct ringtail_item *event, unsigned first);

/* "</etc/passwd>", if it is known what that field's file descriptor stands for. */
void text_file(struct out *out, const struct ringtail_item *event, unsigned field);

/* "3", "0x7f0000000000", "-1 ENOENT (No such file or directory)". */
void text_result(struct out *out, uint64_t result);

/* "999ns", "1.23us", "45.6ms", "123s": three digits, cut and not rounded. */
void text_duration(struct out *out, uint64_t ns);

/* "bash/123", or "123" where the name is not known. */
void text_thread(struct out *out, const struct ringtail_item *event, uint32_t tid);

/* Whether a call that returned this failed. */
static inline bool errno_failed(uint64_t result)
{
	return result >= (uint64_t)-4095;
}

/* "ENOENT" for 2, "ERESTARTSYS" for 512; NULL for a number without a name. */
const char *errno_name(int number);

/* "No such file or directory"; NULL likewise. */
const char *errno_text(int number);

/* Whether it is the number of a device, as the kernel itself writes it: of tracepoints. */
static inline bool text_is_device(const struct ringtail_field *field)
{
	return field->c_type[0] == 'd' && !strcmp(field->c_type, "dev_t");
}

static inline unsigned text_device_major(uint64_t device)
{
	return (uint32_t)device >> 20;
}

static inline unsigned text_device_minor(uint64_t device)
{
	return device & ((1u << 20) - 1);
}

/* "254:0" */
void text_device(struct out *out, uint64_t device);

/* One element of an array, with its own width and sign. */
uint64_t text_element(const struct ringtail_field *field, const uint8_t *at);

#endif
