#include "daemon/collect/redaction.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "query/file_text.h"
#include "query/glob.h"
#include "query/probe_set.h"
#include "query/socket_text.h"
#include "query/structure_text.h"

#define REDACTED_BYTES (sizeof(REDACTED_TEXT) - 1)

_Static_assert(REDACT_RULES_MAX <= 64, "a field has a bit for each rule");
_Static_assert(REDACTED_BYTES < RT_COMM_BYTES, "a thread's name can be hidden");
_Static_assert(PROBE_FIELDS_MAX <= 32, "a record has a bit for each field");

struct rule {
	const char *probe, *field, *pattern;
	char *text;			/* what they point into */
};

/* The rules that may hide something of each field of a probe. */
struct row {
	bool in_words;			/* it has texts in its words: without attachments, too */
	uint8_t fields;
	struct row_field {
		uint64_t rules;
		uint32_t bytes;		/* of an array in the words; 0: the text is attached */
		bool ends;		/* at the first zero */
	} field[];
};

struct redaction {
	unsigned rules;
	struct rule rule[REDACT_RULES_MAX];
	uint64_t of_thread[THREAD_TEXTS];	/* rules, by enum thread_text */
	struct row *_Atomic row[RT_PROBE_MAX];	/* NULL: no rule is about that probe */
};

/* ---- Rules ----------------------------------------------------------------------------------- */

static int refuse(struct error *error, const char *code, const char *rule, const char *why)
{
	error_set(error, EINVAL, code, "redact: `%.200s`: %s", rule, why);
	error_hint(error, "write PROBE FIELD PATTERN, as in `redact = syscall:open* filename "
			  "/etc/shadow*` or `redact = * * *password*`; `tracectl list` shows the fields");
	return -EINVAL;
}

/* Ends the word at *at and moves on to the next one, which may be empty. */
static char *take_word(char **at)
{
	char *word = *at;

	*at += strcspn(*at, " \t");
	if (**at)
		*(*at)++ = '\0';
	*at += strspn(*at, " \t");
	return word;
}

static const char *const thread_field[THREAD_TEXTS] = {"comm", "exe", "cgroup"};

static bool is_of_all(const struct rule *rule)
{
	return strcmp(rule->probe, "*") == 0;
}

static int parse(const char *text, struct rule *rule, struct error *error)
{
	char *at = rule->text = strdup(text);

	if (!at)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	rule->probe = take_word(&at);
	rule->field = take_word(&at);
	rule->pattern = at;
	if (!*rule->probe || !*rule->field || !*rule->pattern)
		return refuse(error, "redact-rule", text, "a rule has three parts");
	for (unsigned i = 0; i < THREAD_TEXTS; i++)
		if (strcmp(rule->field, thread_field[i]) == 0 && !is_of_all(rule))
			return refuse(error, "redact-thread", text,
				      "a thread's text is hidden in all probes or in none: write * for PROBE");
	return probe_set_check_glob(rule->probe, error);
}

int redaction_check(char *const *text, unsigned rules, struct error *error)
{
	int err = 0;

	for (unsigned i = 0; i < rules && !err; i++) {
		struct rule rule = {0};

		err = parse(text[i], &rule, error);
		free(rule.text);
	}
	return err;
}

/* ---- Probes ---------------------------------------------------------------------------------- */

/*
 * Parts that are left out may be anything, at the end and at the beginning: a rule for `openat` hides the
 * same of the call's entry, and one probe too many is better than one too few.
 */
static bool is_about(const struct rule *rule, const Ringtail__V1__Probe *probe)
{
	static const char *const whole[] = {"%s", "%s:*", "%s:*:*", "*:%s", "*:%s:*", "*:*:%s"};
	unsigned given = 1;

	for (const char *at = rule->probe; *at; at++)
		given += *at == ':';
	for (unsigned i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		char glob[NAME_BYTES_MAX + 8];
		unsigned parts = given;

		for (const char *at = whole[i]; *at; at++)
			parts += *at == ':';
		snprintf(glob, sizeof(glob), whole[i], rule->probe);
		if (parts == 3 && probe_set_glob_matches(glob, probe))
			return true;
	}
	return false;
}

