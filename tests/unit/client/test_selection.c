/* test_selection: which events of a file are wanted, catalog by catalog, and what is said where none has it. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/selection.h"
#include "tests/lib/failing_memory.h"

#define READ	0x1001
#define WRITE	0x1002
#define OTHER	0x0200

static Ringtail__V1__Field length, name;
static Ringtail__V1__Field *fields[] = {&length, &name};
static Ringtail__V1__Probe reading, writing, other;

static struct ringtail_error error;
static struct selection *selection;
static const struct batch_thread thread = {.tid = 5, .pid = 5, .comm = "five"};

static void set_probe(Ringtail__V1__Probe *probe, uint32_t id, const char *provider, const char *function,
		      const char *what)
{
	ringtail__v1__probe__init(probe);
	probe->id = id;
	probe->provider = (char *)provider;
	probe->function = (char *)function;
	probe->name = (char *)what;
	probe->field = fields;
	probe->n_field = 2;
}

static int setup(void **state)
{
	(void)state;
	ringtail__v1__field__init(&length);
	length.name = (char *)"length";
	length.bits = 64;
	ringtail__v1__field__init(&name);
	name.name = (char *)"path";
	name.type = RINGTAIL__V1__FIELD_TYPE__FIELD_STRING;
	name.bits = 64;
	set_probe(&reading, READ, "tracepoint", "disk", "disk_read");
	set_probe(&writing, WRITE, "tracepoint", "disk", "disk_write");
	set_probe(&other, OTHER, "tracepoint", "net", "net_send");
	memset(&error, 0, sizeof(error));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	selection_destroy(selection);
	selection = NULL;
	return 0;
}

static void select_these(const char *glob, const char *filter)
{
	if (selection_create(&glob, glob != NULL, filter, &selection, &error))
		fail_msg("%s", error.what);
}

/* Of a catalog with these two probes. */
static struct selection_test *test_of(Ringtail__V1__Probe *first, Ringtail__V1__Probe *second)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe *list[] = {first, second};
	struct selection_test *test;

	catalog.probe = list;
	catalog.n_probe = 2;
	test = selection_test_create(selection, &catalog);
	assert_non_null(test);
	return test;
}

static bool passes(const struct selection_test *test, uint16_t probe, uint32_t cpu, uint64_t bytes,
		   const char *path, bool *undecided)
{
	const uint64_t words[] = {bytes, 0x7000};
	const struct batch_attachment attached = {
		.kind = RINGTAIL_ATTACHED_STRING, .arg = 1, .text = (const uint8_t *)path,
		.text_bytes = path ? strlen(path) : 0,
	};
	const struct batch_item item = {
		.kind = BATCH_EVENT, .thread = &thread, .attachment = &attached, .attachments = path != NULL,
		.event = {.probe = probe, .fields = 2, .field = words},
	};

	return selection_test_pass(test, cpu, &item, undecided);
}

static bool wants(const struct selection_test *test, uint16_t probe, uint32_t cpu, uint64_t bytes)
{
	bool undecided = true, pass = passes(test, probe, cpu, bytes, "/a", &undecided);

	assert_false(undecided);
	return pass;
}

/* ---- Tests ----------------------------------------------------------------------------------------- */

static void events_of_the_probes_that_the_filter_passes(void **state)
{
	struct selection_test *test;

	(void)state;
	select_these("tracepoint:disk:*", "length > 10 && cpu == 2");
	test = test_of(&reading, &other);
	assert_true(wants(test, READ, 2, 11));
	assert_false(wants(test, READ, 2, 10));
	assert_false(wants(test, READ, 1, 11));
	assert_false(wants(test, OTHER, 2, 11));
	assert_false(wants(test, WRITE, 2, 11));
	selection_test_destroy(test);
	assert_null(selection_refusal(selection));
}

static void without_globs_every_probe(void **state)
{
	struct selection_test *test;

	(void)state;
	select_these(NULL, "pid == 5 && length > 10");
	test = test_of(&reading, &other);
	assert_true(wants(test, READ, 0, 11));
	assert_true(wants(test, OTHER, 0, 11));
	assert_false(wants(test, OTHER, 0, 10));
	selection_test_destroy(test);
}

static void without_a_filter_every_event(void **state)
{
	static const char *const globs[] = {"disk_read", "net_send"};
	struct selection_test *test;

	(void)state;
	assert_int_equal(selection_create(globs, 2, NULL, &selection, &error), 0);
	test = test_of(&reading, &other);
	assert_true(wants(test, READ, 0, 0));
	assert_true(wants(test, OTHER, 0, 0));
	assert_false(wants(test, WRITE, 0, 0));
	selection_test_destroy(test);
}

