/*
 * print_stuck: threads that are in a system call, as lines for people or as JSON objects.
 *
 *	     12.3s S nginx            1234/1240       epoll_wait(epfd=5, ...)
 *	                        0xffffffff81234567 ep_poll+0x12
 */
#ifndef RINGTAIL_CLIENT_CLI_PRINT_STUCK_H
#define RINGTAIL_CLIENT_CLI_PRINT_STUCK_H

#include <stdbool.h>

#include "client/cli/out.h"
#include "client/lib/catalog.h"
#include "client/lib/ringtail.h"
#include "proto/ringtail.pb-c.h"

/* `catalog` has the probes of all calls; what it lacks is shown by its number. -ENOMEM. */
int print_stuck(struct out *out, bool json, const struct ringtail_host *host,
		const struct catalog *catalog, const Ringtail__V1__Stuck *stuck);

#endif
