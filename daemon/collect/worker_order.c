/*
 * worker_order: what the main thread asks of a worker, and what the worker makes of it. Everything that
 * needs memory is made on the main thread, where a request can still be refused.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/collect/worker_private.h"

static void free_batchers(const struct worker *worker, struct batcher **batcher)
{
	for (uint32_t i = 0; batcher && i < worker->rings; i++)
		batcher_destroy(batcher[i]);
	free(batcher);
}

/* One for each ring, on the main thread, where a request can still be refused. NULL: no memory. */
static struct batcher **make_batchers(struct worker *worker, uint32_t subscription,
				      const struct batcher_spec *spec)
{
	struct batcher **batcher = calloc(worker->rings + 1, sizeof(*batcher));

	for (uint32_t i = 0; batcher && i < worker->rings; i++) {
		const struct drain *drain = worker->drain[i];
		struct batcher_config config = {
			.spec = spec,
			.threads = drain->threads,
			.codec = worker->codec,
			.sink = worker_out_frame,
			.context = &worker->out,
			.subscription = subscription,
			.ring = drain->index,
			.cpu = ring_reader_cpu(drain->reader),
		};

		batcher[i] = batcher_create(&config);
		if (!batcher[i]) {
			free_batchers(worker, batcher);
			return NULL;
		}
	}
	return batcher;
}

/* There is room: a subscription's index is below SUBSCRIPTIONS_MAX, and its own. */
static void add_batchers(struct worker *worker, uint32_t subscription, struct batcher **batcher)
{
	for (uint32_t i = 0; i < worker->rings; i++) {
		int err = drain_add(worker->drain[i], subscription, batcher[i]);

		assert(err == 0);
		(void)err;
	}
	free(batcher);
}

static void add_subscription(struct worker *worker, struct worker_order *order)
{
	/* What is in the rings was recorded for others, before this one began. */
	if (worker->mood != WORKER_LEFT)
		worker_read_rings(worker);
	add_batchers(worker, order->subscription, order->batcher);
	order->batcher = NULL;
	for (uint32_t i = 0; i < worker->rings; i++)
		order->answer->position[i] = (struct worker_position){
			.ring = worker->drain[i]->index,
			.seq = worker->drain[i]->seq,
		};
}

static void remove_subscription(struct worker *worker, const struct worker_order *order)
{
	for (uint32_t i = 0; i < worker->rings; i++)
		drain_remove(worker->drain[i], order->subscription);
}

static bool anything_pending(const struct worker *worker)
{
	for (uint32_t i = 0; i < worker->rings; i++)
		if (!worker->drain[i]->corrupt &&
		    ring_reader_pending(worker->drain[i]->reader))
			return true;
	return false;
}

/*
 * The producers have been told to stop: what is left ends, unless a writer never finishes. It may have
 * been preempted with its record half written, so it is given a while, and the CPU, each time anew; but
 * a ring that never ends ends here.
 */
static void drain_all(struct worker *worker)
{
	const struct timespec nap = {.tv_nsec = STOP_DRAIN_NAP_NS};
	uint64_t began = clock_monotonic(), last_read = began, now = began;

	while (now - last_read < STOP_DRAIN_NS && now - began < STOP_DRAIN_NS_MAX) {
		uint64_t records = worker_read_rings(worker);

		now = clock_monotonic();
		if (records)
			last_read = now;
		else if (anything_pending(worker))
			nanosleep(&nap, NULL);
		else
			break;
	}
	worker_flush_pass(worker);
	if (anything_pending(worker))
		log_warn("rings-left", "a record in a ring was not finished, or the rings were filled "
			 "on: what is behind it stays there");
}

/* The producers go on, so there is no end to wait for: each ring has one more turn. */
static void leave(struct worker *worker)
{
	event_del(worker->tick);
	for (uint32_t i = 0; i < worker->rings; i++)
		event_del(worker->bell[i].event);
	if (worker->mood != WORKER_LEFT)
		worker_flush_pass(worker);
	worker->mood = WORKER_LEFT;
}

void worker_free_order(struct worker *worker, struct worker_order *order)
{
	free_batchers(worker, order->batcher);
	free(order->answer);
	if (order != &worker->stop)
		free(order);
}

void worker_on_orders(evutil_socket_t fd, short what, void *context)
{
	struct worker *worker = context;
	struct mail *mail = mailbox_take(&worker->in);

	(void)fd, (void)what;
	while (mail) {
		struct worker_order *order = (struct worker_order *)mail;

		mail = mail->next;
		switch (order->kind) {
		case ORDER_ADD:
			add_subscription(worker, order);
			break;
		case ORDER_REMOVE:
			remove_subscription(worker, order);
			break;
		case ORDER_DRAIN:
			if (worker->mood != WORKER_LEFT)
				drain_all(worker);
			break;
		case ORDER_LEAVE:
			leave(worker);
			break;
		case ORDER_STOP:
			event_base_loopbreak(worker->base);
			break;
		}
		if (order->answer)
			worker_out_send(&worker->out, order->answer);
		order->answer = NULL;
		worker_free_order(worker, order);
	}
}

static int send_order(struct worker *worker, struct worker_order order,
		      enum worker_mail_kind answer, uint32_t positions)
{
	struct worker_order *mine = malloc(sizeof(*mine));

	order.answer = worker_out_mail(&worker->out, answer, positions);
	if (!mine || !order.answer) {
		free_batchers(worker, order.batcher);
		free(order.answer);
		free(mine);
		return -ENOMEM;
	}
	order.answer->subscription = order.subscription;
	*mine = order;
	mailbox_send(&worker->in, &mine->mail);
	return 0;
}

int worker_add_subscription(struct worker *worker, uint32_t subscription,
			    const struct batcher_spec *spec)
{
	struct batcher **batcher = make_batchers(worker, subscription, spec);

	if (!batcher)
		return -ENOMEM;
	return send_order(worker, (struct worker_order){.kind = ORDER_ADD,
							.subscription = subscription,
							.batcher = batcher},
			  WORKER_STARTED, worker->rings);
}

int worker_remove_subscription(struct worker *worker, uint32_t subscription)
{
	return send_order(worker, (struct worker_order){.kind = ORDER_REMOVE,
							.subscription = subscription},
			  WORKER_REMOVED, 0);
}

int worker_drain(struct worker *worker)
{
	return send_order(worker, (struct worker_order){.kind = ORDER_DRAIN}, WORKER_DRAINED, 0);
}

int worker_leave(struct worker *worker)
{
	return send_order(worker, (struct worker_order){.kind = ORDER_LEAVE}, WORKER_DRAINED, 0);
}

int worker_adopt_subscription(struct worker *worker, uint32_t subscription,
			      const struct batcher_spec *spec)
{
	struct batcher **batcher = make_batchers(worker, subscription, spec);

	if (!batcher)
		return -ENOMEM;
	add_batchers(worker, subscription, batcher);
	return 0;
}
