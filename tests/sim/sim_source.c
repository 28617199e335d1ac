#include "tests/sim/sim_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/ring/writer.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim.h"
#include "tests/unit/daemon/small_catalog.h"

#define THREADS 12u
#define TID_FIRST 100u
#define REPORTS_MAX 64u
#define ANSWER_NS_MAX (5 * SIM_MS)
#define PROBE_UNKNOWN 0x0f00

struct ring {
	struct ring_writer *writer;
	struct source_truth truth;
	unsigned introduced[THREADS];	/* the life that it was introduced in; 0: none */
	bool named[THREADS][SOURCE_TEXTS];
	uint64_t begin_seq;		/* of the run that reads it now */
};

struct loader {
	struct source_config_sim config;
	struct ring ring[SOURCE_RINGS_MAX];
	struct ring_handle shown[SOURCE_RINGS_MAX];
	struct source_request request;
	uint64_t strings_ns;		/* since then strings are asked for; UINT64_MAX: they are not */
	bool ended, refuse, stopping, orderly, stored, dead;
	bool handed_over;		/* by one of its runs, which is what the disk may know of last */
	bool leaving, left_well;	/* to the daemon's next run, which goes on with it */
	unsigned run;			/* of the daemon: what an earlier one asked for is void */
	unsigned life[THREADS];
	struct loader *before;
	int fd;
	struct loader_report report[REPORTS_MAX];
	unsigned first, end;
	struct unrecorded *unrecorded;
	uint64_t unrecorded_n, unrecorded_room;
};

/* A request on its way, or an unfinished record. */
struct pending {
	struct loader *loader;
	unsigned run;
	struct source_request request;
	struct ring *ring;
	struct ring_writer_slot slot;
	struct attempt attempt;
};

static struct loader *newest;

static void *enlarge(void *array, uint64_t n, uint64_t *room, size_t size)
{
	if (n < *room)
		return array;
	*room = 2 * n + 64;
	return sim_realloc(array, *room * size);
}

/* ---- Threads --------------------------------------------------------------------------------- */

uint32_t source_pid_of(uint32_t tid)
{
	return tid - tid % 3;
}

uint32_t source_uid_of(uint32_t tid)
{
	return tid % 2 ? 0 : 1000;
}

void source_comm_of(uint32_t tid, unsigned life, char comm[RT_COMM_BYTES])
{
	memset(comm, 0, RT_COMM_BYTES);
	snprintf(comm, RT_COMM_BYTES, "t%u-%u", tid, life);
}

const char *source_text_of(uint32_t tid, enum source_text text)
{
	static char path[64];

	snprintf(path, sizeof(path), text == SOURCE_EXE ? "/usr/bin/t%u" : "/t.slice/%u", tid);
	return path;
}

/* Several threads share a cgroup's id in the kernel; here each has its own. */
static uint64_t text_id(uint32_t tid, enum source_text text)
{
	return text == SOURCE_EXE ? RT_TEXT_EXE | tid : tid;
}

size_t source_string_of(const struct attempt *attempt, char string[SOURCE_STRING_BYTES])
{
	return (size_t)snprintf(string, SOURCE_STRING_BYTES, "%u-%llu", attempt->tid,
				(unsigned long long)attempt->word[0]);
}

/* ---- The truth ------------------------------------------------------------------------------- */

static struct attempt *note(struct ring *ring, const struct attempt *attempt)
{
	struct source_truth *truth = &ring->truth;

	truth->attempt = enlarge(truth->attempt, truth->n, &truth->room, sizeof(*attempt));
	truth->attempt[truth->n] = *attempt;
	return &truth->attempt[truth->n++];
}

static void note_lost(struct ring *ring, enum rt_lost reason)
{
	note(ring, &(struct attempt){.kind = ATTEMPT_LOST, .reason = reason,
				     .time_ns = sim.now_ns});
}

/* As ring_writer_write does, in two halves, so that both can be told of. True: reserved. */
static bool reserve(struct ring *ring, struct attempt *attempt, uint32_t words,
		    struct ring_writer_slot *slot)
{
	int err = ring_writer_reserve(ring->writer, words, 0, slot);

	if (err) {
		note_lost(ring, RT_LOST_FULL);
		return false;
	}
	attempt->time_ns = slot->time_ns;
	note(ring, attempt);
	return true;
}

