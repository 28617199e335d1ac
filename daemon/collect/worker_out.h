/*
 * worker_out: what a worker sends to the main thread: finished frames and answers. Shared by worker*.c
 * alone; the worker's thread, but for worker_out_taken().
 *
 * A frame needs memory for its mail, and where there is none it is not taken: its batcher owes it. An
 * answer is promised with its order, so its mail is made then.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_WORKER_OUT_H
#define RINGTAIL_DAEMON_COLLECT_WORKER_OUT_H

#include <stdatomic.h>

#include "daemon/collect/worker.h"

struct worker_out {
	uint32_t id;			/* the worker's */
	struct mailbox *mailbox;
	struct frame_codec *codec;
	_Atomic uint64_t bytes;		/* sent and not yet taken by the main thread */
};

/* A mail of this worker; NULL: out of memory. */
struct worker_mail *worker_out_mail(const struct worker_out *out, enum worker_mail_kind kind,
				    uint32_t positions);
void worker_out_send(struct worker_out *out, struct worker_mail *mail);

/* A batcher_sink, `context` being a worker_out. */
bool worker_out_frame(void *context, uint32_t subscription, struct frame_ref *frame);

/* Where there is no memory for one, the next says the same and more. */
void worker_out_watermark(struct worker_out *out, uint64_t time_ns);

#endif
