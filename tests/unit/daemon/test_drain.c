/*
 * One ring on its way through a worker: records written by ring_writer come out as batches that decode
 * to the same, for several subscriptions at once, with threads, losses, bad records and attachments.
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

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/collect/drain.h"
#include "daemon/collect/redaction.h"
#include "daemon/base/log.h"
#include "daemon/ring/writer.h"
#include "proto/batch_decode.h"
#include "tests/unit/daemon/small_catalog.h"

#define SUBSCRIPTIONS 2

struct received {
	uint64_t seq;			/* attempts told of so far */
	uint64_t events, losses, lost, strings, ranges;
	uint64_t counted;		/* events, and those that they stand for */
	uint64_t sum;			/* of the events' results */
	char comm[16];			/* of the last event's thread */
	uint64_t time_ns, began_ns;	/* of the last event; where its batch's times begin */
	uint32_t reason;		/* of the last loss */
	bool named_target;		/* a thread that a field names came along */
};

struct fixture {
	struct ring_writer *writer;
	struct drain drain;
	struct probe_table probes;
	struct frame_codec *codec;
	struct batcher_spec spec[SUBSCRIPTIONS];
	struct received received[SUBSCRIPTIONS];
	struct batch_probe batch_probe[RT_PROBE_MAX];
};

static const char *expected_text = "/etc/passwd";

static void receive_item(struct fixture *f, struct received *received,
			 const struct batch_decoder *decoder, const struct batch_item *item)
{
	(void)f;
	if (item->kind == BATCH_LOSS) {
		received->losses++;
		received->lost += item->loss.count;
		received->reason = item->loss.reason;
		return;
	}
	received->events++;
	received->counted += item->counts ? item->counts->events : 1;
	received->time_ns = item->event.time_ns;
	memcpy(received->comm, item->thread->comm, sizeof(received->comm));
	if (item->event.has_duration)
		received->sum += item->event.field[1];
	if (item->event.probe == RT_PROBE_SCHED_SWITCH)
		received->named_target |=
			batch_decode_thread(decoder, (uint32_t)item->event.field[2]) != NULL;
	for (size_t i = 0; i < item->attachments; i++) {
		assert_int_equal(item->attachment[i].arg, 3);	/* filename: duration, ret, dfd, it */
		assert_int_equal(item->attachment[i].text_bytes, strlen(expected_text));
		assert_memory_equal(item->attachment[i].text, expected_text, strlen(expected_text));
		received->strings++;
	}
}

static bool on_frame(void *context, uint32_t subscription, struct frame_ref *frame)
{
	struct fixture *f = context;
	struct received *received = &f->received[subscription];
	struct batch_decoder *decoder;
	struct batch_summary summary;
	struct frame_header header;
	struct batch_item item;
	const uint8_t *body;
	uint8_t *raw;

	assert_int_equal(frame->first_seq, received->seq);
	assert_int_equal(frame->end_seq - frame->first_seq,
			 frame->events + frame->skipped + frame_ref_losses(frame));
	received->seq = frame->end_seq;
	if (!frame->bytes) {
		received->ranges++;
		frame_ref_put(frame);
		return true;
	}
	assert_int_equal(frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header),
			 FRAME_OK);
	raw = malloc(header.raw_bytes);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	decoder = batch_decoder_create(f->batch_probe, RT_PROBE_MAX);
	assert_int_equal(batch_decode_open(decoder, body, header.raw_bytes, &summary), 0);
	assert_int_equal(summary.first_seq, frame->first_seq);
	assert_int_equal(summary.end_seq, frame->end_seq);
	assert_int_equal(summary.counted, frame->events);
	received->began_ns = summary.time_ns;
	while (batch_decode_next(decoder, &item) != BATCH_END) {
		if (item.kind == BATCH_ERROR)
			fail_msg("%s", batch_decode_error(decoder));
		receive_item(f, received, decoder, &item);
	}
	batch_decoder_destroy(decoder);
	free(raw);
	frame_ref_put(frame);
	return true;
}

static void open_all(struct fixture *f, uint64_t ring_bytes)
{
	static const char *const glob[SUBSCRIPTIONS] = {"*:*:*", "syscall:openat:call"};
	struct ring_writer_config config = {.cpu = 2, .ring_bytes = ring_bytes,
					    .policy = RT_POLICY_DROP, .counts = true};
	struct ring_handle source;
	struct error error;

	memset(f, 0, sizeof(*f));
	f->codec = frame_codec_create(1);
	assert_int_equal(probe_table_init(&f->probes, small_catalog_get(), &error), 0);
	for (unsigned i = 0; i < RT_PROBE_MAX; i++)
		f->batch_probe[i] = (struct batch_probe){
			.fields = f->probes.probe[i].fields,
			.has_duration = f->probes.probe[i].has_duration,
			.known = f->probes.probe[i].known,
		};
	assert_int_equal(ring_writer_create(&config, &f->writer, &error), 0);
	ring_writer_describe(f->writer, &source);
	assert_int_equal(drain_init(&f->drain, 0, &source, &f->probes, &error), 0);
	for (uint32_t i = 0; i < SUBSCRIPTIONS; i++) {
		struct batcher_config batcher = {
			.spec = &f->spec[i],
			.threads = f->drain.threads,
			.codec = f->codec,
			.sink = on_frame,
			.context = f,
			.subscription = i,
			.cpu = 2,
		};

		f->spec[i].flags = i == 1 ? RT_FLAG_STRINGS : 0;
		assert_int_equal(probe_set_add_glob(&f->spec[i].probes, glob[i],
						    small_catalog_get(), &error), 0);
		assert_int_equal(drain_add(&f->drain, i, batcher_create(&batcher)), 0);
	}
}

