/*
 * recording: a file of frames, for replay. In: its path. Out: its catalog, and the events and
 * losses of all its CPUs in one time order.
 *
 * Opening reads the file once, from end to end, and decodes all of it: whoever gets a recording can
 * play it. What is kept is where each CPU's batches lie. One thread at a time.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_RECORDING_H
#define RINGTAIL_DAEMON_SOURCE_RECORDING_H

#include <stdint.h>

#include "query/error.h"
#include "daemon/ring/probe_table.h"
#include "proto/batch_decode.h"
#include "proto/ringtail.pb-c.h"

struct recording;

enum recording_read {
	RECORDING_EVENT,
	RECORDING_LOSS,		/* item.loss stands here: a loss of the batch's, or a gap */
	RECORDING_END,
	RECORDING_FAILED,	/* the file is not any more what was opened */
};

struct recording_item {
	unsigned stream;		/* which CPU's, from 0 */
	const struct batch_item *batch;	/* event; borrowed until the next call */
	const struct batch_decoder *decoder;	/* to ask who the threads in its fields are */
	struct batch_loss loss;
};

/*
 * -ENOENT and the like, or -EBADMSG with the offset of the frame that is none or does not fit the
 * others.
 */
int recording_open(const char *path, struct recording **recording, struct error *error);
void recording_close(struct recording *recording);

/* All probes that the file names. Borrowed. */
const Ringtail__V1__Catalog *recording_catalog(const struct recording *recording);
const struct probe_table *recording_probes(const struct recording *recording);

/* Streams are the CPUs that the file speaks of, in order. */
unsigned recording_streams(const struct recording *recording);
uint32_t recording_cpu(const struct recording *recording, unsigned stream);

/* The oldest event's time; 0 if there is no event. */
uint64_t recording_first_ns(const struct recording *recording);

/* What comes next. RECORDING_END and RECORDING_FAILED are for good. */
enum recording_read recording_next(struct recording *recording, struct recording_item *item,
				   struct error *error);

#endif
