#include "daemon/export/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/export/ack.h"
#include "daemon/export/choose.h"
#include "daemon/export/thread.h"
#include "daemon/base/log.h"
#include "daemon/config/config.h"
#include "daemon/stream/stream.h"

#define PULL_NAP_MS 100		/* where memory was short */

/* A frame that the export thread has, or that is in its queue. */
struct given {
	STAILQ_ENTRY(given) link;
	uint64_t serial;
	struct frame_ref *frame;	/* NULL: it is taken apart */
	struct export_place place;	/* once it is dealt with */
};

/* One destination. */
struct outlet {
	struct export_feed *feed;
	unsigned number;
	struct subscriber subscriber;
	struct stream *stream;
	STAILQ_HEAD(, given) given;
	struct given *next;		/* the oldest that is not taken apart; NULL: all are */
	unsigned undecoded;
	uint64_t serial;
	uint64_t events;		/* given, and those that never came */
	uint64_t lost[LOSS_STAGES][LOSS_REASONS];
	uint64_t gaps;			/* of no known size */
	struct export_counts counts;	/* as of the last report */
	struct export_ack *ack;
	struct event *timer;		/* metrics: the next snapshot; events: another pull */
	bool told;			/* the last look at the stream turned up gaps */
};

struct export_feed {
	struct export_feed_config config;
	struct export_host *host;
	uint64_t interval_ns, queue_bytes_max;
	char *ca_file;
	struct mailbox reports;
	struct event *on_reports;
	struct export_thread *thread;
	bool flushing;
	struct outlet outlet[EXPORTS_MAX];
};

static const struct export_kind *kind_of(const struct outlet *outlet)
{
	return outlet->feed->config.targets->target[outlet->number].kind;
}

static void set_timer(struct outlet *outlet, uint64_t ns)
{
	struct timeval after = {(time_t)(ns / NS_PER_S), (suseconds_t)(ns % NS_PER_S / 1000)};

	event_add(outlet->timer, &after);
}

/* ---- Frames to the export thread ------------------------------------------------------------- */

static bool has_room(const struct outlet *outlet)
{
	const struct export_feed *feed = outlet->feed;

	return outlet->undecoded < EXPORT_FRAMES_MAX &&
	       (!feed->config.spooled ||
		(outlet->counts.queued_bytes < feed->queue_bytes_max &&
		 outlet->serial - outlet->counts.settled_frame <
			 EXPORT_FRAMES_UNSETTLED_MAX - EXPORT_FRAMES_MAX));
}

/*
 * Events that will not come: how many, or at most so many, where only the attempts are known; and where
 * nothing is known of their number, as between two runs of the rings, that there was such a gap.
 */
static void count_gap(struct outlet *outlet, const struct frame_ref *frame)
{
	const struct loss_count *loss = &frame->loss[0];

	outlet->events += loss->count;
	outlet->lost[loss->stage][loss->reason] += loss->count;
	outlet->gaps += !loss->count;
}

/* NULL: no memory, the frame stays where it is. */
static struct given *give(struct outlet *outlet, struct frame_ref *frame)
{
	struct given *given = calloc(1, sizeof(*given));

	if (!given)
		return NULL;
	given->serial = outlet->serial + 1;
	if (export_thread_give(outlet->feed->thread, outlet->number, given->serial, frame->data,
			       frame->bytes, frame->events) != 0) {
		free(given);
		return NULL;
	}
	given->frame = frame_ref_get(frame);
	outlet->serial++;
	outlet->undecoded++;
	if (!outlet->next)
		outlet->next = given;
	outlet->events += frame->events;
	if (frame->type == FRAME_GAP)
		count_gap(outlet, frame);
	STAILQ_INSERT_TAIL(&outlet->given, given, link);
	return given;
}

/* What the stream itself lost. */
static void on_gap(void *context, struct frame_ref *frame)
{
	((struct outlet *)context)->told = true;
	if (frame->type == FRAME_GAP)
		count_gap(context, frame);
	frame_ref_put(frame);
}

