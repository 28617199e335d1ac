/* recording_private: a recording's inside, for recording*.c alone. */
#ifndef RINGTAIL_DAEMON_SOURCE_RECORDING_PRIVATE_H
#define RINGTAIL_DAEMON_SOURCE_RECORDING_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/source/recording.h"
#include "proto/frame.h"
#include "proto/limits.h"

/* Where one batch lies, or a gap of its CPU's. */
struct recording_part {
	uint64_t offset;
	struct batch_loss gap;		/* .count is 0 for a batch */
};

struct recording_stream {
	uint32_t cpu;
	unsigned index;
	struct recording_part *part;
	size_t parts, next_part;

	/* What comes next of it, looked at ahead of time. */
	struct batch_decoder *decoder;
	uint8_t *raw;			/* of the open batch, FRAME_RAW_BYTES_MAX */
	bool is_open;
	enum recording_read ready;
	struct batch_item item;
	struct batch_loss loss;
	uint64_t time_ns;		/* of `item`; of a loss, that of the event before it */
};

struct recording {
	char *path;
	int fd;
	uint64_t size_bytes;
	uint64_t first_ns;
	struct frame_codec *codec;
	uint8_t *frame;			/* one frame as it lies in the file */
	uint8_t *raw;			/* for opening: the body of that frame */
	Ringtail__V1__Catalog **catalogs;	/* as they came; `catalog` borrows from them */
	size_t catalog_count;
	Ringtail__V1__Catalog catalog;
	struct probe_table probes;
	struct batch_probe batch_probe[RT_PROBE_MAX];

	struct recording_stream *stream[RT_CPUS_MAX];	/* by CPU until opened, then packed */
	unsigned streams;
	struct recording_stream *current;
	uint64_t turn_end_ns;		/* up to here no other stream is older */
	enum recording_read over;	/* END or FAILED, once it is */
};

/* Why the frame at `offset` is none that could be played, as an error: -EBADMSG. */
__attribute__((format(printf, 4, 5)))
int recording_bad_frame(const struct recording *recording, uint64_t offset, struct error *error,
			const char *format, ...);

/* Reads the frame at `offset` and checks it. Its body is in `raw` then, always. */
int recording_read_frame(struct recording *recording, uint64_t offset, uint8_t *raw,
			 struct frame_header *header, struct error *error);

#endif
