#include "daemon/trigger/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/disk/disk.h"
#include "proto/segment.h"

#define HEAD_FRAMES	3	/* ServerHello, Catalog, Subscribed */
/* Of one pull, with the gaps that come before its frames: of each ring, and of each reason. */
#define FRAMES_MAX	(HEAD_FRAMES + DUMP_FRAMES_MAX + RINGS_MAX + LOSS_REASONS + 2)

enum state {
	WAITING,		/* for its stream; there is no file */
	WRITING,
	ENDING,			/* nothing more is taken off the stream */
	ABORTING,		/* the file goes */
	OVER,
};

/* What the disk thread does for it. */
enum turn {
	TURN_NONE,
	TURN_WRITES,
	TURN_DELETES,			/* the last: behind it there is neither file nor dump */
};

enum file_state {
	FILE_NONE,
	FILE_BEGUN,			/* named as one that is being written */
	FILE_WHOLE,			/* it has its name */
};

struct dump {
	struct disk_job job;
	const struct dump_config *config;
	dump_done *done;
	void *context;
	char *trigger, *rule;
	uint64_t since_realtime_ns, until_ns, fired_realtime_ns;
	struct dump_entry *entry;
	struct client_identity identity;
	struct subscriber subscriber;
	struct stream *stream;		/* NULL: not yet */
	struct event *timer;		/* nothing has come for too long; or, WAITING, it is over */
	enum state state;
	enum turn turn;
	char why[128];			/* it is not all there; "": it is */
	struct error error;		/* there will be no file; without a code: there will */
	uint64_t events, lost, gaps;	/* told in what was written, and what is in frame[] */
	uint64_t taken_bytes;		/* off the stream */

	/* The disk thread's in its turn. */
	enum file_state file_state;
	int file;
	int disk_error;
	uint64_t bytes, unsynced;
	struct frame_ref *frame[FRAMES_MAX];
	unsigned frames;
	struct frame_ref *bye;
};

static void submit(struct dump *dump);

const char *dump_id(const struct dump *dump)
{
	return dump->entry->id;
}

/* ---- On the disk thread ------------------------------------------------------------------------ */

static int open_file(struct dump *dump, struct disk *disk)
{
	char path[DUMP_PATH_BYTES];
	int err = disk->ops->make_directory(disk, DUMPS_DIRECTORY);

	if (err)
		return err;
	dumps_path_of(dump->entry->id, DUMP_WRITING, path);
	dump->file = disk->ops->open(disk, path, O_WRONLY | O_CREAT | O_EXCL);
	if (dump->file < 0)
		return dump->file;
	dump->file_state = FILE_BEGUN;
	return 0;
}

static int write_frames(struct dump *dump, struct disk *disk)
{
	int err = 0;

	for (unsigned i = 0; i < dump->frames && !err; i++) {
		const struct frame_ref *frame = dump->frame[i];
		uint64_t written = 0;

		err = disk_write_all(disk, dump->file, frame->data, frame->bytes, &written);
		dump->bytes += written;
		dump->unsynced += written;
	}
	if (!err && dump->unsynced >= DUMP_SYNC_BYTES) {
		err = disk->ops->sync(disk, dump->file);
		dump->unsynced = 0;
	}
	return err;
}

/* Its last frame, and then its name: before that, it is none that is whole. */
static int end_file(struct dump *dump, struct disk *disk)
{
	char from[DUMP_PATH_BYTES], to[DUMP_PATH_BYTES];
	uint64_t written = 0;
	int err = disk_write_all(disk, dump->file, dump->bye->data, dump->bye->bytes, &written), closed;

	dump->bytes += written;
	if (!err)
		err = disk->ops->sync(disk, dump->file);
	closed = disk->ops->close(disk, dump->file);
	dump->file = -1;
	if (err || closed)
		return err ? err : closed;
	dumps_path_of(dump->entry->id, DUMP_WRITING, from);
	dumps_path_of(dump->entry->id, DUMP_WHOLE, to);
	err = disk->ops->rename(disk, from, to);
	if (err)
		return err;
	dump->file_state = FILE_WHOLE;
	return disk->ops->sync_directory(disk, DUMPS_DIRECTORY);
}

