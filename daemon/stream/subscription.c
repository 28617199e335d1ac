#include "daemon/stream/subscription.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/stream.h"

/* ---- Rings ----------------------------------------------------------------------------------- */

int rings_find(const struct rings *rings, uint32_t cpu)
{
	if (cpu < rings->n && rings->cpu_of[cpu] == cpu)
		return (int)cpu;
	for (uint32_t i = 0; i < rings->n; i++)
		if (rings->cpu_of[i] == cpu)
			return (int)i;
	return -1;
}

struct cursor *rings_cursor(const struct rings *rings, const uint64_t *seq)
{
	struct cursor *cursor = cursor_create(rings->n);

	if (!cursor)
		return NULL;
	cursor->run = rings->run;
	for (uint32_t i = 0; i < rings->n; i++)
		cursor_append(cursor, rings->cpu_of[i], seq ? seq[i] : 0);
	return cursor;
}

struct cursor_message *rings_message(const struct rings *rings, const uint64_t *seq)
{
	struct cursor *cursor = rings_cursor(rings, seq);
	struct cursor_message *message = cursor ? cursor_message_create(cursor) : NULL;

	free(cursor);
	return message;
}

/* ---- How far back the log goes --------------------------------------------------------------- */

struct reach {
	uint32_t rings;
	bool torn;			/* more went after the watermark that went last */
	uint64_t given_up_ns;		/* that watermark's time; 0: none went */
	unsigned marks;			/* the first is the beginning of recording */
	uint64_t stride, waiting;	/* watermarks that go between two marks */
	uint64_t time_ns[REACH_MARKS_MAX];
	uint64_t seq[];			/* by mark, then by ring */
};

struct reach *reach_create(uint32_t rings)
{
	struct reach *reach = calloc(1, sizeof(*reach) + (size_t)REACH_MARKS_MAX * rings *
							 sizeof(reach->seq[0]));

	if (!reach)
		return NULL;
	reach->rings = rings;
	reach->stride = 1;
	return reach;
}

void reach_destroy(struct reach *reach)
{
	free(reach);
}

static uint64_t *seq_of(struct reach *reach, unsigned mark)
{
	return &reach->seq[(size_t)mark * reach->rings];
}

static void set_mark(struct reach *reach, unsigned mark, uint64_t time_ns, const uint64_t *seq)
{
	reach->time_ns[mark] = time_ns;
	memcpy(seq_of(reach, mark), seq, reach->rings * sizeof(*seq));
}

/* Every other one goes, and from now on they stand twice as far apart. */
static void thin_out(struct reach *reach)
{
	for (unsigned i = 2; i < reach->marks; i += 2)
		set_mark(reach, i / 2, reach->time_ns[i], seq_of(reach, i));
	reach->marks = (reach->marks + 1) / 2;
	reach->stride *= 2;
}

void reach_begin(struct reach *reach, uint64_t time_ns, const uint64_t *seq)
{
	set_mark(reach, 0, time_ns, seq);
	reach->marks = 1;
}

void reach_give_up(struct reach *reach, uint64_t time_ns, const uint64_t *seq)
{
	reach->torn = false;
	reach->given_up_ns = time_ns;
	if (!reach->marks || ++reach->waiting < reach->stride)
		return;
	reach->waiting = 0;
	if (reach->marks == REACH_MARKS_MAX)
		thin_out(reach);
	set_mark(reach, reach->marks++, time_ns, seq);
}

void reach_tear(struct reach *reach)
{
	reach->torn = true;
}

uint64_t reach_recorded_ns(const struct reach *reach)
{
	return reach->marks ? reach->time_ns[0] : UINT64_MAX;
}

bool reach_holds(const struct reach *reach, uint64_t time_ns)
{
	return !reach->torn && time_ns >= reach_recorded_ns(reach) &&
	       time_ns >= reach->given_up_ns;
}

uint64_t reach_seq(const struct reach *reach, uint64_t time_ns, uint32_t ring)
{
	unsigned mark = reach->marks;

	while (mark > 1 && reach->time_ns[mark - 1] > time_ns)
		mark--;
	return mark ? reach->seq[(size_t)(mark - 1) * reach->rings + ring] : 0;
}

/* ---- Subscriptions --------------------------------------------------------------------------- */

static void on_evict(void *context, uint64_t serial, const struct frame_ref *frame,
		     enum loss_reason reason)
{
	struct subscription *subscription = context;
	struct stream *stream;

