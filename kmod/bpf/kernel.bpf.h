/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernel: the few kernel fields that the programs read. libbpf finds their real offsets in the
 * running kernel's BTF when it loads the programs.
 */
#ifndef RINGTAIL_BPF_KERNEL_H
#define RINGTAIL_BPF_KERNEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	__u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
};

struct thread_info {
	unsigned long flags;
	__u32 status;
	__u32 cpu;
};

struct list_head {
	struct list_head *next;
};

struct signal_struct {
	struct {
		int counter;
	} live;
	struct list_head thread_head;
};

/* What lies on the way from a task to the path of its executable file, */
struct qstr {
	__u64 hash_len;
	const unsigned char *name;
};

struct hlist_bl_node {
	struct hlist_bl_node **pprev;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
};

/* from a descriptor to its file, and to the ends of a socket, */
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	__u32 skc_daddr, skc_rcv_saddr;
	__u16 skc_dport, skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	short type;
	struct sock *sk;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long exec_vm;
	unsigned long arg_start, arg_end;
};

/* and to that of its cgroup. */
struct kernfs_node {
	struct kernfs_node *parent;
	const char *name;
	__u32 hash;
	__u64 id;
};

struct kernfs_node___since_6_15 {
	struct kernfs_node___since_6_15 *__parent;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

enum cgroup_subsys_id {
	CGROUP_SUBSYS_COUNT = 1,
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];	/* as many as there are controllers */
	struct cgroup *dfl_cgrp;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	__u32 i_generation;
	struct super_block *i_sb;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_flags, vm_pgoff;
	struct file *vm_file;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int prio;
	unsigned int on_cpu;	/* u8 since 7.x: only what has no sign is fitted to another size */
	unsigned int __state;
	int exit_state;
	int exit_code;
	int pid;
	int tgid;
	__u64 start_time;
	struct task_struct *real_parent;
	const struct cred *cred;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct files_struct *files;
	struct css_set *cgroups;
	struct list_head thread_node;
	char comm[16];
};

struct bpf_local_storage_map {
	int selem_ma;		/* asked after, never read */
	int use_kmalloc_nolock;
};

/*
 * How that tracepoint is called since 6.16; before, it had no second argument. Each kernel has a type of
 * this name: one that it does not have libbpf would look for in its modules, which takes CAP_SYS_ADMIN.
 */
typedef void (*btf_trace_sched_process_exit)(void *data, struct task_struct *task, bool group_dead);

struct linux_binprm {
	const char *filename;
	const char *interp;		/* another text if the file names a program that runs it */
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long bp, r10, r9, r8, dx, si, di, orig_ax, ip, sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 pc;
	__u64 pstate;
	__u64 orig_x0;
	__s32 syscallno;
};
#else
#error "no system call ABI is described here for this architecture"
#endif

#pragma clang attribute pop

#if defined(__TARGET_ARCH_x86)
#define regs_syscall(regs)	((long)(int)(regs)->orig_ax)	/* as the kernel reads it */
#define regs_arg0(regs)		((regs)->di)
#define regs_arg1(regs)		((regs)->si)
#define regs_arg2(regs)		((regs)->dx)
#define regs_arg3(regs)		((regs)->r10)
#define regs_arg4(regs)		((regs)->r8)
#define regs_arg5(regs)		((regs)->r9)
#define regs_place(regs)	((regs)->ip)
#define TIMER_CONTEXT_REGS	21
#define TS_COMPAT		0x0002
#define call_is_foreign(task, regs) ((void)(regs), (task)->thread_info.status & TS_COMPAT)
#elif defined(__TARGET_ARCH_arm64)
#define regs_syscall(regs)	((long)(regs)->syscallno)
#define regs_arg0(regs)		((regs)->orig_x0)
#define regs_arg1(regs)		((regs)->regs[1])
#define regs_arg2(regs)		((regs)->regs[2])
#define regs_arg3(regs)		((regs)->regs[3])
#define regs_arg4(regs)		((regs)->regs[4])
#define regs_arg5(regs)		((regs)->regs[5])
#define regs_place(regs)	((regs)->pc)
#define TIMER_CONTEXT_REGS	34
#define PSR_MODE32_BIT		0x0010
#define call_is_foreign(task, regs) ((void)(task), (regs)->pstate & PSR_MODE32_BIT)
#endif

/* setuid, setreuid and setresuid, of 16 bits and of 32, as i386 and 32-bit Arm number them. */
#define foreign_call_sets_uid(nr) ((nr) == 23 || (nr) == 70 || (nr) == 164 || \
				   (nr) == 203 || (nr) == 208 || (nr) == 213)

#define PF_EXITING		0x00000004
#define PF_KTHREAD		0x00200000
#define PF_NO_CALLS		(PF_KTHREAD | 0x00000010 | 0x00004000)	/* workers of io_uring, of vhost */
#define TASK_REPORT		0x007f	/* the bits of a state that tracefs and /proc show */
#define TASK_REPORT_IDLE	0x0080	/* as tracefs: sleeps, and is no load */
#define TASK_REPORT_MAX		0x0100	/* as tracefs: was preempted */
#define TASK_IDLE		0x0402

#define PAGE_SHIFT		12
#define VM_EXEC			0x00000004
#define place_is_kernel(ip)	((__s64)(ip) < 0)	/* the upper half, on x86 and on Arm */

#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define read_once(x)		(*(volatile typeof(x) *)&(x))
#define write_once(x, v)	(*(volatile typeof(x) *)&(x) = (v))
#define inlined			static __attribute__((always_inline)) inline
#define outlined		static __attribute__((noinline))

/*
 * What stands before is seen by other CPUs before what stands behind, loads and stores alike, but for a
 * store and a later load on x86. That keeps these in order by itself. BPF has no barrier; an atomic that
 * returns what was there is one on Arm (CASAL, SWPAL, LDADDAL), wherever it points: here at our own stack. One
 * that returns nothing (STADD) is not. tests/model/arm has the litmus tests.
 */
inlined void ordered(void)
{
#if !defined(__TARGET_ARCH_x86)
	__u64 here = 0, *at = &here;

	barrier_var(at);
	here = __sync_fetch_and_add(at, 1);
	barrier_var(here);
#endif
	barrier();
}

/*
 * The verifier goes through a static function again for every state that any caller calls it in,
 * and through a global one once. So what is long and seldom run is global where it can be: it takes
 * numbers and pointers to plain memory (which may be NULL for all the verifier knows) and returns a
 * number. A context or a task_struct it can not be given by the oldest kernels that we load on; the
 * address of a task it finds in memory, as struct context has it.
 *
 * A loop it goes through as often as it turns, unless its body is the callback of bpf_loop() and all
 * that changes from turn to turn is in a map. What that comes to is bounded by tests/bpf/test_verifier.c.
 */
#define verified_once		__attribute__((noinline))

#endif
