/*
 * Two moods. Active: a tick every batch interval drains, flushes and says how far it came; in
 * between, a bell at half a ring drains all rings without flushing. Idle, after a tick that found
 * nothing: the bell is set for the next record, and a slow heartbeat carries the watermark on. What the kernel counts
 * instead of recording it rings no bell: as long as anybody asks for that, a worker is active, at the longest tick.
 */
#include "daemon/collect/worker.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/collect/drain.h"
#include "daemon/collect/pace.h"

enum worker_mood {
	WORKER_IDLE,
	WORKER_ACTIVE,
	WORKER_LEFT,		/* the rings are a later run's */
};

struct worker_order {
	struct mail mail;
	enum {
		ORDER_ADD,
		ORDER_REMOVE,
		ORDER_EMPTY,
		ORDER_LEAVE,
		ORDER_STOP,
	} kind;
	uint32_t subscription;
	struct batcher **batcher;	/* ORDER_ADD: one for each ring */
	struct worker_mail *answer;	/* what is promised with the order; NULL: nothing */
};

struct worker_bell {
	struct worker *worker;
	struct drain *drain;
	struct event *event;
	struct worker_mail *corrupt;	/* to be sent when it is; NULL: it was */
};

struct worker {
	struct worker_config config;
	_Atomic uint64_t batch_interval_ns;
	struct mailbox in;
	struct handoff handoff;
	struct worker_order stop;	/* the last one: it must not need memory */

	pthread_t thread;
	bool started;
	struct event_base *base;
	struct event *orders, *tick;
	struct frame_codec *codec;
	enum worker_mood mood;
	struct pace pace;
	uint64_t watermark_ns;		/* of the last pass */
	uint64_t counted_ns;		/* of the last one that found events that the producer had counted */
	struct inlet_pulled pulled;	/* at the last pull */

	struct drain *drain[RINGS_MAX];
	struct worker_bell bell[RINGS_MAX];
	uint32_t rings;

	pthread_mutex_t read_lock;	/* taken once a turn of each ring: while it is held, */
	const struct redaction *redaction; /* these rules are in use */
	bool redaction_changed[RINGS_MAX]; /* and the ring's drain does not have them yet */
	pthread_mutex_t stat_lock;	/* taken once a pass */
	struct worker_ring_stat *stat;
	_Atomic uint64_t beats;		/* passes */
};

/* ---- The handoff to the main thread -------------------------------------------------------- */

/* A mail of this worker; NULL: out of memory. An answer is promised with its order: its mail is made then. */
static struct worker_mail *handoff_mail(const struct handoff *handoff, enum worker_mail_kind kind,
					uint32_t positions)
{
	struct worker_mail *mail =
		calloc(1, sizeof(*mail) + positions * sizeof(mail->position[0]));

	if (!mail)
		return NULL;
	mail->kind = kind;
	mail->worker = handoff->id;
	mail->positions = positions;
	return mail;
}

static void handoff_send(struct handoff *handoff, struct worker_mail *mail)
{
	mailbox_send(handoff->mailbox, &mail->mail);
}

/*
 * The main loop is far behind: the batch's bytes are given up, and the range goes on as a gap. Its
 * events are the client's loss, by stage queue.
 */
static struct frame_ref *give_up(struct handoff *handoff, const struct frame_ref *frame)
{
	struct frame_ref *instead =
		frame_ref_gap(handoff->codec, frame->cpu, frame->first_seq, frame->end_seq,
			      LOSS_STAGE_QUEUE, LOSS_REASON_QUEUE_FULL,
			      frame->events + frame_ref_losses(frame));

	if (instead)
		instead->ring = frame->ring;
	return instead;
}

bool handoff_frame(void *context, uint32_t subscription, struct frame_ref *frame)
{
	struct handoff *handoff = context;
	struct worker_mail *mail = handoff_mail(handoff, WORKER_FRAME, 0);
	bool full = frame->bytes && atomic_load_explicit(&handoff->bytes, memory_order_relaxed) >
					    HANDOFF_BYTES_MAX;
	struct frame_ref *instead = mail && full ? give_up(handoff, frame) : NULL;

	if (!mail || (full && !instead)) {
		free(mail);
		return false;
	}
	if (instead) {
		frame_ref_put(frame);
		counter_add(COUNTER_handoff_dropped, 1);
		frame = instead;
	}
	mail->subscription = subscription;
	mail->frame = frame;
	atomic_fetch_add_explicit(&handoff->bytes, frame->bytes, memory_order_relaxed);
	handoff_send(handoff, mail);
	return true;
}

