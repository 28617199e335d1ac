#include "courier/window.h"

#include <stdlib.h>

/* ---- One host's ------------------------------------------------------------------------------- */

void window_init(struct window *window, struct windows *windows, const char *host)
{
	*window = (struct window){ .windows = windows, .host = host };
	TAILQ_INIT(&window->parcels);
	LIST_INSERT_HEAD(&windows->all, window, link);
}

static void offer(struct window *window)
{
	if (!window->is_ready && window->next)
		TAILQ_INSERT_TAIL(&window->windows->ready, window, ready_link);
	window->is_ready |= window->next != NULL;
}

void window_note_move(struct window *window)
{
	if (!window->has_moved)
		TAILQ_INSERT_TAIL(&window->windows->moved, window, moved_link);
	window->has_moved = true;
}

static void drop(struct parcel *parcel)
{
	struct window *window = parcel->window;

	if (window->next == parcel)
		window->next = TAILQ_NEXT(parcel, link);
	TAILQ_REMOVE(&window->parcels, parcel, link);
	window->windows->bytes -= parcel->bytes;
	window->windows->count--;
	window_note_move(window);
	free(parcel);
}

/* What is confirmed goes, but for those behind one that is not: their order is the cursor's. */
static void trim(struct window *window)
{
	struct parcel *first;

	while ((first = TAILQ_FIRST(&window->parcels)) && first->state == PARCEL_CONFIRMED)
		drop(first);
}

static void give_up(struct window *window, bool all)
{
	struct parcel *parcel, *next;

	for (parcel = TAILQ_FIRST(&window->parcels); parcel; parcel = next) {
		next = TAILQ_NEXT(parcel, link);
		if (parcel->state != PARCEL_WAITING && !all)
			continue;
		window->windows->ledger.returned += parcel->state != PARCEL_CONFIRMED;
		drop(parcel);
	}
	trim(window);
}

void window_give_up_waiting(struct window *window)
{
	give_up(window, false);
}

void window_fini(struct window *window)
{
	give_up(window, true);
	if (window->is_ready)
		TAILQ_REMOVE(&window->windows->ready, window, ready_link);
	if (window->has_moved)
		TAILQ_REMOVE(&window->windows->moved, window, moved_link);
	LIST_REMOVE(window, link);
}

static void account(struct window *window, const struct parcel *parcel)
{
	window->windows->bytes += parcel->bytes;
	window->windows->count++;
	window->windows->ledger.forwarded++;
}

void window_push(struct window *window, struct parcel *parcel)
{
	parcel->window = window;
	parcel->index = window->index++;
	TAILQ_INSERT_TAIL(&window->parcels, parcel, link);
	account(window, parcel);
	if (!window->next)
		window->next = parcel;
	offer(window);
}

static struct parcel *next_of(struct window *window)
{
	struct parcel *before;

	while (window->next && window->next->state != PARCEL_WAITING)
		window->next = TAILQ_NEXT(window->next, link);
	before = window->next ? TAILQ_PREV(window->next, parcels, link) : NULL;
	return window->refused || (before && before->topic == KAFKA_RUNS && before->state != PARCEL_CONFIRMED) ?
		       NULL : window->next;
}

void window_sent(struct parcel *parcel)
{
	parcel->state = PARCEL_SENT;
	parcel->window->windows->ledger.resent += parcel->was_sent;
	parcel->was_sent = true;
}

void window_confirm(struct parcel *parcel)
{
	struct window *window = parcel->window;
	bool opens = parcel->topic == KAFKA_RUNS;

	parcel->state = PARCEL_CONFIRMED;
	window->windows->ledger.confirmed++;
	window->windows->ledger.confirmed_bytes += parcel->bytes;
	trim(window);
	if (opens)
		offer(window);
}

void window_reject(struct parcel *parcel, struct parcel *instead)
{
	struct window *window = parcel->window;

	window->windows->ledger.rejected++;
	if (parcel->label.span.known)
		window->windows->ledger.rejected_attempts +=
			parcel->label.span.end_seq - parcel->label.span.first_seq;
	if (instead) {
		instead->window = window;
		instead->index = parcel->index;
		instead->items = parcel->items;
		TAILQ_INSERT_AFTER(&window->parcels, parcel, instead, link);
		account(window, instead);
		if (!window->next || window->next->index > instead->index)
			window->next = instead;
	}
	drop(parcel);
	trim(window);
	offer(window);
}

void window_refuse(struct window *window)
{
	window->refused = true;
	window_note_move(window);
}

uint64_t window_confirmed_upto(const struct window *window)
{
	const struct parcel *first = TAILQ_FIRST(&window->parcels);

	return first ? first->index : window->index;
}

/* ---- All of them ------------------------------------------------------------------------------ */

void windows_init(struct windows *windows, size_t bytes_max)
{
	*windows = (struct windows){ .bytes_max = bytes_max };
	LIST_INIT(&windows->all);
	TAILQ_INIT(&windows->ready);
	TAILQ_INIT(&windows->moved);
}

bool windows_are_full(const struct windows *windows)
{
	return windows->bytes >= windows->bytes_max || windows->count >= windows->bytes_max / WINDOW_RECORD_BYTES;
}

struct parcel *windows_next(struct windows *windows)
{
	struct window *window;
	struct parcel *parcel;

	while ((window = TAILQ_FIRST(&windows->ready))) {
		parcel = next_of(window);
		TAILQ_REMOVE(&windows->ready, window, ready_link);
		window->is_ready = parcel;
		if (parcel) {
			TAILQ_INSERT_TAIL(&windows->ready, window, ready_link);
			return parcel;
		}
	}
	return NULL;
}

void windows_rewind(struct windows *windows)
{
	struct window *window;
	struct parcel *parcel;

	LIST_FOREACH(window, &windows->all, link) {
		TAILQ_FOREACH(parcel, &window->parcels, link)
			if (parcel->state == PARCEL_SENT)
				parcel->state = PARCEL_WAITING;
		window->next = TAILQ_FIRST(&window->parcels);
		offer(window);
	}
}

uint64_t windows_in_flight(const struct windows *windows)
{
	const struct window *window;
	const struct parcel *parcel;
	uint64_t n = 0;

	LIST_FOREACH(window, &windows->all, link)
		TAILQ_FOREACH(parcel, &window->parcels, link)
			n += parcel->state != PARCEL_CONFIRMED;
	return n;
}
