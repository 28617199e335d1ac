/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * syscall: syscall:*:call, entry and return.
 *
 * A call is one record, written at its return. What is needed from its entry waits with the thread:
 * the time and the number, because exec and the return from a signal handler change what the
 * registers say the number was. exec's arguments and strings are kept too; every other call still
 * has its arguments in the registers, and its strings are read at the return, when the call itself
 * has brought them into memory.
 *
 * The two programs are as short as they can be for a plain call of a thread that has its slot;
 * everything else is done by the `slowly` functions, which know all cases.
 */
#ifndef RINGTAIL_BPF_SYSCALL_H
#define RINGTAIL_BPF_SYSCALL_H

#include "attach.bpf.h"
#include "event.bpf.h"
#include "file.bpf.h"
#include "structure.bpf.h"

/*
 * What an exec will have overwritten by the time it returns. Its file name is read at the entry; if
 * it is not in memory then, sched_process_exec has the kernel's copy; and if the exec fails, the
 * caller's is there at the return. So it is with the arguments, whose copy is in the new program's memory.
 */
struct exec_call {
	struct attach_args args;
	__u32 strings_wanted;		/* a bit for each argument */
	__u32 is_script;		/* what the new program was given is not what the caller gave */
	struct attach strings;
	struct structure_argv argv;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct exec_call);
} exec_calls SEC(".maps");

