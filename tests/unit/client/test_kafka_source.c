/* test_kafka_source: the reader of Kafka as another program: how it ended is told. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/cli/kafka_source.h"

static char directory[] = "/tmp/test_kafka_source-XXXXXX", path[sizeof(directory) + 32];

static int setup(void **state)
{
	(void)state;
	strcpy(directory + strlen(directory) - 6, "XXXXXX");
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/ringtail-kafka", directory);
	setenv("PATH", directory, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

static const char *const globs[] = { "web-*", "db-?" };
static const struct kafka_question past = { .address = "kafka:here" };
static struct kafka_question live = { .address = "kafka:here", .follow = true, .since_ns = 5000000000 };

/* What is run in the reader's place. */
static void put_reader(const char *script)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", script);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0755), 0);
}

/* Reads it to its end, and closes it: whether it was good. */
static bool is_good(const char *script, const char *wanted)
{
	struct kafka_source *source;
	struct ringtail_error error;
	char text[256];
	size_t used = 0;
	ssize_t got;
	int fd;

	put_reader(script);
	assert_int_equal(kafka_source_open(&live, &source, &fd, &error), 0);
	while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
	assert_string_equal(text, wanted);
	close(fd);
	return kafka_source_close(source);
}

/* 3: records were damaged, and what they had is missing. */
static void a_reader_that_failed_is_told(void **state)
{
	(void)state;
	assert_true(is_good("echo all", "all\n"));
	assert_false(is_good("echo some; exit 3", "some\n"));
	assert_false(is_good("echo some; exit 1", "some\n"));
	assert_true(is_good("echo $*", "--source kafka:here --follow --since-ms 1\n"));
	live.since_ns = 300 * 1000000000ull;	/* a minute earlier, so that it shows whether something is missing there */
	assert_true(is_good("echo $*", "--source kafka:here --follow --since-ms 240000\n"));
	assert_true(kafka_source_close(NULL));
}

static void hosts_are_asked_for(void **state)
{
	(void)state;
	live = (struct kafka_question){ .address = "kafka:here", .lanes = true, .host = globs, .hosts = 2 };
	assert_true(is_good("echo $*", "--source kafka:here --lanes --host web-* --host db-?\n"));
	assert_false(kafka_source_names_host("kafka:here"));
	assert_false(kafka_source_names_host("kafka:here/prefix"));
	assert_false(kafka_source_names_host("kafka:here/prefix/"));
	assert_true(kafka_source_names_host("kafka:here/prefix/host"));
}

/* Whoever asked for a second of it gets a second of nothing. */
static void a_silent_reader_is_waited_for_so_long(void **state)
{
	struct kafka_source *source;
	struct ringtail_error error;
	int fd;

	(void)state;
	live = (struct kafka_question){ .address = "kafka:here", .follow = true, .wait_ns = 20000000 };
	put_reader("exec /bin/sleep 1000");
	assert_int_equal(kafka_source_open(&live, &source, &fd, &error), 0);
	close(fd);
	assert_true(kafka_source_close(source));
}

static void nothing_comes(void **state)
{
	struct kafka_source *source;
	struct ringtail_error error;
	int fd;

	(void)state;
	assert_int_equal(kafka_source_open(&past, &source, &fd, &error), -ENOENT);
	assert_string_equal(error.code, "no-reader");
	put_reader("exit 0");
	assert_int_equal(kafka_source_open(&past, &source, &fd, &error), -ENODATA);
	assert_string_equal(error.code, "no-records");
	put_reader("exit 1");		/* it has said why */
	assert_int_equal(kafka_source_open(&past, &source, &fd, &error), -EIO);
	assert_string_equal(error.code, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_reader_that_failed_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(hosts_are_asked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(a_silent_reader_is_waited_for_so_long, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_comes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
