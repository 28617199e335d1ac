/* The arguments of USDT probes in the assembler's words, and what is none of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/user.h>

#include "daemon/source/registers.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__x86_64__)
#define AT(name) offsetof(struct user_regs_struct, name)

static const struct {
	const char *text;
	struct tracepoint_word word;
} one[] = {
	{"8@%rax", {.offset = AT(rax), .bytes = 8, .index = WORD_NO_INDEX}},
	{"-4@%edi", {.offset = AT(rdi), .bytes = 4, .is_signed = true, .index = WORD_NO_INDEX}},
	{"2@%r12w", {.offset = AT(r12), .bytes = 2, .index = WORD_NO_INDEX}},
	{"-1@%ah", {.offset = AT(rax) + 1, .bytes = 1, .is_signed = true, .index = WORD_NO_INDEX}},
	{"-4@$-5", {.bytes = 4, .is_signed = true, .of = WORD_NUMBER, .number = -5, .index = WORD_NO_INDEX}},
	{"8@$2147483647", {.bytes = 8, .of = WORD_NUMBER, .number = INT32_MAX, .index = WORD_NO_INDEX}},
	{"8@-8(%rbp)", {.offset = AT(rbp), .bytes = 8, .of = WORD_OF_MEMORY, .number = -8,
			.index = WORD_NO_INDEX}},
	{"4@(%rsp)", {.offset = AT(rsp), .bytes = 4, .of = WORD_OF_MEMORY, .index = WORD_NO_INDEX}},
	{"8@16(%rax,%rbx,4)", {.offset = AT(rax), .bytes = 8, .of = WORD_OF_MEMORY, .number = 16,
			       .index = AT(rbx), .shift = 2}},
	{"8@(%rax,%rbx)", {.offset = AT(rax), .bytes = 8, .of = WORD_OF_MEMORY, .index = AT(rbx)}},
};

/* What cannot be recorded, or is nothing that a compiler writes. */
static const char *const none[] = {
	"8f@%xmm0", "8@x(%rip)", "8@8+x(%rip)", "3@%rax", "8@%rax,", "8@", "@%rax", "8", "8@$", "8@$99999999999",
	"8@(%rax", "8@(%rax,%rbx,3)", "8@(%rax,%rbx,16)", "8@(,%rbx,8)", "8@%rxx", "-8@$0x", "8@4@%rax", "8@(%ah)",
	"8@%", "8@()", "99999999999999999999@%rax",
};

static void each_operand_is_understood(void **state)
{
	struct tracepoint_word arg[USDT_ARGS_MAX];

	(void)state;
	for (size_t i = 0; i < LENGTH(one); i++) {
		assert_int_equal(registers_parse_usdt(one[i].text, arg), 1);
		assert_memory_equal(arg, &one[i].word, sizeof(arg[0]));
	}
}

static void what_is_no_operand_is_no_argument_and_keeps_its_place(void **state)
{
	struct tracepoint_word arg[USDT_ARGS_MAX];
	char text[64];

	(void)state;
	for (size_t i = 0; i < LENGTH(none); i++) {
		strcpy(text, none[i]);
		strcat(text, " 8@%rcx");
		assert_int_equal(registers_parse_usdt(text, arg), 2);
		assert_int_equal(arg[0].bytes, 0);
		assert_int_equal(arg[1].bytes, 8);
		assert_int_equal(arg[1].offset, AT(rcx));
	}
}

static void more_arguments_than_there_can_be_are_left_out(void **state)
{
	struct tracepoint_word arg[USDT_ARGS_MAX];
	char text[1024] = "";

	(void)state;
	assert_int_equal(registers_parse_usdt("", arg), 0);
	assert_int_equal(registers_parse_usdt("   ", arg), 0);
	for (unsigned i = 0; i < USDT_ARGS_MAX + 5; i++)
		strcat(text, "8@%rax ");
	assert_int_equal(registers_parse_usdt(text, arg), USDT_ARGS_MAX);
}
#else
static void each_operand_is_understood(void **state)
{
	struct tracepoint_word arg[USDT_ARGS_MAX];

	(void)state;
	assert_int_equal(registers_parse_usdt("-4@w1 8@[sp, 16] 8@x30 4@5 8@[x2]", arg), 5);
	assert_int_equal(arg[0].offset, 8);
	assert_int_equal(arg[1].number, 16);
	assert_int_equal(arg[1].offset, 31 * 8);
	assert_int_equal(arg[3].number, 5);
	assert_int_equal(arg[4].of, WORD_OF_MEMORY);
}

static void what_is_no_operand_is_no_argument_and_keeps_its_place(void **state)
{
	struct tracepoint_word arg[USDT_ARGS_MAX];

	(void)state;
	assert_int_equal(registers_parse_usdt("8@d0 8@x31 8@[sp 8@x1", arg), 3);
	assert_int_equal(arg[0].bytes | arg[1].bytes | arg[2].bytes, 0);
}

static void more_arguments_than_there_can_be_are_left_out(void **state)
{
	struct tracepoint_word arg[USDT_ARGS_MAX];

	(void)state;
	assert_int_equal(registers_parse_usdt("", arg), 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_operand_is_understood),
		cmocka_unit_test(what_is_no_operand_is_no_argument_and_keeps_its_place),
		cmocka_unit_test(more_arguments_than_there_can_be_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
