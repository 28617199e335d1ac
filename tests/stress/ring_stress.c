/*
 * Tortures one ring: threads that all write to "the same CPU", each interrupted by two levels of
 * signal handlers that write too, against a reader that sleeps on the bell. Run it as it is for
 * true interruptions (ThreadSanitizer holds signals back until the next system call), and under
 * ThreadSanitizer for the ordering: writers and reader share one mapping, so each byte's hand-over
 * is seen.
 *
 *	ring_stress [SECONDS [SEED]]		seconds for each policy; 1 and the clock by default
 *
 * Checked: every attempt is a record or a loss, exactly, in sum, by reason, and in place; no record
 * is torn; each writer's records come in its order; times never go back; the reader is never left
 * asleep.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/ring/reader.h"
#include "daemon/ring/writer.h"

#define WRITERS		3
#define LEVELS		3		/* a thread, and two signals that interrupt each other */
#define STREAMS		(WRITERS * LEVELS)
#define WORDS_MIN	3
#define WORDS_SPREAD	30
#define SIGNAL_NS	60000		/* between two signals of a level, about */
#define ASLEEP_MS	30000		/* a bell that takes longer is a lost one */

struct stream {				/* of one writer at one level, which owns it */
	uint64_t attempts, written;
};

struct writer {
	struct ring_writer *ring;
	unsigned id;
	unsigned seed;
	struct stream stream[LEVELS];
	bool *done;
};

struct tally {				/* the reader's */
	uint64_t records, lost, seq, time_ns, bells;
	uint64_t last[STREAMS];
};

static _Thread_local struct writer *this_writer;
static unsigned failures;

#define CHECK(condition, ...) do { \
		if (!(condition) && failures++ < 10) { \
			printf("FAILED: %s: ", #condition); \
			printf(__VA_ARGS__); \
			printf("\n"); \
		} \
	} while (0)

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
	return x ^ (x >> 29);
}

/* Its words follow from the stream and the number; so do its tid and their count. */
static void write_next(struct writer *writer, unsigned level)
{
	unsigned stream = writer->id * LEVELS + level;
	uint64_t number = ++writer->stream[level].attempts;
	uint64_t payload[WORDS_MIN + WORDS_SPREAD];
	struct ring_writer_record record = {
		.probe = RT_PROBE_EVENT_MIN + stream,
		.tid = mix(number + stream),
		.payload = payload,
		.words = WORDS_MIN + mix(number) % WORDS_SPREAD,
	};

	payload[0] = number;
	for (unsigned i = 1; i < record.words; i++)
		payload[i] = mix(number * STREAMS + stream + i);
	if (!ring_writer_write(writer->ring, &record))
		writer->stream[level].written++;
}

static void handle_signal(int signal_number)
{
	int saved = errno;

	if (this_writer)
		write_next(this_writer, signal_number - SIGRTMIN + 1);
	errno = saved;
}

static void start_timer(unsigned level, timer_t *timer)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + level - 1,
	};
	struct itimerspec every = {
		.it_value.tv_nsec = SIGNAL_NS * level / 2 + 1000,
		.it_interval.tv_nsec = SIGNAL_NS + 7001 * level,
	};

	event._sigev_un._tid = syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, timer) || timer_settime(*timer, 0, &every, NULL))
		CHECK(false, "no timer: %s", strerror(errno));
}

static void *run_writer(void *argument)
{
	struct writer *writer = argument;
	timer_t timer[LEVELS];

	this_writer = writer;
	for (unsigned level = 1; level < LEVELS; level++)
		start_timer(level, &timer[level]);
	while (!__atomic_load_n(writer->done, __ATOMIC_ACQUIRE)) {
		for (unsigned i = rand_r(&writer->seed) % 400; i > 0; i--)
			write_next(writer, 0);
		if (rand_r(&writer->seed) % 2)
			nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
	}
	for (unsigned level = 1; level < LEVELS; level++)
		timer_delete(timer[level]);
	this_writer = NULL;
	return NULL;
}

