/*
 * fuzz_request: bytes from outside as what a client says to its session. Whatever they are, the session
 * ends once, keeps to one answer at a time (it asserts that), and leaves nothing behind.
 *
 * An input that starts with an odd byte gets right checksums, or the fuzzer would never pass them. The
 * host answers as the daemon does, from a small catalog, and compiles the probes and filter that are
 * asked for. No timer is ever due.
 */
#include <endian.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/serve/always_on.h"
#include "daemon/base/clock.h"
#include "daemon/access/gate.h"
#include "daemon/base/log.h"
#include "query/probe_set.h"
#include "daemon/serve/session.h"
#include "proto/limits.h"
#include "tests/unit/daemon/small_catalog.h"

#define NEVER_NS (3600 * NS_PER_S)
#define TURNS_MAX 100000u	/* of the loop, for one input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct host {
	struct event_base *base;
	struct frame_codec *codec;
	struct gate *gate;
	struct session_host ops;
	struct session *session;	/* NULL: it has ended */
	struct subscription *subscription;
};

static struct frame_ref *pack(struct host *host, enum frame_type type, const ProtobufCMessage *message)
{
	return frame_ref_pack(host->codec, type, message);
}

static int on_identify(void *context, void *client, const struct transport *transport,
		       struct client_identity *identity, struct error *error)
{
	(void)context, (void)client, (void)error;
	return identity_of_unix_peer(transport->fd, identity);
}

/* A token lets in who shows the right one; that is never found. */
static int on_admit(void *context, struct session *session, const char *token, struct error *error)
{
	struct host *host = context;

	return gate_admit(host->gate, session_identity(session), token, error);
}

static struct frame_ref *on_probes(void *context)
{
	Ringtail__V1__Probes probes = RINGTAIL__V1__PROBES__INIT;

	return pack(context, FRAME_PROBES, &probes.base);
}

static int on_ack(void *context, struct session *session, const Ringtail__V1__Ack *ack,
		  struct error *error)
{
	(void)context, (void)session;
	return ack->upto ? 0 : error_set(error, EINVAL, "not-durable", "nothing is kept");
}

/* As control.c judges one, without its disk. */
static void on_change(void *context, struct session *session, const struct change_request *change)
{
	static const struct config_words none;
	struct always_on *on = always_on_create();
	struct error error = {.code = "refused"};
	int err = on ? 0 : -ENOMEM;
	char *text;

	for (size_t i = 0; i < change->enables && !err; i++)
		err = always_on_enable(on, &none, change->enable[i], 0, "fuzzer", 1, &error);
	for (size_t i = 0; i < change->disables && !err; i++)
		err = always_on_disable(on, &none, change->disable[i], "fuzzer", 1, &error);
	text = on ? always_on_print(on) : NULL;
	always_on_destroy(on);
	/* What was kept is read back whole. */
	on = always_on_create();
	if (!on || !text || always_on_parse(on, text, strlen(text)) != 0)
		abort();
	always_on_destroy(on);
	free(text);
	session_answer(session, err ? NULL : on_probes(context), &error);
}

static void on_forget(void *context, struct session *session, const char *consumer)
{
	struct error error;

	(void)context;
	error_set(&error, ENOENT, "unknown-consumer", "there is no consumer `%.60s`", consumer);
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
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.role = (char *)role_name(session_identity(session)->role);
	return pack(context, FRAME_SERVER_HELLO, &hello.base);
}

static int on_prepare(void *context, struct session *session, char *const *probe, size_t probes,
		      bool again, struct error *error)
{
	(void)context, (void)session, (void)probe, (void)probes, (void)again, (void)error;
	return 0;
}

static struct frame_ref *on_list(void *context, struct session *session, const Ringtail__V1__ListRequest *request,
				 struct error *error)
{
	struct probe_set probes = {0};

	(void)session;
	if (*request->glob && probe_set_add_glob(&probes, request->glob, small_catalog_get(), error) != 0)
		return NULL;
	return pack(context, FRAME_CATALOG, &small_catalog_get()->base);
}

static struct frame_ref *on_stat(void *context, const char *consumer)
{
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;

	(void)consumer;
	return pack(context, FRAME_STAT, &stat.base);
}

