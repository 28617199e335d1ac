#include "client/cli/json_event.h"

#include <string.h>

#include "client/cli/text_value.h"

static void put_array(struct out *out, const struct ringtail_field *field, const uint8_t *at,
		      size_t bytes)
{
	size_t step = field->bits / 8;

	out_char(out, '[');
	for (size_t i = 0; i + step <= bytes; i += step) {
		if (i)
			out_char(out, ',');
		if (field->element_signed)
			out_i64(out, (int64_t)text_element(field, at + i));
		else
			out_u64(out, text_element(field, at + i));
	}
	out_char(out, ']');
}

/* A text or an array; null: its bytes could not be read. */
static void put_bytes(struct out *out, const struct ringtail_item *event, unsigned number)
{
	const struct ringtail_field *field = &event->probe->field[number];
	size_t bytes;
	const uint8_t *at = ringtail_bytes(event, number, &bytes, NULL);

	if (!at)
		out_literal(out, "null");
	else if (field->type == RINGTAIL_TEXT)
		json_quote(out, (const char *)at, bytes);
	else
		put_array(out, field, at, bytes);
}

/* What C calls bool and dev_t, where the kernel says so: of tracepoints. */
static bool put_c_value(struct out *out, const struct ringtail_field *field, uint64_t value)
{
	if (!strcmp(field->c_type, "bool") && field->bits == 8) {
		if (value)
			out_literal(out, "true");
		else
			out_literal(out, "false");
		return true;
	}
	if (!text_is_device(field))
		return false;
	out_char(out, '"');
	text_device(out, value);
	out_char(out, '"');
	return true;
}

void json_put_value(struct out *out, const struct ringtail_item *event, unsigned number)
{
	const struct ringtail_field *field = &event->probe->field[number];
	uint64_t value = ringtail_value(field, event->value[number]);

	switch (field->type) {
	case RINGTAIL_HEX:
	case RINGTAIL_STRING:
		out_char(out, '"');
		out_hex(out, value);
		out_char(out, '"');
		return;
	case RINGTAIL_SIGNED:
	case RINGTAIL_FD:
	case RINGTAIL_RESULT:
		out_i64(out, (int64_t)value);
		return;
	case RINGTAIL_TEXT:
	case RINGTAIL_BYTES:
		put_bytes(out, event, number);
		return;
	default:
		if (!put_c_value(out, field, value))
			out_u64(out, value);
	}
}

void json_put_arguments(struct out *out, const struct ringtail_item *event, unsigned first)
{
	const struct ringtail_probe *probe = event->probe;

	out_char(out, '{');
	for (unsigned i = first; i < probe->fields; i++) {
		if (probe->field[i].type == RINGTAIL_MORE)
			continue;
		if (i > first)
			out_char(out, ',');
		json_quote_text(out, probe->field[i].name);
		out_char(out, ':');
		json_put_value(out, event, i);
	}
	out_char(out, '}');
}

struct json_outcome json_outcome(const struct ringtail_item *event)
{
	const struct ringtail_probe *probe = event->probe;
	struct json_outcome outcome = { 0 };
	bool returns = true;

	if (probe->fields && probe->field[0].type == RINGTAIL_DURATION) {
		returns = event->value[0] != RINGTAIL_NEVER;
		outcome.duration = returns ? &event->value[0] : NULL;
		outcome.fields = 1;
	}
	if (outcome.fields < probe->fields && probe->field[outcome.fields].type == RINGTAIL_RESULT) {
		outcome.result = returns ? &event->value[outcome.fields] : NULL;
		outcome.fields++;
	}
	if (outcome.result && errno_failed(*outcome.result))
		outcome.error = errno_name((int)-(int64_t)*outcome.result);
	return outcome;
}

bool json_is_string(const struct ringtail_item *event, const struct ringtail_attachment *string)
{
	enum ringtail_type type;

	if (string->kind != RINGTAIL_ATTACHED_STRING || string->field >= event->probe->fields)
		return false;
	type = event->probe->field[string->field].type;
	return type == RINGTAIL_STRING || type == RINGTAIL_FD || type == RINGTAIL_RESULT ||
	       type == RINGTAIL_HEX;
}

bool json_has_strings(const struct ringtail_item *event)
{
	for (size_t i = 0; i < event->attachments; i++)
		if (json_is_string(event, &event->attachment[i]))
			return true;
	return false;
}

void json_put_strings(struct out *out, const struct ringtail_item *event)
{
	char separator = '{';

	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *string = &event->attachment[i];

		if (!json_is_string(event, string))
			continue;
		out_char(out, separator);
		separator = ',';
		json_quote_text(out, event->probe->field[string->field].name);
		out_char(out, ':');
		json_quote(out, (const char *)string->text, string->text_bytes);
	}
	if (separator == '{')
		out_char(out, '{');
	out_char(out, '}');
}
