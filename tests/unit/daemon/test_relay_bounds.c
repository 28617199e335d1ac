/*
 * What a relay holds, and which connections it gives up: how much of each host and of all may be under way, who makes
 * way, and what its sums come to. Agents are no more than what the relay knows of them: they have no connections.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/failing_memory.h"

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/random.h"
#include "daemon/relay/agent.h"
#include "daemon/relay/host.h"
#include "daemon/relay/relay.h"
#include "tests/unit/daemon/relay_place.h"

#define AGENTS_MAX	400u
#define PLACES		800u		/* descriptors that are neither reserved nor for hosts */
#define MIB		(1u << 20)

static struct event_base *base;
static struct relay *relay;
static const struct relay_agent_host *relay_side;
static struct relay_agent *created, *destroyed[AGENTS_MAX];
static unsigned creations, destructions, went_on;
static struct relay_opening *opening;
static uint64_t now_ns, realtime_ns;
static int ends[AGENTS_MAX][2];
static unsigned pairs;

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

uint64_t __wrap_clock_read(clockid_t clock);
uint64_t __wrap_clock_read(clockid_t clock)
{
	(void)clock;
	return realtime_ns;
}

/* The same origins in each run: no two of the addresses below are one. */
int __wrap_random_bytes(void *bytes, size_t n);
int __wrap_random_bytes(void *bytes, size_t n)
{
	memset(bytes, 1, n);
	return 0;
}

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
	(void)resource;
	limit->rlim_cur = limit->rlim_max = DESCRIPTORS_RESERVED + AGENTS_MAX + PLACES;
	return 0;
}

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what, (void)context;
}

struct relay_agent *__wrap_relay_agent_create(const struct relay_agent_config *config, struct transport *transport,
					      const char *peer);
struct relay_agent *__wrap_relay_agent_create(const struct relay_agent_config *config, struct transport *transport,
					      const char *peer)
{
	(void)transport, (void)peer;
	relay_side = config->host;
	created = calloc(1, sizeof(*created));
	created->writable = event_new(base, -1, 0, on_writable, NULL);
	creations++;
	return created;
}

void __wrap_relay_agent_destroy(struct relay_agent *agent);
void __wrap_relay_agent_destroy(struct relay_agent *agent)
{
	destroyed[destructions++] = agent;
	relay_side->closed(relay_side->context, agent);
	event_free(agent->writable);
	free(agent);
}

void __wrap_relay_agent_refuse(struct relay_agent *agent, const struct error *error);
void __wrap_relay_agent_refuse(struct relay_agent *agent, const struct error *error)
{
	(void)error;
	agent->state = AGENT_CLOSING;
}

void __wrap_relay_agent_replace(struct relay_agent *agent, const struct error *error);
void __wrap_relay_agent_replace(struct relay_agent *agent, const struct error *error)
{
	(void)error;
	agent->state = AGENT_CLOSING;
}

void __wrap_relay_agent_go_on(struct relay_agent *agent);
void __wrap_relay_agent_go_on(struct relay_agent *agent)
{
	(void)agent;
	went_on++;
}

/* ---- The relay, and who comes ----------------------------------------------------------------- */

static void open_relay(unsigned agents_max)
{
	struct relay_config config = {.sink = holding_sink(), .agents_max = agents_max};
	struct error error;

	memory_suffices();
	creations = destructions = went_on = pairs = 0;
	now_ns = realtime_ns = 1000;
	base = config.base = event_base_new();
	opening = make_opening();
	assert_int_equal(relay_create(&config, &relay, &error), 0);
}

static void close_relay(void)
{
	relay_destroy(relay);
	relay_opening_put(opening);
	event_base_free(base);
	for (unsigned i = 0; i < pairs; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
	}
}

/* A connection from there that has not said who it is; NULL: it is not served yet. */
static struct relay_agent *knock(const char *address)
{
	unsigned before = creations;
	char peer[32];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[pairs]), 0);
	snprintf(peer, sizeof(peer), "%s:%u", address, 1000 + pairs);
	relay_accept(relay, ends[pairs++][0], NULL, peer);
	return creations > before ? created : NULL;
}

