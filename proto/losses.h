/*
 * losses: where and why events are lost, and what to do about it: the rows of losses.def, for daemon and client.
 */
#ifndef RINGTAIL_PROTO_LOSSES_H
#define RINGTAIL_PROTO_LOSSES_H

/* Where: LossStage of the wire, number for number. */
enum loss_stage {
	LOSS_STAGE_RING,	/* in the kernel */
	LOSS_STAGE_DECODE,	/* the record was not understood */
	LOSS_STAGE_QUEUE,	/* the client was too slow */
	LOSS_STAGE_HISTORY,	/* asked for too late */
	LOSS_STAGE_SPOOL,	/* not on disk, where it should be */
	LOSS_STAGE_EXPORT,	/* a back end did not get it */
	LOSS_STAGES,
};

/* Why: LossReason of the wire, number for number. */
enum loss_reason {
#define LOSS_REASON(symbol, name, what, remedy) LOSS_REASON_##symbol,
#include "proto/losses.def"
#undef LOSS_REASON
	LOSS_REASONS,
};

struct loss_text {
	const char *name;	/* "ring-full" */
	const char *what;	/* happened */
	const char *remedy;
};

/* Of a reason as it came; one that this program does not know is "unknown". Never NULL. */
const struct loss_text *loss_text(unsigned reason);

#endif
