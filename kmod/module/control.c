// SPDX-License-Identifier: GPL-2.0-only
/*
 * control: the ioctls of /dev/ringtail, which ringtail(4) describes. Each copies its argument in,
 * checks every field of it, and acts under the consumer's lock.
 */
#include <linux/compat.h>
#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "consumer.h"
#include "device.h"
#include "filter.h"
#include "param.h"
#include "provider_kprobe.h"
#include "provider_module.h"
#include "registry.h"
#include "snapshot.h"

#define KNOWN_FLAGS (RT_FLAG_KSTACK | RT_FLAG_USTACK | RT_FLAG_STRINGS)

/* ---- What there is ---- */

static long get_info(struct rt_consumer *consumer, void __user *to)
{
	struct rt_info info = {
		.abi_version = RT_ABI_VERSION,
		.cpus = nr_cpu_ids,
		.probes = rt_registry_count(),
		.ring_bytes_max = rt_param_ring_bytes_max(),
	};

	return copy_to_user(to, &info, sizeof(info)) ? -EFAULT : 0;
}

/* The size query, and whether the table fits: 1 if it is to be filled. */
static int answer_count(struct rt_table *table, u32 count, struct rt_table __user *to)
{
	u32 room = table->count;

	table->count = count;
	if (put_user(count, &to->count))
		return -EFAULT;
	if (!table->to)
		return 0;
	return room < count ? -ENOSPC : 1;
}

static long list_probes(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_probe_info __user *to, *end;
	struct rt_probe_info info;
	struct rt_table table;
	u32 probe;
	int err;

	if (copy_from_user(&table, argument, sizeof(table)))
		return -EFAULT;
	if (table.probe)
		return -EINVAL;
	err = answer_count(&table, rt_registry_count(), argument);
	if (err <= 0)
		return err;
	to = u64_to_user_ptr(table.to);
	/* A module that comes now adds its probes behind those that were counted. */
	end = to + table.count;
	for (probe = 0; probe < RT_PROBE_MAX && to < end; probe++) {
		if (!rt_registry_has(probe))
			continue;
		rt_registry_describe(probe, &info);
		if (copy_to_user(to++, &info, sizeof(info)))
			return -EFAULT;
	}
	return 0;
}

static bool has_probe(const struct rt_consumer *consumer, u32 probe)
{
	return probe < RT_PROBE_MAX &&
	       (rt_registry_has(probe) || rt_kprobe_exists(consumer, probe));
}

static long list_fields(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_field_info __user *to;
	struct rt_field_info field;
	struct rt_probe_info info;
	struct rt_table table;
	int err;
	u32 i;

	if (copy_from_user(&table, argument, sizeof(table)))
		return -EFAULT;
	if (!has_probe(consumer, table.probe) || !rt_registry_describe(table.probe, &info))
		return -ENOENT;
	err = answer_count(&table, info.fields, argument);
	if (err <= 0)
		return err;
	to = u64_to_user_ptr(table.to);
	for (i = 0; i < info.fields; i++) {
		rt_registry_field(table.probe, i, &field);
		if (copy_to_user(&to[i], &field, sizeof(field)))
			return -EFAULT;
	}
	return 0;
}

static long get_source(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_probe_source __user *to = argument;
	struct rt_probe_source source;
	u32 probe;
	int err;

	if (get_user(probe, &to->probe))
		return -EFAULT;
	if (!has_probe(consumer, probe))
		return -ENOENT;
	err = rt_module_source(probe, &source);
	if (err)
		return err;
	return copy_to_user(to, &source, sizeof(source)) ? -EFAULT : 0;
}

static long watch_modules(struct rt_consumer *consumer, void __user *argument)
{
	struct eventfd_ctx *eventfd = NULL;
	s32 fd;

	if (get_user(fd, (s32 __user *)argument))
		return -EFAULT;
	if (fd < -1)
		return -EBADF;
	if (fd >= 0)
		eventfd = eventfd_ctx_fdget(fd);
	if (IS_ERR(eventfd))
		return PTR_ERR(eventfd);
	rt_module_watch(consumer, eventfd);
	return 0;
}

/* ---- What is recorded ---- */

static int check_selection(const struct rt_selection *selection)
{
	if (selection->flags & ~KNOWN_FLAGS)
		return -EINVAL;
	return rt_filter_check(selection->clause, selection->clauses);
}