void handoff_watermark(struct handoff *handoff, uint64_t time_ns)
{
	struct worker_mail *mail = handoff_mail(handoff, WORKER_WATERMARK, 0);

	if (!mail)
		return;
	mail->time_ns = time_ns;
	handoff_send(handoff, mail);
}

void worker_mail_free(struct worker *worker, struct worker_mail *mail, uint64_t frame_bytes)
{
	atomic_fetch_sub_explicit(&worker->handoff.bytes, frame_bytes, memory_order_relaxed);
	free(mail);
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static uint64_t batch_interval(struct worker *worker)
{
	return atomic_load_explicit(&worker->batch_interval_ns, memory_order_relaxed);
}

static void publish_stats(struct worker *worker)
{
	pthread_mutex_lock(&worker->stat_lock);
	for (uint32_t i = 0; i < worker->rings; i++) {
		const struct drain *drain = worker->drain[i];

		ring_reader_usage(drain->reader, &worker->stat[i].usage);
		worker->stat[i].events = drain->events;
		worker->stat[i].meta = drain->meta;
		worker->stat[i].bad = drain->bad;
		memcpy(worker->stat[i].named, drain->named, sizeof(drain->named));
		worker->stat[i].stuck_ns = drain->stuck ? drain->still_ns : 0;
	}
	pthread_mutex_unlock(&worker->stat_lock);
	atomic_fetch_add_explicit(&worker->beats, 1, memory_order_relaxed);
}

/* Takes what a ring holds now, at most a turn's worth. Returns how many records. */
static uint64_t read_ring(struct worker *worker, struct worker_bell *bell)
{
	uint32_t ring = (uint32_t)(bell - worker->bell);
	uint64_t records;

	pthread_mutex_lock(&worker->read_lock);
	if (worker->redaction_changed[ring])
		drain_set_redaction(bell->drain, worker->redaction);
	worker->redaction_changed[ring] = false;
	records = drain_read(bell->drain, DRAIN_PASS_RECORDS);
	pthread_mutex_unlock(&worker->read_lock);

	if (bell->drain->corrupt && bell->corrupt) {
		handoff_send(&worker->handoff, bell->corrupt);
		bell->corrupt = NULL;
	}
	return records;
}

/* A feed fills its ring: up to what the watermark will cover, and more, so that it does not run full itself. */
static void pull(struct worker *worker, uint64_t watermark_ns)
{
	uint64_t until_ns;

	if (!worker->config.feed.pull)
		return;
	until_ns = clock_monotonic() - PROGRAM_SETTLE_NS;
	worker->config.feed.pull(worker->config.feed.context, until_ns > watermark_ns ? until_ns : watermark_ns,
				 &worker->pulled);
}

static uint64_t read_rings(struct worker *worker)
{
	uint64_t records = 0;

	for (uint32_t i = 0; i < worker->rings; i++)
		records += read_ring(worker, &worker->bell[i]);
	return records;
}

static uint64_t pull_and_read(struct worker *worker, uint64_t until_ns)
{
	pull(worker, until_ns);
	return read_rings(worker);
}

/*
 * Up to when no writer is on its way any more. One reads the clock and then reserves its place, and may
 * be preempted in between, where the kernel lets it, with nothing in the ring to show for it: it gets
 * as much of the tick as pace_slack() says.
 */
static uint64_t settled_time(struct worker *worker)
{
	return clock_monotonic() - pace_slack(&worker->pace, batch_interval(worker));
}

static void end_meter_pass(struct worker *worker, uint64_t watermark)
{
	uint64_t now = clock_monotonic();

	for (uint32_t i = 0; i < worker->rings; i++)
		meter_end_run(worker->config.meter, &worker->drain[i]->metered,
			      worker->drain[i]->threads, now);
	meter_end_pass(worker->config.meter, watermark, now);
}

static uint64_t take_counted(struct worker *worker, uint64_t until_ns)
{
	uint64_t events = 0;

	for (uint32_t i = 0; i < worker->rings; i++)
		events += drain_take_counted(worker->drain[i], until_ns);
	return events;
}

uint64_t worker_pass(struct worker *worker)
{
	uint64_t until = settled_time(worker), watermark = until;
	uint64_t records = pull_and_read(worker, until);
	uint64_t now = clock_monotonic();

	if (worker->pulled.oldest_ns <= watermark)
		watermark = worker->pulled.oldest_ns ? worker->pulled.oldest_ns - 1 : 0;
	if (take_counted(worker, until))
		worker->counted_ns = now;

	for (uint32_t i = 0; i < worker->rings; i++) {
		uint64_t mine;

		drain_watch(worker->drain[i], now);
		mine = drain_watermark(worker->drain[i], until);
		drain_flush(worker->drain[i], mine);
		if (mine < watermark)
			watermark = mine;
	}
	handoff_watermark(&worker->handoff, watermark);
	worker->watermark_ns = watermark;
	if (worker->config.meter)
		end_meter_pass(worker, watermark);
	publish_stats(worker);
	return records;
}

/* Nothing more comes: what is counted waits for no later event. */
static void flush_all(struct worker *worker)
{
	for (uint32_t i = 0; i < worker->rings; i++)
		drain_flush(worker->drain[i], UINT64_MAX);
}

static void set_tick(struct worker *worker, uint64_t tick_ns)
{
	uint64_t ns = worker->pulled.again_ns < tick_ns ? worker->pulled.again_ns : tick_ns;
	struct timeval in = {.tv_sec = (time_t)(ns / NS_PER_S),
			     .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	event_add(worker->tick, &in);
}

/* Asks for a bell at half the ring; where that much is there already, rings it itself. */
static void arm_busy(struct worker_bell *bell)
{
	struct drain *drain = bell->drain;

	if (!drain->corrupt && !ring_reader_arm(drain->reader, drain->ring_bytes / 2))
		event_active(bell->event, EV_READ, 0);
}

static void go_active(struct worker *worker)
{
	worker->mood = WORKER_ACTIVE;
	for (uint32_t i = 0; i < worker->rings; i++)
		arm_busy(&worker->bell[i]);
	set_tick(worker, worker->pace.tick_ns);
}

/* Idle only if every ring promises to ring at its next record. */
static void go_idle(struct worker *worker)
{
	bool armed = true;

	for (uint32_t i = 0; i < worker->rings; i++)
		if (!worker->drain[i]->corrupt)
			armed &= ring_reader_arm(worker->drain[i]->reader, 1);
	if (!armed) {
		pace_hold(&worker->pace, batch_interval(worker));
		go_active(worker);
		return;
	}
	worker->mood = WORKER_IDLE;
	set_tick(worker, HEARTBEAT_NS);
}

/* A client that merges rings holds events that are not, until a later pass. */
static bool are_behind_watermark(const struct worker *worker)
{
	for (uint32_t i = 0; i < worker->rings; i++)
		if (worker->drain[i]->last_time_ns > worker->watermark_ns)
			return false;
	return true;
}

/* No bell rings for counts, but where there were some a moment ago there will be more. */
static bool awaits_counts(const struct worker *worker)
{
	return worker->counted_ns && clock_monotonic() - worker->counted_ns < HEARTBEAT_NS;
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct worker *worker = context;
	uint64_t records = worker_pass(worker);
	bool many = pace_pass(&worker->pace, records, batch_interval(worker));

	(void)fd, (void)what;
	counter_add(COUNTER_ticks, 1);
	if (!many && records && !are_behind_watermark(worker)) {
		pace_wake(&worker->pace, clock_monotonic(), batch_interval(worker));
		go_active(worker);
	} else if (many) {
		go_active(worker);
	} else if (awaits_counts(worker)) {
		pace_hold(&worker->pace, batch_interval(worker));
		go_active(worker);
	} else {
		go_idle(worker);
	}
}

static void on_bell(evutil_socket_t fd, short what, void *context)
{
	struct worker_bell *bell = context;
	struct worker *worker = bell->worker;

	(void)fd, (void)what;
	counter_add(COUNTER_bells, 1);
	bell_answer(&bell->drain->bell);
	if (worker->mood == WORKER_IDLE) {
		/* Let the batch fill: it is read at the tick, or when half the ring is. */
		pace_wake(&worker->pace, clock_monotonic(), batch_interval(worker));
		go_active(worker);
		return;
	}
	/* Waking up costs more than a look at each ring: one bell drains them all. A ring whose writer
	 * is unfinished may stay full: the tick will see to it. */
	for (uint32_t i = 0; i < worker->rings; i++)
		if (read_ring(worker, &worker->bell[i]))
			arm_busy(&worker->bell[i]);
}

/*
 * ---- Orders ------------------------------------------------------------------------------------
 *
 * What the main thread asks, and what comes of it. Everything that needs memory is made on the main
 * thread, where a request can still be refused.
 */

static void free_batchers(const struct worker *worker, struct batcher **batcher)
{
	for (uint32_t i = 0; batcher && i < worker->rings; i++)
		batcher_destroy(batcher[i]);
	free(batcher);
}

/* One for each ring; NULL: no memory. */
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
			.sink = handoff_frame,
			.context = &worker->handoff,
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
	if (worker->mood != WORKER_LEFT) {
		uint64_t until_ns = settled_time(worker);

		pull_and_read(worker, clock_monotonic());
		take_counted(worker, until_ns);
	}
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
		uint64_t records = pull_and_read(worker, now);

		now = clock_monotonic();
		if (records)
			last_read = now;
		else if (anything_pending(worker))
			nanosleep(&nap, NULL);
		else
			break;
	}
	worker_pass(worker);
	flush_all(worker);
	if (anything_pending(worker))
		log_warn("rings-left", "a record in a ring was never finished, or the rings filled up "
			 "again: the records behind it stay in the ring");
}

