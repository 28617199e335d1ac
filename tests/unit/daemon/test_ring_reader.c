/*
 * The reader against a ring written by ring_writer, and against rings then damaged by hand: every
 * read result, every loss reason, every refusal of a geometry. One thread: a writer that is
 * interrupted is one that has reserved and not committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/ring_reader.h"
#include "daemon/ring_writer.h"

#define RING_BYTES	RT_RING_BYTES_MIN
#define SUBBUF_BYTES	RT_SUBBUF_BYTES_MIN
#define HEAD_BYTES	48	/* a sub-buffer's head */
#define PROBE		RT_PROBE_SYSCALL_CALL
#define PAYLOAD_WORDS	5
#define RECORD_BYTES	(RT_RECORD_HEADER_BYTES + PAYLOAD_WORDS * 8)	/* 64 */

struct fixture {
	struct ring_writer *writer;
	struct ring_reader *reader;
	struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	size_t map_bytes;
	uint64_t written;	/* the next record's payload */
	uint64_t read;		/* the payload the next record read must have */
};

static void open_ring(struct fixture *f, enum rt_policy policy)
{
	struct ring_writer_config config = {
		.cpu = 3, .ring_bytes = RING_BYTES, .subbuf_bytes = SUBBUF_BYTES, .policy = policy,
	};
	struct error error;

	memset(f, 0, sizeof(*f));
	assert_int_equal(ring_writer_create(&config, &f->writer, &error), 0);
	f->producer = ring_writer_map(f->writer, &f->map_bytes);
	f->consumer = ring_writer_consumer(f->writer);
	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, f->consumer, &f->reader,
					    &error), 0);
}

static void close_ring(struct fixture *f)
{
	ring_reader_destroy(f->reader);
	ring_writer_destroy(f->writer);
}

static struct ring_writer_record numbered(uint64_t number, uint64_t *payload, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		payload[i] = number * 1000 + i;
	return (struct ring_writer_record){
		.probe = PROBE, .tid = 77, .payload = payload, .words = words,
	};
}

static int write_words(struct fixture *f, uint32_t words)
{
	uint64_t payload[RT_RECORD_WORDS_MAX];
	struct ring_writer_record record = numbered(f->written, payload, words);
	int err = ring_writer_write(f->writer, &record);

	if (!err)
		f->written++;
	return err;
}

static int write_one(struct fixture *f)
{
	return write_words(f, PAYLOAD_WORDS);
}

/* Writes until it is refused; returns how many fitted. */
static unsigned fill(struct fixture *f)
{
	unsigned n = 0;

	while (n < 1000 && !write_one(f))
		n++;
	assert_true(n < 1000);
	return n;
}

static void commit(struct fixture *f, const struct ring_writer_slot *slot, uint64_t number)
{
	uint64_t payload[PAYLOAD_WORDS];
	struct ring_writer_record record = numbered(number, payload, PAYLOAD_WORDS);

	ring_writer_commit(f->writer, slot, &record);
}

static void reserve(struct fixture *f, struct ring_writer_slot *slot)
{
	assert_int_equal(ring_writer_reserve(f->writer, PAYLOAD_WORDS, 0, slot), 0);
}

static void expect_record(struct fixture *f, uint64_t seq)
{
	struct ring_item item;

	assert_int_equal(ring_reader_next(f->reader, &item), RING_RECORD);
	assert_int_equal(item.seq, seq);
	assert_int_equal(item.probe, PROBE);
	assert_int_equal(item.tid, 77);
	assert_true(item.time_ns > 0);
	for (unsigned i = 0; i < item.words; i++)
		assert_int_equal(item.payload[i], f->read * 1000 + i);
	f->read++;
}

static void expect_lost(struct fixture *f, uint64_t seq, uint64_t count, enum rt_lost reason)
{
	struct ring_item item;

	assert_int_equal(ring_reader_next(f->reader, &item), RING_LOST);
	assert_int_equal(item.seq, seq);
	assert_int_equal(item.count, count);
	assert_int_equal(item.reason, reason);
}

static void expect_empty(struct fixture *f)
{
	struct ring_item item;

	assert_int_equal(ring_reader_next(f->reader, &item), RING_EMPTY);
	assert_int_equal(ring_reader_next(f->reader, &item), RING_EMPTY);
}

