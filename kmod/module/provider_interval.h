/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * provider_interval: interval:s:1, a tick on one CPU, whichever has the timer.
 */
#ifndef RT_PROVIDER_INTERVAL_H
#define RT_PROVIDER_INTERVAL_H

struct rt_consumer;
struct rt_plan;

/* Brings the timer to what the plan wants; NULL: none. Under the consumer's lock; may sleep. */
int rt_interval_update(struct rt_consumer *consumer, const struct rt_plan *plan);

#endif
