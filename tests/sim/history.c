#include "tests/sim/history.h"

#include "daemon/base/limits.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_daemon.h"
#include "tests/unit/daemon/small_catalog.h"

#define CLIENTS_MIN 2u
#define CLIENTS_MORE 8u
#define QUIET_NS (60 * SIM_S)	/* by then everybody has read everything */
#define SLOW_DISK_TIMES 10u	/* so much longer, off a disk that takes a part of each write */
#define BRIEF_NS (600 * SIM_MS)
#define START_NS (1000 * SIM_S)
#define NEST_NS_MAX (200 * SIM_MS)
#define WALL_NS (1700000000 * SIM_S)
#define WALL_2038_NS (2147483648 * SIM_S)
#define HOUR_NS (3600 * SIM_S)

static struct sim_daemon_config config;
static bool over, restarting, stat_done, lossy;
static unsigned overload_percent;
static enum spool_durability durability;

/* ---- What may be configured ------------------------------------------------------------------ */

static void choose_reloadable(void)
{
	config.batch_interval_ns = sim_chance(20) ? SIM_MS : sim_between(5, 100) * SIM_MS;
	config.history_bytes = sim_chance(50) ? 0 : sim_between(1 << 10, 1 << 20);
	config.history_age_ns = sim_chance(20) ? 0 : sim_between(SIM_MS, 5 * SIM_S);
	/* So small that a consumer that is connected falls back to the disk. */
	config.queue_bytes = lossy && sim_chance(50) ? sim_between(1 << 10, 16 << 10) :
				     sim_between(64 << 10, lossy ? 96 << 10 : 1 << 20);
	config.clients_max = CLIENTS_MIN + CLIENTS_MORE + 2;
	config.hello_timeout_ns = sim_between(1, 5) * SIM_S;
	config.permanent = sim_chance(30) ? (int)sim_below(ORACLE_SPECS) : -1;
	config.viewer_rate = sim_chance(15) ? sim_between(20, 2000) : 0;
	client_note_queue_bytes(config.queue_bytes);
	client_note_queue_bytes(config.history_bytes);
}

static void choose_fixed(const struct loader *kept)
{
	if (!kept) {
		config.source.rings = (unsigned)sim_between(1, SOURCE_RINGS_MAX);
		config.source.ring_bytes = 1ull << sim_between(14, 17);
		config.source.epoch++;
	}
	config.workers = (unsigned)sim_between(1, config.source.rings);
	config.durability = durability;
	config.spool_bytes = 64 << 20;
	config.segment_bytes = sim_chance(50) ? sim_between(1 << 10, 1 << 12) :
						sim_between(1 << 12, 1 << 16);
	/* As it is shipped, or so short that most turns sync. */
	config.sync_interval_ns = sim_chance(30) ? SIM_S : sim_between(1, 500) * SIM_MS;
}

/* ---- Restarts -------------------------------------------------------------------------------- */

/* The service manager has the rings; now and then whoever starts the daemon wants others. */
static struct loader *take_rings(void)
{
	struct loader *kept = sim.manager ? source_newest() : NULL;

	if (!kept || source_has_ended(kept))
		return NULL;
	if (sim_chance(85))
		return kept;
	sim_log("the rings are given up");
	oracle_gave_up();
	source_stopping(kept);
	source_end(kept, source_ended_well(kept), false);
	return NULL;
}

static void start_again(void *context)
{
	struct loader *kept;

	(void)context;
	if (daemon_loader()) {
		sim_after(10 * SIM_MS, start_again, NULL);
		return;
	}
	restarting = false;
	/* Whoever starts a daemon has seen to its disk. */
	sim_disk_cut(false);
	sim_disk_check();
	kept = take_rings();
	choose_fixed(kept);
	daemon_start(&config, kept);
}

static void restart(void)
{
	bool serves = daemon_serves();

	if (restarting)
		return;
	restarting = true;
	if (serves && sim_chance(50))
		daemon_stop(true);
	else if (serves && sim_chance(30))
		daemon_orphan();
	else
		daemon_kill(sim_chance(50));
	sim_after(sim_between(SIM_MS, SIM_S), start_again, NULL);
}

/* ---- What happens ---------------------------------------------------------------------------- */

static void jump_wall_clock(void)
{
	sim.gave_up = true;		/* what is kept may be too old by it */
	sim.jumped = true;
	switch (sim_below(4)) {
	case 0:
		sim.wall_ns += HOUR_NS;
		break;
	case 1:
		sim.wall_ns -= HOUR_NS;
		break;
	case 2:
		sim.wall_ns = -(int64_t)sim.now_ns;
		break;
	default:
		sim.wall_ns = WALL_2038_NS;
	}
	sim_log("the wall clock jumps");
}

static void disturb(struct loader *loader)
{
	switch (sim_below(46)) {
	case 0:
		jump_wall_clock();
		break;
	case 1:
		choose_reloadable();
		daemon_reload(&config);
		break;
	case 2:
		source_refuse_next(loader);
		break;
	case 3:
		if (!sim.brief && sim_chance(sim.durable ? 80 : 30))
			restart();
		break;
	case 4:
	case 5:
		if (stat_done)
			client_ask_stat(false, &stat_done);
		break;
	case 6:
		if (sim.durable && sim_chance(20))
			sim_disk_fail();
		break;
	case 40:
	case 41:
		/* A healthy client would lose by it. */
		if (lossy)
			daemon_lag(sim_between(1, 400) * SIM_MS);
		break;
	case 42:
	case 43:
	case 44:
	case 45:
		client_ask_change();
		break;
	default:
		break;
	}
}

