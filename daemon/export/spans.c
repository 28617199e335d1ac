#include "daemon/export/spans.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"

#define BUCKETS 1024u		/* a power of two */

struct open_span {
	TAILQ_ENTRY(open_span) by_id;
	TAILQ_ENTRY(open_span) by_thread;	/* the innermost first; of a scope */
	TAILQ_ENTRY(open_span) by_age;
	struct export_event *begin;
	bool scope;
};

TAILQ_HEAD(span_list, open_span);

struct export_spans {
	struct export_run *run;		/* of the newest event; a reference; NULL: none came yet */
	uint64_t newest_ns;		/* its time */
	uint64_t open;
	struct span_list id[BUCKETS], thread[BUCKETS], age;
};

struct export_spans *export_spans_create(void)
{
	struct export_spans *spans = calloc(1, sizeof(*spans));

	if (!spans)
		return NULL;
	TAILQ_INIT(&spans->age);
	for (unsigned i = 0; i < BUCKETS; i++) {
		TAILQ_INIT(&spans->id[i]);
		TAILQ_INIT(&spans->thread[i]);
	}
	return spans;
}

/* ---- The table ----------------------------------------------------------------------------------- */

static struct span_list *bucket_of_id(struct export_spans *spans, const uint8_t id[SPAN_ID_BYTES])
{
	uint64_t value;

	memcpy(&value, id, sizeof(value));
	return &spans->id[value * 0x9e3779b97f4a7c15u >> 32 & (BUCKETS - 1)];
}

static struct span_list *bucket_of_thread(struct export_spans *spans, const struct export_event *event)
{
	return &spans->thread[event->thread.tid % BUCKETS];
}

/* Its begin is the caller's. */
static struct export_event *take_out(struct export_spans *spans, struct open_span *span)
{
	struct export_event *begin = span->begin;

	TAILQ_REMOVE(bucket_of_id(spans, begin->span.span_id), span, by_id);
	TAILQ_REMOVE(&spans->age, span, by_age);
	if (span->scope)
		TAILQ_REMOVE(bucket_of_thread(spans, begin), span, by_thread);
	spans->open--;
	free(span);
	return begin;
}

/* There is no room for what it was called and given: its end is sent without. */
static void evict(struct export_event *begin, struct export_taken *taken)
{
	export_event_destroy(begin);
	taken->memory++;
	counter_add(COUNTER_export_spans_evicted, 1);
}

/* It goes out by its begin alone: it lasted until then, at most, and was not ended by its program. */
static void send_unended(struct export_spans *spans, struct open_span *span, uint64_t end_ns, const char *failure,
			 struct export_taken *taken)
{
	struct export_event *begin = take_out(spans, span);

	begin->span.end_ns = end_ns;
	begin->span.failure = failure;
	TAILQ_INSERT_TAIL(&taken->send, begin, link);
}

void export_spans_flush(struct export_spans *spans, struct export_taken *taken)
{
	while (!TAILQ_EMPTY(&spans->age))
		send_unended(spans, TAILQ_FIRST(&spans->age), spans->newest_ns, "the recording ended in it", taken);
}

void export_spans_destroy(struct export_spans *spans)
{
	if (!spans)
		return;
	while (!TAILQ_EMPTY(&spans->age))
		export_event_destroy(take_out(spans, TAILQ_FIRST(&spans->age)));
	export_run_put(spans->run);
	free(spans);
}

uint64_t export_spans_open(const struct export_spans *spans)
{
	return spans->open;
}

static struct open_span *find(struct export_spans *spans, const struct export_event *event)
{
	struct open_span *span;

	TAILQ_FOREACH(span, bucket_of_id(spans, event->span.span_id), by_id)
		if (span->begin->thread.pid == event->thread.pid &&
		    memcmp(span->begin->span.span_id, event->span.span_id, SPAN_ID_BYTES) == 0)
			return span;
	return NULL;
}

static bool is_of_thread(const struct open_span *span, const struct export_event *event)
{
	return span->begin->thread.tid == event->thread.tid && span->begin->thread.pid == event->thread.pid;
}

static struct open_span *innermost(struct export_spans *spans, const struct export_event *event)
{
	struct open_span *span;

	TAILQ_FOREACH(span, bucket_of_thread(spans, event), by_thread)
		if (is_of_thread(span, event))
			return span;
	return NULL;
}

/* ---- Ids ----------------------------------------------------------------------------------------- */

static int digit_of(char text)
{
	if (text >= '0' && text <= '9')
		return text - '0';
	return text >= 'a' && text <= 'f' ? text - 'a' + 10 : -1;
}

/* From the words of a field: hex, and not all zeros. */
static bool read_id(const struct export_event *event, unsigned field, uint8_t *id, unsigned bytes)
{
	const char *text = (const char *)&event->field[field];
	uint8_t any = 0;

	for (unsigned i = 0; i < bytes; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		id[i] = (uint8_t)(high << 4 | low);
		any |= id[i];
	}
	return any;
}

