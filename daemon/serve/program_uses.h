/*
 * program_uses: which processes have a program's probe now, for lists.
 *
 * In: the programs that are connected. Out: Probe.use of each probe of a list, and its place. Main thread.
 */
#ifndef RINGTAIL_DAEMON_SERVE_PROGRAM_USES_H
#define RINGTAIL_DAEMON_SERVE_PROGRAM_USES_H

#include <stdbool.h>

#include "daemon/programs/programs.h"
#include "proto/ringtail.pb-c.h"

struct program_uses;

struct program_uses_config {
	const struct programs *programs;	/* NULL: there are none */
	bool names_processes;			/* else they are only counted, */
	uint32_t owner;				/* but for those of this user; 0: nobody */
	bool hides_comm;
};

/* As it is now; borrows the programs. NULL: no memory. */
struct program_uses *program_uses_create(const struct program_uses_config *config);

/* Of a program's probe; another one stays as it is. What is added is borrowed from `uses`. */
void program_uses_add(const struct program_uses *uses, Ringtail__V1__Probe *probe);

void program_uses_free(struct program_uses *uses);	/* NULL is safe */

#endif
