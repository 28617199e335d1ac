/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * provider_kprobe: entries and returns of kernel functions, where the kernel has kprobes.
 */
#ifndef RT_PROVIDER_KPROBE_H
#define RT_PROVIDER_KPROBE_H

#include <linux/types.h>

struct rt_consumer;
struct rt_plan;

/*
 * All under the consumer's lock; may sleep.
 *
 * Gives the function a probe id, the same again for the same function. -EOPNOTSUPP without kprobes,
 * -ENOSPC when all slots are taken; whether it can be probed is found out when it is enabled.
 */
int rt_kprobe_add(struct rt_consumer *consumer, const char *function, bool on_return, u32 *probe);

/* Whether an id was given. */
bool rt_kprobe_exists(const struct rt_consumer *consumer, u32 probe);

/* Brings what is attached to what the plan wants; NULL: nothing. */
int rt_kprobe_update(struct rt_consumer *consumer, const struct rt_plan *plan);

/* Returns that could not be caught. */
u64 rt_kprobe_missed(const struct rt_consumer *consumer);

/* Nothing is attached any more. */
void rt_kprobe_free(struct rt_consumer *consumer);

#endif
