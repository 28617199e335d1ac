/*
 * Lines of the audit log at their bounds; what is denied too often, on a disk of its own; memory that runs out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/access/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/disk/disk.h"
#include "tests/lib/failing_memory.h"

static char directory[] = "/tmp/ringtail-audit-XXXXXX";
static char said[1024];
static enum log_level level_said;

static void note(enum log_level level, const char *code, const char *text)
{
	level_said = level;
	snprintf(said, sizeof(said), "%s: %s", code, text);
}

/* What the C library allocates for them fails with the rest. */
FILE *__wrap_open_memstream(char **text, size_t *bytes);
FILE *__real_open_memstream(char **text, size_t *bytes);
struct event *__wrap_event_new(struct event_base *base, int fd, short what, event_callback_fn tell, void *context);
struct event *__real_event_new(struct event_base *base, int fd, short what, event_callback_fn tell, void *context);

FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
	return may_allocate() ? __real_open_memstream(text, bytes) : NULL;
}

struct event *__wrap_event_new(struct event_base *base, int fd, short what, event_callback_fn tell, void *context)
{
	return may_allocate() ? __real_event_new(base, fd, what, tell, context) : NULL;
}

/* ---- Lines ---------------------------------------------------------------------------------------- */

static void expect(const struct audit_attempt *attempt, const char *part, bool there)
{
	char *line = audit_line(attempt);

	assert_non_null(line);
	if ((strstr(line, part) != NULL) != there)
		fail_msg("%s", line);
	free(line);
}

/* What just fits is whole; of what is one byte longer the mark says that there was more. */
static void denied_texts_are_cut_at_their_bounds(void **state)
{
	char text[200], name[200], *list[4] = {text, text, text, text};
	struct audit_attempt attempt = {.who = "user:eve", .role = "viewer", .peer = "p", .action = "change",
					.enable = list, .enables = 1, .outcome = "not-allowed"};

	(void)state;
	memset(text, 'x', sizeof(text));
	text[59] = '\0';
	expect(&attempt, "...", false);
	expect(&attempt, text, true);
	text[59] = 'x';
	text[60] = '\0';
	expect(&attempt, "x...\"]", true);
	text[0] = '\0';
	memset(name, 'x', sizeof(name));
	name[123] = '\0';
	attempt.peer = name;
	expect(&attempt, "...", false);
	name[123] = 'x';
	name[124] = '\0';
	expect(&attempt, "x...\",\"action\"", true);
	/* And so many of them. */
	attempt.enables = AUDIT_DENIED_SPECS_SHOWN;
	expect(&attempt, "_more", false);
	attempt.enables++;
	expect(&attempt, "\"enable_more\":1", true);
	attempt.outcome = "allowed";
	expect(&attempt, "_more", false);
	expect(&attempt, "...", false);
}

static void whatever_it_was_about(void **state)
{
	struct audit_attempt attempt = {.realtime_ns = 1999999999, .who = "a\"\\b", .role = "viewer", .peer = "p", .action = "trigger",
					.rule = "slow", .outcome = "allowed"};
	char *line;

	(void)state;
	line = audit_line(&attempt);
	assert_string_equal(line, "{\"time\":\"1970-01-01T00:00:01.999999Z\",\"who\":\"a\\\"\\\\b\",\"role\":\"viewer\",\"peer\":\"p\","
				  "\"action\":\"trigger\",\"rule\":\"slow\",\"outcome\":\"allowed\"}\n");
	free(line);
	attempt.rule = NULL;
	attempt.dump = "d";
	expect(&attempt, "\"action\":\"trigger\",\"dump\":\"d\",\"outcome\"", true);
	attempt.consumer = "c";
	expect(&attempt, "\"action\":\"trigger\",\"consumer\":\"c\",\"outcome\"", true);
}

/* ---- How often ------------------------------------------------------------------------------------ */