static void check_record(struct tally *tally, const struct ring_item *item)
{
	unsigned stream = item->probe - RT_PROBE_EVENT_MIN;
	uint64_t number = item->payload[0];

	CHECK(stream < STREAMS, "probe %#x", item->probe);
	if (stream >= STREAMS)
		return;
	CHECK(item->words == WORDS_MIN + mix(number) % WORDS_SPREAD, "%u words", item->words);
	CHECK(item->tid == (uint32_t)mix(number + stream), "tid of %" PRIu64, number);
	for (unsigned i = 1; i < item->words; i++)
		CHECK(item->payload[i] == mix(number * STREAMS + stream + i),
		      "torn: word %u of %" PRIu64 " of stream %u", i, number, stream);
	CHECK(number > tally->last[stream], "stream %u: %" PRIu64 " after %" PRIu64, stream,
	      number, tally->last[stream]);
	CHECK(item->time_ns >= tally->time_ns, "time went back by %" PRIu64 " ns",
	      tally->time_ns - item->time_ns);
	tally->last[stream] = number;
	tally->time_ns = item->time_ns;
}

static void drain(struct ring_reader *reader, struct tally *tally)
{
	struct ring_item item;

	for (unsigned n = 1;; n++) {
		switch (ring_reader_next(reader, &item)) {
		case RING_RECORD:
			check_record(tally, &item);
			tally->records++;
			CHECK(item.seq == tally->seq, "record %" PRIu64 ", not %" PRIu64,
			      item.seq, tally->seq);
			tally->seq++;
			break;
		case RING_LOST:
			tally->lost += item.count;
			CHECK(item.seq == tally->seq, "lost %" PRIu64 ", not %" PRIu64,
			      item.seq, tally->seq);
			tally->seq += item.count;
			break;
		case RING_EMPTY:
			ring_reader_release(reader);
			return;
		case RING_CORRUPT:
			CHECK(false, "%s", ring_reader_error(reader));
			return;
		}
		if (n % 64 == 0)
			ring_reader_release(reader);
	}
}

/*
 * The reader's account closes at any time, whatever the writers are at; and attempts only grow, where none is
 * overwritten unseen.
 */
static void check_usage(const struct ring_reader *reader, enum rt_policy policy, uint64_t *produced)
{
	struct ring_usage usage;
	uint64_t lost = 0;

	ring_reader_usage(reader, &usage);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		lost += usage.lost[i];
	CHECK(usage.produced == usage.records + lost + usage.in_flight, "%" PRIu64 " produced, %" PRIu64
	      " records, %" PRIu64 " lost, %" PRIu64 " in flight", usage.produced, usage.records, lost,
	      usage.in_flight);
	CHECK(policy == RT_POLICY_OVERWRITE || usage.produced >= *produced,
	      "%" PRIu64 " produced after %" PRIu64, usage.produced, *produced);
	*produced = usage.produced;
}

/* Reads until the time is up, asleep whenever the ring lets it. */
static void read_until(struct ring_reader *reader, struct ring_writer *writer,
		       uint64_t until_ns, unsigned seed, struct tally *tally)
{
	struct ring_handle ring;
	struct timespec now;
	uint64_t produced = 0;

	ring_writer_describe(writer, &ring);
	for (;;) {
		struct pollfd bell = { .fd = ring.bell_fd, .events = POLLIN };
		uint64_t rings;

		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec * 1000000000ull + now.tv_nsec >= until_ns || failures)
			return;
		drain(reader, tally);
		check_usage(reader, ring_writer_map(writer, NULL)->policy, &produced);
		ring_writer_resume(writer);	/* RT_POLICY_STOP */
		if (!ring_reader_arm(reader, rand_r(&seed) % 3 ? rand_r(&seed) % 8192 : 1))
			continue;
		if (poll(&bell, 1, ASLEEP_MS) != 1)
			CHECK(false, "asleep for %d ms, pending %d", ASLEEP_MS,
			      ring_reader_pending(reader));
		else if (read(ring.bell_fd, &rings, sizeof(rings)) == sizeof(rings))
			tally->bells += rings;
		if (rand_r(&seed) % 8 == 0)	/* let it fill up */
			nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
	}
}

