#include "daemon/engine.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/access/gate.h"
#include "daemon/ask/asks.h"
#include "daemon/ask/question.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/collect/redaction.h"
#include "daemon/collect/worker.h"
#include "daemon/config/config.h"
#include "daemon/disk/thread.h"
#include "daemon/export/choose.h"
#include "daemon/export/feed.h"
#include "daemon/export/target.h"
#include "daemon/host/machine.h"
#include "daemon/host/privileges.h"
#include "daemon/host/service_manager.h"
#include "daemon/host/watchdog.h"
#include "daemon/metering.h"
#include "daemon/net/listener.h"
#include "daemon/net/turnstile.h"
#include "daemon/programs/counter_clock.h"
#include "daemon/programs/taken_names.h"
#include "daemon/relay/courier_sink.h"
#include "daemon/relay/disk_sink.h"
#include "daemon/relay/relay.h"
#include "daemon/ring/thread_journal.h"
#include "daemon/sandbox_engine.h"
#include "daemon/serve/answers.h"
#include "daemon/serve/control.h"
#include "daemon/serve/dialler.h"
#include "daemon/serve/server.h"
#include "daemon/source/loader.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/fanout.h"
#include "daemon/stream/saved_subscriptions.h"
#include "daemon/trigger/dumps.h"
#include "daemon/trigger/rule.h"
#include "daemon/trigger/triggers.h"
#include "query/filter.h"

#define STOP_POLL_MS 2

/* In this order, and never back. */
enum engine_state {
	ENGINE_STARTING,	/* parts are made; no event of the loop has come yet */
	ENGINE_RUNNING,		/* all parts are there */
	ENGINE_EMPTYING,	/* told to stop: what the rings hold goes to the clients, and a Bye */
	ENGINE_FLUSHING,	/* they have that, and get a while to read it */
};

struct engine {
	int argc;
	char **argv;
	struct config config;
	struct account account;			/* whom the engine becomes */
	struct run run;
	uint64_t started_ns;

	struct activation activation;		/* what the service manager handed over */
	struct service_manager *manager;	/* NULL: none */
	struct saved_subscriptions *saved;
	struct thread_journal *threads;
	struct loader *loader;
	struct listener *programs_listener;	/* NULL: programs have no probes */
	bool counter;				/* the processor's counter is a clock for programs */
	struct taken_names taken;		/* which no program may have */
	struct programs *programs;
	unsigned listeners, agent_listeners;
	struct listener *listener[CONFIG_LISTEN_MAX];
	struct listener *agent_listener[CONFIG_LISTEN_MAX];
	struct listener *courier_listener;	/* NULL: this relay stores itself */
	struct event_base *base;
	struct turnstile *local, *remote;	/* the lines of those who come by unix socket, and else */
	struct frame_codec *codec;
	struct probe_table probes;
	struct redaction *redaction;		/* NULL: nothing is hidden */
	struct mailbox mailbox;
	unsigned workers;
	struct worker *worker[WORKERS_MAX];
	struct fanout *fanout;
	struct spooler *spooler;		/* NULL: nothing is kept on disk */
	struct consumers *consumers;
	uint32_t *cpu_of;			/* by ring */
	struct disk disk;			/* the state directory; without ops: none */
	struct disk_thread *disk_thread;	/* NULL: none */
	struct gate *gate;
	struct control *control;
	struct dumps *dumps;			/* NULL: there is no state directory */
	struct triggers *triggers;
	struct asks *asks;
	struct answers answers;
	struct server *server;
	struct dialler *dialler;		/* NULL: no relay is dialled */
	struct relay *relay;			/* NULL: this is none */
	struct watchdog *watchdog;
	struct metering *metering;	/* NULL: nobody wants it */
	struct export_targets targets;
	struct export_feed *exports;	/* NULL: nothing is exported */
	struct event *on_term, *on_int, *on_hup, *stop_poll;

	enum engine_state state;
	uint64_t stop_deadline_ns;
	bool always_on;			/* what is always on is recorded */
	bool handing_over;		/* at the stop: the next run goes on with these rings */
	bool failed;			/* the process's exit status */
	struct error refusal;		/* of what is always on, while it starts */
};

/* ---- Stopping -------------------------------------------------------------------------------- */

static void on_stop_poll(evutil_socket_t fd, short what, void *context)
{
	struct engine *engine = context;

	(void)fd, (void)what;
	if ((engine->state == ENGINE_FLUSHING && server_flush(engine->server) &&
	     export_feed_flush(engine->exports)) ||
	    clock_monotonic() > engine->stop_deadline_ns)
		event_base_loopbreak(engine->base);
}

static uint64_t flush_ns(const struct engine *engine)
{
	return engine->handing_over ? HANDOVER_NS : SHUTDOWN_NS;
}

static void on_emptied(void *context)
{
	struct engine *engine = context;

	engine->state = ENGINE_FLUSHING;
	engine->stop_deadline_ns = clock_monotonic() + flush_ns(engine);
}

static void stop(struct engine *engine, const char *reason)
{
	struct timeval interval = {.tv_usec = STOP_POLL_MS * 1000};

	if (engine->state >= ENGINE_EMPTYING)
		return;
	engine->state = ENGINE_EMPTYING;
	engine->handing_over =
		loader_keeps(engine->loader) && service_manager_stores(engine->manager);
	engine->stop_deadline_ns = clock_monotonic() + STOP_DRAIN_NS_MAX + flush_ns(engine);
	service_manager_notify(engine->manager, "STOPPING=1");
	watchdog_release_workers(engine->watchdog);
	log_info("stopping", "%s: %s", reason, engine->handing_over ?
		 "the kernel keeps recording for the next run of the daemon" : "draining the rings");
	if (engine->handing_over)
		fanout_hand_over(engine->fanout, reason, on_emptied, engine);
	else
		fanout_stop(engine->fanout, reason, on_emptied, engine);
	event_add(engine->stop_poll, &interval);
}

static void on_signal(evutil_socket_t number, short what, void *context)
{
	(void)what;
	stop(context, number == SIGINT ? "interrupted" : "shutting down");
}

static void on_loader_gone(void *context)
{
	struct engine *engine = context;

	engine->failed = true;
	stop(engine, "the loader ended");
}

/* ---- Ready: it serves, and what is always on is recorded ------------------------------------- */

