/*
 * ringtail_tap: a recording of what comes: its hello, each frame, and its end. See ringtail.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/lib/cursor_message.h"
#include "client/lib/failure.h"
#include "client/lib/ringtail_private.h"

void ringtail_set_tap(struct ringtail *ringtail,
		      void (*tap)(void *context, const uint8_t *frame, size_t bytes), void *context)
{
	ringtail->tap = tap;
	ringtail->tap_context = context;
	/* A recording begins with the hello, which came before anyone could tap. */
	if (tap && ringtail->hello_bytes)
		tap(context, ringtail->hello, ringtail->hello_bytes);
}

static int give_bye(struct ringtail *ringtail, const Ringtail__V1__Bye *bye,
		    struct ringtail_error *error)
{
	size_t raw_bytes = ringtail__v1__bye__get_packed_size(bye), bytes;
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t *raw = malloc(raw_bytes), *frame = malloc(frame_bound((uint32_t)raw_bytes));
	int err = 0;

	if (codec && raw && frame) {
		ringtail__v1__bye__pack(bye, raw);
		bytes = frame_seal(codec, FRAME_BYE, raw, (uint32_t)raw_bytes, frame);
		ringtail->tap(ringtail->tap_context, frame, bytes);
	} else {
		err = failure_set(error, ENOMEM, "no-memory", "out of memory for the recording's end");
	}
	frame_codec_destroy(codec);
	free(raw);
	free(frame);
	return err;
}

int ringtail_end_tap(struct ringtail *ringtail, const char *reason, struct ringtail_error *error)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	struct cursor_message end;
	int err;

	if (!ringtail->tap)
		return 0;
	intake_cursor_come(ringtail->intake, &ringtail->cursor);
	err = cursor_message_init(&end, &ringtail->cursor, error);
	if (err)
		return err;
	bye.reason = (char *)reason;
	bye.end = &end.message;
	bye.final = true;
	err = give_bye(ringtail, &bye, error);
	cursor_message_fini(&end);
	ringtail->tap = NULL;
	return err;
}
