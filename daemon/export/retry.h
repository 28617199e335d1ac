/*
 * export_retry: how long to wait before a request is sent again. Pure but for chance; any thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_RETRY_H
#define RINGTAIL_DAEMON_EXPORT_RETRY_H

#include <stdint.h>

/*
 * tries: how often it was sent; from 1. What the back end asked for is kept to, within
 * EXPORT_RETRY_AFTER_NS_MAX; else twice as long each time, between half of it and all, so that
 * many daemons do not come back at once.
 */
uint64_t export_retry_ns(unsigned tries, uint64_t asked_ns);

#endif
