/*
 * cursor_message: a cursor as the wire's message, with what holds it. Pure; any thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_CURSOR_MESSAGE_H
#define RINGTAIL_CLIENT_LIB_CURSOR_MESSAGE_H

#include "client/lib/cursor.h"
#include "proto/ringtail.pb-c.h"

struct cursor_message {
	Ringtail__V1__Cursor message;		/* borrows the boot id from the cursor */
	Ringtail__V1__Position *position, **list;
};

/* -ENOMEM with *error; then there is nothing to free. */
int cursor_message_init(struct cursor_message *to, const struct cursor *from,
			struct ringtail_error *error);

/* One of zeros is fine too. */
void cursor_message_fini(struct cursor_message *message);

#endif
