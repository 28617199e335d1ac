#include "client/lib/subscription.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/cursor.h"
#include "client/lib/failure.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

struct subscription {
	struct ringtail_subscription wanted;	/* its pointers point below */
	char *probe[SUBSCRIBE_PROBES_MAX];
	char *filter;
	char *consumer;			/* NULL: none */
	struct cursor *since;
	bool asks;
	struct ringtail_question question;	/* if it asks */
	char *by[QUESTION_BY_MAX];
	char *of;
};

static int check(const struct ringtail_subscription *from, struct ringtail_error *error)
{
	if (from->probes > SUBSCRIBE_PROBES_MAX)
		return failure_set(error, EINVAL, "too-many-probes", "%zu probes are asked for: a "
				   "subscription takes %u", from->probes, SUBSCRIBE_PROBES_MAX);
	for (size_t i = 0; i < from->probes; i++)
		if (strlen(from->probe[i]) >= NAME_BYTES_MAX)
			return failure_set(error, EINVAL, "too-long",
					   "a probe's name has at most %u bytes: '%.32s...'",
					   NAME_BYTES_MAX - 1, from->probe[i]);
	if (from->filter && strlen(from->filter) > FILTER_BYTES_MAX)
		return failure_set(error, EINVAL, "too-long", "a filter has at most %u bytes",
				   FILTER_BYTES_MAX);
	return 0;
}

int subscription_create(const struct ringtail_subscription *from, struct subscription **made,
			struct ringtail_error *error)
{
	static const struct ringtail_subscription none;
	struct subscription *subscription;
	int err;

	if (!from)
		from = &none;
	err = check(from, error);
	if (err)
		return err;
	subscription = calloc(1, sizeof(*subscription));
	if (!subscription)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	subscription->wanted = *from;
	for (size_t i = 0; i < from->probes; i++) {
		subscription->probe[i] = strdup(from->probe[i]);
		if (!subscription->probe[i])
			goto no_memory;
	}
	subscription->filter = strdup(from->filter ? from->filter : "");
	subscription->consumer = from->consumer ? strdup(from->consumer) : NULL;
	if (!subscription->filter || (from->consumer && !subscription->consumer))
		goto no_memory;
	if (from->since) {
		err = cursor_parse(from->since, &subscription->since, error);
		if (err) {
			subscription_destroy(subscription);
			return err;
		}
	}
	subscription->wanted.probe = (const char *const *)subscription->probe;
	subscription->wanted.filter = subscription->filter;
	subscription->wanted.consumer = subscription->consumer;
	subscription->wanted.since = NULL;
	*made = subscription;
	return 0;

no_memory:
	subscription_destroy(subscription);
	return failure_set(error, ENOMEM, "no-memory", "out of memory");
}

void subscription_destroy(struct subscription *subscription)
{
	if (!subscription)
		return;
	for (size_t i = 0; i < SUBSCRIBE_PROBES_MAX; i++)
		free(subscription->probe[i]);
	for (size_t i = 0; i < QUESTION_BY_MAX; i++)
		free(subscription->by[i]);
	free(subscription->of);
	free(subscription->filter);
	free(subscription->consumer);
	free(subscription->since);
	free(subscription);
}

static int check_question(const struct ringtail_question *question, struct ringtail_error *error)
{
	bool fits = question->bys <= QUESTION_BY_MAX;

	for (size_t i = 0; fits && i < question->bys; i++)
		fits = *question->by[i] && strlen(question->by[i]) <= QUESTION_NAME_BYTES_MAX;
	if (fits && (!question->of || strlen(question->of) <= QUESTION_NAME_BYTES_MAX))
		return 0;
	return failure_set(error, EINVAL, "too-long", "a question counts by at most %u names of %u bytes",
			   QUESTION_BY_MAX, QUESTION_NAME_BYTES_MAX);
}

