/*
 * source_bpf: the producer of kmod/bpf, loaded into the kernel: `struct source_ops source_bpf`.
 *
 * In: requests. Out: rings that the kernel fills. The loader's one thread; no network.
 *
 * Opening takes CAP_BPF and CAP_PERFMON (and CAP_SYS_ADMIN or the rights to read tracefs, or the
 * arguments of system calls have no names). Afterwards CAP_BPF and CAP_PERFMON must stay, because
 * each request may attach programs.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/descriptor.h"
#include "daemon/base/limits.h"
#include "daemon/host/service_manager.h"
#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_image.h"
#include "daemon/source/bpf_kernel_part.h"
#include "daemon/source/bpf_made.h"
#include "daemon/source/bpf_objects.h"
#include "daemon/source/bpf_preempted.h"
#include "daemon/source/bpf_refused.h"
#include "daemon/source/bpf_stuck.h"
#include "daemon/source/bpf_timers.h"
#include "daemon/source/bpf_unwind.h"
#include "daemon/source/source.h"
#include "daemon/source/syscall_catalog.h"
#include "daemon/source/tracepoints.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

#define PROGRAM_BIT(program)	(1u << (program))
#define PROGRAMS_OF_THREADS	(PROGRAM_BIT(PROGRAM_EXIT) | PROGRAM_BIT(PROGRAM_RENAME) | \
				 PROGRAM_BIT(PROGRAM_EXEC) | PROGRAM_BIT(PROGRAM_MOVE))

/*
 * ---- The maps of processes -------------------------------------------------------------------
 *
 * The loader looks at the maps of a process when a program asks for it, because it took a stack of one whose maps
 * nobody was told. Two BPF iterators do the looking and write the records; nothing of the process is read here.
 * In: the ring buffer in which programs ask. Out: records in the rings.
 */

struct source_maps {
	struct source_bpf_objects *objects;
	struct source_store *store;
	struct ring_buffer *wanted;
	struct source_bpf_unwind *unwind;
	unsigned turn;			/* processes looked at in this turn */
	uint64_t too_late;		/* had ended, or could not be looked at */
};

/* Runs an iterator over one task. It writes nothing here: reading is what makes it go. */
static int iterate(const struct source_maps *maps, enum source_bpf_program which, uint32_t tid)
{
	struct error error;
	int program = source_bpf_objects_program(maps->objects, which, maps->store, &error);
	union bpf_iter_link_info info = {.task = {.tid = tid}};
	LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info, .iter_info_len = sizeof(info));
	int link = program < 0 ? -1 : bpf_link_create(program, 0, BPF_TRACE_ITER, &options), iterator;
	char nothing[64];
	ssize_t got;

	if (program < 0)
		return program;
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

static int look_at_maps(void *context, void *data, size_t bytes)
{
	struct source_maps *maps = context;
	struct ringtail_bpf__bss *shared = maps->objects->shared;
	const struct maps_wanted *wanted = data;
	uint64_t before = shared->maps_told_count;
	int err;

	if (bytes < sizeof(*wanted))
		return 0;
	err = iterate(maps, PROGRAM_MAPS_FIND, wanted->tid);
	if (!err)
		err = iterate(maps, PROGRAM_MAPS_TELL, wanted->tid);
	if (err || shared->maps_told_count == before)
		maps->too_late++;
	else
		source_bpf_unwind_take(maps->unwind);
	return ++maps->turn < MAPS_TURN_MAX ? 0 : -EAGAIN;
}

static int maps_init(struct source_maps *maps, struct source_bpf_objects *objects, bool are_adopted,
		     const struct source_config *config, struct error *error)
{
	maps->objects = objects;
	maps->store = config->store;
	maps->unwind = source_bpf_unwind_create(objects, are_adopted, config->finder);
	if (!maps->unwind)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for tables of user stacks");
	maps->wanted = ring_buffer__new(objects->maps_wanted, look_at_maps, maps, NULL);
	if (!maps->wanted)
		return source_bpf_check_failure(error, errno, "read which maps are wanted");
	return 0;
}

static void maps_fini(struct source_maps *maps)
{
	ring_buffer__free(maps->wanted);
	maps->wanted = NULL;
	source_bpf_unwind_destroy(maps->unwind);
	maps->unwind = NULL;
}

/* Readable when a program asks; -1: none can. */
static int maps_fd(const struct source_maps *maps)
{
	return maps->wanted ? maps->objects->maps_wanted : -1;
}

/* Looks at those that were asked for, at most MAPS_TURN_MAX of them. */
static void maps_look(struct source_maps *maps)
{
	maps->turn = 0;
	ring_buffer__consume(maps->wanted);
	source_bpf_unwind_work(maps->unwind);
}

