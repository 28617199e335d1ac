#include "daemon/ring/geometry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static int check_size(const struct ring_geometry *geometry, size_t map_bytes, struct error *error)
{
	uint64_t size = geometry->size_bytes, subbuf = geometry->subbuf_bytes;

	if (!is_power_of_two(size) || size < RT_RING_BYTES_MIN || size > RT_RING_BYTES_MAX)
		return error_set(error, EPROTO, "ring-geometry",
				 "a ring of %" PRIu64 " bytes: not a power of two from %u to %u",
				 size, RT_RING_BYTES_MIN, RT_RING_BYTES_MAX);
	if (!is_power_of_two(subbuf) || subbuf < RT_SUBBUF_BYTES_MIN ||
	    subbuf > size / RING_SUBBUFS_MIN)
		return error_set(error, EPROTO, "ring-geometry",
				 "sub-buffers of %" PRIu64 " bytes in a ring of %" PRIu64
				 ": not a power of two from %u to a quarter of it",
				 subbuf, size, RT_SUBBUF_BYTES_MIN);
	if (map_bytes < RT_PAGE_BYTES + size + RT_PAGE_BYTES)
		return error_set(error, EPROTO, "ring-geometry",
				 "%zu bytes are mapped of a ring that has %" PRIu64
				 ", its first page and slack not counted", map_bytes, size);
	if (geometry->policy > RT_POLICY_STOP)
		return error_set(error, EPROTO, "ring-policy",
				 "the ring has an overflow policy that does not exist: %d",
				 (int)geometry->policy);
	if (geometry->cpu >= RT_CPUS_MAX)
		return error_set(error, EPROTO, "ring-cpu",
				 "the ring claims to be of CPU %" PRIu32 ", over the bound of %u",
				 geometry->cpu, RT_CPUS_MAX);
	return 0;
}

static int check_position(const struct ring_geometry *geometry, uint64_t produced,
			  struct error *error)
{
	uint64_t consumed = geometry->consumer_pos;
	bool kept = geometry->policy == RT_POLICY_OVERWRITE ||
		    produced - consumed <= geometry->size_bytes;

	if (consumed % 8 || produced % 8 || consumed > produced || !kept)
		return error_set(error, EPROTO, "ring-position",
				 "CPU %" PRIu32 "'s ring was read up to %" PRIu64
				 " and written up to %" PRIu64 ", which cannot both be true",
				 geometry->cpu, consumed, produced);
	return 0;
}

int ring_geometry_read(const void *map, size_t map_bytes, const struct rt_ring_consumer *consumer,
		       struct ring_geometry *geometry, struct error *error)
{
	const struct rt_ring_producer *producer = map;
	int err;

	if (map_bytes < RT_PAGE_BYTES || (uintptr_t)map % 8 || (uintptr_t)consumer % 8)
		return error_set(error, EPROTO, "ring-geometry",
				 "%zu bytes, or badly aligned, cannot be a ring", map_bytes);
	/* The magic is what a producer stores last. */
	if (__atomic_load_n(&producer->magic, __ATOMIC_ACQUIRE) != RT_RING_MAGIC)
		return error_set(error, EPROTO, "ring-foreign",
				 "the mapping is not a ring: it does not begin with the magic");
	if (producer->version != RT_ABI_VERSION)
		return error_set(error, EPROTO, "ring-version",
				 "the ring speaks ABI version %" PRIu32 ", this program %u",
				 producer->version, RT_ABI_VERSION);
	*geometry = (struct ring_geometry){
		.size_bytes = producer->size_bytes,
		.subbuf_bytes = producer->subbuf_bytes,
		.key = producer->key & RT_TAG_MASK,
		.policy = producer->policy,
		.cpu = producer->cpu,
		.consumer_pos = __atomic_load_n(&consumer->consumer_pos, __ATOMIC_ACQUIRE),
	};
	err = check_size(geometry, map_bytes, error);
	if (err)
		return err;
	return check_position(geometry, __atomic_load_n(&producer->producer_pos, __ATOMIC_ACQUIRE),
			      error);
}
