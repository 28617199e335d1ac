/*
 * What is given to the export thread comes to the destination it is for, in order, and on that thread alone;
 * what changed there is reported once, however often it changed, and again where there was no memory for it;
 * and what is left at the end is given back. The senders are this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/export/thread.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/export_make.h"

#define TARGETS	3u

static struct export_sender_config made[EXPORTS_MAX];
static struct export_counts counts[EXPORTS_MAX];
static unsigned senders, destroyed, unmade;	/* unmade: the sender that there is no memory for, from 1 */
static char said[EXPORTS_MAX][256];		/* what each was given */
static const char *ca;
static pthread_t thread_of_orders;
static char thread_name[16];
static int thread_nice;
static bool signals_blocked, report_fails;

static unsigned number_of(const struct export_sender *sender)
{
	return (unsigned)((uintptr_t)sender - 1);
}

struct export_http *__real_export_http_create(struct event_base *base, const char *ca_file);
struct export_http *__wrap_export_http_create(struct event_base *base, const char *ca_file);
struct export_http *__wrap_export_http_create(struct event_base *base, const char *ca_file)
{
	ca = ca_file;
	return __real_export_http_create(base, ca_file);
}

struct export_sender *__wrap_export_sender_create(const struct export_sender_config *config);
struct export_sender *__wrap_export_sender_create(const struct export_sender_config *config)
{
	if (senders + 1 == unmade)
		return NULL;
	made[senders] = *config;
	said[senders][0] = '\0';
	counts[senders] = (struct export_counts){.requests = senders};
	return (struct export_sender *)(uintptr_t)++senders;
}

void __wrap_export_sender_destroy(struct export_sender *sender);
void __wrap_export_sender_destroy(struct export_sender *sender)
{
	destroyed += sender != NULL;
}

/* Each of these changes the counts, twice. */
__attribute__((format(printf, 2, 3)))
static void say(struct export_sender *sender, const char *format, ...)
{
	unsigned i = number_of(sender);
	size_t used = strlen(said[i]);
	sigset_t set;
	va_list args;

	va_start(args, format);
	vsnprintf(said[i] + used, sizeof(said[i]) - used, format, args);
	va_end(args);
	thread_of_orders = pthread_self();
	pthread_getname_np(pthread_self(), thread_name, sizeof(thread_name));
	thread_nice = getpriority(PRIO_PROCESS, (id_t)gettid());
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	signals_blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGCHLD);
	counts[i].taken++;
	failures_left = report_fails;
	report_fails = false;
	made[i].changed(made[i].context);
	made[i].changed(made[i].context);
}

void __wrap_export_sender_frame(struct export_sender *sender, uint64_t serial, const uint8_t *frame, size_t bytes,
				uint64_t events);
void __wrap_export_sender_frame(struct export_sender *sender, uint64_t serial, const uint8_t *frame, size_t bytes,
				uint64_t events)
{
	say(sender, "frame %u of %.*s with %u ", (unsigned)serial, (int)bytes, (const char *)frame, (unsigned)events);
}

void __wrap_export_sender_metrics(struct export_sender *sender, const struct metric_snapshot *snapshot);
void __wrap_export_sender_metrics(struct export_sender *sender, const struct metric_snapshot *snapshot)
{
	say(sender, "metrics of %u ", (unsigned)snapshot->points);
}

void __wrap_export_sender_flush(struct export_sender *sender);
void __wrap_export_sender_flush(struct export_sender *sender)
{
	say(sender, "flush ");
}

const struct export_counts *__wrap_export_sender_counts(struct export_sender *sender);
const struct export_counts *__wrap_export_sender_counts(struct export_sender *sender)
{
	return &counts[number_of(sender)];
}

static unsigned snapshots;	/* that somebody has */

void __wrap_metric_snapshot_destroy(const struct metric_snapshot *snapshot);
void __wrap_metric_snapshot_destroy(const struct metric_snapshot *snapshot)
{
	snapshots -= snapshot != NULL;
}

