/*
 * What is acknowledged of frames that were dealt with: of this run by ring, of earlier ones, out
 * of the spool, by CPU and with the run's own name; and where a run or a CPU cannot be told,
 * nothing.
 *
 * Whoever is told is this test: export_earlier_run.py runs the whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/export/ack.h"
#include "proto/limits.h"
#include "tests/lib/failing_memory.h"

#define RINGS		2
#define HELLO_BYTES	8192	/* more than any hello of ours */

static const uint32_t cpu_of[RINGS] = {3, 7};
static const struct run here = {.boot_id = "here", .epoch = 5};

static unsigned told, told_earlier;
static uint64_t told_upto[RINGS], told_epoch, told_seq;
static size_t told_positions;
static uint32_t told_cpu;
static uint8_t told_boot;

static void hear_earlier(const struct cursor *upto)
{
	told_earlier++;
	told_epoch = upto->run.epoch;
	told_boot = upto->run.boot_id[0];
	told_positions = upto->n;
	told_cpu = upto->n ? upto->position[upto->n - 1].cpu : UINT32_MAX;
	told_seq = upto->n ? upto->position[upto->n - 1].seq : 0;
}

/* In place of the fanout's. */
int fanout_ack(struct fanout *fanout, struct subscriber *subscriber, const struct cursor *upto,
	       struct error *error)
{
	(void)fanout, (void)subscriber, (void)error;
	if (!run_equal(&upto->run, &here)) {
		hear_earlier(upto);
		return 0;
	}
	told++;
	for (unsigned i = 0; i < RINGS; i++)
		told_upto[i] = cursor_seq(upto, cpu_of[i], UINT64_MAX);
	return 0;
}

struct fixture {
	struct frame_codec *codec;
	struct stream *stream;
	struct export_ack *ack;
};

static int make(void **state)
{
	static struct fixture fixture;

	fixture.codec = frame_codec_create(1);
	fixture.stream = calloc(1, sizeof(*fixture.stream) +
				   RINGS * sizeof(fixture.stream->ring[0]));
	fixture.ack = export_ack_create(&here, RINGS, fixture.codec);
	fixture.stream->cpu_of = cpu_of;
	fixture.stream->ring[0].seen = 10;
	fixture.stream->ring[1].seen = 20;
	export_ack_begin(fixture.ack, fixture.stream);
	told = told_earlier = 0;
	*state = &fixture;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *fixture = *state;

	export_ack_destroy(fixture->ack);
	frame_codec_destroy(fixture->codec);
	free(fixture->stream);
	return 0;
}

/* That frame is sent, and dealt with. */
static void settle(struct fixture *fixture, struct frame_ref *frame)
{
	struct export_place place;

	assert_non_null(frame);
	place = export_ack_place(fixture->ack, fixture->stream, frame);
	frame_ref_put(frame);
	export_ack_settle(fixture->ack, &place);
}

static void settle_batch(struct fixture *fixture, uint32_t ring, uint32_t cpu, uint64_t end_seq)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 0);

	assert_non_null(frame);
	frame->ring = ring;
	frame->cpu = cpu;
	frame->end_seq = end_seq;
	settle(fixture, frame);
}

static void settle_hello(struct fixture *fixture, uint32_t ring, uint8_t boot, size_t boot_bytes,
			 uint64_t epoch, const char *hostname)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	uint8_t boot_id[16] = {boot};
	struct frame_ref *frame;

	hello.boot_id.data = boot_id;
	hello.boot_id.len = boot_bytes;
	hello.epoch = epoch;
	hello.hostname = (char *)hostname;
	frame = frame_ref_pack(fixture->codec, FRAME_SERVER_HELLO, &hello.base);
	assert_non_null(frame);
	frame->ring = ring;
	settle(fixture, frame);
}

static void test_this_run(void **state)
{
	struct fixture *fixture = *state;

	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told + told_earlier, 0);
	fixture->stream->ring[1].seen = 25;
	settle_batch(fixture, 1, 7, 25);
	settle(fixture, frame_ref_create(FRAME_WATERMARK, 0));
	settle_batch(fixture, RINGS, 7, 99);		/* no ring of ours */
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told, 1);
	assert_int_equal(told_upto[0], 10);
	assert_int_equal(told_upto[1], 25);
	export_ack_tell(fixture->ack, NULL, NULL);		/* nothing is new */
	assert_int_equal(told, 1);
	assert_int_equal(told_earlier, 0);
	/* Another stream begins elsewhere. */
	fixture->stream->ring[0].seen = 40;
	fixture->stream->ring[1].unknown = true;
	export_ack_begin(fixture->ack, fixture->stream);
	fixture->stream->ring[0].seen = 41;
	settle_batch(fixture, 0, 3, 41);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told, 2);
	assert_int_equal(told_upto[0], 41);
	assert_int_equal(told_upto[1], UINT64_MAX);
}