static void expect_corrupt(struct fixture *f, const char *why)
{
	struct ring_item item;

	assert_null(ring_reader_error(f->reader));
	assert_int_equal(ring_reader_next(f->reader, &item), RING_CORRUPT);
	assert_int_equal(ring_reader_next(f->reader, &item), RING_CORRUPT);
	if (!strstr(ring_reader_error(f->reader), why))
		fail_msg("\"%s\" does not say \"%s\"", ring_reader_error(f->reader), why);
}

/* Reads everything there is; returns the records. Losses are summed into *lost. */
static uint64_t drain(struct fixture *f, uint64_t *lost)
{
	uint64_t records = 0;
	struct ring_item item;

	for (;;) {
		switch (ring_reader_next(f->reader, &item)) {
		case RING_RECORD:
			records++;
			break;
		case RING_LOST:
			*lost += item.count;
			break;
		case RING_EMPTY:
			ring_reader_release(f->reader);
			return records;
		case RING_CORRUPT:
			fail_msg("%s", ring_reader_error(f->reader));
		}
	}
}

static bool bell_is_rung(struct fixture *f)
{
	struct source_ring ring;
	uint64_t rings;

	ring_writer_describe(f->writer, &ring);
	return read(ring.bell_fd, &rings, sizeof(rings)) == sizeof(rings);
}

static void put(struct fixture *f, uint64_t pos, uint64_t word)
{
	uint64_t *data = (uint64_t *)((char *)f->producer + RT_PAGE_BYTES);

	data[(pos & (RING_BYTES - 1)) / 8] = word;
}

static void put_commit(struct fixture *f, uint64_t pos, uint32_t words, uint32_t probe)
{
	put(f, pos, rt_record_commit(pos, f->producer->key & RT_TAG_MASK, words, probe));
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void reads_what_was_written(void **state)
{
	struct fixture f;
	struct ring_usage usage;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	expect_empty(&f);
	assert_false(ring_reader_pending(f.reader));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(write_one(&f), 0);
	assert_true(ring_reader_pending(f.reader));
	for (unsigned i = 0; i < 3; i++)
		expect_record(&f, i);
	expect_empty(&f);
	assert_false(ring_reader_pending(f.reader));

	ring_reader_usage(f.reader, &usage);
	assert_int_equal(usage.produced, 3);
	assert_int_equal(usage.records, 3);
	assert_int_equal(usage.unread_bytes, HEAD_BYTES + 3 * RECORD_BYTES);
	assert_int_equal(usage.size_bytes, RING_BYTES);
	ring_reader_release(f.reader);
	ring_reader_usage(f.reader, &usage);
	assert_int_equal(usage.unread_bytes, 0);
	assert_int_equal(f.consumer->consumer_pos, HEAD_BYTES + 3 * RECORD_BYTES);
	assert_int_equal(ring_reader_cpu(f.reader), 3);
	close_ring(&f);
}

/* Every size, so that every remainder is left at the end of a sub-buffer, one word among them. */
static void crosses_subbufs_and_wraps(void **state)
{
	struct fixture f;
	uint64_t seq = 0;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned lap = 0; lap < 20; lap++) {
		for (uint32_t words = 0; words <= RT_RECORD_WORDS_MAX - 3; words++) {
			assert_int_equal(write_words(&f, words), 0);
			expect_record(&f, seq++);
			expect_empty(&f);
			ring_reader_release(f.reader);
		}
	}
	assert_true(f.producer->producer_pos > 20 * (uint64_t)RING_BYTES);
	assert_int_equal(write_words(&f, RT_RECORD_WORDS_MAX - 2), -EMSGSIZE);
	close_ring(&f);
}

static void carries_attachments(void **state)
{
	static const char text[] = "/etc/passwd";
	const struct ring_writer_attachment attachment = {
		.kind = RT_ATTACH_STRING, .arg = 1, .bytes = sizeof(text) - 1, .data = text,
	};
	uint64_t payload[2] = { 1, 2 };
	struct ring_writer_record record = {
		.probe = PROBE, .tid = 9, .time_ns = 123, .payload = payload, .words = 2,
		.attachment = &attachment, .attachments = 1,
	};
	const struct rt_attachment *found;
	struct ring_item item;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(ring_writer_write(f.writer, &record), 0);
	assert_int_equal(ring_reader_next(f.reader, &item), RING_RECORD);
	assert_int_equal(item.time_ns, 123);
	assert_int_equal(item.words, 2 + 1 + 2);
	found = (const struct rt_attachment *)(item.payload + 2);
	assert_int_equal(found->kind, RT_ATTACH_STRING);
	assert_int_equal(found->arg, 1);
	assert_int_equal(found->bytes, sizeof(text) - 1);
	assert_memory_equal(found->data, text, sizeof(text));
	close_ring(&f);
}

