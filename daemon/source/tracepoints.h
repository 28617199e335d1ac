/*
 * tracepoints: the tracepoints of the running kernel, with their formats.
 *
 * In: tracefs, once, while it can be opened. Out: names, and the text of each format, from a file in memory:
 * they are of two megabytes, and seldom read. One thread at a time.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_TRACEPOINTS_H
#define RINGTAIL_DAEMON_SOURCE_TRACEPOINTS_H

#include <stddef.h>

struct tracepoints;

/*
 * The root of tracefs: where it is mounted, or else a mount of our own that nobody else sees, which
 * takes CAP_SYS_ADMIN. A descriptor to close, or -errno.
 */
int tracepoints_open_tracefs(void);

/*
 * In the order of their names, at most TRACEPOINTS_MAX, without those that cannot be read. Without a tracefs that can be
 * read there are none; -ENOMEM is the only failure.
 */
int tracepoints_read(struct tracepoints **tracepoints);

void tracepoints_destroy(struct tracepoints *tracepoints);

unsigned tracepoints_count(const struct tracepoints *tracepoints);

/* How many more the kernel has. */
unsigned tracepoints_beyond(const struct tracepoints *tracepoints);

const char *tracepoints_system(const struct tracepoints *tracepoints, unsigned i);
const char *tracepoints_name(const struct tracepoints *tracepoints, unsigned i);

/* The i-th one's format, at most TRACEPOINT_FORMAT_BYTES_MAX; how many bytes, or -errno: -EFBIG: it is longer. */
int tracepoints_format(const struct tracepoints *tracepoints, unsigned i, char *text);

#endif
