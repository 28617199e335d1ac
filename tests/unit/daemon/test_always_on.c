/*
 * What is always on, by configuration and operators; the file that keeps it; and the audit log's lines
 * and file, above a disk that fails at each call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/always_on.h"
#include "daemon/access/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "kmod/uapi/ringtail.h"
#include "query/visible.h"

static const struct config_words config = {.word = {(char *)"a:b", (char *)"c:d"}, .count = 2};

/* "a:b(config) e:f(user:root)". */
static const char *listed(const struct always_on *on)
{
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	static char text[4096];
	size_t n = always_on_list(on, &config, 7, list);

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		sprintf(text + strlen(text), "%s%s(%s)", i ? " " : "", list[i].spec, list[i].by);
	return text;
}

static void enable(struct always_on *on, const char *spec)
{
	assert_int_equal(always_on_enable(on, &config, spec, 0, "user:root", 5, NULL), 0);
}

static void disable(struct always_on *on, const char *spec)
{
	assert_int_equal(always_on_disable(on, &config, spec, "user:root", 5, NULL), 0);
}

static void test_enable_and_disable(void **state)
{
	struct always_on *on = always_on_create(), *copy;
	struct error error;

	(void)state;
	assert_string_equal(listed(on), "a:b(config) c:d(config)");
	enable(on, "e:f");
	enable(on, "e:f");
	enable(on, "a:b");
	assert_string_equal(listed(on), "a:b(config) c:d(config) e:f(user:root)");
	disable(on, "a:b");
	assert_string_equal(listed(on), "c:d(config) e:f(user:root)");
	assert_int_equal(always_on_disable(on, &config, "a:b", "x", 1, &error), -ENOENT);
	assert_string_equal(error.code, "not-enabled");
	copy = always_on_copy(on);
	enable(on, "a:b");
	disable(on, "e:f");
	assert_string_equal(listed(on), "a:b(config) c:d(config)");
	assert_string_equal(listed(copy), "c:d(config) e:f(user:root)");
	assert_int_equal(always_on_disable(copy, &config, "e:g", "x", 1, &error), -ENOENT);
	assert_non_null(strstr(error.hint, "e:f"));
	always_on_destroy(on);
	always_on_destroy(copy);
	always_on_destroy(NULL);
}

static void test_bounds(void **state)
{
	static const char *const bad[] = {"", "a b", "a\tb", "a\nb", "\xff", "a\x7f"};
	struct always_on *on = always_on_create();
	char spec[CONFIG_WORD_BYTES_MAX + 2];
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(always_on_enable(on, &config, bad[i], 0, "x", 1, &error), -EINVAL);
		assert_string_equal(error.code, "bad-probe");
	}
	memset(spec, 'a', sizeof(spec));
	spec[sizeof(spec) - 1] = '\0';
	assert_int_equal(always_on_enable(on, &config, spec, 0, "x", 1, &error), -EINVAL);
	for (unsigned i = 0; i < SUBSCRIBE_PROBES_MAX - 2; i++) {
		snprintf(spec, sizeof(spec), "p:%u", i);
		enable(on, spec);
	}
	assert_int_equal(always_on_enable(on, &config, "q:1", 0, "x", 1, &error), -EINVAL);
	assert_string_equal(error.code, "too-many-probes");
	always_on_destroy(on);
}

static void with(struct always_on *on, const char *spec, uint32_t flags)
{
	assert_int_equal(always_on_enable(on, &config, spec, flags, "user:root", 5, NULL), 0);
}

