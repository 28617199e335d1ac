/*
 * source_bpf_rings: the rings of the BPF producer: sized before the programs are loaded, filled in
 * and frozen after.
 *
 * In: the geometry. Out: descriptors to map. The loader's thread, while no program is attached.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_RINGS_H
#define RINGTAIL_DAEMON_SOURCE_BPF_RINGS_H

#include <stdint.h>

#include "query/error.h"
#include "daemon/source/source.h"

struct ringtail_bpf;

struct source_bpf_objects;

/* One ring's part of the map: producer page, data, a page of slack. */
uint64_t source_bpf_rings_stride(uint64_t ring_bytes);

/* Checks the geometry and gives it to the maps and to the programs' constants. Before load. */
int source_bpf_rings_size(struct ringtail_bpf *skeleton, const struct source_config *config,
			  struct error *error);

/*
 * Makes the bells, writes the producer pages, and makes the rings read-only to user space. The objects
 * have copies of the maps.
 */
int source_bpf_rings_init(struct source_bpf_objects *objects, uint64_t ring_bytes,
			  struct error *error);

/* As source_ops.ring. */
int source_bpf_rings_get(const struct source_bpf_objects *objects, uint64_t ring_bytes, unsigned i,
			 struct ring_handle *ring);

/*
 * Returns when every program run that started before the call has ended: the kernel waits for that
 * whenever user space changes a map of maps, so that programs see the change. This one changes
 * nothing: it puts a bell back where it is.
 */
int source_bpf_rings_wait_for_programs(const struct source_bpf_objects *objects);

#endif