/* The producers go on, so there is no end to wait for: each ring has one more turn. */
static void leave(struct worker *worker)
{
	event_del(worker->tick);
	for (uint32_t i = 0; i < worker->rings; i++)
		event_del(worker->bell[i].event);
	if (worker->mood != WORKER_LEFT)
		worker_pass(worker);
	flush_all(worker);
	worker->mood = WORKER_LEFT;
}

static void free_order(struct worker *worker, struct worker_order *order)
{
	free_batchers(worker, order->batcher);
	free(order->answer);
	if (order != &worker->stop)
		free(order);
}

static void on_orders(evutil_socket_t fd, short what, void *context)
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
		case ORDER_EMPTY:
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
			handoff_send(&worker->handoff, order->answer);
		order->answer = NULL;
		free_order(worker, order);
	}
}

/* ---- For the main thread --------------------------------------------------------------------- */

void worker_set_batch_interval(struct worker *worker, uint64_t interval_ns)
{
	atomic_store_explicit(&worker->batch_interval_ns, interval_ns, memory_order_relaxed);
}

void worker_set_redaction(struct worker *worker, const struct redaction *redaction)
{
	pthread_mutex_lock(&worker->read_lock);
	worker->redaction = redaction;
	for (uint32_t i = 0; i < RINGS_MAX; i++)
		worker->redaction_changed[i] = true;
	pthread_mutex_unlock(&worker->read_lock);
}

