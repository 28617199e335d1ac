#include "tests/sim/oracle.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/ring/probe_table.h"
#include "proto/batch_decode.h"
#include "proto/limits.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_daemon.h"
#include "tests/unit/daemon/small_catalog.h"

#define SPANS_MAX 64u

static struct batch_decoder *decoder;
static struct oracle_span *watched[SPANS_MAX];
static unsigned spans;

/* What clients were told that they have, and the next run of the daemon goes on with. */
static struct owed {
	const struct loader *loader;
	const struct oracle_spec *spec;
	bool strings, context;
	uint64_t until_ns;
} owed[SPANS_MAX];
static unsigned owes;
static uint64_t kept_until_ns;		/* by the run that goes on, for who is not back yet */

/* ---- What may be asked for ------------------------------------------------------------------- */

static bool is_call(const struct attempt *attempt)
{
	return attempt->probe >= RT_PROBE_SYSCALL_CALL && attempt->probe < RT_PROBE_SYSCALL_ENTRY;
}

static bool is_sched(const struct attempt *attempt)
{
	return attempt->probe < RT_PROBE_SYSCALL_CALL;
}

static bool getppids(const struct attempt *attempt)
{
	return attempt->probe == SMALL_GETPPID;
}

static bool failed_calls(const struct attempt *attempt)
{
	return is_call(attempt) && (int64_t)attempt->word[1] < 0;
}

static bool one_thread(const struct attempt *attempt)
{
	return (attempt->probe == SMALL_READ || attempt->probe == SMALL_GETPPID) &&
	       attempt->tid == 101;
}

static bool one_process(const struct attempt *attempt)
{
	return is_call(attempt) && source_pid_of(attempt->tid) == 105;
}

static bool everything(const struct attempt *attempt)
{
	(void)attempt;
	return true;
}

const struct oracle_spec oracle_specs[ORACLE_SPECS] = {
	{{"syscall:getppid:call"}, 1, "", getppids},
	{{"syscall:*:call"}, 1, "ret < 0", failed_calls},
	{{"tracepoint:sched:*"}, 1, "", is_sched},
	{{"syscall:read:call", "syscall:getppid:call"}, 2, "tid == 101", one_thread},
	{{"syscall:*:call"}, 1, "pid == 105", one_process},
	{{"syscall:*:*", "tracepoint:sched:*"}, 2, "", everything},
};

/* ---- Spans ----------------------------------------------------------------------------------- */

void oracle_begin(const Ringtail__V1__Catalog *catalog)
{
	static struct batch_probe probe[RT_PROBE_MAX];
	static struct probe_table table;
	struct error error;

	if (probe_table_init(&table, catalog, &error) != 0)
		sim_fail("the catalog is no good: %s", error.what);
	for (unsigned id = 0; id < RT_PROBE_MAX; id++)
		probe[id] = (struct batch_probe){.fields = table.probe[id].fields,
						 .has_duration = table.probe[id].has_duration,
						 .known = table.probe[id].known};
	decoder = batch_decoder_create(probe, RT_PROBE_MAX);
	if (!decoder)
		sim_fail("the simulation is out of memory");
}

void oracle_watch(struct oracle_span *span)
{
	if (spans == SPANS_MAX)
		sim_fail("more clients than the simulation counts");
	watched[spans++] = span;
}

void oracle_unwatch(struct oracle_span *span)
{
	for (unsigned i = 0; i < spans; i++)
		if (watched[i] == span)
			watched[i] = watched[--spans];
}

void oracle_unrecorded(const struct loader *loader, const struct unrecorded *unrecorded)
{
	for (unsigned i = 0; i < owes; i++)
		if (owed[i].loader == loader && sim.now_ns < owed[i].until_ns &&
		    owed[i].spec->passes(&unrecorded->attempt))
			sim_fail("an event (probe %#x, tid %u, ring %u) is not recorded, which a client had"
				 " asked the run before for", unrecorded->attempt.probe,
				 unrecorded->attempt.tid, unrecorded->ring);
	for (unsigned i = 0; i < spans; i++)
		if (watched[i]->live && watched[i]->loader == loader &&
		    watched[i]->spec->passes(&unrecorded->attempt))
			sim_fail("%s: an event it asked for (probe %#x, tid %u, ring %u) is not recorded",
				 watched[i]->client, unrecorded->attempt.probe,
				 unrecorded->attempt.tid, unrecorded->ring);
}

