/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * file: what file descriptors stand for, and what buffers hold, as attachments: RT_ATTACH_FILE, DATA.
 *
 * A descriptor is looked up in the table of the thread that makes the call, at that moment: nothing is
 * remembered of earlier calls, so nothing can be out of date. Another thread of the process may close
 * it meanwhile; then it is that file, another, or none. What a call closes is looked at as it begins.
 */
#ifndef RINGTAIL_BPF_FILE_H
#define RINGTAIL_BPF_FILE_H

#include "attach.bpf.h"
#include "context.bpf.h"

#define FILE_BYTES_MAX		(RT_FILE_HEAD_BYTES + RT_FILE_PATH_BYTES_MAX)
#define FILE_TYPE_MASK		0xf000
#define FILE_IS_SOCKET		0xc000
#define FILE_INET		2
#define FILE_INET6		10

const volatile __u32 syscall_looks[RT_SYSCALLS_MAX] = {};

inlined __u32 syscall_look(__u64 nr)
{
	return syscall_looks[nr & (RT_SYSCALLS_MAX - 1)];
}

/* As a number; 0: there is none. */
inlined __u64 file_of(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	__u64 file = 0;

	if (!files || fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

inlined __u16 file_swap(__u16 port)
{
	return port << 8 | port >> 8;
}

/* Returns how many bytes there are of it. */
inlined __u32 file_put_socket(struct rt_file *to, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);
	struct rt_socket *end = &to->socket;

	__builtin_memset(end, 0, sizeof(*end));
	end->type = BPF_CORE_READ(socket, type);
	end->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (end->family == FILE_INET) {
		*(__u32 *)end->local = BPF_CORE_READ(sock, __sk_common.skc_rcv_saddr);
		*(__u32 *)end->peer = BPF_CORE_READ(sock, __sk_common.skc_daddr);
	} else if (end->family == FILE_INET6) {
		BPF_CORE_READ_INTO(&end->local, sock, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&end->peer, sock, __sk_common.skc_v6_daddr);
	} else {
		return RT_FILE_HEAD_BYTES + sizeof(*end);
	}
	end->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
	end->peer_port = file_swap(BPF_CORE_READ(sock, __sk_common.skc_dport));
	return RT_FILE_HEAD_BYTES + sizeof(*end);
}

inlined __u32 file_put_path(struct rt_file *to, struct file *file)
{
	struct text_place *place = text_begin();
	__u32 bytes;

	if (!place)
		return RT_FILE_HEAD_BYTES;
	context_gather_exe(place, file);
	text_append_names(place);
	bytes = place->text.bytes;
	if (bytes > RT_FILE_PATH_BYTES_MAX)
		bytes = RT_FILE_PATH_BYTES_MAX;
	bpf_probe_read_kernel(to->path, bytes & 0xff, place->text.data);
	text_end(place);
	return RT_FILE_HEAD_BYTES + bytes;
}

/* Nothing where there is no such descriptor. */
verified_once __u32 attach_file(struct attach *attach, __u32 arg, __u32 fd)
{
	struct rt_file *to;
	struct dentry *dentry;
	struct file *file;
	__u32 bytes;

	if (!attach || !attach_has_room(attach, sizeof(struct rt_attachment) + FILE_BYTES_MAX))
		return 0;
	file = (struct file *)file_of(fd);
	if (!file)
		return 0;
	to = (void *)attach_place(attach)->data;
	dentry = BPF_CORE_READ(file, f_path.dentry);
	to->mode = BPF_CORE_READ(file, f_inode, i_mode);
	to->magic = BPF_CORE_READ(file, f_inode, i_sb, s_magic);
	to->ino = BPF_CORE_READ(file, f_inode, i_ino);
	to->deleted = !BPF_CORE_READ(dentry, d_hash.pprev) && BPF_CORE_READ(dentry, d_parent) != dentry;
	to->zero0 = 0;
	bytes = (to->mode & FILE_TYPE_MASK) == FILE_IS_SOCKET ? file_put_socket(to, file) :
								file_put_path(to, file);
	attach_trim(attach, bytes & 0xff);
	attach_end(attach, RT_ATTACH_FILE, arg, bytes & 0xff);
	return 0;
}

inlined __u64 file_arg(const struct attach_args *args, __u32 which)
{
	barrier_var(which);
	return which < RT_SYSCALL_ARGS_MAX ? args->arg[which] : 0;
}

/* Returns 1 if it could not be had. */
verified_once __u32 attach_data(struct attach *attach, const struct attach_args *args, __u32 look,
				__s64 result)
{
	struct rt_attachment *place;
	__u32 arg = look >> LOOK_ARG_SHIFT & 7;
	__u64 address, bytes;

	if (!attach || !args)
		return 0;
	address = file_arg(args, arg);
	bytes = look & LOOK_FILLED ? result : (__s64)file_arg(args, look >> LOOK_LENGTH_SHIFT & 7);
	if (!address || (__s64)bytes <= 0)
		return 0;
	if (bytes > RT_DATA_BYTES_MAX)
		bytes = RT_DATA_BYTES_MAX;
	place = attach_place(attach);
	if (!attach_has_room(attach, ATTACH_STRING_BYTES) ||
	    bpf_probe_read_user(place->data, bytes & 0xff, (const void *)address))
		return 1;
	attach_trim(attach, bytes & 0xff);
	attach_end(attach, RT_ATTACH_DATA, arg, bytes & 0xff);
	return 0;
}

/* result: of the call; -1 before there is one. Returns how many buffers could not be had. */
verified_once __u32 attach_looks(struct attach *attach, const struct attach_args *args, __u32 flags,
				 __u32 look, __s64 result)
{
	if (!attach || !args)
		return 0;
	if (flags & RT_FLAG_FDS) {
		for (int i = 0; i < RT_SYSCALL_ARGS_MAX; i++)
			if (look & 1u << i)
				attach_file(attach, i, args->arg[i]);
		if (look & LOOK_RESULT && result >= 0)
			attach_file(attach, RT_ATTACH_RESULT, result);
	}
	return flags & RT_FLAG_DATA && look & LOOK_DATA ? attach_data(attach, args, look, result) : 0;
}

#endif