uint64_t worker_beats(const struct worker *worker)
{
	return atomic_load_explicit(&worker->beats, memory_order_relaxed);
}

int worker_ring_stat(struct worker *worker, uint32_t ring, struct worker_ring_stat *stat)
{
	int err = -ENOENT;

	pthread_mutex_lock(&worker->stat_lock);
	for (uint32_t i = 0; i < worker->rings; i++) {
		if (worker->drain[i]->index != ring)
			continue;
		*stat = worker->stat[i];
		err = 0;
	}
	pthread_mutex_unlock(&worker->stat_lock);
	return err;
}

static int send_order(struct worker *worker, struct worker_order order,
		      enum worker_mail_kind answer, uint32_t positions)
{
	struct worker_order *mine = malloc(sizeof(*mine));

	order.answer = handoff_mail(&worker->handoff, answer, positions);
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

int worker_empty(struct worker *worker)
{
	return send_order(worker, (struct worker_order){.kind = ORDER_EMPTY}, WORKER_EMPTIED, 0);
}

int worker_leave(struct worker *worker)
{
	return send_order(worker, (struct worker_order){.kind = ORDER_LEAVE}, WORKER_EMPTIED, 0);
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

/* ---- Life ------------------------------------------------------------------------------------ */

static int create_loop(struct worker *worker)
{
	worker->base = loop_create();
	if (!worker->base)
		return -ENOMEM;
	worker->tick = evtimer_new(worker->base, on_tick, worker);
	worker->orders = event_new(worker->base, mailbox_fd(&worker->in), EV_READ | EV_PERSIST,
				   on_orders, worker);
	if (!worker->tick || !worker->orders)
		return -ENOMEM;
	return event_add(worker->orders, NULL) ? -ENOMEM : 0;
}

int worker_create(const struct worker_config *config, struct worker **out, struct error *error)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	worker->config = *config;
	worker->pulled = (struct inlet_pulled){.oldest_ns = UINT64_MAX, .again_ns = UINT64_MAX};
	atomic_init(&worker->batch_interval_ns, config->batch_interval_ns);
	pace_init(&worker->pace, config->batch_interval_ns);
	pthread_mutex_init(&worker->read_lock, NULL);
	pthread_mutex_init(&worker->stat_lock, NULL);
	if (mailbox_init(&worker->in) != 0) {
		pthread_mutex_destroy(&worker->read_lock);
		pthread_mutex_destroy(&worker->stat_lock);
		free(worker);
		return error_set(error, EMFILE, "worker-create",
				 "cannot make a drain worker: no descriptor left");
	}
	worker->stop.kind = ORDER_STOP;
	worker->codec = frame_codec_create(1);
	worker->handoff = (struct handoff){
		.id = config->id, .mailbox = config->out, .codec = worker->codec,
	};
	if (!worker->codec || create_loop(worker) != 0) {
		worker_destroy(worker);
		return error_set(error, ENOMEM, "worker-create",
				 "cannot make a drain worker: out of memory");
	}
	*out = worker;
	return 0;
}

int worker_add_ring(struct worker *worker, uint32_t ring, const struct ring_handle *source,
		    struct error *error)
{
	struct drain *drain = malloc(sizeof(*drain));
	struct worker_ring_stat *stat =
		realloc(worker->stat, (worker->rings + 1) * sizeof(*stat));
	struct worker_bell *bell = &worker->bell[worker->rings];
	int err;