/* A register has garbage or zeros above an int: it is extended as the catalog says. */
#define syscall_arg_copy(to, regs, word, i)						\
	((to)[i] = (word) & (1u << (SYSCALL_SIGNED_SHIFT + (i))) ?			\
			   (__u64)(__s32)regs_arg##i(regs) : regs_arg##i(regs))

inlined void syscall_args_copy(__u64 *to, const struct pt_regs *regs, __u32 word)
{
	__u32 args = syscall_args(word);

	if (args < 1)
		return;
	syscall_arg_copy(to, regs, word, 0);
	if (args < 2)
		return;
	syscall_arg_copy(to, regs, word, 1);
	if (args < 3)
		return;
	syscall_arg_copy(to, regs, word, 2);
	if (args < 4)
		return;
	syscall_arg_copy(to, regs, word, 3);
	if (args < 5)
		return;
	syscall_arg_copy(to, regs, word, 4);
	if (args < 6)
		return;
	syscall_arg_copy(to, regs, word, 5);
}

/* Without a branch, for whoever knows which of them are ints. */
inlined void syscall_registers_copy(__u64 to[RT_SYSCALL_ARGS_MAX], const struct pt_regs *regs)
{
	to[0] = regs_arg0(regs);
	to[1] = regs_arg1(regs);
	to[2] = regs_arg2(regs);
	to[3] = regs_arg3(regs);
	to[4] = regs_arg4(regs);
	to[5] = regs_arg5(regs);
}

/*
 * Where tracepoints run programs with preemption enabled, the kernel refuses a program to a thread that gets the CPU
 * in the middle of it. There the two programs are loaded as TRACEPOINT, whose path through perf keeps preemption
 * off (bpf_preempted.c). Such a program has the tracepoint's record as its context, and not the arguments.
 */
const volatile bool syscalls_by_perf;

/* Two loads: one at either of two places is none that the verifier takes of a context. */
inlined struct pt_regs *syscall_registers(void *ctx)
{
	struct pt_regs *regs;

	if (syscalls_by_perf) {
		regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
		barrier_var(regs);
	} else {
		regs = *(struct pt_regs **)ctx;
		barrier_var(regs);
	}
	return regs;
}

/* Of sys_exit. */
inlined __s64 syscall_result(void *ctx)
{
	__s64 result;

	if (syscalls_by_perf) {
		result = ((__s64 *)ctx)[2];
		barrier_var(result);
	} else {
		result = ((__s64 *)ctx)[1];
		barrier_var(result);
	}
	return result;
}

/* All that a call is told of; of one without a name also its number, and every register. */
inlined void syscall_fields_copy(__u64 *to, const struct pt_regs *regs, __u32 word)
{
	if (!(word & SYSCALL_IS_UNKNOWN)) {
		syscall_args_copy(to, regs, word);
		return;
	}
	to[0] = regs_syscall(regs);
	to[1] = regs_arg0(regs);
	to[2] = regs_arg1(regs);
	to[3] = regs_arg2(regs);
	to[4] = regs_arg3(regs);
	to[5] = regs_arg4(regs);
	to[6] = regs_arg5(regs);
}

/* The place of a number in the words: its own, or that of all without a name. */
inlined __u64 syscall_place(__u32 of_generation, __u64 nr)
{
	if (nr < RT_SYSCALLS_MAX && request_syscall_word(of_generation, nr) & SYSCALL_IS_KNOWN)
		return nr;
	return RT_SYSCALL_UNKNOWN;
}

/* A system call of another ABI. */
outlined void syscall_count_foreign(void)
{
	struct ring ring;

	if (ring_of_this_cpu(&ring))
		event_count(&ring.producer->foreign);
}

inlined void syscall_count_faults(__u32 faults)
{
	struct ring ring;

	if (faults && ring_of_this_cpu(&ring))
		__sync_fetch_and_add(&ring.producer->faults, faults);
}

/* What the call was about to close when it began, for which it uses what only an exec needs else. */
inlined void syscall_save_closed(__u32 fd)
{
	struct exec_call *call = bpf_task_storage_get(&exec_calls, bpf_get_current_task_btf(), 0,
						      BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!call)
		return;
	call->strings.bytes = 0;
	attach_file(&call->strings, 0, fd);
}

outlined void syscall_attach_closed(struct attach *attach)
{
	struct exec_call *call = bpf_task_storage_get(&exec_calls, bpf_get_current_task_btf(), 0, 0);

	if (!attach || !call || !call->strings.bytes)
		return;
	attach_append(attach, &call->strings);
	call->strings.bytes = 0;
}

/* Gathers what the request asks for beside the fixed part; NULL: nothing. */
outlined struct attach *syscall_attach(void *ctx, __u32 nr, __u32 flags, __u32 word, __u32 program)
{
	const struct pt_regs *regs = syscall_registers(ctx);
	struct attach_args args = {};
	struct attach *attach = attach_begin(program);

	if (!attach)
		return NULL;
	syscall_registers_copy(args.arg, regs);
	if (flags & (RT_FLAG_FDS | RT_FLAG_DATA) && word) {
		__u32 look = syscall_look(nr);

		if (program == ATTACH_SYS_EXIT && look & LOOK_ENDS)
			syscall_attach_closed(attach);
		else
			syscall_count_faults(attach_looks(attach, &args, flags, look,
							  program == ATTACH_SYS_EXIT ?
							  syscall_result(ctx) : -1));
	}
	if (flags & RT_FLAG_STRINGS && syscall_strings(word)) {
		syscall_count_faults(word & SYSCALL_ADDRESS ?
			attach_address(attach, &args, word, program == ATTACH_SYS_EXIT &&
							    syscall_result(ctx) >= 0) :
			attach_strings(attach, &args, syscall_strings(word)));
	}
	attach_stacks(ctx, attach, flags);
	return attach;
}

/* What a call was given and has filled in, once it has returned. */
outlined void syscall_attach_structures(void *ctx, struct attach *attach, __u32 nr, __u32 flags)
{
	const struct pt_regs *regs = syscall_registers(ctx);
	struct attach_args args = {};

	if (!attach || !syscall_structure_words(nr))
		return;
	syscall_registers_copy(args.arg, regs);
	attach_structures(attach, &args, flags, syscall_structure_words(nr), syscall_result(ctx));
}

/* ---- entry ---------------------------------------------------------------------------------- */

/* Which argument of an exec is the list of its arguments: execveat has a descriptor before the file. */
inlined __u32 exec_argv_is(__u32 word)
{
	return syscall_strings(word) == 1 ? 1 : 2;
}

inlined __u64 exec_argv(const struct exec_call *exec, __u32 word)
{
	return syscall_strings(word) == 1 ? exec->args.arg[1] : exec->args.arg[2];
}

outlined bool syscall_save_exec(const struct pt_regs *regs, __u32 flags, __u32 word)
{
	struct exec_call *exec = bpf_task_storage_get(&exec_calls, bpf_get_current_task_btf(), 0,
						      BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!exec)
		return false;
	syscall_args_copy(exec->args.arg, regs, word);
	exec->strings.bytes = 0;
	exec->strings_wanted = flags & RT_FLAG_STRINGS ? syscall_strings(word) : 0;
	attach_strings(&exec->strings, &exec->args, exec->strings_wanted);
	exec->argv.bytes = exec->argv.faults = exec->is_script = 0;
	if (flags & REQUEST_STRUCTURES)
		structure_save_argv(&exec->argv, exec_argv(exec, word), 0, exec_argv_is(word));
	return true;
}

/* From sched_process_exec. An exec has one string: its bit says which argument that is. */
inlined void syscall_exec_succeeds(struct task_struct *task, const struct linux_binprm *program)
{
	struct exec_call *exec = bpf_task_storage_get(&exec_calls, task, 0, 0);

	if (!exec)
		return;
	exec->is_script = program->interp != program->filename;
	if (exec->strings_wanted && !exec->strings.bytes)
		attach_string(&exec->strings, exec->strings_wanted == 1 ? 0 : 1, program->filename, ATTACH_KERNEL);
}

/* At the return, the arguments of which one was not in memory at the entry. */
inlined void syscall_save_argv_again(struct exec_call *exec, __u32 word, bool succeeded)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	__u64 from = 0, upto = 0;

	if (!succeeded) {
		structure_save_argv(&exec->argv, exec_argv(exec, word), 0, exec_argv_is(word));
	} else if (mm && !exec->is_script) {
		from = mm->arg_start;
		upto = mm->arg_end;
		structure_save_argv(&exec->argv, from, upto, exec_argv_is(word));
	}
	structure_count_faults(exec->argv.faults);
}

