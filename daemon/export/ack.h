/*
 * export_ack: how far a back end has dealt with what it was given: of this run of the rings by
 * ring, of an earlier one, out of the spool, by CPU. What is acknowledged is not sent again by the
 * next run of the daemon, and the spool need not keep it. Main thread.
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
		EXPORT_PLACE_RING,	/* this run's: number `of`, up to `seq` */
		EXPORT_PLACE_CPU,	/* an earlier run's */
		EXPORT_PLACE_RUN,	/* all before that run: its epoch is `seq` */
		EXPORT_PLACE_NOWHERE,	/* all before a run that has no name */
	} kind;
	uint32_t of;
	uint64_t seq;
	uint8_t boot_id[16];
};

struct export_ack;

/* NULL: out of memory. */
struct export_ack *export_ack_create(uint32_t rings, struct frame_codec *codec);
void export_ack_destroy(struct export_ack *ack);

/* Where a stream begins: what is before is not its to send. */
void export_ack_begin(struct export_ack *ack, const struct stream *stream);

/* Of a frame that was just sent. */
struct export_place export_ack_place(const struct export_ack *ack, const struct stream *stream,
				     const struct frame_ref *frame);

/* In the order in which the frames were given. */
void export_ack_settle(struct export_ack *ack, const struct export_place *place);

/* Tells the tap what was settled since the last time. */
void export_ack_tell(struct export_ack *ack, struct fanout_tap *tap);

#endif
