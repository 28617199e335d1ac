/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * provider_module: probes that other modules have by kmod/uapi/ringtail_probe.h.
 *
 * In: modules that come and go, at any time. Out: numbers from RT_PROBE_MADE on, and events. A probe keeps its number,
 * and is listed, as long as this module is loaded, also while its own is not: what a plan wants of it is recorded
 * again when that is back.
 */
#ifndef RT_PROVIDER_MODULE_H
#define RT_PROVIDER_MODULE_H

#include <linux/types.h>

#include "kmod/uapi/ringtail_ioctl.h"

struct rt_consumer;
struct rt_plan;

int rt_module_init(void);
/* No consumer is left. */
void rt_module_fini(void);

/* For as long as the consumer lives. */
void rt_module_join(struct rt_consumer *consumer);
void rt_module_leave(struct rt_consumer *consumer);

/*
 * Brings what is attached to what the plan wants, and remembers the plan for modules that come; NULL: nothing. Under
 * the consumer's lock.
 */
int rt_module_update(struct rt_consumer *consumer, const struct rt_plan *plan);

/* Is signalled when such probes come or go: taken over; NULL: nobody. Under the consumer's lock. */
struct eventfd_ctx;
void rt_module_watch(struct rt_consumer *consumer, struct eventfd_ctx *eventfd);

/* As the registry's; numbers are never taken back. */
bool rt_module_has(u32 probe);
bool rt_module_describe(u32 probe, struct rt_probe_info *info);
void rt_module_field(u32 probe, u32 i, struct rt_field_info *field);

/* -ENODATA if it is no module's. */
int rt_module_source(u32 probe, struct rt_probe_source *source);

#endif
