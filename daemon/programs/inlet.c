#include "daemon/programs/inlet.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/programs/counter_clock.h"
#include "daemon/programs/reader.h"
#include "daemon/ring/writer.h"

#define KNOWN_THREADS	4096		/* that were introduced; of more, some are introduced again */
#define PAYLOAD_WORDS_MAX (RT_RECORD_WORDS_MAX - RT_RECORD_HEADER_BYTES / 8)

_Static_assert(RT_PROGRAM_WORDS_MAX + 1 <= PAYLOAD_WORDS_MAX, "a record fits, and its CPU");
_Static_assert(RT_PROGRAM_STRING_MAX == RT_STRING_BYTES_MAX, "a text is a string");
_Static_assert(RT_PROGRAM_END_WORDS <= sizeof(((struct inlet_probe *)NULL)->unit), "each word has a unit");
_Static_assert(RT_PROGRAM_ATTACHMENT == RT_ATTACH_STRING, "it is attached as one");
_Static_assert(RT_PROGRAM_COMM_BYTES == RT_COMM_BYTES, "a name is a name");

/* One ring that has something to read. */
struct cursor {
	struct inlet_program *program;
	struct program_reader *reader;
	uint32_t ring;
	uint32_t left;			/* of its turn */
	uint64_t time_ns;
};

struct inlet_program {
	TAILQ_ENTRY(inlet_program) link;
	struct inlet_config *config;
	uint64_t serial;
	uint64_t began_ns;		/* when it was attached, */
	uint64_t lost;			/* and what it has said since that it lost, */
	uint64_t filtered, fresh;	/* and that it did not write; and in this pull */
	_Atomic bool wanted;		/* some of its probes are asked for */
	_Atomic uint32_t uses;		/* how often that has begun; 0: its rings take no memory yet */
	uint32_t uses_seen;		/* in this pull, */
	uint32_t uses_done;		/* and when its rings were found to be at rest: nobody looks at them any more */
	uint64_t unwanted_ns;		/* since when nobody asks; 0: somebody does */
	bool changed;			/* in this pull a ring has something to read */
	_Atomic bool ended;
	uint64_t ended_ns;		/* when that was seen; 0: it was not */
	bool frozen;			/* its rings were looked at for the last time */
	bool corrupt;			/* it was said, */
	bool claims;			/* and that */
	struct program_reader reader[];
};

TAILQ_HEAD(inlet_programs, inlet_program);

struct program_inlet {
	struct ring_writer *writer;
	_Atomic bool wanted;
	pthread_mutex_t lock;		/* of what is new, and of `serial` */
	struct inlet_programs fresh;
	uint64_t serial;

	/* The worker's. */
	struct inlet_programs programs;
	struct cursor *heap;		/* the oldest record first */
	uint32_t cursors, room, rings;
	uint64_t now_ns, until_ns;	/* of this pull */
	struct counter_clock clock;
	struct known {
		uint32_t tid;
		uint64_t serial;	/* of its program; 0: none */
	} known[KNOWN_THREADS];
};

/* ---- The heap ------------------------------------------------------------------------------------ */

static void sink(struct program_inlet *inlet, uint32_t at)
{
	struct cursor moved = inlet->heap[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= inlet->cursors)
			break;
		if (child + 1 < inlet->cursors && inlet->heap[child + 1].time_ns < inlet->heap[child].time_ns)
			child++;
		if (inlet->heap[child].time_ns >= moved.time_ns)
			break;
		inlet->heap[at] = inlet->heap[child];
		at = child;
	}
	inlet->heap[at] = moved;
}

static void drop_first(struct program_inlet *inlet)
{
	inlet->heap[0] = inlet->heap[--inlet->cursors];
	if (inlet->cursors)
		sink(inlet, 0);
}

static bool make_room(struct program_inlet *inlet)
{
	struct cursor *heap;

	if (inlet->rings <= inlet->room)
		return true;
	heap = realloc(inlet->heap, 2 * inlet->rings * sizeof(*heap));
	if (!heap)
		return false;
	inlet->heap = heap;
	inlet->room = 2 * inlet->rings;
	return true;
}

/* ---- Into the ring ------------------------------------------------------------------------------- */

