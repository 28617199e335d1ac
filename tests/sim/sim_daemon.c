#include "tests/sim/sim_daemon.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/serve/control.h"
#include "daemon/access/gate.h"
#include "daemon/base/clock.h"
#include "daemon/collect/worker.h"
#include "daemon/config/config.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/gather.h"
#include "daemon/stream/saved_subscriptions.h"
#include "daemon/disk/thread.h"
#include "daemon/host/service_manager.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/thread_journal.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/serve/server.h"
#include "daemon/net/transport.h"
#include "daemon/spool/frame.h"
#include "daemon/spool/read.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_stored.h"

#define STOP_POLL_MS 2
#define RUNS_MAX 1024u

struct daemon {
	unsigned run;
	uint64_t started_ns;
	bool adopts, leaves;		/* the rings, from the run before and to the next */
	struct activation activation;
	struct saved_subscriptions *saved;
	struct thread_journal *threads;
	struct sim_daemon_config config;
	struct loader *loader;
	struct event_base *base;
	struct frame_codec *codec;
	struct probe_table probes;
	struct mailbox mailbox;
	unsigned workers;
	struct worker *worker[WORKERS_MAX];
	struct fanout *fanout;
	struct answers answers;
	struct gate *gate;
	struct control *control;
	struct disk disk;
	struct disk_thread *disk_thread;
	struct spooler *spooler;
	struct consumers *consumers;
	uint32_t cpu_of[SOURCE_RINGS_MAX];
	struct server *server;
	struct event *connections, *stop_poll, *lag;
	uint64_t lag_ns;
	int listener;
	bool stopping, drained, orphaned;
	uint64_t stop_deadline_ns;
};

static struct daemon *running;
static unsigned runs;
static bool handed_over[RUNS_MAX];

static const char *const faults[] = {"lose-batch", "repeat-batch", "lose-watermark", "count-wrong",
				     "deaf-kernel", "change-seq", "hide-restart", "durable-early",
				     "release-too-far", "ack-back", "free-early", "skip-lost",
				     "forget-wanted", "forget-thread", "number-anew"};
static const char *fault;

static void must(int err, const struct error *error)
{
	if (err)
		sim_fail("the daemon does not start: [%s] %s", error->code, error->what);
}

struct loader *daemon_loader(void)
{
	return running ? running->loader : NULL;
}

bool daemon_handed_over(unsigned run)
{
	return handed_over[run];
}

unsigned daemon_run(void)
{
	return running ? running->run : 0;
}

bool daemon_serves(void)
{
	return running && running->server;
}

/* ---- Wrong on purpose ------------------------------------------------------------------------ */

bool daemon_break(const char *name)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (strcmp(name, faults[i]) == 0)
			fault = faults[i];
	return fault;
}

void daemon_list_faults(void)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		puts(faults[i]);
}

/* Once in a while, so that there is a stream before it. */
static bool strikes(const char *name)
{
	return fault && strcmp(fault, name) == 0 && sim_chance(2);
}

void __real_subscription_append(struct subscription *subscription, struct frame_ref *frame);
void __wrap_subscription_append(struct subscription *subscription, struct frame_ref *frame);
void __wrap_subscription_append(struct subscription *subscription, struct frame_ref *frame)
{
	bool batch = frame->type == FRAME_BATCH && frame->events;

	if ((batch && strikes("lose-batch")) ||
	    (frame->type == FRAME_WATERMARK && strikes("lose-watermark"))) {
		frame_ref_put(frame);
		return;
	}
	if (batch && strikes("repeat-batch"))
		__real_subscription_append(subscription, frame_ref_get(frame));
	if (batch && strikes("count-wrong"))
		frame->events++;
	__real_subscription_append(subscription, frame);
}

int __real_loader_configure(struct loader *loader, const struct source_request *request);
int __wrap_loader_configure(struct loader *loader, const struct source_request *request);
int __wrap_loader_configure(struct loader *loader, const struct source_request *request)
{
	struct source_request mine = *request;

	if (fault && strcmp(fault, "deaf-kernel") == 0)
		mine.probes[RT_PROBE_SYSCALL_CALL / 8] = 0;
	return __real_loader_configure(loader, &mine);
}

