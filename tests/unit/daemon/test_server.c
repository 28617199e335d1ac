/*
 * All clients together: how many there may be, that none disturbs another, what they are told of each
 * other, and the end of them all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/daemon/small_engine.h"

#define CALLS "syscall:getppid:call"

static Ringtail__V1__Stat *ask(struct peer *peer)
{
	peer_send_stat(peer, 0);
	return peer_expect(peer, FRAME_STAT);
}

/* The same of one that has a stream: watermarks come in between. */
static Ringtail__V1__Stat *await_stat(struct peer *peer)
{
	peer_send_stat(peer, 0);
	return peer_await(peer, FRAME_STAT);
}

/* `local`: nothing proves who it is, so it is no operator. */
static struct peer *connect_viewer(struct engine *e)
{
	struct peer *peer;
	int fd;

	peer = peer_pair(e->base, &fd);
	server_serve(e->server, SERVER_PLAIN, transport_plain_create(fd), "127.0.0.1:9");
	return peer;
}

/* Of the clients that may be there, how many viewers come in before the others are kept for operators. */
static void test_places_kept_for_operators(void **state)
{
	static const struct {
		unsigned clients_max, viewers;
	} bound[] = {{3, 3}, {4, 3}, {8, 7}, {16, 14}, {80, 72}};

	(void)state;
	for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
		struct peer *viewer[80], *late, *operator;
		struct engine e;

		engine_open(&e, 2, 1, bound[i].clients_max);
		for (unsigned j = 0; j < bound[i].viewers; j++)
			peer_greet(viewer[j] = connect_viewer(&e));
		peer_send_hello(late = connect_viewer(&e));
		peer_expect_error(late, "too-many-clients", true);
		peer_close(late);
		peer_run(e.base);
		operator = engine_connect(&e);
		if (bound[i].viewers < bound[i].clients_max)
			peer_greet(operator);
		else
			peer_expect_error(operator, "too-many-clients", true);
		peer_close(operator);
		for (unsigned j = 0; j < bound[i].viewers; j++)
			peer_close(viewer[j]);
		peer_run(e.base);
		engine_close(&e);
	}
}

static void test_too_many_clients(void **state)
{
	struct peer *peer[2], *third, *crowd[40];
	unsigned refused = 0, shut = 0;
	struct server_bounds bounds;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 2);
	for (unsigned i = 0; i < 2; i++)
		peer_greet(peer[i] = engine_connect(&e));
	third = engine_connect(&e);
	peer_expect_error(third, "too-many-clients", true);
	peer_expect_end(third);
	peer_close(third);
	peer_run(e.base);
	/* More than can be told so: the rest finds the door shut. */
	for (unsigned i = 0; i < 40; i++)
		crowd[i] = engine_connect(&e);
	for (unsigned i = 0; i < 40; i++) {
		enum frame_type type;
		void *message = peer_next(crowd[i], &type);

		refused += message != NULL;
		shut += message == NULL;
		if (message)
			peer_free(message);
		peer_close(crowd[i]);
	}
	assert_int_equal(refused, 16);
	assert_int_equal(shut, 24);
	peer_run(e.base);
	peer_free(ask(peer[0]));
	peer_close(peer[0]);
	peer_run(e.base);
	peer_greet(peer[0] = engine_connect(&e));
	/* A reload may make it one, or three. */
	bounds = engine_bounds(1);
	server_set_bounds(e.server, &bounds);
	third = engine_connect(&e);
	peer_expect_error(third, "too-many-clients", true);
	peer_close(third);
	peer_run(e.base);
	bounds = engine_bounds(3);
	server_set_bounds(e.server, &bounds);
	peer_greet(third = engine_connect(&e));
	peer_close(third);
	peer_close(peer[0]);
	peer_close(peer[1]);
	engine_close(&e);
}

