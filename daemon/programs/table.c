#include "daemon/programs/table.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "query/utf8.h"

#define FIELDS_MAX	(RT_PROGRAM_BEGIN_WORDS + RT_PROGRAM_ARGS_MAX + 1)	/* and the CPU */
#define PRINT_BYTES	4096

_Static_assert(FIELDS_MAX <= PROBE_FIELDS_MAX, "the begin of a span is a probe as any other");
_Static_assert(RT_PROGRAM_END_WORDS < PROBE_FIELDS_MAX, "and so is its end");

static int refuse(struct error *error, const char *what)
{
	return error_set(error, EPROTO, "program-table", "%s", what);
}

int program_hello_check(const struct rt_program_hello *hello, struct error *error)
{
	if (hello->magic != RT_PROGRAM_MAGIC)
		return refuse(error, "it does not begin as ringtail-probe.h does");
	if (hello->version != RT_PROGRAM_VERSION)
		return error_set(error, EPROTO, "program-table", "it speaks version %u, and the daemon %u",
				 hello->version, RT_PROGRAM_VERSION);
	if (!hello->probes || hello->probes > RT_PROGRAM_PROBES_MAX)
		return error_set(error, EPROTO, "program-table", "it has %u probes, of at most %u", hello->probes,
				 RT_PROGRAM_PROBES_MAX);
	if (hello->bytes > PROGRAM_TABLE_BYTES_MAX || hello->bytes % 8)
		return error_set(error, EPROTO, "program-table", "its probes take %u bytes, of at most %u",
				 hello->bytes, PROGRAM_TABLE_BYTES_MAX);
	return 0;
}

/* ---- Spans --------------------------------------------------------------------------------------- */

/* What stands before the arguments of a record, as struct rt_program_begin and rt_program_end have it. */
struct fixed_field {
	const char *name;
	Ringtail__V1__FieldType type;
	const char *c_type;
	uint32_t bits, bytes;		/* bytes: of a text, in its word and those behind it */
};

#define FIXED_IDS \
	{"trace_id", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, "char[32]", 8, sizeof_id(trace_id)}, \
	{"span_id", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, "char[16]", 8, sizeof_id(span_id)}, \
	{"parent_id", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, "char[16]", 8, sizeof_id(parent_id)}
#define sizeof_id(name)	sizeof(((struct rt_program_ids *)NULL)->name)

static const struct fixed_field begin_fields[] = {
	FIXED_IDS,
	{"scope", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, "bool", 8, 0},
	{.name = NULL},
};

static const struct fixed_field end_fields[] = {
	{"duration_ns", RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION, "u64", 64, 0},
	FIXED_IDS,
	{"status", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, "int32_t", 32, 0},
	{.name = NULL},
};

static const struct fixed_field no_fields[] = {{.name = NULL}};

static const struct {
	const char *name;
	const struct fixed_field *fixed;
	uint32_t words;
} sorts[] = {
	[RT_PROGRAM_EVENT] = {"event", no_fields, 0},
	[RT_PROGRAM_SPAN_BEGIN] = {"begin", begin_fields, RT_PROGRAM_BEGIN_WORDS},
	[RT_PROGRAM_SPAN_END] = {"end", end_fields, RT_PROGRAM_END_WORDS},
};

static bool is_sort(uint32_t sort)
{
	return sort < sizeof(sorts) / sizeof(sorts[0]);
}

uint32_t program_probe_words_before(enum rt_program_sort sort)
{
	return sorts[sort].words;
}

uint32_t program_probe_words(const struct program_probe *probe)
{
	return sorts[probe->sort].words + probe->args;
}

uint32_t program_probe_attached(const struct program_probe *probe, uint32_t arg)
{
	uint8_t type = probe->type[arg];

	if (rt_type_is_array(type))
		return rt_type_bytes(type);
	return rt_type_kind(type) == RT_PROGRAM_STRING;
}

/* ---- Texts --------------------------------------------------------------------------------------- */

/* The next text of an entry; NULL: there is none that ends within it. */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at, *zero = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

	if (!zero)
		return NULL;
	*at = zero + 1;
	return text;
}

