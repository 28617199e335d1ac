#include "daemon/ask/asks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ask/answer.h"
#include "daemon/ask/key.h"
#include "daemon/ask/question.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/metrics/self.h"
#include "daemon/metrics/stat.h"
#include "daemon/stream/stream.h"
#include "proto/frame.h"

#define OTHERS		"(others)"

struct ask {
	struct asks *asks;
	struct ask_question question;
	struct ask_answer *answer;
	struct client_identity identity;
	struct subscriber subscriber;
	struct stream *stream;		/* NULL: its probes are not recorded yet, or were refused */
	struct event *turn;		/* there are more frames than one turn takes */
	uint64_t taken;			/* events that were counted, or could not be */
};

struct asks {
	struct asks_config config;
	struct batch_probe shape[RT_PROBE_MAX];		/* of the catalog, for the decoder */
	const Ringtail__V1__Probe *probe[RT_PROBE_MAX];	/* by id; NULL: there is none */
	struct batch_decoder *decoder;
	struct ask *ask[ASKS_MAX];
	unsigned count;
};

/* ---- Counting -------------------------------------------------------------------------------- */

static void count_event(struct ask *ask, uint32_t cpu, const struct batch_item *item)
{
	const Ringtail__V1__Probe *probe = ask->asks->probe[item->event.probe];
	const struct ask_question *question = &ask->question;
	struct ask_key key;
	uint64_t value;
	bool has_value;

	key.bytes = 0;
	for (unsigned i = 0; i < question->bys; i++)
		ask_key_add(&key, question->by[i], probe, cpu, item);
	has_value = question->of[0] && ask_key_number(question->of, probe, item, &value);
	ask_answer_add(ask->answer, &key, has_value ? &value : NULL, ask_key_errno(probe, item) != 0);
}

/* How many events it had. */
static uint64_t count_batch(struct ask *ask, const uint8_t *message, size_t bytes)
{
	struct batch_decoder *decoder = ask->asks->decoder;
	struct batch_summary summary;
	struct batch_item item;
	uint64_t events = 0;

	if (batch_decode_open(decoder, message, bytes, &summary) != 0)
		return 0;
	while (batch_decode_next(decoder, &item) < BATCH_END)
		if (item.kind == BATCH_EVENT) {
			count_event(ask, summary.cpu, &item);
			events++;
		}
	return events;
}

static void take(struct ask *ask, const struct frame_ref *frame)
{
	struct frame_header header;
	const uint8_t *message;
	uint64_t events = 0;
	uint8_t *raw = NULL;

	if (!frame->events)
		return;
	if (frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header) == FRAME_OK)
		raw = malloc(header.raw_bytes + 1);
	if (raw && frame_open(ask->asks->config.codec, frame->data, &header, raw, &message) == FRAME_OK)
		events = count_batch(ask, message, header.raw_bytes);
	free(raw);
	ask->taken += frame->events;
	if (events < frame->events)
		counter_add(COUNTER_ask_events_uncounted, frame->events - events);
}

/* ---- As a subscriber --------------------------------------------------------------------------- */

/* What was missed is in the ledger of its stream, and told from there. */
static void on_gap(void *told, struct frame_ref *frame)
{
	*(bool *)told = true;
	frame_ref_put(frame);
}

static void on_wake(void *context)
{
	struct ask *ask = context;

	for (unsigned frames = 0; frames < ASK_FRAMES_PER_TURN;) {
		struct frame_ref *frame;
		bool told = false;
		unsigned n = stream_peek(ask->stream, &frame, 1, on_gap, &told);

		if (!n && (!told || ask->stream->gaps))
			return;
		if (!n)
			continue;
		frame_ref_get(frame);
		stream_sent(ask->stream);
		take(ask, frame);
		frame_ref_put(frame);
		frames++;
	}
	event_active(ask->turn, 0, 0);
}

static void on_turn(evutil_socket_t fd, short what, void *context)
{
	struct ask *ask = context;

	(void)fd, (void)what;
	if (ask->stream)
		on_wake(ask);
}

/* Probes may have been made since the last time. */
static void read_catalog(struct asks *asks)
{
	const Ringtail__V1__Catalog *catalog = asks->config.catalog;

	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= RT_PROBE_MAX || probe->n_field > PROBE_FIELDS_MAX)
			continue;	/* none of its events comes */
		asks->probe[probe->id] = probe;
		asks->shape[probe->id] = (struct batch_probe){
			.fields = (uint8_t)probe->n_field,
			.has_duration = probe->n_field &&
					probe->field[0]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION,
			.known = true,
		};
	}
}

static int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	struct ask *ask = context;

	(void)from;
	read_catalog(ask->asks);
	ask->stream = stream;
	return 0;
}

static void on_refused(void *context, const struct error *error)
{
	struct ask *ask = context;

	if (strcmp(error->code, "shutting-down") == 0)
		return;
	log_error("ask-refused", "ask %s: nothing is recorded for it: %s %s", ask->question.name, error->what,
		  error->hint);
}

/* ---- Questions --------------------------------------------------------------------------------- */

