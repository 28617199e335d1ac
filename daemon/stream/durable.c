#include "daemon/stream/durable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/stream/catch_up.h"
#include "daemon/stream/subscriber.h"

static int no_memory(struct error *error)
{
	return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
}

/* ---- The relay's account --------------------------------------------------------------------- */

/* Attempts on its disk that it has not acknowledged. */
static uint64_t count_behind(const struct consumer *consumer)
{
	const struct subscription *subscription = consumer->subscription;

	return consumer->place && subscription && subscription->spool.spool ?
		       spool_attempts_behind(subscription->spool.spool, subscription->spool.end, consumer->place) : 0;
}

/* Whose account is kept, if what it asks for is stored there; else NULL. */
static struct consumer *account_of(const struct subscription *subscription)
{
	const struct durable *durable = subscription->spool.durable;
	struct consumer *relay = durable->consumers ? consumers_find(durable->consumers, CONSUMER_RELAY) : NULL;

	return relay && relay->place && relay->subscription == subscription ? relay : NULL;
}

/* What is stored is on its disk now, or was acknowledged, or lost. */
static void begin_account(struct consumer *consumer)
{
	struct consumer_account *account = &consumer->account;

	if (strcmp(consumer->name, CONSUMER_RELAY) == 0)
		account->stored = account->acked + account->lost + count_behind(consumer);
}

/*
 * Attempts of one ring are stored now. The relay may have acknowledged some of them before. Attempts before the place
 * at which this daemon registered the relay are not the relay's, though they may be stored only now.
 */
static void note_stored(struct consumer *relay, uint32_t cpu, const struct run *run, uint64_t from, uint64_t to)
{
	uint64_t at = run_equal(&relay->place->run, run) ? cursor_seq(relay->place, cpu, 0) : 0;
	uint64_t began = relay->began ? cursor_seq(relay->began, cpu, 0) : 0;

	if (from < began)
		from = began;
	if (to <= from)
		return;
	relay->account.stored += to - from;
	if (at > from)
		relay->account.acked += (at < to ? at : to) - from;
}

static void note_all_stored(const struct subscription *subscription, const uint64_t *end)
{
	const struct subscription_spool *spool = &subscription->spool;
	struct consumer *relay = account_of(subscription);
	const struct rings *rings = spool->durable->rings;
	uint64_t acked = relay ? relay->account.acked : 0;

	for (uint32_t i = 0; relay && i < subscription->rings; i++) {
		uint64_t first = spool_first(spool->spool, i);

		note_stored(relay, rings->cpu_of[i], &rings->run, spool->end[i] > first ? spool->end[i] : first, end[i]);
	}
	/* Its place, which is before that, was saved already. */
	if (relay && relay->account.acked != acked)
		consumers_save(spool->durable->consumers);
}

static void on_segment_gone(void *context, const struct spool_extent *extent)
{
	const struct subscription *subscription = context;
	struct consumer *relay = account_of(subscription);
	uint64_t lost = relay ? spool_extent_behind(subscription->spool.spool, extent, relay->place) : 0;

	if (!lost)
		return;
	relay->account.lost += lost;
	consumers_save(subscription->spool.durable->consumers);
}

/* ---- Onto disk ------------------------------------------------------------------------------- */

static void on_opened(void *context, const uint64_t *end)
{
	struct subscription *subscription = context;
	struct consumer *relay = account_of(subscription);

	memcpy(subscription->spool.end, end, subscription->rings * sizeof(*end));
	if (relay)
		begin_account(relay);
}

static void on_progress(void *context, const uint64_t *end)
{
	struct subscription *subscription = context;

	note_all_stored(subscription, end);
	memcpy(subscription->spool.end, end, subscription->rings * sizeof(*end));
	durable_poke(subscription);
}

void durable_poke(struct subscription *subscription)
{
	struct stream *stream;

	TAILQ_FOREACH(stream, &subscription->streams, link)
		catch_up_poke(stream);
}

/* The same for the same probes, filter and flags, in every run: FNV-1a. */
static void hash_name(const struct subscription *subscription, unsigned salt,
		      char name[SPOOL_NAME_BYTES])
{
	uint64_t hash = 0xcbf29ce484222325ull + salt;
	const char *text;

	for (size_t i = 0; i <= subscription->globs; i++) {
		text = i < subscription->globs ? subscription->glob[i] : subscription->filter_text;
		do
			hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
		while (*text++);
	}
	hash = (hash ^ subscription->spec.flags) * 0x100000001b3ull;
	snprintf(name, SPOOL_NAME_BYTES, "%016llx", (unsigned long long)hash);
}

