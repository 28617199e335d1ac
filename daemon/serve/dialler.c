#include "daemon/serve/dialler.h"

#include <errno.h>
#include <event2/dns.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/random.h"
#include "daemon/net/address.h"
#include "daemon/net/transport.h"
#include "daemon/serve/dial_back.h"
#include "daemon/spool/spool.h"
#include "proto/backoff.h"
#include "proto/message.h"
#include "query/visible.h"

#define ANSWER_BYTES	4096u	/* of the first answer that are looked at: a hello has a few dozen */

enum dial_state {
	DIAL_WAITING,
	DIAL_LOOKING_UP,
	DIAL_CONNECTING,
	DIAL_SHAKING,
	DIAL_GREETING,		/* the AgentHello is sent; the answer is awaited */
	DIAL_SERVED,
};

/*
 * A name is looked up, with the resolver's files as they are now. The resolver answers later, also to one that is
 * cancelled, and reads what it was made of then: so that goes when the resolver is done, whatever has become of the
 * attempt. It does not live to see a name server fail and be probed: that takes 10 s more.
 */
struct lookup {
	struct dialler *dialler;	/* NULL: it is given up */
	struct evdns_base *names;
	struct evdns_getaddrinfo_request *question;	/* NULL: there is none, or it is answered */
	bool asked;			/* there was one: the resolver may be at it still */
	struct event *done;		/* the turn of the loop after the answer */
};

struct dialler {
	struct dialler_config config;
	enum dial_state state;
	unsigned at;			/* of config->relay */
	struct address_dial dial;
	struct backoff backoff;
	uint64_t since_ns;
	char said[64];			/* the code of the last failure: it is in the log */
	struct event *timer;
	struct lookup *lookup;		/* NULL: none is under way */
	int failure;			/* of looking up */
	struct event *readable, *writable;	/* of fd; NULL: none */

	struct evutil_addrinfo *found, *address;	/* address: the one that is tried */
	struct transport_tls_context *tls;
	struct transport *transport;
	int fd;				/* without a transport yet; -1: none */
	struct frame_ref *hello;
	size_t hello_sent;

	struct dial_backs *backs;	/* connections for clients of the relay */
	struct sockaddr_storage peer;	/* where the relay is, that is tried or that the server has */
	socklen_t peer_bytes;
};

static void enter(struct dialler *dialler, enum dial_state state)
{
	dialler->state = state;
	dialler->since_ns = clock_monotonic();
}