/* What the program says of the span's place. */
static bool read_ids(struct export_event *event)
{
	unsigned first = export_event_ids(event);

	if (!read_id(event, first, event->span.trace_id, TRACE_ID_BYTES) ||
	    !read_id(event, first + 2 * TRACE_ID_BYTES / 8, event->span.span_id, SPAN_ID_BYTES))
		return false;
	event->span.has_parent = read_id(event, first + 2 * (TRACE_ID_BYTES + SPAN_ID_BYTES) / 8,
					 event->span.parent_id, SPAN_ID_BYTES);
	event->span.is_program = event->span.in_tree = true;
	event->class = EXPORT_EVENT;
	return true;
}

/* ---- Events -------------------------------------------------------------------------------------- */

/* What waits for its end holds no frame up: who acknowledges frames does not wait for programs. */
static void let_frame_go(struct export_event *event)
{
	if (event->frames)
		export_frames_release(event->frames, event->frame);
	event->frames = NULL;
}

static void take_begin(struct export_spans *spans, struct export_event *event, struct export_taken *taken)
{
	struct open_span *before = find(spans, event), *span;

	if (before)
		send_unended(spans, before, event->time_ns, "its end was lost", taken);
	span = calloc(1, sizeof(*span));
	if (!span) {
		evict(event, taken);
		return;
	}
	if (spans->open == EXPORT_SPANS_MAX)
		evict(take_out(spans, TAILQ_FIRST(&spans->age)), taken);
	let_frame_go(event);
	span->begin = event;
	span->scope = export_event_is_scope(event);
	TAILQ_INSERT_HEAD(bucket_of_id(spans, event->span.span_id), span, by_id);
	TAILQ_INSERT_TAIL(&spans->age, span, by_age);
	if (span->scope)
		TAILQ_INSERT_HEAD(bucket_of_thread(spans, event), span, by_thread);
	spans->open++;
}

/* Scopes inside this one on its thread are over, too: that their ends did not come means that these were lost. */
static void close_inside(struct export_spans *spans, const struct open_span *outer, uint64_t end_ns,
			 struct export_taken *taken)
{
	struct open_span *span, *next;

	for (span = TAILQ_FIRST(bucket_of_thread(spans, outer->begin)); span && span != outer; span = next) {
		next = TAILQ_NEXT(span, by_thread);
		if (is_of_thread(span, outer->begin))
			send_unended(spans, span, end_ns, "its end was lost", taken);
	}
}

static void take_end(struct export_spans *spans, struct export_event *event, struct export_taken *taken)
{
	struct open_span *span = find(spans, event);

	if (span && span->scope)
		close_inside(spans, span, event->time_ns, taken);
	if (span) {
		event->begin = take_out(spans, span);
		taken->merged++;
	}
	TAILQ_INSERT_TAIL(&taken->send, event, link);
}

static void take_call(struct export_spans *spans, struct export_event *event)
{
	const struct trace_place place = export_event_place(event);
	const struct open_span *span = innermost(spans, event);

	if (!span)
		return;
	trace_id_make_span(&place, event->span.span_id);
	event->span.in_tree = event->span.has_parent = true;
	memcpy(event->span.trace_id, span->begin->span.trace_id, sizeof(event->span.trace_id));
	memcpy(event->span.parent_id, span->begin->span.span_id, sizeof(event->span.parent_id));
}

static void take_exit(struct export_spans *spans, const struct export_event *event, struct export_taken *taken)
{
	bool whole = event->field[1];
	struct open_span *span, *next;

	for (span = TAILQ_FIRST(&spans->age); span; span = next) {
		next = TAILQ_NEXT(span, by_age);
		if (whole && span->begin->thread.pid == event->thread.pid)
			send_unended(spans, span, event->time_ns, "its process ended in it", taken);
		else if (span->scope && is_of_thread(span, event))
			send_unended(spans, span, event->time_ns, "its thread ended in it", taken);
	}
}

/* Another run: what was open there will not be ended. */
static void enter_run(struct export_spans *spans, struct export_run *run, struct export_taken *taken)
{
	export_spans_flush(spans, taken);
	export_run_put(spans->run);
	spans->run = export_run_get(run);
}

bool export_spans_take(struct export_spans *spans, struct export_event *event, struct export_taken *taken)
{
	enum export_span_half half = export_event_half(event);

	if (event->run != spans->run)
		enter_run(spans, event->run, taken);
	spans->newest_ns = event->time_ns;
	if (half != EXPORT_NO_HALF && !read_ids(event))
		TAILQ_INSERT_TAIL(&taken->drop, event, link);
	else if (half == EXPORT_BEGIN)
		take_begin(spans, event, taken);
	else if (half == EXPORT_END)
		take_end(spans, event, taken);
	else if (export_event_is_call(event))
		take_call(spans, event);
	else if (spans->open && export_event_is_exit(event))
		take_exit(spans, event, taken);
	return half != EXPORT_NO_HALF;
}