static int on_subscribe(void *context, struct session *session,
			const Ringtail__V1__Subscribe *subscribe, struct error *error)
{
	static const uint32_t cpu_of[] = {0};
	struct host *host = context;
	struct subscription_request request = {
		.glob = (const char *const *)subscribe->probe,
		.globs = subscribe->n_probe,
		.filter = subscribe->filter,
	};
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct question_request question;
	struct stream *stream;
	int err;

	if (subscribe->question) {
		question = (struct question_request){
			.by = (const char *const *)subscribe->question->by, .bys = subscribe->question->n_by,
			.of = subscribe->question->of, .interval_ns = subscribe->question->interval_ns,
			.origin_ns = subscribe->question->origin_ns,
		};
		request.question = &question;
	}
	err = subscription_create(&request, small_catalog_get(), 1, 1 << 20, &host->subscription, error);
	if (err) {
		host->subscription = NULL;
		return err;
	}
	stream = stream_create(host->subscription, host->codec, cpu_of, 1 << 20, NULL,
			       LOSS_REASON_UNKNOWN);
	if (!stream)
		abort();
	session_subscribed(session, stream,
			   frame_ref_pack(host->codec, FRAME_CATALOG, &small_catalog_get()->base),
			   pack(host, FRAME_SUBSCRIBED, &subscribed.base));
	return 0;
}

static void on_closed(void *context, struct session *session, bool orderly)
{
	struct host *host = context;

	(void)orderly;
	if (session != host->session)
		abort();
	host->session = NULL;
}

static void quiet(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

/* One that names many probes waits for a program, for good. */
static int on_awaits(void *context, struct session *session, const Ringtail__V1__Subscribe *subscribe,
		     struct error *error)
{
	(void)context, (void)session;
	error_set(error, ENOENT, "waits-for-program", "waits for a program");
	return subscribe->n_probe > 2;
}

static void open_host(struct host *host)
{
	static const struct log_sink sink = {quiet, clock_monotonic};
	static const struct config nobody_named;

	log_set_sink(&sink);
	host->base = event_base_new();
	host->codec = frame_codec_create(1);
	host->ops = (struct session_host){host, on_identify, on_admit, on_hello, on_list, on_stat,
					  on_probes, on_prepare, NULL, on_subscribe, on_ack, on_change, on_forget,
					  on_stuck, on_dumps, on_hosts, on_closed, on_awaits, on_reach, on_dial};
	if (!host->base || !host->codec || gate_create(&nobody_named, &host->gate, NULL) != 0)
		abort();
}

/* As many whole frames as there are, one after the other. */
static void repair_checksums(uint8_t *bytes, size_t size)
{
	struct frame_header header;

	while (size >= FRAME_HEADER_BYTES &&
	       frame_parse_header(bytes, size, FRAME_RAW_BYTES_MAX, &header) == FRAME_OK &&
	       header.body_bytes <= size - FRAME_HEADER_BYTES) {
		size_t n = FRAME_HEADER_BYTES + header.body_bytes;
		uint32_t crc = crc32_iscsi(bytes, 12, ~0u);

		crc = htole32(~crc32_iscsi(bytes + FRAME_HEADER_BYTES, (int)header.body_bytes, crc));
		memcpy(bytes + 12, &crc, sizeof(crc));
		bytes += n;
		size -= n;
	}
}

/* Says it all, and listens to all that is said. */
static void talk(struct host *host, int fd, const uint8_t *bytes, size_t size)
{
	static uint8_t ignored[64 << 10];
	unsigned quiet_turns = 0;
	size_t said = 0;

	for (unsigned turn = 0; turn < TURNS_MAX && host->session && quiet_turns < 2; turn++) {
		ssize_t sent = said < size ? send(fd, bytes + said, size - said,
						  MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
		ssize_t got;

		said += sent > 0 ? (size_t)sent : 0;
		event_base_loop(host->base, EVLOOP_NONBLOCK);
		got = recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);
		quiet_turns = sent > 0 || got > 0 ? 0 : quiet_turns + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct session_bounds bounds = {NEVER_NS, NEVER_NS, NEVER_NS, false};
	static struct host host;
	struct session_config config;
	uint8_t *bytes;
	int fds[2];

	if (!size)
		return 0;
	if (!host.base)
		open_host(&host);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
		abort();
	bytes = malloc(size);
	config = (struct session_config){host.base, &host.ops, &bounds, host.codec, NULL, NULL, NULL};
	host.session = session_create(&config, transport_plain_create(fds[0]), 1, "fuzzer");
	if (!bytes || !host.session)
		abort();
	memcpy(bytes, data + 1, size - 1);
	if (*data & 1)
		repair_checksums(bytes, size - 1);
	talk(&host, fds[1], bytes, size - 1);
	close(fds[1]);
	for (unsigned turn = 0; turn < 10 && host.session; turn++)
		event_base_loop(host.base, EVLOOP_NONBLOCK);
	if (host.session)
		abort();
	subscription_destroy(host.subscription);
	host.subscription = NULL;
	free(bytes);
	return 0;
}
