#include "client/cli/text_value.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/limits.h"
#include "query/argument.h"
#include "query/visible.h"

/* Numbers that never leave the kernel by a return, but that a tracer sees. */
static const struct {
	int number;
	const char *name, *text;
} kernel_only[] = {
	{ 512, "ERESTARTSYS", "To be restarted, or EINTR" },
	{ 513, "ERESTARTNOINTR", "To be restarted" },
	{ 514, "ERESTARTNOHAND", "To be restarted if no handler" },
	{ 515, "ENOIOCTLCMD", "No such ioctl" },
	{ 516, "ERESTART_RESTARTBLOCK", "Interrupted by signal" },
	{ 517, "EPROBE_DEFER", "Driver wants to be probed later" },
	{ 524, "ENOTSUPP", "Operation is not supported" },
	{ 529, "EIOCBQUEUED", "Queued for asynchronous I/O" },
};

const char *errno_name(int number)
{
	for (size_t i = 0; i < sizeof(kernel_only) / sizeof(*kernel_only); i++)
		if (kernel_only[i].number == number)
			return kernel_only[i].name;
	return strerrorname_np(number);
}

const char *errno_text(int number)
{
	for (size_t i = 0; i < sizeof(kernel_only) / sizeof(*kernel_only); i++)
		if (kernel_only[i].number == number)
			return kernel_only[i].text;
	return strerrordesc_np(number);
}

void text_duration(struct out *out, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} unit[] = { { 1000000000u, "s" }, { 1000000u, "ms" }, { 1000u, "us" } };

	for (size_t i = 0; i < sizeof(unit) / sizeof(*unit); i++) {
		uint64_t whole = ns / unit[i].ns;
		unsigned decimals = whole < 10 ? 2 : whole < 100 ? 1 : 0;

		if (!whole)
			continue;
		out_u64(out, whole);
		if (decimals) {
			out_char(out, '.');
			out_digits(out, ns % unit[i].ns / (unit[i].ns / (decimals == 2 ? 100 : 10)),
				   decimals);
		}
		out_text(out, unit[i].name);
		return;
	}
	out_u64(out, ns);
	out_literal(out, "ns");
}

void text_result(struct out *out, uint64_t result)
{
	const char *name, *text;
	int number;

	if (!errno_failed(result)) {
		if (result > UINT32_MAX)	/* an address, as of mmap */
			out_hex(out, result);
		else
			out_u64(out, result);
		return;
	}
	number = (int)-(int64_t)result;
	name = errno_name(number);
	text = errno_text(number);
	if (!name || !text) {
		out_i64(out, (int64_t)result);
		return;
	}
	out_literal(out, "-1 ");
	out_text(out, name);
	out_literal(out, " (");
	out_text(out, text);
	out_char(out, ')');
}

void text_device(struct out *out, uint64_t device)
{
	out_u64(out, text_device_major(device));
	out_char(out, ':');
	out_u64(out, text_device_minor(device));
}

void text_thread(struct out *out, const struct ringtail_item *event, uint32_t tid)
{
	const char *comm = tid ? ringtail_thread_comm(event, tid) : "idle";

	if (comm) {
		out_comm(out, comm);
		out_char(out, '/');
	}
	out_u64(out, tid);
}

static void put_hex_bytes(struct out *out, const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		out_literal(out, "\\x");
		out_char(out, "0123456789abcdef"[at[i] >> 4]);
		out_char(out, "0123456789abcdef"[at[i] & 15]);
	}
}

/* What of the printable ones is escaped: in quotes, those too. */
#define QUOTED "\"\\\n\t\r"

/* Bytes, with what is not printable escaped as C does. */
static void put_escaped(struct out *out, const uint8_t *at, size_t n, const char *escaped)
{
	const uint8_t *end = at + n;
	size_t bytes;

	for (; at < end; at += bytes) {
		static const char letter[] = QUOTED, shown[] = "\"\\ntr";
		enum visible what;
		const char *found;
		uint32_t code;

		bytes = out_plain_span((const char *)at, (size_t)(end - at));
		if (bytes) {
			out_bytes(out, (const char *)at, bytes);
			continue;
		}
		what = visible_next(at, (size_t)(end - at), &bytes, &code);
		found = *at ? strchr(escaped, *at) : NULL;
		if (found) {
			out_char(out, '\\');
			out_char(out, shown[strchr(letter, *at) - letter]);
		} else if (what == VISIBLE_SHOWN) {
			out_bytes(out, (const char *)at, bytes);
		} else {
			put_hex_bytes(out, at, bytes);
		}
	}
}

