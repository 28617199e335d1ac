/*
 * rebatch: a frame of one subscription in, the frame of the same attempts as another would have had it out:
 * what that did not ask for is counted as skipped. Or several frames in, and one out. Its probes and its filter are those of the catalog of
 * the run that the frame is of. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_REBATCH_H
#define RINGTAIL_DAEMON_STREAM_REBATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/frame_ref.h"
#include "daemon/stream/subscription.h"

struct rebatch;

/* All borrowed but the catalog; the encoder may be others' too, between two calls. NULL: out of memory. */
struct rebatch *rebatch_create(const struct subscription *wanted,
			       const Ringtail__V1__Catalog *catalog, struct frame_codec *codec,
			       struct batch_encoder *encoder);
void rebatch_destroy(struct rebatch *rebatch);

/* A catalog's frame: of the frames after it. False: there is no memory for it, and nothing has changed. */
bool rebatch_learn(struct rebatch *rebatch, const struct frame_ref *catalog);

/* The filter is not valid with that run's catalog: it selects no event of it. */
bool rebatch_is_blind(const struct rebatch *rebatch);

/*
 * Of an earlier run, the filter and globs might select events of programs that are not shown: whose they were, only
 * that run knew. Of such a subscription's owner there are none then.
 */
bool rebatch_hides_programs(const struct rebatch *rebatch);

/*
 * A batch's or gap's attempts from `from` on and before `end`. A batch with bytes becomes one with bytes, though
 * it be empty; one that cannot be read becomes a gap. NULL: there is no memory for it.
 */
struct frame_ref *rebatch_frame(struct rebatch *rebatch, struct frame_ref *frame, uint64_t from,
				uint64_t end);

/*
 * One batch of all the attempts of several, which are of one ring and of the wanted subscription itself, one behind
 * the other; some may have no bytes. The frames stay the caller's. NULL: they do not fit into one, one cannot be
 * read, or there is no memory for it.
 */
struct frame_ref *rebatch_join(struct rebatch *rebatch, struct frame_ref *const *frame, unsigned frames);

/* The same without its content, for whoever only counts: how many events of it are left is not known. */
void rebatch_cut(const struct frame_ref *frame, uint64_t from, uint64_t end, struct frame_ref *part);

#endif