void oracle_owe(const struct loader *loader)
{
	owes = 0;
	for (unsigned i = 0; i < spans && !sim.shortage.struck && !sim_manager_refused(); i++)
		if (watched[i]->live && watched[i]->loader == loader)
			owed[owes++] = (struct owed){loader, watched[i]->spec, watched[i]->strings,
						     watched[i]->context, UINT64_MAX};
	sim_log("the next run owes what %u clients want", owes);
}

void oracle_adopted(const struct loader *loader, uint64_t until_ns)
{
	kept_until_ns = until_ns;
	for (unsigned i = 0; i < owes; i++)
		if (owed[i].loader == loader)
			owed[i].until_ns = until_ns;
}

void oracle_keeps_until(const struct loader *loader, uint64_t until_ns)
{
	if (kept_until_ns > until_ns)
		kept_until_ns = until_ns;
	for (unsigned i = 0; i < owes; i++)
		if (owed[i].loader == loader && owed[i].until_ns > until_ns)
			owed[i].until_ns = until_ns;
}

void oracle_gave_up(void)
{
	owes = 0;
}

void oracle_says_bye(const struct oracle_span *span)
{
	for (unsigned i = owes; i-- > 0;)
		if (owed[i].spec == span->spec && owed[i].strings == span->strings &&
		    owed[i].context == span->context)
			owed[i] = owed[--owes];
}

void oracle_run_ended(const struct loader *loader)
{
	for (unsigned i = 0; i < spans; i++)
		if (watched[i]->loader == loader)
			watched[i]->live = false;
}

void oracle_expect(struct oracle_span *span, unsigned run)
{
	span->daemon = run;
	span->exact = span->live && span->since.known && span->since.bye_run + 1 == run &&
		      span->since.epoch == span->cursor.epoch && source_left_well(span->loader) &&
		      sim.now_ns < kept_until_ns && !sim_manager_refused() && !sim.shortage.struck;
}

static unsigned ring_of(const struct oracle_span *span, uint32_t cpu)
{
	int ring = source_ring_of(span->loader, cpu);

	if (ring < 0)
		sim_fail("%s: CPU %u, which is not there", span->client, cpu);
	return (unsigned)ring;
}

/* Of what was before it came, it was told that some is missing; how much, nobody knows. */
static bool is_excused(const struct oracle_span *span, const struct attempt *attempt)
{
	return span->vague && attempt->time_ns < span->live_ns;
}

/* The attempts first .. end - 1, which the daemon says are not for this client, are not. */
static void check_skipped(const struct oracle_span *span, unsigned ring, uint64_t first,
			  uint64_t end)
{
	const struct source_truth *truth = source_truth(span->loader, ring);

	if (end > truth->n)
		sim_fail("%s: ring %u has not come to %" PRIu64, span->client, ring, end);
	for (uint64_t seq = first; seq < end; seq++) {
		const struct attempt *attempt = &truth->attempt[seq];

		if (attempt->kind == ATTEMPT_META || is_excused(span, attempt) ||
		    (attempt->kind == ATTEMPT_EVENT && !span->spec->passes(attempt)))
			continue;
		sim_fail("%s: attempt %" PRIu64 " of ring %u, %s (probe %#x, tid %u, at %" PRIu64 "), went missing",
			 span->client, seq, ring,
			 attempt->kind == ATTEMPT_EVENT ? "an event it asked for" : "a loss",
			 attempt->probe, attempt->tid, attempt->time_ns);
	}
}

/* What is before that it has: nobody need tell it again, though off the disk somebody may. */
static uint64_t has(const struct oracle_span *span, unsigned ring)
{
	const struct oracle_cursor *since = &span->since;

	return span->durable && since->known && since->epoch == span->cursor.epoch &&
	       since->knows[ring] ? since->seq[ring] : 0;
}

