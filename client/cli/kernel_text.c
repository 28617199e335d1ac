#include "client/cli/kernel_text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text_value.h"
#include "query/kernel_names.h"

#define DEPTH_MAX	64	/* of parentheses and the like */
#define SCRATCH_BYTES	1024	/* of texts that are made on the way */
#define SPEC_BYTES	24	/* of one conversion */
#define WIDTH_MAX	256

enum kind { NUMBER, TEXT, BYTES };

struct value {
	enum kind kind;
	uint64_t number;		/* extended to 64 bits by its sign */
	unsigned bits;			/* of the number's type; of BYTES, an element's */
	bool is_signed;
	bool unknown;			/* a name that we do not know */
	const char *at;			/* of TEXT and BYTES: NULL, it could not be read */
	size_t bytes;
	const struct ringtail_field *field;	/* of BYTES; NULL: none */
};

struct reader {
	const struct ringtail_item *event;
	const char *at;			/* ends with a NUL */
	unsigned depth;
	bool bad;
	char scratch[SCRATCH_BYTES];
	size_t used;
};

static struct value expression(struct reader *reader);

static struct value number(uint64_t value, unsigned bits, bool is_signed)
{
	return (struct value){.kind = NUMBER, .number = value, .bits = bits, .is_signed = is_signed};
}

static struct value bad(struct reader *reader)
{
	reader->bad = true;
	return number(0, 32, true);
}

/* ---- Words ------------------------------------------------------------------------------------- */

static void skip_spaces(struct reader *reader)
{
	while (isspace((unsigned char)*reader->at))
		reader->at++;
}

static bool next_is(struct reader *reader, const char *mark)
{
	skip_spaces(reader);
	return strncmp(reader->at, mark, strlen(mark)) == 0;
}

static bool take(struct reader *reader, const char *mark)
{
	if (!next_is(reader, mark))
		return false;
	reader->at += strlen(mark);
	return true;
}

static void expect(struct reader *reader, const char *mark)
{
	if (!take(reader, mark))
		reader->bad = true;
}

static bool is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The word that is next, and its length; 0: there is none. */
static size_t word_bytes(struct reader *reader)
{
	size_t bytes = 0;

	skip_spaces(reader);
	if (isdigit((unsigned char)*reader->at))
		return 0;
	while (is_word_byte(reader->at[bytes]))
		bytes++;
	return bytes;
}

static bool is_word(const char *at, size_t bytes, const char *word)
{
	return strlen(word) == bytes && memcmp(at, word, bytes) == 0;
}

static bool take_word(struct reader *reader, const char *word)
{
	size_t bytes = word_bytes(reader);

	if (!bytes || !is_word(reader->at, bytes, word))
		return false;
	reader->at += bytes;
	return true;
}

/* ---- Scratch ----------------------------------------------------------------------------------- */

static void add(struct reader *reader, const char *at, size_t bytes)
{
	size_t left = sizeof(reader->scratch) - reader->used;

	if (bytes > left)
		bytes = left;
	memcpy(reader->scratch + reader->used, at, bytes);
	reader->used += bytes;
}

__attribute__((format(printf, 2, 3)))
static void addf(struct reader *reader, const char *format, ...)
{
	char text[128];
	va_list list;
	int bytes;

	va_start(list, format);
	bytes = vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (bytes > 0)
		add(reader, text, (size_t)bytes < sizeof(text) ? (size_t)bytes : sizeof(text) - 1);
}

static struct value text_since(const struct reader *reader, size_t from)
{
	return (struct value){.kind = TEXT, .at = reader->scratch + from, .bytes = reader->used - from};
}

