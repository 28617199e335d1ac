/*
 * bpf_kernel_types: the running kernel's types (BTF), from a descriptor that is opened while files can be opened. To read
 * them takes milliseconds and megabytes, so they are read when somebody needs them. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_KERNEL_TYPES_H
#define RINGTAIL_DAEMON_SOURCE_BPF_KERNEL_TYPES_H

#include <stddef.h>

struct btf;

struct kernel_types {
	int fd;			/* -1: none */
	size_t bytes;
};

void kernel_types_open(struct kernel_types *types);
void kernel_types_close(struct kernel_types *types);

/* To be freed with btf__free(); NULL: there are none, or no memory. */
struct btf *kernel_types_read(const struct kernel_types *types);

#endif
