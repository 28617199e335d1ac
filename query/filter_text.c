#include "query/filter_text.h"

#include <string.h>

#include "query/glob.h"

static enum filter_verdict verdict_of(bool yes)
{
	return yes ? VERDICT_YES : VERDICT_NO;
}

static enum filter_verdict compare_equal(const char *wanted, const char *text, size_t bytes, bool cut)
{
	size_t wanted_bytes = strlen(wanted);

	if (!cut)
		return verdict_of(bytes == wanted_bytes && !memcmp(text, wanted, bytes));
	return bytes <= wanted_bytes && !memcmp(text, wanted, bytes) ? VERDICT_UNDECIDED : VERDICT_NO;
}

static enum filter_verdict compare_glob(const char *glob, const char *text, size_t bytes, bool cut)
{
	if (!cut)
		return verdict_of(glob_match(glob, text, bytes));
	if (!glob_may_match(glob, text, bytes))
		return VERDICT_NO;
	return glob_ends_open(glob) && glob_match(glob, text, bytes) ? VERDICT_YES : VERDICT_UNDECIDED;
}

static enum filter_verdict negated(enum filter_verdict verdict)
{
	return verdict == VERDICT_UNDECIDED ? verdict : verdict_of(verdict == VERDICT_NO);
}

/* op: EQ, NE or MATCH. `cut`: the text goes on, nobody knows how. */
static enum filter_verdict compare(enum filter_op op, const char *wanted, const char *text, size_t bytes,
				   bool cut)
{
	switch (op) {
	case FILTER_MATCH:
		return compare_glob(wanted, text, bytes, cut);
	case FILTER_NE:
		return negated(compare_equal(wanted, text, bytes, cut));
	default:
		return compare_equal(wanted, text, bytes, cut);
	}
}

const struct batch_attachment *filter_text_find(const struct filter_texts *texts, unsigned index)
{
	for (size_t i = 0; texts && i < texts->attachments; i++)
		if (texts->attachment[i].kind == RT_ATTACH_STRING && texts->attachment[i].arg == index)
			return &texts->attachment[i];
	return NULL;
}

/*
 * A system call that was given NULL has no text. Any other has one, which was not recorded, or could not be
 * read; and of a tracepoint the word says nothing.
 */
enum filter_verdict filter_text_missing(uint16_t probe, uint64_t word)
{
	return probe >= RT_PROBE_SYSCALL_CALL && !word ? VERDICT_NO : VERDICT_UNDECIDED;
}

/* Up to its first NUL, in the event's own words: whole, as the kernel had it. */
static enum filter_verdict compare_words(enum filter_op op, const char *wanted,
					 const struct batch_event *event, struct filter_place place)
{
	const char *text = (const char *)&event->field[place.index];
	size_t room = (event->fields - place.index) * sizeof(event->field[0]);

	return compare(op, wanted, text, strnlen(text, place.text_bytes < room ? place.text_bytes : room), false);
}

enum filter_verdict filter_text_of_field(enum filter_op op, const char *wanted,
					 const struct filter_texts *texts,
					 const struct batch_event *event, struct filter_place place,
					 uint64_t word)
{
	const struct batch_attachment *at = filter_text_find(texts, place.index);
	size_t bytes = at ? at->text_bytes : 0;

	if (place.text_bytes == TEXT_ATTACHED) {
		bool cut = bytes < word && !(bytes && memchr(at->text, 0, bytes));

		return at || !word ? compare(op, wanted, at ? (const char *)at->text : "",
					     bytes ? strnlen((const char *)at->text, bytes) : 0, cut) :
				     VERDICT_UNDECIDED;
	}
	if (place.text_bytes != TEXT_POINTED)
		return compare_words(op, wanted, event, place);
	return at ? compare(op, wanted, (const char *)at->text, bytes, bytes >= STRING_BYTES_MAX) :
		    filter_text_missing(event->probe, word);
}