static int check_rate(u32 probe, u32 rate_hz)
{
	if (probe == RT_PROBE_PROFILE || probe == RT_PROBE_INTERVAL)
		return rate_hz && rate_hz <= RT_RATE_HZ_MAX ? 0 : -EINVAL;
	return rate_hz ? -EINVAL : 0;
}

static long put_plan(struct rt_consumer *consumer, struct rt_plan *plan)
{
	return IS_ERR(plan) ? PTR_ERR(plan) : rt_consumer_set_plan(consumer, plan);
}

static void select_clauses(struct rt_selection *selection, const struct rt_filter_clause *clause,
			   u32 clauses)
{
	selection->clauses = clauses;
	/* Those beyond are not looked at, and stay zero, so that equal selections compare equal. */
	memcpy(selection->clause, clause,
	       min(clauses, (u32)RT_FILTER_CLAUSES_MAX) * sizeof(*clause));
}

static long enable_probe(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_selection selection = {};
	struct rt_enable enable;
	int err;

	if (copy_from_user(&enable, argument, sizeof(enable)))
		return -EFAULT;
	if (!has_probe(consumer, enable.probe))
		return -ENOENT;
	selection.flags = enable.flags;
	selection.rate_hz = enable.rate_hz;
	select_clauses(&selection, enable.clause, enable.clauses);
	err = check_selection(&selection);
	if (!err)
		err = check_rate(enable.probe, enable.rate_hz);
	if (err)
		return err;
	return put_plan(consumer, rt_plan_enable(rt_consumer_plan_locked(consumer), enable.probe,
						 &selection));
}

static long disable_probe(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_plan *plan = rt_consumer_plan_locked(consumer);
	u32 probe;

	if (get_user(probe, (u32 __user *)argument))
		return -EFAULT;
	if (probe >= RT_PROBE_MAX || !plan || !plan->of_probe[probe])
		return -ENOENT;
	return put_plan(consumer, rt_plan_disable(plan, probe));
}

static long check_probes(const struct rt_consumer *consumer, const u8 *probes)
{
	u32 probe;

	for (probe = 0; probe < RT_PROBE_MAX; probe++)
		if (probes[probe >> 3] & (1u << (probe & 7)) && !has_probe(consumer, probe))
			return -ENOENT;
	return 0;
}

static long select_probes(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_select *select = memdup_user(argument, sizeof(*select));
	struct rt_selection selection = {};
	long err;

	if (IS_ERR(select))
		return PTR_ERR(select);
	selection.flags = select->flags;
	select_clauses(&selection, select->clause, select->clauses);
	err = check_selection(&selection);
	if (!err)
		err = check_probes(consumer, select->probes);
	if (!err)
		err = put_plan(consumer, rt_plan_select(rt_consumer_plan_locked(consumer),
							select->probes, select->unfiltered,
							&selection));
	kfree(select);
	return err;
}

static long add_kprobe(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_kprobe kprobe;
	long err;

	if (copy_from_user(&kprobe, argument, sizeof(kprobe)))
		return -EFAULT;
	if (kprobe.on_return > 1 || !kprobe.function[0] ||
	    strnlen(kprobe.function, sizeof(kprobe.function)) == sizeof(kprobe.function))
		return -EINVAL;
	err = rt_kprobe_add(consumer, kprobe.function, kprobe.on_return, &kprobe.probe);
	if (err)
		return err;
	return copy_to_user(argument, &kprobe, sizeof(kprobe)) ? -EFAULT : 0;
}

static long start(struct rt_consumer *consumer, void __user *argument)
{
	return rt_consumer_start(consumer);
}

static long stop(struct rt_consumer *consumer, void __user *argument)
{
	return rt_consumer_stop(consumer);
}

/* ---- Configuration ---- */

/* Brings what can be brought to what is allowed; the rest is for check_config(). */
static void cut_config(struct rt_config *config)
{
	u64 bytes = clamp_t(u64, config->ring_bytes, RT_RING_BYTES_MIN, rt_param_ring_bytes_max());

	config->ring_bytes = rounddown_pow_of_two(bytes);
	config->watermark_bytes = clamp_t(u64, config->watermark_bytes, 1, config->ring_bytes);
	config->wake_ms = min_t(u32, config->wake_ms, RT_WAKE_MS_MAX);
}

