/* changes_ask: how changes come: what sessions ask for, copied and put in the queue. See changes.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/changes_private.h"
#include "daemon/base/limits.h"
#include "proto/message.h"

static char **copy_words(char *const *word, size_t n)
{
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(word[i]);
		if (!copy[i]) {
			while (i--)
				free(copy[i]);
			free(copy);
			return NULL;
		}
	}
	return copy;
}

/* A subscription that is refused ends its connection. */
static void refuse_ask(struct session *session, enum action action, struct change *change, int err,
		       const char *code, const char *what)
{
	struct error error;

	error_set(&error, err, code, "%s", what);
	error_hint(&error, "try again, with less");
	if (change)
		changes_free(change);
	if (action == ACTION_REGISTER)
		session_refuse(session, &error, true);
	else
		session_answer(session, NULL, &error);
}

static struct change *make(struct changes *changes, struct session *session, enum action action)
{
	struct change *change = calloc(1, sizeof(*change));
	const struct client_identity *identity = session_identity(session);

	if (!change)
		return NULL;
	change->changes = changes;
	change->session = session;
	change->action = action;
	change->identity = *identity;
	change->who = strdup(gate_name(changes->config.gate, identity));
	change->peer = strdup(session_peer(session));
	if (!change->who || !change->peer) {
		changes_free(change);
		return NULL;
	}
	/* Consumers have owners: who may is told when its turn has come. */
	if (action == ACTION_CHANGE)
		gate_allow(changes->config.gate, identity, ROLE_OPERATOR, "change what is always on",
			   &change->error);
	return change;
}

static void queue(struct changes *changes, struct change *change)
{
	if (changes->waiting >= CHANGES_WAITING_MAX) {
		refuse_ask(change->session, change->action, change, EBUSY, "too-many-changes",
			   "too many changes wait for those before them");
		return;
	}
	TAILQ_INSERT_TAIL(&changes->queue, change, link);
	if (changes->waiting++ == 0)
		changes_begin(change);
}

void changes_ask(struct changes *changes, struct session *session,
		 const Ringtail__V1__Change *message)
{
	struct change *change;

	if (message->n_enable > SUBSCRIBE_PROBES_MAX || message->n_disable > SUBSCRIBE_PROBES_MAX ||
	    !(message->n_enable + message->n_disable)) {
		refuse_ask(session, ACTION_CHANGE, NULL, EINVAL, "too-many-probes",
			   "a change names 1 to 64 probes to enable, and as many to disable");
		return;
	}
	change = make(changes, session, ACTION_CHANGE);
	if (change) {
		change->enable = copy_words(message->enable, message->n_enable);
		change->enables = change->enable ? message->n_enable : 0;
		change->disable = copy_words(message->disable, message->n_disable);
		change->disables = change->disable ? message->n_disable : 0;
	}
	if (!change || !change->enable || !change->disable)
		refuse_ask(session, ACTION_CHANGE, change, ENOMEM, "out-of-memory",
			   "the daemon is out of memory");
	else
		queue(changes, change);
}

void changes_ask_forget(struct changes *changes, struct session *session, const char *consumer)
{
	struct change *change = make(changes, session, ACTION_FORGET);

	if (change)
		change->consumer = strdup(consumer);
	if (!change || !change->consumer)
		refuse_ask(session, ACTION_FORGET, change, ENOMEM, "out-of-memory",
			   "the daemon is out of memory");
	else
		queue(changes, change);
}

static Ringtail__V1__Subscribe *copy_subscribe(const Ringtail__V1__Subscribe *message)
{
	size_t bytes = ringtail__v1__subscribe__get_packed_size(message);
	uint8_t *packed = malloc(bytes + 1);
	Ringtail__V1__Subscribe *copy;

	if (!packed)
		return NULL;
	ringtail__v1__subscribe__pack(message, packed);
	copy = message_unpack(&ringtail__v1__subscribe__descriptor, NULL, packed, bytes);
	free(packed);
	return copy;
}

void changes_ask_register(struct changes *changes, struct session *session,
			  const Ringtail__V1__Subscribe *message)
{
	struct change *change = make(changes, session, ACTION_REGISTER);

	if (change) {
		change->consumer = strdup(message->consumer);
		change->subscribe = copy_subscribe(message);
	}
	if (!change || !change->consumer || !change->subscribe)
		refuse_ask(session, ACTION_REGISTER, change, ENOMEM, "out-of-memory",
			   "the daemon is out of memory");
	else
		queue(changes, change);
}

void changes_leave(struct changes *changes, const struct session *session)
{
	struct change *change;

	TAILQ_FOREACH(change, &changes->queue, link)
		if (change->session == session)
			change->session = NULL;
}
