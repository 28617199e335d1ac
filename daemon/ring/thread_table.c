/*
 * Entries in one array, found through an open-addressing hash of
 * tid with backward-shift deletion; both double together.
 */
#include "daemon/ring/thread_table.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/ring/text_table.h"

#define THREADS_FIRST 256u

struct thread_table {
	struct batch_thread *thread;	/* by index */
	uint32_t *free_index;		/* stack of indexes given back */
	uint32_t *bucket;		/* index + 1 of an entry; 0: empty; 2 * capacity of them */
	uint32_t size, capacity, max;
	uint32_t frees;
	uint32_t evict_hand;
	struct text_table *texts;
	struct thread_ring *journal;	/* a slot for each index; NULL: nothing is kept */
};

static int resize(struct thread_table *table, uint32_t capacity);

struct thread_table *thread_table_create(uint32_t max)
{
	struct thread_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->max = max;
	table->texts = text_table_create();
	if (!table->texts || resize(table, max < THREADS_FIRST ? max : THREADS_FIRST)) {
		thread_table_destroy(table);
		return NULL;
	}
	return table;
}

static void forget_texts(struct batch_thread *thread)
{
	text_put(thread->exe);
	text_put(thread->cgroup);
	thread->exe = thread->cgroup = NULL;
}

void thread_table_destroy(struct thread_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->size; i++)
		forget_texts(&table->thread[i]);
	text_table_destroy(table->texts);
	free(table->thread);
	free(table->free_index);
	free(table->bucket);
	free(table);
}

static uint32_t home_of(const struct thread_table *table, uint32_t tid)
{
	/* Fibonacci hashing: neighbouring tids, the usual case, spread evenly. */
	return (uint32_t)(((uint64_t)(tid * 2654435769u) * (2u * table->capacity)) >> 32);
}

static uint32_t next_bucket(const struct thread_table *table, uint32_t at)
{
	return at + 1 == 2 * table->capacity ? 0 : at + 1;
}

/* The bucket that holds tid, or the empty one where it belongs. At most half are taken. */
static uint32_t find_bucket(const struct thread_table *table, uint32_t tid)
{
	uint32_t at = home_of(table, tid);

	while (table->bucket[at] && table->thread[table->bucket[at] - 1].tid != tid)
		at = next_bucket(table, at);
	return at;
}

static int resize(struct thread_table *table, uint32_t capacity)
{
	struct batch_thread *thread = realloc(table->thread, capacity * sizeof(*thread));
	uint32_t *free_index, *bucket, *old = table->bucket;
	uint32_t buckets = 2 * table->capacity;

	if (!thread)
		return -1;
	table->thread = thread;
	free_index = realloc(table->free_index, capacity * sizeof(*free_index));
	if (!free_index)
		return -1;
	table->free_index = free_index;
	bucket = calloc(2 * (size_t)capacity, sizeof(*bucket));
	if (!bucket)
		return -1;
	table->bucket = bucket;
	table->capacity = capacity;
	for (uint32_t i = 0; i < buckets; i++)
		if (old[i])
			bucket[find_bucket(table, thread[old[i] - 1].tid)] = old[i];
	free(old);
	return 0;
}

static void remove_bucket(struct thread_table *table, uint32_t at)
{
	uint32_t buckets = 2 * table->capacity, hole = at;

	for (;;) {
		uint32_t home;

		at = next_bucket(table, at);
		if (!table->bucket[at])
			break;
		home = home_of(table, table->thread[table->bucket[at] - 1].tid);
		/* An entry may fill the hole if the hole lies between its home and where it is. */
		if ((at + buckets - home) % buckets >= (at + buckets - hole) % buckets) {
			table->bucket[hole] = table->bucket[at];
			hole = at;
		}
	}
	table->bucket[hole] = 0;
}

void thread_table_forget(struct thread_table *table, uint32_t tid)
{
	uint32_t at = find_bucket(table, tid);

	if (!table->bucket[at])
		return;
	if (table->journal)
		thread_ring_clear(table->journal, table->bucket[at] - 1);
	forget_texts(&table->thread[table->bucket[at] - 1]);
	table->free_index[table->frees++] = table->bucket[at] - 1;
	remove_bucket(table, at);
}

/* Room for one more. Where the bound is reached, the hand takes one entry after the other. */
static uint32_t take_index(struct thread_table *table)
{
	if (!table->frees && table->size == table->capacity && table->capacity < table->max) {
		uint32_t twice = table->capacity * 2;

		resize(table, twice < table->max ? twice : table->max);
	}
	if (!table->frees && table->size == table->capacity) {
		uint32_t victim = table->evict_hand++ % table->capacity;

		counter_add(COUNTER_threads_evicted, 1);
		thread_table_forget(table, table->thread[victim].tid);
	}
	if (table->frees)
		return table->free_index[--table->frees];
	table->thread[table->size].exe = table->thread[table->size].cgroup = NULL;
	return table->size++;
}

