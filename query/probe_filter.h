/*
 * probe_filter: what filters ask of the events of one probe that programs have, as tests that a program makes before it
 * writes an event (struct rt_program_test).
 *
 * In: filters, one after the other: an event passes if it passes one of them. Out: the same tests for a process, of which
 * the pid and the user are known. What a program cannot look at counts as if it let the event pass: whoever filters
 * again passes on no more and no less. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_PROBE_FILTER_H
#define RINGTAIL_QUERY_PROBE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#define RT_PROBE_LAYOUT_ONLY
#include "proto/ringtail-probe.h"

/* Beside enum rt_program_test_kind: ranges of what is the same for all events of a process. */
enum probe_filter_kind {
	PROBE_FILTER_PID = 64,
	PROBE_FILTER_UID = 65,
};

struct probe_filter {
	uint8_t first;		/* of the tests; RT_PROGRAM_PASS: nothing is asked; RT_PROGRAM_FAIL: no event passes */
	uint8_t tests;
	bool whole;		/* nothing was left out that a filter asks */
	bool asks_texts;	/* else a program compares none */
	struct rt_program_test test[RT_PROGRAM_TESTS_MAX];
};

/* No filter yet: no event passes. */
void probe_filter_init(struct probe_filter *filter);

/* Every event passes. */
void probe_filter_open(struct probe_filter *filter);

/*
 * Adds a test, unless it makes no difference. The place to go on at: its number, or where both of its ways lead. False:
 * there is no room.
 */
bool probe_filter_add(struct probe_filter *filter, const struct rt_program_test *test, uint8_t *place);

/*
 * Adds the tests that are left for a process to those that `to` has for other probes. Where an event of it goes on at
 * first: RT_PROGRAM_PASS, too, if there is no room.
 */
uint8_t probe_filter_settle(const struct probe_filter *filter, uint32_t pid, uint32_t uid, struct probe_filter *to);

#endif
