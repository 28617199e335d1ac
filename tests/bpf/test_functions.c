/* A function of the kernel as a probe: what its types say becomes fields and words, however it is attached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <bpf/btf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/source/bpf_function_probe.h"
#include "daemon/source/registers.h"

struct types {
	struct btf *btf;
	int character, number, small, wide, flag, file, file_pointer, text, anything, mode, pair, large;
};

static void make_types(struct types *types)
{
	struct btf *btf = types->btf = btf__new_empty();
	int constant;

	assert_non_null(btf);
	types->character = btf__add_int(btf, "char", 1, BTF_INT_SIGNED);
	types->number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	types->small = btf__add_int(btf, "unsigned short", 2, 0);
	types->wide = btf__add_typedef(btf, "size_t", btf__add_int(btf, "unsigned long", 8, 0));
	types->flag = btf__add_int(btf, "_Bool", 1, BTF_INT_BOOL);
	types->file = btf__add_struct(btf, "file", 200);
	types->file_pointer = btf__add_ptr(btf, types->file);
	types->text = btf__add_ptr(btf, btf__add_const(btf, types->character));
	constant = btf__add_const(btf, 0);
	types->anything = btf__add_ptr(btf, constant);
	types->mode = btf__add_enum(btf, "mode", 4);
	assert_int_equal(btf__add_enum_value(btf, "MODE_READ", 0), 0);
	assert_int_equal(btf__add_enum_value(btf, "MODE_WRITE", 1), 0);
	types->pair = btf__add_struct(btf, "pair", 16);
	types->large = btf__add_struct(btf, "large", 24);
}

/* A function of these arguments; the list ends with -1. */
static uint32_t make_function(const struct types *types, int returns, ...)
{
	char name[] = "a";
	va_list args;
	int id = btf__add_func_proto(types->btf, returns), type;

	va_start(args, returns);
	while ((type = va_arg(args, int)) >= 0) {
		assert_int_equal(btf__add_func_param(types->btf, name, type), 0);
		name[0]++;
	}
	va_end(args);
	return (uint32_t)btf__add_func(types->btf, "anything_at_all", BTF_FUNC_STATIC, id);
}

static Ringtail__V1__Probe *make(const struct types *types, uint32_t function, enum function_how how,
				 struct tracepoint_plan *plan)
{
	Ringtail__V1__Probe *probe;
	const char *why;

	assert_int_equal(function_probe_create(types->btf, function, "anything_at_all", how, &probe, plan, &why), 0);
	assert_int_equal(probe->n_field, plan->words);
	assert_true(plan->of_kernel);
	return probe;
}

static void expect_field(const Ringtail__V1__Probe *probe, unsigned i, const char *name, const char *c_type,
			 Ringtail__V1__FieldType type, unsigned bits)
{
	assert_true(i < probe->n_field);
	assert_string_equal(probe->field[i]->name, name);
	assert_string_equal(probe->field[i]->c_type, c_type);
	assert_int_equal(probe->field[i]->type, type);
	assert_int_equal(probe->field[i]->bits, bits);
}

static void arguments_and_result_have_their_types(void **state)
{
	struct tracepoint_plan plan;
	struct types types;
	Ringtail__V1__Probe *probe;
	uint32_t function;

	(void)state;
	make_types(&types);
	function = make_function(&types, types.number, types.file_pointer, types.text, types.wide, types.small,
				 types.anything, types.flag, -1);
	probe = make(&types, function, FUNCTION_FEXIT, &plan);
	assert_string_equal(probe->provider, "fexit");
	assert_string_equal(probe->name, "return");
	assert_int_equal(probe->n_field, 7);
	expect_field(probe, 0, "a", "struct file *", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64);
	expect_field(probe, 1, "b", "const char *", RINGTAIL__V1__FIELD_TYPE__FIELD_STRING, 64);
	expect_field(probe, 2, "c", "size_t", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 64);
	expect_field(probe, 3, "d", "unsigned short", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 16);
	expect_field(probe, 4, "e", "const void *", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64);
	expect_field(probe, 5, "f", "_Bool", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 8);
	expect_field(probe, 6, "retval", "int", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32);
	assert_string_equal(probe->print, "");
	/* A pointer to a structure may be loaded; one to anything else is had from a helper. */
	assert_int_equal(plan.word[0].of, WORD_OF_CALL);
	assert_int_equal(plan.word[1].of, WORD_OF_CALL_RAW);
	assert_int_equal(plan.word[4].of, WORD_OF_CALL_RAW);
	assert_int_equal(plan.word[4].number, 4);
	assert_int_equal(plan.word[6].of, WORD_OF_CALL);
	assert_int_equal(plan.word[6].offset, 6 * 8);
	assert_int_equal(plan.texts, 1);
	assert_int_equal(made_text_arg(plan.text[0]), 1);
	ringtail__v1__probe__free_unpacked(probe, NULL);
	btf__free(types.btf);
}

