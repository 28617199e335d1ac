#include "daemon/source/bpf_objects.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/random.h"
#include "daemon/host/service_manager.h"
#include "daemon/ring/reader.h"
#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_image.h"
#include "daemon/source/bpf_preempted.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

/*
 * ---- Names -------------------------------------------------------------------------------------
 *
 * In a store: "source.bpf.TAG." and what it is. The tag is of everything that this program and the
 * loaded ones agree upon, so that objects of another agreement are not mistaken for ours. Each returns
 * `name`.
 */

#define FNV_OFFSET	0xcbf29ce484222325ull	/* FNV-1a, 64 bits */
#define FNV_PRIME	0x100000001b3ull

/*
 * The number is the programs' own and goes up with every change of what they do; the places below
 * catch one that moves what they share and forgets it.
 */
static uint64_t agreement_tag(void)
{
	typedef struct ringtail_bpf__bss variables;
	const uint64_t agreed[] = {
		REQUEST_PROGRAMS_VERSION,
		RT_ABI_VERSION,
		sizeof(variables),
		offsetof(variables, requests),
		offsetof(variables, syscall_words),
		offsetof(variables, made_wishes),
		offsetof(variables, generation),
		offsetof(variables, threads),
		offsetof(variables, idle_threads),
		offsetof(variables, epoch),
		offsetof(variables, reader),
		offsetof(variables, maps_reader),
		offsetof(variables, maps_told_count),
		offsetof(variables, refused_told),
		offsetof(variables, stacks_cut),
		sizeof(struct bpf_request),
		offsetof(struct bpf_request, excluded),
		offsetof(struct bpf_request, timer),
		offsetof(struct bpf_request, clause),
		offsetof(variables, stuck_longer_than_ns),
		sizeof(struct maps_found),
		sizeof(struct stuck_thread),
		sizeof(struct bpf_thread),
		offsetof(struct bpf_thread, known),
		sizeof(struct rt_ring_producer),
		sizeof(struct rt_ring_consumer),
		PROGRAMS,
	};
	uint64_t tag = FNV_OFFSET;

	for (unsigned i = 0; i < sizeof(agreed) / sizeof(agreed[0]); i++)
		tag = (tag ^ agreed[i]) * FNV_PRIME;
	return tag;
}

static const char *program_name(enum source_bpf_program program)
{
	static const char *const name[PROGRAMS] = {
		[PROGRAM_EXIT] = "sched_process_exit",
		[PROGRAM_RENAME] = "task_rename",
		[PROGRAM_EXEC] = "sched_process_exec",
		[PROGRAM_MOVE] = "cgroup_attach_task",
		[PROGRAM_FORK] = "sched_process_fork",
		[PROGRAM_WAKEUP] = "sched_wakeup",
		[PROGRAM_WAKEUP_NEW] = "sched_wakeup_new",
		[PROGRAM_SWITCH] = "sched_switch",
		[PROGRAM_SYS_ENTER] = "sys_enter",
		[PROGRAM_SYS_EXIT] = "sys_exit",
		[PROGRAM_TIMER] = "timer",
		[PROGRAM_MAPS_FIND] = "maps_find",
		[PROGRAM_MAPS_TELL] = "maps_tell",
		[PROGRAM_STUCK] = "stuck",
		[PROGRAM_REFUSED] = "refused_tell",
	};

	return name[program];
}

static const char *name_object(char name[ACTIVATION_NAME_BYTES], const char *what)
{
	snprintf(name, ACTIVATION_NAME_BYTES, SOURCE_BPF_NAMES "%016" PRIx64 ".%s",
		 agreement_tag(), what);
	return name;
}

static const char *name_program(char name[ACTIVATION_NAME_BYTES], enum source_bpf_program program)
{
	char what[64];

	snprintf(what, sizeof(what), "program.%s", program_name(program));
	return name_object(name, what);
}

static const char *name_link(char name[ACTIVATION_NAME_BYTES], enum source_bpf_program program)
{
	char what[64];

	snprintf(what, sizeof(what), "link.%s", program_name(program));
	return name_object(name, what);
}

const char *source_bpf_name_timer(char *name, unsigned slot, unsigned cpu)
{
	char what[64];

	snprintf(what, sizeof(what), "timer.%u.%u", slot, cpu);
	return name_object(name, what);
}

