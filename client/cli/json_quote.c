/*
 * json_quote: bytes of any kind as a JSON string.
 */
#include "client/cli/json_quote.h"

#include <stdbool.h>

#include "query/visible.h"

static void escape(struct out *out, uint32_t code)
{
	char *to = out_room(out, 6);

	to[0] = '\\';
	to[1] = 'u';
	for (unsigned i = 0; i < 4; i++)
		to[2 + i] = "0123456789abcdef"[code >> (12 - 4 * i) & 15];
	out_advance(out, 6);
}

/* One piece that is not plain. How many bytes it took. */
static size_t put_piece(struct out *out, const char *at, size_t n)
{
	size_t bytes;
	uint32_t code;

	if (visible_next(at, n, &bytes, &code) == VISIBLE_SHOWN)
		out_bytes(out, at, bytes);
	else
		escape(out, code);
	return bytes;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void json_quote(struct out *out, const char *at, size_t n)
{
	const char *end = at + n;

	out_char(out, '"');
	while (at < end) {
		const char *plain = at;

		while (at < end && is_plain((unsigned char)*at))
			at++;
		out_bytes(out, plain, (size_t)(at - plain));
		if (at == end)
			break;
		if (*at == '"' || *at == '\\') {
			out_char(out, '\\');
			out_char(out, *at++);
		} else {
			at += put_piece(out, at, (size_t)(end - at));
		}
	}
	out_char(out, '"');
}

void json_put(struct out *out, const char *text)
{
	size_t n = strlen(text);

	while (n) {
		size_t bytes = visible_span(text, n);

		out_bytes(out, text, bytes);
		if (bytes < n)
			bytes += put_piece(out, text + bytes, n - bytes);
		text += bytes;
		n -= bytes;
	}
}