static void values_of_an_enum_have_names(void **state)
{
	struct tracepoint_plan plan;
	struct types types;
	Ringtail__V1__Probe *probe;

	(void)state;
	make_types(&types);
	probe = make(&types, make_function(&types, 0, types.mode, types.number, -1), FUNCTION_FENTRY, &plan);
	assert_string_equal(probe->print, "\"a=%s b=%ld\", __print_symbolic(REC->a, { 0, \"MODE_READ\" }, { 1,"
					  " \"MODE_WRITE\" }), REC->b");
	ringtail__v1__probe__free_unpacked(probe, NULL);
	btf__free(types.btf);
}

static void structures_take_as_many_registers_as_they_fill(void **state)
{
	struct tracepoint_plan plan;
	struct types types;
	Ringtail__V1__Probe *probe;
	const char *why = NULL;
	uint32_t function;

	(void)state;
	make_types(&types);
	function = make_function(&types, types.number, types.number, types.pair, types.number, -1);
	probe = make(&types, function, FUNCTION_FEXIT, &plan);
	assert_int_equal(probe->n_field, 5);
	assert_string_equal(probe->field[2]->name, "b_high");
	assert_int_equal(plan.word[3].offset, 3 * 8);
	assert_int_equal(plan.word[4].offset, 4 * 8);
	ringtail__v1__probe__free_unpacked(probe, NULL);
	function = make_function(&types, types.number, types.large, types.number, -1);
	assert_int_equal(function_probe_create(types.btf, function, "x", FUNCTION_FENTRY, &probe, &plan, &why),
			 -EOPNOTSUPP);
	assert_non_null(strstr(why, "on the stack"));
	probe = make(&types, function, FUNCTION_KPROBE, &plan);
	assert_string_equal(probe->field[0]->c_type, "not recorded");
	assert_int_equal(plan.word[0].bytes, 0);
	assert_int_equal(plan.word[1].offset, register_arg[0]);
	ringtail__v1__probe__free_unpacked(probe, NULL);
	btf__free(types.btf);
}

static void what_is_in_no_register_is_not_recorded(void **state)
{
	struct tracepoint_plan plan;
	struct types types;
	Ringtail__V1__Probe *probe;
	uint32_t function;
	int i;

	(void)state;
	make_types(&types);
	i = types.number;
	function = make_function(&types, types.small, i, i, i, i, i, i, i, -1);
	probe = make(&types, function, FUNCTION_KPROBE, &plan);
	assert_int_equal(plan.word[5].offset, register_arg[5]);
	assert_int_equal(plan.word[5].bytes, 4);
	assert_int_equal(plan.word[6].bytes, 0);
	assert_string_equal(probe->field[6]->c_type, "not recorded");
	ringtail__v1__probe__free_unpacked(probe, NULL);
	probe = make(&types, function, FUNCTION_KRETPROBE, &plan);
	assert_int_equal(probe->n_field, 1);
	expect_field(probe, 0, "retval", "unsigned short", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 16);
	assert_int_equal(plan.word[0].offset, register_result);
	ringtail__v1__probe__free_unpacked(probe, NULL);
	btf__free(types.btf);
}

static void without_types_there_are_registers(void **state)
{
	struct tracepoint_plan plan;
	Ringtail__V1__Probe *probe;
	const char *why;

	(void)state;
	assert_int_equal(function_probe_create(NULL, 0, "x", FUNCTION_KPROBE, &probe, &plan, &why), 0);
	assert_int_equal(probe->n_field, REGISTER_ARGS);
	expect_field(probe, 5, "arg5", "unsigned long", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64);
	ringtail__v1__probe__free_unpacked(probe, NULL);
	assert_int_equal(function_probe_create(NULL, 0, "x", FUNCTION_KRETPROBE, &probe, &plan, &why), 0);
	expect_field(probe, 0, "retval", "long", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 64);
	ringtail__v1__probe__free_unpacked(probe, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_and_result_have_their_types),
		cmocka_unit_test(values_of_an_enum_have_names),
		cmocka_unit_test(structures_take_as_many_registers_as_they_fill),
		cmocka_unit_test(what_is_in_no_register_is_not_recorded),
		cmocka_unit_test(without_types_there_are_registers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