struct source {
	struct source_bpf_objects objects;
	struct source_bpf_images *images;
	struct source_bpf_made *made;
	bool has_made;			/* the store knows */
	struct source_bpf_timers timers;
	struct source_maps maps;
	struct source_bpf_stuck stuck;
	uint64_t ring_bytes;
	struct source_store *store;	/* NULL: nobody keeps anything */
	bool adopted;
	struct error why_not;		/* code "": there was nothing to adopt */
	Ringtail__V1__Catalog *catalog;
	uint32_t word[RT_SYSCALLS_MAX];	/* of each system call, without wishes */
	uint32_t excluded[REQUEST_EXCLUDED_MAX];
	uint32_t generation;		/* of the current request */
	uint32_t syscalls_since;	/* generation under which sys_exit was attached */
	bool refuses;			/* the kernel has refused to run a program: it may again */
};

_Static_assert(sizeof(((struct source_config *)0)->excluded_pids) ==
	       sizeof(((struct source *)0)->excluded), "the same pids are excluded");

/* ---- open and close ----------------------------------------------------------------------- */

/* Whether a controller is in a version 1 hierarchy: the unified one has the number 0. */
static bool host_has_cgroups_v1(void)
{
	FILE *file = fopen("/proc/cgroups", "re");
	char line[256];
	bool has = false;
	unsigned number;

	while (file && !has && fgets(line, sizeof(line), file))
		has = sscanf(line, "%*s %u", &number) == 1 && number;
	if (file)
		fclose(file);
	return has;
}

/*
 * libbpf would copy the first content of the programs' variables into the kernel: megabytes of zeros,
 * which are there already.
 */
static int make_variables(struct ringtail_bpf *skeleton)
{
	struct bpf_map *variables = skeleton->maps.bss;
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = bpf_map__map_flags(variables));
	int fd = bpf_map_create(bpf_map__type(variables), bpf_map__name(variables),
				bpf_map__key_size(variables), bpf_map__value_size(variables),
				bpf_map__max_entries(variables), &options);
	int err = fd < 0 ? -errno : bpf_map__reuse_fd(variables, fd);

	if (fd >= 0)
		close(fd);
	return err;
}

/* The kernel's side of the programs: their maps, and what of them every request takes. */
static int load_objects(struct source *source, struct ringtail_bpf *skeleton,
			const struct source_config *config, struct error *error)
{
	int err = source->adopted ? source_bpf_objects_reuse(&source->objects, skeleton) : make_variables(skeleton);

	if (!err)
		err = ringtail_bpf__load(skeleton);
	if (err)
		return source_bpf_check_failure(error, -err, "load the BPF programs");
	if (source->adopted)
		return 0;
	err = source_bpf_objects_copy(&source->objects, skeleton, error);
	return err ? err : source_bpf_rings_init(&source->objects, config->ring_bytes, error);
}

static int load_skeleton(struct source *source, struct ringtail_bpf *skeleton,
			 const struct source_config *config, struct error *error)
{
	int err = source_bpf_rings_size(skeleton, config, error);

	if (err)
		return err;
	skeleton->rodata->cgroups_v1 = host_has_cgroups_v1();
	skeleton->rodata->syscalls_by_perf = source->objects.tracepoint[PROGRAM_SYS_ENTER] != 0;
	syscall_catalog_looks(source->catalog, (uint32_t *)skeleton->rodata->syscall_looks);
	syscall_catalog_structures(source->catalog, (uint64_t *)skeleton->rodata->syscall_structures,
				   (uint32_t *)skeleton->rodata->structure_bytes);
	return load_objects(source, skeleton, config, error);
}

/* By the part of the kernel's types that the programs name. Where there is no /proc, libbpf finds all of them itself. */
static int relocate(struct source *source, const struct source_config *config, const struct btf *kernel, int part,
		    struct error *error)
{
	char path[sizeof("/proc/self/fd/") + 16];
	LIBBPF_OPTS(bpf_object_open_opts, options);
	struct ringtail_bpf *skeleton;
	int err = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", part);
	if (part >= 0 && access(path, R_OK) == 0)
		options.btf_custom_path = path;
	skeleton = ringtail_bpf__open_opts(&options);
	if (!skeleton)
		return source_bpf_check_failure(error, errno, "open the BPF programs");
	if (options.btf_custom_path)
		err = bpf_kernel_part_write(kernel, bpf_object__btf(skeleton->obj), part);
	if (err)
		source_bpf_check_failure(error, -err, "choose from the kernel's types");
	else
		err = load_skeleton(source, skeleton, config, error);
	ringtail_bpf__destroy(skeleton);
	return err;
}

/* From the skeleton to images that fit this kernel. */
static int make_images(struct source *source, const struct source_config *config, const struct btf *kernel,
		       struct error *error)
{
	int part, err;

