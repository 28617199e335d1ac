#include "courier/numbers.h"

#include <stdlib.h>

struct numbers_run *numbers_find(struct numbers *numbers, const struct run *run)
{
	struct numbers_run **oldest = &numbers->run[0];

	for (unsigned i = 0; i < RUNS_KEPT_MAX; i++) {
		struct numbers_run **at = &numbers->run[i];

		if (*at && run_equal(&(*at)->run, run)) {
			(*at)->used = ++numbers->clock;
			return *at;
		}
		if (!*at || (*oldest && (*at)->used < (*oldest)->used))
			oldest = at;
	}
	free(*oldest);
	*oldest = calloc(1, sizeof(**oldest));
	if (!*oldest)
		return NULL;
	(*oldest)->run = *run;
	(*oldest)->used = ++numbers->clock;
	return *oldest;
}

void numbers_fini(struct numbers *numbers)
{
	for (unsigned i = 0; i < RUNS_KEPT_MAX; i++)
		free(numbers->run[i]);
}

/* A gap of no size comes once at its place. */
static enum numbers_verdict judge_sizeless(struct numbers_cpu *at, uint64_t seq)
{
	if (at->sizeless == seq + 1 || (at->known && seq < at->next))
		return NUMBERS_DUPLICATE;
	at->sizeless = seq + 1;
	return NUMBERS_NEW;
}

enum numbers_verdict numbers_span(struct numbers_run *run, const struct forward_span *span,
				  struct forward_span *hole)
{
	struct numbers_cpu *at = &run->cpu[span->cpu];
	enum numbers_verdict verdict = NUMBERS_NEW;

	if (span->first_seq == span->end_seq)
		return judge_sizeless(at, span->first_seq);
	if (at->known && span->end_seq <= at->next)
		return NUMBERS_DUPLICATE;
	if (at->known && span->first_seq < at->next) {
		verdict = NUMBERS_OVERLAP;
	} else if (at->known && span->first_seq > at->next) {
		*hole = (struct forward_span){ true, span->cpu, at->next, span->first_seq };
		verdict = NUMBERS_HOLE;
	}
	at->known = true;
	at->next = span->end_seq;
	return verdict;
}

static enum numbers_verdict move(struct numbers_cpu *at, uint32_t cpu, uint64_t seq, uint64_t skipped,
				 struct forward_span *hole)
{
	enum numbers_verdict verdict = NUMBERS_NEW;

	if (at->known && seq <= at->next)
		return NUMBERS_DUPLICATE;
	if (at->known && seq - at->next > skipped) {
		*hole = (struct forward_span){ true, cpu, at->next, seq - skipped };
		verdict = NUMBERS_HOLE;
	}
	at->known = true;
	at->next = seq;
	return verdict;
}

enum numbers_verdict numbers_start(struct numbers_run *run, const Ringtail__V1__Position *start,
				   struct forward_span *hole)
{
	return move(&run->cpu[start->cpu], start->cpu, start->seq, 0, hole);
}

enum numbers_verdict numbers_watermark(struct numbers_run *run, const Ringtail__V1__Position *position,
				       struct forward_span *hole)
{
	return move(&run->cpu[position->cpu], position->cpu, position->seq, position->skipped, hole);
}