static int check_config(const struct rt_config *config)
{
	if (config->flags & ~(RT_CONFIG_CUT | RT_CONFIG_SELF) || config->zero)
		return -EINVAL;
	if (config->ring_bytes < RT_RING_BYTES_MIN || !is_power_of_2(config->ring_bytes) ||
	    config->ring_bytes > rt_param_ring_bytes_max())
		return -EINVAL;
	if (!config->watermark_bytes || config->watermark_bytes > config->ring_bytes)
		return -EINVAL;
	return config->policy > RT_POLICY_STOP || config->wake_ms > RT_WAKE_MS_MAX ? -EINVAL : 0;
}

/* Rings of another kind take that nobody has the old ones mapped. */
static int put_rings(struct rt_consumer *consumer, const struct rt_config *config)
{
	const struct rt_config *old = &consumer->config;
	int err = 0;

	if (config->ring_bytes == old->ring_bytes && config->policy == old->policy)
		return 0;
	mutex_lock(&consumer->read_lock);
	mutex_lock(&consumer->rings_lock);
	if (atomic_read(&consumer->maps))
		err = -EBUSY;
	else
		rt_consumer_drop_rings(consumer);
	mutex_unlock(&consumer->rings_lock);
	mutex_unlock(&consumer->read_lock);
	return err;
}

static long set_config(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_config config;
	int err;

	if (copy_from_user(&config, argument, sizeof(config)))
		return -EFAULT;
	if (config.flags & RT_CONFIG_CUT)
		cut_config(&config);
	err = check_config(&config);
	if (err)
		return err;
	if (consumer->recording)
		return -EBUSY;
	err = put_rings(consumer, &config);
	if (err)
		return err;
	consumer->config = config;
	rt_consumer_exclude(consumer);
	err = rt_consumer_make_rings(consumer);
	if (err)
		return err;
	return copy_to_user(argument, &config, sizeof(config)) ? -EFAULT : 0;
}

static long get_config(struct rt_consumer *consumer, void __user *to)
{
	return copy_to_user(to, &consumer->config, sizeof(consumer->config)) ? -EFAULT : 0;
}

/* A bell that rings right now is over when this returns. */
static void put_bell(struct rt_ring *ring, struct eventfd_ctx *eventfd)
{
	struct eventfd_ctx *old = ring->eventfd;

	WRITE_ONCE(ring->eventfd, eventfd);
	irq_work_sync(&ring->bell);
	if (old)
		eventfd_ctx_put(old);
}

static int set_ring_bell(struct rt_ring *ring, s32 fd)
{
	struct eventfd_ctx *eventfd = NULL;

	if (fd >= 0) {
		eventfd = eventfd_ctx_fdget(fd);
		if (IS_ERR(eventfd))
			return PTR_ERR(eventfd);
	}
	put_bell(ring, eventfd);
	return 0;
}

static long set_bell(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_bell bell;
	int err = -ENXIO;
	u32 cpu;

	if (copy_from_user(&bell, argument, sizeof(bell)))
		return -EFAULT;
	if (bell.eventfd < -1)
		return -EBADF;
	mutex_lock(&consumer->rings_lock);
	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);

		if (!ring || (bell.cpu != RT_CPU_ALL && bell.cpu != cpu))
			continue;
		err = set_ring_bell(ring, bell.eventfd);
		if (err)
			break;
	}
	mutex_unlock(&consumer->rings_lock);
	return err;
}

/* ---- What has been recorded ---- */

static void add_ring(struct rt_stats *stats, const struct rt_ring *ring)
{
	const struct rt_ring_producer *page = ring->page;
	u32 reason;

	stats->records += local64_read(&ring->records);
	stats->lost_total += READ_ONCE(page->lost_total);
	for (reason = 0; reason < RT_LOST_REASONS; reason++)
		stats->lost[reason] += READ_ONCE(page->lost[reason]);
	stats->bytes += READ_ONCE(page->producer_pos);
	stats->bells += READ_ONCE(page->bells);
	stats->consumer_bad += READ_ONCE(page->consumer_bad);
	stats->unpaired += READ_ONCE(page->unpaired);
	stats->foreign += READ_ONCE(page->foreign);
	stats->faults += READ_ONCE(page->faults);
	stats->rings++;
	stats->rings_stopped += READ_ONCE(page->state) == RT_RING_STOPPED;
}

