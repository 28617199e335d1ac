/* spool: see spool.h. This file: one spool, and its turns on the disk thread. */
#include "daemon/spool/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/spool/private.h"

/* ---- Turns ----------------------------------------------------------------------------------- */

static struct spool *of_job(struct disk_job *job)
{
	return (struct spool *)((char *)job - offsetof(struct spool, job));
}

static void on_run(struct disk_job *job, struct disk *disk)
{
	struct spool *spool = of_job(job);

	(void)disk;
	spool_store_turn(spool->store, &spool->turn);
}

static struct spool_entry *entry_at(struct spool *spool, size_t i)
{
	return &spool->entry[(spool->first + i) & (spool->capacity - 1)];
}

/* The next frames, as many as one turn may have. */
static void gather(struct spool *spool)
{
	struct spool_turn *turn = &spool->turn;
	size_t bytes = 0, waiting = spool->n - spool->handed;

	if (waiting > spool->turn_capacity) {
		struct frame_ref **larger =
			realloc(spool->turn_frame, 2 * waiting * sizeof(*larger));

		if (larger) {
			spool->turn_frame = larger;
			spool->turn_capacity = 2 * waiting;
		}
	}
	turn->frame = spool->turn_frame;
	while (turn->frames < waiting && turn->frames < spool->turn_capacity &&
	       bytes < SPOOL_TURN_BYTES) {
		struct frame_ref *frame = entry_at(spool, spool->handed + turn->frames)->frame;

		spool->turn_frame[turn->frames++] = frame;
		bytes += frame->bytes;
	}
}

static bool sync_due(const struct spool *spool, uint64_t now_ns)
{
	const struct spooler_config *config = &spool->spooler->config;

	if (config->durability != SPOOL_FSYNC)
		return false;
	/* More often than the tick comes: with every turn. */
	if (config->sync_interval_ns < 2 * TICK_NS_MIN || spool->closing)
		return true;
	/* Half of it, for the tick comes twice in it. */
	return spool->unsynced_ns && now_ns - spool->unsynced_ns >= config->sync_interval_ns / 2;
}

/* Whether there is anything to do that needs the disk. */
static bool turn_due(const struct spool *spool, uint64_t now_ns)
{
	if (spool->seal || spool->state == SPOOL_OPENING)
		return true;
	if (spool->state == SPOOL_FAILED)
		return now_ns >= spool->retry_ns;
	return spool->n > spool->handed || spool->release ||
	       (spool->unsynced_ns && sync_due(spool, now_ns)) ||
	       now_ns - spool->tidied_ns > SPOOL_TIDY_NS;
}

static void submit(struct spool *spool, uint64_t now_ns)
{
	struct spool_turn *turn = &spool->turn;

	*turn = (struct spool_turn){
		.now_ns = now_ns,
		.realtime_ns = clock_read(CLOCK_REALTIME),
		.recorded_realtime_ns = spool->recorded_realtime_ns,
		.sync = sync_due(spool, now_ns),
		.always_on = spool->config.always_on,
		.begun = spool->turn_begun,
		.release = spool->release,
		.release_epoch = spool->release_epoch,
	};
	spool_marks_assign(spool->turn_begun, spool->begun);
	memcpy(turn->release_boot_id, spool->release_boot_id, sizeof(turn->release_boot_id));
	spool->releasing = spool->release;
	spool->release = NULL;
	spool->tidied_ns = now_ns;
	if (spool->state != SPOOL_OPENING && !spool->unwanted)
		gather(spool);
	/* The turn that recovers does nothing else. */
	turn->seal = spool->seal && spool->recovered &&
		     (spool->unwanted || turn->frames == spool->n - spool->handed);
	turn->final = turn->seal && spool->closing && !spool->lost;
	turn->remove = turn->seal && spool->unwanted;
	if (turn->seal)
		spool->seal = false;
	if (turn->frames && !spool->unsynced_ns)
		spool->unsynced_ns = now_ns;
	spool->busy = true;
	disk_thread_submit(spool->spooler->config.thread, &spool->job);
}

