/*
 * A durable stream between its log and a spool that is an array here: however it lags, however the disk
 * answers, deletes and forgets, and wherever memory ends, each event comes once or is in a gap, in order,
 * and the ledger closes after every step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/lib/failing_memory.h"

#include "daemon/stream/consumers.h"
#include "daemon/stream/catch_up.h"

#include "tests/unit/daemon/small_catalog.h"
#include "tests/unit/daemon/small_spool.h"

#define RINGS		2
#define SEQS		65536
static struct consumer somebody;

static const uint32_t cpu_of[RINGS] = {0, 5};

/* ---- Frames ---------------------------------------------------------------------------------- */

struct fixture {
	struct subscription *subscription;
	struct frame_codec *codec;
	struct stream *stream;
	uint64_t seq[RINGS], quiet[RINGS], known[RINGS], time_ns;
	uint8_t kind[RINGS][SEQS];	/* 'e': an event; 's': skipped without a frame; */
	uint8_t came[RINGS][SEQS];	/* how often it came, or was in a gap */
	uint64_t events, gap_attempts;
	unsigned reads;
};

static void on_read(void *context)
{
	((struct fixture *)context)->reads++;
}

static void open_all(struct fixture *f, uint64_t history_bytes, uint64_t lag_bytes)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct error error;

	memset(f, 0, sizeof(*f));
	allocations_left = failures_left = 0;
	reader_fails = false;
	f->codec = frame_codec_create(1);
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, history_bytes,
					     &f->subscription, &error), 0);
	f->subscription->spool.spool = &disk;
	f->subscription->spool.read = on_read;
	f->subscription->spool.context = f;
	f->subscription->spool.hello = frame_ref_create(FRAME_SERVER_HELLO, 4);
	f->subscription->spool.catalog = frame_ref_create(FRAME_CATALOG, 4);
	f->stream = stream_create(f->subscription, f->codec, cpu_of, lag_bytes, NULL,
				  LOSS_REASON_UNKNOWN);
	f->stream->consumer = &somebody;
}

static void close_all(struct fixture *f)
{
	stream_destroy(f->stream);
	assert_null(reader);
	subscription_destroy(f->subscription);
	frame_codec_destroy(f->codec);
}

static struct frame_ref *make_batch(uint32_t ring, uint32_t cpu, uint64_t first, uint64_t events,
				    size_t bytes)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, bytes);

	memset(frame->data, 0, bytes);
	frame->ring = ring;
	frame->cpu = cpu;
	frame->first_seq = first;
	frame->end_seq = first + events;
	if (bytes)
		frame->events = events;
	else
		frame->skipped = events;
	return frame;
}

static void append_batch(struct fixture *f, unsigned ring, uint64_t events, size_t bytes)
{
	memset(&f->kind[ring][f->seq[ring]], bytes ? 'e' : 's', events);
	subscription_append(f->subscription,
			    make_batch(ring, cpu_of[ring], f->seq[ring], events, bytes));
	f->seq[ring] += events;
	f->quiet[ring] = bytes ? 0 : f->quiet[ring] + events;
}

static void append_watermark(struct fixture *f)
{
	Ringtail__V1__Watermark message = RINGTAIL__V1__WATERMARK__INIT;
	Ringtail__V1__Position position[RINGS], *list[RINGS];
	struct frame_ref *frame;

	for (unsigned i = 0; i < RINGS; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = cpu_of[i];
		position[i].seq = f->seq[i];
		position[i].skipped = f->quiet[i];
		f->quiet[i] = 0;
		list[i] = &position[i];
	}
	message.time_ns = ++f->time_ns;
	message.position = list;
	message.n_position = RINGS;
	frame = frame_ref_pack(f->codec, FRAME_WATERMARK, &message.base);
	frame->time_ns = message.time_ns;
	subscription_append(f->subscription, frame);
}

/* ---- The client ------------------------------------------------------------------------------ */

static void check_ledger(const struct fixture *f)
{
	struct stream_stat stat;

	stream_stat(f->stream, &stat);
	assert_int_equal(stat.residual, 0);
}