static void delete_file(struct dump *dump, struct disk *disk)
{
	char path[DUMP_PATH_BYTES];

	if (dump->file >= 0)
		disk->ops->close(disk, dump->file);
	dump->file = -1;
	dumps_path_of(dump->entry->id, dump->file_state == FILE_WHOLE ? DUMP_WHOLE : DUMP_WRITING, path);
	if (dump->file_state != FILE_NONE)
		disk->ops->remove(disk, path);
}

static void run(struct disk_job *job, struct disk *disk)
{
	struct dump *dump = (struct dump *)job;

	if (dump->turn == TURN_DELETES) {
		delete_file(dump, disk);
		return;
	}
	dump->disk_error = dump->file_state == FILE_NONE ? open_file(dump, disk) : 0;
	if (!dump->disk_error)
		dump->disk_error = write_frames(dump, disk);
	if (!dump->disk_error && dump->bye)
		dump->disk_error = end_file(dump, disk);
}

/* ---- Its end ----------------------------------------------------------------------------------- */

static void put_frames(struct dump *dump)
{
	for (unsigned i = 0; i < dump->frames; i++)
		frame_ref_put(dump->frame[i]);
	dump->frames = 0;
}

static void destroy(struct dump *dump)
{
	if (dump->subscriber.state != SUBSCRIBER_AWAY)
		fanout_leave(dump->config->fanout, &dump->subscriber, true);
	stream_destroy(dump->stream);
	put_frames(dump);
	frame_ref_put(dump->bye);
	if (dump->timer)
		event_free(dump->timer);
	free(dump->trigger);
	free(dump->rule);
	free(dump);
}

static void finish(struct dump *dump)
{
	const struct error *error = dump->error.code[0] ? &dump->error : NULL;

	dump->state = OVER;
	dumps_end(dump->config->dumps, dump->entry, error ? NULL : dump->bye);
	dump->done(dump->context, dump, error);
	destroy(dump);
}

/* There will be no file. */
static void fail(struct dump *dump, const struct error *error)
{
	if (dump->state >= ABORTING)
		return;
	dump->error = *error;
	dump->state = ABORTING;
	submit(dump);
}

