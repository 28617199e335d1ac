/*
 * Durable consumers have owners: who may register, use and give up which; how many; what is written down
 * of that; what outlives the daemon; and exporters, whose consumers become what they ask for now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <sys/socket.h>

#include "daemon/base/counters.h"
#include "daemon/export/feed.h"
#include "daemon/base/limits.h"
#include "tests/unit/daemon/durable_engine.h"

#define CALLS "syscall:getppid:call"
#define OPENS "syscall:openat:call"

static int (*posix_rename)(struct disk *disk, const char *from, const char *to);

static int setup(void **state)
{
	(void)state;
	durable_engine_setup();
	engine_segment_bytes = 1 << 20;
	return 0;
}

/* The kernel says that it is us: an operator. Or somebody of this host: a viewer, called `local`. */
static struct peer *come(struct engine *e, bool operator)
{
	struct peer *peer;
	int fd;

	if (operator) {
		peer = engine_connect(e);
	} else {
		peer = peer_pair(e->base, &fd);
		server_serve(e->server, SERVER_PLAIN, transport_plain_create(fd), "127.0.0.1:9");
	}
	peer_greet(peer);
	return peer;
}

static void ask(struct peer *peer, const char *consumer, const char *probe)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	char *probes[] = {(char *)probe};

	subscribe.probe = probes;
	subscribe.n_probe = 1;
	subscribe.consumer = (char *)consumer;
	peer_send(peer, FRAME_SUBSCRIBE, &subscribe);
}

/* Comes, subscribes and goes; or is refused with that code. */
static void subscribe_as(struct engine *e, bool operator, const char *consumer, const char *code)
{
	struct peer *peer = come(e, operator);

	ask(peer, consumer, CALLS);
	if (code) {
		peer_expect_error(peer, code, true);
	} else {
		peer_free(peer_expect(peer, FRAME_CATALOG));
		peer_free(peer_expect(peer, FRAME_SUBSCRIBED));
	}
	peer_close(peer);
	peer_run(e->base);
}

static void forget_as(struct engine *e, bool operator, const char *consumer, const char *code)
{
	Ringtail__V1__Forget forget = RINGTAIL__V1__FORGET__INIT;
	struct peer *peer = come(e, operator);

	forget.consumer = (char *)consumer;
	peer_send(peer, FRAME_FORGET, &forget);
	if (code)
		peer_expect_error(peer, code, false);
	else
		peer_free(peer_expect(peer, FRAME_STAT));
	peer_close(peer);
	peer_run(e->base);
}

static void test_owners(void **state)
{
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	subscribe_as(&e, false, "mine", NULL);
	subscribe_as(&e, true, "theirs", NULL);
	subscribe_as(&e, false, "mine", NULL);
	subscribe_as(&e, false, "theirs", "consumer-not-yours");
	forget_as(&e, false, "theirs", "consumer-not-yours");
	forget_as(&e, false, "nobodys", "no-such-consumer");
	subscribe_as(&e, false, "export-loki-0", "consumer-reserved");
	subscribe_as(&e, true, "export-loki-0", "consumer-reserved");
	subscribe_as(&e, true, "mine", NULL);
	subscribe_as(&e, false, "no name", "consumer-name");
	engine_close(&e);
	assert_non_null(strstr(text_of("consumers"), "consumer mine\nowner local\n"));
	assert_non_null(strstr(text_of("consumers"), "consumer theirs\nowner user:"));
	assert_non_null(strstr(text_of("audit.log"),
			       "\"who\":\"local\",\"role\":\"viewer\",\"peer\":\"127.0.0.1:9\","
			       "\"action\":\"register\",\"consumer\":\"mine\","
			       "\"outcome\":\"allowed\"}\n"));
	assert_null(strstr(text_of("audit.log"), "not-yours"));
	assert_non_null(strstr(text_of("audit-denied.log"),
			       "\"action\":\"register\",\"consumer\":\"theirs\","
			       "\"outcome\":\"consumer-not-yours\"}\n"));
	assert_non_null(strstr(text_of("audit-denied.log"),
			       "\"action\":\"forget\",\"consumer\":\"theirs\","
			       "\"outcome\":\"consumer-not-yours\"}\n"));
	/* In the next run they are whose they were. */
	engine_open(&e, 2, 1, 8);
	subscribe_as(&e, false, "theirs", "consumer-not-yours");
	forget_as(&e, false, "mine", NULL);
	forget_as(&e, true, "theirs", NULL);
	engine_close(&e);
	assert_null(strstr(text_of("consumers"), "consumer "));
	assert_non_null(strstr(text_of("audit.log"), "\"action\":\"forget\",\"consumer\":\"mine\""));
}

/* A disk that looks, before the file of consumers is put in place, who has been answered by then. */
static bool disk_full;
static int client_fd;
static unsigned answered_too_early, renames;

