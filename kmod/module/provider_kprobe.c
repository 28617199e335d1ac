// SPDX-License-Identifier: GPL-2.0-only
/*
 * provider_kprobe: see provider_kprobe.h. The kernel's own list says which functions may not be
 * probed, and it lets go of those of a module that is unloaded.
 */
#include "provider_kprobe.h"

#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/ptrace.h>

#include "consumer.h"
#include "emit.h"

#ifdef CONFIG_KPROBES

#define ARGS 6			/* that come in registers */
#define RETURNS_PER_CPU 16	/* calls of one function that may be under way */

struct slot {
	bool used, attached;
	char function[64];
	struct kprobe kprobe;		/* entry */
	struct kretprobe kretprobe;	/* return */
	struct rt_consumer *consumer;
	u32 probe;
};

struct rt_kprobes {
	struct slot entry[RT_KPROBES_MAX];
	struct slot ret[RT_KPROBES_MAX];
	u64 missed;			/* of those that are detached */
};

static int on_entry(struct kprobe *kprobe, struct pt_regs *regs)
{
	struct slot *slot = container_of(kprobe, struct slot, kprobe);
	struct rt_attach_extra extra = {.regs = regs};
	struct rt_emit emit;
	u32 i;

	if (!rt_emit_begin(&emit, slot->consumer, slot->probe, ARGS, &extra))
		return 0;
	for (i = 0; i < ARGS; i++)
		emit.payload[i] = regs_get_kernel_argument(regs, i);
	rt_emit_end(&emit);
	return 0;
}
NOKPROBE_SYMBOL(on_entry);

static int on_return(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct kretprobe *kretprobe = get_kretprobe(instance);
	struct rt_emit emit;
	struct slot *slot;

	/* NULL while it is being detached. */
	if (!kretprobe)
		return 0;
	slot = container_of(kretprobe, struct slot, kretprobe);
	if (!rt_emit_begin(&emit, slot->consumer, slot->probe, 1, NULL))
		return 0;
	emit.payload[0] = regs_return_value(regs);
	rt_emit_end(&emit);
	return 0;
}
NOKPROBE_SYMBOL(on_return);

int rt_kprobe_add(struct rt_consumer *consumer, const char *function, bool on_return_too,
		  u32 *probe)
{
	struct slot *slot;
	u32 i;

	if (!consumer->kprobes)
		consumer->kprobes = kvzalloc(sizeof(*consumer->kprobes), GFP_KERNEL_ACCOUNT);
	if (!consumer->kprobes)
		return -ENOMEM;
	slot = on_return_too ? consumer->kprobes->ret : consumer->kprobes->entry;
	for (i = 0; i < RT_KPROBES_MAX; i++, slot++)
		if (!slot->used || strcmp(slot->function, function) == 0)
			break;
	if (i == RT_KPROBES_MAX)
		return -ENOSPC;
	slot->used = true;
	strscpy(slot->function, function, sizeof(slot->function));
	slot->consumer = consumer;
	slot->probe = (on_return_too ? RT_PROBE_KRETPROBE : RT_PROBE_KPROBE) + i;
	*probe = slot->probe;
	return 0;
}

static struct slot *slot_of(const struct rt_consumer *consumer, u32 probe)
{
	if (!consumer->kprobes || probe < RT_PROBE_KPROBE ||
	    probe >= RT_PROBE_KRETPROBE + RT_KPROBES_MAX)
		return NULL;
	return probe < RT_PROBE_KRETPROBE ?
		&consumer->kprobes->entry[probe - RT_PROBE_KPROBE] :
		&consumer->kprobes->ret[probe - RT_PROBE_KRETPROBE];
}

bool rt_kprobe_exists(const struct rt_consumer *consumer, u32 probe)
{
	const struct slot *slot = slot_of(consumer, probe);

	return slot && slot->used;
}

static int attach(struct slot *slot)
{
	int err;

	/* What the last registration left in them must go. */
	memset(&slot->kprobe, 0, sizeof(slot->kprobe));
	memset(&slot->kretprobe, 0, sizeof(slot->kretprobe));
	if (slot->probe < RT_PROBE_KRETPROBE) {
		slot->kprobe.symbol_name = slot->function;
		slot->kprobe.pre_handler = on_entry;
		err = register_kprobe(&slot->kprobe);
	} else {
		slot->kretprobe.kp.symbol_name = slot->function;
		slot->kretprobe.handler = on_return;
		slot->kretprobe.maxactive = RETURNS_PER_CPU * num_possible_cpus();
		err = register_kretprobe(&slot->kretprobe);
	}
	slot->attached = !err;
	return err;
}

static void detach(struct rt_kprobes *kprobes, struct slot *slot)
{
	if (slot->probe < RT_PROBE_KRETPROBE) {
		unregister_kprobe(&slot->kprobe);
		kprobes->missed += slot->kprobe.nmissed;
	} else {
		unregister_kretprobe(&slot->kretprobe);
		kprobes->missed += slot->kretprobe.nmissed + slot->kretprobe.kp.nmissed;
	}
	slot->attached = false;
}

int rt_kprobe_update(struct rt_consumer *consumer, const struct rt_plan *plan)
{
	u32 probe;

	if (!consumer->kprobes)
		return 0;
	for (probe = RT_PROBE_KPROBE; probe < RT_PROBE_KRETPROBE + RT_KPROBES_MAX; probe++) {
		struct slot *slot = slot_of(consumer, probe);
		bool wanted = plan && plan->of_probe[probe];
		int err = 0;

		if (wanted && !slot->attached)
			err = attach(slot);
		else if (!wanted && slot->attached)
			detach(consumer->kprobes, slot);
		if (err)
			return err;
	}
	return 0;
}

u64 rt_kprobe_missed(const struct rt_consumer *consumer)
{
	const struct rt_kprobes *kprobes = consumer->kprobes;
	u64 missed = kprobes ? kprobes->missed : 0;
	u32 i;

	for (i = 0; kprobes && i < RT_KPROBES_MAX; i++) {
		if (kprobes->entry[i].attached)
			missed += kprobes->entry[i].kprobe.nmissed;
		if (kprobes->ret[i].attached)
			missed += kprobes->ret[i].kretprobe.nmissed +
				  kprobes->ret[i].kretprobe.kp.nmissed;
	}
	return missed;
}

void rt_kprobe_free(struct rt_consumer *consumer)
{
	kvfree(consumer->kprobes);
	consumer->kprobes = NULL;
}

#else

int rt_kprobe_add(struct rt_consumer *consumer, const char *function, bool on_return, u32 *probe)
{
	return -EOPNOTSUPP;
}

bool rt_kprobe_exists(const struct rt_consumer *consumer, u32 probe)
{
	return false;
}

int rt_kprobe_update(struct rt_consumer *consumer, const struct rt_plan *plan)
{
	return 0;
}

u64 rt_kprobe_missed(const struct rt_consumer *consumer)
{
	return 0;
}

void rt_kprobe_free(struct rt_consumer *consumer)
{
}

#endif