uint64_t __real_batch_encode_end_seq(const struct batch_encoder *encoder);
uint64_t __wrap_batch_encode_end_seq(const struct batch_encoder *encoder);
uint64_t __wrap_batch_encode_end_seq(const struct batch_encoder *encoder)
{
	return __real_batch_encode_end_seq(encoder) + strikes("change-seq");
}

/* As it was before anybody held it to that: a reader goes from one run to the next without a word. */
bool __real_spool_read_next(struct spool_read *read, struct spool_store *store, size_t bytes,
			    struct frame_ref **frame, unsigned max, unsigned *n);
bool __wrap_spool_read_next(struct spool_read *read, struct spool_store *store, size_t bytes,
			    struct frame_ref **frame, unsigned max, unsigned *n);
bool __wrap_spool_read_next(struct spool_read *read, struct spool_store *store, size_t bytes,
			    struct frame_ref **frame, unsigned max, unsigned *n)
{
	bool end = __real_spool_read_next(read, store, bytes, frame, max, n);
	unsigned kept = 0;

	for (unsigned i = 0; i < *n; i++)
		if (fault && strcmp(fault, "hide-restart") == 0 && frame[i]->type == FRAME_GAP &&
		    frame[i]->first_seq == frame[i]->end_seq &&
		    frame[i]->loss[0].reason == LOSS_REASON_NOT_RECORDED)
			frame_ref_put(frame[i]);
		else
			frame[kept++] = frame[i];
	*n = kept;
	return end;
}

static bool is_broken(const char *name)
{
	return fault && strcmp(fault, name) == 0;
}

/* What is written counts as durable before it is synced. */
void __real_spool_store_turn(struct spool_store *store, struct spool_turn *turn);
void __wrap_spool_store_turn(struct spool_store *store, struct spool_turn *turn);
void __wrap_spool_store_turn(struct spool_store *store, struct spool_turn *turn)
{
	enum spool_durability durability = store->config.durability;

	if (is_broken("durable-early"))
		store->config.durability = SPOOL_WRITTEN;
	__real_spool_store_turn(store, turn);
	store->config.durability = durability;
}

/* Segments go that somebody has not acknowledged. */
void __real_spool_release(struct spool *spool, const struct cursor *upto);
void __wrap_spool_release(struct spool *spool, const struct cursor *upto);
void __wrap_spool_release(struct spool *spool, const struct cursor *upto)
{
	struct cursor *all = is_broken("release-too-far") ? cursor_copy(upto) : NULL;

	for (uint32_t i = 0; all && i < all->n; i++)
		all->position[i].seq = UINT64_MAX;
	__real_spool_release(spool, all ? all : upto);
	free(all);
}

/* Segments go before it is known to the disk that they are needed no more. */
bool __real_consumers_are_given(const struct consumers *consumers);
bool __wrap_consumers_are_given(const struct consumers *consumers);
bool __wrap_consumers_are_given(const struct consumers *consumers)
{
	return is_broken("free-early") || __real_consumers_are_given(consumers);
}

/* What a consumer has acknowledged is forgotten in part. */
int __real_consumer_acknowledge(struct consumer *consumer, const struct cursor *upto,
				uint64_t realtime_ns);
int __wrap_consumer_acknowledge(struct consumer *consumer, const struct cursor *upto,
				uint64_t realtime_ns);
int __wrap_consumer_acknowledge(struct consumer *consumer, const struct cursor *upto,
				uint64_t realtime_ns)
{
	int err = __real_consumer_acknowledge(consumer, upto, realtime_ns);

	for (uint32_t i = 0; is_broken("ack-back") && consumer->place && i < consumer->place->n; i++)
		consumer->place->position[i].seq /= 2;
	return err;
}

/* What the disk lost, and should be told as a Gap, is told as skipped. */
struct frame_ref *__real_spool_frame_gap(struct frame_codec *codec, uint32_t cpu, uint64_t first_seq,
					 uint64_t end_seq, uint64_t events,
					 enum loss_reason reason);
struct frame_ref *__wrap_spool_frame_gap(struct frame_codec *codec, uint32_t cpu, uint64_t first_seq,
					 uint64_t end_seq, uint64_t events,
					 enum loss_reason reason);
struct frame_ref *__wrap_spool_frame_gap(struct frame_codec *codec, uint32_t cpu, uint64_t first_seq,
					 uint64_t end_seq, uint64_t events,
					 enum loss_reason reason)
{
	struct frame_ref *frame;

