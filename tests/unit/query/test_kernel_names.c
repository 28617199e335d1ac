/* kernel_names: the names that print formats give to numbers, and formats that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/kernel_names.h"

#define GFP	"(REC->gfp_flags) ? __print_flags(( unsigned long)(REC->gfp_flags), \"|\", " \
		"{( unsigned long)((( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))) | (( gfp_t)((((1UL))) << (6)))), " \
		"\"GFP_KERNEL\"}, {( unsigned long)(( gfp_t)((((1UL))) << (8))), \"__GFP_ZERO\"}, " \
		"{( unsigned long)(((( gfp_t)3) | (( gfp_t)0)) & ~(( gfp_t)1)), \"GFP_ODD\" }) : \"none\", REC->node"
#define STATE	"(REC->prev_state & ((0x7 + 1) << 1) - 1) ? __print_flags(REC->prev_state & (((0x7 + 1) << 1) - 1), " \
		"\"|\", { 0x00000001, \"S\" }, { 0x00000002, \"D\" }) : \"R\""

static void expect(const char *format, const char *field, const char *text, uint64_t want_mask, uint64_t want_value)
{
	uint64_t mask = 0, value = 0;

	if (!kernel_names_find(format, field, text, strlen(text), &mask, &value))
		fail_msg("%s: %s has no `%s`", format, field, text);
	assert_int_equal(mask, want_mask);
	assert_int_equal(value, want_value);
}

static void expect_none(const char *format, const char *field, const char *text)
{
	uint64_t mask, value;

	if (kernel_names_find(format, field, text, strlen(text), &mask, &value))
		fail_msg("%s: %s has `%s`", format, field, text);
}

static void test_symbols(void **state)
{
	static const char vec[] = "\"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, "
				  "{ 1, \"TIMER\" }, { 0x9u, \"RCU\" })";

	(void)state;
	expect(vec, "vec", "RCU", UINT64_MAX, 9);
	expect(vec, "vec", "HI", UINT64_MAX, 0);
	expect_none(vec, "vec", "RC");
	expect_none(vec, "vec", "RCUS");
	expect_none(vec, "vec", "");
	expect_none(vec, "vec", "RCU|TIMER");
	expect_none(vec, "ve", "RCU");
	expect_none(vec, "vect", "RCU");
	expect("\"%s\", __print_symbolic_u64(REC->root, { -6ULL, \"TREE_LOG\" })", "root", "TREE_LOG", UINT64_MAX,
	       (uint64_t)-6);
	expect("\"%s\", __print_symbolic(REC->s, { TCP_LISTEN, \"listens\" })", "s", "listens", UINT64_MAX, 10);
	expect("\"%s\", __print_symbolic(REC->a, { 0x040 + 2, \"DB excp\" })", "a", "DB excp", UINT64_MAX, 0x42);
	expect("\"%s\", __print_symbolic(REC->a, { (8 - 1), \"seven\" })", "a", "seven", UINT64_MAX, 7);
	expect_none("\"%s\", __print_symbolic(REC->s, { NOBODY_KNOWS, \"a\" }, { 1, \"b\" })", "s", "a");
	expect("\"%s\", __print_symbolic(REC->s, { NOBODY_KNOWS, \"a\" }, { 1, \"b\" })", "s", "b", UINT64_MAX, 1);
}

static void test_flags(void **state)
{
	(void)state;
	expect("\"%s\", " GFP, "gfp_flags", "GFP_KERNEL", UINT64_MAX, 0xc40);
	expect("\"%s\", " GFP, "gfp_flags", "GFP_ODD", UINT64_MAX, 2);
	expect("\"%s\", " GFP, "gfp_flags", "none", UINT64_MAX, 0);
	expect("\"%s\", " GFP, "gfp_flags", "GFP_KERNEL|__GFP_ZERO", UINT64_MAX, 0xd40);
	expect_none("\"%s\", " GFP, "gfp_flags", "GFP_KERNEL|");
	expect_none("\"%s\", " GFP, "gfp_flags", "|GFP_KERNEL");
	expect_none("\"%s\", " GFP, "gfp_flags", "GFP_KERNEL|NOTHING");
	expect_none("\"%s\", " GFP, "node", "none");
	expect_none("\"%s\", REC->len ? " "__print_flags(REC->f, \"|\", { 1, \"A\" }) : \"none\"", "f", "none");
	expect_none("\"%s\", REC->f == 2 ? " "__print_flags(REC->f, \"|\", { 1, \"A\" }) : \"none\"", "f", "none");
	expect("\"%s %s\", __print_symbolic(REC->f, { 1, \"ONE\" }), __print_flags_u64(REC->f, \"\", { 1ULL << 40, "
	       "\"FAR\" })", "f", "FAR", UINT64_MAX, 1ULL << 40);
}

/* As many as a number has bits. */
static void test_many_flags(void **state)
{
	char text[2 * (KERNEL_FLAGS_MAX + 1)];

	(void)state;
	for (unsigned i = 0; i <= KERNEL_FLAGS_MAX; i++)
		memcpy(text + 2 * i, "A|", 2);
	text[2 * KERNEL_FLAGS_MAX + 1] = '\0';
	expect_none("\"%s\", __print_flags(REC->f, \"|\", { 4, \"A\" })", "f", text);
	text[2 * KERNEL_FLAGS_MAX - 1] = '\0';
	expect("\"%s\", __print_flags(REC->f, \"|\", { 4, \"A\" })", "f", text, UINT64_MAX, 4);
}