/* At the return: adds the strings that were kept, or reads them now. */
outlined void syscall_attach_exec(struct attach *attach, struct exec_call *exec, __u32 word, bool succeeded)
{
	if (!attach || !exec)
		return;
	if (exec->strings.bytes)
		attach_append(attach, &exec->strings);
	else
		syscall_count_faults(attach_strings(attach, &exec->args, exec->strings_wanted));
	if (exec->argv.faults)
		syscall_save_argv_again(exec, word, succeeded);
	structure_append_argv(attach, &exec->argv);
}

/*
 * The record at an entry: syscall:*:entry, or the call that will not return. *time_ns becomes its
 * time if it was written.
 */
outlined void syscall_write_named_entry(void *ctx, __u32 of_generation, __u32 probe, __u64 *time_ns)
{
	const struct bpf_request *request = request_of(of_generation);
	__u32 word = request_syscall_word(of_generation, probe);
	__u32 fixed = probe < RT_PROBE_SYSCALL_ENTRY ? 2 : 0;
	__u32 bytes = RT_RECORD_HEADER_BYTES + 8 * (fixed + syscall_args(word));
	struct pt_regs *regs = syscall_registers(ctx);
	struct attach *attach = NULL;
	struct reservation place;
	struct ring ring;

	if (!time_ns || !ring_of_this_cpu(&ring))
		return;
	if (request->flags)
		attach = syscall_attach(ctx, probe & (RT_SYSCALLS_MAX - 1), request->flags, word,
					ATTACH_SYS_ENTER);
	if (attach)
		bytes += attach->bytes;
	if (!ring_reserve(&ring, bytes, bpf_get_current_pid_tgid(), &place))
		return;
	if (attach)
		attach_copy(attach, place.record->payload + fixed + syscall_args(word));
	if (fixed) {
		place.record->payload[0] = RT_DURATION_NEVER;
		place.record->payload[1] = 0;
	}
	syscall_fields_copy(place.record->payload + fixed, regs, word);
	*time_ns = place.time_ns;
	ring_commit(&ring, &place, bytes, probe);
}

/* Introduces the thread, then writes: one after the other, the stack is small. */
inlined void syscall_write_entry(void *ctx, __u32 of_generation, struct bpf_thread *thread,
				 __u32 probe, __u64 *time_ns)
{
	struct event event = { .thread = thread };

	event.task = bpf_get_current_task_btf();
	if (ring_of_this_cpu(&event.ring) && event_names(&event, event.task, thread))
		syscall_write_named_entry(ctx, of_generation, probe, time_ns);
}