void thread_table_learn_text(struct thread_table *table, uint64_t id, const void *data,
			     uint32_t bytes)
{
	if (text_table_learn(table->texts, id, data, bytes) != UINT32_MAX && table->journal)
		thread_ring_write_text(table->journal, id, data, bytes);
}

const struct batch_text *thread_table_text(const struct thread_table *table, uint64_t id)
{
	return text_table_find(table->texts, id);
}

/* A reference to what the id stands for. What a thread should have and has not is counted. */
static const struct batch_text *take_text(const struct thread_table *table, uint64_t id)
{
	const struct batch_text *text = id ? text_table_find(table->texts, id) : NULL;

	if (id && !text)
		counter_add(COUNTER_contexts_unknown, 1);
	return text_get(text);
}

uint32_t thread_table_learn(struct thread_table *table, uint32_t tid,
			    const struct rt_thread *thread)
{
	uint32_t at = find_bucket(table, tid);
	struct batch_thread *entry;
	uint32_t index;

	if (table->bucket[at]) {
		index = table->bucket[at] - 1;
	} else {
		index = take_index(table);
		table->thread[index].tid = tid;
		table->bucket[find_bucket(table, tid)] = index + 1;
	}
	entry = &table->thread[index];
	forget_texts(entry);
	*entry = (struct batch_thread){
		.tid = tid,
		.pid = thread->pid,
		.ppid = thread->ppid,
		.uid = thread->uid,
		.kernel = thread->flags & RT_THREAD_KERNEL,
		.cgroup_id = thread->cgroup_id,
		.exe = take_text(table, thread->exe),
		.cgroup = take_text(table, thread->cgroup),
	};
	if (thread->flags & RT_THREAD_BARE)
		counter_add(COUNTER_contexts_unknown, 1);
	memcpy(entry->comm, thread->comm, sizeof(entry->comm));
	if (table->journal)
		thread_ring_write(table->journal, index, tid, thread);
	return index;
}

/*
 * An entry's slot is the one of its index, which need not be where it was found: it is written there
 * before it is cleared here, so that who is killed in between leaves it twice rather than not at all.
 */
void thread_table_keep(struct thread_table *table, struct thread_ring *journal)
{
	uint64_t slots = journal->slots < table->max ? journal->slots : table->max;
	uint64_t texts = journal->texts, first = texts > RT_TEXTS_MAX ? texts - RT_TEXTS_MAX : 0;

	for (uint64_t i = first; i < texts; i++) {
		const struct text_slot *text = &journal->text[i % RT_TEXTS_MAX];

		if (text->id && text->bytes <= RT_TEXT_BYTES_MAX)
			text_table_learn(table->texts, text->id, text->data, text->bytes);
	}
	for (uint32_t i = 0; i < slots; i++) {
		struct thread_slot slot = journal->slot[i];
		uint32_t index;

		if (slot.used != 1)
			continue;
		index = thread_table_learn(table, slot.tid, &slot.thread);
		if (index == i)
			continue;
		thread_ring_write(journal, index, slot.tid, &slot.thread);
		thread_ring_clear(journal, i);
	}
	table->journal = journal;
}

static void redact_comm(struct batch_thread *thread, thread_text_judge *judge, const void *context)
{
	if (!judge(context, THREAD_COMM, thread->comm, strnlen(thread->comm, sizeof(thread->comm))))
		return;
	memset(thread->comm, 0, sizeof(thread->comm));
	memcpy(thread->comm, REDACTED_TEXT, sizeof(REDACTED_TEXT) - 1);
}

static void redact_text(struct thread_table *table, const struct batch_text *text,
			enum thread_text kind, thread_text_judge *judge, const void *context)
{
	if (text && judge(context, kind, text->data, text->bytes))
		text_table_replace(table->texts, text, REDACTED_TEXT);
}

void thread_table_redact(struct thread_table *table, thread_text_judge *judge, const void *context)
{
	uint64_t id;
	const struct batch_text *text;

	for (uint32_t i = 0; i < table->size; i++) {
		struct batch_thread *thread = &table->thread[i];

		redact_comm(thread, judge, context);
		redact_text(table, thread->exe, THREAD_EXE, judge, context);
		redact_text(table, thread->cgroup, THREAD_CGROUP, judge, context);
	}
	/* Those that no thread names now may be named again. */
	for (uint32_t i = 0; i < RT_TEXTS_MAX; i++) {
		text = text_table_at(table->texts, i, &id);
		redact_text(table, text, id & RT_TEXT_EXE ? THREAD_EXE : THREAD_CGROUP, judge,
			    context);
	}
}

uint32_t thread_table_find(struct thread_table *table, uint32_t tid)
{
	uint32_t at = find_bucket(table, tid);

	return table->bucket[at] ? table->bucket[at] - 1 : THREAD_NONE;
}

const struct batch_thread *thread_table_get(const struct thread_table *table, uint32_t index)
{
	return &table->thread[index];
}

uint32_t thread_table_size(const struct thread_table *table)
{
	return table->size;
}
