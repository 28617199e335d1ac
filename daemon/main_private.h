/*
 * main_private: the daemon as a whole, known to main*.c alone: main.c runs it, main_start.c makes its
 * parts, main_signals.c stops and reloads it. Main thread.
 */
#ifndef RINGTAIL_DAEMON_MAIN_PRIVATE_H
#define RINGTAIL_DAEMON_MAIN_PRIVATE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/activation.h"
#include "daemon/serve/control.h"
#include "daemon/base/clock.h"
#include "daemon/config/config.h"
#include "daemon/config/reload.h"
#include "daemon/stream/consumers.h"
#include "daemon/serve/answers.h"
#include "daemon/disk/thread.h"
#include "daemon/export/feed.h"
#include "daemon/stream/fanout.h"
#include "daemon/access/gate.h"
#include "daemon/base/limits.h"
#include "daemon/net/listener.h"
#include "daemon/net/turnstile.h"
#include "daemon/source/loader.h"
#include "daemon/base/log.h"
#include "daemon/metering.h"
#include "daemon/metrics/source.h"
#include "daemon/host/machine.h"
#include "daemon/host/privileges.h"
#include "daemon/stream/saved_subscriptions.h"
#include "daemon/sandbox_engine.h"
#include "daemon/serve/server.h"
#include "daemon/host/service_manager.h"
#include "daemon/spool/spool.h"
#include "daemon/ring/thread_journal.h"
#include "daemon/host/watchdog.h"
#include "daemon/collect/worker.h"

struct daemon {
	int argc;
	char **argv;
	struct config config;
	struct run run;
	uint64_t started_ns;

	struct activation activation;		/* what the service manager handed over */
	struct service_manager *manager;	/* NULL: none */
	struct saved_subscriptions *saved;
	struct thread_journal *threads;
	struct loader *loader;
	unsigned listeners;
	struct listener *listener[CONFIG_LISTEN_MAX];
	struct event_base *base;
	struct turnstile *local, *remote;	/* the lines of those who come by unix socket, and else */
	struct frame_codec *codec;
	struct probe_table probes;
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
	struct answers answers;
	struct server *server;
	struct watchdog *watchdog;
	struct metering *metering;	/* NULL: nobody wants it */
	struct export_targets targets;
	struct export_feed *exports;	/* NULL: nothing is exported */
	struct event *on_term, *on_int, *on_hup, *stop_poll;

	bool failed, stopping, handing_over, drained;
	bool started, always_on;	/* all parts are there; what is always on is recorded */
	struct error refusal;		/* of what is always on, during main_start() */
	uint64_t stop_deadline_ns;
};

struct fanout_viewers main_viewers_of(const struct config *config);

/* How long an event may wait for its batch. */
static inline uint64_t main_batch_interval(const struct config *config)
{
	return config->low_latency ? 1000000 : config->batch_interval_ns;
}

/* Makes every part, in order. What is there on failure main.c's finish() takes apart. */
int main_start(struct daemon *daemon, struct error *error);

/* SIGTERM and SIGINT stop it, SIGHUP reloads it. */
int main_start_signals(struct daemon *daemon, struct error *error);

/* What is always on by the configuration, or why not: a struct control_config's `applied`. */
void main_on_applied(void *context, const struct error *error);

/* Says so once it serves and records. */
void main_tell_ready(struct daemon *daemon);

/* A fanout's `failed`: the loader is gone, and the daemon follows it. */
void main_on_failed(void *context);

#endif
