/*
 * Events of programs on their way into the daemon's ring: by the header's own writer, by processes that are killed
 * while they write, and by memory that somebody has overwritten. All programs come in one order of time; a broken
 * one costs itself alone.
 */
#include "proto/ringtail-probe.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/programs/counter_clock.h"
#include "daemon/programs/inlet.h"
#include "daemon/programs/reader.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/writer.h"

#define RING_BYTES	(1u << 14)
#define ALL_RING_BYTES	(1u << 20)
#define PROBE_ID	RT_PROBE_PROGRAM
#define PROGRAMS	3
#define COUNTER_ERROR_NS 100000	/* where the thread that looks at the clocks loses its CPU each time; 50 in quiet */

struct fixture {
	struct ring_writer *writer;
	struct ring_reader *reader;
	struct program_inlet *inlet;
	struct inlet_program *program[PROGRAMS];
	struct program_segment segment[PROGRAMS];
	unsigned programs;
	bool unused;			/* nobody asks for their probes yet */
	bool other_pids;		/* they are in a namespace of their own */
	uint8_t word_of_scope;		/* the word that is one's scope; 0: none is */
	uint8_t unit;			/* of the second word, if that is an array; 0: it is a text */
	int memory;			/* the last program's, to be looked at */

	/* What came out. */
	uint64_t events, lost, threads, bad, last_ns;
	uint64_t of_pid[PROGRAMS];
	uint32_t last_tid;
	uint64_t last_word;		/* the second one of the last event, */
	uint64_t last_attached;		/* and what came with it */
	uint32_t pid_of_tid;		/* as introduced last */
	uint64_t next[PROGRAMS];	/* the count that each program's next event has */
	bool in_order;
};

static void begin_with(struct fixture *f, uint64_t all_ring_bytes)
{
	struct ring_writer_config config = {.cpu = 2, .ring_bytes = all_ring_bytes, .policy = RT_POLICY_DROP};
	struct error error;
	size_t bytes;
	void *map;

	*f = (struct fixture){.in_order = true};
	assert_int_equal(ring_writer_create(&config, &f->writer, &error), 0);
	map = ring_writer_map(f->writer, &bytes);
	assert_int_equal(ring_reader_create(map, bytes, ring_writer_consumer(f->writer), &f->reader, &error), 0);
	f->inlet = program_inlet_create(f->writer);
	assert_non_null(f->inlet);
}

static void begin(struct fixture *f)
{
	begin_with(f, ALL_RING_BYTES);
}

static void finish(struct fixture *f)
{
	program_inlet_destroy(f->inlet);
	ring_reader_destroy(f->reader);
	ring_writer_destroy(f->writer);
}

/* A program of so many CPUs, with one probe: a count and a text. */
static unsigned attach(struct fixture *f, uint32_t cpus, bool rseq)
{
	struct inlet_config *config = calloc(1, sizeof(*config) + sizeof(config->probe[0]));
	unsigned i = f->programs++;

	assert_non_null(config);
	assert_int_equal(program_segment_create(&f->segment[i], cpus, RING_BYTES, rseq, 1), 0);
	if (f->unused)
		f->memory = dup(f->segment[i].fd);
	program_segment_close_fd(&f->segment[i]);
	config->pid = 100 + i;
	config->uid = 1000 + i;
	config->same_pids = !f->other_pids;
	memcpy(config->comm, "program", 8);
	config->segment = f->segment[i];
	config->probes = 1;
	config->probe[0] = (struct inlet_probe){.id = PROBE_ID, .words = 2, .unit = {0, f->unit ? f->unit : 1}, .scope = f->word_of_scope};
	f->program[i] = program_inlet_add(f->inlet, config);
	assert_non_null(f->program[i]);
	if (!f->unused)
		program_inlet_use(f->program[i], true);
	return i;
}

static void take(struct fixture *f, const struct ring_item *item)
{
	const struct rt_thread *thread = (const void *)item->payload;

	if (item->probe == RT_PROBE_THREAD) {
		f->threads++;
		f->pid_of_tid = thread->pid;
		assert_true(thread->pid >= 100 && thread->pid < 100 + f->programs && thread->uid == thread->pid + 900);
	} else if (item->probe == PROBE_ID) {
		unsigned i = f->pid_of_tid - 100;

		assert_true(item->words >= 3);
		f->events++;
		f->of_pid[i]++;
		f->in_order &= item->time_ns >= f->last_ns;
		f->last_ns = item->time_ns;
		f->last_tid = item->tid;
		f->last_word = item->payload[1];
		f->last_attached = item->words > 3 ? item->payload[3] >> 32 : 0;
	} else {
		f->bad++;
	}
}

