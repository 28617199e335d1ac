/*
 * filter: the expression language of subscriptions, `-f 'pid == 12 && ret < 0 && duration > 1ms'`.
 *
 * In: text and the catalog. Out: a program that says of one event whether it passes, and the kernel
 * clauses that every event which passes also passes. Compiling happens on the main thread, running
 * on the drain workers; a compiled filter is immutable.
 */
#ifndef RINGTAIL_QUERY_FILTER_H
#define RINGTAIL_QUERY_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "kmod/uapi/ringtail.h"
#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/ringtail.pb-c.h"

struct filter;
struct probe_filter;

/* What is attached to one event: as batch_decode gives it, `arg` the number of a field. */
struct filter_texts {
	const struct batch_attachment *attachment;
	size_t attachments;
	bool undecided;			/* out: a comparison was, so the event may have passed for that */
};

/*
 * Grammar, loosest first:
 *	or:	and { "||" and }
 *	and:	not { "&&" not }
 *	not:	"!" not | "(" or ")" | compare
 *	compare: operand op operand,  op: == != < <= > >= =~ (glob)
 *		 operand [ "!" ] "in" "(" value { "," value } ")"
 *		 name "&" number		some of these bits are set
 *	operand: name | name "&" number | number | "string"
 * Names: pid tid uid ppid cpu time comm kernel probe provider function name, error (true if ret is
 * an errno; `error == ENOENT` compares by name), duration, ret, and every argument name of the
 * catalog; exe (the base name of the thread's executable file, or its path if the text has a slash),
 * cgroup (its path), container (an id; for equality its first 12 digits do). What an event does not have
 * (a field of other probes; ret and duration of a call that never returns; the text of a NULL) is absent: no
 * comparison with it holds, not even !=, and so the negation of one does.
 * arg.NAME is a field of that name, where NAME alone is something else, as arg.pid is of kill().
 * addr is the address of a socket, port its port; uid is compared with a user's name too (user_names.h).
 * A field that is the address of a text is compared with a text as that text, with a number as an address.
 * Of a text that is cut or was not recorded a comparison may be undecided (filter_text.h): an event passes
 * unless the filter says no whatever the text is.
 * Numbers: decimal, 0x, with a unit ns us ms s / KiB MiB GiB (1.5ms); and the names of constants in the kernel's
 * headers: O_WRONLY, SIGKILL, AF_INET (query/constants.def). Beside a field, what the kernel's print format calls its
 * numbers (kernel_names.h), in quotes or not: vec == RCU, gfp_flags & __GFP_ZERO; this comes before all other names.
 *
 * Text longer than FILTER_BYTES_MAX, or nested or longer than its bounds, is an error like any
 * other: -EINVAL, with the column and the nearest known name. An empty text is NULL and 0.
 *
 * Without a catalog (NULL) whatever could be an argument's name or a probe's is taken for one: what is
 * compiled tells that the text is a filter, and is of no other use.
 */
int filter_compile(const char *text, const Ringtail__V1__Catalog *catalog, struct filter **filter,
		   struct error *error);
void filter_destroy(struct filter *filter);

/* "arg.pid" is the field "pid". Any other name is returned as it is. */
const char *filter_field_name(const char *name);

/*
 * Whether the event passes; a NULL filter passes everything. Of a thread that nobody has introduced, all
 * but its tid is zero: it has no other name, and comparisons with what it lacks do not hold. texts: what is
 * attached to the event; NULL: nothing.
 */
bool filter_pass(const struct filter *filter, uint32_t cpu, const struct batch_event *event,
		 const struct batch_thread *thread, struct filter_texts *texts);

/* Whether it asks for the text of a field: then events want RT_FLAG_STRINGS, and filter_pass() their texts. */
bool filter_asks_strings(const struct filter *filter);

/* Whether it asks only who did it, and on which CPU: one answer for all of a thread's events there. */
bool filter_by_thread(const struct filter *filter);

/* Whether it asks for what a batch has only with its context: exe, cgroup, container. */
bool filter_asks_context(const struct filter *filter);

/* Whether whatever passes its clauses passes the filter, too: then the kernel can decide alone. */
bool filter_is_of_kernel(const struct filter *filter);

/*
 * Fills at most `max` clauses whose disjunction is implied by the filter, and returns how many; 0:
 * the kernel must let everything through (no filter, nothing it can check, or too many clauses).
 */
unsigned filter_kernel_clauses(const struct filter *filter, struct rt_filter_clause *clause,
			       unsigned max);

/*
 * Lets the events of one probe of programs pass `to` that may pass this filter, too; NULL passes everything. `words`: so
 * many of the probe's fields are in a record as the program writes it.
 */
void filter_narrow(const struct filter *filter, uint16_t probe, uint32_t words, struct probe_filter *to);

/*
 * A refusal of a filter that was put behind a parenthesis of ours: its column, in words too, as the person
 * wrote it.
 */
void filter_refusal_shift(char *what, size_t bytes, uint32_t *column);

#endif
