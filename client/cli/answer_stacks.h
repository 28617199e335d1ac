/*
 * answer_stacks: the stacks in the keys of an answer.
 *
 * While events come, a stack is a number: that of its process and addresses in a stack_set. Others may be called the
 * same, of another process, or of another place in the same functions; for whoever reads an answer, those are one. One
 * thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_ANSWER_STACKS_H
#define RINGTAIL_CLIENT_CLI_ANSWER_STACKS_H

#include <stdint.h>

#include "client/cli/answer_table.h"
#include "client/cli/stack_set.h"

/*
 * "main;read;vfs_read", outermost first, of the stack with that number. What is no number of the set is returned as it
 * is. Holds until the next call.
 */
const char *answer_stacks_text(struct stack_set *set, const char *number, int *bytes);

/*
 * Adds up the rows whose keys differ only in numbers of stacks that have the same text. `parts`: bit by part of the
 * keys that is a stack. Without memory nothing changes.
 */
void answer_stacks_join(struct stack_set *set, uint32_t parts, struct answer_table *table);

#endif
