/*
 * main_signals: the end of the daemon, orderly, and a new configuration while it runs. Main thread.
 */
#include "daemon/main_private.h"

#include <signal.h>
#include <stdio.h>

#include "daemon/config/choice.h"

#define STOP_POLL_MS 2

/* ---- Stopping -------------------------------------------------------------------------------- */

/* Once clients have what the rings held, and a Bye, they get a while to take it. */
static void on_stop_poll(evutil_socket_t fd, short what, void *context)
{
	struct daemon *daemon = context;

	(void)fd, (void)what;
	if ((daemon->drained && server_flush(daemon->server) &&
	     export_feed_flush(daemon->exports)) ||
	    clock_monotonic() > daemon->stop_deadline_ns)
		event_base_loopbreak(daemon->base);
}

static void on_stopped(void *context)
{
	struct daemon *daemon = context;

	daemon->drained = true;
	daemon->stop_deadline_ns =
		clock_monotonic() + (daemon->handing_over ? HANDOVER_NS : SHUTDOWN_NS);
}

static void stop(struct daemon *daemon, const char *reason)
{
	struct timeval interval = {.tv_usec = STOP_POLL_MS * 1000};
	if (daemon->stopping)
		return;
	daemon->stopping = true;
	daemon->handing_over =
		loader_keeps(daemon->loader) && service_manager_stores(daemon->manager);
	daemon->stop_deadline_ns =
		clock_monotonic() + STOP_DRAIN_NS_MAX +
		(daemon->handing_over ? HANDOVER_NS : SHUTDOWN_NS);
	service_manager_notify(daemon->manager, "STOPPING=1");
	watchdog_release_workers(daemon->watchdog);
	log_info("stopping", "%s: %s", reason, daemon->handing_over ?
		 "the kernel records on, for the run that comes next" : "draining the rings");
	if (daemon->handing_over)
		fanout_hand_over(daemon->fanout, reason, on_stopped, daemon);
	else
		fanout_stop(daemon->fanout, reason, on_stopped, daemon);
	event_add(daemon->stop_poll, &interval);
}

static void on_signal(evutil_socket_t number, short what, void *context)
{
	(void)what;
	stop(context, number == SIGINT ? "interrupted" : "shutting down");
}

void main_on_failed(void *context)
{
	struct daemon *daemon = context;

	daemon->failed = true;
	stop(daemon, "the loader ended");
}

void main_tell_ready(struct daemon *daemon)
{
	if (!daemon->started || !daemon->always_on)
		return;
	log_info("ready", "ready: source %s, %u rings of %llu KiB, %zu probes",
		 loader_source_name(daemon->loader), loader_rings(daemon->loader),
		 (unsigned long long)daemon->config.ring_bytes / 1024,
		 loader_catalog(daemon->loader)->n_probe);
	service_manager_notify(daemon->manager, "READY=1");
}

/* A daemon that cannot record what it is to record always does not pretend to run. */
static void take_first(struct daemon *daemon, const struct error *error)
{
	if (!error) {
		daemon->always_on = true;
		main_tell_ready(daemon);
	} else if (!daemon->started) {
		daemon->refusal = *error;
	} else if (!daemon->stopping) {
		log_failure(LOG_LEVEL_ERROR, error);
		daemon->failed = true;
		stop(daemon, "what is to be always on cannot be recorded");
	}
}

void main_on_applied(void *context, const struct error *error)
{
	struct daemon *daemon = context;

	if (!daemon->always_on) {
		take_first(daemon, error);
		return;
	}
	if (error) {
		log_failure(LOG_LEVEL_ERROR, error);
		log_error("always-on-refused", "what is always on stays as it was; the rest of the"
			  " configuration is in force");
	} else {
		log_info("reloaded", "the configuration is in force");
	}
	service_manager_notify(daemon->manager, "READY=1");
}

/* ---- Reloading ------------------------------------------------------------------------------- */

static void warn_fixed(const struct config *old, const struct config *new)
{
	char names[512];

	config_reload_ignored(old, new, names, sizeof(names));
	if (names[0])
		log_warn("reload-restart", "stays as it was until ringtaild is restarted: %s", names);
}

/* What takes a restart: that would be no time to find out. */
static int check_exports(const struct daemon *daemon, const struct config *config,
			 struct error *error)
{
	return config_check_choice(&config->export_probe, "export-probe", config->export_filter,
				   "export-filter", loader_catalog(daemon->loader), error);
}

static void on_reload(evutil_socket_t fd, short what, void *context)
{
	struct daemon *daemon = context;
	struct gate *gate = NULL;
	struct server_bounds bounds;
	struct fanout_viewers viewers;
	struct error error = {0};
	struct config config;
	char text[64];

	(void)fd, (void)what;
	if (daemon->stopping)
		return;
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)(clock_monotonic() / 1000));
	service_manager_notify(daemon->manager, text);
	if (config_parse_args(daemon->argc, daemon->argv, &config, &error) != 0 ||
	    gate_create(&config, &gate, &error) != 0 ||
	    check_exports(daemon, &config, &error) != 0 ||
	    (daemon->metering && metering_check(daemon->metering, &config, &error) != 0) ||
	    control_check_config(daemon->control, &config, &error) != 0) {
		log_failure(LOG_LEVEL_ERROR, &error);
		log_error("reload-refused", "the configuration stays as it was");
		gate_destroy(gate);
		config_free(&config);
		service_manager_notify(daemon->manager, "READY=1");
	} else {
		warn_fixed(&daemon->config, &config);
		log_open(config.log_level);
		fanout_set_bounds(daemon->fanout, config.history_bytes, config.history_age_ns,
				  config.queue_bytes, config.memory_bytes);
		daemon->answers.queue_bytes = config.queue_bytes;
		gate_replace(daemon->gate, gate);
		bounds = server_bounds_of(&config);
		server_set_bounds(daemon->server, &bounds);
		if (daemon->metering)
			metering_reload(daemon->metering, &config);
		for (unsigned i = 0; i < daemon->workers; i++)
			worker_set_batch_interval(daemon->worker[i], main_batch_interval(&config));
		daemon->answers.batch_interval_ns = main_batch_interval(&config);
		config_free(&daemon->config);
		daemon->config = config;
		viewers = main_viewers_of(&daemon->config);
		fanout_set_viewers(daemon->fanout, &viewers);
		if (control_set_config(daemon->control, &daemon->config, &error) != 0)
			main_on_applied(daemon, &error);
	}
}

int main_start_signals(struct daemon *daemon, struct error *error)
{
	signal(SIGPIPE, SIG_IGN);
	daemon->on_term = evsignal_new(daemon->base, SIGTERM, on_signal, daemon);
	daemon->on_int = evsignal_new(daemon->base, SIGINT, on_signal, daemon);
	daemon->on_hup = evsignal_new(daemon->base, SIGHUP, on_reload, daemon);
	daemon->stop_poll = event_new(daemon->base, -1, EV_PERSIST, on_stop_poll, daemon);
	if (!daemon->on_term || !daemon->on_int || !daemon->on_hup || !daemon->stop_poll ||
	    event_add(daemon->on_term, NULL) != 0 || event_add(daemon->on_int, NULL) != 0 ||
	    event_add(daemon->on_hup, NULL) != 0)
		return error_set(error, ENOMEM, "out-of-memory", "cannot take signals");
	return 0;
}
