/*
 * test_unwind_table: rows of .eh_frame: what each instruction of its programs means, what no row can express, and files
 * that are damaged. That the rows are right for real code is seen in tests/bpf/test_unwind.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "daemon/base/limits.h"
#include "daemon/source/unwind_table.h"
#include "tests/lib/eh_frame_file.h"
#include "tests/lib/failing_memory.h"

#define BYTES_MAX	65536u
#define CODE		0x2000u		/* in the file: where the function of most cases begins */
#define CODE_BYTES	0x100u

static struct section {
	uint8_t byte[BYTES_MAX];
	size_t bytes;
	size_t common;			/* where the last CIE begins */
} section;

static int file;
static struct unwind_table table;

static void put(const void *from, size_t bytes)
{
	assert_true(section.bytes + bytes <= sizeof(section.byte));
	memcpy(section.byte + section.bytes, from, bytes);
	section.bytes += bytes;
}

static void put_number(uint64_t number, size_t bytes)
{
	put(&number, bytes);
}

/* Begins with its length, which is known at its end. */
static size_t begin_entry(void)
{
	put_number(0, 4);
	return section.bytes;
}

static void end_entry(size_t begin)
{
	uint32_t bytes;

	while (section.bytes % 8)
		put_number(0, 1);
	bytes = (uint32_t)(section.bytes - begin);
	memcpy(section.byte + begin - 4, &bytes, 4);
}

struct common {
	const char *letters;
	uint8_t version, data[16], data_bytes, code_align, data_align, of;
};

/* As the compiler's: rsp + 8, and the return address below that. */
static const struct common usual = {
	.letters = "zR", .version = 1, .data = {0x1b}, .data_bytes = 1, .code_align = 1, .data_align = 0x78, .of = 16,
};

static void put_common(const struct common *common)
{
	static const uint8_t program[] = {0x0c, 7, 8, 0x90, 1};
	size_t begin;

	section.common = section.bytes;
	begin = begin_entry();
	put_number(0, 4);
	put_number(common->version, 1);
	put(common->letters, strlen(common->letters) + 1);
	put_number(common->code_align, 1);
	put_number(common->data_align, 1);
	put_number(common->of, 1);
	if (common->letters[0] == 'z') {
		put_number(common->data_bytes, 1);
		put(common->data, common->data_bytes);
	}
	put(program, sizeof(program));
	end_entry(begin);
}

/* Of code at that place in the file, with pointers from their own place on (0x1b). */
static void put_function(uint32_t place, uint32_t bytes, const uint8_t *program, size_t program_bytes)
{
	size_t begin = begin_entry();

	put_number(section.bytes - section.common, 4);
	put_number(place - EH_CODE_OFFSET + EH_CODE_ADDRESS - (EH_ADDRESS + (uint32_t)section.bytes), 4);
	put_number(bytes, 4);
	put_number(0, 1);
	put(program, program_bytes);
	end_entry(begin);
}

static int compile(void)
{
	unwind_table_free(&table);
	eh_frame_file_write(file, section.byte, section.bytes);
	return unwind_table_compile(file, &table);
}

static void begin(void)
{
	section.bytes = 0;
	put_common(&usual);
}

/* One function with that program. */
#define COMPILE(...) do { \
		static const uint8_t program_[] = {__VA_ARGS__}; \
		begin(); \
		put_function(CODE, CODE_BYTES, program_, sizeof(program_)); \
		assert_int_equal(compile(), 0); \
	} while (0)

#define assert_row(i, offset, is, cfa_, rbp_) do { \
		assert_true((i) < table.rows); \
		assert_int_equal(table.row[i].at, CODE + (offset)); \
		assert_int_equal(table.row[i].rule, (is)); \
		assert_int_equal(table.row[i].cfa, (cfa_)); \
		assert_int_equal(table.row[i].rbp, (rbp_)); \
	} while (0)

/* All of the function has one rule. */
#define assert_one(is, cfa_, rbp_) do { \
		assert_int_equal(table.rows, 2); \
		assert_row(0, 0, is, cfa_, rbp_); \
		assert_row(1, CODE_BYTES, UNWIND_NONE, 0, 0); \
	} while (0)

