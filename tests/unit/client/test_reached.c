/* Hosts of a relay that --host names: which there are, a connection to each, and what is said of the others. */
#include "tests/unit/client/check.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include "client/cli/fleet_ask.h"
#include "client/cli/hosts.h"
#include "client/cli/reached.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/reach.h"
#include "tests/lib/failing_memory.h"

#define HOSTS_MAX	(REACHED_HOSTS_MAX + 44)
#define PLACES_MAX	64u	/* of allocations */

/* ---- A relay --------------------------------------------------------------------------------------- */

static Ringtail__V1__HostStat stat[HOSTS_MAX];
static size_t hosts;
static struct ringtail_host host[HOSTS_MAX];	/* what each connection is made to */
static bool relay_is_away;
static const char *refuses;			/* those whose names begin so */
static atomic_uint opened, at_once, at_once_max;
static unsigned closed;

static void add(const char *name, bool connected)
{
	static char names[HOSTS_MAX][32];

	snprintf(names[hosts], sizeof(names[hosts]), "%s", name);
	ringtail__v1__host_stat__init(&stat[hosts]);
	stat[hosts].name = names[hosts];
	stat[hosts].connected = connected;
	hosts++;
}

int __wrap_request_open(const char *address, int interrupt_fd, struct request **request, struct ringtail_error *error);
int __wrap_request_open(const char *address, int interrupt_fd, struct request **request, struct ringtail_error *error)
{
	(void)interrupt_fd;
	assert_string_equal(address, "tcp:relay");
	*request = NULL;
	return relay_is_away ? failure_set(error, ECONNREFUSED, "cannot-connect", "nobody listens") : 0;
}

void __wrap_request_close(struct request *request);
void __wrap_request_close(struct request *request)
{
	(void)request;
}

int __wrap_fleet_ask(struct request *request, struct fleet *fleet, struct ringtail_error *error);
int __wrap_fleet_ask(struct request *request, struct fleet *fleet, struct ringtail_error *error)
{
	(void)request;
	fleet->host = calloc(hosts + 1, sizeof(*fleet->host));
	if (!fleet->host)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	for (size_t i = 0; i < hosts; i++)
		fleet->host[fleet->hosts++] = &stat[i];
	return 0;
}

/* By several threads. */
int __wrap_reach_connect(const char *relay, const char *name, struct ringtail **made, struct ringtail_error *error);
int __wrap_reach_connect(const char *relay, const char *name, struct ringtail **made, struct ringtail_error *error)
{
	unsigned now = atomic_fetch_add(&at_once, 1) + 1, most = atomic_load(&at_once_max);
	int err = 0;

	assert(strcmp(relay, "tcp:relay") == 0);
	while (now > most && !atomic_compare_exchange_weak(&at_once_max, &most, now))
		;
	sched_yield();
	if (refuses && strncmp(name, refuses, strlen(refuses)) == 0) {
		err = failure_set(error, EPROTO, "relay-clients", "%s serves no clients of its relay", name);
	} else {
		struct ringtail_host *one = &host[atomic_fetch_add(&opened, 1)];

		snprintf(one->hostname, sizeof(one->hostname), "%s", name);
		*made = (struct ringtail *)one;
	}
	atomic_fetch_sub(&at_once, 1);
	return err;
}

void __wrap_ringtail_close(struct ringtail *ringtail);
void __wrap_ringtail_close(struct ringtail *ringtail)
{
	closed += ringtail != NULL;
}

static const char *name_of(const struct pump *pump, size_t i)
{
	return ((const struct ringtail_host *)pump->host[i].ringtail)->hostname;
}

static struct ringtail_error error;
static FILE *messages;
static char *said;
static size_t said_bytes;

static int setup(void **state)
{
	(void)state;
	hosts = 0;
	closed = 0;
	relay_is_away = false;
	refuses = NULL;
	atomic_store(&opened, 0);
	atomic_store(&at_once_max, 0);
	memset(&error, 0, sizeof(error));
	messages = open_memstream(&said, &said_bytes);
	return messages ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	fclose(messages);
	free(said);
	return 0;
}

static int connect_to(struct pump *pump, const char *glob)
{
	struct settings settings = { 0 };

	*pump = (struct pump){ .messages = messages };
	settings.connect.text[settings.connect.n++] = "tcp:relay";
	settings.host.text[settings.host.n++] = glob;
	return hosts_connect(&settings, pump, &error);
}

static const char *all_said(void)
{
	fflush(messages);
	return said;
}

/* ---- Which ------------------------------------------------------------------------------------------ */

static int choose(const char *one, const char *two, struct reached_names *names)
{
	struct texts globs = { .n = two ? 2 : 1, .text = { one, two } };
	struct fleet fleet = { 0 };
	int err;

	assert_int_equal(__wrap_fleet_ask(NULL, &fleet, &error), 0);
	err = reached_choose(&fleet, &globs, names, &error);
	fleet_free(&fleet);
	return err;
}

static void names_are_chosen_by_globs(void **state)
{
	struct reached_names names;

	(void)state;
	add("web-2", true);
	add("db-1", true);
	add("web-1", true);
	add("web-3", false);
	add("web-0\033[2J", true);		/* of a relay that is no good */
	assert_int_equal(choose("web-*", NULL, &names), 0);
	assert_int_equal(names.names, 2);
	assert_string_equal(names.name[0], "web-1");
	assert_string_equal(names.name[1], "web-2");
	assert_int_equal(names.aways, 1);
	assert_string_equal(names.away[0], "web-3");
	reached_free(&names);
	/* One that two match is asked once. */
	assert_int_equal(choose("*-1", "web-[12]", &names), 0);
	assert_int_equal(names.names, 3);
	reached_free(&names);
}

