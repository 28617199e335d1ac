/*
 * random: unpredictable bytes. All randomness enters through here, so that a simulation can put a
 * seeded one in its place when it is linked.
 */
#ifndef RINGTAIL_DAEMON_BASE_RANDOM_H
#define RINGTAIL_DAEMON_BASE_RANDOM_H

#include <stddef.h>

/* 0, or -errno where the kernel has none to give; then nothing of `bytes` may be used. */
int random_bytes(void *bytes, size_t n);

#endif