static const char *name_bell(char name[ACTIVATION_NAME_BYTES], unsigned cpu)
{
	char what[64];

	snprintf(what, sizeof(what), "bell.%u", cpu);
	return name_object(name, what);
}

static const struct inner_map {
	const char *name;
	enum bpf_map_type type;
} inner_maps[SOURCE_BPF_INNER_MAPS] = {
	{"attaches", BPF_MAP_TYPE_PERCPU_ARRAY},
	{"exec_calls", BPF_MAP_TYPE_TASK_STORAGE},
	{"maps_told", BPF_MAP_TYPE_LRU_HASH},
	{"stuck_threads", BPF_MAP_TYPE_ARRAY},
	{"text_places", BPF_MAP_TYPE_PERCPU_ARRAY},
	{"texts", BPF_MAP_TYPE_HASH},
	{"timers", BPF_MAP_TYPE_PERCPU_ARRAY},
	{"unwind_processes", BPF_MAP_TYPE_HASH_OF_MAPS},
	{"unwind_tables", BPF_MAP_TYPE_ARRAY_OF_MAPS},
};

static const char *name_inner(char name[ACTIVATION_NAME_BYTES], unsigned i)
{
	char what[64];

	snprintf(what, sizeof(what), "map.%s", inner_maps[i].name);
	return name_object(name, what);
}

#define OUTER_MAPS	7	/* beside the bells */

/* A place for a map's descriptor in the objects, and the skeleton's map that belongs there. */
struct mapped {
	int *fd;
	struct bpf_map *map;
};

static void pair_maps(struct source_bpf_objects *objects, const struct ringtail_bpf *skeleton,
		      struct mapped pair[OUTER_MAPS + SOURCE_BPF_INNER_MAPS])
{
	const struct mapped outer[OUTER_MAPS] = {
		{&objects->rings, skeleton->maps.rings},
		{&objects->consumers, skeleton->maps.consumers},
		{&objects->bells, skeleton->maps.bells},
		{&objects->variables, skeleton->maps.bss},
		{&objects->maps_found, skeleton->maps.maps_found},
		{&objects->maps_wanted, skeleton->maps.maps_wanted},
		{&objects->storage, skeleton->maps.threads_without_slot},
	};

	memcpy(pair, outer, sizeof(outer));
	for (unsigned i = 0; i < SOURCE_BPF_INNER_MAPS; i++)
		pair[OUTER_MAPS + i] = (struct mapped){
			&objects->inner[i],
			bpf_object__find_map_by_name(skeleton->obj, inner_maps[i].name),
		};
}

/* ---- Descriptors ------------------------------------------------------------------------------- */

