/* small_session: one session over a socketpair, its host made by hand. For test_session*.c. */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_SMALL_SESSION_H
#define RINGTAIL_TESTS_UNIT_DAEMON_SMALL_SESSION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/serve/session.h"
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
	unsigned lists, stats, closed, changes, prepares;
	bool again;			/* the last of them was of a request that had waited */
	int prepare_says;		/* 0: probes are there, 1: they are being made, -EACCES */
	bool awaits;			/* a program that brings them */
	bool wrong_filter;		/* or it has a filter that is none */
	unsigned asked_awaits, told_awaits;	/* whether it does; and why */
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

static int on_awaits(void *context, struct session *session, const Ringtail__V1__Subscribe *subscribe,
		     struct error *error)
{
	struct fixture *f = context;

	assert_ptr_equal(session, f->session);
	assert_int_equal(subscribe->n_probe, 1);
	f->asked_awaits++;
	f->told_awaits += error != NULL;
	if (f->wrong_filter)
		return error_set(error, EINVAL, "filter-incomplete", "that is no filter");
	if (f->awaits && error)
		error_set(error, EAGAIN, "waits-for-program", "none has brought it");
	return f->awaits;
}

static void on_change(void *context, struct session *session, const struct change_request *change)
{
	struct fixture *f = context;

	assert_ptr_equal(session, f->session);
	f->changes += change->enables;
}

static void on_forget(void *context, struct session *session, const char *consumer)
{
	struct error error;

	(void)context;
	error_set(&error, ENOENT, "unknown-consumer", "there is no consumer `%s`", consumer);
	session_answer(session, NULL, &error);
}

static void on_stuck(void *context, struct session *session,
		     const Ringtail__V1__StuckRequest *request)
{
	struct error error;

	(void)context;
	error_set(&error, EOPNOTSUPP, "stuck-not-here", "nobody is looked at for %llu ns here",
		  (unsigned long long)request->longer_than_ns);
	session_answer(session, NULL, &error);
}

static void on_dumps(void *context, struct session *session,
		     const Ringtail__V1__DumpsRequest *request)
{
	struct error error;

	(void)context;
	error_set(&error, ENOENT, "dump-unknown", "there is no dump %.80s", request->get);
	session_answer(session, NULL, &error);
}

static struct frame_ref *on_hosts(void *context, const char *after, struct error *error)
{
	(void)context;
	error_set(error, EOPNOTSUPP, "not-a-relay", "no hosts here, nor behind %.60s", after);
	return NULL;
}

static void on_reach(void *context, struct session *session, const char *name)
{
	struct error error;

	(void)context;
	error_set(&error, EINVAL, "not-a-relay", "no host %.60s here", name);
	session_answer(session, NULL, &error);
}

static void on_dial(void *context, struct session *session, const Ringtail__V1__Dial *request)
{
	(void)context, (void)session, (void)request;
}

static struct frame_ref *on_hello(void *context, struct session *session)
{
	struct fixture *f = context;
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.role = (char *)role_name(session_identity(session)->role);
	return frame_ref_pack(f->codec, FRAME_SERVER_HELLO, &hello.base);
}

static int on_prepare(void *context, struct session *session, char *const *probe, size_t probes, bool again,
		      struct error *error)
{
	struct fixture *f = context;

	(void)session, (void)probe, (void)probes;
	f->prepares++;
	f->again = again;
	return f->prepare_says < 0 ? error_set(error, EACCES, "viewer-probes", "not for viewers") :
				     f->prepare_says;
}

static struct frame_ref *on_list(void *context, struct session *session, const Ringtail__V1__ListRequest *request,
				 struct error *error)
{
	struct fixture *f = context;

	(void)session;

	f->lists++;
	if (strcmp(request->glob, "nothing") == 0) {
		error_set(error, ENOENT, "unknown-probe", "there is no probe `%s`", request->glob);
		return NULL;
	}
	return frame_ref_pack(f->codec, FRAME_CATALOG, &small_catalog_get()->base);
}

static struct frame_ref *on_stat(void *context, const char *consumer)
{
	struct fixture *f = context;
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;

	stat.uptime_ns = ++f->stats;
	stat.source = (char *)consumer;		/* what it is about */
	return frame_ref_pack(f->codec, FRAME_STAT, &stat.base);
}

static inline void give_stream(struct fixture *f)
{
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct stream *stream = stream_create(f->subscription, f->codec, cpu_of, f->queue_bytes,
					      NULL, LOSS_REASON_UNKNOWN);

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

static inline void quiet(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static inline void open_session(struct fixture *f, uint64_t timeout_ns)
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
					on_probes, on_prepare, NULL, on_subscribe, on_ack, on_change, on_forget,
					on_stuck, on_dumps, on_hosts,
					on_closed, on_awaits, on_reach, on_dial};
	f->bounds = (struct session_bounds){timeout_ns, timeout_ns, 60 * NS_PER_S, false};
	config = (struct session_config){f->base, &f->host, &f->bounds, f->codec, f, NULL, NULL};
	f->peer = peer_pair(f->base, &f->fd);
	f->session = session_create(&config, transport_plain_create(f->fd), 7, "somebody");
	assert_non_null(f->session);
}

static inline void close_session(struct fixture *f)
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

/* As fanout does it: a batch of that many bytes of noise, and the session is woken. */
static inline void append(struct fixture *f, unsigned ring, size_t bytes, uint64_t events)
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

static inline void subscribe(struct fixture *f)
{
	peer_send_subscribe(f->peer, "syscall:read:call", NULL, NULL);
	peer_free(peer_expect(f->peer, FRAME_CATALOG));
	peer_free(peer_expect(f->peer, FRAME_SUBSCRIBED));
}

#endif
