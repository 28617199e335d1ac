/*
 * One client's session over a socketpair, with a host made by hand: what it answers, what it refuses and
 * how it ends, input in pieces, output in pieces, time-outs, and what a client that never reads costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/log.h"
#include "daemon/session.h"
#include "tests/unit/daemon/peer.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS 2
#define MS 1000000ull
#define LONG_NS (60 * NS_PER_S)	/* for who is not to be late */

static const uint32_t cpu_of[RINGS] = {0, 5};

struct fixture {
	struct event_base *base;
	struct frame_codec *codec;
	struct subscription *subscription;
	struct session_host host;
	struct session *session;
	struct peer *peer;
	int fd;				/* the session's; it closes it */
	uint64_t queue_bytes;
	uint64_t seq[RINGS];
	struct session_bounds bounds;
	unsigned lists, stats, closed, changes;
	bool refuse_identity;
	bool orderly, refuse_subscribe, hold_subscribe;
};

/* ---- The host -------------------------------------------------------------------------------- */

static int on_identify(void *context, void *client, const struct transport *transport,
		       struct client_identity *identity, struct error *error)
{
	struct fixture *f = context;

	assert_ptr_equal(client, f);
	assert_int_equal(transport->fd, f->fd);
	if (f->refuse_identity)
		return error_set(error, EACCES, "certificate-name", "that is no name");
	identity_set_local(identity);
	return 0;
}

static int on_admit(void *context, struct session *session, const char *token,
		    struct error *error)
{
	struct fixture *f = context;

	assert_ptr_equal(session_client(session), f);
	if (strcmp(token, "wrong") == 0)
		return error_set(error, EACCES, "bad-token", "this token is nobody's");
	session_identity(session)->role = ROLE_VIEWER;
	return 0;
}

static struct frame_ref *on_probes(void *context)
{
	struct fixture *f = context;
	Ringtail__V1__Probes probes = RINGTAIL__V1__PROBES__INIT;

	return frame_ref_pack(f->codec, FRAME_PROBES, &probes.base);
}

static int on_ack(void *context, struct session *session, const Ringtail__V1__Ack *ack,
		  struct error *error)
{
	(void)context, (void)session;
	return ack->upto ? 0 : error_set(error, EINVAL, "not-durable", "nothing is kept for this one");
}

static void on_change(void *context, struct session *session, const Ringtail__V1__Change *change)
{
	struct fixture *f = context;

	assert_ptr_equal(session, f->session);
	f->changes += change->n_enable;
}

static void on_forget(void *context, struct session *session, const char *consumer)
{
	struct error error;

	(void)context;
	error_set(&error, ENOENT, "unknown-consumer", "there is no consumer `%s`", consumer);
	session_answer(session, NULL, &error);
}

static struct frame_ref *on_hello(void *context, struct session *session)
{
	struct fixture *f = context;
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.role = (char *)role_name(session_identity(session)->role);
	return frame_ref_pack(f->codec, FRAME_SERVER_HELLO, &hello.base);
}

static struct frame_ref *on_list(void *context, const char *glob, struct error *error)
{
	struct fixture *f = context;

	f->lists++;
	if (strcmp(glob, "nothing") == 0) {
		error_set(error, ENOENT, "unknown-probe", "there is no probe `%s`", glob);
		return NULL;
	}
	return frame_ref_pack(f->codec, FRAME_CATALOG, &small_catalog_get()->base);
}

static struct frame_ref *on_stat(void *context)
{
	struct fixture *f = context;
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;

	stat.uptime_ns = ++f->stats;
	return frame_ref_pack(f->codec, FRAME_STAT, &stat.base);
}

static void give_stream(struct fixture *f)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct stream *stream = stream_create(f->subscription, f->codec, cpu_of, f->queue_bytes,
					      NULL, RINGTAIL__V1__LOSS_REASON__REASON_UNKNOWN);

	assert_non_null(stream);
	session_subscribed(f->session, stream,
			   frame_ref_pack(f->codec, FRAME_CATALOG, &catalog.base),
			   frame_ref_pack(f->codec, FRAME_SUBSCRIBED, &subscribed.base));
}

static int on_subscribe(void *context, struct session *session,
			const Ringtail__V1__Subscribe *subscribe, struct error *error)
{
	struct fixture *f = context;

	(void)subscribe;
	assert_ptr_equal(session, f->session);
	if (f->refuse_subscribe)
		return error_set(error, EINVAL, "bad-filter", "the filter is wrong");
	if (!f->hold_subscribe)
		give_stream(f);
	return 0;
}

