#include "daemon/relay/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/stream/consumers.h"

bool relay_host_name_is_valid(const char *name)
{
	return name[0] && name[0] != '.' && name[0] != '-' && strlen(name) < IDENTITY_NAME_BYTES &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
		       strlen(name);
}

struct relay_host *relay_host_create(const char *name)
{
	struct relay_host *host = calloc(1, sizeof(*host));

	if (host)
		snprintf(host->name, sizeof(host->name), "%s", name);
	return host;
}

void relay_host_destroy(struct relay_host *host)
{
	free(host->taken);
	free(host->stored);
	free(host->lost);
	free(host);
}

/* Each place at least as far as that one says. -ENOMEM. */
static int raise(struct cursor **cursor, const struct cursor *to)
{
	for (uint32_t i = 0; i < to->n; i++) {
		const struct position *at = &to->position[i];
		int err = cursor_seq(*cursor, at->cpu, 0) < at->seq ?
				  cursor_add(cursor, at->cpu, at->seq) : 0;

		if (err)
			return err;
	}
	return 0;
}

/* A CPU that nothing is known of begins there. -ENOMEM. */
static int begin(struct cursor **cursor, const struct cursor *start)
{
	for (uint32_t i = 0; i < start->n; i++) {
		const struct position *at = &start->position[i];
		int err = cursor_find(*cursor, at->cpu) ? 0 : cursor_add(cursor, at->cpu, at->seq);

		if (err)
			return err;
	}
	return 0;
}

int relay_host_open(struct relay_host *host, const struct relay_opening *opening,
		    const struct cursor *since)
{
	int err;

	host->run = opening->run;
	if (!host->taken || !run_equal(&host->taken->run, &opening->run)) {
		free(host->taken);
		host->taken = cursor_copy(opening->start);
		host->taken_time_ns = 0;
		if (!host->taken)
			return -ENOMEM;
		host->taken->run = opening->run;
	}
	err = begin(&host->taken, opening->start);
	if (!err && since && run_equal(&since->run, &opening->run))
		err = raise(&host->taken, since);
	return err;
}

/* Whether all that the frame tells of had come before. */
static bool had_come(const struct relay_host *host, const struct cursor *upto)
{
	for (uint32_t i = 0; i < upto->n; i++) {
		const struct position *had = cursor_find(host->taken, upto->position[i].cpu);

		if (!had || had->seq < upto->position[i].seq)
			return false;
	}
	return true;
}

/* A Gap of no size tells of a place, and that place may have come before. */
static bool is_duplicate(const struct relay_host *host, const struct frame_ref *frame,
			 const struct cursor *upto)
{
	if (frame->type == FRAME_WATERMARK)
		return frame->time_ns <= host->taken_time_ns && had_come(host, upto);
	return frame_ref_is_range(frame) && frame->end_seq > frame->first_seq && had_come(host, upto);
}

/* Before the frame is taken: later there is nobody to refuse it to. */
static int make_room_for_losses(struct relay_host *host, const struct frame_ref *frame)
{
	if (frame->losses && !host->lost)
		host->lost = calloc(LOSS_STAGES, sizeof(*host->lost));
	return frame->losses && !host->lost ? -ENOMEM : 0;
}

int relay_host_take(struct relay_host *host, const struct frame_ref *frame,
		    const struct cursor *upto)
{
	int err;

	if (is_duplicate(host, frame, upto))
		return 0;
	err = make_room_for_losses(host, frame);
	if (err)
		return err;
	err = raise(&host->taken, upto);
	if (err)
		return err;
	if (frame->type == FRAME_WATERMARK && frame->time_ns > host->taken_time_ns)
		host->taken_time_ns = frame->time_ns;
	return 1;
}

void relay_host_count(struct relay_host *host, const struct frame_ref *frame)
{
	host->forwarded++;
	host->events += frame->events;
	host->bytes += frame->bytes;
	host->gaps += frame->type == FRAME_GAP && frame->end_seq == frame->first_seq;
	for (uint32_t i = 0; i < frame->losses; i++)
		host->lost[frame->loss[i].stage][frame->loss[i].reason] += frame->loss[i].count;
}

static size_t bytes_of_cursor(const struct cursor *cursor)
{
	return cursor ? cursor->n * sizeof(cursor->position[0]) : 0;
}

static size_t bytes_of_frame(const struct frame_ref *frame)
{
	return frame ? frame->bytes : 0;
}

