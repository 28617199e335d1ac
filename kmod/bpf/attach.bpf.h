/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * attach: the attachments of a record (strings and stacks), gathered before it is reserved.
 *
 * Their size must be known first, so they are gathered beside the ring and copied. The place beside
 * it belongs to one program on one CPU: the kernel never runs a program inside itself there.
 */
#ifndef RINGTAIL_BPF_ATTACH_H
#define RINGTAIL_BPF_ATTACH_H

#include "kernel.bpf.h"
#include "ring.bpf.h"
#include "unwind.bpf.h"
#include "kmod/bpf/request.h"

/* Of all attachments of one record: what RT_RECORD_BYTES_MAX leaves beside six arguments. */
#define ATTACH_BYTES_MAX	1920
#define ATTACH_STRING_BYTES	(sizeof(struct rt_attachment) + RT_STRING_BYTES_MAX)
#define ATTACH_STACK_BYTES	(sizeof(struct rt_attachment) + RT_STACK_FRAMES_MAX * 8)
#define ATTACH_PLACE_MASK	0x7f8	/* masks say to the verifier what our bounds say to us */
#define ATTACH_WORDS		32	/* a power of two: of a payload, before its attachments */
#define ATTACH_STRINGS_MASK	0xff	/* one string's attachment */

/* Goes up when all maps must be told again: nobody had asked for stacks, or another reader reads. */
__u32 maps_reader;

struct maps_told {
	__u64 memory;		/* the mm_struct: an exec has another */
	__u64 executable;	/* pages */
	__u64 time_ns;
	__u64 reader;
};

enum attach_program {
	ATTACH_SYS_ENTER,
	ATTACH_SYS_EXIT,
	ATTACH_SWITCH,
	ATTACH_WAKEUP,
	ATTACH_WAKEUP_NEW,
	ATTACH_FORK,
	ATTACH_EXEC,
	ATTACH_EXIT,
	ATTACH_TIMER,
	ATTACH_MAPS,
	ATTACH_TRACEPOINT,	/* all of that type: they share one guard against nesting */
	ATTACH_FREE,		/* the first of ATTACH_FREES, each for whoever finds it free */
	ATTACH_PROGRAMS = ATTACH_FREE + 4,
};

#define ATTACH_FREES (ATTACH_PROGRAMS - ATTACH_FREE)

struct attach {
	__u32 bytes;
	__u32 taken;		/* of ATTACH_FREE */
	struct unwind unwind;	/* of the stack that is followed now */
	__u64 words[ATTACH_WORDS];	/* of a function whose strings are wanted: where they are */
	__u8 data[ATTACH_PLACE_MASK + 8 + ATTACH_STACK_BYTES];	/* the verifier wants the slack */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ATTACH_PROGRAMS);
	__type(key, __u32);
	__type(value, struct attach);
} attaches SEC(".maps");

inlined struct attach *attach_begin(__u32 program)
{
	struct attach *attach = bpf_map_lookup_elem(&attaches, &program);

	if (attach)
		attach->bytes = 0;
	return attach;
}

/*
 * For programs that may run inside each other, or be preempted by each other. To be given back with
 * attach_give_back(). NULL: all are taken.
 */
inlined struct attach *attach_take(void)
{
#pragma unroll
	for (__u32 i = 0; i < ATTACH_FREES; i++) {
		__u32 key = ATTACH_FREE + i;
		struct attach *attach = bpf_map_lookup_elem(&attaches, &key);

		if (attach && !__sync_val_compare_and_swap(&attach->taken, 0, 1)) {
			attach->bytes = 0;
			return attach;
		}
	}
	return NULL;
}

inlined void attach_give_back(struct attach *attach)
{
	__sync_lock_test_and_set(&attach->taken, 0);
}

inlined struct rt_attachment *attach_place(struct attach *attach)
{
	return (void *)&attach->data[attach->bytes & ATTACH_PLACE_MASK];
}

inlined bool attach_has_room(const struct attach *attach, __u32 bytes)
{
	return attach->bytes <= ATTACH_BYTES_MAX - bytes;
}

