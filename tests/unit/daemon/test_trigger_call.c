/*
 * A URL that a rule calls: what it is sent, when it is asked again and how often, and what is counted and logged of
 * each call, also of those that the daemon's end cuts off. What sends is this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/export/http.h"
#include "daemon/trigger/call.h"

#define CALLS 33

struct export_call {
	struct export_post post;
};

static struct event_base *base;
static struct trigger_calls *calls;
static struct export_call posted[CALLS];
static unsigned posts, cancelled;
static bool no_memory;
static long waits_s[CALLS];
static unsigned waits;
static struct event *timer;
static char said[256];
static uint64_t begun, answered, failed;	/* before the test */

struct export_http *__wrap_export_http_create(struct event_base *of, const char *ca_file);
struct export_http *__wrap_export_http_create(struct event_base *of, const char *ca_file)
{
	assert_ptr_equal(of, base);
	assert_string_equal(ca_file, "/etc/ca.pem");
	return (struct export_http *)&posts;
}

void __wrap_export_http_destroy(struct export_http *http);
void __wrap_export_http_destroy(struct export_http *http)
{
	assert_ptr_equal(http, &posts);
}

struct export_call *__wrap_export_http_post(struct export_http *http, const struct export_post *post);
struct export_call *__wrap_export_http_post(struct export_http *http, const struct export_post *post)
{
	assert_ptr_equal(http, &posts);
	assert_int_equal(post->timeout_ns, 10 * NS_PER_S);
	assert_int_equal(post->headers_count, 1);
	assert_string_equal(post->headers[0], "Content-Type: application/json");
	if (no_memory)
		return NULL;
	posted[posts].post = *post;
	return &posted[posts++];
}

void __wrap_export_http_cancel(struct export_call *call);
void __wrap_export_http_cancel(struct export_call *call)
{
	assert_true(call >= posted && call < posted + posts);
	cancelled++;
}

int __wrap_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after)
{
	timer = event;
	waits_s[waits++] = after->tv_sec;
	return 0;
}

/* Not log_write(), which passes only so many lines of a code. */
void __wrap_log_write(enum log_level level, const char *code, const char *format, ...);
void __wrap_log_write(enum log_level level, const char *code, const char *format, ...)
{
	va_list args;

	assert_int_equal(level, LOG_LEVEL_ERROR);
	assert_string_equal(code, "call-failed");
	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
}

static int setup(void **state)
{
	(void)state;
	base = event_base_new();
	calls = trigger_calls_create(base, "/etc/ca.pem", 10 * NS_PER_S);
	posts = waits = cancelled = 0;
	no_memory = false;
	said[0] = '\0';
	begun = counter_read(COUNTER_trigger_calls);
	answered = counter_read(COUNTER_trigger_calls_answered);
	failed = counter_read(COUNTER_trigger_calls_failed);
	return !base || !calls;
}

static int teardown(void **state)
{
	(void)state;
	trigger_calls_destroy(calls);
	event_base_free(base);
	return 0;
}

static void call(void)
{
	trigger_call(calls, &(struct trigger_call){
		.url = "https://pager/hook", .trigger = "slow", .rule = "slow: 'fsync' call https://pager/hook",
		.event = "fsync(\"a\\b\") by \x1b[2J", .fired_realtime_ns = 1700000000123456789,
	});
}

static void answer(unsigned i, struct export_answer answer)
{
	posted[i].post.done(posted[i].post.context, &answer);
}

static void time_passes(void)
{
	struct event *due = timer;

	timer = NULL;
	event_get_callback(due)(-1, EV_TIMEOUT, event_get_callback_arg(due));
}

static void expect(uint64_t more_begun, uint64_t more_answered, uint64_t more_failed)
{
	assert_int_equal(counter_read(COUNTER_trigger_calls) - begun, more_begun);
	assert_int_equal(counter_read(COUNTER_trigger_calls_answered) - answered, more_answered);
	assert_int_equal(counter_read(COUNTER_trigger_calls_failed) - failed, more_failed);
}

