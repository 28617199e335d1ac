/*
 * main_start: makes the daemon's parts, each after those it needs, and wires them together. Main
 * thread; there is no other before the workers are started.
 */
#include "daemon/main_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int start_manager(struct daemon *daemon, struct error *error)
{
	int err = activation_take(&daemon->activation);

	if (err)
		return error_set(error, -err, "activation",
				 "the descriptors of the service manager cannot be taken: %s",
				 strerror(-err));
	daemon->manager = service_manager_connect();
	daemon->saved = saved_subscriptions_create(daemon->manager, &daemon->activation);
	return daemon->saved ? 0 : error_set(error, ENOMEM, "out-of-memory", "out of memory");
}

static int read_identity(struct daemon *daemon, struct error *error)
{
	char text[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned digits = 0;

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < got && digits < 32; i++) {
		static const char hex[] = "0123456789abcdef";
		const char *at = text[i] ? strchr(hex, text[i]) : NULL;

		if (!at)
			continue;
		daemon->run.boot_id[digits / 2] |= (uint8_t)((at - hex) << (digits % 2 ? 0 : 4));
		digits++;
	}
	if (digits != 32)
		return error_set(error, EIO, "boot-id", "cannot read the kernel's boot_id");
	machine_read_id(NULL);
	daemon->started_ns = clock_monotonic();
	return 0;
}

static int start_loader(struct daemon *daemon, const struct account *engine, struct error *error)
{
	struct account account;
	struct config *config = &daemon->config;
	struct source_config source = {
		.ring_bytes = config->ring_bytes,
		.policy = RT_POLICY_DROP,
		.path = config->source.path,
		.replay_fast = config->replay_pace == CONFIG_PACE_FAST,
		.account = &account,
	};
	struct loader_keeper keeper = {
		.activation = &daemon->activation,
		.manager = daemon->manager,
	};
	int err = privileges_find_loader(engine, &account, error);

	if (!err)
		err = loader_start(config->source.name, &source, config->trace_self, &keeper,
				   &daemon->loader, error);

	if (err)
		return err;
	if (service_manager_begin_store(daemon->manager) != 0)
		log_warn("store-failed", "the service manager cannot be asked to keep the rings: a "
			 "restart may lose events");
	return probe_table_init(&daemon->probes, loader_catalog(daemon->loader), error);
}

static int start_listeners(struct daemon *daemon, const struct account *account,
			   struct error *error)
{
	const struct config_listen *listen = &daemon->config.listen;

	for (; daemon->listeners < listen->count; daemon->listeners++) {
		const struct address *address = &listen->address[daemon->listeners];
		struct listener **listener = &daemon->listener[daemon->listeners];
		int err = listener_adopt(&daemon->activation, address, listener, error);

		if (!err && !*listener)
			err = listener_create(address, account->uid, account->gid, listener,
					      error);
		if (err)
			return err;
	}
	return listener_check_adopted(&daemon->activation, error);
}

static int start_loop(struct daemon *daemon, struct error *error)
{
	struct event_config *config = event_config_new();

	if (config) {
		event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
		event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
		daemon->base = event_base_new_with_config(config);
		event_config_free(config);
	}
	daemon->codec = frame_codec_create(1);
	if (daemon->base) {
		daemon->local = turnstile_create(daemon->base);
		daemon->remote = turnstile_create(daemon->base);
	}
	if (!daemon->local || !daemon->remote || !daemon->codec ||
	    mailbox_init(&daemon->mailbox) != 0)
		return error_set(error, ENOMEM, "out-of-memory", "cannot make the main loop");
	return 0;
}

static int make_workers(struct daemon *daemon, struct error *error)
{
	unsigned rings = loader_rings(daemon->loader);
	unsigned wanted = (unsigned)daemon->config.workers;
	int err = 0;

	if (daemon->metering)
		err = metering_prepare(daemon->metering, &daemon->config,
				       loader_catalog(daemon->loader),
				       rings && rings < wanted ? rings : rings ? wanted : 1,
				       error);
	if (err)
		return err;
	/* Without rings (an empty recording) there is still one, to say that it has drained them. */
	for (; !daemon->workers || (daemon->workers < wanted && daemon->workers < rings);
	     daemon->workers++) {
		struct worker_config config = {
			.id = daemon->workers,
			.batch_interval_ns = main_batch_interval(&daemon->config),
			.probes = &daemon->probes,
			.meter = daemon->metering ? metering_meter(daemon->metering,
								   daemon->workers) : NULL,
			.out = &daemon->mailbox,
		};

		err = worker_create(&config, &daemon->worker[daemon->workers], error);
		if (err)
			return err;
	}
	for (unsigned i = 0; i < rings; i++) {
		err = worker_add_ring(daemon->worker[i % daemon->workers], i,
				      loader_ring(daemon->loader, i), error);
		if (err)
			return err;
	}
	return 0;
}