/* Flags stay with what they were asked for with, the configuration's too, in copies and in the file. */
static void test_flags(void **state)
{
	static const char damaged[] = "enable\t1\tx\ta:c\tstring\nenable\t1\tx\ta:d\t\nenable\t1\tx\ta:e\tfds,strings\n"
				      "disable\t1\tx\tc:d\tstrings\nenable\t1\tx\ta:f\tstrings\tfds\n";
	struct always_on_probe list[2 * SUBSCRIBE_PROBES_MAX];
	struct always_on *on = always_on_create(), *copy, *again = always_on_create();
	char *text;

	(void)state;
	with(on, "e:f", 0);
	assert_int_equal(always_on_flags(on), 0);
	with(on, "e:f", RT_FLAG_STRINGS);
	with(on, "a:b", RT_FLAG_FDS);
	assert_int_equal(always_on_flags(on), RT_FLAG_STRINGS | RT_FLAG_FDS);
	copy = always_on_copy(on);
	text = always_on_print(copy);
	assert_string_equal(text, "# ringtaild: what operators enabled and disabled\n"
				  "enable\t5\tuser:root\te:f\tstrings\nenable\t5\tuser:root\ta:b\tfds\n");
	assert_int_equal(always_on_parse(again, text, strlen(text)), 0);
	assert_string_equal(listed(again), "a:b(config) c:d(config) e:f(user:root)");
	assert_int_equal(always_on_list(again, &config, 7, list), 3);
	assert_int_equal(list[0].flags, RT_FLAG_FDS);
	assert_int_equal(list[1].flags, 0);
	assert_int_equal(list[2].flags, RT_FLAG_STRINGS);
	disable(again, "a:b");
	assert_string_equal(listed(again), "c:d(config) e:f(user:root)");
	assert_int_equal(always_on_flags(again), RT_FLAG_STRINGS);
	disable(again, "e:f");
	assert_int_equal(always_on_flags(again), 0);
	always_on_destroy(again);
	again = always_on_create();
	assert_int_equal(always_on_parse(again, damaged, strlen(damaged)), 3);
	assert_string_equal(listed(again), "a:b(config) a:e(x)");
	assert_int_equal(always_on_flags(again), RT_FLAG_STRINGS | RT_FLAG_FDS);
	free(text);
	always_on_destroy(on);
	always_on_destroy(copy);
	always_on_destroy(again);
}

static void test_file(void **state)
{
	struct always_on *on = always_on_create(), *again = always_on_create();
	static const char damaged[] = "# x\nenable\t1\tuser:root\ta:c\nenable\tx\ty\tb\n"
				      "enable\t1\ty\nremove\t1\ty\tz\nenable\t2\tz\ta:c\n"
				      "disable\t3\tuser:root\tc:d\nenable\t1\ty\ta b\nhalf a li";
	char *text, *same;

	(void)state;
	enable(on, "e:f*");
	disable(on, "c:d");
	text = always_on_print(on);
	assert_int_equal(always_on_parse(again, text, strlen(text)), 0);
	same = always_on_print(again);
	assert_string_equal(text, same);
	assert_string_equal(listed(again), "a:b(config) e:f*(user:root)");
	always_on_destroy(again);
	again = always_on_create();
	/* What is well written is taken, whatever stands around it. */
	assert_int_equal(always_on_parse(again, damaged, strlen(damaged)), 6);
	assert_string_equal(listed(again), "a:b(config) a:c(user:root)");
	always_on_destroy(on);
	always_on_destroy(again);
	free(text);
	free(same);
}

/* ---- Audit ---------------------------------------------------------------------------------------- */

static void test_line(void **state)
{
	char *const enable_list[] = {(char *)"syscall:\"x\\\n", (char *)"b"};
	struct audit_attempt attempt = {
		.realtime_ns = 1795203068617447372, .who = "user:root", .role = "operator",
		.peer = "unix pid 1 uid 0", .action = "change", .enable = enable_list, .enables = 2,
		.outcome = "allowed",
	};
	char *line = audit_line(&attempt);

	(void)state;
	assert_string_equal(line, "{\"time\":\"2026-11-20T19:31:08.617447Z\",\"who\":\"user:root\","
				  "\"role\":\"operator\",\"peer\":\"unix pid 1 uid 0\","
				  "\"action\":\"change\",\"enable\":[\"syscall:\\\"x\\\\\\u000a\","
				  "\"b\"],\"disable\":[],\"outcome\":\"allowed\"}\n");
	free(line);
	attempt.consumer = "nightly";
	attempt.action = "forget";
	line = audit_line(&attempt);
	assert_non_null(strstr(line, "\"action\":\"forget\",\"consumer\":\"nightly\",\"outcome\""));
	free(line);
}