static void test_bits_of_a_field(void **state)
{
	(void)state;
	expect("\"%s\", " STATE, "prev_state", "D", 0xf, 2);
	expect("\"%s\", " STATE, "prev_state", "R", 0xf, 0);
	expect("\"%s\", __print_symbolic((((REC->ioprio) >> 13) & (8 - 1)), { IOPRIO_CLASS_BE, \"be\" })", "ioprio", "be",
	       7 << 13, 2 << 13);
	expect("\"%s\", __print_symbolic((REC->icr >> 8 & 0x7), {0x4, \"NMI\"})", "icr", "NMI", 0x700, 0x400);
	expect_none("\"%s\", __print_symbolic((REC->icr >> 8 & 0x7), {0x8, \"NMI\"})", "icr", "NMI");
	expect_none("\"%s\", __print_flags((1 << REC->type), \"|\", { 1 << 0, \"REALTIME\" })", "type", "REALTIME");
	expect_none("\"%s\", __print_symbolic(REC->a + REC->b, { 1, \"A\" })", "a", "A");
	expect_none("\"%s\", __print_symbolic(REC->a + REC->b, { 1, \"A\" })", "b", "A");
	expect_none("\"%s\", __print_symbolic(REC->a ? REC->b : 0, { 1, \"A\" })", "a", "A");
	expect_none("\"%s\", __print_symbolic(REC->a >> 64, { 1, \"A\" })", "a", "A");
	expect_none("\"%s\", __print_symbolic(2ULL, { 2, \"A\" }), REC->a", "a", "A");
}

