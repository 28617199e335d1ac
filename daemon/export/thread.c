#include "daemon/export/thread.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/loop.h"

#define NICE		10
#define REPORT_RETRY_MS	100

struct order {
	struct mail mail;
	enum { ORDER_FRAME, ORDER_METRICS, ORDER_LATE, ORDER_FLUSH, ORDER_STOP } kind;
	unsigned target;
	uint64_t serial, events;
	const uint8_t *frame;
	size_t bytes;
	const struct metric_snapshot *snapshot;
	const Ringtail__V1__Probe *probe;
};

/* What a sender is told to say when its counts change. */
struct outlet {
	struct export_thread *thread;
	struct export_sender *sender;
	bool changed;
};

struct export_thread {
	struct export_thread_config config;
	pthread_t id;
	bool started;
	sem_t ready;
	struct event_base *base;
	struct mailbox orders;
	struct order stop;		/* must not fail for want of memory */
	struct event *on_orders, *on_report;
	struct export_http *http;
	struct outlet outlet[EXPORTS_MAX];
};

/* ---- Its own side ---------------------------------------------------------------------------- */

static void changed(void *context)
{
	struct outlet *outlet = context;

	outlet->changed = true;
	event_active(outlet->thread->on_report, EV_TIMEOUT, 1);
}

/* One report for whatever has happened since the last. */
static void on_report(evutil_socket_t fd, short what, void *context)
{
	struct export_thread *thread = context;
	struct timeval later = {.tv_usec = REPORT_RETRY_MS * 1000};

	(void)fd, (void)what;
	for (unsigned i = 0; i < thread->config.targets->count; i++) {
		struct outlet *outlet = &thread->outlet[i];
		struct export_report *report;

		if (!outlet->changed)
			continue;
		report = malloc(sizeof(*report));
		if (!report) {
			event_add(thread->on_report, &later);
			return;
		}
		report->target = i;
		report->counts = *export_sender_counts(outlet->sender);
		outlet->changed = false;
		mailbox_send(thread->config.reports, &report->mail);
	}
}

static void flush(struct export_thread *thread)
{
	for (unsigned i = 0; i < thread->config.targets->count; i++)
		export_sender_flush(thread->outlet[i].sender);
}

static void follow(struct export_thread *thread, struct order *order)
{
	struct export_sender *sender = thread->outlet[order->target].sender;

	switch (order->kind) {
	case ORDER_FRAME:
		export_sender_frame(sender, order->serial, order->frame, order->bytes,
				    order->events);
		break;
	case ORDER_METRICS:
		export_sender_metrics(sender, order->snapshot);
		metric_snapshot_destroy(order->snapshot);
		break;
	case ORDER_LATE:
		export_run_take_late(thread->config.host->run, order->probe);
		break;
	case ORDER_FLUSH:
		flush(thread);
		break;
	case ORDER_STOP:
		event_base_loopbreak(thread->base);
		return;			/* it is not on the heap */
	}
	free(order);
}

static void on_orders(evutil_socket_t fd, short what, void *context)
{
	struct export_thread *thread = context;
	struct mail *mail, *next;

	(void)fd, (void)what;
	for (mail = mailbox_take(&thread->orders); mail; mail = next) {
		next = mail->next;
		follow(thread, (struct order *)mail);
	}
}