/* Off the disk, a ring begins with what comes first of it: no later than what it has. */
static void learn(struct oracle_span *span, unsigned ring, uint64_t seq)
{
	if (span->cursor.knows[ring])
		return;
	if (has(span, ring) && has(span, ring) < seq)
		seq = has(span, ring);
	span->cursor.knows[ring] = true;
	span->cursor.seq[ring] = seq;
}

/* It knew of the ring up to `position`; what it is told now begins at first_seq. */
static void check_joint(struct oracle_span *span, unsigned ring, uint64_t first_seq,
			uint64_t end_seq, const char *what)
{
	learn(span, ring, first_seq);
	if (first_seq > span->cursor.seq[ring] && first_seq <= has(span, ring))
		span->cursor.seq[ring] = first_seq;
	if (first_seq != span->cursor.seq[ring] || end_seq < first_seq)
		sim_fail("%s: a %s of ring %u has %" PRIu64 " .. %" PRIu64 ", after %" PRIu64,
			 span->client, what, ring, first_seq, end_seq, span->cursor.seq[ring]);
}

/* ---- From one run to the next ----------------------------------------------------------------- */

void oracle_come_from(struct oracle_span *span, const struct oracle_cursor *place)
{
	span->has_run = place->known;
	span->run = place->epoch;
	span->told = span->told_restart = false;
}

static uint64_t count_unrecorded(const struct oracle_span *span, uint64_t epoch)
{
	const struct loader *loader = source_of_epoch(epoch);
	const struct unrecorded *unrecorded;
	uint64_t n = 0, wanted = 0;

	unrecorded = loader ? source_unrecorded(loader, &n) : NULL;
	while (n--)
		wanted += span->spec->passes(&unrecorded[n].attempt);
	return wanted;
}

/* Something of a run comes: if it had something of another, nothing was recorded between the two. */
static void enter_run(struct oracle_span *span)
{
	if (span->has_run && span->run != span->cursor.epoch && !span->told &&
	    !sim.shortage.struck)
		sim_fail("%s: comes from epoch %" PRIu64 " to %" PRIu64 " without a gap, and %"
			 PRIu64 " events that it asked for were not recorded", span->client, span->run,
			 span->cursor.epoch, count_unrecorded(span, span->run));
	span->has_run = true;
	span->run = span->cursor.epoch;
	span->told = span->told_restart = false;
}

/* It asked for all since a time: what it does not begin with, it has to be told of. */
static void check_reach(struct oracle_span *span)
{
	uint64_t n;
	const struct unrecorded *unrecorded = source_unrecorded(span->loader, &n);
	bool lacks = false;

	for (; n && unrecorded[n - 1].time_ns >= span->asked_ns; n--)
		lacks |= span->spec->passes(&unrecorded[n - 1].attempt);
	for (unsigned i = 0; i < loader_rings(span->loader); i++) {
		const struct source_truth *truth = source_truth(span->loader, i);

		for (uint64_t seq = span->cursor.knows[i] ? span->cursor.seq[i] : 0; seq; seq--) {
			const struct attempt *attempt = &truth->attempt[seq - 1];

			if (attempt->time_ns < span->asked_ns)
				break;
			lacks |= attempt->kind == ATTEMPT_EVENT && span->spec->passes(attempt);
		}
	}
	span->owes_gap = lacks && !sim.jumped && !sim.shortage.struck;
	sim_log("%s: begins at a time%s", span->client, lacks ? ", and not with all since then" : "");
}

/* What is of before that time may come first: then the gap stands behind it, in its place. */
static void check_told(const struct oracle_span *span, uint64_t time_ns)
{
	if (span->owes_gap && time_ns >= span->asked_ns)
		sim_fail("%s: asked for what was since %" PRIu64 ", has not all of it, and is not told so",
			 span->client, span->asked_ns);
}

static bool says_restart(const Ringtail__V1__Gap *gap)
{
	return gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED ||
	       gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_RESTART ||
	       gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_OTHER_EPOCH;
}

/*
 * A gap of no size. In memory there is one for each ring; off the disk one stands between two runs, where
 * the later one begins, and none anywhere else. Its reason is how the first of the two ended. Beside it may
 * stand others, of other reasons: of what the later run began with, and the disk has lost.
 */
