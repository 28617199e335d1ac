/* kernel_text: print formats of the kernel, and what no kernel would write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/kernel_text.h"

#define FIELDS 12

static const struct ringtail_field fields[FIELDS] = {
	{ .name = "dev", .c_type = "dev_t", .type = RINGTAIL_UNSIGNED, .bits = 32 },
	{ .name = "ret", .c_type = "int", .type = RINGTAIL_SIGNED, .bits = 32 },
	{ .name = "sector", .c_type = "sector_t", .type = RINGTAIL_UNSIGNED, .bits = 64 },
	{ .name = "ptr", .c_type = "void *", .type = RINGTAIL_HEX, .bits = 64 },
	{ .name = "saddr", .c_type = "u8[4]", .type = RINGTAIL_BYTES, .bits = 8, .bytes = 4 },
	{ .name = "comm", .c_type = "char[8]", .type = RINGTAIL_TEXT, .bits = 8, .bytes = 8 },
	{ .name = "v6", .c_type = "u8[16]", .type = RINGTAIL_BYTES, .bits = 8, .bytes = 16 },
	{ .name = "", .type = RINGTAIL_MORE, .bits = 64 },
	{ .name = "nums", .c_type = "s16[4]", .type = RINGTAIL_BYTES, .bits = 16, .bytes = 8,
	  .element_signed = true },
	{ .name = "cmd", .c_type = "char[]", .type = RINGTAIL_TEXT, .bits = 8 },
	{ .name = "flags", .c_type = "unsigned long", .type = RINGTAIL_UNSIGNED, .bits = 64 },
	{ .name = "port", .c_type = "__u16", .type = RINGTAIL_UNSIGNED, .bits = 16 },
};

/* The text of the event; or, of a field, what its value is called. */
static bool render_of(const char *print, const char *field, char text[KERNEL_TEXT_BYTES])
{
	static const uint64_t value[FIELDS] = {
		8 << 20 | 17, (uint32_t)-11, 1ull << 40, 0xffff888100000000, 0x0100007f,
		0x68736162, 0, 1ull << 56, 0x0003fffe00010000, 4, 0x13, 0x5000,
	};
	static const struct ringtail_attachment attached = {
		.kind = RINGTAIL_ATTACHED_STRING, .field = 9, .text = (const uint8_t *)"read",
		.text_bytes = 4,
	};
	const struct ringtail_probe probe = {.fields = FIELDS, .field = fields, .print = print};
	const struct ringtail_item event = {
		.kind = RINGTAIL_EVENT, .probe = &probe, .value = value, .attachment = &attached,
		.attachments = 1,
	};

	for (unsigned i = 0; field && i < FIELDS; i++)
		if (strcmp(fields[i].name, field) == 0)
			return kernel_text_name(&event, i, text);
	return kernel_text(&event, text);
}

static bool render(const char *print, char text[KERNEL_TEXT_BYTES])
{
	return render_of(print, NULL, text);
}

static void expect(const char *print, const char *wanted)
{
	char text[KERNEL_TEXT_BYTES] = "";

	assert_true(render(print, text));
	assert_string_equal(text, wanted);
}

static void refuse(const char *print)
{
	char text[KERNEL_TEXT_BYTES];

	assert_false(render(print, text));
}

static void numbers(void **state)
{
	(void)state;
	expect("\"%d,%d\", ((unsigned int) ((REC->dev) >> 20)), ((unsigned int) ((REC->dev) & ((1U << 20) - 1)))",
	       "8,17");
	expect("\"%d %u %lld\", REC->ret, REC->ret, (long long)REC->ret", "-11 4294967285 -11");
	expect("\"%llu %lu %u\", (unsigned long long)REC->sector, REC->sector, REC->sector",
	       "1099511627776 1099511627776 0");
	expect("\"%#x %#x %#06x|%-4d|%4d|%04d\", 0, 255, 255, 7, 7, 7", "0x0 0xff 0x00ff|7   |   7|0007");
	expect("\"%p %px\", REC->ptr, REC->ptr", "ffff888100000000 ffff888100000000");
	expect("\"%d %d %d\", 1 + 2 * 3, (1 + 2) * 3, 10 - 4 - 3", "7 9 3");
	expect("\"%d %d %d\", REC->ret < 0, REC->ret & 1 ? 5 : 6, -7 / 2", "1 5 -3");
	expect("\"%d %d\", (int)REC->nums[0], REC->nums[2]", "0 -2");
	expect("\"%x %hu\", ~0 & 0xff, ntohs(REC->port)", "ff 80");
	expect("\"%d%% %c\\n\", 50, 65", "50% A");
	expect("\"%c%c%c\", REC->ret ? 'F' : ' ', REC->sector ? '.' : ' ', '\\''", "F.'");
	expect("\"%zu %zu %d\", sizeof(u16), sizeof(unsigned int), 16 / sizeof(u64)", "2 4 2");
	expect("\"%d\", __builtin_expect(!!(REC->ret), 0) ? 0 : 1", "0");
}

