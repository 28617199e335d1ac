/*
 * source_bpf_maps: looks at the maps of processes when a program asks for it, because it took a stack
 * of one whose maps nobody was told. Two BPF iterators do the looking and write the records; nothing of
 * the process is read here.
 *
 * In: the ring buffer in which programs ask. Out: records in the rings. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_MAPS_H
#define RINGTAIL_DAEMON_SOURCE_BPF_MAPS_H

#include <stdint.h>

#include "daemon/source/bpf_objects.h"
#include "query/error.h"

struct ring_buffer;

struct source_bpf_maps {
	struct source_bpf_objects *objects;
	struct ring_buffer *wanted;
	unsigned turn;			/* processes looked at in this turn */
	uint64_t too_late;		/* had ended, or could not be looked at */
};

int source_bpf_maps_init(struct source_bpf_maps *maps, struct source_bpf_objects *objects,
			 struct error *error);
void source_bpf_maps_fini(struct source_bpf_maps *maps);

/* Readable when a program asks; -1: none can. */
int source_bpf_maps_fd(const struct source_bpf_maps *maps);

/* Looks at those that were asked for, at most MAPS_TURN_MAX of them. */
void source_bpf_maps_look(struct source_bpf_maps *maps);

#endif
