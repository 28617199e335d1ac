#include "daemon/collect/drain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"

static int map_ring(struct drain *drain, const struct ring_handle *source, struct error *error)
{
	drain->ring_map_bytes = source->ring_bytes;
	drain->ring_map = mmap(NULL, source->ring_bytes, PROT_READ, MAP_SHARED, source->ring_fd,
			       (off_t)source->ring_offset);
	if (drain->ring_map == MAP_FAILED) {
		drain->ring_map = NULL;
		return error_set(error, errno, "ring-map", "cannot map the ring of CPU %u: %s",
				 source->cpu, strerror(errno));
	}
	drain->consumer_map = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
				   source->consumer_fd, (off_t)source->consumer_offset);
	if (drain->consumer_map == MAP_FAILED) {
		drain->consumer_map = NULL;
		return error_set(error, errno, "ring-map",
				 "cannot map the consumer page of CPU %u: %s", source->cpu,
				 strerror(errno));
	}
	return 0;
}

int drain_init(struct drain *drain, uint32_t index, const struct ring_handle *source,
	       const struct probe_table *probes, struct error *error)
{
	int err;

	*drain = (struct drain){.index = index, .probes = probes, .cached_thread = THREAD_NONE};
	err = map_ring(drain, source, error);
	if (err)
		goto fail;
	err = ring_reader_create(drain->ring_map, drain->ring_map_bytes, drain->consumer_map,
				 &drain->reader, error);
	if (err)
		goto fail;
	drain->ring_bytes = ((const struct rt_ring_producer *)drain->ring_map)->size_bytes;
	drain->seq = ring_reader_seq(drain->reader);
	drain->threads = thread_table_create(THREADS_PER_RING_MAX);
	if (!drain->threads) {
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
		goto fail;
	}
	err = bell_init(&drain->bell, source->bell, source->bell_fd, error);
	if (err)
		goto fail;
	return 0;

fail:
	drain_fini(drain);
	return err;
}

void drain_fini(struct drain *drain)
{
	for (unsigned i = 0; i < drain->batchers; i++)
		batcher_destroy(drain->batcher[i]);
	bell_fini(&drain->bell);
	thread_table_destroy(drain->threads);
	ring_reader_destroy(drain->reader);
	if (drain->consumer_map)
		munmap(drain->consumer_map, RT_PAGE_BYTES);
	if (drain->ring_map)
		munmap(drain->ring_map, drain->ring_map_bytes);
	memset(drain, 0, sizeof(*drain));
}

/* ---- What was counted instead of recorded ------------------------------------------------------ */

#define COUNTED_AT_ONCE	128u

static void watch_counted(struct drain *drain, const struct batcher_spec *spec)
{
	const struct probe_set *plain = batcher_plain_probes(spec);
	bool any = false;

	for (uint32_t probe = RT_PROBE_EVENT_MIN; plain && probe < RT_PROBE_MAX; probe++)
		if (probe_set_test(plain, probe))
			any |= ring_reader_watch_counted(drain->reader, (uint16_t)probe);
	drain->plain_batchers += any;
}

static bool is_watching(const struct drain *drain, const struct batcher_spec *spec)
{
	const struct probe_set *plain = batcher_plain_probes(spec);
	bool any = false;

	for (uint32_t probe = RT_PROBE_EVENT_MIN; plain && probe < RT_PROBE_MAX && !any; probe++)
		any = probe_set_test(plain, probe) && ring_reader_watch_counted(drain->reader, (uint16_t)probe);
	return any;
}

/* Of all, once none is left that needs any: until then, a few more are looked at than need be. */
static void unwatch_counted(struct drain *drain, const struct batcher_spec *spec)
{
	if (is_watching(drain, spec) && !--drain->plain_batchers)
		ring_reader_unwatch_counted(drain->reader);
}