/* A ring of the daemon's own is read at once, so this is about a worker that was not let do that. */
static bool has_room(const struct program_inlet *inlet)
{
	const struct rt_ring_producer *producer = ring_writer_map(inlet->writer, NULL);
	uint64_t consumed = __atomic_load_n(&ring_writer_consumer(inlet->writer)->consumer_pos, __ATOMIC_ACQUIRE);

	return producer->size_bytes - (producer->producer_pos - consumed) >
	       producer->subbuf_bytes + 4 * RT_RECORD_BYTES_MAX;
}

static void refuse_claim(struct inlet_program *program, uint64_t lost)
{
	counter_add(COUNTER_program_claims_refused, 1);
	if (!program->claims)
		log_warn("program-claims", "%.16s (process %u) says that %llu events of its probes are lost, which is more"
			 " than there can be: the rest is not counted", program->config->comm, program->config->pid,
			 (unsigned long long)lost);
	program->claims = true;
}

/* What a program says beyond what its CPUs can lose is not believed: it stands in everybody's ledger. */
static void pass_lost(struct program_inlet *inlet, struct inlet_program *program, uint64_t lost)
{
	uint64_t age = (inlet->now_ns - program->began_ns) / PROGRAM_LOSS_NS_MIN;
	uint64_t most = age * program->config->segment.rings - program->lost;

	if (lost > most) {
		refuse_claim(program, lost);
		lost = most;
	}
	if (!lost)
		return;
	program->lost += lost;
	ring_writer_lose(inlet->writer, RT_LOST_FULL, lost);
}

/* The same of what did not pass a program's tests. No ledger has that. */
static void count_filtered(const struct program_inlet *inlet, struct inlet_program *program)
{
	uint64_t age = (inlet->now_ns - program->began_ns) / PROGRAM_LOSS_NS_MIN;
	uint64_t most = age * program->config->segment.rings - program->filtered;
	uint64_t more = program->fresh < most ? program->fresh : most;

	program->fresh = 0;
	if (!more)
		return;
	program->filtered += more;
	counter_add(COUNTER_program_events_filtered, more);
}

static void introduce(struct program_inlet *inlet, const struct inlet_program *program, uint32_t tid,
		      uint64_t time_ns)
{
	const struct inlet_config *config = program->config;
	struct known *known = &inlet->known[tid % KNOWN_THREADS];
	struct rt_thread thread = {.pid = config->pid, .uid = config->uid, .start_ns = program->began_ns};
	struct ring_writer_record record = {
		.probe = RT_PROBE_THREAD, .tid = tid, .time_ns = time_ns,
		.payload = (const uint64_t *)&thread, .words = sizeof(thread) / 8,
	};

	if (known->tid == tid && known->serial == program->serial)
		return;
	memcpy(thread.comm, config->comm, sizeof(thread.comm));
	if (ring_writer_write(inlet->writer, &record) == 0)
		*known = (struct known){.tid = tid, .serial = program->serial};
}

/* Texts and arrays follow the words: each whole, of a word that has one, and nothing behind them. */
static bool are_attached(const struct inlet_probe *probe, const struct program_item *item)
{
	uint32_t at = probe->words;

	while (at < item->words) {
		uint64_t head = item->payload[at++];
		uint32_t bytes = head >> 32, word = head >> 16 & 0xffff;

		if ((head & 0xffff) != RT_PROGRAM_ATTACHMENT || word >= probe->words || !probe->unit[word] ||
		    bytes % probe->unit[word] || bytes > RT_PROGRAM_STRING_MAX || (bytes + 7) / 8 > item->words - at)
			return false;
		at += (bytes + 7) / 8;
	}
	return true;
}

/* What breaks its own form goes on as a record of no probe: the drain counts it as lost, in its place. */
static void pass_record(struct program_inlet *inlet, const struct cursor *cursor, const struct program_item *item,
			uint64_t time_ns)
{
	const struct inlet_config *config = cursor->program->config;
	const struct inlet_probe *probe = item->probe < config->probes ? &config->probe[item->probe] : NULL;
	bool good = probe && item->words >= probe->words && are_attached(probe, item);
	uint32_t words = good ? probe->words : 0;
	uint64_t payload[RT_PROGRAM_WORDS_MAX + 1];
	struct ring_writer_record record = {
		.probe = good ? probe->id : UINT16_MAX,
		.tid = config->same_pids ? item->tid : config->pid,
		.time_ns = time_ns, .payload = payload, .words = good ? item->words + 1 : 0,
	};

	introduce(inlet, cursor->program, record.tid, time_ns);
	memcpy(payload, item->payload, words * sizeof(*payload));
	/* Of a program whose threads have no numbers here, nobody can say what one of them did inside its scope. */
	if (good && probe->scope && !config->same_pids)
		payload[probe->scope] = 0;
	payload[words] = cursor->ring < config->segment.first_locked ? cursor->ring : UINT32_MAX;
	if (good)
		memcpy(payload + words + 1, item->payload + words, (item->words - words) * sizeof(*payload));
	else
		counter_add(COUNTER_program_records_bad, 1);
	ring_writer_write(inlet->writer, &record);
	counter_add(COUNTER_program_records, 1);
}

