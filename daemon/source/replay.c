/*
 * source_replay: plays a file of frames (what `tracectl record` wrote) as if it happened now.
 *
 * In: a recording. Out: one ring for each CPU it speaks of, with its events and losses in one time
 * order. The calls of source_ops are the loader's one thread; a thread of its own, begun by the
 * first request that enables a probe, writes the rings and logs what stops it. They share `request` and
 * `joined` under their lock, and two flags.
 *
 * It starts to play when the engine says that it reads what was asked for (source_ops.joined), however long
 * the engine takes: who asked first shall see the file from its beginning.
 *
 * Times. The first event happens LEAD_NS after the start, the others as long after it as they were
 * recorded. At recorded pace an event is written LEAD_NS before its time, or as soon as the one
 * before it is; fast, as soon as the reader has made room, so that times run ahead of the clock. An
 * event should not be written after its time, since watermarks have promised by then that nothing
 * older will come: a replay that has lost half its lead slips, and all later times with it.
 *
 * Losses. What the recording lost, its gaps included, is counted as lost by the ring at that place.
 * At recorded pace a full ring loses events as it would for any source; fast, it is waited for.
 */
#include "daemon/source/source.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/source/recording.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/writer.h"
#include "daemon/ring/thread_table.h"

#define LEAD_NS		20000000	/* over what a busy machine keeps a thread waiting */
#define NAP_NS		20000000ull	/* between two looks whether to stop */

struct replay_ring {
	struct ring_writer *writer;
	struct thread_table *threads;	/* introduced on this ring; the player's */
};

struct source {
	bool fast;
	struct recording *recording;
	struct replay_ring *ring;
	unsigned rings;

	pthread_t player;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t wake;		/* `stopping` or `joined` was set */
	bool joined;			/* under lock: somebody reads what is wanted */
	struct source_request request;	/* under lock */
	atomic_uint_fast64_t changes;	/* of `request`: the player need not lock to see none */
	atomic_bool stopping;
	atomic_bool done;
	atomic_uint_fast64_t events;	/* played, wanted or not */
};

/* What only the player's thread touches. */
struct player {
	struct source *source;
	struct source_request request;
	uint64_t changes;
	uint64_t shift_ns;		/* from recorded time to ours */
};

/* ---- What is wanted -------------------------------------------------------------------------- */

static bool number_passes(enum rt_filter_op op, uint32_t wanted, uint32_t value)
{
	return op == RT_FILTER_ANY || (op == RT_FILTER_EQ) == (wanted == value);
}

static bool comm_passes(enum rt_filter_op op, const char *wanted, const char *comm)
{
	return op == RT_FILTER_ANY ||
	       (op == RT_FILTER_EQ) == (strncmp(wanted, comm, RT_COMM_BYTES) == 0);
}

static bool clause_passes(const struct rt_filter_clause *clause, const struct batch_thread *thread)
{
	return number_passes(clause->pid_op, clause->pid, thread->pid) &&
	       number_passes(clause->tid_op, clause->tid, thread->tid) &&
	       number_passes(clause->uid_op, clause->uid, thread->uid) &&
	       comm_passes(clause->comm_op, clause->comm, thread->comm);
}

static bool is_wanted(const struct source_request *request, const struct batch_item *item)
{
	uint16_t probe = item->event.probe;

	if (!(request->probes[probe / 8] & 1 << probe % 8))
		return false;
	if (request->unfiltered[probe / 8] & 1 << probe % 8)
		return true;
	for (uint32_t i = 0; i < request->clauses; i++)
		if (clause_passes(&request->clause[i], item->thread))
			return true;
	return !request->clauses;
}

/* Whether an attachment was asked for. An exec's file name always comes along. */
static bool attachment_is_wanted(const struct source_request *request, uint16_t probe,
				 enum rt_attachment_kind kind)
{
	switch (kind) {
	case RT_ATTACH_STRING:
		return request->flags & RT_FLAG_STRINGS || probe == RT_PROBE_SCHED_EXEC ||
		       probe == RT_PROBE_PROCESS_MAP;
	case RT_ATTACH_KSTACK:
		return request->flags & RT_FLAG_KSTACK;
	case RT_ATTACH_USTACK:
		return request->flags & RT_FLAG_USTACK;
	case RT_ATTACH_SOCKADDR:
	case RT_ATTACH_FILE:
	case RT_ATTACH_DATA:
	case RT_ATTACH_STRUCTURE:
		break;			/* a recording has its text */
	}
	return false;
}

