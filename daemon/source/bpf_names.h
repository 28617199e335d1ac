/*
 * source_bpf_names: what the BPF producer's kernel objects are called in a store: "source.bpf.TAG."
 * and what it is. The tag is of everything that this program and the loaded ones agree upon, so that
 * objects of another agreement are not mistaken for ours. Each returns `name`.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_NAMES_H
#define RINGTAIL_DAEMON_SOURCE_BPF_NAMES_H

#include <stdint.h>

#include "daemon/host/activation.h"
#include "daemon/source/bpf_objects.h"

#define SOURCE_BPF_NAMES "source.bpf."

uint64_t source_bpf_tag(void);

/* As the kernel has it, and as the store has it. */
const char *source_bpf_program_name(enum source_bpf_program program);

const char *source_bpf_name(char name[ACTIVATION_NAME_BYTES], const char *what);
const char *source_bpf_name_program(char name[ACTIVATION_NAME_BYTES],
				    enum source_bpf_program program);
const char *source_bpf_name_link(char name[ACTIVATION_NAME_BYTES],
				 enum source_bpf_program program);
const char *source_bpf_name_bell(char name[ACTIVATION_NAME_BYTES], unsigned cpu);

#endif
