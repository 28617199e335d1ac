/*
 * The questions of the configuration, over a whole engine: what each counts becomes metrics, exactly; all series of a
 * question together are all its events; a new configuration keeps what has not changed; what is wrong with one is said
 * before it is in force.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/ask/asks.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/metrics/format.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_engine.h"

#define CALLS	"syscall:getppid:call"
#define OPENS	"syscall:openat:call"

static struct engine e;
static struct asks *asks;
static struct error error;
static char told[64 << 10];		/* the metrics */

/* The last error that was logged. */
static char logged_code[48], logged[512];

static void on_log(enum log_level level, const char *code, const char *text)
{
	if (level != LOG_LEVEL_ERROR)
		return;
	snprintf(logged_code, sizeof(logged_code), "%s", code);
	snprintf(logged, sizeof(logged), "%s", text);
}

/* Probes that were to be made, one behind the other. */
static char made[512];

void __real_fanout_make_now(struct fanout *fanout, const char *spec);
void __wrap_fanout_make_now(struct fanout *fanout, const char *spec);
void __wrap_fanout_make_now(struct fanout *fanout, const char *spec)
{
	size_t n = strlen(made);

	snprintf(made + n, sizeof(made) - n, "%s;", spec);
	__real_fanout_make_now(fanout, spec);
}

static struct asks_config config_of(bool somebody_is_told)
{
	return (struct asks_config){.told = somebody_is_told, .watch = {
		.base = e.base, .fanout = e.fanout, .codec = e.codec, .catalog = small_catalog_get()}};
}

static int open_asks(void **state)
{
	static const struct log_sink sink = {.write = on_log, .now_ns = clock_monotonic};
	struct asks_config config;

	(void)state;
	engine_open(&e, 2, 1, 8);
	log_set_sink(&sink);
	*logged_code = '\0';
	config = config_of(true);
	asks = asks_create(&config);
	assert_non_null(asks);
	return 0;
}

static int close_asks(void **state)
{
	(void)state;
	asks_destroy(asks);
	engine_close(&e);
	return 0;
}

/* ---- What is asked, and told -------------------------------------------------------------------------- */

#define QUESTIONS(...) (struct config){.ask = {.word = {__VA_ARGS__}, \
					       .count = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)}}
#define SET(...) set(&QUESTIONS(__VA_ARGS__))
#define CHECK(...) check(&QUESTIONS(__VA_ARGS__))

static int set(const struct config *config)
{
	error = (struct error){0};
	return asks_set(asks, config, &error);
}

static int check(const struct config *config)
{
	error = (struct error){0};
	return asks_check(asks, config, &error);
}

static bool same_labels(const struct metric_point *a, const struct metric_point *b)
{
	bool same = a->labels == b->labels;

	for (uint32_t i = 0; same && i < a->labels; i++)
		same = strcmp(a->label[i].name, b->label[i].name) == 0 && strcmp(a->label[i].value, b->label[i].value) == 0;
	return same;
}

/* No series comes twice, and a histogram has as many values as its buckets. */
static void check_family(const struct metric_family *family)
{
	for (const struct metric_point *point = family->first; point; point = point->next) {
		uint64_t count = 0;

		for (const struct metric_point *other = point->next; other; other = other->next)
			if (same_labels(point, other))
				fail_msg("twice in %s: %s", family->name, point->label[0].value);
		if (family->type != METRIC_HISTOGRAM)
			continue;
		for (unsigned i = 0; i < METER_BUCKETS; i++)
			count += point->histogram->bucket[i];
		assert_int_equal(point->histogram->count, count);
	}
}

static void tell(void)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	FILE *out = fmemopen(told, sizeof(told), "w");
	const struct metric_snapshot *snapshot;

	assert_true(builder && out);
	memset(told, 0, sizeof(told));
	asks_tell(asks, builder);
	snapshot = metric_builder_end(builder, 2, 1);
	assert_non_null(snapshot);
	assert_int_equal(snapshot->dropped, 0);
	for (const struct metric_family *family = snapshot->first; family; family = family->next)
		check_family(family);
	assert_int_equal(metric_format_write(snapshot, METRIC_PROMETHEUS, out), 0);
	fclose(out);
	metric_snapshot_destroy(snapshot);
}

