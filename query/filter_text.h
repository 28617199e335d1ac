/*
 * filter_text: comparisons with the text of an event, which may be cut or missing.
 *
 * A comparison is undecided if some texts that begin like the one at hand would pass, and others not:
 *
 *	at hand		whole	== "abc"	=~ "ab*"	=~ "*c"
 *	abc		yes	yes		yes		yes
 *	ab...		no	undecided	yes		undecided
 *	ax...		no	no		no		undecided
 *
 * Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_FILTER_TEXT_H
#define RINGTAIL_QUERY_FILTER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "query/filter.h"
#include "query/filter_tree.h"

enum filter_verdict {
	VERDICT_NO,
	VERDICT_YES,
	VERDICT_UNDECIDED,
};

/* The text of field `index`; NULL: none is attached. What that says of a comparison. */
const struct batch_attachment *filter_text_find(const struct filter_texts *texts, unsigned index);
enum filter_verdict filter_text_missing(uint16_t probe, uint64_t word);

/* The same of the text of a field, as its place says. `word` is the field's: 0 may say that there is none. */
enum filter_verdict filter_text_of_field(enum filter_op op, const char *wanted,
					 const struct filter_texts *texts,
					 const struct batch_event *event, struct filter_place place,
					 uint64_t word);

#endif