static void fail_memory(struct dump *dump)
{
	struct error error;

	error_set(&error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	fail(dump, &error);
}

static uint64_t bytes_before_bye(const struct dump *dump)
{
	uint64_t bytes = dump->bytes;

	for (unsigned i = 0; i < dump->frames; i++)
		bytes += dump->frame[i]->bytes;
	return bytes;
}

static struct frame_ref *pack_bye(struct dump *dump)
{
	const struct subscription *subscription = dump->stream->subscription;
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;
	Ringtail__V1__Dump message = RINGTAIL__V1__DUMP__INIT;
	Ringtail__V1__Flag flag[SEGMENT_FLAGS];

	message.id = dump->entry->id;
	message.trigger = dump->trigger;
	message.rule = dump->rule;
	message.realtime_ns = dump->fired_realtime_ns;
	message.from_realtime_ns = dump->since_realtime_ns;
	message.events = dump->events;
	message.lost = dump->lost;
	message.gaps = dump->gaps;
	message.bytes = bytes_before_bye(dump);
	message.state = dump->why[0] ? "ended" : "whole";
	message.why = dump->why;
	message.probe = subscription->glob;
	message.n_probe = subscription->globs;
	message.filter = subscription->filter_text;
	message.flag = flag;
	message.n_flag = segment_list_flags(subscription->spec.flags, flag);
	bye.reason = dump->why[0] ? dump->why : "the dump ends here";
	bye.final = true;
	bye.dump = &message;
	return frame_ref_pack(dump->config->codec, FRAME_BYE, &bye.base);
}

/* ---- Off the stream ---------------------------------------------------------------------------- */

/* Takes the reference. */
static void add(struct dump *dump, struct frame_ref *frame)
{
	dump->frame[dump->frames++] = frame;
	dump->taken_bytes += frame->bytes;
	dump->events += frame->events;
	dump->lost += frame_ref_losses(frame);
	dump->gaps += frame->type == FRAME_GAP && frame->end_seq == frame->first_seq;
}

static void tell(void *context, struct frame_ref *frame)
{
	add(context, frame);
}

/* The rest is missing in its place, as a gap whose size nobody knows. */
static void add_rest_missing(struct dump *dump)
{
	uint64_t seq = dump->stream->ring[0].told;
	struct frame_ref *frame = frame_ref_gap(dump->config->codec, dump->stream->cpu_of[0], seq, seq,
						LOSS_STAGE_SPOOL, LOSS_REASON_DUMP_SIZE, 0);

	if (frame)
		add(dump, frame);
}

static void end_early(struct dump *dump, const char *why)
{
	snprintf(dump->why, sizeof(dump->why), "%s", why);
	dump->state = ENDING;
}

/* Nothing comes behind a Bye, and nothing that is wanted behind a watermark of its time. */
static void take(struct dump *dump, struct frame_ref *frame)
{
	if (frame->type == FRAME_BYE) {
		end_early(dump, "the daemon stopped");
		return;
	}
	add(dump, frame_ref_get(frame));
	stream_sent(dump->stream);
	if (frame->type == FRAME_WATERMARK && frame->time_ns >= dump->until_ns)
		dump->state = ENDING;
}

static void take_some(struct dump *dump)
{
	uint64_t before = dump->taken_bytes;

	while (dump->state == WRITING && dump->frames < DUMP_FRAMES_MAX &&
	       dump->taken_bytes - before < DUMP_TURN_BYTES) {
		unsigned frames = dump->frames;
		struct frame_ref *frame;

		/* One by one: a frame may be the last. */
		if (stream_peek(dump->stream, &frame, 1, tell, dump))
			take(dump, frame);
		else if (dump->frames == frames)
			return;
		if (dump->state == WRITING &&
		    dump->taken_bytes >= dumps_bytes_max(dump->config->dumps) / DUMP_SIZE_PART) {
			end_early(dump, "the dump has reached its share of dump-size");
			add_rest_missing(dump);
		}
	}
}

static void arm(struct dump *dump)
{
	const struct timeval patience = {.tv_sec = (time_t)(DUMP_PATIENCE_NS / NS_PER_S)};

	event_add(dump->timer, &patience);
}

static void submit(struct dump *dump)
{
	if (dump->turn != TURN_NONE)
		return;			/* once that is done */
	dump->turn = dump->state == ABORTING ? TURN_DELETES : TURN_WRITES;
	disk_thread_submit(dump->config->disk_thread, &dump->job);
}

/* Takes what there is, if the disk has what was taken before. */
static void go_on(struct dump *dump)
{
	if (dump->turn != TURN_NONE || (dump->state != WRITING && dump->state != ENDING))
		return;
	take_some(dump);
	if (dump->frames)
		arm(dump);
	if (dump->state == ENDING) {
		dump->bye = pack_bye(dump);
		if (!dump->bye) {
			fail_memory(dump);
			return;
		}
	}
	if (dump->frames || dump->bye)
		submit(dump);
}

static void done(struct disk_job *job)
{
	struct dump *dump = (struct dump *)job;
	enum turn turn = dump->turn;
	struct error error;

	dump->turn = TURN_NONE;
	put_frames(dump);
	if (turn == TURN_DELETES) {
		finish(dump);
		return;
	}
	if (dump->state == ABORTING) {
		submit(dump);
		return;
	}
	if (dump->disk_error) {
		error_set(&error, -dump->disk_error, "dump-disk", "cannot write the dump %s: %s",
			  dump->entry->id, strerror(-dump->disk_error));
		error_hint(&error, "see to the disk of state-dir; nothing of the dump is kept");
		fail(dump, &error);
		return;
	}
	dumps_grow(dump->config->dumps, dump->entry, dump->bytes);
	if (dump->bye)
		finish(dump);
	else
		go_on(dump);
}

/* ---- As a subscriber --------------------------------------------------------------------------- */

static struct frame_ref *pack_subscribed(const struct dump *dump, uint32_t probes)
{
	Ringtail__V1__Subscribed message = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct cursor *told = stream_told(dump->stream);
	struct cursor_message *start;
	struct frame_ref *frame;

	if (!told)
		return NULL;
	told->run = dump->config->run;
	start = cursor_message_create(told);
	free(told);
	if (!start)
		return NULL;
	message.start = &start->cursor;
	message.probes = probes;
	message.resumed = dump->stream->resumed;
	message.from_realtime_ns = dump->since_realtime_ns;
	frame = frame_ref_pack(dump->config->codec, FRAME_SUBSCRIBED, &message.base);
	free(start);
	return frame;
}

/* What the file begins with. */
static bool add_head(struct dump *dump)
{
	const struct dump_config *config = dump->config;
	uint32_t probes = 0;
	struct frame_ref *head[HEAD_FRAMES];
	bool all = true;

	head[0] = config->hello(config->hello_context);
	head[1] = subscription_pack_catalog(dump->stream->subscription, config->catalog,
					    config->codec, &probes);
	head[2] = pack_subscribed(dump, probes);
	for (unsigned i = 0; i < HEAD_FRAMES; i++) {
		all &= head[i] != NULL;
		if (head[i])
			dump->frame[dump->frames++] = head[i];
	}
	return all;
}

static int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	struct dump *dump = context;

	(void)from;
	dump->stream = stream;
	stream->patient = true;
	dump->state = WRITING;
	if (!add_head(dump)) {
		put_frames(dump);
		dump->stream = NULL;
		dump->state = WAITING;
		return -ENOMEM;
	}
	arm(dump);
	submit(dump);
	return 0;
}

