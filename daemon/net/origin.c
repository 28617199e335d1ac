#include "daemon/net/origin.h"

#include <string.h>

uint8_t origin_of(uint64_t seed, const char *peer)
{
	const char *user = strncmp(peer, "unix ", 5) == 0 ? strstr(peer, " uid ") : NULL;
	const char *from = user ? user : peer, *port = user ? NULL : strrchr(peer, ':');
	size_t bytes = port ? (size_t)(port - from) : strlen(from);
	uint64_t hash = seed;

	/* FNV-1a (Fowler, Noll, Vo), from where nobody outside knows. */
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)from[i]) * 0x100000001b3ull;
	return (uint8_t)((hash ^ hash >> 32) % ORIGINS);
}