/* A whole line of it. */
static bool is_told(const char *line)
{
	size_t n = strlen(line);

	for (const char *at = told; (at = strstr(at, line)); at++)
		if ((at == told || at[-1] == '\n') && at[n] == '\n')
			return true;
	return false;
}

#define assert_told(line) do { if (!is_told(line)) fail_msg("no %s in %s", line, told); } while (0)
#define assert_untold(text) do { if (strstr(told, text)) fail_msg("%s in %s", text, told); } while (0)

static bool tell_live(const char *name)
{
	char line[128];

	snprintf(line, sizeof(line), "ringtail_ask_live{ask=\"%s\"} 1", name);
	tell();
	return is_told(line);
}

static void await_live(const char *name)
{
	PEER_AWAIT(e.base, tell_live(name));
}

static void write_calls(uint32_t tid, uint16_t probe, uint64_t duration, int64_t ret, unsigned calls)
{
	const uint64_t payload[6] = {duration, (uint64_t)ret};
	struct ring_writer_record record = {.probe = probe, .tid = tid, .payload = payload,
					    .words = probe == SMALL_GETPPID ? 2 : 6};

	for (unsigned i = 0; i < calls; i++)
		assert_int_equal(ring_writer_write(e.writer[i % ENGINE_RINGS], &record), 0);
}

static bool records(unsigned probe)
{
	return e.loader.request.probes[probe / 8] >> probe % 8 & 1;
}

/* ---- Answers --------------------------------------------------------------------------------------------- */

static void without_questions_nothing_is_told(void **state)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	const struct metric_snapshot *snapshot;

	(void)state;
	asks_tell(NULL, builder);
	asks_tell(asks, builder);
	snapshot = metric_builder_end(builder, 2, 1);
	assert_int_equal(snapshot->points, 0);
	metric_snapshot_destroy(snapshot);
	assert_int_equal(set(&(struct config){0}), 0);
	tell();
	assert_untold("ask");
}

/* By each of its fields, in their order; what has no row of its own is with the others. */
static void each_event_is_counted_by_its_key(void **state)
{
	(void)state;
	assert_int_equal(SET("by-two: count " CALLS " by tid,error top 2", "all: count " CALLS), 0);
	await_live("by-two");
	await_live("all");
	write_calls(7, SMALL_GETPPID, 100, 5, 10);
	write_calls(7, SMALL_GETPPID, 100, -13, 20);
	write_calls(8, SMALL_GETPPID, 100, 5, 4);
	write_calls(7, SMALL_OPENAT, 100, 5, 4);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"by-two\",tid=\"7\",error=\"\"} 10");
	assert_told("ringtail_ask_events_total{ask=\"by-two\",tid=\"7\",error=\"EACCES\"} 20");
	assert_told("ringtail_ask_events_total{ask=\"by-two\",tid=\"(others)\",error=\"(others)\"} 4");
	assert_told("ringtail_ask_events_total{ask=\"all\"} 34");
	assert_untold("ask=\"all\",");
	assert_untold("tid=\"8\"");
	assert_told("ringtail_ask_residual{ask=\"by-two\"} 0");
	assert_told("ringtail_ask_residual{ask=\"all\"} 0");
	assert_told("ringtail_ask_lost_total{stage=\"ring\",reason=\"ring_full\",ask=\"all\"} 0");
	assert_untold("ringtail_ask_errors_total");
	assert_untold("ringtail_ask_sum_total");
	assert_untold("ringtail_ask_seconds_total");
	assert_untold("ringtail_ask_duration_seconds");
	/* A busier key takes a place; what the other had joins the others, and nothing goes back. */
	write_calls(8, SMALL_GETPPID, 100, 5, 200);
	engine_settle(&e);
	tell();
	tell();
	assert_told("ringtail_ask_events_total{ask=\"by-two\",tid=\"8\",error=\"\"} 0");
	assert_told("ringtail_ask_events_total{ask=\"by-two\",tid=\"(others)\",error=\"(others)\"} 214");
	engine_check_ledger(&e);
}

