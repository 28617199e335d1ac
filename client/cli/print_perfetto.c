/*
 * print_perfetto: items in, a trace for Perfetto (ui.perfetto.dev) out, packet by packet.
 *
 * A thread is a track, a call is a slice on it from its beginning to its end, any other event an instant; fields
 * are their arguments. Each CPU is a sequence of packets: a loss marks its sequence with
 * previous_packet_dropped, Perfetto's own word for it, and is an instant on the track "losses". Field
 * numbers are those of perfetto_trace.proto, by their names there.
 */
#include "client/cli/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/cli/message_out.h"
#include "client/cli/stack_names.h"
#include "client/cli/text_value.h"
#include "proto/limits.h"

enum { TRACE_PACKET = 1 };
enum { CLOCK_SNAPSHOT = 6, TIMESTAMP = 8, SEQUENCE_ID = 10, TRACK_EVENT = 11, PREVIOUS_PACKET_DROPPED = 42,
       TIMESTAMP_CLOCK_ID = 58, TRACK_DESCRIPTOR = 60, FIRST_PACKET_ON_SEQUENCE = 87 };
enum { CLOCKS = 1, PRIMARY_TRACE_CLOCK = 2, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2, REALTIME = 1, MONOTONIC = 3 };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5,
       PROCESS_PID = 1, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { DEBUG_ANNOTATIONS = 4, EVENT_TYPE = 9, EVENT_TRACK_UUID = 11, CATEGORIES = 22, EVENT_NAME = 23 };
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3 };
enum { UINT_VALUE = 3, INT_VALUE = 4, STRING_VALUE = 6, POINTER_VALUE = 7, ANNOTATION_NAME = 10 };

#define LOSSES_UUID	1u
#define PROCESS_UUIDS	(1ull << 40)	/* + run, pid */
#define THREAD_UUIDS	(2ull << 40)
#define THREADS		65536u		/* remembered by the last bits of their tid: others are told of again */

struct thread {
	bool known;
	uint32_t tid, pid;
	char comm[16];
};

struct sink {
	struct out *out;
	const struct ringtail_host *host;
	uint64_t realtime_ns;		/* of the host, that the last clock snapshot has */
	uint64_t epoch, last_ns;
	uint32_t run;
	bool shows_maps, told_losses;
	struct stack_names *names;	/* only to know which events are theirs */
	struct thread *thread;		/* [THREADS] */
	uint8_t *sequence;		/* by CPU: a packet of it was written */
	uint32_t sequences;
	struct message_out packet;
	size_t begun;
};

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	stack_names_destroy(sink->names);
	free(sink->thread);
	free(sink->sequence);
	free(sink);
}

static struct sink *create(struct out *out, const struct ringtail_host *host, unsigned flags)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return NULL;
	sink->out = out;
	sink->host = host;
	sink->shows_maps = flags & SINK_MAPS;
	sink->names = stack_names_create(host);
	sink->thread = calloc(THREADS, sizeof(*sink->thread));
	if (sink->names && sink->thread)
		return sink;
	destroy(sink);
	return NULL;
}

/* ---- Packets --------------------------------------------------------------------------------- */

/* Whether nothing was written of that CPU's sequence yet. */
static bool is_first(struct sink *sink, uint32_t cpu)
{
	uint8_t *more;
	bool first;

	if (cpu >= sink->sequences) {
		more = realloc(sink->sequence, cpu + 1);
		if (!more) {
			sink->out->error = ENOMEM;
			return false;
		}
		memset(more + sink->sequences, 0, cpu + 1 - sink->sequences);
		sink->sequence = more;
		sink->sequences = cpu + 1;
	}
	first = !sink->sequence[cpu];
	sink->sequence[cpu] = 1;
	return first;
}

static struct message_out *begin_packet(struct sink *sink, uint32_t cpu)
{
	struct message_out *packet = &sink->packet;

	message_out_begin(packet);
	sink->begun = message_out_open(packet, TRACE_PACKET);
	message_out_number(packet, SEQUENCE_ID, (uint64_t)cpu + 1);
	if (is_first(sink, cpu))
		message_out_number(packet, FIRST_PACKET_ON_SEQUENCE, 1);
	return packet;
}

static void end_packet(struct sink *sink)
{
	message_out_close(&sink->packet, sink->begun);
	if (sink->packet.full)
		sink->out->error = EMSGSIZE;
	out_bytes(sink->out, (const char *)sink->packet.bytes, sink->packet.used);
}