/*
 * Where the consumer's events are; else by what is asked for. That may be another's, who calls the same
 * probes so, and found the others there: no two have one directory.
 */
static void name_spool(const struct durable *durable, const struct subscription *subscription,
		       const struct consumer *consumer, char name[SPOOL_NAME_BYTES])
{
	if (consumer && consumer->spool[0] &&
	    !spooler_has(durable->spooler, consumer->spool)) {
		memcpy(name, consumer->spool, SPOOL_NAME_BYTES);
		return;
	}
	for (unsigned salt = 0; salt <= SUBSCRIPTIONS_MAX; salt++) {
		hash_name(subscription, salt, name);
		if (!spooler_has(durable->spooler, name))
			return;
	}
}

/* So that the next run finds it. */
static void note_spool(struct durable *durable, const struct subscription *subscription,
		       struct consumer *consumer)
{
	struct spool_stat now;

	spool_stat(subscription->spool.spool, &now);
	if (strcmp(consumer->spool, now.config->name) == 0)
		return;
	snprintf(consumer->spool, sizeof(consumer->spool), "%s", now.config->name);
	consumers_save(durable->consumers);
}

static int open_spool(struct durable *durable, struct subscription *subscription,
		      const struct consumer *consumer, struct error *error)
{
	struct subscription_spool *spool = &subscription->spool;
	struct spool_config config = {
		.probe = (const char *const *)subscription->glob,
		.probes = subscription->globs,
		.filter = subscription->filter_text,
		.flags = subscription->spec.flags,
		/* One that is live begins in the middle: what is before that was never to be on the disk. */
		.goes_on = subscription->origin == SUBSCRIPTION_RESTORED &&
			   subscription->state != SUBSCRIPTION_LIVE,
		.opened = on_opened,
		.progress = on_progress,
		.gone = on_segment_gone,
		.context = subscription,
	};
	char name[SPOOL_NAME_BYTES];
	uint32_t probes;

	if (!spool->hello)
		spool->hello = durable->hello(durable->hello_context);
	if (!spool->catalog)
		spool->catalog = subscription_pack_catalog(subscription, durable->subscriptions->config.catalog,
							   durable->subscriptions->config.codec, &probes);
	if (!spool->end)
		spool->end = calloc(durable->rings->n + 1, sizeof(*spool->end));
	if (!spool->hello || !spool->catalog || !spool->end)
		return no_memory(error);
	spool->run = spool->hello->run = durable->rings->run;
	spool->read = durable->read;
	spool->context = durable->context;
	spool->durable = durable;
	name_spool(durable, subscription, consumer, name);
	config.name = name;
	config.hello = frame_ref_get(spool->hello);
	config.catalog = frame_ref_get(spool->catalog);
	return spool_open(durable->spooler, &config, &spool->spool, error);
}

int durable_keep(struct durable *durable, struct subscription *subscription,
		 struct consumer *consumer, struct error *error)
{
	int err = 0;

	subscription->spool.unwanted = false;
	if (!durable->spooler)
		return 0;
	if (!subscription->spool.spool) {
		err = open_spool(durable, subscription, consumer, error);
		/* One that goes on already begins in the middle. */
		if (!err && subscription->state == SUBSCRIPTION_LIVE)
			spool_set_recorded(subscription->spool.spool, clock_read(CLOCK_REALTIME));
		for (uint32_t i = 0; !err && subscription->state == SUBSCRIPTION_LIVE && i < durable->rings->n; i++)
			spool_begin_ring(subscription->spool.spool, i, subscription->position[i]);
	}
	if (!err && consumer)
		note_spool(durable, subscription, consumer);
	else if (!err)
		spool_set_always_on(subscription->spool.spool, true);
	return err;
}

/* ---- Letting go ------------------------------------------------------------------------------ */

