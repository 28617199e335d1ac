#include "daemon/serve/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/collect/batcher.h"
#include "proto/limits.h"

static uint32_t flags_of(const Ringtail__V1__Subscribe *subscribe)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < subscribe->n_flag; i++) {
		if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_KSTACK)
			flags |= RT_FLAG_KSTACK;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_USTACK)
			flags |= RT_FLAG_USTACK;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_STRINGS)
			flags |= RT_FLAG_STRINGS;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_CONTEXT)
			flags |= RT_FLAG_CONTEXT;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_STACK_TABLE)
			flags |= SPEC_STACK_TABLE;
	}
	/* One that asks for no stacks shares with those that do not either. */
	return flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK) ? flags : flags & ~SPEC_STACK_TABLE;
}

static size_t cursor_bytes(const Ringtail__V1__Cursor *cursor)
{
	return cursor ? sizeof(struct cursor) + cursor->n_position * sizeof(struct position) : 0;
}

static size_t text_bytes(const Ringtail__V1__Subscribe *message)
{
	size_t bytes = strlen(message->filter) + 1 + strlen(message->consumer) + 1;

	for (size_t i = 0; i < message->n_probe; i++)
		bytes += strlen(message->probe[i]) + 1;
	return bytes;
}

static const char *copy_text(char **to, const char *text)
{
	const char *copy = *to;

	*to = stpcpy(*to, text) + 1;
	return copy;
}

struct subscribe_request *request_of_subscribe(const Ringtail__V1__Subscribe *message,
					       struct error *error)
{
	const Ringtail__V1__Cursor *since = message->since;
	struct subscribe_request *request;
	struct cursor *cursor;
	const char **glob;
	char *text;

	if (since && since->n_position > CURSOR_POSITIONS_MAX) {
		error_set(error, EINVAL, "cursor-invalid",
			  "the cursor has %zu positions, and at most %u make sense",
			  since->n_position, CURSOR_POSITIONS_MAX);
		return NULL;
	}
	/* The request, its cursor, its list of probes, their texts. */
	request = malloc(sizeof(*request) + cursor_bytes(since) +
			 message->n_probe * sizeof(*glob) + text_bytes(message));
	if (!request) {
		error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
		return NULL;
	}
	cursor = (struct cursor *)(request + 1);
	glob = (const char **)((char *)cursor + cursor_bytes(since));
	text = (char *)(glob + message->n_probe);
	*request = (struct subscribe_request){.since_realtime_ns = message->since_realtime_ns};
	if (since) {
		*cursor = (struct cursor){.capacity = (uint32_t)since->n_position};
		cursor_fill(cursor, since);
		request->since = cursor;
	}
	request->what = (struct subscription_request){.glob = glob, .globs = message->n_probe,
						      .flags = flags_of(message)};
	for (size_t i = 0; i < message->n_probe; i++)
		glob[i] = copy_text(&text, message->probe[i]);
	request->what.filter = copy_text(&text, message->filter);
	if (*message->consumer)
		request->consumer = copy_text(&text, message->consumer);
	return request;
}

struct cursor *request_of_ack(const Ringtail__V1__Ack *message, struct error *error)
{
	struct cursor *upto;

	if (!message->upto || message->upto->n_position > CURSOR_POSITIONS_MAX) {
		error_set(error, EINVAL, "cursor-invalid",
			  "an acknowledgement needs a cursor, of at most %u positions",
			  CURSOR_POSITIONS_MAX);
		return NULL;
	}
	upto = cursor_of_message(message->upto);
	if (!upto)
		error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	return upto;
}

/* What is said of a CPU is a number. */
static struct cursor_message *pack_since(const struct cursor *since)
{
	struct cursor *said = cursor_create(since->n);
	struct cursor_message *message = NULL;

	if (!said)
		return NULL;
	said->run = since->run;
	for (uint32_t i = 0; i < since->n; i++)
		if (since->position[i].seq < SINCE_BEGIN)
			cursor_append(said, since->position[i].cpu, since->position[i].seq);
	message = cursor_message_create(said);
	free(said);
	return message;
}

struct frame_ref *request_pack_subscribed(struct frame_codec *codec, const struct run *run,
					  const struct stream *stream, const struct beginning *from,
					  uint32_t probes)
{
	Ringtail__V1__Subscribed message = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor *told = stream_told(stream);
	struct cursor_message *start = NULL, *since = NULL;
	struct frame_ref *frame = NULL;

	if (told) {
		told->run = *run;
		start = cursor_message_create(told);
	}
	if (from->since)
		since = pack_since(from->since);
	if (start && (since || !from->since)) {
		message.start = &start->cursor;
		message.since = since ? &since->cursor : NULL;
		message.from_realtime_ns = from->from == BEGIN_AT_TIME ? from->realtime_ns :
					   from->from == BEGIN_NOW ? clock_read(CLOCK_REALTIME) : 0;
		message.probes = probes;
		message.resumed = stream->resumed;
		frame = frame_ref_pack(codec, FRAME_SUBSCRIBED, &message.base);
	}
	free(told);
	free(start);
	free(since);
	return frame;
}