/* What lies behind the last one is nobody's. */
static void due_is_the_first_that_has_more(void **state)
{
	static struct {
		struct audit_rate rate;
		struct audit_talker behind[2];
	} one = {.rate = {.max = 1, .window_ns = 100}, .behind = {{.more = 1, .since_ns = 1}}};
	uint64_t more;

	(void)state;
	assert_int_equal(audit_rate_due(&one.rate), 0);
	assert_null(audit_rate_next(&one.rate, UINT64_MAX, &more));
	assert_true(audit_rate_take(&one.rate, "a", 1000));
	assert_false(audit_rate_take(&one.rate, "a", 1099));
	assert_int_equal(audit_rate_due(&one.rate), 1100);
	assert_null(audit_rate_next(&one.rate, 1099, &more));
	assert_string_equal(audit_rate_next(&one.rate, 1100, &more), "a");
	assert_int_equal(more, 1);
	assert_int_equal(audit_rate_due(&one.rate), 0);
	assert_null(audit_rate_next(&one.rate, UINT64_MAX, &more));
}

/* ---- On disk -------------------------------------------------------------------------------------- */

struct bench {
	struct event_base *base;
	struct disk disk;
	struct disk_thread *thread;
	struct audit_denials *denials;
};

static int open_bench(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct error error;

	strcpy(directory + sizeof(directory) - 7, "XXXXXX");
	assert_non_null(mkdtemp(directory));
	bench->base = event_base_new();
	assert_int_equal(disk_posix_open(directory, &bench->disk, &error), 0);
	assert_int_equal(disk_thread_create(bench->base, &bench->disk, false, &bench->thread, &error), 0);
	bench->denials = audit_denials_create(bench->base, bench->thread);
	assert_non_null(bench->denials);
	said[0] = '\0';
	*state = bench;
	return 0;
}

static int close_bench(void **state)
{
	struct bench *bench = *state;
	char path[128];

	disk_thread_destroy(bench->thread);
	audit_denials_destroy(bench->denials);
	bench->disk.ops->remove(&bench->disk, "lock");
	disk_posix_close(&bench->disk);
	event_base_free(bench->base);
	snprintf(path, sizeof(path), "%s/%s", directory, AUDIT_DENIED_FILE);
	unlink(path);
	rmdir(directory);
	free(bench);
	return 0;
}

static void deny(struct bench *bench, const char *who, unsigned more)
{
	for (unsigned i = 0; i < AUDIT_DENIED_MAX + more; i++)
		assert_int_equal(audit_denials_take(bench->denials, who), i < AUDIT_DENIED_MAX);
}

static const char *denied_log(void)
{
	static char text[2000];
	char path[128];
	size_t n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, AUDIT_DENIED_FILE);
	file = fopen(path, "r");
	if (file) {
		n = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[n] = '\0';
	return text;
}

static void what_was_counted_is_written_in_the_end(void **state)
{
	struct bench *bench = *state;
	const char *line;

	deny(bench, "user:a", 3);
	deny(bench, "user:b", 0);
	deny(bench, "user:c", 1);
	audit_denials_settle(bench->denials);
	disk_thread_settle(bench->thread);
	line = denied_log();
	assert_non_null(strstr(line, "\"who\":\"user:a\",\"denied_more\":3}\n"));
	assert_non_null(strstr(line, "\"who\":\"user:c\",\"denied_more\":1}\n"));
	assert_null(strstr(line, "user:b"));
	assert_non_null(strstr(said, "1 more attempts of user:c were denied"));
	assert_int_equal(level_said, LOG_LEVEL_INFO);
	assert_string_equal(audit_denials_file(bench->denials)->name, AUDIT_DENIED_FILE);
	assert_string_equal(audit_denials_file(bench->denials)->name_old, AUDIT_DENIED_FILE_OLD);
	assert_int_equal(audit_denials_file(bench->denials)->bytes, strlen(line));
}

static void a_disk_that_is_gone_is_reported(void **state)
{
	struct bench *bench = *state;

	assert_int_equal(bench->disk.ops->remove(&bench->disk, "lock"), 0);
	assert_int_equal(rmdir(directory), 0);
	deny(bench, "user:a", 3);
	audit_denials_settle(bench->denials);
	disk_thread_settle(bench->thread);
	assert_string_equal(said, "audit-failed: audit-denied.log cannot be written: No such file or directory");
	assert_int_equal(level_said, LOG_LEVEL_ERROR);
}

