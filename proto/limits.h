/*
 * limits: every bound on what crosses the wire, with its name; the table is limits.def.
 */
#ifndef RINGTAIL_PROTO_LIMITS_H
#define RINGTAIL_PROTO_LIMITS_H

/* An enum each: rows may use those before them. */
#define LIMIT(name, value, unit, beyond, told, help) enum { name = value };
#include "proto/limits.def"
#undef LIMIT

#endif
