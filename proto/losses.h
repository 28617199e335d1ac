/*
 * losses: why events are lost, and what to do about it: the rows of losses.def, for daemon and client.
 */
#ifndef RINGTAIL_PROTO_LOSSES_H
#define RINGTAIL_PROTO_LOSSES_H

struct loss_reason {
	const char *name;	/* "ring-full" */
	const char *what;	/* happened */
	const char *remedy;
};

/* Of an enum LossReason; one that this program does not know is "unknown". Never NULL. */
const struct loss_reason *loss_reason(unsigned reason);

#endif