static void tell_ready(struct engine *engine)
{
	if (engine->state == ENGINE_STARTING || !engine->always_on)
		return;
	log_info("ready", "ready: source %s, %u rings of %llu KiB, %zu probes",
		 loader_source_name(engine->loader), loader_rings(engine->loader),
		 (unsigned long long)engine->config.ring_bytes / 1024,
		 loader_catalog(engine->loader)->n_probe);
	service_manager_notify(engine->manager, "READY=1");
}

/* A daemon that cannot record what it is to record always does not pretend to run. */
static void take_first(struct engine *engine, const struct error *error)
{
	if (!error) {
		engine->always_on = true;
		tell_ready(engine);
	} else if (engine->state == ENGINE_STARTING) {
		engine->refusal = *error;
	} else if (engine->state == ENGINE_RUNNING) {
		log_failure(LOG_LEVEL_ERROR, error);
		engine->failed = true;
		stop(engine, "what is to be always on cannot be recorded");
	}
}

/* What is always on by the configuration, or why not: a control_config's `applied`. */
static void on_applied(void *context, const struct error *error)
{
	struct engine *engine = context;

	if (!engine->always_on) {
		take_first(engine, error);
		return;
	}
	if (error) {
		log_failure(LOG_LEVEL_ERROR, error);
		log_error("always-on-refused", "the daemon always records the same events as before; the rest of the"
			  " configuration is in force");
	} else {
		log_info("reloaded", "the configuration is in force");
	}
	service_manager_notify(engine->manager, "READY=1");
}

/* ---- Reloading ------------------------------------------------------------------------------- */

static struct viewer_bounds viewers_of(const struct engine *engine);

static void warn_fixed(const struct config *old, const struct config *new)
{
	char names[512];

	config_reload_ignored(old, new, names, sizeof(names));
	if (names[0])
		log_warn("reload-restart", "stays as it was until ringtaild is restarted: %s", names);
}

static int read_redaction(struct engine *engine, const struct config *config,
			  struct redaction **redaction, struct error *error);

/* 0: all three can be put in force. What takes a restart is checked, too: that would be no time
 * to find out. */
static int read_again(struct engine *engine, struct config *config, struct gate **gate,
		      struct redaction **redaction, struct error *error)
{
	int err = config_parse_args(engine->argc, engine->argv, config, error);

	if (!err)
		err = read_redaction(engine, config, redaction, error);
	if (!err)
		err = gate_create(config, gate, error);
	for (unsigned i = 0; !err && i < config->export_probe.count; i++)
		fanout_make_now(engine->fanout, config->export_probe.word[i]);
	if (!err)
		err = config_check_choice(&config->export_probe, "export-probe",
					  config->export_filter, "export-filter",
					  loader_catalog(engine->loader), error);
	if (!err)
		err = export_choose_check_spans(config, error);
	if (!err && engine->metering)
		err = metering_check(engine->metering, config, error);
	if (!err)
		err = triggers_check(engine->triggers, config, error);
	if (!err)
		err = asks_check(engine->asks, config, error);
	return err ? err : control_check_config(engine->control, config, error);
}

static void replace_redaction(struct engine *engine, struct redaction *redaction)
{
	for (unsigned i = 0; i < engine->workers; i++)
		worker_set_redaction(engine->worker[i], redaction);
	fanout_set_redaction(engine->fanout, redaction);
	redaction_destroy(engine->redaction);
	engine->redaction = redaction;
}

/* Takes over all three. */
static void put_in_force(struct engine *engine, const struct config *config, struct gate *gate,
			 struct redaction *redaction)
{
	struct server_bounds bounds = server_bounds_of(config);
	struct viewer_bounds viewers;
	struct error error = {0};

	warn_fixed(&engine->config, config);
	log_open(config->log_level);
	fanout_set_bounds(engine->fanout, config->history_bytes, config->history_age_ns,
			  config->queue_bytes, config->memory_bytes);
	engine->answers.queue_bytes = config->queue_bytes;
	engine->answers.batch_interval_ns = config->batch_interval_ns;
	gate_replace(engine->gate, gate);
	if (engine->relay)
		relay_judge(engine->relay);
	replace_redaction(engine, redaction);
	server_set_bounds(engine->server, &bounds);
	if (engine->metering)
		metering_reload(engine->metering, config);
	for (unsigned i = 0; i < engine->workers; i++)
		worker_set_batch_interval(engine->worker[i], config->batch_interval_ns);
	config_free(&engine->config);
	engine->config = *config;
	viewers = viewers_of(engine);
	fanout_set_viewers(engine->fanout, &viewers);
	if (triggers_set(engine->triggers, &engine->config, &error) != 0)
		log_failure(LOG_LEVEL_ERROR, &error);
	if (asks_set(engine->asks, &engine->config, &error) != 0)
		log_failure(LOG_LEVEL_ERROR, &error);
}

static void on_reload(evutil_socket_t fd, short what, void *context)
{
	struct engine *engine = context;
	struct redaction *redaction = NULL;
	struct gate *gate = NULL;
	struct error error = {0};
	struct config config;
	char text[64];

	(void)fd, (void)what;
	if (engine->state >= ENGINE_EMPTYING)
		return;
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)(clock_monotonic() / 1000));
	service_manager_notify(engine->manager, text);
	if (read_again(engine, &config, &gate, &redaction, &error) != 0) {
		log_failure(LOG_LEVEL_ERROR, &error);
		log_error("reload-refused", "the configuration was not changed");
		redaction_destroy(redaction);
		gate_destroy(gate);
		config_free(&config);
		service_manager_notify(engine->manager, "READY=1");
		return;
	}
	put_in_force(engine, &config, gate, redaction);
	if (control_set_config(engine->control, &engine->config, &error) != 0)
		on_applied(engine, &error);
}

/* ---- Parts: of the host, and before there is a loop ------------------------------------------ */

static int find_account(struct engine *engine, struct error *error)
{
	privileges_raise_descriptors();
	return privileges_find(engine->config.user, &engine->account, error);
}

static int take_from_manager(struct engine *engine, struct error *error)
{
	int err = activation_take(&engine->activation);

	if (err)
		return error_set(error, -err, "activation",
				 "cannot use the descriptors that the service manager passed: %s",
				 strerror(-err));
	engine->manager = service_manager_connect();
	engine->saved = saved_subscriptions_create(engine->manager, &engine->activation);
	return engine->saved ? 0 : error_set(error, ENOMEM, "out-of-memory", "out of memory");
}