static bool has_text(const Ringtail__V1__Field *field)
{
	/* A buffer's bytes, and what a descriptor stands for. */
	if (field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_HEX)
		return strchr(field->c_type, '*');
	return field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_FD ||
	       field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT ||
	       field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_STRING ||
	       field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT ||
	       field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_BYTES;
}

/* `about`: those that are about its probe. */
static uint64_t rules_of(const struct redaction *redaction, uint64_t about,
			 const Ringtail__V1__Field *field)
{
	uint64_t rules = 0;

	for (unsigned i = 0; i < redaction->rules && has_text(field); i++)
		if (about >> i & 1 &&
		    glob_match(redaction->rule[i].field, field->name, strlen(field->name)))
			rules |= 1ull << i;
	return rules;
}

/* 0: no rule is about any of them. */
static uint64_t fill_row(const struct redaction *redaction, const Ringtail__V1__Probe *probe,
			 struct row *row)
{
	uint64_t all = 0, about = 0;

	for (unsigned i = 0; i < redaction->rules; i++)
		about |= (uint64_t)is_about(&redaction->rule[i], probe) << i;
	row->fields = (uint8_t)probe->n_field;
	for (size_t i = 0; i < probe->n_field; i++) {
		const Ringtail__V1__Field *field = probe->field[i];

		row->field[i] = (struct row_field){
			.rules = rules_of(redaction, about, field),
			.bytes = field->bytes,
			.ends = field->type == RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT,
		};
		row->in_words |= row->field[i].rules && field->bytes;
		all |= row->field[i].rules;
	}
	return all;
}

/* *used: the rules that are about it. */
static int add_probe(struct redaction *redaction, const Ringtail__V1__Probe *probe, uint64_t *used)
{
	struct row *row;
	uint64_t rules;

	if (probe->id >= RT_PROBE_MAX || probe->n_field > PROBE_FIELDS_MAX)
		return -EPROTO;
	row = calloc(1, sizeof(*row) + probe->n_field * sizeof(row->field[0]));
	if (!row)
		return -ENOMEM;
	rules = fill_row(redaction, probe, row);
	*used |= rules;
	if (!rules || atomic_load_explicit(&redaction->row[probe->id], memory_order_relaxed)) {
		free(row);
		return 0;
	}
	/* Partner: redaction_event(). */
	atomic_store_explicit(&redaction->row[probe->id], row, memory_order_release);
	return 0;
}

int redaction_add(struct redaction *redaction, const Ringtail__V1__Probe *probe)
{
	uint64_t used = 0;
	int err;

	if (!redaction)
		return 0;
	err = add_probe(redaction, probe, &used);
	for (unsigned i = 0; i < redaction->rules && !err; i++)
		if (!(used >> i & 1) && is_about(&redaction->rule[i], probe) &&
		    !glob_is_pattern(redaction->rule[i].probe))
			log_warn("redact-nothing", "redact: %s:%s:%s has no text `%s`: the rule hides "
				 "nothing of it", probe->provider, probe->function, probe->name,
				 redaction->rule[i].field);
	return err;
}

static uint64_t add_threads(struct redaction *redaction)
{
	uint64_t used = 0;

	for (unsigned i = 0; i < redaction->rules; i++)
		for (unsigned kind = 0; kind < THREAD_TEXTS; kind++)
			if (is_of_all(&redaction->rule[i]) &&
			    glob_match(redaction->rule[i].field, thread_field[kind],
				       strlen(thread_field[kind]))) {
				redaction->of_thread[kind] |= 1ull << i;
				used |= 1ull << i;
			}
	return used;
}

