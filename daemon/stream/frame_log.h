/*
 * frame_log: the finished frames of one subscription in order, the newest history_bytes of them.
 *
 * Each client is sent frames from its own place in the log, and a client that reconnects resumes at its place: so no
 * client has a queue. Entries are numbered by serials that only grow. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_FRAME_LOG_H
#define RINGTAIL_DAEMON_STREAM_FRAME_LOG_H

#include <stdint.h>

#include "daemon/base/frame_ref.h"

struct frame_log;

/* Called for each entry before it is given up: for a newer one, or because memory is scarce. */
typedef void frame_log_evict(void *context, uint64_t serial, const struct frame_ref *frame,
			     enum loss_reason reason);

struct frame_log *frame_log_create(uint64_t bytes_max, frame_log_evict *evict, void *context);
void frame_log_destroy(struct frame_log *log);

/*
 * Takes over the reference. The newest frame is always kept. Where there is no memory for one more
 * entry, the oldest makes room.
 */
void frame_log_append(struct frame_log *log, struct frame_ref *frame);

/* Gives up the oldest entry, unless it is the only one. */
void frame_log_evict_oldest(struct frame_log *log, enum loss_reason reason);

/* A new bound, from the next append on. */
void frame_log_set_bytes_max(struct frame_log *log, uint64_t bytes_max);

/* Serials of the oldest entry, and one past the newest. */
uint64_t frame_log_first(const struct frame_log *log);
uint64_t frame_log_end(const struct frame_log *log);

/* Borrowed; serial must be in first .. end - 1. */
struct frame_ref *frame_log_get(const struct frame_log *log, uint64_t serial);

/* Bytes, and attempts, of the entries from serial (first .. end) on. */
uint64_t frame_log_bytes_from(const struct frame_log *log, uint64_t serial);
uint64_t frame_log_attempts_from(const struct frame_log *log, uint64_t serial);

#endif