static void close_all(struct fixture *f)
{
	drain_fini(&f->drain);
	ring_writer_destroy(f->writer);
	frame_codec_destroy(f->codec);
}

static int write_record(struct fixture *f, uint16_t probe, uint32_t tid, const uint64_t *payload,
			uint32_t words, const struct ring_writer_attachment *attachment)
{
	struct ring_writer_record record = {
		.probe = probe,
		.tid = tid,
		.payload = payload,
		.words = words,
		.attachment = attachment,
		.attachments = attachment != NULL,
	};

	return ring_writer_write(f->writer, &record);
}

static void introduce(struct fixture *f, uint32_t tid, const char *comm, uint32_t flags)
{
	struct rt_thread thread = {.pid = tid, .flags = flags};

	memcpy(thread.comm, comm, strlen(comm));
	write_record(f, RT_PROBE_THREAD, tid, (const uint64_t *)&thread, sizeof(thread) / 8, NULL);
}

static void read_all(struct fixture *f)
{
	while (drain_read(&f->drain, 1000))
		;
	drain_flush(&f->drain, UINT64_MAX);
}

static void test_two_subscriptions(void **state)
{
	static const struct ring_writer_attachment path = {
		.kind = RT_ATTACH_STRING, .arg = 1, .bytes = 11, .data = "/etc/passwd"};
	const uint64_t call[] = {1000, 3, 0, 0x1000, 0, 0}, change[] = {120, 1, 77, 120};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	introduce(&f, 77, "target", 0);
	introduce(&f, 10, "sh", 0);
	for (unsigned i = 0; i < 100; i++) {
		write_record(&f, SMALL_OPENAT, 10, call, 6, &path);
		write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
		write_record(&f, RT_PROBE_SCHED_SWITCH, 10, change, 4, NULL);
	}
	introduce(&f, 10, "renamed", 0);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.received[0].events, 301);
	assert_int_equal(f.received[0].sum, 201 * 3);
	assert_int_equal(f.received[0].strings, 0);	/* it did not ask for them */
	assert_true(f.received[0].named_target);
	assert_string_equal(f.received[0].comm, "renamed");
	assert_int_equal(f.received[1].events, 100);
	assert_int_equal(f.received[1].strings, 100);
	assert_string_equal(f.received[1].comm, "sh");
	assert_int_equal(f.received[0].seq, 304);
	assert_int_equal(f.received[1].seq, 304);
	assert_int_equal(f.drain.events, 301);
	assert_int_equal(f.drain.meta, 3);
	/* Only what the second does not want: it is told by a range without a frame. */
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.received[1].ranges, 1);
	assert_int_equal(f.received[1].seq, 305);
	close_all(&f);
}

static void test_batches_fill(void **state)
{
	const uint64_t call[] = {1000, 1};
	uint64_t read = counter_read(COUNTER_records_read), encoded = counter_read(COUNTER_events_encoded);
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 22);
	introduce(&f, 10, "sh", 0);
	for (unsigned i = 0; i < 50000; i++)
		assert_int_equal(write_record(&f, SMALL_GETPPID, 10, call, 2, NULL), 0);
	read_all(&f);
	assert_int_equal(counter_read(COUNTER_records_read), read + 50001);
	assert_int_equal(counter_read(COUNTER_events_encoded), encoded + 50000);
	assert_int_equal(f.received[0].events, 50000);
	assert_int_equal(f.received[0].sum, 50000);
	assert_int_equal(f.received[0].seq, 50001);
	close_all(&f);
}

static void test_many_threads(void **state)
{
	const uint64_t call[] = {1000, 1};
	uint64_t unknown = counter_read(COUNTER_threads_unknown);
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 22);
	for (uint32_t tid = 1; tid <= 5000; tid++) {
		introduce(&f, tid, "many", 0);
		write_record(&f, SMALL_GETPPID, tid, call, 2, NULL);
		introduce(&f, tid, "many", RT_THREAD_EXITED);
	}
	write_record(&f, SMALL_GETPPID, 1, call, 2, NULL);	/* gone: nobody knows it */
	read_all(&f);
	assert_int_equal(f.received[0].events, 5001);
	assert_string_equal(f.received[0].comm, "");
	assert_int_equal(counter_read(COUNTER_threads_unknown), unknown + 1);
	/* Nor the one that ran last, once it has ended. */
	introduce(&f, 9, "last", 0);
	write_record(&f, SMALL_GETPPID, 9, call, 2, NULL);
	introduce(&f, 9, "last", RT_THREAD_EXITED);
	write_record(&f, SMALL_GETPPID, 9, call, 2, NULL);
	read_all(&f);
	assert_string_equal(f.received[0].comm, "");
	assert_int_equal(counter_read(COUNTER_threads_unknown), unknown + 2);
	assert_true(thread_table_size(f.drain.threads) < 10);
	close_all(&f);
}

