/*
 * A reader that is stopped between any two of its stores: the next one goes on counting exactly.
 *
 * A child process reads a ring and is run one instruction at a time. Whenever that has changed the
 * consumer page, a reader that finds the page so must number what is left as one that has read the
 * whole ring from its beginning did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/ring/reader.h"
#include "daemon/ring/writer.h"

#define EPOCH		77
#define ITEMS_MAX	2000
#define STEPS_MAX	2000000		/* instructions of the child */
#define PAYLOAD_WORDS	5

struct item {
	enum ring_read kind;
	uint64_t seq, count, payload;
	enum rt_lost reason;
};

struct fixture {
	struct ring_writer *writer;
	struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	size_t map_bytes;
	uint64_t written;
	struct item truth[ITEMS_MAX];
	unsigned items;
};

static void write_records(struct fixture *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t payload[PAYLOAD_WORDS] = {++f->written};
		struct ring_writer_record record = {
			.probe = RT_PROBE_SYSCALL_CALL, .tid = 7, .payload = payload,
			.words = PAYLOAD_WORDS,
		};

		/* One that is refused is a loss, which is what it shall be. */
		ring_writer_write(f->writer, &record);
	}
}

static struct ring_reader *open_reader(struct fixture *f, struct rt_ring_consumer *consumer)
{
	struct ring_reader *reader = NULL;
	struct error error;

	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, consumer, &reader, &error),
			 0);
	return reader;
}

static bool read_item(struct ring_reader *reader, struct item *item)
{
	struct ring_item got;
	enum ring_read kind = ring_reader_next(reader, &got);

	assert_int_not_equal(kind, RING_CORRUPT);
	*item = (struct item){.kind = kind, .seq = got.seq};
	if (kind == RING_RECORD) {
		item->payload = got.payload[0];
		item->count = 1;
	} else if (kind == RING_LOST) {
		item->count = got.count;
		item->reason = got.reason;
	}
	return kind != RING_EMPTY;
}

/* A ring that is part read, has lost some since, and then has records again. */
static void setup_ring(struct fixture *f)
{
	struct ring_writer_config config = {
		.cpu = 0, .ring_bytes = RT_RING_BYTES_MIN, .subbuf_bytes = RT_SUBBUF_BYTES_MIN,
		.policy = RT_POLICY_DROP,
	};
	struct ring_reader *reader;
	struct error error;
	struct item item;

	memset(f, 0, sizeof(*f));
	assert_int_equal(ring_writer_create(&config, &f->writer, &error), 0);
	f->producer = ring_writer_map(f->writer, &f->map_bytes);
	f->consumer = ring_writer_consumer(f->writer);
	reader = open_reader(f, f->consumer);
	assert_int_equal(ring_reader_epoch(reader), 0);
	ring_reader_set_epoch(reader, EPOCH);
	write_records(f, 300);		/* some are lost: the ring is full */
	for (unsigned i = 0; i < 120; i++)
		assert_true(read_item(reader, &item));
	ring_reader_release(reader);
	ring_reader_destroy(reader);
	write_records(f, 60);
}

/* What there is to read from the page as it is now, with the page left alone. */
static unsigned read_all(struct fixture *f, const struct rt_ring_consumer *page, struct item *items)
{
	static __attribute__((aligned(RT_PAGE_BYTES))) uint8_t copy[RT_PAGE_BYTES];
	struct ring_reader *reader;
	unsigned n = 0;

	memcpy(copy, page, RT_PAGE_BYTES);
	reader = open_reader(f, (struct rt_ring_consumer *)copy);
	assert_int_equal(ring_reader_epoch(reader), EPOCH);
	while (n < ITEMS_MAX && read_item(reader, &items[n]))
		n++;
	assert_true(n < ITEMS_MAX);
	ring_reader_destroy(reader);
	return n;
}

