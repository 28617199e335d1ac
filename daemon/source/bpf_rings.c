#include "daemon/source/bpf_rings.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/random.h"
#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_objects.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

#define SUBBUFS		16	/* in a ring, where that leaves them RT_SUBBUF_BYTES_MIN */

static uint64_t subbuf_bytes(uint64_t size_bytes)
{
	uint64_t bytes = size_bytes / SUBBUFS;

	return bytes < RT_SUBBUF_BYTES_MIN ? RT_SUBBUF_BYTES_MIN : bytes;
}

uint64_t source_bpf_rings_stride(uint64_t ring_bytes)
{
	return RT_PAGE_BYTES + ring_bytes + RT_PAGE_BYTES;
}

static int check_geometry(const struct source_config *config, int cpus, struct error *error)
{
	uint64_t size = config->ring_bytes;

	if (size < RT_RING_BYTES_MIN || size > RT_RING_BYTES_MAX || size & (size - 1)) {
		error_set(error, EINVAL, "ring-size", "a ring of %llu bytes can not be",
			  (unsigned long long)size);
		error_hint(error, "ring-size must be a power of two from %u to %u",
			   RT_RING_BYTES_MIN, RT_RING_BYTES_MAX);
		return -EINVAL;
	}
	if (config->policy != RT_POLICY_DROP) {
		error_set(error, EOPNOTSUPP, "ring-policy", "the BPF producer knows only the policy "
			  "`drop`");
		error_hint(error, "ask for policy `drop`");
		return -EOPNOTSUPP;
	}
	if (cpus < 0 || cpus > RT_CPUS_MAX)
		return error_set(error, E2BIG, "too-many-cpus", "this kernel may have %d CPUs, and "
				 "ringtail at most %d", cpus, RT_CPUS_MAX);
	return 0;
}

int source_bpf_rings_size(struct ringtail_bpf *skeleton, const struct source_config *config,
			  struct error *error)
{
	int cpus = libbpf_num_possible_cpus();
	int err = check_geometry(config, cpus, error);

	if (err)
		return err;
	skeleton->rodata->ring_size = config->ring_bytes;
	skeleton->rodata->ring_place_mask = config->ring_bytes - 8;
	skeleton->rodata->subbuf_mask = subbuf_bytes(config->ring_bytes) - 1;
	skeleton->rodata->cpu_words = (cpus + THREAD_KNOWN_CPUS - 1) / THREAD_KNOWN_CPUS;
	err = bpf_map__set_value_size(skeleton->maps.rings,
					  source_bpf_rings_stride(config->ring_bytes));
	if (!err)
		err = bpf_map__set_max_entries(skeleton->maps.rings, cpus);
	if (!err)
		err = bpf_map__set_max_entries(skeleton->maps.consumers, cpus);
	if (!err)
		err = bpf_map__set_max_entries(skeleton->maps.bells, cpus);
	return err ? source_bpf_check_failure(error, -err, "size the rings") : 0;
}

static int make_bells(struct source_bpf_objects *objects, struct error *error)
{
	objects->cpus = (unsigned)libbpf_num_possible_cpus();
	objects->bell = malloc((objects->cpus + 1) * sizeof(*objects->bell));
	if (!objects->bell)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %u bells",
				 objects->cpus);
	for (unsigned i = 0; i < objects->cpus; i++)
		objects->bell[i] = -1;
	for (uint32_t i = 0; i < objects->cpus; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "bell", 0, 0, RT_PAGE_BYTES, NULL);

		if (fd < 0)
			return source_bpf_check_failure(error, errno, "make a bell");
		objects->bell[i] = fd;
		if (bpf_map_update_elem(objects->bells, &i, &fd, BPF_ANY))
			return source_bpf_check_failure(error, errno, "hang up a bell");
	}
	return 0;
}

/* An empty ring: its first sub-buffer has begun, so that a reader finds its header at once. */
static int init_producer(struct rt_ring_producer *producer, uint64_t size_bytes, uint32_t cpu)
{
	struct rt_record *record = (void *)((uint8_t *)producer + RT_PAGE_BYTES);
	const uint32_t bytes = RT_RECORD_HEADER_BYTES + sizeof(struct rt_subbuf);
	uint64_t key;
	int err = random_bytes(&key, sizeof(key));

	if (err)
		return err;
	record->time_ns = clock_monotonic();
	record->commit = rt_record_commit(0, key, bytes / 8, RT_PROBE_SUBBUF);
	producer->magic = RT_RING_MAGIC;
	producer->version = RT_ABI_VERSION;
	producer->cpu = cpu;
	producer->size_bytes = size_bytes;
	producer->subbuf_bytes = subbuf_bytes(size_bytes);
	producer->key = key;
	producer->policy = RT_POLICY_DROP;
	producer->state = RT_RING_RUNNING;
	producer->producer_pos = bytes;
	return 0;
}

/* Written through a mapping that is gone before the map is frozen: freezing refuses while one is. */
static int init_producers(const struct source_bpf_objects *objects, uint64_t ring_bytes,
			  struct error *error)
{
	uint64_t stride = source_bpf_rings_stride(ring_bytes);
	size_t bytes = stride * objects->cpus;
	uint8_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, objects->rings, 0);
	int err = 0;

	if (map == MAP_FAILED)
		return source_bpf_check_failure(error, errno, "map the rings");
	for (unsigned i = 0; i < objects->cpus && !err; i++)
		err = init_producer((void *)(map + i * stride), ring_bytes, i);
	munmap(map, bytes);
	if (err)
		return error_set(error, -err, "no-random-numbers", "cannot make a ring's key: %s",
				 strerror(-err));
	if (bpf_map_freeze(objects->rings))
		return source_bpf_check_failure(error, errno, "make the rings read-only");
	return 0;
}

/* No consumer has asked for a bell yet. */
static int init_consumers(const struct source_bpf_objects *objects, struct error *error)
{
	size_t bytes = (size_t)RT_PAGE_BYTES * objects->cpus;
	uint8_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, objects->consumers, 0);

	if (map == MAP_FAILED)
		return source_bpf_check_failure(error, errno, "map the consumer pages");
	for (unsigned i = 0; i < objects->cpus; i++)
		((struct rt_ring_consumer *)(map + i * RT_PAGE_BYTES))->bell_at = RT_BELL_NEVER;
	munmap(map, bytes);
	return 0;
}

int source_bpf_rings_init(struct source_bpf_objects *objects, uint64_t ring_bytes,
			  struct error *error)
{
	int err = make_bells(objects, error);

	if (!err)
		err = init_consumers(objects, error);
	if (!err)
		err = init_producers(objects, ring_bytes, error);
	return err;
}

int source_bpf_rings_get(const struct source_bpf_objects *objects, uint64_t ring_bytes, unsigned i,
			 struct ring_handle *ring)
{
	uint64_t stride = source_bpf_rings_stride(ring_bytes);

	if (i >= objects->cpus)
		return -ENOENT;
	*ring = (struct ring_handle){
		.cpu = i,
		.ring_fd = objects->rings,
		.ring_offset = i * stride,
		.ring_bytes = stride,
		.consumer_fd = objects->consumers,
		.consumer_offset = (uint64_t)i * RT_PAGE_BYTES,
		.bell_fd = objects->bell[i],
		.bell = RING_BELL_BPF_RINGBUF,
	};
	return 0;
}

int source_bpf_rings_wait_for_programs(const struct source_bpf_objects *objects)
{
	uint32_t first = 0;

	return bpf_map_update_elem(objects->bells, &first, &objects->bell[0], BPF_ANY) ? -errno : 0;
}