/* A text that was not recorded might have been the one: the event passes, and that is said. */
static void event_whose_text_is_missing_is_undecided(void **state)
{
	struct selection_test *test;
	bool undecided;

	(void)state;
	select_these("tracepoint:disk:*", "path == \"/a\"");
	test = test_of(&reading, &other);
	assert_true(passes(test, READ, 0, 0, "/a", &undecided));
	assert_false(undecided);
	assert_false(passes(test, READ, 0, 0, "/b", &undecided));
	assert_false(undecided);
	assert_true(passes(test, READ, 0, 0, NULL, &undecided));
	assert_true(undecided);
	assert_false(passes(test, OTHER, 0, 0, NULL, &undecided));	/* nobody asked for it at all */
	assert_false(undecided);
	selection_test_destroy(test);
}

static void texts_that_no_catalog_can_have(void **state)
{
	static const char *const globs[] = {"disk_read", "a:b:c:d", "disk_write"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(selection_create(globs + i, 2, NULL, &selection, &error), -EINVAL);
		assert_non_null(strstr(error.what, "a:b:c:d"));
	}
	assert_int_equal(selection_create(globs, 1, "length >", &selection, &error), -EINVAL);
	assert_true(error.column > 0);
	assert_null(selection);
	assert_int_equal(selection_create(globs, 1, "length > 10", &selection, NULL), 0);
}

/* The first refusal is the one that is shown; and none, if any catalog had it all. */
static void refused_by_every_catalog(void **state)
{
	const struct ringtail_error *refusal;

	(void)state;
	assert_null(selection_refusal(NULL));
	select_these("tracepoint:disk:disk_write", "length > 10");
	assert_null(selection_refusal(selection));		/* there was no catalog yet */
	for (unsigned i = 0; i < 2; i++) {
		struct selection_test *test = test_of(&reading, i ? &reading : &other);

		assert_false(wants(test, READ, 0, 11));
		assert_false(wants(test, WRITE, 0, 11));
		selection_test_destroy(test);
		refusal = selection_refusal(selection);
		assert_non_null(refusal);
		assert_non_null(strstr(refusal->what, "disk_write"));
	}
	length.name = (char *)"size";			/* a later catalog lacks another thing */
	selection_test_destroy(test_of(&writing, &other));
	assert_non_null(strstr(selection_refusal(selection)->what, "disk_write"));
	length.name = (char *)"length";
	selection_test_destroy(test_of(&writing, &other));
	assert_null(selection_refusal(selection));
	selection_test_destroy(test_of(&reading, &other));
	assert_null(selection_refusal(selection));
}

/* Of a recording, `tracectl list` would tell nothing. */
static void refused_with_what_to_do(void **state)
{
	(void)state;
	select_these("usdt:program:mark", NULL);
	selection_test_destroy(test_of(&reading, &other));
	assert_string_equal(selection_refusal(selection)->hint,
			    "`tracectl count --by probe FILE` shows those that the recording has");
}

/* The daemon's words for a field that is none: with its column. */
static void refused_for_a_field(void **state)
{
	struct selection_test *test;

	(void)state;
	select_these(NULL, "pid == 5 && size > 10");
	test = test_of(&reading, &other);
	assert_false(wants(test, READ, 0, 11));
	selection_test_destroy(test);
	assert_non_null(strstr(selection_refusal(selection)->what, "size"));
	assert_int_equal(selection_refusal(selection)->column, 13);
}

static void out_of_memory(void **state)
{
	static const char *const globs[] = {"disk_read", "disk_write"};
	Ringtail__V1__Probe *list[] = {&reading, &writing};
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	struct selection_test *test;
	unsigned allocations = 0;
	int err;

	(void)state;
	do {
		memset(&error, 0, sizeof(error));
		memory_fails_after(allocations);
		err = selection_create(globs, 2, "length > 10", &selection, &error);
		memory_suffices();
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_true(error.what[0] != '\0');
			assert_null(selection);
		}
	} while (err && ++allocations < 50);
	assert_true(allocations >= 5 && allocations < 50);
	catalog.probe = list;
	catalog.n_probe = 2;
	allocations = 0;
	do {
		memory_fails_after(allocations);
		test = selection_test_create(selection, &catalog);
		memory_suffices();
		assert_null(selection_refusal(selection));	/* that is no fault of the texts */
	} while (!test && ++allocations < 50);
	assert_true(allocations >= 2 && allocations < 50);
	selection_test_destroy(test);
	selection_test_destroy(NULL);
	selection_destroy(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(events_of_the_probes_that_the_filter_passes),
		TEST(without_globs_every_probe),
		TEST(without_a_filter_every_event),
		TEST(event_whose_text_is_missing_is_undecided),
		TEST(texts_that_no_catalog_can_have),
		TEST(refused_by_every_catalog),
		TEST(refused_for_a_field), TEST(refused_with_what_to_do),
		TEST(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
