/*
 * stat: gathers how the daemon stands from every room's own account. In: the rooms; out: one plain struct
 * (metrics/stat.h). Main thread.
 */
#ifndef RINGTAIL_DAEMON_SERVE_STAT_H
#define RINGTAIL_DAEMON_SERVE_STAT_H

#include "daemon/metrics/stat.h"
#include "daemon/serve/answers.h"

/*
 * session[]: the clients to tell of, of so many that are connected. For daemon_stat_free(); NULL: out of
 * memory.
 */
struct daemon_stat *stat_gather(const struct answers *answers, struct session *const *session,
				unsigned sessions, unsigned connected);

/* The spools of stat, and what a crash costs by their durability. NULL: nothing is kept on disk. */
int stat_gather_spools(struct daemon_stat *stat, const struct spooler *spooler,
		       uint64_t batch_interval_ns);

/* "written": what a crash leaves. */
const char *stat_durability(const struct spooler *spooler);

#endif
