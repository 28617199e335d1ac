/*
 * resolver: what the C library loads to look up names of hosts, loaded before a sandbox forbids it. The main thread,
 * before there is another.
 */
#ifndef RINGTAIL_DAEMON_HOST_RESOLVER_H
#define RINGTAIL_DAEMON_HOST_RESOLVER_H

/*
 * The libraries that nsswitch.conf names for hosts. The C library would load them when it first
 * needs them, and by then no code can be loaded; one that is there already it takes as it is.
 */
void resolver_load(void);

#endif
