#include "daemon/trigger/rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/constant.h"
#include "query/filter.h"
#include "query/nearest.h"
#include "query/probe_set.h"
#include "query/quantity.h"

#define EVERY_NS_DEFAULT	60000000000ull
#define WORD_BYTES		(NAME_BYTES_MAX + 1)

/* What has been read of the text. */
struct reader {
	const char *text, *at;
	const char *secret;	/* what of it is not shown */
	size_t secret_bytes;
	const Ringtail__V1__Catalog *catalog;
	struct trigger_rule *rule;
	struct error *error;
};

/* ---- Words ----------------------------------------------------------------------------------- */

static void skip_blanks(struct reader *reader)
{
	while (isspace((unsigned char)*reader->at))
		reader->at++;
}

static unsigned column_of(const struct reader *reader, const char *place)
{
	return (unsigned)(place - reader->text) + 1;
}

__attribute__((format(printf, 4, 5)))
static int refuse(const struct reader *reader, const char *place, const char *code,
		  const char *format, ...)
{
	char what[ERROR_TEXT_BYTES - 64];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	error_set(reader->error, EINVAL, code, "column %u: %s", column_of(reader, place), what);
	reader->error->column = column_of(reader, place);
	return -EINVAL;
}

static int refuse_memory(const struct reader *reader)
{
	return error_set(reader->error, ENOMEM, "out-of-memory", "out of memory");
}

/* An error of somebody who knows nothing of the rule, about the word at `place`. */
static int blame(const struct reader *reader, const char *place, int err)
{
	char what[ERROR_TEXT_BYTES];

	snprintf(what, sizeof(what), "column %u: %.*s", column_of(reader, place),
		 ERROR_TEXT_BYTES - 64, reader->error->what);
	snprintf(reader->error->what, sizeof(reader->error->what), "%s", what);
	reader->error->column = column_of(reader, place);
	return err;
}

/* The next word, up to a blank, a comma or `end`: how long it is. */
static size_t word_bytes(struct reader *reader, char end)
{
	size_t bytes = 0;

	skip_blanks(reader);
	while (reader->at[bytes] && !isspace((unsigned char)reader->at[bytes]) &&
	       reader->at[bytes] != ',' && reader->at[bytes] != end)
		bytes++;
	return bytes;
}

/* Takes the next word, which must be there. It is cut if it is longer than any that means something. */
static int take_word(struct reader *reader, const char *what, char word[WORD_BYTES])
{
	size_t bytes = word_bytes(reader, '\0');

	if (!bytes)
		return refuse(reader, reader->at, "trigger-incomplete", "%s is missing", what);
	snprintf(word, WORD_BYTES, "%.*s", (int)(bytes < WORD_BYTES ? bytes : WORD_BYTES - 1),
		 reader->at);
	reader->at += bytes;
	return 0;
}

/* Takes the next word if it is that one. */
static bool take_keyword(struct reader *reader, const char *keyword)
{
	size_t bytes = word_bytes(reader, '\0');

	if (bytes != strlen(keyword) || memcmp(reader->at, keyword, bytes) != 0)
		return false;
	reader->at += bytes;
	return true;
}

static int take_time(struct reader *reader, uint64_t min_ns, uint64_t max_ns, uint64_t *ns)
{
	char word[WORD_BYTES], low[QUANTITY_TEXT_BYTES], high[QUANTITY_TEXT_BYTES];
	const char *place;
	int err = take_word(reader, "a time, as in 30s,", word);

	if (err)
		return err;
	place = reader->at - strlen(word);
	err = quantity_parse(word, QUANTITY_DURATION, ns, reader->error);
	if (err)
		return blame(reader, place, err);
	if (*ns >= min_ns && *ns <= max_ns)
		return 0;
	return refuse(reader, place, "trigger-out-of-range", "%.40s is not between %s and %s", word,
		      quantity_text(min_ns, QUANTITY_DURATION, low),
		      quantity_text(max_ns, QUANTITY_DURATION, high));
}

static int check_spec(struct reader *reader, const char *place, const char *spec)
{
	struct probe_set probes = {0};
	int err = reader->catalog ?
			  probe_set_add_glob(&probes, spec, reader->catalog, reader->error) :
			  probe_set_check_glob(spec, reader->error);

	return err ? blame(reader, place, err) : 0;
}

/* ---- The condition --------------------------------------------------------------------------- */

