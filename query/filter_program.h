/*
 * filter_program: a filter as it runs: a flat list of tests, each with the places to go on at.
 *
 * Made from the tree on the main thread, immutable then; run on the drain workers. There is no
 * stack and no loop: every jump goes to a lower place, so a run takes at most one step for each
 * test.
 */
#ifndef RINGTAIL_QUERY_FILTER_PROGRAM_H
#define RINGTAIL_QUERY_FILTER_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "query/filter_text.h"
#include "query/filter_tree.h"
#include "query/probe_filter.h"
#include "proto/batch_encode.h"

struct filter_program;

/*
 * Borrows the tree's fields, sets and text for its life, not its nodes. 0, or -ENOMEM with *error.
 */
int filter_program_create(const struct filter_node *root, struct filter_program **program,
			  struct error *error);
void filter_program_destroy(struct filter_program *program);

bool filter_program_run(const struct filter_program *program, uint32_t cpu,
			const struct batch_event *event, const struct batch_thread *thread,
			struct filter_texts *texts);

/* Whether a test looks at the thread's exe or cgroup. */
bool filter_program_asks_context(const struct filter_program *program);

/* Whether a test looks at the text of a field. */
bool filter_program_asks_strings(const struct filter_program *program);

/* Whether no test looks at the event itself. */
bool filter_program_by_thread(const struct filter_program *program);

/* filter_narrow() of a filter. */
void filter_program_narrow(const struct filter_program *program, uint16_t probe, uint32_t words,
			   struct probe_filter *to);

#endif
