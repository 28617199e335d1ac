#include "daemon/programs/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/descriptor.h"

_Static_assert(sizeof(struct rt_program_segment) == RT_PROGRAM_PAGE, "one page, then the rings");
_Static_assert(sizeof(struct rt_program_ring) == RT_PROGRAM_PAGE, "one page, then the data");
_Static_assert(sizeof(struct rt_program_test) == RT_PROGRAM_TEST_WORDS * 8, "a test is whole words");

static int map_sealed(struct program_segment *segment)
{
	if (ftruncate(segment->fd, (off_t)segment->bytes) != 0 ||
	    fcntl(segment->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return -errno;
	segment->map = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
	return segment->map == MAP_FAILED ? -errno : 0;
}

/* Memory is taken page by page, by who touches it first: a program that writes nothing takes one. */
int program_segment_create(struct program_segment *segment, uint32_t cpus, uint64_t ring_bytes, bool rseq,
			   uint32_t probes)
{
	uint32_t rings = rseq ? cpus + 1 : cpus < 2 ? 2 : cpus;
	int err;

	*segment = (struct program_segment){.rings = rings, .first_locked = rseq ? cpus : 0,
					     .ring_bytes = ring_bytes};
	segment->bytes = RT_PROGRAM_PAGE + rings * (RT_PROGRAM_PAGE + ring_bytes);
	segment->fd = descriptor_memory_file("ringtail-program", true);
	if (segment->fd < 0)
		return segment->fd;
	err = map_sealed(segment);
	if (err) {
		close(segment->fd);
		return err;
	}
	segment->map->version = RT_PROGRAM_VERSION;
	segment->map->rings = rings;
	segment->map->first_locked = segment->first_locked;
	segment->map->probes = probes;
	segment->probes = probes;
	segment->map->ring_bytes = ring_bytes;
	segment->map->magic = RT_PROGRAM_MAGIC;
	return 0;
}

void program_segment_count(struct program_segment *segment, bool counter)
{
	__atomic_store_n(&segment->map->counter, counter, __ATOMIC_RELAXED);
}

void program_segment_close_fd(struct program_segment *segment)
{
	if (segment->fd >= 0)
		close(segment->fd);
	segment->fd = -1;
}

/* A program may have it mapped yet, and does not keep it in use: whoever still writes gets new pages, which are zero. */
void program_segment_destroy(struct program_segment *segment)
{
	for (uint32_t i = 0; i < segment->rings; i++)
		madvise((char *)program_segment_ring(segment, i) + RT_PROGRAM_PAGE, segment->ring_bytes, MADV_REMOVE);
	program_segment_close_fd(segment);
	munmap(segment->map, segment->bytes);
}

struct rt_program_ring *program_segment_ring(const struct program_segment *segment, uint32_t i)
{
	return (struct rt_program_ring *)((char *)segment->map + RT_PROGRAM_PAGE +
					  i * (RT_PROGRAM_PAGE + segment->ring_bytes));
}

/* In this order: what is enabled here from then on is not written. */
void program_segment_leave(struct program_segment *segment)
{
	__atomic_store_n(&segment->map->leaving, 1, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < segment->probes; i++)
		program_segment_enable(segment, i, true);
}

void program_segment_enable(struct program_segment *segment, uint32_t probe, bool on)
{
	__atomic_store_n(&segment->map->enabled[probe], on, __ATOMIC_RELEASE);
}

/* The releases keep what was written before them in front, above all the odd turn: see rt_probe_passes(). */
static void write_all(struct program_segment *segment, const uint32_t *enabled, const struct rt_program_test *test,
		      uint32_t tests)
{
	for (uint32_t i = 0; i < tests; i++) {
		uint64_t word[RT_PROGRAM_TEST_WORDS];

		memcpy(word, &test[i], sizeof(word));
		for (unsigned k = 0; k < RT_PROGRAM_TEST_WORDS; k++)
			__atomic_store_n(&segment->map->test[i][k], word[k], __ATOMIC_RELEASE);
	}
	for (uint32_t i = 0; i < segment->probes; i++)
		__atomic_store_n(&segment->map->enabled[i], enabled[i], __ATOMIC_RELEASE);
}

void program_segment_narrow(struct program_segment *segment, const uint32_t *enabled, const struct rt_program_test *test,
			    uint32_t tests)
{
	bool matters = tests || segment->narrowed;

	if (matters)
		__atomic_store_n(&segment->map->turn, ++segment->turn, __ATOMIC_RELAXED);
	write_all(segment, enabled, test, tests);
	if (matters)
		__atomic_store_n(&segment->map->turn, ++segment->turn, __ATOMIC_RELEASE);
	segment->narrowed = tests;
}
