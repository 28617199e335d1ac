// SPDX-License-Identifier: GPL-2.0-only
/*
 * thread: see thread.h.
 */
#include "thread.h"

#include <linux/cred.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#define THREADS_CACHED 256	/* a power of two */

/* Who a thread is, as far as its record tells. */
struct rt_thread_identity {
	u64 start_ns;
	u64 comm[RT_COMM_BYTES / 8];
	u32 tid;
	u32 uid;
};

struct rt_thread_entry {
	struct rt_thread_identity identity;
	u64 subbuf;		/* where it was introduced last; RT_POLICY_OVERWRITE cares */
	bool used;
} ____cacheline_aligned;

struct rt_thread_cache {
	u32 fills;		/* odd: a context below is at it, so store and trust nothing */
	struct rt_thread_entry entry[THREADS_CACHED];
};

static_assert(sizeof(struct rt_thread) % 8 == 0);
static_assert(TASK_COMM_LEN == RT_COMM_BYTES);

struct rt_thread_cache *rt_thread_cache_create(int node)
{
	return kvzalloc_node(sizeof(struct rt_thread_cache), GFP_KERNEL_ACCOUNT, node);
}

void rt_thread_cache_destroy(struct rt_thread_cache *cache)
{
	kvfree(cache);
}

static void identity_of(struct task_struct *task, struct rt_thread_identity *identity)
{
	identity->start_ns = task->start_time;
	/*
	 * A name that changes right now may be read torn: it is introduced again with the next
	 * event.
	 */
	memcpy(identity->comm, task->comm, RT_COMM_BYTES);
	identity->tid = task->pid;
	identity->uid = __kuid_val(rcu_dereference_raw(task->real_cred)->uid);
}

static bool same(const struct rt_thread_identity *a, const struct rt_thread_identity *b)
{
	return a->tid == b->tid && a->start_ns == b->start_ns && a->comm[0] == b->comm[0] &&
	       a->comm[1] == b->comm[1] && a->uid == b->uid;
}

/*
 * Whether the cache says that the thread needs no introduction. The flight recorder's oldest
 * records go, introductions among them, so there each sub-buffer has its own and a reader may start
 * at any. A nested context may put another thread into the entry while it is being compared:
 * `fills` tells.
 */
static bool is_known(const struct rt_ring *ring, const struct rt_thread_entry *entry,
		     const struct rt_thread_identity *identity, u32 room_words, u64 *subbuf)
{
	u32 fills = READ_ONCE(ring->threads->fills);

	if (fills & 1 || !READ_ONCE(entry->used))
		return false;
	barrier();
	if (!same(&entry->identity, identity))
		return false;
	*subbuf = RT_SUBBUF_ANY;
	if (ring->policy == RT_POLICY_OVERWRITE) {
		*subbuf = entry->subbuf;
		if (*subbuf != rt_ring_subbuf(ring, room_words))
			return false;
	}
	barrier();
	return READ_ONCE(ring->threads->fills) == fills;
}

static void fill(struct rt_thread *thread, struct task_struct *task,
		 const struct rt_thread_identity *identity)
{
	thread->pid = task->tgid;
	/* Of one that has been reaped and runs its last instructions, nobody keeps the parent. */
	thread->ppid = pid_alive(task) ? rcu_dereference_raw(task->real_parent)->tgid : 0;
	thread->uid = identity->uid;
	thread->flags = task->flags & PF_KTHREAD ? RT_THREAD_KERNEL : 0;
	thread->cgroup_id = 0;
	thread->cgroup = 0;
	thread->exe = 0;
	thread->start_ns = identity->start_ns;
	memcpy(thread->comm, identity->comm, RT_COMM_BYTES);
}

/* Contexts nest: one that finds another at it leaves the cache alone. */
static void remember(struct rt_thread_cache *cache, struct rt_thread_entry *entry,
		     const struct rt_thread_identity *identity, u64 subbuf)
{
	u32 fills = READ_ONCE(cache->fills);

	if (fills & 1)
		return;
	WRITE_ONCE(cache->fills, fills + 1);
	barrier();
	entry->identity = *identity;
	entry->subbuf = subbuf;
	entry->used = true;
	barrier();
	WRITE_ONCE(cache->fills, fills + 2);
}

static struct rt_thread_entry *entry_of(struct rt_ring *ring, const struct task_struct *task)
{
	return &ring->threads->entry[task->pid & (THREADS_CACHED - 1)];
}

/* Writes a thread's record; room_words must be free behind it. */
static enum rt_reserve write_thread(struct rt_ring *ring, struct task_struct *task,
				    const struct rt_thread_identity *identity, u32 flags,
				    u32 room_words, u64 *subbuf)
{
	struct rt_reservation reservation;
	struct rt_thread *thread;
	enum rt_reserve refused;

	refused = rt_ring_reserve(ring, RT_THREAD_WORDS, RT_THREAD_WORDS + room_words,
				  RT_SUBBUF_ANY, &reservation);
	if (refused)
		return refused;
	reservation.record->tid = identity->tid;
	thread = (struct rt_thread *)reservation.record->payload;
	fill(thread, task, identity);
	thread->flags |= flags;
	rt_ring_commit(ring, &reservation, RT_PROBE_THREAD);
	*subbuf = reservation.pos >> ring->subbuf_shift;
	return RT_RESERVE_OK;
}

enum rt_reserve rt_thread_introduce(struct rt_ring *ring, struct task_struct *task,
				    u32 room_words, u64 *subbuf)
{
	struct rt_thread_entry *entry = entry_of(ring, task);
	struct rt_thread_identity identity;
	enum rt_reserve refused;

	identity_of(task, &identity);
	if (likely(is_known(ring, entry, &identity, room_words, subbuf)))
		return RT_RESERVE_OK;
	refused = write_thread(ring, task, &identity, 0, room_words, subbuf);
	if (refused)
		return refused;
	remember(ring->threads, entry, &identity, *subbuf);
	if (ring->policy != RT_POLICY_OVERWRITE)
		*subbuf = RT_SUBBUF_ANY;
	return RT_RESERVE_OK;
}

void rt_thread_say_exited(struct rt_ring *ring, struct task_struct *task)
{
	struct rt_thread_entry *entry = entry_of(ring, task);
	struct rt_thread_identity identity;
	u64 subbuf;

	identity_of(task, &identity);
	if (!is_known(ring, entry, &identity, RT_THREAD_WORDS, &subbuf))
		return;
	/* Forgotten first: what a nested context says of it now comes after its introduction. */
	WRITE_ONCE(entry->used, false);
	barrier();
	write_thread(ring, task, &identity, RT_THREAD_EXITED, 0, &subbuf);
}
