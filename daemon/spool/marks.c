#include "daemon/spool/marks.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

struct spool_marks *spool_marks_create(uint32_t capacity)
{
	struct spool_marks *marks = malloc(sizeof(*marks) + capacity * sizeof(marks->mark[0]));

	if (marks)
		*marks = (struct spool_marks){.capacity = capacity};
	return marks;
}

void spool_marks_assign(struct spool_marks *to, const struct spool_marks *from)
{
	to->n = from->n < to->capacity ? from->n : to->capacity;
	memcpy(to->mark, from->mark, to->n * sizeof(to->mark[0]));
}

struct spool_marks *spool_marks_copy(const struct spool_marks *marks)
{
	struct spool_marks *copy = spool_marks_create(marks->n);

	if (copy)
		spool_marks_assign(copy, marks);
	return copy;
}

/* CPUs mostly stand at their own number. */
struct spool_mark *spool_marks_find(struct spool_marks *marks, uint32_t cpu)
{
	if (cpu < marks->n && marks->mark[cpu].cpu == cpu)
		return &marks->mark[cpu];
	for (uint32_t i = 0; i < marks->n; i++)
		if (marks->mark[i].cpu == cpu)
			return &marks->mark[i];
	return NULL;
}

bool spool_marks_put(struct spool_marks *marks, uint32_t cpu, uint64_t seq)
{
	struct spool_mark *mark = spool_marks_find(marks, cpu);

	if (!mark) {
		if (marks->n == marks->capacity)
			return false;
		mark = &marks->mark[marks->n++];
		mark->cpu = cpu;
	}
	mark->seq = seq;
	return true;
}

struct spool_marks *spool_marks_from(const Ringtail__V1__Cursor *cursor)
{
	size_t n = cursor ? cursor->n_position : 0;
	struct spool_marks *marks;

	if (n > CURSOR_POSITIONS_MAX)
		n = CURSOR_POSITIONS_MAX;
	marks = spool_marks_create((uint32_t)n);
	for (size_t i = 0; marks && i < n; i++)
		spool_marks_put(marks, cursor->position[i]->cpu, cursor->position[i]->seq);
	return marks;
}

bool spool_marks_list(const struct spool_marks *marks, Ringtail__V1__Position **position,
		      Ringtail__V1__Position ***list)
{
	*position = calloc(marks->n + 1, sizeof(**position));
	*list = calloc(marks->n + 1, sizeof(**list));
	if (!*position || !*list) {
		free(*position);
		free(*list);
		return false;
	}
	for (uint32_t i = 0; i < marks->n; i++) {
		ringtail__v1__position__init(&(*position)[i]);
		(*position)[i].cpu = marks->mark[i].cpu;
		(*position)[i].seq = marks->mark[i].seq;
		(*list)[i] = &(*position)[i];
	}
	return true;
}
