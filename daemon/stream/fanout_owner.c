/*
 * fanout_owner: who may have which durable consumer.
 *
 * A consumer is its owner's, the identity that registered it: nobody else subscribes, acknowledges or
 * gives up as it, but operators. One that is no operator may have a few, all clients together leave room
 * for what is always on, and names of exporters are theirs.
 */
#include <errno.h>

#include "daemon/stream/fanout_private.h"

static int refuse_reserved(const char *name, struct error *error)
{
	error_set(error, EPERM, "consumer-reserved",
		  "'%.80s': names that begin with " CONSUMER_EXPORT_PREFIX " are this daemon's exporters'",
		  name);
	error_hint(error, "take another name");
	return -EPERM;
}

/* Whether there is room for one more of a client's. */
static int check_room(const struct fanout *fanout, const struct client_identity *identity,
		      struct error *error)
{
	unsigned its_own, clients =
		consumers_count(fanout->config.consumers, identity->text, &its_own);

	if (identity->role < ROLE_OPERATOR && its_own >= CONSUMERS_PER_VIEWER_MAX) {
		error_set(error, ENOSPC, "too-many-consumers",
			  "%s has %u durable consumers already", identity->text, its_own);
		error_hint(error, "give up one: tracectl forget NAME");
		return -ENOSPC;
	}
	if (clients < CONSUMERS_OF_CLIENTS_MAX)
		return 0;
	error_set(error, ENOSPC, "too-many-consumers",
		  "clients have %u durable consumers already", clients);
	error_hint(error, "give up one: tracectl forget NAME; operators may give up any");
	return -ENOSPC;
}

int fanout_check_consumer(const struct fanout *fanout, const char *name,
			  const struct client_identity *identity, struct error *error)
{
	const struct consumer *consumer;

	if (!fanout->config.spooler) {
		error_set(error, EINVAL, "not-durable",
			  "this daemon keeps nothing on disk, and so has no durable consumers");
		error_hint(error, "give ringtaild durability = written, or fsync");
		return -EINVAL;
	}
	consumer = consumers_find(fanout->config.consumers, name);
	if (identity && consumer_name_is_export(name))
		return refuse_reserved(name, error);
	if (!consumer)
		return identity ? check_room(fanout, identity, error) : 0;
	if (identity && !consumer_is_open_to(consumer, identity))
		return consumer_refuse(name, error);
	if (!consumer->connected)
		return 0;
	error_set(error, EBUSY, "consumer-in-use",
		  "the durable consumer '%s' is connected already", name);
	error_hint(error, "one connection at a time: end the other one, or take another name");
	return -EBUSY;
}

int fanout_may_consume(const struct fanout *fanout, const char *name,
		       const struct client_identity *identity, bool *registers,
		       struct error *error)
{
	*registers = fanout->config.spooler && !consumers_find(fanout->config.consumers, name);
	return fanout_check_consumer(fanout, name, identity, error);
}

int fanout_may_forget(const struct fanout *fanout, const char *name,
		      const struct client_identity *identity, struct error *error)
{
	const struct consumer *consumer =
		fanout->config.consumers ? consumers_find(fanout->config.consumers, name) : NULL;

	if (consumer)
		return consumer_is_open_to(consumer, identity) ? 0 : consumer_refuse(name, error);
	error_set(error, ENOENT, "no-such-consumer", "there is no durable consumer '%.80s'", name);
	error_hint(error, "`tracectl stat` lists them");
	return -ENOENT;
}
