#include "daemon/source/tracepoint_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define WORD_BYTES 8u

_Static_assert(PROBE_FIELDS_MAX <= 32, "a text names its field in five bits");

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
