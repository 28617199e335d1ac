#include "daemon/ask/question.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ask/key.h"
#include "kmod/uapi/ringtail.h"
#include "query/filter.h"
#include "query/nearest.h"
#include "query/probe_set.h"
#include "query/quantity.h"

#define TOP_DEFAULT	20u

/* What has been read of the text. */
struct reader {
	const char *text, *at;
	const Ringtail__V1__Catalog *catalog;
	struct probe_set probes;
	struct ask_question *question;
	struct error *error;
};

/* ---- Words ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5)))
static int refuse(const struct reader *reader, const char *place, const char *code, const char *format, ...)
{
	unsigned column = (unsigned)(place - reader->text) + 1;
	char what[ERROR_TEXT_BYTES - 64];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	error_set(reader->error, EINVAL, code, "column %u: %s", column, what);
	reader->error->column = column;
	return -EINVAL;
}

/* An error of somebody who knows nothing of the question, about the word at `place`. */
static int blame(const struct reader *reader, const char *place, int err)
{
	unsigned column = (unsigned)(place - reader->text) + 1;
	char what[ERROR_TEXT_BYTES];

	snprintf(what, sizeof(what), "column %u: %.*s", column, ERROR_TEXT_BYTES - 64, reader->error->what);
	snprintf(reader->error->what, sizeof(reader->error->what), "%s", what);
	reader->error->column = column;
	return err;
}

static void skip_blanks(struct reader *reader)
{
	while (isspace((unsigned char)*reader->at))
		reader->at++;
}

/* The next word, up to a blank or a comma: how long it is. */
static size_t word_bytes(struct reader *reader)
{
	skip_blanks(reader);
	return strcspn(reader->at, " \t\n\v\f\r,");
}

static bool take_keyword(struct reader *reader, const char *keyword)
{
	size_t bytes = word_bytes(reader);

	if (bytes != strlen(keyword) || memcmp(reader->at, keyword, bytes) != 0)
		return false;
	reader->at += bytes;
	return true;
}

/* A comma goes on with the list. */
static bool take_comma(struct reader *reader)
{
	skip_blanks(reader);
	return *reader->at == ',' && reader->at++;
}

/* ---- What is asked --------------------------------------------------------------------------- */

/* A name is a word that ends with a colon: those of a probe have no blank behind them. */
static int take_name(struct reader *reader, unsigned number)
{
	size_t bytes;

	skip_blanks(reader);
	bytes = strspn(reader->at, "abcdefghijklmnopqrstuvwxyz0123456789-_");
	if (!bytes || reader->at[bytes] != ':') {
		snprintf(reader->question->name, sizeof(reader->question->name), "ask-%u", number);
		return 0;
	}
	if (bytes > ASK_NAME_BYTES_MAX)
		return refuse(reader, reader->at, "ask-name", "a name has at most %u characters", ASK_NAME_BYTES_MAX);
	snprintf(reader->question->name, sizeof(reader->question->name), "%.*s", (int)bytes, reader->at);
	reader->at += bytes + 1;
	return 0;
}

static int take_shape(struct reader *reader)
{
	static const char *const shapes[] = {[ASK_COUNT] = "count", [ASK_HIST] = "hist", [ASK_SUMMARY] = "summary"};

	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (take_keyword(reader, shapes[i])) {
			reader->question->shape = (enum ask_shape)i;
			return 0;
		}
	refuse(reader, reader->at, "ask-shape", "`%.40s` is no question", reader->at);
	error_hint(reader->error, "write count, hist or summary, as in `count syscall:openat:call by comm`");
	return -EINVAL;
}

