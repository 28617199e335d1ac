/*
 * chosen: the processes and the names of threads that --pid and --comm choose, as a filter, and asked of one thread.
 *
 * In: the texts of the options, which are borrowed. A name is compared as the kernel keeps names: its first 15 bytes.
 */
#ifndef RINGTAIL_CLIENT_CLI_CHOSEN_H
#define RINGTAIL_CLIENT_CLI_CHOSEN_H

#include <stdio.h>

#include "client/cli/options.h"

struct chosen {
	uint64_t pid[SUBSCRIBE_PROBES_MAX];
	size_t pids;
	const struct texts *comm;
};

enum chosen_answer {
	CHOSEN_NO,
	CHOSEN_YES,
	CHOSEN_UNKNOWN,		/* nobody has told the thread's name or process yet */
};

/* The number of a process that an option names; -EINVAL with *error. */
int chosen_parse_pid(const char *option, const char *text, uint64_t *pid, struct ringtail_error *error);

int chosen_init(struct chosen *chosen, const struct texts *pid, const struct texts *comm, struct ringtail_error *error);

/* Neither option chooses anything: every thread is. */
bool chosen_all(const struct chosen *chosen);

/* pid in (1, 2) && (comm == "a" || comm =~ "b*"); not for chosen_all(). */
void chosen_write(const struct chosen *chosen, FILE *to);

/* Whether it chooses this thread, of which the event's batch may tell. Thread 0, the idle task, is never chosen. */
enum chosen_answer chosen_thread(const struct chosen *chosen, const struct ringtail_item *event, uint32_t tid);

#endif
