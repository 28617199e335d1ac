/* control_consumer: the durable consumers' part of a Stat. Main thread. */
#ifndef RINGTAIL_DAEMON_SERVE_CONTROL_CONSUMER_H
#define RINGTAIL_DAEMON_SERVE_CONTROL_CONSUMER_H

#include "daemon/stream/fanout.h"
#include "proto/ringtail.pb-c.h"

struct control_consumers;

/* Fills consumer of *stat, as control_spools_fill() does. NULL: out of memory. */
struct control_consumers *control_consumers_fill(const struct fanout *fanout,
						 Ringtail__V1__Stat *stat);
void control_consumers_destroy(struct control_consumers *consumers);

#endif
