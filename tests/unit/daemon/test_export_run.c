/*
 * Which run of the rings, of which host, events are told to be of: this one, an earlier one of this boot, or
 * of another; what is known of its probes; and how long it is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "daemon/base/clock.h"
#include "daemon/export/run.h"
#include "tests/lib/failing_memory.h"

static const uint8_t here_id[16] = "0123456789abcde";
static uint8_t other_id[16] = "another boot id";

/* A probe of so many fields, the first of that type. */
static Ringtail__V1__Probe *make_probe(uint32_t id, unsigned fields, Ringtail__V1__FieldType type)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));

	ringtail__v1__probe__init(probe);
	probe->id = id;
	probe->n_field = fields;
	probe->field = calloc(fields + 1, sizeof(probe->field[0]));
	for (unsigned i = 0; i < fields; i++) {
		probe->field[i] = malloc(sizeof(*probe->field[i]));
		ringtail__v1__field__init(probe->field[i]);
		probe->field[i]->type = i ? RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED : type;
	}
	return probe;
}

#define DURATION	RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION
#define UNSIGNED	RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED

static Ringtail__V1__Catalog *make_catalog(void)
{
	Ringtail__V1__Catalog *catalog = malloc(sizeof(*catalog));

	ringtail__v1__catalog__init(catalog);
	catalog->n_probe = 6;
	catalog->probe = calloc(6, sizeof(catalog->probe[0]));
	catalog->probe[0] = make_probe(0, 2, DURATION);
	catalog->probe[1] = make_probe(RT_PROBE_MAX - 1, PROBE_FIELDS_MAX, UNSIGNED);
	catalog->probe[2] = make_probe(RT_PROBE_MAX, 1, UNSIGNED);
	catalog->probe[3] = make_probe(7, PROBE_FIELDS_MAX + 1, UNSIGNED);
	catalog->probe[4] = make_probe(8, 0, UNSIGNED);
	catalog->probe[5] = make_probe(9, 1, UNSIGNED);
	return catalog;
}

static void check_probes(const struct export_run *run)
{
	unsigned known = 0;

	assert_true(run->described);
	for (unsigned i = 0; i < RT_PROBE_MAX; i++) {
		known += run->probe[i] != NULL;
		assert_int_equal(run->shape[i].known, run->probe[i] != NULL);
	}
	assert_int_equal(known, 4);
	assert_true(run->shape[0].has_duration && run->shape[0].fields == 2 && run->probe[0]->id == 0);
	assert_true(!run->shape[RT_PROBE_MAX - 1].has_duration && run->shape[RT_PROBE_MAX - 1].fields == PROBE_FIELDS_MAX);
	assert_true(run->shape[8].known && !run->shape[8].has_duration && !run->shape[8].fields);
	assert_true(run->shape[9].known && !run->shape[9].has_duration && run->shape[9].fields == 1);
}

static struct export_host *make_host(const Ringtail__V1__Catalog *catalog)
{
	const struct config config = {.slow_call_ns = 5, .export_trace = {.word = {(char *)"a", (char *)"b"}, .count = 2},
				      .export_probe = {.count = 1}};
	struct export_host *host = export_host_create(catalog, here_id, 7, &config);

	assert_non_null(host);
	return host;
}

static Ringtail__V1__ServerHello make_hello(uint8_t *boot_id, uint64_t epoch, const char *name)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.boot_id.data = boot_id;
	hello.boot_id.len = 16;
	hello.epoch = epoch;
	hello.hostname = (char *)name;
	hello.kernel = (char *)"5.10";
	hello.machine = (char *)"aarch64";
	hello.monotonic_ns = 100;
	hello.realtime_ns = 1100;
	return hello;
}

static void this_run_is_of_this_host(void **state)
{
	Ringtail__V1__Catalog *catalog = make_catalog();
	struct export_host *host = make_host(catalog);
	struct utsname system;

	(void)state;
	uname(&system);
	assert_string_equal(host->run->name, system.nodename);
	assert_string_equal(host->run->kernel, system.release);
	assert_string_equal(host->run->machine, system.machine);
	assert_string_equal(host->run->host_id, machine_id());
	assert_string_equal(host->run->boot_text, "30313233-3435-3637-3839-616263646500");
	assert_memory_equal(host->run->boot_id, here_id, 16);
	assert_int_equal(host->run->epoch, 7);
	assert_true(host->run->this_boot);
	assert_int_equal(host->run->references, 1);
	check_probes(host->run);
	assert_int_equal(host->slow_ns, 5);
	assert_true(host->everything);
	assert_int_equal(host->tree.count, 2);
	assert_string_equal(host->tree.word[0], "a");
	assert_string_equal(host->tree.word[1], "b");
	export_host_destroy(host);
	ringtail__v1__catalog__free_unpacked(catalog, NULL);
}

