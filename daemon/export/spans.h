/*
 * export_spans: spans of programs (RT_SPAN of ringtail-probe.h) as traces.
 *
 *	begin ──► open ── its end ──────────────────────► one span, with the begin's arguments
 *	            └──── its thread or process ends ───► one span, which says that it did not end
 *
 * A system call between the begin and the end of a scope, on its thread, is inside the innermost one. Ids are the
 * program's: of a span that it sent twice, the back end gets two. A span is known by its process and its id, so no
 * program meddles with another's. The table is bounded: a span too many pushes out the oldest; that one's end goes out
 * without arguments, and is counted. The export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_SPANS_H
#define RINGTAIL_DAEMON_EXPORT_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/export/event.h"
#include "daemon/export/kind.h"

struct export_spans;

/* NULL: out of memory. */
struct export_spans *export_spans_create(void);
void export_spans_destroy(struct export_spans *spans);	/* NULL is safe */

/*
 * Events in the order of time. True: it was a begin or an end, and is dealt with: what is due is in *taken. False: it
 * is still the caller's. Of a call inside a scope, its place in that trace is in event->span then; and if it was the end
 * of a thread or process, what was open there is in *taken.
 */
bool export_spans_take(struct export_spans *spans, struct export_event *event, struct export_taken *taken);

/* No more will come: what is open is sent as what did not end. */
void export_spans_flush(struct export_spans *spans, struct export_taken *taken);

/* Taken, and neither sent, dropped nor lost. */
uint64_t export_spans_open(const struct export_spans *spans);

#endif