/* The numbers of the run before go on where all rings have them; else these are of a new epoch. */
static void choose_epoch(struct daemon *daemon)
{
	unsigned rings = loader_rings(daemon->loader);
	bool same = loader_adopted(daemon->loader) && rings;

	for (unsigned i = 0; i < rings; i++) {
		struct worker_baseline baseline = {0};

		worker_baseline(daemon->worker[i % daemon->workers], i, &baseline);
		same &= baseline.epoch && (!i || baseline.epoch == daemon->run.epoch);
		daemon->run.epoch = baseline.epoch;
	}
	if (!same)
		daemon->run.epoch = clock_read(CLOCK_REALTIME);
	if (!same && loader_adopted(daemon->loader))
		log_warn("restart-numbers", "the run before has left no word of how its rings were "
			 "numbered: clients cannot resume");
	for (unsigned i = 0; i < daemon->workers; i++)
		worker_set_epoch(daemon->worker[i], daemon->run.epoch);
}

static int keep_threads(struct daemon *daemon, struct error *error)
{
	unsigned rings = loader_rings(daemon->loader);
	int err = thread_journal_open(&daemon->activation, daemon->manager, rings,
				      loader_adopted(daemon->loader), &daemon->threads, error);

	for (unsigned i = 0; i < rings && !err; i++)
		worker_keep_threads(daemon->worker[i % daemon->workers], i,
				    thread_journal_ring(daemon->threads, i));
	return err;
}

/* What the run before was asked for goes on without a gap, so it is there before anything is read. */
static int start_workers(struct daemon *daemon, struct error *error)
{
	int err = 0;

	if (loader_adopted(daemon->loader)) {
		if (daemon->disk_thread)
			disk_thread_settle(daemon->disk_thread);
		err = fanout_adopt(daemon->fanout, error);
	}
	for (unsigned i = 0; i < daemon->workers && !err; i++)
		err = worker_start(daemon->worker[i], error);
	return err;
}

/* What frames on disk begin with: as to a client, but that nobody's role is meant. */
static struct frame_ref *make_hello(void *context)
{
	const struct daemon *daemon = context;

	return answers_hello(&daemon->answers, "");
}

struct fanout_viewers main_viewers_of(const struct config *config)
{
	return (struct fanout_viewers){
		.probe = &config->viewer_probe,
		.strings = config->viewer_strings,
		.stacks = config->viewer_stacks,
		.rate = config->viewer_rate,
		.subscriptions = config->viewer_subscriptions,
	};
}

static int start_fanout(struct daemon *daemon, struct error *error)
{
	struct fanout_config config = {
		.base = daemon->base,
		.loader = daemon->loader,
		.worker = daemon->worker,
		.workers = daemon->workers,
		.mailbox = &daemon->mailbox,
		.codec = daemon->codec,
		.run = daemon->run,
		.history_bytes = daemon->config.history_bytes,
		.history_age_ns = daemon->config.history_age_ns,
		.queue_bytes = daemon->config.queue_bytes,
		.memory_bytes = daemon->config.memory_bytes,
		.viewers = main_viewers_of(&daemon->config),
		.spooler = daemon->spooler,
		.consumers = daemon->consumers,
		.hello = make_hello,
		.saved = daemon->manager ? daemon->saved : NULL,
		.file_strings = daemon->config.export_strings,
		.failed = main_on_failed,
		.context = daemon,
	};
	int err;

	daemon->answers = (struct answers){
		.codec = daemon->codec,
		.loader = daemon->loader,
		.worker = daemon->worker,
		.workers = daemon->workers,
		.run = daemon->run,
		.started_ns = daemon->started_ns,
		.queue_bytes = daemon->config.queue_bytes,
		.batch_interval_ns = main_batch_interval(&daemon->config),
	};
	err = fanout_create(&config, &daemon->fanout, error);
	daemon->answers.fanout = daemon->fanout;
	daemon->answers.spooler = daemon->spooler;
	if (!err && loader_adopted(daemon->loader))
		err = fanout_restore(daemon->fanout, error);
	return err ? err : fanout_restore_consumers(daemon->fanout, error);
}