/* Makes the call running. The time comes last: it is that of the end of our own work. */
inlined void syscall_begin(struct bpf_thread *thread, __u64 nr, __u32 word, __u32 of_generation,
			   __u64 time_ns)
{
	thread->entry_word = nr << 32 | word;
	thread->entry_generation = of_generation;
	thread->entry_ns = time_ns ? time_ns : bpf_ktime_get_ns();
}

/* The same of a call that will be counted: nobody asks when it began. */
inlined void syscall_begin_counted(struct bpf_thread *thread, __u64 nr, __u32 word, __u32 of_generation)
{
	thread->entry_word = nr << 32 | word;
	thread->entry_generation = of_generation;
}

outlined int syscall_enter_slowly(__u64 *ctx, __u32 of_generation)
{
	const struct bpf_request *request = request_of(of_generation);
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_thread *thread = thread_of(task, THREAD_CONTEXT_TASK);
	struct pt_regs *regs = syscall_registers(ctx);
	__u64 nr = syscall_place(of_generation, ctx[1]), time_ns = 0;
	__u32 word = request_syscall_word(of_generation, nr);

	if (thread)
		thread->entry_generation = 0;
	if (!filter_passes(request, thread, word & SYSCALL_UNFILTERED)) {
		/* Others' events may name it: its return must not be passed over. */
		if (thread && word & SYSCALL_SETS_UID)
			write_once(thread->refused, 0);
		return 0;
	}
	/* Its memory is asked for again, for the reason that thread_is_past() has. */
	if (word & SYSCALL_WANTS_ENTRY) {
		syscall_write_entry(ctx, of_generation, thread, RT_PROBE_SYSCALL_ENTRY + nr,
				    &time_ns);
		thread = thread_of(task, THREAD_CONTEXT_TASK);
	}
	if (!(word & SYSCALL_WANTS_CALL))
		return 0;
	if (word & SYSCALL_NEVER_RETURNS) {
		syscall_write_entry(ctx, of_generation, thread, RT_PROBE_SYSCALL_CALL + nr,
				    &time_ns);
		return 0;
	}
	if (!thread)
		return 0;
	if (word & SYSCALL_SAVES_ARGS && !syscall_save_exec(regs, request->flags, word))
		return 0;
	if (word & SYSCALL_IS_COUNTED) {
		syscall_begin_counted(thread, nr, word, of_generation);
		return 0;
	}
	if (request->flags & RT_FLAG_FDS && syscall_look(nr) & LOOK_ENDS)
		syscall_save_closed(regs_arg0(regs));
	syscall_begin(thread, nr, word, of_generation, time_ns);
	return 0;
}

SEC("tp_btf/sys_enter")
int sys_enter(__u64 *ctx)
{
	__u32 now = read_once(generation);
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_thread *slot = thread_slot(task->pid);
	struct pt_regs *regs = syscall_registers(ctx);
	__u64 nr = ctx[1];
	__u32 word = nr < RT_SYSCALLS_MAX ? request_syscall_word(now, nr) : 0;

	if (unlikely(!(word & SYSCALL_IS_KNOWN) || call_is_foreign(task, regs))) {
		if (!call_is_foreign(task, regs))
			return syscall_enter_slowly(ctx, now);
		syscall_count_foreign();
		return 0;
	}
	if (!(word & (SYSCALL_WANTS_CALL | SYSCALL_WANTS_ENTRY | SYSCALL_SETS_UID)))
		return 0;
	if (unlikely(slot->owner != (__u64)task || slot->passed != now || word & SYSCALL_IS_RICH)) {
		if (slot->owner == (__u64)task && slot->passed == now && word & SYSCALL_IS_COUNTED) {
			syscall_begin_counted(slot, nr, word, now);
			return 0;
		}
		if (slot->owner != (__u64)task || slot->refused != now ||
		    word & (SYSCALL_SETS_UID | SYSCALL_UNFILTERED))
			return syscall_enter_slowly(ctx, now);
		slot->entry_generation = 0;
		return 0;
	}
	syscall_begin(slot, nr, word, now, 0);
	return 0;
}

/* ---- return --------------------------------------------------------------------------------- */

