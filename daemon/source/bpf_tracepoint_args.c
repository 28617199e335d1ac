#include "daemon/source/bpf_tracepoint_args.h"

#include <bpf/btf.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define FIELDS		8u
#define STRUCTURES	2u		/* on the way to a field */
#define DEPTH_MAX	16u		/* of names around a type, and of structures within each other */
#define OFFSET_MAX	INT16_MAX	/* of a member: what one instruction can add */

struct row {
	const char *system, *name;
	unsigned args;
	const char *field[FIELDS];	/* ended by NULL if there are fewer */
};

#define TRACEPOINT_ARGS(system, name, args, ...) {system, name, args, {__VA_ARGS__}},
static const struct row rows[] = {
#include "daemon/source/tracepoint_args.def"
};
#undef TRACEPOINT_ARGS

#define ROWS	(sizeof(rows) / sizeof(rows[0]))

/* Where a field is. */
struct place {
	unsigned arg;
	bool is_member;			/* of what the argument points to */
	bool is_pointer;		/* so that a text lies where it points */
	uint16_t pointer;		/* to the structure that has it, in the argument's; WORD_NO_INDEX: it is that */
	uint16_t offset;
	uint32_t bytes;
};

struct tracepoint_args {
	struct found {
		uint32_t type;		/* btf_trace_NAME; 0: the kernel has none like the row's */
		struct place place[FIELDS];
	} found[ROWS];
};

/* "len=0 sk_buff.len" cut at what stands between its words; -1: the row is malformed. */
struct words {
	char text[NAME_BYTES_MAX + 1];
	char *name, *arg, *path[STRUCTURES];
	unsigned paths;
};

static int split(const char *field, struct words *words)
{
	char *rest;

	*words = (struct words){0};
	if (strlen(field) >= sizeof(words->text))
		return -1;
	strcpy(words->text, field);
	words->name = strtok_r(words->text, "=", &rest);
	words->arg = strtok_r(NULL, " ", &rest);
	for (char *path; (path = strtok_r(NULL, " ", &rest)); words->paths++) {
		if (words->paths == STRUCTURES)
			return -1;
		words->path[words->paths] = path;
	}
	return words->name && words->arg ? 0 : -1;
}

/* ---- The kernel's types --------------------------------------------------------------------------- */

static const struct btf_type *bare_type(const struct btf *btf, uint32_t id)
{
	const struct btf_type *type = btf__type_by_id(btf, id);

	for (unsigned i = 0; type && i < DEPTH_MAX && (btf_is_mod(type) || btf_is_typedef(type)); i++)
		type = btf__type_by_id(btf, type->type);
	return type;
}

static bool is_named(const struct btf *btf, const struct btf_type *type, const char *name, size_t bytes)
{
	const char *text = btf__name_by_offset(btf, type->name_off);

	return strncmp(text, name, bytes) == 0 && !text[bytes];
}

/* A member of that name, also of structures without a name in it; adds its place to *offset. NULL: there is none. */
static const struct btf_member *find_member(const struct btf *btf, const struct btf_type *structure, const char *name,
					    size_t bytes, unsigned depth, uint32_t *offset)
{
	const struct btf_member *member = btf_members(structure), *inner;

	for (unsigned i = 0; i < btf_vlen(structure); i++, member++) {
		uint32_t bits = btf_member_bit_offset(structure, i), at = *offset + bits / 8;
		const struct btf_type *type = bare_type(btf, member->type);

		if (btf_member_bitfield_size(structure, i) || bits % 8)
			continue;
		if (bytes && btf__name_by_offset(btf, member->name_off)[0] &&
		    strncmp(btf__name_by_offset(btf, member->name_off), name, bytes) == 0 &&
		    !btf__name_by_offset(btf, member->name_off)[bytes]) {
			*offset = at;
			return member;
		}
		if (member->name_off || !type || !btf_is_composite(type) || depth == DEPTH_MAX)
			continue;
		inner = find_member(btf, type, name, bytes, depth + 1, &at);
		if (inner) {
			*offset = at;
			return inner;
		}
	}
	return NULL;
}

/* "task_struct.thread_info.cpu" in that structure: where, and of which type. 0: it is another one, or has it not. */
static uint32_t follow(const struct btf *btf, const struct btf_type *structure, const char *path, uint32_t *offset)
{
	size_t bytes = strcspn(path, ".");
	uint32_t type = 0;

	*offset = 0;
	if (!structure || !btf_is_struct(structure) || !is_named(btf, structure, path, bytes))
		return 0;
	for (path += bytes; *path; path += bytes) {
		const struct btf_member *member;

		path++;
		bytes = strcspn(path, ".");
		member = structure && btf_is_composite(structure) ?
			 find_member(btf, structure, path, bytes, 0, offset) : NULL;
		if (!member)
			return 0;
		type = member->type;
		structure = bare_type(btf, type);
	}
	return *offset <= OFFSET_MAX ? type : 0;
}

static const struct btf_type *pointed_to(const struct btf *btf, uint32_t id)
{
	const struct btf_type *type = bare_type(btf, id);

	return type && btf_is_ptr(type) ? bare_type(btf, type->type) : NULL;
}