/* The quote that ends the condition, which is not in a "text" of the filter; NULL: none does. */
static const char *find_quote(const char *at)
{
	bool quoted = false;

	for (; *at; at++) {
		if (quoted && *at == '\\' && at[1])
			at++;
		else if (*at == '"')
			quoted = !quoted;
		else if (*at == '\'' && !quoted)
			return at;
	}
	return NULL;
}

static int add_glob(struct reader *reader, const char *glob, size_t bytes)
{
	struct trigger_rule *rule = reader->rule;

	if (rule->globs == TRIGGER_PROBES_MAX)
		return refuse(reader, glob, "too-many-probes", "more than %u probes",
			      TRIGGER_PROBES_MAX);
	rule->glob[rule->globs] = strndup(glob, bytes);
	if (!rule->glob[rule->globs])
		return refuse_memory(reader);
	return check_spec(reader, glob, rule->glob[rule->globs++]);
}

static int take_globs(struct reader *reader)
{
	int err = 0;

	do {
		size_t bytes = word_bytes(reader, '\'');

		if (!bytes)
			return refuse(reader, reader->at, "trigger-incomplete",
				      "a probe is missing, as in 'syscall:fsync:call duration > 50ms'");
		err = add_glob(reader, reader->at, bytes);
		reader->at += bytes;
	} while (!err && *reader->at == ',' && reader->at++);
	return err;
}

/* Up to `end`. It is looked at behind as many blanks as there is text before it, so that columns are the rule's. */
static int take_filter(struct reader *reader, const char *end)
{
	size_t before, bytes;
	struct filter *filter;
	char *text;
	int err;

	skip_blanks(reader);
	before = (size_t)(reader->at - reader->text);
	bytes = (size_t)(end - reader->at);
	reader->rule->filter = strndup(reader->at, bytes);
	text = malloc(before + bytes + 1);
	if (!reader->rule->filter || !text) {
		free(text);
		return refuse_memory(reader);
	}
	memset(text, ' ', before);
	memcpy(text + before, reader->at, bytes);
	text[before + bytes] = '\0';
	err = filter_compile(text, reader->catalog, &filter, reader->error);
	free(text);
	if (!err)
		filter_destroy(filter);
	else if (reader->error && strncmp(reader->error->what, "filter, ", 8) == 0)
		memmove(reader->error->what, reader->error->what + 8,
			strlen(reader->error->what + 8) + 1);
	reader->at = end + 1;
	return err;
}

static int take_quoted(struct reader *reader)
{
	const char *begin = reader->at++, *end = find_quote(reader->at);
	int err;

	if (!end)
		return refuse(reader, begin, "trigger-open-quote", "the condition that begins here has no closing '");
	err = take_globs(reader);
	return err ? err : take_filter(reader, end);
}

/* A condition that has a word of its own. */
static int take_named(struct reader *reader, const char *spec, const char *filter)
{
	struct trigger_rule *rule = reader->rule;

	rule->glob[0] = strdup(spec);
	rule->filter = strdup(filter);
	if (!rule->glob[0] || !rule->filter)
		return refuse_memory(reader);
	rule->globs = 1;
	return check_spec(reader, reader->at, spec);
}

/* As the kernel sends it, so that the event is the sender's; one that is ignored was not delivered. */
static int take_signal(struct reader *reader)
{
	char word[WORD_BYTES], filter[64];
	int64_t number;
	const char *place;
	int err = take_word(reader, "a signal, as in SIGSEGV,", word);

	if (err)
		return err;
	place = reader->at - strlen(word);
	if (strncmp(word, "SIG", 3) != 0 || strchr(word, '_') || !constant_find(word, &number))
		return refuse(reader, place, "trigger-signal", "no signal is called `%.40s`", word);
	snprintf(filter, sizeof(filter), "sig == %.40s && result == 0", word);
	return take_named(reader, "tracepoint:signal:signal_generate", filter);
}

static int take_condition(struct reader *reader)
{
	skip_blanks(reader);
	if (*reader->at == '\'')
		return take_quoted(reader);
	if (take_keyword(reader, "signal"))
		return take_signal(reader);
	if (take_keyword(reader, "oom"))
		return take_named(reader, "tracepoint:oom:mark_victim", "");
	refuse(reader, reader->at, "trigger-condition", "`%.40s` is no condition", reader->at);
	error_hint(reader->error, "write 'SPEC FILTER' between quotes, `signal SIGSEGV` or `oom`");
	return -EINVAL;
}