	if (!is_broken("skip-lost") || end_seq == first_seq)
		return __real_spool_frame_gap(codec, cpu, first_seq, end_seq, events, reason);
	frame = frame_ref_create(FRAME_BATCH, 0);
	if (frame) {
		frame->cpu = cpu;
		frame->first_seq = first_seq;
		frame->end_seq = end_seq;
		frame->skipped = end_seq - first_seq;
	}
	return frame;
}

/* The next run does not go on with what clients of the run before want. */
int __real_saved_subscriptions_restore(struct saved_subscriptions *saved, saved_subscription *each,
				       void *context, struct error *error);
int __wrap_saved_subscriptions_restore(struct saved_subscriptions *saved, saved_subscription *each,
				       void *context, struct error *error);
int __wrap_saved_subscriptions_restore(struct saved_subscriptions *saved, saved_subscription *each,
				       void *context, struct error *error)
{
	return is_broken("forget-wanted") ? 0 :
	       __real_saved_subscriptions_restore(saved, each, context, error);
}

/* Whoever is killed may be killed between what it keeps of a record and that the record is done with. */
static void pause_here(void)
{
	if (sim.manager && sim_task_is_running() && sim_chance(20))
		sim_task_yield();
}

/* A thread that is introduced once is not known to the next run. */
void __real_thread_ring_write(struct thread_ring *ring, uint32_t slot, uint32_t tid,
			      const struct rt_thread *thread);
void __wrap_thread_ring_write(struct thread_ring *ring, uint32_t slot, uint32_t tid,
			      const struct rt_thread *thread);
void __wrap_thread_ring_write(struct thread_ring *ring, uint32_t slot, uint32_t tid,
			      const struct rt_thread *thread)
{
	if (!strikes("forget-thread"))
		__real_thread_ring_write(ring, slot, tid, thread);
	pause_here();
}

void __real_ring_reader_release(struct ring_reader *reader);
void __wrap_ring_reader_release(struct ring_reader *reader);
void __wrap_ring_reader_release(struct ring_reader *reader)
{
	pause_here();
	__real_ring_reader_release(reader);
	pause_here();
}

/* The next run begins a record later than the run before ended. */
int __real_worker_baseline(const struct worker *worker, uint32_t ring, struct worker_baseline *baseline);
int __wrap_worker_baseline(const struct worker *worker, uint32_t ring, struct worker_baseline *baseline);
int __wrap_worker_baseline(const struct worker *worker, uint32_t ring, struct worker_baseline *baseline)
{
	int err = __real_worker_baseline(worker, ring, baseline);

	if (!err && baseline->seq && is_broken("number-anew"))
		baseline->seq++;
	return err;
}

/* Told, so that a pinned seed can ask for it. */
struct frame_ref *__real_spool_frame_watermark(struct frame_codec *codec, uint64_t time_ns,
					       Ringtail__V1__Position **position, size_t n);
struct frame_ref *__wrap_spool_frame_watermark(struct frame_codec *codec, uint64_t time_ns,
					       Ringtail__V1__Position **position, size_t n);
struct frame_ref *__wrap_spool_frame_watermark(struct frame_codec *codec, uint64_t time_ns,
					       Ringtail__V1__Position **position, size_t n)
{
	struct frame_ref *frame = __real_spool_frame_watermark(codec, time_ns, position, n);

	sim_log("spool: an owed watermark %s%s", n ? "that tells of skips " : "",
		frame ? "is made up for" : "has no memory");
	return frame;
}

/* ---- The rest of the world ------------------------------------------------------------------- */

/* Nobody can prove who he is over plain tcp: some histories believe everybody. */
int __real_gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
		      struct error *error);
int __wrap_gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
		      struct error *error);
int __wrap_gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
		      struct error *error)
{
	int err = __real_gate_admit(gate, identity, token, error);

	if (!err && sim.operators)
		identity->role = ROLE_OPERATOR;
	return err;
}

void __real_gate_judge(const struct gate *gate, struct client_identity *identity);
void __wrap_gate_judge(const struct gate *gate, struct client_identity *identity);
void __wrap_gate_judge(const struct gate *gate, struct client_identity *identity)
{
	__real_gate_judge(gate, identity);
	if (sim.operators)
		identity->role = ROLE_OPERATOR;
}