static void pass_counted(struct drain *drain, const struct ring_counted *counted, uint64_t time_ns)
{
	const struct probe_info *info = &drain->probes->probe[counted->probe];

	drain->seq += counted->good + counted->bad;
	drain->events += counted->good + counted->bad;
	counter_add(COUNTER_events_counted, counted->good + counted->bad);
	for (unsigned i = 0; i < drain->batchers; i++)
		batcher_counted(drain->batcher[i], counted, info, time_ns);
}

/*
 * What is watched. The next reader is told of what is taken before any of it can be sent: each number is one event's,
 * whenever this process ends.
 */
static uint64_t take_watched(struct drain *drain, uint64_t until_ns)
{
	struct ring_counted counted[COUNTED_AT_ONCE];
	uint64_t time_ns = drain->last_time_ns, before = drain->events;
	uint32_t n;

	if (!drain->plain_batchers)
		return 0;
	if (until_ns > time_ns && !ring_reader_pending(drain->reader))
		time_ns = until_ns;
	while (time_ns && (n = ring_reader_take_counted(drain->reader, counted, COUNTED_AT_ONCE))) {
		drain->last_time_ns = time_ns;
		ring_reader_release(drain->reader);
		for (uint32_t i = 0; i < n; i++)
			pass_counted(drain, &counted[i], time_ns);
	}
	return drain->events - before;
}

/* What was counted while no daemon ran was for the run before, and of its questions none is here. */
uint64_t drain_take_counted(struct drain *drain, uint64_t until_ns)
{
	uint64_t before = ring_reader_take_counted_before(drain->reader);

	drain->seq += before;
	drain->events += before;
	for (unsigned i = 0; i < drain->batchers && before; i++)
		batcher_skip_all(drain->batcher[i], before);
	return take_watched(drain, until_ns);
}

/* ---- Batchers -------------------------------------------------------------------------------- */

int drain_add(struct drain *drain, uint32_t subscription, struct batcher *batcher)
{
	if (drain->batchers == SUBSCRIPTIONS_MAX)
		return -ENOSPC;
	/* What was counted up to now is of others; but what is of the run before comes behind where that ended. */
	watch_counted(drain, batcher_spec_of(batcher));
	take_watched(drain, drain->last_time_ns);
	drain->batcher[drain->batchers] = batcher;
	drain->subscription[drain->batchers++] = subscription;
	batcher_start(batcher, drain->seq, drain->last_time_ns);
	return 0;
}

void drain_remove(struct drain *drain, uint32_t subscription)
{
	for (unsigned i = 0; i < drain->batchers; i++) {
		if (drain->subscription[i] != subscription)
			continue;
		unwatch_counted(drain, batcher_spec_of(drain->batcher[i]));
		batcher_flush(drain->batcher[i]);
		batcher_destroy(drain->batcher[i]);
		drain->batchers--;
		drain->batcher[i] = drain->batcher[drain->batchers];
		drain->subscription[i] = drain->subscription[drain->batchers];
		return;
	}
}

static void skip(struct drain *drain)
{
	drain->meta++;
	for (unsigned i = 0; i < drain->batchers; i++)
		batcher_skip(drain->batcher[i]);
}

/* An earlier producer's record is shorter: what it lacks is 0. */
static void take_thread(struct drain *drain, const struct ring_item *item)
{
	size_t bytes = item->words * 8;
	struct rt_thread copy = {0}, *thread = &copy;
	uint32_t index;

	memcpy(&copy, item->payload, bytes < sizeof(copy) ? bytes : sizeof(copy));
	drain->cached_thread = THREAD_NONE;
	redaction_comm(drain->redaction, copy.comm);
	if (thread->flags & RT_THREAD_EXITED) {
		thread_table_forget(drain->threads, item->tid);
		index = THREAD_NONE;
	} else {
		index = thread_table_learn(drain->threads, item->tid, thread);
	}
	for (unsigned i = 0; i < drain->batchers && index != THREAD_NONE; i++)
		batcher_forget_thread(drain->batcher[i], index);
	skip(drain);
}