static void arm(struct dialler *dialler, uint64_t ns)
{
	struct timeval delay = {.tv_sec = (time_t)(ns / NS_PER_S),
				.tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	event_add(dialler->timer, &delay);
}

/* ---- One attempt ends ------------------------------------------------------------------------ */

static void free_events(struct dialler *dialler)
{
	if (dialler->readable)
		event_free(dialler->readable);
	if (dialler->writable)
		event_free(dialler->writable);
	dialler->readable = dialler->writable = NULL;
}

static void free_lookup(struct lookup *lookup)
{
	if (lookup->names)
		evdns_base_free(lookup->names, 0);
	if (lookup->done)
		event_free(lookup->done);
	free(lookup);
}

static void give_up_lookup(struct dialler *dialler)
{
	struct lookup *lookup = dialler->lookup;

	dialler->lookup = NULL;
	if (!lookup)
		return;
	lookup->dialler = NULL;
	if (lookup->question)
		evdns_getaddrinfo_cancel(lookup->question);
	else if (!lookup->asked)
		free_lookup(lookup);
}

/* What is left of it; the transport as well, unless the server has it by now. */
static void clean_up(struct dialler *dialler)
{
	give_up_lookup(dialler);
	free_events(dialler);
	if (dialler->found)
		evutil_freeaddrinfo(dialler->found);
	dialler->found = dialler->address = NULL;
	if (dialler->fd >= 0)
		close(dialler->fd);
	dialler->fd = -1;
	transport_destroy(dialler->transport);
	dialler->transport = NULL;
	transport_tls_context_destroy(dialler->tls);
	dialler->tls = NULL;
	frame_ref_put(dialler->hello);
	dialler->hello = NULL;
	dialler->hello_sent = 0;
}

static void wait_ms(struct dialler *dialler, uint32_t ms)
{
	clean_up(dialler);
	enter(dialler, DIAL_WAITING);
	dialler->at = (dialler->at + 1) % dialler->config.config->relay.count;
	arm(dialler, ms * 1000000ull);
}

static void wait_again(struct dialler *dialler)
{
	wait_ms(dialler, backoff_next_ms(&dialler->backoff));
}

/* The same is said once, not with every attempt. */
static void fail(struct dialler *dialler, const struct error *error)
{
	counter_add(COUNTER_relay_failures, 1);
	if (strcmp(dialler->said, error->code) != 0)
		log_warn("relay-failed", "no connection to the relay %s: [%s] %s; %s", dialler->dial.text,
			 error->code, error->what, error->hint[0] ? error->hint :
			 "what it does not get stays in the spool");
	snprintf(dialler->said, sizeof(dialler->said), "%s", error->code);
	wait_again(dialler);
}

static void fail_with(struct dialler *dialler, int err, const char *code, const char *what,
		      const char *hint)
{
	struct error error;

	error_set(&error, err, code, "%s: %s", what, err == ETIMEDOUT ? "no answer in time" :
						    strerror(err));
	error_hint(&error, "%s", hint);
	fail(dialler, &error);
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void refuse_answer(struct dialler *dialler, const char *what)
{
	struct error error;

	error_set(&error, EPROTO, "relay-is-none", "%s", what);
	error_hint(&error, "the option relay has to name an address of a relay's option listen-agents");
	fail(dialler, &error);
}

/* It says why it does not want us. */
static void take_error(struct dialler *dialler, const uint8_t *frame,
		       const struct frame_header *header)
{
	uint8_t raw[REQUEST_RAW_BYTES_MAX];
	Ringtail__V1__Error *message = NULL;
	struct error error;
	const uint8_t *body;

	if (frame_open(dialler->config.codec, frame, header, raw, &body) == FRAME_OK)
		message = message_unpack(&ringtail__v1__error__descriptor, NULL, body,
					 header->raw_bytes);
	if (!message) {
		refuse_answer(dialler, "what answers there speaks another protocol");
		return;
	}
	visible_replace(message->code);
	visible_replace(message->what);
	visible_replace(message->hint);
	error_set(&error, EPROTO, message->code, "it answers: %s", message->what);
	error_hint(&error, "%s; if that is no relay: relay has to name an address of its listen-agents",
		   message->hint);
	protobuf_c_message_free_unpacked(&message->base, NULL);
	fail(dialler, &error);
}

static void hand_over(struct dialler *dialler)
{
	struct transport *transport = dialler->transport;
	char text[ADDRESS_TEXT_BYTES];

	/* The answer is the session's to read. */
	dialler->transport = NULL;
	snprintf(text, sizeof(text), "%s", dialler->dial.text);
	event_del(dialler->timer);
	clean_up(dialler);
	enter(dialler, DIAL_SERVED);
	dialler->said[0] = '\0';
	log_info("relay-connected", "connected to the relay %s", text);
	server_serve(dialler->config.server, SERVER_RELAY, transport, text);
}

static void judge_answer(struct dialler *dialler, const uint8_t *bytes, size_t n)
{
	struct frame_header header;
	enum frame_status status = frame_parse_header(bytes, n, REQUEST_RAW_BYTES_MAX, &header);

	if (status == FRAME_OK && header.type == FRAME_CLIENT_HELLO)
		hand_over(dialler);
	else if (status == FRAME_OK && header.type == FRAME_ERROR &&
		 n >= FRAME_HEADER_BYTES + (size_t)header.body_bytes)
		take_error(dialler, bytes, &header);
	else
		refuse_answer(dialler, "what answers there is no relay");
}

/* ---- TLS, and our first words ------------------------------------------------------------------ */

static struct frame_ref *pack_hello(const struct dialler *dialler)
{
	Ringtail__V1__Feature feature[] = {RINGTAIL__V1__FEATURE__FEATURE_DIAL};
	Ringtail__V1__AgentHello hello = RINGTAIL__V1__AGENT_HELLO__INIT;
	struct utsname host;

	uname(&host);
	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = "ringtaild " RINGTAIL_VERSION;
	hello.hostname = host.nodename;
	hello.feature = feature;
	hello.n_feature = sizeof(feature) / sizeof(feature[0]);
	return frame_ref_pack(dialler->config.codec, FRAME_AGENT_HELLO, &hello.base);
}

static void wait_for(struct dialler *dialler, short what)
{
	event_add(what == EV_WRITE ? dialler->writable : dialler->readable, NULL);
}

static void greet(struct dialler *dialler)
{
	struct iovec rest = {.iov_base = dialler->hello->data + dialler->hello_sent,
			     .iov_len = dialler->hello->bytes - dialler->hello_sent};
	uint8_t answer[ANSWER_BYTES];
	struct error error = {0};
	ssize_t n = 0;

	if (rest.iov_len || transport_unsent(dialler->transport))
		n = transport_write(dialler->transport, &rest, rest.iov_len ? 1 : 0);
	if (n >= 0)
		dialler->hello_sent += (size_t)n;
	if (n >= 0 && dialler->hello_sent == dialler->hello->bytes &&
	    !transport_unsent(dialler->transport))
		n = transport_tls_peek(dialler->transport, answer, sizeof(answer), &error);
	if (n == -EAGAIN)
		wait_for(dialler, dialler->transport->wanted);
	else if (n < 0 && error.code[0])
		fail(dialler, &error);
	else if (n < 0)
		fail_with(dialler, (int)-n, "relay-lost", "the connection broke", "see the relay's log");
	else
		judge_answer(dialler, answer, (size_t)n);
}

static void shake_hands(struct dialler *dialler)
{
	struct error error = {0};
	int err = transport_handshake(dialler->transport, &error);

	if (err == -EAGAIN) {
		wait_for(dialler, dialler->transport->wanted);
	} else if (err) {
		fail(dialler, &error);
	} else {
		enter(dialler, DIAL_GREETING);
		dialler->hello = pack_hello(dialler);
		if (dialler->hello)
			greet(dialler);
		else
			fail_with(dialler, ENOMEM, "out-of-memory", "cannot greet the relay", "");
	}
}

static void begin_tls(struct dialler *dialler)
{
	const struct config *config = dialler->config.config;
	const struct transport_tls_files files = {.cert = config->tls_cert, .key = config->tls_key,
						  .client_ca = config->relay_ca};
	struct error error = {0};
	int fd = dialler->fd;
	int err = transport_tls_dial_context_create(&files, &dialler->tls, &error);

	if (!err) {
		dialler->fd = -1;
		err = transport_tls_dial(dialler->tls, fd, dialler->dial.host, &dialler->transport,
					 &error);
	}
	if (err) {
		fail(dialler, &error);
		return;
	}
	enter(dialler, DIAL_SHAKING);
	shake_hands(dialler);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static void on_ready(evutil_socket_t fd, short what, void *context);

/* The next address of the name. */
static void connect_next(struct dialler *dialler, int err)
{
	for (; dialler->address; dialler->address = dialler->address->ai_next) {
		const struct evutil_addrinfo *address = dialler->address;
		int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		if (fd < 0) {
			err = errno;
			continue;
		}
		transport_keep_alive(fd);
		if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
			err = errno;
			close(fd);
			continue;
		}
		dialler->fd = fd;
		memcpy(&dialler->peer, address->ai_addr, address->ai_addrlen);
		dialler->peer_bytes = (socklen_t)address->ai_addrlen;
		dialler->readable = event_new(dialler->config.base, fd, EV_READ, on_ready, dialler);
		dialler->writable = event_new(dialler->config.base, fd, EV_WRITE, on_ready, dialler);
		if (dialler->readable && dialler->writable) {
			enter(dialler, DIAL_CONNECTING);
			wait_for(dialler, EV_WRITE);
			return;
		}
		err = ENOMEM;
		break;
	}
	fail_with(dialler, err, "relay-unreachable", "cannot connect",
		  "see that the relay runs and listens there, and that no firewall is between");
}

static void take_connection(struct dialler *dialler)
{
	int err = 0;
	socklen_t bytes = sizeof(err);

	if (getsockopt(dialler->fd, SOL_SOCKET, SO_ERROR, &err, &bytes) != 0)
		err = errno;
	if (!err) {
		begin_tls(dialler);
		return;
	}
	free_events(dialler);
	close(dialler->fd);
	dialler->fd = -1;
	dialler->address = dialler->address->ai_next;
	connect_next(dialler, err);
}

static void on_ready(evutil_socket_t fd, short what, void *context)
{
	struct dialler *dialler = context;

	(void)fd, (void)what;
	if (dialler->state == DIAL_CONNECTING)
		take_connection(dialler);
	else if (dialler->state == DIAL_SHAKING)
		shake_hands(dialler);
	else if (dialler->state == DIAL_GREETING)
		greet(dialler);
}

/* Called for each lookup, once; from inside the resolver, or before its question is asked. */
static void on_looked_up(int failure, struct evutil_addrinfo *found, void *context)
{
	static const struct timeval now;
	struct lookup *lookup = context;
	struct dialler *dialler = lookup->dialler;

	lookup->question = NULL;
	if (dialler) {
		dialler->found = dialler->address = found;
		dialler->failure = failure;
	} else if (found) {
		evutil_freeaddrinfo(found);
	}
	event_add(lookup->done, &now);
}

static void take_answer(struct dialler *dialler)
{
	struct error error;

	if (!dialler->failure) {
		connect_next(dialler, EADDRNOTAVAIL);
		return;
	}
	error_set(&error, EHOSTUNREACH, "relay-unknown", "its name is not known: %s",
		  evutil_gai_strerror(dialler->failure));
	error_hint(&error, "write the relay's name as it is in DNS or in /etc/hosts, or its address");
	fail(dialler, &error);
}

/* By now the resolver is done with it: all that it had put off came before. */
static void on_done(evutil_socket_t fd, short what, void *context)
{
	struct lookup *lookup = context;
	struct dialler *dialler = lookup->dialler;

	(void)fd, (void)what;
	free_lookup(lookup);
	if (dialler) {
		dialler->lookup = NULL;
		take_answer(dialler);
	}
}

static struct lookup *create_lookup(struct dialler *dialler)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return NULL;
	lookup->dialler = dialler;
	lookup->done = evtimer_new(dialler->config.base, on_done, lookup);
	lookup->names = evdns_base_new(dialler->config.base, EVDNS_BASE_INITIALIZE_NAMESERVERS |
							     EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	if (!lookup->names)
		lookup->names = evdns_base_new(dialler->config.base, 0);
	if (lookup->names && lookup->done)
		return lookup;
	free_lookup(lookup);
	return NULL;
}

static void look_up(struct dialler *dialler)
{
	struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
					.ai_protocol = IPPROTO_TCP};

	struct lookup *lookup = create_lookup(dialler);

	enter(dialler, DIAL_LOOKING_UP);
	if (!lookup) {
		fail_with(dialler, ENOMEM, "out-of-memory", "cannot look the relay's name up", "");
		return;
	}
	/* A number is answered at once: then there is no question. */
	dialler->lookup = lookup;
	lookup->question = evdns_getaddrinfo(lookup->names, dialler->dial.host, dialler->dial.port,
					     &hints, on_looked_up, lookup);
	lookup->asked = lookup->question;
}

static void begin(struct dialler *dialler)
{
	const struct config_words *relay = &dialler->config.config->relay;
	struct error error = {0};

	if (address_parse_dial(relay->word[dialler->at % relay->count], &dialler->dial, &error) != 0) {
		fail(dialler, &error);
		return;
	}
	counter_add(COUNTER_relay_dials, 1);
	arm(dialler, RELAY_GREET_NS);
	look_up(dialler);
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct dialler *dialler = context;

	(void)fd, (void)what;
	if (dialler->state == DIAL_WAITING)
		begin(dialler);
	else if (dialler->state == DIAL_CONNECTING)
		fail_with(dialler, ETIMEDOUT, "relay-unreachable", "cannot connect",
			  "see that the relay runs and listens there, and that no firewall is between");
	else if (dialler->state != DIAL_SERVED)
		fail_with(dialler, ETIMEDOUT, "relay-timeout", "it does not answer",
			  "see that the relay runs, and its load");
}

void dialler_again(struct dialler *dialler)
{
	if (!dialler || dialler->state != DIAL_SERVED)
		return;
	log_info("relay-left", "the connection to the relay %s has ended", dialler->dial.text);
	if (clock_monotonic() - dialler->since_ns <= RELAY_SETTLED_NS) {
		wait_again(dialler);
		return;
	}
	/* All agents of that relay are here at this moment. */
	backoff_reset(&dialler->backoff);
	wait_ms(dialler, backoff_spread_ms(&dialler->backoff, RELAY_RETURN_NS / 1000000));
}

int dialler_dial_back(struct dialler *dialler, const uint8_t token[16], const char *client, struct error *error)
{
	const struct dial_back_request request = {
		.to = dialler ? (const struct sockaddr *)&dialler->peer : NULL,
		.to_bytes = dialler ? dialler->peer_bytes : 0,
		.host = dialler ? dialler->dial.host : NULL,
		.text = dialler ? dialler->dial.text : NULL,
		.token = token,
		.client = client,
	};

	if (dialler && dialler->state == DIAL_SERVED)
		return dial_backs_begin(dialler->backs, &request, error);
	error_set(error, ENOTCONN, "dial-failed", "this host is not connected to a relay");
	return -ENOTCONN;
}

/* ---- Life ------------------------------------------------------------------------------------ */

int dialler_check(const struct config *config, struct error *error)
{
	if (!config->relay.count || config->durability != SPOOL_MEMORY)
		return 0;
	error_set(error, EINVAL, "relay-needs-durability", "relay: what a relay has not acknowledged is"
		  " kept on disk, and durability is `memory`");
	error_hint(error, "give durability = written, or fsync");
	return -EINVAL;
}

static int check_files(const struct config *config, struct error *error)
{
	const struct transport_tls_files files = {.cert = config->tls_cert, .key = config->tls_key,
						  .client_ca = config->relay_ca};
	struct transport_tls_context *tls;
	int err = transport_tls_dial_context_create(&files, &tls, error);

	if (!err)
		transport_tls_context_destroy(tls);
	return err;
}

int dialler_create(const struct dialler_config *config, struct dialler **out, struct error *error)
{
	struct dialler *dialler;
	uint64_t seed = 0;
	int err = dialler_check(config->config, error);

	if (!err)
		err = check_files(config->config, error);
	if (err)
		return err;
	dialler = calloc(1, sizeof(*dialler));
	if (dialler) {
		dialler->fd = -1;
		dialler->timer = evtimer_new(config->base, on_timer, dialler);
	}
	if (dialler)
		dialler->backs = dial_backs_create(&(struct dial_backs_config){
			.base = config->base, .server = config->server, .codec = config->codec, .config = config->config,
		});
	if (!dialler || !dialler->timer || !dialler->backs || random_bytes(&seed, sizeof(seed)) != 0) {
		dialler_destroy(dialler);
		return error_set(error, ENOMEM, "out-of-memory", "cannot begin to dial a relay");
	}
	dialler->config = *config;
	/* Hosts that begin together do not all take the same relay. */
	dialler->at = (unsigned)(seed >> 32) % config->config->relay.count;
	backoff_init(&dialler->backoff, seed, RELAY_DIAL_NS_MIN / 1000000,
		     RELAY_DIAL_NS_MAX / 1000000);
	enter(dialler, DIAL_WAITING);
	arm(dialler, 0);
	*out = dialler;
	return 0;
}

void dialler_destroy(struct dialler *dialler)
{
	if (!dialler)
		return;
	clean_up(dialler);
	dial_backs_destroy(dialler->backs);
	if (dialler->timer)
		event_free(dialler->timer);
	free(dialler);
}
