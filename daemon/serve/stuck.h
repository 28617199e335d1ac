/*
 * stuck: clients that ask which threads are in a system call now, one after the other: each question is
 * one to the loader. In: what sessions ask; the loader's answer, a file of threads. Out: Stuck frames,
 * with those threads that pass the client's filter. Main thread.
 */
#ifndef RINGTAIL_DAEMON_SERVE_STUCK_H
#define RINGTAIL_DAEMON_SERVE_STUCK_H

#include "daemon/serve/session.h"
#include "daemon/stream/fanout.h"
#include "proto/ringtail.pb-c.h"

struct stuck;

/* NULL: out of memory. What it is given is borrowed for its life. */
struct stuck *stuck_create(struct fanout *fanout, struct frame_codec *codec,
			   const Ringtail__V1__Catalog *catalog);

/* Before fanout. Nobody is answered. NULL is safe. */
void stuck_destroy(struct stuck *stuck);

/* session_answer() follows, perhaps before this returns. */
void stuck_ask(struct stuck *stuck, struct session *session,
	       const Ringtail__V1__StuckRequest *request);

/* The session goes: it is not answered. */
void stuck_leave(struct stuck *stuck, const struct session *session);

#endif