static void pull_once(struct fixture *f, uint64_t until_ns)
{
	struct inlet_pulled pulled;
	struct ring_item item;
	enum ring_read got;

	program_inlet_pull(f->inlet, until_ns, &pulled);
	while ((got = ring_reader_next(f->reader, &item)) != RING_EMPTY) {
		assert_int_not_equal(got, RING_CORRUPT);
		if (got == RING_LOST)
			f->lost += item.count;
		else
			take(f, &item);
	}
	ring_reader_release(f->reader);
}

/* All that is there, into the ring and out of it. */
static void pull(struct fixture *f)
{
	for (unsigned turn = 0; turn < 4; turn++)
		pull_once(f, clock_monotonic());
}

/* By the header's own code, from this thread. */
static void emit(struct fixture *f, unsigned i, uint64_t count, const char *text)
{
	rt_probe_segment = f->segment[i].map;
	rt_probe_shift = (uintptr_t)f->segment[i].map->enabled - (uintptr_t)__start_rt_probe_words;
	RT_PROBE(app, counted, "%lu %s", (unsigned long)count, text);
	rt_probe_shift = 0;
}

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);

static uint64_t later_ns;		/* so much later it is */
static struct fixture *amid_clock;	/* whose first program writes just after the clock is read */

uint64_t __wrap_clock_monotonic(void)
{
	uint64_t now = __real_clock_monotonic() + later_ns;
	struct fixture *f = amid_clock;

	amid_clock = NULL;
	if (f)
		emit(f, 0, 1, "just after");
	return now;
}

/* ---- Good programs ------------------------------------------------------------------------------- */

static void test_disabled_probe_writes_nothing(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 2, true);
	emit(&f, 0, 1, "text");
	pull(&f);
	assert_int_equal(f.events + f.lost, 0);
	program_segment_enable(&f.segment[0], 0, true);
	emit(&f, 0, 1, "text");
	program_segment_enable(&f.segment[0], 0, false);
	emit(&f, 0, 2, "text");
	pull(&f);
	assert_int_equal(f.events, 1);
	finish(&f);
}

static long memory_pages(const struct fixture *f)
{
	struct stat stat;

	assert_int_equal(fstat(f->memory, &stat), 0);
	return stat.st_blocks * 512 / RT_PROGRAM_PAGE;
}

/*
 * A thousand programs that nobody traces take a page each, however many CPUs there are. One that has ended its
 * connection, and has the memory mapped yet, keeps the pages in front of its rings.
 */
static void test_memory_is_taken_when_traced(void **state)
{
	enum { CPUS = 64, HEADS = 1 + CPUS + 1 };
	uint64_t ended = counter_read(COUNTER_programs_ended);
	struct fixture f;

	(void)state;
	begin(&f);
	f.unused = true;
	attach(&f, CPUS, true);
	pull(&f);
	assert_int_equal(memory_pages(&f), 1);
	program_inlet_end(f.inlet, f.program[0]);
	pull(&f);
	close(f.memory);
	attach(&f, CPUS, true);
	program_inlet_use(f.program[1], true);
	program_segment_enable(&f.segment[1], 0, true);
	emit(&f, 1, 0, "now it is");
	pull(&f);
	assert_int_equal(f.events, 1);
	for (unsigned n = 0; n < 100; n++)
		emit(&f, 1, n, "a text that takes more than a page or two");
	assert_true(memory_pages(&f) > HEADS);
	program_inlet_end(f.inlet, f.program[1]);
	while (counter_read(COUNTER_programs_ended) < ended + 2)
		pull(&f);
	assert_int_equal(memory_pages(&f), HEADS);
	close(f.memory);
	finish(&f);
}

/* Nobody writes to a ring of which nothing was read: a hundred thousand of them may be looked at each 5 ms. */
static void test_what_has_not_changed_is_only_looked_at(void **state)
{
	enum { UNTOUCHED = 4711 };
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 1, false);
	program_segment_enable(&f.segment[0], 0, true);
	for (uint32_t i = 0; i < f.segment[0].rings; i++)
		program_segment_ring(&f.segment[0], i)->consumer_pos = UNTOUCHED;
	pull(&f);
	for (uint32_t i = 0; i < f.segment[0].rings; i++) {
		assert_int_equal(program_segment_ring(&f.segment[0], i)->consumer_pos, UNTOUCHED);
		program_segment_ring(&f.segment[0], i)->consumer_pos = 0;
	}
	emit(&f, 0, 1, "text");
	for (uint32_t i = 0; i < f.segment[0].rings; i++)
		if (!program_segment_ring(&f.segment[0], i)->producer_pos)
			program_segment_ring(&f.segment[0], i)->consumer_pos = UNTOUCHED;
	pull(&f);
	assert_int_equal(f.events, 1);
	for (uint32_t i = 0; i < f.segment[0].rings; i++) {
		const struct rt_program_ring *ring = program_segment_ring(&f.segment[0], i);

		assert_int_equal(ring->consumer_pos, ring->producer_pos ? ring->producer_pos : UNTOUCHED);
	}
	finish(&f);
}

