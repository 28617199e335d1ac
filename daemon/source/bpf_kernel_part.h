/*
 * bpf_kernel_part: of the kernel's types, those that the programs can be relocated by.
 *
 * libbpf looks through all of the kernel's types for each type that the programs name. The kernel has a hundred
 * thousand, and that was most of what it did at a start. In: the kernel's types, and the programs'. Out: types as a
 * file: every type of the kernel that has the name of one of the programs', and all that lies in such a type. What a
 * member points to is left out, for no place of a member depends on it; what a typedef points to is not, for by that
 * the programs ask what a tracepoint passes.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_KERNEL_PART_H
#define RINGTAIL_DAEMON_SOURCE_BPF_KERNEL_PART_H

struct btf;

/* Writes them to an empty file. 0 or -errno. */
int bpf_kernel_part_write(const struct btf *kernel, const struct btf *programs, int fd);

#endif
