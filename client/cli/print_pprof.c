/*
 * print_pprof: events in, when the last has come a gzipped profile.proto out: the input of `go tool pprof`.
 *
 * Three values for each stack: how many events, the time in them (of a call, its duration; of a sample of
 * profile:hz:N, the periods that it stands for), and, of what was lost, how many events at most. A loss has no
 * stack, so it is a sample of its own, in a function called as its reason, and a comment. The innermost
 * frame of an event that is no sample is its probe.
 */
#include "client/cli/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "client/cli/message_out.h"
#include "client/cli/stack_set.h"
#include "proto/limits.h"
#include "query/visible.h"

/* Profile, and what is in it. */
enum { SAMPLE_TYPE = 1, SAMPLE = 2, LOCATION = 4, FUNCTION = 5, STRING_TABLE = 6, TIME_NANOS = 9,
       DURATION_NANOS = 10, COMMENT = 13, DEFAULT_SAMPLE_TYPE = 14 };
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES = 2, SAMPLE_LABEL = 3, LABEL_KEY = 1, LABEL_TEXT = 2,
       LABEL_NUMBER = 3 };
enum { LOCATION_ID = 1, LOCATION_ADDRESS = 3, LOCATION_LINE = 4, LINE_FUNCTION = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3, FUNCTION_FILE = 4 };

#define REASONS		32

/* Numbers from 1 on for different keys. */
struct entry {
	uint64_t hash;
	uint32_t number;
	char *key;
	size_t bytes;
};

struct table {
	struct entry *slot;
	size_t slots, used;
};

struct sink {
	struct out *out;
	const struct ringtail_host *host;
	struct stack_set *set;
	struct table strings, functions, locations, probes;
	uint64_t first_ns, last_ns;
	uint64_t lost[REASONS], unknown;
	uint64_t others, others_ns;		/* events whose stack found no room */
	bool has_samples;
	z_stream gzip;
	struct message_out message, inner;
};

static void destroy(struct sink *sink);

static struct sink *create(struct out *out, const struct ringtail_host *host, unsigned flags)
{
	struct sink *sink = calloc(1, sizeof(*sink));

	(void)flags;
	if (!sink)
		return NULL;
	sink->out = out;
	sink->host = host;
	sink->set = stack_set_create(host);
	if (sink->set && deflateInit2(&sink->gzip, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK)
		return sink;
	destroy(sink);
	return NULL;
}

static void clear(struct table *table)
{
	for (size_t i = 0; i < table->slots; i++)
		free(table->slot[i].key);
	free(table->slot);
}

static void destroy(struct sink *sink)
{
	if (!sink)
		return;
	deflateEnd(&sink->gzip);
	clear(&sink->strings);
	clear(&sink->functions);
	clear(&sink->locations);
	clear(&sink->probes);
	stack_set_destroy(sink->set);
	free(sink);
}

/* ---- Numbers for keys ------------------------------------------------------------------------ */

static bool grow(struct table *table)
{
	size_t slots = table->slots ? 2 * table->slots : 256;
	struct entry *larger = calloc(slots, sizeof(*larger));

	if (!larger)
		return false;
	for (size_t i = 0; i < table->slots; i++) {
		size_t at = table->slot[i].hash & (slots - 1);

		if (!table->slot[i].key)
			continue;
		while (larger[at].key)
			at = (at + 1) & (slots - 1);
		larger[at] = table->slot[i];
	}
	free(table->slot);
	table->slot = larger;
	table->slots = slots;
	return true;
}

/* The number of that key; *is_new if it had none. 0: no memory. */
static uint32_t number_of(struct table *table, const void *key, size_t bytes, bool *is_new)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	struct entry *entry;
	size_t at;

	*is_new = false;
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ ((const uint8_t *)key)[i]) * 0x100000001b3ull;
	if (2 * table->used >= table->slots && !grow(table))
		return 0;
	for (at = hash & (table->slots - 1); (entry = &table->slot[at])->key;
	     at = (at + 1) & (table->slots - 1))
		if (entry->hash == hash && entry->bytes == bytes && !memcmp(entry->key, key, bytes))
			return entry->number;
	entry->key = malloc(bytes + 1);
	if (!entry->key)
		return 0;
	memcpy(entry->key, key, bytes);
	entry->bytes = bytes;
	entry->hash = hash;
	entry->number = (uint32_t)++table->used;
	*is_new = true;
	return entry->number;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* N of profile:hz:N; 0: it is another probe. */