	source->images = source_bpf_images_create();
	if (!source->images)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for the BPF programs");
	source->objects.images = source->images;
	part = descriptor_memory_file("ringtail-types", false);
	err = relocate(source, config, kernel, part, error);
	if (part >= 0)
		close(part);
	source_bpf_images_end(source->images);
	return err;
}

/* What takes time at the start, and needs nothing that the loader's thread makes meanwhile: threads of their own read it. */
struct reading {
	struct tracepoints_reading *tracepoints;
	pthread_t thread;		/* reads the kernel's types */
	bool has_thread;
	struct btf *kernel;		/* NULL: they cannot be read, */
	int err;			/* which is the reason */
};

static void *read_types(void *context)
{
	struct reading *reading = context;

	reading->kernel = btf__load_vmlinux_btf();
	reading->err = reading->kernel ? 0 : errno;
	return NULL;
}

static int begin_reading(struct reading *reading)
{
	reading->tracepoints = source_bpf_tracepoints_begin();
	if (!reading->tracepoints)
		return -ENOMEM;
	reading->has_thread = pthread_create(&reading->thread, NULL, read_types, reading) == 0;
	if (!reading->has_thread)
		read_types(reading);
	return 0;
}

static void join_types(struct reading *reading)
{
	if (reading->has_thread)
		pthread_join(reading->thread, NULL);
	reading->has_thread = false;
}

static void free_types(struct reading *reading)
{
	join_types(reading);
	btf__free(reading->kernel);
	reading->kernel = NULL;
}

static void end_reading(struct reading *reading)
{
	free_types(reading);
	source_bpf_tracepoints_end(reading->tracepoints);
}

/* With the kernel's types, which take time and memory: so all that needs them at the start is done here. */
static int load(struct source *source, const struct source_config *config, struct reading *reading,
		struct error *error)
{
	struct source_bpf_making making = {
		.fixed = source->catalog,
		.finder = config->finder,
		.reading = reading->tracepoints,
	};
	const struct btf *kernel;
	int err;

	join_types(reading);
	making.kernel = kernel = reading->kernel;
	if (!kernel)
		return source_bpf_check_failure(error, reading->err, "read the kernel's types");
	err = make_images(source, config, kernel, error);
	if (!err) {
		making.images = source->images;
		making.seen = source->objects.shared->made_refused;
		source_bpf_preempted_change(&source->objects, source->images);
		source_bpf_images_find_targets(source->images, kernel);
		if (!source->adopted)
			err = source_bpf_objects_begin(&source->objects, error);
	}
	if (!err)
		err = source_bpf_made_create(&making, &source->made, error);
	free_types(reading);
	return err ? err : source_bpf_bells_wait(&source->objects, error);
}

/*
 * The memory of a thread as it is while programs use it: on no ring is it known any more. As
 * thread_make_unknown() of the programs.
 */
static void make_unknown(struct bpf_thread *thread, unsigned words)
{
	for (unsigned i = 0; i < words; i++) {
		__u64 *word = &thread->known[i];

		if (!(uint32_t)__atomic_load_n(word, __ATOMIC_RELAXED))
			continue;
		__atomic_fetch_add(word, 1ull << 32, __ATOMIC_SEQ_CST);
		__atomic_fetch_and(word, ~0ull << 32, __ATOMIC_SEQ_CST);
	}
}

static void publish(struct source *source, const struct bpf_request *request,
		    const uint32_t words[RT_SYSCALLS_MAX], const uint8_t wishes[RT_PROBES_MADE_MAX]);

/*
 * Goes on with programs that run: at once they leave out this run's processes, and tell every ring
 * again who the threads are.
 */
static void take_over(struct source *source)
{
	struct ringtail_bpf__bss *shared = source->objects.shared;
	unsigned words = (source->objects.cpus + THREAD_KNOWN_CPUS - 1) / THREAD_KNOWN_CPUS;
	struct bpf_request request;
	unsigned place;

	/* Whoever still reads the place that is written next began under the run before. */
	source_bpf_objects_wait_for_programs(&source->objects);
	source->generation = __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE);
	place = source->generation & 1;
	if (source->generation) {
		request = shared->requests[place];
		source_bpf_timers_adopt(&source->timers, &request);
		source->syscalls_since = request.syscalls_since;
		memcpy(request.excluded, source->excluded, sizeof(request.excluded));
		request.generation = ++source->generation;
		publish(source, &request, shared->syscall_words[place],
			shared->made_wishes[place]);
		source_bpf_objects_wait_for_programs(&source->objects);
		source_bpf_stuck_note(&source->stuck, &request, shared->syscall_words[place]);
	}
	__atomic_fetch_add(&shared->reader, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&shared->maps_reader, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < THREAD_SLOTS; i++)
		make_unknown(&shared->threads[i], words);
	for (unsigned i = 0; i < source->objects.cpus; i++)
		make_unknown(&shared->idle_threads[i], words);
}