static void on_closed(void *context, struct session *session, bool orderly)
{
	struct fixture *f = context;

	assert_ptr_equal(session, f->session);
	f->session = NULL;
	f->closed++;
	f->orderly = orderly;
}

/* ---- Fixture --------------------------------------------------------------------------------- */

static void quiet(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static void open_session(struct fixture *f, uint64_t timeout_ns)
{
	static const struct log_sink sink = {quiet, clock_monotonic};
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct session_config config;
	struct error error;

	log_set_sink(&sink);
	memset(f, 0, sizeof(*f));
	f->base = event_base_new();
	f->codec = frame_codec_create(1);
	f->queue_bytes = 1 << 20;
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, 64 << 20,
					     &f->subscription, &error), 0);
	f->host = (struct session_host){f, on_identify, on_admit, on_hello, on_list, on_stat,
					on_probes, on_subscribe, on_ack, on_change, on_forget,
					on_closed};
	f->bounds = (struct session_bounds){timeout_ns, timeout_ns, 60 * NS_PER_S, false};
	config = (struct session_config){f->base, &f->host, &f->bounds, f->codec, f};
	f->peer = peer_pair(f->base, &f->fd);
	f->session = session_create(&config, transport_plain_create(f->fd), 7, "somebody");
	assert_non_null(f->session);
}

static void close_session(struct fixture *f)
{
	peer_hang_up(f->peer);
	peer_run(f->base);
	/* Only a client that does not read its answers is not heard hanging up: not here. */
	assert_int_equal(f->closed, 1);
	peer_close(f->peer);
	subscription_destroy(f->subscription);
	frame_codec_destroy(f->codec);
	event_base_free(f->base);
}

