#include "daemon/export/kind.h"

#include <assert.h>
#include <errno.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/gzip.h"

/* ---- A body's pieces ------------------------------------------------------------------------- */

int export_arena_reserve(struct export_arena *arena, size_t bytes)
{
	arena->used = 0;
	if (bytes <= arena->bytes)
		return 0;
	export_arena_fini(arena);
	arena->data = malloc(bytes);
	if (!arena->data)
		return -ENOMEM;
	arena->bytes = bytes;
	return 0;
}

void export_arena_fini(struct export_arena *arena)
{
	free(arena->data);
	*arena = (struct export_arena){0};
}

void *export_arena_take(struct export_arena *arena, size_t bytes)
{
	void *taken = arena->data + arena->used;

	arena->used += EXPORT_ARENA_ROUND(bytes);
	assert(arena->used <= arena->bytes);
	return taken;
}

int export_body_pack(struct export_body *body, const ProtobufCMessage *message, uint64_t items)
{
	body->items = items;
	body->bytes = protobuf_c_message_get_packed_size(message);
	body->data = malloc(body->bytes + 1);
	if (!body->data)
		return -ENOMEM;
	protobuf_c_message_pack(message, body->data);
	return 0;
}

/* ---- Compressed ------------------------------------------------------------------------------ */

const char *export_encoding_name(enum export_encoding encoding)
{
	return encoding == EXPORT_GZIP ? "gzip" : "snappy";
}

static int compress_snappy(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	*out_bytes = snappy_max_compressed_length(in_bytes);
	*out = malloc(*out_bytes);
	if (!*out)
		return -ENOMEM;
	if (snappy_compress((const char *)in, in_bytes, (char *)*out, out_bytes) == SNAPPY_OK)
		return 0;
	free(*out);
	return -EIO;
}

int export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
		    uint8_t **out, size_t *out_bytes)
{
	return encoding == EXPORT_GZIP ? gzip_compress(in, in_bytes, out, out_bytes) :
					 compress_snappy(in, in_bytes, out, out_bytes);
}

static int undo_snappy(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	if (snappy_uncompressed_length((const char *)in, in_bytes, out_bytes) != SNAPPY_OK)
		return -EIO;
	*out = malloc(*out_bytes + 1);
	if (!*out)
		return -ENOMEM;
	if (snappy_uncompress((const char *)in, in_bytes, (char *)*out, out_bytes) == SNAPPY_OK)
		return 0;
	free(*out);
	return -EIO;
}

int export_compress_undo(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
			 uint8_t **out, size_t *out_bytes)
{
	return encoding == EXPORT_GZIP ? gzip_undo(in, in_bytes, out, out_bytes) :
					 undo_snappy(in, in_bytes, out, out_bytes);
}

/* ---- Kinds, and what their answers mean ------------------------------------------------------- */

const struct export_kind *const export_kinds[] = {
	&export_otlp_logs, &export_otlp_traces, &export_otlp_metrics, &export_loki,
	&export_remote_write, NULL,
};

const struct export_kind *export_kind_find(const char *name)
{
	for (unsigned i = 0; export_kinds[i]; i++)
		if (strcmp(export_kinds[i]->name, name) == 0)
			return export_kinds[i];
	return NULL;
}

void export_judge_status(long status, struct export_verdict *verdict)
{
	*verdict = (struct export_verdict){.outcome = EXPORT_HOLD};
	if (status / 100 == 2)
		verdict->outcome = EXPORT_ACCEPTED;
	else if (status == 408 || status == 429 || status / 100 == 5)
		verdict->outcome = EXPORT_RETRY;
	else if (status == 400 || status == 413 || status == 422)
		verdict->outcome = EXPORT_REJECTED;
}

void export_judge_text(const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
{
	size_t n = bytes < sizeof(verdict->message) - 1 ? bytes : sizeof(verdict->message) - 1;

	for (size_t i = 0; i < n; i++)
		verdict->message[i] = answer[i] >= 0x20 && answer[i] < 0x7f ? (char)answer[i] : ' ';
	while (n && verdict->message[n - 1] == ' ')
		n--;
	verdict->message[n] = '\0';
}

/* The words of Prometheus, Thanos, Mimir and Loki, of old and today. */
static const struct {
	const char *words;
	enum export_lateness late;
} lateness[] = {
	{"out of bounds", EXPORT_TOO_OLD},
	{"too old", EXPORT_TOO_OLD},
	{"too far behind", EXPORT_TOO_OLD},
	{"out of order", EXPORT_BEHIND},
	{"out-of-order", EXPORT_BEHIND},
};

static bool says(const uint8_t *answer, size_t bytes, const char *words)
{
	return bytes && memmem(answer, bytes, words, strlen(words));
}

/* Of an answer that is no acceptance. */
static void judge_lateness(long status, const uint8_t *answer, size_t bytes,
			   struct export_verdict *verdict)
{
	for (size_t i = 0; i < sizeof(lateness) / sizeof(lateness[0]) && !verdict->late; i++)
		if (says(answer, bytes, lateness[i].words))
			verdict->late = lateness[i].late;
	/* Of a 5xx only what nothing but a sample can be: "index out of bounds" is a fault of its own. */
	if ((status == 409 && verdict->late) ||
	    (status == 500 && says(answer, bytes, "too old sample")))
		verdict->outcome = EXPORT_REJECTED;
	if (verdict->outcome != EXPORT_REJECTED)
		verdict->late = EXPORT_IN_TIME;
}

void export_judge(long status, const uint8_t *answer, size_t bytes, struct export_verdict *verdict)
{
	export_judge_status(status, verdict);
	if (verdict->outcome == EXPORT_ACCEPTED)
		return;
	export_judge_text(answer, bytes, verdict);
	judge_lateness(status, answer, bytes, verdict);
}