/* An event that is there when nobody looks any more is read when somebody asks again. */
static void test_what_nobody_asks_for_comes_to_rest(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 2, true);
	program_segment_enable(&f.segment[0], 0, true);
	for (unsigned turn = 1; turn <= 2; turn++) {
		program_inlet_use(f.program[0], true);
		pull(&f);
		assert_int_equal(f.events, 3 * turn - 3);
		later_ns += 2 * PROGRAM_REST_NS;
		emit(&f, 0, 1, "it is asked for");
		pull(&f);
		assert_int_equal(f.events, 3 * turn - 2);
		program_inlet_use(f.program[0], false);
		pull(&f);
		emit(&f, 0, 2, "its threads may be amid one");
		pull(&f);
		assert_int_equal(f.events, 3 * turn - 1);
		later_ns += 2 * PROGRAM_REST_NS;
		pull(&f);
		emit(&f, 0, 3, "nobody looks");
		pull(&f);
		assert_int_equal(f.events, 3 * turn - 1);
		/* Between two pulls, on and off: what was written meanwhile is not left there. */
		program_inlet_use(f.program[0], true);
		program_inlet_use(f.program[0], false);
		pull(&f);
		assert_int_equal(f.events, 3 * turn);
	}
	assert_int_equal(f.lost + f.bad, 0);
	later_ns = 0;
	finish(&f);
}

/* What it wrote when nobody looked is read as it ends. */
static void test_what_rests_is_read_at_its_end(void **state)
{
	uint64_t ended = counter_read(COUNTER_programs_ended), cut = counter_read(COUNTER_programs_cut);
	uint64_t deadline = clock_monotonic() + 20 * NS_PER_S;
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 2, true);
	program_segment_enable(&f.segment[0], 0, true);
	pull(&f);
	program_inlet_use(f.program[0], false);
	pull(&f);
	later_ns += 2 * PROGRAM_REST_NS;
	pull(&f);
	emit(&f, 0, 1, "nobody looks");
	pull(&f);
	assert_int_equal(f.events, 0);
	program_inlet_end(f.inlet, f.program[0]);
	while (counter_read(COUNTER_programs_ended) == ended && clock_monotonic() < deadline)
		pull(&f);
	assert_int_equal(f.events, 1);
	assert_int_equal(counter_read(COUNTER_programs_cut), cut);
	later_ns = 0;
	finish(&f);
}

/* Of two programs, by rseq and by locks: whose event it is, in one order, each loss counted once. */
static void test_events_and_losses_add_up(void **state)
{
	enum { COUNT = 3000 };
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 64, true);
	attach(&f, 1, false);
	for (unsigned i = 0; i < 2; i++)
		program_segment_enable(&f.segment[i], 0, true);
	for (unsigned n = 0; n < COUNT; n++) {
		emit(&f, n % 2, n, n % 3 ? "a text of some length" : NULL);
		if (n % 100 == 0)
			pull(&f);
	}
	pull(&f);
	assert_int_equal(f.events, COUNT);
	assert_int_equal(f.of_pid[0], f.of_pid[1]);
	assert_int_equal(f.lost + f.bad, 0);
	assert_true(f.in_order && f.threads >= 2);
	for (unsigned n = 0; n < COUNT; n++)
		emit(&f, n % 2, n, "nobody reads meanwhile");
	pull(&f);
	assert_true(f.lost > 0);
	assert_int_equal(f.events + f.lost, 2 * COUNT);
	finish(&f);
}

/* By the processor's counter, by the vDSO, and by both in turns: one order of time, and each time is when it was. */
static void test_counts_are_times(void **state)
{
	enum { COUNT = 1000 };
	uint64_t before, after;
	struct fixture f;

	(void)state;
	if (!counter_is_clock())
		skip();
	begin(&f);
	for (unsigned i = 0; i < 2; i++) {
		attach(&f, 64, i == 0);
		program_segment_enable(&f.segment[i], 0, true);
	}
	for (unsigned n = 0; n < COUNT; n++) {
		program_segment_count(&f.segment[0], n % 3 == 0);
		program_segment_count(&f.segment[1], n % 5 == 0);
		before = clock_monotonic();
		emit(&f, n % 2, n, "text");
		after = clock_monotonic();
		if (n % 7)
			continue;
		pull(&f);
		assert_true(f.last_ns + COUNTER_ERROR_NS >= before && f.last_ns <= after + COUNTER_ERROR_NS);
	}
	pull(&f);
	assert_int_equal(f.events, COUNT);
	assert_int_equal(f.lost + f.bad, 0);
	finish(&f);
}

