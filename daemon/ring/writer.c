/*
 * In: records, from any thread or signal handler of one process.
 * Out: the ring. The order of its stores and loads is the ABI's; ring_reader.c names both partners.
 *
 * Every word of a record is a release store. On the machines that matter this costs nothing, and
 * where the oldest is overwritten it orders the swap of producer_pos before each new byte without a
 * fence, which ThreadSanitizer could not see.
 */
#include "daemon/ring/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/descriptor.h"
#include "daemon/base/random.h"

#define HEADER_WORDS		(RT_RECORD_HEADER_BYTES / 8)
#define SUBBUF_HEAD_WORDS	(HEADER_WORDS + sizeof(struct rt_subbuf) / 8)
#define SUBBUF_HEAD_BYTES	(SUBBUF_HEAD_WORDS * 8)
#define SUBBUF_BYTES_USUAL	(1u << 16)
#define PAYLOAD_WORDS_MAX	(RT_RECORD_WORDS_MAX - HEADER_WORDS)
#define WAIT_NS			50000

_Static_assert(RT_RECORD_BYTES_MAX + SUBBUF_HEAD_BYTES <= RT_SUBBUF_BYTES_MIN,
	       "the largest record fits an empty sub-buffer");

struct ring_writer {
	struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	uint8_t *data;
	uint64_t size_bytes, subbuf_bytes;
	uint64_t key;
	enum rt_policy policy;
	uint32_t cpu;
	size_t map_bytes;
	int ring_fd, consumer_fd, bell_fd;

	/* RT_POLICY_OVERWRITE */
	uint64_t records;		/* committed, ever */
	uint64_t *committed_bytes;	/* of each sub-buffer, ever: whole laps when complete */
};