/* ---- The main thread ------------------------------------------------------------------------- */

struct fixture {
	struct export_host *host;
	struct export_targets targets;
	struct mailbox reports;
	struct export_thread_config config;
	struct export_thread *thread;
	unsigned reported[TARGETS];
	struct export_counts last[TARGETS];
};

static int make(void **state)
{
	static char *header[] = {(char *)"a: b", (char *)"c: d"};
	struct fixture *f = calloc(1, sizeof(*f));
	struct error error;

	senders = destroyed = unmade = 0;
	f->host = make_host(1, NULL);
	assert_int_equal(mailbox_init(&f->reports), 0);
	f->targets.count = TARGETS;
	for (unsigned i = 0; i < TARGETS; i++) {
		struct export_target *target = &f->targets.target[i];

		target->kind = export_kinds[i];
		snprintf(target->name, sizeof(target->name), "name %u", i);
		target->url = i ? (char *)"http://b" : (char *)"http://a";
	}
	f->targets.target[1].header[0] = header[0];
	f->targets.target[1].header[1] = header[1];
	f->targets.target[1].headers = 2;
	f->config = (struct export_thread_config){
		.host = f->host, .targets = &f->targets, .ca_file = "ca", .queue_bytes_max = 11, .timeout_ns = 12,
		.events_per_s = 13, .spooled = true, .reports = &f->reports,
	};
	assert_int_equal(export_thread_start(&f->config, &f->thread, &error), 0);
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *f = *state;

	export_thread_stop(f->thread);
	for (struct mail *mail = mailbox_take(&f->reports), *next; mail; mail = next) {
		next = mail->next;
		free(mail);
	}
	mailbox_fini(&f->reports);
	export_host_destroy(f->host);
	free(f);
	return 0;
}

/* Until that destination says that it has been told so often; counts the reports. */
static void wait_for(struct fixture *f, unsigned target, uint64_t taken)
{
	while (f->last[target].taken < taken) {
		struct pollfd readable = {.fd = mailbox_fd(&f->reports), .events = POLLIN};

		assert_int_equal(poll(&readable, 1, 20000), 1);
		for (struct mail *mail = mailbox_take(&f->reports), *next; mail; mail = next) {
			const struct export_report *report = (const struct export_report *)mail;

			next = mail->next;
			assert_true(report->target < TARGETS);
			f->reported[report->target]++;
			f->last[report->target] = report->counts;
			free(mail);
		}
	}
}

static void each_sender_is_its_destination(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(senders, TARGETS);
	assert_string_equal(ca, "ca");
	for (unsigned i = 0; i < TARGETS; i++) {
		assert_non_null(made[i].base);
		assert_non_null(made[i].http);
		assert_ptr_equal(made[i].host, f->host);
		assert_ptr_equal(made[i].kind, export_kinds[i]);
		assert_ptr_equal(made[i].name, f->targets.target[i].name);
		assert_string_equal(made[i].url, i ? "http://b" : "http://a");
		assert_int_equal(made[i].headers_count, i == 1 ? 2 : 0);
		assert_true(i != 1 || !strcmp(made[i].headers[1], "c: d"));
		assert_int_equal(made[i].queue_bytes_max, 11);
		assert_int_equal(made[i].timeout_ns, 12);
		assert_int_equal(made[i].events_per_s, 13);
		assert_true(made[i].spooled);
	}
	export_thread_stop(f->thread);
	f->thread = NULL;
	assert_int_equal(destroyed, TARGETS);
}

