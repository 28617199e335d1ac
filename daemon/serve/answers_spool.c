#include "daemon/serve/answers_spool.h"

#include <stdlib.h>

struct answer {
	Ringtail__V1__SpoolStat stat;
	Ringtail__V1__LossCount count[LOSS_REASONS];
	Ringtail__V1__LossCount *lost[LOSS_REASONS];
};

struct answers_spools {
	unsigned n;
	uint64_t unstored_ns;		/* of that which is furthest behind */
	Ringtail__V1__SpoolStat **list;
	struct answer answer[];
};

static uint64_t fill_lost(struct answer *answer, const struct spool_stat *now)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LOSS_REASONS; i++) {
		Ringtail__V1__LossCount *count = &answer->count[answer->stat.n_lost];

		sum += now->lost[i];
		if (!now->lost[i])
			continue;
		ringtail__v1__loss_count__init(count);
		count->stage = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL;
		count->reason = (Ringtail__V1__LossReason)i;
		count->count = now->lost[i];
		answer->lost[answer->stat.n_lost++] = count;
	}
	return sum;
}

static void fill(void *context, const struct spool_stat *now)
{
	struct answers_spools *spools = context;
	struct answer *answer = &spools->answer[spools->n];
	Ringtail__V1__SpoolStat *stat = &answer->stat;
	uint64_t lost;

	ringtail__v1__spool_stat__init(stat);
	lost = fill_lost(answer, now);
	stat->name = (char *)now->config->name;
	stat->probe = (char **)now->config->probe;
	stat->n_probe = now->config->probes;
	stat->filter = (char *)now->config->filter;
	stat->segments = now->segments;
	stat->bytes = now->bytes;
	stat->bytes_max = now->size_bytes;
	stat->oldest_realtime_ns = now->oldest_realtime_ns;
	stat->produced = now->produced;
	stat->stored = now->stored;
	stat->lost = answer->lost;
	stat->in_flight = now->in_flight;
	stat->residual = (int64_t)(now->produced - now->stored - lost - now->in_flight);
	stat->state = (char *)now->state;
	stat->deleted = now->deleted;
	stat->set_aside = now->set_aside;
	spools->list[spools->n++] = stat;
}

static void fill_open(void *context, const struct spool *spool)
{
	struct answers_spools *spools = context;
	struct spool_stat now;

	spool_stat(spool, &now);
	if (spools->unstored_ns < now.unstored_ns)
		spools->unstored_ns = now.unstored_ns;
	fill(context, &now);
}

const char *answers_durability(const struct spooler *spooler)
{
	switch (spooler ? spooler_durability(spooler) : SPOOL_MEMORY) {
	case SPOOL_MEMORY:
		return "memory";
	case SPOOL_WRITTEN:
		return "written";
	case SPOOL_FSYNC:
		return "fsync";
	}
	return "";
}

struct answers_spools *answers_spools_fill(const struct spooler *spooler,
					   uint64_t batch_interval_ns, Ringtail__V1__Stat *stat)
{
	unsigned n = spooler ? spooler_count(spooler) + spooler_orphans(spooler) : 0;
	struct answers_spools *spools =
		calloc(1, sizeof(*spools) + n * sizeof(spools->answer[0]));

	if (!spools)
		return NULL;
	spools->list = calloc(n + 1, sizeof(spools->list[0]));
	if (!spools->list) {
		free(spools);
		return NULL;
	}
	if (spooler) {
		spooler_each(spooler, fill_open, spools);
		spooler_each_orphan(spooler, fill, spools);
	}
	stat->spool = spools->list;
	stat->n_spool = spools->n;
	stat->durability = (char *)answers_durability(spooler);
	/*
	 * An event waits for its batch, then for the disk: as long as was asked for while all is well,
	 * and for as long as the disk takes. Without a spool, there is no bound.
	 */
	if (spooler) {
		uint64_t disk_ns = spooler_sync_interval_ns(spooler);

		if (disk_ns < spools->unstored_ns)
			disk_ns = spools->unstored_ns;
		stat->loss_window_ns = batch_interval_ns + disk_ns;
	}
	return spools;
}

void answers_spools_destroy(struct answers_spools *spools)
{
	if (!spools)
		return;
	free(spools->list);
	free(spools);
}
