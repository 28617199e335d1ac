/*
 * What the programs are told to read of a call's arguments: bytes that processes read and write only where the
 * catalog says that they are such, for by that alone it is known that they are asked for as data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/ring/probe_table.h"
#include "daemon/source/syscall_catalog.h"

#define CALL	(RT_PROBE_SYSCALL_CALL + 7)
#define ARGS	3u

/* Duration, result, and arguments of these types. */
static struct call {
	Ringtail__V1__Catalog catalog;
	Ringtail__V1__Probe probe, *probes[1];
	Ringtail__V1__Field field[2 + ARGS], *fields[2 + ARGS];
} call;

static void make_call(const char *name, const char *c_type)
{
	memset(&call, 0, sizeof(call));
	ringtail__v1__catalog__init(&call.catalog);
	ringtail__v1__probe__init(&call.probe);
	call.probes[0] = &call.probe;
	call.catalog.probe = call.probes;
	call.catalog.n_probe = 1;
	call.probe.id = CALL;
	call.probe.provider = (char *)"syscall";
	call.probe.function = (char *)name;
	call.probe.name = (char *)"call";
	call.probe.field = call.fields;
	call.probe.n_field = 2 + ARGS;
	for (unsigned i = 0; i < 2 + ARGS; i++) {
		ringtail__v1__field__init(&call.field[i]);
		call.fields[i] = &call.field[i];
		call.field[i].name = (char *)"arg";
		call.field[i].c_type = (char *)(i < 2 ? "u64" : c_type);
		call.field[i].type = RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
		call.field[i].bits = 64;
	}
	call.field[0].type = RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION;
	call.field[1].type = RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT;
}

static const struct {
	const char *name, *c_type;
	unsigned arg;
} bytes[] = {
	{"read", "char *", 1}, {"write", "const char *", 1}, {"sendto", "void *", 1}, {"getcwd", "char *", 0},
	{"getdents64", "struct linux_dirent64 *", 1}, {"readv", "const struct iovec *", 1},
	{"sendmsg", "struct user_msghdr *", 1}, {"vmsplice", "const struct iovec *", 1},
};

static void bytes_of_processes_are_read_where_they_are_known_as_such(void **state)
{
	static uint32_t looks[RT_SYSCALLS_MAX], sizes[RT_STRUCTURE_KINDS];
	static uint64_t structures[RT_SYSCALLS_MAX];
	static struct probe_table table;
	struct error error;

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		make_call(bytes[i].name, bytes[i].c_type);
		syscall_catalog_looks(&call.catalog, looks);
		syscall_catalog_structures(&call.catalog, structures, sizes);
		assert_true(looks[7] || structures[7]);
		assert_int_equal(probe_table_init(&table, &call.catalog, &error), 0);
		assert_int_equal(probe_text_flag(&table.probe[CALL], bytes[i].arg + 2), RT_FLAG_DATA);
		/* Without tracefs. */
		make_call(bytes[i].name, "unsigned long");
		syscall_catalog_looks(&call.catalog, looks);
		syscall_catalog_structures(&call.catalog, structures, sizes);
		assert_false(looks[7] || structures[7]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_of_processes_are_read_where_they_are_known_as_such),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
