/*
 * The text is
 *
 *	name: sched_switch
 *	ID: 316
 *	format:
 *		field:unsigned short common_type;	offset:0;	size:2;	signed:0;
 *		...
 *
 *		field:char prev_comm[16];	offset:8;	size:16;	signed:0;
 *
 *	print fmt: "prev_comm=%s ...", REC->prev_comm, ...
 */
#include "daemon/source/tracepoint_probe.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define NUMBER_MAX	1000000000u
#define WORD_BYTES 8u

_Static_assert(PROBE_FIELDS_MAX <= 32, "a text names its field in five bits");

/* What is left of a text. */
struct rest {
	const char *at, *end;
};

static bool starts(const struct rest *rest, const char *word)
{
	size_t bytes = strlen(word);

	return (size_t)(rest->end - rest->at) >= bytes && memcmp(rest->at, word, bytes) == 0;
}

static bool skip_word(struct rest *rest, const char *word)
{
	if (!starts(rest, word))
		return false;
	rest->at += strlen(word);
	return true;
}

static void skip_spaces(struct rest *rest)
{
	while (rest->at < rest->end && (*rest->at == ' ' || *rest->at == '\t'))
		rest->at++;
}

static bool take_number(struct rest *rest, uint32_t *number)
{
	const char *start = rest->at;

	*number = 0;
	while (rest->at < rest->end && isdigit((unsigned char)*rest->at)) {
		if (*number > NUMBER_MAX / 10)
			return false;
		*number = *number * 10 + (uint32_t)(*rest->at++ - '0');
	}
	return rest->at != start;
}

/* The next line, without its end; false: there is none. */
static bool take_line(struct rest *text, struct rest *line)
{
	const char *end;

	if (text->at == text->end)
		return false;
	end = memchr(text->at, '\n', (size_t)(text->end - text->at));
	*line = (struct rest){.at = text->at, .end = end ? end : text->end};
	text->at = end ? end + 1 : text->end;
	return true;
}

/* ---- A declaration ---------------------------------------------------------------------------- */

static bool is_name_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static struct tracepoint_span trim(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct tracepoint_span){.at = at, .bytes = (size_t)(end - at)};
}

static bool span_is(const struct tracepoint_span *span, const char *text)
{
	return span->bytes == strlen(text) && memcmp(span->at, text, span->bytes) == 0;
}

/* "const char []" is of "char". */
static struct tracepoint_span element_type(const struct tracepoint_span *c_type)
{
	struct rest rest = {.at = c_type->at, .end = c_type->at + c_type->bytes};
	const char *bracket = memchr(c_type->at, '[', c_type->bytes);

	skip_word(&rest, "const ");
	return trim(rest.at, bracket ? bracket : rest.end);
}

