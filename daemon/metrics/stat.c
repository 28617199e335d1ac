#include "daemon/metrics/stat.h"

#include <stdlib.h>

bool stat_losses_next(const struct stat_losses *losses, unsigned *at, struct loss_count *loss)
{
	for (; *at < losses->stages * LOSS_REASONS; (*at)++) {
		unsigned row = *at / LOSS_REASONS, reason = *at % LOSS_REASONS;

		if (!losses->count[row][reason])
			continue;
		loss->stage = (uint8_t)(losses->stage + row);
		loss->reason = (uint8_t)reason;
		loss->count = losses->count[row][reason];
		(*at)++;
		return true;
	}
	return false;
}

void daemon_stat_free(struct daemon_stat *stat)
{
	if (!stat)
		return;
	free(stat->ring);
	free(stat->client);
	free(stat->spool);
	free(stat->consumer);
	free(stat->export);
	free(stat);
}