static char unescaped(char c)
{
	return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

/* "..." and whatever follows it in further quotes. */
static struct value literal(struct reader *reader)
{
	size_t from = reader->used;

	while (take(reader, "\"")) {
		while (*reader->at && *reader->at != '"') {
			char c = *reader->at++;

			if (c == '\\' && *reader->at)
				c = unescaped(*reader->at++);
			add(reader, &c, 1);
		}
		if (*reader->at != '"')
			return bad(reader);
		reader->at++;
	}
	return text_since(reader, from);
}

/* ---- Numbers ----------------------------------------------------------------------------------- */

static uint64_t cut(uint64_t value, unsigned bits, bool is_signed)
{
	if (bits >= 64)
		return value;
	value <<= 64 - bits;
	return is_signed ? (uint64_t)((int64_t)value >> (64 - bits)) : value >> (64 - bits);
}

static struct value constant(struct reader *reader)
{
	unsigned bits = 32;
	bool is_signed = true;
	uint64_t value;
	char *end;

	value = strtoull(reader->at, &end, 0);
	reader->at = end;
	for (; *reader->at && strchr("uUlL", *reader->at); reader->at++) {
		if (*reader->at == 'l' || *reader->at == 'L')
			bits = 64;
		else
			is_signed = false;
	}
	if (value > INT32_MAX && (is_signed || value > UINT32_MAX))
		bits = 64;
	return is_word_byte(*reader->at) ? bad(reader) : number(value, bits, is_signed);
}

static struct value named(const char *at, size_t bytes)
{
	struct value named = number(0, 32, true);

	named.unknown = !kernel_names_enumerator(at, bytes, &named.number);
	return named;
}

/* 'F' */
static struct value letter(struct reader *reader)
{
	char c = *reader->at ? *++reader->at : '\0';

	if (c)
		reader->at++;
	if (c == '\\' && *reader->at)
		c = unescaped(*reader->at++);
	if (!c || *reader->at != '\'')
		return bad(reader);
	reader->at++;
	return number((uint64_t)(int64_t)c, 32, true);
}

/* ---- Fields ------------------------------------------------------------------------------------ */

static int find_field(struct reader *reader)
{
	const struct ringtail_probe *probe = reader->event->probe;
	size_t bytes = word_bytes(reader);

	for (unsigned i = 0; bytes && i < probe->fields; i++)
		if (probe->field[i].type != RINGTAIL_MORE &&
		    is_word(reader->at, bytes, probe->field[i].name)) {
			reader->at += bytes;
			return (int)i;
		}
	reader->bad = true;
	return -1;
}

static struct value field_value(struct reader *reader, int of)
{
	const struct ringtail_field *field;
	struct value value = {0};

	if (of < 0)
		return bad(reader);
	field = &reader->event->probe->field[of];
	if (field->type != RINGTAIL_TEXT && field->type != RINGTAIL_BYTES)
		return number(ringtail_value(field, reader->event->value[of]), field->bits,
			      field->type == RINGTAIL_SIGNED);
	value.kind = field->type == RINGTAIL_TEXT ? TEXT : BYTES;
	value.at = (const char *)ringtail_bytes(reader->event, (unsigned)of, &value.bytes, NULL);
	value.bits = field->bits;
	value.field = field;
	return value;
}

static struct value element(struct reader *reader, struct value of)
{
	struct value place = expression(reader);
	size_t step = of.bits / 8;

	expect(reader, "]");
	if (of.kind == NUMBER || place.kind != NUMBER || !of.at || !step || !of.field ||
	    place.number >= of.bytes / step)
		return bad(reader);
	return number(text_element(of.field, (const uint8_t *)of.at + place.number * step), of.bits,
		      of.field->element_signed);
}

/* ---- The kernel's functions -------------------------------------------------------------------- */

/* {number, "text"}; true: *text is what it has. */
static bool take_pair(struct reader *reader, struct value *mask, struct value *text)
{
	if (!take(reader, ",") || !take(reader, "{"))
		return false;
	*mask = expression(reader);
	expect(reader, ",");
	*text = expression(reader);
	expect(reader, "}");
	return !reader->bad && mask->kind == NUMBER && text->kind == TEXT;
}

/* What the tables made on the way is not needed any more but for what is at `keep`. */
static struct value print_symbolic(struct reader *reader)
{
	struct value value = expression(reader), mask, text, found = {0};
	size_t from = reader->used;

	while (take_pair(reader, &mask, &text)) {
		if (!found.at && !mask.unknown && mask.number == value.number) {
			found = text;
			from = reader->used;
		}
		reader->used = from;
	}
	expect(reader, ")");
	if (value.kind != NUMBER)
		return bad(reader);
	if (found.at)
		return found;
	addf(reader, "0x%llx", (unsigned long long)value.number);
	return text_since(reader, from);
}

static struct value print_flags(struct reader *reader)
{
	struct value value = expression(reader), delimiter, mask, text;
	char joined[256];
	size_t used = 0, from;
	uint64_t flags = value.number;

	expect(reader, ",");
	delimiter = expression(reader);
	from = reader->used;
	if (value.kind != NUMBER || delimiter.kind != TEXT)
		return bad(reader);
	while (take_pair(reader, &mask, &text)) {
		if (flags && !mask.unknown && (flags & mask.number) == mask.number &&
		    used + delimiter.bytes + text.bytes < sizeof(joined)) {
			if (used)
				used = (size_t)((char *)mempcpy(joined + used, delimiter.at,
								delimiter.bytes) - joined);
			used = (size_t)((char *)mempcpy(joined + used, text.at, text.bytes) - joined);
			flags &= ~mask.number;
		}
		reader->used = from;
	}
	expect(reader, ")");
	add(reader, joined, used);
	if (flags && used)
		add(reader, delimiter.at, delimiter.bytes);
	if (flags)
		addf(reader, "0x%llx", (unsigned long long)flags);
	return text_since(reader, from);
}

static struct value print_hex(struct reader *reader, const char *between)
{
	struct value bytes = expression(reader), count;
	size_t from = reader->used;

	expect(reader, ",");
	count = expression(reader);
	expect(reader, ")");
	if (bytes.kind == NUMBER || count.kind != NUMBER || (!bytes.at && bytes.bytes))
		return bad(reader);
	for (size_t i = 0; i < bytes.bytes && i < count.number; i++)
		addf(reader, "%s%02x", i ? between : "", (unsigned char)bytes.at[i]);
	return text_since(reader, from);
}

static struct value print_array(struct reader *reader)
{
	struct value array = expression(reader), count, size;
	size_t from = reader->used;

	expect(reader, ",");
	count = expression(reader);
	expect(reader, ",");
	size = expression(reader);
	expect(reader, ")");
	if (array.kind == NUMBER || !array.at || !size.number || size.number > 8 ||
	    size.kind != NUMBER || count.kind != NUMBER)
		return bad(reader);
	add(reader, "{", 1);
	for (size_t i = 0; i < count.number && (i + 1) * size.number <= array.bytes; i++) {
		uint64_t one = 0;

		memcpy(&one, array.at + i * size.number, size.number);
		addf(reader, "%s0x%llx", i ? "," : "", (unsigned long long)one);
	}
	add(reader, "}", 1);
	return text_since(reader, from);
}

/* Of the daemon alone, for a program's arrays: tracefs has no list that a person would write so. */
static struct value print_list(struct reader *reader)
{
	int of = find_field(reader);
	struct value array = field_value(reader, of);
	size_t from = reader->used, step = array.bits / 8, at = 0, bytes, whole;

	expect(reader, ")");
	if (array.kind != BYTES || !array.field || !step)
		return bad(reader);
	ringtail_bytes(reader->event, (unsigned)of, &bytes, &whole);
	add(reader, "{", 1);
	for (; array.at && at + step <= array.bytes; at += step) {
		uint64_t one = text_element(array.field, (const uint8_t *)array.at + at);

		if (array.field->element_signed)
			addf(reader, "%s%lld", at ? "," : "", (long long)one);
		else
			addf(reader, "%s%llu", at ? "," : "", (unsigned long long)one);
	}
	if (whole > at)
		add(reader, "...", 3);
	add(reader, "}", 1);
	return text_since(reader, from);
}

static struct value get_field(struct reader *reader)
{
	struct value value = field_value(reader, find_field(reader));

	expect(reader, ")");
	return value;
}

static struct value get_length(struct reader *reader)
{
	int of = find_field(reader);

	expect(reader, ")");
	return of < 0 ? bad(reader) : number(reader->event->value[of] & 0xffff, 32, true);
}

static struct value swap_bytes(struct reader *reader, unsigned bits)
{
	struct value value = expression(reader);

	expect(reader, ")");
	if (value.kind != NUMBER)
		return bad(reader);
	return number(bits == 16 ? ntohs((uint16_t)value.number) : ntohl((uint32_t)value.number), bits,
		      false);
}

/* The second argument says what the first mostly is. */
static struct value expected(struct reader *reader)
{
	struct value value = expression(reader);

	expect(reader, ",");
	expression(reader);
	expect(reader, ")");
	return value;
}

static struct value call(struct reader *reader, const char *name, size_t bytes)
{
	static const char *const gets[] = { "__get_str", "__get_rel_str", "__get_dynamic_array",
					    "__get_rel_dynamic_array" };
	static const char *const lengths[] = { "__get_dynamic_array_len",
					       "__get_rel_dynamic_array_len" };

	for (size_t i = 0; i < sizeof(gets) / sizeof(gets[0]); i++)
		if (is_word(name, bytes, gets[i]))
			return get_field(reader);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		if (is_word(name, bytes, lengths[i]))
			return get_length(reader);
	if (is_word(name, bytes, "__print_symbolic") || is_word(name, bytes, "__print_symbolic_u64"))
		return print_symbolic(reader);
	if (is_word(name, bytes, "__print_flags") || is_word(name, bytes, "__print_flags_u64"))
		return print_flags(reader);
	if (is_word(name, bytes, "__print_hex"))
		return print_hex(reader, " ");
	if (is_word(name, bytes, "__print_hex_str"))
		return print_hex(reader, "");
	if (is_word(name, bytes, "__print_array"))
		return print_array(reader);
	if (is_word(name, bytes, "__print_list"))
		return print_list(reader);
	if (is_word(name, bytes, "__builtin_expect"))
		return expected(reader);
	if (is_word(name, bytes, "ntohs") || is_word(name, bytes, "__be16_to_cpu"))
		return swap_bytes(reader, 16);
	if (is_word(name, bytes, "ntohl") || is_word(name, bytes, "__be32_to_cpu"))
		return swap_bytes(reader, 32);
	return bad(reader);
}

/* ---- Casts ------------------------------------------------------------------------------------- */

struct type {
	unsigned bits;
	bool is_signed, known;
};

/* The words of types, and what they make of the type so far. */
static bool add_type_word(struct type *type, const char *at, size_t bytes)
{
	static const struct {
		const char *name;
		unsigned bits;		/* 0: as it is */
		bool is_signed;
	} words[] = {
		{ "char", 8, true }, { "short", 16, true }, { "int", 0, true }, { "long", 64, true },
		{ "u8", 8, false }, { "u16", 16, false }, { "u32", 32, false }, { "u64", 64, false },
		{ "s8", 8, true }, { "s16", 16, true }, { "s32", 32, true }, { "s64", 64, true },
		{ "__u8", 8, false }, { "__u16", 16, false }, { "__u32", 32, false },
		{ "__u64", 64, false }, { "__s32", 32, true }, { "__s64", 64, true },
		{ "uint8_t", 8, false }, { "uint16_t", 16, false }, { "uint32_t", 32, false },
		{ "uint64_t", 64, false }, { "int64_t", 64, true }, { "int32_t", 32, true },
		{ "uintptr_t", 64, false }, { "size_t", 64, false }, { "ssize_t", 64, true },
		{ "loff_t", 64, true }, { "sector_t", 64, false }, { "pgoff_t", 64, false },
		{ "dev_t", 32, false }, { "gfp_t", 32, false }, { "pid_t", 32, true },
		{ "bool", 8, false }, { "__be16", 16, false }, { "__be32", 32, false },
		{ "__le32", 32, false }, { "__le64", 64, false }, { "void", 64, false },
		{ "ino_t", 64, false }, { "umode_t", 16, false }, { "ktime_t", 64, true },
		{ "blk_opf_t", 32, false }, { "vm_fault_t", 32, false },
	};
	static const char *const noise[] = { "const", "__force", "volatile", "signed" };

	for (size_t i = 0; i < sizeof(noise) / sizeof(noise[0]); i++)
		if (is_word(at, bytes, noise[i]))
			return true;
	if (is_word(at, bytes, "unsigned")) {
		type->is_signed = false;
		return type->known = true;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (is_word(at, bytes, words[i].name)) {
			if (words[i].bits)
				type->bits = words[i].bits;
			if (!words[i].is_signed)
				type->is_signed = false;
			return type->known = true;
		}
	return false;
}

/* "(unsigned long)", "(struct sock *)": the type; false: nothing was taken, it is no cast. */
static bool take_cast(struct reader *reader, struct type *type)
{
	const char *begin = reader->at;
	size_t bytes;

	*type = (struct type){.bits = 32, .is_signed = true};
	if (!take(reader, "("))
		return false;
	while ((bytes = word_bytes(reader))) {
		if (is_word(reader->at, bytes, "struct") || is_word(reader->at, bytes, "enum")) {
			if (*reader->at == 's')
				type->bits = 0;		/* nobody says how large it is */
			reader->at += bytes;
			reader->at += word_bytes(reader);
			type->known = true;
			continue;
		}
		if (!add_type_word(type, reader->at, bytes))
			break;
		reader->at += bytes;
	}
	while (type->known && take(reader, "*"))
		*type = (struct type){.bits = 64, .known = true};
	if (type->known && take(reader, ")"))
		return true;
	reader->at = begin;
	return false;
}

/* ---- Expressions ------------------------------------------------------------------------------- */

static struct value unary(struct reader *reader);

static struct value cast(struct reader *reader, struct type type)
{
	struct value value = unary(reader);

	if (!type.bits)
		return bad(reader);
	if (value.kind != NUMBER)
		return value;		/* of an array, its address as another type: the bytes are the same */
	value.number = cut(value.number, type.bits, type.is_signed);
	value.bits = type.bits;
	value.is_signed = type.is_signed;
	return value;
}

/* Of a type alone. */
static struct value size_of(struct reader *reader)
{
	struct type type;

	if (!take_cast(reader, &type) || !type.bits)
		return bad(reader);
	return number(type.bits / 8, 64, false);
}

static struct value primary(struct reader *reader)
{
	struct value value;
	const char *name;
	size_t bytes;

	skip_spaces(reader);
	if (*reader->at == '"')
		return literal(reader);
	if (*reader->at == '\'')
		return letter(reader);
	if (take_word(reader, "sizeof"))
		return size_of(reader);
	if (isdigit((unsigned char)*reader->at))
		return constant(reader);
	if (take(reader, "(")) {
		value = expression(reader);
		expect(reader, ")");
		return value;
	}
	if (take_word(reader, "REC")) {
		expect(reader, "->");
		return field_value(reader, find_field(reader));
	}
	bytes = word_bytes(reader);
	if (!bytes)
		return bad(reader);
	name = reader->at;
	reader->at += bytes;
	return take(reader, "(") ? call(reader, name, bytes) : named(name, bytes);
}

static struct value unary_number(struct reader *reader, char operator)
{
	struct value value = unary(reader);

	if (value.kind != NUMBER)
		return bad(reader);
	if (operator == '!')
		return number(!value.number, 32, true);
	value.number = operator == '-' ? -value.number : ~value.number;
	if (value.bits < 32) {
		value.bits = 32;
		value.is_signed = true;
	}
	value.number = cut(value.number, value.bits, value.is_signed);
	return value;
}

static struct value unary(struct reader *reader)
{
	struct value value;
	struct type type;

	if (reader->bad || ++reader->depth > DEPTH_MAX)
		return bad(reader);
	if (take_cast(reader, &type)) {
		value = cast(reader, type);
	} else if (take(reader, "!")) {
		value = unary_number(reader, '!');
	} else if (take(reader, "~")) {
		value = unary_number(reader, '~');
	} else if (take(reader, "-")) {
		value = unary_number(reader, '-');
	} else {
		if (take(reader, "&"))		/* of an array: the same bytes */
			value = unary(reader);
		else
			value = primary(reader);
		while (!reader->bad && take(reader, "["))
			value = element(reader, value);
	}
	reader->depth--;
	return value;
}

/* The longer ones before those that they begin with. */
static const struct operator {
	const char *mark;
	unsigned rank;		/* what binds more has a higher one */
} operators[] = {
	{ "||", 1 }, { "&&", 2 }, { "==", 6 }, { "!=", 6 }, { "<<", 8 }, { ">>", 8 }, { "<=", 7 },
	{ ">=", 7 }, { "|", 3 }, { "^", 4 }, { "&", 5 }, { "<", 7 }, { ">", 7 }, { "+", 9 },
	{ "-", 9 }, { "*", 10 }, { "/", 10 }, { "%", 10 },
};

static const struct operator *next_operator(struct reader *reader)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (next_is(reader, operators[i].mark))
			return &operators[i];
	return NULL;
}

static struct value compare(const char *mark, const struct value *a, const struct value *b,
			    bool is_signed)
{
	int order = is_signed ? ((int64_t)a->number > (int64_t)b->number) -
				((int64_t)a->number < (int64_t)b->number) :
				(a->number > b->number) - (a->number < b->number);
	bool equal = mark[1] == '=';

	if (mark[0] == '=' || mark[0] == '!')
		return number((order == 0) == (mark[0] == '='), 32, true);
	return number(mark[0] == '<' ? order < 0 || (equal && !order) :
				       order > 0 || (equal && !order), 32, true);
}

static uint64_t divide(struct reader *reader, char mark, const struct value *a,
		       const struct value *b, bool is_signed)
{
	int64_t x = (int64_t)a->number, y = (int64_t)b->number;

	if (!b->number || (is_signed && y == -1)) {
		reader->bad |= !b->number;
		return mark == '/' ? -a->number : 0;
	}
	if (!is_signed)
		return mark == '/' ? a->number / b->number : a->number % b->number;
	return (uint64_t)(mark == '/' ? x / y : x % y);
}

static uint64_t shift(const char *mark, const struct value *a, uint64_t by)
{
	if (by > 63)
		return 0;
	if (mark[0] == '<')
		return a->number << by;
	return a->is_signed ? (uint64_t)((int64_t)a->number >> by) : a->number >> by;
}

static uint64_t combine(struct reader *reader, const char *mark, const struct value *a,
			const struct value *b, bool is_signed)
{
	switch (mark[0]) {
	case '|':
		return a->number | b->number;
	case '^':
		return a->number ^ b->number;
	case '&':
		return a->number & b->number;
	case '+':
		return a->number + b->number;
	case '-':
		return a->number - b->number;
	case '*':
		return a->number * b->number;
	default:
		return divide(reader, mark[0], a, b, is_signed);
	}
}

static struct value apply(struct reader *reader, const char *mark, const struct value *a,
			  const struct value *b)
{
	unsigned bits = a->bits > b->bits ? a->bits : b->bits;
	bool is_signed = (a->is_signed || a->bits < bits) && (b->is_signed || b->bits < bits);
	struct value value;

	if (a->kind != NUMBER || b->kind != NUMBER)
		return bad(reader);
	if (bits < 32) {
		bits = 32;
		is_signed = true;
	}
	if (strcmp(mark, "||") == 0 || strcmp(mark, "&&") == 0)
		return number(mark[0] == '|' ? a->number || b->number : a->number && b->number, 32, true);
	if (strchr("=!<>", mark[0]) && strcmp(mark, "<<") != 0 && strcmp(mark, ">>") != 0)
		return compare(mark, a, b, is_signed);
	if (strchr("<>", mark[0])) {
		value = *a;
		value.bits = a->bits < 32 ? 32 : a->bits;
		value.number = cut(shift(mark, a, b->number), value.bits, value.is_signed);
	} else {
		value = number(cut(combine(reader, mark, a, b, is_signed), bits, is_signed), bits,
			       is_signed);
	}
	value.unknown = a->unknown || b->unknown;
	return value;
}

static struct value binary(struct reader *reader, unsigned rank)
{
	struct value value = unary(reader);
	const struct operator *operator;

	while (!reader->bad && (operator = next_operator(reader)) && operator->rank >= rank) {
		struct value right;

		reader->at += strlen(operator->mark);
		right = binary(reader, operator->rank + 1);
		value = apply(reader, operator->mark, &value, &right);
	}
	return value;
}

static struct value expression(struct reader *reader)
{
	struct value value, yes, no;

	if (reader->bad || ++reader->depth > DEPTH_MAX)
		return bad(reader);
	value = binary(reader, 1);
	if (!reader->bad && take(reader, "?")) {
		yes = expression(reader);
		expect(reader, ":");
		no = expression(reader);
		if (value.kind != NUMBER)
			reader->bad = true;
		value = value.number ? yes : no;
	}
	reader->depth--;
	return value;
}

/* ---- Conversions ------------------------------------------------------------------------------- */

struct line {
	char *text;
	size_t used;
};

static void put(struct line *line, const char *at, size_t bytes)
{
	size_t left = KERNEL_TEXT_BYTES - 1 - line->used;

	if (bytes > left)
		bytes = left;
	memcpy(line->text + line->used, at, bytes);
	line->used += bytes;
}

/* One conversion of the format: "%-5lld", "%pI4". */
struct conversion {
	char flags[8];
	int width, precision;		/* -1: none */
	unsigned bits;
	char letter;
	char more[4];			/* behind 'p' */
};

static int take_count(struct reader *arguments, const char **at)
{
	int count = 0;

	if (**at == '*') {
		(*at)++;
		expect(arguments, ",");
		count = (int)expression(arguments).number;
	}
	while (isdigit((unsigned char)**at) && count < WIDTH_MAX)
		count = 10 * count + (*(*at)++ - '0');
	return count < 0 ? 0 : count > WIDTH_MAX ? WIDTH_MAX : count;
}

static void take_length(struct conversion *conversion, const char **at)
{
	conversion->bits = 32;
	for (; **at && strchr("hlLzjt", **at); (*at)++) {
		if (**at == 'h')
			conversion->bits /= 2;
		else
			conversion->bits = 64;
	}
}

/* How many bytes behind "%p" say what is there: of I4, I6c, ISpc, sF and the like. */
static size_t pointer_kind_bytes(const char *at)
{
	if (at[0] != 'I')
		return 1u + (at[1] == 'R' || at[1] == 'F');
	if (at[1] == 'S')
		return 2 + strspn(at + 2, "pfscbnl");
	return at[1] ? 2u + (at[2] == 'c') : 1;	/* the format may end here */
}

/* `at` is behind the percent sign. */
static const char *take_conversion(struct reader *arguments, const char *at,
				   struct conversion *conversion)
{
	size_t flags = strspn(at, "-+ #0"), more;

	*conversion = (struct conversion){.width = -1, .precision = -1};
	if (flags < sizeof(conversion->flags))
		memcpy(conversion->flags, at, flags);
	at += flags;
	if (isdigit((unsigned char)*at) || *at == '*')
		conversion->width = take_count(arguments, &at);
	if (*at == '.') {
		at++;
		conversion->precision = take_count(arguments, &at);
	}
	take_length(conversion, &at);
	conversion->letter = *at ? *at++ : '\0';
	if (conversion->letter == 'p') {
		more = 0;
		while (isalnum((unsigned char)at[more]) && more < 5)
			more++;
		if (more && strchr("ISsMxKUm", at[0])) {
			size_t keep = more < sizeof(conversion->more) - 1 ? more :
				      sizeof(conversion->more) - 1;

			memcpy(conversion->more, at, keep);
			at += pointer_kind_bytes(at);
		}
	}
	return at;
}

static void put_padded(struct line *line, const struct conversion *conversion, const char *at,
		       size_t bytes)
{
	bool left = strchr(conversion->flags, '-');
	size_t width = conversion->width < 0 ? 0 : (size_t)conversion->width;

	for (size_t i = bytes; !left && i < width; i++)
		put(line, " ", 1);
	put(line, at, bytes);
	for (size_t i = bytes; left && i < width; i++)
		put(line, " ", 1);
}

/* "%#x" of the kernel is 0x0 where C has 0. */
static void put_prefixed(struct line *line, const struct conversion *conversion, uint64_t word)
{
	bool zeros = strchr(conversion->flags, '0') && !strchr(conversion->flags, '-');
	int width = zeros && conversion->width > 2 ? conversion->width - 2 : 0;
	char text[WIDTH_MAX + 24];
	int bytes = conversion->letter == 'X' ?
		snprintf(text, sizeof(text), "0X%0*llX", width, (unsigned long long)word) :
		snprintf(text, sizeof(text), "0x%0*llx", width, (unsigned long long)word);

	if (bytes > 0 && (size_t)bytes < sizeof(text))
		put_padded(line, conversion, text, (size_t)bytes);
}

static void put_number(struct line *line, const struct conversion *conversion,
		       const struct value *value)
{
	char spec[SPEC_BYTES], text[2 * WIDTH_MAX];
	bool is_signed = conversion->letter == 'd' || conversion->letter == 'i';
	uint64_t word = cut(value->number, conversion->bits, is_signed);
	int bytes;

	if (strchr(conversion->flags, '#') && (conversion->letter | 0x20) == 'x') {
		put_prefixed(line, conversion, word);
		return;
	}
	snprintf(spec, sizeof(spec), "%%%s*.*ll%c", conversion->flags, conversion->letter);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	bytes = snprintf(text, sizeof(text), spec, conversion->width < 0 ? 0 : conversion->width,
			 conversion->precision, (unsigned long long)word);
#pragma GCC diagnostic pop
	if (bytes > 0)
		put(line, text, (size_t)bytes < sizeof(text) ? (size_t)bytes : sizeof(text) - 1);
}

static void put_text(struct line *line, const struct conversion *conversion,
		     const struct value *value)
{
	size_t bytes = value->at ? strnlen(value->at, value->bytes) : 0;

	if (!value->at && value->bytes) {
		put_padded(line, conversion, "(fault)", 7);
		return;
	}
	if (conversion->precision >= 0 && bytes > (size_t)conversion->precision)
		bytes = (size_t)conversion->precision;
	put_padded(line, conversion, value->at ? value->at : "", bytes);
}

static bool put_internet(struct line *line, int family, const char *at, size_t bytes)
{
	char text[INET6_ADDRSTRLEN];

	if (!at || bytes < (family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr)))
		return false;
	inet_ntop(family, at, text, sizeof(text));
	put(line, text, strlen(text));
	return true;
}

