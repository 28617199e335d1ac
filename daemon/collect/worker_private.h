/*
 * worker_private: the inside of worker, shared by the worker*.c alone. Its thread's, where nothing else is
 * said.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_WORKER_PRIVATE_H
#define RINGTAIL_DAEMON_COLLECT_WORKER_PRIVATE_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/collect/drain.h"
#include "daemon/base/limits.h"
#include "daemon/collect/worker.h"
#include "daemon/collect/worker_out.h"

enum worker_mood {
	WORKER_IDLE,
	WORKER_ACTIVE,
	WORKER_LEFT,		/* the rings are a later run's */
};

struct worker_order {
	struct mail mail;
	enum {
		ORDER_ADD,
		ORDER_REMOVE,
		ORDER_DRAIN,
		ORDER_LEAVE,
		ORDER_STOP,
	} kind;
	uint32_t subscription;
	struct batcher **batcher;	/* ORDER_ADD: one for each ring */
	struct worker_mail *answer;	/* what is promised with the order; NULL: nothing */
};

struct worker_bell {
	struct worker *worker;
	struct drain *drain;
	struct event *event;
	struct worker_mail *corrupt;	/* to be sent when it is; NULL: it was */
};

struct worker {
	struct worker_config config;
	_Atomic uint64_t batch_interval_ns;
	struct mailbox in;
	struct worker_out out;
	struct worker_order stop;	/* the last one: it must not need memory */

	pthread_t thread;
	bool started;
	struct event_base *base;
	struct event *orders, *tick;
	struct frame_codec *codec;
	enum worker_mood mood;

	struct drain *drain[RINGS_MAX];
	struct worker_bell bell[RINGS_MAX];
	uint32_t rings;

	pthread_mutex_t stat_lock;	/* taken once a pass */
	struct worker_ring_stat *stat;
	_Atomic uint64_t beats;		/* passes */
};

/* ---- Passes (worker.c) ------------------------------------------------------------------------- */

/* Takes what the rings hold now, at most a turn's worth of each. Returns how many records. */
uint64_t worker_read_rings(struct worker *worker);

/* Drains, flushes, and tells how far every ring has come. */
uint64_t worker_flush_pass(struct worker *worker);

/* ---- Orders (worker_order.c) -------------------------------------------------------------------- */

void worker_on_orders(evutil_socket_t fd, short what, void *context);
void worker_free_order(struct worker *worker, struct worker_order *order);

#endif
