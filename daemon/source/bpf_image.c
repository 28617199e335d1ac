#include "daemon/source/bpf_image.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/source/bpf_check.h"

#define LOG_BYTES		(64u << 10)
#define LICENSE			"Dual BSD/GPL"

/* The sections of kmod/bpf. A target is what the section says behind its slash, behind the kernel's own prefix. */
struct source_bpf_section {
	const char *name;		/* as libbpf wants it */
	enum bpf_prog_type type;
	enum bpf_attach_type attach_type;
	uint32_t flags;
	const char *prefix;		/* NULL: it has no target */
	unsigned kind;			/* of the target's type */
};

#define SECTION_TP	4

static const struct source_bpf_section sections[] = {
	{"tp_btf+", BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, 0, "btf_trace_", BTF_KIND_TYPEDEF},
	{"iter+", BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, 0, "bpf_iter_", BTF_KIND_FUNC},
	{"iter.s+", BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, BPF_F_SLEEPABLE, "bpf_iter_", BTF_KIND_FUNC},
	{"perf_event", BPF_PROG_TYPE_PERF_EVENT, 0, 0, NULL, 0},
	[SECTION_TP] = {"tp", BPF_PROG_TYPE_TRACEPOINT, 0, 0, NULL, 0},
	{"raw_tp", BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0, NULL, 0},
	{"uprobe", BPF_PROG_TYPE_KPROBE, 0, 0, NULL, 0},
};

#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

/* libbpf's callback has room for one number beside the program: the section's. NULL: nobody loads. */
static struct source_bpf_images *taking;

/* ---- Taking them from libbpf ---------------------------------------------------------------- */

/* libbpf's descriptor of a map becomes one of ours, the same for the same map. */
static int own_map(struct source_bpf_images *images, int fd)
{
	int own;

	for (unsigned i = 0; i < images->maps; i++)
		if (images->theirs[i] == fd)
			return images->map[i];
	if (images->maps == SOURCE_BPF_MAPS_MAX)
		return -E2BIG;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	images->theirs[images->maps] = fd;
	images->map[images->maps++] = own;
	return own;
}

static int own_maps(struct source_bpf_images *images, struct source_bpf_image *image)
{
	for (size_t i = 0; i + 1 < image->insns; i++) {
		struct bpf_insn *insn = &image->insn[i];

		if (insn->code != (BPF_LD | BPF_IMM | BPF_DW))
			continue;
		if (insn->src_reg == BPF_PSEUDO_MAP_FD || insn->src_reg == BPF_PSEUDO_MAP_VALUE) {
			insn->imm = own_map(images, insn->imm);
			if (insn->imm < 0)
				return insn->imm;
		}
		i++;
	}
	return 0;
}

static void *copy_of(const void *from, size_t bytes)
{
	void *copy = malloc(bytes ? bytes : 1);

	if (copy)
		memcpy(copy, from, bytes);
	return copy;
}

static int take(struct source_bpf_images *images, const struct bpf_program *program,
		const struct bpf_prog_load_opts *options, const struct source_bpf_section *section)
{
	struct source_bpf_image *image = &images->image[images->images];
	const char *target = strchr(bpf_program__section_name(program), '/');

	if (images->images == SOURCE_BPF_IMAGES_MAX)
		return -E2BIG;
	images->images++;
	snprintf(image->name, sizeof(image->name), "%s", bpf_program__name(program));
	if (section->prefix && target)
		snprintf(image->target, sizeof(image->target), "%s%s", section->prefix, target + 1);
	image->section = section;
	image->insns = bpf_program__insn_cnt(program);
	image->insn = copy_of(bpf_program__insns(program), image->insns * sizeof(*image->insn));
	image->functions = options->func_info_cnt;
	image->function = copy_of(options->func_info, image->functions * sizeof(*image->function));
	if (!image->insn || !image->function)
		return -ENOMEM;
	if (image->functions && options->func_info_rec_size != sizeof(*image->function))
		return -EPROTO;
	if (images->types < 0 && options->prog_btf_fd)
		images->types = fcntl((int)options->prog_btf_fd, F_DUPFD_CLOEXEC, 0);
	return own_maps(images, image);
}

/* libbpf has relocated it, and is about to load it: the kernel gets another, for libbpf's sake. */
static int prepare(struct bpf_program *program, struct bpf_prog_load_opts *options, long number)
{
	struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int err = taking ? take(taking, program, options, &sections[number]) : -EINVAL;

	options->func_info = options->line_info = NULL;
	options->func_info_cnt = options->line_info_cnt = 0;
	return err ? err : bpf_program__set_insns(program, nothing, 2);
}