/* What is before the slowest consumer's place is needed by none. */
static void release(struct durable *durable, struct subscription *subscription)
{
	const struct cursor *oldest = NULL;
	const struct consumer *consumer;
	struct cursor *upto;

	TAILQ_FOREACH(consumer, consumers_list(durable->consumers), link) {
		if (consumer->subscription != subscription)
			continue;
		if (!consumer->place)
			return;
		if (!oldest || consumer->place->run.epoch < oldest->run.epoch)
			oldest = consumer->place;
	}
	upto = oldest ? rings_cursor(durable->rings, NULL) : NULL;
	if (!upto)
		return;
	upto->run = oldest->run;
	for (uint32_t i = 0; i < durable->rings->n; i++) {
		struct position *at = &upto->position[i];

		at->seq = UINT64_MAX;
		TAILQ_FOREACH(consumer, consumers_list(durable->consumers), link) {
			uint64_t seq = consumer->subscription != subscription ||
				       consumer->place->run.epoch != oldest->run.epoch ?
					       UINT64_MAX : cursor_seq(consumer->place, at->cpu, 0);

			if (seq < at->seq)
				at->seq = seq;
		}
	}
	spool_release(subscription->spool.spool, upto);
	free(upto);
}

/*
 * A segment goes when what its consumers acknowledged is on its way to the disk, before it: after a power
 * cut they may get something again, and it has to be there.
 */
void durable_release(struct durable *durable)
{
	struct subscription *subscription;

	if (!consumers_are_given(durable->consumers))
		return;				/* subscribers_saved() tries again */
	TAILQ_FOREACH(subscription, &durable->subscriptions->list, link) {
		if (subscription->owes_release && subscription->spool.spool)
			release(durable, subscription);
		subscription->owes_release = false;
	}
}

/* No subscription has it: who else may need it is another such consumer. */
static void forget_held(struct durable *durable, const char *spool)
{
	const struct consumer *consumer;

	TAILQ_FOREACH(consumer, consumers_list(durable->consumers), link)
		if (strcmp(consumer->spool, spool) == 0)
			return;
	if (spool[0] && !spooler_has(durable->spooler, spool))
		spooler_remove(durable->spooler, spool);
}

/* One consumer less waits for what this subscription keeps. */
static void let_go(struct durable *durable, struct subscription *subscription)
{
	subscription->consumers--;
	/* That it is one less was given to the disk before this: with the end of that save it is released. */
	if (subscription->consumers) {
		subscription->owes_release = true;
	} else if (!subscription->permanent && subscription != durable->subscriptions->permanent.next) {
		subscription->spool.unwanted = true;
		durable->subscriptions->config.check_soon(durable->subscriptions->config.context);
	}
}

/* ---- Who may have which --------------------------------------------------------------------------- */

static bool is_reserved(const char *name, const struct client_identity *identity)
{
	bool relays = strcmp(name, CONSUMER_RELAY) == 0;

	return consumer_name_is_export(name) || relays != (identity->proof == IDENTITY_RELAY);
}

static int refuse_reserved(const char *name, struct error *error)
{
	if (consumer_name_is_export(name))
		error_set(error, EPERM, "consumer-reserved", "'%.80s': names that begin with "
			  CONSUMER_EXPORT_PREFIX " are this daemon's exporters'", name);
	else
		error_set(error, EPERM, "consumer-reserved", "'%.80s': the name " CONSUMER_RELAY
			  " is for the relay that this daemon dials, and no other for it", name);
	error_hint(error, "use another name");
	return -EPERM;
}

/* Whether there is room for one more of a client's. */
static int check_room(const struct durable *durable, const struct client_identity *identity,
		      struct error *error)
{
	unsigned its_own, clients =
		consumers_count(durable->consumers, identity->text, &its_own);

	if (identity->role < ROLE_OPERATOR && its_own >= CONSUMERS_PER_VIEWER_MAX) {
		error_set(error, ENOSPC, "too-many-consumers",
			  "%s has %u durable consumers already", identity->text, its_own);
		error_hint(error, "remove one: tracectl forget NAME");
		return -ENOSPC;
	}
	if (clients < CONSUMERS_OF_CLIENTS_MAX)
		return 0;
	error_set(error, ENOSPC, "too-many-consumers",
		  "clients have %u durable consumers already", clients);
	error_hint(error, "remove one: tracectl forget NAME; an operator may remove any");
	return -ENOSPC;
}

