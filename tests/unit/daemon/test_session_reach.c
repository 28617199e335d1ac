/*
 * A client that asks a relay for a host: its connection is handed over as it is, unless it speaks before its answer.
 * And whose word it is that a relay wants this host to dial.
 */
#include "tests/unit/daemon/small_session.h"

#define MANY 1000u
#define AT_ONCE 100u

static unsigned asked, dialled;
static struct session *asker;
static struct transport *handed;

static void on_ask(void *context, struct session *session, const char *host)
{
	(void)context;
	assert_string_equal(host, "web-1");
	asker = session;
	asked++;
}

static void on_ask_dial(void *context, struct session *session, const Ringtail__V1__Dial *request)
{
	(void)context, (void)session, (void)request;
	dialled++;
}

static void open_asker(struct fixture *f)
{
	open_session(f, LONG_NS);
	f->host.reach = on_ask;
	f->host.dial = on_ask_dial;
	asked = dialled = 0;
	asker = NULL;
	peer_greet(f->peer);
}

static void ask_for(struct peer *peer, const char *host)
{
	Ringtail__V1__Reach request = RINGTAIL__V1__REACH__INIT;

	request.host = (char *)host;
	peer_send(peer, FRAME_REACH, &request);
}

static void wait_until_asked(struct fixture *f)
{
	ask_for(f->peer, "web-1");
	PEER_AWAIT(f->base, asked);
}

static void a_client_that_waits_is_handed_over(void **state)
{
	char got[16] = "";
	struct fixture f;

	(void)state;
	open_asker(&f);
	wait_until_asked(&f);
	handed = session_hand_over(asker);
	assert_non_null(handed);
	assert_int_equal(handed->fd, f.fd);
	assert_int_equal(f.closed, 1);
	assert_true(f.orderly);
	peer_write(f.peer, "hello", 5);
	peer_run(f.base);				/* nobody else reads it */
	assert_int_equal(transport_read(handed, got, sizeof(got)), 5);
	assert_string_equal(got, "hello");
	assert_int_equal(send(handed->fd, "x", 1, 0), 1);
	assert_int_equal(recv(f.peer->fd, got, 1, 0), 1);	/* it was answered nothing */
	assert_int_equal(got[0], 'x');
	transport_destroy(handed);
	close_session(&f);
}

/* What it says then is for the relay or for the host: who knows. */
static void a_client_that_speaks_before_its_answer_is_refused(void **state)
{
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	Ringtail__V1__Reach request = RINGTAIL__V1__REACH__INIT;
	uint8_t both[256];
	struct fixture f;
	size_t n;

	(void)state;
	open_asker(&f);
	request.host = (char *)"web-1";
	n = peer_seal(f.peer, FRAME_REACH, &request, both);
	n += peer_seal(f.peer, FRAME_LIST, &list, both + n);
	peer_write(f.peer, both, n);
	PEER_AWAIT(f.base, asked);
	assert_null(session_hand_over(asker));
	peer_expect_error(f.peer, "unexpected-frame", true);
	peer_expect_end(f.peer);
	assert_int_equal(f.lists, 0);
	close_session(&f);
}

/* It has been refused meanwhile, by a reload. */
static void a_client_that_is_refused_meanwhile_is_not_handed_over(void **state)
{
	struct error error;
	struct fixture f;

	(void)state;
	open_asker(&f);
	wait_until_asked(&f);
	error_set(&error, EACCES, "not-allowed", "no longer");
	session_refuse(asker, &error, true);
	assert_null(session_hand_over(asker));		/* neither before it was told so, */
	peer_expect_error(f.peer, "not-allowed", true);
	assert_null(session_hand_over(asker));		/* nor then; */
	session_answer(asker, NULL, &error);		/* and it is answered once */
	peer_expect_end(f.peer);
	close_session(&f);
}

static void a_client_that_has_a_stream_is_not_handed_over(void **state)
{
	struct fixture f;

	(void)state;
	open_asker(&f);
	subscribe(&f);
	wait_until_asked(&f);
	assert_null(session_hand_over(asker));
	peer_expect_error(f.peer, "unexpected-frame", true);
	close_session(&f);
}

/* The next is not looked at before the one before is answered: one who asks for many waits for each. */
static void a_thousand_are_answered_one_by_one(void **state)
{
	unsigned answered = 0;
	struct error error;
	struct fixture f;

	(void)state;
	open_asker(&f);
	error_set(&error, ENOENT, "host-unknown", "this relay knows no such host");
	while (answered < MANY) {
		for (unsigned i = 0; i < AT_ONCE; i++)
			ask_for(f.peer, "web-1");
		for (unsigned i = 0; i < AT_ONCE; i++) {
			PEER_AWAIT(f.base, asked > answered);
			peer_run(f.base);
			assert_int_equal(asked, ++answered);
			session_answer(asker, NULL, &error);
			peer_expect_error(f.peer, "host-unknown", false);
		}
	}
	assert_int_equal(asked, MANY);
	close_session(&f);
}

static void a_name_is_one_line(void **state)
{
	static const char *const name[] = {"web-1\nweb-2", "web\033[2J", "web\177", "w\xffq"};

	(void)state;
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		struct fixture f;

		open_asker(&f);
		ask_for(f.peer, name[i]);
		peer_expect_error(f.peer, "text-invalid", true);
		assert_int_equal(asked, 0);
		close_session(&f);
	}
}

/* A client that plays the relay would have this host dial whomever it dials for whomever it names. */
static void a_client_may_not_ask_to_dial(void **state)
{
	Ringtail__V1__Dial dial = RINGTAIL__V1__DIAL__INIT;
	struct fixture f;

	(void)state;
	open_asker(&f);
	dial.client = (char *)"cert:alice";
	peer_send(f.peer, FRAME_DIAL, &dial);
	peer_expect_error(f.peer, "unexpected-frame", true);
	assert_int_equal(dialled, 0);
	close_session(&f);
	open_asker(&f);
	session_identity(f.session)->proof = IDENTITY_RELAY;
	peer_send(f.peer, FRAME_DIAL, &dial);
	PEER_AWAIT(f.base, dialled);
	close_session(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_that_waits_is_handed_over),
		cmocka_unit_test(a_client_that_speaks_before_its_answer_is_refused),
		cmocka_unit_test(a_client_that_is_refused_meanwhile_is_not_handed_over),
		cmocka_unit_test(a_client_that_has_a_stream_is_not_handed_over),
		cmocka_unit_test(a_thousand_are_answered_one_by_one),
		cmocka_unit_test(a_name_is_one_line),
		cmocka_unit_test(a_client_may_not_ask_to_dial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