static void destroy(struct ask *ask)
{
	if (ask->subscriber.state != SUBSCRIBER_AWAY)
		fanout_leave(ask->asks->config.fanout, &ask->subscriber, true);
	stream_destroy(ask->stream);
	if (ask->turn)
		event_free(ask->turn);
	ask_answer_destroy(ask->answer);
	ask_question_fini(&ask->question);
	free(ask);
}

static int subscribe(struct ask *ask, struct error *error)
{
	const struct subscribe_request request = {
		.what = {.glob = (const char *const *)ask->question.glob, .globs = ask->question.globs,
			 .filter = ask->question.filter, .flags = ask->question.flags},
	};

	identity_set_unproved(&ask->identity);
	ask->identity.role = ROLE_OPERATOR;
	snprintf(ask->identity.text, sizeof(ask->identity.text), "ask:%s", ask->question.name);
	ask->subscriber = (struct subscriber){
		.identity = &ask->identity, .live = on_live, .refused = on_refused, .wake = on_wake, .context = ask,
	};
	return fanout_subscribe(ask->asks->config.fanout, &ask->subscriber, &request, error);
}

static int create(struct asks *asks, const char *text, unsigned number, struct ask **out, struct error *error)
{
	struct ask *ask = calloc(1, sizeof(*ask));
	int err;

	if (!ask)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	ask->asks = asks;
	err = ask_question_parse(text, number, asks->config.catalog, &ask->question, error);
	if (!err) {
		ask->answer = ask_answer_create((unsigned)ask->question.top);
		ask->turn = event_new(asks->config.base, -1, 0, on_turn, ask);
		err = ask->answer && ask->turn ? subscribe(ask, error) :
						 error_set(error, ENOMEM, "out-of-memory", "out of memory");
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
		err = error_set(error, EINVAL, "ask-untold", "ask: nobody is told the answers");
		error_hint(error, "set http, or a back end that takes metrics");
	}
	for (unsigned i = 0; i < words->count && !err; i++) {
		struct ask_question question;

		err = ask_question_parse(words->word[i], i + 1, NULL, &question, error);
		for (unsigned k = 0; k < question.globs; k++)
			fanout_make_now(asks->config.fanout, question.glob[k]);
		ask_question_fini(&question);
	}
	return err ? err : ask_questions_check(words, asks->config.catalog, error);
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

/* A question without fields has one key, and no others. */
static void tell_answer(const struct ask *ask, const struct family *family, struct metric_builder *builder)
{
	const struct ask_question *question = &ask->question;
	struct metric_label label[ASK_BY_MAX + 1] = {{.name = "ask", .value = question->name}};
	const struct ask_row *row;

	for (unsigned i = 0; i < question->bys; i++)
		label[i + 1].name = metric_keep(builder, question->by[i]);
	for (unsigned at = 0; (row = ask_answer_next(ask->answer, &at));) {
		const char *text = row->key.text;

		for (unsigned i = 0; i < question->bys; i++, text += strlen(text) + 1)
			label[i + 1].value = text;
		family->tell(builder, &row->counts, label, question->bys + 1);
	}
	for (unsigned i = 0; i < question->bys; i++)
		label[i + 1].value = OTHERS;
	if (question->bys)
		family->tell(builder, ask_answer_others(ask->answer), label, question->bys + 1);
}

/* Why a stream misses what it asked for; and what does not add up. */
static void tell_losses(const struct asks *asks, struct metric_builder *builder)
{
	metric_begin(builder, METRIC_COUNTER, "ringtail_ask_lost_total", "",
		     "Events that may be missing in the answer to a question, by where and why they were lost");
	for (unsigned i = 0; i < asks->count; i++) {
		const struct stream *stream = asks->ask[i]->stream;
		struct metric_label owner = {.name = "ask", .value = asks->ask[i]->question.name};
		struct stat_losses losses = {.stages = 0};

		if (stream)
			losses = (struct stat_losses){stream->lost, 0, LOSS_STAGES};
		metric_stream_losses(builder, owner, &losses);
	}
}

static double residual_of(const struct ask *ask)
{
	struct stream_stat stat;

	if (!ask->stream)
		return 0;
	stream_stat(ask->stream, &stat);
	return (double)(stat.residual + (int64_t)(ask->stream->delivered - ask->taken));
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
		metric_add(builder, asks->ask[i]->stream != NULL,
			   &(struct metric_label){.name = "ask", .value = asks->ask[i]->question.name}, 1);
	metric_begin(builder, METRIC_GAUGE, "ringtail_ask_residual", "",
		     "Attempts that no part of a question's ledger accounts for; anything but 0 is a bug");
	for (unsigned i = 0; i < asks->count; i++)
		metric_add(builder, residual_of(asks->ask[i]),
			   &(struct metric_label){.name = "ask", .value = asks->ask[i]->question.name}, 1);
}

/* ---- Life -------------------------------------------------------------------------------------- */

struct asks *asks_create(const struct asks_config *config)
{
	struct asks *asks = calloc(1, sizeof(*asks));

	if (!asks)
		return NULL;
	asks->config = *config;
	read_catalog(asks);
	asks->decoder = batch_decoder_create(asks->shape, RT_PROBE_MAX);
	if (asks->decoder)
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
	batch_decoder_destroy(asks->decoder);
	free(asks);
}