static void put_clock(struct message_out *packet, uint64_t id, uint64_t time_ns)
{
	size_t clock = message_out_open(packet, CLOCKS);

	message_out_number(packet, CLOCK_ID, id);
	message_out_number(packet, CLOCK_TIMESTAMP, time_ns);
	message_out_close(packet, clock);
}

/* Both clocks at one moment; also where another run begins, whose threads are others. */
static void put_clocks(struct sink *sink, uint32_t cpu)
{
	struct message_out *packet;
	size_t clocks;

	if (sink->realtime_ns == sink->host->realtime_ns)
		return;
	sink->realtime_ns = sink->host->realtime_ns;
	if (sink->epoch != sink->host->epoch) {
		sink->run += sink->epoch != 0;
		sink->epoch = sink->host->epoch;
		memset(sink->thread, 0, THREADS * sizeof(*sink->thread));
	}
	packet = begin_packet(sink, cpu);
	clocks = message_out_open(packet, CLOCK_SNAPSHOT);
	put_clock(packet, MONOTONIC, sink->host->monotonic_ns);
	put_clock(packet, REALTIME, sink->host->realtime_ns);
	message_out_number(packet, PRIMARY_TRACE_CLOCK, MONOTONIC);
	message_out_close(packet, clocks);
	end_packet(sink);
}

/* ---- Tracks ---------------------------------------------------------------------------------- */

static uint64_t uuid(const struct sink *sink, uint64_t kind, uint32_t number)
{
	return kind + ((uint64_t)sink->run << 44) + number;
}

static void put_process(struct sink *sink, uint32_t cpu, const struct ringtail_thread *thread)
{
	struct message_out *packet = begin_packet(sink, cpu);
	size_t track = message_out_open(packet, TRACK_DESCRIPTOR), process;

	message_out_number(packet, TRACK_UUID, uuid(sink, PROCESS_UUIDS, thread->pid));
	process = message_out_open(packet, TRACK_PROCESS);
	message_out_number(packet, PROCESS_PID, thread->pid);
	if (thread->exe)
		message_out_visible(packet, PROCESS_NAME, thread->exe, thread->exe_bytes);
	else
		message_out_visible(packet, PROCESS_NAME, thread->comm, out_comm_bytes(thread->comm));
	message_out_close(packet, process);
	message_out_close(packet, track);
	end_packet(sink);
}