/* What can be written in a spec without marks. */
static bool is_name(const char *text)
{
	size_t bytes = strlen(text);

	for (size_t i = 0; i < bytes; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return bytes && bytes < PROGRAM_NAME_BYTES && !isdigit((unsigned char)text[0]);
}

/* UTF-8 without controls. */
static bool is_visible(const char *text, bool lines)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);

	while (at < end) {
		uint32_t code;
		size_t bytes = utf8_decode(at, (size_t)(end - at), &code);
		bool control = code < ' ' || (code >= 0x7f && code < 0xa0);

		if (!bytes || (control && !(lines && (code == '\n' || code == '\t'))))
			return false;
		at += bytes;
	}
	return true;
}

/* Also where it is what a later argument may have to be called. */
static bool has_field(const struct program_probe *probe, uint32_t fields, const char *name)
{
	for (uint32_t i = 0; i < fields; i++)
		if (strcmp(probe->field[i], name) == 0)
			return true;
	for (const struct fixed_field *fixed = sorts[probe->sort].fixed; fixed->name; fixed++)
		if (strcmp(fixed->name, name) == 0)
			return true;
	return strcmp(name, "cpu") == 0 || (strncmp(name, "arg", 3) == 0 && isdigit((unsigned char)name[3]));
}

/* An argument's last word: `us` of request->us. Where that is none, or is taken: arg and its number. */
static void name_field(struct program_probe *probe, uint32_t i, const char *written)
{
	size_t end = strlen(written), begin;
	char *name = probe->field[i];

	while (end && isspace((unsigned char)written[end - 1]))
		end--;
	for (begin = end; begin && (isalnum((unsigned char)written[begin - 1]) || written[begin - 1] == '_');)
		begin--;
	snprintf(name, PROGRAM_NAME_BYTES, "%.*s", (int)(end - begin), written + begin);
	if (end - begin >= PROGRAM_NAME_BYTES || !is_name(name) || has_field(probe, i, name))
		snprintf(name, PROGRAM_NAME_BYTES, "arg%u", i);
}

/* ---- Entries ------------------------------------------------------------------------------------- */

static bool is_type(uint8_t type)
{
	unsigned bytes = rt_type_bytes(type);

	switch (rt_type_kind(type)) {
	case RT_PROGRAM_UNSIGNED:
	case RT_PROGRAM_SIGNED:
	case RT_PROGRAM_UNSIGNEDS:
	case RT_PROGRAM_SIGNEDS:
		return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
	case RT_PROGRAM_POINTER:
	case RT_PROGRAM_STRING:
		return bytes == 4 || bytes == 8;
	default:
		return false;
	}
}

static int parse_entry(const struct rt_program_probe *entry, const char *texts, struct program_probe *probe,
		       struct error *error)
{
	const char *at = texts, *end = texts + entry->bytes - sizeof(*entry);

	*probe = (struct program_probe){.line = entry->line, .sort = entry->sort, .args = entry->args};
	probe->provider = next_text(&at, end);
	probe->name = probe->provider ? next_text(&at, end) : NULL;
	probe->format = probe->name ? next_text(&at, end) : NULL;
	probe->file = probe->format ? next_text(&at, end) : NULL;
	if (!probe->file)
		return refuse(error, "a text of a probe has no end");
	if (!is_name(probe->provider) || !is_name(probe->name))
		return refuse(error, "a probe's name has other characters than letters, digits and _, or is too long");
	if (!is_visible(probe->format, true) || !is_visible(probe->file, false))
		return refuse(error, "a probe's format or file has bytes that are no text");
	if (strlen(probe->file) > NAME_BYTES_MAX)
		return refuse(error, "the name of a probe's file is too long");
	for (uint32_t i = 0; i < entry->args; i++) {
		const char *written = next_text(&at, end);

		if (!written)
			return refuse(error, "an argument of a probe has no text");
		if (!is_type(entry->type[i]))
			return refuse(error, "an argument of a probe has a type that does not exist");
		probe->type[i] = entry->type[i];
		name_field(probe, i, written);
	}
	return 0;
}

int program_table_parse(const struct rt_program_hello *hello, const void *bytes, struct program_probe *probe,
			struct error *error)
{
	const char *at = bytes;
	uint32_t left = hello->bytes;