int redaction_create(char *const *text, unsigned rules, const Ringtail__V1__Catalog *catalog,
		     bool (*is_made)(void *context, const char *glob), void *context,
		     struct redaction **out, struct error *error)
{
	struct redaction *redaction = rules ? calloc(1, sizeof(*redaction)) : NULL;
	uint64_t used;
	int err = 0;

	*out = NULL;
	if (!rules)
		return 0;
	if (!redaction || rules > REDACT_RULES_MAX) {
		free(redaction);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	for (unsigned i = 0; i < rules && !err; i++)
		err = parse(text[i], &redaction->rule[redaction->rules++], error);
	used = err ? 0 : add_threads(redaction);
	for (size_t i = 0; i < catalog->n_probe && !err; i++)
		if (catalog->probe[i]->id)
			err = add_probe(redaction, catalog->probe[i], &used);
	if (err == -ENOMEM || err == -EPROTO)
		error_set(error, -err, "out-of-memory", "redact: the rules find no room");
	for (unsigned i = 0; i < rules && !err; i++)
		if (!(used >> i & 1) && !is_made(context, redaction->rule[i].probe))
			err = refuse(error, "redact-nothing", text[i],
				     "there is no such probe, or it has no text of that name");
	if (err)
		redaction_destroy(redaction);
	else
		*out = redaction;
	return err;
}

void redaction_destroy(struct redaction *redaction)
{
	if (!redaction)
		return;
	for (unsigned i = 0; i < redaction->rules; i++)
		free(redaction->rule[i].text);
	for (unsigned i = 0; i < RT_PROBE_MAX; i++)
		free(atomic_load_explicit(&redaction->row[i], memory_order_relaxed));
	free(redaction);
}

unsigned redaction_rules(const struct redaction *redaction)
{
	return redaction ? redaction->rules : 0;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* What of a text may be missing: of one that has neither end, every rule may be about it. */
enum cut {
	CUT_NOWHERE,
	CUT_END,
	CUT_BEGIN = 2,
	CUT_BOTH = CUT_BEGIN | CUT_END,
};

static bool hides(const struct redaction *redaction, uint64_t rules, const void *text, size_t bytes,
		  enum cut cut)
{
	for (; rules; rules &= rules - 1) {
		const char *pattern = redaction->rule[__builtin_ctzll(rules)].pattern;

		if (cut == CUT_BOTH || glob_match(pattern, text, bytes) ||
		    (cut == CUT_END && glob_may_match(pattern, text, bytes)) ||
		    (cut == CUT_BEGIN && glob_may_match_end(pattern, text, bytes)))
			return true;
	}
	return false;
}

/*
 * The kernel tells the end alone of a path that is too long or too deep. Recordings of before do not say so of one
 * that was too deep: what has as many names as there is room for may be one.
 */
static enum cut cut_of_path(const char *path, size_t bytes, size_t longest)
{
	enum cut cut = bytes >= longest ? CUT_END : CUT_NOWHERE;
	unsigned names = 0;

	for (size_t i = 0; i < bytes; i++)
		names += path[i] == '/';
	return bytes && (path[0] != '/' || names >= RT_TEXT_NAMES_MAX) ? cut | CUT_BEGIN : cut;
}

/* The text without the mark that stands for its beginning. */
static const char *behind_mark(const char *text, size_t *bytes)
{
	if (*bytes <= RT_TEXT_CUT_BYTES || memcmp(text, RT_TEXT_CUT "/", RT_TEXT_CUT_BYTES + 1))
		return text;
	*bytes -= RT_TEXT_CUT_BYTES;
	return text + RT_TEXT_CUT_BYTES;
}

bool redaction_hides_comm(const struct redaction *redaction)
{
	return redaction && redaction->of_thread[THREAD_COMM];
}

/* The kernel cuts names, and leaves no trace of that but their length. */
void redaction_comm(const struct redaction *redaction, char comm[RT_COMM_BYTES])
{
	if (!redaction ||
	    !redaction_hides_text(redaction, THREAD_COMM, comm, strnlen(comm, RT_COMM_BYTES)))
		return;
	memset(comm, 0, RT_COMM_BYTES);
	memcpy(comm, REDACTED_TEXT, REDACTED_BYTES);
	counter_add(COUNTER_texts_redacted, 1);
}

bool redaction_hides_text(const void *context, enum thread_text kind, const char *text, size_t bytes)
{
	const struct redaction *redaction = context;
	const char *end = text + bytes;

	if (!redaction || (bytes == REDACTED_BYTES && !memcmp(text, REDACTED_TEXT, bytes)))
		return false;
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text)), *judged = text;
		size_t length = (size_t)((stop ? stop : end) - text), bytes_judged = length;
		enum cut cut = kind != THREAD_COMM ? cut_of_path(text, length, RT_TEXT_BYTES_MAX - 1) :
			       length >= RT_COMM_BYTES - 1 ? CUT_END : CUT_NOWHERE;

