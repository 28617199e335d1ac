/*
 * shape_set: the different shapes of probes in a recording: a name with its fields and their types.
 *
 * Several runs in one recording may have other probes by the same numbers, and other fields by the same
 * name: what has one table, or one class of events, is a shape. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_SHAPE_SET_H
#define RINGTAIL_CLIENT_CLI_SHAPE_SET_H

#include "client/lib/ringtail.h"
#include "proto/limits.h"

struct shape {
	struct shape *next;			/* of the set, the newest first */
	const struct ringtail_probe *probe;	/* that had it last: only compared */
	unsigned id;				/* from 1 on */
	void *of;				/* the caller's; NULL at first */
	char *spec;
	unsigned fields;
	char *field[PROBE_FIELDS_MAX];		/* their names */
	enum ringtail_type type[PROBE_FIELDS_MAX];
};

struct shape_set;

/* NULL: no memory. */
struct shape_set *shape_set_create(void);
void shape_set_destroy(struct shape_set *set);

/* The probe's; NULL: no memory. */
struct shape *shape_set_find(struct shape_set *set, const struct ringtail_probe *probe);

/* The newest of them; NULL: there is none. */
struct shape *shape_set_first(const struct shape_set *set);

#endif
