#include "daemon/relay/waiting_room.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"

struct waiting_room_place {
	TAILQ_ENTRY(waiting_room_place) link;
	uint64_t came_ns;
	int fd;
	char peer[];
};

void waiting_room_init(struct waiting_room *room)
{
	*room = (struct waiting_room){0};
	for (unsigned i = 0; i < ORIGINS; i++)
		TAILQ_INIT(&room->line[i]);
}

/* Its socket. */
static int leave(struct waiting_room *room, unsigned origin, struct waiting_room_place *place)
{
	int fd = place->fd;

	TAILQ_REMOVE(&room->line[origin], place, link);
	room->from[origin]--;
	room->count--;
	free(place);
	return fd;
}

void waiting_room_fini(struct waiting_room *room)
{
	struct waiting_room_place *place;

	for (unsigned i = 0; i < ORIGINS; i++)
		while ((place = TAILQ_FIRST(&room->line[i])))
			close(leave(room, i, place));
}

/* Where more wait than from `origin`, if anywhere. */
static unsigned busiest(const struct waiting_room *room, unsigned origin)
{
	for (unsigned i = 0; i < ORIGINS; i++)
		if (room->from[i] > room->from[origin])
			origin = i;
	return origin;
}

/* Who came first is served first: the last one goes. False: that is the newcomer. */
static bool make_room(struct waiting_room *room, uint8_t origin)
{
	unsigned most = busiest(room, origin);

	if (most == origin)
		return false;
	close(leave(room, most, TAILQ_LAST(&room->line[most], waiting_room_line)));
	return true;
}

bool waiting_room_enter(struct waiting_room *room, int fd, uint8_t origin, const char *peer, uint64_t now_ns)
{
	bool full = room->count >= RELAY_WAITING_MAX;
	size_t bytes = strlen(peer) + 1;
	struct waiting_room_place *place = NULL;

	if (!full || make_room(room, origin))
		place = malloc(sizeof(*place) + bytes);
	if (!place) {
		close(fd);
		return false;
	}
	place->came_ns = now_ns;
	place->fd = fd;
	memcpy(place->peer, peer, bytes);
	TAILQ_INSERT_TAIL(&room->line[origin], place, link);
	room->from[origin]++;
	room->count++;
	return !full;
}

/* An agent that was not answered in time has closed its end, whatever it sent before. */
static bool has_left(const struct waiting_room_place *place)
{
	struct pollfd look = {.fd = place->fd, .events = POLLRDHUP};

	return poll(&look, 1, 0) == 1 && look.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

unsigned waiting_room_sweep(struct waiting_room *room, uint64_t now_ns)
{
	struct waiting_room_place *place;
	unsigned swept = 0;

	for (unsigned i = 0; i < ORIGINS; i++)
		while ((place = TAILQ_FIRST(&room->line[i])) &&
		       (now_ns - place->came_ns > RELAY_GREET_NS || has_left(place))) {
			close(leave(room, i, place));
			swept++;
		}
	return swept;
}

int waiting_room_next(struct waiting_room *room, const unsigned shaking[ORIGINS], uint8_t *origin,
		      char peer[WAITING_ROOM_PEER_BYTES])
{
	while (room->count) {
		struct waiting_room_place *place;
		unsigned least = ORIGINS;
		bool left;
		int fd;

		for (unsigned i = 0; i < ORIGINS; i++)
			if (room->from[i] && (least == ORIGINS || shaking[i] < shaking[least]))
				least = i;
		place = TAILQ_FIRST(&room->line[least]);
		left = has_left(place);
		snprintf(peer, WAITING_ROOM_PEER_BYTES, "%s", place->peer);
		fd = leave(room, least, place);
		*origin = (uint8_t)least;
		if (!left)
			return fd;
		close(fd);
	}
	return -1;
}