/* The same events, as questions of each shape have them. */
static void a_question_is_told_as_its_shape_has_it(void **state)
{
	(void)state;
	assert_int_equal(SET("count: count " CALLS, "sum: count " CALLS " of ret", "time: count " CALLS " of duration",
			     "hist: hist " CALLS, "summary: summary " CALLS), 0);
	await_live("summary");
	await_live("hist");
	write_calls(7, SMALL_GETPPID, 1000000000, 21, 3);
	write_calls(7, SMALL_GETPPID, 500000000, -2, 4);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"count\"} 7");
	assert_told("ringtail_ask_events_total{ask=\"sum\"} 7");
	assert_told("ringtail_ask_events_total{ask=\"time\"} 7");
	assert_told("ringtail_ask_events_total{ask=\"hist\"} 7");
	assert_told("ringtail_ask_events_total{ask=\"summary\"} 7");
	assert_told("ringtail_ask_errors_total{ask=\"summary\"} 4");
	assert_untold("ringtail_ask_errors_total{ask=\"hist\"");
	assert_untold("ringtail_ask_errors_total{ask=\"count\"");
	/* A result below 0 is an error, and no number. */
	assert_told("ringtail_ask_sum_total{ask=\"sum\"} 63");
	assert_untold("ringtail_ask_sum_total{ask=\"time\"");
	assert_untold("ringtail_ask_sum_total{ask=\"count\"");
	assert_told("ringtail_ask_seconds_total{ask=\"time\"} 5");
	assert_untold("ringtail_ask_seconds_total{ask=\"sum\"");
	assert_untold("ringtail_ask_seconds_total{ask=\"hist\"");
	for (unsigned i = 0; i < 2; i++) {
		char line[128];
		const char *name = i ? "summary" : "hist";

		snprintf(line, sizeof(line), "ringtail_ask_duration_seconds_count{ask=\"%s\"} 7", name);
		assert_told(line);
		snprintf(line, sizeof(line), "ringtail_ask_duration_seconds_sum{ask=\"%s\"} 5", name);
		assert_told(line);
		snprintf(line, sizeof(line), "ringtail_ask_duration_seconds_bucket{ask=\"%s\",le=\"+Inf\"} 7", name);
		assert_told(line);
	}
	assert_untold("ringtail_ask_duration_seconds_count{ask=\"time\"");
	/* A call that does not return is one, and has no duration. */
	write_calls(7, SMALL_GETPPID, RT_DURATION_NEVER, 0, 1);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"hist\"} 8");
	assert_told("ringtail_ask_duration_seconds_count{ask=\"hist\"} 7");
	assert_told("ringtail_ask_seconds_total{ask=\"time\"} 5");
}

/* ---- Where it is counted ----------------------------------------------------------------------------------- */

static bool may_be_counted(unsigned probe)
{
	return e.loader.request.counted[probe / 8] >> probe % 8 & 1;
}

static bool tells(const char *line)
{
	tell();
	return is_told(line);
}

/* How many calls there are, the producer may count, and so it may by what is the same for all calls of a ring. */
static void what_asks_no_more_is_counted_by_the_producer(void **state)
{
	(void)state;
	assert_int_equal(SET("all: count " CALLS, "names: count " CALLS " by function,cpu"), 0);
	await_live("all");
	await_live("names");
	assert_true(records(SMALL_GETPPID) && may_be_counted(SMALL_GETPPID));
	ring_writer_count(e.writer[0], SMALL_GETPPID, 30, 4);
	ring_writer_count(e.writer[1], SMALL_GETPPID, 1, 0);
	write_calls(7, SMALL_GETPPID, 100, 5, 6);
	PEER_AWAIT(e.base, tells("ringtail_ask_events_total{ask=\"all\"} 41"));
	PEER_AWAIT(e.base, tells("ringtail_ask_events_total{ask=\"names\",function=\"getppid\",cpu=\"0\"} 37"));
	assert_told("ringtail_ask_events_total{ask=\"names\",function=\"getppid\",cpu=\"5\"} 4");
	assert_told("ringtail_ask_residual{ask=\"all\"} 0");
	assert_told("ringtail_ask_residual{ask=\"names\"} 0");
	assert_int_equal(counter_read(COUNTER_ask_events_uncounted), 0);
	engine_check_ledger(&e);
	/* Of each of these somebody asks more. */
	assert_int_equal(SET("all: count " CALLS, "more: count " CALLS " by tid"), 0);
	await_live("more");
	PEER_AWAIT(e.base, !may_be_counted(SMALL_GETPPID));
	assert_int_equal(SET("all: count " CALLS, "more: count " CALLS " of ret"), 0);
	await_live("more");
	assert_false(may_be_counted(SMALL_GETPPID));
	assert_int_equal(SET("all: count " CALLS, "more: summary " CALLS " by function"), 0);
	await_live("more");
	assert_false(may_be_counted(SMALL_GETPPID));
}