/* As long as a request can be, and all of it to be escaped: a line about what is denied stays short. */
static void test_line_of_denied(void **state)
{
	static char *spec[64], long_spec[251], long_name[4096];
	struct audit_attempt attempt = {
		.realtime_ns = 1795203068617447372, .who = "user:eve", .role = "viewer",
		.peer = "unix pid 1 uid 2", .action = "change", .enable = spec, .enables = 64,
		.disable = spec, .disables = 4, .outcome = "not-allowed",
	};
	char *line;

	(void)state;
	memset(long_spec, '\x01', sizeof(long_spec) - 1);
	for (unsigned i = 0; i < 64; i++)
		spec[i] = i % 2 ? (char *)"syscall:*:call" : long_spec;
	line = audit_line(&attempt);
	assert_true(strlen(line) <= AUDIT_DENIED_BYTES_MAX);
	assert_non_null(strstr(line, "\\u0001...\",\"syscall:*:call\",\"\\u0001"));
	assert_non_null(strstr(line, "],\"enable_more\":61,\"disable\":["));
	assert_non_null(strstr(line, "],\"disable_more\":1,\"outcome\":\"not-allowed\"}\n"));
	free(line);
	/* Cut between two characters, not inside one. */
	for (unsigned i = 0; i + 2 < sizeof(long_name); i += 2)
		memcpy(long_name + i, "\xc3\xa9", 2);
	attempt.consumer = attempt.who = attempt.peer = long_name;
	line = audit_line(&attempt);
	assert_true(strlen(line) <= AUDIT_DENIED_BYTES_MAX);
	assert_true(visible_span(line, strlen(line)) == strlen(line) - 1);
	assert_non_null(strstr(line, "\xc3\xa9...\",\"outcome\""));
	free(line);
	/* What is allowed is written whole. */
	attempt.outcome = "allowed";
	line = audit_line(&attempt);
	assert_non_null(strstr(line, long_name));
	free(line);
	attempt.consumer = NULL;
	line = audit_line(&attempt);
	assert_null(strstr(line, "_more"));
	assert_null(strstr(line, "..."));
	assert_true(strlen(line) > 34 * (6 * (sizeof(long_spec) - 1) + strlen("syscall:*:call")));
	free(line);
	line = audit_line_of_more(1795203068617447372, "user:eve", 370);
	assert_string_equal(line, "{\"time\":\"2026-11-20T19:31:08.617447Z\",\"who\":\"user:eve\","
				  "\"denied_more\":370}\n");
	free(line);
}

/* A few of each in its time; the rest is counted, and told of once that is over. */
static void test_rate(void **state)
{
	static struct audit_rate rate = {.max = 2, .window_ns = 100};
	const char *who;
	uint64_t more;

	(void)state;
	assert_true(audit_rate_take(&rate, "user:a", 1000) && audit_rate_take(&rate, "user:a", 1001));
	assert_int_equal(audit_rate_due(&rate), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_false(audit_rate_take(&rate, "user:a", 1002 + i));
	assert_true(audit_rate_take(&rate, "user:b", 1010));
	assert_int_equal(audit_rate_due(&rate), 1100);
	assert_null(audit_rate_next(&rate, 1099, &more));
	who = audit_rate_next(&rate, 1100, &more);
	assert_string_equal(who, "user:a");
	assert_int_equal(more, 5);
	assert_null(audit_rate_next(&rate, 1100, &more));
	assert_true(audit_rate_take(&rate, "user:a", 1100));
	/* Nobody else's place is taken while it counts; those that find none share one. */
	for (unsigned i = 0; i < 3 * AUDIT_TALKERS_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "user:%u", i);
		assert_int_equal(audit_rate_take(&rate, name, 1101), i < AUDIT_TALKERS_MAX - 3 + 2);
	}
	who = audit_rate_next(&rate, UINT64_MAX, &more);
	assert_string_equal(who, "others");
	assert_int_equal(more, 3 * AUDIT_TALKERS_MAX - (AUDIT_TALKERS_MAX - 3 + 2));
	assert_true(audit_rate_take(&rate, "user:b", 1102));
	assert_false(audit_rate_take(&rate, "user:b", 1103));
	/* Who has nothing to tell any more makes room. */
	assert_true(audit_rate_take(&rate, "user:late", 1300));
}

