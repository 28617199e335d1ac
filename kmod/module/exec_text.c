// SPDX-License-Identifier: GPL-2.0-only
/*
 * exec_text: see exec_text.h.
 */
#include "exec_text.h"

#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "kmod/uapi/ringtail.h"

#define EXECS_MAX 64

struct entry {
	struct task_struct *task;	/* only compared; NULL: free */
	char text[RT_STRING_BYTES_MAX + 1];
};

struct rt_exec_texts {
	atomic_t used;			/* 0, nearly always, saves the search at each exit */
	struct entry entry[EXECS_MAX];
};

struct rt_exec_texts *rt_exec_texts_create(void)
{
	return kzalloc(sizeof(struct rt_exec_texts), GFP_KERNEL_ACCOUNT);
}

void rt_exec_texts_destroy(struct rt_exec_texts *texts)
{
	kfree(texts);
}

static struct entry *find(struct rt_exec_texts *texts)
{
	u32 i;

	if (!atomic_read(&texts->used))
		return NULL;
	for (i = 0; i < EXECS_MAX; i++)
		if (READ_ONCE(texts->entry[i].task) == current)
			return &texts->entry[i];
	return NULL;
}

static struct entry *claim(struct rt_exec_texts *texts)
{
	struct entry *entry = find(texts);
	u32 i;

	if (entry)
		return entry;
	for (i = 0; i < EXECS_MAX; i++) {
		entry = &texts->entry[i];
		/* Pairs with the release of the thread that had it. */
		if (!READ_ONCE(entry->task) && !cmpxchg(&entry->task, NULL, current)) {
			atomic_inc(&texts->used);
			return entry;
		}
	}
	return NULL;
}

int rt_exec_text_keep(struct rt_exec_texts *texts, const char *text)
{
	struct entry *entry = claim(texts);

	if (!entry)
		return -ENOSPC;
	strscpy(entry->text, text, sizeof(entry->text));
	return 0;
}

const char *rt_exec_text_find(struct rt_exec_texts *texts)
{
	struct entry *entry = find(texts);

	return entry ? entry->text : NULL;
}

void rt_exec_text_forget(struct rt_exec_texts *texts)
{
	struct entry *entry = find(texts);

	if (!entry)
		return;
	atomic_dec(&texts->used);
	smp_store_release(&entry->task, NULL);
}