/* A daemon that does not run for long. */
static void restart_often(void *context)
{
	(void)context;
	if (over)
		return;
	if (daemon_loader())
		restart();
	sim_after(sim_between(200 * SIM_MS, 4 * SIM_S), restart_often, NULL);
}

/* A disk that fails for a while, is well again, and fails again. */
static void wear_disk(void *context)
{
	(void)context;
	if (over)
		return;
	if (daemon_serves())
		sim_disk_fail();
	sim_after(sim_between(100, 2000) * SIM_MS, wear_disk, NULL);
}

static void happen_to(struct loader *loader)
{
	unsigned kind = (unsigned)sim_below(100);

	if (kind < 5)
		source_nest(loader, sim_below(NEST_NS_MAX));
	else if (kind < 8)
		source_lose(loader, (unsigned)sim_between(1, 5));
	else if (kind < 10)
		source_bad(loader);
	else if (kind < 12)
		source_exit(loader);
	else if (kind < 16)
		disturb(loader);
	else if (sim_below(1000) < overload_percent * 10)
		source_burst(loader, (unsigned)sim_between(500, 4000));
	else
		source_burst(loader, (unsigned)sim_between(1, 60));
}

static void happen(void *context)
{
	(void)context;
	if (over)
		return;
	/* What no daemon records happens all the same. */
	if (!daemon_loader())
		source_burst(source_newest(), (unsigned)sim_between(1, 60));
	else if (!restarting)
		happen_to(daemon_loader());
	/* Now and then nothing happens for long. */
	sim_after(sim_below(sim_chance(1) ? 4 * SIM_S : 20 * SIM_MS), happen, NULL);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void wait_for(const bool *done, const char *what)
{
	uint64_t since_ns = sim.now_ns, slow_ns = sim_disk_is_slow() ? SLOW_DISK_TIMES * QUIET_NS : 0;

	sim_run(since_ns + QUIET_NS, done);
	if (!*done && slow_ns) {
		sim_log("a disk that takes a part of each write is waited for");
		sim_run(since_ns + slow_ns, done);
	}
	if (!*done)
		sim_fail("after %llu s %s", (unsigned long long)((sim.now_ns - since_ns) / SIM_S), what);
}

static void end_well(void)
{
	unsigned run;
	bool ended = false;

	over = true;
	client_calm_all();
	sim_run(sim.now_ns + 10 * SIM_S, NULL);
	if (!stat_done)
		wait_for(&stat_done, "a stat is not answered");
	client_ask_stat(true, &stat_done);
	wait_for(&stat_done, "something is still in flight");
	run = daemon_run();
	daemon_stop(false);
	for (uint64_t end = sim.now_ns + 2 * SHUTDOWN_NS; !ended; ended = !daemon_loader()) {
		/* All that waits for a slow disk is still written. */
		if (sim.now_ns > end && sim.now_ns > sim_disk_used_ns() + SHUTDOWN_NS)
			sim_fail("the daemon does not end");
		if (sim.now_ns > end + QUIET_NS)
			sim_fail("the daemon does not come to its end");
		sim_run(sim.now_ns + 10 * SIM_MS, NULL);
	}
	/* The last bytes are still on their way. */
	sim_run(sim.now_ns + SIM_S, NULL);
	/* Without memory for a Bye, the end of the connection has to do. */
	if (!sim.shortage.struck && client_unserved(run))
		sim_fail("%s: the daemon ended without a Bye", client_unserved(run));
	if (sim_net_sockets())
		sim_fail("the daemon has ended and left %u sockets open", sim_net_sockets());
	sim_disk_check();
}

void history_run(void)
{
	unsigned clients = (unsigned)sim_between(CLIENTS_MIN, CLIENTS_MORE);
	unsigned kinds = sim.durable ? CLIENT_KINDS : CLIENT_DURABLE;
	uint64_t length_ns = sim_between(SIM_S, 8 * SIM_S);

	sim.now_ns = START_NS;
	sim.wall_ns = WALL_NS;
	stat_done = true;
	/* Without a healthy client queues are small; and alone, what a client leaves is left indeed. */
	lossy = sim_chance(40);
	clients = lossy && sim_chance(50) ? 1 : clients;
	overload_percent = sim_chance(40) ? (unsigned)sim_below(10) : 0;
	if (sim.durable)
		durability = sim_chance(50) ? SPOOL_WRITTEN : SPOOL_FSYNC;
	sim.operators = sim_chance(50);
	sim.manager = sim_chance(60);
	oracle_begin(small_catalog_get());
	choose_fixed(NULL);
	choose_reloadable();
	daemon_start(&config, NULL);
	for (unsigned i = 0; i < clients; i++)
		client_create(i, lossy ? (enum client_kind)sim_between(CLIENT_SLOW, kinds - 1)
				 : i ? (enum client_kind)sim_below(kinds) : CLIENT_HEALTHY);
	sim_after(0, happen, NULL);
	if (sim.durable && sim_chance(20))
		sim_after(sim_below(SIM_S), wear_disk, NULL);
	if (!sim.brief && sim_chance(30))
		sim_after(sim_below(3 * SIM_S), restart_often, NULL);
	sim_run(sim.now_ns + (sim.brief ? BRIEF_NS : length_ns), NULL);
	end_well();
	client_summary();
}