/* As it goes into the ring; *string and *bytes are what it points to. */
static struct ring_writer_record record_of(const struct attempt *attempt,
					   struct ring_writer_attachment *string,
					   char bytes[SOURCE_STRING_BYTES])
{
	struct ring_writer_record record = {
		.probe = attempt->probe, .tid = attempt->tid,
		.payload = attempt->word, .words = attempt->words,
	};

	if (!attempt->strung)
		return record;
	*string = (struct ring_writer_attachment){
		.kind = RT_ATTACH_STRING, .arg = SOURCE_STRING_ARG, .data = bytes,
		.bytes = (uint32_t)source_string_of(attempt, bytes),
	};
	record.attachment = string;
	record.attachments = 1;
	return record;
}

static void commit(struct ring *ring, const struct ring_writer_slot *slot,
		   const struct attempt *attempt)
{
	struct ring_writer_attachment string;
	char bytes[SOURCE_STRING_BYTES];
	struct ring_writer_record record = record_of(attempt, &string, bytes);

	ring_writer_commit(ring->writer, slot, &record);
}

static uint32_t words_of(const struct attempt *attempt)
{
	struct ring_writer_attachment string;
	char bytes[SOURCE_STRING_BYTES];
	struct ring_writer_record record = record_of(attempt, &string, bytes);

	return ring_writer_words(&record);
}

static bool write_record(struct ring *ring, struct attempt *attempt)
{
	struct ring_writer_slot slot;

	if (!reserve(ring, attempt, words_of(attempt), &slot))
		return false;
	commit(ring, &slot, attempt);
	return true;
}

static bool tell_text(struct ring *ring, uint32_t tid, enum source_text text)
{
	const char *path = source_text_of(tid, text);
	uint64_t payload[(sizeof(struct rt_text) + 64) / 8] = {0};
	struct rt_text *to = (void *)payload;
	struct attempt attempt = {.kind = ATTEMPT_META, .probe = RT_PROBE_TEXT, .tid = tid};
	struct ring_writer_record record = {.probe = RT_PROBE_TEXT, .tid = tid, .payload = payload};
	struct ring_writer_slot slot;

	to->id = text_id(tid, text);
	to->bytes = (uint32_t)strlen(path);
	memcpy(to->data, path, to->bytes);
	record.words = (uint32_t)(sizeof(*to) + to->bytes + 7) / 8;
	if (!reserve(ring, &attempt, record.words, &slot))
		return false;
	ring_writer_commit(ring->writer, &slot, &record);
	return ring->named[tid - TID_FIRST][text] = true;
}

/* A text is told before the first thread that names it, and now and then again. */
static bool tell_texts(struct ring *ring, uint32_t tid)
{
	for (enum source_text text = 0; sim.rich && text < SOURCE_TEXTS; text++)
		if ((!ring->named[tid - TID_FIRST][text] || sim_chance(1)) &&
		    !tell_text(ring, tid, text))
			return false;
	return true;
}

static bool introduce(struct ring *ring, uint32_t tid, unsigned life)
{
	struct rt_thread thread = {.pid = source_pid_of(tid), .ppid = 1,
				   .uid = source_uid_of(tid), .start_ns = tid};
	struct ring_writer_slot slot;
	struct attempt attempt = {.kind = ATTEMPT_META, .probe = RT_PROBE_THREAD, .tid = tid};
	struct ring_writer_record record = {.probe = RT_PROBE_THREAD, .tid = tid,
					    .payload = (const uint64_t *)&thread,
					    .words = sizeof(thread) / 8};

	source_comm_of(tid, life, thread.comm);
	if (!tell_texts(ring, tid))
		return false;
	if (ring->introduced[tid - TID_FIRST] == life)
		return true;
	if (sim.rich) {
		thread.exe = text_id(tid, SOURCE_EXE);
		thread.cgroup = text_id(tid, SOURCE_CGROUP);
	}
	if (!reserve(ring, &attempt, record.words, &slot))
		return false;
	ring_writer_commit(ring->writer, &slot, &record);
	ring->introduced[tid - TID_FIRST] = life;
	return true;
}

/* ---- What happens ---------------------------------------------------------------------------- */

static struct attempt make_event(const struct loader *loader)
{
	static const struct {
		uint16_t probe;
		uint32_t words;
		bool call;
	} kinds[] = {
		{SMALL_GETPPID, 2, true}, {SMALL_READ, 5, true}, {SMALL_KILL, 4, true},
		{SMALL_OPENAT_ENTRY, 4, false}, {SMALL_OPENAT_RETURN, 1, false},
		{RT_PROBE_SCHED_SWITCH, 4, false}, {RT_PROBE_SCHED_WAKEUP, 2, false},
	};
	unsigned kind = (unsigned)sim_below(sizeof(kinds) / sizeof(kinds[0]));
	struct attempt attempt = {.kind = ATTEMPT_EVENT, .probe = kinds[kind].probe,
				  .tid = TID_FIRST + (uint32_t)sim_below(THREADS),
				  .words = kinds[kind].words};

