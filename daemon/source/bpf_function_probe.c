#include "daemon/source/bpf_function_probe.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/source/registers.h"
#include "kmod/bpf/request.h"
#include "proto/limits.h"

#define TYPE_DEPTH_MAX	16	/* of modifiers, names and pointers around a type */
#define SLOT_BYTES	8
#define SLOTS_MAX	12	/* of arguments, that the kernel passes to a program */
#define ENUM_NAMES_MAX	256	/* of one type; with more, its values are numbers */

const char *const function_provider[FUNCTION_HOWS] = {"fentry", "fexit", "kprobe", "kretprobe"};
const char *const function_moment[FUNCTION_HOWS] = {"call", "return", "call", "return"};

enum value_kind {
	VALUE_NOTHING,		/* void */
	VALUE_NUMBER,
	VALUE_NAMED,		/* of an enum */
	VALUE_POINTER,
	VALUE_TEXT,		/* a pointer to char */
	VALUE_STRUCT,		/* itself, in one or two registers */
	VALUE_ELSEWHERE,	/* no register of ours has it: a float, or a structure on the stack */
};

/* An argument, or what a function returns. */
struct value {
	enum value_kind kind;
	uint32_t type;
	unsigned bytes;		/* of a structure, all of it */
	bool is_signed;
	bool is_raw;		/* a pointer that the verifier knows nothing of */
};

struct making {
	const struct btf *btf;
	enum function_how how;
	unsigned slots;		/* taken by arguments so far */
	Ringtail__V1__Probe *probe;
	struct tracepoint_plan *plan;
	const char **why;
	FILE *print;		/* its print format, so far; NULL: not wanted */
	FILE *values;
	bool has_names, has_texts;
};

/* ---- Types ------------------------------------------------------------------------------------ */

static bool is_around(const struct btf_type *type)
{
	return btf_is_mod(type) || btf_is_typedef(type);
}

/* Without modifiers and other names; NULL: void, or nonsense. */
static const struct btf_type *bare_type(const struct btf *btf, uint32_t id)
{
	const struct btf_type *type = id ? btf__type_by_id(btf, id) : NULL;

	for (unsigned i = 0; type && is_around(type); i++)
		type = type->type && i < TYPE_DEPTH_MAX ? btf__type_by_id(btf, type->type) : NULL;
	return type;
}

static const char *name_of(const struct btf *btf, const struct btf_type *type)
{
	const char *name = btf__name_by_offset(btf, type->name_off);

	return name && *name ? name : "";
}

static bool is_char(const struct btf *btf, const struct btf_type *type)
{
	return type && btf_is_int(type) && type->size == 1 && strcmp(name_of(btf, type), "char") == 0;
}

static const char *keyword_of(const struct btf_type *type)
{
	return btf_is_struct(type) ? "struct " : btf_is_union(type) ? "union " : btf_is_any_enum(type) ? "enum " :
	       btf_is_fwd(type) ? btf_kflag(type) ? "union " : "struct " : "";
}

/* "const char *", as far as there is room; what has no name is "...". */
static void write_type(const struct btf *btf, uint32_t id, unsigned depth, FILE *out)
{
	const struct btf_type *type = id ? btf__type_by_id(btf, id) : NULL;

	if (!type || depth == TYPE_DEPTH_MAX) {
		fputs(id ? "..." : "void", out);
	} else if (btf_is_ptr(type)) {
		const struct btf_type *to = type->type ? btf__type_by_id(btf, type->type) : NULL;

		write_type(btf, type->type, depth + 1, out);
		fputs(to && btf_is_ptr(to) ? "*" : " *", out);
	} else if (btf_is_const(type) || btf_is_volatile(type)) {
		fputs(btf_is_const(type) ? "const " : "volatile ", out);
		write_type(btf, type->type, depth + 1, out);
	} else if (btf_is_mod(type)) {
		write_type(btf, type->type, depth + 1, out);
	} else {
		const char *name = name_of(btf, type);

		fprintf(out, "%s%s", keyword_of(type), *name ? name : "...");
	}
}

static char *type_text(const struct btf *btf, uint32_t id)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	write_type(btf, id, 0, out);
	if (fclose(out) != 0 || !text)
		return NULL;
	if (strlen(text) > NAME_BYTES_MAX)
		text[NAME_BYTES_MAX] = '\0';
	return text;
}

