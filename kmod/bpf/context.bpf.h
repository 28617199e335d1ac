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

const volatile bool cgroups_v1 = false;	/* hierarchies of version 1 are there */

/* One component, or over the edge of a mount. 1: there is no more. */
static long context_exe_step(__u32 i, struct text_place **of)
{
	struct text_place *place = *of;
	struct dentry *dentry = (void *)place->walk.at;
	struct mount *mount = (void *)place->walk.mount, *above;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

	if ((__u64)dentry == place->walk.root) {
		above = BPF_CORE_READ(mount, mnt_parent);
		if (!above || above == mount) {
			place->whole = !!above;
			return 1;
		}
		place->walk.at = (__u64)BPF_CORE_READ(mount, mnt_mountpoint);
		place->walk.root = (__u64)BPF_CORE_READ(above, mnt.mnt_root);
		place->walk.mount = (__u64)above;
		return 0;
	}
	if (!parent || !text_add_name(place, BPF_CORE_READ(dentry, d_name.name),
				      BPF_CORE_READ(dentry, d_name.hash_len)))
		return 1;
	place->walk.at = (__u64)parent;
	/* A file that never had a directory (a memfd) is its own parent. */
	place->whole = parent == dentry;
	return parent == dentry;
}

/* From the file up to the root of its mount namespace, or of the last mount that is left. */
inlined void context_gather_exe(struct text_place *place, struct file *exe_file)
{
	struct vfsmount *mount = BPF_CORE_READ(exe_file, f_path.mnt);

	place->walk.at = (__u64)BPF_CORE_READ(exe_file, f_path.dentry);
	place->walk.root = (__u64)BPF_CORE_READ(mount, mnt_root);
	place->walk.mount = (__u64)mount - bpf_core_field_offset(struct mount, mnt);
	bpf_loop(CONTEXT_LEVELS_MAX, context_exe_step, &place, 0);
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

static long context_cgroup_step(__u32 i, struct text_place **of)
{
	struct text_place *place = *of;
	struct kernfs_node *node = (void *)place->walk.at, *parent = context_parent(node);

	if (!parent) {
		place->whole = 1;
		return 1;
	}
	if (!text_add_name(place, BPF_CORE_READ(node, name), 0))
		return 1;
	place->walk.at = (__u64)parent;
	return 0;
}

/* Adds the path of one cgroup. */
inlined void context_append_cgroup(struct text_place *place, struct kernfs_node *node)
{
	__u64 id = place->id;

	place->names = 0;
	place->whole = 0;
	place->walk.at = (__u64)node;
	bpf_loop(TEXT_NAMES_MAX + 1, context_cgroup_step, &place, 0);
	place->id = id;
	text_append_names(place);
}

struct context_gathering {
	struct text_place *place;
	struct css_set *set;
	struct cgroup *unified;
};

/* Hierarchies of version 1 mostly have one tree of names: of those with one name, the first. */
inlined void context_add_cgroup(struct text_place *place, struct cgroup *cgroup)
{
	struct kernfs_node *node = BPF_CORE_READ(cgroup, kn);
	__u32 hash = BPF_CORE_READ(node, hash), i = place->walk.cgroups;

	for (int k = 0; k < RT_TEXT_CGROUPS_MAX; k++)
		if (k < i && place->walk.hash[k] == hash)
			return;
	if (i >= RT_TEXT_CGROUPS_MAX)
		return;
	place->walk.hash[i & (RT_TEXT_CGROUPS_MAX - 1)] = hash;
	place->walk.cgroup[i & (RT_TEXT_CGROUPS_MAX - 1)] = (__u64)node;
	place->walk.cgroups = i + 1;
	place->id = (place->id ^ BPF_CORE_READ(node, id)) * 0x9e3779b97f4a7c15ULL;
}

/* 0 is the unified hierarchy, i the controller i - 1. */
static long context_gather_step(__u32 i, struct context_gathering *gathering)
{
	void *subsys = (void *)gathering->set + bpf_core_field_offset(struct css_set, subsys);
	struct cgroup *cgroup = gathering->unified;
	struct cgroup_subsys_state *state = NULL;

	if (i) {
		bpf_probe_read_kernel(&state, sizeof(state), subsys + (i - 1) * sizeof(state));
		cgroup = BPF_CORE_READ(state, cgroup);
		if (cgroup == gathering->unified)
			return 0;
	}
	if (!cgroups_v1 || BPF_CORE_READ(cgroup, level) > 0)
		context_add_cgroup(gathering->place, cgroup);
	return 0;
}

/* Finds the cgroups that are worth telling, and makes the id of them. */
inlined void context_gather_cgroups(struct text_place *place, struct css_set *set)
{
	struct context_gathering gathering = {
		.place = place,
		.set = set,
		.unified = BPF_CORE_READ(set, dfl_cgrp),
	};
	__u32 controllers = 0;

	if (cgroups_v1)
		controllers = bpf_core_enum_value(enum cgroup_subsys_id, CGROUP_SUBSYS_COUNT);
	if (controllers > CONTEXT_CONTROLLERS_MAX)
		controllers = CONTEXT_CONTROLLERS_MAX;
	place->id = CONTEXT_SEED;
	place->walk.cgroups = 0;
	bpf_loop(1 + controllers, context_gather_step, &gathering, 0);
	place->id = (place->id ^ place->id >> 29) & ~RT_TEXT_EXE;
}

inlined void context_append_cgroups(struct text_place *place)
{
	__u32 cgroups = place->walk.cgroups;

	if (!cgroups_v1) {
		context_append_cgroup(place, (void *)place->walk.cgroup[0]);
		return;
	}
	for (int i = 0; i < RT_TEXT_CGROUPS_MAX; i++) {
		if (i >= cgroups)
			break;
		context_append_cgroup(place, (void *)place->walk.cgroup[i]);
		place->text.data[place->text.bytes & TEXT_MASK] = '\n';
		place->text.bytes++;
	}
	if (!cgroups)
		context_append_cgroup(place, NULL);
}

/* The text of a css_set's cgroups; 0: there is none. */
verified_once __u64 context_cgroup(__u64 set)
{
	struct text_place *place = set ? text_begin() : NULL;
	__u64 id;

	if (!place)
		return 0;
	context_gather_cgroups(place, (struct css_set *)set);
	id = place->id;
	if (!bpf_map_lookup_elem(&texts, &id)) {
		context_append_cgroups(place);
		if (!text_keep(place))
			id = 0;
	}
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
	if (thread && read_once(thread->found) == version) {
		ordered();
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
	ordered();
	write_once(thread->found, version);
	return true;
}

#endif
