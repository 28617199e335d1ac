/*
 * address: where the daemon listens, as text and as parts.
 */
#ifndef RINGTAIL_CLIENT_LIB_ADDRESS_H
#define RINGTAIL_CLIENT_LIB_ADDRESS_H

#include "client/lib/ringtail.h"

#define ADDRESS_PATH_BYTES 108		/* sun_path */
#define ADDRESS_HOST_BYTES 256
#define ADDRESS_PORT_BYTES 8
#define ADDRESS_TEXT_BYTES (ADDRESS_HOST_BYTES + ADDRESS_PATH_BYTES)
#define ADDRESS_NAME_BYTES 64		/* of a host at a relay */

struct address {
	enum address_kind {
		ADDRESS_UNIX,
		ADDRESS_TCP,
	} kind;
	char path[ADDRESS_PATH_BYTES];
	char host[ADDRESS_HOST_BYTES];
	char port[ADDRESS_PORT_BYTES];
	char through[ADDRESS_NAME_BYTES];	/* a host that is reached through the relay at this address; "": none */
	struct ringtail_trust trust;	/* as it held when the address was parsed */
	char text[ADDRESS_TEXT_BYTES];	/* for messages: "unix:/run/..." */
};

/* "unix:PATH", "tcp:HOST:PORT", "tcp:[::1]:PORT"; NULL: the default. -EINVAL with *error. */
int address_parse(const char *text, struct address *address, struct ringtail_error *error);

#endif
