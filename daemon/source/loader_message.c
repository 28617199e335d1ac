#include "daemon/source/loader_message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

int loader_message_send(int socket, const struct loader_message *message, const int *fds,
			unsigned n)
{
	return descriptor_send(socket, message, sizeof(*message), fds, n);
}

/* ---- What a message has to be ----------------------------------------------------------------- */

static const struct kind {
	enum loader_end sender;
	unsigned fds_min, fds_max;
} kinds[LOADER_MSG_TYPES] = {
	[LOADER_MSG_RING] = {LOADER_END_LOADER, 3, 3},
	[LOADER_MSG_READY] = {LOADER_END_LOADER, 2, 2},
	[LOADER_MSG_FAILED] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_CONFIGURE] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_CONFIGURED] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_ASK_STATS] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_STATS] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_FINISHED] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_KEEP] = {LOADER_END_LOADER, 1, 1},
	[LOADER_MSG_DROP] = {LOADER_END_LOADER, 0, 1},
	[LOADER_MSG_MAKE] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_MADE] = {LOADER_END_LOADER, 0, 1},
	[LOADER_MSG_ARRIVED] = {LOADER_END_LOADER, 1, 1},
	[LOADER_MSG_ASK_STUCK] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_STUCK] = {LOADER_END_LOADER, 0, 1},
	[LOADER_MSG_JOINED] = {LOADER_END_ENGINE, 0, 0},
};

static bool has_end(const char *text, size_t bytes)
{
	return memchr(text, '\0', bytes) != NULL;
}

static bool failure_has_ends(const struct loader_failure *failure)
{
	return has_end(failure->code, sizeof(failure->code)) &&
	       has_end(failure->what, sizeof(failure->what)) &&
	       has_end(failure->hint, sizeof(failure->hint));
}

static bool contents_fit(const struct loader_message *message)
{
	switch (message->type) {
	case LOADER_MSG_READY:
		return has_end(message->ready.source, sizeof(message->ready.source)) &&
		       has_end(message->ready.providers, sizeof(message->ready.providers)) &&
		       failure_has_ends(&message->ready.why_not);
	case LOADER_MSG_FAILED:
		return message->failed.err < 0 && failure_has_ends(&message->failed);
	case LOADER_MSG_CONFIGURED:
		return message->configured.failure.err <= 0 &&
		       failure_has_ends(&message->configured.failure);
	case LOADER_MSG_STATS:
		return message->stats.err <= 0;
	case LOADER_MSG_STUCK:
		return message->stuck.failure.err <= 0 && failure_has_ends(&message->stuck.failure);
	case LOADER_MSG_KEEP:
	case LOADER_MSG_DROP:
		return has_end(message->name, sizeof(message->name));
	case LOADER_MSG_MAKE:
		return has_end(message->make, sizeof(message->make));
	case LOADER_MSG_MADE:
		return message->made.failure.err <= 0 &&
		       has_end(message->made.spec, sizeof(message->made.spec)) &&
		       failure_has_ends(&message->made.failure);
	default:
		return true;
	}
}

static bool fits(const struct loader_message *message, enum loader_end sender, unsigned fds)
{
	const struct kind *kind;

	if (message->type >= LOADER_MSG_TYPES)
		return false;
	kind = &kinds[message->type];
	return kind->sender == sender && fds >= kind->fds_min && fds <= kind->fds_max &&
	       contents_fit(message);
}

int loader_message_receive(int socket, enum loader_end sender, struct loader_message *message,
			   int *fds, unsigned *n, int flags)
{
	int got = descriptor_receive(socket, message, sizeof(*message), fds, LOADER_MESSAGE_FDS_MAX, n,
				     flags);

	if (got != 1 || fits(message, sender, *n))
		return got;
	while (*n)
		close(fds[--*n]);
	return -EPROTO;
}