/* Puts zeros behind what is in place, up to the alignment: stacks need none. */
inlined void attach_trim(struct attach *attach, __u32 bytes)
{
	struct rt_attachment *place = attach_place(attach);
	__u32 last = bytes & (0xff & ~7);

	if (bytes & 7)
		*(__u64 *)&place->data[last] &= (1ULL << (8 * (bytes & 7))) - 1;
}

/* Ends an attachment of `bytes`, which are in place. */
inlined void attach_end(struct attach *attach, __u16 kind, __u16 arg, __u32 bytes)
{
	struct rt_attachment *place = attach_place(attach);

	place->kind = kind;
	place->arg = arg;
	place->bytes = bytes;
	attach->bytes += sizeof(*place) + ((bytes + 7) & ~7u);
}

enum attach_memory {
	ATTACH_USER,
	ATTACH_KERNEL,
};

/* One string, cut at RT_STRING_BYTES_MAX. False: it is not in memory now, or there is no room. */
inlined bool attach_string(struct attach *attach, __u16 arg, const void *string,
			   enum attach_memory memory)
{
	struct rt_attachment *place = attach_place(attach);
	long bytes;

	if (!attach_has_room(attach, ATTACH_STRING_BYTES))
		return false;
	bytes = memory == ATTACH_USER ?
		bpf_probe_read_user_str(place->data, RT_STRING_BYTES_MAX + 1, string) :
		bpf_probe_read_kernel_str(place->data, RT_STRING_BYTES_MAX + 1, string);
	if (bytes <= 0 || bytes > RT_STRING_BYTES_MAX + 1)
		return false;
	attach_trim(attach, bytes - 1);
	attach_end(attach, RT_ATTACH_STRING, arg, bytes - 1);
	return true;
}

verified_once bool attach_user_string(struct attach *attach, __u16 arg, __u64 string)
{
	return attach && attach_string(attach, arg, (const void *)string, ATTACH_USER);
}

/* A program's or the kernel's own: where it lies says whose it is. */
inlined bool attach_any_string(struct attach *attach, __u16 arg, __u64 string)
{
	return attach_string(attach, arg, (const void *)string,
				       place_is_kernel(string) ? ATTACH_KERNEL : ATTACH_USER);
}

struct attach_args {
	__u64 arg[RT_SYSCALL_ARGS_MAX];
};

/* The strings among the arguments, a bit for each. Returns how many could not be had. */
verified_once __u32 attach_strings(struct attach *attach, const struct attach_args *args,
				   __u32 strings)
{
	__u32 faults = 0;

	if (!attach || !args)
		return 0;
	for (int i = 0; i < RT_SYSCALL_ARGS_MAX; i++)
		if (strings & 1u << i && args->arg[i])
			faults += !attach_user_string(attach, i, args->arg[i]);
	return faults;
}

/*
 * The struct sockaddr whose bit is set, of the length that the next argument is, or points to. What a
 * call fills in is not there if it failed, nor before it ran. Returns 1 if it could not be had.
 */
verified_once __u32 attach_address(struct attach *attach, const struct attach_args *args,
				   __u32 word, bool is_filled)
{
	__u32 arg = syscall_strings(word) & 1u << 1 ? 1 : 4;
	struct rt_attachment *place;
	const void *address;
	__s32 bytes;

	if (!attach || !args)
		return 0;
	address = (const void *)(arg == 1 ? args->arg[1] : args->arg[4]);
	bytes = arg == 1 ? args->arg[2] : args->arg[5];
	if (!address || (word & SYSCALL_ADDRESS_RESULT && !is_filled))
		return 0;
	if (word & SYSCALL_ADDRESS_RESULT &&
	    bpf_probe_read_user(&bytes, sizeof(bytes),
				(const void *)(arg == 1 ? args->arg[2] : args->arg[5])))
		return 1;
	if (bytes <= 0)
		return 0;
	if (bytes > RT_SOCKADDR_BYTES_MAX)
		bytes = RT_SOCKADDR_BYTES_MAX;
	place = attach_place(attach);
	if (!attach_has_room(attach, ATTACH_STRING_BYTES) ||
	    bpf_probe_read_user(place->data, bytes & 0x7f, address))
		return 1;
	attach_trim(attach, bytes & 0x7f);
	attach_end(attach, RT_ATTACH_SOCKADDR, arg, bytes & 0x7f);
	return 0;
}