static int take_glob(struct reader *reader)
{
	struct ask_question *question = reader->question;
	size_t bytes = word_bytes(reader);
	const char *place = reader->at;
	int err;

	if (!bytes)
		return refuse(reader, place, "ask-incomplete", "a probe is missing, as in `count syscall:openat:call`");
	if (question->globs == ASK_PROBES_MAX)
		return refuse(reader, place, "too-many-probes", "more than %u probes", ASK_PROBES_MAX);
	question->glob[question->globs] = strndup(place, bytes);
	if (!question->glob[question->globs])
		return error_set(reader->error, ENOMEM, "out-of-memory", "out of memory");
	reader->at += bytes;
	err = reader->catalog ? probe_set_add_glob(&reader->probes, question->glob[question->globs++], reader->catalog,
						   reader->error) :
				probe_set_check_glob(question->glob[question->globs++], reader->error);
	return err ? blame(reader, place, err) : 0;
}

static int take_globs(struct reader *reader)
{
	int err;

	do
		err = take_glob(reader);
	while (!err && take_comma(reader));
	return err;
}

static int refuse_field(struct reader *reader, const char *place, const char *name)
{
	char near[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	refuse(reader, place, "ask-field", "no event of these probes has `%.40s`", name);
	nearest_init(&nearest, name);
	ask_key_offer(&nearest, reader->catalog, &reader->probes);
	if (nearest_text(&nearest, near))
		error_hint(reader->error, "did you mean %s?", near);
	else
		error_hint(reader->error, "`tracectl list SPEC` prints the fields; every event has comm, pid, tid,"
			   " uid, cpu, probe, function, exe, container and unit");
	return -EINVAL;
}

/* The name of a field; *numeric tells whether it can be added up. */
static int take_field(struct reader *reader, char name[NAME_BYTES_MAX + 1], bool *numeric)
{
	size_t bytes = word_bytes(reader);
	const char *place = reader->at;
	struct ask_field field;

	if (!bytes)
		return refuse(reader, place, "ask-incomplete", "the name of a field is missing");
	snprintf(name, NAME_BYTES_MAX + 1, "%.*s", (int)(bytes < NAME_BYTES_MAX ? bytes : NAME_BYTES_MAX), place);
	reader->at += bytes;
	*numeric = true;
	if (!ask_field_name_fits(name))
		return refuse(reader, place, "ask-field", "`%.40s` is no name of a field", name);
	if (!reader->catalog)
		return 0;
	if (!ask_field_find(name, reader->catalog, &reader->probes, &field))
		return refuse_field(reader, place, name);
	*numeric = field.numeric;
	reader->question->flags |= field.flags;
	return 0;
}

static int take_by(struct reader *reader)
{
	struct ask_question *question = reader->question;
	bool ignored;
	int err;

	do {
		const char *place;

		skip_blanks(reader);
		place = reader->at;
		if (question->bys == ASK_BY_MAX)
			return refuse(reader, place, "ask-field", "by more than %u fields", ASK_BY_MAX);
		err = take_field(reader, question->by[question->bys], &ignored);
		for (unsigned i = 0; i < question->bys && !err; i++)
			if (strcmp(question->by[i], question->by[question->bys]) == 0)
				err = refuse(reader, place, "ask-field", "by `%s` twice", question->by[i]);
		question->bys++;
	} while (!err && take_comma(reader));
	return err;
}

static int take_of(struct reader *reader)
{
	struct ask_question *question = reader->question;
	bool numeric;
	const char *place;
	int err;

	skip_blanks(reader);
	place = reader->at;
	err = take_field(reader, question->of, &numeric);
	if (!err && !numeric)
		err = refuse(reader, place, "ask-field", "`%s` is no number", question->of);
	if (!err && question->shape != ASK_COUNT && strcmp(question->of, "duration") != 0)
		err = refuse(reader, place, "ask-field", "hist and summary are of durations, and of nothing else");
	return err;
}

static int take_top(struct reader *reader)
{
	size_t bytes = word_bytes(reader);
	const char *place = reader->at;
	char word[32];
	int err;

	snprintf(word, sizeof(word), "%.*s", (int)(bytes < sizeof(word) ? bytes : sizeof(word) - 1), place);
	reader->at += bytes;
	err = quantity_parse(word, QUANTITY_COUNT, &reader->question->top, reader->error);
	if (err)
		return blame(reader, place, err);
	if (!reader->question->top || reader->question->top > ASK_TOP_MAX)
		return refuse(reader, place, "ask-top", "top takes 1 to %u", ASK_TOP_MAX);
	return 0;
}

/* All the rest. It is looked at behind as many blanks as there is text before it, so that columns are the question's. */
static int take_filter(struct reader *reader)
{
	char padded[FILTER_BYTES_MAX + 256];
	struct filter *filter;
	int err;

	skip_blanks(reader);
	free(reader->question->filter);
	reader->question->filter = strdup(reader->at);
	if (!reader->question->filter)
		return error_set(reader->error, ENOMEM, "out-of-memory", "out of memory");
	if (strlen(reader->text) >= sizeof(padded))
		return refuse(reader, reader->at, "ask-too-long", "a question has at most %zu bytes", sizeof(padded) - 1);
	snprintf(padded, sizeof(padded), "%*s%s", (int)(reader->at - reader->text), "", reader->at);
	err = filter_compile(padded, reader->catalog, &filter, reader->error);
	if (!err)
		filter_destroy(filter);
	else if (strncmp(reader->error->what, "filter, ", 8) == 0)
		memmove(reader->error->what, reader->error->what + 8, strlen(reader->error->what + 8) + 1);
	reader->at += strlen(reader->at);
	return err;
}

static int take_parts(struct reader *reader)
{
	int err = 0;

	while (!err && word_bytes(reader)) {
		if (take_keyword(reader, "by"))
			err = take_by(reader);
		else if (take_keyword(reader, "of"))
			err = take_of(reader);
		else if (take_keyword(reader, "top"))
			err = take_top(reader);
		else if (take_keyword(reader, "where"))
			return take_filter(reader);
		else
			err = refuse(reader, reader->at, "ask-rest", "`%.40s` is none of `by`, `of`, `top` and `where`",
				     reader->at);
	}
	if (!err && *reader->at)
		err = refuse(reader, reader->at, "ask-rest", "`%.40s` is too much", reader->at);
	return err;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int take_question(struct reader *reader, unsigned number)
{
	int err = take_name(reader, number);

	if (!err)
		err = take_shape(reader);
	if (!err)
		err = take_globs(reader);
	if (!err)
		err = take_parts(reader);
	if (!err && reader->question->shape != ASK_COUNT)
		strcpy(reader->question->of, "duration");
	return err;
}

int ask_question_parse(const char *text, unsigned number, const Ringtail__V1__Catalog *catalog,
		       struct ask_question *question, struct error *error)
{
	struct reader reader = {.text = text, .at = text, .catalog = catalog, .question = question, .error = error};
	int err = 0;

	*question = (struct ask_question){.top = TOP_DEFAULT};
	question->text = strdup(text);
	question->filter = strdup("");
	if (!question->text || !question->filter)
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
	if (!err)
		err = take_question(&reader, number);
	if (err)
		ask_question_fini(question);
	return err;
}

void ask_question_fini(struct ask_question *question)
{
	for (unsigned i = 0; i < question->globs; i++)
		free(question->glob[i]);
	free(question->text);
	free(question->filter);
	*question = (struct ask_question){0};
}

int ask_questions_check(const struct config_words *questions, const Ringtail__V1__Catalog *catalog,
			struct error *error)
{
	char name[ASKS_MAX][ASK_NAME_BYTES_MAX + 1];
	char what[ERROR_TEXT_BYTES];
	int err = 0;

	for (unsigned i = 0; i < questions->count && !err; i++) {
		struct ask_question question;

		err = ask_question_parse(questions->word[i], i + 1, catalog, &question, error);
		if (err)
			break;
		memcpy(name[i], question.name, sizeof(name[i]));
		ask_question_fini(&question);
		for (unsigned j = 0; j < i && !err; j++)
			if (strcmp(name[i], name[j]) == 0)
				err = error_set(error, EINVAL, "ask-name", "two questions are called %s", name[i]);
	}
	if (err) {
		snprintf(what, sizeof(what), "ask: %.*s", ERROR_TEXT_BYTES - 8, error->what);
		snprintf(error->what, sizeof(error->what), "%s", what);
	}
	return err;
}
