/*
 * export_intake: frames in; out come the events of them that are to be sent, in the order of time,
 * with their class and their place in a trace. The export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_INTAKE_H
#define RINGTAIL_DAEMON_EXPORT_INTAKE_H

#include "daemon/base/limits.h"
#include "daemon/export/event.h"
#include "daemon/export/kind.h"

/*
 * Events of every CPU in, out again in the order of time, as far as a watermark promises that nothing
 * older comes. Within a bound: events beyond it leave unordered, counted.
 */
struct export_order {
	struct export_event *event[EXPORT_ORDER_EVENTS_MAX];
	unsigned events;
	bool unsorted;
};

/* The event goes over. There must be room: events < EXPORT_ORDER_EVENTS_MAX. */
void export_order_put(struct export_order *order, struct export_event *event);

/* Moves everything up to that time to the end of *list. */
void export_order_take(struct export_order *order, uint64_t upto_ns, struct export_list *list);

struct export_intake;

/* What became of events; added to. */
struct export_intake_counts {
	uint64_t taken, filtered, memory;
};

/* NULL: out of memory. */
struct export_intake *export_intake_create(const struct export_host *host,
					   const struct export_kind *kind, uint64_t events_per_s);
void export_intake_destroy(struct export_intake *intake);

/*
 * Takes a frame of so many events apart; what is due is put at the end of *list. What cannot be
 * taken apart, for want of memory, is counted as such. Frames are of this run until a ServerHello says
 * of which, and its Catalog what is in them.
 */
void export_intake_frame(struct export_intake *intake, uint64_t serial, const uint8_t *frame,
			 size_t bytes, uint64_t events, struct export_list *list,
			 struct export_intake_counts *counts);

/* Everything is due: no more will come. */
void export_intake_flush(struct export_intake *intake, struct export_list *list,
			 struct export_intake_counts *counts);

/* Taken and not yet due. */
uint64_t export_intake_waiting(const struct export_intake *intake);

/*
 * Before the first frame: keeps how far all is dealt with, for whoever acknowledges it. At most
 * EXPORT_FRAMES_UNSETTLED_MAX frames may be given beyond that. The events must be destroyed before
 * the intake. -ENOMEM.
 */
int export_intake_track(struct export_intake *intake);

/* Every event up to there is filtered or destroyed. Without export_intake_track(): was taken apart. */
uint64_t export_intake_settled_frame(struct export_intake *intake);

#endif
