/*
 * What an operator lets viewers ask for: probes, strings, stacks, how many subscriptions, how many events in
 * a second. What is refused says so, and who can change it; what is too much is a gap in that viewer's own
 * stream. Operators are not bound, and what is always on is everybody's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "tests/unit/daemon/small_engine.h"

#define CALLS	"syscall:getppid:call"
#define OPENS	"syscall:openat:call"
#define READS	"syscall:read:call"
#define EVENTS	4000u

static const char *asked_filter = "";
#define RATE	100u

static int setup(void **state)
{
	(void)state;
	engine_viewers = (struct viewer_bounds){.strings = true, .stacks = true,
						 .subscriptions = SUBSCRIPTIONS_MAX};
	return 0;
}

/* Somebody of this host: a viewer. */
static struct peer *come(struct engine *e)
{
	struct peer *peer;
	int fd;

	peer = peer_pair(e->base, &fd);
	server_serve(e->server, SERVER_PLAIN, transport_plain_create(fd), "127.0.0.1:9");
	peer_greet(peer);
	return peer;
}

static void ask(struct peer *peer, const char *probe, Ringtail__V1__Flag flag)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	char *probes[] = {(char *)probe};

	subscribe.probe = probes;
	subscribe.filter = (char *)asked_filter;
	subscribe.n_probe = probe != NULL;
	subscribe.flag = &flag;
	subscribe.n_flag = flag != RINGTAIL__V1__FLAG__FLAG_NONE;
	peer_send(peer, FRAME_SUBSCRIBE, &subscribe);
}

static void expect_subscribed(struct engine *e, struct peer *peer, const char *probe,
			      Ringtail__V1__Flag flag)
{
	ask(peer, probe, flag);
	peer_free(peer_expect(peer, FRAME_CATALOG));
	peer_free(peer_expect(peer, FRAME_SUBSCRIBED));
	peer_close(peer);
	peer_run(e->base);
}

/* Refused, and the hint names what can be done about it. */
static void expect_refused(struct engine *e, const char *probe, Ringtail__V1__Flag flag,
			   const char *code, const char *hint)
{
	struct peer *peer = come(e);
	Ringtail__V1__Error *error;

	ask(peer, probe, flag);
	error = peer_expect(peer, FRAME_ERROR);
	assert_string_equal(error->code, code);
	assert_true(error->fatal);
	assert_non_null(strstr(error->hint, hint));
	peer_free(error);
	peer_close(peer);
	peer_run(e->base);
}

static struct peer *operator(struct engine *e)
{
	struct peer *peer = engine_connect(e);

	peer_greet(peer);
	return peer;
}

#define NO_FLAG	RINGTAIL__V1__FLAG__FLAG_NONE
#define STACKS	RINGTAIL__V1__FLAG__FLAG_KSTACK
#define STRINGS	RINGTAIL__V1__FLAG__FLAG_STRINGS

static void viewer_bounds_flags(void **state)
{
	struct engine e;

	(void)state;
	engine_viewers.stacks = false;
	engine_open(&e, 2, 1, 8);
	expect_refused(&e, CALLS, STACKS, "viewer-flags", "viewer-stacks = yes");
	expect_refused(&e, CALLS, RINGTAIL__V1__FLAG__FLAG_USTACK, "viewer-flags", "viewer-stacks");
	assert_int_equal(e.loader.configures, 0);	/* and the kernel heard nothing of it */
	expect_subscribed(&e, come(&e), CALLS, STRINGS);
	expect_subscribed(&e, operator(&e), CALLS, STACKS);
	engine_viewers.strings = false;
	fanout_set_viewers(e.fanout, &engine_viewers);
	expect_refused(&e, CALLS, STRINGS, "viewer-flags", "viewer-strings = yes");
	/* Nor by asking what they are like. */
	asked_filter = "filename =~ \"/root/*\"";
	expect_refused(&e, OPENS, NO_FLAG, "viewer-flags", "viewer-strings = yes");
	asked_filter = "";
	engine_close(&e);
}