static uint64_t load_acquire(const __u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store_release(__u64 *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/*
 * A memfd of that size, whole in memory and mapped here; nobody can resize it. Where `sealed`,
 * nobody else can write to it either: this mapping was there before the seal.
 */
static void *create_memory(const char *name, size_t bytes, bool sealed, int *fd)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (sealed ? F_SEAL_FUTURE_WRITE : 0);
	void *map;

	*fd = descriptor_memory_file(name, true);
	if (*fd < 0) {
		errno = -*fd;
		return MAP_FAILED;
	}
	if (ftruncate(*fd, bytes) || fallocate(*fd, 0, 0, bytes))
		goto close_fd;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (map == MAP_FAILED)
		goto close_fd;
	if (!fcntl(*fd, F_ADD_SEALS, seals))
		return map;
	munmap(map, bytes);
close_fd:
	close(*fd);
	return MAP_FAILED;
}

static uint64_t usual_subbuf_bytes(uint64_t ring_bytes)
{
	uint64_t bytes = ring_bytes / 8;

	bytes = bytes > SUBBUF_BYTES_USUAL ? SUBBUF_BYTES_USUAL : bytes;
	return bytes < RT_SUBBUF_BYTES_MIN ? RT_SUBBUF_BYTES_MIN : bytes;
}

static int check_config(const struct ring_writer_config *config, uint64_t subbuf_bytes,
			struct error *error)
{
	uint64_t size = config->ring_bytes;

	if (size < RT_RING_BYTES_MIN || size > RT_RING_BYTES_MAX || size & (size - 1))
		return error_set(error, EINVAL, "ring-geometry", "a ring cannot have %" PRIu64
				 " bytes: a power of two from %u to %u", size,
				 RT_RING_BYTES_MIN, RT_RING_BYTES_MAX);
	if (subbuf_bytes < RT_SUBBUF_BYTES_MIN || subbuf_bytes > size / 4 ||
	    subbuf_bytes & (subbuf_bytes - 1))
		return error_set(error, EINVAL, "ring-geometry", "a sub-buffer cannot have %" PRIu64
				 " bytes: a power of two from %u to a quarter of the ring",
				 subbuf_bytes, RT_SUBBUF_BYTES_MIN);
	if (config->policy > RT_POLICY_STOP || config->cpu >= RT_CPUS_MAX)
		return error_set(error, EINVAL, "ring-geometry", "no ring has policy %d on CPU %u",
				 (int)config->policy, config->cpu);
	return 0;
}

int ring_writer_create(const struct ring_writer_config *config, struct ring_writer **writer,
		       struct error *error)
{
	uint64_t subbuf_bytes = config->subbuf_bytes ? config->subbuf_bytes
						     : usual_subbuf_bytes(config->ring_bytes);
	struct ring_writer *w;
	int err = check_config(config, subbuf_bytes, error);

	if (err)
		return err;
	w = calloc(1, sizeof(*w));
	if (!w)
		goto failed;
	w->committed_bytes = calloc(config->ring_bytes / subbuf_bytes, sizeof(uint64_t));
	if (!w->committed_bytes)
		goto free_writer;
	w->map_bytes = RT_PAGE_BYTES + config->ring_bytes + RT_PAGE_BYTES + (config->counts ? RT_COUNTED_BYTES : 0);
	w->producer = create_memory("ringtail-ring", w->map_bytes, true, &w->ring_fd);
	if (w->producer == MAP_FAILED)
		goto free_committed;
	w->consumer = create_memory("ringtail-consumer", RT_PAGE_BYTES, false, &w->consumer_fd);
	if (w->consumer == MAP_FAILED)
		goto close_ring;
	w->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->bell_fd < 0)
		goto close_consumer;
	w->key = config->key;
	if (!w->key && random_bytes(&w->key, sizeof(w->key)) != 0)
		goto close_bell;

	w->data = (uint8_t *)w->producer + RT_PAGE_BYTES;
	w->size_bytes = config->ring_bytes;
	w->subbuf_bytes = subbuf_bytes;
	w->policy = config->policy;
	w->cpu = config->cpu;
	w->producer->version = RT_ABI_VERSION;
	w->producer->cpu = w->cpu;
	w->producer->size_bytes = w->size_bytes;
	w->producer->subbuf_bytes = subbuf_bytes;
	w->producer->key = w->key;
	w->producer->policy = w->policy;
	w->producer->counted_places = config->counts ? RT_COUNTED_PLACES : 0;
	w->consumer->bell_at = RT_BELL_NEVER;
	store_release(&w->producer->magic, RT_RING_MAGIC);
	*writer = w;
	return 0;

close_bell:
	close(w->bell_fd);
close_consumer:
	munmap(w->consumer, RT_PAGE_BYTES);
	close(w->consumer_fd);
close_ring:
	munmap(w->producer, w->map_bytes);
	close(w->ring_fd);
free_committed:
	free(w->committed_bytes);
free_writer:
	free(w);
failed:
	err = errno ? errno : ENOMEM;
	return error_set(error, err, "ring-memory", "cannot make CPU %u's ring of %" PRIu64
			 " bytes: %s", config->cpu, config->ring_bytes, strerror(err));
}

void ring_writer_destroy(struct ring_writer *writer)
{
	if (!writer)
		return;
	close(writer->bell_fd);
	munmap(writer->consumer, RT_PAGE_BYTES);
	close(writer->consumer_fd);
	munmap(writer->producer, writer->map_bytes);
	close(writer->ring_fd);
	free(writer->committed_bytes);
	free(writer);
}

/* Partner: the reader's acquire of the count. */
void ring_writer_count(struct ring_writer *writer, uint16_t probe, uint64_t good, uint64_t bad)
{
	struct rt_counted *counted = (void *)(writer->data + writer->size_bytes + RT_PAGE_BYTES);

	counted += rt_counted_place(probe);
	store_release(&counted->good, counted->good + good);
	store_release(&counted->bad, counted->bad + bad);
}

/* ---- Reserving ------------------------------------------------------------------------------- */

/* reason's counter first: who sees a lost_total finds its reasons counted. */
void ring_writer_lose(struct ring_writer *writer, enum rt_lost reason, uint64_t count)
{
	__atomic_fetch_add(&writer->producer->lost[reason], count, __ATOMIC_RELEASE);
	__atomic_fetch_add(&writer->producer->lost_total, count, __ATOMIC_RELEASE);
}

