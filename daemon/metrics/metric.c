#include "daemon/metrics/metric.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (64u << 10)

struct chunk {
	struct chunk *next;
	size_t used, bytes;
	alignas(max_align_t) uint8_t data[];
};

/* The snapshot that readers see, and what frees it. */
struct owned_snapshot {
	struct metric_snapshot snapshot;
	struct chunk *chunks;
};

struct metric_builder {
	uint64_t bytes_left;
	bool out_of_memory;
	struct owned_snapshot *owned;
	struct metric_family *last_family;
	struct metric_point *last_point;
	struct metric_family family;	/* begun, not yet in the list */
};

/* ---- The arena ------------------------------------------------------------------------------- */

static struct chunk *chunk_create(size_t bytes)
{
	struct chunk *chunk = malloc(sizeof(*chunk) + bytes);

	if (chunk) {
		chunk->next = NULL;
		chunk->used = 0;
		chunk->bytes = bytes;
	}
	return chunk;
}

static void *take(struct metric_builder *builder, size_t bytes)
{
	struct chunk *chunk = builder->owned->chunks;
	void *taken;

	bytes = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!chunk || chunk->bytes - chunk->used < bytes) {
		chunk = chunk_create(bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES);
		if (!chunk) {
			builder->out_of_memory = true;
			return NULL;
		}
		chunk->next = builder->owned->chunks;
		builder->owned->chunks = chunk;
	}
	taken = chunk->data + chunk->used;
	chunk->used += bytes;
	return taken;
}

static void *take_copy(struct metric_builder *builder, const void *from, size_t bytes)
{
	void *to = take(builder, bytes);

	if (to)
		memcpy(to, from, bytes);
	return to;
}

static void free_owned(struct owned_snapshot *owned)
{
	struct chunk *chunk, *next;

	for (chunk = owned->chunks; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(owned);
}

/* ---- Making one ------------------------------------------------------------------------------ */

struct metric_builder *metric_builder_create(uint64_t bytes_max)
{
	struct metric_builder *builder = calloc(1, sizeof(*builder));

	if (!builder)
		return NULL;
	builder->bytes_left = bytes_max;
	builder->owned = calloc(1, sizeof(*builder->owned));
	if (!builder->owned) {
		free(builder);
		return NULL;
	}
	return builder;
}

void metric_builder_destroy(struct metric_builder *builder)
{
	if (!builder)
		return;
	free_owned(builder->owned);
	free(builder);
}

void metric_begin(struct metric_builder *builder, enum metric_type type, const char *name,
		  const char *unit, const char *help)
{
	builder->family = (struct metric_family){
		.name = name, .help = help, .unit = unit, .type = type,
	};
	builder->last_point = NULL;
}

/* A family is there with its first point. */
static bool open_family(struct metric_builder *builder)
{
	struct metric_family *family;

	if (builder->last_point)
		return true;
	family = take_copy(builder, &builder->family, sizeof(*family));
	if (!family)
		return false;
	if (builder->last_family)
		builder->last_family->next = family;
	else
		builder->owned->snapshot.first = family;
	builder->last_family = family;
	builder->owned->snapshot.families++;
	return true;
}

static size_t point_bytes(const struct metric_label *label, uint32_t labels, size_t more)
{
	size_t bytes = sizeof(struct metric_point) + more;

	for (uint32_t i = 0; i < labels; i++)
		bytes += strlen(label[i].value) + 1;
	return bytes;
}

static void add_point(struct metric_builder *builder, struct metric_point point,
		      const struct metric_label *label, uint32_t labels)
{
	struct metric_point *mine;

	for (uint32_t i = 0; i < labels; i++) {
		point.label[i].name = label[i].name;
		point.label[i].value =
			take_copy(builder, label[i].value, strlen(label[i].value) + 1);
		if (!point.label[i].value)
			return;
	}
	point.labels = labels;
	mine = open_family(builder) ? take_copy(builder, &point, sizeof(point)) : NULL;
	if (!mine)
		return;
	if (builder->last_point)
		builder->last_point->next = mine;
	else
		builder->last_family->first = mine;
	builder->last_point = mine;
	builder->last_family->points++;
	builder->owned->snapshot.points++;
}

/* Whether there is room; what has none is counted. */
static bool has_room(struct metric_builder *builder, size_t bytes)
{
	if (builder->out_of_memory)
		return false;
	if (bytes > builder->bytes_left) {
		builder->owned->snapshot.dropped++;
		return false;
	}
	builder->bytes_left -= bytes;
	return true;
}

const char *metric_keep(struct metric_builder *builder, const char *name)
{
	const char *mine = builder->out_of_memory ? NULL : take_copy(builder, name, strlen(name) + 1);

	return mine ? mine : "";	/* then there will be no snapshot */
}

void metric_add(struct metric_builder *builder, double value, const struct metric_label *label,
		uint32_t labels)
{
	if (has_room(builder, point_bytes(label, labels, 0)))
		add_point(builder, (struct metric_point){.value = value}, label, labels);
}

void metric_add_histogram(struct metric_builder *builder, const struct metric_histogram *histogram,
			  const struct metric_label *label, uint32_t labels)
{
	struct metric_histogram *mine;
	size_t cells = histogram->cells * sizeof(*histogram->cell);
	size_t more = sizeof(*histogram) + cells;

	for (unsigned i = 0; i < METER_BUCKETS; i++)
		if (histogram->exemplar[i])
			more += sizeof(*histogram->exemplar[i]);
	if (!has_room(builder, point_bytes(label, labels, more)))
		return;
	mine = take_copy(builder, histogram, sizeof(*mine));
	if (!mine)
		return;
	if (cells)
		mine->cell = take_copy(builder, histogram->cell, cells);
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		if (mine->exemplar[i])
			mine->exemplar[i] = take_copy(builder, mine->exemplar[i],
						      sizeof(*mine->exemplar[i]));
	add_point(builder, (struct metric_point){.histogram = mine}, label, labels);
}

const struct metric_snapshot *metric_builder_end(struct metric_builder *builder,
						 uint64_t realtime_ns, uint64_t start_realtime_ns)
{
	struct owned_snapshot *owned = builder->owned;

	if (builder->out_of_memory) {
		metric_builder_destroy(builder);
		return NULL;
	}
	free(builder);
	owned->snapshot.realtime_ns = realtime_ns;
	owned->snapshot.start_realtime_ns = start_realtime_ns;
	return &owned->snapshot;
}

void metric_snapshot_destroy(const struct metric_snapshot *snapshot)
{
	if (snapshot)
		free_owned((struct owned_snapshot *)snapshot);
}
