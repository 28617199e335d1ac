/*
 * handoff: from a worker to the main thread. In: finished frames, answers, watermarks. Out: mails, in
 * order, with no more than HANDOFF_BYTES_MAX of frames on the way. The worker's thread, but for `bytes`.
 *
 * A frame needs memory for its mail, and where there is none it is not taken: its batcher owes it. An
 * answer is promised with its order, so its mail is made then.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_HANDOFF_H
#define RINGTAIL_DAEMON_COLLECT_HANDOFF_H

#include <stdatomic.h>

#include "daemon/collect/worker.h"

struct handoff {
	uint32_t id;			/* the worker's */
	struct mailbox *mailbox;
	struct frame_codec *codec;
	_Atomic uint64_t bytes;		/* sent and not yet taken by the main thread */
};

/* A mail of this worker; NULL: out of memory. */
struct worker_mail *handoff_mail(const struct handoff *handoff, enum worker_mail_kind kind,
				 uint32_t positions);
void handoff_send(struct handoff *handoff, struct worker_mail *mail);

/* A batcher_sink, `context` being a struct handoff. */
bool handoff_frame(void *context, uint32_t subscription, struct frame_ref *frame);

/* Where there is no memory for one, the next says the same and more. */
void handoff_watermark(struct handoff *handoff, uint64_t time_ns);

#endif