/* Where frames of what is always on and of durable consumers are kept. */
static int start_spool(struct daemon *daemon, struct error *error)
{
	const struct config *config = &daemon->config;
	struct spooler_config spooler = {
		.base = daemon->base,
		.thread = daemon->disk_thread,
		.durability = config->durability,
		.policy = config->spool_policy,
		.size_bytes = config->spool_bytes,
		.age_ns = config->spool_age_ns,
		.segment_bytes = config->spool_segment_bytes,
		.sync_interval_ns = config->spool_sync_interval_ns,
		.run = daemon->run,
		.rings = loader_rings(daemon->loader),
	};
	uint32_t *cpu_of;
	int err;

	if (config->durability == SPOOL_MEMORY)
		return 0;
	cpu_of = calloc(spooler.rings + 1, sizeof(*cpu_of));
	if (!cpu_of)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	for (uint32_t i = 0; i < spooler.rings; i++)
		cpu_of[i] = loader_ring(daemon->loader, i)->cpu;
	spooler.cpu_of = daemon->cpu_of = cpu_of;
	err = spooler_create(&spooler, &daemon->spooler, error);
	return err ? err : consumers_create(&daemon->disk, daemon->disk_thread, &daemon->consumers,
					    error);
}

/* Without a state directory nothing can be kept, and nothing be changed; the rest works, if that is all. */
static int start_state(struct daemon *daemon, struct error *error)
{
	int err = disk_posix_open(daemon->config.state_dir, &daemon->disk, error);

	if (err && daemon->config.durability != SPOOL_MEMORY)
		return err;
	if (err) {
		log_failure(LOG_LEVEL_WARNING, error);
		*error = (struct error){0};
		return 0;
	}
	return disk_thread_create(daemon->base, &daemon->disk, true, &daemon->disk_thread, error);
}

static struct frame_ref *on_stat_wanted(void *context)
{
	struct daemon *daemon = context;

	return server_stat_frame(daemon->server);
}

static int start_control(struct daemon *daemon, struct error *error)
{
	struct control_config config = {
		.base = daemon->base,
		.gate = daemon->gate,
		.fanout = daemon->fanout,
		.codec = daemon->codec,
		.catalog = loader_catalog(daemon->loader),
		.disk_thread = daemon->disk_thread,
		.stat = on_stat_wanted,
		.applied = main_on_applied,
		.context = daemon,
	};
	int err = control_create(&config, &daemon->control, error);

	if (!err && daemon->disk_thread)
		err = control_load(daemon->control, &daemon->disk, error);
	if (!err)
		err = control_set_config(daemon->control, &daemon->config, error);
	if (err || !daemon->refusal.code[0])
		return err;
	*error = daemon->refusal;
	return -ECANCELED;
}

static int start_server(struct daemon *daemon, struct error *error)
{
	struct server_config config = {
		.base = daemon->base,
		.answers = &daemon->answers,
		.gate = daemon->gate,
		.control = daemon->control,
		.codec = daemon->codec,
		.turnstile = daemon->remote,
		.bounds = server_bounds_of(&daemon->config),
	};

	daemon->server = server_create(&config);
	if (!daemon->server)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	for (unsigned i = 0; i < daemon->listeners; i++) {
		/* Those on this host never wait for those who come over the network. */
		bool is_local = address_is_unix(&daemon->config.listen.address[i]);
		int err = listener_start(daemon->listener[i], daemon->base,
					 is_local ? daemon->local : daemon->remote, server_accept,
					 daemon->server, error);

		if (err)
			return err;
		log_info("listening", "listening on %s", listener_text(daemon->listener[i]));
	}
	return 0;
}

static struct daemon_stat *stat_of(void *server)
{
	return server_stat(server);
}

static int start_metering(struct daemon *daemon, struct error *error)
{
	struct metering_start start = {
		.base = daemon->base,
		.turnstile = daemon->remote,
		.fanout = daemon->fanout,
		.gate = daemon->gate,
		.run = daemon->run,
		.stat = stat_of,
		.context = daemon->server,
	};

	return daemon->metering ? metering_start(daemon->metering, &daemon->config, &start, error)
				: 0;
}

static const struct metric_snapshot *snapshot_of(void *context)
{
	struct daemon *daemon = context;

	return metric_source_take(metering_source(daemon->metering));
}