static struct value classify_pointer(const struct btf *btf, const struct btf_type *type, struct value value)
{
	const struct btf_type *to = bare_type(btf, type->type);

	value.kind = is_char(btf, to) ? VALUE_TEXT : VALUE_POINTER;
	value.bytes = SLOT_BYTES;
	value.is_raw = !to || !(btf_is_struct(to) || btf_is_union(to));
	return value;
}

static struct value classify(const struct btf *btf, uint32_t id)
{
	const struct btf_type *type = bare_type(btf, id);
	struct value value = {.kind = VALUE_ELSEWHERE, .type = id};

	if (!id || (!type && btf__type_by_id(btf, id))) {
		value.kind = VALUE_NOTHING;
	} else if (type && btf_is_ptr(type)) {
		return classify_pointer(btf, type, value);
	} else if (type && btf_is_int(type) && type->size <= SLOT_BYTES) {
		value.kind = VALUE_NUMBER;
		value.bytes = type->size;
		value.is_signed = btf_int_encoding(type) & BTF_INT_SIGNED;
	} else if (type && btf_is_any_enum(type) && type->size <= SLOT_BYTES) {
		value.kind = VALUE_NAMED;
		value.bytes = type->size;
		value.is_signed = btf_kflag(type);
	} else if (type && (btf_is_composite(type) || btf_is_int(type)) && type->size &&
		   type->size <= 2 * SLOT_BYTES) {
		value.kind = VALUE_STRUCT;
		value.bytes = type->size;
	}
	return value;
}

/* ---- Words ------------------------------------------------------------------------------------ */

static bool is_tracing(enum function_how how)
{
	return how == FUNCTION_FENTRY || how == FUNCTION_FEXIT;
}

static uint8_t word_bytes(const struct value *value, unsigned part)
{
	unsigned left = value->bytes - part * SLOT_BYTES;

	return left == 1 || left == 2 || left == 4 ? (uint8_t)left : SLOT_BYTES;
}

/* A slot of what the kernel passes to a program of the type TRACING. */
static struct tracepoint_word call_word(const struct value *value, unsigned slot, unsigned part, bool is_result)
{
	return (struct tracepoint_word){
		.of = !value->is_raw ? WORD_OF_CALL : is_result ? WORD_OF_RESULT_RAW : WORD_OF_CALL_RAW,
		.offset = (uint16_t)(SLOT_BYTES * slot), .number = (int32_t)slot, .index = WORD_NO_INDEX,
		.bytes = word_bytes(value, part), .is_signed = value->is_signed,
	};
}

static struct tracepoint_word register_word(const struct value *value, unsigned slot, unsigned part, bool is_result)
{
	bool is_there = is_result ? part == 0 : slot < REGISTER_ARGS;

	return (struct tracepoint_word){
		.of = WORD_OF_RECORD, .index = WORD_NO_INDEX,
		.offset = !is_there ? 0 : is_result ? register_result : register_arg[slot],
		.bytes = is_there ? word_bytes(value, part) : 0, .is_signed = value->is_signed,
	};
}

/* ---- How it prints ---------------------------------------------------------------------------- */

/* The names of an enum's values, as the kernel's own formats have them. */
static void print_names(struct making *making, const char *name, const struct btf_type *type)
{
	fprintf(making->print, "%s=%%s", name);
	fprintf(making->values, ", __print_symbolic(REC->%s", name);
	for (unsigned i = 0; i < btf_vlen(type); i++) {
		bool wide = btf_kind(type) == BTF_KIND_ENUM64;
		uint32_t place = wide ? btf_enum64(type)[i].name_off : btf_enum(type)[i].name_off;
		long long number = wide ? (long long)btf_enum64_value(&btf_enum64(type)[i]) : btf_enum(type)[i].val;

		fprintf(making->values, ", { %lld, \"%s\" }", number, btf__name_by_offset(making->btf, place));
	}
	fputc(')', making->values);
}

