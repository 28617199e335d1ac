/*
 * closeup: one process, as its page shows it: what it calls, how long that takes, the files and the peers that it
 * names.
 *
 *	request ─► watch (`syscall`, pid == PID) ─► counts by call, file, peer ─► JSON
 *
 * A closeup begins when somebody asks for it, with the role of who asks: it shows what a client of that role may see, so
 * a viewer gets files and peers only where `viewer-strings` allows them. It ends when nobody has asked for it for a
 * while. There are few at once, for each role. Main thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_CLOSEUP_H
#define RINGTAIL_DAEMON_HTTP_CLOSEUP_H

#include <stdint.h>
#include <stdio.h>

#include "daemon/ask/watch.h"
#include "daemon/host/identity.h"
#include "query/error.h"

struct closeups;

/* NULL: out of memory. What it is given is borrowed for its life. */
struct closeups *closeups_create(const struct ask_watches_config *config);

/* Before the fanout. NULL is safe. */
void closeups_destroy(struct closeups *closeups);

/*
 * Writes one JSON object: counts since the closeup began. 0; -EBUSY with *error: too many are open; -EACCES or another
 * -errno with *error: that role may not ask.
 */
int closeups_write(struct closeups *closeups, uint32_t pid, enum role role, FILE *out, struct error *error);

#endif