static void small_buffers(struct fixture *f)
{
	int small = 1;

	/* The kernel makes it the least there is: some 4 KiB. */
	assert_int_equal(setsockopt(f->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	assert_int_equal(setsockopt(f->peer->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
}

/* As fanout does it: a batch of that many bytes of noise, and the session is woken. */
static void append(struct fixture *f, unsigned ring, size_t bytes, uint64_t events)
{
	static uint8_t noise[256 << 10];
	Ringtail__V1__Batch batch = RINGTAIL__V1__BATCH__INIT;
	Ringtail__V1__Attachment attachment = RINGTAIL__V1__ATTACHMENT__INIT, *list = &attachment;
	struct frame_ref *frame;
	unsigned seed = 1;

	for (size_t i = 0; i < sizeof(noise) && !noise[0]; i++)
		noise[sizeof(noise) - 1 - i] = (uint8_t)rand_r(&seed) | 1;
	attachment.text = (ProtobufCBinaryData){.len = bytes, .data = noise};
	batch.cpu = cpu_of[ring];
	batch.first_seq = f->seq[ring];
	batch.end_seq = f->seq[ring] += events;
	batch.attachment = &list;
	batch.n_attachment = 1;
	frame = frame_ref_pack(f->codec, FRAME_BATCH, &batch.base);
	assert_non_null(frame);
	frame->ring = ring;
	frame->first_seq = batch.first_seq;
	frame->end_seq = batch.end_seq;
	frame->events = events;
	subscription_append(f->subscription, frame);
}

static void subscribe(struct fixture *f)
{
	peer_send_subscribe(f->peer, "syscall:read:call", NULL, NULL);
	peer_free(peer_expect(f->peer, FRAME_CATALOG));
	peer_free(peer_expect(f->peer, FRAME_SUBSCRIBED));
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void test_requests(void **state)
{
	Ringtail__V1__Catalog *catalog;
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	assert_string_equal(session_software(f.session), "peer");
	assert_string_equal(session_peer(f.session), "somebody");
	assert_int_equal(session_id(f.session), 7);
	peer_send_list(f.peer, "");
	catalog = peer_expect(f.peer, FRAME_CATALOG);
	assert_int_equal(catalog->n_probe, small_catalog_get()->n_probe);
	peer_free(catalog);
	peer_send_list(f.peer, "nothing");
	peer_expect_error(f.peer, "unknown-probe", false);
	peer_send_stat(f.peer, 0);
	peer_free(peer_expect(f.peer, FRAME_STAT));
	subscribe(&f);
	append(&f, 0, 100, 3);
	session_wake(f.session);
	peer_free(peer_expect(f.peer, FRAME_BATCH));
	assert_true(session_idle(f.session));
	assert_int_equal(session_frames(f.session), 7);
	close_session(&f);
	assert_false(f.orderly);
}

static void test_requests_without_waiting(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	peer_send_hello(f.peer);
	peer_send_list(f.peer, "");
	peer_send_list(f.peer, "nothing");
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	peer_send_stat(f.peer, 0);
	peer_free(peer_expect(f.peer, FRAME_SERVER_HELLO));
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_expect_error(f.peer, "unknown-probe", false);
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_free(peer_expect(f.peer, FRAME_SUBSCRIBED));
	peer_free(peer_expect(f.peer, FRAME_STAT));
	close_session(&f);
}

static void test_byte_by_byte(void **state)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	static uint8_t frames[70000];
	struct fixture f;
	char glob[3000];
	size_t n;

	(void)state;
	open_session(&f, LONG_NS);
	/* Longer than the first buffer, and not compressible. */
	for (size_t i = 0; i < sizeof(glob) - 1; i++)
		glob[i] = (char)('!' + rand() % 90);
	glob[sizeof(glob) - 1] = '\0';
	hello.version_min = hello.version_max = FRAME_VERSION;
	list.glob = glob;
	n = peer_seal(f.peer, FRAME_CLIENT_HELLO, &hello, frames);
	n += peer_seal(f.peer, FRAME_LIST, &list, frames + n);
	n += peer_seal(f.peer, FRAME_LIST, &list, frames + n);
	for (size_t i = 0; i < n; i++) {
		peer_write(f.peer, frames + i, 1);
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	}
	peer_free(peer_expect(f.peer, FRAME_SERVER_HELLO));
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	assert_int_equal(f.lists, 2);
	close_session(&f);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void send_old_hello(struct peer *peer)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;

	hello.version_min = FRAME_VERSION + 1;
	hello.version_max = FRAME_VERSION + 9;
	peer_send(peer, FRAME_CLIENT_HELLO, &hello);
}

static void send_first_list(struct peer *peer)
{
	peer_send_list(peer, "");
}

static void send_strange_software(struct peer *peer)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;

	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = (char *)"\xc3(";
	peer_send(peer, FRAME_CLIENT_HELLO, &hello);
}

static void send_strange_probe(struct peer *peer)
{
	peer_send_hello(peer);
	peer_send_subscribe(peer, "\xed\xa0\x80", NULL, NULL);
}

static void send_two_hellos(struct peer *peer)
{
	peer_send_hello(peer);
	peer_send_hello(peer);
}

static void send_daemons_frame(struct peer *peer)
{
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;

	peer_send_hello(peer);
	peer_send(peer, FRAME_STAT, &stat);
}

static void send_two_subscribes(struct peer *peer)
{
	peer_send_hello(peer);
	peer_send_subscribe(peer, "x", NULL, NULL);
	peer_send_subscribe(peer, "x", NULL, NULL);
}

static void send_noise(struct peer *peer)
{
	peer_write(peer, "GET / HTTP/1.0\r\n\r\n", 18);
}

static void send_changed(struct peer *peer, unsigned byte)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;
	uint8_t frame[512];
	size_t n;

	hello.software = (char *)"a software";
	n = peer_seal(peer, FRAME_CLIENT_HELLO, &hello, frame);
	frame[byte] ^= 0x40;
	peer_write(peer, frame, n);
}

static void send_other_version(struct peer *peer)
{
	send_changed(peer, 2);
}

static void send_unknown_type(struct peer *peer)
{
	send_changed(peer, 3);
}

static void send_oversized(struct peer *peer)
{
	send_changed(peer, 10);
}

static void send_bad_checksum(struct peer *peer)
{
	send_changed(peer, FRAME_HEADER_BYTES + 3);
}

static void send_no_message(struct peer *peer)
{
	uint8_t frame[64];

	peer_write(peer, frame, frame_seal(peer->codec, FRAME_CLIENT_HELLO,
					   (const uint8_t *)"\xff\xff\xff", 3, frame));
}

static void test_refusals(void **state)
{
	static const struct {
		void (*send)(struct peer *peer);
		const char *code;
	} wrong[] = {
		{send_first_list, "unexpected-frame"},
		{send_two_hellos, "unexpected-frame"},
		{send_daemons_frame, "unexpected-frame"},
		{send_two_subscribes, "already-subscribed"},
		{send_old_hello, "version-unsupported"},
		{send_noise, "bad-magic"},
		{send_other_version, "bad-version"},
		{send_unknown_type, "bad-type"},
		{send_oversized, "too-large"},
		{send_bad_checksum, "bad-checksum"},
		{send_no_message, "bad-message"},
		{send_strange_software, "bad-message"},
		{send_strange_probe, "bad-message"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		Ringtail__V1__Error *error;
		struct fixture f;

		open_session(&f, LONG_NS);
		wrong[i].send(f.peer);
		error = peer_await(f.peer, FRAME_ERROR);
		assert_string_equal(error->code, wrong[i].code);
		assert_true(error->fatal && *error->what && *error->hint);
		peer_free(error);
		/* Whatever else it says is not heeded, and nothing follows the Error. */
		peer_write(f.peer, "more", 4);
		peer_expect_end(f.peer);
		assert_int_equal(f.closed, 0);
		close_session(&f);
	}
}

static void test_subscribe_refused(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.refuse_subscribe = true;
	peer_greet(f.peer);
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	peer_expect_error(f.peer, "bad-filter", true);
	peer_expect_end(f.peer);
	close_session(&f);
}

/* It waits for its stream when it does something wrong: the stream comes, and stays unsaid. */
static void test_stream_comes_too_late(void **state)
{
	struct error error;
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.hold_subscribe = true;
	peer_greet(f.peer);
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	peer_expect_error(f.peer, "already-subscribed", true);
	give_stream(&f);
	append(&f, 0, 100, 1);
	session_wake(f.session);
	error_set(&error, EINVAL, "again", "and refused again");
	session_refuse(f.session, &error, true);
	peer_expect_end(f.peer);
	close_session(&f);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void test_no_hello(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, 30 * MS);
	peer_expect_error(f.peer, "hello-timeout", true);
	peer_expect_end(f.peer);
	/* One that does not hang up either is hung up on. */
	peer_run_for(f.base, 50 * MS);
	assert_int_equal(f.closed, 1);
	close_session(&f);
}

static void test_no_request(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, 30 * MS);
	peer_greet(f.peer);
	peer_expect_error(f.peer, "request-timeout", true);
	close_session(&f);
}

static void test_no_timeout_after_a_request(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, 500 * MS);
	peer_greet(f.peer);
	subscribe(&f);
	peer_run_for(f.base, 600 * MS);
	append(&f, 0, 100, 1);
	session_wake(f.session);
	peer_free(peer_expect(f.peer, FRAME_BATCH));
	close_session(&f);
}

static void test_stat_interval(void **state)
{
	uint64_t begin = clock_monotonic();
	struct fixture f;

	(void)state;
	open_session(&f, 200 * MS);
	peer_greet(f.peer);
	peer_send_stat(f.peer, 1);	/* less than the least */
	for (unsigned i = 1; i <= 4; i++) {
		Ringtail__V1__Stat *stat = peer_expect(f.peer, FRAME_STAT);

		assert_int_equal(stat->uptime_ns, i);
		peer_free(stat);
	}
	assert_true(clock_monotonic() - begin >= 140 * MS);
	/* Refused, it is not told any more. */
	peer_send_hello(f.peer);
	peer_expect_error(f.peer, "unexpected-frame", true);
	peer_expect_end(f.peer);
	peer_run_for(f.base, 100 * MS);
	assert_true(f.stats <= 5);
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

/* ---- Output ---------------------------------------------------------------------------------- */

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

/* ---- Ends ------------------------------------------------------------------------------------ */

static void test_bye(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	subscribe(&f);
	f.bounds.hello_timeout_ns = 500 * MS;
	peer_send_bye(f.peer);
	peer_send_list(f.peer, "");	/* not heeded any more */
	peer_expect_end(f.peer);
	append(&f, 0, 100, 1);
	session_wake(f.session);
	PEER_AWAIT(f.base, f.closed == 1);	/* it need not hang up itself */
	assert_true(f.orderly);
	assert_int_equal(f.lists, 0);
	assert_true(TAILQ_EMPTY(&f.subscription->streams));
	close_session(&f);
}

/* What it said last is heard even if a write finds out first that it has gone. */
static void test_bye_and_gone(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	subscribe(&f);
	peer_send_bye(f.peer);
	peer_hang_up(f.peer);
	append(&f, 0, 100, 1);
	session_wake(f.session);
	assert_int_equal(f.closed, 1);
	assert_true(f.orderly);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_requests_without_waiting),
		cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_subscribe_refused),
		cmocka_unit_test(test_stream_comes_too_late),
		cmocka_unit_test(test_no_hello),
		cmocka_unit_test(test_no_request),
		cmocka_unit_test(test_no_timeout_after_a_request),
		cmocka_unit_test(test_stat_interval),
		cmocka_unit_test(test_stat_interval_unread),
		cmocka_unit_test(test_output_in_pieces),
		cmocka_unit_test(test_slow_client),
		cmocka_unit_test(test_asks_and_never_listens),
		cmocka_unit_test(test_bye),
		cmocka_unit_test(test_bye_and_gone),
		cmocka_unit_test(test_hang_up_while_sending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