	attempt.life = loader->life[attempt.tid - TID_FIRST];
	for (uint32_t i = 0; i < attempt.words; i++)
		attempt.word[i] = sim_chance(90) ? sim_below(1000) : sim_random();
	attempt.has_string = sim.rich && attempt.word[0] % 3 == 0;
	if (kinds[kind].call) {
		attempt.word[0] = sim_below(SIM_S);
		attempt.word[1] = sim_chance(30) ? (uint64_t)-(int64_t)sim_between(1, 40)
						 : sim_below(100);
	}
	return attempt;
}

static bool op_passes(uint8_t op, uint32_t want, uint32_t is)
{
	return op == RT_FILTER_ANY || (op == RT_FILTER_EQ) == (want == is);
}

static bool clause_passes(const struct rt_filter_clause *clause, uint32_t tid, unsigned life)
{
	char comm[RT_COMM_BYTES];
	bool same;

	source_comm_of(tid, life, comm);
	same = memcmp(comm, clause->comm, sizeof(comm)) == 0;
	return op_passes(clause->pid_op, clause->pid, source_pid_of(tid)) &&
	       op_passes(clause->tid_op, clause->tid, tid) &&
	       op_passes(clause->uid_op, clause->uid, source_uid_of(tid)) &&
	       (clause->comm_op == RT_FILTER_ANY || (clause->comm_op == RT_FILTER_EQ) == same);
}

static bool is_recorded(const struct source_request *request, const struct attempt *attempt)
{
	if (!(request->probes[attempt->probe / 8] & 1u << attempt->probe % 8))
		return false;
	if (request->unfiltered[attempt->probe / 8] & 1u << attempt->probe % 8)
		return true;
	for (uint32_t i = 0; i < request->clauses; i++)
		if (clause_passes(&request->clause[i], attempt->tid, attempt->life))
			return true;
	return !request->clauses;
}

static void leave_out(struct loader *loader, struct ring *ring, const struct attempt *attempt)
{
	struct unrecorded mine = {.ring = (uint32_t)(ring - loader->ring), .seq = ring->truth.n,
				  .time_ns = sim.now_ns, .after_end = loader->stopping,
				  .attempt = *attempt};

	loader->unrecorded = enlarge(loader->unrecorded, loader->unrecorded_n,
				     &loader->unrecorded_room, sizeof(mine));
	loader->unrecorded[loader->unrecorded_n++] = mine;
	if (!loader->stopping)
		oracle_unrecorded(loader, &mine);
}

static struct ring *choose_ring(struct loader *loader)
{
	return &loader->ring[sim_below(loader->config.rings)];
}

/* A writer takes a place on a ring: false if it is not let, or there is none. */
static bool begin(struct loader *loader, struct ring *ring, struct attempt *attempt)
{
	if (loader->ended || !is_recorded(&loader->request, attempt)) {
		leave_out(loader, ring, attempt);
		return false;
	}
	attempt->strung = attempt->has_string && loader->request.flags & RT_FLAG_STRINGS;
	return introduce(ring, attempt->tid, attempt->life);
}

void source_burst(struct loader *loader, unsigned events)
{
	struct ring *ring = choose_ring(loader);

	for (unsigned i = 0; i < events; i++) {
		struct attempt attempt = make_event(loader);

		if (begin(loader, ring, &attempt))
			write_record(ring, &attempt);
	}
}

static void finish(void *context)
{
	struct pending *pending = context;

	commit(pending->ring, &pending->slot, &pending->attempt);
	free(pending);
}

void source_nest(struct loader *loader, uint64_t ns)
{
	struct pending *pending = sim_calloc(sizeof(*pending));

	pending->loader = loader;
	pending->ring = choose_ring(loader);
	pending->attempt = make_event(loader);
	if (!begin(loader, pending->ring, &pending->attempt) ||
	    !reserve(pending->ring, &pending->attempt, words_of(&pending->attempt), &pending->slot)) {
		free(pending);
		return;
	}
	sim_after(ns, finish, pending);
}

/* Where nothing is recorded, nobody tries. */
static bool records(const struct loader *loader)
{
	static const uint8_t none[RT_PROBE_MAX / 8];

	return !loader->ended &&
	       memcmp(loader->request.probes, none, sizeof(none)) != 0;
}

