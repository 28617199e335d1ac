/*
 * constant: what the numbers in the arguments of system calls are called: O_CLOEXEC, SIGKILL, AF_INET.
 *
 * In: names of a call and of its argument, and a value. Out: text; or, of a name, its value. The names
 * and values come from the kernel's headers (constants.def, constants.py). Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_CONSTANT_H
#define RINGTAIL_QUERY_CONSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest text that constant_print() makes, and its NUL: more flags than fit become a number. */
#define CONSTANT_TEXT_BYTES 512

/* What one argument's values are called; perhaps by the value of another argument of the call. */
struct constant_rule;

/* NULL if numbers of that argument have no names. `function` is a call as in `syscall:FUNCTION:call`. */
const struct constant_rule *constant_rule(const char *function, const char *argument);

/* The rule that follows, if it is of the same argument; else NULL. */
const struct constant_rule *constant_rule_next(const struct constant_rule *rule);

/* Which argument must have which value for the rule to hold; NULL: it always does. */
const char *constant_rule_other(const struct constant_rule *rule, uint32_t *value);

/* Whether another processor has other values: of such a host's events the names would be wrong. */
bool constant_rule_by_machine(const struct constant_rule *rule);

/*
 * "O_WRONLY|O_CREAT", with what has no name as a number behind it: "PROT_READ|0x100". Its length, without
 * the NUL; 0 if no part of the value has a name.
 */
size_t constant_print(const struct constant_rule *rule, uint64_t value,
		      char text[CONSTANT_TEXT_BYTES]);

/*
 * The value of a name, for a person who writes `flags & O_WRONLY`: below 0 if it is in C, as AT_FDCWD. False if
 * there is no such name.
 */
bool constant_find(const char *name, int64_t *value);

/* Every name, in no order; NULL past the last. */
const char *constant_name(size_t i);

#endif
