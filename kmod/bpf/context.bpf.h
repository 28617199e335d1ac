/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * context: what file a thread executes and in which cgroup it is, as texts.
 *
 * Both are looked for when a thread is introduced, and kept with it: only what makes it unknown
 * (exec, a move to another cgroup) can change them. The id of a text is made of what it is read
 * from, so that a path that another thread has already is not put together again. All pointers are
 * followed by helper, as plain numbers: the verifier goes through this once.
 */
#ifndef RINGTAIL_BPF_CONTEXT_H
#define RINGTAIL_BPF_CONTEXT_H

#include "kernel.bpf.h"
#include "text.bpf.h"

#define CONTEXT_LEVELS_MAX	48	/* components and mounts on the way to the root */
#define CONTEXT_CONTROLLERS_MAX	16
#define CONTEXT_SEED		0x243f6a8885a308d3ULL	/* no cgroup's id, which would be taken out of it */

/* Version 1 hierarchies are there, and how many controllers there may be. */
const volatile bool cgroups_v1 = false;
const volatile __u32 cgroup_controllers = 0;

/* From the file up to the root of its mount namespace, or of the last mount that is left. */
inlined void context_gather_exe(struct text_place *place, struct file *exe_file)
{
	struct dentry *dentry = BPF_CORE_READ(exe_file, f_path.dentry);
	struct vfsmount *vfs = BPF_CORE_READ(exe_file, f_path.mnt);
	struct mount *mount = (void *)vfs - bpf_core_field_offset(struct mount, mnt);
	struct dentry *root = BPF_CORE_READ(vfs, mnt_root);

	for (int i = 0; i < CONTEXT_LEVELS_MAX; i++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

		if (dentry == root) {
			struct mount *above = BPF_CORE_READ(mount, mnt_parent);

			if (!above || above == mount)
				return;
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = above;
			root = BPF_CORE_READ(mount, mnt.mnt_root);
			continue;
		}
		if (!parent || !text_add_name(place, BPF_CORE_READ(dentry, d_name.name),
					      BPF_CORE_READ(dentry, d_name.hash_len)))
			return;
		/* A file that never had a directory (a memfd) is its own parent. */
		if (parent == dentry)
			return;
		dentry = parent;
	}
}

/* The text of an executable file's path; 0: there is none. */
verified_once __u64 context_exe(__u64 exe_file)
{
	struct text_place *place = exe_file ? text_begin() : NULL;
	__u64 id = 0;

	if (!place)
		return 0;
	context_gather_exe(place, (struct file *)exe_file);
	if (place->names) {
		place->id |= RT_TEXT_EXE;
		id = place->id;
		if (!bpf_map_lookup_elem(&texts, &id)) {
			text_append_names(place);
			if (!text_keep(place))
				id = 0;
		}
	}
	text_end(place);
	return id;
}

inlined struct kernfs_node *context_parent(struct kernfs_node *node)
{
	struct kernfs_node___since_6_15 *newer = (void *)node;

	if (bpf_core_field_exists(newer->__parent))
		return (void *)BPF_CORE_READ(newer, __parent);
	return BPF_CORE_READ(node, parent);
}

/* Adds the path of one cgroup. */
inlined void context_append_cgroup(struct text_place *place, struct kernfs_node *node)
{
	__u64 id = place->id;

	place->names = 0;
	for (int i = 0; i < TEXT_NAMES_MAX; i++) {
		struct kernfs_node *parent = context_parent(node);

		if (!parent || !text_add_name(place, BPF_CORE_READ(node, name), 0))
			break;
		node = parent;
	}
	place->id = id;
	text_append_names(place);
}

/* The cgroups of a thread that are worth telling. */
struct context_cgroups {
	__u32 count;
	__u64 id;			/* of the text */
	__u64 node[RT_TEXT_CGROUPS_MAX];
	__u32 hash[RT_TEXT_CGROUPS_MAX];	/* of the last component */
};

/* Hierarchies of version 1 mostly have one tree of names: of those with one name, the first. */
inlined void context_add_cgroup(struct context_cgroups *all, struct cgroup *cgroup)
{
	struct kernfs_node *node = BPF_CORE_READ(cgroup, kn);
	__u32 hash = BPF_CORE_READ(node, hash), i = all->count;

	for (int k = 0; k < RT_TEXT_CGROUPS_MAX; k++)
		if (k < i && all->hash[k] == hash)
			return;
	if (i >= RT_TEXT_CGROUPS_MAX)
		return;
	all->hash[i & (RT_TEXT_CGROUPS_MAX - 1)] = hash;
	all->node[i & (RT_TEXT_CGROUPS_MAX - 1)] = (__u64)node;
	all->count = i + 1;
	all->id = (all->id ^ BPF_CORE_READ(node, id)) * 0x9e3779b97f4a7c15ULL;
}

