/* An agent looks its relay's name up: the resolver goes when it is done, whatever has become of the attempt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/dns.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "daemon/serve/dialler.h"
#include "daemon/spool/spool.h"
#include "tests/unit/daemon/tls_place.h"

#define TURNS_MAX	100u

static struct place place;

/* ---- The resolver: its name server is ours, and never answers -------------------------------- */

static struct {
	int server;
	unsigned bases;
	bool asks;			/* the answer has not come, not even that it is cancelled */
	bool freed_early;
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
	question = __real_evdns_getaddrinfo(base, name, service, hints, on_answer, NULL);
	resolver.asks = question;
	return question;
}

/* ---- The dialler ----------------------------------------------------------------------------- */

static struct dialler *dial(struct event_base *base, struct config *config, char *relay)
{
	struct dialler_config dialler_config = {.base = base, .config = config};
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

static int open_place(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void)state;
	place_open(&place, -60, 90 * 86400);
	resolver.server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return bind(resolver.server, (struct sockaddr *)&address, sizeof(address));
}

static int close_place(void **state)
{
	(void)state;
	close(resolver.server);
	place_close(&place);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lookup_that_is_given_up_is_over_before_its_resolver),
		cmocka_unit_test(a_number_is_looked_up_at_once),
	};

	return cmocka_run_group_tests(tests, open_place, close_place);
}
