#include "client/cli/loss_advice.h"

#include <stdio.h>

#include "client/cli/units.h"
#include "proto/losses.h"

static bool has(Ringtail__V1__LossCount *const *lost, size_t n, unsigned reason)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned)lost[i]->reason == reason && lost[i]->count)
			return true;
	return false;
}

static bool was_lost(const Ringtail__V1__Stat *stat, unsigned reason)
{
	bool lost = false;

	for (size_t i = 0; i < stat->n_ring; i++)
		lost |= has(stat->ring[i]->lost, stat->ring[i]->n_lost, reason);
	for (size_t i = 0; i < stat->n_client; i++)
		lost |= has(stat->client[i]->lost, stat->client[i]->n_lost, reason);
	for (size_t i = 0; i < stat->n_spool; i++)
		lost |= has(stat->spool[i]->lost, stat->spool[i]->n_lost, reason);
	for (size_t i = 0; i < stat->n_export; i++)
		lost |= has(stat->export[i]->lost, stat->export[i]->n_lost, reason);
	return lost;
}

static void describe(const Ringtail__V1__Stat *stat, unsigned reason, struct loss_advice *advice)
{
	const struct loss_reason *row = loss_reason(reason);
	char size[UNITS_TEXT_BYTES];

	snprintf(advice->name, sizeof(advice->name), "%s", row->name);
	for (char *at = advice->name; *at; at++)
		if (*at == '-')
			*at = ' ';
	advice->what = row->what;
	snprintf(advice->remedy, sizeof(advice->remedy), "%s", row->remedy);
	if (reason == RINGTAIL__V1__LOSS_REASON__REASON_RING_FULL && stat->n_ring)
		snprintf(advice->remedy, sizeof(advice->remedy), "%s (ring-size is %s now)",
			 row->remedy,
			 units_format_bytes((double)stat->ring[0]->size_bytes, size));
}

bool loss_advice_next(const Ringtail__V1__Stat *stat, unsigned *reason, struct loss_advice *advice)
{
	/* One that a newer daemon counts is the last: all of those are unknown here. */
	for (; *reason < ringtail__v1__loss_reason__descriptor.n_values; (*reason)++)
		if (was_lost(stat, *reason)) {
			describe(stat, (*reason)++, advice);
			return true;
		}
	return false;
}