static void ring_bell(struct ring_writer *writer)
{
	uint64_t one = 1;
	ssize_t n;

	__atomic_fetch_add(&writer->producer->bells, 1, __ATOMIC_RELAXED);
	n = write(writer->bell_fd, &one, sizeof(one));
	(void)n;	/* it fails only when 2^64 - 2 rings wait to be answered: they suffice */
}

/* Where a record of `bytes` goes if it is reserved at reserved_pos. */
static void place(const struct ring_writer *writer, uint64_t bytes, struct ring_writer_slot *slot)
{
	uint64_t into = slot->reserved_pos & (writer->subbuf_bytes - 1);

	slot->pos = slot->reserved_pos;
	if (into && into + bytes > writer->subbuf_bytes) {
		slot->pos += writer->subbuf_bytes - into;
		into = 0;
	}
	if (!into)
		slot->pos += SUBBUF_HEAD_BYTES;
	slot->end = slot->pos + bytes;
}

/*
 * Whether everything before `end` less one lap was given back. What the consumer's page says is
 * taken only if it is a place between the last one believed and what was reserved, else counted.
 */
static bool has_room(struct ring_writer *writer, uint64_t end)
{
	struct rt_ring_producer *producer = writer->producer;
	uint64_t seen = load_acquire(&producer->consumer_pos_seen);
	uint64_t consumed;

	if (end - seen <= writer->size_bytes)
		return true;
	consumed = load_acquire(&writer->consumer->consumer_pos);
	if (consumed == seen)
		return false;
	if (consumed % 8 || consumed - seen > load_acquire(&producer->producer_pos) - seen) {
		__atomic_fetch_add(&producer->consumer_bad, 1, __ATOMIC_RELAXED);
		return false;
	}
	store_release(&producer->consumer_pos_seen, consumed);
	return end - consumed <= writer->size_bytes;
}

/* Whether the lap before, in the sub-buffer that a slot enters, has no unfinished record. */
static bool subbuf_is_complete(const struct ring_writer *writer,
			       const struct ring_writer_slot *slot)
{
	uint64_t lap = slot->pos / writer->size_bytes;
	uint64_t i = slot->pos % writer->size_bytes / writer->subbuf_bytes;

	return load_acquire((const __u64 *)&writer->committed_bytes[i]) ==
	       lap * writer->subbuf_bytes;
}

static bool enters_subbuf(const struct ring_writer *writer, const struct ring_writer_slot *slot)
{
	return (slot->pos & (writer->subbuf_bytes - 1)) == SUBBUF_HEAD_BYTES;
}

static void stop(struct ring_writer *writer)
{
	if (__atomic_exchange_n(&writer->producer->state, RT_RING_STOPPED, __ATOMIC_ACQ_REL) ==
	    RT_RING_RUNNING)
		ring_bell(writer);
}

/* Whether the policy lets the slot be taken; if not, *reason says why. */
static bool is_allowed(struct ring_writer *writer, const struct ring_writer_slot *slot,
		       enum rt_lost *reason)
{
	if (writer->policy == RT_POLICY_OVERWRITE) {
		*reason = RT_LOST_BUSY;
		return !enters_subbuf(writer, slot) || subbuf_is_complete(writer, slot);
	}
	*reason = RT_LOST_STOPPED;
	if (writer->policy == RT_POLICY_STOP &&
	    __atomic_load_n(&writer->producer->state, __ATOMIC_ACQUIRE) == RT_RING_STOPPED)
		return false;
	*reason = RT_LOST_FULL;
	if (has_room(writer, slot->end))
		return true;
	if (writer->policy == RT_POLICY_STOP)
		stop(writer);
	return false;
}

