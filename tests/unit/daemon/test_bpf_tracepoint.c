/* Tracepoints that are listed and made, and those that are not: the log names them. The test has its own instead of tracefs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/source/bpf_made.h"
#include "daemon/source/probe_pack.h"
#include "daemon/source/tracepoints.h"
#include "proto/limits.h"

#define ODD	50		/* of the many */

enum kind { GOOD, WIDE, STRANGE, GONE, LONG };

static enum kind kind[200];
static unsigned count, beyond, offered;
static int answer;			/* of tracefs, and of who takes what is made */
static char last[LOG_TEXT_BYTES];
static unsigned lines;

int __wrap_tracepoints_read(struct tracepoints **tracepoints);
void __wrap_tracepoints_destroy(struct tracepoints *tracepoints);
unsigned __wrap_tracepoints_count(const struct tracepoints *tracepoints);
unsigned __wrap_tracepoints_beyond(const struct tracepoints *tracepoints);
const char *__wrap_tracepoints_system(const struct tracepoints *tracepoints, unsigned i);
const char *__wrap_tracepoints_name(const struct tracepoints *tracepoints, unsigned i);
int __wrap_tracepoints_format(const struct tracepoints *tracepoints, unsigned i, char *text);

int __wrap_tracepoints_read(struct tracepoints **tracepoints)
{
	*tracepoints = NULL;
	return answer;
}

void __wrap_tracepoints_destroy(struct tracepoints *tracepoints)
{
	assert_null(tracepoints);
}

unsigned __wrap_tracepoints_count(const struct tracepoints *tracepoints)
{
	(void)tracepoints;
	return count;
}

unsigned __wrap_tracepoints_beyond(const struct tracepoints *tracepoints)
{
	(void)tracepoints;
	return beyond;
}

const char *__wrap_tracepoints_system(const struct tracepoints *tracepoints, unsigned i)
{
	(void)tracepoints, (void)i;
	return "test";
}

const char *__wrap_tracepoints_name(const struct tracepoints *tracepoints, unsigned i)
{
	static char name[16];

	(void)tracepoints;
	snprintf(name, sizeof(name), "event%u", i);
	return name;
}

int __wrap_tracepoints_format(const struct tracepoints *tracepoints, unsigned i, char *text)
{
	unsigned fields = kind[i] == WIDE ? PROBE_FIELDS_MAX + 1 : PROBE_FIELDS_MAX;
	int bytes;

	(void)tracepoints;
	if (kind[i] == GONE)
		return -EIO;
	if (kind[i] == LONG)
		return -EFBIG;
	if (kind[i] == STRANGE)
		return sprintf(text, "name: event%u\nID: %u\nformat:\n\tfield:what;\n", i, i + 1);
	bytes = sprintf(text, "name: event%u\nID: %u\nformat:\n", i, i + 1);
	for (unsigned f = 0; f < fields; f++)
		bytes += sprintf(text + bytes, "\tfield:int f%u;\toffset:%u;\tsize:4;\tsigned:1;\n", f, 8 + 4 * f);
	return bytes + sprintf(text + bytes, "\nprint fmt: \"%%s %%d\", "
			       "__print_symbolic(REC->f0, { 1, \"ONE\" }), REC->f1\n");
}

static void note(enum log_level level, const char *code, const char *text)
{
	assert_int_equal(level, LOG_LEVEL_WARNING);
	assert_string_equal(code, "tracepoints-left-out");
	snprintf(last, sizeof(last), "%s", text);
	lines++;
}

static uint64_t later(void)
{
	static uint64_t now_ns;

	return now_ns += LOG_WINDOW_NS;
}

/* As a start has it: read on a thread, and taken once. */
static int open_state(void **state)
{
	struct source_bpf_kit kit = {.reading = source_bpf_tracepoints_begin()};
	int err;

	assert_non_null(kit.reading);
	err = made_tracepoint.open(&kit, state);
	source_bpf_tracepoints_end(kit.reading);
	return err;
}

