/*
 * parts: what the daemon is made of, in one table: each part is started after those it needs, and all are
 * stopped in reverse. In: the table; out: everything runs, or nothing is left. Main thread.
 */
#ifndef RINGTAIL_DAEMON_PARTS_H
#define RINGTAIL_DAEMON_PARTS_H

#include <stddef.h>

#include "query/error.h"

struct engine;

struct part {
	const char *name;	/* for the log */
	int (*start)(struct engine *engine, struct error *error);	/* 0, or -errno with *error */
	void (*stop)(struct engine *engine);	/* NULL: it leaves nothing behind; takes what is half made */
};

/* Of a part that fails, what is half made is stopped too, then all before it. Returns its error. */
int parts_start(const struct part *part, size_t n, struct engine *engine, struct error *error);

/* All, from the last one back. */
void parts_stop(const struct part *part, size_t n, struct engine *engine);

#endif
