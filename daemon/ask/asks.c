#include "daemon/ask/asks.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ask/answer.h"
#include "daemon/ask/key.h"
#include "daemon/ask/question.h"
#include "daemon/base/log.h"
#include "daemon/metrics/self.h"
#include "daemon/metrics/stat.h"
#include "daemon/stream/stream.h"

#define OTHERS		"(others)"

struct ask {
	struct asks *asks;
	struct ask_question question;
	struct ask_answer *answer;
	struct ask_watch watch;
};

struct asks {
	struct asks_config config;
	struct ask_watches *watches;
	struct ask *ask[ASKS_MAX];
	unsigned count;
};

/* ---- Counting -------------------------------------------------------------------------------- */

static void count_event(void *context, const Ringtail__V1__Probe *probe, uint32_t cpu, const struct batch_item *item)
{
	struct ask *ask = context;
	const struct ask_question *question = &ask->question;
	struct ask_key key;
	uint64_t value;
	bool has_value;

	key.bytes = 0;
	for (unsigned i = 0; i < question->bys; i++)
		ask_key_add(&key, question->by[i], probe, cpu, item);
	if (item->counts) {
		ask_answer_add_all(ask->answer, &key, item->counts->events);
		return;
	}
	has_value = question->of[0] && ask_key_number(question->of, probe, item, &value);
	ask_answer_add(ask->answer, &key, has_value ? &value : NULL, ask_key_errno(probe, item) != 0);
}

static void on_refused(void *context, const struct error *error)
{
	struct ask *ask = context;

	log_error("ask-refused", "ask %s: nothing is recorded for it: %s %s", ask->question.name, error->what,
		  error->hint);
}

/* ---- Questions --------------------------------------------------------------------------------- */

static void destroy(struct ask *ask)
{
	ask_watch_end(&ask->watch);
	ask_answer_destroy(ask->answer);
	ask_question_fini(&ask->question);
	free(ask);
}

/*
 * Where nothing is asked but how many events there are of each key, the workers count them, or the kernel does, before
 * anything is encoded. A tally of theirs has other buckets than a metric, so what is of a field, as each `hist` and
 * `summary` is of the duration, is decoded here.
 */
static bool counts_only(const struct ask_question *question)
{
	bool fits = !question->of[0];

	static_assert((int)ASK_BY_MAX <= (int)QUESTION_BY_MAX, "a worker counts by as many names");
	for (unsigned i = 0; i < question->bys; i++)
		fits &= strlen(question->by[i]) <= QUESTION_NAME_BYTES_MAX;
	return fits;
}

static int watch(struct ask *ask, struct error *error)
{
	const char *by[ASK_BY_MAX];
	const struct question_request counted = {.by = by, .bys = ask->question.bys, .of = ""};
	const struct subscription_request what = {
		.glob = (const char *const *)ask->question.glob, .globs = ask->question.globs,
		.filter = ask->question.filter, .flags = ask->question.flags,
		.question = counts_only(&ask->question) ? &counted : NULL,
	};

	for (unsigned i = 0; i < ask->question.bys; i++)
		by[i] = ask->question.by[i];

	ask->watch = (struct ask_watch){
		.watches = ask->asks->watches, .role = ROLE_OPERATOR, .event = count_event, .refused = on_refused,
		.context = ask,
	};
	snprintf(ask->watch.name, sizeof(ask->watch.name), "ask:%s", ask->question.name);
	return ask_watch_begin(&ask->watch, &what, error);
}

