/*
 * Connections of a relay's clients to its hosts: which token opens one, what each side gets to read, how one ends, and
 * that neither a side that does not read nor one that floods costs more than its share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/relay/agent.h"
#include "daemon/relay/bridge.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/peer.h"

#define SHORT_NS	(20 * 1000000ull)
#define PLACES_MAX	64u	/* of allocations */

/* ---- What is beside it: the gate, the agent's first connection, libevent's memory --------------- */

static enum role role_left;	/* of whoever is judged */
static bool revoked;

static struct {
	bool refuses;			/* what was sent before still waits */
	unsigned dials;
	uint8_t token[RELAY_TOKEN_BYTES];	/* of the last one */
} agent_side;

void __wrap_gate_judge(const struct gate *gate, struct client_identity *identity);
void __wrap_gate_judge(const struct gate *gate, struct client_identity *identity)
{
	(void)gate;
	identity->role = role_left;
}

int __wrap_gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
		      const char *what, struct error *error);
int __wrap_gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
		      const char *what, struct error *error)
{
	(void)gate;
	assert_int_equal(needed, ROLE_OPERATOR);
	return identity->role >= needed ? 0 : error_set(error, EACCES, "not-allowed", "you may not %s", what);
}

struct transport_tls_context *__wrap_gate_tls(const struct gate *gate);
struct transport_tls_context *__wrap_gate_tls(const struct gate *gate)
{
	(void)gate;
	return NULL;
}

int __wrap_transport_tls_check_revoked(const struct transport_tls_context *context,
				       const struct transport *transport, struct error *error);
int __wrap_transport_tls_check_revoked(const struct transport_tls_context *context,
				       const struct transport *transport, struct error *error)
{
	(void)context;
	assert_non_null(transport);
	return revoked ? error_set(error, EACCES, "certificate-revoked", "revoked") : 0;
}

bool __wrap_relay_agent_dial(struct relay_agent *agent, const uint8_t *token, size_t bytes, const char *client);
bool __wrap_relay_agent_dial(struct relay_agent *agent, const uint8_t *token, size_t bytes, const char *client)
{
	assert_int_equal(agent->state, AGENT_STREAMING);
	assert_int_equal(bytes, RELAY_TOKEN_BYTES);
	assert_string_equal(client, "cert:alice");
	memcpy(agent_side.token, token, bytes);
	agent_side.dials += !agent_side.refuses;
	return !agent_side.refuses;
}

struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn callback,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn callback,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn callback,
			       void *context)
{
	return may_allocate() ? __real_event_new(base, fd, what, callback, context) : NULL;
}

/* ---- A client, a host --------------------------------------------------------------------------- */

struct asking {
	struct transport *transport;	/* the relay's end; NULL: handed over */
	struct peer *peer;		/* the client */
	bool of_no_use;			/* it has spoken meanwhile */
	unsigned reached, failed;
	char code[64];
};

struct fixture {
	struct event_base *base;
	struct frame_codec *codec;
	struct bridges *bridges;
	struct relay_host *host;
	struct relay_agent agent;
	struct asking asking;
	int host_fd;			/* the host's end of its second connection; -1: none */
};