static void count_listed(const struct probe_pack *pack)
{
	Ringtail__V1__Catalog *catalog = ringtail__v1__catalog__unpack(NULL, pack->bytes, pack->at);

	assert_non_null(catalog);
	offered = (unsigned)catalog->n_probe;
	for (unsigned i = 0; i < offered; i++) {
		assert_string_equal(catalog->probe[i]->function, "test");
		assert_int_equal(catalog->probe[i]->id, 0);
		/* Of the format, the table. */
		if (*catalog->probe[i]->name)
			assert_string_equal(catalog->probe[i]->print,
					    ", REC->f0 ? __print_symbolic(REC->f0,{0x1,\"ONE\"})");
	}
	ringtail__v1__catalog__free_unpacked(catalog, NULL);
}

static int list(void)
{
	static const struct log_sink sink = {.write = note, .now_ns = later};
	struct probe_pack pack = {0};
	void *state;
	int err;

	offered = lines = 0;
	last[0] = '\0';
	log_set_sink(&sink);
	assert_int_equal(open_state(&state), 0);
	assert_int_equal(lines, 0);
	err = made_tracepoint.list(state, &pack);
	made_tracepoint.close(state);
	log_set_sink(NULL);
	if (!err)
		count_listed(&pack);
	probe_pack_free(&pack);
	return err;
}

static int begin(void **state)
{
	(void)state;
	memset(kind, 0, sizeof(kind));
	answer = 0;
	beyond = 0;
	return 0;
}

static void nothing_is_left_out(void **state)
{
	(void)state;
	count = 3;
	assert_int_equal(list(), 0);
	assert_int_equal(offered, 3);
	assert_int_equal(lines, 0);
}

static void each_is_named_with_its_reason(void **state)
{
	(void)state;
	count = 5;
	kind[1] = WIDE;
	kind[2] = STRANGE;
	kind[4] = GONE;
	assert_int_equal(list(), 0);
	assert_int_equal(offered, 2);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(last, "3 tracepoints that"));
	assert_non_null(strstr(last, ": test:event1 (it has too many fields), test:event2 (its format in tracefs is not"
				     " understood), test:event4 (its format"));
	kind[2] = kind[4] = GOOD;
	assert_int_equal(list(), 0);
	assert_non_null(strstr(last, "1 tracepoint that"));
}

static void what_is_too_long_or_beyond_all_is_told(void **state)
{
	(void)state;
	count = 2;
	kind[0] = LONG;
	assert_int_equal(list(), 0);
	assert_int_equal(offered, 1);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(last, "test:event0 (its format in tracefs is too long)"));
	beyond = 7;
	assert_int_equal(list(), 0);
	assert_int_equal(lines, 2);
	assert_non_null(strstr(last, "7 tracepoints more than the 8192 that"));
}

/* As many names as a message has room for, and how many more there are. */
static void of_many_the_first_are_named(void **state)
{
	unsigned named = 0, more = 0;

	(void)state;
	count = ODD + 2;
	for (unsigned i = 1; i <= ODD; i++)
		kind[i] = WIDE;
	assert_int_equal(list(), 0);
	assert_int_equal(offered, 2);
	assert_int_equal(lines, 1);
	for (const char *at = last; (at = strstr(at, "too many fields)")); at++)
		named++;
	assert_non_null(strstr(last, "), and "));
	assert_int_equal(sscanf(strstr(last, ", and "), ", and %u more", &more), 1);
	assert_in_range(named, 10, ODD - 1);
	assert_int_equal(named + more, ODD);
}