static void print_value(struct making *making, const char *name, const struct value *value, bool is_first)
{
	const struct btf_type *type = bare_type(making->btf, value->type);

	if (!is_first)
		fputc(' ', making->print);
	if (value->kind == VALUE_NAMED && btf_vlen(type) && btf_vlen(type) <= ENUM_NAMES_MAX) {
		print_names(making, name, type);
		making->has_names = true;
		return;
	}
	making->has_texts |= value->kind == VALUE_TEXT;
	fprintf(making->print, "%s=%s", name, value->kind == VALUE_NUMBER || value->kind == VALUE_NAMED ?
		value->is_signed ? "%ld" : "%lu" : "0x%lx");
	fprintf(making->values, ", REC->%s", name);
}

/* ---- Fields ----------------------------------------------------------------------------------- */

static Ringtail__V1__FieldType field_type(const struct value *value)
{
	return value->kind == VALUE_TEXT ? RINGTAIL__V1__FIELD_TYPE__FIELD_STRING :
	       value->kind == VALUE_POINTER || value->kind == VALUE_STRUCT ? RINGTAIL__V1__FIELD_TYPE__FIELD_HEX :
	       value->is_signed ? RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED : RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED;
}

/* `c_type` is taken over. */
static int add_field(struct making *making, const char *name, char *c_type, const struct value *value,
		     const struct tracepoint_word *word)
{
	Ringtail__V1__Probe *probe = making->probe;
	Ringtail__V1__Field *field = c_type ? malloc(sizeof(*field)) : NULL;

	if (!field) {
		free(c_type);
		return -ENOMEM;
	}
	ringtail__v1__field__init(field);
	field->name = strndup(name, NAME_BYTES_MAX);
	field->c_type = c_type;
	field->type = field_type(value);
	field->bits = 8u * word->bytes;
	if (value->kind == VALUE_TEXT && making->plan->texts < MADE_TEXTS_MAX && word->bytes)
		making->plan->text[making->plan->texts++] = made_text_make(0, making->plan->words, 0, 0);
	making->plan->word[making->plan->words++] = *word;
	print_value(making, name, value, probe->n_field == 0);
	probe->field[probe->n_field++] = field;
	return field->name ? 0 : -ENOMEM;
}

static int refuse(struct making *making, const char *why)
{
	*making->why = why;
	return -EOPNOTSUPP;
}

/* One field for each slot that it takes. */
static int add_value(struct making *making, const char *name, const struct value *value, bool is_result)
{
	unsigned parts = value->bytes > SLOT_BYTES ? 2 : 1;
	int err = 0;

	if (value->kind == VALUE_ELSEWHERE && is_tracing(making->how))
		return refuse(making, is_result ? "it returns a structure" : "an argument of it is a structure that"
			      " lies on the stack");
	if (is_tracing(making->how) && !is_result && making->slots + parts > SLOTS_MAX)
		return refuse(making, "it has more arguments than the kernel passes to a program");
	for (unsigned part = 0; part < parts && !err; part++) {
		unsigned slot = making->slots + part;
		struct tracepoint_word word = value->kind == VALUE_ELSEWHERE ?
			(struct tracepoint_word){.index = WORD_NO_INDEX} : is_tracing(making->how) ?
			call_word(value, slot, part, is_result) : register_word(value, slot, part, is_result);
		char part_name[NAME_BYTES_MAX + 8];

		snprintf(part_name, sizeof(part_name), "%.200s%s", name, part ? "_high" : "");
		err = add_field(making, part_name, word.bytes ? type_text(making->btf, value->type) :
				strdup("not recorded"), value, &word);
	}
	if (!is_result && value->kind != VALUE_ELSEWHERE)
		making->slots += parts;
	return err;
}

static int add_arguments(struct making *making, const struct btf_type *prototype, bool are_shown)
{
	int err = 0;

	for (unsigned i = 0; i < btf_vlen(prototype) && !err; i++) {
		const struct btf_param *param = &btf_params(prototype)[i];
		struct value value = classify(making->btf, param->type);
		char name[NAME_BYTES_MAX + 1];

		if (value.kind == VALUE_NOTHING)	/* "..." */
			return is_tracing(making->how) ? refuse(making, "it takes any number of arguments") : 0;
		if (making->probe->n_field + 4 > PROBE_FIELDS_MAX)
			return refuse(making, "it has too many arguments");
		snprintf(name, sizeof(name), "%s", btf__name_by_offset(making->btf, param->name_off));
		if (!*name || strcmp(name, "retval") == 0)
			snprintf(name, sizeof(name), "arg%u", i);
		if (are_shown)
			err = add_value(making, name, &value, false);
		else
			making->slots += value.bytes > SLOT_BYTES ? 2 : 1;
	}
	return err;
}