static void test_earlier_runs(void **state)
{
	struct fixture *fixture = *state;

	settle_hello(fixture, UINT32_MAX, 'a', 16, 3, "h");
	settle_batch(fixture, UINT32_MAX, 7, 70);
	settle_batch(fixture, UINT32_MAX, 9, 90);
	settle_batch(fixture, UINT32_MAX, 9, 91);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told_earlier, 1);
	assert_true(told_boot == 'a' && told_epoch == 3 && told_positions == 2);
	assert_true(told_cpu == 9 && told_seq == 91);
	/* The next: what was of the one before is not its own. */
	settle_hello(fixture, UINT32_MAX, 'b', 16, 4, "h");
	settle_batch(fixture, UINT32_MAX, 9, 5);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_true(told_boot == 'b' && told_epoch == 4 && told_positions == 1 && told_seq == 5);
	/* And home: this run's hello says nothing of an earlier one. */
	settle_hello(fixture, 0, 'c', 16, 5, "h");
	settle_batch(fixture, 0, 7, 10);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told_earlier, 2);
	assert_int_equal(told, 1);
}

/* Numbers of a run that has no name would be taken for those of the run before: never told. */
static void test_run_without_name(void **state)
{
	struct fixture *fixture = *state;
	char hostname[HELLO_BYTES], shorter[1000];

	memset(hostname, 'h', sizeof(hostname) - 1);
	hostname[sizeof(hostname) - 1] = '\0';
	settle_batch(fixture, UINT32_MAX, 7, 70);
	settle_hello(fixture, UINT32_MAX, 'a', 16, 3, "h");
	settle_hello(fixture, UINT32_MAX, 'b', 3, 4, "h");
	settle_batch(fixture, UINT32_MAX, 7, 70);
	settle_hello(fixture, UINT32_MAX, 'b', 16, 4, hostname);
	settle_batch(fixture, UINT32_MAX, 7, 70);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told_earlier, 0);
	settle_hello(fixture, UINT32_MAX, 'b', 16, 4, "h");
	settle_batch(fixture, UINT32_MAX, 7, 70);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told_earlier, 1);
	/* One that was compressed has its name all the same. */
	memset(shorter, 'h', sizeof(shorter) - 1);
	shorter[sizeof(shorter) - 1] = '\0';
	settle_hello(fixture, UINT32_MAX, 'c', 16, 4, shorter);
	settle_batch(fixture, UINT32_MAX, 7, 70);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_true(told_earlier == 2 && told_boot == 'c');
}

static void test_cpus_are_bounded(void **state)
{
	struct fixture *fixture = *state;

	settle_hello(fixture, UINT32_MAX, 'a', 16, 3, "h");
	for (uint32_t cpu = 0; cpu < CURSOR_POSITIONS_MAX + 2; cpu++)
		settle_batch(fixture, UINT32_MAX, cpu, cpu + 1);
	export_ack_tell(fixture->ack, NULL, NULL);
	assert_int_equal(told_positions, CURSOR_POSITIONS_MAX);
	assert_int_equal(told_seq, CURSOR_POSITIONS_MAX);
}

static void test_no_memory(void **state)
{
	struct fixture *fixture = *state;
	struct export_ack *ack = NULL;
	unsigned failures = 0;

	for (unsigned n = 0; !ack; n++) {
		assert_true(n < 16);
		allocations_left = n;
		failures_left = 1;
		ack = export_ack_create(&here, RINGS, fixture->codec);
		failures += !ack;
		failures_left = 0;
	}
	assert_int_equal(failures, 3);
	export_ack_destroy(ack);
	export_ack_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_this_run, make, unmake),
		cmocka_unit_test_setup_teardown(test_earlier_runs, make, unmake),
		cmocka_unit_test_setup_teardown(test_run_without_name, make, unmake),
		cmocka_unit_test_setup_teardown(test_cpus_are_bounded, make, unmake),
		cmocka_unit_test_setup_teardown(test_no_memory, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
