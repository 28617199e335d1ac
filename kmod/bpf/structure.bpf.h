/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * structure: what system calls are given or fill in that is neither a string nor a buffer, as attachments:
 * RT_ATTACH_STRUCTURE. It is copied as it is; the daemon makes text of it.
 */
#ifndef RINGTAIL_BPF_STRUCTURE_H
#define RINGTAIL_BPF_STRUCTURE_H

#include "attach.bpf.h"
#include "file.bpf.h"

#define STRUCTURE_BYTES		(sizeof(struct rt_attachment) + sizeof(struct rt_structure) + \
				 RT_STRUCTURE_BYTES_MAX)
#define STRUCTURE_MSGHDR_BYTES	56
#define STRUCTURE_VECTORS_BYTES	(16 * RT_STRUCTURE_VECTORS)

const volatile __u64 syscall_structures[RT_SYSCALLS_MAX] = {};
const volatile __u32 structure_bytes[RT_STRUCTURE_KINDS] = {};	/* of one, by its kind */

/*
 * The strings of an exec's arguments, as they are at its entry: an attachment that is complete. If one of them is
 * not in memory then, the kernel's copy for the new program is read when the exec has succeeded.
 */
struct structure_argv {
	__u32 bytes;			/* with the heads; 0: there is none */
	__u32 used;			/* of text */
	__u32 count;			/* strings that were seen */
	__u32 faults;			/* not in memory */
	__u64 from, upto;		/* the caller's list; of the new program the texts, one behind the other */
	__u64 attachment, structure;	/* as struct rt_attachment and rt_structure */
	__u8 text[2 * RT_STRUCTURE_ARGV_BYTES];	/* the verifier wants the slack */
};

inlined __u64 syscall_structure_words(__u64 nr)
{
	return syscall_structures[nr & (RT_SYSCALLS_MAX - 1)];
}

inlined void structure_end(struct attach *attach, __u32 word, __u32 count, __u32 bytes)
{
	struct rt_structure *to = (void *)attach_place(attach)->data;

	to->kind = structure_kind(word);
	to->count = count;
	bytes += sizeof(*to);
	attach_trim(attach, bytes & 0xff);
	attach_end(attach, RT_ATTACH_STRUCTURE, word & STRUCTURE_ARG, bytes);
}

/* None of them is wider than an int, where the kernel takes it. */
inlined __u64 structure_count(const struct attach_args *args, __u32 word, __s64 result)
{
	__u32 which = word >> STRUCTURE_COUNT_SHIFT & 7;

	if (which == STRUCTURE_COUNT_ONE)
		return 1;
	return which == STRUCTURE_COUNT_RESULT ? result : (__s32)file_arg(args, which);
}

/* A vector begins at `from`, and has `count` parts; `at` is its place in the attachment. */
inlined long structure_read_vector(__u8 *to, __u64 from, __u64 count, __u64 filled, __u32 *bytes)
{
	__u64 *part = (__u64 *)to;
	__u64 length;
	long err;

	__builtin_memset(to, 0, STRUCTURE_VECTORS_BYTES);
	*bytes = STRUCTURE_VECTORS_BYTES;
	if (!count || !from)
		return 0;
	err = bpf_probe_read_user(to, count > 1 ? STRUCTURE_VECTORS_BYTES : 16, (const void *)from);
	length = part[1] < filled ? part[1] : filled;
	if (err || !length)
		return err;
	if (length > RT_STRUCTURE_VECTOR_BYTES_MAX)
		length = RT_STRUCTURE_VECTOR_BYTES_MAX;
	*bytes += length;
	return bpf_probe_read_user(to + STRUCTURE_VECTORS_BYTES, length & 0x7f, (const void *)part[0]);
}

/* Returns 1 if it could not be had. */
verified_once __u32 attach_vector(struct attach *attach, const struct attach_args *args, __u32 word,
				  __s64 result)
{
	__u64 filled = word & STRUCTURE_FILLED ? result : RT_STRUCTURE_VECTOR_BYTES_MAX;
	__u64 address, count;
	__u32 bytes, head = 0;
	__u8 *to;

	if (!attach || !args || (word & STRUCTURE_FILLED && result < 0))
		return 0;
	address = file_arg(args, word & STRUCTURE_ARG);
	if (!address)
		return 0;
	if (!attach_has_room(attach, STRUCTURE_BYTES))
		return 1;
	to = attach_place(attach)->data + sizeof(struct rt_structure);
	if (structure_kind(word) == RT_STRUCTURE_MSGHDR) {
		if (bpf_probe_read_user(to, STRUCTURE_MSGHDR_BYTES, (const void *)address))
			return 1;
		address = ((__u64 *)to)[2];
		count = ((__u64 *)to)[3];
		to += STRUCTURE_MSGHDR_BYTES;
		head = STRUCTURE_MSGHDR_BYTES;
	} else {
		count = structure_count(args, word, result);
	}
	if (structure_read_vector(to, address, count, filled, &bytes))
		return 1;
	structure_end(attach, word, count, head + bytes);
	return 0;
}