static void a_hello_names_its_run(void **state)
{
	Ringtail__V1__Catalog *catalog = make_catalog();
	struct export_host *host = make_host(catalog);
	struct export_run *here = host->run, *run;
	Ringtail__V1__ServerHello hello = make_hello((uint8_t *)here_id, 7, "other");

	(void)state;
	strcpy(here->name, "box");
	strcpy(here->host_id, "8d7f");
	run = export_run_of_hello(here, &hello);
	assert_ptr_equal(run, here);
	assert_int_equal(here->references, 2);
	export_run_put(run);
	/* Of this boot: its clock is what it is now. */
	hello = make_hello((uint8_t *)here_id, 6, "box");
	run = export_run_of_hello(here, &hello);
	assert_ptr_not_equal(run, here);
	assert_true(run->this_boot && run->epoch == 6 && !run->described);
	assert_string_equal(run->name, "box");
	assert_string_equal(run->kernel, "5.10");
	assert_string_equal(run->machine, "aarch64");
	assert_string_equal(run->host_id, "8d7f");
	assert_int_not_equal(export_run_to_realtime(run), 1000);
	export_run_put(run);
	/* Of another: as it said; and another host is not this one. */
	hello = make_hello(other_id, 7, "other");
	run = export_run_of_hello(here, &hello);
	assert_false(run->this_boot);
	assert_string_equal(run->host_id, "");
	assert_memory_equal(run->boot_id, other_id, 16);
	assert_int_equal(export_run_to_realtime(run), 1000);
	export_run_put(run);
	hello.boot_id.len = 15;
	assert_null(export_run_of_hello(here, &hello));
	hello.boot_id.len = 16;
	failures_left = 1;
	assert_null(export_run_of_hello(here, &hello));
	failures_left = 0;
	assert_int_equal(here->references, 1);
	export_host_destroy(host);
	ringtail__v1__catalog__free_unpacked(catalog, NULL);
}

static void only_the_first_catalog_counts(void **state)
{
	Ringtail__V1__Catalog *catalog = make_catalog(), *next;
	struct export_host *host = make_host(catalog);
	Ringtail__V1__ServerHello hello = make_hello(other_id, 7, "other");
	struct export_run *run = export_run_of_hello(host->run, &hello);

	(void)state;
	export_run_take_catalog(host->run, make_catalog());	/* this run has its own */
	assert_ptr_equal(host->run->probe[0], catalog->probe[0]);
	assert_null(host->run->catalog);
	next = make_catalog();
	export_run_take_catalog(run, next);
	assert_ptr_equal(run->probe[0], next->probe[0]);
	check_probes(run);
	export_run_take_catalog(run, make_catalog());
	assert_ptr_equal(run->catalog, next);
	/* As long as anybody has it. */
	assert_ptr_equal(export_run_get(run), run);
	export_run_put(run);
	check_probes(run);
	export_run_put(run);
	export_run_put(NULL);
	export_host_destroy(host);
	export_host_destroy(NULL);
	ringtail__v1__catalog__free_unpacked(catalog, NULL);
}

static void no_memory_for_a_host(void **state)
{
	Ringtail__V1__Catalog *catalog = make_catalog();
	const struct config config = {.export_trace = {.word = {(char *)"a", (char *)"b"}, .count = 2}};

	(void)state;
	for (unsigned n = 0; n < 4; n++) {
		allocations_left = n;
		failures_left = 1;
		assert_null(export_host_create(catalog, here_id, 7, &config));
	}
	allocations_left = 0;
	ringtail__v1__catalog__free_unpacked(catalog, NULL);
}

/* ---- Threads' programs and cgroups ----------------------------------------------------------- */

