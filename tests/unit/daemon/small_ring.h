/*
 * small_ring: the smallest ring there is, with its writer and its reader, in one thread: a writer
 * that is interrupted is one that has reserved and not committed. A record's payload is made of its
 * number, so that what is read is known to be what was written.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_SMALL_RING_H
#define RINGTAIL_TESTS_UNIT_DAEMON_SMALL_RING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/ring/reader.h"
#include "daemon/ring/writer.h"

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

static inline void open_ring(struct fixture *f, enum rt_policy policy)
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

static inline void close_ring(struct fixture *f)
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

static inline int write_words(struct fixture *f, uint32_t words)
{
	uint64_t payload[RT_RECORD_WORDS_MAX];
	struct ring_writer_record record = numbered(f->written, payload, words);
	int err = ring_writer_write(f->writer, &record);

	if (!err)
		f->written++;
	return err;
}

static inline int write_one(struct fixture *f)
{
	return write_words(f, PAYLOAD_WORDS);
}

/* Writes until it is refused; returns how many fitted. */
static inline unsigned fill(struct fixture *f)
{
	unsigned n = 0;

	while (n < 1000 && !write_one(f))
		n++;
	assert_true(n < 1000);
	return n;
}

static inline void commit(struct fixture *f, const struct ring_writer_slot *slot, uint64_t number)
{
	uint64_t payload[PAYLOAD_WORDS];
	struct ring_writer_record record = numbered(number, payload, PAYLOAD_WORDS);

	ring_writer_commit(f->writer, slot, &record);
}

static inline void reserve(struct fixture *f, struct ring_writer_slot *slot)
{
	assert_int_equal(ring_writer_reserve(f->writer, PAYLOAD_WORDS, 0, slot), 0);
}

static inline void expect_record(struct fixture *f, uint64_t seq)
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

static inline void expect_lost(struct fixture *f, uint64_t seq, uint64_t count, enum rt_lost reason)
{
	struct ring_item item;

	assert_int_equal(ring_reader_next(f->reader, &item), RING_LOST);
	assert_int_equal(item.seq, seq);
	assert_int_equal(item.count, count);
	assert_int_equal(item.reason, reason);
}

static inline void expect_empty(struct fixture *f)
{
	struct ring_item item;

	assert_int_equal(ring_reader_next(f->reader, &item), RING_EMPTY);
	assert_int_equal(ring_reader_next(f->reader, &item), RING_EMPTY);
}

#endif