static void test_losses_are_placed(void **state)
{
	const uint64_t call[] = {1000, 1};
	struct fixture f;
	uint64_t written = 0, refused = 0;

	(void)state;
	open_all(&f, RT_RING_BYTES_MIN);
	introduce(&f, 10, "sh", 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 1000; i++)
			write_record(&f, SMALL_GETPPID, 10, call, 2, NULL) ? refused++ : written++;
		read_all(&f);
	}
	assert_true(refused > 0);
	for (unsigned i = 0; i < SUBSCRIPTIONS; i++) {
		assert_int_equal(f.received[i].lost, refused);
		assert_int_equal(f.received[i].losses, 5);
		assert_int_equal(f.received[i].seq, 1 + written + refused);
	}
	assert_int_equal(f.received[0].events, written);
	/* Who comes now begins behind all of it. */
	assert_int_equal(f.drain.seq, 1 + written + refused);
	/* Each has the reason that the producer gave it. */
	assert_int_equal(f.received[0].reason, LOSS_REASON_RING_FULL);
	ring_writer_lose(f.writer, RT_LOST_NEST, 3);
	read_all(&f);
	assert_int_equal(f.received[0].lost, refused + 3);
	assert_int_equal(f.received[0].reason, LOSS_REASON_NEST);
	close_all(&f);
}

static void lose_of(struct fixture *f, struct rt_loss loss)
{
	write_record(f, RT_PROBE_LOSS, 0, (const uint64_t *)&loss, RT_LOSS_WORDS, NULL);
	read_all(f);
}

/* Of a known probe: who did not ask for it has lost nothing. */
static void test_a_loss_of_a_known_probe_is_of_those_who_asked(void **state)
{
	const struct rt_loss of_switch = {RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_SWITCH, RT_LOST_REFUSED};
	const struct rt_loss of_entry = {SMALL_OPENAT_ENTRY, SMALL_OPENAT_ENTRY, RT_LOST_REFUSED};
	const struct rt_loss of_call = {SMALL_GETPPID, SMALL_GETPPID, RT_LOST_REFUSED};
	const struct rt_loss of_any = {RT_PROBE_SYSCALL_CALL, RT_PROBE_MADE - 1, RT_LOST_NEST};
	const struct rt_loss of_none = {RT_PROBE_MADE, RT_PROBE_MADE, RT_LOST_REFUSED};
	const uint64_t call[] = {1000, 1};
	struct fixture f;

	(void)state;
	open_all(&f, RT_RING_BYTES_MIN);
	introduce(&f, 10, "sh", 0);
	lose_of(&f, of_switch);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	lose_of(&f, of_entry);
	assert_int_equal(f.received[0].lost, 2);
	assert_int_equal(f.received[1].lost, 0);
	lose_of(&f, of_call);
	assert_int_equal(f.received[0].lost, 3);
	lose_of(&f, of_none);
	assert_int_equal(f.received[0].lost, 3);
	assert_int_equal(f.received[0].reason, LOSS_REASON_REFUSED);
	lose_of(&f, of_any);
	assert_int_equal(f.received[0].lost, 4);
	assert_int_equal(f.received[0].reason, LOSS_REASON_NEST);
	assert_int_equal(f.received[1].lost, 1);
	/* Each is one attempt, for all; and counted, whoever asked. */
	for (unsigned i = 0; i < SUBSCRIPTIONS; i++)
		assert_int_equal(f.received[i].seq, 7);
	assert_int_equal(f.received[0].events, 1);
	assert_int_equal(f.drain.named[RT_LOST_REFUSED], 4);
	assert_int_equal(f.drain.named[RT_LOST_NEST], 1);
	assert_int_equal(f.drain.events, 1);
	assert_int_equal(f.drain.meta, 1);
	assert_int_equal(f.drain.bad, 0);
	close_all(&f);
}

/* It is no loss of a probe, but a record that nobody understands. */
static void test_a_bad_loss_is_a_bad_record(void **state)
{
	static const struct rt_loss bad[] = {
		{SMALL_GETPPID, SMALL_GETPPID - 1, RT_LOST_REFUSED},
		{SMALL_GETPPID, RT_PROBE_MAX, RT_LOST_REFUSED},
		{SMALL_GETPPID, SMALL_GETPPID, RT_LOST_REASONS},
		{SMALL_GETPPID, SMALL_GETPPID, RT_LOST_REASONS - 1},
	};
	const uint64_t longer[] = {0, 0};
	struct fixture f;

	(void)state;
	open_all(&f, RT_RING_BYTES_MIN);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		lose_of(&f, bad[i]);
		assert_int_equal(f.drain.bad, i + 1);
	}
	write_record(&f, RT_PROBE_LOSS, 0, NULL, 0, NULL);
	write_record(&f, RT_PROBE_LOSS, 0, longer, 2, NULL);
	read_all(&f);
	assert_int_equal(f.drain.bad, 6);
	for (unsigned i = 0; i < SUBSCRIPTIONS; i++)
		assert_int_equal(f.received[i].lost, 6);
	assert_int_equal(f.received[0].reason, LOSS_REASON_BAD_RECORD);
	close_all(&f);
}