inlined void context_gather_cgroups(struct context_cgroups *all, struct css_set *set)
{
	void *subsys = (void *)set + bpf_core_field_offset(struct css_set, subsys);
	struct cgroup *unified = BPF_CORE_READ(set, dfl_cgrp);

	if (!cgroups_v1 || BPF_CORE_READ(unified, level) > 0)
		context_add_cgroup(all, unified);
	if (!cgroups_v1)
		return;
	for (__u32 i = 0; i < CONTEXT_CONTROLLERS_MAX; i++) {
		struct cgroup_subsys_state *state = NULL;
		struct cgroup *cgroup;

		if (i >= cgroup_controllers)
			return;
		bpf_probe_read_kernel(&state, sizeof(state), subsys + i * sizeof(state));
		cgroup = BPF_CORE_READ(state, cgroup);
		if (cgroup != unified && BPF_CORE_READ(cgroup, level) > 0)
			context_add_cgroup(all, cgroup);
	}
}

inlined void context_append_cgroups(struct text_place *place, const struct context_cgroups *all)
{
	if (!cgroups_v1) {
		context_append_cgroup(place, (void *)all->node[0]);
		return;
	}
	for (int i = 0; i < RT_TEXT_CGROUPS_MAX; i++) {
		if (i >= all->count)
			break;
		context_append_cgroup(place, (void *)all->node[i]);
		place->text.data[place->text.bytes & TEXT_MASK] = '\n';
		place->text.bytes++;
	}
	if (!all->count)
		context_append_cgroup(place, NULL);
}

/* The text of a css_set's cgroups; 0: there is none. */
verified_once __u64 context_cgroup(__u64 set)
{
	struct context_cgroups all = { .id = CONTEXT_SEED };
	struct text_place *place;
	__u64 id;

	if (!set)
		return 0;
	context_gather_cgroups(&all, (struct css_set *)set);
	id = (all.id ^ all.id >> 29) & ~RT_TEXT_EXE;
	if (bpf_map_lookup_elem(&texts, &id))
		return id;
	place = text_begin();
	if (!place)
		return 0;
	place->id = id;
	context_append_cgroups(place, &all);
	if (!text_keep(place))
		id = 0;
	text_end(place);
	return id;
}

struct context {
	__u64 task;		/* whose it is to be; as a number, see verified_once */
	__u64 exe, cgroup;
	__u64 bare;		/* one of them should be there and is not */
};

inlined __u64 context_version(const struct bpf_thread *thread)
{
	return (read_once(thread->known[0]) >> 32) + 1;
}

/* What the thread's slot still says of it after its exit. */
inlined void context_remembered(struct task_struct *task, const struct bpf_thread *slot,
				struct context *context)
{
	if (slot->found && slot->found_task == (__u64)task &&
	    slot->found_start_ns == BPF_CORE_READ(task, start_time))
		context->exe = slot->exe;
}

inlined void context_look(struct task_struct *task, const struct bpf_thread *slot,
			  struct context *context)
{
	struct file *exe_file = BPF_CORE_READ(task, mm, exe_file);

	context->cgroup = context_cgroup((__u64)BPF_CORE_READ(task, cgroups));
	if (exe_file)
		context->exe = context_exe((__u64)exe_file);
	else
		context_remembered(task, slot, context);
	context->bare = !context->cgroup ||
			(!context->exe && !(BPF_CORE_READ(task, flags) & PF_KTHREAD));
}

/* `slot`: that of its tid, whose memory it may be; `thread`: its memory, or NULL. */
verified_once bool context_find(const struct bpf_thread *slot, struct bpf_thread *thread,
				struct context *context)
{
	__u64 version = thread ? context_version(thread) : 0, task;

	if (!slot || !context)
		return false;
	task = context->task;
	context->bare = false;
	if (thread && thread->found == version) {
		context->exe = thread->exe;
		context->cgroup = thread->cgroup;
		return true;
	}
	context_look((struct task_struct *)task, slot, context);
	if (!thread || context->bare || context_version(thread) != version)
		return true;
	thread->exe = context->exe;
	thread->cgroup = context->cgroup;
	thread->found_task = task;
	thread->found_start_ns = BPF_CORE_READ((struct task_struct *)task, start_time);
	barrier();
	write_once(thread->found, version);
	return true;
}

#endif
