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

#include "daemon/config/config.h"

/*
 * Runs until it is told to stop. The configuration is taken over; argv is read again at a reload. Returns
 * EXIT_SUCCESS or EXIT_FAILURE, with the reason in the log.
 */
int engine_run(struct config *config, int argc, char **argv);

#endif