outlined void syscall_write_return(void *ctx, __u32 flags, __u32 nr)
{
	__u32 bytes = RT_RECORD_HEADER_BYTES + 8;
	struct attach *attach = NULL;
	struct reservation place;
	struct ring ring;

	if (!ring_of_this_cpu(&ring))
		return;
	if (flags)
		attach = syscall_attach(ctx, nr, flags, 0, ATTACH_SYS_EXIT);
	if (attach)
		bytes += attach->bytes;
	if (!ring_reserve(&ring, bytes, bpf_get_current_pid_tgid(), &place))
		return;
	place.record->payload[0] = syscall_result(ctx);
	if (attach)
		attach_copy(attach, place.record->payload + 1);
	ring_commit(&ring, &place, bytes, RT_PROBE_SYSCALL_RETURN + nr);
}

outlined void syscall_write_call(void *ctx, __u32 flags, __u64 entry_word, __u64 entry_ns)
{
	__u32 word = entry_word, args = syscall_args(word), nr = entry_word >> 32;
	__u32 bytes = RT_RECORD_HEADER_BYTES + 8 * (2 + args);
	struct pt_regs *regs = syscall_registers(ctx);
	struct exec_call *exec = NULL;
	struct attach *attach = NULL;
	struct reservation place;
	struct ring ring;

	if (!ring_of_this_cpu(&ring))
		return;
	if (word & SYSCALL_SAVES_ARGS) {
		exec = bpf_task_storage_get(&exec_calls, bpf_get_current_task_btf(), 0, 0);
		if (!exec) {
			event_count(&ring.producer->unpaired);
			return;
		}
	}
	if (flags)
		attach = syscall_attach(ctx, nr, flags, exec ? 0 : word, ATTACH_SYS_EXIT);
	if (attach && exec)
		syscall_attach_exec(attach, exec, word, !syscall_result(ctx));
	else if (attach && flags & (REQUEST_STRUCTURES | RT_FLAG_DATA))
		syscall_attach_structures(ctx, attach, nr, flags);
	if (attach)
		bytes += attach->bytes;
	if (!ring_reserve(&ring, bytes, bpf_get_current_pid_tgid(), &place))
		return;
	if (attach)
		attach_copy(attach, place.record->payload + 2 + args);
	place.record->payload[0] = place.time_ns > entry_ns ? place.time_ns - entry_ns : 0;
	place.record->payload[1] = syscall_result(ctx);
	if (exec)
		bpf_probe_read_kernel(place.record->payload + 2, 8 * args, &exec->args);
	else
		syscall_fields_copy(place.record->payload + 2, regs, word);
	ring_commit(&ring, &place, bytes, RT_PROBE_SYSCALL_CALL + nr);
}

/*
 * In the place of a record. No two of these run at once on one CPU: interrupts make no calls, and preemption is off
 * (bpf_preempted.c). So the add need not be atomic, which would cost as much as all else here.
 */
inlined void syscall_count_here(void *ctx, __u64 nr)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct ring ring = { .producer = bpf_map_lookup_elem(&rings, &cpu) };
	struct rt_counted *counted;

	if (!ring.producer)
		return;
	counted = ring_counted(&ring, nr & (RT_SYSCALLS_MAX - 1));
	if ((__u64)syscall_result(ctx) >= (__u64)-RT_ERRNO_MAX)
		write_once(counted->bad, counted->bad + 1);
	else
		write_once(counted->good, counted->good + 1);
}

/* The barrier: nothing of it is worth a place on the stack that a recorded call would then have to keep, too. */
inlined int syscall_end_counted(void *ctx, struct bpf_thread *thread)
{
	barrier_var(thread);
	thread->entry_generation = 0;
	syscall_count_here(ctx, thread->entry_word >> 32);
	return 0;
}

/* A function of its own: before 6.2, whoever calls it uses the stack up to the last bytes. */
outlined void syscall_count(void *ctx, __u64 nr)
{
	syscall_count_here(ctx, nr);
}

/*
 * Nobody read the clock when a call began that was to be counted. If it is recorded after all, it lasts from when such
 * calls were.
 */
inlined __u64 syscall_began_ns(const struct bpf_thread *thread, __u64 entry_word)
{
	__u64 nr = entry_word >> 32;

	if (!(entry_word & SYSCALL_IS_COUNTED))
		return thread->entry_ns;
	barrier_var(nr);
	return read_once(counted_until_ns[nr & (RT_SYSCALLS_MAX - 1)]);
}

