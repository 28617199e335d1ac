/*
 * usdt_args: the arguments of a USDT probe, as its note has them in the assembler's words ("-4@%eax 8@-8(%rbp)"),
 * as words to record. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_USDT_ARGS_H
#define RINGTAIL_DAEMON_SOURCE_USDT_ARGS_H

#include "daemon/source/tracepoint_probe.h"

#define USDT_ARGS_MAX 12

/* How many arguments there are. One that cannot be recorded has 0 bytes: see WORD_OF_RECORD. */
unsigned usdt_args_parse(const char *text, struct tracepoint_word arg[USDT_ARGS_MAX]);

#endif
