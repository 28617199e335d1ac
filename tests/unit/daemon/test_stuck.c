/*
 * Clients that ask which threads are in a system call, and a loader that answers by hand: each question
 * is put to it, one at a time; the answer is sorted, filtered and bounded, says what it leaves out, and
 * nothing that the loader may write into its file does harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/descriptor.h"
#include "daemon/collect/redaction.h"
#include "tests/unit/daemon/small_engine.h"

#define NOW_NS 1000000000000ull

static struct source_stuck_thread thread_in(uint32_t tid, uint64_t since_ns, const char *comm)
{
	struct source_stuck_thread thread = {
		.tid = tid, .pid = tid, .ppid = 1, .probe = SMALL_OPENAT, .state = 'S',
		.since_ns = since_ns, .arguments = 4, .argument = {(uint64_t)-100, 0x1000, 0, 0644},
		.frames = 2, .frame = {0xffffffff81000010, 0xffffffff81000000},
	};

	snprintf(thread.comm, sizeof(thread.comm), "%s", comm);
	return thread;
}

static void ask(struct peer *peer, uint64_t longer_than_ns, const char *filter)
{
	Ringtail__V1__StuckRequest request = RINGTAIL__V1__STUCK_REQUEST__INIT;

	request.longer_than_ns = longer_than_ns;
	request.filter = (char *)filter;
	peer_send(peer, FRAME_STUCK_REQUEST, &request);
}

static void await_question(struct engine *e, unsigned n)
{
	PEER_AWAIT(e->base, e->loader.stuck_questions == n);
}

/* Answers with a file of `threads` threads, of which it says that there are `said`. */
static void answer(struct engine *e, const struct source_stuck_thread *thread, uint64_t threads,
		   uint64_t said)
{
	struct loader_report report = {.event = LOADER_STUCK,
				       .stuck = {.now_ns = NOW_NS, .threads = said, .foreign = 3}};

	report.fd = descriptor_memory_file("test", false);
	assert_true(report.fd >= 0);
	assert_int_equal(write(report.fd, thread, threads * sizeof(*thread)),
			 (ssize_t)(threads * sizeof(*thread)));
	engine_report(&e->loader, report);
}

static void open_all(struct engine *e, struct peer **peer)
{
	engine_open(e, 1, 1, 8);
	*peer = engine_connect(e);
	peer_greet(*peer);
}

/* Longest first, then those of which only so much is known, then the others; what no filter passes is left. */
static void test_longest_first(void **state)
{
	struct source_stuck_thread thread[] = {
		thread_in(1, 900, "young"), thread_in(2, 0, "nobody knows"), thread_in(3, 100, "old"),
		thread_in(4, 0, "before"), thread_in(5, 50, "not asked for"),
	};
	Ringtail__V1__Stuck *stuck;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &peer);
	thread[3].before_ns = 500;
	ask(peer, 77, "comm != \"not asked for\" && dfd == -100");
	await_question(&e, 1);
	assert_int_equal(e.loader.stuck_longer_than_ns, 77);
	answer(&e, thread, 5, 5);
	stuck = peer_expect(peer, FRAME_STUCK);
	assert_int_equal(stuck->n_thread, 4);
	assert_int_equal(stuck->thread[0]->thread->tid, 3);
	assert_int_equal(stuck->thread[0]->since_ns, 100);
	assert_int_equal(stuck->thread[1]->thread->tid, 4);
	assert_int_equal(stuck->thread[1]->before_ns, 500);
	assert_int_equal(stuck->thread[1]->since_ns, 0);
	assert_int_equal(stuck->thread[2]->thread->tid, 1);
	assert_int_equal(stuck->thread[3]->thread->tid, 2);
	assert_int_equal(stuck->thread[0]->n_argument, 4);
	assert_int_equal(stuck->thread[0]->argument[3], 0644);
	assert_int_equal(stuck->thread[0]->n_frame, 2);
	assert_int_equal(stuck->thread[0]->frame[1], -16);
	assert_string_equal(stuck->thread[0]->state, "S");
	assert_int_equal(stuck->monotonic_ns, NOW_NS);
	assert_int_equal(stuck->foreign, 3);
	assert_int_equal(stuck->left_out, 0);
	peer_free(stuck);
	peer_close(peer);
	engine_close(&e);
}

