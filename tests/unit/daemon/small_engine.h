/*
 * small_engine: everything of the engine but its loader, which is made by hand here, in one process:
 * two rings that a test writes, drain workers, fanout, server, and peers as clients.
 */
#ifndef RINGTAIL_TESTS_SMALL_ENGINE_H
#define RINGTAIL_TESTS_SMALL_ENGINE_H

#include <sys/eventfd.h>

#include "daemon/stream/consumers.h"
#include "daemon/base/log.h"
#include "daemon/ring/writer.h"
#include "daemon/serve/server.h"
#include "daemon/spool/spool.h"
#include "daemon/trigger/dumps.h"
#include "tests/unit/daemon/peer.h"
#include "tests/unit/daemon/small_catalog.h"

#define ENGINE_RINGS 2
#define ENGINE_REPORTS 64
#define ENGINE_PID 4711

static const uint32_t engine_cpu[ENGINE_RINGS] = {0, 5};

/* ---- The loader, as fanout and control see it ------------------------------------------------ */

struct loader {
	int fd;
	bool gone;
	bool hold;			/* answers nothing until it is let */
	bool refuse;			/* the next configuration, */
	unsigned refuse_probe;		/* and each that asks for this one */
	unsigned rings, configures, questions, stuck_questions;
	uint64_t stuck_longer_than_ns;
	struct source_request request;	/* the last one in force */
	struct ring_handle ring[ENGINE_RINGS];
	struct loader_report report[ENGINE_REPORTS];
	unsigned first, end, held;	/* reports first .. end - 1 wait; from `held` on they are held */
};

static void engine_report(struct loader *loader, struct loader_report report)
{
	assert_true(loader->end < ENGINE_REPORTS + loader->first);
	loader->report[loader->end++ % ENGINE_REPORTS] = report;
	if (!loader->hold)
		loader->held = loader->end;
	assert_int_equal(eventfd_write(loader->fd, 1), 0);
}

/* As where its process ended. */
static inline void engine_lose_loader(struct loader *loader)
{
	loader->gone = true;
	loader->hold = false;
	loader->first = loader->end;
	engine_report(loader, (struct loader_report){.event = LOADER_GONE});
}

static inline void engine_let(struct loader *loader)
{
	loader->hold = false;
	loader->held = loader->end;
	assert_int_equal(eventfd_write(loader->fd, 1), 0);
}

int loader_configure(struct loader *loader, const struct source_request *request)
{
	struct loader_report report = {.event = LOADER_CONFIGURED,
				       .generation = request->generation};

	if (loader->gone)
		return -EPIPE;
	loader->configures++;
	if (loader->refuse || (loader->refuse_probe &&
			       request->probes[loader->refuse_probe / 8] >>
				       loader->refuse_probe % 8 & 1))
		report.err = error_set(&report.error, EPERM, "refused", "the source cannot do that");
	else
		loader->request = *request;
	loader->refuse = false;
	engine_report(loader, report);
	return 0;
}

int loader_joined(struct loader *loader)
{
	return loader->gone ? -EPIPE : 0;
}

int loader_ask_stats(struct loader *loader)
{
	loader->questions++;
	return loader->gone ? -EPIPE : 0;
}

int loader_ask_stuck(struct loader *loader, uint64_t longer_than_ns)
{
	loader->stuck_longer_than_ns = longer_than_ns;
	loader->stuck_questions += !loader->gone;
	return loader->gone ? -EPIPE : 0;
}

int loader_receive(struct loader *loader, struct loader_report *report)
{
	eventfd_t ignored;

	eventfd_read(loader->fd, &ignored);
	if (loader->first == loader->held)
		return -EAGAIN;
	*report = loader->report[loader->first++ % ENGINE_REPORTS];
	return 0;
}

int loader_fd(const struct loader *loader)
{
	return loader->fd;
}

const char *loader_source_name(const struct loader *loader)
{
	(void)loader;
	return "hand";
}

const Ringtail__V1__Catalog *loader_catalog(const struct loader *loader)
{
	(void)loader;
	return small_catalog_get();
}

bool loader_can_make(const struct loader *loader, const char *spec)
{
	(void)loader, (void)spec;
	return false;
}

