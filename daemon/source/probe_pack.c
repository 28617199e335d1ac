#include "daemon/source/probe_pack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/descriptor.h"

static bool make_room(struct probe_pack *pack, size_t bytes)
{
	size_t room = pack->room ? pack->room : 4096;
	uint8_t *at;

	if (pack->bytes + bytes <= pack->room)
		return true;
	while (room < pack->bytes + bytes)
		room *= 2;
	at = realloc(pack->at, room);
	if (!at)
		return false;
	pack->at = at;
	pack->room = room;
	return true;
}

/* A Catalog of one, packed, is a part of one of many. */
int probe_pack_add(void *context, const Ringtail__V1__Probe *probe)
{
	Ringtail__V1__Probe *one = (Ringtail__V1__Probe *)probe;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	struct probe_pack *pack = context;

	catalog.probe = &one;
	catalog.n_probe = 1;
	if (!make_room(pack, ringtail__v1__catalog__get_packed_size(&catalog)))
		return -ENOMEM;
	pack->bytes += ringtail__v1__catalog__pack(&catalog, pack->at + pack->bytes);
	return 0;
}

int probe_pack_file(struct probe_pack *pack, const char *name, uint64_t *bytes)
{
	int fd = descriptor_memory_file(name, false);
	ssize_t written = fd < 0 ? -1 : pack->bytes ? write(fd, pack->at, pack->bytes) : 0;
	bool is_whole = written == (ssize_t)pack->bytes;

	*bytes = pack->bytes;
	probe_pack_free(pack);
	if (is_whole)
		return fd;
	if (fd >= 0)
		close(fd);
	return -ENOMEM;
}

void probe_pack_free(struct probe_pack *pack)
{
	free(pack->at);
	*pack = (struct probe_pack){0};
}