/* The writer cannot outrun it through a mapping that the reader cannot write to. */
static void reads_a_read_only_mapping(void **state)
{
	struct ring_reader *reader;
	struct source_ring ring;
	struct ring_item item;
	struct error error;
	struct fixture f;
	void *map, *consumer;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	ring_writer_describe(f.writer, &ring);
	assert_ptr_equal(mmap(NULL, ring.ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			      ring.ring_fd, ring.ring_offset), MAP_FAILED);
	assert_int_equal(ftruncate(ring.ring_fd, 0), -1);
	map = mmap(NULL, ring.ring_bytes, PROT_READ, MAP_SHARED, ring.ring_fd, ring.ring_offset);
	consumer = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring.consumer_fd,
			ring.consumer_offset);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_ptr_not_equal(consumer, MAP_FAILED);
	assert_int_equal(ring_reader_create(map, ring.ring_bytes, consumer, &reader, &error), 0);
	assert_int_equal(write_one(&f), 0);
	assert_int_equal(ring_reader_next(reader, &item), RING_RECORD);
	ring_reader_release(reader);
	assert_int_equal(f.consumer->consumer_pos, f.producer->producer_pos);
	ring_reader_destroy(reader);
	munmap(consumer, RT_PAGE_BYTES);
	munmap(map, ring.ring_bytes);
	close_ring(&f);
}

/* ---- Writers that interrupt each other ------------------------------------------------------- */

static void waits_for_the_interrupted_writer(void **state)
{
	struct ring_writer_slot outer, middle, inner;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	reserve(&f, &outer);
	reserve(&f, &middle);
	reserve(&f, &inner);
	expect_empty(&f);
	commit(&f, &inner, 2);
	expect_empty(&f);
	assert_true(ring_reader_pending(f.reader));
	commit(&f, &outer, 0);	/* preempted writers do not finish last in, first out */
	expect_record(&f, 0);
	expect_empty(&f);
	commit(&f, &middle, 1);
	expect_record(&f, 1);
	expect_record(&f, 2);
	expect_empty(&f);
	close_ring(&f);
}

/* A loss between two writers is before the one that reserved later, whoever commits first. */
static void locates_losses_under_nesting(void **state)
{
	struct ring_writer_slot outer;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	reserve(&f, &outer);
	ring_writer_lose(f.writer, RT_LOST_NEST, 2);
	f.written = 1;
	assert_int_equal(write_one(&f), 0);
	expect_empty(&f);		/* the two are not reported before the unfinished record */
	commit(&f, &outer, 0);
	expect_record(&f, 0);
	expect_lost(&f, 1, 2, RT_LOST_NEST);
	expect_record(&f, 3);
	expect_empty(&f);
	close_ring(&f);
}

/* A nested writer may carry an older count than the record before it. No gap is negative. */
static void takes_an_older_count_for_no_gap(void **state)
{
	struct ring_writer_slot slot;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	ring_writer_lose(f.writer, RT_LOST_FULL, 5);
	assert_int_equal(write_one(&f), 0);
	reserve(&f, &slot);
	slot.lost_total = 3;
	commit(&f, &slot, 1);
	expect_lost(&f, 0, 5, RT_LOST_FULL);
	expect_record(&f, 5);
	expect_record(&f, 6);
	ring_writer_lose(f.writer, RT_LOST_FULL, 1);
	expect_lost(&f, 7, 1, RT_LOST_FULL);
	expect_empty(&f);
	close_ring(&f);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static void reports_every_reason(void **state)
{
	struct ring_usage usage;
	struct ring_item item;
	uint64_t seen = 0, seq = 0;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		ring_writer_lose(f.writer, i, i + 1);
	assert_int_equal(write_one(&f), 0);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++) {
		assert_int_equal(ring_reader_next(f.reader, &item), RING_LOST);
		assert_int_equal(item.seq, seq);
		assert_int_equal(item.count, item.reason + 1);
		seen |= 1u << item.reason;
		seq += item.count;
	}
	assert_int_equal(seen, 0xff);
	expect_record(&f, 36);
	expect_empty(&f);
	ring_reader_usage(f.reader, &usage);
	assert_int_equal(usage.produced, 37);
	assert_int_equal(usage.records, 1);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		assert_int_equal(usage.lost[i], i + 1);
	close_ring(&f);
}

