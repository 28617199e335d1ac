/* probe_set: which probes a glob names, and what is said of one that names none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "query/probe_set.h"
#include "proto/limits.h"
#include "tests/unit/daemon/small_catalog.h"

#define GLOBS(...) ((char *const[]){ __VA_ARGS__ }), \
	sizeof((char *const[]){ __VA_ARGS__ }) / sizeof(char *)

/* A list of the probes that it names has the same ones as a set of them. */
static void assert_kept(const char *glob, const struct probe_set *want)
{
	Ringtail__V1__Catalog list = *small_catalog_get();
	Ringtail__V1__Probe *probe[64];
	struct probe_set kept = { 0 };

	assert_true(list.n_probe <= 64);
	memcpy(probe, list.probe, list.n_probe * sizeof(*probe));
	list.probe = probe;
	assert_int_equal(probe_set_keep_glob(&list, glob, NULL), 0);
	for (size_t i = 0; i < list.n_probe; i++)
		probe_set_add(&kept, list.probe[i]->id);
	assert_int_equal(list.n_probe, probe_set_count(&kept));
	assert_true(probe_set_equal(&kept, want));
}

static void assert_globs(char *const *glob, unsigned globs, const uint32_t *ids, unsigned count)
{
	struct probe_set set, want = { 0 };

	for (unsigned i = 0; i < count; i++)
		probe_set_add(&want, ids[i]);
	assert_int_equal(probe_set_from_globs(&set, glob, globs, small_catalog_get(), NULL), 0);
	if (!probe_set_equal(&set, &want))
		fail_msg("%s names %u probes", glob[0], probe_set_count(&set));
	if (globs == 1)
		assert_kept(glob[0], &want);
}