static uint64_t hertz(const struct ringtail_probe *probe)
{
	return strcmp(probe->provider, "profile") || strcmp(probe->function, "hz") ? 0 :
		       strtoull(probe->name, NULL, 10);
}

/* What one event stands for. */
static uint64_t time_of(const struct ringtail_item *event)
{
	const struct ringtail_probe *probe = event->probe;
	uint64_t hz = hertz(probe), periods = 1;

	for (unsigned i = 0; hz && i < probe->fields; i++)
		if (!strcmp(probe->field[i].name, "periods"))
			periods = ringtail_value(&probe->field[i], event->value[i]);
	if (hz)
		return periods < UINT32_MAX ? periods * 1000000000u / hz : 0;
	if (!probe->fields || probe->field[0].type != RINGTAIL_DURATION || event->value[0] == RINGTAIL_NEVER)
		return 0;
	return event->value[0];
}

static void take_event(struct sink *sink, const struct ringtail_item *event)
{
	const char *spec = event->probe->spec;
	struct stack *stack;
	uint32_t probe = 0;
	bool is_new;

	if (!sink->first_ns)
		sink->first_ns = event->time_ns;
	sink->last_ns = event->time_ns;
	if (hertz(event->probe))
		sink->has_samples = true;
	else
		probe = number_of(&sink->probes, spec, strlen(spec), &is_new);
	stack = stack_set_take(sink->set, event, probe);
	if (stack) {
		stack->count++;
		stack->time_ns += time_of(event);
	} else {
		sink->others++;
		sink->others_ns += time_of(event);
	}
}

static void take(struct sink *sink, const struct ringtail_item *item)
{
	uint64_t lost = item->kind == RINGTAIL_GAP && item->events ? item->events : item->count;

	if (item->kind == RINGTAIL_EVENT && !stack_names_learn(stack_set_names(sink->set), item))
		take_event(sink, item);
	if (item->kind != RINGTAIL_LOSS && item->kind != RINGTAIL_GAP)
		return;
	sink->lost[item->reason < REASONS ? item->reason : 0] += lost;
	sink->unknown += !lost;
}

/* ---- The profile ----------------------------------------------------------------------------- */

static void compress_bytes(struct sink *sink, const void *bytes, size_t n, int flush)
{
	size_t room;

	sink->gzip.next_in = (void *)bytes;
	sink->gzip.avail_in = (uInt)n;
	do {
		uint8_t made[4096];

		sink->gzip.next_out = made;
		sink->gzip.avail_out = sizeof(made);
		deflate(&sink->gzip, flush);
		room = sink->gzip.avail_out;
		out_bytes_long(sink->out, (char *)made, sizeof(made) - room);
	} while (!room);
}

/* What stands in the message, as one field of the profile; and empties it. */
static void put_message(struct sink *sink)
{
	if (sink->message.full)
		sink->out->error = EMSGSIZE;
	compress_bytes(sink, sink->message.bytes, sink->message.used, Z_NO_FLUSH);
	message_out_begin(&sink->message);
}

/* The string's place in the table; of what is in it first, "" is 0. */
static uint64_t string(struct sink *sink, const char *text)
{
	char shown[FUNCTION_BYTES_MAX];
	struct message_out *message = &sink->inner;
	bool is_new;
	uint32_t number;

	visible_copy(shown, sizeof(shown), text, strnlen(text, sizeof(shown)));
	number = number_of(&sink->strings, shown, strlen(shown), &is_new);
	if (!number)
		sink->out->error = ENOMEM;
	if (is_new) {
		message_out_begin(message);
		message_out_bytes(message, STRING_TABLE, shown, strlen(shown));
		compress_bytes(sink, message->bytes, message->used, Z_NO_FLUSH);
	}
	return number ? number - 1 : 0;
}