static void locates_what_a_full_ring_refused(void **state)
{
	struct fixture f;
	unsigned fitted;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	fitted = fill(&f);
	assert_int_equal(fitted, RING_BYTES / SUBBUF_BYTES *
				 ((SUBBUF_BYTES - HEAD_BYTES) / RECORD_BYTES));
	assert_int_equal(write_one(&f), -ENOSPC);
	for (unsigned i = 0; i < 70; i++)
		expect_record(&f, i);
	ring_reader_release(f.reader);
	assert_int_equal(write_one(&f), 0);
	for (unsigned i = 70; i < fitted; i++)
		expect_record(&f, i);
	expect_lost(&f, fitted, 2, RT_LOST_FULL);
	expect_record(&f, fitted + 2);
	expect_empty(&f);
	close_ring(&f);
}

static void reports_trailing_losses_once(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	ring_writer_lose(f.writer, RT_LOST_FULL, 4);
	expect_lost(&f, 0, 4, RT_LOST_FULL);
	expect_empty(&f);
	assert_int_equal(write_one(&f), 0);
	expect_record(&f, 4);
	ring_writer_lose(f.writer, RT_LOST_STOPPED, 1);
	expect_lost(&f, 5, 1, RT_LOST_STOPPED);
	expect_empty(&f);
	close_ring(&f);
}

/* More than 2^31, and then across 2^32: a record only has the low half. */
static void extends_the_low_half(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_one(&f), 0);
	ring_writer_lose(f.writer, RT_LOST_FULL, 0xfffffff0u);
	assert_int_equal(write_one(&f), 0);
	ring_writer_lose(f.writer, RT_LOST_FULL, 0x20);
	assert_int_equal(write_one(&f), 0);
	expect_record(&f, 0);
	expect_lost(&f, 1, 0xfffffff0u, RT_LOST_FULL);
	expect_record(&f, 0xfffffff1u);
	expect_lost(&f, 0xfffffff2u, 0x20, RT_LOST_FULL);
	expect_record(&f, 0x100000012u);
	expect_empty(&f);
	close_ring(&f);
}

/* A producer that adds to its counters late loses no loss, only the name of its reason. */
static void closes_without_a_reason(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	f.producer->lost_total = 3;
	expect_lost(&f, 0, 3, RT_LOST_FULL);
	f.producer->lost[RT_LOST_FULL] = 3;
	ring_writer_lose(f.writer, RT_LOST_BUSY, 1);
	expect_lost(&f, 3, 1, RT_LOST_BUSY);
	expect_empty(&f);
	close_ring(&f);
}

/* ---- Stop and overwrite ---------------------------------------------------------------------- */

static void stops_rings_and_goes_on(void **state)
{
	uint64_t lost = 0, records;
	struct fixture f;
	unsigned fitted;

	(void)state;
	open_ring(&f, RT_POLICY_STOP);
	fitted = fill(&f);
	assert_int_equal(f.producer->state, RT_RING_STOPPED);
	assert_true(bell_is_rung(&f));
	assert_true(RING_BYTES - f.producer->producer_pos < SUBBUF_BYTES);
	assert_int_equal(write_one(&f), -ENOSPC);
	assert_int_equal(ring_writer_wait(f.writer, 1, 1), -EPIPE);
	records = drain(&f, &lost);
	assert_int_equal(records, fitted);
	assert_int_equal(lost, 2);
	assert_int_equal(f.producer->lost[RT_LOST_STOPPED], 2);
	ring_writer_resume(f.writer);
	assert_int_equal(write_one(&f), 0);
	assert_int_equal(drain(&f, &lost), 1);
	close_ring(&f);
}

