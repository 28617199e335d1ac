/* What tracefs says of a tracepoint, and the probe that is made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/source/tracepoint_probe.h"

#define HEAD \
	"name: x\nID: 316\nformat:\n" \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
#define FIELD(declaration, offset, size, is_signed) \
	"\tfield:" declaration ";\toffset:" #offset ";\tsize:" #size ";\tsigned:" #is_signed ";\n"
#define PRINT "\nprint fmt: \"%d\", REC->a\n"

static int parse(const char *text, struct tracepoint_format *format)
{
	/* Of its own size, so that a sanitizer sees a step too far. */
	char *copy = malloc(strlen(text) ? strlen(text) : 1);
	int first, again;

	memcpy(copy, text, strlen(text));
	first = tracepoint_format_parse(copy, strlen(text), format);
	free(copy);
	/* What it found points into the text that stays. */
	again = tracepoint_format_parse(text, strlen(text), format);
	assert_int_equal(first, again);
	return again;
}

static void expect_span(const struct tracepoint_span *span, const char *text)
{
	assert_int_equal(span->bytes, strlen(text));
	assert_memory_equal(span->at, text, span->bytes);
}

static void expect_field(const struct tracepoint_format *format, unsigned i, const char *name,
			 const char *c_type, enum tracepoint_field_kind kind, unsigned offset,
			 unsigned bytes)
{
	const struct tracepoint_field *field = &format->field[i];

	expect_span(&field->name, name);
	expect_span(&field->c_type, c_type);
	assert_int_equal(field->kind, kind);
	assert_int_equal(field->offset, offset);
	assert_int_equal(field->bytes, bytes);
}

static void every_kind_of_field(void **state)
{
	struct tracepoint_format format;

	(void)state;
	assert_int_equal(parse(HEAD FIELD("char prev_comm[16]", 8, 16, 0)
			       FIELD("pid_t prev_pid", 24, 4, 1)
			       FIELD("__data_loc char[] name", 28, 4, 0)
			       FIELD("__rel_loc u64[] list", 32, 4, 0)
			       FIELD("const void * call_site", 40, 8, 0)
			       FIELD("unsigned long args[6]", 48, 48, 0)
			       FIELD("long state[3]", 96, 24, 1)
			       FIELD("struct thing value", 120, 3, 0) PRINT, &format), 0);
	assert_int_equal(format.id, 316);
	assert_int_equal(format.fields, 8);
	expect_field(&format, 0, "prev_comm", "char", TRACEPOINT_ARRAY, 8, 16);
	assert_true(format.field[0].is_text);
	expect_field(&format, 1, "prev_pid", "pid_t", TRACEPOINT_SCALAR, 24, 4);
	assert_true(format.field[1].is_signed);
	expect_field(&format, 2, "name", "char[]", TRACEPOINT_LOCATED, 28, 4);
	assert_true(format.field[2].is_text);
	expect_field(&format, 3, "list", "u64[]", TRACEPOINT_RELATIVE, 32, 4);
	assert_int_equal(format.field[3].element_bytes, 8);
	expect_field(&format, 4, "call_site", "const void *", TRACEPOINT_SCALAR, 40, 8);
	expect_field(&format, 5, "args", "unsigned long", TRACEPOINT_ARRAY, 48, 48);
	assert_int_equal(format.field[5].element_bytes, 8);
	assert_true(format.field[6].is_signed);
	expect_field(&format, 7, "value", "struct thing", TRACEPOINT_ARRAY, 120, 3);
	expect_span(&format.print, "\"%d\", REC->a");
}

