/*
 * cursor_message: a cursor as the wire's message.
 */
#include "client/lib/cursor_message.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/failure.h"

int cursor_message_init(struct cursor_message *to, const struct cursor *from,
			struct ringtail_error *error)
{
	to->position = calloc(from->positions + 1, sizeof(*to->position));
	to->list = calloc(from->positions + 1, sizeof(*to->list));
	if (!to->position || !to->list) {
		cursor_message_fini(to);
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	ringtail__v1__cursor__init(&to->message);
	to->message.boot_id.data = (uint8_t *)from->boot_id;
	to->message.boot_id.len = sizeof(from->boot_id);
	to->message.epoch = from->epoch;
	to->message.n_position = from->positions;
	to->message.position = to->list;
	for (unsigned i = 0; i < from->positions; i++) {
		ringtail__v1__position__init(&to->position[i]);
		to->position[i].cpu = from->position[i].cpu;
		to->position[i].seq = from->position[i].seq;
		to->list[i] = &to->position[i];
	}
	return 0;
}

void cursor_message_fini(struct cursor_message *message)
{
	free(message->position);
	free(message->list);
	message->position = NULL;
	message->list = NULL;
}