static bool is_idle(const struct spool *spool)
{
	return !spool->busy && !spool->n && !spool->seal && !spool->release;
}

/* An older one of the same name is not done yet: two must not have the same files. */
static bool must_wait(const struct spool *spool)
{
	const struct spool *older = spool;

	while ((older = LIST_NEXT(older, link)))
		if (strcmp(older->config.name, spool->config.name) == 0 && !is_idle(older))
			return true;
	return false;
}

void spool_turn(struct spool *spool)
{
	uint64_t now_ns = clock_monotonic();

	if (spool->busy || (spool->state == SPOOL_OPENING && must_wait(spool)))
		return;
	/* What was lost while the disk failed is told by the try that comes now. */
	if (spool->state == SPOOL_FAILED && spool->recovered && turn_due(spool, now_ns))
		spool_tell_lost(spool);
	if (turn_due(spool, now_ns))
		submit(spool, now_ns);
}

static void report_progress(struct spool *spool,
			    void (*tell)(void *context, const uint64_t *end))
{
	uint32_t rings = spool->spooler->config.rings;
	uint64_t *end = calloc(rings + 1, sizeof(*end));

	if (!end)
		return;
	for (uint32_t i = 0; i < rings; i++)
		end[i] = spool->ring[i].end;
	tell(spool->config.context, end);
	free(end);
}

static void after_failure(struct spool *spool)
{
	const struct spool_turn *turn = &spool->turn;
	uint64_t backoff_ns = spool->backoff_ns ? 2 * spool->backoff_ns : SPOOL_RETRY_NS_MIN;

	if (backoff_ns > SPOOL_RETRY_NS_MAX)
		backoff_ns = SPOOL_RETRY_NS_MAX;
	spool->backoff_ns = backoff_ns;
	spool->retry_ns = clock_monotonic() + backoff_ns;
	if (spool->state != SPOOL_FAILED)
		spool->failed_ns = clock_monotonic();
	spool->state = SPOOL_FAILED;
	spool->seal = false;
	spool_lose_all(spool, turn->err == -ENOMEM ? RINGTAIL__V1__LOSS_REASON__REASON_MEMORY :
						     RINGTAIL__V1__LOSS_REASON__REASON_DISK);
}

static void set_state(struct spool *spool)
{
	const struct spool_turn *turn = &spool->turn;

	if (spool->state == SPOOL_FAILED)
		log_info("spool-again", "the spool %s is written again", spool->config.name);
	spool->backoff_ns = 0;
	if (!turn->full && turn->status != SPOOL_TURN_FULL) {
		if (spool->state == SPOOL_FULL || spool->state == SPOOL_STOPPED)
			log_info("spool-room", "the spool %s has room again", spool->config.name);
		spool->state = SPOOL_OK;
		return;
	}
	if (spool->state != SPOOL_FULL && spool->state != SPOOL_STOPPED)
		log_warn("spool-full", "the spool %s is full: what comes is lost until segments "
			 "are older than spool-age, consumers acknowledge what is kept for them alone, "
			 "or spool-size is larger", spool->config.name);
	spool->state = turn->stopped ? SPOOL_STOPPED : SPOOL_FULL;
}

static void take_result(struct spool *spool)
{
	const struct spool_turn *turn = &spool->turn;

	if (turn->status == SPOOL_TURN_FAILED) {
		after_failure(spool);
		return;
	}
	if (turn->recovered) {
		spool->state = SPOOL_OK;
		spool->recovered = true;
		spool->orderly = turn->orderly;
		spool_set_ends(spool);
	} else if (turn->status == SPOOL_TURN_FULL) {
		spool_lose_rest(spool, spool->handed,
				RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL);
	}
	set_state(spool);
	if (spool->state == SPOOL_OK)
		spool_tell_lost(spool);
}

