/* test_stat_print: a Stat as text and as JSON; and asking for one, with every way of no answer. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <jansson.h>

#include "client/cli/request.h"
#include "client/cli/stat_print.h"
#include "client/lib/unpack.h"
#include "tests/unit/client/fake.h"
#include "tests/unit/client/maker.h"

static struct out out;
static const struct ringtail_host host = { .hostname = "here", .kernel = "6.1", .software = "d 1" };

static Ringtail__V1__LossCount full = RINGTAIL__V1__LOSS_COUNT__INIT;
static Ringtail__V1__LossCount *losses[] = { &full };
static Ringtail__V1__RingStat ring;
static Ringtail__V1__RingStat *rings[] = { &ring };
static Ringtail__V1__ClientStat client;
static Ringtail__V1__ClientStat *clients[] = { &client };
static Ringtail__V1__SpoolStat spool;
static Ringtail__V1__SpoolStat *spools[] = { &spool };
static Ringtail__V1__Counter counter;
static Ringtail__V1__Counter *counters[] = { &counter };
static char *probes[] = { "syscall:*:call", "tracepoint:*" };

static Ringtail__V1__Stat make(uint64_t events, uint64_t monotonic_ns)
{
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;

	full.count = 10;
	full.reason = 1;
	ringtail__v1__ring_stat__init(&ring);
	ring.cpu = 1;
	ring.produced = events + 15;
	ring.events = events;
	ring.meta = 5;
	ring.n_lost = 1;
	ring.lost = losses;
	ring.size_bytes = 1 << 20;
	ring.used_bytes = 1 << 18;
	ringtail__v1__client_stat__init(&client);
	client.id = 3;
	client.software = "tracectl 0.1.0";
	client.peer = "unix";
	client.filter = "pid == 1";
	client.n_probe = 2;
	client.probe = probes;
	client.produced = client.delivered = events;
	ringtail__v1__spool_stat__init(&spool);
	spool.name = "0123";
	spool.state = "full";
	spool.n_probe = 1;
	spool.probe = probes;
	spool.segments = 3;
	spool.bytes = 1 << 19;
	spool.bytes_max = 1 << 20;
	spool.produced = events;
	spool.stored = events - 15;
	spool.n_lost = 1;
	spool.lost = losses;
	spool.in_flight = 5;
	ringtail__v1__counter__init(&counter);
	counter.name = "batches";
	counter.value = 42;
	counter.help = "batches \033[31mfinished";
	stat.monotonic_ns = monotonic_ns;
	stat.uptime_ns = 3725000000000ull;
	stat.source = "bpf";
	stat.n_ring = 1;
	stat.ring = rings;
	stat.n_client = 1;
	stat.client = clients;
	stat.n_spool = 1;
	stat.spool = spools;
	stat.durability = "fsync";
	stat.loss_window_ns = 1040000000;
	stat.n_counter = 1;
	stat.counter = counters;
	stat.recursion_lost = 2;
	stat.maps_too_late = 4;
	stat.stacks_cut = 6;
	return stat;
}

static void text(void **state)
{
	Ringtail__V1__RingStat ring_then;
	Ringtail__V1__RingStat *rings_then[] = { &ring_then };
	Ringtail__V1__Stat then = make(1000, 1000000000), now;
	const char *shown;

	(void)state;
	ring_then = ring;
	then.ring = rings_then;
	then.n_client = 0;
	now = make(6000, 3000000000);
	check_out(&out);
	stat_print_text(&out, &host, &now, &then);
	shown = check_text(&out);
	assert_non_null(strstr(shown, "d 1 on here (6.1), source bpf, up 1:02:05\n"));
	assert_non_null(strstr(shown,
			       "   1    2.50k/s         6000         10  [#####...............] "
			       "256 KiB of 1.00 MiB\n"));
	assert_non_null(strstr(shown, "syscall:*:call,tracepoint:*  if pid == 1\n"));
	assert_non_null(strstr(shown,
			       "cpu 1: 6015 produced = 6000 events + 5 meta + 10 lost (ring, "
			       "ring-full) + 0 in flight; residual 0\n"));
	assert_non_null(strstr(shown,
			       "client 3: 6000 produced = 6000 delivered + 0 filtered + 0 in "
			       "flight; residual 0\n"));
	assert_non_null(strstr(shown, "durability fsync: a crash of the machine costs at most the "
				      "last 1040 ms\n"));
	assert_non_null(strstr(shown, "spool 0123: 6000 produced = 5985 stored + 10 lost (ring, "
				      "ring-full) + 5 in flight; residual 0\n"));
	assert_non_null(strstr(shown, "  ring full: the kernel recorded faster than the daemon drained "
				      "the ring\n    -> raise ring-size, or ask for fewer probes or a "
				      "narrower filter (ring-size is 1.00 MiB now)\n"));
	assert_non_null(strstr(shown, "2 events the kernel would not let nest\n"));
	assert_non_null(strstr(shown, "4 processes ended before their maps were read"));
	assert_non_null(strstr(shown, "6 user stacks could not be followed to their beginning\n"));
	assert_null(strstr(shown, "stuck"));
	assert_null(strstr(shown, "foreign"));
	assert_null(strstr(shown, "unpaired"));
	assert_null(strstr(shown, "faults"));
	assert_null(strstr(shown, "consumer-bad"));
	assert_null(strchr(shown, '\033'));
	stat_print_text(&out, &host, &now, NULL);
	assert_non_null(strstr(check_text(&out), "          -         6000"));
	close(out.fd);
}

/* Lines that are there only where there is something to say. */
static void beside_the_rings(void **state)
{
	Ringtail__V1__Stat stat = make(6000, 3000000000);
	json_t *object, *found;
	const char *shown;

	(void)state;
	ring.stuck_ns = 7900000000;
	spool.state = "failed";
	ring.foreign = 11;
	ring.unpaired = 12;
	ring.faults = 13;
	ring.consumer_bad = 14;
	check_out(&out);
	stat_print_text(&out, &host, &stat, NULL);
	shown = check_text(&out);
	assert_non_null(strstr(shown, "the spool 0123 has FAILED: what comes for it is lost"));
	assert_non_null(strstr(shown, "residual 0\n  cpu 1: stuck for 7 s behind an unfinished record\n"));
	assert_non_null(strstr(shown, "  beside the rings: 11 foreign: "));
	assert_non_null(strstr(shown, "  beside the rings: 12 unpaired: "));
	assert_non_null(strstr(shown, "  beside the rings: 13 faults: "));
	assert_non_null(strstr(shown, "  beside the rings: 14 consumer-bad: "));
	assert_int_equal(stat_print_json(&out, &stat), 0);
	object = json_loads(check_text(&out), 0, NULL);
	found = json_array_get(json_object_get(object, "rings"), 0);
	assert_int_equal(json_integer_value(json_object_get(found, "stuck_ns")), 7900000000);
	assert_int_equal(json_integer_value(json_object_get(found, "foreign")), 11);
	assert_int_equal(json_integer_value(json_object_get(found, "unpaired")), 12);
	assert_int_equal(json_integer_value(json_object_get(found, "faults")), 13);
	assert_int_equal(json_integer_value(json_object_get(found, "consumer_bad")), 14);
	json_decref(object);
	close(out.fd);
}