static void settle(struct ring_writer *ring, struct ring_reader *reader,
		   const struct writer *writer, struct tally *tally)
{
	const struct rt_ring_producer *producer = ring_writer_map(ring, NULL);
	struct ring_usage usage;
	uint64_t attempts = 0, written = 0, lost = 0, overwritten;

	drain(reader, tally);
	for (unsigned i = 0; i < STREAMS; i++) {
		attempts += writer[i / LEVELS].stream[i % LEVELS].attempts;
		written += writer[i / LEVELS].stream[i % LEVELS].written;
	}
	ring_reader_usage(reader, &usage);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++) {
		lost += producer->lost[i];
		if (i != RT_LOST_FULL)
			CHECK(usage.lost[i] == producer->lost[i], "reason %u", i);
	}
	overwritten = usage.lost[RT_LOST_FULL] - producer->lost[RT_LOST_FULL];
	CHECK(lost == producer->lost_total, "%" PRIu64, lost);
	CHECK(attempts == written + lost, "%" PRIu64 " attempts", attempts);
	CHECK(tally->records + overwritten == written, "%" PRIu64 " read, %" PRIu64
	      " overwritten of %" PRIu64, tally->records, overwritten, written);
	CHECK(tally->lost == lost + overwritten, "%" PRIu64 " lost", tally->lost);
	CHECK(usage.in_flight == 0, "%" PRIu64 " in flight", usage.in_flight);
	CHECK(usage.produced == attempts && tally->seq == attempts, "%" PRIu64, usage.produced);
	CHECK(producer->policy == RT_POLICY_OVERWRITE || !overwritten, "%" PRIu64, overwritten);
	CHECK(!ring_reader_pending(reader), "pending");
	printf("  %" PRIu64 " attempts = %" PRIu64 " records + %" PRIu64 " full + %" PRIu64
	       " nest + %" PRIu64 " stopped + %" PRIu64 " busy + %" PRIu64
	       " overwritten; %" PRIu64 " copies torn, %" PRIu64 " bells\n",
	       attempts, tally->records, (uint64_t)producer->lost[RT_LOST_FULL],
	       (uint64_t)producer->lost[RT_LOST_NEST], (uint64_t)producer->lost[RT_LOST_STOPPED],
	       (uint64_t)producer->lost[RT_LOST_BUSY], overwritten, usage.torn, tally->bells);
}

static void torture(enum rt_policy policy, double seconds, unsigned seed)
{
	struct ring_writer_config config = {
		.ring_bytes = RT_RING_BYTES_MIN, .subbuf_bytes = RT_SUBBUF_BYTES_MIN,
		.policy = policy,
	};
	struct writer writer[WRITERS] = { 0 };
	pthread_t thread[WRITERS];
	struct tally tally = { 0 };
	struct ring_writer *ring;
	struct ring_reader *reader;
	struct error error;
	struct timespec now;
	size_t bytes;
	void *map;
	bool done = false;

	if (ring_writer_create(&config, &ring, &error)) {
		CHECK(false, "%s", error.what);
		return;
	}
	map = ring_writer_map(ring, &bytes);
	if (ring_reader_create(map, bytes, ring_writer_consumer(ring), &reader, &error)) {
		CHECK(false, "%s", error.what);
		goto destroy_writer;
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		writer[i] = (struct writer){
			.ring = ring, .id = i, .seed = seed + i, .done = &done,
		};
		if (pthread_create(&thread[i], NULL, run_writer, &writer[i]))
			abort();
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	read_until(reader, ring, now.tv_sec * 1000000000ull + now.tv_nsec + seconds * 1e9, seed,
		   &tally);
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);

	/*
	 * The head of a sub-buffer knows what was committed before it. A writer that was unfinished
	 * then is counted by the next head: let there be one.
	 */
	for (unsigned i = 0; policy == RT_POLICY_OVERWRITE && i < config.subbuf_bytes / 48; i++)
		write_next(&writer[0], 0);
	settle(ring, reader, writer, &tally);
	ring_reader_destroy(reader);
destroy_writer:
	ring_writer_destroy(ring);
}

int main(int argc, char **argv)
{
	static const char *const name[] = { "drop", "overwrite", "stop" };
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	unsigned seed = argc > 2 ? strtoul(argv[2], NULL, 0) : (unsigned)time(NULL);
	struct sigaction action = { .sa_handler = handle_signal, .sa_flags = SA_RESTART };

	sigaction(SIGRTMIN, &action, NULL);
	sigaction(SIGRTMIN + 1, &action, NULL);
	printf("ring_stress: %g s each, seed %u\n", seconds, seed);
	for (unsigned policy = RT_POLICY_DROP; policy <= RT_POLICY_STOP && !failures; policy++) {
		printf("%s:\n", name[policy]);
		torture(policy, seconds, seed);
	}
	printf("%s\n", failures ? "FAILED" : "ok");
	return failures ? 1 : 0;
}