static void text_string(struct out *out, const uint8_t *at, size_t n)
{
	out_char(out, '"');
	put_escaped(out, at, n, QUOTED);
	out_char(out, '"');
	if (n == STRING_BYTES_MAX)
		out_literal(out, "...");	/* it was cut */
}

/* The text that is attached to a field, if any. */
static const struct ringtail_attachment *attached(const struct ringtail_item *event, unsigned field)
{
	for (size_t i = 0; i < event->attachments; i++)
		if (event->attachment[i].kind == RINGTAIL_ATTACHED_STRING &&
		    event->attachment[i].field == field)
			return &event->attachment[i];
	return NULL;
}

void text_file(struct out *out, const struct ringtail_item *event, unsigned field)
{
	const struct ringtail_attachment *file = attached(event, field);

	if (!file)
		return;
	out_char(out, '<');
	put_escaped(out, file->text, file->text_bytes, QUOTED);
	if (file->text_bytes == STRING_BYTES_MAX)
		out_literal(out, "...");
	out_char(out, '>');
}

static void address(struct out *out, uint64_t value)
{
	if (value)
		out_hex(out, value);
	else
		out_literal(out, "NULL");
}

/* Most differ in their first byte: strcmp() is called for few. */
static bool is_same(const char *a, const char *b)
{
	return *a == *b && strcmp(a, b) == 0;
}

/*
 * An address, of a call whose C type says only that it is a number: brk(), mprotect(), clone(); and the last
 * argument of ioctl(), prctl() and the like, where it is too large for anything else.
 */
static bool is_address(const struct ringtail_field *field, uint64_t value)
{
	static const char *const name[] = { "start", "brk", "newsp", "tls", "addr" };

	if (!is_same(field->c_type, "unsigned long"))
		return false;
	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		if (is_same(field->name, name[i]))
			return true;
	return value > UINT32_MAX;
}

/* umask()'s is an int. */
static bool is_mode(const struct ringtail_probe *probe, const struct ringtail_field *field)
{
	return is_same(field->c_type, "umode_t") ||
	       (is_same(field->name, "mask") && is_same(probe->function, "umask"));
}

/* As chmod(1) takes it; of mknod(), with the kind of file. */
static void put_mode(struct out *out, uint64_t mode)
{
	static const struct {
		mode_t type;
		const char *name;
	} kinds[] = {
		{S_IFREG, "S_IFREG"}, {S_IFCHR, "S_IFCHR"}, {S_IFBLK, "S_IFBLK"}, {S_IFIFO, "S_IFIFO"},
		{S_IFSOCK, "S_IFSOCK"},
	};
	const char *kind = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((mode & S_IFMT) == kinds[i].type)
			kind = kinds[i].name;
	if (kind) {
		out_text(out, kind);
		out_char(out, '|');
	}
	out_octal(out, kind ? mode & ~(uint64_t)S_IFMT : mode);
}

static bool is_id(const struct ringtail_field *field)
{
	return is_same(field->c_type, "uid_t") || is_same(field->c_type, "gid_t") || is_same(field->c_type, "qid_t");
}

/* Numbers that people know by their digits of 16: where a file is mapped, and what marks a sequence's end. */
static bool is_hex(const struct ringtail_probe *probe, const struct ringtail_field *field)
{
	return (is_same(field->name, "off") && is_same(probe->function, "mmap")) ||
	       (is_same(field->name, "sig") && is_same(probe->function, "rseq"));
}

uint64_t text_element(const struct ringtail_field *field, const uint8_t *at)
{
	uint64_t word = 0;

	memcpy(&word, at, field->bits / 8);
	if (field->element_signed && field->bits < 64)
		word = (uint64_t)((int64_t)(word << (64 - field->bits)) >> (64 - field->bits));
	return word;
}

static void put_array(struct out *out, const struct ringtail_field *field, const uint8_t *at,
		      size_t bytes)
{
	size_t step = field->bits / 8;

	out_char(out, '{');
	for (size_t i = 0; i + step <= bytes; i += step) {
		if (i)
			out_char(out, ',');
		if (field->element_signed)
			out_i64(out, (int64_t)text_element(field, at + i));
		else
			out_hex(out, text_element(field, at + i));
	}
	out_char(out, '}');
}

static void put_bytes(struct out *out, const struct ringtail_item *event, unsigned number)
{
	const struct ringtail_field *field = &event->probe->field[number];
	size_t bytes, whole;
	const uint8_t *at = ringtail_bytes(event, number, &bytes, &whole);

	if (!at)
		out_literal(out, "?");
	else if (field->type == RINGTAIL_TEXT)
		text_string(out, at, bytes);
	else
		put_array(out, field, at, bytes);
	if (at && whole > RINGTAIL_BYTES_MAX && field->type == RINGTAIL_BYTES)
		out_literal(out, "...");
}