/* On a small terminal: what matters comes first, and what is 0 not at all. */
/* A ledger of any kind that does not close, be it less than it should or more. */
static void every_residual_counts(void **state)
{
	Ringtail__V1__Stat stat = make(6000, 3000000000);
	Ringtail__V1__ExportStat export = RINGTAIL__V1__EXPORT_STAT__INIT, *exports[] = { &export };
	Ringtail__V1__TriggerStat trigger = RINGTAIL__V1__TRIGGER_STAT__INIT, *triggers[] = { &trigger };
	int64_t *const residual[] = {
		&ring.residual, &client.residual, &spool.residual, &export.residual, &trigger.residual,
	};

	(void)state;
	stat.n_export = stat.n_trigger = 1;
	stat.export = exports;
	stat.trigger = triggers;
	assert_true(stat_balanced(&stat));
	for (size_t i = 0; i < sizeof(residual) / sizeof(*residual); i++) {
		*residual[i] = i % 2 ? 1 : -1;
		assert_false(stat_balanced(&stat));
		*residual[i] = 0;
	}
	assert_true(stat_balanced(&stat));
}

static void brief(void **state)
{
	Ringtail__V1__Stat stat = make(6000, 3000000000);
	const char *shown, *ledger, *last;

	(void)state;
	check_out(&out);
	stat_print_brief(&out, &host, &stat, NULL);
	shown = check_text(&out);
	ledger = strstr(shown, "ledger\n");
	last = strstr(shown, "counters\n  batches");
	assert_non_null(ledger);
	assert_true(strstr(shown, "cpu ") < ledger && strstr(shown, "client ") < ledger);
	assert_true(strstr(shown, "durability") > ledger);
	assert_true(last > strstr(shown, "durability"));
	counter.value = 0;
	stat_print_brief(&out, &host, &stat, NULL);
	assert_null(strstr(check_text(&out), "counters"));
	stat_print_text(&out, &host, &stat, NULL);
	assert_non_null(strstr(check_text(&out), "counters\n  batches"));
	close(out.fd);
}

