/*
 * bpf_kernel_types: the running kernel's types (BTF), from a descriptor that is opened while files can be opened. To read
 * them takes milliseconds and megabytes, so they are read when somebody needs them. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_KERNEL_TYPES_H
#define RINGTAIL_DAEMON_SOURCE_BPF_KERNEL_TYPES_H

#include <stddef.h>
#include <stdint.h>

struct btf;

struct kernel_types {
	int fd;			/* -1: none */
	size_t bytes;
};

void kernel_types_open(struct kernel_types *types);
void kernel_types_close(struct kernel_types *types);

/* To be freed with btf__free(); NULL: there are none, or no memory. */
struct btf *kernel_types_read(const struct kernel_types *types);

/*
 * Enumerators: numbers for the names that the kernel leaves in print formats.
 *
 * tracefs has `{ VM_FAULT_OOM, "OOM" }` where the kernel's source does not say TRACE_DEFINE_ENUM: a name without its
 * number. The kernel's own types have the number. In: first the formats, all of them; then the types. Out: a
 * format with numbers in it, as tracefs would have it. A name with several numbers in several types stays as it is:
 * nobody knows which is meant.
 */
struct bpf_enumerators;

/* NULL: out of memory. */
struct bpf_enumerators *bpf_enumerators_create(void);

/* NULL is safe. */
void bpf_enumerators_destroy(struct bpf_enumerators *enumerators);

/* Names of a print format; those beyond ENUMERATOR_NAMES_MAX are left out. -ENOMEM. */
int bpf_enumerators_want(struct bpf_enumerators *enumerators, const char *print, size_t bytes);

/* Looks in the types from number `from` on. */
void bpf_enumerators_learn(struct bpf_enumerators *enumerators, const struct btf *types, uint32_t from);

/* From the running kernel's types, and the files of its modules' if those do not have all. NULL: nothing. */
void bpf_enumerators_learn_kernel(struct bpf_enumerators *enumerators, const struct btf *kernel);

/* How many names in capitals, as enumerators are written, have no number so far. */
unsigned bpf_enumerators_missing(const struct bpf_enumerators *enumerators);

/* A copy of the format with numbers, to be freed; NULL: out of memory. */
char *bpf_enumerators_put(const struct bpf_enumerators *enumerators, const char *print);

#endif
