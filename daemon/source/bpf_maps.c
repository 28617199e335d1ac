#include "daemon/source/bpf_maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/source/bpf_check.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

/* Runs an iterator over one task. It writes nothing here: reading is what makes it go. */
static int iterate(int program, uint32_t tid)
{
	union bpf_iter_link_info info = {.task = {.tid = tid}};
	LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info, .iter_info_len = sizeof(info));
	int link = bpf_link_create(program, 0, BPF_TRACE_ITER, &options), iterator;
	char nothing[64];
	ssize_t got;

	if (link < 0)
		return -errno;
	iterator = bpf_iter_create(link);
	close(link);
	if (iterator < 0)
		return -errno;
	do {
		got = read(iterator, nothing, sizeof(nothing));
	} while (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)));
	close(iterator);
	return got < 0 ? -errno : 0;
}

static int look_at(void *context, void *data, size_t bytes)
{
	struct source_bpf_maps *maps = context;
	struct ringtail_bpf__bss *shared = maps->objects->shared;
	const struct maps_wanted *wanted = data;
	uint64_t before = shared->maps_told_count;
	int err;

	if (bytes < sizeof(*wanted))
		return 0;
	err = iterate(maps->objects->program[PROGRAM_MAPS_FIND], wanted->tid);
	if (!err)
		err = iterate(maps->objects->program[PROGRAM_MAPS_TELL], wanted->tid);
	if (err || shared->maps_told_count == before)
		maps->too_late++;
	return ++maps->turn < MAPS_TURN_MAX ? 0 : -EAGAIN;
}

int source_bpf_maps_init(struct source_bpf_maps *maps, struct source_bpf_objects *objects,
			 struct error *error)
{
	maps->objects = objects;
	maps->wanted = ring_buffer__new(objects->maps_wanted, look_at, maps, NULL);
	if (!maps->wanted)
		return source_bpf_check_failure(error, errno, "read which maps are wanted");
	return 0;
}

void source_bpf_maps_fini(struct source_bpf_maps *maps)
{
	ring_buffer__free(maps->wanted);
	maps->wanted = NULL;
}

int source_bpf_maps_fd(const struct source_bpf_maps *maps)
{
	return maps->wanted ? maps->objects->maps_wanted : -1;
}

void source_bpf_maps_look(struct source_bpf_maps *maps)
{
	maps->turn = 0;
	ring_buffer__consume(maps->wanted);
}
