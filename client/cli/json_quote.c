/*
 * json_quote: bytes of any kind as a JSON string.
 */
#include "client/cli/json_quote.h"

#include <stdbool.h>

size_t utf8_bytes(const unsigned char *at, size_t n)
{
	unsigned char low = 0x80, high = 0xbf;	/* what the second byte may be */
	size_t bytes;

	if (at[0] < 0x80)
		return 1;
	if (at[0] >= 0xc2 && at[0] <= 0xdf) {
		bytes = 2;
	} else if (at[0] >= 0xe0 && at[0] <= 0xef) {
		bytes = 3;
		if (at[0] == 0xe0)		/* overlong */
			low = 0xa0;
		else if (at[0] == 0xed)		/* surrogates */
			high = 0x9f;
	} else if (at[0] >= 0xf0 && at[0] <= 0xf4) {
		bytes = 4;
		if (at[0] == 0xf0)
			low = 0x90;
		else if (at[0] == 0xf4)		/* beyond U+10FFFF */
			high = 0x8f;
	} else {
		return 0;
	}
	if (n < bytes || at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < bytes; i++)
		if (at[i] < 0x80 || at[i] > 0xbf)
			return 0;
	return bytes;
}

static void escape(struct out *out, unsigned char c)
{
	char *to = out_room(out, 6);

	memcpy(to, "\\u00", 4);
	to[4] = "0123456789abcdef"[c >> 4];
	to[5] = "0123456789abcdef"[c & 15];
	out_advance(out, 6);
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void json_quote(struct out *out, const char *text, size_t n)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + n;

	out_char(out, '"');
	while (at < end) {
		const unsigned char *plain = at;
		size_t bytes;

		while (at < end && is_plain(*at))
			at++;
		out_bytes(out, (const char *)plain, (size_t)(at - plain));
		if (at == end)
			break;
		if (*at == '"' || *at == '\\') {
			out_char(out, '\\');
			out_char(out, (char)*at++);
			continue;
		}
		bytes = *at < 0x80 ? 0 : utf8_bytes(at, (size_t)(end - at));
		if (bytes) {
			out_bytes(out, (const char *)at, bytes);
			at += bytes;
		} else {
			escape(out, *at++);
		}
	}
	out_char(out, '"');
}