		if (cut & CUT_BEGIN)
			judged = behind_mark(text, &bytes_judged);
		if (hides(redaction, redaction->of_thread[kind], judged, bytes_judged, cut))
			return true;
		text += length + 1;
	}
	return false;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* The next attachment of a record, from *at; NULL: there is none that is whole. */
static const struct rt_attachment *next_attachment(const uint8_t **at, const uint8_t *end)
{
	const struct rt_attachment *attachment = (const void *)*at;
	size_t left = (size_t)(end - *at), bytes;

	if (left < sizeof(*attachment))
		return NULL;
	bytes = sizeof(*attachment) + ((attachment->bytes + 7ull) & ~7ull);
	if (bytes > left)
		return NULL;
	*at += bytes;
	return attachment;
}

static bool is_text(const struct rt_attachment *attachment)
{
	return attachment->kind == RT_ATTACH_STRING || attachment->kind == RT_ATTACH_SOCKADDR ||
	       attachment->kind == RT_ATTACH_FILE || attachment->kind == RT_ATTACH_DATA ||
	       attachment->kind == RT_ATTACH_STRUCTURE;
}

static uint32_t field_of(const struct rt_attachment *attachment, const struct probe_info *info)
{
	if (attachment->arg == RT_ATTACH_RESULT)
		return 1;
	return info->has_duration ? attachment->arg + 2u : attachment->arg;
}

/* A pipe, a socket and the like have no path. */
static enum cut cut_of_file(const struct rt_attachment *attachment)
{
	char text[FILE_TEXT_BYTES];
	size_t bytes = file_text_of(text, attachment->data, attachment->bytes);
	const char *path = (const char *)attachment->data + RT_FILE_HEAD_BYTES;

	if (!bytes || (text[0] != '/' && memcmp(text, ".../", 4) != 0))
		return CUT_NOWHERE;
	return cut_of_path(path, attachment->bytes - RT_FILE_HEAD_BYTES, RT_FILE_PATH_BYTES_MAX);
}

/* As it is shown; and by itself each text within that somebody else wrote. */
static bool hides_structure(const struct redaction *redaction, uint64_t rules,
			    const struct rt_attachment *attachment)
{
	struct structure_string string;
	struct structure_text text;

	for (unsigned i = 0; structure_string_of(attachment->data, attachment->bytes, i, &string); i++)
		if (hides(redaction, rules, string.at, string.bytes, string.cut ? CUT_END : CUT_NOWHERE))
			return true;
	structure_text_of(&text, attachment->data, attachment->bytes);
	return hides(redaction, rules, text.at, text.bytes, text.cut ? CUT_END : CUT_NOWHERE);
}

