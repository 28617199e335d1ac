/*
 * As many hosts as a relay can know. For another one it forgets a host of which nothing is under way; where there is
 * none such, the other one has to wait. Hosts are admitted as their connections would be: without these.
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

#include "daemon/base/limits.h"
#include "daemon/relay/agent.h"
#include "daemon/relay/host.h"
#include "daemon/relay/relay.h"
#include "tests/unit/daemon/relay_place.h"

static const struct relay_agent_host *relay_side;
static struct relay_agent *created;
static struct frame_codec *codec;
static struct relay *relay;
static struct relay_opening *opening;

struct relay_agent *__wrap_relay_agent_create(const struct relay_agent_config *config, struct transport *transport,
					      const char *peer);
struct relay_agent *__wrap_relay_agent_create(const struct relay_agent_config *config, struct transport *transport,
					      const char *peer)
{
	(void)transport, (void)peer;
	relay_side = config->host;
	created = calloc(1, sizeof(*created));
	return created;
}

/* NULL: it is refused, with that code. */
static struct relay_agent *come(unsigned number, struct error *error)
{
	char name[16];

	snprintf(name, sizeof(name), "host-%u", number);
	relay_accept(relay, 3, NULL, "10.0.0.1:1");
	created->of = relay_side->admit(relay_side->context, created, name, error);
	return created->of ? created : NULL;
}

static void go(struct relay_agent *agent)
{
	relay_side->closed(relay_side->context, agent);
	free(agent);
}

static void send_one(struct relay_agent *agent)
{
	struct cursor *upto = cursor_create(1);

	assert_non_null(upto);
	cursor_append(upto, 0, 10);
	assert_int_equal(relay_host_open(agent->of, opening, NULL), 0);
	assert_true(relay_side->forward(relay_side->context, agent, opening,
					frame_ref_gap(codec, 0, 0, 10, 0, 1, 0), upto));
}

static struct stat_relay stat_of_relay(void)
{
	struct stat_relay stat;

	relay_stat(relay, &stat);
	assert_int_equal(stat.all.residual, 0);
	return stat;
}

static void a_host_with_items_under_way_is_known(void **state)
{
	const struct relay_config config = {.sink = holding_sink(), .agents_max = RELAY_HOSTS_MAX};
	static struct stat_host metered[RELAY_HOSTS_METERED + 1];
	struct relay_agent *agent, *idle;
	struct error error;

	(void)state;
	codec = frame_codec_create(1);
	opening = make_opening();
	assert_int_equal(relay_create(&config, &relay, &error), 0);
	for (unsigned i = 0; i < RELAY_HOSTS_MAX - 1; i++) {
		agent = come(i, &error);
		assert_non_null(agent);
		send_one(agent);
		go(agent);
	}
	/* One that is connected is known, too, though it has sent nothing yet. */
	idle = come(RELAY_HOSTS_MAX - 1, &error);
	assert_non_null(idle);
	assert_null(come(RELAY_HOSTS_MAX, &error));
	assert_string_equal(error.code, "out-of-memory");
	go(created);
	send_one(idle);
	go(idle);
	assert_int_equal(relay_list_metered(relay, metered), RELAY_HOSTS_METERED);
	assert_int_equal(stat_of_relay().hosts, RELAY_HOSTS_MAX);
	assert_int_equal(stat_of_relay().all.held, RELAY_HOSTS_MAX);
	/* One of which all is stored makes room, though it was never to come again. */
	confirm_first(0);
	agent = come(RELAY_HOSTS_MAX, &error);
	assert_non_null(agent);
	send_one(agent);
	go(agent);
	/* It has the series of the one that it took the place of. */
	assert_int_equal(relay_list_metered(relay, metered), RELAY_HOSTS_METERED);
	assert_int_equal(stat_of_relay().hosts, RELAY_HOSTS_MAX);
	assert_int_equal(stat_of_relay().all.held, RELAY_HOSTS_MAX);
	relay_destroy(relay);
	relay_opening_put(opening);
	frame_codec_destroy(codec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_with_items_under_way_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