	if (stat)
		worker->stat = stat;
	if (!drain || !stat) {
		free(drain);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	memset(&stat[worker->rings], 0, sizeof(*stat));
	err = drain_init(drain, ring, source, worker->config.probes, error);
	if (err) {
		free(drain);
		return err;
	}
	drain->meter = worker->config.meter;
	drain->metered.cpu = ring_reader_cpu(drain->reader);
	*bell = (struct worker_bell){.worker = worker, .drain = drain};
	bell->event = event_new(worker->base, drain->bell.fd, EV_READ | EV_PERSIST, on_bell, bell);
	bell->corrupt = handoff_mail(&worker->handoff, WORKER_CORRUPT, 0);
	worker->drain[worker->rings++] = drain;
	if (bell->corrupt)
		bell->corrupt->ring = ring;
	if (!bell->corrupt || !bell->event || event_add(bell->event, NULL) != 0)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	return 0;
}

static const struct drain *find_drain(const struct worker *worker, uint32_t ring)
{
	for (uint32_t i = 0; i < worker->rings; i++)
		if (worker->drain[i]->index == ring)
			return worker->drain[i];
	return NULL;
}

int worker_baseline(const struct worker *worker, uint32_t ring, struct worker_baseline *baseline)
{
	const struct drain *drain = find_drain(worker, ring);

	if (!drain)
		return -ENOENT;
	*baseline = (struct worker_baseline){
		.epoch = ring_reader_epoch(drain->reader),
		.seq = drain->seq,
	};
	return 0;
}

void worker_set_epoch(struct worker *worker, uint64_t epoch)
{
	for (uint32_t i = 0; i < worker->rings; i++)
		ring_reader_set_epoch(worker->drain[i]->reader, epoch);
}

void worker_keep_threads(struct worker *worker, uint32_t ring, struct thread_ring *journal)
{
	for (uint32_t i = 0; journal && i < worker->rings; i++)
		if (worker->drain[i]->index == ring)
			thread_table_keep(worker->drain[i]->threads, journal);
}

static void *run(void *context)
{
	struct worker *worker = context;

	pthread_setname_np(pthread_self(), "ringtail-drain");
	publish_stats(worker);		/* of what an earlier run left in the rings, too */
	go_active(worker);
	event_base_dispatch(worker->base);
	return NULL;
}

int worker_start(struct worker *worker, struct error *error)
{
	int err = pthread_create(&worker->thread, NULL, run, worker);

	if (err)
		return error_set(error, err, "worker-start", "cannot start a drain worker: %s",
				 strerror(err));
	worker->started = true;
	return 0;
}

void worker_destroy(struct worker *worker)
{
	struct mail *mail, *next;

	if (!worker)
		return;
	if (worker->started) {
		/* What its thread uses cannot be freed under it. */
		mailbox_send(&worker->in, &worker->stop.mail);
		pthread_join(worker->thread, NULL);
	}
	for (uint32_t i = 0; i < worker->rings; i++) {
		if (worker->bell[i].event)
			event_free(worker->bell[i].event);
		free(worker->bell[i].corrupt);
		drain_fini(worker->drain[i]);
		free(worker->drain[i]);
	}
	if (worker->orders)
		event_free(worker->orders);
	if (worker->tick)
		event_free(worker->tick);
	if (worker->base)
		event_base_free(worker->base);
	for (mail = mailbox_take(&worker->in); mail; mail = next) {
		next = mail->next;
		free_order(worker, (struct worker_order *)mail);
	}
	mailbox_fini(&worker->in);
	frame_codec_destroy(worker->codec);
	pthread_mutex_destroy(&worker->read_lock);
	pthread_mutex_destroy(&worker->stat_lock);
	free(worker->stat);
	free(worker);
}