/* What a subscription has in hand when it goes is sent; who stays goes on. */
static void test_removed_with_a_batch_in_hand(void **state)
{
	const uint64_t call[] = {1000, 3, 0, 0, 0, 0};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	for (unsigned i = 0; i < 10; i++)
		write_record(&f, SMALL_OPENAT, 10, call, 6, NULL);
	assert_int_equal(drain_read(&f.drain, 1000), 10);
	assert_int_equal(f.received[0].events, 0);
	drain_remove(&f.drain, 0);
	assert_int_equal(f.received[0].events, 10);
	assert_int_equal(f.received[0].seq, 10);
	write_record(&f, SMALL_OPENAT, 10, call, 6, NULL);
	read_all(&f);
	assert_int_equal(f.received[0].events, 10);
	assert_int_equal(f.received[1].events, 11);
	assert_int_equal(f.received[1].seq, 11);
	close_all(&f);
}

/* Of subscription 1, which it takes the place of, how many calls of openat there are. */
static struct batcher_config ask_how_many(struct fixture *f, struct batcher_spec *spec, struct question **question)
{
	const struct question_request request = {.of = ""};
	struct error error;

	assert_int_equal(probe_set_add_glob(&spec->probes, "syscall:openat:call", small_catalog_get(), &error), 0);
	assert_int_equal(question_create(&request, &spec->probes, small_catalog_get(), question, &error), 0);
	spec->question = *question;
	drain_remove(&f->drain, 1);
	return (struct batcher_config){
		.spec = spec, .threads = f->drain.threads, .codec = f->codec, .sink = on_frame, .context = f,
		.subscription = 1, .cpu = 2,
	};
}

/* A question of how many calls there were comes, and goes, beside a stream of all. */
static void test_counted_instead_of_recorded(void **state)
{
	const uint64_t call[] = {1000, 3, 0, 0, 0, 0};
	struct question *question = NULL;
	struct batcher_spec spec = {0};
	struct batcher_config config;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	config = ask_how_many(&f, &spec, &question);
	ring_writer_count(f.writer, SMALL_OPENAT, 5, 0);	/* of nobody who asks now */
	write_record(&f, SMALL_OPENAT, 10, call, 6, NULL);
	assert_int_equal(drain_read(&f.drain, 1000), 1);
	assert_int_equal(drain_add(&f.drain, 1, batcher_create(&config)), 0);
	f.received[1] = (struct received){.seq = f.drain.seq};
	assert_int_equal(f.drain.seq, 6);
	ring_writer_count(f.writer, SMALL_OPENAT, 10, 4);
	ring_writer_count(f.writer, SMALL_READ, 99, 0);
	write_record(&f, SMALL_OPENAT, 10, call, 6, NULL);
	assert_int_equal(drain_read(&f.drain, 1000), 1);
	drain_take_counted(&f.drain, clock_monotonic());
	drain_take_counted(&f.drain, clock_monotonic());
	drain_flush(&f.drain, UINT64_MAX);
	assert_int_equal(f.drain.seq, 21);
	assert_int_equal(f.drain.events, 21);
	assert_int_equal(f.received[0].seq, 21);
	assert_int_equal(f.received[0].events, 2);
	assert_int_equal(f.received[1].seq, 21);
	assert_int_equal(f.received[1].counted, 15);
	ring_writer_count(f.writer, SMALL_OPENAT, 1, 0);
	drain_remove(&f.drain, 1);
	assert_int_equal(f.drain.plain_batchers, 0);
	ring_writer_count(f.writer, SMALL_OPENAT, 50, 0);
	drain_take_counted(&f.drain, clock_monotonic());
	assert_int_equal(f.drain.seq, 21);
	close_all(&f);
	question_destroy(question);
}

