/*
 * watch: a subscription of the daemon's own, whose events are decoded here, handed over one by one and dropped:
 *
 *	frame ─► event ─► event()
 *
 * What it may see is what a client of its role may see. What its stream lost is in the stream's ledger. Main thread: a
 * bounded number of frames in one turn of the loop.
 */
#ifndef RINGTAIL_DAEMON_ASK_WATCH_H
#define RINGTAIL_DAEMON_ASK_WATCH_H

#include <event2/event.h>

#include "daemon/stream/fanout.h"
#include "proto/batch_decode.h"

/* What decodes for all of them. */
struct ask_watches;

struct ask_watches_config {
	struct event_base *base;
	struct fanout *fanout;
	struct frame_codec *codec;
	const Ringtail__V1__Catalog *catalog;
};

/* NULL: out of memory. What it is given is borrowed for its life. */
struct ask_watches *ask_watches_create(const struct ask_watches_config *config);

/* After the last of them has ended. NULL is safe. */
void ask_watches_destroy(struct ask_watches *watches);

struct ask_watch {
	/* Its owner's. */
	struct ask_watches *watches;
	enum role role;
	char name[IDENTITY_TEXT_BYTES];		/* as which it subscribes */
	/* Of a subscription with a question, item->counts says how many events it stands for. */
	void (*event)(void *context, const Ringtail__V1__Probe *probe, uint32_t cpu, const struct batch_item *item);
	void (*refused)(void *context, const struct error *error);	/* after it began; nothing comes */
	void *context;

	/* Its own; zeros at first. */
	struct client_identity identity;
	struct subscriber subscriber;
	struct stream *stream;		/* NULL: its probes are not recorded yet, or were refused */
	struct event *turn;		/* there are more frames than one turn takes */
	uint64_t taken;			/* events that were handed over, or could not be */
};

/* 0, or -errno with *error: it may not, or out of memory. End it then, too. */
int ask_watch_begin(struct ask_watch *watch, const struct subscription_request *what, struct error *error);

/* Not from inside event() or refused(). Twice is safe. */
void ask_watch_end(struct ask_watch *watch);

/* What of its ledger does not add up. */
int64_t ask_watch_residual(const struct ask_watch *watch);

#endif
