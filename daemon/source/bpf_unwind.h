/*
 * source_bpf_unwind: gives the BPF programs what they need to follow user stacks of code without frame pointers: where
 * the code of a process lies, and the rules of each file's frames (kmod/bpf/unwind.bpf.h).
 *
 * In: the maps of a process whose stack was taken, as the iterators have found them; tables of rows, which readers of
 * the finder compile. Out: BPF maps. One file is read in a turn, then it is another process's turn, and the loader does
 * something else for UNWIND_REST_TIMES as long as that took. A file is believed if its build-id is what the process has
 * in its memory. Its table is for all processes if the file that the reader has opened lies on a disk and is, by device
 * and inode, the one that the kernel has mapped; else it is for that process alone. That there is no table is always
 * one process's. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_UNWIND_H
#define RINGTAIL_DAEMON_SOURCE_BPF_UNWIND_H

#include <stdbool.h>

struct finder;
struct source_bpf_objects;
struct source_bpf_unwind;

/*
 * Adopted objects have what an earlier run has put there, and lose it: its processes now, its tables in the turns that
 * come. `finder` may be NULL: then there are no tables. Both are borrowed. NULL: no memory.
 */
struct source_bpf_unwind *source_bpf_unwind_create(const struct source_bpf_objects *objects, bool are_adopted,
						   struct finder *finder);

/* NULL is safe. The kernel's maps stay as they are. */
void source_bpf_unwind_destroy(struct source_bpf_unwind *unwind);

/*
 * Takes what `maps_found` has of the process that was looked at last. Without memory, or beyond UNWIND_WAITING_MAX
 * processes that wait, it is left out until its maps are looked at again.
 */
void source_bpf_unwind_take(struct source_bpf_unwind *unwind);

/* When source_bpf_unwind_work() has something to do, in ms; -1: never. */
int source_bpf_unwind_wait_ms(const struct source_bpf_unwind *unwind);

/* Reads a file, or hands over the mappings of a process; forgets processes without stacks; drops a table. */
void source_bpf_unwind_work(struct source_bpf_unwind *unwind);

/* Nobody wants user stacks: at once the kernel follows none, and the turns that come give all memory back. */
void source_bpf_unwind_forget(struct source_bpf_unwind *unwind);

#endif
