#include "query/utf8.h"

size_t utf8_decode(const uint8_t *at, size_t n, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};	/* that needs so many bytes */
	unsigned bytes = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3
		       : *at >> 3 == 30 ? 4 : 0;

	*code = bytes == 1 ? *at : *at & (0x7fu >> bytes);
	if (!bytes || bytes > n)
		return 0;
	for (unsigned i = 1; i < bytes; i++) {
		if (at[i] >> 6 != 2)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	if (*code < least[bytes] || *code > 0x10ffff || *code >> 11 == 0xd800 >> 11)
		return 0;
	return bytes;
}