static void what_another_kind_listed_stays(void **state)
{
	struct probe_pack pack = {0};
	Ringtail__V1__Probe probe = RINGTAIL__V1__PROBE__INIT;
	void *kind_state;

	(void)state;
	probe.function = "test";
	assert_int_equal(probe_pack_add(&pack, &probe), 0);
	count = 2;
	assert_int_equal(open_state(&kind_state), 0);
	assert_int_equal(made_tracepoint.list(kind_state, &pack), 0);
	made_tracepoint.close(kind_state);
	count_listed(&pack);
	assert_int_equal(offered, 3);
	probe_pack_free(&pack);
}

static void without_memory_there_is_none(void **state)
{
	void *kind_state = NULL;

	(void)state;
	count = 3;
	answer = -ENOMEM;
	assert_int_equal(open_state(&kind_state), -ENOMEM);
	assert_null(kind_state);
}

/* The opening failed before anybody asked for them. */
static void what_nobody_takes_is_freed(void **state)
{
	(void)state;
	count = 3;
	source_bpf_tracepoints_end(source_bpf_tracepoints_begin());
	source_bpf_tracepoints_end(NULL);
}

/* ---- Asked for -------------------------------------------------------------------------------- */

static unsigned made;

static int add(struct made_sink *sink, Ringtail__V1__Probe *message, void *own)
{
	(void)sink;
	made++;
	free(own);
	ringtail__v1__probe__free_unpacked(message, NULL);
	return answer;
}

static bool has(struct made_sink *sink, const char *function, const char *name)
{
	(void)sink;
	assert_string_equal(function, "test");
	return !strcmp(name, "event3");
}

static int make(const char *name, struct error *error)
{
	const struct made_spec spec = {.text = "tracepoint:test:those", .function = "te*", .name = name};
	struct made_sink sink = {.add = add, .has = has};
	void *state;
	int err, taken = answer;

	made = 0;
	*error = (struct error){0};
	answer = 0;
	assert_int_equal(open_state(&state), 0);
	answer = taken;
	err = made_tracepoint.make(state, &spec, &sink, error);
	made_tracepoint.close(state);
	return err;
}

static void a_pattern_is_of_those_that_can_be_recorded(void **state)
{
	struct error error;

	(void)state;
	count = 5;
	kind[1] = WIDE;
	kind[4] = GONE;
	assert_int_equal(make("*", &error), 0);
	assert_int_equal(made, 2);
	/* One that is there already is enough. */
	assert_int_equal(make("event[34]", &error), 0);
	assert_int_equal(made, 0);
	answer = -ENOSPC;
	assert_int_equal(make("*", &error), -ENOSPC);
	assert_int_equal(made, 1);
}

static void one_that_cannot_be_recorded_is_refused_with_its_reason(void **state)
{
	struct error error;

	(void)state;
	count = 3;
	kind[1] = WIDE;
	assert_int_equal(make("event1", &error), -EINVAL);
	assert_int_equal(made, 0);
	assert_string_equal(error.code, "probe-not-made");
	assert_non_null(strstr(error.what, "tracepoint:test:event1 cannot be recorded: it has too many fields"));
}

static void what_is_there_in_no_form_is_unknown(void **state)
{
	struct error error;

	(void)state;
	count = 3;
	assert_int_equal(make("event9", &error), -ENOENT);
	assert_string_equal(error.code, "unknown-probe");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_pattern_is_of_those_that_can_be_recorded, begin),
		cmocka_unit_test_setup(one_that_cannot_be_recorded_is_refused_with_its_reason, begin),
		cmocka_unit_test_setup(what_is_there_in_no_form_is_unknown, begin),
		cmocka_unit_test_setup(nothing_is_left_out, begin),
		cmocka_unit_test_setup(each_is_named_with_its_reason, begin),
		cmocka_unit_test_setup(what_is_too_long_or_beyond_all_is_told, begin),
		cmocka_unit_test_setup(of_many_the_first_are_named, begin),
		cmocka_unit_test_setup(what_another_kind_listed_stays, begin),
		cmocka_unit_test_setup(without_memory_there_is_none, begin),
		cmocka_unit_test_setup(what_nobody_takes_is_freed, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
