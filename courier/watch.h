/*
 * watch: what a courier waits for beside its source: reports of the producer, and signals. In: SIGTERM, SIGINT and
 * SIGUSR1, which the caller has blocked before any thread was made. Out: one descriptor to wait for; whether the
 * courier is to end; the ledger, printed. Main thread.
 */
#ifndef RINGTAIL_COURIER_WATCH_H
#define RINGTAIL_COURIER_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "courier/producer.h"

struct watch {
	int events;			/* epoll: readable when there is something */
	int signals;
	bool stopping;			/* a signal asked for it */
};

/* -errno with *error. watch_close() is safe also then. */
int watch_open(struct watch *watch, const struct producer *producer, struct ringtail_error *error);
void watch_close(struct watch *watch);

/* True: the ledger is asked for. */
bool watch_take_signals(struct watch *watch);

struct ledger_facts {
	bool json;
	uint64_t unacknowledged;	/* records, or a relay's frames, that the source keeps still */
	uint64_t lost;			/* before the source was read */
	uint64_t hosts;			/* that frames came from */
};

void ledger_print(const struct windows *windows, const struct producer *producer, const struct ledger_facts *facts,
		  FILE *to);

#endif
