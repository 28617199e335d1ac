/* test_event_part: what an event has of a name, by which answers are counted. */
#include "tests/unit/client/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "client/cli/event_part.h"

static const struct ringtail_field fields[] = {
	{.name = "name", .c_type = "char[]", .type = RINGTAIL_TEXT, .bits = 8},
	{.name = "pid", .c_type = "pid_t", .type = RINGTAIL_SIGNED, .bits = 32},
	{.name = "vec", .c_type = "unsigned int", .type = RINGTAIL_UNSIGNED, .bits = 32},
	{.name = "to", .c_type = "struct sockaddr *", .type = RINGTAIL_HEX, .bits = 64},
	{.name = "port", .c_type = "u16", .type = RINGTAIL_UNSIGNED, .bits = 16},
	{.name = "rwbs", .c_type = "char[8]", .type = RINGTAIL_TEXT, .bits = 8, .bytes = 8},
};
static const struct ringtail_probe irq = {
	.spec = "tracepoint:irq:entry", .provider = "tracepoint", .function = "irq", .name = "entry",
	.kind = RINGTAIL_TRACEPOINT, .fields = 6, .field = fields,
	.print = "\"%s\", __print_symbolic(REC->vec, { 9, \"RCU\" })",
};
static const struct ringtail_probe call = {
	.spec = "syscall:connect:call", .provider = "syscall", .function = "connect", .name = "call",
	.kind = RINGTAIL_CALL, .fields = 4, .field = fields,
	.print = "\"%s\", __print_symbolic(REC->vec, { 9, \"RCU\" })",
};
static const struct ringtail_probe with_port = {
	.spec = "app:sends:x", .provider = "app", .function = "sends", .name = "x", .kind = RINGTAIL_TRACEPOINT,
	.fields = 5, .field = fields,
};

static struct out out;

static const char *part_of(const struct ringtail_probe *probe, const char *name, const char *address)
{
	static char text[256];
	const uint64_t value[] = {11, (uint32_t)-7, 9, 0x7f00, 80, 0x5344};
	const struct ringtail_attachment attachment[] = {
		{.kind = RINGTAIL_ATTACHED_STRING, .field = 0, .text = (const uint8_t *)"a \"b\" c.txt",
		 .text_bytes = 11},
		{.kind = RINGTAIL_ATTACHED_STRING, .field = 3, .text = (const uint8_t *)address,
		 .text_bytes = address ? strlen(address) : 0},
	};
	const struct ringtail_item event = {
		.kind = RINGTAIL_EVENT, .probe = probe, .value = value, .attachment = attachment,
		.attachments = address ? 2 : 1, .thread = {.pid = 100, .tid = 101},
	};
	bool number;

	out.used = 0;
	if (!event_part_put(&out, &event, name, &number))
		return NULL;
	snprintf(text, sizeof(text), "%.*s", (int)out.used, out.buffer);
	out.used = 0;
	return text;
}

static void fields_that_are_called_as_something_else(void **state)
{
	(void)state;
	assert_string_equal(part_of(&irq, "name", NULL), "entry");
	assert_string_equal(part_of(&irq, "arg.name", NULL), "a \"b\" c.txt");
	assert_string_equal(part_of(&irq, "pid", NULL), "100");
	assert_string_equal(part_of(&irq, "arg.pid", NULL), "-7");
	assert_string_equal(part_of(&irq, "arg.vec", NULL), "RCU");
	assert_string_equal(part_of(&irq, "rwbs", NULL), "DS");
	assert_null(part_of(&irq, "arg.comm", NULL));
	assert_null(part_of(&irq, "arg.", NULL));
}

static void values_have_the_kernels_names(void **state)
{
	(void)state;
	assert_string_equal(part_of(&irq, "vec", NULL), "RCU");
	assert_string_equal(part_of(&call, "vec", NULL), "9");	/* calls have their own tables */
	assert_string_equal(part_of(&with_port, "vec", NULL), "9");
}

static void ports(void **state)
{
	(void)state;
	assert_string_equal(part_of(&call, "port", "127.0.0.1:5432"), "5432");
	assert_string_equal(part_of(&call, "port", "[::1]:443"), "443");
	assert_null(part_of(&call, "port", "/run/x.sock"));
	assert_null(part_of(&call, "port", NULL));
	assert_string_equal(part_of(&with_port, "port", "127.0.0.1:5432"), "80");
	assert_string_equal(part_of(&call, "addr", "127.0.0.1:5432"), "127.0.0.1:5432");
}

static void numbers_by_either_name(void **state)
{
	const uint64_t value[] = {0, 42, 9, 0, 80, 0};
	const struct ringtail_item event = {
		.kind = RINGTAIL_EVENT, .probe = &irq, .value = value, .thread = {.pid = 100},
	};
	uint64_t number;
	bool of_time;

	(void)state;
	assert_true(event_part_number(&event, "pid", &number));
	assert_int_equal(number, 100);
	assert_true(event_part_number(&event, "arg.pid", &number));
	assert_int_equal(number, 42);
	assert_true(event_part_value(&event, "arg.vec", &number, &of_time));
	assert_int_equal(number, 9);
	assert_false(event_part_value(&event, "arg.none", &number, &of_time));
}

static int setup(void **state)
{
	(void)state;
	check_out(&out);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(out.fd);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_that_are_called_as_something_else),
		cmocka_unit_test(values_have_the_kernels_names),
		cmocka_unit_test(ports),
		cmocka_unit_test(numbers_by_either_name),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