/* In order, and each once; what was skipped without a frame may lie between. */
static void client_range(struct fixture *f, unsigned ring, uint64_t first, uint64_t end)
{
	for (uint64_t seq = f->known[ring]; seq < first; seq++)
		assert_int_equal(f->kind[ring][seq], 's');
	assert_true(first >= f->known[ring]);
	for (uint64_t seq = first; seq < end; seq++)
		assert_int_equal(++f->came[ring][seq], 1);
	f->known[ring] = end;
}

static void take(struct fixture *f, const struct frame_ref *frame)
{
	if (frame->type == FRAME_BATCH)
		f->events += frame->events;
	else if (frame->type == FRAME_GAP)
		f->gap_attempts += frame_ref_attempts(frame);
	else
		return;
	client_range(f, frame->ring, frame->first_seq, frame->end_seq);
}

static void on_tell(void *context, struct frame_ref *frame)
{
	struct fixture *f = context;
	struct frame_header header;
	uint8_t raw[1024];
	const uint8_t *body;
	Ringtail__V1__Gap *gap;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header),
			 FRAME_OK);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	if (frame->type == FRAME_GAP) {
		gap = ringtail__v1__gap__unpack(NULL, header.raw_bytes, body);
		client_range(f, gap->cpu == cpu_of[1], gap->first_seq, gap->end_seq);
		f->gap_attempts += gap->end_seq - gap->first_seq;
		ringtail__v1__gap__free_unpacked(gap, NULL);
	}
	frame_ref_put(frame);
}

/* Sends up to n frames; false: there was none. */
static bool send_some(struct fixture *f, unsigned n)
{
	struct frame_ref *frame[8];
	unsigned peeked = stream_peek(f->stream, frame, n < 8 ? n : 8, on_tell, f);

	for (unsigned i = 0; i < peeked; i++) {
		if (i == 0 && n % 2) {		/* in two parts */
			take(f, frame[0]);
			stream_begin(f->stream);
			check_ledger(f);
			stream_ended(f->stream);
		} else {
			take(f, frame[i]);
			stream_sent(f->stream);
		}
		check_ledger(f);
	}
	return peeked;
}

/* Until it stands at the log's end. */
static void send_all(struct fixture *f)
{
	for (unsigned i = 0; i < 100000; i++) {
		bool any;

		catch_up_poke(f->stream);
		answer(FRAMES);
		any = send_some(f, 8);
		if (!any && !stream_has_work(f->stream) && !f->stream->catch_up)
			break;
	}
	assert_null(f->stream->catch_up);
	for (unsigned i = 0; i < RINGS; i++)
		for (uint64_t seq = 0; seq < f->seq[i]; seq++)
			assert_int_equal(f->came[i][seq] || f->kind[i][seq] == 's', 1);
	check_ledger(f);
}

/* ---- Histories ------------------------------------------------------------------------------- */

/* Everything came: memory was too small, the spool was not. */
static void test_falls_back(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_all(f, 4096, 2048);
	for (unsigned i = 0; i < 200; i++) {
		append_batch(f, i % RINGS, 10, 100);
		if (i % 5 == 0)
			append_batch(f, (i + 1) % RINGS, 3, 0);
		if (i % 7 == 0)
			append_watermark(f);
		check_ledger(f);
	}
	assert_non_null(f->stream->catch_up);
	append_watermark(f);
	send_all(f);
	assert_int_equal(f->events, 2000);
	assert_int_equal(f->gap_attempts, 0);
	assert_true(f->reads > 0);
	close_all(f);
	free(f);
}

/*
 * One frame is out in part as memory ends, and there is more of it to send: the disk goes on behind that
 * frame, which the client has once it is out.
 */