	for (uint32_t i = 0; i < hello->probes; i++) {
		struct rt_program_probe entry;
		int err;

		if (left < sizeof(entry))
			return refuse(error, "its table ends before its last probe");
		memcpy(&entry, at, sizeof(entry));
		if (entry.bytes < sizeof(entry) || entry.bytes % 8 || entry.bytes > left ||
		    entry.args > RT_PROGRAM_ARGS_MAX)
			return refuse(error, "a probe's entry has a length, or arguments, out of bounds");
		if (!is_sort(entry.sort) || (entry.sort == RT_PROGRAM_SPAN_END && entry.args))
			return refuse(error, "a probe is of a sort that does not exist, or is the end of a span with"
				      " arguments");
		err = parse_entry(&entry, at + sizeof(entry), &probe[i], error);
		if (err)
			return err;
		at += entry.bytes;
		left -= entry.bytes;
	}
	return left ? refuse(error, "bytes follow its last probe") : 0;
}

/* ---- The catalog --------------------------------------------------------------------------------- */

#define PRINT_IDS	" [trace_id=%s span_id=%s parent_id=%s]"

struct text {
	char bytes[PRINT_BYTES];
	size_t used;
	bool full;
};

static void add_text(struct text *text, const char *bytes)
{
	size_t n = strlen(bytes);

	text->full |= n >= sizeof(text->bytes) - text->used;
	if (text->full)
		return;
	memcpy(text->bytes + text->used, bytes, n + 1);
	text->used += n;
}

static void add_escaped(struct text *text, char byte)
{
	const char other[] = {byte, 0}, quoted[] = {'\\', byte, 0};

	add_text(text, byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == '"' || byte == '\\' ? quoted : other);
}

/* The length of a conversion behind its percent sign, up to its letter. Each star takes an argument, too: *stars. */
static size_t conversion_bytes(const char *at, uint32_t *stars)
{
	size_t bytes = strspn(at, "-+ #0123456789.*hlLqjzt");

	*stars = 0;
	for (size_t i = 0; i < bytes; i++)
		*stars += at[i] == '*';
	return bytes;
}

static bool is_array(const struct program_probe *probe, uint32_t arg)
{
	return arg < probe->args && rt_type_is_array(probe->type[arg]);
}

/* The format, in which an array is a text: of %p the kernel makes an address. */
static void add_format(struct text *text, const struct program_probe *probe)
{
	const char *at = probe->format;
	uint32_t arg = 0, stars;
	size_t bytes;

	while (*at) {
		bytes = *at == '%' ? 1 + conversion_bytes(at + 1, &stars) : 0;
		for (size_t i = 0; i < bytes; i++)
			add_escaped(text, *at++);
		if (!*at)
			return;
		arg += bytes && *at != '%' ? stars + 1 : 0;
		if (bytes && *at == 'p' && is_array(probe, arg - 1))
			add_text(text, "s");
		else
			add_escaped(text, *at);
		at++;
	}
}

static void add_argument(struct text *text, const char *field, uint8_t type)
{
	bool is_text = rt_type_kind(type) == RT_PROGRAM_STRING;

	add_text(text, is_text ? ", __get_str(" : rt_type_is_array(type) ? ", __print_list(" : ", REC->");
	add_text(text, field);
	add_text(text, is_text || rt_type_is_array(type) ? ")" : "");
}

/* As tracefs says how an event is printed; empty where that is too long, and of the end of a span: its fields say all. */
static void write_print(const struct program_probe *probe, struct text *text)
{
	if (probe->sort == RT_PROGRAM_SPAN_END)
		return;
	add_text(text, "\"");
	add_format(text, probe);
	add_text(text, probe->sort == RT_PROGRAM_SPAN_BEGIN ? PRINT_IDS "\"" : "\"");
	for (uint32_t i = 0; i < probe->args; i++)
		add_argument(text, probe->field[i], probe->type[i]);
	if (probe->sort == RT_PROGRAM_SPAN_BEGIN)
		add_text(text, ", REC->trace_id, REC->span_id, REC->parent_id");
	if (text->full)
		text->bytes[0] = '\0';
}

