/*
 * test_fleet: the hosts of a relay, asked for in several answers: their order, as text and as JSON; and answers that
 * make no sense.
 */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <jansson.h>

#include "client/cli/fleet_ask.h"
#include "client/cli/print_fleet.h"
#include "client/lib/limits.h"
#include "tests/unit/client/fake.h"
#include "tests/unit/client/maker.h"

#define S 1000000000ull
#define NOW (1000000 * S)

static const struct ringtail_host relay = { .hostname = "here", .software = "d 1" };
static struct fake fake;
static struct out out;

/* A relay's answer: up to three hosts of it. */
struct answer {
	Ringtail__V1__Hosts hosts;
	Ringtail__V1__HostStat all, host[7], *list[7];
};

static void answer_init(struct answer *answer)
{
	ringtail__v1__hosts__init(&answer->hosts);
	ringtail__v1__host_stat__init(&answer->all);
	answer->hosts.all = &answer->all;
	answer->hosts.host = answer->list;
	answer->hosts.realtime_ns = NOW;
	answer->hosts.ack = "fsync";
}

static Ringtail__V1__HostStat *add(struct answer *answer, const char *name, uint64_t heard_s)
{
	Ringtail__V1__HostStat *host = &answer->host[answer->hosts.n_host];

	ringtail__v1__host_stat__init(host);
	host->name = (char *)name;
	host->heard_realtime_ns = heard_s * S;
	answer->list[answer->hosts.n_host++] = host;
	answer->hosts.hosts++;
	return host;
}

/* A daemon whose hello has that feature, or not, and which sends what `answers` has; fleet_free() always. */
static int ask(bool has_hosts, const struct maker *answers, struct fleet *fleet, struct ringtail_error *error)
{
	Ringtail__V1__Feature feature = RINGTAIL__V1__FEATURE__FEATURE_HOSTS;
	Ringtail__V1__ServerHello message = RINGTAIL__V1__SERVER_HELLO__INIT;
	uint8_t boot_id[16] = { 1 };
	struct request *request;
	struct maker hello;
	int err;

	maker_init(&hello);
	message.version = 1;
	message.boot_id = (ProtobufCBinaryData){ sizeof(boot_id), boot_id };
	message.feature = &feature;
	message.n_feature = has_hosts;
	maker_message(&hello, FRAME_SERVER_HELLO, &message.base);
	fake_start(&fake, &(struct fake_step){ hello.bytes, hello.size, answers->bytes, answers->size, true }, 1);
	assert_int_equal(request_open(fake.address, -1, &request, error), 0);
	err = fleet_ask(request, fleet, error);
	request_close(request);
	fake_stop(&fake);
	maker_fini(&hello);
	return err;
}

static void the_worst_come_first(void **state)
{
	static const char *const order[] = { "d", "b", "e", "f", "c", "a" };
	struct answer first = { 0 }, second = { 0 };
	Ringtail__V1__LossCount lost = RINGTAIL__V1__LOSS_COUNT__INIT, *losses[] = { &lost };
	struct ringtail_error error;
	struct maker answers;
	struct fleet fleet;

	(void)state;
	answer_init(&first);
	answer_init(&second);
	add(&first, "a", 30);
	add(&first, "b", 40)->consigned_residual = 1;
	add(&first, "c", 20);
	first.hosts.more = true;
	add(&second, "d", 50)->residual = -2;
	add(&second, "e", 60)->lost = losses;
	second.host[1].n_lost = 1;
	lost.count = 7;
	add(&second, "f", 60)->gaps = 1;
	maker_init(&answers);
	maker_message(&answers, FRAME_HOSTS, &first.hosts.base);
	maker_message(&answers, FRAME_HOSTS, &second.hosts.base);
	assert_int_equal(ask(true, &answers, &fleet, &error), 0);
	assert_int_equal(fleet.hosts, 6);
	for (size_t i = 0; i < 6; i++)
		assert_string_equal(fleet.host[i]->name, order[i]);
	assert_false(fleet_balanced(&fleet));
	fleet_free(&fleet);
	maker_fini(&answers);
}