static void check_restart(struct oracle_span *span, const Ringtail__V1__Gap *gap)
{
	bool crosses = span->has_run && span->run != span->cursor.epoch;
	const struct loader *from = crosses ? source_of_epoch(span->run) : NULL;

	if (gap->stage == RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL && says_restart(gap) &&
	    span->has_run && (!crosses || span->told_restart) && !span->late && !sim.shortage.struck)
		sim_fail("%s: a gap of no size in epoch %" PRIu64 ", and nothing is missing there",
			 span->client, span->cursor.epoch);
	if (from && gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED &&
	    !source_ended_well(from))
		sim_fail("%s: epoch %" PRIu64 " was killed, and is told to have ended in order",
			 span->client, span->run);
	if (crosses && span->told && !span->told_restart && says_restart(gap))
		sim_log("%s: two reasons stand between two runs", span->client);
	span->told |= crosses;
	span->told_restart |= crosses && says_restart(gap);
	span->owes_gap = false;
	span->vague = span->late;
}

void oracle_subscribed(struct oracle_span *span, const struct loader *loader,
		       const Ringtail__V1__Subscribed *message, const struct oracle_cursor *since)
{
	const struct unrecorded *unrecorded;
	bool same = since->known && since->epoch == message->start->epoch;
	uint64_t n;

	if (message->start->epoch != source_epoch(loader))
		sim_fail("%s: subscribed in epoch %" PRIu64, span->client, message->start->epoch);
	/* A run of which the disk has nothing but that it began is told of like any other. */
	if (span->cursor.known && span->cursor.epoch != message->start->epoch)
		span->told_restart = false;
	span->loader = loader;
	span->live = true;
	span->cursor = (struct oracle_cursor){.known = true, .epoch = message->start->epoch};
	span->since = *since;
	for (size_t i = 0; i < message->start->n_position; i++) {
		unsigned ring = ring_of(span, message->start->position[i]->cpu);
		uint64_t seq = message->start->position[i]->seq;

		span->cursor.knows[ring] = true;
		span->cursor.seq[ring] = seq;
		sim_log("%s: begins at %" PRIu64 " of ring %u, asked for %" PRIu64, span->client, seq,
			ring, same ? since->seq[ring] : 0);
		if (same && since->knows[ring] && seq > since->seq[ring])
			sim_fail("%s: came back at %" PRIu64 " of ring %u, and goes on at %" PRIu64,
				 span->client, since->seq[ring], ring, seq);
	}
	span->live_ns = sim.now_ns;
	/* Where runs before come first, what is to come of this one is not known yet. */
	span->owes_gap = false;
	if (span->asked_ns)
		check_reach(span);
	if (message->resumed && !same && !span->durable && !span->asked_ns)
		sim_fail("%s: resumed at no cursor", span->client);
	if (span->durable || span->asked_ns)
		return;
	unrecorded = source_unrecorded(loader, &n);
	while (message->resumed && n-- && unrecorded[n].time_ns > since->left_ns)
		if (!unrecorded[n].after_end && span->spec->passes(&unrecorded[n].attempt))
			sim_fail("%s: resumed without a gap, and an event before %" PRIu64
				 " of ring %u was not recorded while it was away",
				 span->client, unrecorded[n].seq, unrecorded[n].ring);
}

