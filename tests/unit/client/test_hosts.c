/* test_hosts: what only one daemon can be asked, connections to each, and the labels that tell hosts apart. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/hosts.h"

#define HOSTS 3u

static struct ringtail_host host[HOSTS];
static unsigned opened, closed, refuses;	/* the so-many-th; 0: none */

int __wrap_ringtail_connect(const char *address, struct ringtail **made, struct ringtail_error *error);
int __wrap_ringtail_connect(const char *address, struct ringtail **made, struct ringtail_error *error)
{
	if (opened + 1 == refuses) {
		snprintf(error->what, sizeof(error->what), "%s", address);
		return -ECONNREFUSED;
	}
	*made = (struct ringtail *)&host[opened++];
	return 0;
}

void __wrap_ringtail_close(struct ringtail *ringtail);
void __wrap_ringtail_close(struct ringtail *ringtail)
{
	closed += ringtail != NULL;
}

const struct ringtail_host *__wrap_ringtail_host(const struct ringtail *ringtail);
const struct ringtail_host *__wrap_ringtail_host(const struct ringtail *ringtail)
{
	return (const struct ringtail_host *)ringtail;
}

static struct settings settings_of(unsigned hosts)
{
	static const char *const address[HOSTS] = { "tcp:one", "tcp:two", "tcp:three" };
	struct settings settings = { 0 };

	for (unsigned i = 0; i < hosts; i++)
		settings.connect.text[i] = address[i];
	settings.connect.n = hosts;
	return settings;
}

static int setup(void **state)
{
	(void)state;
	opened = closed = refuses = 0;
	memset(host, 0, sizeof(host));
	return 0;
}

/* ---- What is for one daemon ---------------------------------------------------------------------- */

static void check_single(const struct settings *more, const struct sink_ops *ops, const char *what)
{
	const struct cmd_view view = { .ops = ops };
	struct ringtail_error error = { 0 };
	struct settings settings = *more;

	for (unsigned hosts = 0; hosts <= HOSTS; hosts++) {
		settings.connect = settings_of(hosts).connect;
		assert_int_equal(hosts_check(&settings, &view, &error), hosts > 1 && what ? -EINVAL : 0);
		if (hosts < 2 || !what)
			continue;
		assert_string_equal(error.code, "several-hosts");
		assert_ptr_equal(strstr(error.what, what), error.what);
		assert_non_null(strstr(error.what, hosts == 2 ? "names 2" : "names 3"));
	}
	if (what)
		assert_string_equal(hosts_single(&settings, &view), what);
	else
		assert_null(hosts_single(&settings, &view));
}

static struct sink *join(struct sink *sink, const struct sink_place *place)
{
	(void)place;
	return sink;
}

static void set_label(struct sink *sink, const char *label)
{
	(void)sink, (void)label;
}

static void some_is_for_one_daemon(void **state)
{
	static const struct sink_ops plain, joins = { .join = join }, labels = { .set_label = set_label };
	static char *const command[] = { (char *)"true", NULL };
	const struct settings none = { 0 };
	struct settings settings = none;

	(void)state;
	check_single(&none, NULL, NULL);
	check_single(&none, &joins, NULL);
	check_single(&none, &labels, NULL);
	check_single(&none, &plain, "this output format");
	settings.consumer = "name";
	check_single(&settings, NULL, "--consumer");
	settings = none;
	settings.cursor = "file";
	check_single(&settings, NULL, "--cursor");
	settings = none;
	settings.since = "-5m";
	check_single(&settings, NULL, NULL);
	settings.since = "00112233445566778899aabbccddeeff/1";
	check_single(&settings, NULL, "a cursor");
	settings = none;
	settings.tree.n = 1;
	check_single(&settings, NULL, "--tree");
	settings = none;
	settings.command = command;
	check_single(&settings, NULL, "a command");
	settings = none;
	settings.by = "comm";
	check_single(&settings, NULL, NULL);
	settings.by = "comm,ustack";
	check_single(&settings, NULL, "--by stack");
}

/* ---- Connections --------------------------------------------------------------------------------- */

static void each_is_connected_and_closed(void **state)
{
	struct settings settings = settings_of(HOSTS);
	struct ringtail_error error = { 0 };
	struct pump pump = { 0 };

	(void)state;
	assert_int_equal(hosts_connect(&settings, &pump, &error), 0);
	assert_int_equal(pump.hosts, HOSTS);
	assert_int_equal(opened, HOSTS);
	hosts_close(&pump);
	assert_int_equal(closed, HOSTS);
	assert_int_equal(pump.hosts, 0);
	assert_null(pump.host);
}

static void without_an_address_there_is_one(void **state)
{
	struct settings settings = settings_of(0);
	struct ringtail_error error = { 0 };
	struct pump pump = { 0 };

	(void)state;
	assert_int_equal(hosts_connect(&settings, &pump, &error), 0);
	assert_int_equal(pump.hosts, 1);
	hosts_close(&pump);
}

/* Those before it were connected, and are closed. */
static void one_that_refuses_fails_all(void **state)
{
	struct settings settings = settings_of(HOSTS);
	struct ringtail_error error = { 0 };
	struct pump pump = { 0 };

	(void)state;
	refuses = 2;
	assert_int_equal(hosts_connect(&settings, &pump, &error), -ECONNREFUSED);
	assert_string_equal(error.what, "tcp:two");
	assert_int_equal(pump.hosts, 1);
	hosts_close(&pump);
	assert_int_equal(closed, 1);
}

/* ---- Labels -------------------------------------------------------------------------------------- */

static void check_labels(unsigned hosts, const char *const *name, const char *const *label)
{
	struct settings settings = settings_of(hosts);
	struct ringtail_error error = { 0 };
	struct pump pump = { 0 };

	opened = 0;
	for (unsigned i = 0; i < hosts; i++)
		snprintf(host[i].hostname, sizeof(host[i].hostname), "%s", name[i]);
	assert_int_equal(hosts_connect(&settings, &pump, &error), 0);
	for (unsigned again = 0; again < 2; again++) {		/* after a reconnect, say */
		assert_int_equal(hosts_label(&settings, &pump, &error), 0);
		for (unsigned i = 0; i < hosts; i++)
			if (label[i])
				assert_string_equal(pump.host[i].label, label[i]);
			else
				assert_null(pump.host[i].label);
	}
	hosts_close(&pump);
}

static void a_host_is_called_by_its_name_or_else_by_its_address(void **state)
{
	(void)state;
	check_labels(3, (const char *const[]){ "a", "b", "c" }, (const char *const[]){ "a", "b", "c" });
	check_labels(3, (const char *const[]){ "a", "b", "a" }, (const char *const[]){ "tcp:one", "b", "tcp:three" });
	check_labels(2, (const char *const[]){ "", "b" }, (const char *const[]){ "tcp:one", "b" });
	check_labels(1, (const char *const[]){ "a" }, (const char *const[]){ NULL });
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(some_is_for_one_daemon),
		TEST(each_is_connected_and_closed),
		TEST(without_an_address_there_is_one),
		TEST(one_that_refuses_fails_all),
		TEST(a_host_is_called_by_its_name_or_else_by_its_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