static void a_function_is_followed_from_push_to_pop(void **state)
{
	(void)state;
	/* push %rbp; mov %rsp,%rbp; ...; leave; ret */
	COMPILE(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x90, 0x0c, 7, 8, 0xc6);
	assert_int_equal(table.rows, 5);
	assert_row(0, 0, UNWIND_RSP, 1, 0);
	assert_row(1, 1, UNWIND_RSP | UNWIND_RBP_AT_CFA, 2, -2);
	assert_row(2, 4, UNWIND_RBP | UNWIND_RBP_AT_CFA, 2, -2);
	assert_row(3, 0x94, UNWIND_RSP, 1, 0);
	assert_row(4, CODE_BYTES, UNWIND_NONE, 0, 0);
	assert_memory_equal(table.build_id, "a build-id of a file", 20);
}

static void each_instruction_is_known(void **state)
{
	(void)state;
	COMPILE(0x0e, 0x80, 1);				/* def_cfa_offset, of two bytes */
	assert_one(UNWIND_RSP, 16, 0);
	COMPILE(0x12, 6, 0x7e);				/* def_cfa_sf, offset_extended */
	assert_one(UNWIND_RBP, 2, 0);
	COMPILE(0x13, 0x7d, 0x05, 6, 3);		/* def_cfa_offset_sf */
	assert_one(UNWIND_RSP | UNWIND_RBP_AT_CFA, 3, -3);
	COMPILE(0x11, 6, 0x7f);				/* offset_extended_sf */
	assert_one(UNWIND_RSP | UNWIND_RBP_AT_CFA, 1, 1);
	COMPILE(0x86, 2, 0x06, 6, 0x2e, 9);		/* restore_extended, args_size */
	assert_one(UNWIND_RSP, 1, 0);
	COMPILE(0x86, 2, 0x08, 6);			/* same_value */
	assert_one(UNWIND_RSP, 1, 0);
	COMPILE(0x0a, 0x0e, 64, 0x86, 4, 0x44, 0x0b);	/* remember, restore */
	assert_int_equal(table.rows, 3);
	assert_row(0, 0, UNWIND_RSP | UNWIND_RBP_AT_CFA, 8, -4);
	assert_row(1, 4, UNWIND_RSP, 1, 0);
	COMPILE(0x03, 0x20, 0, 0x0e, 16, 0x04, 0x20, 0, 0, 0, 0x0e, 24);
	assert_int_equal(table.rows, 4);
	assert_row(1, 0x20, UNWIND_RSP, 2, 0);
	assert_row(2, 0x40, UNWIND_RSP, 3, 0);
	COMPILE(0x83, 5, 0x05, 12, 6, 0x09, 3, 12, 0x14, 3, 2, 0x15, 3, 0x7e, 0x16, 3, 1, 0x30, 0x10, 3, 1, 0x30, 0x07, 3);
	assert_one(UNWIND_RSP, 1, 0);			/* other registers are nobody's business */
	COMPILE(0x07, 16);				/* nobody called */
	assert_one(UNWIND_END, 0, 0);
}

static void expressions_of_compilers_and_linkers_are_known(void **state)
{
	(void)state;
	COMPILE(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22);
	assert_one(UNWIND_PLT, 11, 0);
	COMPILE(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22);
	assert_one(UNWIND_PLT, 10, 0);
	COMPILE(0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0);	/* main() with an aligned frame */
	assert_one(UNWIND_AT_RBP | UNWIND_RBP_AT_RBP, -1, 0);
	COMPILE(0x0f, 5, 0x77, 0xd0, 0, 0x06, 0x23, 8);			/* its operand is too short: nothing follows */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x0f, 6, 0x77, 0xd0, 0, 0x06, 0x23, 8);
	assert_one(UNWIND_AT_RSP | UNWIND_AND_8, 10, 0);
	COMPILE(0x0f, 2, 0x77, 24);
	assert_one(UNWIND_RSP, 3, 0);
	COMPILE(0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 6, 3, 0x77, 0xf8, 0, 0x10, 16, 3, 0x77, 0xa8, 1);
	assert_one(UNWIND_SIGNAL, 0, 0);
}

static void what_no_row_can_express_is_unknown(void **state)
{
	(void)state;
	COMPILE(0x0c, 3, 16);				/* rbx + 16 */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x0e, 9);				/* no multiple of 8 */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x0e, 0x80, 0x80, 0x10);		/* 256 KiB */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x0e, 0xf8, 0xff, 0x0f);		/* and 8 bytes less */
	assert_one(UNWIND_RSP, INT16_MAX, 0);
	COMPILE(0x86, 0x81, 1);				/* rbp 129 words below */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x86, 0x80, 1);
	assert_one(UNWIND_RSP | UNWIND_RBP_AT_CFA, 1, -128);
	COMPILE(0x09, 6, 3);				/* rbp is in rbx */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x07, 6);				/* rbp is lost */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x90, 2);				/* the return address lies elsewhere */
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x16, 16, 2, 0x77, 0);
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x0f, 3, 0x77, 0, 0x22);
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x1c);
	assert_one(UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x0f, 6, 0x77, 0xd0, 0, 0x06, 0x23, 16);
	assert_one(UNWIND_UNKNOWN, 0, 0);
}