/* Whether these are the end of the truth; a loss may be cut where the page says it was reported. */
static void expect_end_of_truth(struct fixture *f, const struct item *items, unsigned n)
{
	unsigned at = f->items;

	for (unsigned i = n; i--;) {
		assert_true(at > 0);
		at--;
		assert_int_equal(items[i].kind, f->truth[at].kind);
		assert_int_equal(items[i].seq + items[i].count,
				 f->truth[at].seq + f->truth[at].count);
		assert_int_equal(items[i].payload, f->truth[at].payload);
		assert_int_equal(items[i].reason, f->truth[at].reason);
		if (i)
			assert_int_equal(items[i].seq, f->truth[at].seq);
	}
}

/* The child: reads all there is, and gives it back in pieces of every kind. */
static void child(struct fixture *f)
{
	struct ring_reader *reader;
	struct ring_item item;
	struct error error;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(77);
	raise(SIGSTOP);
	if (ring_reader_create(f->producer, f->map_bytes, f->consumer, &reader, &error) != 0)
		_exit(1);
	for (unsigned i = 1; ring_reader_next(reader, &item) != RING_EMPTY; i++)
		if (i % 7 == 0 || i % 5 == 0)
			ring_reader_release(reader);
	ring_reader_release(reader);
	_exit(0);
}

