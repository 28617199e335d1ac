/* sim_daemon: the engine, wired as daemon/engine.c wires it, with the made-up world at its edges. */
#ifndef RINGTAIL_TESTS_SIM_DAEMON_H
#define RINGTAIL_TESTS_SIM_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/spool/spool.h"
#include "tests/sim/sim_source.h"

struct sim_daemon_config {
	struct source_config_sim source;
	unsigned workers, clients_max;
	uint64_t batch_interval_ns;
	uint64_t history_bytes, history_age_ns, queue_bytes;
	uint64_t hello_timeout_ns;
	int permanent;			/* of oracle_specs; -1: none */
	uint64_t viewer_rate;		/* 0: any */

	enum spool_durability durability;
	uint64_t spool_bytes, segment_bytes, sync_interval_ns;
};

/* The one that runs, or NULL. */
struct loader *daemon_loader(void);

/* Its number, from 1; 0: none runs. */
unsigned daemon_run(void);

/* Whether that run was told to leave its rings to the next. */
bool daemon_handed_over(unsigned run);

/* It has come up: what fails now does not keep it from starting. */
bool daemon_serves(void);

/* On rings of its own; or on `kept`, of a run before, with what else the service manager has kept. */
void daemon_start(const struct sim_daemon_config *config, struct loader *kept);

/* The part of a new configuration that takes effect while it runs. */
void daemon_reload(const struct sim_daemon_config *config);

/*
 * An orderly stop: goes on in the background; daemon_loader() is NULL when it is done. hand_over: the rings are
 * left to the next run, if there is a service manager.
 */
void daemon_stop(bool hand_over);

/* SIGKILL of its loader alone: the engine sends what the rings hold, and ends as at a stop. */
void daemon_orphan(void);

/* SIGKILL, perhaps of everything: what the disk was not made to keep is gone then. */
void daemon_kill(bool power);

/* Its main loop stands still for so long, and the workers have sent as much as they may before. */
void daemon_lag(uint64_t ns);

/* Wrong on purpose, for the oracle to find: see daemon_faults[]. False: no such fault. */
bool daemon_break(const char *fault);
void daemon_list_faults(void);

#endif
