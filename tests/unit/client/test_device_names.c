/* Names of devices beside their numbers: as sysfs has them, hostile ones, and of a host that is not this one. */
#include "tests/unit/client/check.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "client/cli/device_names.h"

static struct out out;
static char directory[] = "/tmp/ringtail-devices.XXXXXX";

static void link_device(const char *number, const char *target)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", directory, number);
	assert_int_equal(symlink(target, path), 0);
}

static int set_up(void **state)
{
	char longest[DEVICE_NAME_BYTES + 1] = "";

	(void)state;
	assert_non_null(mkdtemp(directory));
	link_device("254:0", "../../devices/pci0000:00/virtio2/block/vda");
	link_device("8:17", "../../block/cciss!c0d0");
	link_device("7:1", "../../block/a\033]0;\"\\\xff");
	memset(longest, 'x', DEVICE_NAME_BYTES);
	link_device("7:2", longest);
	link_device("7:3", longest + 1);
	check_out(&out);
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	close(out.fd);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static const struct ringtail_field fields[] = {
	{ .name = "sector", .c_type = "sector_t", .type = RINGTAIL_UNSIGNED, .bits = 64 },
	{ .name = "dev", .c_type = "dev_t", .type = RINGTAIL_UNSIGNED, .bits = 32 },
	{ .name = "old_dev", .c_type = "dev_t", .type = RINGTAIL_UNSIGNED, .bits = 32 },
};

static const char *show(struct device_names *names, bool json, uint64_t dev, uint64_t old,
			enum ringtail_probe_kind kind)
{
	const uint64_t value[] = { 254 << 20, dev, old };
	const struct ringtail_probe probe = { .kind = kind, .fields = 3, .field = fields };
	const struct ringtail_item event = { .kind = RINGTAIL_EVENT, .probe = &probe, .value = value };
	static const struct ringtail_host host;

	if (json)
		device_names_put_json(&out, names, &host, &event);
	else
		device_names_put_text(&out, names, &host, &event);
	return check_text(&out);
}

#define DEVICE(major, minor) ((uint64_t)(major) << 20 | (minor))
#define NAMES { .asked = true, .here = true, .directory = directory }

static void a_device_has_its_name(void **state)
{
	struct device_names names = NAMES;

	(void)state;
	assert_string_equal(show(&names, false, DEVICE(254, 0), 0, RINGTAIL_TRACEPOINT), " [dev=vda]");
	assert_string_equal(show(&names, true, DEVICE(254, 0), 0, RINGTAIL_TRACEPOINT),
			    ",\"devices\":{\"dev\":\"vda\"}");
	assert_string_equal(show(&names, false, DEVICE(254, 0), DEVICE(8, 17), RINGTAIL_TRACEPOINT),
			    " [dev=vda old_dev=cciss/c0d0]");
	assert_string_equal(show(&names, true, DEVICE(8, 17), DEVICE(254, 0), RINGTAIL_TRACEPOINT),
			    ",\"devices\":{\"dev\":\"cciss/c0d0\",\"old_dev\":\"vda\"}");
}

static void a_hostile_name_is_escaped(void **state)
{
	struct device_names names = NAMES;

	(void)state;
	assert_string_equal(show(&names, false, DEVICE(7, 1), 0, RINGTAIL_TRACEPOINT), " [dev=a?]0;\"\\?]");
	assert_string_equal(show(&names, true, DEVICE(7, 1), 0, RINGTAIL_TRACEPOINT),
			    ",\"devices\":{\"dev\":\"a\\u001b]0;\\\"\\\\\\u00ff\"}");
	assert_string_equal(show(&names, false, DEVICE(7, 2), 0, RINGTAIL_TRACEPOINT), "");
	assert_int_equal(strlen(show(&names, false, DEVICE(7, 3), 0, RINGTAIL_TRACEPOINT)),
			 strlen(" [dev=]") + DEVICE_NAME_BYTES - 1);
}

static void what_nobody_knows_has_none(void **state)
{
	struct device_names names = NAMES, elsewhere = { .directory = directory };

	(void)state;
	assert_string_equal(show(&names, false, DEVICE(9, 9), 0, RINGTAIL_TRACEPOINT), "");
	assert_string_equal(show(&names, true, DEVICE(9, 9), 0, RINGTAIL_TRACEPOINT), "");
	assert_string_equal(show(&elsewhere, false, DEVICE(254, 0), 0, RINGTAIL_TRACEPOINT), "");
	assert_string_equal(show(&names, false, DEVICE(254, 0), 0, RINGTAIL_CALL), "");
}

/* Two numbers in one place of what is kept, in turn. */
static void the_name_is_that_of_the_number(void **state)
{
	struct device_names names = NAMES;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_string_equal(show(&names, false, DEVICE(254, 0), 0, RINGTAIL_TRACEPOINT), " [dev=vda]");
		assert_string_equal(show(&names, false, DEVICE(253, 0), 0, RINGTAIL_TRACEPOINT), "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_has_its_name),
		cmocka_unit_test(a_hostile_name_is_escaped),
		cmocka_unit_test(what_nobody_knows_has_none),
		cmocka_unit_test(the_name_is_that_of_the_number),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