/* The same of a directory's entries. */
static bool hides_dirents(const struct redaction *redaction, uint64_t rules, const struct rt_attachment *attachment,
			  bool old)
{
	struct structure_string name;
	struct structure_text text;

	for (unsigned i = 0; structure_dirent_name(attachment->data, attachment->bytes, i, old, &name); i++)
		if (hides(redaction, rules, name.at, name.bytes, name.cut ? CUT_END : CUT_NOWHERE))
			return true;
	structure_dirents_of(&text, attachment->data, attachment->bytes, attachment->bytes, old);
	return text.bytes && hides(redaction, rules, text.at, text.bytes, CUT_END);
}

static bool hides_attachment(const struct redaction *redaction, const struct row_field *field,
			     const struct rt_attachment *attachment)
{
	char address[SOCKET_TEXT_BYTES], file[FILE_TEXT_BYTES];
	const void *text = attachment->data;
	size_t bytes = attachment->bytes;
	enum cut cut = bytes >= RT_STRING_BYTES_MAX ? CUT_END : CUT_NOWHERE;

	if (!field->rules)
		return false;
	if (attachment->kind == RT_ATTACH_STRUCTURE)
		return hides_structure(redaction, field->rules, attachment);
	if (attachment->kind == RT_ATTACH_SOCKADDR) {
		bytes = socket_text_of(address, text, bytes);
		text = address;
		cut = CUT_NOWHERE;
	} else if (attachment->kind == RT_ATTACH_FILE) {
		cut = cut_of_file(attachment);
		bytes = file_text_of(file, text, bytes);
		text = cut & CUT_BEGIN ? behind_mark(file, &bytes) : file;
	} else if (field->ends) {
		bytes = strnlen(text, bytes);
		cut = bytes == attachment->bytes ? cut : CUT_NOWHERE;
	}
	return hides(redaction, field->rules, text, bytes, cut);
}

/* A long path of a map is told in two pieces, of which neither may be shown if the whole is hidden. */
static uint32_t judge_map(const struct redaction *redaction, const struct row *row,
			  const struct ring_item *item, const struct probe_info *info)
{
	const uint8_t *at = (const uint8_t *)(item->payload + info->fields);
	const uint8_t *end = (const uint8_t *)(item->payload + item->words);
	const struct rt_attachment *attachment;
	char path[2 * RT_STRING_BYTES_MAX];
	size_t bytes = 0;
	uint32_t pieces = 0;
	uint64_t rules = 0;

	while ((attachment = next_attachment(&at, end))) {
		uint32_t field = field_of(attachment, info);

		if (!is_text(attachment) || field >= row->fields ||
		    attachment->bytes > sizeof(path) - bytes)
			continue;
		memcpy(path + bytes, attachment->data, attachment->bytes);
		bytes += attachment->bytes;
		rules |= row->field[field].rules;
		pieces |= 1u << field;
	}
	return hides(redaction, rules, path, bytes, bytes == sizeof(path) ? CUT_END : CUT_NOWHERE) ?
		       pieces : 0;
}

static uint32_t judge_words(const struct redaction *redaction, const struct row *row,
			    const struct ring_item *item)
{
	uint32_t hidden = 0;

	for (unsigned i = 0; i < row->fields; i++) {
		const struct row_field *field = &row->field[i];
		const char *text = (const char *)(item->payload + i);
		size_t room = (size_t)(row->fields - i) * sizeof(uint64_t);
		size_t bytes = field->bytes < room ? field->bytes : room;

		if (field->rules && bytes &&
		    hides(redaction, field->rules, text, field->ends ? strnlen(text, bytes) : bytes,
			  CUT_NOWHERE))
			hidden |= 1u << i;
	}
	return hidden;
}

