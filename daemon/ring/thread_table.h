/*
 * thread_table: who each tid is, for one ring, from its RT_PROBE_THREAD and RT_PROBE_TEXT records.
 *
 * One drain worker owns it. An entry is named by a small index that stays the same until the entry
 * goes; batchers keep a word for each index.
 */
#ifndef RINGTAIL_DAEMON_RING_THREAD_TABLE_H
#define RINGTAIL_DAEMON_RING_THREAD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/ring/thread_journal.h"
#include "kmod/uapi/ringtail.h"
#include "proto/batch_encode.h"

struct thread_table;

/* In place of a text that is to be hidden. */
#define REDACTED_TEXT "[redacted]"

/* The texts of a thread. */
enum thread_text {
	THREAD_COMM,
	THREAD_EXE,
	THREAD_CGROUP,
	THREAD_TEXTS,
};

/* Whether one is to be hidden. */
typedef bool thread_text_judge(const void *context, enum thread_text kind, const char *text,
			       size_t bytes);

#define THREAD_NONE UINT32_MAX

/* max: entries; beyond it the longest unnamed go and counter threads_evicted adds. */
struct thread_table *thread_table_create(uint32_t max);
void thread_table_destroy(struct thread_table *table);

/*
 * Learns who is in the journal, and writes there whatever changes from then on. On a table that is
 * empty and has as many entries at most as that has slots; for its life.
 */
void thread_table_keep(struct thread_table *table, struct thread_ring *journal);

/*
 * Learns a thread. Returns its index, whose earlier meaning (if any) is over; THREAD_NONE when out
 * of memory.
 */
uint32_t thread_table_learn(struct thread_table *table, uint32_t tid,
			    const struct rt_thread *thread);

/* Learns a text that the records of threads may name; at most RT_TEXT_BYTES_MAX. */
void thread_table_learn_text(struct thread_table *table, uint64_t id, const void *data,
			     uint32_t bytes);

/* What an id stands for, borrowed until the next text; NULL: not known. */
const struct batch_text *thread_table_text(const struct thread_table *table, uint64_t id);

/* Hides what was learnt so far. Entries that change have another meaning then, at the same index. */
void thread_table_redact(struct thread_table *table, thread_text_judge *judge, const void *context);

/* The index of a tid, or THREAD_NONE. */
uint32_t thread_table_find(struct thread_table *table, uint32_t tid);

/* Forgets an exited thread. */
void thread_table_forget(struct thread_table *table, uint32_t tid);

/* Borrowed until the next learn. */
const struct batch_thread *thread_table_get(const struct thread_table *table, uint32_t index);

/* One more than the highest index given out so far. */
uint32_t thread_table_size(const struct thread_table *table);

#endif
