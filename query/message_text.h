/*
 * message_text: whether all text in a message from elsewhere may be shown as it is (query/visible.h). What
 * one client asks for is shown to others, line by line, and kept in files of lines: a newline in a name
 * would forge a line, and worse would act on a terminal. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_MESSAGE_TEXT_H
#define RINGTAIL_QUERY_MESSAGE_TEXT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first that may not: names of the proto's, which character, and where in its text, from 0. */
struct message_text_place {
	const char *message, *field;
	size_t byte;
	uint32_t code;
	bool no_text;			/* a byte that is not UTF-8, and no character */
};

/* Every string in it, and in the messages inside it. False: *place says where not. */
bool message_text_is_visible(const ProtobufCMessage *message, struct message_text_place *place);

#endif