/* What an address stands for that is no buffer, with its own quotes where it has any. */
static bool is_structure(const struct ringtail_field *field)
{
	const char *star = strchr(field->c_type, '*');

	return field->type == RINGTAIL_HEX && star &&
	       (strchr(star + 1, '*') || !(strstr(field->c_type, "char") || strstr(field->c_type, "void")));
}

/* What the record brought of it beside its word: its bytes, or what is attached to the event. */
static bool put_contents(struct out *out, const struct ringtail_item *event, unsigned number)
{
	const struct ringtail_field *field = &event->probe->field[number];
	const struct ringtail_attachment *string =
		event->attachments ? attached(event, number) : NULL;

	if (field->type == RINGTAIL_TEXT || field->type == RINGTAIL_BYTES)
		put_bytes(out, event, number);
	else if (string && is_structure(field))
		put_escaped(out, string->text, string->text_bytes, "\n\t\r");
	else if (string && field->type != RINGTAIL_FD && field->type != RINGTAIL_RESULT)
		text_string(out, string->text, string->text_bytes);
	else
		return false;
	return true;
}

/* What a number stands for by its name, whatever type it has. */
static bool put_meaning(struct out *out, const struct ringtail_item *event, unsigned number, uint64_t value)
{
	const struct ringtail_field *field = &event->probe->field[number];
	char name[256];

	if (field->names && ringtail_value_name(event, number, name, sizeof(name)))
		out_text(out, name);
	else if (event->probe->kind == RINGTAIL_TRACEPOINT && text_is_device(field))
		text_device(out, value);
	else if (is_mode(event->probe, field))
		put_mode(out, value);
	else if (is_id(field) && (uint32_t)value == UINT32_MAX)
		out_literal(out, "-1");		/* none, as chown() takes it */
	else
		return false;
	return true;
}

void text_value(struct out *out, const struct ringtail_item *event, unsigned number)
{
	const struct ringtail_field *field = &event->probe->field[number];
	uint64_t value = ringtail_value(field, event->value[number]);

	if (put_contents(out, event, number) || put_meaning(out, event, number, value))
		return;
	switch (field->type) {
	case RINGTAIL_SIGNED:
		out_i64(out, (int64_t)value);
		return;
	case RINGTAIL_HEX:
		if (strchr(field->c_type, '*') || strstr(field->c_type, "cap_user_") || is_address(field, value))
			address(out, value);
		else if (value)
			out_hex(out, value);
		else
			out_char(out, '0');
		return;
	case RINGTAIL_DURATION:
		text_duration(out, value);
		return;
	case RINGTAIL_RESULT:
		text_result(out, value);
		text_file(out, event, number);
		return;
	case RINGTAIL_FD:
		if ((int64_t)value == AT_FDCWD)
			out_literal(out, "AT_FDCWD");
		else
			out_i64(out, (int64_t)value);
		text_file(out, event, number);
		return;
	case RINGTAIL_THREAD:
		text_thread(out, event, (uint32_t)value);
		return;
	case RINGTAIL_STRING:
		address(out, value);
		return;
	case RINGTAIL_TEXT:
	case RINGTAIL_BYTES:
	case RINGTAIL_MORE:
		break;
	case RINGTAIL_UNSIGNED:
		if (is_address(field, value)) {
			address(out, value);
			return;
		}
		if (value && is_hex(event->probe, field)) {
			out_hex(out, value);
			return;
		}
		break;
	}
	out_u64(out, value);
}

/* The rule of a system call that does not always look at all its arguments, and the value that it goes by. */
static const struct argument_rule *rule_of(const struct ringtail_item *event, uint64_t *value)
{
	const struct ringtail_probe *probe = event->probe;
	const struct argument_rule *rule = probe->kind == RINGTAIL_TRACEPOINT ? NULL : argument_rule(probe->function);

	for (unsigned i = 0; rule && i < probe->fields; i++)
		if (is_same(probe->field[i].name, argument_rule_by(rule))) {
			*value = ringtail_value(&probe->field[i], event->value[i]);
			return rule;
		}
	return NULL;
}

void text_arguments(struct out *out, const struct ringtail_item *event, unsigned first)
{
	uint64_t value = 0;
	const struct argument_rule *rule = rule_of(event, &value);

	out_char(out, '(');
	for (unsigned i = first; i < event->probe->fields; i++) {
		if (event->probe->field[i].type == RINGTAIL_MORE ||
		    (rule && !argument_is_read(rule, event->probe->field[i].name, value)))
			continue;
		if (i > first)
			out_literal(out, ", ");
		out_text(out, event->probe->field[i].name);
		out_char(out, '=');
		text_value(out, event, i);
	}
	out_char(out, ')');
}
