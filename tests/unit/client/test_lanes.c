/* test_lanes: the hosts of one stream: each has its own frames, its own end and its own faults. */
#include "tests/unit/client/handle.h"

#include <errno.h>

#include "client/lib/fed.h"
#include "client/lib/lanes.h"
#include "proto/batch_decode.h"

static const struct lanes_wanted everything;
static struct lanes *lanes;

/* How many there are. */
static int decoders;

struct batch_decoder *__real_batch_decoder_create(const struct batch_probe *probe, uint32_t probe_max);
struct batch_decoder *__wrap_batch_decoder_create(const struct batch_probe *probe, uint32_t probe_max);
struct batch_decoder *__wrap_batch_decoder_create(const struct batch_probe *probe, uint32_t probe_max)
{
	decoders++;
	return __real_batch_decoder_create(probe, probe_max);
}

void __real_batch_decoder_destroy(struct batch_decoder *decoder);
void __wrap_batch_decoder_destroy(struct batch_decoder *decoder);
void __wrap_batch_decoder_destroy(struct batch_decoder *decoder)
{
	decoders -= decoder != NULL;
	__real_batch_decoder_destroy(decoder);
}

static void consign(uint32_t lane, const char *host)
{
	Ringtail__V1__Consign message = RINGTAIL__V1__CONSIGN__INIT;

	message.lane = lane;
	message.host = (char *)(host ? host : "");
	maker_message(&stream, FRAME_CONSIGN, &message.base);
}

static void begin_host(uint32_t lane, const char *host)
{
	consign(lane, host);
	maker_hello(&stream, 1, 7);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, (const uint64_t[]){ 0, 0 });
}

static void open_stream(const struct lanes_wanted *wanted)
{
	assert_int_equal(lanes_open(maker_file(&stream, stream.size), "test", wanted, &lanes, &error), 0);
}

/* Up to what is no frame; whatever comes is thrown away. */
static enum lanes_next read_on(void)
{
	enum lanes_next kind;
	size_t lane;

	while ((kind = lanes_next(lanes, 3000, &lane, &error)) == LANES_FRAME) {
		assert_in_range(lane, 0, lanes_count(lanes) - 1);
		while (ringtail_next(lanes_handle(lanes, lane), &item, 0) < RINGTAIL_TIMEOUT)
			;
	}
	return kind;
}

static enum ringtail_kind end_of(size_t lane)
{
	enum ringtail_kind kind;

	while ((kind = ringtail_next(lanes_handle(lanes, lane), &item, 0)) < RINGTAIL_TIMEOUT)
		;
	return kind;
}

static const struct ringtail_totals *totals(size_t lane)
{
	return ringtail_totals(lanes_handle(lanes, lane));
}

static void hosts_take_turns(void **state)
{
	(void)state;
	begin_host(0, "web-1");
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	begin_host(1, "web-2");
	maker_batch(&stream, 0, 0, 1000, 10, 7);
	consign(0, NULL);
	maker_batch(&stream, 0, 5, 2000, 10, 5);
	maker_bye(&stream, "end");
	consign(1, "web-2");			/* its name may stand there again */
	maker_bye(&stream, "end");
	open_stream(&everything);
	assert_int_equal(read_on(), LANES_END);
	assert_int_equal(lanes_count(lanes), 2);
	assert_string_equal(lanes_host(lanes, 1), "web-2");
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(end_of(i), RINGTAIL_END);
		assert_int_equal(totals(i)->events, i ? 7 : 10);
		assert_int_equal(totals(i)->residual, 0);
		assert_int_equal(totals(i)->cut_short, 0);
	}
	lanes_close(lanes);
}

/* A host costs one decoder, however many CPUs it has: those of CPUs of which nothing waits go. */
static void idle_hosts_keep_no_decoders(void **state)
{
	(void)state;
	for (uint32_t lane = 0; lane < 10; lane++) {
		begin_host(lane, (const char[]){ 'a', (char)('0' + lane), '\0' });
		for (uint32_t cpu = 0; cpu < 2; cpu++)
			maker_batch(&stream, cpu, 0, 1000, 10, 5);
		maker_watermark(&stream, 1000000, 5, 5);
		maker_bye(&stream, "end");
	}
	open_stream(&everything);
	assert_int_equal(read_on(), LANES_END);
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(end_of(i), RINGTAIL_END);
		assert_int_equal(totals(i)->events, 10);
	}
	assert_int_equal(decoders, 10);
	lanes_close(lanes);
	assert_int_equal(decoders, 0);
}

