/*
 * resolver: what the C library loads to look names up, loaded before a sandbox forbids it. In: a database of
 * nsswitch.conf. The main thread, before there is another.
 */
#ifndef RINGTAIL_DAEMON_HOST_RESOLVER_H
#define RINGTAIL_DAEMON_HOST_RESOLVER_H

/*
 * The libraries that nsswitch.conf names for a database. The C library would load them when it first
 * needs them, and by then no code can be loaded; one that is there already it takes as it is.
 */
void resolver_load(const char *database);

#endif