/* A time that cannot be is moved to where it can: to one that is due. */
static uint64_t believable(const struct program_inlet *inlet, const struct inlet_program *program, uint64_t time_ns)
{
	if (time_ns > inlet->now_ns)
		return inlet->until_ns;
	return time_ns < program->began_ns ? program->began_ns : time_ns;
}

/* The time of the ring's next record, if there is one. */
static bool peek(const struct program_inlet *inlet, struct cursor *cursor)
{
	uint64_t time;

	if (!program_reader_peek(cursor->reader, &time))
		return false;
	if (program_reader_counts(cursor->reader))
		time = counter_clock_ns(&inlet->clock, time);
	cursor->time_ns = believable(inlet, cursor->program, time);
	return true;
}

/* ---- A pull -------------------------------------------------------------------------------------- */

static void take_fresh(struct program_inlet *inlet)
{
	struct inlet_program *program;

	pthread_mutex_lock(&inlet->lock);
	while ((program = TAILQ_FIRST(&inlet->fresh))) {
		TAILQ_REMOVE(&inlet->fresh, program, link);
		TAILQ_INSERT_TAIL(&inlet->programs, program, link);
		inlet->rings += program->config->segment.rings;
	}
	pthread_mutex_unlock(&inlet->lock);
}

static void free_program(struct inlet_program *program)
{
	_Atomic bool *gone = program->config->gone;

	program_segment_destroy(&program->config->segment);
	free(program->config);
	free(program);
	if (gone)
		atomic_store(gone, true);
}

/* Where nobody asks any more, until all is read. What has ended is read to its end. */
static bool is_awake(struct inlet_program *program)
{
	uint32_t uses = atomic_load(&program->uses);

	if (uses != program->uses_seen)
		program->unwanted_ns = 0;
	program->uses_seen = uses;
	return uses && (atomic_load(&program->wanted) || uses != program->uses_done || program->ended_ns);
}

/* Each ring costs one look: there may be a hundred thousand, of which one is written. */
static void look(struct inlet_program *program)
{
	program->changed = false;
	if (!is_awake(program))
		return;
	for (uint32_t i = 0; i < program->config->segment.rings; i++) {
		program->changed |= program_reader_look(&program->reader[i]);
		program->fresh += program_reader_filtered(&program->reader[i]);
	}
}

/* Adds what has something to read. */
static void add_cursors(struct program_inlet *inlet, struct inlet_program *program)
{
	for (uint32_t i = 0; program->changed && i < program->config->segment.rings; i++) {
		struct cursor cursor = {.program = program, .reader = &program->reader[i], .ring = i};

		if (peek(inlet, &cursor))
			inlet->heap[inlet->cursors++] = cursor;
		else
			pass_lost(inlet, program, program_reader_lost(cursor.reader));
	}
}

/* The clock is read after the rings: what they have by then has a time before that, or one that cannot be. */
static void gather(struct program_inlet *inlet)
{
	struct inlet_program *program;

	TAILQ_FOREACH(program, &inlet->programs, link)
		look(program);
	inlet->now_ns = counter_clock_look(&inlet->clock);
	inlet->cursors = 0;
	TAILQ_FOREACH(program, &inlet->programs, link) {
		count_filtered(inlet, program);
		add_cursors(inlet, program);
	}
	for (uint32_t i = 0; i < inlet->cursors; i++)
		inlet->heap[i].left = 1 + PROGRAM_PASS_RECORDS / inlet->cursors;
	for (uint32_t i = inlet->cursors / 2; i--;)
		sink(inlet, i);
}