	TAILQ_FOREACH(stream, &subscription->streams, link)
		stream_on_evict(stream, serial, frame, reason);
	if (frame->type == FRAME_BATCH || frame->type == FRAME_GAP) {
		subscription->floor[frame->ring] = frame->end_seq;
		reach_tear(subscription->reach);
	} else if (frame->type == FRAME_WATERMARK) {
		reach_give_up(subscription->reach, frame->made_ns, subscription->floor);
	}
}

static int copy_globs(const char *const *from, size_t globs, char ***copy, size_t *copied)
{
	*copy = calloc(globs + 1, sizeof(**copy));
	if (!*copy)
		return -ENOMEM;
	for (; *copied < globs; ++*copied) {
		char *glob = strdup(from[*copied]);

		if (!glob)
			return -ENOMEM;
		(*copy)[*copied] = glob;
	}
	return 0;
}

static void free_globs(char **glob, size_t globs)
{
	for (size_t i = 0; i < globs; i++)
		free(glob[i]);
	free(glob);
}

static int allocate(struct subscription *subscription, const struct subscription_request *request,
		    uint32_t rings, uint64_t history_bytes)
{
	subscription->rings = rings;
	subscription->owner = request->owner;
	subscription->filter_text = strdup(request->filter ? request->filter : "");
	subscription->position = calloc(rings, sizeof(*subscription->position));
	subscription->floor = calloc(rings, sizeof(*subscription->floor));
	subscription->quiet = calloc(rings, sizeof(*subscription->quiet));
	subscription->log = frame_log_create(history_bytes, on_evict, subscription);
	subscription->reach = reach_create(rings);
	if (!subscription->filter_text || !subscription->position || !subscription->floor ||
	    !subscription->quiet || !subscription->log || !subscription->reach)
		return -ENOMEM;
	if (copy_globs(request->late, request->lates, &subscription->late, &subscription->lates) != 0)
		return -ENOMEM;
	return copy_globs(request->glob, request->globs, &subscription->glob, &subscription->globs);
}

/* Stacks of a process come with its maps, where the source tells them. */
static void add_maps(struct subscription *subscription, const Ringtail__V1__Catalog *catalog)
{
	const uint32_t both = RT_FLAG_USTACK | SPEC_STACK_TABLE;

	if ((subscription->spec.flags & both) != both)
		return;
	for (size_t i = 0; i < catalog->n_probe; i++)
		if (catalog->probe[i]->id == RT_PROBE_PROCESS_MAP)
			probe_set_add(&subscription->spec.probes, RT_PROBE_PROCESS_MAP);
}

/* Stacks have no numbers to count by. */
static int ask(struct subscription *subscription, const struct subscription_request *request,
	       const Ringtail__V1__Catalog *catalog, struct error *error)
{
	struct question *question;
	int err;

	if (request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK))
		return error_set(error, EINVAL, "question-invalid", "stacks are not counted here: ask without");
	err = question_create(request->question, &subscription->spec.probes, catalog, &question, error);
	if (!err)
		subscription->spec.question = question;
	return err;
}

int subscription_create(const struct subscription_request *request,
			const Ringtail__V1__Catalog *catalog, uint32_t rings,
			uint64_t history_bytes, struct subscription **out, struct error *error)
{
	struct subscription *subscription = calloc(1, sizeof(*subscription));
	struct filter *filter = NULL;
	int err;

	if (!subscription)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	TAILQ_INIT(&subscription->streams);
	if (allocate(subscription, request, rings, history_bytes) != 0) {
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
		goto fail;
	}
	err = probe_set_from_globs(&subscription->spec.probes, subscription->glob,
				   (unsigned)subscription->globs, catalog, error);
	if (err)
		goto fail;
	err = filter_compile(subscription->filter_text, catalog, &filter, error);
	if (err)
		goto fail;
	subscription->spec.filter = filter;
	subscription->clauses = filter_kernel_clauses(filter, subscription->clause, RT_FILTER_CLAUSES_MAX);
	subscription->spec.filter_of_kernel = filter_is_of_kernel(filter) && subscription->clauses;
	subscription->spec.file_strings = request->file_strings;
	subscription->spec.flags = request->flags | (filter_asks_strings(filter) ? RT_FLAG_STRINGS : 0);
	/* Whoever takes it as its past must be able to ask what this one asked. */
	subscription->spec.context = request->flags & RT_FLAG_CONTEXT || filter_asks_context(filter);
	if (request->question)
		err = ask(subscription, request, catalog, error);
	if (err)
		goto fail;
	add_maps(subscription, catalog);
	*out = subscription;
	return 0;

fail:
	subscription_destroy(subscription);
	return err;
}

