/*
 * recording_play: the events and losses of a recording, one by one. See recording.h.
 *
 * The batches of different CPUs lie in the file as they were flushed, not in order of time, so each
 * CPU is a stream of its own with its own decoder, and the stream with the oldest event goes next.
 */
#include "daemon/source/recording_private.h"

/* Opens a stream's next batch, or makes its next gap ready. */
static int open_part(struct recording *recording, struct recording_stream *stream,
		     struct error *error)
{
	const struct recording_part *part = &stream->part[stream->next_part++];
	struct batch_summary summary;
	struct frame_header header;
	int err;

	if (part->gap.count) {
		stream->loss = part->gap;
		stream->ready = RECORDING_LOSS;
		return 0;
	}
	err = recording_read_frame(recording, part->offset, stream->raw, &header, error);
	if (err)
		return err;
	if (batch_decode_open(stream->decoder, stream->raw, header.raw_bytes, &summary))
		return recording_bad_frame(recording, part->offset, error, "%s",
					   batch_decode_error(stream->decoder));
	stream->is_open = true;
	return 0;
}

/* Looks at what comes next of a stream. */
static int look_ahead(struct recording *recording, struct recording_stream *stream,
		      struct error *error)
{
	stream->ready = RECORDING_END;
	while (stream->ready == RECORDING_END) {
		if (!stream->is_open) {
			int err;

			if (stream->next_part == stream->parts)
				return 0;
			err = open_part(recording, stream, error);
			if (err)
				return err;
			continue;
		}
		switch (batch_decode_next(stream->decoder, &stream->item)) {
		case BATCH_EVENT:
			stream->time_ns = stream->item.event.time_ns;
			stream->ready = RECORDING_EVENT;
			break;
		case BATCH_LOSS:
			stream->loss = stream->item.loss;
			stream->ready = RECORDING_LOSS;
			break;
		case BATCH_END:
			stream->is_open = false;
			break;
		case BATCH_ERROR:
			return recording_bad_frame(recording,
						   stream->part[stream->next_part - 1].offset,
						   error, "%s",
						   batch_decode_error(stream->decoder));
		}
	}
	return 0;
}

/* Gives the turn to the stream that is oldest, for as long as it is. NULL: all are at their end. */
static struct recording_stream *choose_stream(struct recording *recording)
{
	recording->current = NULL;
	recording->turn_end_ns = UINT64_MAX;
	for (unsigned i = 0; i < recording->streams; i++) {
		struct recording_stream *stream = recording->stream[i];

		if (stream->ready == RECORDING_END)
			continue;
		if (!recording->current || stream->time_ns < recording->current->time_ns) {
			if (recording->current)
				recording->turn_end_ns = recording->current->time_ns;
			recording->current = stream;
		} else if (stream->time_ns < recording->turn_end_ns) {
			recording->turn_end_ns = stream->time_ns;
		}
	}
	return recording->current;
}

/* The first call looks at every stream, each later one at the one whose item was given out. */
static int look_on(struct recording *recording, struct error *error)
{
	int err = 0;

	if (recording->current)
		return look_ahead(recording, recording->current, error);
	for (unsigned i = 0; i < recording->streams && !err; i++)
		err = look_ahead(recording, recording->stream[i], error);
	return err;
}

enum recording_read recording_next(struct recording *recording, struct recording_item *item,
				   struct error *error)
{
	struct recording_stream *stream;

	if (recording->over)
		return recording->over;
	if (look_on(recording, error))
		return recording->over = RECORDING_FAILED;
	stream = recording->current;
	if (!stream || stream->ready == RECORDING_END || stream->time_ns > recording->turn_end_ns)
		stream = choose_stream(recording);
	if (!stream)
		return recording->over = RECORDING_END;
	*item = (struct recording_item){
		.stream = stream->index,
		.batch = &stream->item,
		.decoder = stream->decoder,
		.loss = stream->loss,
	};
	return stream->ready;
}