/* A bit for each field that is to be hidden. */
static uint32_t judge(const struct redaction *redaction, const struct row *row,
		      const struct ring_item *item, const struct probe_info *info)
{
	const uint8_t *at = (const uint8_t *)(item->payload + info->fields);
	const uint8_t *end = (const uint8_t *)(item->payload + item->words);
	const struct rt_attachment *attachment;
	uint32_t hidden = row->in_words ? judge_words(redaction, row, item) : 0;

	if (item->probe == RT_PROBE_PROCESS_MAP)
		return judge_map(redaction, row, item, info);
	while ((attachment = next_attachment(&at, end))) {
		uint32_t field = field_of(attachment, info);

		if (!is_text(attachment) || field >= row->fields || !row->field[field].rules)
			continue;
		if (hides_attachment(redaction, &row->field[field], attachment) ||
		    (attachment->kind == RT_ATTACH_DATA && info->dirent_fields >> field & 1 &&
		     hides_dirents(redaction, row->field[field].rules, attachment,
				   info->old_dirent_fields >> field & 1)))
			hidden |= 1u << field;
	}
	return hidden;
}

static void hide_words(const struct row *row, uint32_t hidden, uint64_t *word)
{
	for (unsigned i = 0; i < row->fields; i++) {
		size_t room = (size_t)(row->fields - i) * sizeof(*word);
		size_t bytes = row->field[i].bytes < room ? row->field[i].bytes : room;

		if (!(hidden >> i & 1) || !bytes)
			continue;
		memset(word + i, 0, (bytes + 7) & ~7ull);
		memcpy(word + i, REDACTED_TEXT, bytes < REDACTED_BYTES ? bytes : REDACTED_BYTES);
	}
}

/* Returns where the next one goes. A field that is hidden has its text once, as often as it was told. */
static uint8_t *copy_attachment(uint8_t *to, const struct rt_attachment *attachment, bool hide)
{
	struct rt_attachment head = *attachment;
	const void *data = attachment->data;
	size_t bytes;

	if (hide) {
		head.kind = RT_ATTACH_STRING;
		head.bytes = REDACTED_BYTES;
		data = REDACTED_TEXT;
	}
	bytes = sizeof(head) + ((head.bytes + 7ull) & ~7ull);
	memset(to, 0, bytes);
	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), data, head.bytes);
	return to + bytes;
}

/* What finds no room any more stays away. */
static void rewrite(const struct row *row, struct ring_item *item, const struct probe_info *info,
		    uint32_t hidden, struct redaction_record *record)
{
	const uint8_t *at = (const uint8_t *)(item->payload + info->fields);
	const uint8_t *end = (const uint8_t *)(item->payload + item->words);
	uint8_t *to = (uint8_t *)(record->word + info->fields);
	const uint8_t *to_end = (const uint8_t *)(record + 1);
	const struct rt_attachment *attachment;

	memcpy(record->word, item->payload, info->fields * sizeof(record->word[0]));
	hide_words(row, hidden, record->word);
	while ((attachment = next_attachment(&at, end))) {
		uint32_t field = field_of(attachment, info);
		bool hide = is_text(attachment) && field < 32 && hidden >> field & 1;
		size_t room = sizeof(*attachment) + REDACTED_BYTES + attachment->bytes + 8;

		if ((size_t)(to_end - to) < room)
			break;
		to = copy_attachment(to, attachment, hide);
	}
	item->payload = record->word;
	item->words = (uint16_t)((to - (uint8_t *)record->word) / sizeof(record->word[0]));
}

void redaction_event(const struct redaction *redaction, struct ring_item *item,
		     const struct probe_info *info, struct redaction_record *record)
{
	/* Partner: add_probe(). */
	const struct row *row = atomic_load_explicit(&redaction->row[item->probe],
						     memory_order_acquire);
	uint32_t hidden;

	if (!row || (!row->in_words && item->words == info->fields))
		return;
	hidden = judge(redaction, row, item, info);
	if (!hidden)
		return;
	rewrite(row, item, info, hidden, record);
	counter_add(COUNTER_texts_redacted, (uint64_t)__builtin_popcount(hidden));
}
