// SPDX-License-Identifier: GPL-2.0-only
/*
 * device: see device.h.
 */
#include "device.h"

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>

#include "consumer.h"
#include "param.h"

bool rt_device_permits(void)
{
	/* CAP_PERFMON, or CAP_SYS_ADMIN as before there was one. */
	return perfmon_capable();
}

static int device_open(struct inode *inode, struct file *file)
{
	if (!rt_param_allow() || !rt_device_permits())
		return -EPERM;
	file->private_data = rt_consumer_create();
	if (!file->private_data)
		return -ENOMEM;
	return stream_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	rt_consumer_destroy(file->private_data);
	return 0;
}

static __poll_t device_poll(struct file *file, struct poll_table_struct *table)
{
	struct rt_consumer *consumer = file->private_data;
	__poll_t events = 0;

	poll_wait(file, &consumer->wait, table);
	/*
	 * Pairs with the producer's stores: either they are seen here, or whoever rings sees us
	 * wait.
	 */
	smp_mb();
	mutex_lock(&consumer->rings_lock);
	if (rt_consumer_ready(consumer))
		events = EPOLLIN | EPOLLRDNORM;
	mutex_unlock(&consumer->rings_lock);
	return events;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.read = rt_device_read,
	.poll = device_poll,
	.mmap = rt_device_mmap,
	.unlocked_ioctl = rt_device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ringtail",
	.fops = &operations,
	.mode = 0600,
};

int __init rt_device_init(void)
{
	return misc_register(&device);
}

void rt_device_fini(void)
{
	misc_deregister(&device);
}