static void one_object_is_sent(void **state)
{
	const struct export_post *post = &posted[0].post;
	char *body;

	(void)state;
	call();
	assert_int_equal(posts, 1);
	assert_string_equal(post->url, "https://pager/hook");
	body = strndup((const char *)post->body, post->bytes);
	assert_memory_equal(body, "{\"time\":\"2023-11-14T22:13:20.123456Z\",\"host\":\"", 46);
	assert_non_null(strstr(body, "\"trigger\":\"slow\",\"rule\":\"slow: 'fsync' call https://pager/hook\","
				     "\"event\":\"fsync(\\\"a\\\\b\\\") by \\u001b[2J\",\"text\":\""));
	assert_non_null(strstr(body, ": ringtail's trigger slow fired: fsync(\\\"a\\\\b\\\") by \\u001b[2J\"}\n"));
	free(body);
	expect(1, 0, 0);
	answer(0, (struct export_answer){.status = 204, .sent = true});
	expect(1, 1, 0);
	assert_string_equal(said, "");
}

static void who_is_away_is_asked_again(void **state)
{
	(void)state;
	call();
	answer(0, (struct export_answer){.error = "Connection refused"});
	assert_int_equal(posts, 1);
	time_passes();
	assert_int_equal(posts, 2);
	assert_int_equal(posted[1].post.bytes, posted[0].post.bytes);
	answer(1, (struct export_answer){.status = 503, .sent = true});
	expect(1, 0, 0);
	time_passes();
	assert_int_equal(posts, 3);
	answer(2, (struct export_answer){.status = 200, .sent = true});
	assert_int_equal(waits, 2);
	assert_int_equal(waits_s[0], 1);
	assert_int_equal(waits_s[1], 4);
	expect(1, 1, 0);
}

static void three_times_at_most(void **state)
{
	(void)state;
	call();
	answer(0, (struct export_answer){.status = 429, .sent = true});
	time_passes();
	answer(1, (struct export_answer){.status = 408, .sent = true});
	time_passes();
	answer(2, (struct export_answer){.status = 500, .sent = true});
	assert_int_equal(posts, 3);
	assert_int_equal(waits, 2);
	assert_string_equal(said, "trigger slow: its URL was not told that it fired: it answered with status 500");
	expect(1, 0, 1);
}

static void who_refuses_is_not_asked_again(void **state)
{
	(void)state;
	call();
	answer(0, (struct export_answer){.status = 404, .sent = true});
	expect(1, 0, 1);
	call();
	answer(1, (struct export_answer){.status = 302, .sent = true});
	expect(2, 0, 2);
	call();
	answer(2, (struct export_answer){.mistrusted = true, .error = "certificate has expired"});
	assert_int_equal(posts, 3);
	assert_int_equal(waits, 0);
	assert_string_equal(said, "trigger slow: its URL was not told that it fired: certificate has expired");
	expect(3, 0, 3);
}

/* One waits for its answer, and one for its next try. */
static void the_end_cuts_them_off(void **state)
{
	(void)state;
	call();
	call();
	answer(0, (struct export_answer){.status = 503, .sent = true});
	trigger_calls_destroy(calls);
	calls = NULL;
	assert_int_equal(cancelled, 1);
	assert_string_equal(said, "trigger slow: its URL was not told that it fired: the daemon stopped");
	expect(2, 0, 2);
}

static void no_more_than_32_at_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CALLS; i++)
		call();
	assert_int_equal(posts, CALLS - 1);
	assert_non_null(strstr(said, "too many other calls are under way"));
	expect(CALLS, 0, 1);
	answer(7, (struct export_answer){.status = 200, .sent = true});
	call();
	assert_int_equal(posts, CALLS);
	expect(CALLS + 1, 1, 1);
}

static void without_memory_it_has_failed(void **state)
{
	(void)state;
	no_memory = true;
	call();
	assert_non_null(strstr(said, "out of memory"));
	expect(1, 0, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(one_object_is_sent), TEST(who_is_away_is_asked_again), TEST(three_times_at_most),
		TEST(who_refuses_is_not_asked_again), TEST(the_end_cuts_them_off), TEST(no_more_than_32_at_once),
		TEST(without_memory_it_has_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