void __real_session_subscribed(struct session *session, struct stream *stream, struct frame_ref *catalog,
			       struct frame_ref *subscribed);
void __wrap_session_subscribed(struct session *session, struct stream *stream, struct frame_ref *catalog,
			       struct frame_ref *subscribed);

/* In a third of the histories durable consumers get what relays do. Chance is not asked: that would change them all. */
void __wrap_session_subscribed(struct session *session, struct stream *stream, struct frame_ref *catalog,
			       struct frame_ref *subscribed)
{
	static uint64_t interval_ns;

	interval_ns = sim.seed / 3 % 4 * 300 * SIM_MS;
	if (stream->consumer && sim.seed % 3 == 0 &&
	    gather_begin(stream, loader_catalog(daemon_loader()), &interval_ns) != 0)
		sim_log("daemon: no memory to gather");
	__real_session_subscribed(session, stream, catalog, subscribed);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void on_log(enum log_level level, const char *code, const char *text)
{
	(void)level;
	sim_log("daemon: [%s] %s", code, text);
}

static void on_failed(void *context)
{
	const struct daemon *daemon = context;

	if (!daemon->orphaned)
		sim_fail("the daemon thinks its loader has gone");
	if (!daemon->stopping)
		daemon_stop(true);
}

static void on_connection(evutil_socket_t fd, short what, void *context)
{
	struct daemon *daemon = context;
	char peer[32];
	int accepted;

	(void)fd, (void)what;
	while ((accepted = sim_accept()) >= 0) {
		struct transport *transport = transport_plain_create(accepted);

		snprintf(peer, sizeof(peer), "sim:%d", accepted);
		if (!transport) {
			sim_log("daemon: no memory for %s", peer);
			continue;
		}
		server_serve(daemon->server, SERVER_PLAIN, transport, peer);
	}
}

/* As if it were read from a file. */
static void make_config(const struct sim_daemon_config *want, struct config *config)
{
	const struct oracle_spec *spec = want->permanent < 0 ? NULL :
							       &oracle_specs[want->permanent];
	char text[1024] = "listen = tcp:127.0.0.1:7117\ninsecure = yes\n";
	struct error error;

	for (unsigned i = 0; spec && i < spec->probes; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "probe = %s\n",
			 spec->probe[i]);
	if (spec && *spec->filter)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "filter = %s\n",
			 spec->filter);
	must(config_parse_text(text, strlen(text), "sim.conf", config, &error), &error);
	config->hello_timeout_ns = want->hello_timeout_ns;
	config->clients_max = want->clients_max;
	config->identity_max = want->clients_max;	/* all of them are one */
}

static struct frame_ref *stat_of(void *context)
{
	return server_stat_frame(((struct daemon *)context)->server);
}

static void start_control(struct daemon *daemon, const struct config *config)
{
	struct control_config control = {
		.base = daemon->base, .fanout = daemon->fanout, .codec = daemon->codec,
		.catalog = loader_catalog(daemon->loader), .disk_thread = daemon->disk_thread,
		.stat = stat_of, .context = daemon,
	};
	struct error error;

	must(gate_create(config, &daemon->gate, &error), &error);
	control.gate = daemon->gate;
	must(control_create(&control, &daemon->control, &error), &error);
	must(control_load(daemon->control, &daemon->disk, &error), &error);
	must(control_set_config(daemon->control, config, &error), &error);
}

static void take_kept(struct daemon *daemon)
{
	struct error error;

	sim_manager_hand_over(&daemon->activation);
	daemon->saved = saved_subscriptions_create(sim_manager(), &daemon->activation);
	if (!daemon->saved)
		sim_fail("the daemon does not start");
	must(thread_journal_open(&daemon->activation, sim_manager(), loader_rings(daemon->loader),
				 daemon->adopts, &daemon->threads, &error), &error);
}

