#include "query/kernel_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX	64	/* of parentheses and the like in a number */
#define FIELD_BYTES_MAX	256	/* of casts before a field, and its name */
#define TABLE_MARK	"__print_"

/* ---- Names in numbers -------------------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned value;
} enumerators[] = {
	{ "true", 1 }, { "false", 0 }, { "NULL", 0 },
	{ "IOPRIO_CLASS_NONE", 0 }, { "IOPRIO_CLASS_RT", 1 }, { "IOPRIO_CLASS_BE", 2 },
	{ "IOPRIO_CLASS_IDLE", 3 }, { "IOPRIO_CLASS_INVALID", 7 },
	{ "TCP_ESTABLISHED", 1 }, { "TCP_SYN_SENT", 2 }, { "TCP_SYN_RECV", 3 },
	{ "TCP_FIN_WAIT1", 4 }, { "TCP_FIN_WAIT2", 5 }, { "TCP_TIME_WAIT", 6 }, { "TCP_CLOSE", 7 },
	{ "TCP_CLOSE_WAIT", 8 }, { "TCP_LAST_ACK", 9 }, { "TCP_LISTEN", 10 }, { "TCP_CLOSING", 11 },
	{ "TCP_NEW_SYN_RECV", 12 },
};

static bool is_word(const char *at, size_t bytes, const char *word)
{
	return strlen(word) == bytes && memcmp(at, word, bytes) == 0;
}

bool kernel_names_enumerator(const char *name, size_t bytes, uint64_t *value)
{
	for (size_t i = 0; i < sizeof(enumerators) / sizeof(enumerators[0]); i++)
		if (is_word(name, bytes, enumerators[i].name)) {
			*value = enumerators[i].value;
			return true;
		}
	return false;
}

/* ---- Numbers ----------------------------------------------------------------------------------- */

/* A constant of C, computed in 64 bits: what is above the field's width is cut where it is compared. */
struct number {
	const char *at;
	unsigned depth;
	bool bad;
};

static uint64_t any_bits(struct number *number);

static void skip_spaces(const char **at)
{
	while (isspace((unsigned char)**at))
		++*at;
}

static bool take(struct number *number, const char *mark)
{
	skip_spaces(&number->at);
	if (strncmp(number->at, mark, strlen(mark)) != 0)
		return false;
	number->at += strlen(mark);
	return true;
}

static size_t word_bytes(const char *at)
{
	size_t bytes = 0;

	while (isalnum((unsigned char)at[bytes]) || at[bytes] == '_')
		bytes++;
	return bytes;
}

static uint64_t bad(struct number *number)
{
	number->bad = true;
	return 0;
}

/* Behind "(": words and a ")", with something behind it that it can be a type of: "( gfp_t)0x400u". */
static bool take_cast(struct number *number)
{
	const char *at = number->at;
	size_t bytes;

	skip_spaces(&at);
	if (isdigit((unsigned char)*at) || !word_bytes(at))
		return false;
	while ((bytes = word_bytes(at))) {
		at += bytes;
		skip_spaces(&at);
	}
	if (*at++ != ')')
		return false;
	skip_spaces(&at);
	if (*at != '(' && *at != '~' && !word_bytes(at))
		return false;
	number->at = at;
	return true;
}

static uint64_t digits(struct number *number)
{
	char *end;
	uint64_t value = strtoull(number->at, &end, 0);

	number->at = end + strspn(end, "uUlL");
	return word_bytes(number->at) ? bad(number) : value;
}

static uint64_t plain(struct number *number)
{
	uint64_t value = 0;
	const char *name;
	size_t bytes;

	skip_spaces(&number->at);
	if (isdigit((unsigned char)*number->at))
		return digits(number);
	name = number->at;
	bytes = word_bytes(name);
	number->at += bytes;
	return bytes && kernel_names_enumerator(name, bytes, &value) ? value : bad(number);
}