static void quiet(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static void open_fixture(struct fixture *f, uint64_t linger_ns, uint64_t silence_ns)
{
	static const struct log_sink sink = {quiet, clock_monotonic};
	struct bridges_config config = {.linger_ns = linger_ns, .silence_ns = silence_ns};

	log_set_sink(&sink);
	memset(f, 0, sizeof(*f));
	f->base = config.base = event_base_new();
	f->codec = config.codec = frame_codec_create(1);
	f->bridges = bridges_create(&config);
	f->host = relay_host_create("web-1");
	f->agent = (struct relay_agent){.state = AGENT_STREAMING, .dials = true, .of = f->host};
	f->host->agent = &f->agent;
	f->host_fd = -1;
	memset(&agent_side, 0, sizeof(agent_side));
	role_left = ROLE_OPERATOR;
	revoked = false;
}

static void open_asking(struct fixture *f, struct asking *asking)
{
	int fd;

	memset(asking, 0, sizeof(*asking));
	asking->peer = peer_pair(f->base, &fd);
	asking->transport = transport_plain_create(fd);
}

static void close_asking(struct asking *asking)
{
	transport_destroy(asking->transport);
	if (asking->peer)
		peer_close(asking->peer);
	memset(asking, 0, sizeof(*asking));
}

static void close_fixture(struct fixture *f)
{
	bridges_destroy(f->bridges);
	close_asking(&f->asking);
	if (f->host_fd >= 0)
		close(f->host_fd);
	relay_host_destroy(f->host);
	frame_codec_destroy(f->codec);
	event_base_free(f->base);
}

static struct transport *on_reached(void *context)
{
	struct asking *asking = context;
	struct transport *transport = asking->transport;

	asking->reached++;
	if (asking->of_no_use)
		return NULL;
	asking->transport = NULL;
	return transport;
}

static void on_failed(void *context, const struct error *error)
{
	struct asking *asking = context;

	asking->failed++;
	snprintf(asking->code, sizeof(asking->code), "%s", error->code);
}

static int ask_as(struct fixture *f, struct asking *asking, struct error *error)
{
	const struct client_identity identity = {.proof = IDENTITY_CERT, .role = ROLE_OPERATOR};
	const struct bridge_asker asker = {.context = asking, .reached = on_reached, .failed = on_failed};

	memset(error, 0, sizeof(*error));
	return bridges_ask(f->bridges, f->host, &identity, "cert:alice", &asker, error);
}

static void ask(struct fixture *f)
{
	struct error error;

	open_asking(f, &f->asking);
	assert_int_equal(ask_as(f, &f->asking, &error), 0);
}

static void assert_refused(struct fixture *f, const char *code)
{
	unsigned before = agent_side.dials;
	struct asking asking = {0};
	struct error error;

	assert_true(ask_as(f, &asking, &error) < 0);
	assert_string_equal(error.code, code);
	assert_true(*error.hint);
	assert_int_equal(asking.reached + asking.failed, 0);
	assert_int_equal(agent_side.dials, before);
}

/* The host comes, and shows that. Its transport is the bridge's now, or was refused. */
static int come_as(struct fixture *f, const char *host, const uint8_t *token, size_t bytes)
{
	struct transport *transport;
	struct error error = {0};
	int fds[2], err;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	transport = transport_plain_create(fds[0]);
	err = bridges_join(f->bridges, host, token, bytes, transport, &error);
	if (err) {
		assert_int_equal(err, -EACCES);
		assert_string_equal(error.code, "dial-unknown");
		transport_destroy(transport);
		close(fds[1]);
	} else {
		f->host_fd = fds[1];
	}
	return err;
}

static int come(struct fixture *f)
{
	return come_as(f, "web-1", agent_side.token, sizeof(agent_side.token));
}

/* A client and a host that are connected. */
static void connect_both(struct fixture *f)
{
	ask(f);
	assert_int_equal(come(f), 0);
	assert_int_equal(f->asking.reached, 1);
	peer_free(peer_expect(f->asking.peer, FRAME_REACHED));
	assert_int_equal(f->asking.peer->bytes, 0);
}

static bool has_ended(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return got == 0 || (got < 0 && errno != EAGAIN);
}

/* Bytes, or an end. */
static bool has_more(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void assert_said(struct fixture *f, int fd, const char *text)
{
	char got[64] = "";
	size_t n = 0;

	while (n < strlen(text)) {
		ssize_t more;

		PEER_AWAIT(f->base, has_more(fd));
		more = recv(fd, got + n, sizeof(got) - 1 - n, MSG_DONTWAIT);
		assert_true(more > 0);
		n += (size_t)more;
	}
	assert_string_equal(got, text);
}

/* ---- Bytes ---------------------------------------------------------------------------------------- */

static void what_each_says_reaches_the_other(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	connect_both(&f);
	say(f.asking.peer->fd, "question");
	assert_said(&f, f.host_fd, "question");
	say(f.host_fd, "answer");
	assert_said(&f, f.asking.peer->fd, "answer");
	close_fixture(&f);
}

/* A program that has asked, and says so by an end of file, gets its answer. */
static void one_side_ends_and_still_gets_to_read(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	connect_both(&f);
	say(f.asking.peer->fd, "last");
	shutdown(f.asking.peer->fd, SHUT_WR);
	assert_said(&f, f.host_fd, "last");
	PEER_AWAIT(f.base, has_ended(f.host_fd));
	assert_false(has_ended(f.asking.peer->fd));
	say(f.host_fd, "answer");
	assert_said(&f, f.asking.peer->fd, "answer");
	shutdown(f.host_fd, SHUT_WR);
	PEER_AWAIT(f.base, has_ended(f.asking.peer->fd));
	/* Both are closed, and not only shut down. */
	PEER_AWAIT(f.base, send(f.host_fd, "x", 1, MSG_NOSIGNAL) < 0);
	close_fixture(&f);
}

static void what_a_side_said_before_it_left_arrives(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	connect_both(&f);
	say(f.host_fd, "bye");
	close(f.host_fd);
	f.host_fd = -1;
	assert_said(&f, f.asking.peer->fd, "bye");
	PEER_AWAIT(f.base, has_ended(f.asking.peer->fd));
	close_fixture(&f);
}

static void a_side_that_does_not_end_is_ended(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, SHORT_NS, PEER_WAIT_NS);
	connect_both(&f);
	shutdown(f.host_fd, SHUT_WR);
	PEER_AWAIT(f.base, has_ended(f.asking.peer->fd));
	PEER_AWAIT(f.base, send(f.asking.peer->fd, "x", 1, MSG_NOSIGNAL) < 0);
	close_fixture(&f);
}

static int send_buffer(int fd)
{
	int bytes;
	socklen_t size = sizeof(bytes);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size), 0);
	return bytes;
}

static uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 7 + at / 251);
}

/* As much as is taken; how much that was. */
static size_t say_all_that_fits(struct fixture *f, size_t max)
{
	unsigned turns_refused = 0;
	size_t said = 0;

	while (turns_refused < 3 && said < max) {
		uint8_t bytes[4096];
		ssize_t sent;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = pattern(said + i);
		sent = send(f->host_fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
		said += sent > 0 ? (size_t)sent : 0;
		turns_refused = sent > 0 ? 0 : turns_refused + 1;
		peer_run(f->base);
	}
	return said;
}

/* Nothing is dropped: the host waits, and what it has no room for is for the host to count. */
static void a_side_that_does_not_read_holds_up_the_other(void **state)
{
	size_t said, heard = 0, most;
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	connect_both(&f);
	most = (size_t)send_buffer(f.host_fd) + (size_t)send_buffer(f.asking.peer->fd) + BRIDGE_BYTES;
	said = say_all_that_fits(&f, 4 * most);
	assert_true(said > BRIDGE_BYTES);
	assert_true(said <= most);
	say(f.asking.peer->fd, "still there");
	assert_said(&f, f.host_fd, "still there");
	while (heard < said) {
		uint8_t bytes[4096];
		ssize_t got;

		PEER_AWAIT(f.base, has_more(f.asking.peer->fd));
		got = recv(f.asking.peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		assert_true(got > 0);
		for (size_t i = 0; i < (size_t)got; i++)
			if (bytes[i] != pattern(heard + i))
				fail_msg("byte %zu differs", heard + i);
		heard += (size_t)got;
	}
	assert_int_equal(heard, said);
	close_fixture(&f);
}

static void a_side_that_never_reads_is_ended(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, SHORT_NS);
	connect_both(&f);
	say_all_that_fits(&f, 16 << 20);
	PEER_AWAIT(f.base, send(f.host_fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE);
	close_fixture(&f);
}

/* One that takes what comes may be quiet for as long as it likes. */
static void a_quiet_connection_stays(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, 1, 1);
	connect_both(&f);
	say(f.host_fd, "event");
	assert_said(&f, f.asking.peer->fd, "event");
	peer_run_for(f.base, SHORT_NS);
	say(f.asking.peer->fd, "question");
	assert_said(&f, f.host_fd, "question");
	close_fixture(&f);
}

/* ---- Transports made up for it: what TLS may want, and floods ------------------------------------ */

struct made {
	struct transport transport;
	unsigned reads, reads_max;	/* how often it was read; 0: as often as one likes */
	bool floods;			/* there is always something to read */
	const char *says;		/* once it was writable, or NULL */
	bool held;			/* bytes it was given have not left: */
	unsigned wants;			/* so often it wants to be writable first */
	int write_says;			/* 0, or -errno */
	bool shut_early;
	unsigned shut;
};

static struct made *made_of(const struct transport *transport)
{
	return (struct made *)transport;
}

static ssize_t made_read(struct transport *transport, void *bytes, size_t n)
{
	struct made *made = made_of(transport);

	made->reads++;
	if (made->reads_max && made->reads > made->reads_max)
		fail_msg("read %u times in one turn", made->reads);
	if (made->floods) {
		memset(bytes, 'x', n);
		return (ssize_t)n;
	}
	transport->wanted = EV_READ;
	if (!made->says)
		return -EAGAIN;
	transport->wanted = EV_WRITE;
	if (made->wants) {
		made->wants--;
		return -EAGAIN;
	}
	n = strlen(made->says);
	memcpy(bytes, made->says, n);
	made->says = NULL;
	return (ssize_t)n;
}

static ssize_t made_write(struct transport *transport, const struct iovec *iov, unsigned n)
{
	struct made *made = made_of(transport);

	if (made->write_says)
		return made->write_says;
	transport->wanted = EV_WRITE;
	if (made->held && made->wants) {
		made->wants--;
		return -EAGAIN;
	}
	made->held = n > 0;
	return n ? (ssize_t)iov->iov_len : 0;
}

static bool made_pending(const struct transport *transport)
{
	(void)transport;
	return false;
}

static bool made_unsent(const struct transport *transport)
{
	return made_of(transport)->held;
}

static void made_shutdown(struct transport *transport)
{
	struct made *made = made_of(transport);

	made->shut_early |= made->held;
	made->shut++;
}

static void made_destroy(struct transport *transport)
{
	close(transport->fd);
	transport->fd = -1;
}

static const struct transport_ops made_ops = {
	.read = made_read, .write = made_write, .pending = made_pending, .unsent = made_unsent,
	.shutdown = made_shutdown, .destroy = made_destroy,
};

/* In the place of the client's. */
static void ask_as_made(struct fixture *f, struct made *made)
{
	ask(f);
	made->transport = (struct transport){.ops = &made_ops, .fd = dup(f->asking.transport->fd)};
	transport_destroy(f->asking.transport);
	f->asking.transport = &made->transport;
}

static void a_read_that_waits_until_it_can_write_goes_on_then(void **state)
{
	struct made client = {.says = "question", .wants = 3};
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask_as_made(&f, &client);
	assert_int_equal(come(&f), 0);
	assert_said(&f, f.host_fd, "question");
	assert_int_equal(client.wants, 0);
	close_fixture(&f);
}

static void what_the_transport_holds_leaves_before_the_end(void **state)
{
	struct made client = {0};
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask_as_made(&f, &client);
	assert_int_equal(come(&f), 0);
	PEER_AWAIT(f.base, !client.held);
	client.wants = 3;
	say(f.host_fd, "bye");
	shutdown(f.host_fd, SHUT_WR);
	PEER_AWAIT(f.base, client.shut);
	assert_false(client.shut_early);
	assert_int_equal(client.wants, 0);
	close_fixture(&f);
}

/* Nobody takes it: it is thrown away, a turn at a time, and not for ever. */
static void a_flood_to_nobody_is_one_turn_at_a_time_and_ends(void **state)
{
	const unsigned most = BRIDGE_TURN_BYTES / BRIDGE_BYTES;
	struct made client = {.write_says = -EPIPE}, host = {.floods = true, .reads_max = most};
	struct fixture f;
	struct error error;
	int fds[2];

	(void)state;
	open_fixture(&f, SHORT_NS, PEER_WAIT_NS);
	ask_as_made(&f, &client);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	host.transport = (struct transport){.ops = &made_ops, .fd = fds[0]};
	assert_int_equal(bridges_join(f.bridges, "web-1", agent_side.token, sizeof(agent_side.token), &host.transport,
				      &error), 0);
	for (unsigned turns = 0; host.transport.fd >= 0; turns++) {
		host.reads = 0;
		event_base_loop(f.base, EVLOOP_ONCE);
	}
	assert_int_equal(client.transport.fd, -1);
	close(fds[1]);
	close_fixture(&f);
}

/* The other connections have their turn. */
static void a_flood_that_is_taken_is_one_turn_at_a_time(void **state)
{
	const unsigned most = BRIDGE_TURN_BYTES / BRIDGE_BYTES;
	struct made client = {0}, host = {.floods = true, .reads_max = most};
	struct fixture f;
	struct error error;
	int fds[2];

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask_as_made(&f, &client);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	host.transport = (struct transport){.ops = &made_ops, .fd = fds[0]};
	assert_int_equal(bridges_join(f.bridges, "web-1", agent_side.token, sizeof(agent_side.token), &host.transport,
				      &error), 0);
	for (unsigned turns = 0; turns < 3; turns++) {
		host.reads = 0;
		event_base_loop(f.base, EVLOOP_ONCE);
		assert_true(host.reads > 0);
	}
	close_fixture(&f);
	close(fds[1]);
}

/* ---- Who may ----------------------------------------------------------------------------------- */

static void a_token_is_good_once_and_for_its_host_alone(void **state)
{
	uint8_t other[RELAY_TOKEN_BYTES];
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	memset(other, 0, sizeof(other));
	assert_int_equal(come_as(&f, "web-1", other, sizeof(other)), -EACCES);	/* nobody asked */
	ask(&f);
	memcpy(other, agent_side.token, sizeof(other));
	assert_int_equal(come_as(&f, "web-2", other, sizeof(other)), -EACCES);
	assert_int_equal(come_as(&f, "web-1", other, sizeof(other) - 1), -EACCES);
	other[RELAY_TOKEN_BYTES - 1] ^= 1;
	assert_int_equal(come_as(&f, "web-1", other, sizeof(other)), -EACCES);
	assert_int_equal(f.asking.reached + f.asking.failed, 0);
	assert_int_equal(come(&f), 0);
	assert_int_equal(come_as(&f, "web-1", agent_side.token, sizeof(agent_side.token)), -EACCES);
	assert_int_equal(f.asking.reached, 1);
	close_fixture(&f);
}

static void tokens_differ(void **state)
{
	uint8_t first[RELAY_TOKEN_BYTES];
	struct fixture f;
	struct asking second = {0};
	struct error error;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask(&f);
	memcpy(first, agent_side.token, sizeof(first));
	assert_int_equal(ask_as(&f, &second, &error), 0);
	assert_memory_not_equal(first, agent_side.token, sizeof(first));
	close_fixture(&f);
}

static void a_host_is_refused_whose_client_has_left(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask(&f);
	bridges_leave(f.bridges, &f.asking);
	assert_int_equal(come(&f), -EACCES);
	assert_int_equal(f.asking.reached + f.asking.failed, 0);
	close_asking(&f.asking);
	ask(&f);
	bridges_leave(f.bridges, &f);			/* somebody else */
	assert_int_equal(come(&f), 0);
	close_fixture(&f);
}

static void a_client_that_is_of_no_use_ends_its_host(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask(&f);
	f.asking.of_no_use = true;
	assert_int_equal(come(&f), 0);
	assert_int_equal(f.asking.reached, 1);
	assert_int_equal(f.asking.failed, 0);
	assert_true(has_ended(f.host_fd));
	assert_false(has_ended(f.asking.peer->fd));	/* its session still says why */
	close_fixture(&f);
}

static void a_host_that_does_not_dial_is_said(void **state)
{
	struct error why;
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask(&f);
	error_set(&why, EACCES, "relay-clients", "not here");
	assert_false(bridges_refuse(f.bridges, "web-2", agent_side.token, sizeof(agent_side.token), &why));
	assert_false(bridges_refuse(f.bridges, "web-1", agent_side.token, 0, &why));
	assert_int_equal(f.asking.failed, 0);
	assert_true(bridges_refuse(f.bridges, "web-1", agent_side.token, sizeof(agent_side.token), &why));
	assert_false(bridges_refuse(f.bridges, "web-1", agent_side.token, sizeof(agent_side.token), &why));
	assert_int_equal(f.asking.failed, 1);
	assert_string_equal(f.asking.code, "relay-clients");
	assert_int_equal(come(&f), -EACCES);
	close_fixture(&f);
}

static void a_host_that_leaves_fails_those_that_wait_for_it(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask(&f);
	bridges_host_left(f.bridges, "web-2");
	assert_int_equal(f.asking.failed, 0);
	bridges_host_left(f.bridges, "web-1");
	assert_int_equal(f.asking.failed, 1);
	assert_string_equal(f.asking.code, "host-away");
	close_asking(&f.asking);
	connect_both(&f);
	bridges_host_left(f.bridges, "web-1");		/* its second connection is there all the same */
	say(f.host_fd, "event");
	assert_said(&f, f.asking.peer->fd, "event");
	close_fixture(&f);
}

static void hosts_that_cannot_be_asked_are_refused(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	f.agent.dials = false;				/* of before there was a Dial */
	assert_refused(&f, "host-too-old");
	f.agent.dials = true;
	f.agent.state = AGENT_GREETED;
	assert_refused(&f, "host-away");
	f.agent.state = AGENT_STREAMING;
	f.host->agent = NULL;
	assert_refused(&f, "host-away");
	f.host->agent = &f.agent;
	agent_side.refuses = true;
	assert_refused(&f, "host-busy");
	agent_side.refuses = false;
	connect_both(&f);
	close_fixture(&f);
}

static void bounds_are_for_each_host_and_for_all(void **state)
{
	static struct asking asking[BRIDGES_MAX];
	struct relay_host *hosts[BRIDGES_MAX / BRIDGES_HOST_MAX + 1], *first;
	struct fixture f;
	struct error error;
	unsigned n = 0;

	(void)state;
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	first = f.host;
	for (unsigned i = 0; i < BRIDGES_HOST_MAX; i++)
		assert_int_equal(ask_as(&f, &asking[n++], &error), 0);
	assert_refused(&f, "too-many-reached");
	hosts[0] = NULL;
	for (unsigned i = 1; i <= BRIDGES_MAX / BRIDGES_HOST_MAX; i++) {
		char name[32];

		snprintf(name, sizeof(name), "db-%u", i);
		hosts[i] = f.host = relay_host_create(name);
		f.host->agent = &f.agent;
		for (unsigned j = 0; n < BRIDGES_MAX && j < BRIDGES_HOST_MAX; j++)
			assert_int_equal(ask_as(&f, &asking[n++], &error), 0);
	}
	assert_int_equal(n, BRIDGES_MAX);
	assert_refused(&f, "too-many-reached");		/* this one has none */
	bridges_leave(f.bridges, &asking[0]);
	assert_int_equal(ask_as(&f, &asking[0], &error), 0);
	for (unsigned i = 1; i <= BRIDGES_MAX / BRIDGES_HOST_MAX; i++) {
		hosts[i]->agent = NULL;
		relay_host_destroy(hosts[i]);
	}
	f.host = first;
	close_fixture(&f);
}

static void a_reload_ends_what_is_no_longer_allowed(void **state)
{
	struct fixture f;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
		connect_both(&f);
		bridges_judge(f.bridges);
		say(f.host_fd, "event");
		assert_said(&f, f.asking.peer->fd, "event");
		role_left = i ? ROLE_OPERATOR : ROLE_VIEWER;
		revoked = i;
		bridges_judge(f.bridges);
		assert_true(has_ended(f.host_fd));
		assert_true(has_ended(f.asking.peer->fd));
		close_fixture(&f);
	}
	/* One that is still on its way, too. */
	open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
	ask(&f);
	bridges_judge(f.bridges);
	assert_int_equal(f.asking.failed, 0);
	role_left = ROLE_VIEWER;
	bridges_judge(f.bridges);
	assert_int_equal(f.asking.failed, 1);
	assert_string_equal(f.asking.code, "not-allowed");
	assert_int_equal(come(&f), -EACCES);
	close_fixture(&f);
}