/* The lines of one question that begin so, each without the question's name, sorted by their place in the text. */
static unsigned lines_of(const char *metric, const char *ask, char lines[4096])
{
	char begin[128];
	size_t n, bytes = 0;
	unsigned found = 0;

	n = (size_t)snprintf(begin, sizeof(begin), "\n%s{ask=\"%s\"", metric, ask);
	for (const char *at = told; (at = strstr(at, begin)); at += n) {
		const char *end = strchr(at + n, '\n');

		assert_true(end && bytes + (size_t)(end - at) < 4096);
		memcpy(lines + bytes, at + n, (size_t)(end - at) - n);
		bytes += (size_t)(end - at) - n;
		lines[bytes++] = '\n';
		found++;
	}
	lines[bytes] = '\0';
	return found;
}

static int by_line(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_lines(char lines[4096])
{
	char copy[4096], *line[128], *rest = copy;
	unsigned n = 0;

	strcpy(copy, lines);
	while ((line[n] = strsep(&rest, "\n")) && n < 127)
		n++;
	qsort(line, n, sizeof(*line), by_line);
	*lines = '\0';
	for (unsigned i = 0; i < n; i++)
		strcat(strcat(lines, line[i]), "\n");
}

static void write_many_calls(void)
{
	const uint64_t open[3][6] = {{100, 3, (uint64_t)-100, 0x1000, 0, 0},
				     {100, (uint64_t)-2, (uint64_t)-100, 0x2000, 0102, 0644},
				     {RT_DURATION_NEVER, 0, 4, 0x1000, 0102, 0600}};

	for (unsigned i = 0; i < 120; i++) {
		struct ring_writer_record record = {.probe = SMALL_OPENAT, .tid = 7 + i % 2, .payload = open[i % 7 % 3],
						    .words = 6};

		assert_int_equal(ring_writer_write(e.writer[i % 5 % ENGINE_RINGS], &record), 0);
		write_calls(9, SMALL_GETPPID, i, i % 4 ? 5 : -13, i % 3);
	}
}

/* Whether the workers count, or each event is decoded here, as for a sum, nobody can tell. */
static void both_ways_tell_the_same(void **state)
{
	static const char *const by[] = {"", "by function,error,tid", "by probe,cpu", "by comm,pid,uid", "by dfd,flags,mode",
					 "by filename,ret", "by duration", "by exe,unit,container"};
	char early[4096], late[4096], counted[128], decoded[128];
	uint64_t uncounted = counter_read(COUNTER_ask_events_uncounted);

	(void)state;
	for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		snprintf(counted, sizeof(counted), "early: count %s,%s %s top 100", CALLS, OPENS, by[i]);
		snprintf(decoded, sizeof(decoded), "late: count %s,%s %s of ret top 100", CALLS, OPENS, by[i]);
		assert_int_equal(SET(counted, decoded), 0);
		await_live("early");
		await_live("late");
		write_many_calls();
		engine_settle(&e);
		tell();
		assert_int_equal(lines_of("ringtail_ask_events_total", "early", early),
				 lines_of("ringtail_ask_events_total", "late", late));
		sort_lines(early);
		sort_lines(late);
		assert_string_equal(early, late);
		assert_true(*early && (i == 0 || strstr(early, "(others)")));
		assert_told("ringtail_ask_residual{ask=\"early\"} 0");
		assert_int_equal(counter_read(COUNTER_ask_events_uncounted), uncounted);
	}
}

/* A question of strings has them recorded; one whose filter asks for less has less. */
static void a_question_asks_for_what_it_takes(void **state)
{
	(void)state;
	assert_int_equal(SET("few: count " CALLS " where ret > 10"), 0);
	await_live("few");
	assert_true(records(SMALL_GETPPID) && !records(SMALL_OPENAT));
	assert_int_equal(e.loader.request.flags & RT_FLAG_STRINGS, 0);
	write_calls(7, SMALL_GETPPID, 100, 10, 6);
	write_calls(7, SMALL_GETPPID, 100, 11, 2);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"few\"} 2");
	assert_int_equal(SET("names: count " CALLS "," OPENS " by filename"), 0);
	await_live("names");
	assert_true(records(SMALL_GETPPID) && records(SMALL_OPENAT));
	assert_true(e.loader.request.flags & RT_FLAG_STRINGS);
}