static struct relay_agent *come(unsigned number)
{
	struct error error;
	char name[16];

	snprintf(name, sizeof(name), "host-%u", number);
	relay_accept(relay, 3, NULL, "10.0.0.1:1");
	created->of = relay_side->admit(relay_side->context, created, name, &error);
	assert_non_null(created->of);
	assert_int_equal(relay_host_open(created->of, opening, NULL), 0);
	return created;
}

static bool send_frame(struct relay_agent *agent, uint64_t first, size_t bytes)
{
	struct frame_ref *frame = frame_ref_create(FRAME_GAP, bytes);
	struct cursor *upto = cursor_create(1);
	bool sent;

	frame->first_seq = first;
	frame->end_seq = first + 10;
	frame->events = 7;
	cursor_append(upto, 0, first + 10);
	if (agent->opening)	/* here: memory ends after that */
		memory_fails_after(0);
	sent = relay_side->forward(relay_side->context, agent, opening, frame, upto);
	memory_suffices();
	return sent;
}

static bool is_full(const struct relay_agent *agent)
{
	return relay_side->is_full(relay_side->context, agent);
}

static struct stat_relay stat_of_relay(void)
{
	struct stat_relay stat;

	relay_stat(relay, &stat);
	return stat;
}

static void turn(void)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
}

/* ---- What is under way ------------------------------------------------------------------------ */

/* As long as half of the room is left; then a frame at a time. */
static void a_host_holds_what_the_others_leave(void **state)
{
	struct relay_agent *one, *other;

	(void)state;
	open_relay(AGENTS_MAX);
	one = come(0);
	other = come(1);
	assert_true(send_frame(one, 0, MIB));
	assert_false(is_full(one));
	for (unsigned i = 2; i < RELAY_HELD_BYTES / MIB / 2; i++)
		assert_true(send_frame(come(i), 0, MIB));
	assert_true(is_full(one));
	assert_false(is_full(other));
	assert_true(send_frame(other, 0, MIB));
	assert_true(is_full(other));
	assert_false(is_full(come(RELAY_HELD_BYTES / MIB)));	/* of which nothing is under way */
	close_relay();
}

static uint64_t held_bytes(void)
{
	return stat_of_relay().all.held_bytes;
}

/* Where all of it is taken nobody is read any more, until an eighth is free: then all are. */
static void where_all_is_taken_an_eighth_gets_free_first(void **state)
{
	struct relay_agent *idle;
	unsigned hosts = 0, before;

	(void)state;
	open_relay(AGENTS_MAX);
	idle = come(AGENTS_MAX);
	while (held_bytes() < RELAY_HELD_BYTES) {
		assert_false(is_full(idle));
		assert_true(send_frame(come(hosts++), 0, MIB));
	}
	assert_true(is_full(idle));
	while (held_bytes() >= RELAY_HELD_BYTES - RELAY_HELD_BYTES / 8) {
		before = went_on;
		assert_true(is_full(idle));
		confirm_first(0);
		if (held_bytes() >= RELAY_HELD_BYTES - RELAY_HELD_BYTES / 8)
			assert_int_equal(went_on, before + 1);	/* the one whose frame it was */
	}
	assert_int_equal(went_on, before + hosts + 2);
	assert_false(is_full(idle));
	before = went_on;
	confirm_first(0);
	assert_int_equal(went_on, before + 1);
	close_relay();
}

/* ---- Sums ------------------------------------------------------------------------------------- */

static void sums_of_hosts(void **state)
{
	static const uint64_t heard[] = {200, 100, 300};
	uint64_t events = counter_read(COUNTER_relay_events);
	struct relay_agent *agent[3];

	(void)state;
	open_relay(AGENTS_MAX);
	for (unsigned i = 0; i < 3; i++) {
		agent[i] = come(i);
		realtime_ns = heard[i];
		assert_true(send_frame(agent[i], 0, 10));
	}
	assert_int_equal(stat_of_relay().all.heard_realtime_ns, 100);
	confirm_first(0);
	assert_int_equal(counter_read(COUNTER_relay_events) - events, 7);
	assert_int_equal(stat_of_relay().all.residual, 0);
	/* One host's error does not make up for another's. */
	agent[0]->of->received += 3;
	agent[1]->of->received -= 3;
	assert_int_equal(stat_of_relay().all.residual, 6);
	agent[0]->of->received -= 3;
	agent[1]->of->received += 3;
	close_relay();
}