static void answers_that_make_no_sense(void **state)
{
	struct ringtail_error error;
	struct answer answer = { 0 };
	struct maker answers;
	struct fleet fleet;

	(void)state;
	maker_init(&answers);
	assert_int_equal(ask(false, &answers, &fleet, &error), -EOPNOTSUPP);
	assert_string_equal(error.code, "daemon-too-old");
	fleet_free(&fleet);

	maker_error(&answers, "not-a-relay", "no", "there", 0);
	assert_int_equal(ask(true, &answers, &fleet, &error), -EPROTO);
	assert_string_equal(error.code, "not-a-relay");
	fleet_free(&fleet);

	/* Without an end, for it says the same names again. */
	answer_init(&answer);
	add(&answer, "a", 1);
	answer.hosts.more = true;
	answers.size = 0;
	maker_message(&answers, FRAME_HOSTS, &answer.hosts.base);
	maker_message(&answers, FRAME_HOSTS, &answer.hosts.base);
	assert_int_equal(ask(true, &answers, &fleet, &error), -EBADMSG);
	fleet_free(&fleet);
	answer.hosts.n_host = 0;
	answers.size = 0;
	maker_message(&answers, FRAME_HOSTS, &answer.hosts.base);
	assert_int_equal(ask(true, &answers, &fleet, &error), -EBADMSG);
	fleet_free(&fleet);
	answer.hosts.more = false;
	answer.hosts.all = NULL;
	answers.size = 0;
	maker_message(&answers, FRAME_HOSTS, &answer.hosts.base);
	assert_int_equal(ask(true, &answers, &fleet, &error), -EBADMSG);
	fleet_free(&fleet);
	answers.size = 0;
	maker_raw(&answers, FRAME_HOSTS, (const uint8_t *)"\x0a\xff", 2);
	assert_int_equal(ask(true, &answers, &fleet, &error), -EBADMSG);
	fleet_free(&fleet);
	maker_fini(&answers);
}

/* A name cannot be so: the relay takes none from a certificate. But who answers may be no relay of ours. */
static void names_act_on_no_terminal(void **state)
{
	struct ringtail_error error;
	struct answer answer = { 0 };
	struct maker answers;
	struct fleet fleet;
	const char *text;
	json_t *told;

	(void)state;
	answer_init(&answer);
	add(&answer, "a\033[2Jb\nc", 1)->software = "x\xe2\x80\xaey";
	maker_init(&answers);
	maker_message(&answers, FRAME_HOSTS, &answer.hosts.base);
	assert_int_equal(ask(true, &answers, &fleet, &error), 0);
	print_fleet_hosts(&out, &fleet);
	print_fleet_ledger(&out, &relay, &fleet);
	text = check_text(&out);
	assert_non_null(strstr(text, "\na?[2Jb?c "));
	assert_null(strchr(text, '\033'));
	assert_null(strstr(text, "\xe2\x80\xae"));
	print_fleet_hosts_json(&out, &fleet);
	text = check_text(&out);
	assert_null(strchr(text, '\033'));
	assert_null(strstr(text, "\xe2\x80\xae"));
	told = json_loads(text, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(told, "host")), "a\033[2Jb\nc");
	json_decref(told);
	fleet_free(&fleet);
	maker_fini(&answers);
}

static void assert_fits(const char *text)
{
	while (*text) {
		size_t columns = strcspn(text, "\n");

		assert_true(columns <= 80);
		text += columns + 1;
	}
}

static struct fleet make(struct answer *answer, const Ringtail__V1__HostStat **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		list[i] = &answer->host[i % 3];
	return (struct fleet){ .sum = &answer->hosts, .host = list, .hosts = n };
}

static void lines_of_hosts(void **state)
{
	uint8_t boot_id[16] = { 0x12, 0x34, 0x56, 0x78 };
	Ringtail__V1__LossCount lost = RINGTAIL__V1__LOSS_COUNT__INIT, *losses[] = { &lost };
	const Ringtail__V1__HostStat *list[3];
	struct answer answer = { 0 };
	struct fleet fleet;
	const char *text;

	(void)state;
	answer_init(&answer);
	add(&answer, "web-1", 1000000 - 90)->software = "ringtaild 0.1.0-1234567";
	answer.host[0].connected = true;
	answer.host[0].since_realtime_ns = NOW - 100 * 3600 * S;
	answer.host[0].boot_id = (ProtobufCBinaryData){ sizeof(boot_id), boot_id };
	answer.host[0].held_bytes = 1023;
	answer.host[0].kept_bytes = 1 << 30;
	answer.host[0].forwarded_bytes = 3 << 20;
	answer.host[0].gaps = 1;
	answer.host[0].lost = losses;
	answer.host[0].n_lost = 1;
	lost.count = 123456;
	add(&answer, "a-name-that-is-too-long-for-its-column", 0);
	add(&answer, "web-3", 1000000 - 6000)->since_realtime_ns = NOW - 99 * 60 * S;
	answer.all.gaps = 1;
	fleet = make(&answer, list, 3);
	print_fleet_hosts(&out, &fleet);
	text = check_text(&out);
	assert_fits(text);
	assert_string_equal(text,
		"host               state     last version   boot      waiting     kept    lost\n"
		"web-1              up 4d      90s 0.1.0-123 12345678   1023 B 1.00 GiB  123k+?\n"
		"a-name-that-is-too-long-for-its-column\n"
		"                   unseen   never -         -             0 B      0 B       0\n"
		"web-3              away 99m    1h -         -             0 B      0 B       0\n"
		"+?: more is missing, and nobody knows how much\n");
	answer.hosts.ack = "kafka";
	print_fleet_hosts(&out, &fleet);
	text = check_text(&out);
	assert_non_null(strstr(text, " carried "));
	assert_non_null(strstr(text, " 3.00 MiB "));
	fleet.hosts = 0;
	print_fleet_hosts(&out, &fleet);
	assert_non_null(strstr(check_text(&out), "no hosts"));
}

