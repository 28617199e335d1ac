/*
 * probe_pack: probes as they are in a packed Catalog, one after the other, for a file in memory: a catalog may be
 * longer than a packet. In: probes. Out: the file. No thread of its own: whoever has the pack uses it alone.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_PROBE_PACK_H
#define RINGTAIL_DAEMON_SOURCE_PROBE_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "proto/ringtail.pb-c.h"

/* Zeroed, it is empty. */
struct probe_pack {
	uint8_t *at;			/* owned */
	size_t bytes, room;
};

/* A source_offer, whose context is a pack: copies the probe into it. 0 or -ENOMEM. */
int probe_pack_add(void *pack, const Ringtail__V1__Probe *probe);

/* Writes it into a file in memory of that name, and frees it. The descriptor and *bytes, or -ENOMEM. */
int probe_pack_file(struct probe_pack *pack, const char *name, uint64_t *bytes);

/* It is empty then. */
void probe_pack_free(struct probe_pack *pack);

#endif
