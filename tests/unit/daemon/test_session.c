/*
 * One client's session: what it answers, what it refuses, input in pieces, time-outs, and how it
 * ends. What it sends to a client that reads slowly, or never: test_session_output.c.
 */
#include "daemon/base/counters.h"
#include "tests/unit/daemon/small_session.h"

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

/* A relay may: it is no client. */
static void send_error(struct peer *peer)
{
	Ringtail__V1__Error error = RINGTAIL__V1__ERROR__INIT;

	error.code = error.what = error.hint = (char *)"x";
	peer_send_hello(peer);
	peer_send(peer, FRAME_ERROR, &error);
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

static void send_raw(struct peer *peer, enum frame_type type, const void *raw, size_t bytes)
{
	uint8_t frame[4096];

	assert_true(frame_bound((uint32_t)bytes) <= sizeof(frame));
	peer_write(peer, frame, frame_seal(peer->codec, type, raw, (uint32_t)bytes, frame));
}

/* A cursor again and again: a few bytes each, that protobuf-c merges with all before it. */
static void send_repeated_field(struct peer *peer)
{
	uint8_t raw[2000];

	for (size_t i = 0; i < sizeof(raw); i += 4)
		memcpy(raw + i, "\x22\x02\x10\x05", 4);
	peer_greet(peer);
	send_raw(peer, FRAME_SUBSCRIBE, raw, sizeof(raw));
}

static void send_repeated_inside(struct peer *peer)
{
	peer_greet(peer);
	send_raw(peer, FRAME_ACK, "\x0a\x04\x10\x01\x10\x01", 6);
}

static void send_wrong_wire_type(struct peer *peer)
{
	peer_greet(peer);
	send_raw(peer, FRAME_FORGET, "\x08\x01", 2);
}

static void send_nul(struct peer *peer)
{
	peer_greet(peer);
	send_raw(peer, FRAME_FORGET, "\x0a\x03" "a\0b", 5);
}

static void send_too_many_elements(struct peer *peer)
{
	uint8_t raw[2 * (REQUEST_ELEMENTS_MAX + 1)], frame[2 * sizeof(raw)];

	for (size_t i = 0; i < sizeof(raw); i += 2)
		memcpy(raw + i, "\x0a\x00", 2);
	peer_greet(peer);
	peer_write(peer, frame, frame_seal(peer->codec, FRAME_SUBSCRIBE, raw, sizeof(raw), frame));
}

static void test_refusals(void **state)
{
	static const struct {
		void (*send)(struct peer *peer);
		const char *code, *what;
		unsigned bad;			/* frames */
	} wrong[] = {
		{send_first_list, "unexpected-frame",
		 "the first frame is not a ClientHello", 0},
		{send_two_hellos, "unexpected-frame",
		 "a client does not send this here", 0},
		{send_daemons_frame, "unexpected-frame",
		 "a client does not send this here", 0},
		{send_error, "unexpected-frame",
		 "a client does not send this here", 0},
		{send_two_subscribes, "already-subscribed",
		 "this connection has a subscription", 0},
		{send_old_hello, "version-unsupported",
		 "this daemon speaks version 1, the client 2 to 10", 0},
		{send_noise, "bad-magic",
		 "frame 1 from this client: this is not a ringtail frame", 1},
		{send_other_version, "bad-version",
		 "frame 1 from this client: the frame is of a version unknown to this program", 1},
		{send_unknown_type, "bad-type",
		 "frame 1 from this client: the frame is of a type unknown to this program", 1},
		{send_oversized, "too-large",
		 "frame 1 from this client: the frame says it is larger than is allowed here", 1},
		{send_bad_checksum, "bad-checksum",
		 "frame 1 from this client: the frame was changed or cut on its way", 1},
		{send_no_message, "bad-message",
		 "request 1 from this client: ClientHello is no message", 1},
		{send_repeated_field, "field-repeated",
		 "request 2 from this client: Subscribe.since comes twice, and may come once", 1},
		{send_repeated_inside, "field-repeated",
		 "request 2 from this client: Cursor.epoch comes twice, and may come once", 1},
		{send_wrong_wire_type, "field-type",
		 "request 2 from this client: Forget.consumer is of another wire type", 1},
		{send_nul, "field-nul",
		 "request 2 from this client: Forget.consumer has a NUL in its text", 1},
		{send_too_many_elements, "too-many-elements",
		 "request 2 from this client: Subscribe.probe has too many elements", 1},
		{send_strange_software, "text-invalid",
		 "request 1 from this client: ClientHello.software has the byte C3 at 1, which is not UTF-8", 1},
		{send_strange_probe, "text-invalid",
		 "request 2 from this client: Subscribe.probe has the byte ED at 1, which is not UTF-8", 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint64_t bad = counter_read(COUNTER_frames_bad), failed = counter_read(COUNTER_sessions_failed),
			 refused = counter_read(COUNTER_requests_refused);
		Ringtail__V1__Error *error;
		struct fixture f;

		open_session(&f, LONG_NS);
		wrong[i].send(f.peer);
		error = peer_await(f.peer, FRAME_ERROR);
		assert_string_equal(error->code, wrong[i].code);
		assert_string_equal(error->what, wrong[i].what);
		assert_true(error->fatal && *error->hint);
		peer_free(error);
		assert_int_equal(counter_read(COUNTER_frames_bad) - bad, wrong[i].bad);
		assert_int_equal(counter_read(COUNTER_sessions_failed) - failed, 1);
		assert_int_equal(counter_read(COUNTER_requests_refused) - refused, 1);
		/* Whatever else it says is not heeded, and nothing follows the Error. */
		peer_write(f.peer, "more", 4);
		peer_expect_end(f.peer);
		assert_int_equal(f.closed, 0);
		close_session(&f);
	}
}

/* Whatever would forge a line in what others are shown, or act on their terminal, in any text of any request. */
static void forged_lines(void **state)
{
	static const char *const hidden[] = {"a\nb", "a\rb", "\x1b[2J", "\x7f", "\xc2\x85",
					     "\xe2\x80\xa8", "\xe2\x80\xae", "\xff", "\t"};
	static const struct {
		enum frame_type type;
		uint8_t field;
		const char *name;
	} texts[] = {
		{FRAME_CLIENT_HELLO, 4, "ClientHello.software"}, {FRAME_CLIENT_HELLO, 5, "ClientHello.token"},
		{FRAME_LIST, 1, "ListRequest.glob"}, {FRAME_SUBSCRIBE, 1, "Subscribe.probe"},
		{FRAME_SUBSCRIBE, 2, "Subscribe.filter"}, {FRAME_SUBSCRIBE, 5, "Subscribe.consumer"},
		{FRAME_FORGET, 1, "Forget.consumer"}, {FRAME_CHANGE, 1, "Change.enable"},
		{FRAME_CHANGE, 2, "Change.disable"}, {FRAME_BYE, 1, "Bye.reason"},
		{FRAME_HOSTS_REQUEST, 1, "HostsRequest.after"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (size_t j = 0; j < sizeof(hidden) / sizeof(*hidden); j++) {
			uint8_t raw[64] = {(uint8_t)(texts[i].field << 3 | 2),
					   (uint8_t)strlen(hidden[j])};
			Ringtail__V1__Error *error;
			struct fixture f;

			memcpy(raw + 2, hidden[j], raw[1]);
			open_session(&f, LONG_NS);
			if (texts[i].type != FRAME_CLIENT_HELLO)
				peer_greet(f.peer);
			send_raw(f.peer, texts[i].type, raw, 2u + raw[1]);
			error = peer_await(f.peer, FRAME_ERROR);
			assert_string_equal(error->code, "text-invalid");
			assert_true(error->fatal && *error->hint);
			assert_non_null(strstr(error->what, texts[i].name));
			assert_null(strpbrk(error->what, "\n\r\x1b\x7f\t"));
			peer_free(error);
			peer_expect_end(f.peer);
			close_session(&f);
		}
}

/* The connection goes on: the next question may be another one. */
static void hosts_of_what_is_no_relay(void **state)
{
	Ringtail__V1__HostsRequest request = RINGTAIL__V1__HOSTS_REQUEST__INIT;
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	request.after = (char *)"web-1";
	for (unsigned i = 0; i < 2; i++) {
		Ringtail__V1__Error *error;

		peer_send(f.peer, FRAME_HOSTS_REQUEST, &request);
		error = peer_await(f.peer, FRAME_ERROR);
		assert_string_equal(error->code, "not-a-relay");
		assert_non_null(strstr(error->what, "web-1"));
		assert_false(error->fatal);
		peer_free(error);
	}
	close_session(&f);
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

/* What it asked for is being made: the request is taken when it is, and what came behind it after that. */
static void request_waits_for_its_probes(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.prepare_says = 1;
	peer_greet(f.peer);
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	peer_send_list(f.peer, "");
	PEER_AWAIT(f.base, f.prepares == 1);
	assert_false(f.again);
	assert_int_equal(f.lists, 0);
	session_go_on(f.session);		/* something was made, and not all of it */
	PEER_AWAIT(f.base, f.prepares == 2);
	assert_true(f.again);
	assert_int_equal(f.lists, 0);
	f.prepare_says = 0;
	session_go_on(f.session);
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_free(peer_expect(f.peer, FRAME_SUBSCRIBED));
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	assert_int_equal(f.prepares, 3);
	assert_int_equal(f.lists, 1);
	close_session(&f);
}

/* However long that takes: it is not the client who lets the daemon wait. */
static void probes_take_longer_than_a_request_may(void **state)
{
	struct fixture f;
	uint64_t until_ns;

	(void)state;
	open_session(&f, 100 * MS);
	f.prepare_says = 1;
	peer_greet(f.peer);
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	PEER_AWAIT(f.base, f.prepares == 1);
	until_ns = clock_monotonic() + 200 * MS;
	PEER_AWAIT(f.base, clock_monotonic() > until_ns);
	f.prepare_says = 0;
	session_go_on(f.session);
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_free(peer_expect(f.peer, FRAME_SUBSCRIBED));
	close_session(&f);
}

static void subscribe_and_wait(struct fixture *f, const char *probe, const char *filter)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	char *probes[] = {(char *)probe};

	subscribe.probe = probes;
	subscribe.n_probe = 1;
	subscribe.filter = (char *)filter;
	subscribe.wait = true;
	peer_send(f->peer, FRAME_SUBSCRIBE, &subscribe);
}

/* The client is told once, and the request is taken when the program is there; what came behind it, after that. */
static void request_waits_for_a_program(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.awaits = true;
	peer_greet(f.peer);
	subscribe_and_wait(&f, "app:x", NULL);
	peer_expect_error(f.peer, "waits-for-program", false);
	peer_send_list(f.peer, "");
	session_go_on(f.session);		/* a program has come, and is another one */
	PEER_AWAIT(f.base, f.asked_awaits == 2);
	assert_int_equal(f.told_awaits, 1);
	/* It may take longer than the silence of one who has no stream. */
	session_check_silence(f.session, clock_monotonic() + 2 * LONG_NS);
	assert_int_equal(f.lists, 0);
	assert_int_equal(f.closed, 0);
	f.awaits = false;
	session_go_on(f.session);
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_free(peer_expect(f.peer, FRAME_SUBSCRIBED));
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	assert_int_equal(f.lists, 1);
	close_session(&f);
}

/* A program could bring what it asks for, but the filter is wrong: it is told so, and not of a probe that nobody has. */
static void request_with_a_wrong_filter_does_not_wait(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.wrong_filter = true;
	peer_greet(f.peer);
	subscribe_and_wait(&f, "app:x", "id >");
	peer_expect_error(f.peer, "filter-incomplete", true);
	peer_expect_end(f.peer);
	assert_int_equal(f.asked_awaits, 1);
	close_session(&f);
}

/* Who goes meanwhile is gone, and keeps no place. */
static void client_goes_while_it_waits(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.awaits = true;
	peer_greet(f.peer);
	subscribe_and_wait(&f, "app:x", NULL);
	peer_expect_error(f.peer, "waits-for-program", false);
	peer_send_list(f.peer, "");
	close_session(&f);
	assert_int_equal(f.lists, 0);
}

/* Whoever sends more than fits behind it would not be seen going. */
static void client_sends_on_while_it_waits(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.awaits = true;
	peer_greet(f.peer);
	subscribe_and_wait(&f, "app:x", NULL);
	peer_expect_error(f.peer, "waits-for-program", false);
	for (int i = 0; i < 1024 && !f.closed; i++) {
		peer_send_list(f.peer, "");
		peer_run(f.base);
	}
	assert_int_equal(f.closed, 1);
	assert_int_equal(f.lists, 0);
	close_session(&f);
}

/* A request that is longer than the first buffer leaves room behind it. */
static void long_request_waits_for_a_program(void **state)
{
	char filter[3000];
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	for (size_t i = 0; i < sizeof(filter) - 1; i++)
		filter[i] = (char)('!' + rand() % 90);		/* does not compress */
	filter[sizeof(filter) - 1] = '\0';
	f.awaits = true;
	peer_greet(f.peer);
	subscribe_and_wait(&f, "app:x", filter);
	peer_expect_error(f.peer, "waits-for-program", false);
	peer_send_list(f.peer, "");
	session_go_on(f.session);
	PEER_AWAIT(f.base, f.asked_awaits == 2);
	assert_int_equal(f.closed, 0);
	f.awaits = false;
	session_go_on(f.session);
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_free(peer_expect(f.peer, FRAME_SUBSCRIBED));
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	assert_int_equal(f.lists, 1);
	close_session(&f);
}

/* A client of before does not ask for that, and is refused, or served, at once. */
static void request_that_does_not_wait(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.awaits = true;
	peer_greet(f.peer);
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	peer_free(peer_expect(f.peer, FRAME_SUBSCRIBED));
	assert_int_equal(f.asked_awaits, 0);
	close_session(&f);
}

/* Whose requests have probes made, of those that the source can make: a viewer's subscriptions alone. */
static void requests_that_have_probes_made(void **state)
{
	static const struct {
		const char *glob;		/* listed; NULL: a change enables it */
		unsigned viewers, operators;	/* so many probes are prepared for */
	} asked[] = {
		{"fentry:vfs_read", 0, 1}, {"fexit:vfs_*", 0, 1}, {"kprobe:vfs_read", 0, 1}, {"kretprobe:vfs_read", 0, 1},
		{"uprobe:/bin/true:main", 0, 1}, {"syscall:*:call", 0, 0}, {"", 0, 0}, {"fentr", 0, 0}, {NULL, 0, 1},
	};
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	for (enum role role = ROLE_VIEWER; role <= ROLE_OPERATOR; role++) {
		session_identity(f.session)->role = role;
		for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
			Ringtail__V1__Change change = RINGTAIL__V1__CHANGE__INIT;
			char *probe = (char *)"fentry:vfs_read";

			f.prepares = 0;
			change.enable = &probe;
			change.n_enable = 1;
			if (asked[i].glob) {
				peer_send_list(f.peer, asked[i].glob);
				peer_free(peer_expect(f.peer, FRAME_CATALOG));
			} else {
				f.changes = 0;
				peer_send(f.peer, FRAME_CHANGE, &change);
				PEER_AWAIT(f.base, f.changes == 1);
				session_answer(f.session, on_probes(&f), NULL);
				peer_free(peer_expect(f.peer, FRAME_PROBES));
			}
			assert_int_equal(f.prepares, role == ROLE_VIEWER ? asked[i].viewers : asked[i].operators);
		}
	}
	close_session(&f);
}

static void probes_that_may_not_be_made(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	f.prepare_says = -EACCES;
	peer_greet(f.peer);
	peer_send_subscribe(f.peer, "x", NULL, NULL);
	peer_expect_error(f.peer, "viewer-probes", true);
	peer_expect_end(f.peer);
	close_session(&f);
}

/* Whoever reads strictly would not read the whole answer: a text that is cut inside a character says so. */
static void test_refusal_is_text(void **state)
{
	Ringtail__V1__Error *told;
	struct error error;
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	error_set(&error, EINVAL, "cut", "cut here: \xc3");
	error_hint(&error, "and \xe2\x80 here");
	session_refuse(f.session, &error, false);
	told = peer_await(f.peer, FRAME_ERROR);
	assert_string_equal(told->what, "cut here: ?");
	assert_string_equal(told->hint, "and ?? here");
	peer_free(told);
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

static void expect_refused(struct fixture *f, const char *code, const char *what)
{
	Ringtail__V1__Error *error = peer_await(f->peer, FRAME_ERROR);

	assert_string_equal(error->code, code);
	assert_string_equal(error->what, what);
	assert_true(error->fatal);
	peer_free(error);
}

#define IDLE	"the client has been idle without a stream for silence-timeout"
#define UNREAD	"the client has not read pending data for silence-timeout"

/* One that asks for nothing and has no stream; and one that has one, and does not read it. */
static void silent_clients(void **state)
{
	uint64_t silent = counter_read(COUNTER_sessions_silent), now_ns;
	struct fixture f;

	(void)state;
	open_session(&f, LONG_NS);
	session_check_silence(f.session, clock_monotonic() + 2 * LONG_NS);	/* it has said no hello: */
	peer_greet(f.peer);							/* that is another bound's */
	peer_send_list(f.peer, "");
	peer_free(peer_expect(f.peer, FRAME_CATALOG));
	now_ns = clock_monotonic();
	session_check_silence(f.session, now_ns + 59 * NS_PER_S);
	assert_int_equal(counter_read(COUNTER_sessions_silent), silent);
	session_check_silence(f.session, now_ns + 61 * NS_PER_S);
	assert_int_equal(counter_read(COUNTER_sessions_silent), silent + 1);
	expect_refused(&f, "silence-timeout", IDLE);
	close_session(&f);

	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	subscribe(&f);
	now_ns = clock_monotonic();
	session_check_silence(f.session, now_ns + 61 * NS_PER_S);	/* it has all there is */
	for (unsigned i = 0; i < 3; i++)				/* more than the socket takes */
		append(&f, 0, 256 << 10, 1);
	session_check_silence(f.session, now_ns + 120 * NS_PER_S);
	assert_int_equal(counter_read(COUNTER_sessions_silent), silent + 1);
	session_check_silence(f.session, now_ns + 122 * NS_PER_S);
	assert_int_equal(counter_read(COUNTER_sessions_silent), silent + 2);
	expect_refused(&f, "silence-timeout", UNREAD);
	close_session(&f);

	/* Who is told once in a while has all there is, too. */
	open_session(&f, LONG_NS);
	peer_greet(f.peer);
	peer_send_stat(f.peer, 60000);
	peer_free(peer_expect(f.peer, FRAME_STAT));
	session_check_silence(f.session, clock_monotonic() + 61 * NS_PER_S);
	assert_int_equal(counter_read(COUNTER_sessions_silent), silent + 2);
	close_session(&f);
}

static void test_no_hello(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, 30 * MS);
	expect_refused(&f, "hello-timeout", "the client sent no hello in time");
	peer_expect_end(f.peer);
	/* One that does not hang up either is hung up on. */
	PEER_AWAIT(f.base, f.closed == 1);
	close_session(&f);
}

static void test_no_request(void **state)
{
	struct fixture f;

	(void)state;
	open_session(&f, 30 * MS);
	peer_greet(f.peer);
	expect_refused(&f, "request-timeout", "the client sent no request in time after its hello");
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
	Ringtail__V1__Error *error;
	struct fixture f;
	unsigned told;

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
	/* Refused, it is not told any more. Before that, one more may have been on its way. */
	peer_send_hello(f.peer);
	error = peer_await(f.peer, FRAME_ERROR);
	assert_string_equal(error->code, "unexpected-frame");
	assert_true(error->fatal);
	peer_free(error);
	peer_expect_end(f.peer);
	told = f.stats;
	peer_run_for(f.base, 100 * MS);
	assert_int_equal(f.stats, told);
	close_session(&f);
}

/* It is answered once, and the answer is about that consumer. */
static void test_stat_of_a_consumer(void **state)
{
	Ringtail__V1__StatRequest request = RINGTAIL__V1__STAT_REQUEST__INIT;
	Ringtail__V1__Stat *stat;
	struct fixture f;

	(void)state;
	open_session(&f, 200 * MS);
	peer_greet(f.peer);
	request.consumer = (char *)"relay";
	request.interval_ms = 1;
	peer_send(f.peer, FRAME_STAT_REQUEST, &request);
	stat = peer_expect(f.peer, FRAME_STAT);
	assert_string_equal(stat->source, "relay");
	peer_free(stat);
	peer_run_for(f.base, 100 * MS);
	assert_int_equal(f.stats, 1);
	peer_send_stat(f.peer, 0);
	stat = peer_expect(f.peer, FRAME_STAT);
	assert_string_equal(stat->source, "");
	peer_free(stat);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_requests_without_waiting),
		cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(forged_lines),
		cmocka_unit_test(hosts_of_what_is_no_relay),
		cmocka_unit_test(test_subscribe_refused),
		cmocka_unit_test(request_waits_for_its_probes),
		cmocka_unit_test(probes_take_longer_than_a_request_may),
		cmocka_unit_test(request_waits_for_a_program),
		cmocka_unit_test(long_request_waits_for_a_program),
		cmocka_unit_test(request_with_a_wrong_filter_does_not_wait),
		cmocka_unit_test(client_goes_while_it_waits),
		cmocka_unit_test(client_sends_on_while_it_waits),
		cmocka_unit_test(request_that_does_not_wait),
		cmocka_unit_test(requests_that_have_probes_made),
		cmocka_unit_test(probes_that_may_not_be_made),
		cmocka_unit_test(test_refusal_is_text),
		cmocka_unit_test(test_stream_comes_too_late),
		cmocka_unit_test(silent_clients),
		cmocka_unit_test(test_no_hello),
		cmocka_unit_test(test_no_request),
		cmocka_unit_test(test_no_timeout_after_a_request),
		cmocka_unit_test(test_stat_interval),
		cmocka_unit_test(test_stat_of_a_consumer),
		cmocka_unit_test(test_bye),
		cmocka_unit_test(test_bye_and_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