static int take_rate(struct reader *reader)
{
	char word[WORD_BYTES];
	const char *place;
	char *slash;
	int err;

	if (!take_keyword(reader, "at"))
		return 0;
	err = take_word(reader, "a rate, as in 100/s,", word);
	if (err)
		return err;
	place = reader->at - strlen(word);
	slash = strchr(word, '/');
	if (!slash || strcmp(slash, "/s") != 0)
		return refuse(reader, place, "trigger-rate", "`%.40s` is no rate, as in 100/s", word);
	*slash = '\0';
	err = quantity_parse(word, QUANTITY_COUNT, &reader->rule->matches_per_s, reader->error);
	if (err)
		return blame(reader, place, err);
	return reader->rule->matches_per_s ? 0 :
	       refuse(reader, place, "trigger-rate", "a rate is at least 1/s");
}

/* ---- The actions ----------------------------------------------------------------------------- */

static int take_enable(struct reader *reader)
{
	char word[WORD_BYTES];
	const char *place;
	int err = take_word(reader, "a probe, as in sched:sched_switch,", word);

	if (err)
		return err;
	place = reader->at - strlen(word);
	reader->rule->enable = strdup(word);
	if (!reader->rule->enable)
		return refuse_memory(reader);
	err = check_spec(reader, place, word);
	return err ? err : take_time(reader, TRIGGER_ENABLE_NS_MIN, TRIGGER_ENABLE_NS_MAX,
				     &reader->rule->enable_ns);
}

/* A URL of which only the beginning is looked at here. A comma in it is written %2C. */
static int take_url(struct reader *reader)
{
	size_t bytes = word_bytes(reader, '\0');
	const char *place = reader->at;

	if (!bytes)
		return refuse(reader, place, "trigger-incomplete", "a URL, as in https://host/path, is missing");
	if (strncmp(place, "http://", 7) != 0 && strncmp(place, "https://", 8) != 0)
		return refuse(reader, place, "trigger-url", "a URL begins with http:// or https://");
	reader->rule->url = strndup(place, bytes);
	reader->at += bytes;
	reader->secret = place + strcspn(place, ":") + 3;
	reader->secret += strcspn(reader->secret, "/?#, ");
	reader->secret_bytes = (size_t)(reader->at - reader->secret);
	return reader->rule->url ? 0 : refuse_memory(reader);
}

static int refuse_action(struct reader *reader)
{
	static const char *const actions[] = {"log", "dump", "enable", "call"};
	char near[NEAREST_TEXT_BYTES], word[WORD_BYTES];
	const char *place = reader->at;
	struct nearest nearest;
	int err = take_word(reader, "what to do (log, dump TIME, enable SPEC TIME, call URL)", word);

	if (err)
		return err;
	nearest_init(&nearest, word);
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		nearest_offer(&nearest, actions[i]);
	refuse(reader, place, "trigger-action", "`%.40s` is no action", word);
	if (nearest_text(&nearest, near))
		error_hint(reader->error, "did you mean %s?", near);
	else
		error_hint(reader->error, "write log, dump TIME, enable SPEC TIME or call URL, with commas between");
	return -EINVAL;
}

static int take_action(struct reader *reader)
{
	struct trigger_rule *rule = reader->rule;
	const char *place;

	skip_blanks(reader);
	place = reader->at;
	if (take_keyword(reader, "log"))
		return 0;
	if (take_keyword(reader, "dump"))
		return rule->dump_ns ? refuse(reader, place, "trigger-twice", "dump stands here twice") :
				       take_time(reader, TRIGGER_DUMP_NS_MIN, TRIGGER_DUMP_NS_MAX,
						 &rule->dump_ns);
	if (take_keyword(reader, "enable"))
		return rule->enable ?
			       refuse(reader, place, "trigger-twice", "enable stands here twice") :
			       take_enable(reader);
	if (take_keyword(reader, "call"))
		return rule->url ? refuse(reader, place, "trigger-twice", "call stands here twice") :
				   take_url(reader);
	return refuse_action(reader);
}