/* Of the code before it, the rules hold. */
static void nothing_is_believed_behind_what_is_not_known(void **state)
{
	(void)state;
	COMPILE(0x44, 0x0e, 16, 0x44, 0x3f, 0x0e, 24);	/* no such instruction */
	assert_int_equal(table.rows, 4);
	assert_row(0, 0, UNWIND_RSP, 1, 0);
	assert_row(1, 4, UNWIND_RSP, 2, 0);
	assert_row(2, 8, UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x44, 0x0b);				/* nothing was remembered */
	assert_row(1, 4, UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x44, 0x0e, 16, 0x44, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
		0x0a, 0x0a, 0x0a);			/* too much was */
	assert_row(2, 8, UNWIND_UNKNOWN, 0, 0);
	COMPILE(0x44, 0x0f, 200, 0x77);			/* longer than the entry */
	assert_row(1, 4, UNWIND_UNKNOWN, 0, 0);
	/* Places beyond the function are not its. */
	COMPILE(0x04, 0xff, 0xff, 0xff, 0xff, 0x0e, 16);
	assert_one(UNWIND_RSP, 1, 0);
}

static void functions_lie_in_the_order_of_their_places(void **state)
{
	static const uint8_t two[] = {0x0e, 16}, three[] = {0x0e, 24};

	(void)state;
	begin();
	put_function(CODE + 0x400, 0x10, two, sizeof(two));
	put_function(CODE, 0x10, two, sizeof(two));
	put_function(CODE + 0x10, 0x10, three, sizeof(three));
	put_function(0x900000, 0x10, three, sizeof(three));	/* is in no piece that is loaded */
	put_function(CODE + 0x500, 0, three, sizeof(three));	/* is of no code */
	assert_int_equal(compile(), 0);
	assert_int_equal(table.rows, 5);
	assert_row(0, 0, UNWIND_RSP, 2, 0);
	assert_row(1, 0x10, UNWIND_RSP, 3, 0);
	assert_row(2, 0x20, UNWIND_NONE, 0, 0);
	assert_row(3, 0x400, UNWIND_RSP, 2, 0);
	assert_row(4, 0x410, UNWIND_NONE, 0, 0);
}

static void beginnings_differ(void **state)
{
	static const uint8_t none[] = {0};
	static const struct {
		struct common common;
		int err;
	} row[] = {
		{{"zPLR", 1, {0x1b, 1, 2, 3, 4, 0x1b, 0x1b}, 7, 1, 0x78, 16}, 0},
		{{"zRS", 3, {0x1b}, 1, 1, 0x78, 16}, 0},
		{{"zPR", 1, {0xff, 0x1b}, 2, 1, 0x78, 16}, 0},
		{{"zR", 2, {0x1b}, 1, 1, 0x78, 16}, -ENODATA},		/* no such version */
		{{"zR", 1, {0x1b}, 1, 1, 0x78, 30}, -ENODATA},		/* another register for the return address */
		{{"zX", 1, {0x1b}, 1, 1, 0x78, 16}, -ENODATA},		/* no such letter */
		{{"eh", 1, {0}, 0, 1, 0x78, 16}, -ENODATA},
		{{"zR", 1, {0x9b}, 1, 1, 0x78, 16}, -ENODATA},		/* pointers to pointers */
		{{"zR", 1, {0x3b}, 1, 1, 0x78, 16}, -ENODATA},		/* from somewhere else on */
		{{"zR", 1, {0x11}, 1, 1, 0x78, 16}, -ENODATA},		/* of a form that nobody uses */
		{{"zR", 1, {0}, 0, 1, 0x78, 16}, -ENODATA},		/* its data are too short */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		section.bytes = 0;
		put_common(&row[i].common);
		put_function(CODE, CODE_BYTES, none, 1);
		assert_int_equal(compile(), row[i].err);
		if (!row[i].err)
			assert_one(UNWIND_RSP, 1, 0);
	}
	/* Another alignment of code. */
	section.bytes = 0;
	put_common(&(struct common){"zR", 1, {0x1b}, 1, 4, 0x78, 16});
	put_function(CODE, CODE_BYTES, (const uint8_t []){0x42, 0x0e, 16}, 3);
	assert_int_equal(compile(), 0);
	assert_row(1, 8, UNWIND_RSP, 2, 0);
}