static void viewer_bounds_probes(void **state)
{
	struct config_words words = {.word = {(char *)"syscall:getppid", (char *)"no:such:probe"},
				     .count = 2};
	const char *always_on = OPENS;
	struct subscription_request request = {.glob = &always_on, .globs = 1, .filter = ""};
	struct engine e;
	struct error error;

	(void)state;
	engine_viewers.probe = &words;
	engine_open(&e, 2, 1, 8);
	expect_refused(&e, READS, NO_FLAG, "viewer-probes", "syscall:getppid, no:such:probe;");
	expect_refused(&e, "*", NO_FLAG, "viewer-probes", "viewer-probe = SPEC");
	assert_int_equal(e.loader.configures, 0);
	expect_subscribed(&e, come(&e), CALLS, NO_FLAG);
	expect_subscribed(&e, operator(&e), READS, NO_FLAG);
	/* What is always on is everybody's; with strings, too, where they may have those. */
	assert_int_equal(fanout_set_permanent(e.fanout, &request, NULL, NULL, &error), 0);
	expect_subscribed(&e, come(&e), NULL, NO_FLAG);
	expect_subscribed(&e, come(&e), NULL, STRINGS);
	engine_viewers.strings = engine_viewers.stacks = false;
	fanout_set_viewers(e.fanout, &engine_viewers);
	expect_refused(&e, NULL, STRINGS, "viewer-flags", "viewer-strings");
	expect_refused(&e, NULL, STACKS, "viewer-flags", "viewer-stacks");
	engine_viewers.probe = NULL;
	engine_close(&e);
}

static void viewer_bounds_subscriptions(void **state)
{
	struct watcher theirs;
	struct peer *mine;
	struct engine e;

	(void)state;
	engine_viewers.subscriptions = 1;
	engine_open(&e, 2, 1, 8);
	theirs = watcher_open(&e, READS, NULL, NULL);
	mine = come(&e);
	ask(mine, CALLS, NO_FLAG);
	peer_free(peer_expect(mine, FRAME_CATALOG));
	expect_refused(&e, OPENS, NO_FLAG, "viewer-subscriptions", "raises viewer-subscriptions");
	/* The same as somebody has costs nothing; and operators are not counted. */
	expect_subscribed(&e, come(&e), CALLS, NO_FLAG);
	expect_subscribed(&e, come(&e), READS, NO_FLAG);
	expect_subscribed(&e, operator(&e), OPENS, NO_FLAG);
	peer_close(mine);
	peer_close(theirs.peer);
	peer_run(e.base);
	engine_close(&e);
}

/* Of what a viewer gets: events, and those that gaps say are missing because of the rate. */
static void take(struct watcher *watcher, uint64_t *lost)
{
	enum frame_type type;
	void *message = peer_next(watcher->peer, &type);

	assert_non_null(message);
	if (type == FRAME_GAP) {
		const Ringtail__V1__Gap *gap = message;

		assert_int_equal(gap->stage, LOSS_STAGE_QUEUE);
		assert_int_equal(gap->reason, LOSS_REASON_RATE_LIMIT);
		*lost += gap->events;
	}
	watcher_take(watcher, type, message);
	peer_free(message);
}

static void viewer_bounds_rate(void **state)
{
	uint64_t lost = 0, over = counter_read(COUNTER_events_over_rate);
	struct watcher viewer = {0}, theirs;
	struct engine e;

	(void)state;
	engine_viewers.rate = RATE;
	engine_open(&e, 2, 1, 8);
	theirs = watcher_open(&e, CALLS, NULL, NULL);
	viewer.peer = come(&e);
	ask(viewer.peer, CALLS, NO_FLAG);
	watcher_start(&viewer);
	for (unsigned i = 0; i < EVENTS / 20; i++) {
		engine_write(&e, 20);
		peer_run_for(e.base, 1000000);
	}
	watcher_await(&theirs, EVENTS);			/* an operator gets all of the same */
	assert_int_equal(theirs.gaps, 0);
	while (viewer.events + lost < EVENTS)
		take(&viewer, &lost);
	assert_int_equal(viewer.events + lost, EVENTS);
	assert_true(viewer.events >= RATE && lost > 0);
	assert_int_equal(counter_read(COUNTER_events_over_rate), over + lost);
	/* A few long ones. */
	assert_true(viewer.gaps < EVENTS / 40);
	engine_check_ledger(&e);
	/* In time it gets events again; and at once, where the bound is taken away. */
	engine_viewers.rate = 0;
	fanout_set_viewers(e.fanout, &engine_viewers);
	engine_write(&e, 1000);
	for (uint64_t had = viewer.events; viewer.events < had + 1000;)
		take(&viewer, &lost);
	assert_int_equal(viewer.events + lost, EVENTS + 1000);
	engine_check_ledger(&e);
	peer_close(viewer.peer);
	peer_close(theirs.peer);
	peer_run(e.base);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(viewer_bounds_flags, setup),
		cmocka_unit_test_setup(viewer_bounds_probes, setup),
		cmocka_unit_test_setup(viewer_bounds_subscriptions, setup),
		cmocka_unit_test_setup(viewer_bounds_rate, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