static void texts_that_are_none(void **state)
{
	static const char *const text[] = {
		"", "ID: ", "ID: x\n", "name: x\nformat:\n",
		HEAD "\tfield:", HEAD "\tfield:int a", HEAD "\tfield:int a;", HEAD "\tfield:int a;\toffset:",
		HEAD "\tfield:int a;\toffset:8;\tsize:4;\tsigned:2;\n",
		HEAD "\tfield:int a;\toffset:8;\tsize:9999;\tsigned:0;\n",
		HEAD "\tfield:int a;\toffset:99999999999999999999;\tsize:4;\tsigned:0;\n",
		HEAD "\tfield:;\toffset:8;\tsize:4;\tsigned:0;\n",
		HEAD "\tfield:int;\toffset:8;\tsize:4;\tsigned:0;\n",
		HEAD "\tfield:int a];\toffset:8;\tsize:4;\tsigned:0;\n",
		HEAD "\tfield:int [4];\toffset:8;\tsize:4;\tsigned:0;\n",
		HEAD "\tfield:__data_loc char[] a;\toffset:8;\tsize:8;\tsigned:0;\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		struct tracepoint_format format;

		assert_int_equal(parse(text[i], &format), -EINVAL);
	}
}

static Ringtail__V1__Probe *make(const char *text, struct tracepoint_plan *plan)
{
	struct tracepoint_format format;
	Ringtail__V1__Probe *probe;

	assert_int_equal(tracepoint_format_parse(text, strlen(text), &format), 0);
	assert_int_equal(tracepoint_probe_create(&format, "sched", "x", true, &probe, plan), 0);
	return probe;
}

/* A short array is words of the payload, a long one and what is located elsewhere an attachment. */
static void arrays_as_words_and_as_attachments(void **state)
{
	struct tracepoint_plan plan;
	Ringtail__V1__Probe *probe = make(HEAD FIELD("char comm[16]", 8, 16, 0)
					  FIELD("unsigned long args[6]", 24, 48, 0)
					  FIELD("__data_loc char[] name", 72, 4, 0)
					  FIELD("short s", 76, 2, 1) PRINT, &plan);

	(void)state;
	assert_int_equal(probe->n_field, 5);
	assert_string_equal(probe->field[0]->c_type, "char[16]");
	assert_int_equal(probe->field[0]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT);
	assert_int_equal(probe->field[0]->bytes, 16);
	assert_int_equal(probe->field[1]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_MORE);
	assert_int_equal(probe->field[2]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES);
	assert_int_equal(probe->field[2]->bytes, 0);
	assert_int_equal(probe->field[2]->bits, 64);
	assert_int_equal(probe->field[3]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT);
	assert_int_equal(probe->field[4]->type, RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED);
	assert_int_equal(probe->field[4]->bits, 16);
	assert_string_equal(probe->print, "\"%d\", REC->a");
	assert_int_equal(plan.words, 5);
	assert_int_equal(plan.word[1].offset, 16);
	assert_true(plan.word[3].is_location);
	assert_true(plan.word[4].is_signed);
	assert_int_equal(plan.texts, 2);
	assert_int_equal(made_text_arg(plan.text[0]), 2);
	assert_int_equal(made_text_bytes(plan.text[0]), 48);
	assert_int_equal(made_text_offset(plan.text[0]), 24);
	assert_true(plan.text[1] & MADE_TEXT_LOCATED);
	assert_int_equal(made_text_arg(plan.text[1]), 3);
	ringtail__v1__probe__free_unpacked(probe, NULL);
}

/* With as many fields as a probe may have, no array takes a word of another's. */
static void more_arrays_than_words(void **state)
{
	struct tracepoint_plan plan;
	char text[8192] = HEAD;
	Ringtail__V1__Probe *probe;

	(void)state;
	for (unsigned i = 0; i < PROBE_FIELDS_MAX; i++)
		sprintf(text + strlen(text), "\tfield:char c%u[16];\toffset:%u;\tsize:16;\tsigned:0;\n", i,
			8 + 16 * i);
	probe = make(text, &plan);
	assert_int_equal(probe->n_field, PROBE_FIELDS_MAX);
	assert_int_equal(plan.words, PROBE_FIELDS_MAX);
	assert_int_equal(plan.texts, MADE_TEXTS_MAX);
	ringtail__v1__probe__free_unpacked(probe, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_field),
		cmocka_unit_test(texts_that_are_none),
		cmocka_unit_test(arrays_as_words_and_as_attachments),
		cmocka_unit_test(more_arrays_than_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