/* What nobody goes on with must not stay attached beside what comes now. */
static void drop_left(struct source_store *store, bool all)
{
	for (unsigned i = 0; i < store->kept->count; i++) {
		struct activation_fd *entry = &store->kept->entry[i];

		if (strncmp(entry->name, SOURCE_BPF_NAMES, strlen(SOURCE_BPF_NAMES)) != 0 ||
		    (!all && entry->fd < 0))
			continue;
		store->drop(store->context, entry->name, -1);
		if (entry->fd >= 0)
			close(entry->fd);
		entry->fd = -1;
	}
}

/* Goes on with what an earlier run left, or says why not and begins anew. */
static int adopt_or_load(struct source *source, const struct source_config *config,
			 struct reading *reading, struct error *error)
{
	struct source_bpf_objects *objects = &source->objects;
	int got = 0, err;

	if (source->store)
		got = source_bpf_objects_adopt(objects, source->store->kept, config,
					       &source->why_not);
	if (got == 1) {
		source->adopted = true;
		take_over(source);
		err = load(source, config, reading, error);
		drop_left(source->store, false);
		return err;
	}
	if (source->store)
		drop_left(source->store, true);
	err = load(source, config, reading, error);
	if (!err)
		source_bpf_objects_keep(objects, source->store);
	return err;
}

/* The catalog and the programs, while the tracepoints are read. */
static int open_all(struct source *source, const struct source_config *config, struct error *error)
{
	struct reading reading = {0};
	int err = begin_reading(&reading);

	if (!err)
		err = syscall_catalog_create(&source->catalog, source->word);
	if (err)
		error_set(error, -err, "out-of-memory", "no memory for the catalog of probes");
	else
		err = adopt_or_load(source, config, &reading, error);
	end_reading(&reading);
	return err ? err : maps_init(&source->maps, &source->objects, source->adopted, config, error);
}

static void bpf_close(struct source *source);

static int bpf_open(const struct source_config *config, struct source **out, struct error *error)
{
	struct source *source;
	int err;

	source_bpf_check_capture();
	err = source_bpf_check_host(error);
	if (err)
		return err;
	source = calloc(1, sizeof(*source));
	if (!source)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for the BPF source");
	source_bpf_objects_init(&source->objects);
	source_bpf_preempted_choose(&source->objects);
	source->ring_bytes = config->ring_bytes;
	source->store = config->store;
	source_bpf_timers_init(&source->timers, &source->objects, source->store);
	source->stuck = (struct source_bpf_stuck){
		.objects = &source->objects, .store = source->store, .word = source->word,
	};
	memcpy(source->excluded, config->excluded_pids, sizeof(source->excluded));
	err = open_all(source, config, error);
	if (err)
		bpf_close(source);
	else
		*out = source;
	return err;
}

static void bpf_close(struct source *source)
{
	if (!source)
		return;
	source_bpf_made_destroy(source->made);
	maps_fini(&source->maps);
	source_bpf_timers_fini(&source->timers);
	source_bpf_objects_fini(&source->objects);
	source_bpf_images_destroy(source->images);
	if (source->catalog)
		ringtail__v1__catalog__free_unpacked(source->catalog, NULL);
	free(source);
}

/* ---- what was refused ---------------------------------------------------------------------- */

_Static_assert(PROGRAMS <= REFUSED_MADE && REFUSED_MADE + PROBES_MADE_MAX <= REFUSED_SLOTS, "each has a slot");

/* Whose events a program makes. Those that only keep what others need make no one's: theirs are everybody's. */
static struct source_bpf_refused refused_of(enum source_bpf_program program)
{
	static const struct source_bpf_refused everybody = {.last = RT_PROBE_MAX - 1}, of[PROGRAMS] = {
		[PROGRAM_EXIT] = {.first = RT_PROBE_SCHED_EXIT, .last = RT_PROBE_SCHED_EXIT},
		[PROGRAM_EXEC] = {.first = RT_PROBE_SCHED_EXEC, .last = RT_PROBE_SCHED_EXEC},
		[PROGRAM_FORK] = {.first = RT_PROBE_SCHED_FORK, .last = RT_PROBE_SCHED_FORK},
		[PROGRAM_WAKEUP] = {.first = RT_PROBE_SCHED_WAKEUP, .last = RT_PROBE_SCHED_WAKEUP},
		[PROGRAM_WAKEUP_NEW] = {.first = RT_PROBE_SCHED_WAKEUP, .last = RT_PROBE_SCHED_WAKEUP},
		[PROGRAM_SWITCH] = {.first = RT_PROBE_SCHED_SWITCH, .last = RT_PROBE_SCHED_SWITCH},
		[PROGRAM_SYS_ENTER] = {.first = RT_PROBE_SYSCALL_CALL, .last = RT_PROBE_MADE - 1},
		[PROGRAM_SYS_EXIT] = {.first = RT_PROBE_SYSCALL_CALL, .last = RT_PROBE_MADE - 1},
	};
	struct source_bpf_refused refused = of[program].last ? of[program] : everybody;

