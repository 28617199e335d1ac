// SPDX-License-Identifier: GPL-2.0-only
/*
 * probed: a module that has probes, for the tests. When N is written to its parameter `turns`, it passes each of them
 * for each turn from 0 to N - 1; `everywhere` on each CPU, in an interrupt. `evaluated` says how often an argument was.
 */
#define RT_CREATE_PROBES
#include "ringtail_probe.h"

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/smp.h>

#include "text.h"

/* As any module does, it lets nobody in when it has ended. */
static DEFINE_MUTEX(lock);
static bool ended;

static uint evaluated;
module_param(evaluated, uint, 0444);

static bool is_odd(u32 turn)
{
	evaluated++;
	return turn & 1;
}

static void pass_integers(u32 turn)
{
	s8 narrow = (s8)(turn * 37);
	u16 medium = (u16)(turn * 40503);
	s64 wide = -(s64)turn * (1ll << 33);
	const u64 all = ~0ull - turn;

	RT_PROBE(probed, integers, "%hhd %hu %lld %llx %d of turn %u", narrow, medium, wide, all, is_odd(turn), turn);
#ifdef PROBED_WRONG
	RT_PROBE(probed, wrong, "%u", wide);
#endif
}

static void pass_here(void *data)
{
	RT_PROBE(probed, everywhere, "%u at %p", (int)raw_smp_processor_id(), data);
}

static int set_turns(const char *value, const struct kernel_param *param)
{
	u32 turns, turn;
	int err = kstrtou32(value, 0, &turns);

	mutex_lock(&lock);
	err = err ?: ended ? -ENODEV : 0;
	for (turn = 0; !err && turn < turns; turn++) {
		pass_integers(turn);
		probed_pass_text(turn);
		on_each_cpu(pass_here, (void *)(unsigned long)turn, 1);
	}
	mutex_unlock(&lock);
	return err;
}

static const struct kernel_param_ops turns_ops = {.set = set_turns};
module_param_cb(turns, &turns_ops, NULL, 0200);

static int __init probed_init(void)
{
	RT_PROBE(probed, came, "it is there");
	return 0;
}

static void __exit probed_exit(void)
{
	mutex_lock(&lock);
	ended = true;
	mutex_unlock(&lock);
	RT_PROBE(probed, went, "it ends");
}

module_init(probed_init);
module_exit(probed_exit);
MODULE_DESCRIPTION("probes of a module, for ringtail's tests");
MODULE_LICENSE("GPL");
