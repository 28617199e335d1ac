/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * device: /dev/ringtail. Each open is a consumer.
 */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include <linux/types.h>

struct file;
struct rt_consumer;
struct vm_area_struct;

int rt_device_init(void);
void rt_device_fini(void);

/* device_map.c: mmap(2) of rings and consumer pages. */
int rt_device_mmap(struct file *file, struct vm_area_struct *vma);

/* device_read.c: read(2) of whole records. */
ssize_t rt_device_read(struct file *file, char __user *to, size_t bytes, loff_t *offset);

/* control.c: ioctl(2). */
long rt_device_ioctl(struct file *file, unsigned int command, unsigned long argument);

/* Whether the caller may decide what is recorded. */
bool rt_device_permits(void);

#endif