/* Stores one record of the ring's own, filler or head, whole. */
static void store_own(struct ring_writer *writer, uint64_t pos, const struct ring_writer_slot *slot,
		      const struct rt_subbuf *subbuf, uint32_t words)
{
	struct rt_record *at = (void *)(writer->data + (pos & (writer->size_bytes - 1)));

	if (subbuf) {
		store_release(&at->time_ns, slot->time_ns);
		store_release(&at->time_ns + 1, slot->lost_total << 32);
		store_release(&at->payload[0], subbuf->pos);
		store_release(&at->payload[1], subbuf->records);
		store_release(&at->payload[2], subbuf->lost_total);
	}
	store_release(&at->commit, rt_record_commit(pos, writer->key, words,
						    subbuf ? RT_PROBE_SUBBUF : RT_PROBE_PAD));
}

static void count_committed(struct ring_writer *writer, uint64_t pos, uint64_t bytes)
{
	uint64_t i = pos % writer->size_bytes / writer->subbuf_bytes;

	if (writer->policy == RT_POLICY_OVERWRITE)
		__atomic_fetch_add(&writer->committed_bytes[i], bytes, __ATOMIC_RELEASE);
}

/* Fills what lies between the reserved position and the record: filler, then a head. */
static void store_fillers(struct ring_writer *writer, const struct ring_writer_slot *slot)
{
	uint64_t head_pos = slot->pos - SUBBUF_HEAD_BYTES;
	uint64_t pad_bytes = head_pos - slot->reserved_pos;
	struct rt_subbuf subbuf = {
		.pos = head_pos, .records = slot->records, .lost_total = slot->lost_total,
	};

	if (slot->pos == slot->reserved_pos)
		return;
	if (pad_bytes) {
		store_own(writer, slot->reserved_pos, slot, NULL, pad_bytes / 8);
		count_committed(writer, slot->reserved_pos, pad_bytes);
	}
	store_own(writer, head_pos, slot, &subbuf, SUBBUF_HEAD_WORDS);
	count_committed(writer, head_pos, SUBBUF_HEAD_BYTES);
}

int ring_writer_reserve(struct ring_writer *writer, uint32_t words, uint64_t time_ns,
			struct ring_writer_slot *slot)
{
	struct rt_ring_producer *producer = writer->producer;
	uint64_t bytes = RT_RECORD_HEADER_BYTES + words * 8ull;
	enum rt_lost reason;

