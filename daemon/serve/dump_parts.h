/*
 * dump_parts: the list of dumps for clients, and the parts of a dump's file, one for each request: so each client reads
 * at its own speed. In: requests of sessions. Out: Dumps frames. Main thread; the disk thread reads the files.
 */
#ifndef RINGTAIL_DAEMON_SERVE_DUMP_PARTS_H
#define RINGTAIL_DAEMON_SERVE_DUMP_PARTS_H

#include "daemon/serve/session.h"
#include "daemon/stream/fanout.h"
#include "daemon/trigger/dumps.h"

struct dump_parts;

/* NULL: out of memory. What it is given is borrowed for its life; dumps NULL: there is no state directory. */
struct dump_parts *dump_parts_create(struct fanout *fanout, struct dumps *dumps,
				     struct disk_thread *disk_thread, struct frame_codec *codec);

/* Once the disk thread has settled. NULL is safe. */
void dump_parts_destroy(struct dump_parts *parts);

/* A list, or a part: session_answer() follows, perhaps before this returns. */
void dump_parts_ask(struct dump_parts *parts, struct session *session,
		    const Ringtail__V1__DumpsRequest *request);

/* The session goes: it is not answered. */
void dump_parts_leave(struct dump_parts *parts, const struct session *session);

#endif
