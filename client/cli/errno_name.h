/*
 * errno_name: names of what a system call returns when it fails, the kernel's own among them.
 */
#ifndef RINGTAIL_CLIENT_CLI_ERRNO_NAME_H
#define RINGTAIL_CLIENT_CLI_ERRNO_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a call that returned this failed. */
static inline bool errno_failed(uint64_t result)
{
	return result >= (uint64_t)-4095;
}

/* "ENOENT" for 2, "ERESTARTSYS" for 512; NULL for a number without a name. */
const char *errno_name(int number);

/* "No such file or directory"; NULL likewise. */
const char *errno_text(int number);

#endif
