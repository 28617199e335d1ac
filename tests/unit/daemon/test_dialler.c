/*
 * An agent dials its relay. The resolver of its name goes when it is done, whatever has become of the attempt; each
 * address is tried; and a relay that ends each connection is dialled more and more seldom.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/dns.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "daemon/base/clock.h"
#include "daemon/base/frame_ref.h"
#include "daemon/base/limits.h"
#include "daemon/serve/dialler.h"
#include "daemon/spool/spool.h"
#include "proto/backoff.h"
#include "tests/unit/daemon/tls_place.h"

#define TURNS_MAX	100u

static struct place place;

/* ---- The resolver: its name server is ours, and never answers -------------------------------- */

static struct {
	int server;
	unsigned bases;
	bool asks;			/* the answer has not come, not even that it is cancelled */
	bool freed_early;
	const char *port[2];		/* what it is told at once, instead of asking */
	evdns_getaddrinfo_cb callback;
	void *context;
} resolver;

struct evdns_base *__real_evdns_base_new(struct event_base *base, int flags);
struct evdns_base *__wrap_evdns_base_new(struct event_base *base, int flags);
struct evdns_base *__wrap_evdns_base_new(struct event_base *base, int flags)
{
	struct evdns_base *names = __real_evdns_base_new(base, 0);
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);

	(void)flags;
	assert_non_null(names);
	assert_int_equal(getsockname(resolver.server, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(evdns_base_nameserver_sockaddr_add(names, (struct sockaddr *)&address, bytes, 0), 0);
	resolver.bases++;
	return names;
}

void __real_evdns_base_free(struct evdns_base *base, int fail_requests);
void __wrap_evdns_base_free(struct evdns_base *base, int fail_requests);
void __wrap_evdns_base_free(struct evdns_base *base, int fail_requests)
{
	resolver.freed_early |= resolver.asks;
	resolver.bases--;
	__real_evdns_base_free(base, fail_requests);
}

static void on_answer(int failure, struct evutil_addrinfo *found, void *context)
{
	(void)context;
	resolver.asks = false;
	resolver.callback(failure, found, resolver.context);
}

/* Two addresses, as a name may have. */
static struct evutil_addrinfo *found_at(const char *const port[2])
{
	struct evutil_addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found[2];

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(evutil_getaddrinfo("127.0.0.1", port[i], &hints, &found[i]), 0);
	found[0]->ai_next = found[1];
	return found[0];
}

struct evdns_getaddrinfo_request *__real_evdns_getaddrinfo(struct evdns_base *base, const char *name,
	const char *service, const struct evutil_addrinfo *hints, evdns_getaddrinfo_cb callback, void *context);
struct evdns_getaddrinfo_request *__wrap_evdns_getaddrinfo(struct evdns_base *base, const char *name,
	const char *service, const struct evutil_addrinfo *hints, evdns_getaddrinfo_cb callback, void *context);
struct evdns_getaddrinfo_request *__wrap_evdns_getaddrinfo(struct evdns_base *base, const char *name,
	const char *service, const struct evutil_addrinfo *hints, evdns_getaddrinfo_cb callback, void *context)
{
	struct evdns_getaddrinfo_request *question;

	resolver.callback = callback;
	resolver.context = context;
	if (resolver.port[0]) {
		callback(0, found_at(resolver.port), context);
		return NULL;
	}
	question = __real_evdns_getaddrinfo(base, name, service, hints, on_answer, NULL);
	resolver.asks = question;
	return question;
}

/* ---- Time, and what the dialler hands over ------------------------------------------------------ */

static uint64_t skipped_ns;
static unsigned resets, spreads, served;

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + skipped_ns;
}

uint32_t __real_backoff_spread_ms(struct backoff *backoff, uint32_t max_ms);
uint32_t __wrap_backoff_spread_ms(struct backoff *backoff, uint32_t max_ms);
uint32_t __wrap_backoff_spread_ms(struct backoff *backoff, uint32_t max_ms)
{
	assert_int_equal(max_ms, RELAY_RETURN_NS / 1000000);
	spreads++;
	return __real_backoff_spread_ms(backoff, max_ms);
}