static void leave_manager(struct engine *engine)
{
	saved_subscriptions_destroy(engine->saved);
	service_manager_close(engine->manager);
	activation_close(&engine->activation);
}

static int read_boot_id(struct engine *engine, struct error *error)
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
		engine->run.boot_id[digits / 2] |= (uint8_t)((at - hex) << (digits % 2 ? 0 : 4));
		digits++;
	}
	if (digits != 32)
		return error_set(error, EIO, "boot-id", "cannot read the kernel's boot_id");
	machine_read_id(NULL);
	engine->started_ns = clock_monotonic();
	return 0;
}

static int bind_addresses(struct engine *engine, struct error *error)
{
	const struct config_listen *listen = &engine->config.listen;

	for (; engine->listeners < listen->count; engine->listeners++) {
		const struct address *address = &listen->address[engine->listeners];
		struct listener **listener = &engine->listener[engine->listeners];
		int err = listener_adopt(&engine->activation, address, listener, error);

		if (!err && !*listener)
			err = listener_create(address, engine->account.uid, engine->account.gid,
					      listener, error);
		if (err)
			return err;
	}
	return listener_check_adopted(&engine->activation, error);
}

static void close_programs(struct engine *engine)
{
	listener_destroy(engine->programs_listener);
	engine->programs_listener = NULL;
}

static int bind_path(const struct engine *engine, const char *path, bool for_all, struct listener **listener,
		     struct error *error)
{
	char text[ADDRESS_TEXT_BYTES];
	struct address address;
	int err;

	snprintf(text, sizeof(text), "unix:%s", path);
	err = address_parse(text, &address, error);
	if (err)
		return err;
	return (for_all ? listener_create_for_all : listener_create)(&address, engine->account.uid,
								      engine->account.gid, listener, error);
}

static int bind_programs(struct engine *engine, struct error *error)
{
	if (!engine->config.programs)
		return 0;
	engine->counter = counter_is_clock();
	return bind_path(engine, engine->config.programs, true, &engine->programs_listener, error);
}

static int bind_agents(struct engine *engine, struct error *error)
{
	const struct config_listen *listen = &engine->config.listen_agents;
	int err = 0;

	if (engine->config.relay_courier && engine->config.relay_ack != CONFIG_RELAY_ACK_KAFKA)
		log_warn("relay-courier-unused", "relay-courier is not listened on: give relay-ack = kafka too");
	else if (engine->config.relay_courier)
		err = bind_path(engine, engine->config.relay_courier, false, &engine->courier_listener, error);

	while (!err && engine->agent_listeners < listen->count) {
		unsigned i = engine->agent_listeners;

		err = listener_create(&listen->address[i], engine->account.uid, engine->account.gid,
				      &engine->agent_listener[i], error);
		engine->agent_listeners += !err;
	}
	return err;
}

static void close_agents(struct engine *engine)
{
	while (engine->agent_listeners)
		listener_destroy(engine->agent_listener[--engine->agent_listeners]);
	listener_destroy(engine->courier_listener);
	engine->courier_listener = NULL;
}

static void close_addresses(struct engine *engine)
{
	while (engine->listeners)
		listener_destroy(engine->listener[--engine->listeners]);
}

static int read_targets(struct engine *engine, struct error *error)
{
	int err = export_targets_read(&engine->config, &engine->account, &engine->targets, error);

	if (!err && engine->targets.count)
		err = address_check_network("export", error);
	return err;
}

static void free_targets(struct engine *engine)
{
	export_targets_free(&engine->targets);
}

static int make_metering(struct engine *engine, struct error *error)
{
	if (!engine->config.http.socket_bytes && !export_targets_take_metrics(&engine->targets))
		return 0;
	return metering_create(&engine->config, engine->account.uid, engine->account.gid,
			       &engine->metering, error);
}

static void free_metering(struct engine *engine)
{
	metering_destroy(engine->metering);
}

static void join_table(void *context, const Ringtail__V1__Probe *probe)
{
	struct engine *engine = context;
	struct error error;

	/* Without its row, its records are not understood: better than that they show what is to be hidden. */
	if (redaction_add(engine->redaction, probe) != 0)
		log_error("out-of-memory", "no room for what `redact` hides of %s:%s:%s: its events are lost",
			  probe->provider, probe->function, probe->name);
	else if (probe_table_add(&engine->probes, probe, &error) != 0)
		log_failure(LOG_LEVEL_ERROR, &error);
}

/* What is read out of the catalog before there is a fanout. What cannot be made is refused there. */
static void make_configured(struct engine *engine)
{
	const struct config_words *const words[] = {&engine->config.metrics_probe,
						    &engine->config.export_probe};
	bool pending = false;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		for (unsigned j = 0; j < words[i]->count; j++) {
			struct error ignored;

			if (loader_can_make(engine->loader, words[i]->word[j]))
				loader_make_now(engine->loader, words[i]->word[j], &pending, &ignored);
		}
}

static int fork_loader(struct engine *engine, struct error *error)
{
	struct config *config = &engine->config;
	struct account account;
	struct source_config source = {
		.ring_bytes = config->ring_bytes,
		.policy = RT_POLICY_DROP,
		.path = config->source.path,
		.replay_fast = config->replay_pace == CONFIG_PACE_FAST,
		.account = &account,
	};
	struct loader_keeper keeper = {
		.activation = &engine->activation,
		.manager = engine->manager,
	};
	int err = privileges_find_loader(&engine->account, &account, error);

	if (!err)
		err = loader_start(config->source.name, &source, config->trace_self, &keeper,
				   &engine->loader, error);
	if (err)
		return err;
	if (service_manager_begin_store(engine->manager) != 0)
		log_warn("store-failed", "the service manager cannot be asked to keep the rings: a "
			 "restart may lose events");
	privileges_raise_priority();
	loader_on_made(engine->loader, join_table, engine);
	err = probe_table_init(&engine->probes, loader_catalog(engine->loader), error);
	if (!err)
		make_configured(engine);
	return err;
}

static bool join_program(void *context, Ringtail__V1__Probe *probe)
{
	return loader_join(((struct engine *)context)->loader, probe) == 0;
}