static int take_actions(struct reader *reader)
{
	int err;

	do {
		err = take_action(reader);
		skip_blanks(reader);
	} while (!err && *reader->at == ',' && reader->at++);
	return err;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* A name is a word before a colon and a blank: the colons of a probe have no blank behind them. */
static int take_name(struct reader *reader, unsigned number)
{
	size_t bytes;

	skip_blanks(reader);
	bytes = strspn(reader->at, "abcdefghijklmnopqrstuvwxyz0123456789-_");
	if (!bytes || reader->at[bytes] != ':') {
		snprintf(reader->rule->name, sizeof(reader->rule->name), "trigger-%u", number);
		return 0;
	}
	if (bytes >= sizeof(reader->rule->name))
		return refuse(reader, reader->at, "trigger-name", "a name has at most %u characters",
			      TRIGGER_NAME_BYTES_MAX);
	snprintf(reader->rule->name, sizeof(reader->rule->name), "%.*s", (int)bytes, reader->at);
	reader->at += bytes + 1;
	return 0;
}

static int take_rule(struct reader *reader, unsigned number)
{
	int err = take_name(reader, number);

	if (!err)
		err = take_condition(reader);
	if (!err)
		err = take_rate(reader);
	if (!err)
		err = take_actions(reader);
	if (!err && take_keyword(reader, "every"))
		err = take_time(reader, TRIGGER_EVERY_NS_MIN, TRIGGER_EVERY_NS_MAX,
				&reader->rule->every_ns);
	skip_blanks(reader);
	if (!err && *reader->at)
		err = refuse(reader, reader->at, "trigger-rest", "`%.40s` is too much: a comma is"
			     " between actions, `every TIME` at the end", reader->at);
	return err;
}

static int make_shown(struct reader *reader)
{
	const char *secret = reader->secret_bytes > 1 ? reader->secret : reader->at;
	size_t bytes = reader->secret_bytes > 1 ? reader->secret_bytes : 0;

	if (asprintf(&reader->rule->shown, "%.*s%s%s", (int)(secret - reader->text), reader->text,
		     bytes ? "/..." : "", secret + bytes) >= 0)
		return 0;
	reader->rule->shown = NULL;
	return refuse_memory(reader);
}

int trigger_rule_parse(const char *text, unsigned number, const Ringtail__V1__Catalog *catalog,
		       struct trigger_rule *rule, struct error *error)
{
	struct reader reader = {
		.text = text, .at = text, .catalog = catalog, .rule = rule, .error = error,
	};
	int err;

	*rule = (struct trigger_rule){.every_ns = EVERY_NS_DEFAULT};
	rule->text = strdup(text);
	err = rule->text ? take_rule(&reader, number) : refuse_memory(&reader);
	if (!err)
		err = make_shown(&reader);
	if (err)
		trigger_rule_fini(rule);
	return err;
}

void trigger_rule_fini(struct trigger_rule *rule)
{
	for (unsigned i = 0; i < rule->globs; i++)
		free(rule->glob[i]);
	free(rule->text);
	free(rule->shown);
	free(rule->filter);
	free(rule->enable);
	free(rule->url);
	*rule = (struct trigger_rule){0};
}

bool trigger_rules_call(const struct config_words *rules)
{
	struct trigger_rule rule;
	struct error ignored;
	bool any = false;

	for (unsigned i = 0; i < rules->count && !any; i++)
		if (trigger_rule_parse(rules->word[i], i + 1, NULL, &rule, &ignored) == 0) {
			any = rule.url;
			trigger_rule_fini(&rule);
		}
	return any;
}

static int refuse_name(const char *name, struct error *error)
{
	error_set(error, EINVAL, "trigger-name", "two triggers are called %s", name);
	error_hint(error, "give each a name of its own, as in `slow-fsync: '...' dump 30s`");
	return -EINVAL;
}

int trigger_rules_check(const struct config_words *rules, const Ringtail__V1__Catalog *catalog,
			struct error *error)
{
	char name[TRIGGERS_MAX][TRIGGER_NAME_BYTES];
	char what[ERROR_TEXT_BYTES];
	int err = 0;

	for (unsigned i = 0; i < rules->count && !err; i++) {
		struct trigger_rule rule;

		err = trigger_rule_parse(rules->word[i], i + 1, catalog, &rule, error);
		if (err)
			break;
		memcpy(name[i], rule.name, sizeof(name[i]));
		trigger_rule_fini(&rule);
		for (unsigned j = 0; j < i && !err; j++)
			if (strcmp(name[i], name[j]) == 0)
				err = refuse_name(name[i], error);
	}
	if (err) {
		snprintf(what, sizeof(what), "on: %.*s", ERROR_TEXT_BYTES - 8, error->what);
		snprintf(error->what, sizeof(error->what), "%s", what);
	}
	return err;
}