static void describe_field(Ringtail__V1__Field *field, const char *name, uint8_t type)
{
	static const Ringtail__V1__FieldType types[] = {
		[RT_PROGRAM_UNSIGNED] = RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED,
		[RT_PROGRAM_SIGNED] = RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED,
		[RT_PROGRAM_POINTER] = RINGTAIL__V1__FIELD_TYPE__FIELD_HEX,
		[RT_PROGRAM_STRING] = RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT,
		[RT_PROGRAM_UNSIGNEDS] = RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES,
		[RT_PROGRAM_SIGNEDS] = RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES,
	};
	static const char *const c_types[][9] = {
		[RT_PROGRAM_UNSIGNED] = {[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"},
		[RT_PROGRAM_SIGNED] = {[1] = "int8_t", [2] = "int16_t", [4] = "int32_t", [8] = "int64_t"},
		[RT_PROGRAM_POINTER] = {[4] = "pointer", [8] = "pointer"},
		[RT_PROGRAM_STRING] = {[4] = "char[]", [8] = "char[]"},
		[RT_PROGRAM_UNSIGNEDS] = {[1] = "uint8_t[]", [2] = "uint16_t[]", [4] = "uint32_t[]", [8] = "uint64_t[]"},
		[RT_PROGRAM_SIGNEDS] = {[1] = "int8_t[]", [2] = "int16_t[]", [4] = "int32_t[]", [8] = "int64_t[]"},
	};

	ringtail__v1__field__init(field);
	field->name = (char *)name;
	field->type = types[rt_type_kind(type)];
	field->c_type = (char *)c_types[rt_type_kind(type)][rt_type_bytes(type)];
	field->bits = rt_type_kind(type) == RT_PROGRAM_STRING ? 0 : rt_type_bytes(type) * 8;
	field->element_signed = rt_type_kind(type) == RT_PROGRAM_SIGNEDS;
}

/* A field for each word of it: the first says what it is. Returns how many there are. */
static uint32_t describe_fixed(Ringtail__V1__Field *field, const struct fixed_field *from)
{
	uint32_t words = from->bytes ? (from->bytes + 7) / 8 : 1;

	for (uint32_t i = 0; i < words; i++) {
		ringtail__v1__field__init(&field[i]);
		field[i].type = RINGTAIL__V1__FIELD_TYPE__FIELD_MORE;
	}
	field->name = (char *)from->name;
	field->type = from->type;
	field->c_type = (char *)from->c_type;
	field->bits = from->bits;
	field->bytes = from->bytes;
	return words;
}

/* A copy that can be freed as what was unpacked. */
static Ringtail__V1__Probe *copy_message(const Ringtail__V1__Probe *message)
{
	size_t bytes = ringtail__v1__probe__get_packed_size(message);
	uint8_t *packed = malloc(bytes + 1);
	Ringtail__V1__Probe *copy = NULL;

	if (packed) {
		ringtail__v1__probe__pack(message, packed);
		copy = message_unpack(&ringtail__v1__probe__descriptor, NULL, packed, bytes);
	}
	free(packed);
	return copy;
}

Ringtail__V1__Probe *program_probe_message(const struct program_probe *probe)
{
	Ringtail__V1__Probe message = RINGTAIL__V1__PROBE__INIT;
	Ringtail__V1__Field field[FIELDS_MAX], *fields[FIELDS_MAX];
	char source[NAME_BYTES_MAX + 16];
	struct text print = {.used = 0};
	uint32_t n = 0;

	for (const struct fixed_field *fixed = sorts[probe->sort].fixed; fixed->name; fixed++)
		n += describe_fixed(&field[n], fixed);
	for (uint32_t i = 0; i < probe->args; i++)
		describe_field(&field[n++], probe->field[i], probe->type[i]);
	describe_field(&field[n++], "cpu", rt_program_type(RT_PROGRAM_UNSIGNED, 4));
	for (uint32_t i = 0; i < n; i++)
		fields[i] = &field[i];
	write_print(probe, &print);
	snprintf(source, sizeof(source), "%s:%u", probe->file, probe->line);
	message.provider = (char *)probe->provider;
	message.function = (char *)probe->name;
	message.name = (char *)sorts[probe->sort].name;
	message.field = fields;
	message.n_field = n;
	message.print = print.bytes;
	message.source = source;
	return copy_message(&message);
}
