/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unwind: user stacks of code without frame pointers, by tables.
 *
 * In: the registers with which the current thread was in user space last; of its process, where which code lies
 * (unwind_processes), and of each file, the rows of .eh_frame (unwind_tables). Both are written by
 * daemon/source/bpf_unwind.c when the process's maps have been told. Out: return addresses. It runs in the probe, on
 * the thread whose stack it is; its state lies in this CPU's struct attach.
 *
 * The way from frame to frame is one bpf_loop(): a turn halves what is looked for, a mapping or a row, and goes to the
 * caller when it is found. So the verifier goes through it once. The files were anybody's, and so were the tables: a
 * row that is wrong gives wrong stacks of the processes that have mapped its file, or of the one process that has led
 * the reader to another (bpf_unwind.c). A word of the stack that a row calls a return address is told only if it is an
 * address of the process's code.
 *
 * Code that has no row (a JIT's, that of a library without a table) is left by its frame pointer, if what that points
 * to is a return address into code of the process. A stack that ends before the thread's first function ends with
 * the reason (RT_STACK_END).
 */
#ifndef RINGTAIL_BPF_UNWIND_H
#define RINGTAIL_BPF_UNWIND_H

#include "kernel.bpf.h"
#include "kmod/bpf/request.h"

#define UNWIND_MAPS_BITS	10	/* of MAPS_PER_PROCESS_MAX, and one turn that finds nothing is left */
#define UNWIND_ROWS_BITS	23	/* if the code of all rows lies in one block */
#define UNWIND_STEPS		4	/* in one turn */
#define UNWIND_TURNS_MAX	(RT_STACK_FRAMES_MAX * (UNWIND_MAPS_BITS + UNWIND_ROWS_BITS / UNWIND_STEPS + 3))

struct unwind {
	__u64 ip, sp, bp;
	__u64 place;		/* of ip, in its file */
	__u32 low, high;	/* what is looked for lies from low on, before high */
	__u32 state;		/* enum unwind_state */
	__u32 maps;
	__u32 end;		/* enum rt_stack_end; 0: it ends where it should */
	__u32 into;		/* 1: ip is a return address, and the call may be the last of its function */
	__u32 frames;
	__u32 pid;
	__u32 rule;		/* of the row that was found */
	struct unwind_map map;	/* the mapping that was found last: most callers lie in the same */
	__u64 frame[RT_STACK_FRAMES_MAX];
};

/* Rows, and mappings: of a file's code and of a process, as many as it has. */
struct unwind_rows {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP | BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_row));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_TABLES);
	__uint(key_size, sizeof(__u32));
	__array(values, struct unwind_rows);
} unwind_tables SEC(".maps");

struct unwind_mappings {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP | BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_map));
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, UNWIND_PROCESSES);
	__uint(key_size, sizeof(__u32));
	__array(values, struct unwind_mappings);
} unwind_processes SEC(".maps");

/* Stacks that end with a reason. */
__u64 stacks_cut;

#if defined(__TARGET_ARCH_x86)

enum unwind_state {
	UNWIND_FIND_MAP,
	UNWIND_FIND_ROW,
};

#define UNWIND_DONE	1	/* what bpf_loop() takes for the last turn */

/* Where the kernel puts them for a signal handler, above its return address (struct rt_sigframe). */
#define SIGNAL_RBP	120
#define SIGNAL_RSP	160
#define SIGNAL_RIP	168

inlined long unwind_stop(struct unwind *unwind, __u32 end)
{
	unwind->end = end;
	return UNWIND_DONE;
}

/* A word of the user's stack. */
inlined bool unwind_read(__u64 *word, __u64 at)
{
	return !bpf_probe_read_user(word, sizeof(*word), (const void *)at);
}

inlined void unwind_find(struct unwind *unwind, __u32 state, __u32 low, __u32 high)
{
	unwind->state = state;
	unwind->low = low;
	unwind->high = high;
}

/* The next frame is that of `ip`. */
inlined long unwind_enter(struct unwind *unwind, __u64 ip, __u32 into)
{
	__u32 frames = unwind->frames;

	if (!ip)
		return unwind_stop(unwind, 0);
	if (frames >= RT_STACK_FRAMES_MAX)
		return UNWIND_DONE;
	unwind->frame[frames & (RT_STACK_FRAMES_MAX - 1)] = ip;
	unwind->frames = frames + 1;
	unwind->ip = ip;
	unwind->into = into;
	unwind_find(unwind, UNWIND_FIND_MAP, 1, unwind->maps + 1);
	return 0;
}