/* Of a struct sockaddr, with its port. */
static bool put_socket(struct line *line, const struct value *value)
{
	uint16_t family, port;
	char text[16];
	bool done;

	if (!value->at || value->bytes < 16)
		return false;
	memcpy(&family, value->at, sizeof(family));
	memcpy(&port, value->at + 2, sizeof(port));
	snprintf(text, sizeof(text), "%u", ntohs(port));
	if (family == AF_INET) {
		done = put_internet(line, AF_INET, value->at + 4, value->bytes - 4);
	} else if (family == AF_INET6 && value->bytes >= 24) {
		put(line, "[", 1);
		done = put_internet(line, AF_INET6, value->at + 8, value->bytes - 8);
		put(line, "]", 1);
	} else {
		return false;
	}
	put(line, ":", 1);
	put(line, text, strlen(text));
	return done;
}

static bool put_bytes(struct line *line, const struct conversion *conversion,
		      const struct value *value)
{
	if (strncmp(conversion->more, "I4", 2) == 0)
		return put_internet(line, AF_INET, value->at, value->bytes);
	if (strncmp(conversion->more, "I6c", 3) == 0)
		return put_internet(line, AF_INET6, value->at, value->bytes);
	if (strncmp(conversion->more, "IS", 2) == 0)
		return put_socket(line, value);
	if (conversion->more[0] != 'M' || !value->at || value->bytes < 6)
		return false;
	for (unsigned i = 0; i < 6; i++) {
		char text[8];

		snprintf(text, sizeof(text), "%s%02x", i ? ":" : "", (unsigned char)value->at[i]);
		put(line, text, strlen(text));
	}
	return true;
}