static void test_falls_back_in_mid_frame(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct frame_ref *frame[8];

	(void)state;
	for (unsigned ring = 0; ring < RINGS; ring++) {
		open_all(f, 4096, 2048);
		append_batch(f, ring, 10, 100);
		append_batch(f, !ring, 10, 100);
		assert_true(stream_peek(f->stream, frame, 8, on_tell, f) > 0);
		take(f, frame[0]);
		stream_begin(f->stream);
		for (unsigned i = 0; i < 60; i++) {
			append_batch(f, i % RINGS, 10, 100);
			check_ledger(f);
		}
		append_watermark(f);
		assert_non_null(f->stream->catch_up);
		assert_int_equal(stream_place(f->stream, ring), 10);
		assert_int_equal(stream_place(f->stream, !ring), 0);
		stream_ended(f->stream);
		check_ledger(f);
		send_all(f);
		assert_int_equal(f->events, 620);
		assert_int_equal(f->gap_attempts, 0);
		close_all(f);
	}
	free(f);
}

/* The oldest went: a gap of just that, and the rest. */
static void test_deleted(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_all(f, 4096, 2048);
	for (unsigned i = 0; i < 200; i++)
		append_batch(f, i % RINGS, 10, 100);
	append_watermark(f);
	delete_oldest(60);
	send_all(f);
	assert_int_equal(f->gap_attempts, 600);
	assert_int_equal(f->events, 1400);
	close_all(f);
	free(f);
}

/* The disk never got it: what memory has given up is a gap, and the log goes on. */
static void test_stranded(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_all(f, 4096, 2048);
	for (unsigned i = 0; i < 200; i++)
		append_batch(f, i % RINGS, 10, 100);
	append_watermark(f);
	delete_oldest(FRAMES);
	send_all(f);
	assert_true(f->events > 0 && f->gap_attempts > 0);
	assert_int_equal(f->events + f->gap_attempts, 2000);
	close_all(f);
	free(f);
}

/* The disk tells of a skip with the watermark, behind what the log has after it: that comes once. */
static void test_disk_in_another_order(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct frame_ref *skip;

	(void)state;
	open_all(f, 4096, 2048);
	for (unsigned i = 0; i < 60; i++)
		append_batch(f, i % RINGS, 10, 100);
	append_watermark(f);
	assert_non_null(f->stream->catch_up);
	append_batch(f, 0, 5, 0);
	append_batch(f, 1, 10, 100);
	append_watermark(f);
	skip = disk.frame[disk.end - 3];
	disk.frame[disk.end - 3] = disk.frame[disk.end - 2];
	disk.frame[disk.end - 2] = skip;
	append_batch(f, 0, 10, 100);
	append_batch(f, 1, 10, 100);
	append_watermark(f);
	while (send_some(f, 8))
		;
	answer(disk.end - 4);		/* up to the skip */
	send_all(f);
	assert_int_equal(f->events, 630);
	assert_int_equal(f->gap_attempts, 0);
	close_all(f);
	free(f);
}

/* No memory to begin, or no reader: then it lags as others do, and is told of that. */
static void test_cannot_begin(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 3; n++) {
		struct fixture *f = malloc(sizeof(*f));

		open_all(f, 1 << 20, 2048);
		append_batch(f, 0, 10, 1800);
		append_batch(f, 1, 10, 100);
		reader_fails = n == 2;
		allocations_left = n == 2 ? 0 : 2 + n;		/* the frame's, the log's */
		failures_left = n == 2 ? 0 : 1;
		append_batch(f, 0, 10, 1800);
		failures_left = allocations_left = 0;
		reader_fails = false;
		check_ledger(f);
		append_watermark(f);
		send_all(f);
		assert_int_equal(f->events + f->gap_attempts, 30);
		close_all(f);
		free(f);
	}
}