static bool is_text(const struct ring_item *item)
{
	const struct rt_text *text = (const void *)item->payload;

	return item->probe == RT_PROBE_TEXT && item->words * 8 >= sizeof(*text) &&
	       text->bytes <= RT_TEXT_BYTES_MAX && sizeof(*text) + text->bytes <= item->words * 8;
}

static void take_text(struct drain *drain, const struct ring_item *item)
{
	const struct rt_text *text = (const void *)item->payload;

	if (redaction_hides_text(drain->redaction, text->id & RT_TEXT_EXE ? THREAD_EXE : THREAD_CGROUP,
				 (const char *)text->data, text->bytes)) {
		thread_table_learn_text(drain->threads, text->id, REDACTED_TEXT,
					sizeof(REDACTED_TEXT) - 1);
		counter_add(COUNTER_texts_redacted, 1);
	} else {
		thread_table_learn_text(drain->threads, text->id, text->data, text->bytes);
	}
	skip(drain);
}

static uint32_t find_thread(struct drain *drain, uint32_t tid)
{
	if (tid != drain->cached_tid || drain->cached_thread == THREAD_NONE) {
		drain->cached_tid = tid;
		drain->cached_thread = thread_table_find(drain->threads, tid);
	}
	return drain->cached_thread;
}

static void take_loss(struct drain *drain, uint64_t count, uint32_t stage, uint32_t reason)
{
	if (drain->meter)
		meter_loss(drain->meter, &drain->metered);
	for (unsigned i = 0; i < drain->batchers; i++)
		batcher_loss(drain->batcher[i], count, stage, reason);
}

static bool is_named_loss(const struct ring_item *item)
{
	const struct rt_loss *loss = (const void *)item->payload;

	return item->probe == RT_PROBE_LOSS && item->words == RT_LOSS_WORDS && loss->first <= loss->last &&
	       loss->last < RT_PROBE_MAX && ring_loss_reason(loss->reason);
}

/* The meter knows none of the probes that are made. */
static void take_named_loss(struct drain *drain, const struct ring_item *item)
{
	const struct rt_loss *loss = (const void *)item->payload;

	drain->named[loss->reason]++;
	if (drain->meter && loss->first < RT_PROBE_MADE)
		meter_loss(drain->meter, &drain->metered);
	for (unsigned i = 0; i < drain->batchers; i++)
		batcher_loss_of(drain->batcher[i], loss, LOSS_STAGE_RING,
				ring_loss_reason(loss->reason));
}

static void take_bad(struct drain *drain)
{
	drain->bad++;
	counter_add(COUNTER_records_bad, 1);
	take_loss(drain, 1, LOSS_STAGE_DECODE, LOSS_REASON_BAD_RECORD);
}

/* What is no event. False: it is nothing that is known. */
static bool take_told(struct drain *drain, struct ring_item *item)
{
	if (item->probe == RT_PROBE_THREAD && item->words * 8 >= RT_THREAD_BYTES_MIN)
		take_thread(drain, item);
	else if (is_text(item))
		take_text(drain, item);
	else if (is_named_loss(item))
		take_named_loss(drain, item);
	else
		return false;
	return true;
}

static void take_record(struct drain *drain, struct ring_item *item)
{
	const struct probe_info *info;
	uint32_t thread;

	drain->last_time_ns = item->time_ns;
	if (item->probe < RT_PROBE_EVENT_MIN && take_told(drain, item))
		return;
	info = item->probe < RT_PROBE_MAX ? &drain->probes->probe[item->probe] : NULL;
	if (!info || !atomic_load_explicit(&info->known, memory_order_acquire) ||
	    item->words < info->fields) {
		take_bad(drain);
		return;
	}
	drain->events++;
	thread = find_thread(drain, item->tid);
	if (drain->redaction)
		redaction_event(drain->redaction, item, info, &drain->redacted);
	if (drain->meter)
		meter_event(drain->meter, &drain->metered, item, drain->threads, thread);
	for (unsigned i = 0; i < drain->batchers; i++)
		batcher_event(drain->batcher[i], item, info, thread);
}

