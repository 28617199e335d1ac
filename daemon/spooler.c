/* spooler: all spools of the daemon, and the tick that gives them their turns. See spool.h. */
#include <stdlib.h>
#include <string.h>

#include "daemon/clock.h"
#include "daemon/limits.h"
#include "daemon/spool_private.h"

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct spooler *spooler = context;
	struct spool *spool, *next;

	(void)fd, (void)what;
	for (spool = LIST_FIRST(&spooler->spools); spool; spool = next) {
		next = LIST_NEXT(spool, link);
		spool_turn(spool);
	}
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
	if (!spooler->codec || !spooler->cpu_of || start_tick(spooler) != 0) {
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
	for (spool = LIST_FIRST(&spooler->spools); spool; spool = next) {
		next = LIST_NEXT(spool, link);
		spool_close(spool);
	}
	if (!LIST_EMPTY(&spooler->spools))
		disk_thread_settle(spooler->config.thread);
	while ((spool = LIST_FIRST(&spooler->spools)))
		spool_free(spool);
	if (spooler->tick)
		event_free(spooler->tick);
	frame_codec_destroy(spooler->codec);
	free(spooler->cpu_of);
	free(spooler);
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
