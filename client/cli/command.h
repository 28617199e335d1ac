/*
 * command: the program behind `--`, which is started stopped, goes on when it is told to, and ends with a
 * status. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_COMMAND_H
#define RINGTAIL_CLIENT_CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/lib/ringtail.h"

struct command;

/* Its process waits before its exec. 0; -ENOENT, -EACCES, -errno with *error. */
int command_start(char *const *argv, struct command **command, struct ringtail_error *error);

pid_t command_pid(const struct command *command);

/* Executes it: returns when it has, or could not: -errno with *error. */
int command_go(struct command *command, struct ringtail_error *error);

/* Whether it has ended, and when, CLOCK_MONOTONIC of this host: nothing of it came later. */
bool command_ended(struct command *command, uint64_t *ended_ns);

/* Ends it, if it goes on still; its exit status, or 128 and the signal's number. NULL is 0. */
int command_finish(struct command *command);

#endif