	if (words > PAYLOAD_WORDS_MAX)
		return -EMSGSIZE;
	for (unsigned i = 0; i < RT_RESERVE_TRIES; i++) {
		__u64 expected;

		/*
		 * All of it is read after the position: if it was never all true at once, somebody
		 * reserved in between and the swap fails.
		 */
		slot->reserved_pos = load_acquire(&producer->producer_pos);
		slot->lost_total = load_acquire(&producer->lost_total);
		slot->records = load_acquire((const __u64 *)&writer->records);
		place(writer, bytes, slot);
		if (!is_allowed(writer, slot, &reason)) {
			ring_writer_lose(writer, reason, 1);
			return -ENOSPC;
		}
		slot->time_ns = time_ns ? time_ns : clock_monotonic();
		expected = slot->reserved_pos;
		if (__atomic_compare_exchange_n(&producer->producer_pos, &expected, slot->end,
						false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
			store_fillers(writer, slot);
			return 0;
		}
	}
	ring_writer_lose(writer, RT_LOST_NEST, 1);
	return -ENOSPC;
}

/* ---- Committing ------------------------------------------------------------------------------ */

static uint32_t attachment_words(const struct ring_writer_attachment *attachment)
{
	return (sizeof(struct rt_attachment) + attachment->bytes + 7) / 8;
}

uint32_t ring_writer_words(const struct ring_writer_record *record)
{
	uint32_t words = record->words;

	for (uint32_t i = 0; i < record->attachments; i++)
		words += attachment_words(&record->attachment[i]);
	return words;
}

static __u64 *store_attachment(__u64 *to, const struct ring_writer_attachment *attachment)
{
	uint64_t head = attachment->kind | (uint64_t)attachment->arg << 16 |
			(uint64_t)attachment->bytes << 32;

	store_release(to++, head);
	for (uint32_t at = 0; at < attachment->bytes; at += 8) {
		uint32_t left = attachment->bytes - at;
		uint64_t word = 0;

		memcpy(&word, (const char *)attachment->data + at, left < 8 ? left : 8);
		store_release(to++, word);
	}
	return to;
}

/* Asked for at bell_at, and nobody answered that one yet: the partner is ring_reader_arm. */
static void answer_bell_at(struct ring_writer *writer, uint64_t end)
{
	struct rt_ring_producer *producer = writer->producer;
	uint64_t bell_at = __atomic_load_n(&writer->consumer->bell_at, __ATOMIC_SEQ_CST);

	if (end < bell_at || load_acquire(&producer->bell_answered) == bell_at)
		return;
	store_release(&producer->bell_answered, bell_at);
	ring_bell(writer);
}

void ring_writer_commit(struct ring_writer *writer, const struct ring_writer_slot *slot,
			const struct ring_writer_record *record)
{
	struct rt_record *at = (void *)(writer->data + (slot->pos & (writer->size_bytes - 1)));
	__u64 *to = at->payload;

	store_release(&at->time_ns, slot->time_ns);
	store_release(&at->time_ns + 1, record->tid | slot->lost_total << 32);
	for (uint32_t i = 0; i < record->words; i++)
		store_release(to++, record->payload[i]);
	for (uint32_t i = 0; i < record->attachments; i++)
		to = store_attachment(to, &record->attachment[i]);
	store_release(&at->commit, rt_record_commit(slot->pos, writer->key,
						    (slot->end - slot->pos) / 8, record->probe));

	if (writer->policy == RT_POLICY_OVERWRITE)
		__atomic_fetch_add(&writer->records, 1, __ATOMIC_RELEASE);
	count_committed(writer, slot->pos, slot->end - slot->pos);
	if (writer->policy == RT_POLICY_STOP && !has_room(writer, slot->end + writer->subbuf_bytes))
		stop(writer);
	answer_bell_at(writer, slot->end);
}

int ring_writer_write(struct ring_writer *writer, const struct ring_writer_record *record)
{
	struct ring_writer_slot slot;
	int err = ring_writer_reserve(writer, ring_writer_words(record), record->time_ns, &slot);

	if (!err)
		ring_writer_commit(writer, &slot, record);
	return err;
}

int ring_writer_wait(struct ring_writer *writer, uint32_t words, uint64_t timeout_ns)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	uint64_t spare = writer->policy == RT_POLICY_STOP ? writer->subbuf_bytes : 0;
	uint64_t until = 0;

	if (writer->policy == RT_POLICY_OVERWRITE)
		return 0;
	for (;;) {
		struct ring_writer_slot slot;

		if (__atomic_load_n(&writer->producer->state, __ATOMIC_ACQUIRE) == RT_RING_STOPPED)
			return -EPIPE;
		slot.reserved_pos = load_acquire(&writer->producer->producer_pos);
		place(writer, RT_RECORD_HEADER_BYTES + words * 8ull, &slot);
		if (has_room(writer, slot.end + spare))
			return 0;
		if (!until)
			until = clock_monotonic() + timeout_ns;
		else if (clock_monotonic() >= until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

/* ---- Questions ------------------------------------------------------------------------------- */

void ring_writer_resume(struct ring_writer *writer)
{
	__atomic_store_n(&writer->producer->state, RT_RING_RUNNING, __ATOMIC_RELEASE);
}

void ring_writer_describe(const struct ring_writer *writer, struct ring_handle *ring)
{
	*ring = (struct ring_handle){
		.cpu = writer->cpu,
		.ring_fd = writer->ring_fd,
		.ring_bytes = writer->map_bytes,
		.consumer_fd = writer->consumer_fd,
		.bell_fd = writer->bell_fd,
		.bell = RING_BELL_EVENTFD,
	};
}

struct rt_ring_producer *ring_writer_map(const struct ring_writer *writer, size_t *bytes)
{
	if (bytes)
		*bytes = writer->map_bytes;
	return writer->producer;
}

struct rt_ring_consumer *ring_writer_consumer(const struct ring_writer *writer)
{
	return writer->consumer;
}
