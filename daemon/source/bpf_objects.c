/* source_bpf_objects: see source_bpf_objects.h. This file: where they come from, links, the end. */
#include "daemon/source/bpf_objects.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_names.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

void source_bpf_objects_init(struct source_bpf_objects *objects)
{
	*objects = (struct source_bpf_objects){
		.rings = -1, .consumers = -1, .bells = -1, .variables = -1, .barrier = -1,
	};
	for (unsigned i = 0; i < PROGRAMS; i++)
		objects->program[i] = objects->link[i] = objects->leaving[i] = -1;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void source_bpf_objects_fini(struct source_bpf_objects *objects)
{
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
	close_one(&objects->barrier);
	source_bpf_objects_init(objects);
}

int source_bpf_objects_map(struct source_bpf_objects *objects, struct error *error)
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
	const struct bpf_program *program[PROGRAMS] = {
		[PROGRAM_EXIT] = skeleton->progs.sched_process_exit,
		[PROGRAM_RENAME] = skeleton->progs.task_rename,
		[PROGRAM_EXEC] = skeleton->progs.sched_process_exec,
		[PROGRAM_FORK] = skeleton->progs.sched_process_fork,
		[PROGRAM_WAKEUP] = skeleton->progs.sched_wakeup,
		[PROGRAM_WAKEUP_NEW] = skeleton->progs.sched_wakeup_new,
		[PROGRAM_SWITCH] = skeleton->progs.sched_switch,
		[PROGRAM_SYS_ENTER] = skeleton->progs.sys_enter,
		[PROGRAM_SYS_EXIT] = skeleton->progs.sys_exit,
	};
	struct {
		int *to, from;
	} copy[4 + PROGRAMS] = {
		{&objects->rings, bpf_map__fd(skeleton->maps.rings)},
		{&objects->consumers, bpf_map__fd(skeleton->maps.consumers)},
		{&objects->bells, bpf_map__fd(skeleton->maps.bells)},
		{&objects->variables, bpf_map__fd(skeleton->maps.bss)},
	};

	for (unsigned i = 0; i < PROGRAMS; i++) {
		copy[4 + i].to = &objects->program[i];
		copy[4 + i].from = bpf_program__fd(program[i]);
	}
	for (unsigned i = 0; i < 4 + PROGRAMS; i++) {
		*copy[i].to = fcntl(copy[i].from, F_DUPFD_CLOEXEC, 0);
		if (*copy[i].to < 0)
			return source_bpf_check_failure(error, errno, "keep the BPF objects");
	}
	return source_bpf_objects_map(objects, error);
}

void source_bpf_objects_keep(const struct source_bpf_objects *objects, struct source_store *store)
{
	char name[ACTIVATION_NAME_BYTES];

	if (!store)
		return;
	for (unsigned i = 0; i < PROGRAMS; i++)
		store->keep(store->context, source_bpf_name_program(name, i),
			    objects->program[i]);
	for (unsigned i = 0; i < objects->cpus; i++)
		store->keep(store->context, source_bpf_name_bell(name, i), objects->bell[i]);
	store->keep(store->context, source_bpf_name(name, "map.bells"), objects->bells);
	store->keep(store->context, source_bpf_name(name, "map.consumers"), objects->consumers);
	store->keep(store->context, source_bpf_name(name, "map.variables"), objects->variables);
	store->keep(store->context, source_bpf_name(name, "map.rings"), objects->rings);
}

/* ---- Links ------------------------------------------------------------------------------------ */

int source_bpf_objects_attach(struct source_bpf_objects *objects, enum source_bpf_program program,
			      struct source_store *store)
{
	char name[ACTIVATION_NAME_BYTES];

	objects->link[program] = objects->leaving[program];
	objects->leaving[program] = -1;
	if (objects->link[program] < 0)
		objects->link[program] = bpf_raw_tracepoint_open(NULL, objects->program[program]);
	if (objects->link[program] < 0) {
		objects->link[program] = -1;
		return -errno;
	}
	if (store)
		store->keep(store->context, source_bpf_name_link(name, program),
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
	store->drop(store->context, source_bpf_name_link(name, program), end[1]);
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