void __real_backoff_reset(struct backoff *backoff);
void __wrap_backoff_reset(struct backoff *backoff);
void __wrap_backoff_reset(struct backoff *backoff)
{
	resets++;
	__real_backoff_reset(backoff);
}

void __wrap_server_serve(struct server *server, enum server_door door, struct transport *transport, const char *peer);
void __wrap_server_serve(struct server *server, enum server_door door, struct transport *transport, const char *peer)
{
	(void)server, (void)peer;
	assert_int_equal(door, SERVER_RELAY);
	served++;
	transport_destroy(transport);
}

/* ---- The dialler ----------------------------------------------------------------------------- */

static struct frame_codec *codec;

static struct dialler *dial(struct event_base *base, struct config *config, char *relay)
{
	struct dialler_config dialler_config = {.base = base, .config = config, .codec = codec};
	struct dialler *dialler;
	struct error error;

	*config = (struct config){
		.relay = {.word = {relay}, .count = 1},
		.relay_ca = place.ca,
		.tls_cert = place.cert,
		.tls_key = place.key,
		.durability = SPOOL_FSYNC,
	};
	assert_int_equal(dialler_create(&dialler_config, &dialler, &error), 0);
	return dialler;
}

static void turn(struct event_base *base)
{
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static void turn_until_no_resolver(struct event_base *base)
{
	for (unsigned i = 0; i < TURNS_MAX && resolver.bases; i++)
		turn(base);
	assert_int_equal(resolver.bases, 0);
	assert_false(resolver.freed_early);
}

static void a_lookup_that_is_given_up_is_over_before_its_resolver(void **state)
{
	struct event_base *base = event_base_new();
	struct config config;
	struct dialler *dialler;

	(void)state;
	dialler = dial(base, &config, "tls:relay.test:7119");
	for (unsigned i = 0; i < TURNS_MAX && !resolver.asks; i++)
		turn(base);
	assert_true(resolver.asks);
	dialler_destroy(dialler);
	turn_until_no_resolver(base);
	assert_false(resolver.asks);
	event_base_free(base);
}

static void a_number_is_looked_up_at_once(void **state)
{
	struct event_base *base = event_base_new();
	struct config config;
	struct dialler *dialler;

	(void)state;
	dialler = dial(base, &config, "tls:127.0.0.1:1");
	for (unsigned i = 0; i < TURNS_MAX && !resolver.bases; i++)
		turn(base);
	assert_int_equal(resolver.bases, 1);
	assert_false(resolver.asks);
	turn_until_no_resolver(base);
	dialler_destroy(dialler);
	/* Given up in the middle. */
	dialler = dial(base, &config, "tls:127.0.0.1:1");
	for (unsigned i = 0; i < TURNS_MAX && !resolver.bases; i++)
		turn(base);
	dialler_destroy(dialler);
	turn_until_no_resolver(base);
	event_base_free(base);
}

/* ---- A relay ------------------------------------------------------------------------------------ */

struct listener {
	int fd;
	char port[8];
};

static struct listener listen_on_loopback(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct listener listener = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
	socklen_t bytes = sizeof(address);

	assert_int_equal(bind(listener.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener.fd, 8), 0);
	assert_int_equal(getsockname(listener.fd, (struct sockaddr *)&address, &bytes), 0);
	snprintf(listener.port, sizeof(listener.port), "%u", ntohs(address.sin_port));
	return listener;
}

static void on_wake(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what, (void)context;
}

/* One turn of the loop, which also something to read at `fd` begins. */
static void turn_or_read(struct event_base *base, int fd)
{
	struct event *wake = event_new(base, fd, EV_READ, on_wake, NULL);

	assert_int_equal(event_add(wake, NULL), 0);
	event_base_loop(base, EVLOOP_ONCE);
	event_free(wake);
}

/* -1: the dialler has not come in so many turns. */
static int accept_one(struct event_base *base, const struct listener *listener)
{
	int fd = -1;

	for (unsigned i = 0; i < TURNS_MAX && fd < 0; i++) {
		turn_or_read(base, listener->fd);
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	return fd;
}

/* As a relay greets an agent, as far as the dialler looks. */
static void greet(struct event_base *base, int fd)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;
	struct frame_ref *frame = frame_ref_pack(codec, FRAME_CLIENT_HELLO, &hello.base);
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	unsigned before = served;
	bool sent = false;
	SSL *ssl;

	assert_int_equal(SSL_CTX_use_certificate_file(context, place.cert, SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(context, place.key, SSL_FILETYPE_PEM), 1);
	ssl = SSL_new(context);
	SSL_set_fd(ssl, fd);
	for (unsigned i = 0; i < TURNS_MAX && served == before; i++) {
		if (!sent && SSL_accept(ssl) == 1)
			sent = SSL_write(ssl, frame->data, (int)frame->bytes) == (int)frame->bytes;
		/* What comes once it is greeted is not read: it would begin every turn. */
		if (sent)
			event_base_loop(base, EVLOOP_ONCE);
		else
			turn_or_read(base, fd);
	}
	assert_int_equal(served, before + 1);
	frame_ref_put(frame);
	SSL_free(ssl);
	SSL_CTX_free(context);
	close(fd);
}

/* The delay goes on growing where a relay accepts connections and ends them. */
static void only_a_connection_that_lasted_ends_the_backoff(void **state)
{
	struct event_base *base = event_base_new();
	struct listener listener = listen_on_loopback();
	struct config config;
	struct dialler *dialler;

	(void)state;
	resets = spreads = 0;
	resolver.port[0] = resolver.port[1] = listener.port;
	dialler = dial(base, &config, "tls:server:7119");
	greet(base, accept_one(base, &listener));
	dialler_again(dialler);
	assert_int_equal(resets + spreads, 0);
	greet(base, accept_one(base, &listener));
	skipped_ns = RELAY_SETTLED_NS + 1;
	dialler_again(dialler);
	assert_int_equal(resets, 1);
	assert_int_equal(spreads, 1);
	dialler_destroy(dialler);
	resolver.port[0] = resolver.port[1] = NULL;
	skipped_ns = 0;
	turn_until_no_resolver(base);
	close(listener.fd);
	event_base_free(base);
}

static void the_next_address_of_a_name_is_tried(void **state)
{
	struct event_base *base = event_base_new();
	struct listener nobody = listen_on_loopback(), listener = listen_on_loopback();
	struct config config;
	struct dialler *dialler;
	int fd;

	(void)state;
	close(nobody.fd);
	resolver.port[0] = nobody.port;
	resolver.port[1] = listener.port;
	dialler = dial(base, &config, "tls:relay.test:7119");
	fd = accept_one(base, &listener);
	assert_true(fd >= 0);
	dialler_destroy(dialler);
	resolver.port[0] = resolver.port[1] = NULL;
	turn_until_no_resolver(base);
	close(fd);
	close(listener.fd);
	event_base_free(base);
}

/* What a relay has not acknowledged is on disk, or there is no relay. */
static void a_relay_needs_durability(void **state)
{
	struct config config = {.relay = {.word = {(char *)"tls:relay.test:7119"}, .count = 1},
				.durability = SPOOL_MEMORY};
	struct error error;

	(void)state;
	assert_int_equal(dialler_check(&config, &error), -EINVAL);
	assert_string_equal(error.code, "relay-needs-durability");
	config.durability = SPOOL_WRITTEN;
	assert_int_equal(dialler_check(&config, &error), 0);
	config.durability = SPOOL_MEMORY;
	config.relay.count = 0;
	assert_int_equal(dialler_check(&config, &error), 0);
}

static int open_place(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void)state;
	place_open(&place, -60, 90 * 86400);
	codec = frame_codec_create(1);
	assert_non_null(codec);
	resolver.server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return bind(resolver.server, (struct sockaddr *)&address, sizeof(address));
}

static int close_place(void **state)
{
	(void)state;
	close(resolver.server);
	frame_codec_destroy(codec);
	place_close(&place);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lookup_that_is_given_up_is_over_before_its_resolver),
		cmocka_unit_test(a_number_is_looked_up_at_once),
		cmocka_unit_test(only_a_connection_that_lasted_ends_the_backoff),
		cmocka_unit_test(the_next_address_of_a_name_is_tried),
		cmocka_unit_test(a_relay_needs_durability),
	};

	return cmocka_run_group_tests(tests, open_place, close_place);
}
