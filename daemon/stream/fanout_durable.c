/*
 * fanout_durable: subscriptions whose frames go to disk, and the durable consumers they are kept for.
 *
 * Such a subscription is one that is always on, or a consumer's. What an earlier run of the daemon
 * took out of the rings and did not store is a gap before what this one appends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/catch_up.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/stream/fanout_private.h"
#include "daemon/base/log.h"
#include "daemon/spool/spool.h"

/* ---- Onto disk ------------------------------------------------------------------------------- */

static void on_opened(void *context, const uint64_t *end)
{
	struct subscription *subscription = context;

	memcpy(subscription->spool.end, end, subscription->rings * sizeof(*end));
}

static void on_progress(void *context, const uint64_t *end)
{
	struct subscription *subscription = context;

	memcpy(subscription->spool.end, end, subscription->rings * sizeof(*end));
	fanout_poke_readers(subscription);
}

static void on_read(void *context)
{
	struct fanout *fanout = context;

	/* Not from inside the reader's own call: whoever is woken may destroy it. */
	event_active(fanout->read, EV_TIMEOUT, 0);
}

void fanout_poke_readers(struct subscription *subscription)
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
static void name_spool(const struct fanout *fanout, const struct subscription *subscription,
		       const struct consumer *consumer, char name[SPOOL_NAME_BYTES])
{
	if (consumer && consumer->spool[0] &&
	    !spooler_has(fanout->config.spooler, consumer->spool)) {
		memcpy(name, consumer->spool, SPOOL_NAME_BYTES);
		return;
	}
	for (unsigned salt = 0; salt <= SUBSCRIPTIONS_MAX; salt++) {
		hash_name(subscription, salt, name);
		if (!spooler_has(fanout->config.spooler, name))
			return;
	}
}

/* So that the next run finds it. */
static void note_spool(struct fanout *fanout, const struct subscription *subscription,
		       struct consumer *consumer)
{
	struct spool_stat now;

	spool_stat(subscription->spool.spool, &now);
	if (strcmp(consumer->spool, now.config->name) == 0)
		return;
	snprintf(consumer->spool, sizeof(consumer->spool), "%s", now.config->name);
	consumers_save(fanout->config.consumers);
}

static int no_memory(struct error *error)
{
	return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
}

static int open_spool(struct fanout *fanout, struct subscription *subscription,
		      const struct consumer *consumer, struct error *error)
{
	struct subscription_spool *spool = &subscription->spool;
	struct spool_config config = {
		.probe = (const char *const *)subscription->glob,
		.probes = subscription->globs,
		.filter = subscription->filter_text,
		.flags = subscription->spec.flags,
		.goes_on = subscription->restored,
		.always_on = !consumer,
		.opened = on_opened,
		.progress = on_progress,
		.context = subscription,
	};
	char name[SPOOL_NAME_BYTES];
	uint32_t probes;

	if (!spool->hello)
		spool->hello = fanout->config.hello(fanout->config.context);
	if (!spool->catalog)
		spool->catalog = subscription_pack_catalog(subscription, loader_catalog(fanout->config.loader),
							   fanout->config.codec, &probes);
	if (!spool->end)
		spool->end = calloc(fanout->rings + 1, sizeof(*spool->end));
	if (!spool->hello || !spool->catalog || !spool->end)
		return no_memory(error);
	spool->run = fanout->config.run;
	spool->read = on_read;
	spool->context = fanout;
	name_spool(fanout, subscription, consumer, name);
	config.name = name;
	config.hello = frame_ref_get(spool->hello);
	config.catalog = frame_ref_get(spool->catalog);
	return spool_open(fanout->config.spooler, &config, &spool->spool, error);
}

int fanout_keep_on_disk(struct fanout *fanout, struct subscription *subscription,
			struct consumer *consumer, struct error *error)
{
	int err = 0;

	subscription->spool.unwanted = false;
	if (!fanout->config.spooler)
		return 0;
	if (!subscription->spool.spool) {
		err = open_spool(fanout, subscription, consumer, error);
		/* One that goes on already begins in the middle. */
		if (!err && subscription->state == SUBSCRIPTION_LIVE)
			spool_set_recorded(subscription->spool.spool, clock_read(CLOCK_REALTIME));
		for (uint32_t i = 0; !err && subscription->state == SUBSCRIPTION_LIVE && i < fanout->rings; i++)
			spool_begin_ring(subscription->spool.spool, i, subscription->position[i]);
	}
	if (!err && consumer)
		note_spool(fanout, subscription, consumer);
	else if (!err)
		spool_set_always_on(subscription->spool.spool, true);
	return err;
}