static void test_stopped_anywhere(void **state)
{
	static struct fixture f;
	static struct item items[ITEMS_MAX];
	static uint8_t page[RT_PAGE_BYTES];
	unsigned changes = 0, steps, n;
	int status = 0;
	pid_t pid;

	(void)state;
	setup_ring(&f);
	f.items = read_all(&f, f.consumer, f.truth);
	assert_true(f.items > 100);
	memcpy(page, f.consumer, sizeof(page));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(&f);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	for (steps = 0; steps < STEPS_MAX && WIFSTOPPED(status); steps++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (memcmp(page, f.consumer, sizeof(page)) == 0)
			continue;
		memcpy(page, f.consumer, sizeof(page));
		n = read_all(&f, f.consumer, items);
		expect_end_of_truth(&f, items, n);
		changes++;
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(read_all(&f, f.consumer, items), 0);
	/* Each release is at least four stores that change something. */
	assert_true(changes > 4 * f.items / 7);
	ring_writer_destroy(f.writer);
}

/* A reader goes on where another has ended, with reasons and sums. */
static void test_goes_on(void **state)
{
	static struct fixture f;
	struct ring_reader *reader;
	struct ring_usage usage;
	uint64_t seq, lost = 0;
	struct item item;

	(void)state;
	setup_ring(&f);
	reader = open_reader(&f, f.consumer);
	seq = ring_reader_seq(reader);
	assert_int_equal(seq, 120);
	while (read_item(reader, &item)) {
		assert_int_equal(item.seq, seq);
		seq += item.count;
		lost += item.kind == RING_LOST ? item.count : 0;
	}
	assert_int_equal(seq, f.written);
	assert_int_equal(lost, f.producer->lost_total);
	ring_reader_usage(reader, &usage);
	assert_int_equal(usage.produced, f.written - 120);
	assert_int_equal(usage.records, f.written - 120 - lost);
	assert_int_equal(usage.lost[RT_LOST_FULL], lost);
	ring_reader_destroy(reader);
	ring_writer_destroy(f.writer);
}

/* Losses at the end of what was read move no position, and are not told twice. */
static void test_losses_alone(void **state)
{
	static struct fixture f;
	struct ring_reader *reader;
	struct item item;
	uint64_t seq;

	(void)state;
	setup_ring(&f);
	reader = open_reader(&f, f.consumer);
	while (read_item(reader, &item))
		;
	ring_reader_release(reader);
	seq = ring_reader_seq(reader);
	write_records(&f, 400);
	while (read_item(reader, &item) && item.kind == RING_RECORD)
		;
	assert_int_equal(item.kind, RING_LOST);
	ring_reader_release(reader);
	assert_int_equal(ring_reader_seq(reader), seq + 400);
	ring_reader_destroy(reader);
	reader = open_reader(&f, f.consumer);
	assert_int_equal(ring_reader_seq(reader), seq + 400);
	assert_false(read_item(reader, &item));
	ring_reader_destroy(reader);
	ring_writer_destroy(f.writer);
}

/* Nor are they where no record came before them since the reader last gave back what it had read. */
static void test_losses_without_records(void **state)
{
	static struct fixture f;
	struct ring_reader *reader;
	struct item item;
	uint64_t seq;

	(void)state;
	setup_ring(&f);
	reader = open_reader(&f, f.consumer);
	while (read_item(reader, &item))
		;
	ring_reader_release(reader);
	seq = ring_reader_seq(reader);
	f.producer->lost[RT_LOST_FULL] += 3;
	f.producer->lost_total += 3;
	assert_true(read_item(reader, &item));
	assert_int_equal(item.kind, RING_LOST);
	ring_reader_release(reader);
	ring_reader_destroy(reader);
	reader = open_reader(&f, f.consumer);
	assert_int_equal(ring_reader_seq(reader), seq + 3);
	assert_false(read_item(reader, &item));
	ring_reader_destroy(reader);
	ring_writer_destroy(f.writer);
}

/* A reader that ends between two reasons' parts of one loss: the next one reports the other part. */
static void test_ends_between_two_reasons(void **state)
{
	static struct fixture f;
	struct ring_reader *reader;
	struct item first, second;
	uint64_t seq;

	(void)state;
	setup_ring(&f);
	reader = open_reader(&f, f.consumer);
	while (read_item(reader, &first))
		;
	f.producer->lost[RT_LOST_FULL] += 3;
	f.producer->lost[RT_LOST_NEST] += 2;
	f.producer->lost_total += 5;
	assert_true(read_item(reader, &first));
	ring_reader_release(reader);
	seq = ring_reader_seq(reader);
	ring_reader_destroy(reader);
	reader = open_reader(&f, f.consumer);
	assert_int_equal(ring_reader_seq(reader), seq);
	assert_true(read_item(reader, &second));
	assert_int_equal(first.kind, RING_LOST);
	assert_int_equal(second.kind, RING_LOST);
	assert_int_not_equal(first.reason, second.reason);
	assert_int_equal(first.count, first.reason == RT_LOST_FULL ? 3 : 2);
	assert_int_equal(second.count, second.reason == RT_LOST_FULL ? 3 : 2);
	assert_false(read_item(reader, &second));
	ring_reader_destroy(reader);
	ring_writer_destroy(f.writer);
}

static struct rt_ring_note note_at(uint64_t pos, uint64_t seq, uint64_t lost)
{
	return (struct rt_ring_note){.pos = pos, .seq = seq, .lost_seen = lost, .charged = {lost}};
}

/* Losses move no position: of two notes of one position the newer is read, the older overwritten. */
static void test_two_notes_of_one_position(void **state)
{
	static __attribute__((aligned(RT_PAGE_BYTES))) struct rt_ring_consumer page;
	struct rt_ring_note note, a = note_at(64, 20, 10), b = note_at(64, 24, 14),
			    c = note_at(64, 30, 20), d = note_at(64, 31, 21);

	(void)state;
	ring_note_write(&page, &a);
	ring_note_write(&page, &b);
	assert_true(ring_note_read(&page, 64, 14, &note));
	assert_int_equal(note.seq, 24);
	ring_note_write(&page, &c);
	assert_int_equal(page.note[0].seq + page.note[1].seq, 24 + 30);
	assert_true(ring_note_read(&page, 64, 20, &note));
	assert_int_equal(note.seq, 30);
	ring_note_write(&page, &d);
	assert_int_equal(page.note[0].seq + page.note[1].seq, 30 + 31);
	assert_true(ring_note_read(&page, 64, 21, &note));
	assert_int_equal(note.seq, 31);
}

/* A writer that ends at any instruction leaves the old note or the new one, never a part of each. */
static void test_note_written_in_part(void **state)
{
	struct rt_ring_consumer *page = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rt_ring_note note, a = note_at(64, 20, 10), b = note_at(64, 24, 14),
			    c = note_at(64, 30, 20);
	int status = 0;
	pid_t pid;

	(void)state;
	assert_true(page != MAP_FAILED);
	ring_note_write(page, &a);
	ring_note_write(page, &b);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		raise(SIGSTOP);
		ring_note_write(page, &c);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	for (unsigned steps = 0; steps < STEPS_MAX && WIFSTOPPED(status); steps++) {
		assert_true(ring_note_read(page, 64, 20, &note));
		assert_true(note.seq == b.seq || note.seq == c.seq);
		assert_memory_equal(&note, note.seq == b.seq ? &b : &c, sizeof(note));
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	assert_true(WIFEXITED(status));
	assert_true(ring_note_read(page, 64, 20, &note));
	assert_int_equal(note.seq, c.seq);
	munmap(page, RT_PAGE_BYTES);
}

/* Notes that cannot be true: the reader reads, and says that its numbers are nobody's. */
static void test_impossible_notes(void **state)
{
	static struct fixture f;
	static __attribute__((aligned(RT_PAGE_BYTES))) uint8_t copy[RT_PAGE_BYTES];
	struct rt_ring_consumer *page = (struct rt_ring_consumer *)copy;
	struct rt_ring_note note;

	(void)state;
	setup_ring(&f);
	for (unsigned damage = 0; damage < 7; damage++) {
		struct ring_reader *reader;

		memcpy(copy, f.consumer, sizeof(copy));
		for (unsigned i = 0; i < 2; i++) {
			struct rt_ring_note *mine = &page->note[i];

			switch (damage) {
			case 0: mine->pos += 8; break;
			case 1: mine->pos = RT_NOTE_UNFINISHED; break;
			case 2:
				mine->lost_seen = f.producer->lost_total + 1;
				mine->charged[RT_LOST_FULL] = mine->lost_seen - mine->owed;
				mine->seq = 2 * mine->lost_seen;
				break;
			case 3: mine->owed = mine->lost_seen + 1; break;
			case 4: mine->charged[RT_LOST_NEST]++; break;
			case 5:
				/* All but this: there are no attempts that so much was lost of. */
				memset(mine->charged, 0, sizeof(mine->charged));
				mine->owed = 0;
				mine->lost_seen = mine->charged[0] = f.producer->lost_total;
				mine->seq = mine->lost_seen - 1;
				break;
			case 6: mine->seq = RING_SEQ_MAX; break;
			}
		}
		assert_false(ring_note_read(page, page->consumer_pos, f.producer->lost_total,
					    &note));
		reader = open_reader(&f, page);
		assert_int_equal(ring_reader_epoch(reader), 0);
		ring_reader_destroy(reader);
	}
	assert_true(ring_note_read(f.consumer, f.consumer->consumer_pos, f.producer->lost_total,
				   &note));
	ring_writer_destroy(f.writer);
}

/* Each of its numbers, whichever of the two notes it is. */
static void test_note_is_whole(void **state)
{
	struct rt_ring_consumer page = {0};

	(void)state;
	for (uint64_t i = 1; i <= 3; i++) {
		struct rt_ring_note note = {.pos = 8 * i, .seq = 100 * i, .lost_seen = 40, .owed = 4, .missed = 5 + i}, got;

		for (unsigned j = 0; j < RT_LOST_REASONS; j++)
			note.charged[j] = j + 1;
		assert_int_equal(RT_LOST_REASONS, 8);	/* so that 36 of the 40 are charged */
		ring_note_write(&page, &note);
		assert_true(ring_note_read(&page, note.pos, 40, &got));
		assert_memory_equal(&got, &note, sizeof(note));
		assert_false(ring_note_read(&page, note.pos, 39, &got));
		assert_false(ring_note_read(&page, note.pos + 8, 40, &got));
	}
	/* The one before is still there; the one before that was overwritten. */
	assert_true(ring_note_read(&page, 16, 40, &(struct rt_ring_note){0}));
	assert_false(ring_note_read(&page, 8, 40, &(struct rt_ring_note){0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stopped_anywhere),
		cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_losses_alone),
		cmocka_unit_test(test_losses_without_records),
		cmocka_unit_test(test_ends_between_two_reasons),
		cmocka_unit_test(test_two_notes_of_one_position),
		cmocka_unit_test(test_note_written_in_part),
		cmocka_unit_test(test_impossible_notes),
		cmocka_unit_test(test_note_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
