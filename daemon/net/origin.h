/*
 * origin: where a connection comes from, as a small number, so that who has too many can be found. Users and
 * addresses share the numbers; which share one, nobody outside knows. Pure.
 */
#ifndef RINGTAIL_DAEMON_NET_ORIGIN_H
#define RINGTAIL_DAEMON_NET_ORIGIN_H

#include <stdint.h>

#define ORIGINS 256u

/* peer: "unix pid 12 uid 34" comes from a user, and "1.2.3.4:56" from an address. seed: random. */
uint8_t origin_of(uint64_t seed, const char *peer);

#endif
