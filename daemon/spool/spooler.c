/* spooler: all spools of the daemon, and the tick that gives them their turns. See spool.h. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/spool/orphans.h"
#include "daemon/spool/private.h"

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct spooler *spooler = context;
	struct spool *spool, *next;

	(void)fd, (void)what;
	for (spool = LIST_FIRST(&spooler->spools); spool; spool = next) {
		next = LIST_NEXT(spool, link);
		spool_turn(spool);
	}
	spool_orphans_turn(spooler->orphans);
}

static int start_tick(struct spooler *spooler)
{
	uint64_t tick_ns = spooler->config.sync_interval_ns / 2;
	struct timeval interval;

	if (tick_ns < TICK_NS_MIN || spooler->config.durability != SPOOL_FSYNC)
		tick_ns = NS_PER_S;
	if (tick_ns > NS_PER_S)
		tick_ns = NS_PER_S;
	interval = (struct timeval){.tv_sec = (time_t)(tick_ns / NS_PER_S),
				    .tv_usec = (suseconds_t)(tick_ns % NS_PER_S / 1000)};
	spooler->tick = event_new(spooler->config.base, -1, EV_PERSIST, on_tick, spooler);
	return spooler->tick && event_add(spooler->tick, &interval) == 0 ? 0 : -ENOMEM;
}

int spooler_create(const struct spooler_config *config, struct spooler **out, struct error *error)
{
	struct spooler *spooler = calloc(1, sizeof(*spooler));

	if (!spooler)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	LIST_INIT(&spooler->spools);
	spooler->config = *config;
	spooler->codec = frame_codec_create(1);
	spooler->cpu_of = calloc(config->rings + 1, sizeof(*spooler->cpu_of));
	spooler->orphans = spool_orphans_create(spooler);
	if (!spooler->codec || !spooler->cpu_of || !spooler->orphans || start_tick(spooler) != 0) {
		spooler_destroy(spooler);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	memcpy(spooler->cpu_of, config->cpu_of, config->rings * sizeof(*spooler->cpu_of));
	*out = spooler;
	return 0;
}

void spooler_destroy(struct spooler *spooler)
{
	struct spool *spool, *next;

	if (!spooler)
		return;
	spooler->ending = true;
	for (spool = LIST_FIRST(&spooler->spools); spool; spool = next) {
		next = LIST_NEXT(spool, link);
		spool_close(spool);
	}
	disk_thread_settle(spooler->config.thread);
	while ((spool = LIST_FIRST(&spooler->spools)))
		spool_free(spool);
	spool_orphans_destroy(spooler->orphans);
	if (spooler->tick)
		event_free(spooler->tick);
	frame_codec_destroy(spooler->codec);
	free(spooler->cpu_of);
	free(spooler);
}

void spooler_set_holder(struct spooler *spooler,
			void (*each_held)(void *holder, spooler_name *name, void *context),
			void *holder)
{
	spooler->each_held = each_held;
	spooler->holder = holder;
}

bool spooler_has(const struct spooler *spooler, const char *name)
{
	const struct spool *spool;

	LIST_FOREACH(spool, &spooler->spools, link)
		if (!spool->closing && strcmp(spool->config.name, name) == 0)
			return true;
	return false;
}

void spooler_remove(struct spooler *spooler, const char *name)
{
	spool_orphans_remove(spooler->orphans, name);
}

void spooler_each_orphan(const struct spooler *spooler,
			 void (*each)(void *context, const struct spool_stat *stat), void *context)
{
	spool_orphans_each(spooler->orphans, each, context);
}

unsigned spooler_orphans(const struct spooler *spooler)
{
	return spool_orphans_count(spooler->orphans);
}

void spooler_each(const struct spooler *spooler,
		  void (*each)(void *context, const struct spool *spool), void *context)
{
	const struct spool *spool;

	LIST_FOREACH(spool, &spooler->spools, link)
		if (!spool->closing)
			each(context, spool);
}

unsigned spooler_count(const struct spooler *spooler)
{
	const struct spool *spool;
	unsigned n = 0;

	LIST_FOREACH(spool, &spooler->spools, link)
		n += !spool->closing;
	return n;
}

enum spool_durability spooler_durability(const struct spooler *spooler)
{
	return spooler->config.durability;
}

uint64_t spooler_sync_interval_ns(const struct spooler *spooler)
{
	return spooler->config.durability == SPOOL_FSYNC ? spooler->config.sync_interval_ns : 0;
}
