/*
 * window: the parcels that Kafka has not confirmed, in the order in which they came: bounded in bytes and in
 * number. They stay here until they are confirmed, so that a new producer can send them again. In: parcels,
 * reports. Out: what to send next; up to which one all are confirmed; the ledger. Main thread.
 *
 *	forwarded = confirmed + rejected + in flight
 */
#ifndef RINGTAIL_COURIER_WINDOW_H
#define RINGTAIL_COURIER_WINDOW_H

#include "courier/parcel.h"

struct window_ledger {
	uint64_t forwarded, confirmed, rejected;	/* records */
	uint64_t rejected_attempts;			/* of all CPUs, each of them in a Gap */
	uint64_t resent;				/* of `forwarded`: given to a second producer */
	uint64_t confirmed_bytes;
};

struct window {
	TAILQ_HEAD(parcels, parcel) parcels;
	struct parcel *next;		/* the first that waits; NULL: none */
	size_t bytes, bytes_max;
	unsigned count;
	uint64_t index;			/* of the next that comes; all before it that are not here are confirmed */
	struct window_ledger ledger;
};

void window_init(struct window *window, size_t bytes_max);
void window_fini(struct window *window);

/* Whether no more should come: the source is to be left alone. One frame more than that always fits. */
bool window_is_full(const struct window *window);

/* Takes the parcel. */
void window_push(struct window *window, struct parcel *parcel);

/*
 * The next that is to be sent; NULL: none now. A run's beginning stands in the way of what is behind it until
 * it is confirmed: nothing is in PREFIX.frames that PREFIX.runs cannot decode.
 */
struct parcel *window_next(struct window *window);
void window_sent(struct window *window, struct parcel *parcel);
void window_confirm(struct window *window, struct parcel *parcel);

/* Kafka does not take it: it is counted and freed, and `instead` stands in its place (NULL: nothing does). */
void window_reject(struct window *window, struct parcel *parcel, struct parcel *instead);

/* A producer is gone: whatever was not confirmed waits again. */
void window_rewind(struct window *window);

/* Every parcel with a smaller index is confirmed. */
uint64_t window_confirmed_upto(const struct window *window);

#endif