/* A writer that got its place before the stop keeps it; no other gets one after a full lap. */
static void stops_when_a_nested_writer_finds_it_full(void **state)
{
	struct ring_writer_slot slot[RING_BYTES / RECORD_BYTES + 1];
	uint64_t lost = 0;
	struct fixture f;
	unsigned n = 0;

	(void)state;
	open_ring(&f, RT_POLICY_STOP);
	while (!ring_writer_reserve(f.writer, PAYLOAD_WORDS, 0, &slot[n]))
		n++;
	assert_int_equal(f.producer->lost[RT_LOST_FULL], 1);
	assert_int_equal(f.producer->state, RT_RING_STOPPED);
	for (unsigned i = n; i-- > 0;)
		commit(&f, &slot[i], i);
	assert_int_equal(drain(&f, &lost), n);
	assert_int_equal(lost, 1);
	close_ring(&f);
}

/* The reader stands still for some laps: it gets whole records, and knows what it missed. */
static void overwrites_the_oldest_and_counts_them(void **state)
{
	struct ring_usage usage;
	struct ring_item item;
	struct fixture f;
	uint64_t last = 0;

	(void)state;
	open_ring(&f, RT_POLICY_OVERWRITE);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(write_one(&f), 0);
	for (unsigned i = 0; i < 5; i++)
		expect_record(&f, i);
	for (unsigned i = 10; i < 1000; i++)
		assert_int_equal(write_one(&f), 0);
	assert_int_equal(f.producer->lost_total, 0);

	for (unsigned i = 5; i < 10; i++)	/* of the copy, which is whole */
		expect_record(&f, i);
	assert_int_equal(ring_reader_next(f.reader, &item), RING_LOST);
	assert_int_equal(item.seq, 10);
	assert_int_equal(item.reason, RT_LOST_FULL);
	f.read = last = 10 + item.count;
	assert_true(1000 - last >= 3 * (SUBBUF_BYTES - HEAD_BYTES) / RECORD_BYTES);
	for (; last < 1000; last++)
		expect_record(&f, last);
	expect_empty(&f);
	ring_reader_usage(f.reader, &usage);
	assert_int_equal(usage.produced, 1000);
	assert_int_equal(usage.records + usage.lost[RT_LOST_FULL], 1000);
	close_ring(&f);
}

/* A lap is not started over an unfinished record: that would tear what is newer. */
static void overwrite_does_not_lap_an_unfinished_writer(void **state)
{
	struct ring_writer_slot slot;
	uint64_t lost = 0, records;
	struct fixture f;
	unsigned fitted;

	(void)state;
	open_ring(&f, RT_POLICY_OVERWRITE);
	reserve(&f, &slot);
	f.written = 1;
	fitted = fill(&f);
	assert_int_equal(f.producer->lost[RT_LOST_BUSY], 1);
	expect_empty(&f);
	commit(&f, &slot, 0);
	for (unsigned i = 0; i < fitted + 1; i++)
		expect_record(&f, i);
	expect_lost(&f, fitted + 1, 1, RT_LOST_BUSY);
	expect_empty(&f);
	assert_int_equal(write_one(&f), 0);
	records = drain(&f, &lost);
	assert_int_equal(records, 1);
	assert_int_equal(lost, 0);
	close_ring(&f);
}

/* ---- The bell -------------------------------------------------------------------------------- */

static void rings_once_where_it_was_asked_to(void **state)
{
	struct fixture f;
	uint64_t lost = 0;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));		/* nobody asked */
	assert_false(ring_reader_arm(f.reader, 1));
	drain(&f, &lost);

	assert_true(ring_reader_arm(f.reader, 0));	/* at least one byte */
	assert_int_equal(write_one(&f), 0);
	assert_true(bell_is_rung(&f));
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));		/* once */
	drain(&f, &lost);

	assert_true(ring_reader_arm(f.reader, 3 * RECORD_BYTES));
	assert_int_equal(write_one(&f), 0);
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));
	assert_int_equal(write_one(&f), 0);
	assert_true(bell_is_rung(&f));
	drain(&f, &lost);

	assert_true(ring_reader_arm(f.reader, 1));
	ring_reader_disarm(f.reader);
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));
	close_ring(&f);
}

/* Whatever watermark is asked for, a ring that refuses a record has rung. */
static void rings_before_it_is_full(void **state)
{
	struct fixture f;
	uint64_t lost = 0;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned i = 0; i < 50; i++) {
		assert_true(ring_reader_arm(f.reader, UINT64_MAX));
		while (!write_words(&f, RT_RECORD_WORDS_MAX - 3 - i))
			;
		assert_true(bell_is_rung(&f));
		drain(&f, &lost);
	}
	assert_int_equal(lost, 50);
	close_ring(&f);
}