/* A field's place, by the type of its argument. */
static bool find_place(const struct btf *btf, uint32_t arg_type, const struct words *words, struct place *place)
{
	uint32_t type = arg_type, offset = 0;
	int64_t bytes;

	place->pointer = WORD_NO_INDEX;
	for (unsigned i = 0; i < words->paths; i++) {
		if (i)
			place->pointer = (uint16_t)offset;
		type = follow(btf, pointed_to(btf, type), words->path[i], &offset);
		if (!type)
			return false;
	}
	place->is_member = words->paths > 0;
	place->is_pointer = pointed_to(btf, type) != NULL;
	place->offset = (uint16_t)offset;
	bytes = btf__resolve_size(btf, type);
	place->bytes = bytes > 0 ? (uint32_t)bytes : 0;
	return bytes > 0 && (place->is_member || bytes <= 8);
}

/* The type is the one by which programs attach: a typedef of a pointer to a function, whose first argument is ours. */
static bool find_places(const struct btf *btf, const struct btf_type *type, const struct row *row,
			struct place place[FIELDS])
{
	const struct btf_type *function = pointed_to(btf, type->type);

	if (!function || !btf_is_func_proto(function) || btf_vlen(function) != row->args + 1)
		return false;
	for (unsigned i = 0; i < FIELDS && row->field[i]; i++) {
		struct words words;

		if (split(row->field[i], &words) != 0)
			return false;
		place[i].arg = (unsigned)strtoul(words.arg, NULL, 10);
		if (place[i].arg >= row->args ||
		    !find_place(btf, btf_params(function)[place[i].arg + 1].type, &words, &place[i]))
			return false;
	}
	return true;
}

struct tracepoint_args *tracepoint_args_find(const struct btf *kernel)
{
	static const char prefix[] = "btf_trace_";
	struct tracepoint_args *args = calloc(1, sizeof(*args));
	uint32_t types = args && kernel ? btf__type_cnt(kernel) : 0;

	for (uint32_t id = 1; id < types; id++) {
		const struct btf_type *type = btf__type_by_id(kernel, id);
		const char *name;

		if (!btf_is_typedef(type))
			continue;
		name = btf__name_by_offset(kernel, type->name_off);
		if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
			continue;
		for (unsigned i = 0; i < ROWS; i++)
			if (strcmp(name + sizeof(prefix) - 1, rows[i].name) == 0 &&
			    find_places(kernel, type, &rows[i], args->found[i].place))
				args->found[i].type = id;
	}
	return args;
}

void tracepoint_args_destroy(struct tracepoint_args *args)
{
	free(args);
}

/* ---- A plan --------------------------------------------------------------------------------------- */

static bool is_field(const struct tracepoint_field *field, const char *row_field)
{
	return strncmp(field->name.at, row_field, field->name.bytes) == 0 && row_field[field->name.bytes] == '=';
}

/* The word of the payload that in perf's record is `from`, a part of the field. False: they differ. */
static bool plan_word(const struct tracepoint_field *field, const struct tracepoint_word *from,
		      const struct place *place, struct tracepoint_word *word)
{
	unsigned within = from->offset - field->offset;

	*word = (struct tracepoint_word){
		.of = place->is_member ? WORD_OF_MEMBER : WORD_OF_CALL, .offset = (uint16_t)(8 * place->arg),
		.index = place->pointer, .number = place->offset + (int32_t)within,
		.bytes = from->bytes, .is_signed = from->is_signed,
	};
	if (from->is_location) {
		word->bytes = 8;
		if (!place->is_pointer)
			word->of = WORD_OF_ADDRESS;
		return field->is_text && place->is_member;
	}
	if (field->kind == TRACEPOINT_ARRAY)
		return place->is_member && place->bytes == field->bytes;
	/* What is passed may be narrower than the field: a number without a sign grows by zeros. */
	return field->kind == TRACEPOINT_SCALAR &&
	       (place->bytes == field->bytes ||
		(!place->is_member && !field->is_signed && place->bytes < field->bytes));
}

static bool plan_field(const struct tracepoint_field *field, const struct place *place,
		       const struct tracepoint_plan *record, struct tracepoint_plan *plan)
{
	unsigned end = field->offset + field->bytes, before = plan->words;

	while (plan->words < record->words && record->word[plan->words].offset >= field->offset &&
	       record->word[plan->words].offset < end) {
		if (!plan_word(field, &record->word[plan->words], place, &plan->word[plan->words]))
			return false;
		plan->words++;
	}
	return plan->words > before;
}

/* A long array is attached, and its word says nothing of where it is; no row has such a one. */
static bool plan_fields(const struct row *row, const struct found *found, const struct tracepoint_format *format,
			const struct tracepoint_plan *record, struct tracepoint_plan *plan)
{
	unsigned fields = 0;

	while (fields < FIELDS && row->field[fields])
		fields++;
	if (fields != format->fields || record->texts > 1 || (record->texts && record->words > MADE_RAW_WORDS_MAX))
		return false;
	for (unsigned i = 0; i < fields; i++)
		if (!is_field(&format->field[i], row->field[i]) ||
		    !plan_field(&format->field[i], &found->place[i], record, plan))
			return false;
	if (record->texts)
		plan->text[plan->texts++] = made_text_make(0, made_text_arg(record->text[0]), 0, 0);
	return plan->words == record->words;
}

uint32_t tracepoint_args_plan(const struct tracepoint_args *args, const char *system, const char *name,
			      const struct tracepoint_format *format, const struct tracepoint_plan *record,
			      struct tracepoint_plan *plan)
{
	for (unsigned i = 0; i < ROWS; i++) {
		if (!args->found[i].type || strcmp(rows[i].name, name) != 0 || strcmp(rows[i].system, system) != 0)
			continue;
		*plan = (struct tracepoint_plan){0};
		if (plan_fields(&rows[i], &args->found[i], format, record, plan))
			return args->found[i].type;
	}
	*plan = (struct tracepoint_plan){0};
	return 0;
}