int loader_make(struct loader *loader, const char *spec)
{
	(void)loader, (void)spec;
	return -EPIPE;
}

int loader_make_now(struct loader *loader, const char *spec, bool *pending, struct error *error)
{
	(void)loader, (void)spec, (void)pending;
	return error_set(error, ENOENT, "unknown-probe", "nothing is made here");
}

Ringtail__V1__Catalog *loader_offers(const struct loader *loader)
{
	(void)loader;
	return NULL;
}

unsigned loader_rings(const struct loader *loader)
{
	return loader->rings;
}

const struct ring_handle *loader_ring(const struct loader *loader, unsigned i)
{
	return &loader->ring[i];
}

/* ---- The engine ------------------------------------------------------------------------------ */

struct engine {
	struct loader loader;
	struct ring_writer *writer[ENGINE_RINGS];
	struct event_base *base;
	struct frame_codec *codec;
	struct probe_table probes;
	struct mailbox mailbox;
	struct worker *worker[ENGINE_RINGS];
	unsigned workers;
	struct fanout *fanout;
	struct answers answers;
	struct gate *gate;
	struct disk_thread *disk_thread;	/* NULL: nothing can be changed */
	struct spooler *spooler;		/* NULL: nothing is kept on it */
	struct consumers *consumers;
	struct dumps *dumps;			/* NULL: none are kept */
	struct control *control;
	struct server *server;
	unsigned failures, stops;
	unsigned applied;			/* configurations' words for what is always on, */
	struct error not_applied;		/* and why the last was not; "": it was */
	uint64_t written;
};

static void engine_failed(void *context)
{
	((struct engine *)context)->failures++;
}

static inline void engine_stopped(void *context)
{
	((struct engine *)context)->stops++;
}

static inline void engine_applied(void *context, const struct error *error)
{
	struct engine *engine = context;

	engine->applied++;
	engine->not_applied = error ? *error : (struct error){0};
}