/* Who has something to tell keeps its place until it is asked for, however long ago that was. */
static void test_rate_forgets_nobody(void **state)
{
	static struct audit_rate rate = {.max = 1, .window_ns = 100};
	unsigned told = 0;
	uint64_t more;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < AUDIT_TALKERS_MAX - 1; i++) {
		snprintf(name, sizeof(name), "user:%u", i);
		assert_true(audit_rate_take(&rate, name, 1000));
		assert_false(audit_rate_take(&rate, name, 1000));
	}
	assert_true(audit_rate_take(&rate, "user:late", 5000));
	assert_false(audit_rate_take(&rate, "user:later", 5000));
	assert_int_equal(audit_rate_due(&rate), 1100);
	/* In a window of its own it may speak again, and what it owes stays. */
	assert_true(audit_rate_take(&rate, "user:0", 5000));
	for (const char *who; (who = audit_rate_next(&rate, 6000, &more)); told++) {
		assert_int_equal(more, 1);
		assert_string_equal(who, told == AUDIT_TALKERS_MAX - 1 ? "others" : who);
	}
	assert_int_equal(told, AUDIT_TALKERS_MAX);
	assert_int_equal(audit_rate_due(&rate), 0);
	/* Those who owe nothing give way: others have counts of their own again, in the last places, too. */
	for (unsigned i = 0; i < AUDIT_TALKERS_MAX - 1; i++) {
		snprintf(name, sizeof(name), "user:x%u", i);
		assert_true(audit_rate_take(&rate, name, 7000));
	}
	assert_false(audit_rate_take(&rate, name, 7000));
	assert_int_equal(audit_rate_due(&rate), 7100);
}

/* The last place is nobody's own, be it free. */
static void test_rate_keeps_a_place_to_share(void **state)
{
	static struct audit_rate rate = {.max = 1, .window_ns = 100};
	const char *who = "";
	uint64_t more;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < AUDIT_TALKERS_MAX; i++) {
		snprintf(name, sizeof(name), "user:%u", i);
		assert_true(audit_rate_take(&rate, name, 1000));
		assert_false(audit_rate_take(&rate, name, 1000));
	}
	for (unsigned i = 0; i < AUDIT_TALKERS_MAX; i++)
		who = audit_rate_next(&rate, 1100, &more);
	assert_string_equal(who, "others");
}

/* ---- When it is told that more was denied ------------------------------------------------------- */

static uint64_t now_ns;			/* 0: the clock's */
static struct event *armed;
static uint64_t armed_ns;
static unsigned times_armed;
static char told[256];

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns ? now_ns : __real_clock_monotonic();
}

int __real_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in)
{
	if (in) {
		armed = event;
		armed_ns = (uint64_t)in->tv_sec * NS_PER_S + (uint64_t)in->tv_usec * 1000;
		times_armed++;
	}
	return __real_event_add(event, in);
}

static void note_line(enum log_level level, const char *code, const char *text)
{
	(void)level;
	strcat(strcat(strcat(told, code), ": "), text);
}

static void deny(struct audit_denials *denials, const char *who, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		assert_int_equal(audit_denials_take(denials, who), i < AUDIT_DENIED_MAX);
}

static void pass(struct event_base *base, uint64_t ns)
{
	told[0] = '\0';
	now_ns += ns;
	event_active(armed, EV_TIMEOUT, 0);
	event_base_loop(base, EVLOOP_NONBLOCK);
}

/* What was not written is told as a number once its time is over: each client's, and once. */
static void test_denied_more_is_told_in_time(void **state)
{
	static const struct log_sink sink = {note_line, __real_clock_monotonic};
	struct event_base *base = event_base_new();
	struct audit_denials *denials = audit_denials_create(base, NULL);

	(void)state;
	log_set_sink(&sink);
	now_ns = 1000 * NS_PER_S;
	deny(denials, "user:a", AUDIT_DENIED_MAX);
	assert_int_equal(times_armed, 0);	/* there is nothing to tell */
	deny(denials, "user:b", AUDIT_DENIED_MAX + 2);
	assert_int_equal(times_armed, 1);
	assert_int_equal(armed_ns, AUDIT_DENIED_NS + 1000);
	now_ns += 10 * NS_PER_S;
	deny(denials, "user:c", AUDIT_DENIED_MAX + 3);
	assert_int_equal(times_armed, 1);
	pass(base, AUDIT_DENIED_NS - 10 * NS_PER_S);
	assert_string_equal(told, "audit-denied: 2 more attempts of user:b were denied");
	assert_int_equal(times_armed, 2);
	assert_int_equal(armed_ns, 10 * NS_PER_S + 1000);
	pass(base, 10 * NS_PER_S);
	assert_string_equal(told, "audit-denied: 3 more attempts of user:c were denied");
	assert_int_equal(times_armed, 2);
	pass(base, AUDIT_DENIED_NS);
	assert_string_equal(told, "");
	audit_denials_destroy(denials);
	event_base_free(base);
	now_ns = 0;
}

