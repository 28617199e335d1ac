/*
 * export_order: events of every CPU in, out again in the order of time, as far as a watermark says
 * that nothing older will come. Within a bound: what is too much goes out unordered, counted. The
 * export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_ORDER_H
#define RINGTAIL_DAEMON_EXPORT_ORDER_H

#include "daemon/export/event.h"
#include "daemon/base/limits.h"

struct export_order {
	struct export_event *event[EXPORT_ORDER_EVENTS_MAX];
	unsigned events;
	bool sorted;
};

/* The event goes over. There must be room: events < EXPORT_ORDER_EVENTS_MAX. */
void export_order_put(struct export_order *order, struct export_event *event);

/* Moves everything up to that time to the end of *list. */
void export_order_take(struct export_order *order, uint64_t upto_ns, struct export_list *list);

#endif
