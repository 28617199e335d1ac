/*
 * What one client's session sends while its socket is full: output in pieces, gaps for a slow
 * client, and what a client that never reads costs.
 */
#include "tests/unit/daemon/small_session.h"

static void small_buffers(struct fixture *f)
{
	int small = 1;

	/* The kernel makes it the least there is: some 4 KiB. */
	assert_int_equal(setsockopt(f->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	assert_int_equal(setsockopt(f->peer->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
}

struct seen {
	uint64_t seq[RINGS];
	uint64_t events, gap_events;
	unsigned batches, gaps, stats;
};

/* Each ring's batches and gaps meet, watermarks only move on: what a client checks. */
static void see(struct seen *seen, enum frame_type type, const void *message)
{
	if (type == FRAME_BATCH) {
		const Ringtail__V1__Batch *batch = message;
		unsigned ring = batch->cpu == cpu_of[1];

		assert_int_equal(batch->first_seq, seen->seq[ring]);
		seen->events += batch->end_seq - batch->first_seq;
		seen->seq[ring] = batch->end_seq;
		seen->batches++;
	} else if (type == FRAME_GAP) {
		const Ringtail__V1__Gap *gap = message;
		unsigned ring = gap->cpu == cpu_of[1];

		assert_int_equal(gap->first_seq, seen->seq[ring]);
		assert_true(gap->end_seq >= gap->first_seq);
		seen->gap_events += gap->events;
		seen->seq[ring] = gap->end_seq;
		seen->gaps++;
	} else if (type == FRAME_WATERMARK) {
		const Ringtail__V1__Watermark *watermark = message;

		for (unsigned i = 0; i < RINGS; i++)
			assert_int_equal(watermark->position[i]->seq, seen->seq[i]);
	} else if (type == FRAME_STAT) {
		seen->stats++;
	}
}

static void test_output_in_pieces(void **state)
{
	struct seen seen = {0};
	enum frame_type type;
	struct fixture f;
	unsigned asked = 0;

	(void)state;
	open_session(&f, LONG_NS);
	f.queue_bytes = 64 << 20;
	small_buffers(&f);
	peer_greet(f.peer);
	subscribe(&f);
	for (unsigned i = 0; i < 60; i++) {
		append(&f, i % RINGS, 1000 + i * 700, 10);
		session_wake(f.session);
		if (i % 5 == 0) {
			peer_send_stat(f.peer, 0);
			asked++;
		}
		/* Read a little now and then: answers and stream meet in every way. */
		for (unsigned j = 0; j < i % 4; j++) {
			void *message = peer_take(f.peer, &type);

			if (message)
				see(&seen, type, message), peer_free(message);
			event_base_loop(f.base, EVLOOP_NONBLOCK);
		}
	}
	while (seen.batches < 60 || seen.stats < asked) {
		void *message = peer_next(f.peer, &type);

		see(&seen, type, message);
		peer_free(message);
	}
	assert_int_equal(seen.gaps, 0);
	assert_int_equal(seen.events, 600);
	assert_true(session_idle(f.session));
	close_session(&f);
}

/* The client stops in the middle of a batch; the gap after it begins where that batch ends. */
static void test_slow_client(void **state)
{
	struct seen seen = {0};
	struct stream_stat stat;
	enum frame_type type;
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.queue_bytes = 100 << 10;
	small_buffers(&f);
	peer_greet(f.peer);
	subscribe(&f);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 40; i++) {
			append(&f, i % RINGS, 30000, 10);
			session_wake(f.session);
			stream_stat(session_stream(f.session), &stat);
			assert_int_equal(stat.residual, 0);
		}
		for (unsigned i = 0; i < 3; i++) {
			void *message = peer_next(f.peer, &type);

			see(&seen, type, message);
			peer_free(message);
		}
	}
	while (stream_has_work(session_stream(f.session)) || !session_idle(f.session)) {
		void *message = peer_next(f.peer, &type);

		see(&seen, type, message);
		peer_free(message);
	}
	/* What is still in the socket. */
	while (seen.events + seen.gap_events < 2000) {
		void *message = peer_next(f.peer, &type);

		see(&seen, type, message);
		peer_free(message);
	}
	assert_int_equal(seen.events + seen.gap_events, 2000);
	assert_true(seen.gaps >= 2 && seen.gaps <= 5 * 2 * 4);
	close_session(&f);
}

/* Thousands of requests, and not one answer read: one answer waits, the rest is not even looked at. */
static void test_asks_and_never_listens(void **state)
{
	static uint8_t frames[256 << 10];
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	struct fixture f;
	size_t bytes, n = 0;
	unsigned asked = 0;

	(void)state;
	open_session(&f, LONG_NS);
	small_buffers(&f);
	peer_greet(f.peer);
	bytes = peer_seal(f.peer, FRAME_LIST, &list, frames);
	for (; n + bytes <= sizeof(frames); n += bytes)
		memcpy(frames + n, frames, bytes);
	/* As long as the socket takes requests. */
	for (unsigned idle = 0; idle < 100;) {
		ssize_t sent = send(f.peer->fd, frames, bytes, MSG_DONTWAIT);

		assert_true(sent == (ssize_t)bytes || (sent < 0 && errno == EAGAIN));
		asked += sent > 0;
		idle = sent > 0 ? 0 : idle + 1;
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	}
	assert_true(f.lists < asked);
	assert_false(session_idle(f.session));
	for (unsigned i = 0; i < asked; i++)
		peer_free(peer_expect(f.peer, FRAME_CATALOG));
	assert_int_equal(f.lists, asked);
	close_session(&f);
}

static void test_stat_interval_unread(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	small_buffers(&f);
	peer_greet(f.peer);
	peer_send_list(f.peer, "");
	peer_send_stat(f.peer, 50);
	/* Until the socket is full. */
	for (uint64_t before = UINT64_MAX; before != f.stats;) {
		before = f.stats;
		peer_run_for(f.base, 300 * MS);
		assert_true(f.stats < 50);
	}
	close_session(&f);
}

static void test_hang_up_while_sending(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	small_buffers(&f);
	peer_greet(f.peer);
	subscribe(&f);
	append(&f, 0, 100000, 1);
	session_wake(f.session);
	assert_false(session_idle(f.session));
	close_session(&f);
	assert_false(f.orderly);
}

/*
 * All that is at hand is sent; but the disk, or another's record, has not said its last: the daemon does not stop
 * before. Until then there is nothing to write, and the client is not slow.
 */
static void test_not_flushed_while_something_is_still_to_come(void **state)
{
	struct fixture f;
	struct stream *stream;
	char there;

	(void)state;
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	assert_true(session_flushed(f.session));	/* it has no stream */
	subscribe(&f);
	stream = session_stream(f.session);
	assert_true(session_flushed(f.session));
	stream->catch_up = (void *)&there;
	assert_false(session_flushed(f.session));
	stream->catch_up = NULL;
	stream->past = (void *)&there;
	assert_false(session_flushed(f.session));
	stream->past = NULL;
	stream->gaps = true;
	assert_false(session_flushed(f.session));
	stream->gaps = false;
	assert_true(session_flushed(f.session));
	close_session(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output_in_pieces),
		cmocka_unit_test(test_slow_client),
		cmocka_unit_test(test_asks_and_never_listens),
		cmocka_unit_test(test_stat_interval_unread),
		cmocka_unit_test(test_hang_up_while_sending),
		cmocka_unit_test(test_not_flushed_while_something_is_still_to_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
