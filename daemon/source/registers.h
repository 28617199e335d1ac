/*
 * registers: where struct pt_regs of the kernel, which a uprobe's program is given, has a register. Its layout is
 * the kernel's interface to BPF programs, and that of ptrace(2).
 */
#ifndef RINGTAIL_DAEMON_SOURCE_REGISTERS_H
#define RINGTAIL_DAEMON_SOURCE_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGISTER_ARGS	6	/* that a function is passed in registers, at least */

/* Of all of them together, in bytes. */
extern const uint16_t registers_bytes;

/* The place of the instruction, of what a function returns, and of its arguments. */
extern const uint16_t register_ip, register_result, register_arg[REGISTER_ARGS];

/* Finds a register as an assembler calls it, "%eax"; where its lowest byte lies. False: it is none. */
bool register_find(const char *name, size_t bytes, uint16_t *offset);

#endif
