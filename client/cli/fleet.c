#include "client/cli/fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/unpack.h"

/* ---- Which is worse --------------------------------------------------------------------------- */

/* The sum has no sign, and ends at UINT64_MAX: a host can send any number, and two must not add up to 0. */
static void add_residual(uint64_t *sum, int64_t residual)
{
	uint64_t more = residual < 0 ? 0 - (uint64_t)residual : (uint64_t)residual;

	*sum = more < UINT64_MAX - *sum ? *sum + more : UINT64_MAX;
}

uint64_t fleet_residual(const Ringtail__V1__HostStat *host)
{
	uint64_t sum = 0;

	add_residual(&sum, host->residual);
	add_residual(&sum, host->consigned_residual);
	add_residual(&sum, host->spool_residual);
	add_residual(&sum, host->relay_residual);
	return sum;
}

uint64_t fleet_lost(const Ringtail__V1__HostStat *host)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < host->n_lost; i++)
		lost += host->lost[i]->count;
	return lost;
}

/* < 0: a is the worse one. */
static int compare(const Ringtail__V1__HostStat *a, const Ringtail__V1__HostStat *b)
{
	const uint64_t pair[][2] = {	/* the larger is worse */
		{ fleet_residual(a), fleet_residual(b) },
		{ fleet_lost(a), fleet_lost(b) },
		{ a->gaps, b->gaps },
		{ b->heard_realtime_ns, a->heard_realtime_ns },
	};

	for (size_t i = 0; i < sizeof(pair) / sizeof(*pair); i++)
		if (pair[i][0] != pair[i][1])
			return pair[i][0] > pair[i][1] ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int by_badness(const void *a, const void *b)
{
	return compare(*(const Ringtail__V1__HostStat *const *)a, *(const Ringtail__V1__HostStat *const *)b);
}

bool fleet_balanced(const struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->hosts; i++)
		if (fleet_residual(fleet->host[i]))
			return false;
	return !fleet_residual(fleet->sum->all);
}

/* ---- Answers ---------------------------------------------------------------------------------- */

/* A relay that stays where it is would never come to an end. */
static bool goes_on(const Ringtail__V1__Hosts *answer, const char *after)
{
	return answer->all && (answer->n_host ? strcmp(answer->host[answer->n_host - 1]->name, after) != 0 :
						!answer->more);
}

/* Takes the arena over. */
static int add(struct fleet *fleet, const Ringtail__V1__Hosts *answer, struct arena *arena,
	       struct ringtail_error *error)
{
	struct arena **page = reallocarray(fleet->page, fleet->pages + 1, sizeof(*page));
	const Ringtail__V1__HostStat **host =
		reallocarray(fleet->host, fleet->hosts + answer->n_host + 1, sizeof(*host));

	fleet->page = page ? page : fleet->page;
	fleet->host = host ? host : fleet->host;
	if (!page || !host || fleet->hosts + answer->n_host > FLEET_HOSTS_MAX) {
		arena_destroy(arena);
		return failure_set(error, ENOMEM, "no-memory", "no memory for so many hosts");
	}
	fleet->page[fleet->pages++] = arena;
	for (size_t i = 0; i < answer->n_host; i++)
		fleet->host[fleet->hosts++] = answer->host[i];
	fleet->sum = answer;
	return 0;
}

const char *fleet_last_name(const struct fleet *fleet)
{
	return fleet->hosts ? fleet->host[fleet->hosts - 1]->name : "";
}

int fleet_take(struct fleet *fleet, const uint8_t *body, size_t bytes, struct ringtail_error *error)
{
	struct arena *arena;
	const Ringtail__V1__Hosts *answer = unpack(&ringtail__v1__hosts__descriptor, body, bytes, &arena);

	if (answer && goes_on(answer, fleet_last_name(fleet)))
		return add(fleet, answer, arena, error);
	if (answer)
		arena_destroy(arena);
	return failure_set(error, EBADMSG, "bad-message", "the relay's answer makes no sense");
}

void fleet_sort(struct fleet *fleet)
{
	if (fleet->hosts)
		qsort(fleet->host, fleet->hosts, sizeof(*fleet->host), by_badness);
}

void fleet_free(struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->pages; i++)
		arena_destroy(fleet->page[i]);
	free(fleet->page);
	free(fleet->host);
	*fleet = (struct fleet){ 0 };
}