/* Once for the process: to take the last handler back frees memory that libbpf 1.1 goes on with. */
static int register_handlers(void)
{
	static unsigned handlers;

	for (; handlers < SECTIONS; handlers++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, options, .cookie = (long)handlers,
			    .prog_prepare_load_fn = prepare);
		int err = libbpf_register_prog_handler(sections[handlers].name, BPF_PROG_TYPE_SOCKET_FILTER, 0,
						       &options);

		if (err < 0)
			return err;
	}
	return 0;
}

struct source_bpf_images *source_bpf_images_create(void)
{
	struct source_bpf_images *images = calloc(1, sizeof(*images));

	if (!images)
		return NULL;
	images->types = -1;
	if (register_handlers() < 0) {
		free(images);
		return NULL;
	}
	taking = images;
	return images;
}

void source_bpf_images_end(struct source_bpf_images *images)
{
	if (taking == images)
		taking = NULL;
}

void source_bpf_images_destroy(struct source_bpf_images *images)
{
	if (!images)
		return;
	source_bpf_images_end(images);
	for (unsigned i = 0; i < images->images; i++) {
		free(images->image[i].insn);
		free(images->image[i].function);
	}
	for (unsigned i = 0; i < images->maps; i++)
		close(images->map[i]);
	if (images->types >= 0)
		close(images->types);
	free(images);
}

void source_bpf_image_by_perf(struct source_bpf_images *images, const char *name)
{
	for (unsigned i = 0; i < images->images; i++) {
		struct source_bpf_image *image = &images->image[i];

		if (strcmp(image->name, name) != 0)
			continue;
		image->section = &sections[SECTION_TP];
		image->target[0] = '\0';
	}
}

/* ---- What they attach to -------------------------------------------------------------------- */

/* One walk for all: libbpf would make one for each. */
void source_bpf_images_find_targets(struct source_bpf_images *images, const struct btf *kernel)
{
	for (uint32_t id = 1; id < btf__type_cnt(kernel); id++) {
		const struct btf_type *type = btf__type_by_id(kernel, id);
		const char *name;

		if (!btf_is_typedef(type) && !btf_is_func(type))
			continue;
		name = btf__name_by_offset(kernel, type->name_off);
		if (!name || (strncmp(name, "btf_trace_", 10) != 0 && strncmp(name, "bpf_iter_", 9) != 0))
			continue;
		for (unsigned i = 0; i < images->images; i++) {
			struct source_bpf_image *image = &images->image[i];

			if (!image->target_id && btf_kind(type) == image->section->kind &&
			    strcmp(name, image->target) == 0)
				image->target_id = id;
		}
	}
}

/* ---- Loading -------------------------------------------------------------------------------- */

const struct source_bpf_image *source_bpf_image_find(const struct source_bpf_images *images, const char *name)
{
	for (unsigned i = 0; images && i < images->images; i++)
		if (strcmp(images->image[i].name, name) == 0)
			return &images->image[i];
	return NULL;
}

static int load(const struct source_bpf_images *images, const struct source_bpf_image *image, char *log)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = image->section->attach_type,
		    .prog_flags = image->section->flags,
		    .attach_btf_id = image->target_id,
		    .prog_btf_fd = images->types >= 0 ? (uint32_t)images->types : 0,
		    .func_info = image->function,
		    .func_info_cnt = image->functions,
		    .func_info_rec_size = sizeof(*image->function),
		    .log_level = log ? 1 : 0,
		    .log_buf = log,
		    .log_size = log ? LOG_BYTES : 0);
	int program = bpf_prog_load(image->section->type, image->name, LICENSE, image->insn, image->insns, &options);

	return program < 0 ? -errno : program;
}

static int refuse(const struct source_bpf_image *image, int err, char *log, struct error *error)
{
	char doing[64 + sizeof(image->name)];

	snprintf(doing, sizeof(doing), "load the BPF program %s", image->name);
	source_bpf_check_verifier(log);
	return source_bpf_check_failure(error, err, doing);
}

int source_bpf_image_load(const struct source_bpf_images *images, const struct source_bpf_image *image,
			  struct error *error)
{
	int program = -ENOENT;
	char *log;

	if (!image || (image->section->prefix && !image->target_id))
		return error_set(error, ENOENT, "bpf-failed", "this kernel has no %s, to which a program of ringtail"
				 " attaches", image ? image->target : "such program");
	program = load(images, image, NULL);
	if (program >= 0)
		return program;
	/* The log of a program that passes would only take time, and has no reason where the verifier was interrupted. */
	log = program == -EAGAIN ? NULL : calloc(1, LOG_BYTES);
	if (log)
		program = load(images, image, log);
	if (program < 0)
		program = refuse(image, -program, log ? log : (char [1]){""}, error);
	free(log);
	return program;
}