#define ASSERT_GLOB(glob, ...) \
	assert_globs(GLOBS((char *)glob), ((const uint32_t[]){ __VA_ARGS__ }), \
		     sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static void test_full(void **state)
{
	(void)state;
	ASSERT_GLOB("syscall:openat:call", SMALL_OPENAT);
	ASSERT_GLOB("syscall:openat:*", SMALL_OPENAT, SMALL_OPENAT_ENTRY, SMALL_OPENAT_RETURN);
	ASSERT_GLOB("syscall:[gk]*:call", SMALL_GETPPID, SMALL_KILL);
	ASSERT_GLOB("*:*:*switch", RT_PROBE_SCHED_SWITCH);
	ASSERT_GLOB("*:*:return", SMALL_OPENAT_RETURN);
}

static void test_parts_left_out(void **state)
{
	(void)state;
	ASSERT_GLOB("syscall:openat", SMALL_OPENAT);
	ASSERT_GLOB("syscall", SMALL_READ, SMALL_KILL, SMALL_GETPPID, SMALL_EXIT, SMALL_OPENAT);
	ASSERT_GLOB("tracepoint:sched", RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP);
	ASSERT_GLOB("tracepoint", RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP);
	ASSERT_GLOB("*", SMALL_READ, SMALL_KILL, SMALL_GETPPID, SMALL_EXIT, SMALL_OPENAT,
		    RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP);
}

static void test_parts_left_out_at_the_beginning(void **state)
{
	(void)state;
	ASSERT_GLOB("openat", SMALL_OPENAT);
	ASSERT_GLOB("openat:entry", SMALL_OPENAT_ENTRY);
	ASSERT_GLOB("[gk]*", SMALL_GETPPID, SMALL_KILL);
	ASSERT_GLOB("sched", RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP);
	ASSERT_GLOB("sched:sched_switch", RT_PROBE_SCHED_SWITCH);
	ASSERT_GLOB("sched_*", RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP);
	/* A provider's name is that first, whatever else is called so. */
	ASSERT_GLOB("s*", SMALL_READ, SMALL_KILL, SMALL_GETPPID, SMALL_EXIT, SMALL_OPENAT);
}

static void test_many(void **state)
{
	static const uint32_t both[] = { SMALL_READ, SMALL_KILL };

	(void)state;
	assert_globs(GLOBS((char *)"syscall:read", (char *)"syscall:kill"), both, 2);
	assert_globs(NULL, 0, NULL, 0);
}

/* What was asked for before is not asked for any more. */
static void test_a_set_is_made_anew(void **state)
{
	struct probe_set set;

	(void)state;
	memset(&set, 0xff, sizeof(set));
	assert_int_equal(probe_set_from_globs(&set, GLOBS((char *)"syscall:read"),
					      small_catalog_get(), NULL), 0);
	assert_int_equal(probe_set_count(&set), 1);
	assert_true(probe_set_test(&set, SMALL_READ));
}

/* Catalogs come from elsewhere: an id that no set has a bit for is in none, and writes nowhere. */
static void test_a_probe_beyond_the_last_is_in_no_set(void **state)
{
	Ringtail__V1__Probe beyond = *small_catalog_get()->probe[0], *probes[] = { &beyond };
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	struct {
		struct probe_set set;
		uint8_t behind[64];
	} place = { 0 };

	(void)state;
	catalog.n_probe = 1;
	catalog.probe = probes;
	beyond.id = RT_PROBE_MAX;
	assert_int_equal(probe_set_add_glob(&place.set, "syscall:read", &catalog, NULL), -ENOENT);
	for (size_t i = 0; i < sizeof(place.behind); i++)
		assert_int_equal(place.behind[i], 0);
	beyond.id = RT_PROBE_MAX - 1;
	assert_int_equal(probe_set_add_glob(&place.set, "syscall:read", &catalog, NULL), 0);
	assert_int_equal(probe_set_count(&place.set), 1);
}

#define PROGRAMS_OWN	RT_PROBE_PROGRAM

/* The small catalog, and one probe that a program has brought. */
static void assert_beside_program(const char *provider, const char *function, const char *glob,
				  const uint32_t *ids, unsigned count)
{
	Ringtail__V1__Catalog catalog = *small_catalog_get(), list = catalog;
	Ringtail__V1__Probe *probe[16], *kept[16], own;
	struct probe_set set = { 0 }, want = { 0 };

	ringtail__v1__probe__init(&own);
	own.id = PROGRAMS_OWN;
	own.provider = (char *)provider;
	own.function = (char *)function;
	own.name = (char *)"event";
	assert_true(catalog.n_probe < 16);
	memcpy(probe, catalog.probe, catalog.n_probe * sizeof(*probe));
	probe[catalog.n_probe++] = &own;
	memcpy(kept, probe, sizeof(kept));
	catalog.probe = probe;
	list.probe = kept;
	list.n_probe = catalog.n_probe;
	for (unsigned i = 0; i < count; i++)
		probe_set_add(&want, ids[i]);
	assert_int_equal(probe_set_add_glob(&set, glob, &catalog, NULL), 0);
	if (!probe_set_equal(&set, &want))
		fail_msg("%s beside %s:%s names %u probes", glob, provider, function, probe_set_count(&set));
	assert_int_equal(probe_set_keep_glob(&list, glob, NULL), 0);
	assert_int_equal(list.n_probe, count);
}

#define ASSERT_BESIDE(provider, function, glob, ...) \
	assert_beside_program(provider, function, glob, ((const uint32_t[]){ __VA_ARGS__ }), \
			      sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

/* Whatever a program calls itself, nobody's glob loses the kernel's probes to it. */
static void test_a_program_hides_nothing_by_its_names(void **state)
{
	(void)state;
	ASSERT_BESIDE("openat", "call", "openat", SMALL_OPENAT);
	ASSERT_BESIDE("app", "openat", "openat", SMALL_OPENAT);
	ASSERT_BESIDE("openat", "entry", "openat:entry", SMALL_OPENAT_ENTRY);
	ASSERT_BESIDE("sched", "sched_switch", "sched:sched_switch", RT_PROBE_SCHED_SWITCH);
	ASSERT_BESIDE("sched_switch", "x", "sched_switch", RT_PROBE_SCHED_SWITCH);
	ASSERT_BESIDE("opens", "x", "open*", SMALL_OPENAT);
	ASSERT_BESIDE("tracepoint", "sched", "tracepoint:sched", RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP,
		      PROGRAMS_OWN);	/* the daemon refuses that provider */
	/* Its own are found by their names, where those mean nothing else. */
	ASSERT_BESIDE("app", "done", "app", PROGRAMS_OWN);
	ASSERT_BESIDE("app", "done", "done", PROGRAMS_OWN);
	ASSERT_BESIDE("app", "done", "app:*", PROGRAMS_OWN);
	ASSERT_BESIDE("openat", "call", "openat:*:event", PROGRAMS_OWN);
	ASSERT_BESIDE("app", "done", "*:*:[er]*", SMALL_OPENAT_ENTRY, SMALL_OPENAT_RETURN, PROGRAMS_OWN);
}

static void test_bad(void **state)
{
	static const struct {
		const char *glob;
		int err;
		const char *code, *what, *hint;
	} bad[] = {
		{ "syscall:opnat", -ENOENT, "unknown-probe", "no probe matches `syscall:opnat`",
		  "did you mean `syscall:openat`" },
		{ "syscal:getppid:call", -ENOENT, "unknown-probe",
		  "no probe matches `syscal:getppid:call`", "did you mean `syscall:getppid:call`" },
		{ "opennat", -ENOENT, "unknown-probe", "no probe matches `opennat`",
		  "did you mean `syscall:openat:call`" },
		{ "syscal", -ENOENT, "unknown-probe", "no probe matches `syscal`",
		  "did you mean `syscall`" },
		{ "tracepoint:sched:switch", -ENOENT, "unknown-probe",
		  "no probe matches `tracepoint:sched:switch`",
		  "did you mean `tracepoint:sched:sched_switch`" },
		{ "call", -ENOENT, "unknown-probe", "no probe matches `call`", NULL },
		{ "zebra:*", -ENOENT, "unknown-probe", "no probe matches `zebra:*`",
		  "`tracectl list` shows every probe" },
		{ "", -EINVAL, "probe-bad-spec", "`` has an empty part",
		  "a probe is provider:function:name, as in syscall:openat:call or"
		  " tracepoint:sched:*" },
		{ "syscall::call", -EINVAL, "probe-bad-spec", "`syscall::call` has an empty part",
		  NULL },
		{ "syscall:", -EINVAL, "probe-bad-spec", "`syscall:` has an empty part", NULL },
		{ "a:b:c:d", -EINVAL, "probe-bad-spec", "`a:b:c:d` has more than three parts",
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct probe_set set = { { 1 } }, before = set;
		struct error error;

		assert_int_equal(probe_set_add_glob(&set, bad[i].glob, small_catalog_get(), &error),
				 bad[i].err);
		assert_string_equal(error.code, bad[i].code);
		assert_string_equal(error.what, bad[i].what);
		if (bad[i].hint)	/* its start: less near names may follow */
			assert_memory_equal(error.hint, bad[i].hint, strlen(bad[i].hint));
		assert_true(probe_set_equal(&set, &before));
	}
}

static void test_long_glob(void **state)
{
	char glob[NAME_BYTES_MAX + 2];
	struct probe_set set = { 0 };
	struct error error;

	(void)state;
	memset(glob, '*', sizeof(glob) - 1);
	glob[sizeof(glob) - 1] = '\0';
	assert_int_equal(probe_set_add_glob(&set, glob, small_catalog_get(), &error), -EINVAL);
	assert_string_equal(error.code, "probe-bad-spec");
	glob[NAME_BYTES_MAX] = '\0';
	assert_int_equal(probe_set_add_glob(&set, glob, small_catalog_get(), &error), 0);
}

static void test_algebra(void **state)
{
	struct probe_set a = { 0 }, b = { 0 };

	(void)state;
	assert_int_equal(probe_set_count(&a), 0);
	probe_set_add(&a, 0);
	probe_set_add(&a, RT_PROBE_MAX - 1);
	probe_set_add(&b, 77);
	assert_false(probe_set_equal(&a, &b));
	probe_set_union(&b, &a);
	assert_int_equal(probe_set_count(&b), 3);
	assert_true(probe_set_test(&b, 0) && probe_set_test(&b, 77));
	assert_true(probe_set_test(&b, RT_PROBE_MAX - 1));
	assert_false(probe_set_test(&b, 78));
	assert_false(probe_set_test(&b, RT_PROBE_MAX));
	assert_false(probe_set_test(&b, UINT32_MAX));
	probe_set_add(&a, 77);
	assert_true(probe_set_equal(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_parts_left_out),
		cmocka_unit_test(test_parts_left_out_at_the_beginning),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_a_set_is_made_anew),
		cmocka_unit_test(test_a_probe_beyond_the_last_is_in_no_set),
		cmocka_unit_test(test_a_program_hides_nothing_by_its_names),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_long_glob),
		cmocka_unit_test(test_algebra),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
