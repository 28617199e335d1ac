/*
 * engine: the daemon as a whole: its parts, wired together and started in order; an orderly stop; a new
 * configuration while it runs.
 *
 *	loader process --rings--> drain workers --frames--> fanout --> sessions --> clients
 *
 * In: a configuration, and signals: SIGTERM and SIGINT stop it, SIGHUP reloads it. Out: the process's exit
 * status. Main thread; there is no other before the workers are started.
 */
#ifndef RINGTAIL_DAEMON_ENGINE_H
#define RINGTAIL_DAEMON_ENGINE_H

#include <stddef.h>

#include "daemon/config/config.h"
#include "query/error.h"

/*
 * Runs until a signal stops it. The configuration is taken over; argv is read again at a reload. Returns
 * EXIT_SUCCESS or EXIT_FAILURE, with the reason in the log.
 */
int engine_run(struct config *config, int argc, char **argv);

/*
 * For --check-config: finds out what a start would find out from the configuration alone: the account, the
 * back ends, that named files can be read, and that filters and probes are well-formed. Only a start can
 * ask the kernel whether a probe or an argument of that name exists. Opens files, changes nothing. 0;
 * -EINVAL: the configuration is wrong; -ENOENT, -EACCES, ...: a named file cannot be had.
 */
int engine_check(const struct config *config, struct error *error);

/* A part of the daemon. The parts stand in one table, each behind those it needs. */
struct engine;
struct engine_part {
	const char *name;	/* for the log */
	int (*start)(struct engine *engine, struct error *error);	/* 0, or -errno with *error */
	void (*stop)(struct engine *engine);	/* NULL: it leaves nothing behind; takes what is half made */
};

/* Of a part that fails, what is half made is stopped too, then all before it. Returns its error. */
int engine_parts_start(const struct engine_part *part, size_t n, struct engine *engine,
		       struct error *error);

/* All, from the last one back. */
void engine_parts_stop(const struct engine_part *part, size_t n, struct engine *engine);

#endif