static long get_stats(struct rt_consumer *consumer, void __user *to)
{
	struct rt_stats stats = {
		.homeless = atomic64_read(&consumer->homeless),
		.crowded = atomic64_read(&consumer->crowded),
		.kprobe_missed = rt_kprobe_missed(consumer),
	};
	u32 cpu;

	mutex_lock(&consumer->rings_lock);
	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);

		if (ring)
			add_ring(&stats, ring);
	}
	mutex_unlock(&consumer->rings_lock);
	stats.attempts = stats.records + stats.lost_total;
	return copy_to_user(to, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long clear(struct rt_consumer *consumer, void __user *argument)
{
	u32 cpu;

	/* Whoever has mapped a consumer page is the one who gives records back. */
	if (consumer->recording || atomic_read(&consumer->consumer_maps))
		return -EBUSY;
	rt_snapshot_free(consumer->snapshot);
	consumer->snapshot = NULL;
	mutex_lock(&consumer->read_lock);
	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);

		if (ring)
			rt_ring_clear(ring);
	}
	mutex_unlock(&consumer->read_lock);
	return 0;
}

static long take_snapshot(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_snapshot *snapshot;

	if (!consumer->has_rings)
		return -ENXIO;
	snapshot = rt_snapshot_take(consumer);
	if (IS_ERR(snapshot))
		return PTR_ERR(snapshot);
	rt_snapshot_free(consumer->snapshot);
	consumer->snapshot = snapshot;
	return 0;
}

static int view_of(struct rt_consumer *consumer, u32 cpu, struct rt_view *view)
{
	struct rt_ring *ring;

	if (consumer->snapshot)
		return rt_snapshot_view(consumer->snapshot, cpu, view);
	if (consumer->recording)
		return -EBUSY;
	ring = rt_consumer_ring(consumer, cpu);
	if (!ring)
		return -ENXIO;
	rt_view_of_ring(ring, view);
	return 0;
}

static long read_record(struct rt_consumer *consumer, void __user *argument)
{
	struct rt_view view;
	struct rt_read read;
	u32 room, bytes;
	u64 pos;
	int err;

	if (copy_from_user(&read, argument, sizeof(read)))
		return -EFAULT;
	if (read.flags & ~RT_READ_OLDEST || read.zero)
		return -EINVAL;
	err = view_of(consumer, read.cpu, &view);
	if (err)
		return err;
	err = read.flags & RT_READ_OLDEST ? rt_walk_oldest(&view, read.index, &pos, &bytes) :
					    rt_walk_newest(&view, read.index, &pos, &bytes);
	if (err)
		return err;
	room = read.bytes;
	read.bytes = bytes;
	if (copy_to_user(argument, &read, sizeof(read)))
		return -EFAULT;
	if (room < bytes)
		return -ENOSPC;
	return copy_to_user(u64_to_user_ptr(read.to), rt_view_at(&view, pos), bytes) ? -EFAULT : 0;
}

/* ---- Dispatch ---- */

static const struct {
	unsigned int command;
	bool decides;		/* what is recorded, or how: takes a capability at every call */
	long (*act)(struct rt_consumer *consumer, void __user *argument);
} controls[] = {
	{RT_IOC_INFO, false, get_info},
	{RT_IOC_LIST, false, list_probes},
	{RT_IOC_FIELDS, false, list_fields},
	{RT_IOC_ENABLE, true, enable_probe},
	{RT_IOC_DISABLE, true, disable_probe},
	{RT_IOC_SELECT, true, select_probes},
	{RT_IOC_START, true, start},
	{RT_IOC_STOP, true, stop},
	{RT_IOC_STATS, false, get_stats},
	{RT_IOC_SET_CONFIG, true, set_config},
	{RT_IOC_GET_CONFIG, false, get_config},
	{RT_IOC_BELL, true, set_bell},
	{RT_IOC_CLEAR, true, clear},
	{RT_IOC_SNAPSHOT, true, take_snapshot},
	{RT_IOC_READ, false, read_record},
	{RT_IOC_KPROBE, true, add_kprobe},
	{RT_IOC_SOURCE, false, get_source},
	{RT_IOC_WATCH, true, watch_modules},
};

long rt_device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct rt_consumer *consumer = file->private_data;
	u32 i;
	long err;

	for (i = 0; i < ARRAY_SIZE(controls); i++)
		if (controls[i].command == command)
			break;
	if (i == ARRAY_SIZE(controls))
		return -ENOTTY;
	if (controls[i].decides && !rt_device_permits())
		return -EPERM;
	if (mutex_lock_interruptible(&consumer->lock))
		return -ERESTARTSYS;
	err = controls[i].act(consumer, (void __user *)argument);
	mutex_unlock(&consumer->lock);
	return err;
}
