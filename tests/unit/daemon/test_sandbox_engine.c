/*
 * What the engine's view is asked to have: a state directory of its user's, and each file that is read again at a
 * reload. The view is not entered: the test would be in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/host/sandbox.h"
#include "daemon/sandbox_engine.h"

#define USER	12345u
#define SEEN_MAX 64u

static struct {
	const char *path;
	enum sandbox_access access;
} seen[SEEN_MAX];
static unsigned views, seens;

static int note(const char *path, enum sandbox_access access)
{
	assert_true(seens < SEEN_MAX);
	seen[seens].path = path;
	seen[seens++].access = access;
	return 0;
}

int __wrap_sandbox_view_add(struct sandbox_view *view, const char *path, enum sandbox_access access);
int __wrap_sandbox_view_add(struct sandbox_view *view, const char *path, enum sandbox_access access)
{
	(void)view;
	return note(path, access);
}

int __wrap_sandbox_view_add_file(struct sandbox_view *view, const char *path, enum sandbox_access access);
int __wrap_sandbox_view_add_file(struct sandbox_view *view, const char *path, enum sandbox_access access)
{
	(void)view;
	return note(path, access);
}

int __wrap_sandbox_view_enter(struct sandbox_view *view, struct error *error);
int __wrap_sandbox_view_enter(struct sandbox_view *view, struct error *error)
{
	(void)view, (void)error;
	views++;
	return 0;
}

static bool is_seen(const char *path, enum sandbox_access access)
{
	for (unsigned i = 0; i < seens; i++)
		if (strcmp(seen[i].path, path) == 0 && seen[i].access == access)
			return true;
	return false;
}

static void each_file_of_a_reload_is_there(void **state)
{
	static const struct account account = {.uid = USER, .gid = USER};
	char directory[] = "/tmp/ringtail-view-XXXXXX", state_dir[sizeof(directory) + 8];
	struct config config = {
		.config = (char *)"/config", .tls_cert = (char *)"/cert", .tls_key = (char *)"/key",
		.tls_client_ca = (char *)"/client-ca", .tls_crl = (char *)"/crl",
		.tokens = (char *)"/tokens", .relay_ca = (char *)"/relay-ca",
		.export_ca = (char *)"/export-ca",
	};
	static const char *const wanted[] = {"/config", "/cert", "/key", "/client-ca", "/crl", "/tokens", "/relay-ca",
					     "/export-ca", "/etc/passwd"};
	struct error error = {0};
	struct stat stat;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(state_dir, sizeof(state_dir), "%s/state", directory);
	config.state_dir = state_dir;
	views = seens = 0;
	assert_int_equal(sandbox_engine_view(&config, &account, &error), 0);
	assert_int_equal(views, 1);
	assert_true(is_seen(state_dir, SANDBOX_WRITE));
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!is_seen(wanted[i], SANDBOX_READ))
			fail_msg("%s is not in the view", wanted[i]);
	/* What only those need that dial out, others do not see. */
	assert_false(is_seen("/etc/resolv.conf", SANDBOX_READ));
	assert_int_equal(lstat(state_dir, &stat), 0);
	assert_int_equal(stat.st_uid, USER);
	assert_int_equal(stat.st_mode & 07777, 0700);
	assert_int_equal(rmdir(state_dir), 0);
	assert_int_equal(rmdir(directory), 0);
}

static void without_a_state_directory_there_is_no_view(void **state)
{
	static const struct account account = {.uid = USER, .gid = USER};
	struct config config = {.state_dir = (char *)"/proc/none/state"};
	struct error error = {0};

	(void)state;
	views = seens = 0;
	assert_true(sandbox_engine_view(&config, &account, &error) < 0);
	assert_string_equal(error.code, "state-dir");
	assert_int_equal(views, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_file_of_a_reload_is_there),
		cmocka_unit_test(without_a_state_directory_there_is_no_view),
	};

	if (geteuid() != 0) {
		puts("only root makes a view");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