void source_lose(struct loader *loader, unsigned n)
{
	struct ring *ring = choose_ring(loader);

	if (!records(loader))
		return;
	ring_writer_lose(ring->writer, RT_LOST_NEST, n);
	for (unsigned i = 0; i < n; i++)
		note_lost(ring, RT_LOST_NEST);
}

void source_bad(struct loader *loader)
{
	struct ring *ring = choose_ring(loader);
	struct attempt attempt = {.kind = ATTEMPT_BAD, .probe = PROBE_UNKNOWN, .tid = TID_FIRST,
				  .words = 1};

	if (records(loader))
		write_record(ring, &attempt);
}

/* Its last record is on the ring of its CPU; those of others hear of the next one alone. */
void source_exit(struct loader *loader)
{
	struct ring *ring = choose_ring(loader);
	unsigned i = (unsigned)sim_below(THREADS);
	struct rt_thread thread = {.flags = RT_THREAD_EXITED};
	struct attempt attempt = {.kind = ATTEMPT_META, .probe = RT_PROBE_THREAD, .tid = TID_FIRST + i};
	struct ring_writer_record record = {.probe = RT_PROBE_THREAD, .tid = TID_FIRST + i,
					    .payload = (const uint64_t *)&thread,
					    .words = sizeof(thread) / 8};
	struct ring_writer_slot slot;

	if (!loader->ended && ring->introduced[i] == loader->life[i] &&
	    reserve(ring, &attempt, record.words, &slot))
		ring_writer_commit(ring->writer, &slot, &record);
	loader->life[i]++;
}

/* ---- Life ------------------------------------------------------------------------------------ */

struct loader *source_start(const struct source_config_sim *config)
{
	struct loader *loader = sim_calloc(sizeof(*loader));

	loader->config = *config;
	loader->before = newest;
	newest = loader;
	loader->fd = eventfd(0, 0);
	loader->strings_ns = UINT64_MAX;
	for (unsigned i = 0; i < THREADS; i++)
		loader->life[i] = 1;
	for (unsigned i = 0; i < config->rings; i++) {
		struct ring_writer_config ring = {.cpu = 3 * i, .ring_bytes = config->ring_bytes,
						  .policy = RT_POLICY_DROP};
		struct error error;

		if (ring_writer_create(&ring, &loader->ring[i].writer, &error) != 0)
			sim_fail("no ring: %s", error.what);
		ring_writer_describe(loader->ring[i].writer, &loader->shown[i]);
		loader->ring[i].truth.cpu = ring.cpu;
	}
	return loader;
}

void source_stopping(struct loader *loader)
{
	loader->stopping = true;
}

void source_end(struct loader *loader, bool orderly, bool stored)
{
	loader->ended = true;
	loader->orderly = orderly;
	loader->stored = stored;
}

bool source_ended_well(const struct loader *loader)
{
	return loader->orderly || loader->handed_over;
}

bool source_has_ended(const struct loader *loader)
{
	return loader->ended;
}

struct loader *source_newest(void)
{
	return newest;
}

static void report(struct loader *loader, const struct loader_report *report)
{
	uint64_t one = 1;

	loader->report[loader->end++ % REPORTS_MAX] = *report;
	if (write(loader->fd, &one, sizeof(one)) != sizeof(one))
		sim_fail("the kernel's answer does not get through");
}

void source_die(struct loader *loader)
{
	sim_log("the loader dies");
	loader->dead = true;
	if (!sim.manager)
		loader->ended = loader->stopping = true;
	report(loader, &(struct loader_report){.event = LOADER_GONE});
}

void source_leave(struct loader *loader)
{
	loader->leaving = true;
}

bool source_is_leaving(const struct loader *loader)
{
	return loader->leaving;
}

void source_keep(struct loader *loader, bool killed, bool well)
{
	loader->orderly = !killed;
	loader->handed_over |= !killed;
	loader->leaving = loader->dead = loader->refuse = false;
	loader->left_well = well;
	loader->first = loader->end;
	loader->run++;
}

bool source_left_well(const struct loader *loader)
{
	return loader->left_well;
}

void source_begin_ring(struct loader *loader, unsigned ring, uint64_t seq)
{
	if (seq < loader->ring[ring].begin_seq || seq > loader->ring[ring].truth.n)
		sim_fail("ring %u goes on at %llu, after %llu, and there are %llu", ring,
			 (unsigned long long)seq, (unsigned long long)loader->ring[ring].begin_seq,
			 (unsigned long long)loader->ring[ring].truth.n);
	loader->ring[ring].begin_seq = seq;
}

