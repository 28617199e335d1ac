/*
 * bell: answers a ring's doorbell, whatever it is made of, so that it can ring again. A bell belongs
 * to the worker that drains its ring.
 */
#ifndef RINGTAIL_DAEMON_RING_BELL_H
#define RINGTAIL_DAEMON_RING_BELL_H

#include "query/error.h"
#include "daemon/ring/handle.h"

struct bell {
	enum ring_bell kind;
	int fd;				/* borrowed; readable when rung */
	void *consumer, *producer;	/* RING_BELL_BPF_RINGBUF: its position pages */
};

int bell_init(struct bell *bell, enum ring_bell kind, int fd, struct error *error);
void bell_fini(struct bell *bell);
void bell_answer(struct bell *bell);

#endif