static void test_more_than_an_answer_holds(void **state)
{
	enum { THREADS = STUCK_THREADS_MAX + 5 };
	struct source_stuck_thread *thread = calloc(THREADS, sizeof(*thread));
	Ringtail__V1__Stuck *stuck;
	struct peer *peer;
	struct engine e;

	(void)state;
	assert_non_null(thread);
	for (uint32_t i = 0; i < THREADS; i++) {
		thread[i] = thread_in(i + 1, THREADS - i, "many");
		thread[i].frames = RT_STACK_FRAMES_MAX;
		/* As long as numbers can be on the wire. */
		for (unsigned f = 0; f < RT_STACK_FRAMES_MAX; f++)
			thread[i].frame[f] = f % 2 ? 1ull << 62 : ~0ull;
		memset(thread[i].argument, 0xff, sizeof(thread[i].argument));
	}
	open_all(&e, &peer);
	ask(peer, 0, "");
	await_question(&e, 1);
	answer(&e, thread, THREADS, THREADS);
	stuck = peer_expect(peer, FRAME_STUCK);
	assert_int_equal(stuck->n_thread, STUCK_THREADS_MAX);
	assert_int_equal(stuck->thread[0]->thread->tid, THREADS);
	assert_int_equal(stuck->left_out, 5);
	peer_free(stuck);
	peer_close(peer);
	engine_close(&e);
	free(thread);
}

/* The loader is distrusted: what makes no sense is left out, a file that is too short is no answer. */
static void test_hostile_answer(void **state)
{
	struct source_stuck_thread thread[] = {
		thread_in(1, 1, "frames"), thread_in(2, 2, "arguments"), thread_in(3, 3, "probe"),
		thread_in(4, 4, "state"),
	};
	Ringtail__V1__Stuck *stuck;
	struct peer *peer;
	struct engine e;

	(void)state;
	thread[0].frames = UINT32_MAX;
	thread[1].arguments = UINT32_MAX;
	thread[2].probe = UINT32_MAX;
	thread[3].state = '\033';
	memset(thread[3].comm, 'x', sizeof(thread[3].comm));
	open_all(&e, &peer);
	ask(peer, 0, "");
	await_question(&e, 1);
	answer(&e, thread, 4, 4);
	stuck = peer_expect(peer, FRAME_STUCK);
	assert_int_equal(stuck->n_thread, 1);
	assert_string_equal(stuck->thread[0]->state, "?");
	assert_int_equal(stuck->thread[0]->thread->comm.len, sizeof(thread[3].comm));
	peer_free(stuck);
	for (unsigned i = 0; i < 2; i++) {
		ask(peer, 0, "");
		await_question(&e, 2 + i);
		answer(&e, thread, 4, i ? 5 : UINT64_MAX);
		peer_expect_error(peer, "stuck-too-large", false);
	}
	peer_close(peer);
	engine_close(&e);
}

static void test_refusals(void **state)
{
	struct loader_report report = {.event = LOADER_STUCK, .err = -EOPNOTSUPP, .fd = -1};
	struct peer *peer;
	struct engine e;

	(void)state;
	open_all(&e, &peer);
	ask(peer, 0, "nonsense == 1");
	peer_expect_error(peer, "filter-unknown-name", false);
	assert_int_equal(e.loader.stuck_questions, 0);
	ask(peer, 0, "");
	await_question(&e, 1);
	error_set(&report.error, EOPNOTSUPP, "stuck-not-here", "this source cannot");
	engine_report(&e.loader, report);
	peer_expect_error(peer, "stuck-not-here", false);
	ask(peer, 0, "");
	await_question(&e, 2);
	engine_lose_loader(&e.loader);
	peer_expect_error(peer, "loader-gone", false);
	ask(peer, 0, "");
	peer_expect_error(peer, "loader-gone", false);
	peer_close(peer);
	engine_close(&e);
}

