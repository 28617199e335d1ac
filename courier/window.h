/*
 * window: the parcels of one host that Kafka has not confirmed, in the order in which they came. They stay here until
 * they are confirmed, so that a new producer can send them again. All windows together are bounded in bytes and in
 * number. In: parcels, reports. Out: what to send next, each window in its turn; up to which parcel all of a window are
 * confirmed; the ledger. Main thread.
 *
 *	forwarded = confirmed + rejected + returned + in flight
 */
#ifndef RINGTAIL_COURIER_WINDOW_H
#define RINGTAIL_COURIER_WINDOW_H

#include "courier/parcel.h"

struct window_ledger {
	uint64_t forwarded, confirmed, rejected;	/* records */
	uint64_t returned;				/* records given up, for their source sends them again */
	uint64_t rejected_attempts;			/* of all CPUs, each of them in a Gap */
	uint64_t resent;				/* of `forwarded`: given to a second producer */
	uint64_t confirmed_bytes;
};

/* All of them. */
struct windows {
	LIST_HEAD(window_list, window) all;
	TAILQ_HEAD(window_queue, window) ready;		/* may have something to send; each has its turn */
	struct window_queue moved;			/* something of them was confirmed, or given up */
	size_t bytes, bytes_max;
	unsigned count;
	struct window_ledger ledger;
};

struct window {
	LIST_ENTRY(window) link;
	TAILQ_ENTRY(window) ready_link, moved_link;
	bool is_ready, has_moved;
	struct windows *windows;
	const char *host;		/* the records' key; borrowed */
	TAILQ_HEAD(parcels, parcel) parcels;
	struct parcel *next;		/* the first that waits; NULL: none */
	uint64_t index;			/* of the next that comes; all before it that are not here are confirmed */
	bool refused;			/* Kafka never takes the beginning of its run: nothing more is sent */
};

void windows_init(struct windows *windows, size_t bytes_max);

/* Whether no more should come: the source is to be left alone. One frame more than that always fits. */
bool windows_are_full(const struct windows *windows);

/*
 * The next that is to be sent; NULL: none now. A run's beginning stands in the way of what is behind it in its window
 * until it is confirmed: nothing is in PREFIX.frames that PREFIX.runs cannot decode.
 */
struct parcel *windows_next(struct windows *windows);

/* A producer is gone: whatever was not confirmed waits again. */
void windows_rewind(struct windows *windows);

/* Of those that were sent, or wait. */
uint64_t windows_in_flight(const struct windows *windows);

void window_init(struct window *window, struct windows *windows, const char *host);

/* No producer may have its parcels any more: those that are not confirmed are given up. */
void window_fini(struct window *window);

/* Takes the parcel. */
void window_push(struct window *window, struct parcel *parcel);

void window_sent(struct parcel *parcel);
void window_confirm(struct parcel *parcel);

/* Kafka does not take it: it is counted and freed, and `instead` stands in its place (NULL: nothing does). */
void window_reject(struct parcel *parcel, struct parcel *instead);

/* It is to be in `moved`. */
void window_note_move(struct window *window);

/* Kafka never takes the beginning of its run. */
void window_refuse(struct window *window);

/* Gives up those that no producer has. */
void window_give_up_waiting(struct window *window);

/* Every parcel with a smaller index is confirmed. */
uint64_t window_confirmed_upto(const struct window *window);

#endif