/* -ENOMEM: what was copied goes with the subscription. */
static int copy_question(struct subscription *subscription, const struct ringtail_question *question)
{
	subscription->question = *question;
	subscription->asks = true;
	subscription->of = strdup(question->of ? question->of : "");
	if (!subscription->of)
		return -ENOMEM;
	for (size_t i = 0; i < question->bys; i++) {
		subscription->by[i] = strdup(question->by[i]);
		if (!subscription->by[i])
			return -ENOMEM;
	}
	return 0;
}

int subscription_ask(struct subscription *subscription, const struct ringtail_question *question,
		     struct ringtail_error *error)
{
	int err = check_question(question, error);

	if (!err && copy_question(subscription, question))
		err = failure_set(error, ENOMEM, "no-memory", "out of memory");
	return err;
}

const struct ringtail_subscription *subscription_wanted(const struct subscription *subscription)
{
	return &subscription->wanted;
}

const struct cursor *subscription_since(const struct subscription *subscription)
{
	return subscription->since;
}

int subscription_ack(const struct subscription *subscription, struct conn *conn,
		     const struct cursor *upto, struct ringtail_error *error)
{
	Ringtail__V1__Ack message = RINGTAIL__V1__ACK__INIT;
	struct cursor_message *cursor;
	int err;

	if (!subscription->consumer)
		return 0;
	cursor = cursor_message_create(upto);
	if (!cursor)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	message.upto = &cursor->cursor;
	err = conn_send(conn, FRAME_ACK, &message.base, error);
	free(cursor);
	return err;
}

int subscription_send(const struct subscription *subscription, struct conn *conn,
		      const struct cursor *since, bool waits, struct ringtail_error *error)
{
	static const struct {
		unsigned flag;
		Ringtail__V1__Flag wire;
	} flags[] = {
		{ RINGTAIL_KSTACK, RINGTAIL__V1__FLAG__FLAG_KSTACK },
		{ RINGTAIL_USTACK, RINGTAIL__V1__FLAG__FLAG_USTACK },
		{ RINGTAIL_STRINGS, RINGTAIL__V1__FLAG__FLAG_STRINGS },
		{ RINGTAIL_CONTEXT, RINGTAIL__V1__FLAG__FLAG_CONTEXT },
		{ RINGTAIL_FDS, RINGTAIL__V1__FLAG__FLAG_FDS },
		{ RINGTAIL_DATA, RINGTAIL__V1__FLAG__FLAG_DATA },
		{ RINGTAIL_MAPS, RINGTAIL__V1__FLAG__FLAG_STACK_TABLE },
	};
	Ringtail__V1__Subscribe message = RINGTAIL__V1__SUBSCRIBE__INIT;
	Ringtail__V1__Question question = RINGTAIL__V1__QUESTION__INIT;
	Ringtail__V1__Flag flag[sizeof(flags) / sizeof(*flags)];
	struct cursor_message *cursor = NULL;
	int err;

	message.n_probe = subscription->wanted.probes;
	message.probe = (char **)subscription->probe;
	message.filter = subscription->filter;
	message.wait = waits;
	message.flag = flag;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (subscription->wanted.flags & flags[i].flag)
			flag[message.n_flag++] = flags[i].wire;
	if (subscription->consumer)
		message.consumer = subscription->consumer;
	if (subscription->asks) {
		question.n_by = subscription->question.bys;
		question.by = (char **)subscription->by;
		question.of = subscription->of;
		question.interval_ns = subscription->question.interval_ns;
		question.origin_ns = subscription->question.origin_ns;
		message.question = &question;
	}
	/* Where nothing has come yet there is no place to go on from but the first one. */
	if (!since || !since->n)
		since = subscription->since;
	if (since) {
		cursor = cursor_message_create(since);
		if (!cursor)
			return failure_set(error, ENOMEM, "no-memory", "out of memory");
		message.since = &cursor->cursor;
	} else {
		message.since_realtime_ns = subscription->wanted.since_realtime_ns;
	}
	err = conn_send(conn, FRAME_SUBSCRIBE, &message.base, error);
	free(cursor);
	return err;
}
