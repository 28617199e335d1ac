/*
 * reach: how far back in time a subscription's log goes. In: when recording began, and what the log
 * gives up. Out: from which time on it is whole, and where each ring stood at an earlier one. Main
 * thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_REACH_H
#define RINGTAIL_DAEMON_STREAM_REACH_H

#include <stdbool.h>
#include <stdint.h>

struct reach;

struct reach *reach_create(uint32_t rings);	/* NULL: out of memory */
void reach_destroy(struct reach *reach);

/* Recording has begun: each ring with the attempt seq[ring]. */
void reach_begin(struct reach *reach, uint64_t time_ns, const uint64_t *seq);

/* The log gives up a watermark that was made then: of each ring, it has given up what is before seq[ring]. */
void reach_give_up(struct reach *reach, uint64_t time_ns, const uint64_t *seq);

/* And attempts behind it. */
void reach_tear(struct reach *reach);

/* When recording began; UINT64_MAX: it has not. */
uint64_t reach_recorded_ns(const struct reach *reach);

/* The log has all that was recorded from that time on. */
bool reach_holds(const struct reach *reach, uint64_t time_ns);

/* Where ring stood at that time, or somewhat before it: at the last mark that is not after it. */
uint64_t reach_seq(const struct reach *reach, uint64_t time_ns, uint32_t ring);

#endif
