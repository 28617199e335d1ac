/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * arch: what differs between processors, and only that.
 *
 * RT_ARCH_KPROBE_BYTES_MAX: how far a kprobe's address may lie before the one that its trap returns to.
 */
#ifndef RT_ARCH_H
#define RT_ARCH_H

#include <linux/sched.h>
#include <linux/types.h>
#include <linux/version.h>
#include <asm/ptrace.h>

#if defined(CONFIG_X86_64)

#define RT_ARCH_KPROBE_BYTES_MAX 15

static inline u64 rt_arch_frame_pointer(const struct pt_regs *regs)
{
	return regs->bp;
}

static inline bool rt_arch_is_64bit(const struct pt_regs *regs)
{
	return user_64bit_mode((struct pt_regs *)regs);
}

static inline u64 rt_arch_return_address(u64 address)
{
	return address;
}

static inline u64 rt_arch_sixth_argument(const struct pt_regs *regs)
{
	return regs->r9;
}

#elif defined(CONFIG_ARM64)

#include <asm/pointer_auth.h>

#define RT_ARCH_KPROBE_BYTES_MAX 4

static inline u64 rt_arch_frame_pointer(const struct pt_regs *regs)
{
	return regs->regs[29];
}

static inline bool rt_arch_is_64bit(const struct pt_regs *regs)
{
	return !compat_user_mode(regs);
}

/* A program may have signed it. */
static inline u64 rt_arch_return_address(u64 address)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return ptrauth_strip_insn_pac(address);
#else
	return ptrauth_strip_user_insn_pac(address);
#endif
}

static inline u64 rt_arch_sixth_argument(const struct pt_regs *regs)
{
	return regs->regs[5];
}

#else
#error "ringtail.ko knows the registers of x86-64 and arm64 only"
#endif

#endif