/* The kernel would print a hash of it, or the name of a function; only it knows either. */
static bool put_pointer(struct line *line, const struct conversion *conversion,
			const struct value *value)
{
	struct conversion as_hex = *conversion;
	struct value word = *value;

	if (strchr("IMUm", conversion->more[0]) && conversion->more[0]) {
		/* An address that is kept as a number lies in it as it lies in memory. */
		if (value->kind == NUMBER && value->bits == 32) {
			word.at = (const char *)&word.number;
			word.bytes = 4;
		}
		return put_bytes(line, conversion, &word);
	}
	if (value->kind != NUMBER)
		return false;
	as_hex.letter = 'x';
	as_hex.bits = 64;
	if (conversion->more[0] == 'S' || conversion->more[0] == 's')
		put(line, "0x", 2);
	else if (conversion->width < 0)
		as_hex.precision = 16;
	put_number(line, &as_hex, value);
	return true;
}

static bool convert(struct line *line, const struct conversion *conversion,
		    const struct value *value)
{
	char letter;

	switch (conversion->letter) {
	case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
		if (value->kind != NUMBER)
			return false;
		put_number(line, conversion, value);
		return true;
	case 'c':
		letter = (char)value->number;
		if (value->kind == NUMBER)
			put(line, &letter, 1);
		return value->kind == NUMBER;
	case 's':
		if (value->kind == TEXT || value->kind == BYTES)
			put_text(line, conversion, value);
		return value->kind != NUMBER;
	case 'p':
		return put_pointer(line, conversion, value);
	default:
		return false;
	}
}