int durable_check(const struct durable *durable, const char *name,
		  const struct client_identity *identity, struct error *error)
{
	const struct consumer *consumer;

	if (!durable->spooler) {
		error_set(error, EINVAL, "not-durable",
			  "this daemon keeps nothing on disk, and so has no durable consumers");
		error_hint(error, "give ringtaild durability = written, or fsync");
		return -EINVAL;
	}
	consumer = consumers_find(durable->consumers, name);
	if (identity && is_reserved(name, identity))
		return refuse_reserved(name, error);
	if (!consumer)
		return identity ? check_room(durable, identity, error) : 0;
	if (identity && !consumer_is_open_to(consumer, identity))
		return consumer_refuse(name, error);
	if (!consumer->subscriber)
		return 0;
	error_set(error, EBUSY, "consumer-in-use",
		  "the durable consumer '%s' is connected already", name);
	error_hint(error, "one connection at a time: end the other one, or use another name");
	return -EBUSY;
}

int durable_may_consume(const struct durable *durable, const char *name,
			const struct client_identity *identity, bool *registers,
			struct error *error)
{
	*registers = durable->spooler && !consumer_name_is_own(name) && !consumers_find(durable->consumers, name);
	return durable_check(durable, name, identity, error);
}

int durable_may_forget(const struct durable *durable, const char *name,
		       const struct client_identity *identity, struct error *error)
{
	const struct consumer *consumer =
		durable->consumers ? consumers_find(durable->consumers, name) : NULL;

	if (consumer)
		return consumer_is_open_to(consumer, identity) ? 0 : consumer_refuse(name, error);
	error_set(error, ENOENT, "no-such-consumer", "there is no durable consumer '%.80s'", name);
	error_hint(error, "`tracectl stat` lists them");
	return -ENOENT;
}

/* ---- Consumers ------------------------------------------------------------------------------- */

static uint64_t behind_bytes(const struct consumer *consumer, const struct spool *spool)
{
	static const struct cursor nowhere;

	return spool_behind(spool, consumer->place ? consumer->place : &nowhere);
}

/* `bytes`: of what it had asked for before, and not acknowledged. */
static void tell_changed(const struct consumer *consumer, uint64_t bytes)
{
	if (!consumer_name_is_export(consumer->name)) {
		log_warn("relay-changed", "other events are always recorded than before: the relay does not get those of"
			 " before that it has not acknowledged (about %llu bytes on disk)",
			 (unsigned long long)bytes);
		return;
	}
	counter_add(COUNTER_exports_changed, 1);
	counter_add(COUNTER_export_bytes_given_up, bytes);
	log_warn("export-changed", "%s has other probes, another filter or other flags now: it discards the events of"
		 " before that it has not sent (about %llu bytes on disk)", consumer->name,
		 (unsigned long long)bytes);
}

/*
 * One of this daemon's own that asks for something else than before: its place stays, so that its stream begins
 * with a gap for what it had not sent, which goes, unless others need it.
 */
static int change_consumer(struct durable *durable, struct consumer *consumer,
			   const struct subscription_request *request, struct error *error)
{
	struct subscription *before = consumer->subscription;
	char spool[SPOOL_NAME_BYTES];
	uint64_t bytes = before && before->spool.spool ?
			 behind_bytes(consumer, before->spool.spool) : 0;
	int err;

	memcpy(spool, consumer->spool, sizeof(spool));
	err = consumers_change(durable->consumers, consumer, request, error);
	if (err)
		return err;
	tell_changed(consumer, bytes);
	/* Who has none of its own has 0. */
	consumer->account.lost += strcmp(consumer->name, CONSUMER_RELAY) == 0 ? count_behind(consumer) : 0;
	consumer->subscription = NULL;
	if (before)
		let_go(durable, before);
	else
		forget_held(durable, spool);
	return 0;
}

static void attach(struct consumer *consumer, struct subscription *subscription)
{
	if (consumer->subscription == subscription)
		return;
	consumer->subscription = subscription;
	subscription->consumers++;
	begin_account(consumer);
}

int durable_take(struct durable *durable, const char *name, struct subscriber *subscriber,
		 const struct subscription_request *request, struct error *error)
{
	const struct client_identity *identity = subscriber->identity;
	struct consumer *consumer = consumers_find(durable->consumers, name);
	int err;

	if (!consumer)
		err = consumers_add(durable->consumers, name, identity ? identity->text : "", request,
				    &consumer, error);
	else
		err = consumers_compare(consumer, request, error);
	if (err == -EINVAL && consumer && !identity)
		err = change_consumer(durable, consumer, request, error);
	if (!err)
		err = durable_keep(durable, subscriber->subscription, consumer, error);
	if (err)
		return err;
	attach(consumer, subscriber->subscription);
	consumer->subscriber = subscriber;
	subscriber->consumer = consumer;
	return 0;
}

