/*
 * source_bpf_stuck: which threads are in which system call now, by a BPF iterator over all tasks
 * (kmod/bpf/stuck.bpf.h), and since when, as far as the recording of calls tells.
 *
 * In: each request that is published; a question. Out: struct source_stuck_thread into a file in memory.
 * The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_STUCK_H
#define RINGTAIL_DAEMON_SOURCE_BPF_STUCK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/source/bpf_objects.h"
#include "daemon/source/source.h"
#include "kmod/bpf/request.h"
#include "query/error.h"

struct source_bpf_stuck {
	struct source_bpf_objects *objects;
	struct source_store *store;	/* NULL: nobody keeps anything */
	const uint32_t *word;		/* [RT_SYSCALLS_MAX], of the catalog; borrowed */
	uint64_t since_ns[RT_SYSCALLS_MAX];	/* each such call that began later was noticed; 0: none was */
	bool of_everybody[RT_SYSCALLS_MAX];	/* ... whoever made it */
};

/* That request is in force now, for every program that runs. */
void source_bpf_stuck_note(struct source_bpf_stuck *stuck, const struct bpf_request *request,
			   const uint32_t words[RT_SYSCALLS_MAX]);

/* As source_ops.stuck. */
int source_bpf_stuck_look(const struct source_bpf_stuck *stuck, uint64_t longer_than_ns, int fd,
			  struct source_stuck *answer, struct error *error);

#endif
