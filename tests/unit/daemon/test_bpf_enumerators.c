/* Numbers for names in print formats, from types that the test makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>
#include <cmocka.h>

#include "daemon/base/limits.h"
#include "daemon/source/bpf_kernel_types.h"
#include "proto/limits.h"

static struct btf *types;

static int make_types(void **state)
{
	(void)state;
	types = btf__new_empty();
	assert_non_null(types);
	assert_true(btf__add_enum(types, "unsigned_one", 4) > 0);
	assert_int_equal(btf__add_enum_value(types, "VM_FAULT_OOM", 1) |
			 btf__add_enum_value(types, "VM_FAULT_ALL", 0x7fffffff) |
			 btf__add_enum_value(types, "SAME", 7) | btf__add_enum_value(types, "OTHER", 8) |
			 btf__add_enum_value(types, "page", 9), 0);
	assert_true(btf__add_enum(types, "signed_one", 4) > 0);
	assert_int_equal(btf__add_enum_value(types, "BEFORE", -3) | btf__add_enum_value(types, "SAME", 7) |
			 btf__add_enum_value(types, "OTHER", -8), 0);
	assert_true(btf__add_enum64(types, "long_one", 8, false) > 0);
	assert_int_equal(btf__add_enum64_value(types, "TOP", 1ull << 63), 0);
	return 0;
}

static int free_types(void **state)
{
	(void)state;
	btf__free(types);
	return 0;
}

/* Of exactly as many bytes as there are, so that a sanitizer sees a step too far. */
static void want(struct bpf_enumerators *enumerators, const char *print)
{
	char *copy = malloc(strlen(print) + 1);

	memcpy(copy, print, strlen(print));
	assert_int_equal(bpf_enumerators_want(enumerators, copy, strlen(print)), 0);
	free(copy);
}

static void expect(const char *print, const char *wanted)
{
	struct bpf_enumerators *enumerators = bpf_enumerators_create();
	char *text;

	assert_non_null(enumerators);
	want(enumerators, print);
	bpf_enumerators_learn(enumerators, types, 1);
	text = bpf_enumerators_put(enumerators, print);
	assert_string_equal(text, wanted);
	free(text);
	bpf_enumerators_destroy(enumerators);
}

static void a_name_becomes_its_number(void **state)
{
	(void)state;
	expect("\"%s\", __print_flags(REC->f, \"|\", { VM_FAULT_OOM, \"OOM\" }, { (1UL << SAME), \"S\" })",
	       "\"%s\", __print_flags(REC->f, \"|\", { 1, \"OOM\" }, { (1UL << 7), \"S\" })");
	expect("1 -BEFORE, TOP,VM_FAULT_ALL", "1 -(-3), 0x8000000000000000UL,2147483647");
}

static void a_name_with_several_numbers_stays(void **state)
{
	(void)state;
	expect("{ OTHER, \"o\" }, { SAME, \"s\" }, { NOBODY, \"n\" }", "{ OTHER, \"o\" }, { 7, \"s\" }, { NOBODY, \"n\" }");
}

static void what_is_no_number_stays(void **state)
{
	(void)state;
	expect("\"SAME \\\" SAME\" 'S' REC->SAME x.SAME -> SAME SAME(1) SAME->x", "\"SAME \\\" SAME\" 'S' REC->SAME x.SAME -> SAME SAME(1) SAME->x");
	expect("(struct page *)page", "(struct page *)9");
	expect("NOT_SAME SAMES 7SAME", "NOT_SAME SAMES 7SAME");
	expect("> SAME", "> 7");
	expect("\"SAME", "\"SAME");
	expect("'\\", "'\\");
	expect("", "");
}

static void missing_are_names_in_capitals(void **state)
{
	struct bpf_enumerators *enumerators = bpf_enumerators_create();

	(void)state;
	want(enumerators, "REC->x, NOBODY, SAME, jiffies, Mixed_CASE, U, \"QUOTED\", CALLED()");
	assert_int_equal(bpf_enumerators_missing(enumerators), 2);
	bpf_enumerators_learn(enumerators, types, 1);
	assert_int_equal(bpf_enumerators_missing(enumerators), 1);
	bpf_enumerators_destroy(enumerators);
}

static void names_beyond_the_bound_stay(void **state)
{
	struct bpf_enumerators *enumerators = bpf_enumerators_create();
	char name[32], longest[NAME_BYTES_MAX + 2] = "", *text;

	(void)state;
	for (unsigned i = 0; i < ENUMERATOR_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "N_%u", i);
		want(enumerators, name);
	}
	want(enumerators, "SAME");
	bpf_enumerators_learn(enumerators, types, 1);
	text = bpf_enumerators_put(enumerators, "SAME N_7");
	assert_string_equal(text, "SAME N_7");
	free(text);
	bpf_enumerators_destroy(enumerators);
	memset(longest, 'A', NAME_BYTES_MAX + 1);
	expect(longest, longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_becomes_its_number),
		cmocka_unit_test(a_name_with_several_numbers_stays),
		cmocka_unit_test(what_is_no_number_stays),
		cmocka_unit_test(missing_are_names_in_capitals),
		cmocka_unit_test(names_beyond_the_bound_stay),
	};

	return cmocka_run_group_tests(tests, make_types, free_types);
}
