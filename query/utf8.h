/*
 * utf8: whether text from outside is text. What one client says of itself is shown to others, and a
 * strict protobuf library refuses a whole message for one string that is not UTF-8. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_UTF8_H
#define RINGTAIL_QUERY_UTF8_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* Of the shortest form, no surrogates, up to U+10FFFF. */
bool utf8_is_valid(const char *text);

/* The same of every string in a message, but not in the messages inside it. */
bool utf8_is_valid_message(const ProtobufCMessage *message);

#endif