/* Processes whose maps have been told, or asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAPS_PROCESSES);
	__type(key, __u32);
	__type(value, struct maps_told);
} maps_told SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, MAPS_WANTED_BYTES);
} maps_wanted SEC(".maps");

/*
 * A stack of addresses is worth nothing without the maps of its process. Where those are not known as
 * they are now, the daemon is asked to look (maps.bpf.h). What shows that they have changed is an
 * exec's new memory and the amount that is executable. They are told again after a while, for those
 * who came later and for what was lost. If the ring buffer is full, the next stack asks again: false.
 */
verified_once bool attach_maps(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid;
	struct maps_told *told = bpf_map_lookup_elem(&maps_told, &tgid);
	struct maps_told now = {
		.memory = (__u64)BPF_CORE_READ(task, mm),
		.executable = BPF_CORE_READ(task, mm, exec_vm),
		.reader = read_once(maps_reader),
		.time_ns = bpf_ktime_get_ns(),
	};
	struct maps_wanted wanted = { .tid = task->pid };

	if (!now.memory)
		return true;
	if (told && told->memory == now.memory && told->reader == now.reader &&
	    now.time_ns - told->time_ns <
		    (told->executable == now.executable ? MAPS_STALE_NS : MAPS_AGAIN_NS))
		return true;
	if (bpf_ringbuf_output(&maps_wanted, &wanted, sizeof(wanted), BPF_RB_FORCE_WAKEUP))
		return false;
	return !bpf_map_update_elem(&maps_told, &tgid, &now, BPF_ANY);
}

/* The user stack by the tables of its process. Returns its bytes; 0: there are no tables. */
inlined long attach_unwound(struct attach *attach)
{
	__u32 bytes = unwind_user(&attach->unwind) * 8;

	if (bytes > RT_STACK_FRAMES_MAX * 8 ||
	    bpf_probe_read_kernel(attach_place(attach)->data, bytes, attach->unwind.frame))
		return 0;
	return bytes;
}

outlined void attach_stacks(void *ctx, struct attach *attach, __u32 flags)
{
	const __u32 bytes_max = RT_STACK_FRAMES_MAX * 8;
	long bytes;

	if (!attach)
		return;
	if (flags & RT_FLAG_KSTACK && attach_has_room(attach, ATTACH_STACK_BYTES)) {
		bytes = bpf_get_stack(ctx, attach_place(attach)->data, bytes_max, 0);
		if (bytes > 0 && bytes <= bytes_max)
			attach_end(attach, RT_ATTACH_KSTACK, 0, bytes);
	}
	if (flags & RT_FLAG_USTACK && attach_has_room(attach, ATTACH_STACK_BYTES)) {
		bytes = attach_unwound(attach);
		if (!bytes)
			bytes = bpf_get_stack(ctx, attach_place(attach)->data, bytes_max, BPF_F_USER_STACK);
		if (bytes > 0 && bytes <= bytes_max) {
			attach_end(attach, RT_ATTACH_USTACK, 0, bytes);
			attach_maps();
		}
	}
}

/* Adds what was gathered earlier. */
inlined void attach_append(struct attach *attach, const struct attach *more)
{
	__u32 bytes = more->bytes & ATTACH_STRINGS_MASK;

	if (!attach_has_room(attach, bytes))
		return;
	bpf_probe_read_kernel(attach_place(attach), bytes, more->data);
	attach->bytes += bytes;
}

/* Copies what was gathered behind the payload. */
inlined void attach_copy(const struct attach *attach, void *to)
{
	bpf_probe_read_kernel(to, attach->bytes & (ATTACH_PLACE_MASK | 7), attach->data);
}

#endif