/*
 * The number is the entry's where one was seen; else it is the registers', of whose ABI the thread
 * tells. What is recorded is what the request wants now, which need not be what it wanted then.
 */
outlined int syscall_return_slowly(__u64 *ctx, __u32 of_generation)
{
	struct event event = { .request = request_of(of_generation) };
	struct pt_regs *regs = syscall_registers(ctx);
	__u64 entry_word = 0, entry_ns = 0, nr;
	__u32 word;

	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, THREAD_CONTEXT_TASK);
	if (event.thread && event.thread->entry_generation) {
		if (event.thread->entry_generation >= event.request->syscalls_since) {
			entry_word = event.thread->entry_word;
			entry_ns = syscall_began_ns(event.thread, entry_word);
		}
		event.thread->entry_generation = 0;
	}
	if (!entry_ns && call_is_foreign(event.task, regs)) {
		if (event.thread && foreign_call_sets_uid(regs_syscall(regs)))
			thread_make_unknown(event.thread);
		if (!event.request->sees_entries)
			syscall_count_foreign();
		return 0;
	}
	nr = entry_ns ? entry_word >> 32 : (__u64)regs_syscall(regs);
	/* A number with x32's bit is another call's, but sets the uid as that one does. */
	word = request_syscall_word(of_generation,
				    nr == RT_SYSCALL_UNKNOWN ? (__u64)regs_syscall(regs) : nr);
	if (word & SYSCALL_SETS_UID && event.thread)
		thread_make_unknown(event.thread);
	/* -1 may be a signal handler's return, which has put other registers in their place. */
	if (!entry_ns && nr != (__u64)-1)
		nr = syscall_place(of_generation, nr);
	if (nr >= RT_SYSCALLS_MAX)
		return 0;
	word = request_syscall_word(of_generation, nr);
	if (!(word & (SYSCALL_WANTS_CALL | SYSCALL_WANTS_RETURN)) ||
	    !event_begin(&event, word & SYSCALL_UNFILTERED))
		return 0;
	if (word & SYSCALL_IS_COUNTED && entry_ns) {
		syscall_count(ctx, nr);
		return 0;
	}
	if (!event_names(&event, event.task, event.thread))
		return 0;
	if (word & SYSCALL_WANTS_RETURN)
		syscall_write_return(ctx, event.request->flags, nr);
	if (!(word & SYSCALL_WANTS_CALL))
		return 0;
	if (entry_ns)
		syscall_write_call(ctx, event.request->flags, entry_word, entry_ns);
	else
		event_count(&event.ring.producer->unpaired);
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(__u64 *ctx)
{
	__u32 now = read_once(generation);
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tid = task->pid;
	struct bpf_thread *slot = thread_slot(tid);
	__u32 bytes, word = slot->entry_word;
	struct reservation place;
	struct ring ring;

	if (unlikely(slot->owner != (__u64)task || slot->entry_generation != now ||
		     word & SYSCALL_IS_RICH)) {
		if (slot->owner == (__u64)task && slot->entry_generation == now && word & SYSCALL_IS_COUNTED)
			return syscall_end_counted(ctx, slot);
		if (slot->owner != (__u64)task || slot->refused != now || slot->entry_generation)
			return syscall_return_slowly(ctx, now);
		return 0;
	}
	if (unlikely(!ring_of_this_cpu(&ring) || !thread_is_marked(slot, ring.cpu)))
		return syscall_return_slowly(ctx, now);
	bytes = RT_RECORD_HEADER_BYTES + 8 * (2 + syscall_args(word));
	if (unlikely(!ring_reserve_plainly(&ring, bytes, tid, &place)))
		return syscall_return_slowly(ctx, now);
	slot->entry_generation = 0;
	place.record->payload[0] = place.time_ns - slot->entry_ns;
	place.record->payload[1] = syscall_result(ctx);
	syscall_args_copy(place.record->payload + 2, syscall_registers(ctx), word);
	ring_commit(&ring, &place, bytes, RT_PROBE_SYSCALL_CALL + (slot->entry_word >> 32));
	return 0;
}

#endif