/* The next record of the oldest ring; the ring leaves the heap where it has no more, or its turn is over. */
static void pass_first(struct program_inlet *inlet, uint64_t *oldest_ns)
{
	struct cursor *first = &inlet->heap[0];
	struct program_item item;

	program_reader_take(first->reader, &item);
	pass_lost(inlet, first->program, item.lost);
	pass_record(inlet, first, &item, first->time_ns);
	if (!peek(inlet, first)) {
		drop_first(inlet);
		return;
	}
	if (--first->left) {
		sink(inlet, 0);
		return;
	}
	*oldest_ns = first->time_ns < *oldest_ns ? first->time_ns : *oldest_ns;
	drop_first(inlet);
}

/* How much is lost nobody can say: it stands in the stream as one bad record. */
static void pass_unknown_loss(struct program_inlet *inlet, const struct inlet_program *program)
{
	const struct ring_writer_record record = {
		.probe = UINT16_MAX, .tid = program->config->pid, .time_ns = inlet->until_ns,
	};

	ring_writer_write(inlet->writer, &record);
}

static void declare_corrupt(struct program_inlet *inlet, struct inlet_program *program)
{
	if (program->corrupt)
		return;
	program->corrupt = true;
	pass_unknown_loss(inlet, program);
	counter_add(COUNTER_programs_corrupt, 1);
	log_warn("program-corrupt", "%.16s (process %u) has overwritten the memory of its own probes: what a ring of"
		 " it still held is lost, and no more of that ring is read; restart that program",
		 program->config->comm, program->config->pid);
}

/* Gives room back. Whether anything is left to read. */
static bool release(struct program_inlet *inlet, struct inlet_program *program)
{
	bool left = false;

	for (uint32_t i = 0; program->changed && i < program->config->segment.rings; i++) {
		struct program_reader *reader = &program->reader[i];

		program_reader_release(reader);
		if (reader->corrupt)
			declare_corrupt(inlet, program);
		else
			left |= reader->pos != reader->end;
	}
	return left;
}

/* Its connection is closed, and somebody still writes: a program that has its memory yet, and is not heard. */
static void declare_cut(struct program_inlet *inlet, const struct inlet_program *program)
{
	bool writes = false;

	for (uint32_t i = 0; program->uses_seen && i < program->config->segment.rings; i++)
		writes |= program_reader_is_behind(&program->reader[i]);
	if (!writes)
		return;
	pass_unknown_loss(inlet, program);
	counter_add(COUNTER_programs_cut, 1);
	log_warn("program-cut", "%.16s (process %u) closed its connection and wrote events after that, which are lost: a"
		 " program that closes all its descriptors calls rt_probe_attach() then", program->config->comm,
		 program->config->pid);
}

static void freeze(struct inlet_program *program)
{
	for (uint32_t i = 0; program->uses_seen && i < program->config->segment.rings; i++)
		program_reader_freeze(&program->reader[i]);
	program->frozen = true;
}

static void leave(struct program_inlet *inlet, struct inlet_program *program)
{
	for (uint32_t i = 0; program->uses_seen && i < program->config->segment.rings; i++)
		pass_lost(inlet, program, program_reader_lost(&program->reader[i]));
	declare_cut(inlet, program);
	TAILQ_REMOVE(&inlet->programs, program, link);
	inlet->rings -= program->config->segment.rings;
	free_program(program);
	counter_add(COUNTER_programs_ended, 1);
}

/* A thread may be amid an event as its probe is disabled. What it writes later than this is read when it is next asked for. */
static void rest(const struct program_inlet *inlet, struct inlet_program *program)
{
	if (program->uses_seen == program->uses_done)
		return;
	if (atomic_load(&program->wanted))
		program->unwanted_ns = 0;
	else if (!program->unwanted_ns || program->changed)
		program->unwanted_ns = inlet->now_ns;
	else if (inlet->now_ns - program->unwanted_ns >= PROGRAM_REST_NS)
		program->uses_done = program->uses_seen;
}

/*
 * What has ended, and is read, goes. Its threads may be amid an event as its probes are disabled, and have a moment
 * for that; then its rings are looked at for the last time: who has the memory yet cannot keep it in use here.
 */
static bool settle(struct program_inlet *inlet)
{
	struct inlet_program *program, *next;
	bool leaving = false;

	for (program = TAILQ_FIRST(&inlet->programs); program; program = next) {
		bool left = release(inlet, program);

		next = TAILQ_NEXT(program, link);
		rest(inlet, program);
		if (!program->ended_ns && atomic_load(&program->ended))
			program->ended_ns = inlet->now_ns;
		leaving |= program->ended_ns != 0;
		if (program->frozen && !left)
			leave(inlet, program);
		else if (program->ended_ns && inlet->now_ns - program->ended_ns >= PROGRAM_LEAVE_NS)
			freeze(program);
	}
	return leaving;
}

