/*
 * json_quote: bytes of any kind as a JSON string, with its quotes.
 *
 * UTF-8 passes through; what JSON wants escaped is; a byte that is not part of UTF-8 becomes the
 * character of its number, \u0080 to \u00ff.
 */
#ifndef RINGTAIL_CLIENT_CLI_JSON_QUOTE_H
#define RINGTAIL_CLIENT_CLI_JSON_QUOTE_H

#include <stddef.h>
#include <string.h>

#include "client/cli/out.h"

void json_quote(struct out *out, const char *bytes, size_t n);

static inline void json_quote_text(struct out *out, const char *text)
{
	json_quote(out, text, strlen(text));
}

/* Bytes of the UTF-8 character at the start of n > 0 bytes; 0: it is none. */
size_t utf8_bytes(const unsigned char *at, size_t n);

#endif