/* Whoever reads next goes on behind what was taken, though nothing was read since; what was counted meanwhile is nobody's. */
static void test_the_next_one_goes_on_behind_what_was_counted(void **state)
{
	const uint64_t call[] = {1000, 3, 0, 0, 0, 0};
	struct question *question = NULL;
	struct batcher_spec spec = {0};
	struct batcher_config config, all;
	struct ring_handle source;
	struct error error;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	ring_reader_set_epoch(f.drain.reader, 9);
	config = ask_how_many(&f, &spec, &question);
	all = config;
	all.spec = &f.spec[0];
	all.subscription = 0;
	assert_int_equal(drain_add(&f.drain, 1, batcher_create(&config)), 0);
	write_record(&f, SMALL_OPENAT, 10, call, 6, NULL);
	assert_int_equal(drain_read(&f.drain, 1000), 1);
	ring_writer_count(f.writer, SMALL_OPENAT, 6, 0);
	drain_take_counted(&f.drain, clock_monotonic());
	assert_int_equal(f.drain.seq, 7);
	assert_int_equal(f.drain.events, 7);
	drain_fini(&f.drain);
	ring_writer_count(f.writer, SMALL_OPENAT, 30, 0);
	ring_writer_describe(f.writer, &source);
	assert_int_equal(drain_init(&f.drain, 0, &source, &f.probes, &error), 0);
	assert_int_equal(f.drain.seq, 7);
	all.threads = f.drain.threads;
	assert_int_equal(drain_add(&f.drain, 0, batcher_create(&all)), 0);
	f.received[0] = (struct received){.seq = 7};
	drain_take_counted(&f.drain, clock_monotonic());
	drain_flush(&f.drain, UINT64_MAX);
	assert_int_equal(f.drain.seq, 37);
	assert_int_equal(f.received[0].seq, 37);
	assert_int_equal(f.received[0].events, 0);
	close_all(&f);
	question_destroy(question);
}

/* Nothing says when it was: no record has come yet, and one is unfinished. */
static void test_counts_wait_for_a_time(void **state)
{
	struct question *question = NULL;
	struct batcher_spec spec = {0};
	struct batcher_config config;
	struct ring_writer_slot slot;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	config = ask_how_many(&f, &spec, &question);
	assert_int_equal(drain_add(&f.drain, 1, batcher_create(&config)), 0);
	assert_int_equal(ring_writer_reserve(f.writer, 6, 0, &slot), 0);
	ring_writer_count(f.writer, SMALL_OPENAT, 3, 0);
	drain_take_counted(&f.drain, clock_monotonic());
	assert_int_equal(f.drain.seq, 0);
	ring_writer_commit(f.writer, &slot, &(struct ring_writer_record){
		.probe = SMALL_OPENAT, .tid = 10, .payload = (const uint64_t[6]){1000, 3}, .words = 6,
	});
	assert_int_equal(drain_read(&f.drain, 1000), 1);
	drain_take_counted(&f.drain, clock_monotonic());
	drain_flush(&f.drain, UINT64_MAX);
	assert_int_equal(f.drain.seq, 4);
	assert_int_equal(f.received[1].counted, 4);
	close_all(&f);
	question_destroy(question);
}

static void test_bad_records(void **state)
{
	const uint64_t word[6] = {0};
	uint64_t bad = counter_read(COUNTER_records_bad);
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	write_record(&f, RT_PROBE_MAX + 5, 10, word, 1, NULL);		/* no such probe */
	write_record(&f, RT_PROBE_SYSCALL_CALL + 900, 10, word, 2, NULL);
	write_record(&f, SMALL_OPENAT, 10, word, 3, NULL);		/* too short */
	write_record(&f, RT_PROBE_THREAD, 10, word, 1, NULL);
	write_record(&f, SMALL_GETPPID, 10, word, 2, NULL);
	read_all(&f);
	assert_int_equal(f.drain.bad, 4);
	assert_int_equal(counter_read(COUNTER_records_bad), bad + 4);
	assert_int_equal(f.received[0].events, 1);
	assert_int_equal(f.received[0].lost, 4);
	assert_int_equal(f.received[0].seq, 5);
	close_all(&f);
}

static void write_text(struct fixture *f, uint64_t id, uint32_t bytes, uint32_t words)
{
	uint64_t record[200] = {0};
	struct rt_text *text = (void *)record;

	text->id = id;
	text->bytes = bytes;
	memset(text->data, 'x', (words - 2) * 8);
	assert_int_equal(write_record(f, RT_PROBE_TEXT, 10, record, words, NULL), 0);
}

/* What an id stands for is the ring's own; one that is not whole, or too long, is no such record. */
static void test_texts(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	write_text(&f, 5, 8, 3);
	write_text(&f, 6, RT_TEXT_BYTES_MAX, 2 + RT_TEXT_BYTES_MAX / 8);
	read_all(&f);
	assert_int_equal(f.drain.meta, 2);
	assert_int_equal(f.drain.bad, 0);
	assert_int_equal(f.received[0].seq, 2);
	assert_int_equal(f.received[0].lost, 0);
	assert_int_equal(thread_table_text(f.drain.threads, 5)->bytes, 8);
	assert_int_equal(thread_table_text(f.drain.threads, 6)->bytes, RT_TEXT_BYTES_MAX);
	write_text(&f, 7, 9, 3);
	write_text(&f, 8, RT_TEXT_BYTES_MAX + 8, 3 + RT_TEXT_BYTES_MAX / 8);
	read_all(&f);
	assert_int_equal(f.drain.bad, 2);
	assert_int_equal(f.received[0].lost, 2);
	assert_int_equal(f.received[0].seq, 4);
	assert_null(thread_table_text(f.drain.threads, 7));
	assert_null(thread_table_text(f.drain.threads, 8));
	close_all(&f);
}