/* A name that we do not know is no value. */
static bool put_argument(struct line *line, struct reader *arguments,
			 const struct conversion *conversion)
{
	struct value value;

	expect(arguments, ",");
	value = expression(arguments);
	return !arguments->bad && !value.unknown && convert(line, conversion, &value);
}

static bool put_all(struct line *line, const char *format, struct reader *arguments)
{
	size_t keep = arguments->used;

	while (*format) {
		const char *percent = strchrnul(format, '%');
		struct conversion conversion;

		put(line, format, (size_t)(percent - format));
		if (!*percent)
			return true;
		if (percent[1] == '%') {
			put(line, "%", 1);
			format = percent + 2;
			continue;
		}
		format = take_conversion(arguments, percent + 1, &conversion);
		if (!put_argument(line, arguments, &conversion))
			return false;
		arguments->used = keep;
	}
	return true;
}

/* The format itself, in front of its arguments. False: there is none. */
static bool take_format(struct reader *reader, const struct ringtail_item *event, char format[SCRATCH_BYTES])
{
	struct value first;

	*reader = (struct reader){.event = event, .at = event->probe->print};
	if (!reader->at || *reader->at != '"')
		return false;
	first = literal(reader);
	if (reader->bad || first.bytes >= SCRATCH_BYTES)
		return false;
	memcpy(format, first.at, first.bytes);
	format[first.bytes] = '\0';
	reader->used = 0;
	return true;
}