static void pull(struct outlet *outlet)
{
	struct frame_ref *frame[EXPORT_FRAMES_MAX];

	/* To ask is what makes a stream read on in the spool. */
	while (outlet->stream && has_room(outlet)) {
		unsigned n;

		outlet->told = false;
		n = stream_peek(outlet->stream, frame, EXPORT_FRAMES_MAX - outlet->undecoded, on_gap,
				outlet);
		if (!n && outlet->stream->gaps) {	/* there was no memory to tell them */
			set_timer(outlet, PULL_NAP_MS * 1000000ull);
			return;
		}
		if (!n && !outlet->told)
			return;
		for (unsigned i = 0; i < n; i++) {
			struct given *given = give(outlet, frame[i]);

			if (!given) {
				set_timer(outlet, PULL_NAP_MS * 1000000ull);
				return;
			}
			stream_sent(outlet->stream);
			given->place = export_ack_place(outlet->ack, outlet->stream, given->frame);
		}
	}
}

static int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	struct outlet *outlet = context;

	(void)from;
	outlet->stream = stream;
	export_ack_begin(outlet->ack, stream);
	pull(outlet);
	return 0;
}

static void on_refused(void *context, const struct error *error)
{
	struct outlet *outlet = context;

	log_error("export-refused", "%s: nothing is exported: %s %s",
		  outlet->feed->config.targets->target[outlet->number].name, error->what,
		  error->hint);
}

static void on_wake(void *context)
{
	pull(context);
}

/* ---- Reports from it ------------------------------------------------------------------------- */

static void take_report(struct outlet *outlet, const struct export_counts *counts)
{
	struct given *given;

	outlet->counts = *counts;
	while ((given = outlet->next) != NULL && given->serial <= counts->decoded_frame) {
		frame_ref_put(given->frame);
		given->frame = NULL;
		outlet->undecoded--;
		outlet->next = STAILQ_NEXT(given, link);
	}
	while ((given = STAILQ_FIRST(&outlet->given)) != NULL &&
	       given->serial <= counts->settled_frame) {
		export_ack_settle(outlet->ack, &given->place);
		STAILQ_REMOVE_HEAD(&outlet->given, link);
		free(given);
	}
	if (outlet->stream && outlet->feed->config.spooled)
		export_ack_tell(outlet->ack, outlet->feed->config.fanout, &outlet->subscriber);
	pull(outlet);
}

