/*
 * symbols: names of kernel addresses, from /proc/kallsyms.
 */
#ifndef RINGTAIL_CLIENT_CLI_SYMBOLS_H
#define RINGTAIL_CLIENT_CLI_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct symbols;

/*
 * Reads `path`. NULL if that cannot be done or its addresses are hidden (they are zeros for those
 * without privileges): then addresses stay numbers.
 */
struct symbols *symbols_load(const char *path);
void symbols_destroy(struct symbols *symbols);

/* The symbol that the address is in, and how far; NULL if it is in none. `symbols` may be NULL. */
const char *symbols_find(const struct symbols *symbols, uint64_t address, uint64_t *offset);

/*
 * How many of a kernel stack's innermost frames are those of the tracing itself: BPF programs, a
 * module, and the kernel's way from its tracepoint, or from its function, to them. How many that is depends
 * on the probe and on how the kernel was built, so they are known by their names alone; 0 without `symbols`.
 */
size_t symbols_own_frames(const struct symbols *symbols, const uint64_t *frame, size_t frames);

/* Those of this kernel, for the stacks of that boot; NULL where they say nothing of it. */
struct symbols *symbols_of_boot(const uint8_t boot_id[16]);

/* Whether addresses of that boot are those of this kernel. */
int symbols_same_boot(const uint8_t boot_id[16]);

#endif