bool kernel_text(const struct ringtail_item *event, char text[KERNEL_TEXT_BYTES])
{
	struct reader reader;
	struct line line = {.text = text};
	char format[SCRATCH_BYTES];

	if (!take_format(&reader, event, format) || !put_all(&line, format, &reader))
		return false;
	while (line.used && text[line.used - 1] == '\n')
		line.used--;
	text[line.used] = '\0';
	return true;
}

/* ---- Names ------------------------------------------------------------------------------------- */

/* Whether the first argument at hand is the field and nothing else, but for casts and parentheses. */
static bool is_of_field(const char *argument, const char *field)
{
	static const char record[] = "REC->";
	size_t bytes = strlen(field);

	while (*argument && strncmp(argument, record, strlen(record)) != 0) {
		if (!isalnum((unsigned char)*argument) && !strchr("_ ()", *argument))
			return false;
		argument++;
	}
	if (!*argument || strncmp(argument + strlen(record), field, bytes) != 0)
		return false;
	argument += strlen(record) + bytes;
	argument += strspn(argument, ") ");
	return !*argument || *argument == ',';
}

/* The value that a table of the format begins with here has, in words; false: it has none. */
static bool name_by_table(const struct ringtail_item *event, const char *table, char text[KERNEL_TEXT_BYTES])
{
	struct reader reader = {.event = event, .at = table};
	struct value value = expression(&reader);

	if (reader.bad || value.unknown || value.kind != TEXT || !value.at || !value.bytes ||
	    value.bytes >= KERNEL_TEXT_BYTES || strncmp(value.at, "0x", 2) == 0)
		return false;
	memcpy(text, value.at, value.bytes);
	text[value.bytes] = '\0';
	return *text;
}

