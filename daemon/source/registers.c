#include "daemon/source/registers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/user.h>

#if defined(__x86_64__)
#define AT(name)	offsetof(struct user_regs_struct, name)

/* The first 21 words of what ptrace(2) has are struct pt_regs. */
const uint16_t registers_bytes = AT(ss) + sizeof(unsigned long);
const uint16_t register_ip = AT(rip), register_result = AT(rax);
const uint16_t register_arg[REGISTER_ARGS] = {AT(rdi), AT(rsi), AT(rdx), AT(rcx), AT(r8), AT(r9)};

/* By its names of 64, 32, 16 and 8 bits; the second byte of four of them has a name, too. */
static const struct {
	const char *name[5];
	uint16_t offset;
} table[] = {
	{{"rax", "eax", "ax", "al", "ah"}, AT(rax)},	{{"rbx", "ebx", "bx", "bl", "bh"}, AT(rbx)},
	{{"rcx", "ecx", "cx", "cl", "ch"}, AT(rcx)},	{{"rdx", "edx", "dx", "dl", "dh"}, AT(rdx)},
	{{"rsi", "esi", "si", "sil", ""}, AT(rsi)},	{{"rdi", "edi", "di", "dil", ""}, AT(rdi)},
	{{"rbp", "ebp", "bp", "bpl", ""}, AT(rbp)},	{{"rsp", "esp", "sp", "spl", ""}, AT(rsp)},
	{{"r8", "r8d", "r8w", "r8b", ""}, AT(r8)},	{{"r9", "r9d", "r9w", "r9b", ""}, AT(r9)},
	{{"r10", "r10d", "r10w", "r10b", ""}, AT(r10)},	{{"r11", "r11d", "r11w", "r11b", ""}, AT(r11)},
	{{"r12", "r12d", "r12w", "r12b", ""}, AT(r12)},	{{"r13", "r13d", "r13w", "r13b", ""}, AT(r13)},
	{{"r14", "r14d", "r14w", "r14b", ""}, AT(r14)},	{{"r15", "r15d", "r15w", "r15b", ""}, AT(r15)},
};

/* Finds a register as an assembler calls it, "%eax"; where its lowest byte lies. False: it is none. */
static bool find_register(const char *name, size_t bytes, uint16_t *offset)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (unsigned n = 0; n < 5; n++) {
			const char *known = table[i].name[n];

			if (bytes < 2 || name[0] != '%' || strlen(known) != bytes - 1 ||
			    memcmp(name + 1, known, bytes - 1) != 0)
				continue;
			*offset = (uint16_t)(table[i].offset + (n == 4));
			return true;
		}
	return false;
}
#elif defined(__aarch64__)
/* x0 to x30, sp, pc, pstate. */
const uint16_t registers_bytes = 34 * 8;
const uint16_t register_ip = 32 * 8, register_result = 0;
const uint16_t register_arg[REGISTER_ARGS] = {0, 8, 16, 24, 32, 40};

static bool find_register(const char *name, size_t bytes, uint16_t *offset)
{
	unsigned number;
	char text[8], end;

	if (bytes >= sizeof(text))
		return false;
	memcpy(text, name, bytes);
	text[bytes] = '\0';
	if (strcmp(text, "sp") == 0)
		number = 31;
	else if ((text[0] != 'x' && text[0] != 'w') || sscanf(text + 1, "%u%c", &number, &end) != 1 ||
		 number > 30)
		return false;
	*offset = (uint16_t)(8 * number);
	return true;
}
#else
#error "the registers of this architecture are not described here"
#endif

/* ---- The arguments of a USDT probe ----------------------------------------------------------- */

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
	return find_register(from, (size_t)(span->at - from), offset);
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

unsigned registers_parse_usdt(const char *text, struct tracepoint_word arg[USDT_ARGS_MAX])
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
