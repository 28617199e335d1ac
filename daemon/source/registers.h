/*
 * registers: where struct pt_regs of the kernel, which a uprobe's program is given, has a register. Its layout is
 * the kernel's interface to BPF programs, and that of ptrace(2). And the arguments of a USDT probe, which its note
 * names by registers, in the assembler's words ("-4@%eax 8@-8(%rbp)"). Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_REGISTERS_H
#define RINGTAIL_DAEMON_SOURCE_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/source/tracepoint_probe.h"

#define REGISTER_ARGS	6	/* that a function is passed in registers, at least */
#define USDT_ARGS_MAX	12

/* Of all of them together, in bytes. */
extern const uint16_t registers_bytes;

/* The place of the instruction, of what a function returns, and of its arguments. */
extern const uint16_t register_ip, register_result, register_arg[REGISTER_ARGS];

/*
 * The arguments of a USDT probe as words to record; how many there are. One that cannot be recorded has 0 bytes: see
 * WORD_OF_RECORD.
 */
unsigned registers_parse_usdt(const char *text, struct tracepoint_word arg[USDT_ARGS_MAX]);

#endif