void oracle_passed(const struct oracle_span *span, const struct oracle_cursor *cursor)
{
	const struct loader *loader = source_of_epoch(cursor->epoch);
	struct oracle_span past = *span;

	if (!cursor->known || !loader || !source_ended_orderly(loader))
		return;
	past.loader = loader;
	for (unsigned i = 0; i < loader_rings(loader); i++)
		if (cursor->knows[i])
			check_skipped(&past, i, cursor->seq[i], source_truth(loader, i)->n);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static void check_thread(const struct oracle_span *span, const struct attempt *attempt,
			 const struct batch_thread *thread)
{
	char comm[RT_COMM_BYTES];

	/* Without memory a thread may have no name, but it is told apart. */
	if (sim.shortage.struck && thread->tid == attempt->tid && !thread->pid)
		return;
	source_comm_of(attempt->tid, attempt->life, comm);
	if (thread->tid != attempt->tid || thread->pid != source_pid_of(attempt->tid) ||
	    thread->uid != source_uid_of(attempt->tid) ||
	    memcmp(thread->comm, comm, sizeof(comm)) != 0)
		sim_fail("%s: thread %u is told as %u of process %u", span->client, attempt->tid,
			 thread->tid, thread->pid);
}

static bool is_text(const struct batch_text *text, const char *is)
{
	return text && text->bytes == strlen(is) && memcmp(text->data, is, text->bytes) == 0;
}

/* With context each thread has its texts, for they come before it; without, nobody has. */
static void check_texts(const struct oracle_span *span, const struct batch_thread *thread)
{
	if (sim.shortage.struck)
		return;
	if (!span->context && !thread->exe && !thread->cgroup)
		return;
	if (!span->context || !sim.rich || !is_text(thread->exe, source_text_of(thread->tid, SOURCE_EXE)) ||
	    !is_text(thread->cgroup, source_text_of(thread->tid, SOURCE_CGROUP)))
		sim_fail("%s: thread %u has not the texts that it has", span->client, thread->tid);
}

/* Who asked for strings has that of the event, and it alone; who did not has none. */
static void check_strings(const struct oracle_span *span, const struct attempt *attempt,
			  const struct batch_item *item)
{
	bool wanted = span->strings && attempt->strung;
	char string[SOURCE_STRING_BYTES];
	size_t bytes = source_string_of(attempt, string);

	/* Behind an unfinished record, its stream has some of before it asked. */
	if (span->strings && span->live && attempt->has_string && !attempt->strung &&
	    attempt->time_ns > source_strings_ns(span->loader))
		sim_fail("%s: a string it asked for was not recorded", span->client);
	if (item->attachments == 0 && (!wanted || is_excused(span, attempt) || sim.shortage.struck))
		return;
	if (!wanted || item->attachments != 1 || item->attachment[0].text_bytes != bytes ||
	    memcmp(item->attachment[0].text, string, bytes) != 0 ||
	    item->attachment[0].arg != (is_call(attempt) ? SOURCE_STRING_ARG + 2 : SOURCE_STRING_ARG))
		sim_fail("%s: event %" PRIu64 " has %zu attachments, and not its string", span->client,
			 item->seq, item->attachments);
}

static void check_event(struct oracle_span *span, unsigned ring, const struct batch_item *item)
{
	const struct source_truth *truth = source_truth(span->loader, ring);
	const struct attempt *attempt = &truth->attempt[item->seq];

	if (item->seq >= truth->n || attempt->kind != ATTEMPT_EVENT)
		sim_fail("%s: event %" PRIu64 " of ring %u never was", span->client, item->seq,
			 ring);
	if (!span->spec->passes(attempt))
		sim_fail("%s: event %" PRIu64 " of ring %u was not asked for", span->client,
			 item->seq, ring);
	if (item->event.probe != attempt->probe || item->event.time_ns != attempt->time_ns ||
	    item->event.fields != attempt->words ||
	    memcmp(item->event.field, attempt->word, attempt->words * 8) != 0)
		sim_fail("%s: event %" PRIu64 " of ring %u is not what it was", span->client,
			 item->seq, ring);
	check_thread(span, attempt, item->thread);
	check_texts(span, item->thread);
	check_strings(span, attempt, item);
	if (attempt->time_ns < span->watermark_ns)
		sim_fail("%s: event %" PRIu64 " of ring %u is older than the watermark",
			 span->client, item->seq, ring);
	span->events++;
}

static void check_loss(struct oracle_span *span, unsigned ring, const struct batch_loss *loss)
{
	const struct source_truth *truth = source_truth(span->loader, ring);
	bool decode = loss->stage == RINGTAIL__V1__LOSS_STAGE__LOSS_DECODE;

	if (loss->first_seq + loss->count > truth->n ||
	    (!decode && loss->stage != RINGTAIL__V1__LOSS_STAGE__LOSS_RING))
		sim_fail("%s: a loss of stage %u at %" PRIu64 " of ring %u", span->client,
			 loss->stage, loss->first_seq, ring);
	for (uint64_t i = 0; i < loss->count; i++)
		if (truth->attempt[loss->first_seq + i].kind !=
		    (decode ? ATTEMPT_BAD : ATTEMPT_LOST))
			sim_fail("%s: attempt %" PRIu64 " of ring %u was not lost there",
				 span->client, loss->first_seq + i, ring);
	span->lost += loss->count;
}

void oracle_batch(struct oracle_span *span, const uint8_t *message, uint32_t bytes)
{
	struct batch_summary summary;
	struct batch_item item;
	unsigned ring;
	uint64_t seq;

	if (batch_decode_open(decoder, message, bytes, &summary) != 0)
		sim_fail("%s: a batch is no good: %s", span->client, batch_decode_error(decoder));
	ring = ring_of(span, summary.cpu);
	enter_run(span);
	check_joint(span, ring, summary.first_seq, summary.end_seq, "batch");
	seq = summary.first_seq;
	while (batch_decode_next(decoder, &item) != BATCH_END) {
		if (item.kind == BATCH_ERROR)
			sim_fail("%s: a batch is no good: %s", span->client,
				 batch_decode_error(decoder));
		if (item.kind == BATCH_EVENT) {
			check_skipped(span, ring, seq, item.seq);
			check_event(span, ring, &item);
			seq = item.seq + 1;
		} else {
			check_skipped(span, ring, seq, item.loss.first_seq);
			check_loss(span, ring, &item.loss);
			seq = item.loss.first_seq + item.loss.count;
		}
	}
	check_skipped(span, ring, seq, summary.end_seq);
	span->cursor.seq[ring] = summary.end_seq;
	sim_log("%s: batch of ring %u, %" PRIu64 " .. %" PRIu64 ", %u events", span->client, ring,
		summary.first_seq, summary.end_seq, summary.events);
}

/* ---- The rest of a stream -------------------------------------------------------------------- */

/* Of a gap's attempts, those that were for this client: its events, and losses that all see. */
static uint64_t count_wanted(const struct oracle_span *span, unsigned ring, uint64_t first,
			     uint64_t end)
{
	const struct source_truth *truth = source_truth(span->loader, ring);
	uint64_t n = 0;

	for (uint64_t seq = first; seq < end; seq++)
		n += !is_excused(span, &truth->attempt[seq]) &&
		     (truth->attempt[seq].kind == ATTEMPT_LOST ||
		      truth->attempt[seq].kind == ATTEMPT_BAD ||
		      (truth->attempt[seq].kind == ATTEMPT_EVENT &&
		       span->spec->passes(&truth->attempt[seq])));
	return n;
}

void oracle_gap(struct oracle_span *span, const Ringtail__V1__Gap *gap)
{
	unsigned ring = ring_of(span, gap->cpu);
	bool queue = gap->stage == RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE;
	uint64_t wanted;

	sim_log("%s: gap of ring %u, %" PRIu64 " .. %" PRIu64 ", stage %d, reason %d, %" PRIu64
		" events", span->client, ring, gap->first_seq, gap->end_seq, gap->stage,
		gap->reason, gap->events);
	if (gap->end_seq == gap->first_seq) {
		check_restart(span, gap);
		span->gaps++;
		return;
	}
	enter_run(span);
	span->owes_gap &= !says_restart(gap);
	check_joint(span, ring, gap->first_seq, gap->end_seq, "gap");
	if (gap->end_seq > source_truth(span->loader, ring)->n)
		sim_fail("%s: a gap beyond the end of ring %u", span->client, ring);
	if (gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_RESTART && source_begin_of(span->loader, ring) &&
	    gap->end_seq > source_begin_of(span->loader, ring))
		sim_fail("%s: %" PRIu64 " .. %" PRIu64 " of ring %u are said to have been lost at the restart,"
			 " which was at %" PRIu64, span->client, gap->first_seq, gap->end_seq, ring,
			 source_begin_of(span->loader, ring));
	if (span->exact && gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_RESTART)
		sim_fail("%s: the run before handed over, and %" PRIu64 " .. %" PRIu64 " of ring %u are lost",
			 span->client, gap->first_seq, gap->end_seq, ring);
	if (span->consumer && gap->stage == RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL &&
	    gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL && !sim.gave_up &&
	    !sim.shortage.struck)
		sim_fail("%s: %" PRIu64 " .. %" PRIu64 " of ring %u, which it has not acknowledged, is"
			 " deleted, and there was room", span->client, gap->first_seq, gap->end_seq,
			 ring);
	if (gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_RATE_LIMIT && sim.operators)
		sim_fail("%s: an operator has no share", span->client);
	if (queue && span->healthy && gap->reason != RINGTAIL__V1__LOSS_REASON__REASON_MEMORY &&
	    gap->reason != RINGTAIL__V1__LOSS_REASON__REASON_RATE_LIMIT)
		sim_fail("%s: it takes all that it is sent, and lost %" PRIu64 " events",
			 span->client, gap->events);
	/* Of another's record, nobody counts what of it this one wanted. */
	wanted = count_wanted(span, ring, gap->first_seq, gap->end_seq);
	if (queue && (span->late ? gap->events < wanted : gap->events != wanted))
		sim_fail("%s: a gap of %" PRIu64 " events of ring %u says it is of %" PRIu64,
			 span->client, wanted, ring, gap->events);
	span->gaps++;
	span->cursor.seq[ring] = gap->end_seq;
}

void oracle_watermark(struct oracle_span *span, const Ringtail__V1__Watermark *message)
{
	/* What names no ring is nothing of the run: it follows a gap of no size that all begins with. */
	if (message->n_position || !span->late)
		enter_run(span);
	check_told(span, message->time_ns);
	if (sim.steps)
		sim_log("%s: a watermark of %" PRIu64, span->client, message->time_ns);
	if (message->time_ns < span->watermark_ns)
		sim_fail("%s: a watermark goes back in time, from %" PRIu64 " to %" PRIu64, span->client,
			 span->watermark_ns, message->time_ns);
	if (message->time_ns > span->watermark_ns)
		span->watermark_ns = message->time_ns;
	for (size_t i = 0; i < message->n_position; i++) {
		const Ringtail__V1__Position *position = message->position[i];
		unsigned ring = ring_of(span, position->cpu);

		learn(span, ring, position->seq);
		if (position->seq < span->cursor.seq[ring])
			sim_fail("%s: a watermark takes ring %u back from %" PRIu64 " to %" PRIu64,
				 span->client, ring, span->cursor.seq[ring], position->seq);
		if (position->seq > span->cursor.seq[ring])
			sim_log("%s: watermark of ring %u, %" PRIu64 " .. %" PRIu64, span->client,
				ring, span->cursor.seq[ring], position->seq);
		if (span->cursor.seq[ring] < has(span, ring))
			span->cursor.seq[ring] = has(span, ring) < position->seq ? has(span, ring) :
										   position->seq;
		check_skipped(span, ring, span->cursor.seq[ring], position->seq);
		/* Fewer than said: some of them were in a gap that it has been told of. */
		if (position->skipped < position->seq - span->cursor.seq[ring])
			sim_fail("%s: a watermark skips %" PRIu64 " of ring %u, and moves on by %"
				 PRIu64, span->client, position->skipped, ring,
				 position->seq - span->cursor.seq[ring]);
		span->cursor.seq[ring] = position->seq;
	}
}

void oracle_bye(struct oracle_span *span, const Ringtail__V1__Bye *message)
{
	enter_run(span);
	for (size_t i = 0; i < message->end->n_position; i++) {
		const Ringtail__V1__Position *position = message->end->position[i];
		unsigned ring = ring_of(span, position->cpu);
		uint64_t mine, all = source_truth(span->loader, ring)->n;

		learn(span, ring, position->seq);
		mine = span->cursor.seq[ring];
		check_skipped(span, ring, mine, position->seq);
		/* Who hands over leaves the rest in the ring. */
		if (daemon_handed_over(span->daemon) && position->seq < all)
			all = position->seq;
		if (position->seq < mine || position->seq != all)
			sim_fail("%s: the end of ring %u is %" PRIu64 ", after %" PRIu64
				 ", and it has %" PRIu64, span->client, ring, position->seq, mine,
				 all);
		span->cursor.seq[ring] = position->seq;
	}
	span->live = false;
	sim_log("%s: bye, after %" PRIu64 " events, %" PRIu64 " lost, %" PRIu64 " gaps",
		span->client, span->events, span->lost, span->gaps);
}

/* ---- The ledger ------------------------------------------------------------------------------ */

/* Since the run that is asked began. */
static uint64_t count_lost(const struct source_truth *truth, uint64_t begin, enum attempt_kind kind,
			   enum rt_lost reason)
{
	uint64_t n = 0;

	for (uint64_t seq = begin; seq < truth->n; seq++)
		n += truth->attempt[seq].kind == kind &&
		     (kind != ATTEMPT_LOST || truth->attempt[seq].reason == reason);
	return n;
}

static void check_losses(const struct source_truth *truth, uint64_t begin,
			 const Ringtail__V1__RingStat *stat)
{
	uint64_t full = 0, nest = 0, bad = 0, other = 0;

	for (size_t i = 0; i < stat->n_lost; i++)
		switch (stat->lost[i]->reason) {
		case RINGTAIL__V1__LOSS_REASON__REASON_RING_FULL:
			full += stat->lost[i]->count;
			break;
		case RINGTAIL__V1__LOSS_REASON__REASON_NEST:
			nest += stat->lost[i]->count;
			break;
		case RINGTAIL__V1__LOSS_REASON__REASON_BAD_RECORD:
			bad += stat->lost[i]->count;
			break;
		default:
			other += stat->lost[i]->count;
		}
	if (full != count_lost(truth, begin, ATTEMPT_LOST, RT_LOST_FULL) ||
	    nest != count_lost(truth, begin, ATTEMPT_LOST, RT_LOST_NEST) ||
	    bad != count_lost(truth, begin, ATTEMPT_BAD, 0) || other)
		sim_fail("CPU %u: lost %" PRIu64 " full, %" PRIu64 " nested, %" PRIu64 " bad, %"
			 PRIu64 " others: that is not so", stat->cpu, full, nest, bad, other);
}

void oracle_stat(const struct loader *loader, const Ringtail__V1__Stat *message, bool quiet,
		 uint64_t queue_bytes_max)
{
	for (size_t i = 0; i < message->n_ring; i++) {
		const Ringtail__V1__RingStat *stat = message->ring[i];
		unsigned ring = (unsigned)source_ring_of(loader, stat->cpu);
		const struct source_truth *truth = source_truth(loader, ring);
		uint64_t begin = source_begin_of(loader, ring), all = truth->n - begin;

		if (stat->residual || stat->produced > all)
			sim_fail("CPU %u: residual %" PRId64 ", produced %" PRIu64 " of %" PRIu64,
				 stat->cpu, stat->residual, stat->produced, all);
		if (!quiet)
			continue;
		if (stat->produced != all || stat->in_flight)
			sim_fail("CPU %u: produced %" PRIu64 " of %" PRIu64 ", %" PRIu64 " in flight",
				 stat->cpu, stat->produced, all, stat->in_flight);
		check_losses(truth, begin, stat);
	}
	for (size_t i = 0; i < message->n_consumer; i++)
		if (message->consumer[i]->residual)
			sim_fail("consumer %s: residual %" PRId64 " of %" PRIu64 " stored", message->consumer[i]->name,
				 message->consumer[i]->residual, message->consumer[i]->stored);
	for (size_t i = 0; i < message->n_client; i++) {
		const Ringtail__V1__ClientStat *stat = message->client[i];

		if (stat->residual)
			sim_fail("client %" PRIu64 ": residual %" PRId64, stat->id, stat->residual);
		if (stat->queue_bytes > queue_bytes_max + FRAME_RAW_BYTES_MAX)
			sim_fail("client %" PRIu64 ": %" PRIu64 " bytes wait, over the bound of %"
				 PRIu64, stat->id, stat->queue_bytes, queue_bytes_max);
		if (quiet && stat->in_flight)
			sim_fail("client %" PRIu64 ": %" PRIu64 " in flight", stat->id,
				 stat->in_flight);
	}
}