static void refresh_request(struct player *player)
{
	struct source *source = player->source;

	if (atomic_load_explicit(&source->changes, memory_order_acquire) == player->changes)
		return;
	pthread_mutex_lock(&source->lock);
	player->request = source->request;
	player->changes = atomic_load_explicit(&source->changes, memory_order_relaxed);
	pthread_mutex_unlock(&source->lock);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* 0, or -ECANCELED when the source is being closed. */
static int wait_for_room(struct source *source, struct ring_writer *writer, uint32_t words)
{
	for (;;) {
		int err = ring_writer_wait(writer, words, NAP_NS);

		if (err != -ETIMEDOUT)
			return 0;	/* or stopped: then the write is refused and counted */
		if (atomic_load_explicit(&source->stopping, memory_order_relaxed))
			return -ECANCELED;
	}
}

/* Whether the record is in the ring. */
static bool write_record(struct source *source, struct replay_ring *ring,
			 const struct ring_writer_record *record)
{
	if (source->fast && wait_for_room(source, ring->writer, ring_writer_words(record)))
		return false;
	return !ring_writer_write(ring->writer, record);
}

static bool same_text(const struct batch_text *a, const struct batch_text *b)
{
	if (!a || !b)
		return a == b;
	return a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

/*
 * Tells the ring a text, unless it was told. Returns its id, which is a hash of it (FNV-1a); 0: there
 * is none, or no room.
 */
static uint64_t tell(struct source *source, struct replay_ring *ring,
		     const struct batch_text *text, uint64_t kind, uint64_t time_ns)
{
	union {
		struct rt_text text;
		uint64_t word[(sizeof(struct rt_text) + RT_TEXT_BYTES_MAX) / 8];
	} payload = { .text = { .bytes = text ? text->bytes : 0 } };
	struct ring_writer_record record = {
		.probe = RT_PROBE_TEXT, .time_ns = time_ns, .payload = payload.word,
		.words = (sizeof(payload.text) + payload.text.bytes + 7) / 8,
	};
	uint64_t id = 0xcbf29ce484222325ull;

	for (uint32_t i = 0; text && i < text->bytes; i++)
		id = (id ^ (uint8_t)text->data[i]) * 0x100000001b3ull;
	id = (id & ~RT_TEXT_EXE) | kind;
	if (!text || !text->bytes || thread_table_text(ring->threads, id))
		return text && text->bytes ? id : 0;
	payload.text.id = id;
	memcpy(payload.text.data, text->data, text->bytes);
	if (!write_record(source, ring, &record))
		return 0;
	thread_table_learn_text(ring->threads, id, text->data, text->bytes);
	return id;
}

static bool is_introduced(const struct replay_ring *ring, const struct batch_thread *thread)
{
	uint32_t index = thread_table_find(ring->threads, thread->tid);
	const struct batch_thread *known;

	if (index == THREAD_NONE)
		return false;
	known = thread_table_get(ring->threads, index);
	return same_text(known->exe, thread->exe) && same_text(known->cgroup, thread->cgroup) &&
	       known->cgroup_id == thread->cgroup_id && known->pid == thread->pid && known->ppid == thread->ppid &&
	       known->uid == thread->uid && known->kernel == thread->kernel &&
	       !strncmp(known->comm, thread->comm, RT_COMM_BYTES);
}

/*
 * Says on the ring who a thread is, unless that was said. A thread that the recording itself does
 * not know, a tid without a process, stays unknown.
 */
static void introduce(struct source *source, struct replay_ring *ring,
		      const struct batch_thread *thread, uint64_t time_ns)
{
	union {
		struct rt_thread thread;
		uint64_t word[sizeof(struct rt_thread) / 8];
	} payload = {
		.thread = {
			.pid = thread->pid,
			.ppid = thread->ppid,
			.uid = thread->uid,
			.flags = thread->kernel ? RT_THREAD_KERNEL : 0,
			.start_ns = time_ns,
			.cgroup_id = thread->cgroup_id,
		},
	};
	const struct ring_writer_record record = {
		.probe = RT_PROBE_THREAD, .tid = thread->tid, .time_ns = time_ns,
		.payload = payload.word, .words = sizeof(payload) / 8,
	};

	if ((!thread->pid && thread->tid) || is_introduced(ring, thread))
		return;
	payload.thread.exe = tell(source, ring, thread->exe, RT_TEXT_EXE, time_ns);
	payload.thread.cgroup = tell(source, ring, thread->cgroup, 0, time_ns);
	memcpy(payload.thread.comm, thread->comm, RT_COMM_BYTES);
	if (write_record(source, ring, &record))
		thread_table_learn(ring->threads, thread->tid, &payload.thread);
}

/* The threads that an event names in its fields must be known too. */
static void introduce_named(struct source *source, struct replay_ring *ring,
			    const struct recording_item *item, uint64_t time_ns)
{
	const struct batch_event *event = &item->batch->event;
	const struct probe_info *info = &recording_probes(source->recording)->probe[event->probe];

	for (unsigned i = 0; i < info->thread_fields; i++) {
		uint32_t tid = event->field[info->thread_field[i]];
		const struct batch_thread *thread = batch_decode_thread(item->decoder, tid);

		if (thread)
			introduce(source, ring, thread, time_ns);
	}
}

/* On the wire a string names its field; in a call's record its argument, without the first two. */
static uint16_t arg_of_field(const struct probe_info *info, uint32_t field)
{
	return info->has_duration && field >= 2 ? field - 2 : field;
}

static void write_event(struct player *player, const struct recording_item *item, uint64_t time_ns)
{
	const struct batch_item *batch = item->batch;
	struct source *source = player->source;
	struct replay_ring *ring = &source->ring[item->stream];
	const struct probe_info *info =
		&recording_probes(source->recording)->probe[batch->event.probe];
	struct ring_writer_attachment attachment[RT_RECORD_WORDS_MAX];
	struct ring_writer_record record = {
		.probe = batch->event.probe,
		.tid = batch->thread->tid,
		.time_ns = time_ns,
		.payload = batch->event.field,
		.words = batch->event.fields,
		.attachment = attachment,
	};

	/* The kinds have the same numbers in the ring and on the wire. */
	for (size_t i = 0; i < batch->attachments; i++) {
		const struct batch_attachment *from = &batch->attachment[i];
		bool is_string = from->kind == RT_ATTACH_STRING;

		if (!attachment_is_wanted(&player->request, record.probe, from->kind))
			continue;
		attachment[record.attachments++] = (struct ring_writer_attachment){
			.kind = from->kind,
			.arg = is_string ? arg_of_field(info, from->arg) : from->arg,
			.bytes = is_string ? from->text_bytes : from->frames * sizeof(uint64_t),
			.data = is_string ? (const void *)from->text : from->frame,
		};
	}
	introduce(source, ring, batch->thread, time_ns);
	introduce_named(source, ring, item, time_ns);
	write_record(source, ring, &record);
}

/* ---- Playing --------------------------------------------------------------------------------- */

/* Sleeps until then, or until the source is being closed. */
static void sleep_until(struct source *source, uint64_t time_ns)
{
	const struct timespec until = {
		.tv_sec = time_ns / NS_PER_S, .tv_nsec = time_ns % NS_PER_S,
	};

	pthread_mutex_lock(&source->lock);
	while (!atomic_load_explicit(&source->stopping, memory_order_relaxed) &&
	       pthread_cond_timedwait(&source->wake, &source->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&source->lock);
}

/* Waits until somebody reads what is wanted, or until the source is being closed. */
static void wait_until_joined(struct source *source)
{
	pthread_mutex_lock(&source->lock);
	while (!source->joined && !atomic_load_explicit(&source->stopping, memory_order_relaxed))
		pthread_cond_wait(&source->wake, &source->lock);
	pthread_mutex_unlock(&source->lock);
}

/* When an event recorded at `recorded_ns` happens now; waits for that if there is a pace. */
static uint64_t keep_pace(struct player *player, uint64_t recorded_ns)
{
	uint64_t time_ns = recorded_ns + player->shift_ns;
	uint64_t now = clock_monotonic();

	if (!player->source->fast && time_ns > now + LEAD_NS) {
		sleep_until(player->source, time_ns - LEAD_NS);
		now = clock_monotonic();
	}
	if (time_ns < now + LEAD_NS / 2) {
		player->shift_ns += now + LEAD_NS - time_ns;
		time_ns = now + LEAD_NS;
	}
	return time_ns;
}

static void play_event(struct player *player, const struct recording_item *item)
{
	uint64_t time_ns = keep_pace(player, item->batch->event.time_ns);

	refresh_request(player);
	if (is_wanted(&player->request, item->batch))
		write_event(player, item, time_ns);
	atomic_fetch_add_explicit(&player->source->events, 1, memory_order_relaxed);
}

static void *play(void *argument)
{
	struct source *source = argument;
	struct player player = { .source = source };
	enum recording_read read = RECORDING_EVENT;
	struct recording_item item;
	struct error error;

	pthread_setname_np(pthread_self(), "ringtail-replay");
	wait_until_joined(source);
	player.shift_ns = clock_monotonic() + LEAD_NS - recording_first_ns(source->recording);
	while (read != RECORDING_END && read != RECORDING_FAILED &&
	       !atomic_load_explicit(&source->stopping, memory_order_relaxed)) {
		read = recording_next(source->recording, &item, &error);
		if (read == RECORDING_EVENT)
			play_event(&player, &item);
		else if (read == RECORDING_LOSS)
			ring_writer_lose(source->ring[item.stream].writer,
					 ring_lost_for(item.loss.reason), item.loss.count);
	}
	if (read == RECORDING_FAILED)
		log_failure(LOG_LEVEL_ERROR, &error);
	atomic_store_explicit(&source->done, true, memory_order_release);
	return NULL;
}

/* ---- source_ops ------------------------------------------------------------------------------ */

static void replay_close(struct source *source)
{
	if (!source)
		return;
	if (source->started) {
		pthread_mutex_lock(&source->lock);
		atomic_store(&source->stopping, true);
		pthread_cond_broadcast(&source->wake);
		pthread_mutex_unlock(&source->lock);
		pthread_join(source->player, NULL);
	}
	for (unsigned i = 0; i < source->rings; i++) {
		thread_table_destroy(source->ring[i].threads);
		ring_writer_destroy(source->ring[i].writer);
	}
	free(source->ring);
	recording_close(source->recording);
	pthread_cond_destroy(&source->wake);
	pthread_mutex_destroy(&source->lock);
	free(source);
}

static int create_rings(struct source *source, const struct source_config *config,
			struct error *error)
{
	unsigned rings = recording_streams(source->recording);

	source->ring = calloc(rings ? rings : 1, sizeof(*source->ring));
	if (!source->ring)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %u rings", rings);
	for (unsigned i = 0; i < rings; i++) {
		struct ring_writer_config writer_config = {
			.cpu = recording_cpu(source->recording, i),
			.ring_bytes = config->ring_bytes,
			.policy = config->policy,
		};
		int err = ring_writer_create(&writer_config, &source->ring[i].writer, error);

		if (err)
			return err;
		source->rings++;
		source->ring[i].threads = thread_table_create(THREADS_PER_RING_MAX);
		if (!source->ring[i].threads)
			return error_set(error, ENOMEM, "out-of-memory",
					 "no memory for the threads of CPU %u", writer_config.cpu);
	}
	return 0;
}

static int replay_open(const struct source_config *config, struct source **source,
		       struct error *error)
{
	pthread_condattr_t monotonic;
	struct source *s;
	int err;

	if (!config->path)
		return error_set(error, EINVAL, "replay-no-file", "there is no file to replay: use "
				 "--source replay:FILE");
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(error, ENOMEM, "out-of-memory", "no memory to replay %s",
				 config->path);
	s->fast = config->replay_fast;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	err = recording_open(config->path, &s->recording, error);
	if (!err)
		err = create_rings(s, config, error);
	if (err) {
		replay_close(s);
		return err;
	}
	*source = s;
	return 0;
}

static const Ringtail__V1__Catalog *replay_catalog(struct source *source)
{
	return recording_catalog(source->recording);
}

static int replay_ring(struct source *source, unsigned i, struct ring_handle *ring)
{
	if (i >= source->rings)
		return -ENOENT;
	ring_writer_describe(source->ring[i].writer, ring);
	return 0;
}

static bool enables_any(const struct source_request *request)
{
	for (size_t i = 0; i < sizeof(request->probes); i++)
		if (request->probes[i])
			return true;
	return false;
}

static int replay_configure(struct source *source, const struct source_request *request,
			    struct error *error)
{
	int err;

	if (request->clauses > RT_FILTER_CLAUSES_MAX)
		return error_set(error, EINVAL, "filter-clauses",
				 "%u clauses, over the bound of %d", request->clauses,
				 RT_FILTER_CLAUSES_MAX);
	pthread_mutex_lock(&source->lock);
	source->request = *request;
	atomic_fetch_add_explicit(&source->changes, 1, memory_order_release);
	pthread_mutex_unlock(&source->lock);
	if (source->started || !enables_any(request))
		return 0;
	err = pthread_create(&source->player, NULL, play, source);
	if (err)
		return error_set(error, err, "replay-thread", "cannot begin to replay: %s",
				 strerror(err));
	source->started = true;
	return 0;
}

/* What asks for nothing has no reader. */
static void replay_joined(struct source *source)
{
	pthread_mutex_lock(&source->lock);
	source->joined |= enables_any(&source->request);
	pthread_cond_broadcast(&source->wake);
	pthread_mutex_unlock(&source->lock);
}

static int replay_stats(struct source *source, struct source_stats *stats)
{
	*stats = (struct source_stats){
		.program_runs = atomic_load_explicit(&source->events, memory_order_relaxed),
	};
	return 0;
}

static bool replay_finished(struct source *source)
{
	return atomic_load_explicit(&source->done, memory_order_acquire);
}

const struct source_ops source_replay = {
	.name = "replay",
	.open = replay_open,
	.catalog = replay_catalog,
	.ring = replay_ring,
	.configure = replay_configure,
	.joined = replay_joined,
	.stats = replay_stats,
	.finished = replay_finished,
	.close = replay_close,
};