/* An address, as %pI4 and the like print it, which stands for the field alone. */
static bool name_by_conversion(const struct ringtail_item *event, const char *field, char text[KERNEL_TEXT_BYTES])
{
	struct reader reader;
	char format[SCRATCH_BYTES];
	const char *at = format;

	if (!take_format(&reader, event, format))
		return false;
	while (!reader.bad && *(at = strchrnul(at, '%'))) {
		struct conversion conversion;
		struct line line = {.text = text};
		struct value value;
		const char *argument;

		if (at[1] == '%') {
			at += 2;
			continue;
		}
		at = take_conversion(&reader, at + 1, &conversion);
		expect(&reader, ",");
		skip_spaces(&reader);
		argument = reader.at;
		value = expression(&reader);
		reader.used = 0;
		if (reader.bad || conversion.letter != 'p' || !conversion.more[0] || !strchr("IMm", conversion.more[0]) ||
		    !is_of_field(argument, field))
			continue;
		if (!convert(&line, &conversion, &value) || !line.used)
			return false;
		text[line.used] = '\0';
		return true;
	}
	return false;
}

bool kernel_text_name(const struct ringtail_item *event, unsigned field, char text[KERNEL_TEXT_BYTES])
{
	static const char *const table[] = {"__print_symbolic", "__print_flags"};
	const char *name = event->probe->field[field].name;

	for (size_t i = 0; event->probe->print && i < sizeof(table) / sizeof(table[0]); i++)
		for (const char *at = event->probe->print; (at = strstr(at, table[i])); at += strlen(table[i])) {
			const char *open = at + strlen(table[i]);

			open += strncmp(open, "_u64", 4) ? 0 : 4;
			if (*open == '(' && is_of_field(open + 1, name) && name_by_table(event, at, text))
				return true;
		}
	return event->probe->print && strstr(event->probe->print, "%p") && name_by_conversion(event, name, text);
}
