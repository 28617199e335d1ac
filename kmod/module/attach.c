// SPDX-License-Identifier: GPL-2.0-only
/*
 * attach: see attach.h.
 */
#include "attach.h"

#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/ptrace.h>

#include "arch.h"
#include "compat.h"
#include "ring.h"

/* Thread, soft interrupt, interrupt, NMI. */
#define CONTEXTS 4
/* Frames before those that are asked for: an interrupt's, or this module's own. */
#define INTERRUPT_FRAMES 32
#define OWN_FRAMES_MAX 8

struct scratch {
	u32 taken;
	struct rt_attachments attachments[CONTEXTS];
	unsigned long frame[CONTEXTS][INTERRUPT_FRAMES + RT_STACK_FRAMES_MAX];
};

static struct scratch __percpu *scratch;

static_assert(3 + 2 + RT_SYSCALL_ARGS_MAX + RT_ATTACH_WORDS_MAX <= RT_RECORD_WORDS_MAX);

static struct rt_attachment *begin_attachment(struct rt_attachments *to,
					      enum rt_attachment_kind kind, u32 arg)
{
	struct rt_attachment *attachment = (struct rt_attachment *)&to->word[to->words];

	attachment->kind = kind;
	attachment->arg = arg;
	return attachment;
}

static void close_attachment(struct rt_attachments *to, struct rt_attachment *attachment, u32 bytes)
{
	u32 padded = ALIGN(bytes, 8);

	attachment->bytes = bytes;
	memset(attachment->data + bytes, 0, padded - bytes);
	to->words += 1 + padded / 8;
}

/*
 * Where an interrupt or a kprobe came in: frames before it are its own. A kprobe's address may be
 * some bytes before the one that it returns to.
 */
static u32 skip_interrupt(const unsigned long *frame, u32 frames, struct pt_regs *regs)
{
	u32 i;

	for (i = 0; i < frames; i++)
		if (frame[i] - instruction_pointer(regs) <= RT_ARCH_KPROBE_BYTES_MAX)
			return i;
	return 0;
}

/* The compiler decides how many functions of this module lie above the tracepoint. */
static u32 skip_module(const unsigned long *frame, u32 frames)
{
	u32 i = 0;

	while (i < frames && within_module(frame[i], THIS_MODULE))
		i++;
	return i;
}

static noinline void add_kernel_stack(struct rt_attachments *to, unsigned long *frame,
				      struct pt_regs *regs)
{
	struct rt_attachment *attachment = begin_attachment(to, RT_ATTACH_KSTACK, 0);
	u32 room = RT_STACK_FRAMES_MAX + (regs ? INTERRUPT_FRAMES : OWN_FRAMES_MAX);
	u32 frames = stack_trace_save(frame, room, 0);
	u32 first = regs ? skip_interrupt(frame, frames, regs) : skip_module(frame, frames);
	u64 *out = (u64 *)attachment->data;
	u32 i, count = min_t(u32, frames - first, RT_STACK_FRAMES_MAX);

	for (i = 0; i < count; i++)
		out[i] = frame[first + i];
	close_attachment(to, attachment, count * sizeof(u64));
}

/*
 * User space is walked by frame pointers, from where it entered the kernel. A frame is believed if
 * it lies above the last one; memory that is not there ends the walk.
 */
static u32 walk_user(struct pt_regs *regs, u64 *out)
{
	struct {
		u64 next;
		u64 return_address;
	} frame;
	u64 at = rt_arch_frame_pointer(regs);
	u32 count = 0;

	out[count++] = instruction_pointer(regs);
	while (count < RT_STACK_FRAMES_MAX && at && !(at & 7) && access_ok((void __user *)at, 16)) {
		if (copy_from_user_nofault(&frame, (const void __user *)at, sizeof(frame)))
			break;
		if (!frame.return_address)
			break;
		out[count++] = rt_arch_return_address(frame.return_address);
		if (frame.next <= at)
			break;
		at = frame.next;
	}
	return count;
}

static void add_user_stack(struct rt_attachments *to)
{
	struct pt_regs *regs = task_pt_regs(current);
	struct rt_attachment *attachment;

	if (!current->mm || current->flags & PF_KTHREAD || !rt_arch_is_64bit(regs))
		return;
	attachment = begin_attachment(to, RT_ATTACH_USTACK, 0);
	close_attachment(to, attachment, walk_user(regs, (u64 *)attachment->data) * sizeof(u64));
}

/*
 * Page by page, since what lies behind the text's end may not be there. What is paged out is not
 * fetched: that may sleep. -EFAULT where not even the first page is there.
 */
static int copy_user_text(char *to, const char __user *from)
{
	u32 bytes = 0;

	while (bytes < RT_STRING_BYTES_MAX) {
		u32 in_page = PAGE_SIZE - offset_in_page(from + bytes);
		u32 n = min_t(u32, RT_STRING_BYTES_MAX - bytes, in_page);
		u32 length;

		if (copy_from_user_nofault(to + bytes, from + bytes, n))
			return bytes ? bytes : -EFAULT;
		length = strnlen(to + bytes, n);
		bytes += length;
		if (length < n)
			break;
	}
	return bytes;
}

static void add_text(struct rt_attachments *to, const struct rt_attach_text *text,
		     struct rt_ring *ring)
{
	struct rt_attachment *attachment = begin_attachment(to, RT_ATTACH_STRING, text->arg);
	char *out = (char *)attachment->data;
	int bytes;

	if (text->kernel) {
		bytes = strnlen(text->kernel, RT_STRING_BYTES_MAX);
		memcpy(out, text->kernel, bytes);
	} else {
		/* A NULL is no text, and no fault either. */
		if (!text->user)
			return;
		bytes = copy_user_text(out, text->user);
	}
	if (bytes < 0) {
		rt_ring_count(&ring->page->faults);
		return;
	}
	close_attachment(to, attachment, bytes);
}

noinline struct rt_attachments *rt_attach_take(u32 flags, struct rt_ring *ring,
					       const struct rt_attach_extra *extra)
{
	struct scratch *mine = this_cpu_ptr(scratch);
	struct rt_attachments *attachments;
	u32 i, level = mine->taken;

	if (level >= CONTEXTS)
		return NULL;
	WRITE_ONCE(mine->taken, level + 1);
	barrier();
	attachments = &mine->attachments[level];
	attachments->words = 0;
	if (flags & RT_FLAG_STRINGS && extra)
		for (i = 0; i < extra->texts; i++)
			add_text(attachments, &extra->text[i], ring);
	if (flags & RT_FLAG_KSTACK)
		add_kernel_stack(attachments, mine->frame[level], extra ? extra->regs : NULL);
	if (flags & RT_FLAG_USTACK)
		add_user_stack(attachments);
	return attachments;
}

void rt_attach_give_back(struct rt_attachments *attachments)
{
	struct scratch *mine = this_cpu_ptr(scratch);

	if (!attachments)
		return;
	barrier();
	WRITE_ONCE(mine->taken, mine->taken - 1);
}

int __init rt_attach_init(void)
{
	scratch = alloc_percpu(struct scratch);
	return scratch ? 0 : -ENOMEM;
}

void rt_attach_fini(void)
{
	free_percpu(scratch);
}