static bool is_awaited(void *context, const Ringtail__V1__Probe *probe)
{
	struct engine *engine = context;

	if (engine->control)
		control_take_probe(engine->control, probe);
	if (engine->server)
		server_made(engine->server);
	if (!engine->fanout || !fanout_take_late(engine->fanout, probe))
		return false;
	if (engine->exports)
		export_feed_take_late(engine->exports, probe);
	return true;
}

/* What the source has, or can make, is never a program's, by whichever of its names. */
static bool is_source_name(void *context, const char *provider)
{
	const struct engine *engine = context;

	return taken_names_has(&engine->taken, provider) || loader_can_make(engine->loader, provider);
}

static bool may_come(void *context, const char *provider)
{
	return !is_source_name(context, provider);
}

static int list_taken_names(struct engine *engine, struct error *error)
{
	Ringtail__V1__Catalog *offers = loader_offers(engine->loader);
	int err = taken_names_add(&engine->taken, loader_catalog(engine->loader));

	if (!err)
		err = taken_names_add(&engine->taken, offers);
	if (offers)
		ringtail__v1__catalog__free_unpacked(offers, NULL);
	return err ? error_set(error, ENOMEM, "out-of-memory", "out of memory") : 0;
}

/* Their ring is one more than the CPUs have, and has a number that no CPU has. */
static int make_programs(struct engine *engine, struct error *error)
{
	struct programs_config config = {
		.ring_bytes = engine->config.ring_bytes, .join = join_program, .is_awaited = is_awaited,
		.is_taken = is_source_name,
		.counter = engine->counter, .context = engine,
	};
	struct ring_handle ring;
	int err;

	if (!engine->programs_listener)
		return 0;
	for (unsigned i = 0; i < loader_rings(engine->loader); i++)
		if (loader_ring(engine->loader, i)->cpu >= config.cpu)
			config.cpu = loader_ring(engine->loader, i)->cpu + 1;
	err = list_taken_names(engine, error);
	if (!err)
		err = programs_create(&config, &engine->programs, error);
	if (err)
		return err;
	programs_describe(engine->programs, &ring);
	return loader_add_ring(engine->loader, &ring, error);
}

static void free_programs(struct engine *engine)
{
	programs_destroy(engine->programs);
	engine->programs = NULL;
	taken_names_free(&engine->taken);
}

static void end_loader(struct engine *engine)
{
	loader_stop(engine->loader);
}

static int give_up_rights(struct engine *engine, struct error *error)
{
	int err = sandbox_engine_view(&engine->config, &engine->account, error);

	return err ? err : privileges_drop(&engine->account, error);
}

static bool is_made(void *context, const char *glob)
{
	return loader_can_make(((struct engine *)context)->loader, glob);
}

static int read_redaction(struct engine *engine, const struct config *config,
			  struct redaction **redaction, struct error *error)
{
	return redaction_create(config->redact.word, config->redact.count,
				loader_catalog(engine->loader), is_made, engine, redaction, error);
}

static int make_redaction(struct engine *engine, struct error *error)
{
	return read_redaction(engine, &engine->config, &engine->redaction, error);
}

static void free_redaction(struct engine *engine)
{
	redaction_destroy(engine->redaction);
	engine->redaction = NULL;
}

static int make_gate(struct engine *engine, struct error *error)
{
	return gate_create(&engine->config, &engine->gate, error);
}

static void free_gate(struct engine *engine)
{
	gate_destroy(engine->gate);
}

/* ---- Parts: the loop, the disk, the workers -------------------------------------------------- */

static int make_loop(struct engine *engine, struct error *error)
{
	engine->base = loop_create();
	engine->codec = frame_codec_create(1);
	if (engine->base) {
		engine->local = turnstile_create(engine->base);
		engine->remote = turnstile_create(engine->base);
	}
	if (!engine->local || !engine->remote || !engine->codec ||
	    mailbox_init(&engine->mailbox) != 0)
		return error_set(error, ENOMEM, "out-of-memory", "cannot make the main loop");
	return 0;
}

static void free_loop(struct engine *engine)
{
	struct mail *mail = engine->mailbox.fd < 0 ? NULL : mailbox_take(&engine->mailbox), *next;

	for (; mail; mail = next) {
		next = mail->next;
		frame_ref_put(((struct worker_mail *)mail)->frame);
		free(mail);
	}
	mailbox_fini(&engine->mailbox);
	turnstile_destroy(engine->local);
	turnstile_destroy(engine->remote);
	if (engine->base)
		event_base_free(engine->base);
	frame_codec_destroy(engine->codec);
}

/* Without a state directory nothing can be kept, and nothing be changed; the rest works, if that is all. */
static int open_state(struct engine *engine, struct error *error)
{
	int err = disk_posix_open(engine->config.state_dir, &engine->disk, error);

	/* Two daemons in one directory would each take the other's files for what a dead one left. */
	if (err && (engine->config.durability != SPOOL_MEMORY || err == -EBUSY))
		return err;
	if (err) {
		log_failure(LOG_LEVEL_WARNING, error);
		*error = (struct error){0};
		return 0;
	}
	return disk_thread_create(engine->base, &engine->disk, true, &engine->disk_thread, error);
}

static void close_state(struct engine *engine)
{
	disk_thread_destroy(engine->disk_thread);
	if (engine->disk.ops)
		disk_posix_close(&engine->disk);
}

static int take_signals(struct engine *engine, struct error *error)
{
	signal(SIGPIPE, SIG_IGN);
	engine->on_term = evsignal_new(engine->base, SIGTERM, on_signal, engine);
	engine->on_int = evsignal_new(engine->base, SIGINT, on_signal, engine);
	engine->on_hup = evsignal_new(engine->base, SIGHUP, on_reload, engine);
	engine->stop_poll = event_new(engine->base, -1, EV_PERSIST, on_stop_poll, engine);
	if (!engine->on_term || !engine->on_int || !engine->on_hup || !engine->stop_poll ||
	    event_add(engine->on_term, NULL) != 0 || event_add(engine->on_int, NULL) != 0 ||
	    event_add(engine->on_hup, NULL) != 0)
		return error_set(error, ENOMEM, "out-of-memory", "cannot take signals");
	return 0;
}

/* A second signal changes nothing: without its event it would kill what still seals the spool and waits for the
 * loader. Threads that run on by then take none. */
static void leave_signals(struct engine *engine)
{
	struct event *event[] = {engine->on_term, engine->on_int, engine->on_hup, engine->stop_poll};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	for (unsigned i = 0; i < sizeof(event) / sizeof(event[0]); i++)
		if (event[i])
			event_free(event[i]);
}

