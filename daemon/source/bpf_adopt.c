/*
 * source_bpf_adopt: kernel objects that an earlier run has left in a store are looked at one by one,
 * and taken all or none: source_bpf_objects_adopt() of source_bpf_objects.h.
 *
 * What a descriptor is, the kernel says; its name is only where to look.
 */
#include "daemon/source/bpf_objects.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/ring/geometry.h"
#include "daemon/source/bpf_names.h"
#include "daemon/source/bpf_rings.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

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

static int take_maps(struct source_bpf_objects *objects, struct activation *kept,
		     uint64_t stride, struct error *error)
{
	const struct wanted_map wanted[] = {
		{"map.rings", BPF_MAP_TYPE_ARRAY, (uint32_t)stride, objects->cpus},
		{"map.consumers", BPF_MAP_TYPE_ARRAY, RT_PAGE_BYTES, objects->cpus},
		{"map.bells", BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(uint32_t), objects->cpus},
		{"map.variables", BPF_MAP_TYPE_ARRAY, sizeof(struct ringtail_bpf__bss), 1},
	};
	int *const fd[] = {&objects->rings, &objects->consumers, &objects->bells,
			   &objects->variables};
	const struct wanted_map bell = {"bell", BPF_MAP_TYPE_RINGBUF, 0, RT_PAGE_BYTES};
	char name[ACTIVATION_NAME_BYTES];
	int err = 0;

	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && !err; i++)
		err = take_map(kept, source_bpf_name(name, wanted[i].what), &wanted[i], fd[i],
			       error);
	for (unsigned i = 0; i < objects->cpus && !err; i++)
		err = take_map(kept, source_bpf_name_bell(name, i), &bell, &objects->bell[i],
			       error);
	return err;
}

/* A program, and its link if it is attached. */
static int take_program(struct source_bpf_objects *objects, struct activation *kept,
			enum source_bpf_program program, struct error *error)
{
	int *fd = &objects->program[program], *link = &objects->link[program];
	struct bpf_prog_info info = {};
	struct bpf_link_info link_info = {};
	uint32_t bytes = sizeof(info), link_bytes = sizeof(link_info);
	char name[ACTIVATION_NAME_BYTES];

	*fd = activation_next(kept, source_bpf_name_program(name, program), NULL);
	if (*fd < 0)
		return refuse(error, name, "it is not there");
	if (!is_kind(*fd, "bpf-prog") || bpf_obj_get_info_by_fd(*fd, &info, &bytes) != 0)
		return refuse(error, name, "it is no BPF program");
	if (info.type != BPF_PROG_TYPE_TRACING ||
	    strncmp(info.name, source_bpf_program_name(program), sizeof(info.name) - 1) != 0)
		return refuse(error, name, "it is another program");
	*link = activation_next(kept, source_bpf_name_link(name, program), NULL);
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

	source_bpf_name(name, "map.rings");
	for (unsigned i = 0; i < kept->count; i++)
		if (kept->entry[i].fd >= 0 && strcmp(kept->entry[i].name, name) == 0 &&
		    is_kind(kept->entry[i].fd, "bpf-map") &&
		    bpf_obj_get_info_by_fd(kept->entry[i].fd, &info, &bytes) == 0 &&
		    info.value_size != stride && info.value_size > 2 * RT_PAGE_BYTES)
			return error_set(error, ESTALE, "restart-ring-size",
					 "the rings of the earlier run are of %u KiB, and ring-size "
					 "is %llu KiB now", (info.value_size - 2 * RT_PAGE_BYTES) >> 10,
					 (unsigned long long)config->ring_bytes >> 10);
	return 0;
}

/* Whether there is anything of a BPF producer; of this agreement, or of another. */
static int find(const struct activation *kept, struct error *error)
{
	char ours[ACTIVATION_NAME_BYTES];
	bool any = false;

	source_bpf_name(ours, "");
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

int source_bpf_objects_adopt(struct source_bpf_objects *objects, struct activation *kept,
			     const struct source_config *config, struct error *error)
{
	uint64_t stride = source_bpf_rings_stride(config->ring_bytes);
	int cpus = libbpf_num_possible_cpus(), err = find(kept, error);

	if (err <= 0)
		return err;
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
		err = source_bpf_objects_map(objects, error);
	if (err)
		source_bpf_objects_fini(objects);
	return err ? err : 1;
}