static void a_host_that_does_not_end_is_cut_short(void **state)
{
	(void)state;
	begin_host(0, "web-1");
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	begin_host(1, "web-2");
	maker_bye(&stream, "end");
	open_stream(&everything);
	assert_int_equal(read_on(), LANES_END);
	assert_int_equal(end_of(0), RINGTAIL_END);
	assert_int_equal(end_of(1), RINGTAIL_END);
	assert_int_equal(totals(0)->events, 5);
	assert_int_equal(totals(0)->cut_short, 1);
	assert_string_equal(ringtail_last_error(lanes_handle(lanes, 0))->code, "cut-short");
	assert_non_null(strstr(ringtail_last_error(lanes_handle(lanes, 0))->what, "web-1"));
	assert_int_equal(totals(1)->cut_short, 0);
	lanes_close(lanes);
}

/* Of one host; the others go on. */
static void a_frame_that_makes_no_sense_ends_its_host(void **state)
{
	(void)state;
	begin_host(0, "web-1");
	begin_host(1, "web-2");
	maker_raw(&stream, FRAME_BATCH, (const uint8_t[]){ 0xff, 0xff }, 2);
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	consign(0, NULL);
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	maker_bye(&stream, "end");
	open_stream(&everything);
	assert_int_equal(read_on(), LANES_END);
	assert_int_equal(end_of(0), RINGTAIL_END);
	assert_int_equal(totals(0)->events, 5);
	assert_int_equal(end_of(1), RINGTAIL_ERROR);
	assert_string_equal(ringtail_last_error(lanes_handle(lanes, 1))->code, "bad-message");
	assert_non_null(strstr(ringtail_last_error(lanes_handle(lanes, 1))->what, "web-2"));
	assert_false(fed_lacks_selection(lanes_handle(lanes, 1)));
	assert_int_equal(totals(1)->events, 0);
	lanes_close(lanes);
}

/* What comes after it may be anybody's: what each host has is given out, and no more. */
static void check_refused(const char *why)
{
	maker_bye(&stream, "end");
	open_stream(&everything);
	assert_int_equal(read_on(), LANES_FAILED);
	assert_string_equal(error.code, "bad-message");
	assert_non_null(strstr(error.what, why));
	for (size_t i = 0; i < lanes_count(lanes); i++) {
		assert_int_equal(end_of(i), RINGTAIL_END);
		assert_int_equal(totals(i)->cut_short, 1);
	}
	lanes_close(lanes);
	stream.size = 0;
}

static void a_consign_that_makes_no_sense_ends_all(void **state)
{
	char longest[NAME_BYTES_MAX + 1];

	(void)state;
	maker_hello(&stream, 1, 7);
	check_refused("none stands before");
	consign(0, NULL);
	check_refused("no host");
	begin_host(0, "web-1");
	consign(2, "web-2");
	check_refused("no host");
	begin_host(0, "web-1");
	consign(0, "web-2");
	check_refused("another host's");
	consign(0, "web-1\", \"x\": \"");
	check_refused("no host that can be shown");
	consign(0, "\033[2J");
	check_refused("no host that can be shown");
	memset(longest, 'x', sizeof(longest));
	longest[NAME_BYTES_MAX] = '\0';		/* one too long */
	consign(0, longest);
	check_refused("no host that can be shown");
	begin_host(0, "web-1");
	consign(0, NULL);
	stream.bytes[stream.size - 1] ^= 1;
	check_refused("damaged");
	begin_host(0, "web-1");
	maker_raw(&stream, FRAME_CONSIGN, (const uint8_t[]){ 0xff, 0xff }, 2);
	check_refused("does not hold its message");
}