static void when_there_is_none_it_is_said_why(void **state)
{
	struct reached_names names;

	(void)state;
	assert_int_equal(choose("*", NULL, &names), -ENOENT);
	reached_free(&names);
	add("web-1", false);
	assert_int_equal(choose("db-*", NULL, &names), -ENOENT);
	assert_string_equal(error.code, "host-unknown");
	reached_free(&names);
	assert_int_equal(choose("web-*", NULL, &names), -EHOSTUNREACH);
	assert_string_equal(error.code, "host-away");
	assert_non_null(strstr(error.hint, "list hosts"));
	reached_free(&names);
}

static void there_are_so_many_at_most(void **state)
{
	struct reached_names names;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < REACHED_HOSTS_MAX; i++) {
		snprintf(name, sizeof(name), "web-%u", i);
		add(name, true);
	}
	assert_int_equal(choose("*", NULL, &names), 0);
	assert_int_equal(names.names, REACHED_HOSTS_MAX);
	reached_free(&names);
	add("web-x", true);
	assert_int_equal(choose("*", NULL, &names), -E2BIG);
	assert_string_equal(error.code, "too-many-hosts");
	reached_free(&names);
	assert_int_equal(choose("web-x", NULL, &names), 0);
	reached_free(&names);
}

/* ---- Connections -------------------------------------------------------------------------------------- */

static void each_is_connected_by_its_name(void **state)
{
	struct pump pump;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "web-%02u", 99 - i);
		add(name, true);
	}
	assert_int_equal(connect_to(&pump, "web-*"), 0);
	assert_true(pump.through);
	assert_int_equal(pump.hosts, 100);
	assert_int_equal(pump.unasked, 0);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "web-%02u", i);
		assert_string_equal(pump.host[i].label, name);
		assert_string_equal(name_of(&pump, i), name);
	}
	assert_in_range(at_once_max, 1, REACHED_AT_ONCE);
	hosts_close(&pump);
	assert_int_equal(closed, 100);
	assert_string_equal(all_said(), "");
}

static void one_that_refuses_is_named_and_the_others_are_asked(void **state)
{
	struct pump pump;

	(void)state;
	add("web-1", true);
	add("web-2", true);
	add("web-3", true);
	add("web-4", false);
	refuses = "web-2";
	assert_int_equal(connect_to(&pump, "web-*"), 0);
	assert_int_equal(pump.hosts, 2);
	assert_int_equal(pump.unasked, 1);
	assert_string_equal(pump.host[1].label, "web-3");
	assert_non_null(strstr(all_said(), "web-2 is not asked:"));
	assert_non_null(strstr(all_said(), "[relay-clients]"));
	assert_non_null(strstr(all_said(), "1 of 4 hosts are not connected to the relay, and not asked: web-4\n"));
	/* One that cannot answer later. */
	failure_set(&error, EPROTO, "viewer-probes", "not this");
	reached_drop(&pump, 0, &error);
	assert_int_equal(pump.hosts, 1);
	assert_int_equal(pump.unasked, 2);
	assert_string_equal(pump.host[0].label, "web-3");
	assert_string_equal(name_of(&pump, 0), "web-3");
	assert_non_null(strstr(all_said(), "web-1 is not asked:"));
	hosts_close(&pump);
	assert_int_equal(closed, 2);
}

/* As many as a screen has room for are named; all are counted. */
static void of_many_that_refuse_some_are_named(void **state)
{
	struct pump pump;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < FLEET_ROWS + 10; i++) {
		snprintf(name, sizeof(name), "web-%02u", i);
		add(name, true);
	}
	add("x", true);
	refuses = "web";
	assert_int_equal(connect_to(&pump, "*"), 0);
	assert_int_equal(pump.hosts, 1);
	assert_int_equal(pump.unasked, FLEET_ROWS + 10);
	assert_non_null(strstr(all_said(), "web-19 is not asked:"));
	assert_null(strstr(all_said(), "web-20 is not asked:"));
	hosts_close(&pump);
}

static void where_all_refuse_it_is_said_why(void **state)
{
	struct pump pump;

	(void)state;
	add("web-1", true);
	add("web-2", true);
	refuses = "web";
	assert_int_equal(connect_to(&pump, "*"), -EHOSTUNREACH);
	assert_string_equal(error.code, "relay-clients");
	hosts_close(&pump);
	relay_is_away = true;
	assert_int_equal(connect_to(&pump, "*"), -ECONNREFUSED);
	hosts_close(&pump);
	assert_int_equal(closed, 0);
}

/* Of this thread; the others have theirs. */
static void memory_that_ends_is_said(void **state)
{
	unsigned places = 0;
	int err = -ENOMEM;

	(void)state;
	add("web-1", true);
	add("web-2", true);
	add("web-3", false);
	for (; err && places < PLACES_MAX; places++) {
		struct pump pump;

		atomic_store(&opened, 0);
		closed = 0;
		memory_fails_after(places);
		err = connect_to(&pump, "*");
		memory_suffices();
		if (err)
			assert_string_equal(error.code, "no-memory");
		hosts_close(&pump);
		assert_int_equal(closed, atomic_load(&opened));
	}
	assert_int_equal(err, 0);
	assert_in_range(places, 5, PLACES_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_are_chosen_by_globs, setup, teardown),
		cmocka_unit_test_setup_teardown(when_there_is_none_it_is_said_why, setup, teardown),
		cmocka_unit_test_setup_teardown(there_are_so_many_at_most, setup, teardown),
		cmocka_unit_test_setup_teardown(each_is_connected_by_its_name, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_refuses_is_named_and_the_others_are_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(of_many_that_refuse_some_are_named, setup, teardown),
		cmocka_unit_test_setup_teardown(where_all_refuse_it_is_said_why, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_that_ends_is_said, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
