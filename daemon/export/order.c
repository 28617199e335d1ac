#include "daemon/export/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void export_order_put(struct export_order *order, struct export_event *event)
{
	assert(order->events < EXPORT_ORDER_EVENTS_MAX);
	order->event[order->events++] = event;
	order->sorted = false;
}

static int compare(const void *left, const void *right)
{
	const struct export_event *a = *(struct export_event *const *)left;
	const struct export_event *b = *(struct export_event *const *)right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

void export_order_take(struct export_order *order, uint64_t upto_ns, struct export_list *list)
{
	unsigned taken = 0;

	if (!order->sorted)
		qsort(order->event, order->events, sizeof(order->event[0]), compare);
	order->sorted = true;
	for (; taken < order->events && order->event[taken]->time_ns <= upto_ns; taken++)
		TAILQ_INSERT_TAIL(list, order->event[taken], link);
	order->events -= taken;
	memmove(order->event, order->event + taken, order->events * sizeof(order->event[0]));
}