static uint64_t unary(struct number *number)
{
	uint64_t value;

	if (number->bad || ++number->depth > DEPTH_MAX)
		return bad(number);
	if (take(number, "-")) {
		value = -unary(number);
	} else if (take(number, "~")) {
		value = ~unary(number);
	} else if (!take(number, "(")) {
		value = plain(number);
	} else if (take_cast(number)) {
		value = unary(number);
	} else {
		value = any_bits(number);
		if (!take(number, ")"))
			number->bad = true;
	}
	number->depth--;
	return value;
}

static uint64_t sum(struct number *number)
{
	uint64_t value = unary(number);

	for (;;) {
		if (take(number, "+"))
			value += unary(number);
		else if (take(number, "-"))
			value -= unary(number);
		else
			return value;
	}
}

static uint64_t shifted(struct number *number)
{
	uint64_t value = sum(number);

	while (take(number, "<<")) {
		uint64_t by = sum(number);

		value = by < 64 ? value << by : bad(number);
	}
	return value;
}

static uint64_t all_bits(struct number *number)
{
	uint64_t value = shifted(number);

	while (take(number, "&"))
		value &= shifted(number);
	return value;
}

static uint64_t any_bits(struct number *number)
{
	uint64_t value = all_bits(number);

	while (take(number, "|"))
		value |= all_bits(number);
	return value;
}

/* ---- Which field a table is of ------------------------------------------------------------------ */

/* Casts and parentheses, and nothing that computes. */
static bool is_bare(const char *from, const char *to)
{
	while (from < to && (isalnum((unsigned char)*from) || strchr("_ ()", *from)))
		from++;
	return from == to;
}

/* The field that `at` begins with, "REC->vec" with casts before it: *at is then behind it. */
static bool take_field(const char **at, const char *field)
{
	static const char record[] = "REC->";
	size_t bytes = 0;
	const char *name;

	while (bytes < FIELD_BYTES_MAX && (*at)[bytes] && !strchr(",\"{}?:", (*at)[bytes]))
		bytes++;
	name = memmem(*at, bytes, record, strlen(record));
	if (!name || !is_bare(*at, name))
		return false;
	name += strlen(record);
	if (!is_word(name, word_bytes(name), field))
		return false;
	*at = name + strlen(field);
	return true;
}

static void skip_closing(const char **at)
{
	*at += strspn(*at, ") ");
}

/* The first argument of a table, up to its comma: the field, perhaps shifted down, perhaps with some bits alone. */
static bool take_argument(struct kernel_names *names, const char **at)
{
	struct number number = {0};
	uint64_t shift = 0, mask = UINT64_MAX;

	if (!take_field(at, names->field))
		return false;
	skip_closing(at);
	number.at = *at;
	if (take(&number, ">>"))
		shift = sum(&number);
	skip_closing(&number.at);
	if (take(&number, "&"))
		mask = shifted(&number);
	skip_closing(&number.at);
	if (number.bad || shift > 63 || *number.at != ',')
		return false;
	names->shift = (unsigned)shift;
	names->mask = mask << shift;
	*at = number.at + 1;
	return true;
}

/* `(REC->flags) ? __print_flags(REC->flags, ...) : "none"`: whether what is asked is the same field. */
static bool is_asked_of_field(const struct kernel_names *names, const char *table)
{
	const char *end = table, *asked;

	while (end > names->begin && end[-1] == ' ')
		end--;
	if (end == names->begin || end[-1] != '?')
		return false;
	for (asked = --end; asked > names->begin && asked[-1] != ','; asked--)
		;
	return take_field(&asked, names->field) && asked <= end && !memchr(asked, '=', (size_t)(end - asked));
}

/* ---- Tables ------------------------------------------------------------------------------------ */