static void texts(void **state)
{
	(void)state;
	expect("\"%s|%s|%6s|%-6s|%.2s\", REC->comm, __get_str(cmd), REC->comm, REC->comm, REC->comm",
	       "bash|read|  bash|bash  |ba");
	expect("\"a\" \"b %s\", REC->ret ? \"yes\" : \"no\"", "ab yes");
	expect("\"%d\", __get_dynamic_array_len(cmd)", "4");
}

static void tables(void **state)
{
	(void)state;
	expect("\"%s\", __print_symbolic(REC->dev & 0xff, { 16, \"a\" }, { 17, \"b\" }, { 17, \"c\" })", "b");
	expect("\"%s\", __print_symbolic(5, { 1, \"a\" })", "0x5");
	expect("\"%s\", __print_flags(REC->flags, \"|\", { 0x1, \"A\" }, { 0x2, \"B\" }, { 0x4, \"C\" })",
	       "A|B|0x10");
	expect("\"%s\", (REC->flags) ? __print_flags(REC->flags, \"\", {( unsigned long)((((1UL))) << (4)),"
	       " \"X\" }, { 3, \"Y\"}) : \"none\"", "XY");
	expect("\"%s\", __print_symbolic(2, { TCP_SYN_SENT, \"sent\" }, { NOBODY_KNOWS, \"zero\" })", "sent");
	expect("\"%s\", __print_symbolic(0, { NOBODY_KNOWS, \"zero\" })", "0x0");
	expect("\"%s %s\", __print_hex(REC->saddr, 4), __print_array(REC->nums, 2, 2)",
	       "7f 00 00 01 {0x0,0x1}");
}

static void lists(void **state)
{
	(void)state;
	expect("\"%s %d\", __print_list(nums), 7", "{0,1,-2,3} 7");
	expect("\"%-12s|\", __print_list(nums)", "{0,1,-2,3}  |");
}

static void addresses(void **state)
{
	(void)state;
	expect("\"%pI4 %pI6c\", REC->saddr, REC->v6", "127.0.0.1 ::1");
	expect("\"%pI4:%d\", &REC->saddr, 1", "127.0.0.1:1");
}

static void what_only_the_kernel_can_say(void **state)
{
	char deep[4096] = "\"%d\", ";
	size_t used = strlen(deep);

	(void)state;
	refuse("\"%c\", '");
	refuse("\"%c\", 'ab'");
	refuse("\"%d\", sizeof(struct page)");
	refuse("\"%d\", sizeof(REC->ret)");
	refuse("\"%d\", (struct page)REC->ret");
	refuse("");
	refuse("REC->ret");
	refuse("\"%d\"");
	refuse("\"%d\", ");
	refuse("\"%d");
	refuse("\"%d\", REC->nothing");
	refuse("\"%d\", jiffies");
	refuse("\"%d\", my_function(REC->ret)");
	refuse("\"%s\", REC->ret");
	refuse("\"%d\", REC->comm");
	refuse("\"%d\", REC->nums[4]");
	refuse("\"%d\", REC->nums[-1]");
	refuse("\"%d\", 1 / 0");
	refuse("\"%d\", (1");
	refuse("\"%n\", 1");
	refuse("\"%pI6c\", REC->saddr");
	for (unsigned i = 0; i < 1000; i++)
		deep[used++] = '(';
	deep[used] = '\0';
	refuse(deep);
	memset(deep + strlen("\"%d\", "), '-', 1000);
	refuse(deep);
}

static void expect_name(const char *print, const char *field, const char *wanted)
{
	char text[KERNEL_TEXT_BYTES] = "";
	bool has = render_of(print, field, text);

	assert_int_equal(has, wanted != NULL);
	if (wanted)
		assert_string_equal(text, wanted);
}