static void wait_ends_when_there_is_room(void **state)
{
	struct fixture f;
	uint64_t lost = 0;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	while (!ring_writer_wait(f.writer, PAYLOAD_WORDS, 1000000))
		assert_int_equal(write_one(&f), 0);
	assert_int_equal(f.producer->lost_total, 0);
	assert_int_equal(drain(&f, &lost), f.written);
	assert_int_equal(ring_writer_wait(f.writer, PAYLOAD_WORDS, 0), 0);
	close_ring(&f);
}

/* ---- What neither side trusts ---------------------------------------------------------------- */

static void refuses_consumer_positions(void **state)
{
	static const uint64_t bad[] = { 4, 1 << 20, ~0ull, 1ull << 63 };
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	fill(&f);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		f.consumer->consumer_pos = bad[i];
		assert_int_equal(write_one(&f), -ENOSPC);
		assert_int_equal(f.producer->consumer_bad, i + 1);
	}
	f.consumer->consumer_pos = 4096;
	assert_int_equal(write_one(&f), 0);
	f.consumer->consumer_pos = 0;		/* back is no place either */
	while (!write_one(&f))
		;
	assert_int_equal(f.producer->consumer_bad, 5);
	close_ring(&f);
}

static void check_refused(struct fixture *f, const char *code)
{
	struct ring_reader *reader = NULL;
	struct error error = { 0 };

	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, f->consumer, &reader,
					    &error), -EPROTO);
	assert_string_equal(error.code, code);
	assert_true(strlen(error.what) > 20);
	assert_null(reader);
	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, f->consumer, &reader, NULL),
			 -EPROTO);
}

static void refuses_what_is_no_ring(void **state)
{
	struct rt_ring_producer good;
	struct ring_reader *reader;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	good = *f.producer;
#define REFUSED(field, value, code) do { \
		f.producer->field = (value); \
		check_refused(&f, code); \
		*f.producer = good; \
	} while (0)
	REFUSED(magic, 0, "ring-foreign");
	REFUSED(version, RT_ABI_VERSION + 1, "ring-version");
	REFUSED(size_bytes, 0, "ring-geometry");
	REFUSED(size_bytes, RING_BYTES / 2, "ring-geometry");
	REFUSED(size_bytes, RING_BYTES + 4096, "ring-geometry");
	REFUSED(size_bytes, RING_BYTES * 2, "ring-geometry");	/* more than is mapped */
	REFUSED(size_bytes, RT_RING_BYTES_MAX * 2ull, "ring-geometry");
	REFUSED(size_bytes, ~0ull, "ring-geometry");
	REFUSED(subbuf_bytes, 0, "ring-geometry");
	REFUSED(subbuf_bytes, SUBBUF_BYTES / 2, "ring-geometry");
	REFUSED(subbuf_bytes, SUBBUF_BYTES + 8, "ring-geometry");
	REFUSED(subbuf_bytes, RING_BYTES / 2, "ring-geometry");
	REFUSED(policy, RT_POLICY_STOP + 1, "ring-policy");
	REFUSED(cpu, RT_CPUS_MAX, "ring-cpu");
	REFUSED(producer_pos, 4, "ring-position");
	f.consumer->consumer_pos = 8;
	check_refused(&f, "ring-position");
	f.consumer->consumer_pos = 0;
	f.map_bytes -= 8;
	check_refused(&f, "ring-geometry");
	f.map_bytes = 100;
	check_refused(&f, "ring-geometry");
	f.map_bytes = RT_PAGE_BYTES;
	check_refused(&f, "ring-geometry");
	assert_int_equal(ring_reader_create((char *)f.producer + 4, RT_PAGE_BYTES, f.consumer,
					    &reader, NULL), -EPROTO);
	close_ring(&f);
	ring_reader_destroy(NULL);
	ring_writer_destroy(NULL);
}

