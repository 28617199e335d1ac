/*
 * argument: which arguments a system call looks at, where that hangs on another of its arguments: open() reads its mode
 * only to create a file, and fcntl(fd, F_GETFD) has no third. What is left in the register says nothing, and strace
 * does not show it either. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_ARGUMENT_H
#define RINGTAIL_QUERY_ARGUMENT_H

#include <stdbool.h>
#include <stdint.h>

struct argument_rule;

/* `function` is a call as in `syscall:FUNCTION:call`. NULL: it looks at all its arguments. */
const struct argument_rule *argument_rule(const char *function);

/* By which argument it is known what the call looks at. */
const char *argument_rule_by(const struct argument_rule *rule);

/* Whether the call looks at `argument`, where the other one has that value. */
bool argument_is_read(const struct argument_rule *rule, const char *argument, uint64_t value);

#endif