/* Another run of the rings lies before this one, and it did not end well, as is told of that CPU. */
static void open_other_run(struct fixture *f, bool readable, uint32_t ended_cpu)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	uint8_t boot_id[16] = {7};
	struct frame_ref *gap;

	open_all(f, 1 << 20, 1 << 20);
	hello.boot_id.data = boot_id;
	hello.boot_id.len = readable ? sizeof(boot_id) : 3;
	hello.epoch = 3;
	spool_append(&disk, frame_ref_pack(f->codec, FRAME_SERVER_HELLO, &hello.base));
	spool_append(&disk, frame_ref_pack(f->codec, FRAME_CATALOG, &catalog.base));
	spool_append(&disk, make_batch(UINT32_MAX, cpu_of[0], 5000, 20, 100));
	gap = make_batch(UINT32_MAX, ended_cpu, 5020, 0, 10);
	gap->type = FRAME_GAP;
	gap->loss[0].reason = LOSS_REASON_RESTART;
	spool_append(&disk, gap);
	stream_destroy(f->stream);
	f->stream = stream_create(f->subscription, f->codec, cpu_of, 1 << 20, NULL,
				  LOSS_REASON_UNKNOWN);
	f->stream->consumer = &somebody;
	assert_int_equal(catch_up_begin(f->stream, &(struct spool_place){.realtime_ns = 1}), 0);
	append_batch(f, 0, 10, 100);
	append_watermark(f);
}

/* Sends until so many have come, which are of the wanted types, in order. */
static void send_wanted(struct fixture *f, const enum frame_type *wanted, unsigned n)
{
	struct frame_ref *frame[8];
	unsigned came = 0;

	for (unsigned i = 0; i < 100 && came < n; i++) {
		catch_up_poke(f->stream);
		answer(2);
		if (!stream_peek(f->stream, frame, 1, on_tell, f))
			continue;
		assert_int_equal(frame[0]->type, wanted[came++]);
		stream_sent(f->stream);
		check_ledger(f);
	}
	assert_int_equal(came, n);
}

static const enum frame_type other_run[] = {
	FRAME_SERVER_HELLO, FRAME_SUBSCRIBED, FRAME_CATALOG, FRAME_BATCH,
	FRAME_SERVER_HELLO, FRAME_CATALOG, FRAME_SUBSCRIBED, FRAME_GAP, FRAME_BATCH, FRAME_WATERMARK};

/* The gap stands behind the run's hello, also where that CPU has no ring any more. */
static void test_other_run(void **state)
{
	static const uint32_t ended_cpu[] = {0, 9};
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_other_run(f, true, ended_cpu[i]);
		send_wanted(f, other_run, 10);
		assert_int_equal(f->stream->foreign, 20);
		assert_int_equal(f->stream->delivered, 30);
		close_all(f);
	}
	free(f);
}

static void lose_newest_on_disk(void)
{
	frame_ref_put(disk.frame[--disk.end]);
}

/*
 * The disk has lost how a ring began, and knows only from a watermark how far it is: what came before
 * that does not come out of the log behind it.
 */
static void test_ring_known_by_watermark(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct frame_ref *frame[8];

	(void)state;
	open_other_run(f, true, cpu_of[0]);
	lose_newest_on_disk();
	append_batch(f, 1, 37, 100);
	lose_newest_on_disk();
	append_watermark(f);
	send_wanted(f, other_run, 10);
	for (unsigned i = 0; i < 100; i++) {
		catch_up_poke(f->stream);
		answer(2);
		if (!stream_peek(f->stream, frame, 1, on_tell, f))
			continue;
		assert_true(frame[0]->type != FRAME_BATCH || frame[0]->ring != 1);
		stream_sent(f->stream);
		check_ledger(f);
	}
	assert_null(f->stream->catch_up);
	close_all(f);
	free(f);
}

/*
 * Memory ends at any point of that: nothing of another run comes without its hello, nor of this one;
 * what comes is late, and what is lost is a gap.
 */