/* A disk of one file, of which the fail_at-th call fails; a write may be short. */
struct small_disk {
	struct disk disk;
	unsigned calls, fail_at, opens, syncs, directory_syncs, renames;
	int rename_error;
	bool short_writes, exists, full;
	size_t bytes, old_bytes;
	char text[4096];
};

static int fails(struct disk *disk)
{
	struct small_disk *small = (struct small_disk *)disk;

	return ++small->calls == small->fail_at;
}

static int small_open(struct disk *disk, const char *path, int flags)
{
	struct small_disk *small = (struct small_disk *)disk;

	assert_string_equal(path, AUDIT_FILE);
	assert_int_equal(flags, O_WRONLY | O_CREAT | O_APPEND);
	if (fails(disk))
		return -EROFS;
	small->exists = true;
	small->opens++;
	return 0;
}

static int small_close(struct disk *disk, int file)
{
	assert_int_equal(file, 0);
	((struct small_disk *)disk)->opens--;
	return 0;
}

static ssize_t small_write(struct disk *disk, int file, const void *bytes, size_t n)
{
	struct small_disk *small = (struct small_disk *)disk;

	(void)file;
	if (fails(disk))
		return -ENOSPC;
	if (small->full)
		return 0;
	n = small->short_writes && n > 10 ? 10 : n;
	memcpy(small->text + small->bytes, bytes, n);
	small->bytes += n;
	return (ssize_t)n;
}

static int small_sync(struct disk *disk, int file)
{
	(void)file;
	((struct small_disk *)disk)->syncs++;
	return fails(disk) ? -EIO : 0;
}

static int small_sync_directory(struct disk *disk, const char *path)
{
	(void)path;
	((struct small_disk *)disk)->directory_syncs++;
	return fails(disk) ? -EIO : 0;
}

static int small_rename(struct disk *disk, const char *from, const char *to)
{
	struct small_disk *small = (struct small_disk *)disk;

	assert_string_equal(from, AUDIT_FILE);
	assert_string_equal(to, AUDIT_FILE_OLD);
	small->renames++;
	if (fails(disk))
		return -EIO;
	if (small->rename_error)
		return small->rename_error;
	small->old_bytes = small->bytes;
	small->bytes = 0;
	return 0;
}

static int small_list(struct disk *disk, const char *path, disk_entry *entry, void *context)
{
	struct small_disk *small = (struct small_disk *)disk;

	(void)path;
	if (fails(disk))
		return -EIO;
	entry(context, "spool", 9);
	if (small->exists)
		entry(context, AUDIT_FILE, small->bytes);
	return 0;
}

static const struct disk_ops small_ops = {
	.open = small_open, .close = small_close, .write = small_write, .sync = small_sync,
	.rename = small_rename, .sync_directory = small_sync_directory, .list = small_list,
};

static void test_append(void **state)
{
	struct small_disk small = {.disk = {.ops = &small_ops}, .short_writes = true};
	struct audit_file file = {.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD};

	(void)state;
	assert_int_equal(audit_append(&file, &small.disk, "a line of some length\n"), 0);
	assert_int_equal(small.directory_syncs, 1);
	assert_int_equal(audit_append(&file, &small.disk, "another\n"), 0);
	assert_int_equal(small.syncs, 2);
	assert_int_equal(small.directory_syncs, 1);
	assert_int_equal(small.opens, 0);
	assert_memory_equal(small.text, "a line of some length\nanother\n", small.bytes);
	/* Beyond its bound it begins anew. */
	file.bytes = AUDIT_BYTES_MAX - 6;
	assert_int_equal(audit_append(&file, &small.disk, "third\n"), 0);
	assert_int_equal(small.renames, 0);
	assert_int_equal(file.bytes, AUDIT_BYTES_MAX);
	assert_int_equal(audit_append(&file, &small.disk, "fourth\n"), 0);
	assert_int_equal(small.renames, 1);
	assert_int_equal(small.bytes, 7);
	assert_int_equal(small.directory_syncs, 2);
}