static void test_nobody_disturbs_another(void **state)
{
	struct peer *bad[4];
	struct watcher watcher;
	Ringtail__V1__Stat *stat;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 2, 8);
	watcher = watcher_open(&e, CALLS, "ret > 0", NULL);
	for (unsigned i = 0; i < 4; i++) {
		bad[i] = engine_connect(&e);
		if (i)
			peer_greet(bad[i]);
	}
	peer_write(bad[0], "noise, and a lot of it", 22);
	peer_send_subscribe(bad[1], "no:such:probe", NULL, NULL);
	peer_send_subscribe(bad[2], CALLS, "ret >", NULL);
	peer_send_hello(bad[3]);
	for (unsigned i = 0; i < 4; i++)
		peer_free(peer_expect(bad[i], FRAME_ERROR));
	engine_write(&e, 1000);
	watcher_await(&watcher, 1000);
	stat = await_stat(watcher.peer);
	assert_int_equal(stat->n_client, 5);
	assert_string_equal(stat->source, "hand");
	assert_int_equal(stat->n_ring, 2);
	assert_string_equal(stat->client[0]->software, "peer");
	assert_string_equal(stat->client[0]->peer, "peer");
	assert_string_equal(stat->client[0]->probe[0], CALLS);
	assert_string_equal(stat->client[0]->filter, "ret > 0");
	assert_int_equal(stat->client[0]->delivered, 1000);
	assert_int_equal(stat->client[0]->residual, 0);
	assert_true(stat->n_counter > 10);
	peer_free(stat);
	for (unsigned i = 0; i < 4; i++)
		peer_close(bad[i]);
	peer_close(watcher.peer);
	engine_close(&e);
}

static void test_list(void **state)
{
	Ringtail__V1__Catalog *catalog;
	Ringtail__V1__Error *error;
	struct peer *peer;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	peer_greet(peer = engine_connect(&e));
	peer_send_list(peer, "");
	catalog = peer_expect(peer, FRAME_CATALOG);
	assert_int_equal(catalog->n_probe, small_catalog_get()->n_probe);
	peer_free(catalog);
	peer_send_list(peer, "syscall:openat:*");
	catalog = peer_expect(peer, FRAME_CATALOG);
	assert_int_equal(catalog->n_probe, 3);
	peer_free(catalog);
	peer_send_list(peer, "syscall:getppit:call");
	error = peer_expect(peer, FRAME_ERROR);
	assert_string_equal(error->code, "unknown-probe");
	assert_false(error->fatal);
	assert_non_null(strstr(error->hint, "getppid"));
	peer_free(error);
	peer_free(ask(peer));
	peer_close(peer);
	engine_close(&e);
}

/* Many questions at once are answered one by one. */
static void test_stat_spam(void **state)
{
	struct peer *peer;
	struct engine e;

	(void)state;
	engine_open(&e, 2, 1, 8);
	peer_greet(peer = engine_connect(&e));
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 100; i++)
			peer_send_stat(peer, 0);
		for (unsigned i = 0; i < 100; i++)
			peer_free(peer_expect(peer, FRAME_STAT));
	}
	peer_close(peer);
	engine_close(&e);
}

/* The end waits for who reads, and goes without who does not. */
static void test_flush(void **state)
{
	struct watcher watcher;
	struct engine e;
	int small = 1, fd;

	(void)state;
	engine_open(&e, 2, 1, 8);
	watcher = (struct watcher){.peer = peer_pair(e.base, &fd)};
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	engine_accept(&e, fd);
	peer_greet(watcher.peer);
	peer_send_subscribe(watcher.peer, CALLS, NULL, NULL);
	watcher_start(&watcher);
	assert_true(server_flush(e.server));
	engine_write(&e, 20000);
	PEER_AWAIT(e.base, !server_flush(e.server));
	watcher_await(&watcher, 20000);
	peer_run(e.base);
	fanout_stop(e.fanout, "enough", engine_stopped, &e);
	watcher_await_bye(&watcher);
	assert_true(server_flush(e.server));
	peer_close(watcher.peer);
	server_flush(e.server);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places_kept_for_operators),
		cmocka_unit_test(test_too_many_clients),
		cmocka_unit_test(test_nobody_disturbs_another),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_stat_spam),
		cmocka_unit_test(test_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
