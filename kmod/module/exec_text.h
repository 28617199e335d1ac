/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * exec_text: the file names of execs that have succeeded and not returned. The memory that their
 * arguments pointed to is gone then, so who wants strings gets them from the kernel's own copy.
 *
 * A bounded table: an exec that finds it full has its record without the text, which counts as a
 * fault. Task context, preemption off; an entry belongs to its thread.
 */
#ifndef RT_EXEC_TEXT_H
#define RT_EXEC_TEXT_H

#include <linux/types.h>

struct rt_exec_texts;

/* NULL when out of memory; destroy(NULL) is safe. */
struct rt_exec_texts *rt_exec_texts_create(void);
void rt_exec_texts_destroy(struct rt_exec_texts *texts);

/* Keeps the current thread's text, cut at RT_STRING_BYTES_MAX; -ENOSPC. */
int rt_exec_text_keep(struct rt_exec_texts *texts, const char *text);
/* The current thread's text, terminated; NULL: none. Borrowed until it is forgotten. */
const char *rt_exec_text_find(struct rt_exec_texts *texts);
void rt_exec_text_forget(struct rt_exec_texts *texts);

#endif