static size_t bytes_of_item(const struct relay_item *item)
{
	return RELAY_ITEM_BYTES + item->frame->bytes + bytes_of_cursor(item->upto);
}

static size_t bytes_of_opening(const struct relay_opening *opening)
{
	return bytes_of_frame(opening->hello) + bytes_of_frame(opening->catalog) +
	       bytes_of_frame(opening->subscribed) + bytes_of_cursor(opening->start);
}

size_t relay_host_hold(struct relay_host *host, struct relay_item *item)
{
	bool first = item->opening->items++ == 0;
	size_t bytes = bytes_of_item(item) + (first ? bytes_of_opening(item->opening) : 0);

	host->held++;
	host->openings += first;
	host->held_bytes += bytes;
	return bytes;
}

size_t relay_host_release(struct relay_host *host, struct relay_item *item)
{
	bool last = --item->opening->items == 0;
	size_t bytes = bytes_of_item(item) + (last ? bytes_of_opening(item->opening) : 0);

	host->held--;
	host->openings -= last;
	host->held_bytes -= bytes;
	return bytes;
}

bool relay_host_is_full(const struct relay_host *host)
{
	return host->held_bytes >= RELAY_HELD_HOST_BYTES || host->openings >= RELAY_OPENINGS_MAX;
}

int relay_host_store(struct relay_host *host, const struct relay_item *item)
{
	if (item->generation != host->generation)
		return -ECANCELED;
	if (!host->stored || !run_equal(&host->stored->run, &item->opening->run)) {
		free(host->stored);
		host->stored = cursor_create(item->upto->n);
		if (!host->stored)
			return -ENOMEM;
		host->stored->run = item->opening->run;
	}
	return raise(&host->stored, item->upto);
}

void relay_host_fail(struct relay_host *host)
{
	free(host->taken);
	host->taken = NULL;
	host->generation++;
}

static const Ringtail__V1__SpoolStat *find_spool(const Ringtail__V1__Stat *message, const char *name)
{
	for (size_t i = 0; i < message->n_spool; i++)
		if (strcmp(message->spool[i]->name, name) == 0)
			return message->spool[i];
	return NULL;
}

/* The residual is taken here: what the host says of its own sums does not count. */
void relay_host_tell(struct relay_host *host, const Ringtail__V1__Stat *message, uint64_t realtime_ns)
{
	const Ringtail__V1__SpoolStat *spool = NULL;
	struct stat_told told = {.realtime_ns = realtime_ns};

	for (size_t i = 0; !spool && i < message->n_consumer; i++)
		if (strcmp(message->consumer[i]->name, CONSUMER_RELAY) == 0) {
			spool = find_spool(message, message->consumer[i]->spool);
			told.behind_bytes = message->consumer[i]->behind_bytes;
			told.kept = message->consumer[i]->stored;
			told.acked = message->consumer[i]->acked;
			told.gone = message->consumer[i]->lost;
			told.waiting = message->consumer[i]->in_flight;
			told.relay_residual = (int64_t)(told.kept - told.acked - told.gone - told.waiting);
		}
	host->told = (struct stat_told){0};
	if (!spool)
		return;
	told.produced = spool->produced;
	told.stored = spool->stored;
	told.in_flight = spool->in_flight;
	for (size_t i = 0; i < spool->n_lost; i++)
		told.lost += spool->lost[i]->count;
	told.residual = (int64_t)(told.produced - told.stored - told.lost - told.in_flight);
	host->told = told;
}

void relay_host_stat(const struct relay_host *host, struct stat_host *stat)
{
	*stat = (struct stat_host){
		.name = host->name,
		.software = host->software,
		.peer = "",
		.connected = host->agent != NULL,
		.metered = host->metered,
		.run = host->run,
		.since_realtime_ns = host->since_realtime_ns,
		.heard_realtime_ns = host->heard_realtime_ns,
		.received = host->received,
		.forwarded = host->forwarded,
		.duplicate = host->duplicate,
		.refused = host->refused,
		.held = host->held,
		.events = host->events,
		.forwarded_bytes = host->bytes,
		.lost = {host->lost, 0, host->lost ? LOSS_STAGES : 0},
		.gaps = host->gaps,
		.held_bytes = host->held_bytes,
		.told = host->told,
	};
	stat->residual = (int64_t)(host->received - host->forwarded - host->duplicate - host->refused - host->held);
}
