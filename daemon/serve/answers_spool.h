/* control_spool: the spools' part of a Stat. Main thread. */
#ifndef RINGTAIL_DAEMON_SERVE_ANSWERS_SPOOL_H
#define RINGTAIL_DAEMON_SERVE_ANSWERS_SPOOL_H

#include "daemon/spool/spool.h"
#include "proto/ringtail.pb-c.h"

struct answers_spools;

/*
 * Fills spool, durability and loss_window_ns of *stat, with what the answer owns: destroy it after
 * the stat is packed. spooler: NULL where nothing is kept on disk. NULL: out of memory.
 */
struct answers_spools *answers_spools_fill(const struct spooler *spooler,
					   uint64_t batch_interval_ns, Ringtail__V1__Stat *stat);
void answers_spools_destroy(struct answers_spools *spools);

/* "written": what a crash leaves. */
const char *answers_durability(const struct spooler *spooler);

#endif