static int open_journal(struct engine *engine, struct error *error)
{
	return thread_journal_open(&engine->activation, engine->manager, loader_rings(engine->loader),
				   loader_adopted(engine->loader), &engine->threads, error);
}

static void close_journal(struct engine *engine)
{
	thread_journal_close(engine->threads);
}

static int make_meters(struct engine *engine, unsigned rings, struct error *error)
{
	unsigned wanted = (unsigned)engine->config.workers;

	if (!engine->metering)
		return 0;
	return metering_prepare(engine->metering, &engine->config, loader_catalog(engine->loader),
				rings && rings < wanted ? rings : rings ? wanted : 1, error);
}

static int give_rings(struct engine *engine, unsigned rings, struct error *error)
{
	for (unsigned i = 0; i < rings; i++) {
		struct worker *worker = engine->worker[i % engine->workers];
		int err = worker_add_ring(worker, i, loader_ring(engine->loader, i), error);

		if (err)
			return err;
		worker_keep_threads(worker, i, thread_journal_ring(engine->threads, i));
	}
	return 0;
}

/* The numbers of the run before go on where all rings have them; else these are of a new epoch. */
static void choose_epoch(struct engine *engine)
{
	unsigned rings = loader_rings(engine->loader);
	bool same = loader_adopted(engine->loader) && rings;

	for (unsigned i = 0; i < rings; i++) {
		struct worker_baseline baseline = {0};

		worker_baseline(engine->worker[i % engine->workers], i, &baseline);
		same &= baseline.epoch && (!i || baseline.epoch == engine->run.epoch);
		engine->run.epoch = baseline.epoch;
	}
	if (!same)
		engine->run.epoch = clock_read(CLOCK_REALTIME);
	if (!same && loader_adopted(engine->loader))
		log_warn("restart-numbers", "the previous run left no event numbers of its rings: "
			 "clients cannot resume");
	for (unsigned i = 0; i < engine->workers; i++)
		worker_set_epoch(engine->worker[i], engine->run.epoch);
}

static int make_workers(struct engine *engine, struct error *error)
{
	unsigned rings = loader_rings(engine->loader), wanted = (unsigned)engine->config.workers;
	int err = make_meters(engine, rings, error);

	/* Without rings (an empty recording) there is still one, to say that it has read all of them. */
	while (!err && (!engine->workers || (engine->workers < wanted && engine->workers < rings))) {
		struct worker_config config = {
			.id = engine->workers,
			.batch_interval_ns = engine->config.batch_interval_ns,
			.probes = &engine->probes,
			.meter = engine->metering ? metering_meter(engine->metering,
								   engine->workers) : NULL,
			.out = &engine->mailbox,
		};

		/* Of the last ring, which give_rings() gives to that worker. */
		if (engine->programs && engine->workers == (rings - 1) % (wanted < rings ? wanted : rings))
			config.feed = (struct worker_feed){.pull = programs_pull, .context = engine->programs};

		err = worker_create(&config, &engine->worker[engine->workers], error);
		engine->workers += !err;
	}
	if (!err)
		err = give_rings(engine, rings, error);
	for (unsigned i = 0; engine->redaction && i < engine->workers; i++)
		worker_set_redaction(engine->worker[i], engine->redaction);
	if (!err)
		choose_epoch(engine);
	return err;
}

/* What the disk has still to answer is about what is there yet. */
static void end_workers(struct engine *engine)
{
	if (engine->disk_thread)
		disk_thread_settle(engine->disk_thread);
	while (engine->workers)
		worker_destroy(engine->worker[--engine->workers]);
}

/* ---- Parts: the record, and who gets it ------------------------------------------------------ */

/* Where frames of what is always on and of durable consumers are kept. */
static int open_spool(struct engine *engine, struct error *error)
{
	const struct config *config = &engine->config;
	struct spooler_config spooler = {
		.base = engine->base,
		.thread = engine->disk_thread,
		.durability = config->durability,
		.policy = config->spool_policy,
		.size_bytes = config->spool_bytes,
		.age_ns = config->spool_age_ns,
		.segment_bytes = config->spool_segment_bytes,
		.sync_interval_ns = config->spool_sync_interval_ns,
		.run = engine->run,
		.rings = loader_rings(engine->loader),
	};
	int err;

	if (config->durability == SPOOL_MEMORY)
		return 0;
	spooler.cpu_of = engine->cpu_of = calloc(spooler.rings + 1, sizeof(*engine->cpu_of));
	if (!engine->cpu_of)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	for (uint32_t i = 0; i < spooler.rings; i++)
		engine->cpu_of[i] = loader_ring(engine->loader, i)->cpu;
	err = spooler_create(&spooler, &engine->spooler, error);
	return err ? err : consumers_create(&engine->disk, engine->disk_thread, &engine->consumers,
					    error);
}

static void close_spool(struct engine *engine)
{
	consumers_destroy(engine->consumers);
	spooler_destroy(engine->spooler);
	/* Which still says to the disk thread what to write. */
	if (engine->disk_thread)
		disk_thread_settle(engine->disk_thread);
	free(engine->cpu_of);
}

/* What frames on disk begin with: as to a client, but that nobody's role is meant. */
static struct frame_ref *make_hello(void *context)
{
	const struct engine *engine = context;

	return answers_hello(&engine->answers, "");
}

static bool is_own_probe(const void *context, uint32_t uid, uint32_t probe)
{
	return programs_is_own(((const struct engine *)context)->programs, uid, probe);
}

static struct viewer_bounds viewers_of(const struct engine *engine)
{
	const struct config *config = &engine->config;

	return (struct viewer_bounds){
		.probe = &config->viewer_probe,
		.strings = config->viewer_strings,
		.stacks = config->viewer_stacks,
		.rate = config->viewer_rate,
		.subscriptions = config->viewer_subscriptions,
		.is_own = engine->programs ? is_own_probe : NULL,
		.context = engine,
	};
}

static void on_made(void *context)
{
	struct engine *engine = context;

	if (engine->server)
		server_made(engine->server);
}