static int create(struct asks *asks, const char *text, unsigned number, struct ask **out, struct error *error)
{
	struct ask *ask = calloc(1, sizeof(*ask));
	int err;

	if (!ask)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	ask->asks = asks;
	err = ask_question_parse(text, number, asks->config.watch.catalog, &ask->question, error);
	if (!err) {
		ask->answer = ask_answer_create((unsigned)ask->question.top);
		err = ask->answer ? watch(ask, error) : error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	if (err) {
		destroy(ask);
		return err;
	}
	*out = ask;
	return 0;
}

/* The one of this question, taken out of the list; NULL: there is none. Without a name its place is its name. */
static struct ask *take_out(struct ask *list[ASKS_MAX], unsigned n, const char *text, unsigned number)
{
	struct ask_question question;
	struct ask *found = NULL;
	struct error ignored;

	if (ask_question_parse(text, number, NULL, &question, &ignored) != 0)
		return NULL;
	for (unsigned i = 0; i < n && !found; i++)
		if (list[i] && strcmp(list[i]->question.text, text) == 0 &&
		    strcmp(list[i]->question.name, question.name) == 0) {
			found = list[i];
			list[i] = NULL;
		}
	ask_question_fini(&question);
	return found;
}

int asks_check(const struct asks *asks, const struct config *config, struct error *error)
{
	const struct config_words *words = &config->ask;
	int err = ask_questions_check(words, NULL, error);

	if (!err && words->count && !asks->config.told) {
		err = error_set(error, EINVAL, "ask-untold", "ask: the answers are metrics, and no option serves or exports metrics");
		error_hint(error, "set http, or a back end that takes metrics");
	}
	for (unsigned i = 0; i < words->count && !err; i++) {
		struct ask_question question;

		err = ask_question_parse(words->word[i], i + 1, NULL, &question, error);
		for (unsigned k = 0; k < question.globs; k++)
			fanout_make_now(asks->config.watch.fanout, question.glob[k]);
		ask_question_fini(&question);
	}
	return err ? err : ask_questions_check(words, asks->config.watch.catalog, error);
}

int asks_set(struct asks *asks, const struct config *config, struct error *error)
{
	struct ask *old[ASKS_MAX];
	unsigned olds = asks->count;
	int err = 0;

	memcpy(old, asks->ask, sizeof(old));
	memset(asks->ask, 0, sizeof(asks->ask));
	asks->count = 0;
	for (unsigned i = 0; i < config->ask.count && !err; i++) {
		struct ask **ask = &asks->ask[asks->count];

		*ask = take_out(old, olds, config->ask.word[i], i + 1);
		if (!*ask)
			err = create(asks, config->ask.word[i], i + 1, ask, error);
		asks->count += !err;
	}
	for (unsigned i = 0; i < olds; i++)
		if (old[i])
			destroy(old[i]);
	return err;
}

/* ---- Telling ----------------------------------------------------------------------------------- */

/* Of one row, or of all others: what a family has of it. */
typedef void tell_counts(struct metric_builder *builder, const struct ask_counts *counts,
			 const struct metric_label *label, uint32_t labels);

static void tell_events(struct metric_builder *builder, const struct ask_counts *counts,
			const struct metric_label *label, uint32_t labels)
{
	metric_add(builder, (double)counts->events, label, labels);
}

static void tell_errors(struct metric_builder *builder, const struct ask_counts *counts,
			const struct metric_label *label, uint32_t labels)
{
	metric_add(builder, (double)counts->errors, label, labels);
}

static void tell_sum(struct metric_builder *builder, const struct ask_counts *counts,
		     const struct metric_label *label, uint32_t labels)
{
	metric_add(builder, counts->sum, label, labels);
}

static void tell_seconds(struct metric_builder *builder, const struct ask_counts *counts,
			 const struct metric_label *label, uint32_t labels)
{
	metric_add(builder, counts->sum / 1e9, label, labels);
}

static void tell_histogram(struct metric_builder *builder, const struct ask_counts *counts,
			   const struct metric_label *label, uint32_t labels)
{
	struct metric_histogram histogram = {.count = counts->values, .sum_seconds = counts->sum / 1e9};

	memcpy(histogram.bucket, counts->bucket, sizeof(histogram.bucket));
	metric_add_histogram(builder, &histogram, label, labels);
}

static bool of_all(const struct ask_question *question)
{
	return question->name[0];
}

static bool of_summaries(const struct ask_question *question)
{
	return question->shape == ASK_SUMMARY;
}

static bool of_sums(const struct ask_question *question)
{
	return question->shape == ASK_COUNT && question->of[0] && strcmp(question->of, "duration") != 0;
}

static bool of_seconds(const struct ask_question *question)
{
	return question->shape == ASK_COUNT && strcmp(question->of, "duration") == 0;
}

static bool of_histograms(const struct ask_question *question)
{
	return question->shape != ASK_COUNT;
}

static const struct family {
	const char *name, *unit, *help;
	enum metric_type type;
	bool (*of)(const struct ask_question *question);
	tell_counts *tell;
} families[] = {
	{"ringtail_ask_events_total", "", "Events of each question that is always asked, by its fields", METRIC_COUNTER,
	 of_all, tell_events},
	{"ringtail_ask_errors_total", "", "Of these, calls that failed", METRIC_COUNTER, of_summaries, tell_errors},
	{"ringtail_ask_sum_total", "", "The sum of the field that the question is of", METRIC_COUNTER, of_sums, tell_sum},
	{"ringtail_ask_seconds_total", "seconds", "The sum of the durations, of a count of duration", METRIC_COUNTER,
	 of_seconds, tell_seconds},
	{"ringtail_ask_duration_seconds", "seconds", "Durations of the events of each question", METRIC_HISTOGRAM,
	 of_histograms, tell_histogram},
};

/* A question without fields has one key and no others. It is told from the first on: a rate needs a 0 to begin with. */
static void tell_answer(const struct ask *ask, const struct family *family, struct metric_builder *builder)
{
	const struct ask_question *question = &ask->question;
	struct metric_label label[ASK_BY_MAX + 1] = {{.name = "ask", .value = question->name}};
	const struct ask_row *row;
	bool any = false;

	for (unsigned i = 0; i < question->bys; i++)
		label[i + 1].name = metric_keep(builder, question->by[i]);
	for (unsigned at = 0; (row = ask_answer_next(ask->answer, &at));) {
		const char *text = row->key.text;

		for (unsigned i = 0; i < question->bys; i++, text += strlen(text) + 1)
			label[i + 1].value = text;
		family->tell(builder, &row->counts, label, question->bys + 1);
		any = true;
	}
	for (unsigned i = 0; i < question->bys; i++)
		label[i + 1].value = OTHERS;
	if (question->bys || !any)
		family->tell(builder, ask_answer_others(ask->answer), label, question->bys + 1);
}

/* Why a stream misses what it asked for; and what does not add up. */
static void tell_losses(const struct asks *asks, struct metric_builder *builder)
{
	metric_begin(builder, METRIC_COUNTER, "ringtail_ask_lost_total", "",
		     "Events that may be missing in the answer to a question, by where and why they were lost");
	for (unsigned i = 0; i < asks->count; i++) {
		const struct stream *stream = asks->ask[i]->watch.stream;
		struct metric_label owner = {.name = "ask", .value = asks->ask[i]->question.name};
		struct stat_losses losses = {.stages = 0};

		if (stream)
			losses = (struct stat_losses){stream->lost, 0, LOSS_STAGES};
		metric_stream_losses(builder, owner, &losses);
	}
}

void asks_tell(struct asks *asks, struct metric_builder *builder)
{
	if (!asks || !asks->count)
		return;
	for (unsigned i = 0; i < asks->count; i++)
		ask_answer_turn(asks->ask[i]->answer);
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		const struct family *family = &families[f];

		metric_begin(builder, family->type, family->name, family->unit, family->help);
		for (unsigned i = 0; i < asks->count; i++)
			if (family->of(&asks->ask[i]->question))
				tell_answer(asks->ask[i], family, builder);
	}
	tell_losses(asks, builder);
	metric_begin(builder, METRIC_GAUGE, "ringtail_ask_live", "", "Whether events of the question are recorded");
	for (unsigned i = 0; i < asks->count; i++)
		metric_add(builder, asks->ask[i]->watch.stream != NULL,
			   &(struct metric_label){.name = "ask", .value = asks->ask[i]->question.name}, 1);
	metric_begin(builder, METRIC_GAUGE, "ringtail_ask_residual", "",
		     "Attempts that no part of a question's ledger accounts for; anything but 0 is a bug");
	for (unsigned i = 0; i < asks->count; i++)
		metric_add(builder, (double)ask_watch_residual(&asks->ask[i]->watch),
			   &(struct metric_label){.name = "ask", .value = asks->ask[i]->question.name}, 1);
}

/* ---- Life -------------------------------------------------------------------------------------- */

struct asks *asks_create(const struct asks_config *config)
{
	struct asks *asks = calloc(1, sizeof(*asks));

	if (!asks)
		return NULL;
	asks->config = *config;
	asks->watches = ask_watches_create(&config->watch);
	if (asks->watches)
		return asks;
	free(asks);
	return NULL;
}

void asks_destroy(struct asks *asks)
{
	if (!asks)
		return;
	for (unsigned i = 0; i < asks->count; i++)
		destroy(asks->ask[i]);
	ask_watches_destroy(asks->watches);
	free(asks);
}
