/*
 * symbols: names of kernel addresses, from /proc/kallsyms.
 */
#ifndef RINGTAIL_CLIENT_SYMBOLS_H
#define RINGTAIL_CLIENT_SYMBOLS_H

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

/* Whether addresses of that boot are those of this kernel. */
int symbols_same_boot(const uint8_t boot_id[16]);

#endif
