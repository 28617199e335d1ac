/* control_spool: the spools' part of a Stat. Main thread. */
#ifndef RINGTAIL_DAEMON_SERVE_CONTROL_SPOOL_H
#define RINGTAIL_DAEMON_SERVE_CONTROL_SPOOL_H

#include "daemon/spool/spool.h"
#include "proto/ringtail.pb-c.h"

struct control_spools;

/*
 * Fills spool, durability and loss_window_ns of *stat, with what the answer owns: destroy it after
 * the stat is packed. spooler: NULL where nothing is kept on disk. NULL: out of memory.
 */
struct control_spools *control_spools_fill(const struct spooler *spooler,
					   uint64_t batch_interval_ns, Ringtail__V1__Stat *stat);
void control_spools_destroy(struct control_spools *spools);

/* "written": what a crash leaves. */
const char *control_durability(const struct spooler *spooler);

#endif