static void write_path(struct fixture *f, uint64_t id, const char *path)
{
	uint64_t record[8] = {0};
	struct rt_text *text = (void *)record;

	text->id = id;
	text->bytes = (uint32_t)strlen(path);
	memcpy(text->data, path, text->bytes);
	assert_int_equal(write_record(f, RT_PROBE_TEXT, 10, record, 8, NULL), 0);
}

static void check_text(struct fixture *f, uint64_t id, const char *want)
{
	const struct batch_text *text = thread_table_text(f->drain.threads, id);

	assert_non_null(text);
	assert_int_equal(text->bytes, strlen(want));
	assert_memory_equal(text->data, want, text->bytes);
}

static bool none_is_made(void *context, const char *glob)
{
	(void)context, (void)glob;
	return false;
}

static struct redaction *make_rule(const char *rule)
{
	char *const rules[] = {(char *)rule};
	struct redaction *redaction;
	struct error error = {0};

	if (redaction_create(rules, 1, small_catalog_get(), none_is_made, NULL, &redaction, &error))
		fail_msg("%s", error.what);
	return redaction;
}

/* What was learnt before there was a rule is hidden from then on, of a thread that goes on, too. */
static void test_rule_hides_what_is_known(void **state)
{
	struct redaction *redaction = make_rule("* * */secret*");
	const uint64_t call[] = {1000, 1};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	introduce(&f, 10, "a/secret", 0);
	write_path(&f, RT_TEXT_EXE | 1, "/opt/secret");
	write_path(&f, 2, "/opt/secret");
	write_path(&f, 3, "/opt/shown");
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_string_equal(f.received[0].comm, "a/secret");
	check_text(&f, 2, "/opt/secret");
	drain_set_redaction(&f.drain, redaction);
	check_text(&f, RT_TEXT_EXE | 1, REDACTED_TEXT);
	check_text(&f, 2, REDACTED_TEXT);
	check_text(&f, 3, "/opt/shown");
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_string_equal(f.received[0].comm, REDACTED_TEXT);
	close_all(&f);
	redaction_destroy(redaction);
}

/* A batch that is in hand when the rule comes has the name already: what joins it is of one that is hidden. */
static void test_rule_hides_in_a_batch_in_hand(void **state)
{
	struct redaction *redaction = make_rule("* * */secret*");
	const uint64_t call[] = {1000, 1};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	introduce(&f, 10, "a/secret", 0);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	assert_int_equal(drain_read(&f.drain, 1000), 2);
	assert_int_equal(f.received[0].events, 0);
	drain_set_redaction(&f.drain, redaction);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.received[0].events, 2);
	assert_string_equal(f.received[0].comm, REDACTED_TEXT);
	close_all(&f);
	redaction_destroy(redaction);
}

/* A filter that passed a thread by its name is asked anew once the name is hidden, though no other has come between. */
static void test_rule_hides_from_a_filter(void **state)
{
	struct redaction *redaction = make_rule("* * */secret*");
	const uint64_t call[] = {1000, 1};
	struct filter *filter;
	struct error error;
	struct fixture f;
	struct batcher_config batcher = {.spec = &f.spec[0], .sink = on_frame, .context = &f, .cpu = 2};

	(void)state;
	open_all(&f, 1 << 20);
	drain_remove(&f.drain, 0);
	assert_int_equal(filter_compile("comm == \"a/secret\"", small_catalog_get(), &filter, &error), 0);
	f.spec[0].filter = filter;
	batcher.threads = f.drain.threads;
	batcher.codec = f.codec;
	assert_int_equal(drain_add(&f.drain, 0, batcher_create(&batcher)), 0);
	introduce(&f, 10, "a/secret", 0);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.received[0].events, 1);
	drain_set_redaction(&f.drain, redaction);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.received[0].events, 1);
	close_all(&f);
	filter_destroy(filter);
	redaction_destroy(redaction);
}

/* What comes after there is a rule: the names of threads, and what events carry; each that is hidden is counted. */
static void test_rule_hides_what_comes(void **state)
{
	struct redaction *redaction = make_rule("* * */secret*");
	uint64_t redacted = counter_read(COUNTER_texts_redacted);
	const struct ring_writer_attachment path = {.kind = RT_ATTACH_STRING, .arg = 1, .data = "/etc/passwd", .bytes = 11},
					    hidden = {.kind = RT_ATTACH_STRING, .arg = 1, .data = "/etc/secret", .bytes = 11};
	const uint64_t open[] = {1000, 3, 0, 0, 0, 0};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	drain_set_redaction(&f.drain, redaction);
	introduce(&f, 10, "a/secret", 0);
	write_path(&f, RT_TEXT_EXE | 1, "/opt/secret");
	write_record(&f, SMALL_OPENAT, 10, open, 6, &path);
	read_all(&f);
	assert_string_equal(f.received[0].comm, REDACTED_TEXT);
	assert_int_equal(f.received[1].strings, 1);
	assert_int_equal(counter_read(COUNTER_texts_redacted) - redacted, 2);
	expected_text = REDACTED_TEXT;
	write_record(&f, SMALL_OPENAT, 10, open, 6, &hidden);
	read_all(&f);
	expected_text = "/etc/passwd";
	assert_int_equal(f.received[1].strings, 2);
	assert_int_equal(counter_read(COUNTER_texts_redacted) - redacted, 3);
	close_all(&f);
	redaction_destroy(redaction);
}