static void engine_quiet(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static void engine_open_rings(struct engine *engine, unsigned rings)
{
	struct error error;

	engine->loader.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (; engine->loader.rings < rings; engine->loader.rings++) {
		unsigned i = engine->loader.rings;
		struct ring_writer_config config = {.cpu = engine_cpu[i], .ring_bytes = 1 << 20,
						    .policy = RT_POLICY_DROP, .counts = true};

		assert_int_equal(ring_writer_create(&config, &engine->writer[i], &error), 0);
		ring_writer_describe(engine->writer[i], &engine->loader.ring[i]);
	}
}

static void engine_open_workers(struct engine *engine, unsigned workers)
{
	struct worker_config config = {.batch_interval_ns = 2000000, .probes = &engine->probes,
				       .out = &engine->mailbox};
	struct error error;

	assert_int_equal(mailbox_init(&engine->mailbox), 0);
	assert_int_equal(probe_table_init(&engine->probes, small_catalog_get(), &error), 0);
	for (; engine->workers < workers; engine->workers++) {
		config.id = engine->workers;
		assert_int_equal(worker_create(&config, &engine->worker[config.id], &error), 0);
	}
	for (unsigned i = 0; i < engine->loader.rings; i++)
		assert_int_equal(worker_add_ring(engine->worker[i % workers], i,
						 &engine->loader.ring[i], &error), 0);
	for (unsigned i = 0; i < workers; i++)
		assert_int_equal(worker_start(engine->worker[i], &error), 0);
}

/*
 * What operators change is kept here, if a test puts one here before engine_open(); and so are durable
 * consumers, if it says so.
 */
static struct disk *engine_disk;
static bool engine_keeps_dumps;		/* on that disk */
static bool engine_durable;
static bool engine_dials_relay;
/* The relay's word to dial for a client; NULL: none is dialled. */
static int (*engine_dial)(void *context, const uint8_t token[16], const char *client, struct error *error);
/* Which providers programs may bring; NULL: none. */
static bool (*engine_may_come)(void *context, const char *provider);
static size_t engine_segment_bytes = 1 << 20;
static size_t engine_spool_bytes = 64 << 20;
static uint64_t engine_epoch = 99;	/* this run of the rings */
static bool engine_file_strings;	/* exports are given them */
static struct viewer_bounds engine_viewers = {.strings = true, .stacks = true,
					       .subscriptions = SUBSCRIPTIONS_MAX};

static inline struct frame_ref *engine_hello(void *context)
{
	return answers_hello(&((struct engine *)context)->answers, "");
}

static void engine_open_disk(struct engine *engine, struct fanout_config *fanout)
{
	struct spooler_config spooler = {
		.base = engine->base, .durability = SPOOL_WRITTEN, .policy = SPOOL_DROP_OLDEST,
		.size_bytes = engine_spool_bytes, .age_ns = 3600 * NS_PER_S, .segment_bytes = engine_segment_bytes,
		.run = fanout->run,
		.rings = engine->loader.rings, .cpu_of = engine_cpu,
	};
	struct error error;

	if (!engine_disk)
		return;
	assert_int_equal(disk_thread_create(engine->base, engine_disk, false,
					    &engine->disk_thread, &error), 0);
	if (!engine_durable)
		return;
	spooler.thread = engine->disk_thread;
	assert_int_equal(spooler_create(&spooler, &engine->spooler, &error), 0);
	assert_int_equal(consumers_create(engine_disk, engine->disk_thread, &engine->consumers,
					  &error), 0);
	fanout->spooler = engine->spooler;
	fanout->consumers = engine->consumers;
	fanout->hello = engine_hello;
}

static inline struct frame_ref *engine_stat(void *context)
{
	return server_stat_frame(((struct engine *)context)->server);
}

static inline struct server_bounds engine_bounds(unsigned clients_max)
{
	return (struct server_bounds){
		.session = {.tls_timeout_ns = 60 * NS_PER_S, .hello_timeout_ns = 60 * NS_PER_S,
			    .silence_timeout_ns = 60 * NS_PER_S},
		.clients_max = clients_max,
		.pending_max = 256,
		.insecure = true,
	};
}

static void engine_open(struct engine *engine, unsigned rings, unsigned workers,
			unsigned clients_max)
{
	static const struct log_sink sink = {engine_quiet, clock_monotonic};
	struct fanout_config fanout = {
		.run = {.boot_id = "0123456789abcde", .epoch = engine_epoch},
		.history_bytes = 16 << 20, .history_age_ns = 30 * NS_PER_S, .queue_bytes = 8 << 20,
	};
	static const struct config nobody_named;
	struct control_config control = {0};
	struct server_config server;
	struct error error;

	log_set_sink(&sink);
	memset(engine, 0, sizeof(*engine));
	engine->base = event_base_new();
	engine->codec = frame_codec_create(1);
	engine_open_rings(engine, rings);
	engine_open_workers(engine, workers);
	fanout.base = engine->base;
	fanout.viewers = engine_viewers;
	fanout.file_strings = engine_file_strings;
	fanout.loader = &engine->loader;
	fanout.worker = engine->worker;
	fanout.workers = workers;
	fanout.mailbox = &engine->mailbox;
	fanout.codec = engine->codec;
	fanout.failed = engine_failed;
	fanout.dials_relay = engine_dials_relay;
	fanout.context = engine;
	engine_open_disk(engine, &fanout);
	assert_int_equal(fanout_create(&fanout, &engine->fanout, &error), 0);
	engine->answers = (struct answers){
		.codec = engine->codec, .loader = &engine->loader, .fanout = engine->fanout,
		.worker = engine->worker, .workers = workers, .run = fanout.run,
		.started_ns = clock_monotonic(), .queue_bytes = fanout.queue_bytes,
	};
	assert_int_equal(gate_create(&nobody_named, &engine->gate, &error), 0);
	assert_int_equal(fanout_restore_consumers(engine->fanout, &error), 0);
	if (engine_keeps_dumps)
		assert_int_equal(dumps_create(engine->disk_thread, 1 << 20, 8, &engine->dumps, &error), 0);
	control.base = engine->base;
	control.dumps = engine->dumps;
	control.gate = engine->gate;
	control.fanout = engine->fanout;
	control.codec = engine->codec;
	control.catalog = small_catalog_get();
	control.disk_thread = engine->disk_thread;
	control.stat = engine_stat;
	control.applied = engine_applied;
	control.may_come = engine_may_come;
	control.context = engine;
	assert_int_equal(control_create(&control, &engine->control, &error), 0);
	server = (struct server_config){
		.base = engine->base, .answers = &engine->answers, .gate = engine->gate,
		.control = engine->control, .codec = engine->codec, .dumps = engine->dumps,
		.bounds = engine_bounds(clients_max),
		.dial = engine_dial, .context = engine,
	};
	engine->server = server_create(&server);
	assert_non_null(engine->server);
}

static void engine_close(struct engine *engine)
{
	server_destroy(engine->server);
	control_settle(engine->control);
	if (engine->disk_thread)
		disk_thread_settle(engine->disk_thread);
	for (unsigned i = 0; i < engine->workers; i++)
		worker_destroy(engine->worker[i]);
	fanout_destroy(engine->fanout);
	consumers_destroy(engine->consumers);
	spooler_destroy(engine->spooler);
	dumps_destroy(engine->dumps);
	disk_thread_destroy(engine->disk_thread);
	control_destroy(engine->control);
	gate_destroy(engine->gate);
	for (struct mail *mail = mailbox_take(&engine->mailbox), *next; mail; mail = next) {
		next = mail->next;
		frame_ref_put(((struct worker_mail *)mail)->frame);
		free(mail);
	}
	mailbox_fini(&engine->mailbox);
	for (unsigned i = 0; i < engine->loader.rings; i++)
		ring_writer_destroy(engine->writer[i]);
	close(engine->loader.fd);
	frame_codec_destroy(engine->codec);
	event_base_free(engine->base);
}

/* Until each worker has sent all that its rings held; what it sent waits for fanout. */
static inline void engine_empty_rings(struct engine *engine)
{
	unsigned pending = engine->workers;

	for (unsigned i = 0; i < engine->workers; i++)
		assert_int_equal(worker_empty(engine->worker[i]), 0);
	for (uint64_t deadline = clock_monotonic() + PEER_WAIT_NS; pending; poll(NULL, 0, 1)) {
		for (struct mail *mail = mailbox_take(&engine->mailbox), *next; mail; mail = next) {
			struct worker_mail *mine = (struct worker_mail *)mail;

			next = mail->next;
			if (mine->kind == WORKER_EMPTIED) {
				worker_mail_free(engine->worker[mine->worker], mine, 0);
				pending--;
			} else {
				mailbox_send(&engine->mailbox, mail);
			}
		}
		assert_true(clock_monotonic() < deadline);
	}
}

/*
 * Until all has been done that follows from what was written and sent, however slow this machine is: by the
 * workers, the main loop and the disk. Thrice, for what each does may be an order to another.
 */
static inline void engine_settle(struct engine *engine)
{
	for (unsigned i = 0; i < 3; i++) {
		peer_run(engine->base);
		engine_empty_rings(engine);
		peer_run(engine->base);
		if (engine->disk_thread)
			disk_thread_settle(engine->disk_thread);
	}
	peer_run(engine->base);
}

/* As if it had come in at a unix socket: the kernel says that it is us. */
static inline void engine_accept(struct engine *engine, int fd)
{
	server_serve(engine->server, SERVER_UNIX, transport_plain_create(fd), "peer");
}

static inline struct peer *engine_connect(struct engine *engine)
{
	struct peer *peer;
	int fd;

	peer = peer_pair(engine->base, &fd);
	engine_accept(engine, fd);
	return peer;
}

/* getppid calls, by turns on each ring. */
static inline void engine_write(struct engine *engine, unsigned calls)
{
	for (unsigned i = 0; i < calls; i++) {
		const uint64_t payload[] = {100, ++engine->written};
		struct ring_writer_record record = {.probe = SMALL_GETPPID, .tid = ENGINE_PID,
						    .payload = payload, .words = 2};

		assert_int_equal(ring_writer_write(engine->writer[i % engine->loader.rings], &record),
				 0);
	}
}

/* ---- A client that keeps a ledger ------------------------------------------------------------ */

struct watcher {
	struct peer *peer;
	uint64_t seq[ENGINE_RINGS], watermark_ns;
	uint64_t events, gaps;
	bool resumed;
	char bye[64];			/* empty until it comes */
};

static unsigned watcher_ring(uint32_t cpu)
{
	return cpu == engine_cpu[1];
}

static inline void watcher_take(struct watcher *watcher, enum frame_type type, const void *message)
{
	assert_string_equal(watcher->bye, "");
	if (type == FRAME_BATCH) {
		const Ringtail__V1__Batch *batch = message;
		unsigned ring = watcher_ring(batch->cpu);

		assert_int_equal(batch->first_seq, watcher->seq[ring]);
		watcher->seq[ring] = batch->end_seq;
		watcher->events += batch->events;
	} else if (type == FRAME_GAP) {
		const Ringtail__V1__Gap *gap = message;
		unsigned ring = watcher_ring(gap->cpu);

		assert_int_equal(gap->first_seq, watcher->seq[ring]);
		watcher->seq[ring] = gap->end_seq;
		watcher->gaps++;
	} else if (type == FRAME_WATERMARK) {
		const Ringtail__V1__Watermark *watermark = message;

		assert_true(watermark->time_ns >= watcher->watermark_ns);
		watcher->watermark_ns = watermark->time_ns;
		for (size_t i = 0; i < watermark->n_position; i++) {
			unsigned ring = watcher_ring(watermark->position[i]->cpu);

			assert_true(watermark->position[i]->seq >= watcher->seq[ring]);
			watcher->seq[ring] = watermark->position[i]->seq;
		}
	} else if (type == FRAME_BYE) {
		const Ringtail__V1__Bye *bye = message;

		snprintf(watcher->bye, sizeof(watcher->bye), "%s", bye->reason);
		for (size_t i = 0; i < bye->end->n_position; i++)
			assert_int_equal(bye->end->position[i]->seq,
					 watcher->seq[watcher_ring(bye->end->position[i]->cpu)]);
	} else {
		fail_msg("a %s in the stream", frame_type_name(type));
	}
}

/* Takes what comes until it has that many events. */
static inline void watcher_await(struct watcher *watcher, uint64_t events)
{
	uint64_t deadline = clock_monotonic() + PEER_WAIT_NS;

	while (watcher->events < events && clock_monotonic() < deadline) {
		enum frame_type type;
		void *message = peer_next(watcher->peer, &type);

		assert_non_null(message);
		watcher_take(watcher, type, message);
		peer_free(message);
	}
	assert_int_equal(watcher->events, events);
}

static inline void watcher_await_bye(struct watcher *watcher)
{
	uint64_t deadline = clock_monotonic() + PEER_WAIT_NS;

	while (!*watcher->bye && clock_monotonic() < deadline) {
		enum frame_type type;
		void *message = peer_next(watcher->peer, &type);

		assert_non_null(message);
		watcher_take(watcher, type, message);
		peer_free(message);
	}
	assert_true(*watcher->bye);
}

/* Takes the answer to a Subscribe. */
static inline void watcher_start(struct watcher *watcher)
{
	Ringtail__V1__Subscribed *subscribed;

	peer_free(peer_expect(watcher->peer, FRAME_CATALOG));
	subscribed = peer_expect(watcher->peer, FRAME_SUBSCRIBED);
	for (size_t i = 0; i < subscribed->start->n_position; i++)
		watcher->seq[watcher_ring(subscribed->start->position[i]->cpu)] =
			subscribed->start->position[i]->seq;
	watcher->resumed = subscribed->resumed;
	peer_free(subscribed);
}

static inline struct watcher watcher_open(struct engine *engine, const char *probe,
					  const char *filter, Ringtail__V1__Cursor *since)
{
	struct watcher watcher = {.peer = engine_connect(engine)};

	peer_greet(watcher.peer);
	peer_send_subscribe(watcher.peer, probe, filter, since);
	watcher_start(&watcher);
	return watcher;
}

/* The daemon's side of every client's ledger, and of every ring's. */
static inline void engine_check_ledger(struct engine *engine)
{
	struct peer *peer = engine_connect(engine);
	Ringtail__V1__Stat *stat;

	peer_greet(peer);
	peer_send_stat(peer, 0);
	stat = peer_expect(peer, FRAME_STAT);
	for (size_t i = 0; i < stat->n_client; i++)
		assert_int_equal(stat->client[i]->residual, 0);
	for (size_t i = 0; i < stat->n_ring; i++)
		assert_int_equal(stat->ring[i]->residual, 0);
	peer_free(stat);
	peer_close(peer);
	peer_run(engine->base);
}

#endif
