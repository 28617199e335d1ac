/*
 * The real loader process with the replay source: how it opens, what it answers, and how it ends, of
 * itself, when it is told to, and when it is killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/source/loader.h"

#define CAPTURE "tests/data/capture.rt"
#define WAIT_MS 60000

static unsigned descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(directory);
	while (readdir(directory))
		n++;
	closedir(directory);
	return n;
}

static int start(const char *name, const char *path, struct loader **loader, struct error *error)
{
	struct source_config config = {.ring_bytes = 64 << 20, .policy = RT_POLICY_DROP,
				       .path = path, .replay_fast = true};

	return loader_start(name, &config, false, NULL, loader, error);
}

static struct loader *start_capture(void)
{
	struct loader *loader;
	struct error error;

	if (start("replay", CAPTURE, &loader, &error) != 0)
		fail_msg("%s", error.what);
	return loader;
}

/* The next report. */
static struct loader_report await(struct loader *loader)
{
	struct pollfd wait = {.fd = loader_fd(loader), .events = POLLIN};
	struct loader_report report;

	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	assert_int_equal(loader_receive(loader, &report), 0);
	return report;
}

static void expect_no_child(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void test_does_not_open(void **state)
{
	static const char *const wrong[][2] = {
		{"replay", "/nowhere/there.rt"}, {"replay", "/dev/null"}, {"replay", "Makefile"},
		{"replay", NULL}, {"teapot", NULL},
	};
	unsigned before = descriptors();

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct loader *loader = NULL;
		struct error error = {0};

		assert_true(start(wrong[i][0], wrong[i][1], &loader, &error) < 0);
		assert_true(*error.code && *error.what);
		assert_string_not_equal(error.code, "loader-died");
		assert_null(loader);
		expect_no_child();
	}
	assert_int_equal(descriptors(), before);
}

static void test_opens_and_ends(void **state)
{
	unsigned before = descriptors();
	struct loader *loader = start_capture();
	const struct ring_handle *ring;

	(void)state;
	assert_string_equal(loader_source_name(loader), "replay");
	assert_true(loader_catalog(loader)->n_probe > 10);
	assert_true(loader_rings(loader) >= 1);
	ring = loader_ring(loader, 0);
	assert_true(ring->ring_fd > 2 && ring->consumer_fd > 2 && ring->bell_fd > 2);
	assert_true(ring->ring_bytes >= 64 << 20);
	loader_stop(loader);
	loader_stop(NULL);
	expect_no_child();
	assert_int_equal(descriptors(), before);
}

static void test_configures_and_finishes(void **state)
{
	struct source_request request = {.generation = 5};
	struct loader *loader = start_capture();
	struct loader_report report;

	(void)state;
	assert_int_equal(loader_receive(loader, &report), -EAGAIN);
	assert_int_equal(loader_configure(loader, &request), 0);
	report = await(loader);
	assert_int_equal(report.event, LOADER_CONFIGURED);
	assert_int_equal(report.generation, 5);
	assert_int_equal(report.err, 0);
	memset(request.probes, 0xff, sizeof(request.probes));
	request.generation = 6;
	assert_int_equal(loader_configure(loader, &request), 0);
	report = await(loader);
	assert_int_equal(report.generation, 6);
	assert_int_equal(loader_joined(loader), 0);
	report = await(loader);
	assert_int_equal(report.event, LOADER_FINISHED);
	assert_int_equal(loader_receive(loader, &report), -EAGAIN);
	loader_stop(loader);
}

static void test_refuses(void **state)
{
	struct source_request request = {.generation = 1, .clauses = RT_FILTER_CLAUSES_MAX + 1};
	struct loader *loader = start_capture();
	struct loader_report report;

	(void)state;
	assert_int_equal(loader_configure(loader, &request), 0);
	report = await(loader);
	assert_int_equal(report.event, LOADER_CONFIGURED);
	assert_int_equal(report.generation, 1);
	assert_int_equal(report.err, -EINVAL);
	assert_string_equal(report.error.code, "filter-clauses");
	/* That was no reason to end. */
	request.clauses = 0;
	assert_int_equal(loader_configure(loader, &request), 0);
	assert_int_equal(await(loader).err, 0);
	loader_stop(loader);
}

/* As often as somebody asks, and nobody reads: one question is on its way, or both ends would wait. */
static void test_asked_too_often(void **state)
{
	struct loader *loader = start_capture();
	struct loader_report report;

	(void)state;
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(loader_ask_stats(loader), 0);
	assert_int_equal(await(loader).event, LOADER_STATS);
	assert_int_equal(loader_receive(loader, &report), -EAGAIN);
	assert_int_equal(loader_ask_stats(loader), 0);
	assert_int_equal(await(loader).event, LOADER_STATS);
	loader_stop(loader);
}

static void test_killed(void **state)
{
	struct source_request request = {.generation = 1};
	unsigned before = descriptors();
	struct loader *loader = start_capture();
	struct loader_report report;

	(void)state;
	assert_int_equal(kill(loader_pid(loader), SIGKILL), 0);
	assert_int_equal(await(loader).event, LOADER_GONE);
	assert_int_equal(loader_receive(loader, &report), -EAGAIN);
	assert_int_equal(loader_configure(loader, &request), -EPIPE);
	assert_int_equal(loader_joined(loader), -EPIPE);
	assert_int_equal(loader_ask_stats(loader), -EPIPE);
	loader_stop(loader);
	expect_no_child();
	assert_int_equal(descriptors(), before);
}

/* Terminals send SIGINT to both: the engine decides when it is over. */
static void test_signals(void **state)
{
	struct loader *loader = start_capture();

	(void)state;
	kill(loader_pid(loader), SIGINT);
	kill(loader_pid(loader), SIGTERM);
	kill(loader_pid(loader), SIGHUP);
	assert_int_equal(loader_ask_stats(loader), 0);
	assert_int_equal(await(loader).event, LOADER_STATS);
	loader_stop(loader);
	expect_no_child();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_does_not_open),
		cmocka_unit_test(test_opens_and_ends),
		cmocka_unit_test(test_configures_and_finishes),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_asked_too_often),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