	refused.slot = program;
	return refused;
}

/*
 * What the kernel has refused since the last look becomes losses in a ring; what cannot is left in the count. The
 * kernel's counts are of all runs of the daemon that have gone on with these programs, and so is what was told.
 * A probe that stays attached, though nobody wants it now, has no name for its losses: they are of no one's probe.
 */
static int bpf_stats(struct source *source, struct source_stats *stats)
{
	unsigned turns = REFUSED_TURNS_MAX;
	uint64_t refused = 0;
	int first_err = 0;

	*stats = (struct source_stats){
		.maps_too_late = source->maps.too_late,
		.maps_left_out = source->objects.shared->maps_left_out,
		.stacks_cut = source->objects.shared->stacks_cut,
	};
	for (unsigned i = 0; i < PROGRAMS; i++) {
		struct source_bpf_refused of = refused_of(i);
		struct bpf_prog_info info = {};
		uint32_t bytes = sizeof(info);

		if (source->objects.program[i] < 0)
			continue;
		if (bpf_obj_get_info_by_fd(source->objects.program[i], &info, &bytes)) {
			first_err = first_err ? first_err : -errno;
			continue;
		}
		of.count = info.recursion_misses;
		refused += of.count;
		stats->program_runs += info.run_cnt;
		stats->recursion_lost += source_bpf_refused_tell(&source->objects, source->store, &of, &turns);
	}
	for (unsigned i = 0; i < source_bpf_made_count(source->made); i++) {
		bool is_wanted = source_bpf_made_is_wanted(source->made, i);
		uint16_t probe = is_wanted ? (uint16_t)(RT_PROBE_MADE + i) : RT_PROBE_LOSS;
		struct source_bpf_refused of = {.slot = REFUSED_MADE + i, .first = probe, .last = probe};
		struct source_stats own = {0};
		int err = source_bpf_made_stats(source->made, i, &own);

		if (err) {
			first_err = first_err ? first_err : err;
			continue;
		}
		of.count = own.recursion_lost;
		refused += of.count;
		stats->program_runs += own.program_runs;
		stats->recursion_lost += source_bpf_refused_tell(&source->objects, source->store, &of, &turns);
	}
	source->refuses |= refused;
	return first_err;
}

/* ---- requests ------------------------------------------------------------------------------ */

static bool wants(const struct source_request *request, uint32_t probe)
{
	return request->probes[probe / 8] & 1u << probe % 8;
}

/* Whether what is wanted of one of these probes is wanted of every thread. */
static bool is_unfiltered(const struct source_request *request, uint32_t probe)
{
	return request->clauses && wants(request, probe) &&
	       request->unfiltered[probe / 8] & 1u << probe % 8;
}

/* Whether nobody wants more of a probe than how many events it has. */
static bool is_counted(const struct source_request *request, uint32_t probe)
{
	return request->counted[probe / 8] & 1u << probe % 8;
}

/*
 * A return without an entry does not look who is refused for others' sake. So where one is wanted of every thread, the
 * programs let everybody through.
 */
static bool is_without_clauses(const struct source_request *request)
{
	for (uint32_t nr = 0; nr < RT_SYSCALLS_MAX; nr++)
		if (is_unfiltered(request, RT_PROBE_SYSCALL_RETURN + nr))
			return true;
	return false;
}

/* Then events are counted only where everybody's are wanted: of a count nobody can tell later whose it is. */
static void count_everybodys(struct source_request *request)
{
	for (size_t i = 0; i < sizeof(request->counted); i++)
		request->counted[i] &= request->unfiltered[i];
}