/* The track of the thread as it is called now. */
static uint64_t thread_track(struct sink *sink, uint32_t cpu, const struct ringtail_thread *thread)
{
	struct thread *known = &sink->thread[thread->tid & (THREADS - 1)];
	uint64_t id = uuid(sink, THREAD_UUIDS, thread->tid);
	struct message_out *packet;
	size_t track, described;

	if (known->known && known->tid == thread->tid && known->pid == thread->pid &&
	    !memcmp(known->comm, thread->comm, sizeof(known->comm)))
		return id;
	*known = (struct thread){ .known = true, .tid = thread->tid, .pid = thread->pid };
	memcpy(known->comm, thread->comm, sizeof(known->comm));
	if (thread->pid == thread->tid)
		put_process(sink, cpu, thread);
	packet = begin_packet(sink, cpu);
	track = message_out_open(packet, TRACK_DESCRIPTOR);
	message_out_number(packet, TRACK_UUID, id);
	if (thread->pid)
		message_out_number(packet, TRACK_PARENT, uuid(sink, PROCESS_UUIDS, thread->pid));
	described = message_out_open(packet, TRACK_THREAD);
	message_out_number(packet, THREAD_PID, thread->pid);
	message_out_number(packet, THREAD_TID, thread->tid);
	message_out_visible(packet, THREAD_NAME, thread->comm, out_comm_bytes(thread->comm));
	message_out_close(packet, described);
	message_out_close(packet, track);
	end_packet(sink);
	return id;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void put_number(struct message_out *packet, const char *name, uint32_t kind, uint64_t value)
{
	size_t annotation = message_out_open(packet, DEBUG_ANNOTATIONS);

	message_out_text(packet, ANNOTATION_NAME, name);
	message_out_number(packet, kind, value);
	message_out_close(packet, annotation);
}

static void put_text(struct message_out *packet, const char *name, const void *text, size_t n)
{
	size_t annotation = message_out_open(packet, DEBUG_ANNOTATIONS);

	message_out_text(packet, ANNOTATION_NAME, name);
	message_out_visible(packet, STRING_VALUE, text, n);
	message_out_close(packet, annotation);
}

/* A text is a text, a mask with names is these, an array is what a person reads; the rest are numbers. */
static void put_field(struct message_out *packet, const struct ringtail_item *event, unsigned i)
{
	const struct ringtail_field *field = &event->probe->field[i];
	uint64_t value = ringtail_value(field, event->value[i]);
	const uint8_t *bytes;
	char name[256];
	size_t n;

	switch (field->type) {
	case RINGTAIL_MORE:
		return;
	case RINGTAIL_TEXT:
	case RINGTAIL_BYTES:
		bytes = ringtail_bytes(event, i, &n, NULL);
		if (bytes && field->type == RINGTAIL_TEXT) {
			put_text(packet, field->name, bytes, n);
		} else if (bytes) {
			static struct out shown;

			out_init(&shown, -1);
			text_value(&shown, event, i);
			put_text(packet, field->name, shown.buffer, shown.used);
		}
		return;
	case RINGTAIL_SIGNED:
	case RINGTAIL_FD:
	case RINGTAIL_RESULT:
		put_number(packet, field->name, INT_VALUE, value);
		return;
	case RINGTAIL_STRING:
		put_number(packet, field->name, POINTER_VALUE, value);
		return;
	default:
		if (field->names && ringtail_value_name(event, i, name, sizeof(name)))
			put_text(packet, field->name, name, strlen(name));
		else
			put_number(packet, field->name, field->type == RINGTAIL_HEX ? POINTER_VALUE : UINT_VALUE,
				   value);
	}
}

static void put_strings(struct message_out *packet, const struct ringtail_item *event)
{
	for (size_t i = 0; i < event->attachments; i++) {
		const struct ringtail_attachment *string = &event->attachment[i];
		char name[NAME_BYTES_MAX + 8];

		if (string->kind != RINGTAIL_ATTACHED_STRING || string->field >= event->probe->fields ||
		    event->probe->field[string->field].type != RINGTAIL_STRING)
			continue;
		snprintf(name, sizeof(name), "%s_text", event->probe->field[string->field].name);
		put_text(packet, name, string->text, string->text_bytes);
	}
}

static void put_arguments(struct message_out *packet, const struct ringtail_item *event)
{
	const struct ringtail_probe *probe = event->probe;
	bool has_duration = probe->fields && probe->field[0].type == RINGTAIL_DURATION;
	bool returns = !has_duration || event->value[0] != RINGTAIL_NEVER;

	put_number(packet, "cpu", UINT_VALUE, event->cpu);
	put_number(packet, "seq", UINT_VALUE, event->seq);
	for (unsigned i = has_duration; i < probe->fields; i++) {
		if (probe->field[i].type != RINGTAIL_RESULT || i > has_duration) {
			put_field(packet, event, i);
			continue;
		}
		if (!returns)
			continue;
		put_number(packet, "ret", INT_VALUE, event->value[i]);
		if (errno_failed(event->value[i]) && errno_name((int)-(int64_t)event->value[i]))
			put_text(packet, "error", errno_name((int)-(int64_t)event->value[i]),
				 strlen(errno_name((int)-(int64_t)event->value[i])));
	}
	put_strings(packet, event);
}

/* A track event; `event` NULL: only its type, as the end of a slice needs no more. */
static void put_event(struct sink *sink, const struct ringtail_item *event, uint64_t track, uint64_t time_ns,
		      unsigned type, bool arguments)
{
	struct message_out *packet = begin_packet(sink, event->cpu);
	const struct ringtail_probe *probe = event->probe;
	size_t inner;

	message_out_number(packet, TIMESTAMP, time_ns);
	message_out_number(packet, TIMESTAMP_CLOCK_ID, MONOTONIC);
	inner = message_out_open(packet, TRACK_EVENT);
	message_out_number(packet, EVENT_TYPE, type);
	message_out_number(packet, EVENT_TRACK_UUID, track);
	if (type != SLICE_END) {
		message_out_text(packet, CATEGORIES, probe->provider);
		message_out_text(packet, EVENT_NAME, probe->kind == RINGTAIL_CALL || probe->kind == RINGTAIL_ENTRY ?
				 probe->function : probe->spec);
	}
	if (arguments)
		put_arguments(packet, event);
	message_out_close(packet, inner);
	end_packet(sink);
}

static void take_event(struct sink *sink, const struct ringtail_item *event)
{
	uint64_t track = thread_track(sink, event->cpu, &event->thread);
	uint64_t duration = event->probe->fields ? event->value[0] : 0;

	switch (event->probe->kind) {
	case RINGTAIL_CALL:
		if (duration == RINGTAIL_NEVER)
			break;
		if (duration > event->time_ns)
			duration = event->time_ns;
		put_event(sink, event, track, event->time_ns - duration, SLICE_BEGIN, true);
		put_event(sink, event, track, event->time_ns, SLICE_END, false);
		return;
	case RINGTAIL_ENTRY:
		put_event(sink, event, track, event->time_ns, SLICE_BEGIN, true);
		return;
	case RINGTAIL_RETURN:
		put_event(sink, event, track, event->time_ns, SLICE_END, true);
		return;
	case RINGTAIL_TRACEPOINT:
		break;
	}
	put_event(sink, event, track, event->time_ns, INSTANT, true);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static void put_losses_track(struct sink *sink, uint32_t cpu)
{
	struct message_out *packet;
	size_t track;

	if (sink->told_losses)
		return;
	sink->told_losses = true;
	packet = begin_packet(sink, cpu);
	track = message_out_open(packet, TRACK_DESCRIPTOR);
	message_out_number(packet, TRACK_UUID, LOSSES_UUID);
	message_out_text(packet, TRACK_NAME, "losses");
	message_out_close(packet, track);
	end_packet(sink);
}

/* Where nobody knows when, it stands at what came last, or at the recording's own beginning. */
static void put_loss(struct sink *sink, const struct ringtail_item *item)
{
	uint64_t lost = item->kind == RINGTAIL_GAP && item->events ? item->events : item->count;
	uint64_t time_ns = item->time_ns ? item->time_ns : sink->last_ns ? sink->last_ns :
			   sink->host->monotonic_ns;
	struct message_out *packet;
	char name[NAME_BYTES_MAX];
	size_t inner;

	put_losses_track(sink, item->cpu);
	packet = begin_packet(sink, item->cpu);
	message_out_number(packet, PREVIOUS_PACKET_DROPPED, 1);
	message_out_number(packet, TIMESTAMP, time_ns);
	message_out_number(packet, TIMESTAMP_CLOCK_ID, MONOTONIC);
	inner = message_out_open(packet, TRACK_EVENT);
	message_out_number(packet, EVENT_TYPE, INSTANT);
	message_out_number(packet, EVENT_TRACK_UUID, LOSSES_UUID);
	if (lost)
		snprintf(name, sizeof(name), "up to %llu events lost on CPU %u: %s", (unsigned long long)lost,
			 item->cpu, ringtail_reason_name(item->reason));
	else
		snprintf(name, sizeof(name), "an unknown number of events lost on CPU %u: %s", item->cpu,
			 ringtail_reason_name(item->reason));
	message_out_text(packet, CATEGORIES, "loss");
	message_out_text(packet, EVENT_NAME, name);
	put_number(packet, "first_seq", UINT_VALUE, item->seq);
	put_number(packet, "attempts", UINT_VALUE, item->count);
	if (lost)
		put_number(packet, "lost", UINT_VALUE, lost);
	put_text(packet, "stage", ringtail_stage_name(item->stage), strlen(ringtail_stage_name(item->stage)));
	put_text(packet, "reason", ringtail_reason_name(item->reason),
		 strlen(ringtail_reason_name(item->reason)));
	put_text(packet, "remedy", ringtail_reason_remedy(item->reason),
		 strlen(ringtail_reason_remedy(item->reason)));
	message_out_close(packet, inner);
	end_packet(sink);
}

static void take(struct sink *sink, const struct ringtail_item *item)
{
	if (item->kind != RINGTAIL_EVENT && item->kind != RINGTAIL_LOSS && item->kind != RINGTAIL_GAP)
		return;
	if (item->kind == RINGTAIL_EVENT && stack_names_learn(sink->names, item) && !sink->shows_maps)
		return;
	put_clocks(sink, item->cpu);
	if (item->kind != RINGTAIL_EVENT) {
		put_loss(sink, item);
		return;
	}
	take_event(sink, item);
	sink->last_ns = item->time_ns;
}

const struct sink_ops print_perfetto = {
	.is_binary = true,
	.create = create,
	.item = take,
	.destroy = destroy,
};