/* It is neither new nor known: the agent sends it again. */
static void a_frame_without_memory_did_not_come(void **state)
{
	struct relay_agent *agent;

	(void)state;
	open_relay(AGENTS_MAX);
	agent = come(0);
	agent->opening = opening;
	assert_false(send_frame(agent, 0, 10));
	agent->opening = NULL;
	assert_int_equal(stat_of_relay().all.received, 0);
	assert_int_equal(stat_of_relay().all.duplicate, 0);
	assert_true(send_frame(agent, 0, 10));
	assert_true(send_frame(agent, 0, 10));
	assert_int_equal(stat_of_relay().all.received, 2);
	assert_int_equal(stat_of_relay().all.duplicate, 1);
	assert_int_equal(stat_of_relay().all.residual, 0);
	close_relay();
}

/* What comes on it still is nobody's. */
static void a_connection_that_was_replaced_is_of_no_host(void **state)
{
	struct relay_agent *old, *new;

	(void)state;
	open_relay(AGENTS_MAX);
	old = come(0);
	new = come(0);
	assert_null(old->of);
	assert_int_equal(old->state, AGENT_CLOSING);
	assert_ptr_equal(new->of->agent, new);
	assert_int_equal(stat_of_relay().connected, 1);
	__wrap_relay_agent_destroy(old);
	assert_int_equal(stat_of_relay().connected, 1);
	close_relay();
}

static void who_is_not_revoked_stays(void **state)
{
	struct relay_agent *agent;

	(void)state;
	open_relay(AGENTS_MAX);
	agent = come(0);
	relay_judge(relay);
	assert_int_not_equal(agent->state, AGENT_CLOSING);
	close_relay();
}

/* ---- Who goes --------------------------------------------------------------------------------- */

/* Of frames that have not come whole. */
static void who_has_most_makes_way(void **state)
{
	uint64_t refused = counter_read(COUNTER_agents_refused);
	struct relay_agent *small, *large, *larger;

	(void)state;
	open_relay(AGENTS_MAX);
	small = come(0);
	large = come(1);
	larger = come(2);
	small->input_capacity = RELAY_REST_SMALL_BYTES;
	assert_true(relay_side->make_way(relay_side->context, small));
	assert_int_equal(destructions, 0);
	assert_int_equal(counter_read(COUNTER_agents_refused), refused);
	large->input_capacity = RELAY_REST_SMALL_BYTES + 1;
	larger->input_capacity = RELAY_REST_SMALL_BYTES + 2;
	assert_true(relay_side->make_way(relay_side->context, small));
	assert_int_equal(destructions, 1);
	assert_ptr_equal(destroyed[0], larger);
	assert_int_equal(counter_read(COUNTER_agents_refused), refused + 1);
	/* It is the one that asks: it ends itself. */
	assert_false(relay_side->make_way(relay_side->context, large));
	assert_int_equal(destructions, 1);
	assert_int_equal(counter_read(COUNTER_agents_refused), refused + 2);
	close_relay();
}

static void flood(struct relay_agent *agent[RELAY_PENDING_MAX], unsigned n, const char *address)
{
	for (unsigned i = 0; i < n; i++) {
		agent[i] = knock(address);
		assert_non_null(agent[i]);
	}
}