/* What is published while the daemon reads the clock has a later time than that, and keeps it. */
static void test_a_time_is_kept_that_is_after_the_look(void **state)
{
	struct fixture f;
	uint64_t before;

	(void)state;
	begin(&f);
	attach(&f, 2, true);
	program_segment_enable(&f.segment[0], 0, true);
	before = clock_monotonic();
	amid_clock = &f;
	pull_once(&f, before);
	assert_null(amid_clock);
	assert_int_equal(f.events, 0);
	pull_once(&f, clock_monotonic());
	assert_int_equal(f.events, 1);
	assert_true(f.last_ns > before);
	finish(&f);
}

/* The longest text is cut at its bound; the shortest is none. */
static void test_texts_are_bounded(void **state)
{
	char text[4 * RT_PROGRAM_STRING_MAX];
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 64, true);
	program_segment_enable(&f.segment[0], 0, true);
	for (size_t bytes = 0; bytes < sizeof(text); bytes++) {
		memset(text, 'x', sizeof(text));
		text[bytes] = '\0';
		emit(&f, 0, bytes, text);
		pull(&f);
	}
	assert_int_equal(f.events, sizeof(text));
	assert_int_equal(f.bad + f.lost, 0);
	finish(&f);
}

/* Of an array, the first bytes for which there is room; what is no array, or has a number that cannot be, is empty. */
static void test_arrays_are_bounded(void **state)
{
	static const uint32_t many[3 * RT_PROGRAM_STRING_MAX / 4];
	static const struct {
		const uint32_t *at;
		long count;
		uint64_t bytes;
	} arrays[] = {
		{many, 0, 0}, {many, 1, 4}, {many, 32, 128}, {many, 33, 132}, {many, 96, 384}, {NULL, 5, 0}, {many, -1, 0},
		{NULL, 0, 0},
	};
	static const uint8_t type[] = {rt_program_type(RT_PROGRAM_UNSIGNED, 8), rt_program_type(RT_PROGRAM_UNSIGNEDS, 4)};
	const struct rt_probe_site site = {.arguments = 2, .type = type, .word = __start_rt_probe_words};
	struct fixture f;

	(void)state;
	begin(&f);
	f.unit = 4;
	attach(&f, 64, true);
	program_segment_enable(&f.segment[0], 0, true);
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
		const uint64_t *values = (const uint64_t[]){i, RT_VALUE_OF(RT_ARRAY(arrays[i].at, arrays[i].count))};

		rt_probe_segment = f.segment[0].map;
		rt_probe_emit(&site, values);
		pull(&f);
		assert_int_equal(f.events, i + 1);
		assert_int_equal(f.last_word, arrays[i].bytes);
		assert_int_equal(f.last_attached, arrays[i].bytes < RT_PROGRAM_STRING_MAX ? arrays[i].bytes :
						  RT_PROGRAM_STRING_MAX);
	}
	assert_int_equal(f.bad + f.lost, 0);
	finish(&f);
}

/* Killed at any instruction: what was published is whole, and what was published last is read. */
static void test_killed_while_it_writes(void **state)
{
	uint64_t bad = counter_read(COUNTER_program_records_bad);

	(void)state;
	for (unsigned kills = 0; kills < 40; kills++) {
		struct fixture f;
		pid_t pid;

		begin(&f);
		attach(&f, 64, true);
		program_segment_enable(&f.segment[0], 0, true);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			for (uint64_t n = 0;; n++)
				emit(&f, 0, n, "killed");
		for (unsigned i = 0; i < 1 + kills % 5; i++)
			pull(&f);
		usleep(kills * 37);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		program_inlet_end(f.inlet, f.program[0]);
		pull(&f);
		/* A second program goes on. */
		attach(&f, 64, true);
		f.events = 0;
		program_segment_enable(&f.segment[1], 0, true);
		emit(&f, 1, 0, "lives");
		pull(&f);
		assert_int_equal(f.of_pid[1], 1);
		assert_int_equal(f.bad, 0);
		finish(&f);
	}
	assert_int_equal(counter_read(COUNTER_program_records_bad), bad);
}

/* ---- Broken memory ------------------------------------------------------------------------------- */

static uint64_t random_of(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 17 ^ *seed << 23;
}

