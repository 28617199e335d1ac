/*
 * waiting_room: agents that have connected while as many shake hands as may. In: their sockets. Out: the next one, of
 * where the fewest shake hands; of one origin, who came first. Each costs a descriptor and a few bytes, so that of
 * thousands that come at once, behind one address, none is sent away. Main thread.
 */
#ifndef RINGTAIL_DAEMON_RELAY_WAITING_ROOM_H
#define RINGTAIL_DAEMON_RELAY_WAITING_ROOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/net/origin.h"

struct waiting_room_place;
TAILQ_HEAD(waiting_room_line, waiting_room_place);

struct waiting_room {
	unsigned count, from[ORIGINS];
	struct waiting_room_line line[ORIGINS];	/* the first that came first */
};

void waiting_room_init(struct waiting_room *room);

/* Closes them all. */
void waiting_room_fini(struct waiting_room *room);

/*
 * Takes over the socket. When RELAY_WAITING_MAX wait, it, or the last of where more wait, is closed instead. False:
 * somebody was closed.
 */
bool waiting_room_enter(struct waiting_room *room, int fd, uint8_t origin, const char *peer, uint64_t now_ns);

/* Closes those that have waited for longer than they do, and those that have left. Returns how many. */
unsigned waiting_room_sweep(struct waiting_room *room, uint64_t now_ns);

#define WAITING_ROOM_PEER_BYTES	128

/*
 * The socket of the next one, and where it comes from; -1: nobody waits. `shaking`: how many shake hands, by origin.
 * Who has left meanwhile is passed over.
 */
int waiting_room_next(struct waiting_room *room, const unsigned shaking[ORIGINS], uint8_t *origin,
		      char peer[WAITING_ROOM_PEER_BYTES]);

#endif