static uint8_t bytes_of_type(const struct tracepoint_span *type)
{
	static const struct {
		const char *name;
		uint8_t bytes;
	} known[] = {
		{"u16", 2}, {"__u16", 2}, {"s16", 2}, {"short", 2}, {"unsigned short", 2},
		{"uint16_t", 2}, {"__be16", 2}, {"__le16", 2},
		{"u32", 4}, {"__u32", 4}, {"s32", 4}, {"int", 4}, {"unsigned int", 4},
		{"unsigned", 4}, {"uint32_t", 4}, {"int32_t", 4}, {"__be32", 4}, {"__le32", 4},
		{"u64", 8}, {"__u64", 8}, {"s64", 8}, {"long", 8}, {"unsigned long", 8},
		{"long long", 8}, {"unsigned long long", 8}, {"uint64_t", 8}, {"int64_t", 8},
		{"cpumask_t", 8}, {"cpumask_t *", 8},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (span_is(type, known[i].name))
			return known[i].bytes;
	return 1;
}

/* What stands in the last brackets of "u32 x[10]"; 0: no number. */
static uint32_t count_of(const char *at, const char *end)
{
	struct rest rest = {.at = at, .end = end};
	uint32_t count;

	return take_number(&rest, &count) && rest.at == rest.end ? count : 0;
}

static bool is_element_size(uint32_t bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

/* The size of an element, once the field's own is known. */
static void find_element(struct tracepoint_field *field, uint32_t count)
{
	struct tracepoint_span type = element_type(&field->c_type);
	uint8_t bytes = bytes_of_type(&type);

	if (field->kind == TRACEPOINT_ARRAY && count && field->bytes % count == 0 &&
	    is_element_size(field->bytes / count))
		bytes = (uint8_t)(field->bytes / count);
	field->element_bytes = bytes;
	field->is_text = bytes == 1 && span_is(&type, "char");
}

/* "char prev_comm[16]", "__data_loc char[] name", "const void *call_site" */
static bool parse_declaration(struct rest declaration, struct tracepoint_field *field,
			      uint32_t *count)
{
	const char *end, *name, *bracket = NULL;

	field->kind = skip_word(&declaration, "__data_loc ") ? TRACEPOINT_LOCATED :
		      skip_word(&declaration, "__rel_loc ") ? TRACEPOINT_RELATIVE : TRACEPOINT_SCALAR;
	*count = 0;
	end = declaration.end;
	if (field->kind == TRACEPOINT_SCALAR && end > declaration.at && end[-1] == ']') {
		field->kind = TRACEPOINT_ARRAY;
		bracket = memrchr(declaration.at, '[', (size_t)(end - declaration.at));
		if (!bracket)
			return false;
		*count = count_of(bracket + 1, end - 1);
		end = bracket;
	}
	for (name = end; name > declaration.at && is_name_byte(name[-1]); name--)
		;
	field->name = (struct tracepoint_span){.at = name, .bytes = (size_t)(end - name)};
	field->c_type = trim(declaration.at, name);
	return field->name.bytes && field->c_type.bytes &&
	       field->name.bytes <= NAME_BYTES_MAX && field->c_type.bytes <= NAME_BYTES_MAX;
}

/* ---- A line ----------------------------------------------------------------------------------- */

static bool take_member(struct rest *line, const char *name, uint32_t *number)
{
	skip_spaces(line);
	return skip_word(line, name) && take_number(line, number) && skip_word(line, ";");
}

/* The declaration ends at the first ';': no C type has one. */
static bool parse_field(struct rest line, struct tracepoint_field *field)
{
	const char *end = memchr(line.at, ';', (size_t)(line.end - line.at));
	uint32_t offset, bytes, is_signed, count;

	if (!end || !parse_declaration((struct rest){.at = line.at, .end = end}, field, &count))
		return false;
	line.at = end + 1;
	if (!take_member(&line, "offset:", &offset) || !take_member(&line, "size:", &bytes) ||
	    !take_member(&line, "signed:", &is_signed) || is_signed > 1 ||
	    offset > TRACEPOINT_RECORD_BYTES_MAX || bytes > TRACEPOINT_RECORD_BYTES_MAX - offset)
		return false;
	field->offset = (uint16_t)offset;
	field->bytes = (uint16_t)bytes;
	field->is_signed = is_signed;
	if ((field->kind == TRACEPOINT_LOCATED || field->kind == TRACEPOINT_RELATIVE) && bytes != 4)
		return false;
	/* A structure by value, or a type of three bytes, is the bytes it has. */
	if (field->kind == TRACEPOINT_SCALAR && !is_element_size(bytes))
		field->kind = TRACEPOINT_ARRAY;
	find_element(field, count);
	return true;
}

/* Every record begins with these, and no program may read them. */
static bool is_common(const struct tracepoint_field *field)
{
	return field->name.bytes > 7 && memcmp(field->name.at, "common_", 7) == 0;
}

static int take_field(struct tracepoint_format *format, struct rest line)
{
	struct tracepoint_field field;

	if (!parse_field(line, &field))
		return -EINVAL;
	if (is_common(&field) || !field.bytes)
		return 0;
	if (format->fields == TRACEPOINT_FIELDS_MAX)
		return -EINVAL;
	format->field[format->fields++] = field;
	return 0;
}

int tracepoint_format_parse(const char *text, size_t bytes, struct tracepoint_format *format)
{
	struct rest rest = {.at = text, .end = text + bytes}, line;
	bool has_id = false;
	int err = 0;

	format->id = 0;
	format->fields = 0;
	format->print = (struct tracepoint_span){.at = text + bytes};
	while (!err && take_line(&rest, &line)) {
		skip_spaces(&line);
		if (skip_word(&line, "field:")) {
			err = take_field(format, line);
		} else if (skip_word(&line, "ID:")) {
			skip_spaces(&line);
			has_id = take_number(&line, &format->id);
		} else if (skip_word(&line, "print fmt: ")) {
			/* The last of it, and where it was written in several lines, all of them. */
			format->print = trim(line.at, rest.end);
			while (format->print.bytes && format->print.at[format->print.bytes - 1] == '\n')
				format->print.bytes--;
			break;
		}
	}
	return err ? err : has_id ? 0 : -EINVAL;
}

/* ---- Words and attachments -------------------------------------------------------------------- */

/* How many words a field takes in the payload if it is not attached. */
static unsigned words_of(const struct tracepoint_field *field)
{
	return field->kind == TRACEPOINT_ARRAY ? (field->bytes + WORD_BYTES - 1) / WORD_BYTES : 1;
}

/* Of each field, whether its bytes lie in the payload's words; arrays do as far as there are words. */
static int place_fields(const struct tracepoint_format *format, bool in_words[TRACEPOINT_FIELDS_MAX])
{
	unsigned words = format->fields;

	if (words > PROBE_FIELDS_MAX)
		return -E2BIG;
	for (unsigned i = 0; i < format->fields; i++) {
		const struct tracepoint_field *field = &format->field[i];
		unsigned more = words_of(field) - 1;

		in_words[i] = field->kind == TRACEPOINT_SCALAR ||
			      (field->kind == TRACEPOINT_ARRAY &&
			       field->bytes <= TRACEPOINT_INLINE_BYTES_MAX &&
			       words + more <= PROBE_FIELDS_MAX);
		if (in_words[i])
			words += more;
	}
	return 0;
}

/* ---- The plan --------------------------------------------------------------------------------- */

static void plan_words(const struct tracepoint_field *field, struct tracepoint_plan *plan)
{
	for (unsigned at = 0; at < field->bytes; at += WORD_BYTES) {
		unsigned left = field->bytes - at;

		plan->word[plan->words++] = (struct tracepoint_word){
			.offset = (uint16_t)(field->offset + at),
			.bytes = (uint8_t)(left < WORD_BYTES ? left : WORD_BYTES),
			.is_signed = field->kind == TRACEPOINT_SCALAR && field->is_signed,
		};
	}
}

/* Where there is room for no more of them, the word still says how many bytes there were. */
static void plan_attachment(const struct tracepoint_field *field, struct tracepoint_plan *plan)
{
	uint32_t how = field->kind == TRACEPOINT_LOCATED ? MADE_TEXT_LOCATED :
		       field->kind == TRACEPOINT_RELATIVE ? MADE_TEXT_LOCATED | MADE_TEXT_RELATIVE : 0;
	unsigned bytes = field->bytes < RT_STRING_BYTES_MAX ? field->bytes : RT_STRING_BYTES_MAX;

	if (plan->texts < MADE_TEXTS_MAX)
		plan->text[plan->texts++] =
			made_text_make(how, plan->words, bytes, field->offset);
	plan->word[plan->words++] = (struct tracepoint_word){
		.offset = field->offset,
		.bytes = how ? 4 : 0,
		.is_location = how,
	};
}

/* ---- The message ------------------------------------------------------------------------------ */

static char *copy(const struct tracepoint_span *span)
{
	return strndup(span->at, span->bytes);
}

static bool has_star(const struct tracepoint_span *span)
{
	return memchr(span->at, '*', span->bytes) != NULL;
}

static Ringtail__V1__FieldType type_of(const struct tracepoint_field *field)
{
	if (field->kind != TRACEPOINT_SCALAR)
		return field->is_text ? RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT :
					RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES;
	if (has_star(&field->c_type))
		return RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
	return field->is_signed ? RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED :
				  RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED;
}

/* Appends a field of that name; NULL: out of memory. */
static Ringtail__V1__Field *add_field(Ringtail__V1__Probe *probe, char *name, char *c_type)
{
	Ringtail__V1__Field *field = malloc(sizeof(*field));

	if (field && name && c_type) {
		ringtail__v1__field__init(field);
		field->name = name;
		field->c_type = c_type;
		probe->field[probe->n_field++] = field;
		return field;
	}
	free(field);
	free(name);
	free(c_type);
	return NULL;
}

/* As C has it: "char[16]". */
static char *c_type_of(const struct tracepoint_field *field)
{
	char *text;

	if (field->kind != TRACEPOINT_ARRAY)
		return copy(&field->c_type);
	return asprintf(&text, "%.*s[%u]", (int)field->c_type.bytes, field->c_type.at,
			field->bytes / field->element_bytes) < 0 ? NULL : text;
}

static int describe(Ringtail__V1__Probe *probe, const struct tracepoint_field *from, bool in_words)
{
	Ringtail__V1__Field *field = add_field(probe, copy(&from->name), c_type_of(from));

	if (!field)
		return -ENOMEM;
	field->type = type_of(from);
	field->bits = 8u * (from->kind == TRACEPOINT_SCALAR ? from->bytes : from->element_bytes);
	if (from->kind == TRACEPOINT_SCALAR)
		return 0;
	field->element_signed = from->is_signed;
	field->bytes = in_words ? from->bytes : 0;
	for (unsigned i = 1; in_words && i < words_of(from); i++) {
		Ringtail__V1__Field *more = add_field(probe, strdup(""), strdup(""));

		if (!more)
			return -ENOMEM;
		more->type = RINGTAIL__V1__FIELD_TYPE__FIELD_MORE;
	}
	return 0;
}

/* A line break in the middle of the text would be one on somebody's screen. */
static char *print_of(const struct tracepoint_span *span)
{
	char *text = copy(span);

	for (char *at = text; at && *at; at++)
		if (*at == '\n' || *at == '\t')
			*at = ' ';
	return text;
}

static int fill(Ringtail__V1__Probe *probe, const struct tracepoint_format *format,
		const char *system, const char *name, bool print)
{
	ringtail__v1__probe__init(probe);
	probe->field = calloc(PROBE_FIELDS_MAX, sizeof(struct Ringtail__V1__Field *));
	probe->provider = strdup("tracepoint");
	probe->function = strdup(system);
	probe->name = strdup(name);
	/* Without it, the fields are printed one by one. */
	if (print && format->print.bytes <= PRINT_BYTES_MAX)
		probe->print = print_of(&format->print);
	return probe->field && probe->provider && probe->function && probe->name && probe->print ?
		       0 : -ENOMEM;
}

int tracepoint_probe_create(const struct tracepoint_format *format, const char *system,
			    const char *name, bool print, Ringtail__V1__Probe **out,
			    struct tracepoint_plan *plan)
{
	bool in_words[TRACEPOINT_FIELDS_MAX];
	int err = place_fields(format, in_words);
	Ringtail__V1__Probe *probe;

	if (err)
		return err;
	probe = malloc(sizeof(*probe));
	if (!probe)
		return -ENOMEM;
	err = fill(probe, format, system, name, print);
	if (plan)
		*plan = (struct tracepoint_plan){0};
	for (unsigned i = 0; i < format->fields && !err; i++) {
		err = describe(probe, &format->field[i], in_words[i]);
		if (plan && in_words[i])
			plan_words(&format->field[i], plan);
		else if (plan)
			plan_attachment(&format->field[i], plan);
	}
	if (err)
		ringtail__v1__probe__free_unpacked(probe, NULL);
	else
		*out = probe;
	return err;
}