/* What was kept for an export that is gone, or has another URL now, is kept for ever, until it is said. */
static void tell_left_export(void *context, const struct fanout_consumer_stat *consumer)
{
	const struct daemon *daemon = context;

	if (!consumer->exporter)
		return;
	for (unsigned i = 0; i < daemon->targets.count; i++)
		if (strcmp(daemon->targets.target[i].consumer, consumer->name) == 0)
			return;
	log_warn("export-left", "%s is kept for an export that is not configured any more; give it up"
		 " with `tracectl forget %s`", consumer->name, consumer->name);
}

static int start_exports(struct daemon *daemon, struct error *error)
{
	struct export_feed_config config = {
		.base = daemon->base,
		.fanout = daemon->fanout,
		.loader = daemon->loader,
		.codec = daemon->codec,
		.run = daemon->run,
		.config = &daemon->config,
		.targets = &daemon->targets,
		.spooled = daemon->config.durability != SPOOL_MEMORY,
		.snapshot = snapshot_of,
		.context = daemon,
	};
	int err = 0;

	/* How much of what they asked for before is not sent yet is known once its spools are open. */
	if (daemon->targets.count && config.spooled)
		disk_thread_settle(daemon->disk_thread);
	if (daemon->targets.count)
		err = export_feed_create(&config, &daemon->exports, error);
	daemon->answers.exports = daemon->exports;
	if (!err)
		fanout_each_consumer(daemon->fanout, tell_left_export, daemon);
	return err;
}

static uint64_t worker_beats_of(void *context, unsigned i)
{
	const struct daemon *daemon = context;

	return worker_beats(daemon->worker[i]);
}

static void tell_watchdog(void *context)
{
	struct daemon *daemon = context;

	service_manager_notify(daemon->manager, "WATCHDOG=1");
}

static int start_watchdog(struct daemon *daemon, struct error *error)
{
	struct watchdog_config config = {
		.base = daemon->base,
		.workers = daemon->workers,
		.beats = worker_beats_of,
		.tell = tell_watchdog,
		.context = daemon,
	};

	return watchdog_create(&config, &daemon->watchdog, error);
}

/* ---- The order ------------------------------------------------------------------------------- */

int main_start(struct daemon *daemon, struct error *error)
{
	struct account account;
	int err = privileges_find(daemon->config.user, &account, error);

	privileges_raise_descriptors();
	/* Addresses first: that one is taken is quick to find out, and loading takes a while; who
	 * connects meanwhile waits. The loader is forked before there is a thread or a loop. */
	if (!err)
		err = start_manager(daemon, error);
	if (!err)
		err = read_identity(daemon, error);
	if (!err)
		err = start_listeners(daemon, &account, error);
	if (!err)
		err = export_targets_read(&daemon->config, &account, &daemon->targets, error);
	if (!err && daemon->targets.count)
		err = address_check_network("export", error);
	if (!err && (daemon->config.http.socket_bytes ||
		     export_targets_take_metrics(&daemon->targets)))
		err = metering_create(&daemon->config, account.uid, account.gid,
				      &daemon->metering, error);
	if (!err)
		err = start_loader(daemon, &account, error);
	if (!err)
		privileges_raise_priority();
	if (!err)
		err = sandbox_engine_view(&daemon->config, &account, error);
	if (!err)
		err = privileges_drop(&account, error);
	if (!err)
		err = gate_create(&daemon->config, &daemon->gate, error);
	if (!err)
		err = start_loop(daemon, error);
	if (!err)
		err = start_state(daemon, error);
	if (!err)
		err = main_start_signals(daemon, error);
	if (!err)
		err = make_workers(daemon, error);
	if (!err)
		err = keep_threads(daemon, error);
	if (!err)
		choose_epoch(daemon);
	if (!err)
		err = start_spool(daemon, error);
	if (!err)
		err = start_fanout(daemon, error);
	if (!err)
		err = start_control(daemon, error);
	if (!err)
		err = start_workers(daemon, error);
	if (!err)
		err = start_server(daemon, error);
	if (!err)
		err = start_metering(daemon, error);
	if (!err)
		err = start_exports(daemon, error);
	if (!err)
		err = start_watchdog(daemon, error);
	/* What is left to do takes few system calls: from here on others are the end. */
	if (!err)
		err = sandbox_engine_calls(&daemon->config, loader_pid(daemon->loader), error);
	return err;
}
