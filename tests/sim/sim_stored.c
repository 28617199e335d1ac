#include "tests/sim/sim_stored.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/spool/spool.h"
#include "proto/segment.h"
#include "tests/sim/sim.h"

#define SPOOLS_MAX 64u

static struct promise {
	char name[SPOOL_NAME_BYTES];
	uint64_t epoch;
	uint32_t rings;
	uint64_t end[SOURCE_RINGS_MAX];
} promised[SPOOLS_MAX];
static unsigned promises;

/* What was deleted since, by right, the files do not tell of: that is not asked for. */
static void note(void *context, const struct spool *spool)
{
	struct promise *promise = &promised[promises];
	const struct source_config_sim *source = context;
	uint64_t told[SOURCE_RINGS_MAX];
	struct spool_stat stat;

	if (promises == SPOOLS_MAX)
		sim_fail("more spools than the simulation counts");
	spool_stat(spool, &stat);
	snprintf(promise->name, sizeof(promise->name), "%s", stat.config->name);
	promise->epoch = source->epoch;
	promise->rings = source->rings;
	sim_disk_told(promise->name, promise->epoch, told);
	for (uint32_t i = 0; i < promise->rings; i++)
		promise->end[i] = spool_durable(spool, i) < told[i] ? spool_durable(spool, i) : told[i];
	promises++;
}

void sim_stored_note(const struct spooler *spooler, const struct source_config_sim *source)
{
	promises = 0;
	if (spooler)
		spooler_each(spooler, note, (void *)source);
}

void sim_stored_check(void)
{
	for (unsigned i = 0; i < promises; i++) {
		const struct promise *promise = &promised[i];
		uint64_t told[SOURCE_RINGS_MAX];

		sim_disk_told(promise->name, promise->epoch, told);
		for (uint32_t ring = 0; ring < promise->rings; ring++) {
			if (told[ring] < promise->end[ring])
				sim_fail("spool %s: ring %u was stored up to %" PRIu64
					 ", and after the power cut the disk has it up to %" PRIu64,
					 promise->name, ring, promise->end[ring], told[ring]);
			if (promise->end[ring])
				sim_log("spool %s: the disk has ring %u up to %" PRIu64
					", of %" PRIu64 " stored", promise->name, ring, told[ring],
					promise->end[ring]);
		}
	}
	promises = 0;
}