static void writer_refuses_what_is_no_ring(void **state)
{
	static const struct ring_writer_config bad[] = {
		{ .ring_bytes = 0 },
		{ .ring_bytes = RT_RING_BYTES_MIN / 2 },
		{ .ring_bytes = RT_RING_BYTES_MIN + 8 },
		{ .ring_bytes = RT_RING_BYTES_MAX * 2ull },
		{ .ring_bytes = RING_BYTES, .subbuf_bytes = RING_BYTES / 2 },
		{ .ring_bytes = RING_BYTES, .subbuf_bytes = SUBBUF_BYTES / 2 },
		{ .ring_bytes = RING_BYTES * 2, .subbuf_bytes = SUBBUF_BYTES + 8 },
		{ .ring_bytes = RING_BYTES, .policy = 3 },
		{ .ring_bytes = RING_BYTES, .cpu = RT_CPUS_MAX },
	};
	struct ring_writer *writer;
	struct error error;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ring_writer_create(&bad[i], &writer, &error), -EINVAL);
		assert_string_equal(error.code, "ring-geometry");
	}
}

/* A reader that takes over goes on where the last one released. */
static void takes_over_from_an_earlier_reader(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(write_one(&f), 0);
	expect_record(&f, 0);
	expect_record(&f, 1);
	ring_reader_release(f.reader);
	ring_reader_destroy(f.reader);
	assert_int_equal(ring_reader_create(f.producer, f.map_bytes, f.consumer, &f.reader, NULL),
			 0);
	expect_record(&f, 2);
	expect_record(&f, 3);
	expect_empty(&f);
	close_ring(&f);
}

/* ---- Rings that break their own rules -------------------------------------------------------- */

#define FIRST	HEAD_BYTES		/* of two records, each 8 words */

static void too_short(struct fixture *f)
{
	put_commit(f, FIRST, 2, PROBE);
}

static void no_words(struct fixture *f)
{
	put_commit(f, FIRST, 0, PROBE);
}

static void no_filler_words(struct fixture *f)
{
	put_commit(f, FIRST, 0, RT_PROBE_PAD);
}

static void not_reserved(struct fixture *f)
{
	put_commit(f, FIRST, 8 + 8 + 1, PROBE);
}

static void over_subbuf(struct fixture *f)
{
	while (f->producer->producer_pos < SUBBUF_BYTES)
		write_one(f);
	put_commit(f, FIRST, 250, RT_PROBE_PAD);
	put_commit(f, FIRST + 2000, 250, RT_PROBE_PAD);
	put_commit(f, FIRST + 4000, (SUBBUF_BYTES - FIRST - 4000) / 8 + 1, RT_PROBE_PAD);
}

static void headless(struct fixture *f)
{
	put_commit(f, 0, 6, PROBE);
}

static void second_head(struct fixture *f)
{
	put_commit(f, FIRST, 6, RT_PROBE_SUBBUF);
}

static void head_of_another_size(struct fixture *f)
{
	put_commit(f, 0, 5, RT_PROBE_SUBBUF);
}

static void head_of_another_place(struct fixture *f)
{
	put(f, RT_RECORD_HEADER_BYTES, 4096);
}

static void head_from_the_future(struct fixture *f)
{
	put(f, RT_RECORD_HEADER_BYTES + 16, 9);
}

static void producer_odd(struct fixture *f)
{
	f->producer->producer_pos |= 4;
}

static void producer_far(struct fixture *f)
{
	f->producer->producer_pos = RING_BYTES + 8;
}

static const struct damage {
	const char *name, *why;
	void (*make)(struct fixture *f);
} damages[] = {
	{ "a record under three words", "shorter", too_short },
	{ "a record of no words", "shorter", no_words },
	{ "filler of no words", "shorter", no_filler_words },
	{ "a record over what is reserved", "reserved", not_reserved },
	{ "a record over its sub-buffer", "sub-buffer", over_subbuf },
	{ "no head", "without its head", headless },
	{ "a head inside", "inside", second_head },
	{ "a head of another size", "words", head_of_another_size },
	{ "a head of another place", "4096", head_of_another_place },
	{ "a head with losses to come", "losses", head_from_the_future },
	{ "producer_pos not a multiple of 8", "producer_pos", producer_odd },
	{ "producer_pos more than a lap ahead", "not released", producer_far },
};

