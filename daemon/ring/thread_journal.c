#include "daemon/ring/thread_journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/descriptor.h"
#include "daemon/base/log.h"
#include "daemon/host/service_manager.h"

#define NAME		"ringtail.threads"
#define MAGIC		0x7364616572687472ull	/* "rthreads" */
#define VERSION		2

struct header {
	uint64_t magic;
	uint32_t version, rings, slots, slot_bytes;
};

struct thread_journal {
	struct header *map;
	size_t bytes;
	unsigned rings;
};

/* A ring's part, in whole pages: it is another worker's. */
static size_t ring_bytes(void)
{
	size_t bytes = sizeof(struct thread_ring) +
		       (size_t)THREADS_PER_RING_MAX * sizeof(struct thread_slot);

	return (bytes + RT_PAGE_BYTES - 1) / RT_PAGE_BYTES * RT_PAGE_BYTES;
}

static size_t journal_bytes(unsigned rings)
{
	return RT_PAGE_BYTES + rings * ring_bytes();
}

static struct header expected(unsigned rings)
{
	return (struct header){
		.magic = MAGIC,
		.version = VERSION,
		.rings = rings,
		.slots = THREADS_PER_RING_MAX,
		.slot_bytes = sizeof(struct thread_slot),
	};
}

static struct header *map_file(int fd, size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	return map == MAP_FAILED ? NULL : map;
}

/* The run before's; NULL: there is none that fits. */
static struct header *map_left(struct activation *activation, unsigned rings)
{
	struct header *map = NULL, wanted = expected(rings);
	size_t bytes = journal_bytes(rings);
	struct stat stat;
	int fd;

	while ((fd = activation_next(activation, NAME, NULL)) >= 0) {
		if (!map && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
		    stat.st_size == (off_t)bytes)
			map = map_file(fd, bytes);
		close(fd);
	}
	if (!map || memcmp(map, &wanted, sizeof(wanted)) == 0)
		return map;
	munmap(map, bytes);
	return NULL;
}

static struct header *make(struct service_manager *manager, unsigned rings, struct error *error)
{
	int fd = descriptor_memory_file("ringtail-threads", false);
	size_t bytes = journal_bytes(rings);
	struct header *map = NULL;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		map = map_file(fd, bytes);
	if (!map)
		error_set(error, errno, "out-of-memory",
			  "cannot keep the names of threads for a restart: %s", strerror(errno));
	if (map) {
		*map = expected(rings);
		service_manager_drop(manager, NAME, -1);
		if (service_manager_store(manager, NAME, fd) != 0)
			log_warn("store-failed", "the service manager does not keep the names of "
				 "threads: a restart may lose events");
	}
	if (fd >= 0)
		close(fd);
	return map;
}

int thread_journal_open(struct activation *activation, struct service_manager *manager,
			unsigned rings, bool adopted, struct thread_journal **out,
			struct error *error)
{
	struct thread_journal *journal;
	struct header *left;

	*out = NULL;
	if (!manager)
		return 0;
	left = map_left(activation, rings);
	journal = calloc(1, sizeof(*journal));
	if (!journal)
		goto no_memory;
	journal->rings = rings;
	journal->bytes = journal_bytes(rings);
	if (left && adopted) {
		journal->map = left;
		*out = journal;
		return 0;
	}
	if (left)
		munmap(left, journal->bytes);
	if (adopted)
		log_warn("restart-threads",
			 "the previous run left no table of threads: events of threads that have "
			 "exited since have no name, and no filter on names passes them");
	journal->map = make(manager, rings, error);
	if (!journal->map) {
		free(journal);
		return -ENOMEM;
	}
	*out = journal;
	return 0;

no_memory:
	if (left)
		munmap(left, journal_bytes(rings));
	return error_set(error, ENOMEM, "out-of-memory", "out of memory");
}

void thread_journal_close(struct thread_journal *journal)
{
	if (!journal)
		return;
	munmap(journal->map, journal->bytes);
	free(journal);
}

struct thread_ring *thread_journal_ring(struct thread_journal *journal, unsigned ring)
{
	if (!journal || ring >= journal->rings)
		return NULL;
	return (struct thread_ring *)((uint8_t *)journal->map + RT_PAGE_BYTES +
				      ring * ring_bytes());
}

/* A killed process does its stores in this order, and the compiler keeps it: each is a release. */
void thread_ring_write(struct thread_ring *ring, uint32_t slot, uint32_t tid,
		       const struct rt_thread *thread)
{
	struct thread_slot *to = &ring->slot[slot];

	thread_ring_clear(ring, slot);
	to->tid = tid;
	to->thread = *thread;
	if (slot >= ring->slots)
		__atomic_store_n(&ring->slots, slot + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&to->used, 1, __ATOMIC_RELEASE);
}

void thread_ring_clear(struct thread_ring *ring, uint32_t slot)
{
	__atomic_store_n(&ring->slot[slot].used, 0, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void thread_ring_write_text(struct thread_ring *ring, uint64_t id, const void *data, uint32_t bytes)
{
	struct text_slot *to = &ring->text[ring->texts % RT_TEXTS_MAX];

	__atomic_store_n(&to->id, 0, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	to->bytes = bytes;
	memcpy(to->data, data, bytes);
	__atomic_store_n(&to->id, id, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->texts, ring->texts + 1, __ATOMIC_RELEASE);
}