/* By a table of the field and nothing else; a value that is in none keeps its number. */
static void names_of_values(void **state)
{
	static const char irq[] = "\"vec=%u [action=%s]\", REC->flags, "
		"__print_symbolic(REC->flags, { 0x12, \"TIMER\" }, { 0x13, \"RCU\" })";
	static const char gfp[] = "\"%s\", (REC->flags) ? __print_flags(( unsigned long)(REC->flags), \"|\", "
		"{ 0x3, \"IO\" }, { 0x10, \"WAIT\" }) : \"none\"";

	(void)state;
	expect_name(irq, "flags", "RCU");
	expect_name(irq, "port", NULL);
	expect_name(gfp, "flags", "IO|WAIT");
	expect_name("\"%s\", __print_symbolic_u64(REC->sector, { 1ULL << 40, \"FAR\" })", "sector", "FAR");
	expect_name("\"%s\", __print_symbolic(REC->ret, { 1, \"ONE\" })", "ret", NULL);
	expect_name("\"%s\", __print_symbolic(REC->ret, { -11, \"EAGAIN\" })", "ret", "EAGAIN");
	/* What is part of a value says nothing of the whole; nor what is of a field that begins alike. */
	expect_name("\"%s\", __print_symbolic(REC->flags & 1, { 1, \"ODD\" })", "flags", NULL);
	expect_name("\"%s\", __print_symbolic(!REC->flags, { 0, \"SOME\" })", "flags", NULL);
	expect_name("\"%s\", __print_symbolic(REC->flags2, { 0x13, \"RCU\" })", "flags", NULL);
	expect_name("\"%s\", __print_symbolic(REC->port + REC->flags, { 0x13, \"RCU\" })", "flags", NULL);
	expect_name("\"%s\", __print_flags(REC->ptr, \"|\", { 1, \"A\" })", "flags", NULL);
	/* The second table has it; a table that cannot be read is none. */
	expect_name("\"%s %s\", __print_symbolic(REC->flags, { 1, \"ONE\" }), "
		    "__print_flags(REC->flags, \"|\", { 3, \"IO\" }, { 16, \"WAIT\" })", "flags", "IO|WAIT");
	expect_name("\"%s\", __print_symbolic(REC->flags, { 0x13", "flags", NULL);
	expect_name("\"%s\", __print_symbolic(REC->", "flags", NULL);
	expect_name("\"%s\", __print_symbolic", "flags", NULL);
	expect_name(NULL, "flags", NULL);
}

/* Addresses that are fields of bytes, or numbers that lie as in memory. */
static void names_of_addresses(void **state)
{
	static const char print[] = "\"100%% sport=%hu %*d saddr=%pI4 v6=%pI6c ptr=%p last=%pI4\", REC->port, 5, REC->ret, "
		"REC->saddr, REC->v6, REC->ptr, REC->saddr + 1";

	(void)state;
	expect_name(print, "saddr", "127.0.0.1");
	expect_name(print, "v6", "::1");
	expect_name(print, "ptr", NULL);
	expect_name(print, "port", NULL);
	expect_name(print, "nums", NULL);
	expect_name("\"%pI4\", REC->saddr", "saddr", "127.0.0.1");
	expect_name("\"%d %pI4\", REC->nothing, REC->saddr", "saddr", NULL);
	expect_name("\"%pI6c\", REC->saddr", "saddr", NULL);	/* too short for one */
	expect_name("\"%pI4", "saddr", NULL);
	expect_name("\"%pI4\"", "saddr", NULL);
	expect_name("\"%pM\", REC->saddr", "saddr", NULL);
}

/* A format of as many bytes as there is room for: whoever reads on behind it reads what is no part of it. */
static void format_that_ends_in_its_conversion(void **state)
{
	char print[2048] = "\"";
	size_t bytes = 1023;

	(void)state;
	memset(print + 1, 'a', bytes);
	strcpy(print + 1 + bytes - strlen("%pI"), "%pI\", REC->saddr");
	refuse(print);
	refuse("\"%pI\", REC->saddr");
	expect("\"%pI4\", REC->saddr", "127.0.0.1");
	expect("\"%pI6c\", REC->v6", "::1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(texts),
		cmocka_unit_test(tables),
		cmocka_unit_test(lists),
		cmocka_unit_test(addresses),
		cmocka_unit_test(what_only_the_kernel_can_say),
		cmocka_unit_test(names_of_values),
		cmocka_unit_test(names_of_addresses),
		cmocka_unit_test(format_that_ends_in_its_conversion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