/* The wishes for one system call, in the programs' word for it. */
static uint32_t translate_syscall(const struct source_request *request, uint32_t nr, uint32_t word)
{
	const uint32_t rich = SYSCALL_WANTS_ENTRY | SYSCALL_WANTS_RETURN | SYSCALL_SAVES_ARGS |
			      SYSCALL_NEVER_RETURNS | SYSCALL_SETS_UID | SYSCALL_IS_UNKNOWN;

	if (wants(request, RT_PROBE_SYSCALL_CALL + nr))
		word |= SYSCALL_WANTS_CALL;
	if (wants(request, RT_PROBE_SYSCALL_ENTRY + nr))
		word |= SYSCALL_WANTS_ENTRY;
	if (wants(request, RT_PROBE_SYSCALL_RETURN + nr))
		word |= SYSCALL_WANTS_RETURN;
	/* Nobody wants the strings of all calls: where no file is named, nothing is read. */
	if (!(request->flags & RT_FLAG_STRINGS) && !(word & SYSCALL_NAMES_FILE))
		word &= ~SYSCALL_STRINGS;
	/* The short programs look for what is counted behind what is rich, so that a plain record pays nothing for it. */
	if (!(word & rich) && is_counted(request, RT_PROBE_SYSCALL_CALL + nr))
		word |= SYSCALL_IS_COUNTED | SYSCALL_IS_RICH;
	else if (word & rich || request->flags & ~SOURCE_FILE_STRINGS ||
		 (request->flags && word & SYSCALL_STRINGS))
		word |= SYSCALL_IS_RICH;
	if (is_unfiltered(request, RT_PROBE_SYSCALL_CALL + nr) ||
	    is_unfiltered(request, RT_PROBE_SYSCALL_ENTRY + nr))
		word |= SYSCALL_UNFILTERED;
	return word;
}

/* Fills in what the request wants of whom; returns which programs that takes. */
static uint32_t translate(const struct source *source, const struct source_request *from,
			  struct bpf_request *to, uint32_t words[RT_SYSCALLS_MAX])
{
	uint32_t programs = 0;

	for (uint32_t nr = 0; nr < RT_SYSCALLS_MAX; nr++) {
		words[nr] = source->word[nr] ? translate_syscall(from, nr, source->word[nr]) : 0;
		if (words[nr] & (SYSCALL_WANTS_CALL | SYSCALL_WANTS_ENTRY))
			programs |= PROGRAM_BIT(PROGRAM_SYS_ENTER);
		/* Even entries alone need the returns: of the calls that set the uid. */
		if (words[nr] & SYSCALL_WANTS)
			programs |= PROGRAM_BIT(PROGRAM_SYS_EXIT);
	}
	for (uint32_t probe = RT_PROBE_SCHED_SWITCH; probe <= RT_PROBE_SCHED_EXIT; probe++) {
		if (wants(from, probe))
			to->sched |= REQUEST_SCHED(probe);
		if (is_unfiltered(from, probe))
			to->sched_unfiltered |= REQUEST_SCHED(probe);
	}
	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++) {
		const struct source_bpf_timer *timer = &source->timers.timer[slot];

		if (timer->name[0] && is_unfiltered(from, timer->probe))
			to->timer[slot].flags |= TIMER_UNFILTERED;
		if (timer->name[0] && wants(from, timer->probe))
			programs |= PROGRAMS_OF_THREADS;
	}
	if (wants(from, RT_PROBE_SCHED_SWITCH))
		programs |= PROGRAM_BIT(PROGRAM_SWITCH);
	if (wants(from, RT_PROBE_SCHED_WAKEUP))
		programs |= PROGRAM_BIT(PROGRAM_WAKEUP) | PROGRAM_BIT(PROGRAM_WAKEUP_NEW);
	if (wants(from, RT_PROBE_SCHED_FORK))
		programs |= PROGRAM_BIT(PROGRAM_FORK);
	if (programs || to->sched)
		programs |= PROGRAMS_OF_THREADS;
	return programs;
}

static uint32_t attached(const struct source *source)
{
	uint32_t programs = 0;

	for (unsigned i = 0; i < PROGRAMS; i++)
		if (source->objects.link[i] >= 0)
			programs |= PROGRAM_BIT(i);
	return programs;
}

/* Whether programs that left have not gone yet, so that they remember threads all the time. */
static bool still_remember(const struct source *source)
{
	for (unsigned i = 0; i < PROGRAMS; i++)
		if (PROGRAMS_OF_THREADS & PROGRAM_BIT(i) && source->objects.leaving[i] < 0)
			return false;
	return true;
}

/* Programs that are attached before the request changes record nothing until it does. */
static int attach(struct source *source, uint32_t programs, struct error *error)
{
	for (unsigned i = 0; i < PROGRAMS; i++) {
		int err;

		if (!(programs & PROGRAM_BIT(i)))
			continue;
		err = source_bpf_objects_attach(&source->objects, i, source->store, error);
		if (err) {
			source_bpf_objects_detach(&source->objects,
						  programs & (PROGRAM_BIT(i) - 1), source->store);
			return err;
		}
	}
	return 0;
}

/* Threads were born, renamed and ended while nobody looked: nothing of what is remembered holds. */
static void forget_threads(struct source *source)
{
	struct ringtail_bpf__bss *shared = source->objects.shared;

	memset(shared->threads, 0, sizeof(shared->threads));
	memset(shared->idle_threads, 0, sizeof(shared->idle_threads));
	shared->epoch++;
}

/*
 * A call that began under a request that has it counted may end under one that has it recorded. So the time of the change
 * must be later than any such beginning: it is read when that request is there, and until then there is none.
 */
