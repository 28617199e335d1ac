#include "query/digits.h"

#include <string.h>

static const char pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

char *digits_before(char *end, uint64_t value)
{
	while (value >= 100) {
		end -= 2;
		memcpy(end, pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		end -= 2;
		memcpy(end, pairs + value * 2, 2);
	} else {
		*--end = (char)('0' + value);
	}
	return end;
}

char *digits_signed_before(char *end, int64_t value)
{
	char *begin = digits_before(end, value < 0 ? -(uint64_t)value : (uint64_t)value);

	if (value < 0)
		*--begin = '-';
	return begin;
}

char *digits_put_hex(char *to, uint64_t value)
{
	unsigned digits = value ? (67 - (unsigned)__builtin_clzll(value)) / 4 : 1;

	to[0] = '0';
	to[1] = 'x';
	for (unsigned i = digits; i-- > 0; value >>= 4)
		to[2 + i] = "0123456789abcdef"[value & 15];
	return to + 2 + digits;
}