static void test_rule_for_exe_shows_cgroups(void **state)
{
	struct redaction *redaction = make_rule("* exe /opt/*");
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	drain_set_redaction(&f.drain, redaction);
	write_path(&f, RT_TEXT_EXE | 1, "/opt/a");
	write_path(&f, 2, "/opt/a");
	read_all(&f);
	check_text(&f, RT_TEXT_EXE | 1, REDACTED_TEXT);
	check_text(&f, 2, "/opt/a");
	close_all(&f);
	redaction_destroy(redaction);
}

/* A batch's times begin where the one before ended; and those of who comes later, where the ring is. */
static void test_times_go_on(void **state)
{
	const uint64_t call[] = {1000, 1};
	struct batcher_config config;
	struct fixture f;
	uint64_t last_ns;

	(void)state;
	open_all(&f, 1 << 20);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	last_ns = f.received[0].time_ns;
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.received[0].began_ns, last_ns);
	last_ns = f.received[0].time_ns;
	drain_remove(&f.drain, 1);
	config = (struct batcher_config){.spec = &f.spec[0], .threads = f.drain.threads, .codec = f.codec,
					 .sink = on_frame, .context = &f, .subscription = 1, .cpu = 2};
	f.received[1] = (struct received){.seq = 2};
	assert_int_equal(drain_add(&f.drain, 1, batcher_create(&config)), 0);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.received[1].events, 1);
	assert_int_equal(f.received[1].began_ns, last_ns);
	close_all(&f);
}

/* An earlier producer's is shorter: the ring's next record is no part of it. */
static void test_shortest_thread_record(void **state)
{
	const uint64_t call[] = {1000, 1};
	struct rt_thread thread = {.pid = 10, .comm = "old"};
	const struct batch_thread *known;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	write_record(&f, RT_PROBE_THREAD, 10, (const uint64_t *)&thread, RT_THREAD_BYTES_MIN / 8, NULL);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_int_equal(f.drain.bad, 0);
	assert_string_equal(f.received[0].comm, "old");
	known = thread_table_get(f.drain.threads, thread_table_find(f.drain.threads, 10));
	assert_int_equal(known->cgroup_id, 0);
	close_all(&f);
}

/* Thread 0 is every CPU's own: it is nobody's successor. */
static void test_idle_thread_after_another(void **state)
{
	const uint64_t call[] = {1000, 1};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	introduce(&f, 0, "swapper", 0);
	introduce(&f, 10, "sh", 0);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	assert_string_equal(f.received[0].comm, "sh");
	write_record(&f, SMALL_GETPPID, 0, call, 2, NULL);
	read_all(&f);
	assert_string_equal(f.received[0].comm, "swapper");
	close_all(&f);
}

/* A turn ends where it may, and has given back what it read, also where that is whole chunks. */
static void test_turn_of_whole_chunks(void **state)
{
	const uint64_t call[] = {1000, 1};
	struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	struct fixture f;
	size_t bytes;

	(void)state;
	open_all(&f, 1 << 20);
	producer = ring_writer_map(f.writer, &bytes);
	consumer = ring_writer_consumer(f.writer);
	for (unsigned i = 0; i < 3 * DRAIN_CHUNK_RECORDS; i++)
		write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	assert_int_equal(drain_read(&f.drain, DRAIN_CHUNK_RECORDS), DRAIN_CHUNK_RECORDS);
	assert_true(consumer->consumer_pos > 0);
	assert_true(consumer->consumer_pos < producer->producer_pos);
	assert_int_equal(drain_read(&f.drain, 2 * DRAIN_CHUNK_RECORDS), 2 * DRAIN_CHUNK_RECORDS);
	assert_int_equal(consumer->consumer_pos, producer->producer_pos);
	close_all(&f);
}

static void test_as_many_subscriptions_as_may_be(void **state)
{
	struct batcher_config config;
	struct batcher *batcher;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	config = (struct batcher_config){.spec = &f.spec[0], .threads = f.drain.threads, .codec = f.codec,
					 .sink = on_frame, .context = &f, .cpu = 2};
	for (uint32_t i = SUBSCRIPTIONS; i < SUBSCRIPTIONS_MAX; i++)
		assert_int_equal(drain_add(&f.drain, i, batcher_create(&config)), 0);
	batcher = batcher_create(&config);
	assert_int_equal(drain_add(&f.drain, SUBSCRIPTIONS_MAX, batcher), -ENOSPC);
	batcher_destroy(batcher);
	close_all(&f);
}

/* ---- A ring that stands still ---------------------------------------------------------------- */

static struct {
	unsigned stuck, goes_on;
	char text[512];
} told;

static void take_line(enum log_level level, const char *code, const char *text)
{
	if (!strcmp(code, "ring-stuck")) {
		assert_int_equal(level, LOG_LEVEL_ERROR);
		snprintf(told.text, sizeof(told.text), "%s", text);
		told.stuck++;
	}
	told.goes_on += !strcmp(code, "ring-goes-on");
}