/* By the frame pointer: whether that leads anywhere is seen when the next mapping is looked for. */
inlined long unwind_by_pointer(struct unwind *unwind, __u32 end)
{
	__u64 bp = unwind->bp, ip;

	if (bp < unwind->sp || bp & 7)
		return unwind_stop(unwind, end);
	if (!unwind_read(&ip, bp + 8) || !unwind_read(&unwind->bp, bp))
		return unwind_stop(unwind, end);
	unwind->sp = bp + 16;
	unwind->rule = UNWIND_NONE;
	return unwind_enter(unwind, ip, 1);
}

inlined long unwind_by_signal(struct unwind *unwind)
{
	__u64 sp = unwind->sp, ip;

	if (!unwind_read(&unwind->bp, sp + SIGNAL_RBP) || !unwind_read(&ip, sp + SIGNAL_RIP) ||
	    !unwind_read(&unwind->sp, sp + SIGNAL_RSP))
		return unwind_stop(unwind, RT_STACK_END_MEMORY);
	return unwind_enter(unwind, ip, 0);
}

/* From a row to the caller. */
inlined long unwind_by_row(struct unwind *unwind, const struct unwind_row *row)
{
	__u32 rule = row->rule & UNWIND_RULE;
	__u64 of = rule == UNWIND_RBP || rule == UNWIND_AT_RBP ? unwind->bp : unwind->sp;
	__u64 cfa = of + (__s64)row->cfa * 8, saved, ip;

	unwind->rule = rule;
	if (rule == UNWIND_END)
		return unwind_stop(unwind, 0);
	if (rule == UNWIND_NONE)
		return unwind_by_pointer(unwind, RT_STACK_END_RULE);
	if (rule >= UNWIND_UNKNOWN)
		return unwind_stop(unwind, RT_STACK_END_RULE);
	if (rule == UNWIND_SIGNAL)
		return unwind_by_signal(unwind);
	if (rule == UNWIND_PLT)
		cfa = unwind->sp + 8 + ((unwind->ip & 15) >= (__u16)row->cfa ? 8 : 0);
	if ((rule == UNWIND_AT_RSP || rule == UNWIND_AT_RBP) && !unwind_read(&cfa, cfa))
		return unwind_stop(unwind, RT_STACK_END_MEMORY);
	if (row->rule & UNWIND_AND_8)
		cfa += 8;
	if (cfa <= unwind->sp || !unwind_read(&ip, cfa - 8))
		return unwind_stop(unwind, RT_STACK_END_MEMORY);
	if (row->rule & (UNWIND_RBP_AT_CFA | UNWIND_RBP_AT_RBP)) {
		saved = (row->rule & UNWIND_RBP_AT_CFA ? cfa : unwind->bp) + (__s64)row->rbp * 8;
		if (!unwind_read(&unwind->bp, saved))
			return unwind_stop(unwind, RT_STACK_END_MEMORY);
	}
	unwind->sp = cfa;
	return unwind_enter(unwind, ip, 1);
}

inlined bool unwind_is_in(const struct unwind *unwind, const struct unwind_map *map)
{
	return unwind->ip - unwind->into - map->start < map->bytes;
}

/* In the mapping that was found: its rows are those of the block that the place is in. */
inlined long unwind_in_map(struct unwind *unwind)
{
	const struct unwind_map *map = &unwind->map;
	__u64 place = unwind->ip - unwind->into - map->start + map->offset;
	__u32 table = map->table, block = (place >> (map->shift & UNWIND_SHIFT_MAX)) - map->first_block, key;
	const struct unwind_block *found;
	void *rows;

	if (table == UNWIND_NO_TABLE)
		return unwind_by_pointer(unwind, RT_STACK_END_TABLE);
	rows = bpf_map_lookup_elem(&unwind_tables, &table);
	key = map->rows + block;
	found = rows && block < map->blocks ? bpf_map_lookup_elem(rows, &key) : NULL;
	if (!found)
		return unwind_by_pointer(unwind, RT_STACK_END_RULE);
	unwind->place = place;
	unwind_find(unwind, UNWIND_FIND_ROW, found->low, found->high);
	return 0;
}

/* The frame's address is none of the process's code: what has led to it is wrong, unless the thread is there itself. */
inlined long unwind_leave_code(struct unwind *unwind)
{
	if (unwind->frames > 1)
		unwind->frames--;
	return unwind_stop(unwind, RT_STACK_END_TABLE);
}