/* ---- Memory ------------------------------------------------------------------------------------ */

/* Wherever memory ends: the client is told, or both connections end. Nothing is left open. */
static void memory_that_ends_leaves_nothing_open(void **state)
{
	bool opened = false;
	struct fixture f;
	struct error error;
	unsigned places = 0;

	(void)state;
	for (; !opened && places < PLACES_MAX; places++) {
		int err;

		open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
		open_asking(&f, &f.asking);
		memory_fails_after(places);
		err = ask_as(&f, &f.asking, &error);
		memory_suffices();
		if (err) {
			assert_string_equal(error.code, "out-of-memory");
			assert_int_equal(f.asking.reached + f.asking.failed, 0);
		} else {
			opened = true;
			close_asking(&f.asking);
		}
		close_fixture(&f);
	}
	assert_in_range(places, 3, PLACES_MAX - 1);
	opened = false;
	for (places = 0; !opened && places < PLACES_MAX; places++) {
		struct transport *transport;
		int fds[2];

		open_fixture(&f, PEER_WAIT_NS, PEER_WAIT_NS);
		ask(&f);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
		transport = transport_plain_create(fds[0]);
		memory_fails_after(places);
		assert_int_equal(bridges_join(f.bridges, "web-1", agent_side.token, sizeof(agent_side.token),
					      transport, &error), 0);
		memory_suffices();
		f.host_fd = fds[1];
		assert_int_equal(f.asking.reached, 1);
		opened = !has_ended(f.host_fd);
		assert_int_equal(opened, !has_ended(f.asking.peer->fd));
		close_fixture(&f);
	}
	assert_in_range(places, 3, PLACES_MAX - 1);
	memory_fails_after(0);
	assert_null(bridges_create(&(struct bridges_config){0}));
	memory_suffices();
	bridges_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_each_says_reaches_the_other),
		cmocka_unit_test(one_side_ends_and_still_gets_to_read),
		cmocka_unit_test(what_a_side_said_before_it_left_arrives),
		cmocka_unit_test(a_side_that_does_not_end_is_ended),
		cmocka_unit_test(a_side_that_does_not_read_holds_up_the_other),
		cmocka_unit_test(a_side_that_never_reads_is_ended),
		cmocka_unit_test(a_quiet_connection_stays),
		cmocka_unit_test(a_read_that_waits_until_it_can_write_goes_on_then),
		cmocka_unit_test(what_the_transport_holds_leaves_before_the_end),
		cmocka_unit_test(a_flood_to_nobody_is_one_turn_at_a_time_and_ends),
		cmocka_unit_test(a_flood_that_is_taken_is_one_turn_at_a_time),
		cmocka_unit_test(a_token_is_good_once_and_for_its_host_alone),
		cmocka_unit_test(tokens_differ),
		cmocka_unit_test(a_host_is_refused_whose_client_has_left),
		cmocka_unit_test(a_client_that_is_of_no_use_ends_its_host),
		cmocka_unit_test(a_host_that_does_not_dial_is_said),
		cmocka_unit_test(a_host_that_leaves_fails_those_that_wait_for_it),
		cmocka_unit_test(hosts_that_cannot_be_asked_are_refused),
		cmocka_unit_test(bounds_are_for_each_host_and_for_all),
		cmocka_unit_test(a_reload_ends_what_is_no_longer_allowed),
		cmocka_unit_test(memory_that_ends_leaves_nothing_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
