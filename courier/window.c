#include "courier/window.h"

#include <stdlib.h>

void window_init(struct window *window, size_t bytes_max)
{
	*window = (struct window){ .bytes_max = bytes_max };
	TAILQ_INIT(&window->parcels);
}

static void drop(struct window *window, struct parcel *parcel)
{
	if (window->next == parcel)
		window->next = TAILQ_NEXT(parcel, link);
	TAILQ_REMOVE(&window->parcels, parcel, link);
	window->bytes -= parcel->bytes;
	window->count--;
	free(parcel);
}

void window_fini(struct window *window)
{
	while (!TAILQ_EMPTY(&window->parcels))
		drop(window, TAILQ_FIRST(&window->parcels));
}

bool window_is_full(const struct window *window)
{
	return window->bytes >= window->bytes_max || window->count >= WINDOW_RECORDS_MAX;
}

void window_push(struct window *window, struct parcel *parcel)
{
	parcel->index = window->index++;
	TAILQ_INSERT_TAIL(&window->parcels, parcel, link);
	window->bytes += parcel->bytes;
	window->count++;
	window->ledger.forwarded++;
	if (!window->next)
		window->next = parcel;
}

struct parcel *window_next(struct window *window)
{
	struct parcel *before;

	while (window->next && window->next->state != PARCEL_WAITING)
		window->next = TAILQ_NEXT(window->next, link);
	before = window->next ? TAILQ_PREV(window->next, parcels, link) : NULL;
	return before && before->topic == KAFKA_RUNS && before->state != PARCEL_CONFIRMED ? NULL :
											   window->next;
}

void window_sent(struct window *window, struct parcel *parcel)
{
	parcel->state = PARCEL_SENT;
	window->ledger.resent += parcel->was_sent;
	parcel->was_sent = true;
}

/* What is confirmed goes, but for those behind one that is not: their order is the cursor's. */
static void trim(struct window *window)
{
	struct parcel *first;

	while ((first = TAILQ_FIRST(&window->parcels)) && first->state == PARCEL_CONFIRMED)
		drop(window, first);
}

void window_confirm(struct window *window, struct parcel *parcel)
{
	parcel->state = PARCEL_CONFIRMED;
	window->ledger.confirmed++;
	window->ledger.confirmed_bytes += parcel->bytes;
	trim(window);
}

void window_reject(struct window *window, struct parcel *parcel, struct parcel *instead)
{
	window->ledger.rejected++;
	if (parcel->label.span.known)
		window->ledger.rejected_attempts += parcel->label.span.end_seq - parcel->label.span.first_seq;
	if (instead) {
		instead->index = parcel->index;
		TAILQ_INSERT_AFTER(&window->parcels, parcel, instead, link);
		window->bytes += instead->bytes;
		window->count++;
		window->ledger.forwarded++;
		if (!window->next || window->next->index > instead->index)
			window->next = instead;
	}
	drop(window, parcel);
	trim(window);
}

void window_rewind(struct window *window)
{
	struct parcel *parcel;

	TAILQ_FOREACH(parcel, &window->parcels, link)
		if (parcel->state == PARCEL_SENT)
			parcel->state = PARCEL_WAITING;
	window->next = TAILQ_FIRST(&window->parcels);
}

uint64_t window_confirmed_upto(const struct window *window)
{
	const struct parcel *first = TAILQ_FIRST(&window->parcels);

	return first ? first->index : window->index;
}
