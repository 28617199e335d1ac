#include "daemon/spool/extent.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spool/store.h"

static bool fill(struct spool_extent *extent, const struct spool_segment *segment, bool open)
{
	*extent = (struct spool_extent){.run = segment->run, .bytes = open ? 0 : segment->bytes};
	extent->start = cursor_copy(segment->start);
	extent->end = open ? NULL : cursor_copy(segment->end);
	return extent->start && (open || extent->end);
}

struct spool_extents *spool_extents_create(const struct spool_store *store)
{
	struct spool_extents *extents =
		calloc(1, sizeof(*extents) + store->segments * sizeof(extents->extent[0]));

	for (size_t i = 0; extents && i < store->segments; i++) {
		const struct spool_segment *segment = store->segment[i];
		bool open = segment == store->current;

		if (segment->state == SEGMENT_BAD || !segment->readable || !segment->start ||
		    (!open && !segment->end)) {
			extents->bytes += segment->bytes;	/* nobody will be given it */
			continue;
		}
		if (!fill(&extents->extent[extents->n++], segment, open)) {
			spool_extents_destroy(extents);
			return NULL;
		}
		extents->bytes += open ? 0 : segment->bytes;
	}
	return extents;
}

void spool_extents_destroy(struct spool_extents *extents)
{
	if (!extents)
		return;
	for (size_t i = 0; i < extents->n; i++) {
		free(extents->extent[i].start);
		free(extents->extent[i].end);
	}
	free(extents);
}

/* Of the attempts between start and end, the share that is not before the place. */
static double share_behind(const struct cursor *start, const struct cursor *end,
			   const struct cursor *place)
{
	uint64_t all = 0, behind = 0;

	for (uint32_t i = 0; i < end->n; i++) {
		uint64_t to = end->position[i].seq, from = cursor_seq(start, end->position[i].cpu, 0);
		uint64_t at = cursor_seq(place, end->position[i].cpu, 0);

		if (to <= from)
			continue;
		all += to - from;
		behind += at >= to ? 0 : to - (at > from ? at : from);
	}
	return all ? (double)behind / (double)all : 0;
}

uint64_t spool_extents_behind(const struct spool_extents *extents, uint64_t total,
			      const struct cursor *end, const struct cursor *place)
{
	uint64_t open_bytes = total > extents->bytes ? total - extents->bytes : 0, behind = 0;

	for (size_t i = 0; i < extents->n; i++) {
		const struct spool_extent *extent = &extents->extent[i];
		uint64_t bytes = extent->end ? extent->bytes : open_bytes;
		const struct cursor *to = extent->end ? extent->end : end;

		if (run_equal(&extent->run, &place->run))
			behind += (uint64_t)(share_behind(extent->start, to, place) * (double)bytes);
		else if (extent->run.epoch > place->run.epoch)
			behind += bytes;
	}
	return behind;
}