/* The relay's and the courier's residuals never make up for each other. */
static void residuals_add_up(void **state)
{
	Ringtail__V1__HostStat host = RINGTAIL__V1__HOST_STAT__INIT;

	(void)state;
	host.residual = -3;
	assert_int_equal(fleet_residual(&host), 3);
	host.consigned_residual = 3;
	assert_int_equal(fleet_residual(&host), 6);
	host.residual = 2;
	host.consigned_residual = -4;
	assert_int_equal(fleet_residual(&host), 6);
	host.spool_residual = -5;
	assert_int_equal(fleet_residual(&host), 11);
	/* The largest do not wrap to 0. */
	host.spool_residual = host.relay_residual = INT64_MIN;
	assert_true(fleet_residual(&host) == UINT64_MAX);
}

/* A clock that is ahead says "0s"; what is a hundred of a unit is told in the next. */
static void ages(void **state)
{
	static const struct {
		uint64_t heard_s;
		const char *text;
	} row[] = {
		{ 1000000 + 5, "   0s" }, { 1000000 - 99, "  99s" }, { 1000000 - 100, "   1m" },
		{ 1000000 - 99 * 60 - 59, "  99m" }, { 1000000 - 6000, "   1h" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		const Ringtail__V1__HostStat *list[1];
		struct answer answer = { 0 };
		struct fleet fleet;

		answer_init(&answer);
		add(&answer, "web-1", row[i].heard_s)->since_realtime_ns = NOW;
		fleet = make(&answer, list, 1);
		print_fleet_hosts(&out, &fleet);
		assert_non_null(strstr(check_text(&out), row[i].text));
	}
}

static void losses_of_a_fleet(void **state)
{
	Ringtail__V1__LossCount lost[2] = { RINGTAIL__V1__LOSS_COUNT__INIT, RINGTAIL__V1__LOSS_COUNT__INIT };
	Ringtail__V1__LossCount *losses[] = { &lost[0], &lost[1] };
	uint8_t boot_id[2] = { 0xab, 0x01 };
	static const Ringtail__V1__HostStat *list[FLEET_ROWS];
	struct answer answer = { 0 };
	struct fleet fleet;
	const char *text;
	json_t *told, *first;

	(void)state;
	answer_init(&answer);
	for (unsigned i = 0; i < 3; i++)
		add(&answer, "web", 7)->lost = losses;
	lost[0].count = 5;
	lost[1].count = 6;
	answer.host[0].n_lost = 2;
	answer.host[0].boot_id = (ProtobufCBinaryData){ sizeof(boot_id), boot_id };
	answer.host[0].epoch = 9;
	answer.host[0].residual = -3;
	answer.all.gaps = 1;
	answer.hosts.connected = 1;
	answer.hosts.courier = true;
	answer.hosts.ack = "kafka";
	answer.all.returned = 3;
	answer.all.in_flight = 4;
	fleet = make(&answer, list, FLEET_ROWS);
	print_fleet_ledger(&out, &relay, &fleet);
	text = check_text(&out);
	assert_non_null(strstr(text, "in 1 gap\n"));
	assert_null(strstr(text, "more hosts"));	/* there are as many rows as hosts */
	assert_null(strstr(text, "no courier"));
	assert_non_null(strstr(text, "+ 3 returned + 4 in flight"));
	answer.all.gaps = 2;
	print_fleet_ledger(&out, &relay, &fleet);
	assert_non_null(strstr(check_text(&out), "in 2 gaps\n"));
	print_fleet_ledger_json(&out, &fleet);
	told = json_loads(check_text(&out), 0, NULL);
	assert_non_null(told);
	assert_int_equal(json_integer_value(json_object_get(told, "known")), 3);
	assert_int_equal(json_integer_value(json_object_get(told, "connected")), 1);
	assert_true(json_is_true(json_object_get(told, "courier")));
	first = json_array_get(json_object_get(told, "hosts"), 0);
	assert_int_equal(json_array_size(json_object_get(first, "lost")), 2);
	assert_int_equal(json_integer_value(json_object_get(first, "residual")), -3);
	assert_string_equal(json_string_value(json_object_get(first, "run")), "ab01/9");
	assert_null(json_object_get(first, "epoch"));	/* the run has it */
	json_decref(told);
}

/* Of five hosts that are connected none has told: three are named. */
static void hosts_that_have_not_told(void **state)
{
	static const char *const name[] = { "a", "b", "c", "d", "e", "f", "g" };
	static const Ringtail__V1__HostStat *list[7];
	struct answer answer = { 0 };
	struct fleet fleet;
	const char *text;

	(void)state;
	answer_init(&answer);
	for (unsigned i = 0; i < 7; i++)
		add(&answer, name[i], 7)->connected = i > 0;
	answer.host[1].told_realtime_ns = 5;
	answer.hosts.told = 1;
	answer.all.spool_produced = 10;
	answer.all.spool_stored = 6;
	answer.all.spool_lost = 3;
	answer.all.spool_in_flight = 2;
	answer.all.spool_residual = 1;
	answer.all.behind_bytes = 2048;
	answer.all.relay_stored = 20;
	answer.all.relay_acked = 14;
	answer.all.relay_lost = 3;
	answer.all.relay_in_flight = 1;
	answer.all.relay_residual = 2;
	fleet = make(&answer, list, 7);
	for (unsigned i = 0; i < 7; i++)
		list[i] = &answer.host[i];
	print_fleet_ledger(&out, &relay, &fleet);
	text = check_text(&out);
	assert_fits(text);
	assert_non_null(strstr(text, "  agents: 10 produced = 6 stored + 3 lost\n"
			       "          + 2 in flight; residual 1; 2.00 KiB not acknowledged\n"
			       "    relayed: 20 stored = 14 acknowledged + 3 lost\n"
			       "          + 1 in flight; residual 2\n"
			       "          told by 1 of 7 hosts, in attempts\n"
			       "    not told: c\n    not told: d\n    not told: e\n"
			       "    not told: 2 more hosts\n"));
}

static void ledgers(void **state)
{
	static const Ringtail__V1__HostStat *list[FLEET_ROWS + 5];
	struct answer answer = { 0 };
	struct fleet fleet;
	const char *text;
	json_t *told;

	(void)state;
	answer_init(&answer);
	for (unsigned i = 0; i < 3; i++)
		add(&answer, "web", 7)->received = 5;
	answer.all.received = 15;
	answer.all.residual = 15;
	answer.all.consigned = 4;
	answer.all.returned = 4;
	answer.hosts.forgotten = 2;
	answer.hosts.ack = "kafka";
	fleet = make(&answer, list, FLEET_ROWS + 5);
	print_fleet_ledger(&out, &relay, &fleet);
	text = check_text(&out);
	assert_fits(text);
	assert_non_null(strstr(text, "  relay: 15 received = 0 forwarded + 0 duplicate\n"
			       "         + 0 refused + 0 held; residual 15\n"));
	assert_non_null(strstr(text, "  courier: 4 consigned = 0 confirmed + 0 rejected\n"
			       "           + 4 returned + 0 in flight; residual 0\n"));
	assert_non_null(strstr(text, "no courier is connected"));
	assert_non_null(strstr(text, "forgotten: 2 hosts"));
	assert_non_null(strstr(text, "and 5 more hosts"));
	assert_false(fleet_balanced(&fleet));
	print_fleet_ledger_json(&out, &fleet);
	told = json_loads(check_text(&out), 0, NULL);
	assert_non_null(told);
	assert_true(json_is_false(json_object_get(told, "balanced")));
	assert_int_equal(json_array_size(json_object_get(told, "hosts")), FLEET_ROWS + 5);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(told, "all"), "returned")), 4);
	json_decref(told);
	fleet.hosts = 1;
	print_fleet_hosts_json(&out, &fleet);
	told = json_loads(check_text(&out), 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(told, "received")), 5);
	assert_true(json_is_null(json_object_get(told, "run")));
	json_decref(told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_worst_come_first),
		cmocka_unit_test(answers_that_make_no_sense),
		cmocka_unit_test(names_act_on_no_terminal),
		cmocka_unit_test(lines_of_hosts),
		cmocka_unit_test(hosts_that_have_not_told),
		cmocka_unit_test(residuals_add_up),
		cmocka_unit_test(ages),
		cmocka_unit_test(losses_of_a_fleet),
		cmocka_unit_test(ledgers),
	};

	out_init(&out, memfd_create("out", MFD_CLOEXEC));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