/* The registered one, of what is always on now; it may be for what was before. */
static int find_relay(struct durable *durable, const struct subscription_request *request, struct consumer **relay,
		      struct error *error)
{
	struct client_identity identity;

	*relay = consumers_find(durable->consumers, CONSUMER_RELAY);
	if (*relay)
		return consumers_compare(*relay, request, error) != 0 ?
			       change_consumer(durable, *relay, request, error) : 0;
	identity_set_relay(&identity, ROLE_NONE);
	return consumers_add(durable->consumers, CONSUMER_RELAY, identity.text, request, relay, error);
}

/* From now on all is kept for it that comes after this. */
static int begin_at(struct durable *durable, struct consumer *consumer, const uint64_t *at, struct error *error)
{
	struct cursor *place = rings_cursor(durable->rings, at);

	if (!place || consumer_acknowledge(consumer, place, 0) != 0) {
		free(place);
		return no_memory(error);
	}
	free(consumer->began);
	consumer->began = place;
	begin_account(consumer);
	consumers_save(durable->consumers);
	return 0;
}

int durable_register_relay(struct durable *durable, struct subscription *subscription, const uint64_t *at,
			   struct error *error)
{
	struct subscription_request request = subscription_request_of(subscription);
	struct consumer *relay = durable->spooler ? consumers_find(durable->consumers, CONSUMER_RELAY) : NULL;
	bool has_it = relay && relay->subscription == subscription;
	int err;

	if (!durable->spooler || (has_it && relay->place) || (relay && !has_it && relay->subscriber))
		return 0;
	err = find_relay(durable, &request, &relay, error);
	if (!err)
		err = durable_keep(durable, subscription, relay, error);
	if (err)
		return err;
	attach(relay, subscription);
	return relay->place ? 0 : begin_at(durable, relay, at, error);
}

void durable_lose(struct durable *durable, const struct subscription *subscription)
{
	struct consumer *consumer;

	if (!subscription->consumers)
		return;
	TAILQ_FOREACH(consumer, consumers_list(durable->consumers), link) {
		if (consumer->subscription != subscription)
			continue;
		consumer->subscription = NULL;
		begin_account(consumer);
	}
}

int durable_restore(struct durable *durable, struct error *error)
{
	struct consumer *consumer;
	unsigned clients = 0;
	int err;

	if (!durable->consumers)
		return 0;
	TAILQ_FOREACH(consumer, consumers_list(durable->consumers), link) {
		struct subscription_request request = {
			.glob = (const char *const *)consumer->glob,
			.globs = consumer->globs,
			.filter = consumer->filter,
			.flags = consumer->flags,
		};
		struct subscription *subscription;

		/* A file of before there was that bound leaves room for the rest, too. */
		if (!consumer_name_is_own(consumer->name) &&
		    clients++ == CONSUMERS_OF_CLIENTS_MAX)
			return 0;
		err = subscriptions_get(durable->subscriptions, &request,
					      consumer_name_is_export(consumer->name) ?
						      CLAIM_EXPORT : CLAIM_OWN,
					      &subscription, error);
		if (!err)
			err = durable_keep(durable, subscription, consumer, error);
		if (err == -ENOMEM)
			return err;
		if (err) {
			/* A kernel with other probes: it is told when it comes back, and what is
			 * there is held for it. */
			log_failure(LOG_LEVEL_WARNING, error);
			continue;
		}
		consumer->subscription = subscription;
		consumer->unrecorded = recorder_is_held(durable->subscriptions->recorder) &&
				       subscription->origin != SUBSCRIPTION_RESTORED;
		subscription->consumers++;
	}
	return 0;
}

void durable_each(const struct durable *durable,
			  void (*each)(void *context, const struct consumer_stat *stat),
			  void *context)
{
	const struct consumer *consumer;

	if (!durable->consumers)
		return;
	TAILQ_FOREACH(consumer, consumers_list(durable->consumers), link) {
		const struct spool *spool =
			consumer->subscription ? consumer->subscription->spool.spool : NULL;
		struct consumer_stat stat = {
			.name = consumer->name,
			.owner = consumer->owner,
			.spool = consumer->spool,
			.connected = consumer->subscriber &&
				     consumer->subscriber->state == SUBSCRIBER_LIVE,
			.exporter = consumer_name_is_export(consumer->name),
			.acked_realtime_ns = consumer->acked_realtime_ns,
		};

		if (spool)
			stat.behind_bytes = behind_bytes(consumer, spool);
		if (strcmp(consumer->name, CONSUMER_RELAY) == 0) {
			stat.account = consumer->account;
			stat.behind = count_behind(consumer);
		}
		each(context, &stat);
	}
}