void drain_set_redaction(struct drain *drain, const struct redaction *redaction)
{
	drain->redaction = redaction;
	if (!redaction)
		return;
	thread_table_redact(drain->threads, redaction_hides_text, redaction);
	for (unsigned i = 0; i < drain->batchers; i++)
		for (uint32_t thread = 0; thread < thread_table_size(drain->threads); thread++)
			batcher_forget_thread(drain->batcher[i], thread);
}

uint32_t drain_read(struct drain *drain, uint32_t records)
{
	uint32_t read = 0, released = 0;
	struct ring_item item;

	while (!drain->corrupt && read < records) {
		enum ring_read got = ring_reader_next(drain->reader, &item);

		if (got == RING_EMPTY)
			break;
		if (got == RING_CORRUPT) {
			drain->corrupt = true;
			break;
		}
		if (got == RING_LOST) {
			drain->seq += item.count;
			take_loss(drain, item.count, LOSS_STAGE_RING,
				  ring_loss_reason(item.reason));
		} else {
			drain->seq++;
			take_record(drain, &item);
		}
		if (++read - released == DRAIN_CHUNK_RECORDS) {
			ring_reader_release(drain->reader);
			released = read;
		}
	}
	if (read != released)
		ring_reader_release(drain->reader);
	counter_add(COUNTER_records_read, read);
	return read;
}

void drain_flush(struct drain *drain, uint64_t until_ns)
{
	for (unsigned i = 0; i < drain->batchers; i++)
		batcher_tick(drain->batcher[i], until_ns);
}

static void tell_stuck(const struct drain *drain)
{
	struct ring_usage usage;

	ring_reader_usage(drain->reader, &usage);
	log_error("ring-stuck", "CPU %" PRIu32 "'s ring has stood still for %" PRIu64 " s: the record at "
		  "position %" PRIu64 " is unfinished, and %" PRIu64 " bytes wait, it among them; the "
		  "other CPUs no longer wait for it. Should it not go on, stop ringtaild and start it: "
		  "that makes new rings", ring_reader_cpu(drain->reader),
		  (uint64_t)(drain->still_ns / NS_PER_S), drain->watched_pos, usage.unread_bytes);
}

/*
 * One look's time counts for a heartbeat at most: where all stood still, writers too, as when the machine
 * slept, no ring is to blame.
 */
void drain_watch(struct drain *drain, uint64_t now_ns)
{
	uint64_t passed_ns = drain->looked_ns ? now_ns - drain->looked_ns : 0;
	uint64_t pos = ring_reader_pos(drain->reader);
	bool moved = pos != drain->watched_pos || !ring_reader_pending(drain->reader);

	drain->watched_pos = pos;
	drain->looked_ns = now_ns;
	if (moved || drain->corrupt) {
		if (drain->stuck && moved)
			log_info("ring-goes-on", "the ring of CPU %" PRIu32 " is read again, after %" PRIu64 " s",
				 ring_reader_cpu(drain->reader),
				 (uint64_t)(drain->still_ns / NS_PER_S));
		drain->still_ns = 0;
		drain->stuck = false;
		return;
	}
	drain->still_ns += passed_ns < HEARTBEAT_NS ? passed_ns : HEARTBEAT_NS;
	if (drain->stuck || drain->still_ns < RING_STUCK_NS)
		return;
	drain->stuck = true;
	counter_add(COUNTER_rings_stuck, 1);
	tell_stuck(drain);
}

uint64_t drain_watermark(const struct drain *drain, uint64_t until_ns)
{
	if (drain->corrupt)
		return UINT64_MAX;
	/* A writer between reserve and commit holds back its record and those behind it. */
	if (!drain->stuck && ring_reader_pending(drain->reader))
		return drain->last_time_ns;
	return until_ns;
}