/* The text that begins with a quote here: *at is then behind it. False: there is none, or one with escapes. */
static bool take_text(const char **at, const char **text, size_t *bytes)
{
	skip_spaces(at);
	if (**at != '"')
		return false;
	*text = *at + 1;
	*bytes = strcspn(*text, "\"\\");
	*at = *text + *bytes;
	return *(*at)++ == '"';
}

/* What is behind the mark: *at is then behind its parenthesis. */
static bool take_kind(struct kernel_names *names, const char **at)
{
	static const char *const kinds[] = { "flags(", "flags_u64(", "symbolic(", "symbolic_u64(" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strncmp(*at, kinds[i], strlen(kinds[i])) == 0) {
			names->is_flags = *kinds[i] == 'f';
			*at += strlen(kinds[i]);
			return true;
		}
	}
	return false;
}

/* Goes into a table of the field that begins here. False: it is of something else. */
static bool enter(struct kernel_names *names, const char *table)
{
	const char *at = table + strlen(TABLE_MARK), *text;
	size_t bytes;

	if (!take_kind(names, &at) || !take_argument(names, &at))
		return false;
	if (names->is_flags) {
		if (!take_text(&at, &text, &bytes))
			return false;
		skip_spaces(&at);
		if (*at++ != ',')
			return false;
	}
	names->at = at;
	names->zero = is_asked_of_field(names, table) ? "" : NULL;
	return true;
}

static bool has_comma(const char *from, const char *to)
{
	while (to > from && to[-1] == ' ')
		to--;
	return to > from && to[-1] == ',';
}

/* `{ 9, "RCU" }`, and the comma behind it. */
static bool take_pair(struct kernel_names *names, struct kernel_name *name)
{
	const char *at = names->at;

	skip_spaces(&at);
	if (*at++ != '{')
		return false;
	name->number = at;
	at += strcspn(at, "\"{}");
	if (!has_comma(name->number, at) || !take_text(&at, &name->text, &name->bytes))
		return false;
	skip_spaces(&at);
	if (*at++ != '}')
		return false;
	skip_spaces(&at);
	at += *at == ',';
	names->at = at;
	return true;
}

/* `) : "none"` behind the pairs. */
static bool take_zero(struct kernel_names *names, struct kernel_name *name)
{
	const char *at = names->at;

	if (!names->zero)
		return false;
	names->zero = NULL;
	at += strspn(at, ") ");
	name->number = NULL;
	return *at++ == ':' && take_text(&at, &name->text, &name->bytes);
}

void kernel_names_begin(struct kernel_names *names, const char *format, const char *field)
{
	*names = (struct kernel_names){ .field = field, .begin = format, .at = format };
}

bool kernel_names_next(struct kernel_names *names, struct kernel_name *name)
{
	for (;;) {
		const char *table;

		if (names->in_table && (take_pair(names, name) || take_zero(names, name)))
			return true;
		names->in_table = false;
		table = strstr(names->at, TABLE_MARK);
		if (!table)
			return false;
		names->in_table = enter(names, table);
		names->tables += names->in_table;
		if (!names->in_table)
			names->at = table + strlen(TABLE_MARK);
	}
}

/* ---- One name ---------------------------------------------------------------------------------- */

/* The value in the field's bits. False: nobody knows the number. */
static bool number_of(const struct kernel_names *names, const struct kernel_name *name, uint64_t *value)
{
	struct number number = { .at = name->number };

	*value = 0;
	if (name->number)
		*value = any_bits(&number) << names->shift;
	if (name->number && !take(&number, ","))
		number.bad = true;
	return !number.bad && !(*value & ~names->mask);
}

static bool find_one(const char *format, const char *field, const char *text, size_t bytes, bool flags,
		     uint64_t *mask, uint64_t *value)
{
	struct kernel_names names;
	struct kernel_name name;

	kernel_names_begin(&names, format, field);
	while (kernel_names_next(&names, &name))
		if (name.bytes == bytes && memcmp(name.text, text, bytes) == 0 && (names.is_flags || !flags) &&
		    number_of(&names, &name, value)) {
			*mask = names.mask;
			return true;
		}
	return false;
}