/* ---- What they say ---------------------------------------------------------------------------- */

static int refuse_ack(const char *code, const char *name, const char *what, struct error *error)
{
	counter_add(COUNTER_acks_refused, 1);
	error_set(error, EINVAL, code, "the acknowledgement of the durable consumer '%s' %s", name,
		  what);
	error_hint(error, "nothing was changed: acknowledge only received events, each CPU once, in the"
			  " run of the rings that recorded them");
	return -EINVAL;
}

/* How far that CPU was sent: in this connection, or before. */
static uint64_t sent_upto(const struct durable *durable, const struct stream *stream,
			  const struct cursor *cursor, uint32_t cpu)
{
	uint64_t upto = consumer_sent_upto(stream->consumer, &cursor->run, cpu);
	int ring = rings_find(durable->rings, cpu);

	if (ring < 0 || stream->ring[ring].unknown ||
	    !run_equal(&cursor->run, &durable->rings->run))
		return upto;
	return stream->ring[ring].seen > upto ? stream->ring[ring].seen : upto;
}

int durable_check_ack(const struct durable *durable, const struct stream *stream,
		      const struct cursor *cursor, struct error *error)
{
	const struct consumer *consumer = stream->consumer;

	if (!run_is_named(&cursor->run))
		return refuse_ack("cursor-invalid", consumer->name, "names no boot", error);
	for (uint32_t i = 0; i < cursor->n; i++) {
		const struct position *position = &cursor->position[i];

		if (cursor_find(cursor, position->cpu) != position)
			return refuse_ack("cursor-invalid", consumer->name, "names a CPU twice", error);
		if (position->seq > sent_upto(durable, stream, cursor, position->cpu))
			return refuse_ack("ack-beyond", consumer->name,
					  "is of more than it was sent", error);
	}
	return 0;
}

void durable_acknowledge(struct durable *durable, struct consumer *consumer,
			 const struct cursor *upto)
{
	struct subscription *subscription = consumer->subscription;
	bool counts = strcmp(consumer->name, CONSUMER_RELAY) == 0, has_place = consumer->place;
	uint64_t behind = counts ? count_behind(consumer) : 0;
	int err = consumer_acknowledge(consumer, upto, clock_read(CLOCK_REALTIME));

	if (!has_place)
		begin_account(consumer);
	else if (counts)
		consumer->account.acked += behind - count_behind(consumer);
	if (err)
		return;				/* the next one says more */
	consumer->unrecorded = false;
	consumers_save(durable->consumers);
	if (subscription)
		subscription->owes_release = true;
	durable_release(durable);
}

void durable_each_held(void *context, spooler_name *name, void *name_context)
{
	const struct durable *durable = context;
	const struct consumer *consumer;

	if (!durable->consumers)
		return;
	TAILQ_FOREACH(consumer, consumers_list(durable->consumers), link)
		if (!consumer->subscription && consumer->spool[0])
			name(name_context, consumer->spool);
}

int durable_forget(struct durable *durable, const char *name, struct error *error)
{
	struct consumer *consumer = durable->consumers ?
				    consumers_find(durable->consumers, name) : NULL;
	struct subscription *subscription;
	char spool[SPOOL_NAME_BYTES];

	if (!consumer) {
		error_set(error, ENOENT, "no-such-consumer", "there is no durable consumer '%.80s'",
			  name);
		error_hint(error, "`tracectl stat` lists them");
		return -ENOENT;
	}
	if (consumer->subscriber) {
		error_set(error, EBUSY, "consumer-in-use",
			  "the durable consumer '%s' is connected", name);
		error_hint(error, "end its connection first");
		return -EBUSY;
	}
	subscription = consumer->subscription;
	memcpy(spool, consumer->spool, sizeof(spool));
	consumers_remove(durable->consumers, consumer);
	if (!subscription) {
		forget_held(durable, spool);
		return 0;
	}
	let_go(durable, subscription);
	return 0;
}