static void a_program_in_common_has_a_bound(void **state)
{
	static const uint8_t none[] = {0};
	size_t begin;

	(void)state;
	for (size_t more = 0; more < 2; more++) {
		section.bytes = 0;
		section.common = 0;
		begin = begin_entry();
		put("\0\0\0\0\1zR\0\1\x78\x10\1\x1b\x0c\7\x08\x90\1", 18);
		while (section.bytes - begin < 5 + UNWIND_CIE_BYTES_MAX + 16 * more || section.bytes % 8)
			put_number(0, 1);
		end_entry(begin);
		put_function(CODE, CODE_BYTES, none, 1);
		assert_int_equal(compile(), more ? -ENODATA : 0);
	}
}

static void a_damaged_section_gives_what_was_before(void **state)
{
	static const uint8_t none[] = {0};
	uint8_t whole[BYTES_MAX];
	size_t bytes;

	(void)state;
	begin();
	put_function(CODE, CODE_BYTES, none, 1);
	put_function(CODE + CODE_BYTES, CODE_BYTES, none, 1);
	bytes = section.bytes;
	memcpy(whole, section.byte, bytes);
	for (section.bytes = 0; section.bytes < bytes; section.bytes++) {
		int err = compile();

		assert_true(err == 0 || err == -ENODATA);
		if (!err)
			assert_int_equal(table.row[0].at, CODE);
	}
	for (size_t i = 0; i < bytes; i++) {
		section.bytes = bytes;
		memcpy(section.byte, whole, bytes);
		section.byte[i] ^= 0xff;
		compile();
	}
}

static void other_files_have_no_table(void **state)
{
	static const uint8_t none[] = {0};
	struct eh_frame_file head;

	(void)state;
	begin();
	put_function(CODE, CODE_BYTES, none, 1);
	assert_int_equal(compile(), 0);
	head = eh_frame_file_head(section.bytes);
	head.header.e_machine = EM_AARCH64;
	assert_int_equal(pwrite(file, &head, sizeof(head), 0), sizeof(head));
	unwind_table_free(&table);
	assert_int_equal(unwind_table_compile(file, &table), -ENOEXEC);
	assert_int_equal(ftruncate(file, 8), 0);
	assert_int_equal(unwind_table_compile(file, &table), -ENOEXEC);
	head = eh_frame_file_head(section.bytes);
	head.section[2].sh_name = 2;
	assert_int_equal(pwrite(file, &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(unwind_table_compile(file, &table), -ENODATA);
}

static void memory_that_fails_is_an_error(void **state)
{
	static const uint8_t none[] = {0};
	int err = -ENOMEM;

	(void)state;
	begin();
	put_function(CODE, CODE_BYTES, none, 1);
	assert_int_equal(compile(), 0);
	for (unsigned n = 0; err; n++) {
		assert_true(n < 100);
		unwind_table_free(&table);
		allocations_left = n;
		failures_left = 1;
		err = unwind_table_compile(file, &table);
		failures_left = 0;
		assert_true(err == 0 || err == -ENOMEM || err == -ENODATA || err == -ENOEXEC);
	}
	/* No row is missing, although memory came back before the function's end. */
	assert_int_equal(table.rows, 2);
}

static int teardown(void **state)
{
	(void)state;
	unwind_table_free(&table);
	close(file);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_is_followed_from_push_to_pop),
		cmocka_unit_test(each_instruction_is_known),
		cmocka_unit_test(expressions_of_compilers_and_linkers_are_known),
		cmocka_unit_test(what_no_row_can_express_is_unknown),
		cmocka_unit_test(nothing_is_believed_behind_what_is_not_known),
		cmocka_unit_test(functions_lie_in_the_order_of_their_places),
		cmocka_unit_test(beginnings_differ),
		cmocka_unit_test(a_program_in_common_has_a_bound),
		cmocka_unit_test(a_damaged_section_gives_what_was_before),
		cmocka_unit_test(other_files_have_no_table),
		cmocka_unit_test(memory_that_fails_is_an_error),
	};

	file = memfd_create("file", MFD_CLOEXEC);
	return cmocka_run_group_tests(tests, NULL, teardown);
}