static void what_is_given_comes_there_in_order(void **state)
{
	const struct metric_snapshot snapshot = {.points = 9};
	struct fixture *f = *state;

	snapshots = 1;
	assert_int_equal(export_thread_give(f->thread, 0, 1, (const uint8_t *)"abc", 3, 30), 0);
	assert_int_equal(export_thread_give(f->thread, 1, 1, (const uint8_t *)"d", 1, 10), 0);
	assert_int_equal(export_thread_give(f->thread, 0, 2, (const uint8_t *)"ef", 2, 20), 0);
	assert_int_equal(export_thread_give_metrics(f->thread, 2, &snapshot), 0);
	assert_int_equal(export_thread_flush(f->thread), 0);
	wait_for(f, 2, 2);
	wait_for(f, 1, 2);
	wait_for(f, 0, 3);
	assert_int_equal(snapshots, 0);
	assert_string_equal(said[0], "frame 1 of abc with 30 frame 2 of ef with 20 flush ");
	assert_string_equal(said[1], "frame 1 of d with 10 flush ");
	assert_string_equal(said[2], "metrics of 9 flush ");
	for (unsigned i = 0; i < TARGETS; i++)
		assert_int_equal(f->last[i].requests, i);
	assert_false(pthread_equal(thread_of_orders, pthread_self()));
	assert_string_equal(thread_name, "ringtail-export");
	if (getpriority(PRIO_PROCESS, 0) < 10)
		assert_int_equal(thread_nice, 10);
	assert_true(signals_blocked);
}

/* Nobody else has news. */
static void one_report_for_many_changes(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(export_thread_give(f->thread, 1, i, (const uint8_t *)"", 0, 0), 0);
		wait_for(f, 1, i);
		assert_int_equal(f->reported[1], i);
	}
	assert_int_equal(f->reported[0] + f->reported[2], 0);
	assert_int_equal(export_thread_give(f->thread, 2, 1, (const uint8_t *)"", 0, 0), 0);
	wait_for(f, 2, 1);
	assert_int_equal(f->reported[1], 3);
}

static void no_memory_for_a_report(void **state)
{
	struct fixture *f = *state;

	report_fails = true;
	assert_int_equal(export_thread_give(f->thread, 1, 1, (const uint8_t *)"", 0, 0), 0);
	wait_for(f, 1, 1);
	assert_int_equal(f->reported[1], 1);
}

static void no_memory_for_an_order(void **state)
{
	const struct metric_snapshot snapshot = {.points = 9};
	struct fixture *f = *state;

	failures_left = 3;
	assert_int_equal(export_thread_give(f->thread, 0, 1, (const uint8_t *)"a", 1, 1), -ENOMEM);
	assert_int_equal(export_thread_give_metrics(f->thread, 0, &snapshot), -ENOMEM);
	assert_int_equal(export_thread_flush(f->thread), -ENOMEM);
	assert_int_equal(export_thread_give(f->thread, 0, 1, (const uint8_t *)"b", 1, 2), 0);
	wait_for(f, 0, 1);
	assert_string_equal(said[0], "frame 1 of b with 2 ");
}

/* Whatever has not been taken when it ends is given back. */
static void stopped_with_orders_left(void **state)
{
	const struct metric_snapshot snapshot = {.points = 9};
	struct fixture *f = *state;

	snapshots = 20;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(export_thread_give_metrics(f->thread, 2, &snapshot), 0);
	export_thread_stop(f->thread);
	f->thread = NULL;
	assert_int_equal(snapshots, 0);
	export_thread_stop(NULL);
}

static void no_memory_for_the_thread(void **state)
{
	struct fixture *f = *state;
	struct export_thread *thread = NULL;
	struct error error;

	for (unmade = senders + 1; unmade <= 2 * TARGETS; unmade++) {
		destroyed = 0;
		senders = TARGETS;
		assert_int_equal(export_thread_start(&f->config, &thread, &error), -ENOMEM);
		assert_string_equal(error.code, "out-of-memory");
		assert_int_equal(destroyed, unmade - 1 - TARGETS);
	}
	unmade = 0;
	failures_left = 1;
	assert_int_equal(export_thread_start(&f->config, &thread, &error), -ENOMEM);
	assert_null(thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		TEST(each_sender_is_its_destination),
		TEST(what_is_given_comes_there_in_order),
		TEST(one_report_for_many_changes),
		TEST(no_memory_for_a_report),
		TEST(no_memory_for_an_order),
		TEST(stopped_with_orders_left),
		TEST(no_memory_for_the_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