static struct export_context *context_of(struct export_contexts *contexts, const char *exe, const char *cgroup)
{
	struct batch_text exe_text = {.data = exe, .bytes = exe ? (uint32_t)strlen(exe) : 0};
	struct batch_text cgroup_text = {.data = cgroup, .bytes = cgroup ? (uint32_t)strlen(cgroup) : 0};
	const struct batch_thread thread = {.exe = exe ? &exe_text : NULL, .cgroup = cgroup ? &cgroup_text : NULL};

	return export_context_of(contexts, &thread);
}

static void an_executable_has_a_name_and_perhaps_a_path(void **state)
{
	static const struct {
		const char *exe, *name, *path;
	} row[] = {
		{"/usr/bin/cat", "cat", "/usr/bin/cat"}, {"cat", "cat", NULL}, {".../far/cat", "cat", NULL},
		{"/memfd:x (deleted)", "memfd:x (deleted)", "/memfd:x (deleted)"}, {"/a\xff", "a?", "/a?"},
	};
	struct export_contexts contexts = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct export_context *context = context_of(&contexts, row[i].exe, NULL);

		assert_string_equal(context->exe, row[i].name);
		if (row[i].path)
			assert_string_equal(context->exe_path, row[i].path);
		else
			assert_null(context->exe_path);
		assert_null(context->cgroup);
		export_context_put(context);
	}
	export_contexts_fini(&contexts);
}

/* Texts whose last bytes are the same meet in one place; they are not the same for that. */
static void contexts_that_meet_are_told_apart(void **state)
{
	static const char *const text[][2] = {
		{"/a/far/12345678", "/x/0123456789abcdef"}, {"/b/far/12345678", "/x/0123456789abcdef"},
		{"/a/far/12345678", "/y/0123456789abcdef"}, {"/a/far/12345678", NULL}, {NULL, "/x/0123456789abcdef"},
		{NULL, "/y/0123456789abcdef"}, {"/b/far/12345678", NULL},
	};
	struct export_contexts contexts = {0};

	(void)state;
	for (unsigned round = 0; round < 3; round++)
		for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
			struct export_context *context = context_of(&contexts, text[i][0], text[i][1]);

			if (text[i][0])
				assert_string_equal(context->exe_path, text[i][0]);
			else
				assert_null(context->exe);
			if (text[i][1])
				assert_string_equal(context->cgroup, text[i][1]);
			else
				assert_null(context->cgroup);
			export_context_put(context);
		}
	export_contexts_fini(&contexts);
}

/* The newest of a place is kept, and shared; who has an older one keeps it. */
static void contexts_are_shared_and_counted(void **state)
{
	struct export_contexts contexts = {0};
	struct export_context *first = context_of(&contexts, "/bin/a", "/x"), *again, *other;

	(void)state;
	assert_int_equal(first->references, 2);
	again = context_of(&contexts, "/bin/a", "/x");
	assert_ptr_equal(again, first);
	assert_int_equal(first->references, 3);
	export_context_put(again);
	assert_int_equal(first->references, 2);
	for (unsigned i = 0; first->references == 2; i++) {
		char path[32];

		assert_true(i < 100 * EXPORT_CONTEXTS_KEPT);
		snprintf(path, sizeof(path), "/bin/%u", i);
		other = context_of(&contexts, path, "/x");
		assert_string_equal(other->exe_path, path);
		export_context_put(other);
	}
	assert_string_equal(first->exe_path, "/bin/a");
	again = context_of(&contexts, "/bin/a", "/x");
	assert_ptr_not_equal(again, first);
	export_context_put(first);
	export_context_put(again);
	export_context_put(NULL);
	failures_left = 1;
	assert_null(context_of(&contexts, "/bin/other/one", "/x"));
	failures_left = 0;
	other = context_of(&contexts, "/bin/other/one", "/x");
	assert_string_equal(other->exe, "one");
	export_context_put(other);
	assert_null(context_of(&contexts, NULL, NULL));
	export_contexts_fini(&contexts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(this_run_is_of_this_host),
		cmocka_unit_test(a_hello_names_its_run),
		cmocka_unit_test(only_the_first_catalog_counts),
		cmocka_unit_test(no_memory_for_a_host),
		cmocka_unit_test(an_executable_has_a_name_and_perhaps_a_path),
		cmocka_unit_test(contexts_that_meet_are_told_apart),
		cmocka_unit_test(contexts_are_shared_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
