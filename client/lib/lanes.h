/*
 * lanes: one stream that has the frames of several hosts. Behind a Consign that names a host its first frames stand,
 * and behind each later Consign of the same lane more of them.
 *
 *	Consign(0, "web-1") hello catalog batch ... Consign(1, "web-2") hello ... Consign(0) batch ...
 *
 * In: a descriptor. Out: for each host a handle, read as a file's is (fed.h). One thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_LANES_H
#define RINGTAIL_CLIENT_LIB_LANES_H

#include "client/lib/ringtail.h"

struct lanes;

/* What of each host's events is wanted; all borrowed. */
struct lanes_wanted {
	uint64_t since_ns, until_ns;		/* as ringtail_set_span() */
	const char *const *probe;		/* as ringtail_select() */
	size_t probes;
	const char *filter;
};

/* `fd` is taken, also on failure; `name` is for messages. -EINVAL with *error: a probe or the filter is wrong. */
int lanes_open(int fd, const char *name, const struct lanes_wanted *wanted, struct lanes **lanes,
	       struct ringtail_error *error);

/* With all handles. NULL is safe. */
void lanes_close(struct lanes *lanes);

/* A descriptor that ends any wait by becoming readable; -1: none. */
void lanes_set_interrupt(struct lanes *lanes, int fd);

enum lanes_next {
	LANES_FRAME,			/* the lane's handle has one more: read it until RINGTAIL_TIMEOUT */
	LANES_TIMEOUT,
	LANES_INTERRUPTED,
	LANES_END,			/* no handle will get any more */
	LANES_FAILED,			/* so too, and *error says why */
};

/* Takes the next frame; *lane: whose it is, which may be one more than there were. timeout_ms < 0: waits for it. */
enum lanes_next lanes_next(struct lanes *lanes, int timeout_ms, size_t *lane, struct ringtail_error *error);

size_t lanes_count(const struct lanes *lanes);

/* The handle stays lanes'; the host's name is visible text. Both until lanes_close(). */
struct ringtail *lanes_handle(const struct lanes *lanes, size_t lane);
const char *lanes_host(const struct lanes *lanes, size_t lane);

#endif
