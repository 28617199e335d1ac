/*
 * source_bpf_image: the BPF programs as instructions that fit the running kernel, not yet in the kernel.
 *
 * The kernel's verifier takes most of a start, and most programs are not wanted then: so libbpf relocates all
 * of them, and each is loaded when somebody wants it, or copied with changes (bpf_template).
 * In: the skeleton, while libbpf loads it. Out: instructions, and programs in the kernel. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_IMAGE_H
#define RINGTAIL_DAEMON_SOURCE_BPF_IMAGE_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#include "query/error.h"

struct btf;

#define SOURCE_BPF_IMAGES_MAX	32
#define SOURCE_BPF_MAPS_MAX	32

struct source_bpf_image {
	char name[32];
	const struct source_bpf_section *section;	/* what the kernel is to load it as */
	char target[64];		/* in the kernel's types; "": it has none */
	uint32_t target_id;		/* of it there; 0: not found */
	struct bpf_insn *insn;
	size_t insns;
	struct bpf_func_info *function;	/* the program and its subprograms, by place */
	unsigned functions;
};

struct source_bpf_images {
	int types;			/* BTF, by which the verifier verifies global functions once; -1: none yet */
	unsigned maps;
	int map[SOURCE_BPF_MAPS_MAX];	/* our own descriptors of what the instructions name, */
	int theirs[SOURCE_BPF_MAPS_MAX];	/* and libbpf's */
	unsigned images;
	struct source_bpf_image image[SOURCE_BPF_IMAGES_MAX];
};

/*
 * From now on until source_bpf_images_end(), what libbpf opens and loads becomes images, and the kernel gets a
 * program of two instructions for each. NULL: out of memory.
 */
struct source_bpf_images *source_bpf_images_create(void);
void source_bpf_images_end(struct source_bpf_images *images);

/* The image of that name, which has a target, is to be loaded as TRACEPOINT, and has none then. */
void source_bpf_image_by_perf(struct source_bpf_images *images, const char *name);

/* Finds in the kernel's types what the programs attach to. */
void source_bpf_images_find_targets(struct source_bpf_images *images, const struct btf *kernel);

/* NULL is safe. */
void source_bpf_images_destroy(struct source_bpf_images *images);

/* NULL: the skeleton has none of that name. */
const struct source_bpf_image *source_bpf_image_find(const struct source_bpf_images *images, const char *name);

/* Loads it; its descriptor, or -errno with *error. */
int source_bpf_image_load(const struct source_bpf_images *images, const struct source_bpf_image *image,
			  struct error *error);

#endif
