/*
 * ring_note: what a ring's reader leaves in its consumer page, so that the next one goes on counting
 * where it ended, however it ended: two notes, written in turn (struct rt_ring_note).
 *
 * In: the reader's place. Out: the same, in a later process. On the thread that owns the reader.
 */
#ifndef RINGTAIL_DAEMON_RING_NOTE_H
#define RINGTAIL_DAEMON_RING_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "kmod/uapi/ringtail.h"

/* No ring makes as many attempts in a hundred years: one that says so is wrong. */
#define RING_SEQ_MAX (1ull << 62)

/* Puts down what belongs to note->pos, which is to become consumer_pos next, or is it. */
void ring_note_write(struct rt_ring_consumer *consumer, const struct rt_ring_note *note);

/*
 * The note that belongs to `pos`, the consumer_pos. False: there is none, or none that can be true of
 * a ring that has lost `lost_total` by now: nobody knows how its attempts were numbered.
 */
bool ring_note_read(const struct rt_ring_consumer *consumer, uint64_t pos, uint64_t lost_total,
		    struct rt_ring_note *note);

#endif