static void test_other_run_without_memory(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	for (unsigned n = 0; n < 60; n++) {
		bool greeted = false, subscribed = false, home = false;
		struct frame_ref *frame[8];
		unsigned hellos = 0;

		open_other_run(f, true, cpu_of[0]);
		for (unsigned i = 0; i < 60; i++) {
			allocations_left = i < 20 ? n / 3 : 0;
			failures_left = i < 20 ? 1 + n % 3 : 0;
			catch_up_poke(f->stream);
			answer(FRAMES);
			if (!stream_peek(f->stream, frame, 1, on_tell, f))
				continue;
			if (frame[0]->type == FRAME_SERVER_HELLO) {
				home = hellos++;
				greeted = true;
				subscribed = false;
			} else if (frame[0]->type == FRAME_SUBSCRIBED) {
				assert_true(greeted);
				subscribed = true;
			} else if (frame_ref_is_range(frame[0])) {
				assert_true(greeted && subscribed);
				assert_int_equal(frame_ref_is_earlier(frame[0]), !home);
			}
			stream_sent(f->stream);
			check_ledger(f);
		}
		allocations_left = failures_left = 0;
		assert_int_equal(hellos, 2);
		assert_null(f->stream->catch_up);
		assert_int_equal(f->stream->ring[0].seen, 10);
		close_all(f);
	}
	/* It ends while the answer still waits for memory. */
	open_other_run(f, true, cpu_of[0]);
	catch_up_poke(f->stream);
	stream_peek(f->stream, &(struct frame_ref *){NULL}, 1, on_tell, f);
	failures_left = 10;
	answer(FRAMES);
	assert_null(catch_up_get(f->stream->catch_up, 0));
	assert_int_equal(disk.frame[0]->refs, 2);	/* the disk's, and the answer's */
	failures_left = 0;
	close_all(f);
	free(f);
}

/* Its hello is none: what that run has is lost, nobody knows how much, and is told before this one's. */
static void test_nameless_run(void **state)
{
	static const enum frame_type wanted[] = {
		FRAME_SERVER_HELLO, FRAME_CATALOG, FRAME_SUBSCRIBED, FRAME_GAP, FRAME_BATCH,
		FRAME_WATERMARK};
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_other_run(f, false, cpu_of[0]);
	send_wanted(f, wanted, 6);
	assert_int_equal(f->stream->foreign, 0);
	assert_int_equal(f->stream->delivered, 10);
	close_all(f);
	free(f);
}

/* Anything in any order, with memory that ends now and then. */
static void test_random(void **state)
{
	unsigned seed = (unsigned)time(NULL);
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	if (getenv("RINGTAIL_SEED"))
		seed = (unsigned)strtoul(getenv("RINGTAIL_SEED"), NULL, 0);
	printf("seed %u\n", seed);
	for (unsigned history = 0; history < 60; history++) {
		srand(seed + history);
		open_all(f, 4096, 2048);
		for (unsigned step = 0; step < 1500 && disk.end < FRAMES - 2; step++) {
			int what = rand() % 16;

			if (what < 6)
				append_batch(f, (unsigned)rand() % RINGS, 1 + (unsigned)rand() % 8,
					     50 + (size_t)rand() % 200);
			else if (what < 7)
				append_batch(f, (unsigned)rand() % RINGS, 1 + (unsigned)rand() % 8, 0);
			else if (what < 9)
				append_watermark(f);
			else if (what < 12)
				send_some(f, (unsigned)rand() % 8 + 1);
			else if (what < 14)
				catch_up_poke(f->stream);
			else if (rand() % 8 == 0)
				delete_oldest((unsigned)rand() % 30);
			if (rand() % 4 == 0) {
				allocations_left = history % 2 ? (unsigned)rand() % 20 : 0;
				failures_left = history % 2 ? (unsigned)rand() % 3 : 0;
				answer((unsigned)rand() % 30);
				allocations_left = failures_left = 0;
			}
			check_ledger(f);
		}
		append_watermark(f);
		send_all(f);
		close_all(f);
	}
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_falls_back),
		cmocka_unit_test(test_falls_back_in_mid_frame),
		cmocka_unit_test(test_deleted),
		cmocka_unit_test(test_stranded),
		cmocka_unit_test(test_disk_in_another_order),
		cmocka_unit_test(test_cannot_begin),
		cmocka_unit_test(test_other_run),
		cmocka_unit_test(test_ring_known_by_watermark),
		cmocka_unit_test(test_other_run_without_memory),
		cmocka_unit_test(test_nameless_run),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
