/*
 * thread_journal: the thread tables of all rings, for the next run of the daemon on the same rings: a memfd in the
 * service manager's store, into which the tables write each thread that they learn.
 *
 *	header page | ring 0: how many slots were ever used; the last texts of the ring;
 *		      THREADS_PER_RING_MAX slots | ring 1 ...
 *
 * The file is sparse: what was never used takes no memory, and is never looked at.
 *
 * A record that introduces a thread is released after the table has learnt it, so between this and the
 * rings nothing is missing, wherever a run was killed. In: a table's entries. Out: the same, at the
 * next start. A ring's slots belong to its drain worker once it has started.
 */
#ifndef RINGTAIL_DAEMON_RING_THREAD_JOURNAL_H
#define RINGTAIL_DAEMON_RING_THREAD_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "kmod/uapi/ringtail.h"

struct activation;
struct service_manager;
struct thread_journal;

struct thread_ring {
	uint64_t slots;			/* used so far: the others are holes in the file */
	uint64_t texts;			/* written so far; the last RT_TEXTS_MAX are there */
	struct text_slot {
		uint64_t id;		/* 0: the rest does not count; stored last */
		uint32_t bytes;
		uint32_t zero0;
		char data[RT_TEXT_BYTES_MAX];
	} text[RT_TEXTS_MAX];
	struct thread_slot {
		uint32_t used;		/* 1, and only then the rest counts; stored last */
		uint32_t tid;
		struct rt_thread thread;
	} slot[];
};

/*
 * Opens the journal of the last run if its rings were adopted (`adopted`); otherwise makes
 * one, which the manager keeps. Without a manager *journal is NULL, which everything below takes.
 */
int thread_journal_open(struct activation *activation, struct service_manager *manager,
			unsigned rings, bool adopted, struct thread_journal **journal,
			struct error *error);
void thread_journal_close(struct thread_journal *journal);

/* A ring's part, THREADS_PER_RING_MAX slots of it; NULL: nothing is kept. */
struct thread_ring *thread_journal_ring(struct thread_journal *journal, unsigned ring);

/* Writes, and takes back, one slot; whoever dies in the middle leaves an unused one. */
void thread_ring_write(struct thread_ring *ring, uint32_t slot, uint32_t tid,
		       const struct rt_thread *thread);
void thread_ring_clear(struct thread_ring *ring, uint32_t slot);
void thread_ring_write_text(struct thread_ring *ring, uint64_t id, const void *data, uint32_t bytes);

#endif