/* Looks at the ring every 100 ms for that long; from *now_ns on. */
static void watch(struct fixture *f, uint64_t *now_ns, uint64_t for_ns)
{
	for (uint64_t i = 0; i < for_ns / (NS_PER_S / 10); i++) {
		read_all(f);
		drain_watch(&f->drain, *now_ns += NS_PER_S / 10);
	}
}

static void test_stuck(void **state)
{
	static const struct log_sink sink = {take_line, clock_monotonic};
	const uint64_t call[] = {1000, 1};
	uint64_t now = 1000 * NS_PER_S, stuck = counter_read(COUNTER_rings_stuck);
	struct ring_writer_record late = {.probe = SMALL_GETPPID, .tid = 10, .payload = call,
					  .words = 2};
	struct ring_writer_slot slot;
	struct fixture f;

	(void)state;
	log_set_sink(&sink);
	open_all(&f, 1 << 20);
	/* Nothing to read is no standing still. */
	watch(&f, &now, 2 * RING_STUCK_NS);
	assert_false(f.drain.stuck);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	late.time_ns = 500;
	assert_int_equal(ring_writer_reserve(f.writer, 2, 500, &slot), 0);
	for (unsigned i = 0; i < 9; i++)
		write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	watch(&f, &now, RING_STUCK_NS / 2);
	assert_int_equal(drain_watermark(&f.drain, now), f.received[0].time_ns);
	/* The machine slept: that is nobody's standing still. */
	now += 3600 * NS_PER_S;
	watch(&f, &now, RING_STUCK_NS / 4);
	assert_false(f.drain.stuck);
	assert_int_equal(told.stuck, 0);
	watch(&f, &now, RING_STUCK_NS / 2);
	assert_true(f.drain.stuck);
	assert_int_equal(drain_watermark(&f.drain, now), now);
	assert_int_equal(told.stuck, 1);
	assert_non_null(strstr(told.text, "CPU 2's ring has stood still for 5 s: the record at "
			       "position 88 is unfinished, and 400 bytes wait"));
	assert_int_equal(counter_read(COUNTER_rings_stuck), stuck + 1);
	/* More in it changes nothing; it is told once. */
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	watch(&f, &now, 2 * RING_STUCK_NS);
	assert_int_equal(told.stuck, 1);
	assert_int_equal(told.goes_on, 0);
	assert_true(f.drain.still_ns > 2 * RING_STUCK_NS);
	/* It goes on: all of it comes, in order. */
	ring_writer_commit(f.writer, &slot, &late);
	watch(&f, &now, NS_PER_S);
	assert_int_equal(f.received[0].events, 12);
	assert_false(f.drain.stuck);
	assert_int_equal(told.goes_on, 1);
	assert_int_equal(f.drain.still_ns, 0);
	close_all(&f);
	log_set_sink(NULL);
}

/* It is read no more, and told as that: not as one that waits for a writer. */
static void test_corrupt_is_not_stuck(void **state)
{
	static const struct log_sink sink = {take_line, clock_monotonic};
	const uint64_t call[] = {1000, 1};
	uint64_t now = 1000 * NS_PER_S;
	unsigned stuck = told.stuck;
	struct fixture f;
	size_t bytes;

	(void)state;
	log_set_sink(&sink);
	open_all(&f, 1 << 20);
	write_record(&f, SMALL_GETPPID, 10, call, 2, NULL);
	read_all(&f);
	ring_writer_map(f.writer, &bytes)->producer_pos = 12345677;
	watch(&f, &now, 2 * RING_STUCK_NS);
	assert_true(f.drain.corrupt);
	assert_false(f.drain.stuck);
	assert_int_equal(told.stuck, stuck);
	close_all(&f);
	log_set_sink(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_subscriptions),
		cmocka_unit_test(test_batches_fill),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_losses_are_placed),
		cmocka_unit_test(test_a_loss_of_a_known_probe_is_of_those_who_asked),
		cmocka_unit_test(test_a_bad_loss_is_a_bad_record),
		cmocka_unit_test(test_removed_with_a_batch_in_hand),
		cmocka_unit_test(test_counted_instead_of_recorded),
		cmocka_unit_test(test_the_next_one_goes_on_behind_what_was_counted),
		cmocka_unit_test(test_counts_wait_for_a_time),
		cmocka_unit_test(test_bad_records),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_rule_hides_what_is_known),
		cmocka_unit_test(test_rule_hides_in_a_batch_in_hand),
		cmocka_unit_test(test_rule_hides_from_a_filter),
		cmocka_unit_test(test_rule_hides_what_comes),
		cmocka_unit_test(test_rule_for_exe_shows_cgroups),
		cmocka_unit_test(test_times_go_on),
		cmocka_unit_test(test_shortest_thread_record),
		cmocka_unit_test(test_idle_thread_after_another),
		cmocka_unit_test(test_turn_of_whole_chunks),
		cmocka_unit_test(test_as_many_subscriptions_as_may_be),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_corrupt_is_not_stuck),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