static void reports_damage_for_ever(void **state)
{
	struct ring_item item;
	struct fixture f;

	(void)state;
	for (unsigned policy = RT_POLICY_DROP; policy <= RT_POLICY_STOP; policy++) {
		for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
			if (policy == RT_POLICY_OVERWRITE && damages[i].make == producer_far)
				continue;	/* that is how overwriting looks */
			print_message("policy %u: %s\n", policy, damages[i].name);
			open_ring(&f, policy);
			assert_int_equal(write_one(&f), 0);
			assert_int_equal(write_one(&f), 0);
			damages[i].make(&f);
			expect_corrupt(&f, damages[i].why);
			f.producer->producer_pos &= ~7ull;
			write_one(&f);
			assert_int_equal(ring_reader_next(f.reader, &item), RING_CORRUPT);
			close_ring(&f);
		}
	}
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_one(&f), 0);
	expect_record(&f, 0);
	f.producer->producer_pos = 0;	/* back */
	expect_corrupt(&f, "producer_pos is 0");
	close_ring(&f);
}

static void believes_no_impossible_losses(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_one(&f), 0);
	expect_record(&f, 0);
	f.producer->lost_total = f.producer->lost[RT_LOST_FULL] = INT64_MAX;
	expect_corrupt(&f, "losses after 1 attempts");
	close_ring(&f);
}

/* Random words in the data, and random committed shapes: any result, but inside the mapping. */
static void survives_garbage(void **state)
{
	const char *given = getenv("SEED");
	unsigned seed = given ? strtoul(given, NULL, 0) : 20240607;

	(void)state;
	print_message("SEED=%u\n", seed);
	for (unsigned round = 0; round < 3000; round++) {
		struct ring_usage usage;
		struct ring_item item;
		uint64_t sum = 0;
		struct fixture f;

		open_ring(&f, round % 3);
		for (unsigned i = rand_r(&seed) % 300; i > 0; i--)
			write_words(&f, rand_r(&seed) % 40);
		for (unsigned i = rand_r(&seed) % 30; i > 0; i--) {
			uint64_t pos = rand_r(&seed) % RING_BYTES & ~7u;

			if (rand_r(&seed) % 2)
				put(&f, pos, rand_r(&seed));
			else
				put_commit(&f, pos, rand_r(&seed) & 0xff, rand_r(&seed) & 3);
		}
		if (rand_r(&seed) % 4 == 0)
			f.producer->producer_pos = rand_r(&seed) % (2 * RING_BYTES);
		if (rand_r(&seed) % 4 == 0)
			f.producer->lost_total = rand_r(&seed);
		ring_reader_usage(f.reader, &usage);
		assert_true(usage.unread <= RING_BYTES / 8);
		for (unsigned i = 0; i < 1000; i++) {
			enum ring_read read = ring_reader_next(f.reader, &item);

			if (read == RING_RECORD)
				for (unsigned w = 0; w < item.words; w++)
					sum += item.payload[w];
			else if (read != RING_LOST)
				break;
		}
		ring_reader_release(f.reader);
		ring_reader_usage(f.reader, &usage);
		assert_true(usage.unread <= RING_BYTES / 8);
		assert_true(sum != 1);	/* keeps the reads */
		close_ring(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_was_written),
		cmocka_unit_test(crosses_subbufs_and_wraps),
		cmocka_unit_test(carries_attachments),
		cmocka_unit_test(reads_a_read_only_mapping),
		cmocka_unit_test(waits_for_the_interrupted_writer),
		cmocka_unit_test(locates_losses_under_nesting),
		cmocka_unit_test(takes_an_older_count_for_no_gap),
		cmocka_unit_test(reports_every_reason),
		cmocka_unit_test(locates_what_a_full_ring_refused),
		cmocka_unit_test(reports_trailing_losses_once),
		cmocka_unit_test(extends_the_low_half),
		cmocka_unit_test(closes_without_a_reason),
		cmocka_unit_test(stops_rings_and_goes_on),
		cmocka_unit_test(stops_when_a_nested_writer_finds_it_full),
		cmocka_unit_test(overwrites_the_oldest_and_counts_them),
		cmocka_unit_test(overwrite_does_not_lap_an_unfinished_writer),
		cmocka_unit_test(rings_once_where_it_was_asked_to),
		cmocka_unit_test(rings_before_it_is_full),
		cmocka_unit_test(wait_ends_when_there_is_room),
		cmocka_unit_test(refuses_consumer_positions),
		cmocka_unit_test(refuses_what_is_no_ring),
		cmocka_unit_test(writer_refuses_what_is_no_ring),
		cmocka_unit_test(takes_over_from_an_earlier_reader),
		cmocka_unit_test(reports_damage_for_ever),
		cmocka_unit_test(believes_no_impossible_losses),
		cmocka_unit_test(survives_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