/* Whatever the memory of one holds, the other's events come, all of them, and nothing is read beyond it. */
static void test_garbage_costs_itself_alone(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct fixture f;
		uint64_t *words;

		begin(&f);
		attach(&f, 2, round % 2);
		attach(&f, 64, true);
		words = (uint64_t *)f.segment[0].map;
		for (size_t i = 0; i < f.segment[0].bytes / 8; i += 1 + random_of(&seed) % 16)
			words[i] = random_of(&seed) >> random_of(&seed) % 64;
		for (uint32_t i = 0; i < f.segment[0].rings; i++)
			program_segment_ring(&f.segment[0], i)->producer_pos = random_of(&seed) % (RING_BYTES + 64) & ~7ull;
		program_segment_enable(&f.segment[1], 0, true);
		for (unsigned n = 0; n < 20; n++) {
			emit(&f, 1, n, "good");
			pull(&f);
		}
		program_inlet_end(f.inlet, f.program[0]);
		pull(&f);
		assert_int_equal(f.of_pid[1], 20);
		finish(&f);
	}
}

static void put(struct fixture *f, uint64_t at, const uint64_t *words, size_t bytes)
{
	memcpy((char *)program_segment_ring(&f->segment[0], 0) + RT_PROGRAM_PAGE + at, words, bytes);
}

/* One bad ring each: what must be refused as a whole, and what is one bad record. */
static void test_each_rule_broken(void **state)
{
	enum { TEXT = RT_PROGRAM_ATTACHMENT };
	static const struct {
		const char *what;
		uint64_t pos;
		uint64_t words[8];
		unsigned bad, events;
		uint8_t unit;			/* of an array; 0: it is a text */
	} broken[] = {
		{"position is odd", 4, {0}, 0, 0, 0},
		{"position is beyond the ring", RING_BYTES + 8, {0}, 0, 0, 0},
		{"position overflows", ~7ull, {0}, 0, 0, 0},
		{"no words", 64, {0}, 0, 0, 0},
		{"too few words", 64, {2ull << 16}, 0, 0, 0},
		{"more words than published", 32, {5ull << 16}, 0, 0, 0},
		{"more words than there can be", RING_BYTES, {(uint64_t)(RT_PROGRAM_WORDS_MAX + 1) << 16}, 0, 0, 0},
		{"words overflow", RING_BYTES, {0xffffffffffffull << 16}, 0, 0, 0},
		{"filler in the middle", 64, {2ull << 16 | RT_PROGRAM_PAD}, 0, 0, 0},
		{"unknown probe", 40, {5ull << 16 | 1}, 1, 0, 0},
		{"no arguments", 32, {4ull << 16}, 1, 0, 0},
		{"text of no argument", 48, {6ull << 16, 0, 0, 1, 1, 9ull << 16 | TEXT}, 1, 0, 0},
		{"text of a number", 48, {6ull << 16, 0, 0, 1, 1, TEXT}, 1, 0, 0},
		{"text is cut", 48, {6ull << 16, 0, 0, 1, 1, 8ull << 32 | 1ull << 16 | TEXT}, 1, 0, 0},
		{"text is too long", 48, {6ull << 16, 0, 0, 1, 1, 0xffffffffull << 32 | 1ull << 16 | TEXT}, 1, 0, 0},
		{"no text", 48, {6ull << 16, 0, 0, 1, 1, 7}, 1, 0, 0},
		{"good", 56, {7ull << 16, 1, 0, 1, 1, 8ull << 32 | 1ull << 16 | TEXT, 65}, 0, 1, 0},
		{"part of an element", 56, {7ull << 16, 1, 0, 1, 1, 6ull << 32 | 1ull << 16 | TEXT, 65}, 1, 0, 4},
		{"elements of a number", 48, {6ull << 16, 0, 0, 1, 1, TEXT}, 1, 0, 4},
		{"whole elements", 56, {7ull << 16, 1, 0, 1, 1, 8ull << 32 | 1ull << 16 | TEXT, 65}, 0, 1, 4},
		{"more of them than there are", 48, {6ull << 16, 1, 0, 1, ~0ull, 1ull << 16 | TEXT}, 0, 1, 8},
		{"time to come", 40, {5ull << 16, ~0ull, 0, 1, 1}, 0, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		uint64_t corrupt = counter_read(COUNTER_programs_corrupt);
		bool refused = !broken[i].bad && !broken[i].events;
		uint64_t began = clock_monotonic();
		struct fixture f;

		begin(&f);
		f.unit = broken[i].unit;
		attach(&f, 2, true);
		put(&f, 0, broken[i].words, sizeof(broken[i].words));
		program_segment_ring(&f.segment[0], 0)->producer_pos = broken[i].pos;
		pull(&f);
		/* What was lost with a ring stands there as one. */
		if (f.bad != broken[i].bad + refused || f.events != broken[i].events ||
		    counter_read(COUNTER_programs_corrupt) - corrupt != refused)
			fail_msg("%s: %d bad, %d events", broken[i].what, (int)f.bad, (int)f.events);
		/* No event is of before the program came, or of a time to come. */
		if (f.events)
			assert_in_range(f.last_ns, began, clock_monotonic());
		program_inlet_end(f.inlet, f.program[0]);
		pull(&f);
		finish(&f);
	}
}

static void test_position_runs_backwards(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 1, false);
	attach(&f, 64, true);
	program_segment_enable(&f.segment[0], 0, true);
	emit(&f, 0, 1, "one");
	pull(&f);
	for (uint32_t i = 0; i < f.segment[0].rings; i++)
		program_segment_ring(&f.segment[0], i)->producer_pos = 8;
	pull(&f);
	program_segment_ring(&f.segment[0], 0)->producer_pos = 1 << 10;
	pull(&f);
	assert_int_equal(f.events, 1);
	finish(&f);
}

