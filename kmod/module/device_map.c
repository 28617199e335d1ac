// SPDX-License-Identifier: GPL-2.0-only
/*
 * device_map: the rings in user space. The producer's part can never be written through the
 * mapping, nor made writable later; the consumer page can, and so nothing in it is believed.
 */
#include "device.h"

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "consumer.h"

/* A mapping holds the file, so the consumer outlives it; it must only not be re-made under it. */
static void ring_open(struct vm_area_struct *vma)
{
	struct rt_consumer *consumer = vma->vm_private_data;

	atomic_inc(&consumer->maps);
}

static void ring_close(struct vm_area_struct *vma)
{
	struct rt_consumer *consumer = vma->vm_private_data;

	atomic_dec(&consumer->maps);
}

static void consumer_page_open(struct vm_area_struct *vma)
{
	struct rt_consumer *consumer = vma->vm_private_data;

	atomic_inc(&consumer->maps);
	atomic_inc(&consumer->consumer_maps);
}

static void consumer_page_close(struct vm_area_struct *vma)
{
	struct rt_consumer *consumer = vma->vm_private_data;

	atomic_dec(&consumer->consumer_maps);
	atomic_dec(&consumer->maps);
}

static const struct vm_operations_struct ring_operations = {
	.open = ring_open,
	.close = ring_close,
};

static const struct vm_operations_struct consumer_page_operations = {
	.open = consumer_page_open,
	.close = consumer_page_close,
};

static int map_ring(struct rt_ring *ring, struct vm_area_struct *vma)
{
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;
	if (vma->vm_end - vma->vm_start > RT_RING_MAP_BYTES(ring->size_bytes))
		return -EINVAL;
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	vma->vm_ops = &ring_operations;
	return remap_vmalloc_range(vma, ring->page, 0);
}

static int map_consumer_page(struct rt_ring *ring, struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	/* A private page would be the writer's alone. */
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_end - vma->vm_start != RT_PAGE_BYTES)
		return -EINVAL;
	vm_flags_clear(vma, VM_MAYEXEC);
	vma->vm_ops = &consumer_page_operations;
	return remap_vmalloc_range(vma, ring->consumer, 0);
}

int rt_device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rt_consumer *consumer = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 part = offset % RT_MAP_STRIDE;
	struct rt_ring *ring;
	int err;

	if (part && part != RT_MAP_STRIDE / 2)
		return -EINVAL;
	mutex_lock(&consumer->rings_lock);
	ring = rt_consumer_ring(consumer, min_t(u64, offset / RT_MAP_STRIDE, U32_MAX));
	err = !ring ? -ENXIO : part ? map_consumer_page(ring, vma) : map_ring(ring, vma);
	if (!err) {
		vma->vm_private_data = consumer;
		/* The kernel calls it for copies of the mapping only. */
		vma->vm_ops->open(vma);
	}
	mutex_unlock(&consumer->rings_lock);
	return err;
}