static void note_counted(struct ringtail_bpf__bss *shared, const uint32_t words[RT_SYSCALLS_MAX])
{
	for (uint32_t nr = 0; nr < RT_SYSCALLS_MAX; nr++)
		if (words[nr] & SYSCALL_IS_COUNTED)
			__atomic_store_n(&shared->counted_until_ns[nr], UINT64_MAX, __ATOMIC_RELAXED);
}

static void note_counted_no_longer(struct ringtail_bpf__bss *shared, const uint32_t words[RT_SYSCALLS_MAX])
{
	uint64_t now_ns = clock_monotonic();

	for (uint32_t nr = 0; nr < RT_SYSCALLS_MAX; nr++)
		if (!(words[nr] & SYSCALL_IS_COUNTED) && shared->counted_until_ns[nr] == UINT64_MAX)
			__atomic_store_n(&shared->counted_until_ns[nr], now_ns, __ATOMIC_RELAXED);
}

/* Puts the request into the place that no program reads, and makes them read that one. */
static void publish(struct source *source, const struct bpf_request *request,
		    const uint32_t words[RT_SYSCALLS_MAX], const uint8_t wishes[RT_PROBES_MADE_MAX])
{
	struct ringtail_bpf__bss *shared = source->objects.shared;
	unsigned place = request->generation & 1;

	shared->requests[place] = *request;
	memcpy(shared->syscall_words[place], words, sizeof(shared->syscall_words[place]));
	memcpy(shared->made_wishes[place], wishes, sizeof(shared->made_wishes[place]));
	note_counted(shared, words);
	__atomic_store_n(&shared->generation, request->generation, __ATOMIC_RELEASE);
	note_counted_no_longer(shared, words);
}

static uint32_t wanted_timers(const struct source *source, const struct source_request *request)
{
	uint32_t timers = 0;

	for (unsigned slot = 0; slot < RT_TIMERS_MAX; slot++) {
		const struct source_bpf_timer *timer = &source->timers.timer[slot];

		if (timer->name[0] && wants(request, timer->probe))
			timers |= 1u << slot;
	}
	return timers;
}

/* Clocks that were made on request get slots. */
static int place_timers(struct source *source, const struct source_request *request, struct error *error)
{
	struct source_bpf_timer wanted[RT_TIMERS_MAX + 1];
	unsigned n = source_bpf_made_timers(source->made, request, wanted, RT_TIMERS_MAX + 1);

	return source_bpf_timers_place(&source->timers, wanted, n <= RT_TIMERS_MAX ? n : RT_TIMERS_MAX + 1, error);
}

/* Whoever wants addresses of programs wants to know what they are of: refused now rather than missed later. */
static int load_iterators(struct source *source, const struct source_request *request, struct error *error)
{
	int program = 0;

	for (unsigned i = PROGRAM_MAPS_FIND; i <= PROGRAM_MAPS_TELL && program >= 0; i++)
		if (request->flags & RT_FLAG_USTACK)
			program = source_bpf_objects_program(&source->objects, i, source->store, error);
	return program < 0 ? program : 0;
}

/* What is attached before the request is published records nothing until then. */
static int attach_wanted(struct source *source, const struct source_request *request,
			 uint32_t programs, struct bpf_request *next, struct error *error)
{
	int err = load_iterators(source, request, error);

	if (!err)
		err = source_bpf_made_attach(source->made, request, error);
	/* What was made for a request that is refused then is idle, and goes in time. */
	if (!err)
		err = attach(source, programs, error);
	if (err)
		return err;
	err = source_bpf_timers_attach(&source->timers, wanted_timers(source, request), next, error);
	if (err)
		source_bpf_objects_detach(&source->objects, programs, source->store);
	return err;
}