static void what_was_lost_is_told_beside(void **state)
{
	(void)state;
	assert_int_equal(SET("all: count " CALLS), 0);
	await_live("all");
	write_calls(7, SMALL_GETPPID, 100, 5, 4);
	ring_writer_lose(e.writer[0], RT_LOST_FULL, 9);
	write_calls(7, SMALL_GETPPID, 100, 5, 4);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"all\"} 8");
	assert_told("ringtail_ask_lost_total{stage=\"ring\",reason=\"ring_full\",ask=\"all\"} 9");
	assert_told("ringtail_ask_residual{ask=\"all\"} 0");
}

/* ---- Configurations --------------------------------------------------------------------------------------- */

/* What has not changed counts on; what has begins anew, also where its name stays; what is gone is not recorded. */
static void a_new_configuration_keeps_what_has_not_changed(void **state)
{
	(void)state;
	assert_int_equal(SET("count " CALLS, "same: count " CALLS " by tid", "other: count " CALLS, "opens: count " OPENS), 0);
	await_live("ask-1");
	await_live("opens");
	write_calls(7, SMALL_GETPPID, 100, 5, 8);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"ask-1\"} 8");
	/* A question without a name is called by its place. */
	assert_int_equal(SET("other: count " CALLS " of ret", "same: count " CALLS " by tid", "count " CALLS), 0);
	await_live("ask-3");
	await_live("other");
	PEER_AWAIT(e.base, !records(SMALL_OPENAT));
	write_calls(7, SMALL_GETPPID, 100, 5, 2);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"same\",tid=\"7\"} 10");
	assert_told("ringtail_ask_events_total{ask=\"other\"} 2");
	assert_told("ringtail_ask_events_total{ask=\"ask-3\"} 2");
	assert_untold("ask-1");
	assert_untold("opens");
	/* Its place stays: so does it. */
	assert_int_equal(SET("count " OPENS, "third: count " CALLS, "count " CALLS), 0);
	await_live("third");
	write_calls(7, SMALL_GETPPID, 100, 5, 2);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"ask-3\"} 4");
	assert_told("ringtail_ask_events_total{ask=\"third\"} 2");
	assert_int_equal(set(&(struct config){0}), 0);
	PEER_AWAIT(e.base, !records(SMALL_GETPPID));
	tell();
	assert_untold("ask");
}

/* Those before it are in force; those behind it are not, nor is anything of what was before. */
static void one_that_cannot_be_asked_ends_the_list(void **state)
{
	(void)state;
	assert_int_equal(SET("gone: count " CALLS, "kept: count " CALLS " by tid"), 0);
	await_live("kept");
	assert_int_equal(SET("kept: count " CALLS " by tid", "wrong: count syscall:nothing:call", "new: count " CALLS),
			 -ENOENT);
	assert_true(*error.code);
	tell();
	assert_told("ringtail_ask_live{ask=\"kept\"} 1");
	assert_untold("gone");
	assert_untold("wrong");
	assert_untold("new");
	write_calls(7, SMALL_GETPPID, 100, 5, 3);
	engine_settle(&e);
	assert_int_equal(SET("kept: count " CALLS " by tid", "new: count " CALLS), 0);
	await_live("new");
	write_calls(7, SMALL_GETPPID, 100, 5, 2);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"kept\",tid=\"7\"} 5");
	assert_told("ringtail_ask_events_total{ask=\"new\"} 2");
}