static void on_refused(void *context, const struct error *error)
{
	struct dump *dump = context;

	/* Not from within: it would leave who is not there any more. */
	fail(dump, error);
}

static void on_wake(void *context)
{
	go_on(context);
}

/* Nothing has come for long: what there is, is the dump. */
static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct dump *dump = context;

	(void)fd, (void)what;
	if (dump->state == WRITING && dump->turn == TURN_NONE)
		dump_end(dump, "nothing came for too long");
	else if (dump->state == WRITING)
		arm(dump);
	else if (dump->state == WAITING)
		dump_end(dump, "its probes were not recorded in time");
}

void dump_end(struct dump *dump, const char *why)
{
	struct error error;

	if (dump->state == WRITING) {
		end_early(dump, why);
		go_on(dump);
	} else if (dump->state == WAITING) {
		error_set(&error, ECANCELED, "dump-not-begun", "the dump %s has nothing: %s",
			  dump->entry->id, why);
		fail(dump, &error);
	}
}

/* ---- Its beginning ----------------------------------------------------------------------------- */

static struct dump *create(const struct dump_config *config, const struct dump_request *request)
{
	struct dump *dump = calloc(1, sizeof(*dump));

	if (!dump)
		return NULL;
	dump->config = config;
	dump->job = (struct disk_job){.run = run, .done = done};
	dump->file = -1;
	dump->since_realtime_ns = request->since_realtime_ns ? request->since_realtime_ns :
							       request->fired_realtime_ns;
	dump->until_ns = request->until_ns;
	dump->fired_realtime_ns = request->fired_realtime_ns;
	dump->trigger = strdup(request->trigger);
	dump->rule = strdup(request->rule);
	dump->timer = event_new(config->base, -1, 0, on_timer, dump);
	identity_set_unproved(&dump->identity);
	dump->identity.role = ROLE_OPERATOR;
	snprintf(dump->identity.text, sizeof(dump->identity.text), "trigger:%s", request->trigger);
	dump->subscriber = (struct subscriber){.identity = &dump->identity, .live = on_live,
					       .refused = on_refused, .wake = on_wake,
					       .context = dump};
	if (dump->trigger && dump->rule && dump->timer)
		return dump;
	destroy(dump);
	return NULL;
}

int dump_begin(const struct dump_config *config, const struct dump_request *request, dump_done *done_,
	       void *context, struct dump **out, struct error *error)
{
	struct dump *dump = create(config, request);
	struct subscribe_request subscribe = {
		.what = {.glob = request->probe ? &request->probe : NULL,
			 .globs = request->probe ? 1 : 0,
			 .filter = ""},
		.since_realtime_ns = request->since_realtime_ns,
	};
	int err;

	if (dump)
		dump->entry = dumps_begin(config->dumps, request->trigger, request->fired_realtime_ns);
	if (!dump || !dump->entry) {
		if (dump)
			destroy(dump);
		return error_set(error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	}
	dump->done = done_;
	dump->context = context;
	arm(dump);
	err = fanout_subscribe(config->fanout, &dump->subscriber, &subscribe, error);
	if (err) {
		dumps_end(config->dumps, dump->entry, NULL);
		destroy(dump);
		return err;
	}
	*out = dump;
	return 0;
}
