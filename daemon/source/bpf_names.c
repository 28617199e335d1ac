#include "daemon/source/bpf_names.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

#define FNV_OFFSET	0xcbf29ce484222325ull	/* FNV-1a, 64 bits */
#define FNV_PRIME	0x100000001b3ull

/*
 * The number is the programs' own and goes up with every change of what they do; the places below
 * catch one that moves what they share and forgets it.
 */
uint64_t source_bpf_tag(void)
{
	typedef struct ringtail_bpf__bss variables;
	const uint64_t agreed[] = {
		REQUEST_PROGRAMS_VERSION,
		RT_ABI_VERSION,
		sizeof(variables),
		offsetof(variables, requests),
		offsetof(variables, syscall_words),
		offsetof(variables, generation),
		offsetof(variables, threads),
		offsetof(variables, idle_threads),
		offsetof(variables, epoch),
		offsetof(variables, reader),
		sizeof(struct bpf_request),
		offsetof(struct bpf_request, excluded),
		offsetof(struct bpf_request, clause),
		sizeof(struct bpf_thread),
		offsetof(struct bpf_thread, known),
		sizeof(struct rt_ring_producer),
		sizeof(struct rt_ring_consumer),
		PROGRAMS,
	};
	uint64_t tag = FNV_OFFSET;

	for (unsigned i = 0; i < sizeof(agreed) / sizeof(agreed[0]); i++)
		tag = (tag ^ agreed[i]) * FNV_PRIME;
	return tag;
}

const char *source_bpf_program_name(enum source_bpf_program program)
{
	static const char *const name[PROGRAMS] = {
		[PROGRAM_EXIT] = "sched_process_exit",
		[PROGRAM_RENAME] = "task_rename",
		[PROGRAM_EXEC] = "sched_process_exec",
		[PROGRAM_FORK] = "sched_process_fork",
		[PROGRAM_WAKEUP] = "sched_wakeup",
		[PROGRAM_WAKEUP_NEW] = "sched_wakeup_new",
		[PROGRAM_SWITCH] = "sched_switch",
		[PROGRAM_SYS_ENTER] = "sys_enter",
		[PROGRAM_SYS_EXIT] = "sys_exit",
	};

	return name[program];
}

const char *source_bpf_name(char name[ACTIVATION_NAME_BYTES], const char *what)
{
	snprintf(name, ACTIVATION_NAME_BYTES, SOURCE_BPF_NAMES "%016" PRIx64 ".%s",
		 source_bpf_tag(), what);
	return name;
}

const char *source_bpf_name_program(char name[ACTIVATION_NAME_BYTES],
				    enum source_bpf_program program)
{
	char what[64];

	snprintf(what, sizeof(what), "program.%s", source_bpf_program_name(program));
	return source_bpf_name(name, what);
}

const char *source_bpf_name_link(char name[ACTIVATION_NAME_BYTES], enum source_bpf_program program)
{
	char what[64];

	snprintf(what, sizeof(what), "link.%s", source_bpf_program_name(program));
	return source_bpf_name(name, what);
}

const char *source_bpf_name_bell(char name[ACTIVATION_NAME_BYTES], unsigned cpu)
{
	char what[64];

	snprintf(what, sizeof(what), "bell.%u", cpu);
	return source_bpf_name(name, what);
}