/* Where a run was killed before it had numbers, this one's are the first. */
static void take_numbers(struct daemon *daemon, const struct worker *worker, unsigned ring)
{
	struct worker_baseline baseline = {0};

	if (worker_baseline(worker, ring, &baseline) != 0 ||
	    (baseline.epoch && baseline.epoch != daemon->config.source.epoch) ||
	    (!baseline.epoch && source_begin_of(daemon->loader, ring)))
		sim_fail("ring %u: the numbers of epoch %llu are found as of %llu", ring,
			 (unsigned long long)daemon->config.source.epoch,
			 (unsigned long long)baseline.epoch);
	source_begin_ring(daemon->loader, ring, baseline.seq);
	sim_log("ring %u goes on at %llu", ring, (unsigned long long)baseline.seq);
}

static void make_workers(struct daemon *daemon)
{
	struct worker_config config = {.batch_interval_ns = daemon->config.batch_interval_ns,
				       .probes = &daemon->probes, .out = &daemon->mailbox};
	struct error error;

	must(probe_table_init(&daemon->probes, loader_catalog(daemon->loader), &error), &error);
	for (; daemon->workers < daemon->config.workers; daemon->workers++) {
		config.id = daemon->workers;
		must(worker_create(&config, &daemon->worker[config.id], &error), &error);
	}
	for (unsigned i = 0; i < loader_rings(daemon->loader); i++) {
		struct worker *worker = daemon->worker[i % daemon->workers];

		must(worker_add_ring(worker, i, loader_ring(daemon->loader, i), &error), &error);
		worker_keep_threads(worker, i, thread_journal_ring(daemon->threads, i));
		if (daemon->adopts)
			take_numbers(daemon, worker, i);
	}
	for (unsigned i = 0; i < daemon->workers; i++)
		worker_set_epoch(daemon->worker[i], daemon->config.source.epoch);
}

static struct frame_ref *make_hello(void *context)
{
	return answers_hello(&((struct daemon *)context)->answers, "");
}

static void start_spool(struct daemon *daemon)
{
	const struct sim_daemon_config *want = &daemon->config;
	struct spooler_config config = {
		.base = daemon->base, .durability = want->durability,
		.policy = SPOOL_DROP_OLDEST, .size_bytes = want->spool_bytes,
		.age_ns = 24 * 3600 * SIM_S, .segment_bytes = want->segment_bytes,
		.sync_interval_ns = want->sync_interval_ns, .run = {.boot_id = "0123456789abcde",
			.epoch = want->source.epoch}, .rings = want->source.rings,
		.cpu_of = daemon->cpu_of,
	};
	struct error error;

	sim_disk(&daemon->disk);
	must(disk_thread_create(daemon->base, &daemon->disk, true, &daemon->disk_thread, &error),
	     &error);
	for (unsigned i = 0; i < want->source.rings; i++)
		daemon->cpu_of[i] = loader_ring(daemon->loader, i)->cpu;
	if (want->durability == SPOOL_MEMORY)
		return;
	config.thread = daemon->disk_thread;
	must(spooler_create(&config, &daemon->spooler, &error), &error);
	must(consumers_create(&daemon->disk, daemon->disk_thread, &daemon->consumers, &error),
	     &error);
}

static struct viewer_bounds viewers_of(const struct sim_daemon_config *config)
{
	return (struct viewer_bounds){.strings = true, .stacks = true, .rate = config->viewer_rate,
				      .subscriptions = SUBSCRIPTIONS_MAX};
}

