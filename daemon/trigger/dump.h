/*
 * dump: one dump while it is written: a subscriber whose frames go to a file, up to a time.
 *
 *	WAITING --subscribed--> WRITING --the time is come, or its bound--> ENDING --named--> done()
 *	                           `--the disk refuses--> ABORTING --deleted--> done()
 *
 * In: a stream: what is always on, from some time ago; or a probe, from now on. Out: a recording that ends with
 * a Bye which says what it is; its losses are Gaps in it. At most DUMP_TURN_BYTES are taken off the stream at
 * once, and the next only when these are on the disk: so nobody waits for it, and where memory gives up what
 * the dump has not written yet, that is a Gap in the dump alone. Main thread; the writing is done on the disk
 * thread.
 */
#ifndef RINGTAIL_DAEMON_TRIGGER_DUMP_H
#define RINGTAIL_DAEMON_TRIGGER_DUMP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/stream/fanout.h"
#include "daemon/trigger/dumps.h"

struct dump;

/* What all dumps are made with. */
struct dump_config {
	struct event_base *base;
	struct fanout *fanout;
	struct dumps *dumps;
	struct disk_thread *disk_thread;
	struct frame_codec *codec;
	const Ringtail__V1__Catalog *catalog;
	struct run run;
	struct frame_ref *(*hello)(void *context);	/* what files begin with */
	void *hello_context;
};

/* All borrowed for the call. */
struct dump_request {
	const char *trigger, *rule;
	const char *probe;		/* NULL: what is always on, */
	uint64_t since_realtime_ns;	/* from then on; else from now on */
	uint64_t until_ns;		/* CLOCK_MONOTONIC */
	uint64_t fired_realtime_ns;
};

/* It is over, and freed in a moment. *error says why there is no file; NULL: there is. */
typedef void dump_done(void *context, struct dump *dump, const struct error *error);

/* The config is borrowed for its life. 0: done() follows, never from within; or -errno with *error. */
int dump_begin(const struct dump_config *config, const struct dump_request *request, dump_done *done,
	       void *context, struct dump **dump, struct error *error);

/* The file it is written to, as `tracectl dumps` calls it. */
const char *dump_id(const struct dump *dump);

/* It ends now, with what it has; done() follows once the disk thread has settled. */
void dump_end(struct dump *dump, const char *why);

#endif