/* So many records without a text, of this time, in one ring. */
static void fill(struct fixture *f, unsigned i, uint32_t ring, unsigned count, uint64_t time_ns)
{
	struct rt_program_ring *to = program_segment_ring(&f->segment[i], ring);
	const uint64_t words[5] = {5ull << 16, time_ns, 7, 0, 0};
	uint64_t *at = (uint64_t *)((char *)to + RT_PROGRAM_PAGE);

	assert_true(count * sizeof(words) <= RING_BYTES && !to->producer_pos);
	for (unsigned n = 0; n < count; n++)
		memcpy(&at[n * 5], words, sizeof(words));
	__atomic_store_n(&to->producer_pos, count * sizeof(words), __ATOMIC_RELEASE);
}

/* However many rings have something, a pass ends: the kernel's rings are read on the same thread. */
static void test_a_pass_has_a_bound(void **state)
{
	enum { RINGS = 200, EACH = 400 };
	uint64_t before = counter_read(COUNTER_program_records), passed;
	struct inlet_pulled pulled;
	struct fixture f;

	(void)state;
	begin_with(&f, 16 << 20);
	for (unsigned i = 0; i < 2; i++) {
		attach(&f, RINGS, false);
		for (uint32_t ring = 0; ring < RINGS; ring++)
			fill(&f, i, ring, EACH, 1);
	}
	program_inlet_pull(f.inlet, clock_monotonic(), &pulled);
	passed = counter_read(COUNTER_program_records) - before;
	assert_true(passed > PROGRAM_PASS_RECORDS / 2 && passed <= PROGRAM_PASS_RECORDS + 2 * RINGS);
	finish(&f);
}

/* Times are what a program says: clients wait for old ones a while, and no longer. */
static void test_a_fake_past_holds_nobody_up(void **state)
{
	uint64_t waits = counter_read(COUNTER_program_waits_ended), now;
	struct inlet_pulled pulled;
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 2, false);
	usleep(PROGRAM_WAIT_NS_MAX / 1000 + 100000);
	now = clock_monotonic();
	fill(&f, 0, 0, 400, 1);
	/* All of it is due, and cannot be passed: `until` is before. */
	program_inlet_pull(f.inlet, 0, &pulled);
	assert_true(pulled.oldest_ns >= now - PROGRAM_WAIT_NS_MAX && pulled.oldest_ns <= clock_monotonic());
	assert_true(counter_read(COUNTER_program_waits_ended) > waits);
	finish(&f);
}

/* A record of now, by a program that does not care whether its probe is enabled. */
static uint64_t write_on(struct rt_program_segment *segment)
{
	struct rt_program_ring *ring = rt_probe_ring(segment, 0);
	uint64_t *at = rt_probe_place(segment, ring, ring->producer_pos);

	at[0] = 4ull << 16 | 1;
	at[1] = clock_monotonic();
	at[2] = at[3] = 0;
	__atomic_store_n(&ring->producer_pos, ring->producer_pos + 32, __ATOMIC_RELEASE);
	return at[1];
}

/* Its memory goes though somebody has it yet, and at each look there is something new; that it is lost is told. */
static void test_what_has_ended_goes_though_it_writes(void **state)
{
	uint64_t ended = counter_read(COUNTER_programs_ended), cut = counter_read(COUNTER_programs_cut);
	uint64_t deadline = clock_monotonic() + 20 * NS_PER_S;
	struct rt_program_segment *kept;
	struct fixture f;

	(void)state;
	begin(&f);
	f.unused = true;
	attach(&f, 2, false);
	kept = mmap(NULL, f.segment[0].bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f.memory, 0);
	assert_true(kept != MAP_FAILED);
	program_inlet_use(f.program[0], true);
	program_inlet_end(f.inlet, f.program[0]);
	while (counter_read(COUNTER_programs_ended) == ended && clock_monotonic() < deadline) {
		pull_once(&f, write_on(kept) - 1);
		usleep(100);
	}
	assert_int_equal(counter_read(COUNTER_programs_ended), ended + 1);
	assert_int_equal(counter_read(COUNTER_programs_cut), cut + 1);
	assert_true(f.bad > 0);
	munmap(kept, f.segment[0].bytes);
	close(f.memory);
	finish(&f);
}