static void on_reports(evutil_socket_t fd, short what, void *context)
{
	struct export_feed *feed = context;
	struct mail *mail, *next;

	(void)fd, (void)what;
	for (mail = mailbox_take(&feed->reports); mail; mail = next) {
		struct export_report *report = (struct export_report *)mail;

		next = mail->next;
		take_report(&feed->outlet[report->target], &report->counts);
		free(report);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct outlet *outlet = context;
	struct export_feed *feed = outlet->feed;
	const struct metric_snapshot *snapshot;

	(void)fd, (void)what;
	if (kind_of(outlet)->build) {
		pull(outlet);
		return;
	}
	set_timer(outlet, feed->interval_ns);
	snapshot = feed->config.snapshot(feed->config.context);
	if (!snapshot)
		return;			/* the next one says the same and more */
	outlet->events += snapshot->points;
	if (export_thread_give_metrics(feed->thread, outlet->number, snapshot) != 0) {
		outlet->events -= snapshot->points;
		metric_snapshot_destroy(snapshot);
	}
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* What to subscribe to, for every destination that takes events: so that they share one. */
static int tap(struct export_feed *feed, const struct config *config, const char *const *late, size_t lates,
	       struct error *error)
{
	char filter[FILTER_BYTES_MAX + 1];
	bool everything = feed->host->everything;
	struct subscribe_request request = {
		.what = {
			.glob = everything ? (const char *const *)config->export_probe.word :
					     export_choose_globs,
			.globs = everything ? config->export_probe.count :
					      export_choose_globs_count,
			.filter = filter,
			.flags = RT_FLAG_CONTEXT,
			.late = late,
			.lates = lates,
		},
	};
	/* First by itself: what is wrong with it is told in its own words and columns. */
	int err = config_check_choice(&config->export_probe, "export-probe", config->export_filter,
				      "export-filter", loader_catalog(feed->config.loader), error);

	if (!err)
		err = export_choose_check_spans(config, error);
	if (!err)
		err = export_choose_request(config, filter, error);
	if (err)
		return err;
	for (unsigned i = 0; i < feed->config.targets->count; i++) {
		struct outlet *outlet = &feed->outlet[i];

		if (!kind_of(outlet)->build) {
			set_timer(outlet, feed->interval_ns);
			continue;
		}
		request.consumer = feed->config.spooled ?
					   feed->config.targets->target[i].consumer : NULL;
		outlet->subscriber = (struct subscriber){.live = on_live, .refused = on_refused,
							 .wake = on_wake, .context = outlet};
		err = fanout_subscribe(feed->config.fanout, &outlet->subscriber, &request, error);
		if (err)
			return err;
	}
	return 0;
}

static int tap_all(struct export_feed *feed, const struct config *config, struct error *error)
{
	char *late[EXPORT_SPAN_SPECS_MAX];
	int lates = export_choose_spans(config, late), err;

	if (lates < 0)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	err = tap(feed, config, (const char *const *)late, (size_t)lates, error);
	while (lates--)
		free(late[lates]);
	return err;
}

/* Before any frame that has an event of it. */
void export_feed_take_late(struct export_feed *feed, const Ringtail__V1__Probe *probe)
{
	if (export_thread_take_late(feed->thread, probe) != 0)
		log_warn("out-of-memory", "no memory to export %s:%s:%s: its events are lost", probe->provider,
			 probe->function, probe->name);
}

static int start_thread(struct export_feed *feed, const struct config *config,
			struct error *error)
{
	struct export_thread_config thread = {
		.host = feed->host,
		.targets = feed->config.targets,
		.ca_file = feed->ca_file,
		.queue_bytes_max = config->export_queue_bytes,
		.timeout_ns = config->export_timeout_ns,
		.events_per_s = config->export_rate,
		.spooled = feed->config.spooled,
		.reports = &feed->reports,
	};

	feed->on_reports = event_new(feed->config.base, mailbox_fd(&feed->reports),
				     EV_READ | EV_PERSIST, on_reports, feed);
	if (!feed->on_reports || event_add(feed->on_reports, NULL) != 0)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	return export_thread_start(&thread, &feed->thread, error);
}

static bool make_outlets(struct export_feed *feed)
{
	for (unsigned i = 0; i < feed->config.targets->count; i++) {
		struct outlet *outlet = &feed->outlet[i];

		outlet->feed = feed;
		outlet->number = i;
		STAILQ_INIT(&outlet->given);
		outlet->ack = export_ack_create(&feed->config.run,
						loader_rings(feed->config.loader),
						feed->config.codec);
		outlet->timer = event_new(feed->config.base, -1, 0, on_timer, outlet);
		if (!outlet->ack || !outlet->timer)
			return false;
	}
	return true;
}

int export_feed_create(const struct export_feed_config *from, struct export_feed **out,
		       struct error *error)
{
	const struct config *config = from->config;
	struct export_feed *feed = calloc(1, sizeof(*feed));
	int err;

	if (!feed)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	feed->config = *from;
	feed->config.config = NULL;
	feed->interval_ns = config->export_interval_ns;
	feed->queue_bytes_max = config->export_queue_bytes;
	feed->reports.fd = -1;
	feed->host = export_host_create(loader_catalog(from->loader), from->run.boot_id,
					from->run.epoch, config);
	feed->ca_file = config->export_ca ? strdup(config->export_ca) : NULL;
	if ((config->export_ca && !feed->ca_file) ||
	    !feed->host || !make_outlets(feed) || mailbox_init(&feed->reports) != 0)
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
	else
		err = start_thread(feed, config, error);
	if (!err)
		err = tap_all(feed, config, error);
	if (err) {
		export_feed_destroy(feed);
		return err;
	}
	*out = feed;
	return 0;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

static void free_outlet(struct outlet *outlet)
{
	struct given *given;

	fanout_leave(outlet->feed->config.fanout, &outlet->subscriber, true);
	stream_destroy(outlet->stream);
	if (outlet->timer)
		event_free(outlet->timer);
	export_ack_destroy(outlet->ack);
	while ((given = STAILQ_FIRST(&outlet->given)) != NULL) {
		STAILQ_REMOVE_HEAD(&outlet->given, link);
		frame_ref_put(given->frame);
		free(given);
	}
}

void export_feed_destroy(struct export_feed *feed)
{
	struct mail *mail, *next;

	if (!feed)
		return;
	/* First: it reads the frames. */
	export_thread_stop(feed->thread);
	for (unsigned i = 0; i < EXPORTS_MAX && feed->outlet[i].feed; i++)
		free_outlet(&feed->outlet[i]);
	if (feed->on_reports)
		event_free(feed->on_reports);
	if (feed->reports.fd >= 0) {
		for (mail = mailbox_take(&feed->reports); mail; mail = next) {
			next = mail->next;
			free(mail);
		}
		mailbox_fini(&feed->reports);
	}
	export_host_destroy(feed->host);
	free(feed->ca_file);
	free(feed);
}

bool export_feed_flush(struct export_feed *feed)
{
	if (!feed)
		return true;
	if (!feed->flushing)
		feed->flushing = export_thread_flush(feed->thread) == 0;
	for (unsigned i = 0; i < feed->config.targets->count; i++) {
		const struct outlet *outlet = &feed->outlet[i];
		struct stat_export stat;

		export_feed_stat(feed, i, &stat);
		if (outlet->stream && has_room(outlet) && stream_has_work(outlet->stream))
			return false;
		/* A back end that is away is not waited for. */
		if (stat.in_flight && outlet->counts.state != EXPORT_RETRYING &&
		    outlet->counts.state != EXPORT_HELD)
			return false;
	}
	return true;
}

/* ---- How it stands --------------------------------------------------------------------------- */

unsigned export_feed_count(const struct export_feed *feed)
{
	return feed ? feed->config.targets->count : 0;
}

void export_feed_stat(const struct export_feed *feed, unsigned target, struct stat_export *stat)
{
	static const char *const state[] = {
		[EXPORT_OK] = "ok", [EXPORT_RETRYING] = "retrying",
		[EXPORT_REJECTING] = "rejecting", [EXPORT_HELD] = "held",
	};
	const struct outlet *outlet = &feed->outlet[target];
	const struct export_counts *counts = &outlet->counts;
	uint64_t *mine = stat->lost_by[LOSS_STAGE_EXPORT], lost = 0;

	*stat = (struct stat_export){
		.name = feed->config.targets->target[target].name,
		.state = kind_of(outlet)->build && !outlet->stream ?
				 outlet->subscriber.state == SUBSCRIBER_AWAY ? "refused" :
									       "starting" :
				 state[counts->state],
		.error = counts->error,
		.consumer = feed->config.spooled && kind_of(outlet)->build ?
				    feed->config.targets->target[target].consumer : NULL,
		.accepted_realtime_ns = counts->accepted_realtime_ns,
		.error_realtime_ns = counts->error_realtime_ns,
		.events = outlet->events,
		.accepted = counts->accepted,
		.filtered = counts->filtered,
		.requests = counts->requests,
		.retries = counts->retries,
		.bytes = counts->bytes,
		.gaps = outlet->gaps,
	};
	memcpy(stat->lost_by, outlet->lost, sizeof(stat->lost_by));
	stat->lost = (struct stat_losses){stat->lost_by, 0, LOSS_STAGES};
	mine[LOSS_REASON_REJECTED] += counts->rejected;
	mine[LOSS_REASON_EXPIRED] += counts->expired;
	mine[LOSS_REASON_MEMORY] += counts->memory;
	for (unsigned i = 0; i < LOSS_STAGES; i++)
		for (unsigned j = 0; j < LOSS_REASONS; j++)
			lost += stat->lost_by[i][j];
	/* Given and not yet taken apart, and what of the rest waits for its back end. */
	stat->in_flight = counts->queued;
	for (unsigned i = 0; i < LOSS_STAGES; i++)
		for (unsigned j = 0; j < LOSS_REASONS; j++)
			stat->in_flight -= outlet->lost[i][j];
	stat->in_flight += outlet->events - counts->taken;
	stat->residual = (int64_t)(stat->events - stat->accepted - stat->filtered - lost -
				   stat->in_flight);
}
