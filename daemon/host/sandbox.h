/*
 * sandbox: what each of the two processes can no longer do, once it has started. A filter in the
 * kernel ends the process (SIGSYS) at the first system call that is not on its list: one that makes
 * such a call is not ours any more. In: what the process still does; out: a filter. The main thread, for
 * all threads.
 */
#ifndef RINGTAIL_DAEMON_HOST_SANDBOX_H
#define RINGTAIL_DAEMON_HOST_SANDBOX_H

#include <stdbool.h>
#include <sys/types.h>

#include "query/error.h"

/*
 * Sanitizers make calls of their own, at any time: a daemon built with one has no filter, and says
 * so at start. No other has none.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_FILTERS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define SANDBOX_FILTERS 0
#endif
#endif
#ifndef SANDBOX_FILTERS
#define SANDBOX_FILTERS 1
#endif

struct sandbox_engine {
	pid_t loader;		/* the one process that it may end */
	bool resolves;		/* it connects to back ends, by name */
};

/* For the calling process, all its threads, and those that they make: nothing takes it back. */
int sandbox_engine(const struct sandbox_engine *engine, struct error *error);

/* For the loader, when the source is open. */
int sandbox_loader(struct error *error);

#endif