static uint32_t function(struct sink *sink, const char *name, const char *file)
{
	const uint64_t key[] = { string(sink, name), string(sink, file) };
	struct message_out *message = &sink->inner;
	bool is_new;
	uint32_t number = number_of(&sink->functions, key, sizeof(key), &is_new);
	size_t place;

	if (!is_new)
		return number;
	message_out_begin(message);
	place = message_out_open(message, FUNCTION);
	message_out_number(message, FUNCTION_ID, number);
	message_out_number(message, FUNCTION_NAME, key[0]);
	message_out_number(message, FUNCTION_SYSTEM_NAME, key[0]);
	message_out_number(message, FUNCTION_FILE, key[1]);
	message_out_close(message, place);
	compress_bytes(sink, message->bytes, message->used, Z_NO_FLUSH);
	return number;
}

static uint32_t location(struct sink *sink, uint64_t address, const char *name, const char *file)
{
	const uint64_t key[] = { address, function(sink, name, file) };
	struct message_out *message = &sink->inner;
	bool is_new;
	uint32_t number = number_of(&sink->locations, key, sizeof(key), &is_new);
	size_t place, line;

	if (!is_new)
		return number;
	message_out_begin(message);
	place = message_out_open(message, LOCATION);
	message_out_number(message, LOCATION_ID, number);
	message_out_number(message, LOCATION_ADDRESS, address);
	line = message_out_open(message, LOCATION_LINE);
	message_out_number(message, LINE_FUNCTION, key[1]);
	message_out_close(message, line);
	message_out_close(message, place);
	compress_bytes(sink, message->bytes, message->used, Z_NO_FLUSH);
	return number;
}

/* A frame: what has no name is in [its file]. */
static uint32_t frame(struct sink *sink, const struct stack *stack, unsigned i)
{
	bool kernel = i >= stack->user;
	struct code_place place;
	const char *slash;
	char file[FUNCTION_BYTES_MAX] = "", name[FUNCTION_BYTES_MAX] = "[unknown]";

	stack_set_place(sink->set, stack, i, &place);
	if (place.path)
		snprintf(file, sizeof(file), "%s", place.path);
	slash = strrchr(file, '/');
	if (place.name)
		snprintf(name, sizeof(name), "%s", place.name);
	else if (place.path)
		snprintf(name, sizeof(name), "[%.200s]", !file[0] ? "no file" : slash ? slash + 1 : file);
	return location(sink, stack->frame[i], name, kernel ? "[kernel]" : file);
}

/* The values of a sample; its locations are open in the message, behind `sample`. */
static void put_values(struct message_out *message, uint64_t events, uint64_t time_ns, uint64_t lost)
{
	size_t place = message_out_open(message, SAMPLE_VALUES);

	message_out_packed(message, events);
	message_out_packed(message, time_ns);
	message_out_packed(message, lost);
	message_out_close(message, place);
}

/* What has no stack: one function of that name. */
static void put_alone(struct sink *sink, const char *name, uint64_t events, uint64_t time_ns, uint64_t lost)
{
	uint32_t at = location(sink, 0, name, "");
	size_t sample = message_out_open(&sink->message, SAMPLE);
	size_t locations = message_out_open(&sink->message, SAMPLE_LOCATIONS);

	message_out_packed(&sink->message, at);
	message_out_close(&sink->message, locations);
	put_values(&sink->message, events, time_ns, lost);
	message_out_close(&sink->message, sample);
	put_message(sink);
}

static void put_label(struct sink *sink, const char *key, const char *text, uint64_t number)
{
	uint64_t key_at = string(sink, key), text_at = text ? string(sink, text) : 0;
	size_t place = message_out_open(&sink->message, SAMPLE_LABEL);

	message_out_number(&sink->message, LABEL_KEY, key_at);
	if (text)
		message_out_number(&sink->message, LABEL_TEXT, text_at);
	else
		message_out_number(&sink->message, LABEL_NUMBER, number);
	message_out_close(&sink->message, place);
}