static void on_done(struct disk_job *job)
{
	struct spool *spool = of_job(job);
	const struct spool_turn *turn = &spool->turn;
	bool progress;

	spool->busy = false;
	if (turn->extents) {
		spool_extents_destroy(spool->extents);
		spool->extents = turn->extents;
	}
	free(spool->releasing);
	spool->releasing = NULL;
	if (turn->remove) {
		spool_discard(spool);
		spool_free_if_done(spool);
		return;
	}
	if (turn->status != SPOOL_TURN_FAILED)
		spool->handed += turn->taken;
	progress = spool_pop_durable(spool, (size_t)(turn->durable - spool->durable));
	spool->durable = turn->durable;
	spool->files = turn->files;
	if (!turn->unsynced)
		spool->unsynced_ns = 0;
	take_result(spool);
	if (!spool->opened) {
		spool->opened = true;
		if (spool->config.opened)
			report_progress(spool, spool->config.opened);
	} else if ((progress || turn->recovered) && spool->config.progress) {
		report_progress(spool, spool->config.progress);
	}
	spool_turn(spool);
	spool_free_if_done(spool);
}

/* ---- One spool ------------------------------------------------------------------------------- */

static void config_free(struct spool_config *config)
{
	free((char *)config->name);
	free((char *)config->filter);
	for (size_t i = 0; config->probe && i < config->probes; i++)
		free((char *)config->probe[i]);
	free((void *)config->probe);
	frame_ref_put(config->hello);
	frame_ref_put(config->catalog);
}

void spool_free(struct spool *spool)
{
	LIST_REMOVE(spool, link);
	spool_lose_all(spool, RINGTAIL__V1__LOSS_REASON__REASON_DISK);
	spool_store_destroy(spool->store);
	config_free(&spool->config);
	free(spool->entry);
	free(spool->turn_frame);
	free(spool->begun);
	free(spool->turn_begun);
	spool_extents_destroy(spool->extents);
	free(spool->release);
	free(spool);
}

void spool_free_if_done(struct spool *spool)
{
	struct spooler *spooler = spool->spooler;

	if (!spool->closing || !is_idle(spool) || spool->readers)
		return;
	spool_free(spool);
	LIST_FOREACH(spool, &spooler->spools, link)
		if (spool->state == SPOOL_OPENING)
			spool_turn(spool);
}

static int config_copy(struct spool_config *to, const struct spool_config *from)
{
	const char **probe;

	*to = *from;
	to->name = strdup(from->name);
	to->filter = strdup(from->filter ? from->filter : "");
	to->probe = probe = calloc(from->probes + 1, sizeof(*probe));
	if (!to->name || !to->filter || !probe)
		return -ENOMEM;
	for (size_t i = 0; i < from->probes; i++) {
		probe[i] = strdup(from->probe[i]);
		if (!probe[i])
			return -ENOMEM;
	}
	return 0;
}

static int create_store(struct spool *spool)
{
	const struct spooler_config *common = &spool->spooler->config;
	struct spool_store_config config = {
		.name = spool->config.name,
		.hello = spool->config.hello,
		.catalog = spool->config.catalog,
		.probe = spool->config.probe,
		.probes = spool->config.probes,
		.filter = spool->config.filter,
		.flags = spool->config.flags,
		.durability = common->durability,
		.policy = common->policy,
		.size_bytes = common->size_bytes,
		.age_ns = common->age_ns,
		.segment_bytes = common->segment_bytes,
		.epoch = common->epoch,
		.rings = common->rings,
		.cpu_of = spool->spooler->cpu_of,
	};

	/* So that giving up a segment never gives up most of what there is. */
	if (config.segment_bytes > config.size_bytes / 4)
		config.segment_bytes = config.size_bytes / 4;
	memcpy(config.boot_id, common->boot_id, sizeof(config.boot_id));
	return spool_store_create(&config, disk_thread_disk(common->thread), &spool->store);
}

int spool_open(struct spooler *spooler, const struct spool_config *config, struct spool **out,
	       struct error *error)
{
	struct spool *spool =
		calloc(1, sizeof(*spool) + spooler->config.rings * sizeof(spool->ring[0]));