void subscription_destroy(struct subscription *subscription)
{
	if (!subscription)
		return;
	frame_log_destroy(subscription->log);
	reach_destroy(subscription->reach);
	if (subscription->spool.unwanted)
		spool_remove(subscription->spool.spool);
	else
		spool_close(subscription->spool.spool);
	frame_ref_put(subscription->spool.hello);
	frame_ref_put(subscription->spool.catalog);
	free(subscription->spool.end);
	filter_destroy((struct filter *)subscription->spec.filter);
	question_destroy((struct question *)subscription->spec.question);
	free_globs(subscription->glob, subscription->globs);
	free_globs(subscription->late, subscription->lates);
	free(subscription->filter_text);
	free(subscription->position);
	free(subscription->floor);
	free(subscription->quiet);
	free(subscription);
}

struct subscription_request subscription_request_of(const struct subscription *subscription)
{
	return (struct subscription_request){
		.glob = (const char *const *)subscription->glob,
		.globs = subscription->globs,
		.filter = subscription->filter_text,
		.flags = subscription->spec.flags,
		.file_strings = subscription->spec.file_strings,
		.owner = subscription->owner,
		.late = (const char *const *)subscription->late,
		.lates = subscription->lates,
	};
}

bool subscription_take_late(struct subscription *subscription, const Ringtail__V1__Probe *probe)
{
	bool wants = false;

	for (size_t i = 0; i < subscription->lates; i++)
		wants |= probe_set_glob_matches(subscription->late[i], probe);
	if (!wants)
		return false;
	probe_set_add_amid(&subscription->spec.late, probe->id);
	probe_set_add_amid(&subscription->spec.probes, probe->id);
	return true;
}

static bool has_same_late(const struct subscription *a, const struct subscription *b)
{
	if (a->lates != b->lates)
		return false;
	for (size_t i = 0; i < a->lates; i++)
		if (strcmp(a->late[i], b->late[i]) != 0)
			return false;
	return true;
}

struct frame_ref *subscription_pack_catalog(const struct subscription *subscription,
					    const Ringtail__V1__Catalog *all,
					    struct frame_codec *codec, uint32_t *probes)
{
	Ringtail__V1__Catalog mine = RINGTAIL__V1__CATALOG__INIT;
	struct frame_ref *frame;

	mine.probe = calloc(all->n_probe + 1, sizeof(*mine.probe));
	if (!mine.probe)
		return NULL;
	for (size_t i = 0; i < all->n_probe; i++)
		if (probe_set_test(&subscription->spec.probes, all->probe[i]->id))
			mine.probe[mine.n_probe++] = all->probe[i];
	*probes = (uint32_t)mine.n_probe;
	frame = frame_ref_pack(codec, FRAME_CATALOG, &mine.base);
	free(mine.probe);
	return frame;
}

bool subscription_equal(const struct subscription *a, const struct subscription *b)
{
	return a->spec.flags == b->spec.flags && a->spec.file_strings == b->spec.file_strings &&
	       question_equal(a->spec.question, b->spec.question) &&
	       a->owner == b->owner && has_same_late(a, b) &&
	       strcmp(a->filter_text, b->filter_text) == 0 && probe_set_equal(&a->spec.probes, &b->spec.probes);
}

/* What a batch skipped it tells itself; a range without a frame waits for the next watermark. */
static void note_place(struct subscription *subscription, const struct frame_ref *frame)
{
	subscription->position[frame->ring] = frame->end_seq;
	if (frame->bytes)
		subscription->quiet[frame->ring] = 0;
	else
		subscription->quiet[frame->ring] += frame_ref_attempts(frame);
}

void subscription_append(struct subscription *subscription, struct frame_ref *frame)
{
	struct stream *stream;

	if (frame->type == FRAME_BATCH || frame->type == FRAME_GAP)
		note_place(subscription, frame);
	subscription->ended = frame->type == FRAME_BYE;
	if (subscription->spool.spool && frame->type != FRAME_BYE)
		spool_append(subscription->spool.spool, frame_ref_get(frame));
	frame_log_append(subscription->log, frame);
	TAILQ_FOREACH(stream, &subscription->streams, link)
		stream_on_append(stream);
}