static int make_fanout(struct engine *engine, struct error *error)
{
	struct fanout_config config = {
		.base = engine->base,
		.loader = engine->loader,
		.programs = engine->programs,
		.worker = engine->worker,
		.workers = engine->workers,
		.mailbox = &engine->mailbox,
		.codec = engine->codec,
		.run = engine->run,
		.history_bytes = engine->config.history_bytes,
		.history_age_ns = engine->config.history_age_ns,
		.queue_bytes = engine->config.queue_bytes,
		.memory_bytes = engine->config.memory_bytes,
		.viewers = viewers_of(engine),
		.spooler = engine->spooler,
		.dials_relay = engine->config.relay.count > 0,
		.consumers = engine->consumers,
		.hello = make_hello,
		.saved = engine->manager ? engine->saved : NULL,
		.file_strings = engine->config.export_strings,
		.made = on_made,
		.failed = on_loader_gone,
		.context = engine,
	};
	int err;

	engine->answers = (struct answers){
		.codec = engine->codec,
		.loader = engine->loader,
		.worker = engine->worker,
		.workers = engine->workers,
		.run = engine->run,
		.started_ns = engine->started_ns,
		.queue_bytes = engine->config.queue_bytes,
		.batch_interval_ns = engine->config.batch_interval_ns,
		.spooler = engine->spooler,
		.programs = engine->programs,
	};
	err = fanout_create(&config, &engine->fanout, error);
	engine->answers.fanout = engine->fanout;
	if (!err)
		fanout_set_redaction(engine->fanout, engine->redaction);
	if (!err && loader_adopted(engine->loader))
		err = fanout_restore(engine->fanout, error);
	return err ? err : fanout_restore_consumers(engine->fanout, error);
}

static void free_fanout(struct engine *engine)
{
	fanout_destroy(engine->fanout);
}

static int open_dumps(struct engine *engine, struct error *error)
{
	return engine->disk_thread ? dumps_create(engine->disk_thread, engine->config.dump_bytes,
						  engine->config.dump_count, &engine->dumps, error) : 0;
}

static void close_dumps(struct engine *engine)
{
	if (engine->disk_thread)
		disk_thread_settle(engine->disk_thread);
	dumps_destroy(engine->dumps);
}

static struct frame_ref *on_stat_wanted(void *context)
{
	return server_stat_frame(((struct engine *)context)->server);
}

static int make_control(struct engine *engine, struct error *error)
{
	struct control_config config = {
		.base = engine->base,
		.gate = engine->gate,
		.fanout = engine->fanout,
		.codec = engine->codec,
		.catalog = loader_catalog(engine->loader),
		.disk_thread = engine->disk_thread,
		.dumps = engine->dumps,
		.stat = on_stat_wanted,
		.applied = on_applied,
		.may_come = engine->programs ? may_come : NULL,
		.context = engine,
	};
	int err = control_create(&config, &engine->control, error);

	if (!err && engine->disk_thread)
		err = control_load(engine->control, &engine->disk, error);
	if (!err)
		err = control_set_config(engine->control, &engine->config, error);
	if (err || !engine->refusal.code[0])
		return err;
	*error = engine->refusal;
	return -ECANCELED;
}

/* Nothing that it asked of the disk may be under way. */
static void free_control(struct engine *engine)
{
	control_settle(engine->control);
	if (engine->disk_thread)
		disk_thread_settle(engine->disk_thread);
	control_destroy(engine->control);
	engine->control = NULL;
}

/* Rules need what is always on, and are asked for before anything is read. */
static int start_triggers(struct engine *engine, struct error *error)
{
	struct triggers_config config = {
		.base = engine->base,
		.fanout = engine->fanout,
		.dumps = engine->dumps,
		.disk_thread = engine->disk_thread,
		.audit = control_audit(engine->control),
		.codec = engine->codec,
		.catalog = loader_catalog(engine->loader),
		.run = engine->run,
		.hello = make_hello,
		.hello_context = engine,
		.may_connect = sandbox_engine_connects(&engine->config),
	};
	int err;

	engine->triggers = triggers_create(&config);
	if (!engine->triggers)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	engine->answers.triggers = engine->triggers;
	err = triggers_check(engine->triggers, &engine->config, error);
	return err ? err : triggers_set(engine->triggers, &engine->config, error);
}

static void end_triggers(struct engine *engine)
{
	engine->answers.triggers = NULL;
	triggers_destroy(engine->triggers);
}

static int start_asks(struct engine *engine, struct error *error)
{
	struct asks_config config = {
		.watch = {.base = engine->base, .fanout = engine->fanout, .codec = engine->codec,
			  .catalog = loader_catalog(engine->loader)},
		.told = engine->metering != NULL,
	};
	int err;

	engine->asks = asks_create(&config);
	if (!engine->asks)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	err = asks_check(engine->asks, &engine->config, error);
	return err ? err : asks_set(engine->asks, &engine->config, error);
}

static void end_asks(struct engine *engine)
{
	asks_destroy(engine->asks);
	engine->asks = NULL;
}

static void tell_answers(void *context, struct metric_builder *builder)
{
	asks_tell(((struct engine *)context)->asks, builder);
}

/* What the run before was asked for goes on without a gap, so it is there before anything is read. */
static int start_reading(struct engine *engine, struct error *error)
{
	int err = 0;

	if (loader_adopted(engine->loader)) {
		if (engine->disk_thread)
			disk_thread_settle(engine->disk_thread);
		err = fanout_adopt(engine->fanout, error);
	}
	for (unsigned i = 0; i < engine->workers && !err; i++)
		err = worker_start(engine->worker[i], error);
	return err;
}

static void on_relay_left(void *context)
{
	dialler_again(((struct engine *)context)->dialler);
}

static int on_dial(void *context, const uint8_t token[16], const char *client, struct error *error)
{
	return dialler_dial_back(((struct engine *)context)->dialler, token, client, error);
}

static int start_server(struct engine *engine, struct error *error)
{
	struct server_config config = {
		.base = engine->base,
		.answers = &engine->answers,
		.gate = engine->gate,
		.control = engine->control,
		.codec = engine->codec,
		.turnstile = engine->remote,
		.bounds = server_bounds_of(&engine->config),
		.dumps = engine->dumps,
		.disk_thread = engine->disk_thread,
		.relay_left = on_relay_left,
		.dial = on_dial,
		.context = engine,
		.relay_role = engine->config.relay_role == CONFIG_RELAY_OPERATOR ? ROLE_OPERATOR :
										   ROLE_VIEWER,
	};

	engine->server = server_create(&config);
	if (!engine->server)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	for (unsigned i = 0; i < engine->listeners; i++) {
		/* Those on this host never wait for those who come over the network. */
		bool is_local = address_is_unix(&engine->config.listen.address[i]);
		int err = listener_start(engine->listener[i], engine->base,
					 is_local ? engine->local : engine->remote, server_accept,
					 engine->server, error);

		if (err)
			return err;
		log_info("listening", "listening on %s", listener_text(engine->listener[i]));
	}
	return 0;
}

