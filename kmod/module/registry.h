/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * registry: every probe by its id: is it there, what is it called, which fields has it. Built from
 * the tables of the providers; after init only probes of other modules are added, with higher ids.
 */
#ifndef RT_REGISTRY_H
#define RT_REGISTRY_H

#include "kmod/uapi/ringtail_ioctl.h"

/* Probes that are there for every consumer: kprobes come by name, on demand. */
bool rt_registry_has(u32 probe);
u32 rt_registry_count(void);

/* False if there is no such probe. */
bool rt_registry_describe(u32 probe, struct rt_probe_info *info);

/* The i-th field of a probe that is there. */
void rt_registry_field(u32 probe, u32 i, struct rt_field_info *field);

#endif
