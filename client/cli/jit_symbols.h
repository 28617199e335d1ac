/*
 * jit_symbols: names of code that a program made itself, from /tmp/perf-PID.map as it writes it: a line
 * "START BYTES NAME" in hexadecimal for each function, of which a later one holds where two overlap.
 *
 * In: a file that anybody may have written, and that grows while it is read. It is believed if it lies in the tree
 * that the process sees, is a file of that process' user or of root, and no link. Bounded by JIT_MAP_BYTES_MAX.
 */
#ifndef RINGTAIL_CLIENT_CLI_JIT_SYMBOLS_H
#define RINGTAIL_CLIENT_CLI_JIT_SYMBOLS_H

#include <stdint.h>

struct jit_symbols;

/* The file of that process of this host, which lives. -1: there is none that is to be believed. */
int jit_symbols_open(uint32_t pid);

/* Takes the descriptor. NULL: no memory; the descriptor is closed then, too. */
struct jit_symbols *jit_symbols_create(int fd);
void jit_symbols_destroy(struct jit_symbols *symbols);

/* The function that the address is in, and how far; NULL: none. Reads on if the file has grown. Borrowed. */
const char *jit_symbols_find(struct jit_symbols *symbols, uint64_t address, uint64_t *offset);

#endif
