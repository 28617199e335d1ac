// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The BPF producer: kernel events in, records of kmod/uapi/ringtail.h out, one ring for each CPU.
 *
 * daemon/source/bpf.c loads it, says what to record (request.h) and attaches the programs that the
 * request needs. Programs run wherever their tracepoint fires, interrupts included; none waits.
 *
 *	kernel   the kernel's structures, as far as they are read
 *	ring     reserve, commit, bell
 *	text     what is said of many threads, told once
 *	context  a thread's executable file and cgroup
 *	thread   what is remembered of a thread; introducing it to a ring's reader
 *	filter   whose events are wanted
 *	unwind   user stacks of code without frame pointers
 *	attach   strings and stacks
 *	syscall, sched, move, timer, maps, stuck   the programs
 *	tracepoint   of which each other tracepoint gets a copy
 *	uprobe   of which each place in a program's code, and each function of the kernel, gets a copy
 */
#include "syscall.bpf.h"
#include "sched.bpf.h"
#include "move.bpf.h"
#include "timer.bpf.h"
#include "maps.bpf.h"
#include "tracepoint.bpf.h"
#include "uprobe.bpf.h"
#include "stuck.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
