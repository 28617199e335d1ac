/*
 * message_out: one protobuf message, written from its front to its end, with messages inside.
 *
 * The length of a message inside takes four bytes, as padded varints may, so that nothing moves when it
 * becomes known. What does not fit is left out and remembered: the caller looks at `full`. Text from
 * elsewhere is made visible (query/visible.h), which makes it UTF-8 too.
 */
#ifndef RINGTAIL_CLIENT_CLI_MESSAGE_OUT_H
#define RINGTAIL_CLIENT_CLI_MESSAGE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_OUT_BYTES	(64u << 10)

struct message_out {
	size_t used;
	bool full;
	uint8_t bytes[MESSAGE_OUT_BYTES];
};

/* Empties it. */
void message_out_begin(struct message_out *message);

void message_out_number(struct message_out *message, uint32_t field, uint64_t value);
void message_out_bytes(struct message_out *message, uint32_t field, const void *bytes, size_t n);

/* Of any bytes, as much as fits into FUNCTION_BYTES_MAX; and of any length. */
void message_out_text(struct message_out *message, uint32_t field, const char *text);
void message_out_visible(struct message_out *message, uint32_t field, const void *text, size_t n);

/* A message inside: what comes until close() with the place that open() returned. */
size_t message_out_open(struct message_out *message, uint32_t field);
void message_out_close(struct message_out *message, size_t place);

/* Numbers without tags, of a packed field that is open. */
void message_out_packed(struct message_out *message, uint64_t value);

#endif