bool kernel_names_find(const char *format, const char *field, const char *text, size_t bytes, uint64_t *mask,
		       uint64_t *value)
{
	const char *end = text + bytes;
	uint64_t all = 0, first = 0;
	unsigned flags = 0;

	if (!bytes || !*format)
		return false;
	if (find_one(format, field, text, bytes, false, mask, value))
		return true;
	if (!memchr(text, '|', bytes))
		return false;
	for (const char *at = text, *next; at <= end; at = next + 1) {
		next = memchr(at, '|', (size_t)(end - at));
		next = next ? next : end;
		if (++flags > KERNEL_FLAGS_MAX || !find_one(format, field, at, (size_t)(next - at), true, mask, value))
			return false;
		all |= *value;
		if (at != text && *mask != first)
			return false;
		first = *mask;
	}
	*value = all;
	return true;
}

/* ---- Formats ----------------------------------------------------------------------------------- */

/* As the client prints it; it is recorded without a format. */
static const char switch_format[] =
	"\"%s\", (REC->prev_state & 0x1ff) ? __print_flags(REC->prev_state & 0x1ff, \"|\", { 1, \"S\" }, { 2, \"D\" }, "
	"{ 4, \"T\" }, { 8, \"t\" }, { 0x10, \"X\" }, { 0x20, \"Z\" }, { 0x40, \"P\" }, { 0x80, \"I\" }, "
	"{ 0x100, \"R+\" }) : \"R\"";

const char *kernel_names_format(const Ringtail__V1__Probe *probe)
{
	if (!*probe->print && strcmp(probe->name, "sched_switch") == 0 && strcmp(probe->function, "sched") == 0 &&
	    strcmp(probe->provider, "tracepoint") == 0)
		return switch_format;
	return probe->print;
}

/* Up to the first name: `REC->vec ? __print_symbolic(REC->vec >> 8 & 0x7`. */
static void open_table(FILE *to, const struct kernel_names *names)
{
	fprintf(to, ", REC->%s ? " TABLE_MARK "%s(REC->%s", names->field, names->is_flags ? "flags" : "symbolic",
		names->field);
	if (names->shift)
		fprintf(to, " >> %u", names->shift);
	if (names->mask != UINT64_MAX)
		fprintf(to, " & 0x%" PRIx64, names->mask >> names->shift);
	if (names->is_flags)
		fputs(", \"|\"", to);
}

/* With the number, where it is known, or as the format has it. */
static void write_name(FILE *to, const struct kernel_name *name)
{
	struct number number = { .at = name->number };
	uint64_t value;

	if (!name->number) {
		fprintf(to, ") : \"%.*s\"", (int)name->bytes, name->text);
		return;
	}
	value = any_bits(&number);
	if (!number.bad && take(&number, ","))
		fprintf(to, ",{0x%" PRIx64, value);
	else
		fprintf(to, ",{%.*s", (int)strcspn(name->number, ","), name->number);
	fprintf(to, ",\"%.*s\"}", (int)name->bytes, name->text);
}

static void write_tables(FILE *to, const char *format, const char *field)
{
	struct kernel_names names;
	struct kernel_name name;
	unsigned tables = 0;
	bool is_open = false;

	kernel_names_begin(&names, format, field);
	while (kernel_names_next(&names, &name)) {
		if (names.tables != tables) {
			fputs(is_open ? ")" : "", to);
			open_table(to, &names);
			tables = names.tables;
		}
		write_name(to, &name);
		is_open = name.number != NULL;
	}
	fputs(is_open ? ")" : "", to);
}

char *kernel_names_tables(const Ringtail__V1__Probe *probe)
{
	const char *format = kernel_names_format(probe);
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	for (size_t i = 0; *format && i < probe->n_field; i++)
		if (*probe->field[i]->name)
			write_tables(to, format, probe->field[i]->name);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}
