/*
 * answer_stacks: the stacks in the keys of an answer.
 *
 * While events come, a key has the number of a stack in a stack_set: of one process and its addresses. Stacks of
 * another process, or of other places in the same functions, may have the same text; for the reader of an answer they
 * are one.
 *
 * In: the stack_set, and a number or the table of an answer. Out: the stack's text; or the table with one row for all
 * stacks of one text. The text lies in one static buffer: one thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_ANSWER_STACKS_H
#define RINGTAIL_CLIENT_CLI_ANSWER_STACKS_H

#include <stdint.h>

#include "client/cli/answer_table.h"
#include "client/cli/stack_set.h"

/*
 * "main;read;vfs_read", outermost first, of the stack with that number; *bytes becomes its length. Valid until the next
 * call. What is no number of the set is returned as it is, and *bytes stays.
 */
const char *answer_stacks_text(struct stack_set *set, const char *number, int *bytes);

/*
 * Adds up the rows whose keys differ only in numbers of stacks that have the same text. `parts`: bit i is set where
 * part i of a key is a stack. If memory runs out, the table stays as it is.
 */
void answer_stacks_join(struct stack_set *set, uint32_t parts, struct answer_table *table);

#endif