/* Attempts that no run of the daemon has stored: a Gap, for the log and the disk. */
static struct frame_ref *pack_missing(struct fanout *fanout, uint32_t ring, uint64_t first,
				      uint64_t end, Ringtail__V1__LossReason reason)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	struct frame_ref *frame;

	gap.cpu = fanout->cpu_of[ring];
	gap.first_seq = first;
	gap.end_seq = end;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL;
	gap.reason = reason;
	frame = frame_ref_pack(fanout->config.codec, FRAME_GAP, &gap.base);
	if (!frame)
		return NULL;
	frame->ring = ring;
	frame->cpu = gap.cpu;
	frame->first_seq = first;
	frame->end_seq = end;
	frame->losses = 1;
	frame->loss[0] = (struct loss_count){(uint8_t)gap.stage, (uint8_t)gap.reason, end - first};
	return frame;
}

void fanout_begin_ring(struct fanout *fanout, struct subscription *subscription, uint32_t ring,
		       uint64_t seq)
{
	uint64_t stored = subscription->spool.end ? subscription->spool.end[ring] : 0;
	struct frame_ref *gap = NULL;

	subscription->position[ring] = seq;
	subscription->floor[ring] = seq;
	if (stored && stored < seq)
		gap = pack_missing(fanout, ring, stored, seq,
				   spool_missing_reason(subscription->spool.spool));
	if (gap) {
		subscription->position[ring] = subscription->floor[ring] = stored;
		subscription->begins_late = true;
		subscription_append(subscription, gap);
	} else if (subscription->spool.spool) {
		spool_begin_ring(subscription->spool.spool, ring, seq);
	}
}

/* ---- Letting go ------------------------------------------------------------------------------ */

