/*
 * counting: a question's events counted where they are drained, instead of encoded one by one.
 *
 *	record ─► key: the bytes that decide the texts of `by` ─► row: counts, tally
 *
 * The first event of a key is encoded, but for the fields that nobody asks for, and stands for all that have the same
 * key. A client makes the texts of that event as of any other, so no text is made here. Keys may differ where texts are equal: the client adds such rows.
 *
 * A struct question does not change once it is made; a struct counting is its worker's. No memory is allocated for a
 * record.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_COUNTING_H
#define RINGTAIL_DAEMON_COLLECT_COUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/ring/probe_table.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/thread_table.h"
#include "proto/batch_counts.h"
#include "query/error.h"
#include "query/probe_set.h"

/* ---- What is asked --------------------------------------------------------------------------- */

/* As a client asks it. All of it borrowed. */
struct question_request {
	const char *const *by;
	size_t bys;
	const char *of;			/* "": nothing */
	uint64_t interval_ns, origin_ns;
};

struct question;

/*
 * The probes of which it asks no more than how many events there were of each, or how many failed: whoever counts them
 * need not know who made them, nor when. Borrowed.
 */
const struct probe_set *question_plain_probes(const struct question *question);

/* -EINVAL with *error: it is out of bounds; -ENOMEM. What no event of these probes has is a name like any other. */
int question_create(const struct question_request *request, const struct probe_set *probes,
		    const Ringtail__V1__Catalog *catalog, struct question **question, struct error *error);
void question_destroy(struct question *question);

/* Either may be NULL: nothing is counted. */
bool question_equal(const struct question *a, const struct question *b);

/*
 * When the slice that has that time begins: no row counts events of two slices. An interval is one, or is cut into
 * several of QUESTION_SLICE_NS. Without intervals all time is one, which begins at 0.
 */
uint64_t question_slice(const struct question *question, uint64_t time_ns);

/* ---- Counting -------------------------------------------------------------------------------- */

struct batcher_spec;
struct counting;

/* The spec, which has a question, and the threads are borrowed. NULL: out of memory. */
struct counting *counting_create(const struct batcher_spec *spec, struct thread_table *threads);
void counting_destroy(struct counting *counting);

/* Empty again. */
void counting_clear(struct counting *counting);

/* Whether any event of its probes can still be counted. */
bool counting_has_room(const struct counting *counting);

/* How many rows there are, and how many events they stand for. */
uint32_t counting_rows(const struct counting *counting);
uint64_t counting_events(const struct counting *counting);

/* When the slice of its rows begins: what counting_add() was given first. */
uint64_t counting_slice(const struct counting *counting);

/*
 * An event of a probe of the question; there is room. False: it is the first of its key, and the caller encodes it,
 * and adds it with counting_add_row().
 */
bool counting_add(struct counting *counting, const struct ring_item *item, const struct probe_info *info,
		  const struct batch_thread *thread);
void counting_add_row(struct counting *counting, const struct ring_item *item, uint64_t slice_ns);

/*
 * The same of several events at once, of a plain probe: `bad` of them have an errno as their result. Of the item, the
 * probe alone counts.
 */
bool counting_add_plain(struct counting *counting, const struct ring_item *item, uint64_t good, uint64_t bad);
void counting_add_plain_row(struct counting *counting, uint64_t slice_ns, uint64_t good, uint64_t bad);

/* The event at hand with 0 in each field, and without the texts, that the question does not ask for; borrowed. */
const struct ring_item *counting_bare(struct counting *counting, const struct ring_item *item,
				      const struct probe_info *info);

/* Message Counts of all rows, in the order in which they came; borrowed until the next call. */
const uint8_t *counting_pack(struct counting *counting, size_t *bytes);

#endif