	if (!spool) {
		frame_ref_put(config->hello);
		frame_ref_put(config->catalog);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	spool->spooler = spooler;
	spool->job.run = on_run;
	spool->job.done = on_done;
	LIST_INSERT_HEAD(&spooler->spools, spool, link);
	spool->begun = spool_marks_create(spooler->config.rings);
	spool->turn_begun = spool_marks_create(spooler->config.rings);
	if (!spool->begun || !spool->turn_begun || config_copy(&spool->config, config) != 0 ||
	    create_store(spool) != 0) {
		spool_free(spool);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	spool_turn(spool);
	*out = spool;
	return 0;
}

void spool_close(struct spool *spool)
{
	if (!spool)
		return;
	spool->closing = spool->seal = true;
	spool->config.opened = NULL;
	spool->config.progress = NULL;
	spool_turn(spool);
	spool_free_if_done(spool);
}

void spool_remove(struct spool *spool)
{
	if (spool)
		spool->unwanted = true;
	spool_close(spool);
}

Ringtail__V1__LossReason spool_missing_reason(const struct spool *spool)
{
	return spool->orderly && !spool->config.goes_on ?
		       RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED :
		       RINGTAIL__V1__LOSS_REASON__REASON_RESTART;
}

void spool_set_always_on(struct spool *spool, bool always_on)
{
	spool->config.always_on = always_on;
}

void spool_set_recorded(struct spool *spool, uint64_t realtime_ns)
{
	if (!spool->recorded_realtime_ns)
		spool->recorded_realtime_ns = realtime_ns;
}

void spool_release(struct spool *spool, const uint8_t boot_id[16], uint64_t epoch,
		   const uint64_t *upto)
{
	struct spool_marks *marks = spool_marks_create(spool->spooler->config.rings);

	/* Without memory now, the next release says the same and more. */
	if (!marks)
		return;
	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		spool_marks_put(marks, spool->spooler->cpu_of[i], upto[i]);
	free(spool->release);
	spool->release = marks;
	memcpy(spool->release_boot_id, boot_id, sizeof(spool->release_boot_id));
	spool->release_epoch = epoch;
	spool_turn(spool);
}

uint64_t spool_behind(const struct spool *spool, const uint8_t boot_id[16], uint64_t epoch,
		      const struct spool_marks *place)
{
	uint32_t rings = spool->spooler->config.rings;
	struct spool_marks *end = spool_marks_create(rings);
	uint64_t bytes = 0;

	for (uint32_t i = 0; end && i < rings; i++)
		spool_marks_put(end, spool->spooler->cpu_of[i], spool->ring[i].end);
	if (end && spool->extents)
		bytes = spool_extents_behind(spool->extents, spool->files.bytes, end, boot_id, epoch,
					     place);
	free(end);
	return bytes;
}

/* For how long something has been waiting to be durable; of a failed one, since nothing has been. */
static uint64_t unstored_ns(const struct spool *spool)
{
	uint64_t now_ns = clock_monotonic();

	if (spool->state == SPOOL_FAILED)
		return now_ns - spool->failed_ns;
	return spool->n ? now_ns - spool->entry[spool->first].since_ns : 0;
}

void spool_stat(const struct spool *spool, struct spool_stat *stat)
{
	static const char *const state[] = {
		[SPOOL_OPENING] = "ok", [SPOOL_OK] = "ok", [SPOOL_FULL] = "full",
		[SPOOL_STOPPED] = "stopped", [SPOOL_FAILED] = "failed",
	};

	*stat = (struct spool_stat){
		.segments = spool->files.segments,
		.bytes = spool->files.bytes,
		.oldest_realtime_ns = spool->files.oldest_realtime_ns,
		.deleted = spool->files.deleted,
		.set_aside = spool->files.set_aside,
		.produced = spool->produced,
		.stored = spool->stored,
		.in_flight = spool_in_flight(spool),
		.state = state[spool->state],
		.config = &spool->config,
		.size_bytes = spool->spooler->config.size_bytes,
		.unstored_ns = unstored_ns(spool),
	};
	memcpy(stat->lost, spool->lost_count, sizeof(stat->lost));
}
