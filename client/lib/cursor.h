/*
 * cursor: a place in every CPU's ring, `BOOTID/EPOCH/CPU:SEQ,CPU:SEQ,...` as text.
 *
 * Every attempt before a position has been dealt with. Boot id and epoch name the run of the rings
 * that the numbers belong to.
 */
#ifndef RINGTAIL_CLIENT_LIB_CURSOR_H
#define RINGTAIL_CLIENT_LIB_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include "client/lib/ringtail.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

struct cursor {
	uint8_t boot_id[16];
	uint64_t epoch;
	unsigned positions;
	struct cursor_position {
		uint32_t cpu;
		uint64_t seq;
	} position[CURSOR_POSITIONS_MAX];
};

/* -EINVAL with *error, whose column points into the text. */
int cursor_parse(const char *text, struct cursor *cursor, struct ringtail_error *error);

/* -ENOSPC if it does not fit. */
int cursor_print(const struct cursor *cursor, char *text, size_t text_bytes);

/* As the wire's message, with what holds it. */
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