static void start_fanout(struct daemon *daemon)
{
	struct fanout_config config = {
		.viewers = viewers_of(&daemon->config),
		.base = daemon->base, .loader = daemon->loader, .worker = daemon->worker,
		.workers = daemon->workers, .mailbox = &daemon->mailbox, .codec = daemon->codec,
		.run = {.boot_id = "0123456789abcde", .epoch = daemon->config.source.epoch},
		.history_bytes = daemon->config.history_bytes,
		.history_age_ns = daemon->config.history_age_ns,
		.queue_bytes = daemon->config.queue_bytes,
		.spooler = daemon->spooler, .consumers = daemon->consumers, .hello = make_hello,
		/* A relay that never comes: its consumer is registered, changed and kept. */
		.dials_relay = true,
		.saved = sim_manager() ? daemon->saved : NULL,
		.failed = on_failed, .context = daemon,
	};
	struct error error;

	daemon->answers = (struct answers){
		.codec = daemon->codec, .loader = daemon->loader, .spooler = daemon->spooler,
		.worker = daemon->worker, .workers = daemon->workers, .run = config.run,
		.started_ns = clock_monotonic(), .queue_bytes = config.queue_bytes,
		.batch_interval_ns = daemon->config.batch_interval_ns,
	};
	must(fanout_create(&config, &daemon->fanout, &error), &error);
	daemon->answers.fanout = daemon->fanout;
	if (daemon->adopts)
		must(fanout_restore(daemon->fanout, &error), &error);
	must(fanout_restore_consumers(daemon->fanout, &error), &error);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void on_stop_poll(evutil_socket_t fd, short what, void *context)
{
	struct daemon *daemon = context;

	(void)fd, (void)what;
	if ((daemon->drained && server_flush(daemon->server)) ||
	    clock_monotonic() > daemon->stop_deadline_ns)
		event_base_loopbreak(daemon->base);
}

static void on_lag(evutil_socket_t fd, short what, void *context)
{
	struct daemon *daemon = context;

	(void)fd, (void)what;
	for (unsigned i = 0; i < daemon->workers; i++)
		worker_mail_free(daemon->worker[i], NULL, -(uint64_t)(HANDOFF_BYTES_MAX + 1));
	sim_task_sleep(daemon->lag_ns);
	for (unsigned i = 0; i < daemon->workers; i++)
		worker_mail_free(daemon->worker[i], NULL, HANDOFF_BYTES_MAX + 1);
}

static void start_server(struct daemon *daemon, const struct config *settings)
{
	struct server_config config = {
		.base = daemon->base, .answers = &daemon->answers, .codec = daemon->codec,
		.gate = daemon->gate, .control = daemon->control,
		.bounds = server_bounds_of(settings),
	};

	daemon->server = server_create(&config);
	daemon->listener = sim_listen();
	daemon->connections = event_new(daemon->base, daemon->listener, EV_READ | EV_PERSIST,
					on_connection, daemon);
	daemon->lag = event_new(daemon->base, -1, 0, on_lag, daemon);
	daemon->stop_poll = event_new(daemon->base, -1, EV_PERSIST, on_stop_poll, daemon);
	event_add(daemon->connections, NULL);
}

static void finish(struct daemon *daemon)
{
	event_free(daemon->connections);
	event_free(daemon->stop_poll);
	event_free(daemon->lag);
	close(daemon->listener);
	server_destroy(daemon->server);
	control_settle(daemon->control);
	disk_thread_settle(daemon->disk_thread);
	for (unsigned i = 0; i < daemon->workers; i++)
		worker_destroy(daemon->worker[i]);
	fanout_destroy(daemon->fanout);
	consumers_destroy(daemon->consumers);
	spooler_destroy(daemon->spooler);
	disk_thread_destroy(daemon->disk_thread);
	control_destroy(daemon->control);
	thread_journal_close(daemon->threads);
	saved_subscriptions_destroy(daemon->saved);
	activation_close(&daemon->activation);
	for (struct mail *mail = mailbox_take(&daemon->mailbox), *next; mail; mail = next) {
		next = mail->next;
		frame_ref_put(((struct worker_mail *)mail)->frame);
		free(mail);
	}
	mailbox_fini(&daemon->mailbox);
	event_base_free(daemon->base);
	frame_codec_destroy(daemon->codec);
	gate_destroy(daemon->gate);
	if (daemon->leaves)
		source_keep(daemon->loader, false, daemon->drained && !sim_disk_has_failed());
	else
		source_end(daemon->loader, true, !sim_disk_has_failed());
	oracle_run_ended(daemon->loader);
	running = NULL;
	sim_log("daemon: ended");
}

/* As daemon/engine.c does: what the run before was asked for is there before anything is read. */
static void start_reading(struct daemon *daemon)
{
	struct error error;

	if (daemon->adopts) {
		disk_thread_settle(daemon->disk_thread);
		must(fanout_adopt(daemon->fanout, &error), &error);
	}
	for (unsigned i = 0; i < daemon->workers; i++)
		must(worker_start(daemon->worker[i], &error), &error);
}

static void *run(void *context)
{
	struct daemon *daemon = context;
	struct config config;

	daemon->base = event_base_new();
	daemon->codec = frame_codec_create(1);
	if (mailbox_init(&daemon->mailbox) != 0)
		sim_fail("the daemon does not start");
	make_config(&daemon->config, &config);
	take_kept(daemon);
	make_workers(daemon);
	start_spool(daemon);
	start_fanout(daemon);
	start_control(daemon, &config);
	start_reading(daemon);
	start_server(daemon, &config);
	sim.shortage.armed = true;
	config_free(&config);
	event_base_dispatch(daemon->base);
	finish(daemon);
	return NULL;
}

/* ---- Orders ---------------------------------------------------------------------------------- */

void daemon_start(const struct sim_daemon_config *config, struct loader *kept)
{
	static const struct log_sink sink = {on_log, clock_monotonic};
	struct daemon *daemon = sim_calloc(sizeof(*daemon));

	sim.shortage.armed = false;
	log_set_sink(&sink);
	daemon->config = *config;
	daemon->adopts = kept;
	daemon->run = ++runs;
	if (runs == RUNS_MAX)
		sim_fail("the daemon was started too often");
	daemon->loader = kept ? kept : source_start(&config->source);
	running = daemon;
	daemon->started_ns = sim.now_ns;
	if (kept)
		oracle_adopted(kept, sim.now_ns + config->history_age_ns);
	sim_task_start("main", run, daemon);
	sim_log("daemon: run %u starts in epoch %llu%s", runs, (unsigned long long)config->source.epoch,
		kept ? ", on the rings of the run before" : "");
}

void daemon_reload(const struct sim_daemon_config *config)
{
	struct viewer_bounds viewers;
	struct server_bounds bounds;
	struct config settings;
	struct error error;

	if (!running || !running->server || running->stopping)
		return;
	sim_log("daemon: is reconfigured");
	make_config(config, &settings);
	if (control_set_config(running->control, &settings, &error) != 0)
		sim_log("daemon: refuses: [%s] %s", error.code, error.what);
	fanout_set_bounds(running->fanout, config->history_bytes, config->history_age_ns,
			  config->queue_bytes, 0);
	viewers = viewers_of(config);
	fanout_set_viewers(running->fanout, &viewers);
	bounds = server_bounds_of(&settings);
	server_set_bounds(running->server, &bounds);
	for (unsigned i = 0; i < running->workers; i++)
		worker_set_batch_interval(running->worker[i], config->batch_interval_ns);
	running->config = *config;
	oracle_keeps_until(running->loader, running->started_ns + config->history_age_ns);
	config_free(&settings);
}

void daemon_lag(uint64_t ns)
{
	if (!daemon_serves() || running->stopping)
		return;
	sim_log("daemon: its main loop stands still for %llu ms", (unsigned long long)(ns / SIM_MS));
	running->lag_ns = ns;
	event_active(running->lag, EV_TIMEOUT, 0);
}

static void on_stopped(void *context)
{
	((struct daemon *)context)->drained = true;
}

void daemon_stop(bool hand_over)
{
	struct timeval interval = {.tv_usec = STOP_POLL_MS * 1000};

	running->stopping = true;
	running->leaves = hand_over && sim.manager;
	sim_log("daemon: is told to %s", running->leaves ? "hand over" : "stop");
	running->stop_deadline_ns = clock_monotonic() + SHUTDOWN_NS;
	if (running->leaves) {
		source_leave(running->loader);
		handed_over[running->run] = true;
		oracle_owe(running->loader);
		fanout_hand_over(running->fanout, "simulated restart", on_stopped, running);
	} else {
		source_stopping(running->loader);
		fanout_stop(running->fanout, "simulated stop", on_stopped, running);
	}
	event_add(running->stop_poll, &interval);
}

void daemon_orphan(void)
{
	running->orphaned = true;
	source_die(running->loader);
}

void daemon_kill(bool power)
{
	sim_log("daemon: is killed%s", power ? ", by a power cut" : "");
	sim_stored_note(power && running->config.durability == SPOOL_FSYNC ? running->spooler : NULL,
			&running->config.source);
	sim_disk_cut(power);
	sim_stored_check();
	if (sim.manager && !power) {
		if (!source_is_leaving(running->loader))
			oracle_owe(running->loader);
		source_keep(running->loader, true, false);
	} else {
		source_stopping(running->loader);
		source_end(running->loader, false, false);
	}
	oracle_run_ended(running->loader);
	sim_tasks_kill();
	sim_net_kill();
	running = NULL;
}