static int accept_programs(struct engine *engine, struct error *error)
{
	if (!engine->programs)
		return 0;
	programs_start(engine->programs, engine->base, engine->local);
	return listener_start(engine->programs_listener, engine->base, engine->local, programs_accept,
			      engine->programs, error);
}

static void end_server(struct engine *engine)
{
	close_addresses(engine);
	server_destroy(engine->server);
}

/* ---- Parts: the fleet: as an agent, as a relay ------------------------------------------------ */

/* What was kept for a relay that is not configured any more is kept for ever, until it is said. */
static void tell_left_relay(void *context, const struct consumer_stat *consumer)
{
	(void)context;
	if (strcmp(consumer->name, CONSUMER_RELAY) == 0)
		log_warn("relay-unused", "the durable consumer " CONSUMER_RELAY " is kept for a relay, and none is"
			 " configured any more; give it up with `tracectl forget " CONSUMER_RELAY "`");
}

static int start_dialling(struct engine *engine, struct error *error)
{
	struct dialler_config config = {
		.base = engine->base,
		.server = engine->server,
		.codec = engine->codec,
		.config = &engine->config,
	};

	if (engine->config.relay.count)
		return dialler_create(&config, &engine->dialler, error);
	fanout_each_consumer(engine->fanout, tell_left_relay, NULL);
	return 0;
}

static void end_dialling(struct engine *engine)
{
	dialler_destroy(engine->dialler);
	engine->dialler = NULL;
}

static int make_disk_sink(struct engine *engine, struct relay_sink **sink, struct error *error)
{
	struct disk_sink_config config = {
		.base = engine->base,
		.thread = engine->disk_thread,
		.host_bytes = engine->config.host_bytes,
		.hosts_bytes = engine->config.hosts_bytes,
		.segment_bytes = engine->config.spool_segment_bytes,
	};

	/* So that giving up a segment never gives up most of what there is. */
	if (config.segment_bytes > config.host_bytes / 4)
		config.segment_bytes = config.host_bytes / 4;
	if (engine->disk_thread)
		return disk_sink_create(&config, sink, error);
	error_set(error, EINVAL, "relay-no-state", "a relay needs a state directory, and there is none");
	error_hint(error, "give --state-dir DIR, which the daemon's user can write");
	return -EINVAL;
}

static int make_courier_sink(struct engine *engine, struct relay_sink **sink, struct error *error)
{
	struct courier_sink_config config = {
		.base = engine->base,
		.gate = engine->gate,
		.codec = engine->codec,
		.hello_timeout_ns = engine->config.hello_timeout_ns,
	};
	int err = courier_sink_create(&config, sink, error);

	if (err)
		return err;
	err = listener_start(engine->courier_listener, engine->base, engine->local, courier_sink_accept, *sink,
			     error);
	if (err)
		relay_sink_destroy(*sink);
	else
		log_info("listening-courier", "waiting for a courier at %s", engine->config.relay_courier);
	return err;
}

static int start_relay(struct engine *engine, struct error *error)
{
	struct relay_config config = {
		.base = engine->base,
		.gate = engine->gate,
		.turnstile = engine->remote,
		.agents_max = (unsigned)engine->config.agents_max,
		.hello_timeout_ns = engine->config.hello_timeout_ns,
		.silence_timeout_ns = engine->config.silence_timeout_ns,
	};
	int err;

	if (!engine->agent_listeners)
		return 0;
	if (engine->courier_listener)
		err = make_courier_sink(engine, &config.sink, error);
	else
		err = make_disk_sink(engine, &config.sink, error);
	if (!err)
		err = relay_create(&config, &engine->relay, error);
	engine->answers.relay = engine->relay;
	for (unsigned i = 0; !err && i < engine->agent_listeners; i++) {
		err = listener_start(engine->agent_listener[i], engine->base, engine->remote,
				     relay_accept, engine->relay, error);
		if (!err)
			log_info("listening-agents", "listening for agents on %s",
				 listener_text(engine->agent_listener[i]));
	}
	return err;
}

static void end_relay(struct engine *engine)
{
	close_agents(engine);
	engine->answers.relay = NULL;
	relay_destroy(engine->relay);
	engine->relay = NULL;
}

/* ---- Parts: metrics, back ends, and who watches ---------------------------------------------- */

static int start_metering(struct engine *engine, struct error *error)
{
	struct metering_start start = {
		.base = engine->base,
		.turnstile = engine->remote,
		.fanout = engine->fanout,
		.codec = engine->codec,
		.gate = engine->gate,
		.run = engine->run,
		.stat = server_stat,
		.context = engine->server,
		.tell = tell_answers,
		.tell_context = engine,
	};

	return engine->metering ? metering_start(engine->metering, &engine->config, &start, error)
				: 0;
}

static void stop_metering(struct engine *engine)
{
	metering_stop(engine->metering);
}

static const struct metric_snapshot *snapshot_of(void *context)
{
	return metric_source_take(metering_source(((struct engine *)context)->metering));
}

/* What was kept for an export that is gone, or has another URL now, is kept for ever, until it is said. */
static void tell_left_export(void *context, const struct consumer_stat *consumer)
{
	const struct engine *engine = context;

	if (!consumer->exporter)
		return;
	for (unsigned i = 0; i < engine->targets.count; i++)
		if (strcmp(engine->targets.target[i].consumer, consumer->name) == 0)
			return;
	log_warn("export-left", "%s is kept for an export that is not configured any more; give it up"
		 " with `tracectl forget %s`", consumer->name, consumer->name);
}

