/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * maps: process:map:executable, where in which file the code of a process lies. The daemon runs the
 * two iterators over one task when a program has asked for it (attach_maps()): the first collects the
 * executable maps, the second reads each file's build-id from the process's memory and writes the
 * records. The first runs under the lock of that memory, so it must not read it.
 *
 * What the process has in its memory is anything: it is read in bounded pieces, and each place in
 * them is masked.
 */
#ifndef RINGTAIL_BPF_MAPS_H
#define RINGTAIL_BPF_MAPS_H

#include "attach.bpf.h"
#include "event.bpf.h"

#define MAPS_PROGRAM_HEADERS_MAX 16
#define MAPS_NOTES_MAX		8

/* Of all processes looked at: the maps told, and those beyond MAPS_PER_PROCESS_MAX. */
__u64 maps_told_count, maps_left_out;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct maps_found);
} maps_found SEC(".maps");

struct maps_iter_vma {
	void *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

struct maps_iter_task {
	void *meta;
	struct task_struct *task;
};

SEC("iter/task_vma")
int maps_find(struct maps_iter_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct maps_found *found;
	struct maps_one *one;
	struct file *file;
	__u64 inode = 0, device = 0, generation = 0, offset;
	__u32 zero = 0;
	long path_bytes;

	found = bpf_map_lookup_elem(&maps_found, &zero);
	if (!vma || !task || !found)
		return 0;
	if (!found->count) {
		found->memory = (__u64)BPF_CORE_READ(task, mm);
		found->pid = task->tgid;
	}
	file = vma->vm_file;
	offset = vma->vm_pgoff << PAGE_SHIFT;
	if (file) {
		inode = BPF_CORE_READ(file, f_inode, i_ino);
		device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
		generation = BPF_CORE_READ(file, f_inode, i_generation);
		if (!offset) {
			found->base = vma->vm_start;
			found->base_inode = inode;
			found->base_device = device;
		}
	}
	if (!(vma->vm_flags & VM_EXEC))
		return 0;
	if (found->count >= MAPS_PER_PROCESS_MAX) {
		maps_left_out++;
		return 0;
	}
	one = &found->one[found->count & (MAPS_PER_PROCESS_MAX - 1)];
	found->count++;
	one->start = vma->vm_start;
	one->bytes = vma->vm_end - vma->vm_start;
	one->offset = file ? offset : 0;
	one->inode = inode;
	one->device = device;
	one->generation = generation;
	one->base = file && found->base_inode == inode && found->base_device == device ?
		    found->base : 0;
	one->path[0] = '\0';
	path_bytes = file ? bpf_d_path(&file->f_path, one->path, sizeof(one->path)) : 0;
	if (path_bytes < 0)
		one->path[0] = '\0';
	/* Behind a path's end stands what was there before, of another process. */
	if (path_bytes <= RT_STRING_BYTES_MAX)
		one->path[RT_STRING_BYTES_MAX - 1] = '\0';
	return 0;
}

/* ---- build-id ------------------------------------------------------------------------------- */

struct maps_elf_header {
	__u32 magic;
	__u8 class;
	__u8 other[27];
	__u64 headers_at;
	__u64 other2;
	__u32 flags;
	__u16 bytes, header_bytes, headers;
};

struct maps_program_header {
	__u32 type, flags;
	__u64 offset, address, physical, file_bytes, memory_bytes, align;
};

struct maps_note {
	__u32 name_bytes, bytes, type;
	char name[4];
	__u64 build_id[2];
	__u32 build_id_end;
};

#define ELF_MAGIC	0x464c457f
#define ELF_CLASS_64	2
#define PT_NOTE		4
#define NT_GNU_BUILD_ID	3
#define GNU_NAME	0x00554e47	/* "GNU" */

#define MAPS_NOTES_END	(~0u)

/* The note at a place of the piece. Returns where the next is; MAPS_NOTES_END: no need to go on. */
verified_once __u32 maps_take_note(struct maps_found *found, __u32 at, __u32 bytes)
{
	struct maps_note *note;

	if (!found || at + 16 > bytes)
		return MAPS_NOTES_END;
	note = (void *)&found->piece[at & (MAPS_PIECE_BYTES - 4)];
	if (note->type == NT_GNU_BUILD_ID && note->name_bytes == 4 &&
	    *(__u32 *)note->name == GNU_NAME && note->bytes <= 20 && note->bytes >= 8) {
		found->build_id[0] = note->build_id[0];
		found->build_id[1] = note->bytes >= 16 ? note->build_id[1] : 0;
		found->build_id[2] = note->bytes >= 20 ? note->build_id_end : 0;
		return MAPS_NOTES_END;
	}
	if (note->name_bytes > 64 || note->bytes > MAPS_PIECE_BYTES)
		return MAPS_NOTES_END;
	return at + 12 + ((note->name_bytes + 3) & ~3u) + ((note->bytes + 3) & ~3u);
}

/* The notes that begin the piece. */
inlined bool maps_take_notes(struct maps_found *found, __u32 bytes)
{
	__u32 at = 0;

	for (int i = 0; i < MAPS_NOTES_MAX && at != MAPS_NOTES_END; i++)
		at = maps_take_note(found, at, bytes);
	return found->build_id[0];
}

/* Reads the build-id of the file whose first byte lies at `base`; zeros: it has none, or none is there. */
outlined void maps_read_build_id(struct task_struct *task, struct maps_found *found, __u64 base)
{
	struct maps_elf_header elf;
	struct maps_program_header header;

	if (!found || !task)
		return;
	found->build_id[0] = found->build_id[1] = found->build_id[2] = 0;
	if (!base || bpf_copy_from_user_task(&elf, sizeof(elf), (void *)base, task, 0))
		return;
	if (elf.magic != ELF_MAGIC || elf.class != ELF_CLASS_64 ||
	    elf.header_bytes != sizeof(header) || elf.headers_at > RT_PAGE_BYTES)
		return;
	for (__u32 i = 0; i < MAPS_PROGRAM_HEADERS_MAX && i < elf.headers; i++) {
		__u64 at = base + elf.headers_at + i * sizeof(header);
		__u32 bytes;

		if (bpf_copy_from_user_task(&header, sizeof(header), (void *)at, task, 0))
			return;
		if (header.type != PT_NOTE)
			continue;
		bytes = header.file_bytes < MAPS_PIECE_BYTES ? header.file_bytes : MAPS_PIECE_BYTES;
		if (bpf_copy_from_user_task(found->piece, bytes & (2 * MAPS_PIECE_BYTES - 1),
					    (void *)(base + header.offset), task, 0))
			continue;
		if (maps_take_notes(found, bytes))
			return;
	}
}

/* ---- records -------------------------------------------------------------------------------- */


outlined void maps_write(struct task_struct *task, struct maps_found *found, struct maps_one *one)
{
	struct event event = { .task = task, .thread = thread_of(task, THREAD_CONTEXT_TASK) };
	__u32 bytes = RT_RECORD_HEADER_BYTES + 10 * 8;
	struct attach *attach = attach_begin(ATTACH_MAPS);
	struct reservation place;

	if (!one || !found || !attach || !ring_of_this_cpu(&event.ring) ||
	    !event_names(&event, task, event.thread))
		return;
	attach_string(attach, 8, one->path, ATTACH_KERNEL);
	if (one->path[RT_STRING_BYTES_MAX - 1])
		attach_string(attach, 9, one->path + RT_STRING_BYTES_MAX, ATTACH_KERNEL);
	bytes += attach->bytes;
	if (!ring_reserve(&event.ring, bytes, task->pid, &place))
		return;
	place.record->payload[0] = one->start;
	place.record->payload[1] = one->bytes;
	place.record->payload[2] = one->offset;
	place.record->payload[3] = found->build_id[0];
	place.record->payload[4] = found->build_id[1];
	place.record->payload[5] = found->build_id[2];
	place.record->payload[6] = one->device;
	place.record->payload[7] = one->inode;
	place.record->payload[8] = 0;
	place.record->payload[9] = 0;
	attach_copy(attach, place.record->payload + 10);
	ring_commit(&event.ring, &place, bytes, RT_PROBE_PROCESS_MAP);
	maps_told_count++;
	thread_after_exit(task, thread_is_past(task, event.thread));
}

struct maps_step {
	struct task_struct *task;
	struct maps_found *found;
};

static long maps_tell_one(__u32 i, struct maps_step *step)
{
	struct maps_one *one = &step->found->one[i & (MAPS_PER_PROCESS_MAX - 1)];

	maps_read_build_id(step->task, step->found, one->base);
	for (int w = 0; w < MAPS_BUILD_ID_WORDS; w++)
		one->build_id[w] = step->found->build_id[w];
	maps_write(step->task, step->found, one);
	return 0;
}

SEC("iter.s/task")
int maps_tell(struct maps_iter_task *ctx)
{
	struct maps_step step = { .task = ctx->task };
	__u32 zero = 0;

	step.found = bpf_map_lookup_elem(&maps_found, &zero);
	if (!step.task || !step.found)
		return 0;
	bpf_loop(step.found->count, maps_tell_one, &step, 0);
	step.found->told = step.found->count;
	step.found->count = 0;
	step.found->base = step.found->base_inode = step.found->base_device = 0;
	return 0;
}

#endif