/* Others wait a while for a program's old events, and no longer: times are what programs say. */
static uint64_t bounded_wait(const struct program_inlet *inlet, uint64_t oldest_ns)
{
	uint64_t least_ns = inlet->now_ns - PROGRAM_WAIT_NS_MAX;

	if (oldest_ns >= least_ns)
		return oldest_ns;
	counter_add(COUNTER_program_waits_ended, 1);
	return least_ns;
}

void program_inlet_pull(struct program_inlet *inlet, uint64_t until_ns, struct inlet_pulled *pulled)
{
	bool busy;

	*pulled = (struct inlet_pulled){.oldest_ns = UINT64_MAX, .again_ns = UINT64_MAX};
	take_fresh(inlet);
	inlet->until_ns = until_ns;
	if (TAILQ_EMPTY(&inlet->programs))
		return;
	if (!make_room(inlet)) {
		*pulled = (struct inlet_pulled){.oldest_ns = 0, .again_ns = PROGRAM_TICK_BUSY_NS};
		return;
	}
	gather(inlet);
	busy = inlet->cursors;
	while (inlet->cursors && inlet->heap[0].time_ns <= until_ns && has_room(inlet))
		pass_first(inlet, &pulled->oldest_ns);
	if (inlet->cursors && inlet->heap[0].time_ns < pulled->oldest_ns)
		pulled->oldest_ns = inlet->heap[0].time_ns;
	pulled->oldest_ns = bounded_wait(inlet, pulled->oldest_ns);
	busy |= settle(inlet);
	if (busy)
		pulled->again_ns = PROGRAM_TICK_BUSY_NS;
	else if (atomic_load_explicit(&inlet->wanted, memory_order_relaxed))
		pulled->again_ns = PROGRAM_TICK_NS;
}

void program_inlet_want(struct program_inlet *inlet, bool wanted)
{
	atomic_store_explicit(&inlet->wanted, wanted, memory_order_relaxed);
}

/* ---- Life ---------------------------------------------------------------------------------------- */

struct program_inlet *program_inlet_create(struct ring_writer *writer)
{
	struct program_inlet *inlet = calloc(1, sizeof(*inlet));

	if (!inlet)
		return NULL;
	inlet->writer = writer;
	counter_clock_begin(&inlet->clock);
	pthread_mutex_init(&inlet->lock, NULL);
	TAILQ_INIT(&inlet->fresh);
	TAILQ_INIT(&inlet->programs);
	return inlet;
}

void program_inlet_destroy(struct program_inlet *inlet)
{
	struct inlet_program *program;

	if (!inlet)
		return;
	take_fresh(inlet);
	while ((program = TAILQ_FIRST(&inlet->programs))) {
		TAILQ_REMOVE(&inlet->programs, program, link);
		free_program(program);
	}
	pthread_mutex_destroy(&inlet->lock);
	free(inlet->heap);
	free(inlet);
}

struct inlet_program *program_inlet_add(struct program_inlet *inlet, struct inlet_config *config)
{
	const struct program_segment *segment = &config->segment;
	struct inlet_program *program = calloc(1, sizeof(*program) + segment->rings * sizeof(program->reader[0]));

	if (!program)
		return NULL;
	program->config = config;
	program->began_ns = clock_monotonic();
	for (uint32_t i = 0; i < segment->rings; i++)
		program_reader_init(&program->reader[i], program_segment_ring(segment, i), segment->ring_bytes);
	pthread_mutex_lock(&inlet->lock);
	program->serial = ++inlet->serial;
	TAILQ_INSERT_TAIL(&inlet->fresh, program, link);
	pthread_mutex_unlock(&inlet->lock);
	return program;
}

void program_inlet_use(struct inlet_program *program, bool wanted)
{
	if (wanted && !atomic_load(&program->wanted))
		atomic_fetch_add(&program->uses, 1);
	atomic_store(&program->wanted, wanted);
}

void program_inlet_end(struct program_inlet *inlet, struct inlet_program *program)
{
	(void)inlet;
	atomic_store(&program->ended, true);
}