static int start_exports(struct engine *engine, struct error *error)
{
	struct export_feed_config config = {
		.base = engine->base,
		.fanout = engine->fanout,
		.loader = engine->loader,
		.codec = engine->codec,
		.run = engine->run,
		.config = &engine->config,
		.targets = &engine->targets,
		.spooled = engine->config.durability != SPOOL_MEMORY,
		.snapshot = snapshot_of,
		.context = engine,
	};
	int err = 0;

	/* How much of what they asked for before is not sent yet is known once its spools are open. */
	if (engine->targets.count && config.spooled)
		disk_thread_settle(engine->disk_thread);
	if (engine->targets.count)
		err = export_feed_create(&config, &engine->exports, error);
	engine->answers.exports = engine->exports;
	if (!err)
		fanout_each_consumer(engine->fanout, tell_left_export, engine);
	return err;
}

static void end_exports(struct engine *engine)
{
	engine->answers.exports = NULL;
	export_feed_destroy(engine->exports);
}

static uint64_t worker_beats_of(void *context, unsigned i)
{
	const struct engine *engine = context;

	return worker_beats(engine->worker[i]);
}

static void tell_watchdog(void *context)
{
	service_manager_notify(((struct engine *)context)->manager, "WATCHDOG=1");
}

static int start_watchdog(struct engine *engine, struct error *error)
{
	struct watchdog_config config = {
		.base = engine->base,
		.workers = engine->workers,
		.beats = worker_beats_of,
		.tell = tell_watchdog,
		.context = engine,
	};

	return watchdog_create(&config, &engine->watchdog, error);
}

static void end_watchdog(struct engine *engine)
{
	watchdog_destroy(engine->watchdog);
}

static int limit_calls(struct engine *engine, struct error *error)
{
	return sandbox_engine_calls(&engine->config, loader_pid(engine->loader), error);
}

/* ---- What a start would find out ------------------------------------------------------------- */

static int check_exports(const struct config *config, const struct account *account,
			 struct error *error)
{
	char filter[FILTER_BYTES_MAX + 1];
	struct export_targets targets;
	int err = export_targets_read(config, account, &targets, error);

	if (err)
		return err;
	export_targets_free(&targets);
	err = config_check_choice(&config->export_probe, "export-probe", config->export_filter,
				  "export-filter", NULL, error);
	if (!err)
		err = export_choose_check_spans(config, error);
	return err ? err : export_choose_request(config, filter, error);
}

int engine_check(const struct config *config, struct error *error)
{
	struct account account;
	int err = privileges_find(config->user, &account, error);

	if (!err)
		err = check_exports(config, &account, error);
	if (!err)
		err = config_check_choice(&config->probe, "probe", config->filter, "filter", NULL,
					  error);
	if (!err)
		err = redaction_check(config->redact.word, config->redact.count, error);
	if (!err)
		err = dialler_check(config, error);
	if (!err)
		err = config_check_choice(&config->metrics_probe, "metrics-probe", NULL, NULL, NULL,
					  error);
	if (!err)
		err = trigger_rules_check(&config->on, NULL, error);
	return err ? err : ask_questions_check(&config->ask, NULL, error);
}

/* ---- The order ------------------------------------------------------------------------------- */

static const struct engine_part engine_parts[] = {
	{"account",	find_account,		NULL},
	{"manager",	take_from_manager,	leave_manager},
	{"boot",	read_boot_id,		NULL},
	/* Addresses first: that one is taken is quick to find out, and loading takes a while; who
	 * connects meanwhile waits. */
	{"addresses",	bind_addresses,		close_addresses},
	{"programs",	bind_programs,		close_programs},
	{"agents",	bind_agents,		close_agents},
	{"targets",	read_targets,		free_targets},
	{"metering",	make_metering,		free_metering},
	/* The loader is forked before there is a thread or a loop. */
	{"loader",	fork_loader,		end_loader},
	{"rights",	give_up_rights,		NULL},
	{"redaction",	make_redaction,		free_redaction},
	{"gate",	make_gate,		free_gate},
	{"loop",	make_loop,		free_loop},
	{"state",	open_state,		close_state},
	{"signals",	take_signals,		leave_signals},
	{"program ring",	make_programs,		free_programs},
	{"journal",	open_journal,		close_journal},
	{"workers",	make_workers,		end_workers},
	{"spool",	open_spool,		close_spool},
	{"fanout",	make_fanout,		free_fanout},
	{"dumps",	open_dumps,		close_dumps},
	{"control",	make_control,		free_control},
	{"triggers",	start_triggers,		end_triggers},
	{"asks",	start_asks,		end_asks},
	/* Workers end before what they read for, fanout's subscriptions, is freed. */
	{"reading",	start_reading,		end_workers},
	{"server",	start_server,		end_server},
	{"program door",	accept_programs,	close_programs},
	{"relay",	start_relay,		end_relay},
	{"dialler",	start_dialling,		end_dialling},
	{"status",	start_metering,		stop_metering},
	{"exports",	start_exports,		end_exports},
	{"watchdog",	start_watchdog,		end_watchdog},
	/* What is left to do takes few system calls: from here on others are the end. */
	{"calls",	limit_calls,		NULL},
};

#define PARTS (sizeof(engine_parts) / sizeof(engine_parts[0]))

int engine_parts_start(const struct engine_part *part, size_t n, struct engine *engine,
		       struct error *error)
{
	for (size_t i = 0; i < n; i++) {
		int err = part[i].start(engine, error);

		if (err) {
			log_debug("part-failed", "%s does not start", part[i].name);
			engine_parts_stop(part, i + 1, engine);
			return err;
		}
	}
	return 0;
}

void engine_parts_stop(const struct engine_part *part, size_t n, struct engine *engine)
{
	while (n--)
		if (part[n].stop)
			part[n].stop(engine);
}

int engine_run(struct config *config, int argc, char **argv)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	struct error error = {0};
	int status = EXIT_FAILURE;

	if (!engine) {
		fputs("ringtaild: out of memory\n", stderr);
		config_free(config);
		return EXIT_FAILURE;
	}
	engine->argc = argc;
	engine->argv = argv;
	engine->config = *config;
	engine->mailbox.fd = -1;
	log_open(engine->config.log_level);
	if (engine_parts_start(engine_parts, PARTS, engine, &error) != 0) {
		log_failure(LOG_LEVEL_ERROR, &error);
	} else {
		engine->state = ENGINE_RUNNING;
		tell_ready(engine);
		event_base_dispatch(engine->base);
		engine_parts_stop(engine_parts, PARTS, engine);
		status = engine->failed ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	config_free(&engine->config);
	log_close();
	free(engine);
	return status;
}