/* What is before the slowest consumer's place is needed by none. */
static void release(struct fanout *fanout, struct subscription *subscription)
{
	const struct cursor *oldest = NULL;
	const struct consumer *consumer;
	struct cursor *upto;

	TAILQ_FOREACH(consumer, consumers_list(fanout->config.consumers), link) {
		if (consumer->subscription != subscription)
			continue;
		if (!consumer->place)
			return;
		if (!oldest || consumer->place->run.epoch < oldest->run.epoch)
			oldest = consumer->place;
	}
	upto = oldest ? fanout_cursor(fanout, NULL) : NULL;
	if (!upto)
		return;
	upto->run = oldest->run;
	for (uint32_t i = 0; i < fanout->rings; i++) {
		struct position *at = &upto->position[i];

		at->seq = UINT64_MAX;
		TAILQ_FOREACH(consumer, consumers_list(fanout->config.consumers), link) {
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
void fanout_release(struct fanout *fanout)
{
	struct subscription *subscription;

	if (!consumers_are_given(fanout->config.consumers))
		return;				/* fanout_consumers_saved() tries again */
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link) {
		if (subscription->owes_release && subscription->spool.spool)
			release(fanout, subscription);
		subscription->owes_release = false;
	}
}

/* No subscription has it: who else may need it is another such consumer. */
static void forget_held(struct fanout *fanout, const char *spool)
{
	const struct consumer *consumer;

	TAILQ_FOREACH(consumer, consumers_list(fanout->config.consumers), link)
		if (strcmp(consumer->spool, spool) == 0)
			return;
	if (spool[0] && !spooler_has(fanout->config.spooler, spool))
		spooler_remove(fanout->config.spooler, spool);
}

/* One consumer less waits for what this subscription keeps. */
static void let_go(struct fanout *fanout, struct subscription *subscription)
{
	subscription->consumers--;
	if (subscription->consumers) {
		subscription->owes_release = true;
		fanout_release(fanout);
	} else if (!subscription->permanent && subscription != fanout->next_permanent) {
		subscription->spool.unwanted = true;
		fanout_check_soon(fanout);
	}
}

/* ---- Consumers ------------------------------------------------------------------------------- */

static uint64_t behind_bytes(const struct consumer *consumer, const struct spool *spool)
{
	static const struct cursor nowhere;

	return spool_behind(spool, consumer->place ? consumer->place : &nowhere);
}

/*
 * An exporter that asks for something else than before: its place stays, so that its stream begins with a
 * gap for what it had not sent, which goes, unless others need it.
 */
static int change_consumer(struct fanout *fanout, struct consumer *consumer,
			   const struct subscription_request *request, struct error *error)
{
	struct subscription *before = consumer->subscription;
	char spool[SPOOL_NAME_BYTES];
	uint64_t bytes = before && before->spool.spool ?
			 behind_bytes(consumer, before->spool.spool) : 0;
	int err;

	memcpy(spool, consumer->spool, sizeof(spool));
	err = consumers_change(fanout->config.consumers, consumer, request, error);
	if (err)
		return err;
	counter_add(COUNTER_exports_changed, 1);
	counter_add(COUNTER_export_bytes_given_up, bytes);
	log_warn("export-changed", "%s asks for something else than before: what it had not sent of"
		 " that (about %llu bytes on disk) is given up", consumer->name,
		 (unsigned long long)bytes);
	consumer->subscription = NULL;
	if (before)
		let_go(fanout, before);
	else
		forget_held(fanout, spool);
	return 0;
}

int fanout_take_consumer(struct fanout *fanout, const char *name,
			 const struct client_identity *identity,
			 const struct subscription_request *request,
			 struct subscription *subscription, struct consumer **out,
			 struct error *error)
{
	struct consumer *consumer = consumers_find(fanout->config.consumers, name);
	int err;

	if (!consumer)
		err = consumers_add(fanout->config.consumers, name, identity ? identity->text : "",
				    request, &consumer, error);
	else
		err = consumers_compare(consumer, request, error);
	if (err == -EINVAL && consumer && !identity)
		err = change_consumer(fanout, consumer, request, error);
	if (!err)
		err = fanout_keep_on_disk(fanout, subscription, consumer, error);
	if (err)
		return err;
	if (consumer->subscription != subscription) {
		consumer->subscription = subscription;
		subscription->consumers++;
	}
	consumer->connected = true;
	*out = consumer;
	return 0;
}

int fanout_restore_consumers(struct fanout *fanout, struct error *error)
{
	struct consumer *consumer;
	unsigned clients = 0;
	int err;

	if (!fanout->config.consumers)
		return 0;
	TAILQ_FOREACH(consumer, consumers_list(fanout->config.consumers), link) {
		struct subscription_request request = {
			.glob = (const char *const *)consumer->glob,
			.globs = consumer->globs,
			.filter = consumer->filter,
			.flags = consumer->flags,
		};
		struct subscription *subscription;

		/* A file of before there was that bound leaves room for the rest, too. */
		if (!consumer_name_is_export(consumer->name) &&
		    clients++ == CONSUMERS_OF_CLIENTS_MAX)
			return 0;
		err = fanout_get_subscription(fanout, &request,
					      consumer_name_is_export(consumer->name) ?
						      FANOUT_EXPORT : FANOUT_OWN,
					      &subscription, error);
		if (!err)
			err = fanout_keep_on_disk(fanout, subscription, consumer, error);
		if (err == -ENOMEM)
			return err;
		if (err) {
			/* A kernel with other probes: it is told when it comes back, and what is
			 * there is held for it. */
			log_failure(LOG_LEVEL_WARNING, error);
			continue;
		}
		consumer->subscription = subscription;
		consumer->unrecorded = fanout->restoring && !subscription->restored;
		subscription->consumers++;
	}
	return 0;
}

static bool is_waiting(const struct fanout *fanout, const struct consumer *consumer)
{
	const struct subscriber *subscriber;

	TAILQ_FOREACH(subscriber, &fanout->waiting, link)
		if (subscriber->consumer == consumer)
			return true;
	return false;
}

void fanout_each_consumer(const struct fanout *fanout,
			  void (*each)(void *context, const struct fanout_consumer_stat *stat),
			  void *context)
{
	const struct consumer *consumer;

	if (!fanout->config.consumers)
		return;
	TAILQ_FOREACH(consumer, consumers_list(fanout->config.consumers), link) {
		const struct spool *spool =
			consumer->subscription ? consumer->subscription->spool.spool : NULL;
		struct fanout_consumer_stat stat = {
			.name = consumer->name,
			.owner = consumer->owner,
			.spool = consumer->spool,
			.connected = consumer->connected && !is_waiting(fanout, consumer),
			.exporter = consumer_name_is_export(consumer->name),
			.acked_realtime_ns = consumer->acked_realtime_ns,
		};

		if (spool)
			stat.behind_bytes = behind_bytes(consumer, spool);
		each(context, &stat);
	}
}

/* ---- What they say ---------------------------------------------------------------------------- */

static int refuse_ack(const char *code, const char *name, const char *what, struct error *error)
{
	counter_add(COUNTER_acks_refused, 1);
	error_set(error, EINVAL, code, "the acknowledgement of the durable consumer '%s' %s", name,
		  what);
	error_hint(error, "nothing was changed: acknowledge what has come, each CPU once, in the run of"
			  " the rings that it came from");
	return -EINVAL;
}

/* How far that CPU was sent: in this connection, or before. */
static uint64_t sent_upto(const struct fanout *fanout, const struct stream *stream,
			  const struct cursor *cursor, uint32_t cpu)
{
	uint64_t upto = consumer_sent_upto(stream->consumer, &cursor->run, cpu);
	int ring = fanout_ring_of(fanout, cpu);

	if (ring < 0 || stream->ring[ring].unknown ||
	    !run_equal(&cursor->run, &fanout->config.run))
		return upto;
	return stream->ring[ring].seen > upto ? stream->ring[ring].seen : upto;
}

int fanout_check_ack(const struct fanout *fanout, const struct stream *stream,
		     const struct cursor *cursor, struct error *error)
{
	const struct consumer *consumer = stream->consumer;

	if (!run_is_named(&cursor->run))
		return refuse_ack("cursor-invalid", consumer->name, "names no boot", error);
	for (uint32_t i = 0; i < cursor->n; i++) {
		const struct position *position = &cursor->position[i];

		if (cursor_find(cursor, position->cpu) != position)
			return refuse_ack("cursor-invalid", consumer->name, "names a CPU twice", error);
		if (position->seq > sent_upto(fanout, stream, cursor, position->cpu))
			return refuse_ack("ack-beyond", consumer->name,
					  "is of more than it was sent", error);
	}
	return 0;
}

void fanout_acknowledge(struct fanout *fanout, struct consumer *consumer,
			const struct cursor *upto)
{
	struct subscription *subscription = consumer->subscription;

	if (consumer_acknowledge(consumer, upto, clock_read(CLOCK_REALTIME)) != 0)
		return;				/* the next one says more */
	consumer->unrecorded = false;
	consumers_save(fanout->config.consumers);
	if (subscription)
		subscription->owes_release = true;
	fanout_release(fanout);
}

void fanout_each_held(void *context, spooler_name *name, void *name_context)
{
	const struct fanout *fanout = context;
	const struct consumer *consumer;

	if (!fanout->config.consumers)
		return;
	TAILQ_FOREACH(consumer, consumers_list(fanout->config.consumers), link)
		if (!consumer->subscription && consumer->spool[0])
			name(name_context, consumer->spool);
}

int fanout_forget_consumer(struct fanout *fanout, const char *name, struct error *error)
{
	struct consumer *consumer = fanout->config.consumers ?
				    consumers_find(fanout->config.consumers, name) : NULL;
	struct subscription *subscription;
	char spool[SPOOL_NAME_BYTES];

	if (!consumer) {
		error_set(error, ENOENT, "no-such-consumer", "there is no durable consumer '%.80s'",
			  name);
		error_hint(error, "`tracectl stat` lists them");
		return -ENOENT;
	}
	if (consumer->connected) {
		error_set(error, EBUSY, "consumer-in-use",
			  "the durable consumer '%s' is connected", name);
		error_hint(error, "end its connection first");
		return -EBUSY;
	}
	subscription = consumer->subscription;
	memcpy(spool, consumer->spool, sizeof(spool));
	consumers_remove(fanout->config.consumers, consumer);
	if (!subscription) {
		forget_held(fanout, spool);
		return 0;
	}
	let_go(fanout, subscription);
	return 0;
}
