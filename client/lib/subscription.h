/*
 * subscription: a subscription's own copy, for the first connection and every later one.
 */
#ifndef RINGTAIL_CLIENT_LIB_SUBSCRIPTION_H
#define RINGTAIL_CLIENT_LIB_SUBSCRIPTION_H

#include "client/lib/conn.h"
#include "client/lib/cursor.h"
#include "client/lib/ringtail.h"

struct subscription;

/* Copies; checks the bounds and the cursor. `from` may be NULL. */
int subscription_create(const struct ringtail_subscription *from, struct subscription **made,
			struct ringtail_error *error);

/* Once, before it is sent: copies the question, and checks its bounds. */
int subscription_ask(struct subscription *subscription, const struct ringtail_question *question,
		     struct ringtail_error *error);
void subscription_destroy(struct subscription *subscription);

const struct ringtail_subscription *subscription_wanted(const struct subscription *subscription);

/* The cursor to begin at, or NULL. */
const struct cursor *subscription_since(const struct subscription *subscription);

/* Sends Subscribe, to go on at `since`; NULL: where the subscription says. `waits`: for programs that bring its probes. */
int subscription_send(const struct subscription *subscription, struct conn *conn,
		      const struct cursor *since, bool waits, struct ringtail_error *error);

/* Sends Ack, if it is a durable consumer's. */
int subscription_ack(const struct subscription *subscription, struct conn *conn,
		     const struct cursor *upto, struct ringtail_error *error);

#endif