static void what_is_wanted_is_asked_of_each_host(void **state)
{
	static const char *const probe = "syscall:openat:call", *const nowhere = "nowhere:nothing:none";
	struct lanes_wanted wanted = { .probe = &probe, .probes = 1 };

	(void)state;
	begin_host(0, "web-1");
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	maker_bye(&stream, "end");
	begin_host(1, "web-2");
	maker_bye(&stream, "end");
	wanted.filter = "pid ==";
	assert_int_equal(lanes_open(maker_file(&stream, stream.size), "test", &wanted, &lanes, &error), -EINVAL);
	assert_true(error.column > 0);
	wanted.filter = NULL;
	wanted.probe = &nowhere;
	open_stream(&wanted);
	assert_int_equal(read_on(), LANES_END);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(end_of(i), RINGTAIL_ERROR);
		assert_true(fed_lacks_selection(lanes_handle(lanes, i)));
	}
	assert_int_equal(totals(0)->events, 0);
	assert_int_equal(totals(0)->filtered, 5);
	lanes_close(lanes);
}

/* Five events of each host, 10 ns from each other: so many of them are wanted. */
static void check_wanted(const struct lanes_wanted *wanted, uint64_t events)
{
	begin_host(0, "web-1");
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	maker_bye(&stream, "end");
	begin_host(1, "web-2");
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	maker_bye(&stream, "end");
	open_stream(wanted);
	assert_int_equal(read_on(), LANES_END);
	for (size_t i = 0; i < 2; i++) {
		end_of(i);
		assert_int_equal(totals(i)->events, events);
		assert_int_equal(totals(i)->filtered, 5 - events);
		assert_int_equal(totals(i)->residual, 0);
	}
	lanes_close(lanes);
	stream.size = 0;
}

static void a_part_is_wanted_of_each_host(void **state)
{
	struct lanes_wanted since = { .since_ns = MAKER_WALL_NS + 1020 }, until = { .until_ns = MAKER_WALL_NS + 1040 };
	struct lanes_wanted both = { .since_ns = MAKER_WALL_NS + 1020, .until_ns = MAKER_WALL_NS + 1040 };
	struct lanes_wanted filter = { .filter = "pid == 99999999" };

	(void)state;
	check_wanted(&everything, 5);
	check_wanted(&since, 3);
	check_wanted(&until, 4);
	check_wanted(&both, 2);
	check_wanted(&filter, 0);
}

/* It is cut within a frame: that is no end. */
static void a_stream_that_is_cut_has_failed(void **state)
{
	(void)state;
	begin_host(0, "web-1");
	maker_batch(&stream, 0, 0, 1000, 10, 5);
	maker_bye(&stream, "end");
	assert_int_equal(lanes_open(maker_file(&stream, stream.size - 3), "test", &everything, &lanes, &error), 0);
	assert_int_equal(read_on(), LANES_FAILED);
	end_of(0);
	assert_int_equal(totals(0)->cut_short, 1);
	lanes_close(lanes);
}

static void an_interrupt_ends_the_wait(void **state)
{
	int ends[2], quiet[2];
	size_t lane;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(quiet), 0);
	assert_int_equal(lanes_open(quiet[0], "test", &everything, &lanes, &error), 0);
	assert_int_equal(lanes_next(lanes, 0, &lane, &error), LANES_TIMEOUT);
	lanes_set_interrupt(lanes, ends[0]);
	assert_int_equal(write(ends[1], "", 1), 1);
	assert_int_equal(lanes_next(lanes, -1, &lane, &error), LANES_INTERRUPTED);
	lanes_close(lanes);
	close(quiet[1]);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(hosts_take_turns), TEST(idle_hosts_keep_no_decoders), TEST(a_host_that_does_not_end_is_cut_short),
		TEST(a_frame_that_makes_no_sense_ends_its_host), TEST(a_consign_that_makes_no_sense_ends_all),
		TEST(what_is_wanted_is_asked_of_each_host), TEST(a_part_is_wanted_of_each_host),
		TEST(a_stream_that_is_cut_has_failed), TEST(an_interrupt_ends_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
