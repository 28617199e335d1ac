/*
 * host_check: what of this host tracing needs, one check at a time.
 *
 * Files are read below `root`, so that tests can show it a host of their making.
 */
#ifndef RINGTAIL_CLIENT_CLI_HOST_CHECK_H
#define RINGTAIL_CLIENT_CLI_HOST_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#define HOST_CHECK_TEXT_BYTES 256

enum check_verdict {
	CHECK_OK,
	CHECK_WARN,		/* tracing works, but */
	CHECK_FAIL,		/* tracing cannot work */
};

struct host_check {
	enum check_verdict verdict;
	bool of_caller;				/* what fails is the caller's: a daemon may have it */
	char found[HOST_CHECK_TEXT_BYTES];
	char hint[HOST_CHECK_TEXT_BYTES];	/* what to do; may be empty */
};

struct host {
	const char *root;	/* "" for the real one */
	const char *release;	/* uname -r */
	int (*try_bpf)(void);	/* makes and drops a BPF map: 0 or -errno */
	int (*try_no_command)(void);	/* gives bpf(2) BPF_HOST_NO_COMMAND: -errno */
	int (*try_tracing)(void);	/* the same, a program of the type that fentry takes; -EPERM: forbidden */
};

/* uname, and bpf(2). */
void host_here(struct host *host);

/* The i-th check's name, with its outcome in *check; NULL past the last. */
const char *host_check(const struct host *host, size_t i, struct host_check *check);

/* What doctor can say once it knows whether a daemon answers: checks of the caller matter less. */
const char *host_check_verdict_name(enum check_verdict verdict);

#endif