/* The mapping before `low` is the one, or there is none. */
inlined long unwind_at_map(struct unwind *unwind, void *mappings)
{
	__u32 key = unwind->low - 1;
	const struct unwind_map *map = key ? bpf_map_lookup_elem(mappings, &key) : NULL;

	if (!map || !unwind_is_in(unwind, map))
		return unwind_leave_code(unwind);
	unwind->map = *map;
	return unwind_in_map(unwind);
}

inlined long unwind_find_map(struct unwind *unwind)
{
	__u32 pid = unwind->pid;	/* before 6.2 a key lies on the stack */
	__u32 middle = unwind->low + (unwind->high - unwind->low) / 2;
	const struct unwind_map *map;
	void *mappings;

	if (unwind_is_in(unwind, &unwind->map))
		return unwind_in_map(unwind);
	mappings = bpf_map_lookup_elem(&unwind_processes, &pid);
	if (!mappings)
		return unwind_leave_code(unwind);
	if (unwind->low >= unwind->high)
		return unwind_at_map(unwind, mappings);
	map = bpf_map_lookup_elem(mappings, &middle);
	if (map && map->start <= unwind->ip - unwind->into)
		unwind->low = middle + 1;
	else
		unwind->high = middle;
	return 0;
}

inlined long unwind_find_row(struct unwind *unwind)
{
	__u32 table = unwind->map.table, key;
	void *rows = bpf_map_lookup_elem(&unwind_tables, &table);
	const struct unwind_row *row;

	if (!rows)
		return unwind_stop(unwind, RT_STACK_END_TABLE);
#pragma unroll
	for (int i = 0; i < UNWIND_STEPS; i++) {
		if (unwind->low >= unwind->high)
			break;
		key = unwind->low + (unwind->high - unwind->low) / 2;
		row = bpf_map_lookup_elem(rows, &key);
		if (row && row->at <= unwind->place)
			unwind->low = key + 1;
		else
			unwind->high = key;
	}
	if (unwind->low < unwind->high)
		return 0;
	key = unwind->low - 1;
	row = key < unwind->map.rows ? bpf_map_lookup_elem(rows, &key) : NULL;
	return row ? unwind_by_row(unwind, row) : unwind_by_pointer(unwind, RT_STACK_END_RULE);
}

struct unwind_step {
	struct unwind *unwind;
};

static long unwind_turn(__u32 turn, struct unwind_step *step)
{
	struct unwind *unwind = step->unwind;

	if (unwind->state == UNWIND_FIND_MAP && unwind_find_map(unwind))
		return UNWIND_DONE;
	return unwind->state == UNWIND_FIND_ROW ? unwind_find_row(unwind) : 0;
}

/* Whether the process's mappings are those that are known. */
inlined bool unwind_begin(struct unwind *unwind, struct task_struct *task)
{
	const struct unwind_map *first;
	struct pt_regs *regs;
	void *mappings;
	__u32 zero = 0, pid = task->tgid;

	unwind->pid = pid;
	mappings = bpf_map_lookup_elem(&unwind_processes, &pid);
	first = mappings ? bpf_map_lookup_elem(mappings, &zero) : NULL;
	if (!first || !first->start || first->start != (__u64)BPF_CORE_READ(task, mm))
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	unwind->sp = regs->sp;
	unwind->bp = regs->bp;
	unwind->maps = first->bytes;
	unwind->frames = 0;
	unwind->end = 0;
	unwind->rule = UNWIND_RSP;
	unwind->map.bytes = 0;
	return !unwind_enter(unwind, regs->ip, 0);
}

/* The current thread's user stack. Returns the frames, innermost first; 0: nothing is known of its process. */
verified_once __u32 unwind_user(struct unwind *unwind)
{
	struct unwind_step step = { .unwind = unwind };

	if (!unwind || !unwind_begin(unwind, bpf_get_current_task_btf()))
		return 0;
	bpf_loop(UNWIND_TURNS_MAX, unwind_turn, &step, 0);
	if (unwind->end && unwind->frames < RT_STACK_FRAMES_MAX) {
		unwind->frame[unwind->frames & (RT_STACK_FRAMES_MAX - 1)] = RT_STACK_END | unwind->end;
		unwind->frames++;
		__sync_fetch_and_add(&stacks_cut, 1);
	}
	return unwind->frames;
}

#else

/* Not here yet: frame pointers are all that there is to go by. */
inlined __u32 unwind_user(struct unwind *unwind)
{
	(void)unwind;
	return 0;
}

#endif

#endif