/* The journal has it in any case. */
static void without_memory_the_journal_has_it(void **state)
{
	struct bench *bench = *state;

	/* None for the note; then one for the note, and none for its line. */
	for (unsigned n = 0; n < 2; n++) {
		said[0] = '\0';
		deny(bench, n ? "user:b" : "user:a", 3);
		memory_fails_after(n);
		audit_denials_settle(bench->denials);
		memory_suffices();
		disk_thread_settle(bench->thread);
		assert_string_equal(said, n ? "audit-denied: 3 more attempts of user:b were denied" :
					      "audit-denied: 3 more attempts of user:a were denied");
		assert_string_equal(denied_log(), "");
	}
}

static void without_memory_there_is_no_line(void **state)
{
	const struct audit_attempt attempt = {.who = "user:eve", .role = "viewer", .peer = "p", .action = "change",
					      .outcome = "allowed"};

	(void)state;
	memory_fails_after(0);
	assert_null(audit_line(&attempt));
	assert_null(audit_line_of_more(1, "user:eve", 3));
	memory_suffices();
}

static void without_memory_there_are_none(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 2; n++) {
		memory_fails_after(n);
		assert_null(audit_denials_create(NULL, NULL));
	}
	memory_suffices();
	audit_denials_destroy(NULL);
}

/* ---- The file's size --------------------------------------------------------------------------- */

static struct {
	unsigned lists, fails, renames;
	uint64_t bytes;
} full;

static int list_full(struct disk *disk, const char *path, disk_entry *entry, void *context)
{
	(void)disk, (void)path;
	full.lists++;
	if (full.fails) {
		full.fails--;
		return -EIO;
	}
	entry(context, AUDIT_FILE_OLD, 7);
	entry(context, AUDIT_FILE, full.bytes);
	return 0;
}

static int rename_full(struct disk *disk, const char *from, const char *to)
{
	(void)disk;
	assert_string_equal(from, AUDIT_FILE);
	assert_string_equal(to, AUDIT_FILE_OLD);
	full.renames++;
	return 0;
}

static int open_full(struct disk *disk, const char *path, int flags)
{
	(void)disk, (void)path, (void)flags;
	return 5;
}

static ssize_t write_full(struct disk *disk, int file, const void *bytes, size_t n)
{
	(void)disk, (void)file, (void)bytes;
	return (ssize_t)n;
}

static int sync_full(struct disk *disk, int file)
{
	(void)disk, (void)file;
	return 0;
}

static int sync_directory_full(struct disk *disk, const char *path)
{
	(void)disk, (void)path;
	return 0;
}

/* A disk that could not be read once is looked at again: the file is not taken for an empty one. */
static void a_size_that_is_not_known_is_asked_for_again(void **state)
{
	static const struct disk_ops ops = {
		.open = open_full, .close = sync_full, .write = write_full, .sync = sync_full, .rename = rename_full,
		.sync_directory = sync_directory_full, .list = list_full,
	};
	struct audit_file file = {.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD};
	struct disk disk = {.ops = &ops};

	(void)state;
	full.lists = full.renames = 0;
	full.fails = 1;
	full.bytes = AUDIT_BYTES_MAX - 4;
	assert_int_equal(audit_append(&file, &disk, "line\n"), -EIO);
	assert_int_equal(full.lists, 1);
	assert_int_equal(audit_append(&file, &disk, "line\n"), 0);
	assert_int_equal(full.lists, 2);
	assert_int_equal(full.renames, 1);
	assert_int_equal(audit_append(&file, &disk, "line\n"), 0);
	assert_int_equal(full.lists, 2);
	assert_int_equal(full.renames, 1);
}

int main(void)
{
#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, open_bench, close_bench)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(denied_texts_are_cut_at_their_bounds),
		cmocka_unit_test(whatever_it_was_about),
		cmocka_unit_test(due_is_the_first_that_has_more),
		cmocka_unit_test(a_size_that_is_not_known_is_asked_for_again),
		ON_DISK(what_was_counted_is_written_in_the_end),
		ON_DISK(a_disk_that_is_gone_is_reported),
		ON_DISK(without_memory_the_journal_has_it),
		cmocka_unit_test(without_memory_there_is_no_line),
		cmocka_unit_test(without_memory_there_are_none),
	};
	static const struct log_sink sink = {note, clock_monotonic};

	log_set_sink(&sink);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