/* What a thread was about to write as the connection closed is read yet, and nothing is said. */
static void test_what_has_ended_has_a_last_word(void **state)
{
	uint64_t ended = counter_read(COUNTER_programs_ended), cut = counter_read(COUNTER_programs_cut);
	uint64_t deadline = clock_monotonic() + 20 * NS_PER_S;
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 2, false);
	program_segment_enable(&f.segment[0], 0, true);
	program_inlet_end(f.inlet, f.program[0]);
	pull_once(&f, clock_monotonic());
	emit(&f, 0, 0, "its last");
	while (counter_read(COUNTER_programs_ended) == ended && clock_monotonic() < deadline) {
		pull_once(&f, clock_monotonic());
		usleep(100);
	}
	assert_int_equal(f.events, 1);
	assert_int_equal(f.bad, 0);
	assert_int_equal(counter_read(COUNTER_programs_cut), cut);
	finish(&f);
}

#ifdef RT_PROBE_RSEQ
/* The kernel looks at what the thread says of its critical section: the object that it lies in may be unloaded. */
static void test_a_thread_keeps_nothing_of_the_object(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 64, true);
	program_segment_enable(&f.segment[0], 0, true);
	for (unsigned n = 0; n < 100; n++) {
		uint64_t section;

		emit(&f, 0, n, "text");
		memcpy(&section, (char *)(uintptr_t)rt_probe_rseq() + offsetof(struct rseq, rseq_cs), sizeof(section));
		assert_int_equal(section, 0);
	}
	finish(&f);
}
#endif

/* A number that cannot be is not put into the ledger: no ring loses an event in less time than it takes. */
static void test_claimed_losses_are_bounded(void **state)
{
	static const uint64_t claim[] = {1ull << 62, INT64_MAX, ~0ull};
	uint64_t began = clock_monotonic();
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 2, true);
	usleep(20000);		/* so much it might have lost, once */
	for (unsigned i = 0; i < sizeof(claim) / sizeof(claim[0]); i++) {
		program_segment_ring(&f.segment[0], i % 2)->lost = claim[i];
		pull(&f);
	}
	assert_true(f.lost > 0 &&
		    f.lost <= (clock_monotonic() - began) / PROGRAM_LOSS_NS_MIN * f.segment[0].rings);
	assert_true(counter_read(COUNTER_program_claims_refused) > 0);
	finish(&f);
}

/* A thread of the same number in another program is another thread. */
static void test_claimed_threads_have_their_own_process(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	attach(&f, 64, true);
	attach(&f, 64, true);
	for (unsigned i = 0; i < 2; i++)
		program_segment_enable(&f.segment[i], 0, true);
	for (unsigned n = 0; n < 10; n++)
		emit(&f, n % 2, n, "same tid");
	pull(&f);
	assert_int_equal(f.of_pid[0], 5);
	assert_int_equal(f.of_pid[1], 5);
	finish(&f);
}

/* In a namespace of its own, its numbers of threads are those of others here. */
static void test_threads_of_another_namespace_are_not_believed(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	f.other_pids = true;
	attach(&f, 2, true);
	program_segment_enable(&f.segment[0], 0, true);
	emit(&f, 0, 1, "text");
	pull(&f);
	assert_int_equal(f.events, 1);
	assert_int_equal(f.last_tid, 100);
	finish(&f);
}

/* So what one of them did inside of its scope is not said to be in it; of a program that is known by its pid, it is. */
static void test_scopes_are_of_threads_that_are_known(void **state)
{
	(void)state;
	for (unsigned other = 0; other < 2; other++) {
		struct fixture f;

		begin(&f);
		f.other_pids = other;
		f.word_of_scope = 1;
		attach(&f, 2, true);
		program_segment_enable(&f.segment[0], 0, true);
		emit(&f, 0, 1, "its length is in the place of the scope");
		pull(&f);
		assert_int_equal(f.events, 1);
		assert_true((f.last_word != 0) == !other);
		finish(&f);
	}
}

/* Memory that shrinks would kill whoever reads it. */
static void test_the_memory_keeps_its_size(void **state)
{
	struct program_segment segment;

	(void)state;
	assert_int_equal(program_segment_create(&segment, 2, RING_BYTES, true, 1), 0);
	assert_int_not_equal(ftruncate(segment.fd, RT_PROGRAM_PAGE), 0);
	assert_int_not_equal(ftruncate(segment.fd, (off_t)segment.bytes + RT_PROGRAM_PAGE), 0);
	program_segment_destroy(&segment);
}

/* ---- One ring, by its reader ---------------------------------------------------------------------- */

