/*
 * source_bpf_check: why BPF will not do here, as a person can act on it.
 *
 * In: errno, this process's rights, the kernel's files, what libbpf printed. Out: an error with its
 * code, text and hint. The loader's one thread: libbpf has one place for its output in a process.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_CHECK_H
#define RINGTAIL_DAEMON_SOURCE_BPF_CHECK_H

#include <stdbool.h>

#include "query/error.h"

/* Whether the running kernel is of that version, or newer. */
bool source_bpf_check_kernel(unsigned major, unsigned minor);

/* From now on libbpf prints nothing; the end of what it would have said is kept for the errors. */
void source_bpf_check_capture(void);

/*
 * What can be known before anything is loaded: bpf(2), capabilities, BTF. Also notes what the kernel is locked down to,
 * for later failures: then this process may open no file.
 */
int source_bpf_check_host(struct error *error);

/*
 * What the verifier wrote of a program that it refused, for the next failure; "": nothing, it came from elsewhere.
 * Cuts the text.
 */
void source_bpf_check_verifier(char *log);

/* Says why opening, loading or attaching failed with -err. Returns -err. Opens nothing: the sandbox may be closed. */
int source_bpf_check_failure(struct error *error, int err, const char *doing);

#endif
