/*
 * json_quote: bytes of any kind as a JSON string, with its quotes.
 *
 * Text that is visible passes through; what JSON wants escaped is, and so is what is hidden
 * (query/visible.h); a byte that is not part of UTF-8 becomes the character of its number, \u0080 to
 * \u00ff.
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

/* JSON that another library made: what is hidden can only be in its strings, and is escaped there. */
void json_put(struct out *out, const char *text);

#endif