/* Returns 1 if it could not be had. */
verified_once __u32 attach_structure(struct attach *attach, const struct attach_args *args, __u32 word,
				     __s64 result)
{
	__u64 bytes = structure_kind(word) < RT_STRUCTURE_KINDS ? structure_bytes[structure_kind(word)] : 0;
	__u64 address, count;
	__u8 *to;

	if (!attach || !args || (word & STRUCTURE_FILLED && result < 0) ||
	    (word & STRUCTURE_OF_CHILD && !result))
		return 0;
	if (word & STRUCTURE_OF_FUTEX && !(STRUCTURE_FUTEX_TIMED >> (args->arg[1] & 31) & 1))
		return 0;
	address = file_arg(args, word & STRUCTURE_ARG);
	count = structure_count(args, word, result);
	if (!address || (__s64)count <= 0)
		return 0;
	if (structure_kind(word) == RT_STRUCTURE_FDSET)
		bytes = count > 8 * RT_STRUCTURE_BYTES_MAX ? RT_STRUCTURE_BYTES_MAX :
							     (count + 63) / 64 * 8;
	else
		bytes = count > RT_STRUCTURE_BYTES_MAX ? RT_STRUCTURE_BYTES_MAX : count * bytes;
	if (bytes > RT_STRUCTURE_BYTES_MAX)
		bytes = RT_STRUCTURE_BYTES_MAX;
	if (!attach_has_room(attach, STRUCTURE_BYTES))
		return 1;
	to = attach_place(attach)->data + sizeof(struct rt_structure);
	if (bpf_probe_read_user(to, bytes & 0xff, (const void *)address))
		return 1;
	structure_end(attach, word, count, bytes);
	return 0;
}

/* Returns 1 if it could not be had. */
verified_once __u32 attach_wanted(struct attach *attach, const struct attach_args *args, __u32 flags,
				  __u32 word, __s64 result)
{
	__u32 kind = structure_kind(word);

	if (kind == RT_STRUCTURE_IOVEC || kind == RT_STRUCTURE_MSGHDR)
		return flags & RT_FLAG_DATA ? attach_vector(attach, args, word, result) : 0;
	return kind && flags & REQUEST_STRUCTURES ? attach_structure(attach, args, word, result) : 0;
}

inlined void structure_count_faults(__u32 faults)
{
	struct ring ring;

	if (faults && ring_of_this_cpu(&ring))
		__sync_fetch_and_add(&ring.producer->faults, faults);
}

/* result: of the call. Counts what could not be had. */
verified_once __u32 attach_structures(struct attach *attach, const struct attach_args *args, __u32 flags,
				      __u64 words, __s64 result)
{
	__u32 faults = 0;

	for (int i = 0; i < STRUCTURES_PER_CALL; i++)
		faults += attach_wanted(attach, args, flags, words >> 16 * i & 0xffff, result);
	structure_count_faults(faults);
	return 0;
}

struct structure_saving {
	struct structure_argv *to;
};

/* Where string i is; 0: there is none. */
inlined __u64 structure_string(struct structure_argv *to, __u32 i)
{
	__u64 string = 0;

	if (to->upto)
		return to->from < to->upto ? to->from : 0;
	if (bpf_probe_read_user(&string, sizeof(string), (const void *)(to->from + 8 * i)))
		to->faults = 1;
	return string;
}

/* One string of the list. 1: it was the last that there is, or that there is room for. */
static long structure_save_string(__u32 i, struct structure_saving *saving)
{
	struct structure_argv *to = saving->to;
	__u64 string;
	long bytes;

	if (!to)
		return 1;
	string = structure_string(to, i);
	if (!string)
		return 1;
	to->count = i + 1;
	if (i >= RT_STRUCTURE_ARGV_MAX || to->used >= RT_STRUCTURE_ARGV_BYTES)
		return 1;
	bytes = bpf_probe_read_user_str(to->text + (to->used & (RT_STRUCTURE_ARGV_BYTES - 1)),
					RT_STRUCTURE_ARGV_BYTES, (const void *)string);
	if (bytes <= 0) {
		to->faults = 1;
		return 1;
	}
	to->used += bytes;
	to->from += to->upto ? bytes : 0;
	return 0;
}

/* Of the caller's list at argv; with upto, of the texts from argv to there. */
verified_once __u32 structure_save_argv(struct structure_argv *to, __u64 argv, __u64 upto, __u32 arg)
{
	struct structure_saving saving = { .to = to };

	if (!to)
		return 0;
	to->bytes = to->used = to->count = to->faults = 0;
	to->from = argv;
	to->upto = upto;
	if (!argv)
		return 0;
	bpf_loop(RT_STRUCTURE_ARGV_MAX + 1, structure_save_string, &saving, 0);
	if (to->faults)
		return 0;
	if (to->used > RT_STRUCTURE_ARGV_BYTES)
		to->used = RT_STRUCTURE_ARGV_BYTES;
	to->attachment = RT_ATTACH_STRUCTURE | arg << 16 | (__u64)(sizeof(to->structure) + to->used) << 32;
	to->structure = RT_STRUCTURE_ARGV | (__u64)to->count << 32;
	to->bytes = sizeof(to->attachment) + sizeof(to->structure) + ((to->used + 7) & ~7u);
	return 0;
}

/* Returns 0. */
verified_once __u32 structure_append_argv(struct attach *attach, const struct structure_argv *argv)
{
	__u32 bytes;

	if (!attach || !argv)
		return 0;
	bytes = argv->bytes & 0xff;
	if (!bytes || !attach_has_room(attach, STRUCTURE_BYTES))
		return 0;
	bpf_probe_read_kernel(attach_place(attach), bytes, &argv->attachment);
	attach->bytes += bytes;
	return 0;
}

#endif