/* What an earlier run left of the file counts, and is looked for once. */
static void test_append_after_a_restart(void **state)
{
	struct small_disk small = {.disk = {.ops = &small_ops}, .exists = true};
	struct audit_file file = {.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD};

	(void)state;
	small.bytes = 11;
	assert_int_equal(audit_append(&file, &small.disk, "first\n"), 0);
	assert_int_equal(file.bytes, 17);
	assert_int_equal(small.directory_syncs, 0);	/* its name was there */
	small.bytes = 0;
	assert_int_equal(audit_append(&file, &small.disk, "second\n"), 0);
	assert_int_equal(file.bytes, 24);
}

/* Somebody else has moved the full file: the line begins a new one. Any other failure refuses the line. */
static void test_append_to_a_file_that_is_full(void **state)
{
	struct small_disk small = {.disk = {.ops = &small_ops}, .rename_error = -EACCES};
	struct audit_file file = {.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD, .known = true,
				  .bytes = AUDIT_BYTES_MAX};

	(void)state;
	assert_int_equal(audit_append(&file, &small.disk, "refused\n"), -EACCES);
	assert_int_equal(small.bytes, 0);
	assert_int_equal(file.bytes, AUDIT_BYTES_MAX);
	small.rename_error = -ENOENT;
	assert_int_equal(audit_append(&file, &small.disk, "line\n"), 0);
	assert_int_equal(file.bytes, 5);
	assert_int_equal(small.directory_syncs, 1);
}

/* A disk that writes nothing, and does not say why: the line is refused, and nobody waits for ever. */
static void test_append_to_a_disk_that_writes_nothing(void **state)
{
	struct small_disk small = {.disk = {.ops = &small_ops}, .full = true};
	struct audit_file file = {.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD};

	(void)state;
	assert_int_equal(audit_append(&file, &small.disk, "line\n"), -EIO);
	assert_int_equal(audit_append(&file, &small.disk, "line\n"), -EIO);	/* nor the end of the torn one */
	assert_int_equal(small.syncs, 0);
	small.full = false;
	small.calls = 0;
	small.fail_at = 2;			/* after open: what ends the torn line */
	assert_int_equal(audit_append(&file, &small.disk, "line\n"), -ENOSPC);
	assert_int_equal(small.bytes, 0);
	small.calls = 0;
	small.fail_at = 2;
	assert_int_equal(audit_append(&file, &small.disk, "line\n"), -ENOSPC);
	assert_int_equal(audit_append(&file, &small.disk, "line\n"), 0);
	assert_memory_equal(small.text, "\nline\n", small.bytes);
}

/* Each call fails once: that line is refused, the next is whole, on a line of its own. */
static void test_append_fails(void **state)
{
	(void)state;
	for (unsigned fail_at = 1; fail_at <= 5; fail_at++) {
		struct small_disk small = {.disk = {.ops = &small_ops}, .fail_at = fail_at,
					   .short_writes = true};
		struct audit_file file = {.name = AUDIT_FILE, .name_old = AUDIT_FILE_OLD};
		bool failed = audit_append(&file, &small.disk, "0123456789abc\n") != 0;

		assert_true(failed);
		assert_int_equal(small.opens, 0);
		assert_int_equal(audit_append(&file, &small.disk, "whole\n"), 0);
		assert_true(small.bytes >= 6);
		assert_memory_equal(small.text + small.bytes - 6, "whole\n", 6);
		assert_true(small.bytes == 6 || small.text[small.bytes - 7] == '\n');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_enable_and_disable),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_line_of_denied),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_rate_forgets_nobody),
		cmocka_unit_test(test_rate_keeps_a_place_to_share),
		cmocka_unit_test(test_denied_more_is_told_in_time),
		cmocka_unit_test(test_append),
		cmocka_unit_test(test_append_after_a_restart),
		cmocka_unit_test(test_append_to_a_file_that_is_full),
		cmocka_unit_test(test_append_to_a_disk_that_writes_nothing),
		cmocka_unit_test(test_append_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