static void json(void **state)
{
	Ringtail__V1__Stat stat = make(6000, 3000000000);
	json_t *object, *found;

	(void)state;
	check_out(&out);
	assert_int_equal(stat_print_json(&out, &stat), 0);
	object = json_loads(check_text(&out), 0, NULL);
	assert_non_null(object);
	found = json_array_get(json_object_get(object, "rings"), 0);
	assert_int_equal(json_integer_value(json_object_get(found, "events")), 6000);
	found = json_array_get(json_object_get(object, "clients"), 0);
	assert_string_equal(json_string_value(json_array_get(json_object_get(found, "probes"), 0)),
			    "syscall:*:call");
	found = json_object_get(json_object_get(object, "counters"), "batches");
	assert_int_equal(json_integer_value(found), 42);
	found = json_array_get(json_object_get(object, "spools"), 0);
	assert_int_equal(json_integer_value(json_object_get(found, "stored")), 5985);
	assert_string_equal(json_string_value(json_object_get(found, "state")), "full");
	found = json_object_get(object, "loss_window_ns");
	assert_int_equal(json_integer_value(found), 1040000000);
	assert_true(json_is_true(json_object_get(object, "balanced")));
	json_decref(object);
	client.residual = -1;
	assert_false(stat_balanced(&stat));
	client.residual = 0;
	spool.residual = -1;
	assert_false(stat_balanced(&stat));
	spool.residual = 0;
	ring.residual = 1;
	assert_false(stat_balanced(&stat));
	client.software = "\xff";
	assert_int_equal(stat_print_json(&out, &stat), -EBADMSG);
	assert_string_equal(check_text(&out), "");
	close(out.fd);
}

static struct fake fake;

/* Asks a fake daemon that says `answer`; the error is for the caller to look at. */
static int ask(const struct maker *hello, const struct maker *answer, bool holds,
	       struct ringtail_error *error)
{
	Ringtail__V1__StatRequest message = RINGTAIL__V1__STAT_REQUEST__INIT;
	struct request *request;
	const uint8_t *body;
	size_t bytes;
	int err;

	fake_start(
		&fake,
		&(struct fake_step){hello->bytes, hello->size, answer->bytes, answer->size, holds},
		1);
	err = request_open(fake.address, -1, &request, error);
	if (!err) {
		assert_string_equal(request_host(request)->source, "replay");
		err = request_send(request, FRAME_STAT_REQUEST, &message.base, error);
		if (!err)
			err = request_wait(request, FRAME_STAT, 50, &body, &bytes, error);
		if (!err) {
			struct arena *arena;
			Ringtail__V1__Stat *stat =
				unpack(&ringtail__v1__stat__descriptor, body, bytes, &arena);

			assert_int_equal(stat->counter[0]->value, 42);
			arena_destroy(arena);
		}
		request_close(request);
	}
	fake_stop(&fake);
	return err;
}

static void requests(void **state)
{
	Ringtail__V1__Stat stat = make(6000, 3000000000);
	struct maker hello, answer;
	struct ringtail_error error;

	(void)state;
	maker_init(&hello);
	maker_init(&answer);
	maker_hello(&hello, 1, 7);
	maker_watermark(&answer, 5, 0, 0);		/* passed over */
	maker_message(&answer, FRAME_STAT, &stat.base);
	assert_int_equal(ask(&hello, &answer, true, &error), 0);

	answer.size = 0;
	assert_int_equal(ask(&hello, &answer, true, &error), -ETIMEDOUT);
	assert_string_equal(error.code, "timeout");
	assert_int_equal(ask(&hello, &answer, false, &error), -ECONNRESET);

	maker_error(&answer, "no-stat", "not today", "come back", 0);
	assert_int_equal(ask(&hello, &answer, true, &error), -EPROTO);
	assert_string_equal(error.code, "no-stat");

	answer.size = 0;
	maker_raw(&answer, FRAME_ERROR, (const uint8_t *)"\x0a\xff", 2);
	assert_int_equal(ask(&hello, &answer, true, &error), -EPROTO);

	answer.size = 0;
	for (unsigned i = 0; i < 20; i++)
		maker_watermark(&answer, 5, 0, 0);
	assert_int_equal(ask(&hello, &answer, true, &error), -EBADMSG);
	assert_string_equal(error.code, "bad-reply");

	answer.size = 0;
	maker_message(&answer, FRAME_STAT, &stat.base);
	answer.bytes[answer.size - 1] ^= 1;
	assert_int_equal(ask(&hello, &answer, true, &error), -EBADMSG);
	answer.bytes[0] ^= 1;
	assert_int_equal(ask(&hello, &answer, true, &error), -EBADMSG);

	hello.size = 0;
	maker_raw(&hello, FRAME_SERVER_HELLO, (const uint8_t *)"\x0a\xff", 2);
	assert_int_equal(ask(&hello, &answer, true, &error), -EBADMSG);
	hello.size = 0;
	maker_hello(&hello, 3, 7);
	assert_int_equal(ask(&hello, &answer, true, &error), -EBADMSG);
	assert_string_equal(error.code, "version-mismatch");
	maker_fini(&hello);
	maker_fini(&answer);
	request_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text), cmocka_unit_test(brief), cmocka_unit_test(beside_the_rings), cmocka_unit_test(json), cmocka_unit_test(requests),
		cmocka_unit_test(every_residual_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