static const char *probe_name(const struct sink *sink, uint32_t number, char name[NAME_BYTES_MAX])
{
	for (size_t i = 0; i < sink->probes.slots; i++)
		if (sink->probes.slot[i].key && sink->probes.slot[i].number == number)
			snprintf(name, NAME_BYTES_MAX, "%.*s", (int)sink->probes.slot[i].bytes,
				 sink->probes.slot[i].key);
	return name;
}

static void put_stack(struct sink *sink, const struct stack *stack)
{
	char comm[sizeof(stack->comm) + 1] = "", name[NAME_BYTES_MAX] = "";
	struct message_out *message = &sink->message;
	uint32_t at[2 * STACK_FRAMES_MAX + 1];
	unsigned frames = 0;
	size_t sample, locations;

	if (stack->probe)
		at[frames++] = location(sink, 0, probe_name(sink, stack->probe, name), "");
	for (unsigned i = stack->user; i < stack->user + stack->kernel; i++)
		at[frames++] = frame(sink, stack, i);
	for (unsigned i = 0; i < stack->user; i++)
		at[frames++] = frame(sink, stack, i);
	memcpy(comm, stack->comm, sizeof(stack->comm));
	sample = message_out_open(message, SAMPLE);
	locations = message_out_open(message, SAMPLE_LOCATIONS);
	for (unsigned i = 0; i < frames; i++)
		message_out_packed(message, at[i]);
	message_out_close(message, locations);
	put_values(message, stack->count, stack->time_ns, 0);
	put_label(sink, "comm", comm, 0);
	put_label(sink, "pid", NULL, stack->pid);
	message_out_close(message, sample);
	put_message(sink);
}

static void put_type(struct sink *sink, const char *type, const char *unit)
{
	uint64_t type_at = string(sink, type), unit_at = string(sink, unit);
	size_t place = message_out_open(&sink->message, SAMPLE_TYPE);

	message_out_number(&sink->message, VALUE_TYPE, type_at);
	message_out_number(&sink->message, VALUE_UNIT, unit_at);
	message_out_close(&sink->message, place);
	put_message(sink);
}

static void put_comment(struct sink *sink, const char *text)
{
	uint64_t at = string(sink, text);

	message_out_number(&sink->message, COMMENT, at);
	put_message(sink);
}

static void put_losses(struct sink *sink)
{
	char text[FUNCTION_BYTES_MAX];

	for (unsigned reason = 0; reason < REASONS; reason++) {
		const char *name = ringtail_reason_name(reason);

		if (!sink->lost[reason])
			continue;
		snprintf(text, sizeof(text), "[lost: %s]", name);
		put_alone(sink, text, 0, 0, sink->lost[reason]);
		snprintf(text, sizeof(text), "up to %llu events were lost: %s (%s)",
			 (unsigned long long)sink->lost[reason], name, ringtail_reason_remedy(reason));
		put_comment(sink, text);
	}
	if (!sink->unknown)
		return;
	snprintf(text, sizeof(text), "an unknown number of events is missing (%llu gaps)",
		 (unsigned long long)sink->unknown);
	put_comment(sink, text);
}

static void end(struct sink *sink)
{
	struct message_out *message = &sink->message;
	uint64_t first;

	message_out_begin(message);
	string(sink, "");
	put_type(sink, "events", "count");
	put_type(sink, "time", "nanoseconds");
	put_type(sink, "lost", "count");
	for (size_t i = 0; i < stack_set_count(sink->set); i++)
		put_stack(sink, stack_set_at(sink->set, i));
	if (sink->others)
		put_alone(sink, "[stacks for which there was no room]", sink->others, sink->others_ns, 0);
	put_losses(sink);
	first = string(sink, "time");
	message_out_number(message, DEFAULT_SAMPLE_TYPE, first);
	message_out_number(message, TIME_NANOS,
			   sink->first_ns + sink->host->realtime_ns - sink->host->monotonic_ns);
	message_out_number(message, DURATION_NANOS, sink->last_ns - sink->first_ns);
	put_message(sink);
	compress_bytes(sink, NULL, 0, Z_FINISH);
}

const struct sink_ops print_pprof = {
	.wants_stacks = true,
	.is_binary = true,
	.create = create,
	.item = take,
	.end = end,
	.destroy = destroy,
};
