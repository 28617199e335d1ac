/*
 * changes: what operators may do: enable and disable what is always on, and give up a durable
 * consumer. One at a time, in the order in which they were asked for:
 *
 *	ask -> judged -> audit.log, synced -> state-dir/probes, synced -> in force -> answered
 *
 * An attempt that cannot be written to the audit log is refused, and so is one that would not
 * outlive the daemon. Main thread; the disk's part on the disk thread.
 */
#ifndef RINGTAIL_DAEMON_CHANGES_H
#define RINGTAIL_DAEMON_CHANGES_H

#include "daemon/config.h"
#include "daemon/disk_thread.h"
#include "daemon/error.h"
#include "daemon/fanout.h"
#include "daemon/gate.h"
#include "daemon/session.h"

struct changes;

struct changes_config {
	const struct gate *gate;
	struct fanout *fanout;
	struct frame_codec *codec;
	const Ringtail__V1__Catalog *catalog;
	struct disk_thread *disk_thread;	/* NULL: nothing can be kept, so nothing changed */
	struct frame_ref *(*stat)(void *context);	/* what a Forget is answered with */
	void *context;
};

int changes_create(const struct changes_config *config, struct changes **changes,
		   struct error *error);

/* After the disk thread. NULL is safe. */
void changes_destroy(struct changes *changes);

/* What operators did before, from the state directory: before changes_set_config(). Blocks. */
int changes_load(struct changes *changes, struct disk *disk, struct error *error);

/*
 * Puts in force what the configuration says and operators made of it. Of what operators enabled, what
 * this host's catalog does not have is left out, with a warning.
 */
int changes_set_config(struct changes *changes, const struct config *config, struct error *error);

/* A Probes frame; NULL: out of memory. */
struct frame_ref *changes_list(const struct changes *changes);

/* session_answer() follows. */
void changes_ask(struct changes *changes, struct session *session,
		 const Ringtail__V1__Change *change);
void changes_ask_forget(struct changes *changes, struct session *session, const char *consumer);

/* The session goes: what it asked for is done all the same, and not answered. */
void changes_leave(struct changes *changes, const struct session *session);

#endif
