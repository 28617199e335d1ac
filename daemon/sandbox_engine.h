/*
 * sandbox_engine: the engine's sandbox, as its configuration has it: first the view, while it may
 * still mount, then, when everything runs, the system calls. In: the configuration; out: a smaller
 * process. Main thread.
 */
#ifndef RINGTAIL_DAEMON_SANDBOX_ENGINE_H
#define RINGTAIL_DAEMON_SANDBOX_ENGINE_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/config/config.h"
#include "query/error.h"
#include "daemon/host/privileges.h"

/* Whether it connects to others: back ends, a relay, URLs of triggers. Else its sandbox forbids that. */
bool sandbox_engine_connects(const struct config *config);

/*
 * Before there are threads and before privileges_drop(): loads what is still needed of the host's
 * libraries, and leaves its file system. As root it makes the state directory for that user, and the
 * tree; otherwise it moves into the tree that the unit has made, if there is one.
 */
int sandbox_engine_view(const struct config *config, const struct account *account,
			struct error *error);

/* For all threads. `loader`: the one process that the engine may end. */
int sandbox_engine_calls(const struct config *config, pid_t loader, struct error *error);

#endif
