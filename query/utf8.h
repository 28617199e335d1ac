/*
 * utf8: whether text from outside is text. What one client says of itself is shown to others, and a
 * strict protobuf library refuses a whole message for one string that is not UTF-8. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_UTF8_H
#define RINGTAIL_QUERY_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Bytes of the character at the start of n > 0 bytes, and its code; 0: it is none. Of the shortest form,
 * no surrogates, up to U+10FFFF.
 */
size_t utf8_decode(const uint8_t *at, size_t n, uint32_t *code);

#endif
