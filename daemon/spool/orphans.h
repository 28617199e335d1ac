/*
 * spool_orphans: the spools on disk that no subscription writes to: nobody asks for their probes any
 * more (unused), or a durable consumer does whose probes this kernel lacks (held).
 *
 * In: which spools are asked for, looked at anew with each turn. Out: they age and shrink as the others
 * do, with one bound for all that are unused, until nothing of them is left; and what there is of them.
 * Main thread; the files are the disk thread's alone.
 */
#ifndef RINGTAIL_DAEMON_SPOOL_ORPHANS_H
#define RINGTAIL_DAEMON_SPOOL_ORPHANS_H

#include "daemon/spool/spool.h"

struct spool_orphans;

/* Calls `asked_for` with each name that a subscription's spool has, then `held` with each that is held. */
typedef void spool_orphans_names(void *context, spooler_name *asked_for, spooler_name *held,
				 void *names);

/* The config is borrowed for its life. NULL: out of memory. */
struct spool_orphans *spool_orphans_create(const struct spooler_config *config,
					   spool_orphans_names *each_name, void *context);

/* Only the turn that is under way ends yet. NULL is safe. */
void spool_orphans_stop(struct spool_orphans *orphans);

/* After the disk thread has settled. NULL is safe. */
void spool_orphans_destroy(struct spool_orphans *orphans);

/* With each tick: looks for them, now and then. */
void spool_orphans_turn(struct spool_orphans *orphans);

/* No subscription uses these segments: deletes them soon. */
void spool_orphans_remove(struct spool_orphans *orphans, const char *name);

unsigned spool_orphans_count(const struct spool_orphans *orphans);
void spool_orphans_each(const struct spool_orphans *orphans,
			void (*each)(void *context, const struct spool_stat *stat), void *context);

#endif