static int bpf_configure(struct source *source, const struct source_request *wanted, struct error *error)
{
	bool without_clauses = is_without_clauses(wanted);
	struct source_request copy = *wanted;
	const struct source_request *request = &copy;
	struct bpf_request next = {
		.generation = source->generation + 1,
		.flags = request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK | RT_FLAG_STRINGS |
					  RT_FLAG_FDS | RT_FLAG_DATA),
		.clauses = without_clauses ? 0 : request->clauses,
	};
	uint32_t before = attached(source), after, words[RT_SYSCALLS_MAX];
	uint8_t wishes[RT_PROBES_MADE_MAX] = {0};
	struct source_stats stats;
	int err;

	/* What was refused so far was of the probes that were wanted so far. */
	bpf_stats(source, &stats);
	if (next.flags & RT_FLAG_STRINGS)
		next.flags |= REQUEST_STRUCTURES;
	if (request->flags & SOURCE_FILE_STRINGS)
		next.flags |= RT_FLAG_STRINGS;
	if (request->clauses > RT_FILTER_CLAUSES_MAX)
		return error_set(error, EINVAL, "too-many-clauses", "%u filter clauses, at most %d",
				 request->clauses, RT_FILTER_CLAUSES_MAX);
	if (without_clauses)
		count_everybodys(&copy);
	memcpy(next.clause, request->clause, sizeof(next.clause));
	memcpy(next.excluded, source->excluded, sizeof(next.excluded));
	err = place_timers(source, request, error);
	if (err)
		return err;
	after = translate(source, request, &next, words);
	if (source_bpf_made_wanted(request))
		after |= PROGRAMS_OF_THREADS;
	next.sees_entries = after & PROGRAM_BIT(PROGRAM_SYS_ENTER);
	next.syscalls_since = before & PROGRAM_BIT(PROGRAM_SYS_EXIT) ? source->syscalls_since :
								      next.generation;
	if (!before && after && !still_remember(source))
		forget_threads(source);
	err = attach_wanted(source, request, after & ~before, &next, error);
	if (err)
		return err;
	if (!(next.flags & RT_FLAG_USTACK))
		source_bpf_unwind_forget(source->maps.unwind);
	source_bpf_made_wish(source->made, request, wishes);
	publish(source, &next, words, wishes);
	__atomic_fetch_add(&source->objects.shared->maps_reader, 1, __ATOMIC_SEQ_CST);
	source->generation = next.generation;
	source->syscalls_since = next.syscalls_since;
	source_bpf_objects_detach(&source->objects, before & ~after, source->store);
	source_bpf_timers_detach(&source->timers, wanted_timers(source, request));
	err = source_bpf_objects_wait_for_programs(&source->objects);
	source_bpf_stuck_note(&source->stuck, &next, words);
	return err ? source_bpf_check_failure(error, -err, "wait for running programs") : 0;
}

/* ---- the rest ------------------------------------------------------------------------------ */

static const Ringtail__V1__Catalog *bpf_catalog(struct source *source)
{
	return source->catalog;
}

static int bpf_ring(struct source *source, unsigned i, struct ring_handle *ring)
{
	return source_bpf_rings_get(&source->objects, source->ring_bytes, i, ring);
}

static const char *bpf_providers(void)
{
	return source_bpf_made_providers();
}

static int bpf_offers(struct source *source, struct probe_pack *pack)
{
	return source_bpf_made_list(source->made, pack);
}

static int bpf_make(struct source *source, const char *spec, source_offer *offer, void *context,
		    struct error *error)
{
	int err = source_bpf_made_make(source->made, spec, offer, context, error);

	if (source_bpf_made_count(source->made) && !source->has_made) {
		source->has_made = true;
		source_bpf_objects_keep_made(&source->objects, source->store);
	}
	return err;
}

static bool bpf_idle(struct source *source)
{
	return source_bpf_made_detach_one(source->made);
}

static int bpf_stuck(struct source *source, uint64_t longer_than_ns, int fd,
		     struct source_stuck *answer, struct error *error)
{
	return source_bpf_stuck_look(&source->stuck, longer_than_ns, fd, answer, error);
}

static bool bpf_adopted(struct source *source, struct error *why_not)
{
	*why_not = source->why_not;
	return source->adopted;
}

static int bpf_unsettled(struct source *source)
{
	return source->objects.barrier;
}

static void bpf_settle(struct source *source)
{
	source_bpf_objects_settle(&source->objects);
}

static int bpf_attention(struct source *source, int *timeout_ms)
{
	int unwind_ms = source_bpf_unwind_wait_ms(source->maps.unwind);

	*timeout_ms = source->refuses ? REFUSED_LOOK_MS : source_bpf_timers_any(&source->timers) ? CPUS_FOLLOW_MS : -1;
	if (unwind_ms >= 0 && (*timeout_ms < 0 || unwind_ms < *timeout_ms))
		*timeout_ms = unwind_ms;
	return maps_fd(&source->maps);
}

static void bpf_attend(struct source *source)
{
	struct source_stats stats;

	source_bpf_timers_follow(&source->timers);
	maps_look(&source->maps);
	if (source->refuses)
		bpf_stats(source, &stats);
}

const struct source_ops source_bpf = {
	.name = "bpf",
	.open = bpf_open,
	.catalog = bpf_catalog,
	.providers = bpf_providers,
	.offers = bpf_offers,
	.make = bpf_make,
	.ring = bpf_ring,
	.configure = bpf_configure,
	.stats = bpf_stats,
	.stuck = bpf_stuck,
	.adopted = bpf_adopted,
	.unsettled = bpf_unsettled,
	.settle = bpf_settle,
	.attention = bpf_attention,
	.attend = bpf_attend,
	.idle = bpf_idle,
	.close = bpf_close,
};
