// SPDX-License-Identifier: GPL-2.0-only
/*
 * device_read: whole records for whoever does not map the rings. The kernel is then the rings' one
 * consumer; it gives records back as soon as they are copied.
 */
#include "device.h"

#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/uaccess.h>

#include "consumer.h"
#include "ring_walk.h"

/* Room for the longest record and what stands before it. */
#define READ_BYTES_MIN	(sizeof(struct rt_run) + RT_RECORD_BYTES_MAX)

/* What there is in one ring, up to `room` bytes of records: copied, or -EFAULT. */
static ssize_t copy_records(const struct rt_view *view, u64 *pos, char __user *to, size_t room)
{
	size_t copied = 0;
	u32 bytes;

	for (;;) {
		enum rt_walk walk = rt_walk(view, *pos, &bytes);

		if (walk == RT_WALK_END)
			return copied;
		if (walk == RT_WALK_RECORD) {
			if (bytes > room - copied)
				return copied;
			if (copy_to_user(to + copied, rt_view_at(view, *pos), bytes))
				return -EFAULT;
			copied += bytes;
		}
		*pos += bytes;
	}
}

static ssize_t read_ring(struct rt_ring *ring, char __user *to, size_t room)
{
	struct rt_run run = {.cpu = ring->cpu};
	u64 pos = rt_ring_consumer_pos(ring);
	struct rt_view view;
	ssize_t copied;

	rt_view_of_ring(ring, &view);
	copied = copy_records(&view, &pos, to + sizeof(run), room - sizeof(run));
	if (copied < 0)
		return copied;
	run.bytes = copied;
	if (copied && copy_to_user(to, &run, sizeof(run)))
		return -EFAULT;
	/* Pairs with the producer's acquire: what was copied may be overwritten now. */
	smp_store_release(&ring->consumer->consumer_pos, pos);
	return copied ? copied + sizeof(run) : 0;
}

/* Every ring's turn; 0: there is nothing. What was delivered is delivered, whatever came after. */
static ssize_t read_rings(struct rt_consumer *consumer, char __user *to, size_t room)
{
	size_t filled = 0;
	u32 cpu;

	WRITE_ONCE(consumer->due, false);
	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);
		ssize_t n;

		if (!ring || room - filled < READ_BYTES_MIN)
			continue;
		n = read_ring(ring, to + filled, room - filled);
		if (n < 0)
			return filled ? filled : n;
		filled += n;
	}
	return filled;
}

static ssize_t read_once(struct rt_consumer *consumer, char __user *to, size_t room)
{
	ssize_t n;

	if (mutex_lock_interruptible(&consumer->read_lock))
		return -ERESTARTSYS;
	if (atomic_read(&consumer->consumer_maps))
		n = -EBUSY;
	else if (consumer->has_rings && consumer->geometry.policy == RT_POLICY_OVERWRITE)
		n = -EOPNOTSUPP;
	else
		n = read_rings(consumer, to, room);
	mutex_unlock(&consumer->read_lock);
	return n;
}

ssize_t rt_device_read(struct file *file, char __user *to, size_t bytes, loff_t *offset)
{
	struct rt_consumer *consumer = file->private_data;
	ssize_t n;

	if (bytes < READ_BYTES_MIN)
		return -EINVAL;
	for (;;) {
		n = read_once(consumer, to, bytes);
		if (n)
			return n;
		/* All that was recorded has been read, and nothing more comes. */
		if (!READ_ONCE(consumer->recording))
			return 0;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(consumer->wait, rt_consumer_ready(consumer) ||
					     !READ_ONCE(consumer->recording)))
			return -ERESTARTSYS;
	}
}
