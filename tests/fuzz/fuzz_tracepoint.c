/*
 * fuzz_tracepoint: any text as a tracepoint's `format` file. What parses lies within the record, makes a probe
 * that a catalog takes, and prints, or does not, from any values.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/kernel_text.h"
#include "daemon/source/bpf_kernel_types.h"
#include "daemon/source/tracepoint_probe.h"
#include "query/kernel_names.h"

/* The tables alone say the same of the name. */
static void check_number(const char *tables, const struct kernel_names *names, const struct kernel_name *name,
			 uint64_t mask, uint64_t value)
{
	uint64_t table_mask, table_value;

	if (value & ~mask ||
	    !kernel_names_find(tables, names->field, name->text, name->bytes, &table_mask, &table_value) ||
	    table_mask != mask || table_value != value)
		abort();
}

static void check_numbers(const Ringtail__V1__Probe *probe)
{
	char *tables = kernel_names_tables(probe);
	struct kernel_names names;
	struct kernel_name name;
	uint64_t mask, value;

	for (size_t i = 0; tables && i < probe->n_field; i++) {
		kernel_names_begin(&names, probe->print, probe->field[i]->name);
		while (kernel_names_next(&names, &name))
			if (kernel_names_find(probe->print, names.field, name.text, name.bytes, &mask, &value))
				check_number(tables, &names, &name, mask, value);
	}
	free(tables);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_plan(const struct tracepoint_plan *plan, const Ringtail__V1__Probe *probe)
{
	if (plan->words != probe->n_field || plan->words > PROBE_FIELDS_MAX ||
	    plan->texts > MADE_TEXTS_MAX)
		abort();
	for (unsigned i = 0; i < plan->words; i++)
		if (plan->word[i].bytes > 8 ||
		    plan->word[i].offset + plan->word[i].bytes > TRACEPOINT_RECORD_BYTES_MAX)
			abort();
}

/* As the client has it. An array that would end behind the values is refused by its catalog. */
static bool copy_fields(const Ringtail__V1__Probe *probe, struct ringtail_field *field)
{
	for (size_t i = 0; i < probe->n_field; i++) {
		const Ringtail__V1__Field *from = probe->field[i];

		if (from->bytes > (probe->n_field - i) * sizeof(uint64_t))
			return false;
		field[i] = (struct ringtail_field){
			.name = from->name, .c_type = from->c_type,
			.type = (enum ringtail_type)from->type, .bits = from->bits,
			.bytes = from->bytes, .element_signed = from->element_signed,
		};
	}
	return true;
}

static void print(const Ringtail__V1__Probe *probe)
{
	static const uint8_t text[] = {'t', 'e', 'x', 't', 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
	struct ringtail_field field[PROBE_FIELDS_MAX];
	struct ringtail_attachment attached[PROBE_FIELDS_MAX];
	uint64_t value[PROBE_FIELDS_MAX];
	char line[KERNEL_TEXT_BYTES];
	const struct ringtail_probe as_client = {
		.fields = (unsigned)probe->n_field, .field = field, .print = probe->print,
	};
	const struct ringtail_item event = {
		.kind = RINGTAIL_EVENT, .probe = &as_client, .value = value, .attachment = attached,
		.attachments = probe->n_field,
	};

	if (!copy_fields(probe, field))
		abort();
	for (size_t i = 0; i < probe->n_field; i++) {
		value[i] = i * 0x9e3779b97f4a7c15;
		attached[i] = (struct ringtail_attachment){
			.kind = RINGTAIL_ATTACHED_STRING, .field = (unsigned)i, .text = text,
			.text_bytes = i < sizeof(text) ? i : sizeof(text),
		};
	}
	if (kernel_text(&event, line) && strnlen(line, sizeof(line)) == sizeof(line))
		abort();
	for (unsigned i = 0; i < as_client.fields; i++)
		if (kernel_text_name(&event, i, line) && strnlen(line, sizeof(line)) == sizeof(line))
			abort();
}

/* Without types, no name has a number: the format stays as it is, whatever it has. */
static void check_names(const Ringtail__V1__Probe *probe)
{
	struct bpf_enumerators *enumerators = bpf_enumerators_create();
	char *text = NULL;

	if (enumerators && bpf_enumerators_want(enumerators, probe->print, strlen(probe->print)) == 0)
		text = bpf_enumerators_put(enumerators, probe->print);
	if (text && strcmp(text, probe->print) != 0)
		abort();
	free(text);
	bpf_enumerators_destroy(enumerators);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tracepoint_format format;
	struct tracepoint_plan plan;
	Ringtail__V1__Probe *probe;
	char *text = malloc(n + 1);

	if (!text)
		return 0;
	memcpy(text, bytes, n);
	if (tracepoint_format_parse(text, n, &format) == 0 &&
	    tracepoint_probe_create(&format, "system", "name", true, &probe, &plan) == 0) {
		check_plan(&plan, probe);
		print(probe);
		check_names(probe);
		check_numbers(probe);
		ringtail__v1__probe__free_unpacked(probe, NULL);
	}
	free(text);
	return 0;
}