static int add_typed(struct making *making, uint32_t function)
{
	const struct btf_type *type = btf__type_by_id(making->btf, function);
	const struct btf_type *prototype = btf__type_by_id(making->btf, type->type);
	struct value result;
	int err = add_arguments(making, prototype, making->how != FUNCTION_KRETPROBE);

	if (err || making->how == FUNCTION_FENTRY || making->how == FUNCTION_KPROBE)
		return err;
	result = classify(making->btf, prototype->type);
	return result.kind == VALUE_NOTHING ? 0 : add_value(making, "retval", &result, true);
}

/* As a function of a program, of which nobody knows the types. */
static int add_registers(struct making *making)
{
	struct value value = {.kind = VALUE_POINTER, .bytes = SLOT_BYTES};
	struct tracepoint_word word;
	char name[16];
	int err = 0;

	for (unsigned i = 0; making->how == FUNCTION_KPROBE && i < REGISTER_ARGS && !err; i++) {
		snprintf(name, sizeof(name), "arg%u", i);
		word = register_word(&value, i, 0, false);
		err = add_field(making, name, strdup("unsigned long"), &value, &word);
	}
	if (making->how == FUNCTION_KPROBE)
		return err;
	value = (struct value){.kind = VALUE_NUMBER, .bytes = SLOT_BYTES, .is_signed = true};
	word = register_word(&value, 0, 0, true);
	return add_field(making, "retval", strdup("long"), &value, &word);
}

/* ---- The probe -------------------------------------------------------------------------------- */

static Ringtail__V1__Probe *make_message(const char *name, enum function_how how)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));

	if (!probe)
		return NULL;
	ringtail__v1__probe__init(probe);
	probe->field = calloc(PROBE_FIELDS_MAX, sizeof(struct Ringtail__V1__Field *));
	probe->provider = strdup(function_provider[how]);
	probe->function = strdup(name);
	probe->name = strdup(function_moment[how]);
	probe->print = strdup("");
	if (probe->field && probe->provider && probe->function && probe->name && probe->print)
		return probe;
	ringtail__v1__probe__free_unpacked(probe, NULL);
	return NULL;
}

/* Only where there are names to print; but a format would print no text. Takes what was written. */
static int finish_print(struct making *making, const char *format, const char *values)
{
	char *print;

	if (!making->has_names || making->has_texts || strlen(format) + strlen(values) + 3 > PRINT_BYTES_MAX)
		return 0;
	if (asprintf(&print, "\"%s\"%s", format, values) < 0)
		return -ENOMEM;
	free(making->probe->print);
	making->probe->print = print;
	return 0;
}

static int fill(struct making *making, uint32_t function)
{
	char *format = NULL, *values = NULL;
	size_t bytes;
	int err = -ENOMEM;

	making->print = open_memstream(&format, &bytes);
	making->values = open_memstream(&values, &bytes);
	if (making->print && making->values)
		err = making->btf && function ? add_typed(making, function) : add_registers(making);
	if (making->print && fclose(making->print) != 0)
		err = -ENOMEM;
	if (making->values && fclose(making->values) != 0)
		err = -ENOMEM;
	if (!err)
		err = finish_print(making, format, values);
	free(format);
	free(values);
	return err;
}

int function_probe_create(const struct btf *btf, uint32_t function, const char *name, enum function_how how,
			  Ringtail__V1__Probe **probe, struct tracepoint_plan *plan, const char **why)
{
	struct making making = {
		.btf = btf, .how = how, .probe = make_message(name, how), .plan = plan, .why = why,
	};
	int err = making.probe ? 0 : -ENOMEM;

	*plan = (struct tracepoint_plan){.of_kernel = true};
	if (!err)
		err = fill(&making, function);
	if (!err)
		*probe = making.probe;
	else if (making.probe)
		ringtail__v1__probe__free_unpacked(making.probe, NULL);
	return err;
}