uint64_t source_begin_of(const struct loader *loader, unsigned ring)
{
	return loader->ring[ring].begin_seq;
}

bool source_ended_orderly(const struct loader *loader)
{
	return loader->orderly && loader->stored;
}

struct loader *source_of_epoch(uint64_t epoch)
{
	struct loader *loader = newest;

	while (loader && loader->config.epoch != epoch)
		loader = loader->before;
	return loader;
}

void source_refuse_next(struct loader *loader)
{
	loader->refuse = true;
}

uint64_t source_epoch(const struct loader *loader)
{
	return loader->config.epoch;
}

const struct source_truth *source_truth(const struct loader *loader, unsigned ring)
{
	return &loader->ring[ring].truth;
}

uint64_t source_strings_ns(const struct loader *loader)
{
	return loader->strings_ns;
}

int source_ring_of(const struct loader *loader, uint32_t cpu)
{
	for (unsigned i = 0; i < loader->config.rings; i++)
		if (loader->ring[i].truth.cpu == cpu)
			return (int)i;
	return -1;
}

const struct unrecorded *source_unrecorded(const struct loader *loader, uint64_t *n)
{
	*n = loader->unrecorded_n;
	return loader->unrecorded;
}

/* ---- In the place of daemon/source/loader.c --------------------------------------------------------- */

static void take_request(struct loader *loader, const struct source_request *request)
{
	if (!(request->flags & RT_FLAG_STRINGS))
		loader->strings_ns = UINT64_MAX;
	else if (loader->strings_ns == UINT64_MAX)
		loader->strings_ns = sim.now_ns;
	loader->request = *request;
}

static void answer(void *context)
{
	struct pending *pending = context;
	struct loader *loader = pending->loader;

	if (!loader->ended && pending->run == loader->run) {
		struct loader_report told = {.event = LOADER_CONFIGURED,
					     .generation = pending->request.generation};

		if (loader->refuse)
			told.err = error_set(&told.error, EPERM, "sim-refused",
					     "the made-up kernel does not want to");
		else
			take_request(loader, &pending->request);
		sim_log("kernel: generation %llu %s",
			(unsigned long long)pending->request.generation,
			loader->refuse ? "refused" : "in force");
		loader->refuse = false;
		report(loader, &told);
	}
	free(pending);
}

int loader_configure(struct loader *loader, const struct source_request *request)
{
	struct pending *pending;

	if (loader->dead)
		return -EPIPE;
	pending = sim_calloc(sizeof(*pending));
	pending->loader = loader;
	pending->run = loader->run;
	pending->request = *request;
	sim_after(sim_below(ANSWER_NS_MAX), answer, pending);
	return 0;
}

int loader_joined(struct loader *loader)
{
	return loader->dead ? -EPIPE : 0;
}

int loader_ask_stats(struct loader *loader)
{
	(void)loader;
	return 0;
}

int loader_ask_stuck(struct loader *loader, uint64_t longer_than_ns)
{
	(void)longer_than_ns;
	return loader->dead ? -EPIPE : -EOPNOTSUPP;
}

int loader_receive(struct loader *loader, struct loader_report *report)
{
	uint64_t ignored;

	while (read(loader->fd, &ignored, sizeof(ignored)) > 0)
		;
	if (loader->first == loader->end)
		return -EAGAIN;
	*report = loader->report[loader->first++ % REPORTS_MAX];
	return 0;
}

int loader_fd(const struct loader *loader)
{
	return loader->fd;
}

const char *loader_source_name(const struct loader *loader)
{
	(void)loader;
	return "sim";
}

const Ringtail__V1__Catalog *loader_catalog(const struct loader *loader)
{
	(void)loader;
	return small_catalog_get();
}

bool loader_can_make(const struct loader *loader, const char *spec)
{
	(void)loader, (void)spec;
	return false;
}

int loader_make(struct loader *loader, const char *spec)
{
	(void)loader, (void)spec;
	return -EPIPE;
}

int loader_make_now(struct loader *loader, const char *spec, bool *pending, struct error *error)
{
	(void)loader, (void)spec, (void)pending;
	return error_set(error, ENOENT, "unknown-probe", "nothing is made here");
}

Ringtail__V1__Catalog *loader_offers(const struct loader *loader)
{
	(void)loader;
	return NULL;
}

unsigned loader_rings(const struct loader *loader)
{
	return loader->config.rings;
}

const struct ring_handle *loader_ring(const struct loader *loader, unsigned i)
{
	return &loader->shown[i];
}
