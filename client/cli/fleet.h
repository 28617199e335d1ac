/*
 * fleet: what a relay says of its hosts, all answers together. In: Hosts frames. Out: the sums, and each host, the
 * worst first. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_FLEET_H
#define RINGTAIL_CLIENT_CLI_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/ringtail.h"
#include "proto/ringtail.pb-c.h"

struct fleet {
	const Ringtail__V1__Hosts *sum;		/* the last answer: but for its `host` */
	const Ringtail__V1__HostStat **host;	/* first a residual, then what lost most, then the longest silent */
	size_t hosts;
	struct arena **page;			/* where all of it lives */
	size_t pages;
};

/*
 * Takes one answer; the first into a fleet that is all zeros. Texts are as they came. -EBADMSG: it is none, or it
 * ends where the answer before it did; -ENOMEM, also of too many hosts. fleet_free() also after a failure.
 */
int fleet_take(struct fleet *fleet, const uint8_t *body, size_t bytes, struct ringtail_error *error);
void fleet_free(struct fleet *fleet);

/* After which the next answer is to begin; "": none has come. */
const char *fleet_last_name(const struct fleet *fleet);

/* When all have come: brings the hosts into their order. */
void fleet_sort(struct fleet *fleet);

/* Whether every equation closes: of each host, and of all. */
bool fleet_balanced(const struct fleet *fleet);

/* Of both equations, without their signs. */
uint64_t fleet_residual(const Ringtail__V1__HostStat *host);

/* In attempts; gaps of unknown size are not in it. */
uint64_t fleet_lost(const Ringtail__V1__HostStat *host);

#endif
