/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat: what changed in the kernel's interfaces from 6.1 to 6.18, and only that.
 */
#ifndef RT_COMPAT_H
#define RT_COMPAT_H

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "ringtail.ko needs Linux 6.1 or later; the BPF source serves older kernels"
#endif
#ifndef CONFIG_HAVE_SYSCALL_TRACEPOINTS
#error "ringtail.ko needs CONFIG_HAVE_SYSCALL_TRACEPOINTS"
#endif
#ifndef CONFIG_TRACEPOINTS
#error "ringtail.ko needs CONFIG_TRACEPOINTS"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

static inline void rt_eventfd_signal(struct eventfd_ctx *eventfd)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
	eventfd_signal(eventfd, 1);
#else
	eventfd_signal(eventfd);
#endif
}

static inline void rt_hrtimer_setup(struct hrtimer *timer,
				    enum hrtimer_restart (*function)(struct hrtimer *),
				    clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#else
	hrtimer_setup(timer, function, clock, mode);
#endif
}

#endif