/* Of those from where most come: who has sent nothing, however late it came; then whose certificate is not good yet. */
static void who_has_shown_least_goes_first(void **state)
{
	struct relay_agent *agent[RELAY_PENDING_MAX];

	(void)state;
	open_relay(AGENTS_MAX);
	flood(agent, RELAY_PENDING_MAX, "10.0.0.9");
	for (unsigned i = 0; i < RELAY_PENDING_MAX; i++) {
		agent[i]->heard = i != 40;
		agent[i]->shaken = i < 20;
	}
	assert_non_null(knock("10.0.0.2"));
	assert_ptr_equal(destroyed[0], agent[40]);
	assert_non_null(knock("10.0.0.2"));
	assert_ptr_equal(destroyed[1], agent[20]);
	assert_int_equal(destructions, 2);
	close_relay();
}

/* While others wait, those that have said nothing have RELAY_SILENT_NS. */
static void who_says_something_stays(void **state)
{
	uint64_t refused = counter_read(COUNTER_agents_refused);
	struct relay_agent *agent[RELAY_PENDING_MAX];

	(void)state;
	open_relay(AGENTS_MAX);
	flood(agent, RELAY_PENDING_MAX, "10.0.0.9");
	agent[1]->heard = true;
	assert_null(knock("10.0.0.9"));
	assert_null(knock("10.0.0.9"));
	assert_int_equal(counter_read(COUNTER_agents_refused), refused);
	now_ns += RELAY_SILENT_NS;
	__wrap_relay_agent_destroy(agent[0]);
	turn();
	assert_int_equal(creations, RELAY_PENDING_MAX + 1);
	assert_int_equal(destructions, 1);
	now_ns++;
	__wrap_relay_agent_destroy(agent[2]);
	turn();
	assert_int_equal(creations, RELAY_PENDING_MAX + 2);
	assert_int_equal(destructions, RELAY_PENDING_MAX - 1);	/* but for the second, which has spoken */
	for (unsigned i = 0; i < destructions; i++)
		assert_ptr_not_equal(destroyed[i], agent[1]);
	assert_int_equal(counter_read(COUNTER_agents_refused), refused + RELAY_PENDING_MAX - 3);
	close_relay();
}

/* An origin that would have as many as the busiest has to wait; one with fewer takes a place of the busiest. */
static void who_has_its_share_waits(void **state)
{
	struct relay_agent *agent[RELAY_PENDING_MAX];

	(void)state;
	open_relay(AGENTS_MAX);
	flood(agent, RELAY_PENDING_MAX / 2, "10.0.0.9");
	flood(agent, RELAY_PENDING_MAX / 2 - 1, "10.0.0.2");
	flood(agent, 1, "10.0.0.3");
	assert_null(knock("10.0.0.2"));
	assert_int_equal(destructions, 0);
	assert_non_null(knock("10.0.0.3"));
	assert_int_equal(destructions, 1);
	close_relay();
}

/* A descriptor is left for each host that may still come. */
static void who_waits_takes_no_descriptor_of_a_host(void **state)
{
	int fd = (int)PLACES + 5;
	struct relay_agent *agent[RELAY_PENDING_MAX];

	(void)state;
	open_relay(AGENTS_MAX);
	flood(agent, RELAY_PENDING_MAX, "10.0.0.9");
	assert_null(knock("10.0.0.9"));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[pairs]), 0);
	assert_int_equal(dup2(ends[pairs][0], fd), fd);
	pairs++;
	relay_accept(relay, fd, NULL, "10.0.0.9:1");
	assert_int_equal(creations, RELAY_PENDING_MAX + 1);
	assert_int_equal(destructions, 1);
	close(fd);
	close_relay();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_holds_what_the_others_leave),
		cmocka_unit_test(where_all_is_taken_an_eighth_gets_free_first),
		cmocka_unit_test(sums_of_hosts),
		cmocka_unit_test(a_frame_without_memory_did_not_come),
		cmocka_unit_test(a_connection_that_was_replaced_is_of_no_host),
		cmocka_unit_test(who_is_not_revoked_stays),
		cmocka_unit_test(who_has_most_makes_way),
		cmocka_unit_test(who_has_shown_least_goes_first),
		cmocka_unit_test(who_says_something_stays),
		cmocka_unit_test(who_has_its_share_waits),
		cmocka_unit_test(who_waits_takes_no_descriptor_of_a_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