static bool none_is_made(void *context, const char *glob)
{
	(void)context, (void)glob;
	return false;
}

/* The name of a thread that a rule hides is in no answer, and no filter tells that it was that one. */
static void test_rule_hides_names(void **state)
{
	char *const rules[] = {(char *)"* comm *secret*"};
	struct source_stuck_thread thread[] = {thread_in(1, 100, "a secret"), thread_in(2, 200, "shown")};
	struct redaction *redaction;
	Ringtail__V1__Stuck *stuck;
	struct error error = {0};
	struct peer *peer;
	struct engine e;

	(void)state;
	assert_int_equal(redaction_create(rules, 1, small_catalog_get(), none_is_made, NULL, &redaction, &error), 0);
	open_all(&e, &peer);
	fanout_set_redaction(e.fanout, redaction);
	ask(peer, 0, "");
	await_question(&e, 1);
	answer(&e, thread, 2, 2);
	stuck = peer_expect(peer, FRAME_STUCK);
	assert_int_equal(stuck->n_thread, 2);
	assert_int_equal(stuck->thread[0]->thread->comm.len, strlen(REDACTED_TEXT));
	assert_memory_equal(stuck->thread[0]->thread->comm.data, REDACTED_TEXT, strlen(REDACTED_TEXT));
	assert_memory_equal(stuck->thread[1]->thread->comm.data, "shown", 5);
	peer_free(stuck);
	ask(peer, 0, "comm == \"a secret\"");
	await_question(&e, 2);
	answer(&e, thread, 2, 2);
	stuck = peer_expect(peer, FRAME_STUCK);
	assert_int_equal(stuck->n_thread, 0);
	peer_free(stuck);
	peer_close(peer);
	engine_close(&e);
	redaction_destroy(redaction);
}

/* As with a subscription to all calls with stacks. */
static void test_viewer_without_stacks(void **state)
{
	struct viewer_bounds before = engine_viewers;
	struct peer *peer;
	struct engine e;
	int fd;

	(void)state;
	engine_viewers.stacks = false;
	engine_open(&e, 1, 1, 8);
	peer = peer_pair(e.base, &fd);
	server_serve(e.server, SERVER_PLAIN, transport_plain_create(fd), "127.0.0.1:9");
	peer_greet(peer);
	ask(peer, 0, "");
	peer_expect_error(peer, "viewer-flags", false);
	assert_int_equal(e.loader.stuck_questions, 0);
	peer_close(peer);
	engine_close(&e);
	engine_viewers = before;
}

/* One that asked and left costs the next one nothing; and who waits when the daemon ends does not matter. */
static void test_client_leaves(void **state)
{
	struct source_stuck_thread thread = thread_in(1, 1, "one");
	struct peer *leaver, *waiter;
	struct engine e;

	(void)state;
	open_all(&e, &leaver);
	waiter = engine_connect(&e);
	peer_greet(waiter);
	ask(leaver, 1, "");
	await_question(&e, 1);
	ask(waiter, 2, "");
	peer_hang_up(leaver);
	peer_run_for(e.base, 20000);
	assert_int_equal(e.loader.stuck_questions, 1);
	answer(&e, &thread, 1, 1);
	await_question(&e, 2);
	assert_int_equal(e.loader.stuck_longer_than_ns, 2);
	answer(&e, &thread, 1, 1);
	peer_free(peer_expect(waiter, FRAME_STUCK));
	ask(waiter, 3, "");
	await_question(&e, 3);
	peer_close(leaver);
	peer_close(waiter);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_longest_first),
		cmocka_unit_test(test_more_than_an_answer_holds),
		cmocka_unit_test(test_hostile_answer),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_rule_hides_names),
		cmocka_unit_test(test_viewer_without_stacks),
		cmocka_unit_test(test_client_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
