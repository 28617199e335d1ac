/*
 * The reader against a ring written by ring_writer: every read result, records of every size,
 * writers that interrupt each other, and every loss reason, in its place.
 */
#include "tests/unit/daemon/small_ring.h"

#include "proto/ringtail.pb-c.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

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
	struct ring_handle ring;
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

static struct lap {
	struct fixture f;
	uint8_t *data;			/* the reader's mapping of it */
	size_t bytes;
	unsigned laps;
} lap;

/* The reader copies the first word: now the writer overwrites the whole ring. */
static void lap_it(int signal)
{
	(void)signal;
	mprotect(lap.data, lap.bytes, PROT_READ);
	for (unsigned i = 0; i < 1000; i++)
		write_one(&lap.f);
	lap.laps++;
}

/* A copy of a sub-buffer that was overwritten while it was made is none: what is gone is told. */
static void lapped_while_it_copies(void **state)
{
	struct sigaction before, action = {.sa_handler = lap_it};
	struct ring_reader *reader;
	struct ring_handle ring;
	struct ring_usage usage;
	struct ring_item item;
	struct error error;
	uint8_t *map;

	(void)state;
	lap = (struct lap){.laps = 0};
	open_ring(&lap.f, RT_POLICY_OVERWRITE);
	ring_writer_describe(lap.f.writer, &ring);
	map = mmap(NULL, ring.ring_bytes, PROT_READ, MAP_SHARED, ring.ring_fd, ring.ring_offset);
	assert_ptr_not_equal(map, MAP_FAILED);
	ring_reader_destroy(lap.f.reader);
	assert_int_equal(ring_reader_create(map, ring.ring_bytes, lap.f.consumer, &reader, &error), 0);
	lap.f.reader = reader;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(write_one(&lap.f), 0);
	lap.data = map + RT_PAGE_BYTES;
	lap.bytes = ring.ring_bytes - RT_PAGE_BYTES;
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	assert_int_equal(mprotect(lap.data, lap.bytes, PROT_NONE), 0);
	assert_int_equal(ring_reader_next(reader, &item), RING_LOST);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_int_equal(lap.laps, 1);
	assert_int_equal(item.seq, 0);
	lap.f.read = item.count;
	for (uint64_t seq = item.count; seq < 1010; seq++)
		expect_record(&lap.f, seq);
	expect_empty(&lap.f);
	ring_reader_usage(reader, &usage);
	assert_int_equal(usage.torn, 1);
	assert_int_equal(usage.records + usage.lost[RT_LOST_FULL], 1010);
	close_ring(&lap.f);
	munmap(map, ring.ring_bytes);
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

/* What the wire calls them, and back: no two of them are one, and what no ring loses for is full. */
static void reasons_have_their_names(void **state)
{
	static const uint32_t wire[] = {
		[RT_LOST_FULL] = LOSS_REASON_RING_FULL,
		[RT_LOST_NEST] = LOSS_REASON_NEST,
		[RT_LOST_STOPPED] = LOSS_REASON_STOPPED,
		[RT_LOST_BUSY] = LOSS_REASON_BUSY,
		[RT_LOST_REFUSED] = LOSS_REASON_REFUSED,
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wire) / sizeof(wire[0]); i++) {
		assert_int_equal(ring_loss_reason(i), wire[i]);
		assert_int_equal(ring_lost_for(wire[i]), i);
	}
	assert_int_equal(ring_loss_reason(RT_LOST_REASONS), 0);
	assert_int_equal(ring_lost_for(0), RT_LOST_FULL);
	assert_int_equal(ring_lost_for(LOSS_REASON_DISK), RT_LOST_FULL);
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
		cmocka_unit_test(reasons_have_their_names),
		cmocka_unit_test(lapped_while_it_copies),
		cmocka_unit_test(takes_over_from_an_earlier_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