void source_bpf_objects_init(struct source_bpf_objects *objects)
{
	*objects = (struct source_bpf_objects){
		.rings = -1, .consumers = -1, .bells = -1, .variables = -1, .maps_found = -1, .maps_wanted = -1,
		.storage = -1, .barrier = -1,
	};
	for (unsigned i = 0; i < PROGRAMS; i++)
		objects->program[i] = objects->link[i] = objects->leaving[i] = -1;
	for (unsigned i = 0; i < SOURCE_BPF_INNER_MAPS; i++)
		objects->inner[i] = -1;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void join_hanger(struct source_bpf_objects *objects)
{
	if (objects->is_hanging)
		pthread_join(objects->hanger, NULL);
	objects->is_hanging = false;
}

void source_bpf_objects_fini(struct source_bpf_objects *objects)
{
	join_hanger(objects);
	if (objects->shared)
		munmap(objects->shared, sizeof(*objects->shared));
	for (int i = PROGRAMS - 1; i >= 0; i--) {
		close_one(&objects->link[i]);
		close_one(&objects->leaving[i]);
		close_one(&objects->program[i]);
	}
	for (unsigned i = 0; objects->bell && i < objects->cpus; i++)
		close_one(&objects->bell[i]);
	free(objects->bell);
	close_one(&objects->rings);
	close_one(&objects->consumers);
	close_one(&objects->bells);
	close_one(&objects->variables);
	close_one(&objects->maps_found);
	close_one(&objects->maps_wanted);
	close_one(&objects->storage);
	for (unsigned i = 0; i < SOURCE_BPF_INNER_MAPS; i++)
		close_one(&objects->inner[i]);
	close_one(&objects->barrier);
	source_bpf_objects_init(objects);
}

/* Maps the programs' variables. */
static int map_variables(struct source_bpf_objects *objects, struct error *error)
{
	void *map = mmap(NULL, sizeof(*objects->shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			 objects->variables, 0);

	if (map == MAP_FAILED)
		return source_bpf_check_failure(error, errno, "map the variables of the programs");
	objects->shared = map;
	return 0;
}

int source_bpf_objects_copy(struct source_bpf_objects *objects,
			    const struct ringtail_bpf *skeleton, struct error *error)
{
	struct mapped pair[OUTER_MAPS + SOURCE_BPF_INNER_MAPS];

	pair_maps(objects, skeleton, pair);
	for (unsigned i = 0; i < OUTER_MAPS + SOURCE_BPF_INNER_MAPS; i++) {
		*pair[i].fd = fcntl(bpf_map__fd(pair[i].map), F_DUPFD_CLOEXEC, 0);
		if (*pair[i].fd < 0)
			return source_bpf_check_failure(error, errno, "keep the BPF objects");
	}
	return map_variables(objects, error);
}

int source_bpf_objects_reuse(const struct source_bpf_objects *objects, struct ringtail_bpf *skeleton)
{
	struct mapped pair[OUTER_MAPS + SOURCE_BPF_INNER_MAPS];
	int err = 0;

	pair_maps((struct source_bpf_objects *)objects, skeleton, pair);
	for (unsigned i = 0; i < OUTER_MAPS + SOURCE_BPF_INNER_MAPS && !err; i++)
		err = bpf_map__reuse_fd(pair[i].map, *pair[i].fd);
	return err;
}

int source_bpf_objects_inner(const struct source_bpf_objects *objects, const char *name)
{
	for (unsigned i = 0; i < SOURCE_BPF_INNER_MAPS; i++)
		if (strcmp(inner_maps[i].name, name) == 0)
			return objects->inner[i];
	return -1;
}

int source_bpf_objects_program(struct source_bpf_objects *objects, enum source_bpf_program program,
			       struct source_store *store, struct error *error)
{
	char name[ACTIVATION_NAME_BYTES];
	int fd = objects->program[program];

	if (fd >= 0)
		return fd;
	fd = source_bpf_image_load(objects->images,
				   source_bpf_image_find(objects->images, program_name(program)), error);
	if (fd < 0)
		return fd;
	objects->program[program] = fd;
	if (store)
		store->keep(store->context, name_program(name, program), fd);
	return fd;
}

void source_bpf_objects_keep(const struct source_bpf_objects *objects, struct source_store *store)
{
	char name[ACTIVATION_NAME_BYTES];

	if (!store)
		return;
	for (unsigned i = 0; i < PROGRAMS; i++)
		if (objects->program[i] >= 0)
			store->keep(store->context, name_program(name, i), objects->program[i]);
	for (unsigned i = 0; i < SOURCE_BPF_INNER_MAPS; i++)
		store->keep(store->context, name_inner(name, i), objects->inner[i]);
	for (unsigned i = 0; i < objects->cpus; i++)
		store->keep(store->context, name_bell(name, i), objects->bell[i]);
	store->keep(store->context, name_object(name, "map.bells"), objects->bells);
	store->keep(store->context, name_object(name, "map.consumers"), objects->consumers);
	store->keep(store->context, name_object(name, "map.variables"), objects->variables);
	store->keep(store->context, name_object(name, "map.maps_found"), objects->maps_found);
	store->keep(store->context, name_object(name, "map.maps_wanted"), objects->maps_wanted);
	store->keep(store->context, name_object(name, "map.storage"), objects->storage);
	store->keep(store->context, name_object(name, "map.rings"), objects->rings);
}

void source_bpf_objects_keep_made(const struct source_bpf_objects *objects, struct source_store *store)
{
	char name[ACTIVATION_NAME_BYTES];

	if (store)
		store->keep(store->context, name_object(name, "made"), objects->variables);
}

/* ---- Links ------------------------------------------------------------------------------------ */

int source_bpf_objects_attach(struct source_bpf_objects *objects, enum source_bpf_program program,
			      struct source_store *store, struct error *error)
{
	char name[ACTIVATION_NAME_BYTES];
	int fd = source_bpf_objects_program(objects, program, store, error);

	if (fd < 0)
		return fd;
	objects->link[program] = objects->leaving[program];
	objects->leaving[program] = -1;
	if (objects->link[program] < 0)
		objects->link[program] = objects->tracepoint[program] ?
			source_bpf_perf_attach(objects->tracepoint[program], fd) : bpf_raw_tracepoint_open(NULL, fd);
	if (objects->link[program] < 0) {
		int err = errno;

		objects->link[program] = -1;
		return source_bpf_check_failure(error, err, "attach the BPF programs");
	}
	if (store)
		store->keep(store->context, name_link(name, program),
			    objects->link[program]);
	return 0;
}

/* A barrier after the last drop is one after every drop: an older one is not waited for any more. */
static void drop(struct source_bpf_objects *objects, enum source_bpf_program program,
		 struct source_store *store)
{
	char name[ACTIVATION_NAME_BYTES];
	int end[2] = {-1, -1};

	close_one(&objects->leaving[program]);
	objects->leaving[program] = objects->link[program];
	objects->link[program] = -1;
	close_one(&objects->barrier);
	if (pipe2(end, O_CLOEXEC | O_NONBLOCK) == 0)
		objects->barrier = end[0];
	store->drop(store->context, name_link(name, program), end[1]);
	close_one(&end[1]);
}

void source_bpf_objects_detach(struct source_bpf_objects *objects, uint32_t programs,
			       struct source_store *store)
{
	for (int i = PROGRAMS - 1; i >= 0; i--) {
		if (!(programs & 1u << i) || objects->link[i] < 0)
			continue;
		if (store)
			drop(objects, i, store);
		else
			close_one(&objects->link[i]);
	}
}

void source_bpf_objects_settle(struct source_bpf_objects *objects)
{
	for (int i = PROGRAMS - 1; i >= 0; i--)
		close_one(&objects->leaving[i]);
	close_one(&objects->barrier);
}

int source_bpf_objects_wait_for_programs(const struct source_bpf_objects *objects)
{
	uint32_t first = 0;

	return bpf_map_update_elem(objects->bells, &first, &objects->bell[0], BPF_ANY) ? -errno : 0;
}

/* ---- Rings ----------------------------------------------------------------------------------- */

#define SUBBUFS		16	/* in a ring, where that leaves them RT_SUBBUF_BYTES_MIN */

static uint64_t subbuf_bytes(uint64_t size_bytes)
{
	uint64_t bytes = size_bytes / SUBBUFS;

	return bytes < RT_SUBBUF_BYTES_MIN ? RT_SUBBUF_BYTES_MIN : bytes;
}

#define BESIDE_DATA_BYTES	(2 * RT_PAGE_BYTES + RT_COUNTED_BYTES)

/* One ring's part of the map: producer page, data, a page of slack, counts. */
static uint64_t stride_of(uint64_t ring_bytes)
{
	return ring_bytes + BESIDE_DATA_BYTES;
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
	err = bpf_map__set_value_size(skeleton->maps.rings, stride_of(config->ring_bytes));
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
		objects->bell[i] = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "bell", 0, 0, RT_PAGE_BYTES, NULL);
		if (objects->bell[i] < 0)
			return source_bpf_check_failure(error, errno, "make a bell");
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
	producer->counted_places = RT_COUNTED_PLACES;
	producer->producer_pos = bytes;
	return 0;
}

/* Written through a mapping that is gone before the map is frozen: freezing refuses while one is. */
static int init_producers(const struct source_bpf_objects *objects, uint64_t ring_bytes,
			  struct error *error)
{
	uint64_t stride = stride_of(ring_bytes);
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

/* In one call, where the kernel has such (5.13), so that it waits once for the programs that might look. */
static int hang_bells(const struct source_bpf_objects *objects)
{
	uint32_t *cpu = malloc((objects->cpus + 1) * sizeof(*cpu)), count = objects->cpus;
	int err = cpu ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < objects->cpus && cpu; i++)
		cpu[i] = i;
	if (!err && bpf_map_update_batch(objects->bells, cpu, objects->bell, &count, NULL) != 0)
		for (uint32_t i = 0; i < objects->cpus && !err; i++)
			err = bpf_map_update_elem(objects->bells, &i, &objects->bell[i], BPF_ANY) ? -errno : 0;
	free(cpu);
	return err;
}

static void *hang_on_thread(void *context)
{
	struct source_bpf_objects *objects = context;

	objects->hang_err = hang_bells(objects);
	return NULL;
}

/* The kernel waits for what is running, longest on a machine that is busy, while the loader goes on. */
static void begin_to_hang(struct source_bpf_objects *objects)
{
	objects->is_hanging = pthread_create(&objects->hanger, NULL, hang_on_thread, objects) == 0;
	if (!objects->is_hanging)
		hang_on_thread(objects);
}

int source_bpf_bells_wait(struct source_bpf_objects *objects, struct error *error)
{
	join_hanger(objects);
	return objects->hang_err ? source_bpf_check_failure(error, -objects->hang_err, "hang up a bell") : 0;
}

int source_bpf_rings_init(struct source_bpf_objects *objects, uint64_t ring_bytes,
			  struct error *error)
{
	int err = make_bells(objects, error);

	if (!err)
		err = init_consumers(objects, error);
	if (!err)
		err = init_producers(objects, ring_bytes, error);
	if (!err)
		begin_to_hang(objects);
	return err;
}

int source_bpf_objects_begin(struct source_bpf_objects *objects, struct error *error)
{
	int err = 0;

	for (unsigned i = PROGRAM_EXIT; i <= PROGRAM_MOVE && err >= 0; i++)
		err = source_bpf_objects_program(objects, i, NULL, error);
	return err < 0 ? err : 0;
}

int source_bpf_rings_get(const struct source_bpf_objects *objects, uint64_t ring_bytes, unsigned i,
			 struct ring_handle *ring)
{
	uint64_t stride = stride_of(ring_bytes);

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

/* ---- What an earlier run has left ------------------------------------------------------------- */

/*
 * Kernel objects in a store are looked at one by one, and taken all or none. What a descriptor is, the
 * kernel says; its name is only where to look.
 */

static int refuse(struct error *error, const char *name, const char *why)
{
	return error_set(error, ESTALE, "restart-foreign", "%s of the earlier run: %s", name, why);
}

/* Whether the descriptor is of that kind, as its link in /proc says. */
static bool is_kind(int fd, const char *kind)
{
	char path[64], text[64] = "", wanted[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	snprintf(wanted, sizeof(wanted), "anon_inode:%s", kind);
	return readlink(path, text, sizeof(text) - 1) > 0 && strcmp(text, wanted) == 0;
}

struct wanted_map {
	const char *what;		/* in its name */
	enum bpf_map_type type;
	uint32_t value_bytes, entries;
};

/* Takes a map out of the store. One that is no such map is closed. */
static int take_map(struct activation *kept, const char *name, const struct wanted_map *wanted,
		    int *fd, struct error *error)
{
	struct bpf_map_info info = {};
	uint32_t bytes = sizeof(info);

	*fd = activation_next(kept, name, NULL);
	if (*fd < 0)
		return refuse(error, name, "it is not there");
	if (!is_kind(*fd, "bpf-map") || bpf_obj_get_info_by_fd(*fd, &info, &bytes) != 0)
		return refuse(error, name, "it is no BPF map");
	if (info.type != wanted->type || info.value_size != wanted->value_bytes ||
	    info.max_entries != wanted->entries)
		return refuse(error, name, "it is another kind of map");
	return 0;
}

/* Nothing of ours looks into it: what a place of it is like, the version in its name says. */
static int take_inner(struct source_bpf_objects *objects, struct activation *kept, unsigned i, struct error *error)
{
	struct bpf_map_info info = {};
	uint32_t bytes = sizeof(info);
	char name[ACTIVATION_NAME_BYTES];
	int fd = activation_next(kept, name_inner(name, i), NULL);

	objects->inner[i] = fd;
	if (fd < 0)
		return refuse(error, name, "it is not there");
	if (!is_kind(fd, "bpf-map") || bpf_obj_get_info_by_fd(fd, &info, &bytes) != 0)
		return refuse(error, name, "it is no BPF map");
	if (info.type != inner_maps[i].type || strncmp(info.name, inner_maps[i].name, sizeof(info.name) - 1) != 0)
		return refuse(error, name, "it is another kind of map");
	return 0;
}

static int take_maps(struct source_bpf_objects *objects, struct activation *kept,
		     uint64_t stride, struct error *error)
{
	const struct wanted_map wanted[] = {
		{"map.rings", BPF_MAP_TYPE_ARRAY, (uint32_t)stride, objects->cpus},
		{"map.consumers", BPF_MAP_TYPE_ARRAY, RT_PAGE_BYTES, objects->cpus},
		{"map.bells", BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(uint32_t), objects->cpus},
		{"map.variables", BPF_MAP_TYPE_ARRAY, sizeof(struct ringtail_bpf__bss), 1},
		{"map.maps_found", BPF_MAP_TYPE_ARRAY, sizeof(struct maps_found), 1},
		{"map.maps_wanted", BPF_MAP_TYPE_RINGBUF, 0, MAPS_WANTED_BYTES},
		{"map.storage", BPF_MAP_TYPE_TASK_STORAGE, sizeof(struct bpf_thread), 0},
	};
	int *const fd[] = {&objects->rings, &objects->consumers, &objects->bells,
			   &objects->variables, &objects->maps_found, &objects->maps_wanted,
			   &objects->storage};
	const struct wanted_map bell = {"bell", BPF_MAP_TYPE_RINGBUF, 0, RT_PAGE_BYTES};
	char name[ACTIVATION_NAME_BYTES];
	int err = 0;

	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && !err; i++)
		err = take_map(kept, name_object(name, wanted[i].what), &wanted[i], fd[i],
			       error);
	for (unsigned i = 0; i < SOURCE_BPF_INNER_MAPS && !err; i++)
		err = take_inner(objects, kept, i, error);
	for (unsigned i = 0; i < objects->cpus && !err; i++)
		err = take_map(kept, name_bell(name, i), &bell, &objects->bell[i],
			       error);
	return err;
}

/* A link without a program is one that nobody can check. */
static int refuse_lone_link(struct activation *kept, enum source_bpf_program program, struct error *error)
{
	char name[ACTIVATION_NAME_BYTES], lone[ACTIVATION_NAME_BYTES];
	int link = activation_next(kept, name_link(lone, program), NULL);

	if (link < 0)
		return 0;
	close(link);
	return refuse(error, name_program(name, program), "it is not there");
}

static enum bpf_prog_type type_of(const struct source_bpf_objects *objects, enum source_bpf_program program)
{
	return program == PROGRAM_TIMER ? BPF_PROG_TYPE_PERF_EVENT :
	       program == PROGRAM_REFUSED ? BPF_PROG_TYPE_RAW_TRACEPOINT :
	       objects->tracepoint[program] ? BPF_PROG_TYPE_TRACEPOINT : BPF_PROG_TYPE_TRACING;
}

/* A program, if it was loaded, and its link if it is attached. */
static int take_program(struct source_bpf_objects *objects, struct activation *kept,
			enum source_bpf_program program, struct error *error)
{
	int *fd = &objects->program[program], *link = &objects->link[program];
	struct bpf_prog_info info = {};
	struct bpf_link_info link_info = {};
	uint32_t bytes = sizeof(info), link_bytes = sizeof(link_info);
	char name[ACTIVATION_NAME_BYTES];

	*fd = activation_next(kept, name_program(name, program), NULL);
	if (*fd < 0)
		return refuse_lone_link(kept, program, error);
	if (!is_kind(*fd, "bpf-prog") || bpf_obj_get_info_by_fd(*fd, &info, &bytes) != 0)
		return refuse(error, name, "it is no BPF program");
	if (info.type != type_of(objects, program) ||
	    strncmp(info.name, program_name(program), sizeof(info.name) - 1) != 0)
		return refuse(error, name, "it is another program");
	*link = activation_next(kept, name_link(name, program), NULL);
	if (*link < 0)
		return 0;
	if (!is_kind(*link, "bpf_link") ||
	    bpf_obj_get_info_by_fd(*link, &link_info, &link_bytes) != 0)
		return refuse(error, name, "it is no BPF link");
	if (link_info.prog_id != info.id)
		return refuse(error, name, "it is the link of another program");
	return 0;
}

/* Whether each ring is one, of the size that is configured. */
static int check_rings(const struct source_bpf_objects *objects, uint64_t stride,
		       struct error *error)
{
	int err = 0;

	for (unsigned i = 0; i < objects->cpus && !err; i++) {
		struct rt_ring_consumer *consumer;
		struct ring_geometry geometry;
		void *ring;

		ring = mmap(NULL, stride, PROT_READ, MAP_SHARED, objects->rings,
			    (off_t)(i * stride));
		consumer = mmap(NULL, RT_PAGE_BYTES, PROT_READ, MAP_SHARED, objects->consumers,
				(off_t)i * RT_PAGE_BYTES);
		if (ring == MAP_FAILED || consumer == MAP_FAILED)
			err = error_set(error, errno, "restart-foreign",
					"the rings of the earlier run cannot be mapped: %s",
					strerror(errno));
		else
			err = ring_geometry_read(ring, stride, consumer, &geometry, error);
		if (!err && geometry.cpu != i)
			err = error_set(error, ESTALE, "restart-foreign",
					"CPU %u's ring of the earlier run is of CPU %u", i,
					geometry.cpu);
		if (ring != MAP_FAILED)
			munmap(ring, stride);
		if (consumer != MAP_FAILED)
			munmap(consumer, RT_PAGE_BYTES);
	}
	return err;
}

/* The most frequent reason, and no fault: said in the words of the configuration. */
static int check_size(const struct activation *kept, const struct source_config *config,
		      uint64_t stride, struct error *error)
{
	char name[ACTIVATION_NAME_BYTES];
	struct bpf_map_info info = {};
	uint32_t bytes = sizeof(info);

	name_object(name, "map.rings");
	for (unsigned i = 0; i < kept->count; i++)
		if (kept->entry[i].fd >= 0 && strcmp(kept->entry[i].name, name) == 0 &&
		    is_kind(kept->entry[i].fd, "bpf-map") &&
		    bpf_obj_get_info_by_fd(kept->entry[i].fd, &info, &bytes) == 0 &&
		    info.value_size != stride && info.value_size > BESIDE_DATA_BYTES)
			return error_set(error, ESTALE, "restart-ring-size",
					 "the rings of the earlier run are of %u KiB, and ring-size "
					 "is %llu KiB now", (info.value_size - BESIDE_DATA_BYTES) >> 10,
					 (unsigned long long)config->ring_bytes >> 10);
	return 0;
}

/* Whether there is anything of a BPF producer; of this agreement, or of another. */
static int find(const struct activation *kept, struct error *error)
{
	char ours[ACTIVATION_NAME_BYTES];
	bool any = false;

	name_object(ours, "");
	for (unsigned i = 0; i < kept->count; i++) {
		const struct activation_fd *entry = &kept->entry[i];

		if (entry->fd < 0 ||
		    strncmp(entry->name, SOURCE_BPF_NAMES, strlen(SOURCE_BPF_NAMES)) != 0)
			continue;
		if (strncmp(entry->name, ours, strlen(ours)) == 0)
			return 1;
		any = true;
	}
	return any ? error_set(error, ESTALE, "restart-other-version",
			       "the programs in the kernel are of another version than this daemon's")
		   : 0;
}

static bool has_made(const struct activation *kept)
{
	char name[ACTIVATION_NAME_BYTES];

	name_object(name, "made");
	for (unsigned i = 0; i < kept->count; i++)
		if (kept->entry[i].fd >= 0 && strcmp(kept->entry[i].name, name) == 0)
			return true;
	return false;
}

int source_bpf_objects_adopt(struct source_bpf_objects *objects, struct activation *kept,
			     const struct source_config *config, struct error *error)
{
	uint64_t stride = stride_of(config->ring_bytes);
	int cpus = libbpf_num_possible_cpus(), err = find(kept, error);

	if (err <= 0)
		return err;
	if (has_made(kept))
		return error_set(error, ESTALE, "restart-made-probes", "the run before recorded probes that "
				 "were made on request (tracepoints), and these end with it");
	err = check_size(kept, config, stride, error);
	if (err)
		return err;
	objects->cpus = cpus > 0 ? (unsigned)cpus : 0;
	objects->bell = calloc(objects->cpus + 1, sizeof(*objects->bell));
	if (!objects->bell)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %d bells", cpus);
	for (unsigned i = 0; i < objects->cpus; i++)
		objects->bell[i] = -1;
	err = take_maps(objects, kept, stride, error);
	for (unsigned i = 0; i < PROGRAMS && !err; i++)
		err = take_program(objects, kept, i, error);
	if (!err)
		err = check_rings(objects, stride, error);
	if (!err)
		err = map_variables(objects, error);
	if (err)
		source_bpf_objects_fini(objects);
	return err ? err : 1;
}