static void what_is_wrong_is_said_before(void **state)
{
	struct asks_config config = config_of(false);
	struct asks *untold = asks_create(&config);

	(void)state;
	*made = '\0';
	assert_int_equal(CHECK("a: count " CALLS "," OPENS, "b: hist " CALLS " by tid"), 0);
	assert_string_equal(made, CALLS ";" OPENS ";" CALLS ";");
	assert_int_equal(check(&(struct config){0}), 0);
	assert_int_equal(CHECK("a: count " CALLS, "a: hist " CALLS), -EINVAL);
	assert_int_equal(CHECK("a: count " CALLS, "b: counts " CALLS), -EINVAL);
	assert_true(error.column);
	assert_int_equal(CHECK("a: count " CALLS, "b: count syscall:nothing:call"), -ENOENT);
	assert_int_equal(CHECK("a: count " CALLS " by nothing"), -EINVAL);
	/* Nothing was put in force by that. */
	tell();
	assert_untold("ask");
	asks_destroy(asks);
	asks = untold;
	assert_int_equal(check(&(struct config){0}), 0);
	assert_int_equal(CHECK("a: count " CALLS), -EINVAL);
	assert_string_equal(error.code, "ask-untold");
	assert_string_equal(error.hint, "set http, or a back end that takes metrics");
	/* What is wrong with the text comes first. */
	assert_int_equal(CHECK("a: counts " CALLS), -EINVAL);
	assert_string_not_equal(error.code, "ask-untold");
}

/* The log names the question; the metrics say that it is not answered; the others are. */
static void a_refusal_of_the_kernel_is_logged(void **state)
{
	(void)state;
	e.loader.refuse_probe = SMALL_OPENAT;
	assert_int_equal(SET("calls: count " CALLS, "opens: count " OPENS), 0);
	PEER_AWAIT(e.base, *logged_code);
	assert_string_equal(logged_code, "ask-refused");
	assert_non_null(strstr(logged, "ask opens: nothing is recorded for it: the source cannot do that"));
	await_live("calls");
	tell();
	assert_told("ringtail_ask_live{ask=\"opens\"} 0");
	assert_told("ringtail_ask_events_total{ask=\"opens\"} 0");
	assert_told("ringtail_ask_lost_total{stage=\"ring\",reason=\"ring_full\",ask=\"opens\"} 0");
	assert_told("ringtail_ask_residual{ask=\"opens\"} 0");
}

/* Viewers' bounds are not the configuration's: it is an operator's. */
static void a_question_may_ask_for_anything(void **state)
{
	const struct viewer_bounds none = {0};

	(void)state;
	fanout_set_viewers(e.fanout, &none);
	assert_int_equal(SET("names: count " OPENS " by filename"), 0);
	await_live("names");
	fanout_set_viewers(e.fanout, &engine_viewers);
}

/* Whichever allocation fails, it is told, and the next time it works. */
static void without_memory_it_says_so(void **state)
{
	struct asks_config config = config_of(true);
	struct asks *one = NULL;

	(void)state;
	for (unsigned n = 0; !one; n++) {
		memory_fails_after(n);
		one = asks_create(&config);
		memory_suffices();
	}
	assert_int_equal(asks_set(one, &QUESTIONS("a: count " CALLS), &error), 0);
	asks_destroy(one);
	asks_destroy(NULL);
	for (int err = -1, n = 0; err; n++) {
		memory_fails_after((unsigned)n);
		err = SET("a: count " CALLS " by tid", "b: count " CALLS);
		memory_suffices();
		assert_true(!err || err == -ENOMEM);
		assert_int_equal(*error.code != 0, err != 0);
		tell();
		assert_int_equal(!is_told("ringtail_ask_residual{ask=\"b\"} 0"), err != 0);
	}
	await_live("b");
	write_calls(7, SMALL_GETPPID, 100, 5, 2);
	engine_settle(&e);
	tell();
	assert_told("ringtail_ask_events_total{ask=\"b\"} 2");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_asks, close_asks)
	const struct CMUnitTest tests[] = {
		TEST(without_questions_nothing_is_told),
		TEST(each_event_is_counted_by_its_key),
		TEST(a_question_is_told_as_its_shape_has_it),
		TEST(what_asks_no_more_is_counted_by_the_producer),
		TEST(both_ways_tell_the_same),
		TEST(a_question_asks_for_what_it_takes),
		TEST(what_was_lost_is_told_beside),
		TEST(a_new_configuration_keeps_what_has_not_changed),
		TEST(one_that_cannot_be_asked_ends_the_list),
		TEST(what_is_wrong_is_said_before),
		TEST(a_refusal_of_the_kernel_is_logged),
		TEST(a_question_may_ask_for_anything),
		TEST(without_memory_it_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
