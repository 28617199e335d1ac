/*
 * export_ack: how far a back end has dealt with what it was given: of this run of the rings, and of an
 * earlier one, out of the spool. What is acknowledged is not sent again by the next run of the daemon,
 * and the spool need not keep it. Main thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_ACK_H
#define RINGTAIL_DAEMON_EXPORT_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/stream/fanout.h"
#include "proto/frame.h"

/* What it means that a frame is dealt with. */
struct export_place {
	enum {
		EXPORT_PLACE_NONE,
		EXPORT_PLACE_HERE,	/* this run's: `cpu`, up to `seq` */
		EXPORT_PLACE_EARLIER,	/* the same of an earlier one's */
		EXPORT_PLACE_RUN,	/* all before `run` */
		EXPORT_PLACE_NOWHERE,	/* all before a run that has no name */
	} kind;
	uint32_t cpu;
	uint64_t seq;
	struct run run;
};

struct export_ack;

/* NULL: out of memory. */
struct export_ack *export_ack_create(const struct run *run, uint32_t rings,
				     struct frame_codec *codec);
void export_ack_destroy(struct export_ack *ack);

/* Where a stream begins: what is before is not its to send. */
void export_ack_begin(struct export_ack *ack, const struct stream *stream);

/* Of a frame that was just sent. */
struct export_place export_ack_place(const struct export_ack *ack, const struct stream *stream,
				     const struct frame_ref *frame);

/* In the order in which the frames were given. */
void export_ack_settle(struct export_ack *ack, const struct export_place *place);

/* Tells what was settled since the last time. */
void export_ack_tell(struct export_ack *ack, struct fanout *fanout,
		     struct subscriber *subscriber);

#endif