static void test_no_formats(void **state)
{
	static const char *const formats[] = {
		"", "__print_", "__print_symbolic", "__print_symbolic(", "__print_symbolic(REC->", "__print_symbolic(REC->f",
		"__print_symbolic(REC->f,", "__print_symbolic(REC->f, {", "__print_symbolic(REC->f, { 1",
		"__print_symbolic(REC->f, { 1,", "__print_symbolic(REC->f, { 1, \"A", "__print_symbolic(REC->f, { 1, \"A\"",
		"__print_flags(REC->f, { 1, \"A\" })", "__print_flags(REC->f, \"|\" { 1, \"A\" })",
		"__print_symbolic(REC->f, { 1 2, \"A\" })", "__print_symbolic(REC->f, { 1 << 64, \"A\" })",
		"__print_symbolic(REC->f, { 0x, \"A\" })", "__print_symbolic(REC->f, { 12x, \"A\" })",
		"__print_symbolic(REC->f, { (1, \"A\" })", "__print_symbolic(REC->f, { \"A\", 1 })",
		"__print_hex(REC->f, { 1, \"A\" })", "__print_symbolic(REC->f, { (int), \"A\" })",
		"__print_symbolic(REC->f, { , \"A\" })", "__print_symbolic(REC->f, { 5 \"B\" }, { 1, \"A\" })", "__print_symbolic(REC->f >> , { 1, \"A\" })",
	};
	/* A text with an escape ends the table: what a quote behind it is, is not known. */
	static const char escape[] = "__print_symbolic(REC->f, { 1, \"B\" }, { 2, \"b\\\" }, { 3, \"A\" })";
	char deep[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		expect_none(formats[i], "f", "A");
	expect(escape, "f", "B", UINT64_MAX, 1);
	expect_none(escape, "f", "A");
	memset(deep, 0, sizeof(deep));
	strcpy(deep, "__print_symbolic(REC->f, { ");
	memset(deep + strlen(deep), '(', 3000);
	strcat(deep, "1, \"A\" })");
	expect_none(deep, "f", "A");
	strcpy(deep, "__print_symbolic(REC->f, { ");
	memset(deep + strlen(deep), '-', 3000);
	strcat(deep, "1, \"A\" })");
	expect_none(deep, "f", "A");
}

static void test_names_in_order(void **state)
{
	static const char *const want[] = { "GFP_KERNEL", "__GFP_ZERO", "GFP_ODD", "none" };
	struct kernel_names names;
	struct kernel_name name;
	size_t found = 0;

	(void)state;
	for (kernel_names_begin(&names, "\"%s\", " GFP, "gfp_flags"); kernel_names_next(&names, &name); found++) {
		assert_true(found < sizeof(want) / sizeof(want[0]));
		assert_int_equal(name.bytes, strlen(want[found]));
		assert_memory_equal(name.text, want[found], name.bytes);
	}
	assert_int_equal(found, sizeof(want) / sizeof(want[0]));
	assert_false(kernel_names_next(&names, &name));
}

static void test_tables_alone(void **state)
{
	Ringtail__V1__Field fields[3], *field[3] = { &fields[0], &fields[1], &fields[2] };
	static const char *const names[] = { "gfp_flags", "prev_state", "icr" };
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT;
	char *tables;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		ringtail__v1__field__init(&fields[i]);
		fields[i].name = (char *)names[i];
	}
	probe.field = field;
	probe.n_field = 3;
	probe.print = (char *)"\"a=%d\", REC->a, " GFP ", " STATE ", __print_symbolic((REC->icr >> 8 & 0x7), "
		      "{ LATER_KNOWN, \"AT\" }, {0x4, \"NMI\"}), __print_symbolic(REC->icr, { -1, \"all ones\" })";
	tables = kernel_names_tables(&probe);
	assert_non_null(tables);
	expect(tables, "gfp_flags", "GFP_KERNEL|__GFP_ZERO", UINT64_MAX, 0xd40);
	expect(tables, "gfp_flags", "none", UINT64_MAX, 0);
	expect(tables, "prev_state", "D", 0xf, 2);
	expect(tables, "prev_state", "R", 0xf, 0);
	expect(tables, "icr", "NMI", 0x700, 0x400);
	expect(tables, "icr", "all ones", UINT64_MAX, UINT64_MAX);
	expect_none(tables, "icr", "none");
	assert_non_null(strstr(tables, "{ LATER_KNOWN,\"AT\"}"));
	assert_null(strstr(tables, "REC->a,"));
	free(tables);
	/* What cannot be read ends a table, here as there. */
	probe.print = (char *)"\"%s\", __print_symbolic(REC->icr, { 1, \"A\" }, { 5$ \"B\" }, { 6, \"C\" })";
	tables = kernel_names_tables(&probe);
	assert_string_equal(tables, ", REC->icr ? __print_symbolic(REC->icr,{0x1,\"A\"})");
	free(tables);
	probe.print = (char *)"\"%d\", REC->icr";
	tables = kernel_names_tables(&probe);
	assert_string_equal(tables, "");
	free(tables);
}

static void test_a_probe_with_a_format_of_ours(void **state)
{
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT;

	(void)state;
	probe.provider = (char *)"tracepoint";
	probe.function = (char *)"sched";
	probe.name = (char *)"sched_switch";
	expect(kernel_names_format(&probe), "prev_state", "D", 0x1ff, 2);
	expect(kernel_names_format(&probe), "prev_state", "R+", 0x1ff, 0x100);
	expect(kernel_names_format(&probe), "prev_state", "R", 0x1ff, 0);
	probe.print = (char *)"\"%d\", REC->prev_state";
	assert_ptr_equal(kernel_names_format(&probe), probe.print);
	probe.print = (char *)"";
	probe.name = (char *)"sched_waking";
	assert_string_equal(kernel_names_format(&probe), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_many_flags),
		cmocka_unit_test(test_bits_of_a_field),
		cmocka_unit_test(test_no_formats),
		cmocka_unit_test(test_names_in_order),
		cmocka_unit_test(test_tables_alone),
		cmocka_unit_test(test_a_probe_with_a_format_of_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
