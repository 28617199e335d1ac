/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * provider_profile: profile:hz:99, where every CPU is, 99 or rate_hz times a second.
 */
#ifndef RT_PROVIDER_PROFILE_H
#define RT_PROVIDER_PROFILE_H

struct rt_consumer;
struct rt_plan;

/* Brings the timers to what the plan wants; NULL: none. Under the consumer's lock; may sleep. */
int rt_profile_update(struct rt_consumer *consumer, const struct rt_plan *plan);

int rt_profile_init(void);
void rt_profile_fini(void);

#endif