static int watchful_rename(struct disk *watchful, const char *from, const char *to)
{
	char byte;

	if (strcmp(to, "consumers") != 0)
		return posix_rename(watchful, from, to);
	renames++;
	answered_too_early += !strstr(text_of("consumers"), "\nat ") &&
			      recv(client_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
	return disk_full ? -ENOSPC : posix_rename(watchful, from, to);
}

static void watch_disk(void)
{
	posix_rename = disk_ops.rename;
	disk_ops.rename = watchful_rename;
}

/* Whoever registers is answered once a crash would not take it back; and refused if that cannot be. */
static void test_confirmed_when_kept(void **state)
{
	struct peer *peer;
	struct engine e;

	(void)state;
	watch_disk();
	engine_open(&e, 2, 1, 8);
	peer = come(&e, false);
	client_fd = peer->fd;
	ask(peer, "mine", CALLS);
	peer_free(peer_expect(peer, FRAME_CATALOG));
	assert_non_null(strstr(text_of("consumers"), "consumer mine\n"));
	assert_non_null(strstr(text_of("consumers"), "\nat "));
	assert_true(renames && !answered_too_early);
	peer_free(peer_expect(peer, FRAME_SUBSCRIBED));
	peer_close(peer);
	peer_run(e.base);
	/* One that goes before it is answered leaves its name, and nothing that hurts. */
	ask(peer = come(&e, false), "gone", OPENS);
	event_base_loop(e.base, EVLOOP_NONBLOCK);
	peer_close(peer);
	peer_run(e.base);
	disk_full = true;
	subscribe_as(&e, false, "mine", NULL);
	subscribe_as(&e, false, "never", "state-failed");
	disk_full = false;
	forget_as(&e, false, "never", "no-such-consumer");
	subscribe_as(&e, false, "never", NULL);
	engine_close(&e);
	assert_non_null(strstr(text_of("consumers"), "consumer never\n"));
}

/* The loader refuses what a new consumer asks for: nothing of it stays. */
static void test_refused_registration(void **state)
{
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	e.loader.refuse_probe = SMALL_GETPPID;
	subscribe_as(&e, false, "mine", "refused");
	engine_settle(&e);
	assert_null(strstr(text_of("consumers"), "consumer mine"));
	forget_as(&e, false, "mine", "no-such-consumer");
	e.loader.refuse_probe = 0;
	subscribe_as(&e, false, "mine", NULL);
	engine_close(&e);
	assert_non_null(strstr(text_of("consumers"), "consumer mine\n"));
}

/* Of a file of before there were owners, only operators use or give up what is in it. */
static void test_older_file(void **state)
{
	static const char text[] = "ringtail consumers 1\nconsumer old\nflags 0\nacked 0\nfilter \n"
				   "probe " CALLS "\nend\n";
	struct engine e;
	char path[256];
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/consumers", directory);
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
	engine_open(&e, 2, 1, 8);
	subscribe_as(&e, false, "old", "consumer-not-yours");
	forget_as(&e, false, "old", "consumer-not-yours");
	subscribe_as(&e, true, "old", NULL);
	forget_as(&e, true, "old", NULL);
	engine_close(&e);
}

static void test_bounds(void **state)
{
	struct watcher live;
	struct engine e;
	char name[32];

	(void)state;
	engine_open(&e, 2, 1, 100);
	for (unsigned i = 0; i < CONSUMERS_PER_VIEWER_MAX; i++) {
		snprintf(name, sizeof(name), "mine-%u", i);
		subscribe_as(&e, false, name, NULL);
	}
	subscribe_as(&e, false, "one-more", "too-many-consumers");
	subscribe_as(&e, false, "mine-3", NULL);
	for (unsigned i = CONSUMERS_PER_VIEWER_MAX; i < CONSUMERS_OF_CLIENTS_MAX; i++) {
		snprintf(name, sizeof(name), "theirs-%u", i);
		subscribe_as(&e, true, name, NULL);
	}
	subscribe_as(&e, true, "one-more", "too-many-consumers");
	/* Room is left for who keeps nothing, and one that is given up makes some. */
	live = watcher_open(&e, OPENS, NULL, NULL);
	peer_close(live.peer);
	forget_as(&e, false, "mine-0", NULL);
	subscribe_as(&e, false, "one-more", NULL);
	engine_close(&e);
}

/* A viewer that registers and gives up for ever leaves so many lines and no more; an operator may. */
static void test_no_end(void **state)
{
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	for (unsigned i = 0; i < CONSUMER_CHANGES_MAX / 2; i++) {
		subscribe_as(&e, false, "again", NULL);
		forget_as(&e, false, "again", NULL);
	}
	subscribe_as(&e, false, "again", "too-many-changes");
	for (unsigned i = 0; i < CONSUMER_CHANGES_MAX; i++) {
		subscribe_as(&e, true, "again", NULL);
		forget_as(&e, true, "again", NULL);
	}
	engine_close(&e);
}

/* ---- Exporters ------------------------------------------------------------------------------- */

static int tap_loki(struct engine *e, struct subscriber *exporter, const char *probe, const char *filter,
		    struct error *error)
{
	return tap(e, exporter, "export-loki-0", probe, filter, error);
}

/* Whatever a tap is refused for, there is none then, and nothing of it. */
static void test_taps_refused(void **state)
{
	struct subscriber exporter, second;
	struct error error;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	assert_true(tap_loki(&e, &exporter, "syscall:nosuch:call", "", &error) < 0);
	assert_string_equal(error.code, "unknown-probe");
	assert_int_equal(exporter.state, SUBSCRIBER_AWAY);
	assert_true(tap_loki(&e, &exporter, CALLS, "pid==", &error) < 0);
	assert_int_equal(exporter.state, SUBSCRIBER_AWAY);
	assert_int_equal(tap_loki(&e, &exporter, CALLS, "", &error), 0);
	assert_int_equal(tap_loki(&e, &second, CALLS, "", &error), -EBUSY);
	assert_int_equal(second.state, SUBSCRIBER_AWAY);
	untap(&e, &second);
	untap(&e, &exporter);
	/* The kernel says no. */
	e.loader.refuse = true;
	assert_int_equal(tap_loki(&e, &exporter, OPENS, "", &error), 0);
	PEER_AWAIT(e.base, exporter.state == SUBSCRIBER_AWAY);
	engine_close(&e);
}

/* Two destinations, of which the second's consumer is taken: the first one's tap goes with the feed. */
static void test_feed_refused(void **state)
{
	static char *url[] = {(char *)"loki:http://127.0.0.1:9", (char *)"otlp-logs:http://127.0.0.1:9"};
	struct config config = {.export = {.word = {url[0], url[1]}, .count = 2},
				.export_probe = {.word = {(char *)OPENS}, .count = 1},
				.export_queue_bytes = 1 << 20, .export_timeout_ns = NS_PER_S};
	struct account account = {0};
	struct export_targets targets;
	struct export_feed_config from;
	struct export_feed *feed = NULL;
	struct subscriber exporter;
	struct error error;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	assert_int_equal(export_targets_read(&config, &account, &targets, &error), 0);
	from = (struct export_feed_config){
		.base = e.base, .fanout = e.fanout, .loader = &e.loader, .codec = e.codec,
		.run = {.boot_id = "0123456789abcde", .epoch = 99}, .config = &config,
		.targets = &targets, .spooled = true,
	};
	assert_int_equal(tap(&e, &exporter, targets.target[1].consumer, OPENS, "", &error), 0);
	assert_int_equal(export_feed_create(&from, &feed, &error), -EBUSY);
	assert_string_equal(error.code, "consumer-in-use");
	untap(&e, &exporter);
	/* Once it is free, both are there; and when the daemon is about to end, neither. */
	assert_int_equal(export_feed_create(&from, &feed, &error), 0);
	export_feed_destroy(feed);
	fanout_stop(e.fanout, "test", engine_stopped, &e);
	assert_int_equal(export_feed_create(&from, &feed, &error), -ESHUTDOWN);
	assert_string_equal(error.code, "shutting-down");
	PEER_AWAIT(e.base, e.stops);
	export_targets_free(&targets);
	engine_close(&e);
}

/* It asks for something else: it gets that, and what it had of the other is not held any more. */
static void test_export_changed(void **state)
{
	uint64_t changed = counter_read(COUNTER_exports_changed);
	struct subscriber exporter;
	struct error error;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	assert_int_equal(tap_loki(&e, &exporter, CALLS, "", &error), 0);
	PEER_AWAIT(e.base, exporter.stream);
	engine_write(&e, 1000);
	engine_settle(&e);
	untap(&e, &exporter);
	/* In one run of the daemon, and in the next. */
	assert_int_equal(tap_loki(&e, &exporter, CALLS, "ret > 200", &error), 0);
	PEER_AWAIT(e.base, exporter.stream);
	assert_int_equal(counter_read(COUNTER_exports_changed), changed + 1);
	untap(&e, &exporter);
	engine_close(&e);
	assert_non_null(strstr(text_of("consumers"), "filter ret%20>%20200\n"));
	engine_open(&e, 2, 1, 8);
	assert_int_equal(tap_loki(&e, &exporter, OPENS, "", &error), 0);
	assert_int_equal(counter_read(COUNTER_exports_changed), changed + 2);
	PEER_AWAIT(e.base, exporter.stream);
	untap(&e, &exporter);
	engine_close(&e);
	assert_non_null(strstr(text_of("consumers"), "probe " OPENS "\n"));
	assert_null(strstr(text_of("consumers"), CALLS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_owners, setup, teardown),
		cmocka_unit_test_setup_teardown(test_confirmed_when_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_registration, setup, teardown),
		cmocka_unit_test_setup_teardown(test_older_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taps_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_feed_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_export_changed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
