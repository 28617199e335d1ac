/* control_consumer: the durable consumers' part of a Stat. Main thread. */
#ifndef RINGTAIL_DAEMON_SERVE_ANSWERS_CONSUMER_H
#define RINGTAIL_DAEMON_SERVE_ANSWERS_CONSUMER_H

#include "daemon/stream/fanout.h"
#include "proto/ringtail.pb-c.h"

struct answers_consumers;

/* Fills consumer of *stat, as answers_spools_fill() does. NULL: out of memory. */
struct answers_consumers *answers_consumers_fill(const struct fanout *fanout,
						 Ringtail__V1__Stat *stat);
void answers_consumers_destroy(struct answers_consumers *consumers);

#endif
