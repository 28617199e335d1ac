/*
 * spool_marks: a place in each CPU's numbering, as cursors have them. Plain data of one thread.
 */
#ifndef RINGTAIL_DAEMON_SPOOL_MARKS_H
#define RINGTAIL_DAEMON_SPOOL_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ringtail.pb-c.h"

struct spool_mark {
	uint32_t cpu;
	uint64_t seq;
};

struct spool_marks {
	uint32_t n, capacity;
	struct spool_mark mark[];
};

/* Empty; NULL: out of memory. free() it. */
struct spool_marks *spool_marks_create(uint32_t capacity);

/* Of just the size it takes. */
struct spool_marks *spool_marks_copy(const struct spool_marks *marks);

/* Whatever does not fit is left out. */
void spool_marks_assign(struct spool_marks *to, const struct spool_marks *from);

/* NULL: nothing is known of that CPU. */
struct spool_mark *spool_marks_find(struct spool_marks *marks, uint32_t cpu);

/* False: there is no room for another CPU. */
bool spool_marks_put(struct spool_marks *marks, uint32_t cpu, uint64_t seq);

/* From a cursor, at most CURSOR_POSITIONS_MAX of it. */
struct spool_marks *spool_marks_from(const Ringtail__V1__Cursor *cursor);

/*
 * *position and *list are for the caller to free; false: out of memory, and there is nothing to
 * free.
 */
bool spool_marks_list(const struct spool_marks *marks, Ringtail__V1__Position **position,
		      Ringtail__V1__Position ***list);

#endif
