/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attach: stacks and strings that go with an event, gathered before its place is reserved, since a
 * record's length must be known then.
 *
 * They are gathered in scratch space of this CPU, one piece for each context that may nest. Any
 * context, preemption off.
 */
#ifndef RT_ATTACH_H
#define RT_ATTACH_H

#include <linux/types.h>

#include "kmod/uapi/ringtail.h"

struct pt_regs;
struct rt_ring;

/* Stacks of 32 frames, and as many strings as a system call has, of 128 bytes. */
#define RT_ATTACH_STRINGS_MAX	4
#define RT_ATTACH_WORDS_MAX	(2 * (1 + RT_STACK_FRAMES_MAX) + \
				 RT_ATTACH_STRINGS_MAX * (1 + RT_STRING_BYTES_MAX / 8))

/* A text that the event names, in user space or in the kernel. */
struct rt_attach_text {
	const char __user *user;
	const char *kernel;	/* if not NULL, this one */
	u32 arg;		/* index of the argument, or the field, that it belongs to */
};

struct rt_attach_extra {
	u32 always;		/* flags to act on whatever was asked for */
	struct pt_regs *regs;	/* the kernel stack begins there, not here; may be NULL */
	u32 texts;
	struct rt_attach_text text[RT_ATTACH_STRINGS_MAX];
};

struct rt_attachments {
	u32 words;
	u64 word[RT_ATTACH_WORDS_MAX];
};

/* NULL where more contexts nest than there is space for. */
struct rt_attachments *rt_attach_take(u32 flags, struct rt_ring *ring,
				      const struct rt_attach_extra *extra);
/* In reverse order of taking; NULL is safe. */
void rt_attach_give_back(struct rt_attachments *attachments);

int rt_attach_init(void);
void rt_attach_fini(void);

#endif