static void *run(void *context)
{
	struct export_thread *thread = context;

	pthread_setname_np(pthread_self(), "ringtail-export");
	/* Of this thread alone, as Linux has it; that it stays as urgent as others costs little. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	sem_post(&thread->ready);
	event_base_dispatch(thread->base);
	return NULL;
}

/* ---- The main thread's side ------------------------------------------------------------------ */

static bool make_senders(struct export_thread *thread)
{
	const struct export_thread_config *config = &thread->config;

	for (unsigned i = 0; i < config->targets->count; i++) {
		const struct export_target *target = &config->targets->target[i];
		struct export_sender_config sender = {
			.base = thread->base,
			.http = thread->http,
			.host = config->host,
			.kind = target->kind,
			.name = target->name,
			.url = target->url,
			.headers = (const char *const *)target->header,
			.headers_count = target->headers,
			.queue_bytes_max = config->queue_bytes_max,
			.timeout_ns = config->timeout_ns,
			.events_per_s = config->events_per_s,
			.spooled = config->spooled,
			.changed = changed,
			.context = &thread->outlet[i],
		};

		thread->outlet[i].thread = thread;
		thread->outlet[i].sender = export_sender_create(&sender);
		if (!thread->outlet[i].sender)
			return false;
	}
	return true;
}

static bool make_loop(struct export_thread *thread)
{
	thread->base = loop_create();
	if (!thread->base || mailbox_init(&thread->orders) != 0)
		return false;
	thread->http = export_http_create(thread->base, thread->config.ca_file);
	thread->on_report = event_new(thread->base, -1, 0, on_report, thread);
	thread->on_orders = event_new(thread->base, mailbox_fd(&thread->orders),
				      EV_READ | EV_PERSIST, on_orders, thread);
	return thread->http && thread->on_report && thread->on_orders &&
	       event_add(thread->on_orders, NULL) == 0 && make_senders(thread);
}

int export_thread_start(const struct export_thread_config *config, struct export_thread **out,
			struct error *error)
{
	struct export_thread *thread = calloc(1, sizeof(*thread));
	sigset_t all, before;
	int err;

	if (thread) {
		thread->config = *config;
		thread->orders.fd = -1;
		sem_init(&thread->ready, 0, 0);
	}
	if (!thread || !make_loop(thread)) {
		export_thread_stop(thread);
		return error_set(error, ENOMEM, "out-of-memory", "cannot make the export thread");
	}
	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread->id, NULL, run, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		export_thread_stop(thread);
		return error_set(error, err, "export-start", "cannot start the export thread: %s",
				 strerror(err));
	}
	thread->started = true;
	/* From here on it needs no system call that a sandbox refuses. */
	while (sem_wait(&thread->ready) != 0)
		;
	*out = thread;
	return 0;
}

static void free_orders(struct export_thread *thread)
{
	struct mail *mail, *next;

	for (mail = mailbox_take(&thread->orders); mail; mail = next) {
		next = mail->next;
		if (mail == &thread->stop.mail)
			continue;
		metric_snapshot_destroy(((struct order *)mail)->snapshot);	/* NULL of most */
		free(mail);
	}
	mailbox_fini(&thread->orders);
}

void export_thread_stop(struct export_thread *thread)
{
	if (!thread)
		return;
	if (thread->started) {
		thread->stop.kind = ORDER_STOP;
		mailbox_send(&thread->orders, &thread->stop.mail);
		pthread_join(thread->id, NULL);
	}
	for (unsigned i = 0; i < EXPORTS_MAX; i++)
		export_sender_destroy(thread->outlet[i].sender);
	export_http_destroy(thread->http);
	if (thread->on_orders)
		event_free(thread->on_orders);
	if (thread->on_report)
		event_free(thread->on_report);
	if (thread->orders.fd >= 0)
		free_orders(thread);
	if (thread->base)
		event_base_free(thread->base);
	sem_destroy(&thread->ready);
	free(thread);
}

static int send_order(struct export_thread *thread, const struct order *from)
{
	struct order *order = malloc(sizeof(*order));

	if (!order)
		return -ENOMEM;
	*order = *from;
	mailbox_send(&thread->orders, &order->mail);
	return 0;
}

int export_thread_give(struct export_thread *thread, unsigned target, uint64_t serial,
		       const uint8_t *frame, size_t bytes, uint64_t events)
{
	struct order order = {.kind = ORDER_FRAME, .target = target, .serial = serial,
			      .frame = frame, .bytes = bytes, .events = events};

	return send_order(thread, &order);
}

int export_thread_give_metrics(struct export_thread *thread, unsigned target,
			       const struct metric_snapshot *snapshot)
{
	struct order order = {.kind = ORDER_METRICS, .target = target, .snapshot = snapshot};

	return send_order(thread, &order);
}

int export_thread_take_late(struct export_thread *thread, const Ringtail__V1__Probe *probe)
{
	struct order order = {.kind = ORDER_LATE, .probe = probe};

	return send_order(thread, &order);
}

int export_thread_flush(struct export_thread *thread)
{
	struct order order = {.kind = ORDER_FLUSH};

	return send_order(thread, &order);
}
