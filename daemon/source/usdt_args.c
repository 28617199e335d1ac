#include "daemon/source/usdt_args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/source/registers.h"

/* A part of the note's text. */
struct span {
	const char *at, *end;
};

static bool take_char(struct span *span, char c)
{
	if (span->at == span->end || *span->at != c)
		return false;
	span->at++;
	return true;
}

/* A number of at most 32 bits with its sign, none of which ends behind the span; false: there is none. */
static bool take_number(struct span *span, int64_t *number)
{
	char *end;

	if (span->at == span->end || !strchr("+-0123456789", *span->at))
		return false;
	errno = 0;
	*number = strtoll(span->at, &end, 0);
	if (end == span->at || end > span->end || errno || *number < INT32_MIN || *number > INT32_MAX)
		return false;
	span->at = end;
	return true;
}

/* "%rax", up to what ends it. */
static bool take_register(struct span *span, uint16_t *offset)
{
	const char *from = span->at;

	while (span->at < span->end && !strchr(",) ]", *span->at))
		span->at++;
	return register_find(from, (size_t)(span->at - from), offset);
}

#if defined(__x86_64__)
static bool take_scale(struct span *span, struct tracepoint_word *word)
{
	int64_t scale;

	if (!take_char(span, ','))
		return true;
	if (!take_number(span, &scale))
		return false;
	for (word->shift = 0; word->shift < 3 && 1 << word->shift != scale; word->shift++)
		;
	return 1 << word->shift == scale;
}

/* "-8(%rbp)", "(%rax,%rbx,4)"; the number is in the word already. A place by name ("x(%rip)") is none. */
static bool take_memory(struct span *span, struct tracepoint_word *word)
{
	if (!take_char(span, '(') || !take_register(span, &word->offset) || word->offset % 8)
		return false;
	if (take_char(span, ',') && (!take_register(span, &word->index) || word->index % 8 ||
				     !take_scale(span, word)))
		return false;
	word->of = WORD_OF_MEMORY;
	return take_char(span, ')') && span->at == span->end;
}

static bool take_operand(struct span *span, struct tracepoint_word *word)
{
	int64_t number = 0;

	if (take_char(span, '$')) {
		word->of = WORD_NUMBER;
		if (!take_number(span, &number))
			return false;
		word->number = (int32_t)number;
		return span->at == span->end;
	}
	if (span->at < span->end && *span->at == '%')
		return take_register(span, &word->offset) && span->at == span->end &&
		       word->offset % word->bytes == 0;
	if (span->at < span->end && *span->at != '(' && !take_number(span, &number))
		return false;
	word->number = (int32_t)number;
	return take_memory(span, word);
}
#else
/* "x0", "12", "[sp, 8]", "[x1]" */
static bool take_operand(struct span *span, struct tracepoint_word *word)
{
	int64_t number = 0;

	if (take_number(span, &number)) {
		word->of = WORD_NUMBER;
		word->number = (int32_t)number;
		return span->at == span->end;
	}
	if (!take_char(span, '['))
		return take_register(span, &word->offset) && span->at == span->end;
	word->of = WORD_OF_MEMORY;
	if (!take_register(span, &word->offset))
		return false;
	if (take_char(span, ',') && (!take_char(span, ' ') || !take_number(span, &number)))
		return false;
	word->number = (int32_t)number;
	return take_char(span, ']') && span->at == span->end;
}
#endif

/* "-4@..." : how many bytes, and whether they have a sign. */
static bool take_size(struct span *span, struct tracepoint_word *word)
{
	int64_t size;

	if (!take_number(span, &size) || !take_char(span, '@'))
		return false;
	word->is_signed = size < 0;
	size = size < 0 ? -size : size;
	word->bytes = (uint8_t)size;
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* One argument's end: a space, but of "[sp, 8]" only the last. */
static const char *end_of(const char *at)
{
	bool inside = false;

	for (; *at && (inside || *at != ' '); at++)
		inside = *at == '[' ? true : *at == ']' ? false : inside;
	return at;
}

unsigned usdt_args_parse(const char *text, struct tracepoint_word arg[USDT_ARGS_MAX])
{
	unsigned args = 0;

	for (text += strspn(text, " "); *text && args < USDT_ARGS_MAX; text += strspn(text, " ")) {
		struct tracepoint_word word = {.index = WORD_NO_INDEX};
		struct span span = {text, end_of(text)};

		text = span.end;
		if (!take_size(&span, &word) || !take_operand(&span, &word))
			word = (struct tracepoint_word){.index = WORD_NO_INDEX};
		arg[args++] = word;
	}
	return args;
}