struct one_ring {
	struct program_segment segment;
	struct program_reader reader;
	struct rt_program_ring *ring;
};

static void open_ring(struct one_ring *one)
{
	assert_int_equal(program_segment_create(&one->segment, 2, RING_BYTES, true, 1), 0);
	one->ring = program_segment_ring(&one->segment, 0);
	program_reader_init(&one->reader, one->ring, RING_BYTES);
}

/* A record of so many words behind the last, that says so much was lost before. */
static void publish(struct one_ring *one, uint64_t words, uint64_t lost)
{
	uint64_t *at = (uint64_t *)((char *)one->ring + RT_PROGRAM_PAGE + (one->ring->producer_pos & (RING_BYTES - 1)));

	at[0] = words << 16;
	if (one->ring->producer_pos % RING_BYTES + 24 <= RING_BYTES)
		at[2] = lost << 32;
	one->ring->producer_pos += words * 8;
}

static uint64_t take_lost(struct one_ring *one)
{
	struct program_item item;
	uint64_t time_ns;

	program_reader_look(&one->reader);
	assert_true(program_reader_peek(&one->reader, &time_ns));
	program_reader_take(&one->reader, &item);
	return item.lost;
}

static void test_what_was_published_is_not_taken_back(void **state)
{
	struct one_ring one;

	(void)state;
	open_ring(&one);
	publish(&one, 4, 0);
	publish(&one, 4, 0);
	program_reader_look(&one.reader);
	one.ring->producer_pos -= 32;
	program_reader_look(&one.reader);
	assert_true(one.reader.corrupt);
	program_segment_destroy(&one.segment);
}

/* The next ring lies behind it, or nothing. */
static void test_no_record_goes_over_the_end_of_its_ring(void **state)
{
	struct one_ring one;
	uint64_t time_ns;

	(void)state;
	open_ring(&one);
	while (one.ring->producer_pos < RING_BYTES - 32) {
		publish(&one, 4, 0);
		take_lost(&one);
	}
	publish(&one, 5, 0);
	program_reader_look(&one.reader);
	assert_false(program_reader_peek(&one.reader, &time_ns));
	assert_true(one.reader.corrupt);
	program_segment_destroy(&one.segment);
}

/* What a thread read before another counted is no loss of four billion. */
static void test_each_loss_counts_once(void **state)
{
	struct one_ring one;

	(void)state;
	open_ring(&one);
	publish(&one, 4, 5);
	assert_int_equal(take_lost(&one), 5);
	publish(&one, 4, 4);
	assert_int_equal(take_lost(&one), 0);
	publish(&one, 4, 7);
	assert_int_equal(take_lost(&one), 2);
	one.ring->lost = 9;
	assert_int_equal(program_reader_lost(&one.reader), 2);
	assert_int_equal(program_reader_lost(&one.reader), 0);
	program_segment_destroy(&one.segment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disabled_probe_writes_nothing),
		cmocka_unit_test(test_memory_is_taken_when_traced),
		cmocka_unit_test(test_what_has_not_changed_is_only_looked_at),
		cmocka_unit_test(test_what_nobody_asks_for_comes_to_rest),
		cmocka_unit_test(test_what_rests_is_read_at_its_end),
		cmocka_unit_test(test_events_and_losses_add_up),
		cmocka_unit_test(test_a_time_is_kept_that_is_after_the_look),
		cmocka_unit_test(test_counts_are_times),
		cmocka_unit_test(test_texts_are_bounded),
		cmocka_unit_test(test_arrays_are_bounded),
		cmocka_unit_test(test_killed_while_it_writes),
		cmocka_unit_test(test_garbage_costs_itself_alone),
		cmocka_unit_test(test_each_rule_broken),
		cmocka_unit_test(test_position_runs_backwards),
		cmocka_unit_test(test_a_pass_has_a_bound),
		cmocka_unit_test(test_a_fake_past_holds_nobody_up),
		cmocka_unit_test(test_what_has_ended_goes_though_it_writes),
		cmocka_unit_test(test_what_has_ended_has_a_last_word),
#ifdef RT_PROBE_RSEQ
		cmocka_unit_test(test_a_thread_keeps_nothing_of_the_object),
#endif
		cmocka_unit_test(test_claimed_losses_are_bounded),
		cmocka_unit_test(test_claimed_threads_have_their_own_process),
		cmocka_unit_test(test_threads_of_another_namespace_are_not_believed),
		cmocka_unit_test(test_scopes_are_of_threads_that_are_known),
		cmocka_unit_test(test_the_memory_keeps_its_size),
		cmocka_unit_test(test_what_was_published_is_not_taken_back),
		cmocka_unit_test(test_no_record_goes_over_the_end_of_its_ring),
		cmocka_unit_test(test_each_loss_counts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
